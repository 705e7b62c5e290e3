"""The labelled captions, what is measured on them, and the arithmetic of it."""

import gcc
import labelled
import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from biaslab.captions.indicators import agreement, measured
from biaslab.ground.errors import ParameterError


def test_precision_and_recall_by_hand():
    texts = [
        "a man and a woman",  # found: both
        "Emma Watson",  # found: female, by name
        "Peter Novak",  # found: male, by name
        "a dog on his bed",  # found: male
        "penny",  # found: none
        "a sea",  # found: none
    ]
    labels = pd.DataFrame(
        {
            "label": ["both", "female", "female", "none", "female", "none"],
            # The third is labelled as a woman's name, the fifth is a name that the rule does not find.
            "names": ["", "0:11:female-name", "0:11:female-name", "", "0:5:female-name", ""],
        }
    )
    rows = labelled.evaluate(texts, labels).set_index(["target", "statistic"])
    # Found by the rule: any in captions 1–4, right in 1–3; labelled: 1, 2, 3, 5.
    # Female found in 1, 2 (both right) of 1, 2, 3, 5. Male found in 1, 3, 4 (1 right) of 1.
    # Names found in 2 and 3, right in 2; labelled in 2, 3, 5.
    assert rows.index.tolist() == [(t, s) for t in ("any", "female", "male", "name") for s in ("precision", "recall")]
    count, n = np.array([(3, 4), (3, 4), (2, 2), (2, 4), (1, 3), (1, 1), (1, 2), (1, 3)]).T
    expected = 100 * np.array([count / n, *proportion_confint(count, n, method="wilson")])
    np.testing.assert_allclose(rows[["value", "ci_low", "ci_high", "count", "n"]].T, [*expected, count, n], atol=1e-9)


def test_what_was_measured_is_measured_again(root):
    again = labelled.agreement(gcc.captions(root))
    committed = measured()
    assert committed.columns.tolist() == again.columns.tolist()
    pd.testing.assert_frame_equal(committed, again, check_dtype=False, atol=1e-3)


def test_the_rule_is_as_good_as_was_said():
    rows = measured()
    rows = rows.set_index(["split", "against", "capitals", "persons", "target", "statistic"]).sort_index()
    # With capitals and names: at least 94 of 100 names found are right, at least 3 of 4 are found (95 % limits).
    name = rows.loc[("test", "label", "sentence", True, "name")]
    assert name.loc["precision", "ci_low"] > 94 and name.loc["recall", "ci_low"] > 75
    for capitals in labelled.CAPITALS:
        # Without names in the captions none is found: no place, no brand, no word.
        assert rows.loc[("test", "label", capitals, False, "name", "precision"), "n"] == 0
        for statistic in ("precision", "recall"):
            assert rows.loc[("test", "label", capitals, False, "any", statistic), "ci_low"] > 90
    shown = agreement("test")
    assert shown.columns.tolist() == ["captions", "found", "precision", "recall"]
    assert len(shown) == 6 * 4 + 3
    cell = shown.query("captions == 'with names and capitals' and found == \"persons' names\"").iloc[0]
    assert cell["precision"].endswith(f", n = {name.loc['precision', 'n']}") and " % (" in cell["recall"]
    assert shown["precision"].eq("none to count").sum() == 4
    with pytest.raises(ParameterError, match="split is 'all'"):
        agreement("all")
