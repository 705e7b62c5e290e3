"""Scenes of PaintSkills: their ground truth, and planted failures."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from biaslab.papers.dalleval import prompts
from biaslab.papers.dalleval.analysis.verdicts import RULES, verdicts
from biaslab_world.render import render, truth
from biaslab_world.scene import Thing
from biaslab_world.skills import FAILURES, failed, generate, skill_scene, truth_boxes


@pytest.fixture(scope="module")
def prompt_rows():
    """Return 60 prompts of each skill, among them every number and relation."""
    scenes = prompts.skills().assign(image_id=lambda t: t["prompt_id"])
    return pd.concat([rows.sample(60, random_state=2) for _, rows in scenes.groupby("skill")])


def boxes(scenes):
    """Return the detections of a perfect detector for scenes by the names of their images."""
    table = pd.concat([truth_boxes(scene, image_id) for image_id, scene in scenes.items()], ignore_index=True)
    return table.assign(**{f"p_{name}": table["label"] == name for name in prompts.CLASSES})


def boxes_of_prompts(rows, scene_of):
    return boxes({row["image_id"]: scene_of(i, row) for i, row in enumerate(rows.to_dict("records"))})


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
def test_skill_scenes_are_correct_by_every_rule(prompt_rows, rule):
    detections = boxes_of_prompts(prompt_rows, lambda i, row: skill_scene(np.random.default_rng([1, i]), row))
    assert set(prompt_rows["n"]) == {1, 2, 3, 4} and set(prompt_rows["relation"]) >= set(prompts.RELATIONS)
    assert verdicts(detections, prompt_rows, rule=rule)["correct"].all()


@pytest.mark.long
@pytest.mark.parametrize("failure", FAILURES)
def test_failed_scenes_have_expected_status(prompt_rows, failure):
    skills = {"other number": ["count"], "other relation": ["spatial"]}.get(failure, list(prompts.SKILLS))
    rows = prompt_rows[prompt_rows["skill"].isin(skills)]

    def scene(i, row):
        rng = np.random.default_rng([3, i])
        return skill_scene(rng, failed(rng, row, failure, list(prompts.CLASSES)))

    results = verdicts(boxes_of_prompts(rows, scene), rows)
    assert not results["correct"].any()
    expected = {
        "other class": {"other objects"},
        # If one was prompted and one is missing, none is shown.
        "other number": {"other number", "nothing found"},
        "other relation": {"other relation"},
        # Of a pair the other object is still there.
        "missing": {"nothing found", "other objects"},
    }
    assert set(results["status"]) == expected[failure]


def test_thing_transforms_change_render_and_mask():
    scene = skill_scene(
        np.random.default_rng(4), {"skill": "object", "object": "car", "n": 1, "relation": "", "other": ""}
    )

    def draw(**changes):
        single = replace(scene, things=(replace(Thing("car", 0.5, 0.5, 0.6), **changes),))
        return render(single, 96), truth(single, 96).objects[0]

    def left_above_right(mask):
        return mask[:, :48].any(axis=1).argmax() - mask[:, 48:].any(axis=1).argmax()

    (image, region), (mirrored, mirrored_region), (_, narrow) = draw(), draw(mirrored=True), draw(width=0.75)
    # The frame's middle is the car's: mirroring it mirrors its pixels, but for the edges' rounding.
    assert (mirrored_region.mask == region.mask[:, ::-1]).mean() > 0.99 and (mirrored != image).any()
    width, narrower = (shape.box[2] - shape.box[0] for shape in (region, narrow))
    assert narrower == pytest.approx(0.75 * width, abs=2)
    for flip in (False, True):
        # A tilt to the right lifts the left side: its highest pixels move right of the middle.
        leaning, upright = (draw(tilt=tilt, mirrored=flip)[1].mask for tilt in (0.26, 0.0))
        assert left_above_right(leaning) < left_above_right(upright)
    colour, recoloured = draw(palette=1)
    assert (recoloured.mask == region.mask).all()
    # Channels turn round, but for the light that falls on them.
    y, x = np.argwhere(region.mask & (image[..., 2] > image[..., 0] + 40))[0]
    assert colour[y, x].argmax() == (image[y, x].argmax() - 1) % 3


# -- images ------------------------------------------------------------------------------------------------

SHARES = {"other class": 0.1, "other number": 0.2, "other relation": 0.15, "missing": 0.05}
# Of each skill what can be planted: other numbers in counts, other relations in relations, the rest in any.
PLANTED = {
    "object": {"other class": 0.1, "missing": 0.05, "": 0.85},
    "count": {"other class": 0.1, "other number": 0.2, "missing": 0.05, "": 0.65},
    "spatial": {"other class": 0.1, "other relation": 0.15, "missing": 0.05, "": 0.7},
}


def test_generate_plants_failures_at_given_rates(prompt_rows):
    rows = prompt_rows[prompt_rows.groupby("skill").cumcount() < 20].assign(n_images=100)
    table = generate(rows, seed=1, failures=SHARES).table
    skill = table["prompt_id"].map(rows.set_index("prompt_id")["skill"])
    for name, shares in PLANTED.items():
        counts = table.loc[skill == name, "truth_failure"].value_counts()
        assert counts.sum() == 2000 and set(counts.index) == set(shares)
        for failure, share in shares.items():
            assert stats.binomtest(int(counts[failure]), 2000, share).pvalue > 1e-4, (name, failure)


def test_generate_images_are_correct_without_planted_failure(prompt_rows):
    rows = prompt_rows[prompt_rows.groupby("skill").cumcount() < 25].assign(n_images=2)
    renders = generate(rows.drop(columns="image_id"), seed=2, failures=SHARES)
    table = renders.table
    assert table["image_id"].tolist() == [f"{p}/{i}" for p in rows["prompt_id"] for i in (0, 1)]
    assert set(table["truth_failure"]) == {"", *FAILURES}
    detections = boxes({i: renders.scene(i) for i in table["image_id"]})
    units = table[["image_id", "prompt_id"]].merge(rows.drop(columns="image_id"), on="prompt_id")
    is_correct = verdicts(detections, units).set_index("image_id")["correct"]
    assert is_correct[table["image_id"]].tolist() == (table["truth_failure"] == "").tolist()


@pytest.mark.long
@pytest.mark.parametrize("failure", ["", *FAILURES])
@pytest.mark.parametrize("skill", prompts.SKILLS)
def test_generate_truth_n_equals_objects_shown(prompt_rows, skill, failure):
    rows = prompt_rows[prompt_rows["skill"] == skill].iloc[:15].drop(columns="image_id").assign(n_images=2)
    renders = generate(rows, seed=4, failures={failure: 1.0} if failure else {})
    counts = boxes({i: renders.scene(i) for i in renders.table["image_id"]}).groupby(["image_id", "label"]).size()
    images = renders.table.merge(rows, on="prompt_id")
    n_shown = [counts.get((row.image_id, row.object), 0) for row in images.itertuples()]
    # Of two of a class in relation it counts one, so that the other, which is always there, does not count.
    n_other = (images["object"] == images["other"]).astype(int)
    assert (images["truth_n"] + n_other).tolist() == n_shown
    is_empty = set(images["truth_failure"]) == {failure} and failure in ("other class", "missing")
    assert (images["truth_n"] == 0).all() if is_empty else (images["truth_n"] > 0).any()
    if failure == "other number" and skill == "count":
        difference = (images["truth_n"] - images["n"]).abs()
        assert set(difference) == {1, 2} and set(images["truth_n"]) <= set(range(5))
    elif not is_empty:
        assert (images["truth_n"] == images["n"]).all()


def test_generate_image_depends_on_seed_prompt_and_index(prompt_rows):
    renders = generate(prompt_rows.iloc[:6].assign(n_images=2), seed=5, failures=SHARES)
    more_renders = generate(prompt_rows.iloc[::-1].assign(n_images=3), seed=5, failures=SHARES)
    fails = more_renders.table.set_index("image_id")["truth_failure"]
    assert renders.table["truth_failure"].tolist() == fails[renders.table["image_id"]].tolist()
    ids = list(renders.table["image_id"][:6])
    for a, b in zip(renders.read(ids), more_renders.read(ids[::-1])[::-1], strict=True):
        assert a.shape == (64, 64, 3) and a.dtype == np.uint8
        np.testing.assert_array_equal(a, b)
    other_seed = generate(prompt_rows.iloc[:6].assign(n_images=2), seed=6, failures=SHARES)
    assert any((a != b).any() for a, b in zip(renders.read(ids), other_seed.read(ids), strict=True))
    assert len({renders.digest, more_renders.digest, other_seed.digest}) == 3


def test_images_pass_through_an_autoencoder(prompt_rows, tmp_path):
    torch = pytest.importorskip("torch", reason="decoding needs the extra 'models'")
    from diffusers import AutoencoderKL

    torch.manual_seed(0)
    vae = AutoencoderKL(block_out_channels=(8,), norm_num_groups=4)
    vae.save_pretrained(tmp_path)
    rows = prompt_rows.iloc[:3].assign(n_images=1)
    plain, decoded = (generate(rows, seed=1, decoded=folder) for folder in (None, tmp_path))
    ids = list(plain.table["image_id"])
    pd.testing.assert_frame_equal(plain.table, decoded.table)
    images, decoded_images = plain.read(ids), decoded.read(ids)
    # By diffusers' own steps, in float32: bfloat16 has eight bits, so most levels differ by one or two.
    pixels = torch.tensor(np.stack(images)).permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        reconstructed = vae.eval()(pixels).sample.permute(0, 2, 3, 1).clamp(-1, 1).numpy()
    expected = (reconstructed + 1) * 127.5
    assert np.abs(np.stack(decoded_images) - expected).mean() < 2
    # What the random autoencoder makes of them is something else.
    assert np.abs(np.stack(images) - expected).mean() > 20 and expected.std() > 5
    assert decoded.digest != plain.digest
    assert decoded.read([]) == []
