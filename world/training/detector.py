"""Training of mini-detector: a small RT-DETR for faces, people and objects of the synthetic world.

With two-stage query selection and denoising queries it trains in minutes from random weights (Zhao et al.,
2024, "DETRs Beat YOLOs on Real-time Object Detection").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from biaslab_world import art, looks, scene
from biaslab_world.render import truth
from biaslab_world.scene import OBJECTS, Scene
from training import common, loop
from training.cards import Measured, share
from training.loop import SIZE

NAME = "mini-detector"
# Minimum number of visible pixels of a target.
MIN_PIXELS = 12
# Minimum share of a target's box that is inside the frame after a shift.
_MIN_VISIBLE = 0.4
# Share of scenes by content: one person, two, three or four, a product image, objects alone.
_CONTENT = {"one": 0.46, "two": 0.24, "more": 0.02, "decoy": 0.13, "things": 0.15}


def labels() -> tuple[str, ...]:
    """Return the labels in the order of their ids: ``face`` and PaintSkills' 15 classes, which include ``person``."""
    return ("face", *OBJECTS)


@dataclass(frozen=True)
class Pool:
    """Images with the boxes and classes of their objects."""

    images: np.ndarray  # uint8 (n, 64, 64, 3)
    boxes: list[np.ndarray]  # per image (k, 4) float32: left, top, right, bottom as shares of the frame, 0 to 1
    classes: list[np.ndarray]  # per image (k,) int64: indices in :func:`labels`
    people: np.ndarray  # number of people in each scene


def sample(draw: np.random.Generator) -> Scene:
    """Return a random scene: 0 to 4 people of any occupation, with objects next to them or alone."""
    kind = str(draw.choice(list(_CONTENT), p=list(_CONTENT.values())))

    def place() -> str:
        return str(draw.choice(list(art.PLACES)))

    if kind == "decoy":
        return scene.sample_scene(draw, decoy=str(draw.choice([*art.DECOYS, *art.PROPS])), place=place())
    if kind == "things":
        kinds = draw.choice(scene.THINGS, int(draw.integers(1, 5))).tolist()
        aspect = 1.5 if draw.random() < 0.3 else 1.0
        return scene.sample_scene(draw, genders=(), things=kinds, place=place(), aspect=aspect)
    people = {"one": 1, "two": 2}.get(kind) or int(draw.integers(3, 5))
    has_occupations = draw.random() < 0.9
    wear = [(str(draw.choice(scene.ATTRIBUTES)),) if draw.random() < 0.3 else () for _ in range(people)]
    return scene.sample_scene(
        draw,
        genders=(None,) * people,
        occupations=draw.choice(looks.OCCUPATIONS, people).tolist() if has_occupations else None,
        attributes=wear,
        things=draw.choice(scene.THINGS, int(draw.integers(1, 3))).tolist() if draw.random() < 0.5 else (),
        place=place() if draw.random() < 0.3 else None,
        aspect=1.0 if kind == "two" and draw.random() < 0.15 else None,
    )


def pool(n: int, seed: int, *, decoded: Path | None = None, part: float = loop.DECODED) -> Pool:
    """Return ``n`` scenes of ``seed``; a share ``part`` of the images passes the autoencoder ``decoded``."""
    draw, names = common.rng(seed, 0, 31), labels()
    scenes = [sample(draw) for _ in range(n)]
    targets_found = []
    for sampled in scenes:
        scene_truth = truth(sampled, SIZE)
        regions = [(r, "face") for r in scene_truth.faces]
        regions += [(r, r.name) for r in (*scene_truth.people, *scene_truth.objects)]
        visible = [(r.box, names.index(name)) for r, name in regions if r.mask.sum() >= MIN_PIXELS]
        size = np.array([SIZE * sampled.aspect, SIZE] * 2, np.float32)
        boxes = np.array([box for box, _ in visible], np.float32).reshape(-1, 4) / size
        targets_found.append((boxes, [k for _, k in visible]))
    return pool_of(scenes, targets_found, decoded=decoded, part=part, seed=seed)


