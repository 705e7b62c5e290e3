"""Scenes that show what PaintSkills asks for, with what is where; and scenes that fail at it in a known way.

Source: dalleval paper, section 3.2; sizes, margins and failures are this world's own.
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
"""What a scene may fail at."""
# Sides of objects in frame heights: one alone, two in relation, up to four.
_SIZES = MappingProxyType({"object": (0.55, 0.68), "spatial": (0.36, 0.44), "count": (0.30, 0.37)})
# How much further objects in relation lie apart on the relation's axis than on the other.
_CLEAR = 1.5
_TRIES = 400
# Which skills can fail so; others can in any.
_FAILING = MappingProxyType({"other number": ("count",), "other relation": ("spatial",)})
# Full figures are 0.258 high faces in a frame of 1, of which they fill 0.96 (sample_person).
_FACE_OF_FIGURE, _FACE_ABOVE_MIDDLE = 0.258 / 0.96, 0.31
_WORLD_NAMES = MappingProxyType({"bicycle": "bike"})
_PAPER_NAMES = MappingProxyType({world: paper for paper, world in _WORLD_NAMES.items()})


def skill_scene(rng: np.random.Generator, asked: Mapping[str, object]) -> Scene:
    """Return a scene that shows what a prompt of PaintSkills asks for, everything else at random.

    ``asked`` is a row of ``dalleval.prompts.skills``: ``skill``, ``object``, ``n`` (0 to 4), ``relation``, ``other``.
    """
    skill, n, relation = asked["skill"], int(asked["n"]), asked["relation"]
    names = [asked["object"]] * n + [asked["other"]] * (skill == "spatial")
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

    With a relation the first lies there as seen from the second, at least ``_CLEAR`` times as far on the relation's
    axis as on the other. After ``_TRIES`` tries the squares shrink: four of the largest may not fit as they fell.
    """
    across = relation in ("left", "right")
    for attempt in range(_TRIES):
        sizes = rng.uniform(*size, n) * (1 - 0.3 * attempt / _TRIES)
        centres = sizes[:, None] / 2 + rng.random((n, 2)) * (1 - sizes[:, None])
        gaps = np.abs(centres[:, None] - centres[None]).max(axis=2) - (sizes[:, None] + sizes[None]) / 2
        if (gaps[np.triu_indices(n, 1)] < 0).any():
            continue
        if relation:
            dx, dy = centres[0] - centres[1]
            along, beside = (dx, dy) if across else (dy, dx)
            if abs(along) < _CLEAR * abs(beside):
                continue
            if (along > 0) != (relation in ("right", "below")):
                centres, sizes = centres[::-1], sizes[::-1]
        return centres, sizes
    raise AssertionError(f"{n} squares of {size} did not fit in {_TRIES} tries.")


def failed(rng: np.random.Generator, asked: Mapping[str, object], failure: str, classes: Sequence[str]) -> dict:
    """Return what a scene shows instead that fails in one way, of ``FAILURES``, at what is ``asked``.

    Another class is one of ``classes``; a number is off by one or two, a relation is any other.
    """
    shown = dict(asked)
    if failure == "other class":
        shown["object"] = str(rng.choice([c for c in classes if c not in (asked["object"], asked["other"])]))
    elif failure == "missing":
        shown["n"] = 0
    elif failure == "other number":
        near = [n for n in range(5) if 1 <= abs(n - int(asked["n"])) <= 2]
        shown["n"] = int(rng.choice(near))
    else:
        # Of two of a class only the axis can be told.
        turned = {"above": "below", "below": "above", "left": "right", "right": "left"}[asked["relation"]]
        told = {asked["relation"]} | ({turned} if asked["object"] == asked["other"] else set())
        shown["relation"] = str(rng.choice([r for r in RELATIONS if r not in told]))
    return shown


def truth_boxes(scene: Scene, image_id: str, *, size: int = 64) -> pd.DataFrame:
    """Return the objects of a scene as a detector without error would find them; what is hidden has no row.

    Columns ``image_id``, ``label`` (the paper's name), ``score`` (1) and ``left``, ``top``, ``right``, ``bottom`` of
    what is visible (0–1 of the image's width and height).
    """
    known = truth(scene, size)
    height, width = size, round(size * scene.aspect)
    rows = []
    for region in (*known.objects, *known.people):
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
    """Return images for prompts of PaintSkills that show what is asked, but for failures that are planted.

    ``prompts`` are rows of ``dalleval.prompts.skills`` with ``n_images``; ``failures`` says with what probability (at
    most 1 in all) an image fails in each of :data:`FAILURES`. They are as of :func:`biaslab_world.truthful.renders`,
    with ``truth_failure`` (one of :data:`FAILURES`, or empty) and ``truth_n`` (how many objects of the class asked for
    it shows; of two of a class in relation, one).
    """
    asked = {row["prompt_id"]: row for row in prompts.to_dict("records")}
    classes = sorted({_PAPER_NAMES.get(name, name) for name in OBJECTS})

    def failure(prompt: str, index: int) -> str:
        u = truthful.draw(seed, prompt, index, "failure") / 2**64
        for name, share in failures.items():
            if u < share:
                return name if asked[prompt]["skill"] in _FAILING.get(name, _SIZES) else ""
            u -= share
        return ""

    def shown(prompt: str, index: int) -> tuple[np.random.Generator, Mapping[str, object]]:
        rng = np.random.default_rng(truthful.draw(seed, prompt, index, "scene"))
        options = failure(prompt, index)
        return rng, failed(rng, asked[prompt], options, classes) if options else asked[prompt]

    def number(prompt: str, index: int) -> int:
        return 0 if failure(prompt, index) == "other class" else int(shown(prompt, index)[1]["n"])

    return truthful.renders(
        "renders of PaintSkills' scenes",
        __name__,
        prompts,
        {"truth_failure": failure, "truth_n": number},
        lambda prompt, index: skill_scene(*shown(prompt, index)),
        prompts[["prompt_id", "text"]].to_numpy().tolist(),
        seed=seed,
        size=size,
        decoded=decoded,
    )
