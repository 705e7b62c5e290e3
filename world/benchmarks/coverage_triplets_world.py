"""Draw whole studies of the embedded world of triplets and see what their tables say of what was planted.

Run: ``python world/benchmarks/coverage_triplets_world.py [--studies 200] [--triplets 60]``; some minutes. Objects are
those of the scenes, so nothing but chance and the analysis stands between a study and the truth. It prints:

- ``default``, where objects lean: how often 95 % intervals of bias scores hold the true ones, of objects that are
  expected 20 times or more; the correlation of scores with the true ones; how often objects of neutral images are more
  like those of masculine ones, as the world has it;
- ``off``, where none does: how often the permutation within triplets rejects at 5 %, and in how many studies an object
  survives Holm's adjustment.
"""

import argparse
import time

import numpy as np
import pandas as pd

from biaslab.papers import triplets
from biaslab_world import triplets as world

SEEDS, EXPECTED = 2, 20
NONE = triplets.printed.printed_chi_square()[:0]


def study(seed: int, n: int, skew: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the images, objects and expected counts of a study of ``n`` triplets."""
    asked, i = [], 0
    while len(asked) < n:
        said, who = world.draw(seed, i, skew)
        asked += [said] if who == "person" else []
        i += 1
    members = {"neutral": "person", "feminine": "woman", "masculine": "man"}
    images, objects, prompts = [], [], []
    for t, said in enumerate(asked):
        for member, who in members.items():
            text = world.write(said, who)
            prompts.append((f"{t}-{member}", text, member))
            for k in range(SEEDS):
                scene = world.build_scene(world.read(text), np.random.default_rng([seed, t, k]), skew)
                name = f"{t}-{member}/{k}"
                images.append(("world", "depictions", str(t), k, member, name))
                shown = [*map(world.name_of, scene.things), *scene.people[0].attributes]
                objects += [(name, thing) for thing in shown]
    columns = ["model", "dataset", "triplet_id", "seed", "prompt_gender", "image_id"]
    found = pd.DataFrame(objects, columns=["image_id", "object"])
    found = found.groupby(["image_id", "object"], sort=False).size().rename("count").reset_index()
    prompts = pd.DataFrame(prompts, columns=["prompt_id", "text", "prompt_gender"])
    expected = world.expected(prompts, skew).merge(prompts, on="prompt_id")
    truth = expected.groupby(["object", "prompt_gender"])["expected"].mean().reset_index()
    truth = truth.assign(model="world", dataset="depictions")
    return pd.DataFrame(images, columns=columns), found, truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--triplets", type=int, default=60)
    given = parser.parse_args()
    print(f"{given.studies:,} studies of {given.triplets} triplets, {SEEDS} seeds")
    for skew in world.SKEWS:
        start, held, ranked, closer, rejected, surviving = time.perf_counter(), [], [], [], [], []
        for number in range(given.studies):
            images, objects, truth = study(1_000 + number, given.triplets, skew)
            counts = triplets.cases.object_counts(images, objects)
            scores = triplets.bias_score(counts, truth, min_count=1, replicates=999)
            wide = truth.pivot(index="object", columns="prompt_gender", values="expected")
            often = (wide["feminine"] + wide["masculine"]) * given.triplets * SEEDS >= EXPECTED
            some = scores[scores["object"].map(often)]
            held += list((some["ci_low"] <= some["true_score"]) & (some["true_score"] <= some["ci_high"]))
            ranked.append(some["bias_score"].corr(some["true_score"]))
            surviving.append((scores["p_holm"] < 0.05).any())
            tests = triplets.chi_square(counts, NONE, replicates=999, seed=number)
            rejected += list(tests.loc[tests["pair"] == "feminine-masculine", "p_permutation"] < 0.05)
            alike = triplets.cases.object_similarity(images, objects)
            closer.append(triplets.co_occurrence(alike)["gap"].iloc[0] > 0)
        # Without a lean all true scores are one, and there is nothing to correlate.
        with_truth = f"r {np.mean(ranked):.3f} (least {min(ranked):.3f})" if np.isfinite(ranked).all() else "no r"
        print(
            f"{skew:<8} intervals hold {100 * np.mean(held):5.1f} % of {len(held):,}; {with_truth}; neutral "
            f"nearer to masculine {100 * np.mean(closer):5.1f} %; "
            f"permutation rejects {100 * np.mean(rejected):5.1f} %; "
            f"an object survives Holm in {100 * np.mean(surviving):5.1f} %   ({time.perf_counter() - start:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
