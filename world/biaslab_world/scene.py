"""Scenes of the synthetic world: the content of one image, and its random sampling.

Gender is perceived gender, binary as in the papers. It affects nine cues with probabilities that overlap
between the genders (``CUES``). The cues are independent given gender, so Bayes' rule gives the exact ambiguity
of a person (``posterior_female``), and with it the maximum accuracy of any judge. Everything
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

# Number of colour schemes of an object.
PALETTES = 3

CUES: Mapping[str, Mapping[str, Mapping[str, float]]] = MappingProxyType(_PEOPLE["cues"])
"""P(cue | gender)."""
CUE_NAMES: tuple[str, ...] = tuple(CUES)


@dataclass(frozen=True, slots=True)
class Cues:
    """The visible cues from which a viewer perceives gender; the values are the keys in ``CUES``."""

    hair_style: str  # hair style
    facial_hair: str  # none, stubble, moustache or beard
    brow: str  # thickness of the brows
    lashes: str  # whether the lashes are emphasised: ``yes`` or ``no``
    lips: str  # natural or tinted lips
    jaw: str  # width of the jaw
    shoulders: str  # width of the shoulders
    earrings: str  # whether the person wears earrings: ``yes`` or ``no``
    neckline: str  # open or closed


@dataclass(frozen=True, slots=True)
class Person:
    """One person of a scene. Lengths are in frame heights, y points down."""

    gender: str  # perceived gender, ``female`` or ``male``
    occupation: str | None  # a key of ``looks.OUTFITS``, or ``None`` for a person without a named occupation
    skin_tone: int  # Monk scale, 1 (lightest) to 10
    age: str  # one of ``AGES``
    expression: str  # one of ``EXPRESSIONS``
    cues: Cues  # visible gender cues
    hair_colour: str  # one of ``HAIR_COLOURS``; age greys it
    attributes: tuple[str, ...]  # all worn ``ATTRIBUTES``, requested or part of the look, in the order of that tuple
    x: float  # centre of the face from the left edge
    y: float  # centre of the face from the top edge
    scale: float  # height of the face from chin to crown
    tilt: float  # tilt of the head to the viewer's right, in radians
    side: str  # position of the prop: ``left`` or ``right`` of the person in the image
    full_figure: bool  # whether the image shows the person from head to foot instead of to the chest
    variant: float  # random number that selects details such as a scarf's colour or everyday clothes, 0–1


@dataclass(frozen=True, slots=True)
class Thing:
    """An object: of PaintSkills' classes, or a prop without a person. Lengths are in frame heights."""

    kind: str  # one of ``THINGS``, or a key of ``art.PROPS``
    x: float  # centre from the left edge
    y: float  # centre from the top edge
    size: float  # side of the square that it fills
    mirrored: bool = False  # whether left and right are swapped
    tilt: float = 0.0  # tilt to the right around its centre, in radians
    width: float = 1.0  # factor of its default width
    palette: int = 0  # index of its colour scheme, below ``PALETTES``; 0 is the default


@dataclass(frozen=True, slots=True)
class Light:
    """The illuminant, which multiplies every colour."""

    red: float = 1.0  # relative red, about 0.85–1.1
    green: float = 1.0  # relative green
    blue: float = 1.0  # relative blue
    strength: float = 1.0  # brightness, about 0.8–1.1


@dataclass(frozen=True, slots=True)
class Scene:
    """The content of one image."""

    people: tuple[Person, ...]  # people from left to right; none for a product image or objects alone
    things: tuple[Thing, ...]  # objects, drawn behind people, the first one farthest back
    place: str  # background, a key of ``art.PLACES``
    light: Light  # illuminant
    seed: int  # chooses small details of the background
    aspect: float  # width over height: 1.0 for one person, 1.5 for two
    decoy: str | None = None  # shown instead of people: a key of ``art.PROPS`` or ``art.DECOYS``


def posterior_female(cues: Cues, hidden: Collection[str] = ()) -> float:
    """Return P(female | cues) by Bayes' rule with equal priors, 0–1; ``hidden`` cues are ignored."""
    female = male = 1.0
    for name in CUE_NAMES:
        value = getattr(cues, name)
        if name not in hidden:
            female *= CUES[name]["female"][value]
            male *= CUES[name]["male"][value]
    return female / (female + male)


def hidden_cues(person: Person) -> frozenset[str]:
    """Return the names of the cues that the clothes of ``person`` cover."""
    masked = {"lips", "facial_hair", "jaw"} if "mask" in person.attributes else set()
    return frozenset(masked | ({"earrings"} if person.cues.hair_style == "covered" else set()))


