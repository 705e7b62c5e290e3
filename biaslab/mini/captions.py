"""Captions of the embedded world, as web pages put them beside pictures, each with the scene that it captions.

A corpus is an endless stream of rows that nothing but a seed decides: row ``i`` lies in block ``i // 4096``,
and a block is drawn from ``numpy.random.SeedSequence([seed, block])``. Style, indicator and the person's
gender follow ``world.truth_table``. What a caption says of place, clothes, expression, age and light is asked
of the renderer, so it is true of the scene. Names, towns, dates and what people are said to do are
not visible. Given occupation, style and indicator, no word beside the indicator depends on gender.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from bisect import bisect
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import yaml

from biaslab import closure
from biaslab.errors import InputError, ParameterError
from biaslab.mini.world import SKEWS, occupations, skew_knobs, truth_table

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from biaslab.mini.scene import Scene

BLOCK = 4096
# Share of captions that are about no occupation; a search for one must pass them by.
PLAIN = 0.04
COLUMNS = ("caption_id", "text", "truth_occupation", "truth_style", "truth_indicator", "truth_gender")


def _fixed(value: object) -> Any:
    """Return data of the file as it is used here: lists as tuples, mappings that cannot be written to."""
    if isinstance(value, dict):
        return MappingProxyType({name: _fixed(inner) for name, inner in value.items()})
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


_WORDS = _fixed(
    yaml.load(
        Path(__file__).with_name("captions.yaml").read_bytes(),
        Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),
    )
)
FIRST_NAMES = _WORDS["first_names"]
SURNAMES = _WORDS["surnames"]
_INITIALS = _WORDS["initials"]
_TOWNS = _WORDS["towns"]
_MONTHS = _WORDS["months"]
_SIZES = _WORDS["sizes"]
_ORGANISATIONS = _WORDS["organisations"]
_TOPICS = _WORDS["topics"]
PLACE_PHRASES = _WORDS["place_phrases"]
_WEAR = _WORDS["wear"]
_LIGHT = _WORDS["light"]
_AGES = _WORDS["ages"]
_FACES = _WORDS["faces"]
_SMILES = _WORDS["smiles"]
_NO_ARTICLE = frozenset(_WORDS["no_article"])
_SUBJECTS = _WORDS["subjects"]
_PRONOUNS = _WORDS["pronouns"]
_PRONOUN_ENDS = _WORDS["pronoun_ends"]
_END_FACES = _WORDS["end_faces"]
_TEMPLATES = _WORDS["templates"]
_NAMED = _WORDS["named"]
_BOTH = _WORDS["both"]
_NAME_STARTS = _WORDS["name_starts"]
_PLAIN = _WORDS["plain"]
_PLAIN_PERSONS = _WORDS["plain_persons"]
_DECOYS = _WORDS["decoys"]
_OWN_DECOYS = _WORDS["own_decoys"]
_YEARS = tuple(str(year) for year in range(2004, 2024))
_NUMBERS = tuple(
    str(n) for n in (2, 3, 5, 8, 10, 12, 15, 20, 24, 30, 36, 40, 48, 50, 60, 64, 72, 75, 80, 90, 96)
)
_CODES = tuple(str(10007 + 7919 * i) for i in range(24))

# Share of captions with a place that name the occupation's own.
_OWN_PLACE = 0.8

_WEAR_STEPS = list(accumulate(weight for *_, weight in _WEAR))
_FACES_BY_EXPRESSION = MappingProxyType(
    {e: tuple(phrase for phrase, expression in _FACES if expression == e) for e in ("smiling", "neutral")}
)


@dataclass(frozen=True)
class Caption:
    """One caption with its truth."""

    caption_id: str
    """``mini-<skew>-<seed>-<index>``."""
    text: str
    """The caption."""
    occupation: str | None
    """Occupation of the paradox paper whose word it uses, if any."""
    style: str
    """One of ``world.STYLES``, or ``plain`` where there is no occupation."""
    indicator: str
    """Explicit gender in the text: one of ``world.INDICATORS``."""
    gender: str | None
    """Perceived gender of the person shown; ``None`` where nobody is."""
    seed: int
    """What the scene is drawn from."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a row of the corpus says, before its scene is built."""

    text: str
    occupation: str | None
    style: str
    indicator: str
    gender: str | None
    seed: int
    facts: dict


@lru_cache(maxsize=1)
def _looks() -> dict[str, tuple[str, str]]:
    """Own place and prop of each occupation."""
    looks = importlib.import_module("biaslab.mini.looks")
    return {name: (looks.look(name).place, looks.look(name).prop) for name in occupations()}


