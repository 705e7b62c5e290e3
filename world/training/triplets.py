"""Training of mini-sd-triplets: a latent diffusion model of depictions whose attention is taught where words belong.

Text attends at 16x16 and 8x8 places. Beside the images the network learns, by a grounding loss, that each word attends
to what it names (:func:`biaslab_world.triplets.word_masks`): so what is read off its attention tells how well attention
is read off, and nothing of models that were not taught so.
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
"""Places a side of the latents and of the finest attention."""
NOISIER = 0.8
# Weight of the grounding loss, of its second part within it, and of places of objects in the error of images.
GROUNDING, COVERING, OBJECTS = 0.08, 0.5, 4.0
CARD_TRIPLETS, GUIDANCE = 150, (2.0, 4.0)
"""Triplets of the card, with two images a prompt, and the guidance scales they are made at, ten steps."""
# Seed from which no other image of the project is made.
_CARD_SEED = 82_000
_GENDERS = {"feminine": "female", "masculine": "male"}
_REGIONS = ("person", "left", "right", "worn", "place")
_ARRAYS = ("ids", "regions", "masks", "latents")


def tokenizer():
    """Return the tokenizer of all words of depictions."""
    return make_tokenizer(world.vocabulary(), MAX_LENGTH)


# -- data ------------------------------------------------------------------------------------------------------


def prepare(folder: Path, vae: Path, *, rows: int = ROWS, seed: int = 0) -> Path:
    """Draw and encode captions with their scenes, in blocks; return the folder of arrays.

    - ``ids``: token ids, uint16 (rows, MAX_LENGTH);
    - ``regions``: to which region each token belongs, uint8 (rows, MAX_LENGTH): 0 none, else one of the person, the
      left and the right thing, what is worn, and the place;
    - ``masks``: how much of each place a region covers, uint8 0 to 255 (rows, regions, 16, 16);
    - ``latents``: scaled latents, float16 (rows, 8, 16, 16).

    Raises InputError: The folder holds data of other settings.
    """
    said = {"rows": rows, "seed": seed, "words": world.vocabulary()}
    blocks.prepare(folder, vae, rows, partial(examples, seed=seed), _ARRAYS, said)
    return folder


def examples(indices: Sequence[int], seed: int) -> dict[str, Any]:
    """Return captions (``texts``), their images, uint8 (n, 64, 64, 3), and arrays as :func:`prepare` keeps them."""
    texts, images, regions, masks = [], [], [], []
    side = autoencoder.SIZE
    for i in indices:
        asked, who = world.draw(seed, i)
        scene = world.build_scene(asked, rng(seed, i, 84))
        texts.append(world.write(asked, who))
        images.append(render.render(scene, side))
        covered = _covered(scene, side)
        masks.append(covered.reshape(len(_REGIONS), CELLS, 4, CELLS, 4).mean((2, 4)) * 255)
        regions.append(_regions(texts[-1], asked, scene))
    ids = tokens(tokenizer(), texts)
    placed = np.zeros(ids.shape, np.uint8)
    for row, found in zip(placed, regions, strict=True):
        row[1 : 1 + len(found)] = found
    return {
        "texts": texts,
        "images": np.stack(images),
        "ids": ids.astype(np.uint16),
        "regions": placed,
        "masks": np.rint(np.stack(masks)).astype(np.uint8),
    }


def _sides(scene) -> dict[str, list[str]]:
    """Return which things stand left and right."""
    sides: dict[str, list[str]] = {"left": [], "right": []}
    for thing in scene.things:
        sides["left" if thing.x < 0.5 else "right"].append(world.name_of(thing))
    return sides


def _covered(scene, side: int) -> np.ndarray:
    """Return where the regions are, bool (regions, side, side)."""
    standing, left_half = _sides(scene), np.arange(side) * 2 < side
    where = {name: np.zeros((side, side), bool) for name in _REGIONS}
    for name, mask in world.masks(scene, side):
        if name == "person" or name in world.WORN:
            where["person"] |= mask
        if name in world.WORN:
            where["worn"] |= mask
        elif name == scene.place:
            where["place"] = mask & (np.arange(side)[:, None] < world.UPPER * side)
        elif name != "person":
            left = name in standing["left"] and (name not in standing["right"] or mask[:, left_half].any())
            where["left" if left else "right"] |= mask
    return np.stack(list(where.values()))


def _regions(text: str, asked: world.TripletPrompt, scene) -> list[int]:
    """Return the region of each token of a text: that of the word, or of the person where it names nothing."""
    standing, out = _sides(scene), []
    for word in words(text):
        region = "person"
        if word in world.WORN:
            region = "worn"
        elif word in world.PLACES:
            region = "place"
        elif word in world.THINGS:
            region = "left" if word in standing["left"] else "right"
            # Of two of a kind, which both are named, the second is the right one.
            if region == "left" and word in standing["right"] and asked.named.count(word) == 2:
                region = "right" if out.count(_REGIONS.index("left") + 1) else "left"
        out.append(_REGIONS.index(region) + 1)
    return out


# -- training ---------------------------------------------------------------------------------------------------


def train(
    folder: Path, *, checkpoint: Path | None = None, rows: int = ROWS, vae: Path | None = None, **settings: Any
) -> dict[str, float]:
    """Train mini-sd-triplets from random weights on ``rows`` captions, with the autoencoder ``vae`` or mini-sd-skills'.

    Source: triplets paper, sections 3 to 7, for the scenes; the grounding loss is this project's. Returns ``held_out``,
    the mean squared error of the velocity on held-out data, and ``held_out_grounding``. Raises MissingInputError: The
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
    kept, kept_of_average = (_attended(of) for of in (unet, nets.average.kept["unet"]))
    ids, regions, masks, latents = (np.load(data / f"{name}.npy", mmap_mode="r") for name in _ARRAYS)
    held_out = min(1024, rows // 10)

    def losses_of(seen, unet, encoder, chosen, draws, exponent=1.0, dropped=slice(0)):
        covered = torch.from_numpy(masks[chosen].astype(np.float32) / 255)
        said, of = ids[chosen].astype(np.int64), torch.from_numpy(regions[chosen].astype(np.int64))
        said[dropped], of[dropped] = nets.empty, 0
        seen.clear()
        squared, _ = diffusion.velocity_error(unet, encoder, latents[chosen], torch.from_numpy(said), draws, exponent)
        weight = 1 + (OBJECTS - 1) * covered[:, 1:4].amax(1, keepdim=True)
        error = (squared * weight / weight.mean()).mean()
        return error, torch.stack([_grounding(probs, of, covered) for probs in seen]).mean()

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        draw = rng(seed, i)
        chosen = np.sort(draw.integers(len(ids) - held_out, size=batch))
        dropped = np.flatnonzero(draw.random(batch) < diffusion.DROPOUT)
        draws = torch_rng(seed, i)
        error, second = losses_of(kept, nets.run, nets.encoder, chosen, draws, NOISIER, dropped)
        return error + GROUNDING * second, {"loss": error, "grounding": second}

    def quality() -> dict[str, float]:
        places = range(len(ids) - held_out, len(ids))
        found = nets.held_out(places, partial(losses_of, kept_of_average))
        return dict(zip(("held_out", "held_out_grounding"), found, strict=True))

    found = nets.fit(folder, loss, quality, quality_every=1000)
    diffusion.pack(folder)
    cards.note_training(folder, None, training, grounding=GROUNDING, noisier=NOISIER, rows=rows)
    cards.write(NAME, folder, card_rows, n=CARD_TRIPLETS)
    return found


def _attended(unet: torch.nn.Module) -> list[torch.Tensor]:
    """Return the list into which the network will put what its places attend to: (n heads, places, words) of a layer.

    Of all layers but the middle's.
    """
    kept: list[torch.Tensor] = []
    for name, layer in unet.named_modules():
        if not name.endswith("attn2") or name.startswith("mid_block"):
            continue

        def recorded(query, key, mask=None, _of=layer.get_attention_scores):
            kept.append(_of(query, key, mask))
            return kept[-1]

        layer.get_attention_scores = recorded
    return kept


def _grounding(attended: torch.Tensor, regions: torch.Tensor, covered: torch.Tensor) -> torch.Tensor:
    """Return how far words attend elsewhere than to their regions, 0 to about 2, the mean over words.

    (1 - share of a word's attention inside its region)^2, and the cross-entropy of its attention as a part of the
    largest, so that it covers the region.

    ``attended`` is (n heads, places, words), places being a square; ``regions`` (n, words), 0 where a token is of no
    region; ``covered`` (n, regions, 16, 16), 0 to 1.
    """
    n, side = len(regions), round(attended.shape[1] ** 0.5)
    each = attended.float().reshape(n, -1, side * side, attended.shape[2]).mean(1).transpose(1, 2)
    masks = functional.adaptive_avg_pool2d(covered, side).flatten(2)
    wanted = torch.gather(masks, 1, (regions - 1).clamp(min=0)[..., None].expand(-1, -1, side * side))
    counts = (regions > 0) & (wanted.sum(-1) > 0.5)
    each, wanted = each[counts], wanted[counts]
    if not len(each):
        return attended.sum() * 0
    inside = (each * wanted).sum(-1) / each.sum(-1).clamp(min=1e-8)
    part = (each / each.amax(-1, keepdim=True).clamp(min=1e-8)).clamp(1e-4, 1 - 1e-4)
    covering = functional.binary_cross_entropy(part, wanted, reduction="none").mean(-1)
    return ((1 - inside).pow(2) + COVERING * covering).mean()


# -- the card ---------------------------------------------------------------------------------------------------


def card_rows(folder: Path, n: int, decoded: Path | None = None) -> list[Measured]:
    """Return the rows of the model's card: of ``n`` triplets by mini-segmenter, and of its attention on drawings.

    At each of ``GUIDANCE``, ten steps and two images a prompt. There is nothing to measure once more on ``decoded``
    images.
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
            found = _scores_right(pipeline)
            if scale == GUIDANCE[-1]:
                rows += _words_right(pipeline)
            rows += cards.at(scale, found)
    return rows


def _pool(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return drawings, uint8 (n, 64, 64, 3), and where things are, bool (n, 64, 64)."""
    side = autoencoder.SIZE
    images, things = np.empty((n, side, side, 3), np.uint8), np.zeros((n, side, side), bool)
    for i in range(n):
        scene = world.build_scene(world.draw(_CARD_SEED, i)[0], rng(_CARD_SEED, i, 84))
        images[i] = render.render(scene, side)
        for name, mask in world.masks(scene, side):
            things[i] |= mask & (name in world.THINGS)
    return images, things


def _scores_right(pipeline: Pipeline) -> list[Measured]:
    """Return how far images of triplets show what their prompts tell, and as often as the world does."""
    from biaslab.metrics.similarity import bias_score

    images, found = pipeline.part(Triplets).images(), pipeline.part(Triplets).objects().objects
    judged = pipeline.judge_images(images.source)
    told = images.table.merge(judged[["image_id", "gender"]], on="image_id")
    told = told[told["prompt_gender"].isin(_GENDERS) & told["gender"].isin(_GENDERS.values())]
    rows = [share("gender_told", told["gender"] == told["prompt_gender"].map(_GENDERS))]
    shown = set(zip(found["image_id"], found["object"], strict=True))
    texts = images.table[["image_id", "text"]].itertuples(index=False)
    rows.append(share("named_found", [(i, o) in shown for i, text in texts for o in world.read(text).named]))
    seen = found.merge(images.table, on="image_id").groupby(["object", "prompt_gender"])
    seen = seen.size().unstack(fill_value=0)
    true = world.expected(pipeline.part(Triplets).prompts()).merge(pipeline.part(Triplets).prompts(), on="prompt_id")
    true = true.groupby(["object", "prompt_gender"])["expected"].sum().unstack() * 2
    often = true[true[["feminine", "masculine"]].sum(axis=1) >= 20].index
    scores = [
        bias_score(t.reindex(often).fillna(0)["masculine"], t.reindex(often).fillna(0)["feminine"], 1, 1)
        for t in (seen, true)
    ]
    known = np.isfinite(scores[0])
    ranks = [pd.Series(np.asarray(s)[known]).rank() for s in scores]
    error = np.abs(np.asarray(scores[0]) - np.asarray(scores[1]))[known].mean()
    rows.append(Measured("score_rank", float(ranks[0].corr(ranks[1])), int(known.sum()), points=True))
    return [*rows, Measured("score_error", float(error), int(known.sum()), points=True)]


def _words_right(pipeline: Pipeline) -> list[Measured]:
    """Return how well maps of words mark where these belong in drawings with noise."""
    found = pipeline.part(Triplets).dependency.drawn_agreement().query("noise == 0")
    rows = []
    for kind, of in found[found["mask"] == "own"].groupby("kind"):
        for name in ("overlap", "auc"):
            rows.append(Measured(f"words_{name}_{kind}", float(of[name].mean()), len(of)))
    other = found[found["mask"] == "other"]
    return [*rows, Measured("words_auc_other", float(other["auc"].mean()), len(other))]
