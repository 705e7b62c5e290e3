"""A fast look at many captions at once: where some words stand, and where a person's name may stand.

Captions are laid end to end as bytes, and every run of letters is looked up by its first eight of them, all runs in a
few numpy operations. What it says of words is exact. Of names it only says where one may stand: a known first name,
written with a capital, before a capital or after a title; who asks looks there more closely. Characters beyond ASCII
are taken for one of their kind: a letter, a digit, a space or a sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

# Captions longer than this are left out, so that a block's memory is bounded.
LONGEST = 2000
# Between captions, and what fills them up: no letters, no spaces.
_GAP, _FILL = "\0", "\1"
_PAD = 16
_LETTERS = 8
_WORD_BITS, _NAME_BITS = 15, 20
_WORD, _TITLE, _BEFORE, _OPENER, _BETWEEN, _THING = 1, 2, 4, 8, 16, 32
# Letters of a first name and of a surname that are a usual name, and of a surname that a dot ends.
_FEWEST, _MOST, _BEFORE_DOT = 2, 30, 5
# Lengths of runs that are told apart.
_LENGTH_BITS = 5
_LONG = (1 << _LENGTH_BITS) - 1
_WHOLE, _PART = 1, 2
# What letters beyond ASCII are taken for: one that is in no word whose places are asked for.
_STRANGE = "q"
_SMALL = np.uint64(0x2020202020202020)
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_LETTERS + 1)], dtype=np.uint64)
_MULTIPLIER = 0x9E3779B97F4A7C15
_SPACES = np.array([chr(i).isspace() and i < 128 for i in range(256)])


class _Plain(dict):
    """Each character's stand-in in ASCII, for ``str.translate``."""

    def __missing__(self, code: int) -> str:
        self[code] = char = _plain(chr(code))
        return char


def _plain(char: str) -> str:
    if char.isascii():
        return char
    if char in "’":
        return "'"
    if char.isspace():
        return " "
    if re.match(r"\d", char):
        return "0"
    if re.match(r"\W", char):
        return ","
    # One letter of the world becomes one of ASCII in small letters.
    if char.lower().isascii():
        return char.lower().upper()
    return _STRANGE.upper() if char.isupper() else _STRANGE


_stand_ins = _Plain()
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def _stand_in(match: re.Match) -> str:
    return match[0].translate(_stand_ins)


@dataclass(frozen=True)
class Scanned:
    """What was seen in a block of captions; captions are named by their index in it."""

    rows: np.ndarray
    """Caption of each word found, ascending."""
    starts: np.ndarray
    """Index of the word's first character in its caption, ascending within a caption."""
    words: np.ndarray
    """Which word it is."""
    names: list[tuple[int, int, int, bool]]
    """Where a person's name may start, in order: caption, index of the first character, index after the last one, and
    whether one of the words that matter there may stand before it. The end is 0 but where the name is a usual one: a
    first name and a surname of plain letters, with one space between them, of which no word before or after it makes
    anything else."""
    titled: list[int]
    """Captions that may hold one of the titles."""
    others: list[int]
    """Captions that were not looked at, because they are too long."""


