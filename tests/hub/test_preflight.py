"""Before the first image every model and judge of a run answers on one picture; what does not is told together."""

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
LEAST = {
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
def rehearsed(monkeypatch, tmp_path):
    """Rehearse, with nothing that was tried, or looked up, before."""
    monkeypatch.delenv(kernels.PREFLIGHT_DONE)
    monkeypatch.delenv("BIASLAB_CACHE", raising=False)
    monkeypatch.setattr(preflight, "_answered", set())
    monkeypatch.setattr(hub_names, "_commits", {})
    monkeypatch.chdir(tmp_path)


def sets(**changes) -> dict[str, object]:
    least = {f"{group}.{name}": value for group, of in LEAST.items() for name, value in of.items()}
    return least | JUDGES | {"dalleval.detector": tiny.DETR} | changes


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
    whole = {"run": "mine", "source": "pipeline", "model": model, "notebooks": [*NOTEBOOKS]}
    whole |= {"settings": as_settings(given), "bootstrap_replicates": 200}
    (tmp_path / "mine.yaml").write_text(json.dumps(whole))
    return "mine.yaml"


def spoilt(folder, to):
    """Copy a model of which no weight is a number."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(folder, to)
    for file in to.rglob("*.safetensors"):
        weights = {k: np.full_like(v, np.nan) if v.dtype.kind == "f" else v for k, v in load_file(file).items()}
        save_file(weights, file, metadata={"format": "pt"})
    return to


def images_made(folder) -> list[str]:
    return [p.parent.parent.name for p in folder.rglob("*.parquet") if "images" in p.parent.parent.name]


@pytest.fixture
def damaged(stocked_for_all, repositories, tmp_path, here):
    """Return the hub where two judges give what are no numbers, as their weights are damaged."""
    for name in (tiny.VQA, tiny.DETR):
        stocked_for_all.serve(name, spoilt(repositories(name), tmp_path / "spoilt" / name))
    yield stocked_for_all
    for name in (tiny.VQA, tiny.DETR):
        stocked_for_all.serve(name, repositories(name))


COMMANDS = pytest.mark.parametrize("command", ["audit", "run", "shard", "dry run", "notebook"])


@pytest.fixture
def refused(root, tmp_path, capsys):
    """Return a function that lets a command, or a notebook, begin with settings, and returns why it does not."""

    def said(command, given):
        if command == "notebook":
            pipeline = Pipeline(tiny.SD14, Settings.from_mapping(as_settings(given)), progress=False)
            with pytest.raises(ParameterError) as error:
                sources.load_measured("paired_judge_agreement", source="pipeline", pipeline=pipeline)
            return str(error.value)
        file, only = file_of(tmp_path, tiny.SD14, given), f"notebooks=[{', '.join(NOTEBOOKS)}]"
        words = {
            "audit": ["audit", tiny.SD14, "--preset", "quick", *in_words(given), "--set", only],
            "run": ["run", file],
            "shard": ["shard", file, "--shard", "0/2"],
            "dry run": ["run", file, "--dry-run", "--fetch"],
        }
        assert cli.main([*words[command], "--notebooks-dir", str(root / "notebooks"), "--no-progress"]) == 2
        return capsys.readouterr().err

    return said


@COMMANDS
def test_each_command_tries_all_and_tells_together_what_does_not_answer(tmp_path, damaged, command, refused):
    said, named = refused(command, sets()), {tiny.VQA} | ({tiny.DETR} if command != "notebook" else set())
    for name in named:
        assert f"{name} returns numbers that are not finite in float32" in said
    assert ("The run has 2 problems and was not started" in said) == (len(named) == 2)
    assert images_made(tmp_path) == [] and not list(tmp_path.glob("outputs/[!.]*"))


@COMMANDS
def test_each_command_looks_names_up_before_it_fetches_any(stocked_for_all, command, refused):
    stocked_for_all.log.clear()
    said = refused(
        command, sets(**{"judging.gender": "ViT-B-32:opneai", "judging.extra_judges": "vqa:Salesforce/blip-vqa-bsae"})
    )
    assert "ViT-B-32 has no weights 'opneai'" in said and "Did you mean 'openai'" in said
    assert "no model 'Salesforce/blip-vqa-bsae', or it is private. Did you mean 'Salesforce/blip-vqa-base'" in said
    assert "The run has 2 problems and was not started" in said and stocked_for_all.fetched() == 0


def test_an_earlier_run_stays_where_another_cannot_begin(root, tmp_path, damaged, capsys):
    earlier = tmp_path / "outputs" / "mine"
    earlier.mkdir(parents=True)
    (earlier / "run.json").write_text('{"notebooks": [], "notebook_defaults": {}}')
    words = ["run", file_of(tmp_path, tiny.SD14, sets()), "--overwrite", "--no-progress"]
    assert cli.main([*words, "--notebooks-dir", str(root / "notebooks")]) == 2
    assert "not finite" in capsys.readouterr().err and (earlier / "run.json").is_file()


def test_a_dry_run_fetches_nothing_unless_it_is_told_to(root, tmp_path, stocked_for_all, monkeypatch, here, capsys):
    stocked = stocked_for_all
    shutil.rmtree(constants.HF_HUB_CACHE, ignore_errors=True)
    stocked.log.clear()
    words = ["run", file_of(tmp_path, tiny.SD14, sets()), "--dry-run", "--no-progress"]
    words += ["--notebooks-dir", str(root / "notebooks")]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert stocked.fetched() == 0
    lines = {line.split()[0]: line for line in said.splitlines() if line}
    assert said.splitlines()[0].split("  ")[0] == "setting" and "--fetch downloads and tests them" in said
    for setting, name in (("model", tiny.SD14), ("dalleval.detector", tiny.DETR), ("judging.extra_judges", tiny.VQA)):
        repository = stocked.repositories[name]
        assert name in lines[setting] and repository.commit[:8] in lines[setting]
        assert " at least " in lines[setting] and " MB " in lines[setting] and "photographs" in lines[setting]
    assert f" to {constants.HF_HUB_CACHE}, which has " in said and " GB free" in said
    assert f"Licence: {tiny.SD14}: openrail++." in said.splitlines()
    with monkeypatch.context() as patch:
        patch.setattr(preflight.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
        assert cli.main([*words, "--fetch"]) == 2
    assert "of weights must be downloaded" in capsys.readouterr().err and stocked.fetched() == 0
    assert "Memory of cpu: " in said and "Time on this machine" not in said and "Images: " in said
    assert cli.main([*words, "--fetch"]) == 0
    said = capsys.readouterr().out
    lines = {line.split()[0]: line for line in said.splitlines() if line}
    assert stocked.fetched(of=tiny.SD14) > 0 and " none " in lines["model"] and "at least" not in lines["model"]
    assert "Time on this machine: " in said and "Download" not in said


def test_a_dry_run_says_which_lora_of_which_commit(
    root, tmp_path, stocked_for_all, repositories, here, monkeypatch, capsys
):
    stocked = stocked_for_all
    shutil.rmtree(constants.HF_HUB_CACHE, ignore_errors=True)
    # Whether it is here is asked, and not what it does.
    monkeypatch.setattr(loading.metadata, "version", lambda package: "0")
    lora = tmp_path / "lora" / "pytorch_lora_weights.safetensors"
    tiny_checkpoints.lora(repositories(tiny.SD14), lora)
    commit = stocked.serve("owner/lora", lora.parent).commit
    stocked.log.clear()
    name = f"{tiny.SD14}+owner/lora:0.5"
    words = ["run", file_of(tmp_path, name, sets()), "--dry-run", "--no-progress"]
    assert cli.main([*words, "--notebooks-dir", str(root / "notebooks")]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("model "))
    assert name in line and f"{stocked.repositories[tiny.SD14].commit[:8]}, {commit[:8]}" in line
    assert stocked.fetched() == 0


# -- endpoints, and judges of other packages -----------------------------------------------------------------

JUDGE = '''
import os, pathlib, signal

class Picky:
    """Sure of all squares of 256 pixels; what it does with others, its argument says."""

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
    """Install a judge of another package, for processes too; return the file that counts how often it was loaded."""
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
    """Return an endpoint that sells another small picture for each request."""

    def reply(question, n):
        file = io.BytesIO()
        Image.fromarray(np.random.default_rng(n).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(file, "PNG")
        return drawn(file.getvalue())

    with FakeEndpoint().running() as server:
        server.reply = reply
        yield server


def audit(root, tmp_path, shop, does) -> int:
    given = {"judging.faces": WholeImage.prefix, "judging.gender": f"plugin:picky:{does}", "bootstrap_replicates": 200}
    given |= {f"paired.{name}": value for name, value in LEAST["paired"].items()} | {"paired.n_occupations": 2}
    given |= {"endpoint.url": shop.url, "endpoint.price": 0.01, "endpoint.cost_limit": 10}
    given |= {"endpoint.api_key_env": "''", "jobs": 1}
    words = ["audit", "endpoint:seller", "--preset", "quick", "--name", "a", "--no-progress", *in_words(given)]
    words += ["--set", f"notebooks=[{NOTEBOOKS[0]}]"]
    return cli.main([*words, "--notebooks-dir", str(root / "notebooks")])


@pytest.mark.parametrize(
    ("does", "sold", "message"),
    [
        ("fail", 1, "judging.gender: plugin:picky:fail fails: KeyError: 'no square'"),
        ("die", 0, "its process was killed, probably because it does not fit in memory, of which "),
        ("exit", 0, "'plugin:picky:exit': its process ended with exit status 3"),
    ],
)
def test_of_a_seller_one_image_is_bought_at_most_where_a_judge_is_broken(
    root, tmp_path, shop, picky, does, sold, message, capsys, request
):
    if does == "fail":
        request.getfixturevalue("inline")
    assert audit(root, tmp_path, shop, does) == 2
    assert len(shop.requests) == sold and message in capsys.readouterr().err
    # Once for all that it looks at.
    assert picky.read_text() == "x"


def test_of_a_seller_all_is_bought_where_all_judges_have_answered(root, tmp_path, shop, picky, inline, capsys):
    assert audit(root, tmp_path, shop, "judge") == 0
    told = capsys.readouterr().out
    (record,) = tmp_path.glob("outputs/a/run.json")
    assert json.loads(record.read_text())["status"] == "ok"
    # The one of the rehearsal is one of them.
    kept = [p for p in tmp_path.rglob("*.png") if "bought_images" in str(p)]
    assert len(shop.requests) == len(kept) > 20
    assert pd.read_csv(tmp_path / "outputs/a/measured/paired_percent_female.csv")["n"].sum() > 20
    table = next(line for line in told.splitlines() if line.startswith("model "))
    assert "0.01" in table and "photographs" in table


# -- memory ------------------------------------------------------------------------------------------------


def test_what_does_not_fit_in_memory_is_told_with_what_would_fit(folders, monkeypatch):
    class OutOfMemoryError(RuntimeError):
        """As torch has it."""

    def work():
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    free = {"cuda": (2 * 10**9, 8 * 10**9), "cpu": (20 * 10**9, 24 * 10**9)}
    monkeypatch.setattr(processor, "memory", lambda device="cpu": free[device])
    settings = Settings.from_mapping({"compute": {"device": "cuda"}})
    trial = Trial(ModelUse("model", folders("sd1"), "text-to-image"), Request("pipeline", folders("sd1"), settings))
    said = probes._problem(trial, work)
    assert "it does not fit in the GPU's memory, of which 2.0 of 8.0 GB are free" in said
    assert "generation.dtype to bfloat16" in said and "compute.device to cpu, which has enough memory" in said


def of_scenes(root, given):
    """Return a run of the notebook that draws scenes, with settings."""
    text = {"run": "r", "source": "pipeline", "model": "mini", "notebooks": ["dalleval/4_1_*"], "settings": given}
    return params.load(runner.PARAMS, given=text, notebooks_dir=root / "notebooks")


def test_a_run_whose_images_are_there_tries_nothing(root, tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "_run_trials_in_process", None)
    given = {"dalleval": {"n_scenes": 1, "social_images": 1}}
    checked = of_scenes(root, given)
    (opened,) = jobs.pipelines(jobs.plan(checked))
    with pytest.raises(TypeError):
        dry_run.run_preflight(jobs.plan(checked))
    opened.pipeline.part(DallEval).images("skills")
    assert dry_run.run_preflight(jobs.plan(checked)).trials == []


def test_run_preflight_existing_images_tries_their_judges(root, tmp_path, monkeypatch):
    (tmp_path / "photos" / "nurse").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "nurse" / "1.png")
    tried = []

    def record(pending, purchases, **_):
        tried.extend(trial.use.name for trial in pending)
        return [probes.TrialResult() for _ in pending]

    monkeypatch.setattr(preflight, "_run_trials_in_process", record)
    judges = {"faces": WholeImage.prefix, "gender": "endpoint:x"}
    given = {"judging": judges, "vision": {"price": 0}, "endpoint": {"url": "http://127.0.0.1:1", "api_key_env": ""}}
    text = {"run": "r", "source": "pipeline", "model": f"images:{tmp_path / 'photos'}", "settings": given}
    text["notebooks"] = ["custom/shares"]
    checked = params.load(runner.PARAMS, given=text, notebooks_dir=root / "notebooks")
    dry_run.run_preflight(jobs.plan(checked))
    assert "endpoint:x" in tried


def test_on_a_cluster_nothing_is_tried_on_this_machine(root, tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "_run_trials_in_process", None)
    given = {"dalleval": {"n_scenes": 1}, "compute": {"engine": "dask", "address": "10.0.0.1:8786"}}
    checked = of_scenes(root, given)
    opened = [
        jobs.OpenPipeline(
            Pipeline("mini", Settings.from_mapping(given), progress=False), {"dalleval_skill_accuracy"}, set()
        )
    ]
    monkeypatch.setattr(jobs, "pipelines", lambda planned: opened)
    found = dry_run.run_preflight(jobs.plan(checked))
    assert {part.use.setting for part in found.trials} == {"dalleval.detector", "model"}
    assert all(part.result is None for part in found.trials) and found.costs == {}
