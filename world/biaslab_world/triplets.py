"""One person with objects at the sides and a worn item, and captions: objects with a planted gender association.

A caption states the person's activity, the place and some of the visible objects. Each of three slots holds one
object: left and right one of ``THINGS``, and a worn one of ``WORN``. A slot is empty with probability ``NOTHING``. The
caption names its object with probability ``NAMED`` for either gender; an unnamed object depends on activity a and
gender g:

    P(o | a, g) ∝ exp(b(a, o) ± tilt λ(o) / 2), + for men

The associations λ are assigned in alphabetical order and follow no stereotype. For a caption without a gender, the
share of women is that of ``SKEWS``. The object's position, the person and the place are independent of everything else.
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
"""The person's activity in a caption; it affects only the probabilities of objects."""
HIDDEN = ("dinner", "football", "history", "money", "music", "weather")
"""Nouns that a caption may contain and no image shows."""
SKEWS: Mapping[str, tuple[float, float]] = MappingProxyType({"default": (1.0, 0.35), "off": (0.0, 0.5)})
"""Name -> tilt, and the share of women for captions without a gender."""
NOTHING, NAMED = 0.3, 0.5
PLACE_NAMED, HIDDEN_NAMED = 0.7, 0.15
GROUPS = ("explicitly_guided", "implicitly_guided", "explicitly_independent", "implicitly_independent")
UPPER = 3 / 16
"""Share of the frame, from the top, to which a place's word refers; it covers little of the visible place."""
# Gender associations λ, repeated over the objects in alphabetical order.
_LAMBDAS = (0.0, 1.5, -3.0, 3.0, -1.5)
# Log-odds of one object in four; the objects differ by activity.
_USUAL_LOG_ODDS = 1.0
_ART = MappingProxyType({"plant": "potted plant", "cup": "coffee cup"})
_KINDS = MappingProxyType({art: name for name, art in _ART.items()})
_GENDERS_NAMED = MappingProxyType({"woman": "female", "man": "male", "person": "", "individual": ""})
_PLAIN_CLOTHES = tuple(k for k, (attire, *_) in enumerate(CASUAL) if attire != "jacket")
_PATTERN = re.compile(
    rf"(?:a photo of )?(?:a|an|the) (?P<who>{'|'.join(_GENDERS_NAMED)}) (?P<activity>{'|'.join(ACTIVITIES)})"
    rf"(?: (?:in the|at) (?P<place>{'|'.join(PLACES)}))?"
    rf"(?: with an? (?P<first>{'|'.join(THINGS)})(?: and an? (?P<second>{'|'.join(THINGS)}))?)?"
    rf"(?:, wearing (?:an? )?(?P<worn>{'|'.join(WORN)}))?"
    rf"(?:, talking about (?P<hidden>{'|'.join(HIDDEN)}))?\.?"
)


@dataclass(frozen=True, slots=True)
class TripletPrompt:
    """The parsed content of a caption."""

    activity: str  # one of ``ACTIVITIES``
    place: str  # one of ``PLACES``, or empty
    named: tuple[str, ...]  # things and worn objects in the caption
    hidden: tuple[str, ...]  # nouns of ``HIDDEN`` in the caption
    gender: str  # gender in the caption: ``female``, ``male``, or empty


def parse(text: str) -> TripletPrompt:
    """Return the parsed content of a caption of this world. Raises InputError (the text has another form)."""
    match = _match(text)
    object_names, hidden_names = (match["first"], match["second"], match["worn"]), (match["hidden"],)
    objects, invisible = (tuple(filter(None, names)) for names in (object_names, hidden_names))
    return TripletPrompt(match["activity"], match["place"] or "", objects, invisible, _GENDERS_NAMED[match["who"]])


def _match(text: str) -> re.Match:
    match = _PATTERN.fullmatch(text.strip().lower())
    if match is None:
        example = "a person reading in the kitchen with a dog, wearing a hat"
        raise InputError(
            f"The synthetic world cannot read {text!r}; an example of its captions is {example!r}. Set captions.corpus "
            "to 'mini' and triplets.n_professions to 0, or choose a model that accepts any text."
        )
    return match


def skew_of(name: str) -> str:
    """Return the skew of this world that matches a skew of the captions' world: ``off``, or else ``default``."""
    return "off" if name == "off" else "default"


