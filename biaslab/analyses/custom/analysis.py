"""Shares by group of own prompts and images, their distance from a benchmark, and models compared.

Each function takes ``custom_people``: one row per prompted person. Shares hold for the prompts used. Images are
independent, but people of one image are not; the image is therefore the sampling unit of every interval and test. The
mean over groups weights groups equally.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from biaslab import stats
from biaslab.analyses.custom.prompts import ALL
from biaslab.judges import photographs
from biaslab.judges.judge_labels import (
    DUPLICATE,
    JUDGED,
    PIXELS,
    STATUSES,
    TONE_OF_PHOTOGRAPHS,
    UNCERTAIN,
    UNCLEAR,
)
from biaslab.judges.questions import CHOICES, PERCEIVED, SKIN
from biaslab.schema import tables
from biaslab.schema.genders import GENDERS

ANSWERS = (*GENDERS, UNCLEAR)
"""Possible labels of a detected person."""
TONE_RANGES = {"light (1–3)": 3, "medium (4–6)": 6, "dark (7–10)": 10}
"""Ranges of the Monk scale, by their last tone; its authors name none."""
NOT_JUDGED = "no person is judged female or male"
NO_ANSWER = "there is no such answer to count"
NO_BENCHMARK = "the benchmark has no share of this group"
"""Reasons for a missing share or difference."""
# Nearer to 0 or 1 than this chance adds next to nothing.
_LEAST = 0.001


def shares(people: pd.DataFrame, *, seed: int = 0, replicates: int = 2_000, confidence: float = 0.95) -> pd.DataFrame:
    """Return the shares of people perceived as female, as male, and unclear, by model and group, as ``custom_shares``.

    Shares of female and male are among people judged female or male; that of unclear is among detected people. Their
    bounds assume that all other prompted people are male, or female. ``seed`` and ``replicates`` belong to the test of
    equal shares of judged people in all groups, which permutes whole images.
    """
    # A copy of an image shows no other people.
    people, rows = people[people["status"] != DUPLICATE], []
    for model, whole in people.groupby("model", sort=False):
        each = _shares(whole, _seen(whole), ANSWERS, confidence)
        n_by_group = whole.groupby("group").size()
        n_by_group[ALL] = n_by_group.sum()
        groups = each["group"].map(n_by_group).to_numpy(float)
        # Of a group of which no person is judged the share may be anything.
        n_counted = (each["percent"] / 100 * each["n"]).fillna(0)
        bounds = {"percent_lower_bound": n_counted, "percent_upper_bound": n_counted + groups - each["n"]}
        for name, count in bounds.items():
            each[name] = (100 * count / groups).where(each["answer"].isin(GENDERS))
        each["percent_judged"] = 100 * each["n"] / groups
        for answer, subset in each[each["answer"].isin(GENDERS)].groupby("answer"):
            groups_only = subset[subset["group"] != ALL]
            lead = (each["answer"] == answer) & (each["group"] == ALL)
            each.loc[lead, list(bounds)] = groups_only[list(bounds)].mean().to_numpy()
        each["n_groups_prompted"] = whole["group"].nunique()
        judged = _by_image(whole, whole["status"] == JUDGED)
        p = stats.clustered_homogeneity(judged["count"], judged["n"], judged["group"], replicates, seed=seed)
        each["p_judged"] = np.where(each["group"] == ALL, p, np.nan)
        lead = each["answer"].isin(GENDERS) & (each["group"] == ALL)
        each["note"] = ""
        for k in each.index[lead]:
            subset = each[(each["answer"] == each.at[k, "answer"]) & (each["group"] != ALL)]
            differs = p < stats.significance(confidence)
            each.at[k, "note"] = _note(subset, *each.loc[k, list(bounds)], differs=differs)
        rows.append(each.assign(model=model))
    return tables.join_tables(rows, "custom_shares")


def _note(groups: pd.DataFrame, low: float, high: float, *, differs: bool) -> str:
    """Return what limits a mean over ``groups``: those without people judged, and missing people that ``differ``."""
    missing, sentences = groups[groups["n"] == 0]["group"], []
    if 0 < len(missing) < len(groups):
        sentences.append(f"The mean is over {len(groups) - len(missing)} of {len(groups)} groups; none judged: ")
        sentences[-1] += ", ".join(missing) + "."
    if differs:
        judged = groups["percent_judged"]
        sentences.append(
            f"The share of people judged differs between groups ({judged.min():.0f} to {judged.max():.0f} %)."
        )
        if np.isfinite(low):
            sentences.append(f"With all others male or female the mean would be {low:.1f} or {high:.1f} %.")
    return " ".join(sentences)


def _by_image(rows: pd.DataFrame, counted: pd.Series) -> pd.DataFrame:
    """Return one row per image: group and prompt where ``rows`` have them, image_id, ``n`` people and the ``count`` of
    those counted.
    """
    keys = [name for name in ("group", "prompt") if name in rows]
    sums = rows[[*keys, "image_id"]].assign(count=counted.astype(int), n=1)
    return sums.groupby([*keys, "image_id"], sort=False, as_index=False).sum()


def counted_images(people: pd.DataFrame) -> pd.DataFrame:
    """Return images with people judged female or male: their keys, ``n`` people, and the ``count`` of women."""
    return _counted(_seen(people), GENDERS[0])


def _counted(seen: pd.DataFrame, answer: str) -> pd.DataFrame:
    """Return images with the people who gave an answer: of all if it is unclear, else of those who are not unclear."""
    answered = seen if answer == UNCLEAR else seen[seen["answer"] != UNCLEAR]
    return _by_image(answered, answered["answer"] == answer)


def _shares(whole: pd.DataFrame, seen: pd.DataFrame, answers: Sequence[str], confidence: float) -> pd.DataFrame:
    """Return the shares of each answer of one model, by group and for the mean over groups that have any."""
    groups, rows = sorted(set(whole["group"])), []
    prompts = whole.groupby("group")["prompt"].nunique()
    for answer in answers:
        images = _counted(seen, answer)
        by = images.groupby("group")[["count", "n"]].sum()
        mean = stats.strata_mean(by["count"], by["n"], confidence, effect=image_effect(images))
        parts = [(ALL, mean, images)]
        parts += [
            (group, stats.clustered_share(subset["count"], subset["n"], confidence), subset)
            for group in groups
            for subset in [images[images["group"] == group]]
        ]
        for group, share, subset in parts:
            none = NOT_JUDGED if answer in GENDERS else NO_ANSWER
            rows.append(
                {"group": group, "answer": answer, "percent": 100 * share.value, "ci_low": 100 * share.ci_low,
                 "ci_high": 100 * share.ci_high, "n": share.n, "n_images": subset["image_id"].nunique(),
                 "n_prompts": prompts.sum() if group == ALL else prompts[group], "n_groups": subset["group"].nunique(),
                 "reason": "" if share.n else none}
            )  # fmt: skip
    return pd.DataFrame(rows)


def image_effect(images: pd.DataFrame, stratum: str = "group") -> float:
    """Return the design effect of the mean over groups (or another ``stratum``); 1 without people."""
    effect = stats.design_effect(
        images["count"], images["n"], stratum=images[stratum], image=images["image_id"].astype(str)
    )
    return effect if np.isfinite(effect) else 1.0


def _alone(images: pd.DataFrame) -> bool:
    """Return whether no image has several people, so that shares are binomial."""
    return not images["image_id"].duplicated().any() and bool((images["n"] <= 1).all())


def answer_shares(person_answers: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the shares of answers to custom questions by group, as ``custom_answer_shares``; takes
    ``custom_person_answers``.

    Shares of choices are of the answers that are not unclear, that of ``unclear`` of all. ``distance`` is how far the
    choices' shares are on average from an even split; corrected for sampling noise it is of the mean over groups alone.
    """
    rows = []
    for question, of_question in person_answers.groupby("question", sort=False):
        names = of_question["choices"].iloc[0].split(CHOICES)
        for model, whole in of_question.groupby("model", sort=False):
            seen = whole[whole["answer"] != ""]
            answer_shares = _shares(whole, seen, [*names, UNCLEAR], confidence)
            by_group, mean = _unevenness(seen, names, confidence)
            for column in ("distance", "null_mean"):
                answer_shares[column] = answer_shares["group"].map(by_group[column])
            for name, value in mean.items():
                answer_shares[name] = np.where(answer_shares["group"] == ALL, value, np.nan)
            rows.append(answer_shares.assign(question=question, model=model))
    return tables.join_tables(rows, "custom_answer_shares")


