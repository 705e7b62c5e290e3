"""From single images to measured tables: which images are compared, and what each triplet (or seed) gives.

``images`` has a row for each image that was examined: model, dataset, triplet_id, seed, prompt_gender (or ``placebo``:
a neutral prompt with another neutral word) and image_id. A case is a triplet with all its seeds, or a seed where a
dataset of a model is one triplet (section 7.1).
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.metrics.instances import match
from biaslab.metrics.similarity import DEPENDENCY_GROUPS
from biaslab.papers.triplets.analysis import PAIRS, PROMPT_GENDERS, REFERENCES
from biaslab.papers.triplets.nouns import PEOPLE
from biaslab.schema import tables

METRICS = {
    **dict.fromkeys(("t", "t_pooled", "t_words"), ("prompt", "1", 1)),
    "z0": ("denoising", "1", 1),
    **dict.fromkeys(("ssim", "resnet", "clip", "dino", "split_product", "split_product_dcr"), ("image", "1", 1)),
    **dict.fromkeys(("diff_pix", "diff_pix_fixed"), ("image", "%", 0)),
}
"""Metric -> space, unit, and whether higher is closer (section 4.1); ``z_1``, ``z_2``, … are latents after steps."""
_SET = ["model", "dataset"]
_IMAGE = [*_SET, "triplet_id", "seed"]
STEP = re.compile(r"z_\d+")
"""Metrics that are of latents after a step."""


def pairs(images: pd.DataFrame) -> pd.DataFrame:
    """Return which images are compared: model, dataset, triplet_id, seed, pair, first and second (ids of images).

    At each seed the neutral image with the feminine, the masculine and, where there is one, the placebo's; and neutral
    images of a triplet two by two, so that no image is in two such pairs.
    """
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
    # Pairs of one image next to one another, so that it is examined once.
    return found.dropna(subset=["first", "second"]).sort_values([*_SET, "first"], kind="stable", ignore_index=True)


def prompts_of_pairs(pairs: pd.DataFrame, texts: pd.Series) -> pd.DataFrame:
    """Return which prompts are compared: ``pairs`` with ``texts`` in the place of ids of images, once for each triplet.

    In prompt space a seed changes nothing, so ``seed`` is missing, and pairs at other seeds are left out.
    """
    once = pairs[pairs["pair"] != REFERENCES[0]].drop_duplicates([*_SET, "triplet_id", "pair"])
    return once.assign(seed=np.nan, **{side: once[side].map(texts) for side in ("first", "second")})


def similarity(values: pd.DataFrame, name: str = "triplets_similarity") -> pd.DataFrame:
    """Return ``triplets_similarity``, or a table like it, from how alike single pairs are (section 4.1, eq. 1 and 2).

    A case has the mean over the seeds at which both of its pairs have a value, so that an image which is missing on one
    side moves no gap. ``values`` has the columns model, dataset, triplet_id, seed (missing in prompt space), pair,
    metric, value and reason.
    """
    return tables.make_table(_by_case(values[values["pair"].isin(PAIRS)]), name)


def reference_similarity(values: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_reference_similarity``: the same of the pairs :data:`~.analysis.REFERENCES`, each by itself."""
    found = [_by_case(values[values["pair"] == reference]) for reference in REFERENCES]
    return tables.make_table(pd.concat(found, ignore_index=True), "triplets_reference_similarity")


def _by_case(values: pd.DataFrame) -> pd.DataFrame:
    keys = ["model", "dataset", "metric", "triplet_id", "seed"]
    values = _with_cases(values.assign(seed=values["seed"].astype(object).where(values["seed"].notna(), "")))
    missing = values["value"].isna().groupby([values[k] for k in keys]).transform("any")
    values = values.assign(value=values["value"].mask(missing), reason=values["reason"].fillna(""))
    of = ["model", "dataset", "metric", "pair", "case"]
    cases = values.groupby(of, sort=False)
    out = cases.agg(value=("value", "mean"), n=("value", "count"), sample=("sample", "first"))
    why = values.drop_duplicates([*of, "reason"]).query("reason != ''").groupby(of)["reason"].agg("; ".join)
    why = why.reindex(out.index).fillna("the other pair has no value at any seed")
    out = out.assign(reason=why.where(out["n"] == 0, "")).reset_index()
    told = [METRICS.get(name, METRICS["z0"]) for name in out["metric"]]
    columns = ["space", "unit", "higher_is_closer"]
    return out.join(pd.DataFrame(told, columns=columns, index=out.index))


