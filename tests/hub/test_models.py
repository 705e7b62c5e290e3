"""Models by name."""

import importlib.util
import json
import math
import shutil
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import metadata

import pytest

from biaslab import plugins
from biaslab.errors import MissingInputError, ParameterError
from biaslab.errors import loading as one_at_a_time
from biaslab.generation import loading
from biaslab.hub import huggingface as hub_names
from biaslab.hub import model_files, registry

JUDGES = ("house", "house-clip", "house-detector", "house-other")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """What a package brings, as folders by name: models of a few bytes; house-detector has lost its weights."""
    names = ("house-sd", "house-sd-pairs", "house-clip", "house-detector")
    folders = {name: tmp_path / "models" / name for name in names}
    sd = registry.PluginEntry(folder=folders["house-sd"], words={"leans": "Planted: all lean."})
    package = types.SimpleNamespace(
        house=replace(sd, folder=None, alias_of={"captions": "house-sd", "paired": "house-sd-pairs"}),
        sd=replace(sd, settings={"generation": {"steps": 7}}),
        pairs=replace(sd, folder=folders["house-sd-pairs"], autoencoder=folders["house-sd"] / "vae"),
        drawn=registry.PluginEntry(factory=print, image_domain=registry.DRAWINGS),
        judges=registry.PluginEntry("any", alias_of={"clip": "house-clip", "detector": "house-detector"}),
        clip=registry.PluginEntry("clip", folders["house-clip"]),
        detector=registry.PluginEntry("detector", folders["house-detector"]),
        contract=print,
    )
    monkeypatch.setitem(sys.modules, "a_house", package)
    brings = {
        "biaslab.models": {"house": "house", "house-sd": "sd", "house-sd-pairs": "pairs", "house-drawn": "drawn"},
        "biaslab.judges": dict(zip(JUDGES, ("judges", "clip", "detector", "contract"), strict=True)),
    }
    points = {
        group: {name: metadata.EntryPoint(name, f"a_house:{what}", group) for name, what in given.items()}
        for group, given in brings.items()
    }
    monkeypatch.setattr(plugins, "entry_points", points.__getitem__)
    for name in ("house-sd", "house-clip"):
        part = folders[name] / ("unet" if name == "house-sd" else ".")
        part.mkdir(parents=True)
        (part / "model.safetensors").write_bytes(b"0" * 200_000)
    (folders["house-sd"] / "model_index.json").write_text(json.dumps({"_class_name": "A", "unet": ["b", "c"]}))
    (folders["house-sd"] / "README.md").write_text("card")
    return folders


def refused(name, message, kind="text-to-image"):
    with pytest.raises(ParameterError, match=message):
        registry.resolve(name, kind)


def test_what_packages_bring_by_name_and_by_kind(installed):
    for name in ("house", "house-sd"):
        assert registry.resolve(name, "text-to-image") == str(installed["house-sd"])
    assert registry.resolve("house", "clip") == registry.resolve("house-clip", "clip") == str(installed["house-clip"])
    assert registry.resolve_alias("house", "text-to-image", "paired") == "house-sd-pairs"
    # A name that stands for others stands for no other where nothing is said of it, and most names for none.
    assert (
        registry.resolve_alias("house", "text-to-image", "triplets")
        == registry.resolve_alias("house", "vqa")
        == "house"
    )
    assert registry.resolve_alias("owner/other", "text-to-image") == "owner/other"
    refused("house-clip", r"'house-clip' is a clip model, and a detector model is needed", "detector")
    refused("house-drawn", "'house-drawn' has no weights")
    # A pipeline that is still being trained has parts, but no index.
    (installed["house-sd"] / "model_index.json").unlink()
    for name, kind in (("house-sd-pairs", "text-to-image"), ("house-sd", "text-to-image"), ("house", "detector")):
        with pytest.raises(MissingInputError, match=f"'{name}' is missing from .*Reinstall its package"):
            registry.resolve(name, kind)


def test_what_packages_bring_with_a_model(installed, monkeypatch):
    assert registry.settings("house-sd") == {"generation": {"steps": 7}}
    assert registry.settings("owner/other") == registry.settings("house-drawn") == {}
    assert registry.describe("house", "leans") == "Planted: all lean."
    assert registry.describe("house", "other") == registry.describe("owner/other", "leans") == ""
    # A judge of another contract is none of these; one whose code is not there is said.
    assert registry.find_plugin("house-other", "clip") is None
    gone = metadata.EntryPoint("house-broken", "a_house:nothing", "biaslab.judges")
    monkeypatch.setitem(plugins.entry_points("biaslab.judges"), "house-broken", gone)
    with pytest.raises(ParameterError, match=r"house-broken cannot be loaded as a clip model: .*nothing"):
        registry.find_plugin("house-broken", "clip")
    assert "house-clip" in set(registry.installed()["name"])
    # It stands in the way of no other model.
    assert registry.names("clip") == ["house", "house-clip"]
    assert registry.resolve("owner/other", "clip") == "owner/other"


