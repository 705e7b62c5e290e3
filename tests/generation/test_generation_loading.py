"""Loading a pipeline by name, and refusals."""

import json
import shutil
from pathlib import Path

import pytest

from biaslab.errors import ParameterError
from biaslab.generation import loading
from biaslab.generation.generator import load
from biaslab.generation.settings import GenerationSettings
from biaslab.hub import model_files


def edit_json(file: Path, **entries) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def check_refused(folder: Path, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        load(str(folder), GenerationSettings(steps=2))


@pytest.fixture
def folder(folders, tmp_path):
    """Return a copy of a pipeline's folder."""
    return Path(shutil.copytree(folders("sd1"), tmp_path / "model"))


# Pipelines that need an image, make videos or sounds, take no text, or need a control image.
NON_TEXT_TO_IMAGE = "StableDiffusionImg2Img StableVideoDiffusion TextToVideoSD AudioLDM2 DDPM FluxControl"


@pytest.mark.parametrize("name", [f"{name}Pipeline" for name in NON_TEXT_TO_IMAGE.split()])
def test_non_text_to_image_pipeline_is_refused(folder, name):
    edit_json(folder / "model_index.json", _class_name=name)
    check_refused(folder, rf"is a {name}, which does not generate images from text alone")


@pytest.mark.parametrize(
    "name", ["FluxPipeline", "LatentConsistencyModelPipeline", "SanaPipeline", "LDMTextToImagePipeline"]
)
def test_text_to_image_pipeline_is_accepted(tmp_path, name):
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": name}))
    assert loading.read_index(model_files.read_folder(tmp_path, "it"))[0].__name__ == name


def test_folder_without_valid_pipeline_is_refused(folder, tmp_path):
    check_refused(tmp_path, r"contains no model_index\.json")
    (folder / "vae" / "diffusion_pytorch_model.safetensors").write_bytes(b"\x10" * 40)
    check_refused(folder, "cannot be loaded as a StableDiffusionPipeline: ")
    (folder / "model_index.json").write_text("{")
    check_refused(folder, r"model_index\.json cannot be read")


TEXTS, PLACES = "tokenizer/tokenizer_config.json", "unet/config.json"


@pytest.mark.parametrize(
    ("file", "key", "value", "told"),
    [
        (TEXTS, "model_max_length", 10**30, "its tokenizer states a maximum of 10{30} tokens"),
        (TEXTS, "model_max_length", -3, "its tokenizer states a maximum of -3 tokens"),
        (PLACES, "sample_size", 10**9, "cannot be loaded as a text-to-image model"),
        (PLACES, "sample_size", -1, "cannot be loaded as a text-to-image model"),
    ],
)
def test_impossible_size_is_refused_with_model_name(folder, file, key, value, told):
    edit_json(folder / file, **{key: value})
    check_refused(folder, rf"{folder}.* {told}")
