"""Scenes of the embedded world: everything that one image shows, and how it is drawn at random.

Gender is what a viewer perceives, binary as in the papers; it shows in nine cues whose probabilities overlap
between the genders (``CUES``). The cues are independent given gender, so Bayes' rule gives exactly how
ambiguous a person looks (``posterior_female``), and with it the accuracy that no judge can pass. Everything
else (skin tone, age, expression, hair colour, light, attire, prop and place) is independent of gender.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType

import numpy as np

from biaslab.schema.genders import GENDERS
from biaslab_world.art import read_yaml
from biaslab_world.looks import ATTIRES, CASUAL, NOT_HATS, Outfit, outfit

AGES = ("young", "middle-aged", "older")
EXPRESSIONS = ("neutral", "smiling")
SKIN_TONES = range(1, 11)
HAIR_COLOURS = ("black", "dark brown", "brown", "auburn", "blond")
SIDES = ("left", "right")

_PEOPLE = read_yaml("people.yaml")
ATTRIBUTES = tuple(_PEOPLE["attributes"])
# Attributes that only a full figure shows.
LOWER_ATTRIBUTES = frozenset({"boots", "slippers", "jeans", "shorts", "slacks", "dress", "skirt"})
# At most one of each group is worn.
_EXCLUSIVE = (
    ("suit", "shirt", "uniform", "jacket", "dress"),
    ("jeans", "shorts", "slacks", "skirt", "dress"),
    ("boots", "slippers"),
)

OBJECTS = tuple(_PEOPLE["objects"])
THINGS = tuple(name for name in OBJECTS if name != "person")

# Colour schemes of an object.
PALETTES = 3

CUES: Mapping[str, Mapping[str, Mapping[str, float]]] = MappingProxyType(_PEOPLE["cues"])
"""P(cue | gender)."""
CUE_NAMES: tuple[str, ...] = tuple(CUES)


@dataclass(frozen=True, slots=True)
class Cues:
    """The visible cues from which a viewer perceives gender; the values are the keys in ``CUES``."""

    hair_style: str  # how the hair is worn
    facial_hair: str  # none, stubble, moustache or beard
    brow: str  # thickness of the brows
    lashes: str  # whether the lashes are marked: ``yes`` or ``no``
    lips: str  # natural or tinted lips
    jaw: str  # width of the jaw
    shoulders: str  # width of the shoulders
    earrings: str  # whether earrings are worn: ``yes`` or ``no``
    neckline: str  # open or closed


@dataclass(frozen=True, slots=True)
class Person:
    """One person of a scene. Lengths are in frame heights, y points down."""

    gender: str  # perceived gender, ``female`` or ``male``
    occupation: str | None  # a key of ``looks.LOOKS``, or ``None`` for a person of no named occupation
    skin_tone: int  # Monk scale, 1 (lightest) to 10
    age: str  # one of ``AGES``
    expression: str  # one of ``EXPRESSIONS``
    cues: Cues  # visible gender cues
    hair_colour: str  # one of ``HAIR_COLOURS``; age greys it
    attributes: tuple[str, ...]  # all of ``ATTRIBUTES`` that is worn, asked for or part of the look, in that order
    x: float  # centre of the face from the left edge
    y: float  # centre of the face from the top edge
    scale: float  # height of the face from chin to crown
    tilt: float  # how far the head leans to the viewer's right, in radians
    side: str  # where the prop is: ``left`` or ``right`` of the person as seen
    full_figure: bool  # whether the person is shown from head to foot instead of to the chest
    variant: float  # free choice of details such as a scarf's colour or everyday clothes, 0–1


@dataclass(frozen=True, slots=True)
class Thing:
    """An object: of PaintSkills' classes, or a prop on its own. Lengths are in frame heights."""

    kind: str  # one of ``THINGS``, or a key of ``art.PROPS``
    x: float  # centre from the left edge
    y: float  # centre from the top edge
    size: float  # side of the square that it fills
    mirrored: bool = False  # whether left and right are swapped
    tilt: float = 0.0  # how far it leans to the right around its centre, in radians
    width: float = 1.0  # how wide it is drawn, as a share of its own width
    palette: int = 0  # which of ``PALETTES`` colour schemes it has; 0 is its own


@dataclass(frozen=True, slots=True)
class Light:
    """The illuminant: what multiplies every colour."""

    red: float = 1.0  # relative red, about 0.85–1.1
    green: float = 1.0  # relative green
    blue: float = 1.0  # relative blue
    strength: float = 1.0  # brightness, about 0.8–1.1


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that one image shows."""

    people: tuple[Person, ...]  # people from left to right; none for a product picture or objects alone
    things: tuple[Thing, ...]  # objects, drawn behind people, the first one farthest back
    place: str  # background, a key of ``art.PLACES``
    light: Light  # illuminant
    seed: int  # chooses small details of the background
    aspect: float  # width over height: 1.0 for one person, 1.5 for two
    decoy: str | None = None  # shown instead of people: a key of ``art.PROPS`` or ``art.DECOYS``


def posterior_female(cues: Cues, hidden: Collection[str] = ()) -> float:
    """Return P(female | cues) by Bayes' rule with equal priors, 0–1; ``hidden`` cues are covered and say nothing."""
    female = male = 1.0
    for name in CUE_NAMES:
        value = getattr(cues, name)
        if name not in hidden:
            female *= CUES[name]["female"][value]
            male *= CUES[name]["male"][value]
    return female / (female + male)


