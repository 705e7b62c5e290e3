"""Simulate images that are made until intervals are narrow: what these hold when they stop, and what that takes.

Run: ``python benchmarks/coverage_until.py [--studies 2000]``. A study asks one prompt of each group and looks at all
intervals after each batch of images; it stops when half of the widest, of a group's share or of their mean, is the
target, and at twice the worst case at the latest. Printed are, in % of the studies, how often the interval holds the
truth then (at 95 %), of the group for which that is rarest and of the mean, and how often all are narrow; and images a
prompt: their mean, what 99 % of the studies stay within, and those of a fixed number, for the worst case (50 %) and
where the truth was known (normal approximation).

Of 2,000 studies at ±5 points 97.9 % hold a share of 50 % after 606 images (fixed: 385), 97.9 % one of 10 % after 259
(139), 99.8 % one of 2 % after 78 (31); of groups of 2, 10 and 50 % 96.0 %, and 95.8 % their mean, after 602.
"""

import argparse

import numpy as np
from scipy import stats as scipy_stats

from biaslab import stats

# Studies at a time, whose candidates fit in a processor's cache.
_TOGETHER = 20
ROWS = [
    *(({"shares": (share,)} | how) for share in (0.02, 0.1, 0.5) for how in ({"target": 0.05}, {"target": 0.1})),
    {"shares": (0.02, 0.1, 0.5), "target": 0.05},
    {"shares": (0.02, 0.1, 0.5), "target": 0.1},
    {"shares": (0.1, 0.3, 0.5, 0.7, 0.9), "target": 0.1},
    {"shares": (0.5,), "target": 0.1, "judged": 0.8},
]


def studies(rng, n: int, *, shares: tuple, target: float, judged: float = 1.0, batch: int = 10) -> tuple:
    """Return for each of ``n`` studies when it stopped, and which intervals held the truth then.

    ``judged`` is the part of the people who are; those who are not are no observations.
    """
    most = int(2 * fixed(0.5, target) / judged)
    people = (rng.random((n, len(shares), most)) < np.array(shares)[:, None]).astype(float)
    people[rng.random(people.shape) > judged] = np.nan
    # Of each group those judged come first, in order.
    order = np.argsort(np.isnan(people), axis=-1, kind="stable")
    rounds = np.take_along_axis(people, order, -1)
    seen = (~np.isnan(people)).cumsum(-1)
    values = np.concatenate([rounds, rounds.mean(1, keepdims=True)], 1)
    truth = np.array([*shares, np.mean(shares)])[:, None]
    low, high = stats.confidence_sequence(values, target)
    # The observations that there are after so many images: of the mean, as many as every group has.
    at = np.concatenate([seen, seen.min(1, keepdims=True)], 1) - 1
    low, high = (np.where(at < 0, end, np.take_along_axis(x, at.clip(0), -1)) for x, end in ((low, 0), (high, 1)))
    looks = np.arange(batch - 1, most, batch)
    narrow = (high - low <= 2 * target + 1e-9).all(1)[:, looks]
    stop = np.where(narrow.any(1), looks[narrow.argmax(1)], looks[-1])
    held = ((low - 1e-9 <= truth) & (truth <= high + 1e-9))[np.arange(n), :, stop]
    return stop + 1, held, narrow.any(1)


def fixed(share: float, target: float) -> int:
    """Return how many images give an interval of a share so narrow (95 %, normal approximation)."""
    return int(np.ceil(scipy_stats.norm.ppf(0.975) ** 2 * share * (1 - share) / target**2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    given = parser.parse_args()
    for how in ROWS:
        rng, parts = np.random.default_rng(1), -(-given.studies // _TOGETHER)
        found = zip(*(studies(rng, _TOGETHER, **how) for _ in range(parts)), strict=True)
        stop, held, narrow = (np.concatenate(part)[: given.studies] for part in found)
        known = max(fixed(share, how["target"]) for share in how["shares"])
        print(
            f"{' '.join(f'{k}={v}' for k, v in how.items()):48} groups {100 * held[:, :-1].mean(0).min():.1f}  "
            f"mean {100 * held[:, -1].mean():.1f}  narrow {100 * narrow.mean():.1f}  images {stop.mean():.0f}  "
            f"99 % within {np.quantile(stop, 0.99):.0f}  worst case {fixed(0.5, how['target'])}  known {known}",
            flush=True,
        )


if __name__ == "__main__":
    main()
