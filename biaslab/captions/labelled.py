"""Captions labelled by hand, and how well the gender indicators agree with them.

``data/indicator_labels.csv`` labels 430 captions of the validation split of Conceptual Captions (GCC; Sharma et al.,
2018) by their line number there; ``data/indicator_labels.md`` says by what rule they were chosen and read. That
file has no capitals, and nearly all names of persons in it are replaced by words such as ``person``. So the labels
also say which letters English would capitalise and where a name has stood, and :func:`written` writes the captions
as they are, with capitals, or with names of real persons in their old places.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from biaslab import lexicons
from biaslab.errors import InputError, ParameterError, name_help

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

SPLITS = ("dev", "test")
CAPITALS = ("none", "sentence", "headline")
# The ways of writing that agreement is measured in: capitals, and whether persons' names are put back.
WAYS = tuple((capitals, persons) for persons in (False, True) for capitals in CAPITALS)
# Captions labelled of each stratum, half of them for each split.
LABELLED = {
    "gender_word": 90,
    "pronoun": 60,
    "kin_or_title": 50,
    "like_a_name": 90,
    "person": 80,
    "plain": 60,
}
_STRATA = {
    "gender_word": r"(?:fe)?males?|(?:wo)?men|(?:wo)?mans?|gentlem[ae]n|gentlemans|gents?|ladys?|ladies|girls?|boys?",
    "pronoun": r"she|hers?|herself|he|him|his|himself",
    "kin_or_title": (
        r"mr|mrs|ms|miss|sir|madam|dame|lord|(?:mother|father|mom|dad|son|daughter|brother|sister|king|queen|bride)s?"
        r"|wife|wives|husbands?|mum|mommy|daddy|prince|princess|duke|duchess|actress(?:es)?|waitress|groom|bridesmaid"
        r"|groomsman|guys?|uncle|aunt|grand(?:mother|father|son|daughter|ma|pa)|girlfriend|boyfriend|business(?:wo)?man"
        r"|fireman|policeman|fisherman|schoolgirl|schoolboy|cowboy|cowgirl|widow|witch|monk|nun|nephew|niece|fiancee?"
        r"|housewife|hostess|heroine|goddess|ballerina|mermaid|lass|lad|bachelor"
    ),
    "person": (
        r"person|actor|politician|player|artist|celebrity|author|director|cricketer|character|athlete|monarch|builder"
        r"|commander|president|profession|baseball|golfer|boxer|leader"
    ),
}
# A word that stands in more captions than these is too common to look like a name.
_COMMON = 40
_SMALL_WORDS = frozenset(("a", "the", "of", "in", "on", "and", "to", "at", "for", "with", "is", "by", "from"))
_DATA = resources.files(__package__) / "data"


def labels(split: str | None = None) -> pd.DataFrame:
    """Return the labels, one row a caption, of one split (``dev``, ``test``) or both.

    Columns: ``line`` (from 1), ``split``, ``stratum``, ``weight`` (how many different captions of the file the row
    stands for, within its split), ``label`` (``none``, ``female``, ``male``, ``both``: by words and pronouns of the
    paper, forms of address and names), ``any_word`` (the same, by any word), ``names`` (spans of persons' names, as
    :func:`biaslab.captions.indicators.parse_spans` reads them), ``stand_ins`` (``start:end:gender`` of words that
    stand where a name has stood; ``any`` where the caption does not say whose) and ``capitals`` (indices of letters
    that English capitalises, but for sentences' first ones and I). Places count characters.

    Raises:
        ParameterError: There is no such split.
    """
    import pandas as pd

    if split is not None and split not in SPLITS:
        raise ParameterError(f"split is {split!r}. {name_help(split, SPLITS)}")
    with (_DATA / "indicator_labels.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, keep_default_na=False, dtype={"capitals": str})
    return table if split is None else table[table["split"] == split].reset_index(drop=True)


def draw(captions: Sequence[str], sizes: Mapping[str, int] = LABELLED, *, seed: int = 0) -> pd.DataFrame:
    """Draw the captions to label: ``sizes`` of each stratum, uniformly, half of them for each split.

    A caption's stratum is the first that fits: it holds a gender word (``gender_word``), a pronoun, a form of
    address or another word that says a gender (``kin_or_title``), a word that is in gender-guesser's dictionary and
    in at most 40 of the captions (``like_a_name``), a word that stands for a person, or none of them (``plain``).
    Equal captions count once.

    Args:
        captions: Captions in lower case.
        sizes: How many of each stratum, even numbers.
        seed: Seed of the draw.

    Returns:
        ``line``, ``split``, ``stratum`` and ``weight`` as :func:`labels` has them, by line.

    Raises:
        ParameterError: A stratum is unknown or has fewer captions than asked for, or a size is odd or not positive.
    """
    import pandas as pd

    lines = {caption: i for i, caption in reversed(list(enumerate(captions, 1)))}
    members: dict[str, list[int]] = {name: [] for name in LABELLED}
    for caption, stratum in zip(lines, _strata(list(lines), captions), strict=True):
        members[stratum].append(lines[caption])
    rows = []
    for stratum, size in sizes.items():
        if stratum not in members:
            raise ParameterError(f"There is no stratum {stratum!r}. {name_help(stratum, members)}")
        there = members[stratum]
        if size < 2 or size % 2 or size > len(there):
            raise ParameterError(
                f"{size} captions are asked for of the stratum {stratum!r}, which has {len(there)}; ask for an even "
                "number, at most as many."
            )
        chosen = sorted(there, key=lambda line: _hash(seed, line))[:size]
        weight = round(len(there) / (size / 2), 4)
        rows += [(line, SPLITS[i % 2], stratum, weight) for i, line in enumerate(chosen)]
    return pd.DataFrame(sorted(rows), columns=["line", "split", "stratum", "weight"])


def written(
    captions: Sequence[str],
    table: pd.DataFrame,
    *,
    capitals: str = "none",
    persons: bool = False,
    seed: int = 0,
) -> pd.DataFrame:
    """Write labelled captions out, as they are or with capitals and persons' names put back.

    Names are those of Nobel laureates, other ones for each split, drawn by seed and caption; one whose gender the
    caption says gets a name of that gender.

    Args:
        captions: All captions of the file, in order.
        table: Rows of :func:`labels`.
        capitals: ``none`` as in the file, ``sentence`` as English writes it, or ``headline``: every word but small
            ones.
        persons: Whether stand-ins are replaced by persons' names, with their capitals unless ``capitals`` is
            ``none``.
        seed: Seed of the names.

    Returns:
        One row a row of ``table``: ``text``, ``label``, ``any_word``, ``names`` (of the text) and ``weight``.

    Raises:
        ParameterError: ``capitals`` is unknown.
        InputError: ``captions`` has fewer lines than the labels name.
    """
    import pandas as pd

    if capitals not in CAPITALS:
        raise ParameterError(f"capitals is {capitals!r}. {name_help(capitals, CAPITALS)}")
    if len(table) and len(captions) < table["line"].max():
        raise InputError(
            f"There are {len(captions)} captions but line {table['line'].max()} is labelled; give all captions of "
            "the file."
        )
    rows = []
    for row in table.itertuples():
        caption = captions[row.line - 1]
        text = _capitalised(caption, [int(i) for i in filter(None, row.capitals.split(";"))], capitals)
        names = [(int(s), int(e), g.removesuffix("-name")) for s, e, g in _triples(row.names)]
        genders = {g for _, _, g in names}
        if persons:
            text, names = _with_persons(text, names, row, capitals != "none", seed)
            genders = {g for _, _, g in names}
        rows.append(
            {
                "text": text,
                "label": _together(row.label, genders),
                "any_word": _together(row.any_word, genders),
                "names": ";".join(f"{s}:{e}:{g}-name" for s, e, g in sorted(names)),
                "weight": row.weight,
            }
        )
    return pd.DataFrame(rows, columns=["text", "label", "any_word", "names", "weight"])


def evaluate(
    texts: Sequence[str],
    labels: pd.DataFrame,
    *,
    names: str = "gazetteer",
    against: str = "label",
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Measure precision and recall of the gender indicators against labels.

    Args:
        texts: Captions.
        labels: A row for each: ``label`` (``none``, ``female``, ``male``, ``both``), and where given ``names``, spans
            of persons' names, and ``weight``, how many captions of a file the row stands for (1 where absent).
        names: How names are found, as for :func:`biaslab.captions.indicators.indicators`.
        against: The column of labels to compare with.
        confidence: Level of the intervals.

    Returns:
        Rows for each ``target`` and ``statistic`` (``precision``, ``recall``): ``value``, ``ci_low`` and ``ci_high``
        in %, ``count`` of ``n`` captions or names, and ``file_value``, ``file_ci_low`` and ``file_ci_high``, the
        same weighted. Targets are ``any`` (an indicator of either gender), ``female`` and ``male`` (a caption with
        both has each), and ``name`` where ``labels`` has names: a name is right where a labelled one of the same
        gender overlaps it. Intervals are Wilson's; weighted ones take Kish's effective number for n. Where n is 0
        all are NaN.

    Raises:
        InputError: The numbers of texts and labels differ, a column is missing or a label is unknown.
        ParameterError: ``names`` is unknown.
    """
    import numpy as np
    import pandas as pd

    from biaslab.captions.indicators import INDICATORS, indicators, parse_spans

    if len(texts) != len(labels):
        raise InputError(
            f"There are {len(texts)} texts but {len(labels)} labels; give one label for each text."
        )
    if against not in labels:
        raise InputError(f"The labels have no column {against!r}; they have {', '.join(labels.columns)}.")
    odd = sorted(set(labels[against]) - set(INDICATORS))
    if odd:
        raise InputError(f"The label {odd[0]!r} is unknown; labels are {', '.join(INDICATORS)}.")
    found = indicators(texts, names=names)
    weights = labels["weight"].to_numpy(float) if "weight" in labels else np.ones(len(labels))
    rows = []
    for target, said in (("any", ()), ("female", ("female", "both")), ("male", ("male", "both"))):
        ours, true = (
            np.isin(column, said) if said else column != "none"
            for column in (found["indicator"].to_numpy(object), labels[against].to_numpy(object))
        )
        for statistic, base in (("precision", ours), ("recall", true)):
            rows.append((target, statistic, *_share((ours & true)[base], weights[base], confidence)))
    if "names" in labels:
        hits: dict[str, list[tuple[bool, float]]] = {"precision": [], "recall": []}
        for ours, true, weight in zip(found["spans"], labels["names"], weights, strict=True):
            mine = [s for s in parse_spans(ours) if s.kind == "name"]
            theirs = parse_spans(true)
            for statistic, some, others in (("precision", mine, theirs), ("recall", theirs, mine)):
                hits[statistic] += [
                    (
                        any(s.start < o.end and o.start < s.end and s.gender == o.gender for o in others),
                        weight,
                    )
                    for s in some
                ]
        for statistic, each in hits.items():
            right, weight = (np.array(column) for column in zip(*each, strict=True)) if each else ([], [])
            rows.append(
                ("name", statistic, *_share(np.array(right, bool), np.array(weight, float), confidence))
            )
    return pd.DataFrame(
        rows,
        columns=[
            *("target", "statistic", "value", "ci_low", "ci_high", "count", "n"),
            *("file_value", "file_ci_low", "file_ci_high"),
        ],
    )


def agreement(captions: Sequence[str], *, confidence: float = 0.95) -> pd.DataFrame:
    """Measure the indicators, with names by the gazetteer, against all labels, in every way of writing.

    Args:
        captions: All captions of the file, in order.
        confidence: Level of the intervals.

    Returns:
        :func:`evaluate`'s rows with ``split``, ``against``, ``capitals`` and ``persons`` before them. Against
        ``any_word`` only the captions as they are in the file are measured.
    """
    import pandas as pd

    parts = []
    for split in SPLITS:
        table = labels(split)
        for against, ways in (("label", WAYS), ("any_word", WAYS[:1])):
            for capitals, persons in ways:
                texts = written(captions, table, capitals=capitals, persons=persons)
                rows = evaluate(texts["text"].tolist(), texts, against=against, confidence=confidence)
                if against == "any_word":
                    rows = rows[rows["target"] != "name"]
                said = {"split": split, "against": against, "capitals": capitals, "persons": persons}
                parts.append(pd.DataFrame(said, index=rows.index).join(rows))
    return pd.concat(parts, ignore_index=True)


def measured() -> pd.DataFrame:
    """Return what :func:`agreement` gave for the captions of the validation split, at 95 %."""
    import pandas as pd

    with (_DATA / "indicator_agreement.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def summary(split: str = "test", *, whole_file: bool = False) -> pd.DataFrame:
    """Return what was measured on one split, to show: a row for each way of writing and target, cells as text.

    Args:
        split: ``dev`` or ``test``.
        whole_file: Whether shares are those of the whole file instead of the labelled captions.

    Raises:
        ParameterError: There is no such split.
    """
    if split not in SPLITS:
        raise ParameterError(f"split is {split!r}. {name_help(split, SPLITS)}")
    rows = measured()
    rows = rows[rows["split"] == split]
    prefix = "file_" if whole_file else ""
    ways = {
        ("label", "none", False): "as in the file",
        ("label", "sentence", False): "with capitals",
        ("label", "headline", False): "as headlines",
        ("label", "none", True): "with names, no capitals",
        ("label", "sentence", True): "with names and capitals",
        ("label", "headline", True): "with names, as headlines",
        ("any_word", "none", False): "as in the file, against any word",
    }
    cells = {"any": "any indicator", "female": "female", "male": "male", "name": "persons' names"}
    shown = rows.assign(
        captions=[ways[key] for key in zip(rows["against"], rows["capitals"], rows["persons"], strict=True)],
        found=rows["target"].map(cells),
        text=[
            "none to count" if n == 0 else f"{value:.1f} % ({low:.1f}–{high:.1f}), n = {n}"
            for value, low, high, n in zip(
                *(rows[prefix + c] for c in ("value", "ci_low", "ci_high")), rows["n"], strict=True
            )
        ],
    )
    table = shown.pivot(index=["captions", "found"], columns="statistic", values="text")
    order = [(way, cell) for way in ways.values() for cell in cells.values() if (way, cell) in table.index]
    return table.loc[order].rename_axis(columns=None).reset_index()


def _share(right: np.ndarray, weights: np.ndarray, confidence: float) -> tuple[float, ...]:
    """Return share, limits, count and n, and share and limits of the weighted captions, in %."""
    import numpy as np

    from biaslab.stats.intervals import wilson_interval

    count, n = int(right.sum()), len(right)
    if not n:
        return (*[np.nan] * 3, 0, 0, *[np.nan] * 3)
    low, high = wilson_interval(count, n, confidence)
    weighted = float(weights[right].sum() / weights.sum())
    size = float(weights.sum() ** 2 / (weights**2).sum())
    return (
        100 * count / n,
        100 * low,
        100 * high,
        count,
        n,
        100 * weighted,
        *_wilson(weighted, size, confidence),
    )


def _wilson(share: float, size: float, confidence: float) -> tuple[float, float]:
    """Return Wilson's limits, in %, of a share of an effective number of captions, which is no whole number."""
    from scipy import stats

    z = stats.norm.ppf((1 + confidence) / 2)
    centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z * (share * (1 - share) / size + z**2 / (4 * size**2)) ** 0.5 / (1 + z**2 / size)
    return (0.0 if share == 0 else 100 * (centre - half)), (100.0 if share == 1 else 100 * (centre + half))


@cache
def _dictionary() -> frozenset[str]:
    from gender_guesser.detector import Detector

    return frozenset(name.lower() for name in Detector().names)


def _strata(texts: Sequence[str], captions: Sequence[str]) -> list[str]:
    names = _dictionary()
    held = Counter(word for caption in captions for word in set(re.findall("[a-z]+", caption)))
    like = {word for word, n in held.items() if n <= _COMMON and word in names}
    found = {name: re.compile(rf"\b(?:{words})\b") for name, words in _STRATA.items()}
    strata = []
    for text in texts:
        first = next(
            (name for name in ("gender_word", "pronoun", "kin_or_title") if found[name].search(text)), ""
        )
        if not first and not like.isdisjoint(re.findall("[a-z]+", text)):
            first = "like_a_name"
        strata.append(first or ("person" if found["person"].search(text) else "plain"))
    return strata


def _hash(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(":".join(map(str, parts)).encode(), digest_size=8).digest())


def _triples(cell: str) -> list[list[str]]:
    return [part.split(":") for part in filter(None, cell.split(";"))]


def _together(label: str, genders: set[str]) -> str:
    said = genders | ({"female", "male"} if label == "both" else {label} - {"none"})
    return "both" if len(said) == 2 else next(iter(said), "none")


def _capitalised(caption: str, places: Sequence[int], capitals: str) -> str:
    if capitals == "none":
        return caption
    letters = list(caption)
    if capitals == "sentence":
        first = [m.start(1) for m in re.finditer(r"(?:^\W*|[.!?] )(\w)", caption)]
        places = [*places, *first, *(m.start() for m in re.finditer(r"(?<!\S)i(?!\S)", caption))]
    else:
        places = [m.start() for m in re.finditer(r"(?<![\w'])\w[\w']*", caption) if m[0] not in _SMALL_WORDS]
    for i in places:
        letters[i] = letters[i].upper()
    return "".join(letters)


@cache
def _persons(split: str, gender: str) -> tuple[str, ...]:
    return lexicons.load("laureates")[gender][SPLITS.index(split) :: 2]


def _with_persons(text: str, names: list, row, proper: bool, seed: int) -> tuple[str, list]:
    """Return a text with its stand-ins replaced by names, and the spans of all its names."""
    edits = [(int(s), int(e), g, True) for s, e, g in _triples(row.stand_ins)]
    edits += [(s, e, g, False) for s, e, g in names]
    out, spans, last, length = [], [], 0, 0
    for start, end, gender, replaced in sorted(edits):
        part = text[start:end]
        if replaced:
            number = _hash(seed, row.line, start)
            gender = ("female", "male")[number % 2] if gender == "any" else gender
            some = _persons(row.split, gender)
            part = some[(number >> 8) % len(some)]
            part = part if proper else part.lower()
        out += [text[last:start], part]
        length += start - last
        spans.append((length, length + len(part), gender))
        length, last = length + len(part), end
    return "".join([*out, text[last:]]), spans
