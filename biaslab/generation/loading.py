"""Load pipelines by name: download, check, load from safetensors, and set the scheduler."""

from __future__ import annotations

import contextlib
import glob
import inspect
import logging
import re
import shutil
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

from biaslab.errors import NEVER_RUN, BiaslabError, ParameterError, loading, name_help
from biaslab.execution import processor
from biaslab.generation import texts
from biaslab.hub import checkpoints, model_files, registry, safety
from biaslab.hub.model_files import ModelFiles
from biaslab.hub.registry import quiet
from biaslab.io import model_names
from biaslab.io.model_names import Adapter

_log = logging.getLogger(__name__)
# Arguments of a pipeline that needs images as inputs.
_IMAGE_INPUTS = {"image", "mask_image", "control_image", "video", "ip_image"}
# Weights of the same parts in another precision, or from another stage of training; and those that are loaded if there
# are no others, in order of preference.
_VARIANTS = ("*.fp16*", "*.bf16*", "*.fp8*", "*.non_ema*")
_LOADED_VARIANTS = ("fp16", "bf16")
# Parts that text-to-image generation does not need; the safety checker is a setting.
_OPTIONAL = ("safety_checker", "image_encoder")
_ANY_WEIGHTS = (".safetensors", *safety.OTHER_WEIGHTS)
# Arguments of a pipeline with outputs other than images.
_OTHER_OUTPUTS = {"num_frames", "video_length", "fps", "frame_rate", "audio_length_in_s", "audio_end_in_s"}
# The packages that read quantised weights, by quant_method.
_QUANTISERS = {"bitsandbytes": "bitsandbytes", "torchao": "torchao", "gguf": "gguf"}
_QUANTISERS |= {"quanto": "optimum-quanto", "modelopt": "nvidia-modelopt"}
# The tensor by which trainers mark a network that predicts velocity, not noise.
_IS_VELOCITY = "v_pred"


@dataclass(frozen=True)
class PipelineFiles:
    """The files of a text-to-image model: a pipeline or a single-file checkpoint, configurations, and LoRAs."""

    pipeline_class: type  # The class of diffusers.
    parts: Mapping[str, tuple[str, str]]  # The library and class of each part.
    base: ModelFiles  # The pipeline or checkpoint.
    configurations: ModelFiles | None = None  # The configurations for a single-file checkpoint.
    adapters: tuple[ModelFiles, ...] = ()  # LoRAs, in the order of the name.
    variants: Mapping[str, str] = field(default_factory=dict)  # Parts that only have a variant, such as ``fp16``.
    omitted: frozenset[str] = frozenset()  # Parts that are not loaded.

    @property
    def pipeline(self) -> ModelFiles:
        """The files that contain the index and the configurations of the parts."""
        return self.configurations or self.base

    @property
    def all(self) -> list[ModelFiles]:
        """All members: base, configurations and adapters."""
        return [self.base, *([self.configurations] if self.configurations else []), *self.adapters]

    def fetch(self) -> PipelineFiles:
        """Return the same files on this machine; errors as of :meth:`ModelFiles.fetch`."""
        base, *other_files = (replace(files, folder=files.fetch()) for files in self.all)
        configurations = other_files.pop(0) if self.configurations else None
        return replace(self, base=base, configurations=configurations, adapters=tuple(other_files))


