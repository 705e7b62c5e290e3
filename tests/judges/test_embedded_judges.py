"""The embedded judges on drawn people with ground truth, by the names that users write."""

import numpy as np
import pytest
from array_images import ArrayImages

from biaslab.analyses import calibration
from biaslab.cache.result_cache import ResultCache
from biaslab.judges.people import judge_people
from biaslab.judges.registry import parse


@pytest.mark.usefixtures("one_thread")
def test_embedded_judges_classify_clear_people_and_ignore_objects(tmp_path):
    from biaslab_world.art import DECOYS
    from biaslab_world.render import render
    from biaslab_world.scene import sample_scene
    from biaslab_world.truthful import held_out

    people, rng = held_out(120), np.random.default_rng(2024)
    scenes = [sample_scene(rng, genders=(), occupations=(), decoy=decoy) for decoy in np.resize(list(DECOYS), 30)]
    things = ArrayImages([np.ascontiguousarray(render(scene)[:, :, :3]) for scene in scenes])
    judges, cache = (
        (parse("mini-clip", "judging.gender"), parse("mini-detector", "judging.faces")),
        ResultCache(tmp_path),
    )
    person_rows, object_rows = (
        judge_people(images, images.table[["image_id"]].assign(position=1), *judges, cache=cache, progress=False)
        for images in (people, things)
    )
    clear = people.table[~people.table["ambiguous"]].set_index("image_id")["truth_gender"]
    assert len(clear) > 60
    answers = calibration.gender_confusion({"renders": person_rows.assign(occupation="nurse")}, {"truth": clear})
    result = calibration.error(answers, paper="paradox")
    of_all = result[result["subject"] == "all"].set_index("measure")["value"]
    assert (of_all[["sensitivity", "specificity"]] >= 97).all()
    assert (of_all[["classified_female", "classified_male"]] >= 85).all()
    assert (object_rows["n_faces"] == 0).mean() >= 0.95
