"""Scenes for PaintSkills prompts with their object boxes, and scenes that fail a prompt in a known way.

Source: DALL-Eval paper, section 3.2; sizes, margins and failures are defined by this world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from biaslab_world import truthful
from biaslab_world.render import truth
from biaslab_world.scene import OBJECTS, PALETTES, Scene, Thing, light_at, sample_person
from biaslab_world.truthful import Renders

PLACES = (
    "studio", "office", "lab", "kitchen", "bakery", "bar", "clinic", "theatre", "classroom", "library", "hall",
    "home", "corridor",
)  # fmt: skip
"""The 13 places that show no object of PaintSkills' classes."""
RELATIONS = ("above", "below", "left", "right")
FAILURES = ("other class", "other number", "other relation", "missing")
"""Kinds of failure of a scene."""
# Sides of objects in frame heights: one alone, two in relation, up to four.
_SIZES = MappingProxyType({"object": (0.55, 0.68), "spatial": (0.36, 0.44), "count": (0.30, 0.37)})
# Minimum ratio of the distance of two objects on their relation's axis to that on the other axis.
_CLEAR = 1.5
_TRIES = 400
# Skills to which a failure applies; failures without an entry apply to all.
_FAILING = MappingProxyType({"other number": ("count",), "other relation": ("spatial",)})
# A full figure has a face of height 0.258 and fills 0.96 of a frame of height 1 (sample_person).
_FACE_OF_FIGURE, _FACE_ABOVE_MIDDLE = 0.258 / 0.96, 0.31
_WORLD_NAMES = MappingProxyType({"bicycle": "bike"})
_PAPER_NAMES = MappingProxyType({world: paper for paper, world in _WORLD_NAMES.items()})


def skill_scene(rng: np.random.Generator, prompt: Mapping[str, object]) -> Scene:
    """Return a scene that matches a PaintSkills prompt, with everything else at random.

    ``prompt`` is a row of ``dalleval.prompts.skills``: ``skill``, ``object``, ``n`` (0 to 4), ``relation``, ``other``.
    """
    skill, n, relation = prompt["skill"], int(prompt["n"]), prompt["relation"]
    names = [prompt["object"]] * n + [prompt["other"]] * (skill == "spatial")
    centres, sizes = _layout(rng, _SIZES[skill], len(names), relation if skill == "spatial" and n else "")
    things, people = [], []
    for name, (x, y), size in zip(names, centres, sizes, strict=True):
        if name == "person":
            # From head to foot in the square.
            figure = sample_person(rng, full_figure=True)
            y, scale = y - _FACE_ABOVE_MIDDLE * size, _FACE_OF_FIGURE * size
            people.append(replace(figure, x=x, y=y, scale=scale))
        else:
            form = {
                "mirrored": bool(rng.integers(2)),
                "tilt": float(np.radians(rng.uniform(-15, 15))),
                "width": float(rng.uniform(0.75, 1)),
                "palette": int(rng.integers(PALETTES)),
            }
            things.append(Thing(_WORLD_NAMES.get(name, name), x, y, size, **form))
    place, light = str(rng.choice(PLACES)), light_at(rng.random(3).tolist())
    return Scene(tuple(people), tuple(things), place, light, int(rng.integers(2**31)), aspect=1.0)


