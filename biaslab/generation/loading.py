"""From a name to a pipeline: fetched, checked, loaded from safetensors, its scheduler chosen."""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from biaslab import models, reading, repositories
from biaslab.errors import BiaslabError, ParameterError, loading, name_help
from biaslab.generation import texts
from biaslab.repositories import Located

# Arguments of a pipeline that needs more than text, and of one that makes something else than images.
_IMAGE_INPUTS = {"image", "mask_image", "control_image", "video", "ip_image"}
# Weights of the same parts in another precision, or of another stage of training.
_VARIANTS = ("*.fp16*", "*.bf16*", "*.fp8*", "*.non_ema*")
_ANY_WEIGHTS = (".safetensors", *models.OTHER_WEIGHTS)
_OTHER_OUTPUTS = {"num_frames", "video_length", "fps", "frame_rate", "audio_length_in_s", "audio_end_in_s"}


def look_up(name: str) -> Located:
    """Return the files of the text-to-image model ``name``; of those on the hub only its index is fetched.

    Raises:
        ParameterError: The name is unknown, the hub does not have it or cannot be reached, or the model is no pipeline,
            or has no safetensors for all its parts.
        MissingInputError: The package that brings the model has lost its weights.
    """
    found = repositories.look_up(name, "text-to-image")
    if "model_index.json" not in found.files:
        raise ParameterError(f"{name} is no diffusers pipeline: it holds no model_index.json.")
    parts = models.check_index(found.file("model_index.json"))
    for part in parts:
        # What has weights has a config.json; schedulers and tokenizers have files of other names.
        if f"{part}/config.json" in found.files and not any(found.matching(_weights([part]), _VARIANTS)):
            other = [
                path for path in found.files if path.startswith(f"{part}/") and path.endswith(_ANY_WEIGHTS)
            ]
            raise ParameterError(
                f"{name} has no weights as .safetensors, or not for all its parts: {part} has "
                f"{', '.join(sorted(other)) or 'none'}. Other formats are refused, because they can run code when they "
                "are opened, and weights of a variant alone cannot be loaded yet. Choose a copy of the model that has "
                "them."
            )
    return found.with_weights(_weights(parts), _VARIANTS)


def fetch(name: str) -> Path:
    """Return the folder of the text-to-image model ``name``, downloaded where it is on the hub.

    Raises as :func:`look_up`, and ParameterError where the model brings code.
    """
    where = models.resolve(name, "text-to-image")
    if Path(where).is_dir():
        return Path(where)
    # Before gigabytes are fetched; what else lies there is not for us.
    located = look_up(name)
    if located.repository.folder:
        models.check_folder(located.repository.folder)
        return located.repository.folder
    try:
        with quiet(bars=True):
            parts = models.check_index(located.repository.file("model_index.json"))
            return models.fetched(where, _weights(parts), skip=_VARIANTS)
    except BiaslabError:
        raise
    # The hub's client raises many kinds of errors; each becomes one that says what to do.
    except Exception as error:
        raise ParameterError(models.hub_problem(name, "text-to-image", error)) from error


def _weights(parts: Iterable[str]) -> list[str]:
    return [f"{part}/*.safetensors" for part in parts]


def pipeline_class(folder: Path, name: str):
    """Return the diffusers class of the pipeline in ``folder``, which must make images from text alone.

    Raises:
        ParameterError: There is no pipeline, it brings code of its own, or it is of another kind.
    """
    import diffusers
    from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING as TEXT_TO_IMAGE

    index = folder / "model_index.json"
    if not index.is_file():
        raise ParameterError(f"{name} is no diffusers pipeline: {folder} holds no model_index.json.")
    parts = models.check_index(index)
    said = _said(folder)
    class_name = said["_class_name"]
    unknown = sorted({said[part][0] for part in parts if not _has_class(*said[part])})
    found = getattr(diffusers, class_name, None)
    if unknown or not (inspect.isclass(found) and issubclass(found, diffusers.DiffusionPipeline)):
        raise ParameterError(
            f"{name} needs code that diffusers {diffusers.__version__} does not have "
            f"({', '.join(unknown) or class_name}). Code that comes with a model is never run."
        )
    takes = set(inspect.signature(found.__call__).parameters)
    known = found in TEXT_TO_IMAGE.values() and "Control" not in class_name
    if "prompt" not in takes or takes & _OTHER_OUTPUTS or (takes & _IMAGE_INPUTS and not known):
        raise ParameterError(
            f"{name} is a {class_name}, which does not make images from text alone. Name a text-to-image pipeline, "
            "such as a StableDiffusionPipeline."
        )
    return found


