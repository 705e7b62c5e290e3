"""Perceived gender by FairFace's classifier, on the face alone: two of the 18 outputs of its ResNet-34.

It was trained on upright, aligned faces with a quarter of their size as a margin; faces are cut out with that margin
here, but not turned. Source: Kärkkäinen & Joo (2021), FairFace, WACV.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from biaslab.errors import loading
from biaslab.execution import finite
from biaslab.hub import safety
from biaslab.hub.model_files import ModelFiles
from biaslab.judges import model_loading
from biaslab.judges.judge import FileJudge
from biaslab.judges.model_loading import Pixels
from biaslab.judges.person import Person, face_of

# Where the weights are to be had.
_WHERE = (
    "FairFace publishes its weights (res34_fair_align_multi_7_20190809.pt) apart: https://github.com/dchen236/FairFace "
    "says where. Convert them to safetensors and set judging.gender to 'fairface:' and the path."
)
_OUTPUTS = 18
_MALE, _FEMALE = 7, 8
# What torchvision's ImageNet models take.
_PIXELS = Pixels((224, 224), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bilinear", squash=True)


class FairFaceJudge(FileJudge):
    """``fairface:FILE``: FairFace's state dict as safetensors."""

    prefix, where, depends_on = "fairface:", _WHERE, ("judging.dtype",)

    def files(self) -> list[ModelFiles]:
        """Return nothing. Raises ParameterError where the file is missing, or not safetensors."""
        files = super().files()
        if self.path.suffix != ".safetensors":
            fix = (
                "Convert it: safetensors.torch.save_file(torch.load(FILE, weights_only=True), 'fairface.safetensors')."
            )
            raise safety.not_safetensors(f"{self.path} is not .safetensors", fix)
        return files

    def load(self) -> FairFaceGender:
        """Return the network."""
        judging = self.options.judging
        options = {"device": self.options.device, "dtype": judging.dtype, "batch_size": judging.batch_size}
        return FairFaceGender(self.path, **options)


class FairFaceGender:
    """FairFace's perceived gender of a face, from its state dict as safetensors; ParameterError where it is none."""

    def __init__(self, file: str | Path, *, device: str = "auto", dtype: str = "auto", batch_size: int = 0) -> None:
        path = Path(file).expanduser()
        import torch
        from safetensors.torch import load_file
        from torchvision.models import resnet34

        self.name, self._device = str(path), model_loading.device(device)
        self._dtype = model_loading.dtype(dtype, self._device)
        self._batches = model_loading.Batches(self._device, batch_size)
        self._model = resnet34(weights=None)
        self._model.fc = torch.nn.Linear(self._model.fc.in_features, _OUTPUTS)
        with loading(str(path), f"FairFace's ResNet-34 with {_OUTPUTS} outputs"):
            self._model.load_state_dict(load_file(path))
        self._model.eval().to(self._device, self._dtype)

    def answers(self, people: Sequence[Person]) -> list[tuple[float, str]]:
        """Return for each the probability of perceived as female, 0 to 1, and no reason."""
        return [(float(p), "") for p in self.probability_female([face_of(person) for person in people])]

    def probability_female(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return the probability of perceived as female against as male, ``float32 (images,)``, of faces cut out.

        Raises InputError where a number is not finite.
        """
        # Faces come in as many sizes as there are images: brought to one first, they go through together.
        from PIL import Image

        side, bilinear = _PIXELS.size, Image.Resampling.BILINEAR
        same = [np.asarray(Image.fromarray(image).resize(side, bilinear)) for image in images]
        return np.array(self._batches.run(same, self._same_size), np.float32)

    def _same_size(self, images: Sequence[np.ndarray]) -> np.ndarray:
        outputs = self._model(_PIXELS(images, self._device, self._dtype)).float()
        finite.checked(outputs, self.name, self._dtype, setting="judging.dtype")
        return outputs[:, [_MALE, _FEMALE]].softmax(dim=1)[:, 1].cpu().numpy()
