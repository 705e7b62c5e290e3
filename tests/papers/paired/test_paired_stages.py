"""Stages for people by position, on renders whose truth is known: what is planted is found, and nothing else."""

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
    """A function that opens studies on renders, with what is planted or without, which share one store."""
    root = tmp_path_factory.mktemp("worlds")
    opened = {}
    patched = pytest.MonkeyPatch()
    patched.setattr(measure, "RENDERS", 120)

    def study(skew):
        if skew not in opened:
            settings = SMALL | {"captions": {"synthetic_bias": skew}, "compute": {"cache": str(root / "store")}}
            if skew == "off":
                # Of the world without bias only the pairs are looked at.
                few = {"n_occupations": 5, "power_samples": 1, "single_images": 1, "three_person_prompts": 0}
                settings |= {"paired": few, "critic": {"rounds": 0}}
            opened[skew] = Study(str(root / skew), source="pipeline", model="world", seed=3, settings=settings)
        return opened[skew]

    yield study
    patched.undo()


def _scores(study):
    """Return what the notebooks compute of the study's shares and images."""
    measured = (measure.percent_female, measure.pair_images, paired.printed.printed_value)
    return paired.stereotype_score(*map(study.load, measured), confidence=0.95)


def _planted(study, aspect, stereotype):
    """Return the score that the world has for the people who were asked for in pairs, by the exact probabilities."""
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
def test_what_is_planted_is_scored(worlds):
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
def test_without_bias_the_score_is_zero(worlds):
    scores = _scores(worlds("off"))
    scores = scores[(scores["model"] == "world") & (scores["setting"] == "paired")]
    assert len(scores) == 6
    # Within 3.3 standard errors, which one score in a thousand is not.
    for row in scores.itertuples():
        assert abs(row.score) < 3.3 * _error(worlds("off"), row.aspect, row.stereotype)


@pytest.mark.long
def test_the_judge_finds_who_is_who_on_renders(worlds):
    errors = calibration.error(worlds("default").load(measure.confusion), paper="paired")
    value = errors.set_index(["quantity", "condition", "measure"])["value"]
    assert value["inclusion", "all", "sensitivity"] >= 97
    assert value["gender", "clear cues", "accuracy"] >= 98
    assert value["role order", "all", "sensitivity"] >= 97


@pytest.mark.long
def test_one_round_of_the_critic_takes_the_bias_away(worlds):
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
    told = critiques[critiques["guideline"] != ""]
    # A guideline says what the prompt gets, in the words of the prompt.
    assert told["guideline"].str.match(r"Show the .+ as a (woman|man)\.").all()
    # Revised prompts are those of the pairs with sentences.
    stages = study.pipeline.part(Paired)
    first, after = stages.prompts("paired"), stages.prompts("faircritic_1")
    assert all(b.startswith(a) for a, b in zip(first.texts["text"], after.texts["text"], strict=True))
    changed = (first.texts["text"].to_numpy() != after.texts["text"].to_numpy()).mean()
    assert 0.2 < changed < 0.9
    assert not set(first.texts["prompt_id"]) & set(after.texts["prompt_id"])


@pytest.mark.long
def test_the_intervention_is_tried_on_the_most_biased(worlds):
    study = worlds("default")
    top = study.pipeline.part(Paired).top_occupations()
    assert {gender: len(names) for gender, names in top.items()} == {"male": 5, "female": 5}
    people = study.load(measure.people)
    tried = people[(people["setting"] == "intervention") & (people["aspect"] == "occupation")]
    # 5 x 5 pairs in 2 orders, of two people each.
    assert len(tried) == 100
    assert set(tried["occupation"]) == {name for names in top.values() for name in names}
    shares = study.load(measure.percent_female)
    shares = shares[(shares["model"] == "world") & (shares["aspect"] == "occupation")]
    assert set(shares["setting"]) == {"single", "paired", "paired_top5", "intervention_top5", "faircritic"}


@pytest.mark.long
def test_everyone_asked_for_has_a_row(worlds):
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


def test_what_is_not_asked_for_cannot_be_had(tmp_path):
    stages = Pipeline(
        "world", Settings(paired={"three_person_prompts": 0}, critic={"rounds": 0}, compute={"cache": str(tmp_path)})
    ).part(Paired)
    assert stages.kinds == ("single", "paired", "controls", "intervention")
    for kind in ("three", "faircritic_1", "pair"):
        with pytest.raises(UnknownNameError, match=kind):
            stages.prompts(kind)


