"""Simulate the coverage of intervals of differences between two runs, and false exclusions of 0.

Run: ``python benchmarks/coverage_compare.py [simulation ...] [--studies 2000]``. Each study draws two runs over the
same units (professions, occupations) and compares them like :mod:`biaslab.runs.compare`. Their means differ by chance,
by an effect of each unit, or by a shift. The script prints, in % of the studies, how often an interval (at 95%) covers
the true difference and excludes 0, and its mean half-width, for paired units and for runs treated as independent.
The test in ``tests/stats/test_stats_coverage_compare.py`` is a short version.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from _simulations import run_simulations

from biaslab import metrics, stats
from biaslab.papers.estimands import correlations, unit_rows

STUDIES, CONFIDENCE = 2000, 0.95


def compare_runs(first: dict, second: dict, truth: np.ndarray) -> dict[str, np.ndarray]:
    """Return (covered, excludes 0, mean half-width) over studies for each way.

    A side has an ``estimate`` with its limits ``low`` and ``high``, (studies,), and the ``values`` of its units,
    (studies, units), NaN for missing units.
    """
    sides = [
        pd.DataFrame(values).rename_axis(index="study", columns="unit").stack().rename("value").reset_index()
        for values in (first["values"], second["values"])
    ]
    sides = [unit_rows(side, "unit", side["value"]) for side in sides]
    table = correlations(*sides, ["study"], min_units=stats.min_units(1 - CONFIDENCE))
    by_study = table.astype({"study": int}).set_index("study")["correlation"].reindex(range(len(truth)))
    parts = [side[name] for side in (first, second) for name in ("estimate", "low", "high")]
    results = {}
    for way, correlation in {"units paired": by_study.fillna(0).to_numpy(), "as if independent": 0.0}.items():
        low, high = stats.difference_interval(*parts, correlation)
        covered, excludes = (low <= truth) & (truth <= high), (low > 0) | (high < 0)
        results[way] = np.array([covered.mean(), excludes.mean(), (high - low).mean() / 2])
    return results


def of_mean(values: np.ndarray) -> dict:
    """Return the means of units with Student's t intervals from :func:`biaslab.stats.mean_interval`."""
    intervals = [stats.mean_interval(v[np.isfinite(v)], CONFIDENCE) for v in values]
    columns = np.array([interval[:3] for interval in intervals]).T
    return dict(zip(("estimate", "low", "high"), columns, strict=True)) | {"values": values}


def averages(
    rng, studies: int, *, n: int, images: int = 9, unit_shift: float = 0.0, shift: float = 0.0, n_missing: int = 0
) -> dict[str, np.ndarray]:
    """Compare average gender (-1 to 1) over ``n`` professions, with shares of women uniform from 0.1 to 0.9.

    In the second run, shares are higher by ``shift``, plus up to ``unit_shift`` in either direction per profession;
    ``n_missing`` professions are only in the first run.
    """
    share = rng.uniform(0.1, 0.9, (studies, n))
    second_share = share + shift + rng.uniform(-unit_shift, unit_shift, (studies, n))
    sides = [2 * rng.binomial(images, np.clip(p, 0, 1)) / images - 1 for p in (share, second_share)]
    if n_missing:
        sides[1][:, :n_missing] = np.nan
    return compare_runs(*map(of_mean, sides), np.full(studies, 2 * shift))


def deviations(
    rng, studies: int, *, n: int, images: int = 9, unit_shift: float = 0.0, scale: float = 1.0
) -> dict[str, np.ndarray]:
    """Compare the bias-corrected mean absolute deviation of ``n`` professions, with the interval of ``dalleval_mad``.

    Shares of women are those of :func:`averages`. In the second run their distance from one half is multiplied by
    ``scale``, plus up to ``unit_shift`` in either direction per profession. The truth refers to the population of
    professions.
    """

    def shares(size) -> tuple[np.ndarray, np.ndarray]:
        share = rng.uniform(0.1, 0.9, size)
        return share, np.clip(0.5 + scale * (share - 0.5) + rng.uniform(-unit_shift, unit_shift, size), 0, 1)

    unit, sides = np.arange(n), []
    for p in shares((studies, n)):
        women = rng.binomial(images, p)
        counts = np.stack([women, images - women], axis=-1)
        estimates = [stats.mean_mad(c, unit, CONFIDENCE) for c in counts]
        columns = np.array([(e.value, e.ci_low, e.ci_high) for e in estimates]).T
        side = dict(zip(("estimate", "low", "high"), columns, strict=True))
        sides.append(side | {"values": stats.corrected_mad(counts)})
    first, second = (np.abs(p - 0.5).mean() for p in shares(1_000_000))
    return compare_runs(*sides, np.full(studies, second - first))


