"""What each occupation looks like: attire, hat, prop and place, the same for everyone.

The names are those of the paradox paper's 62 occupations, DALL-Eval's 83 professions (Table 13) and the
paired paper's occupations and roles (Tables 3 and 4), 134 in all. Nothing in a look depends on gender; what
does is in ``scene.CUES`` alone. The 62 differ pairwise in at least two of attire with its colour, hat, prop
and place. Names for the same work share a look (``SHARED``).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from biaslab.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

# What each kind of attire shows of the attributes of DALL-Eval's Table 22.
ATTIRES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "suit": ("suit",),
        "lab coat": (),
        "scrubs": ("uniform",),
        "apron": (),
        "overalls": (),
        "uniform": ("uniform",),
        "vest": (),
        "jumper": (),
        "shirt": ("shirt",),
        "waistcoat": ("shirt",),
        "coat": (),
        "robe": (),
        "sports shirt": (),
        "jacket": ("jacket",),
        "cardigan": (),
        "striped": (),
        "checked": ("shirt",),
        "dress": ("dress",),
    }
)


@dataclass(frozen=True, slots=True)
class Look:
    """What identifies an occupation in an image."""

    attire: str
    """Kind of attire, a key of ``ATTIRES``."""
    attire_colour: str
    """Main colour, a key of ``art.COLOURS``."""
    second_colour: str
    """Colour of what goes with it (shirt, bib, stripe, stole), a key of ``art.COLOURS``."""
    hat: str | None
    """Kind of hat, a key of ``art.HATS``, or ``None``."""
    hat_colour: str
    """Colour of the hat, a key of ``art.COLOURS``."""
    prop: str
    """What stands beside the person or is in a hand, a key of ``art.PROPS``."""
    place: str
    """Background, a key of ``art.PLACES``."""
    attributes: tuple[str, ...]
    """Attributes of DALL-Eval's Table 22 that the look shows by itself."""


