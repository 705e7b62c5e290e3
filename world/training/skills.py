"""Training of mini-sd-skills: mini-sd's networks on what DALL-Eval asks for, PaintSkills' scenes and people."""

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
from training.skills_detector import asked

NAME, CARD_IMAGES = "mini-sd-skills", 300
GUIDANCE = (1.5, 3.0)
# Seeds from which no other image of the project is made.
_CARD_SEED = 78_000
SCENES = 0.6
"""Share of PaintSkills' scenes among what the autoencoder learns from; the others are people."""
NOISIER = 0.7
"""Steps of noise are drawn as 1000 u^NOISIER, see :func:`training.diffusion.train`."""


def pool(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``n`` renders, uint8 (n, 64, 64, 3), and where objects and faces are, bool (n, 64, 64)."""
    draw, people = np.random.default_rng([seed, 78]), prompts.social().to_dict("records")
    side = autoencoder.SIZE
    images, places = np.empty((n, side, side, 3), np.uint8), np.zeros((n, side, side), bool)
    for i in range(n):
        if draw.random() < SCENES:
            scene = skills.skill_scene(draw, asked(draw))
            known = render.truth(scene, side)
            regions = [*known.objects, *known.people]
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
    """Train mini-sd-skills on from mini-sd, its autoencoder first; return quality on held-out data.

    On a ``share`` of PaintSkills' training scenes and as many ``people`` for the social prompts; all else is as
    :func:`training.diffusion.train_parts` has it. Source: dalleval paper, sections 3.2 (PaintSkills), 4.2.1 (social
    prompts) and Table 5 (shares of training data). Raises MissingInputError: mini-sd is not in this installation.
    """
    start_from = start_from or Path(registry.resolve("mini-sd", "text-to-image"))
    found = diffusion.train_parts(
        NAME,
        folder,
        {"skills": max(1, round(share * len(prompts.skills("train")))), "social": people},
        vae={"pool": pool, "start_from": start_from / "vae", "steps": 4_000, "learning_rate": 8e-4},
        start_from=start_from,
        noisier=NOISIER,
        **{"steps": 8_000, "learning_rate": 1e-3} | settings,
    )
    cards.write(NAME, folder, card_rows, n=CARD_IMAGES)
    return found


def card_rows(folder: Path, n: int, decoded: Path | None = None) -> list[Measured]:
    """Return the rows of the model's card: of ``n`` images for each skill and as many people, by the embedded judges.

    Each at guidance scales of 1.5 and 3, with 10 steps, and the autoencoder's reconstruction. There is nothing to
    measure once more on ``decoded`` images.
    """
    rows = autoencoder.card_rows(folder / "vae", *pool(500, _CARD_SEED), "faces")
    for scale in GUIDANCE:
        generator = _generator(folder, scale)
        counts = right(folder, n, _CARD_SEED, scale).itertuples()
        found = [Measured(f"skill_{of.skill}", of.n_correct / of.n, of.n, of.n_correct) for of in counts]
        found += _people_right(generator, n)
        rows += cards.at(scale, found)
    return rows


def _generator(folder: Path, scale: float):
    return load(str(folder), GenerationSettings(steps=10, guidance_scale=scale))


def right(folder: Path, n: int, seed: int, scale: float = GUIDANCE[-1]) -> pd.DataFrame:
    """Return how many of ``n`` test scenes of each skill a pipeline draws as asked, by mini-skills-detector.

    Ten steps at a guidance ``scale``; ``seed`` decides scenes and noise. Columns: skill, n_correct, n.
    """
    from biaslab.judges.judge import JudgeOptions
    from biaslab.judges.objects import ObjectDetector, table
    from biaslab.papers.dalleval.analysis import verdicts

    asked = prompts.skills().groupby("skill", sort=False).sample(n, random_state=seed)
    asked = asked.reset_index(drop=True).assign(image_id=lambda of: of["prompt_id"])
    keys = [(key, 0) for key in asked["prompt_id"]]
    images = _generator(folder, scale).images(list(asked["text"]), keys, seed)
    options = JudgeOptions(classes=dict.fromkeys(prompts.CLASSES, ()))
    detector = ObjectDetector("mini-skills-detector", options)
    found = table(list(asked["image_id"]), detector.detect(images), list(prompts.CLASSES))
    judged = verdicts.verdicts(found, asked)
    return judged.groupby("skill", sort=False)["correct"].agg(n_correct="sum", n="size").reset_index()


def _people_right(generator, n: int) -> list[Measured]:
    from biaslab.judges import blip
    from biaslab.judges.questions import read_answer
    from biaslab.judges.zero_shot import ZeroShot

    asked = prompts.social(1)
    asked = asked[asked["profession"] != "(none)"].sample(min(n, 3 * 83), random_state=_CARD_SEED)
    images = generator.images(list(asked["text"]), [(key, 0) for key in asked["prompt_id"]], _CARD_SEED)
    told = [k for k, word in enumerate(asked["prompt"]) if word in GENDERED]
    questions = [prompts.GENDER_QUESTION] * len(told)
    said = blip.load("mini-vqa").ask([images[k] for k in told], range(len(told)), questions)
    names = list(prompts.professions())
    texts = [lexicons.fill("A photo of a/an [OCCUPATION]", name.lower()) for name in names]
    shown = ZeroShot("mini-clip").probabilities(images, texts).argmax(1)
    words = asked["prompt"].iloc[told]
    right = [read_answer(t)[0] == GENDERED[word] for t, word in zip(said, words, strict=True)]
    return [
        share("social_gender_word", right),
        share("social_profession", np.array(names)[shown] == asked["profession"]),
    ]
