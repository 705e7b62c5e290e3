"""Simulate coverage and error of estimates that combine annotations of a subset with a judge of all images.

Run: ``python benchmarks/coverage_ratings.py [--studies 2000] [--only WORDS]``. Each row draws entire studies: ten
groups of 60 images with known shares (beta 1.2, 1.2), a judge with errors that differ by group and gender (each 0 to
twice its mean), and annotations without errors, evenly distributed over groups. It prints, in %, the coverage of the
95% interval for both combined, annotations alone and the judge alone. Root mean square errors follow in points, with
the ratio of both to annotations alone. Rows with "drawn" generalize to other groups.

Rows "as reported" follow a report: images drawn by ``biaslab annotate``, ``custom.headlines`` and
``precision.estimates``. In these rows the judge leaves people unclear (in % of the first and second half of the
groups), images show several people who match in gender (in % of images), or annotators skip women (in %).

For photographs (see ``_photographs.py``), the truth is one annotator's labels of all portraits, with samples of 40; the
judge is dlib's network.
"""

import argparse

import numpy as np
import pandas as pd
from _photographs import RATERS, folder, labels
from PIL import Image

from biaslab import stats
from biaslab.analyses import calibration, custom, precision
from biaslab.analyses.ratings import sample
from biaslab.errors import MissingInputError
from biaslab.judges.people import judge_arrays
from biaslab.judges.pinned import DLIB, YUNET
from biaslab.judges.registry import parse
from biaslab.stats.prediction_powered import PPIResult

GROUPS, EACH = 10, 60


def study(rng, accuracy: float, ratings: int, *, groups_random: bool = False, groups: int = GROUPS):
    """Return the three estimates of one study and its truth."""
    share = rng.beta(1.2, 1.2, groups)
    y = rng.random((groups, EACH)) < share[:, None]
    error_rates = (1 - accuracy) * rng.uniform(0, 2, (2, groups, 1))
    f = y ^ (rng.random((groups, EACH)) < np.where(y, *error_rates))
    group = np.sort(rng.permutation(groups)[np.arange(ratings) % groups])
    image = np.concatenate([rng.permutation(EACH)[: (group == g).sum()] for g in range(groups)])
    estimate = stats.prediction_powered(
        f.sum(1), np.full(groups, EACH), np.full(groups, 1 / groups), group, f[group, image], y[group, image],
        clusters=np.arange(groups) if groups_random else None, base=0.5,
    )  # fmt: skip
    return estimate, 0.5 if groups_random else share.mean()


def draw_reported(
    rng,
    *,
    groups: int = 8,
    images: int = 60,
    ratings: int = 200,
    people: int = 1,
    match: float = 0.0,
    unclear: tuple[float, float] = (0.0, 0.0),
    unsure: tuple[float, float] = (0.0, 0.0),
    women_skipped: float = 0.0,
    slips: float = 0.1,
    shares: tuple[float, float] = (0.1, 0.9),
):
    """Return the table of estimates of one study as in a report, and its truth over all groups.

    The judge errs on ``slips`` of women and half as many men, twice as often in the second half of the groups. The
    judge leaves people ``unclear`` and annotators call people ``unsure``, by half of the groups.
    """
    share, half = rng.uniform(*shares, groups), np.arange(groups) >= groups / 2
    g, i, k = np.indices((groups, images, people)).reshape(3, -1)
    image_female = rng.random((groups, images)) < share[:, None]
    is_matching = rng.random((groups, images)) < match
    y = np.where(is_matching[g, i], image_female[g, i], rng.random(g.size) < share[g])
    is_wrong = rng.random(g.size) < slips * np.where(half[g], 2, 1) * np.where(y, 1, 0.5)
    judged = rng.random(g.size) >= np.where(half[g], *unclear[::-1])
    unsure_of = rng.random(g.size) < np.where(half[g], *unsure[::-1])
    skipped = y & (rng.random(g.size) < women_skipped)
    names = np.char.add("g", g.astype(str))
    ids = np.char.add(names, np.char.add("-", i.astype(str)))
    people_table = pd.DataFrame({"model": "m", "group": names, "prompt": names, "image_id": ids, "position": k + 1})
    gender = np.where(judged, np.where(y ^ is_wrong, "female", "male"), "unsure")
    judge_rows = people_table.assign(gender=gender, status=np.where(judged, "judged", "uncertain"))
    image_rows = people_table.drop_duplicates("image_id").assign(source="generated")
    image_rows["occupation"] = image_rows["group"]
    sampled = sample.draw(image_rows, ratings, int(rng.integers(2**31)))
    label = np.select([skipped, unsure_of, y], ["unannotated", "unsure", "female"], "male")
    annotated = people_table.assign(label=label).merge(sampled[["image_id", "probability"]], on="image_id")
    annotated = annotated.assign(image_model="m", source="generated", question="", n_annotators=1)
    # The first headline of a model is its mean over groups.
    return precision.estimates([next(custom.headlines(judge_rows))], annotated), 100 * share.mean()


