"""Compare the half-widths that a plan predicts with those of studies, from known variances and from small pilots.

Run: ``python benchmarks/coverage_precision.py [--studies 2000]``. Each row draws entire studies of one design and
computes the interval of the tables. It prints, in points, the mean half-width and its predictions, with their ratios to
the mean: from the true variances, and the average over a quarter as many small pilots.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.papers import paired, paradox
from biaslab.papers.paired.analysis import means
from biaslab.papers.paradox.estimands import headlines
from biaslab.stats import Design, design_from_pilot

SHARES: dict[str, Callable] = {
    "even": lambda rng, n: np.full(n, 0.5),
    "U-shaped": lambda rng, n: rng.beta(0.7, 0.9, n),
    "around even": lambda rng, n: rng.beta(6, 7, n),
    "rare": lambda rng, n: rng.beta(1, 12, n),
}
NO_PEOPLE = pd.DataFrame({"cell": [], "image_id": [], "judged": []})


def cells_of(count: np.ndarray, n: int, coefficient, stratum="") -> pd.DataFrame:
    """Return the cells of counts by cluster and template."""
    k, j = np.indices(count.shape).reshape(2, -1)
    cells = {"cluster": k.astype(str), "template": j.astype(str), "count": count.ravel(), "stratum": stratum}
    return pd.DataFrame(cells).assign(source="generated", n=n, coefficient=coefficient)


class Averages:
    """Average gender over professions, in hundredths: Student's t."""

    def __init__(self, clusters: int, images: int, kind: str):
        self.kind, share = kind, SHARES[kind](np.random.default_rng(0), 1_000_000)
        self.known = Design(
            clusters, 1, images, 200, group=float(share.var()), seed=float((share * (1 - share)).mean())
        )

    def drawn(self, rng, clusters: int, images: int) -> np.ndarray:
        return rng.binomial(images, SHARES[self.kind](rng, clusters))

    def width(self, rng) -> float:
        count = self.drawn(rng, self.known.clusters, self.known.images)
        interval = stats.mean_interval(200 * count / self.known.images - 100)
        return (interval.ci_high - interval.ci_low) / 2

    def pilot(self, rng) -> Design:
        return design_from_pilot(cells_of(self.drawn(rng, 10, 6)[:, None], 6, 20), NO_PEOPLE, clusters_random=True)


class Deviations(Averages):
    """Bias-corrected mean deviation from an even split, in hundredths: bias-aware interval."""

    def __init__(self, clusters: int, images: int, kind: str):
        super().__init__(clusters, images, kind)
        deviation = np.abs(SHARES[kind](np.random.default_rng(0), 1_000_000) - 0.5)
        options = {"group": float(deviation.var()), "share": 0.5 + float(deviation.mean()), "is_absolute": True}
        self.known = replace(self.known, reach=100, **options)

    def width(self, rng) -> float:
        count = self.drawn(rng, self.known.clusters, self.known.images)
        interval = stats.mean_mad(np.column_stack([count, self.known.images - count]))
        return 50 * (interval.ci_high - interval.ci_low)

    def pilot(self, rng) -> Design:
        count = self.drawn(rng, 10, 6)
        cells = cells_of(count[:, None], 6, np.where(count < 3, -10, 10))
        return design_from_pilot(cells, NO_PEOPLE, clusters_random=True, is_absolute=True)


class Groups:
    """Share for custom prompts, the mean over groups or one group, generalizing to new images of these prompts."""

    def __init__(self, groups: int, prompts: int, images: int, kind: str):
        rng = np.random.default_rng(5)
        self.kind, share = kind, SHARES[kind](rng, groups)[:, None] + np.zeros((groups, prompts))
        # Wording changes shares by up to ten points.
        self.share = np.clip(share + (rng.uniform(-0.1, 0.1, share.shape) if prompts > 1 else 0), 0, 1)
        by_group = self.share.mean(axis=1)
        seed = float((by_group * (1 - by_group)).mean())
        self.known = Design(groups, prompts, images, 100, False, seed=seed, share=float(by_group.mean()))

    def width(self, rng) -> float:
        d = self.known
        count, n = rng.binomial(d.images, self.share).sum(axis=1), d.prompts * d.images
        if d.clusters == 1:
            return float(50 * np.subtract(*stats.wilson_interval(count[0], n)[::-1]))
        interval = stats.strata_mean(count, np.full(d.clusters, n))
        return 50 * (interval.ci_high - interval.ci_low)

    def pilot(self, rng) -> Design:
        count = rng.binomial(5, self.share)
        return design_from_pilot(cells_of(count, 5, 100 / count.size), NO_PEOPLE, clusters_random=False)


