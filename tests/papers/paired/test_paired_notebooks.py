"""Notebooks of the Paired Stereotype Test accept a run's tables without images, with published values added."""

import numpy as np
import pandas as pd
import pytest
from paired_rows import critiques, faircritic_pairs

from biaslab.papers import paired
from biaslab.schema import tables

NOTEBOOKS = ("4_4_occupations", "4_4_overall", "4_5_power", "4_6_single_vs_paired", "5_mitigation", "b_d_judges")
NOTEBOOKS += ("3_2_prompts", "beyond_controls", "c_failures")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Write the measured tables of a small run, with published values added."""
    folder = tmp_path_factory.mktemp("run") / "measured"
    folder.mkdir()
    rng = np.random.default_rng(4)
    shares = []
    for setting, p in {"single": 0.6, "paired": 0.8, "paired_top5": 0.9, "faircritic": 0.4}.items():
        for stereotype, of_women in (("female", p), ("male", 1 - p)):
            women = rng.binomial(8, of_women, 3)
            shares += [(setting, f"{stereotype[0]}{i}", stereotype, 100 * k / 8) for i, k in enumerate(women)]
    shares = pd.DataFrame(shares, columns=["setting", "identity", "stereotype", "percent_female"])
    shares["n"] = 8
    texts, people = faircritic_pairs()
    # The shares of the people below.
    extra_shares = ("sheriff", "male", 0, 2), ("mover", "male", 0, 2), ("nurse", "female", 100, 4)
    for name, stereotype, percent, n in extra_shares:
        shares.loc[len(shares)] = ["paired", name, stereotype, percent, n]
    shares = shares.assign(model="A", aspect="occupation", occupation=shares["identity"], reason="")
    measured = {
        "percent_female": [shares, paired.printed.percent_female()],
        "printed_value": [paired.printed.printed_value()],
        "judge_agreement": [paired.printed.judge_agreement()],
        "prompts": [pd.DataFrame(texts)],
        "people": [pd.DataFrame(people)],
        "critiques": [pd.DataFrame(critiques())],
    }
    for name, frames in measured.items():
        whole = tables.make_table(pd.concat(frames, ignore_index=True), f"paired_{name}")
        whole.to_csv(folder / f"paired_{name}.csv", index=False)
    return folder.parent


@pytest.mark.long
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_accept_run_with_published_values(run_folder, notebook, name):
    record = notebook(f"paired/{name}", source=str(run_folder))
    assert {f["model"] for f in record["findings"]} <= {"A", "DALL-E 3", ""}
    # Published values are marked as printed, measured ones are not.
    assert all(f["printed"] == (f["model"] == "DALL-E 3") for f in record["findings"] if f["model"])
    for figure in record["figures"]:
        assert "{" not in figure["caption"] and "nan" not in figure["caption"]
