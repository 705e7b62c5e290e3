"""The paradox notebooks on tiny random pipelines of other families: the same notebooks, another name of the model."""

import json
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import tiny_pipelines

from biaslab import lexicons
from biaslab.ground import tables
from biaslab.runs import jobs, params
from biaslab_world import captions

pytestmark = pytest.mark.slow

# Two text encoders beside a U-Net, and both kinds of transformer; mini-sd is of the one family left, sd1 and sd2's.
FAMILIES = ("sdxl", "sd3", "flux")
SMALL = {
    "captions.occupations": "[nurse, engineer]",
    "captions.rows": 6000,
    "captions.per_occupation": 12,
    "captions.candidates_per_occupation": 20,
    "captions.nearest_per_prompt": 6,
    "generation.images_per_prompt": 2,
    "generation.caption_prompts_per_occupation": 2,
    "generation.steps": 2,
    "settings.compare_with": "none",
    # Nothing is brought with other models than the world's.
    "generation.pictures": "drawings",
    "generation.guidance_scale": 1.5,
    "captions.corpus": "mini",
    "judging.faces": "mini-detector",
    "judging.gender": "mini-clip",
}


def test_every_family_goes_through_the_same_notebooks(tmp_path, pytestconfig, monkeypatch):
    spoken = " ".join([*captions.vocabulary(), *lexicons.load("paradox_prompts").values()])
    paraphrases = " ".join(p for options in lexicons.load("paraphrases").values() for p in options)
    words = captions.words(f"{spoken} {paraphrases} nurse engineer")
    monkeypatch.setattr(tiny_pipelines, "WORDS", tuple(dict.fromkeys([*tiny_pipelines.WORDS, *words])))
    folders = {name: tiny_pipelines.save(name, tmp_path / f"tiny-{name}") for name in FAMILIES}
    settings = [f"{name}={value}" for name, value in {**SMALL, "compute.store": tmp_path / "store"}.items()]
    loaded = params.load(
        pytestconfig.rootpath / "world" / "params" / "mini.yaml",
        notebooks=["paradox/4_*"],
        overrides=[
            "run=families",
            "source=pipeline",
            f"model=[{', '.join(map(str, folders.values()))}]",
            "bootstrap_replicates=200",
            *settings,
        ],
    )
    # Figures are drawn and not saved: what a run writes is tested with runs.
    monkeypatch.setattr("biaslab.study.study._save_png", lambda figure, path, page: path.touch())
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)
    planned, found = [replace(job, folder=tmp_path / "outputs") for job in jobs.plan(loaded)], []
    assert [job.variant["model"] for job in planned] == [str(folder) for folder in folders.values()]
    for job in planned:
        space = {}
        for cell in json.loads(job.notebook.path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), space)
                if "parameters" in cell["metadata"].get("tags", ()):
                    space |= job.parameters
        assert not plt.get_fignums()
        file = Path(job.parameters["output_dir"]) / "tables/paradox_percent_female.csv"
        found.append(tables.read(file, "paradox_percent_female"))
    shares = pd.concat(found)
    made = shares[(shares["source"] == "generated") & (shares["approach"] == "naive")]
    # Random weights draw no faces: every image has a labelled reason, every share is missing with n = 0.
    assert set(made["model"]) >= {folder.name for folder in folders.values()}
    mine = made[made["model"].str.startswith("tiny-")]
    assert (mine["n"] <= SMALL["generation.images_per_prompt"]).all()
    assert mine.loc[mine["n"] == 0, "percent_female"].isna().all()
    assert len(mine) == len(folders) * 2 * 4
