"""Shares by group of custom prompts and images, their distance from a benchmark, and models compared.

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
NO_ANSWER = "there is no answer to count"
NO_BENCHMARK = "the benchmark has no share for this group"
"""Reasons for a missing share or difference."""
# Shares are clipped to this distance from 0 and 1, beyond which sampling noise adds almost nothing.
_MIN_SHARE = 0.001


def shares(people: pd.DataFrame, *, seed: int = 0, replicates: int = 2_000, confidence: float = 0.95) -> pd.DataFrame:
    """Return the shares of people perceived as female, as male, and unclear, by model and group, as ``custom_shares``.

    Shares of female and male are among people judged female or male; that of unclear is among detected people. Their
    bounds assume that all other prompted people are male, or female. ``seed`` and ``replicates`` belong to the test of
    equal shares of judged people in all groups, which permutes whole images.
    """
    # A copy of an image shows the same people.
    people, rows = people[people["status"] != DUPLICATE], []
    for model, model_people in people.groupby("model", sort=False):
        table = _shares(model_people, _select_labelled(model_people), ANSWERS, confidence)
        n_by_group = model_people.groupby("group").size()
        n_by_group[ALL] = n_by_group.sum()
        groups = table["group"].map(n_by_group).to_numpy(float)
        # Without judged people, the share of a group is only known to be within 0–100%.
        n_counted = (table["percent"] / 100 * table["n"]).fillna(0)
        bounds = {"percent_lower_bound": n_counted, "percent_upper_bound": n_counted + groups - table["n"]}
        for name, count in bounds.items():
            table[name] = (100 * count / groups).where(table["answer"].isin(GENDERS))
        table["percent_judged"] = 100 * table["n"] / groups
        for answer, subset in table[table["answer"].isin(GENDERS)].groupby("answer"):
            groups_only = subset[subset["group"] != ALL]
            is_mean = (table["answer"] == answer) & (table["group"] == ALL)
            table.loc[is_mean, list(bounds)] = groups_only[list(bounds)].mean().to_numpy()
        table["n_groups_prompted"] = model_people["group"].nunique()
        images = _sum_by_image(model_people, model_people["status"] == JUDGED)
        p = stats.clustered_homogeneity(images["count"], images["n"], images["group"], replicates, seed=seed)
        table["p_judged"] = np.where(table["group"] == ALL, p, np.nan)
        is_mean = table["answer"].isin(GENDERS) & (table["group"] == ALL)
        table["note"] = ""
        for k in table.index[is_mean]:
            subset = table[(table["answer"] == table.at[k, "answer"]) & (table["group"] != ALL)]
            is_significant = p < stats.significance(confidence)
            table.at[k, "note"] = _note(subset, *table.loc[k, list(bounds)], differs=is_significant)
        rows.append(table.assign(model=model))
    return tables.join_tables(rows, "custom_shares")


def _note(groups: pd.DataFrame, low: float, high: float, *, differs: bool) -> str:
    """Return sentences on limits of a mean over ``groups``: groups without judged people, and whether their share
    ``differs`` between groups.
    """
    missing, sentences = groups[groups["n"] == 0]["group"], []
    if 0 < len(missing) < len(groups):
        sentences.append(f"The mean is over {len(groups) - len(missing)} of {len(groups)} groups; no person is judged ")
        sentences[-1] += f"in {', '.join(missing)}."
    if differs:
        percents = groups["percent_judged"]
        sentences.append(
            f"The share of people judged differs significantly between groups ({percents.min():.0f} to "
            f"{percents.max():.0f}%)."
        )
        if np.isfinite(low):
            sentences.append(f"If all others were male, the mean would be {low:.1f}%; if all were female, {high:.1f}%.")
    return " ".join(sentences)


def _sum_by_image(rows: pd.DataFrame, is_counted: pd.Series) -> pd.DataFrame:
    """Return one row per image: group and prompt where ``rows`` have them, image_id, ``n`` people and their ``count``
    where ``is_counted``.
    """
    keys = [name for name in ("group", "prompt") if name in rows]
    sums = rows[[*keys, "image_id"]].assign(count=is_counted.astype(int), n=1)
    return sums.groupby([*keys, "image_id"], sort=False, as_index=False).sum()


def counted_images(people: pd.DataFrame) -> pd.DataFrame:
    """Return images with people judged female or male: their keys, ``n`` people, and the ``count`` of women."""
    return _count_images(_select_labelled(people), GENDERS[0])


def _count_images(labelled_people: pd.DataFrame, answer: str) -> pd.DataFrame:
    """Return images with the ``count`` of people labelled ``answer``: of all if it is unclear, else of the others."""
    answers = labelled_people if answer == UNCLEAR else labelled_people[labelled_people["answer"] != UNCLEAR]
    return _sum_by_image(answers, answers["answer"] == answer)


def _shares(
    model_people: pd.DataFrame, labelled_people: pd.DataFrame, answers: Sequence[str], confidence: float
) -> pd.DataFrame:
    """Return the shares of each answer for one model, by group and for the mean over groups with labelled people."""
    groups, rows = sorted(set(model_people["group"])), []
    prompts = model_people.groupby("group")["prompt"].nunique()
    for answer in answers:
        images = _count_images(labelled_people, answer)
        sums = images.groupby("group")[["count", "n"]].sum()
        mean = stats.strata_mean(sums["count"], sums["n"], confidence, effect=image_effect(images))
        parts = [(ALL, mean, images)]
        parts += [
            (group, stats.clustered_share(subset["count"], subset["n"], confidence), subset)
            for group in groups
            for subset in [images[images["group"] == group]]
        ]
        for group, share, subset in parts:
            missing_reason = NOT_JUDGED if answer in GENDERS else NO_ANSWER
            rows.append(
                {"group": group, "answer": answer, "percent": 100 * share.value, "ci_low": 100 * share.ci_low,
                 "ci_high": 100 * share.ci_high, "n": share.n, "n_images": subset["image_id"].nunique(),
                 "n_prompts": prompts.sum() if group == ALL else prompts[group], "n_groups": subset["group"].nunique(),
                 "reason": "" if share.n else missing_reason}
            )  # fmt: skip
    return pd.DataFrame(rows)


def image_effect(images: pd.DataFrame, stratum: str = "group") -> float:
    """Return the design effect of the mean over groups (or another ``stratum``); 1 without people."""
    effect = stats.design_effect(
        images["count"], images["n"], stratum=images[stratum], image=images["image_id"].astype(str)
    )
    return effect if np.isfinite(effect) else 1.0


def _is_binomial(images: pd.DataFrame) -> bool:
    """Return whether no image has several people, so that shares are binomial."""
    return not images["image_id"].duplicated().any() and bool((images["n"] <= 1).all())


def answer_shares(person_answers: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the shares of answers to custom questions by group, as ``custom_answer_shares``; takes
    ``custom_person_answers``.

    Shares of choices are of the answers that are not unclear, that of ``unclear`` of all. ``distance`` is the mean
    distance of the choices' shares from an even split; only the mean over groups has it corrected for sampling noise.
    """
    rows = []
    for question, question_rows in person_answers.groupby("question", sort=False):
        names = question_rows["choices"].iloc[0].split(CHOICES)
        for model, model_answers in question_rows.groupby("model", sort=False):
            given_answers = model_answers[model_answers["answer"] != ""]
            answer_shares = _shares(model_answers, given_answers, [*names, UNCLEAR], confidence)
            by_group, mean = _unevenness(given_answers, names, confidence)
            for column in ("distance", "null_mean"):
                answer_shares[column] = answer_shares["group"].map(by_group[column])
            for name, value in mean.items():
                answer_shares[name] = np.where(answer_shares["group"] == ALL, value, np.nan)
            rows.append(answer_shares.assign(question=question, model=model))
    return tables.join_tables(rows, "custom_answer_shares")


