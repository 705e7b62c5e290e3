"""Features of images by networks that judge nothing: any of timm, or what a model of transformers sees images with.

Of timm's networks a vector is what the network returns (scores of a ResNet, the class token of a DINO), of a detector's
backbone or a segmenter's encoder the mean over all places. Source: triplets paper, section 4.1.3.

For FID and KID (dalleval paper, section 4.3; Heusel et al. 2017) they are those of Inception-v3. The weights are those
of FID's authors as ``torch-fidelity`` has converted them, a file that ends in ``inception-2015-12-05-6726825d.pth``;
the network and its resizing are ``torchmetrics``'.
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
"""Part of the shorter side that is kept, 224 of 256: how ResNet and DINO were evaluated by their authors."""


def find_network(name: str) -> str:
    """Return where a network is: its folder, or its name on the hub.

    ``name`` is as timm lists it with weights (``vit_small_patch16_224.dino``); a folder or hub name as timm saves it,
    or of a detector or segmenter of transformers; or one that an installed package brings.

    Raises ParameterError where it is unknown, or brings code or other weights than safetensors, MissingInputError where
    the package that brings it has lost its weights.
    """
    if hub.find_plugin(name, "features"):
        return hub.resolve(name, "features")
    # What has no separator may be one of timm's, unless a folder is named like it.
    if "/" not in name and not os.path.isdir(os.path.expanduser(name)):
        import timm

        if timm.is_model(name):
            # An architecture that timm knows, with weights that it may not know.
            listed = timm.list_pretrained(f"{name.partition('.')[0]}.*")
            if "." in name and name not in listed:
                raise ParameterError(f"timm lists no weights {name!r}. {name_help(name, listed)}")
            known = timm.get_pretrained_cfg(name, allow_unregistered=False)
            if known is not None and known.hf_hub_id:
                return known.hf_hub_id
    return hub.resolve(name, "features")


class FeaturesJudge(HubJudge):
    """A network of timm, or of a detector or segmenter of transformers, as an embedding of images.

    With ``places`` it embeds each place of an image separately.
    """

    kind, task, needs_faces, places = "features", "embed", False, False

    def files(self) -> list[ModelFiles]:
        """Return its files; ParameterError where it holds no configuration, else as :func:`find_network`."""
        files = model_files.look_up(self.name, self.kind, find_network(self.name))
        if "config.json" not in files.files and not hub.find_plugin(self.name, self.kind):
            raise ParameterError(
                f"{files.name} holds no config.json; give a folder that timm or transformers saved, or a name "
                "that timm lists, such as vit_small_patch16_224.dino."
            )
        return [files.with_weights()]

    def digest(self) -> str:
        """Return a digest of the weights, or the commit on the hub; raises as :func:`find_network`."""
        return model_files.digest(find_network(self.name))

    def load(self) -> _OfTimm | _Encoder:
        """Return the network and its preprocessing; errors as of :func:`find_network`."""
        with loading(self.name, "a network of timm or transformers"), hub.quiet():
            (files,) = self.files()
            folder, config = files.fetch(), files.json("config.json")
            kind = _OfTimm if "architecture" in config else _Encoder
            network = kind(self.name, folder, config)
        network.model.eval().to(model_loading.device(self.options.device))
        return network

    def embed(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return features, ``float32 (images, features)`` or, of places, ``(images, places, features)``.

        Raises InputError where there is no image, or a number is not finite.
        """
        if not len(images):
            raise InputError("There is no image to take features of.")
        network, device = self.model, model_loading.device(self.options.device)
        see = network.places if self.places else network.vectors
        # What the network is fed may be larger than the images are.
        batches = model_loading.Batches(device, 0 if device.type != "cpu" else 16)
        image_features = batches.run(images, lambda some: see(network.pixels(some, device)).float().cpu().numpy())
        return finite.checked(np.stack(image_features), self.name, next(network.model.parameters()).dtype)


class _OfTimm:
    """A network that timm has saved."""

    def __init__(self, name: str, folder: Path, _: dict) -> None:
        import timm
        from safetensors.torch import load_file

        # Left to itself timm would read a pickle, too, or what the configuration names.
        self.model = timm.create_model(f"local-dir:{folder}")
        self.model.load_state_dict(load_file(folder / "model.safetensors"))
        known = timm.data.resolve_data_config(model=self.model)
        size = tuple(known["input_size"][1:])
        model_loading.check_sizes(name, "a side of images", size)
        shorter = round(min(size) / CROP)
        self._pixels = Pixels(size, known["mean"], known["std"], known["interpolation"], shorter=shorter)

    def pixels(self, images: Sequence[np.ndarray], device):
        return self._pixels(images, device, next(self.model.parameters()).dtype)

    def vectors(self, pixels):
        return self.model(pixels)

    def places(self, pixels):
        return _in_rows(self.model.forward_features(pixels))


