"""Findings as data, and their formatting."""

import json

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from biaslab.papers.findings import Finding, GroupTest, adjust_across_report, fill_claim
from biaslab.schema.formatting import direction, format_count, format_durations, format_interval, format_number


def test_finding_refuses_long_answer_and_non_question():
    with pytest.raises(ValueError, match="21 words"):
        Finding("Is it so?", " ".join(["word"] * 21))
    with pytest.raises(ValueError, match="ends in"):
        Finding("It is so", "Yes.")


def test_finding_record_is_json_without_nan():
    finding = Finding("Is it so?", "Yes.", "SD", np.float64(1.25), n=np.int64(62), unit="points", n_unit="occupations")
    record = json.loads(json.dumps(finding.as_record(), allow_nan=False))
    assert record["estimate"] == 1.25 and record["n"] == 62 and record["ci_low"] is None
    assert record["numbers"] == finding.numbers == "1.25 points (no interval; n = 62 occupations)"


def test_finding_html_is_escaped():
    finding = Finding("Is <b> so?", "Yes & no.", "SD", 1.25, unit="points", details=("More.", "1 < 2."))
    assert finding._repr_html_() == (
        '<div class="mathjax_ignore"><p><b>SD: Is &lt;b&gt; so?</b> Yes &amp; no. 1.25 points (no interval).</p>'
        "<p><small>More. 1 &lt; 2.</small></p></div>"
    )


def test_formatting_of_numbers_counts_and_durations():
    assert [format_number(v) for v in (0.123, 12.34, 1234.5)] == ["0.12", "12.3", "1,234"]
    # A value that rounds to 0 has no sign.
    assert [format_number(v) for v in (-0.004, -0.006, -0.0)] == ["0.00", "-0.01", "0.00"]
    assert format_count(1, "image", "images") == "1 image" and format_count(1200, "image", "images") == "1,200 images"
    assert format_interval({"ci_low": 0.5, "ci_high": 10.04}) == "0.50 to 10.0"
    assert format_interval({"ci_low": float("nan"), "ci_high": 1.0}) == "no interval"
    durations = [format_durations(*ends) for ends in ((2.9, 4.02), (90, 150), (3600, 9000))]
    assert durations == ["2.9 to 4 seconds", "1.5 to 2.5 minutes", "1 to 2.5 hours"]


def test_direction_needs_interval_excluding_0():
    ends = {(1, 2): "up", (-2, -1): "down", (-1, 1): "0", (float("nan"),) * 2: "0", (1e-12, 1): "0"}
    assert [direction(*limits, "up", "down", "0") for limits in ends] == [*ends.values()]


def verdict(p, *, n=62, estimate=1.0, main=True, **more):
    """Return the record of a verdict as a study writes it."""
    said = {"not_significant": "Not significant.", "p": p, "n": n, "n_unit": "occupations", "estimate": estimate}
    return Finding("Is there more?", "More.", **said | more).as_record() | {"main": main}


def counted(*tests, main=True, **more):
    """Return the record of an answer that counts groups, of (adjusted p, side) by group."""
    groups = tuple(GroupTest(p, side, f"g{i}", f"g{i} (not significant)") for i, (p, side) in enumerate(tests))
    known_p = [group.p for group in groups if group.p == group.p]
    said = {"not_significant": "None.", "p": min(known_p, default=float("nan")), "tests": groups}
    return Finding("In how many?", "{up} more, {down} fewer.", **said | more).as_record() | {"main": main}


def test_verdict_depends_on_p_and_level():
    assert [verdict(p)["answer"] for p in (0.05, 0.051)] == ["More.", "Not significant."]
    assert [verdict(p, alpha=0.01)["is_significant"] for p in (0.01, 0.011)] == [True, False]
    # Without an undecided answer it is a description, and p changes nothing.
    assert Finding("How many?", "Five.", p=0.9).supported_answer == "Five."