def look_up(name: str, *, safety_checker: bool = True) -> PipelineFiles:
    """Return the files of the text-to-image model ``name``; from the hub, only configurations are downloaded.

    ``safety_checker`` is whether the model's safety checker is needed, if it has one. Raises ParameterError: The model
    is unavailable, or not a pipeline with safetensors for all its parts; a package for reading them is missing; or a
    LoRA does not fit it, or is next to it and the name does not specify its use. MissingInputError: The weights of the
    package that provides the model are missing.
    """
    model_name = checkpoints.find_checkpoint(name)
    base = model_names.split(name).base
    model = model_files.look_up(base, checkpoints.KIND, model_name.base)
    if model.weights:
        files = _describe_file(model)
    elif checkpoints.INDEX not in model.files:
        raise checkpoints.no_pipeline(model)
    else:
        files = _describe_pipeline(model, safety_checker)
    if model_name.adapters:
        _check_package("peft", f"A LoRA on {base} needs")
    adapters = tuple(checkpoints.look_up_lora(adapter.name, base) for adapter in model_name.adapters)
    own_files, other_loras = checkpoints.sibling_loras(model) if not model.weights else ([], [])
    if own_files and not (adapters or model_name.removes_adapters):
        raise ParameterError(
            f"{base} contains {own_files[0]} next to the model. To use it, write {base}+{model.name_of(own_files[0])}; "
            f"to ignore it, write {base}+{model_names.NONE}."
        )
    local_loras = [lora for lora in adapters if (lora.repository, lora.folder) == (model.repository, model.folder)]
    used_paths = {path for lora in local_loras for path in lora.weights}
    if unused_paths := [path for path in (*own_files, *other_loras) if path not in used_paths]:
        remark = f"{base}: these LoRAs next to the model are not used: {', '.join(unused_paths)}."
        files = replace(files, base=replace(files.base, remarks=(*files.base.remarks, remark)))
    for lora in adapters:
        _check_fits(lora, files.pipeline, base)
    return replace(files, adapters=adapters)


def read_index(files: ModelFiles) -> tuple[type, dict[str, tuple[str, str]]]:
    """Return the diffusers class of a pipeline, and the library and class of each of its parts.

    Raises ParameterError: The index cannot be read, or names other code, or is not that of a text-to-image pipeline.
    """
    import diffusers
    from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING as TEXT_TO_IMAGE

    index = files.json(checkpoints.INDEX)
    class_name = index.get("_class_name")
    lists = {part: value for part, value in index.items() if isinstance(value, list)}
    # A model without a part names neither its library nor its class.
    parts = {part: tuple(value) for part, value in lists.items() if any(isinstance(name, str) for name in value)}
    unknown = [f"{part}: {'.'.join(map(str, names))}" for part, names in parts.items() if not _is_known(part, *names)]
    pipeline = getattr(diffusers, str(class_name), None)
    if unknown or not (inspect.isclass(pipeline) and issubclass(pipeline, diffusers.DiffusionPipeline)):
        code = f"code that diffusers {diffusers.__version__} does not have ({', '.join(unknown) or class_name})"
        raise ParameterError(f"{files.name} needs {code}. {NEVER_RUN}")
    parameters = set(inspect.signature(pipeline.__call__).parameters)
    is_supported = pipeline in TEXT_TO_IMAGE.values() and "Control" not in pipeline.__name__
    if "prompt" not in parameters or parameters & _OTHER_OUTPUTS or (parameters & _IMAGE_INPUTS and not is_supported):
        raise ParameterError(f"{files.name} is a {class_name}, which does not generate images from text alone.")
    return pipeline, parts


def _is_known(part: str, *names: object) -> bool:
    """Return whether a part of a pipeline is named by a known library and a class that it has."""
    identifiers = [name for name in (part, *names) if isinstance(name, str) and name.isidentifier()]
    if len(names) != 2 or len(identifiers) != 3:
        return False
    # diffusers and transformers report unknown or renamed classes themselves.
    return identifiers[1] in ("diffusers", "transformers") or inspect.isclass(
        _find_class(identifiers[1], identifiers[2])
    )


def _find_class(library: str, name: str) -> type | None:
    """Return the class of a part of a pipeline; None if the library is unknown or lacks it."""
    import diffusers
    import transformers

    module = {"diffusers": diffusers, "transformers": transformers}.get(library)
    if module is None:
        module = getattr(diffusers.pipelines, library, None)
        if not (inspect.ismodule(module) and module.__name__.startswith("diffusers.pipelines.")):
            return None
    return getattr(module, name, None)


