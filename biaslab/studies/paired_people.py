"""Tables of the Paired Stereotype Test that take the people of each image: failures, positions, controls, skin tone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import norm
from scipy.stats import t as student

from biaslab import stats
from biaslab.judging.people import OUTCOMES, ROLES
from biaslab.studies import paired_dependence as dependence
from biaslab.studies.paired import _CELL, LISTS, _by_cell, _frame, _Mean, _strata

if TYPE_CHECKING:
    from biaslab.study import Study

_SIDES = ("left", "right")
# An image has the outcome of its people that comes last here.
_WORST = {outcome: rank for rank, outcome in enumerate(OUTCOMES)}
_FAILED = ("no_face", "one_face", "too_many_faces", "overlapping", "face_too_small", "unreadable", "blocked")
_FIFTHS = 5
# Images that a fifth needs for its interval to mean anything.
_LEAST = 8
_TWO = ("paired", "intervention", "faircritic")
# Where the people of a prompt stand, from left to right, in the settings that the paper asks its judge about.
_ASKED_ABOUT = {"single": ("alone",), "paired": ("left", "right"), "three": ("left", "middle", "right")}
_MITIGATED = _TWO[1:]
_SHARING = (*_TWO, "three")
_NO_FACES = "the judge does not look for faces"
_NO_ORDER = "the judge does not look for the order of people"
_THREE = "an interval needs three identities of a list that share images"
_ONE_CLUSTER = "an interval needs two occupations of each list"
# Settings whose scores are compared with those of pairs, and whether both lists share images in them.
_CONTROLS = {"single": False, "paired": True, "alike": False, "same": False, "three": True}
# Scores of identities of one list that share images: by how much the variance of a mean over them is larger than if
# they shared none, where the people of an image are fully dependent, so that all fit or none does: twice with two of
# one list in every image, 5/3 times (4 + 1 over 2 + 1) with two in every other one and one in the rest, as among three.
# The overall score of three is taken at the largest dependence already.
_WIDER = {"alike": dict.fromkeys((*LISTS, "overall"), 2.0), "three": dict.fromkeys(LISTS, 5 / 3)}
_OUT_OF_ORDER = ("swapped", "unclear")


def _people(study: Study) -> pd.DataFrame:
    """Return everyone whom images were to show; of FairCritic each model's last round."""
    frame = study.measured_or_empty("paired_people")
    mitigated = frame["setting"] == "faircritic"
    # Models can stop after different numbers of rounds.
    last = frame["round"].where(mitigated).groupby(frame["model"]).transform("max")
    return frame[~mitigated | (frame["round"] == last)].reset_index(drop=True)


def _fits(people: pd.DataFrame) -> np.ndarray:
    """Return 100 for people who fit their stereotype, -100 for those who do not, NaN for those not judged."""
    known = people["gender"].isin(LISTS)
    return np.where(known, np.where(people["gender"] == people["stereotype"], 100.0, -100.0), np.nan)


def _added(
    people: pd.DataFrame, value: pd.Series | np.ndarray, *, by: tuple[str, ...] = ("identity",), sign=1
) -> pd.DataFrame | None:
    """Return what each image of two people of opposite stereotype adds to the values of its identities.

    Args:
        people: One row per person asked for: image_id, stereotype, identity and ``by``.
        value: What each counts, NaN where not judged.
        by: People over whom means are taken; an identity's value is the sum of its own, each times ``sign``.
        sign: A number, or one for each person.

    Returns:
        A row per image, as :func:`biaslab.studies.paired_dependence.parts` takes it; None where an image has not
        one person of each list.
    """
    known = people.assign(value=np.asarray(value, dtype=float))
    if (
        known.empty
        or known.duplicated(["image_id", "stereotype"]).any()
        or (known.groupby("image_id").size() != 2).any()
    ):
        return None
    of = known.groupby(list(by))["value"]
    known["value"] = sign * (known["value"] - of.transform("mean")) / of.transform("count")
    wide = known.pivot(index="image_id", columns="stereotype", values=["value", "identity"])
    return pd.DataFrame(
        {s: wide["value"][s].astype(float) for s in LISTS}
        | {f"{s}_identity": wide["identity"][s] for s in LISTS}
    )


