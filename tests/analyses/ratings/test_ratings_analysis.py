"""Tables, answers and figures of a user's annotations, compared with values by hand."""

from types import SimpleNamespace

import krippendorff
import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from biaslab.analyses import ratings
from biaslab.analyses.ratings import figures
from biaslab.analyses.ratings.analysis import RULES
from biaslab.errors import InputError, UnknownNameError
from biaslab.papers import paradox
from biaslab.ratings.shares import AnnotatedImages
from biaslab.study import Study

DEFINITIONS = ["paper", "all", "signed"]
# Female of ten images in training and generated, and the amplification that follows:
# nurse 80 -> 90: +10; carpenter 20 -> 10: |10-50| - |20-50| = +10; clerk 60 -> 40: 10 - 10 = 0, along the training
# direction 40 - 60 = -20 (direction flips: excluded by the paper's definition); maid has generated images only.
BOTH = {"nurse": (8, 9), "carpenter": (2, 1), "clerk": (6, 4)}
FEMALE = {(o, s): n for o, both in BOTH.items() for s, n in zip(("training", "generated"), both, strict=True)}
FEMALE["maid", "generated"] = 10


def unanimous(annotators: int = 2) -> pd.DataFrame:
    """Return wide annotations in which all annotators agree on each image."""
    rows = [(o, source, i, "female" if i < n else "male") for (o, source), n in FEMALE.items() for i in range(10)]
    frame = pd.DataFrame(rows, columns=["occupation", "source", "image", "label"])
    frame["image"] = frame["occupation"] + frame["source"] + frame["image"].astype(str)
    return frame.assign(**{f"r{k + 1}": frame["label"] for k in range(annotators)}).drop(columns="label")


DRAWS = {"seed": 7, "replicates": 100, "confidence": 0.95}


@pytest.fixture
def read(tmp_path):
    """Return a function that reads annotations or shares from a file with this content."""

    def _read(content: pd.DataFrame | str, model: str = "all") -> AnnotatedImages:
        path = tmp_path / "ratings.csv"
        path.write_text(content.to_csv(index=False) if isinstance(content, pd.DataFrame) else content)
        return ratings.read(path).of_model(model)

    return _read


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """Return the tables of unanimous annotations."""
    path = tmp_path_factory.mktemp("usual") / "ratings.csv"
    unanimous().to_csv(path, index=False)
    rated = ratings.read(path).of_model("all")
    tables = {"amplification": amplification(rated), "sensitivity": sensitivity(rated)}
    return SimpleNamespace(outcomes=ratings.outcomes(rated), **tables)


def amplification(rated: AnnotatedImages) -> pd.DataFrame:
    return paradox.amplification(rated.percent_female, **DRAWS)


def sensitivity(rated: AnnotatedImages) -> pd.DataFrame:
    return ratings.sensitivity(rated, **DRAWS)


def agreement(rated: AnnotatedImages) -> pd.DataFrame:
    return ratings.agreement(rated.table, rated.images, **DRAWS)


# -- amplification ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_amplification_by_hand_with_flip_and_missing_source(usual):
    table = usual.amplification.set_index("definition")
    assert table["amplification"].to_dict() == pytest.approx(
        {"paper": (10 + 10) / 2, "all": (10 + 10 + 0) / 3, "signed": (10 + 10 - 20) / 3}, abs=1e-9
    )
    assert table.loc[DEFINITIONS, "n_occupations"].tolist() == [2, 3, 3]
    assert table.loc[DEFINITIONS, "n_excluded"].tolist() == [2, 1, 1]
    assert set(table["model"] + table["approach"] + table["prompt"]) == {"unnamednaiveannotations"}


