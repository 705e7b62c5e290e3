"""Simulate the coverage of intervals for a service that refuses and rewrites prompts, and for changes by condition.

Run: ``python benchmarks/coverage_prompts.py [simulation ...] [--studies 2000]``; takes minutes. Each study draws the
replies of a simulated service with known probabilities, or the genders of people in pairs of images under two
conditions, and analyses them like a run. It prints, in % of the intervals (95%), the coverage for groups and overall,
and in % of the studies how often p (at 5%) rejects a true hypothesis. The intervals over all groups are Wilson's for a
binomial count; their exact coverage with these probabilities and sizes is 94.2 to 95.8%.
"""

import numpy as np
import pandas as pd
from _simulations import run_simulations

from biaslab.analyses import custom
from biaslab.prompts.rewritten import KINDS, added_kinds

STUDIES = 2000
ADDED = {"gender": "female", "skin tone": "Hispanic", "age": "young"}


def service(rng, *, groups: int, requests: int, refused: float, black: float, rewritten: float, adds: tuple):
    """Return ``custom_service_images`` of a service with the same probabilities in every group."""
    rows = []
    for group in range(groups):
        for k in range(requests):
            prompt, u = f"a photo of person {group}", rng.random()
            status = "refused" if u < refused else "black" if u < refused + black else "delivered"
            words = [ADDED[kind] for kind, odds in zip(KINDS, adds, strict=True) if rng.random() < odds]
            revised = " ".join([prompt, "smiling", *words]) if rng.random() < rewritten else prompt
            revised = "" if status == "refused" else revised
            rows.append((f"g{group}", prompt, f"{group}/{k}", status, revised, ", ".join(added_kinds(prompt, revised))))
    columns = ["group", "prompt", "image_id", "status", "revised_prompt", "adds"]
    return pd.DataFrame(rows, columns=columns).assign(model="m")


def services(rng, studies: int, **odds) -> dict[str, tuple[float, int]]:
    """Return for each event the coverage of the intervals of its probability, and their number."""
    truth = {"refused": odds["refused"], "black": odds["black"], "rewritten": odds["rewritten"]}
    truth |= {"withheld": odds["refused"] + odds["black"]}
    truth |= {f"adds {kind}": share for kind, share in zip(KINDS, odds["adds"], strict=True)}
    covered: dict[str, list[bool]] = {}
    for study in range(studies):
        table = custom.service_changes(service(rng, **odds), seed=study, replicates=99)
        for row in table[table["event"].isin(truth)].itertuples():
            scope = "all" if row.group == "all" else "groups"
            covered.setdefault(f"{row.event}, {scope}", []).append(row.ci_low <= 100 * truth[row.event] <= row.ci_high)
            if row.group == "all":
                covered.setdefault("equal groups rejected", []).append(row.p <= 0.05)
    return {name: (float(np.mean(values)), len(values)) for name, values in covered.items()}


def changes(rng, studies: int, *, groups: int, images: int, share: float, shift: float, correlation: float) -> dict:
    """Return how often the intervals of changes cover ``shift``, and their number.

    A group's share varies around ``share``. ``correlation`` is the probability that the noise of an image determines
    its gender in both conditions; other genders are independent.
    """
    covered: dict[str, list[bool]] = {}
    for study in range(studies):
        center = np.clip(share + rng.uniform(-0.2, 0.2, groups), 0.02, 0.98 - shift)[:, None]
        noise, fresh_noise = rng.random((2, groups, images))
        keeps_noise = rng.random((groups, images)) < correlation
        female = np.stack([noise < center, np.where(keeps_noise, noise, fresh_noise) < center + shift])
        g, k = np.indices((groups, images)).reshape(2, -1)
        ids = [f"{index}/{number}" for index, number in zip(g, k, strict=True)]
        rows = pd.DataFrame({"model": "m", "group": [f"g{index}" for index in g], "position": 1, "status": "judged"})
        neutral, changed = (rows.assign(gender=np.where(side.ravel(), "female", "male")) for side in female)
        changed = changed.assign(condition="fair", other="neutral", prompt="p", image_id=ids)
        benchmark = pd.DataFrame({"group": rows["group"].unique(), "percent_female": 50.0})
        table = custom.conditions(neutral.assign(image_id=ids), changed, benchmark, seed=study, replicates=999)
        for row in table.itertuples():
            scope = "all" if row.group == "all" else "groups"
            covered.setdefault(f"covered, {scope}", []).append(row.ci_low <= 100 * shift <= row.ci_high)
            if not shift:
                covered.setdefault(f"rejected, {scope}", []).append(row.p <= 0.05)
    return {name: (float(np.mean(values)), len(values)) for name, values in covered.items()}


_USUAL = {"refused": 0.1, "black": 0.05, "rewritten": 0.6, "adds": (0.5, 0.3, 0.2)}
SIMULATIONS = {
    "service of 4 groups, 200 requests each": (services, {"groups": 4, "requests": 200, **_USUAL}),
    "service of 10 groups, 100 requests each": (services, {"groups": 10, "requests": 100, **_USUAL}),
    "service that rewrites all": (services, {"groups": 4, "requests": 100, **_USUAL, "rewritten": 0.95}),
    "conditions, 4 groups of 20, no change": (
        changes, {"groups": 4, "images": 20, "share": 0.5, "shift": 0, "correlation": 0.5},
    ),
    "conditions, 4 groups of 20, 20 points": (
        changes, {"groups": 4, "images": 20, "share": 0.3, "shift": 0.2, "correlation": 0.5},
    ),
    "conditions, 20 groups of 10, 30 points, alike": (
        changes, {"groups": 20, "images": 10, "share": 0.3, "shift": 0.3, "correlation": 0.9},
    ),
    "conditions, 10 groups of 50, independent": (
        changes, {"groups": 10, "images": 50, "share": 0.4, "shift": 0.1, "correlation": 0.0},
    ),
}  # fmt: skip


def simulate(name: str, studies: int) -> dict:
    """Return the coverage of the intervals of a simulation."""
    function, options = SIMULATIONS[name]
    return function(np.random.default_rng([len(name), studies]), studies, **options)


if __name__ == "__main__":
    for name, way, (share, n) in run_simulations(__doc__, SIMULATIONS, simulate, "% of intervals", studies=STUDIES):
        print(f"{name:50} {way:28} {100 * share:5.1f}  (of {n:,})")
