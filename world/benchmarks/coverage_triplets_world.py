"""Simulate entire studies of the synthetic world of triplets and compare their tables with the planted bias.

Run: ``python world/benchmarks/coverage_triplets_world.py [--studies 200] [--triplets 60]``; takes minutes. Objects are
those of the scenes, so only chance and the analysis separate a study from the ground truth. The script prints:

- ``default``, with planted bias: coverage of 95% intervals of bias scores, for objects with an expected count of 20 or
  more; the correlation of scores with the true ones; the share of studies in which objects of neutral images are more
  similar to those of masculine ones, as in the world;
- ``off``, without bias: the rejection rate at 5% of the permutation within triplets, and the share of studies with an
  object that is significant after Holm's adjustment.
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
    neutral_prompts, i = [], 0
    while len(neutral_prompts) < n:
        prompt, person = world.draw(seed, i, skew)
        neutral_prompts += [prompt] if person == "person" else []
        i += 1
    members = {"neutral": "person", "feminine": "woman", "masculine": "man"}
    images, objects, prompts = [], [], []
    for t, prompt in enumerate(neutral_prompts):
        for member, person in members.items():
            text = world.write(prompt, person)
            prompts.append((f"{t}-{member}", text, member))
            for k in range(SEEDS):
                scene = world.build_scene(world.parse(text), np.random.default_rng([seed, t, k]), skew)
                name = f"{t}-{member}/{k}"
                images.append(("world", "depictions", str(t), k, member, name))
                objects_shown = [*map(world.name_of, scene.things), *scene.people[0].attributes]
                objects += [(name, thing) for thing in objects_shown]
    columns = ["model", "dataset", "triplet_id", "seed", "prompt_gender", "image_id"]
    counts = pd.DataFrame(objects, columns=["image_id", "object"])
    counts = counts.groupby(["image_id", "object"], sort=False).size().rename("count").reset_index()
    prompts = pd.DataFrame(prompts, columns=["prompt_id", "text", "prompt_gender"])
    expected = world.expected(prompts, skew).merge(prompts, on="prompt_id")
    truth = expected.groupby(["object", "prompt_gender"])["expected"].mean().reset_index()
    truth = truth.assign(model="world", dataset="depictions")
    return pd.DataFrame(images, columns=columns), counts, truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--triplets", type=int, default=60)
    arguments = parser.parse_args()
    print(f"{arguments.studies:,} studies of {arguments.triplets} triplets, {SEEDS} seeds")
    for skew in world.SKEWS:
        start, covered, correlations, closer, rejected, surviving = time.perf_counter(), [], [], [], [], []
        for number in range(arguments.studies):
            images, objects, truth = study(1_000 + number, arguments.triplets, skew)
            counts = triplets.cases.object_counts(images, objects)
            scores = triplets.bias_score(counts, truth, min_count=1, replicates=999)
            wide = truth.pivot(index="object", columns="prompt_gender", values="expected")
            is_frequent = (wide["feminine"] + wide["masculine"]) * arguments.triplets * SEEDS >= EXPECTED
            frequent = scores[scores["object"].map(is_frequent)]
            covered += list(frequent["true_score"].between(frequent["ci_low"], frequent["ci_high"]))
            correlations.append(frequent["bias_score"].corr(frequent["true_score"]))
            surviving.append((scores["p_holm"] < 0.05).any())
            tests = triplets.chi_square(counts, NONE, replicates=999, seed=number)
            rejected += list(tests.loc[tests["pair"] == "feminine-masculine", "p_permutation"] < 0.05)
            similarity = triplets.cases.object_similarity(images, objects)
            closer.append(triplets.co_occurrence(similarity)["gap"].iloc[0] > 0)
        # Without bias all true scores are equal, and the correlation is undefined.
        mean_r = f"r {np.mean(correlations):.3f} (minimum {min(correlations):.3f})"
        with_truth = mean_r if np.isfinite(correlations).all() else "no r"
        print(
            f"{skew:<8} interval coverage {100 * np.mean(covered):5.1f}% of {len(covered):,}; {with_truth}; neutral "
            f"closer to masculine {100 * np.mean(closer):5.1f}%; "
            f"permutation rejects {100 * np.mean(rejected):5.1f}%; "
            f"an object is significant after Holm in {100 * np.mean(surviving):5.1f}%   "
            f"({time.perf_counter() - start:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
