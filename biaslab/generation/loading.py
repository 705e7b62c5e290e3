"""From a name to a pipeline: fetched, checked, loaded from safetensors, its scheduler chosen."""

from __future__ import annotations

import glob
import inspect
import logging
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

from biaslab.errors import BiaslabError, ParameterError, loading, name_help
from biaslab.execution import processor
from biaslab.generation import loras, texts
from biaslab.hub import checkpoints, huggingface, registry, repositories, safety
from biaslab.hub.registry import quiet
from biaslab.hub.repositories import Located, Repository
from biaslab.io import model_names
from biaslab.io.model_names import Adapter

_log = logging.getLogger(__name__)
# Arguments of a pipeline that needs more than text, and of one that makes something else than images.
_IMAGE_INPUTS = {"image", "mask_image", "control_image", "video", "ip_image"}
# Weights of the same parts in another precision, or of another stage of training; and those that are loaded where there
# are no others, the best first.
_VARIANTS = ("*.fp16*", "*.bf16*", "*.fp8*", "*.non_ema*")
_LOADED_VARIANTS = ("fp16", "bf16")
_ANY_WEIGHTS = (".safetensors", *safety.OTHER_WEIGHTS)
_OTHER_OUTPUTS = {"num_frames", "video_length", "fps", "frame_rate", "audio_length_in_s", "audio_end_in_s"}
# The packages that read quantised weights, by quant_method.
_QUANTISERS = {"bitsandbytes": "bitsandbytes", "torchao": "torchao", "gguf": "gguf"}
_QUANTISERS |= {"quanto": "optimum-quanto", "modelopt": "nvidia-modelopt"}
# The tensor by which trainers say that a network predicts velocity, not noise.
_IS_VELOCITY = "v_pred"


@dataclass(frozen=True)
class LocatedFiles:
    """The files behind a name; nothing of weights is fetched yet."""

    base: Located
    variants: Mapping[str, str]  # Parts of which there is a variant alone, such as ``fp16``, by name.
    spared: frozenset[str]  # Parts that are left out, as nothing asks for them.
    configurations: Located | None = None  # Of a checkpoint in one file, those that it is read by.
    adapters: tuple[Located, ...] = ()

    @property
    def located(self) -> list[Located]:
        """All of it."""
        more = [self.configurations] if self.configurations else []
        return [self.base, *more, *self.adapters]


@dataclass(frozen=True)
class Files:
    """The same on this machine: a pipeline's folder, or a checkpoint's file and its configurations."""

    located_files: LocatedFiles
    folder: Path
    file: Path | None
    commit: str
    adapters: tuple[tuple[Path, Adapter], ...]


def look_up(name: str, *, safety_checker: bool = True) -> LocatedFiles:
    """Return the files of the text-to-image model ``name``; of those on the hub only configurations are fetched.

    ``safety_checker`` is whether the model's own one is needed, where it has one. Raises ParameterError: It is not to
    be had, or no pipeline with safetensors for all its parts; a package is missing that reads them; or a LoRA is none
    for it, or lies beside it and nobody says whether it is meant. MissingInputError: The package that brings the model
    has lost its weights.
    """
    named = checkpoints.find_checkpoint(name)
    given = model_names.split(name)
    repository = repositories.look_up(given.base, "text-to-image", named.base)
    if checkpoints.file_of(named.base):
        located = _one_file(repository, named.base)
    elif checkpoints.INDEX not in repository.files:
        raise checkpoints.no_pipeline(repository)
    else:
        located = _pipeline(repository, safety_checker)
        own_files, others = checkpoints.sibling_files(repository)
        if own_files and not (named.adapters or named.removes_adapters):
            used, bare = (
                f"{given.base}+{checkpoints.name_of_file(repository, own_files[0])}",
                f"{given.base}+{model_names.NONE}",
            )
            fix = f"Write {used} to use it, or {bare} to leave it out."
            raise ParameterError(f"{given.base} holds {own_files[0]} next to the model. {fix}")
        used = {checkpoints.file_of(adapter.name) for adapter in named.adapters}
        if unused := [path for path in (*own_files, *others) if path not in used]:
            remark = f"{given.base}: {', '.join(unused)} is next to the model and is not used."
            located = replace(located, base=replace(located.base, remarks=(*located.base.remarks, remark)))
    if not named.adapters:
        return located
    _check_package("peft", f"A LoRA on {given.base} needs")
    loras = tuple(checkpoints.look_up_lora(adapter, given.base) for adapter in named.adapters)
    for lora in loras:
        _check_fits(lora, (located.configurations or located.base).repository, given.base)
    return replace(located, adapters=loras)


