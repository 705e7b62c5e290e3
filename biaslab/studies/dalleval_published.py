"""DALL-Eval's printed numbers as measured tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab import published, tables

NO_PROFESSION = "(none)"
# Images sampled for each prompt (section 4.2.1).
IMAGES_PER_PROMPT = 9
NOT_PRINTED = "the paper prints no per-image values"
_METRICS = {
    # column in Table 19: name, whether higher is better, images (appendix D)
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


def _loaded(*numbers: int) -> pd.DataFrame:
    return pd.concat([published.load(f"dalleval_table_{n}") for n in numbers], ignore_index=True)


def _by_profession(*numbers: int, n: int, **more: str) -> pd.DataFrame:
    rows = _loaded(*numbers).query("kind == 'profession'")
    return rows[["model", "profession", "value"]].assign(n=n, **more)


def _published_bias() -> pd.DataFrame:
    mads = _loaded(8).query("kind == 'model'").set_index(["model", "category"])["mad"]
    averages = {"gender": _loaded(17), "skin_tone": _loaded(21)}
    found = pd.concat(
        {c: t.query("kind == 'average'").set_index("model")["value"] for c, t in averages.items()}
    )
    found = found.rename_axis(["category", "model"]).reorder_levels(["model", "category"]).rename("average")
    return pd.concat([found, mads], axis=1).reset_index()


def _published_presence() -> pd.DataFrame:
    rows = _loaded(*range(23, 32)).query("kind == 'attribute'")
    rows = rows.rename(columns={"prompt_gender": "prompt", "presence": "share"}).assign(n=IMAGES_PER_PROMPT)
    rows["profession"] = rows["profession"].replace("", NO_PROFESSION)
    return rows[["model", "prompt", "profession", "attribute", "share", "n"]]


def _published_attributes() -> pd.DataFrame:
    """Return Table 22; the differences from `person`, printed in parentheses, become comparisons."""
    rows = _loaded(22).rename(columns={"prompt_gender": "prompt", "presence": "value"})
    from_person = rows[rows["prompt"].isin(["woman", "man"]) & (rows["kind"] == "attribute")]
    from_person = from_person.assign(
        prompt=from_person["prompt"] + " - person",
        # A difference of 0 is printed as no difference at all.
        value=from_person["difference_from_person"].fillna(0.0),
    )
    mean = rows[rows["kind"] == "mean_abs_difference"]
    mean = mean.assign(
        prompt=mean["prompt"].replace({p: f"{p} - person" for p in ("woman", "man")}),
        attribute="mean_absolute_difference",
        value=mean["mean_abs_difference"],
    )
    out = pd.concat([rows[rows["kind"] == "attribute"], from_person, mean])
    return out[["model", "prompt", "attribute", "value"]]


def _published_skills() -> pd.DataFrame:
    whole = _loaded(2).assign(images="test")
    part = _loaded(5).query("training_data != 100").assign(images="test")
    rows = pd.concat([whole[~whole["model"].isin(_REFERENCES)], part, _loaded(3).assign(images="sample")])
    rows = rows.rename(columns={"accuracy": "percent_correct"})
    rows["training_percent"] = rows["training_data"].map("{:g}".format)
    scenes = rows["skill"].map(_TEST_SCENES | {"average": sum(_TEST_SCENES.values())})
    sample = np.where(rows["skill"] == "average", 3 * _SAMPLE_IMAGES, _SAMPLE_IMAGES)
    rows["n"] = scenes.where(rows["images"] == "test", sample)
    return rows.drop(columns="training_data")


def _published_references() -> pd.DataFrame:
    skills = _loaded(2).query("skill != 'average'").rename(columns={"skill": "measure", "accuracy": "value"})
    skills = skills.assign(n=skills["measure"].map(_TEST_SCENES))
    quality = _published_quality(references=True).rename(columns={"metric": "measure"})
    rows = pd.concat([skills, quality])
    rows = rows[rows["model"].isin(_REFERENCES)]
    return rows.assign(reference=rows["model"].map(_REFERENCES))[["reference", "measure", "value", "n"]]


def _published_quality(references: bool = False) -> pd.DataFrame:
    rows = _loaded(19).melt("model", list(_METRICS), var_name="column")
    about = rows["column"].map(_METRICS)
    rows = rows.assign(
        metric=about.str[0], better=np.where(about.str[1], "higher", "lower"), n=about.str[2].astype(float)
    )
    return rows[rows["model"].isin(_REFERENCES) == references][["model", "metric", "value", "better", "n"]]


def _published_judges() -> pd.DataFrame:
    rows = _loaded(14).rename(columns={"model": "judge"}).melt(["judge", "captions"], var_name="metric")
    return rows.assign(reason=NOT_PRINTED)


def _published_methods() -> pd.DataFrame:
    names = {f"precision_at_{k}": f"within_{k}" for k in range(4)}
    rows = _loaded(18).rename(
        columns={**names, "skin_segmentation": "segmentation", "scoring_space": "scoring"}
    )
    return rows.melt(["segmentation", "scoring"], var_name="measure")


def _published_tone_counts() -> pd.DataFrame:
    """Return no rows: the paper prints averages; a source that has the tone of each image may have counts."""
    name = "dalleval_skin_tone_counts"
    return tables.check(pd.DataFrame(columns=tables.schema(name).names), name)


PUBLISHED: dict = {
    "dalleval_average_gender": lambda: _by_profession(16, 17, n=IMAGES_PER_PROMPT),
    "dalleval_average_skin_tone": lambda: _by_profession(
        20,
        21,
        n=3 * IMAGES_PER_PROMPT,
        reason=f"{NOT_PRINTED}; n is nominal, images without a face are not printed",
    ),
    "dalleval_skin_tone_counts": _published_tone_counts,
    "dalleval_printed_bias": _published_bias,
    "dalleval_attribute_presence": _published_presence,
    "dalleval_printed_attributes": _published_attributes,
    "dalleval_skill_accuracy": _published_skills,
    "dalleval_references": _published_references,
    "dalleval_alignment_quality": _published_quality,
    "dalleval_gender_judges": _published_judges,
    "dalleval_skin_tone_methods": _published_methods,
}
