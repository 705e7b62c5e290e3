"""What workers are given travels: sources of images read the same elsewhere, and carry nothing that was loaded."""

import pickle

import cloudpickle
import numpy as np
import pytest
from PIL import Image

from biaslab.execution.workers import Memoized, Workers
from biaslab.hub.image_sources import FolderImages, Subset
from biaslab.judges import duplicates
from biaslab.papers.dalleval.stages import DallEval
from biaslab.papers.paired.stages import Paired
from biaslab.papers.triplets.stages import Triplets
from biaslab.pipeline import Pipeline, Settings


def travelled(source):
    return pickle.loads(cloudpickle.dumps(source))


def same_images(source, n=3):
    ids = list(source.table["image_id"])[:n]
    images, elsewhere = source.read(ids), travelled(source).read(ids)
    assert len(images) == n and all(map(np.array_equal, images, elsewhere))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    given = {
        "captions": {"occupations": ["nurse"], "max_captions": 2000, "per_occupation": 5, "approaches": ["naive"]},
        "generation": {"images_per_prompt": 1},
        "paired": {"n_occupations": 1, "power_samples": 1, "single_images": 1},
        "dalleval": {"n_scenes": 2, "n_professions": 1, "social_images": 2},
        "triplets": {"n_triplets": 2},
        "compute": {"cache": str(tmp_path_factory.mktemp("store"))},
    }
    return Pipeline("world", Settings.from_mapping(given), seed=1, progress=False)


def test_renders_travel(world):
    for source in (
        world.images("generated").source,
        world.images("training").source,
        world.part(Paired).images("paired").source,
        world.part(DallEval).images("skills").source,
        world.part(DallEval).images("social").source,
        world.part(Triplets).images().source,
        world.part(Triplets).drawings(),
    ):
        same_images(source)


def test_files_travel(tmp_path):
    for k in range(3):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(tmp_path / f"{k}.png")
    folder = FolderImages(tmp_path)
    same_images(folder)
    same_images(Subset(folder, ["0.png", "1.png", "2.png"]))


def test_generated_images_travel_without_what_was_read_and_loaded(world, tmp_path):
    changed = {"generation": {"images_per_prompt": 1, "steps": 1}, "compute": {"cache": str(tmp_path)}}
    made = duplicates.all_images(world.with_changes("mini", **changed).images("generated").source)
    same_images(made)
    assert "_generator" in vars(made) and len(cloudpickle.dumps(made)) < 20_000
    elsewhere = travelled(made)
    assert not {"_generator", "table"} & set(vars(elsewhere)) and elsewhere.digest == made.digest


def test_a_memo_computes_once_and_travels_empty():
    calls = []

    @Memoized
    def double(x):
        calls.append(x)
        return 2 * x

    assert [double(k) for k in (1, 2, 1)] == [2, 4, 2] and calls == [1, 2]
    # What travels holds a list of its own.
    assert travelled(double)(1) == 2 and calls == [1, 2]
    assert Memoized(int)() == 0


def test_pipelines_like_one_have_its_workers(world):
    two = world.with_changes(compute={"workers": 2})
    assert two.with_changes("mini", generation={"steps": 1}).workers == two.cache.workers == Workers(count=2)
    assert world.shard(1, 3).cache.share == (1, 3) and world.shard(1, 3).with_changes("mini").cache.share == (1, 3)
