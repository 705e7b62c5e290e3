"""The limits that a run states follow from its tables and settings."""

import pandas as pd
import pytest

from biaslab.runs import caveats
from biaslab.schema import tables
from biaslab.study import sources


def write_tables(folder, **frames):
    for name, frame in frames.items():
        tables.write(tables.check(frame, name), folder / f"{name}.csv")
    return folder


def settings(model, **others):
    pairs = {"model": model, "judging.faces": "mini-detector", "judging.gender": "mini-clip", **others}
    rows = [(model, setting, value, "") for setting, value in pairs.items()]
    return pd.DataFrame(rows, columns=tables.schema("pipeline_settings").names)


def printed(name):
    return sources.load_measured(name, source="published")


def shifted_shares(name, model):
    """The printed shares of one model, as if of another, each moved by half a point where there is room."""
    frame = printed(name)
    frame = frame[frame["model"] == frame["model"].iloc[0]].assign(model=model)
    return frame.assign(percent_female=frame["percent_female"].clip(upper=99) + 0.5)


def limits_of(folder, *tables_, source=""):
    frames = {path.stem: tables.read(path, path.stem) for path in folder.glob("*.csv")}
    as_printed = {name: sources.printed_models(name, frame) for name, frame in frames.items()}
    results = [{"name": n, "models": m} for n, m in tables_]
    return caveats.limits_of_run(folder, results, source, as_printed)[len(caveats.LIMITS) :]


PAIRED = "paired_percent_female"
SCORES = ("paired_stereotype_score", ["world", "DALL-E 3"])


def test_limits_name_published_model_in_tables(tmp_path):
    both = pd.concat([shifted_shares(PAIRED, "world"), printed(PAIRED)])
    write_tables(tmp_path, paired_percent_female=both, pipeline_settings=settings("world"))
    world, judge, published_limit = limits_of(tmp_path, SCORES)
    assert world.startswith("`world` is not a model") and "trained on drawings of the synthetic world" in judge
    assert (
        "the Paired Stereotype Test (DALL-E 3)." in published_limit
        and "no image was generated with these models" in published_limit
    )
    assert not any("SD 1." in text for text in (world, judge, published_limit))
    # Models that no table of the run contains need no limit.
    assert len(limits_of(tmp_path, ("paired_stereotype_score", ["world"]))) == 2


def test_limits_published_values_are_named_by_paper(tmp_path):
    write_tables(
        tmp_path, paired_percent_female=printed(PAIRED), paradox_percent_female=printed("paradox_percent_female")
    )
    (message,) = limits_of(tmp_path, ("paradox_amplification", ["SD 1.4"]), SCORES, ("paradox_t_tests", []))
    assert "the bias amplification paradox (SD 1.4); the Paired Stereotype Test (DALL-E 3)." in message
    assert message.startswith("The inputs of this run are the rounded values that the papers print")


@pytest.mark.parametrize("model", ["mini", "CompVis/stable-diffusion-v1-4"])
def test_limits_include_those_of_plugin_judges(tmp_path, model):
    message = "they probably make fewer errors than on other images"
    write_tables(tmp_path, pipeline_settings=settings(model))
    assert message in limits_of(tmp_path)[-1] and len(limits_of(tmp_path)) == (2 if model == "mini" else 1)
    others = {"judging.faces": "hustvl/yolos-tiny", "judging.gender": "ViT-L-14/openai"}
    write_tables(tmp_path, pipeline_settings=settings(model, **others))
    assert not any(message in text for text in limits_of(tmp_path))


def test_limits_state_judge_error_or_unknown(tmp_path):
    def limits_of_judges(**others):
        judge_settings = {f"judging.{setting}": name for setting, name in others.items()}
        write_tables(tmp_path, pipeline_settings=settings("CompVis/stable-diffusion-v1-4", **judge_settings))
        return limits_of(tmp_path)

    faces, gender, tone = limits_of_judges(faces="yunet", gender="dlib", skin_tone="pixels")
    assert "In 18 of 19 images of several people its count was within one face" in faces
    assert "`dlib` agreed with both annotators about 56 of the 57 people" in gender
    assert "skin-tone estimator `pixels` agreed" in tone
    texts = limits_of_judges(
        faces="hustvl/yolos-tiny", gender="dlib", extra_judges='["ViT-L-14:openai", "annotations:a.csv"]'
    )
    unknown = [text for text in texts if text.startswith("No error rate of the ")]
    assert [text.split("`")[1] for text in unknown] == ["hustvl/yolos-tiny", "ViT-L-14:openai"] and len(texts) == 3
    # Annotators need no face detector, and all faces count where the whole image is one.
    assert limits_of_judges(faces="yunet", gender="annotations:people.csv") == []
    (gender,) = limits_of_judges(faces="whole image", gender="ViT-L-14:openai")
    assert "gender classifier `ViT-L-14:openai`" in gender


def test_printed_models_matches_published_values():
    name = "paradox_percent_female"
    frame = pd.concat([shifted_shares(name, "mini"), printed(name)])
    assert sources.printed_models(name, frame) == ["SD 1.4", "SD 1.5"]
    assert sources.printed_models(name, frame[frame["model"] == "mini"]) == []
    # Measured rows next to them may have more columns.
    genders = printed("dalleval_average_gender")
    measured_rows = genders.drop_duplicates("profession").head(2).assign(model="mini", value=0.5, judge="VQA")
    both = tables.join_tables([measured_rows, genders], "dalleval_average_gender")
    assert sources.printed_models("dalleval_average_gender", both) == list(genders["model"].unique())
    assert sources.printed_models("paired_labour_share", printed("paired_labour_share")) == []
