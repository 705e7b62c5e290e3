"""Captions of the synthetic world, in the form of web captions of images, each with the scene that it describes.

The seed alone determines the unlimited rows, in blocks of 4096. Style, indicator and gender follow
``world.truth_table``. Place, clothes, expression, age and light in a caption match the scene; names, towns, dates and
actions are not visible. Given occupation, style and indicator, no other word depends on gender.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab.cache import code_digest
from biaslab.errors import InputError
from biaslab.hub import registry
from biaslab_world.art import read_yaml
from biaslab_world.looks import outfit
from biaslab_world.world import SKEWS, occupations, skew_parameters, truth_table

if TYPE_CHECKING:
    from biaslab_world.scene import Scene

BLOCK = 4096
# Share of captions without an occupation; a search for an occupation must not return them.
PLAIN = 0.04
COLUMNS = ("caption_id", "text", "truth_occupation", "truth_style", "truth_indicator", "truth_gender")


def _fixed(value: object) -> Any:
    """Return the file's data with lists as tuples and with read-only mappings."""
    if isinstance(value, dict):
        return MappingProxyType({name: _fixed(inner) for name, inner in value.items()})
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


_WORDS = _fixed(read_yaml("captions.yaml"))
FIRST_NAMES = _WORDS["first_names"]
SURNAMES = _WORDS["surnames"]
PLACE_PHRASES = _WORDS["place_phrases"]
_SIMPLE_SLOTS = MappingProxyType(
    {
        "town": _WORDS["towns"],
        "month": _WORDS["months"],
        "year": tuple(map(str, range(2004, 2024))),
        "n": tuple(map(str, (2, 3, 5, 8, 10, 12, 15, 20, 24, 30, 36, 40, 48, 50, 60, 64, 72, 75, 80, 90, 96))),
        "code": tuple(str(10007 + 7919 * i) for i in range(24)),
        "size": _WORDS["sizes"],
        "org": _WORDS["organizations"],
        "topic": _WORDS["topics"],
        "X": SURNAMES,
    }
)
# Share of captions with a place that name the occupation's usual place.
_OWN_PLACE = 0.8

_WEAR_STEPS = list(accumulate(weight for *_, weight in _WORDS["wear"]))
_ALL_PLACES = tuple(PLACE_PHRASES)


@dataclass(frozen=True, slots=True)
class Row:
    """One caption with its ground truth, before its scene is built."""

    text: str  # the caption
    occupation: str | None  # occupation of the paradox paper that the caption names, if any
    style: str  # one of ``world.STYLES``, or ``plain`` without an occupation
    indicator: str  # explicit gender in the text: one of ``world.INDICATORS``
    gender: str | None  # perceived gender of the person in the image; ``None`` without a person
    seed: int  # seed of the scene
    facts: dict  # properties of the scene that the text states


def _display_name(occupation: str) -> str:
    return "CEO" if occupation == "ceo" else occupation


@cache
def _person_words(occupation: str | None, gender: str | None) -> dict[str, str]:
    """Return the fillers of slots about a person: the occupation, its prop, the gender and its pronouns."""
    replacements = dict(_WORDS["pronouns"].get(gender, {}), G=gender)
    if occupation is not None:
        display_name, prop = _display_name(occupation), outfit(occupation).prop
        replacements |= {"o": display_name, "O": display_name[0].upper() + display_name[1:], "os": f"{display_name}s"}
        replacements["Q"] = f"~{prop}" if prop in _WORDS["no_article"] else prop
    return replacements


_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa])~ (?=([aeiouAEIOU]|hourglass)?)")
# A word after "~" takes no article.
_BARE = re.compile(r"\b[Aa]~ ~|~(?=\w)")


def _with_articles(text: str) -> str:
    return _ARTICLE.sub(lambda match: f"{match[1]}{'n' if match[2] else ''} ", text)


# Upper bound of the random numbers that one caption uses.
_ROW_DRAWS = 32
# Maximum number of words and marks that the models read; longer captions are rewritten.
LONGEST = 22
_OPPOSITE_GENDER = MappingProxyType({"female": "male", "male": "female"})


