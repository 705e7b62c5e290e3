"""Tables, findings and figures of a user's own ratings, against values worked out by hand."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import krippendorff
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from biaslab.errors import InputError, ParameterError, UnknownNameError
from biaslab.figures import ratings as figures
from biaslab.studies import ratings as findings
from biaslab.studies.ratings import RULES
from biaslab.study import Study

DEFINITIONS = ["published", "no_exclusion", "directional"]
# Female of ten images in training and generated, and the amplification that follows:
# nurse 80 -> 90: +10; carpenter 20 -> 10: |10-50| - |20-50| = +10; clerk 60 -> 40: 10 - 10 = 0, along the training
# lean 40 - 60 = -20 (its lean flips: left out by the published rule); maid has generated images only.
FEMALE = {
    ("nurse", "training"): 8,
    ("nurse", "generated"): 9,
    ("carpenter", "training"): 2,
    ("carpenter", "generated"): 1,
    ("clerk", "training"): 6,
    ("clerk", "generated"): 4,
    ("maid", "generated"): 10,
}


def unanimous(raters: int = 2) -> pd.DataFrame:
    """Return wide ratings in which all raters agree on each image."""
    rows = [
        (f"{occupation}{source}{i}", source, occupation, "female" if i < n else "male")
        for (occupation, source), n in FEMALE.items()
        for i in range(10)
    ]
    frame = pd.DataFrame(rows, columns=["image", "source", "occupation", "label"])
    return frame.assign(**{f"r{k + 1}": frame["label"] for k in range(raters)}).drop(columns="label")


@pytest.fixture
def study(tmp_path):
    def _study(content: pd.DataFrame | str, **parameters) -> Study:
        path = tmp_path / "ratings.csv"
        if isinstance(content, pd.DataFrame):
            content = content.to_csv(index=False)
        path.write_text(content)
        parameters = {"seed": 7, "bootstrap_replicates": 200, **parameters}
        return Study(tmp_path / "out", source="ratings", ratings=str(path), **parameters)

    return _study


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


# -- amplification ---------------------------------------------------------------------------------------


def test_amplification_by_hand_with_a_flip_and_a_lone_source(study):
    table = study(unanimous()).table("paradox_amplification").set_index("definition")
    assert table["amplification_plain"].to_dict() == pytest.approx(
        {"published": (10 + 10) / 2, "no_exclusion": (10 + 10 + 0) / 3, "directional": (10 + 10 - 20) / 3},
        abs=1e-9,
    )
    assert table.loc[DEFINITIONS, "n_occupations"].tolist() == [2, 3, 3]
    assert table.loc[DEFINITIONS, "n_excluded"].tolist() == [2, 1, 1]
    assert table[["model", "approach", "prompt"]].drop_duplicates().to_numpy().tolist() == [
        ["unnamed", "naive", "ratings"]
    ]


def test_ratings_long_and_shares_of_the_same_images_give_the_same_amplification(study):
    wide = unanimous()
    long = wide.melt(["image", "source", "occupation"], var_name="rater", value_name="label")
    shares = pd.DataFrame(
        [(occupation, source, 10 * n, 10) for (occupation, source), n in FEMALE.items()],
        columns=["occupation", "source", "percent_female", "n"],
    )
    tables = [study(content).table("paradox_amplification") for content in (wide, long, shares)]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    pd.testing.assert_frame_equal(tables[0], tables[2])


def test_without_disagreement_every_rule_and_rater_gives_the_same(study):
    table = study(unanimous()).table("ratings_sensitivity")
    assert set(table["rule"]) == {*RULES, "rater r1", "rater r2"}
    spread = table.groupby("definition")["amplification"].agg(np.ptp)
    assert spread.max() < 1e-9
    same = study(unanimous()).table("paradox_amplification").set_index("definition")
    majority = table[table["rule"] == "majority"].set_index("definition")
    columns = ["amplification", "ci_low", "ci_high", "n_occupations", "n_excluded"]
    pd.testing.assert_frame_equal(majority[columns], same[columns])
    assert (table["n_images"] == 70).all()


# Votes (female, male, unsure) of seven images, and what each rule makes of them: (female, male).
VOTES = np.array([[3, 0, 0], [2, 1, 0], [1, 1, 1], [1, 1, 0], [1, 0, 2], [0, 0, 0], [1, 0, 1]])
LABEL = ["female", "female", "tie", "tie", "unsure", "unrated", "tie"]
BY_HAND = {
    "majority": [(1, 0), (1, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0)],
    "ties_split": [(1, 0), (1, 0), (1 / 3, 1 / 3), (1 / 2, 1 / 2), (0, 0), (0, 0), (1 / 2, 0)],
    "unsure_set_aside": [(1, 0), (1, 0), (0, 0), (0, 0), (1, 0), (0, 0), (1, 0)],
    "unanimous": [(1, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0)],
    "fractions": [(1, 0), (2 / 3, 1 / 3), (1 / 3, 1 / 3), (1 / 2, 1 / 2), (1 / 3, 0), (0, 0), (1 / 2, 0)],
    "undecided_female": [(1, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 0), (1, 0)],
    "undecided_male": [(1, 0), (1, 0), (0, 1), (0, 1), (0, 1), (0, 1), (0, 1)],
    # Images 0, 2, 4, 6 are training images, the others generated.
    "undecided_training_female": [(1, 0), (1, 0), (1, 0), (0, 1), (1, 0), (0, 1), (1, 0)],
    "undecided_training_male": [(1, 0), (1, 0), (0, 1), (1, 0), (0, 1), (1, 0), (0, 1)],
}


def test_every_rule_is_worked_out_by_hand():
    assert set(BY_HAND) == set(RULES)


@pytest.mark.parametrize("name", BY_HAND)
def test_a_rule_weighs_images(name):
    images = pd.DataFrame({"label": LABEL, "source": ["training", "generated"] * 3 + ["training"]})
    female, male = RULES[name][2](VOTES, images)
    np.testing.assert_allclose(np.stack([female, male], axis=1), BY_HAND[name])


def test_extremes_move_shares_as_far_as_they_can(study):
    # One occupation, ten images a source. Training: 6 female, 2 male, 2 unsure, so 60 to 80 %; decided 75 %.
    # Generated: 8 female, 0 male, 2 unsure, so 80 to 100 %; decided 100 %.
    rows = [f"t{i},training,nurse,{x}" for i, x in enumerate(["female"] * 6 + ["male"] * 2 + ["unsure"] * 2)]
    rows += [f"g{i},generated,nurse,{x}" for i, x in enumerate(["female"] * 8 + ["unsure"] * 2)]
    table = study("image,source,occupation,r1\n" + "\n".join(rows) + "\n").table("ratings_sensitivity")
    published = table[table["definition"] == "published"].set_index("rule")["amplification"]
    assert published["majority"] == pytest.approx(100 - 75)
    assert published["undecided_female"] == pytest.approx(100 - 80)
    assert published["undecided_male"] == pytest.approx(80 - 60)
    assert published["undecided_training_female"] == pytest.approx(80 - 80)
    assert published["undecided_training_male"] == pytest.approx(100 - 60)


def test_the_same_seed_gives_the_same_tables(study, tmp_path):
    first = study(unanimous()).table("ratings_sensitivity")
    path = str(tmp_path / "ratings.csv")
    again = Study(tmp_path / "other", source="ratings", ratings=path, seed=7, bootstrap_replicates=200)
    pd.testing.assert_frame_equal(first, again.table("ratings_sensitivity"))


# -- outcomes and raters ---------------------------------------------------------------------------------


def test_outcomes_have_wilson_limits_and_reasons(study):
    table = study(unanimous()).table("ratings_outcomes").set_index(["occupation", "source"])
    # Wilson, 8 of 10, z = 1.959964: centre (8 + z²/2) / (10 + z²), half width z·sqrt(10·0.8·0.2 + z²/4) / (10 + z²).
    z = 1.959963984540054
    centre, half = (8 + z**2 / 2) / (10 + z**2), z * np.sqrt(1.6 + z**2 / 4) / (10 + z**2)
    row = table.loc[("nurse", "training")]
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx(
        [100 * (centre - half), 100 * (centre + half)]
    )
    assert table.loc[("maid", "generated"), "reason"] == "no training images of this occupation"
    assert (table.drop(index="maid")["reason"] == "").all()


def test_raters_are_counted_apart(study):
    content = (
        "image,source,occupation,r1,r2\na,training,nurse,female,unsure\nb,training,nurse,male,unsure\n"
        "c,generated,nurse,female,\n"
    )
    table = study(content).table("ratings_raters").set_index(["rater", "source"])
    first = table.loc[("r1", "training")]
    assert first[["n_rated", "female", "male", "unsure", "percent_female", "percent_unsure"]].tolist() == [
        2, 1, 1, 0, 50, 0,
    ]  # fmt: skip
    second = table.loc[("r2", "training")]
    assert second["percent_unsure"] == 100 and np.isnan(second["percent_female"])
    silent = table.loc[("r2", "generated")]
    assert silent["n_rated"] == 0 and np.isnan(silent["percent_unsure"])


# -- agreement -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy() -> pd.DataFrame:
    """Return ratings by three raters who err, with gaps: training and generated alike."""
    rng = np.random.default_rng(11)
    truth = rng.choice(["female", "male"], 400)
    frame = pd.DataFrame({"image": np.arange(400), "source": np.tile(["training", "generated"], 200)})
    frame["occupation"] = rng.choice(["nurse", "carpenter"], 400)
    for k in range(3):
        other = rng.choice(["female", "male", "unsure", ""], 400)
        frame[f"r{k + 1}"] = np.where(rng.random(400) < 0.7, truth, other)
    return frame


def alpha(frame: pd.DataFrame, labels: list[str]) -> float:
    codes = (
        frame[["r1", "r2", "r3"]].apply(lambda c: c.map({x: k for k, x in enumerate(labels)})).to_numpy(float)
    )
    return krippendorff.alpha(codes.T, level_of_measurement="nominal", value_domain=range(len(labels)))


def test_agreement_is_the_librarys_on_the_files_own_cells(study, noisy):
    opened = study(noisy)
    table = opened.table("ratings_agreement").set_index(["statistic", "labels"])
    three, two = ["female", "male", "unsure"], ["female", "male"]
    row = table.loc[("krippendorff_alpha", "female/male/unsure")]
    assert row["value"] == pytest.approx(alpha(noisy, three))
    assert table.loc[("krippendorff_alpha", "female/male"), "value"] == pytest.approx(alpha(noisy, two))
    rated = (noisy[["r1", "r2", "r3"]] != "").sum(axis=1)
    assert row["n_items"] == (rated >= 2).sum() and row["n_raters"] == 3
    assert row["ci_low"] < row["value"] < row["ci_high"]
    assert len(table) == 6 and table.index.is_unique

    detail = opened.table("ratings_agreement_detail").set_index(["statistic", "labels", "subset", "raters"])
    training = detail.loc[("krippendorff_alpha", "female/male", "training", "all"), "value"]
    assert training == pytest.approx(alpha(noisy[noisy["source"] == "training"], two))
    from sklearn.metrics import cohen_kappa_score

    both = noisy[noisy["r1"].isin(two) & noisy["r3"].isin(two)]
    kappa = detail.loc[("cohen_kappa", "female/male", "all", "r1 with r3")]
    assert kappa["value"] == pytest.approx(cohen_kappa_score(both["r1"], both["r3"]))
    assert kappa["n_items"] == len(both)


def test_one_rater_or_one_label_has_no_agreement_and_says_why(study):
    table = study(unanimous(raters=1)).table("ratings_agreement")
    assert table["value"].isna().all() and (table["reason"] != "").all() and (table["n_raters"] == 1).all()
    female = unanimous().assign(r1="female", r2="female")
    table = study(female).table("ratings_agreement").set_index(["statistic", "labels"])
    row = table.loc[("krippendorff_alpha", "female/male")]
    assert np.isnan(row["value"]) and row["reason"] == "all ratings are one label: female"


def test_many_raters_are_not_paired(study):
    rng = np.random.default_rng(1)
    rows = [
        (f"i{i}", "training" if i % 2 else "generated", "nurse", f"w{w}", rng.choice(["female", "male"]))
        for i in range(40)
        for w in rng.choice(50, size=3, replace=False)
    ]
    opened = study(pd.DataFrame(rows, columns=["image", "source", "occupation", "rater", "label"]))
    detail = opened.table("ratings_agreement_detail")
    kappa = detail[detail["statistic"] == "cohen_kappa"]
    assert kappa["reason"].unique().tolist() == ["more than 6 raters: pairs are not compared"]
    n_raters = len({row[3] for row in rows})
    assert (opened.table("ratings_agreement")["n_raters"] == n_raters).all()
    assert opened.table("ratings_raters").empty
    assert set(opened.table("ratings_sensitivity")["kind"]) == {"rule", "extreme"}
    figures.agreement(opened.table("ratings_agreement"), detail)
    assert text(figures.raters(opened.table("ratings_raters"))) == ["The file has no column for each rater."]


# -- shares, one source, models --------------------------------------------------------------------------


def test_shares_have_no_ratings_to_agree_or_to_resolve(study):
    opened = study("occupation,source,percent_female,n\nnurse,training,80,10\nnurse,generated,90,10\n")
    agreement = opened.table("ratings_agreement")
    assert len(agreement) == 6 and agreement["value"].isna().all()
    assert agreement["reason"].unique().tolist() == ["the file holds shares, not ratings"]
    assert opened.table("ratings_sensitivity").empty and opened.table("ratings_raters").empty
    assert findings.sensitivity_finding(opened) == "There are no ratings to resolve in another way."
    assert findings.undecided_finding(opened).startswith("The file gives shares, so")
    assert "cannot be computed" in findings.agreement_finding(opened)
    assert text(figures.outcomes(opened.table("ratings_outcomes")))[0].startswith("The file gives shares")
    assert text(figures.sensitivity(opened.table("ratings_sensitivity")))[0].startswith(
        "There are no ratings"
    )


def test_one_source_alone_still_gives_shares_and_agreement(study):
    only = unanimous()[lambda f: f["source"] == "training"]
    opened = study(only)
    assert opened.table("paradox_amplification").empty
    assert findings.amplification_finding(opened) == (
        "Amplification cannot be computed: the file has not both training and generated images."
    )
    reasons = opened.table("ratings_outcomes")["reason"].unique().tolist()
    assert reasons == ["no generated images of this occupation"]
    assert opened.table("ratings_agreement")["value"].notna().all()
    figures.percent_female(opened.table("ratings_outcomes"))
    occupations = opened.table("paradox_occupation_amplification")
    drawn = figures.amplification(opened.table("paradox_amplification"), occupations)
    assert text(drawn)[0].startswith("There are not both")
    assert text(figures.sensitivity(opened.table("ratings_sensitivity")))[0].startswith(
        "There are no ratings"
    )


def two_models() -> pd.DataFrame:
    frame = unanimous()
    generated = frame[frame["source"] == "generated"]
    reverse = generated.assign(
        r1=generated["r1"].map({"female": "male", "male": "female"}), image="x" + generated["image"]
    )
    reverse["r2"] = reverse["r1"]
    training = frame[frame["source"] == "training"].assign(model="")
    return pd.concat([training, generated.assign(model="A"), reverse.assign(model="B")])


def test_models_share_training_images_and_can_be_looked_at_alone(study, tmp_path):
    both = (
        study(two_models())
        .table("paradox_amplification")
        .set_index(["model", "definition"])["amplification_plain"]
    )
    assert both["A", "published"] == pytest.approx(10)
    # B reversed: nurse 80 -> 10: -70 along the lean, carpenter 20 -> 90: -70, clerk 60 -> 60: 0.
    assert both["B", "directional"] == pytest.approx((-70 - 70 + 0) / 3)
    alone = study(two_models(), model="B")
    assert set(alone.table("paradox_amplification")["model"]) == {"B"}
    assert set(alone.table("ratings_outcomes")["model"]) == {"B"}
    table = alone.table("ratings_sensitivity")
    assert set(table["model"]) == {"B"} and (table["n_images"] == 30 + 40).all()
    assert alone.table("ratings_agreement")["n_items"].tolist() == [70] * 6
    with pytest.raises(UnknownNameError, match="There is no model in paradox_percent_female"):
        study(two_models(), model="C").table("paradox_percent_female")
    with pytest.raises(UnknownNameError, match="There is no model in ratings"):
        study(two_models(), model="C").table("ratings_outcomes")


def test_tables_of_ratings_need_the_source_ratings(tmp_path):
    with pytest.raises(ParameterError) as error:
        Study(tmp_path, source="published").table("ratings_input")
    assert str(error.value) == (
        "source is 'published'; tables of ratings need source 'ratings' and ratings set to a file."
    )
    with pytest.raises(ParameterError, match="source is 'ratings' but ratings is empty"):
        Study(tmp_path, source="ratings", ratings="")


def test_bad_input_reaches_the_notebook_as_an_input_error(study):
    with pytest.raises(InputError, match="is not a rating"):
        study("image,source,occupation,r1\na,training,nurse,lady\n").table("ratings_outcomes")


# -- findings --------------------------------------------------------------------------------------------


def pretend(amplification, low, high, occupations=(9, 12, 12)) -> SimpleNamespace:
    """Return a stand-in for a study with given amplifications."""
    table = pd.DataFrame(
        {
            "model": "unnamed",
            "definition": DEFINITIONS,
            "prompt": "ratings",
            "amplification": amplification,
            "ci_low": low,
            "ci_high": high,
            "n_occupations": occupations,
            "n_excluded": [12 - n for n in occupations],
            "reason": ["Too few occupations." if np.isnan(limit) else "" for limit in low],
        }
    )
    outcomes = pd.DataFrame({"model": "unnamed", "n": [1000, 500]})
    tables = {"paradox_amplification": table, "ratings_outcomes": outcomes}
    return SimpleNamespace(table=tables.__getitem__, confidence=0.9)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (
            [1, 1, 1],
            [9, 9, 9],
            "Generated images amplify the imbalance of the training images by all three definitions",
        ),
        (
            [-9, -9, -9],
            [-1, -1, -1],
            "Generated images reduce the imbalance of the training images by all three",
        ),
        ([-1, -1, -1], [9, 9, 9], "By no definition does the interval of the amplification exclude 0"),
        (
            [1, -1, -1],
            [9, 9, 9],
            "Whether generated images amplify the imbalance of the training images depends on",
        ),
        (
            [1, 1, -9],
            [9, 9, -1],
            "Whether generated images amplify the imbalance of the training images depends on",
        ),
        (
            [1, np.nan, 2],
            [9, np.nan, 9],
            "Generated images amplify the imbalance of the training images by each definition that has an interval",
        ),
        ([np.nan] * 3, [np.nan] * 3, "Amplification cannot be judged (too few occupations): no value by the"),
    ],
)
def test_the_finding_follows_the_intervals(low, high, words):
    middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    assert findings.amplification_finding(pretend(middle, low, high)).startswith(words)


def test_the_finding_names_value_interval_and_n():
    got = findings.amplification_finding(
        pretend([5, 2, np.nan], [1.04, -1, np.nan], [9, 5, np.nan], (9, 12, 0))
    )
    assert got == (
        "Whether generated images amplify the imbalance of the training images depends on the definition: +5.0 points "
        "[+1.0, +9.0; 90 % interval] by the published definition (9 of 12 occupations), +2.0 points [-1.0, +5.0; 90 % "
        "interval] without exclusion (12 of 12 occupations) and no value along the training lean (0 of 12 "
        "occupations); 1,500 decided images."
    )


def test_undecided_images_are_told_by_source(study):
    frame = unanimous()
    frame.loc[:4, ["r1", "r2"]] = "unsure"  # 5 of the 30 training images
    got = findings.undecided_finding(study(frame))
    assert "0.0 % of 40 generated images" in got and "16.7 % of 30 training images [" in got


def test_agreement_and_sensitivity_findings_hold_the_tables_numbers(study, noisy):
    opened = study(noisy)
    table = opened.table("ratings_agreement").set_index(["statistic", "labels"])
    row = table.loc[("krippendorff_alpha", "female/male/unsure")]
    expected = f"Krippendorff's alpha is {row['value']:.2f} with unsure as a label (95 % interval {row['ci_low']:.2f}"
    assert findings.agreement_finding(opened).startswith(expected)
    sensitivity = opened.table("ratings_sensitivity")
    rules = sensitivity[(sensitivity["kind"] == "rule") & (sensitivity["definition"] == "directional")]
    low, high = rules["amplification"].min(), rules["amplification"].max()
    got = findings.sensitivity_finding(opened)
    assert got.startswith("Over 5 ways to resolve ratings, amplification is ")
    assert f"{low:+.1f} to {high:+.1f} points along the training lean;" in got


# -- nothing decided, nothing to judge -------------------------------------------------------------------


def unsure() -> pd.DataFrame:
    """Return one occupation's 3 training and 2 generated images, on which both raters are unsure."""
    frame = unanimous().query("occupation == 'nurse'").groupby("source").head(3)
    frame = frame.drop(frame[frame["source"] == "generated"].index[:1]).assign(r1="unsure", r2="unsure")
    return frame


