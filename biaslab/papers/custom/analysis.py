"""Shares by group of pictures of one's own, their distance from shares of one's choice, and models side by side.

Each function takes ``custom_people``: a row for each person whom an image was to show. Shares are of the prompts that
were asked, whose images are independent; the mean over groups counts each group alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import binomtest, fisher_exact, norm

from biaslab import stats
from biaslab.ground import tables
from biaslab.ground.genders import GENDERS
from biaslab.ground.plaintext import plain
from biaslab.judging.questions import CHOICES, PERCEIVED, SKIN
from biaslab.judging.words import JUDGED, OUTCOMES_OF_PEOPLE, UNCERTAIN, UNCLEAR
from biaslab.measures.headline import GENERATED, Headline
from biaslab.papers import precision
from biaslab.papers.custom.headlines import headlines
from biaslab.prompts.custom import ALL
from biaslab.ratings import part

ANSWERS = (*GENDERS, UNCLEAR)
"""What a judge may say of a person whom it saw."""
TONE_RANGES = {"light (1–3)": 3, "medium (4–6)": 6, "dark (7–10)": 10}
"""Ranges of the Monk scale, by their last tone; its authors name none."""
TRUTH = "truth"
"""What the truth of images is called among judges, where it is known."""
FEWEST, POOLED = 5, "pooled, each under 5"
"""People that a cell of two answers has at least, and what those with fewer are pooled into."""
# Nearer to 0 or 1 than this chance adds next to nothing.
_LEAST = 0.001


def shares(people: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return how many of the people seen are perceived as female, as male, and unclear, as ``custom_shares``."""
    return tables.joined(_shares(people, _seen(people), ANSWERS, confidence), "custom_shares")


def _shares(asked: pd.DataFrame, seen: pd.DataFrame, answers: Sequence[str], confidence: float) -> list[pd.DataFrame]:
    """Return the shares of each answer by model and group, and of the mean over groups, of those who have any."""
    rows = []
    for model, whole in asked.groupby("model", sort=False):
        groups, own = sorted(set(whole["group"])), seen[seen["model"] == model]
        counts = pd.crosstab(own["group"], own["answer"]).reindex(groups, columns=list(answers), fill_value=0)
        n, prompts = counts.sum(axis=1), whole.groupby("group")["prompt"].nunique()
        for answer in answers:
            percent, low, high = stats.percent(counts[answer], n, confidence)
            each = pd.DataFrame({"group": counts.index, "percent": percent, "ci_low": low, "ci_high": high})
            each = each.assign(n=n.to_numpy(), n_prompts=prompts.to_numpy())
            mean = stats.strata_mean(counts[answer], n, confidence)
            whole = {"group": ALL, "percent": 100 * mean.value, "n": n.sum(), "n_prompts": prompts.sum()}
            whole |= {"ci_low": 100 * mean.ci_low, "ci_high": 100 * mean.ci_high}
            rows.append(pd.concat([pd.DataFrame([whole]), each]).assign(model=model, answer=answer))
    return rows


