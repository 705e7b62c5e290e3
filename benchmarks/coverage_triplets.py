"""Simulate what intervals and tests of gender triplets hold, beside simpler ways, on the same studies.

Run: ``python benchmarks/coverage_triplets.py [--studies 2000]``; a few minutes. It prints in % of the studies:

- how often intervals (95 %) of an object's bias score hold the true one, where triplets differ in how likely the object
  is and an image shows it several times: ours, percentiles of resampled triplets, and Wilson's of occurrences;
- how often the mean over triplets of similarities at several seeds is held: by Student's t over triplets, which is what
  tables show, and by percentiles of triplets and then seeds resampled;
- how often tests reject (5 %) where genders do not differ: labels permuted within triplets, and the plain chi-square.
"""

import argparse
import time

import numpy as np
from scipy.stats import chi2_contingency

from biaslab import stats

TRIPLETS, RESAMPLES = 300, 500


def held(limits, truth: float) -> bool:
    low, high = limits
    return bool(low <= truth <= high)


def scores(rng, studies: int, truth: float, expected: int, crowd: int, clump: float) -> dict:
    """Return how often each way holds a score of ``truth``, of ``expected`` occurrences in crowds of ``crowd``."""
    found = {"ours": 0, "resampled": 0, "occurrences": 0}
    for _ in range(studies):
        rates = rng.gamma(clump, 2 * expected / crowd / TRIPLETS / clump, TRIPLETS)
        masculine, feminine = (crowd * rng.poisson(share * rates) for share in (truth, 1 - truth))
        n = masculine + feminine
        if not n.sum():
            continue
        seen = n > 0
        share = masculine.sum() / n.sum()
        error = stats.clustered_error((masculine - share * n)[seen] / n.sum())
        found["ours"] += held(stats.clustered_share_interval(share, error, int(seen.sum())), truth)
        weights = rng.multinomial(TRIPLETS, np.full(TRIPLETS, 1 / TRIPLETS), size=RESAMPLES)
        sums = weights @ np.stack([masculine, n], axis=1)
        resampled = sums[sums[:, 1] > 0]
        found["resampled"] += held(np.quantile(resampled[:, 0] / resampled[:, 1], [0.025, 0.975]), truth)
        found["occurrences"] += held(stats.wilson_interval(int(masculine.sum()), int(n.sum())), truth)
    return found


def means(rng, studies: int, triplets: int, seeds: int, between: float, within: float) -> dict:
    """Return how often each way holds the mean of skewed values with these deviations between and within triplets."""
    found = {"ours": 0, "resampled twice": 0}
    for _ in range(studies):
        own = between * (rng.exponential(size=triplets) - 1)
        values = own[:, None] + within * (rng.exponential(size=(triplets, seeds)) - 1)
        found["ours"] += held(stats.mean_interval(values.mean(axis=1))[1:3], 0)
        rows = rng.integers(triplets, size=(RESAMPLES, triplets, 1))
        columns = rng.integers(seeds, size=(RESAMPLES, triplets, seeds))
        found["resampled twice"] += held(
            np.quantile(values[rows, columns].mean(axis=(1, 2)), [0.025, 0.975]), 0
        )
    return found


def tests(rng, studies: int, triplets: int, kinds: int, crowd: int) -> dict:
    """Return how often each way rejects: images of a triplet show alike, each kind ``crowd`` times at once."""
    found = {"permuted": 0, "plain": 0}
    for _ in range(studies):
        likely = rng.dirichlet(np.full(kinds, 0.5), size=triplets)
        counts = crowd * np.stack([[rng.multinomial(3, p) for p in likely] for _ in range(3)])
        table = counts.sum(axis=1)
        found["permuted"] += stats.permuted_chi_square(counts, 399, seed=rng) < 0.05
        found["plain"] += chi2_contingency(table[:, table.sum(axis=0) > 0], correction=False).pvalue < 0.05
    return found


SIMULATIONS = [
    *(
        (
            f"score {truth:g}, {n} occurrences by {crowd}",
            scores,
            {"truth": truth, "expected": n, "crowd": crowd, "clump": 0.3},
        )
        for truth in (0.5, 0.8, 0.95)
        for n, crowd in ((12, 1), (30, 1), (80, 1), (80, 4))
    ),
    *(
        (
            f"mean, {t} triplets x {s} seeds, {b} and {w}",
            means,
            {"triplets": t, "seeds": s, "between": b, "within": w},
        )
        for t, s in ((12, 5), (40, 2), (40, 5), (150, 5))
        for b, w in ((0.02, 0.1), (0.1, 0.1))
    ),
    *(
        (f"no difference, {t} triplets, by {crowd}", tests, {"triplets": t, "kinds": 6, "crowd": crowd})
        for t in (20, 60)
        for crowd in (1, 4)
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    print(f"{studies:,} studies each, in %")
    for i, (name, simulate, settings) in enumerate(SIMULATIONS):
        start = time.perf_counter()
        found = simulate(np.random.default_rng(i), studies, **settings)
        ways = "   ".join(f"{way} {100 * count / studies:5.1f}" for way, count in found.items())
        print(f"{name:<44} {ways}   ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