def test_without_a_decided_image_the_finding_counts_them(study):
    opened = study(unsure())
    assert opened.table("paradox_amplification").empty and opened.table("paradox_exclusions").empty
    assert findings.amplification_finding(opened) == (
        "Amplification cannot be computed: none of 3 training images and 2 generated images was decided female or male."
    )
    table = opened.table("ratings_sensitivity").set_index(["rule", "definition"])
    row = table.loc[("majority", "published")]
    assert np.isnan(row["amplification"]) and row["reason"] == "No image counts."
    assert row[["n_occupations", "n_excluded", "n_images"]].tolist() == [0, 1, 0]
    # All female: 100 in both sources, no change.
    assert table.loc[("undecided_female", "published"), "amplification"] == 0
    got = findings.sensitivity_finding(opened)
    assert got.startswith("Over 5 ways to resolve ratings, amplification is without a value by the published")
    assert "; whether it differs from 0 cannot be judged (no image counts). With one rater alone" in got


def test_a_model_without_a_decided_image_does_not_hide_the_others(study):
    frame = two_models()
    frame.loc[frame["model"] == "B", ["r1", "r2"]] = "unsure"
    got = findings.amplification_finding(study(frame))
    assert (
        "B: Amplification cannot be judged (no occupation is left): no value by the published definition"
        in got
    )
    assert got.startswith("A: ") and "+10.0 points" in got


