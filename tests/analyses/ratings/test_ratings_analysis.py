"""Tables, answers and figures of a user's own ratings, against values worked out by hand."""

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
# lean 40 - 60 = -20 (its lean flips: left out by the paper's definition); maid has generated images only.
BOTH = {"nurse": (8, 9), "carpenter": (2, 1), "clerk": (6, 4)}
FEMALE = {(o, s): n for o, both in BOTH.items() for s, n in zip(("training", "generated"), both, strict=True)}
FEMALE["maid", "generated"] = 10


def unanimous(annotators: int = 2) -> pd.DataFrame:
    """Return wide ratings in which all annotators agree on each image."""
    rows = [(o, source, i, "female" if i < n else "male") for (o, source), n in FEMALE.items() for i in range(10)]
    frame = pd.DataFrame(rows, columns=["occupation", "source", "image", "label"])
    frame["image"] = frame["occupation"] + frame["source"] + frame["image"].astype(str)
    return frame.assign(**{f"r{k + 1}": frame["label"] for k in range(annotators)}).drop(columns="label")


DRAWS = {"seed": 7, "replicates": 100, "confidence": 0.95}


@pytest.fixture
def read(tmp_path):
    """Return a function that reads ratings, or shares, from a file with the content given."""

    def _read(content: pd.DataFrame | str, model: str = "all") -> AnnotatedImages:
        path = tmp_path / "ratings.csv"
        path.write_text(content.to_csv(index=False) if isinstance(content, pd.DataFrame) else content)
        return ratings.read(path).of_model(model)

    return _read


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """Return what follows from ratings in which all agree."""
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
def test_amplification_by_hand_with_a_flip_and_a_lone_source(usual):
    table = usual.amplification.set_index("definition")
    assert table["amplification"].to_dict() == pytest.approx(
        {"paper": (10 + 10) / 2, "all": (10 + 10 + 0) / 3, "signed": (10 + 10 - 20) / 3}, abs=1e-9
    )
    assert table.loc[DEFINITIONS, "n_occupations"].tolist() == [2, 3, 3]
    assert table.loc[DEFINITIONS, "n_excluded"].tolist() == [2, 1, 1]
    assert set(table["model"] + table["approach"] + table["prompt"]) == {"unnamednaiveannotations"}


def test_ratings_long_and_shares_of_the_same_images_give_the_same_amplification(read, usual):
    long = unanimous().melt(["image", "source", "occupation"], var_name="annotator", value_name="label")
    shares = [(occupation, source, 10 * n, 10) for (occupation, source), n in FEMALE.items()]
    shares = pd.DataFrame(shares, columns=["occupation", "source", "percent_female", "n"])
    for content in (long, shares):
        pd.testing.assert_frame_equal(usual.amplification, amplification(read(content)))


def test_without_disagreement_every_rule_and_rater_gives_the_same(usual):
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
def test_a_rule_weighs_images(name):
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
    """Return ratings by three annotators who err, with gaps: training and generated alike."""
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


def test_agreement_is_the_librarys_on_the_files_own_cells(read, noisy):
    opened = read(noisy)
    table = agreement(opened).set_index(["statistic", "labels"])
    three, two = ["female", "male", "unsure"], ["female", "male"]
    row = table.loc[("krippendorff_alpha", "female/male/unsure")]
    assert row["value"] == pytest.approx(alpha(noisy, three))
    assert table.loc[("krippendorff_alpha", "female/male"), "value"] == pytest.approx(alpha(noisy, two))
    rated = (noisy[["r1", "r2", "r3"]] != "").sum(axis=1)
    assert row["n_items"] == (rated >= 2).sum() and row["n_annotators"] == 3
    assert row["ci_low"] < row["value"] < row["ci_high"]
    assert len(table) == 6 and table.index.is_unique


def test_one_rater_or_one_label_has_no_agreement_and_says_why(read):
    table = agreement(read(unanimous(annotators=1)))
    assert table["value"].isna().all() and (table["reason"] != "").all() and (table["n_annotators"] == 1).all()
    female = unanimous().assign(r1="female", r2="female")
    table = agreement(read(female)).set_index(["statistic", "labels"])
    row = table.loc[("krippendorff_alpha", "female/male")]
    assert np.isnan(row["value"]) and row["reason"] == "all ratings are one label: female"


# -- shares, one source, models --------------------------------------------------------------------------


