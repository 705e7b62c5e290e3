"""From a name to a pipeline: fetched, checked, loaded from safetensors, its scheduler chosen."""

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
# Arguments of a pipeline that needs more than text, and of one that makes something else than images.
_IMAGE_INPUTS = {"image", "mask_image", "control_image", "video", "ip_image"}
# Weights of the same parts in another precision, or of another stage of training; and those that are loaded where there
# are no others, the best first.
_VARIANTS = ("*.fp16*", "*.bf16*", "*.fp8*", "*.non_ema*")
_LOADED_VARIANTS = ("fp16", "bf16")
# Parts that images of texts can be made without; the safety checker is a setting.
_OPTIONAL = ("safety_checker", "image_encoder")
_ANY_WEIGHTS = (".safetensors", *safety.OTHER_WEIGHTS)
_OTHER_OUTPUTS = {"num_frames", "video_length", "fps", "frame_rate", "audio_length_in_s", "audio_end_in_s"}
# The packages that read quantised weights, by quant_method.
_QUANTISERS = {"bitsandbytes": "bitsandbytes", "torchao": "torchao", "gguf": "gguf"}
_QUANTISERS |= {"quanto": "optimum-quanto", "modelopt": "nvidia-modelopt"}
# The tensor by which trainers say that a network predicts velocity, not noise.
_IS_VELOCITY = "v_pred"


@dataclass(frozen=True)
class PipelineFiles:
    """The files of a text-to-image model: a pipeline or a checkpoint in one file, and what it is combined with."""

    pipeline_class: type  # The class of diffusers.
    parts: Mapping[str, tuple[str, str]]  # The library and class of each part.
    base: ModelFiles  # The pipeline or checkpoint.
    configurations: ModelFiles | None = None  # Of a checkpoint in one file, those that it is read with.
    adapters: tuple[ModelFiles, ...] = ()  # LoRAs, in the order of the name.
    variants: Mapping[str, str] = field(default_factory=dict)  # Parts that only have a variant, such as ``fp16``.
    omitted: frozenset[str] = frozenset()  # Parts that are not loaded.

    @property
    def pipeline(self) -> ModelFiles:
        """The files that contain the index and the configurations of the parts."""
        return self.configurations or self.base

    @property
    def all(self) -> list[ModelFiles]:
        """All of them."""
        return [self.base, *([self.configurations] if self.configurations else []), *self.adapters]

    def fetch(self) -> PipelineFiles:
        """Return the same files on this machine; errors as of :meth:`ModelFiles.fetch`."""
        base, *others = (replace(files, folder=files.fetch()) for files in self.all)
        configurations = others.pop(0) if self.configurations else None
        return replace(self, base=base, configurations=configurations, adapters=tuple(others))


def look_up(name: str, *, safety_checker: bool = True) -> PipelineFiles:
    """Return the files of the text-to-image model ``name``; of those on the hub only configurations are downloaded.

    ``safety_checker`` is whether the model's own one is needed, where it has one. Raises ParameterError: It is
    unavailable, or no pipeline with safetensors for all its parts; a package is missing that reads them; or a LoRA is
    none for it, or lies next to it and the name does not say whether it is used. MissingInputError: The package that
    brings the model has lost its weights.
    """
    named = checkpoints.find_checkpoint(name)
    base = model_names.split(name).base
    model = model_files.look_up(base, checkpoints.KIND, named.base)
    if model.weights:
        files = _one_file(model)
    elif checkpoints.INDEX not in model.files:
        raise checkpoints.no_pipeline(model)
    else:
        files = _pipeline(model, safety_checker)
    if named.adapters:
        _check_package("peft", f"A LoRA on {base} needs")
    adapters = tuple(checkpoints.look_up_lora(adapter.name, base) for adapter in named.adapters)
    own_files, others = checkpoints.sibling_loras(model) if not model.weights else ([], [])
    if own_files and not (adapters or named.removes_adapters):
        raise ParameterError(
            f"{base} holds {own_files[0]} next to the model. Write {base}+{model.name_of(own_files[0])} to use it, or "
            f"{base}+{model_names.NONE} to leave it out."
        )
    same_place = [lora for lora in adapters if (lora.repository, lora.folder) == (model.repository, model.folder)]
    used = {path for lora in same_place for path in lora.weights}
    if unused := [path for path in (*own_files, *others) if path not in used]:
        remark = f"{base}: {', '.join(unused)} is next to the model and is not used."
        files = replace(files, base=replace(files.base, remarks=(*files.base.remarks, remark)))
    for lora in adapters:
        _check_fits(lora, files.pipeline, base)
    return replace(files, adapters=adapters)