def pool_of(scenes: list[Scene], found: list[tuple[np.ndarray, list[int]]], **decoding: Any) -> Pool:
    """Return a pool of scenes with the boxes and classes in each; ``decoding`` is passed to ``loop.renders``."""
    return Pool(
        loop.renders(scenes, squash=True, **decoding),
        [boxes for boxes, _ in found],
        [np.array(classes, np.int64) for _, classes in found],
        np.array([len(scene.people) for scene in scenes]),
    )


def build(
    names: Sequence[str], channels: tuple[int, int, int], strides: tuple[int, ...], decoder_layers: int
) -> torch.nn.Module:
    """Return a detector with random weights and 20 queries; ``channels`` are those at strides of 4, 8 and 16."""
    from transformers import RTDetrConfig, RTDetrForObjectDetection, RTDetrResNetConfig

    width, levels = 64, len(strides)
    backbone = RTDetrResNetConfig(
        embedding_size=channels[0],
        hidden_sizes=list(channels),
        depths=[1, 1, 1],
        layer_type="basic",
        out_indices=[1, 2, 3][-levels:],
    )
    config = RTDetrConfig(
        backbone_config=backbone,
        freeze_backbone_batch_norms=False,
        encoder_in_channels=list(channels[-levels:]),
        feat_strides=list(strides),
        num_feature_levels=levels,
        encode_proj_layers=[levels - 1],
        encoder_hidden_dim=width,
        d_model=width,
        decoder_in_channels=[width] * levels,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        decoder_n_points=4,
        decoder_layers=decoder_layers,
        hidden_expansion=0.5,
        num_queries=20,
        num_denoising=12,
        # Labels take longer to learn than boxes.
        weight_loss_vfl=2.5,
        id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
    )
    return RTDetrForObjectDetection(config).to(memory_format=torch.channels_last).train()


def processor():
    """Return the preprocessing, which resizes any image to 64x64 pixels with values from 0 to 1."""
    from transformers import RTDetrImageProcessor

    return RTDetrImageProcessor(size={"height": SIZE, "width": SIZE}, do_normalize=False)


def targets(pool: Pool, chosen: np.ndarray, table: np.ndarray) -> list[dict[str, torch.Tensor]]:
    """Return the targets in the ``chosen`` images after the transforms in ``table`` from ``loop.roughen``."""
    out = []
    for i, transform in zip(chosen.tolist(), table, strict=True):
        # Boxes are transformed in coordinates from -1 to 1; mirroring swaps left and right.
        corners = (2 * pool.boxes[i] - 1).reshape(-1, 2, 2)
        corners = (corners - transform[:, 1]) / transform[:, 0]
        low, high = (corners.min(1) + 1) / 2, (corners.max(1) + 1) / 2
        area = (high - low).prod(1)
        low, high = low.clip(0, 1), high.clip(0, 1)
        size = high - low
        is_visible = (size.prod(1) >= _MIN_VISIBLE * area) & (size * SIZE >= 2).all(1)
        boxes = np.concatenate([(low + high) / 2, size], 1)[is_visible].astype(np.float32)
        classes = torch.from_numpy(pool.classes[i][is_visible])
        out.append({"class_labels": classes, "boxes": torch.from_numpy(boxes)})
    return out


def learn(model, _, data: Pool, training: common.Training) -> dict[str, Any]:
    """Return the loss and optimizer settings of a detector, see :class:`~training.loop.Judge`."""
    seed = training.seed

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        chosen = common.rng(seed, i).integers(len(data.images), size=training.batch)
        pixels, table = loop.roughen(data.images[chosen], seed, i)
        batch_targets = targets(data, chosen, table)
        # The model samples its denoising queries with torch's global generator.
        torch.manual_seed(int(common.rng(seed, i, 23).integers(2**31)))
        # The model runs in float32, because bfloat16 is not faster with few channels.
        total = model(pixels.add(1).div(2), labels=batch_targets).loss
        return total, {"loss": total}

    return {"loss": loss, "clip": 5.0, "weight_decay": 1e-3, "betas": (0.9, 0.99)}


