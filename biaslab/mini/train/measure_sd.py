"""Measure mini-sd with the embedded judges: for its model card, and over its training."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from biaslab.mini.train.loop import Number, Share

if TYPE_CHECKING:
    import pandas as pd

# Seeds from which no other image of the project is made.
_SEED = 77_000


def measure(folder: Path, *, per_occupation: int = 8, guidance_scale: float = 3.0, steps: int = 12) -> list:
    """Return what images of the pipeline in ``folder`` show, judged by mini-detector and mini-clip.

    Args:
        folder: The pipeline.
        per_occupation: Images for each occupation and kind of prompt.
        guidance_scale: Guidance; 1 is none.
        steps: Denoising steps.

    Returns:
        ``gate`` (one face, large enough), ``sure`` (a gender with a probability of 0.9 or more, of those),
        ``gender_word`` (the gender that the prompt names, of those that are sure), ``occupation_generated``
        (zero-shot, among the world's 62, of all images), ``occupation_renders`` (the same on renders), and
        ``amplification``: the mean distance from 50 of the shares perceived as female for the paper's first prompt,
        less that of the training column, in points, with the floor that so few images alone would add taken off.
    """
    from biaslab import generation, lexicons
    from biaslab.judging import judge
    from biaslab.judging.zero_shot import ZeroShot
    from biaslab.mini import captions

    names = _occupations()
    judges = judge.load(judge.JudgeSettings())
    generator = generation.load(
        str(folder), generation.GenerationSettings(steps=steps, guidance_scale=guidance_scale)
    )
    template = next(iter(lexicons.load("paradox_prompts").values()))

    def judged(texts: Sequence[str], kind: str) -> tuple[list, list[dict]]:
        keys = [(f"{kind}-{text}", i) for i, text in enumerate(texts)]
        images = generator.images(texts, keys, _SEED)
        found = judge.judge_images([k for k, _ in keys], images, judges, judge.JudgeSettings())
        return images, found.to_dict("records")

    plain = [lexicons.fill(template, o) for o in names for _ in range(per_occupation)]
    words = [f"a photo of a {g} {o}" for o in names for g in ("female", "male")]
    plain_images, plain_rows = judged(plain, "plain")
    _, word_rows = judged(words, "word")
    gate = [r["outcome"] in ("judged", "uncertain") for r in [*plain_rows, *word_rows]]
    sure = [r["outcome"] == "judged" for r in [*plain_rows, *word_rows]]
    told = [
        (r["gender"], text.split()[4])
        for r, text in zip(word_rows, words, strict=True)
        if r["outcome"] == "judged"
    ]
    model = ZeroShot("mini-clip")
    texts = [lexicons.fill("A photo of a/an [OCCUPATION]", o) for o in names]
    truth = np.repeat(np.arange(len(names)), per_occupation)
    shown = model.probabilities(plain_images, texts).argmax(1)
    corpus = captions.Corpus(rows=40_000, seed=_SEED)
    rows = corpus.rows_at(np.arange(4096)).dropna(subset=["truth_gender", "truth_occupation"])
    renders = list(corpus.images(list(rows["caption_id"])))
    drawn = model.probabilities(renders, texts).argmax(1)
    right = [names[i] == o for i, o in zip(drawn, rows["truth_occupation"], strict=True)]
    return [
        Share("gate", sum(gate), len(gate)),
        Share("sure", sum(sure), sum(gate)),
        Share("gender_word", sum(a == b for a, b in told), len(told)),
        Share("occupation_generated", int((shown == truth).sum()), len(truth)),
        Share("occupation_renders", sum(right), len(right)),
        _amplification(plain_rows, truth, names),
    ]


def _amplification(rows: list[dict], truth: np.ndarray, names: list[str]) -> Number:
    from biaslab import stats
    from biaslab.mini import world

    gender = np.array([r["gender"] for r in rows])
    n = np.array([np.isin(gender[truth == i], ("female", "male")).sum() for i in range(len(names))])
    female = np.array([(gender[truth == i] == "female").sum() for i in range(len(names))])
    some = n > 1
    distance = 100 * stats.corrected_absolute_deviation(female[some], n[some])
    training = np.array([abs(world.training_shares()[o] - 50) for o in names])[some]
    return Number("amplification", float(np.mean(distance - training)), int(n.sum()), points=True)


def measure_pairs(folder: Path, n: int, *, guidance_scale: float = 1.5, steps: int = 10) -> list:
    """Return what images of ``n`` prompts for two people and as many for one show, judged by the embedded judges.

    Args:
        folder: The pipeline.
        n: Prompts of each sort, as :func:`biaslab.mini.pairs.draw` writes them; one image each.
        guidance_scale: Guidance; 1 is none.
        steps: Denoising steps.

    Returns:
        ``pair_people`` (two faces, large enough and apart), ``pair_order`` (of those that name two differently, left
        and right as asked), ``pair_sure`` (people with a gender of probability 0.9 or more, of all asked for),
        ``pair_gender_word`` (the gender that the text tells of a person, of those that are sure), ``pair_score``,
        ``pair_score_beside`` and ``pair_score_intervened`` (Stereotype Score less the world's, in points, of people of
        whom nothing is told: where it is told of neither, beside one of whom it is, and with the sentence that gender
        does not matter); ``one_person``, ``one_gender_word`` and ``one_score`` likewise of one person alone.
    """
    found = []
    for count, name in ((2, "pair"), (1, "one")):
        people = _shown(folder, n, count, guidance_scale, steps)
        there = people["outcome"].isin(("judged", "uncertain")).groupby(people["image_id"]).all()
        found.append(Share("pair_people" if count == 2 else "one_person", int(there.sum()), n))
        judged = people[people["outcome"] == "judged"]
        if count == 2:
            order = people.drop_duplicates("image_id").set_index("image_id")["role"]
            order = order[there[order.index] & (order != "")]
            found.append(Share("pair_order", int((order == "right").sum()), len(order)))
            found.append(Share("pair_sure", len(judged), len(people)))
        told = judged[judged["told"] != ""]
        found.append(Share(f"{name}_gender_word", int((told["told"] == told["gender"]).sum()), len(told)))
        free = judged[judged["told"] == ""]
        beside = free["image_id"].isin(people.loc[people["told"] != "", "image_id"])
        plain = free[~free["intervened"] & ~beside]
        for suffix, some in (
            ("", plain),
            ("_beside", free[beside]),
            ("_intervened", free[free["intervened"]]),
        ):
            fits = some["gender"] == some["stereotype"]
            # A score is the share of the stereotyped gender less that of the other, so twice the share's difference.
            value = 200 * float((fits - some["p_stereotype"]).mean()) if len(some) else float("nan")
            if count == 2 or not suffix:
                found.append(Number(f"{name}_score{suffix}", value, len(some), points=True))
    return found


def _shown(folder: Path, n: int, count: int, guidance_scale: float, steps: int) -> pd.DataFrame:
    """Return what the judges make of each person, with what the text tells and the world's share."""
    from biaslab import generation
    from biaslab.judging import judge, people
    from biaslab.mini import pairs

    rows = [pairs.draw(_SEED, i, count=count) for i in range(n)]
    settings = generation.GenerationSettings(
        steps=steps,
        guidance_scale=guidance_scale,
        aspect=pairs.ASPECT if count == 2 else 1.0,
    )
    ids = [f"people-{count}-{i}" for i in range(n)]
    images = generation.load(str(folder), settings).images(
        [row.text for row in rows], [(i, 0) for i in ids], _SEED
    )
    how = judge.JudgeSettings()
    phrases = [[person.phrase for person in row.asked.people] for row in rows]
    found = people.judge_people_images(ids, phrases, images, judge.load(how), how)
    asked = [(row.asked, k) for row in rows for k in range(count)]
    stereotypes = [a.people[k].stereotype for a, k in asked]
    shares = [a.p_female(k) for a, k in asked]
    return found.assign(
        told=[a.told[k] for a, k in asked],
        intervened=[a.intervened for a, _ in asked],
        stereotype=stereotypes,
        p_stereotype=[p if s == "female" else 1 - p for p, s in zip(shares, stereotypes, strict=True)],
    )


def card_rows(folder: Path, n: int, guidance: Sequence[float] = (1.0, 3.0, 7.5)) -> list:
    """Return the rows of mini-sd's card: the autoencoder's quality, :func:`measure` at some guidance scales.

    Args:
        folder: The pipeline.
        n: Renders and, at each guidance scale, images from the paper's first prompt, about.
        guidance: Guidance scales.
    """
    from dataclasses import replace

    import torch
    from diffusers import AutoencoderKL

    from biaslab.mini.train import autoencoder

    vae = AutoencoderKL.from_pretrained(folder / "vae", torch_dtype=torch.float32).eval()
    drawn = autoencoder.pool(min(n, 512), _SEED)
    quality = zip(("psnr", "psnr_faces"), autoencoder.psnr(vae, *drawn), strict=True)
    rows: list = [Number(name, value, len(drawn[0]), points=True) for name, value in quality]
    each = max(1, n // len(_occupations()))
    for scale in guidance:
        found = measure(folder, per_occupation=each, guidance_scale=scale, steps=10)
        rows += [
            replace(one, metric=f"{one.metric}@{scale:g}") if one.metric != "occupation_renders" else one
            for one in found
            if one.metric != "occupation_renders" or scale == guidance[0]
        ]
    return rows


def card_rows_pairs(folder: Path, n: int, guidance: Sequence[float] = (1.0, 1.5, 2.0, 3.0)) -> list:
    """Return the rows of mini-sd-pairs' card: :func:`measure_pairs` at some guidance scales."""
    from dataclasses import replace

    return [
        replace(one, metric=f"{one.metric}@{scale:g}")
        for scale in guidance
        for one in measure_pairs(folder, n, guidance_scale=scale)
    ]


def _occupations() -> list[str]:
    from biaslab.mini import world

    return list(world.occupations())


def write_curve(snapshots: Path, file: Path, **settings) -> None:
    """Measure every pipeline below ``snapshots`` (``step-NNNNNN``) and write the curve as CSV."""
    found = [(int(p.name.split("-")[1]), measure(p, **settings)) for p in sorted(snapshots.glob("step-*"))]
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(["step", "metric", "value", "n"])
        for step, rows in found:
            writer.writerows([step, one.metric, f"{one.value:.5f}", one.n] for one in rows)
