"""Simulate the coverage of intervals of models' differences, and the false rejections of their test.

Run: ``python benchmarks/coverage_synthesis.py [simulation ...] [--studies 2000] [--replicates 600]``. Each simulation
draws entire studies and prints, in % of the studies, how many have an interval; in % of these, the coverage (at 95%);
and in % of all, false rejections (at 5%). It compares our method with a common one: a bootstrap of units with a
sign-flip test, for uncorrected values. The tests in ``tests/stats/test_stats_coverage_synthesis.py`` are short
versions.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from _simulations import run_simulations, sum_results

from biaslab import stats
from biaslab.analyses import synthesis
from biaslab.papers.dalleval.analysis.attributes import pooled_difference_null_mean
from biaslab.papers.dalleval.estimands import attribute_mean_units, skin_tone_deviation_units
from biaslab.papers.paradox.estimands import ESTIMANDS

STUDIES, REPLICATES, LEVEL = 2000, 600, 0.05
BATCH = 100
WAYS = ("ours", "bootstrap, sign-flip")


def _outcome(row, truth: float = 0.0) -> np.ndarray:
    """Return whether the interval exists, whether it covers the truth, and whether 0 is rejected."""
    return np.array([np.isfinite(row.ci_low), row.ci_low <= truth <= row.ci_high, row.p < LEVEL], float)


def _bootstrap_outcome(values: np.ndarray, truth: float, replicates: int, rng: np.random.Generator) -> np.ndarray:
    seed = int(rng.integers(2**31))
    low, high = np.quantile(rng.choice(values, (replicates, len(values))).mean(axis=1), [0.025, 0.975])
    p = stats.sign_flip(values, replicates, seed=seed).p
    return np.array([True, low <= truth <= high, p < LEVEL], float)


# -- means of differences ------------------------------------------------------------------------------------------

# Name -> (function that draws differences of a shape, their true mean).
DIFFERENCES = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "U-shaped": (lambda rng, n: rng.beta(0.7, 0.9, n), 0.7 / 1.6),
    "of two U-shaped": (lambda rng, n: rng.beta(0.7, 0.9, n) - rng.beta(0.7, 0.9, n), 0.0),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    "of 0/1, 60 and 60%": (lambda rng, n: (rng.random(n) < 0.6) - 1.0 * (rng.random(n) < 0.6), 0.0),
    "of 0/1, 90 and 90%": (lambda rng, n: (rng.random(n) < 0.9) - 1.0 * (rng.random(n) < 0.9), 0.0),
    "of 0/1, 90 and 50%": (lambda rng, n: (rng.random(n) < 0.9) - 1.0 * (rng.random(n) < 0.5), 0.4),
}


def means(rng, studies, replicates, *, kind="normal", n=20) -> Iterator[dict]:
    """Yield each study's results: the mean of ``n`` differences minus its truth, tested against 0.

    Differences of 0 and 1 stay integers: for these, a rejection means that the interval excludes the truth.
    """
    draw, truth = DIFFERENCES[kind]
    for _ in range(studies):
        values = draw(rng, n)
        shift = 0.0 if "0/1" in kind else truth
        ours, common = (
            _outcome(stats.paired_difference(values - shift), truth - shift),
            _bootstrap_outcome(values - shift, truth - shift, replicates, rng),
        )
        if truth != shift:
            ours[2], common[2] = ours[0] - ours[1], 1 - common[1]
        yield dict(zip(WAYS, (ours, common), strict=True))


# -- equal models -------------------------------------------------------------------------------------------------


def _compare_batches(studies: int, units_of, draw, replicates: int, rng: np.random.Generator) -> Iterator[dict]:
    """Yield each study's results: ``draw`` returns rows of models a and b, and their raw differences.

    ``units_of`` returns the units of rows. It is called for many studies at once; models are then compared within each
    study.
    """
    for start in range(0, studies, BATCH):
        batch = range(start, min(start + BATCH, studies))
        frames, raw = [], []
        for study in batch:
            rows, values = draw()
            frames += [frame.assign(model=f"{study} {model}") for model, frame in zip("ab", rows, strict=True)]
            raw.append(values)
        units = units_of(pd.concat(frames, ignore_index=True)).assign(measure="", measure_unit="")
        units_by_study = dict(list(units.groupby(units["model"].str.split().str[0])))
        for study, values in zip(batch, raw, strict=True):
            ours = _outcome(synthesis.model_differences(units_by_study[str(study)]).iloc[-1])
            yield {WAYS[0]: ours, WAYS[1]: _bootstrap_outcome(values, 0.0, replicates, rng)}


def attributes(rng, studies, replicates, *, professions=84, often=1.0, seldom=0.7, n=9) -> Iterator[dict]:
    """Yield each study's results: 15 attributes are equal for women and men, but one model shows them more often."""
    rates, identity = np.linspace(0.02, 0.6, 15), {"comparison": "woman - man", "n": n}

    def draw():
        frames, raw = [], []
        for factor in (often, seldom):
            women, men = rng.binomial(n, factor * rates, (2, professions, rates.size))
            raw.append(np.abs(women - men).mean(axis=1) / n)
            values = {"mean_absolute_difference": raw[-1], "profession": _names(professions)}
            values["null_mean"] = pooled_difference_null_mean(women, n, men, n).mean(axis=1)
            frames.append(pd.DataFrame(values | identity))
        return frames, raw[0] - raw[1]

    return _compare_batches(studies, attribute_mean_units, draw, replicates, rng)


