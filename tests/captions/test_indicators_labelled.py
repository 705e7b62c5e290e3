"""The labelled captions, what is measured on them, and the arithmetic of it."""

import gcc
import numpy as np
import pandas as pd
import pytest

from biaslab import lexicons
from biaslab.captions import labelled
from biaslab.captions.indicators import INDICATORS, parse_spans
from biaslab.errors import InputError, ParameterError
from biaslab.stats.intervals import wilson_interval

SAYS = {"none": set(), "female": {"female"}, "male": {"male"}, "both": {"female", "male"}}


def test_labels_are_whole_and_agree_with_themselves():
    table = labelled.labels()
    assert len(table) == sum(labelled.LABELLED.values()) == 430
    assert table["line"].is_unique and table["line"].is_monotonic_increasing
    assert table.groupby("stratum").size().to_dict() == labelled.LABELLED
    for _, some in table.groupby("stratum"):
        assert some["split"].value_counts().nunique() == 1
        assert some["weight"].nunique() == 1
    assert set(table["label"]) == set(table["any_word"]) == set(INDICATORS)
    for row in table.itertuples():
        # A name says its gender, and another word can only add one.
        assert {s.gender for s in parse_spans(row.names)} <= SAYS[row.label] <= SAYS[row.any_word]
    assert len(labelled.labels("dev")) == len(labelled.labels("test")) == 215
    with pytest.raises(ParameterError, match=r"split is 'tset'. Did you mean 'test'"):
        labelled.labels("tset")


def test_the_labelled_captions_are_those_that_were_drawn(root):
    captions = gcc.captions(root)
    drawn, table = labelled.draw(captions), labelled.labels()
    assert len(captions) == 15_833
    for column in ("line", "split", "stratum"):
        assert drawn[column].tolist() == table[column].tolist()
    assert drawn["weight"].tolist() == pytest.approx(table["weight"].tolist())
    # Over one split the weights add up to all different captions.
    for split in labelled.SPLITS:
        assert table.loc[table["split"] == split, "weight"].sum() == pytest.approx(
            len(set(captions)), abs=0.1
        )
    for row in table.itertuples():
        caption = captions[row.line - 1]
        for start, end, _ in (part.split(":") for part in row.stand_ins.split(";") if part):
            word = caption[int(start) : int(end)]
            assert word.replace(" ", "").isalpha() and word == word.strip()
            assert not caption[int(end) : int(end) + 1].isalpha() and not caption[: int(start)][-1:].isalpha()
        for start in filter(None, row.capitals.split(";")):
            assert caption[int(start)].isalpha() and not caption[: int(start)][-1:].isalpha()


CAPTIONS = ["a man", "she smiles", "my mother", "penny in rain", "person runs", "plain sea"] * 2 + [
    "a boy",
    "her hat",
]
CAPTIONS += [
    "his aunt",
    "the king",
    "sandy beach",
    "some actor",
    "green water",
    "blue tables",
    "the girl",
    "he is",
]


def test_a_draw_by_hand():
    sizes = {"gender_word": 2, "pronoun": 4, "kin_or_title": 2, "like_a_name": 2, "person": 2, "plain": 2}
    drawn = labelled.draw(CAPTIONS, sizes)
    strata = {
        # Words first, then pronouns, then other words: "his aunt" has a pronoun.
        **dict.fromkeys(["a man", "a boy", "the girl"], "gender_word"),
        **dict.fromkeys(["she smiles", "her hat", "his aunt", "he is"], "pronoun"),
        **dict.fromkeys(["my mother", "the king"], "kin_or_title"),
        # Rain, penny and sandy are in the dictionary.
        **dict.fromkeys(["penny in rain", "sandy beach"], "like_a_name"),
        **dict.fromkeys(["person runs", "some actor"], "person"),
        **dict.fromkeys(["plain sea", "blue tables", "green water"], "plain"),
    }
    chosen = [CAPTIONS[line - 1] for line in drawn["line"]]
    assert len(set(chosen)) == len(chosen) == 14
    assert drawn["stratum"].tolist() == [strata[caption] for caption in chosen]
    assert drawn.groupby(["stratum", "split"]).size().tolist() == [1, 1] * 5 + [2, 2]
    # 3 captions with gender words, one labelled in each split, stand for 3 each; 4 with pronouns for 4 / 2.
    weights = drawn.groupby("stratum")["weight"].first()
    assert (weights["gender_word"], weights["pronoun"], weights["kin_or_title"]) == (3, 2, 2)
    assert labelled.draw(CAPTIONS, sizes).equals(drawn)
    assert not labelled.draw(CAPTIONS, {"gender_word": 2}, seed=1).equals(
        labelled.draw(CAPTIONS, {"gender_word": 2})
    )