def _unevenness(seen: pd.DataFrame, names: Sequence[str], confidence: float) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return by group how far answers are from an even split, and the corrected mean over groups."""
    images = [_counted(seen, name) for name in names]
    counts = pd.concat([rows.groupby("group")["count"].sum() for rows in images], axis=1).to_numpy(int)
    n = images[0].groupby("group")["n"].sum()
    center, size = 1 / len(names), np.broadcast_to(n.to_numpy()[:, None], counts.shape)
    share = counts / size
    if all(map(_alone, images)):
        null_mean = stats.absolute_deviation_null_mean(n, center)
        far = stats.mean_mad(counts, confidence=confidence)
    else:
        effects = np.array([image_effect(rows) for rows in images])
        error = np.sqrt(center * (1 - center) * effects / size)
        null_mean = stats.normal_null_mean(error).mean(axis=1)
        far = stats.mean_distance(share - center, error, 2 * center * (1 - center), confidence)
    by_group = pd.DataFrame(
        {"distance": 100 * np.abs(share - center).mean(axis=1), "null_mean": 100 * null_mean}, index=n.index
    )
    by_group.loc[ALL] = by_group.mean()
    return by_group, _corrected(far)


def _corrected(far: stats.Deviation) -> dict[str, float]:
    """Return the columns of a corrected mean distance, in points."""
    limits = {f"distance_corrected_{end}": 100 * getattr(far, end) for end in ("ci_low", "ci_high")}
    return {"distance_corrected": 100 * far.value, "distance_p": far.p} | limits


def distance(people: pd.DataFrame, benchmark: pd.DataFrame, *, seed: int = 0, confidence: float = 0.95) -> pd.DataFrame:
    """Return how far shares of female of people judged female or male are from a benchmark's, as ``custom_distance``.

    Tests of groups are :func:`biaslab.stats.clustered_share_test`: exact for one person per image, by sign flips of
    whole images or at the size that images are worth for several. Holm's adjustment is over a model's groups. The mean
    distance is corrected for sampling noise, that of a benchmark counted in a sample included.
    """
    rows, shares_of = [], benchmark.set_index("group")
    for model, whole in people.groupby("model", sort=False):
        images = counted_images(whole)
        group_names = list(dict.fromkeys([*benchmark["group"], *sorted(set(whole["group"]))]))
        each = pd.DataFrame({"group": [group for group in group_names if group in set(whole["group"])]})
        each["center"] = each["group"].map(shares_of["percent_female"]).astype(float) / 100
        each["size"] = each["group"].map(shares_of["n"]).astype(float)
        if not images["group"].isin(each.dropna(subset="center")["group"]).any():
            continue
        each = pd.concat([each, pd.DataFrame(_compared(images, each, seed, confidence))], axis=1)
        each["reason"] = np.where(each["n"] == 0, NOT_JUDGED, np.where(each["center"].isna(), NO_BENCHMARK, ""))
        base = _limits(each["center"].fillna(0).to_numpy(), each["size"].to_numpy(), confidence)
        differing = stats.difference_interval(
            100 * each["center"], *base, each["percent_female"], each["share_low"], each["share_high"]
        )
        each["benchmark"] = 100 * each["center"]
        each["difference"] = each["percent_female"] - each["benchmark"]
        each = each.assign(ci_low=differing.low, ci_high=differing.high, distance=each["difference"].abs())
        each["p_holm"] = stats.adjust(each["p"])
        is_comparable = (each["n"] > 0) & each["center"].notna()
        far, each.loc[is_comparable, "null_mean"] = _mean_distance(images, each[is_comparable], confidence)
        mean = _over_groups(images, each[is_comparable], confidence)
        missing = each.loc[~is_comparable, "group"].tolist()
        note = f"No share or no benchmark for {len(missing)} of {len(each)} groups: {', '.join(missing)}."
        each = pd.concat([pd.DataFrame([mean | far]), each]).assign(model=model, n_groups_prompted=len(each))
        rows.append(each.assign(note=note if missing else ""))
    return tables.join_tables(rows, "custom_distance")


def _compared(images: pd.DataFrame, each: pd.DataFrame, seed: int, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield the share of each group with its limits, and the test against its benchmark."""
    effect = image_effect(images)
    for group, center, size in each[["group", "center", "size"]].itertuples(index=False):
        rows = images[images["group"] == group]
        share = stats.clustered_share(rows["count"], rows["n"], confidence)
        test = rows["count"], rows["n"], center, size
        yield {
            "percent_female": 100 * share.value, "share_low": 100 * share.ci_low, "share_high": 100 * share.ci_high,
            "p": np.nan if np.isnan(center) else stats.clustered_share_test(*test, effect=effect, seed=seed),
            "n": share.n, "n_images": len(rows), "n_groups": 1, "count": rows["count"].sum(),
        }  # fmt: skip


