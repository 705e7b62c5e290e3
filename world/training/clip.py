"""Training of mini-clip: images and texts of the embedded world in one space, in open_clip's format.

What a text claims and whether it is true of an image is known exactly here, so no true text is ever held
against an image. Gender is drawn independently of everything else: the judge learns no prior from occupations.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from biaslab_world import art, captions, looks, scene
from biaslab_world.captions import PLACE_PHRASES
from biaslab_world.scene import ATTRIBUTES, LOWER_ATTRIBUTES, Scene
from training import common, loop
from training.cards import Measured, share
from training.loop import SIZE
from training.text import MAX_LENGTH, make_tokenizer, tokens

NAME = "mini-clip"
HELD_OUT_SEED = 2_000_003
CALIBRATION_SEED = 3_000_017
EMBEDDING = 128
# Share of scenes by content: a person with an occupation, without one, two people, a product picture.
_CONTENT = {"work": 0.84, "plain": 0.06, "two": 0.04, "decoy": 0.06}
_PAIRS = (("woman", "man"), ("female person", "male person"), ("lady", "gentleman"), ("woman's face", "man's face"))
# The first is the one that judges use.
_FRAMES = (
    "A photo of {a}", "A portrait photo of {a}", "A photo of the face of {a}", "A picture of {a}", "Photo of {a}",
    "Portrait of {a}", "{a}", "Close-up photo of {a}", "{a} at work", "A photo of {a} at work", "A drawing of {a}",
    "There is {a}",
)  # fmt: skip
_EXPRESSED = {"smiling": ("smiling", "happy"), "neutral": ("serious", "neutral")}
_PRONOUN_ENDS = ("at {his} work", "proud of {his} work", "as {he} works", "doing {his} job", "with {his} tools")
# Words of the texts below, and more words of gender, expression and number: none of them is a filler.
_MEANT = (
    "female male person people two woman man women men girl boy girls boys lady ladies gentleman gentlemen mother",
    "father she he her his hers him himself herself both everyone nobody no not",
    "smiling happy serious neutral with a neutral expression big smile cheerful sad",
    "who works working as a an and wearing in , . ' s -",
)
# Answers to one question.
_OFFERED = 40
# Share of captions with words that say nothing.
_FILLERS = 0.3


# -- what an image shows and what a text claims -----------------------------------------------------------


@cache
def _names_of_looks() -> tuple[tuple[str, ...], ...]:
    """Return the occupations of each look."""
    names: dict[looks.Outfit, list[str]] = {}
    for occupation in sorted(looks.OUTFITS):
        names.setdefault(looks.OUTFITS[occupation], []).append(occupation)
    return tuple(map(tuple, names.values()))


@cache
def _lists() -> dict[str, tuple[str, ...]]:
    """Return the values of each field that texts can claim; ``look`` holds one name for each look."""
    return {
        "gender": scene.GENDERS,
        "look": tuple(names[0] for names in _names_of_looks()),
        "age": scene.AGES,
        "expression": scene.EXPRESSIONS,
        "place": tuple(art.PLACES),
        "prop": tuple(dict.fromkeys([*art.PROPS, *art.DECOYS])),
        "count": ("0", "1", "2"),
        "wears": scene.ATTRIBUTES,
        "thing": scene.THINGS,
    }


@cache
def place_of(field: str, value: str) -> int:
    """Return the place of a value in its field's list; names of occupations with one look share one."""
    if field != "look":
        return _lists()[field].index(value)
    return next(i for i, names in enumerate(_names_of_looks()) if value in names)


@dataclass(frozen=True)
class Pool:
    """Images and the truth about each."""

    images: np.ndarray  # uint8 (n, 64, 64, 3)
    true: dict[str, np.ndarray]
    """Field -> (n, values) bool: which of its values are true of each image; none where it does not apply."""
    probability_female: np.ndarray
    """Exact posterior of perceived as female given what is seen, (n,) float32; NaN but for one person."""
    cues: np.ndarray
    """Each gender cue's value, (n, 9) int8; -1 where it is covered or there is not one person."""
    full_figure: np.ndarray  # whether one person is shown from head to foot, (n,) bool
    skin_tone: np.ndarray  # Monk tone of the one person, (n,) int8; 0 where there is not one