def write(prompt: TripletPrompt, person: str) -> str:
    """Return the caption of ``prompt`` for ``person``: ``person``, ``woman`` or ``man``."""
    things = [_with_article(name) for name in prompt.named if name in THINGS]
    worn = [name for name in prompt.named if name in WORN]
    text = f"a {person} {prompt.activity}"
    if prompt.place:
        text += " at home" if prompt.place == "home" else f" in the {prompt.place}"
    if things:
        text += f" with {' and '.join(things)}"
    if worn:
        text += f", wearing {_with_article(worn[0])}"
    return text + "".join(f", talking about {name}" for name in prompt.hidden)


def _with_article(name: str) -> str:
    return name if name == "gloves" else f"{'an' if name[0] in 'aeiou' and name != 'uniform' else 'a'} {name}"


# -- gender associations of objects ----------------------------------------------------------------------


def association(name: str) -> float:
    """Return λ of an object: the log-odds ratio of a man to a woman, before normalizing."""
    names = THINGS if name in THINGS else WORN
    return _LAMBDAS[names.index(name) % len(_LAMBDAS)]


@cache
def shares(activity: str, gender: str, skew: str = "default", *, worn: bool = False) -> Mapping[str, float]:
    """Return P(o | activity, gender) of a slot with an unnamed object, or of the slot of ``worn`` objects."""
    names, sign = (WORN if worn else THINGS), {"male": 0.5, "female": -0.5}[gender]
    row = ACTIVITIES.index(activity)
    usual = [_USUAL_LOG_ODDS * ((place + 3 * row) % 4 == 0) for place in range(len(names))]
    odds = np.exp(np.array(usual) + sign * SKEWS[skew][0] * np.array([association(name) for name in names]))
    return MappingProxyType(dict(zip(names, (odds / odds.sum()).tolist(), strict=True)))


def probability_female(prompt: TripletPrompt, skew: str = "default") -> float:
    """Return the probability (0–1) of a woman: 0 or 1 for captions with a gender."""
    return float(prompt.gender == "female") if prompt.gender else SKEWS[skew][1]


def expected(prompts: pd.DataFrame, skew: str = "default") -> pd.DataFrame:
    """Return the mean count of each object in images of prompts: the ground truth that bias scores estimate.

    The columns are prompt_id, object and expected (mean count per image), with one row per prompt and object.

    Raises InputError (a text has another form).
    """
    rows = []
    # Share of unnamed slots that hold an object.
    filled = (1 - NOTHING) * (1 - NAMED) / (NOTHING + (1 - NOTHING) * (1 - NAMED))
    for key, text in prompts[["prompt_id", "text"]].itertuples(index=False):
        prompt = parse(text)
        women = probability_female(prompt, skew)
        for names, slots, worn in ((THINGS, 2, False), (WORN, 1, True)):
            free = slots - sum(name in names for name in prompt.named)
            female, male = (shares(prompt.activity, g, skew, worn=worn) for g in ("female", "male"))
            for name in names:
                chance = women * female[name] + (1 - women) * male[name]
                rows.append((key, name, prompt.named.count(name) + free * filled * chance))
    return pd.DataFrame(rows, columns=["prompt_id", "object", "expected"])


# -- captions ----------------------------------------------------------------------------------------------


def draw(seed: int, index: int, skew: str = "default") -> tuple[TripletPrompt, str]:
    """Return the content of caption ``index`` of an unlimited stream, and its word for the person.

    They depend on the arguments alone. Half of the captions say person, a quarter each woman and man. Named objects
    have the same shares for both genders.
    """
    u = np.random.default_rng([seed, 83, index]).random(16).tolist()
    activity = ACTIVITIES[int(u[0] * len(ACTIVITIES))]
    person = ("person", "person", "woman", "man")[int(u[1] * 4)]
    objects = []
    for slot, worn in enumerate((False, False, True)):
        if u[2 + slot] < (1 - NOTHING) * NAMED:
            female, male = (shares(activity, g, skew, worn=worn) for g in ("female", "male"))
            objects.append(pick({o: (female[o] + male[o]) / 2 for o in female}, u[5 + slot]))
    place = PLACES[int(u[8] * len(PLACES))] if u[9] < PLACE_NAMED else ""
    hidden = (HIDDEN[int(u[10] * len(HIDDEN))],) if u[11] < HIDDEN_NAMED else ()
    return TripletPrompt(activity, place, tuple(objects), hidden, _GENDERS_NAMED[person]), person


