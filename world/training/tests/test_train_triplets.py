"""Training of the models of gender triplets: their data, the grounding loss, and short trainings."""

import numpy as np
import pytest
import torch

from biaslab.errors import InputError
from biaslab.generation.generator import load
from biaslab.generation.settings import GenerationSettings
from biaslab_world import triplets as world
from biaslab_world.brought import WEIGHTS
from biaslab_world.captions import words
from training import common, segmenter, text, triplets

pytestmark = pytest.mark.usefixtures("no_card")
VAE = WEIGHTS / "mini-sd-skills" / "vae"


def test_examples_assign_tokens_to_regions():
    examples = triplets.examples(range(40), seed=3)
    tokenizer = triplets.tokenizer()
    assert (examples["ids"] == text.tokens(tokenizer, examples["texts"])).all()
    for i, caption in enumerate(examples["texts"]):
        prompt, _ = world.draw(3, i)
        scene = world.build_scene(prompt, common.rng(3, i, 84))
        true = world.word_masks(scene, caption)
        for place, word in enumerate(words(caption), start=1):
            region = examples["regions"][i, place]
            assert region > 0
            if word not in true or caption.split().count(word) > 1:
                continue
            # The share of each cell of 4x4 pixels that the word's place covers, of one thing where two are of a kind.
            cells = true[word].reshape(16, 4, 16, 4).mean((1, 3)) * 255
            region_mask = examples["masks"][i, region - 1]
            is_duplicate = word in world.THINGS and [world.name_of(t) for t in scene.things].count(word) > 1
            cells = np.rint(cells)
            assert (region_mask <= cells).all() and (is_duplicate or (region_mask == cells).all()), (caption, word)
        # Start, end and padding belong nowhere.
        assert not examples["regions"][i, 1 + len(words(caption)) :].any() and examples["regions"][i, 0] == 0


def test_grounding_loss_matches_hand_values():
    """One word, two heads, 2x2 places: three quarters of its attention are on the half that it names."""
    attended = torch.zeros(2, 4, 3)
    attended[0, :, 1] = torch.tensor([0.6, 0.2, 0.0, 0.0])
    attended[1, :, 1] = torch.tensor([0.0, 0.4, 0.4, 0.0])
    regions = torch.tensor([[0, 2, 0]])
    covered = torch.zeros(1, 5, 16, 16)
    covered[0, 1, :8] = 1
    # The mean over heads: 0.3, 0.3, 0.2, 0; the upper half has 0.6 of 0.8; as parts of the largest 1, 1, 2/3, 0.
    part = np.clip([1, 1, 2 / 3, 0], 1e-4, 1 - 1e-4)
    covering = -np.mean([np.log(part[0]), np.log(part[1]), np.log(1 - part[2]), np.log(1 - part[3])])
    by_hand = (1 - 0.75) ** 2 + triplets.COVERING * covering
    assert float(triplets._grounding(attended, regions, covered)) == pytest.approx(by_hand, rel=1e-4)
    assert float(triplets._grounding(attended, torch.zeros_like(regions), covered)) == 0


@pytest.mark.long
def test_train_gives_working_pipeline(tmp_path):
    options = {"rows": 24, "compiled": False, "batch": 4, "progress": False}
    quality = triplets.train(tmp_path / "m", checkpoint=tmp_path / "w" / "state.pt", steps=2, **options)
    assert set(quality) == {"held_out", "held_out_grounding"} and all(np.isfinite(list(quality.values())))
    generator = load(str(tmp_path / "m"), GenerationSettings(steps=2))
    (image,) = generator.images(["a person reading"], [("p", 0)], 0)
    assert image.shape == (64, 64, 3)
    # Attention is where the extension looks for it, at 16x16 and 8x8, on both ways.
    layers = [name for name, _ in generator.pipe.unet.named_modules() if name.endswith("attn2")]
    assert len(layers) == 1 + 2 + 4
    with pytest.raises(InputError, match="other settings"):
        triplets.prepare(tmp_path / "w" / "data", VAE, rows=25)


@pytest.mark.long
def test_segmenter_pool_labels_match_masks(tmp_path):
    images, label_maps = segmenter.pool(3, 1, decoded=VAE)
    names = segmenter.labels()
    assert images.shape == (3, 64, 64, 3) and len(names) == 41
    for i in range(3):
        prompt, _ = world.draw(1, i)
        for name, mask in world.masks(world.build_scene(prompt, common.rng(1, i, 85), "off")):
            names_found = [names[k] for k in np.unique(label_maps[i][mask])]
            # Pixels that two share by halves are the later's.
            assert (label_maps[i][mask] == names.index(name)).mean() > 0.8, (name, names_found)
    sizes = {"pool_size": 6, "held_out": 4, "steps": 2, "batch": 2}
    quality_of_segmenter = segmenter.train(tmp_path, compiled=False, progress=False, decoded=VAE, **sizes)
    assert 0 <= quality_of_segmenter["iou"] <= 1 and 0 <= quality_of_segmenter["pixels"] <= 1
    from biaslab.judges.registry import parse

    finder = parse(str(tmp_path), "triplets.objects")
    assert len(finder.segment(list(images))) == 3
