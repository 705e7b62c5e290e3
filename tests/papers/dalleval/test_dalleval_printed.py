"""The printed numbers of dalleval: complete, on their grid, and consistent with each other.

Printed figures that do not follow from others are named as exceptions; none is corrected.
"""

import numpy as np
import pandas as pd
import pytest

from biaslab import reference

MODELS = ["minDALL-E", "Karlo", "Stable Diffusion"]
ATTRIBUTES = "boots slippers jeans shorts slacks dress skirt suit shirt uniform jacket hat tie mask gloves"
ATTRIBUTES = ATTRIBUTES.split()
FIRST = {"minDALL-E": 23, "Karlo": 26, "Stable Diffusion": 29}
GENDERS = ["person", "woman", "man"]
# Half a unit of the last printed decimal, and room for binary fractions.
CENT = 0.005 + 1e-9


def load(*tables: int) -> pd.DataFrame:
    return pd.concat([reference.load(f"dalleval_table_{t}") for t in tables], ignore_index=True)


def wide(rows: pd.DataFrame, index: str | list[str], columns: str, values: str) -> pd.DataFrame:
    return rows.pivot(index=index, columns=columns, values=values)


@pytest.fixture(scope="module")
def professions() -> list[str]:
    return load(13)["profession"].tolist()