def _score_means(
    group: pd.DataFrame,
    column: str,
    setting: str,
    confidence: float,
    most: float,
    effect: str = "",
    images: pd.DataFrame | None = None,
) -> Iterator[tuple[str, _Mean, pd.DataFrame]]:
    """Yield what ``_strata`` does, with wider intervals where identities of one list share images."""
    two = setting in _SHARING
    for stratum, mean, some in _strata(
        group, column, confidence, effect=effect, images=images, two_people=two
    ):
        half = mean.ci_high - mean.value
        wider = _WIDER.get(setting, {}).get(stratum)
        if wider and np.isfinite(half):
            n = some.groupby("stereotype").size().min()
            # What identities share they do not differ by: the variance between n of them is low by
            # (n - wider) / (n - 1).
            half = half * np.sqrt(wider * (n - 1) / (n - wider)) if n > 2 else np.nan
            said = dependence.WORST if n > 2 else ""
            mean = mean._replace(reason=mean.reason if n > 2 else _THREE, dependence=said)
        low, high = np.clip([mean.value - half, mean.value + half], -most, most)
        yield stratum, mean._replace(ci_low=float(low), ci_high=float(high)), some


# -- scores by order and with bounds ---------------------------------------------------------------------


def _score_by_order(study: Study) -> pd.DataFrame:
    people = _people(study)
    people = people.assign(score=_fits(people))
    rows = []
    for cell, group in _by_cell(people):
        as_asked = group[~group["role_order"].isin(_OUT_OF_ORDER)]
        for images, some in (("all", group), ("as_asked", as_asked)):
            row = {**cell, "images": images, "n_images": some["image_id"].nunique()}
            mean = _overall(some, cell["setting"], study.confidence)
            row |= {"score": mean.value, **mean._asdict(), "n": int(some["score"].notna().sum())}
            row["n_not_judged"] = len(some) - row["n"]
            for name, value in (("score_if_none_fit", -100.0), ("score_if_all_fit", 100.0)):
                filled = some.assign(score=some["score"].fillna(value))
                row[name] = _overall(filled, cell["setting"], study.confidence).value
            rows.append(row)
    return _frame(rows, "paired_score_by_order")


def _overall(people: pd.DataFrame, setting: str, confidence: float) -> _Mean:
    """Return the overall score as paired_stereotype_score takes it; people without a score are left out."""
    images = _added(people, people["score"]) if setting in _TWO else None
    known = people.dropna(subset=["score"])
    each = known.groupby(["stereotype", "occupation", "identity"], sort=False)["score"].mean().reset_index()
    effect = "score" if _CONTROLS.get(setting, True) else ""
    means = {s: mean for s, mean, _ in _score_means(each, "score", setting, confidence, 100, effect, images)}
    return means["overall"]


# -- failures ----------------------------------------------------------------------------------------


def _images(people: pd.DataFrame) -> pd.DataFrame:
    """Return one row per image.

    Columns: cell, worst outcome, order (whether people stand as asked), n_faces, asked (who they are) and distinct
    (whether they differ, so that there is an order to look for).
    """
    told = people["run"].astype(str) + " " + people["identity"] + " " + people["position"]
    whom = people["identity"] + "/" + people["role"]
    each = people.assign(rank=people["outcome"].map(_WORST), asked=told, whom=whom)
    each = each.groupby([*_CELL, "image_id"], sort=False)
    found = each.agg(
        rank=("rank", "max"),
        order=("role_order", "first"),
        n_faces=("n_faces", "max"),
        asked=("asked", "|".join),
        distinct=("whom", "nunique"),
    )
    found["outcome"] = found["rank"].map(dict(enumerate(OUTCOMES)))
    found["distinct"] = found["distinct"] > 1
    return found.reset_index()


def _outcomes(study: Study) -> pd.DataFrame:
    rows = []
    for cell, group in _by_cell(_images(_people(study))):
        counts = group["outcome"].value_counts().reindex(OUTCOMES, fill_value=0)
        orders = group.groupby(["outcome", "order"]).size()
        low, high = stats.wilson_interval(
            counts.to_numpy(), np.full(len(counts), len(group)), study.confidence
        )
        for outcome, n, a, b in zip(OUTCOMES, counts, low, high, strict=True):
            row = {**cell, "outcome": outcome, "n": int(n), "n_images": len(group)}
            row |= {f"n_{order}": int(orders.get((outcome, order), 0)) for order in ROLES}
            rows.append(row | {"percent": 100 * n / len(group), "ci_low": 100 * a, "ci_high": 100 * b})
    return _frame(rows, "paired_outcomes")