class _Writer:
    """Fill one caption's template and record what the scene has to show."""

    __slots__ = ("draws", "facts", "gender", "indicator", "occupation", "subject")

    def __init__(self, occupation: str | None, gender: str | None, indicator: str, draws: Iterator[float]) -> None:
        self.occupation, self.gender, self.indicator, self.draws = occupation, gender, indicator, draws
        self.facts: dict = {}
        self.subject = "none"

    def pick(self, options: Sequence):
        return options[int(next(self.draws) * len(options))]

    def fill(self, template: str) -> str:
        return _SLOT.sub(lambda slot: self.slot(slot[1]), template)

    def slot(self, name: str) -> str:
        pick, facts = self.pick, self.facts
        if name in _SIMPLE_SLOTS:
            return pick(_SIMPLE_SLOTS[name])
        match name:
            case "S":
                return self.person(pick(_WORDS["subjects"][self.subject]))
            case "V":
                return self.person(pick(_WORDS["plain_persons"][self.subject]))
            case "N":
                return f"{pick(FIRST_NAMES[self.gender])} {pick(SURNAMES)}"
            case "M":
                return f"{pick(FIRST_NAMES[_OPPOSITE_GENDER[self.gender]])} {pick(SURNAMES)}"
            case "I":
                return f"{pick(_WORDS['initials'])}. {pick(SURNAMES)}"
            case "P":
                return self.place()
            case "F":
                phrase, face = pick(_WORDS["faces"])
                if facts.setdefault("expression", face) != face:
                    return next(phrase for phrase, face in _WORDS["faces"] if face == facts["expression"])
                return phrase
            case "W":
                i = min(bisect(_WEAR_STEPS, next(self.draws) * _WEAR_STEPS[-1]), len(_WEAR_STEPS) - 1)
                name, phrase, _ = _WORDS["wear"][i]
                facts["attributes"] = (name,)
                return phrase
            case "L":
                phrase, facts["light"] = pick(_WORDS["light"])
                return phrase
            case "age":
                facts["age"] = pick(_WORDS["ages"])
                return facts["age"]
        return _person_words(self.occupation, self.gender)[name]

    def place(self) -> str:
        u_home, u_place, u_phrase = next(self.draws), next(self.draws), next(self.draws)
        if self.occupation is not None and u_home < _OWN_PLACE:
            place = outfit(self.occupation).place
        else:
            place = _ALL_PLACES[int(u_place * len(_ALL_PLACES))]
        phrases = PLACE_PHRASES[self.facts.setdefault("place", place)]
        return phrases[int(u_phrase * len(phrases))]

    def person(self, form: str) -> str:
        """Put adjectives before a person: an age in 22% of captions, an expression in 10%."""
        age, face = next(self.draws), next(self.draws)
        text = self.fill(form)
        if face < 0.10:
            word, expression = _WORDS["smiles"][int(face * 30)]
            if self.facts.setdefault("expression", expression) == expression:
                text = f"{word} {text}"
        if age < 0.22:
            word = _WORDS["ages"][int(age / 0.22 * 3)]
            if "girl" in form or "boy" in form:
                word = "young"
            if self.facts.setdefault("age", word) == word:
                text = f"{word} {text}"
        elif form in ("girl", "boy"):
            self.facts["age"] = "young"
        return text


def _write(w: _Writer, style: str) -> str:
    pick, indicator = w.pick, w.indicator
    if style == "plain":
        w.subject = indicator
        return w.fill(pick(_WORDS["plain"]))
    if style == "other_sense":
        decoys = _WORDS["own_decoys"].get(w.occupation, ())
        text, decoy = pick(decoys if decoys and next(w.draws) < 0.5 else _WORDS["decoys"])
        w.facts["decoy"] = outfit(w.occupation).prop if decoy == "-" else decoy
        return w.fill(text)
    if indicator == "both":
        return w.fill(pick(_WORDS["both"]))
    kind = next(w.draws)
    if style == "named":
        form = "none" if indicator == "none" else "name" if kind < 0.8 else "pronoun"
        return w.fill(pick(_WORDS["named"][form]))
    template = pick(_WORDS["templates"][style])
    # Facts in the template come first; adjectives that are drawn later agree with them.
    if "smiling" in template or "Cheerful" in template:
        w.facts["expression"] = "smiling"
    elif "Tired" in template:
        w.facts["expression"] = "neutral"
    if "at work" in template or "working" in template:
        w.facts["place"] = outfit(w.occupation).place
    if indicator == "none":
        return w.fill(template)
    word, pronoun = (0.8, 0.93) if style == "prompt_like" else (0.55, 0.82)
    if kind < word:
        w.subject = indicator
        return w.fill(template)
    if kind < pronoun:
        end, faces = pick(_WORDS["pronoun_ends"]), _WORDS["end_faces"]
        if end in faces and w.facts.setdefault("expression", faces[end]) != faces[end]:
            end = "at {his} work"
        return f"{w.fill(template)} {w.fill(end)}"
    if style == "prompt_like":
        return w.fill(template.replace("{S}", "{o} {N}").replace("a~ ", "").replace("A~ ", ""))
    return w.fill(pick(_WORDS["name_starts"])) + w.fill(template)


