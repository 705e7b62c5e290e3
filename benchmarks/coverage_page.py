"""Simulate how often a report's page claims a difference without one, and the error rates of its headlines.

Run: ``python benchmarks/coverage_page.py [--studies 2000] [--replicates 400] [--mixes 4000] [--jobs 2]``.

Each of the ``studies`` draws the measured tables of two equal and fair models: generated people like training images,
half women in pairs and professions, equal attributes, similarities without a gap, scenes with equal accuracy. It then
computes the analyses and answers of a report's main cards, and the adjustment over the page. The script prints, in % of
the studies, how often a page claims any difference, without and with the adjustment.

Each of the ``mixes`` draws 14 headlines with 20 units: 7 with one t test, 7 with eight t tests each (Holm). None or six
of them have effects, in families in four of the eight groups. All tests of a page share a factor with random signs. The
script prints for the adjustment over the page, and for its predecessor, Holm over all headlines, in %: pages with any
claim, the false discovery rate over headlines, the mean over selected headlines of an error inside (a false group is
named), true headlines that are claimed, and true groups that are named. ``tests/stats/test_stats_coverage.py`` is a
short version.
"""

import argparse
import os
import time
from collections import Counter
from multiprocessing import Pool

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp

from biaslab import stats
from biaslab.analyses import synthesis
from biaslab.papers import dalleval, findings, paired, paradox, triplets
from biaslab.schema import tables

MODELS = "A", "B"
ESTIMANDS = [*paired.ESTIMANDS, *dalleval.ESTIMANDS, *triplets.ESTIMANDS, *paradox.ESTIMANDS]
OCCUPATIONS, PROFESSIONS, SCENES, TRIPLETS = 40, 20, 100, 40
# Metrics by space as in `triplets_similarity`; within one triplet they are correlated.
METRICS = {"prompt": ["t"], "denoising": ["z0"], "image": ["ssim", "resnet", "clip", "dino", "split_product"]}
ATTRIBUTES = 8


def percent_female(rng) -> pd.DataFrame:
    """Return ``paradox_percent_female``: training and generated images with the same shares and numbers."""
    rows = []
    for i in range(OCCUPATIONS):
        p = rng.beta(0.7, 0.9)
        for model in MODELS:
            identity = {"model": model, "approach": "naive", "occupation": f"o{i:02}", "n": 12}
            sides = [("training", "captions"), *(("generated", str(k)) for k in range(1, 5))]
            for source, prompt in sides:
                share = 100 * rng.binomial(12, p) / 12
                rows.append(identity | {"source": source, "prompt": prompt, "percent_female": share})
    return tables.make_table(rows, "paradox_percent_female")


def people(rng) -> pd.DataFrame:
    """Return ``paired_percent_female``: one person and two, each a woman or a man by chance."""
    rows = []
    for model in MODELS:
        for setting, n in (("single", 3), ("paired", 10)):
            for stereotype in ("female", "male"):
                for i in range(10):
                    row = {"model": model, "aspect": "occupation", "setting": setting, "n": n}
                    share = 100 * rng.binomial(n, 0.5) / n
                    name = f"{stereotype}{i}"
                    row |= {"identity": name, "occupation": name, "stereotype": stereotype}
                    rows.append(row | {"percent_female": share})
    return tables.make_table(rows, "paired_percent_female")


def genders(rng) -> pd.DataFrame:
    """Return ``dalleval_average_gender``: nine images of each profession, of women and men by chance."""
    rows = [
        {"model": model, "profession": f"p{i:02}", "value": 2 * rng.binomial(9, 0.5) / 9 - 1, "n": 9}
        for model in MODELS
        for i in range(PROFESSIONS)
    ]
    return tables.make_table(rows, "dalleval_average_gender")


def presence(rng) -> pd.DataFrame:
    """Return ``dalleval_attribute_presence``: each attribute is equally frequent for women and men."""
    rates = rng.beta(1, 4, size=(PROFESSIONS, ATTRIBUTES))
    rows = [
        {"model": model, "prompt": prompt, "profession": f"p{i:02}", "attribute": f"a{k}",
         "share": rng.binomial(9, rates[i, k]) / 9, "n": 9}
        for model in MODELS
        for prompt in ("person", "woman", "man")
        for i in range(PROFESSIONS)
        for k in range(ATTRIBUTES)
    ]  # fmt: skip
    return tables.make_table(rows, "dalleval_attribute_presence")


def verdicts(rng) -> pd.DataFrame:
    """Return ``dalleval_skill_verdicts`` of scenes, 60% of which are correct for each model."""
    rows = []
    for model in MODELS:
        for i in range(SCENES):
            right = "yes" if rng.random() < 0.6 else "no"
            row = {"model": model, "image_id": f"object-{i}/0", "rule": "paper", "skill": "object", "n": 1}
            row |= {"text": f"scene {i}", "object": "dog", "correct": right, "objects_correct": right}
            rows.append(row | {"rest_correct": right, "status": "correct" if right == "yes" else "nothing found",
                               "chosen": "yes"})  # fmt: skip
    return tables.make_table(rows, "dalleval_skill_verdicts")


