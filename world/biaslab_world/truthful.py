"""A generator without bias of its own: its images of a text have the world's true shares for such texts.

A prompt like "a photo of the face of a nurse" shows women with the world's probability for prompt-like captions
without an indicator. A caption shows them with the probability for its style and indicator. Everything
else in the image is sampled as for any caption. No model is involved, so any difference between a measurement
on these images and the world's ground truth comes from the measurement.
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

# Model name of this generator in the pipeline.
WORLD = "world"
# Training never uses seeds of pairs from this value on.
HELD_OUT = 1000
# P(female) for captions without an occupation and a gender.
_EITHER = 0.5


@dataclass(eq=False)
class Renders:
    """Source of images that are rendered when they are read, with their ground truth."""

    name: str  # name in messages
    digest: str  # identifies the images
    table: pd.DataFrame  # one row per image, with ``image_id`` (unique)
    scene: Callable[[str], Scene]  # returns the scene of an ``image_id``
    size: int = 64  # height of the images in pixels
    decoded: Path | None = None  # folder of an autoencoder through which the images pass
    image_domain: str = registry.DRAWINGS  # domain of the images

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray]:
        """Return the images in the order of ``image_ids``, each uint8 RGB (height, width, 3)."""
        from biaslab_world.render import render

        images = [render(self.scene(image_id), self.size) for image_id in image_ids]
        if self.decoded is None or not images:
            return images
        return list(through_autoencoder(self.decoded, np.stack(images)))


def generate(prompts: pd.DataFrame, corpus: captions.Corpus, *, seed: int, size: int = 64) -> Renders:
    """Return images for prompts with the true shares of the world of ``corpus``.

    ``prompts`` has one row per prompt: ``prompt_id`` (unique), ``occupation`` (one of the paradox paper's) and
    ``n_images``; a prompt that is a caption or its paraphrase also has ``caption_id``. A prompt without a caption must
    not indicate a gender; only "smiling" and "at work" in its ``text`` have an effect. ``seed``, the prompt's id and
    the image's number determine an image; ``size`` is the height in pixels.

    The result is that of :func:`renders`, with ``truth_gender`` (empty without a person) and ``truth_p_female`` (0–1,
    the probability with which gender was sampled; NaN without a person). Raises InputError (a caption is not of this
    corpus) and UnknownNameError (the world has no such occupation).
    """
    prompt_rows = {row["prompt_id"]: _caption_row(row, corpus) for row in prompts.to_dict("records")}

    def gender(prompt: str, index: int) -> str:
        p = prompt_rows[prompt][1]
        if math.isnan(p):
            return ""
        return "female" if draw(seed, prompt, index, "gender") < p * 2**64 else "male"

    def scene(prompt: str, index: int) -> Scene:
        scene_seed = draw(seed, prompt, index, "scene")
        row = replace(prompt_rows[prompt][0], gender=gender(prompt, index) or None, seed=scene_seed)
        return captions.build_scene(row)

    truth = {"truth_gender": gender, "truth_p_female": lambda prompt, _: prompt_rows[prompt][1]}
    row_keys = [(key, row.text, row.occupation, row.seed) for key, (row, _) in sorted(prompt_rows.items())]
    name = f"renders true to the world ({corpus.skew})"
    return renders(name, __name__, prompts, truth, scene, corpus.digest, row_keys, seed=seed, size=size)


def renders(
    name: str,
    module: str,
    prompts: pd.DataFrame,
    truth: Mapping[str, Callable[[str, int], object]],
    scene: Callable[[str, int], Scene],
    *dependencies: object,
    seed: int,
    size: int,
    decoded: Path | None = None,
) -> Renders:
    """Return images of prompts that are rendered when they are read, by the code of ``module``.

    ``prompts`` has ``prompt_id`` (unique) and ``n_images``. ``scene`` and the functions in ``truth`` take a prompt's id
    and an image's number; ``dependencies`` are other values on which the images depend. The table has ``image_id``
    (``<prompt_id>/<index>``), ``prompt_id``, ``index``, ``seed``, ``status`` (always ``ok``) and the columns of
    ``truth``.
    """
    table = prompts.loc[prompts.index.repeat(prompts["n_images"]), ["prompt_id"]].reset_index(drop=True)
    table["index"] = table.groupby("prompt_id").cumcount()
    table.insert(0, "image_id", table["prompt_id"] + "/" + table["index"].astype(str))
    keys = list(zip(table["prompt_id"], table["index"], strict=True))
    truth_columns = {column: [get_value(*key) for key in keys] for column, get_value in truth.items()}
    table = table.assign(seed=seed, status="ok", **truth_columns)

    def scene_of_image(image_id: str) -> Scene:
        key, _, index = image_id.rpartition("/")
        return scene(key, int(index))

    weights = model_files.digest(str(decoded)) if decoded else ""
    # Ground truth also depends on tables, which the code digest does not cover, so the digest includes its values.
    image_digest = digest(module, seed, size, weights, prompts["n_images"].tolist(), *dependencies, truth_columns)
    return Renders(name, image_digest, table, scene_of_image, size, decoded)


def _caption_row(prompt: Mapping, corpus: captions.Corpus) -> tuple[captions.Row, float]:
    """Return a prompt as a row of the corpus, and its P(female), which is NaN without a person."""
    parameters, caption = world.skew_parameters(corpus.skew), prompt.get("caption_id")
    if isinstance(caption, str) and caption:
        row = corpus.row(corpus.index(caption))
        if row.gender is None:
            return row, math.nan
        if row.occupation is None:
            return row, {"female": 1.0, "male": 0.0}.get(row.indicator, _EITHER)
        return row, world.probability_female(
            row.occupation, style=row.style, indicator=row.indicator, parameters=parameters
        )
    occupation, text = prompt["occupation"], prompt.get("text", "")
    facts = {"expression": "smiling"} if "smiling" in text else {}
    p = world.p_female_for_prompt(occupation, parameters)
    if "at work" in text:
        facts["place"] = outfit(occupation).place
    return captions.Row(text, occupation, "prompt_like", "none", "female", 0, facts), p


def held_out(n: int, *, seed: int = 0, size: int = 64) -> Renders:
    """Return ``n`` renders of one person each for testing judges, from seeds that training never uses.

    Genders and occupations alternate, so that both are balanced; everything else is random. The table of the images
    has ``image_id``, ``occupation``, ``truth_gender``, and ``posterior`` and ``ambiguous`` from :func:`ambiguity`.
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
        rows.append((image_id, person.occupation, person.gender, *ambiguity(person)))
    table = pd.DataFrame(rows, columns=["image_id", "occupation", "truth_gender", "posterior", "ambiguous"])
    key = digest(__name__, captions.Corpus(rows=1).digest, n, seed, size)
    return Renders("held-out renders", key, table, scene, size)


def ambiguity(person: Person) -> tuple[float, bool]:
    """Return P(female | visible cues), 0–1, with equal priors, and whether it is between 0.01 and 0.99."""
    return scenes.posterior_female(person.cues, scenes.hidden_cues(person)), scenes.is_ambiguous(person)


def draw(seed: int, prompt: str, index: int, stream: str) -> int:
    """Return an integer below 2**64 that depends on the arguments alone."""
    text = f"{stream}\0{seed}\0{prompt}\0{index}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def digest(module: str, *values: object) -> str:
    """Return sixteen hexadecimal digits that depend on ``values`` and on the code used by ``module``."""
    return hashlib.sha256(repr((values, code_digest.digest(module))).encode()).hexdigest()[:16]
