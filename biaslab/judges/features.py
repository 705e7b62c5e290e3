"""Image features by networks: any of timm, or the image encoder of a detector or segmenter of transformers.

A vector is the output of a timm network (scores of a ResNet, the class token of a DINO), or the mean over all places
of a detector's backbone or a segmenter's encoder. Source: triplets paper, section 4.1.3.

FID and KID (dalleval paper, section 4.3; Heusel et al. 2017) use features of Inception-v3. The weights are those of
FID's authors as converted by ``torch-fidelity``, a file that ends in ``inception-2015-12-05-6726825d.pth``; the network
and its resizing are from ``torchmetrics``.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from biaslab.errors import InputError, ParameterError, loading, name_help
from biaslab.execution import finite
from biaslab.hub import model_files
from biaslab.hub import registry as hub
from biaslab.hub.model_files import ModelFiles
from biaslab.io import reading
from biaslab.judges import model_loading
from biaslab.judges.judge import FileJudge, HubJudge
from biaslab.judges.model_loading import Pixels

CROP = 0.875
"""Fraction of the shorter side that the crop keeps, 224 of 256: how ResNet and DINO were evaluated by their authors."""


def find_network(name: str) -> str:
    """Return where a network is: its folder, or its name on the hub.

    ``name`` is a name with weights in timm's list (``vit_small_patch16_224.dino``); a folder or hub name in timm's
    format, or of a detector or segmenter of transformers; or one that an installed package provides.

    Raises ParameterError where it is unknown, or contains code or weights other than safetensors, MissingInputError
    where the weights of the package that provides it are missing.
    """
    if hub.find_plugin(name, "features"):
        return hub.resolve(name, "features")
    # A name without a separator may be one of timm's, unless a folder has this name.
    if "/" not in name and not os.path.isdir(os.path.expanduser(name)):
        import timm

        if timm.is_model(name):
            # timm has the architecture, but may lack the weights.
            names = timm.list_pretrained(f"{name.partition('.')[0]}.*")
            if "." in name and name not in names:
                raise ParameterError(f"timm has no weights named {name!r}. {name_help(name, names)}")
            config = timm.get_pretrained_cfg(name, allow_unregistered=False)
            if config is not None and config.hf_hub_id:
                return config.hf_hub_id
    return hub.resolve(name, "features")


class FeaturesJudge(HubJudge):
    """A network of timm, or of a detector or segmenter of transformers, that embeds images.

    With ``places`` it embeds each place of an image separately.
    """

    kind, task, needs_faces, places = "features", "embed", False, False

    def files(self) -> list[ModelFiles]:
        """Return its files; ParameterError where the configuration is missing, else as :func:`find_network`."""
        files = model_files.look_up(self.name, self.kind, find_network(self.name))
        if "config.json" not in files.files and not hub.find_plugin(self.name, self.kind):
            raise ParameterError(
                f"{files.name} contains no config.json; specify a folder saved by timm or transformers, or a name "
                "in timm's list, such as vit_small_patch16_224.dino."
            )
        return [files.with_weights()]

    def digest(self) -> str:
        """Return a digest of the weights, or the commit on the hub; raises as :func:`find_network`."""
        return model_files.digest(find_network(self.name))

    def load(self) -> _TimmNetwork | _TransformersEncoder:
        """Return the network and its preprocessing; errors as of :func:`find_network`."""
        with loading(self.name, "a network of timm or transformers"), hub.quiet():
            (files,) = self.files()
            folder, config = files.fetch(), files.json("config.json")
            kind = _TimmNetwork if "architecture" in config else _TransformersEncoder
            network = kind(self.name, folder, config)
        network.model.eval().to(model_loading.device(self.options.device))
        return network

    def embed(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return features, ``float32 (images, features)`` or, of places, ``(images, places, features)``.

        Raises InputError where there is no image, or a number is not finite.
        """
        if not len(images):
            raise InputError("There is no image to compute features of.")
        network, device = self.model, model_loading.device(self.options.device)
        encode = network.places if self.places else network.vectors
        # The network's input may be larger than the images.
        batches = model_loading.Batches(device, 0 if device.type != "cpu" else 16)
        image_features = batches.run(images, lambda batch: encode(network.pixels(batch, device)).float().cpu().numpy())
        return finite.check_finite(np.stack(image_features), self.name, next(network.model.parameters()).dtype)


class _TimmNetwork:
    """A network that timm has saved."""

    def __init__(self, name: str, folder: Path, _: dict) -> None:
        import timm
        from safetensors.torch import load_file

        # By itself, timm would also read a pickle, or a file that the configuration names.
        self.model = timm.create_model(f"local-dir:{folder}")
        self.model.load_state_dict(load_file(folder / "model.safetensors"))
        data_config = timm.data.resolve_data_config(model=self.model)
        size = tuple(data_config["input_size"][1:])
        model_loading.check_sizes(name, "a side of images", size)
        shorter = round(min(size) / CROP)
        self._pixels = Pixels(
            size, data_config["mean"], data_config["std"], data_config["interpolation"], shorter=shorter
        )

    def pixels(self, images: Sequence[np.ndarray], device):
        return self._pixels(images, device, next(self.model.parameters()).dtype)

    def vectors(self, pixels):
        return self.model(pixels)

    def places(self, pixels):
        return _flatten_places(self.model.forward_features(pixels))