def _write_short(w: _Writer, style: str) -> str:
    """Return a caption that never exceeds ``LONGEST``."""
    if w.indicator == "both":
        return w.fill("{N}, {o}, photo by {M}")
    if style == "named":
        return w.fill("{o} {I}" if w.indicator == "none" else "{N}, {o}")
    w.subject = w.indicator
    return w.fill("A photo of a~ {S}" if style == "prompt_like" else "{S} {P}")


@lru_cache(maxsize=len(SKEWS))
def _cell_table(skew: str) -> tuple[list, np.ndarray]:
    """Return cells (style, indicator, gender) and their cumulative probabilities per occupation (62, cells)."""
    cells: dict[tuple, list[float]] = {}
    for row in truth_table(skew_parameters(skew)).itertuples():
        split = {"female": row.p * row.probability_female, "male": row.p * (1 - row.probability_female)}
        for gender, p in ({None: row.p} if row.style == "other_sense" else split).items():
            cells.setdefault((row.style, row.indicator, gender), []).append(p)
    return list(cells), np.cumsum(np.array(list(cells.values())).T, axis=1)


class _Block:
    """The rows of a block: random numbers are drawn at once, and each caption is written on access."""

    def __init__(self, seed: int, block: int, skew: str) -> None:
        rng = np.random.default_rng(np.random.SeedSequence([seed, block]))
        occupation_indices = rng.integers(len(occupations()), size=BLOCK)
        plain = rng.random(BLOCK) < PLAIN
        self._cells, steps = _cell_table(skew)
        cell_indices = (
            (rng.random(BLOCK)[:, None] > steps[occupation_indices]).sum(axis=1).clip(max=len(self._cells) - 1)
        )
        seeds = rng.integers(2**62, size=BLOCK)
        self._kinds = list(zip(*(a.tolist() for a in (occupation_indices, plain, cell_indices, seeds)), strict=True))
        self._uniform = rng.random((BLOCK, _ROW_DRAWS))

    def __getitem__(self, offset: int) -> Row:
        o, is_plain, cell, scene_seed = self._kinds[offset]
        draws = iter(values := self._uniform[offset].tolist())
        lower = next(draws) < 0.3
        if is_plain:
            gender = "female" if next(draws) < 0.5 else "male"
            occupation, style, indicator = None, "plain", gender if next(draws) < 0.7 else "none"
        else:
            occupation, (style, indicator, gender) = occupations()[o], self._cells[cell]
        w = _Writer(occupation, gender, indicator, draws)
        text = _with_articles(_BARE.sub("", _write(w, style)))
        if text.count(" ") > 12 and len(words(text)) > LONGEST:
            w = _Writer(occupation, gender, indicator, iter(values[3:]))
            text = _with_articles(_write_short(w, style))
        # Names keep their capitals.
        lower = lower and style != "named" and (indicator == "none" or w.subject != "none")
        text = (text[0].lower() if lower else text[0].upper()) + text[1:]
        return Row(text, occupation, style, indicator, gender, scene_seed, w.facts)


def build_scene(row: Row) -> Scene:
    """Return the scene that a row's caption describes."""
    from biaslab_world import scene

    rng, facts = np.random.default_rng(row.seed), row.facts
    if row.gender is None:
        return scene.sample_scene(rng, genders=(), decoy=facts["decoy"])
    light = facts.get("light")
    return scene.sample_scene(
        rng,
        genders=(row.gender,),
        occupations=(row.occupation,),
        ages=(facts.get("age"),),
        expressions=(facts.get("expression"),),
        attributes=(facts.get("attributes", ()),),
        place=facts.get("place"),
        light=None if light is None else scene.Light(*light),
    )


_CAPTION_ID = re.compile(r"mini-([a-z]+)-(\d+)-(\d{8,})")
# The cache holds more blocks than the default corpus has.
_block = lru_cache(maxsize=64)(_Block)
# Number of captions in a part that is searched separately.
_PART_ROWS = 16 * BLOCK