def test_a_model_with_training_images_of_its_own_and_none_decided(study):
    a = unanimous().query("occupation != 'maid'").assign(model="A")
    opened = study(pd.concat([a, a.assign(model="B", r1="unsure", r2="unsure")]))
    assert set(opened.table("paradox_amplification")["model"]) == {"A"}
    # 30 images of each source.
    assert findings.amplification_finding(opened).endswith(
        "B: Amplification cannot be computed: none of 30 training images and 30 generated images was decided female "
        "or male."
    )
    table = opened.table("ratings_sensitivity").set_index(["model", "rule", "definition"])
    assert table.loc[("A", "majority", "published"), "amplification"] == pytest.approx(10)
    assert table.loc[("B", "majority", "published"), "reason"] == "No image counts."


def test_one_occupation_has_values_but_nothing_to_judge_them_by(study):
    opened = study(unanimous().query("occupation == 'nurse'"))
    assert findings.amplification_finding(opened) == (
        "Amplification cannot be judged (too few occupations or images for an interval; image noise is left in): "
        "+10.0 points without an interval by the published definition (1 of 1 occupations), +10.0 points without an "
        "interval without exclusion (1 of 1 occupations) and +10.0 points without an interval along the training lean "
        "(1 of 1 occupations); 20 decided images."
    )
    said = findings.sensitivity_finding(opened)
    assert "cannot be judged (too few occupations or images for an interval; image noise is left in)" in said