class Scan:
    """Looks for words and names."""

    def __init__(
        self,
        words: Sequence[str],
        titles: Sequence[str] = (),
        *,
        first: Sequence[str] = (),
        parts: Iterable[str] = (),
        before: Iterable[str] = (),
        openers: Iterable[str] = (),
        between: Iterable[str] = (),
        things: Iterable[str] = (),
        no_surnames: Iterable[str] = (),
    ):
        """Take what to look for.

        Args:
            words: Words whose places are asked for, in small letters of ASCII without q.
            titles: Words whose captions are asked for, in small letters.
            first: First names, capitalised.
            parts: What a hyphenated first name may begin with, capitalised.
            before: Words after which a first name alone is a name, in small letters.
            openers: Other words that matter before a name, in small letters.
            between: Small words between a first name and a surname.
            things: Words that make a thing's name of a person's before them, in small letters.
            no_surnames: Words that are never a surname, in small letters.

        Raises:
            ValueError: A word has other letters, or two have the same first eight.
        """
        self._words = list(words)
        if bad := [word for word in words if not re.fullmatch("[a-pr-z]+", word)]:
            raise ValueError(f"{bad[0]!r} has other letters than a–z without q.")
        kinds = (
            (_WORD, words),
            (_TITLE, titles),
            (_BEFORE, before),
            (_OPENER, openers),
            (_BETWEEN, between),
            # Of a word with a hyphen, what is before it.
            (_THING, {re.split(r"[\W\d_]", word)[0] for word in things}),
        )
        bits: dict[int, int] = {}
        for bit, some in kinds:
            for word in some:
                key = _key(word) | int(_SMALL)
                bits[key] = bits.get(key, 0) | bit
        numbers = {_key(word) | int(_SMALL): i for i, word in enumerate(words)}
        if len(numbers) < len(self._words):
            raise ValueError("Two words have the same first eight letters.")
        keys = np.array(sorted(bits), dtype=np.uint64)
        self._multiplier, slots = _spread(keys)
        self._table = np.zeros(1 << _WORD_BITS, dtype=np.uint16)
        self._table[slots] = np.arange(1, len(keys) + 1)
        # Entry 0 is what no word is.
        self._keys = np.concatenate([np.zeros(1, np.uint64), keys])
        self._bits = np.array([0, *(bits[int(k)] for k in keys)], dtype=np.uint8)
        self._numbers = np.array([0, *(numbers.get(int(k), 0) for k in keys)])
        self._lengths = np.array([len(word) for word in self._words])
        # By first letter and length, whether a run may be one of the words or titles.
        self._likely = np.zeros(1 << 5 + _LENGTH_BITS, dtype=bool)
        for word in [*words, *titles]:
            first_letter = word[0].translate(_stand_ins)
            self._likely[(ord(first_letter) & 31) << _LENGTH_BITS | min(len(word), _LONG)] = True
        self._names = np.zeros(1 << _NAME_BITS, dtype=np.uint8) if first else None
        self._known = []
        for bit, some in ((_WHOLE, first), (_PART, parts)):
            known = np.unique(np.array([_key(name) for name in some], dtype=np.uint64))
            if first:
                self._names[_slot(known)] |= bit
            self._known.append(_Keys(known))
        # Words with a q may be others with a strange letter.
        short = [w for w in no_surnames if re.fullmatch("[a-pr-z]{2,7}", w)]
        self._no_surnames = _Keys(np.array([_key(w) | int(_SMALL) for w in short], dtype=np.uint64))

    def block(self, texts: Sequence[str]) -> Scanned:
        """Look at some captions, at most as many as memory takes: about 1 kB for a usual one."""
        data, offsets, others = _laid(texts)
        letters = _is_letter(data)
        edges = np.flatnonzero(letters[1:] != letters[:-1])
        edges += 1
        runs = _Runs(data, edges[::2], edges[1::2])
        letter = data[runs.starts]
        shape = np.minimum(runs.ends - runs.starts, _LONG)
        shape |= (letter & np.uint8(31)).astype(np.int64) << _LENGTH_BITS
        hits, codes = self._looked_up(runs, np.flatnonzero(self._likely[shape]))
        kinds = self._bits[codes]

        found = (kinds & _WORD) > 0
        words = self._numbers[codes[found]]
        start, end = runs.starts[hits[found]], runs.ends[hits[found]]
        length = end - start
        # A digit beside a word makes it another one.
        good = (length == self._lengths[words]) & ~_is_digit(data[start - 1]) & ~_is_digit(data[end])
        for i in np.flatnonzero(good & (length > _LETTERS)):
            good[i] = data[start[i] : end[i]].tobytes().decode().lower() == self._words[words[i]]
        rows, places = _where(start[good], offsets)
        titled, _ = _where(runs.starts[hits[(kinds & _TITLE) > 0]], offsets)
        return Scanned(
            rows=rows,
            starts=places,
            words=words[good],
            names=self._may_be_names(runs, letter, offsets) if self._names is not None else [],
            titled=np.unique(titled).tolist(),
            others=others,
        )

    def _looked_up(self, runs: _Runs, these: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of some runs are words of any kind, and which words."""
        keys = runs.keys(these) | _SMALL
        codes = self._table[_place(keys * self._multiplier, _WORD_BITS)]
        right = np.flatnonzero(codes > 0)
        right = right[self._keys[codes[right]] == keys[right]]
        return these[right], codes[right]

    def _kinds(self, keys: np.ndarray) -> np.ndarray:
        """Return what kinds of word keys are, in small or other letters."""
        keys = keys | _SMALL
        codes = self._table[_place(keys * self._multiplier, _WORD_BITS)]
        return np.where(self._keys[codes] == keys, self._bits[codes], 0)

    def _may_be_names(
        self, runs: _Runs, letter: np.ndarray, offsets: np.ndarray
    ) -> list[tuple[int, int, int, bool]]:
        """Return where a person's name may start."""
        data = runs.data
        capital = np.flatnonzero(_is_capital(letter))
        if not len(capital):
            return []
        keys = runs.keys(capital)
        known = self._names[_slot(keys)]
        some = np.flatnonzero(known > 0)
        these, known, keys = capital[some], known[some], keys[some]
        longer = _is_joint(data[runs.ends[these]])
        # What is asked last takes longest, so that it is asked of the fewest.
        some = np.flatnonzero(longer | (known & _WHOLE > 0))
        these, longer, keys = these[some], longer[some], keys[some]
        if not len(these):
            return []
        before = self._kinds(runs.keys(np.maximum(these - 1, 0)))
        some = np.flatnonzero(longer | ((before & _BEFORE) > 0) | self._joined(runs, letter, these))
        these, longer, keys, before = these[some], longer[some], keys[some], before[some]
        good = np.empty(len(these), dtype=bool)
        for some, known in zip((~longer, longer), self._known, strict=True):
            good[some] = known.hold(keys[some])
        # The second part of a hyphenated word is no first name.
        start = runs.starts[these]
        good &= ~(_is_joint(data[start - 1]) & _is_letter(data[start - 2]))
        these, before, start = these[good], before[good], start[good]
        rows, places = _where(start, offsets)
        ends = runs.ends[np.minimum(these + 1, len(runs.starts) - 1)]
        usual = ~longer[good] & (before & _OPENER == 0) & self._usual(runs, letter, these)
        columns = (
            rows,
            places,
            np.where(usual, places + ends - start, 0),
            (before & (_BEFORE | _OPENER)) > 0,
        )
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _joined(self, runs: _Runs, letter: np.ndarray, these: np.ndarray) -> np.ndarray:
        """Return of which runs it is so that a surname may come next."""
        data = runs.data
        # After the last run come the fillers, where it stands for the next one, too.
        following, end = np.minimum(these + 1, len(runs.starts) - 1), runs.ends[these]
        beside = runs.starts[following] == end + 1
        joined = _SPACES[data[end]]
        joined &= beside | _SPACES[data[end + 1]]
        some = np.flatnonzero(joined)
        following, beside = following[some], beside[some]
        keys = runs.keys(following)
        small = (self._kinds(keys) & _BETWEEN) > 0
        never = self._no_surnames.hold(keys | _SMALL) & ~_is_joint(data[runs.ends[following]])
        joined[some] = (~beside | _is_capital(letter[following]) | small) & (~never | small)
        return joined

    def _usual(self, runs: _Runs, letter: np.ndarray, these: np.ndarray) -> np.ndarray:
        """Return of which runs it is plain that they and the next ones are two words, which nothing after changes."""
        data, most = runs.data, len(runs.starts) - 1
        surname, third, fourth = (np.minimum(these + i, most) for i in (1, 2, 3))
        first, last = runs.ends[these], runs.ends[surname]
        lengths = np.stack([first - runs.starts[these], last - runs.starts[surname]])
        good = (data[first] == ord(" ")) & (runs.starts[surname] == first + 1) & _is_capital(letter[surname])
        good &= ((lengths >= _FEWEST) & (lengths <= _MOST)).all(axis=0)
        after = data[last]
        good &= ~_is_joint(after) & ((after != ord(".")) | (lengths[1] >= _BEFORE_DOT))
        # Of several spaces nothing is said.
        good &= ~(_SPACES[after] & _SPACES[data[last + 1]])
        more = np.flatnonzero(
            good & _SPACES[after] & (runs.starts[third] == last + 1) & _is_capital(letter[third])
        )
        third, fourth = third[more], fourth[more]
        things = (self._kinds(runs.keys(third)) | self._kinds(runs.keys(fourth))) & _THING
        good[more] = (things == 0) & ~_is_joint(data[runs.ends[third]])
        return good


class _Runs:
    """Runs of letters in captions laid end to end."""

    def __init__(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray):
        self.data, self.starts, self.ends = data, starts, ends
        self._whole = data.view("<u8")

    def keys(self, these: np.ndarray) -> np.ndarray:
        """Return the first eight letters of some runs as numbers, each from two whole numbers of memory."""
        starts = self.starts[these]
        at = starts >> 3
        shift = ((starts & 7) << 3).astype(np.uint64)
        keys = self._whole[at] >> shift
        # Shifted in two steps, because 64 places at once are none.
        keys |= (self._whole[at + 1] << (np.uint64(63) - shift)) << np.uint64(1)
        keys &= _MASKS[np.minimum(self.ends[these] - starts, _LETTERS)]
        return keys


class _Keys:
    """A set of numbers that says of many at once whether it holds them."""

    def __init__(self, keys: np.ndarray):
        # The largest number ends it, so that every number has a place; it is no word's.
        self._keys = np.unique(np.append(keys, np.uint64(2**64 - 1)))

    def hold(self, keys: np.ndarray) -> np.ndarray:
        return self._keys[np.searchsorted(self._keys, keys)] == keys


def _laid(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return captions end to end as one byte a character, where each starts, and which were left out."""
    pad = _GAP * (_PAD - 1)
    blob = _GAP.join([pad, *texts, pad])
    if len(blob) > LONGEST * (len(texts) + 1):
        # Some are long: they are not laid out at all.
        texts = [text if len(text) <= LONGEST else _FILL * (LONGEST + 1) for text in texts]
        blob = _GAP.join([pad, *texts, pad])
    laid = bytearray(blob.encode("utf-8", "surrogatepass"))
    data = np.frombuffer(laid, dtype=np.uint8)
    gaps = np.flatnonzero(data == ord(_GAP))
    if len(gaps) != 2 * len(pad) + len(texts) + 1:
        return _laid([text.replace(_GAP, _FILL) for text in texts])
    data = data[: len(data) // 8 * 8]
    offsets = gaps[_PAD - 1 : _PAD + len(texts)] + 1
    lengths = np.diff(offsets) - 1
    others = np.flatnonzero(lengths > LONGEST)
    if not blob.isascii():
        rows = np.searchsorted(offsets, np.flatnonzero(data >= 128), side="right") - 1
        rows = rows[np.diff(rows, prepend=-1) > 0]
        for row, start, length in zip(
            *(x.tolist() for x in (rows, offsets[rows], lengths[rows])), strict=True
        ):
            # A character takes one place instead of several; what is left over is filled.
            plain = _NOT_ASCII.sub(_stand_in, texts[row]).encode("ascii")
            laid[start : start + length] = plain.ljust(length, _FILL.encode())
    for row in others.tolist():
        laid[offsets[row] : offsets[row + 1] - 1] = _FILL.encode() * int(lengths[row])
    return data, offsets[:-1], others.tolist()


def _key(word: str) -> int:
    """Return the first eight letters of a word as a number."""
    return int.from_bytes(word[:_LETTERS].translate(_stand_ins).encode("ascii"), "little")


def _slot(keys: np.ndarray) -> np.ndarray:
    """Return where in the table of names keys stand; several may share a place."""
    return _place(keys * np.uint64(_MULTIPLIER), _NAME_BITS)


def _place(products: np.ndarray, bits: int) -> np.ndarray:
    """Return the highest bits of some numbers, as indices of a table."""
    products >>= np.uint64(64 - bits)
    # Signed, because other indices are converted first.
    return products.view(np.int64)


def _spread(keys: np.ndarray) -> tuple[np.uint64, np.ndarray]:
    """Return a multiplier that gives every key a place of its own in the table of words, and the places."""
    multiplier = _MULTIPLIER
    while True:
        slots = (keys * np.uint64(multiplier)) >> np.uint64(64 - _WORD_BITS)
        if len(np.unique(slots)) == len(keys):
            return np.uint64(multiplier), slots
        multiplier = (multiplier * 6364136223846793005 + 1442695040888963407) % (1 << 64) | 1


def _where(places: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the captions that places in a block are in, and their indices there."""
    rows = np.searchsorted(offsets, places, side="right") - 1
    return rows, places - offsets[rows]


def _is_letter(byte: np.ndarray) -> np.ndarray:
    return (byte | np.uint8(32)) - np.uint8(97) < 26


def _is_joint(byte: np.ndarray) -> np.ndarray:
    return (byte == ord("-")) | (byte == ord("'"))


def _is_digit(byte: np.ndarray) -> np.ndarray:
    return byte - np.uint8(48) < 10


def _is_capital(byte: np.ndarray) -> np.ndarray:
    return byte - np.uint8(65) < 26