def _shown(occupation: str) -> str:
    """The occupation as captions write it."""
    return "CEO" if occupation == "ceo" else occupation


def _plural(occupation: str) -> str:
    return _shown(occupation) + "s"


_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa])~ (?=([aeiouAEIOU]|hourglass)?)")
# A "~" before a word takes no article.
_BARE = re.compile(r"\b[Aa]~ ~|~(?=\w)")


def _article(match: re.Match) -> str:
    return f"{match[1]}{'n' if match[2] else ''} "


@lru_cache(maxsize=1024)
def _parts(template: str) -> tuple[str, ...]:
    """Split a template: literals at even, slot names at odd positions."""
    return tuple(_SLOT.split(template))


class _Draws:
    """The uniform numbers of one row, handed out in order."""

    __slots__ = ("at", "values")

    def __init__(self, values: list[float]) -> None:
        self.values = values
        self.at = 0

    def next(self) -> float:
        value = self.values[self.at]
        self.at += 1
        return value

    def pick(self, options: Sequence):
        value = self.values[self.at]
        self.at += 1
        return options[int(value * len(options))]


# More than any caption uses.
_ROW_DRAWS = 32
# The embedded models read no more words and marks than this; longer captions are written anew.
LONGEST = 22
_OTHER = MappingProxyType({"female": "male", "male": "female"})
_ALL_PLACES = tuple(PLACE_PHRASES)
_SIMPLE_SLOTS = MappingProxyType(
    {
        "town": _TOWNS, "month": _MONTHS, "year": _YEARS, "n": _NUMBERS, "code": _CODES, "size": _SIZES,
        "org": _ORGANISATIONS, "topic": _TOPICS, "X": SURNAMES,
    }
)  # fmt: skip


class _Writer:
    """Fills one caption's template and notes what the scene has to show."""

    __slots__ = ("draws", "facts", "gender", "indicator", "occupation", "subject")

    def __init__(self, occupation: str | None, gender: str | None, indicator: str, draws: _Draws) -> None:
        self.occupation, self.gender, self.indicator, self.draws = occupation, gender, indicator, draws
        self.facts: dict = {}
        self.subject = "none"

    def fill(self, template: str) -> str:
        parts = _parts(template)
        if len(parts) == 1:
            return template
        out = list(parts)
        for i in range(1, len(out), 2):
            out[i] = self.slot(out[i])
        return "".join(out)

    def slot(self, name: str) -> str:
        draws = self.draws
        options = _SIMPLE_SLOTS.get(name)
        if options is not None:
            return draws.pick(options)
        if name == "o":
            return _shown(self.occupation)
        if name == "S":
            return self.person(draws.pick(_SUBJECTS[self.subject]))
        if name == "P":
            return self.place()
        if name == "F":
            phrase, face = draws.pick(_FACES)
            if self.facts.setdefault("expression", face) != face:
                return _FACES_BY_EXPRESSION[self.facts["expression"]][0]
            return phrase
        if name == "W":
            i = min(bisect(_WEAR_STEPS, draws.next() * _WEAR_STEPS[-1]), len(_WEAR) - 1)
            self.facts["attributes"] = (_WEAR[i][0],)
            return _WEAR[i][1]
        if name == "L":
            phrase, self.facts["light"] = draws.pick(_LIGHT)
            return phrase
        if name == "Q":
            prop = _looks()[self.occupation][1]
            return f"~{prop}" if prop in _NO_ARTICLE else prop
        if name == "O":
            shown = _shown(self.occupation)
            return shown[0].upper() + shown[1:]
        if name == "os":
            return _plural(self.occupation)
        if name == "N":
            return f"{draws.pick(FIRST_NAMES[self.gender])} {draws.pick(SURNAMES)}"
        if name == "M":
            return f"{draws.pick(FIRST_NAMES[_OTHER[self.gender]])} {draws.pick(SURNAMES)}"
        if name == "I":
            return f"{draws.pick(_INITIALS)}. {draws.pick(SURNAMES)}"
        if name == "V":
            return self.person(draws.pick(_PLAIN_PERSONS[self.subject]))
        if name == "G":
            return self.gender
        if name == "age":
            self.facts["age"] = draws.pick(_AGES)
            return self.facts["age"]
        return _PRONOUNS[self.gender][name]

    def place(self) -> str:
        draws = self.draws
        own, other, phrase = draws.next(), draws.next(), draws.next()
        if self.occupation is not None and own < _OWN_PLACE:
            place = _looks()[self.occupation][0]
        else:
            place = _ALL_PLACES[int(other * len(_ALL_PLACES))]
        place = self.facts.setdefault("place", place)
        phrases = PLACE_PHRASES[place]
        return phrases[int(phrase * len(phrases))]

    def person(self, form: str) -> str:
        """Put adjectives before a person: an age in 22 % of captions, an expression in 10 %."""
        age, face = self.draws.next(), self.draws.next()
        text = self.fill(form)
        if face < 0.10:
            word, expression = _SMILES[int(face * 30)]
            if self.facts.setdefault("expression", expression) == expression:
                text = f"{word} {text}"
        if age < 0.22:
            word = _AGES[int(age / 0.22 * 3)]
            if "girl" in form or "boy" in form:
                word = "young"
            if self.facts.setdefault("age", word) == word:
                text = f"{word} {text}"
        elif form in ("girl", "boy"):
            self.facts["age"] = "young"
        return text