def _mean_distance(
    images: pd.DataFrame, each: pd.DataFrame, confidence: float
) -> tuple[dict[str, float], NDArray[np.float64]]:
    """Return the corrected mean distance of groups from benchmarks, and the null expectation of each, in points."""
    images = images[images["group"].isin(each["group"])]
    count, n, center, size = (each[name].to_numpy(float) for name in ("count", "n", "center", "size"))
    if _alone(images) and not np.isfinite(size).any():
        kept = np.clip(center, _LEAST, 1 - _LEAST)
        null_mean = [float(stats.absolute_deviation_null_mean(int(k), at)) for k, at in zip(n, kept, strict=True)]
        return _corrected(stats.mean_deviation(count, n, kept, confidence)), 100 * np.array(null_mean)
    effect = image_effect(images)
    sampled = np.isfinite(size)
    # Under the null hypothesis a sampled benchmark and the model have one share, which both tell of.
    safe_size = np.where(sampled, size, 1)
    total = n / effect + safe_size
    both = (count / effect + center * safe_size + 0.5) / (total + 1)
    common = np.clip(np.where(sampled, both, center), _LEAST, 1 - _LEAST)
    # A variance about an estimated share is too small by one part in the size.
    free = np.where(sampled, total / (total - 1), 1)
    error = np.sqrt(common * (1 - common) * free * (effect / n + np.where(sampled, 1 / safe_size, 0)))
    largest = float(np.maximum(center, 1 - center).mean())
    far = stats.mean_distance(count / n - center, error, largest, confidence)
    return _corrected(far), 100 * stats.normal_null_mean(error)


