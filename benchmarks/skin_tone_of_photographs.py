"""Hold skin tones read off photographs against what annotators saw: light, medium or dark.

    python benchmarks/skin_tone_of_photographs.py [--faces DETECTOR] [--tone JUDGE]

Prints tones by label, what was not read by label and reason, and how well tones tell light from dark (area under the
curve: how often a light face has the lighter colour of two; 0.5 is chance). Takes portraits of which two annotators saw
the same skin, apart from each other; what both took for drawings has no label, and should have no tone.

The pictures are those of `_photographs.py`, which says where they are looked for. Faces, the best of each portrait, are
found by YuNet, or by any detector that `judging.faces` takes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from _photographs import SKINS, folder, labels
from scipy.optimize import brentq
from scipy.stats import norm

from biaslab import stats
from biaslab.cache.result_cache import ResultCache
from biaslab.errors import MissingInputError
from biaslab.hub.image_sources import FolderImages
from biaslab.judges import faces
from biaslab.judges.judge_labels import PIXELS
from biaslab.judges.pinned import YUNET
from biaslab.judges.skin_tone import judge_skin_tones

_BOX = ["x0", "y0", "x1", "y1"]


def main() -> None:
    """Print the agreement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faces", default=YUNET)
    parser.add_argument("--tone", default=PIXELS)
    given = parser.parse_args()
    try:
        rows = readings(folder(), given.faces, given.tone)
    # What is not here is said, and no reason for other benchmarks not to run.
    except MissingInputError as error:
        print(error)
        return
    named = rows[rows["label"] != ""]
    read = named.dropna(subset="tone")
    print(f"Portraits by what annotators saw, and by {rows['judge'].iloc[0]}\n")
    print(pd.crosstab(read["label"], read["tone"].astype(int)).reindex([*SKINS, "drawing"], fill_value=0), "\n")
    print(missing(named).to_string(index=False, float_format="%.0f"), "\n")
    for darker in ("dark", "medium"):
        value, low, high, n, n_darker = area(rows, "light", darker)
        print(f"Light ({n}) against {darker} ({n_darker}): area {value:.3f} ({low:.2f} to {high:.2f}, 95 %)")
    n_dark = (rows["label"] == "dark").sum()
    print(f"\n{n_dark} portraits of dark-skinned people are few: what is not read of them is known within tens of %.")


def readings(path: Path, detector: str = YUNET, tone: str = PIXELS) -> pd.DataFrame:
    """Return a row a portrait: file, label (that of both annotators, ``drawing`` or empty), and columns of tones."""
    said = labels(path)
    said = said[said["file"].str.startswith("portraits/")]
    skin = said["skin"].where(said["skin"].isin(SKINS), "")
    rows = pd.DataFrame({"image_id": said["file"], "label": skin.mask(said["kind"] == "drawing", "drawing")})
    images = FolderImages(path)
    found = faces.load(detector).faces(images.read(list(rows["image_id"])))
    boxes = pd.DataFrame([face[0][:4] if face else [np.nan] * 4 for face in found], columns=_BOX)
    rows = rows.reset_index(drop=True).join(boxes)
    with tempfile.TemporaryDirectory() as store:
        tones = judge_skin_tones(images, rows, tone, cache=ResultCache(store), progress=False)
    return rows.drop(columns=_BOX).assign(**{c: tones[c].to_numpy() for c in tones if c != "image_id"})


def missing(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how many portraits of each label have no tone, in all and by reason, with Wilson intervals in percent."""
    out = []
    for label in (*SKINS, "drawing"):
        of = rows[rows["label"] == label]
        reasons = of.loc[of["reason"] != "", "reason"]
        counts = {"all": len(reasons), **reasons.value_counts()}
        for reason, n in counts.items():
            percent, low, high = stats.percent(n, len(of))
            about = {"label": label, "reason": reason, "n": n, "of": len(of)}
            out.append(about | {"percent": percent, "low": low, "high": high})
    return pd.DataFrame(out)


def area(rows: pd.DataFrame, lighter: str, darker: str) -> tuple[float, float, float, int, int]:
    """Return how often the lighter of two labels has the lighter colour, with 95 % limits, and faces of each read.

    Colours are compared by the typology angle, where there is none by the tone; a tie counts half. Limits: Newcombe's
    score method (2006, method 5), which keeps within 0 to 1.
    """
    value = rows["angle"].fillna(-rows["tone"])
    one, two = (value[rows["label"] == label].dropna().to_numpy() for label in (lighter, darker))
    m, n = len(one), len(two)
    if not m * n:
        return np.nan, np.nan, np.nan, m, n
    above = np.sign(one[:, None] - two).mean() / 2 + 0.5
    half = (m + n) / 2 - 1

    def off(true: float) -> float:
        variance = true * (1 - true) * (1 + half * (1 - true) / (2 - true) + half * true / (1 + true)) / (m * n)
        return abs(true - above) - norm.ppf(0.975) * np.sqrt(variance)

    low = brentq(off, 0, min(above, 1 - 1e-9)) if above > 0 else 0.0
    high = brentq(off, max(above, 1e-9), 1) if above < 1 else 1.0
    return above, low, high, m, n


if __name__ == "__main__":
    main()