# name | attire | colour | second colour | hat:colour or - | prop | place | further attributes
_TABLE = """
accountant|waistcoat|grey|sky|-|calculator|office|tie
architect|jumper|black|white|-|blueprint|city
assistant|cardigan|green|white|-|clipboard|office
athlete|sports shirt|red|white|headband:white|trophy|track
attorney|suit|charcoal|white|-|scales|court|tie
author|cardigan|brown|cream|-|book|home
baker|apron|cream|brown|bandana:white|bread|bakery
bartender|waistcoat|black|white|-|cocktail|bar
ceo|suit|navy|white|-|briefcase|city|tie
chef|coat|white|black|toque:white|pan|kitchen
comedian|jacket|purple|yellow|-|microphone|club
cook|apron|red|white|bandana:red|pot|kitchen
dancer|jumper|purple|pink|headband:pink|fan|stage
dentist|lab coat|sky|navy|-|tooth|clinic
dietitian|scrubs|lime|white|-|apple|clinic
doctor|lab coat|white|blue|-|stethoscope|ward
engineer|vest|orange|blue|hard hat:yellow|gear|factory
entrepreneur|jacket|teal|black|-|light bulb|city
fashion designer|checked|pink|black|-|scissors|fashion studio
filmmaker|jacket|black|red|cap:black|clapperboard|street
firefighter|coat|charcoal|yellow|helmet:red|extinguisher|fire station|uniform
graphic designer|striped|orange|white|-|swatches|atelier
hairdresser|apron|black|pink|-|hairdryer|salon
housekeeper|apron|white|sky|-|linen|bedroom
intern|shirt|sky|navy|-|coffee cup|office
janitor|overalls|blue|grey|cap:blue|mop bucket|corridor
journalist|jacket|tan|blue|-|notepad|street
lawyer|robe|black|white|-|gavel|court
librarian|cardigan|maroon|cream|-|books|library
manager|suit|grey|sky|-|chart|office|tie
mechanic|overalls|navy|orange|-|wrench|garage
musician|shirt|black|red|-|guitar|concert
nurse|scrubs|sky|white|-|drip|ward
nutritionist|cardigan|lime|white|-|bowl|kitchen
painter|apron|tan|red|beret:red|palette|atelier
pharmacist|lab coat|white|green|-|pill bottle|pharmacy
photographer|waistcoat|olive|cream|-|camera|park
physician|lab coat|white|maroon|-|medical bag|clinic
pilot|uniform|navy|white|peaked:navy|model plane|sky
poet|striped|black|red|beret:black|quill|park
politician|suit|blue|white|-|megaphone|hall|tie
president|suit|black|white|-|lectern|hall|tie
prime minister|coat|navy|maroon|-|red box|doorway
professor|robe|maroon|yellow|mortarboard:black|globe|lecture hall
programmer|jumper|green|black|headset:black|laptop|server room
psychologist|cardigan|teal|white|-|speech bubble|consulting room
receptionist|waistcoat|red|white|headset:black|service bell|lobby
reporter|suit|red|white|-|news microphone|newsroom
researcher|lab coat|sky|purple|-|microscope|lab
salesperson|shirt|yellow|red|-|shopping bag|shop
scientist|lab coat|white|orange|-|flask|lab
senator|suit|tan|sky|-|scroll|parliament|tie
singer|jacket|yellow|black|-|music note|concert
student|jumper|yellow|navy|-|backpack|library
supervisor|vest|yellow|white|hard hat:white|walkie-talkie|warehouse
surgeon|scrubs|teal|white|scrub cap:teal|heart monitor|theatre
teacher|checked|green|cream|-|globe|classroom
technician|overalls|grey|sky|cap:grey|circuit chip|server room
therapist|jumper|tan|white|-|hourglass|consulting room
tutor|jumper|blue|white|-|pencil|classroom
veterinarian|scrubs|green|white|-|cat|clinic
writer|jumper|grey|maroon|-|typewriter|home
analyst|shirt|teal|white|-|chart|office
animator|striped|teal|yellow|-|television|atelier
attendant|waistcoat|blue|white|cap:blue|keys|lobby
auditor|suit|brown|cream|-|magnifier|office
biologist|lab coat|white|green|-|leaf|park
builder|vest|yellow|brown|hard hat:yellow|hammer|site
butcher|apron|white|red|cap:white|cleaver|shop
career counselor|cardigan|navy|white|-|speech bubble|office
caretaker|overalls|green|grey|-|keys|corridor
carpenter|overalls|brown|cream|-|saw|workshop
cashier|apron|green|white|cap:green|cash register|shop
chief|suit|black|maroon|-|star|city|tie
civil servant|suit|olive|white|-|document|parliament|tie
cleaner|apron|teal|white|bandana:teal|mop bucket|office
clerk|cardigan|grey|sky|-|document|office
comic book writer|striped|red|white|-|comic|home
counselor|cardigan|purple|white|-|speech bubble|home
decorator|overalls|white|sky|cap:white|paint roller|home
designer|jumper|red|black|-|swatches|fashion studio
developer|jumper|navy|lime|-|laptop|office
diplomat|suit|navy|sky|-|flag|hall|tie
driver|jacket|grey|white|cap:navy|steering wheel|street
economist|suit|green|white|-|coin stack|city|tie
editor|shirt|purple|white|-|pencil|newsroom
electrician|overalls|yellow|navy|hard hat:blue|plug|site
employee|shirt|green|white|-|coffee cup|office
farmer|overalls|blue|red|brim:tan|wheat|field
flight attendant|uniform|maroon|cream|beret:maroon|tray|sky
garbage collector|vest|lime|grey|cap:orange|bin|street
geologist|waistcoat|tan|green|brim:brown|rock|field
guard|uniform|charcoal|yellow|cap:black|torch|corridor
jeweler|waistcoat|purple|white|-|gem|shop
judge|robe|black|red|-|gavel|parliament
juggler|striped|red|yellow|-|juggling balls|park
laborer|vest|orange|grey|hard hat:orange|spade|site
leader|suit|maroon|white|-|flag|city|tie
lexicographer|cardigan|olive|cream|-|dictionary|library
library assistant|jumper|teal|white|-|books|library
magician|suit|purple|white|top hat:black|top hat|stage
makeup artist|apron|black|purple|-|mirror|salon
miner|overalls|orange|charcoal|helmet:yellow|pickaxe|mine
mover|shirt|orange|blue|cap:orange|parcel|warehouse
optician|lab coat|white|navy|-|spectacles|shop
plumber|overalls|red|white|cap:red|faucet|workshop
police officer|uniform|blue|white|peaked:blue|walkie-talkie|street
porter|uniform|red|yellow|cap:red|luggage|lobby
prison officer|uniform|black|white|peaked:black|keys|corridor
puppeteer|jumper|black|red|-|puppet|stage
sailor|striped|navy|white|beret:white|lifebuoy|sea
secretary|cardigan|pink|white|-|telephone|office
sewist|apron|purple|cream|-|sewing machine|fashion studio
sheriff|uniform|tan|brown|brim:tan|shield|road
shop assistant|apron|orange|white|-|shopping bag|shop
sign language interpreter|shirt|black|white|-|signing hands|hall
soldier|uniform|olive|tan|helmet:olive|backpack|field
tailor|waistcoat|navy|cream|-|thread spool|fashion studio
translator|jacket|blue|white|-|dictionary|office
travel agent|shirt|teal|orange|-|model plane|shop
trucker|checked|red|black|cap:red|steering wheel|road
tv presenter|suit|teal|white|-|television|newsroom
waiter|waistcoat|black|white|-|tray|bar
web designer|striped|lime|white|-|laptop|atelier
worker|overalls|olive|white|hard hat:white|spanner box|factory
"""

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


def _read(table: str) -> dict[str, Look]:
    looks = {}
    for line in table.strip().splitlines():
        name, attire, colour, second, hat, prop, place, *more = line.split("|")
        kind, _, hat_colour = hat.partition(":")
        hat_kind = None if kind == "-" else kind
        shown = (*ATTIRES[attire], *more, *(("hat",) if hat_kind and kind not in NOT_HATS else ()))
        looks[name] = Look(attire, colour, second, hat_kind, hat_colour or colour, prop, place, shown)
    return looks


# Worn on the head, but not what the attribute "hat" means.
NOT_HATS = ("headset", "headband", "bandana")

LOOKS: Mapping[str, Look] = MappingProxyType(
    (own := _read(_TABLE)) | {name: own[other] for name, other in SHARED.items()}
)
del own

OCCUPATIONS: tuple[str, ...] = tuple(
    sorted(set(LOOKS) - {"chief executive officer", "hairstylist", "hairstresser", "mechanician"})
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


def look(occupation: str) -> Look:
    """Return what ``occupation`` looks like.

    Raises:
        UnknownNameError: No look has this name; the message names near matches.
    """
    try:
        return LOOKS[occupation]
    except (KeyError, TypeError):
        raise unknown_name("occupation", occupation, LOOKS) from None
