"""Accuracy of the judges of skills and of people, and estimates corrected for their errors."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from biaslab.analyses import calibration
from biaslab.judges import photographs
from biaslab.judges.judge_labels import PIXELS
from biaslab.papers import dalleval
from biaslab.papers.dalleval import figures, measure, prompts
from biaslab.schema import tables
from biaslab.settings import Settings
from biaslab_world import social as people_of

TONE_ERROR = photographs.describe_error("skin_tone", PIXELS)

LIMITS = ["ci_low", "ci_high"]


def wilson(count, n):
    return [100 * limit for limit in proportion_confint(count, n, method="wilson")]


# -- skills ------------------------------------------------------------------------------------------


def test_skill_steps_by_hand(verdicts):
    steps = dalleval.skill_steps(verdicts).set_index(["skill", "requested", "step"])
    result = (steps["percent_correct"] / 100 * steps["n"]).round(9).astype(int).astype(str)
    result = (result + " of " + steps["n"].astype(int).astype(str)).unstack("step")[["objects", "rest", "both"]]
    assert {key: list(row.dropna()) for key, row in result.iterrows()} == {
        ("count", "all"): ["3 of 4", "2 of 4", "1 of 4"],
        ("count", "1"): ["2 of 2", "1 of 2", "1 of 2"],
        ("count", "2"): ["1 of 2", "1 of 2", "0 of 2"],
        # A relation has no separate step: it has no row.
        ("spatial", "all"): ["2 of 3", "1 of 3"],
        ("spatial", "left"): ["1 of 1", "1 of 1"],
        ("spatial", "above"): ["1 of 2", "0 of 2"],
    }
    assert steps.loc[("count", "all", "objects"), LIMITS].tolist() == pytest.approx(wilson(3, 4))


def rating_rows(pairs, skill="object", annotator="r"):
    """Return annotations: each pair is a person's and the detector's label, by first letters."""
    full = {"y": "yes", "n": "no"}
    rows = [[f"{skill}{k}", full[said], full[detector]] for k, (said, detector) in enumerate(pairs)]
    return pd.DataFrame(rows, columns=["image_id", "correct", "detector"]).assign(
        model="a", annotator=annotator, skill=skill
    )


def agreement(*rows):
    table = dalleval.annotator_agreement(tables.make_table(pd.concat(rows), "dalleval_skill_ratings"), seed=1)
    return table.set_index(["skill", "statistic"])


def test_annotator_agreement_by_hand():
    rows = rating_rows(["yy"] * 3 + ["yn"] * 5 + ["ny"] * 1 + ["nn"] * 3)
    table = agreement(rows, rating_rows(["yy", "nn"], "count"))
    row = table.loc["object", "cohen_kappa"]
    # 6 of 12 agree; by chance (8 · 4 + 4 · 8) / 144 = 4/9 would: (1/2 - 4/9) / (5/9).
    assert (row["value"], row["n"], row["n_annotators"]) == (pytest.approx(0.1), 12, 1)
    # Of six that differ, only people find five: (1 + 6) / 2⁶ on each side.
    assert (row["n_people_only"], row["n_detector_only"]) == (5, 1)
    assert row["p"] == pytest.approx(14 / 64)
    assert table.loc[("object", "percent_agreement"), "value"] == pytest.approx(50)
    # Without differences p is 1; over all skills 8 of 14 agree.
    assert table.loc[("count", "cohen_kappa"), ["value", "p"]].tolist() == [1, 1]
    assert table.loc[("all", "percent_agreement"), "value"] == pytest.approx(800 / 14)
    assert table.loc[("all", "cohen_kappa"), "n_people_only"] == 5
    # A single annotator has no inter-rater agreement.
    assert "krippendorff_alpha" not in table.index.get_level_values("statistic")


def test_annotator_agreement_counts_ties_as_no():
    first, second = rating_rows(["yy", "yy", "nn", "yn"]), rating_rows(["ny", "yy", "nn"], annotator="s")
    row = agreement(first, second).loc["object"]
    # The votes are no (a tie), yes, no and, of one annotator, yes; the detector's labels are yes, yes, no, no.
    kappa = row.loc["cohen_kappa"]
    assert (kappa["n_people_only"], kappa["n_detector_only"], kappa["n_annotators"]) == (1, 1, 2)
    assert kappa["value"] == pytest.approx(0) and kappa["p"] == 1
    # Three images have two annotations, three yes and three no; 2 of 6 pairs differ where 2 · 3 · 3 / (6 · 5) would.
    assert row.loc["krippendorff_alpha", "value"] == pytest.approx(1 - (2 / 6) / (18 / 30))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (dalleval.skill_steps, "skill_verdicts"),
        (dalleval.tones_by_attribute, "social_images"),
        (lambda of: dalleval.annotator_agreement(of, seed=1), "skill_ratings"),
        (dalleval.skill_estimates, "skill_verdicts"),
    ],
)
def test_analyses_of_empty_tables_are_empty(make, name):
    assert make(tables.make_table([], f"dalleval_{name}")).empty


# -- people ------------------------------------------------------------------------------------------


def test_tones_by_attribute_by_hand(social):
    table = dalleval.tones_by_attribute(social).set_index(["attribute", "tone"])
    # Two with a tie have tone 5, as has the one with a suit; the one with a hat has no tone.
    assert table[table["percent"] > 0]["percent"].to_dict() == {("tie", "5"): 100, ("suit", "5"): 100}
    assert table["n"].groupby("attribute").agg(["min", "max"]).T.to_dict("list") == {"tie": [2, 2], "suit": [1, 1]}
    assert len(table) == 2 * 10
    more = dalleval.tones_by_attribute(social.assign(attributes="tie", skin_tone=[5, 7, 5, 1, np.nan]))
    of = more.set_index("tone")["percent"]
    assert (of["5"], of["7"], of["1"], of["10"]) == (50, 25, 25, 0) and set(more["n"]) == {4}


def test_skin_tone_outcomes_by_profession_and_reason(social):
    images = social.assign(profession=["nurse", "nurse", "nurse", "pilot", "pilot"])
    images["reason_tone"] = ["", "mixed light", "no face", "", ""]
    none = tables.make_table([], "dalleval_confusion")
    table = dalleval.skin_tone_outcomes(images, none)
    assert set(table["judge"]) == {"tone by pixels"}
    counts = table.set_index(["profession", "status"])["n"].unstack()
    assert counts.loc["(all)"].to_dict() == {"read": 3, "mixed light": 1, "no face": 1}
    assert counts.loc["nurse"].to_dict() == {"read": 1, "mixed light": 1, "no face": 1}
    # A reason that only another profession has is counted as 0 here.
    assert counts.loc["pilot"].to_dict() == {"read": 2, "mixed light": 0, "no face": 0}
    row = table.set_index(["profession", "status"]).loc[("nurse", "read")]
    assert (row["n_images"], row["percent"]) == (3, pytest.approx(100 / 3))
    assert row[LIMITS].tolist() == pytest.approx(wilson(1, 3))
    # The known error of pixels on photographs is stated once if these images have no ground truth.
    # Otherwise its accuracy is counted: 5 is read for 5, 7 for 5 and 2 for 3.
    assert (table["judge_error"] == "").all() and table["n_ground_truth"].iloc[0] == 3
    assert table["percent_tone_correct"].iloc[0] == pytest.approx(100 / 3)
    unknown = images.assign(truth_skin_tone=np.nan)
    photographs = dalleval.skin_tone_outcomes(unknown, none)
    assert photographs["judge_error"].tolist() == [TONE_ERROR] + [""] * (len(table) - 1)
    assert photographs["percent_tone_correct"].isna().all()
    # For drawings, the answers of the same judge count.
    answers = [("tone by pixels", "5", "5"), ("tone by pixels", "5", "7"), ("tone by pixels", "3", "2")]
    answers += [("tone by pixels", "3", "no tone"), ("ITA as released", "3", "3")]
    known = pd.DataFrame(answers, columns=["judge", "truth", "answer"]).assign(model="a", quantity="skin tone", n=1)
    known = tables.make_table(known.assign(image_id=list("vwxyz")), "dalleval_confusion")
    pd.testing.assert_frame_equal(dalleval.skin_tone_outcomes(unknown, known), table)
    other = images.assign(truth_skin_tone=np.nan, judge_tone="plugin:fair")
    assert (dalleval.skin_tone_outcomes(other, none)["judge_error"] == "").all()


# -- corrections for judges' errors -----------------------------------------------------------------------


def test_skill_estimates_skip_unreadable_images(verdicts):
    result = dalleval.skill_estimates(verdicts).set_index("quantity")
    judged = {"skill: count": 25, "skill: spatial": 100 / 3, "skill: object": 50}
    assert result["estimate"].to_dict() == pytest.approx(judged)
    assert result["n"].to_dict() == {"skill: count": 4, "skill: spatial": 3, "skill: object": 2}
    # Only of objects and relations is the truth of all images known.
    true = {"skill: count": np.nan, "skill: spatial": 200 / 3, "skill: object": 50}
    assert result["estimate_true"].to_dict() == pytest.approx(true, nan_ok=True)
    unseen = [verdicts.assign(status=why) for why in ("unreadable", "blocked")]
    pd.testing.assert_frame_equal(
        dalleval.skill_estimates(pd.concat([verdicts, *unseen])).set_index("quantity"), result
    )
    assert dalleval.skill_estimates(unseen[0]).empty


def differences(*rows, **more):
    """Return differences of attributes, each with its limits."""
    frame = pd.DataFrame(rows, columns=["attribute", "difference", "ci_low", "ci_high"])
    same = {"model": "a", "comparison": "woman - man", "n": 4, "share_first": 0.2, "share_second": 0.1}
    return tables.make_table(frame.assign(**same | more), "dalleval_attribute_difference")


def test_attribute_estimates_skip_unseen_and_printed():
    images = tables.make_table([{"model": "a", "image_id": "i"}], "dalleval_social_images")
    difference_rows = differences(("tie", 0.1, 0.05, 0.15), ("suit", 0.0, np.nan, np.nan), reason="because")
    difference_rows = difference_rows.assign(share_first=[0.2, 0], share_second=[0.1, 0])
    (row,) = dalleval.attribute_estimates(
        pd.concat([difference_rows, difference_rows.assign(model="printed")]), images
    ).to_dict("records")
    expected = {
        "model": "a",
        "quantity": "attribute",
        "subject": "tie",
        "condition": "woman - man",
        "reason": "because",
    }
    assert {name: row[name] for name in expected} == expected
    assert [row[name] for name in ("estimate", "ci_low", "ci_high", "n")] == pytest.approx([10, 5, 15, 4])
    assert np.isnan(row["estimate_true"])


def test_attribute_estimates_ground_truth_by_hand():
    # By profession: of nurses a tie is worn by 1 of 2 women, 0 of 1 man and 1 of 1 person; of cooks by 0 of 1, by
    # 2 of 2 and by 1 of 2. A writer is generated as a woman only and so has no difference.
    worn = [
        *[("woman", "nurse", "tie;hat"), ("woman", "nurse", ""), ("man", "nurse", "hat")],
        *[("person", "nurse", "tie"), ("woman", "cook", ""), ("man", "cook", "tie"), ("man", "cook", "tie;suit")],
        *[("person", "cook", "tie"), ("person", "cook", ""), ("woman", "writer", "tie")],
    ]
    frame = pd.DataFrame(worn, columns=["prompt", "profession", "truth_attributes"])
    frame = frame.assign(model="a", image_id=[f"i{k}" for k in range(len(frame))], truth_gender="female")
    images = tables.make_table(frame, "dalleval_social_images")
    named = [(name, 0.1, 0.0, 0.2) for name in ("tie", "hat", "mask")]
    comparisons = "woman - man", "woman - person", "man - person"
    difference_rows = pd.concat(differences(*named, comparison=comparison) for comparison in comparisons)
    table = dalleval.attribute_estimates(difference_rows, images)
    true = table.set_index(["condition", "subject"])["estimate_true"] / 100
    # (1/2 - 0) and (0 - 1); (1/2 - 1) and (0 - 1/2); (0 - 1) and (1 - 1/2).
    assert true.xs("tie", level=1)[[*comparisons]].tolist() == pytest.approx([-0.25, -0.5, -0.25])
    # For nurses 1/2, 1 and 0; for cooks 0.
    assert true.xs("hat", level=1)[[*comparisons]].tolist() == pytest.approx([-0.25, 0.25, 0.5])
    assert true.xs("mask", level=1)[[*comparisons]].tolist() == [0, 0, 0]
    assert dalleval.attribute_estimates(difference_rows, images.assign(truth_gender=""))["estimate_true"].isna().all()


# -- measures of a synthetic world without bias ------------------------------------------------------


class GroundTruthPipeline:
    """A pipeline whose judges return the ground truth of a table of images, and given answers about gender."""

    label = "fair"
    settings = Settings.from_mapping({"judging": {"gender": "true words"}})
    judge_settings = ("judging.gender", "judging.faces")

    def __init__(self, images, gender, *unnamed):
        faces = images.assign(gender=images["truth_gender"], tone=images["truth_skin_tone"])
        faces = faces.assign(status="judged", tone_reason="", tone_judge="tone by pixels")
        faces = faces.assign(red=np.nan, green=np.nan, blue=np.nan)
        said = images[["image_id", "prompt", "profession"]]
        gender_answers = said.assign(attribute="", answer=gender)
        worn = images["truth_attributes"].str.split(";")
        ties = said.assign(attribute="tie", answer=["yes." if "tie" in of else "No" for of in worn])
        answers = pd.concat([gender_answers, ties], ignore_index=True).assign(status="", reason="")
        unnamed = ("dalleval.detector", *unnamed)
        self.unset_settings = lambda *settings: tuple(name for name in settings if name in unnamed)
        self.has_unset = lambda *settings: bool(self.unset_settings(*settings))
        self.require = lambda *settings, prompt_set: None
        self.find_ground_truth = lambda paper: "drawings"
        self.compute = lambda colours, people, ids: np.full((len(ids), 3), np.nan)
        self.remember = lambda key, compute: compute()
        stages = SimpleNamespace(
            people=lambda kind: SimpleNamespace(table=images),
            judged_people=lambda kind: faces,
            tones=lambda kind: faces,
            answers=lambda kind: answers,
            gender_is_judged="dalleval.vqa" in unnamed,
        )
        self.part = lambda kind: stages


@pytest.fixture(scope="module")
def images_and_pipeline():
    """Return nine images of each of the 252 prompts: tones are even, and so are the answers about gender."""
    asked = prompts.social()
    images = people_of.generate(asked, seed=3).table
    images = images.merge(asked[["prompt_id", "prompt", "profession"]], on="prompt_id")
    rng = np.random.default_rng(5)
    return images, GroundTruthPipeline(images, np.where(rng.random(len(images)) < 0.5, "a woman", "male"))


def errors_of(pipeline):
    return calibration.error(measure.confusion(pipeline), paper="dalleval")


@pytest.mark.long
def test_measured_tables_contain_judge_answers(images_and_pipeline):
    images, pipeline = images_and_pipeline
    rows = measure.social_images(pipeline).set_index("image_id")
    image_rows = rows.loc[images["image_id"]]
    assert set(image_rows["gender_vqa"]) == {"female", "male"}
    assert (image_rows["gender_judge"].to_numpy() == images["truth_gender"].to_numpy()).all()
    ties = images["truth_attributes"].str.split(";").map(lambda worn: "tie" in worn).to_numpy()
    assert ((image_rows["attributes"] == "tie").to_numpy() == ties).all() and 0 < ties.sum() < len(ties)
    assert (image_rows["attributes_missing"] == "").all()
    averages = measure.average_skin_tone(pipeline).set_index("profession")
    nurses = images.loc[images["profession"] == "nurse", "truth_skin_tone"]
    assert averages.loc["nurse", "value"] == pytest.approx(nurses.mean())
    assert set(averages["n"]) == {27} and measure.skin_tone_counts(pipeline)["n"].sum() == 9 * 252
    presence = measure.attribute_presence(pipeline)
    expected = pd.Series(ties).groupby([images["prompt"], images["profession"]]).mean()
    result = presence.set_index(["prompt", "profession"])["share"]
    pd.testing.assert_series_equal(
        result.sort_index(), expected.sort_index(), check_names=False, check_index_type=False
    )
    # Judges that return the ground truth are never wrong; the answers about gender are random here.
    errors = errors_of(pipeline)
    certain = (errors["judge"] == "true words") | (errors["subject"] == "tie") | (errors["judge"] == "tone by pixels")
    shares = errors[certain & errors["measure"].isin(["sensitivity", "specificity", "within_0"])]
    assert len(shares) == 5 and (shares["value"] == 100).all()


def test_average_gender_without_vqa_uses_gender_judge(images_and_pipeline):
    images, asked = images_and_pipeline
    pipeline = GroundTruthPipeline(images, "a man", "dalleval.vqa")
    averages = measure.average_gender(pipeline).set_index("profession")
    nurses = images[(images["prompt"] == "person") & (images["profession"] == "nurse")]["truth_gender"]
    assert averages.loc["nurse", "value"] == pytest.approx(2 * (nurses == "female").mean() - 1)
    assert set(averages["judge"]) == {"true words"}
    assert set(measure.average_gender(asked)["judge"]) == {"VQA"}
    rows = measure.social_images(pipeline)
    assert set(rows["reason_vqa"]) == {"no judge is set"} and set(rows["gender_vqa"]) == {""}
    assert set(rows["attributes"]) == {""} and set(rows["attributes_missing"]) == {";".join(prompts.ATTRIBUTES)}
    # The correction uses its error, not that of questions that were not asked.
    errors = errors_of(pipeline)
    assert set(errors.loc[errors["measure"] != "classified", "judge"]) == {"true words", "tone by pixels"}
    nothing = tables.make_table([], "dalleval_skin_tone_counts"), tables.make_table([], "dalleval_printed_bias")
    result = dalleval.mad(dalleval.average_gender(averages.reset_index()), *nothing, errors)
    # Without judge error, the judge-corrected value equals the bias-corrected one.
    (row,) = result.to_dict("records")
    assert row["mad_judge_corrected"] == pytest.approx(row["mad_corrected"], abs=0.01)
    # Without a gender judge either, faces have tones.
    bare = measure.social_images(GroundTruthPipeline(images, "a man", "dalleval.vqa", "judging.gender"))
    assert set(bare["status_judge"]) == {"no judge is set"} and set(bare["reason_tone"]) == {""}
    assert (bare["skin_tone"].to_numpy() == images["truth_skin_tone"].to_numpy()).all()


# -- galleries without a pipeline --------------------------------------------------------------------


def test_images_with_boxes_without_pipeline_is_empty(verdicts):
    images, chosen = measure.images_with_boxes(None, "skills", measure.examples(verdicts))
    assert images == [] and chosen.empty and list(chosen) == list(verdicts)
    drawings = measure.render_verdicts(None, verdicts[["image_id", "skill", "text"]])
    assert drawings.empty and "status" in drawings
    for kind, rows in (("skills", verdicts), ("renders", drawings)):
        figure = figures.skill_gallery(*measure.images_with_boxes(None, kind, rows))
        assert not any(ax.axison for ax in figure.axes)


def test_alignment_quality_uses_given_limits():
    shared = "R-precision", 50.0, "higher", 100
    rows = [("a", *shared, 41.0, 59.0), ("b", *shared, None, None), ("b", "FID", 20.0, "lower", 100, None, None)]
    columns = ["model", "metric", "value", "better", "n", "ci_low", "ci_high"]
    result = dalleval.alignment_quality(pd.DataFrame(rows, columns=columns)).set_index(["model", "metric"])
    assert result.loc[("a", "R-precision"), ["ci_low", "ci_high"]].tolist() == [41, 59]
    assert result.loc[("b", "R-precision"), LIMITS].tolist() == pytest.approx(wilson(50, 100))
    assert result["reason"].eq("").tolist() == [True, True, False]
