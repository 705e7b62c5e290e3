"""Simulate the coverage of intervals and the false rejections of tests, compared with simpler methods.

Run: ``python benchmarks/coverage.py [simulation ...] [--studies 2000] [--replicates 600]``. Each simulation draws
entire studies from a population with known truth. It prints for our method and each peer, in % of the same studies, how
often the interval covers the truth (at 95%), is entirely above it, or is missing, and how often the test rejects 0 (at
5%). The tests in ``tests/stats/test_stats_coverage.py`` are short versions.
"""

import os
from collections.abc import Iterator
from multiprocessing import Pool
from typing import NamedTuple

import numpy as np
from _simulations import run_simulations, sum_results

from biaslab import metrics, stats
from biaslab.papers.paradox.analysis.groups import Group, estimates

STUDIES, REPLICATES, LEVEL = 2000, 600, 0.05
DEFINITIONS = metrics.DEFINITIONS


def definitions(training, generated) -> np.ndarray:
    """Return expected amplification in points for shares (..., occupations, prompts), mean over prompts: (..., 3)."""
    sides = 100 * generated, 100 * np.broadcast_to(training, generated.shape)
    amplifications = (metrics.expected_amplification(*sides, d, axis=-2).amplification for d in DEFINITIONS)
    return np.stack([values.mean(axis=-1) for values in amplifications], axis=-1)


def truth(training: np.ndarray, generated: np.ndarray) -> np.ndarray:
    """Return the value of each definition for the true shares of very many occupations."""
    return definitions(training[:, None], generated[:, None])


def _bootstrap(rng, counts, n, replicates: int, drawing=None) -> stats.Bootstrap:
    """Return our estimate from counts, training first."""
    return stats.hierarchical_bootstrap(
        counts,
        n,
        lambda shares: definitions(shares[..., :1], shares[..., 1:]),
        replicates=replicates,
        seed=int(rng.integers(2**31)),
        drawing=drawing,
    )


# -- amplification with captions as prompts ------------------------------------------------------------------------


def captions_as_prompts(
    rng, studies, replicates, *, occupations=62, captions=8, images=1, copied=0.956, judged=1.0
) -> Iterator[dict]:
    """Yield each study's results: training and generated images of the same captions.

    A share ``copied`` of the generated images has the gender of their caption's training image. The others are drawn
    from the occupation. If almost all are copied, half of the others show women, so that 0.956 makes 97.8% equal;
    otherwise they are amplified by an amount that varies over occupations. A share ``judged`` of images has a gender.
    """

    def generated(p: np.ndarray) -> np.ndarray:
        if copied > 0.9:
            return np.full(p.shape, 0.5)
        return 1 / (1 + np.exp(0.2 - 1.3 * np.log(p / (1 - p)) - rng.normal(0, 0.9, p.shape)))

    population = rng.beta(0.7, 0.9, size=1_000_000)
    expected = truth(population, copied * population + (1 - copied) * generated(population))
    for _ in range(studies):
        p = rng.beta(0.7, 0.9, size=(occupations, 1))
        own = rng.random((occupations, captions)) < p
        fresh = rng.random((occupations, captions, images)) < generated(p)[..., None]
        shown = np.where(rng.random(fresh.shape) < copied, own[..., None], fresh)
        is_judged, is_judged_training = rng.random(shown.shape) < judged, rng.random(own.shape) < judged
        women, total = (shown & is_judged).sum(axis=-1), is_judged.sum(axis=-1)
        group = np.repeat(np.arange(occupations), captions)
        ours = stats.CaptionClusterSampling(
            group,
            np.where(is_judged_training, own, np.nan).ravel(),
            women.ravel(),
            total.ravel(),
            np.ones(group.size),
            occupations,
        )

        estimates = {
            way: _bootstrap(rng, ours.counts, ours.n, replicates, drawing)
            for way, drawing in {"by caption": ours, "one by one": None}.items()
        }
        yield {name: _outcomes(estimate, expected) for name, estimate in estimates.items()}


# -- amplification of selected captions and of prompts, and its test ----------------------------------------------