def test_a_draw_that_cannot_be():
    with pytest.raises(ParameterError, match=r"There is no stratum 'plan'. Did you mean 'plain'"):
        labelled.draw(CAPTIONS, {"plan": 2})
    for size in (0, 1, 40):
        with pytest.raises(ParameterError, match=rf"{size} captions are asked for of the stratum 'plain'"):
            labelled.draw(CAPTIONS, {"plain": size})


def table_of(**cells):
    row = {
        "line": 1,
        "split": "test",
        "label": "none",
        "any_word": "none",
        "names": "",
        "stand_ins": "",
        "capitals": "",
    }
    return pd.DataFrame([{**row, "weight": 1.0, **cells}])


def test_captions_are_written_with_their_capitals():
    captions = ["in paris . i 'm the actor 's fan", "x"]
    table = table_of(capitals="3")
    texts = [labelled.written(captions, table, capitals=c)["text"][0] for c in labelled.CAPITALS]
    assert texts == [
        captions[0],
        "In Paris . I 'm the actor 's fan",
        "in Paris . I 'm the Actor 's Fan",
    ]
    with pytest.raises(ParameterError, match=r"capitals is 'headlines'. Did you mean 'headline'"):
        labelled.written(captions, table, capitals="headlines")
    with pytest.raises(InputError, match="There are 2 captions but line 3 is labelled"):
        labelled.written(captions, table_of(line=3))


def test_names_are_put_back():
    captions = ["luann and football player with his cat and person"]
    stand_ins, names = "10:25:male;43:49:any", "0:5:female-name"
    table = table_of(stand_ins=stand_ins, names=names, label="both", any_word="both")
    seen, genders = set(), set()
    for seed in range(40):
        (row,) = labelled.written(captions, table, capitals="sentence", persons=True, seed=seed).itertuples()
        spans = parse_spans(row.names)
        parts = [row.text[s.start : s.end] for s in spans]
        assert row.text == f"Luann and {parts[1]} with his cat and {parts[2]}" and parts[0] == "Luann"
        assert [s.gender for s in spans[:2]] == ["female", "male"]
        for part, span in zip(parts[1:], spans[1:], strict=True):
            # The test's names are every second one of each list.
            assert part in lexicons.load("laureates")[span.gender][1::2]
        assert row.label == "both"
        seen.add(parts[1])
        genders.add(spans[2].gender)
    assert len(seen) > 10 and genders == {"female", "male"}
    # Without capitals the names have none, either; without names the label is the caption's own.
    lower = labelled.written(captions, table, persons=True)["text"][0]
    assert lower == lower.lower()
    assert labelled.written(captions, table)["names"].tolist() == [names]
    one = table_of(stand_ins="0:6:any")
    assert labelled.written(["person runs"], one, persons=True)["label"][0] in ("female", "male")
    assert labelled.written(["person runs"], one)["label"][0] == "none"


def test_dev_and_test_share_no_person():
    for gender in ("female", "male"):
        dev, test = (set(labelled._persons(split, gender)) for split in labelled.SPLITS)
        assert not dev & test and len(dev) + len(test) == len(lexicons.load("laureates")[gender])