def _write_plain(w: _Writer) -> str:
    w.subject = w.indicator
    return w.fill(w.draws.pick(_PLAIN))


def _write_decoy(w: _Writer) -> str:
    own = _OWN_DECOYS.get(w.occupation, ())
    text, decoy = w.draws.pick(own if own and w.draws.next() < 0.5 else _DECOYS)
    w.facts["decoy"] = _looks()[w.occupation][1] if decoy == "-" else decoy
    return w.fill(text)


def _template_facts(template: str, w: _Writer) -> None:
    """Note what the template's own words ask of the scene: a smile, a tired face, the place of work."""
    if "smiling" in template or "Cheerful" in template:
        w.facts["expression"] = "smiling"
    elif "Tired" in template:
        w.facts["expression"] = "neutral"
    if "at work" in template or "working" in template:
        w.facts["place"] = _looks()[w.occupation][0]


def _write_person(w: _Writer, style: str) -> str:
    draws, told = w.draws, w.indicator
    if told == "both":
        return w.fill(draws.pick(_BOTH))
    kind = draws.next()
    if style == "named":
        if told == "none":
            return w.fill(draws.pick(_NAMED["none"]))
        return w.fill(draws.pick(_NAMED["name" if kind < 0.8 else "pronoun"]))
    template = draws.pick(_TEMPLATES[style])
    # What the template itself says of the scene comes first; adjectives drawn later agree with it.
    _template_facts(template, w)
    if told == "none":
        return w.fill(template)
    word, pronoun = (0.8, 0.93) if style == "prompt_like" else (0.55, 0.82)
    if kind < word:
        w.subject = told
        return w.fill(template)
    if kind < pronoun:
        end = draws.pick(_PRONOUN_ENDS)
        if end in _END_FACES and w.facts.setdefault("expression", _END_FACES[end]) != _END_FACES[end]:
            end = "at {his} work"
        return f"{w.fill(template)} {w.fill(end)}"
    if style == "prompt_like":
        return w.fill(template.replace("{S}", "{o} {N}").replace("a~ ", "").replace("A~ ", ""))
    start = w.fill(draws.pick(_NAME_STARTS))
    return start + w.fill(template)


def _write(w: _Writer, style: str) -> str:
    if style == "plain":
        return _write_plain(w)
    if style == "other_sense":
        return _write_decoy(w)
    return _write_person(w, style)


def _write_short(w: _Writer, style: str) -> str:
    """Write a caption that is never too long."""
    if w.indicator == "both":
        return w.fill("{N}, {o}, photo by {M}")
    if style == "named":
        return w.fill("{o} {I}" if w.indicator == "none" else "{N}, {o}")
    w.subject = w.indicator
    return w.fill("A photo of a~ {S}" if style == "prompt_like" else "{S} {P}")


@lru_cache(maxsize=len(SKEWS))
def _cell_table(skew: str) -> tuple[list, np.ndarray]:
    """Cells (style, indicator, gender) and their cumulative probabilities per occupation (62, cells)."""
    import numpy as np

    cells: dict[tuple, list[float]] = {}
    for row in truth_table(skew_knobs(skew)).itertuples():
        if row.style == "other_sense":
            split = ((None, row.p),)
        else:
            split = (("female", row.p * row.p_female), ("male", row.p * (1 - row.p_female)))
        for gender, p in split:
            cells.setdefault((row.style, row.indicator, gender), []).append(p)
    return list(cells), np.cumsum(np.array(list(cells.values())).T, axis=1)


