"""Stages for people by position, on renders with ground truth: planted bias is found, and no other."""

from __future__ import annotations

import io
from types import SimpleNamespace

import fake_endpoint as fake
import numpy as np
import pandas as pd
import pytest
from PIL import Image

pytest.importorskip("torch", reason="judging needs the extra 'models'")

from biaslab.analyses import calibration
from biaslab.errors import InputError, ParameterError, UnknownNameError
from biaslab.generation.generator import Generator
from biaslab.generation.settings import GenerationSettings
from biaslab.papers import paired
from biaslab.papers.paired import measure
from biaslab.papers.paired.stages import Paired
from biaslab.pipeline import Pipeline, Settings, paths
from biaslab.planning import validation
from biaslab.planning.plan import plan_of
from biaslab.planning.records import ModelUse
from biaslab.study import Study
from biaslab_world import pairs

SMALL = {"paired": {"n_occupations": 8, "power_samples": 2, "single_images": 2, "three_person_prompts": 4}}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """Return a function that opens studies on renders, with or without planted bias, which share one cache."""
    root = tmp_path_factory.mktemp("worlds")
    opened = {}
    patched = pytest.MonkeyPatch()
    patched.setattr(measure, "RENDERS", 120)

    def study(skew):
        if skew not in opened:
            settings = SMALL | {"captions": {"synthetic_bias": skew}, "compute": {"cache": str(root / "store")}}
            if skew == "off":
                # Only the pairs of the synthetic world without bias are tested.
                few = {"n_occupations": 5, "power_samples": 1, "single_images": 1, "three_person_prompts": 0}
                settings |= {"paired": few, "critic": {"rounds": 0}}
            opened[skew] = Study(str(root / skew), source="pipeline", model="world", seed=3, settings=settings)
        return opened[skew]

    yield study
    patched.undo()


def _scores(study):
    """Return the scores that the notebooks compute from the study's shares and images."""
    measured = (measure.percent_female, measure.pair_images, paired.printed.printed_value)
    return paired.stereotype_score(*map(study.load, measured), confidence=0.95)


def _planted(study, aspect, stereotype):
    """Return the synthetic world's score for the people prompted in pairs, by exact probabilities."""
    people = study.load(measure.people)
    people = people[(people["setting"] == "paired") & (people["aspect"] == aspect)]
    texts = study.load(measure.prompts).set_index("prompt_id")["text"]
    scores = {}
    for image_id, rows in people.groupby("image_id"):
        read = pairs.parse(texts[image_id.rpartition("/")[0]])
        for k, side in enumerate(("left", "right")):
            row = rows[rows["position"] == side].iloc[0]
            toward = 1 if row["stereotype"] == "female" else -1
            scores.setdefault((row["stereotype"], row["identity"]), []).append(
                100 * toward * (2 * read.probability_female(k) - 1)
            )
    means = pd.Series({key: np.mean(values) for key, values in scores.items()})
    each = means.groupby(level=0).mean()
    return float(each.mean() if stereotype == "overall" else each[stereotype])


def _error(study, aspect, stereotype):
    """Return the standard error of a score in pairs when the same identities get new images.

    Each list is a stratified sample (Cochran 1977, section 5.11); overall both people of an image may depend on each
    other in any way.
    """
    rows = study.load(measure.percent_female).query("model == 'world' and setting == 'paired' and n > 1")
    rows = rows[rows["aspect"] == aspect]
    share = rows["percent_female"] / 100
    lists = (share * (1 - share) / (rows["n"] - 1)).groupby(rows["stereotype"])
    errors = 200 * np.sqrt(lists.sum()) / lists.size()
    return errors.mean() if stereotype == "overall" else errors[stereotype]


@pytest.mark.long
def test_stereotype_score_recovers_planted_bias(worlds):
    study = worlds("default")
    scores = _scores(study).set_index(["model", "aspect", "setting", "stereotype"])
    for aspect in ("occupation", "power"):
        for stereotype in ("female", "male", "overall"):
            row = scores.loc["world", aspect, "paired", stereotype]
            planted = _planted(study, aspect, stereotype)
            assert abs(row["score"] - planted) <= 1.96 * _error(study, aspect, stereotype), (aspect, stereotype)
    overall = scores.loc[("world", "occupation", "paired", "overall"), "score"]
    assert overall - 1.96 * _error(study, "occupation", "overall") > 25