def nothing_amplified(
    rng, studies, replicates, *, occupations=62, training=(16, 25), images=(3, 8), prompts=1, around=(0.7, 0.9)
) -> Iterator[dict]:
    """Yield each study's results if generated images have exactly the shares of training images.

    The numbers of ``training`` images per occupation and of ``images`` per prompt are (minimum, maximum); several
    ``prompts`` are averaged. Shares have a Beta distribution with the parameters ``around``.
    """
    for _ in range(studies):
        p = rng.beta(*around, size=(occupations, 1))
        n = np.hstack(
            [
                rng.integers(training[0], training[1] + 1, size=(occupations, 1)),
                rng.integers(images[0], images[1] + 1, size=(occupations, prompts)),
            ]
        )
        counts = rng.binomial(n, p)
        estimate = _bootstrap(rng, counts, n, replicates)
        yield {"corrected": _outcomes(estimate, np.zeros(3)), "plain t-test": _t_test(counts / n)}


def few_occupations(
    rng, studies, replicates, *, occupations, training, images, prompts=1, steeper=1.0, around=(0.7, 0.9)
) -> Iterator[dict]:
    """Yield each study's results as in the table of amplification, with its rules for small samples.

    Each of ``occupations`` has ``training`` images and ``images`` per prompt. Generated images have ``steeper`` times
    the log-odds of training images. The shares of the latter have a Beta distribution with the parameters ``around``,
    or are one half if it is None. ``by counts`` are the same intervals without these rules.
    """

    def draw_shares(size: int) -> np.ndarray:
        return np.full((size, 1), 0.5) if around is None else np.clip(rng.beta(*around, (size, 1)), 1e-9, 1 - 1e-9)

    def generated(p: np.ndarray) -> np.ndarray:
        return 1 / (1 + (1 / p - 1) ** steeper)

    population = draw_shares(1_000_000)
    expected = np.nan_to_num(truth(population[:, 0], generated(population)[:, 0]))
    names = tuple(f"{k}" for k in range(1, prompts + 1))
    for _ in range(studies):
        p = draw_shares(occupations)
        n = np.hstack([np.full((occupations, 1), training), np.full((occupations, prompts), images)])
        counts = rng.binomial(n, np.hstack([p, np.tile(generated(p), prompts)]))
        percent, many_n = 100 * counts / n, n.astype(float)
        sides = [np.tile(a[:, :1], prompts) for a in (percent, many_n)]
        group = Group("M", "naive", tuple(map(str, range(occupations))), names, sides[0], percent[:, 1:], sides[1],
                      many_n[:, 1:], shared=True)  # fmt: skip
        table = estimates(group, replicates=replicates, seed=int(rng.integers(2**31)), confidence=0.95)
        ours = _Row(*(part[:, -1] for part in (table.low, table.high, table.p)))
        estimate = _bootstrap(rng, counts, n, replicates)
        yield {"table": _outcomes(ours, expected), "by counts": _outcomes(estimate, expected)}


class _Row(NamedTuple):
    ci_low: np.ndarray
    ci_high: np.ndarray
    p: np.ndarray


def _t_test(shares: np.ndarray) -> np.ndarray:
    """Return the result of :func:`_outcomes` for the one-sample t-test over included occupations, by definition."""
    t, g = 100 * shares[:, :1], 100 * shares[:, 1:]
    out = np.zeros((4, 3))
    for i, definition in enumerate(DEFINITIONS):
        excluded = metrics.exclusion_reason(g, t, definition) != ""
        signed = definition == "signed"
        amplifications = metrics.directional_amplification(g, t) if signed else metrics.amplification(g, t)
        amplifications = np.where(excluded, np.nan, amplifications)
        values = amplifications[~np.isnan(amplifications).all(axis=1)]
        means = np.nansum(values, axis=1) / (~np.isnan(values)).sum(axis=1)
        p = stats.one_sample_t(means).p if len(means) else np.nan
        out[:, i] = [p >= LEVEL, p < LEVEL and means.mean() > 0, p < LEVEL, np.isnan(p)]
    return out


def _outcomes(estimate: stats.Bootstrap | _Row, expected: np.ndarray) -> np.ndarray:
    """Return whether the truth is covered, is below the interval, 0 is rejected, and the interval is missing.

    The result is a float array (4, values).
    """
    covered = (estimate.ci_low <= expected) & (expected <= estimate.ci_high)
    return np.array([covered, estimate.ci_low > expected, estimate.p < LEVEL, np.isnan(estimate.ci_low)], dtype=float)


# -- simulations -----------------------------------------------------------------------------------------------------