def _over_groups(images: pd.DataFrame, each: pd.DataFrame, confidence: float) -> dict[str, Any]:
    """Return the row of the mean over groups, without its corrected distance."""
    images = images[images["group"].isin(each["group"])]
    mean = stats.strata_mean(each["count"], each["n"], confidence, effect=image_effect(images))
    center = each["center"].to_numpy()
    # Standard error of the mean that the benchmark's own sample brings.
    error = float(np.sqrt(np.nansum(center * (1 - center) / each["size"].to_numpy()))) / len(each)
    z = norm.ppf((1 + confidence) / 2)
    base = 100 * center.mean()
    value, low, high = (100 * limit for limit in mean[:3])
    differing = stats.difference_interval(base, base - 100 * z * error, base + 100 * z * error, value, low, high)
    return {
        "group": ALL, "percent_female": value, "benchmark": base, "difference": value - base, "ci_low": differing.low,
        "ci_high": differing.high, "distance": each["distance"].mean(), "null_mean": each["null_mean"].mean(),
        "n": mean.n, "n_images": images["image_id"].nunique(), "n_groups": len(each), "reason": "",
    }  # fmt: skip


def differences(
    people: pd.DataFrame, *, seed: int = 0, replicates: int = 10_000, confidence: float = 0.95
) -> pd.DataFrame:
    """Return differences between models on the same prompts, as ``custom_differences``: second minus first.

    Prompts that both have are weighted by ``n1 n2 / (n1 + n2)`` (Mantel and Haenszel 1959), groups equally; the test
    permutes whole images within prompts between the models; Holm's adjustment is over groups and pairs of models.
    """
    rows, rng = [], np.random.default_rng(seed)
    images = {model: counted_images(subset) for model, subset in people.groupby("model", sort=False)}
    keys = ["group", "prompt"]
    for first, second in combinations(images, 2):
        both = [images[name] for name in (first, second)]
        sums = [subset.groupby(keys)[["count", "n"]].sum().add_suffix(f"_{k}") for k, subset in enumerate(both, 1)]
        cells = sums[0].join(sums[1], how="inner")
        if cells.empty:
            continue
        groups = cells.index.get_level_values("group")
        cells["group"] = groups
        strata = [(ALL, cells, _weights(cells) / groups.nunique() / _weights(cells).groupby(groups).transform("sum"))]
        strata += [
            (g, subset, _weights(subset) / _weights(subset).sum()) for g, subset in cells.groupby(groups, sort=False)
        ]
        for group, subset, weights in strata:
            place = pd.Series(range(len(subset)), subset.index, name="cell")
            shared_cells = [side.join(place, on=keys, how="inner") for side in both]
            value, variance, p = _difference(subset, shared_cells, weights.to_numpy(), rng, replicates)
            half = norm.ppf((1 + confidence) / 2) * np.sqrt(variance)
            limits = np.clip([100 * (value - half), 100 * (value + half)], -100, 100)
            n_images, n_images_other = (side["image_id"].nunique() for side in shared_cells[::-1])
            rows.append(
                {"model": second, "other": first, "group": group, "difference": 100 * value, "ci_low": limits[0],
                 "ci_high": limits[1], "p": p, "n_prompts": len(subset), "n": subset["n_2"].sum(), "n_images": n_images,
                 "n_other": subset["n_1"].sum(), "n_images_other": n_images_other}
            )  # fmt: skip
    frame = pd.DataFrame(rows, columns=[c.name for c in tables.schema("custom_differences").columns])
    frame["p_holm"] = np.nan
    each = frame["group"] != ALL
    for subset in (each, ~each):
        frame.loc[subset, "p_holm"] = stats.adjust(frame.loc[subset, "p"].astype(float))
    return tables.make_table(frame, "custom_differences")