def sample(draw: np.random.Generator, *, plain: bool = False) -> Scene:
    """Return a scene at random, mostly one person at work, gender independent of everything.

    A ``plain`` one has one person with an occupation and nothing asked for, as a corpus has it.
    """
    kind = "work" if plain else str(draw.choice(list(_CONTENT), p=list(_CONTENT.values())))
    occupation = str(draw.choice(looks.OCCUPATIONS))
    if plain:
        return scene.sample_scene(draw, genders=(None,), occupations=(occupation,))
    place = str(draw.choice(list(art.PLACES))) if kind == "decoy" or draw.random() < 0.3 else None
    if kind == "decoy":
        return scene.sample_scene(draw, decoy=str(draw.choice(_lists()["prop"])), place=place)
    if kind == "two":
        pair = draw.choice(looks.OCCUPATIONS, 2).tolist()
        return scene.sample_scene(draw, genders=(None, None), occupations=pair, place=place)
    worn: tuple[str, ...] = ()
    if draw.random() >= 0.6:
        lower = draw.random() < 0.3
        worn = (str(draw.choice([a for a in ATTRIBUTES if (a in LOWER_ATTRIBUTES) == lower])),)
    return scene.sample_scene(
        draw,
        genders=(None,),
        occupations=(occupation if kind == "work" else None,),
        attributes=(worn,),
        things=draw.choice(_lists()["thing"], 1).tolist() if draw.random() < 0.12 else (),
        place=place,
    )


def pool(n: int, seed: int, *, decoded: Path | None = None, part: float = loop.DECODED, plain: bool = False) -> Pool:
    """Return ``n`` scenes drawn from ``seed``; ``part`` of them through the autoencoder ``decoded``."""
    draw = common.rng(seed, 0, 32)
    scenes = [sample(draw, plain=plain) for _ in range(n)]
    true = {field: np.zeros((n, len(values)), bool) for field, values in _lists().items()}
    probability_female, full = np.full(n, np.nan, np.float32), np.zeros(n, bool)
    cues, tone = np.full((n, len(scene.CUE_NAMES)), -1, np.int8), np.zeros(n, np.int8)
    values = [list(scene.CUES[name]["female"]) for name in scene.CUE_NAMES]
    for i, some in enumerate(scenes):
        shown: dict[str, Sequence[str]] = {
            "place": [some.place],
            "count": [str(min(len(some.people), 2))],
            "thing": [thing.kind for thing in some.things],
            "prop": [some.decoy] if some.decoy else [],
        }
        if len(some.people) == 1:
            (person,) = some.people
            shown |= {field: [getattr(person, field)] for field in ("gender", "age", "expression")}
            shown["wears"] = person.attributes
            if person.occupation is not None:
                shown |= {"look": [person.occupation], "prop": [looks.outfit(person.occupation).prop]}
            hidden = scene.hidden_cues(person)
            probability_female[i] = scene.posterior_female(person.cues, hidden)
            full[i], tone[i] = person.full_figure, person.skin_tone
            for k, name in enumerate(scene.CUE_NAMES):
                if name not in hidden:
                    cues[i, k] = values[k].index(getattr(person.cues, name))
        for field, seen in shown.items():
            true[field][i, [place_of(field, value) for value in seen]] = True
    images = loop.renders(scenes, squash=False, decoded=decoded, part=part, seed=seed)
    return Pool(images, true, probability_female, cues, full, tone)


# -- texts ------------------------------------------------------------------------------------------------


def _a(phrase: str) -> str:
    return f"{'an' if phrase[0].lower() in 'aeiou' else 'a'} {phrase}"


