"""Zero-shot classification by any open_clip model: which of several texts fits an image best."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from biaslab.errors import ParameterError, loading, name_help
from biaslab.execution import finite
from biaslab.hub import huggingface, model_files, safety
from biaslab.hub import registry as hub
from biaslab.hub.model_files import ModelFiles
from biaslab.judges import model_loading
from biaslab.judges.judge import Answer, HubJudge, People
from biaslab.judges.model_loading import Pixels
from biaslab.judges.person import head_and_shoulders

# Patterns of weights on the hub that open_clip reads.
_WEIGHTS = ("open_clip*.safetensors",)
# open_clip's names for the file of weights in a folder, in order of preference.
_WEIGHT_NAMES = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "model.safetensors")
_CONFIG = "open_clip_config.json"
# Names of open_clip's own weights, such as ViT-L-14:openai; one letter before a colon is a drive.
_ARCHITECTURE_AND_TAG = re.compile(r"[^/\\:]{2,}:[^/\\:]+")
# Tokenizer options that a configuration may have; others name files.
_TOKENIZER_OPTIONS = ("clean", "strip_sep_token", "language", "reduction_mask", "additional_special_tokens")


class ZeroShot:
    """An open_clip model, its preprocessing and its tokenizer; ``side`` is its input size in pixels per side.

    ``name`` is a model that an installed package provides, a folder with ``open_clip_config.json`` and safetensors,
    ``ARCHITECTURE:TAG`` from open_clip's list, or a hub name in open_clip's format. ``dtype`` is that of the image
    tower; texts are float32. Raises ParameterError where the model is unknown, cannot be loaded, or has no safetensors.
    """

    def __init__(self, name: str, *, device: str = "auto", dtype: str = "auto", batch_size: int = 0) -> None:
        import open_clip

        torch_device = model_loading.device(device)
        with loading(name, "an open_clip model"), tempfile.TemporaryDirectory() as folder:
            *parts, options = _load_parts(name)
            _write_folder(Path(folder), *parts)
            model, _, transform = open_clip.create_model_and_transforms(
                f"local-dir:{folder}", pretrained_text=False, device=torch_device, **options
            )
            tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
        self.name, self._model, self._tokenizer = name, model.eval(), tokenizer
        self._device = next(model.parameters()).device
        self._dtype = model_loading.dtype(dtype, self._device)
        self._batches = model_loading.Batches(self._device, batch_size)
        self._scale = float(model.logit_scale.detach().exp())
        # Texts are few and are encoded as trained; only the image tower takes the smaller type.
        model.visual.to(self._dtype)
        self._pixels = Pixels.of_open_clip(model.visual.preprocess_cfg, transform)
        model_loading.check_sizes(name, "a side of images", self._pixels.size)
        self.side = self._pixels.size[0]
        self._texts: dict[str, np.ndarray] = {}

    def probabilities(self, images: Sequence[np.ndarray], texts: Sequence[str]) -> np.ndarray:
        """Return the softmax over texts of :meth:`logits`, ``float32 (images, texts)``."""
        logits = self.logits(images, texts)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)

    def logits(self, images: Sequence[np.ndarray], texts: Sequence[str]) -> np.ndarray:
        """Return the model's scale times the cosine of each image (``uint8 (height, width, 3)`` RGB) and text,
        ``float64 (images, texts)``; errors as of the embeddings.
        """
        cosines = self.image_embeddings(images) @ self.text_embeddings(texts).T
        return finite.check_finite(self._scale * cosines.astype(np.float64), self.name, "float32")

    def image_embeddings(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return embeddings, ``float32 (images, dimensions)``, of length 1; InputError where one is not finite."""
        embeddings = self._batches.run(images, self._embed_batch)
        return np.stack(embeddings) if embeddings else self.text_embeddings(["a photo"])[:0]

    def _embed_batch(self, images: Sequence[np.ndarray]) -> np.ndarray:
        import torch

        pixels = self._pixels(images, self._device, self._dtype)
        embeddings = torch.nn.functional.normalize(self._model.encode_image(pixels).float(), dim=-1)
        return finite.check_finite(embeddings.cpu().numpy(), self.name, self._dtype, setting="judging.dtype")

    def text_embeddings(self, texts: Sequence[str]) -> np.ndarray:
        """Return the texts' embeddings, ``float32 (texts, dimensions)``, of length 1; each is computed once.

        Raises ParameterError where a text is empty or has a word that is unknown to the tokenizer, InputError where a
        number is not finite.
        """
        import torch

        missing = [text for text in dict.fromkeys(texts) if text not in self._texts]
        for start in range(0, len(missing), 256):
            batch = missing[start : start + 256]
            self._check_words(batch)
            with torch.inference_mode():
                tokens = self._tokenizer(batch).to(self._device)
                embeddings = torch.nn.functional.normalize(self._model.encode_text(tokens).float(), dim=-1)
            vectors = finite.check_finite(embeddings.cpu().numpy(), self.name, "float32")
            self._texts.update(zip(batch, vectors, strict=True))
        return np.stack([self._texts[text] for text in texts])

    def _check_words(self, texts: Sequence[str]) -> None:
        # Word-level tokenizers have a token for unknown words; others split words into pieces.
        inner = getattr(self._tokenizer, "tokenizer", None)
        unknown = getattr(inner, "unk_token_id", None)
        for text in texts:
            if not text.strip():
                raise ParameterError("A class prompt is empty; describe what the image may show.")
            if unknown is not None and unknown in inner(text)["input_ids"]:
                words = [w for w in text.split() if unknown in inner(w)["input_ids"]]
                raise ParameterError(
                    f"The tokenizer of {self.name} lacks {', '.join(map(repr, words))} in the text "
                    f"{text!r}; use words from its vocabulary."
                )


