"""The judge against a reference: counts by hand, and shares corrected as by the formula."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from biaslab import stats
from biaslab.judges.error import by_source, confusion, correct, correct_by_source, judge_error
from biaslab.schema import tables

# Image, truth, occupation, what the judge said. Nurses: 4 women (3 judged, 2 of them right, 1 without a face), 2 men
# (both judged, 1 right). Pilots: 3 men (2 judged, both right, 1 uncertain), 1 image without a person (judged male).
ROWS = [
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
def rows():
    ids, truth, group, said = map(list, zip(*ROWS, strict=True))
    judged = pd.Series(said).isin(("female", "male"))
    columns = {"status": pd.Series(said).mask(judged, "judged"), "gender": pd.Series(said).where(judged, "")}
    return pd.DataFrame({"image_id": ids, "occupation": group, **columns}), pd.Series(truth, index=ids)


def test_sensitivity_and_specificity_by_hand(rows):
    found = judge_error(*rows).set_index(["group", "measure"])
    shares = {
        ("nurse", "sensitivity"): (2, 3),
        ("nurse", "specificity"): (1, 2),
        ("nurse", "judged_female"): (3, 4),
        ("pilot", "judged_male"): (2, 3),
        ("pilot", "judged_neither"): (1, 1),
        ("all", "sensitivity"): (2, 3),
        ("all", "specificity"): (3, 4),
        ("all", "judged_male"): (4, 5),
    }
    for key, (count, n) in shares.items():
        assert found.loc[key, "value"] == pytest.approx(100 * count / n), key
        assert found.loc[key, "n"] == n, key
    counts = confusion(*rows).set_index(["group", "truth", "judged"])["n"]
    assert [counts[("nurse", "female", said)] for said in ("female", "male", "no_face")] == [2, 1, 1]
    assert counts[("pilot", "neither", "male")] == 1 and [counts[of].sum() for of in ("all", "nurse")] == [10, 6]
    # Wilson at 95 %, 3 of 4: as in the outcomes' test.
    assert found.loc[("all", "specificity"), "ci_low"] == pytest.approx(30.06, abs=0.01)
    # No pilot is a woman by the reference: nothing is known, and that is said.
    missing = found.loc[("pilot", "sensitivity")]
    assert np.isnan(missing["value"]) and np.isnan(missing["ci_low"]) and missing["n"] == 0


def test_images_of_no_known_truth_do_not_count_and_those_of_two_groups_once(rows):
    judgements, truth = rows
    found = judge_error(judgements, truth.drop(["c", "f"])).set_index(["group", "measure"])["n"]
    assert found[("nurse", "sensitivity")] == 2 and found[("nurse", "specificity")] == 1
    assert judge_error(judgements, truth[:0]).empty
    twice = pd.concat([judgements, judgements[:1].assign(occupation="pilot")])
    found = judge_error(twice, truth).set_index(["group", "measure"])["n"]
    assert [found[(group, "sensitivity")] for group in ("all", "nurse", "pilot")] == [3, 3, 1]


def errors(**groups):
    """Errors of groups from (sensitivity, its n, specificity, its n)."""
    rows = [(name, "sensitivity", *known[:2]) for name, known in groups.items()]
    rows += [(name, "specificity", *known[2:]) for name, known in groups.items()]
    return pd.DataFrame(rows, columns=["group", "measure", "value", "n"])


def test_shares_are_corrected_by_the_formula_or_have_a_reason():
    shares = pd.DataFrame({"occupation": ["nurse", "pilot", "baker"], "percent_female": [40.0] * 3, "n": [200] * 3})
    known = errors(all=(95, 400, 90, 400), nurse=(100, 30, 100, 30), pilot=(100, 300, 100, 29))
    found = correct(shares, known).set_index("occupation")
    assert found["reference"].to_dict() == {"nurse": "nurse", "pilot": "all", "baker": "all"}
    assert found.loc["nurse", "percent_female_corrected"] == pytest.approx(40)
    # Rogan and Gladen: (0.40 + 0.90 - 1) / (0.95 + 0.90 - 1) = 0.3 / 0.85.
    assert found.loc["baker", "percent_female_corrected"] == pytest.approx(100 * 0.3 / 0.85)
    assert (found["ci_low"] < found["percent_female_corrected"]).all() and (found["reason"] == "").all()
    assert (found["percent_female_corrected"] < found["ci_high"]).all()
    for percent, known, reason in (
        (np.nan, (95, 400, 90, 400), "no image was judged"),
        (40.0, (40, 400, 60, 400), "the judge is no better than chance here"),
        (40.0, (np.nan, 0, 90, 400), "no reference images of one gender"),
    ):
        nurses = shares[:1].assign(percent_female=percent, n=0 if np.isnan(percent) else 200)
        (row,) = correct(nurses, errors(all=known)).itertuples()
        assert row.reason == reason and np.isnan(row.percent_female_corrected)


def test_correct_errors_differ_between_occupations_widens_shares_that_take_all_errors():
    # Sensitivity 1 and 0.6 of 50 women each, 0.8 over all. By hand: (4 - 0.16) / 50 = 0.0768 between occupations, so
    # that 1.5 * 0.0768 = 0.1152 is added for another one. A share of (0.5 - 0.1) / 0.7 = 4 / 7 varies by 4 / 7 of its
    # root over 0.7.
    known = errors(all=(80, 100, 90, 100), nurse=(100, 50, 90, 50), pilot=(60, 50, 90, 50))
    shares = pd.DataFrame({"occupation": ["nurse", "baker"], "percent_female": 50.0, "n": 100})
    found = correct(shares, known).set_index("occupation")
    limits = found[["ci_low", "ci_high"]] / 100
    nurse, baker = (stats.corrected_shares(50, 100, *known) for known in ((1, 0.9, 50, 50), (0.8, 0.9, 100, 100)))
    assert limits.loc["nurse"].tolist() == pytest.approx([nurse.ci_low, nurse.ci_high])
    more = norm.ppf(0.975) * 4 / 7 * np.sqrt(0.1152) / 0.7
    wide = np.hypot([4 / 7 - baker.ci_low, baker.ci_high - 4 / 7], more)
    assert limits.loc["baker"].tolist() == pytest.approx([max(4 / 7 - wide[0], 0), min(4 / 7 + wide[1], 1)])
    assert found.loc["baker", ["reference", "n_sensitivity"]].tolist() == ["all", 100]


def test_each_source_is_measured_and_corrected_with_its_own_images(rows):
    judgements, truth = rows
    other = judgements.assign(image_id=judgements["image_id"] + "x")
    both = {"training": pd.concat([judgements] * 20, ignore_index=True), "generated": other}
    both["training"]["image_id"] += [f"-{k // 10}" for k in range(200)]
    known = pd.concat([truth.set_axis(truth.index + f"-{k}") for k in range(20)])
    errors, counts = by_source(both, {"truth": known, "simulated": pd.Series({"ax": "female"})})
    tables.check(errors, "judging_error")
    tables.check(counts, "judging_confusion")
    measured = set(zip(errors["reference"], errors["source"], strict=True))
    assert measured == {("truth", "training"), ("simulated", "generated")}
    at = {"model": "m", "approach": "naive", "prompt": "1", "occupation": "nurse", "percent_female": 50.0, "n": 40}
    shares = pd.DataFrame([{**at, "source": s} for s in ("training", "generated")])
    found = tables.check(correct_by_source(shares, errors), "judging_corrected").set_index("source")
    # Nurses: sensitivity 2/3 of 60 images, specificity 1/2 of 40: (0.5 + 0.5 - 1) / (1/6) = 0.
    assert found.loc["training", "percent_female_corrected"] == pytest.approx(0, abs=1e-9)
    assert found.loc["training", "reference"] == "nurse" and found.loc["training", "n_sensitivity"] == 60
    # Made-up annotators correct nothing.
    assert found.loc["generated", "reason"] == "no reference for generated images"
    assert np.isnan(found.loc["generated", "percent_female_corrected"])
