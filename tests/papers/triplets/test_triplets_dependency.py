"""Dependency groups as tables: counts by case, by another method."""

import numpy as np
import pandas as pd
import pytest
from triplet_rows import NO_TESTS, images_of

from biaslab.metrics.similarity import DEPENDENCY_GROUPS
from biaslab.papers import triplets
from biaslab.papers.triplets import cases
from biaslab.schema import tables

GROUPS = DEPENDENCY_GROUPS[:4]


def groups_of(images, rng):
    rows = [
        (i, k, name, rng.choice([*GROUPS, None], p=[0.3, 0.3, 0.1, 0.2, 0.1]))
        for i in images["image_id"]
        for k, name in enumerate(rng.choice(["hat", "dog", "park"], rng.integers(0, 4)))
    ]
    return pd.DataFrame(rows, columns=["image_id", "instance", "object", "dependency_group"])


def nouns_of(images, rng):
    rows = [(i, noun, bool(rng.random() < 0.4)) for i in images["image_id"] for noun in ("hat", "park", "music")]
    return pd.DataFrame(rows, columns=["image_id", "noun", "hidden"])


def test_group_counts_and_shares_match_loop():
    rng = np.random.default_rng(0)
    images = images_of(4, 2)
    groups, nouns = groups_of(images, rng), nouns_of(images, rng)
    # For this seed one image is missing, so the other two of its triplet do not count.
    available_images = images[images["image_id"] != "D-t1-1-feminine"]
    complete_images = available_images[~available_images["image_id"].str.startswith("D-t1-1-")]
    result = cases.group_object_counts(available_images, groups, nouns)
    expected = {}
    images_by_group = {group: set() for group in DEPENDENCY_GROUPS}
    for image in complete_images.itertuples():
        entries = [(r.dependency_group, r.object) for r in groups.itertuples() if r.image_id == image.image_id]
        for r in nouns[nouns["image_id"] == image.image_id].itertuples():
            entries += [("nouns", r.noun)] + [("hidden", r.noun)] * r.hidden
        for group, name in entries:
            if group is not None:
                key = (group, image.prompt_gender, image.triplet_id, name)
                expected[key] = expected.get(key, 0) + 1
                if group != "nouns":
                    images_by_group[group].add(image.image_id)
    keys = ["dependency_group", "prompt_gender", "case", "object"]
    assert result.set_index(keys)["count"].to_dict() == expected
    assert set(result["n_images"]) == {7} and set(result["n_cases"]) == {4}
    shares = cases.group_images(available_images, groups, nouns).set_index("dependency_group")
    assert shares["percent_images"].to_dict() == pytest.approx(
        {g: 100 * len(i) / 21 for g, i in images_by_group.items()}
    )
    assert set(shares["n"]) == {21} and set(shares["n_triplets"]) == {4}
    # They are valid inputs of the analyses of the paper's tables.
    tests = triplets.chi_square(result, NO_TESTS, seed=0, replicates=99)
    assert set(tests["dependency_group"]) == set(DEPENDENCY_GROUPS)
    objects = triplets.group_objects(result, tables.make_table([], "triplets_printed_group_objects"))
    assert objects.set_index("dependency_group")["n_objects"]["nouns"] == 3
