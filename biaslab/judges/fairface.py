"""Perceived gender by FairFace's classifier, on the face alone: two of the 18 outputs of its ResNet-34.

It was trained on upright, aligned faces with a quarter of their size as a margin; faces are cut out with that margin
here, but not turned. Source: Kärkkäinen & Joo (2021), FairFace, WACV.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from biaslab.errors import loading
from biaslab.execution import finite
from biaslab.hub import safety
from biaslab.hub.model_files import ModelFiles
from biaslab.judges import model_loading
from biaslab.judges.judge import Answer, FileJudge, People
from biaslab.judges.model_loading import Pixels
from biaslab.judges.person import face_of

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

    def load(self) -> Any:
        """Return the network; ParameterError where the file is no state dict of FairFace's."""
        import torch
        from safetensors.torch import load_file
        from torchvision.models import resnet34

        device = model_loading.device(self.options.device)
        network = resnet34(weights=None)
        network.fc = torch.nn.Linear(network.fc.in_features, _OUTPUTS)
        with loading(str(self.path), f"FairFace's ResNet-34 with {_OUTPUTS} outputs"):
            network.load_state_dict(load_file(self.path))
        return network.eval().to(device, model_loading.dtype(self.options.judging.dtype, device))

    def answers(self, people: People) -> list[Answer]:
        """Return the probability of perceived as female for each person; InputError where one is not finite."""
        from PIL import Image

        # Faces come in as many sizes as there are images: brought to one first, they go through together.
        side, bilinear = _PIXELS.size, Image.Resampling.BILINEAR
        faces = [np.asarray(Image.fromarray(face_of(person)).resize(side, bilinear)) for person in people.persons]
        weights = self.model.fc.weight
        batches = model_loading.Batches(weights.device, self.options.judging.batch_size)

        def probabilities(images: Sequence[np.ndarray]) -> list[float]:
            outputs = self.model(_PIXELS(images, weights.device, weights.dtype)).float()
            finite.checked(outputs, str(self.path), weights.dtype, setting="judging.dtype")
            return outputs[:, [_MALE, _FEMALE]].softmax(dim=1)[:, 1].tolist()

        return [Answer(p) for p in batches.run(faces, probabilities)]