def _describe_pipeline(model: ModelFiles, safety_checker: bool) -> PipelineFiles:
    """Return the files of a pipeline."""
    pipeline_class, parts = read_index(model)
    omitted_parts = frozenset(_OPTIONAL[1:] if safety_checker else _OPTIONAL).intersection(parts)
    paths, variants = [], {}
    for part in [part for part in parts if part not in omitted_parts]:
        weights = [path for path in model.matching([f"{part}/*.safetensors"]) if path.rpartition("/")[0] == part]
        part_weights = [path for path in weights if not any(fnmatch(path, pattern) for pattern in _VARIANTS)]
        for variant in _LOADED_VARIANTS:
            if not part_weights and (
                part_weights := [p for p in weights if f".{variant}" in p and ".non_ema" not in p]
            ):
                variants[part] = variant
        paths += part_weights
        # A part with weights has a config.json; files of schedulers and tokenizers have other names.
        if f"{part}/config.json" in model.files:
            if not part_weights and not (model.repository and model.folder):
                names = sorted(p for p in model.files if p.startswith(f"{part}/") and p.endswith(_ANY_WEIGHTS))
                advice = "Set generation.safety_checker to off, or choose" if part == "safety_checker" else "Choose"
                problem = f"{model.name} does not have all its weights as .safetensors: {part} has "
                raise safety.not_safetensors(
                    problem + (", ".join(names) or "none"), f"{advice} a copy with safetensors."
                )
            _check_quantised(model, part)
    base = model.with_weights([glob.escape(path) for path in paths])
    if variants:
        descriptions = ", ".join(f"{part} ({variant})" for part, variant in variants.items())
        base = replace(base, remarks=(f"{model.name} has only weights of a variant for {descriptions}.",))
    return PipelineFiles(pipeline_class, parts, base, variants=variants, omitted=omitted_parts)


def _check_quantised(model: ModelFiles, part: str) -> None:
    """Raise ParameterError if quantised weights cannot be read on this machine."""
    config = model.json(f"{part}/config.json").get("quantization_config")
    if not isinstance(config, dict):
        return
    method = str(config.get("quant_method", "bitsandbytes"))
    package = _QUANTISERS.get(method.removesuffix("_4bit").removesuffix("_8bit"))
    start = f"{model.name} is quantized ({part}: {method})"
    if not package:
        raise ParameterError(
            f"{start} by a method that diffusers does not support. Choose a copy that is not quantized."
        )
    _check_package(package, f"{start}, which needs")
    if package == "bitsandbytes" and processor.accelerator() == "cpu":
        raise ParameterError(
            f"{start}, which needs a GPU, but this machine has none. Choose a copy that is not quantized."
        )


def _check_package(package: str, start: str) -> None:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ParameterError(f"{start} the package {package}, which is not installed: pip install {package}") from None


def _describe_file(model: ModelFiles) -> PipelineFiles:
    """Return the files of a single-file checkpoint, and of the configurations of its base model."""
    tensors = model.tensors(model.weights[0])
    checkpoints.check_tensors(model, tensors)
    base = checkpoints.configurations(model)
    try:
        base_files = model_files.look_up(base, checkpoints.KIND, base)
        pipeline_class, parts = read_index(base_files)
    except BiaslabError as error:
        fix = "Run once with a network connection, or put the file into a folder with "
        fix += f"{checkpoints.INDEX} and these configurations."
        raise ParameterError(f"{model.name} needs the configurations of {base}: {error} {fix}") from error
    if missing_parts := [part for part, kind in parts.items() if _lacks_encoder(*kind, tensors)]:
        problem = f"it contains no {' and no '.join(missing_parts)}. Use a file that contains all parts."
        raise ParameterError(f"{model.name} is not a complete model: {problem}")
    if base != str(model.folder) and base_files.repository != model.repository:
        remark = f"{model.name} is one file; it is assumed to be a model like {base}, whose configurations are used."
        model = replace(model, remarks=(remark,))
    configurations = replace(base_files, loaded=tuple(base_files.matching(safety.CONFIGURATIONS)))
    return PipelineFiles(pipeline_class, parts, model, configurations, omitted=frozenset(_OPTIONAL).intersection(parts))


