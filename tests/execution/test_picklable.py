"""Objects for workers are picklable: image sources read the same elsewhere, and carry no loaded data."""

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


def pickle_copy(source):
    return pickle.loads(cloudpickle.dumps(source))


def same_images(source, n=3):
    ids = list(source.table["image_id"])[:n]
    images, elsewhere = source.read(ids), pickle_copy(source).read(ids)
    assert len(images) == n and all(map(np.array_equal, images, elsewhere))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    configuration = {
        "captions": {"occupations": ["nurse"], "max_captions": 2000, "per_occupation": 5, "approaches": ["naive"]},
        "generation": {"images_per_prompt": 1},
        "paired": {"n_occupations": 1, "power_samples": 1, "single_images": 1},
        "dalleval": {"n_scenes": 2, "n_professions": 1, "social_images": 2},
        "triplets": {"n_triplets": 2},
        "compute": {"cache": str(tmp_path_factory.mktemp("store"))},
    }
    return Pipeline("world", Settings.from_mapping(configuration), seed=1, progress=False)


def test_renders_are_picklable(world):
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


def test_file_sources_are_picklable(tmp_path):
    for k in range(3):
        Image.new("RGB", (8, 8), (k, 0, 0)).save(tmp_path / f"{k}.png")
    folder = FolderImages(tmp_path)
    same_images(folder)
    same_images(Subset(folder, ["0.png", "1.png", "2.png"]))


def test_generated_images_pickle_without_loaded_data(world, tmp_path):
    changes = {"generation": {"images_per_prompt": 1, "steps": 1}, "compute": {"cache": str(tmp_path)}}
    generated = duplicates.all_images(world.with_changes("mini", **changes).images("generated").source)
    same_images(generated)
    assert "_generator" in vars(generated) and len(cloudpickle.dumps(generated)) < 20_000
    elsewhere = pickle_copy(generated)
    assert not {"_generator", "table"} & set(vars(elsewhere)) and elsewhere.digest == generated.digest


def test_memoized_computes_once_and_pickles_empty():
    calls = []

    @Memoized
    def double(x):
        calls.append(x)
        return 2 * x

    assert [double(k) for k in (1, 2, 1)] == [2, 4, 2] and calls == [1, 2]
    # The copy has its own list.
    assert pickle_copy(double)(1) == 2 and calls == [1, 2]
    assert Memoized(int)() == 0


def test_with_changes_keeps_workers_and_shard(world):
    two = world.with_changes(compute={"workers": 2})
    assert two.with_changes("mini", generation={"steps": 1}).workers == two.cache.workers == Workers(count=2)
    assert world.shard(1, 3).cache.share == (1, 3) and world.shard(1, 3).with_changes("mini").cache.share == (1, 3)