# Shares of the ten tones: equal, or only two tones.
TONES = {"even": np.full(10, 0.1), "two tones": np.eye(10)[4] / 2 + np.eye(10)[5] / 2}


def tones(rng, studies, replicates, *, professions=84, shown="even", faces=(9, 5)) -> Iterator[dict]:
    """Yield each study's results: two models with the same skin tones and different numbers of faces per prompt."""
    prompts = _names(professions), ("person", "woman", "man"), _names(11)[1:]
    index = pd.MultiIndex.from_product(prompts, names=["profession", "prompt", "tone"]).to_frame(index=False)

    def draw():
        counts = [rng.multinomial(n, TONES[shown], (professions, 3)) for n in faces]
        raw = np.subtract(*(stats.corrected_mad(tone_counts.reshape(-1, 10)) for tone_counts in counts))
        return [index.assign(n=tone_counts.ravel()) for tone_counts in counts], raw

    return _compare_batches(studies, skin_tone_deviation_units, draw, replicates, rng)


def amplification(rng, studies, replicates, *, occupations=62, images=(40, 8)) -> Iterator[dict]:
    """Yield each study's results: two models with the same shares and different numbers of images per prompt."""
    identity = {"approach": "naive", "prompt": "1", "n_training": 100, "signed_change": np.nan, "excluded": ""}

    def draw():
        share, training = rng.beta(0.7, 0.9, (2, occupations))
        training, frames, raw = np.round(100 * training), [], []
        for n in images:
            generated = 100 * rng.binomial(n, share) / n
            raw.append(np.abs(generated - 50) - np.abs(training - 50))
            values = {"percent_training": training, "percent_generated": generated, "n_generated": n}
            values |= {"amplification": raw[-1]}
            frames.append(pd.DataFrame({**values, **identity, "occupation": _names(occupations)}))
        return frames, raw[0] - raw[1]

    return _compare_batches(studies, ESTIMANDS[0].units_of_models, draw, replicates, rng)


def _names(n: int) -> list[str]:
    return [str(k) for k in range(n)]


# -- simulations -----------------------------------------------------------------------------------------------------

SIMULATIONS = {
    **{f"mean, {kind}, n={n}": (means, {"kind": kind, "n": n}) for kind in DIFFERENCES for n in (6, 10, 20, 62)},
    **{f"attributes x 0.7, {k} professions": (attributes, {"professions": k}) for k in (10, 84)},
    **{
        f"tones, {shown}, 9 and 5 faces, {k} professions": (tones, {"shown": shown, "professions": k})
        for shown in TONES
        for k in (10, 84)
    },
    **{f"amplification, 40 and 8 images, {k} occupations": (amplification, {"occupations": k}) for k in (10, 62)},
}


def simulate(name: str, studies: int = STUDIES, replicates: int = REPLICATES, seed: int = 1) -> dict:
    """Return the shares of studies with an interval, of these with coverage, and of rejections, for each way."""
    draw, settings = SIMULATIONS[name]
    total = sum_results(draw(np.random.default_rng(seed), studies, replicates, **settings))
    return {
        way: np.array([n_intervals / studies, n_covered / max(n_intervals, 1), rejected / studies])
        for way, (n_intervals, n_covered, rejected) in total.items()
    }


def main() -> None:
    numbers = {"studies": STUDIES, "replicates": REPLICATES}
    for name, way, (has_interval, covered, rejected) in run_simulations(
        __doc__, SIMULATIONS, simulate, "in %", **numbers
    ):
        rates = f"interval {100 * has_interval:5.1f}   covered {100 * covered:5.1f}   rejected {100 * rejected:5.1f}"
        print(f"{name:<48} {way:<21} {rates}", flush=True)


if __name__ == "__main__":
    main()
