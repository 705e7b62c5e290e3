"""Appearance of each occupation: attire, hat, prop and place, the same for both genders.

The names are those of the paradox paper's 62 occupations, DALL-Eval's 83 professions (Table 13) and the
paired paper's occupations and roles (Tables 3 and 4), 134 in all. No look depends on gender; only
``scene.CUES`` do. The 62 occupations differ pairwise in at least two of attire with its colour, hat, prop
and place. Names for the same work share a look (``SHARED``).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Attributes of DALL-Eval's Table 22 that each kind of attire shows.
_NO_ATTRIBUTE = (
    "lab coat", "apron", "overalls", "vest", "jumper", "coat", "robe", "sports shirt", "cardigan", "striped",
)  # fmt: skip
ATTIRES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    dict.fromkeys(_NO_ATTRIBUTE, ())
    | {name: (name,) for name in ("suit", "shirt", "uniform", "jacket", "dress")}
    | {"scrubs": ("uniform",), "waistcoat": ("shirt",), "checked": ("shirt",)}
)


@dataclass(frozen=True, slots=True)
class Outfit:
    """Appearance that identifies an occupation in an image."""

    attire: str  # kind of attire, a key of ``ATTIRES``
    attire_colour: str  # main colour, a key of ``art.COLOURS``
    second_colour: str  # colour of its details (shirt, bib, stripe, stole), a key of ``art.COLOURS``
    hat: str | None  # kind of hat, a key of ``art.HATS``, or ``None``
    hat_colour: str  # colour of the hat, a key of ``art.COLOURS``
    prop: str  # object next to the person or in a hand, a key of ``art.PROPS``
    place: str  # background, a key of ``art.PLACES``
    attributes: tuple[str, ...]  # attributes of DALL-Eval's Table 22 that the look shows by itself


# Names for the same work, or for work that these images cannot distinguish, mapped to the look that they share.
SHARED: Mapping[str, str] = MappingProxyType(
    {
        "executive": "ceo",
        "chief executive officer": "ceo",
        "company director": "ceo",
        "computer programmer": "programmer",
        "construction worker": "builder",
        "director": "filmmaker",
        "film director": "filmmaker",
        "lecturer": "professor",
        "personal assistant": "assistant",
        "solicitor": "attorney",
        # Spelled as in the papers.
        "hairstylist": "hairdresser",
        "hairstresser": "hairdresser",
        "mechanician": "mechanic",
    }
)


def _read() -> dict[str, Outfit]:
    looks = {}
    with open(Path(__file__).with_name("looks.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            # A hat is "kind:colour", or "-" for none.
            kind, _, hat_colour = row["hat"].partition(":")
            hat = None if kind == "-" else kind
            attributes = [*ATTIRES[row["attire"]], *filter(None, row["attributes"].split(";"))]
            attributes += ["hat"] if hat and kind not in NOT_HATS else []
            clothes = (row["attire"], row["colour"], row["second_colour"], hat, hat_colour or row["colour"])
            looks[row["name"]] = Outfit(*clothes, row["prop"], row["place"], tuple(attributes))
    return looks


# Worn on the head, but not covered by the attribute "hat".
NOT_HATS = ("headset", "headband", "bandana")

OUTFITS: Mapping[str, Outfit] = MappingProxyType(
    (listed := _read()) | {name: listed[original] for name, original in SHARED.items()}
)
del listed

OCCUPATIONS: tuple[str, ...] = tuple(
    sorted(set(OUTFITS) - {"chief executive officer", "hairstylist", "hairstresser", "mechanician"})
)

# Everyday clothes for people without a named occupation: (attire, colour, second colour).
CASUAL: tuple[tuple[str, str, str], ...] = (
    ("jumper", "blue", "white"),
    ("jumper", "maroon", "cream"),
    ("shirt", "white", "grey"),
    ("shirt", "sky", "navy"),
    ("cardigan", "grey", "white"),
    ("jacket", "green", "white"),
    ("striped", "blue", "white"),
    ("checked", "orange", "brown"),
)


def outfit(occupation: str) -> Outfit:
    """Return the outfit of ``occupation``."""
    return OUTFITS[occupation]
