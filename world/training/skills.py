"""Training of mini-sd-skills: mini-sd's networks for DALL-Eval's prompts, PaintSkills' scenes and people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab.generation.generator import load
from biaslab.generation.settings import GenerationSettings
from biaslab.hub import registry
from biaslab.papers.dalleval import prompts
from biaslab_world import render, skills, social
from biaslab_world.social import GENDERED
from training import autoencoder, cards, diffusion
from training.cards import Measured, share
from training.skills_detector import draw_prompt

NAME, CARD_IMAGES = "mini-sd-skills", 300
GUIDANCE = (1.5, 3.0)
# Seed that no other image of the project uses.
_CARD_SEED = 78_000
SCENES = 0.6
"""Share of PaintSkills' scenes in the autoencoder's training data; the others are people."""
NOISIER = 0.7
"""Exponent of the noise steps, 1000 u^NOISIER, see :func:`training.diffusion.train`."""


def pool(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``n`` renders, uint8 (n, 64, 64, 3), and masks of objects and faces, bool (n, 64, 64)."""
    draw, people = np.random.default_rng([seed, 78]), prompts.social().to_dict("records")
    side = autoencoder.SIZE
    images, places = np.empty((n, side, side, 3), np.uint8), np.zeros((n, side, side), bool)
    for i in range(n):
        if draw.random() < SCENES:
            scene = skills.skill_scene(draw, draw_prompt(draw))
            scene_truth = render.truth(scene, side)
            regions = [*scene_truth.objects, *scene_truth.people]
        else:
            scene = social.social_scene(draw, people[int(draw.integers(len(people)))])
            regions = render.truth(scene, side).faces
        images[i] = render.render(scene, side)
        for region in regions:
            places[i] |= region.mask
    return images, places


def train(
    folder: Path, *, share: float = 1.0, people: int = 40_000, start_from: Path | None = None, **settings: Any
) -> dict[str, float]:
    """Train mini-sd-skills from mini-sd's weights, its autoencoder first; return quality on held-out data.

    The data are a ``share`` of PaintSkills' training scenes and ``people`` images for the social prompts; for
    everything else see :func:`training.diffusion.train_parts`. Source: DALL-Eval paper, sections 3.2 (PaintSkills),
    4.2.1 (social prompts) and Table 5 (shares of training data). Raises MissingInputError: mini-sd is not in this
    installation.
    """
    start_from = start_from or Path(registry.resolve("mini-sd", "text-to-image"))
    quality = diffusion.train_parts(
        NAME,
        folder,
        {"skills": max(1, round(share * len(prompts.skills("train")))), "social": people},
        vae={"pool": pool, "start_from": start_from / "vae", "steps": 4_000, "learning_rate": 8e-4},
        start_from=start_from,
        noisier=NOISIER,
        **{"steps": 8_000, "learning_rate": 1e-3} | settings,
    )
    cards.write(NAME, folder, card_rows, n=CARD_IMAGES)
    return quality


def card_rows(folder: Path, n: int, decoded: Path | None = None) -> list[Measured]:
    """Return the rows of the model's card: ``n`` images per skill and of people, judged by the world's judges.

    The guidance scales are 1.5 and 3, with 10 steps; the rows include the autoencoder's reconstruction. ``decoded`` is
    not used.
    """
    rows = autoencoder.card_rows(folder / "vae", *pool(500, _CARD_SEED), "faces")
    for scale in GUIDANCE:
        generator = _generator(folder, scale)
        counts = right(folder, n, _CARD_SEED, scale).itertuples()
        measured = [Measured(f"skill_{row.skill}", row.n_correct / row.n, row.n, row.n_correct) for row in counts]
        measured += _measure_people(generator, n)
        rows += cards.label_guidance(scale, measured)
    return rows


def _generator(folder: Path, scale: float):
    return load(str(folder), GenerationSettings(steps=10, guidance_scale=scale))


def right(folder: Path, n: int, seed: int, scale: float = GUIDANCE[-1]) -> pd.DataFrame:
    """Return the number of correct images of a pipeline for ``n`` test scenes per skill, by mini-skills-detector.

    Images take ten steps at a guidance ``scale``; ``seed`` determines scenes and noise. Columns: skill, n_correct, n.
    """
    from biaslab.judges.judge import JudgeOptions
    from biaslab.judges.objects import ObjectDetector, table
    from biaslab.papers.dalleval.analysis import verdicts

    sampled = prompts.skills().groupby("skill", sort=False).sample(n, random_state=seed)
    sampled = sampled.reset_index(drop=True).assign(image_id=lambda rows: rows["prompt_id"])
    keys = [(key, 0) for key in sampled["prompt_id"]]
    images = _generator(folder, scale).images(list(sampled["text"]), keys, seed)
    options = JudgeOptions(classes=dict.fromkeys(prompts.CLASSES, ()))
    detector = ObjectDetector("mini-skills-detector", options)
    detections = table(list(sampled["image_id"]), detector.detect(images), list(prompts.CLASSES))
    verdict_rows = verdicts.verdicts(detections, sampled)
    return verdict_rows.groupby("skill", sort=False)["correct"].agg(n_correct="sum", n="size").reset_index()


def _measure_people(generator, n: int) -> list[Measured]:
    from biaslab.judges import blip
    from biaslab.judges.questions import read_answer
    from biaslab.judges.zero_shot import ZeroShot

    sampled = prompts.social(1)
    sampled = sampled[sampled["profession"] != "(none)"].sample(min(n, 3 * 83), random_state=_CARD_SEED)
    images = generator.images(list(sampled["text"]), [(key, 0) for key in sampled["prompt_id"]], _CARD_SEED)
    gendered = [k for k, word in enumerate(sampled["prompt"]) if word in GENDERED]
    questions = [prompts.GENDER_QUESTION] * len(gendered)
    answers = blip.load("mini-vqa").ask([images[k] for k in gendered], range(len(gendered)), questions)
    names = list(prompts.professions())
    texts = [lexicons.fill("A photo of a/an [OCCUPATION]", name.lower()) for name in names]
    predicted = ZeroShot("mini-clip").probabilities(images, texts).argmax(1)
    words = sampled["prompt"].iloc[gendered]
    is_right = [read_answer(t)[0] == GENDERED[word] for t, word in zip(answers, words, strict=True)]
    return [
        share("social_gender_word", is_right),
        share("social_profession", np.array(names)[predicted] == sampled["profession"]),
    ]
