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
def plugin_folders(tmp_path, monkeypatch):
    """Models of a plugin package, as folders by name: a few bytes each; house-detector lacks its weights."""
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
        group: {name: metadata.EntryPoint(name, f"a_house:{what}", group) for name, what in entries.items()}
        for group, entries in brings.items()
    }
    monkeypatch.setattr(plugins, "entry_points", points.__getitem__)
    for name in ("house-sd", "house-clip"):
        part = folders[name] / ("unet" if name == "house-sd" else ".")
        part.mkdir(parents=True)
        (part / "model.safetensors").write_bytes(b"0" * 200_000)
    (folders["house-sd"] / "model_index.json").write_text(json.dumps({"_class_name": "A", "unet": ["b", "c"]}))
    (folders["house-sd"] / "README.md").write_text("card")
    return folders


def check_refused(name, message, kind="text-to-image"):
    with pytest.raises(ParameterError, match=message):
        registry.resolve(name, kind)


def test_resolve_plugin_models_by_name_and_kind(plugin_folders):
    for name in ("house", "house-sd"):
        assert registry.resolve(name, "text-to-image") == str(plugin_folders["house-sd"])
    assert (
        registry.resolve("house", "clip") == registry.resolve("house-clip", "clip") == str(plugin_folders["house-clip"])
    )
    assert registry.resolve_alias("house", "text-to-image", "paired") == "house-sd-pairs"
    # An alias applies only to the kinds and papers that it lists, and most names are no alias.
    assert (
        registry.resolve_alias("house", "text-to-image", "triplets")
        == registry.resolve_alias("house", "vqa")
        == "house"
    )
    assert registry.resolve_alias("owner/other", "text-to-image") == "owner/other"
    check_refused("house-clip", r"'house-clip' is a clip model, but a detector model is needed", "detector")
    check_refused("house-drawn", "'house-drawn' has no weights")
    # A pipeline that is still being trained has parts, but no index.
    (plugin_folders["house-sd"] / "model_index.json").unlink()
    for name, kind in (("house-sd-pairs", "text-to-image"), ("house-sd", "text-to-image"), ("house", "detector")):
        with pytest.raises(MissingInputError, match=f"'{name}' is missing from .*Reinstall its package"):
            registry.resolve(name, kind)


def test_plugin_entry_gives_settings_and_descriptions(plugin_folders, monkeypatch):
    assert registry.settings("house-sd") == {"generation": {"steps": 7}}
    assert registry.settings("owner/other") == registry.settings("house-drawn") == {}
    assert registry.describe("house", "leans") == "Planted: all lean."
    assert registry.describe("house", "other") == registry.describe("owner/other", "leans") == ""
    # A judge of another interface is not listed; one whose code is missing is an error.
    assert registry.find_plugin("house-other", "clip") is None
    broken_entry = metadata.EntryPoint("house-broken", "a_house:nothing", "biaslab.judges")
    monkeypatch.setitem(plugins.entry_points("biaslab.judges"), "house-broken", broken_entry)
    with pytest.raises(ParameterError, match=r"house-broken cannot be loaded as a clip model: .*nothing"):
        registry.find_plugin("house-broken", "clip")
    assert "house-clip" in set(registry.installed()["name"])
    # It does not affect other models.
    assert registry.names("clip") == ["house", "house-clip"]
    assert registry.resolve("owner/other", "clip") == "owner/other"


def test_image_domain_is_read_from_folder(plugin_folders):
    folder, said = plugin_folders["house-sd"], plugin_folders["house-sd"] / "biaslab.json"
    digest_before = model_files.digest(folder)
    assert registry.image_domain(folder) == registry.image_domain("owner/other") == "photographs"
    for pictures in ("drawings", "photographs"):
        said.write_text(json.dumps({"pictures": pictures}))
        assert registry.image_domain(folder) == registry.image_domain(folder, judge=True) == pictures
    said.write_text(json.dumps({"pictures": "any"}))
    assert registry.image_domain(folder, judge=True) == "any"
    # A model that generates has a single domain.
    with pytest.raises(ParameterError, match=r"one of drawings, photographs\."):
        registry.image_domain(folder)
    # The same weights have the same digest.
    assert model_files.digest(folder) == digest_before
    for text in ('{"pictures": "paintings"}', '{"picture": "drawings"}', '["drawings"]', "{"):
        said.write_text(text)
        with pytest.raises(ParameterError, match=r"biaslab\.json must contain .*drawings, photographs, any"):
            registry.image_domain(folder, judge=True)


def test_resolve_accepts_folders_and_hub_names(plugin_folders, tmp_path, monkeypatch):
    assert registry.resolve(str(plugin_folders["house-clip"]), "clip") == str(plugin_folders["house-clip"])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registry.resolve("~/models/house-clip", "clip") == str(plugin_folders["house-clip"])
    for name in ("CompVis/stable-diffusion-v1-4", "owner/name_with.all-3"):
        assert registry.resolve(name, "text-to-image") == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("house-ds", r"named 'house-ds'\. Did you mean 'house-sd'"),
        ("house-sd-pair", r"Did you mean 'house-sd-pairs'"),
        ("stable-diffusion-v1-4", r"Did you mean 'CompVis/stable-diffusion-v1-4'"),
        ("zzz", r"no text-to-image model named 'zzz'\. Specify a folder, or"),
        ("./models/sd", "no text-to-image model named './models/sd'"),
        ("a/b/c", "named 'a/b/c'"),
        ("", r"The text-to-image model is ''. Specify"),
        (None, r"The text-to-image model is None\. Specify"),
    ],
)
def test_resolve_unknown_name_lists_nearest(plugin_folders, name, message):
    with pytest.raises(ParameterError, match=message):
        registry.resolve(name, "text-to-image")