class _TransformersEncoder:
    """The image encoder of a model of transformers: a detector's backbone, a segmenter's encoder."""

    def __init__(self, name: str, folder: Path, config: dict) -> None:
        import transformers

        kind = getattr(transformers, str((config.get("architectures") or [""])[0]), None)
        if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
            raise ParameterError(
                f"{folder} is a model of the class {config.get('architectures')}, which transformers does not contain; "
                "specify a model whose class transformers contains."
            )
        base = model_loading.pretrained(kind, folder)[0].base_model
        # A detector's backbone is one level down, next to the box head; in some releases, two levels.
        inner = base if hasattr(base, "backbone") else getattr(base, "model", base)
        backbone = getattr(inner, "backbone", base)
        self.model = getattr(backbone, "model", backbone)
        self._processor = transformers.AutoImageProcessor.from_pretrained(folder, trust_remote_code=False)
        model_loading.check_processor(name, self._processor)

    def pixels(self, images: Sequence[np.ndarray], device):
        inputs = self._processor(images=model_loading.writable(images), return_tensors="pt")
        return inputs["pixel_values"].to(device)

    def vectors(self, pixels):
        return self.places(pixels).mean(dim=1)

    def places(self, pixels):
        outputs = self.model(pixels)
        return _flatten_places(outputs.feature_maps[-1] if "feature_maps" in outputs else outputs.last_hidden_state)


def _flatten_places(features):
    """Return a map of features ``(images, features, height, width)`` as ``(images, places, features)``."""
    return features.flatten(2).transpose(1, 2) if features.ndim == 4 else features


# -- Inception-v3, with weights from a file --------------------------------------------------------------------

_EXPECTED_DIGEST = "6726825d"
_log = logging.getLogger(__name__)
_DIGEST = re.compile(r"-([0-9a-f]{8,64})\.[^.]+$")


def check_weights(path: str | Path, data: bytes | None = None) -> str:
    """Return the SHA-256 digest of a file of weights, or of its content ``data`` if given.

    Raises ParameterError where the file is missing, or its name contains another digest, as after an incomplete copy.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ParameterError(
            f"There is no file {path} with the weights of Inception-v3. Download "
            "weights-inception-2015-12-05-6726825d.pth from the releases of torch-fidelity, or leave "
            "dalleval.inception_file empty."
        )
    digest = reading.file_digest(path) if data is None else hashlib.sha256(data).hexdigest()
    if not digest.startswith(_EXPECTED_DIGEST):
        _log.warning(
            "%s is not the file with which FID is usually computed (SHA-256 %s…), so values are not comparable.",
            path,
            _EXPECTED_DIGEST,
        )
    match = _DIGEST.search(path.name)
    if match and not digest.startswith(match[1]):
        raise ParameterError(
            f"The SHA-256 digest of {path} begins with {digest[:8]}, but its name contains {match[1]}, so it is "
            "another file, or incomplete. Download it again."
        )
    return digest


class InceptionJudge(FileJudge):
    """Inception-v3, named by the file of its weights, that embeds images."""

    domain, task, needs_faces = hub.ANY, "embed", False

    def files(self) -> list[ModelFiles]:
        """Return nothing; raises as :func:`check_weights`."""
        check_weights(self.path)
        return []

    def digest(self) -> str:
        """Return the SHA-256 of the weights; raises as :func:`check_weights`."""
        return check_weights(self.path)

    def load(self) -> Any:
        """Return the network; ParameterError where the file has other weights or contains more than tensors (it could
        execute code), else as :func:`check_weights`.
        """
        import torch

        # The file is read once, so that a later change cannot evade the check.
        data = reading.content(self.path) if self.path.is_file() else b""
        check_weights(self.path, data)
        # The library unpickles the file unchecked; weights_only=True reads tensors and executes no code.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tensors = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        # Other files raise nearly any exception; torch's own message advises to read them without the check.
        except Exception as error:
            raise ParameterError(
                f"{self.path} cannot be read as tensors only ({type(error).__name__}): it is not a file of weights, or "
                "it contains code, which is never run. Download it again."
            ) from None
        from torchmetrics.image.fid import FrechetInceptionDistance

        # The library loads a file, so the tensors are written to a temporary one.
        with loading(self.name, "Inception-v3's weights"), tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "weights.pth")
            torch.save(tensors, copy)
            metric = FrechetInceptionDistance(feature=2048, feature_extractor_weights_path=str(copy))
        return metric.inception.eval().to(model_loading.device(self.options.device))

    def embed(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return the pooled features of images, ``float32 (images, 2048)``; InputError without images, or where a
        number is not finite.
        """
        import torch

        if not len(images):
            raise InputError("There is no image to compute features of.")
        device = model_loading.device(self.options.device)
        # A GPU takes larger batches; each image is enlarged to 299 pixels per side.
        batches = model_loading.Batches(device, 0 if device.type != "cpu" else 16)

        def features(same_size: Sequence[np.ndarray]) -> np.ndarray:
            pixels = torch.from_numpy(np.stack(same_size)).permute(0, 3, 1, 2).to(device)
            return self.model(pixels).float().cpu().numpy()

        return finite.check_finite(np.stack(batches.run(images, features)), "Inception-v3", "float32")