def by_profession(*tables: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return values by profession and model, and the printed averages."""
    rows = load(*tables)
    values = wide(rows, "profession", "model", "value")[MODELS]
    assert (rows["kind"] == "average").equals(rows["profession"] == "average")
    return values.drop(index="average"), values.loc["average"]


@pytest.fixture(scope="module")
def attributes() -> pd.DataFrame:
    return load(*range(23, 32))


def presence(attributes: pd.DataFrame, model: str, gender: str) -> pd.DataFrame:
    """Return prompts × attributes, in the order printed."""
    rows = attributes.query("model == @model and prompt_gender == @gender and kind == 'attribute'")
    order = rows["profession"].unique()
    return wide(rows, "profession", "attribute", "presence").loc[order, ATTRIBUTES]


def test_printed_tables_are_complete():
    table_names = {n for n in reference.names() if n.startswith("dalleval_")}
    tables = [2, 3, *range(5, 10), 13, 14, *range(16, 32)]
    assert table_names == {"dalleval_text", *(f"dalleval_table_{t}" for t in tables)}
    for name in table_names:
        assert not reference.load(name).duplicated().any(), name


def test_table_13_professions_and_articles(professions):
    assert len(professions) == len(set(professions)) == 83
    assert professions == [p.lower() for p in professions]
    article = load(13).set_index("profession")["article"]
    # "an" exactly before a vowel letter: no profession starts with a silent h or a "yoo" sound
    assert article.to_dict() == {p: "an" if p[0] in "aeiou" else "a" for p in professions}


def test_table_8_mad_follows_from_professions():
    # two classes: |p - 0.5| for each, p = (value + 1) / 2 the share of female images
    values, _ = by_profession(16, 17)
    mad = ((values + 1) / 2 - 0.5).abs().mean()
    assert mad.round(3).tolist() == [0.196, 0.358, 0.364]

    # The printed MAD is over 84 prompts. The part of the profession-free one, in ninths of average gender:
    mads = load(8).query("category == 'gender'").set_index("model")["mad"]
    assert mads[["uniform", "one-hot"]].tolist() == [0, 0.5]
    ninths = ((values * 9).round().abs() / 9).sum() / 2
    missing = (mads[MODELS] * 84 - ninths) * 2 * 9
    room = 0.00005 * 84 * 2 * 9
    assert (missing - missing.round()).abs().max() < room < 0.08
    # Exception: 4 for Stable Diffusion is not an odd ninth, as 9 images judged female or male would give.
    assert missing.round().tolist() == [7, 1, 4]


def test_attribute_tables_are_complete(attributes, professions):
    # printed order: the professions of table 13, then the prompt without one
    for model, first in FIRST.items():
        for table, gender in enumerate(GENDERS, first):
            rows = reference.load(f"dalleval_table_{table}")
            assert set(rows["model"]) == {model}
            assert set(rows["prompt_gender"]) == {gender}
            attribute_rows = rows.query("kind == 'attribute'")
            assert attribute_rows["attribute"].tolist() == ATTRIBUTES * 84
            assert attribute_rows["profession"].tolist() == [p for p in [*professions, ""] for _ in ATTRIBUTES]
            means = rows.query("kind == 'mean_abs_difference'")
            assert means["profession"].tolist() == ([] if gender == "person" else [*professions, ""])
            assert means["mean_abs_difference"].notna().all()
            assert attribute_rows["mean_abs_difference"].isna().all()
            assert means[["presence", "difference_from_person"]].isna().all(axis=None)
    assert len(attributes) == 9 * 84 * 15 + 6 * 84


def test_attribute_differences_follow_from_presences(attributes):
    for model in MODELS:
        person = presence(attributes, model, "person")
        for gender in GENDERS:
            rows = attributes.query("model == @model and prompt_gender == @gender")
            attribute_rows = rows.query("kind == 'attribute'")
            printed = wide(attribute_rows, "profession", "attribute", "difference_from_person")
            printed = printed.loc[person.index, ATTRIBUTES]
            difference = presence(attributes, model, gender) - person
            # a cell is empty exactly where there is no difference
            assert (printed.isna() == np.isclose(difference, 0)).all(axis=None)
            np.testing.assert_allclose(printed.fillna(0), difference, atol=1e-9)
            if gender != "person":
                means = rows.query("kind == 'mean_abs_difference'").set_index("profession")
                computed = difference.abs().mean(axis=1)
                np.testing.assert_allclose(means["mean_abs_difference"], computed, rtol=0, atol=CENT)


def table_22() -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = load(22)
    attribute_rows = rows.query("kind == 'attribute'")
    means = rows.query("kind == 'mean_abs_difference'").set_index(["model", "prompt_gender"])
    return attribute_rows, means["mean_abs_difference"]


def test_table_22_follows_from_attribute_tables(attributes):
    attribute_rows, _ = table_22()
    assert len(attribute_rows) == 3 * 4 * 11
    for model in MODELS:
        for gender in GENDERS:
            ninths = (presence(attributes, model, gender)[ATTRIBUTES[4:]] * 9).round() / 9
            # the mean over 84 prompts, rounded to three decimals and then cut to two; no tolerance is needed
            thousandths = (ninths.mean() * 1000).round().astype(int)
            rows = attribute_rows.query("model == @model and prompt_gender == @gender").set_index("attribute")
            hundredths = (rows["presence"] * 100).round().astype(int)
            assert hundredths.to_dict() == (thousandths // 10).to_dict(), (model, gender)


# Exception: none of the six printed averages of table 3 is the mean of its row.
OFF_AVERAGES = {
    ("Human", "DALL-E Small"): (30.7, 32.7),
    ("Human", "minDALL-E"): (68.7, 71.3),
    ("Human", "Stable Diffusion"): (54.7, 52.7),
    ("DETR", "DALL-E Small"): (28.0, 32.7),
    ("DETR", "minDALL-E"): (64.0, 68.7),
    ("DETR", "Stable Diffusion"): (54.0, 48.7),
}


@pytest.mark.parametrize(("table", "rows", "exceptions"), [(2, 20, {}), (3, 24, OFF_AVERAGES), (5, 24, {})])
def test_skill_averages_match_except_table_3(table, rows, exceptions):
    skills = load(table)
    assert len(skills) == rows
    assert skills["accuracy"].between(0, 100).all()
    keys = ["evaluator", "model", "training_data"]
    by_skill = wide(skills, keys, "skill", "accuracy")
    means = by_skill[["object", "count", "spatial"]].mean(axis=1)
    # one decimal is printed
    deviating = by_skill["average"][(by_skill["average"] - means).abs() > 0.05 + 1e-9]
    assert {key[:2]: (deviating[key], round(means[key], 1)) for key in deviating.index} == exceptions
