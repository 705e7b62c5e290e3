"""End-to-end audits of real names through a local hub: tiny checkpoints and all judges of the parameter files."""

import importlib.util
import itertools
import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tiny_repositories as tiny
from fake_endpoint import KEY, FakeEndpoint, completion, drawn, picture
from PIL import Image

from biaslab import cli
from biaslab.execution import kernels
from biaslab.judges.faces import WholeImage
from biaslab.judges.pinned import PINNED, YUNET
from biaslab.papers.paired import prompts as paired_prompts
from biaslab.runs import params, replication_status
from biaslab.schema import tables

pytestmark = pytest.mark.long

# The minimum that each notebook needs, with small images.
IMAGES = {
    **{f"generation.{k}": v for k, v in {"height": 32, "width": 32, "steps": 2}.items()},
    "bootstrap_replicates": 200,
}
# Only for runs with captions: elsewhere these settings are refused.
OF_CAPTIONS = {"generation.images_per_prompt": 2, "generation.caption_prompts_per_occupation": 2}
CAPTIONS = {"per_occupation": 4, "candidates_per_occupation": 8, "nearest_per_prompt": 3}
PEOPLE = {"n_occupations": 1, "power_samples": 1, "single_images": 1, "three_person_prompts": 2}
SCENES = {"n_scenes": 2, "n_professions": 2, "social_images": 2, "calibration_images": 10}
TRIPLETS = {
    **{"n_triplets": 2, "images_per_prompt": 1, "n_professions": 2},
    **{"single_triplet_images": 2, "calibration_images": 10},
}
MINIMAL_SETTINGS = {
    "captions": CAPTIONS | {"occupations": ["nurse", "engineer"]},
    "paired": PEOPLE | {"aspect": 1},
    "dalleval": SCENES,
    "triplets": TRIPLETS,
}
OCCUPATIONS = ("nurse", "engineer")


@pytest.fixture(autouse=True)
def stand_apart(stocked_for_all, monkeypatch, tmp_path):
    """Change to a temporary folder, with an empty cache."""
    # A subset of the occupations with power roles: each needs eight images of the same case.
    power_subset, original = paired_prompts.power_occupations()[::6], paired_prompts.sampled_roles
    monkeypatch.setattr(
        paired_prompts,
        "sampled_roles",
        lambda *args: {k: v for k, v in original(*args).items() if k[1] in power_subset},
    )
    monkeypatch.delenv("BIASLAB_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)


# Images of random networks have no faces: with a detector no person could be judged. With this setting all are.
FACES = {"judging.faces": WholeImage.prefix}


@pytest.fixture
def yunet():
    """Keep the face detector of the parameter files if its package is installed, else judge whole images."""
    return {} if importlib.util.find_spec(PINNED[YUNET].module) else FACES


@pytest.fixture
def captions(tmp_path):
    """Write captions of two occupations with and without a gender, and an image for each."""
    words = itertools.product(OCCUPATIONS, ("woman", "man", "person"), ("in a park", "at work", "with a red hat"))
    rows = [(f"A {who} who is a {job} {where}.", f"{k:03}") for k, (job, who, where) in enumerate(words)]
    rows += [
        (f"The {job} {where}.", f"1{k:02}")
        for k, (job, _, where) in enumerate(itertools.product(OCCUPATIONS, "ab", ("smiles", "reads a book")))
    ]
    rng, images = np.random.default_rng(0), tmp_path / "images"
    images.mkdir()
    for _, key in rows:
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(images / f"{key}.png")
    file = tmp_path / "captions" / "part.parquet"
    file.parent.mkdir()
    pd.DataFrame(rows, columns=["TEXT", "key"]).to_parquet(file)
    return {"captions.corpus": str(file), "captions.training_images": str(images)}


def run_command(root, tmp_path, words, sets):
    """Call a command with settings and return its exit status."""
    texts = {key: json.dumps(value) if isinstance(value, list) else value for key, value in sets.items()}
    options = [f"--set={key}={value}" for key, value in (texts | {"jobs": 1}).items()]
    where = ["--notebooks-dir", str(root / "notebooks"), "--outputs", str(tmp_path / "out")]
    return cli.main([*words, *where, "--no-progress", *options])


def ran(root, tmp_path, words, sets):
    """Run a command with settings and return the record of its run."""
    run_command(root, tmp_path, words, sets)
    (record,) = tmp_path.glob("out/*/run.json")
    return json.loads(record.read_text(encoding="utf-8"))


def prefixed(*groups):
    return {f"{group}.{name}": value for group in groups for name, value in MINIMAL_SETTINGS[group].items()}


@pytest.mark.usefixtures("here")
def test_audit_by_model_names_completes_with_preflight(root, tmp_path, monkeypatch):
    """With its preflight check."""
    monkeypatch.delenv(kernels.PREFLIGHT_DONE)
    sets = IMAGES | prefixed("paired", "dalleval", "triplets") | FACES
    # Photographs have no ground truth, and without captions the triplets are those about professions.
    del sets["dalleval.calibration_images"], sets["triplets.n_triplets"]
    record = ran(root, tmp_path, ["audit", tiny.SD14, "--preset", "quick"], sets)
    assert unfinished_notebooks(record) == {}
    assert record["status"] == "ok"
    # The image models and judges, with their commits.
    model_names = {tiny.SD14, tiny.VQA, tiny.DETR, tiny.SEGFORMER, tiny.CLIP_L}
    assert model_names <= set(record["commits"])
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in record["commits"].values())


