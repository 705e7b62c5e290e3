"""Training of mini-captioner: captions of images of the synthetic world, in the format of BLIP.

The model learns from the world's captions and their scenes, and generates the most frequent content of such captions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from biaslab_world import captions
from biaslab_world.looks import OUTFITS, Outfit
from training import cards, common, loop, vqa
from training.cards import Measured
from training.loop import HELD_OUT_SEED
from training.text import make_tokenizer, tokens

NAME = "mini-captioner"
# Weight of the image encoder's auxiliary task, see _word_loss.
_WORD_LOSS_WEIGHT = 0.5


@dataclass
class Pool:
    """Captions of the synthetic world and their renders."""

    images: np.ndarray  # uint8 (n, 64, 64, 3)
    texts: list[str]  # the captions
    looks: list[Outfit | None]  # look of the person in the image; ``None`` without an occupation


def pool(n: int, seed: int, *, decoded: Path | None = None, part: float = loop.DECODED) -> Pool:
    """Return the first ``n`` captions of the corpus of ``seed``; a share ``part`` of renders passes ``decoded``."""
    corpus = captions.Corpus(rows=n, seed=seed)
    rows = [corpus.row(i) for i in range(n)]
    scenes = [captions.build_scene(row) for row in rows]
    images = loop.renders(scenes, squash=False, decoded=decoded, part=part, seed=seed)
    return Pool(images, [row.text for row in rows], [OUTFITS.get(row.occupation) for row in rows])


def tokenizer():
    """Return the tokenizer for the words of the world's captions."""
    return make_tokenizer(captions.vocabulary())


def learn(model, words, data: Pool, training: common.Training) -> dict[str, Any]:
    """Return the loss and optimizer settings of mini-captioner, see :class:`~training.loop.Judge`.

    Source: dalleval paper, section 4.3 (captioning).
    """
    head = torch.nn.Linear(vqa.WIDTH, len(words))
    ids = torch.from_numpy(tokens(words, data.texts))

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        chosen = common.rng(training.seed, i).integers(len(data.images), size=training.batch)
        pixels, _ = loop.roughen(data.images[chosen], training.seed, i)
        true_ids = ids[torch.from_numpy(chosen)]
        with common.mixed_precision():
            encoded = model.vision_model(pixel_values=pixels).last_hidden_state
            error = _error(model, encoded, true_ids, words)
        word_error = _word_loss(head, encoded.float(), true_ids, words)
        return error + _WORD_LOSS_WEIGHT * word_error, {"loss": error, "direct": word_error}

    return {"loss": loss, "heads": {"head": head}, "weight_decay": 2e-2, "betas": (0.9, 0.98)}


def measure(model, words, data: Pool) -> list[Measured]:
    """Return ``held_out_words``: the mean cross-entropy of a word of captions, in nats."""
    ids, errors = torch.from_numpy(tokens(words, data.texts)).split(64), []
    with torch.inference_mode():
        for pixels, batch_ids in zip(common.chunks(data.images), ids, strict=True):
            encoded = model.vision_model(pixel_values=pixels).last_hidden_state
            errors.append(float(_error(model, encoded, batch_ids, words)))
    return [Measured("held_out_words", float(np.mean(errors)), len(data.images))]


def _error(model, encoded: torch.Tensor, ids: torch.Tensor, words) -> torch.Tensor:
    """Return the cross-entropy of the next word of captions, given the previous words and the encoded images."""
    inputs, targets = ids[:, :-1], ids[:, 1:]
    decoded = model.text_decoder(
        input_ids=inputs, attention_mask=(inputs != words.pad_token_id).long(), encoder_hidden_states=encoded
    )
    return torch.nn.functional.cross_entropy(
        decoded.logits.float().flatten(0, 1), targets.flatten(), ignore_index=words.pad_token_id
    )


def _word_loss(head, encoded: torch.Tensor, ids: torch.Tensor, words) -> torch.Tensor:
    """Return the cross-entropy of predicting the words of a caption from the encoded image alone.

    The head is trained with the model and not saved, like that of mini-vqa.
    """
    targets = torch.zeros(len(ids), len(words)).scatter_(1, ids, 1.0)
    # Special tokens do not represent words.
    targets[:, :4] = 0
    error = torch.nn.functional.binary_cross_entropy_with_logits(head(encoded.mean(1)), targets, reduction="sum")
    return error / (10 * len(ids))


def card_rows(folder: Path, n: int, decoded: Path | None = None) -> list[Measured]:
    """Return the rows of the model's card for ``n`` captions; renders pass the autoencoder ``decoded``, if any."""
    from biaslab.judges import blip
    from biaslab.metrics.captioning import caption_scores

    data = pool(n, HELD_OUT_SEED + 1, decoded=decoded, part=1.0)
    model = blip.load(str(folder), "captioner", device="cpu")
    answers = model.ask(list(data.images), range(n), [""] * n)
    scores = caption_scores(answers, [[text] for text in data.texts], seed=1)
    rows = [Measured(score.metric, score.value, n, points=True) for score in scores.itertuples()]
    named_looks = [[OUTFITS[o] for o in OUTFITS if re.search(rf"\b{o}\b", text.casefold())] for text in answers]
    pairs = [(look, named) for look, named in zip(data.looks, named_looks, strict=True) if look is not None]
    rows.append(cards.share("caption_names_any", [bool(named) for _, named in pairs]))
    rows.append(cards.share("caption_names_right", [look in named for look, named in pairs if named]))
    return rows


train = loop.Judge(
    name=NAME,
    pool=pool,
    build=lambda: vqa.build("BlipForConditionalGeneration", tokenizer()),
    learn=learn,
    measure=measure,
    save=vqa.save,
    card_rows=card_rows,
    defaults={"steps": 5_000, "batch": 64, "learning_rate": 1.5e-3},
    pool_size=40_000,
    held_out=1_000,
).train
