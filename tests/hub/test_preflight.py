"""Preflight checks: each model and judge runs on one image before generation; failures are reported together."""

import io
import json
import os
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tiny_checkpoints
import tiny_repositories as tiny
from fake_endpoint import FakeEndpoint, drawn
from huggingface_hub import constants
from PIL import Image

from biaslab import cli
from biaslab.errors import ParameterError
from biaslab.execution import kernels, processor
from biaslab.generation import loading
from biaslab.hub import huggingface as hub_names
from biaslab.judges.faces import WholeImage
from biaslab.papers.dalleval.stages import DallEval
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning import preflight, probes
from biaslab.planning.probes import Trial
from biaslab.planning.records import ModelUse
from biaslab.request import Request
from biaslab.runs import dry_run, jobs, params, runner
from biaslab.study import sources

pytestmark = pytest.mark.long

# Notebooks of few small images.
MINIMAL_SETTINGS = {
    "paired": {"n_occupations": 1, "power_samples": 1, "single_images": 1, "three_person_prompts": 0, "aspect": 1},
    "dalleval": {"n_scenes": 1},
    "generation": {"height": 32, "width": 32, "steps": 1},
}
JUDGES = {
    "judging.faces": WholeImage.prefix,
    "judging.gender": "ViT-B-32:openai",
    "judging.extra_judges": f"vqa:{tiny.VQA}",
}
NOTEBOOKS = ("paired/4_4_overall", "paired/b_d_judges", "dalleval/4_1_paintskills")


@pytest.fixture(autouse=True)
def reset_preflight(monkeypatch, tmp_path):
    """Run preflight checks, without results or commits of earlier ones."""
    monkeypatch.delenv(kernels.PREFLIGHT_DONE)
    monkeypatch.delenv("BIASLAB_CACHE", raising=False)
    monkeypatch.setattr(preflight, "_answered", set())
    monkeypatch.setattr(hub_names, "_commits", {})
    monkeypatch.chdir(tmp_path)


def sets(**changes) -> dict[str, object]:
    minimal = {f"{group}.{name}": value for group, of in MINIMAL_SETTINGS.items() for name, value in of.items()}
    return minimal | JUDGES | {"dalleval.detector": tiny.DETR} | changes


def as_settings(given) -> dict:
    nested = {}
    for key, value in given.items():
        group, name = key.split(".")
        nested.setdefault(group, {})[name] = [value] if name == "further" else value
    return nested


def in_words(given) -> list[str]:
    texts = {k: f"[{v}]" if k == "judging.extra_judges" else v for k, v in given.items()}
    return [w for key, value in texts.items() for w in ("--set", f"{key}={value}")]


def file_of(tmp_path, model, given) -> str:
    parameters = {"run": "mine", "source": "pipeline", "model": model, "notebooks": [*NOTEBOOKS]}
    parameters |= {"settings": as_settings(given), "bootstrap_replicates": 200}
    (tmp_path / "mine.yaml").write_text(json.dumps(parameters))
    return "mine.yaml"


