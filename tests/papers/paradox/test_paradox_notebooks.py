"""The paradox notebooks, cell by cell, on made-up measurements: without images, and from printed numbers alone."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from biaslab.captions.settings import APPROACHES, SELECTED
from biaslab.ground.errors import MissingInputError
from biaslab.papers.paradox import printed
from biaslab.runs import coverage

NEED_IMAGES = ("2_setup", "5_1_indicators", "5_2_nearest", "6_caption_prompts", "a_6_paraphrases")
WORK_WITHOUT = ("4_baseline", "5_approaches", "8_prompts")
OCCUPATIONS = {"nurse": 89, "teacher": 63, "author": 43, "lawyer": 28, "engineer": 21, "pilot": 30, "ceo": 15}


@pytest.fixture(autouse=True)
def not_saved(monkeypatch):
    """Draw figures and leave them unsaved: what a study writes is tested with it."""
    monkeypatch.setattr("biaslab.study.study._lay_out", lambda figure: None)
    monkeypatch.setattr("biaslab.study.study._save_png", lambda figure, path, page: path.touch())
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)


def run(root, name, out, **parameters):
    """Execute the code cells of a notebook in this process and return what it recorded for the report."""
    cells = json.loads((root / "notebooks" / "paradox" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    space = {"display": print}
    plt.close("all")
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), space)
            if "parameters" in cell["metadata"].get("tags", ()):
                assert isinstance(space["settings"], dict) and not space["settings"]
                space |= {"output_dir": str(out), "bootstrap_replicates": 100, **parameters}
    assert not plt.get_fignums()
    path = out / "records.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write every table that the pipeline measures, for a few occupations, as a run leaves them behind."""
    rng = np.random.default_rng(2)
    of = tmp_path_factory.mktemp("run") / "measured"
    of.mkdir()

    def write(name, rows, *columns):
        pd.DataFrame(rows, columns=columns or None).to_csv(of / f"{name}.csv", index=False)

    shares, each = [], list(OCCUPATIONS.items())
    for approach in APPROACHES:
        selects = approach in SELECTED
        for occupation, female in each:
            sides = [("training", p, 40) for p in ("1234" if "nearest" in approach else ["captions"])]
            sides += [("generated", p, 12) for p in ("1234" if selects else ["captions"])]
            for source, prompt, n in sides:
                percent = 100 * rng.binomial(n, female / 100) / n
                shares.append(("mini", approach, occupation, source, prompt, percent, n))
    columns = ["model", "approach", "occupation", "source", "prompt", "percent_female", "n"]
    both = [pd.DataFrame(shares, columns=columns), printed.percent_female()[columns]]
    write("paradox_percent_female", pd.concat(both))
    write("paradox_printed_amplification", printed.printed_amplification())
    told = {
        "captions.corpus": "mini",
        "captions.names": "gazetteer",
        "generation.guidance_scale": 3.0,
        "generation.steps": 12,
        "generation.images_per_caption": 1,
    }
    write(
        "pipeline_settings",
        [("mini", *s, "It is set.") for s in told.items()],
        "model",
        "setting",
        "set_to",
        "description",
    )
    counts = ["n_captions", "n_corpus", "n_sampled", "n_candidates"]
    found = [("mini", o, 500 + 10 * k, 9000, 200, 400) for k, o in enumerate(OCCUPATIONS)]
    write("paradox_captions_found", found, "corpus", "occupation", *counts)
    prompts = [(f"p{p}-{o}", "naive", o, p, f"Photo {p} of: {o}", 12) for p in "1234" for o in OCCUPATIONS]
    write("paradox_prompts", prompts, "prompt_id", "approach", "occupation", "prompt", "text", "n_images")
    outcomes = [
        ("mini", s, "naive", o, p, name, n, 5 * n, 20)
        for s, p in (("training", "captions"), ("generated", "1"), ("generated", "2"))
        for o in OCCUPATIONS
        for name, n in (("judged", 17), ("uncertain", 2), ("no_face", 1), ("blocked", 0))
    ]
    keys = ["model", "source", "approach", "occupation", "prompt", "outcome", "n", "percent", "n_images"]
    write("paradox_judgement_outcomes", outcomes, *keys)
    indicators = [
        {
            "corpus": "mini",
            "occupation": o,
            "n": 40,
            "percent_any": 40.0,
            "percent_none": 60.0,
            "percent_female_indicator": 20.0 + k,
            "percent_male_indicator": 15.0 - k,
            "percent_both": 5.0,
            "percent_female": female,
            "n_judged": 40,
            "percent_any_of_female": 50.0 - k,
            "n_female": 10,
            "percent_any_of_male": 30.0 + k,
            "n_male": 10,
        }
        for k, (o, female) in enumerate(each)
    ]
    write("paradox_indicators", indicators)
    words = [("mini", o, f"c-{o}", "female", f"her {o}", "0:3:female-pronoun", "her", "female") for o in OCCUPATIONS]
    keys = ["corpus", "occupation", "caption_id", "indicator", "caption", "spans", "words", "gender"]
    write("paradox_examples", words, *keys)
    chosen = [
        ("mini", a, p, o, 1, f"c-{o}", f"one {o}", 0.5 if a == "nearest" else None)
        for a, p in (("naive", "captions"), ("nearest", "1"))
        for o in OCCUPATIONS
    ]
    keys = ["corpus", "approach", "prompt", "occupation", "rank", "caption_id", "caption", "cosine"]
    write("paradox_selection_examples", chosen, *keys)
    similar = [
        ("mini", a, p, o, text + k / 100, 40, text + 0.2, 40, 12)
        for a, text in (("naive", 0.4), ("nearest", 0.7))
        for p in "12"
        for k, o in enumerate(OCCUPATIONS)
    ]
    keys = ["text_similarity", "n_captions", "image_similarity", "n_training", "n_generated"]
    write("paradox_similarity", similar, "model", "approach", "prompt", "occupation", *keys)
    followed = [
        ("mini", a, o, g, 9, 10, 10, 10, 11)
        for a in ("caption_prompts", "paraphrased")
        for o in OCCUPATIONS
        for g in ("female", "male")
    ]
    keys = ["n_same", "n_pairs", "n_followed", "n_judged", "n_images"]
    write("paradox_gender_words", followed, "model", "approach", "occupation", "indicator", *keys)
    said = [("mini", o, f"c-{o}", "female", f"her {o}", f"a picture of her {o}") for o in OCCUPATIONS]
    write("paradox_paraphrases", said, "corpus", "occupation", "caption_id", "indicator", "caption", "paraphrase")
    return of.parent


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NEED_IMAGES, *WORK_WITHOUT])
def test_a_runs_tables_are_enough_for_all_but_pictures(pytestconfig, tmp_path, capsys, folder, name):
    records = run(pytestconfig.rootpath, name, tmp_path, source=str(folder))
    made = {r["name"] for kind in ("tables", "figures") for r in records[kind]}
    due = {r["output"] for r in coverage.ledger() if r["notebook"] == f"paradox/{name}"}
    pictures = {o for o in due if "gallery" in o}
    assert due - pictures <= made and not pictures & made
    assert capsys.readouterr().out.count("No images: ") >= bool(pictures)
    assert records["findings"]
    for figure in records["figures"]:
        assert "nan" not in figure["caption"].replace("finance", ""), figure
    for finding in records["findings"]:
        # Printed models are told from measured ones, and no result of a model goes without how it was made.
        assert finding["printed"] == finding["model"].startswith("SD"), finding
        assert "nan" not in " ".join([finding["answer"], finding["numbers"], *finding["details"]]), finding
    made_by = [f["caption"] for f in records["figures"]]
    assert all("guidance 3, 12 steps" in caption for caption in made_by)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK_WITHOUT)
def test_printed_numbers_are_enough_for_what_is_printed(pytestconfig, tmp_path, name):
    records = run(pytestconfig.rootpath, name, tmp_path)
    made = {r["name"] for kind in ("tables", "figures") for r in records[kind]}
    for row in coverage.ledger():
        shown = [*row["runs"].split(), *row["reprinted_by"].split()]
        if row["notebook"] == f"paradox/{name}" and "published" in shown:
            assert row["output"] in made, row
    assert {f["model"] for f in records["findings"]} == {"SD 1.4", "SD 1.5"}
    assert all(f["printed"] for f in records["findings"])
    if name == "5_approaches":
        # Of the approaches that lower it the paper prints averages and no shares, so nothing is tested.
        assert all("no interval" in f["numbers"] and not f["decided"] for f in records["findings"])


@pytest.mark.parametrize("name", NEED_IMAGES)
def test_what_takes_images_is_skipped_with_a_reason(pytestconfig, tmp_path, name):
    # A run calls a notebook skipped, and not failed, when it stops with this error.
    with pytest.raises(MissingInputError, match="takes images"):
        run(pytestconfig.rootpath, name, tmp_path, source="published")
    assert not (tmp_path / "records.json").exists()
