"""Simulate the coverage of intervals of DALL-Eval's skills and of image quality, compared with simpler methods.

Run: ``python benchmarks/coverage_skills.py [simulation ...] [--studies 2000]``; takes an hour. It prints, in % of the
same studies, the coverage of intervals (95%) for:

- the true accuracy of a model in a skill, with a detector that recognizes some kinds of failure worse than others: our
  interval, and one that assumes the kinds of failure of drawings;
- FID and KID of normally distributed features: their mean for this number of images (and FID's limit for very many
  images, which the interval is not meant to cover), by our interval and by the spread of halves, treated as independent
  samples of half the size;
- R-precision and captioning metrics with a quality that varies over occupations: our interval, and one that treats
  captions as independent.

The mean over all studies serves as the mean for this number of images.
"""

import numpy as np
import pandas as pd
from _simulations import run_simulations

from biaslab import stats
from biaslab.analyses import calibration
from biaslab.metrics.captioning import caption_scores
from biaslab.metrics.retrieval import frechet_distance, kernel_distance, r_precision
from biaslab.papers import dalleval
from biaslab.schema import tables

STUDIES = 2000
SENSITIVITY, SPECIFICITIES = 0.95, (0.98, 0.6, 0.95)


def _is_covered(limits, truth) -> np.ndarray:
    low, high = np.moveaxis(np.asarray(limits, float), -1, 0)
    return (low <= truth) & (truth <= high)


# -- skills ------------------------------------------------------------------------------------------------------------


def skills(rng, studies: int, *, share: float, mix: tuple, images: int = 200, drawings: int = 100) -> dict:
    """Return how often each way covers the true ``share`` of correct images, with a ``mix`` of kinds of failure."""
    models = [f"m{k}" for k in range(studies)]
    right = rng.binomial(images, share, size=studies)
    failures = np.array([rng.multinomial(images - n_correct, mix) for n_correct in right])
    n_detected = rng.binomial(right, SENSITIVITY)
    n_detected += rng.binomial(failures, 1 - np.array(SPECIFICITIES)).sum(axis=1)
    verdicts = pd.DataFrame({"model": np.repeat(models, images)})
    verdicts["correct"] = np.where(np.tile(np.arange(images), studies) < np.repeat(n_detected, images), "yes", "no")
    verdicts = verdicts.assign(skill="object", chosen="yes", status="", truth="")
    n_confirmed = rng.binomial(drawings, [SENSITIVITY, *SPECIFICITIES], size=(studies, 4))
    pooled = n_confirmed[:, 1:].sum(axis=1, keepdims=True)
    hits, n = np.hstack([n_confirmed, pooled]), np.array([drawings] * 4 + [3 * drawings])
    rows = {"model": np.repeat(models, 5), "measure": np.tile(["sensitivity", *["specificity"] * 4], studies)}
    rows |= {"condition": np.tile(["all", *"abc", "all"], studies), "n": np.tile(n, studies)}
    errors = pd.DataFrame(rows | {"value": (100 * hits / n).ravel(), "quantity": "skill: object", "subject": "all"})
    errors = tables.make_table(errors.assign(paper="dalleval"), "calibration_error")
    corrected = calibration.corrected(dalleval.skill_estimates(verdicts), errors, paper="dalleval")
    plain = stats.corrected_shares(
        n_detected, images, hits[:, 0] / n[0], hits[:, 4] / n[4], np.full(studies, n[0]), np.full(studies, n[4])
    )
    return {
        "ours": _is_covered(corrected[["ci_low", "ci_high"]], 100 * share).sum(),
        "as drawn": _is_covered(np.stack([plain.ci_low, plain.ci_high], axis=1), share).sum(),
    }


# -- distances ---------------------------------------------------------------------------------------------------------


