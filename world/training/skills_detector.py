"""Training of mini-skills-detector: the 15 classes of PaintSkills in scenes for its prompts.

The model is a small RT-DETR like in :mod:`training.detector`, but wider and with finer features, since images show up
to four objects of one class, some of them only 19 pixels high.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from biaslab.papers.dalleval.prompts import CLASSES, COUNTS, RELATIONS
from biaslab_world import skills
from training import common, detector, loop
from training.cards import Measured, share
from training.detector import Pool
from training.loop import SIZE

NAME = "mini-skills-detector"
# Share of scenes by skill; scenes without an object teach the detector to return no detection.
_SKILLS = {"object": 0.28, "count": 0.4, "spatial": 0.28, "nothing": 0.04}


def labels() -> tuple[str, ...]:
    """Return the labels in the order of their ids: PaintSkills' classes by the paper's names."""
    return tuple(CLASSES)


def draw_prompt(draw: np.random.Generator) -> dict[str, object]:
    """Return a random prompt of a scene as a row of ``prompts.skills``; few scenes have no object."""
    names, skill = labels(), str(draw.choice(list(_SKILLS), p=list(_SKILLS.values())))
    row = {"skill": skill, "object": str(draw.choice(names)), "n": 1, "relation": "", "other": ""}
    if skill == "nothing":
        return row | {"skill": "object", "n": 0}
    if skill == "count":
        return row | {"n": int(draw.choice(list(COUNTS)))}
    if skill == "spatial":
        return row | {"relation": str(draw.choice(RELATIONS)), "other": str(draw.choice(names))}
    return row


def pool(n: int, seed: int, *, decoded: Path | None = None, part: float = loop.DECODED) -> Pool:
    """Return ``n`` scenes of ``seed``; a share ``part`` of the images passes the autoencoder ``decoded``."""
    draw, names = common.rng(seed, 0, 53), labels()
    scenes = [skills.skill_scene(draw, draw_prompt(draw)) for _ in range(n)]
    sides, targets = ["left", "top", "right", "bottom"], []
    for scene in scenes:
        boxes = skills.truth_boxes(scene, "", size=SIZE)
        targets.append((boxes[sides].to_numpy(np.float32), [names.index(name) for name in boxes["label"]]))
    return detector.pool_of(scenes, targets, decoded=decoded, part=part, seed=seed)


def measure(model, processor, data: Pool) -> list[Measured]:
    """Return recall (also by class) and precision at an IoU of 0.5, and the share of entirely correct images."""
    detections = detector.detect(model, processor, data.images)
    everything = list(range(len(labels())))
    pairs = [detector.matched(*sample, everything) for sample in zip(detections, data.boxes, data.classes, strict=True)]
    hits, classes = np.array([hit for true, _ in pairs for hit in true], bool), np.concatenate(data.classes)
    return [
        *detector.recall_and_precision("object", pairs),
        share("image_right", [all(true) and all(detected) for true, detected in pairs]),
        *(share(f"recall {name}", hits[classes == i]) for i, name in enumerate(labels())),
    ]


train = loop.Judge(
    name=NAME,
    pool=pool,
    build=lambda: (detector.build(labels(), (32, 64, 128), (4, 8, 16), 3), detector.processor()),
    measure=measure,
    defaults={"steps": 9_000, "batch": 32, "learning_rate": 2e-3},
    **detector.LEARNING,
).train
