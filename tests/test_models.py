"""Models by name."""

import json
import math
import shutil
import threading
import time

import pytest

from biaslab import models
from biaslab.errors import MissingInputError, ParameterError, UnknownNameError, loading


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Embedded models with a few bytes of weights each; mini-detector is not installed."""
    folders = {name: tmp_path / "models" / name for name in models.EMBEDDED}
    monkeypatch.setattr(models, "EMBEDDED", folders)
    for name in ("mini-sd", "mini-clip"):
        part = folders[name] / ("unet" if name == "mini-sd" else ".")
        part.mkdir(parents=True)
        (part / "model.safetensors").write_bytes(b"0" * 200_000)
    (folders["mini-sd"] / "model_index.json").write_text(json.dumps({"_class_name": "A", "unet": ["b", "c"]}))
    (folders["mini-sd"] / "README.md").write_text("card")
    return folders


def test_embedded_models_by_name_and_by_kind(installed):
    for name in ("mini", "mini-sd"):
        assert models.resolve(name, "text-to-image") == str(installed["mini-sd"])
    assert models.resolve("mini", "clip") == str(installed["mini-clip"])
    with pytest.raises(ParameterError, match=r"'mini-clip' is a clip model, and a text-to-image .*mini-sd"):
        models.resolve("mini-clip", "text-to-image")
    with pytest.raises(MissingInputError, match=r"'mini-sd-pairs' is not in .*biaslab train mini-sd-pairs"):
        models.resolve("mini-sd-pairs", "text-to-image")
    with pytest.raises(MissingInputError, match=r"'mini-detector' is not in .*biaslab train mini-detector"):
        models.resolve("mini", "detector")
    # A pipeline that is still being trained has parts, but no index.
    (installed["mini-sd"] / "model_index.json").unlink()
    with pytest.raises(MissingInputError, match="'mini-sd' is not in"):
        models.resolve("mini", "text-to-image")


def test_folders_and_names_on_the_hub(installed, tmp_path, monkeypatch):
    assert models.resolve(str(installed["mini-clip"]), "clip") == str(installed["mini-clip"])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models.resolve("~/models/mini-clip", "clip") == str(installed["mini-clip"])
    for name in ("CompVis/stable-diffusion-v1-4", "owner/name_with.all-3"):
        assert models.resolve(name, "text-to-image") == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "mini-ds",
            r"no text-to-image model named 'mini-ds'\. Did you mean 'mini-sd'.*owner and name, such as",
        ),
        ("mini-sd-pair", r"Did you mean 'mini-sd-pairs'"),
        ("stable-diffusion-v1-4", r"Did you mean 'CompVis/stable-diffusion-v1-4'"),
        ("zzz", r"no text-to-image model named 'zzz'\. Give 'mini' \(the embedded mini-sd\), a folder"),
        ("./models/sd", r"There is no folder './models/sd'"),
        ("a/b/c", r"There is no folder 'a/b/c'"),
        ("", r"The text-to-image model is ''. Give"),
        (None, r"The text-to-image model is None\. Give"),
    ],
)
def test_unknown_names_say_what_there_is(name, message):
    with pytest.raises(ParameterError, match=message):
        models.resolve(name, "text-to-image")


def test_unknown_kinds_and_checkpoints_in_one_file(tmp_path):
    with pytest.raises(UnknownNameError, match=r"no kind of model named 'text2image'"):
        models.resolve("mini", "text2image")
    (tmp_path / "sd.ckpt").write_bytes(b"")
    with pytest.raises(ParameterError, match=r"is a file; .* from_single_file"):
        models.resolve(str(tmp_path / "sd.ckpt"), "text-to-image")


def test_only_safetensors(installed, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(installed["mini-sd"], folder)
    models.check_safetensors(folder)
    # Parts that the index does not name are never opened.
    (folder / "old").mkdir()
    (folder / "old" / "weights.bin").write_bytes(b"0")
    models.check_safetensors(folder)
    (folder / "unet" / "weights.bin").write_bytes(b"0")
    models.check_safetensors(folder)
    (folder / "unet" / "model.safetensors").unlink()
    with pytest.raises(ParameterError, match=r"unet holds only weights\.bin; .*can run code when"):
        models.check_safetensors(folder)
    with pytest.raises(ParameterError, match=r"holds only weights\.bin"):
        models.resolve(str(folder / "old"), "clip")


def test_digest_knows_weights_and_not_what_lies_beside(installed, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(installed["mini-sd"], folder)
    first = models.digest(installed["mini-sd"])
    (folder / "README.md").write_text("another card")
    (folder / "curve.csv").write_text("1")
    assert models.digest(folder) == first
    (folder / "unet" / "model.safetensors").write_bytes(b"1" * 200_000)
    assert models.digest(folder) != first
    assert models.digest("owner/name") == "owner/name"


def test_the_list_of_embedded_models(installed):
    listed = models.embedded().set_index("name")
    assert listed["kind"].to_dict() == {
        "mini-sd": "text-to-image",
        "mini-sd-pairs": "text-to-image",
        "mini-sd-skills": "text-to-image",
        "mini-clip": "clip",
        "mini-detector": "detector",
        "mini-skills-detector": "detector",
        "mini-vqa": "vqa",
        "mini-captioner": "captioner",
        "mini-sd-triplets": "text-to-image",
        "mini-segmenter": "segmenter",
    }
    # 200,000 bytes of weights; the index and the card are too short to show.
    assert listed.loc["mini-sd", "megabytes"] == 0.2
    assert math.isnan(listed.loc["mini-detector", "megabytes"])
    assert listed.query("card != ''")["card"].to_dict() == {
        "mini-sd": str(installed["mini-sd"] / "README.md")
    }
    assert listed["folder"].tolist() == [str(f) for f in installed.values()]


def test_pipelines_of_one_autoencoder_share_it(installed):
    """Copies of it would be as many megabytes more; what it is counts with the pipelines that have it."""
    for name, whose in models.AUTOENCODER_OF.items():
        folder, vae = installed[name], installed[whose] / "vae"
        (folder / "unet").mkdir(parents=True)
        (folder / "unet" / "model.safetensors").write_bytes(b"1")
        assert models.autoencoder(folder) is None and models.autoencoder("owner/other") is None
        vae.mkdir(parents=True)
        (vae / "config.json").write_text("{}")
        (vae / "model.safetensors").write_bytes(b"2")
        assert models.autoencoder(str(folder)) == models.autoencoder(installed[whose]) == vae
        before = models.digest(folder)
        (vae / "model.safetensors").write_bytes(b"3")
        assert models.digest(folder) != before
        # One of its own is its own, and a copy elsewhere shares nothing.
        assert models.autoencoder(folder.parent / "elsewhere" / name) is None
        (folder / "vae").mkdir()
        (folder / "vae" / "config.json").write_text("{}")
        assert models.autoencoder(folder) == folder / "vae"


def test_one_thread_loads_at_a_time():
    inside, seen = [], []

    def load():
        with loading("a model", "a model"):
            inside.append(1)
            seen.append(len(inside))
            # Long enough for the other threads to come in, if they could.
            time.sleep(0.02)
            inside.pop()

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1, 1, 1, 1]
