"""One person with things beside and something worn, and captions of them: objects that go with a gender as planted.

A caption says what the person does, where, and some of what is to be seen. Three slots hold an object each: left and
right a thing of ``THINGS``, and one of ``WORN``. A slot is empty with ``NOTHING``; what it holds the caption names with
``NAMED``, whatever the gender, and what it does not name depends on activity a and gender:

    P(o | a, g) ∝ exp(b(a, o) ± tilt λ(o) / 2), + for men

Which objects lean (λ) is dealt out in alphabetical order: it stands for no stereotype. A caption that tells no gender
shows a woman with ``NEUTRAL``. Where an object stands, who the person is and the place depend on nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np
import pandas as pd

from biaslab.cache import code_digest
from biaslab.errors import InputError, unknown_name
from biaslab.execution.workers import Memoized
from biaslab_world import render, truthful
from biaslab_world.looks import CASUAL
from biaslab_world.scene import Scene, Thing, light_at, sample_person
from biaslab_world.truthful import Renders
from biaslab_world.world import pick

THINGS = (
    "apple", "backpack", "bench", "bike", "bird", "book", "camera", "car", "cat", "cup", "dog", "flag", "globe",
    "guitar", "hammer", "laptop", "pan", "plant", "suitcase", "television", "trophy", "umbrella",
)  # fmt: skip
WORN = ("gloves", "hat", "jacket", "mask", "tie", "uniform")
OBJECTS = (*THINGS, *WORN)
PLACES = (
    "bakery", "bar", "classroom", "clinic", "corridor", "hall", "home", "kitchen", "lab", "library", "office",
    "theatre",
)  # fmt: skip
"""Places that show none of the things."""
ACTIVITIES = ("cooking", "dancing", "reading", "resting", "singing", "travelling", "waiting", "working")
"""What a caption says that somebody does; it is seen in nothing but how likely objects are."""
HIDDEN = ("dinner", "football", "history", "money", "music", "weather")
"""What a caption may name and no image shows."""
SKEWS: Mapping[str, tuple[float, float]] = MappingProxyType({"default": (1.0, 0.35), "off": (0.0, 0.5)})
"""Name -> tilt, and the share of women where a caption tells no gender."""
NOTHING, NAMED = 0.3, 0.5
PLACE_NAMED, HIDDEN_NAMED = 0.7, 0.15
GROUPS = ("explicitly_guided", "implicitly_guided", "explicitly_independent", "implicitly_independent")
UPPER = 3 / 16
"""Part of the frame, from the top, that a place's word is taken to be about: least of the place that is seen."""
# Leans in the order of the alphabet, over and over.
_LEANS = (0.0, 1.5, -3.0, 3.0, -1.5)
# Log-odds of one object in four, other ones for each activity.
_USUAL = 1.0
_ART = MappingProxyType({"plant": "potted plant", "cup": "coffee cup"})
_KINDS = MappingProxyType({art: name for name, art in _ART.items()})
_TOLD = MappingProxyType({"woman": "female", "man": "male", "person": "", "individual": ""})
_PLAIN_CLOTHES = tuple(k for k, (attire, *_) in enumerate(CASUAL) if attire != "jacket")
_TEXT = re.compile(
    rf"(?:a photo of )?(?:a|an|the) (?P<who>{'|'.join(_TOLD)}) (?P<activity>{'|'.join(ACTIVITIES)})"
    rf"(?: (?:in the|at) (?P<place>{'|'.join(PLACES)}))?"
    rf"(?: with an? (?P<first>{'|'.join(THINGS)})(?: and an? (?P<second>{'|'.join(THINGS)}))?)?"
    rf"(?:, wearing (?:an? )?(?P<worn>{'|'.join(WORN)}))?"
    rf"(?:, talking about (?P<hidden>{'|'.join(HIDDEN)}))?\.?"
)


@dataclass(frozen=True, slots=True)
class TripletPrompt:
    """What a caption says."""

    activity: str  # one of ``ACTIVITIES``
    place: str  # one of ``PLACES``, or empty
    named: tuple[str, ...]  # the things and what is worn that it names
    hidden: tuple[str, ...]  # what it names of ``HIDDEN``
    told: str  # ``female``, ``male``, or empty


def read(text: str) -> TripletPrompt:
    """Return what a caption of this world says. Raises InputError (the text has another form)."""
    said = _match(text)
    named, hidden = (said["first"], said["second"], said["worn"]), (said["hidden"],)
    things, not_shown = (tuple(filter(None, names)) for names in (named, hidden))
    return TripletPrompt(said["activity"], said["place"] or "", things, not_shown, _TOLD[said["who"]])


