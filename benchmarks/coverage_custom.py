"""Simulate what intervals of shares by group cover, and what tests of them reject, on prompts of one's own.

Run: ``python benchmarks/coverage_custom.py [--studies 2000]``. Each row draws whole studies of groups whose shares are
known and prints, in % of the studies, how often the interval holds the truth (at 95 %) and the test rejects what is so
(at 5 %), of ours and of a simpler way: all images pooled, or Student's t over groups.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from biaslab import stats
from biaslab.papers import custom

SHARES: dict[str, Callable] = {
    "even": lambda rng, n: np.full(n, 0.5),
    "rare": lambda rng, n: np.full(n, 0.05),
    "spread": lambda rng, n: rng.uniform(0, 1, n),
    "U-shaped": lambda rng, n: rng.beta(0.5, 0.5, n),
}


def means(rng, studies, *, kind: str, groups: int, images: int) -> Iterator[dict]:
    """Yield whether limits of the mean over groups hold it; of each group there are 1 to ``images`` images."""
    for _ in range(studies):
        share = SHARES[kind](rng, groups)
        n = rng.integers(1, images + 1, groups) if images > 5 else np.full(groups, images)
        count = rng.binomial(n, share)
        found, truth = stats.strata_mean(count, n), share.mean()
        pooled = stats.wilson_interval(count.sum(), n.sum())
        t = scipy_stats.t.interval(0.95, groups - 1, (count / n).mean(), max(scipy_stats.sem(count / n), 1e-12))
        yield {
            "strata": found.ci_low - 1e-12 <= truth <= found.ci_high + 1e-12,
            "pooled": pooled.low <= truth <= pooled.high,
            "t over groups": t[0] <= truth <= t[1],
            "half-width": 100 * (found.ci_high - found.ci_low) / 2,
        }


def compared(rng, studies, *, groups: int, prompts: int, images: int, moved: float = 0.0) -> Iterator[dict]:
    """Yield whether the difference of two models on the same prompts is covered, and told where it is ``moved``."""
    for study in range(studies):
        share = rng.beta(0.6, 0.6, (groups, prompts)).clip(0.02, 0.98 - moved)
        rows = []
        for model, by in (("a", 0.0), ("b", moved)):
            female = rng.random((groups, prompts, images)) < (share + by)[..., None]
            g, p, k = np.indices(female.shape).reshape(3, -1)
            rows.append(pd.DataFrame({"model": model, "group": g, "prompt": p, "k": k, "female": female.ravel()}))
        people = pd.concat(rows).astype({"group": str})
        people["prompt"] = people["group"] + "-" + people["prompt"].astype(str)
        gender = np.where(people["female"], "female", "male")
        table = custom.differences(people.assign(gender=gender, outcome="judged"), seed=study, replicates=1000)
        whole = table[table["group"] == "all"].iloc[0]
        yield {
            "covered": whole["ci_low"] <= 100 * moved <= whole["ci_high"],
            "rejected": whole["p"] < 0.05,
            "in any group": (table.loc[table["group"] != "all", "p_holm"] < 0.05).any(),
            "half-width": (whole["ci_high"] - whole["ci_low"]) / 2,
        }


def distances(rng, studies, *, kind: str, groups: int, images: int, away: float) -> Iterator[dict]:
    """Yield whether the mean distance from a benchmark is covered, and told where groups lie ``away`` from it."""
    for _ in range(studies):
        center = SHARES[kind](rng, groups).clip(0.05, 0.95)
        share = np.clip(center + away * rng.choice([-1, 1], groups), 0, 1)
        count = rng.binomial(images, share)
        truth = np.abs(share - center).mean()
        found = stats.mean_deviation(count, np.full(groups, images), center)
        if not np.isfinite(found.p):
            continue
        yield {
            "covered": found.ci_low - 1e-12 <= truth <= found.ci_high + 1e-12,
            "rejected": found.p < 0.05,
            "half-width": 100 * (found.ci_high - found.ci_low) / 2,
        }


def corrections(rng, studies, *, people: int, rated: int, share: float, lean: float, slips: float) -> Iterator[dict]:
    """Yield whether the share with the judge's errors taken off is covered, and the share as judged.

    Raters know ``rated`` of the people, at random. The judge calls a part ``lean`` of women male, errs on ``slips`` of
    all besides, and leaves one in twenty open.
    """
    for _ in range(studies):
        truth = np.where(rng.random(people) < share, "female", "male")
        said = np.where((truth == "female") & (rng.random(people) < lean), "male", truth)
        wrong = rng.random(people) < slips
        said = np.where(wrong, np.where(said == "female", "male", "female"), said)
        said = np.where(rng.random(people) < 0.05, "unsure", said)
        known = np.where(np.arange(people) < rated, truth, "")
        both = {"endpoint:eye": said, "raters": known}
        rows = [
            pd.DataFrame({"judge": judge, "gender": gender, "image_id": np.arange(people).astype(str)})
            for judge, gender in both.items()
        ]
        judges = pd.concat(rows).assign(model="m", group="g", position=1)
        judges["outcome"] = np.where(judges["gender"].isin(["female", "male"]), "judged", "unrated")
        row = custom.corrected(judges).set_index("group").loc["all"]
        plain = stats.wilson_interval((said == "female").sum(), (said != "unsure").sum())
        if not np.isfinite(row["percent_corrected"]):
            continue
        yield {
            "corrected": row["corrected_low"] <= 100 * share <= row["corrected_high"],
            "as judged": plain.low <= share <= plain.high,
            "half-width": (row["corrected_high"] - row["corrected_low"]) / 2,
        }


ROWS = [
    *(
        (means, {"kind": kind, "groups": g, "images": n})
        for kind in SHARES
        for g, n in ((3, 40), (8, 3), (20, 1), (20, 40))
    ),
    (compared, {"groups": 3, "prompts": 4, "images": 4}),
    (compared, {"groups": 10, "prompts": 2, "images": 6}),
    (compared, {"groups": 10, "prompts": 2, "images": 6, "moved": 0.15}),
    *(
        (distances, {"kind": kind, "groups": 12, "images": 20, "away": away})
        for kind in ("even", "spread")
        for away in (0.0, 0.2)
    ),
    *(
        (corrections, {"people": 240, "rated": rated, "share": 0.6, "lean": lean, "slips": 0.03})
        for rated in (60, 120)
        for lean in (0.0, 0.2, 0.4)
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    given = parser.parse_args()
    for simulate, how in ROWS:
        found = pd.DataFrame(simulate(np.random.default_rng(1), given.studies, **how)).astype(float)
        numbers = "  ".join(f"{name} {found[name].mean() * (1 if name == 'half-width' else 100):.1f}" for name in found)
        print(f"{simulate.__name__:10} {' '.join(f'{k}={v}' for k, v in how.items()):45} {numbers}", flush=True)


if __name__ == "__main__":
    main()
