"""From a name to a pipeline, and all that is refused on the way."""

import json
import shutil
from pathlib import Path

import pytest

from biaslab.generation import loading
from biaslab.generation.generator import load
from biaslab.generation.settings import GenerationSettings
from biaslab.ground.errors import ParameterError


def copy(folder: str, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def rename_class(folder: Path, **changes) -> None:
    index = folder / "model_index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | changes))


def load_from(folder: Path):
    return load(str(folder), GenerationSettings(steps=2))


# One takes an image, one makes a video, one sounds, one takes no text, and one is of text to image but for its control.
OTHERS = "StableDiffusionImg2Img StableVideoDiffusion TextToVideoSD AudioLDM2 DDPM FluxControl"


@pytest.mark.parametrize("name", [f"{name}Pipeline" for name in OTHERS.split()])
def test_a_pipeline_that_is_not_text_to_image_is_refused_by_name(folders, tmp_path, name):
    folder = copy(folders("sd1"), tmp_path / "other")
    rename_class(folder, _class_name=name)
    with pytest.raises(ParameterError, match=rf"is a {name}, which does not make images from text alone"):
        load_from(folder)


@pytest.mark.parametrize(
    "name", ["FluxPipeline", "LatentConsistencyModelPipeline", "SanaPipeline", "LDMTextToImagePipeline"]
)
def test_pipelines_that_make_images_from_text_alone_are_known(tmp_path, name):
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": name}))
    assert loading.pipeline_class(tmp_path, "it").__name__ == name


def test_code_that_comes_with_a_model_is_never_run(folders, tmp_path):
    folder = copy(folders("sd1"), tmp_path / "code")
    (folder / "pipeline.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (folder / "unet" / "my_unet.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    for changes in ({"_class_name": ["pipeline", "Mine"]}, {"unet": ["my_unet", "Mine"]}, {"unet": ["os", "system"]}):
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


TEXTS, PLACES = "tokenizer/tokenizer_config.json", "unet/config.json"


@pytest.mark.parametrize(
    ("file", "key", "value", "told"),
    [
        (TEXTS, "model_max_length", 10**30, "of its tokenizer gives 10{30} as the tokens of"),
        (TEXTS, "model_max_length", -3, "of its tokenizer gives -3 as the tokens of a text"),
        (PLACES, "sample_size", 10**9, "cannot be loaded as a text-to-image model"),
        (PLACES, "sample_size", -1, "cannot be loaded as a text-to-image model"),
    ],
)
def test_sizes_that_nothing_has_are_told_with_the_models_name(folders, tmp_path, file, key, value, told):
    folder = copy(folders("sd1"), tmp_path / "model")
    config = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(config | {key: value}))
    with pytest.raises(ParameterError, match=rf"{folder}.* {told}"):
        load(str(folder), GenerationSettings(steps=1))
