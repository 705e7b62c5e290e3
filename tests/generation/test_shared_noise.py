"""Prompts that share noise: the same first latents bit by bit, in one batch and one shard; others are as before."""

import numpy as np
import pandas as pd
import pytest
from tiny_pipelines import settings

from biaslab.generation import generator
from biaslab.generation.generator import image_seed
from biaslab.generation.images import GeneratedImages, noise_keys, units_of
from biaslab.ground.errors import InputError
from biaslab.keep.store import Store

MEMBERS = ("person", "woman", "man")


def triplets(n: int, n_images: int = 1) -> pd.DataFrame:
    rows = [(f"t{k}-{m}", f"a photo of a {m}", f"t{k}", n_images, "ours") for k in range(n) for m in MEMBERS]
    return pd.DataFrame(rows, columns=["prompt_id", "text", "noise_id", "n_images", "dataset"])


@pytest.fixture
def batches(monkeypatch):
    """Return the first latents of each batch, ``float32 (images, channels, height, width)``, as they come."""
    seen, drawn = [], generator.families.Family.noise

    def kept(self, *given):
        noise = drawn(self, *given)
        seen.append(noise.numpy().copy())
        return noise

    monkeypatch.setattr(generator.families.Family, "noise", kept)
    return seen


def source(prompts, given, folder) -> GeneratedImages:
    return GeneratedImages(prompts, *given, seed=4, store=Store(folder))


@pytest.mark.parametrize("family", ["sd1", "flux"])
def test_first_latents_of_a_triplet_are_equal_bit_by_bit(folders, tmp_path, batches, family):
    made = source(triplets(3, n_images=2), settings(folders(family)), tmp_path).complete(progress=False)
    # The images of one index of a triplet stand side by side.
    ids = [f"t{k}-{m}/{i}" for k in range(3) for i in range(2) for m in MEMBERS]
    assert made.table["image_id"].tolist() == ids
    (noise,) = batches
    assert noise.shape[0] == len(ids)
    groups = noise.reshape(6, 3, -1)
    assert (groups == groups[:, :1]).all()
    # Other triplets and indices have other noise.
    assert len(np.unique(groups[:, 0], axis=0)) == 6
    seeds = [image_seed(4, f"t{k}", i) for k in range(3) for i in range(2) for _ in MEMBERS]
    assert made.table["seed"].tolist() == seeds
    # The same noise with other words is another image.
    one, other, _ = made.read([f"t0-{m}/0" for m in MEMBERS])
    assert (one != other).any()


def test_a_triplet_stays_in_one_batch_and_one_shard(folders, tmp_path, batches):
    given = settings(folders("sd1"), batch_size=8, steps=1)
    made = source(triplets(23), given, tmp_path).complete(progress=False)
    # 69 images: shards of 63 and 6, batches of two triplets of the eight images that fit.
    assert [len(noise) for noise in batches] == [*[6] * 10, 3, 6]
    for noise in batches:
        parts = noise.reshape(len(noise) // 3, 3, -1)
        assert (parts == parts[:, :1]).all()
    assert sorted(len(pd.read_parquet(p)) for p in (tmp_path / "generated").rglob("*.parquet")) == [6, 63]
    # Images are found where they are kept, in the second shard, too.
    alone = generator.load(*given).images(["a photo of a man"], [("t22", 0)], seed=4)[0]
    assert np.abs(made.read(["t22-man/0"])[0].astype(int) - alone).max() <= 2


def test_a_triplet_stays_together_when_memory_is_short(folders):
    import torch

    model, tried = generator.load(*settings(folders("sd1"), batch_size=8, steps=1)), []

    def small_memory(module, args, kwargs):
        # Guidance doubles the rows: with more than five images, memory is full.
        tried.append(len(args[0]) // 2)
        if tried[-1] > 5:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    model.pipe.unet.register_forward_pre_hook(small_memory, with_kwargs=True)
    units = units_of(triplets(4))
    assert len(model.images(units["text"].tolist(), noise_keys(units), seed=1)) == 12
    # Two triplets of eight fail; half of six are three, and a batch of three is one triplet.
    assert tried == [6, 3, 3, 3, 3]


def test_other_noise_is_another_result(folders, tmp_path):
    given = settings(folders("sd1"))
    shared, own = triplets(2), triplets(2).drop(columns="noise_id")
    named = triplets(2).assign(noise_id=lambda t: t["prompt_id"])
    assert len({source(prompts, given, tmp_path).digest for prompts in (shared, own, named)}) == 3
    # A noise of its own by name is that of the prompt.
    assert noise_keys(units_of(named)) == noise_keys(units_of(own))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_id": ["t0", "t0", None]}, r"'noise_id' holds (None|nan)"),
        ({"noise_id": ["t0", "t0", "t1"]}, "between 1 and 2 images of one noise"),
        ({"n_images": [2, 2, 1]}, "between 2 and 3 images of one noise"),
        # More than a shard.
        ({"noise_id": "t"}, "between 66 and 66 images of one noise"),
    ],
)
def test_noise_that_does_not_fit_is_refused(folders, tmp_path, changes, message):
    asked = triplets(22 if changes == {"noise_id": "t"} else 1)
    with pytest.raises(InputError, match=message):
        source(asked.assign(**changes), settings(folders("sd1")), tmp_path)