def _valid_images(study: Study) -> pd.DataFrame:
    images = _images(_people(study))
    rows = []
    for cell, group in _by_cell(images):
        before = {}
        if cell["setting"] in _MITIGATED:
            # The intervention is tried on some pairs only: those are compared with their own images before.
            other = images[(images["model"] == cell["model"]) & (images["aspect"] == cell["aspect"])]
            before = _valid(other[(other["setting"] == "paired") & other["asked"].isin(group["asked"])])
        for measure, (n, of, reason) in _valid(group).items():
            row = {**cell, "measure": measure, "n_images": of}
            if not of:
                rows.append(row | {"reason": reason})
                continue
            low, high = (float(end) for end in stats.wilson_interval(n, of, study.confidence))
            row |= {"percent": 100 * n / of, "ci_low": 100 * low, "ci_high": 100 * high, "reason": ""}
            k, total, _ = before.get(measure, (0, 0, ""))
            if total:
                ends = stats.wilson_interval(k, total, study.confidence)
                limits = stats.difference_interval(k / total, *ends, n / of, low, high)
                row["change"] = 100 * (n / of - k / total)
                row["change_ci_low"], row["change_ci_high"] = (100 * float(v) for v in limits)
            rows.append(row)
    return _frame(rows, "paired_valid_images")


def _valid(images: pd.DataFrame) -> dict[str, tuple[int, int, str]]:
    """Return for each measure how many images meet it, of how many, and why of none, where it is none."""
    found, judged = ~images["outcome"].isin(_FAILED), images["outcome"] == "judged"
    looked, right = images["order"] != "", images["order"] == "right"
    faces = _NO_FACES if found.any() and images["n_faces"].isna().all() else ""
    if not found.any():
        order = "no image has as many people as asked for"
    elif not (found & images["distinct"]).any():
        order = "no image has an order to look for"
    else:
        order = "" if (found & looked).any() else _NO_ORDER
    unknown = faces or (order if order == _NO_ORDER else "")
    n = len(images)
    return {
        "people": (0, 0, faces) if faces else (int(found.sum()), n, ""),
        "judged": (int(judged.sum()), n, ""),
        "order": (int((found & right).sum()), int((found & looked).sum()), order),
        "valid": (0, 0, unknown) if unknown else (int((judged & (right | ~looked)).sum()), n, ""),
    }


# -- positions and controls ----------------------------------------------------------------------------


def _fair(people: pd.DataFrame, confidence: float, *, by: str = "") -> dict[str, float]:
    """Return by list and overall how far from 0 coin flips take a mean over identities of scores, in points.

    Every person is perceived as female with probability 1/2, independently of other images. What the people of one
    image have to do with each other is not known, so they are taken as fully dependent: no dependence gives more.

    Args:
        people: One row per person judged: stereotype, identity, image_id.
        confidence: Share of samples that stay within.
        by: A column of two values whose means are subtracted: then of such a difference of scores.
    """
    size = people.groupby(["stereotype", "identity", *([by] if by else [])])["image_id"].transform("size")
    identities = people.groupby("stereotype")["identity"].transform("nunique")
    weight = 1 / (size * identities)
    parts = {s: weight[people["stereotype"] == s] for s in LISTS}
    parts["overall"] = weight / 2
    reach = norm.ppf((1 + confidence) / 2) * 100
    error = {s: np.sqrt((w.groupby(people["image_id"]).sum() ** 2).sum()) for s, w in parts.items()}
    missing = people["stereotype"].nunique() < len(LISTS)
    return {s: np.nan if missing and s == "overall" else reach * e for s, e in error.items()}


def _fair_limits(half: float, most: float) -> dict[str, float]:
    return {"fair_low": max(-half, -most), "fair_high": min(half, most)}


