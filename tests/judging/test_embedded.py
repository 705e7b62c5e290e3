"""The embedded judges on drawn people whose truth is known, by the names that users write."""

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.judging.error import judge_error
from biaslab.judging.judge import JudgeSettings, judge
from biaslab.keep.store import Store

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def drawn():
    """120 scenes of one person, 30 of two and 30 of none, and who is clearly a woman or a man."""
    from biaslab_world.art import DECOYS
    from biaslab_world.looks import OCCUPATIONS
    from biaslab_world.render import render
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
        rows.append((n, genders[0] if n == 1 else "neither", clear))
    table = pd.DataFrame(rows, columns=["people", "shows", "clear"])
    return ArrayImages(pixels, [f"scene-{k}" for k in range(180)], table=table, name="drawn people")


def test_clear_people_are_judged_right(drawn, tmp_path):
    settings = JudgeSettings(faces="mini-detector", gender="mini-clip")
    judged = judge(drawn, settings, store=Store(tmp_path), progress=False)
    clear = drawn.table.loc[drawn.table["clear"], ["image_id", "shows"]]
    assert len(clear) > 60
    found = judge_error(judged.assign(occupation="nurse"), clear.set_index("image_id")["shows"])
    found = found[found["group"] == "all"].set_index("measure")
    assert found.loc["sensitivity", "value"] >= 97 and found.loc["specificity", "value"] >= 97
    assert found.loc["judged_female", "value"] >= 85 and found.loc["judged_male", "value"] >= 85
    several, nobody = (judged[drawn.table["people"] == n] for n in (2, 0))
    assert (several["n_faces"] == 2).mean() >= 0.9 and (nobody["n_faces"] == 0).mean() >= 0.95
    assert set(several.loc[several["n_faces"] == 2, "outcome"]) == {"several_faces"}