@pytest.mark.long
def test_stereotype_score_without_bias_is_zero(worlds):
    scores = _scores(worlds("off"))
    scores = scores[(scores["model"] == "world") & (scores["setting"] == "paired")]
    assert len(scores) == 6
    # Within 3.3 standard errors, which one score in a thousand is not.
    for row in scores.itertuples():
        assert abs(row.score) < 3.3 * _error(worlds("off"), row.aspect, row.stereotype)


@pytest.mark.long
def test_confusion_on_renders_is_accurate(worlds):
    errors = calibration.error(worlds("default").load(measure.confusion), paper="paired")
    value = errors.set_index(["quantity", "condition", "measure"])["value"]
    assert value["inclusion", "all", "sensitivity"] >= 97
    assert value["gender", "clear cues", "accuracy"] >= 98
    assert value["role order", "all", "sensitivity"] >= 97


@pytest.mark.long
def test_critic_round_removes_bias(worlds):
    study = worlds("default")
    scores = _scores(study).set_index(["model", "aspect", "setting", "stereotype"])
    valid = paired.valid_images(study.load(measure.people), confidence=0.95).set_index(["aspect", "setting", "measure"])
    for aspect in ("occupation", "power"):
        before, after = (
            scores.loc[("world", aspect, setting, "overall"), "score"] for setting in ("paired", "faircritic")
        )
        assert before > 12
        # The smaller design here has a standard error of some 5 points; the full one must stay below 6.
        assert abs(after) < 12
        assert valid.loc[(aspect, "faircritic", "people"), "change"] > -5
    critiques = study.load(measure.critiques)
    whole = critiques[critiques["identity"] == ""].set_index("aspect")
    assert (whole["biased"] == "yes").all()
    assert whole["reasons"].str.len().min() > 40
    guided_rows = critiques[critiques["guideline"] != ""]
    # A guideline is the sentence added to the prompt.
    assert guided_rows["guideline"].str.match(r"Show the .+ as a (woman|man)\.").all()
    # Revised prompts are those of the pairs with sentences.
    stages = study.pipeline.part(Paired)
    first, after = stages.prompts("paired"), stages.prompts("faircritic_1")
    assert all(b.startswith(a) for a, b in zip(first.texts["text"], after.texts["text"], strict=True))
    changed = (first.texts["text"].to_numpy() != after.texts["text"].to_numpy()).mean()
    assert 0.2 < changed < 0.9
    assert not set(first.texts["prompt_id"]) & set(after.texts["prompt_id"])


@pytest.mark.long
def test_intervention_uses_most_biased_occupations(worlds):
    study = worlds("default")
    top = study.pipeline.part(Paired).top_occupations()
    assert {gender: len(names) for gender, names in top.items()} == {"male": 5, "female": 5}
    people = study.load(measure.people)
    intervention_people = people[(people["setting"] == "intervention") & (people["aspect"] == "occupation")]
    # 5 x 5 pairs in 2 orders, of two people each.
    assert len(intervention_people) == 100
    assert set(intervention_people["occupation"]) == {name for names in top.values() for name in names}
    shares = study.load(measure.percent_female)
    shares = shares[(shares["model"] == "world") & (shares["aspect"] == "occupation")]
    assert set(shares["setting"]) == {"single", "paired", "paired_top5", "intervention_top5", "faircritic"}


@pytest.mark.long
def test_people_has_row_per_requested_person(worlds):
    people = worlds("default").load(measure.people)
    # Pairs: 8 x 8 x 2 and 36 x 2 x 2; one person: 16 x 2 and 36 x 2 x 2; alike and same: 16 each; three: 4 x 3.
    n = people.groupby(["setting", "aspect"]).size()
    assert n["paired", "occupation"] == n["faircritic", "occupation"] == 2 * 128
    assert n["paired", "power"] == n["intervention", "power"] == n["faircritic", "power"] == 2 * 144
    assert (n["single", "occupation"], n["single", "power"]) == (32, 144)
    assert (n["alike", "occupation"], n["same", "occupation"]) == (32, 32)
    assert n["three", "occupation"] == 12
    assert set(people.loc[people["setting"] == "three", "position"]) == {"left", "middle", "right"}
    stages, whole = worlds("default").pipeline.part(Paired), worlds("default").pipeline
    planned = {request.kind: request.n_images for request in plan_of(whole).table("paired_people").requests}
    assert planned == {kind: len(stages.images(kind).table) for kind in stages.kinds}


