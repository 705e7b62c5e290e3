"""Estimates by group: rows, order, families of tests, and the estimators of shares and means."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from statsmodels.stats.proportion import proportion_confint

from biaslab import stats
from biaslab.errors import InputError


@pytest.fixture
def people():
    """Six people in four images of two models; the third image shows three of them."""
    return pd.DataFrame(
        {
            "model": ["B", "B", "A", "A", "A", "A"],
            "group": ["nurse", "chef", "nurse", "nurse", "nurse", "chef"],
            "image_id": ["1", "2", "3", "3", "3", "4"],
            "gender": ["female", "male", "female", "female", "male", "unclear"],
            "tone": [1.0, 3.0, 2.0, np.nan, 6.0, 5.0],
        }
    )


def test_by_group_has_one_row_per_group_in_order(people):
    table = stats.by_group(people, ["model", "group"], lambda rows: {"n": len(rows)})
    expected = [("B", "nurse", 1), ("B", "chef", 1), ("A", "nurse", 3), ("A", "chef", 1)]
    assert list(table.itertuples(index=False, name=None)) == expected


def test_by_group_overall_row_precedes_groups(people):
    table = stats.by_group(people, ["model", "group"], lambda rows: {"n": len(rows)}, overall="all")
    assert list(table["group"]) == ["all", "nurse", "chef", "all", "nurse", "chef"]
    assert list(table["n"]) == [2, 1, 1, 4, 3, 1]
    whole = stats.by_group(people, "group", lambda rows: {"n": len(rows)}, overall="all")
    assert list(whole.itertuples(index=False, name=None)) == [("all", 6), ("nurse", 4), ("chef", 2)]


def test_by_group_of_tables_nests(people):
    table = stats.by_group(people, "model", lambda rows: stats.by_group(rows, "group", lambda one: {"n": len(one)}))
    pd.testing.assert_frame_equal(table, stats.by_group(people, ["model", "group"], lambda rows: {"n": len(rows)}))


def test_by_group_without_rows_is_empty(people):
    assert stats.by_group(people.head(0), "model", lambda rows: {"p": 0.5}, adjust=[]).empty


def test_by_group_adjusts_p_within_families(people):
    p = {("B", "nurse"): 0.01, ("B", "chef"): 0.04, ("A", "nurse"): 0.03, ("A", "chef"): 0.5}

    def test(rows):
        return {"p": p[tuple(rows[["model", "group"]].iloc[0])]}

    table = stats.by_group(people, ["model", "group"], test, adjust=["model"])
    # Holm: the smaller of two times 2, the larger at least that.
    assert table["p_holm"].tolist() == pytest.approx([0.02, 0.04, 0.06, 0.5])


def test_share_without_clusters_is_wilson(people):
    row = stats.share("gender", "female")(people)
    low, high = proportion_confint(3, 6, method="wilson")
    limits = [row["percent"], row["ci_low"], row["ci_high"]]
    assert (row["count"], row["n"]) == (3, 6) and limits == pytest.approx([50, 100 * low, 100 * high])


def test_share_with_clusters_is_clustered_share(people):
    row = stats.share("gender", "female", cluster="image_id")(people)
    images = people.groupby("image_id")["gender"].agg(lambda genders: (genders == "female").sum())
    value, low, high, _ = stats.clustered_share(images, people.groupby("image_id").size())
    assert [row["percent"], row["ci_low"], row["ci_high"]] == pytest.approx([100 * value, 100 * low, 100 * high])
    assert (row["count"], row["n"], row["n_images"]) == (3, 6, 4)


def test_shares_exclude_unclear_answers(people):
    rows = list(stats.shares("gender", ["female", "unclear"], unclear="unclear")(people))
    assert [(row["gender"], row["count"], row["n"]) for row in rows] == [("female", 3, 5), ("unclear", 1, 6)]


def test_mean_omits_missing_values(people):
    row = stats.mean("tone")(people)
    values = np.array([1, 3, 2, 6, 5])
    half = student.ppf(0.975, 4) * values.std(ddof=1) / np.sqrt(5)
    assert (row["value"], row["ci_high"], row["n"]) == pytest.approx((3.4, 3.4 + half, 5))
    clustered = stats.mean("tone", cluster="image_id")(people)
    assert clustered["n_images"] == 4 and clustered["value"] == pytest.approx(3.4)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"group": None}, {}, "'group' has missing values"),
        ({"group": "all"}, {"overall": "all"}, "is called 'all'"),
        ({}, {"estimator": lambda rows: {"group": 1}}, "the column 'group', which is a key"),
    ],
)
def test_by_group_ambiguous_keys_are_refused(people, change, options, message):
    estimator = options.pop("estimator", lambda rows: {"n": len(rows)})
    with pytest.raises(InputError, match=message):
        stats.by_group(people.assign(**change), ["model", "group"], estimator, **options)


def test_stereotype_score_by_group_matches_equation_1(people):
    table = people.assign(stereotype=people["group"].map({"nurse": "female", "chef": "male"}))
    scores = stats.by_group(table, ["model", "group"], stats.stereotype_score()).set_index(["model", "group"])
    # Two of three nurses of A are women: (2 - 1) / 3; none of its chefs is classified.
    assert scores.loc[("A", "nurse"), "score"] == pytest.approx(100 / 3)
    assert scores["n"].tolist() == [1, 1, 3, 0] and scores["count"].tolist() == [1, 1, 2, 0]
    assert np.isnan(scores.loc[("A", "chef"), "score"])
    low, high = proportion_confint(2, 3, method="wilson")
    assert scores.loc[("A", "nurse"), ["ci_low", "ci_high"]].tolist() == pytest.approx(
        [200 * low - 100, 200 * high - 100]
    )
    by_image = stats.stereotype_score(cluster="image_id")(table[table["model"] == "A"])
    assert by_image["score"] == pytest.approx(100 / 3) and by_image["n_images"] == 1


def test_stereotype_score_invalid_stereotype_is_refused(people):
    with pytest.raises(InputError, match="column 'stereotype' must contain 'female' or 'male'"):
        stats.stereotype_score()(people.assign(stereotype="neutral"))


@pytest.mark.parametrize(
    ("keys", "estimator"),
    [
        ("grup", stats.share("gender", "female")),
        ("group", stats.share("gendr", "female")),
        ("group", stats.mean("tne")),
    ],
)
def test_by_group_missing_column_suggests_near_match(people, keys, estimator):
    with pytest.raises(
        InputError, match=r"The table has no column '(grup|gendr|tne)'\. Did you mean '(group|gender|tone)'"
    ):
        stats.by_group(people, keys, estimator)


def test_share_unknown_label_is_refused():
    people = pd.DataFrame({"model": ["a", "a", "b"], "gender": ["F", "M", "M"]})
    with pytest.raises(InputError, match=r"No row has 'woman' in the column 'gender', which contains 'F', 'M'\."):
        stats.by_group(people, "model", stats.share("gender", "woman"))
    # Where a label could occur it has a share of 0, as a gender that the standard spelling names always has.
    assert stats.by_group(people, "model", stats.share("gender", "X", labels=["X"]))["count"].tolist() == [0, 0]
    men = people.assign(gender="male")
    assert stats.by_group(men, "model", stats.share("gender", "female"))["n"].tolist() == [2, 1]


def test_share_omits_unlabelled_rows():
    people = pd.DataFrame({"model": ["a"] * 4, "gender": ["female", None, "male", float("nan")]})
    row = stats.by_group(people, "model", stats.share("gender", "female")).iloc[0]
    assert (row["count"], row["n"], row["percent"]) == (1, 2, 50)


def test_stereotype_score_nonstandard_gender_is_refused():
    people = pd.DataFrame({"model": "a", "gender": ["F", "male"], "stereotype": ["female", "male"]})
    with pytest.raises(InputError, match=r"The column 'gender' contains 'F'; use 'female' or 'male'\."):
        stats.by_group(people, "model", stats.stereotype_score())
