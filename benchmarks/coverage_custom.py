"""Simulate the coverage of intervals of shares by group, and the rejections of their tests, for custom prompts.

Run: ``python benchmarks/coverage_custom.py [--studies 2000]``. Each row draws entire studies of groups with known
shares. It prints, in % of the studies, how often the interval covers the truth (at 95%) and the test rejects a true
hypothesis (at 5%), for our method and a simpler one: all images pooled, or Student's t over groups.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from biaslab import stats
from biaslab.analyses import custom

SHARES: dict[str, Callable] = {
    "even": lambda rng, n: np.full(n, 0.5),
    "rare": lambda rng, n: np.full(n, 0.05),
    "spread": lambda rng, n: rng.uniform(0, 1, n),
    "U-shaped": lambda rng, n: rng.beta(0.5, 0.5, n),
}


def means(rng, studies, *, kind: str, groups: int, images: int) -> Iterator[dict]:
    """Yield whether intervals of the mean over groups cover it; each group has 1 to ``images`` images."""
    for _ in range(studies):
        share = SHARES[kind](rng, groups)
        n = rng.integers(1, images + 1, groups) if images > 5 else np.full(groups, images)
        count = rng.binomial(n, share)
        interval, truth = stats.strata_mean(count, n), share.mean()
        pooled = stats.wilson_interval(count.sum(), n.sum())
        t = scipy_stats.t.interval(0.95, groups - 1, (count / n).mean(), max(scipy_stats.sem(count / n), 1e-12))
        yield {
            "strata": interval.ci_low - 1e-12 <= truth <= interval.ci_high + 1e-12,
            "pooled": pooled.low <= truth <= pooled.high,
            "t over groups": t[0] <= truth <= t[1],
            "half-width": 100 * (interval.ci_high - interval.ci_low) / 2,
        }


def compare_models(rng, studies, *, groups: int, prompts: int, images: int, moved: float = 0.0) -> Iterator[dict]:
    """Yield whether the difference of two models on the same prompts, ``moved``, is covered and significant."""
    for study in range(studies):
        share = rng.beta(0.6, 0.6, (groups, prompts)).clip(0.02, 0.98 - moved)
        rows = []
        for model, shift in (("a", 0.0), ("b", moved)):
            female = rng.random((groups, prompts, images)) < (share + shift)[..., None]
            g, p, k = np.indices(female.shape).reshape(3, -1)
            rows.append(pd.DataFrame({"model": model, "group": g, "prompt": p, "k": k, "female": female.ravel()}))
        people = pd.concat(rows).astype({"group": str})
        people["prompt"] = people["group"] + "-" + people["prompt"].astype(str)
        people["image_id"] = people["prompt"] + "-" + people["k"].astype(str)
        gender = np.where(people["female"], "female", "male")
        table = custom.differences(people.assign(gender=gender, status="judged"), seed=study, replicates=1000)
        overall = table[table["group"] == "all"].iloc[0]
        yield {
            "covered": overall["ci_low"] <= 100 * moved <= overall["ci_high"],
            "rejected": overall["p"] < 0.05,
            "in any group": (table.loc[table["group"] != "all", "p_holm"] < 0.05).any(),
            "half-width": (overall["ci_high"] - overall["ci_low"]) / 2,
        }


def distances(rng, studies, *, kind: str, groups: int, images: int, away: float) -> Iterator[dict]:
    """Yield whether the mean distance from a benchmark, ``away`` for each group, is covered and significant."""
    for _ in range(studies):
        center = SHARES[kind](rng, groups).clip(0.05, 0.95)
        share = np.clip(center + away * rng.choice([-1, 1], groups), 0, 1)
        count = rng.binomial(images, share)
        truth = np.abs(share - center).mean()
        estimate = stats.mean_deviation(count, np.full(groups, images), center)
        if not np.isfinite(estimate.p):
            continue
        yield {
            "covered": estimate.ci_low - 1e-12 <= truth <= estimate.ci_high + 1e-12,
            "rejected": estimate.p < 0.05,
            "half-width": 100 * (estimate.ci_high - estimate.ci_low) / 2,
        }


def farther(
    rng, studies, *, groups: int, images: int, second_images: int, away: float, towards: float
) -> Iterator[dict]:
    """Yield whether the difference of two models' distances is covered and significant.

    Shares are random if ``away`` is NaN, else at distances ``away`` and ``towards`` from the benchmark. The second
    model has ``second_images`` images per group.
    """
    for _ in range(studies):
        center = rng.choice([0.1, 0.3, 0.5, 0.6, 0.8], groups)
        moves = (away * rng.choice([-1, 1], groups), towards * rng.choice([-1, 1], groups))
        shares = [(rng.random(groups) if np.isnan(move).all() else center + move).clip(0.02, 0.98) for move in moves]
        rows = [
            pd.DataFrame(
                {"model": model, "group": np.repeat(np.arange(groups), n), "female": rng.random(groups * n)}
            ).assign(female=lambda rows, share=share, n=n: rows["female"] < np.repeat(share, n))
            for model, share, n in zip("ab", shares, (images, second_images), strict=True)
        ]
        people = pd.concat(rows, ignore_index=True).assign(status="judged", position=1, prompt="")
        people["image_id"] = people.index.astype(str)
        people["gender"] = np.where(people["female"], "female", "male")
        benchmark = pd.DataFrame({"group": np.arange(groups), "percent_female": 100 * center, "n": np.nan})
        row = custom.comparison(people, benchmark).iloc[0]
        truth = 100 * np.mean(np.abs(shares[1] - center) - np.abs(shares[0] - center))
        yield {
            "covered": row["ci_low"] - 1e-9 <= truth <= row["ci_high"] + 1e-9,
            "rejected": row["p"] < 0.05,
            "half-width": (row["ci_high"] - row["ci_low"]) / 2,
        }


def generated(rng, *, groups: int, images: int, persons: int, matching: float, share=0.5, unclear=0.1):
    """Return (groups, images, persons) arrays of a generator: female, judged, tone (1–10), error of a second judge.

    With probability ``matching``, all people of an image have the same gender, tone and error of the second judge.
    """
    shape = (groups, images, persons)
    is_matching = rng.random((groups, images, 1)) < matching

    def draw_matching(draw: Callable) -> np.ndarray:
        return np.where(is_matching, draw((groups, images, 1)), draw(shape))

    female = draw_matching(rng.random) < np.broadcast_to(share, groups)[:, None, None]
    tone = draw_matching(lambda size: rng.integers(1, 11, size))
    wrong = draw_matching(rng.random) < 0.2
    return female, rng.random(shape) >= unclear, tone, wrong


def draw_people(rng, *, model: str = "m", **options) -> pd.DataFrame:
    """Return the people of a generator as ``custom_people``."""
    female, judged, *_ = (part.ravel() for part in generated(rng, **options))
    g, i, k = np.indices((options["groups"], options["images"], options["persons"])).reshape(3, -1)
    rows = pd.DataFrame({"model": model, "group": np.char.mod("g%02d", g), "position": k + 1})
    rows["prompt"], rows["image_id"] = rows["group"], rows["group"] + "-" + i.astype(str).astype(object)
    rows["status"] = np.where(judged, "judged", "uncertain")
    rows["gender"] = np.where(judged, np.where(female, "female", "male"), "unsure")
    return rows


def _coverage(estimates: list, truth: float) -> float:
    """Return the share of intervals, such as :class:`biaslab.stats.Estimate`, that cover the truth."""
    return float(np.mean([estimate.ci_low - 1e-9 <= truth <= estimate.ci_high + 1e-9 for estimate in estimates]))


def pages(rng, studies, *, groups: int, images: int, persons: int, matching: float, share: float) -> Iterator[dict]:
    """Yield the coverage of the tables' statistics, and whether the page of a fair model claims a difference."""
    options = {"groups": groups, "images": images, "persons": persons, "matching": matching, "share": share}
    stratum = np.repeat(np.arange(groups), images)
    fewest = stats.min_units()
    for _ in range(studies):
        female, judged, tone, wrong = generated(rng, **options)
        count, n = (female & judged).sum(axis=2), judged.sum(axis=2)
        shares = [stats.clustered_share(*pair) for pair in zip(count, n, strict=True)]
        effect = stats.design_effect(count.ravel(), n.ravel(), stratum=stratum)
        mean = stats.strata_mean(count.sum(axis=1), n.sum(axis=1), effect=effect)
        p = [stats.clustered_share_test(*pair, share, effect=effect, seed=0) for pair in zip(count, n, strict=True)]
        units = (n > 0).sum(axis=1)
        image_index = np.repeat(np.arange(images), persons)
        tones = [stats.mean_interval(group.ravel(), clusters=image_index) for group in tone]
        intersections = [
            (stats.clustered_share((female & (tone < 4)).reshape(-1, persons).sum(axis=1),
                                   female.reshape(-1, persons).sum(axis=1)), 0.3),
            (stats.clustered_share((~female & (tone > 6)).reshape(-1, persons).sum(axis=1),
                                   (~female).reshape(-1, persons).sum(axis=1)), 0.4),
        ]  # fmt: skip
        agreements = [stats.clustered_share(*pair) for pair in zip((~wrong & judged).sum(axis=2), n, strict=True)]
        difference = (female ^ wrong).astype(int) - female
        judges = stats.sign_flip((difference * judged).sum(axis=2).ravel(), seed=0).p if share == 0.5 else np.nan
        error = np.sqrt(share * (1 - share) * effect / n.sum(axis=1))
        distance = stats.mean_distance(count.sum(axis=1) / n.sum(axis=1) - share, error, max(share, 1 - share))
        yield {
            "shares": _coverage(shares, share),
            "mean": _coverage([mean], share),
            "tones": _coverage(tones, 5.5),
            "intersections": np.mean([_coverage([estimate], truth) for estimate, truth in intersections]),
            "agreement": _coverage(agreements, 0.8),
            "judges differ": judges < 0.05,
            "group tests": np.mean(np.array(p) < 0.05),
            "a group is claimed": (stats.adjust(p) < 0.05).any() and units.max() >= fewest,
            "distance": _coverage([distance], 0) if np.isfinite(distance.p) else np.nan,
            "distance rejected": distance.p < 0.05 if np.isfinite(distance.p) else np.nan,
            "half-width": 50 * np.mean([estimate.ci_high - estimate.ci_low for estimate in shares]),
        }


