"""Training of mini-vqa: answers to DALL-Eval's questions about one person, in the format of BLIP.

An image has all its attributes drawn evenly, whatever gender and profession, so that the model has to see them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from biaslab.papers.dalleval import prompts
from biaslab_world import captions, social
from training import cards, common, loop
from training.cards import Measured
from training.loop import SIZE
from training.text import make_tokenizer, tokens

NAME = "mini-vqa"
WIDTH, PATCH = 96, 8
# BLIP's own configuration starts an image encoder at practically nothing.
_SPREAD = 0.1
# Weight of the image encoder's second task, see _direct.
_DIRECT = 0.5
# Questions about each image in a step: one about gender, the others about attributes.
_ASKED = 4
# Share of images of which one of these is about something that is worn.
_WORN = 0.25
_ANSWERS = ("no", "yes", "male", "female")


@dataclass
class Pool:
    """Renders of one person each, and the answer to every question about them."""

    images: np.ndarray  # uint8 (n, 64, 64, 3)
    answers: np.ndarray  # uint8 (n, questions): places in ``_ANSWERS``


def questions() -> list[str]:
    """Return the questions: about gender, then about each attribute."""
    return [prompts.GENDER_QUESTION, *map(prompts.attribute_question, prompts.ATTRIBUTES)]


def pool(n: int, seed: int, *, decoded: Path | None = None, part: float = loop.DECODED) -> Pool:
    """Return ``n`` renders drawn from ``seed``; ``part`` of them through the autoencoder ``decoded``."""
    draw, rows = common.rng(seed, 0, 71), prompts.social().to_dict("records")
    scenes = [social.balanced_scene(draw, rows) for _ in range(n)]
    people = [scene.people[0] for scene in scenes]
    answers = [[_ANSWERS.index(p.gender), *(int(a in p.attributes) for a in prompts.ATTRIBUTES)] for p in people]
    images = loop.renders(scenes, squash=False, decoded=decoded, part=part, seed=seed)
    return Pool(images, np.array(answers, np.uint8))


def tokenizer():
    """Return the tokenizer of all questions and answers."""
    return make_tokenizer(word for text in [*questions(), *_ANSWERS] for word in captions.words(text))


def asked_ids(words) -> torch.Tensor:
    """Return the token ids of the questions, (questions, length), no longer than the longest."""
    ids = tokens(words, questions())
    return torch.from_numpy(ids[:, (ids != words.pad_token_id).any(axis=0)])


def build(kind: str, words) -> tuple[torch.nn.Module, Any]:
    """Return one of transformers' kinds of BLIP with random weights, and its tokenizer.

    Images of 64 pixels as 8x8 patches through four layers, texts through two.
    """
    import transformers

    both = {
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_attention_heads": 4,
        "initializer_range": _SPREAD,
    }
    images = {"num_hidden_layers": 4, "image_size": SIZE, "patch_size": PATCH, "attention_dropout": 0.0}
    texts = {
        "vocab_size": len(words),
        "encoder_hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "max_position_embeddings": words.model_max_length,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
        "sep_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
    }
    config = transformers.BlipConfig(
        text_config=both | texts, vision_config=both | images, projection_dim=WIDTH, image_text_hidden_size=WIDTH
    )
    return getattr(transformers, kind)(config).train(), words


def learn(model, words, data: Pool, training: common.Training) -> dict[str, Any]:
    """Return how mini-vqa learns.

    Source: dalleval paper, section 4.2.1 (the questions).
    """
    seed = training.seed
    head = torch.nn.Linear(WIDTH, len(questions()))
    ids = asked_ids(words)
    said = torch.tensor(words.convert_tokens_to_ids(list(_ANSWERS)))

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        draw = common.rng(seed, i)
        chosen = draw.integers(len(data.images), size=training.batch)
        pixels, _ = loop.roughen(data.images[chosen], seed, i)
        # About gender, thrice about anything, and in some images about something worn.
        true = data.answers[chosen]
        worn = (true[:, 1:] == 1) + 1e-3 * draw.random(true[:, 1:].shape)
        asked = draw.integers(1, len(ids), (len(chosen), _ASKED))
        some = 1 + (worn * draw.random(worn.shape)).argmax(axis=1)
        asked[:, 0] = 0
        asked[:, 1] = np.where(draw.random(len(asked)) < _WORN, some, asked[:, 1])
        right = said[torch.from_numpy(np.take_along_axis(true, asked, 1).astype(np.int64)).flatten()]
        with common.mixed_precision():
            seen = model.vision_model(pixel_values=pixels).last_hidden_state
            error = _error(model, seen, ids[torch.from_numpy(asked).flatten()], right, words)
        direct = _direct(head, seen.float(), true)
        return error + _DIRECT * direct, {"loss": error, "direct": direct}

    return {"loss": loss, "heads": {"head": head}, "weight_decay": 2e-2, "betas": (0.9, 0.98)}


def _logits(model, seen: torch.Tensor, asked: torch.Tensor, given: torch.Tensor, words) -> torch.Tensor:
    """Return the logits of the words after those ``given``; ``seen`` is the image of each question, encoded."""
    mask = (asked != words.pad_token_id).long()
    states = model.text_encoder(
        input_ids=asked,
        attention_mask=mask,
        encoder_hidden_states=seen,
        encoder_attention_mask=torch.ones(seen.shape[:2], dtype=torch.long),
    ).last_hidden_state
    decoded = model.text_decoder(input_ids=given, encoder_hidden_states=states, encoder_attention_mask=mask)
    return decoded.logits


def _direct(head, seen: torch.Tensor, true: np.ndarray) -> torch.Tensor:
    """Return the cross-entropy of reading every answer off the encoded image itself.

    The head is trained with the model and not kept: through a question alone an image encoder learns very slowly.
    """
    positive = np.concatenate([true[:, :1] == _ANSWERS.index("female"), true[:, 1:] == 1], axis=1)
    wanted = torch.from_numpy(positive.astype(np.float32))
    return torch.nn.functional.binary_cross_entropy_with_logits(head(seen.mean(1)), wanted)


def _error(model, seen, asked, right, words) -> torch.Tensor:
    """Return the cross-entropy of answers: the word, and then the end of the text."""
    seen = seen.repeat_interleave(len(asked) // len(seen), dim=0)
    given = torch.stack([torch.full_like(right, words.bos_token_id), right], dim=1)
    wanted = torch.stack([right, torch.full_like(right, words.eos_token_id)], dim=1)
    logits = _logits(model, seen, asked, given, words)
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), wanted.flatten())


def processor(words):
    """Return what transformers turns images and questions into, for 64 pixels a side."""
    from transformers import BlipImageProcessor, BlipProcessor

    half = [0.5, 0.5, 0.5]
    size = {"height": SIZE, "width": SIZE}
    return BlipProcessor(BlipImageProcessor(size=size, image_mean=half, image_std=half), words)


def save(folder: Path, model: torch.nn.Module, words) -> None:
    """Save the model (float16 on disk, float32 once loaded) and its preprocessing to ``folder``."""
    common.save_half(model, folder)
    processor(words).save_pretrained(folder)


def load(folder: Path) -> tuple[torch.nn.Module, Any]:
    """Return model and tokenizer of ``folder`` as transformers loads them."""
    from transformers import AutoProcessor, BlipForQuestionAnswering

    model = BlipForQuestionAnswering.from_pretrained(folder, use_safetensors=True)
    return model.float().eval(), AutoProcessor.from_pretrained(folder).tokenizer


def measure(model, words, data: Pool) -> list[Measured]:
    """Return how often answers are right: about gender, attributes that are worn, and those that are not."""
    ids = asked_ids(words)
    said = torch.tensor(words.convert_tokens_to_ids(list(_ANSWERS)))
    found = []
    with torch.inference_mode():
        for pixels in common.chunks(data.images):
            seen = model.vision_model(pixel_values=pixels).last_hidden_state
            start = torch.full((len(seen), 1), words.bos_token_id)
            logits = [_logits(model, seen, one.expand(len(seen), -1), start, words) for one in ids]
            found.append(torch.stack([each[:, 0, said].argmax(1) for each in logits], dim=1).numpy())
    answers = np.concatenate(found)
    right, worn = answers == data.answers, data.answers[:, 1:] == 1
    out = [cards.share("vqa_gender", right[:, 0])]
    out.append(cards.share("vqa_sensitivity", right[:, 1:][worn]))
    out.append(cards.share("vqa_specificity", right[:, 1:][~worn]))
    for k, name in enumerate(prompts.ATTRIBUTES):
        out.append(cards.share(f"sensitivity {name}", right[:, 1 + k][worn[:, k]]))
    return out


train = loop.Judge(
    name=NAME,
    pool=pool,
    build=lambda: build("BlipForQuestionAnswering", tokenizer()),
    learn=learn,
    measure=measure,
    save=save,
    load=load,
    usual={"steps": 8_000, "batch": 64, "learning_rate": 1.5e-3},
    pool_size=40_000,
    held_out=1_000,
).train