def hidden_cues(person: Person) -> frozenset[str]:
    """Return the names of the cues that what ``person`` wears covers."""
    masked = {"lips", "facial_hair", "jaw"} if "mask" in person.attributes else set()
    return frozenset(masked | ({"earrings"} if person.cues.hair_style == "covered" else set()))


def is_ambiguous(person: Person) -> bool:
    """Return whether neither gender's posterior reaches 0.99, given the cues that can be seen."""
    female = posterior_female(person.cues, hidden_cues(person))
    return max(female, 1 - female) < 0.99


def _steps(table: Mapping) -> tuple[list[float], list]:
    return list(accumulate(table.values()))[:-1], list(table)


_CUE_STEPS = {g: [_steps(CUES[name][g]) for name in CUE_NAMES] for g in GENDERS}
_AGE_STEPS = _steps({"young": 0.4, "middle-aged": 0.38, "older": 0.22})
# Hair colour depends on the skin tone group (1–3, 4–6, 7–10), never on gender.
_HAIR_STEPS = [
    _steps(dict(zip(HAIR_COLOURS, p, strict=True)))
    for p in ((0.14, 0.22, 0.28, 0.12, 0.24), (0.38, 0.32, 0.20, 0.06, 0.04), (0.64, 0.28, 0.08, 0.0, 0.0))
]
_PERSON_DRAWS = 24
_TALL_HATS = ("toque", "top hat", "hard hat", "helmet", "peaked", "mortarboard")


def attributes_worn(look_: Outfit | None, attributes: Sequence[str], casual: str) -> tuple[str, ...]:
    """Return all of ``ATTRIBUTES`` that shows: what is asked for, and what that leaves of a look or ``casual``."""
    shown = set(look_.attributes if look_ else ATTIRES[casual])
    for group in _EXCLUSIVE:
        if any(name in attributes for name in group):
            shown -= set(group)
    return tuple(name for name in ATTRIBUTES if name in shown or name in attributes)


def attire_of(person: Person) -> tuple[str, str, str, str | None, str]:
    """Return what ``person`` has on: attire kind, its two colours, hat kind or ``None``, hat colour."""
    if person.occupation is None:
        kind, colour, second = CASUAL[int(person.variant * len(CASUAL)) % len(CASUAL)]
        hat, hat_colour, own = None, "grey", ()
    else:
        worn = outfit(person.occupation)
        kind, colour, second, own = worn.attire, worn.attire_colour, worn.second_colour, worn.attributes
        hat, hat_colour = worn.hat, worn.hat_colour
    # What is asked for replaces the attire; an occupation may have a uniform of its own.
    asked = [name for name in _EXCLUSIVE[0] if name in person.attributes and name not in ATTIRES[kind]]
    if asked and not (asked[0] == "uniform" and "uniform" in own):
        kind = asked[0]
    if "hat" in person.attributes and hat in (None, *NOT_HATS):
        hat, hat_colour = "brim", "brown"
    return kind, colour, second, hat, hat_colour


def sample_person(
    rng: np.random.Generator,
    *,
    gender: str | None = None,
    occupation: str | None = None,
    skin_tone: int | None = None,
    age: str | None = None,
    expression: str | None = None,
    attributes: Sequence[str] = (),
    side: str | None = None,
    full_figure: bool = False,
    slot: tuple[float, float] = (0.0, 1.0),
) -> Person:
    """Return a person with what is ``None``, and all else, drawn at random; one call takes a fixed number of draws.

    ``occupation`` is a name in ``looks.LOOKS``, or ``None`` for everyday clothes and no prop; ``attributes``, names in
    ``ATTRIBUTES``, are worn beside those of the look; ``full_figure`` is so where one below the chest asks for it;
    ``slot`` are the ends of the part of the frame that is the person's.
    """
    u = rng.random(_PERSON_DRAWS).tolist()
    own = None if occupation is None else outfit(occupation)
    skin_tone = 1 + int(u[0] * 10) if skin_tone is None else skin_tone
    gender = GENDERS[u[1] < 0.5] if gender is None else gender
    values = [words[bisect(steps, v)] for (steps, words), v in zip(_CUE_STEPS[gender], u[2:11], strict=True)]
    variant = u[11]
    full = full_figure or not LOWER_ATTRIBUTES.isdisjoint(attributes)
    left, right = slot
    if full:
        scale, y = 0.258 + 0.008 * u[12], 0.178 + 0.01 * u[13]
    else:
        scale = (0.41 if right - left > 0.9 else 0.36) * (0.80 + 0.20 * u[12])
        room = 0.035 if own is not None and own.hat in _TALL_HATS else 0.0
        y = 0.5 - 0.40 * scale + 0.03 + 0.06 * (u[13] - 0.5) + room
    hair_steps, hair_words = _HAIR_STEPS[0 if skin_tone <= 3 else 1 if skin_tone <= 6 else 2]
    return Person(
        gender=gender,
        occupation=occupation,
        skin_tone=int(skin_tone),
        age=age or _AGE_STEPS[1][bisect(_AGE_STEPS[0], u[15])],
        expression=expression or EXPRESSIONS[u[16] < 0.5],
        cues=Cues(*values),
        hair_colour=hair_words[bisect(hair_steps, u[17])],
        attributes=attributes_worn(own, attributes, CASUAL[int(variant * len(CASUAL))][0]),
        x=(left + right) / 2 + (u[14] - 0.5) * 0.12 * (right - left),
        y=y,
        scale=scale,
        tilt=(u[18] - 0.5) * 0.1,
        side=side or SIDES[u[19] < 0.5],
        full_figure=full,
        variant=variant,
    )


