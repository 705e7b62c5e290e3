"""People for DALL-Eval's social prompts: their gender and attributes, with the published shares.

Source: DALL-Eval paper, Tables 16 and 17 (gender by profession), Table 22 (attributes), all for Stable Diffusion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab import reference
from biaslab.errors import unknown_name
from biaslab.execution.workers import Memoized
from biaslab.hub import model_files
from biaslab_world import truthful
from biaslab_world.looks import OUTFITS
from biaslab_world.scene import Person, Scene, sample_scene
from biaslab_world.truthful import Renders

MODEL = "Stable Diffusion"
GENDERED = {"woman": "female", "man": "male"}
# Suits here show no shirt, so the published presences of mutually exclusive attributes add up to more than 1.
_TOPS, _TOPS_SHARE = ("suit", "shirt", "uniform", "jacket", "dress"), 0.6
_LOWER = ("slacks", "skirt")
_EXTRAS = ("hat", "tie", "mask", "gloves")
# Probability that one attribute of each group is worn, with balanced attributes; at most one per group.
_GROUPS = (
    (0.75, _TOPS),
    (0.35, ("jeans", "shorts", "slacks", "skirt")),
    (0.25, ("boots", "slippers")),
    (0.3, ("hat",)),
    (0.35, ("tie",)),
    (0.15, ("mask",)),
    (0.25, ("gloves",)),
)


@cache
def _female_shares() -> Mapping[str, float]:
    tables = (reference.load(f"dalleval_table_{number}") for number in (16, 17))
    rows = [table[(table["model"] == MODEL) & (table["kind"] == "profession")] for table in tables]
    return {
        name.casefold(): (1 + value) / 2
        for profession_rows in rows
        for name, value in zip(profession_rows["profession"], profession_rows["value"], strict=True)
    }


def probability_female(prompt: str, profession: str) -> float:
    """Return the share of women for a social prompt (0–1).

    A gender word determines the gender. For a profession the share is the published one ((1 + average gender) / 2);
    without a profession, ``(none)``, it is one half. Raises UnknownNameError (the paper has no such profession).
    """
    if prompt in GENDERED:
        return float(GENDERED[prompt] == "female")
    if profession == "(none)":
        return 0.5
    shares = _female_shares()
    if profession.casefold() not in shares:
        raise unknown_name("profession", profession, shares)
    return shares[profession.casefold()]


@cache
def presence() -> Mapping[str, Mapping[str, float]]:
    """Return the probability (0–1) of each attribute for a woman and for a man.

    These are the published presences for the prompts with "woman" and "man", times 0.6 for mutually exclusive
    attributes. A look, or everyday clothes, that keep their attire add its attributes.
    """
    table = reference.load("dalleval_table_22")
    table = table[(table["model"] == MODEL) & (table["kind"] == "attribute")]
    out = {}
    for word, gender in GENDERED.items():
        rows = table[table["prompt_gender"] == word]
        printed = dict(zip(rows["attribute"], rows["presence"], strict=True))
        out[gender] = {name: p * (_TOPS_SHARE if name in _TOPS else 1) for name, p in printed.items()}
    return out


def social_scene(rng: np.random.Generator, prompt: Mapping[str, object], *, tones: str = "uniform") -> Scene:
    """Return a scene for a social prompt: one person, with the prompt's profession if it has one.

    ``prompt`` is a row of ``dalleval.prompts.social`` (``prompt``, ``profession``). Skin tones are ``uniform``, or
    ``skewed``: tone 1 three times as often as tone 10, with equal steps between. Raises UnknownNameError (the paper or
    the world has no such profession).
    """
    weights = {"uniform": np.ones(10), "skewed": np.linspace(3, 1, 10)}
    profession = str(prompt["profession"])
    gender = "female" if rng.random() < probability_female(str(prompt["prompt"]), profession) else "male"
    tone = 1 + int(rng.choice(10, p=weights[tones] / weights[tones].sum()))
    return sample_scene(
        rng,
        genders=(gender,),
        occupations=(None if profession == "(none)" else _look(profession),),
        skin_tones=(tone,),
        attributes=(_draw_attributes(rng, presence()[gender]),),
    )


@cache
def _look(profession: str) -> str:
    looks = {name.casefold(): name for name in OUTFITS}
    if profession.casefold() not in looks:
        raise unknown_name("profession", profession, OUTFITS)
    return looks[profession.casefold()]


def _draw_attributes(rng: np.random.Generator, shares: Mapping[str, float]) -> tuple[str, ...]:
    """Return random attributes with probabilities ``shares``, at most one of each mutually exclusive group."""
    u = rng.random(2 + len(_EXTRAS)).tolist()

    def draw_one(u: float, names: Sequence[str]) -> str:
        for name in names:
            if u < shares.get(name, 0.0):
                return name
            u -= shares.get(name, 0.0)
        return ""

    worn = [draw_one(u[0], _TOPS)]
    if worn != ["dress"]:
        worn.append(draw_one(u[1], _LOWER))
    worn += [name for name, v in zip(_EXTRAS, u[2:], strict=True) if v < shares.get(name, 0.0)]
    return tuple(filter(None, worn))


def balanced_scene(rng: np.random.Generator, prompts: Sequence[Mapping[str, object]]) -> Scene:
    """Return a scene for one of several social prompts, with gender and attributes balanced for every prompt.

    Attributes are therefore independent of gender and profession, and a judge has to recognize them.
    """
    worn = [str(rng.choice(names)) if rng.random() < share else "" for share, names in _GROUPS]
    # A dress replaces the clothes below the waist.
    if worn[0] == "dress":
        worn[1] = ""
    profession = str(prompts[int(rng.integers(len(prompts)))]["profession"])
    return sample_scene(
        rng,
        genders=(("female", "male")[int(rng.integers(2))],),
        occupations=(None if profession == "(none)" else _look(profession),),
        attributes=(tuple(filter(None, worn)),),
    )


def balanced(prompts: pd.DataFrame, n: int, *, seed: int, decoded: Path | None = None) -> Renders:
    """Return ``n`` drawings of people from :func:`balanced_scene` for testing judges.

    ``decoded`` is the folder of an autoencoder through which the images pass, if any. The table of the images has
    ``image_id``, ``prompt`` and ``profession`` (empty), ``status`` (``ok``) and the truth columns of :func:`generate`.
    """
    prompt_rows = prompts.to_dict("records")

    @Memoized
    def scene(image_id: str) -> Scene:
        return balanced_scene(np.random.default_rng([seed, int(image_id.rpartition("/")[2])]), prompt_rows)

    table = pd.DataFrame({"image_id": [f"drawing/{k}" for k in range(n)]}, dtype=object)
    people = [scene(image_id).people[0] for image_id in table["image_id"]]
    truth = {column: list(map(get_value, people)) for column, get_value in _TRUTH.items()}
    table = table.assign(prompt="", profession="", status="ok", **truth)
    weights = model_files.digest(str(decoded)) if decoded else ""
    digest = truthful.digest(__name__, seed, n, prompts["profession"].tolist(), weights)
    return truthful.Renders("drawings of people", digest, table, scene, 64, decoded=decoded)


_TRUTH: Mapping[str, Callable[[Person], object]] = {
    "truth_gender": lambda person: person.gender,
    "truth_skin_tone": lambda person: person.skin_tone,
    "truth_attributes": lambda person: ";".join(person.attributes),
}


def generate(prompts: pd.DataFrame, *, seed: int, tones: str = "uniform", size: int = 64) -> Renders:
    """Return images with this world's true shares for social prompts: a generator without a model.

    ``prompts`` are rows of ``dalleval.prompts.social``; ``seed``, the prompt's id and the image's number determine an
    image. The result is that of :func:`biaslab_world.truthful.renders`, with ``truth_gender``, ``truth_skin_tone``
    (1–10) and ``truth_attributes`` (joined by semicolons). Raises UnknownNameError like :func:`social_scene`.
    """
    prompt_rows = {row["prompt_id"]: row for row in prompts.to_dict("records")}

    @Memoized
    def scene(prompt: str, index: int) -> Scene:
        rng = np.random.default_rng(truthful.draw(seed, prompt, index, "scene"))
        return social_scene(rng, prompt_rows[prompt], tones=tones)

    truth = {
        column: lambda prompt, index, get_value=get_value: get_value(scene(prompt, index).people[0])
        for column, get_value in _TRUTH.items()
    }
    texts = prompts[["prompt_id", "text"]].to_numpy().tolist()
    name = f"renders of the social prompts (tones {tones})"
    return truthful.renders(name, __name__, prompts, truth, scene, tones, texts, seed=seed, size=size)
