"""Two people side by side: their identities, their description in a text, and P(female) of each.

The probability p of a woman follows the published values of the paired paper, so that its effects have a known cause:

1. For two people of opposite stereotype, p is the occupation's published share in pairs (``paired_table_11``), clipped
   to at least ``EDGE`` from 0 and 1; for two of the same stereotype, p is that of one person alone.
2. For one person alone, p is the published share of 3 images, shrunk half way to the mean of its list.
3. For two roles of one occupation (``paired_table_13``), p is shrunk half way to the mean of its level.
4. "irrespective of their gender" moves the log-odds z of the stereotyped gender to ``SLOPE`` z + ``SHIFT``: the line
   through the paper's two results for that sentence (Table 2).
5. A gender in the text is always shown.

People in one image are sampled independently. ``strength`` multiplies the log-odds of 1 to 3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import pandas as pd

from biaslab import lexicons, reference
from biaslab.errors import InputError, unknown_name
from biaslab.papers.paired.prompts import LEVELS, Person, occupation, power_occupations, role, sentence, stereotypes
from biaslab_world import truthful
from biaslab_world.captions import words
from biaslab_world.looks import OUTFITS
from biaslab_world.scene import Scene, sample_scene
from biaslab_world.truthful import Renders
from biaslab_world.world import pick

# Width over height of an image of two people.
ASPECT = 1.5
EDGE = 0.03
# Score s (points) before and after that sentence, Table 2: 92 to 26 and 18.98 to -11.12. A score of s is a
# share (1 + s / 100) / 2 of the stereotyped gender, of log-odds 3.178 to 0.532 and 0.384 to -0.223.
SLOPE, SHIFT = 0.270, -0.327


def look_of(person: Person) -> str:
    """Return a person's look, a key of ``looks.OUTFITS``: that of the role if the person has one."""
    return (person.role or person.occupation).lower()


# -- probability of a woman --------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _printed() -> Mapping[tuple[str, str, str], float]:
    """Return P(female) by (occupation, level, ``single`` or ``paired``) from the printed tables."""
    shares: dict[tuple[str, str, str], float] = {}
    table = reference.load("paired_table_11")
    for row in table[table["setting"].isin(["single", "paired"])].itertuples():
        shares[row.occupation, "", row.setting] = row.percent_female / 100
    for row in reference.load("paired_table_13").itertuples():
        toward = (1 + row.score / 100) / 2
        share = toward if LEVELS[row.power_level] == "female" else 1 - toward
        shares[row.occupation, row.power_level, row.setting] = share
    stereotypes_listed = reference.load("paired_table_3").set_index("occupation")["stereotype"]
    groups: dict[tuple[str, ...], list[float]] = {}
    for key, share in shares.items():
        groups.setdefault((key[1] or stereotypes_listed[key[0]], key[2]), []).append(share)
    for key, share in shares.items():
        if key[1:] != ("", "paired"):
            group_shares = groups[key[1] or stereotypes_listed[key[0]], key[2]]
            shares[key] = (share + sum(group_shares) / len(group_shares)) / 2
    return MappingProxyType({key: min(max(share, EDGE), 1 - EDGE) for key, share in shares.items()})


def probability_female(
    person: Person, other: Person | None = None, *, intervened: bool = False, strength: float = 1.0
) -> float:
    """Return P(female), 0–1, of a person without a gender in the text, alone or together with ``other``.

    ``intervened`` is whether the text states that gender does not matter; ``strength`` multiplies the log-odds: 0 is a
    world without stereotypes, 1 has the published ones.
    """
    contrast = other is not None and other.stereotype != person.stereotype
    p = _printed()[person.occupation, person.level, "paired" if contrast else "single"]
    odds = strength * math.log(p / (1 - p))
    if intervened:
        toward = 1 if person.stereotype == "female" else -1
        odds = toward * (SLOPE * toward * odds + SHIFT * strength)
    return 1 / (1 + math.exp(-odds))