@pytest.mark.parametrize(
    ("test", "alpha", "least"), [("sign", 0.05, 6), ("sign", 0.01, 8), ("sign", 0.1, 5), ("t", 0.05, 5), ("t", 0.01, 5)]
)
def test_verdict_of_too_few_units_is_inconclusive(test, alpha, least):
    # All of n equal: 2 * 0.5**5 = 0.0625 and 2 * 0.5**6 = 0.031; 2 * 0.5**8 = 0.0078; 2 * 0.5**5 = 0.0625 < 0.1.
    few, enough = (verdict(0.001 * alpha, n=n, alpha=alpha, test=test) for n in (least - 1, least))
    assert few["answer"] == f"Inconclusive (only {least - 1} occupations)." and enough["answer"] == "More."
    assert (
        few["details"] == [f"Even a single test without correction requires at least {least} occupations."]
        and not few["is_tested"]
    )
    assert enough["details"] == ([f"Student's t-test over {least} occupations."] if test == "t" else [])
    assert verdict(0.5, n=1)["answer"] == "Inconclusive (only 1 occupation)."


def test_verdict_without_p_is_not_tested():
    # "Not significant" is used for tested values only.
    assert verdict(float("nan"))["answer"] == "Not tested."
    assert counted((float("nan"), 1))["answer"] == "Not tested."


def test_fill_claim_recounts_at_other_level():
    tests = [(0.001, 1), (0.02, -1), (0.03, 1), (float("nan"), 1)]
    record = counted(*tests)
    # At 0.05 three of four, one of them below the reference; at 0.02 the first two, as 0.02 reaches its own level.
    assert (record["answer"], record["significant_texts"]) == ("2 more, 1 fewer.", ["g0", "g1", "g2"])
    assert fill_claim(record["claim"], record["tests"], 0.02) == "1 more, 1 fewer."
    said = fill_claim("{unclear} open: {each}.", record["tests"], 0.001)
    assert said == "3 open: g0; g1 (not significant); g2 (not significant); g3 (not significant)."
    # Braces of anything else, such as a model's name, are no placeholders.
    assert fill_claim("{up} of {model}", record["tests"], 0.02) == "1 of {model}"


def test_finding_outside_report_is_marked_unadjusted():
    said = {"not_significant": "None.", "p": 0.01, "tests": (GroupTest(0.01, 1, "A 3 points"), GroupTest(0.9, 1, "B"))}
    finding = Finding("In how many?", "In {up} of 2.", **said)
    assert (
        str(finding)
        == "In how many? In 1 of 2. Significant: A 3 points. Not adjusted for multiple testing across the report."
    )
    # The record leaves that to the report.
    assert finding.as_record()["details"] == []
    assert "adjusted" not in str(Finding("Is it?", "Yes.", not_significant="No.", p=0.2))


def test_finding_of_one_unit_is_singular():
    counted = {"triplets": "triplet", "people": "person", "identities": "identity", "images (naive)": "image (naive)"}
    for many, one in counted.items():
        assert Finding("Is it?", "Yes.", estimate=1.0, n=1, n_unit=many).numbers == f"1.00 (no interval; n = 1 {one})"
        assert Finding("Is it?", "Yes.", estimate=1.0, n=2, n_unit=many).numbers.endswith(f"n = 2 {many})")


def test_adjust_across_report_uses_benjamini_hochberg():
    records = [
        verdict(0.02),
        verdict(0.004),
        verdict(0.6),
        verdict(0.04, main=False),
        Finding("How many?", "Five.", n=62).as_record() | {"main": True},
        # No test for these rows, and too few units: both count with p = 1, whatever their p.
        Finding("How far?", "3 points.", has_declared_test=True).as_record() | {"main": True},
        verdict(0.0001, n=3),
    ]
    adjusted_records, counts = adjust_across_report(records)
    # Five headlines, sorted 0.004, 0.02, 0.6, 1, 1 against 0.01, 0.02, 0.03, …: two are selected.
    expected = multipletests([0.02, 0.004, 0.6, 1, 1], method="fdr_bh")[1]
    assert [record.get("p_page") for record in adjusted_records[:3]] == pytest.approx(expected[:3].tolist())
    answers = [
        "More.",
        "More.",
        "Not significant.",
        "More.",
        "Five.",
        "3 points.",
        "Inconclusive (only 3 occupations).",
    ]
    assert [record["answer"] for record in adjusted_records] == answers
    assert adjusted_records[0]["level"] == pytest.approx(0.05 * 2 / 5) and "p_page" not in adjusted_records[4]
    # A finding that is not a headline keeps its own level, and states it.
    assert (
        adjusted_records[3]["details"] == ["Not adjusted for multiple testing across the report."]
        and "level" not in adjusted_records[3]
    )
    names = ("headlines", "significant", "untested", "withdrawn", "printed", "others", "others_significant")
    assert [counts[name] for name in names] == [5, 2, 2, 0, 0, 1, 1]
    assert adjust_across_report([]) == ([], {"alpha": 0.05} | dict.fromkeys(names, 0))