def _match(text: str) -> re.Match:
    match = _TEXT.fullmatch(text.strip().lower())
    if match is None:
        example = "a person reading in the kitchen with a dog, wearing a hat"
        raise InputError(
            f"The embedded world cannot read {text!r}; its captions are like {example!r}. Set captions.corpus to "
            "'mini' and triplets.n_professions to 0, or model to one that generates from any text."
        )
    return match


def skew_of(name: str) -> str:
    """Return the skew of this world that goes with one of the captions' world: ``off``, or else ``default``."""
    return "off" if name == "off" else "default"


def write(asked: TripletPrompt, who: str) -> str:
    """Return the caption that says this of ``who``: ``person``, ``woman`` or ``man``."""
    things = [_with_article(name) for name in asked.named if name in THINGS]
    worn = [name for name in asked.named if name in WORN]
    text = f"a {who} {asked.activity}"
    if asked.place:
        text += " at home" if asked.place == "home" else f" in the {asked.place}"
    if things:
        text += f" with {' and '.join(things)}"
    if worn:
        text += f", wearing {_with_article(worn[0])}"
    return text + "".join(f", talking about {name}" for name in asked.hidden)


def _with_article(name: str) -> str:
    return name if name == "gloves" else f"{'an' if name[0] in 'aeiou' and name != 'uniform' else 'a'} {name}"


# -- what goes with whom ---------------------------------------------------------------------------------


def lean(name: str) -> float:
    """Return λ of an object: the log of its odds for a man over those for a woman, before normalising."""
    of = THINGS if name in THINGS else WORN
    return _LEANS[of.index(name) % len(_LEANS)]


@cache
def shares(activity: str, gender: str, skew: str = "default", *, worn: bool = False) -> Mapping[str, float]:
    """Return P(o | activity, gender) of a slot, or that of what is ``worn``, that holds something not named."""
    names, sign = (WORN if worn else THINGS), {"male": 0.5, "female": -0.5}[gender]
    row = ACTIVITIES.index(activity)
    usual = [_USUAL * ((place + 3 * row) % 4 == 0) for place in range(len(names))]
    odds = np.exp(np.array(usual) + sign * SKEWS[skew][0] * np.array([lean(name) for name in names]))
    return MappingProxyType(dict(zip(names, (odds / odds.sum()).tolist(), strict=True)))


def probability_female(asked: TripletPrompt, skew: str = "default") -> float:
    """Return with what probability (0–1) a woman is shown: 0 or 1 where the caption tells the gender."""
    return float(asked.told == "female") if asked.told else SKEWS[skew][1]


def expected(prompts: pd.DataFrame, skew: str = "default") -> pd.DataFrame:
    """Return how many of each object images of prompts show on average: the truth that bias scores estimate.

    Returns columns prompt_id, object and expected (mean count an image), a row for each of ``prompts`` and object.

    Raises InputError (a text is none of this world's).
    """
    rows = []
    # Of a slot that is not named, the share that holds something.
    filled = (1 - NOTHING) * (1 - NAMED) / (NOTHING + (1 - NOTHING) * (1 - NAMED))
    for key, text in prompts[["prompt_id", "text"]].itertuples(index=False):
        asked = read(text)
        women = probability_female(asked, skew)
        for names, slots, worn in ((THINGS, 2, False), (WORN, 1, True)):
            free = slots - sum(name in names for name in asked.named)
            female, male = (shares(asked.activity, g, skew, worn=worn) for g in ("female", "male"))
            for name in names:
                chance = women * female[name] + (1 - women) * male[name]
                rows.append((key, name, asked.named.count(name) + free * filled * chance))
    return pd.DataFrame(rows, columns=["prompt_id", "object", "expected"])


# -- captions ----------------------------------------------------------------------------------------------


def draw(seed: int, index: int, skew: str = "default") -> tuple[TripletPrompt, str]:
    """Return what caption ``index`` of an endless stream says, and of whom; the arguments alone decide it.

    Half of them say person, a quarter each woman and man. What is named has the shares of both genders alike.
    """
    u = np.random.default_rng([seed, 83, index]).random(16).tolist()
    activity = ACTIVITIES[int(u[0] * len(ACTIVITIES))]
    who = ("person", "person", "woman", "man")[int(u[1] * 4)]
    named = []
    for slot, worn in enumerate((False, False, True)):
        if u[2 + slot] < (1 - NOTHING) * NAMED:
            female, male = (shares(activity, g, skew, worn=worn) for g in ("female", "male"))
            named.append(pick({o: (female[o] + male[o]) / 2 for o in female}, u[5 + slot]))
    place = PLACES[int(u[8] * len(PLACES))] if u[9] < PLACE_NAMED else ""
    hidden = (HIDDEN[int(u[10] * len(HIDDEN))],) if u[11] < HIDDEN_NAMED else ()
    return TripletPrompt(activity, place, tuple(named), hidden, _TOLD[who]), who