def as_reported(name: str, rng, studies: int, **options) -> None:
    """Print a row of studies as in reports."""
    studies_drawn = []
    for _ in range(studies):
        table, truth = draw_reported(rng, **options)
        rows = table.set_index("estimator")
        points = rows[["estimate", "ci_low", "ci_high", "n"]].astype(float) / [100, 100, 100, 1]
        estimates = [stats.Estimate(*points.loc[estimator]) for estimator in ("judge", "annotations", "both")]
        tuning, worth = rows.loc["both", ["tuning", "n_equivalent"]]
        studies_drawn.append((PPIResult(*estimates, tuning, worth), truth / 100))
    print_row(name + ", as reported", studies_drawn)


def print_row(name: str, studies: list) -> None:
    """Print a row."""
    truth = np.array([truth for _, truth in studies])
    cells = []
    for estimator in ("both", "ratings", "judge"):
        intervals = np.array([getattr(three, estimator)[:3] for three, _ in studies])
        covers = (intervals[:, 1] <= truth) & (truth <= intervals[:, 2])
        cells.append((100 * covers.mean(), 100 * np.sqrt(np.mean((intervals[:, 0] - truth) ** 2))))
    worth = np.median([three.worth / three.both.n for three, _ in studies])
    covers, errors = zip(*cells, strict=True)
    print(
        f"{name:<58}{covers[0]:>8.1f}{covers[1]:>9.1f}{covers[2]:>7.1f}{errors[0]:>9.2f}{errors[1]:>9.2f}"
        f"{errors[2]:>8.2f}{errors[0] / errors[1]:>8.3f}{worth:>8.2f}",
        flush=True,
    )


def photographs(draws: int, ratings: int = 40) -> None:
    """Print the rows of annotated portraits, one per annotator."""
    path = folder()
    table = labels(path)
    table = table[table["file"].str.startswith("portraits/")]
    images = [np.asarray(Image.open(path / file).convert("RGB")) for file in table["file"]]
    judges = parse(DLIB, "judging.gender"), parse(YUNET, "judging.faces")
    judgements = judge_arrays(table["file"].tolist(), images, *judges)
    codes = {"female": 1.0, "male": 0.0}
    f = np.array([codes.get(g, np.nan) for g in judgements["gender"]])
    rng = np.random.default_rng(0)
    for rater in RATERS:
        y = np.array([codes.get(g, np.nan) for g in table[f"gender_{rater}"]])
        truth, studies_drawn = np.nanmean(y), []
        for _ in range(draws):
            sampled = rng.choice(len(y), ratings, replace=False)
            group, n = np.zeros(ratings, int), np.isfinite(f).sum()
            estimate = stats.prediction_powered([np.nansum(f)], [n], [1.0], group, f[sampled], y[sampled], base=0.5)
            studies_drawn.append((estimate, truth))
        print_row(f"photographs, rater {rater}, {ratings} of {len(y)}", studies_drawn)