def test_a_critic_may_have_an_endpoint_of_its_own():
    shared = {"critic": {"model": "gpt-4o"}, "endpoint": {"url": "http://a:1/v1", "api_key_env": "A_KEY"}}
    found = Pipeline("mini", Settings.from_mapping(shared)).endpoint("critic")
    assert (found.url, found.api_key_env) == ("http://a:1/v1", "A_KEY")
    own = {"critic": {"url": "http://b:2/v1", "api_key_env": "B_KEY"}}
    found = Pipeline("mini", Settings.from_mapping(shared).with_changes(**own)).endpoint("critic")
    assert (found.url, found.api_key_env) == ("http://b:2/v1", "B_KEY")
    # A critic behind an endpoint needs one.
    with pytest.raises(ParameterError, match=r"needs endpoint\.url or critic\.url .* and critic.model"):
        validation.check_plan(
            Pipeline("mini", Settings.from_mapping({"critic": {"kind": "endpoint"}})), ["paired_people"]
        )


# -- what is looked up before a run, and what a run depends on ---------------------------------------------

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
def test_names_and_costs_are_checked_before_a_run(model, given, message):
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
def test_names_of_judges_are_looked_up_before_a_run(given, message):
    pipeline = Pipeline("mini", Settings.from_mapping({"judging": given}))
    with pytest.raises((InputError, ParameterError), match=message):
        validation.check_plan(pipeline, ["paired_judge_agreement"])


def test_what_further_judges_say_is_part_of_the_digest(tmp_path, monkeypatch):
    file, folder = tmp_path / "r.csv", tmp_path / "blip"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    found = []
    for text, config in (("1", "{}"), ("2", "{}"), ("2", "{ }")):
        file.write_text(text)
        (folder / "config.json").write_text(config)
        settings = Settings.from_mapping({"judging": {"extra_judges": [f"annotations:{file}", f"vqa:{folder}"]}})
        pipeline = Pipeline("mini", settings)
        used = (ModelUse("judging.extra_judges", judge.name, judge=judge) for judge in pipeline.gender_judges[1:])
        found += [tuple(use.digest() for use in used)]
    assert len(set(found)) == 3 and all(map(len, found))
    monkeypatch.chdir(tmp_path)
    for given in ("annotations:r.csv", ["annotations:r.csv"]):
        found = paths.resolve_paths("mini", {"judging": {"extra_judges": given}})[1]
        assert Settings.from_mapping(found).judging.extra_judges == (f"annotations:{file}",)


# -- judges ------------------------------------------------------------------------------------------------


@pytest.fixture
def rated(worlds, tmp_path):
    """A pipeline on renders, and a function that writes ratings of its people: `rated(name, people, genders)`."""
    people = worlds("default").pipeline.part(Paired)

    def write(name, kinds=("paired",), annotators=2, extra=""):
        rows = pd.concat([people.people(kind) for kind in kinds])
        rows = rows[rows["status"] == "judged"]
        lines = [",".join(["image_id", "position", *(f"r{k}" for k in range(annotators))])]
        for k, row in enumerate(rows.itertuples()):
            other = "male" if row.gender == "female" else "female"
            said = [other if (k + r) % 7 == 0 else row.gender for r in range(annotators)]
            lines.append(",".join([row.image_id, str(row.position), *said]))
        path = tmp_path / name
        path.write_text("\n".join([*lines, extra]))
        return f"annotations:{path}", rows

    return worlds("default").pipeline, write


@pytest.mark.long
def test_one_file_of_ratings_serves_all_kinds(rated):
    base, write = rated
    judge, rows = write("all.csv", kinds=("paired", "faircritic_1"), annotators=1)
    mine = base.with_changes(judging={"gender": judge})
    everyone = measure.people(mine)
    outcomes = everyone.groupby(["setting", "round"])["status"].agg(set)
    assert outcomes["single", 0] == outcomes["three", 0] == {"unannotated"}
    paired = everyone[everyone["setting"] == "paired"]
    assert (paired["status"] == "judged").sum() == rows["image_id"].str.startswith("paired").sum()
    assert paired["n_faces"].isna().all()
    # The critic counts the annotators' genders and revises by them; the round's own ratings are found.
    assert "judged" in outcomes["faircritic", 1]
    assert measure.confusion(mine).empty
    agreement = measure.judge_agreement(mine)
    assert set(agreement["statistic"]) <= {"fleiss_kappa"} and set(agreement["setting"]) == {"paired"}


def test_ratings_of_what_nobody_asks_for_are_named(rated):
    base, write = rated
    judge, _ = write("strange.csv", extra="painted-sheriff-nurse/0,1,male,male\n")
    with pytest.raises(InputError, match=r"not in the sample .*'painted-sheriff-nurse/0'"):
        base.with_changes(judging={"gender": judge}).part(Paired).people("single")