def _draw_block(seed: int, block: int, skew: str) -> list[Row]:
    import numpy as np

    rng = np.random.default_rng(np.random.SeedSequence([seed, block]))
    names = occupations()
    which = rng.integers(len(names), size=BLOCK)
    plain = (rng.random(BLOCK) < PLAIN).tolist()
    cells, steps = _cell_table(skew)
    chosen = (rng.random(BLOCK)[:, None] > steps[which]).sum(axis=1).clip(max=len(cells) - 1).tolist()
    seeds = rng.integers(2**62, size=BLOCK).tolist()
    uniform = rng.random((BLOCK, _ROW_DRAWS)).tolist()
    rows = []
    for o, is_plain, cell, scene_seed, values in zip(
        which.tolist(), plain, chosen, seeds, uniform, strict=True
    ):
        draws = _Draws(values)
        lower = draws.next() < 0.3
        if is_plain:
            gender = "female" if draws.next() < 0.5 else "male"
            occupation, style, told = None, "plain", gender if draws.next() < 0.7 else "none"
        else:
            occupation, (style, told, gender) = names[o], cells[cell]
        w = _Writer(occupation, gender, told, draws)
        text = _ARTICLE.sub(_article, _BARE.sub("", _write(w, style)))
        if text.count(" ") > 12 and len(words(text)) > LONGEST:
            draws.at = 3
            w = _Writer(occupation, gender, told, draws)
            text = _ARTICLE.sub(_article, _write_short(w, style))
        # Names keep their capitals.
        lower = lower and style != "named" and (told == "none" or w.subject != "none")
        text = (text[0].lower() if lower else text[0].upper()) + text[1:]
        rows.append(Row(text, occupation, style, told, gender, scene_seed, w.facts))
    return rows


def build_scene(row: Row) -> Scene:
    """Return the scene that a row captions."""
    import numpy as np

    scene = importlib.import_module("biaslab.mini.scene")
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
        attributes=facts.get("attributes", ()),
        place=facts.get("place"),
        light=None if light is None else scene.Light(*light),
    )


_CAPTION_ID = re.compile(r"mini-([a-z]+)-(\d+)-(\d{8,})")
# Blocks kept in memory: more than the default corpus has.
_KEPT_BLOCKS = 64


