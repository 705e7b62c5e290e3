"""Simulate what intervals of DALL-Eval's skills and of images' quality hold, beside simpler ways, on the same studies.

Run: ``python benchmarks/coverage_skills.py [simulation ...] [--studies 2000]``; an hour. It prints in % of the
studies how often intervals (95 %) hold:

- the true accuracy of a model in a skill, judged by a detector that sees some ways of failing worse than others: ours,
  and that of all ways as drawings have them;
- FID and KID of normally distributed features: what as many images give on average (and FID's limit at very many, which
  it is not meant to hold), by ours and by halves whose spread is taken for that of half as many independent images;
- R-precision and captioning metrics where occupations differ in how well they are drawn: ours, and captions taken for
  independent.

What as many images give on average is the mean of all studies.
"""

import numpy as np
import pandas as pd
from _simulations import asked

from biaslab import stats
from biaslab.analyses import calibration
from biaslab.metrics.captioning import caption_scores
from biaslab.metrics.retrieval import frechet_distance, kernel_distance, r_precision
from biaslab.papers import dalleval
from biaslab.schema import tables

STUDIES = 2000
SENSITIVITY, SPECIFICITIES = 0.95, (0.98, 0.6, 0.95)


def _held(limits, truth) -> np.ndarray:
    low, high = np.moveaxis(np.asarray(limits, float), -1, 0)
    return (low <= truth) & (truth <= high)


# -- skills ------------------------------------------------------------------------------------------------------------


def skills(rng, studies: int, *, share: float, mix: tuple, images: int = 200, drawings: int = 100) -> dict:
    """Return how often each way holds a true ``share`` of right images, where others fail in this ``mix`` of ways."""
    models = [f"m{k}" for k in range(studies)]
    right = rng.binomial(images, share, size=studies)
    failed = np.array([rng.multinomial(images - of, mix) for of in right])
    seen = rng.binomial(right, SENSITIVITY)
    seen += rng.binomial(failed, 1 - np.array(SPECIFICITIES)).sum(axis=1)
    verdicts = pd.DataFrame({"model": np.repeat(models, images)})
    verdicts["correct"] = np.where(np.tile(np.arange(images), studies) < np.repeat(seen, images), "yes", "no")
    verdicts = verdicts.assign(skill="object", chosen="yes", status="", truth="")
    known = rng.binomial(drawings, [SENSITIVITY, *SPECIFICITIES], size=(studies, 4))
    pooled = known[:, 1:].sum(axis=1, keepdims=True)
    hits, n = np.hstack([known, pooled]), np.array([drawings] * 4 + [3 * drawings])
    rows = {"model": np.repeat(models, 5), "measure": np.tile(["sensitivity", *["specificity"] * 4], studies)}
    rows |= {"condition": np.tile(["all", *"abc", "all"], studies), "n": np.tile(n, studies)}
    errors = pd.DataFrame(rows | {"value": (100 * hits / n).ravel(), "quantity": "skill: object", "subject": "all"})
    errors = tables.make_table(errors.assign(paper="dalleval"), "calibration_error")
    found = calibration.corrected(dalleval.skill_estimates(verdicts), errors, paper="dalleval")
    plain = stats.corrected_shares(
        seen, images, hits[:, 0] / n[0], hits[:, 4] / n[4], np.full(studies, n[0]), np.full(studies, n[4])
    )
    return {
        "ours": _held(found[["ci_low", "ci_high"]], 100 * share).sum(),
        "as drawn": _held(np.stack([plain.ci_low, plain.ci_high], axis=1), share).sum(),
    }


# -- distances ---------------------------------------------------------------------------------------------------------