def _lacks_encoder(library: str, kind: str, tensors: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether a file lacks weights for a part of a library and class, if it is a text encoder."""
    from diffusers.loaders import single_file_utils

    if "CLIPText" in kind:
        keys = (name for key, name in single_file_utils.CHECKPOINT_KEY_NAMES.items() if "clip" in key)
        return not any(key in tensors for key in keys)
    if kind == "T5EncoderModel":
        return not single_file_utils.is_t5_in_single_file(tensors)
    return library == "transformers" and kind.endswith(("Model", "ForConditionalGeneration", "ForCausalLM"))


# Patterns of tensor names of LoRAs, by the network that they change, and of the tensor that reads text.
_UNET_NAMES = re.compile(r"(down|up|input|output)_blocks|mid(dle)?_block")
_TRANSFORMER_NAMES = re.compile(r"transformer|(double|single|joint)_blocks|(^|[._])(blocks|layers)[._]\d")
_TEXT_TENSOR = re.compile(r"attn2[._]to_[kv][._].*(lora[._]?(down|A))")


def _check_fits(lora: ModelFiles, pipeline: ModelFiles, base: str) -> None:
    """Raise ParameterError if names or shapes of a LoRA's tensors show that it is for another network."""
    tensors = lora.tensors(lora.weights[0])
    index = pipeline.json(checkpoints.INDEX)
    denoisers = {part for part in ("unet", "transformer") if isinstance(index.get(part), list) and index[part][1]}
    network_tensors = [name for name in tensors if not re.match(r"(text_encoder|lora_te)", name)]
    kinds = {"unet": _UNET_NAMES, "transformer": _TRANSFORMER_NAMES}
    kind = next((kind for kind, names in kinds.items() if any(map(names.search, network_tensors))), "")
    base_name = checkpoints.base_of(lora)
    advice = f" Use the model that it was trained on{f': {base_name}, according to its card' if base_name else ''}."
    if kind and denoisers and kind not in denoisers:
        raise ParameterError(
            f"{lora.name} is a LoRA for a model with a {kind} (see the tensor {network_tensors[0]}), but {base} has a "
            f"{denoisers.pop()}.{advice}"
        )
    if kind == "unet" and "unet/config.json" in pipeline.files:
        width = pipeline.json("unet/config.json").get("cross_attention_dim")
        for name in filter(_TEXT_TENSOR.search, network_tensors):
            if isinstance(width, int) and tensors[name][-1] != width:
                raise ParameterError(
                    f"{lora.name} is a LoRA for a model other than {base}: {name} expects text embeddings of "
                    f"{tensors[name][-1]} numbers, but here they have {width}.{advice}"
                )


def fetch(name: str, *, safety_checker: bool = True) -> PipelineFiles:
    """Return the files of :func:`look_up`, downloaded and checked; errors also as of :meth:`ModelFiles.fetch`."""
    files = look_up(name, safety_checker=safety_checker)
    for remark in (remark for member in files.all for remark in member.remarks):
        _log.info(remark)
    with quiet(bars=True):
        return files.fetch()


def load_pipeline(files: PipelineFiles, name: str, *, dtype):
    """Return the pipeline of downloaded files on the CPU, with weights of torch's ``dtype``; ``name`` is for messages.

    Raises ParameterError: It cannot be loaded, or a LoRA cannot be attached to it.
    """
    import diffusers

    folder, pipeline_class = files.pipeline.folder, files.pipeline_class
    options = {"dtype": dtype} | dict.fromkeys(files.omitted)
    vae = registry.autoencoder(folder)
    is_mapped = pipeline_class in diffusers.pipelines.auto_pipeline.AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values()
    loader = diffusers.AutoPipelineForText2Image if is_mapped else diffusers.DiffusionPipeline
    with loading(name, f"a {pipeline_class.__name__}"), quiet():
        if files.configurations:
            pipe = _load_file(files, name, dtype)
        else:
            if vae and vae.parent != folder:
                options["vae"] = diffusers.AutoencoderKL.from_pretrained(vae, use_safetensors=True, torch_dtype=dtype)
            # Parts are loaded one by one: with a variant, a pipeline would also use it for parts with other weights.
            for part, variant in files.variants.items():
                options[part] = _find_class(*files.parts[part]).from_pretrained(
                    folder / part, variant=variant, use_safetensors=True, torch_dtype=dtype
                )
            pipe = loader.from_pretrained(str(folder), use_safetensors=True, **options)
    with quiet():
        lora_files = [lora.file(lora.weights[0]) for lora in files.adapters]
        _attach_loras(pipe, list(zip(lora_files, model_names.split(name).adapters, strict=True)), name)
    texts.check_lengths(pipe, name)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _load_file(files: PipelineFiles, name: str, dtype):
    pipeline = files.pipeline_class
    if not hasattr(pipeline, "from_single_file"):
        raise ParameterError(
            f"{name} is a single file of a {pipeline.__name__}, which diffusers reads only from folders. Use a folder."
        )
    (path,) = files.base.weights
    with tempfile.TemporaryDirectory() as folder:
        # The copy has no weights, because diffusers would use them for parts that the file lacks.
        ignore_weights = shutil.ignore_patterns(*(f"*{ending}*" for ending in (*_ANY_WEIGHTS, ".onnx", ".xml")))
        shutil.copytree(files.pipeline.folder, folder, dirs_exist_ok=True, ignore=ignore_weights)
        options = {"config": folder, "local_files_only": True, "torch_dtype": dtype}
        pipe = pipeline.from_single_file(str(files.base.file(path)), **options, **dict.fromkeys(files.omitted))
    if _IS_VELOCITY in files.base.tensors(path):
        # The configurations of the base model lack this; a tensor in the file marks it.
        pipe.scheduler = type(pipe.scheduler).from_config(pipe.scheduler.config, prediction_type="v_prediction")
    for part, network in pipe.components.items():
        weights = network.named_parameters() if hasattr(network, "named_parameters") else ()
        if missing := [key for key, value in weights if value.is_meta]:
            raise ParameterError(f"{name} lacks weights of its {part}, such as {missing[0]}. Download it again.")
    return pipe


def set_scheduler(pipe, name: str) -> None:
    """Set the scheduler ``name`` of a pipeline, with its current configuration; ParameterError if incompatible."""
    from diffusers import SchedulerMixin

    compatible = [type(pipe.scheduler), *getattr(pipe.scheduler, "compatibles", [])]
    # Schedulers that need a missing package are placeholders of another class.
    schedulers = {c.__name__: c for c in compatible if inspect.isclass(c) and issubclass(c, SchedulerMixin)}
    by_short_name = {k.lower().removesuffix("scheduler"): v for k, v in schedulers.items()}
    scheduler_class = by_short_name.get(name.lower().removesuffix("scheduler"))
    if scheduler_class is None:
        raise ParameterError(f"scheduler is {name!r}, which this model does not support. {name_help(name, schedulers)}")
    with quiet():
        pipe.scheduler = scheduler_class.from_config(pipe.scheduler.config)


# -- LoRAs: rejected if unsupported or without effect --------------------------------------------------------

# The suffix of a LoRA tensor's name after the name of its layer.
_LORA_SUFFIX = re.compile(r"\.(lora_(A|B|E|magnitude)|lokr_|alpha$).*")


def _attach_loras(pipe, adapters: Sequence[tuple[Path, Adapter]], name: str) -> None:
    """Attach LoRAs to a pipeline ``name`` that is on the CPU, each with its weight.

    Raises ParameterError: The pipeline supports no LoRA, or a LoRA has unmatched tensors, or changes no weight.
    """
    if not adapters:
        return
    if not hasattr(pipe, "load_lora_weights"):
        raise ParameterError(f"{name} is a {type(pipe).__name__}, for which diffusers does not support LoRAs.")
    names = [f"lora_{number}" for number in range(len(adapters))]
    for adapter_name, (file, adapter) in zip(names, adapters, strict=True):
        options = {"weight_name": file.name, "local_files_only": True, "use_safetensors": True}
        with loading(adapter.name, f"a LoRA on {model_names.base(name)}"), _ignore_peft_version():
            layers = _find_layers(pipe, str(file.parent), options)
            _check_layers(layers, _find_modules(pipe), adapter.name)
            pipe.load_lora_weights(str(file.parent), adapter_name=adapter_name, **options)
        changes = _find_changes(pipe, adapter_name)
        _check_layers(layers, changes, adapter.name)
        if not any(changes.values()):
            raise ParameterError(f"{adapter.name} changes no weight of this model. Remove it, or download it again.")
    with _ignore_peft_version():
        pipe.set_adapters(names, [adapter.weight for _, adapter in adapters])


def _find_layers(pipe, folder: str, options: dict) -> set[str]:
    """Return the layers that a file's tensors change, by their names in the pipeline."""
    from diffusers.utils import state_dict_utils as names

    config = {"unet_config": pipe.unet.config} if getattr(pipe, "unet", None) is not None else {}
    state_dict = type(pipe).lora_state_dict(folder, **options, **config)
    tensors, layers = state_dict[0] if isinstance(state_dict, tuple) else state_dict, set()
    for part in {key.partition(".")[0] for key in tensors}:
        part_tensors = {key.partition(".")[2]: v for key, v in tensors.items() if key.startswith(f"{part}.")}
        # Names are converted in the same way as by load_lora_weights.
        if part.startswith("text_encoder"):
            part_tensors = names.convert_state_dict_to_peft(names.convert_state_dict_to_diffusers(part_tensors))
        elif not any("lora_A" in key or "lokr_" in key for key in part_tensors):
            part_tensors = names.convert_unet_state_dict_to_peft(part_tensors)
        layers |= {f"{part}.{_LORA_SUFFIX.sub('', key)}" for key in part_tensors}
    return layers


def _find_modules(pipe) -> dict[str, object]:
    """Return the modules of a pipeline's parts, by part and name."""
    parts = ((part, network) for part, network in pipe.components.items() if hasattr(network, "named_modules"))
    return {f"{part}.{path}": module for part, network in parts for path, module in network.named_modules()}


def _find_changes(pipe, adapter_name: str) -> dict[str, bool]:
    """Return the layers to which a LoRA was attached, and whether it changes them."""
    changes = {}
    for path, module in _find_modules(pipe).items():
        if adapter_name in getattr(module, "lora_B", {}):
            has_weights = module.lora_A[adapter_name].weight.any() and module.lora_B[adapter_name].weight.any()
            changes[path] = bool(has_weights) and module.scaling[adapter_name] != 0
        # LoKr adapters have other parameters.
        elif adapter_name in getattr(module, "lokr_w1", {}):
            changes[path] = True
    return changes


def _check_layers(layers: set[str], paths: Collection[str], name: str) -> None:
    """Raise ParameterError if layers of a LoRA are not among ``paths``."""
    # CLIP's text encoders had other names before.
    known_paths = {path.replace(".text_model.", ".") for path in paths}
    if unmatched := sorted(layer for layer in layers if layer.replace(".text_model.", ".") not in known_paths):
        raise ParameterError(
            f"{name} is not a LoRA for this model: {len(unmatched)} of the {len(layers)} layers that it changes are "
            f"missing, such as {unmatched[0]}. Use the model that it was trained on."
        )


@contextlib.contextmanager
def _ignore_peft_version() -> Iterator[None]:
    # transformers requires a later release of peft than diffusers needs; this module checks the result itself.
    from transformers.integrations import peft

    check = getattr(peft, "check_peft_version", None)
    if check is None:
        yield
        return
    peft.check_peft_version = lambda *args, **kwargs: None
    try:
        with warnings.catch_warnings():
            # Several LoRAs are intended.
            warnings.filterwarnings("ignore", "Already found a `peft_config`")
            yield
    finally:
        peft.check_peft_version = check
