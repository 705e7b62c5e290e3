"""Simulate what estimates from ratings of a part of the images and a judge of all cover, and how far they miss.

Run: ``python benchmarks/coverage_ratings.py [--studies 2000]``. Each row draws whole studies: ten groups of 60 images
whose shares are known (beta 1.2, 1.2), a judge whose errors differ by group and gender (each 0 to twice its mean),
ratings without errors, drawn evenly, or by what they may change. It prints in % how often the interval holds the truth
(at 95 %) by ratings and judge, ratings alone and judge alone, and the root mean square errors in points with the ratio
of both to ratings alone. "drawn" speaks of other groups, too. Of photographs (``_photographs.py`` says where they are
looked for) the truth is what a rater says of all portraits, and 40 are drawn at a time; the judge is dlib's network.
"""

import argparse

import numpy as np
import pandas as pd
from _photographs import RATERS, folder, labels
from PIL import Image

from biaslab import stats
from biaslab.ground.errors import MissingInputError
from biaslab.judging import judge
from biaslab.judging.judge import JudgeSettings
from biaslab.judging.pinned import DLIB, YUNET
from biaslab.ratings import sample

GROUPS, EACH = 10, 60


def study(rng, accuracy: float, ratings: int, *, drawn: bool = False, by_size: bool = False, groups: int = GROUPS):
    """Return the three estimates of one study, and its truth."""
    share = rng.beta(1.2, 1.2, groups)
    y = rng.random((groups, EACH)) < share[:, None]
    wrong = (1 - accuracy) * rng.uniform(0, 2, (2, groups, 1))
    f = y ^ (rng.random((groups, EACH)) < np.where(y, *wrong))
    if by_size:
        images = pd.DataFrame({"row": np.arange(groups * EACH)})
        # The judge is less sure of one half, and it errs no more often there: the worst that sizes can tell.
        size = np.where(rng.random(len(images)) < 0.5, 3.0, 1.0)
        chosen = sample.draw_by_size(images, size, ratings, int(rng.integers(2**31)))
        group, image = np.divmod(chosen["row"].to_numpy(), EACH)
        weight = 1 / chosen["probability"].to_numpy()
    else:
        group = np.sort(rng.permutation(groups)[np.arange(ratings) % groups])
        image = np.concatenate([rng.permutation(EACH)[: (group == g).sum()] for g in range(groups)])
        weight = np.ones(ratings)
    found = stats.prediction_powered(
        f.sum(1), np.full(groups, EACH), np.full(groups, 1 / groups), group, f[group, image], y[group, image], weight,
        clusters=np.arange(groups) if drawn else None, base=0.5,
    )  # fmt: skip
    return found, 0.5 if drawn else share.mean()


def told(name: str, studies: list) -> None:
    """Print a row."""
    truth = np.array([truth for _, truth in studies])
    cells = []
    for which in ("both", "ratings", "judge"):
        some = np.array([getattr(found, which)[:3] for found, _ in studies])
        held = (some[:, 1] <= truth) & (truth <= some[:, 2])
        cells.append((100 * held.mean(), 100 * np.sqrt(np.mean((some[:, 0] - truth) ** 2))))
    worth = np.median([found.worth / found.both.n for found, _ in studies])
    held, missed = zip(*cells, strict=True)
    print(
        f"{name:<42}{held[0]:>8.1f}{held[1]:>9.1f}{held[2]:>7.1f}{missed[0]:>9.2f}{missed[1]:>9.2f}{missed[2]:>8.2f}"
        f"{missed[0] / missed[1]:>8.3f}{worth:>8.2f}",
        flush=True,
    )


def photographs(draws: int, ratings: int = 40) -> None:
    """Print rows of portraits that people labelled, a row a rater."""
    path = folder()
    table = labels(path)
    table = table[table["file"].str.startswith("portraits/")]
    images = [np.asarray(Image.open(path / file).convert("RGB")) for file in table["file"]]
    settings = JudgeSettings(faces=YUNET, gender=DLIB)
    both = judge.load(settings, "cpu")
    seen = judge.judge_images(table["file"].tolist(), images, both, settings)
    known = {"female": 1.0, "male": 0.0}
    f = np.array([known.get(g, np.nan) for g in seen["gender"]])
    rng = np.random.default_rng(0)
    for rater in RATERS:
        y = np.array([known.get(g, np.nan) for g in table[f"gender_{rater}"]])
        truth, found = np.nanmean(y), []
        for _ in range(draws):
            rated = rng.choice(len(y), ratings, replace=False)
            group, n = np.zeros(ratings, int), np.isfinite(f).sum()
            estimate = stats.prediction_powered([np.nansum(f)], [n], [1.0], group, f[rated], y[rated], base=0.5)
            found.append((estimate, truth))
        told(f"photographs, rater {rater}, {ratings} of {len(y)}", found)


def main() -> None:
    """Print all rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000)
    given = parser.parse_args()
    print(f"{'':<42}{'covers: both':>12} ratings  judge    rmse: both  ratings   judge   ratio   worth")
    for accuracy in (0.99, 0.9, 0.7):
        for ratings in (20, 40, 100, 200):
            for name, how in (("", {}), (", drawn", {"drawn": True}), (", by size", {"by_size": True})):
                rng = np.random.default_rng(ratings)
                found = [study(rng, accuracy, ratings, **how) for _ in range(given.studies)]
                told(f"judge {accuracy:g}, {ratings} ratings{name}", found)
        rng = np.random.default_rng(1)
        found = [study(rng, accuracy, 20, groups=60) for _ in range(given.studies)]
        told(f"judge {accuracy:g}, 20 ratings of 60 groups", found)
    try:
        photographs(given.studies // 2)
    except MissingInputError as missing:
        print(missing)


if __name__ == "__main__":
    main()
