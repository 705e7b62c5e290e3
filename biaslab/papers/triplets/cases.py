"""Measured tables from single images: pairs to compare, and the values of each case.

``images`` has one row per examined image: model, dataset, triplet_id, seed, prompt_gender (or ``placebo``: a neutral
prompt with another neutral word) and image_id. A case is a triplet with all its seeds, or a seed where a model's
dataset has a single triplet (section 7.1).
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
"""Metric → space, unit, and whether higher is closer (section 4.1); ``z_1``, ``z_2``, … compare latents after steps."""
_SET = ["model", "dataset"]
_IMAGE = [*_SET, "triplet_id", "seed"]
STEP = re.compile(r"z_\d+")
"""Metrics of latents after a step."""


def pairs(images: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs of images to compare: model, dataset, triplet_id, seed, pair, first and second (ids of images).

    At each seed, the neutral image is paired with the feminine, the masculine and, if available, the placebo's. Neutral
    images of a triplet at successive seeds are also paired, each image at most once.
    """
    wide = images.pivot(index=_IMAGE, columns="prompt_gender", values="image_id").reset_index()
    frames = [
        wide[_IMAGE].assign(pair=f"neutral-{gender}", first=wide.get("neutral"), second=wide.get(gender))
        for gender in ("feminine", "masculine", "placebo")
    ]
    neutral = images[images["prompt_gender"] == "neutral"].sort_values(_IMAGE)
    next_ids = neutral.groupby(_IMAGE[:3])[["image_id"]].shift(-1)["image_id"]
    is_even = neutral.groupby(_IMAGE[:3]).cumcount() % 2 == 0
    neutral_pairs = neutral[_IMAGE].assign(pair=REFERENCES[0], first=neutral["image_id"], second=next_ids)
    rows = pd.concat([*frames, neutral_pairs[is_even]], ignore_index=True)
    # Order pairs by their first image, so that each is processed once.
    return rows.dropna(subset=["first", "second"]).sort_values([*_SET, "first"], kind="stable", ignore_index=True)


def prompts_of_pairs(pairs: pd.DataFrame, texts: pd.Series) -> pd.DataFrame:
    """Return the pairs of prompts to compare: ``pairs`` with ``texts`` in place of image ids, once for each triplet.

    A prompt does not depend on the seed, so ``seed`` is missing, and pairs of two seeds are excluded.
    """
    rows = pairs[pairs["pair"] != REFERENCES[0]].drop_duplicates([*_SET, "triplet_id", "pair"])
    return rows.assign(seed=np.nan, **{side: rows[side].map(texts) for side in ("first", "second")})


def similarity(values: pd.DataFrame, name: str = "triplets_similarity") -> pd.DataFrame:
    """Return ``triplets_similarity``, or a table like it, from similarities of single pairs (section 4.1, eq. 1 and 2).

    A case has the mean over the seeds at which both of its pairs have a value, so that missing images do not bias the
    gap. ``values`` has the columns model, dataset, triplet_id, seed (missing in prompt space), pair, metric, value and
    reason.
    """
    return tables.make_table(_by_case(values[values["pair"].isin(PAIRS)]), name)


