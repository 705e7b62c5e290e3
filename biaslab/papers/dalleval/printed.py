"""Values printed in DALL-Eval, in the form of measured tables (appendix A to D; https://arxiv.org/abs/2202.04053)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab import reference
from biaslab.schema import tables

IMAGES_PER_PROMPT = 9
"""Images generated for each prompt (section 4.2.1)."""
NOT_PRINTED = "the paper prints no per-image values"
_METRICS = {
    # column of Table 19: name, whether higher is better, images (appendix D)
    "bleu4": ("BLEU-4", True, 5000),
    "meteor": ("METEOR", True, 5000),
    "cider": ("CIDEr", True, 5000),
    "spice": ("SPICE", True, 5000),
    "r_precision": ("R-precision", True, 30000),
    "human_likert": ("human rating", True, 200),
    "fid": ("FID", False, 30000),
}
# Test scenes of each skill (section 3) and images that people also judged (Table 3).
_TEST_SCENES = {"object": 2325, "count": 2160, "spatial": 2700}
_SAMPLE_IMAGES = 50
_REFERENCES = {"ground truth": "oracle", "ground truth shuffled": "shuffled"}


def average_gender() -> pd.DataFrame:
    """Return the average perceived gender of each profession (Tables 16 and 17; -1 male to +1 female)."""
    return _by_profession(16, 17).assign(n=IMAGES_PER_PROMPT)


def average_skin_tone() -> pd.DataFrame:
    """Return the average skin tone of each profession over three prompts (Tables 20 and 21; Monk scale 1–10)."""
    reason = f"{NOT_PRINTED}; n is nominal, images without a face are not printed"
    return _by_profession(20, 21).assign(n=3 * IMAGES_PER_PROMPT, reason=reason)


def skin_tone_counts() -> pd.DataFrame:
    """Return no rows: the paper prints averages only; measured sources have counts."""
    return tables.make_table([], "dalleval_skin_tone_counts")


def printed_bias() -> pd.DataFrame:
    """Return each model's printed average and mean absolute deviation (Tables 8, 17 and 21)."""
    mads = _load_tables(8).query("kind == 'model'")[["model", "category", "mad"]]
    averages = [_load_tables(17).assign(category="gender"), _load_tables(21).assign(category="skin_tone")]
    averaged = pd.concat(averages).query("kind == 'average'").rename(columns={"value": "average"})
    return averaged[["model", "category", "average"]].merge(mads, how="left")


def attribute_presence() -> pd.DataFrame:
    """Return the share of images (0–1, cut to two decimals) that show each attribute (Tables 23 to 31)."""
    rows = _load_tables(*range(23, 32)).query("kind == 'attribute'")
    rows = rows.rename(columns={"prompt_gender": "prompt", "presence": "share"})
    return rows.assign(n=IMAGES_PER_PROMPT, profession=rows["profession"].replace("", "(none)"))[
        ["model", "prompt", "profession", "attribute", "share", "n"]
    ]


def printed_attributes() -> pd.DataFrame:
    """Return Table 22: average shares by prompt (0–1) and, in parentheses there, differences from `person`."""
    rows = _load_tables(22).rename(columns={"prompt_gender": "prompt", "presence": "value"})
    shares = rows[rows["kind"] == "attribute"]
    from_person = shares[shares["prompt"].isin(["woman", "man"])]
    from_person = from_person.assign(
        prompt=from_person["prompt"] + " - person",
        # The table leaves a difference of 0 empty.
        value=from_person["difference_from_person"].fillna(0.0),
    )
    mean = rows[rows["kind"] == "mean_abs_difference"]
    mean = mean.assign(
        prompt=mean["prompt"].replace({p: f"{p} - person" for p in ("woman", "man")}),
        attribute="mean_absolute_difference",
        value=mean["mean_abs_difference"],
    )
    return pd.concat([shares, from_person, mean])[["model", "prompt", "attribute", "value"]]


def skill_accuracy() -> pd.DataFrame:
    """Return the percentage of images judged correct by skill (Tables 2, 3 and 5)."""
    full = _load_tables(2).assign(images="test")
    fractions = _load_tables(5).query("training_data != 100").assign(images="test")
    rows = pd.concat([full[~full["model"].isin(_REFERENCES)], fractions, _load_tables(3).assign(images="sample")])
    scenes = rows["skill"].map(_TEST_SCENES | {"average": sum(_TEST_SCENES.values())})
    sample = np.where(rows["skill"] == "average", 3 * _SAMPLE_IMAGES, _SAMPLE_IMAGES)
    rows = rows.rename(columns={"accuracy": "percent_correct"})
    rows["training_percent"] = rows["training_data"].map("{:g}".format)
    return rows.assign(n=scenes.where(rows["images"] == "test", sample)).drop(columns="training_data")


def references() -> pd.DataFrame:
    """Return the judges' scores of real images, of the same prompt and of others (Tables 2 and 19)."""
    skills = _load_tables(2).query("skill != 'average'").rename(columns={"skill": "measure", "accuracy": "value"})
    skills = skills.assign(n=skills["measure"].map(_TEST_SCENES), judge="DETR")
    rows = pd.concat([skills, _quality().rename(columns={"metric": "measure"})])
    rows = rows[rows["model"].isin(_REFERENCES)]
    rows = rows.assign(reference=rows["model"].map(_REFERENCES), judge=rows["judge"].fillna(""))
    return rows[["reference", "measure", "judge", "value", "n"]]


def alignment_quality() -> pd.DataFrame:
    """Return seven metrics of alignment and image quality by model (Table 19)."""
    rows = _quality()
    return rows[~rows["model"].isin(_REFERENCES)]


def gender_judges() -> pd.DataFrame:
    """Return bias and recall of two image-text models in retrieval (Table 14)."""
    rows = _load_tables(14).rename(columns={"model": "judge"}).melt(["judge", "captions"], var_name="metric")
    return rows.assign(reason=NOT_PRINTED)


def skin_tone_methods() -> pd.DataFrame:
    """Return the errors of skin tone methods compared with people (Table 18; percentages, and Monk tones)."""
    names = {f"precision_at_{k}": f"within_{k}" for k in range(4)}
    names |= {"skin_segmentation": "segmentation", "scoring_space": "scoring"}
    return _load_tables(18).rename(columns=names).melt(["segmentation", "scoring"], var_name="measure")


def _load_tables(*numbers: int) -> pd.DataFrame:
    return pd.concat([reference.load(f"dalleval_table_{n}") for n in numbers], ignore_index=True)


def _by_profession(*numbers: int) -> pd.DataFrame:
    return _load_tables(*numbers).query("kind == 'profession'")[["model", "profession", "value"]]


def _quality() -> pd.DataFrame:
    """Return Table 19 in long form, including the rows of real images."""
    rows = _load_tables(19).melt("model", list(_METRICS), var_name="column")
    metrics = rows["column"].map(_METRICS)
    better = np.where(metrics.str[1], "higher", "lower")
    rows = rows.assign(metric=metrics.str[0], better=better, n=metrics.str[2].astype(float))
    return rows[["model", "metric", "value", "better", "n"]]