class Depictions:
    """This world's captions, an unlimited stream truncated to a number of rows, from seeds that training never uses."""

    name, images, parts, written, for_triplets = "depictions", None, 1, True, ""
    """Name of the corpus, which has no images and a single part; its captions are written when they are read."""

    def __init__(self, rows: int = 4_000, seed: int = 0, skew: str = "default") -> None:
        self.rows, self.seed, self.skew = rows, seed, skew

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that depend on the settings and on the code that writes captions."""
        settings = repr((self.rows, self.seed, self.skew, code_digest.digest(draw)))
        return hashlib.sha256(settings.encode()).hexdigest()[:16]

    def selection(self, part: int) -> None:
        """Return None: the corpus has no file that DuckDB could read."""

    def batches(self, size: int = 8192, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield captions in order: caption_id and text. See :class:`biaslab.captions.corpus.Corpus`."""
        for start in range(0, self.rows, size):
            places = range(start, min(start + size, self.rows))
            texts = [write(*draw(truthful.HELD_OUT + self.seed, i, self.skew)) for i in places]
            ids = [f"depictions-{self.skew}-{self.seed}-{i:08d}" for i in places]
            yield pd.DataFrame({"caption_id": ids, "text": texts}, dtype=object)


def vocabulary() -> list[str]:
    """Return every word and mark that these captions and their triplets can contain, lower case, sorted."""
    function_words = "a an the photo of in at with and wearing talking about , ."
    return sorted({*function_words.split(), *_GENDERS_NAMED, *ACTIVITIES, *PLACES, *OBJECTS, *HIDDEN})


# -- scenes --------------------------------------------------------------------------------------------------


def build_scene(prompt: TripletPrompt, rng: np.random.Generator, skew: str = "default") -> Scene:
    """Return a scene of a caption with everything else at random, determined by the state of ``rng``.

    Two scenes of a caption with different genders therefore differ only in the properties that depend on gender.
    """
    u = rng.random(24).tolist()
    gender = "female" if u[0] < probability_female(prompt, skew) else "male"
    things_held, worn = [name for name in prompt.named if name in THINGS], [n for n in prompt.named if n in WORN]
    empty = NOTHING / (NOTHING + (1 - NOTHING) * (1 - NAMED))
    # Named objects fill slots first, and sides are random, so all free slots have the same distribution.
    for names, slots, offset, is_worn in ((things_held, 2, 1, False), (worn, 1, 5, True)):
        for slot in range(len(names), slots):
            chosen = pick(shares(prompt.activity, gender, skew, worn=is_worn), u[offset + 2 * slot + 1])
            names.append("" if u[offset + 2 * slot] < empty else chosen)
    if u[8] < 0.5:
        things_held.reverse()
    person = sample_person(rng, gender=gender, attributes=tuple(filter(None, worn)))
    clothes = _PLAIN_CLOTHES[int(u[9] * len(_PLAIN_CLOTHES))]
    attributes = tuple(name for name in person.attributes if name in worn)
    person = replace(person, variant=(clothes + u[10]) / len(CASUAL), attributes=attributes)
    things = [
        Thing(
            _ART.get(name, name), x, 0.2 + 0.14 * u[offset], 0.28 + 0.05 * u[offset + 1], mirrored=u[offset + 2] < 0.5
        )
        for name, x, offset in zip(things_held, (0.165, 0.835), (11, 14), strict=True)
        if name
    ]
    place = prompt.place or PLACES[int(u[17] * len(PLACES))]
    return Scene((person,), tuple(things), place, light_at(u[18:21]), int(u[21] * 2**31), 1.0)


def generate(prompts: pd.DataFrame, *, seed: int, skew: str = "default", size: int = 64) -> Renders:
    """Return images with this world's true shares for its captions: a generator without a model.

    ``prompts`` has one row per prompt: ``prompt_id`` (unique), ``text`` and ``n_images``; prompts of one ``noise_id``
    share all random numbers. ``seed``, noise_id (or the prompt's id) and the image's number determine an image;
    ``skew`` is one of ``SKEWS``. The result is that of :func:`biaslab_world.truthful.renders`, with ``truth_gender``.
    Raises InputError (a text has another form).
    """
    noise = prompts["noise_id"] if "noise_id" in prompts else prompts["prompt_id"]
    noise = dict(zip(prompts["prompt_id"], noise, strict=True))
    depiction_prompts = {key: parse(text) for key, text in prompts[["prompt_id", "text"]].itertuples(index=False)}

    @Memoized
    def scene(prompt: str, index: int) -> Scene:
        rng = np.random.default_rng(truthful.draw(seed, noise[prompt], index, "scene"))
        return build_scene(depiction_prompts[prompt], rng, skew)

    truth = {"truth_gender": lambda prompt, index: scene(prompt, index).people[0].gender}
    settings = skew, prompts[["prompt_id", "text"]].to_numpy().tolist(), sorted(noise.items())
    name = f"renders of depictions ({skew})"
    return truthful.renders(name, __name__, prompts, truth, scene, *settings, seed=seed, size=size)