def test_one_source_gives_no_amplification_by_any_rule(study):
    opened = study(unanimous()[lambda f: f["source"] == "training"])
    assert findings.sensitivity_finding(opened) == (
        "No rule gives an amplification: the file has not both training and generated images."
    )


def test_a_missing_interval_of_agreement_is_named_once():
    row = {"value": 0.5, "ci_low": np.nan, "ci_high": np.nan, "n_items": 8, "n_raters": 2}
    reason = "no interval: undefined in 48 of 200 resamples (one label only)"
    rows = [
        {"statistic": "krippendorff_alpha", "labels": labels, **row, "reason": reason}
        for labels in findings.LABEL_SETS
    ]
    stand_in = SimpleNamespace(table=lambda name: pd.DataFrame(rows), confidence=0.95)
    assert findings.agreement_finding(stand_in) == (
        "Krippendorff's alpha is 0.50 with unsure as a label (no interval: undefined in 48 of 200 resamples (one label "
        "only); 8 images, 2 raters) and is 0.50 with unsure ratings set aside (no interval: undefined in 48 of 200 "
        "resamples (one label only); 8 images, 2 raters)."
    )


# -- the whole notebook ----------------------------------------------------------------------------------

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "paradox" / "ratings.ipynb"
NURSE_ONLY = unanimous().query("occupation == 'nurse'")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "first", "lacking"),
    [
        (
            unanimous(),
            "70 images (30 training, 40 generated) of 4 occupations, rated by 2 raters.",
            "",
        ),
        (
            unsure(),
            "5 images (3 training, 2 generated) of 1 occupation, rated by 2 raters.",
            "amplification",
        ),
        (
            NURSE_ONLY.assign(r1=NURSE_ONLY["r1"].where(NURSE_ONLY["source"] == "generated", "unsure")).drop(
                columns="r2"
            ),
            "20 images (10 training, 10 generated) of 1 occupation, rated by 1 rater.",
            "agreement",
        ),
        (
            unanimous()[lambda f: f["source"] == "training"],
            "30 images (30 training, 0 generated) of 3 occupations, rated by 2 raters.",
            "amplification sensitivity",
        ),
        (
            two_models(),
            # 30 training, 40 of A and 40 of B.
            "110 images (30 training, 80 generated) of 4 occupations, rated by 2 raters. Models: A and B.",
            "",
        ),
        (
            "occupation,source,percent_female,n,model\nnurse,training,80,10,\nnurse,generated,90,20,A\n"
            "nurse,generated,70,30,B\n",
            "shares of 1 occupation from 60 images. Models: A and B.",
            "undecided agreement sensitivity",
        ),
    ],
    ids=["usual", "all unsure", "training unsure", "one source", "two models", "shares"],
)
def test_the_notebook_runs_through_and_names_its_file_first(study, tmp_path, content, first, lacking):
    path = study(content).ratings
    names = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
            if "parameters" in cell["metadata"].get("tags", []):
                names |= {"output_dir": tmp_path / "run", "ratings": path, "bootstrap_replicates": 100}
    headlines = json.loads((tmp_path / "run" / "records.json").read_text(encoding="utf-8"))["headlines"]
    assert headlines[0]["main"] and headlines[0]["text"] == f"The file ratings.csv holds {first}"
    # What the file does not hold is printed, and is no finding.
    about = {
        "undecided": r"No label female or male",
        "amplification": r"(A: )?(Whether .* depends|Amplification cannot be judged)",
        "agreement": r"Krippendorff's alpha",
        "sensitivity": r"(A: )?Over \d+ ways to resolve ratings",
    }
    expected = [pattern for kind, pattern in about.items() if kind not in lacking]
    assert len(headlines) == 1 + len(expected)
    assert all(re.match(pattern, h["text"]) for pattern, h in zip(expected, headlines[1:], strict=True))