def models(rng, studies, *, groups: int, images: int, persons: int, matching: float) -> Iterator[dict]:
    """Yield how often the difference of equal models is covered and significant, with several people per image."""
    options = {"groups": groups, "images": images, "persons": persons, "matching": matching}
    for study in range(studies):
        people = pd.concat([draw_people(rng, **options, model=name) for name in "ab"], ignore_index=True)
        table = custom.differences(people, seed=study, replicates=1000)
        group_rows, overall = table[table["group"] != "all"], table[table["group"] == "all"]
        yield {
            "covered": _coverage(list(overall.itertuples()), 0),
            "rejected": (overall["p"] < 0.05).mean(),
            "of groups covered": _coverage(list(group_rows.itertuples()), 0),
            "in any group": (group_rows["p_holm"] < 0.05).any(),
        }


def clustered(rng, studies, *, groups: int, images: int, persons: int, matching: float, **options) -> Iterator[dict]:
    """Yield the coverage of the mean distance ``away`` from a benchmark, which may be a ``sample`` of people."""
    away, sample = options.get("away", 0.0), options.get("sample", np.nan)
    for _ in range(studies):
        center = np.where(np.arange(groups) % 2, 0.5, 0.3 if np.isfinite(sample) else 0.5)
        share = center + away * rng.choice([-1, 1], groups)
        reference = rng.binomial(int(sample), center) / sample if np.isfinite(sample) else center
        design = {"groups": groups, "images": images, "persons": persons, "matching": matching}
        people = draw_people(rng, **design, share=share, unclear=0)
        benchmark = {"group": sorted(people["group"].unique()), "percent_female": 100 * reference, "n": sample}
        overall = custom.distance(people, pd.DataFrame(benchmark | {"named": "b"})).iloc[0]
        low, high = overall["distance_corrected_ci_low"], overall["distance_corrected_ci_high"]
        if not np.isfinite(low):
            continue
        yield {
            "mean difference": _coverage([overall], 100 * (share - center).mean()),
            "distance": low - 1e-9 <= 100 * np.abs(share - center).mean() <= high + 1e-9,
            "distance rejected": overall["distance_p"] < 0.05,
            "half-width": (high - low) / 2,
        }