def _weights(cells: pd.DataFrame) -> pd.Series:
    return cells["n_1"] * cells["n_2"] / (cells["n_1"] + cells["n_2"])


def _difference(
    cells: pd.DataFrame, images: Sequence[pd.DataFrame], weights: np.ndarray, rng: np.random.Generator, replicates: int
) -> tuple[float, float, float]:
    """Return a weighted mean of prompts' differences (second minus first), its variance and the permutation's p."""
    count, n = (np.stack([cells[f"{name}_{k}"] for k in (1, 2)]) for name in ("count", "n"))
    value = float(weights @ (count[1] / n[1] - count[0] / n[0]))
    # A share of few images says little of its variance, so that those of a group are taken together.
    groups = pd.factorize(cells["group"])[0]
    variance = 0.0
    for k in range(2):
        effect = image_effect(images[k], "cell")
        female, judged = np.bincount(groups, count[k]) / effect, np.bincount(groups, n[k]) / effect
        likely = ((female + 1) / (judged + 2))[groups]
        variance += float(weights**2 @ (likely * (1 - likely) * effect / n[k]))
    away = np.abs(_permuted(count, n, images, weights, rng, replicates - 1))
    hits = np.count_nonzero(away >= abs(value) - 1e-12)
    return value, variance, (hits + 1) / replicates


def _permuted(
    count: np.ndarray, n: np.ndarray, images: Sequence[pd.DataFrame], weights: np.ndarray, rng: np.random.Generator,
    draws: int,
) -> np.ndarray:  # fmt: skip
    """Return differences where the images of each prompt are dealt out again to the two models."""
    total = count.sum(axis=0)
    if all(map(_alone, images)):
        drawn = rng.hypergeometric(total, n.sum(axis=0) - total, n[1], size=(draws, len(total)))
        return (drawn / n[1] - (total - drawn) / n[0]) @ weights
    both = pd.concat([side.assign(model=k) for k, side in enumerate(images)])
    moved = np.zeros(draws)
    for weight, (_, cell_rows) in zip(weights, both.groupby("cell"), strict=True):
        # Images with as many people, and as many women, are alike.
        kinds = cell_rows.groupby(["count", "n"]).size()
        second = int((cell_rows["model"] == 1).sum())
        dealt = rng.multivariate_hypergeometric(kinds.to_numpy(), second, size=draws, method="marginals")
        female, judged = (dealt @ kinds.index.get_level_values(name).to_numpy() for name in ("count", "n"))
        rest = (cell_rows["count"].sum() - female) / (cell_rows["n"].sum() - judged)
        moved += weight * (female / judged - rest)
    return moved