def occupations(rng, studies: int, *, n_images: int, spread: float) -> None:
    """Print coverage of shares of 20 occupations corrected by the errors of all, which vary by ``spread``.

    The reference has ``n_images`` images per occupation, and the share is estimated from 200 others; sensitivity and
    specificity are 0.85 on average.
    """
    coverages = []
    for _ in range(studies):
        accuracy = np.clip(0.85 + rng.normal(0, spread, (2, 20)), 0.5, 1)
        share = rng.uniform(0.1, 0.9, 20)
        women = rng.binomial(n_images, share)
        n_correct = rng.binomial(np.stack([women, n_images - women]), accuracy)
        count = rng.binomial(200, share * accuracy[0] + (1 - share) * (1 - accuracy[1]))
        rows = []
        sides = ("sensitivity", n_correct[0], women), ("specificity", n_correct[1], n_images - women)
        for measure, n_right, n in sides:
            counts = [("all", n_right.sum(), n.sum()), *zip(map(str, range(20)), n_right, n, strict=True)]
            rows += [(name, measure, 100 * a / b if b else np.nan, b) for name, a, b in counts]
        errors = pd.DataFrame(rows, columns=["subject", "measure", "value", "n"])
        identity = {"paper": "p", "model": "m", "judge": "j", "reference": "truth", "quantity": "gender"}
        errors = errors.dropna().assign(condition="all", **identity)
        shares = pd.DataFrame({"subject": map(str, range(20)), "estimate": count / 2, "n": 200})
        shares = shares.assign(model="m", quantity="gender", condition="")
        corrected = calibration.corrected(shares, errors, paper="p", pool=True)
        coverages.append(((corrected["ci_low"] <= 100 * share) & (100 * share <= corrected["ci_high"])).mean())
    covers = 100 * np.mean(coverages)
    print(f"occupations, {n_images} reference images each, errors vary by {spread:g}: covers {covers:.1f}")


REPORTED = {
    "200 of 480": {},
    "200 of 480, unclear 60/5": {"unclear": (0.6, 0.05)},
    "all of 480, unclear 60/5": {"unclear": (0.6, 0.05), "ratings": 480},
    "20 of 480, unclear 60/5": {"unclear": (0.6, 0.05), "ratings": 20},
    "200 of 480, unclear 60/5, annotators unsure 40/5": {"unclear": (0.6, 0.05), "unsure": (0.4, 0.05)},
    "100 of 480, rare": {"ratings": 100, "shares": (0.0, 0.1)},
    "40 of 480, rare, good judge": {"ratings": 40, "shares": (0.0, 0.1), "slips": 0.02},
    "200 of 480, 2 people, matching in 100": {"people": 2, "match": 1.0},
    "200 of 480, 4 people, matching in 50": {"people": 4, "match": 0.5},
    "20 of 480, 4 people, matching in 100": {"people": 4, "match": 1.0, "ratings": 20},
    "200 of 480, women skipped 30": {"women_skipped": 0.3},
}
"""Rows "as reported", with the differences of their studies from 8 groups of 60 images of one person."""


def main() -> None:
    """Print all rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--only", default="", help="rows whose name contains these words")
    arguments = parser.parse_args()
    print(f"{'':<58}{'covers: both':>12} ratings  judge    rmse: both  ratings   judge   ratio   worth")
    for name, options in REPORTED.items():
        if arguments.only in name + ", as reported":
            as_reported(name, np.random.default_rng(1), arguments.studies, **options)
    for n_reference, spread in ((10, 0.0), (10, 0.1), (20, 0.1)):
        if arguments.only in "occupations":
            occupations(np.random.default_rng(1), arguments.studies, n_images=n_reference, spread=spread)
    if arguments.only:
        return
    for accuracy in (0.99, 0.9, 0.7):
        for ratings in (20, 40, 100, 200):
            for name, options in (("", {}), (", drawn", {"groups_random": True})):
                rng = np.random.default_rng(ratings)
                studies = [study(rng, accuracy, ratings, **options) for _ in range(arguments.studies)]
                print_row(f"judge {accuracy:g}, {ratings} ratings{name}", studies)
        rng = np.random.default_rng(1)
        studies = [study(rng, accuracy, 20, groups=60) for _ in range(arguments.studies)]
        print_row(f"judge {accuracy:g}, 20 ratings of 60 groups", studies)
    try:
        photographs(arguments.studies // 2)
    except MissingInputError as missing:
        print(missing)


if __name__ == "__main__":
    main()