PEOPLE = [(1, 0.0), (2, 0.0), (2, 0.5), (2, 1.0), (4, 0.0), (4, 0.5), (4, 1.0)]
"""People per image, and the probability that all of them match."""
ROWS = [
    *(
        (pages, {"groups": g, "images": n, "persons": persons, "matching": matching, "share": share})
        for g, n, share in ((20, 25, 0.5), (20, 25, 0.2), (4, 8, 0.5))
        for persons, matching in PEOPLE
    ),
    *(
        (models, {"groups": g, "images": n, "persons": persons, "matching": matching})
        for g, n in ((20, 25), (4, 8))
        for persons, matching in PEOPLE
    ),
    *(
        (clustered, {"groups": g, "images": 25, "persons": persons, "matching": matching, **more})
        for g in (12, 40)
        for persons, matching in PEOPLE
        for more in ({}, {"away": 0.2}, {"sample": 40})
    ),
    *(
        (means, {"kind": kind, "groups": g, "images": n})
        for kind in SHARES
        for g, n in ((3, 40), (8, 3), (20, 1), (20, 40))
    ),
    (compare_models, {"groups": 3, "prompts": 4, "images": 4}),
    (compare_models, {"groups": 10, "prompts": 2, "images": 6}),
    (compare_models, {"groups": 10, "prompts": 2, "images": 6, "moved": 0.15}),
    *(
        (distances, {"kind": kind, "groups": 12, "images": 20, "away": away})
        for kind in ("even", "spread")
        for away in (0.0, 0.2)
    ),
    *(
        (farther, {"groups": g, "images": n, "second_images": m, "away": away, "towards": towards})
        for g, n, m in ((4, 8, 8), (4, 20, 20), (20, 10, 10), (20, 50, 50), (40, 10, 30))
        for away, towards in ((0.0, 0.0), (0.2, 0.2), (0.0, 0.3), (np.nan, np.nan))
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("names", nargs="*", help="parts of the rows to run, such as 'pages groups=20'; all if none")
    arguments = parser.parse_args()
    for simulate, settings in ROWS:
        row = f"{simulate.__name__} {' '.join(f'{k}={v}' for k, v in settings.items())}"
        if arguments.names and not any(all(part in row for part in name.split()) for name in arguments.names):
            continue
        results = pd.DataFrame(simulate(np.random.default_rng(1), arguments.studies, **settings)).astype(float)
        scales = {name: 1 if name == "half-width" else 100 for name in results}
        numbers = "  ".join(f"{name} {results[name].mean() * scale:.1f}" for name, scale in scales.items())
        print(f"{simulate.__name__:10} {' '.join(f'{k}={v}' for k, v in settings.items()):45} {numbers}", flush=True)


if __name__ == "__main__":
    main()