def distances(
    rng, studies: int, *, occupations: int, captions: int, shift: float, between: float = 0.0, features: int = 8
) -> dict:
    """Return how often each way covers FID and KID for images of ``occupations`` with ``captions`` each.

    Features of real and generated images have variance 1 over captions; ``shift`` is the mean difference of each
    feature. ``between`` is the variance over occupations, half of which real and generated images share.
    """
    groups = np.repeat(np.arange(occupations), captions)
    n = groups.size
    results: dict = {"FID": [], "KID": []}
    for study in range(studies):
        shared, *group_effects = np.sqrt(between / 2) * rng.normal(size=(3, occupations, features))
        real, generated = ((shared + values)[groups] + rng.normal(size=(n, features)) for values in group_effects)
        generated += shift
        for name, distance in (("FID", frechet_distance), ("KID", kernel_distance)):
            value, *limits, _ = stats.halves_interval(
                [generated, real], [groups, groups], distance, squared=distance is kernel_distance, seed=study
            )
            parts = [distance(*(x[rng.permutation(n)[: n // 2]] for x in (generated, real))) for _ in range(20)]
            half = 1.96 * np.std(parts, ddof=1) / np.sqrt(2)
            results[name].append((value, *limits, value - half, value + half))
    out = {}
    for name, rows in results.items():
        value, low, high, peer_low, peer_high = np.array(rows).T
        out[f"{name}, ours"] = _is_covered(np.stack([low, high], axis=1), value.mean()).sum()
        out[f"{name}, half"] = _is_covered(np.stack([peer_low, peer_high], axis=1), value.mean()).sum()
        if name == "FID":
            # For normal distributions with equal covariance, FID is the squared distance of their means.
            ours = _is_covered(np.stack([low, high], axis=1), features * shift**2)
            out["FID at very many, ours"] = ours.sum()
    return out


# -- captions ----------------------------------------------------------------------------------------------------------


def precision(rng, studies: int, *, occupations: int, captions: int, quality: float, features: int = 16) -> dict:
    """Return how often each way covers R-precision; ``quality`` is the spread of occupations' log signal."""
    groups = np.repeat(np.arange(occupations), captions)
    rows = []
    for _ in range(studies):
        texts = rng.normal(size=(occupations, features))[groups] + rng.normal(size=(groups.size, features))
        signal = np.exp(quality * rng.normal(size=occupations))[groups, None]
        images = signal * texts + 2 * rng.normal(size=texts.shape)
        texts, images = (values / np.linalg.norm(values, axis=1, keepdims=True) for values in (texts, images))
        precisions = r_precision(images @ texts.T, distractors=min(99, groups.size - 1))
        ours = stats.clustered_mean(precisions, groups)
        plain = np.quantile(rng.choice(precisions, (500, len(precisions))).mean(axis=1), [0.025, 0.975])
        rows.append((ours.value, ours.ci_low, ours.ci_high, *plain))
    value, *limits = np.array(rows).T
    return {
        name: _is_covered(np.stack(values, axis=1), value.mean()).sum()
        for name, values in (("ours", limits[:2]), ("one by one", limits[2:]))
    }


def captioning(rng, studies: int, *, occupations: int, captions: int, words: int = 40, length: int = 7) -> dict:
    """Return how often each way covers captioning metrics, with shares of correct words that vary over occupations."""
    groups = np.repeat(np.arange(occupations), captions)
    names = np.array([f"w{k}" for k in range(words)])
    intervals: dict = {}
    for study in range(studies):
        true = names[rng.integers(words, size=(groups.size, length))]
        is_copied = rng.random(true.shape) < rng.beta(8, 2, size=occupations)[groups, None]
        predicted = np.where(is_copied, true, names[rng.integers(words, size=true.shape)])
        texts, references = ([" ".join(row) for row in values] for values in (predicted, true))
        references = [[text] for text in references]
        for way, values in (("ours", groups), ("one by one", None)):
            scores = caption_scores(texts, references, groups=values, seed=study)
            for row in scores.itertuples():
                intervals.setdefault(f"{row.metric}, {way}", []).append((row.value, row.ci_low, row.ci_high))
    rows = {name: np.array(values) for name, values in intervals.items()}
    return {name: _is_covered(values[:, 1:], values[:, 0].mean()).sum() for name, values in rows.items()}


# Shares of the three kinds of failure; the detector recognizes the second kind badly.
_MIXES = {"alike": (1 / 3, 1 / 3, 1 / 3), "90% badly seen": (0.05, 0.9, 0.05), "all badly seen": (0, 1, 0)}
_MIXES |= {"90% well seen": (0.9, 0.05, 0.05), "all well seen": (1, 0, 0)}
SIMULATIONS = {
    **{
        f"skills, {100 * share:g}% right, {name}": (skills, {"share": share, "mix": mix})
        for name, mix in _MIXES.items()
        for share in (0.05, 0.5, 0.8)
    },
    **{
        f"distances, {o} x {c}, {apart:g} apart, {between:g} between": (
            distances,
            {"occupations": o, "captions": c, "shift": apart, "between": between},
        )
        for o, c, apart, between in (
            (100, 1, 0.3, 0),
            (100, 1, 1, 0),
            (300, 1, 0.3, 0),
            (100, 1, 0, 0),
            (60, 5, 0.5, 0.5),
            *(
                (o, 5, apart, between)
                for o in (12, 20, 40)
                for apart, between in ((0.3, 0), (0.5, 0.5), (1, 0.5), (1, 2))
            ),
        )
    },
    **{
        f"precision, {o} x {c}, {quality:g}": (precision, {"occupations": o, "captions": c, "quality": quality})
        for o, c, quality in ((20, 5, 0), (20, 5, 0.5), (20, 5, 1), (60, 5, 0.5), (60, 5, 1), (10, 10, 1))
    },
    **{f"captioning, {o} x {c}": (captioning, {"occupations": o, "captions": c}) for o, c in ((20, 5),)},
}


def simulate(name: str, studies: int, seed: int = 1) -> dict[str, float]:
    """Return the share of studies in which each way covers the truth."""
    function, settings = SIMULATIONS[name]
    counts = function(np.random.default_rng(seed), studies, **settings)
    return {way: float(count) / studies for way, count in counts.items()}


def main() -> None:
    for name, way, coverage in run_simulations(__doc__, SIMULATIONS, simulate, "in %", studies=STUDIES):
        print(f"{name:<44} {way:<24} {100 * coverage:5.1f}", flush=True)


if __name__ == "__main__":
    main()
