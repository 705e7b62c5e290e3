"""Training of mini-segmenter: the label of each pixel of a depiction: an object, the person or the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from biaslab.hub import registry
from biaslab.schema.genders import GENDERS
from biaslab_world import decoding, render, truthful
from biaslab_world import triplets as world
from training import loop
from training.cards import Measured, share
from training.common import Training, chunks, mixed_precision, rng, save_half, to_tensor

NAME, SIZE = "mini-segmenter", 64
HELD_OUT_SEED = 9
DECODED, LATENT_NOISE = 0.6, 0.15
"""Share of the pool that passes an autoencoder, and the noise of its latents, as in generated images."""
_CARD_SEED = 81_000


def labels() -> tuple[str, ...]:
    """Return the labels in the order of their ids: the person, objects, places."""
    return ("person", *world.OBJECTS, *world.PLACES)


def pool(n: int, seed: int, *, decoded: Path | None = None, part: float = DECODED) -> tuple[np.ndarray, np.ndarray]:
    """Return ``n`` images, uint8 (n, 64, 64, 3), and the label of each pixel, uint8 (n, 64, 64)."""
    names = labels()
    images, label_maps = np.empty((n, SIZE, SIZE, 3), np.uint8), np.empty((n, SIZE, SIZE), np.uint8)
    for i in range(n):
        prompt, _ = world.draw(seed, i)
        # With the skew "off", objects are independent of each other and of the person.
        scene = world.build_scene(prompt, rng(seed, i, 85), "off")
        images[i] = render.render(scene, SIZE)
        for name, mask in world.masks(scene, SIZE):
            label_maps[i][mask] = names.index(name)
    chosen = np.flatnonzero(rng(seed, 0, 86).random(n) < (part if decoded else 0.0))
    if len(chosen):
        images[chosen] = decoding.through_autoencoder(decoded, images[chosen], seed=seed, noise=LATENT_NOISE)
    return images, label_maps


def build() -> torch.nn.Module:
    """Return the segmenter with random weights: SegFormer at strides 2, 4, 8 and 16, with logits at half size."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    names = labels()
    config = SegformerConfig(
        depths=[1, 1, 1, 1],
        sr_ratios=[8, 4, 2, 1],
        hidden_sizes=[16, 32, 64, 96],
        patch_sizes=[5, 3, 3, 3],
        strides=[2, 2, 2, 2],
        num_attention_heads=[1, 2, 4, 4],
        mlp_ratios=[4, 4, 4, 4],
        decoder_hidden_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
        drop_path_rate=0.0,
        id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
        # One instance each, even if it is not connected: an image shows one person in one place.
        stuff=["person", *world.WORN, *world.PLACES],
    )
    return SegformerForSemanticSegmentation(config)


def _logits(network, pixels: torch.Tensor) -> torch.Tensor:
    with mixed_precision():
        logits = network(pixel_values=pixels).logits
    return functional.interpolate(logits.float(), size=(SIZE, SIZE), mode="bilinear", align_corners=False)


def learn(model, _, data: tuple[np.ndarray, np.ndarray], training: Training) -> dict[str, Any]:
    """Return the loss and optimizer settings of mini-segmenter, see :class:`~training.loop.Judge`."""
    run, batch, (images, label_maps) = training.run(model), training.batch, data

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        draw = rng(training.seed, i)
        chosen = draw.integers(len(images), size=batch)
        pixels, answer = to_tensor(images[chosen]), torch.from_numpy(label_maps[chosen].astype(np.int64))
        if draw.random() < 0.5:
            pixels, answer = pixels.flip(-1), answer.flip(-1)
        gain = torch.from_numpy(draw.normal(1, 0.08, (batch, 3, 1, 1)).astype(np.float32))
        noise = torch.from_numpy(draw.normal(0, 0.03, pixels.shape).astype(np.float32))
        error = functional.cross_entropy(_logits(run, pixels * gain + noise), answer, reduction="none")
        # Objects are small, so their pixels have more weight than those of the person and the place.
        is_object = (answer > 0) & (answer <= len(world.OBJECTS))
        weight = 1 + 2 * is_object
        total = (error * weight).sum() / weight.sum()
        return total, {"loss": total}

    return {"loss": loss, "weight_decay": 1e-2}


