"""A generator without a bias of its own: what it shows for a text has the shares that the world has for such texts.

A prompt like "a photo of the face of a nurse" gets women with the world's probability for prompt-like captions
without an indicator; a caption gets them with that of captions of its style and indicator. Everything
else in the picture is drawn as for any caption. What a measurement finds on these images that is not true of
the world comes from the measurement, for there is no model.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.cache import code_digest
from biaslab.hub import model_files, registry
from biaslab_world import captions, world
from biaslab_world import scene as scenes
from biaslab_world.decoding import through_autoencoder
from biaslab_world.looks import outfit
from biaslab_world.scene import Person, Scene

# The name by which the pipeline takes it for a model.
WORLD = "world"
# Seeds of pairs from here on are never trained on.
HELD_OUT = 1000
# P(female) where a caption names no occupation and no gender.
_EITHER = 0.5


@dataclass(eq=False)
class Renders:
    """Images drawn when they are read, with their truth: a source of images."""

    name: str  # what to call it in messages
    digest: str  # identifies the images
    table: pd.DataFrame  # one row per image, with ``image_id`` (unique)
    scene: Callable[[str], Scene]  # returns the scene of an ``image_id``
    size: int = 64  # height of the images in pixels
    decoded: Path | None = None  # folder of an autoencoder through which the images pass
    image_domain: str = registry.DRAWINGS  # what they are

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray]:
        """Return the images in the order asked for, each uint8 RGB (height, width, 3)."""
        from biaslab_world.render import render

        images = [render(self.scene(image_id), self.size) for image_id in image_ids]
        if self.decoded is None or not images:
            return images
        return list(through_autoencoder(self.decoded, np.stack(images)))


def generate(prompts: pd.DataFrame, corpus: captions.Corpus, *, seed: int, size: int = 64) -> Renders:
    """Return images for prompts that keep the truth of the world of ``corpus``.

    ``prompts`` has one row per prompt: ``prompt_id`` (unique), ``occupation`` (one of the paradox paper's) and
    ``n_images``; where the prompt is a caption or its paraphrase also ``caption_id``. A prompt without a caption must
    be one that indicates no gender; of its ``text``, "smiling" and "at work" are heeded. ``seed``, with the prompt's id
    and the image's number, decides an image; ``size`` is the height in pixels.

    As of :func:`renders`, with ``truth_gender`` (empty where nobody is shown) and ``truth_p_female`` (0–1, the share
    that gender was drawn with; NaN where nobody is shown). Raises InputError (a caption is not of this corpus) and
    UnknownNameError (the world has no such occupation).
    """
    told = {row["prompt_id"]: _told(row, corpus) for row in prompts.to_dict("records")}

    def gender(prompt: str, index: int) -> str:
        p = told[prompt][1]
        if math.isnan(p):
            return ""
        return "female" if draw(seed, prompt, index, "gender") < p * 2**64 else "male"

    def scene(prompt: str, index: int) -> Scene:
        drawn = draw(seed, prompt, index, "scene")
        row = replace(told[prompt][0], gender=gender(prompt, index) or None, seed=drawn)
        return captions.build_scene(row)

    truth = {"truth_gender": gender, "truth_p_female": lambda prompt, _: told[prompt][1]}
    asked = [(key, row.text, row.occupation, row.seed) for key, (row, _) in sorted(told.items())]
    name = f"renders true to the world ({corpus.skew})"
    return renders(name, __name__, prompts, truth, scene, corpus.digest, asked, seed=seed, size=size)


def renders(
    name: str,
    module: str,
    prompts: pd.DataFrame,
    truth: Mapping[str, Callable[[str, int], object]],
    scene: Callable[[str, int], Scene],
    *given: object,
    seed: int,
    size: int,
    decoded: Path | None = None,
) -> Renders:
    """Return images of prompts that are drawn when they are read, by the code of ``module``.

    ``prompts`` has ``prompt_id`` (unique) and ``n_images``. ``scene`` and the columns of ``truth`` are asked by a
    prompt's id and an image's number; ``given`` is what else the images depend on. The table has ``image_id``
    (``<prompt_id>/<index>``), ``prompt_id``, ``index``, ``seed``, ``status`` (always ``ok``) and the columns of
    ``truth``.
    """
    table = prompts.loc[prompts.index.repeat(prompts["n_images"]), ["prompt_id"]].reset_index(drop=True)
    table["index"] = table.groupby("prompt_id").cumcount()
    table.insert(0, "image_id", table["prompt_id"] + "/" + table["index"].astype(str))
    keys = list(zip(table["prompt_id"], table["index"], strict=True))
    known = {column: [of(*key) for key in keys] for column, of in truth.items()}
    table = table.assign(seed=seed, status="ok", **known)

    def drawn(image_id: str) -> Scene:
        key, _, index = image_id.rpartition("/")
        return scene(key, int(index))

    weights = model_files.digest(str(decoded)) if decoded else ""
    # Truth follows from tables, too, that no digest of code covers, so it is told itself.
    whole = digest(module, seed, size, weights, prompts["n_images"].tolist(), *given, known)
    return Renders(name, whole, table, drawn, size, decoded)


def _told(prompt: Mapping, corpus: captions.Corpus) -> tuple[captions.Row, float]:
    """Return what a prompt says, as a row of the corpus, and P(female) given that; NaN where nobody is shown."""
    knobs, caption = world.skew_knobs(corpus.skew), prompt.get("caption_id")
    if isinstance(caption, str) and caption:
        row = corpus.row(corpus.index(caption))
        if row.gender is None:
            return row, math.nan
        if row.occupation is None:
            return row, {"female": 1.0, "male": 0.0}.get(row.indicator, _EITHER)
        return row, world.probability_female(row.occupation, style=row.style, indicator=row.indicator, knobs=knobs)
    occupation, text = prompt["occupation"], prompt.get("text", "")
    facts = {"expression": "smiling"} if "smiling" in text else {}
    p = world.p_female_for_prompt(occupation, knobs)
    if "at work" in text:
        facts["place"] = outfit(occupation).place
    return captions.Row(text, occupation, "prompt_like", "none", "female", 0, facts), p


def held_out(n: int, *, seed: int = 0, size: int = 64) -> Renders:
    """Return ``n`` renders of one person each to test judges on, drawn from seeds that no training uses.

    Genders alternate and occupations take turns, so that both are even; all else is drawn at random. Returns images
    whose table has ``image_id``, ``occupation``, ``truth_gender``, and ``posterior`` and ``ambiguous`` as of
    :func:`seen`.
    """
    names = world.occupations()

    def scene(image_id: str) -> Scene:
        i = int(image_id.rpartition("-")[2])
        gender, occupation = scenes.GENDERS[i % 2], names[i // 2 % len(names)]
        rng = np.random.default_rng(draw(seed, "held-out", i, "scene"))
        return scenes.sample_scene(rng, genders=(gender,), occupations=(occupation,))

    rows = []
    for image_id in (f"held-out-{seed}-{i:06d}" for i in range(n)):
        person = scene(image_id).people[0]
        rows.append((image_id, person.occupation, person.gender, *seen(person)))
    table = pd.DataFrame(rows, columns=["image_id", "occupation", "truth_gender", "posterior", "ambiguous"])
    key = digest(__name__, captions.Corpus(rows=1).digest, n, seed, size)
    return Renders("held-out renders", key, table, scene, size)


def seen(person: Person) -> tuple[float, bool]:
    """Return P(female | the cues that are seen), 0–1, of equal priors, and whether it is between 0.01 and 0.99."""
    return scenes.posterior_female(person.cues, scenes.hidden_cues(person)), scenes.is_ambiguous(person)


def draw(seed: int, prompt: str, index: int, what: str) -> int:
    """Return a whole number below 2**64 that nothing but the arguments decides."""
    text = f"{what}\0{seed}\0{prompt}\0{index}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def digest(module: str, *given: object) -> str:
    """Return sixteen hexadecimal digits that change with ``given`` and with the code that ``module`` depends on."""
    return hashlib.sha256(repr((given, code_digest.digest(module))).encode()).hexdigest()[:16]
