"""An environment with biaslab and a judge of another package, but without biaslab-world.

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
# The minimum number of people, classified by the brightness of their image.
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
    """Return a function that runs the environment's Python in its own folder and returns the completed process."""
    folder = tmp_path_factory.mktemp("without") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    inside = folder / ("Scripts" if os.name == "nt" else "bin") / Path(sys.executable).name
    query = [inside, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip())
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        # Neither of the two packages, nor the files that locate them or their entry points.
        if not re.match(r"(_editable_impl_|__editable__[._]*)?(biaslab|__pycache__)", path.name, re.IGNORECASE):
            (site / path.name).symlink_to(path)
    for share in ("share", "etc"):
        if (source_folder := Path(sys.prefix) / share).is_dir() and not (folder / share).exists():
            (folder / share).symlink_to(source_folder)
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation", "--target"]
    for package in (root, EXAMPLE):
        subprocess.run([sys.executable, "-m", "pip", "install", *quiet, site, package], check=True)
    clean_environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "BIASLAB"))}
    work = folder.parent / "work"
    work.mkdir()

    def run(*words):
        env = {**clean_environment, "HF_HUB_OFFLINE": "1"}
        words = [inside, *map(str, words)]
        return subprocess.run(words, capture_output=True, text=True, cwd=work, env=env)

    run.work = work
    return run


@pytest.fixture(scope="module")
def biaslab(python, root):
    """Return a function that runs a command of biaslab, and returns the record of the run that it leaves."""

    def run(name, *words):
        process = python("-m", "biaslab.cli", *words, "--no-progress", "--notebooks-dir", root / "notebooks")
        record = python.work / "outputs" / name / "run.json"
        assert process.returncode == 0, process.stderr
        return json.loads(record.read_text(encoding="utf-8"))

    return run


def test_environment_without_world_has_no_models(python):
    process = python("-c", "import biaslab_world")
    assert process.returncode == 1 and "No module named 'biaslab_world'" in process.stderr
    process = python("-m", "biaslab.cli", "models")
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("No installed package provides a model.")
    # Its names are unknown here, and the error lists the known ones.
    process = python("-m", "biaslab.cli", "audit", "mini")
    assert process.returncode == 2 and "There is no text-to-image model named 'mini'" in process.stderr
    code = "from biaslab.request import Request; Request.from_parameters({'source': 'mini'})"
    process = python("-c", code)
    assert "neither 'published', 'annotations', 'pipeline' nor an existing folder" in process.stderr


def test_published_run_works_without_world(python, biaslab, root):
    chosen = ("--notebook", "paradox/4_*", "--notebook", "dalleval/d_*", "--set", "bootstrap_replicates=100")
    record = biaslab("published", "run", root / "params" / "published.yaml", *chosen)
    statuses = {notebook["id"]: (notebook["status"], notebook["reason"]) for notebook in record["notebooks"]}
    assert statuses == dict.fromkeys(("paradox/4_baseline", "dalleval/d_alignment_quality"), ("ok", ""))
    assert record["status"] == "ok"


def test_audit_without_world_uses_plugin_judge(python, biaslab, monkeypatch):
    tiny = pytest.importorskip("tiny_pipelines")
    from biaslab.papers.paired import prompts as paired_prompts

    sizes = {"per_list": 1}
    query = [paired_prompts.single(**sizes), paired_prompts.controls(**sizes)]
    query += [paired_prompts.paired(setting=setting, **sizes) for setting in ("paired", "intervention")]
    texts = " ".join(text for prompts in query for text in prompts.texts["text"]).lower()
    monkeypatch.setattr(tiny, "WORDS", tuple(dict.fromkeys(re.findall(r"\w+|[^\w\s]", texts))))
    monkeypatch.setattr(tiny, "LENGTH", 60)
    tiny.save("sd1", python.work / "tiny")
    set_options = [word for key, value in AUDIT.items() for word in ("--set", f"{key}={value}")]
    record = biaslab("audited", "audit", "tiny", "--preset", "quick", "--name", "audited", *set_options)
    assert record["status"] == "ok" and [n["status"] for n in record["notebooks"]] == ["ok"] * 2
    people = pd.read_csv(python.work / "outputs/audited/measured/paired_people.csv")
    single_people = people[people["setting"] == "single"]
    # Every image of one person is classified by its brightness; two people cannot be assigned without faces.
    assert set(single_people["status"]) == {"judged"}
    assert single_people["gender"].equals(
        single_people["probability_female"].ge(0.5).map({True: "female", False: "male"})
    )
    assert 0 < single_people["probability_female"].min() < single_people["probability_female"].max() < 1
    assert not set(people.loc[people["setting"] == "paired", "status"]) & {"judged"}
    # One occupation of each list, three times.
    assert len(single_people[single_people["aspect"] == "occupation"]) == 6