def measure(model, _, data: tuple[np.ndarray, np.ndarray]) -> list[Measured]:
    """Return ``pixels``, the share with the correct label, and ``iou``, the mean intersection over union of labels."""
    images, truth = data
    with torch.inference_mode():
        predicted = torch.cat([_logits(model, pixels).argmax(1) for pixels in chunks(images)]).numpy()
    overlaps = []
    for k in range(len(labels())):
        is_predicted, is_true = predicted == k, truth == k
        overlaps.append((is_predicted & is_true).sum() / max((is_predicted | is_true).sum(), 1))
    right = float((predicted == truth).mean())
    return [Measured("pixels", right, truth.size), Measured("iou", float(np.mean(overlaps)), truth.size)]


def save(folder: Path, model: torch.nn.Module, _) -> None:
    """Save the model and its image processor."""
    from transformers import SegformerImageProcessor

    save_half(model, folder)
    SegformerImageProcessor(
        size={"height": SIZE, "width": SIZE}, image_mean=[0.5] * 3, image_std=[0.5] * 3, do_reduce_labels=False
    ).save_pretrained(folder)


def card_rows(folder: Path, n: int, decoded: Path | None = None) -> list[Measured]:
    """Return the rows of the model's card: quality of instances in ``n`` depictions that training never used.

    ``decoded`` is the folder of an autoencoder through which the images pass, or ``None``.
    """
    import tempfile

    from biaslab.cache.result_cache import ResultCache
    from biaslab.judges.registry import parse
    from biaslab.judges.segmentation import find_instances
    from biaslab.metrics.instances import match

    prompts = pd.DataFrame(
        [(f"card-{i}", world.write(*world.draw(_CARD_SEED, i)), 1) for i in range(n)],
        columns=["prompt_id", "text", "n_images"],
    )
    images = world.generate(prompts, seed=_CARD_SEED, skew="off")
    truth = [world.instances(images.scene(name), name) for name in images.table["image_id"]]
    if decoded is not None:
        images = truthful.Renders("card", "card decoded", images.table, images.scene, SIZE, decoded=decoded)
    with tempfile.TemporaryDirectory() as cache_folder:
        judge = parse(str(folder), "triplets.objects")
        instances = find_instances(images, judge, cache=ResultCache(cache_folder), progress=False).objects
    matched = match(instances, pd.concat(truth, ignore_index=True))
    things = matched[matched["object"].isin(world.OBJECTS)]
    is_found, is_true = things["found"] != "truth", things["found"] != "finder"
    is_matched = things["found"] == "both"
    rows = [
        share("segment_precision", is_matched[is_found]),
        share("segment_recall", is_matched[is_true]),
        Measured("segment_iou", float(things.loc[is_matched, "iou"].mean()), int(is_matched.sum())),
    ]
    genders = images.table.set_index("image_id")["truth_gender"]
    for gender in GENDERS:
        selected = is_true & (things["image_id"].map(genders) == gender)
        rows.append(share(f"segment_recall_{gender}", is_matched[selected]))
    kinds = {"thing": world.THINGS, "worn": world.WORN, "place": world.PLACES, "person": ("person",)}
    for kind, names in kinds.items():
        selected = matched[matched["object"].isin(names) & (matched["found"] != "finder")]
        rows.append(share(f"segment_recall_{kind}", selected["found"] == "both"))
        rows.append(Measured(f"segment_iou_{kind}", float(selected["iou"].mean()), int(selected["iou"].notna().sum())))
    return rows


_JUDGE = loop.Judge(
    name=NAME,
    pool=pool,
    build=lambda: (build(), None),
    learn=learn,
    measure=measure,
    save=save,
    card_rows=card_rows,
    card_images=1_000,
    draw_test_data=lambda n, seed, **more: pool(n, HELD_OUT_SEED, **more),
    decay=0.999,
    card_settings=("decoded", "pool_size"),
    defaults={"steps": 6_000, "batch": 32, "learning_rate": 1.5e-3},
    pool_size=16_000,
    held_out=512,
)


def train(folder: Path, *, decoded: Path | None = None, **settings: Any) -> dict[str, float]:
    """Train mini-segmenter; ``decoded`` defaults to the autoencoder of mini-sd-triplets.

    Raises MissingInputError: The autoencoder is not in this installation.
    """
    decoded = decoded or Path(registry.resolve("mini-sd-skills", "text-to-image")) / "vae"
    return _JUDGE.train(folder, decoded=decoded, **settings)
