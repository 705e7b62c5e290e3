"""From a name to a pipeline, and all that is refused on the way."""

import json
import shutil
from pathlib import Path

import huggingface_hub
import pytest

from biaslab.errors import ParameterError
from biaslab.generation import GenerationSettings, load, loading


def copy(folder: str, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def rename_class(folder: Path, **changes) -> None:
    index = folder / "model_index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | changes))


def load_from(folder: Path):
    return load(str(folder), GenerationSettings(steps=2))


def test_a_pipeline_without_safetensors_is_refused_with_the_reason(folders, tmp_path):
    folder = copy(folders("sd1"), tmp_path / "pickled")
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(
        ParameterError, match=r"unet holds only diffusion_pytorch_model\.bin; .* can run code"
    ):
        load_from(folder)
    # A checkpoint in one file beside complete parts is no matter: nobody opens it.
    weights.with_suffix(".bin").rename(weights)
    (folder / "v1-4.ckpt").write_bytes(b"no pickle is opened")
    assert type(load_from(folder).pipe).__name__ == "StableDiffusionPipeline"


@pytest.mark.parametrize(
    "name",
    [
        "StableDiffusionImg2ImgPipeline",
        "StableDiffusionInpaintPipeline",
        "StableDiffusionControlNetPipeline",
        "StableVideoDiffusionPipeline",
        "TextToVideoSDPipeline",
        "AudioLDM2Pipeline",
        "DDPMPipeline",
        "WanPipeline",
        "FluxControlPipeline",
        "StableDiffusionUpscalePipeline",
    ],
)
def test_a_pipeline_that_is_not_text_to_image_is_refused_by_name(folders, tmp_path, name):
    folder = copy(folders("sd1"), tmp_path / "other")
    rename_class(folder, _class_name=name)
    with pytest.raises(ParameterError, match=rf"is a {name}, which does not make images from text alone"):
        load_from(folder)


@pytest.mark.parametrize(
    "name",
    [
        "StableDiffusionPipeline",
        "StableDiffusionXLPipeline",
        "StableDiffusion3Pipeline",
        "FluxPipeline",
        "LatentConsistencyModelPipeline",
        "PixArtSigmaPipeline",
        "SanaPipeline",
        "LDMTextToImagePipeline",
    ],
)
def test_pipelines_that_make_images_from_text_alone_are_known(tmp_path, name):
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": name}))
    assert loading.pipeline_class(tmp_path, "it").__name__ == name


def test_code_that_comes_with_a_model_is_never_run(folders, tmp_path):
    folder = copy(folders("sd1"), tmp_path / "code")
    (folder / "pipeline.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (folder / "unet" / "my_unet.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    for changes in (
        {"_class_name": ["pipeline", "Mine"]},
        {"unet": ["my_unet", "Mine"]},
        {"unet": ["os", "system"]},
    ):
        other = copy(str(folder), tmp_path / "changed")
        rename_class(other, **changes)
        with pytest.raises(ParameterError, match=r"Code that comes with a model is never run"):
            load_from(other)
        shutil.rmtree(other)
    assert not (tmp_path / "ran").exists()


def test_folders_that_hold_no_pipeline(folders, tmp_path):
    with pytest.raises(ParameterError, match=r"is no diffusers pipeline: .* holds no model_index\.json"):
        load_from(tmp_path)
    folder = copy(folders("sd1"), tmp_path / "broken")
    (folder / "vae" / "diffusion_pytorch_model.safetensors").write_bytes(b"\x10" * 40)
    with pytest.raises(ParameterError, match="cannot be loaded as a StableDiffusionPipeline: "):
        load_from(folder)
    (folder / "model_index.json").write_text("{")
    with pytest.raises(ParameterError, match=r"cannot be read as the index of a pipeline"):
        load_from(folder)


def test_a_hub_name_without_a_network(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        ParameterError, match=r"CompVis/stable-diffusion-v1-4 is not on this machine.*Run once with a network"
    ):
        load("CompVis/stable-diffusion-v1-4", GenerationSettings())


def hub_error(kind: str) -> Exception:
    import httpx
    from huggingface_hub import errors

    response = httpx.Response(404, request=httpx.Request("GET", "https://hub"))
    named = {"gated": errors.GatedRepoError, "unknown": errors.RepositoryNotFoundError}
    named["no index"] = errors.RemoteEntryNotFoundError
    return named[kind]("404", response=response) if kind in named else OSError(kind)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("gated", r"is open only to those who accept its terms"),
        (
            "unknown",
            r"has no model 'CompVis/stable-difusion-v1-4'.*Did you mean 'CompVis/stable-diffusion-v1-4'",
        ),
        ("no index", r"is no diffusers pipeline: it has no model_index\.json"),
        ("Connection reset", r"cannot be fetched from the hub \(Connection reset\)"),
    ],
)
def test_what_the_hub_answers_is_said_plainly(monkeypatch, kind, message):
    def answer(*given, **more):
        # The client may wrap what it met.
        raise OSError("Cannot load model: see above.") from hub_error(kind)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", answer)
    with pytest.raises(ParameterError, match=message):
        loading.fetch("CompVis/stable-difusion-v1-4")