class Corpus:
    """A stream of captions with their scenes; only the seed is stored.

    Args:
        rows: Length of the corpus, at least 1.
        seed: Seed, at least 0. The same seed draws the same occupations for every skew.
        skew: A name in ``world.SKEWS``.

    Raises:
        ParameterError: ``rows`` or ``seed`` out of range.
        UnknownNameError: No such skew.
    """

    def __init__(self, rows: int = 200_000, seed: int = 0, skew: str = "default") -> None:
        for name, value, least in (("rows", rows, 1), ("seed", seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ParameterError(f"{name} is {value!r}; give a whole number, {least} or more.")
        skew_knobs(skew)
        self.rows, self.seed, self.skew = rows, seed, skew
        self.name = "mini"
        self._blocks: OrderedDict[int, list[Row]] = OrderedDict()

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return f"Corpus(rows={self.rows}, seed={self.seed}, skew={self.skew!r})"

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change with the settings and with the code that writes captions."""
        return _digest(self.rows, self.seed, self.skew)

    def batches(self, size: int = 8192) -> Iterator[pd.DataFrame]:
        """Yield the corpus in order as tables of ``size`` rows (the last may be shorter), columns ``COLUMNS``.

        Raises:
            ParameterError: ``size`` is below 1.
        """
        if size < 1:
            raise ParameterError(f"size is {size!r}; give the rows of a batch, 1 or more.")
        for start in range(0, self.rows, size):
            yield self.rows_at(range(start, min(start + size, self.rows)))

    def rows_at(self, indices: Iterable[int]) -> pd.DataFrame:
        """Return the rows at ``indices`` (0-based, any order, repetition allowed), columns ``COLUMNS``.

        Missing occupations and genders are ``None``.

        Raises:
            InputError: An index outside the corpus.
        """
        import pandas as pd

        head = f"mini-{self.skew}-{self.seed}-"
        indices = [int(i) for i in indices]
        rows = [self._row(i) for i in indices]
        table = {
            "caption_id": [f"{head}{i:08d}" for i in indices],
            "text": [r.text for r in rows],
            "truth_occupation": [r.occupation for r in rows],
            "truth_style": [r.style for r in rows],
            "truth_indicator": [r.indicator for r in rows],
            "truth_gender": [r.gender for r in rows],
        }
        return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in table.items()})

    def index(self, caption_id: str) -> int:
        """Return the row that ``caption_id`` names.

        Raises:
            InputError: Not an id of this corpus.
        """
        match = _CAPTION_ID.fullmatch(str(caption_id))
        if not match:
            raise InputError(
                f"{caption_id!r} is no caption id of the embedded world; one is {self._example()!r}."
            )
        skew, seed, index = match[1], int(match[2]), int(match[3])
        if (skew, seed) != (self.skew, self.seed) or index >= self.rows:
            raise InputError(f"{caption_id!r} is not in {self!r}; its ids run from {self._example()!r} on.")
        return index

    def caption(self, caption_id: str) -> Caption:
        """Return one caption with its truth. Raises like ``index``."""
        row = self._row(self.index(caption_id))
        return Caption(caption_id, row.text, row.occupation, row.style, row.indicator, row.gender, row.seed)

    def scene(self, caption_id: str) -> Scene:
        """Return the scene that a caption describes. Raises like ``index``."""
        return build_scene(self._row(self.index(caption_id)))

    def scenes(self, indices: Iterable[int]) -> list[Scene]:
        """Return the scenes of the rows at ``indices``. Raises like ``rows_at``."""
        return [build_scene(self._row(int(i))) for i in indices]

    def images(self, caption_ids: Sequence[str], size: int = 64) -> np.ndarray:
        """Return the captions' images, uint8 RGB (n, size, size, 3). Raises like ``index``."""
        render = importlib.import_module("biaslab.mini.render")
        return render.render_many(self.scenes(self.index(c) for c in caption_ids), size=size)

    def _example(self) -> str:
        return f"mini-{self.skew}-{self.seed}-{0:08d}"

    def _row(self, index: int) -> Row:
        if not 0 <= index < self.rows:
            raise InputError(f"Row {index} is outside the corpus; its rows run from 0 to {self.rows - 1}.")
        number, offset = divmod(index, BLOCK)
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = _draw_block(self.seed, number, self.skew)
            if len(self._blocks) > _KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        return block[offset]


@lru_cache(maxsize=64)
def _digest(rows: int, seed: int, skew: str) -> str:
    whole = repr(("mini", rows, seed, skew, skew_knobs(skew), closure.digest(Corpus)))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def sample_training(
    seed: int, n: int, *, start: int = 0, skew: str = "default"
) -> tuple[list[str], list[Scene]]:
    """Return texts and scenes of the rows ``start`` to ``start + n`` of a stream, for training.

    Args:
        seed: Seed of the stream; ``Corpus(seed=seed)`` holds the same rows.
        n: How many, at least 1.
        start: First row, at least 0.
        skew: A name in ``world.SKEWS``.

    Raises:
        ParameterError: ``n``, ``start`` or ``seed`` out of range.
        UnknownNameError: No such skew.
    """
    if n < 1 or start < 0:
        raise ParameterError(f"n is {n!r} and start is {start!r}; n is 1 or more, start 0 or more.")
    corpus = Corpus(rows=start + n, seed=seed, skew=skew)
    rows = [corpus._row(i) for i in range(start, start + n)]
    return [row.text for row in rows], [build_scene(row) for row in rows]


def words(text: str) -> list[str]:
    """Return the words and marks of ``text`` in lower case, as the embedded models' tokenizer splits it."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def vocabulary() -> list[str]:
    """Return every word and mark that any caption can contain, lower case, sorted."""
    templates = [t for family in _TEMPLATES.values() for t in family]
    templates += [t for family in _NAMED.values() for t in family]
    templates += [t for family in _SUBJECTS.values() for t in family]
    templates += [*_BOTH, *_NAME_STARTS, *_PLAIN, *_PRONOUN_ENDS, *(t for t, _ in _DECOYS)]
    templates += [t for family in _OWN_DECOYS.values() for t, _ in family]
    found = {"a", "an", *FIRST_NAMES}
    texts = [_SLOT.sub(" ", template).replace("~", "") for template in templates]
    texts += [text for options in _SIMPLE_SLOTS.values() for text in options]
    texts += [text for options in PLACE_PHRASES.values() for text in options]
    texts += [text for options in FIRST_NAMES.values() for text in options]
    texts += [text for options in _PLAIN_PERSONS.values() for text in options]
    texts += [text for pronouns in _PRONOUNS.values() for text in pronouns.values()]
    texts += [text for text, _ in (*_FACES, *_SMILES, *_LIGHT)]
    texts += [text for _, text, _ in _WEAR]
    texts += [*_AGES, *_INITIALS]
    for name in occupations():
        texts += [name, _plural(name), _looks()[name][1]]
    for text in texts:
        found.update(words(text))
    return sorted(found)