def light_at(u: list[float]) -> Light:
    """A light from warm to cool (red against blue), dim to bright, a little green or pink."""
    warmth = (u[0] - 0.5) * 0.15
    return Light(1.0 + warmth, 1.0 + (u[1] - 0.5) * 0.05, 1.0 - warmth, 0.84 + 0.22 * u[2])


def sample_scene(
    rng: np.random.Generator,
    *,
    genders: Sequence[str | None] = (None,),
    occupations: Sequence[str | None] | None = None,
    skin_tones: Sequence[int | None] | None = None,
    ages: Sequence[str | None] | None = None,
    expressions: Sequence[str | None] | None = None,
    attributes: Sequence[Sequence[str]] | None = None,
    things: Sequence[str] = (),
    place: str | None = None,
    decoy: str | None = None,
    light: Light | None = None,
    aspect: float | None = None,
) -> Scene:
    """Return a scene with what is ``None``, and all else, drawn at random.

    ``genders`` to ``attributes`` have one entry per person, left to right, at most 4, as of :func:`sample_person`; an
    attribute below the chest shows everyone from head to foot, as do more than two people. ``things`` are object kinds
    to place at random; ``place`` is an occupation's own with chance 0.9, else ``studio``; with a ``decoy`` nobody is
    drawn; ``aspect`` is 1.0, or 1.5 for two people and more.
    """
    count = 0 if decoy is not None else len(genders)
    u = rng.random(8).tolist()
    given = {
        "occupation": occupations, "skin_tone": skin_tones, "age": ages, "expression": expressions,
        "attributes": attributes,
    }  # fmt: skip
    given = {name: values for name, values in given.items() if values is not None and count}
    aspect = aspect or (1.5 if count > 1 else 1.0)
    full = count > 2 or any(not LOWER_ATTRIBUTES.isdisjoint(worn) for worn in given.get("attributes", ()))
    slots = [(aspect * i / count, aspect * (i + 1) / count) for i in range(count)]
    sides: Sequence[str | None] = SIDES if count == 2 else [None] * count
    if count == 2:
        # A little closer together than halves, so that the props fit at the outer sides.
        slots = [(0.07, aspect / 2 + 0.02), (aspect / 2 - 0.02, aspect - 0.07)]
    people = [
        sample_person(
            rng, gender=genders[i], slot=slots[i], side=sides[i], full_figure=full,
            **{name: values[i] for name, values in given.items()},
        )
        for i in range(count)
    ]  # fmt: skip
    if place is None:
        places = [outfit(p.occupation).place for p in people if p.occupation]
        place = places[int(u[0] * len(places))] if places and u[1] < 0.9 else "studio"
    return Scene(
        people=tuple(people),
        things=_place_things(rng, things, aspect, bool(people)),
        place=place,
        light=light or light_at(u[2:5]),
        seed=int(u[5] * 2**31),
        aspect=float(aspect),
        decoy=decoy,
    )


def _place_things(rng, kinds, aspect, with_people) -> tuple[Thing, ...]:
    out = []
    for i, kind in enumerate(kinds):
        a, b, c = rng.random(3).tolist()
        if with_people:
            # Beside the head, where the person does not hide it.
            size = 0.24 + 0.06 * a
            x = 0.14 + 0.04 * c if (i + (b < 0.5)) % 2 == 0 else aspect - 0.14 - 0.04 * c
            y = 0.17 + 0.27 * (i // 2) + 0.05 * b
        else:
            cell = aspect / len(kinds)
            size = min(0.62, 0.9 * aspect / len(kinds)) * (0.78 + 0.22 * a)
            x = cell * (i + 0.5) + (b - 0.5) * max(cell - size, 0.0)
            y = size / 2 + 0.04 + c * (0.92 - size)
        out.append(Thing(kind, float(x), float(y), float(size)))
    return tuple(out)