def read_index(files: ModelFiles) -> tuple[type, dict[str, tuple[str, str]]]:
    """Return the diffusers class of a pipeline, and the library and class of each of its parts.

    Raises ParameterError: The index cannot be read, or names other code, or a pipeline that is none of text to image.
    """
    import diffusers
    from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING as TEXT_TO_IMAGE

    index = files.json(checkpoints.INDEX)
    class_name = index.get("_class_name")
    lists = {part: value for part, value in index.items() if isinstance(value, list)}
    # A model that does without a part names neither its library nor its class.
    parts = {part: tuple(value) for part, value in lists.items() if any(isinstance(name, str) for name in value)}
    unknown = [f"{part}: {'.'.join(map(str, names))}" for part, names in parts.items() if not _is_known(part, *names)]
    pipeline = getattr(diffusers, str(class_name), None)
    if unknown or not (inspect.isclass(pipeline) and issubclass(pipeline, diffusers.DiffusionPipeline)):
        needs = f"code that diffusers {diffusers.__version__} does not have ({', '.join(unknown) or class_name})"
        raise ParameterError(f"{files.name} needs {needs}. {NEVER_RUN}")
    takes = set(inspect.signature(pipeline.__call__).parameters)
    is_supported = pipeline in TEXT_TO_IMAGE.values() and "Control" not in pipeline.__name__
    if "prompt" not in takes or takes & _OTHER_OUTPUTS or (takes & _IMAGE_INPUTS and not is_supported):
        raise ParameterError(f"{files.name} is a {class_name}, which does not generate images from text alone.")
    return pipeline, parts


def _is_known(part: str, *names: object) -> bool:
    """Return whether a part of a pipeline is named by a library and its class, which the library has."""
    plain = [name for name in (part, *names) if isinstance(name, str) and name.isidentifier()]
    if len(names) != 2 or len(plain) != 3:
        return False
    # diffusers and transformers say themselves which classes they do not have, or call otherwise by now.
    return plain[1] in ("diffusers", "transformers") or inspect.isclass(_class(plain[1], plain[2]))


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


def _pipeline(model: ModelFiles, safety_checker: bool) -> PipelineFiles:
    """Return the files of a pipeline."""
    made, parts = read_index(model)
    omitted = frozenset(_OPTIONAL[1:] if safety_checker else _OPTIONAL).intersection(parts)
    paths, variants = [], {}
    for part in [part for part in parts if part not in omitted]:
        weights = [path for path in model.matching([f"{part}/*.safetensors"]) if path.rpartition("/")[0] == part]
        chosen = [path for path in weights if not any(fnmatch(path, pattern) for pattern in _VARIANTS)]
        for variant in _LOADED_VARIANTS:
            if not chosen and (chosen := [p for p in weights if f".{variant}" in p and ".non_ema" not in p]):
                variants[part] = variant
        paths += chosen
        # A part with weights has a config.json; schedulers and tokenizers have files of other names.
        if f"{part}/config.json" in model.files:
            if not chosen and not (model.repository and model.folder):
                others = sorted(p for p in model.files if p.startswith(f"{part}/") and p.endswith(_ANY_WEIGHTS))
                choose = "Set generation.safety_checker to off, or choose" if part == "safety_checker" else "Choose"
                problem = f"{model.name} does not have all its weights as .safetensors: {part} has "
                raise safety.not_safetensors(problem + (", ".join(others) or "none"), f"{choose} a copy that has them.")
            _check_quantised(model, part)
    base = model.with_weights([glob.escape(path) for path in paths])
    if variants:
        listed = ", ".join(f"{part} ({variant})" for part, variant in variants.items())
        base = replace(base, remarks=(f"{model.name} has weights of a variant alone for {listed}.",))
    return PipelineFiles(made, parts, base, variants=variants, omitted=omitted)