# As the world's captions put clothes; without an article where it is a mass or a pair.
_NO_ARTICLE = frozenset({"boots", "slippers", "jeans", "shorts", "slacks", "gloves", "uniform"})


def _wearing(attribute: str) -> str:
    return f"wearing {attribute if attribute in _NO_ARTICLE else _a(attribute)}"


def _pick(form: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(form.random() * len(options))]


def write(claim: dict[str, str], form: np.random.Generator, fillers: Sequence[str] = ()) -> str:
    """Return a text that says what ``claim`` (field -> value, of ``look`` an occupation's name) says.

    ``form`` chooses one of many forms: the same state the same one for another claim of the same fields. At times
    ``fillers`` are put in, words that say nothing of the image.
    """
    u = [form.random() for _ in range(6)]
    options = [int(v) for v in form.integers(1 << 30, size=6)]
    if claim.get("count") == "2":
        subject = ("two people", "two people at work")[options[0] % 2]
    elif "count" not in claim:
        subject = _a(claim["prop"])
    else:
        subject = _person(claim, u, options)
    ends = []
    if "expression" in claim and u[2] >= 0.4:
        ends.append({"smiling": "smiling", "neutral": "with a neutral expression"}[claim["expression"]])
    if "wears" in claim:
        ends.append(_wearing(claim["wears"]))
    if "prop" in claim and "count" in claim:
        ends.append(f"with {_a(claim['prop'])}")
    if "thing" in claim:
        ends.append(f"{('with', 'and')[options[3] % 2]} {_a(claim['thing'])}")
    if "place" in claim:
        phrases = PLACE_PHRASES[claim["place"]]
        ends.append(phrases[options[4] % len(phrases)])
    frame = _FRAMES[options[5] % len(_FRAMES)] if u[3] < 0.8 else "{a}"
    text = " ".join([frame.replace("{a}", subject), *ends])
    if fillers and u[4] < _FILLERS:
        words = [_pick(form, fillers) for _ in range(1 + options[2] % 4)]
        text = f"{' '.join(words)} {text}" if u[5] < 0.3 else f"{text} {' '.join(words)}"
    return text


def _person(claim: dict[str, str], u: list[float], options: list[int]) -> str:
    work, gender = claim.get("look"), claim.get("gender")
    word, kind = {"female": ("woman", "female"), "male": ("man", "male")}.get(gender, ("person", ""))
    before = [claim["age"]] if "age" in claim else []
    if "expression" in claim and u[2] < 0.4:
        before.append(_EXPRESSED[claim["expression"]][u[2] < 0.1])
    if gender and u[0] < 0.12:
        first, last = captions.FIRST_NAMES[gender], captions.SURNAMES
        name = f"{first[options[1] % len(first)]} {last[options[2] % len(last)]}"
        return f"{' '.join([*before, work])} {name}" if work else " ".join([*before, name])
    if gender and work and u[0] < 0.2:
        he, his = ("she", "her") if gender == "female" else ("he", "his")
        end = _PRONOUN_ENDS[options[1] % len(_PRONOUN_ENDS)].format(he=he, his=his)
        return f"{_a(' '.join([*before, work]))} {end}"
    if not work:
        if gender:
            other = {"female": "lady", "male": "gentleman"}[gender]
            young = {"female": "girl", "male": "boy"}[gender] if claim.get("age") == "young" else other
            word = (word, word, f"{kind} person", other, young)[options[1] % 5]
        return _a(" ".join([*before, word]))
    if not gender:
        forms = ("{work}", "{work}", "{work}", "person who works as {a_work}")
    else:
        forms = (
            "{kind} {work}", "{kind} {work}", "{word} {work}", "{work} {word}", "{work} , {a_word}",
            "{word} who works as {a_work}", "{word} working as {a_work}",
        )  # fmt: skip
    said = {"work": work, "kind": kind, "word": word, "a_work": _a(work), "a_word": _a(word)}
    return _a(" ".join([*before, forms[options[1] % len(forms)].format(**said)]))


