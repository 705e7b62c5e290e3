"""Measure mini-sd with the embedded judges: for its model card, and over its training."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from biaslab.mini.train._loop import Number, Share

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
        generation.GenerationSettings(str(folder), steps=steps, guidance_scale=guidance_scale)
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


def measure_pairs(folder: Path, n: int, *, guidance_scale: float = 1.5, steps: int = 10) -> list[Share]:
    """Return what images of ``n`` prompts for two people show, judged by mini-detector and mini-clip.

    Args:
        folder: The pipeline.
        n: Prompts, as :func:`biaslab.mini.pairs.draw` writes them; one image each.
        guidance_scale: Guidance; 1 is none.
        steps: Denoising steps.

    Returns:
        ``pair_people`` (two faces, large enough and apart), ``pair_order`` (of those that name two differently, left
        and right as asked), ``pair_sure`` (people with a gender of probability 0.9 or more, of all asked for), and
        ``pair_gender_word`` (the gender that the text tells of a person, of those that are sure).
    """
    from biaslab import generation
    from biaslab.judging import judge, people
    from biaslab.mini import pairs

    rows = [pairs.draw(_SEED, i) for i in range(n)]
    settings = generation.GenerationSettings(
        str(folder), steps=steps, guidance_scale=guidance_scale, aspect=pairs.ASPECT
    )
    ids = [f"pair-{i}" for i in range(n)]
    images = generation.load(settings).images([row.text for row in rows], [(i, 0) for i in ids], _SEED)
    how = judge.JudgeSettings()
    phrases = [[person.phrase for person in row.asked.people] for row in rows]
    found = people.judge_people_images(ids, phrases, images, judge.load(how), how)
    told = [gender for row in rows for gender in row.asked.told]
    judged = found["outcome"] == "judged"
    there = (judged | (found["outcome"] == "uncertain")).groupby(found["image_id"]).all()
    order = found.drop_duplicates("image_id").set_index("image_id")["role"]
    order = order[there[order.index] & (order != "")]
    follows = [a == b for a, b, sure in zip(found["gender"], told, judged, strict=True) if sure and b]
    return [
        Share("pair_people", int(there.sum()), n),
        Share("pair_order", int((order == "right").sum()), len(order)),
        Share("pair_sure", int(judged.sum()), len(found)),
        Share("pair_gender_word", sum(follows), len(follows)),
    ]


def card_rows(folder: Path, n: int, guidance: Sequence[float] = (1.0, 3.0, 7.5)) -> list:
    """Return the rows of the model card: the autoencoder's quality, :func:`measure` at some guidance scales, pairs.

    Args:
        folder: The pipeline.
        n: Renders and, at each guidance scale, images from the paper's first prompt, about.
        guidance: Guidance scales.
    """
    from dataclasses import replace

    import torch
    from diffusers import AutoencoderKL

    from biaslab.mini.train import autoencoder
    from biaslab.pipeline import Settings

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
    if not _knows_pairs(folder):
        return rows
    own = Settings().guidance_scale
    found = measure_pairs(folder, n, guidance_scale=own)
    return rows + [replace(one, metric=f"{one.metric}@{own:g}") for one in found]


def _knows_pairs(folder: Path) -> bool:
    """Return whether the pipeline's tokenizer has every word of prompts for two people."""
    from transformers import AutoTokenizer

    from biaslab.mini import pairs

    return set(pairs.vocabulary()) <= set(AutoTokenizer.from_pretrained(folder / "tokenizer").get_vocab())


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
