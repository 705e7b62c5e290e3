"""From single images to measured tables: which images are compared, and what each triplet (or seed) gives.

``images`` has a row for each image that was looked at: model, dataset, triplet_id, seed, prompt_gender and image_id.
Beside the three genders, ``placebo`` may stand for a neutral prompt whose word for people is replaced by another
neutral one. A case is a triplet with all its seeds, or a seed where a dataset of a model is one triplet (section 7.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from biaslab import stats, tables
from biaslab.errors import InputError, unknown_name
from biaslab.papers.triplets.analysis import PAIRS, PERMUTATIONS, PROMPT_GENDERS

METRICS = {
    **dict.fromkeys(("t", "t_pooled", "t_words"), ("prompt", "1", 1)),
    "z0": ("denoising", "1", 1),
    **dict.fromkeys(
        ("ssim", "resnet", "clip", "dino", "split_product", "split_product_dcr"), ("image", "1", 1)
    ),
    **dict.fromkeys(("diff_pix", "diff_pix_fixed"), ("image", "%", 0)),
}
"""Metric -> space, unit, and whether higher is closer (section 4.1); ``z_1``, ``z_2``, … are latents after steps."""
REFERENCES = ("neutral-another_seed", "neutral-placebo")
"""Pairs without a difference in gender: what other noise alone does, and what another neutral word alone does."""
FLOOR = (
    *("model", "dataset", "space", "metric", "reference", "value", "ci_low", "ci_high"),
    *("pair", "difference", "difference_ci_low", "difference_ci_high", "p", "p_holm", "p_bh"),
    *("n", "unit", "sample", "reason"),
)
"""Columns of :func:`floor`."""

_SET = ["model", "dataset"]
_IMAGE = [*_SET, "triplet_id", "seed"]
_STEP = re.compile(r"z_\d+")


def pairs(images: pd.DataFrame) -> pd.DataFrame:
    """Return which images are compared, for :func:`biaslab.judging.similarity.compare`.

    Returns:
        Columns model, dataset, triplet_id, seed, pair, first and second (ids of images): at each seed the neutral image
        with the feminine, the masculine and, where there is one, the placebo's; and neutral images of a triplet two by
        two, so that no image is in two such pairs. Images that lack the other one are in no pair.
    """
    _check(images)
    wide = images.pivot(index=_IMAGE, columns="prompt_gender", values="image_id").reset_index()
    frames = [
        wide[_IMAGE].assign(pair=f"neutral-{other}", first=wide.get("neutral"), second=wide.get(other))
        for other in ("feminine", "masculine", "placebo")
    ]
    neutral = images[images["prompt_gender"] == "neutral"].sort_values(_IMAGE)
    following = neutral.groupby(_IMAGE[:3])[["image_id"]].shift(-1)["image_id"]
    even = neutral.groupby(_IMAGE[:3]).cumcount() % 2 == 0
    other = neutral[_IMAGE].assign(pair=REFERENCES[0], first=neutral["image_id"], second=following)
    found = pd.concat([*frames, other[even]], ignore_index=True)
    # Pairs of one image beside one another, so that it is looked at once.
    return found.dropna(subset=["first", "second"]).sort_values(
        [*_SET, "first"], kind="stable", ignore_index=True
    )


def similarity(values: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_similarity`` from how alike single pairs are (section 4.1, eq. 1 and 2).

    A case has the mean over the seeds at which both of its pairs have a value, so that an image which is missing on one
    side moves no gap.

    Args:
        values: Columns model, dataset, triplet_id, seed, pair, metric, value and reason. In prompt space, where a seed
            changes nothing, a row a triplet. Pairs other than of neutral and a gender are left out.

    Raises:
        InputError: A column is missing, or a pair is there twice.
        UnknownNameError: There is no such metric.
    """
    values = values[values["pair"].isin(PAIRS)]
    return tables.of(list(_by_case(values)), "triplets_similarity")


