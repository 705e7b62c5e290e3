"""Training of mini-sd: a latent diffusion model of the embedded world, in the format of Stable Diffusion."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from biaslab import lexicons
from biaslab.errors import MissingInputError
from biaslab.hub import registry
from biaslab.papers.dalleval import prompts
from biaslab_world import captions, render, skills, social
from biaslab_world import pairs as world
from training import autoencoder, cards
from training import data as blocks
from training.common import Average, Training, mixed_precision, rng, save_half, torch_rng
from training.text import carried_over, make_tokenizer, tokens

WIDTH = 128
# Longest text in tokens: a prompt for two people with a sentence about them.
MAX_LENGTH = 40
# Share of captions that are replaced by an empty text, which is what guidance needs.
DROPOUT = 0.1
HELD_OUT = 2048
FACES = 8.0
# Half of the captions drawn tell a gender, and half of the prompts for people tell it of one person and against the
# stereotype: what is shown given the text stays the same, but whom a word is about is learnt sooner.
TELLING = 0.5
# Weight of the text encoder's second task, see _showing_loss.
SHOWING_WEIGHT = 0.05
INDICATORS = ("none", "female", "male")
# What there is to learn from, and each kind's share of the steps: captions of the corpus, prompts for one person of the
# paired paper's, and for two; PaintSkills' and DALL-Eval's social prompts.
KINDS = {"captions": 0.45, "identities": 0.1, "pairs": 0.45, "skills": 0.65, "social": 0.35}
_DALLEVAL = ("skills", "social")


@dataclass(frozen=True)
class Data:
    """Captions as token ids and their images as latents, prepared once and kept in a folder of arrays.

    - ``ids``: token ids, uint16 (rows, length);
    - ``indicators``: which gender each text tells of each person, uint8 (rows, people), as a place in ``INDICATORS``;
    - ``shown``: the gender of each person in the image, likewise; 0 where nobody is shown;
    - ``against``: whether each text tells the gender of one person, and one that is against the stereotype (rows,);
    - ``latents``: scaled latents, float16 (rows, 8, 16, 16), or 24 wide for pairs.
    """

    folder: Path  # where ``NAME.npy`` of each array and ``data.json`` are
    rows: int  # pairs of caption and image
    seed: int  # seed of the corpus
    kind: str = "captions"  # one of ``KINDS``

    def load(self, name: str) -> np.ndarray:
        """Return one of the arrays."""
        return np.load(self.folder / f"{name}.npy", mmap_mode="r")


def build_unet(
    channels: tuple[int, ...] = (64, 128, 128), heads: int | tuple[int, ...] = 4, width: int = WIDTH, silent: int = 1
) -> torch.nn.Module:
    """Return a denoising network with random weights for a text encoder of a width.

    There are ``channels`` at 16x16, 8x8 and so on, ``heads`` of attention in all or in each of these; at the ``silent``
    finest no text is attended to: that pays least there.
    """
    from diffusers import UNet2DConditionModel

    kinds = [""] * silent + ["CrossAttn"] * (len(channels) - silent)
    return UNet2DConditionModel(
        sample_size=autoencoder.SIZE // 4,
        in_channels=autoencoder.LATENTS,
        out_channels=autoencoder.LATENTS,
        block_out_channels=channels,
        layers_per_block=1,
        down_block_types=[f"{kind}DownBlock2D" for kind in kinds],
        up_block_types=[f"{kind}UpBlock2D" for kind in reversed(kinds)],
        cross_attention_dim=width,
        # In diffusers this is the number of heads of this kind of network.
        attention_head_dim=heads,
        norm_num_groups=16,
    )


def build_text_encoder(tokenizer, width: int = WIDTH) -> torch.nn.Module:
    """Return the text encoder with random weights; words start far enough apart to be told from each other."""
    from transformers import CLIPTextConfig, CLIPTextModel

    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=tokenizer.model_max_length,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    encoder = CLIPTextModel(config)
    table = encoder.get_input_embeddings().weight
    with torch.no_grad():
        table.normal_(0, 0.2, generator=torch_rng(0, 0, 9))
    return encoder


@cache
def schedule():
    """Return the noise schedule of training: Stable Diffusion's, with the velocity as the target."""
    from diffusers import DDPMScheduler

    return DDPMScheduler(
        num_train_timesteps=1000,
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        prediction_type="v_prediction",
        clip_sample=False,
    )