def _said(folder: Path) -> dict:
    return json.loads(reading.text(folder / "model_index.json"))


def _has_class(library: str, name: str) -> bool:
    """Return whether diffusers has the library's class for a part of a pipeline."""
    import diffusers

    # They say themselves which classes they do not have, or call otherwise by now.
    if library in ("diffusers", "transformers"):
        return True
    where = getattr(diffusers.pipelines, library, None)
    ours = inspect.ismodule(where) and where.__name__.startswith("diffusers.pipelines.")
    return ours and inspect.isclass(getattr(where, name, None))


def load_pipeline(folder: Path, name: str, *, dtype, safety_checker: bool):
    """Return the pipeline in ``folder`` on the CPU, its weights as torch's ``dtype``; ``name`` is for messages.

    Raises:
        ParameterError: The folder does not hold a text-to-image pipeline that can be loaded.
    """
    import diffusers

    made = pipeline_class(folder, name)
    options = {"dtype": dtype}
    if not safety_checker and "safety_checker" in _said(folder):
        options["safety_checker"] = None
    vae = models.autoencoder(folder)
    mapped = made in diffusers.pipelines.auto_pipeline.AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values()
    loader = diffusers.AutoPipelineForText2Image if mapped else diffusers.DiffusionPipeline
    with loading(name, f"a {made.__name__}"), quiet():
        if vae and vae.parent != folder:
            options["vae"] = diffusers.AutoencoderKL.from_pretrained(
                vae, use_safetensors=True, torch_dtype=dtype
            )
        pipe = loader.from_pretrained(str(folder), use_safetensors=True, **options)
    texts.check_lengths(pipe, name)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def set_scheduler(pipe, name: str) -> None:
    """Give a pipeline the scheduler ``name``, with the settings of its own one.

    Raises:
        ParameterError: There is no such scheduler, or the model cannot take it.
    """
    from diffusers import SchedulerMixin

    fitting = [type(pipe.scheduler), *getattr(pipe.scheduler, "compatibles", [])]
    # Those that need a package which is not installed are stand-ins of another class.
    known = {c.__name__: c for c in fitting if inspect.isclass(c) and issubclass(c, SchedulerMixin)}
    short = {k.lower().removesuffix("scheduler"): v for k, v in known.items()}
    wanted = short.get(name.lower().removesuffix("scheduler"))
    if wanted is None:
        raise ParameterError(f"scheduler is {name!r}, which this model cannot take. {name_help(name, known)}")
    with quiet():
        pipe.scheduler = wanted.from_config(pipe.scheduler.config)


@contextlib.contextmanager
def quiet(*, bars: bool = False) -> Iterator[None]:
    """Keep the libraries' remarks, and bars unless asked for, out of the output: biaslab says what matters."""
    import diffusers.utils.logging as diffusers_logging
    import transformers.utils.logging as transformers_logging

    libraries = {"diffusers": diffusers_logging, "transformers": transformers_logging}
    kept = {name: (logging.getLogger(name).level, said._tqdm_active) for name, said in libraries.items()}
    try:
        for name, said in libraries.items():
            logging.getLogger(name).setLevel(logging.ERROR)
            if not bars:
                said.disable_progress_bar()
        with warnings.catch_warnings():
            # They warn of settings that model files hold, of their own next releases and of numpy's.
            for category in (FutureWarning, DeprecationWarning):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        for name, (level, shown) in kept.items():
            logging.getLogger(name).setLevel(level)
            if shown and not bars:
                libraries[name].enable_progress_bar()