class Corpus:
    """A stream of captions with their scenes; implements :class:`biaslab.captions.corpus.Corpus`.

    Only the seed is stored. The same seed (0 or more) gives the same occupations for every skew. Raises
    UnknownNameError (``world.SKEWS`` has no such skew).
    """

    name, image_domain, written, for_triplets = "mini", registry.DRAWINGS, True, "depictions"
    """Name of the corpus, domain of its images, whether captions are written when read, and corpus for triplets."""

    def __init__(self, rows: int = 200_000, seed: int = 0, skew: str = "default") -> None:
        skew_parameters(skew)
        self.rows, self.seed, self.skew = rows, seed, skew
        self.parts = -(-rows // _PART_ROWS)

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return f"Corpus(rows={self.rows}, seed={self.seed}, skew={self.skew!r})"

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that depend on the settings and on the code that writes captions."""
        parameters = skew_parameters(self.skew)
        settings = repr(("mini", self.rows, self.seed, self.skew, parameters, code_digest.digest(Corpus)))
        return hashlib.sha256(settings.encode()).hexdigest()[:16]

    @property
    def images(self) -> Corpus:
        """The images of the captions, rendered when they are read."""
        return self

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per image: ``image_id``, the id of its caption."""
        ids = [f"{self._head}{i:08d}" for i in range(self.rows)]
        return pd.DataFrame({"image_id": pd.Series(ids, dtype=object)})

    def selection(self, part: int) -> None:
        """Return None: the corpus has no file that DuckDB could read."""

    def batches(self, size: int = 8192, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield captions in order with their ground truth, columns ``COLUMNS``."""
        indices = range(self.rows) if part is None else range(self.rows)[part * _PART_ROWS : (part + 1) * _PART_ROWS]
        for start in range(0, len(indices), size):
            yield self.rows_at(indices[start : start + size])

    def rows_at(self, indices: Iterable[int]) -> pd.DataFrame:
        """Return the rows at ``indices`` (0-based, any order, repetition allowed), columns ``COLUMNS``.

        Missing occupations and genders are ``None``.
        """
        keyed_rows = [(f"{self._head}{i:08d}", self.row(i)) for i in map(int, indices)]
        rows = [(key, r.text, r.occupation, r.style, r.indicator, r.gender) for key, r in keyed_rows]
        return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)

    def index(self, caption_id: str) -> int:
        """Return the index of the row with ``caption_id``. Raises InputError (not an id of this corpus)."""
        match = _CAPTION_ID.fullmatch(str(caption_id))
        if not match:
            raise InputError(
                f"{caption_id!r} is not a caption id of the synthetic world; an example is '{self._head}{0:08d}'."
            )
        skew, seed, index = match[1], int(match[2]), int(match[3])
        if (skew, seed) != (self.skew, self.seed) or index >= self.rows:
            raise InputError(f"{caption_id!r} is not in {self!r}; its first id is '{self._head}{0:08d}'.")
        return index

    def scene(self, caption_id: str) -> Scene:
        """Return the scene that a caption describes. Raises like ``index``."""
        return build_scene(self.row(self.index(caption_id)))

    def read(self, caption_ids: Sequence[str], size: int = 64) -> list[np.ndarray]:
        """Return the captions' images, each uint8 RGB (size, size, 3). Raises like ``index``."""
        from biaslab_world.render import render

        return [render(self.scene(c), size) for c in caption_ids]

    @property
    def _head(self) -> str:
        """Prefix of the caption ids."""
        return f"mini-{self.skew}-{self.seed}-"

    def row(self, index: int) -> Row:
        """Return the row at ``index``."""
        number, offset = divmod(index, BLOCK)
        return _block(self.seed, number, self.skew)[offset]


def words(text: str) -> list[str]:
    """Return the words and marks of ``text`` in lower case, as the models' tokenizer splits it."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def vocabulary() -> list[str]:
    """Return every word and mark that any caption can contain, lower case, sorted."""
    # Captions contain the text of a decoy and not its name.
    word_lists = dict(_WORDS, decoys=[t for t, _ in _WORDS["decoys"]])
    word_lists["own_decoys"] = [text for options in _WORDS["own_decoys"].values() for text, _ in options]
    texts = ["a an female male", *_all_texts(word_lists), *_all_texts(_SIMPLE_SLOTS)]
    texts += [f"{name} {_display_name(name)}s {outfit(name).prop}" for name in occupations()]
    return sorted({word for text in texts for word in words(_SLOT.sub(" ", text).replace("~", ""))})


def _all_texts(value: object) -> Iterator[str]:
    """Yield all texts in lists and mappings' values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _all_texts(inner)
