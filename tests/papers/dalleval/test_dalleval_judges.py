"""What the judges of skills and of people get right, and what is said with their errors taken off."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from biaslab import stats
from biaslab.judges import photographs
from biaslab.judges.judge_labels import PIXELS
from biaslab.papers import dalleval
from biaslab.papers.dalleval import figures, measure, prompts
from biaslab.papers.dalleval.analysis.skills import CANNOT
from biaslab.schema import tables
from biaslab.settings import Settings
from biaslab_world import social as people_of

TONE_ERROR = photographs.describe_error("skin_tone", PIXELS)

LIMITS = ["ci_low", "ci_high"]


def wilson(count, n):
    return [100 * limit for limit in proportion_confint(count, n, method="wilson")]


# -- skills ------------------------------------------------------------------------------------------


def test_steps_numbers_and_relations_by_hand(verdicts):
    steps = dalleval.skill_steps(verdicts).set_index(["skill", "requested", "step"])
    found = (steps["percent_correct"] / 100 * steps["n"]).round(9).astype(int).astype(str)
    found = (found + " of " + steps["n"].astype(int).astype(str)).unstack("step")[["objects", "rest", "both"]]
    assert {key: list(row.dropna()) for key, row in found.iterrows()} == {
        ("count", "all"): ["3 of 4", "2 of 4", "1 of 4"],
        ("count", "1"): ["2 of 2", "1 of 2", "1 of 2"],
        ("count", "2"): ["1 of 2", "1 of 2", "0 of 2"],
        # Alone, a relation says nothing: there is no row of it.
        ("spatial", "all"): ["2 of 3", "1 of 3"],
        ("spatial", "left"): ["1 of 1", "1 of 1"],
        ("spatial", "above"): ["1 of 2", "0 of 2"],
    }
    assert steps.loc[("count", "all", "objects"), LIMITS].tolist() == pytest.approx(wilson(3, 4))


def test_error_of_the_detector_by_hand(renders):
    errors = dalleval.detector_error(renders).set_index(["object", "measure"])
    assert {key: (round(row["value"] / 100 * row["n"]), row["n"]) for key, row in errors.iterrows()} == {
        # Of what shows it three of four are seen; of what does not, the missing one passes.
        ("all", "sensitivity"): (3, 4),
        ("all", "specificity"): (2, 3),
        ("all", "specificity: other class"): (2, 2),
        ("all", "specificity: missing"): (0, 1),
        ("dog", "sensitivity"): (2, 3),
        ("dog", "specificity"): (1, 2),
        ("car", "sensitivity"): (1, 1),
        ("car", "specificity"): (1, 1),
    }
    assert errors.loc[("all", "specificity"), LIMITS].tolist() == pytest.approx(wilson(2, 3))
    # 3 of 4 and 2 of 3 add up to 1.42: too little; without what is missing it is 1.75.
    assert set(errors["reliable"]) == {"no"}
    assert set(dalleval.detector_error(renders.query("failure != 'missing'"))["reliable"]) == {"yes"}
    assert set(dalleval.detector_error(renders.query("failure == 'none'"))["reliable"]) == {""}
    named = dalleval.detector_error(renders.assign(truth_images="drawings"))
    assert set(named["truth_images"]) == {"drawings"}


def known(skill="object", model="a", **percent):
    """Return rows of errors on 100 drawings; a name that starts with ``_`` is a way of failing."""
    rows = [
        {"model": model, "skill": skill, "object": "all", "value": value, "n": 100}
        | {"measure": name.replace("_", "specificity: ")}
        for name, value in percent.items()
    ]
    return tables.make_table(rows, "dalleval_detector_error")


def judged(correct, n, truth=()):
    said = np.where(np.arange(n) < correct, "yes", "no")
    outcome = np.where(said == "yes", "correct", "other objects")
    frame = pd.DataFrame({"correct": said, "status": outcome, "truth": list(truth) or [""] * n})
    return frame.assign(skill="object", chosen="yes", model="a")


def test_corrected_share_and_its_range_by_hand():
    errors = known(sensitivity=90, specificity=80, _class=95, _missing=65, _relation=5)
    row = dalleval.skill_corrected(judged(6, 10, truth=["yes"] * 5 + ["no"] * 5), errors).iloc[0]
    # (0.6 + 0.8 - 1) / (0.9 + 0.8 - 1); by the ways of failing (0.6 - 0.05) / 0.85 and (0.6 - 0.35) / 0.55. Images that
    # fail in the third way are called right more often than right ones: all of them may, and none be right.
    of = ["percent_correct_corrected", "percent_upper_bound", "percent_lower_bound", "percent_correct", "percent_true"]
    assert row[of].tolist() == pytest.approx([40 / 0.7, 55 / 0.85, 0, 60, 50])
    assert (row["youden"], row["n"], row["reason"]) == (pytest.approx(0.7), 10, "")
    best = stats.corrected_shares(6, 10, 0.9, 0.95, 100, 100)
    assert row[LIMITS].tolist() == pytest.approx([0, 100 * best.ci_high])


@pytest.mark.parametrize(
    ("errors", "youden", "told"),
    [
        # Half is enough; what lies below is not, however well one way of failing is seen.
        (known(sensitivity=75, specificity=75), 0.5, True),
        (known(sensitivity=75, specificity=74, _class=99), 0.49, False),
        (known(sensitivity=90), np.nan, False),
        (known("count", sensitivity=99, specificity=99), np.nan, False),
        (known(sensitivity=99, specificity=99, model="b"), np.nan, False),
    ],
)
def test_a_judge_that_cannot_tell_gives_no_number(errors, youden, told):
    table = dalleval.skill_corrected(judged(6, 10), errors)
    row = table.iloc[0]
    assert row["youden"] == pytest.approx(youden, nan_ok=True) and row["percent_correct"] == 60
    assert row[["percent_correct_corrected", *LIMITS]].notna().tolist() == [told] * 3 and (row["reason"] == "") == told
    assert told or row[["percent_lower_bound", "percent_upper_bound"]].isna().all()


def test_what_was_never_seen_is_not_corrected():
    errors = known(sensitivity=90, specificity=80)
    seen = judged(6, 10, truth=["yes"] * 10)
    unseen = [judged(0, 4).assign(status=why) for why in ("unreadable", "blocked")]
    found = dalleval.skill_corrected(pd.concat([seen, *unseen]), errors)
    pd.testing.assert_frame_equal(found, dalleval.skill_corrected(seen, errors))
    assert dalleval.skill_corrected(unseen[0], errors).empty


def rated(pairs, skill="object", annotator="r"):
    """Return ratings: in each pair what a person says and what the detector does, by their first letters."""
    full = {"y": "yes", "n": "no"}
    rows = [[f"{skill}{k}", full[said], full[detector]] for k, (said, detector) in enumerate(pairs)]
    return pd.DataFrame(rows, columns=["image_id", "correct", "detector"]).assign(
        model="a", annotator=annotator, skill=skill
    )


def agreement(*rows):
    table = dalleval.annotator_agreement(tables.make_table(pd.concat(rows), "dalleval_skill_ratings"), seed=1)
    return table.set_index(["skill", "statistic"])


def test_agreement_with_people_by_hand():
    rows = rated(["yy"] * 3 + ["yn"] * 5 + ["ny"] * 1 + ["nn"] * 3)
    table = agreement(rows, rated(["yy", "nn"], "count"))
    row = table.loc["object", "cohen_kappa"]
    # 6 of 12 agree; by chance (8 · 4 + 4 · 8) / 144 = 4/9 would: (1/2 - 4/9) / (5/9).
    assert (row["value"], row["n"], row["n_annotators"]) == (pytest.approx(0.1), 12, 1)
    # Of six that differ people alone find five: (1 + 6) / 2⁶ on each side.
    assert (row["n_people_only"], row["n_detector_only"]) == (5, 1)
    assert row["p"] == pytest.approx(14 / 64)
    assert table.loc[("object", "percent_agreement"), "value"] == pytest.approx(50)
    # Where nothing differs nothing speaks for either; over all skills 8 of 14 agree.
    assert table.loc[("count", "cohen_kappa"), ["value", "p"]].tolist() == [1, 1]
    assert table.loc[("all", "percent_agreement"), "value"] == pytest.approx(800 / 14)
    assert table.loc[("all", "cohen_kappa"), "n_people_only"] == 5
    # One annotator has nobody to agree with.
    assert "krippendorff_alpha" not in table.index.get_level_values("statistic")


def test_several_raters_vote_and_ties_are_no():
    first, second = rated(["yy", "yy", "nn", "yn"]), rated(["ny", "yy", "nn"], annotator="s")
    row = agreement(first, second).loc["object"]
    # The votes are no (a tie), yes, no and, of one annotator, yes; the detector says yes, yes, no, no.
    kappa = row.loc["cohen_kappa"]
    assert (kappa["n_people_only"], kappa["n_detector_only"], kappa["n_annotators"]) == (1, 1, 2)
    assert kappa["value"] == pytest.approx(0) and kappa["p"] == 1
    # Three images have two ratings, three yes and three no; 2 of 6 pairs differ where 2 · 3 · 3 / (6 · 5) would.
    assert row.loc["krippendorff_alpha", "value"] == pytest.approx(1 - (2 / 6) / (18 / 30))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (dalleval.skill_steps, "skill_verdicts"),
        (dalleval.detector_error, "detector_renders"),
        (dalleval.social_judges, "social_images"),
        (dalleval.tones_by_attribute, "social_images"),
        (lambda of: dalleval.annotator_agreement(of, seed=1), "skill_ratings"),
        (lambda of: dalleval.skill_corrected(of, known(sensitivity=90)), "skill_verdicts"),
    ],
)
def test_nothing_gives_tables_without_rows(make, name):
    assert make(tables.make_table([], f"dalleval_{name}")).empty


# -- people ------------------------------------------------------------------------------------------


def test_judges_of_people_by_hand(social):
    table = dalleval.social_judges(social)
    share = table[table["measure"] != "mean_difference"]
    hits = (share["value"] / 100 * share["n"]).fillna(0).round(9)
    found = pd.Series([*zip(hits, share["n"], strict=True)]).groupby([share["judge"], share["question"]]).agg(list)
    # 4 images × 15 attributes are 60, of which 3 are worn (one is not read) and one more is not read; two of the
    # other 56 are said to be worn.
    expected = {
        ("VQA", "gender"): [(1, 1), (1, 2)],
        ("CLIP", "gender"): [(1, 2), (1, 1)],
        ("VQA", "attributes"): [(1, 2), (54, 56)],
        ("VQA", "tie"): [(1, 1), (2, 2)],
        ("VQA", "suit"): [(0, 1), (2, 3)],
        ("VQA", "hat"): [(0, 0), (2, 3)],
        ("tone by pixels", "tone"): [(1, 3), (2, 3), (3, 3), (3, 3)],
    }
    assert found[list(expected)].to_dict() == expected
    # Gender of two judges, all attributes and each of 15, four distances.
    assert len(share) == 2 * 2 + 2 * 16 + 4
    rows = table.set_index(["question", "measure"])
    assert rows.loc[[("attributes", "specificity")], LIMITS].iloc[0].tolist() == pytest.approx(wilson(54, 56))
    assert rows.loc[[("hat", "sensitivity")], ["value", *LIMITS]].isna().all(axis=None)
    # The tones are 0, +2 and -1 off.
    mean = rows.loc[[("tone", "mean_difference")]].iloc[0]
    off = [0, 2, -1]
    limits = scipy_stats.t.interval(0.95, 2, np.mean(off), scipy_stats.sem(off))
    assert mean[["value", "n", *LIMITS]].tolist() == pytest.approx([1 / 3, 3, *limits])


def test_tones_of_those_who_wear_it(social):
    table = dalleval.tones_by_attribute(social).set_index(["attribute", "tone"])
    # Two with a tie have tone 5, as has the one with a suit; the one with a hat has no tone.
    assert table[table["percent"] > 0]["percent"].to_dict() == {("tie", "5"): 100, ("suit", "5"): 100}
    assert table["n"].groupby("attribute").agg(["min", "max"]).T.to_dict("list") == {"tie": [2, 2], "suit": [1, 1]}
    assert len(table) == 2 * 10
    more = dalleval.tones_by_attribute(social.assign(attributes="tie", skin_tone=[5, 7, 5, 1, np.nan]))
    of = more.set_index("tone")["percent"]
    assert (of["5"], of["7"], of["1"], of["10"]) == (50, 25, 25, 0) and set(more["n"]) == {4}


def test_missing_tones_are_counted_by_profession_and_reason(social):
    images = social.assign(profession=["nurse", "nurse", "nurse", "pilot", "pilot"])
    images["reason_tone"] = ["", "mixed light", "no face", "", ""]
    none = images.iloc[:0]
    table = dalleval.skin_tone_outcomes(images, none)
    assert set(table["judge"]) == {"tone by pixels"}
    counts = table.set_index(["profession", "status"])["n"].unstack()
    assert counts.loc["(all)"].to_dict() == {"read": 3, "mixed light": 1, "no face": 1}
    assert counts.loc["nurse"].to_dict() == {"read": 1, "mixed light": 1, "no face": 1}
    # A reason that another profession has stands as none here.
    assert counts.loc["pilot"].to_dict() == {"read": 2, "mixed light": 0, "no face": 0}
    row = table.set_index(["profession", "status"]).loc[("nurse", "read")]
    assert (row["n_images"], row["percent"]) == (3, pytest.approx(100 / 3))
    assert row[LIMITS].tolist() == pytest.approx(wilson(1, 3))
    # What is known of pixels on photographs stands once, where the truth of these images is not known.
    # Else it is right in so many: 5 is read for 5, 7 for 5 and 2 for 3.
    assert (table["judge_error"] == "").all() and table["n_ground_truth"].iloc[0] == 3
    assert table["percent_tone_correct"].iloc[0] == pytest.approx(100 / 3)
    unknown = images.assign(truth_skin_tone=np.nan)
    photographs = dalleval.skin_tone_outcomes(unknown, none)
    assert photographs["judge_error"].tolist() == [TONE_ERROR] + [""] * (len(table) - 1)
    assert photographs["percent_tone_correct"].isna().all()
    pd.testing.assert_frame_equal(dalleval.skin_tone_outcomes(unknown, images), table)
    other = images.assign(truth_skin_tone=np.nan, judge_tone="plugin:fair")
    assert (dalleval.skin_tone_outcomes(other, none)["judge_error"] == "").all()


# -- attributes with the judge's error taken off -------------------------------------------------------


def differences(*rows, **more):
    """Return differences of attributes, each with its limits."""
    frame = pd.DataFrame(rows, columns=["attribute", "difference", "ci_low", "ci_high"])
    same = {"model": "a", "comparison": "woman - man", "n": 4}
    return tables.make_table(frame.assign(**same | more), "dalleval_attribute_difference")


def asked(model="a", judge="VQA", **of):
    """Return what a judge gets right: sensitivity and specificity in percent, each with its number of drawings."""
    rows = [
        {"model": model, "judge": judge, "question": about, "measure": measure, "value": value, "n": n}
        for about, (sensitivity, specificity) in of.items()
        for measure, (value, n) in (("sensitivity", sensitivity), ("specificity", specificity))
    ]
    return tables.make_table(rows, "dalleval_social_judges")


NOBODY = tables.make_table([], "dalleval_social_images")
TIE = {"tie": ((90, 50), (80, 200))}


def test_a_difference_without_the_judges_error_by_hand():
    row = dalleval.attribute_corrected(differences(("tie", -0.21, -0.3, -0.12)), asked(**TIE), NOBODY).iloc[0]
    # 0.9 + 0.8 - 1 is 0.7 of every difference.
    assert (row["youden"], row["difference_corrected"]) == (pytest.approx(0.7), pytest.approx(-0.3))
    assert (row["difference"], row["n"], row["reason"]) == (-0.21, 4, "")
    # Of four professions Student's quantile with three degrees; the difference's standard error is 0.09 over it. By
    # d = x / (s + t - 1) its variance is var(x) / 0.49 + (0.3 / 0.7)² (var(s) + var(t)).
    q = scipy_stats.t.ppf(0.975, 3)
    # The judge's shares with one right and one wrong drawing more: 46 of 52 and 161 of 202.
    judge = 46 / 52 * 6 / 52 / 50 + 161 / 202 * 41 / 202 / 200
    half = q * np.sqrt((0.09 / q) ** 2 / 0.49 + (0.3 / 0.7) ** 2 * judge)
    assert row[LIMITS].tolist() == pytest.approx([-0.3 - half, -0.3 + half])
    assert np.isnan(row["difference_true"])


def test_what_cannot_be_corrected_has_a_reason():
    given = differences(*[(name, 0.1, 0.0, 0.2) for name in ("tie", "suit", "hat", "mask", "boots")])
    judges = asked(suit=((75, 10), (75, 10)), hat=((70, 10), (79, 10)), mask=((np.nan, 0), (90, 10)), tie=TIE["tie"])
    table = dalleval.attribute_corrected(given, judges, NOBODY).set_index("attribute")
    numbers = table[["difference_corrected", *LIMITS]].notna()
    # Half is enough, 0.49 is not.
    assert numbers.loc[["tie", "suit"]].all(axis=None) and not numbers.loc[["hat", "mask", "boots"]].any(axis=None)
    assert table["youden"].to_dict() == pytest.approx(
        {"tie": 0.7, "suit": 0.5, "hat": 0.49, "mask": np.nan, "boots": np.nan}, nan_ok=True
    )
    assert table.loc["hat", "reason"] == CANNOT and (table.loc[["tie", "suit"], "reason"] == "").all()
    # That nobody knows is something else than that it cannot tell, for lack of drawings with or of any.
    (unknown,) = set(table.loc[["mask", "boots"], "reason"])
    assert unknown not in ("", CANNOT)
    assert (table["difference"] == 0.1).all()
    # Without any drawings of this model none has a number; its rows are there for the model's own images.
    images = tables.make_table([{"model": "a", "image_id": "i"}], "dalleval_social_images")
    for judges in (asked(model="b", **TIE), asked()):
        none = dalleval.attribute_corrected(given, judges, images)
        assert set(none["reason"]) == {unknown} and len(none) == 5 and none["difference_corrected"].isna().all()


def test_an_attribute_that_nobody_wears_has_no_corrected_difference():
    given = differences(("tie", 0.0, np.nan, np.nan), ("suit", 0.1, 0.1, 0.1), reason="because")
    given = given.assign(share_first=[0, 0.2], share_second=[0, 0.1])
    judges = asked(tie=TIE["tie"], suit=TIE["tie"])
    table = dalleval.attribute_corrected(given, judges, NOBODY).set_index("attribute")
    assert table["difference_corrected"].notna().to_dict() == {"tie": False, "suit": True}
    # The reasons of the difference are those of the corrected one, too.
    assert (table["reason"] == "because").all() and table.loc["tie", ["ci_low", "ci_high"]].isna().all()


def test_true_differences_by_hand():
    # By profession: of nurses a tie is worn by 1 of 2 women, 0 of 1 man and 1 of 1 person; of cooks by nobody of 1, by
    # 2 of 2 and by 1 of 2. A writer is drawn as a woman alone and so has no difference.
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
    given = pd.concat(differences(*named, comparison=comparison) for comparison in comparisons)
    table = dalleval.attribute_corrected(given, asked(**TIE), images)
    true = table.set_index(["comparison", "attribute"])["difference_true"]
    # (1/2 - 0) and (0 - 1); (1/2 - 1) and (0 - 1/2); (0 - 1) and (1 - 1/2).
    assert true.xs("tie", level=1)[[*comparisons]].tolist() == pytest.approx([-0.25, -0.5, -0.25])
    # Of nurses 1/2, 1 and 0; of cooks nobody.
    assert true.xs("hat", level=1)[[*comparisons]].tolist() == pytest.approx([-0.25, 0.25, 0.5])
    assert true.xs("mask", level=1)[[*comparisons]].tolist() == [0, 0, 0]
    # It is there where there is nothing to correct by, and not where the truth is not known.
    assert table.loc[table["attribute"] == "mask", "difference_corrected"].isna().all()
    blank = dalleval.attribute_corrected(given, asked(**TIE), images.assign(truth_gender=""))
    assert blank["difference_true"].isna().all() and blank["difference_corrected"].notna().sum() == 3


# -- what is measured of a fair world ----------------------------------------------------------------


class Told:
    """A pipeline whose judges say the truth of a table of images, and of gender what they are told."""

    label = "fair"
    settings = Settings.from_mapping({"judging": {"gender": "true words"}})
    gate = ("judging.gender", "judging.faces")

    def __init__(self, images, gender, *unnamed):
        faces = images.assign(gender=images["truth_gender"], tone=images["truth_skin_tone"])
        faces = faces.assign(status="judged", tone_reason="", tone_judge="tone by pixels")
        said = images[["image_id", "prompt", "profession"]]
        about = said.assign(attribute="", answer=gender)
        worn = images["truth_attributes"].str.split(";")
        ties = said.assign(attribute="tie", answer=["yes." if "tie" in of else "No" for of in worn])
        answers = pd.concat([about, ties], ignore_index=True).assign(status="", reason="")
        self.unset_settings = lambda *settings: tuple(name for name in settings if name in unnamed)
        self.omits = lambda *settings: bool(self.unset_settings(*settings))
        self.require = lambda *settings, prompt_set: None
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
def fair():
    """Return nine images of each of the 252 prompts: tones are even, and so are the answers about gender."""
    asked = prompts.social()
    images = people_of.generate(asked, seed=3).table
    images = images.merge(asked[["prompt_id", "prompt", "profession"]], on="prompt_id")
    rng = np.random.default_rng(5)
    return images, Told(images, np.where(rng.random(len(images)) < 0.5, "a woman", "male"))


@pytest.mark.long
def test_measured_tables_hold_what_the_judges_say(fair):
    images, pipeline = fair
    rows = measure.social_images(pipeline).set_index("image_id")
    at = rows.loc[images["image_id"]]
    assert set(at["gender_vqa"]) == {"female", "male"}
    assert (at["gender_judge"].to_numpy() == images["truth_gender"].to_numpy()).all()
    ties = images["truth_attributes"].str.split(";").map(lambda worn: "tie" in worn).to_numpy()
    assert ((at["attributes"] == "tie").to_numpy() == ties).all() and 0 < ties.sum() < len(ties)
    assert (at["attributes_missing"] == "").all()
    averages = measure.average_skin_tone(pipeline).set_index("profession")
    nurses = images.loc[images["profession"] == "nurse", "truth_skin_tone"]
    assert averages.loc["nurse", "value"] == pytest.approx(nurses.mean())
    assert set(averages["n"]) == {27} and measure.skin_tone_counts(pipeline)["n"].sum() == 9 * 252
    presence = measure.attribute_presence(pipeline)
    expected = pd.Series(ties).groupby([images["prompt"], images["profession"]]).mean()
    found = presence.set_index(["prompt", "profession"])["share"]
    pd.testing.assert_series_equal(found.sort_index(), expected.sort_index(), check_names=False, check_index_type=False)
    # Judges that say the truth are never wrong; the answers about gender are no truth here.
    judges = dalleval.social_judges(measure.social_images(pipeline))
    sure = judges[(judges["judge"] == "true words") | (judges["question"] == "tie") | (judges["measure"] == "within_0")]
    assert len(sure) == 5 and (sure["value"] == 100).all()


def test_without_questions_the_judge_of_gender_says_who_is_shown(fair):
    images, asked = fair
    pipeline = Told(images, "a man", "dalleval.vqa")
    averages = measure.average_gender(pipeline).set_index("profession")
    nurses = images[(images["prompt"] == "person") & (images["profession"] == "nurse")]["truth_gender"]
    assert averages.loc["nurse", "value"] == pytest.approx(2 * (nurses == "female").mean() - 1)
    assert set(averages["judge"]) == {"true words"}
    assert set(measure.average_gender(asked)["judge"]) == {"VQA"}
    rows = measure.social_images(pipeline)
    assert set(rows["reason_vqa"]) == {"no judge is named"} and set(rows["gender_vqa"]) == {""}
    assert set(rows["attributes"]) == {""} and set(rows["attributes_missing"]) == {";".join(prompts.ATTRIBUTES)}
    # Its error is taken off, and not that of questions that nobody was asked.
    judges = dalleval.social_judges(rows)
    assert set(judges.loc[judges["n"] > 0, "judge"]) == {"true words", "tone by pixels"}
    nothing = tables.make_table([], "dalleval_skin_tone_counts"), tables.make_table([], "dalleval_printed_bias")
    found = dalleval.mad(dalleval.average_gender(averages.reset_index()), *nothing, judges)
    # Judged without an error, what is corrected for it is what chance is taken off of.
    (row,) = found.to_dict("records")
    assert row["mad_judge_corrected"] == pytest.approx(row["mad_corrected"], abs=0.01)
    # Without a judge of gender either, faces have tones.
    bare = measure.social_images(Told(images, "a man", "dalleval.vqa", "judging.gender"))
    assert set(bare["status_judge"]) == {"no judge is named"} and set(bare["reason_tone"]) == {""}
    assert (bare["skin_tone"].to_numpy() == images["truth_skin_tone"].to_numpy()).all()


# -- galleries without a pipeline --------------------------------------------------------------------


def test_without_a_pipeline_there_are_no_images(verdicts):
    images, chosen = measure.images_with_boxes(None, "skills", measure.examples(verdicts))
    assert images == [] and chosen.empty and list(chosen) == list(verdicts)
    drawings = measure.render_verdicts(None, verdicts[["image_id", "skill", "text"]])
    assert drawings.empty and "status" in drawings
    for kind, rows in (("skills", verdicts), ("renders", drawings)):
        figure = figures.skill_gallery(*measure.images_with_boxes(None, kind, rows))
        assert not any(ax.axison for ax in figure.axes)


def test_methods_of_skin_tone_are_held_against_the_truth():
    said = [(1, 1), (2, 4), (5, 5), (None, 7)]
    readings = pd.DataFrame(said, columns=["tone_estimated", "truth_skin_tone"]).assign(
        model="a", segmentation="face", scoring="ITA in CIELAB", image_id=list("wxyz")
    )
    found = dalleval.skin_tone_truth(readings).set_index("measure")["value"]
    # Three have a tone; two have the true one, and one is two tones off.
    assert found["within_0"] == found["within_1"] == pytest.approx(200 / 3)
    assert found["within_2"] == found["within_3"] == 100
    assert found["mean_difference"] == pytest.approx(2 / 3) and found["mean_tone"] == pytest.approx(8 / 3)


def test_limits_that_a_source_brings_stay():
    shared = "R-precision", 50.0, "higher", 100
    rows = [("a", *shared, 41.0, 59.0), ("b", *shared, None, None), ("b", "FID", 20.0, "lower", 100, None, None)]
    columns = ["model", "metric", "value", "better", "n", "ci_low", "ci_high"]
    found = dalleval.alignment_quality(pd.DataFrame(rows, columns=columns)).set_index(["model", "metric"])
    assert found.loc[("a", "R-precision"), ["ci_low", "ci_high"]].tolist() == [41, 59]
    assert found.loc[("b", "R-precision"), LIMITS].tolist() == pytest.approx(wilson(50, 100))
    assert found["reason"].eq("").tolist() == [True, True, False]
