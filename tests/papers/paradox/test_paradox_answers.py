"""What the paradox's tables answer: the numbers behind its main answers by hand, and what is told where little is."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from biaslab.papers import paradox
from biaslab.papers.paradox import answers

NAN = float("nan")


def p_of(value, low, high):
    """Return the p of an estimate whose interval at 95% has these limits."""
    return 2 * scipy.stats.norm.sf(abs(value) * 2 * 1.959964 / (high - low))


def amplified(value, low, high, plain=None):
    """Return rows of three definitions, each of two prompts and their mean, over 40 of 62 occupations."""
    row = {"model": "M", "approach": "naive", "n_occupations": 40, "n_excluded": 22}
    corrected = value if np.isfinite(low) else NAN
    row |= {"amplification_corrected": corrected, "ci_low": low, "ci_high": high, "p": p_of(value, low, high)}
    row |= {"amplification": value if plain is None else plain}
    row["reason"] = "" if np.isfinite(low) else "Too few."
    rows = [row | {"prompt": p, "definition": d} for d in ("paper", "signed") for p in ("mean", "1", "2")]
    return pd.DataFrame(rows)


def test_the_baseline_is_both_definitions_and_rests_on_both_tests():
    both = amplified(12.0, 9.0, 15.0)
    signed = both["definition"] == "signed"
    names = ["amplification_corrected", "amplification", "ci_low", "ci_high", "p"]
    both.loc[signed, names] = 1.0, 1.5, -3.0, 5.0, p_of(1, -3, 5)
    (found,) = answers.baseline.findings(paradox.baseline(both))
    # One headline with two numbers says of each whether it is significant.
    said = (
        "Paper's definition: 12.0 points (9.00 to 15.0; significant); "
        "signed change: 1.00 points (-3.00 to 5.00; not significant)."
    )
    assert found.supported_answer == said and found.is_significant
    # Holm over both: twice the smaller p.
    assert [test.p for test in found.tests] == pytest.approx([2 * p_of(12, 9, 15), p_of(1, -3, 5)])
    assert found.p == found.tests[0].p and "signed change: uncorrected 1.50 points, n = 40" in found.details[0]
    assert [(m.estimate, m.ci_low, m.ci_high) for m in found.marks] == [(12, 9, 15), (1, -3, 5)]
    # The estimate that the finding stands for is the one that leaves no occupation out.
    assert (found.estimate, found.ci_low, found.ci_high, found.n) == (1, -3, 5, 40)
    assert answers.baseline.findings(paradox.baseline(both[~signed])) == []
    # Neither alone below one half of the level: nothing is claimed, and the numbers still stand.
    (found,) = answers.baseline.findings(paradox.baseline(amplified(3.0, 0.1, 5.9)))
    assert (
        not found.is_significant
        and found.supported_answer == "Amplification is not significantly different from 0 by either definition."
    )


@pytest.mark.parametrize("value", [29.1, -29.1])
def test_one_occupation_is_enough_for_no_verdict(value):
    for few in (amplified(value, NAN, NAN), amplified(value, value - 9, value + 9)):
        few = few.assign(n_occupations=1)
        found = answers.baseline.findings(paradox.baseline(few))
        found += answers.definitions.findings(paradox.overall(few))
        assert len(found) == 3 and not any(one.is_significant for one in found)
    assert "Too few." in answers.definitions.findings(paradox.overall(amplified(value, NAN, NAN)))[0].details


def test_embedded_models_and_worlds_are_told_apart():
    def words(model, corpus):
        rows = pd.DataFrame({"model": [model], "setting": ["captions.corpus"], "set_to": [corpus]})
        return answers.embedded.findings(paradox.embedded(rows))

    (found,) = words("mini", "mini")
    assert found.model == "mini" and "bundled model" in found.answer and found.details == ()
    # A real model on the embedded world's captions is no embedded one.
    (found,) = words("org/model", "mini")
    assert found.model == "org/model" and "training data" in found.answer and len(found.details) == 1
    assert words("org/model", "data/*.parquet") == []


def test_t_tests_are_counted_over_their_prompts():
    columns = ["prompt", "amplification_corrected", "p", "amplification"]
    rows = [("1", 3.0, 0.012, 3.0), ("2", 1.0, 0.61, 1.0), ("3", 2.0, 0.03, 2.0), ("4", 2.0, 0.001, 9.0)]
    rows = pd.DataFrame(rows, columns=columns).assign(
        model="mini", approach="nearest_no_indicators", definition="paper", ci_low=0.1, ci_high=5.0
    )
    table = paradox.t_tests(rows.assign(n_occupations=40, t=2.0, reason=""), confidence=0.95)
    # Of prompt 4 seven points are taken off and two left. Holm over four: 4 * 0.012 = 0.048, 3 * 0.03 = 0.09.
    assert table["p_holm_guarded"].tolist() == pytest.approx([0.048, 1, 0.09, 1])
    assert table["p_holm"].tolist() == pytest.approx([0.036, 0.61, 0.06, 0.004])
    (found,) = answers.t_tests.findings(table)
    assert (
        found.supported_answer == "Of 4 prompts, it is above 0 for 1 and below 0 for 0 (t-tests, Holm's correction)."
        and (
            found.p,
            found.n,
        )
        == (
            pytest.approx(0.048),
            40,
        )
    )
    (found,) = answers.t_tests.findings(table, confidence=0.99)
    assert found.supported_answer == "For none of 4 prompts (t-tests, Holm's correction)."


@pytest.mark.parametrize(
    ("value", "limits", "answer"),
    [
        (4.0, (-9.0, -3.0), "Yes, there is significantly less."),
        (9.0, (-3.0, 1.0), "The difference is not significant."),
        (18.0, (5.0, 11.0), "No, there is significantly more."),
    ],
)
def test_less_amplification_is_a_verdict_on_the_change(value, limits, answer):
    row = {"model": "mini", "approach": "nearest_no_indicators", "reference": "naive", "definition": "paper"}
    row |= {"n_occupations": 60, "reference_amplification_corrected": 10.0, "amplification_corrected": value}
    row |= dict(zip(("ci_low", "ci_high"), limits, strict=True))
    row |= {"change_corrected": value - 10, "change": value - 10, "p": p_of(value - 10, *limits)}
    (found,) = answers.nearest_no_indicators.findings(pd.DataFrame([row]))
    assert (found.supported_answer, found.estimate, found.n) == (answer, value - 10, 60)
    assert found.question.startswith("Is there less amplification with “Nearest, no indicators”")