def test_amplification_is_equal_for_long_file_and_shares(read, usual):
    long = unanimous().melt(["image", "source", "occupation"], var_name="annotator", value_name="label")
    shares = [(occupation, source, 10 * n, 10) for (occupation, source), n in FEMALE.items()]
    shares = pd.DataFrame(shares, columns=["occupation", "source", "percent_female", "n"])
    for content in (long, shares):
        pd.testing.assert_frame_equal(usual.amplification, amplification(read(content)))


def test_sensitivity_without_disagreement_is_constant(usual):
    table = usual.sensitivity
    assert set(table["rule"]) == {*RULES, "annotator r1", "annotator r2"}
    spread = table.groupby("definition")["amplification"].agg(np.ptp)
    assert spread.max() < 1e-9
    same = usual.amplification.set_index("definition")
    majority = table[table["rule"] == "majority"].set_index("definition")
    columns = ["amplification_corrected", "ci_low", "ci_high", "n_occupations", "n_excluded"]
    pd.testing.assert_frame_equal(majority[columns], same[columns])
    assert (table["n_images"] == 70).all()


# Votes (female, male, unsure) of seven images, and what each rule makes of them: (female, male).
VOTES = np.array([[3, 0, 0], [2, 1, 0], [1, 1, 1], [1, 1, 0], [1, 0, 2], [0, 0, 0], [1, 0, 1]])
LABEL = ["female", "female", "tie", "tie", "unsure", "unannotated", "tie"]
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


@pytest.mark.parametrize("name", BY_HAND)
def test_rules_weigh_votes_by_hand(name):
    images = pd.DataFrame({"label": LABEL, "source": ["training", "generated"] * 3 + ["training"]})
    assert set(BY_HAND) == set(RULES)
    female, male = RULES[name][2](VOTES, images)
    np.testing.assert_allclose(np.stack([female, male], axis=1), BY_HAND[name])


# -- outcomes and annotators ---------------------------------------------------------------------------------


def test_outcomes_have_wilson_limits_and_reasons(usual):
    table = usual.outcomes.set_index(["occupation", "source"])
    low, high = proportion_confint(8, 10, method="wilson")
    row = table.loc[("nurse", "training")]
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([100 * low, 100 * high])
    assert table.loc[("maid", "generated"), "reason"] == "no training images of this occupation"
    assert (table.drop(index="maid")["reason"] == "").all()


# -- agreement -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy() -> pd.DataFrame:
    """Return annotations by three annotators with errors and gaps, for training and generated images."""
    rng = np.random.default_rng(11)
    truth = rng.choice(["female", "male"], 400)
    frame = pd.DataFrame({"image": np.arange(400), "source": np.tile(["training", "generated"], 200)})
    frame["occupation"] = rng.choice(["nurse", "carpenter"], 400)
    for k in range(3):
        other = rng.choice(["female", "male", "unsure", ""], 400)
        frame[f"r{k + 1}"] = np.where(rng.random(400) < 0.7, truth, other)
    return frame


def alpha(frame: pd.DataFrame, labels: list[str]) -> float:
    codes = frame[["r1", "r2", "r3"]].apply(lambda c: c.map({x: k for k, x in enumerate(labels)})).to_numpy(float)
    return krippendorff.alpha(codes.T, level_of_measurement="nominal", value_domain=range(len(labels)))


def test_agreement_matches_krippendorff_library(read, noisy):
    annotated_images = read(noisy)
    table = agreement(annotated_images).set_index(["statistic", "labels"])
    three, two = ["female", "male", "unsure"], ["female", "male"]
    row = table.loc[("krippendorff_alpha", "female/male/unsure")]
    assert row["value"] == pytest.approx(alpha(noisy, three))
    assert table.loc[("krippendorff_alpha", "female/male"), "value"] == pytest.approx(alpha(noisy, two))
    rated = (noisy[["r1", "r2", "r3"]] != "").sum(axis=1)
    assert row["n_items"] == (rated >= 2).sum() and row["n_annotators"] == 3
    assert row["ci_low"] < row["value"] < row["ci_high"]
    assert len(table) == 6 and table.index.is_unique