def copy_with_nan(folder, target):
    """Copy a model with all weights NaN."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(folder, target)
    for file in target.rglob("*.safetensors"):
        weights = {k: np.full_like(v, np.nan) if v.dtype.kind == "f" else v for k, v in load_file(file).items()}
        save_file(weights, file, metadata={"format": "pt"})
    return target


def images_made(folder) -> list[str]:
    return [p.parent.parent.name for p in folder.rglob("*.parquet") if "images" in p.parent.parent.name]


@pytest.fixture
def damaged_hub(stocked_for_all, repositories, tmp_path, here):
    """Return the hub with two judges whose weights, and so outputs, are NaN."""
    for name in (tiny.VQA, tiny.DETR):
        stocked_for_all.serve(name, copy_with_nan(repositories(name), tmp_path / "spoilt" / name))
    yield stocked_for_all
    for name in (tiny.VQA, tiny.DETR):
        stocked_for_all.serve(name, repositories(name))


COMMANDS = pytest.mark.parametrize("command", ["audit", "run", "shard", "dry run", "notebook"])


@pytest.fixture
def run_refused(root, tmp_path, capsys):
    """Return a function that runs a command or notebook with settings, and returns its error message."""

    def said(command, given):
        if command == "notebook":
            pipeline = Pipeline(tiny.SD14, Settings.from_mapping(as_settings(given)), progress=False)
            with pytest.raises(ParameterError) as error:
                sources.load_measured("paired_judge_agreement", source="pipeline", pipeline=pipeline)
            return str(error.value)
        file, notebooks_arg = file_of(tmp_path, tiny.SD14, given), f"notebooks=[{', '.join(NOTEBOOKS)}]"
        words = {
            "audit": ["audit", tiny.SD14, "--preset", "quick", *in_words(given), "--set", notebooks_arg],
            "run": ["run", file],
            "shard": ["shard", file, "--shard", "0/2"],
            "dry run": ["run", file, "--dry-run", "--fetch"],
        }
        assert cli.main([*words[command], "--notebooks-dir", str(root / "notebooks"), "--no-progress"]) == 2
        return capsys.readouterr().err

    return said


@COMMANDS
def test_command_reports_all_failing_models_together(tmp_path, damaged_hub, command, run_refused):
    said, failing_models = run_refused(command, sets()), {tiny.VQA} | ({tiny.DETR} if command != "notebook" else set())
    for name in failing_models:
        assert f"{name} returns numbers that are not finite in float32" in said
    assert ("The run has 2 problems and was not started" in said) == (len(failing_models) == 2)
    assert images_made(tmp_path) == [] and not list(tmp_path.glob("outputs/[!.]*"))


@COMMANDS
def test_command_looks_up_all_names_before_fetching(stocked_for_all, command, run_refused):
    stocked_for_all.log.clear()
    said = run_refused(
        command, sets(**{"judging.gender": "ViT-B-32:opneai", "judging.extra_judges": "vqa:Salesforce/blip-vqa-bsae"})
    )
    assert "ViT-B-32 has no weights 'opneai'" in said and "Did you mean 'openai'" in said
    assert "no model 'Salesforce/blip-vqa-bsae', or it is private. Did you mean 'Salesforce/blip-vqa-base'" in said
    assert "The run has 2 problems and was not started" in said and stocked_for_all.fetched() == 0


def test_preflight_failure_keeps_earlier_run(root, tmp_path, damaged_hub, capsys):
    earlier_run = tmp_path / "outputs" / "mine"
    earlier_run.mkdir(parents=True)
    (earlier_run / "run.json").write_text('{"notebooks": [], "notebook_defaults": {}}')
    words = ["run", file_of(tmp_path, tiny.SD14, sets()), "--overwrite", "--no-progress"]
    assert cli.main([*words, "--notebooks-dir", str(root / "notebooks")]) == 2
    assert "not finite" in capsys.readouterr().err and (earlier_run / "run.json").is_file()


def test_dry_run_fetches_only_if_requested(root, tmp_path, stocked_for_all, monkeypatch, here, capsys):
    full_hub = stocked_for_all
    shutil.rmtree(constants.HF_HUB_CACHE, ignore_errors=True)
    full_hub.log.clear()
    words = ["run", file_of(tmp_path, tiny.SD14, sets()), "--dry-run", "--no-progress"]
    words += ["--notebooks-dir", str(root / "notebooks")]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert full_hub.fetched() == 0
    lines = {line.split()[0]: line for line in said.splitlines() if line}
    assert said.splitlines()[0].split("  ")[0] == "setting" and "--fetch downloads and tests them" in said
    for setting, name in (("model", tiny.SD14), ("dalleval.detector", tiny.DETR), ("judging.extra_judges", tiny.VQA)):
        repository = full_hub.repositories[name]
        assert name in lines[setting] and repository.commit[:8] in lines[setting]
        assert " at least " in lines[setting] and " MB " in lines[setting] and "photographs" in lines[setting]
    assert f" to {constants.HF_HUB_CACHE}, which has " in said and " GB free" in said
    assert f"Licence: {tiny.SD14}: openrail++." in said.splitlines()
    with monkeypatch.context() as patch:
        patch.setattr(preflight.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
        assert cli.main([*words, "--fetch"]) == 2
    assert "of weights must be downloaded" in capsys.readouterr().err and full_hub.fetched() == 0
    assert "Memory of cpu: " in said and "Time on this machine" not in said and "Images: " in said
    assert cli.main([*words, "--fetch"]) == 0
    said = capsys.readouterr().out
    lines = {line.split()[0]: line for line in said.splitlines() if line}
    assert full_hub.fetched(of=tiny.SD14) > 0 and " none " in lines["model"] and "at least" not in lines["model"]
    assert "Time on this machine: " in said and "Download" not in said


def test_dry_run_names_lora_and_commit(root, tmp_path, stocked_for_all, repositories, here, monkeypatch, capsys):
    full_hub = stocked_for_all
    shutil.rmtree(constants.HF_HUB_CACHE, ignore_errors=True)
    # Only its presence is checked.
    monkeypatch.setattr(loading.metadata, "version", lambda package: "0")
    lora = tmp_path / "lora" / "pytorch_lora_weights.safetensors"
    tiny_checkpoints.lora(repositories(tiny.SD14), lora)
    commit = full_hub.serve("owner/lora", lora.parent).commit
    full_hub.log.clear()
    name = f"{tiny.SD14}+owner/lora:0.5"
    words = ["run", file_of(tmp_path, name, sets()), "--dry-run", "--no-progress"]
    assert cli.main([*words, "--notebooks-dir", str(root / "notebooks")]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("model "))
    assert name in line and f"{full_hub.repositories[tiny.SD14].commit[:8]}, {commit[:8]}" in line
    assert full_hub.fetched() == 0


# -- endpoints, and plugin judges ----------------------------------------------------------------------------

JUDGE = '''
import os, pathlib, signal

class Picky:
    """Certain for squares of 256 pixels; its argument decides about others."""

    def __init__(self, argument, *, device, batch_size):
        self.does = argument
        with open(pathlib.Path(__file__).with_name("loaded"), "a") as file:
            file.write("x")

    def judge(self, people):
        if self.does == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "exit":
            os._exit(3)
        if self.does == "fail" and any(person.image.shape[0] != 256 for person in people):
            raise KeyError("no square")
        return [("female", 0.97)] * len(people)
'''


@pytest.fixture
def picky(tmp_path, monkeypatch):
    """Install a plugin judge, also for child processes; return the file that counts its loads."""
    package = tmp_path / "package"
    (told := package / "picky-1.dist-info").mkdir(parents=True)
    (package / "picky_judge.py").write_text(JUDGE)
    (told / "entry_points.txt").write_text("[biaslab.judges]\npicky = picky_judge:Picky\n")
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: picky\nVersion: 1\n")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]))
    yield package / "loaded"
    sys.modules.pop("picky_judge", None)


@pytest.fixture
def shop():
    """Return an endpoint that sells a different small image for each request."""

    def reply(question, n):
        file = io.BytesIO()
        Image.fromarray(np.random.default_rng(n).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(file, "PNG")
        return drawn(file.getvalue())

    with FakeEndpoint().running() as server:
        server.reply = reply
        yield server


def audit(root, tmp_path, shop, does) -> int:
    given = {"judging.faces": WholeImage.prefix, "judging.gender": f"plugin:picky:{does}", "bootstrap_replicates": 200}
    given |= {f"paired.{name}": value for name, value in MINIMAL_SETTINGS["paired"].items()} | {
        "paired.n_occupations": 2
    }
    given |= {"endpoint.url": shop.url, "endpoint.price": 0.01, "endpoint.cost_limit": 10}
    given |= {"endpoint.api_key_env": "''", "jobs": 1}
    words = ["audit", "endpoint:seller", "--preset", "quick", "--name", "a", "--no-progress", *in_words(given)]
    words += ["--set", f"notebooks=[{NOTEBOOKS[0]}]"]
    return cli.main([*words, "--notebooks-dir", str(root / "notebooks")])


@pytest.mark.parametrize(
    ("does", "sold", "message"),
    [
        ("fail", 1, "judging.gender: plugin:picky:fail failed: KeyError: 'no square'"),
        ("die", 0, "its process was killed, probably because it does not fit in memory ("),
        ("exit", 0, "'plugin:picky:exit': its process ended with exit status 3"),
    ],
)
def test_broken_judge_costs_at_most_one_bought_image(root, tmp_path, shop, picky, does, sold, message, capsys, request):
    if does == "fail":
        request.getfixturevalue("inline")
    assert audit(root, tmp_path, shop, does) == 2
    assert len(shop.requests) == sold and message in capsys.readouterr().err
    # Loaded once for all its checks.
    assert picky.read_text() == "x"


def test_working_judges_buy_all_images_once(root, tmp_path, shop, picky, inline, capsys):
    assert audit(root, tmp_path, shop, "judge") == 0
    told = capsys.readouterr().out
    (record,) = tmp_path.glob("outputs/a/run.json")
    assert json.loads(record.read_text())["status"] == "ok"
    # The image of the preflight check is one of them.
    bought_files = [p for p in tmp_path.rglob("*.png") if "bought_images" in str(p)]
    assert len(shop.requests) == len(bought_files) > 20
    assert pd.read_csv(tmp_path / "outputs/a/measured/paired_percent_female.csv")["n"].sum() > 20
    table = next(line for line in told.splitlines() if line.startswith("model "))
    assert "0.01" in table and "photographs" in table


# -- memory ------------------------------------------------------------------------------------------------


def test_out_of_memory_trial_names_settings_that_fit(folders, monkeypatch):
    class OutOfMemoryError(RuntimeError):
        """Like torch's."""

    def work():
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    free = {"cuda": (2 * 10**9, 8 * 10**9), "cpu": (20 * 10**9, 24 * 10**9)}
    monkeypatch.setattr(processor, "memory", lambda device="cpu": free[device])
    settings = Settings.from_mapping({"compute": {"device": "cuda"}})
    trial = Trial(ModelUse("model", folders("sd1"), "text-to-image"), Request("pipeline", folders("sd1"), settings))
    said = probes._problem(trial, work)
    assert "it does not fit in the GPU's memory (2.0 of 8.0 GB are free)" in said
    assert (
        "generation.dtype to bfloat16" in said
        and "set compute.offload to model" in said
        and "compute.device to cpu, which has enough memory" in said
    )