def test_precision_and_recall_by_hand():
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
            "weight": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        }
    )
    rows = labelled.evaluate(texts, labels).set_index(["target", "statistic"])
    # Found by the rule: any in captions 1–4, right in 1–3; labelled: 1, 2, 3, 5.
    # Female found in 1, 2 (both right) of 1, 2, 3, 5. Male found in 1, 3, 4 (1 right) of 1.
    # Names found in 2 and 3, right in 2; labelled in 2, 3, 5.
    expected = {
        ("any", "precision"): (3, 4, 6 / 10),
        ("any", "recall"): (3, 4, 6 / 11),
        ("female", "precision"): (2, 2, 1),
        ("female", "recall"): (2, 4, 3 / 11),
        ("male", "precision"): (1, 3, 1 / 8),
        ("male", "recall"): (1, 1, 1),
        ("name", "precision"): (1, 2, 2 / 5),
        ("name", "recall"): (1, 3, 2 / 10),
    }
    assert rows.index.tolist() == list(expected)
    for key, (count, n, weighted) in expected.items():
        row = rows.loc[key]
        assert (row["count"], row["n"]) == (count, n)
        assert row["value"] == pytest.approx(100 * count / n)
        assert (row["ci_low"], row["ci_high"]) == pytest.approx(
            tuple(100 * np.array(wilson_interval(count, n)))
        )
        assert row["file_value"] == pytest.approx(100 * weighted)
        assert row["file_ci_low"] <= row["file_value"] <= row["file_ci_high"]
    # Equal weights change nothing.
    same = labelled.evaluate(texts, labels.assign(weight=7.0))
    for column in ("value", "ci_low", "ci_high"):
        assert same[f"file_{column}"].tolist() == pytest.approx(same[column].tolist())
    # Kish: weights 1, 2, 3 and 4 count as 10² / 30 captions.
    size = 100 / 30
    z = 1.959963984540054
    low = ((0.6 + z**2 / 2 / size) - z * (0.24 / size + z**2 / 4 / size**2) ** 0.5) / (1 + z**2 / size)
    assert rows.loc[("any", "precision"), "file_ci_low"] == pytest.approx(100 * low)


def test_nothing_to_count_is_missing():
    rows = labelled.evaluate(["a sea"], pd.DataFrame({"label": ["none"], "names": [""]}))
    assert (rows["n"] == 0).all() and rows.drop(columns=["target", "statistic", "count", "n"]).isna().all(
        axis=None
    )
    without = labelled.evaluate(["a man"], pd.DataFrame({"label": ["male"]}), names="off")
    assert without["target"].unique().tolist() == ["any", "female", "male"]


def test_labels_that_do_not_fit_are_named():
    labels = pd.DataFrame({"label": ["male"]})
    with pytest.raises(InputError, match="There are 2 texts but 1 labels"):
        labelled.evaluate(["a", "b"], labels)
    with pytest.raises(InputError, match="no column 'wide'; they have label"):
        labelled.evaluate(["a"], labels, against="wide")
    with pytest.raises(InputError, match="The label 'man' is unknown; labels are none, female, male, both"):
        labelled.evaluate(["a"], pd.DataFrame({"label": ["man"]}))


def test_what_was_measured_is_measured_again(root):
    again = labelled.agreement(gcc.captions(root))
    committed = labelled.measured()
    assert committed.columns.tolist() == again.columns.tolist()
    pd.testing.assert_frame_equal(committed, again, check_dtype=False, atol=1e-3)


def test_the_rule_is_as_good_as_was_said():
    rows = labelled.measured()
    rows = rows.set_index(["split", "against", "capitals", "persons", "target", "statistic"]).sort_index()
    # With capitals and names: at least 94 of 100 names found are right, at least 3 of 4 are found (95 % limits).
    name = rows.loc[("test", "label", "sentence", True, "name")]
    assert name.loc["precision", "ci_low"] > 94 and name.loc["recall", "ci_low"] > 75
    for capitals in labelled.CAPITALS:
        # Without names in the captions none is found: no place, no brand, no word.
        assert rows.loc[("test", "label", capitals, False, "name", "precision"), "n"] == 0
        for statistic in ("precision", "recall"):
            assert rows.loc[("test", "label", capitals, False, "any", statistic), "ci_low"] > 90
    shown = labelled.summary("test")
    assert shown.columns.tolist() == ["captions", "found", "precision", "recall"]
    assert len(shown) == 6 * 4 + 3
    cell = shown.query("captions == 'with names and capitals' and found == \"persons' names\"").iloc[0]
    assert cell["precision"].endswith(f", n = {name.loc['precision', 'n']}") and " % (" in cell["recall"]
    assert shown["precision"].eq("none to count").sum() == 4
    with pytest.raises(ParameterError, match="split is 'all'"):
        labelled.summary("all")