def _check_quantised(model: ModelFiles, part: str) -> None:
    """Refuse quantised weights that cannot be read here."""
    config = model.json(f"{part}/config.json").get("quantization_config")
    if not isinstance(config, dict):
        return
    method = str(config.get("quant_method", "bitsandbytes"))
    package = _QUANTISERS.get(method.removesuffix("_4bit").removesuffix("_8bit"))
    what = f"{model.name} is quantised ({part}: {method})"
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


def _one_file(model: ModelFiles) -> PipelineFiles:
    """Return a checkpoint in one file, and the configurations of its base model."""
    tensors = model.tensors(model.weights[0])
    checkpoints.check_tensors(model, tensors)
    base = checkpoints.configurations(model)
    try:
        base_files = model_files.look_up(base, checkpoints.KIND, base)
        made, parts = read_index(base_files)
    except BiaslabError as error:
        fix = f"Run once with a network, or put it into a folder with {checkpoints.INDEX} and these configurations."
        raise ParameterError(f"{model.name} is read by the configurations of {base}: {error} {fix}") from error
    if lacks := [part for part, kind in parts.items() if _lacks(*kind, tensors)]:
        problem = f"it holds no {' and no '.join(lacks)}. Name a file that does."
        raise ParameterError(f"{model.name} is no whole model: {problem}")
    if base != str(model.folder) and base_files.repository != model.repository:
        remark = f"{model.name} is one file, and taken for a model like {base}, whose configurations it is read by."
        model = replace(model, remarks=(remark,))
    configurations = replace(base_files, loaded=tuple(base_files.matching(safety.CONFIGURATIONS)))
    return PipelineFiles(made, parts, model, configurations, omitted=frozenset(_OPTIONAL).intersection(parts))


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


def _check_fits(lora: ModelFiles, pipeline: ModelFiles, base: str) -> None:
    """Refuse a LoRA for another kind of network, as far as its names and shapes tell."""
    tensors = lora.tensors(lora.weights[0])
    index = pipeline.json(checkpoints.INDEX)
    denoisers = {part for part in ("unet", "transformer") if isinstance(index.get(part), list) and index[part][1]}
    network = [name for name in tensors if not re.match(r"(text_encoder|lora_te)", name)]
    kinds = {"unet": _OF_UNETS, "transformer": _OF_TRANSFORMERS}
    kind = next((kind for kind, names in kinds.items() if any(map(names.search, network))), "")
    base_name = checkpoints.base_of(lora)
    trained = f" Name the model that it was trained on{f', by its card {base_name}' if base_name else ''}."
    if kind and denoisers and kind not in denoisers:
        raise ParameterError(
            f"{lora.name} is a LoRA for a model with a {kind}, such as the tensor {network[0]}, and {base} "
            f"has a {denoisers.pop()}.{trained}"
        )
    if kind == "unet" and "unet/config.json" in pipeline.files:
        width = pipeline.json("unet/config.json").get("cross_attention_dim")
        for name in filter(_READS_TEXT.search, network):
            if isinstance(width, int) and tensors[name][-1] != width:
                raise ParameterError(
                    f"{lora.name} is a LoRA for another model than {base}: {name} reads text as rows of "
                    f"{tensors[name][-1]} numbers, and here they have {width}.{trained}"
                )