def test_shares_have_no_ratings_to_agree_or_to_resolve(read):
    opened = read("occupation,source,percent_female,n\nnurse,training,80,10\nnurse,generated,90,10\n")
    table = agreement(opened)
    assert len(table) == 6 and table["value"].isna().all()
    assert table["reason"].unique().tolist() == ["the file contains shares, not annotations"]
    assert sensitivity(opened).empty
    assert text(figures.outcomes(ratings.outcomes(opened)))[0].startswith("The file contains shares")
    assert text(figures.sensitivity(sensitivity(opened)))[0].startswith("There are no annotations")


@pytest.mark.long
def test_one_source_alone_still_gives_shares_and_agreement(read):
    only = unanimous()[lambda f: f["source"] == "training"]
    opened = read(only)
    table = amplification(opened)
    assert table.empty and answered(table) == []
    assert set(ratings.outcomes(opened)["reason"]) == {"no generated images of this occupation"}
    assert agreement(opened)["value"].notna().all()
    figures.percent_female(ratings.outcomes(opened))
    assert text(figures.sensitivity(sensitivity(opened)))[0].startswith("There are no annotations")


def two_models() -> pd.DataFrame:
    frame = unanimous()
    generated = frame[frame["source"] == "generated"]
    other = generated["r1"].map({"female": "male", "male": "female"})
    reverse = generated.assign(r1=other, r2=other, image="x" + generated["image"])
    training = frame[frame["source"] == "training"].assign(model="")
    return pd.concat([training, generated.assign(model="A"), reverse.assign(model="B")])


@pytest.mark.long
def test_models_share_training_images_and_can_be_looked_at_alone(read):
    both = amplification(read(two_models())).set_index(["model", "definition"])["amplification"]
    assert both["A", "paper"] == pytest.approx(10)
    # B reversed: nurse 80 -> 10: -70 along the lean, carpenter 20 -> 90: -70, clerk 60 -> 60: 0.
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


def answered(table):
    return ratings.answers.amplification.findings(ratings.by_definition(table))


@pytest.mark.parametrize(
    ("p", "middle", "answer"),
    [
        # Holm over three: 3 * 0.01, 2 * 0.02 and 0.03, which is no less than the second.
        ((0.01, 0.02, 0.03), (5, 5, 5), "By 3 of 3 definitions; by 0, they reduce it (Holm's correction)."),
        ((0.01, 0.06, 0.001), (5, 5, -5), "By 1 of 3 definitions; by 1, they reduce it (Holm's correction)."),
        # One of three at p = 0.03: adjusted for the others nothing is shown.
        ((0.03, 0.5, 0.5), (5, 1, 1), "Not significantly by any definition (Holm's correction)."),
        ((np.nan,) * 3, (5, 1, 1), "Not tested."),
    ],
)
def test_definitions_are_counted_by_their_adjusted_tests(p, middle, answer):
    table = pd.DataFrame(
        {"model": "unnamed", "approach": "naive", "definition": DEFINITIONS, "prompt": "annotations", "p": p,
         "amplification_corrected": middle, "amplification": middle, "ci_low": -1.0, "ci_high": 9.0,
         "n_occupations": (9, 12, 12), "reason": "" if np.isfinite(p[0]) else "Too few occupations."}
    )  # fmt: skip
    (found,) = answered(table)
    assert (found.supported_answer, found.model, found.n, len(found.marks)) == (answer, "", 12, 3)
    assert found.is_significant == answer.startswith("By")
    assert ("Too few occupations." in found.details) == np.isnan(p[0])


# -- nothing decided, nothing to judge -------------------------------------------------------------------


def unsure() -> pd.DataFrame:
    """Return one occupation's 3 training and 2 generated images, on which both annotators are unsure."""
    frame = unanimous().query("occupation == 'nurse'").groupby("source").head(3)
    return frame.iloc[:5].assign(r1="unsure", r2="unsure")


def with_questions() -> pd.DataFrame:
    """Return the same images with answers to a second question, one row for each annotation."""
    long = unsure().melt(["image", "source", "occupation"], var_name="annotator", value_name="label")
    return pd.concat([long.assign(question=""), long.assign(question="hat", label="yes")])


def test_a_file_without_perceived_gender_is_refused_with_what_reads_it(read):
    with pytest.raises(InputError, match=r"no annotation of perceived gender.*question_shares"):
        read(with_questions().query("question == 'hat'"))


