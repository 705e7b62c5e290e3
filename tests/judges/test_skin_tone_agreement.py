"""Skin tones by pixels held against what people saw on pictures that look like photographs, where these are there."""

import re
from pathlib import Path

import pandas as pd
import photographed
import pytest
from photographed import needs
from scipy.stats import fisher_exact

from biaslab.judges.judge_labels import TONE_ON_PHOTOGRAPHS
from biaslab.judges.pinned import YUNET

benchmark = photographed.benchmark(Path(__file__).parents[2], "skin_tone_of_photographs")


@pytest.fixture(scope="module")
def rows():
    """Return what pixels say of each portrait, beside what annotators saw."""
    needs(YUNET)
    return benchmark.readings(photographed.pictures(benchmark))


@pytest.mark.long
def test_light_is_told_from_dark(rows):
    value, low, high, n_light, n_dark = benchmark.area(rows, "light", "dark")
    assert value >= 0.95 and low < value <= high
    assert n_light >= 20 and n_dark >= 5


def test_no_skin_is_left_out_more_than_another(rows):
    counts = pd.crosstab(rows["label"], rows["tone"].isna())
    for one, other in (("light", "dark"), ("light", "medium"), ("medium", "dark")):
        assert fisher_exact(counts.loc[[one, other]]).pvalue > 0.5, (one, other)
    assert set(rows.loc[rows["tone"].isna(), "reason"]) <= {
        *("no face", "not the colour of skin", "mixed light", "coloured light")
    }


def test_what_is_said_of_photographs_is_what_is_measured(rows):
    read = rows.dropna(subset="tone")
    value, low, high, n_light, n_dark = benchmark.area(rows, "light", "dark")
    medium = benchmark.area(rows, "light", "medium")[0]
    labels = ("light", "medium", "dark")
    lost = {label: round(100 * rows.loc[rows["label"] == label, "tone"].isna().mean()) for label in labels}
    drawn = (rows["label"] == "drawing").sum(), (read["label"] == "drawing").sum()
    said = [*map(float, re.findall(r"\d+(?:\.\d+)?", TONE_ON_PHOTOGRAPHS))]
    medium_tones = {label: of["tone"].between(4, 6).sum() for label, of in read.groupby("label")}
    dark = read.loc[read["label"] == "dark", "tone"]
    expected = [n_light, medium_tones["light"], 4, 6, n_dark, medium_tones["dark"]]
    expected += [round(100 * value, 1), round(100 * low), round(100 * high), round(100 * medium)]
    assert said == [*expected, dark.min(), dark.max(), *lost.values(), *drawn]


def test_the_area_is_that_of_all_pairs():
    rows = pd.DataFrame(
        {"label": ["light"] * 3 + ["dark"] * 2, "angle": [50, 20, float("nan"), 20, -10], "tone": float("nan")}
    )
    value, low, high, n, m = benchmark.area(rows, "light", "dark")
    # 50 is above both, 20 ties with one and is above the other: 3.5 of 4.
    assert (value, n, m) == (3.5 / 4, 2, 2) and 0 < low < value < high < 1
    # Tones stand in where there are no angles: the lighter one is the lower.
    tones = rows.assign(angle=float("nan"), tone=[2, 6, float("nan"), 6, 9])
    assert benchmark.area(tones, "light", "dark")[0] == 3.5 / 4
    # Newcombe (2006), method 5, at the end of the scale: no variance, and still a limit below 1.
    apart = rows.assign(angle=[50, 60, 70, 1, 2])
    value, low, high, *_ = benchmark.area(apart, "light", "dark")
    assert (value, high) == (1, 1) and 0.2 < low < 0.8


@pytest.mark.long
def test_the_benchmark_says_how_few_are_dark(rows, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["skin_tone_of_photographs.py"])
    benchmark.main()
    said = capsys.readouterr().out
    n_dark = (rows["label"] == "dark").sum()
    assert f"{n_dark} portraits of dark-skinned people are few" in said and "by tone by pixels" in said