def _by_case(values: pd.DataFrame) -> Iterator[dict]:
    keys = ["model", "dataset", "metric", "triplet_id", "seed"]
    _check(values, [*keys, "pair"])
    values = _with_cases(values.assign(seed=values["seed"].astype(object).where(values["seed"].notna(), "")))
    missing = values["value"].isna().groupby([values[k] for k in keys]).transform("any")
    values = values.assign(value=values["value"].mask(missing))
    for names, rows in values.groupby(["model", "dataset", "metric", "pair", "case"], sort=False):
        space, unit, higher = _metric(names[2])
        known = int(rows["value"].notna().sum())
        reasons = dict.fromkeys(r for r in rows["reason"].fillna("") if r)
        yield dict(zip(("model", "dataset", "metric", "pair", "case"), names, strict=True)) | {
            "space": space,
            "value": rows["value"].mean(),
            "n": known,
            "unit": unit,
            "higher_is_closer": higher,
            "sample": rows["sample"].iloc[0],
            "reason": "" if known else "; ".join(reasons) or "the other pair has no value at any seed",
        }


def _metric(name: str) -> tuple[str, str, int]:
    if _STEP.fullmatch(name):
        return METRICS["z0"]
    if name not in METRICS:
        raise unknown_name("metric", name, METRICS)
    return METRICS[name]


