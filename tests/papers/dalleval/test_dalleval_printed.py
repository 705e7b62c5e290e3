"""The printed numbers of dalleval are consistent with each other."""

import numpy as np
import pandas as pd
import pytest

from biaslab import published

MODELS = ["minDALL-E", "Karlo", "Stable Diffusion"]
ATTRIBUTES = "boots slippers jeans shorts slacks dress skirt suit shirt uniform jacket hat tie mask gloves"
ATTRIBUTES = ATTRIBUTES.split()
FIRST = {"minDALL-E": 23, "Karlo": 26, "Stable Diffusion": 29}
GENDERS = ["person", "woman", "man"]
# Half a unit of the last printed decimal, and room for binary fractions.
CENT = 0.005 + 1e-9


def load(*tables: int) -> pd.DataFrame:
    return pd.concat([published.load(f"dalleval_table_{t}") for t in tables], ignore_index=True)


def wide(rows: pd.DataFrame, index: str | list[str], columns: str, values: str) -> pd.DataFrame:
    return rows.pivot(index=index, columns=columns, values=values)


@pytest.fixture(scope="module")
def attributes() -> pd.DataFrame:
    return load(*range(23, 32))


def presence(attributes: pd.DataFrame, model: str, gender: str) -> pd.DataFrame:
    """Return prompts × attributes, in the order printed."""
    rows = attributes.query("model == @model and prompt_gender == @gender and kind == 'attribute'")
    order = rows["profession"].unique()
    return wide(rows, "profession", "attribute", "presence").loc[order, ATTRIBUTES]


def test_mad_over_the_professions():
    # The share of female images by profession and model is (value + 1) / 2.
    values = wide(load(16, 17).query("kind == 'profession'"), "profession", "model", "value")[MODELS]
    # The printed MAD is over 84 prompts. What the profession-free one must add, in ninths of average gender:
    mads = load(8).query("category == 'gender'").set_index("model")["mad"]
    assert mads[["uniform", "one-hot"]].tolist() == [0, 0.5]
    ninths = ((values * 9).round().abs() / 9).sum() / 2
    missing = (mads[MODELS] * 84 - ninths) * 2 * 9
    room = 0.00005 * 84 * 2 * 9
    assert (missing - missing.round()).abs().max() < room < 0.08
    # Exception: 4 for Stable Diffusion is not an odd ninth, as 9 images judged female or male would give.
    assert missing.round().tolist() == [7, 1, 4]


def test_differences_are_those_of_the_printed_presences(attributes):
    for model in MODELS:
        person = presence(attributes, model, "person")
        for gender in GENDERS:
            rows = attributes.query("model == @model and prompt_gender == @gender")
            listed = rows.query("kind == 'attribute'")
            printed = wide(listed, "profession", "attribute", "difference_from_person")
            printed = printed.loc[person.index, ATTRIBUTES]
            difference = presence(attributes, model, gender) - person
            # nothing is printed where there is no difference, and only there
            assert (printed.isna() == np.isclose(difference, 0)).all(axis=None)
            np.testing.assert_allclose(printed.fillna(0), difference, atol=1e-9)
            if gender != "person":
                means = rows.query("kind == 'mean_abs_difference'").set_index("profession")
                computed = difference.abs().mean(axis=1)
                np.testing.assert_allclose(means["mean_abs_difference"], computed, rtol=0, atol=CENT)
