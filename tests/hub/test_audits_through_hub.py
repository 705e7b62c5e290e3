"""Audits of real names, end to end through a hub: tiny checkpoints, every judge that the files of parameters name."""

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

# The least that each notebook takes, of small images.
IMAGES = {
    **{f"generation.{k}": v for k, v in {"height": 32, "width": 32, "steps": 2}.items()},
    "bootstrap_replicates": 200,
}
# Where captions are asked for: elsewhere nothing takes these.
OF_CAPTIONS = {"generation.images_per_prompt": 2, "generation.caption_prompts_per_occupation": 2}
CAPTIONS = {"per_occupation": 4, "candidates_per_occupation": 8, "nearest_per_prompt": 3}
PEOPLE = {"n_occupations": 1, "power_samples": 1, "single_images": 1, "three_person_prompts": 2}
SCENES = {"n_scenes": 2, "n_professions": 2, "social_images": 2, "calibration_images": 10}
TRIPLETS = {
    **{"n_triplets": 2, "images_per_prompt": 1, "n_professions": 2},
    **{"single_triplet_images": 2, "calibration_images": 10},
}
LEAST = {
    "captions": CAPTIONS | {"occupations": ["nurse", "engineer"]},
    "paired": PEOPLE | {"aspect": 1},
    "dalleval": SCENES,
    "triplets": TRIPLETS,
}
OCCUPATIONS = ("nurse", "engineer")


@pytest.fixture(autouse=True)
def stand_apart(stocked_for_all, monkeypatch, tmp_path):
    """Stand in a folder of the run's own, with an empty store."""
    # The occupations whose roles of power are asked for: each takes eight images of a run, which are no other case.
    few, sampled = paired_prompts.power_occupations()[::6], paired_prompts.sampled_roles
    monkeypatch.setattr(
        paired_prompts, "sampled_roles", lambda *of: {k: v for k, v in sampled(*of).items() if k[1] in few}
    )
    monkeypatch.delenv("BIASLAB_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)


# Random networks draw no faces: by a detector nobody in their images could be judged. With these, everybody is.
FACES = {"judging.faces": WholeImage.prefix}


@pytest.fixture
def yunet():
    """Leave the face detector that files of parameters name where its package is, and else set what needs none."""
    return {} if importlib.util.find_spec(PINNED[YUNET].module) else FACES


@pytest.fixture
def captions(tmp_path):
    """Write captions that name two occupations and say a gender or none, and an image behind each."""
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


def called(root, tmp_path, words, sets):
    """Call a command with settings and return its exit status."""
    texts = {key: json.dumps(value) if isinstance(value, list) else value for key, value in sets.items()}
    each = [f"--set={key}={value}" for key, value in (texts | {"jobs": 1}).items()]
    where = ["--notebooks-dir", str(root / "notebooks"), "--outputs", str(tmp_path / "out")]
    return cli.main([*words, *where, "--no-progress", *each])


def ran(root, tmp_path, words, sets):
    """Run a command with settings and return the record of its run."""
    called(root, tmp_path, words, sets)
    (record,) = tmp_path.glob("out/*/run.json")
    return json.loads(record.read_text(encoding="utf-8"))


def dotted(*groups):
    return {f"{group}.{name}": value for group in groups for name, value in LEAST[group].items()}


@pytest.mark.usefixtures("here")
def test_an_audit_by_name(root, tmp_path, monkeypatch):
    """With its rehearsal."""
    monkeypatch.delenv(kernels.PREFLIGHT_DONE)
    sets = IMAGES | dotted("paired", "dalleval", "triplets") | FACES
    record = ran(root, tmp_path, ["audit", tiny.SD14, "--preset", "quick"], sets)
    assert said(record) == {}
    assert record["status"] == "ok"
    # What it made images with, and who judged them, to the commit.
    named = {tiny.SD14, tiny.VQA, tiny.DETR, tiny.SEGFORMER, tiny.CLIP_L}
    assert named <= set(record["commits"])
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in record["commits"].values())