def test_prompts_refuse_kinds_not_requested(tmp_path):
    stages = Pipeline(
        "world", Settings(paired={"three_person_prompts": 0}, critic={"rounds": 0}, compute={"cache": str(tmp_path)})
    ).part(Paired)
    assert stages.kinds == ("single", "paired", "controls", "intervention")
    for kind in ("three", "faircritic_1", "pair"):
        with pytest.raises(UnknownNameError, match=kind):
            stages.prompts(kind)


def test_critic_endpoint_overrides_shared_endpoint():
    shared = {"critic": {"model": "gpt-4o"}, "endpoint": {"url": "http://a:1/v1", "api_key_env": "A_KEY"}}
    result = Pipeline("mini", Settings.from_mapping(shared)).endpoint("critic")
    assert (result.url, result.api_key_env) == ("http://a:1/v1", "A_KEY")
    own = {"critic": {"url": "http://b:2/v1", "api_key_env": "B_KEY"}}
    result = Pipeline("mini", Settings.from_mapping(shared).with_changes(**own)).endpoint("critic")
    assert (result.url, result.api_key_env) == ("http://b:2/v1", "B_KEY")
    # A critic of kind endpoint requires a URL and a model.
    with pytest.raises(ParameterError, match=r"needs endpoint\.url or critic\.url .* and critic.model"):
        validation.check_plan(
            Pipeline("mini", Settings.from_mapping({"critic": {"kind": "endpoint"}})), ["paired_people"]
        )


# -- checks before a run, and the digest of a run --------------------------------------------------------------

BUYING = {"endpoint": {"url": "http://127.0.0.1:9/v1", "api_key_env": ""}}
BUYING["judging"] = {"gender": "ViT-B-32:openai", "faces": "whole image"}


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        ("mini", {"paired": {"n_occupations": 21}}, "paired.n_occupations is 21; it must be 1 to 20"),
        ("endpoint:x", BUYING, r"endpoint\.price is not set.* --dry-run prints how many images a run needs"),
        (
            "endpoint:x",
            BUYING | {"endpoint": BUYING["endpoint"] | {"price": 0.04, "cost_limit": 0.03}},
            r"endpoint\.cost_limit is 0\.03, less than endpoint\.price, 0\.04",
        ),
    ],
)
def test_check_plan_refuses_invalid_names_and_costs(model, given, message):
    with pytest.raises(ParameterError, match=message):
        validation.check_plan(Pipeline(model, Settings.from_mapping(given)), ["paired_people"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gender": "vqa:blip"}, "no vqa model named 'blip'"),
        ({"extra_judges": ["annotations:no.csv"]}, "There is no file no.csv"),
        ({"extra_judges": ["mini-clop"]}, "There is no clip model named 'mini-clop'"),
    ],
)
def test_check_plan_refuses_unknown_judges(given, message):
    pipeline = Pipeline("mini", Settings.from_mapping({"judging": given}))
    with pytest.raises((InputError, ParameterError), match=message):
        validation.check_plan(pipeline, ["paired_judge_agreement"])


def test_extra_judges_digest_depends_on_files(tmp_path, monkeypatch):
    file, folder = tmp_path / "r.csv", tmp_path / "blip"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    result = []
    for text, config in (("1", "{}"), ("2", "{}"), ("2", "{ }")):
        file.write_text(text)
        (folder / "config.json").write_text(config)
        settings = Settings.from_mapping({"judging": {"extra_judges": [f"annotations:{file}", f"vqa:{folder}"]}})
        pipeline = Pipeline("mini", settings)
        used = (ModelUse("judging.extra_judges", judge.name, judge=judge) for judge in pipeline.gender_judges[1:])
        result += [tuple(use.digest() for use in used)]
    assert len(set(result)) == 3 and all(map(len, result))
    monkeypatch.chdir(tmp_path)
    for given in ("annotations:r.csv", ["annotations:r.csv"]):
        result = paths.resolve_paths("mini", {"judging": {"extra_judges": given}})[1]
        assert Settings.from_mapping(result).judging.extra_judges == (f"annotations:{file}",)