@pytest.mark.long
def test_two_files_of_ratings_are_told_apart(rated):
    base, write = rated
    files = [write(name)[0] for name in ("ann.csv", "ben.csv")]
    found = measure.judge_agreement(base.with_changes(judging={"extra_judges": files}))
    keys = ["aspect", "setting", "judge", "reference", "statistic"]
    assert not found.duplicated(keys).any()
    fleiss = found[found["statistic"] == "fleiss_kappa"]
    assert set(fleiss["judge"]) == {"annotators: ann.csv", "annotators: ben.csv"}
    against = set(found.loc[found["judge"] == "mini-clip", "reference"])
    assert against == {"truth", "annotators: ann.csv", "annotators: ben.csv"}
    alone = measure.judge_agreement(base.with_changes(judging={"extra_judges": files[:1]}))
    assert set(alone["reference"]) == {"truth", "annotators"}


@pytest.mark.long
def test_every_judge_that_sees_is_tried_on_renders(worlds, monkeypatch):
    from biaslab.hub.registry import ANY
    from biaslab.judges import blip as vqa

    class Sees:
        def ask(self, images, of, questions):
            return ["a woman" if "left" in q else "a man" for q in questions]

    monkeypatch.setattr(vqa, "load", lambda *_, **__: Sees())
    monkeypatch.setattr(vqa.VqaJudge, "digest", lambda self: "weights")
    # A model of a hub that knows more than photographs.
    monkeypatch.setattr(vqa.VqaJudge, "domain", ANY)
    base = worlds("default").pipeline
    both = base.with_changes(judging={"extra_judges": ["vqa:owner/blip"]})
    answers = measure.confusion(both)
    asked = answers[answers["judge"] == "vqa:owner/blip"]
    # The person on the left is called a woman, the other one a man.
    genders = asked[asked["quantity"] == "gender"].groupby("answer")["n"].sum()
    assert genders.to_dict() == {"female": measure.RENDERS, "male": measure.RENDERS}
    # What the first judge says is what it says alone.
    alone = measure.confusion(base)
    own = answers[answers["judge"] == "mini-clip"]
    pd.testing.assert_frame_equal(own.reset_index(drop=True), alone)
    agreement = measure.judge_agreement(both).set_index(["judge", "reference", "aspect", "setting"])
    assert agreement.loc[("mini-clip", "truth", "occupation", "paired"), "value"] > 0.8
    # Renders are no photographs: a judge of another world is not said to be compared with the truth.
    drawn = agreement.loc[("vqa:owner/blip", "truth of drawings", "occupation", "paired")]
    assert abs(drawn["value"]) < 0.2
    assert set(agreement.index.droplevel([2, 3])) == {
        *(("mini-clip", "truth"), ("vqa:owner/blip", "truth of drawings"), ("vqa:owner/blip", "mini-clip"))
    }
    first = measure.confusion(base.with_changes(judging={"gender": "vqa:owner/blip"}))
    pd.testing.assert_frame_equal(first, asked.reset_index(drop=True))


def test_the_embedded_model_of_pairs_generates_where_prompts_place_people():
    for model, name in (("mini", "mini-sd-pairs"), ("mini-sd", "mini-sd"), ("owner/other", "owner/other")):
        pipeline = Pipeline(model, Settings.from_mapping(SMALL))
        made_by = [pipeline.image_model("paired", several=several) for several in (False, True)]
        assert [(one._name, one._settings.aspect) for one in made_by] == [(name, 1.0), (name, 1.5)]
    # In the paradox's prompts, ``mini`` is the model of one person.
    assert Pipeline("mini", Settings()).image_model()._name == "mini"


def test_no_aspect_is_dropped_in_silence():
    settings = GenerationSettings(aspect=1.5)
    with pytest.raises(ParameterError, match=r"owner/other is a SimpleNamespace.* paired.aspect=1"):
        Generator(SimpleNamespace(), settings, model="owner/other", folder=None, device=None)


# -- a model behind an images endpoint ---------------------------------------------------------------------


def reply(text, image=None):
    """Return the reply of a server that sends any picture."""
    file = io.BytesIO()
    Image.fromarray(np.zeros((64, 96, 3), np.uint8) if image is None else image).save(file, "PNG")
    return fake.drawn(file.getvalue(), revised=f"Drawn: {text}")


def shown(text):
    """Return the reply of a server that sends what the world shows for a text."""
    made = pairs.generate(pd.DataFrame({"prompt_id": ["p"], "text": [text], "n_images": [1]}), seed=1)
    return reply(text, made.read(["p/0"])[0])


