"""Measure mini-sd and mini-sd-pairs with the synthetic world's judges, for their model cards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab import lexicons, stats
from biaslab.generation.generator import load
from biaslab.generation.settings import GenerationSettings
from biaslab.judges.judge import Judge, JudgeOptions
from biaslab.judges.people import judge_arrays
from biaslab.judges.registry import parse
from biaslab.judges.settings import JudgeSettings
from biaslab.judges.zero_shot import ZeroShot
from biaslab_world import captions, pairs, world
from biaslab_world.brought import mini
from training import autoencoder
from training.cards import Measured, label_guidance, share

# Seed that no other image of the project uses.
_SEED = 77_000


def measure(folder: Path, *, per_occupation: int = 8, guidance_scale: float = 3.0, steps: int = 12) -> list[Measured]:
    """Return metrics of images of the pipeline in ``folder``, judged by mini-detector and mini-clip.

    The pipeline generates ``per_occupation`` images of each occupation for the paper's first prompt. A guidance scale
    of 1 disables guidance. :data:`training.cards.METRICS` explains the metrics; ``amplification`` is in points.
    """
    names, judges = world.occupations(), _judges()
    generator = load(str(folder), GenerationSettings(steps=steps, guidance_scale=guidance_scale))
    template = next(iter(lexicons.load("paradox_prompts").values()))

    def judge_images(texts: Sequence[str], kind: str) -> tuple[list, pd.DataFrame]:
        keys = [(f"{kind}-{text}", i) for i, text in enumerate(texts)]
        images = generator.images(texts, keys, _SEED)
        return images, judge_arrays([f"{key}-{i}" for key, i in keys], images, *judges)

    plain = [lexicons.fill(template, o) for o in names for _ in range(per_occupation)]
    words = [f"a photo of a {g} {o}" for o in names for g in ("female", "male")]
    plain_images, plain_judgements = judge_images(plain, "plain")
    gendered = judge_images(words, "word")[1].assign(told=[text.split()[4] for text in words])
    statuses = pd.concat([plain_judgements["status"], gendered["status"]], ignore_index=True)
    passed = statuses.isin(("judged", "uncertain"))
    gendered = gendered[gendered["status"] == "judged"]
    model = ZeroShot("mini-clip")
    texts = [lexicons.fill("A photo of a/an [OCCUPATION]", o) for o in names]
    truth = np.repeat(np.arange(len(names)), per_occupation)
    predicted = model.probabilities(plain_images, texts).argmax(1)
    corpus = captions.Corpus(rows=40_000, seed=_SEED)
    rows = corpus.rows_at(np.arange(4096)).dropna(subset=["truth_gender", "truth_occupation"])
    predicted_renders = model.probabilities(corpus.read(rows["caption_id"]), texts).argmax(1)
    return [
        share("included", passed),
        share("sure", statuses[passed] == "judged"),
        share("gender_word", gendered["told"] == gendered["gender"]),
        share("occupation_generated", predicted == truth),
        share("occupation_renders", np.array(names)[predicted_renders] == rows["truth_occupation"]),
        _amplification(plain_judgements["gender"].to_numpy(), truth, names),
    ]


def _judges() -> list[Judge]:
    """Return the synthetic world's judge of perceived gender and its face detector."""
    settings = JudgeSettings(**mini.settings["judging"])
    names = {"judging.gender": settings.gender, "judging.faces": settings.faces}
    return [parse(name, setting, JudgeOptions(settings)) for setting, name in names.items()]


def _amplification(gender: np.ndarray, truth: np.ndarray, names: Sequence[str]) -> Measured:
    female, male = (np.bincount(truth, gender == word, len(names)).astype(int) for word in ("female", "male"))
    n = female + male
    has_pairs = n > 1
    distance = 100 * stats.corrected_absolute_deviation(female[has_pairs], n[has_pairs])
    training = np.array([abs(world.training_shares()[o] - 50) for o in names])[has_pairs]
    return Measured("amplification", float(np.mean(distance - training)), int(n.sum()), points=True)


