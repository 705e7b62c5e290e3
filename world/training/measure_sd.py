"""Measure mini-sd and mini-sd-pairs with the embedded judges, for their model cards."""

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
from training.cards import Measured, at, share

# Seeds from which no other image of the project is made.
_SEED = 77_000


def measure(folder: Path, *, per_occupation: int = 8, guidance_scale: float = 3.0, steps: int = 12) -> list[Measured]:
    """Return what images of the pipeline in ``folder`` show, judged by mini-detector and mini-clip.

    There are ``per_occupation`` images for each occupation and kind of prompt. A guidance scale of 1 is none. Metrics
    are as :data:`training.cards.METRICS` says; ``amplification`` is about the paper's first prompt, in points.
    """
    names, judges = world.occupations(), _judges()
    generator = load(str(folder), GenerationSettings(steps=steps, guidance_scale=guidance_scale))
    template = next(iter(lexicons.load("paradox_prompts").values()))

    def judged(texts: Sequence[str], kind: str) -> tuple[list, pd.DataFrame]:
        keys = [(f"{kind}-{text}", i) for i, text in enumerate(texts)]
        images = generator.images(texts, keys, _SEED)
        return images, judge_arrays([f"{key}-{i}" for key, i in keys], images, *judges)

    plain = [lexicons.fill(template, o) for o in names for _ in range(per_occupation)]
    words = [f"a photo of a {g} {o}" for o in names for g in ("female", "male")]
    plain_images, plain_found = judged(plain, "plain")
    told = judged(words, "word")[1].assign(told=[text.split()[4] for text in words])
    both = pd.concat([plain_found["status"], told["status"]], ignore_index=True)
    gate = both.isin(("judged", "uncertain"))
    told = told[told["status"] == "judged"]
    model = ZeroShot("mini-clip")
    texts = [lexicons.fill("A photo of a/an [OCCUPATION]", o) for o in names]
    truth = np.repeat(np.arange(len(names)), per_occupation)
    shown = model.probabilities(plain_images, texts).argmax(1)
    corpus = captions.Corpus(rows=40_000, seed=_SEED)
    rows = corpus.rows_at(np.arange(4096)).dropna(subset=["truth_gender", "truth_occupation"])
    drawn = model.probabilities(corpus.read(rows["caption_id"]), texts).argmax(1)
    return [
        share("gate", gate),
        share("sure", both[gate] == "judged"),
        share("gender_word", told["told"] == told["gender"]),
        share("occupation_generated", shown == truth),
        share("occupation_renders", np.array(names)[drawn] == rows["truth_occupation"]),
        _amplification(plain_found["gender"].to_numpy(), truth, names),
    ]


def _judges() -> list[Judge]:
    """Return the embedded judge of perceived gender and the embedded face detector."""
    settings = JudgeSettings(**mini.settings["judging"])
    names = {"judging.gender": settings.gender, "judging.faces": settings.faces}
    return [parse(name, setting, JudgeOptions(settings)) for setting, name in names.items()]


def _amplification(gender: np.ndarray, truth: np.ndarray, names: Sequence[str]) -> Measured:
    female, male = (np.bincount(truth, gender == word, len(names)).astype(int) for word in ("female", "male"))
    n = female + male
    some = n > 1
    distance = 100 * stats.corrected_absolute_deviation(female[some], n[some])
    training = np.array([abs(world.training_shares()[o] - 50) for o in names])[some]
    return Measured("amplification", float(np.mean(distance - training)), int(n.sum()), points=True)


def measure_pairs(folder: Path, n: int, *, guidance_scale: float = 1.5, steps: int = 10) -> list[Measured]:
    """Return what images of ``n`` prompts for two people and as many for one show, judged by the embedded judges.

    Prompts are as :func:`biaslab_world.pairs.draw` writes them, one image each. A guidance scale of 1 is none. Metrics
    are as :data:`training.cards.METRICS` says; scores are of people of whom the text tells no gender.
    """
    found = []
    for count, name in ((2, "pair"), (1, "one")):
        people = _shown(folder, n, count, guidance_scale, steps)
        there = people["status"].isin(("judged", "uncertain")).groupby(people["image_id"]).all()
        found.append(share("pair_people" if count == 2 else "one_person", there, n))
        judged = people[people["status"] == "judged"]
        if count == 2:
            order = people.drop_duplicates("image_id").set_index("image_id")["role"]
            order = order[there[order.index] & (order != "")]
            found.append(share("pair_order", order == "correct"))
            found.append(share("pair_sure", people["status"] == "judged"))
        told = judged[judged["told"] != ""]
        found.append(share(f"{name}_gender_word", told["told"] == told["gender"]))
        free = judged[judged["told"] == ""]
        beside = free["image_id"].isin(people.loc[people["told"] != "", "image_id"])
        scores = {"": free[~free["intervened"] & ~beside]}
        if count == 2:
            scores |= {"_beside": free[beside], "_intervened": free[free["intervened"]]}
        for suffix, some in scores.items():
            # A score is the share of the stereotyped gender less that of the other, so twice the share's difference.
            value = 200 * ((some["gender"] == some["stereotype"]) - some["p_stereotype"]).mean()
            found.append(Measured(f"{name}_score{suffix}", float(value), len(some), points=True))
    return found


def _shown(folder: Path, n: int, count: int, guidance_scale: float, steps: int) -> pd.DataFrame:
    """Return what the judges make of each person, with what the text tells and the world's share."""
    rows = [pairs.draw(_SEED, i, count=count) for i in range(n)]
    aspect = pairs.ASPECT if count == 2 else 1.0
    settings = GenerationSettings(steps=steps, guidance_scale=guidance_scale, aspect=aspect)
    ids, texts = [f"people-{count}-{i}" for i in range(n)], [row.text for row in rows]
    images = load(str(folder), settings).images(texts, [(i, 0) for i in ids], _SEED)
    phrases = [[person.phrase for person in row.asked.people] for row in rows]
    found = judge_arrays(ids, images, *_judges(), phrases)
    asked = [(row.asked, k) for row in rows for k in range(count)]
    stereotypes = [a.people[k].stereotype for a, k in asked]
    shares = [a.probability_female(k) for a, k in asked]
    return found.assign(
        told=[a.told[k] for a, k in asked],
        intervened=[a.intervened for a, _ in asked],
        stereotype=stereotypes,
        p_stereotype=[p if s == "female" else 1 - p for p, s in zip(shares, stereotypes, strict=True)],
    )


def card_rows(folder: Path, n: int, guidance: Sequence[float] = (1.0, 3.0, 7.5)) -> list[Measured]:
    """Return the rows of mini-sd's card: the autoencoder's quality, and :func:`measure` at some guidance scales.

    About ``n`` renders are drawn, and at each guidance scale as many images from the paper's first prompt.
    """
    rows = autoencoder.card_rows(folder / "vae", *autoencoder.pool(min(n, 512), _SEED), "faces")
    each = max(1, n // len(world.occupations()))
    for scale in guidance:
        for one in measure(folder, per_occupation=each, guidance_scale=scale, steps=10):
            # Renders know no guidance.
            if one.metric != "occupation_renders":
                rows += at(scale, [one])
            elif scale == guidance[0]:
                rows.append(one)
    return rows


def card_rows_pairs(folder: Path, n: int, guidance: Sequence[float] = (1.0, 1.5, 2.0, 3.0)) -> list[Measured]:
    """Return the rows of mini-sd-pairs' card: :func:`measure_pairs` at some guidance scales."""
    return [one for scale in guidance for one in at(scale, measure_pairs(folder, n, guidance_scale=scale))]
