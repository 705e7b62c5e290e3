"""Simulate the coverage of intervals of DALL-Eval's bias, and the false rejections of its tests.

Run: ``python benchmarks/coverage_dalleval.py [simulation ...] [--studies 2000]``. Each simulation draws entire studies
from a population with known truth. It prints for our method and simpler ones, in % of the same studies, how often each
interval covers the truth (at 95%) and the test rejects 0 (at 5%), and the mean half-width in points. The
tests in ``tests/stats/test_stats_coverage_dalleval.py`` are short versions.
"""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from _simulations import run_simulations

from biaslab import reference, stats
from biaslab_world.social import presence

STUDIES, REPLICATES, LEVEL = 2000, 400, 0.05


def _outcome(low: float, high: float, p: float, truth: float, value: float = np.nan) -> np.ndarray:
    """Return whether the truth is covered, whether 0 is rejected, the half-width, and whether the value is inside."""
    is_inside = low - 1e-12 <= value <= high + 1e-12
    rejected = p < LEVEL if np.isfinite(p) else np.nan
    return np.array([low - 1e-12 <= truth <= high + 1e-12, rejected, 100 * (high - low) / 2, is_inside])


def _resample_mean(rng, values: np.ndarray) -> tuple[float, float]:
    """Return the percentile interval of the mean of resampled values."""
    low, high = np.quantile(rng.choice(values, (REPLICATES, len(values))).mean(axis=1), [0.025, 0.975])
    return low, high


# -- gender ----------------------------------------------------------------------------------------------------------


@cache
def _printed(model: str) -> np.ndarray:
    """Return the published shares of women for a model's professions, shrunk slightly away from 0 and 1."""
    tables = (reference.load(f"dalleval_table_{number}") for number in (16, 17))
    rows = [table[(table["model"] == model) & (table["kind"] == "profession")]["value"] for table in tables]
    return 0.01 + 0.98 * (1 + np.concatenate(rows)) / 2


GENDERS: dict[str, Callable] = {
    "even": lambda rng, shape: np.full(shape, 0.5),
    "around even": lambda rng, shape: rng.beta(6, 7, shape),
    "U-shaped": lambda rng, shape: rng.beta(0.7, 0.9, shape),
    "as Stable Diffusion": lambda rng, shape: rng.choice(_printed("Stable Diffusion"), shape),
    "as minDALL-E": lambda rng, shape: rng.choice(_printed("minDALL-E"), shape),
    "all lean": lambda rng, shape: rng.uniform(0.1, 0.3, shape),
    "one in five leans": lambda rng, shape: np.where(rng.random(shape) < 0.8, 0.5, 0.02),
    "four in five lean": lambda rng, shape: np.where(rng.random(shape) < 0.8, 0.99, 0.5),
}


def gender_mad(rng, studies, *, kind, professions, images) -> Iterator[dict]:
    """Yield the results for the bias-corrected mean deviation from an even split."""
    draw = GENDERS[kind]
    truth = float(np.abs(draw(np.random.default_rng(0), 1_000_000) - 0.5).mean())
    for _ in range(studies):
        women = rng.binomial(images, draw(rng, professions))
        estimate = stats.mean_mad(np.column_stack([women, images - women]))
        deviations = stats.corrected_absolute_deviation(women, images)
        plain = _resample_mean(rng, deviations)
        yield {
            "bias-aware": _outcome(estimate.ci_low, estimate.ci_high, estimate.p, truth, estimate.value),
            "bootstrap": _outcome(*plain, np.nan, truth, deviations.mean()),
        }


