"""Bias scores corrected for recall, by hand and where it is known how much of what is missed."""

import numpy as np
import pandas as pd
import pytest

from biaslab.papers import triplets
from biaslab.papers.triplets import figures


def drawings(of, reference="drawings"):
    """Return detections, an image each: of object and gender so many shown, and of these so many found."""
    rows = [
        {"object": name, "gender_shown": gender, "both": int(k < found), "reference_only": int(k >= found)}
        for (name, gender), (shown, found) in of.items()
        for k in range(shown)
    ]
    frame = pd.DataFrame(rows).assign(model="M", reference=reference, finder_only=0, iou=np.nan)
    return frame.assign(image_id=[f"{reference}-{k}" for k in range(len(frame))])


def counted(of, n_images=100, rng=None):
    """Return counts of objects, feminine and masculine, one a triplet: the first ones, or some; and of a person."""
    triplets_ = (lambda n: rng.permutation(n_images)[:n]) if rng else range
    rows = [
        {"prompt_gender": gender, "case": f"t{k}", "object": name, "count": 1}
        for name, counts in (of | {"person": (1, 1)}).items()
        for gender, n in zip(("feminine", "masculine"), counts, strict=True)
        for k in triplets_(n)
    ]
    return pd.DataFrame(rows).assign(model="M", dataset="D", n_images=n_images)


def scored(counts, detections):
    return triplets.bias_score(counted(counts), None, detections, minimum_count=1, replicates=99).set_index(
        "object"
    )


def test_counts_are_divided_by_recall():
    known = {("cup", "female"): (10, 5), ("cup", "male"): (10, 10), ("hat", "male"): (4, 4)}
    known |= {("pan", "female"): (4, 0), ("pan", "male"): (4, 4)}
    found = scored({"cup": (30, 30), "hat": (5, 9), "pan": (0, 7), "tie": (1, 2)}, drawings(known))
    cup = found.loc["cup"]
    # 30 of half of them are 60 beside women, 30 of all are 30 beside men.
    assert cup["bias_score"] == 0.5 and cup["corrected_score"] == pytest.approx(30 / 90)
    assert cup[["recall_feminine", "recall_masculine"]].tolist() == [50, 100]
    # Limits by hand: on the scale of log odds the score's and each recall's are as far as they are, squared and added.
    low, high = (np.log(end / (1 - end)) for end in cup[["ci_low", "ci_high"]])
    errors = triplets.detector_error(drawings(known)).query("object == 'cup' and measure == 'recall'")
    errors = errors.set_index("gender_shown")
    half, whole = (
        np.log(errors.loc[gender, ["ci_low", "ci_high"]].to_numpy(float))
        - np.log(errors.loc[gender, "value"])
        for gender in ("female", "male")
    )
    below = np.sqrt(low**2 + half[0] ** 2 + whole[1] ** 2)
    above = np.sqrt(high**2 + half[1] ** 2 + whole[0] ** 2)
    odds = [np.log(c / (1 - c)) for c in cup[["corrected_ci_low", "corrected_ci_high"]]]
    assert odds == pytest.approx([-np.log(2) - below, -np.log(2) + above])
    rest = found.drop("cup")
    assert rest["corrected_score"].isna().all() and (rest["corrected_reason"] != "").all()
    assert rest.loc["pan", "recall_feminine"] == 0 and np.isnan(rest.loc["hat", "recall_feminine"])


def test_an_object_of_one_gender_alone_stays_there():
    found = scored({"cup": (0, 12)}, drawings({("cup", "female"): (9, 6), ("cup", "male"): (9, 6)}))
    cup = found.loc["cup"]
    assert cup["corrected_score"] == cup["corrected_ci_high"] == 1
    # Not knowing recall well makes the lower limit lower.
    assert 0 < cup["corrected_ci_low"] < cup["ci_low"]


def test_what_is_found_elsewhere_in_an_image_counts_and_ratings_go_before_drawings():
    known = drawings({("cup", "female"): (10, 5), ("cup", "male"): (10, 10)})
    missed = known["both"] == 0
    beside = known.assign(finder_only=missed.astype(int))
    assert scored({"cup": (30, 30)}, beside).loc["cup", "corrected_score"] == 0.5
    rated = drawings({("cup", "female"): (10, 10), ("cup", "male"): (10, 4)}, "ratings")
    both = scored({"cup": (30, 30)}, pd.concat([known, rated]))
    assert both.loc["cup", "recall_masculine"] == 40


def test_swapping_genders_turns_corrected_scores():
    known = {("cup", "female"): (20, 11), ("cup", "male"): (20, 18)}
    swapped = dict(zip(known, list(known.values())[::-1], strict=True))
    one = scored({"cup": (31, 14)}, drawings(known)).loc["cup"]
    other = scored({"cup": (14, 31)}, drawings(swapped)).loc["cup"]
    for column, turned in (("score", "score"), ("ci_low", "ci_high"), ("ci_high", "ci_low")):
        assert one[f"corrected_{column}"] == pytest.approx(1 - other[f"corrected_{turned}"], abs=1e-12)


def test_correction_finds_the_score_that_recall_hides():
    """Of objects that stand beside 30 % of women and 20 % of men, 60 and 90 in 100 are found."""
    rng, held, apart = np.random.default_rng(3), [], []
    recall = {"female": 0.6, "male": 0.9}
    for _ in range(60):
        of = {f"o{k}": tuple(rng.binomial(200, [0.3 * 0.6, 0.2 * 0.9])) for k in range(5)}
        known = {(name, g): (80, rng.binomial(80, r)) for name in of for g, r in recall.items()}
        scores = triplets.bias_score(
            counted(of, 200, rng), None, drawings(known), minimum_count=1, replicates=2
        )
        scores = scores[scores["object"] != "person"]
        held += list((scores["corrected_ci_low"] <= 0.4) & (scores["corrected_ci_high"] >= 0.4))
        apart.append(scores[["bias_score", "corrected_score"]].mean() - 0.4)
    raw, corrected = pd.DataFrame(apart).mean()
    # As found, as many are beside women as beside men.
    assert raw == pytest.approx(0.1, abs=0.01) and corrected == pytest.approx(0, abs=0.01)
    assert np.mean(held) >= 0.93


def test_corrected_scores_are_tested_by_their_intervals_and_drawn():
    known = {("cup", "female"): (40, 20), ("cup", "male"): (40, 40)}
    known |= {("hat", "female"): (40, 40), ("hat", "male"): (40, 40)}
    counts = counted({"cup": (30, 60), "hat": (10, 70)})
    scores = triplets.bias_score(counts, None, drawings(known), minimum_count=1, replicates=99)
    excludes = (scores["corrected_ci_low"] > 0.5) | (scores["corrected_ci_high"] < 0.5)
    assert ((scores["corrected_p"] < 0.05) == excludes).all()
    # The cup is at 0.5 when its recall is taken off.
    (ax,) = figures.recall_corrected(scores).axes
    drawn = [line.get_xdata() for line in ax.lines if line.get_marker() not in ("None", "")]
    assert np.sort(np.concatenate(drawn)) == pytest.approx([0.5, 2 / 3, 0.875, 0.875])
    assert "corrected_score" not in triplets.bias_score(counts, minimum_count=1, replicates=99)