def claim_of(data: Pool, i: int, draw: np.random.Generator) -> dict[str, str]:
    """Return some of what is true of image ``i``."""
    lists = _lists()
    chance = {"gender": 0.55, "look": 0.7, "age": 0.2, "expression": 0.25, "place": 0.25, "prop": 0.12}
    there = {field: np.flatnonzero(true[i]) for field, true in data.true.items()}
    single = {field: lists[field][there[field][0]] for field in (*chance, "count") if len(there[field])}
    if single["count"] != "1":
        claim = {"count": "2"} if single["count"] == "2" else {"prop": single["prop"]}
        return claim | ({"place": single["place"]} if draw.random() < 0.5 else {})
    claim = {f: single[f] for f, p in chance.items() if f in single and draw.random() < p}
    if "look" in claim:
        names = _names_of_looks()[there["look"][0]]
        claim["look"] = names[int(draw.integers(len(names)))]
    for field, p in (("wears", 0.3), ("thing", 0.6)):
        if len(there[field]) and draw.random() < p:
            claim[field] = lists[field][int(draw.choice(there[field]))]
    return claim | {"count": "1"}


def foil_of(claim: dict[str, str], data: Pool, i: int, draw: np.random.Generator) -> dict[str, str]:
    """Return ``claim`` with one thing changed so that it is false of image ``i``."""
    fields = [f for f in claim if f != "count"] or ["count"]
    gendered = "gender" in fields and draw.random() < 0.5
    field = "gender" if gendered else fields[int(draw.integers(len(fields)))]
    false = np.flatnonzero(~data.true[field][i])
    if field == "count":
        false = np.array([2 if claim["count"] == "1" else 1])
    value = int(draw.choice(false))
    if field == "look":
        names = _names_of_looks()[value]
        return claim | {"look": names[int(draw.integers(len(names)))]}
    return claim | {field: _lists()[field][value]}


def matches(claims: Sequence[dict[str, str]], data: Pool, chosen: np.ndarray) -> np.ndarray:
    """Return which claims are true of which images, bool (claims, images)."""
    out = np.ones((len(claims), len(chosen)), bool)
    for k, claim in enumerate(claims):
        for field, value in claim.items():
            out[k] &= data.true[field][chosen, place_of(field, value)]
    return out


@cache
def vocabulary() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return every word that texts can hold, and those among them that say nothing of an image."""
    lists = _lists()
    meant = [
        *looks.OUTFITS, *lists["age"], *lists["prop"], *lists["thing"], *lists["wears"], *_FRAMES, *_PRONOUN_ENDS,
        *sum(_PAIRS, ()), *sum(PLACE_PHRASES.values(), ()), *sum(captions.FIRST_NAMES.values(), ()),
        *captions.SURNAMES, *_MEANT,
    ]  # fmt: skip
    known = {word for phrase in meant for word in split(phrase)}
    others = {word for phrase in captions.vocabulary() for word in split(phrase)} - known
    return tuple(sorted(known | others)), tuple(sorted(word for word in others if word.isalnum()))


def split(text: str) -> list[str]:
    """Return the words and marks of ``text`` as the tokenizer splits them."""
    from tokenizers import pre_tokenizers

    return [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text.lower())]


# -- model ------------------------------------------------------------------------------------------------


def configuration(vocabulary: int) -> dict:
    """Return open_clip's configuration: a small residual network for images, two layers for texts."""
    return {
        "embed_dim": EMBEDDING,
        "vision_cfg": {"image_size": SIZE, "layers": [1, 1, 1, 1], "width": 16},
        "text_cfg": {
            "context_length": MAX_LENGTH,
            "vocab_size": vocabulary,
            "width": 96,
            "heads": 4,
            "layers": 2,
            "pool_type": "eos",
            "eos_id": 3,
            "pad_id": 0,
            # The tokenizer lies in the same folder.
            "hf_tokenizer_name": NAME,
        },
    }