def name_of(thing: Thing) -> str:
    """Return the word for an object of a scene in captions."""
    return _KINDS.get(thing.kind, thing.kind)


# -- ground truth of images ----------------------------------------------------------------------------------


def masks(scene: Scene, size: int = 64) -> list[tuple[str, np.ndarray]]:
    """Return visible regions of a scene, (name, bool mask (size, size)): the person, things, worn objects, the place.

    Worn objects do not belong to the person's mask; a pixel that is half one region and half another is in both.
    """
    scene_truth = render.truth(scene, size)
    worn = np.any([np.zeros((size, size), bool), *(region.mask for region in scene_truth.attributes)], axis=0)
    named_masks = [("person", scene_truth.people[0].mask & ~worn)]
    named_masks += [(_KINDS.get(region.name, region.name), region.mask) for region in scene_truth.objects]
    named_masks += [(region.name, region.mask) for region in scene_truth.attributes]
    place = ~np.any([mask for _, mask in named_masks], axis=0)
    return [(name, mask) for name, mask in (*named_masks, (scene.place, place)) if mask.any()]


def instances(scene: Scene, image_id: str, *, size: int = 64) -> pd.DataFrame:
    """Return the objects that a segmenter without error finds in a scene: rows of ``triplets_objects``."""
    from biaslab.metrics.instances import COLUMNS, encode

    rows = []
    for number, (name, mask) in enumerate(masks(scene, size)):
        ys, xs = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        sides = [end / size for end in (xs[0], ys[0], xs[-1] + 1, ys[-1] + 1)]
        rows.append((image_id, number, name, 1.0, *sides, encode(mask), size, size))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def nouns(text: str) -> list[str]:
    """Return the nouns of a caption in their order: person, place, things, worn object, topic of conversation.

    Raises InputError (the text has another form).
    """
    match = _match(text)
    return [match[name] for name in ("who", "place", "first", "second", "worn", "hidden") if match[name]]


def word_masks(scene: Scene, text: str, *, size: int = 64) -> dict[str, np.ndarray]:
    """Return the region of each word of a caption in its scene, bool (size, size): attention without error.

    The word for a thing or worn object refers to its visible region. The word for the place refers to the part of the
    place in the top ``UPPER`` of the frame, which is too small to count as guided. All other words, which name no
    object, refer to the person and worn objects.
    """
    visible: dict[str, np.ndarray] = {}
    for name, mask in masks(scene, size):
        visible[name] = visible.get(name, False) | mask
    person_mask = np.any([mask for name, mask in visible.items() if name in ("person", *WORN)], axis=0)
    _match(text)
    upper = np.arange(size)[:, None] < UPPER * size
    out = {}
    for word in re.findall(r"\w+", text.lower()):
        word_mask = visible.get(word, np.zeros((size, size), bool))
        out[word] = word_mask & upper if word in PLACES else word_mask if word in OBJECTS else person_mask
    return out


def planted_groups(text: str, objects: Sequence[str]) -> list[str]:
    """Return the planted dependency group (one of ``GROUPS``) of each object in an image of a caption.

    The person and named objects are explicitly guided, and a named place is explicitly independent. An unnamed worn
    object is within the person and implicitly guided; other things and places are implicitly independent. Raises
    InputError (the text has another form) and UnknownNameError (the world has no such object).
    """
    prompt = parse(text)
    out = []
    for name in objects:
        if name not in (*OBJECTS, *PLACES, "person"):
            raise unknown_name("object", name, ("person", *OBJECTS, *PLACES))
        is_explicit = name == "person" or name in prompt.named or name == prompt.place
        is_guided = name not in PLACES and (is_explicit or name in WORN)
        out.append(f"{'explicitly' if is_explicit else 'implicitly'}_{'guided' if is_guided else 'independent'}")
    return out
