"""Training of mini-sd-triplets: a latent diffusion model of depictions with supervised cross-attention.

The network has cross-attention at 16x16 and 8x8 cells. In addition to images it learns, by a grounding loss, that each
word attends to its referent (:func:`biaslab_world.triplets.word_masks`). Measurements of its attention therefore
validate the extraction of attention; they are no evidence about models without such supervision.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from biaslab.hub import registry
from biaslab.papers.triplets.stages import Triplets
from biaslab_world import render
from biaslab_world import triplets as world
from biaslab_world.brought import mini
from biaslab_world.captions import words
from training import autoencoder, cards, diffusion
from training import data as blocks
from training.cards import Measured, share
from training.common import Training, rng, torch_rng
from training.text import make_tokenizer, tokens

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline

NAME, WIDTH, MAX_LENGTH = "mini-sd-triplets", 96, 24
ROWS, STEPS = 32_000, 9_000
CELLS = 16
"""Cells per side of the latents and of the finest attention."""
NOISIER = 0.8
# Weight of the grounding loss, of its second part within it, and of cells of objects in the error of images.
GROUNDING, COVERING, OBJECTS = 0.08, 0.5, 4.0
CARD_TRIPLETS, GUIDANCE = 150, (2.0, 4.0)
"""Number of triplets for the card, with two images per prompt, and their guidance scales, with ten steps."""
# Seed that no other image of the project uses.
_CARD_SEED = 82_000
_GENDERS = {"feminine": "female", "masculine": "male"}
_REGIONS = ("person", "left", "right", "worn", "place")
_ARRAYS = ("ids", "regions", "masks", "latents")


def tokenizer():
    """Return the tokenizer for the words of depictions."""
    return make_tokenizer(world.vocabulary(), MAX_LENGTH)


# -- data ------------------------------------------------------------------------------------------------------


def prepare(folder: Path, vae: Path, *, rows: int = ROWS, seed: int = 0) -> Path:
    """Render and encode captions with their scenes, in blocks; return the folder of arrays.

    - ``ids``: token ids, uint16 (rows, MAX_LENGTH);
    - ``regions``: region of each token, uint8 (rows, MAX_LENGTH): 0 for none, else the person, the left thing, the
      right thing, the worn object, or the place;
    - ``masks``: coverage of each cell by a region, uint8 0 to 255 (rows, regions, 16, 16);
    - ``latents``: scaled latents, float16 (rows, 8, 16, 16).

    Raises InputError: The folder has data of other settings.
    """
    settings = {"rows": rows, "seed": seed, "words": world.vocabulary()}
    blocks.prepare(folder, vae, rows, partial(examples, seed=seed), _ARRAYS, settings)
    return folder


def examples(indices: Sequence[int], seed: int) -> dict[str, Any]:
    """Return captions (``texts``), their images, uint8 (n, 64, 64, 3), and the arrays of :func:`prepare`."""
    texts, images, regions, masks = [], [], [], []
    side = autoencoder.SIZE
    for i in indices:
        prompt, person = world.draw(seed, i)
        scene = world.build_scene(prompt, rng(seed, i, 84))
        texts.append(world.write(prompt, person))
        images.append(render.render(scene, side))
        region_masks = _region_masks(scene, side)
        masks.append(region_masks.reshape(len(_REGIONS), CELLS, 4, CELLS, 4).mean((2, 4)) * 255)
        regions.append(_token_regions(texts[-1], prompt, scene))
    ids = tokens(tokenizer(), texts)
    token_regions = np.zeros(ids.shape, np.uint8)
    for row, numbers in zip(token_regions, regions, strict=True):
        row[1 : 1 + len(numbers)] = numbers
    return {
        "texts": texts,
        "images": np.stack(images),
        "ids": ids.astype(np.uint16),
        "regions": token_regions,
        "masks": np.rint(np.stack(masks)).astype(np.uint8),
    }


def _sides(scene) -> dict[str, list[str]]:
    """Return the names of the things on the left and on the right."""
    sides: dict[str, list[str]] = {"left": [], "right": []}
    for thing in scene.things:
        sides["left" if thing.x < 0.5 else "right"].append(world.name_of(thing))
    return sides


def _region_masks(scene, side: int) -> np.ndarray:
    """Return masks of the regions, bool (regions, side, side)."""
    sides, left_half = _sides(scene), np.arange(side) * 2 < side
    masks = {name: np.zeros((side, side), bool) for name in _REGIONS}
    for name, mask in world.masks(scene, side):
        if name == "person" or name in world.WORN:
            masks["person"] |= mask
        if name in world.WORN:
            masks["worn"] |= mask
        elif name == scene.place:
            masks["place"] = mask & (np.arange(side)[:, None] < world.UPPER * side)
        elif name != "person":
            is_left = name in sides["left"] and (name not in sides["right"] or mask[:, left_half].any())
            masks["left" if is_left else "right"] |= mask
    return np.stack(list(masks.values()))


def _token_regions(text: str, prompt: world.TripletPrompt, scene) -> list[int]:
    """Return the region of each token of a text: that of its referent, or of the person if it has none."""
    sides, out = _sides(scene), []
    for word in words(text):
        region = "person"
        if word in world.WORN:
            region = "worn"
        elif word in world.PLACES:
            region = "place"
        elif word in world.THINGS:
            region = "left" if word in sides["left"] else "right"
            # If the text names two things of one kind, the second refers to the right one.
            if region == "left" and word in sides["right"] and prompt.named.count(word) == 2:
                region = "right" if out.count(_REGIONS.index("left") + 1) else "left"
        out.append(_REGIONS.index(region) + 1)
    return out


# -- training ---------------------------------------------------------------------------------------------------


def train(
    folder: Path, *, checkpoint: Path | None = None, rows: int = ROWS, vae: Path | None = None, **settings: Any
) -> dict[str, float]:
    """Train mini-sd-triplets from random weights on ``rows`` captions; ``vae`` defaults to mini-sd-skills' autoencoder.

    Source: triplets paper, sections 3 to 7, for the scenes; the grounding loss is ours. Returns ``held_out``, the mean
    squared error of the velocity on held-out data, and ``held_out_grounding``. Raises MissingInputError: The
    autoencoder is not in this installation.
    """
    vae = vae or Path(registry.resolve("mini-sd-skills", "text-to-image")) / "vae"
    checkpoint = checkpoint or Path(f"outputs/.train/{NAME}/state.pt")
    training = Training(checkpoint=checkpoint, **{"steps": STEPS, "batch": 48, "learning_rate": 1.5e-3} | settings)
    data = prepare(checkpoint.parent / "data", vae, rows=rows, seed=training.seed)
    shutil.copytree(vae, folder / "vae", dirs_exist_ok=True)
    seed, batch = training.seed, training.batch
    torch.manual_seed(seed)
    unet = diffusion.build_unet((64, 96), (2, 4), WIDTH, silent=0)
    nets = diffusion.Networks(training, tokenizer(), unet, WIDTH)
    scores, scores_of_average = (_record_attention(network) for network in (unet, nets.average.averaged["unet"]))
    ids, regions, masks, latents = (np.load(data / f"{name}.npy", mmap_mode="r") for name in _ARRAYS)
    held_out = min(1024, rows // 10)

    def losses_of(recorded, unet, encoder, chosen, draws, exponent=1.0, dropped=slice(0)):
        covered = torch.from_numpy(masks[chosen].astype(np.float32) / 255)
        words, word_regions = ids[chosen].astype(np.int64), torch.from_numpy(regions[chosen].astype(np.int64))
        words[dropped], word_regions[dropped] = nets.empty, 0
        recorded.clear()
        squared, _ = diffusion.velocity_error(unet, encoder, latents[chosen], torch.from_numpy(words), draws, exponent)
        weight = 1 + (OBJECTS - 1) * covered[:, 1:4].amax(1, keepdim=True)
        error = (squared * weight / weight.mean()).mean()
        return error, torch.stack([_grounding(probs, word_regions, covered) for probs in recorded]).mean()

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        draw = rng(seed, i)
        chosen = np.sort(draw.integers(len(ids) - held_out, size=batch))
        is_empty = np.flatnonzero(draw.random(batch) < diffusion.DROPOUT)
        draws = torch_rng(seed, i)
        error, grounding = losses_of(scores, nets.run, nets.encoder, chosen, draws, NOISIER, is_empty)
        return error + GROUNDING * grounding, {"loss": error, "grounding": grounding}

    def quality() -> dict[str, float]:
        places = range(len(ids) - held_out, len(ids))
        losses = nets.held_out(places, partial(losses_of, scores_of_average))
        return dict(zip(("held_out", "held_out_grounding"), losses, strict=True))

    result = nets.fit(folder, loss, quality, quality_every=1000)
    diffusion.pack(folder)
    cards.note_training(folder, None, training, grounding=GROUNDING, noisier=NOISIER, rows=rows)
    cards.write(NAME, folder, card_rows, n=CARD_TRIPLETS)
    return result


def _record_attention(unet: torch.nn.Module) -> list[torch.Tensor]:
    """Return a list to which the network appends its cross-attention, (n heads, cells, words) per layer.

    All layers except that of the middle block are recorded.
    """
    scores: list[torch.Tensor] = []
    for name, layer in unet.named_modules():
        if not name.endswith("attn2") or name.startswith("mid_block"):
            continue

        def recorded(query, key, mask=None, compute=layer.get_attention_scores):
            scores.append(compute(query, key, mask))
            return scores[-1]

        layer.get_attention_scores = recorded
    return scores


def _grounding(attended: torch.Tensor, regions: torch.Tensor, covered: torch.Tensor) -> torch.Tensor:
    """Return the grounding loss, 0 to about 2: the attention of words outside their regions, averaged over words.

    It is (1 - share of a word's attention inside its region)^2, plus the weighted cross-entropy of its attention
    relative to the maximum, so that attention covers the region.

    ``attended`` is (n heads, cells, words) for a square of cells; ``regions`` (n, words), 0 for a token without a
    region; ``covered`` (n, regions, 16, 16), 0 to 1.
    """
    n, side = len(regions), round(attended.shape[1] ** 0.5)
    attention = attended.float().reshape(n, -1, side * side, attended.shape[2]).mean(1).transpose(1, 2)
    masks = functional.adaptive_avg_pool2d(covered, side).flatten(2)
    targets = torch.gather(masks, 1, (regions - 1).clamp(min=0)[..., None].expand(-1, -1, side * side))
    counts = (regions > 0) & (targets.sum(-1) > 0.5)
    attention, targets = attention[counts], targets[counts]
    if not len(attention):
        return attended.sum() * 0
    share_inside = (attention * targets).sum(-1) / attention.sum(-1).clamp(min=1e-8)
    relative = (attention / attention.amax(-1, keepdim=True).clamp(min=1e-8)).clamp(1e-4, 1 - 1e-4)
    covering = functional.binary_cross_entropy(relative, targets, reduction="none").mean(-1)
    return ((1 - share_inside).pow(2) + COVERING * covering).mean()


# -- the card ---------------------------------------------------------------------------------------------------


def card_rows(folder: Path, n: int, decoded: Path | None = None) -> list[Measured]:
    """Return the rows of the model's card: ``n`` triplets judged by mini-segmenter, and its attention on drawings.

    Each of ``GUIDANCE`` has ten steps and two images per prompt. ``decoded`` is not used.
    """
    import tempfile

    from biaslab.pipeline import Pipeline, Settings

    rows = autoencoder.card_rows(registry.autoencoder(folder), *_pool(500), "things")
    with tempfile.TemporaryDirectory() as where:
        for scale in GUIDANCE:
            settings = Settings(
                captions=mini.settings["captions"],
                generation={"steps": 10, "guidance_scale": scale},
                judging=mini.settings["judging"],
                triplets={
                    **mini.settings["triplets"],
                    "attention": True,
                    "images_per_prompt": 2,
                    "n_triplets": n,
                    "calibration_images": n,
                },
                compute={"cache": where},
            )
            pipeline = Pipeline(str(folder), settings, seed=_CARD_SEED, progress=False)
            score_rows = _measure_scores(pipeline)
            if scale == GUIDANCE[-1]:
                rows += _measure_words(pipeline)
            rows += cards.label_guidance(scale, score_rows)
    return rows


def _pool(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return drawings, uint8 (n, 64, 64, 3), and masks of things, bool (n, 64, 64)."""
    side = autoencoder.SIZE
    images, things = np.empty((n, side, side, 3), np.uint8), np.zeros((n, side, side), bool)
    for i in range(n):
        scene = world.build_scene(world.draw(_CARD_SEED, i)[0], rng(_CARD_SEED, i, 84))
        images[i] = render.render(scene, side)
        for name, mask in world.masks(scene, side):
            things[i] |= mask & (name in world.THINGS)
    return images, things


def _measure_scores(pipeline: Pipeline) -> list[Measured]:
    """Return the agreement of images of triplets with their prompts, and of bias scores with the world's."""
    from biaslab.metrics.similarity import bias_score

    images, objects = pipeline.part(Triplets).images(), pipeline.part(Triplets).objects().objects
    judgements = pipeline.judge_images(images.source)
    people = images.table.merge(judgements[["image_id", "gender"]], on="image_id")
    people = people[people["prompt_gender"].isin(_GENDERS) & people["gender"].isin(_GENDERS.values())]
    rows = [share("prompted_gender", people["gender"] == people["prompt_gender"].map(_GENDERS))]
    detected = set(zip(objects["image_id"], objects["object"], strict=True))
    texts = images.table[["image_id", "text"]].itertuples(index=False)
    rows.append(share("named_found", [(i, o) in detected for i, text in texts for o in world.parse(text).named]))
    counts = objects.merge(images.table, on="image_id").groupby(["object", "prompt_gender"])
    counts = counts.size().unstack(fill_value=0)
    truth = world.expected(pipeline.part(Triplets).prompts()).merge(pipeline.part(Triplets).prompts(), on="prompt_id")
    truth = truth.groupby(["object", "prompt_gender"])["expected"].sum().unstack() * 2
    frequent = truth[truth[["feminine", "masculine"]].sum(axis=1) >= 20].index
    scores = [
        bias_score(t.reindex(frequent).fillna(0)["masculine"], t.reindex(frequent).fillna(0)["feminine"], 1, 1)
        for t in (counts, truth)
    ]
    is_finite = np.isfinite(scores[0])
    ranks = [pd.Series(np.asarray(s)[is_finite]).rank() for s in scores]
    error = np.abs(np.asarray(scores[0]) - np.asarray(scores[1]))[is_finite].mean()
    rows.append(Measured("score_rank", float(ranks[0].corr(ranks[1])), int(is_finite.sum()), points=True))
    return [*rows, Measured("score_error", float(error), int(is_finite.sum()), points=True)]


def _measure_words(pipeline: Pipeline) -> list[Measured]:
    """Return the agreement of word maps with the true masks in noised drawings."""
    agreement = pipeline.part(Triplets).dependency.drawing_agreement().query("noise == 0")
    rows = []
    for kind, rows_of_kind in agreement[agreement["mask"] == "own"].groupby("kind"):
        for name in ("overlap", "auc"):
            rows.append(Measured(f"words_{name}_{kind}", float(rows_of_kind[name].mean()), len(rows_of_kind)))
    mismatched = agreement[agreement["mask"] == "other"]
    return [*rows, Measured("words_auc_other", float(mismatched["auc"].mean()), len(mismatched))]
