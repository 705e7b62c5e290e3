"""Differences between runs, and their intervals."""

import json

import numpy as np
import pandas as pd
import pytest

from biaslab import compare, tables
from biaslab.errors import ParameterError, RunError


def amplification(model, values, low, high, prompts=("1", "2")):
    return pd.DataFrame(
        {
            "model": model,
            "approach": "naive",
            "definition": "published",
            "prompt": list(prompts),
            "amplification": values,
            "ci_low": low,
            "ci_high": high,
            "n_occupations": 50,
            "n_excluded": 12,
            "t": 1.0,
            "p": 0.5,
            "reason": "",
        }
    )


def test_rows_meet_on_their_identity_and_lone_rows_stay():
    first = amplification("SD", [10, 20], [9, 19], [11, 21])
    second = amplification("SD", [13, 5], [12, 4], [14, 6], prompts=("1", "3"))
    got = compare.side_by_side(first, second, "paradox_amplification").set_index("prompt")
    assert got.loc["1", "amplification_difference"] == 3
    # sqrt(1 + 1) on either side.
    assert got.loc["1", "ci_low"] == pytest.approx(3 - 2**0.5)
    assert np.isnan(got.loc["2", "amplification_second"]) and np.isnan(got.loc["3", "amplification_first"])


def test_runs_of_one_model_each_are_matched_across_models():
    first = amplification("SD 1.4", [10, 20], [9, 19], [11, 21])
    second = amplification("SD 1.5", [13, 5], [12, 4], [14, 6])
    got = compare.side_by_side(first, second, "paradox_amplification")
    assert got["amplification_difference"].tolist() == [3, -15]
    assert set(got["model_first"]) == {"SD 1.4"} and set(got["model_second"]) == {"SD 1.5"}


def test_swept_parameters_are_matched_on():
    seeds = [amplification("SD", [v, v], [v - 1] * 2, [v + 1] * 2).assign(seed=str(v)) for v in (1, 2)]
    first = pd.concat(seeds, ignore_index=True)
    second = first.assign(amplification=first["amplification"] + 5)
    got = compare.side_by_side(first, second, "paradox_amplification", swept=["seed"])
    assert len(got) == 4 and got["amplification_difference"].tolist() == [5] * 4


@pytest.fixture
def two_runs(tmp_path):
    for name, shift in (("one", 0), ("two", 3)):
        folder = tmp_path / "outputs" / name
        frame = amplification("SD", [10 + shift, 20], [9 + shift, 18], [11 + shift, 22])
        tables.write(frame, folder / "tables" / "paradox_amplification.csv")
        record = {"run": name, "seeds": {"seed": 1}, "biaslab": {}, "packages": {}, "platform": {}}
        (folder / "run.json").write_text(json.dumps(record))
    return tmp_path / "outputs"


def test_a_comparison_is_a_report_of_its_own(two_runs):
    folder = compare.compare("one", "two", outputs=two_runs)
    assert folder.name == "compare-one-two"
    table = pd.read_csv(folder / "tables" / "paradox_amplification.csv")
    assert table["amplification_difference"].tolist() == [3, 0]
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "of 2 differences with an interval, 1 has one that excludes 0" in page
    # Again, in place.
    assert compare.compare(two_runs / "one", two_runs / "two", outputs=two_runs) == folder


def test_what_cannot_be_compared(two_runs):
    with pytest.raises(ParameterError, match=r"There is no run 'tow'.*Did you mean 'two'"):
        compare.compare("one", "tow", outputs=two_runs)
    with pytest.raises(ParameterError, match="is compared with itself"):
        compare.compare("one", "one", outputs=two_runs)
    (two_runs / "two" / "tables" / "paradox_amplification.csv").unlink()
    with pytest.raises(RunError, match="share no table"):
        compare.compare("one", "two", outputs=two_runs)
    (two_runs / "mine").mkdir()
    (two_runs / "mine" / "thesis.txt").write_text("years of work")
    amplified = two_runs / "one/tables/paradox_amplification.csv"
    amplified.rename(two_runs / "two/tables/paradox_amplification.csv")
    with pytest.raises(RunError, match="share no table"):
        compare.compare("one", "two", outputs=two_runs, name="mine")
    assert (two_runs / "mine" / "thesis.txt").exists()