def fetch(name: str, *, safety_checker: bool = True) -> PipelineFiles:
    """Return the files of :func:`look_up`, downloaded and checked; errors as of it and of :meth:`ModelFiles.fetch`."""
    files = look_up(name, safety_checker=safety_checker)
    for remark in (remark for one in files.all for remark in one.remarks):
        _log.info(remark)
    with quiet(bars=True):
        return files.fetch()


def load_pipeline(files: PipelineFiles, name: str, *, dtype):
    """Return the pipeline of downloaded files on the CPU, its weights as torch's ``dtype``; ``name`` is for messages.

    Raises ParameterError: It cannot be loaded, or a LoRA cannot be put on it.
    """
    import diffusers

    folder, made = files.pipeline.folder, files.pipeline_class
    options = {"dtype": dtype} | dict.fromkeys(files.omitted)
    vae = registry.autoencoder(folder)
    mapped = made in diffusers.pipelines.auto_pipeline.AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values()
    loader = diffusers.AutoPipelineForText2Image if mapped else diffusers.DiffusionPipeline
    with loading(name, f"a {made.__name__}"), quiet():
        if files.configurations:
            pipe = _from_file(files, name, dtype)
        else:
            if vae and vae.parent != folder:
                options["vae"] = diffusers.AutoencoderKL.from_pretrained(vae, use_safetensors=True, torch_dtype=dtype)
            # One by one: given a variant, a pipeline would also take that of parts that have other weights.
            for part, variant in files.variants.items():
                options[part] = _class(*files.parts[part]).from_pretrained(
                    folder / part, variant=variant, use_safetensors=True, torch_dtype=dtype
                )
            pipe = loader.from_pretrained(str(folder), use_safetensors=True, **options)
    with quiet():
        lora_files = [lora.file(lora.weights[0]) for lora in files.adapters]
        _attach_loras(pipe, list(zip(lora_files, model_names.split(name).adapters, strict=True)), name)
    texts.check_lengths(pipe, name)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _from_file(files: PipelineFiles, name: str, dtype):
    made = files.pipeline_class
    if not hasattr(made, "from_single_file"):
        raise ParameterError(f"{name} is a single file of a {made.__name__}, which diffusers reads from folders only.")
    (path,) = files.base.weights
    with tempfile.TemporaryDirectory() as folder:
        # Without weights: diffusers would take those for parts that the file lacks.
        ignored = shutil.ignore_patterns(*(f"*{ending}*" for ending in (*_ANY_WEIGHTS, ".onnx", ".xml")))
        shutil.copytree(files.pipeline.folder, folder, dirs_exist_ok=True, ignore=ignored)
        given = {"config": folder, "local_files_only": True, "torch_dtype": dtype}
        pipe = made.from_single_file(str(files.base.file(path)), **given, **dict.fromkeys(files.omitted))
    if _IS_VELOCITY in files.base.tensors(path):
        # What configurations of its base model do not know, a mark in the file says.
        pipe.scheduler = type(pipe.scheduler).from_config(pipe.scheduler.config, prediction_type="v_prediction")
    for part, network in pipe.components.items():
        weights = network.named_parameters() if hasattr(network, "named_parameters") else ()
        if missing := [key for key, value in weights if value.is_meta]:
            raise ParameterError(f"{name} lacks weights of its {part}, such as {missing[0]}.")
    return pipe


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


# -- LoRAs: refused if unsupported or without effect ---------------------------------------------------------

# The suffix of a LoRA tensor's name after the name of its layer.
_BEHIND = re.compile(r"\.(lora_(A|B|E|magnitude)|lokr_|alpha$).*")


