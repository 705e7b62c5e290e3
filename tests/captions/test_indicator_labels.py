"""Captions labelled by hand, how well the gender indicators agree with them, and the arithmetic of it.

``indicator_labels.md`` describes the selection of captions and the columns of ``indicator_labels.csv``.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import gcc
import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from biaslab import lexicons
from biaslab.captions import indicators as rule
from biaslab.captions.indicators import WAYS, error_rates, indicators, parse_spans
from biaslab.errors import ParameterError
from biaslab.stats.intervals import wilson_interval

SPLITS = ("dev", "test")
CAPITALS = ("none", "sentence", "headline")
_SMALL_WORDS = frozenset(("a", "the", "of", "in", "on", "and", "to", "at", "for", "with", "is", "by", "from"))
_LABELS = Path(__file__).parent / "indicator_labels.csv"


def labels(split: str) -> pd.DataFrame:
    """Return the labels of one split, ``dev`` or ``test``, one row per caption."""
    table = pd.read_csv(_LABELS, keep_default_na=False, dtype={"capitals": str})
    return table[table["split"] == split].reset_index(drop=True)


def write_captions(
    captions: Sequence[str], table: pd.DataFrame, *, capitals: str = "none", persons: bool = False
) -> pd.DataFrame:
    """Write rows of :func:`labels` out: text, label, any_word and names (of the text).

    ``captions`` are all of the file, in order. ``capitals`` is ``none`` as in the file, ``sentence`` as English writes
    it, or ``headline``: every word but small ones. With ``persons``, stand-ins are replaced by names of Nobel
    laureates, other ones for each split, drawn by caption.
    """
    rows = []
    for row in table.itertuples():
        text = _capitalise(captions[row.line - 1], map(int, filter(None, row.capitals.split(";"))), capitals)
        names = [(*place, False) for place in _places(row.names)]
        if persons:
            names += [(*place, True) for place in _places(row.stand_ins)]
        text, names = _with_persons(text, sorted(names), row, proper=capitals != "none")
        genders = {gender for _, _, gender in names}
        spans = ";".join(f"{start}:{end}:{gender}-name" for start, end, gender in names)
        rows.append((text, _combine_genders(row.label, genders), _combine_genders(row.any_word, genders), spans))
    return pd.DataFrame(rows, columns=["text", "label", "any_word", "names"])


def evaluate(texts: Sequence[str], labels: pd.DataFrame, *, against: str = "label") -> pd.DataFrame:
    """Return precision and recall of the gender indicators in %, with 95% intervals, and count of n captions or names.

    Targets are ``any`` (an indicator of either gender), ``female`` and ``male`` (a caption with both has each), and
    ``name``: a name is right where a labelled one of the same gender overlaps it.
    """
    result = indicators(texts)
    indicators_by_target = {"any": ("female", "male", "both"), "female": ("female", "both"), "male": ("male", "both")}
    hits: dict[tuple[str, str], list[bool]] = {}
    for target, values in indicators_by_target.items():
        ours, true = (column.isin(values).to_numpy() for column in (result["indicator"], labels[against]))
        hits[target, "precision"], hits[target, "recall"] = list(true[ours]), list(ours[true])
    hits["name", "precision"], hits["name", "recall"] = [], []
    for ours, true in zip(result["spans"], labels["names"], strict=True):
        found_names, labelled_names = [s for s in parse_spans(ours) if s.kind == "name"], parse_spans(true)
        for statistic, candidates, references in (
            ("precision", found_names, labelled_names),
            ("recall", labelled_names, found_names),
        ):
            hits["name", statistic] += [
                any(s.start < o.end and o.start < s.end and s.gender == o.gender for o in references)
                for s in candidates
            ]
    rows = pd.DataFrame(hits.keys(), columns=["target", "statistic"])
    count, n = (pd.Series([aggregate(right) for right in hits.values()]) for aggregate in (sum, len))
    low, high = wilson_interval(count, n)
    return rows.assign(value=100 * count / n, ci_low=100 * low, ci_high=100 * high, count=count, n=n)


def agreement(captions: Sequence[str]) -> pd.DataFrame:
    """Return :func:`evaluate`'s rows for both splits and every way of writing."""
    parts = []
    for split in SPLITS:
        table = labels(split)
        for against, capitals, persons in WAYS:
            texts = write_captions(captions, table, capitals=capitals, persons=persons)
            rows = evaluate(texts["text"].tolist(), texts, against=against)
            rows = rows[(rows["target"] != "name") | (against == "label")]
            values = {"split": split, "against": against, "capitals": capitals, "persons": persons}
            parts.append(pd.DataFrame(values, index=rows.index).join(rows))
    return pd.concat(parts, ignore_index=True)