def test_a_file_that_is_missing_is_named_by_the_first_line_that_reads_it(tmp_path):
    opened = Study(tmp_path / "out", source="ratings", ratings=str(tmp_path / "none.csv"))
    with pytest.raises(InputError, match=r"none\.csv does not exist; set ratings to a CSV or Parquet file\."):
        findings.input_finding(opened)


def test_the_input_of_one_model_alone(study):
    assert findings.input_finding(study(two_models(), model="B")) == (
        "The file ratings.csv holds 70 images (30 training, 40 generated) of 4 occupations, rated by 2 raters. "
        "Model: B."
    )


# -- figures ---------------------------------------------------------------------------------------------


def text(figure) -> list[str]:
    return [t.get_text() for ax in figure.axes for t in ax.texts]


def drawn(ax, marker: str) -> np.ndarray:
    """Return the points drawn with ``marker``, as (points, 2)."""
    lines = [line.get_xydata() for line in ax.lines if line.get_marker() == marker]
    return np.concatenate(lines) if lines else np.empty((0, 2))


def test_shares_are_drawn_in_pairs_with_their_n(study):
    outcomes = study(unanimous()).table("ratings_outcomes")
    (ax,) = figures.percent_female(outcomes).axes
    order = [label.get_text() for label in ax.get_yticklabels()]
    # By share in training: nurse 80, clerk 60, carpenter 20; maid has none and comes last.
    assert order == ["nurse", "clerk", "carpenter", "maid"]
    training, generated = drawn(ax, "o"), drawn(ax, "s")
    by_row = {order[round(-y)]: x for x, y in training}
    assert by_row == pytest.approx({"nurse": 80, "clerk": 60, "carpenter": 20})
    assert {order[round(-y)]: x for x, y in generated} == pytest.approx(
        {"nurse": 90, "clerk": 40, "carpenter": 10, "maid": 100}
    )
    assert [t for t in text(ax.figure) if "/" in t] == ["10 / 10"] * 3 + ["0 / 10"]


