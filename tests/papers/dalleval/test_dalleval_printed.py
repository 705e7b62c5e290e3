"""The printed numbers of dalleval: complete, on their grid, and consistent with each other.

Printed figures that do not follow from others are named as exceptions; none is corrected.
"""

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


def test_every_table_is_there():
    found = {n for n in published.names() if n.startswith("dalleval_")}
    tables = [2, 3, *range(5, 10), 13, 14, *range(16, 32)]
    assert found == {"dalleval_text", *(f"dalleval_table_{t}" for t in tables)}
    for name in found:
        assert not published.load(name).duplicated().any(), name


def test_professions(professions):
    assert len(professions) == len(set(professions)) == 83
    assert professions == [p.lower() for p in professions]
    article = load(13).set_index("profession")["article"]
    # "an" exactly before a vowel letter: no profession starts with a silent h or a "yoo" sound
    assert article.to_dict() == {p: "an" if p[0] in "aeiou" else "a" for p in professions}


@pytest.mark.parametrize("tables", [(16, 17), (20, 21)])
def test_profession_tables_are_complete(tables, professions):
    values, average = by_profession(*tables)
    assert sorted(values.index) == sorted(professions)
    assert values.shape == (83, 3)
    assert values.notna().all(axis=None)
    assert average.notna().all()
    # rows by table: 41 professions, then 42 and the averages, for three models
    assert [len(load(t)) for t in tables] == [3 * 41, 3 * 43]


def test_gender_values_are_odd_ninths():
    # k of 9 images female: (k - (9 - k)) / 9 = (2k - 9) / 9
    grid = [round((2 * k - 9) / 9, 2) for k in range(10)]
    values, _ = by_profession(16, 17)
    assert np.isin(values.to_numpy(), grid).all()


@pytest.mark.parametrize(("selection", "tables"), [(6, (16, 17)), (7, (20, 21))])
def test_examples_repeat_the_full_tables(selection, tables):
    some, average = by_profession(selection)
    values, full_average = by_profession(*tables)
    assert len(some) == 5
    pd.testing.assert_frame_equal(some, values.loc[some.index])
    pd.testing.assert_series_equal(average, full_average)


def test_mad_over_the_professions():
    # two classes: |p - 0.5| for each, p = (value + 1) / 2 the share of female images
    values, _ = by_profession(16, 17)
    mad = ((values + 1) / 2 - 0.5).abs().mean()
    assert mad.round(3).tolist() == [0.196, 0.358, 0.364]

    # The printed MAD is over 84 prompts. What the profession-free one must add, in ninths of average gender:
    mads = load(8).query("category == 'gender'").set_index("model")["mad"]
    assert mads[["uniform", "one-hot"]].tolist() == [0, 0.5]
    ninths = ((values * 9).round().abs() / 9).sum() / 2
    missing = (mads[MODELS] * 84 - ninths) * 2 * 9
    room = 0.00005 * 84 * 2 * 9
    assert (missing - missing.round()).abs().max() < room < 0.08
    # Exception: 4 for Stable Diffusion is not an odd ninth, as 9 images judged female or male would give.
    assert missing.round().tolist() == [7, 1, 4]


def test_mad_of_skin_tone():
    mads = load(8).query("category == 'skin_tone'").set_index("model")["mad"]
    # one-hot over ten: (0.9 + 9 x 0.1) / 10 = 0.18; two-hot: (2 x 0.4 + 8 x 0.1) / 10 = 0.16
    assert mads[["uniform", "one-hot"]].tolist() == [0, 0.18]
    assert mads[MODELS].between(0.16, 0.18).all()


def test_attribute_tables_are_complete(attributes, professions):
    # printed order: the professions of table 13, then the prompt without one
    for model, first in FIRST.items():
        for table, gender in enumerate(GENDERS, first):
            rows = published.load(f"dalleval_table_{table}")
            assert set(rows["model"]) == {model}
            assert set(rows["prompt_gender"]) == {gender}
            listed = rows.query("kind == 'attribute'")
            assert listed["attribute"].tolist() == ATTRIBUTES * 84
            assert listed["profession"].tolist() == [p for p in [*professions, ""] for _ in ATTRIBUTES]
            means = rows.query("kind == 'mean_abs_difference'")
            assert means["profession"].tolist() == ([] if gender == "person" else [*professions, ""])
            assert means["mean_abs_difference"].notna().all()
            assert listed["mean_abs_difference"].isna().all()
            assert means[["presence", "difference_from_person"]].isna().all(axis=None)
    assert len(attributes) == 9 * 84 * 15 + 6 * 84