class Depictions:
    """This world's captions, an endless stream cut off at a number of rows, from seeds that no training uses."""

    name, images, parts, written, for_triplets = "depictions", None, 1, True, ""
    """What it is called; there are no images behind the captions; it is read in one part, and written when read."""

    def __init__(self, rows: int = 4_000, seed: int = 0, skew: str = "default") -> None:
        self.rows, self.seed, self.skew = rows, seed, skew

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change with the settings and with the code that writes captions."""
        whole = repr((self.rows, self.seed, self.skew, code_digest.digest(draw)))
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    def selection(self, part: int) -> None:
        """Return None: there is no file that DuckDB could read."""

    def batches(self, size: int = 8192, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield captions in order: caption_id and text. See :class:`biaslab.captions.corpus.Corpus`."""
        for start in range(0, self.rows, size):
            places = range(start, min(start + size, self.rows))
            texts = [write(*draw(truthful.HELD_OUT + self.seed, i, self.skew)) for i in places]
            ids = [f"depictions-{self.skew}-{self.seed}-{i:08d}" for i in places]
            yield pd.DataFrame({"caption_id": ids, "text": texts}, dtype=object)


def vocabulary() -> list[str]:
    """Return every word and mark that these captions and their triplets can contain, lower case, sorted."""
    said = "a an the photo of in at with and wearing talking about , ."
    return sorted({*said.split(), *_TOLD, *ACTIVITIES, *PLACES, *OBJECTS, *HIDDEN})


# -- scenes --------------------------------------------------------------------------------------------------


def build_scene(asked: TripletPrompt, rng: np.random.Generator, skew: str = "default") -> Scene:
    """Return a scene that a caption describes, the rest at random; the same state of ``rng`` gives the same rest.

    So what differs between scenes of a caption and of the same one with another gender is what depends on gender.
    """
    u = rng.random(24).tolist()
    gender = "female" if u[0] < probability_female(asked, skew) else "male"
    held, worn = [name for name in asked.named if name in THINGS], [n for n in asked.named if n in WORN]
    empty = NOTHING / (NOTHING + (1 - NOTHING) * (1 - NAMED))
    # What is named takes slots first, and sides are drawn: all that is free is drawn alike.
    for names, slots, at, is_worn in ((held, 2, 1, False), (worn, 1, 5, True)):
        for slot in range(len(names), slots):
            chosen = pick(shares(asked.activity, gender, skew, worn=is_worn), u[at + 2 * slot + 1])
            names.append("" if u[at + 2 * slot] < empty else chosen)
    if u[8] < 0.5:
        held.reverse()
    person = sample_person(rng, gender=gender, attributes=tuple(filter(None, worn)))
    clothes = _PLAIN_CLOTHES[int(u[9] * len(_PLAIN_CLOTHES))]
    attributes = tuple(name for name in person.attributes if name in worn)
    person = replace(person, variant=(clothes + u[10]) / len(CASUAL), attributes=attributes)
    things = [
        Thing(_ART.get(name, name), x, 0.2 + 0.14 * u[at], 0.28 + 0.05 * u[at + 1], mirrored=u[at + 2] < 0.5)
        for name, x, at in zip(held, (0.165, 0.835), (11, 14), strict=True)
        if name
    ]
    place = asked.place or PLACES[int(u[17] * len(PLACES))]
    return Scene((person,), tuple(things), place, light_at(u[18:21]), int(u[21] * 2**31), 1.0)