class _Encoder:
    """What a model of transformers sees images with: a detector's backbone, a segmenter's encoder."""

    def __init__(self, name: str, folder: Path, config: dict) -> None:
        import transformers

        kind = getattr(transformers, str((config.get("architectures") or [""])[0]), None)
        if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
            raise ParameterError(
                f"{folder} names the model {config.get('architectures')}, which transformers does not have; give a "
                "detector or segmenter of its own classes."
            )
        base = model_loading.pretrained(kind, folder)[0].base_model
        # A detector keeps its backbone one level down, next to what makes boxes of it; of some releases, two.
        inner = base if hasattr(base, "backbone") else getattr(base, "model", base)
        backbone = getattr(inner, "backbone", base)
        self.model = getattr(backbone, "model", backbone)
        self._processor = transformers.AutoImageProcessor.from_pretrained(folder, trust_remote_code=False)
        model_loading.check_processor(name, self._processor)

    def pixels(self, images: Sequence[np.ndarray], device):
        given = self._processor(images=model_loading.writable(images), return_tensors="pt")
        return given["pixel_values"].to(device)

    def vectors(self, pixels):
        return self.places(pixels).mean(dim=1)

    def places(self, pixels):
        found = self.model(pixels)
        return _in_rows(found.feature_maps[-1] if "feature_maps" in found else found.last_hidden_state)


def _in_rows(found):
    """Return a map of features ``(images, features, height, width)`` as ``(images, places, features)``."""
    return found.flatten(2).transpose(1, 2) if found.ndim == 4 else found


# -- Inception-v3, with weights from a file --------------------------------------------------------------------

_KNOWN = "6726825d"
_log = logging.getLogger(__name__)
_DIGEST = re.compile(r"-([0-9a-f]{8,64})\.[^.]+$")


def check_weights(path: str | Path, data: bytes | None = None) -> str:
    """Return the SHA-256 digest of a file of weights, or of its content where that is read already.

    Raises ParameterError where there is no such file, or its name says another digest, as of one not copied to its end.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ParameterError(
            f"There is no file {path} of Inception's weights. torch-fidelity's releases have one that is named "
            "weights-inception-2015-12-05-6726825d.pth; without it leave dalleval.inception_file empty."
        )
    digest = reading.file_digest(path) if data is None else hashlib.sha256(data).hexdigest()
    if not digest.startswith(_KNOWN):
        _log.warning(
            "%s is not the file that FID is computed with (SHA-256 %s…): values are not comparable.", path, _KNOWN
        )
    named = _DIGEST.search(path.name)
    if named and not digest.startswith(named[1]):
        raise ParameterError(
            f"The SHA-256 digest of {path} begins with {digest[:8]}, but its name contains {named[1]}: it is another "
            "file, or incomplete. Download it again."
        )
    return digest


class InceptionJudge(FileJudge):
    """Inception-v3 by the file of its weights, as an embedding of images."""

    domain, task, needs_faces = hub.ANY, "embed", False

    def files(self) -> list[ModelFiles]:
        """Return nothing; raises as :func:`check_weights`."""
        check_weights(self.path)
        return []

    def digest(self) -> str:
        """Return the SHA-256 of the weights; raises as :func:`check_weights`."""
        return check_weights(self.path)

    def load(self) -> Any:
        """Return the network; ParameterError where the file is not of it or holds more than tensors, which could be
        run, else as :func:`check_weights`.
        """
        import torch

        # Read once: what is examined is what is used, whatever becomes of the file meanwhile.
        data = reading.content(self.path) if self.path.is_file() else b""
        check_weights(self.path, data)
        # The library unpickles the file as it is; weights_only=True reads tensors and executes no code.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tensors = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        # What is no file of weights raises nearly anything; torch's own words advise to read it without the check.
        except Exception as error:
            raise ParameterError(
                f"{self.path} cannot be read as tensors alone ({type(error).__name__}): it is no file of weights, or "
                "it holds more, which could be run."
            ) from None
        from torchmetrics.image.fid import FrechetInceptionDistance

        # The library loads a file, so the tensors are written to a temporary one.
        with loading(self.name, "Inception-v3's weights"), tempfile.TemporaryDirectory() as own:
            copy = Path(own, "weights.pth")
            torch.save(tensors, copy)
            made = FrechetInceptionDistance(feature=2048, feature_extractor_weights_path=str(copy))
        return made.inception.eval().to(model_loading.device(self.options.device))

    def embed(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return the pooled features of images, ``float32 (images, 2048)``; InputError where there is none, or a number
        is not finite.
        """
        import torch

        if not len(images):
            raise InputError("There is no image to take features of.")
        device = model_loading.device(self.options.device)
        # A GPU is fed more at once; each image is enlarged to 299 pixels a side.
        batches = model_loading.Batches(device, 0 if device.type != "cpu" else 16)

        def features(same_size: Sequence[np.ndarray]) -> np.ndarray:
            pixels = torch.from_numpy(np.stack(same_size)).permute(0, 3, 1, 2).to(device)
            return self.model(pixels).float().cpu().numpy()

        return finite.checked(np.stack(batches.run(images, features)), "Inception-v3", "float32")