class Hub:
    """A hub with one model, ``owner/tiny``, whose files are copied as the patterns say."""

    def __init__(self, files: Path, cache: Path):
        self.files, self.snapshot = files, cache / "models--owner--tiny" / "snapshots" / "0123abcd"

    def file(self, name, file, *, revision=None):
        assert name == "owner/tiny"
        (self.snapshot / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.files / file, self.snapshot / file)
        return str(self.snapshot / file)

    def download(self, name, *, revision, allow_patterns, ignore_patterns):
        from huggingface_hub.utils import filter_repo_objects

        names = [p.relative_to(self.files).as_posix() for p in self.files.rglob("*") if p.is_file()]
        for file in filter_repo_objects(
            names, allow_patterns=allow_patterns, ignore_patterns=ignore_patterns
        ):
            self.file(name, file)
        return str(self.snapshot)


@pytest.fixture
def hub(folders, monkeypatch, tmp_path):
    made = Hub(copy(folders("sd1"), tmp_path / "files"), tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", made.file)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", made.download)
    return made


def test_a_hub_name_loads_like_its_folder(hub):
    model = load("owner/tiny", GenerationSettings(steps=2))
    assert model.description()["revision"] == "0123abcd"


def test_of_the_hub_only_what_is_needed_is_fetched(hub):
    weights = hub.files / "unet" / "diffusion_pytorch_model.safetensors"
    for other in (
        "unet/diffusion_pytorch_model.fp16.safetensors",
        "v1-4.safetensors",
        "old/model.safetensors",
    ):
        (hub.files / other).parent.mkdir(exist_ok=True)
        shutil.copy(weights, hub.files / other)
    for code in (
        "pipeline.py",
        "unet/diffusers.py",
        "unet/model.bin",
        "scheduler/evil.py",
        "v1-4.ckpt",
        "a.pkl",
    ):
        (hub.files / code).write_text("raise SystemExit")
    load("owner/tiny", GenerationSettings(steps=2))
    there = {p.relative_to(hub.snapshot).as_posix() for p in hub.snapshot.rglob("*") if p.is_file()}
    assert {p for p in there if not p.endswith((".json", ".txt"))} == {
        "unet/diffusion_pytorch_model.safetensors",
        "vae/diffusion_pytorch_model.safetensors",
        "text_encoder/model.safetensors",
    }


def test_code_that_lies_in_the_cache_already_is_found_before_the_model_is_loaded(hub):
    load("owner/tiny", GenerationSettings(steps=2))
    (hub.snapshot / "unet" / "diffusers.py").write_text("raise SystemExit")
    with pytest.raises(
        ParameterError, match=r"holds unet/diffusers\.py, which could be run .* Delete the file"
    ):
        load("owner/tiny", GenerationSettings(steps=2))


def test_a_part_on_the_hub_without_safetensors(hub):
    weights = hub.files / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(
        ParameterError, match=r"owner/tiny has no weights as \.safetensors.*unet has none.*can run"
    ):
        load("owner/tiny", GenerationSettings())


def test_a_pipeline_on_the_hub_that_names_code_is_refused_by_its_index_alone(hub):
    rename_class(hub.files, unet=[None, "Mine"])
    with pytest.raises(
        ParameterError, match=r"says 'unet' is \[null, \"Mine\"\].*Code that comes with a model"
    ):
        load("owner/tiny", GenerationSettings())
    assert [p.name for p in hub.snapshot.rglob("*")] == ["model_index.json"]