def test_agreement_of_one_annotator_or_label_has_reason(read):
    table = agreement(read(unanimous(annotators=1)))
    assert table["value"].isna().all() and (table["reason"] != "").all() and (table["n_annotators"] == 1).all()
    female = unanimous().assign(r1="female", r2="female")
    table = agreement(read(female)).set_index(["statistic", "labels"])
    row = table.loc[("krippendorff_alpha", "female/male")]
    assert np.isnan(row["value"]) and row["reason"] == "all ratings are one label: female"


# -- shares, one source, models --------------------------------------------------------------------------


def test_agreement_of_shares_file_is_missing(read):
    annotated_images = read("occupation,source,percent_female,n\nnurse,training,80,10\nnurse,generated,90,10\n")
    table = agreement(annotated_images)
    assert len(table) == 6 and table["value"].isna().all()
    assert table["reason"].unique().tolist() == ["the file contains shares, not annotations"]
    assert sensitivity(annotated_images).empty
    assert text(figures.outcomes(ratings.outcomes(annotated_images)))[0].startswith("The file contains shares")
    assert text(figures.sensitivity(sensitivity(annotated_images)))[0].startswith("There are no annotations")


@pytest.mark.long
def test_outcomes_and_agreement_of_one_source(read):
    only = unanimous()[lambda f: f["source"] == "training"]
    annotated_images = read(only)
    table = amplification(annotated_images)
    assert table.empty and answer_findings(table) == []
    assert set(ratings.outcomes(annotated_images)["reason"]) == {"no generated images of this occupation"}
    assert agreement(annotated_images)["value"].notna().all()
    figures.percent_female(ratings.outcomes(annotated_images))
    assert text(figures.sensitivity(sensitivity(annotated_images)))[0].startswith("There are no annotations")


def two_models() -> pd.DataFrame:
    frame = unanimous()
    generated = frame[frame["source"] == "generated"]
    other = generated["r1"].map({"female": "male", "male": "female"})
    reverse = generated.assign(r1=other, r2=other, image="x" + generated["image"])
    training = frame[frame["source"] == "training"].assign(model="")
    return pd.concat([training, generated.assign(model="A"), reverse.assign(model="B")])


@pytest.mark.long
def test_of_model_includes_shared_training_images(read):
    both = amplification(read(two_models())).set_index(["model", "definition"])["amplification"]
    assert both["A", "paper"] == pytest.approx(10)
    # B reversed: nurse 80 -> 10: -70 in the training direction, carpenter 20 -> 90: -70, clerk 60 -> 60: 0.
    assert both["B", "signed"] == pytest.approx((-70 - 70 + 0) / 3)
    alone = read(two_models(), model="B")
    assert set(amplification(alone)["model"]) == {"B"}
    assert set(ratings.outcomes(alone)["model"]) == {"B"}
    table = sensitivity(alone)
    assert set(table["model"]) == {"B"} and (table["n_images"] == 30 + 40).all()
    assert agreement(alone)["n_items"].tolist() == [70] * 6
    with pytest.raises(UnknownNameError, match="There is no model in the annotations"):
        read(two_models(), model="C")


# -- answers ---------------------------------------------------------------------------------------------


def answer_findings(table):
    return ratings.answers.amplification.findings(ratings.by_definition(table))