# Share of generated images that copy their caption's image -> captions per occupation, and images per caption.
_CAPTIONS = {
    0.956: [(8, 1), (4, 1), (8, 4), (2, 1), (3, 1), (6, 1), (25, 1), (2, 4), (4, 4), (2, 10), (8, 10)],
    0.5: [(8, 1), (4, 1), (25, 1), (8, 4)],
    0.0: [(8, 1), (4, 1), (25, 1), (8, 4)],
}
# Training and generated images per occupation: minimum and maximum.
_IMAGES = [((16, 25), (3, 8)), ((8, 8), (8, 8)), ((100, 100), (100, 100)), ((500, 500), (500, 500))]
# Few occupations and images: number of each.
_FEW = [(6, 20, 3), (6, 100, 100), (8, 2, 2), (8, 20, 1), (12, 5, 5), (12, 20, 2), (20, 20, 3)]
# Shares close to one half: their distribution, training images, images per prompt, prompts.
_HALF = [(None, 20, 5, 4), (None, 500, 8, 4), (None, 500, 500, 4), ((12, 13), 20, 5, 4), ((25, 25), 100, 100, 1)]
# Name -> (function that simulates studies, its settings).
SIMULATIONS = {
    **{
        f"captions n={captions} x {images}, {100 * copied:g}% copied": (
            captions_as_prompts,
            {"captions": captions, "images": images, "copied": copied},
        )
        for copied, sizes in _CAPTIONS.items()
        for captions, images in sizes
    },
    "captions n=8 x 1, 80% judged": (captions_as_prompts, {"judged": 0.8}),
    "captions n=8 x 1, 62% copied, 86% judged": (captions_as_prompts, {"copied": 0.62, "judged": 0.86}),
    "captions n=8 x 4, 80% judged": (captions_as_prompts, {"judged": 0.8, "images": 4}),
    **{
        f"G = T, {occupations} occupations, {training[0]}-{training[1]}/{images[0]}-{images[1]}, {prompts} prompts": (
            nothing_amplified,
            {"occupations": occupations, "training": training, "images": images, "prompts": prompts},
        )
        for occupations in (20, 62)
        for training, images in _IMAGES
        for prompts in (1, 4)
    },
    **{
        f"few: {occupations} occupations, {training}/{images}, steeper {steeper:g}": (
            few_occupations,
            {"occupations": occupations, "training": training, "images": images, "steeper": steeper},
        )
        for occupations, training, images in _FEW
        for steeper in (1, 1.5)
    },
    **{
        f"half: {around or 'all'}, {training}/{images}, {prompts} prompts": (
            few_occupations,
            {"occupations": 40, "training": training, "images": images, "prompts": prompts, "around": around},
        )
        for around, training, images, prompts in _HALF
    },
}


def _run_part(job: tuple) -> dict:
    name, seed, studies, replicates = job
    draw, settings = SIMULATIONS[name]
    return sum_results(draw(np.random.default_rng(seed), studies, replicates, **settings))


def simulate(name: str, studies: int = STUDIES, replicates: int = REPLICATES, jobs: int = 1, seed: int = 1) -> dict:
    """Return (covered, above, rejected, no interval) for each way as shares of the studies, by definition."""
    parts = min(studies, 4 * jobs) if jobs > 1 else 1
    sizes = [len(part) for part in np.array_split(np.arange(studies), parts)]
    tasks = [(name, [seed, i], size, replicates) for i, size in enumerate(sizes)]
    if jobs > 1:
        with Pool(jobs) as pool:
            totals = pool.map(_run_part, tasks, chunksize=1)
    else:
        totals = list(map(_run_part, tasks))
    return {way: sum(total[way] for total in totals) / studies for way in totals[0]}


def main() -> None:
    unit = f"in %: {', '.join(DEFINITIONS)}"
    numbers = {"studies": STUDIES, "replicates": REPLICATES, "jobs": os.cpu_count() or 1}
    for name, way, rates in run_simulations(__doc__, SIMULATIONS, simulate, unit, **numbers):
        columns = (
            f"{label} " + " ".join(f"{100 * value:5.1f}" for value in values)
            for label, values in zip(("covered", "above", "rejected", "none"), rates, strict=True)
        )
        print(f"{name:<42} {way:<13} {'   '.join(columns)}", flush=True)


if __name__ == "__main__":
    main()