def similarity(rng) -> pd.DataFrame:
    """Return ``triplets_similarity``: neutral is equally similar to both genders, with correlated metrics."""
    rows = []
    for model in MODELS:
        shared = rng.normal(0, 0.05, size=(TRIPLETS, 2))
        for space, metrics in METRICS.items():
            for metric in metrics:
                values = 0.7 + 0.7 * shared + rng.normal(0, 0.05, size=shared.shape)
                for pair, column in zip(("neutral-feminine", "neutral-masculine"), values.T, strict=True):
                    for case, value in enumerate(column):
                        row = {"model": model, "dataset": "D", "space": space, "metric": metric, "pair": pair}
                        row |= {"case": f"t{case}", "value": value, "n": 1, "unit": "", "higher_is_closer": 1}
                        rows.append(row | {"sample": "triplets"})
    return tables.make_table(rows, "triplets_similarity")


def page(rng, replicates: int = 400, models_shown: tuple[str, ...] = MODELS) -> list[dict]:
    """Return the records of the main answers of one study's page, as in notebooks.

    Cards other than that of the models' differences are limited to ``models_shown``.
    """

    def of_models(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["model"].isin(models_shown)]

    draws = {"seed": int(rng.integers(2**31)), "replicates": replicates, "confidence": 0.95}
    level = {"confidence": 0.95}
    empty = {name: tables.check(pd.DataFrame(columns=tables.schema(name).names), name) for name in NONE}
    women, people_table, averages = percent_female(rng), people(rng), genders(rng)
    presences, scenes, similarities = presence(rng), verdicts(rng), similarity(rng)

    printed = empty["paradox_printed_amplification"]
    amplification = paradox.amplification(of_models(women), empty["paradox_caption_pairs"], printed, **draws)
    printed = empty["paired_printed_value"]
    scores = paired.stereotype_score(of_models(people_table), empty["paired_pair_images"], printed, **level)
    averages = dalleval.average_gender(averages, **level)
    tone_counts = empty["dalleval_skin_tone_counts"]
    judges = pd.DataFrame(JUDGES)
    mads = dalleval.mad(of_models(averages), tone_counts, empty["dalleval_printed_bias"], judges, **level)
    by_prompt = dalleval.attribute_prompt_difference(presences)
    printed = empty["dalleval_printed_attributes"]
    attributes = dalleval.attribute_mean_difference(of_models(presences), of_models(by_prompt), printed, **draws)
    gap = triplets.disparity_gap(of_models(similarities), **level)
    sources = {
        "paired_percent_female": people_table,
        "dalleval_average_gender": averages,
        "dalleval_skin_tone_counts": tone_counts,
        "dalleval_skill_verdicts": scenes,
        "dalleval_attribute_prompt_difference": by_prompt,
        "triplets_similarity": similarities,
        "paradox_occupation_amplification": paradox.occupation_amplification(women, **level),
    }
    units = synthesis.units(ESTIMANDS, sources)
    differences = synthesis.model_differences(units, **level)
    answers = [
        paradox.answers.baseline.findings(paradox.baseline(amplification), **level),
        paradox.answers.definitions.findings(paradox.overall(amplification), **level),
        paired.answers.overall.findings(scores, **level),
        dalleval.answers.gender_deviation.findings(mads, **level),
        dalleval.answers.attributes_together.findings(attributes, **level),
        triplets.answers.measured.findings(gap.assign(note=""), **level),
        synthesis.answers.differences.findings(synthesis.by_pair(differences, **level), **level),
    ]
    return [finding.as_record() | {"main": True} for card_findings in answers for finding in card_findings]


# Empty tables of the models.
NONE = [
    "paradox_caption_pairs", "paradox_printed_amplification", "paired_pair_images", "paired_printed_value",
    "dalleval_skin_tone_counts", "dalleval_printed_bias", "dalleval_printed_attributes",
]  # fmt: skip
# A judge of gender without errors, measured on 200 images per gender.
JUDGES = [
    {"model": model, "judge": "VQA", "quantity": "gender", "measure": measure, "value": 100.0, "n": 200}
    for model in MODELS
    for measure in ("sensitivity", "specificity")
]


def claims(job: tuple) -> dict[str, set[str]]:
    """Return the questions with a significant answer on a study's page, by ``alone`` and ``adjusted``."""
    seed, *options = job
    records = page(np.random.default_rng([29, seed]), *options)
    ways = {"alone": records, "adjusted": findings.adjust_across_report(records)[0]}
    return {way: {r["question"] for r in rows if r["is_significant"]} for way, rows in ways.items()}