class ClipJudge(HubJudge):
    """Any open_clip model with two class prompts: a folder, a hub name or ``ARCHITECTURE:TAG``."""

    kind, depends_on = "clip", ("judging.class_prompts", "judging.dtype")

    def files(self) -> list[ModelFiles]:
        """Return its files, as :func:`look_up`."""
        if hub.find_plugin(self.name, self.kind):
            return super().files()
        return [look_up(self.name)]

    def digest(self) -> str:
        """Return a digest of the weights, or the commit on the hub; raises as :meth:`files`."""
        if _ARCHITECTURE_AND_TAG.fullmatch(self.name):
            return huggingface.digest_of_tag(self.name)
        return super().digest()

    @cached_property
    def classifier(self) -> ZeroShot:
        """The open_clip model, which also classifies the roles of several people."""
        judging = self.options.judging
        options = {"device": self.options.device, "dtype": judging.dtype, "batch_size": judging.batch_size}
        return ZeroShot(self.name, **options)

    def answers(self, people: People) -> list[Answer]:
        """Return the probability of perceived as female against perceived as male for each person.

        Its input is the whole image of one person, or the head and shoulders of each of several. Source: paradox paper,
        section 3, and its released code.
        """
        side = self.classifier.side
        views = [p.image if p.people == 1 else head_and_shoulders(p, side=side) for p in people.persons]
        probabilities = self.classifier.probabilities(views, self.options.judging.class_prompts)
        return [Answer(float(p)) for p in probabilities[:, 1]]

    def embed(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return embeddings, ``float32 (images, dimensions)``, of length 1; InputError where one is not finite."""
        return self.classifier.image_embeddings(images)


def look_up(name: str) -> ModelFiles:
    """Return the files of an open_clip model, named as for :class:`ZeroShot`, without downloading weights.

    Raises ParameterError or MissingInputError where it is unavailable, not an open_clip model, or has no safetensors.
    """
    if pretrained := _find_pretrained(name):
        return pretrained[0]
    files = model_files.look_up(name, "clip")
    if _CONFIG not in files.files:
        raise ParameterError(
            f"{files.name} contains no {_CONFIG}, so it is not an open_clip model. CLIP models saved by transformers "
            "must be converted first."
        )
    # Reading it checks that it names no other model to download.
    files.json(_CONFIG)
    patterns = _WEIGHTS if files.repository else model_files.SAFETENSORS
    paths = [path for path in files.matching(patterns) if "/" not in path]
    preferred_paths = [path for path in _WEIGHT_NAMES if path in paths]
    if not preferred_paths and len(paths) > 1:
        raise ParameterError(
            f"{files.name} contains {', '.join(sorted(paths)[:3])}; keep only one file, with its weights."
        )
    return files.with_weights([*preferred_paths, *paths][:1] or patterns)


def _load_parts(name: str) -> tuple[dict, Path, Path | None, dict]:
    """Return the checked and downloaded parts of a model: its configuration, file of weights, folder of the tokenizer
    (None if open_clip has it), and options of open_clip.
    """
    if pretrained := _find_pretrained(name):
        import open_clip

        files, options = pretrained
        folder = files.fetch()
        config = open_clip.get_model_config(name.partition(":")[0])
        tokenizer_folder = folder if config["text_cfg"].get("hf_tokenizer_name") else None
        return {"model_cfg": config}, folder / files.weights[0], tokenizer_folder, options
    files = look_up(name)
    folder, config = files.fetch(), files.json(_CONFIG)
    text = config["model_cfg"]["text_cfg"]
    if unknown := set(text.get("tokenizer_kwargs") or ()).difference(_TOKENIZER_OPTIONS):
        raise ParameterError(
            f"{name}: {_CONFIG} passes {min(unknown)!r} to its tokenizer, which could open other files; allowed are "
            f"{', '.join(_TOKENIZER_OPTIONS)}. Remove this entry."
        )
    if text.get("hf_model_name"):
        text["hf_model_name"] = str(folder.absolute())
    return config, folder / files.weights[0], folder, {}


def _write_folder(folder: Path, config: dict, weights: Path, tokenizer_folder: Path | None) -> None:
    """Write only the files that open_clip should read to a folder, because it chooses among all files in it."""
    (folder / _CONFIG).write_text(json.dumps(config), encoding="utf-8")
    links = {_WEIGHT_NAMES[0]: weights}
    for pattern in safety.CONFIGURATIONS if tokenizer_folder else ():
        links |= {file.name: file for file in tokenizer_folder.glob(pattern) if file.name != _CONFIG}
    for name, file in links.items():
        try:
            (folder / name).symlink_to(file.absolute())
        except OSError:  # Links need rights on Windows.
            shutil.copyfile(file, folder / name)


def _find_pretrained(name: str) -> tuple[ModelFiles, dict] | None:
    """Return the files of ``ARCHITECTURE:TAG``, and options of open_clip for it; None for any other name."""
    import open_clip

    architecture, colon, tag = name.partition(":")
    # One letter before a colon is a drive.
    has_tag = len(architecture) > 1 if colon else architecture in open_clip.list_models()
    if Path(name).is_dir() or "/" in name or not has_tag:
        return None
    if architecture not in open_clip.list_models():
        names = [a for a in open_clip.list_models() if open_clip.list_pretrained_tags_by_model(a)]
        raise ParameterError(f"open_clip has no architecture {architecture!r}. {name_help(architecture, names)}")
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if tag not in tags:
        raise ParameterError(
            f"{architecture} has no weights {tag!r}; specify both, as in {architecture}:{(tags or ['TAG'])[0]}. "
            f"{name_help(tag, tags)}"
        )
    settings, repository = open_clip.get_pretrained_cfg(architecture, tag), huggingface.repository_of_tag(name)
    if not repository:
        problem, fix = f"The weights of {name} are in another format", "Choose weights in safetensors format."
        raise safety.not_safetensors(problem, fix)
    files = model_files.look_up(name, "clip", repository)
    huggingface.digest_of_tag(name)
    file = os.path.split(settings["hf_hub"])[1]
    safetensors = Path(file).with_suffix(".safetensors").name if file else open_clip.constants.HF_SAFE_WEIGHTS_NAME
    # open_clip's options for the weights, which it does not apply to unnamed files. OpenAI's weights were trained
    # with an activation that differs from that of open_clip's architecture of the same name.
    options = {f"image_{k}": settings.get(k) for k in ("mean", "std", "interpolation", "resize_mode")}
    text = open_clip.get_model_config(architecture)["text_cfg"]
    other_repository = text.get("hf_model_name") or text.get("hf_tokenizer_name")
    # open_clip has the configurations, and most tokenizers.
    files = files.with_weights([safetensors], safety.CONFIGURATIONS if other_repository else ())
    if text.get("hf_model_name") or (other_repository and set(safety.TOKENIZERS).isdisjoint(files.files)):
        raise ParameterError(
            f"{name} uses the tokenizer of {other_repository}, but its weights are in {repository}. Choose a model "
            "with its own tokenizer."
        )
    return files, options | {"force_quick_gelu": bool(settings.get("quick_gelu"))}