def _attach_loras(pipe, adapters: Sequence[tuple[Path, Adapter]], name: str) -> None:
    """Put LoRAs on a pipeline ``name`` that is on the CPU, each with its weight.

    Raises ParameterError: The pipeline takes none, or one has tensors that match nothing, or changes no weight.
    """
    if not adapters:
        return
    if not hasattr(pipe, "load_lora_weights"):
        raise ParameterError(f"{name} is a {type(pipe).__name__}, on which diffusers puts no LoRA.")
    names = [f"lora_{number}" for number in range(len(adapters))]
    for called, (file, adapter) in zip(names, adapters, strict=True):
        where = {"weight_name": file.name, "local_files_only": True, "use_safetensors": True}
        with loading(adapter.name, f"a LoRA on {model_names.base(name)}"), _any_peft():
            layers = _layers(pipe, str(file.parent), where)
            _check_layers(layers, _modules(pipe), adapter.name)
            pipe.load_lora_weights(str(file.parent), adapter_name=called, **where)
        changed = _changed(pipe, called)
        _check_layers(layers, changed, adapter.name)
        if not any(changed.values()):
            raise ParameterError(f"{adapter.name} changes no weight of this model. Leave it out, or fetch it again.")
    with _any_peft():
        pipe.set_adapters(names, [one.weight for _, one in adapters])


def _layers(pipe, folder: str, where: dict) -> set[str]:
    """Return the layers that a file's tensors are for, as they are called in the pipeline."""
    from diffusers.utils import state_dict_utils as names

    more = {"unet_config": pipe.unet.config} if getattr(pipe, "unet", None) is not None else {}
    state = type(pipe).lora_state_dict(folder, **where, **more)
    tensors, layers = state[0] if isinstance(state, tuple) else state, set()
    for part in {key.partition(".")[0] for key in tensors}:
        within = {key.partition(".")[2]: v for key, v in tensors.items() if key.startswith(f"{part}.")}
        # As they are brought into one form where they are put on.
        if part.startswith("text_encoder"):
            within = names.convert_state_dict_to_peft(names.convert_state_dict_to_diffusers(within))
        elif not any("lora_A" in key or "lokr_" in key for key in within):
            within = names.convert_unet_state_dict_to_peft(within)
        layers |= {f"{part}.{_BEHIND.sub('', key)}" for key in within}
    return layers


def _modules(pipe) -> dict[str, object]:
    """Return the modules of a pipeline's parts, by part and name."""
    parts = ((part, network) for part, network in pipe.components.items() if hasattr(network, "named_modules"))
    return {f"{part}.{path}": module for part, network in parts for path, module in network.named_modules()}


def _changed(pipe, called: str) -> dict[str, bool]:
    """Return the layers that a LoRA was put on, and whether it changes them."""
    changed = {}
    for path, module in _modules(pipe).items():
        if called in getattr(module, "lora_B", {}):
            both = module.lora_A[called].weight.any() and module.lora_B[called].weight.any()
            changed[path] = bool(both) and module.scaling[called] != 0
        # Another kind of adapter keeps what it changes by otherwise.
        elif called in getattr(module, "lokr_w1", {}):
            changed[path] = True
    return changed


def _check_layers(layers: set[str], there: Collection[str], name: str) -> None:
    """Refuse a LoRA some of whose layers are not there."""
    # CLIP's text encoders were called otherwise.
    known_paths = {path.replace(".text_model.", ".") for path in there}
    if unmatched := sorted(layer for layer in layers if layer.replace(".text_model.", ".") not in known_paths):
        raise ParameterError(
            f"{name} is no LoRA for this model: {len(unmatched)} of the {len(layers)} layers that it changes are not "
            f"there, such as {unmatched[0]}. Name the model that it was trained on."
        )


@contextlib.contextmanager
def _any_peft() -> Iterator[None]:
    # transformers asks for a later release of peft than diffusers needs; what was put where is looked at here.
    from transformers.integrations import peft

    check = getattr(peft, "check_peft_version", None)
    if check is None:
        yield
        return
    peft.check_peft_version = lambda *args, **kwargs: None
    try:
        with warnings.catch_warnings():
            # Several LoRAs are what was asked for.
            warnings.filterwarnings("ignore", "Already found a `peft_config`")
            yield
    finally:
        peft.check_peft_version = check