def load_scene_run(root, given):
    """Return a run of the notebook of scenes, with settings."""
    text = {"run": "r", "source": "pipeline", "model": "mini", "notebooks": ["dalleval/4_1_*"], "settings": given}
    return params.load(runner.PARAMS, given=text, notebooks_dir=root / "notebooks")


def test_preflight_of_cached_images_runs_no_trial(root, tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "_run_trials_in_process", None)
    given = {"dalleval": {"n_scenes": 1, "social_images": 1}}
    run_parameters = load_scene_run(root, given)
    (opened,) = jobs.pipelines(jobs.plan(run_parameters))
    with pytest.raises(TypeError):
        dry_run.run_preflight(jobs.plan(run_parameters))
    opened.pipeline.part(DallEval).images("skills")
    assert dry_run.run_preflight(jobs.plan(run_parameters)).trials == []


def test_run_preflight_existing_images_tries_their_judges(root, tmp_path, monkeypatch):
    (tmp_path / "photos" / "nurse").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "nurse" / "1.png")
    tried_models = []

    def record(pending, purchases, **_):
        tried_models.extend(trial.use.name for trial in pending)
        return [probes.TrialResult() for _ in pending]

    monkeypatch.setattr(preflight, "_run_trials_in_process", record)
    judges = {"faces": WholeImage.prefix, "gender": "endpoint:x"}
    given = {"judging": judges, "vision": {"price": 0}, "endpoint": {"url": "http://127.0.0.1:1", "api_key_env": ""}}
    text = {"run": "r", "source": "pipeline", "model": f"images:{tmp_path / 'photos'}", "settings": given}
    text["notebooks"] = ["custom/shares"]
    run_parameters = params.load(runner.PARAMS, given=text, notebooks_dir=root / "notebooks")
    dry_run.run_preflight(jobs.plan(run_parameters))
    assert "endpoint:x" in tried_models


def test_preflight_on_cluster_runs_no_local_trial(root, tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "_run_trials_in_process", None)
    given = {"dalleval": {"n_scenes": 1}, "compute": {"engine": "dask", "address": "10.0.0.1:8786"}}
    run_parameters = load_scene_run(root, given)
    opened = [
        jobs.OpenPipeline(
            Pipeline("mini", Settings.from_mapping(given), progress=False), {"dalleval_skill_accuracy"}, set()
        )
    ]
    monkeypatch.setattr(jobs, "pipelines", lambda planned: opened)
    result = dry_run.run_preflight(jobs.plan(run_parameters))
    assert {part.use.setting for part in result.trials} == {"dalleval.detector", "model"}
    assert all(part.result is None for part in result.trials) and result.costs == {}