def _position_effect(study: Study) -> pd.DataFrame:
    people = _people(study)
    people = people[people["setting"].isin(_TWO)]
    people = people[people["position"].isin(_SIDES)]
    known = people[people["gender"].isin(LISTS)]
    group_of = {tuple(cell.values()): group for cell, group in _by_cell(people)}
    rows = []
    for cell, group in _by_cell(known):
        share = 100 * (group["gender"] == "female")
        keys = ["stereotype", "occupation", "identity", "position"]
        wide = share.groupby([group[k] for k in keys]).mean().unstack("position").reindex(columns=_SIDES)
        each = wide.dropna().reset_index()
        each["difference"] = each["left"] - each["right"]
        both = group[group["identity"].isin(each["identity"])]
        everyone = group_of[tuple(cell.values())]
        side = np.where(everyone["position"] == "left", 1.0, -1.0)
        seen = np.where(everyone["gender"].isin(LISTS), 100.0 * (everyone["gender"] == "female"), np.nan)
        images = _added(everyone, seen, by=("identity", "position"), sign=side)
        # In points of shares, which are half of scores.
        fair = _fair(both, study.confidence, by="position")
        # As with scores, two people of one image may be each other's opposite: then both lists differ alike.
        strata = _strata(
            each, "difference", study.confidence, -100, 100, "difference", images, two_people=True
        )
        for stratum, mean, some in strata:
            row = {**cell, "stereotype": stratum, **mean._asdict(), "difference": mean.value}
            of = both if stratum == "overall" else both[both["stereotype"] == stratum]
            row["n"] = int(of["identity"].isin(some["identity"]).sum())
            if len(some):
                # Weighted as the difference is, so that left minus right gives it.
                sides = some.groupby("stereotype")[list(_SIDES)].mean().mean()
                row |= {f"percent_female_{side}": float(sides[side]) for side in _SIDES}
                row |= _fair_limits(fair[stratum] / 2, 100)
            rows.append(row)
    return _frame(rows, "paired_position_effect")


def _control_score(study: Study) -> pd.DataFrame:
    people = _people(study)
    people = people[(people["aspect"] == "occupation") & people["setting"].isin(_CONTROLS)]
    people = people.assign(score=_fits(people))
    known = people.dropna(subset=["score"])
    rows = []
    for model, frame in known.groupby("model", sort=False):
        pairs = people[(people["model"] == model) & (people["setting"] == "paired")]
        images = _added(pairs.assign(identity=pairs["occupation"]), pairs["score"])
        each = frame.groupby(["setting", "stereotype", "occupation"], sort=False)["score"]
        scores = each.agg(["mean", "size"]).rename(columns={"mean": "score", "size": "n"}).reset_index()
        paired = scores[scores["setting"] == "paired"].set_index(["stereotype", "occupation"])["score"]
        for setting, group in scores.groupby("setting", sort=False):
            shared = _CONTROLS[setting]
            who = pd.MultiIndex.from_frame(group[["stereotype", "occupation"]])
            in_pairs = paired.reindex(who).to_numpy(dtype=float)
            # What an identity adds to the mean of both lists: its whole value where the lists share images (see
            # biaslab.studies.paired._shared), else half of it.
            group = group.assign(
                identity=group["occupation"],
                effect=group["score"],
                contrast=in_pairs - group["score"],
                contrast_effect=in_pairs - group["score"] / (1 if shared else 2),
            )
            fair = _fair(frame[frame["setting"] == setting], study.confidence)
            effect = "effect" if shared else ""
            # Where identities of one list share images too, only the largest dependence is known.
            own = images if setting == "paired" else None
            beside = None if setting in _WIDER else images
            contrasts = {
                s: mean
                for s, mean, _ in _score_means(
                    group, "contrast", setting, study.confidence, 200, "contrast_effect", beside
                )
            }
            means = _score_means(group, "score", setting, study.confidence, 100, effect, own)
            for stratum, mean, some in means:
                row = {"model": model, "setting": setting, "stereotype": stratum, **mean._asdict()}
                row |= {"score": mean.value, "n": int(some["n"].sum())}
                row |= _fair_limits(fair[stratum], 100) if len(some) else {}
                if setting != "paired":
                    other = contrasts[stratum]
                    row |= {"contrast": other.value, "contrast_ci_low": other.ci_low}
                    row |= {"contrast_ci_high": other.ci_high, "contrast_dependence": other.dependence}
                rows.append(row)
    return _frame(rows, "paired_control_score")


# -- labour ------------------------------------------------------------------------------------------


