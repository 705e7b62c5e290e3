"""Pictures that look like photographs, which two raters labelled: what benchmarks hold judges against.

They are not part of the project: 80 tiles of 120 pixels of people at work (from sd-3-ethics) and 24 scenes of people at
a university (from Bias-ai-university-visuals), all made by text-to-image models, with ``labels.csv``, where each rater
says, without the other, how many faces are to be seen, and of one person perceived gender and skin. They lie in the
folder that ``BIASLAB_PHOTOS`` names, else in ``shared/data/photos`` beside the project.
"""

import os
from pathlib import Path

import pandas as pd

from biaslab.errors import MissingInputError

RATERS = ("a", "b")
SKINS = ("light", "medium", "dark")


def folder() -> Path:
    """Return where the pictures are; MissingInputError where they are not."""
    default = Path(__file__).resolve().parents[2] / "shared/data/photos"
    path = Path(os.environ.get("BIASLAB_PHOTOS") or default)
    if not (path / "labels.csv").is_file():
        raise MissingInputError(
            f"{path} holds no labels.csv; BIASLAB_PHOTOS names the folder of the pictures that two raters labelled."
        )
    return path


def labels(path: Path) -> pd.DataFrame:
    """Return a row a picture: what each rater says, and gender, skin and kind where both say the same, else nothing."""
    table = pd.read_csv(path / "labels.csv", keep_default_na=False)
    agreed = {
        name: table[f"{name}_a"].where(table[f"{name}_a"] == table[f"{name}_b"], "")
        for name in ("gender", "skin", "kind")
    }
    counts = {f"n_{rater}": pd.to_numeric(table[f"n_faces_visible_{rater}"]) for rater in RATERS}
    return table.assign(**agreed, **counts)