@pytest.mark.usefixtures("here")
def test_skin_tone_audit_runs_without_vqa_and_detector(root, tmp_path, monkeypatch, stocked_for_all):
    monkeypatch.setattr(stocked_for_all.repositories[tiny.VQA], "closed", "private")
    monkeypatch.setattr(stocked_for_all.repositories[tiny.DETR], "closed", "private")
    words = ["audit", tiny.SD14, "--preset", "quick", "--paper", "dalleval"]
    left_out = {"dalleval.vqa": "", "dalleval.detector": ""}
    gender = {"judging.gender": "ViT-L-14:openai"}
    sets = IMAGES | prefixed("dalleval") | FACES | left_out | gender
    # Photographs have no ground truth, and scenes need a detector.
    del sets["dalleval.calibration_images"], sets["dalleval.n_scenes"]
    record = ran(root, tmp_path, words, sets)
    assert record["status"] == "ok"
    assert unfinished_notebooks(record).keys() == {
        f"dalleval/{n}" for n in ("4_1_paintskills", "5_2_skills", "5_3_attributes")
    }
    assert all("need a model that" in why for why in unfinished_notebooks(record).values())
    (page,) = tmp_path.glob("out/*/index.html")
    text = page.read_text(encoding="utf-8")
    assert len(record["left_out"]) == 2 and "Omitted because" in text
    shares = pd.read_csv(page.parent / "measured/dalleval_average_gender.csv")
    assert set(shares["judge"]) == {"ViT-L-14:openai"}