def test_resolve_accepts_single_safetensors_file_only(tmp_path):
    for ending in ("ckpt", "gguf", "txt"):
        (file := tmp_path / f"sd.{ending}").write_bytes(b"")
        check_refused(str(file), rf"is a \.{ending} file; weights are read only from \.safetensors")
    (tmp_path / "sd.safetensors").write_bytes(b"")
    assert registry.resolve(str(tmp_path / "sd.safetensors"), "text-to-image") == str(tmp_path / "sd.safetensors")
    check_refused(str(tmp_path / "sd.safetensors"), "is a file, but a clip model is a folder", "clip")


def test_look_up_accepts_only_safetensors(plugin_folders, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(plugin_folders["house-sd"], folder)
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


def test_look_up_licence_is_that_of_model_card(tmp_path):
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


def test_digest_covers_weights_and_not_other_files(plugin_folders, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(plugin_folders["house-sd"], folder)
    first = model_files.digest(plugin_folders["house-sd"])
    (folder / "README.md").write_text("another card")
    (folder / "curve.csv").write_text("1")
    assert model_files.digest(folder) == first
    (folder / "unet" / "model.safetensors").write_bytes(b"1" * 200_000)
    assert model_files.digest(folder) != first
    assert model_files.digest("owner/name") == "owner/name"


def test_installed_lists_plugin_models(plugin_folders):
    models_table = registry.installed().set_index("name")
    # Aliases are not models, nor are judges of another interface.
    kinds = dict.fromkeys(("house-sd", "house-sd-pairs", "house-drawn"), "text-to-image")
    assert models_table["kind"].to_dict() == kinds | {"house-clip": "clip", "house-detector": "detector"}
    # 200,000 bytes of weights; the index and the card are too short to show.
    assert models_table.loc["house-sd", "megabytes"] == 0.2
    assert math.isnan(models_table.loc["house-detector", "megabytes"])
    assert models_table.query("card != ''")["card"].to_dict() == {
        "house-sd": str(plugin_folders["house-sd"] / "README.md")
    }
    assert models_table.loc["house-drawn", ["pictures", "folder"]].tolist() == ["drawings", ""]
    assert models_table["folder"].drop("house-drawn").tolist() == [str(f) for f in plugin_folders.values()]


def test_pipelines_share_autoencoder(plugin_folders):
    """It is stored once, and enters the digests of the pipelines that use it."""
    folder, vae = plugin_folders["house-sd-pairs"], plugin_folders["house-sd"] / "vae"
    (folder / "unet").mkdir(parents=True)
    (folder / "unet" / "model.safetensors").write_bytes(b"1")
    assert registry.autoencoder(folder) is None
    vae.mkdir(parents=True)
    (vae / "config.json").write_text("{}")
    (vae / "model.safetensors").write_bytes(b"2")
    assert registry.autoencoder(str(folder)) == registry.autoencoder(plugin_folders["house-sd"]) == vae
    digest_before = model_files.digest(folder)
    (vae / "model.safetensors").write_bytes(b"3")
    assert model_files.digest(folder) != digest_before
    # An autoencoder in the folder is used, and a copy elsewhere shares nothing.
    assert registry.autoencoder(folder.parent / "elsewhere" / "house-sd-pairs") is None
    (folder / "vae").mkdir()
    (folder / "vae" / "config.json").write_text("{}")
    assert registry.autoencoder(folder) == folder / "vae"


def test_loading_admits_one_thread_at_a_time():
    active, n_active = [], []

    def load():
        with one_at_a_time("a model", "a model"):
            active.append(1)
            n_active.append(len(active))
            # Long enough for other threads to enter, if they could.
            time.sleep(0.02)
            active.pop()

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(load)
    assert n_active == [1, 1, 1, 1]


# -- commits on the hub ------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub with given commits of names and revisions; it does not answer for others."""
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
    # A hub that failed for one name is asked for others.
    monkeypatch.setattr(hub_names, "_RETRY_AFTER", 0)
    return types.SimpleNamespace(said=said, asked=asked, cache=tmp_path / "hub")


def test_digest_of_hub_name_contains_its_commit(hub):
    assert model_files.digest("owner/name") == "owner/name"
    hub.said["owner/name", None] = "a" * 40
    assert model_files.digest("owner/name") == f"owner/name@{'a' * 40}"
    # One process asks once, so that one run uses one commit.
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
        check_refused(name, "no text-to-image model named")


def test_notebooks_use_commits_of_run(monkeypatch):
    """Notebooks run in other processes, which start later and import the module again."""
    monkeypatch.setenv(hub_names.COMMITS, json.dumps({"owner/name": "f" * 40}))
    spec = importlib.util.find_spec(hub_names.__name__)
    spec.loader.exec_module(anew := importlib.util.module_from_spec(spec))
    assert anew.commit("owner/name") == "f" * 40
