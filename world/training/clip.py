"""Training of mini-clip: joint embeddings of images and texts of the synthetic world, in open_clip's format.

The truth of every text for every image is known exactly, so a true text is never a negative example of an
image. Gender is sampled independently of everything else: the judge learns no prior from occupations.
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
# Share of scenes by content: a person with an occupation, without one, two people, a product image.
_CONTENT = {"work": 0.84, "plain": 0.06, "two": 0.04, "decoy": 0.06}
_PAIRS = (("woman", "man"), ("female person", "male person"), ("lady", "gentleman"), ("woman's face", "man's face"))
# Judges use the first one.
_FRAMES = (
    "A photo of {a}", "A portrait photo of {a}", "A photo of the face of {a}", "A picture of {a}", "Photo of {a}",
    "Portrait of {a}", "{a}", "Close-up photo of {a}", "{a} at work", "A photo of {a} at work", "A drawing of {a}",
    "There is {a}",
)  # fmt: skip
_EXPRESSION_WORDS = {"smiling": ("smiling", "happy"), "neutral": ("serious", "neutral")}
_PRONOUN_ENDS = ("at {his} work", "proud of {his} work", "as {he} works", "doing {his} job", "with {his} tools")
# Words with content in the texts below, and more words for gender, expression and number; fillers exclude them.
_CONTENT_WORDS = (
    "female male person people two woman man women men girl boy girls boys lady ladies gentleman gentlemen mother",
    "father she he her his hers him himself herself both everyone nobody no not",
    "smiling happy serious neutral with a neutral expression big smile cheerful sad",
    "who works working as a an and wearing in , . ' s -",
)
# Maximum number of answers to one question.
_MAX_ANSWERS = 40
# Share of captions with words that are unrelated to the image.
_FILLERS = 0.3


# -- content of images and claims of texts ----------------------------------------------------------------


@cache
def _names_of_looks() -> tuple[tuple[str, ...], ...]:
    """Return the occupations of each look."""
    names: dict[looks.Outfit, list[str]] = {}
    for occupation in sorted(looks.OUTFITS):
        names.setdefault(looks.OUTFITS[occupation], []).append(occupation)
    return tuple(map(tuple, names.values()))


@cache
def _lists() -> dict[str, tuple[str, ...]]:
    """Return the values of each field that texts can claim; ``look`` has one name per look."""
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
    """Return the index of a value in its field's list; occupations with the same look share an index."""
    if field != "look":
        return _lists()[field].index(value)
    return next(i for i, names in enumerate(_names_of_looks()) if value in names)


@dataclass(frozen=True)
class Pool:
    """Images with their ground truth."""

    images: np.ndarray  # uint8 (n, 64, 64, 3)
    true: dict[str, np.ndarray]
    """Field -> (n, values) bool: whether each value is true of each image; all false if the field does not apply."""
    probability_female: np.ndarray
    """Exact posterior of perceived as female given the visible cues, (n,) float32; NaN unless one person is shown."""
    cues: np.ndarray
    """Value of each gender cue, (n, 9) int8; -1 if it is covered or the image does not show exactly one person."""
    full_figure: np.ndarray  # whether the image shows one person from head to foot, (n,) bool
    skin_tone: np.ndarray  # Monk tone of the person, (n,) int8; 0 unless exactly one person is shown