def test_a_source_without_a_decided_image_stands_in_the_legend_once(study):
    frame = unanimous()
    frame.loc[frame["source"] == "generated", ["r1", "r2"]] = "unsure"
    figure = figures.percent_female(study(frame).table("ratings_outcomes"))
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["training images", "generated images"]


def test_outcomes_are_drawn_in_percent(study):
    left, right = figures.outcomes(study(unanimous()).table("ratings_outcomes")).axes
    female = left.containers[0]
    assert [bar.get_width() for bar in female] == pytest.approx([80, 60, 20, 0])
    male = right.containers[1]
    assert [bar.get_width() for bar in male] == pytest.approx([10, 60, 90, 0])
    assert [bar.get_x() for bar in male] == pytest.approx([90, 40, 10, 100])


def test_amplification_is_drawn_over_its_occupations(study):
    opened = study(unanimous())
    occupations = opened.table("paradox_occupation_amplification")
    (ax,) = figures.amplification(opened.table("paradox_amplification"), occupations).axes
    means = drawn(ax, "D")
    table = opened.table("paradox_amplification").set_index("definition").loc[DEFINITIONS]
    np.testing.assert_allclose(means[np.argsort(-means[:, 1]), 0], table["amplification"], atol=1e-9)
    counted = drawn(ax, "o")
    published = counted[np.abs(counted[:, 1] + 0.14) < 1e-9, 0]
    assert sorted(published) == pytest.approx([10, 10])
    directional = counted[np.abs(counted[:, 1] + 2.14) < 1e-9, 0]
    assert sorted(directional) == pytest.approx([-20, 10, 10])
    left_out = drawn(ax, "x")
    assert sorted(left_out[~np.isnan(left_out[:, 0]), 0]) == pytest.approx([0])  # clerk; maid has no value
    assert "clerk" in text(ax.figure) and "maid" not in text(ax.figure)
    assert f"{table.loc['published', 'amplification']:+.1f}  (n = 2)" in text(ax.figure)