class Singles:
    """The overall Stereotype Score with one person per image: two lists with added variances (Welch)."""

    def __init__(self, per_list: int, images: int):
        share = self.shares(np.random.default_rng(0), 500_000)
        group, seed = float(share.var(axis=1).mean()), float((share * (1 - share)).mean())
        self.known = Design(2 * per_list, 1, images, 200, lists=2, group=group, seed=seed)

    def shares(self, rng, n: int) -> np.ndarray:
        return np.clip(rng.normal([[0.7], [0.35]], 0.25, (2, n)), 0, 1)

    def width(self, rng) -> float:
        n, per_list = self.known.images, self.known.clusters // 2
        count = rng.binomial(n, self.shares(rng, per_list)).ravel()
        rows = pd.DataFrame({"stereotype": np.repeat(["female", "male"], per_list), "n": n})
        rows = rows.assign(percent_female=100 * count / n, identity=np.arange(len(rows)).astype(str))
        rows = rows.assign(model="m", aspect="occupation", setting="single", occupation=rows["identity"])
        printed = pd.DataFrame(columns=["model", "aspect", "setting", "stereotype", "quantity", "value"])
        table = paired.stereotype_score(rows, pd.DataFrame(), printed, confidence=0.95)
        row = table.set_index("stereotype").loc["overall"]
        return (row["ci_high"] - row["ci_low"]) / 2

    def pilot(self, rng) -> Design:
        count = rng.binomial(3, self.shares(rng, 5)).reshape(-1, 1)
        cells = cells_of(count, 3, np.repeat([20, -20], 5), np.repeat(["female", "male"], 5))
        return design_from_pilot(cells, NO_PEOPLE, clusters_random=True)


class Pairs:
    """The overall score of two crossed lists, with images of each pair; the two people are equal or independent."""

    def __init__(self, per_list: int, images: int, as_one: bool):
        self.kind, self.as_one, self.size = "as one" if as_one else "apart", as_one, (per_list, images)
        row_effect, column_effect = np.random.default_rng(0).normal(0, 0.2, (2, 1_000_000))
        share = np.clip(0.6 + row_effect + column_effect * as_one, 0, 1)
        people = 1 + as_one
        # If people are equal, both contribute the same, and an identity contributes its partners' effects as well.
        group, seed = share.var() / people * people**2, people * (share * (1 - share)).mean()
        n = per_list * images
        self.known = Design(2 * per_list, 1, n, 200, lists=2, group=float(group), seed=float(seed))

    def drawn(self, rng, n: int, images: int) -> list[np.ndarray]:
        """Return whether people match the stereotype: (list, other list, images), for each list."""
        row, column = rng.normal(0, 0.2, (2, n))
        if self.as_one:
            return [rng.random((n, n, images)) < np.clip(0.6 + row[:, None] + column, 0, 1)[..., None]] * 2
        shares = np.clip(0.6 + row, 0, 1)[:, None, None], np.clip(0.6 + column, 0, 1)[None, :, None]
        return [rng.random((n, n, images)) < share for share in shares]

    def width(self, rng) -> float:
        fits, n = self.drawn(rng, *self.size), self.size[0]
        means_of = fits[0].mean(axis=(1, 2)), fits[1].mean(axis=(0, 2))
        female_part, male_part = fits[0] - means_of[0][:, None, None], fits[1] - means_of[1][:, None]
        female_part, male_part = (100 * side / fits[0].size for side in (female_part, male_part))
        identity_parts = [100 * (m - m.mean()) / n for m in means_of]
        rows, columns = identity_parts[0] + male_part.sum(axis=(1, 2)), identity_parts[1] + female_part.sum(axis=(0, 2))
        error = stats.crossed_error(rows, columns, (female_part + male_part).sum(axis=2))
        interval = means.t_mean(1.0, *error, 0.95)
        return (interval.ci_high - interval.ci_low) / 2

    def pilot(self, rng) -> Design:
        n, images = 5, 2
        fits = self.drawn(rng, n, images)
        i, j, _ = np.indices(fits[0].shape).reshape(3, -1)
        judged = np.concatenate([fits[0].ravel(), ~fits[1].ravel()]).astype(float)
        people = pd.DataFrame({"cell": np.concatenate([i, n + j]), "judged": judged})
        people["image_id"] = np.tile(np.arange(fits[0].size), 2)
        count = people.groupby("cell")["judged"].sum().to_numpy().astype(int)[:, None]
        cells = cells_of(count, n * images, np.repeat([20, -20], n), np.repeat(["female", "male"], n))
        return design_from_pilot(cells, people, clusters_random=True)


