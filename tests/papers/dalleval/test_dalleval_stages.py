"""DALL-Eval's stages connected, on renders whose truth is known, with the embedded judges."""

import json
import math
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tiny_blip
from paintskills_files import annotation, coco, pictured, put, put_boxes, scene, thing
from PIL import Image

from biaslab import stats
from biaslab.analyses import calibration
from biaslab.errors import InputError, MissingInputError, ParameterError, UnknownNameError
from biaslab.hub import registry
from biaslab.judges import blip
from biaslab.metrics.captioning import caption_scores
from biaslab.metrics.retrieval import frechet_distance, kernel_distance, r_precision
from biaslab.papers import dalleval
from biaslab.papers.dalleval import prompts
from biaslab.papers.dalleval.analysis.verdicts import RULES
from biaslab.papers.dalleval.prompts import SKILLS
from biaslab.papers.dalleval.stages import DallEval
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning import validation
from biaslab.planning.plan import plan_of
from biaslab.schema import tables
from biaslab_world import captions as world_captions
from biaslab_world import skills
from biaslab_world import social as mini_social

FEW = {"n_scenes": 12, "n_professions": 3, "social_images": 2, "calibration_images": 24}


def pipeline(store, model="world", seed=5, **design):
    settings = Settings(dalleval=FEW | design, captions={"max_captions": 2000}, compute={"cache": str(store)})
    return Pipeline(model, settings, seed=seed, progress=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def world(store):
    return pipeline(store, failures={"missing": 0.5})


def test_prompts_are_sampled_by_seed(world, store):
    asked = world.part(DallEval).prompts("skills")
    assert asked["skill"].value_counts().to_dict() == dict.fromkeys(SKILLS, 12)
    assert asked.equals(pipeline(store).part(DallEval).prompts("skills"))
    assert not asked.equals(pipeline(store, seed=6).part(DallEval).prompts("skills"))
    assert len(pipeline(store, n_scenes=0).part(DallEval).prompts("skills")) == 2325 + 2160 + 2700
    people = world.part(DallEval).prompts("social")
    # Three words, alone and with three professions.
    assert len(people) == 12 and people["profession"].nunique() == 4
    assert len(pipeline(store, n_professions=0).part(DallEval).prompts("social")) == 252


@pytest.mark.long
def test_skill_verdicts_match_planted_failures(world):
    verdicts = dalleval.measure.skill_verdicts(world)
    assert verdicts.groupby("rule").size().to_dict() == dict.fromkeys(("paper", "released", "geneval"), 36)
    chosen = verdicts[verdicts["chosen"] == "yes"]
    assert set(chosen["rule"]) == {"paper"}
    # Half of the images lack the requested object; the detector judges none of these correct.
    missing = chosen[chosen["truth"] == "no"]
    assert 8 <= len(missing) <= 28 and (missing["correct"] == "no").all()
    # The embedded detector is right in nearly all of the others.
    assert (chosen.loc[chosen["truth"] == "yes", "correct"] == "yes").mean() > 0.85
    accuracy = dalleval.measure.skill_accuracy(world).set_index("skill")["percent_correct"]
    assert np.allclose(accuracy, 100 * (chosen["correct"] == "yes").groupby(chosen["skill"]).mean()[accuracy.index])


@pytest.mark.long
def test_skill_verdicts_have_depicted_and_detected_counts(world, store):
    verdicts = dalleval.measure.skill_verdicts(world)
    chosen = verdicts[verdicts["chosen"] == "yes"].set_index("image_id")
    # An image that lacks the requested object shows none of it; others show the requested number.
    lacks = chosen["truth"] == "no"
    assert (chosen.loc[lacks, "n_depicted"] == 0).all()
    assert (chosen.loc[~lacks, "n_depicted"] == chosen.loc[~lacks, "n"]).all()
    # By the raw detections, whatever the rule.
    result, _ = world.part(DallEval).detections(world.part(DallEval).images("skills"))
    confident = result[result["score"] > world.settings.dalleval.threshold]
    for row in verdicts.itertuples():
        of = confident[(confident["image_id"] == row.image_id) & (confident["label"] == row.object)]
        assert row.n_detected == len(of), row.image_id
    counts = chosen[chosen["skill"] == "count"]
    assert (counts["n_detected"] == counts["n_depicted"]).mean() > 0.8
    # Drawings also show none of a missing object, and a different number if the number fails.
    answers = dalleval.measure.confusion(world).set_index("image_id")
    failures = answers.loc[answers["quantity"] == "skill: count", "condition"]
    numbers = answers.loc[answers["quantity"] == "number", "truth"].astype(int).groupby(failures)
    asked = world.part(DallEval).reference().table.set_index("image_id")["n"]
    assert all((numbers.get_group(failure) == 0).all() for failure in ("missing", "other class"))
    matching, failing = (numbers.get_group(failure) for failure in ("", "other number"))
    assert (matching == asked[matching.index]).all() and (failing != asked[failing.index]).all()


@pytest.mark.long
def test_confusion_of_people_judges_uses_drawings(world, store, monkeypatch, folders):
    answers = dalleval.measure.confusion(world)
    by_judge = answers.set_index("image_id").groupby(["quantity", "judge"])
    made = mini_social.balanced(prompts.social(), FEW["calibration_images"], seed=world.seed + 3).table
    made = made.set_index("image_id")
    gender, tones = by_judge.get_group(("gender", "VQA")), by_judge.get_group(("skin tone", "tone by pixels"))
    assert gender["truth"].to_dict() == made["truth_gender"].to_dict()
    assert tones["truth"].astype(int).to_dict() == made["truth_skin_tone"].to_dict()
    assert (answers["model"] == world.label).all() and (answers["reference"] == "drawings").all()
    # The embedded judges were trained on such drawings.
    for judge in ("VQA", "mini-clip"):
        judged = by_judge.get_group(("gender", judge))
        assert (judged["answer"] == judged["truth"]).mean() > 0.75
    errors = calibration.error(answers, paper="dalleval").set_index(["quantity", "subject", "measure"])
    assert errors.loc[("attribute", "all", "specificity"), "value"] > 80
    own = errors[errors["judge"] == "tone by pixels"]
    assert own.loc[("skin tone", "all", "within_0"), "n"] > 18
    assert own.loc[("skin tone", "all", "mean_difference"), "value"] < 1
    n_worn = sum(len(of.split(";")) for of in made["truth_attributes"] if of)
    attributes = answers[answers["quantity"] == "attribute"]
    assert (attributes["truth"] == "yes").sum() == n_worn
    # They differ from the images of the prompts, which are stored separately.
    images = dalleval.measure.social_images(world)
    gendered_images = images[images["prompt"] != "person"]
    assert (gendered_images["truth_gender"] == gendered_images["prompt"].map({"woman": "female", "man": "male"})).all()
    assert len(images) == len(made) == 24 and not set(images["image_id"]) & set(answers["image_id"])
    # Models of photographs have other judges, and no package provides photographs with ground truth.
    judges = {"vqa": "vqa:Salesforce/blip-vqa-base", "detector": "facebook/detr-resnet-50"}
    other = pipeline(store, model=folders("sd1"), **judges)
    for asked in ("answers", "detections"):
        monkeypatch.setattr(type(other.part(DallEval)), asked, lambda *_: pytest.fail("asked"))
    of = dalleval.measure
    assert of.references(other).empty and of.confusion(other).empty


def test_skill_accuracy_reads_training_curve_of_model(world, tmp_path, monkeypatch):
    own = dalleval.measure.skill_accuracy(world)
    assert set(own["images"]) == {"test"} and len(own) == 3
    (tmp_path / "vae").mkdir()
    rows = [("0", "object", 3, 12), ("10", "object", 6, 12), ("100", "object", 9, 12), ("12.5", "count", 0, 8)]
    curve = pd.DataFrame(rows, columns=["training_percent", "skill", "n_correct", "n"])
    model = SimpleNamespace(autoencoder=tmp_path / "vae", label=world.label)
    monkeypatch.setattr(type(world), "image_model", lambda *_: model)
    # A folder without the file has no curve.
    pd.testing.assert_frame_equal(dalleval.measure.skill_accuracy(world), own)
    curve.assign(steps=900, seed=0).to_csv(tmp_path / "training_share.csv", index=False)
    accuracy = dalleval.measure.skill_accuracy(world)
    pd.testing.assert_frame_equal(accuracy.iloc[: len(own)], own)
    rest = accuracy.iloc[len(own) :]
    assert rest["percent_correct"].tolist() == [25, 50, 75, 0] and rest["n"].tolist() == [12, 12, 12, 8]
    assert rest["training_percent"].tolist() == ["0", "10", "100", "12.5"]
    assert set(rest["images"]) == {"curve"} and set(rest["evaluator"]) == {"detector"}
    (name,) = set(rest["model"])
    assert name != world.label and world.label in name


def test_skill_accuracy_includes_annotations(store, world, tmp_path):
    ids = world.part(DallEval).images("skills").table["image_id"].tolist()[:6]
    rows = [(i, annotator, "yes", "", "") for i in ids for annotator in ("a", "b")]
    file = tmp_path / "r.csv"
    pd.DataFrame(rows, columns=["image_id", "annotator", "objects", "number", "relation"]).to_csv(file, index=False)
    p = pipeline(store, failures={"missing": 0.5}, annotations=str(file))
    accuracy = dalleval.measure.skill_accuracy(p).set_index(["images", "evaluator"])
    people = accuracy.loc[[("sample", "Human")]]
    assert people["percent_correct"].tolist() == [100.0] * len(people) and people["n"].sum() == 6
    assert len(dalleval.measure.skill_ratings(p)) == 12


@pytest.mark.parametrize(
    ("design", "error", "named"),
    [
        ({"detector": "mini-skillz-detector"}, ParameterError, "mini-skillz-detector"),
        ({"vqa": "mini-clip"}, ParameterError, "mini-clip"),
        ({"annotations": "no-such.csv"}, InputError, "no-such.csv"),
        ({"annotations": "other.csv"}, InputError, "99999"),
    ],
)
def test_check_plan_refuses_missing_models_and_files(store, tmp_path, monkeypatch, design, error, named):
    monkeypatch.chdir(tmp_path)
    Path("other.csv").write_text("image_id,objects,number,relation\nskills-test-object-99999/0,yes,,\n")
    names = {"dalleval_skill_accuracy", "dalleval_average_gender", "dalleval_skill_ratings"}
    with pytest.raises(error, match=named):
        validation.check_plan(pipeline(store, **design), names)


def test_missing_model_affects_only_tables_that_use_it(store, monkeypatch, tmp_path):
    gone = registry.PluginEntry(folder=tmp_path / "mini-sd-skills")
    monkeypatch.setattr("biaslab_world.brought.mini_sd_skills", gone)
    p = pipeline(store, "mini")
    with pytest.raises(MissingInputError, match=r"'mini-sd-skills' is missing from .*Reinstall"):
        dalleval.measure.skill_accuracy(p)
    assert "mini-sd-skills" in str(plan_of(p).table("dalleval_skill_accuracy").missing)
    assert plan_of(p).table("dalleval_skill_prompts").missing is None
    assert validation.digest(p)


def test_skin_tone_methods_read_same_images(world):
    answers = dalleval.measure.confusion(world)
    tones = answers[answers["quantity"] == "skin tone"]
    methods = ["tone by pixels", "ITA as released", "nearest swatch in RGB", "nearest swatch, pixels by YCrCb"]
    assert tones.groupby("judge").size().to_dict() == dict.fromkeys(methods, 24)
    read = world.part(DallEval).tones("drawings").set_index("image_id")["tone"].dropna()
    own = tones[tones["judge"] == "tone by pixels"].set_index("image_id")["answer"]
    assert len(read) and (own[read.index].astype(float) == read).all() and set(own.drop(read.index)) <= {"no tone"}


@pytest.mark.long
def test_plugin_skin_tone_judge_is_used(world, store, use):
    use(Path(__file__).parents[2] / "judges" / "example_judge")
    p = pipeline(store).with_changes(judging={"skin_tone": "plugin:tones"})
    images = dalleval.measure.social_images(p)
    assert set(images["judge_tone"]) == {"plugin:tones"} and images["skin_tone"].notna().any()
    pixels = dalleval.measure.social_images(world)
    assert set(pixels["judge_tone"]) == {"tone by pixels"}
    # All other judgements are unchanged, and people without a face have no tone by either method.
    same = ["image_id", "gender_vqa", "gender_judge", "status_judge", "attributes"]
    pd.testing.assert_frame_equal(images[same], dalleval.measure.social_images(pipeline(store))[same])
    assert set(images.loc[images["skin_tone"].isna(), "reason_tone"]) <= {"no face"}
    # It is compared with the method that needs no colour of a face.
    answers = dalleval.measure.confusion(p)
    judges = set(answers.loc[answers["quantity"] == "skin tone", "judge"])
    assert judges == {"plugin:tones", "nearest swatch, pixels by YCrCb"}
    used = plan_of(p).table("dalleval_social_images").uses
    (tone,) = (use for use in used if use.setting == "judging.skin_tone")
    # Its code is part of the digest.
    assert tone.name == "plugin:tones" and tone.digest() not in ("", tone.name)
    with pytest.raises(UnknownNameError, match="tone"):
        dalleval.measure.social_images(p.with_changes(judging={"skin_tone": "plugin:tone"}))


def test_skin_tone_none_is_missing_in_all_tables(store):
    p = pipeline(store).with_changes(judging={"skin_tone": "none"})
    images = dalleval.measure.social_images(p)
    assert images["skin_tone"].isna().all() and set(images["reason_tone"]) == {"not read"}
    assert dalleval.measure.skin_tone_counts(p).empty and dalleval.tones_by_attribute(images).empty
    averages = dalleval.average_skin_tone(dalleval.measure.average_skin_tone(p), dalleval.measure.skin_tone_counts(p))
    assert averages["value"].isna().all() and (averages["reason"] != "").all()
    outcomes = dalleval.skin_tone_outcomes(images, tables.make_table([], "dalleval_confusion"))
    assert outcomes.loc[outcomes["status"] == "not read", "percent"].eq(100).all()
    uses = plan_of(p).table("dalleval_social_images").uses
    assert uses and not [use for use in uses if use.setting == "judging.skin_tone"]


# -- images made from captions -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def describer(tmp_path_factory):
    """A random BLIP for captions."""
    folder = tiny_blip.save_blip(tmp_path_factory.mktemp("describer"), "BlipForConditionalGeneration")
    (folder / registry.DOMAIN_FILE).write_text(OF_DRAWINGS)
    return folder


# Content of the domain file of a folder of drawings, or of a model for drawings.
OF_DRAWINGS = '{"pictures": "drawings"}'


def colours(judge, images):
    """Return an image's means by colour, and of its upper half, as its features."""
    parts = [(image, image[: len(image) // 2]) for image in images]
    return np.array([[p.mean((0, 1)) for p in both] for both in parts], np.float32).reshape(-1, 6)


@pytest.fixture(scope="module")
def captioned(store, describer, tmp_path_factory):
    """A synthetic world that generates captions, with the tables of image quality and alignment."""
    weights = tmp_path_factory.mktemp("weights") / "inception.pth"
    weights.write_bytes(b"weights")
    design = FEW | {"captioner": str(describer), "inception_file": str(weights)}
    settings = Settings(captions={"max_captions": 200}, dalleval=design, compute={"cache": str(store)})
    p = Pipeline("world", settings, seed=5, progress=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("biaslab.judges.features.InceptionJudge.embed", colours)
        quality = dalleval.measure.image_quality(p)
    return p, quality, dalleval.measure.alignment_quality(p)


@pytest.fixture(scope="module")
def captions(captioned):
    """Captions with their generated and original images, each once."""
    p, _, _ = captioned
    made = p.images("caption_prompts").table.drop_duplicates("caption_id")
    images = {
        "generated": p.images("caption_prompts").source.read(list(made["image_id"])),
        "captioned": p.images("training").source.read(list(made["caption_id"])),
    }
    return list(made["text"]), images


@pytest.mark.long
def test_image_quality_caption_scores_use_source_captions(captioned, captions, describer):
    p, quality, _ = captioned
    texts, images = captions
    groups = p.images("caption_prompts").table.drop_duplicates("caption_id")["occupation"]
    model = blip.load(str(describer), "captioner", device="cpu")
    for name, some in images.items():
        of = quality[quality["images"] == name].set_index("metric")
        said = [" ".join(text.split()) for text in model.ask(some, range(len(some)), [""] * len(some))]
        for columns, references in (
            (["value", "ci_low", "ci_high"], texts),
            # By chance: each against the caption of another image, half of all further on.
            (["null_mean"], texts[len(texts) // 2 :] + texts[: len(texts) // 2]),
        ):
            own = caption_scores(said, [[text] for text in references], groups=groups, seed=5)
            own = own.set_index("metric")
            wanted = own[["value", "ci_low", "ci_high"][: len(columns)]].to_numpy()
            np.testing.assert_allclose(of.loc[own.index, columns].to_numpy(float), wanted, rtol=1e-6, atol=1e-9)
        assert (of.loc[own.index, "n"] == len(texts)).all()
        left_out = of.loc[["METEOR", "SPICE"]]
        assert left_out["value"].isna().all() and (left_out["n"] == 0).all() and left_out["reason"].all()
        assert not of.drop(["METEOR", "SPICE"])["reason"].any()


@pytest.mark.long
def test_image_quality_distances_use_named_features(captioned, captions):
    _, quality, _ = captioned
    _, images = captions
    of = quality.set_index(["images", "metric"])
    features = [colours(None, images[name]) for name in ("generated", "captioned")]
    for metric, distance in (("FID", frechet_distance), ("KID", kernel_distance)):
        row = of.loc[("generated", f"{metric}, Inception features")]
        assert row["value"] == pytest.approx(distance(*features), rel=1e-6)
        assert row["n"] == len(images["generated"])
        clip = of.loc[("generated", f"{metric}, CLIP features"), "value"]
        assert math.isfinite(clip) and clip != pytest.approx(row["value"])
        # They compare two sets, and so occur once.
        assert not any(metric in name for name in quality.loc[quality["images"] == "captioned", "metric"])
    assert len(quality) == 2 * 6 + 4


def test_image_quality_intervals_cluster_by_occupation(captioned):
    p, quality, _ = captioned
    made = p.images("caption_prompts").table.drop_duplicates("caption_id")
    vectors = [
        np.stack(list(p.image_embeddings(source, made[ids])["vector"]))
        for source, ids in ((p.images("caption_prompts").source, "image_id"), ("training", "caption_id"))
    ]
    of = quality[quality["images"] == "generated"].set_index("metric")
    for metric, distance in (("FID", frechet_distance), ("KID", kernel_distance)):
        rng = np.random.default_rng([5, 73])
        squared = distance is kernel_distance
        expected = stats.halves_interval(vectors, [made["occupation"]] * 2, distance, squared=squared, seed=rng)
        row = of.loc[f"{metric}, CLIP features"]
        assert row[["value", "ci_high"]].tolist() == pytest.approx([expected.value, expected.ci_high], rel=1e-5)
        # A distance is 0 or more, though KID's estimate may be less.
        assert row["ci_low"] == pytest.approx(min(max(expected.ci_low, 0), expected.value), rel=1e-5)
    each = r_precision(vectors[0] @ p.text_embeddings(made["text"]).T, distractors=min(99, len(made) - 1))
    expected = stats.clustered_mean(each, made["occupation"])
    limits = of.loc["R-precision", ["value", "ci_low", "ci_high"]].to_numpy(float)
    assert limits == pytest.approx([100 * one for one in expected[:3]])


def test_gender_judges_bias_is_clustered_by_occupation(captioned):
    p, _, _ = captioned
    table = dalleval.measure.gender_judges(p).set_index(["captions", "metric"])
    images = p.images("training").table.drop_duplicates("caption_id")
    images = images[images["truth_gender"].isin(["female", "male"])]
    assert (table["n"] == len(images)).all()
    # The bias of all images does not depend on captions, and is between -1 and 1.
    lean = np.where(images["truth_gender"] == "male", 1.0, -1.0)
    expected = stats.clustered_mean((lean + 1) / 2, images["occupation"])
    for captions in ("original", "ungendered"):
        result = table.loc[(captions, "bias_at_all"), ["value", "ci_low", "ci_high"]].to_numpy(float)
        assert result == pytest.approx([2 * of - 1 for of in expected[:3]])
    low, high = (table[name].to_numpy(float) for name in ("ci_low", "ci_high"))
    recall = table.index.get_level_values("metric").str.startswith("recall")
    assert (low >= np.where(recall, 0, -1)).all() and (high <= np.where(recall, 100, 1)).all()
    assert ((low <= table["value"]) & (table["value"] <= high)).all()


def test_alignment_quality_metrics_differ_from_printed(captioned):
    _, quality, alignment = captioned
    assert set(alignment["metric"]).isdisjoint(dalleval.printed.alignment_quality()["metric"])
    distances = alignment["metric"].str.contains("features")
    assert alignment["better"].tolist() == np.where(distances, "lower", "higher").tolist()
    generated = quality[(quality["images"] == "generated") & quality["value"].notna()]
    assert alignment["value"].tolist() == generated["value"].tolist()


def test_check_models_verifies_inception_weights(store, describer, tmp_path, monkeypatch):
    def custom_pipeline(name):
        return pipeline(store, captioner=str(describer), inception_file=str(tmp_path / name))

    def digests():
        whole = custom_pipeline("whole.pth")
        used = plan_of(whole).table("dalleval_image_quality").uses
        return [use.digest() for use in used if use.setting == "dalleval.inception_file"]

    def problems(whole, table):
        return validation.check_models(whole, plan_of(whole).table(table).uses)

    (tmp_path / "whole.pth").write_bytes(b"weights")
    (tmp_path / "w-00000000.pth").write_bytes(b"weights")
    (first,) = digests()
    (tmp_path / "whole.pth").write_bytes(b"other weights")
    assert digests() != [first]
    for name in ("no-such.pth", "w-00000000.pth"):
        (said,) = problems(custom_pipeline(name), "dalleval_image_quality")
        assert name in said
    assert problems(custom_pipeline("whole.pth"), "dalleval_image_quality") == []
    (said,) = problems(pipeline(store, captioner="mini-vqa"), "dalleval_alignment_quality")
    assert "'mini-vqa' is a vqa model, but a captioner model is needed" in said


@pytest.fixture
def of_my_own(tmp_path):
    """A file of captions, two of every other image, and a folder with the images of all but the last."""
    corpus = world_captions.Corpus(rows=12, seed=9)
    rows, images = corpus.rows_at(range(12)), tmp_path / "images"
    images.mkdir()
    (images / registry.DOMAIN_FILE).write_text(OF_DRAWINGS)
    drawn = corpus.read(rows["caption_id"])
    lines = []
    for k, text in enumerate(rows["text"]):
        lines += [(f"photo-{k}", one) for one in (text, *["A nurse at work"] * (k % 2))]
        if k < 11:
            Image.fromarray(drawn[k]).save(images / f"photo-{k}.png")
    pd.DataFrame(lines, columns=["image_id", "text"]).to_csv(tmp_path / "captions.csv", index=False)
    return tmp_path, list(rows["text"])


def check_alignment(p):
    validation.check_plan(p, ["dalleval_image_quality"])


def own_captions(store, describer, folder, **design):
    captions = {"captions": str(folder / "captions.csv"), "image_folder": str(folder / "images")}
    return pipeline(store, model="mini", captioner=str(describer), **captions | design)


@pytest.mark.long
def test_custom_captions_are_prompts_and_references(store, describer, of_my_own):
    folder, texts = of_my_own
    p = own_captions(store, describer, folder).with_changes(generation={"steps": 1})
    check_alignment(p)
    asked, made, _ = p.part(DallEval).captioned()
    # The first caption of an image is its prompt; all captions are references.
    assert list(asked["text"]) == texts and list(asked["references"].str.len()) == [1, 2] * 6
    assert list(asked["real_id"]) == [f"photo-{k}" for k in range(12)]
    assert made.read(list(asked["image_id"]))[0].shape == (64, 64, 3)
    quality = dalleval.measure.image_quality(p).set_index(["images", "metric"])
    assert quality.loc[("generated", "CIDEr"), "n"] == 12 and quality.loc[("captioned", "CIDEr"), "n"] == 11
    assert quality.loc[("generated", "FID, CLIP features"), "value"] > 0
    some = own_captions(store, describer, folder, max_captions=5).part(DallEval).caption_prompts()
    assert len(some) == 5 and set(some["text"]) < set(texts)


@pytest.fixture(scope="module")
def in_folder(tmp_path_factory):
    """Captioned images of one's own, two of them without a gender, and a BLIP-2 that retrieves them."""
    folder, corpus = tmp_path_factory.mktemp("coco"), world_captions.Corpus(rows=24, seed=9)
    rows = corpus.rows_at(range(24))
    for name in ("images", "retriever"):
        (folder / name).mkdir()
        (folder / name / registry.DOMAIN_FILE).write_text(OF_DRAWINGS)
    for k, drawn in enumerate(corpus.read(rows["caption_id"])):
        Image.fromarray(drawn).save(folder / "images" / f"{k}.png")
    genders = ["", " unknown ", *[("Woman", "M")[k % 3 > 0] for k in range(22)]]
    captions = pd.DataFrame({"image_id": range(24), "text": rows["text"], "gender": genders})
    captions.to_csv(folder / "captions.csv", index=False)
    tiny_blip.save_retriever(folder / "retriever")
    return folder, list(rows["text"])


@pytest.mark.long
def test_gender_judges_of_custom_captions_match_loop(store, in_folder):
    folder, texts = in_folder
    images = {"captions": str(folder / "captions.csv"), "image_folder": str(folder / "images")}
    p = pipeline(store, model="mini", retriever=str(folder / "retriever"), **images)
    table = dalleval.measure.gender_judges(p).set_index(["judge", "captions", "metric"]).sort_index()
    assert set(table.index.get_level_values("judge")) == {"mini-clip", str(folder / "retriever")}
    source, men = p.part(DallEval).captioned_images(), [k for k in range(2, 24) if (k - 2) % 3]
    assert [k for k, gender in enumerate(source.table["gender"]) if gender == "male"] == men
    for judge in (p.clip_judge, p.judge("dalleval.retriever")):
        vectors = judge.embed(source.read(list(source.table["image_id"])))
        queries = judge.classifier.text_embeddings(texts)
        cosines = [[max(v.reshape(-1, len(q)) @ q) for v in vectors] for q in queries]
        for k in (1, 5, 10):
            biases, hits = [], []
            for i, row in enumerate(cosines):
                first = sorted(range(24), key=lambda j, row=row: -row[j])[:k]
                genders = [1 if j in men else -1 for j in first if j > 1]
                biases.append(np.mean(genders) if genders else 0)
                hits.append(i in first)
            of = table.loc[(judge.name, "original")]
            assert of.loc[f"bias_at_{k}", "value"] == pytest.approx(np.mean(biases))
            assert of.loc[f"recall_at_{k}", "value"] == pytest.approx(100 * np.mean(hits))
    # Of 22 images with a gender 14 show men: (14 - 8) / 22.
    assert table.xs("bias_at_all", level="metric")["value"].tolist() == pytest.approx([6 / 22] * 4)
    assert table["reason"].eq("24 captioned images, 22 with a gender").all()
    low, value, high = (table[name].to_numpy(float) for name in ("ci_low", "value", "ci_high"))
    # A bias of 1 is also its upper limit, up to rounding.
    assert ((low <= value) & (value <= high + 1e-12) & (low < high)).all()


def test_fold_limits_match_jackknife():
    rng = np.random.default_rng(2)
    similarity, gender = rng.normal(size=(40, 40)), np.where(rng.random(40) < 0.5, "female", "male")
    images = pd.DataFrame({"gender": gender, "fold": np.arange(40) % 20, "group": range(40)})
    without = []
    for fold in range(20):
        rest = [k for k in range(40) if k % 20 != fold]
        nearest = [max(rest, key=lambda j, i=i: similarity[i, j]) for i in rest]
        without.append(np.mean([1 if gender[j] == "male" else -1 for j in nearest]))
    # The error of the share (bias + 1) / 2 by the delete-a-group jackknife.
    se = math.sqrt(19 / 20 * sum((one - np.mean(without)) ** 2 for one in without)) / 2
    share = np.mean(gender[similarity.argmax(axis=1)] == "male")
    limits = dalleval.measure._fold_limits(similarity, images, 1)
    for limit in ((limits["ci_low"] + 1) / 2, (limits["ci_high"] + 1) / 2):
        # Wilson's limit uses the error at the limit; Student's t with 19 degrees of freedom is 2.093.
        scaled_error = se * math.sqrt(limit * (1 - limit) / (share * (1 - share)))
        assert abs(limit - share) == pytest.approx(2.093 * scaled_error, rel=1e-3)
    # A fold of all images leaves none.
    limits = dalleval.measure._fold_limits(similarity, images.assign(fold=0), 1)
    assert math.isnan(limits["ci_low"]) and limits["reason"] == "too few images for an interval"


def test_caption_prompts_gender_needs_agreeing_captions(store, tmp_path):
    captions = {"one": ["A man runs", "A runner"], "two": ["A man", "Her dog"], "three": ["A cat"], "four": ["A woman"]}
    rows = pd.DataFrame([(name, text) for name, texts in captions.items() for text in texts])
    rows.set_axis(["image_id", "text"], axis=1).to_csv(tmp_path / "captions.csv", index=False)
    p = pipeline(store, captions=str(tmp_path / "captions.csv"))
    assert p.part(DallEval).caption_prompts()["gender"].tolist() == ["male", "", "", "female"]
    rows.set_axis(["image_id", "text"], axis=1).assign(gender="mle").to_csv(tmp_path / "captions.csv", index=False)
    with pytest.raises(InputError, match=r"'mle' in the column gender\. .*Did you mean 'male'"):
        pipeline(store, captions=str(tmp_path / "captions.csv")).part(DallEval).caption_prompts()


def test_check_plan_refuses_unusable_captions(store, describer, of_my_own):
    folder, _ = of_my_own
    pd.DataFrame({"text": ["A nurse at work"]}).to_csv(folder / "texts.csv", index=False)
    pd.DataFrame({"image_id": ["one"], "text": ["xylophonic quagmire"]}).to_csv(folder / "odd.csv", index=False)
    for error, name, design in (
        (ParameterError, r"dalleval\.captions", {"captions": ""}),
        (ParameterError, r"dalleval\.captions", {"captions": "", "image_folder": "", "max_captions": 5}),
        (InputError, "image_id", {"captions": str(folder / "texts.csv")}),
        (InputError, "no-such", {"captions": str(folder / "no-such.csv")}),
        (InputError, "no-such", {"image_folder": str(folder / "no-such")}),
        (ParameterError, "xylophonic", {"captions": str(folder / "odd.csv")}),
    ):
        with pytest.raises(error, match=name):
            check_alignment(own_captions(store, describer, folder, **design))


@pytest.mark.parametrize("name", ["captions.csv", "captions.parquet", "floats.parquet", "captions.jsonl"])
def test_caption_ids_with_gaps_stay_integers(store, tmp_path, caplog, name):
    ids, text = [7, None, 12, 7, 3], ["A nurse at work"] * 4 + [""]
    dtype = "float" if name == "floats.parquet" else "Int64"
    rows = pd.DataFrame({"image_id": pd.array(ids, dtype=dtype), "text": text})
    write = {"csv": rows.to_csv, "parquet": rows.to_parquet, "jsonl": rows.to_json}[name.split(".")[1]]
    options = {"orient": "records", "lines": True} if name.endswith("jsonl") else {"index": False}
    write(tmp_path / name, **options)
    p = pipeline(store, model="mini", captions=str(tmp_path / name))
    asked = p.part(DallEval).caption_prompts()
    assert asked["real_id"].tolist() == ["7", "12"] and asked["references"].str.len().tolist() == [2, 1]
    # One row has no id and one no text.
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert name in said and ": 2." in said


def test_check_plan_warns_of_missing_images(store, describer, of_my_own, caplog):
    folder, _ = of_my_own
    check_alignment(own_captions(store, describer, folder))
    # All images exist except the last.
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert all(part in said for part in (str(folder / "images"), "1 of 12", "photo-11"))
    rows = pd.read_csv(folder / "captions.csv")
    # A name may include its file extension, and nothing else.
    for ending in (".png", ".jpg"):
        rows.assign(image_id=rows["image_id"] + ending).to_csv(folder / f"files{ending}.csv", index=False)
    check_alignment(own_captions(store, describer, folder, captions=str(folder / "files.png.csv")))
    # A requested name, and an existing one.
    with pytest.raises(InputError, match=r"files\.jpg\.csv.*'photo-0\.jpg'.*'photo-0\.png'"):
        check_alignment(own_captions(store, describer, folder, captions=str(folder / "files.jpg.csv")))


def test_image_quality_without_real_images_has_reason(store, describer, of_my_own):
    folder, _ = of_my_own
    p = own_captions(store, describer, folder, image_folder="").with_changes(generation={"steps": 1})
    quality = dalleval.measure.image_quality(p)
    distances = quality[quality["metric"].str.match("FID|KID")]
    assert len(distances) == 2 and (distances["n"] == 0).all() and distances["value"].isna().all()
    assert (distances["reason"] != "").all() and set(quality["images"]) == {"generated"}


# -- PaintSkills as its authors distribute it --------------------------------------------------------


SIMULATORS = {
    "bicycle": "bike",
    "person": "humanSophie",
    "fire hydrant": "fireHydrant",
    "stop sign": "stopSign",
    "traffic light": "trafficLight",
    "potted plant": "pottedPlant",
}


def write_paintskills(folder, rows, seed=8, size=64):
    """Write drawings of the embedded world as PaintSkills' authors write theirs."""
    drawn = skills.generate(rows.assign(n_images=1), seed=seed)
    for skill, of in rows.groupby("skill"):
        (folder / skill / "images").mkdir(parents=True)
        scenes, images, boxes = [], [], []
        for k, row in enumerate(of.to_dict("records")):
            name, shape, other = row["prompt_id"], *(SIMULATORS.get(row[c], row[c]) for c in ("object", "other"))
            objects = [thing(other), thing(shape, f"{row['relation']}_0", 1)] if other else [thing(shape)] * row["n"]
            scenes.append(scene(name, *objects, skill=skill, text=row["text"]))
            images.append(pictured(k, f"image_{name}.png", size, size))
            Image.fromarray(drawn.read([f"{name}/0"])[0]).save(folder / skill / "images" / f"image_{name}.png")
            for box in skills.truth_boxes(drawn.scene(f"{name}/0"), name, size=size).to_dict("records"):
                left, top, right, bottom = (size * box[side] for side in ("left", "top", "right", "bottom"))
                category = list(prompts.CLASSES).index(box["label"])
                boxes.append(annotation(k, category, [left, top, right - left, bottom - top]))
        classes = [{"id": k, "name": SIMULATORS.get(c, c)} for k, c in enumerate(prompts.CLASSES)]
        put(folder, skill, scenes)
        put_boxes(folder, skill, coco(*boxes, images=images, categories=classes))


PAIRS = [("dog", "car"), ("car", "bench"), ("person", "fire hydrant"), ("bicycle", "bird"), ("boat", "boat")]


@pytest.fixture(scope="module")
def drawn_scenes():
    """Forty of the paper's scenes of each skill; of counts and relations so that each class has every one."""
    whole = prompts.skills()
    pairs = pd.Series(list(zip(whole["object"], whole["other"], strict=True)), index=whole.index)
    counts = whole[(whole["skill"] == "count") & whole["object"].isin([one for one, _ in PAIRS])]
    of = [
        whole[whole["skill"] == "object"].groupby("object").head(3).head(40),
        # Five classes and four numbers, five pairs and four relations, each in two texts.
        counts.groupby(["object", "n"]).head(2),
        whole[pairs.isin(PAIRS)].groupby(["object", "relation"]).head(2),
    ]
    assert [len(rows) for rows in of] == [40] * 3
    return pd.concat(of, ignore_index=True)


@pytest.fixture(scope="module")
def paintskills_folder(tmp_path_factory, drawn_scenes):
    folder = tmp_path_factory.mktemp("paintskills")
    write_paintskills(folder, drawn_scenes)
    (folder / registry.DOMAIN_FILE).write_text(OF_DRAWINGS)
    return folder


@pytest.fixture
def copied(paintskills_folder, tmp_path):
    return shutil.copytree(paintskills_folder, tmp_path / "paintskills")


@pytest.fixture(scope="module")
def other_detector(tmp_path_factory):
    """The embedded detector under a name without a domain."""
    folder = tmp_path_factory.mktemp("detectors") / "somebodys"
    return str(shutil.copytree(registry.resolve("mini-skills-detector", "detector"), folder))


@pytest.fixture(scope="module")
def of_authors(store, paintskills_folder, other_detector):
    design = {"paintskills": str(paintskills_folder), "detector": other_detector, "n_scenes": 30}
    return pipeline(store, failures={"other_class": 0.5}, calibration_images=40, **design)


@pytest.mark.long
def test_skill_prompts_of_paintskills_match_scenes(of_authors, drawn_scenes, store, paintskills_folder):
    asked = of_authors.part(DallEval).prompts("skills")
    assert asked["skill"].value_counts().to_dict() == dict.fromkeys(SKILLS, 30)
    columns = ["prompt_id", "skill", "text", "object", "n", "relation", "other"]
    scene_rows = drawn_scenes.set_index("prompt_id", drop=False).loc[asked["prompt_id"], columns]
    assert asked[columns].to_numpy().tolist() == scene_rows.to_numpy().tolist()
    whole = pipeline(store, paintskills=str(paintskills_folder), n_scenes=0).part(DallEval).prompts("skills")
    assert set(whole["prompt_id"]) == set(drawn_scenes["prompt_id"])
    assert len(dalleval.measure.skill_prompts(of_authors)) == 90


@pytest.mark.long
def test_references_of_paintskills_are_upper_bound(of_authors):
    result = dalleval.measure.references(of_authors).set_index(["reference", "judge", "measure"])
    for skill in SKILLS:
        # Boxes match the drawings, and the embedded detector was trained on such drawings.
        assert result.loc[("oracle", "boxes", skill), ["value", "n"]].tolist() == [100, 30]
        own = result.loc[("oracle", dalleval.measure.DETECTOR, skill)]
        assert own["value"] > 80 and own["n"] == 30
        assert result.loc[("shuffled", dalleval.measure.DETECTOR, skill), "value"] < 35
    assert len(result) == 9


@pytest.mark.long
def test_references_of_boxes_agree_for_every_rule(store, paintskills_folder):
    for rule in RULES:
        result = dalleval.measure.references(pipeline(store, paintskills=str(paintskills_folder), rule=rule))
        of = result[result["judge"] == "boxes"]
        assert of["value"].tolist() == [100] * 3 and of["measure"].tolist() == list(SKILLS)


@pytest.mark.long
def test_confusion_of_detector_uses_paintskills_images(of_authors, drawn_scenes):
    answers = dalleval.measure.confusion(of_authors)
    assert set(answers["reference"]) == {"PaintSkills' images", "drawings"}
    renders = answers[answers["quantity"].str.startswith("skill")]
    assert len(renders) == 120 and renders["image_id"].is_unique
    assert set(renders["image_id"]) == set("image_" + drawn_scenes["prompt_id"])
    assert {skill: of.value_counts().to_dict() for skill, of in renders.groupby("quantity")["condition"]} == {
        "skill: object": {"": 20, "other class": 20},
        "skill: count": {"": 20, "other class": 10, "other number": 10},
        "skill: spatial": {"": 20, "other class": 10, "other relation": 10},
    }
    # By hand: an image shows the number in its scene, whatever the prompt.
    scenes = drawn_scenes.set_index("image_" + drawn_scenes["prompt_id"])
    counts = answers[answers["quantity"] == "number"].set_index("image_id")
    failure = renders.set_index("image_id")["condition"].reindex(counts.index)
    expected_count = scenes.loc[counts.index, "n"].where(failure != "other class", 0)
    assert counts["truth"].astype(int).tolist() == expected_count.tolist()
    errors = calibration.error(answers, paper="dalleval")
    errors = errors[(errors[["subject", "condition"]] == "all").all(axis=1)].set_index(["quantity", "measure"])["value"]
    for skill, of in renders.groupby("quantity"):
        matches, said = of["truth"] == "yes", of["answer"] == "yes"
        assert errors[(skill, "sensitivity")] == pytest.approx(100 * said[matches].mean())
        assert errors[(skill, "specificity")] == pytest.approx(100 * (~said[~matches]).mean())
        assert errors[(skill, "sensitivity")] > 75 and errors[(skill, "specificity")] > 85


@pytest.mark.long
def test_confusion_skips_contradictory_and_unreadable_images(store, copied, drawn_scenes):
    names = {skill: rows["prompt_id"].tolist() for skill, rows in drawn_scenes.groupby("skill")}
    # One object of a count is hidden, and the box of an object is that of another class; relations have no boxes.
    wrong = {"count": names["count"][1], "object": names["object"][5]}
    for skill, name in wrong.items():
        path = copied / skill / f"{skill}_val_bounding_boxes.json"
        said = json.loads(path.read_text())
        (at,) = [one["id"] for one in said["images"] if one["file_name"] == f"image_{name}.png"]
        mine = [one for one in said["annotations"] if one["image_id"] == at]
        if skill == "count":
            said["annotations"].remove(mine[0])
        else:
            mine[0]["category_id"] = (mine[0]["category_id"] + 1) % len(said["categories"])
        path.write_text(json.dumps(said))
    (copied / "spatial" / "spatial_val_bounding_boxes.json").unlink()
    gone, broken = [f"image_{name}" for name in names["object"][:3]], f"image_{names['count'][0]}"
    for name in gone:
        (copied / "object" / "images" / f"{name}.png").unlink()
    (copied / "count" / "images" / f"{broken}.png").write_bytes(b"GIF89a")
    p = pipeline(store, paintskills=str(copied), n_scenes=0, calibration_images=40)
    validation.check_plan(p, ["dalleval_skill_verdicts"])
    _, image_status = p.part(DallEval).detections(p.part(DallEval).renders())
    image_status = image_status.set_index("image_id")
    unseen = image_status[image_status["status"] != ""]
    assert set(unseen.index) == {*gone, broken} and (unseen["status"] == "unreadable").all()
    assert (unseen.loc[gone, "reason"] == "missing").all()
    result = dalleval.measure.references(p)
    n = result[result["judge"] == dalleval.measure.DETECTOR].groupby("measure")["n"].agg(set).to_dict()
    assert n == {"object": {37}, "count": {39}, "spatial": {40}}
    renders = dalleval.measure.confusion(p).query("quantity.str.startswith('skill')")
    expected = {f"image_{name}" for of in names.values() for name in of if name not in wrong.values()}
    assert set(renders["image_id"]) == expected - set(unseen.index) and len(renders) == 118 - 4
    assert set(renders["reference"]) == {dalleval.measure.reference_name(p)}


def test_digest_changes_with_paintskills_folder(store, copied):
    def folder_digest():
        return validation.digest(pipeline(store, paintskills=str(copied)))

    digests = [folder_digest()]
    assert folder_digest() == digests[0] != validation.digest(pipeline(store))
    picture, boxes = next((copied / "object/images").iterdir()), copied / "spatial/spatial_val_bounding_boxes.json"
    picture.write_bytes(picture.read_bytes() + b"\0")
    digests.append(folder_digest())
    # The same size and modification time as before.
    state = boxes.stat()
    boxes.write_text(boxes.read_text().replace(": 0", ": 1", 1))
    os.utime(boxes, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert len({*digests, folder_digest()}) == 3