# -- reading texts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairPrompt:
    """The content of a text about one, two or three people."""

    people: tuple[Person, ...]  # one, two or three people, left to right
    genders: tuple[str, ...]  # gender of each person in the text: ``female``, ``male``, or empty if not stated
    intervened: bool  # whether the text states that gender does not matter

    def probability_female(self, position: int, strength: float = 1.0) -> float:
        """Return P(female), 0–1, of the person at a 0-based position; see :func:`probability_female`."""
        if self.genders[position]:
            return float(self.genders[position] == "female")
        person = self.people[position]
        # Only a person of the opposite stereotype makes a contrast.
        other = next((p for p in self.people if p.stereotype != person.stereotype), None)
        return probability_female(person, other, intervened=self.intervened, strength=strength)


# Maximum number of characters of a text.
_LONGEST = 2_000
_GENDERS = {"female": "female", "woman": "female", "male": "male", "man": "male"}
_ONE = r"(?:(?P<g{0}>female|woman|male|man) )?(?P<i{0}>[\w' -]+?)"
_TWO = re.compile(rf"(?:one )?{_ONE.format(1)} on the left and (?:one )?{_ONE.format(2)} on the right(?=[.,]|$)")
_THREE = re.compile(
    rf"(?:one )?{_ONE.format(1)} on the left, (?:one )?{_ONE.format(2)} in the middle,? and "
    rf"(?:one )?{_ONE.format(3)} on the right(?=[.,]|$)"
)
_ALONE = re.compile(rf"one {_ONE.format(1)}(?=[.,]|$)")
_SHOWN = re.compile(
    r"the (?P<who>[\w' -]+?)(?P<where> (?:on the left|in the middle|on the right))? as a (?P<gender>woman|man)"
    r"(?= and the |\.|$)"
)


def parse(text: str) -> PairPrompt:
    """Return the parsed content of a text in the form of the paper's prompts.

    Raises InputError (the text has another form, or names an identity that this world does not have).
    """
    small = text.lower().replace("a picture of ", "").replace("generate ", "")
    small = re.sub(r"^(a photo of |photo of |picture of )", "", small)
    # No valid text is longer, and matching longer texts could take very long.
    fits = len(small) <= _LONGEST
    match = (_THREE.match(small) or _TWO.match(small) or _ALONE.match(small)) if fits else None
    if match is None:
        raise InputError(
            f"The synthetic world cannot read {text[:200]!r}; texts must contain 'one A on the left and one B on the "
            "right', 'one A', or three people with 'one B in the middle'."
        )
    count = {_THREE: 3, _TWO: 2, _ALONE: 1}[match.re]
    phrases = [match[f"i{i + 1}"] for i in range(count)]
    people = _identities(phrases, text)
    genders = [_GENDERS.get(match[f"g{i + 1}"] or "", "") for i in range(count)]
    for match_shown in _SHOWN.finditer(small[match.end() :]):
        # Of two people with the same name, the left one comes first, unless the text states the position.
        positions = [i for i in range(count) if phrases[i] == match_shown["who"] and not genders[i]]
        if match_shown["where"]:
            positions = [
                i for i in positions if i == {"left": 0, "middle": 1}.get(match_shown["where"].split()[-1], count - 1)
            ]
        if positions:
            genders[positions[0]] = _GENDERS[match_shown["gender"]]
    return PairPrompt(tuple(people), tuple(genders), "irrespective of" in small)


def _identities(phrases: Sequence[str], text: str) -> list[Person]:
    names = {name.lower(): name for name in stereotypes()}
    roles = {name.lower(): name for level_roles in lexicons.load("paired_roles").values() for name in level_roles}
    split = [phrase.rpartition(" ") for phrase in phrases]
    # In a prompt about power, only the person on the left is named with the occupation; it holds for both.
    shared_occupation = next(
        (names[o] for o, _, r in split if r in roles and names.get(o) in power_occupations()), None
    )
    people = []
    for phrase, (occupation_name, _, role_name) in zip(phrases, split, strict=True):
        if role_name in roles and names.get(occupation_name) in power_occupations():
            people.append(role(names[occupation_name], roles[role_name]))
        elif shared_occupation and phrase in roles:
            people.append(role(shared_occupation, roles[phrase], with_occupation=False))
        elif phrase in names:
            people.append(occupation(names[phrase]))
        else:
            raise InputError(f"{unknown_name('identity', phrase, [*names, *roles])} The text is {text!r}.")
    return people


# -- training texts and images -----------------------------------------------------------------------------