HEADLINES, GROUPS, UNITS, EFFECTS = 14, 8, 20, 6
ALPHA = 0.05


def mixed(rng, effects: int, shared_variance: float, size: float) -> tuple[list[dict], list[np.ndarray]]:
    """Return the records of a page of t tests, and for each headline the tests with an effect of ``size`` (SD).

    The first ``effects`` headlines have effects. ``shared_variance`` is the share of variance (0–1) of a common factor.
    """
    # Single tests and families alternate.
    tests = [GROUPS if i % 2 else 1 for i in range(HEADLINES)]
    truths = [np.zeros(n, dtype=bool) for n in tests]
    for has_effect in truths[:effects]:
        has_effect[: max(len(has_effect) // 2, 1)] = True
    factor = rng.normal(size=(UNITS, 1)) * rng.choice([-1, 1], size=sum(tests))
    values = np.sqrt(shared_variance) * factor + np.sqrt(1 - shared_variance) * rng.normal(size=factor.shape)
    p = ttest_1samp(values + size * np.concatenate(truths), 0, axis=0).pvalue
    records = []
    for i, p_values in enumerate(np.split(p, np.cumsum(tests)[:-1])):
        p_values = stats.adjust(p_values)
        groups = tuple(findings.GroupTest(p_value, 1, str(k)) for k, p_value in enumerate(p_values))
        verdict = {"not_significant": "None.", "p": min(p_values), "alpha": ALPHA, "tests": groups, "n": UNITS}
        record = findings.Finding(f"Headline {i}?", "{up} differ.", **verdict).as_record()
        records.append(record | {"main": True})
    return records, truths


def by_holm(records: list[dict]) -> list[dict]:
    """Return the records adjusted by Holm over all headlines, with groups at the level of their family."""
    page = stats.adjust([record["p"] for record in records])
    return [
        r if p < ALPHA else r | {"is_significant": False, "significant_texts": []}
        for r, p in zip(records, page, strict=True)
    ]


def errors(job: tuple) -> dict[str, list[float]]:
    """Return the error rates and power of a mixed page of a seed, by adjustment."""
    seed, *options = job
    records, truths = mixed(np.random.default_rng([31, seed]), *options)
    ways = {"page": findings.adjust_across_report(records)[0], "Holm": by_holm(records)}
    rates = {}
    for way, page_records in ways.items():
        claimed = [
            (has_effect, [int(k) for k in r["significant_texts"]])
            for r, has_effect in zip(page_records, truths, strict=True)
            if r["is_significant"]
        ]
        is_false = [not has_effect.any() for has_effect, _ in claimed]
        has_error = [not has_effect[rows].all() for has_effect, rows in claimed]
        n_right = sum(has_effect[rows].sum() for has_effect, rows in claimed)
        n_true = sum(has_effect.sum() for has_effect in truths)
        rates[way] = [
            float(bool(claimed)),
            float(np.mean(is_false)) if claimed else 0.0,
            float(np.mean(has_error)) if claimed else 0.0,
            (len(claimed) - sum(is_false)) / max(options[0], 1),
            n_right / max(n_true, 1),
        ]
    return rates


# Number of headlines with effects, shared variance of tests, effect (SD).
MIXES = [(effects, alike, 0.9) for effects in (0, EFFECTS) for alike in (0.0, 0.5, 0.9)] + [(EFFECTS, 0.5, 0.6)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--mixes", type=int, default=4000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    start = time.perf_counter()
    with Pool(args.jobs) as pool:
        studies = [(seed, args.replicates) for seed in range(args.studies)]
        claimed = pool.map(claims, studies, chunksize=10)
        mixes = {mix: pool.map(errors, [(s, *mix) for s in range(args.mixes)], chunksize=50) for mix in MIXES}
    print(f"{args.studies:,} pages of fair models; in %, those that claim a difference")
    for way in ("alone", "adjusted") if claimed else ():
        share = 100 * np.mean([bool(page[way]) for page in claimed])
        print(f"{way:<9} {share:5.1f}")
        for question, count in Counter(q for page in claimed for q in page[way]).most_common():
            print(f"          {100 * count / args.studies:5.1f}  {question}")
    print(f"{args.mixes:,} mixed pages; claims, false headlines, errors inside, true headlines, true groups (%)")
    for (effects, shared_variance, size), pages in mixes.items() if args.mixes else ():
        for way in ("page", "Holm"):
            shares = " ".join(f"{100 * share:6.1f}" for share in np.mean([page[way] for page in pages], axis=0))
            print(f"{effects} with effects of {size} SD, {shared_variance:.0%} shared, {way}: {shares}")
    print(f"({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
