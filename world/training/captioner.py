"""Training of mini-captioner: what an image of the embedded world shows, in a sentence, in the format of BLIP.

It learns from the world's captions and their scenes, and so says of an image what captions say most often of such.
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
# Weight of the image encoder's second task, see _direct.
_DIRECT = 0.5


@dataclass
class Pool:
    """Captions of the embedded world and their renders."""

    images: np.ndarray  # uint8 (n, 64, 64, 3)
    texts: list[str]  # the captions
    looks: list[Outfit | None]  # how the one shown looks; ``None`` where no occupation is


def pool(n: int, seed: int, *, decoded: Path | None = None, part: float = loop.DECODED) -> Pool:
    """Return the first ``n`` captions of the corpus of ``seed``; ``part`` of the renders through ``decoded``."""
    corpus = captions.Corpus(rows=n, seed=seed)
    rows = [corpus.row(i) for i in range(n)]
    scenes = [captions.build_scene(row) for row in rows]
    images = loop.renders(scenes, squash=False, decoded=decoded, part=part, seed=seed)
    return Pool(images, [row.text for row in rows], [OUTFITS.get(row.occupation) for row in rows])


def tokenizer():
    """Return the tokenizer of every word that a caption of the world can contain."""
    return make_tokenizer(captions.vocabulary())


def learn(model, words, data: Pool, training: common.Training) -> dict[str, Any]:
    """Return how mini-captioner learns.

    Source: dalleval paper, section 4.3 (captioning).
    """
    head = torch.nn.Linear(vqa.WIDTH, len(words))
    ids = torch.from_numpy(tokens(words, data.texts))

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        chosen = common.rng(training.seed, i).integers(len(data.images), size=training.batch)
        pixels, _ = loop.roughen(data.images[chosen], training.seed, i)
        true = ids[torch.from_numpy(chosen)]
        with common.mixed_precision():
            seen = model.vision_model(pixel_values=pixels).last_hidden_state
            error = _error(model, seen, true, words)
        direct = _direct(head, seen.float(), true, words)
        return error + _DIRECT * direct, {"loss": error, "direct": direct}

    return {"loss": loss, "heads": {"head": head}, "weight_decay": 2e-2, "betas": (0.9, 0.98)}


def measure(model, words, data: Pool) -> list[Measured]:
    """Return ``held_out_words``: the mean cross-entropy of a word of captions, in nats."""
    ids, errors = torch.from_numpy(tokens(words, data.texts)).split(64), []
    with torch.inference_mode():
        for pixels, some in zip(common.chunks(data.images), ids, strict=True):
            seen = model.vision_model(pixel_values=pixels).last_hidden_state
            errors.append(float(_error(model, seen, some, words)))
    return [Measured("held_out_words", float(np.mean(errors)), len(data.images))]


def _error(model, seen: torch.Tensor, ids: torch.Tensor, words) -> torch.Tensor:
    """Return the cross-entropy of each next word of captions, given those before it and the encoded images."""
    given, wanted = ids[:, :-1], ids[:, 1:]
    decoded = model.text_decoder(
        input_ids=given, attention_mask=(given != words.pad_token_id).long(), encoder_hidden_states=seen
    )
    return torch.nn.functional.cross_entropy(
        decoded.logits.float().flatten(0, 1), wanted.flatten(), ignore_index=words.pad_token_id
    )


def _direct(head, seen: torch.Tensor, ids: torch.Tensor, words) -> torch.Tensor:
    """Return the cross-entropy of reading off the encoded image itself which words its caption has.

    The head is trained with the model and not kept, as that of mini-vqa.
    """
    wanted = torch.zeros(len(ids), len(words)).scatter_(1, ids, 1.0)
    # The marks that every text has, or that stand for no word.
    wanted[:, :4] = 0
    found = torch.nn.functional.binary_cross_entropy_with_logits(head(seen.mean(1)), wanted, reduction="sum")
    return found / (10 * len(ids))


def card_rows(folder: Path, n: int, decoded: Path | None = None) -> list[Measured]:
    """Return the rows of the model's card, from ``n`` captions; renders ``decoded`` by an autoencoder if given."""
    from biaslab.judges import blip
    from biaslab.metrics.captioning import caption_scores

    data = pool(n, HELD_OUT_SEED + 1, decoded=decoded, part=1.0)
    model = blip.load(str(folder), "captioner", device="cpu")
    said = model.ask(list(data.images), range(n), [""] * n)
    scores = caption_scores(said, [[text] for text in data.texts], seed=1)
    rows = [Measured(of.metric, of.value, n, points=True) for of in scores.itertuples()]
    named = [[OUTFITS[name] for name in OUTFITS if re.search(rf"\b{name}\b", text.casefold())] for text in said]
    shown = [(look, of) for look, of in zip(data.looks, named, strict=True) if look is not None]
    rows.append(cards.share("caption_names_any", [bool(of) for _, of in shown]))
    rows.append(cards.share("caption_names_right", [look in of for look, of in shown if of]))
    return rows


train = loop.Judge(
    name=NAME,
    pool=pool,
    build=lambda: vqa.build("BlipForConditionalGeneration", tokenizer()),
    learn=learn,
    measure=measure,
    save=vqa.save,
    card_rows=card_rows,
    usual={"steps": 5_000, "batch": 64, "learning_rate": 1.5e-3},
    pool_size=40_000,
    held_out=1_000,
).train