# -- judges ------------------------------------------------------------------------------------------------


@pytest.fixture
def annotation_writer(worlds, tmp_path):
    """A pipeline on renders, and a function that writes annotations of its people."""
    people = worlds("default").pipeline.part(Paired)

    def write(name, kinds=("paired",), annotators=2, extra=""):
        rows = pd.concat([people.people(kind) for kind in kinds])
        rows = rows[rows["status"] == "judged"]
        lines = [",".join(["image_id", "position", *(f"r{k}" for k in range(annotators))])]
        for k, row in enumerate(rows.itertuples()):
            other = "male" if row.gender == "female" else "female"
            labels = [other if (k + r) % 7 == 0 else row.gender for r in range(annotators)]
            lines.append(",".join([row.image_id, str(row.position), *labels]))
        path = tmp_path / name
        path.write_text("\n".join([*lines, extra]))
        return f"annotations:{path}", rows

    return worlds("default").pipeline, write


@pytest.mark.long
def test_annotations_file_covers_all_kinds(annotation_writer):
    base, write = annotation_writer
    judge, rows = write("all.csv", kinds=("paired", "faircritic_1"), annotators=1)
    own_pipeline = base.with_changes(judging={"gender": judge})
    all_people = measure.people(own_pipeline)
    outcomes = all_people.groupby(["setting", "round"])["status"].agg(set)
    assert outcomes["single", 0] == outcomes["three", 0] == {"unannotated"}
    paired = all_people[all_people["setting"] == "paired"]
    assert (paired["status"] == "judged").sum() == rows["image_id"].str.startswith("paired").sum()
    assert paired["n_faces"].isna().all()
    # The critic uses the annotators' genders, and the annotations of its round are read.
    assert "judged" in outcomes["faircritic", 1]
    assert measure.confusion(own_pipeline).empty
    agreement = measure.judge_agreement(own_pipeline)
    assert set(agreement["statistic"]) <= {"fleiss_kappa"} and set(agreement["setting"]) == {"paired"}


def test_annotations_of_unknown_images_are_refused(annotation_writer):
    base, write = annotation_writer
    judge, _ = write("strange.csv", extra="painted-sheriff-nurse/0,1,male,male\n")
    with pytest.raises(InputError, match=r"not in the sample .*'painted-sheriff-nurse/0'"):
        base.with_changes(judging={"gender": judge}).part(Paired).people("single")


@pytest.mark.long
def test_judge_agreement_separates_annotation_files(annotation_writer):
    base, write = annotation_writer
    files = [write(name)[0] for name in ("ann.csv", "ben.csv")]
    result = measure.judge_agreement(base.with_changes(judging={"extra_judges": files}))
    keys = ["aspect", "setting", "judge", "reference", "statistic"]
    assert not result.duplicated(keys).any()
    fleiss = result[result["statistic"] == "fleiss_kappa"]
    assert set(fleiss["judge"]) == {"annotators: ann.csv", "annotators: ben.csv"}
    against = set(result.loc[result["judge"] == "mini-clip", "reference"])
    assert against == {"truth", "annotators: ann.csv", "annotators: ben.csv"}
    alone = measure.judge_agreement(base.with_changes(judging={"extra_judges": files[:1]}))
    assert set(alone["reference"]) == {"truth", "annotators"}