@pytest.fixture
def endpoint_server(monkeypatch):
    """Serve images, paraphrases and critiques for parameter files that name an endpoint."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    rng = np.random.default_rng(0)

    def reply(question, n):
        path = server.requests[n - 1]["path"]
        if path.endswith("/images/generations"):
            return drawn(picture(rng.integers(0, 256, 3), size=(64, 64)))
        if isinstance(question, str) and "Phrase/Sentence: " in question:
            return completion("Picture: " + question.partition("Phrase/Sentence: ")[2])
        return completion("Show one woman and one man.")

    server = FakeEndpoint()
    server.reply = reply
    with server.running():
        yield server


def endpoints(file, server):
    """Return settings that direct the endpoints of a parameter file to a server."""
    parameters = params.load(file).values["settings"]
    sets = {f"{group}.url": server.url for group in ("endpoint", "critic") if group in parameters}
    if "endpoint" in parameters and "price" in parameters["endpoint"]:
        sets |= {"endpoint.price": 0, "endpoint.cost_limit": 1}
    return sets


FILES = {
    "captions": ("sd14", "sd15", "sdxl"),
    "triplets": ("triplets-sd14", "triplets-sd20", "triplets-sd21"),
    "dalleval": ("dalleval-sd14",),
    "paired": ("paired-sdxl", "paired-sd21", "paired-endpoint"),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("group", "name"), [(group, name) for group, names in FILES.items() for name in names])
def test_parameter_file_run_has_replicated_tables(
    root, tmp_path, monkeypatch, capsys, yunet, captions, endpoint_server, name, group
):
    """The tables that the list of replicated items names for a file are in its run, and its figures' notebooks end.

    Its dry run prints images, time or price, disk space and the memory of the device before anything is generated.
    With random networks few people are classified, so that some figures are empty.
    """
    sets = IMAGES | prefixed(group) | (yunet if group == "paired" else FACES)
    sets |= endpoints(root / f"params/{name}.yaml", endpoint_server)
    if name == "paired-endpoint":
        sets = {key: value for key, value in sets.items() if not key.startswith("generation.")}
    if group == "captions":
        sets |= OF_CAPTIONS | captions | {"generation.images_per_caption": 2}
        if not importlib.util.find_spec("spacy"):
            sets |= {"captions.name_recognizer": "gazetteer"}
    if group == "triplets":
        # It detects no faces.
        (tmp_path / "neutral.txt").write_text("\n".join(NEUTRAL))
        sets["captions.corpus"] = tmp_path / "neutral.txt"
        del sets["judging.faces"]
        monkeypatch.setitem(sys.modules, "nltk", NLTK)
    if group == "dalleval":
        # Photographs have no ground truth.
        del sets["dalleval.calibration_images"]
    if group in ("triplets", "dalleval"):
        # Its notebooks, or those of them that are executed here, have none.
        del sets["bootstrap_replicates"]
    command = ["run", str(root / f"params/{name}.yaml")]
    with monkeypatch.context() as patch:
        patch.delenv(kernels.PREFLIGHT_DONE)
        assert run_command(root, tmp_path, [*command, "--dry-run", "--fetch"], sets) == 0
    plan = capsys.readouterr().out
    expected = {"Images: ", "Memory of cpu: "}
    expected |= {"Price: "} if name == "paired-endpoint" else {"Time on this machine: ", "Disk: "}
    assert {text for text in expected if text not in plan} == set()
    assert not list(tmp_path.glob("out/*/run.json"))
    record = ran(root, tmp_path, command, sets)
    assert unfinished_notebooks(record) == {}
    assert record["status"] == "ok"
    items = [row for row in replication_status.entries() if name in row["runs"].split()]
    # No paper has Stable Diffusion XL in the design of the paradox.
    assert items or name == "sdxl"
    # Tables without a title are not saved; their figures have the same names.
    titled_tables = {table for table, schema in tables.schemas().items() if schema.title != table}
    table_names = {table["name"] for table in record["tables"]}
    table_names |= {path.stem for path in tmp_path.glob("out/*/measured/*.csv")}
    assert {row["output"] for row in items} & titled_tables <= table_names
    assert {row["notebook"] for row in items} <= {notebook["id"] for notebook in record["notebooks"]}


# NLTK's documented calls, for which every word is a noun: its data are downloaded, which tests do not do.
NLTK = SimpleNamespace(
    stem=SimpleNamespace(WordNetLemmatizer=lambda: SimpleNamespace(lemmatize=lambda word, pos: word)),
    word_tokenize=str.split,
    pos_tag=lambda tokens: [(token, "NN") for token in tokens],
)
NEUTRAL = [
    f"a person {does} {where}"
    for does in ("walks", "sits", "stands")
    for where in ("in a park", "on a beach", "by a red car")
]


def unfinished_notebooks(record):
    """Return status and reason of notebooks that did not finish."""
    return {n["id"]: f"{n['status']}: {n['reason']}" for n in record["notebooks"] if n["status"] != "ok"}