def _unevenness(
    answers: pd.DataFrame, names: Sequence[str], confidence: float
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return the distance of answers from an even split, by group, and its corrected mean over groups."""
    images = [_count_images(answers, name) for name in names]
    counts = pd.concat([rows.groupby("group")["count"].sum() for rows in images], axis=1).to_numpy(int)
    n = images[0].groupby("group")["n"].sum()
    center, size = 1 / len(names), np.broadcast_to(n.to_numpy()[:, None], counts.shape)
    share = counts / size
    if all(map(_is_binomial, images)):
        null_mean = stats.absolute_deviation_null_mean(n, center)
        deviation = stats.mean_mad(counts, confidence=confidence)
    else:
        effects = np.array([image_effect(rows) for rows in images])
        error = np.sqrt(center * (1 - center) * effects / size)
        null_mean = stats.normal_null_mean(error).mean(axis=1)
        deviation = stats.mean_distance(share - center, error, 2 * center * (1 - center), confidence)
    by_group = pd.DataFrame(
        {"distance": 100 * np.abs(share - center).mean(axis=1), "null_mean": 100 * null_mean}, index=n.index
    )
    by_group.loc[ALL] = by_group.mean()
    return by_group, _corrected_columns(deviation)


def _corrected_columns(deviation: stats.Deviation) -> dict[str, float]:
    """Return the columns of a corrected mean distance, in points."""
    limits = {f"distance_corrected_{end}": 100 * getattr(deviation, end) for end in ("ci_low", "ci_high")}
    return {"distance_corrected": 100 * deviation.value, "distance_p": deviation.p} | limits


def distance(people: pd.DataFrame, benchmark: pd.DataFrame, *, seed: int = 0, confidence: float = 0.95) -> pd.DataFrame:
    """Return the distance of shares of female (of people judged female or male) from a benchmark: ``custom_distance``.

    Tests of groups are :func:`biaslab.stats.clustered_share_test`. They are exact for one person per image; for several
    they flip signs of whole images, or use the effective sample size. Holm's adjustment is over a model's groups. The
    mean distance is corrected for sampling noise, including that of a benchmark estimated from a sample.
    """
    rows, benchmark_shares = [], benchmark.set_index("group")
    for model, model_people in people.groupby("model", sort=False):
        images = counted_images(model_people)
        group_names = list(dict.fromkeys([*benchmark["group"], *sorted(set(model_people["group"]))]))
        table = pd.DataFrame({"group": [group for group in group_names if group in set(model_people["group"])]})
        table["center"] = table["group"].map(benchmark_shares["percent_female"]).astype(float) / 100
        table["size"] = table["group"].map(benchmark_shares["n"]).astype(float)
        if not images["group"].isin(table.dropna(subset="center")["group"]).any():
            continue
        table = pd.concat([table, pd.DataFrame(_test_groups(images, table, seed, confidence))], axis=1)
        table["reason"] = np.where(table["n"] == 0, NOT_JUDGED, np.where(table["center"].isna(), NO_BENCHMARK, ""))
        base = _limits(table["center"].fillna(0).to_numpy(), table["size"].to_numpy(), confidence)
        interval = stats.difference_interval(
            100 * table["center"], *base, table["percent_female"], table["share_low"], table["share_high"]
        )
        table["benchmark"] = 100 * table["center"]
        table["difference"] = table["percent_female"] - table["benchmark"]
        table = table.assign(ci_low=interval.low, ci_high=interval.high, distance=table["difference"].abs())
        table["p_holm"] = stats.adjust(table["p"])
        is_comparable = (table["n"] > 0) & table["center"].notna()
        corrections, table.loc[is_comparable, "null_mean"] = _mean_distance(images, table[is_comparable], confidence)
        mean = _mean_row(images, table[is_comparable], confidence)
        missing = table.loc[~is_comparable, "group"].tolist()
        note = f"No share or no benchmark for {len(missing)} of {len(table)} groups: {', '.join(missing)}."
        table = pd.concat([pd.DataFrame([mean | corrections]), table]).assign(model=model, n_groups_prompted=len(table))
        rows.append(table.assign(note=note if missing else ""))
    return tables.join_tables(rows, "custom_distance")


def _test_groups(images: pd.DataFrame, groups: pd.DataFrame, seed: int, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield the share of each group with its limits, and the test against its benchmark."""
    effect = image_effect(images)
    for group, center, size in groups[["group", "center", "size"]].itertuples(index=False):
        rows = images[images["group"] == group]
        share = stats.clustered_share(rows["count"], rows["n"], confidence)
        test = rows["count"], rows["n"], center, size
        yield {
            "percent_female": 100 * share.value, "share_low": 100 * share.ci_low, "share_high": 100 * share.ci_high,
            "p": np.nan if np.isnan(center) else stats.clustered_share_test(*test, effect=effect, seed=seed),
            "n": share.n, "n_images": len(rows), "n_groups": 1, "count": rows["count"].sum(),
        }  # fmt: skip


def _mean_distance(
    images: pd.DataFrame, groups: pd.DataFrame, confidence: float
) -> tuple[dict[str, float], NDArray[np.float64]]:
    """Return the corrected mean distance of groups from benchmarks, and the null expectation of each, in points."""
    images = images[images["group"].isin(groups["group"])]
    count, n, center, size = (groups[name].to_numpy(float) for name in ("count", "n", "center", "size"))
    if _is_binomial(images) and not np.isfinite(size).any():
        centers = np.clip(center, _MIN_SHARE, 1 - _MIN_SHARE)
        null_mean = [float(stats.absolute_deviation_null_mean(int(k), p)) for k, p in zip(n, centers, strict=True)]
        return _corrected_columns(stats.mean_deviation(count, n, centers, confidence)), 100 * np.array(null_mean)
    effect = image_effect(images)
    is_sampled = np.isfinite(size)
    # Under the null hypothesis a sampled benchmark and the model have the same share, estimated from both.
    safe_size = np.where(is_sampled, size, 1)
    total = n / effect + safe_size
    pooled = (count / effect + center * safe_size + 0.5) / (total + 1)
    common = np.clip(np.where(is_sampled, pooled, center), _MIN_SHARE, 1 - _MIN_SHARE)
    # A variance around an estimated share is too small by the factor (total − 1) / total.
    free = np.where(is_sampled, total / (total - 1), 1)
    error = np.sqrt(common * (1 - common) * free * (effect / n + np.where(is_sampled, 1 / safe_size, 0)))
    largest = float(np.maximum(center, 1 - center).mean())
    deviation = stats.mean_distance(count / n - center, error, largest, confidence)
    return _corrected_columns(deviation), 100 * stats.normal_null_mean(error)


def _mean_row(images: pd.DataFrame, groups: pd.DataFrame, confidence: float) -> dict[str, Any]:
    """Return the row of the mean over groups, without its corrected distance."""
    images = images[images["group"].isin(groups["group"])]
    mean = stats.strata_mean(groups["count"], groups["n"], confidence, effect=image_effect(images))
    center = groups["center"].to_numpy()
    # Standard error of the mean due to the sample of the benchmark.
    error = float(np.sqrt(np.nansum(center * (1 - center) / groups["size"].to_numpy()))) / len(groups)
    z = norm.ppf((1 + confidence) / 2)
    base = 100 * center.mean()
    value, low, high = (100 * limit for limit in mean[:3])
    interval = stats.difference_interval(base, base - 100 * z * error, base + 100 * z * error, value, low, high)
    return {
        "group": ALL, "percent_female": value, "benchmark": base, "difference": value - base, "ci_low": interval.low,
        "ci_high": interval.high, "distance": groups["distance"].mean(), "null_mean": groups["null_mean"].mean(),
        "n": mean.n, "n_images": images["image_id"].nunique(), "n_groups": len(groups), "reason": "",
    }  # fmt: skip


def differences(
    people: pd.DataFrame, *, seed: int = 0, replicates: int = 10_000, confidence: float = 0.95
) -> pd.DataFrame:
    """Return differences between models on the same prompts, as ``custom_differences``: second minus first.

    Prompts of both models are weighted by ``n1 n2 / (n1 + n2)`` (Mantel and Haenszel 1959), groups equally. The test
    permutes whole images within prompts between the models. Holm's adjustment is over groups and pairs of models.
    """
    rows, rng = [], np.random.default_rng(seed)
    images = {model: counted_images(subset) for model, subset in people.groupby("model", sort=False)}
    keys = ["group", "prompt"]
    for first, second in combinations(images, 2):
        image_pair = [images[name] for name in (first, second)]
        sums = [
            subset.groupby(keys)[["count", "n"]].sum().add_suffix(f"_{k}") for k, subset in enumerate(image_pair, 1)
        ]
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
            shared_cells = [side.join(place, on=keys, how="inner") for side in image_pair]
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
    is_group = frame["group"] != ALL
    for subset in (is_group, ~is_group):
        frame.loc[subset, "p_holm"] = stats.adjust(frame.loc[subset, "p"].astype(float))
    return tables.make_table(frame, "custom_differences")


def _weights(cells: pd.DataFrame) -> pd.Series:
    return cells["n_1"] * cells["n_2"] / (cells["n_1"] + cells["n_2"])


def _difference(
    cells: pd.DataFrame, images: Sequence[pd.DataFrame], weights: np.ndarray, rng: np.random.Generator, replicates: int
) -> tuple[float, float, float]:
    """Return a weighted mean of prompts' differences (second minus first), its variance and the permutation p."""
    count, n = (np.stack([cells[f"{name}_{k}"] for k in (1, 2)]) for name in ("count", "n"))
    value = float(weights @ (count[1] / n[1] - count[0] / n[0]))
    # A share of few images is a poor estimate of its variance; the prompts of a group are therefore pooled.
    groups = pd.factorize(cells["group"])[0]
    variance = 0.0
    for k in range(2):
        effect = image_effect(images[k], "cell")
        n_female, n_judged = np.bincount(groups, count[k]) / effect, np.bincount(groups, n[k]) / effect
        shrunken_shares = ((n_female + 1) / (n_judged + 2))[groups]
        variance += float(weights**2 @ (shrunken_shares * (1 - shrunken_shares) * effect / n[k]))
    distances = np.abs(_permute_differences(count, n, images, weights, rng, replicates - 1))
    hits = np.count_nonzero(distances >= abs(value) - 1e-12)
    return value, variance, (hits + 1) / replicates


def _permute_differences(
    count: np.ndarray, n: np.ndarray, images: Sequence[pd.DataFrame], weights: np.ndarray, rng: np.random.Generator,
    draws: int,
) -> np.ndarray:  # fmt: skip
    """Return ``draws`` differences after randomly reassigning the images of each prompt to the two models."""
    total = count.sum(axis=0)
    if all(map(_is_binomial, images)):
        n_female = rng.hypergeometric(total, n.sum(axis=0) - total, n[1], size=(draws, len(total)))
        return (n_female / n[1] - (total - n_female) / n[0]) @ weights
    pooled = pd.concat([side.assign(model=k) for k, side in enumerate(images)])
    differences = np.zeros(draws)
    for weight, (_, cell_rows) in zip(weights, pooled.groupby("cell"), strict=True):
        # Images with equal numbers of people and of women are exchangeable.
        kinds = cell_rows.groupby(["count", "n"]).size()
        n_second = int((cell_rows["model"] == 1).sum())
        kind_counts = rng.multivariate_hypergeometric(kinds.to_numpy(), n_second, size=draws, method="marginals")
        n_female, n_judged = (kind_counts @ kinds.index.get_level_values(name).to_numpy() for name in ("count", "n"))
        first_share = (cell_rows["count"].sum() - n_female) / (cell_rows["n"].sum() - n_judged)
        differences += weight * (n_female / n_judged - first_share)
    return differences


def outcomes(people: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the status of the prompted people, by model and group, as ``custom_outcomes``."""

    def by_status(rows: pd.DataFrame) -> pd.DataFrame:
        present = [status for status in STATUSES if (rows["status"] == status).any()]
        shares_of_status = stats.shares("status", present, confidence, cluster="image_id")
        return stats.by_group(rows, "group", shares_of_status, overall=ALL)

    rows = stats.by_group(people, "model", by_status)
    return tables.make_table(rows.rename(columns={"n": "n_people", "count": "n"}), "custom_outcomes")


def tones(people: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the mean skin tone (1–10) by model and group, and the percentage without a tone, as ``custom_tones``.

    Limits are Student's, with the image as the unit: one degree of freedom fewer than images.
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

    Answers are categorical, with all possible answers as categories; missing ones are NaN.
    """
    labelled_people, keys = _select_labelled(people), ["model", "image_id"]
    tone = pd.cut(labelled_people["skin_tone"].astype(float), [0, *TONE_RANGES.values()], labels=list(TONE_RANGES))
    table = labelled_people[["model", "group", "image_id"]].copy()
    table[PERCEIVED] = pd.Categorical(labelled_people["answer"], categories=list(ANSWERS))
    table[SKIN] = tone
    for question, rows in person_answers.groupby("question", sort=False) if person_answers is not None else ():
        # An answer about an image applies to each person in it.
        join_keys = keys if rows["position"].astype(str).eq("0").all() else [*keys, "position"]
        labels = rows.set_index(join_keys)["answer"].reindex(pd.MultiIndex.from_frame(labelled_people[join_keys]))
        choices = [*rows["choices"].iloc[0].split(CHOICES), UNCLEAR]
        table[question] = pd.Categorical(labels.to_numpy(), categories=choices)
    return table


def intersections(answers: pd.DataFrame, pairs: Sequence[tuple[str, str]], *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the shares of a second answer among people with a first, as ``custom_intersections``.

    ``answers`` is a result of :func:`wide_answers`, ``pairs`` are pairs of its columns, such as ``("perceived gender",
    "skin tone")``. Shares are of people with the first answer whose second is not unclear; that of ``unclear`` is of
    all people with the first answer. Every possible answer has a row, including those with a count of 0.
    """
    frames = []
    for first, second in pairs:
        complete_cases = answers[answers[first].notna() & answers[second].notna()]
        label_pairs = complete_cases[["model", "image_id"]].assign(
            first=complete_cases[first].astype(str), second=complete_cases[second].astype(str)
        )
        shares_of_second = stats.shares(
            "second", complete_cases[second].cat.categories, confidence, cluster="image_id", unclear=UNCLEAR
        )
        table = stats.by_group(label_pairs.sort_values("first", kind="stable"), ["model", "first"], shares_of_second)
        frames.append(table.assign(pair=f"{first} × {second}"))
    columns = {"n": "n_people", "count": "n"}
    return tables.join_tables([frame.rename(columns=columns) for frame in frames], "custom_intersections")


def _select_labelled(people: pd.DataFrame) -> pd.DataFrame:
    """Return the people with a label, with ``answer``: one of :data:`ANSWERS`."""
    labelled_people = people[people["status"].isin([JUDGED, UNCERTAIN])]
    return labelled_people.assign(
        answer=labelled_people["gender"].where(labelled_people["status"] == JUDGED, "unclear")
    )


def _limits(center: np.ndarray, size: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of a benchmark's shares in percent; for shares not from a sample, the shares themselves."""
    is_finite = np.isfinite(size)
    n = np.where(is_finite, np.rint(np.nan_to_num(size, nan=1)), 1)
    _, low, high = stats.percent(np.rint(center * n), n, confidence)
    return np.where(is_finite, low, 100 * center), np.where(is_finite, high, 100 * center)