@pytest.mark.long
def test_without_a_decided_image_nothing_is_found(read):
    opened = read(unsure())
    assert amplification(opened).empty and answered(amplification(opened)) == []
    table = sensitivity(opened)
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
def test_the_notebook_runs_through_and_names_its_file_first(read, tmp_path, notebook, content, first, lacking):
    read(content)
    found = notebook("paradox/ratings", annotations=str(tmp_path / "ratings.csv"))["findings"]
    assert found[0]["main"] and "ratings.csv" in found[0]["question"] and found[0]["answer"] == first
    # What the file does not hold is printed, and is no finding.
    assert bool(found[1:]) == ("amplification" not in lacking)


def test_what_a_file_holds_is_told_for_one_model_alone(read):
    def holds(rated):
        (found,) = ratings.answers.contents.findings(ratings.describe_file(rated, "ratings.csv"))
        return found

    found = holds(read(two_models(), model="B"))
    assert found.answer == "70 images of 4 occupations, annotated by 2 annotators."
    assert found.details == ("Images: 30 training, 40 generated. Models: B.",)
    both, alone = holds(read(SHARES)), holds(read(SHARES, model="B"))
    # Training shares without a model count once: 10 + 20 + 30, and 10 + 30 of B alone.
    assert both.answer == "Shares of 1 occupation from 60 images." and both.details == ("Models: A, B.",)
    assert alone.answer == "Shares of 1 occupation from 40 images."


# -- figures ---------------------------------------------------------------------------------------------


def text(figure) -> list[str]:
    return [t.get_text() for ax in figure.axes for t in ax.texts]


def drawn(ax, marker: str) -> np.ndarray:
    """Return the points drawn with ``marker``, as (points, 2)."""
    lines = [line.get_xydata() for line in ax.lines if line.get_marker() == marker]
    return np.concatenate(lines) if lines else np.empty((0, 2))


def places(ax, marker: str) -> dict[str, float]:
    """Return where markers stand across, by the name of their row without the numbers of images."""
    rows = dict(enumerate(label.get_text().split("  (")[0] for label in ax.get_yticklabels()))
    return {rows[round(y)]: x for x, y in drawn(ax, marker)}


def test_shares_are_drawn_by_source_with_their_n(usual):
    (ax,) = figures.percent_female(usual.outcomes).axes
    # By share in training: nurse 80, clerk 60, carpenter 20; maid has none and comes last.
    named = ["nurse  (10 / 10)", "clerk  (10 / 10)", "carpenter  (10 / 10)", "maid  (0 / 10)"]
    assert [label.get_text() for label in ax.get_yticklabels()] == named
    assert places(ax, "o") == pytest.approx({"nurse": 80, "clerk": 60, "carpenter": 20})
    assert places(ax, "s") == pytest.approx({"nurse": 90, "clerk": 40, "carpenter": 10, "maid": 100})


@pytest.mark.long
def test_sensitivity_draws_every_rule_in_every_panel(read, usual):
    figure = figures.sensitivity(usual.sensitivity)
    assert len(figure.axes) == 3
    # Without disagreement every rule and annotator gives the same.
    # Too few occupations for an interval: the uncorrected values are drawn.
    same = usual.amplification.set_index("definition").loc[DEFINITIONS, "amplification"]
    for ax, value in zip(figure.axes, same, strict=True):
        for marker, n in (("o", 5), ("s", 4), ("D", 2)):
            points = drawn(ax, marker)
            assert len(points) == n
            np.testing.assert_allclose(points[:, 0], value, atol=1e-9)
    assert len(figures.sensitivity(sensitivity(read(two_models()))).axes) == 6


@pytest.mark.long
def test_hostile_names_are_drawn_letter_by_letter(read, tmp_path):
    frame = unanimous().rename(columns={"r1": "$r_1$", "r2": "a\\b"})
    frame["occupation"] = frame["occupation"].map(lambda o: {"nurse": "$\\frac{$", "maid": "<b>&" * 30}.get(o, o))
    opened = read(frame)
    outcomes = ratings.outcomes(opened)
    shares = figures.percent_female(outcomes)
    labels = [label.get_text() for label in shares.axes[0].get_yticklabels()]
    assert "$\\frac{$  (10 / 10)" in labels and max(map(len, labels)) <= 60
    for figure in (figures.outcomes(outcomes), figures.sensitivity(sensitivity(opened))):
        figure.draw_without_rendering()  # fails on text taken for a formula
    study = Study(tmp_path / "out", source="annotations", annotations=str(tmp_path / "ratings.csv"))
    study.show("ratings_percent_female", shares, confidence=0.95)
    svg = (tmp_path / "out" / "figures" / "ratings_percent_female.svg").read_text()
    assert "<b>" not in svg and "&lt;b&gt;&amp;" in svg
