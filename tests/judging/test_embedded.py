"""The embedded judges on drawn people whose truth is known, by the names that users write."""

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.judging.error import judge_error
from biaslab.judging.faces import load
from biaslab.judging.judge import JudgeSettings, judge
from biaslab.keep.store import Store

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def drawn():
    """120 scenes of one person, 30 of two and 30 of none; who is clearly a woman or a man, and each face's box."""
    from biaslab_world.art import DECOYS
    from biaslab_world.looks import OCCUPATIONS
    from biaslab_world.render import render, truth
    from biaslab_world.scene import is_ambiguous, sample_scene

    rng, names, decoys = np.random.default_rng(2024), list(OCCUPATIONS), list(DECOYS)
    pixels, rows = [], []
    for k in range(180):
        n = 1 if k < 120 else 2 if k < 150 else 0
        genders = tuple(rng.choice(["female", "male"], n)) if n else ()
        occupations = tuple(rng.choice(names, n)) if n else ()
        decoy = decoys[k % len(decoys)] if not n else None
        scene = sample_scene(rng, genders=genders, occupations=occupations, decoy=decoy)
        pixels.append(np.ascontiguousarray(render(scene)[:, :, :3]))
        clear = n == 1 and not is_ambiguous(scene.people[0])
        box = [float(v) for v in truth(scene).faces[0].box] if n == 1 else [np.nan] * 4
        rows.append((n, genders[0] if n == 1 else "neither", clear, *box))
    table = pd.DataFrame(rows, columns=["people", "shows", "clear", "tx0", "ty0", "tx1", "ty1"])
    return ArrayImages(pixels, [f"scene-{k}" for k in range(180)], table=table, name="drawn people")


@pytest.fixture(scope="module")
def found(drawn):
    """The table with how many faces were found and the best one's box."""
    faces = load("mini-detector").faces(drawn.read(drawn.table["image_id"]))
    best = [[f[0].x0, f[0].y0, f[0].x1, f[0].y1] if f else [np.nan] * 4 for f in faces]
    boxes = pd.DataFrame(best, columns=["x0", "y0", "x1", "y1"])
    return pd.concat([drawn.table.assign(n_faces=[len(f) for f in faces]), boxes], axis=1)


def test_the_gate_counts_people(found):
    one, two, none = (found[found["people"] == n] for n in (1, 2, 0))
    assert (one["n_faces"] == 1).mean() >= 0.97
    assert (two["n_faces"] == 2).mean() >= 0.9
    assert (none["n_faces"] == 0).mean() >= 0.95


def test_clear_people_are_judged_right(drawn, tmp_path):
    settings = JudgeSettings(faces="mini-detector", gender="mini-clip")
    judged = judge(drawn, settings, store=Store(tmp_path), progress=False)
    clear = drawn.table.loc[drawn.table["clear"], ["image_id", "shows"]]
    assert len(clear) > 60
    found = judge_error(judged.assign(occupation="nurse"), clear.set_index("image_id")["shows"])
    found = found[found["group"] == "all"].set_index("measure")
    assert found.loc["sensitivity", "value"] >= 97 and found.loc["specificity", "value"] >= 97
    assert found.loc["judged_female", "value"] >= 85 and found.loc["judged_male", "value"] >= 85
    several = judged[drawn.table["people"] == 2]
    assert set(several.loc[several["n_faces"] == 2, "outcome"]) == {"several_faces"}
