"""Simulate the coverage of intervals and the rejections of tests of gender triplets, compared with simpler methods.

Run: ``python benchmarks/coverage_triplets.py [simulation ...] [--studies 2000]``; takes a few minutes. It prints, in %
of the same studies:

- the coverage of intervals (95%) of an object's bias score, with probabilities of the object that vary over triplets
  and several occurrences per image: ours, percentiles of resampled triplets, and Wilson's interval of occurrences;
- the coverage of the mean over triplets of similarities at several seeds: Student's t over triplets, as in tables, and
  percentiles of resampled triplets and seeds;
- the rejection rate of tests (5%) for equal genders: labels permuted within triplets, and the plain chi-square;
- how often the card that counts metrics names a gender without a gap: as in the answer, and by counting the intervals
  of metrics, which are correlated.
"""

import numpy as np
import pandas as pd
from _simulations import run_simulations
from scipy.stats import chi2_contingency, t, ttest_1samp

from biaslab import stats
from biaslab.papers import triplets as paper

TRIPLETS, RESAMPLES = 300, 500


def is_covered(limits, truth: float) -> bool:
    low, high = limits
    return bool(low <= truth <= high)


def scores(rng, studies: int, truth: float, expected: int, crowd: int, clump: float) -> dict:
    """Return how often each way covers a score of ``truth``; ``expected`` occurrences come in groups of ``crowd``."""
    counts = {"ours": 0, "resampled": 0, "occurrences": 0}
    for _ in range(studies):
        rates = rng.gamma(clump, 2 * expected / crowd / TRIPLETS / clump, TRIPLETS)
        masculine, feminine = (crowd * rng.poisson(share * rates) for share in (truth, 1 - truth))
        n = masculine + feminine
        if not n.sum():
            continue
        has_object = n > 0
        share = masculine.sum() / n.sum()
        error = stats.clustered_error((masculine - share * n)[has_object] / n.sum())
        counts["ours"] += is_covered(stats.clustered_share_interval(share, error, int(has_object.sum())), truth)
        weights = rng.multinomial(TRIPLETS, np.full(TRIPLETS, 1 / TRIPLETS), size=RESAMPLES)
        sums = weights @ np.stack([masculine, n], axis=1)
        resampled = sums[sums[:, 1] > 0]
        counts["resampled"] += is_covered(np.quantile(resampled[:, 0] / resampled[:, 1], [0.025, 0.975]), truth)
        counts["occurrences"] += is_covered(stats.wilson_interval(int(masculine.sum()), int(n.sum())), truth)
    return counts


def means(rng, studies: int, triplets: int, seeds: int, between: float, within: float) -> dict:
    """Return how often each way covers the mean of skewed values, deviating ``between`` and ``within`` triplets."""
    counts = {"ours": 0, "resampled twice": 0}
    for _ in range(studies):
        triplet_effects = between * (rng.exponential(size=triplets) - 1)
        values = triplet_effects[:, None] + within * (rng.exponential(size=(triplets, seeds)) - 1)
        counts["ours"] += is_covered(stats.mean_interval(values.mean(axis=1))[1:3], 0)
        rows = rng.integers(triplets, size=(RESAMPLES, triplets, 1))
        columns = rng.integers(seeds, size=(RESAMPLES, triplets, seeds))
        counts["resampled twice"] += is_covered(np.quantile(values[rows, columns].mean(axis=(1, 2)), [0.025, 0.975]), 0)
    return counts


def tests(rng, studies: int, triplets: int, kinds: int, crowd: int) -> dict:
    """Return how often each way rejects, with equal distributions in a triplet and ``crowd`` objects of a kind."""
    n_rejected = {"permuted": 0, "plain": 0}
    for _ in range(studies):
        probabilities = rng.dirichlet(np.full(kinds, 0.5), size=triplets)
        counts = crowd * np.stack([[rng.multinomial(3, p) for p in probabilities] for _ in range(3)])
        table = counts.sum(axis=1)
        n_rejected["permuted"] += stats.permuted_chi_square(counts, 399, seed=rng) < 0.05
        n_rejected["plain"] += chi2_contingency(table[:, table.sum(axis=0) > 0], correction=False).pvalue < 0.05
    return n_rejected