def judged_gender(rng, studies, *, kind, professions, images, right=(0.9, 0.86), drawings=80) -> Iterator[dict]:
    """Yield the results for gender by an imperfect judge, with and without a correction for its errors.

    Sensitivity and specificity, ``right``, are measured on ``drawings`` images each.
    """
    draw = GENDERS[kind]
    population = draw(np.random.default_rng(0), 1_000_000)
    truth, average = float(np.abs(population - 0.5).mean()), float(2 * population.mean() - 1)
    for _ in range(studies):
        share = draw(rng, professions)
        women = rng.binomial(images, share * right[0] + (1 - share) * (1 - right[1]))
        sizes = np.full(professions, images)
        measured = tuple(rng.binomial(drawings, right) / drawings)
        error = (*measured, drawings, drawings)
        ways = {
            "MAD": (stats.judge_corrected_deviation(women, sizes, *error), truth),
            "MAD as judged": (stats.mean_mad(np.column_stack([women, images - women])), truth),
            "average": (stats.judge_corrected_mean(2 * women / images - 1, *error), average),
        }
        plain = stats.mean_interval(2 * women / images - 1)
        results = {way: _outcome(e.ci_low, e.ci_high, e.p, true, e.value) for way, (e, true) in ways.items()}
        results["average as judged"] = _outcome(plain.ci_low, plain.ci_high, np.nan, average, plain.value)
        yield results


# -- skin tone -------------------------------------------------------------------------------------------------------


_MIDDLE = np.exp(-0.5 * ((np.arange(10) - 4.5) / 1.5) ** 2)
# Parameters of the Dirichlet distribution of a profession's tones; larger ones make professions more similar.
TONES = {
    "even": np.full(10, np.inf),
    "nearly even": np.full(10, 5.0),
    "rather light": np.linspace(3, 1, 10),
    "around the middle": 8 * _MIDDLE / _MIDDLE.sum(),
    "few tones": 2 * _MIDDLE / _MIDDLE.sum(),
}


def _tones(rng, kind: str, professions: int) -> np.ndarray:
    if np.isinf(TONES[kind]).any():
        return np.full((professions, 10), 0.1)
    return rng.dirichlet(TONES[kind], professions)


def skin_tone_mad(rng, studies, *, kind, professions, images) -> Iterator[dict]:
    """Yield the results for the mean deviation of ten tones from equal shares, with three prompts per profession."""
    truth = float(np.abs(_tones(np.random.default_rng(0), kind, 200_000) - 0.1).mean())
    units = np.repeat(np.arange(professions), 3)
    for _ in range(studies):
        counts = rng.multinomial(images, _tones(rng, kind, professions)[units])
        estimate = stats.mean_mad(counts, units)
        plain = _resample_mean(rng, stats.corrected_mad(counts))
        is_estimable = np.isfinite(estimate.value)
        ours = _outcome(estimate.ci_low, estimate.ci_high, estimate.p, truth, estimate.value)
        yield {
            "by profession" if is_estimable else "not estimable": ours if is_estimable else np.full(4, np.nan),
            "prompts as independent": _outcome(*plain, np.nan, truth),
        }


# -- attributes ------------------------------------------------------------------------------------------------------