def test_sensitivity_draws_every_rule_in_every_panel(study):
    opened = study(unanimous())
    figure = figures.sensitivity(opened.table("ratings_sensitivity"))
    assert len(figure.axes) == 3
    # Without disagreement every rule and rater gives the same.
    same = opened.table("paradox_amplification").set_index("definition").loc[DEFINITIONS, "amplification"]
    for ax, value in zip(figure.axes, same, strict=True):
        for marker, n in (("o", 5), ("D", 4), ("^", 2)):
            points = drawn(ax, marker)
            assert len(points) == n
            np.testing.assert_allclose(points[:, 0], value, atol=1e-9)
    assert len(figures.sensitivity(study(two_models()).table("ratings_sensitivity")).axes) == 6


def test_hostile_names_are_drawn_letter_by_letter(study, tmp_path):
    frame = unanimous().rename(columns={"r1": "$r_1$", "r2": "a\\b"})
    frame["occupation"] = frame["occupation"].map(
        lambda o: {"nurse": "$\\frac{$", "maid": "<b>&" * 30}.get(o, o)
    )
    opened = study(frame)
    outcomes = opened.table("ratings_outcomes")
    figure = figures.percent_female(outcomes)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert "\\$\\frac{\\$" in labels and max(map(len, labels)) <= 50
    for name, made in {
        "ratings_a": figure,
        "ratings_b": figures.outcomes(outcomes),
        "ratings_c": figures.agreement(
            opened.table("ratings_agreement"), opened.table("ratings_agreement_detail")
        ),
        "ratings_d": figures.sensitivity(opened.table("ratings_sensitivity")),
        "ratings_e": figures.raters(opened.table("ratings_raters")),
    }.items():
        opened.save_figure(name, made, title="t", caption="c")  # fails on text taken for a formula
    svg = (tmp_path / "out" / "figures" / "ratings_a.svg").read_text()
    assert "<b>" not in svg and "&lt;b&gt;&amp;" in svg