def measure_pairs(folder: Path, n: int, *, guidance_scale: float = 1.5, steps: int = 10) -> list[Measured]:
    """Return metrics of images of ``n`` prompts for two people and ``n`` for one, judged by the world's judges.

    Prompts come from :func:`biaslab_world.pairs.draw`, with one image each. A guidance scale of 1 disables guidance.
    :data:`training.cards.METRICS` explains the metrics; scores are about people without a gender in the text.
    """
    rows = []
    for count, name in ((2, "pair"), (1, "one")):
        people = _judge_people(folder, n, count, guidance_scale, steps)
        has_count = people["status"].isin(("judged", "uncertain")).groupby(people["image_id"]).all()
        rows.append(share("pair_people" if count == 2 else "one_person", has_count, n))
        sure = people[people["status"] == "judged"]
        if count == 2:
            order = people.drop_duplicates("image_id").set_index("image_id")["role"]
            order = order[has_count[order.index] & (order != "")]
            rows.append(share("pair_order", order == "correct"))
            rows.append(share("pair_sure", people["status"] == "judged"))
        gendered = sure[sure["told"] != ""]
        rows.append(share(f"{name}_gender_word", gendered["told"] == gendered["gender"]))
        ungendered = sure[sure["told"] == ""]
        next_to_gendered = ungendered["image_id"].isin(people.loc[people["told"] != "", "image_id"])
        scores = {"": ungendered[~ungendered["intervened"] & ~next_to_gendered]}
        if count == 2:
            scores["_next_to_gendered"] = ungendered[next_to_gendered]
            scores["_intervened"] = ungendered[ungendered["intervened"]]
        for suffix, scored in scores.items():
            # A score is the share of the stereotyped gender minus that of the other: twice the share's difference.
            value = 200 * ((scored["gender"] == scored["stereotype"]) - scored["p_stereotype"]).mean()
            rows.append(Measured(f"{name}_score{suffix}", float(value), len(scored), points=True))
    return rows


def _judge_people(folder: Path, n: int, count: int, guidance_scale: float, steps: int) -> pd.DataFrame:
    """Return the judgement of each person, with the gender in the text and the world's share."""
    rows = [pairs.draw(_SEED, i, count=count) for i in range(n)]
    aspect = pairs.ASPECT if count == 2 else 1.0
    settings = GenerationSettings(steps=steps, guidance_scale=guidance_scale, aspect=aspect)
    ids, texts = [f"people-{count}-{i}" for i in range(n)], [row.text for row in rows]
    images = load(str(folder), settings).images(texts, [(i, 0) for i in ids], _SEED)
    phrases = [[person.phrase for person in row.prompt.people] for row in rows]
    judgements = judge_arrays(ids, images, *_judges(), phrases)
    persons = [(row.prompt, k) for row in rows for k in range(count)]
    stereotypes = [a.people[k].stereotype for a, k in persons]
    shares = [a.probability_female(k) for a, k in persons]
    return judgements.assign(
        told=[a.genders[k] for a, k in persons],
        intervened=[a.intervened for a, _ in persons],
        stereotype=stereotypes,
        p_stereotype=[p if s == "female" else 1 - p for p, s in zip(shares, stereotypes, strict=True)],
    )


def card_rows(folder: Path, n: int, guidance: Sequence[float] = (1.0, 3.0, 7.5)) -> list[Measured]:
    """Return the rows of mini-sd's card: the autoencoder's quality, and :func:`measure` at several guidance scales.

    Each guidance scale has about ``n`` images of the paper's first prompt.
    """
    rows = autoencoder.card_rows(folder / "vae", *autoencoder.pool(min(n, 512), _SEED), "faces")
    per_occupation = max(1, n // len(world.occupations()))
    for scale in guidance:
        for row in measure(folder, per_occupation=per_occupation, guidance_scale=scale, steps=10):
            # Renders do not depend on guidance.
            if row.metric != "occupation_renders":
                rows += label_guidance(scale, [row])
            elif scale == guidance[0]:
                rows.append(row)
    return rows


def card_rows_pairs(folder: Path, n: int, guidance: Sequence[float] = (1.0, 1.5, 2.0, 3.0)) -> list[Measured]:
    """Return the rows of mini-sd-pairs' card: :func:`measure_pairs` at several guidance scales."""
    return [row for scale in guidance for row in label_guidance(scale, measure_pairs(folder, n, guidance_scale=scale))]