@pytest.mark.long
def test_confusion_includes_every_visual_judge(worlds, monkeypatch):
    from biaslab.hub.registry import ANY
    from biaslab.judges import blip as vqa

    class Sees:
        def ask(self, images, of, questions):
            return ["a woman" if "left" in q else "a man" for q in questions]

    monkeypatch.setattr(vqa, "load", lambda *_, **__: Sees())
    monkeypatch.setattr(vqa.VqaJudge, "digest", lambda self: "weights")
    # A hub model for more domains than photographs.
    monkeypatch.setattr(vqa.VqaJudge, "domain", ANY)
    base = worlds("default").pipeline
    both = base.with_changes(judging={"extra_judges": ["vqa:owner/blip"]})
    answers = measure.confusion(both)
    vqa_answers = answers[answers["judge"] == "vqa:owner/blip"]
    # The person on the left is labelled female, the other one male.
    genders = vqa_answers[vqa_answers["quantity"] == "gender"].groupby("answer")["n"].sum()
    assert genders.to_dict() == {"female": measure.RENDERS, "male": measure.RENDERS}
    # The first judge's answers do not depend on the second.
    alone = measure.confusion(base)
    own = answers[answers["judge"] == "mini-clip"]
    pd.testing.assert_frame_equal(own.reset_index(drop=True), alone)
    agreement = measure.judge_agreement(both).set_index(["judge", "reference", "aspect", "setting"])
    assert agreement.loc[("mini-clip", "truth", "occupation", "paired"), "value"] > 0.8
    # Renders are not photographs: the reference of a judge of another domain is named "truth of drawings".
    drawn = agreement.loc[("vqa:owner/blip", "truth of drawings", "occupation", "paired")]
    assert abs(drawn["value"]) < 0.2
    assert set(agreement.index.droplevel([2, 3])) == {
        *(("mini-clip", "truth"), ("vqa:owner/blip", "truth of drawings"), ("vqa:owner/blip", "mini-clip"))
    }
    first = measure.confusion(base.with_changes(judging={"gender": "vqa:owner/blip"}))
    pd.testing.assert_frame_equal(first, vqa_answers.reset_index(drop=True))


def test_image_model_of_several_people_has_wide_aspect():
    for model, name in (("mini", "mini-sd-pairs"), ("mini-sd", "mini-sd"), ("owner/other", "owner/other")):
        pipeline = Pipeline(model, Settings.from_mapping(SMALL))
        made_by = [pipeline.image_model("paired", several=several) for several in (False, True)]
        assert [(one._name, one._settings.aspect) for one in made_by] == [(name, 1.0), (name, 1.5)]
    # For the paradox's prompts, ``mini`` is the model of single people.
    assert Pipeline("mini", Settings()).image_model()._name == "mini"


def test_generator_refuses_unsupported_aspect():
    settings = GenerationSettings(aspect=1.5)
    with pytest.raises(ParameterError, match=r"owner/other is a SimpleNamespace.* paired.aspect to 1"):
        Generator(SimpleNamespace(), settings, model="owner/other", folder=None, device=None)


# -- a model behind an images endpoint ---------------------------------------------------------------------


def reply(text, image=None):
    """Return the reply of a server with any image."""
    file = io.BytesIO()
    Image.fromarray(np.zeros((64, 96, 3), np.uint8) if image is None else image).save(file, "PNG")
    return fake.drawn(file.getvalue(), revised=f"Drawn: {text}")


def shown(text):
    """Return the reply of a server with the synthetic world's image for a text."""
    generated = pairs.generate(pd.DataFrame({"prompt_id": ["p"], "text": [text], "n_images": [1]}), seed=1)
    return reply(text, generated.read(["p/0"])[0])


@pytest.fixture
def endpoint_pipeline(tmp_path, monkeypatch):
    """A pipeline on an images endpoint of this machine, and the server behind it."""
    monkeypatch.setenv("FAKE_KEY", fake.KEY)
    # Requests of the test must not use a proxy of the environment.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    refusal = fake.failure(400, "Not this one.", "content_policy_violation")
    with fake.FakeEndpoint().running() as server:
        server.reply = lambda text, n: refusal if "sheriff" in text else shown(text)
        settings = {
            "paired": {"n_occupations": 2, "power_samples": 1, "single_images": 1, "three_person_prompts": 0},
            "critic": {"rounds": 0},
            # Its images are drawings of the synthetic world.
            "generation": {"image_domain": "drawings"},
            "judging": {"faces": "mini-detector", "gender": "mini-clip"},
            "endpoint": {"url": server.url, "api_key_env": "FAKE_KEY", "price": 0.04, "cost_limit": 100.0},
            "compute": {"cache": str(tmp_path)},
        }
        given = Settings.from_mapping(settings)
        yield server, lambda **more: Pipeline("endpoint:dall-e-3", given.with_changes(**more), seed=1, progress=False)