def _places(cell: str) -> list[tuple[int, int, str]]:
    parts = (part.split(":") for part in filter(None, cell.split(";")))
    return [(int(start), int(end), gender.removesuffix("-name")) for start, end, gender in parts]


def _combine_genders(label: str, genders: set[str]) -> str:
    values = genders | ({"female", "male"} if label == "both" else {label} - {"none"})
    return "both" if len(values) == 2 else next(iter(values), "none")


def _capitalise(caption: str, places: Sequence[int], capitals: str) -> str:
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


def _persons(split: str, gender: str) -> tuple[str, ...]:
    return lexicons.load("laureates")[gender][SPLITS.index(split) :: 2]


def _with_persons(text: str, places: Sequence, row, *, proper: bool) -> tuple[str, list]:
    """Return a text with names in the places of its stand-ins, and the spans of all its names."""
    out, spans, last = "", [], 0
    for start, end, gender, stand_in in places:
        part = text[start:end]
        if stand_in:
            digest = hashlib.blake2b(f"0:{row.line}:{start}".encode(), digest_size=8).digest()
            number = int.from_bytes(digest)
            gender = ("female", "male")[number % 2] if gender == "any" else gender
            candidates = _persons(row.split, gender)
            part = candidates[(number >> 8) % len(candidates)]
            part = part if proper else part.lower()
        out += text[last:start]
        spans.append((len(out), len(out) + len(part), gender))
        out, last = out + part, end
    return out + text[last:], spans


# -- tests -------------------------------------------------------------------------------------------------------


def test_evaluate_precision_and_recall_by_hand():
    texts = [
        "a man and a woman",  # found: both
        "Emma Watson",  # found: female, by name
        "Peter Novak",  # found: male, by name
        "a dog on his bed",  # found: male
        "penny",  # found: none
        "a sea",  # found: none
    ]
    labels = pd.DataFrame(
        {
            "label": ["both", "female", "female", "none", "female", "none"],
            # The third is labelled as a woman's name, the fifth is a name that the rule does not find.
            "names": ["", "0:11:female-name", "0:11:female-name", "", "0:5:female-name", ""],
        }
    )
    rows = evaluate(texts, labels).set_index(["target", "statistic"])
    # Found by the rule: any in captions 1–4, right in 1–3; labelled: 1, 2, 3, 5.
    # Female found in 1, 2 (both right) of 1, 2, 3, 5. Male found in 1, 3, 4 (1 right) of 1.
    # Names found in 2 and 3, right in 2; labelled in 2, 3, 5.
    assert rows.index.tolist() == [(t, s) for t in ("any", "female", "male", "name") for s in ("precision", "recall")]
    count, n = np.array([(3, 4), (3, 4), (2, 2), (2, 4), (1, 3), (1, 1), (1, 2), (1, 3)]).T
    expected = 100 * np.array([count / n, *proportion_confint(count, n, method="wilson")])
    np.testing.assert_allclose(rows[["value", "ci_low", "ci_high", "count", "n"]].T, [*expected, count, n], atol=1e-9)


def test_agreement_matches_committed_error_rates(root):
    recomputed = agreement(gcc.captions(root))
    committed_rates = error_rates()
    assert committed_rates.columns.tolist() == recomputed.columns.tolist()
    pd.testing.assert_frame_equal(committed_rates, recomputed, check_dtype=False, atol=1e-3)


def test_committed_error_rates_meet_limits():
    rows = error_rates()
    rows = rows.set_index(["split", "against", "capitals", "persons", "target", "statistic"]).sort_index()
    # With capitals and names: at least 94 of 100 names found are right, at least 3 of 4 are found (95% limits).
    name = rows.loc[("test", "label", "sentence", True, "name")]
    assert name.loc["precision", "ci_low"] > 94 and name.loc["recall", "ci_low"] > 75
    for capitals in CAPITALS:
        # Without names in the captions none is found: no place, no brand, no word.
        assert rows.loc[("test", "label", capitals, False, "name", "precision"), "n"] == 0
        for statistic in ("precision", "recall"):
            assert rows.loc[("test", "label", capitals, False, "any", statistic), "ci_low"] > 90
    displayed = rule.agreement("test")
    assert displayed.columns.tolist() == ["captions", "indicators", "precision", "recall"]
    assert len(displayed) == 6 * 4 + 3
    cell = displayed.query("captions == 'with names and capitals' and indicators == \"persons' names\"").iloc[0]
    assert cell["precision"].endswith(f", n = {name.loc['precision', 'n']}") and "% (" in cell["recall"]
    assert displayed["precision"].eq("no captions").sum() == 4
    with pytest.raises(ParameterError, match="split is 'all'"):
        rule.agreement("all")