def _pipeline(repository: Repository, safety_checker: bool) -> LocatedFiles:
    """Return the files of a pipeline."""
    name = repository.name
    _, parts = safety.check_index(repository.file(checkpoints.INDEX))
    # Parts that nobody asks for are left out, whatever there is of them.
    spared = frozenset({"image_encoder", *([] if safety_checker else ["safety_checker"])}.intersection(parts))
    files, variants = [], {}
    for part in [part for part in parts if part not in spared]:
        weights = [path for path in repository.matching([f"{part}/*.safetensors"]) if path.rpartition("/")[0] == part]
        whole = [path for path in weights if not any(fnmatch(path, pattern) for pattern in _VARIANTS)]
        for variant in _LOADED_VARIANTS:
            if not whole and (whole := [path for path in weights if f".{variant}" in path and ".non_ema" not in path]):
                variants[part] = variant
        files += whole
        # What has weights has a config.json; schedulers and tokenizers have files of other names.
        if f"{part}/config.json" in repository.files:
            if not whole and not (repository.on_hub and repository.folder):
                others = sorted(p for p in repository.files if p.startswith(f"{part}/") and p.endswith(_ANY_WEIGHTS))
                without = "Set generation.safety_checker to off, or choose" if part == "safety_checker" else "Choose"
                problem = f"{repository.name} does not have all its weights as .safetensors: {part} has "
                fix = f"{without} a copy that has them."
                raise safety.not_safetensors(problem + (", ".join(others) or "none"), fix)
            _check_quantised(repository, part)
    located = repository.with_weights([glob.escape(path) for path in files])
    if variants:
        listed = ", ".join(f"{part} ({variant})" for part, variant in variants.items())
        located = replace(located, remarks=(f"{name} has weights of a variant alone for {listed}.",))
    return LocatedFiles(located, variants, spared)


def _check_quantised(repository: Repository, part: str) -> None:
    """Refuse quantised weights that cannot be read here."""
    config = repository.json(f"{part}/config.json").get("quantization_config")
    if not isinstance(config, dict):
        return
    method = str(config.get("quant_method", "bitsandbytes"))
    package = _QUANTISERS.get(method.removesuffix("_4bit").removesuffix("_8bit"))
    what = f"{repository.name} is quantised ({part}: {method})"
    if not package:
        raise ParameterError(f"{what} in a way that diffusers does not read. Choose a copy that is not.")
    _check_package(package, f"{what}, which needs")
    if package == "bitsandbytes" and processor.accelerator() == "cpu":
        raise ParameterError(f"{what}, which needs a GPU, and there is none here. Choose a copy that is not quantised.")


def _check_package(package: str, what: str) -> None:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ParameterError(f"{what} the package {package}, which is not installed: pip install {package}") from None


def _one_file(repository: Repository, where: str) -> LocatedFiles:
    """Return a checkpoint in one file, and the configurations of its base model."""
    name, path = repository.name, checkpoints.file_of(where)
    if path not in repository.files:
        raise ParameterError(f"{name} names a file that its repository does not have.")
    tensors = repository.tensors(path)
    checkpoints.check_file(repository, tensors)
    base = checkpoints.configurations(repository, where)
    try:
        config_repository = repositories.look_up(base, "text-to-image", base)
        _, parts = safety.check_index(config_repository.file(checkpoints.INDEX))
    except BiaslabError as error:
        fix = f"Run once with a network, or put it into a folder with {checkpoints.INDEX} and these configurations."
        raise ParameterError(f"{name} is read by the configurations of {base}: {error} {fix}") from error
    if lacks := [part for part, kind in parts.items() if _lacks(*kind, tensors)]:
        raise ParameterError(f"{name} is no whole model: it holds no {' and no '.join(lacks)}. Name a file that does.")
    remarks = ()
    if base != str(repository.folder) and huggingface.on_hub(base)[0] != repository.on_hub:
        remarks = (f"{name} is one file, and taken for a model like {base}, whose configurations it is read by.",)
    located = repository.with_weights([glob.escape(path)], safety.CONFIGURATIONS)
    configurations = Located(config_repository, (), tuple(config_repository.matching(safety.CONFIGURATIONS)))
    spared = frozenset(safety.SPARED).intersection(parts)
    return LocatedFiles(replace(located, remarks=remarks), {}, spared, configurations)