def _labour_gap(study: Study) -> pd.DataFrame:
    people = _people(study)
    people = people[(people["aspect"] == "occupation") & people["setting"].isin(["paired", "faircritic"])]
    labour = study.table("paired_labour_share").set_index("occupation")["percent_female"]
    people = people.assign(score=_fits, labour=people["occupation"].map(labour).astype(float))
    rows = []
    for (model, setting), group in people.groupby(["model", "setting"], sort=False):
        wide = group.pivot(index="image_id", columns="stereotype", values=["score", "labour", "occupation"])
        pairs = pd.DataFrame(
            {
                "gap": (wide["labour"]["female"] - wide["labour"]["male"]).astype(float),
                "score": wide["score"].astype(float).mean(axis=1, skipna=False),
                **{g: wide["occupation"][g] for g in LISTS},
            }
        ).dropna()
        cell = {"model": model, "setting": setting}
        rows.append(cell | _line(pairs, study.confidence))
        if len(pairs) < _FIFTHS * _LEAST:
            continue
        fifth = pd.qcut(pairs["gap"].rank(method="first"), _FIFTHS, labels=False)
        for k, some in pairs.groupby(fifth):
            mean = _clustered(some["score"].to_numpy(), np.ones((len(some), 1)), some, study.confidence)[0]
            row = {"group": f"fifth_{int(k) + 1}", "gap": some["gap"].mean(), "score": mean[0]}
            # Both people of an image fully dependent: an image has 100 or -100.
            half = norm.ppf((1 + study.confidence) / 2) * 100 / np.sqrt(len(some))
            low, high = np.clip(mean[1:3], -100, 100)
            row |= {"score_ci_low": low, "score_ci_high": high, "n_images": len(some), "reason": ""}
            rows.append(cell | row | _fair_limits(half, 100))
            if not np.isfinite(low):
                rows[-1]["reason"] = _ONE_CLUSTER
    return _frame(rows, "paired_labour_gap")


def _line(pairs: pd.DataFrame, confidence: float) -> dict:
    row = {"group": "line", "n_images": len(pairs)}
    if len(pairs) < 3 or pairs["gap"].nunique() < 2:
        return row | {"reason": "a line needs three images with both labour shares, and gaps that differ"}
    gap = pairs["gap"].to_numpy()
    design = np.column_stack([np.ones(len(gap)), gap])
    slope = _clustered(pairs["score"].to_numpy(), design, pairs, confidence)[1]
    row |= {"gap": float(gap.mean()), "score": pairs["score"].mean(), "slope": slope[0], "ci_low": slope[1]}
    return row | {"ci_high": slope[2], "p": slope[3], "reason": "" if np.isfinite(slope[1]) else _ONE_CLUSTER}


def _clustered(y: np.ndarray, design: np.ndarray, pairs: pd.DataFrame, confidence: float) -> list[tuple]:
    """Return estimate, limits and p of each column of ``design`` by least squares.

    Images that share an occupation depend on each other, so errors are clustered by both occupations (Cameron,
    Gelbach and Miller 2011), with as many degrees of freedom as the smaller number of clusters less one.
    """
    inverse = np.linalg.inv(design.T @ design)
    estimate = inverse @ design.T @ y
    moments = design * (y - design @ estimate)[:, None]
    n, terms = design.shape
    codes = {g: pd.factorize(pairs[g])[0] for g in LISTS}
    counts = [len(np.unique(code)) for code in codes.values()]
    if min(counts) < 2 or n <= terms:
        return [(value, np.nan, np.nan, np.nan) for value in estimate]
    codes["both"] = pd.factorize(pd.MultiIndex.from_arrays(list(codes.values())))[0]
    variances = []
    for code in codes.values():
        sums = np.array([np.bincount(code, column) for column in moments.T])
        groups = sums.shape[1]
        correction = groups / (groups - 1) * (n - 1) / (n - terms)
        variances.append(np.diag(inverse @ sums @ sums.T @ inverse) * correction)
    female, male, both = variances
    # The two-way estimate can fall below either one-way one, and below 0, in a small sample.
    errors = np.sqrt(np.maximum.reduce([female + male - both, female, male]))
    half = student.ppf((1 + confidence) / 2, min(counts) - 1) * errors
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * student.sf(np.abs(estimate / errors), min(counts) - 1)
    return list(zip(estimate, estimate - half, estimate + half, p, strict=True))


# -- skin tone ---------------------------------------------------------------------------------------