def distances(
    rng, studies: int, *, occupations: int, captions: int, apart: float, between: float = 0.0, features: int = 8
) -> dict:
    """Return how often each way holds FID and KID of images of so many ``occupations`` and ``captions`` of each.

    Features of real and generated images have variance 1 by caption; generated ones lie ``apart`` in each, on average.
    ``between`` is the variance that occupations add, of which real and generated images share half.
    """
    groups = np.repeat(np.arange(occupations), captions)
    n = groups.size
    found: dict = {"FID": [], "KID": []}
    for study in range(studies):
        shared, *own = np.sqrt(between / 2) * rng.normal(size=(3, occupations, features))
        real, made = ((shared + of)[groups] + rng.normal(size=(n, features)) for of in own)
        made += apart
        for name, distance in (("FID", frechet_distance), ("KID", kernel_distance)):
            value, *limits, _ = stats.halves_interval(
                [made, real], [groups, groups], distance, squared=distance is kernel_distance, seed=study
            )
            parts = [distance(*(of[rng.permutation(n)[: n // 2]] for of in (made, real))) for _ in range(20)]
            half = 1.96 * np.std(parts, ddof=1) / np.sqrt(2)
            found[name].append((value, *limits, value - half, value + half))
    out = {}
    for name, rows in found.items():
        value, low, high, peer_low, peer_high = np.array(rows).T
        out[f"{name}, ours"] = _held(np.stack([low, high], axis=1), value.mean()).sum()
        out[f"{name}, half"] = _held(np.stack([peer_low, peer_high], axis=1), value.mean()).sum()
        if name == "FID":
            # Of normal distributions of one covariance it is the distance of their means.
            ours = _held(np.stack([low, high], axis=1), features * apart**2)
            out["FID at very many, ours"] = ours.sum()
    return out


# -- captions ----------------------------------------------------------------------------------------------------------


def precision(rng, studies: int, *, occupations: int, captions: int, quality: float, features: int = 16) -> dict:
    """Return how often each way holds R-precision, where ``quality`` is the spread of occupations' log signal."""
    groups = np.repeat(np.arange(occupations), captions)
    rows = []
    for _ in range(studies):
        texts = rng.normal(size=(occupations, features))[groups] + rng.normal(size=(groups.size, features))
        signal = np.exp(quality * rng.normal(size=occupations))[groups, None]
        images = signal * texts + 2 * rng.normal(size=texts.shape)
        texts, images = (of / np.linalg.norm(of, axis=1, keepdims=True) for of in (texts, images))
        each = r_precision(images @ texts.T, distractors=min(99, groups.size - 1))
        ours = stats.clustered_mean(each, groups)
        plain = np.quantile(rng.choice(each, (500, len(each))).mean(axis=1), [0.025, 0.975])
        rows.append((ours.value, ours.ci_low, ours.ci_high, *plain))
    value, *limits = np.array(rows).T
    return {
        name: _held(np.stack(of, axis=1), value.mean()).sum()
        for name, of in (("ours", limits[:2]), ("one by one", limits[2:]))
    }


def captioning(rng, studies: int, *, occupations: int, captions: int, words: int = 40, length: int = 7) -> dict:
    """Return how often each way holds captioning metrics, where occupations differ in how many words are right."""
    groups = np.repeat(np.arange(occupations), captions)
    names = np.array([f"w{k}" for k in range(words)])
    found: dict = {}
    for study in range(studies):
        true = names[rng.integers(words, size=(groups.size, length))]
        known = rng.random(true.shape) < rng.beta(8, 2, size=occupations)[groups, None]
        said = np.where(known, true, names[rng.integers(words, size=true.shape)])
        texts, references = ([" ".join(row) for row in of] for of in (said, true))
        references = [[text] for text in references]
        for way, of in (("ours", groups), ("one by one", None)):
            scores = caption_scores(texts, references, groups=of, seed=study)
            for row in scores.itertuples():
                found.setdefault(f"{row.metric}, {way}", []).append((row.value, row.ci_low, row.ci_high))
    rows = {name: np.array(of) for name, of in found.items()}
    return {name: _held(of[:, 1:], of[:, 0].mean()).sum() for name, of in rows.items()}


# Share that is right, and how the others fail; the second way is the one that is seen badly.
_MIXES = {"alike": (1 / 3, 1 / 3, 1 / 3), "90 % badly seen": (0.05, 0.9, 0.05), "all badly seen": (0, 1, 0)}
_MIXES |= {"90 % well seen": (0.9, 0.05, 0.05), "all well seen": (1, 0, 0)}
SIMULATIONS = {
    **{
        f"skills, {100 * share:g} % right, {name}": (skills, {"share": share, "mix": mix})
        for name, mix in _MIXES.items()
        for share in (0.05, 0.5, 0.8)
    },
    **{
        f"distances, {o} x {c}, {apart:g} apart, {between:g} between": (
            distances,
            {"occupations": o, "captions": c, "apart": apart, "between": between},
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
    """Return the share of studies in which each way holds the truth."""
    function, settings = SIMULATIONS[name]
    found = function(np.random.default_rng(seed), studies, **settings)
    return {way: float(count) / studies for way, count in found.items()}


def main() -> None:
    for name, way, held in asked(__doc__, SIMULATIONS, simulate, "in %", studies=STUDIES):
        print(f"{name:<44} {way:<24} {100 * held:5.1f}", flush=True)


if __name__ == "__main__":
    main()