def outcomes(people: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the status of the prompted people, by model and group, as ``custom_outcomes``."""

    def by_status(rows: pd.DataFrame) -> pd.DataFrame:
        present = [status for status in STATUSES if (rows["status"] == status).any()]
        shares_of_status = stats.shares("status", present, confidence, cluster="image_id")
        return stats.by_group(rows, "group", shares_of_status, overall=ALL)

    rows = stats.by_group(people, "model", by_status)
    return tables.make_table(rows.rename(columns={"n": "n_people", "count": "n"}), "custom_outcomes")


def tones(people: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the mean skin tone (1–10) by model and group, and how many were not read, as ``custom_tones``.

    Limits are Student's, with the image as the unit: one degree of freedom less than images.
    """

    def tone(rows: pd.DataFrame) -> dict[str, Any]:
        estimate = stats.mean("skin_tone", confidence, cluster="image_id")(rows)
        limits = {end: float(np.clip(estimate[end], 1, 10)) for end in ("ci_low", "ci_high")}
        unread = {"n_people": len(rows), "percent_unread": 100 * float(rows["skin_tone"].isna().mean())}
        judge = ", ".join(dict.fromkeys(rows["tone_judge"]))
        error = photographs.describe_error("skin_tone", PIXELS) if judge == TONE_OF_PHOTOGRAPHS else ""
        return estimate | limits | unread | {"mean": estimate["value"], "tone_judge": judge, "tone_error": error}

    rows = stats.by_group(people[people["status"] != DUPLICATE], ["model", "group"], tone, overall=ALL)
    return tables.make_table(rows, "custom_tones")


def wide_answers(people: pd.DataFrame, person_answers: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return detected people: model, group, image_id, ``perceived gender``, ``skin tone`` (a range) and questions.

    Answers are categories, of all that could be given; missing ones are NaN.
    """
    seen, keys = _seen(people), ["model", "image_id"]
    tone = pd.cut(seen["skin_tone"].astype(float), [0, *TONE_RANGES.values()], labels=list(TONE_RANGES))
    table = seen[["model", "group", "image_id"]].copy()
    table[PERCEIVED] = pd.Categorical(seen["answer"], categories=list(ANSWERS))
    table[SKIN] = tone
    for question, rows in person_answers.groupby("question", sort=False) if person_answers is not None else ():
        # Of a question about images the answer is that of everybody in it.
        join_keys = keys if rows["position"].astype(str).eq("0").all() else [*keys, "position"]
        own_answer = rows.set_index(join_keys)["answer"].reindex(pd.MultiIndex.from_frame(seen[join_keys]))
        choices = [*rows["choices"].iloc[0].split(CHOICES), UNCLEAR]
        table[question] = pd.Categorical(own_answer.to_numpy(), categories=choices)
    return table


def intersections(answers: pd.DataFrame, pairs: Sequence[tuple[str, str]], *, confidence: float = 0.95) -> pd.DataFrame:
    """Return people by two answers at once, as ``custom_intersections``.

    ``answers`` are as of :func:`wide_answers`, ``pairs`` of their columns, such as ``("perceived gender", "skin
    tone")``; each share is of the people with the first answer whose second is not unclear, that of ``unclear`` of all
    of them. Every answer that could be given has a row, whatever its number, so that no cell is chosen by chance.
    """
    frames = []
    for first, second in pairs:
        both = answers[answers[first].notna() & answers[second].notna()]
        crossed = both[["model", "image_id"]].assign(first=both[first].astype(str), second=both[second].astype(str))
        shares_of_second = stats.shares(
            "second", both[second].cat.categories, confidence, cluster="image_id", unclear=UNCLEAR
        )
        table = stats.by_group(crossed.sort_values("first", kind="stable"), ["model", "first"], shares_of_second)
        frames.append(table.assign(pair=f"{first} × {second}"))
    columns = {"n": "n_people", "count": "n"}
    return tables.join_tables([frame.rename(columns=columns) for frame in frames], "custom_intersections")


def _seen(people: pd.DataFrame) -> pd.DataFrame:
    """Return the people with a label, with ``answer``: one of :data:`ANSWERS`."""
    seen = people[people["status"].isin([JUDGED, UNCERTAIN])]
    return seen.assign(answer=seen["gender"].where(seen["status"] == JUDGED, "unclear"))


def _limits(center: np.ndarray, size: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of a benchmark's shares in percent: of what is no sample, the shares."""
    is_finite = np.isfinite(size)
    n = np.where(is_finite, np.rint(np.nan_to_num(size, nan=1)), 1)
    _, low, high = stats.percent(np.rint(center * n), n, confidence)
    return np.where(is_finite, low, 100 * center), np.where(is_finite, high, 100 * center)