def save(folder: Path, model: torch.nn.Module, processor) -> None:
    """Save a detector and its preprocessing."""
    common.save_half(model, folder)
    processor.save_pretrained(folder)


def load(folder: Path) -> tuple[torch.nn.Module, Any]:
    """Return model and preprocessing of ``folder``, loaded by transformers."""
    from transformers import AutoImageProcessor, AutoModelForObjectDetection

    model = AutoModelForObjectDetection.from_pretrained(folder, use_safetensors=True)
    return model.float().eval(), AutoImageProcessor.from_pretrained(folder)


# Settings shared by the trainings of mini-detector and mini-skills-detector.
LEARNING = {"learn": learn, "save": save, "load": load, "pool_size": 24_000, "held_out": 1024, "decay": 0.997}


# -- measurement ------------------------------------------------------------------------------------------


def detect(model, processor, images: np.ndarray, *, threshold: float = 0.5, size: int = 64) -> list[dict]:
    """Return ``scores``, ``labels`` and ``boxes`` of each image (left, top, right, bottom as shares of the frame)."""
    out = []
    with torch.inference_mode():
        for start in range(0, len(images), size):
            batch = list(images[start : start + size])
            detections = processor.post_process_object_detection(
                model(**processor(images=batch, return_tensors="pt")),
                threshold=threshold,
                target_sizes=[(1, 1)] * len(batch),
            )
            out += [{k: v.float().numpy() for k, v in detection.items()} for detection in detections]
    return out


def measure(model, processor, data: Pool) -> list[Measured]:
    """Return recall and precision at an overlap of 0.5 for faces (also by number of people), people and objects.

    ``face_count`` is the share of images with exactly their faces detected, which the inclusion criteria require.
    """
    detections, names = detect(model, processor, data.images), labels()
    groups = {"face": [0], "person": [names.index("person")]}
    groups["object"] = [i for i, name in enumerate(names) if name not in groups]
    pairs = {
        group: [matched(*sample, ids) for sample in zip(detections, data.boxes, data.classes, strict=True)]
        for group, ids in groups.items()
    }
    is_exact = np.array([all(true) and all(detected) for true, detected in pairs["face"]])
    faces = np.array([len(true) for true, _ in pairs["face"]])
    return [
        *(sample for group, group_pairs in pairs.items() for sample in recall_and_precision(group, group_pairs)),
        share("face_count", is_exact),
        *(share(f"face_count_{k}", is_exact[faces == k]) for k in (0, 1, 2)),
    ]


def recall_and_precision(name: str, pairs: Sequence[tuple[list[bool], list[bool]]]) -> list[Measured]:
    """Return recall and precision of ``name``, from the result of :func:`matched` for each image."""
    sides = zip(("recall", "precision"), zip(*pairs, strict=True), strict=True)
    return [share(f"{name}_{metric}", [*chain(*hits)]) for metric, hits in sides]


def matched(detection: dict, boxes: np.ndarray, classes: np.ndarray, ids: list[int]) -> tuple[list[bool], list[bool]]:
    """Return whether each true and each detected box of ``ids`` has a match of the same class, best scores first."""
    from torchvision.ops import box_iou

    is_target, best_first = np.isin(classes, ids), np.argsort(-detection["scores"])
    best_first = best_first[np.isin(detection["labels"][best_first], ids)]
    overlaps = box_iou(torch.from_numpy(detection["boxes"][best_first]), torch.from_numpy(boxes[is_target])).numpy()
    overlaps[detection["labels"][best_first][:, None] != classes[is_target]] = 0
    hit_truth, hit_found = [False] * int(is_target.sum()), []
    for row in overlaps:
        row[hit_truth] = 0
        hit_found.append(bool((row >= 0.5).any()))
        if hit_found[-1]:
            hit_truth[int(row.argmax())] = True
    return hit_truth, hit_found


train = loop.Judge(
    name=NAME,
    pool=pool,
    build=lambda: (build(labels(), (24, 48, 96), (8, 16), 2), processor()),
    measure=measure,
    defaults={"steps": 6_000, "batch": 32, "learning_rate": 2e-3},
    **LEARNING,
).train