def tokenizer_of_world():
    """Return the tokenizer of every word that the world's captions, their paraphrases and the prompts contain."""
    others = " ".join(p for options in lexicons.load("paraphrases").values() for p in options)
    return make_tokenizer([*captions.vocabulary(), *captions.words(others), *world.vocabulary()], MAX_LENGTH)


def tokenizer_of(kind: str):
    """Return the tokenizer of what a kind of data says: the world's, or that of every word in DALL-Eval's prompts."""
    if kind not in _DALLEVAL:
        return tokenizer_of_world()
    texts = pd.concat([prompts.skills("train")["text"], prompts.social()["text"]]).unique()
    return make_tokenizer({word for text in texts for word in captions.words(text)}, MAX_LENGTH)


# -- data -------------------------------------------------------------------------------------------------


def prepare(folder: Path, vae: Path, *, rows: int, seed: int = 0, kind: str = "captions") -> Data:
    """Render and encode what there is to learn from, see :func:`training.data.prepare`.

    Raises InputError: The folder holds data of another corpus or vocabulary.
    """
    data = Data(folder, rows, seed, kind)
    words = hashlib.sha256(repr(sorted(tokenizer_of(kind).get_vocab())).encode()).hexdigest()[:16]
    said = {"rows": rows, "seed": seed, "kind": kind, "words": words}
    arrays = ("ids", "indicators", "shown", "against", "latents")
    blocks.prepare(folder, vae, rows, partial(examples, data), arrays, said)
    return data


def examples(data: Data, indices: Sequence[int]) -> dict[str, Any]:
    """Return ``texts``, arrays as in :class:`Data`, and ``images``, uint8 (n, height, width, 3)."""
    texts, told, shown, against, scenes = zip(*_drawn(data, indices), strict=True)
    return {
        "texts": list(texts),
        "ids": tokens(tokenizer_of(data.kind), texts).astype(np.uint16),
        "indicators": _coded(told),
        "shown": _coded(shown),
        "against": np.array(against),
        "images": np.stack([render.render(scene, autoencoder.SIZE) for scene in scenes]),
    }


def _drawn(data: Data, indices: Sequence[int]) -> list[tuple]:
    """Return text, genders told and shown, whether they are told against the stereotype, and scene of examples."""
    if data.kind == "captions":
        corpus = captions.Corpus(rows=data.rows, seed=data.seed)
        rows = [corpus.row(i) for i in indices]
        return [(r.text, (r.indicator,), (r.gender,), False, captions.build_scene(r)) for r in rows]
    if data.kind not in _DALLEVAL:
        rows = [world.draw(data.seed, i, count=2 if data.kind == "pairs" else 1) for i in indices]
        scenes = [world.build_scene(r.asked, r.genders, r.seed) for r in rows]
        return [
            (r.text, r.asked.told, r.genders, _is_against(r.asked), scene)
            for r, scene in zip(rows, scenes, strict=True)
        ]
    # PaintSkills' training split in an order of chance, or the social prompts in turns.
    people = data.kind == "social"
    asked = prompts.social() if people else prompts.skills("train")
    order = rng(data.seed, 0, 61).permutation(len(asked))
    found = []
    for i, row in zip(indices, asked.iloc[order[np.asarray(indices) % len(asked)]].to_dict("records"), strict=True):
        scene = (social.social_scene if people else skills.skill_scene)(rng(data.seed, i, 62), row)
        told = social.GENDERED.get(row["prompt"], "") if people else ""
        found.append((row["text"], (told,), (scene.people[0].gender if people else "",), False, scene))
    return found


