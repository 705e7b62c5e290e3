"""Answers of annotators to questions other than perceived gender, by hand and with the image as the unit."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t
from statsmodels.stats.proportion import proportion_confint

from biaslab.analyses.ratings import question_shares


def annotations(rows):
    frame = pd.DataFrame(rows, columns=["image_id", "occupation", "question", "label"])
    return frame.assign(model="m", source="generated")


def test_question_shares_of_single_annotations_are_wilson():
    rows = [(f"i{k}", "nurse", "hat", "yes") for k in range(6)] + [(f"j{k}", "pilot", "hat", "no") for k in range(3)]
    rows += [("k", "pilot", "hat", "unsure"), ("l", "pilot", "hat", ""), ("i0", "nurse", "", "female")]
    table = question_shares(annotations(rows)).set_index(["group", "answer"])
    assert list(table.index) == [(g, a) for g in ("all", "nurse", "pilot") for a in ("no", "yes", "unsure")]
    # 6 of 9 clear answers; 1 of all 10.
    low, high = proportion_confint(6, 9, method="wilson")
    assert table.loc[("all", "yes"), ["value", "ci_low", "ci_high"]].tolist() == pytest.approx(
        [600 / 9, 100 * low, 100 * high]
    )
    assert table.loc[("all", "unsure"), ["value", "n"]].tolist() == [10, 10]
    assert table.loc[("pilot", "yes"), ["value", "n", "n_images"]].tolist() == [0, 3, 3]


def test_question_shares_cluster_annotators_by_image():
    # Three annotators agree on each of 8 images: 24 answers are worth 8.
    rows = [(f"i{k}", "nurse", "hat", "yes" if k % 2 else "no") for k in range(8)]
    once = question_shares(annotations(rows)).set_index(["group", "answer"])
    thrice = question_shares(annotations(rows * 3)).set_index(["group", "answer"])
    columns = ["value", "ci_low", "ci_high", "n_images"]
    np.testing.assert_allclose(thrice.loc["all", columns], once.loc["all", columns], atol=1.5)
    assert thrice.loc[("all", "yes"), "n"] == 24


def test_question_shares_of_scale_are_mean():
    rows = [("a", "nurse", "skin tone", "2"), ("a", "nurse", "skin tone", "4"), ("b", "nurse", "skin tone", "10")]
    rows += [("c", "nurse", "skin tone", "8"), ("c", "nurse", "skin tone", "unsure")]
    table = question_shares(annotations(rows)).query("group == 'all'").set_index("answer")
    assert list(table.index) == ["mean", "unsure"]
    mean = table.loc["mean"]
    # Deviations from 6 by image: a -4 - 2, b 4, c 2, each over 4 answers.
    error = np.sqrt(3 / 2 * (6**2 + 4**2 + 2**2) / 4**2)
    assert mean[["value", "n", "n_images"]].tolist() == [6, 4, 3]
    assert mean["ci_high"] == pytest.approx(6 + t.ppf(0.975, 2) * error)
    assert table.loc["unsure", "value"] == 20
