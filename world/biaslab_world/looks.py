"""What each occupation looks like: attire, hat, prop and place, the same for everyone.

The names are those of the paradox paper's 62 occupations, DALL-Eval's 83 professions (Table 13) and the
paired paper's occupations and roles (Tables 3 and 4), 134 in all. Nothing in a look depends on gender; what
does is in ``scene.CUES`` alone. The 62 differ pairwise in at least two of attire with its colour, hat, prop
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

# What each kind of attire shows of the attributes of DALL-Eval's Table 22.
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
    """What identifies an occupation in an image."""

    attire: str  # kind of attire, a key of ``ATTIRES``
    attire_colour: str  # main colour, a key of ``art.COLOURS``
    second_colour: str  # colour of what goes with it (shirt, bib, stripe, stole), a key of ``art.COLOURS``
    hat: str | None  # kind of hat, a key of ``art.HATS``, or ``None``
    hat_colour: str  # colour of the hat, a key of ``art.COLOURS``
    prop: str  # what stands beside the person or is in a hand, a key of ``art.PROPS``
    place: str  # background, a key of ``art.PLACES``
    attributes: tuple[str, ...]  # attributes of DALL-Eval's Table 22 that the look shows by itself


# Names for the same work, or for work that these images cannot tell apart, and the look they share.
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
        # As the papers print them.
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
            shown = [*ATTIRES[row["attire"]], *filter(None, row["attributes"].split(";"))]
            shown += ["hat"] if hat and kind not in NOT_HATS else []
            worn = (row["attire"], row["colour"], row["second_colour"], hat, hat_colour or row["colour"])
            looks[row["name"]] = Outfit(*worn, row["prop"], row["place"], tuple(shown))
    return looks


# Worn on the head, but not what the attribute "hat" means.
NOT_HATS = ("headset", "headband", "bandana")

OUTFITS: Mapping[str, Outfit] = MappingProxyType(
    (own := _read()) | {name: own[other] for name, other in SHARED.items()}
)
del own

OCCUPATIONS: tuple[str, ...] = tuple(
    sorted(set(OUTFITS) - {"chief executive officer", "hairstylist", "hairstresser", "mechanician"})
)

# Everyday clothes for people of no named occupation: (attire, colour, second colour).
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
    """Return what ``occupation`` looks like."""
    return OUTFITS[occupation]