def reference_similarity(values: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_reference_similarity``: :func:`similarity` of the pairs in :data:`~.analysis.REFERENCES`."""
    frames = [_by_case(values[values["pair"] == reference]) for reference in REFERENCES]
    return tables.make_table(pd.concat(frames, ignore_index=True), "triplets_reference_similarity")


def _by_case(values: pd.DataFrame) -> pd.DataFrame:
    keys = ["model", "dataset", "metric", "triplet_id", "seed"]
    values = _with_cases(values.assign(seed=values["seed"].astype(object).where(values["seed"].notna(), "")))
    missing = values["value"].isna().groupby([values[k] for k in keys]).transform("any")
    values = values.assign(value=values["value"].mask(missing), reason=values["reason"].fillna(""))
    keys_of_case = ["model", "dataset", "metric", "pair", "case"]
    cases = values.groupby(keys_of_case, sort=False)
    out = cases.agg(value=("value", "mean"), n=("value", "count"), sample=("sample", "first"))
    reasons = values.drop_duplicates([*keys_of_case, "reason"]).query("reason != ''")
    reasons = reasons.groupby(keys_of_case)["reason"].agg("; ".join)
    reasons = reasons.reindex(out.index).fillna("the other pair has no value at any seed")
    out = out.assign(reason=reasons.where(out["n"] == 0, "")).reset_index()
    descriptions = [METRICS.get(name, METRICS["z0"]) for name in out["metric"]]
    columns = ["space", "unit", "higher_is_closer"]
    return out.join(pd.DataFrame(descriptions, columns=columns, index=out.index))


def object_counts(images: pd.DataFrame, objects: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_object_counts`` by case: C(o, P) of section 5.2, eq. 3, before the sum over triplets.

    Images only count where those of all three genders were examined, so that sets are matched. ``objects`` has the
    columns image_id, object and count (1 or more).
    """
    return tables.make_table(_count_by_case(images, objects), "triplets_object_counts")


def _count_by_case(images: pd.DataFrame, objects: pd.DataFrame, *group_columns: str) -> pd.DataFrame:
    """Return the sums of counts by set of prompts, case, object and ``group_columns``."""
    matched, sets = _match_seeds(images), [*_SET, "prompt_gender"]
    sizes = matched.groupby(sets).agg(n_images=("image_id", "size"), n_cases=("case", "nunique"))
    keys = [*_SET, *group_columns, "prompt_gender", "case", "object"]
    counts = objects.merge(matched, on="image_id").groupby(keys, as_index=False)["count"].sum()
    return counts.merge(sizes.reset_index(), on=sets)


def object_images(
    images: pd.DataFrame, statuses: pd.DataFrame, objects: pd.DataFrame, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return ``triplets_object_images``: the number of images processed by the detector, and their objects.

    ``statuses`` has the columns image_id and status, which is empty where an image was examined; ``objects`` as for
    :func:`object_counts`; ``confidence`` is the level of the intervals (Student's t over cases).
    """
    n_objects = objects.groupby("image_id")["count"].sum()
    examined_ids = set(statuses.loc[statuses["status"] == "", "image_id"])
    rows = _with_cases(images[images["prompt_gender"].isin(PROMPT_GENDERS)])
    rows = rows.assign(n=rows["image_id"].map(n_objects).fillna(0), seen=rows["image_id"].isin(examined_ids))
    out, keys = [], [*_SET, "prompt_gender"]
    for names, set_rows in rows.groupby(keys, sort=False):
        examined = set_rows[set_rows["seen"]]
        mean = stats.mean_interval(examined.groupby("case")["n"].mean(), confidence)
        n, n_examined = len(set_rows), len(examined)
        out.append(
            dict(zip(keys, names, strict=True))
            | {"n_images": n, "n_lost": n - n_examined, "n_empty": int((examined["n"] == 0).sum())}
            | {"objects_per_image": mean.value, "ci_low": mean.ci_low, "ci_high": mean.ci_high}
            | {"reason": "" if mean.n > 1 else "an interval needs at least two cases"}
        )
    return tables.make_table(out, "triplets_object_images")


def detections(instances: pd.DataFrame, truth: pd.DataFrame) -> pd.DataFrame:
    """Return detected and true objects as in ``triplets_confusion``, without the columns model and reference.

    ``instances`` are detected, ``truth`` are true instances, as in :func:`biaslab.metrics.instances.match`.
    """
    matched = match(instances, truth)
    matched["truth"] = np.where(matched["found"] == "finder", "no", "yes")
    matched["answer"] = np.where(matched["found"] == "truth", "no", "yes")
    counts = matched.groupby(["image_id", "object", "truth", "answer"], sort=False)["iou"]
    return with_quantity(counts.agg(n="size", iou="mean").reset_index())


def with_quantity(objects: pd.DataFrame) -> pd.DataFrame:
    """Return objects as subjects of a confusion table; people are a separate quantity, excluded from objects."""
    is_person = objects["object"].isin(PEOPLE)
    return objects.assign(quantity=np.where(is_person, "people", "objects"), subject=objects["object"])


def object_similarity(images: pd.DataFrame, objects: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_object_similarity`` by case: the mean cosine of object counts (section 5.2, eq. 4).

    A pair with an image without objects has no cosine; ``n_pairs_excluded`` counts such pairs. Arguments as for
    :func:`object_counts`.
    """
    matched = _match_seeds(images)
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
    values = pd.concat(rows, ignore_index=True)
    cases = values.groupby([*_SET, "pair", "case", "sample"], sort=False)["value"]
    out = cases.agg(value="mean", n="count", images="size").reset_index()
    reason = np.where(out["n"] == 0, "each pair has an image without a detected object", "")
    out = out.assign(n_pairs_excluded=out["images"] - out["n"], reason=reason)
    return tables.make_table(out, "triplets_object_similarity")


def group_object_counts(images: pd.DataFrame, groups: pd.DataFrame, nouns: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_group_object_counts`` by case: C_g(o, P) of section 6.3, before the sum over triplets.

    The group ``hidden`` counts the prompt's nouns that match no object in the image; the group ``nouns`` counts all
    nouns of the prompt, each once per image. ``groups`` has the columns image_id, object and dependency_group (objects
    without one do not count), ``nouns`` image_id, noun and hidden.
    """
    rows = _with_groups(groups, nouns).assign(count=1)
    return tables.make_table(_count_by_case(images, rows, "dependency_group"), "triplets_group_object_counts")


def group_images(images: pd.DataFrame, groups: pd.DataFrame, nouns: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_group_images``: the images (%) that hold each group (section 7.2, table 11)."""
    matched, members = _match_seeds(images), _with_groups(groups, nouns)
    rows = []
    for names, set_images in matched.groupby(_SET, sort=False):
        size = {"n": len(set_images), "n_triplets": set_images["triplet_id"].nunique()}
        for group in DEPENDENCY_GROUPS:
            n = set_images["image_id"].isin(members.loc[members["dependency_group"] == group, "image_id"]).sum()
            share = {"dependency_group": group, "percent_images": 100 * n / len(set_images)}
            rows.append(dict(zip(_SET, names, strict=True)) | share | size)
    return tables.make_table(rows, "triplets_group_images")


def _with_groups(groups: pd.DataFrame, nouns: pd.DataFrame) -> pd.DataFrame:
    """Return one row per object and noun, with its group."""
    noun_rows = nouns.rename(columns={"noun": "object"})
    frames = [
        groups[groups["dependency_group"].notna()],
        noun_rows[noun_rows["hidden"]].assign(dependency_group="hidden"),
        noun_rows.assign(dependency_group="nouns"),
    ]
    columns = ["image_id", "object", "dependency_group"]
    return pd.concat([frame[columns] for frame in frames], ignore_index=True)


def _match_seeds(images: pd.DataFrame) -> pd.DataFrame:
    """Return the images of the three genders at seeds where all three were examined, with their case."""
    gendered = images[images["prompt_gender"].isin(PROMPT_GENDERS)]
    return _with_cases(gendered[gendered.groupby(_IMAGE)["image_id"].transform("size") == len(PROMPT_GENDERS)])


def _with_cases(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with sample and case: the triplet, or the seed where a dataset has a single triplet."""
    is_single = rows.groupby(_SET)["triplet_id"].transform("nunique") == 1
    return rows.assign(
        sample=np.where(is_single, "seeds", "triplets"),
        case=rows["seed"].astype(str).where(is_single, rows["triplet_id"].astype(str)),
    )