def test_a_folder_says_which_pictures_its_model_makes_or_knows(installed):
    folder, said = installed["house-sd"], installed["house-sd"] / "biaslab.json"
    before = model_files.digest(folder)
    assert registry.image_domain(folder) == registry.image_domain("owner/other") == "photographs"
    for pictures in ("drawings", "photographs"):
        said.write_text(json.dumps({"pictures": pictures}))
        assert registry.image_domain(folder) == registry.image_domain(folder, judge=True) == pictures
    said.write_text(json.dumps({"pictures": "any"}))
    assert registry.image_domain(folder, judge=True) == "any"
    # What is made is of one kind.
    with pytest.raises(ParameterError, match=r"one of drawings, photographs\."):
        registry.image_domain(folder)
    # The weights are the same, so what they make is.
    assert model_files.digest(folder) == before
    for text in ('{"pictures": "paintings"}', '{"picture": "drawings"}', '["drawings"]', "{"):
        said.write_text(text)
        with pytest.raises(ParameterError, match=r"biaslab\.json must contain .*drawings, photographs, any"):
            registry.image_domain(folder, judge=True)


def test_folders_and_names_on_the_hub(installed, tmp_path, monkeypatch):
    assert registry.resolve(str(installed["house-clip"]), "clip") == str(installed["house-clip"])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registry.resolve("~/models/house-clip", "clip") == str(installed["house-clip"])
    for name in ("CompVis/stable-diffusion-v1-4", "owner/name_with.all-3"):
        assert registry.resolve(name, "text-to-image") == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("house-ds", r"named 'house-ds'\. Did you mean 'house-sd'"),
        ("house-sd-pair", r"Did you mean 'house-sd-pairs'"),
        ("stable-diffusion-v1-4", r"Did you mean 'CompVis/stable-diffusion-v1-4'"),
        ("zzz", r"no text-to-image model named 'zzz'\. Give a folder, or"),
        ("./models/sd", "no text-to-image model named './models/sd'"),
        ("a/b/c", "named 'a/b/c'"),
        ("", r"The text-to-image model is ''. Give"),
        (None, r"The text-to-image model is None\. Give"),
    ],
)
def test_unknown_names_say_what_there_is(installed, name, message):
    with pytest.raises(ParameterError, match=message):
        registry.resolve(name, "text-to-image")


def test_checkpoints_in_one_file(tmp_path):
    for ending in ("ckpt", "gguf", "txt"):
        (file := tmp_path / f"sd.{ending}").write_bytes(b"")
        refused(str(file), rf"is a \.{ending} file; weights are read only from \.safetensors")
    (tmp_path / "sd.safetensors").write_bytes(b"")
    assert registry.resolve(str(tmp_path / "sd.safetensors"), "text-to-image") == str(tmp_path / "sd.safetensors")
    refused(str(tmp_path / "sd.safetensors"), "is a file, but a clip model is a folder", "clip")


def test_only_safetensors(installed, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(installed["house-sd"], folder)
    index = {"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"]}
    (folder / "model_index.json").write_text(json.dumps(index))
    (folder / "unet" / "config.json").write_text("{}")
    # Parts that the index does not name are never opened.
    (folder / "old").mkdir()
    (folder / "old" / "weights.bin").write_bytes(b"0")
    (folder / "unet" / "weights.bin").write_bytes(b"0")
    assert loading.look_up(str(folder)).base.weights == ("unet/model.safetensors",)
    (folder / "unet" / "model.safetensors").unlink()
    with pytest.raises(ParameterError, match=r"unet has unet/weights\.bin; .*can run code when"):
        loading.look_up(str(folder))
    with pytest.raises(ParameterError, match=r"has weights\.bin; .*can run code when"):
        model_files.look_up(str(folder / "old"), "clip").with_weights()


def test_the_licence_is_that_of_the_model_card(tmp_path):
    for front_matter, licence in (
        ("license: openrail++", "openrail++"),
        ("license: other\nlicense_name: flux-1-dev", "flux-1-dev"),
        ("license: [mit, apache-2.0]", "mit, apache-2.0"),
        ("tags: []", ""),
        ("license: [", ""),
    ):
        (tmp_path / "README.md").write_text(f"---\n{front_matter}\n---\n# A model\n")
        assert model_files.look_up(str(tmp_path), "clip").licence == licence
    (tmp_path / "README.md").write_text("# A model")
    assert model_files.look_up(str(tmp_path), "clip").licence == ""