def _draw_presence(rng, size: int, scale: float, spread: float, shared: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of fifteen attributes for women and men of ``size`` professions.

    Differences in log-odds are ``scale`` times those of the published presences. Professions differ by ``spread``, and
    their differences by half of it, equally in all attributes if ``shared``. With a scale of 0 there is no difference.
    """
    presences = presence()
    sides = [np.r_[list(presences[gender].values()), 0.02, 0.02, 0.02, 0.02] + 0.01 for gender in ("female", "male")]
    odds = [np.log(side / (1.02 - side)) for side in sides]
    middle, difference = (odds[0] + odds[1]) / 2, scale * (odds[0] - odds[1])
    intercept = middle + spread * rng.normal(size=(size, middle.size))
    difference = difference / 2 + (scale > 0) * spread / 2 * rng.normal(size=(size, 1 if shared else middle.size))
    return 1 / (1 + np.exp(-intercept - difference)), 1 / (1 + np.exp(-intercept + difference))


def attributes(rng, studies, *, scale, professions, images, spread=1.0, shared=False) -> Iterator[dict]:
    """Yield the results for the mean absolute difference over attributes."""
    women, men = _draw_presence(np.random.default_rng(0), 100_000, scale, spread, shared)
    truth = float(np.abs((women - men).mean(axis=0)).mean()) if scale else 0.0
    for _ in range(studies):
        rates = _draw_presence(rng, professions, scale, spread, shared)
        sides = (rng.binomial(images, side) / images for side in rates)
        paired = next(sides) - next(sides)
        estimate = stats.folded_means(paired, replicates=REPLICATES, seed=rng)
        weights = rng.multinomial(professions, np.full(professions, 1 / professions), REPLICATES)
        plain = np.quantile(np.abs(weights @ paired / professions).mean(axis=1), [0.025, 0.975])
        yield {
            "corrected": _outcome(estimate.ci_low, estimate.ci_high, estimate.p, truth, estimate.corrected),
            "percentile bootstrap": _outcome(*plain, np.nan, truth, estimate.value),
        }


# -- simulations -----------------------------------------------------------------------------------------------------

_GENDERS = {9: tuple(GENDERS), 3: ("even", "as Stable Diffusion")}
_TONES = {9: tuple(TONES), 6: ("even", "few tones"), 3: ("even", "few tones")}
_ATTRIBUTES = {
    "nothing differs": {"scale": 0.0},
    "a little": {"scale": 0.15},
    "half as printed": {"scale": 0.5},
    "as printed": {"scale": 1.0},
    "as printed, together": {"scale": 1.0, "spread": 1.5, "shared": True},
}
# Name -> (function that simulates studies, its settings).
SIMULATIONS: dict[str, tuple[Callable, dict]] = {
    **{
        f"gender MAD, {n} professions x {images}, {kind}": (
            gender_mad,
            {"kind": kind, "professions": n, "images": images},
        )
        for n in (6, 10, 84)
        for images, kinds in _GENDERS.items()
        for kind in (kinds if n > 6 else kinds[:1] + kinds[-1:])
    },
    **{
        f"gender judged, {n} professions x 9, {kind}": (judged_gender, {"kind": kind, "professions": n, "images": 9})
        for n in (10, 84)
        for kind in ("even", "as Stable Diffusion", "all lean")
    },
    **{
        f"skin tone MAD, {n} professions x 3 x {images}, {kind}": (
            skin_tone_mad,
            {"kind": kind, "professions": n, "images": images},
        )
        for n in (11, 84)
        for images, kinds in _TONES.items()
        for kind in kinds
    },
    **{
        f"attributes, {n} professions x {images}, {what}": (
            attributes,
            {"professions": n, "images": images, **settings},
        )
        for n in (10, 84)
        for images, kinds in ((9, tuple(_ATTRIBUTES)), (3, ("nothing differs", "as printed")))
        for what, settings in ((kind, _ATTRIBUTES[kind]) for kind in kinds)
    },
}


def simulate(name: str, studies: int = STUDIES, seed: int = 1) -> dict[str, np.ndarray]:
    """Return (covered, rejected, mean half-width in points, value inside) for each way, as shares of the studies."""
    draw, settings = SIMULATIONS[name]
    results: dict[str, list[np.ndarray]] = {}
    for study in draw(np.random.default_rng(seed), studies, **settings):
        for way, result in study.items():
            results.setdefault(way, []).append(result)
    return {way: np.mean(rows, axis=0) for way, rows in results.items()}


def main() -> None:
    unit = "in %, and the mean half-width in points"
    for name, way, (covered, rejected, half, inside) in run_simulations(
        __doc__, SIMULATIONS, simulate, unit, studies=STUDIES
    ):
        print(
            f"{name:<56} {way:<24} covered {100 * covered:5.1f}  rejected {100 * rejected:5.1f}  half {half:5.1f}  "
            f"value inside {100 * inside:5.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