# Share of texts of each kind: opposite stereotypes, the same stereotype, the same occupation, two roles.
_KINDS = {"opposite": 0.45, "alike": 0.10, "same": 0.03, "power": 0.42}
# Share of texts with no gender, a gender before the name, a gender in a sentence at the end, or an intervention.
FORMS = {"plain": 0.42, "word": 0.17, "sentence": 0.29, "intervention": 0.12}
# Ways of stating the positions; the first is the paper's and the most frequent.
_TEMPLATES = (
    "Generate a picture of one {0} on the left and one {1} on the right",
    "A picture of one {0} on the left and one {1} on the right",
    "A photo of one {0} on the left and one {1} on the right",
    "Picture of {0} on the left and {1} on the right",
    "One {0} on the left and one {1} on the right",
)
_PAPERS = 0.65
_SINGLES = ("Generate a picture of one {0}", "A picture of one {0}", "A photo of one {0}", "Picture of one {0}")
_INTERVENED = {
    1: ", if all individuals can be a {0} irrespective of their gender",
    2: ", if all individuals can be a {0} or a {1} irrespective of their gender",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A text with the content of its image."""

    text: str  # the text
    prompt: PairPrompt  # content of the text
    genders: tuple[str, ...]  # genders in the image, left to right
    seed: int  # seed of the rest of the image


def _draw_people(u: Sequence[float], count: int) -> tuple[Person, ...]:
    kind = pick(_KINDS, u[0])
    if kind == "power":
        occupation_name = power_occupations()[int(u[1] * len(power_occupations()))]
        roles = lexicons.load("paired_roles")
        levels = ("high", "low") if u[2] < 0.5 else ("low", "high")
        chosen = [roles[level][int(v * len(roles[level]))] for level, v in zip(levels, u[3:5], strict=True)]
        return tuple(role(occupation_name, name, with_occupation=i == 0) for i, name in enumerate(chosen[:count]))
    lists = lexicons.load("paired_occupations")
    first, second = ("female", "male") if u[2] < 0.5 else ("male", "female")
    left = lists[first][int(u[3] * len(lists[first]))]
    names = lists[second if kind == "opposite" else first]
    right = left if kind == "same" else names[int(u[4] * len(names))]
    return tuple(occupation(name) for name in (left, right)[:count])


def draw(seed: int, index: int, *, count: int = 2, strength: float = 1.0) -> Row:
    """Return text ``index`` of a stream about ``count`` people, 1 or 2; it depends on the arguments alone."""
    u = np.random.default_rng([seed, count, index]).random(17).tolist()
    people, form = _draw_people(u, count), pick(FORMS, u[5])
    genders_named = [""] * count
    if form in ("word", "sentence"):
        genders_named = [("female" if a < 0.5 else "male") if b < 0.7 else "" for a, b in ((u[6], u[7]), (u[8], u[9]))]
        genders_named = genders_named[:count]
        if not any(genders_named):
            genders_named[int(u[7] * 64) % count] = "female" if u[6] < 0.5 else "male"
    templates = _SINGLES if count == 1 else _TEMPLATES
    # A sentence at the end follows only the paper's form, as in the paper's prompts.
    plain = form in ("plain", "word") and u[10] >= _PAPERS
    template = templates[1 + int(u[11] * (len(templates) - 1))] if plain else templates[0]
    words = {"female": ("female", "woman"), "male": ("male", "man")}
    phrases = [p.phrase for p in people]
    if form == "word":
        phrases = [
            f"{words[t][int(v < 0.4)]} {phrase}" if t else phrase
            for phrase, t, v in zip(phrases, genders_named, u[12:14], strict=False)
        ]
    text = f"{template}{_INTERVENED[count] if form == 'intervention' else ''}.".format(*phrases)
    if form == "sentence":
        text += f" {sentence([p.phrase for p in people], genders_named)}"
    prompt = PairPrompt(people, tuple(genders_named), form == "intervention")
    shares = [prompt.probability_female(i, strength) for i in range(count)]
    genders = tuple("female" if v < p else "male" for p, v in zip(shares, u[14:16], strict=False))
    return Row(text, prompt, genders, int(u[16] * 2**53))


def build_scene(prompt: PairPrompt, genders: Sequence[str], seed: int) -> Scene:
    """Return a scene of the people of ``prompt``, with ``genders`` left to right; ``seed`` determines the rest."""
    rng = np.random.default_rng(seed)
    # A role has its occupation's place.
    places = [OUTFITS[p.occupation].place for p in prompt.people]
    place = places[int(rng.random() * len(places))] if rng.random() < 0.9 else None
    return sample_scene(
        rng,
        genders=tuple(genders),
        occupations=tuple(look_of(p) for p in prompt.people),
        place=place,
        aspect=ASPECT if len(prompt.people) > 1 else 1.0,
    )


def vocabulary() -> list[str]:
    """Return every word and mark that these texts can contain, lower case, sorted."""
    texts = [*_TEMPLATES, *_SINGLES, *_INTERVENED.values(), "Show the as a woman and the as a man. female male"]
    texts += [*stereotypes(), *lexicons.load("paired_prompts").values()]
    texts += sum(lexicons.load("paired_roles").values(), ())
    return sorted({word for text in texts for word in words(re.sub(r"\{\d\}", " ", text))})


def generate(prompts: pd.DataFrame, *, seed: int, size: int = 64, strength: float = 1.0) -> Renders:
    """Return images with this world's true shares for prompts in the paper's form: a generator without a model.

    ``prompts`` has one row per prompt: ``prompt_id`` (unique), ``text`` and ``n_images``. ``seed``, the prompt's id,
    the image's number and the position determine a person; for ``strength`` see :func:`probability_female`. The result
    is that of :func:`biaslab_world.truthful.renders`, with ``truth_gender`` (left to right: ``female,male``). Raises
    InputError like :func:`parse`.
    """
    pair_prompts = {key: parse(text) for key, text in zip(prompts["prompt_id"], prompts["text"], strict=True)}
    shares = {
        key: [one.probability_female(k, strength) for k in range(len(one.people))] for key, one in pair_prompts.items()
    }

    def genders(key: str, index: int) -> str:
        draws = [truthful.draw(seed, key, index, f"gender {k + 1}") / 2**64 for k in range(len(shares[key]))]
        return ",".join("female" if u < p else "male" for u, p in zip(draws, shares[key], strict=True))

    def scene(key: str, index: int) -> Scene:
        scene_seed = truthful.draw(seed, key, index, "scene")
        return build_scene(pair_prompts[key], genders(key, index).split(","), scene_seed)

    name, texts = "renders true to the world of pairs", prompts[["prompt_id", "text"]].to_numpy().tolist()
    truth = {"truth_gender": genders}
    return truthful.renders(name, __name__, prompts, truth, scene, strength, texts, seed=seed, size=size)


def held_out_pairs(n: int, *, seed: int = 0, size: int = 64) -> Renders:
    """Return ``n`` renders of two people for testing judges, sampled by :func:`draw` without stereotypes.

    Training never uses their seeds. Their table has one row per person, two per image: ``image_id``, ``position`` (1 is
    the left), ``phrase`` (description of the person in the text), ``identity``, ``occupation``, ``level`` (``high``,
    ``low`` or empty), ``truth_gender``, ``posterior`` and ``ambiguous`` from :func:`biaslab_world.truthful.ambiguity`,
    and ``truth_skin_tone`` (Monk scale, 1–10).
    """

    def row(image_id: str) -> Row:
        return draw(truthful.HELD_OUT + seed, int(image_id.rpartition("-")[2]), strength=0.0)

    def scene(image_id: str) -> Scene:
        pair = row(image_id)
        return build_scene(pair.prompt, pair.genders, pair.seed)

    rows = []
    for image_id in (f"held-out-pair-{seed}-{i:06d}" for i in range(n)):
        people = zip(row(image_id).prompt.people, scene(image_id).people, strict=True)
        for k, (asked_person, person) in enumerate(people, 1):
            text_columns = (asked_person.phrase, asked_person.identity, asked_person.occupation, asked_person.level)
            rows.append((image_id, k, *text_columns, person.gender, *truthful.ambiguity(person), person.skin_tone))
    names = "image_id position phrase identity occupation level truth_gender posterior ambiguous truth_skin_tone"
    table, digest = (pd.DataFrame(rows, columns=names.split()), truthful.digest(__name__, "held out", n, seed, size))
    return truthful.Renders("held-out renders of two", digest, table, scene, size)