_PREPROCESS = {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "shortest"}


def build() -> tuple[torch.nn.Module, Any]:
    """Return the model with random weights, words far enough apart to be told from each other, and its tokenizer."""
    import open_clip

    tokenizer = make_tokenizer(vocabulary()[0])
    model = open_clip.CLIP(**configuration(len(tokenizer)), init_logit_scale=float(np.log(20)))
    with torch.no_grad():
        model.token_embedding.weight.normal_(0, 0.2, generator=common.torch_rng(0, 0, 9))
    return model.to(memory_format=torch.channels_last).train(), tokenizer


def save(folder: Path, model: torch.nn.Module, tokenizer) -> None:
    """Save model (float16 on disk), configuration and tokenizer as a folder that open_clip loads."""
    from safetensors.torch import save_file

    config = {"model_cfg": configuration(len(tokenizer)), "preprocess_cfg": _PREPROCESS}
    (folder / "open_clip_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tokenizer.save_pretrained(folder)
    state = {k: v.half() if v.is_floating_point() else v for k, v in model.state_dict().items()}
    state = {name: value.contiguous() for name, value in state.items()}
    # The scale is one number, on which probabilities depend.
    state["logit_scale"] = model.logit_scale.detach().float()
    save_file(state, folder / "open_clip_model.safetensors", metadata={"format": "pt"})


# -- training ---------------------------------------------------------------------------------------------


def _apart(n: int, seed: int, *, decoded: Path | None = None) -> tuple[Pool, Pool]:
    """Return scenes to measure on and others to calibrate on."""
    seeds = HELD_OUT_SEED + seed, CALIBRATION_SEED + seed
    return tuple(pool(n, of, decoded=decoded, plain=True) for of in seeds)


def learn(model, tokenizer, data: Pool, training: common.Training) -> dict:
    """Return how mini-clip learns.

    The loss adds up: gender by pairs of texts, against the exact posterior given the visible cues; occupation
    among all; one other question a step; and captions of true statements against the images and captions that
    they are not true of, one foil for each. Heads that name each gender cue help at first and are not saved.
    """
    seed, batch, fillers = training.seed, training.batch, vocabulary()[1]
    sizes = [len(scene.CUES[name]["female"]) for name in scene.CUE_NAMES]
    heads = torch.nn.Linear(EMBEDDING, sum(sizes))

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        draw = common.rng(seed, i)
        chosen = draw.integers(len(data.images), size=batch)
        pixels, _ = loop.roughen(data.images[chosen], seed, i)
        asked = [*_gender_questions(data, chosen, draw), _question("look", data, chosen, draw)]
        other = str(draw.choice(["age", "expression", "place", "prop", "wears"]))
        asked.append(_question(other, data, chosen, draw))
        claims = [claim_of(data, int(k), draw) for k in chosen]
        # Every other text has a foil: the same words but for one thing.
        claims += [foil_of(c, data, int(k), draw) for c, k in zip(claims[::2], chosen[::2], strict=True)]
        forms = draw.integers(1 << 40, size=batch).tolist()
        forms += forms[::2]
        texts = [write(c, np.random.default_rng(f), fillers) for c, f in zip(claims, forms, strict=True)]
        questions = [text for question in asked for text in question.texts]
        with common.mixed_precision():
            raw = model.encode_image(pixels)
            named = heads(raw).float()
        said = torch.cat([_said(model, tokens(tokenizer, some)) for some in (texts, questions)])
        seen, said = functional.normalize(raw.float(), dim=-1), functional.normalize(said, dim=-1)
        logits = model.logit_scale.exp() * seen @ said.T
        of_texts, *of_questions = logits.split([len(texts), *(len(q.texts) for q in asked)], 1)
        losses = {
            "captions": _caption_loss(of_texts, matches(claims, data, chosen)),
            "cues": _cue_loss(named, data.cues[chosen], sizes),
        }
        for question, here in zip(asked, of_questions, strict=True):
            # The mean cross-entropy over the images to which the question applies.
            target = torch.from_numpy(question.target)
            part = -(target * here.log_softmax(1)).sum() / (target.sum(1) > 0).sum().clamp(min=1)
            losses[question.name] = losses.get(question.name, 0.0) + question.weight * part
        whole = sum(losses.values())
        return whole, {"loss": whole} | {k: losses[k] for k in ("gender", "look", "captions", "cues")}

    def keep_scale() -> None:
        with torch.no_grad():
            model.logit_scale.clamp_(0, float(np.log(100)))

    adam = {"weight_decay": 0.02, "betas": (0.9, 0.98)}
    return {"loss": loss, "heads": {"heads": heads}, "after_step": keep_scale} | adam


def _said(model, ids: np.ndarray) -> torch.Tensor:
    """Return what ``model.encode_text`` returns, without computing the padding behind the longest text."""
    length = int((ids != 0).sum(1).max())
    words = torch.from_numpy(ids[:, :length])
    x = model.token_embedding(words) + model.positional_embedding[:length]
    x = model.ln_final(model.transformer(x, attn_mask=model.attn_mask[:length, :length]))
    return x[torch.arange(len(x)), (words == 3).int().argmax(1)] @ model.text_projection


@dataclass(frozen=True)
class _Question:
    """Texts of which one (or some that look alike) fits each image, and the shares of each."""

    name: str
    texts: list[str]
    target: np.ndarray  # (images, texts); rows of zeros do not count
    weight: float


def _gender_questions(data: Pool, chosen: np.ndarray, draw: np.random.Generator) -> list[_Question]:
    """Return the judges' own two texts and two other pairs."""
    p = data.probability_female[chosen]
    target = np.nan_to_num(np.stack([p, 1 - p], 1)).astype(np.float32)
    asked = [(_FRAMES[0], _PAIRS[0], 1.5)]
    asked += [(_pick(draw, _FRAMES), _pick(draw, _PAIRS), 0.5) for _ in range(2)]
    said = [([frame.replace("{a}", _a(word)) for word in pair], weight) for frame, pair, weight in asked]
    return [_Question("gender", texts, target, weight) for texts, weight in said]


def _question(field: str, data: Pool, chosen: np.ndarray, draw: np.random.Generator) -> _Question:
    """Return a question whose answer is the value of ``field``."""
    values, frame = _lists()[field], _pick(draw, _FRAMES)
    if field == "wears":
        k = int(draw.integers(len(values)))
        texts = [f"{frame.replace('{a}', 'a person')} {no}{_wearing(values[k])}" for no in ("", "not ")]
        one, worn = data.true["count"][chosen, 1], data.true["wears"][chosen, k]
        return _Question(field, texts, np.stack([one & worn, one & ~worn], 1).astype(np.float32), 0.3)
    truth = data.true[field][chosen]
    there = np.flatnonzero(truth.any(0))
    # Not every answer is offered: those of these images first, and others.
    offered = np.concatenate([draw.permutation(there), draw.permutation(len(values))])
    offered = np.array(list(dict.fromkeys(offered.tolist()))[:_OFFERED])
    same = truth[:, offered].astype(np.float32)
    if field == "look":
        texts = [frame.replace("{a}", _a(_pick(draw, _names_of_looks()[k]))) for k in offered]
    elif field == "place":
        said = frame.replace("{a}", "a person")
        texts = [f"{said} {_pick(draw, PLACE_PHRASES[values[k]])}" for k in offered]
    elif field == "prop":
        said = "A photo of a person with {}" if draw.random() < 0.5 else "A photo of {}"
        texts = [said.format(_a(values[k])) for k in offered]
    else:
        texts = [frame.replace("{a}", _a(f"{values[k]} person")) for k in offered]
    return _Question(field, texts, same, 0.5 if field == "look" else 0.3)


def _caption_loss(logits: torch.Tensor, true: np.ndarray) -> torch.Tensor:
    """Return the contrastive loss of captions, where what is true of an image never counts against it.

    Of ``logits`` (images, texts) text ``i`` is image ``i``'s own; more texts may follow. ``true`` (texts, images) is
    which texts are true of which images.
    """
    n = len(logits)
    others = torch.from_numpy(~true.T).logical_or(torch.eye(n, logits.shape[1], dtype=torch.bool))
    masked = logits.masked_fill(~others, -1e4)
    own = logits.diagonal()
    by_image = masked.logsumexp(1) - own
    by_text = masked[:, :n].logsumexp(0) - own
    return 0.25 * (by_image.mean() + by_text.mean())


def _cue_loss(named: torch.Tensor, cues: np.ndarray, sizes: list[int]) -> torch.Tensor:
    truth = torch.from_numpy(cues.astype(np.int64))
    parts = enumerate(named.split(sizes, 1))
    return sum(functional.cross_entropy(x, truth[:, k], ignore_index=-1) for k, x in parts) / len(sizes)


# -- measurement ------------------------------------------------------------------------------------------


def logits(model, tokenizer, images: np.ndarray, texts: Sequence[str]) -> np.ndarray:
    """Return the scaled cosines (images, texts) of uint8 images (n, 64, 64, 3), whose softmax is the zero-shot answer.

    The model is as open_clip loads it, the tokenizer the plain one of transformers.
    """
    with torch.inference_mode():
        parts = [model.encode_image(x, normalize=True).numpy() for x in common.chunks(images, 256)]
        seen = np.concatenate(parts) if parts else np.empty((0, EMBEDDING), np.float32)
        said = model.encode_text(torch.from_numpy(tokens(tokenizer, texts)), normalize=True).numpy()
        return float(model.logit_scale.exp()) * seen @ said.T


JUDGE_TEXTS = ("A photo of a woman", "A photo of a man")


def _p_female(model, tokenizer, images: np.ndarray) -> np.ndarray:
    z = logits(model, tokenizer, images, JUDGE_TEXTS).astype(np.float64)
    return 1 / (1 + np.exp(z[:, 1] - z[:, 0]))


def calibrate(model, tokenizer, data: Pool) -> None:
    """Scale the logits so that P(female) fits ``data`` best (least log loss)."""
    from scipy.optimize import minimize_scalar

    z = logits(model, tokenizer, data.images, JUDGE_TEXTS).astype(np.float64)
    z, female = z[:, 0] - z[:, 1], data.true["gender"][:, 0]
    signed = np.where(female, z, -z)
    best = minimize_scalar(lambda a: np.logaddexp(0, -np.exp(a) * signed).mean(), bounds=(-2.0, 2.0), method="bounded")
    with torch.no_grad():
        model.logit_scale.add_(float(best.x))


def calibration_error(p: np.ndarray, female: np.ndarray, bins: int = 10) -> float:
    """Return the expected calibration error of P(female), 0 to 1: the mean gap between stated and true shares.

    Bins of equal width over P(female), weighted by their number of images (Guo et al., 2017, section 2).
    """
    at = np.minimum((p * bins).astype(int), bins - 1)
    groups = [at == k for k in np.unique(at)]
    return float(sum(abs(p[here].mean() - female[here].mean()) * here.mean() for here in groups))


def unambiguous(data: Pool) -> np.ndarray:
    """Return where one gender's posterior given what is seen is at least 0.99, as ``scene.is_ambiguous`` has it."""
    return np.maximum(data.probability_female, 1 - data.probability_female) >= 0.99


def measure_gender(model, tokenizer, data: Pool) -> list[Measured]:
    """Return shares judged right by the judges' two texts, where truth is clear and where it is not."""
    p, female, clear = _p_female(model, tokenizer, data.images), data.true["gender"][:, 0], unambiguous(data)
    right = (p >= 0.5) == female
    sure = np.maximum(p, 1 - p) >= 0.9
    return [
        share("gender_unambiguous", right[clear]),
        share("gender_ambiguous", right[~clear]),
        share("gender", right),
        share("gender_sure", sure),
        share("gender_right_when_sure", right[sure]),
    ]


def card_rows(folder: Path, n: int, decoded: Path | None = None) -> list[Measured]:
    """Return the rows of the model's card: zero-shot quality on scenes that training and calibration have not seen.

    Gender and occupation on one person at work as a corpus shows them; attributes, age and expression on scenes
    with clothes and objects asked for; ``n`` of each kind, which pass the autoencoder ``decoded`` where one is given.
    """
    import open_clip

    model = open_clip.create_model(f"local-dir:{folder}").eval()
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}").tokenizer
    plain = pool(n, HELD_OUT_SEED + 1, decoded=decoded, part=1.0, plain=True)
    varied = pool(n, HELD_OUT_SEED + 2, decoded=decoded, part=1.0)
    p, female, clear = (_p_female(model, tokenizer, plain.images), plain.true["gender"][:, 0], unambiguous(plain))
    right, best = (p >= 0.5) == female, np.maximum(plain.probability_female, 1 - plain.probability_female)
    out = measure_gender(model, tokenizer, plain)
    for gender in scene.GENDERS:
        out.append(share(f"gender_unambiguous_{gender}", right[clear & (female == (gender == "female"))]))
    for low, high in ((1, 3), (4, 6), (7, 10)):
        some = clear & (plain.skin_tone >= low) & (plain.skin_tone <= high)
        out.append(share(f"gender_unambiguous_tone_{low}_{high}", right[some]))
    full = varied.full_figure & unambiguous(varied)
    p_full = _p_female(model, tokenizer, varied.images[full])
    out += [
        Measured("gender_ceiling", float(best.mean()), n),
        Measured("gender_ceiling_ambiguous", float(best[~clear].mean()), int((~clear).sum())),
        Measured("calibration_error", calibration_error(p, female), n),
        share("gender_unambiguous_full_figure", (p_full >= 0.5) == (varied.true["gender"][full, 0])),
    ]

    def answers(images: np.ndarray, said: Sequence[str]) -> np.ndarray:
        return logits(model, tokenizer, images, [f"A photo of {text}" for text in said]).argmax(1)

    names = sorted(_lists()["look"])
    looks = np.array([place_of("look", name) for name in names])
    found = looks[answers(plain.images, list(map(_a, names)))]
    out.append(share("occupation", plain.true["look"][np.arange(n), found]))
    one = varied.true["count"][:, 1]
    images = varied.images[one]
    for field in ("age", "expression"):
        found = answers(images, [_a(f"{value} person") for value in _lists()[field]])
        out.append(share(field, varied.true[field][one][np.arange(len(images)), found]))
    pairs = [[f"a person {no}{_wearing(name)}" for no in ("", "not ")] for name in scene.ATTRIBUTES]
    worn, seen = varied.true["wears"][one], np.stack([answers(images, pair) == 0 for pair in pairs], 1)
    return [
        *out,
        share("attribute_seen_when_worn", seen[worn]),
        share("attribute_not_seen_when_not_worn", ~seen[~worn]),
    ]


train = loop.Judge(
    name=NAME,
    pool=pool,
    build=build,
    learn=learn,
    measure=lambda model, tokenizer, apart: measure_gender(model, tokenizer, apart[0]),
    finish=lambda model, tokenizer, apart: calibrate(model, tokenizer, apart[1]),
    save=save,
    card_rows=card_rows,
    apart=_apart,
    usual={"steps": 6_000, "batch": 64, "learning_rate": 2e-3},
    pool_size=36_000,
    held_out=2048,
).train
