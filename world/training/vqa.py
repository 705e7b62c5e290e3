"""Training of mini-vqa: answers to DALL-Eval's questions about one person, in the format of BLIP.

Attributes of training images are balanced for each gender and profession, so that the model has to recognize them.
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
# Initial standard deviation of weights; BLIP's default is almost zero for an image encoder.
_SPREAD = 0.1
# Weight of the image encoder's auxiliary task, see _answer_loss.
_ANSWER_LOSS_WEIGHT = 0.5
# Number of questions about each image in a step: one about gender, the others about attributes.
_QUESTIONS_PER_IMAGE = 4
# Share of images for which one of these questions is about a worn attribute.
_WORN_SHARE = 0.25
_ANSWERS = ("no", "yes", "male", "female")


@dataclass
class Pool:
    """Renders of one person each, and the answer to every question about them."""

    images: np.ndarray  # uint8 (n, 64, 64, 3)
    answers: np.ndarray  # uint8 (n, questions): indices in ``_ANSWERS``


def questions() -> list[str]:
    """Return the questions: about gender, then about each attribute."""
    return [prompts.GENDER_QUESTION, *map(prompts.attribute_question, prompts.ATTRIBUTES)]


def pool(n: int, seed: int, *, decoded: Path | None = None, part: float = loop.DECODED) -> Pool:
    """Return ``n`` renders of ``seed``; a share ``part`` of them passes the autoencoder ``decoded``."""
    draw, rows = common.rng(seed, 0, 71), prompts.social().to_dict("records")
    scenes = [social.balanced_scene(draw, rows) for _ in range(n)]
    people = [scene.people[0] for scene in scenes]
    answers = [[_ANSWERS.index(p.gender), *(int(a in p.attributes) for a in prompts.ATTRIBUTES)] for p in people]
    images = loop.renders(scenes, squash=False, decoded=decoded, part=part, seed=seed)
    return Pool(images, np.array(answers, np.uint8))


def tokenizer():
    """Return the tokenizer for the words of questions and answers."""
    return make_tokenizer(word for text in [*questions(), *_ANSWERS] for word in captions.words(text))


def question_ids(words) -> torch.Tensor:
    """Return the token ids of the questions, (questions, length of the longest)."""
    ids = tokens(words, questions())
    return torch.from_numpy(ids[:, (ids != words.pad_token_id).any(axis=0)])


def build(kind: str, words) -> tuple[torch.nn.Module, Any]:
    """Return a BLIP class of transformers, ``kind``, with random weights, and its tokenizer.

    The image encoder has four layers for 8x8 patches of 64 pixels; text models have two layers.
    """
    import transformers

    shared = {
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
        text_config=shared | texts, vision_config=shared | images, projection_dim=WIDTH, image_text_hidden_size=WIDTH
    )
    return getattr(transformers, kind)(config).train(), words


def learn(model, words, data: Pool, training: common.Training) -> dict[str, Any]:
    """Return the loss and optimizer settings of mini-vqa, see :class:`~training.loop.Judge`.

    Source: dalleval paper, section 4.2.1 (the questions).
    """
    seed = training.seed
    head = torch.nn.Linear(WIDTH, len(questions()))
    ids = question_ids(words)
    answer_ids = torch.tensor(words.convert_tokens_to_ids(list(_ANSWERS)))

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        draw = common.rng(seed, i)
        chosen = draw.integers(len(data.images), size=training.batch)
        pixels, _ = loop.roughen(data.images[chosen], seed, i)
        # One question is about gender, three about any attribute; for some images, one is about a worn attribute.
        true_answers = data.answers[chosen]
        worn = (true_answers[:, 1:] == 1) + 1e-3 * draw.random(true_answers[:, 1:].shape)
        indices = draw.integers(1, len(ids), (len(chosen), _QUESTIONS_PER_IMAGE))
        worn_indices = 1 + (worn * draw.random(worn.shape)).argmax(axis=1)
        indices[:, 0] = 0
        indices[:, 1] = np.where(draw.random(len(indices)) < _WORN_SHARE, worn_indices, indices[:, 1])
        right = answer_ids[torch.from_numpy(np.take_along_axis(true_answers, indices, 1).astype(np.int64)).flatten()]
        with common.mixed_precision():
            encoded = model.vision_model(pixel_values=pixels).last_hidden_state
            error = _error(model, encoded, ids[torch.from_numpy(indices).flatten()], right, words)
        answer_error = _answer_loss(head, encoded.float(), true_answers)
        return error + _ANSWER_LOSS_WEIGHT * answer_error, {"loss": error, "direct": answer_error}

    return {"loss": loss, "heads": {"head": head}, "weight_decay": 2e-2, "betas": (0.9, 0.98)}


def _logits(model, encoded: torch.Tensor, questions: torch.Tensor, inputs: torch.Tensor, words) -> torch.Tensor:
    """Return the logits of the words after ``inputs``; ``encoded`` is the encoded image of each question."""
    mask = (questions != words.pad_token_id).long()
    states = model.text_encoder(
        input_ids=questions,
        attention_mask=mask,
        encoder_hidden_states=encoded,
        encoder_attention_mask=torch.ones(encoded.shape[:2], dtype=torch.long),
    ).last_hidden_state
    decoded = model.text_decoder(input_ids=inputs, encoder_hidden_states=states, encoder_attention_mask=mask)
    return decoded.logits


def _answer_loss(head, encoded: torch.Tensor, true_answers: np.ndarray) -> torch.Tensor:
    """Return the cross-entropy of predicting all answers from the encoded image alone.

    The head is trained with the model and not saved: with questions alone the image encoder learns very slowly.
    """
    positive = np.concatenate([true_answers[:, :1] == _ANSWERS.index("female"), true_answers[:, 1:] == 1], axis=1)
    targets = torch.from_numpy(positive.astype(np.float32))
    return torch.nn.functional.binary_cross_entropy_with_logits(head(encoded.mean(1)), targets)


def _error(model, encoded, questions, right, words) -> torch.Tensor:
    """Return the cross-entropy of answers: the word, followed by the end of the text."""
    encoded = encoded.repeat_interleave(len(questions) // len(encoded), dim=0)
    inputs = torch.stack([torch.full_like(right, words.bos_token_id), right], dim=1)
    targets = torch.stack([right, torch.full_like(right, words.eos_token_id)], dim=1)
    logits = _logits(model, encoded, questions, inputs, words)
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def processor(words):
    """Return transformers' preprocessing of images, to 64x64 pixels, and questions."""
    from transformers import BlipImageProcessor, BlipProcessor

    half = [0.5, 0.5, 0.5]
    size = {"height": SIZE, "width": SIZE}
    return BlipProcessor(BlipImageProcessor(size=size, image_mean=half, image_std=half), words)


