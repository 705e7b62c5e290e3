"""The paradox notebooks, cell by cell, on synthetic measurements without images."""

import numpy as np
import pandas as pd
import pytest

from biaslab.captions.settings import APPROACHES, SELECTED
from biaslab.errors import MissingInputError
from biaslab.papers.paradox import printed
from biaslab.runs import replication_status

pytestmark = pytest.mark.long

NEED_IMAGES = ("2_setup", "5_1_indicators", "5_2_nearest", "6_caption_prompts", "a_6_paraphrases")
WORK_WITHOUT = ("4_baseline", "5_approaches", "8_prompts")
OCCUPATIONS = {"nurse": 89, "teacher": 63, "author": 43, "lawyer": 28, "engineer": 21, "pilot": 30, "ceo": 15}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write every measured table of the pipeline, for a few occupations, in the layout of a run's output."""
    rng = np.random.default_rng(2)
    measured_folder = tmp_path_factory.mktemp("run") / "measured"
    measured_folder.mkdir()

    def write(name, rows, *columns):
        pd.DataFrame(rows, columns=columns or None).to_csv(measured_folder / f"{name}.csv", index=False)

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
    setting_values = {
        "captions.corpus": "mini",
        "captions.name_recognizer": "gazetteer",
        "generation.images_per_caption": 1,
    }
    setting_values |= {"generation.guidance_scale": 3.0, "generation.steps": 12}
    settings = [("mini", *s, "It is set.") for s in setting_values.items()]
    write("pipeline_settings", settings, "model", "setting", "set_to", "description")
    counts = ["n_captions", "n_corpus", "n_sampled", "n_candidates"]
    caption_counts = [("mini", o, 500 + 10 * k, 9000, 200, 400) for k, o in enumerate(OCCUPATIONS)]
    write("paradox_caption_counts", caption_counts, "corpus", "occupation", *counts)
    prompts = [(f"p{p}-{o}", "naive", o, p, f"Photo {p} of: {o}", 12) for p in "1234" for o in OCCUPATIONS]
    write("paradox_prompts", prompts, "prompt_id", "approach", "occupation", "prompt", "text", "n_images")
    outcomes = [
        ("mini", s, "naive", o, p, name, n, 5 * n, 20)
        for s, p in (("training", "captions"), ("generated", "1"), ("generated", "2"))
        for o in OCCUPATIONS
        for name, n in (("judged", 17), ("uncertain", 2), ("no_face", 1), ("blocked", 0))
    ]
    keys = ["model", "source", "approach", "occupation", "prompt", "status", "n", "percent", "n_images"]
    write("paradox_judgement_outcomes", outcomes, *keys)
    same = {"corpus": "mini", "n": 40, "percent_any": 40.0, "percent_none": 60.0, "percent_both": 5.0, "n_judged": 40}
    same |= {"n_female": 10, "n_male": 10}
    indicators = [
        same
        | {"occupation": o, "percent_female": female, "percent_female_indicator": 20.0 + k}
        | {"percent_male_indicator": 15.0 - k, "percent_any_of_female": 50.0 - k, "percent_any_of_male": 30.0 + k}
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
    paraphrases = [("mini", o, f"c-{o}", "female", f"her {o}", f"a picture of her {o}") for o in OCCUPATIONS]
    write(
        "paradox_paraphrases", paraphrases, "corpus", "occupation", "caption_id", "indicator", "caption", "paraphrase"
    )
    return measured_folder.parent


@pytest.mark.parametrize("name", [*NEED_IMAGES, *WORK_WITHOUT])
def test_notebooks_of_tables_make_all_but_galleries(monkeypatch, notebook, capsys, folder, name):
    monkeypatch.setattr("biaslab.study.study._lay_out", lambda figure: None)
    records = notebook(f"paradox/{name}", source=str(folder))
    outputs = {r["name"] for kind in ("tables", "figures") for r in records[kind]}
    expected_outputs = {r["output"] for r in replication_status.entries() if r["notebook"] == f"paradox/{name}"}
    pictures = {o for o in expected_outputs if "gallery" in o}
    assert expected_outputs - pictures <= outputs and not pictures & outputs
    assert capsys.readouterr().out.count("No images: ") >= bool(pictures)
    assert records["findings"]
    for figure in records["figures"]:
        assert "nan" not in figure["caption"].replace("finance", ""), figure
    for finding in records["findings"]:
        # Printed models are marked, and results of models state the generation settings.
        assert finding["printed"] == finding["model"].startswith("SD"), finding
        assert "nan" not in " ".join([finding["answer"], finding["numbers"], *finding["details"]]), finding
    made_by = [f["caption"] for f in records["figures"]]
    assert all("guidance scale 3, 12 denoising steps" in caption for caption in made_by)


@pytest.mark.parametrize("name", NEED_IMAGES)
def test_notebooks_without_images_are_skipped(tmp_path, notebook, name):
    # A run calls a notebook skipped, and not failed, when it stops with this error.
    with pytest.raises(MissingInputError, match="measured on images"):
        notebook(f"paradox/{name}", source="published")
    assert not list(tmp_path.rglob("records.json"))
