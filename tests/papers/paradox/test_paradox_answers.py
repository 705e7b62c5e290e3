"""Answers of the paradox: the numbers of its main answers by hand, and answers with few occupations."""

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


def amplification_rows(value, low, high, plain=None):
    """Return rows of three definitions, each of two prompts and their mean, over 40 of 62 occupations."""
    row = {"model": "M", "approach": "naive", "n_occupations": 40, "n_excluded": 22}
    corrected = value if np.isfinite(low) else NAN
    row |= {"amplification_corrected": corrected, "ci_low": low, "ci_high": high, "p": p_of(value, low, high)}
    row |= {"amplification": value if plain is None else plain}
    row["reason"] = "" if np.isfinite(low) else "Too few."
    rows = [row | {"prompt": p, "definition": d} for d in ("paper", "signed") for p in ("mean", "1", "2")]
    return pd.DataFrame(rows)


def test_baseline_answer_combines_both_definitions():
    both = amplification_rows(12.0, 9.0, 15.0)
    signed = both["definition"] == "signed"
    names = ["amplification_corrected", "amplification", "ci_low", "ci_high", "p"]
    both.loc[signed, names] = 1.0, 1.5, -3.0, 5.0, p_of(1, -3, 5)
    (result,) = answers.baseline.findings(paradox.baseline(both))
    # One headline with two numbers states the significance of each.
    text = (
        "Bias-corrected, by the paper's definition: 12.0 points (9.00 to 15.0; n = 40 occupations; significant); "
        "signed change: 1.00 points (-3.00 to 5.00; n = 40 occupations; not significant)."
    )
    assert result.supported_answer == text and result.is_significant
    # Holm over both: twice the smaller p.
    assert [test.p for test in result.tests] == pytest.approx([2 * p_of(12, 9, 15), p_of(1, -3, 5)])
    assert result.p == result.tests[0].p and "signed change: uncorrected 1.50 points" in result.details[0]
    assert [(m.estimate, m.ci_low, m.ci_high) for m in result.marks] == [(12, 9, 15), (1, -3, 5)]
    # The finding's estimate is the one that excludes no occupation.
    assert (result.estimate, result.ci_low, result.ci_high, result.n) == (1, -3, 5, 40)
    assert answers.baseline.findings(paradox.baseline(both[~signed])) == []
    # Neither p is below half of the level: not significant.
    (result,) = answers.baseline.findings(paradox.baseline(amplification_rows(3.0, 0.1, 5.9)))
    assert (
        not result.is_significant
        and result.supported_answer == "Amplification is not significantly different from 0 by either definition."
    )


@pytest.mark.parametrize("value", [29.1, -29.1])
def test_answers_of_one_occupation_are_not_significant(value):
    for few in (amplification_rows(value, NAN, NAN), amplification_rows(value, value - 9, value + 9)):
        few = few.assign(n_occupations=1)
        result = answers.baseline.findings(paradox.baseline(few))
        result += answers.definitions.findings(paradox.overall(few))
        assert len(result) == 3 and not any(one.is_significant for one in result)
    assert "Too few." in answers.definitions.findings(paradox.overall(amplification_rows(value, NAN, NAN)))[0].details


def test_embedded_answer_distinguishes_model_and_world():
    def words(model, corpus):
        rows = pd.DataFrame({"model": [model], "setting": ["captions.corpus"], "set_to": [corpus]})
        return answers.simulated_models.findings(paradox.simulated_models(rows))

    (result,) = words("mini", "mini")
    assert result.model == "mini" and "bundled model" in result.answer and result.details == ()
    # A real model on the synthetic world's captions is not an embedded one.
    (result,) = words("org/model", "mini")
    assert result.model == "org/model" and "training data" in result.answer and len(result.details) == 1
    assert words("org/model", "data/*.parquet") == []


def test_t_tests_answer_counts_adjusted_prompts():
    columns = ["prompt", "amplification_corrected", "p", "amplification"]
    rows = [("1", 3.0, 0.012, 3.0), ("2", 1.0, 0.61, 1.0), ("3", 2.0, 0.03, 2.0), ("4", 2.0, 0.001, 9.0)]
    rows = pd.DataFrame(rows, columns=columns).assign(
        model="mini", approach="nearest_no_indicators", definition="paper", ci_low=0.1, ci_high=5.0
    )
    table = paradox.t_tests(rows.assign(n_occupations=40, t=2.0, reason=""), confidence=0.95)
    # For prompt 4: correction 7, estimate 2. Holm over four: 4 * 0.012 = 0.048, 3 * 0.03 = 0.09.
    assert table["p_holm_guarded"].tolist() == pytest.approx([0.048, 1, 0.09, 1])
    assert table["p_holm"].tolist() == pytest.approx([0.036, 0.61, 0.06, 0.004])
    (result,) = answers.t_tests.findings(table)
    assert (
        result.supported_answer
        == "Of 4 prompts, it is significantly above 0 for 1 and below 0 for 0 (t-tests, Holm's correction)."
        and (
            result.p,
            result.n,
        )
        == (
            pytest.approx(0.048),
            40,
        )
    )
    (result,) = answers.t_tests.findings(table, confidence=0.99)
    assert result.supported_answer == "For none of 4 prompts (t-tests, Holm's correction)."


@pytest.mark.parametrize(
    ("value", "limits", "answer"),
    [
        (4.0, (-9.0, -3.0), "Yes, there is significantly less."),
        (9.0, (-3.0, 1.0), "The difference is not significant."),
        (18.0, (5.0, 11.0), "No, there is significantly more."),
    ],
)
def test_approach_answer_depends_on_change(value, limits, answer):
    row = {"model": "mini", "approach": "nearest_no_indicators", "reference": "naive", "definition": "paper"}
    row |= {"n_occupations": 60, "reference_amplification_corrected": 10.0, "amplification_corrected": value}
    row |= dict(zip(("ci_low", "ci_high"), limits, strict=True))
    row |= {"change_corrected": value - 10, "change": value - 10, "p": p_of(value - 10, *limits)}
    (result,) = answers.nearest_no_indicators.findings(pd.DataFrame([row]))
    assert (result.supported_answer, result.estimate, result.n) == (answer, value - 10, 60)
    assert result.question.startswith("Is there less amplification with “Nearest, no indicators”")