def sample(draw: np.random.Generator, *, plain: bool = False) -> Scene:
    """Return a random scene, mostly one person at work, with gender independent of everything else.

    A ``plain`` scene has one person with an occupation and no further requirements, as in a corpus.
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
    """Return ``n`` scenes of ``seed``; a share ``part`` of the images passes the autoencoder ``decoded``."""
    draw = common.rng(seed, 0, 32)
    scenes = [sample(draw, plain=plain) for _ in range(n)]
    true = {field: np.zeros((n, len(values)), bool) for field, values in _lists().items()}
    probability_female, full = np.full(n, np.nan, np.float32), np.zeros(n, bool)
    cues, tone = np.full((n, len(scene.CUE_NAMES)), -1, np.int8), np.zeros(n, np.int8)
    values = [list(scene.CUES[name]["female"]) for name in scene.CUE_NAMES]
    for i, sampled in enumerate(scenes):
        facts: dict[str, Sequence[str]] = {
            "place": [sampled.place],
            "count": [str(min(len(sampled.people), 2))],
            "thing": [thing.kind for thing in sampled.things],
            "prop": [sampled.decoy] if sampled.decoy else [],
        }
        if len(sampled.people) == 1:
            (person,) = sampled.people
            facts |= {field: [getattr(person, field)] for field in ("gender", "age", "expression")}
            facts["wears"] = person.attributes
            if person.occupation is not None:
                facts |= {"look": [person.occupation], "prop": [looks.outfit(person.occupation).prop]}
            hidden = scene.hidden_cues(person)
            probability_female[i] = scene.posterior_female(person.cues, hidden)
            full[i], tone[i] = person.full_figure, person.skin_tone
            for k, name in enumerate(scene.CUE_NAMES):
                if name not in hidden:
                    cues[i, k] = values[k].index(getattr(person.cues, name))
        for field, values_shown in facts.items():
            true[field][i, [place_of(field, value) for value in values_shown]] = True
    images = loop.renders(scenes, squash=False, decoded=decoded, part=part, seed=seed)
    return Pool(images, true, probability_female, cues, full, tone)


# -- texts ------------------------------------------------------------------------------------------------


def _a(phrase: str) -> str:
    return f"{'an' if phrase[0].lower() in 'aeiou' else 'a'} {phrase}"


# Clothes without an article in the world's captions: plural and mass nouns.
_NO_ARTICLE = frozenset({"boots", "slippers", "jeans", "shorts", "slacks", "gloves", "uniform"})


def _wearing(attribute: str) -> str:
    return f"wearing {attribute if attribute in _NO_ARTICLE else _a(attribute)}"


def _pick(form: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(form.random() * len(options))]


def write(claim: dict[str, str], form: np.random.Generator, fillers: Sequence[str] = ()) -> str:
    """Return a text that states ``claim`` (field -> value; the value of ``look`` is an occupation's name).

    The state of ``form`` determines the form of the text, also for other claims with the same fields. Some texts
    contain ``fillers``, words that are unrelated to the image.
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
    adjectives = [claim["age"]] if "age" in claim else []
    if "expression" in claim and u[2] < 0.4:
        adjectives.append(_EXPRESSION_WORDS[claim["expression"]][u[2] < 0.1])
    if gender and u[0] < 0.12:
        first_names, surnames = captions.FIRST_NAMES[gender], captions.SURNAMES
        name = f"{first_names[options[1] % len(first_names)]} {surnames[options[2] % len(surnames)]}"
        return f"{' '.join([*adjectives, work])} {name}" if work else " ".join([*adjectives, name])
    if gender and work and u[0] < 0.2:
        he, his = ("she", "her") if gender == "female" else ("he", "his")
        end = _PRONOUN_ENDS[options[1] % len(_PRONOUN_ENDS)].format(he=he, his=his)
        return f"{_a(' '.join([*adjectives, work]))} {end}"
    if not work:
        if gender:
            adult = {"female": "lady", "male": "gentleman"}[gender]
            word_by_age = {"female": "girl", "male": "boy"}[gender] if claim.get("age") == "young" else adult
            word = (word, word, f"{kind} person", adult, word_by_age)[options[1] % 5]
        return _a(" ".join([*adjectives, word]))
    if not gender:
        forms = ("{work}", "{work}", "{work}", "person who works as {a_work}")
    else:
        forms = (
            "{kind} {work}", "{kind} {work}", "{word} {work}", "{work} {word}", "{work} , {a_word}",
            "{word} who works as {a_work}", "{word} working as {a_work}",
        )  # fmt: skip
    slots = {"work": work, "kind": kind, "word": word, "a_work": _a(work), "a_word": _a(word)}
    return _a(" ".join([*adjectives, forms[options[1] % len(forms)].format(**slots)]))


def claim_of(data: Pool, i: int, draw: np.random.Generator) -> dict[str, str]:
    """Return a random subset of the true facts of image ``i``."""
    lists = _lists()
    chance = {"gender": 0.55, "look": 0.7, "age": 0.2, "expression": 0.25, "place": 0.25, "prop": 0.12}
    true_indices = {field: np.flatnonzero(true[i]) for field, true in data.true.items()}
    single = {field: lists[field][true_indices[field][0]] for field in (*chance, "count") if len(true_indices[field])}
    if single["count"] != "1":
        claim = {"count": "2"} if single["count"] == "2" else {"prop": single["prop"]}
        return claim | ({"place": single["place"]} if draw.random() < 0.5 else {})
    claim = {f: single[f] for f, p in chance.items() if f in single and draw.random() < p}
    if "look" in claim:
        names = _names_of_looks()[true_indices["look"][0]]
        claim["look"] = names[int(draw.integers(len(names)))]
    for field, p in (("wears", 0.3), ("thing", 0.6)):
        if len(true_indices[field]) and draw.random() < p:
            claim[field] = lists[field][int(draw.choice(true_indices[field]))]
    return claim | {"count": "1"}


def foil_of(claim: dict[str, str], data: Pool, i: int, draw: np.random.Generator) -> dict[str, str]:
    """Return ``claim`` with one value changed so that it is false of image ``i``."""
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
    """Return whether each claim is true of each image, bool (claims, images)."""
    out = np.ones((len(claims), len(chosen)), bool)
    for k, claim in enumerate(claims):
        for field, value in claim.items():
            out[k] &= data.true[field][chosen, place_of(field, value)]
    return out


@cache
def vocabulary() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return all words of texts, and the subset of fillers, which are unrelated to an image."""
    lists = _lists()
    content = [
        *looks.OUTFITS, *lists["age"], *lists["prop"], *lists["thing"], *lists["wears"], *_FRAMES, *_PRONOUN_ENDS,
        *sum(_PAIRS, ()), *sum(PLACE_PHRASES.values(), ()), *sum(captions.FIRST_NAMES.values(), ()),
        *captions.SURNAMES, *_CONTENT_WORDS,
    ]  # fmt: skip
    content_words = {word for phrase in content for word in split(phrase)}
    filler_words = {word for phrase in captions.vocabulary() for word in split(phrase)} - content_words
    return tuple(sorted(content_words | filler_words)), tuple(sorted(word for word in filler_words if word.isalnum()))


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
            # The tokenizer is in the same folder.
            "hf_tokenizer_name": NAME,
        },
    }


_PREPROCESS = {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "shortest"}


def build() -> tuple[torch.nn.Module, Any]:
    """Return the model with random weights, with token embeddings spread widely enough, and its tokenizer."""
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
    # The scale stays float32, because all probabilities depend on it.
    state["logit_scale"] = model.logit_scale.detach().float()
    save_file(state, folder / "open_clip_model.safetensors", metadata={"format": "pt"})


# -- training ---------------------------------------------------------------------------------------------


def _held_out_pools(n: int, seed: int, *, decoded: Path | None = None) -> tuple[Pool, Pool]:
    """Return scenes for testing and others for calibration."""
    seeds = HELD_OUT_SEED + seed, CALIBRATION_SEED + seed
    return tuple(pool(n, pool_seed, decoded=decoded, plain=True) for pool_seed in seeds)


def learn(model, tokenizer, data: Pool, training: common.Training) -> dict:
    """Return the loss and optimizer settings of mini-clip, see :class:`~training.loop.Judge`.

    The loss is a sum: gender by pairs of texts, with the exact posterior given the visible cues as target;
    occupation among all; one other question per step; and a contrastive loss of true captions, with negatives that
    are false and foils for half of them. Auxiliary heads predict each gender cue and are not saved.
    """
    seed, batch, fillers = training.seed, training.batch, vocabulary()[1]
    sizes = [len(scene.CUES[name]["female"]) for name in scene.CUE_NAMES]
    heads = torch.nn.Linear(EMBEDDING, sum(sizes))

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        draw = common.rng(seed, i)
        chosen = draw.integers(len(data.images), size=batch)
        pixels, _ = loop.roughen(data.images[chosen], seed, i)
        questions_asked = [*_gender_questions(data, chosen, draw), _question("look", data, chosen, draw)]
        other_field = str(draw.choice(["age", "expression", "place", "prop", "wears"]))
        questions_asked.append(_question(other_field, data, chosen, draw))
        claims = [claim_of(data, int(k), draw) for k in chosen]
        # Every other text has a foil: the same words except for one value.
        claims += [foil_of(c, data, int(k), draw) for c, k in zip(claims[::2], chosen[::2], strict=True)]
        forms = draw.integers(1 << 40, size=batch).tolist()
        forms += forms[::2]
        texts = [write(c, np.random.default_rng(f), fillers) for c, f in zip(claims, forms, strict=True)]
        questions = [text for question in questions_asked for text in question.texts]
        with common.mixed_precision():
            raw = model.encode_image(pixels)
            cue_logits = heads(raw).float()
        text_features = torch.cat([_encode_texts(model, tokens(tokenizer, part)) for part in (texts, questions)])
        text_features = functional.normalize(text_features, dim=-1)
        logits = model.logit_scale.exp() * functional.normalize(raw.float(), dim=-1) @ text_features.T
        text_logits, *logits_by_question = logits.split([len(texts), *(len(q.texts) for q in questions_asked)], 1)
        losses = {
            "captions": _caption_loss(text_logits, matches(claims, data, chosen)),
            "cues": _cue_loss(cue_logits, data.cues[chosen], sizes),
        }
        for question, question_logits in zip(questions_asked, logits_by_question, strict=True):
            # The mean cross-entropy over the images to which the question applies.
            target = torch.from_numpy(question.target)
            part = -(target * question_logits.log_softmax(1)).sum() / (target.sum(1) > 0).sum().clamp(min=1)
            losses[question.name] = losses.get(question.name, 0.0) + question.weight * part
        total = sum(losses.values())
        return total, {"loss": total} | {k: losses[k] for k in ("gender", "look", "captions", "cues")}

    def keep_scale() -> None:
        with torch.no_grad():
            model.logit_scale.clamp_(0, float(np.log(100)))

    adam = {"weight_decay": 0.02, "betas": (0.9, 0.98)}
    return {"loss": loss, "heads": {"heads": heads}, "after_step": keep_scale} | adam


def _encode_texts(model, ids: np.ndarray) -> torch.Tensor:
    """Return the result of ``model.encode_text``, without computing the padding after the longest text."""
    length = int((ids != 0).sum(1).max())
    words = torch.from_numpy(ids[:, :length])
    x = model.token_embedding(words) + model.positional_embedding[:length]
    x = model.ln_final(model.transformer(x, attn_mask=model.attn_mask[:length, :length]))
    return x[torch.arange(len(x)), (words == 3).int().argmax(1)] @ model.text_projection


@dataclass(frozen=True)
class _Question:
    """Answer texts, and the probability of each answer for each image."""

    name: str
    texts: list[str]
    target: np.ndarray  # (images, texts); rows of zeros do not count
    weight: float


def _gender_questions(data: Pool, chosen: np.ndarray, draw: np.random.Generator) -> list[_Question]:
    """Return the two texts of the judges and two other pairs."""
    p = data.probability_female[chosen]
    target = np.nan_to_num(np.stack([p, 1 - p], 1)).astype(np.float32)
    pairs = [(_FRAMES[0], _PAIRS[0], 1.5)]
    pairs += [(_pick(draw, _FRAMES), _pick(draw, _PAIRS), 0.5) for _ in range(2)]
    texts_by_pair = [([frame.replace("{a}", _a(word)) for word in pair], weight) for frame, pair, weight in pairs]
    return [_Question("gender", texts, target, weight) for texts, weight in texts_by_pair]


def _question(field: str, data: Pool, chosen: np.ndarray, draw: np.random.Generator) -> _Question:
    """Return a question about the value of ``field``."""
    values, frame = _lists()[field], _pick(draw, _FRAMES)
    if field == "wears":
        k = int(draw.integers(len(values)))
        texts = [f"{frame.replace('{a}', 'a person')} {no}{_wearing(values[k])}" for no in ("", "not ")]
        is_single, is_worn = data.true["count"][chosen, 1], data.true["wears"][chosen, k]
        return _Question(field, texts, np.stack([is_single & is_worn, is_single & ~is_worn], 1).astype(np.float32), 0.3)
    truth = data.true[field][chosen]
    answers_present = np.flatnonzero(truth.any(0))
    # The number of answers is limited: those of the images come first, then others.
    answers = np.concatenate([draw.permutation(answers_present), draw.permutation(len(values))])
    answers = np.array(list(dict.fromkeys(answers.tolist()))[:_MAX_ANSWERS])
    target = truth[:, answers].astype(np.float32)
    if field == "look":
        texts = [frame.replace("{a}", _a(_pick(draw, _names_of_looks()[k]))) for k in answers]
    elif field == "place":
        frame_text = frame.replace("{a}", "a person")
        texts = [f"{frame_text} {_pick(draw, PLACE_PHRASES[values[k]])}" for k in answers]
    elif field == "prop":
        frame_text = "A photo of a person with {}" if draw.random() < 0.5 else "A photo of {}"
        texts = [frame_text.format(_a(values[k])) for k in answers]
    else:
        texts = [frame.replace("{a}", _a(f"{values[k]} person")) for k in answers]
    return _Question(field, texts, target, 0.5 if field == "look" else 0.3)


def _caption_loss(logits: torch.Tensor, true: np.ndarray) -> torch.Tensor:
    """Return the contrastive loss of captions, in which true texts of an image are never negatives.

    In ``logits`` (images, texts), text ``i`` is the caption of image ``i``; more texts may follow. ``true`` (texts,
    images) is whether each text is true of each image.
    """
    n = len(logits)
    negatives = torch.from_numpy(~true.T).logical_or(torch.eye(n, logits.shape[1], dtype=torch.bool))
    masked = logits.masked_fill(~negatives, -1e4)
    positives = logits.diagonal()
    by_image = masked.logsumexp(1) - positives
    by_text = masked[:, :n].logsumexp(0) - positives
    return 0.25 * (by_image.mean() + by_text.mean())


def _cue_loss(cue_logits: torch.Tensor, cues: np.ndarray, sizes: list[int]) -> torch.Tensor:
    truth = torch.from_numpy(cues.astype(np.int64))
    parts = enumerate(cue_logits.split(sizes, 1))
    return sum(functional.cross_entropy(x, truth[:, k], ignore_index=-1) for k, x in parts) / len(sizes)


# -- measurement ------------------------------------------------------------------------------------------


def logits(model, tokenizer, images: np.ndarray, texts: Sequence[str]) -> np.ndarray:
    """Return the scaled cosines (images, texts) of uint8 images (n, 64, 64, 3), the logits of zero-shot answers.

    The model is loaded by open_clip; the tokenizer is that of transformers.
    """
    with torch.inference_mode():
        parts = [model.encode_image(x, normalize=True).numpy() for x in common.chunks(images, 256)]
        image_features = np.concatenate(parts) if parts else np.empty((0, EMBEDDING), np.float32)
        text_features = model.encode_text(torch.from_numpy(tokens(tokenizer, texts)), normalize=True).numpy()
        return float(model.logit_scale.exp()) * image_features @ text_features.T


JUDGE_TEXTS = ("A photo of a woman", "A photo of a man")


def _p_female(model, tokenizer, images: np.ndarray) -> np.ndarray:
    z = logits(model, tokenizer, images, JUDGE_TEXTS).astype(np.float64)
    return 1 / (1 + np.exp(z[:, 1] - z[:, 0]))


def calibrate(model, tokenizer, data: Pool) -> None:
    """Scale the logits so that P(female) has the minimum log loss on ``data``."""
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
    bin_indices = np.minimum((p * bins).astype(int), bins - 1)
    groups = [bin_indices == k for k in np.unique(bin_indices)]
    return float(sum(abs(p[members].mean() - female[members].mean()) * members.mean() for members in groups))


def unambiguous(data: Pool) -> np.ndarray:
    """Return whether one gender's posterior given the visible cues is at least 0.99, see ``scene.is_ambiguous``."""
    return np.maximum(data.probability_female, 1 - data.probability_female) >= 0.99


def measure_gender(model, tokenizer, data: Pool) -> list[Measured]:
    """Return gender accuracy with the two texts of the judges, for unambiguous and ambiguous images."""
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
    """Return the rows of the model's card: zero-shot quality on scenes that training and calibration never used.

    Gender and occupation are measured on one person at work, as in a corpus; attributes, age and expression on scenes
    with specified clothes and objects. Each has ``n`` images, which pass the autoencoder ``decoded``, if any.
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
        members = clear & (plain.skin_tone >= low) & (plain.skin_tone <= high)
        out.append(share(f"gender_unambiguous_tone_{low}_{high}", right[members]))
    full = varied.full_figure & unambiguous(varied)
    p_full = _p_female(model, tokenizer, varied.images[full])
    out += [
        Measured("gender_ceiling", float(best.mean()), n),
        Measured("gender_ceiling_ambiguous", float(best[~clear].mean()), int((~clear).sum())),
        Measured("calibration_error", calibration_error(p, female), n),
        share("gender_unambiguous_full_figure", (p_full >= 0.5) == (varied.true["gender"][full, 0])),
    ]

    def answers(images: np.ndarray, phrases: Sequence[str]) -> np.ndarray:
        return logits(model, tokenizer, images, [f"A photo of {text}" for text in phrases]).argmax(1)

    names = sorted(_lists()["look"])
    looks = np.array([place_of("look", name) for name in names])
    predicted = looks[answers(plain.images, list(map(_a, names)))]
    out.append(share("occupation", plain.true["look"][np.arange(n), predicted]))
    is_single = varied.true["count"][:, 1]
    images = varied.images[is_single]
    for field in ("age", "expression"):
        predicted = answers(images, [_a(f"{value} person") for value in _lists()[field]])
        out.append(share(field, varied.true[field][is_single][np.arange(len(images)), predicted]))
    pairs = [[f"a person {no}{_wearing(name)}" for no in ("", "not ")] for name in scene.ATTRIBUTES]
    worn, is_predicted = (
        varied.true["wears"][is_single],
        np.stack([answers(images, pair) == 0 for pair in pairs], 1),
    )
    return [
        *out,
        share("attribute_sensitivity", is_predicted[worn]),
        share("attribute_specificity", ~is_predicted[~worn]),
    ]


train = loop.Judge(
    name=NAME,
    pool=pool,
    build=build,
    learn=learn,
    measure=lambda model, tokenizer, data: measure_gender(model, tokenizer, data[0]),
    finish=lambda model, tokenizer, data: calibrate(model, tokenizer, data[1]),
    save=save,
    card_rows=card_rows,
    draw_test_data=_held_out_pools,
    defaults={"steps": 6_000, "batch": 64, "learning_rate": 2e-3},
    pool_size=36_000,
    held_out=2048,
).train
