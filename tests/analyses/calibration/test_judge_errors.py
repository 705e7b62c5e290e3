"""Errors of judges by hand and by other libraries, and corrected results by formula."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from biaslab import stats
from biaslab.analyses import calibration
from biaslab.analyses.calibration.analysis import ALL, DOMINATES, MALE_MINUS_FEMALE, NOT_JUDGED, UNKNOWN, UNRELIABLE
from biaslab.metrics.similarity import DEPENDENCY_GROUPS
from biaslab.schema import tables

LIMITS = ["ci_low", "ci_high"]


def wilson(count, n):
    return [100 * limit for limit in proportion_confint(count, n, method="wilson")]


def confusion(*rows, columns=("truth", "answer"), **same):
    """Return a confusion; each row is a separate image unless a column identifies images."""
    frame = pd.DataFrame(rows, columns=list(columns))
    base = {"model": "m", "judge": "j", "reference": "drawings", "n": 1}
    base |= {"image_id": [f"i{k}" for k in range(len(frame))]}
    frame = frame.assign(**{name: value for name, value in (base | same).items() if name not in frame})
    return tables.make_table(frame, "triplets_confusion")


def errors_of(answers, *keys, **options):
    return calibration.error(answers, paper="p", **options).set_index([*keys, "measure"]).sort_index()


def counts(errors):
    """Return the number of correct answers and the total, by index."""
    hits = (errors["value"] / 100 * errors["n"]).round(9)
    return dict(zip(errors.index, zip(hits, errors["n"], strict=True), strict=True))


# -- errors ----------------------------------------------------------------------------------------------


def test_confusion_sums_answers_over_images():
    answers = confusion(("yes", "yes"), ("yes", "yes"), ("no", "yes"), quantity="skill: object", subject="dog")
    result = calibration.confusion(answers, paper="p")
    assert result[["paper", "subject", "truth", "answer", "n"]].to_numpy().tolist() == [
        ["p", "dog", "yes", "yes", 2],
        ["p", "dog", "no", "yes", 1],
    ]


SKILL = [
    *[("dog", "", "yes", "yes"), ("dog", "", "yes", "yes"), ("dog", "", "yes", "no"), ("car", "", "yes", "yes")],
    *[("dog", "other class", "no", "no"), ("dog", "missing", "no", "yes"), ("car", "other class", "no", "no")],
]


def of_skill(rows=SKILL):
    columns = ("subject", "condition", "truth", "answer")
    return confusion(*rows, columns=columns, quantity="skill: object")


def test_error_of_detector_by_class_and_failure():
    errors = errors_of(of_skill(), "subject", "condition")
    result = counts(errors)
    expected = {
        # Three of four images that match their prompt are judged correct; of the failures, the missing one passes.
        ("all", "all", "sensitivity"): (3, 4),
        ("all", "all", "specificity"): (2, 3),
        ("all", "other class", "specificity"): (2, 2),
        ("all", "missing", "specificity"): (0, 1),
        ("dog", "all", "sensitivity"): (2, 3),
        ("dog", "all", "specificity"): (1, 2),
        ("dog", "missing", "specificity"): (0, 1),
        ("car", "all", "sensitivity"): (1, 1),
        ("all", "all", "classified"): (7, 7),
    }
    assert {key: result[key] for key in expected} == expected
    # No image that fails in a way matches its prompt.
    assert ("all", "missing", "sensitivity") not in result
    assert errors.loc[("all", "all", "specificity"), LIMITS].tolist() == pytest.approx(wilson(2, 3))


def test_error_youden_of_half_is_reliable():
    youden = errors_of(of_skill(), "subject", "condition").loc[("all", "all", "youden")]
    # 3 of 4 and 2 of 3 add up to 1.42: too little; without what is missing it is 1.75.
    assert youden["value"] == pytest.approx(75 + 200 / 3 - 100) and youden["reliable"] == "no"
    assert (youden["n"], youden["n_images"]) == (7, 7)
    # The difference of sensitivity and the share of false positives, by Newcombe's formula.
    false, (low, high) = 100 / 3, wilson(1, 3)
    below, above = wilson(3, 4)
    limits = 75 - false - np.hypot(75 - below, high - false), 75 - false + np.hypot(above - 75, false - low)
    assert youden[LIMITS].tolist() == pytest.approx(limits)
    rest = [row for row in SKILL if row[1] != "missing"]
    assert errors_of(of_skill(rest), "subject", "condition").loc[("all", "all", "youden"), "reliable"] == "yes"
    shown = [row for row in SKILL if row[2] == "yes"]
    assert "youden" not in set(errors_of(of_skill(shown)).index)


# Image, truth, occupation, label by the judge. Nurses: 4 women (3 judged, 2 of them right, 1 without a face), 2 men
# (both judged, 1 right). Pilots: 3 men (2 judged, both right, 1 uncertain), 1 image without a person (judged male).
PEOPLE = [
    ("a", "female", "nurse", "female"),
    ("b", "female", "nurse", "female"),
    ("c", "female", "nurse", "male"),
    ("d", "female", "nurse", "no_face"),
    ("e", "male", "nurse", "male"),
    ("f", "male", "nurse", "female"),
    ("g", "male", "pilot", "male"),
    ("h", "male", "pilot", "male"),
    ("i", "male", "pilot", "uncertain"),
    ("j", "", "pilot", "male"),
]


@pytest.fixture
def people():
    """Return judgements and the ground truth of images."""
    ids, truth, occupation, label = map(list, zip(*PEOPLE, strict=True))
    judged = pd.Series(label).isin(("female", "male"))
    columns = {"status": pd.Series(label).mask(judged, "judged"), "gender": pd.Series(label).where(judged, "")}
    return pd.DataFrame({"image_id": ids, "occupation": occupation, **columns}), pd.Series(truth, index=ids)


def gender_errors(judgements, truth, source="training"):
    return errors_of(calibration.gender_confusion({source: judgements}, {"truth": truth}), "subject")


def test_gender_confusion_errors_by_occupation(people):
    errors = gender_errors(*people)
    result = counts(errors)
    expected = {
        ("nurse", "sensitivity"): (2, 3),
        ("nurse", "specificity"): (1, 2),
        ("nurse", "classified_female"): (3, 4),
        ("pilot", "classified_male"): (2, 3),
        ("pilot", "classified_neither"): (1, 1),
        ("all", "sensitivity"): (2, 3),
        ("all", "specificity"): (3, 4),
        ("all", "accuracy"): (5, 7),
        ("all", "classified_male"): (4, 5),
        ("all", "classified"): (7, 9),
    }
    assert {key: result[key] for key in expected} == expected
    assert errors.loc[("all", "specificity"), LIMITS].tolist() == pytest.approx(wilson(3, 4))
    # No pilot is a woman by the reference.
    assert ("pilot", "sensitivity") not in result
    rows = calibration.gender_confusion({"training": people[0]}, {"truth": people[1]})
    table = calibration.confusion(rows, paper="p").set_index(["subject", "truth", "answer"])["n"]
    assert [table["nurse", "female", label] for label in ("female", "male", "no_face")] == [2, 1, 1]
    assert table["pilot", "neither", "male"] == 1 and [table[of].sum() for of in ("", "nurse")] == [10, 6]


def test_gender_confusion_counts_images_with_truth_once(people):
    judgements, truth = people
    result = gender_errors(judgements, truth.drop(["c", "f"]))["n"]
    assert result["nurse", "sensitivity"] == 2 and result["nurse", "specificity"] == 1
    assert gender_errors(judgements, truth[:0]).empty
    twice = pd.concat([judgements, judgements[:1].assign(occupation="pilot")], ignore_index=True)
    result = gender_errors(twice, truth)["n"]
    assert [result[subject, "sensitivity"] for subject in ("all", "nurse", "pilot")] == [3, 3, 1]


def test_error_of_several_people_clusters_by_image():
    # Two people in each of eight images; in six both are judged right, in two neither.
    rows = [(f"i{k}", "female", "female" if k < 6 else "male") for k in range(8) for _ in range(2)]
    answers = pd.DataFrame(rows, columns=["image_id", "truth", "answer"])
    answers = answers.groupby(["image_id", "truth", "answer"]).size().rename("n").reset_index()
    table = confusion(*answers.to_numpy().tolist(), columns=answers.columns, quantity="gender")
    row = errors_of(table).loc["sensitivity"]
    assert (row["value"], row["n"], row["n_images"]) == (75, 16, 8)
    share = stats.clustered_share([2] * 6 + [0] * 2, [2] * 8)
    assert row[LIMITS].tolist() == pytest.approx([100 * share.ci_low, 100 * share.ci_high])
    assert row["ci_low"] < wilson(12, 16)[0]


def test_error_of_scale_answers_by_tolerance():
    answers = confusion(("5", "5"), ("5", "7"), ("3", "2"), ("7", "no tone"), quantity="skin tone")
    errors = errors_of(answers)
    result = counts(errors[errors.index.str.startswith(("within", "classified"))])
    assert result == {
        "classified": (3, 4),
        "within_0": (1, 3),
        "within_1": (2, 3),
        "within_2": (3, 3),
        "within_3": (3, 3),
    }
    # The answers are 0, +2 and -1 off.
    deviations = [0, 2, -1]
    mean = errors.loc["mean_error"]
    limits = scipy_stats.t.interval(0.95, 2, np.mean(deviations), scipy_stats.sem(deviations))
    assert mean[["value", "n", *LIMITS]].tolist() == pytest.approx([1 / 3, 3, *limits])
    assert errors.loc["mean_difference", "value"] == 1
    assert set(errors_of(confusion(("5", "no tone"), quantity="number")).index) == {"classified"}


def objects(*rows):
    """Return a confusion of objects: image, object, gender shown, truth, answer, n, overlap of masks."""
    columns = ("image_id", "subject", "condition", "truth", "answer", "n", "iou")
    whole = confusion(*rows, columns=columns, quantity="objects")
    is_person = whole["subject"] == "person"
    return whole.assign(quantity=whole["quantity"].mask(is_person, "people"))


def test_error_of_objects_by_hand():
    answers = objects(
        ("a", "cup", "female", "yes", "yes", 1, 0.6),
        ("a", "cup", "female", "no", "yes", 1, np.nan),
        ("b", "cup", "female", "yes", "no", 2, np.nan),
        ("c", "cup", "male", "yes", "yes", 2, 0.9),
        ("c", "person", "male", "yes", "no", 1, np.nan),
    )
    errors = errors_of(answers, "quantity", "subject", "condition")
    # 3 of 4 detected cups are present; 3 of 5 present ones are detected; separately for women and men.
    assert errors.loc[("objects", "cup", "all", "precision"), ["value", "n", "n_images"]].tolist() == [75, 4, 2]
    assert errors.loc[("objects", "cup", "all", "recall"), "value"] == pytest.approx(60)
    assert errors.loc[("objects", "cup", "female", "recall"), "value"] == pytest.approx(100 / 3)
    assert errors.loc[("objects", "cup", "male", "recall"), "value"] == 100
    # Means of images: 0.6 and 0.9.
    assert errors.loc[("objects", "cup", "all", "mask_iou"), "value"] == pytest.approx(75)
    # People are not among all objects.
    assert errors.loc[("objects", "all", "all", "recall"), "n"] == 5
    assert errors.loc[("people", "person", "all", "recall"), ["value", "n"]].tolist() == [0, 1]
    difference = errors.loc[("objects", "cup", MALE_MINUS_FEMALE, "recall_difference")]
    assert difference["value"] == pytest.approx(200 / 3) and difference["n"] == 5
    assert calibration.error(objects(), paper="p").empty


def test_recall_difference_p_matches_interval():
    rng = np.random.default_rng(3)
    rates = {f"o{k}": (0.5, 0.5 + 0.05 * k) for k in range(8)} | {"person": (0.5, 0.9)}
    answers = objects(
        *(
            (f"i{k}", name, ("female", "male")[k % 2], "yes", "yes" if rng.random() < by[k % 2] else "no", 1, np.nan)
            for name, by in rates.items()
            for k in range(80)
        )
    )
    for confidence in (0.8, 0.95, 0.99):
        errors = calibration.error(answers, paper="p", confidence=confidence)
        result = errors[errors["measure"] == "recall_difference"]
        excludes = (result["ci_low"] > 0) | (result["ci_high"] < 0)
        assert 1 <= excludes.sum() <= len(result) and ((result["p"] < 1 - confidence) == excludes).all()
        single = result[result["subject"] != ALL]
        assert len(single) == 9
        assert single["p_holm"].to_numpy() == pytest.approx(stats.adjust(single["p"]))
    whole = result[(result["subject"] == ALL) & (result["quantity"] == "objects")].iloc[0]
    assert whole["p_holm"] == whole["p"] and whole["n_images"] == 80


def test_error_of_dependency_groups_matches_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the other way")
    rng = np.random.default_rng(3)
    names = [*DEPENDENCY_GROUPS, ""]
    numbers = rng.integers(0, 30, (6, 6)) + 40 * np.eye(6, dtype=int)
    numbers[5, 5] = 0
    rows = [(names[i], names[j]) for i, j in itertools.product(range(6), repeat=2) for _ in range(numbers[i, j])]
    table = confusion(*rows, quantity="dependency group")
    result = errors_of(table, "subject")
    scores = metrics.precision_recall_fscore_support(*zip(*rows, strict=True), labels=list(DEPENDENCY_GROUPS))
    for k, group in enumerate(DEPENDENCY_GROUPS):
        for measure, values in zip(("precision", "recall", "f1"), scores[:3], strict=True):
            assert result.loc[(group, measure), "value"] == pytest.approx(100 * values[k])
        both, n = numbers[k, k], int(result.loc[(group, "recall"), "n"])
        assert n == numbers[k].sum()
        # Each object is in a separate image.
        assert result.loc[(group, "recall"), LIMITS].tolist() == pytest.approx(wilson(both, n))
    mean = result.loc[("all", "f1")]
    assert mean["value"] == pytest.approx(100 * scores[2].mean()) and mean["n"] == numbers.sum()
    assert mean["ci_low"] < mean["value"] < mean["ci_high"]
    # A group that is neither planted nor measured has no score, and is no part of the mean.
    some = table[(table["truth"] != "hidden") & (table["answer"] != "hidden")]
    assert "hidden" not in errors_of(some, "subject").index


# -- corrections -----------------------------------------------------------------------------------------


def error_rates(quantity="gender", *, model="m", reference="drawings", **rates):
    """Return errors by subject, or of all by condition where a name begins with ``_``.

    Values are sensitivity, its n, specificity and its n; ``None`` is not known.
    """
    base = {"paper": "p", "model": model, "judge": "j", "reference": reference, "quantity": quantity}
    rows = []
    for name, (sensitivity, n, specificity, m) in rates.items():
        at = {"subject": ALL, "condition": name[1:]} if name.startswith("_") else {"subject": name, "condition": ALL}
        for measure, value, size in (("sensitivity", sensitivity, n), ("specificity", specificity, m)):
            if value is not None:
                rows.append(base | at | {"measure": measure, "value": value, "n": size})
    return tables.make_table(rows, "calibration_error")


def corrected(estimates, errors, **options):
    """Return corrected estimates by subject; estimates are rows of subject, estimate, n and further columns."""
    frame = pd.DataFrame(estimates).assign(model="m", condition="")
    if "quantity" not in frame:
        frame["quantity"] = "gender"
    return calibration.corrected(frame, errors, paper="p", **options).set_index("subject")


def share(percent=40.0, n=200, subject="", **more):
    return {"subject": subject, "estimate": percent, "n": n} | more


def test_corrected_share_and_bounds_by_hand():
    errors = error_rates(
        all=(90, 100, 80, 100), _class=(None, 0, 95, 100), _missing=(None, 0, 65, 100), _relation=(None, 0, 5, 100)
    )
    row = corrected([share(60, 10, estimate_true=50)], errors).iloc[0]
    # (0.6 + 0.8 - 1) / (0.9 + 0.8 - 1); by the ways of failing (0.6 - 0.05) / 0.85 and (0.6 - 0.35) / 0.55. Images that
    # fail in the third way are called right more often than right ones: all of them may, and none be right.
    columns = ["estimate_corrected", "estimate_upper_bound", "estimate_lower_bound", "estimate", "estimate_true"]
    assert row[columns].tolist() == pytest.approx([40 / 0.7, 55 / 0.85, 0, 60, 50])
    assert (row["sensitivity"], row["specificity"], row["n"], row["reason"]) == (90, 80, 10, "")
    best = stats.corrected_shares(6, 10, 0.9, 0.95, 100, 100)
    assert row[LIMITS].tolist() == pytest.approx([0, 100 * best.ci_high])


@pytest.mark.parametrize(
    ("errors", "estimate", "reason"),
    [
        # One half is sufficient; less is not, however well one kind of failure is discriminated.
        (error_rates(all=(75, 100, 75, 100)), share(60), ""),
        (error_rates(all=(75, 100, 74, 100), _class=(None, 0, 99, 100)), share(60), UNRELIABLE),
        (error_rates(all=(90, 100, None, 0)), share(60), UNKNOWN),
        (error_rates("attribute", all=(99, 100, 99, 100)), share(60), UNKNOWN),
        (error_rates(model="b", all=(99, 100, 99, 100)), share(60), UNKNOWN),
        (error_rates(reference="simulated", all=(99, 100, 99, 100)), share(60), UNKNOWN),
        (error_rates(all=(95, 400, 90, 400)), share(np.nan, 0), NOT_JUDGED),
        # 12% as judged are 2.35%.
        (error_rates(all=(95, 400, 90, 400)), share(12), DOMINATES),
    ],
)
def test_corrected_reason_by_error_and_estimate(errors, estimate, reason):
    row = corrected([estimate], errors).iloc[0]
    assert row["reason"] == reason
    assert row[["estimate_corrected", *LIMITS]].notna().tolist() == [reason in ("", DOMINATES)] * 3
    assert row["estimate"] == pytest.approx(estimate["estimate"], nan_ok=True)


def test_corrected_uses_first_reference():
    both = [
        error_rates(all=(100, 50, 100, 50), reference="truth"),
        error_rates(all=(75, 50, 75, 50), reference="annotations"),
    ]
    row = corrected([share(40)], pd.concat(both)).iloc[0]
    assert row["reference"] == "truth" and row["estimate_corrected"] == pytest.approx(40)


def test_corrected_pools_errors_of_small_subjects():
    errors = error_rates(all=(95, 400, 90, 400), nurse=(100, 30, 100, 30), pilot=(100, 300, 100, 29))
    result = corrected([share(subject=name) for name in ("nurse", "pilot", "baker")], errors, pool=True)
    assert result["subject_of_error"].to_dict() == {"nurse": "nurse", "pilot": "all", "baker": "all"}
    assert result.loc["nurse", "estimate_corrected"] == pytest.approx(40)
    # Rogan and Gladen: (0.40 + 0.90 - 1) / (0.95 + 0.90 - 1) = 0.3 / 0.85.
    assert result.loc["baker", "estimate_corrected"] == pytest.approx(100 * 0.3 / 0.85)
    assert (result["ci_low"] < result["estimate_corrected"]).all() and (result["reason"] == "").all()
    assert (result["estimate_corrected"] < result["ci_high"]).all()
    # Without pooling each has its own errors, or none.
    alone = corrected([share(subject=name) for name in ("pilot", "baker")], errors)
    assert alone["estimate_corrected"].round(9).tolist()[0] == 40 and alone.loc["baker", "reason"] == UNKNOWN


def test_corrected_pooled_errors_widen_interval():
    # Sensitivity 1 and 0.6 of 50 women each, 0.8 over all. By hand: (4 - 0.16) / 50 = 0.0768 between subjects, so that
    # 1.5 * 0.0768 = 0.1152 is added for another one. A share of (0.5 - 0.1) / 0.7 = 4 / 7 varies by 4 / 7 of its root
    # over 0.7.
    errors = error_rates(all=(80, 100, 90, 100), nurse=(100, 50, 90, 50), pilot=(60, 50, 90, 50))
    result = corrected([share(50, 100, subject) for subject in ("nurse", "baker")], errors, pool=True)
    limits = result[LIMITS] / 100
    nurse, baker = (stats.corrected_shares(50, 100, *rates) for rates in ((1, 0.9, 50, 50), (0.8, 0.9, 100, 100)))
    assert limits.loc["nurse"].tolist() == pytest.approx([nurse.ci_low, nurse.ci_high])
    more = scipy_stats.norm.ppf(0.975) * 4 / 7 * np.sqrt(0.1152) / 0.7
    wide = np.hypot([4 / 7 - baker.ci_low, baker.ci_high - 4 / 7], more)
    assert limits.loc["baker"].tolist() == pytest.approx([max(4 / 7 - wide[0], 0), min(4 / 7 + wide[1], 1)])
    assert result.loc["baker", ["subject_of_error", "n_sensitivity"]].tolist() == ["all", 100]


def test_corrected_difference_by_hand():
    errors = error_rates("attribute", tie=(90, 50, 80, 200))
    row = corrected([share(-21, 4, "tie", quantity="attribute", ci_low=-30, ci_high=-12)], errors).iloc[0]
    # 0.9 + 0.8 - 1 is 0.7 of every difference.
    assert (row["estimate"], row["n"], row["reason"]) == (-21, 4, "")
    assert row["estimate_corrected"] == pytest.approx(-30)
    # Of four professions Student's quantile with three degrees; the difference's standard error is 9 over it. By
    # d = x / (s + t - 1) its variance is var(x) / 0.49 + (30 / 0.7)² (var(s) + var(t)).
    q = scipy_stats.t.ppf(0.975, 3)
    # The judge's shares with one right and one wrong drawing more: 46 of 52 and 161 of 202.
    judge = 46 / 52 * 6 / 52 / 50 + 161 / 202 * 41 / 202 / 200
    half = q * np.sqrt((9 / q) ** 2 / 0.49 + (30 / 0.7) ** 2 * judge)
    assert row[LIMITS].tolist() == pytest.approx([-30 - half, -30 + half])
    # A difference without limits is corrected and keeps no limits.
    bare = corrected([share(7, 4, "tie", quantity="attribute", ci_low=np.nan, ci_high=np.nan)], errors).iloc[0]
    assert bare["estimate_corrected"] == pytest.approx(10) and bare[LIMITS].isna().all()


# -- answers -----------------------------------------------------------------------------------------------


def test_reliable_answer_states_youden_and_rates():
    (result,) = calibration.answers.reliable.findings(calibration.error(of_skill(), paper="p"))
    assert result.answer == "No." and result.n == 7
    assert result.question == "Is Youden's index of j at least 50% (skill: object recognition; reference: drawings)?"
    assert [text.split(" (")[0] for text in result.details[:2]] == ["Sensitivity: 75.0%", "Specificity: 66.7%"]


def test_recall_difference_answer_names_gender():
    rows = [(f"i{k}", "cup", ("female", "male")[k % 2], "yes", ("no", "yes")[k % 2], 1, np.nan) for k in range(80)]
    (result,) = calibration.answers.recall_difference.findings(calibration.error(objects(*rows), paper="p"))
    assert result.supported_answer == "Higher in images of men." and result.estimate == 100
    assert "Recall (female): 0.00%." in result.details


def test_skills_answer_states_bounds_and_ground_truth():
    row = {"paper": "p", "model": "a", "quantity": "skill: object", "estimate": 60, "estimate_corrected": 57.1}
    row |= {"ci_low": 30, "ci_high": 85, "estimate_lower_bound": 45.5, "estimate_upper_bound": 64.7}
    row |= {"estimate_true": 50.2, "n": 10}
    blind = {"paper": "p", "model": "a", "quantity": "skill: average", "estimate": 41, "reason": UNRELIABLE}
    rows = [row, row | {"quantity": "skill: spatial", "estimate_true": np.nan}, blind]
    rows += [row | {"quantity": "skill: count", "reason": DOMINATES}, blind | {"model": "b", "reason": UNKNOWN}]
    result = calibration.answers.skills.findings(tables.make_table(rows, "calibration_corrected"))
    shown, unshown, unreliable, dominated, unknown = result
    assert (shown.estimate, shown.ci_low, shown.ci_high, shown.n) == (57.1, 30, 85, 10)
    assert shown.supported_answer == "57.1% (uncorrected: 60.0%)."
    assert shown.question.endswith("(skill: object recognition)?")
    limits = "Range if all failing images failed in the same way: 45.5 to 64.7%."
    assert shown.details == (limits, "Ground truth of these images: 50.2%.")
    assert len(unshown.details) == 1
    # A judge with too frequent errors, or a dominating correction, leaves no number to be ranked by.
    assert unreliable.supported_answer == dominated.supported_answer == "Inconclusive."
    assert np.isnan(dominated.estimate) and "41.0%" in unreliable.details[0] and DOMINATES in dominated.details[0]
    assert unknown.supported_answer == "Not measured."
