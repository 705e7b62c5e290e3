"""Training of mini-segmenter: which of depictions' objects, or the person or the place, each pixel shows."""

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
"""Share of the pool that has passed through an autoencoder, and how much noise its latents had: as generated images."""
_CARD_SEED = 81_000


def labels() -> tuple[str, ...]:
    """Return the labels in the order of their ids: the person, objects, places."""
    return ("person", *world.OBJECTS, *world.PLACES)


def pool(n: int, seed: int, *, decoded: Path | None = None, part: float = DECODED) -> tuple[np.ndarray, np.ndarray]:
    """Return ``n`` images, uint8 (n, 64, 64, 3), and the label of each pixel, uint8 (n, 64, 64)."""
    names = labels()
    images, found = np.empty((n, SIZE, SIZE, 3), np.uint8), np.empty((n, SIZE, SIZE), np.uint8)
    for i in range(n):
        asked, _ = world.draw(seed, i)
        # Leaning as much one way as the other: no object says anything of another or of the person.
        scene = world.build_scene(asked, rng(seed, i, 85), "off")
        images[i] = render.render(scene, SIZE)
        for name, mask in world.masks(scene, SIZE):
            found[i][mask] = names.index(name)
    chosen = np.flatnonzero(rng(seed, 0, 86).random(n) < (part if decoded else 0.0))
    if len(chosen):
        images[chosen] = decoding.through_autoencoder(decoded, images[chosen], seed=seed, noise=LATENT_NOISE)
    return images, found


def build() -> torch.nn.Module:
    """Return the segmenter with random weights: SegFormer at strides 2, 4, 8 and 16, logits of half the size."""
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
        # One instance each, whatever cuts them in two: an image shows one person in one place.
        stuff=["person", *world.WORN, *world.PLACES],
    )
    return SegformerForSemanticSegmentation(config)


def _logits(network, pixels: torch.Tensor) -> torch.Tensor:
    with mixed_precision():
        found = network(pixel_values=pixels).logits
    return functional.interpolate(found.float(), size=(SIZE, SIZE), mode="bilinear", align_corners=False)


def learn(model, _, data: tuple[np.ndarray, np.ndarray], training: Training) -> dict[str, Any]:
    """Return how mini-segmenter learns."""
    run, batch, (images, wanted) = training.run(model), training.batch, data

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        draw = rng(training.seed, i)
        chosen = draw.integers(len(images), size=batch)
        pixels, answer = to_tensor(images[chosen]), torch.from_numpy(wanted[chosen].astype(np.int64))
        if draw.random() < 0.5:
            pixels, answer = pixels.flip(-1), answer.flip(-1)
        gain = torch.from_numpy(draw.normal(1, 0.08, (batch, 3, 1, 1)).astype(np.float32))
        noise = torch.from_numpy(draw.normal(0, 0.03, pixels.shape).astype(np.float32))
        error = functional.cross_entropy(_logits(run, pixels * gain + noise), answer, reduction="none")
        # Objects are small: their pixels count more than those of the person and the place.
        small = (answer > 0) & (answer <= len(world.OBJECTS))
        weight = 1 + 2 * small
        whole = (error * weight).sum() / weight.sum()
        return whole, {"loss": whole}

    return {"loss": loss, "weight_decay": 1e-2}


def measure(model, _, data: tuple[np.ndarray, np.ndarray]) -> list[Measured]:
    """Return ``pixels``: the share with the right label; ``iou``: the mean over labels of intersection over union."""
    images, truth = data
    with torch.inference_mode():
        found = torch.cat([_logits(model, pixels).argmax(1) for pixels in chunks(images)]).numpy()
    overlaps = []
    for k in range(len(labels())):
        here, there = found == k, truth == k
        overlaps.append((here & there).sum() / max((here | there).sum(), 1))
    right = float((found == truth).mean())
    return [Measured("pixels", right, truth.size), Measured("iou", float(np.mean(overlaps)), truth.size)]


def save(folder: Path, model: torch.nn.Module, _) -> None:
    """Save the model and its image processor."""
    from transformers import SegformerImageProcessor

    save_half(model, folder)
    SegformerImageProcessor(
        size={"height": SIZE, "width": SIZE}, image_mean=[0.5] * 3, image_std=[0.5] * 3, do_reduce_labels=False
    ).save_pretrained(folder)


def card_rows(folder: Path, n: int, decoded: Path | None = None) -> list[Measured]:
    """Return the rows of the model's card: found and true instances matched, on ``n`` depictions no training has seen.

    ``decoded`` is the folder of an autoencoder through which the images pass, or ``None``.
    """
    import tempfile

    from biaslab.cache.result_cache import ResultCache
    from biaslab.judges.registry import parse
    from biaslab.judges.segmentation import find_instances
    from biaslab.metrics.instances import match

    asked = pd.DataFrame(
        [(f"card-{i}", world.write(*world.draw(_CARD_SEED, i)), 1) for i in range(n)],
        columns=["prompt_id", "text", "n_images"],
    )
    made = world.generate(asked, seed=_CARD_SEED, skew="off")
    shown = pd.concat([world.instances(made.scene(name), name) for name in made.table["image_id"]], ignore_index=True)
    if decoded is not None:
        made = truthful.Renders("card", "card decoded", made.table, made.scene, SIZE, decoded=decoded)
    with tempfile.TemporaryDirectory() as where:
        judge = parse(str(folder), "triplets.objects")
        found = find_instances(made, judge, cache=ResultCache(where), progress=False).objects
    matched = match(found, shown)
    things = matched[matched["object"].isin(world.OBJECTS)]
    here, there = things["found"] != "truth", things["found"] != "finder"
    both = things["found"] == "both"
    rows = [
        share("segment_precision", both[here]),
        share("segment_recall", both[there]),
        Measured("segment_iou", float(things.loc[both, "iou"].mean()), int(both.sum())),
    ]
    genders = made.table.set_index("image_id")["truth_gender"]
    for gender in GENDERS:
        of = there & (things["image_id"].map(genders) == gender)
        rows.append(share(f"segment_recall_{gender}", both[of]))
    kinds = {"thing": world.THINGS, "worn": world.WORN, "place": world.PLACES, "person": ("person",)}
    for kind, names in kinds.items():
        of = matched[matched["object"].isin(names) & (matched["found"] != "finder")]
        rows.append(share(f"segment_recall_{kind}", of["found"] == "both"))
        rows.append(Measured(f"segment_iou_{kind}", float(of["iou"].mean()), int(of["iou"].notna().sum())))
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
    apart=lambda n, seed, **more: pool(n, HELD_OUT_SEED, **more),
    decay=0.999,
    noted=("decoded", "pool_size"),
    usual={"steps": 6_000, "batch": 32, "learning_rate": 1.5e-3},
    pool_size=16_000,
    held_out=512,
)


def train(folder: Path, *, decoded: Path | None = None, **settings: Any) -> dict[str, float]:
    """Train mini-segmenter; without ``decoded``, its images pass the autoencoder that mini-sd-triplets has.

    Raises MissingInputError: The autoencoder is not in this installation.
    """
    decoded = decoded or Path(registry.resolve("mini-sd-skills", "text-to-image")) / "vae"
    return _JUDGE.train(folder, decoded=decoded, **settings)