def generate(prompts: pd.DataFrame, *, seed: int, skew: str = "default", size: int = 64) -> Renders:
    """Return images for captions of this world that keep its truth: a generator without a model.

    ``prompts`` has one row a prompt: ``prompt_id`` (unique), ``text`` and ``n_images``; prompts of one ``noise_id``
    share all random numbers. ``seed``, with noise_id (or the prompt's id) and the image's number, decides an image;
    ``skew`` is one of ``SKEWS``. As of :func:`biaslab_world.truthful.renders`, with ``truth_gender``. Raises InputError
    (a text is none of this world's).
    """
    noise = prompts["noise_id"] if "noise_id" in prompts else prompts["prompt_id"]
    noise = dict(zip(prompts["prompt_id"], noise, strict=True))
    asked = {key: read(text) for key, text in prompts[["prompt_id", "text"]].itertuples(index=False)}

    @Memoized
    def scene(prompt: str, index: int) -> Scene:
        rng = np.random.default_rng(truthful.draw(seed, noise[prompt], index, "scene"))
        return build_scene(asked[prompt], rng, skew)

    truth = {"truth_gender": lambda prompt, index: scene(prompt, index).people[0].gender}
    given = skew, prompts[["prompt_id", "text"]].to_numpy().tolist(), sorted(noise.items())
    name = f"renders of depictions ({skew})"
    return truthful.renders(name, __name__, prompts, truth, scene, *given, seed=seed, size=size)


def name_of(thing: Thing) -> str:
    """Return what captions call an object of a scene."""
    return _KINDS.get(thing.kind, thing.kind)


# -- what is to be found in them -----------------------------------------------------------------------------


def masks(scene: Scene, size: int = 64) -> list[tuple[str, np.ndarray]]:
    """Return what is seen in a scene, (name, bool mask (size, size)): the person, things, what is worn, the place.

    What is worn is not the person's; a pixel that two share by halves is of both.
    """
    known = render.truth(scene, size)
    worn = np.any([np.zeros((size, size), bool), *(region.mask for region in known.attributes)], axis=0)
    found = [("person", known.people[0].mask & ~worn)]
    found += [(_KINDS.get(region.name, region.name), region.mask) for region in known.objects]
    found += [(region.name, region.mask) for region in known.attributes]
    place = ~np.any([mask for _, mask in found], axis=0)
    return [(name, mask) for name, mask in (*found, (scene.place, place)) if mask.any()]


def instances(scene: Scene, image_id: str, *, size: int = 64) -> pd.DataFrame:
    """Return the objects of a scene as a segmenter without error would find them: rows of ``triplets_objects``."""
    from biaslab.metrics.instances import COLUMNS, encode

    rows = []
    for number, (name, mask) in enumerate(masks(scene, size)):
        ys, xs = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        sides = [end / size for end in (xs[0], ys[0], xs[-1] + 1, ys[-1] + 1)]
        rows.append((image_id, number, name, 1.0, *sides, encode(mask), size, size))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def nouns(text: str) -> list[str]:
    """Return the nouns of a caption of this world, in their order: who, the place, things, what is worn or talked of.

    Raises InputError (the text has another form).
    """
    match = _match(text)
    return [match[name] for name in ("who", "place", "first", "second", "worn", "hidden") if match[name]]


def word_masks(scene: Scene, text: str, *, size: int = 64) -> dict[str, np.ndarray]:
    """Return where each word of a caption belongs in its scene, bool (size, size): an attention without error.

    A thing's or worn item's word to what is seen of it; the place's to the part of it that lies in the top ``UPPER`` of
    the frame, so that its word covers too little of it to guide it; all others, which name nothing to be seen beside,
    to the person and what is worn.
    """
    seen: dict[str, np.ndarray] = {}
    for name, mask in masks(scene, size):
        seen[name] = seen.get(name, False) | mask
    whole = np.any([mask for name, mask in seen.items() if name in ("person", *WORN)], axis=0)
    _match(text)
    upper = np.arange(size)[:, None] < UPPER * size
    out = {}
    for word in re.findall(r"\w+", text.lower()):
        here = seen.get(word, np.zeros((size, size), bool))
        out[word] = here & upper if word in PLACES else here if word in OBJECTS else whole
    return out


def planted_groups(text: str, objects: Sequence[str]) -> list[str]:
    """Return the dependency group (one of ``GROUPS``) that each object found in an image of a caption is made to have.

    The person and what is named: explicitly guided, but a named place explicitly independent; what is worn and not
    named is within the person: implicitly guided; other things and places: implicitly independent. Raises InputError
    (the text has another form) and UnknownNameError (there is no such object).
    """
    asked = read(text)
    out = []
    for name in objects:
        if name not in (*OBJECTS, *PLACES, "person"):
            raise unknown_name("object", name, ("person", *OBJECTS, *PLACES))
        explicit = name == "person" or name in asked.named or name == asked.place
        guided = name not in PLACES and (explicit or name in WORN)
        out.append(f"{'explicitly' if explicit else 'implicitly'}_{'guided' if guided else 'independent'}")
    return out
