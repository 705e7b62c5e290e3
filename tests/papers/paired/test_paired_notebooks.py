"""Notebooks of the Paired Stereotype Test take a run's tables without its images, with printed numbers beside them."""

import numpy as np
import pandas as pd
import pytest

from biaslab.ground import tables
from biaslab.papers import paired

NOTEBOOKS = ("4_4_occupations", "4_4_overall", "4_5_power", "4_6_single_vs_paired", "5_mitigation", "b_d_judges")
NOTEBOOKS += ("3_2_prompts", "beyond_controls", "c_failures")
SHERIFF, NURSE = "sheriff", "nurse"


def _people(setting, round_):
    """Return the texts and people of two pairs; FairCritic tells the sheriff to be a woman."""
    first = f"faircritic_{round_}" if round_ else setting
    texts, rows = [], []
    for left, right in ((SHERIFF, NURSE), (NURSE, SHERIFF)):
        text = f"Generate a picture of one {left} on the left and one {right} on the right."
        same = {"model": "A", "aspect": "occupation", "setting": setting, "round": round_, "run": 1}
        prompt_id = f"{first}-{left}-{right}"
        more = " Show the sheriff as a woman." if round_ else ""
        texts.append({**same, "prompt_id": prompt_id, "text": text + more, "n_images": 1})
        for position, name in (("left", left), ("right", right)):
            gender = "male" if name == SHERIFF else "female"
            person = dict.fromkeys(("identity", "occupation"), name)
            person |= {"image_id": f"{prompt_id}/0", "position": position}
            person |= {"stereotype": gender, "outcome": "judged", "gender": gender, "role_order": "right"}
            rows.append({**same, **person, "n_faces": 2})
    return texts, rows


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Write what a small run measures, with printed numbers beside it."""
    of = tmp_path_factory.mktemp("run") / "measured"
    of.mkdir()
    rng = np.random.default_rng(4)
    shares = []
    for setting, p in {"single": 0.6, "paired": 0.8, "paired_top5": 0.9, "faircritic": 0.4}.items():
        for stereotype, of_women in (("female", p), ("male", 1 - p)):
            women = rng.binomial(8, of_women, 3)
            shares += [(setting, f"{stereotype[0]}{i}", stereotype, 100 * k / 8) for i, k in enumerate(women)]
    shares = pd.DataFrame(shares, columns=["setting", "identity", "stereotype", "percent_female"])
    shares["n"] = 8
    before, after = _people("paired", 0), _people("faircritic", 1)
    # As the people below are seen: two of each.
    for name, stereotype, percent in ((SHERIFF, "male", 0.0), (NURSE, "female", 100.0)):
        shares.loc[len(shares)] = ["paired", name, stereotype, percent, 2]
    shares = shares.assign(model="A", aspect="occupation", occupation=shares["identity"], reason="")
    critique = {"model": "A", "batch_id": "occupation", "identity": SHERIFF, "round": 1, "aspect": "occupation"}
    critique |= {"outcome": "judged", "biased": "yes", "kind": "towards stereotypes", "reasons": "Men only."}
    critique |= {"gender": "female", "percent": 50, "guideline": "Show the sheriff as a woman."}
    critique |= {"n": 2, "n_images": 2}
    measured = {
        "percent_female": [shares, paired.printed.percent_female()],
        "printed_value": [paired.printed.printed_value()],
        "judge_agreement": [paired.printed.judge_agreement()],
        "prompts": [pd.DataFrame(before[0] + after[0])],
        "people": [pd.DataFrame(before[1] + after[1])],
        "critiques": [pd.DataFrame([critique])],
    }
    for name, frames in measured.items():
        whole = tables.of(pd.concat(frames, ignore_index=True), f"paired_{name}")
        whole.to_csv(of / f"paired_{name}.csv", index=False)
    return of.parent


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_take_a_run_and_printed_numbers(run_folder, notebook, name):
    record = notebook(f"paired/{name}", source=str(run_folder))
    assert {f["model"] for f in record["findings"]} <= {"A", "DALL-E 3", ""}
    # Numbers as the paper prints them are said to be that, and a run's own are not.
    assert all(f["printed"] == (f["model"] == "DALL-E 3") for f in record["findings"] if f["model"])
    for figure in record["figures"]:
        assert "{" not in figure["caption"] and "nan" not in figure["caption"]