@pytest.fixture
def bought(tmp_path, monkeypatch):
    """A pipeline on an images endpoint of this machine, and the server behind it."""
    monkeypatch.setenv("FAKE_KEY", fake.KEY)
    # A proxy of the environment is not to stand between the test and its own machine.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    refusal = fake.failure(400, "Not this one.", "content_policy_violation")
    with fake.FakeEndpoint().running() as server:
        server.reply = lambda text, n: refusal if "sheriff" in text else shown(text)
        settings = {
            "paired": {"n_occupations": 2, "power_samples": 1, "single_images": 1, "three_person_prompts": 0},
            "critic": {"rounds": 0},
            # It draws what the world shows.
            "generation": {"image_domain": "drawings"},
            "judging": {"faces": "mini-detector", "gender": "mini-clip"},
            "endpoint": {"url": server.url, "api_key_env": "FAKE_KEY", "price": 0.04, "cost_limit": 100.0},
            "compute": {"cache": str(tmp_path)},
        }
        given = Settings.from_mapping(settings)
        yield server, lambda **more: Pipeline("endpoint:dall-e-3", given.with_changes(**more), seed=1, progress=False)


@pytest.mark.long
def test_a_model_behind_an_images_endpoint_goes_the_same_way(bought):
    server, opened = bought
    mine = opened()
    validation.check_plan(mine, ["paired_people"])
    assert mine.label == "dall-e-3"
    people = mine.part(Paired).people("paired")
    n = len(server.requests)
    # 2 x 2 occupations in 2 orders, 36 occupations' roles in 2 orders.
    assert n == 8 + 72
    asked_sheriff = people["occupation"] == "sheriff"
    refused = people[people["image_id"].isin(people.loc[asked_sheriff, "image_id"])]
    assert set(refused["status"]) <= {"unreadable", "blocked"}
    shown = people[~people["image_id"].isin(refused["image_id"])]
    assert (shown["status"].isin(["judged", "uncertain"])).mean() > 0.95
    images = mine.part(Paired).images("paired").table
    assert images.loc[images["status"] == "ok", "revised_prompt"].str.startswith("Drawn: Generate").all()
    # Everything is there: nothing is bought again.
    again = opened().part(Paired).people("paired")
    pd.testing.assert_frame_equal(again, people)
    assert len(server.requests) == n


@pytest.mark.long
def test_images_of_several_people_have_a_size_of_their_own(bought):
    server, opened = bought
    server.reply = lambda text, n: reply(text)
    mine = opened(endpoint={"size": "1024x1024"}, paired={"image_size": "1792x1024"})
    for kind, size in (("single", "1024x1024"), ("paired", "1792x1024")):
        start = len(server.requests)
        mine.part(Paired).images(kind)
        assert {r["size"] for r in server.requests[start:]} == {size}
    start = len(server.requests)
    opened(endpoint={"size": "512x512"}).part(Paired).images("paired")
    assert {r["size"] for r in server.requests[start:]} == {"512x512"}


@pytest.mark.parametrize(("own", "of_people"), [(None, 2.0), (0.0, 0.0), (3.0, 3.0)])
def test_images_of_people_have_a_guidance_of_their_own(own, of_people):
    pipeline = Pipeline("mini", Settings(generation={"guidance_scale": 2.0}, paired={"guidance_scale": own}))
    wanted = [pipeline.image_model(of)._settings.guidance_scale for of in ("captions", "paired")]
    assert wanted == [2.0, of_people]


@pytest.mark.long
def test_images_that_were_never_made_are_nobodys_failure(bought, monkeypatch):
    server, opened = bought
    too_long = fake.failure(400, "Too long.", "bad_prompt")
    server.reply = lambda text, n: too_long if "sheriff" in text else reply(text)
    mine = opened()
    monkeypatch.setattr(Paired, "kinds", ("paired",))
    images = mine.part(Paired).images("paired").table
    rejected = set(images.loc[images["status"] == "rejected", "image_id"])
    assert rejected
    everyone = measure.people(mine)
    assert set(everyone["image_id"]) == set(images["image_id"]) - rejected


@pytest.mark.parametrize(
    ("gender", "roles"),
    [
        # A judge without texts cannot compare people with phrases; annotators see no faces.
        ("dlib", ["correct", "correct"]),
        ("annotations:a.csv", ["", ""]),
        ("ViT-B-32:openai", ["", ""]),
    ],
)
def test_order_of_people_is_judged_by_an_additional_open_clip_model(monkeypatch, gender, roles):
    def judge_people(self, kind, judge):
        other = judge.name == "ViT-L-14:openai"
        people = {"gender": "male" if other else "female", "role": "correct" if other else "", "role_p": 1.0}
        return pd.DataFrame([people] * 2)

    monkeypatch.setattr("biaslab.papers.paired.stages.Paired.judge_people", judge_people)
    settings = Settings(judging={"faces": "yunet", "gender": gender, "extra_judges": ("ViT-L-14:openai",)})
    part = Pipeline("owner/name", settings, progress=False).part(Paired)
    people = part.people("paired")
    assert list(people["role"]) == roles and set(people["gender"]) == {"female"}