def test_numbers_omit_what_the_answer_states():
    known = {"estimate": 12.4, "ci_low": 9.74, "ci_high": 15.0, "unit": "points", "n": 53, "n_unit": "occupations"}
    assert Finding("How much?", "Much.", **known).numbers == "12.4 points (9.74 to 15.0; n = 53 occupations)"
    assert Finding("How much?", "12.4 points (9.74 to 15.0).", **known).numbers == "n = 53 occupations"
    assert Finding("How much?", "12.4 points (9.74 to 15.0; n = 53).", **known).numbers == ""


def test_withdrawn_claim_keeps_its_numbers():
    known = {"estimate": 12.4, "ci_low": 9.74, "ci_high": 15.0, "unit": "points", "n": 53, "n_unit": "occupations"}
    claim = Finding("How much?", "12.4 points (9.74 to 15.0; n = 53).", not_significant="None.", p=0.04, **known)
    others = [Finding("Other?", "More.", not_significant="None.", p=0.9, n=53, n_unit="occupations")] * 3
    records = [finding.as_record() | {"main": True} for finding in (claim, *others)]
    withdrawn = adjust_across_report(records)[0][0]
    # By Benjamini-Hochberg, four times 0.04 is above 0.05, and the page's answer states no interval.
    assert withdrawn["answer"].startswith("Not significant after adjustment")
    assert withdrawn["numbers"] == "12.4 points (9.74 to 15.0; n = 53 occupations)"


def test_adjust_across_report_explains_withdrawn_headline():
    # 0.011 of seven: 7 * 0.011 = 0.077.
    adjusted_records, counts = adjust_across_report([verdict(0.011), *(verdict(0.5 + i / 100) for i in range(6))])
    said = "Not significant after adjustment across the report (p = 0.011, adjusted p = 0.077)."
    assert adjusted_records[0]["answer"] == said and not adjusted_records[0]["is_significant"]
    assert (counts["withdrawn"], counts["significant"]) == (1, 0)
    # A headline that is not significant before adjustment keeps its text.
    assert adjusted_records[1]["answer"] == "Not significant."


def test_adjust_across_report_recounts_groups_of_headline():
    # Two of four headlines are selected (0.001 and 0.004), so groups are named up to 0.05 * 2 / 4 = 0.025.
    groups = counted((0.004, 1), (0.024, -1), (0.026, 1), (0.049, 1))
    adjusted_records, _ = adjust_across_report([groups, verdict(0.001), verdict(0.7), verdict(0.8)])
    assert groups["answer"] == "3 more, 1 fewer."
    assert (adjusted_records[0]["answer"], adjusted_records[0]["significant_texts"]) == (
        "1 more, 1 fewer.",
        ["g0", "g1"],
    )
    # A family enters with its smallest adjusted p.
    assert adjusted_records[0]["p_page"] == pytest.approx(0.008)


def test_adjust_across_report_separates_printed_headlines():
    printed = verdict(0.04) | {"printed": True}
    printed_only, with_measured = ([printed], [printed, *(verdict(0.5) for _ in range(20))])
    assert [adjust_across_report(records)[0][0]["p_page"] for records in (printed_only, with_measured)] == [0.04, 0.04]
    # And the other way round: 2 * 0.04.
    adjusted_records, counts = adjust_across_report([verdict(0.04), verdict(0.9), printed])
    assert adjusted_records[0]["p_page"] == 0.08 and counts["printed"] == 1


def test_adjust_across_report_skips_untestable_printed_values():
    # That a paper prints no interval is known before any result, other than a missing test of measured values.
    printed = Finding("How far?", "2 points.", has_declared_test=True).as_record() | {"main": True, "printed": True}
    measured = printed | {"printed": False}
    assert adjust_across_report([printed, verdict(0.04) | {"printed": True}])[0][1]["p_page"] == 0.04
    assert adjust_across_report([measured, verdict(0.04)])[0][1]["p_page"] == 0.08