def answered(own_answers: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return how questions of one's own are answered by group, as ``custom_answered``; takes ``custom_own_answers``.

    ``distance`` is how far answers lie on average from an even split, less what chance adds (``floor``).
    """
    rows = []
    for question, whole in own_answers.groupby("question", sort=False):
        seen = whole[whole["answer"] != ""]
        names = whole["choices"].iloc[0].split(CHOICES)
        each_answer = pd.concat(_shares(whole, seen, [*names, UNCLEAR], confidence), ignore_index=True)
        for _, found in each_answer.groupby("model", sort=False):
            counts = (found["percent"] * found["n"] / 100).round().fillna(0)
            clear = found["answer"] != UNCLEAR
            each = pd.DataFrame({"count": counts, "group": found["group"]})[clear & (found["group"] != ALL)]
            n = each.groupby("group")["count"].transform("sum").astype(int)
            center, known = 1 / len(names), n > 0
            far = [
                (stats.corrected_absolute_deviation(int(c), k, center), stats.absolute_deviation_floor(k, center))
                for c, k in zip(each["count"], n, strict=True)
            ]
            each[["distance", "floor"]] = 100 * np.array(far, float).reshape(-1, 2)
            each = each[known]
            by_group = each.groupby("group")[["distance", "floor"]].mean()
            by_group.loc[ALL] = by_group.mean()
            columns = {c: found["group"].map(by_group[c]) for c in ("distance", "floor")}
            rows.append(found.assign(question=question, **columns))
    return tables.joined(rows, "custom_answered")


def distance(people: pd.DataFrame, benchmark: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return how far shares of female of people judged female or male lie from a benchmark's, as ``custom_distance``.

    Tests of groups are exact: binomial, or Fisher's where the benchmark was counted in a sample, and Holm's over a
    model's groups. Distances are free of what chance adds (:func:`biaslab.stats.corrected_absolute_deviation`).
    """
    rows = []
    for model, seen in _seen(people).groupby("model", sort=False):
        judged = seen[seen["answer"] != "unclear"]
        female = (judged["answer"] == "female").groupby(judged["group"]).agg(["sum", "size"])
        known = benchmark.set_index("group").join(female, how="inner")
        if known.empty:
            continue
        count, n, size = known["sum"].to_numpy(), known["size"].to_numpy(), known["n"].to_numpy(float)
        center = known["percent_female"].to_numpy(float) / 100
        percent, low, high = stats.percent(count, n, confidence)
        base = _limits(center, size, confidence)
        differing = stats.difference_interval(100 * center, *base, percent, low, high)
        cells = list(zip(count, n, np.clip(center, _LEAST, 1 - _LEAST), strict=True))
        p = [_test(*row) for row in zip(count, n, center, size, strict=True)]
        each = pd.DataFrame(
            {
                "group": known.index, "percent_female": percent, "benchmark": 100 * center,
                "difference": percent - 100 * center, "ci_low": differing.low, "ci_high": differing.high,
                "p": p, "p_holm": stats.adjust(p), "distance_plain": np.abs(percent - 100 * center),
                "distance": [100 * float(stats.corrected_absolute_deviation(*cell)) for cell in cells],
                "floor": [100 * float(stats.absolute_deviation_floor(k, at)) for _, k, at in cells],
                "n": n, "n_groups": 1,
            }
        )  # fmt: skip
        rows.append(pd.concat([_over_groups(each, count, n, center, size, confidence), each]).assign(model=model))
    return tables.joined(rows, "custom_distance")


def _over_groups(
    each: pd.DataFrame, count: np.ndarray, n: np.ndarray, center: np.ndarray, size: np.ndarray, confidence: float
) -> pd.DataFrame:
    """Return the row of the mean over groups."""
    mean = stats.strata_mean(count, n, confidence)
    # What the benchmark's own sample leaves open.
    error = float(np.sqrt(np.nan_to_num(center * (1 - center) / size).sum())) / len(n)
    z = norm.ppf((1 + confidence) / 2)
    base = 100 * center.mean()
    differing = stats.difference_interval(
        base, base - 100 * z * error, base + 100 * z * error, 100 * mean.value, 100 * mean.ci_low, 100 * mean.ci_high
    )
    far = stats.mean_deviation(count, n, np.clip(center, _LEAST, 1 - _LEAST), confidence, error=error)
    row = {
        "group": ALL, "percent_female": 100 * mean.value, "benchmark": base, "difference": 100 * mean.value - base,
        "ci_low": differing.low, "ci_high": differing.high, "p": np.nan, "p_holm": np.nan,
        "distance_plain": each["distance_plain"].mean(), "distance": 100 * far.value,
        "distance_ci_low": 100 * far.ci_low, "distance_ci_high": 100 * far.ci_high, "distance_p": far.p,
        "floor": each["floor"].mean(), "n": n.sum(), "n_groups": far.n,
    }  # fmt: skip
    return pd.DataFrame([row])


def differences(
    people: pd.DataFrame, *, seed: int = 0, replicates: int = 10_000, confidence: float = 0.95
) -> pd.DataFrame:
    """Return differences between models on the same prompts, as ``custom_differences``: second less first.

    Prompts that both have are weighed by ``n1 n2 / (n1 + n2)`` (Mantel and Haenszel 1959), groups alike; the test
    permutes within prompts which model an image is of; Holm's adjustment is over groups and pairs of models.
    """
    rows, rng = [], np.random.default_rng(seed)
    judged = _seen(people).query("answer != 'unclear'").assign(female=lambda seen: seen["answer"] == "female")
    for first, second in combinations(dict.fromkeys(people["model"]), 2):
        keys = ["group", "prompt"]
        both = []
        for k, name in enumerate((first, second), 1):
            counted = judged[judged["model"] == name].groupby(keys)["female"].agg(["sum", "size"])
            both.append(counted.add_suffix(f"_{k}"))
        cells = both[0].join(both[1], how="inner")
        if cells.empty:
            continue
        groups = cells.index.get_level_values("group")
        found = [(ALL, cells, _weights(cells) / groups.nunique() / _weights(cells).groupby(groups).transform("sum"))]
        found += [(g, some, _weights(some) / _weights(some).sum()) for g, some in cells.groupby(groups, sort=False)]
        for group, some, weights in found:
            value, error, p = _difference(some, weights.to_numpy(), rng, replicates)
            half = norm.ppf((1 + confidence) / 2) * error
            limits = np.clip([100 * (value - half), 100 * (value + half)], -100, 100)
            rows.append(
                {"model": second, "other": first, "group": group, "difference": 100 * value, "ci_low": limits[0],
                 "ci_high": limits[1], "p": p, "n_prompts": len(some), "n": some["size_2"].sum(),
                 "n_other": some["size_1"].sum()}
            )  # fmt: skip
    frame = pd.DataFrame(rows, columns=[c.name for c in tables.schema("custom_differences").columns])
    frame["p_holm"] = np.nan
    each = frame["group"] != ALL
    for some in (each, ~each):
        frame.loc[some, "p_holm"] = stats.adjust(frame.loc[some, "p"].astype(float))
    return tables.of(frame, "custom_differences")


def _weights(cells: pd.DataFrame) -> pd.Series:
    return cells["size_1"] * cells["size_2"] / (cells["size_1"] + cells["size_2"])


def _difference(
    cells: pd.DataFrame, weights: np.ndarray, rng: np.random.Generator, replicates: int
) -> tuple[float, float, float]:
    """Return a weighed mean of prompts' differences (second less first), its standard error and the permutation's p."""
    count, n = (np.stack([cells[f"{name}_{k}"] for k in (1, 2)]) for name in ("sum", "size"))
    value = float(weights @ (count[1] / n[1] - count[0] / n[0]))
    # A share of few images says little of its variance, so that those of a group are taken together.
    groups = pd.factorize(cells.index.get_level_values("group"))[0]
    variance = 0.0
    for k in range(2):
        female, images = np.bincount(groups, count[k]), np.bincount(groups, n[k])
        likely = ((female + 1) / (images + 2))[groups]
        variance += float(weights**2 @ (likely * (1 - likely) / n[k]))
    total = count.sum(axis=0)
    drawn = rng.hypergeometric(total, n.sum(axis=0) - total, n[1], size=(replicates - 1, len(cells)))
    away = np.abs((drawn / n[1] - (total - drawn) / n[0]) @ weights)
    hits = np.count_nonzero(away >= abs(value) - 1e-12)
    return value, float(np.sqrt(variance)), (hits + 1) / replicates


def outcomes(people: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return what became of the people whom images were to show, by model and group, as ``custom_outcomes``."""
    rows = []
    for model, whole in people.groupby("model", sort=False):
        counts = pd.crosstab(whole["group"], whole["outcome"])
        counts.loc[ALL] = counts.sum()
        for group, found in counts.loc[[ALL, *counts.index[:-1]]].iterrows():
            for outcome in (name for name in OUTCOMES_OF_PEOPLE if found.get(name, 0)):
                percent, low, high = stats.percent(found[outcome], found.sum(), confidence)
                rows.append([model, group, outcome, found[outcome], found.sum(), percent, low, high])
    return tables.of(rows, "custom_outcomes")


def tones(people: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the mean skin tone (1–10) by model and group, and how many were not read, as ``custom_tones``."""
    rows = []
    for model, whole in people.groupby("model", sort=False):
        for group, some in [(ALL, whole), *whole.groupby("group", sort=False)]:
            mean = stats.mean_interval(some["skin_tone"].dropna(), confidence)
            unread = 100 * float(some["skin_tone"].isna().mean())
            by = ", ".join(dict.fromkeys(some["tone_judge"]))
            limits = np.clip([mean.ci_low, mean.ci_high], 1, 10)
            rows.append([model, group, mean.value, *limits, mean.n, len(some), unread, by])
    return tables.of(rows, "custom_tones")


def answers_of(people: pd.DataFrame, own_answers: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return who was seen: model, group, ``perceived gender``, ``skin tone`` (a range), and a column a question."""
    seen, keys = _seen(people), ["model", "image_id"]
    ranges = pd.cut(seen["skin_tone"], [0, *TONE_RANGES.values()], labels=list(TONE_RANGES))
    found = seen[["model", "group"]].assign(**{PERCEIVED: seen["answer"], SKIN: ranges.astype(object).fillna("")})
    for question, rows in own_answers.groupby("question", sort=False) if own_answers is not None else ():
        # Of a question about images the answer is that of everybody in it.
        of = keys if rows["position"].astype(str).eq("0").all() else [*keys, "position"]
        said = rows.set_index(of)["answer"].reindex(pd.MultiIndex.from_frame(seen[of]))
        found[question] = said.fillna("").to_numpy()
    return found


def intersections(answers: pd.DataFrame, pairs: Sequence[tuple[str, str]], *, confidence: float = 0.95) -> pd.DataFrame:
    """Return people by two answers at once, as ``custom_intersections``.

    ``answers`` are as of :func:`answers_of`, ``pairs`` of their columns, such as ``("perceived gender", "skin tone")``;
    answers to the first are the whole of each share.
    """
    rows = []
    for first, second in pairs:
        known = answers[(answers[first] != "") & (answers[second] != "")]
        for (model, one), some in known.groupby(["model", first], sort=True):
            counts = some[second].value_counts().sort_index(key=lambda names: names.map(_place))
            few = counts[counts < FEWEST]
            cells = [(name, n, 1) for name, n in counts[counts >= FEWEST].items()]
            cells += [(POOLED, few.sum(), len(few))] if len(few) else []
            for name, n, pooled in cells:
                percent, low, high = stats.percent(n, len(some), confidence)
                both = f"{first} × {second}"
                rows.append([model, both, one, name, percent, low, high, n, len(some), pooled])
    return tables.of(rows, "custom_intersections")


def _place(answer: str) -> tuple[int, str]:
    """Return what answers are sorted by: tones from light to dark, others by their names."""
    return list(TONE_RANGES).index(answer) if answer in TONE_RANGES else len(TONE_RANGES), answer


def corrected(judges: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return shares perceived as female, corrected for the first judge's errors, as ``custom_corrected``.

    Takes ``custom_judges``. The truth of images, or else annotators of a subset, correct the judge, as
    :func:`biaslab.papers.precision.estimates` combines them: each group by its own annotations, which count by the
    probability at which their images were drawn. There are no rows where neither truth nor annotations are known.
    """
    rows = []
    for model, whole in judges.groupby("model", sort=False):
        names = list(dict.fromkeys(whole["judge"]))
        better = [name for name in names[1:] if name == TRUTH or name.startswith("raters")]
        if not better:
            continue
        reference = TRUTH if TRUTH in better else better[0]
        said, known = (whole[whole["judge"] == name] for name in (names[0], reference))
        known = known[known["outcome"].isin([JUDGED, UNCERTAIN])]
        given = {"probability": np.nan, "wave": 1} | {"of_model": "", "source": GENERATED, "about": ""}
        known = known.assign(**{c: v for c, v in given.items() if c not in known}, label=known["gender"])
        known["image_id"] = known["image_id"].map(plain)
        each = list(headlines(said.assign(prompt="")))
        if known.empty or not each:
            continue
        estimates = precision.estimates(each, known, confidence=confidence)
        found = {(row["group"], row["estimator"]): row for row in estimates.to_dict("records")}
        labelled = _labelled(each[0], known)
        for one in each:
            judge, both = (found[one.group, name] for name in ("judge", "both"))
            own = labelled[(labelled["group"] == one.group) | (one.group == ALL)]
            row = {"model": model, "judge": names[0], "reference": reference, "group": one.group}
            row |= {"percent_female": judge["estimate"], "n": judge["n_people"], "n_annotated": both["n_rated"]}
            row |= {"percent_corrected": both["estimate"], "corrected_low": both["ci_low"]}
            row |= {"corrected_high": both["ci_high"], "tuning": both["tuning"], "reason": both["reason"]}
            for name, answer in (("sensitivity", 1), ("specificity", 0)):
                some = own[(own["rated"] == answer) & own["judged"].notna()]
                right = (some["judged"] == answer).astype(float)
                row[name] = 100 * np.average(right, weights=some["weight"]) if len(some) else np.nan
                row[f"{name}_n"] = len(some)
            rows.append(row)
    return tables.of(rows, "custom_corrected")


def _labelled(one: Headline, known: pd.DataFrame) -> pd.DataFrame:
    """Return the people of known gender with group, judged, rated (1 female, 0 male), and how many each stands for."""
    people = precision.annotated(one, known)
    groups = one.cells["cluster"]
    people["group"] = groups.to_numpy()[people["cell"].to_numpy()]
    weight = part.weights(people)
    if weight is None:
        size = one.people["cell"].map(groups).value_counts()
        weight = people["group"].map(size / people["group"].value_counts())
    return people.assign(weight=weight)


def agreement(judges: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return how often the first judge and each other say the same, as ``custom_agreement``.

    Takes ``custom_judges``. Where they differ, McNemar's exact test says whether one leans.
    """
    rows = []
    for model, whole in judges.groupby("model", sort=False):
        names = list(dict.fromkeys(whole["judge"]))
        said = whole.assign(gender=whole["gender"].where(whole["gender"].isin(GENDERS)))
        wide = said.pivot(index=["group", "image_id", "position"], columns="judge", values="gender")
        for other in names[1:]:
            pair = wide[[names[0], other]].dropna(how="all").set_axis(["judge", "other"], axis=1)
            for group, some in [(ALL, pair), *pair.groupby(level="group", sort=False)]:
                rows.append([model, names[0], other, group, *_agreed(some, confidence)])
    return tables.of(rows, "custom_agreement")


def _agreed(pair: pd.DataFrame, confidence: float) -> tuple:
    both = pair.dropna()
    same, n = int((both["judge"] == both["other"]).sum()), len(both)
    female = [float(100 * (both[c] == GENDERS[0]).mean()) for c in ("judge", "other")]
    more = int(((both["judge"] == GENDERS[0]) & (both["other"] != GENDERS[0])).sum())
    p = float(binomtest(more, n - same).pvalue) if n > same else 1.0 if n else np.nan
    return *stats.percent(same, n, confidence), n, len(pair), *female, p


def _seen(people: pd.DataFrame) -> pd.DataFrame:
    """Return the people of whom a judge said something, with ``answer``: one of :data:`ANSWERS`."""
    seen = people[people["outcome"].isin([JUDGED, UNCERTAIN])]
    return seen.assign(answer=seen["gender"].where(seen["outcome"] == JUDGED, "unclear"))


def _limits(center: np.ndarray, size: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of a benchmark's shares in percent: of what is no sample, the shares."""
    known = np.isfinite(size)
    n = np.where(known, np.rint(np.nan_to_num(size, nan=1)), 1)
    _, low, high = stats.percent(np.rint(center * n), n, confidence)
    return np.where(known, low, 100 * center), np.where(known, high, 100 * center)


def _test(count: int, n: int, center: float, size: float) -> float:
    if not np.isfinite(size):
        return float(binomtest(int(count), int(n), center).pvalue)
    female = round(center * size)
    return float(fisher_exact(np.array([[count, n - count], [female, round(size) - female]])).pvalue)