def test_presence_is_a_ninth_cut_to_two_decimals(attributes):
    # 5/9 = 0.5555 is printed 0.55, 6/9 0.66, 7/9 0.77, 8/9 0.88; rounding would give 0.56, 0.67, 0.78, 0.89
    grid = [100 * k // 9 / 100 for k in range(10)]
    values = attributes.query("kind == 'attribute'")["presence"]
    assert set(values) == set(grid)


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


def table_22() -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = load(22)
    listed = rows.query("kind == 'attribute'")
    means = rows.query("kind == 'mean_abs_difference'").set_index(["model", "prompt_gender"])
    return listed, means["mean_abs_difference"]


def test_table_22_follows_from_the_attribute_tables(attributes):
    listed, _ = table_22()
    assert len(listed) == 3 * 4 * 11
    for model in MODELS:
        for gender in GENDERS:
            ninths = (presence(attributes, model, gender)[ATTRIBUTES[4:]] * 9).round() / 9
            # the mean over 84 prompts, rounded to three decimals and then cut to two; no tolerance is needed
            thousandths = (ninths.mean() * 1000).round().astype(int)
            rows = listed.query("model == @model and prompt_gender == @gender").set_index("attribute")
            hundredths = (rows["presence"] * 100).round().astype(int)
            assert hundredths.to_dict() == (thousandths // 10).to_dict(), (model, gender)


def test_table_22_differences():
    listed, means = table_22()
    shares = wide(listed, ["model", "attribute"], "prompt_gender", "presence")
    printed = wide(listed, ["model", "attribute"], "prompt_gender", "difference_from_person")
    for gender in ("woman", "man"):
        np.testing.assert_allclose(printed[gender].fillna(0), shares[gender] - shares["person"], atol=1e-9)
        assert (printed[gender] != 0).all()
    assert printed[["person", "woman - man"]].isna().all(axis=None)
    np.testing.assert_allclose(shares["woman - man"], shares["woman"] - shares["man"], atol=1e-9)
    for model in MODELS:
        for name, (a, b) in {
            "woman": ("woman", "person"),
            "man": ("man", "person"),
            "woman - man": ("woman", "man"),
        }.items():
            # the mean of the printed differences over all 15 attributes, the four left out being near 0
            total = (shares.loc[model, a] - shares.loc[model, b]).abs().sum()
            assert round(total / 15, 2) == means[model, name], (model, name)
    assert len(means) == 9


def test_table_9_repeats_table_22():
    listed, _ = table_22()
    rows = load(9)
    assert len(rows) == 3 * 3 * 4
    both = rows.merge(listed, on=["model", "prompt_gender", "attribute"], validate="one_to_one")
    assert len(both) == len(rows)
    assert both["presence_x"].equals(both["presence_y"].rename("presence_x"))


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
def test_skill_averages(table, rows, exceptions):
    skills = load(table)
    assert len(skills) == rows
    assert skills["accuracy"].between(0, 100).all()
    keys = ["evaluator", "model", "training_data"]
    by_skill = wide(skills, keys, "skill", "accuracy")
    means = by_skill[["object", "count", "spatial"]].mean(axis=1)
    # one decimal is printed
    off = by_skill["average"][(by_skill["average"] - means).abs() > 0.05 + 1e-9]
    assert {key[:2]: (off[key], round(means[key], 1)) for key in off.index} == exceptions


def test_skills_with_all_data_are_those_of_table_2():
    keys = ["model", "skill"]
    whole = load(5).query("training_data == 100").set_index(keys)["accuracy"]
    assert len(whole) == 8
    assert whole.equals(load(2).set_index(keys)["accuracy"].loc[whole.index])


def test_skills_rated_by_people_are_of_50_images():
    # 1 of 50 images is 2 points; averages are not on that grid
    single = load(3).query("skill != 'average'")["accuracy"]
    np.testing.assert_array_equal(single % 2, 0)


def test_judges_and_methods():
    judges = load(14)
    assert judges.groupby("captions")["model"].apply(list).to_dict() == {
        "original": ["CLIP", "BLIP-2"],
        "ungendered": ["CLIP", "BLIP-2"],
    }
    for name, high in (("bias", 1), ("recall", 100)):
        values = judges[[f"{name}_at_{k}" for k in (1, 5, 10)]].to_numpy()
        assert (np.diff(values, axis=1) > 0).all()
        assert ((values > 0) & (values <= high)).all()
    precision = load(18)[[f"precision_at_{k}" for k in range(4)]].to_numpy()
    assert precision.shape == (4, 4)
    assert (np.diff(precision, axis=1) > 0).all()


def test_alignment_and_quality():
    rows = load(19).set_index("model")
    sizes = rows[["parameters", "training_pairs", "image_size", "grid_size"]]
    assert sizes.loc["ground truth"].isna().all()
    assert rows.drop(index="ground truth").notna().all(axis=None)
    assert rows.drop(columns=sizes.columns).notna().all(axis=None)
    # 256 x 256 pixels in 8, 16 and 16 codes a side (appendix F); Stable Diffusion downsamples 512 by 8
    assert sizes["grid_size"].dropna().tolist() == [8, 16, 16, 512 / 8]
    assert rows["fid"].idxmin() == "ground truth"