def amplifications(
    rng, studies: int, *, n: int, images: int = 16, unit_shift: float = 0.0, definition: str = "signed"
) -> dict[str, np.ndarray]:
    """Compare expected amplification over ``n`` occupations by the bootstrap of ``paradox_amplification``, one prompt.

    Training images are the same in both runs; generated shares are 0.1 further from one half, plus up to ``unit_shift``
    in either direction per occupation of the second run.
    """
    measure = metrics.directional_amplification if definition == "signed" else metrics.amplification

    def expected(shares: np.ndarray) -> np.ndarray:
        return metrics.expected_amplification(100 * shares[..., 1], 100 * shares[..., 0], definition).amplification

    estimates, values = np.empty((2, 3, studies)), np.empty((2, studies, n))
    for study in range(studies):
        training = rng.uniform(0.1, 0.9, n)
        t = rng.binomial(200, training)
        for run, size in enumerate((0, unit_shift)):
            p = np.clip(training + 0.1 * np.sign(training - 0.5) + rng.uniform(-size, size, n), 0, 1)
            g = rng.binomial(images, p)
            boot = stats.hierarchical_bootstrap(
                np.column_stack([t, g]),
                np.tile([200, images], (n, 1)),
                expected,
                replicates=300,
                seed=int(rng.integers(2**31)),
                confidence=CONFIDENCE,
            )
            estimates[run, :, study] = boot.estimate, boot.ci_low, boot.ci_high
            values[run, study] = measure(100 * g / images, 100 * t / 200)
    names = "estimate", "low", "high"
    sides = (dict(zip(names, rows, strict=True)) | {"values": v} for rows, v in zip(estimates, values, strict=True))
    # In the population of occupations, the runs do not differ.
    return compare_runs(*sides, np.zeros(studies))


# Name -> (function that simulates and compares studies, its settings).
SIMULATIONS: dict[str, tuple[Callable, dict]] = {
    **{
        f"average, {n} professions, {what}": (averages, {"n": n, **more})
        for n in (12, 84)
        for what, more in (
            ("the same model", {}),
            ("each its own", {"unit_shift": 0.1}),
            ("a shift of 0.1", {"shift": 0.05}),
            ("a third in one run", {"n_missing": n // 3}),
        )
    },
    **{
        f"MAD, {n} professions, {what}": (deviations, {"n": n, **more})
        for n in (12, 84)
        for what, more in (
            ("the same model", {}),
            ("each its own", {"unit_shift": 0.1}),
            ("against half of it", {"scale": 0.5}),
            ("against none", {"scale": 0.0}),
        )
    },
    **{
        f"amplification, {definition}, {n} occupations, {what}": (
            amplifications,
            {"n": n, "definition": definition, **more},
        )
        for n in (20, 62)
        for definition in ("signed", "all")
        for what, more in (("the same model", {}), ("each its own", {"unit_shift": 0.1}))
        if definition == "signed" or not more
    },
}


def simulate(name: str, studies: int = STUDIES, seed: int = 1) -> dict[str, np.ndarray]:
    """Return (covered, excludes 0, mean half-width) for each way, the first two as shares of the studies."""
    draw, settings = SIMULATIONS[name]
    return draw(np.random.default_rng(seed), studies, **settings)


def main() -> None:
    unit = "in %, and the mean half-width in the unit of the estimate"
    for name, way, (covered, excludes, half) in run_simulations(__doc__, SIMULATIONS, simulate, unit, studies=STUDIES):
        print(
            f"{name:<60} {way:<18} covered {100 * covered:5.1f}  excludes 0 {100 * excludes:5.1f}  half {half:7.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