def _skin_tone(study: Study) -> pd.DataFrame:
    people = _people(study)
    people = people[people["setting"].isin(_TWO)]
    rows = []
    for cell, group in _by_cell(people):
        wide = group.pivot(index="image_id", columns="stereotype", values=["skin_tone", "occupation"])
        tones = wide["skin_tone"].reindex(columns=["male", "female"]).astype(float)
        tones["difference"] = tones["male"] - tones["female"]
        for name in tones:
            some = tones[name].dropna()
            row = {**cell, "group": name, "n_images": len(some)}
            if some.empty:
                rows.append(row | {"reason": "no face has a tone"})
                continue
            # Images of the same occupations are no independent draws of what is said about occupations.
            whom = wide["occupation"].loc[some.index]
            ones = np.ones((len(some), 1))
            value, low, high, p = _clustered(some.to_numpy(), ones, whom, study.confidence)[0]
            row |= {"skin_tone": value, "ci_low": low, "ci_high": high}
            row["reason"] = "" if np.isfinite(low) else _ONE_CLUSTER
            rows.append(row | ({"p": p} if name == "difference" else {}))
    return _frame(rows, "paired_skin_tone")


# -- truth -------------------------------------------------------------------------------------------


def _truth(study: Study) -> pd.DataFrame:
    frame = study.measured_or_empty("paired_renders")
    rows = []
    for judge, people in frame.groupby("judge", sort=False):
        found = ~people["outcome"].isin(_FAILED)
        judged = people["outcome"] == "judged"
        right = people["gender"] == people["truth_gender"]
        clear = people["ambiguous"] == "no"
        seen = people["skin_tone"].notna()
        # Whether two people are found is one answer about an image.
        passed = found.groupby(people["image_id"]).all()
        images = people[found].drop_duplicates("image_id")
        images = images[images["role_order"] != ""]
        near = (people["skin_tone"] - people["truth_skin_tone"]).abs() <= 1
        counts = {
            # A judge that looks for no faces has no gate that could be passed.
            "gate": (passed.sum(), len(passed)) if people["n_faces"].notna().any() else (0, 0),
            "judged": (judged.sum(), found.sum()),
            "gender": ((right & judged).sum(), judged.sum()),
            "gender_unambiguous": ((right & judged & clear).sum(), (judged & clear).sum()),
            "order": ((images["role_order"] == "right").sum(), len(images)),
            "skin_tone": ((near & seen).sum(), seen.sum()),
        }
        for measure, (k, n) in counts.items():
            low, high = stats.wilson_interval(int(k), int(n), study.confidence) if n else (np.nan, np.nan)
            row = {"judge": judge, "measure": measure, "percent": 100 * k / n if n else np.nan, "n": int(n)}
            rows.append(row | {"ci_low": 100 * low, "ci_high": 100 * high})
    return _frame(rows, "paired_truth")


# -- questions ---------------------------------------------------------------------------------------


def _questions(study: Study) -> pd.DataFrame:
    """Return the questions of a question-answering judge about the people that the images are to show."""
    from biaslab.judging.vqa import question
    from biaslab.prompts import paired as prompts

    people = study.measured_or_empty("paired_people")
    places = people["setting"].map(_ASKED_ABOUT).fillna("")
    there = [at in some for at, some in zip(people["position"], places, strict=True)]
    people = people[np.array(there, dtype=bool)]
    # Tables name an occupation as the paper's results do, prompts as its lists do.
    listed = {prompts.occupation(name).occupation: name for name in prompts.stereotypes()}

    def ask(row) -> str:
        phrase = listed.get(row.occupation, row.occupation)
        if row.role:
            # Beside somebody of the occupation the role alone is asked for.
            phrase = f"{phrase} {row.role}" if row.position in ("alone", "left") else row.role
        places = _ASKED_ABOUT[row.setting]
        return question(phrase, places.index(row.position) + 1, len(places))

    keys = ["model", "aspect", "setting", "position", "question"]
    people = people.assign(question=[ask(row) for row in people.itertuples()])
    return people.groupby(keys, sort=False).size().reset_index(name="n")


TABLES: dict = {
    "paired_questions": _questions,
    "paired_people": lambda study: study.measured_or_empty("paired_people"),
    "paired_prompts": lambda study: study.measured_or_empty("paired_prompts"),
    "paired_images": lambda study: study.measured_or_empty("paired_images"),
    "paired_renders": lambda study: study.measured_or_empty("paired_renders"),
    "paired_critiques": lambda study: study.measured_or_empty("paired_critiques"),
    "paired_score_by_order": _score_by_order,
    "paired_outcomes": _outcomes,
    "paired_valid_images": _valid_images,
    "paired_position_effect": _position_effect,
    "paired_control_score": _control_score,
    "paired_labour_gap": _labour_gap,
    "paired_skin_tone": _skin_tone,
    "paired_truth": _truth,
}
