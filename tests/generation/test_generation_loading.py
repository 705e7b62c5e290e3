"""From a name to a pipeline, and all that is refused on the way."""

import json
import shutil
from pathlib import Path

import pytest

from biaslab.errors import ParameterError
from biaslab.generation import loading
from biaslab.generation.generator import load
from biaslab.generation.settings import GenerationSettings
from biaslab.hub import model_files


def changed(file: Path, **entries) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def refused(folder: Path, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        load(str(folder), GenerationSettings(steps=2))


@pytest.fixture
def folder(folders, tmp_path):
    """Return a copy of a pipeline's folder."""
    return Path(shutil.copytree(folders("sd1"), tmp_path / "model"))


# One takes an image, one makes a video, one sounds, one takes no text, and one is of text to image but for its control.
OTHERS = "StableDiffusionImg2Img StableVideoDiffusion TextToVideoSD AudioLDM2 DDPM FluxControl"


@pytest.mark.parametrize("name", [f"{name}Pipeline" for name in OTHERS.split()])
def test_a_pipeline_that_is_not_text_to_image_is_refused_by_name(folder, name):
    changed(folder / "model_index.json", _class_name=name)
    refused(folder, rf"is a {name}, which does not generate images from text alone")


@pytest.mark.parametrize(
    "name", ["FluxPipeline", "LatentConsistencyModelPipeline", "SanaPipeline", "LDMTextToImagePipeline"]
)
def test_pipelines_that_make_images_from_text_alone_are_known(tmp_path, name):
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": name}))
    assert loading.read_index(model_files.read_folder(tmp_path, "it"))[0].__name__ == name


def test_folders_that_hold_no_pipeline(folder, tmp_path):
    refused(tmp_path, r"holds no model_index\.json")
    (folder / "vae" / "diffusion_pytorch_model.safetensors").write_bytes(b"\x10" * 40)
    refused(folder, "cannot be loaded as a StableDiffusionPipeline: ")
    (folder / "model_index.json").write_text("{")
    refused(folder, r"model_index\.json cannot be read")


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
def test_sizes_that_nothing_has_are_told_with_the_models_name(folder, file, key, value, told):
    changed(folder / file, **{key: value})
    refused(folder, rf"{folder}.* {told}")
