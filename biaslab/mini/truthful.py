"""A generator without a bias of its own: what it shows for a text has the shares that the world has for such texts.

A prompt like "a photo of the face of a nurse" gets women with the world's probability for prompt-like captions
without an indicator; a caption gets them with that of captions of its style and indicator. Everything
else in the picture is drawn as for any caption. What a measurement finds on these images that is not true of
the world comes from the measurement, for there is no model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from biaslab import closure
from biaslab.errors import InputError, ParameterError
from biaslab.mini import captions, world
from biaslab.mini.looks import look

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from biaslab.mini.scene import Scene

# The name by which the pipeline takes it for a model.
WORLD = "world"
# Seeds of pairs from here on are never trained on.
HELD_OUT = 1000
# P(female) where a caption names no occupation and no gender.
_EITHER = 0.5


class Renders:
    """Images drawn when they are read, with their truth: a source of images.

    Args:
        name: What to call it in messages.
        digest: Identifies the images.
        table: One row per image, with ``image_id`` (unique).
        scene: Returns the scene of an ``image_id``.
        size: Height of the images in pixels.
    """

    def __init__(
        self, name: str, digest: str, table: pd.DataFrame, scene: Callable[[str], Scene], size: int
    ) -> None:
        self.name, self.digest, self.table = name, digest, table
        self._known = set(table["image_id"])
        self._scene, self._size = scene, size

    def scene(self, image_id: str) -> Scene:
        """Return the scene that an image shows.

        Raises:
            InputError: There is no such image.
        """
        if image_id not in self._known:
            raise InputError(f"{self.name} has no image {image_id!r}; its table lists those it has.")
        return self._scene(image_id)

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray]:
        """Return the images in the order asked for, each uint8 RGB (height, width, 3).

        Raises:
            InputError: There is no such image.
        """
        from biaslab.mini.render import render

        return [render(self.scene(image_id), self._size) for image_id in image_ids]


def generate(prompts: pd.DataFrame, corpus: captions.Corpus, *, seed: int, size: int = 64) -> Renders:
    """Return images for prompts that keep the world's truth.

    Args:
        prompts: One row per prompt: ``prompt_id`` (unique), ``occupation`` (one of the paradox paper's) and
            ``n_images``; where the prompt is a caption or its paraphrase also ``caption_id``. A prompt without a
            caption must be one that indicates no gender; of its ``text``, "smiling" and "at work" are heeded.
        corpus: The world's captions, whose knobs decide.
        seed: Seed of the run; with the prompt's id and the image's number it decides an image.
        size: Height in pixels.

    Returns:
        Images whose table has ``image_id`` (``<prompt_id>/<index>``), ``prompt_id``, ``index``, ``seed``, ``outcome``
        (always ``ok``), ``truth_gender`` (empty where nobody is shown) and ``truth_p_female`` (0–1, the share
        that gender was drawn with; NaN where nobody is shown).

    Raises:
        InputError: A column is missing, a prompt's id is given twice, or a caption is not of this corpus.
        UnknownNameError: The world has no such occupation.
        ParameterError: ``n_images`` is below 1.
    """
    import pandas as pd

    for column in ("prompt_id", "occupation", "n_images"):
        if column not in prompts:
            raise InputError(
                f"The prompts have no column {column!r}; they need prompt_id, occupation, n_images."
            )
    if prompts["prompt_id"].duplicated().any():
        twice = prompts.loc[prompts["prompt_id"].duplicated(), "prompt_id"].iloc[0]
        raise InputError(f"Prompt {twice!r} is given twice; each may occur once.")
    if (prompts["n_images"] < 1).any():
        raise ParameterError(f"n_images is {prompts['n_images'].min()}; make 1 image of a prompt or more.")
    ids, texts = (prompts.get(c, pd.Series("", index=prompts.index)) for c in ("caption_id", "text"))
    told = {
        prompt: _caption(caption, corpus) if isinstance(caption, str) and caption else _prompt(*rest, corpus)
        for prompt, caption, *rest in zip(
            prompts["prompt_id"], ids, prompts["occupation"], texts, strict=True
        )
    }
    rows = []
    for prompt, n in zip(prompts["prompt_id"], prompts["n_images"], strict=True):
        p = told[prompt][1]
        for index in range(int(n)):
            gender = "" if p is None else _gender(seed, prompt, index, p)
            share = float("nan") if p is None else p
            rows.append((f"{prompt}/{index}", prompt, index, seed, "ok", gender, share))
    names = ["image_id", "prompt_id", "index", "seed", "outcome", "truth_gender", "truth_p_female"]
    table = pd.DataFrame(rows, columns=names)
    shown = dict(zip(table["image_id"], table["truth_gender"], strict=True))

    def scene(image_id: str) -> Scene:
        prompt, _, index = image_id.rpartition("/")
        row = replace(
            told[prompt][0], gender=shown[image_id] or None, seed=draw(seed, prompt, int(index), "scene")
        )
        return captions.build_scene(row)

    whole = [(key, row.text, row.occupation, row.seed) for key, (row, _) in sorted(told.items())]
    digest = _digest((corpus.digest, seed, size, prompts["n_images"].tolist(), whole))
    return Renders(f"renders true to the world ({corpus.skew})", digest, table, scene, size)


# What a prompt says, as a row of the corpus, and P(female) given that; None where nobody is shown.
_Told = tuple[captions.Row, float | None]


def _prompt(occupation: str, text: str, corpus: captions.Corpus) -> _Told:
    p = world.p_female_for_prompt(occupation, world.skew_knobs(corpus.skew))
    facts = {"expression": "smiling"} if "smiling" in text else {}
    if "at work" in text:
        facts["place"] = look(occupation).place
    return captions.Row(text, occupation, "prompt_like", "none", "female", 0, facts), p


def _caption(caption_id: str, corpus: captions.Corpus) -> _Told:
    row = corpus._row(corpus.index(caption_id))
    if row.gender is None:
        return row, None
    if row.occupation is None:
        return row, {"female": 1.0, "male": 0.0}.get(row.indicator, _EITHER)
    knobs = world.skew_knobs(corpus.skew)
    return row, world.p_female(row.occupation, style=row.style, indicator=row.indicator, knobs=knobs)


def held_out(n: int, *, seed: int = 0, size: int = 64) -> Renders:
    """Return renders of one person each to test judges on, drawn from seeds that no training uses.

    Genders alternate and occupations take turns, so that both are even; all else is drawn at random.

    Args:
        n: How many, at least 1.
        seed: Seed of the draws.
        size: Height in pixels.

    Returns:
        Images whose table has ``image_id``, ``occupation``, ``truth_gender``, ``posterior`` (exact P(female | the
        cues that can be seen), equal priors, 0–1) and ``ambiguous`` (whether it lies between 0.01 and 0.99).

    Raises:
        ParameterError: ``n`` is below 1.
    """
    import pandas as pd

    from biaslab.mini import scene as scenes

    if n < 1:
        raise ParameterError(f"n is {n!r}; give how many renders to draw, 1 or more.")
    names = world.occupations()

    def scene(image_id: str) -> Scene:
        import numpy as np

        i = int(image_id.rpartition("-")[2])
        gender, occupation = scenes.GENDERS[i % 2], names[i // 2 % len(names)]
        rng = np.random.default_rng(draw(seed, "held-out", i, "scene"))
        return scenes.sample_scene(rng, genders=(gender,), occupations=(occupation,))

    rows = []
    for i in range(n):
        image_id = f"held-out-{seed}-{i:06d}"
        person = scene(image_id).people[0]
        posterior = scenes.posterior_female(person.cues, scenes.hidden_cues(person))
        rows.append((image_id, person.occupation, person.gender, posterior, scenes.is_ambiguous(person)))
    table = pd.DataFrame(rows, columns=["image_id", "occupation", "truth_gender", "posterior", "ambiguous"])
    digest = _digest((captions.Corpus(rows=1).digest, n, seed, size))
    return Renders("held-out renders", digest, table, scene, size)


def _gender(seed: int, prompt: str, index: int, p: float) -> str:
    return "female" if draw(seed, prompt, index, "gender") < p * 2**64 else "male"


def draw(seed: int, prompt: str, index: int, what: str) -> int:
    """Return a whole number below 2**64 that nothing but the arguments decides."""
    text = f"{what}\0{seed}\0{prompt}\0{index}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _digest(given: object) -> str:
    return hashlib.sha256(repr((given, closure.digest(__name__))).encode()).hexdigest()[:16]