class Amplifications:
    """Signed amplification over occupations and four prompts: a bootstrap of both, 200 replicates."""

    kind, sizes = "four prompts", (60, 8)

    def __init__(self, occupations: int):
        self.occupations = occupations
        training, generated = self.shares(np.random.default_rng(0), 200_000)
        change = np.sign(training - 0.5) * (generated.mean(axis=1) - training)
        # Training images and prompts contribute to the variance of each occupation.
        group = change.var() + (training * (1 - training)).mean() / self.sizes[0]
        seed = (generated * (1 - generated)).mean()
        self.known = Design(occupations, 4, self.sizes[1], 100, group=float(group), seed=float(seed))

    def shares(self, rng, n: int) -> tuple[np.ndarray, np.ndarray]:
        training = np.clip(0.5 + rng.choice([-1, 1], n) * rng.uniform(0.1, 0.45, n), 0, 1)
        return training, np.clip(training[:, None] + rng.normal(0, 0.15, (n, 1)) + rng.normal(0, 0.08, (n, 4)), 0, 1)

    def drawn(self, rng, n: int, sizes: tuple[int, int]) -> pd.DataFrame:
        training, generated = self.shares(rng, n)
        rows = pd.DataFrame({"occupation": np.arange(n).astype(str), "source": "training", "prompt": "captions"})
        rows = rows.assign(n=sizes[0], percent_female=100 * rng.binomial(sizes[0], training) / sizes[0])
        generated_rows = [
            rows.assign(source="generated", prompt=str(j + 1), n=sizes[1],
                        percent_female=100 * rng.binomial(sizes[1], generated[:, j]) / sizes[1])
            for j in range(4)
        ]  # fmt: skip
        return pd.concat([rows, *generated_rows]).assign(model="m", approach="naive")

    def width(self, rng) -> float:
        shares = self.drawn(rng, self.occupations, self.sizes)
        table = paradox.amplification(shares, seed=1, replicates=200, confidence=0.95)
        row = table[(table["definition"] == "signed") & (table["prompt"] == "mean")].iloc[0]
        return (row["ci_high"] - row["ci_low"]) / 2

    def pilot(self, rng) -> Design:
        shares = self.drawn(rng, 62, (20, 3))
        no_amplification = pd.DataFrame(
            columns=[
                "definition",
                "model",
                "approach",
                "prompt",
                "amplification_corrected",
                "amplification",
            ]
        )
        names = ["model", "approach", "source", "occupation", "prompt", "image_id", "judged"]
        no_annotations = pd.DataFrame(columns=names)
        headline = list(headlines(shares, no_amplification, no_annotations))[1]
        return design_from_pilot(headline.cells, headline.people, clusters_random=True, is_absolute=True)


LEANS, SIZES = ("U-shaped", "around even"), ((6, 1, 10), (6, 4, 10), (1, 1, 40))
ROWS = [
    *(kind(k, 9, shares) for kind in (Averages, Deviations) for k in (10, 83) for shares in LEANS),
    *(Groups(*size, shares) for size in SIZES for shares in ("even", "U-shaped", "rare")),
    *(Singles(n, 3) for n in (10, 20)),
    *(Pairs(n, 2, as_one) for n in (10, 20) for as_one in (False, True)),
    Amplifications(62),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    for row in ROWS:
        rng, d = np.random.default_rng(1), row.known
        n = studies // 10 if isinstance(row, Amplifications) else studies
        mean_width = np.nanmean([row.width(rng) for _ in range(n)])
        sizes = {"clusters": d.clusters, "prompts": d.prompts, "images": d.images}
        pilot_width = np.mean([replace(row.pilot(rng), **sizes).half_width() for _ in range(n // 4)])
        design = f"{d.clusters} x {d.prompts} x {d.images} {getattr(row, 'kind', '')}"
        ways = {"known": d.half_width(), "pilot": pilot_width}
        text = "  ".join(f"{name} {value:5.2f} ({value / mean_width:.2f})" for name, value in ways.items())
        print(f"{type(row).__name__:15}{design:26} found {mean_width:5.2f}  {text}", flush=True)


if __name__ == "__main__":
    main()