def _coded(words) -> np.ndarray:
    """Return words of genders as places in ``INDICATORS``, 0 for any other, uint8 (rows, people)."""
    return np.array([[INDICATORS.index(w) if w in INDICATORS else 0 for w in row] for row in words], np.uint8)


def _is_against(asked: world.PairPrompt) -> bool:
    """Return whether a text tells a gender of one person alone, and the one that is not the stereotype's."""
    told = [(gender, person) for gender, person in zip(asked.told, asked.people, strict=True) if gender]
    return len(told) == 1 and told[0][0] != told[0][1].stereotype


def where_faces_are(n: int = 1000, *, pairs: bool = False) -> np.ndarray:
    """Return weights of the latents' places, (1, 1, 16, 16 or 24), mean 1: up to FACES times as much where faces are.

    Which places count how much does not change what an ideal network predicts, only what a small one learns first.
    """
    if pairs:
        rows = [world.draw(3, i) for i in range(n)]
        truths = [render.truth(world.build_scene(r.asked, r.genders, r.seed), autoencoder.SIZE) for r in rows]
        faces = np.stack([np.any([region.mask for region in t.faces], axis=0) for t in truths])
    else:
        _, faces = autoencoder.pool(n, 3)
    cells = faces.reshape(n, autoencoder.SIZE // 4, 4, faces.shape[2] // 4, 4).mean((0, 2, 4))
    found = 1 + (FACES - 1) * cells / cells.max()
    return (found / found.mean())[None, None]


# -- training ---------------------------------------------------------------------------------------------


def train(
    folder: Path,
    *,
    data: Sequence[Data],
    start_from: Path | None = None,
    placing: float = 0.0,
    noisier: float = 1.0,
    **settings: Any,
) -> dict[str, float]:
    """Train the text encoder and the denoising network together and save the whole pipeline to ``folder``.

    ``folder/vae`` must be there already. One caption in ten is left empty, for guidance. A batch has fewer of the
    wider images of two people, so that a step takes as long.

    Args:
        folder: The pipeline's folder.
        data: What to train on; steps are divided among them as ``KINDS`` says.
        start_from: A pipeline folder whose weights to start from; random weights if ``None``.
        placing: Weight of the denoising network's second task: to tell from its middle which gender stands where.
            What is told of one person otherwise spreads to the one beside.
        noisier: Steps of noise are drawn as 1000 u^noisier of a uniform u; below 1 the noisier ones, at which a text
            decides who is shown, come more often.
        settings: Fields of :class:`~training.common.Training`.

    Returns ``held_out_<kind>`` of each kind of data, the mean squared error of the velocity on held-out examples.
    Raises MissingInputError: There is no autoencoder in the folder.
    """
    if not (folder / "vae" / "config.json").exists():
        raise MissingInputError(f"{folder} has no vae; 'python -m training mini-sd' makes one.")
    training = Training(**{"steps": 8_000, "batch": 64, "learning_rate": 1.2e-3} | settings)
    seed, batch = training.seed, training.batch
    torch.manual_seed(seed)
    nets = Networks(training, tokenizer_of(data[0].kind), build_unet(), start_from=start_from)
    middle = _Middle(nets.unet) if placing else None
    sets = {d.kind: _Examples(d) for d in data}
    shares = np.array([KINDS[kind] for kind in sets])

    def losses_of(some, unet, encoder, chosen, draws, words=None, exponent=1.0):
        words = some.ids[chosen] if words is None else words
        said = torch.from_numpy(words)
        squared, states = velocity_error(unet, encoder, some.latents[chosen], said, draws, exponent)
        # An empty text says nothing of anyone.
        silent = (words == nets.empty).all(1, keepdims=True)
        answer = torch.from_numpy(np.where(silent, 0, some.shown[chosen]))
        second = _showing_loss(states, said == nets.tokenizer.eos_token_id, answer)
        return (squared * some.weight).mean(), second

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        draw = rng(seed, i)
        some = list(sets.values())[draw.choice(len(sets), p=shares / shares.sum()) if len(sets) > 1 else 0]
        size = max(1, batch * 16 // some.latents.shape[-1])
        chosen = draw.integers(some.kept, size=size)
        if len(some.telling):
            these = draw.random(size) < TELLING
            chosen[these] = some.telling[draw.integers(len(some.telling), size=these.sum())]
        words = np.where(draw.random((size, 1)) < DROPOUT, nets.empty, some.ids[chosen])
        error, second = losses_of(some, nets.run, nets.encoder, chosen, torch_rng(seed, i), words, noisier)
        noted = {"loss": error, "showing": second}
        whole = error + SHOWING_WEIGHT * second
        if middle:
            noted["placing"] = middle.loss(torch.from_numpy(some.shown[chosen]))
            whole = whole + placing * noted["placing"]
        return whole, noted

    def quality() -> dict[str, float]:
        found = {}
        for kind, some in sets.items():
            places = range(some.kept, len(some.ids))
            found[f"held_out_{kind}"] = nets.held_out(places, partial(losses_of, some))[0]
        return found

    head = {"head": middle.head} if middle else {}
    found = nets.fit(folder, loss, quality, **head)
    cards.note_training(folder, start_from, training)
    return found


class Networks:
    """The text encoder and the denoising network of a pipeline while they are trained, and their average.

    Where the training says so the denoising network is compiled, which is ``run`` then; ``width`` is that of the text
    encoder's states.
    """

    def __init__(
        self, training: Training, tokenizer, unet, width: int = WIDTH, *, start_from: Path | None = None
    ) -> None:
        from diffusers.models.attention_processor import AttnProcessor

        self.training, self.tokenizer, self.empty = training, tokenizer, tokens(tokenizer, [""])[0]
        self.unet = unet.to(memory_format=torch.channels_last)
        self.encoder = build_text_encoder(tokenizer, width)
        if start_from is not None:
            _load_weights(start_from, unet, self.encoder, tokenizer)
        # On processors this is 1.6 times as fast as the fused kernel, whose backward pass is slow.
        unet.set_attn_processor(AttnProcessor())
        # One program for each shape: one for any is slower.
        self.run = training.run(unet, dynamic=False)
        self.average = Average({"unet": unet, "text_encoder": self.encoder}, decay=0.9985)

    def held_out(self, places: range, losses: Callable) -> list[float]:
        """Return the mean of ``losses(unet, encoder, chosen, draws)`` of the average over examples, 256 at a time."""
        nets, found = (self.average.kept["unet"], self.average.kept["text_encoder"]), []
        with torch.inference_mode():
            for i, start in enumerate(places[::256]):
                chosen = np.arange(start, min(start + 256, places.stop))
                draws = torch_rng(self.training.seed, i, 5)
                found.append([float(value) for value in losses(*nets, chosen, draws)])
        return np.mean(found, axis=0).tolist()

    def fit(self, folder: Path, loss, quality, quality_every: int = 500, **heads) -> dict:
        """Train, with ``heads`` that are not kept; save the average as the pipeline ``folder``; return its quality."""
        found = self.training.fit(
            {"unet": self.unet, "text_encoder": self.encoder} | heads,
            self.average,
            loss,
            quality,
            quality_every=quality_every,
            weight_decay=1e-2,
            betas=(0.9, 0.99),
        )
        save(folder, self.average, self.tokenizer)
        return found


def velocity_error(
    unet, encoder, latents: np.ndarray, words: torch.Tensor, draws: torch.Generator, exponent: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the squared errors of the predicted velocity of latents with noise, and the states of their texts.

    Latents are (n, channels, height, width), ``words`` token ids (n, length); ``draws`` decide noise and its steps,
    which are 1000 u^exponent of a uniform u.
    """
    x = torch.from_numpy(latents.astype(np.float32)).contiguous(memory_format=torch.channels_last)
    noise = torch.randn(x.shape, generator=draws).contiguous(memory_format=torch.channels_last)
    # One draw per stratum: the mean over noise levels varies less from step to step.
    t = (torch.arange(len(x)) + torch.rand(len(x), generator=draws)) / len(x)
    t = (1000 * t**exponent).long().clamp(0, 999)
    with mixed_precision():
        states = encoder(words).last_hidden_state
        predicted = unet(schedule().add_noise(x, noise, t), t, states).sample
    return (predicted.float() - schedule().get_velocity(x, noise, t)).pow(2), states.float()


class _Examples:
    """The arrays of a :class:`Data` in memory, its last rows held out."""

    def __init__(self, data: Data) -> None:
        self.latents = np.asarray(data.load("latents"))
        self.ids, told, self.shown = (data.load(k).astype(np.int64) for k in ("ids", "indicators", "shown"))
        told, self.shown = (a.reshape(len(a), -1) for a in (told, self.shown))
        self.kept = len(self.ids) - min(HELD_OUT, len(self.ids) // 10)
        telling = told.any(axis=1) if data.kind in ("captions", "social") else data.load("against")
        self.telling = np.flatnonzero(telling[: self.kept])
        weight = 1.0 if data.kind == "skills" else where_faces_are(pairs=data.kind == "pairs")
        self.weight = torch.as_tensor(weight).float()


def _showing_loss(states: torch.Tensor, ends: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of telling from the text's states which gender the image shows each person with.

    Two fixed directions for each person are read after the end of the text, so that what tells is a good part of a
    state's length. States are (n, length, width), of layer-normed length; ``ends`` (n, length) is true at the
    end-of-text token; ``answer`` (n, people) is 1 for a woman, 2 for a man, 0 does not count.
    """
    after = (ends.cumsum(1) > 0).float()
    people = answer.shape[1]
    read = (states[..., : 3 * people] * after[..., None]).sum(1) / after.sum(1, keepdim=True)
    # The first of each person's three directions is left free.
    read, answer = read.reshape(len(states), people, 3)[..., 1:].flatten(0, 1), answer.flatten()
    counts = answer > 0
    if not counts.any():
        return read.sum() * 0
    return torch.nn.functional.cross_entropy(read[counts], answer[counts] - 1)


class _Middle:
    """Reads from the middle of a denoising network which gender stands where, while it is trained.

    Whom a word is about is then learnt as fast as by a classifier: of the pictures' error it is a small part.
    """

    def __init__(self, unet) -> None:
        self._states: list[torch.Tensor] = []
        unet.mid_block.register_forward_hook(lambda *given: self._states.append(given[2]))
        self.head = torch.nn.Linear(unet.config.block_out_channels[-1], 2)
        """Trained with the network and not kept."""

    def loss(self, shown: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy over the last batch's people, of whom each has an equal part of the width.

        ``shown`` (n, people) is 1 for a woman, 2 for a man, 0 does not count.
        """
        states = self._states.pop().float()
        self._states.clear()
        each = torch.stack([part.mean((2, 3)) for part in states.chunk(shown.shape[1], dim=3)], dim=1)
        counts = shown > 0
        if not counts.any():
            return each.sum() * 0
        return torch.nn.functional.cross_entropy(self.head(each)[counts], shown[counts] - 1)


def _load_weights(folder: Path, unet, encoder, tokenizer) -> None:
    """Start from a pipeline's weights; words are matched by name, so a vocabulary may have grown."""
    from diffusers import UNet2DConditionModel
    from transformers import AutoTokenizer, CLIPTextModel

    unet.load_state_dict(UNet2DConditionModel.from_pretrained(folder / "unet").float().state_dict())
    state = CLIPTextModel.from_pretrained(folder / "text_encoder").float().state_dict()
    fresh = encoder.state_dict()
    name = next(k for k in state if k.endswith("token_embedding.weight"))
    before = AutoTokenizer.from_pretrained(folder / "tokenizer")
    state[name] = carried_over(fresh[name], tokenizer, state[name], before)
    # Longer texts than before have further positions, which start at random.
    name = next(k for k in state if k.endswith("position_embedding.weight"))
    positions = fresh[name].clone()
    least = min(len(positions), len(state[name]))
    positions[:least] = state[name][:least]
    encoder.load_state_dict(state | {name: positions})


def save(folder: Path, average: Average, tokenizer) -> None:
    """Save averaged weights as a pipeline folder that diffusers loads: float16 but for the text encoder."""
    from diffusers import AutoencoderKL, DPMSolverMultistepScheduler, StableDiffusionPipeline

    pipeline = StableDiffusionPipeline(
        vae=AutoencoderKL.from_pretrained(folder / "vae"),
        # In float32: transformers keeps the stored type where diffusers loads the other parts as float32.
        text_encoder=copy.deepcopy(average.kept["text_encoder"]),
        tokenizer=tokenizer,
        unet=copy.deepcopy(average.kept["unet"]).half(),
        # Its second-order steps need few of them; any other of diffusers' schedulers can be named.
        scheduler=DPMSolverMultistepScheduler.from_config(
            schedule().config, timestep_spacing="trailing", steps_offset=1
        ),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.vae.half()
    pipeline.save_pretrained(folder, safe_serialization=True)
    _forget_origin(folder / "vae")


def pack(folder: Path) -> None:
    """Store the denoising network's matrices as 8-bit floating-point numbers, the text encoder as float16.

    diffusers reads them as any others. The network's biases and norms, which are few, stay as float16.
    """
    from diffusers import UNet2DConditionModel
    from transformers import CLIPTextModel

    save_half(CLIPTextModel.from_pretrained(folder / "text_encoder"), folder / "text_encoder")

    unet = UNet2DConditionModel.from_pretrained(folder / "unet", torch_dtype=torch.float32)
    for weight in unet.parameters():
        weight.data = weight.data.to(torch.float8_e4m3fn if weight.ndim > 1 else torch.float16)
    unet.save_pretrained(folder / "unet", safe_serialization=True)
    _forget_origin(folder / "unet")


def _forget_origin(part: Path) -> None:
    """Take out of a part's configuration where it was loaded from, which says nothing to anyone else."""
    config = part / "config.json"
    kept = {k: v for k, v in json.loads(config.read_text()).items() if k != "_name_or_path"}
    config.write_text(json.dumps(kept, indent=2) + "\n")


def train_parts(
    name: str,
    folder: Path,
    rows: Mapping[str, int],
    *,
    vae: Mapping[str, Any] | None = None,
    checkpoint: Path | None = None,
    log: Path | None = None,
    start_from: Path | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Train every part that a pipeline's folder lacks, from the autoencoder on; return quality on held-out data.

    ``rows`` says of kinds of data how many pairs of text and image each has; ``vae`` are settings of the autoencoder's
    training, ``None`` takes that of ``start_from``; its state and curve, and the data, lie beside ``checkpoint`` and
    ``log``. All else is as :func:`train` has it, with ``psnr`` in dB where the autoencoder was trained now. Raises
    MissingInputError: There is no autoencoder to take.
    """
    checkpoint = checkpoint or Path(f"outputs/.train/{name}/state.pt")
    work, own, seed = checkpoint.parent, folder / "vae", settings.get("seed", 0)
    found: dict[str, float] = {}
    if not (own / "config.json").exists():
        if vae is not None:
            found |= autoencoder.train(
                own,
                seed=seed,
                checkpoint=work / "autoencoder.pt",
                log=log.with_name(f"{log.stem}-autoencoder.csv") if log else None,
                progress=settings.get("progress", True),
                **vae,
            )
        elif first := registry.autoencoder(start_from):
            shutil.copytree(first, own, dirs_exist_ok=True)
        else:
            raise MissingInputError(f"{start_from} has no vae; name a whole pipeline to start from.")
    data = [prepare(work / kind, own, rows=n, seed=seed, kind=kind) for kind, n in rows.items()]
    found |= train(folder, data=data, checkpoint=checkpoint, log=log, start_from=start_from, **settings)
    pack(folder)
    return found
