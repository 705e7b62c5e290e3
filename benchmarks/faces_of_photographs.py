"""Count faces in pictures that look like photographs, and judge the gender of those found, against two annotators.

Run: ``python benchmarks/faces_of_photographs.py``, with names as the setting ``judging.faces`` has them for others than
``yunet``; ``--gender NAME`` as ``judging.gender`` has it (``dlib``; empty judges none). It takes seconds.

The pictures are those of ``_photographs.py``, which says where they are looked for.

Annotators count faces and draw no boxes, so recall and precision are of counts: the lesser of faces counted and rated
(the mean of both annotators), summed over pictures, against what is rated, or what is counted; a face that is missed
and one that is none cancel in one picture. Groups are pictures of them with at most eight faces by one of the
annotators, right where the count is within one of either's. Portraits are pictures that both call a photograph with one
face; by skin where both say the same. Intervals are Wilson's at 95 %; ten portraits of dark skin say little. Size and
least score of ``yunet`` were chosen on these pictures, so on others it does a little worse.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from _photographs import SKINS, folder, labels
from PIL import Image

from biaslab import stats
from biaslab.errors import MissingInputError
from biaslab.judges import faces, judge
from biaslab.judges.judge import JudgeSettings
from biaslab.judges.pinned import DLIB, YUNET

# What stands for more in the annotators' counts; and the faces of a group at most.
MORE, FEW = 15, 8


def labelled(path: Path) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """Return a row a picture with what the annotators say of it, and the pictures."""
    table = labels(path)
    group = table["file"].str.startswith("groups/")
    alone = ~group & (table[["n_a", "n_b"]] == 1).all(axis=1) & (table["kind"] == "photo")
    few = group & (table[["n_a", "n_b"]].min(axis=1) <= FEW)
    images = [np.asarray(Image.open(path / file).convert("RGB")) for file in table["file"]]
    return table.assign(groups=few, alone=alone), images


def counted(table: pd.DataFrame, found: np.ndarray) -> dict[str, float | tuple[int, int]]:
    """Return how well faces are counted: ``recall``, ``precision``, and by kind of picture how many are right, of n."""
    rated = table[["n_a", "n_b"]].mean(axis=1)
    known = rated < MORE
    shared = np.minimum(rated, found)[known].sum()
    near = np.minimum(abs(found - table["n_a"]), abs(found - table["n_b"])) <= 1
    alone = {"alone": table["alone"]} | {skin: table["alone"] & (table["skin"] == skin) for skin in SKINS}
    return {
        "recall": float(shared / rated[known].sum()),
        "precision": float(shared / max(found[known].sum(), 1)),
        "groups": (int(near[table["groups"]].sum()), int(table["groups"].sum())),
        **{name: (int((found[which] == 1).sum()), int(which.sum())) for name, which in alone.items()},
    }


def judged(table: pd.DataFrame, images: list[np.ndarray], settings: JudgeSettings) -> dict[str, tuple[int, int, int]]:
    """Return how well gender is judged in portraits with one face found: how many are right, sure and shown."""
    asked = table["alone"] & table["gender"].isin(["female", "male"])
    both = judge.load(settings, "cpu")
    rows = judge.judge_images(
        table.loc[asked, "file"].tolist(), [images[k] for k in np.flatnonzero(asked)], both, settings
    )
    shown = rows["probability_female"].notna().to_numpy()
    sure = shown & (rows["status"] == "judged").to_numpy()
    right = sure & (rows["gender"].to_numpy() == table.loc[asked, "gender"].to_numpy())
    skin = table.loc[asked, "skin"].to_numpy()
    which = {"alone": np.full(len(rows), True)} | {name: skin == name for name in SKINS}
    return {
        name: tuple(int((part & rows_of).sum()) for part in (right, sure, shown)) for name, rows_of in which.items()
    }


def in_words(right: int, n: int) -> str:
    """Return a share with its interval."""
    _, low, high = stats.percent(right, n)
    return f"{right}/{n} ({low:.0f}-{high:.0f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[YUNET])
    parser.add_argument("--gender", default=DLIB)
    options = parser.parse_args()
    try:
        measure(options.names, options.gender)
    # What is not here is said, and no reason for other benchmarks not to run.
    except MissingInputError as error:
        print(error)


def measure(names: list[str], gender: str) -> None:
    """Print what is measured of face detectors, and of a judge of gender behind the first."""
    table, images = labelled(folder())
    print(f"| detector | recall | precision | groups within one | portraits | {' | '.join(SKINS)} |")
    print("| --- " * (5 + len(SKINS)) + "|")
    for name in names:
        detector = faces.load(name)
        figures = counted(table, np.array([len(seen) for seen in detector.faces(images)]))
        cells = [in_words(*figures[of]) for of in ("groups", "alone", *SKINS)]
        print(f"| {name} | {figures['recall']:.3f} | {figures['precision']:.3f} | {' | '.join(cells)} |")
    if gender:
        found = judged(table, images, JudgeSettings(faces=names[0], gender=gender))
        print(f"\nGender by {gender}, of those that it is sure of (of one face found):")
        for name, (right, sure, shown) in found.items():
            print(f"{name:7} {in_words(right, sure)} sure of {sure} of {shown}")


if __name__ == "__main__":
    main()