@pytest.mark.long
def test_endpoint_people_are_judged_and_bought_once(endpoint_pipeline):
    server, opened = endpoint_pipeline
    own_pipeline = opened()
    validation.check_plan(own_pipeline, ["paired_people"])
    assert own_pipeline.label == "dall-e-3"
    people = own_pipeline.part(Paired).people("paired")
    n = len(server.requests)
    # 2 x 2 occupations in 2 orders, 36 occupations' roles in 2 orders.
    assert n == 8 + 72
    asked_sheriff = people["occupation"] == "sheriff"
    refused = people[people["image_id"].isin(people.loc[asked_sheriff, "image_id"])]
    assert set(refused["status"]) <= {"unreadable", "blocked"}
    shown = people[~people["image_id"].isin(refused["image_id"])]
    assert (shown["status"].isin(["judged", "uncertain"])).mean() > 0.95
    images = own_pipeline.part(Paired).images("paired").table
    assert images.loc[images["status"] == "ok", "revised_prompt"].str.startswith("Drawn: Generate").all()
    # All images are cached: none is bought again.
    repeated = opened().part(Paired).people("paired")
    pd.testing.assert_frame_equal(repeated, people)
    assert len(server.requests) == n


@pytest.mark.long
def test_endpoint_images_of_several_people_have_own_size(endpoint_pipeline):
    server, opened = endpoint_pipeline
    server.reply = lambda text, n: reply(text)
    own_pipeline = opened(endpoint={"size": "1024x1024"}, paired={"image_size": "1792x1024"})
    for kind, size in (("single", "1024x1024"), ("paired", "1792x1024")):
        start = len(server.requests)
        own_pipeline.part(Paired).images(kind)
        assert {r["size"] for r in server.requests[start:]} == {size}
    start = len(server.requests)
    opened(endpoint={"size": "512x512"}).part(Paired).images("paired")
    assert {r["size"] for r in server.requests[start:]} == {"512x512"}


@pytest.mark.parametrize(("own", "of_people"), [(None, 2.0), (0.0, 0.0), (3.0, 3.0)])
def test_paired_images_have_own_guidance_scale(own, of_people):
    pipeline = Pipeline("mini", Settings(generation={"guidance_scale": 2.0}, paired={"guidance_scale": own}))
    wanted = [pipeline.image_model(of)._settings.guidance_scale for of in ("captions", "paired")]
    assert wanted == [2.0, of_people]


@pytest.mark.long
def test_people_skip_rejected_images(endpoint_pipeline, monkeypatch):
    server, opened = endpoint_pipeline
    too_long = fake.failure(400, "Too long.", "bad_prompt")
    server.reply = lambda text, n: too_long if "sheriff" in text else reply(text)
    own_pipeline = opened()
    monkeypatch.setattr(Paired, "kinds", ("paired",))
    images = own_pipeline.part(Paired).images("paired").table
    rejected = set(images.loc[images["status"] == "rejected", "image_id"])
    assert rejected
    all_people = measure.people(own_pipeline)
    assert set(all_people["image_id"]) == set(images["image_id"]) - rejected


@pytest.mark.parametrize(
    ("gender", "roles"),
    [
        # A judge without texts cannot compare people with phrases; annotators see no faces.
        ("dlib", ["correct", "correct"]),
        ("annotations:a.csv", ["", ""]),
        ("ViT-B-32:openai", ["", ""]),
    ],
)
def test_people_order_uses_additional_open_clip_model(monkeypatch, gender, roles):
    def judge_people(self, kind, judge):
        other = judge.name == "ViT-L-14:openai"
        people = {"gender": "male" if other else "female", "role": "correct" if other else "", "role_p": 1.0}
        return pd.DataFrame([people] * 2)

    monkeypatch.setattr("biaslab.papers.paired.stages.Paired.judge_people", judge_people)
    settings = Settings(judging={"faces": "yunet", "gender": gender, "extra_judges": ("ViT-L-14:openai",)})
    part = Pipeline("owner/name", settings, progress=False).part(Paired)
    people = part.people("paired")
    assert list(people["role"]) == roles and set(people["gender"]) == {"female"}