def cards(rng, studies: int, n: int, metrics: int, correlation: float, over: str) -> dict:
    """Return how often a gender is named for ``n`` triplets or datasets, with correlated metrics without a gap."""
    independent, shared = rng.normal(size=(studies, n, metrics)), rng.normal(size=(studies, n, 1))
    values = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * independent
    mean, half = values.mean(axis=1), t.ppf(0.975, n - 1) * values.std(axis=1, ddof=1) / np.sqrt(n)
    p = ttest_1samp(values, 0, axis=1).pvalue
    gap, percent = (
        {name: mean.ravel(), f"{ends}ci_low": (mean - half).ravel(), f"{ends}ci_high": (mean + half).ravel()}
        for name, ends in (("gap", ""), ("relative_gap", "relative_gap_"))
    )
    table = pd.DataFrame(gap | percent).assign(
        model="A", dataset=np.repeat(np.arange(studies).astype(str), metrics), unit="1", sample="triplets",
        metric=np.tile([f"metric {k}" for k in range(metrics)], studies), n_cases=n, n_datasets=n, n_cells=n,
        n_masculine=0, n_feminine=0,
        p_holm=np.concatenate([stats.adjust(study) for study in p]),
    )  # fmt: skip
    if over == "triplets":
        findings = paper.answers.measured.findings(table.assign(note=""))
    else:
        tables_by_dataset = table.rename(columns={"p_holm": "relative_gap_p_holm"}).groupby("dataset", sort=False)
        findings = [paper.answers.direction.findings(rows)[0] for _, rows in tables_by_dataset]
    return {
        "card": sum(finding.is_significant for finding in findings),
        "intervals counted": int((np.abs(mean) > half).any(axis=1).sum()),
    }


# Name -> (function that simulates studies, its settings).
SIMULATIONS = {
    **{
        f"score {truth:g}, {n} occurrences by {crowd}": (
            scores,
            {"truth": truth, "expected": n, "crowd": crowd, "clump": 0.3},
        )
        for truth in (0.5, 0.8, 0.95)
        for n, crowd in ((12, 1), (30, 1), (80, 1), (80, 4))
    },
    **{
        f"mean, {t} triplets x {s} seeds, {b} and {w}": (means, {"triplets": t, "seeds": s, "between": b, "within": w})
        for t, s in ((12, 5), (40, 2), (40, 5), (150, 5))
        for b, w in ((0.02, 0.1), (0.1, 0.1))
    },
    **{
        f"no difference, {t} triplets, by {crowd}": (tests, {"triplets": t, "kinds": 6, "crowd": crowd})
        for t in (20, 60)
        for crowd in (1, 4)
    },
    **{
        f"no gap, {n} {over}, {metrics} metrics alike by {alike:g}": (
            cards,
            {"n": n, "metrics": metrics, "correlation": alike, "over": over},
        )
        for n, metrics, over in ((40, 11, "triplets"), (40, 7, "triplets"), (5, 8, "datasets"), (8, 8, "datasets"))
        for alike in (0.0, 0.5, 0.8)
    },
}


def simulate(name: str, studies: int) -> dict[str, float]:
    """Return the share of studies in which each way covers the truth, rejects or names a gender."""
    draw, settings = SIMULATIONS[name]
    rng = np.random.default_rng(list(SIMULATIONS).index(name))
    return {way: count / studies for way, count in draw(rng, studies, **settings).items()}


def main() -> None:
    for name, way, share in run_simulations(__doc__, SIMULATIONS, simulate, "in %", studies=2000):
        print(f"{name:<44} {way:<18} {100 * share:5.1f}", flush=True)


if __name__ == "__main__":
    main()