def test_digest_knows_weights_and_not_what_lies_beside(installed, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(installed["house-sd"], folder)
    first = model_files.digest(installed["house-sd"])
    (folder / "README.md").write_text("another card")
    (folder / "curve.csv").write_text("1")
    assert model_files.digest(folder) == first
    (folder / "unet" / "model.safetensors").write_bytes(b"1" * 200_000)
    assert model_files.digest(folder) != first
    assert model_files.digest("owner/name") == "owner/name"


def test_the_list_of_what_is_brought(installed):
    listed = registry.installed().set_index("name")
    # Names that stand for others are no models, nor are judges of another contract.
    kinds = dict.fromkeys(("house-sd", "house-sd-pairs", "house-drawn"), "text-to-image")
    assert listed["kind"].to_dict() == kinds | {"house-clip": "clip", "house-detector": "detector"}
    # 200,000 bytes of weights; the index and the card are too short to show.
    assert listed.loc["house-sd", "megabytes"] == 0.2
    assert math.isnan(listed.loc["house-detector", "megabytes"])
    assert listed.query("card != ''")["card"].to_dict() == {"house-sd": str(installed["house-sd"] / "README.md")}
    assert listed.loc["house-drawn", ["pictures", "folder"]].tolist() == ["drawings", ""]
    assert listed["folder"].drop("house-drawn").tolist() == [str(f) for f in installed.values()]


def test_pipelines_of_one_autoencoder_share_it(installed):
    """Copies of it would be as many megabytes more; what it is counts with the pipelines that have it."""
    folder, vae = installed["house-sd-pairs"], installed["house-sd"] / "vae"
    (folder / "unet").mkdir(parents=True)
    (folder / "unet" / "model.safetensors").write_bytes(b"1")
    assert registry.autoencoder(folder) is None
    vae.mkdir(parents=True)
    (vae / "config.json").write_text("{}")
    (vae / "model.safetensors").write_bytes(b"2")
    assert registry.autoencoder(str(folder)) == registry.autoencoder(installed["house-sd"]) == vae
    before = model_files.digest(folder)
    (vae / "model.safetensors").write_bytes(b"3")
    assert model_files.digest(folder) != before
    # One of its own is its own, and a copy elsewhere shares nothing.
    assert registry.autoencoder(folder.parent / "elsewhere" / "house-sd-pairs") is None
    (folder / "vae").mkdir()
    (folder / "vae" / "config.json").write_text("{}")
    assert registry.autoencoder(folder) == folder / "vae"


def test_one_thread_loads_at_a_time():
    inside, seen = [], []

    def load():
        with one_at_a_time("a model", "a model"):
            inside.append(1)
            seen.append(len(inside))
            # Long enough for the other threads to come in, if they could.
            time.sleep(0.02)
            inside.pop()

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(load)
    assert seen == [1, 1, 1, 1]


# -- commits on the hub ------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """What the hub says is the commit of a name and revision; it does not answer for others."""
    import huggingface_hub
    from huggingface_hub import constants

    said, asked = {}, []

    def model_info(self, repository, *, revision=None, timeout, files_metadata):
        asked.append((repository, revision))
        if (repository, revision) not in said:
            raise ConnectionError("no network")
        return types.SimpleNamespace(sha=said[repository, revision])

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub_names, "_commits", {})
    # Whoever does not answer for one is asked for others.
    monkeypatch.setattr(hub_names, "_RETRY_AFTER", 0)
    return types.SimpleNamespace(said=said, asked=asked, cache=tmp_path / "hub")


def test_a_name_on_the_hub_is_known_by_its_commit(hub):
    assert model_files.digest("owner/name") == "owner/name"
    hub.said["owner/name", None] = "a" * 40
    assert model_files.digest("owner/name") == f"owner/name@{'a' * 40}"
    # One process asks once, so that one run is of one commit.
    hub.said["owner/name", None] = "b" * 40
    assert model_files.digest("owner/name") == f"owner/name@{'a' * 40}" and len(hub.asked) == 2
    assert hub_names.commits() == {"owner/name": "a" * 40}
    # A revision is part of the name.
    hub.asked.clear()
    hub.said["owner/name", "v1.4"] = "c" * 40
    assert registry.resolve("owner/name@v1.4", "text-to-image") == "owner/name@v1.4"
    assert model_files.digest("owner/name@v1.4") == f"owner/name@{'c' * 40}"
    # The same commit by whatever name has the same key; a commit needs no hub to say which it is.
    assert model_files.digest(f"owner/name@{'c' * 40}") == model_files.digest("owner/name@v1.4")
    assert hub.asked == [("owner/name", "v1.4")]
    for name in ("owner/name@", "owner/name@../up", "owner@v1/name"):
        refused(name, "no text-to-image model named")


def test_a_runs_notebooks_take_its_commits(monkeypatch):
    """Theirs are other processes, which start later, and read the module anew."""
    monkeypatch.setenv(hub_names.COMMITS, json.dumps({"owner/name": "f" * 40}))
    spec = importlib.util.find_spec(hub_names.__name__)
    spec.loader.exec_module(anew := importlib.util.module_from_spec(spec))
    assert anew.commit("owner/name") == "f" * 40
