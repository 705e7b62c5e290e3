"""Simulate what intervals cover of a service that refuses and rewrites prompts, and of changes by condition.

Run: ``python benchmarks/coverage_prompts.py [simulation ...] [--studies 2000]``; minutes. Each study draws the replies
of a fake service with known odds, or the genders of people in pairs of images under two conditions, and reads them as a
run does. It prints in % of the intervals (95 %) how often they hold the truth, of groups and of all together, and in %
of the studies how often p (at 5 %) rejects what is so. The intervals of all groups together are Wilson's of a binomial
count; their exact coverage with these odds and sizes is 94.2 to 95.8 %.
"""

import numpy as np
import pandas as pd
from _simulations import asked

from biaslab.analyses import custom
from biaslab.prompts.rewritten import KINDS, added_kinds

STUDIES = 2000
ADDED = {"gender": "female", "skin tone": "Hispanic", "age": "young"}


def service(rng, *, groups: int, requests: int, refused: float, black: float, rewritten: float, adds: tuple):
    """Return ``custom_service_images`` of a service with the same odds in every group."""
    rows = []
    for group in range(groups):
        for k in range(requests):
            prompt, drawn = f"a photo of person {group}", rng.random()
            status = "refused" if drawn < refused else "black" if drawn < refused + black else "delivered"
            words = [ADDED[kind] for kind, odds in zip(KINDS, adds, strict=True) if rng.random() < odds]
            revised = " ".join([prompt, "smiling", *words]) if rng.random() < rewritten else prompt
            revised = "" if status == "refused" else revised
            rows.append((f"g{group}", prompt, f"{group}/{k}", status, revised, ", ".join(added_kinds(prompt, revised))))
    columns = ["group", "prompt", "image_id", "status", "revised_prompt", "adds"]
    return pd.DataFrame(rows, columns=columns).assign(model="m")


def services(rng, studies: int, **odds) -> dict[str, tuple[float, int]]:
    """Return by event how many intervals there are, and how many of them hold the odds."""
    truth = {"refused": odds["refused"], "black": odds["black"], "rewritten": odds["rewritten"]}
    truth |= {"withheld": odds["refused"] + odds["black"]}
    truth |= {f"adds {kind}": share for kind, share in zip(KINDS, odds["adds"], strict=True)}
    held: dict[str, list[bool]] = {}
    for study in range(studies):
        table = custom.service_changes(service(rng, **odds), seed=study, replicates=99)
        for row in table[table["event"].isin(truth)].itertuples():
            where = "all" if row.group == "all" else "groups"
            held.setdefault(f"{row.event}, {where}", []).append(row.ci_low <= 100 * truth[row.event] <= row.ci_high)
            if row.group == "all":
                held.setdefault("equal groups rejected", []).append(row.p <= 0.05)
    return {name: (float(np.mean(found)), len(found)) for name, found in held.items()}


def changes(rng, studies: int, *, groups: int, images: int, share: float, moved: float, alike: float) -> dict:
    """Return how often the intervals of changes hold ``moved``.

    A group's share varies about ``share``. ``alike`` is the chance that an image keeps what its noise decides; of
    others the genders are drawn anew.
    """
    held: dict[str, list[bool]] = {}
    for study in range(studies):
        center = np.clip(share + rng.uniform(-0.2, 0.2, groups), 0.02, 0.98 - moved)[:, None]
        noise, other = rng.random((2, groups, images))
        kept = rng.random((groups, images)) < alike
        female = np.stack([noise < center, np.where(kept, noise, other) < center + moved])
        g, k = np.indices((groups, images)).reshape(2, -1)
        ids = [f"{one}/{index}" for one, index in zip(g, k, strict=True)]
        rows = pd.DataFrame({"model": "m", "group": [f"g{one}" for one in g], "position": 1, "status": "judged"})
        before, after = (rows.assign(gender=np.where(one.ravel(), "female", "male")) for one in female)
        after = after.assign(condition="fair", other="neutral", prompt="p", image_id=ids)
        benchmark = pd.DataFrame({"group": rows["group"].unique(), "percent_female": 50.0})
        table = custom.conditions(before.assign(image_id=ids), after, benchmark, seed=study, replicates=999)
        for row in table.itertuples():
            where = "all" if row.group == "all" else "groups"
            held.setdefault(f"covered, {where}", []).append(row.ci_low <= 100 * moved <= row.ci_high)
            if not moved:
                held.setdefault(f"rejected, {where}", []).append(row.p <= 0.05)
    return {name: (float(np.mean(found)), len(found)) for name, found in held.items()}


_USUAL = {"refused": 0.1, "black": 0.05, "rewritten": 0.6, "adds": (0.5, 0.3, 0.2)}
SIMULATIONS = {
    "service of 4 groups, 200 requests each": (services, {"groups": 4, "requests": 200, **_USUAL}),
    "service of 10 groups, 100 requests each": (services, {"groups": 10, "requests": 100, **_USUAL}),
    "service that rewrites all": (services, {"groups": 4, "requests": 100, **_USUAL, "rewritten": 0.95}),
    "conditions, 4 groups of 20, no change": (
        changes, {"groups": 4, "images": 20, "share": 0.5, "moved": 0, "alike": 0.5},
    ),
    "conditions, 4 groups of 20, 20 points": (
        changes, {"groups": 4, "images": 20, "share": 0.3, "moved": 0.2, "alike": 0.5},
    ),
    "conditions, 20 groups of 10, 30 points, alike": (
        changes, {"groups": 20, "images": 10, "share": 0.3, "moved": 0.3, "alike": 0.9},
    ),
    "conditions, 10 groups of 50, independent": (
        changes, {"groups": 10, "images": 50, "share": 0.4, "moved": 0.1, "alike": 0.0},
    ),
}  # fmt: skip


def simulate(name: str, studies: int) -> dict:
    """Return what the intervals of a simulation hold."""
    function, options = SIMULATIONS[name]
    return function(np.random.default_rng([len(name), studies]), studies, **options)


if __name__ == "__main__":
    for name, way, (share, n) in asked(__doc__, SIMULATIONS, simulate, "% of intervals", studies=STUDIES):
        print(f"{name:50} {way:28} {100 * share:5.1f}  (of {n:,})")
