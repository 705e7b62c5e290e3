from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest

from biaslab import reference
from biaslab.errors import ParameterError, UnknownNameError
from biaslab_world.world import (
    INDICATORS,
    SKEWS,
    Parameters,
    p_female_for_prompt,
    probability_female,
    skew_parameters,
    style_shares,
    truth_table,
)

ODD = Parameters(
    naming=2.5, prompt_skew=1.7, prompt_like=0.3, indicators=0.2, prompt_indicators=0.8, names=0.5, both=0.3,
    other_sense=0.25,
)  # fmt: skip
WORLDS = [*SKEWS.values(), ODD]


@pytest.fixture(scope="module")
def printed() -> pd.Series:
    table = reference.load("paradox_table_6")
    return table[table["source"] == "training"].set_index("occupation")["percent_female"]


def share(rows: pd.DataFrame) -> pd.Series:
    """Percentage of women per occupation among rows that show a person, by plain summing."""
    rows = rows[rows["probability_female"].notna()]
    women = (rows["p"] * rows["probability_female"]).groupby(rows["occupation"]).sum()
    return 100 * women / rows["p"].groupby(rows["occupation"]).sum()


def distance_difference(rows: pd.DataFrame, printed: pd.Series) -> float:
    """Points by which the rows are farther from 50 than all captions, mean over occupations."""
    return float(((share(rows) - 50).abs() - (printed - 50).abs()).mean())


@pytest.mark.parametrize("parameters", WORLDS)
def test_truth_table_shares_equal_published_values(parameters, printed):
    table = truth_table(parameters)
    # 6 styles that show a person times 4 indicators, and other senses, which name no gender.
    assert len(table) == 62 * (6 * 4 + 1) and (table["p"] >= 0).all()
    np.testing.assert_allclose(table.groupby("occupation")["p"].sum(), 1, atol=1e-12)
    no_person = table["style"] == "other_sense"
    assert (
        table.loc[no_person, "probability_female"].isna().all()
        and table.loc[~no_person, "probability_female"].between(0, 1).all()
    )
    for gender in ("female", "male"):
        assert (table.loc[table["indicator"] == gender, "probability_female"] == (gender == "female")).all()
    np.testing.assert_allclose(share(table).sort_index(), printed.sort_index(), rtol=0, atol=1e-10)


def test_probability_female_matches_hand_values():
    # Mechanic: t = 0.176, odds 0.176 / 0.824 = 0.2135922. One parameter at a time, levels at one half.
    parameters = Parameters(
        naming=1.0, prompt_skew=1.0, prompt_like=0.5, indicators=0.5, prompt_indicators=0.5, both=0.0
    )
    odds = 0.176 / 0.824
    # Prompt-like odds are odds ** 2 = 0.0456216, so the share is 0.0436311; the rest has 2 t - 0.0436311.
    prompts = odds**2 / (1 + odds**2)
    assert probability_female("mechanic", style="prompt_like", parameters=parameters) == pytest.approx(
        prompts, rel=1e-12
    )
    assert probability_female("mechanic", style="stock", parameters=parameters) == pytest.approx(
        2 * 0.176 - prompts, rel=1e-12
    )
    # Odds of being named are odds ** -0.5 for women and odds ** 0.5 for men, so "not named" has the
    # probabilities odds ** 0.5 / (1 + odds ** 0.5) and 1 / (1 + odds ** 0.5): ratio odds ** 0.5.
    expected = odds**2 * odds**0.5
    assert p_female_for_prompt("mechanic", parameters) == pytest.approx(expected / (1 + expected), rel=1e-12)


def test_default_parameters_match_published_values(printed):
    table = truth_table(Parameters())
    people = table[table["probability_female"].notna()]
    silent = people["indicator"] == "none"
    prompts = people["style"] == "prompt_like"
    percent_indicated = 100 * people.loc[~silent, "p"].sum() / people["p"].sum()
    text = reference.load("paradox_text").set_index(["quantity", "approach"])["value"]
    amplification = text["amplification"]
    # Within 1.5 points: one setting cannot meet all four numbers exactly.
    assert percent_indicated == pytest.approx(text["captions_with_indicators", "naive"], abs=1.5)
    for rows, approach in (
        (people[silent], "no_indicators"),
        (people[prompts], "nearest"),
        (people[silent & prompts], "nearest_no_indicators"),
    ):
        assert distance_difference(rows, printed) == pytest.approx(
            amplification["naive"] - amplification[approach], abs=1.5
        )


def test_single_parameter_changes_only_its_captions(printed):
    naming, prompts = truth_table(SKEWS["naming"]), truth_table(SKEWS["prompts"])
    assert distance_difference(naming[naming["indicator"] == "none"], printed) > 3
    assert distance_difference(prompts[prompts["style"] == "prompt_like"], printed) > 3
    # The one cause leaves the other's captions alone.
    assert distance_difference(naming[naming["style"] == "prompt_like"], printed) == pytest.approx(0, abs=1e-9)
    assert distance_difference(
        prompts[prompts["style"] == "prompt_like"].query("indicator == 'none'"), printed
    ) == pytest.approx(distance_difference(prompts[prompts["style"] == "prompt_like"], printed), abs=1e-9)


def test_probability_female_equals_table_average():
    table = truth_table(ODD)
    for style, indicator in product((None, "news", "prompt_like"), (None, *INDICATORS)):
        rows = table[(table["occupation"] == "tutor") & table["probability_female"].notna()]
        rows = rows[(rows["style"] == style) | (style is None)]
        rows = rows[(rows["indicator"] == indicator) | (indicator is None)]
        expected = np.average(rows["probability_female"], weights=rows["p"])
        assert probability_female("tutor", style=style, indicator=indicator, parameters=ODD) == pytest.approx(
            expected, rel=1e-12
        )


def test_truth_table_contradictory_parameters_are_refused():
    # Firefighter has 14.6%; with 90% prompt-like captions of strong bias the rest would need more than all:
    # dietitian, 95.2%, would be the first the other way. Whichever comes first is named.
    with pytest.raises(ParameterError, match=r"prompt_like=0\.9 and prompt_skew=5 cannot be combined"):
        truth_table(Parameters(prompt_like=0.9, prompt_skew=5))


def test_world_invalid_input_is_named():
    for field, value in (("naming", 6), ("names", -0.1), ("both", math.nan)):
        with pytest.raises(ParameterError, match=field):
            Parameters(**{field: value})
    with pytest.raises(UnknownNameError, match="'nurse'"):
        probability_female("nurs")
    with pytest.raises(UnknownNameError, match="default"):
        skew_parameters("defaults")


def test_silent_and_prompt_like_captions_are_more_extreme(printed):
    table = truth_table(Parameters())
    silent = share(table[table["indicator"] == "none"])
    prompts = share(table[table["style"] == "prompt_like"])
    for shares in (silent, prompts):
        assert (np.sign(shares - 50) == np.sign(printed - 50)).all()
        assert ((shares - 50).abs() > (printed - 50).abs()).all()
    # Less than half are prompt-like: rarer than the rest.
    assert style_shares(Parameters())["prompt_like"] < 0.15
