import numpy as np
import pandas as pd
import pytest
from scipy import stats

from biaslab.errors import InputError, UnknownNameError
from biaslab_world import truthful, world
from biaslab_world.captions import Corpus
from biaslab_world.looks import outfit
from biaslab_world.scene import is_ambiguous, posterior_female


@pytest.fixture(scope="module")
def corpus():
    return Corpus(rows=4096)


def _templates(occupations, n, text="A photo of the face of a {}"):
    rows = [{"prompt_id": f"p1-{o}", "occupation": o, "text": text.format(o), "n_images": n} for o in occupations]
    return pd.DataFrame(rows)


def test_generate_draws_women_with_world_probability(corpus):
    prompts = _templates(["nurse", "mechanic", "writer"], 2000)
    table = truthful.generate(prompts, corpus, seed=3).table
    for occupation in prompts["occupation"]:
        images = table[table["prompt_id"] == f"p1-{occupation}"]
        p = world.p_female_for_prompt(occupation)
        assert images["truth_p_female"].tolist() == pytest.approx([p] * 2000)
        n_women = int((images["truth_gender"] == "female").sum())
        assert stats.binomtest(n_women, 2000, p).pvalue > 1e-4


def test_generated_scene_matches_table_and_text(corpus):
    for ending in ("smiling", "at work"):
        renders = truthful.generate(_templates(["nurse", "pilot"], 12, f"A photo of a {{}} {ending}"), corpus, seed=0)
        for row in renders.table.itertuples():
            scene = renders.scene(row.image_id)
            (person,) = scene.people
            assert (person.gender, person.occupation) == (row.truth_gender, row.prompt_id.removeprefix("p1-"))
            assert ending != "smiling" or person.expression == "smiling"
            assert ending != "at work" or scene.place == outfit(person.occupation).place


def test_generate_image_depends_on_seed_prompt_and_index(corpus):
    prompts = _templates(["nurse", "pilot"], 3)
    more_prompts = _templates(["chef", "pilot", "nurse"], 5)
    a, b = (truthful.generate(p, corpus, seed=7) for p in (prompts, more_prompts))
    genders = b.table.set_index("image_id")["truth_gender"]
    assert a.table["truth_gender"].tolist() == genders[a.table["image_id"]].tolist()
    ids = a.table["image_id"].tolist()[::-1]
    for x, y in zip(a.read(ids), b.read(ids), strict=True):
        np.testing.assert_array_equal(x, y)
    other_seed = truthful.generate(prompts, corpus, seed=8)
    assert (other_seed.read(ids)[0] != a.read(ids)[0]).any()
    unbiased_renders = truthful.generate(prompts, Corpus(rows=4096, skew="off"), seed=7)
    assert len({a.digest, b.digest, other_seed.digest, unbiased_renders.digest}) == 4
    assert truthful.generate(prompts, Corpus(rows=4096), seed=7).digest == a.digest


def test_generate_from_captions_follows_truth_table(corpus):
    rows = corpus.rows_at(range(1500))
    rows = rows[rows["truth_occupation"].notna()]
    prompts = pd.DataFrame(
        {
            "prompt_id": "c-" + rows["caption_id"],
            "occupation": rows["truth_occupation"],
            "text": rows["text"],
            "n_images": 1,
            "caption_id": rows["caption_id"],
        }
    )
    renders = truthful.generate(prompts, corpus, seed=1)
    facts = rows.drop(columns="truth_gender").assign(prompt_id="c-" + rows["caption_id"])
    table = renders.table.merge(facts, on="prompt_id")
    truth = world.truth_table().set_index(["occupation", "style", "indicator"])["probability_female"]
    keys = list(zip(table["truth_occupation"], table["truth_style"], table["truth_indicator"], strict=True))
    np.testing.assert_allclose(table["truth_p_female"], truth[keys])
    # A stated gender is shown, and another sense of a word shows no person.
    for facts in ("female", "male"):
        assert set(table.loc[table["truth_indicator"] == facts, "truth_gender"]) == {facts}
    decoys = table[table["truth_style"] == "other_sense"]
    assert len(decoys) and set(decoys["truth_gender"]) == {""}
    decoy = decoys.iloc[0]
    assert renders.scene(decoy["image_id"]).people == ()
    assert renders.scene(decoy["image_id"]).decoy == corpus.scene(decoy["caption_id"]).decoy
    # An image of its own, of the same place if the caption names one.
    silent = table[(table["truth_style"] == "place") & (table["truth_indicator"] == "none")].iloc[0]
    assert renders.scene(silent["image_id"]).seed != corpus.scene(silent["caption_id"]).seed


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"occupation": ["wizard"]}, UnknownNameError, "wizard"),
        ({"caption_id": ["mini-off-0-00000001"]}, InputError, "mini-off-0-00000001"),
        ({"caption_id": ["laion-1"]}, InputError, "laion-1"),
    ],
)
def test_generate_invalid_prompt_is_refused(corpus, change, error, message):
    columns = {"prompt_id": ["a"], "occupation": ["nurse"], "n_images": [1], **change}
    prompts = pd.DataFrame(columns)
    with pytest.raises(error, match=message):
        truthful.generate(prompts, corpus, seed=0)


def test_held_out_renders_are_balanced_with_posterior():
    renders = truthful.held_out(248)
    table = renders.table
    # 62 occupations, two of each gender.
    assert (table.groupby(["occupation", "truth_gender"]).size() == 2).all() and len(table) == 248
    for row in table.head(20).itertuples():
        (person,) = renders.scene(row.image_id).people
        assert (person.gender, person.occupation) == (row.truth_gender, row.occupation)
        if "mask" not in person.attributes and person.cues.hair_style != "covered":
            assert row.posterior == pytest.approx(posterior_female(person.cues))
        assert row.ambiguous == is_ambiguous(person)
    fewer, other_seed = truthful.held_out(6), truthful.held_out(6, seed=1)
    np.testing.assert_array_equal(renders.read(["held-out-0-000005"])[0], fewer.read(["held-out-0-000005"])[0])
    assert (fewer.read(["held-out-0-000005"])[0] != other_seed.read(["held-out-1-000005"])[0]).any()