def is_ambiguous(person: Person) -> bool:
    """Return whether neither gender's posterior reaches 0.99, given the visible cues."""
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


def attributes_worn(look: Outfit | None, attributes: Sequence[str], casual: str) -> tuple[str, ...]:
    """Return the visible ``ATTRIBUTES``: the requested ones, and those of a look or ``casual`` compatible with them."""
    visible = set(look.attributes if look else ATTIRES[casual])
    for group in _EXCLUSIVE:
        if any(name in attributes for name in group):
            visible -= set(group)
    return tuple(name for name in ATTRIBUTES if name in visible or name in attributes)


def attire_of(person: Person) -> tuple[str, str, str, str | None, str]:
    """Return the clothes of ``person``: attire kind, its two colours, hat kind or ``None``, hat colour."""
    if person.occupation is None:
        kind, colour, second_colour = CASUAL[int(person.variant * len(CASUAL)) % len(CASUAL)]
        hat, hat_colour, look_attributes = None, "grey", ()
    else:
        look = outfit(person.occupation)
        kind, colour, second_colour, look_attributes = (
            look.attire,
            look.attire_colour,
            look.second_colour,
            look.attributes,
        )
        hat, hat_colour = look.hat, look.hat_colour
    # A requested attribute replaces the attire, except that an occupation may have its specific uniform.
    requested = [name for name in _EXCLUSIVE[0] if name in person.attributes and name not in ATTIRES[kind]]
    if requested and not (requested[0] == "uniform" and "uniform" in look_attributes):
        kind = requested[0]
    if "hat" in person.attributes and hat in (None, *NOT_HATS):
        hat, hat_colour = "brim", "brown"
    return kind, colour, second_colour, hat, hat_colour


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
    """Return a person with random values for arguments that are ``None`` and for everything else.

    One call takes a fixed number of random numbers. ``occupation`` is a key of ``looks.OUTFITS``, or ``None`` for
    everyday clothes and no prop; ``attributes``, names in ``ATTRIBUTES``, are worn in addition to those of the look. An
    attribute below the chest implies ``full_figure``; ``slot`` is the horizontal range of the frame for the person.
    """
    u = rng.random(_PERSON_DRAWS).tolist()
    look = None if occupation is None else outfit(occupation)
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
        room = 0.035 if look is not None and look.hat in _TALL_HATS else 0.0
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
        attributes=attributes_worn(look, attributes, CASUAL[int(variant * len(CASUAL))][0]),
        x=(left + right) / 2 + (u[14] - 0.5) * 0.12 * (right - left),
        y=y,
        scale=scale,
        tilt=(u[18] - 0.5) * 0.1,
        side=side or SIDES[u[19] < 0.5],
        full_figure=full,
        variant=variant,
    )


def light_at(u: list[float]) -> Light:
    """Return a light from three numbers (0–1): warm to cool (red against blue), green to pink, dim to bright."""
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
    """Return a scene with random values for arguments that are ``None`` and for everything else.

    ``genders`` to ``attributes`` have one entry per person, left to right, at most 4; see :func:`sample_person`. With
    an attribute below the chest or more than two people, everyone is shown from head to foot. ``things`` are object
    kinds to place at random. ``place`` is an occupation's with probability 0.9, else ``studio``. A scene with a
    ``decoy`` has no people. ``aspect`` is 1.0, or 1.5 for two or more people.
    """
    count = 0 if decoy is not None else len(genders)
    u = rng.random(8).tolist()
    person_options = {
        "occupation": occupations, "skin_tone": skin_tones, "age": ages, "expression": expressions,
        "attributes": attributes,
    }  # fmt: skip
    person_options = {name: values for name, values in person_options.items() if values is not None and count}
    aspect = aspect or (1.5 if count > 1 else 1.0)
    full = count > 2 or any(not LOWER_ATTRIBUTES.isdisjoint(names) for names in person_options.get("attributes", ()))
    slots = [(aspect * i / count, aspect * (i + 1) / count) for i in range(count)]
    sides: Sequence[str | None] = SIDES if count == 2 else [None] * count
    if count == 2:
        # The slots are closer together than halves, so that the props fit at the outer sides.
        slots = [(0.07, aspect / 2 + 0.02), (aspect / 2 - 0.02, aspect - 0.07)]
    people = [
        sample_person(
            rng, gender=genders[i], slot=slots[i], side=sides[i], full_figure=full,
            **{name: values[i] for name, values in person_options.items()},
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
            # Next to the head, where the person does not hide it.
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
