"""Features of Inception-v3 for FID and KID (dalleval paper, section 4.3; Heusel et al. 2017), with weights from a file.

The weights are those of FID's authors as ``torch-fidelity`` has converted them, a file that ends in
``inception-2015-12-05-6726825d.pth``; the network and its resizing are ``torchmetrics``'.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from biaslab.errors import InputError, ParameterError, loading
from biaslab.execution import finite
from biaslab.hub import registry as hub
from biaslab.hub.model_files import ModelFiles
from biaslab.io import reading
from biaslab.judges import model_loading
from biaslab.judges.judge import FileJudge

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
        _log.warning("%s is not the file that FID is computed with (SHA-256 %s…): no number compares.", path, _KNOWN)
    named = _DIGEST.search(path.name)
    if named and not digest.startswith(named[1]):
        raise ParameterError(
            f"The SHA-256 digest of {path} begins with {digest[:8]}, and its name says {named[1]}: it is another file, "
            "or not the whole of it. Fetch it again."
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

        # Read once: what is looked at is what is used, whatever becomes of the file meanwhile.
        data = reading.content(self.path) if self.path.is_file() else b""
        check_weights(self.path, data)
        # The library reads pickles as they are: here they are read as tensors alone, which runs nothing.
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

        # The library takes a file: one of these tensors, that nobody else writes to.
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
