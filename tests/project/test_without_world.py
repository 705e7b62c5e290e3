"""Without the package of drawings: in an environment that has biaslab and a judge of somebody else's, all else works.

The environment is one of its own, whose libraries are links to those that are installed here.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pandas as pd
import pytest

pytestmark = pytest.mark.long
EXAMPLE = Path(__file__).parents[1] / "judges" / "example_judge"
# As few people as there can be, judged by how bright their image is.
AUDIT = {
    "notebooks": '["paired/3_2_prompts", "paired/4_4_overall"]',
    "paired.n_occupations": 1,
    "paired.power_samples": 1,
    "paired.three_person_prompts": 0,
    "critic.rounds": 0,
    "generation.steps": 1,
    "judging.gender": "plugin:brightness",
    "judging.faces": "whole image",
    "judging.threshold": 0.5,
    "bootstrap_replicates": 100,
}


@pytest.fixture(scope="module")
def python(tmp_path_factory, root):
    """Return a function that runs the environment's Python in a folder of its own, and returns what it did."""
    folder = tmp_path_factory.mktemp("without") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    inside = folder / ("Scripts" if os.name == "nt" else "bin") / Path(sys.executable).name
    asked = [inside, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        # Neither of the two packages, nor what says where they or their entry points are.
        if not re.match(r"(_editable_impl_|__editable__[._]*)?(biaslab|__pycache__)", path.name, re.IGNORECASE):
            (site / path.name).symlink_to(path)
    for share in ("share", "etc"):
        if (there := Path(sys.prefix) / share).is_dir() and not (folder / share).exists():
            (folder / share).symlink_to(there)
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation", "--target"]
    for package in (root, EXAMPLE):
        subprocess.run([sys.executable, "-m", "pip", "install", *quiet, site, package], check=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "BIASLAB"))}
    work = folder.parent / "work"
    work.mkdir()

    def run(*words):
        env = {**kept, "HF_HUB_OFFLINE": "1"}
        words = [inside, *map(str, words)]
        return subprocess.run(words, capture_output=True, text=True, cwd=work, env=env)

    run.work = work
    return run


@pytest.fixture(scope="module")
def biaslab(python, root):
    """Return a function that runs a command of biaslab, and returns the record of the run that it leaves."""

    def run(name, *words):
        done = python("-m", "biaslab.cli", *words, "--no-progress", "--notebooks-dir", root / "notebooks")
        record = python.work / "outputs" / name / "run.json"
        assert done.returncode == 0, done.stderr
        return json.loads(record.read_text(encoding="utf-8"))

    return run


def test_nothing_of_it_is_there(python):
    done = python("-c", "import biaslab_world")
    assert done.returncode == 1 and "No module named 'biaslab_world'" in done.stderr
    done = python("-m", "biaslab.cli", "models")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("No installed package provides a model.")
    # Its names are no names here, and what says so names what there is.
    done = python("-m", "biaslab.cli", "audit", "mini")
    assert done.returncode == 2 and "There is no text-to-image model named 'mini'" in done.stderr
    code = "from biaslab.request import Request; Request.from_parameters({'source': 'mini'})"
    done = python("-c", code)
    assert "neither 'published', 'annotations', 'pipeline' nor an existing folder" in done.stderr


def test_the_papers_numbers_are_computed(python, biaslab, root):
    chosen = ("--notebook", "paradox/4_*", "--notebook", "dalleval/d_*", "--set", "bootstrap_replicates=100")
    record = biaslab("published", "run", root / "params" / "published.yaml", *chosen)
    found = {notebook["id"]: (notebook["status"], notebook["reason"]) for notebook in record["notebooks"]}
    assert found == dict.fromkeys(("paradox/4_baseline", "dalleval/d_alignment_quality"), ("ok", ""))
    assert record["status"] == "ok"


def test_a_model_in_a_folder_is_audited_by_a_judge_of_another_package(python, biaslab, monkeypatch):
    tiny = pytest.importorskip("tiny_pipelines")
    from biaslab.papers.paired import prompts as paired_prompts

    few = {"per_list": 1}
    asked = [paired_prompts.single(**few), paired_prompts.controls(**few)]
    asked += [paired_prompts.paired(setting=setting, **few) for setting in ("paired", "intervention")]
    texts = " ".join(text for prompts in asked for text in prompts.texts["text"]).lower()
    monkeypatch.setattr(tiny, "WORDS", tuple(dict.fromkeys(re.findall(r"\w+|[^\w\s]", texts))))
    monkeypatch.setattr(tiny, "LENGTH", 60)
    tiny.save("sd1", python.work / "tiny")
    given = [word for key, value in AUDIT.items() for word in ("--set", f"{key}={value}")]
    record = biaslab("audited", "audit", "tiny", "--preset", "quick", "--name", "audited", *given)
    assert record["status"] == "ok" and [n["status"] for n in record["notebooks"]] == ["ok"] * 2
    people = pd.read_csv(python.work / "outputs/audited/measured/paired_people.csv")
    alone = people[people["setting"] == "single"]
    # Every image of one person is judged, by its brightness alone; where two stand, no face says who is who.
    assert set(alone["status"]) == {"judged"}
    assert alone["gender"].equals(alone["probability_female"].ge(0.5).map({True: "female", False: "male"}))
    assert 0 < alone["probability_female"].min() < alone["probability_female"].max() < 1
    assert not set(people.loc[people["setting"] == "paired", "status"]) & {"judged"}
    # One occupation of each list, three times.
    assert len(alone[alone["aspect"] == "occupation"]) == 6