def _layout(
    rng: np.random.Generator, size: tuple[float, float], n: int, relation: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return centres ``(n, 2)`` and sides ``(n,)`` of squares inside the frame that do not overlap.

    With a relation, the first square is in that direction from the second, at least ``_CLEAR`` times as far on the
    relation's axis as on the other. The squares shrink with each of the ``_TRIES`` attempts, because four of the
    largest may not fit.
    """
    is_horizontal = relation in ("left", "right")
    for attempt in range(_TRIES):
        sizes = rng.uniform(*size, n) * (1 - 0.3 * attempt / _TRIES)
        centres = sizes[:, None] / 2 + rng.random((n, 2)) * (1 - sizes[:, None])
        gaps = np.abs(centres[:, None] - centres[None]).max(axis=2) - (sizes[:, None] + sizes[None]) / 2
        if (gaps[np.triu_indices(n, 1)] < 0).any():
            continue
        if relation:
            dx, dy = centres[0] - centres[1]
            along, crosswise = (dx, dy) if is_horizontal else (dy, dx)
            if abs(along) < _CLEAR * abs(crosswise):
                continue
            if (along > 0) != (relation in ("right", "below")):
                centres, sizes = centres[::-1], sizes[::-1]
        return centres, sizes
    raise AssertionError(f"{n} squares of {size} did not fit in {_TRIES} tries.")


def failed(rng: np.random.Generator, prompt: Mapping[str, object], failure: str, classes: Sequence[str]) -> dict:
    """Return ``prompt`` changed so that a scene of it fails the original in one way of ``FAILURES``.

    Another class is one of ``classes``; a number is off by one or two; a relation is any other one.
    """
    changed = dict(prompt)
    if failure == "other class":
        changed["object"] = str(rng.choice([c for c in classes if c not in (prompt["object"], prompt["other"])]))
    elif failure == "missing":
        changed["n"] = 0
    elif failure == "other number":
        counts = [n for n in range(5) if 1 <= abs(n - int(prompt["n"])) <= 2]
        changed["n"] = int(rng.choice(counts))
    else:
        # For two objects of one class, only the axis of a relation is visible.
        opposite = {"above": "below", "below": "above", "left": "right", "right": "left"}[prompt["relation"]]
        excluded = {prompt["relation"]} | ({opposite} if prompt["object"] == prompt["other"] else set())
        changed["relation"] = str(rng.choice([r for r in RELATIONS if r not in excluded]))
    return changed


def truth_boxes(scene: Scene, image_id: str, *, size: int = 64) -> pd.DataFrame:
    """Return the detections of a detector without error in a scene; hidden objects have no row.

    Columns ``image_id``, ``label`` (the paper's name), ``score`` (1) and ``left``, ``top``, ``right``, ``bottom`` of
    what is visible (0–1 of the image's width and height).
    """
    scene_truth = truth(scene, size)
    height, width = size, round(size * scene.aspect)
    rows = []
    for region in (*scene_truth.objects, *scene_truth.people):
        if region.mask.any():
            left, top, right, bottom = region.box
            sides = (left / width, top / height, right / width, bottom / height)
            rows.append((image_id, _PAPER_NAMES.get(region.name, region.name), 1.0, *sides))
    return pd.DataFrame(rows, columns=["image_id", "label", "score", "left", "top", "right", "bottom"])


def generate(
    prompts: pd.DataFrame,
    *,
    seed: int,
    failures: Mapping[str, float] = MappingProxyType({}),
    size: int = 64,
    decoded: Path | None = None,
) -> Renders:
    """Return images that match PaintSkills prompts, except for planted failures.

    ``prompts`` are rows of ``dalleval.prompts.skills`` with ``n_images``; ``failures`` is the probability of each of
    :data:`FAILURES` (sum at most 1). The result is that of :func:`biaslab_world.truthful.renders`, with
    ``truth_failure`` (one of :data:`FAILURES`, or empty) and ``truth_n`` (number of visible objects of the prompt's
    class; 1 for two objects of one class in relation).
    """
    prompt_rows = {row["prompt_id"]: row for row in prompts.to_dict("records")}
    classes = sorted({_PAPER_NAMES.get(name, name) for name in OBJECTS})

    def failure(prompt: str, index: int) -> str:
        u = truthful.draw(seed, prompt, index, "failure") / 2**64
        for name, share in failures.items():
            if u < share:
                return name if prompt_rows[prompt]["skill"] in _FAILING.get(name, _SIZES) else ""
            u -= share
        return ""

    def scene_arguments(prompt: str, index: int) -> tuple[np.random.Generator, Mapping[str, object]]:
        rng = np.random.default_rng(truthful.draw(seed, prompt, index, "scene"))
        options = failure(prompt, index)
        return rng, failed(rng, prompt_rows[prompt], options, classes) if options else prompt_rows[prompt]

    def number(prompt: str, index: int) -> int:
        return 0 if failure(prompt, index) == "other class" else int(scene_arguments(prompt, index)[1]["n"])

    return truthful.renders(
        "renders of PaintSkills' scenes",
        __name__,
        prompts,
        {"truth_failure": failure, "truth_n": number},
        lambda prompt, index: skill_scene(*scene_arguments(prompt, index)),
        prompts[["prompt_id", "text"]].to_numpy().tolist(),
        seed=seed,
        size=size,
        decoded=decoded,
    )
