"""Spreads and tests that the paradox paper prints, beside the same computed."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from biaslab import published, tables
from biaslab.studies import paradox_printed as printed
from biaslab.study import Study


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("printed"), source="published", bootstrap_replicates=200)


def test_printed_spreads_follow_from_the_printed_shares(paper):
    table = paper.table("paradox_printed_spread")
    assert table.groupby("model").size().to_dict() == {"SD 1.4": 62, "SD 1.5": 62}
    # By hand: the shares of the accountant in Table 6, and the population standard deviation of the four.
    shares = published.load("paradox_table_6").query("occupation == 'accountant' and source == 'generated'")
    one = table.query("model == 'SD 1.4' and occupation == 'accountant'").iloc[0]
    four = shares["percent_female"].tolist()
    mean = sum(four) / 4
    assert one["sd_prompts"] == pytest.approx((sum((v - mean) ** 2 for v in four) / 4) ** 0.5, abs=1e-9)
    assert one["printed"] == 15.1
    # Shares and spreads are both printed to 0.1, so each moves the spread by 0.05 at most.
    assert table["difference"].abs().max() <= 0.1
    # With divisor 3 it would not fit.
    assert (table["sd_prompts"] * np.sqrt(4 / 3) - table["printed"]).abs().max() > 2
    first, second = printed.spread_finding(table)
    worst = table.query("model == 'SD 1.5'")["difference"].abs().max()
    assert first.startswith("SD 1.4: ") and f"at most {worst:.2f} points in 62 occupations" in second


def test_the_papers_tests_cannot_be_made_from_its_numbers(paper):
    table = paper.table("paradox_t_tests").query("model == 'SD 1.4'").set_index(["approach", "prompt"])
    # Section 5.3 rejects for prompts 2 and 4, footnote 11 for captions as prompts.
    assert table["printed"].to_dict() == {
        **{("nearest_no_indicators", p): said for p, said in zip("1234", ("no", "yes") * 2, strict=True)},
        ("caption_prompts", "captions"): "yes",
        ("caption_prompts_no_indicators", "captions"): "yes",
    }
    assert table[["t", "p"]].isna().all(axis=None) and set(table["rejected"]) == {""}
    assert table["reason"].str.contains("No per-occupation shares").all()
    (said,) = printed.tests_finding(table.reset_index())
    assert said.startswith("SD 1.4: of 6 averages") and "rejects 4 at 0.05" in said


def shares(folder, model, generated):
    """Write shares of the first prompt: training 30 % everywhere, and what is generated."""
    rows = [
        {"source": source, "percent_female": share, "occupation": f"o{k}"}
        for k, value in enumerate(generated)
        for source, share in (("training", 30.0), ("generated", value))
    ]
    frame = pd.DataFrame(rows).assign(model=model, approach="nearest_no_indicators", prompt="1", n=100_000)
    tables.write(frame, folder / "paradox_percent_female.csv")
    return Study(folder / "out", source=str(folder), bootstrap_replicates=20_000)


@pytest.mark.parametrize(
    ("generated", "rejected"), [([25.0, 20, 24, 22, 26], "yes"), ([25.0, 35, 22, 38, 30.5], "no")]
)
def test_a_source_with_shares_is_tested(tmp_path, generated, rejected):
    table = shares(tmp_path, "mine", generated).table("paradox_t_tests")
    (row,) = table.to_dict("records")
    # All lean the same way, so all count; T is 20 points from one half.
    amplified = np.abs(np.array(generated) - 50) - 20
    assert stats.ttest_1samp(amplified, 0).pvalue == pytest.approx(row["p"], rel=0.1)
    assert (row["rejected"], row["printed"]) == (rejected, "")
    assert printed.tests_finding(table) == []