@pytest.mark.parametrize(
    ("p", "middle", "answer"),
    [
        # Holm over three: 3 * 0.01, 2 * 0.02 and 0.03, which is not below the second.
        ((0.01, 0.02, 0.03), (5, 5, 5), "By 3 of 3 definitions; by 0, they reduce it (Holm's correction)."),
        ((0.01, 0.06, 0.001), (5, 5, -5), "By 1 of 3 definitions; by 1, they reduce it (Holm's correction)."),
        # One of three at p = 0.03: not significant after adjustment for the others.
        ((0.03, 0.5, 0.5), (5, 1, 1), "Not significantly by any definition (Holm's correction)."),
        ((np.nan,) * 3, (5, 1, 1), "Not tested."),
    ],
)
def test_amplification_answer_counts_adjusted_tests(p, middle, answer):
    table = pd.DataFrame(
        {"model": "unnamed", "approach": "naive", "definition": DEFINITIONS, "prompt": "annotations", "p": p,
         "amplification_corrected": middle, "amplification": middle, "ci_low": -1.0, "ci_high": 9.0,
         "n_occupations": (9, 12, 12), "reason": "" if np.isfinite(p[0]) else "Too few occupations."}
    )  # fmt: skip
    (result,) = answer_findings(table)
    assert (result.supported_answer, result.model, result.n, len(result.marks)) == (answer, "", 12, 3)
    assert result.is_significant == answer.startswith("By")
    assert ("Too few occupations." in result.details) == np.isnan(p[0])


# -- files without decisions or perceived gender -----------------------------------------------------------


def unsure() -> pd.DataFrame:
    """Return one occupation's 3 training and 2 generated images, on which both annotators are unsure."""
    frame = unanimous().query("occupation == 'nurse'").groupby("source").head(3)
    return frame.iloc[:5].assign(r1="unsure", r2="unsure")


def with_questions() -> pd.DataFrame:
    """Return the same images with answers to a second question, one row for each annotation."""
    long = unsure().melt(["image", "source", "occupation"], var_name="annotator", value_name="label")
    return pd.concat([long.assign(question=""), long.assign(question="hat", label="yes")])


def test_read_refuses_file_without_perceived_gender(read):
    with pytest.raises(InputError, match=r"no annotation of perceived gender.*question_shares"):
        read(with_questions().query("question == 'hat'"))


@pytest.mark.long
def test_sensitivity_of_all_unsure_has_reason(read):
    annotated_images = read(unsure())
    assert amplification(annotated_images).empty and answer_findings(amplification(annotated_images)) == []
    table = sensitivity(annotated_images)
    row = table.set_index(["rule", "definition"]).loc[("majority", "paper")]
    assert np.isnan(row["amplification"]) and row["reason"] == "No image is included."
    assert row[["n_occupations", "n_excluded", "n_images"]].tolist() == [0, 1, 0]
    # All female: 100 in both sources, no change.
    extremes = table.set_index(["rule", "definition"])["amplification"]
    assert extremes["undecided_female", "paper"] == 0


# -- the whole notebook ----------------------------------------------------------------------------------

SHARES = "occupation,source,percent_female,n,model\nnurse,training,80,10,\n"
SHARES += "nurse,generated,90,20,A\nnurse,generated,70,30,B\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "first", "lacking"),
    [
        (unsure(), "5 images of 1 occupation, annotated by 2 annotators.", "amplification"),
        (with_questions(), "5 images of 1 occupation, annotated by 2 annotators.", "amplification"),
        # 30 training, 40 of A and 40 of B.
        (two_models(), "110 images of 4 occupations, annotated by 2 annotators.", ""),
        (SHARES, "Shares of 1 occupation from 60 images.", ""),
    ],
    ids=["all unsure", "questions", "two models", "shares"],
)
def test_ratings_notebook_names_file_first(read, tmp_path, notebook, content, first, lacking):
    read(content)
    result = notebook("paradox/ratings", annotations=str(tmp_path / "ratings.csv"))["findings"]
    assert result[0]["main"] and "ratings.csv" in result[0]["question"] and result[0]["answer"] == first
    # Missing parts of the file are printed, and are not findings.
    assert bool(result[1:]) == ("amplification" not in lacking)