def _lacks(library: str, kind: str, tensors: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether a file has no weights for a part, a text encoder, of a library and class."""
    from diffusers.loaders import single_file_utils as known

    if "CLIPText" in kind:
        keys = (name for key, name in known.CHECKPOINT_KEY_NAMES.items() if "clip" in key)
        return not any(key in tensors for key in keys)
    if kind == "T5EncoderModel":
        return not known.is_t5_in_single_file(tensors)
    return library == "transformers" and kind.endswith(("Model", "ForConditionalGeneration", "ForCausalLM"))


# Of the network that a LoRA changes, what its tensors' names show, and the tensor that reads text.
_OF_UNETS = re.compile(r"(down|up|input|output)_blocks|mid(dle)?_block")
_OF_TRANSFORMERS = re.compile(r"transformer|(double|single|joint)_blocks|(^|[._])(blocks|layers)[._]\d")
_READS_TEXT = re.compile(r"attn2[._]to_[kv][._].*(lora[._]?(down|A))")


def _check_fits(lora: Located, parts: Repository, base: str) -> None:
    """Refuse a LoRA for another kind of network, as far as its names and shapes tell."""
    (path,) = lora.weights
    tensors = lora.repository.tensors(path)
    index = parts.json(checkpoints.INDEX)
    denoisers = {part for part in ("unet", "transformer") if isinstance(index.get(part), list) and index[part][1]}
    network = [name for name in tensors if not re.match(r"(text_encoder|lora_te)", name)]
    kinds = {"unet": _OF_UNETS, "transformer": _OF_TRANSFORMERS}
    kind = next((kind for kind, names in kinds.items() if any(map(names.search, network))), "")
    base_name = checkpoints.base_of(lora.repository)
    trained = f" Name the model that it was trained on{f', by its card {base_name}' if base_name else ''}."
    if kind and denoisers and kind not in denoisers:
        raise ParameterError(
            f"{lora.repository.name} is a LoRA for a model with a {kind}, such as the tensor {network[0]}, and {base} "
            f"has a {denoisers.pop()}.{trained}"
        )
    if kind == "unet" and "unet/config.json" in parts.files:
        width = parts.json("unet/config.json").get("cross_attention_dim")
        for name in filter(_READS_TEXT.search, network):
            if isinstance(width, int) and tensors[name][-1] != width:
                raise ParameterError(
                    f"{lora.repository.name} is a LoRA for another model than {base}: {name} reads text as rows of "
                    f"{tensors[name][-1]} numbers, and here they have {width}.{trained}"
                )


def fetch(name: str, *, safety_checker: bool = True) -> Files:
    """Return the files of :func:`look_up`, downloaded; ParameterError also where the model brings code."""
    located_files = look_up(name, safety_checker=safety_checker)
    given = model_names.split(name).adapters
    for remark in (remark for located in located_files.located for remark in located.remarks):
        _log.info(remark)
    with quiet(bars=True):
        on_it = tuple(zip(map(_file, located_files.adapters), given, strict=True))
        file = _file(located_files.base) if located_files.configurations else None
        folder = (located_files.configurations or located_files.base).fetch()
    # The hub's cache names a model's folder by its commit.
    commit = folder.name if folder.parent.name == "snapshots" and not file else ""
    return Files(located_files, folder, file, located_files.base.repository.commit or commit, on_it)


def _file(located: Located) -> Path:
    (path,) = located.weights
    return located.repository.file(path)


def pipeline_class(folder: Path, name: str):
    """Return the diffusers class of the pipeline in ``folder``; ParameterError where it is none of text to image."""
    import diffusers
    from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING as TEXT_TO_IMAGE

    if not (index := folder / checkpoints.INDEX).is_file():
        raise ParameterError(f"{name} is no diffusers pipeline: {folder} holds no {checkpoints.INDEX}.")
    class_name, parts = safety.check_index(index)
    # The two libraries say themselves which classes they do not have, or call otherwise by now.
    others = {kind for kind in parts.values() if kind[0] not in ("diffusers", "transformers")}
    unknown = sorted({library for library, kind in others if not inspect.isclass(_class(library, kind))})
    pipeline = getattr(diffusers, class_name, None)
    if unknown or not (inspect.isclass(pipeline) and issubclass(pipeline, diffusers.DiffusionPipeline)):
        needs = f"code that diffusers {diffusers.__version__} does not have ({', '.join(unknown) or class_name})"
        raise ParameterError(f"{name} needs {needs}. Code that comes with a model is never run.")
    takes = set(inspect.signature(pipeline.__call__).parameters)
    is_supported = pipeline in TEXT_TO_IMAGE.values() and "Control" not in class_name
    if "prompt" not in takes or takes & _OTHER_OUTPUTS or (takes & _IMAGE_INPUTS and not is_supported):
        raise ParameterError(f"{name} is a {class_name}, which does not make images from text alone.")
    return pipeline


def load_pipeline(files: Files, name: str, *, dtype):
    """Return the pipeline of files on the CPU, its weights as torch's ``dtype``; ``name`` is for messages.

    Raises ParameterError: It cannot be loaded, or a LoRA cannot be put on it.
    """
    import diffusers

    made, (_, parts) = pipeline_class(files.folder, name), safety.check_index(files.folder / checkpoints.INDEX)
    options = {"dtype": dtype} | dict.fromkeys(files.located_files.spared)
    vae = registry.autoencoder(files.folder)
    mapped = made in diffusers.pipelines.auto_pipeline.AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values()
    loader = diffusers.AutoPipelineForText2Image if mapped else diffusers.DiffusionPipeline
    with loading(name, f"a {made.__name__}"), quiet():
        if files.file:
            pipe = _from_file(made, files, name, dtype)
        else:
            if vae and vae.parent != files.folder:
                options["vae"] = diffusers.AutoencoderKL.from_pretrained(vae, use_safetensors=True, torch_dtype=dtype)
            # By themselves, for where there are others, too, a pipeline would take the variant of these as well.
            for part, variant in files.located_files.variants.items():
                options[part] = _class(*parts[part]).from_pretrained(
                    files.folder / part, variant=variant, use_safetensors=True, torch_dtype=dtype
                )
            pipe = loader.from_pretrained(str(files.folder), use_safetensors=True, **options)
    with quiet():
        loras.attach(pipe, files.adapters, name)
    texts.check_lengths(pipe, name)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _from_file(made: type, files: Files, name: str, dtype):
    if not hasattr(made, "from_single_file"):
        raise ParameterError(f"{name} is one file of a {made.__name__}, of which diffusers reads folders only.")
    with tempfile.TemporaryDirectory() as folder:
        # Without weights: diffusers would take those for parts that the file lacks.
        ignored = shutil.ignore_patterns(*(f"*{ending}*" for ending in (*_ANY_WEIGHTS, ".onnx", ".xml")))
        shutil.copytree(files.folder, folder, dirs_exist_ok=True, ignore=ignored)
        given = {"config": folder, "local_files_only": True, "torch_dtype": dtype}
        pipe = made.from_single_file(str(files.file), **given, **dict.fromkeys(files.located_files.spared))
    if _IS_VELOCITY in repositories.read_folder(files.file.parent, str(files.file)).tensors(files.file.name):
        # What configurations of its base model do not know, a mark in the file says.
        pipe.scheduler = type(pipe.scheduler).from_config(pipe.scheduler.config, prediction_type="v_prediction")
    for part, network in pipe.components.items():
        weights = network.named_parameters() if hasattr(network, "named_parameters") else ()
        if missing := [key for key, value in weights if value.is_meta]:
            raise ParameterError(f"{name} lacks weights of its {part}, such as {missing[0]}.")
    return pipe


def _class(library: str, name: str) -> type | None:
    """Return the class of a part of a pipeline; None where neither library has it."""
    import diffusers
    import transformers

    where = {"diffusers": diffusers, "transformers": transformers}.get(library)
    if where is None:
        where = getattr(diffusers.pipelines, library, None)
        if not (inspect.ismodule(where) and where.__name__.startswith("diffusers.pipelines.")):
            return None
    return getattr(where, name, None)


def set_scheduler(pipe, name: str) -> None:
    """Give a pipeline the scheduler ``name``, set as its own one; ParameterError where it cannot take it."""
    from diffusers import SchedulerMixin

    fitting = [type(pipe.scheduler), *getattr(pipe.scheduler, "compatibles", [])]
    # Those that need a package which is not installed are stand-ins of another class.
    schedulers = {c.__name__: c for c in fitting if inspect.isclass(c) and issubclass(c, SchedulerMixin)}
    short = {k.lower().removesuffix("scheduler"): v for k, v in schedulers.items()}
    wanted = short.get(name.lower().removesuffix("scheduler"))
    if wanted is None:
        raise ParameterError(f"scheduler is {name!r}, which this model cannot take. {name_help(name, schedulers)}")
    with quiet():
        pipe.scheduler = wanted.from_config(pipe.scheduler.config)