@pytest.mark.usefixtures("here")
def test_skin_tones_need_no_answers_to_questions(root, tmp_path, monkeypatch, stocked_for_all):
    monkeypatch.setattr(stocked_for_all.repositories[tiny.VQA], "closed", "private")
    monkeypatch.setattr(stocked_for_all.repositories[tiny.DETR], "closed", "private")
    words = ["audit", tiny.SD14, "--preset", "quick", "--paper", "dalleval"]
    left_out = {"dalleval.vqa": "", "dalleval.detector": ""}
    gender = {"judging.gender": "ViT-L-14:openai"}
    record = ran(root, tmp_path, words, IMAGES | dotted("dalleval") | FACES | left_out | gender)
    assert record["status"] == "ok"
    assert said(record).keys() == {f"dalleval/{n}" for n in ("4_1_paintskills", "5_2_skills", "5_3_attributes")}
    assert all("need a model that" in why for why in said(record).values())
    (page,) = tmp_path.glob("out/*/index.html")
    text = page.read_text(encoding="utf-8")
    assert len(record["left_out"]) == 2 and "Omitted because" in text
    counted = pd.read_csv(page.parent / "measured/dalleval_average_gender.csv")
    assert set(counted["judge"]) == {"ViT-L-14:openai"}


@pytest.fixture
def served(monkeypatch):
    """Serve images, paraphrases and critiques where files of parameters name an endpoint."""
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
    """Return settings that lead the endpoints of a file of parameters to a server."""
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
def test_a_file_of_parameters(root, tmp_path, monkeypatch, capsys, yunet, captions, served, name, group):
    """The tables that the list of replicated items names for a file are in its run, and its figures' notebooks end.

    Its dry run prints images, time or price, disk space and the memory of the device before anything is generated.
    Random networks show few people whom a judge calls female or male, so that some figures have nothing to show.
    """
    sets = IMAGES | dotted(group) | (yunet if group == "paired" else FACES)
    sets |= endpoints(root / f"params/{name}.yaml", served)
    if name == "paired-endpoint":
        sets = {key: value for key, value in sets.items() if not key.startswith("generation.")}
    if group == "captions":
        sets |= OF_CAPTIONS | captions | {"generation.images_per_caption": 2}
        if not importlib.util.find_spec("spacy"):
            sets |= {"captions.name_recognizer": "gazetteer"}
    if group == "triplets":
        # It looks for no faces.
        (tmp_path / "neutral.txt").write_text("\n".join(NEUTRAL))
        sets["captions.corpus"] = tmp_path / "neutral.txt"
        del sets["judging.faces"]
        monkeypatch.setitem(sys.modules, "nltk", NLTK)
    if group == "dalleval":
        # No ground truth of photographs is known.
        del sets["dalleval.calibration_images"]
    if group in ("triplets", "dalleval"):
        # Its notebooks, or those of them that are executed here, have none.
        del sets["bootstrap_replicates"]
    command = ["run", str(root / f"params/{name}.yaml")]
    with monkeypatch.context() as patch:
        patch.delenv(kernels.PREFLIGHT_DONE)
        assert called(root, tmp_path, [*command, "--dry-run", "--fetch"], sets) == 0
    plan = capsys.readouterr().out
    expected = {"Images: ", "Memory of cpu: "}
    expected |= {"Price: "} if name == "paired-endpoint" else {"Time on this machine: ", "Disk: "}
    assert {text for text in expected if text not in plan} == set()
    assert not list(tmp_path.glob("out/*/run.json"))
    record = ran(root, tmp_path, command, sets)
    assert said(record) == {}
    assert record["status"] == "ok"
    items = [row for row in replication_status.entries() if name in row["runs"].split()]
    # No paper has Stable Diffusion XL in the design of the paradox.
    assert items or name == "sdxl"
    # Tables without a title are not saved: their figures have the same names.
    titled = {table for table, schema in tables.schemas().items() if schema.title != table}
    made = {table["name"] for table in record["tables"]}
    made |= {path.stem for path in tmp_path.glob("out/*/measured/*.csv")}
    assert {row["output"] for row in items} & titled <= made
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


def said(record):
    """Return what became of notebooks that did not finish."""
    return {n["id"]: f"{n['status']}: {n['reason']}" for n in record["notebooks"] if n["status"] != "ok"}