def object_counts(images: pd.DataFrame, objects: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_object_counts`` by case: C(o, P) of section 5.2, eq. 3, before the sum over triplets.

    Images count where those of all three genders were examined, so that sets are matched. ``objects`` has the columns
    image_id, object and count (1 or more).
    """
    return tables.make_table(_counted(images, objects), "triplets_object_counts")


def _counted(images: pd.DataFrame, found: pd.DataFrame, *of_each: str) -> pd.DataFrame:
    """Return the sums of counts by set of prompts, case, object and what else tells them apart."""
    matched, sets = _matched(images), [*_SET, "prompt_gender"]
    sizes = matched.groupby(sets).agg(n_images=("image_id", "size"), n_cases=("case", "nunique"))
    keys = [*_SET, *of_each, "prompt_gender", "case", "object"]
    counts = found.merge(matched, on="image_id").groupby(keys, as_index=False)["count"].sum()
    return counts.merge(sizes.reset_index(), on=sets)


def object_images(
    images: pd.DataFrame, looked: pd.DataFrame, objects: pd.DataFrame, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return ``triplets_object_images``: in how many images objects were looked for, and how many there are.

    ``looked`` has the columns image_id and outcome, which is empty where an image was examined; ``objects`` as for
    :func:`object_counts`; ``confidence`` is the level of the intervals (Student t over cases).
    """
    found = objects.groupby("image_id")["count"].sum()
    seen = set(looked.loc[looked["status"] == "", "image_id"])
    rows = _with_cases(images[images["prompt_gender"].isin(PROMPT_GENDERS)])
    rows = rows.assign(n=rows["image_id"].map(found).fillna(0), seen=rows["image_id"].isin(seen))
    out, keys = [], [*_SET, "prompt_gender"]
    for names, of in rows.groupby(keys, sort=False):
        there = of[of["seen"]]
        mean = stats.mean_interval(there.groupby("case")["n"].mean(), confidence)
        out.append(
            dict(zip(keys, names, strict=True))
            | {"n_images": len(of), "n_lost": len(of) - len(there), "n_empty": int((there["n"] == 0).sum())}
            | {"objects_per_image": mean.value, "ci_low": mean.ci_low, "ci_high": mean.ci_high}
            | {"reason": "" if mean.n > 1 else "an interval needs two cases"}
        )
    return tables.make_table(out, "triplets_object_images")


def detections(found: pd.DataFrame, truth: pd.DataFrame) -> pd.DataFrame:
    """Return objects of images with ground truth, as ``triplets_confusion`` has them, without model and reference.

    ``found`` are instances that are detected, ``truth`` those that are shown, as
    :func:`biaslab.metrics.instances.match` takes them.
    """
    matched = match(found, truth)
    matched["truth"] = np.where(matched["found"] == "finder", "no", "yes")
    matched["answer"] = np.where(matched["found"] == "truth", "no", "yes")
    counts = matched.groupby(["image_id", "object", "truth", "answer"], sort=False)["iou"]
    return with_quantity(counts.agg(n="size", iou="mean").reset_index())


def with_quantity(objects: pd.DataFrame) -> pd.DataFrame:
    """Return objects as subjects of a confusion; people are another quantity, so that all objects leave them out."""
    is_person = objects["object"].isin(PEOPLE)
    return objects.assign(quantity=np.where(is_person, "people", "objects"), subject=objects["object"])


def object_similarity(images: pd.DataFrame, objects: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_object_similarity`` by case: the mean cosine of object counts (section 5.2, eq. 4).

    A pair with an image that shows no object has no cosine; it is counted in ``n_pairs_excluded``. Arguments as for
    :func:`object_counts`.
    """
    matched = _matched(images)
    wide = objects.merge(matched, on="image_id").astype({"count": float})
    wide = wide.pivot(index=[*_IMAGE, "object"], columns="prompt_gender", values="count")
    wide = wide.reindex(columns=PROMPT_GENDERS).fillna(0)
    squares = (wide**2).groupby(level=_IMAGE).sum()
    same_noise = matched[[*_IMAGE, "case", "sample"]].drop_duplicates().sort_values(_IMAGE)
    rows = []
    for pair in PAIRS:
        sides = pair.split("-")
        lengths = np.sqrt(squares[sides].prod(axis=1))
        dots = wide[sides].prod(axis=1).groupby(level=_IMAGE).sum()
        # Rounding can leave 1.0000000000000002.
        cosine = (dots / lengths.where(lengths > 0)).clip(upper=1).rename("value")
        rows.append(same_noise.join(cosine, on=_IMAGE).assign(pair=pair))
    each = pd.concat(rows, ignore_index=True)
    cases = each.groupby([*_SET, "pair", "case", "sample"], sort=False)["value"]
    out = cases.agg(value="mean", n="count", images="size").reset_index()
    reason = np.where(out["n"] == 0, "an image of each pair shows no object", "")
    out = out.assign(n_pairs_excluded=out["images"] - out["n"], reason=reason)
    return tables.make_table(out, "triplets_object_similarity")


def group_object_counts(images: pd.DataFrame, groups: pd.DataFrame, nouns: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_group_object_counts`` by case: C_g(o, P) of section 6.3, before the sum over triplets.

    Of the group ``hidden`` nouns are counted that no object of an image has the name of, of ``nouns`` all of its
    prompt, each once an image. ``groups`` has the columns image_id, object and dependency_group (missing where it is
    not known: such do not count), ``nouns`` image_id, noun and hidden.
    """
    found = _of_groups(groups, nouns).assign(count=1)
    return tables.make_table(_counted(images, found, "dependency_group"), "triplets_group_object_counts")


def group_images(images: pd.DataFrame, groups: pd.DataFrame, nouns: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_group_images``: the images (%) that hold each group (section 7.2, table 11)."""
    matched, held = _matched(images), _of_groups(groups, nouns)
    rows = []
    for names, of in matched.groupby(_SET, sort=False):
        size = {"n": len(of), "n_triplets": of["triplet_id"].nunique()}
        for group in DEPENDENCY_GROUPS:
            n = of["image_id"].isin(held.loc[held["dependency_group"] == group, "image_id"]).sum()
            share = {"dependency_group": group, "percent_images": 100 * n / len(of)}
            rows.append(dict(zip(_SET, names, strict=True)) | share | size)
    return tables.make_table(rows, "triplets_group_images")


def _of_groups(groups: pd.DataFrame, nouns: pd.DataFrame) -> pd.DataFrame:
    """Return objects and nouns with their group, a row each."""
    named = nouns.rename(columns={"noun": "object"})
    frames = [
        groups[groups["dependency_group"].notna()],
        named[named["hidden"]].assign(dependency_group="hidden"),
        named.assign(dependency_group="nouns"),
    ]
    columns = ["image_id", "object", "dependency_group"]
    return pd.concat([frame[columns] for frame in frames], ignore_index=True)


def _matched(images: pd.DataFrame) -> pd.DataFrame:
    """Return the images of the three genders at seeds where all three were examined, with their case."""
    three = images[images["prompt_gender"].isin(PROMPT_GENDERS)]
    return _with_cases(three[three.groupby(_IMAGE)["image_id"].transform("size") == len(PROMPT_GENDERS)])


def _with_cases(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with sample and case: the triplet, or the seed where there is one triplet only."""
    one = rows.groupby(_SET)["triplet_id"].transform("nunique") == 1
    return rows.assign(
        sample=np.where(one, "seeds", "triplets"),
        case=rows["seed"].astype(str).where(one, rows["triplet_id"].astype(str)),
    )