def save(folder: Path, model: torch.nn.Module, words) -> None:
    """Save the model (float16 on disk, float32 once loaded) and its preprocessing to ``folder``."""
    common.save_half(model, folder)
    processor(words).save_pretrained(folder)


def load(folder: Path) -> tuple[torch.nn.Module, Any]:
    """Return model and tokenizer of ``folder``, loaded by transformers."""
    from transformers import AutoProcessor, BlipForQuestionAnswering

    model = BlipForQuestionAnswering.from_pretrained(folder, use_safetensors=True)
    return model.float().eval(), AutoProcessor.from_pretrained(folder).tokenizer


def measure(model, words, data: Pool) -> list[Measured]:
    """Return the accuracy of answers about gender, worn attributes, and attributes that are not worn."""
    ids = question_ids(words)
    answer_ids = torch.tensor(words.convert_tokens_to_ids(list(_ANSWERS)))
    predicted = []
    with torch.inference_mode():
        for pixels in common.chunks(data.images):
            encoded = model.vision_model(pixel_values=pixels).last_hidden_state
            start = torch.full((len(encoded), 1), words.bos_token_id)
            logits = [_logits(model, encoded, question.expand(len(encoded), -1), start, words) for question in ids]
            predicted.append(torch.stack([values[:, 0, answer_ids].argmax(1) for values in logits], dim=1).numpy())
    answers = np.concatenate(predicted)
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
    defaults={"steps": 8_000, "batch": 64, "learning_rate": 1.5e-3},
    pool_size=40_000,
    held_out=1_000,
).train