def test_describe_file_counts_images_by_model(read):
    def holds(rated):
        (result,) = ratings.answers.contents.findings(ratings.describe_file(rated, "ratings.csv"))
        return result

    result = holds(read(two_models(), model="B"))
    assert result.answer == "70 images of 4 occupations, annotated by 2 annotators."
    assert result.details == ("Images: 30 training, 40 generated. Models: B.",)
    both, alone = holds(read(SHARES)), holds(read(SHARES, model="B"))
    # Training shares without a model count once: 10 + 20 + 30, and 10 + 30 of B alone.
    assert both.answer == "Shares of 1 occupation from 60 images." and both.details == ("Models: A, B.",)
    assert alone.answer == "Shares of 1 occupation from 40 images."


# -- figures ---------------------------------------------------------------------------------------------


def text(figure) -> list[str]:
    return [t.get_text() for ax in figure.axes for t in ax.texts]


def marker_points(ax, marker: str) -> np.ndarray:
    """Return the points drawn with ``marker``, as (points, 2)."""
    lines = [line.get_xydata() for line in ax.lines if line.get_marker() == marker]
    return np.concatenate(lines) if lines else np.empty((0, 2))


def places(ax, marker: str) -> dict[str, float]:
    """Return horizontal positions of markers by row name without the numbers of images."""
    rows = dict(enumerate(label.get_text().split("  (")[0] for label in ax.get_yticklabels()))
    return {rows[round(y)]: x for x, y in marker_points(ax, marker)}


def test_percent_female_figure_shows_sources_and_n(usual):
    (ax,) = figures.percent_female(usual.outcomes).axes
    # By share in training: nurse 80, clerk 60, carpenter 20; maid has none and comes last.
    named = ["nurse  (10 / 10)", "clerk  (10 / 10)", "carpenter  (10 / 10)", "maid  (0 / 10)"]
    assert [label.get_text() for label in ax.get_yticklabels()] == named
    assert places(ax, "o") == pytest.approx({"nurse": 80, "clerk": 60, "carpenter": 20})
    assert places(ax, "s") == pytest.approx({"nurse": 90, "clerk": 40, "carpenter": 10, "maid": 100})


@pytest.mark.long
def test_sensitivity_figure_has_every_rule_per_panel(read, usual):
    figure = figures.sensitivity(usual.sensitivity)
    assert len(figure.axes) == 3
    # Without disagreement every rule and annotator gives the same.
    # Too few occupations for an interval: the uncorrected values are drawn.
    same = usual.amplification.set_index("definition").loc[DEFINITIONS, "amplification"]
    for ax, value in zip(figure.axes, same, strict=True):
        for marker, n in (("o", 5), ("s", 4), ("D", 2)):
            points = marker_points(ax, marker)
            assert len(points) == n
            np.testing.assert_allclose(points[:, 0], value, atol=1e-9)
    assert len(figures.sensitivity(sensitivity(read(two_models()))).axes) == 6


@pytest.mark.long
def test_figures_escape_hostile_names(read, tmp_path):
    frame = unanimous().rename(columns={"r1": "$r_1$", "r2": "a\\b"})
    frame["occupation"] = frame["occupation"].map(lambda o: {"nurse": "$\\frac{$", "maid": "<b>&" * 30}.get(o, o))
    annotated_images = read(frame)
    outcomes = ratings.outcomes(annotated_images)
    shares = figures.percent_female(outcomes)
    labels = [label.get_text() for label in shares.axes[0].get_yticklabels()]
    assert "$\\frac{$  (10 / 10)" in labels and max(map(len, labels)) <= 60
    for figure in (figures.outcomes(outcomes), figures.sensitivity(sensitivity(annotated_images))):
        figure.draw_without_rendering()  # fails on text taken for a formula
    study = Study(tmp_path / "out", source="annotations", annotations=str(tmp_path / "ratings.csv"))
    study.show("ratings_percent_female", shares, confidence=0.95)
    svg = (tmp_path / "out" / "figures" / "ratings_percent_female.svg").read_text()
    assert "<b>" not in svg and "&lt;b&gt;&amp;" in svg
