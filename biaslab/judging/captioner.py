"""What images show, in a sentence of a captioning model: BLIP or BLIP-2.

Source: dalleval paper, section 4.3, which takes VL-T5 fine-tuned on COCO.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from biaslab.judging import vqa
from biaslab.judging.images import ImageSource
from biaslab.store import Store


def describe(
    images: ImageSource, image_ids: list[str], name: str, *, store: Store, **more: Any
) -> pd.DataFrame:
    """Return a sentence about each image; what was said before is read again from ``store``.

    Args:
        images: Where the images come from.
        image_ids: Those to describe.
        name: Hub name or folder of a BLIP model for captions or of a BLIP-2 model.
        more: As for :func:`biaslab.judging.vqa.ask_about`.

    Returns:
        One row per image, in order: image_id, outcome (empty where described, ``unreadable`` or ``blocked``), reason,
        caption.

    Raises:
        ParameterError: The model is unknown or cannot be used.
    """
    units = pd.DataFrame({"image_id": image_ids, "question": ""}, dtype=object)
    said = vqa.ask_about(images, units, name, store=store, kind="captioner", unit="images", **more)
    return said.rename(columns={"answer": "caption"})[["image_id", "outcome", "reason", "caption"]]