def object_counts(images: pd.DataFrame, objects: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_object_counts`` by case: C(o, P) of section 5.2, eq. 3, before the sum over triplets.

    Images count where those of all three genders were looked at, so that sets are matched.

    Args:
        images: See the module.
        objects: Columns image_id, object and count (1 or more); of images that are not in ``images`` none count.

    Raises:
        InputError: A column is missing, an image is there twice, or a count is no whole number of 1 or more.
    """
    matched = _matched(images)
    sizes = matched.groupby([*_SET, "prompt_gender"]).size().rename("n_images").reset_index()
    keys = [*_SET, "prompt_gender", "case", "object"]
    counts = _found(objects).merge(matched, on="image_id").groupby(keys, as_index=False)["count"].sum()
    return tables.of(counts.merge(sizes, on=[*_SET, "prompt_gender"]), "triplets_object_counts")


def object_similarity(images: pd.DataFrame, objects: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_object_similarity`` by case: the mean cosine of object counts (section 5.2, eq. 4).

    A pair with an image that shows no object has no cosine; it is counted in ``n_without``. Arguments and errors as for
    :func:`object_counts`.
    """
    from scipy import sparse

    matched, found = _matched(images), _found(objects)
    place = pd.Series(np.arange(len(matched)), index=matched["image_id"])
    found = found[found["image_id"].isin(place.index)]
    kinds, names = pd.factorize(found["object"])
    shape = (len(matched), max(1, len(names)))
    counts = sparse.csr_array((found["count"].astype(float), (place[found["image_id"]], kinds)), shape=shape)
    wide = matched.assign(place=place.to_numpy()).pivot(
        index=[*_IMAGE, "case", "sample"], columns="prompt_gender", values="place"
    )
    rows = []
    for pair in PAIRS:
        sides = [counts[wide[gender].to_numpy()] for gender in pair.split("-")]
        squares = np.prod([np.asarray(side.multiply(side).sum(axis=1)) for side in sides], axis=0)
        dots = np.asarray(sides[0].multiply(sides[1]).sum(axis=1))
        cosine = np.divide(dots, np.sqrt(squares), out=np.full(len(dots), np.nan), where=squares > 0)
        # Rounding can leave 1.0000000000000002.
        each = wide.reset_index()[[*_SET, "case", "sample"]].assign(value=np.minimum(cosine, 1), pair=pair)
        rows.append(each)
    each = pd.concat(rows, ignore_index=True)
    cases = each.groupby([*_SET, "pair", "case", "sample"], sort=False)["value"]
    out = cases.agg(value="mean", n="count", images="size").reset_index()
    reason = np.where(out["n"] == 0, "an image of each pair shows no object", "")
    return tables.of(
        out.assign(n_without=out["images"] - out["n"], reason=reason), "triplets_object_similarity"
    )


def floor(
    values: pd.DataFrame, *, seed: int = 0, replicates: int = PERMUTATIONS, confidence: float = 0.95
) -> pd.DataFrame:
    """Return how alike images are that differ in no gender, and how much closer or less close gendered ones are.

    Of ``neutral-another_seed``, what is left in common under other noise: the floor under similarities at the same
    noise. Of ``neutral-placebo`` at the same noise, what changing a word does that says nothing of gender.

    Args:
        values: As for :func:`similarity`, with pairs of :data:`REFERENCES` beside those of neutral and a gender.

    Returns:
        Columns :data:`FLOOR`: the reference's mean value with its interval (Student t over cases), and difference, the
        closeness of a gendered pair less that of the reference over the same cases, with interval and sign-flip test,
        which is adjusted for all rows of a kind of sample. A reference without a value says why.
    """
    both = [*PAIRS, *REFERENCES]
    cases = pd.DataFrame(
        [
            row
            for kind in ((*PAIRS,), *((r,) for r in REFERENCES))
            for row in _by_case(values[values["pair"].isin(kind)])
        ],
        columns=[*_SET, "space", "metric", "pair", "case", "value", "unit", "higher_is_closer", "sample"],
    )
    out = []
    for names, rows in cases.groupby([*_SET, "space", "metric"], sort=False):
        wide = rows.pivot(index="case", columns="pair", values="value").reindex(columns=both)
        sign = 1 if rows["higher_is_closer"].iloc[0] == 1 else -1
        same = (
            dict(zip([*_SET, "space", "metric"], names, strict=True))
            | rows.iloc[0][["unit", "sample"]].to_dict()
        )
        for reference in REFERENCES:
            if rows["space"].iloc[0] == "prompt" and reference == REFERENCES[0]:
                continue  # A seed changes nothing of a prompt.
            mean = stats.mean_interval(wide[reference], confidence, skip_nan=True)
            for pair in PAIRS:
                difference = (sign * (wide[pair] - wide[reference])).dropna()
                far = stats.mean_interval(difference, confidence)
                why = (
                    ""
                    if mean.n > 1
                    else "an interval needs two cases"
                    if mean.n
                    else f"there is no {reference}"
                )
                test = stats.sign_flip(difference, replicates, seed=seed)
                numbers = (reference, *mean[:3], pair, *far[:3], test.p, np.nan, np.nan, far.n)
                out.append(same | dict(zip(FLOOR[4:16], numbers, strict=True)) | {"reason": why})
    found = pd.DataFrame(out, columns=list(FLOOR))
    for column, method in (("p_holm", "holm"), ("p_bh", "benjamini_hochberg")):
        found[column] = found.groupby("sample")["p"].transform(
            lambda p, method=method: stats.adjust(p, method)
        )
    return found


def _found(objects: pd.DataFrame) -> pd.DataFrame:
    _check(objects, ["image_id", "object"])
    counts = pd.to_numeric(objects["count"], errors="coerce")
    odd = objects.loc[~((counts >= 1) & (counts % 1 == 0)), "count"]
    if len(odd):
        raise InputError(
            f"count is {odd.iloc[0]!r}; give whole numbers of 1 or more, and no row for no object."
        )
    return objects.assign(count=counts)


def _matched(images: pd.DataFrame) -> pd.DataFrame:
    """Return the images of the three genders at seeds where all three were looked at, with their case."""
    _check(images)
    three = images[images["prompt_gender"].isin(PROMPT_GENDERS)]
    return _with_cases(three[three.groupby(_IMAGE)["image_id"].transform("size") == len(PROMPT_GENDERS)])


def _with_cases(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with sample and case: the triplet, or the seed where there is one triplet only."""
    one = rows.groupby(_SET)["triplet_id"].transform("nunique") == 1
    return rows.assign(
        sample=np.where(one, "seeds", "triplets"),
        case=rows["seed"].astype(str).where(one, rows["triplet_id"].astype(str)),
    )


def _check(rows: pd.DataFrame, keys: list[str] | None = None) -> None:
    keys = keys or [*_IMAGE, "prompt_gender"]
    missing = [k for k in keys if k not in rows]
    if missing:
        raise InputError(f"There is no column {missing[0]!r}; there are {', '.join(map(str, rows.columns))}.")
    twice = rows.duplicated(keys)
    if twice.any():
        raise InputError(
            f"There are two rows for {rows.loc[twice, keys].iloc[0].to_dict()}; each may occur once."
        )
