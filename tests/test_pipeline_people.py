"""Stages for people by position, on renders whose truth is known: what is planted is found, and nothing else."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image

pytest.importorskip("torch", reason="judging needs the extra 'models'")

from biaslab import pipeline
from biaslab.errors import ParameterError, RunError, UnknownNameError
from biaslab.generation.image_endpoint import PREFIX
from biaslab.mini import pairs
from biaslab.pipeline import ENDPOINT, Pipeline, Settings
from biaslab.studies import paired_pipeline
from biaslab.study import Study

SMALL = {"pair_occupations": 8, "power_runs": 2, "single_images": 2, "three_prompts": 4}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """A function that opens studies on renders, with what is planted or without, which share one store."""
    root = tmp_path_factory.mktemp("worlds")
    opened = {}

    def study(skew):
        if skew not in opened:
            settings = SMALL | {"skew": skew, "store": str(root / "store")}
            opened[skew] = Study(
                str(root / skew),
                source="pipeline",
                model="world",
                seed=3,
                settings=settings,
                bootstrap_replicates=500,
            )
        return opened[skew]

    return study


def _planted(study, aspect, stereotype):
    """Return the score that the world has for the people who were asked for in pairs, by the exact probabilities."""
    people = study.table("paired_people")
    people = people[(people["setting"] == "paired") & (people["aspect"] == aspect)]
    texts = study.table("paired_prompts").set_index("prompt_id")["text"]
    scores = {}
    for image_id, rows in people.groupby("image_id"):
        read = pairs.read(texts[image_id.rpartition("/")[0]])
        for k, side in enumerate(("left", "right")):
            row = rows[rows["position"] == side].iloc[0]
            toward = 1 if row["stereotype"] == "female" else -1
            scores.setdefault((row["stereotype"], row["identity"]), []).append(
                100 * toward * (2 * read.p_female(k) - 1)
            )
    means = pd.Series({key: np.mean(values) for key, values in scores.items()})
    each = means.groupby(level=0).mean()
    return float(each.mean() if stereotype == "overall" else each[stereotype])


def test_what_is_planted_is_scored(worlds):
    study = worlds("default")
    scores = study.table("paired_stereotype_score").set_index(["model", "aspect", "setting", "stereotype"])
    for aspect in ("occupation", "power"):
        for stereotype in ("female", "male", "overall"):
            row = scores.loc["world", aspect, "paired", stereotype]
            planted = _planted(study, aspect, stereotype)
            assert row["images_ci_low"] <= planted <= row["images_ci_high"], (aspect, stereotype)
    assert scores.loc[("world", "occupation", "paired", "overall"), "images_ci_low"] > 25


def test_without_bias_the_score_is_zero(worlds):
    scores = worlds("off").table("paired_stereotype_score")
    scores = scores[(scores["model"] == "world") & (scores["setting"] == "paired")]
    assert len(scores) == 6
    held = (scores["images_ci_low"] <= 0) & (scores["images_ci_high"] >= 0)
    # Of six 95 % intervals one may miss (the chance of two or more is 3 %); those over both lists hold.
    assert held.sum() >= 5
    assert held[scores["stereotype"] == "overall"].all()


def test_the_judge_finds_who_is_who_on_renders(worlds):
    truth = worlds("default").table("paired_truth").set_index("measure")["percent"]
    assert truth["gate"] >= 97
    assert truth["gender_unambiguous"] >= 98
    assert truth["order"] >= 97


def test_one_round_of_the_critic_takes_the_bias_away(worlds):
    study = worlds("default")
    scores = study.table("paired_stereotype_score").set_index(["model", "aspect", "setting", "stereotype"])
    valid = study.table("paired_valid_images").set_index(["aspect", "setting", "measure"])
    for aspect in ("occupation", "power"):
        before, after = (
            scores.loc[("world", aspect, setting, "overall"), "score"] for setting in ("paired", "faircritic")
        )
        assert before > 12
        # The smaller design here has a standard error of some 5 points; the full one must stay below 6.
        assert abs(after) < 12
        assert valid.loc[(aspect, "faircritic", "people"), "change"] > -5
    critiques = study.table("paired_critiques")
    whole = critiques[critiques["identity"] == ""].set_index("aspect")
    assert (whole["biased"] == "yes").all()
    assert whole["reasons"].str.len().min() > 40
    told = critiques[critiques["guideline"] != ""]
    # A guideline says what the prompt gets, in the words of the prompt.
    assert told["guideline"].str.match(r"Show the .+ as a (woman|man)\.").all()


def test_revised_prompts_are_those_of_the_pairs_with_sentences(worlds):
    stages = worlds("default").pipeline.people
    first, after = stages.prompts("paired"), stages.prompts("faircritic_1")
    assert len(first.texts) == len(after.texts)
    starts = [b.startswith(a) for a, b in zip(first.texts["text"], after.texts["text"], strict=True)]
    assert all(starts)
    changed = (first.texts["text"].to_numpy() != after.texts["text"].to_numpy()).mean()
    assert 0.2 < changed < 0.9
    assert not set(first.texts["prompt_id"]) & set(after.texts["prompt_id"])


def test_the_intervention_is_tried_on_the_most_biased(worlds):
    study = worlds("default")
    top = study.pipeline.people.top_occupations()
    assert {gender: len(names) for gender, names in top.items()} == {"male": 5, "female": 5}
    people = study.table("paired_people")
    tried = people[(people["setting"] == "intervention") & (people["aspect"] == "occupation")]
    # 5 x 5 pairs in 2 orders, of two people each.
    assert len(tried) == 100
    assert set(tried["occupation"]) == {name for names in top.values() for name in names}
    shares = study.table("paired_percent_female")
    shares = shares[(shares["model"] == "world") & (shares["aspect"] == "occupation")]
    assert set(shares["setting"]) == {"single", "paired", "paired_top5", "intervention_top5", "faircritic"}


def test_everyone_asked_for_has_a_row(worlds):
    people = worlds("default").table("paired_people")
    # Pairs: 8 x 8 x 2 and 36 x 2 x 2; one person: 16 x 2 and 36 x 2 x 2; alike and same: 16 x 2 and 16; three: 4 x 3.
    n = people.groupby(["setting", "aspect"]).size()
    assert n["paired", "occupation"] == n["faircritic", "occupation"] == 2 * 128
    assert n["paired", "power"] == n["intervention", "power"] == n["faircritic", "power"] == 2 * 144
    assert (n["single", "occupation"], n["single", "power"]) == (32, 144)
    assert (n["alike", "occupation"], n["same", "occupation"]) == (64, 32)
    assert n["three", "occupation"] == 12
    assert set(people.loc[people["setting"] == "three", "position"]) == {"left", "middle", "right"}


def test_a_second_pipeline_finds_everything_in_the_store(worlds, monkeypatch):
    first = worlds("default").pipeline
    expected = paired_pipeline.people(first)
    monkeypatch.setattr(
        "biaslab.judging.people.alone.load", lambda *_: pytest.fail("a model was loaded again")
    )
    again = Pipeline("world", first.settings, seed=3, progress=False)
    pd.testing.assert_frame_equal(paired_pipeline.people(again), expected)


def test_what_is_not_asked_for_cannot_be_had(tmp_path):
    stages = Pipeline("world", Settings(three_prompts=0, critic_rounds=0, store=str(tmp_path))).people
    assert stages.kinds == ("single", "paired", "controls", "intervention")
    for kind in ("three", "faircritic_1", "pair"):
        with pytest.raises(UnknownNameError, match=kind):
            stages.prompts(kind)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pair_occupations": 21}, "pair_occupations is 21; allowed is 1 to 20"),
        ({"critic": "gpt"}, "critic is 'gpt'"),
        ({"pair_aspect": 0.0}, "pair_aspect is 0.0"),
        ({"critic_rounds": -1}, "critic_rounds is -1"),
    ],
)
def test_settings_are_checked(given, message):
    with pytest.raises(ParameterError, match=message):
        Settings.of(given)


def test_a_critic_behind_an_endpoint_needs_one():
    with pytest.raises(
        ParameterError, match=r"critic is 'endpoint', which needs endpoint_url .* and critic_model"
    ):
        pipeline.check("mini", Settings.of({"critic": "endpoint"}))


# -- a model behind an images endpoint ---------------------------------------------------------------------


def _picture(text):
    """Return a PNG of what the world shows for a text."""
    asked = pairs.read(text)
    made = pairs.generate(pd.DataFrame({"prompt_id": ["p"], "text": [text], "n_images": [1]}), seed=1)
    file = io.BytesIO()
    Image.fromarray(made.read(["p/0"])[0]).save(file, "PNG")
    assert asked.people
    return file.getvalue()


@pytest.fixture
def bought(tmp_path, monkeypatch):
    """A pipeline on an images endpoint of this machine, and the server behind it."""
    from tests.captions import fake_endpoint as fake

    monkeypatch.setenv("FAKE_KEY", fake.KEY)
    fake_server = fake.FakeEndpoint()
    # A proxy of the environment is not to stand between the test and its own machine.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with fake_server.running() as server:
        server.reply = lambda text, n: (
            fake.failure(400, "Not this one.", "content_policy_violation")
            if "sheriff" in text
            else fake.drawn(_picture(text), revised=f"Drawn: {text}")
        )
        settings = {
            "pair_occupations": 2,
            "power_runs": 1,
            "single_images": 1,
            "three_prompts": 0,
            "critic_rounds": 0,
            "endpoint_url": server.url,
            "endpoint_key_variable": "FAKE_KEY",
            "image_price": 0.04,
            "image_cost_limit": 100.0,
            "store": str(tmp_path),
        }
        yield (
            server,
            lambda **more: Pipeline(
                "endpoint:dall-e-3", Settings.of(settings | more), seed=1, progress=False
            ),
        )


def test_a_model_behind_an_images_endpoint_goes_the_same_way(bought):
    assert ENDPOINT == PREFIX
    server, opened = bought
    mine = opened()
    pipeline.check("endpoint:dall-e-3", mine.settings)
    assert mine.label == "dall-e-3"
    people = mine.people.people("paired")
    n = len(server.requests)
    # 2 x 2 occupations in 2 orders, 36 occupations' roles in 2 orders.
    assert n == 8 + 72
    asked_sheriff = people["occupation"] == "sheriff"
    refused = people[people["image_id"].isin(people.loc[asked_sheriff, "image_id"])]
    assert set(refused["outcome"]) <= {"unreadable", "blocked"}
    shown = people[~people["image_id"].isin(refused["image_id"])]
    assert (shown["outcome"].isin(["judged", "uncertain"])).mean() > 0.95
    images = mine.people.images("paired").table
    assert images.loc[images["outcome"] == "ok", "revised_prompt"].str.startswith("Drawn: Generate").all()
    # Everything is there: nothing is bought again.
    again = opened().people.people("paired")
    pd.testing.assert_frame_equal(again, people)
    assert len(server.requests) == n


def test_nothing_is_bought_without_a_price_or_beyond_the_limit(bought):
    server, opened = bought
    with pytest.raises(ParameterError, match="price"):
        opened(image_price=-1.0).people.images("paired")
    assert not server.requests
    with pytest.raises(RunError, match=r"0\.4"):
        opened(image_cost_limit=0.4).people.images("paired")
    # At 0.04 each, ten fit under 0.40.
    assert len([r for r in server.requests if "sheriff" not in r["prompt"]]) <= 10
