"""Training of mini-sd: a latent diffusion model of the embedded world, in the format of Stable Diffusion."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from biaslab import lifeline
from biaslab.errors import InputError, MissingInputError, unknown_name
from biaslab.mini.train import autoencoder, cards
from biaslab.mini.train.common import Average, Training, rng, torch_rng
from biaslab.mini.train.text import make_tokenizer

if TYPE_CHECKING:
    import torch

    from biaslab.mini.pairs import Asked

WIDTH = 128
# Longest text in tokens: a prompt for two people with a sentence about them.
MAX_LENGTH = 40
# Share of captions that are replaced by an empty text, which is what guidance needs.
DROPOUT = 0.1
BLOCK = 4096
HELD_OUT = 2048
FACES = 8.0
# Half of the captions drawn tell a gender, and half of the prompts for people tell it of one person and against the
# stereotype: what is shown given the text stays the same, but whom a word is about is learnt sooner.
TELLING = 0.5
# Weight of the text encoder's second task, see _showing_loss.
SHOWING_WEIGHT = 0.05
INDICATORS = ("none", "female", "male")
# What there is to learn from, and each kind's share of the steps: captions of the corpus, prompts for one person of the
# paired paper's, and for two.
KINDS = {"captions": 0.45, "identities": 0.1, "pairs": 0.45}


@dataclass(frozen=True)
class Data:
    """Captions as token ids and their images as latents, prepared once and kept in a folder."""

    folder: Path
    """Where ``ids.npy``, ``indicators.npy``, ``latents.npy`` and ``data.json`` are."""
    rows: int
    """Pairs of caption and image."""
    seed: int
    """Seed of the corpus."""
    skew: str
    """Name of the corpus's knobs, see :mod:`biaslab.mini.world`."""
    kind: str = "captions"
    """One of ``KINDS``."""

    @property
    def ids(self) -> np.ndarray:
        """Return token ids, uint16 (rows, length)."""
        return np.load(self.folder / "ids.npy", mmap_mode="r")

    @property
    def indicators(self) -> np.ndarray:
        """Return which gender each text tells of each person, uint8 (rows, people), as a place in ``INDICATORS``."""
        return np.load(self.folder / "indicators.npy", mmap_mode="r")

    @property
    def shown(self) -> np.ndarray:
        """Return the gender of each person in the image, uint8 (rows, people), likewise; 0 where nobody is shown."""
        return np.load(self.folder / "shown.npy", mmap_mode="r")

    @property
    def against(self) -> np.ndarray:
        """Return whether each text tells the gender of one person, and one that is against the stereotype (rows,)."""
        return np.load(self.folder / "against.npy", mmap_mode="r")

    @property
    def latents(self) -> np.ndarray:
        """Return scaled latents, float16 (rows, 8, 16, 16), or 24 wide for pairs."""
        return np.load(self.folder / "latents.npy", mmap_mode="r")


def build_unet() -> torch.nn.Module:
    """Return the denoising network with random weights: text attends at 8x8 and 4x4 only, where it pays."""
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=autoencoder.SIZE // 4,
        in_channels=autoencoder.LATENTS,
        out_channels=autoencoder.LATENTS,
        block_out_channels=(64, 128, 128),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=WIDTH,
        # In diffusers this is the number of heads of this kind of network.
        attention_head_dim=4,
        norm_num_groups=16,
    )


def build_text_encoder(tokenizer) -> torch.nn.Module:
    """Return the text encoder with random weights; words start far enough apart to be told from each other."""
    import torch
    from transformers import CLIPTextConfig, CLIPTextModel

    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
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


def tokenizer_of_world(extra: tuple[str, ...] = ()):
    """Return the tokenizer of every word that the world's captions, their paraphrases and the prompts contain."""
    from biaslab import lexicons
    from biaslab.mini import captions, pairs

    others = " ".join(p for options in lexicons.load("paraphrases").values() for p in options)
    return make_tokenizer(
        [*captions.vocabulary(), *captions.words(others), *pairs.vocabulary(), *extra], MAX_LENGTH
    )


_PARTS = ("ids", "indicators", "shown", "against", "latents")


# -- data -------------------------------------------------------------------------------------------------


def prepare(
    folder: Path,
    vae_folder: Path,
    *,
    rows: int,
    seed: int = 0,
    skew: str = "default",
    workers: int = 2,
    kind: str = "captions",
) -> Data:
    """Render and encode the corpus, in blocks and side by side; blocks that are there already are kept.

    Raises:
        InputError: The folder holds data of another corpus or vocabulary.
        UnknownNameError: There is no such kind.
    """
    from tqdm import tqdm

    if kind not in KINDS:
        raise unknown_name("kind of data", kind, KINDS)
    data = Data(folder, rows, seed, skew, kind)
    words = hashlib.sha256(repr(sorted(tokenizer_of_world().get_vocab())).encode()).hexdigest()[:16]
    said = {k: v for k, v in asdict(data).items() if k != "folder"} | {"block": BLOCK, "words": words}
    note = folder / "data.json"
    folder.mkdir(parents=True, exist_ok=True)
    if note.exists() and json.loads(note.read_text()) != said:
        raise InputError(f"{folder} holds data of {note.read_text()}; delete it or name another folder.")
    note.write_text(json.dumps(said))
    if (folder / "latents.npy").exists():
        return data
    starts = list(range(0, rows, BLOCK))
    jobs = [(folder, vae_folder, data, start) for start in starts]
    start = {"initializer": lifeline.begin, "initargs": (os.getpid(),)}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), **start) as executor:
        try:
            with lifeline.sheltered():
                blocks = executor.map(_encode_block, jobs)
            list(tqdm(blocks, total=len(jobs), unit="block", desc="renders"))
        except KeyboardInterrupt:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.kill()
            raise
    for name in _PARTS:
        whole = np.concatenate([np.load(folder / f"{name}-{start}.npy") for start in starts])
        np.save(folder / f".{name}.npy", whole)
        (folder / f".{name}.npy").replace(folder / f"{name}.npy")
    for start in starts:
        for name in _PARTS:
            (folder / f"{name}-{start}.npy").unlink()
    return data


def _encode_block(job: tuple[Path, Path, Data, int]) -> None:
    import torch
    from diffusers import AutoencoderKL

    folder, vae_folder, data, start = job
    done = folder / f"latents-{start}.npy"
    if done.exists():
        return
    torch.set_num_threads(1)
    vae = AutoencoderKL.from_pretrained(vae_folder, torch_dtype=torch.float32).eval()
    texts, told, shown, against, images = examples(data, range(start, min(start + BLOCK, data.rows)))
    np.save(folder / f"ids-{start}.npy", tokens(tokenizer_of_world(), texts))
    np.save(folder / f"indicators-{start}.npy", told)
    np.save(folder / f"shown-{start}.npy", shown)
    np.save(folder / f"against-{start}.npy", against)
    latents = autoencoder.encode(vae, images)
    np.save(folder / f".latents-{start}.npy", latents)
    (folder / f".latents-{start}.npy").replace(done)


def examples(
    data: Data, indices: Sequence[int]
) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return texts, what each tells, who is shown, ``Data.against``, and images, uint8 (n, height, width, 3)."""
    from biaslab.mini import captions, pairs, render

    def coded(words) -> np.ndarray:
        return np.array(
            [[INDICATORS.index(w) if w in INDICATORS else 0 for w in row] for row in words], np.uint8
        )

    if data.kind == "captions":
        corpus = captions.Corpus(rows=data.rows, seed=data.seed, skew=data.skew)
        table = corpus.rows_at(indices)
        told, shown = (coded([[w] for w in table[f"truth_{c}"]]) for c in ("indicator", "gender"))
        images = corpus.images(list(table["caption_id"]), size=autoencoder.SIZE)
        return list(table["text"]), told, shown, np.zeros(len(table), bool), images
    count = 2 if data.kind == "pairs" else 1
    rows = [pairs.draw(data.seed, i, count=count) for i in indices]
    scenes = [pairs.build_scene(row.asked, row.genders, row.seed) for row in rows]
    images = np.stack([render.render(scene, autoencoder.SIZE) for scene in scenes])
    told, shown = coded(row.asked.told for row in rows), coded(row.genders for row in rows)
    against = np.array([_is_against(row.asked) for row in rows])
    return [row.text for row in rows], told, shown, against, images


def _is_against(asked: Asked) -> bool:
    """Return whether a text tells a gender of one person alone, and the one that is not the stereotype's."""
    told = [(gender, person) for gender, person in zip(asked.told, asked.people, strict=True) if gender]
    return len(told) == 1 and told[0][0] != told[0][1].stereotype


def tokens(tokenizer, texts: list[str]) -> np.ndarray:
    """Return token ids, uint16 (n, length), padded and cut to the tokenizer's length."""
    found = tokenizer(texts, padding="max_length", truncation=True, max_length=tokenizer.model_max_length)
    return np.array(found["input_ids"], dtype=np.uint16)


def where_faces_are(n: int = 1000, *, pairs: bool = False) -> np.ndarray:
    """Return weights of the latents' places, (1, 1, 16, 16 or 24), mean 1: up to FACES times as much where faces are.

    Which places count how much does not change what an ideal network predicts, only what a small one learns first.
    """
    if pairs:
        from biaslab.mini import pairs as world
        from biaslab.mini import render

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
    steps: int = 8_000,
    batch: int = 64,
    seed: int = 0,
    checkpoint: Path | None = None,
    log: Path | None = None,
    minutes: float = 0.0,
    progress: bool = True,
    data: Sequence[Data] = (),
    snapshots: Path | None = None,
    n_snapshots: int = 8,
    start_from: Path | None = None,
    compiled: bool = True,
    learning_rate: float = 1.2e-3,
    placing: float = 0.0,
    noisier: float = 1.0,
) -> dict[str, float]:
    """Train the text encoder and the denoising network together and save the whole pipeline to ``folder``.

    ``folder/vae`` must be there already. One caption in ten is left empty, for guidance.

    Args:
        folder: The pipeline's folder.
        steps: Steps of training.
        batch: Images a step; fewer of the wider ones of two people, so that a step takes as long.
        seed: Seed of weights and draws.
        checkpoint: File of the resumable state.
        log: CSV of the curve.
        minutes: Ends early, see :class:`~biaslab.mini.train.common.Training`.
        progress: Whether a progress bar is shown.
        data: What to train on; steps are divided among them as ``KINDS`` says.
        snapshots: Folder for pipelines on the way, from which curves of any measure are drawn.
        n_snapshots: How many of them, evenly over the training.
        start_from: A pipeline folder whose weights to start from; random weights if ``None``.
        compiled: Whether the denoising network is compiled: minutes at first, then faster.
        learning_rate: The largest.
        placing: Weight of the denoising network's second task: to tell from its middle which gender stands where.
            What is told of one person otherwise spreads to the one beside.
        noisier: Steps of noise are drawn as 1000 u^noisier of a uniform u; below 1 the noisier ones, at which a text
            decides who is shown, come more often.

    Returns:
        For each kind of data ``held_out_<kind>``: the mean squared error of the predicted velocity on examples that are
        held out.

    Raises:
        MissingInputError: There is no autoencoder in the folder.
    """
    import torch
    from diffusers.models.attention_processor import AttnProcessor

    if not (folder / "vae" / "config.json").exists():
        raise MissingInputError(f"{folder} has no vae; run 'biaslab train mini-sd-vae' first.")
    if not data:
        raise MissingInputError("No data are given; make them with prepare().")
    torch.manual_seed(seed)
    tokenizer = tokenizer_of_world()
    unet = build_unet().to(memory_format=torch.channels_last)
    encoder = build_text_encoder(tokenizer)
    if start_from is not None:
        _load_weights(start_from, unet, encoder, tokenizer)
    # On processors this is 1.6 times as fast as the fused kernel, whose backward pass is slow.
    unet.set_attn_processor(AttnProcessor())
    # One program for each shape: one for any is slower.
    run = torch.compile(unet, dynamic=False) if compiled else unet
    average = Average({"unet": unet, "text_encoder": encoder}, decay=0.9985)
    middle = _Middle(unet) if placing else None
    parts = {"unet": unet, "text_encoder": encoder} | ({"head": middle.head} if middle else {})
    parameters = [parameter for part in parts.values() for parameter in part.parameters()]
    optimiser = torch.optim.AdamW(parameters, 1e-3, weight_decay=1e-2, betas=(0.9, 0.99), fused=True)
    training = Training(
        parts | {"optimiser": optimiser, "average": average},
        steps=steps,
        learning_rate=learning_rate,
        checkpoint=checkpoint,
        log=log,
        minutes=minutes,
        progress=progress,
    )
    sets = {d.kind: _Examples(d) for d in data}
    shares = np.array([KINDS[kind] for kind in sets])
    empty = tokens(tokenizer, [""])[0].astype(np.int64)
    noise_schedule = schedule()

    def losses_of(
        unet, encoder, some, chosen, words, draws, exponent=1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.from_numpy(some.latents[chosen].astype(np.float32))
        x = x.contiguous(memory_format=torch.channels_last)
        noise = torch.randn(x.shape, generator=draws).contiguous(memory_format=torch.channels_last)
        # One draw per stratum: the mean over noise levels varies less from step to step.
        t = (torch.arange(len(x)) + torch.rand(len(x), generator=draws)) / len(x)
        t = (1000 * t**exponent).long().clamp(0, 999)
        noisy = noise_schedule.add_noise(x, noise, t)
        target = noise_schedule.get_velocity(x, noise, t)
        with torch.autocast("cpu", torch.bfloat16):
            states = encoder(torch.from_numpy(words)).last_hidden_state
            predicted = unet(noisy, t, states).sample
        # An empty text says nothing of anyone.
        answer = torch.from_numpy(np.where((words == empty).all(1, keepdims=True), 0, some.shown[chosen]))
        second = _showing_loss(states.float(), torch.from_numpy(words) == tokenizer.eos_token_id, answer)
        return ((predicted.float() - target).pow(2) * some.weight).mean(), second

    progress_made = {"next": 1}

    def one_step(i: int) -> dict[str, float]:
        draw = rng(seed, i)
        some = sets[
            list(sets)[draw.choice(len(sets), p=shares / shares.sum())] if len(sets) > 1 else data[0].kind
        ]
        size = max(1, batch * 16 // some.latents.shape[-1])
        chosen = draw.integers(some.kept, size=size)
        if len(some.telling):
            these = draw.random(size) < TELLING
            chosen[these] = some.telling[draw.integers(len(some.telling), size=these.sum())]
        words = np.where(draw.random((size, 1)) < DROPOUT, empty, some.ids[chosen])
        loss, second = losses_of(run, encoder, some, chosen, words, torch_rng(seed, i), noisier)
        losses = {"loss": loss, "showing": second}
        whole = loss + SHOWING_WEIGHT * second
        if middle:
            losses["placing"] = middle.loss(torch.from_numpy(some.shown[chosen]))
            whole = whole + placing * losses["placing"]
        optimiser.zero_grad(set_to_none=True)
        whole.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        average.update(i)
        if snapshots is not None and training.fraction * n_snapshots >= progress_made["next"]:
            progress_made["next"] = int(training.fraction * n_snapshots) + 1
            save(snapshots / f"step-{i:06d}", average, tokenizer, vae=folder / "vae")
        return {name: float(one.detach()) for name, one in losses.items()}

    def quality() -> dict[str, float]:
        found = {}
        nets = average.kept["unet"], average.kept["text_encoder"]
        for kind, some in sets.items():
            total = []
            with torch.inference_mode():
                for i, start in enumerate(range(some.kept, len(some.ids), 256)):
                    chosen = np.arange(start, min(start + 256, len(some.ids)))
                    draws = torch_rng(seed, i, 5)
                    total.append(float(losses_of(*nets, some, chosen, some.ids[chosen], draws)[0]))
            found[f"held_out_{kind}"] = float(np.mean(total))
        return found

    found = training.run(optimiser, one_step, quality, quality_every=500)
    save(folder, average, tokenizer)
    noted = {"steps": training.step, "batch": batch, "seed": seed, "minutes": round(training.elapsed / 60, 1)}
    cards.note_training(folder, start_from, **noted)
    return found


class _Examples:
    """The arrays of a :class:`Data` in memory, its last rows held out."""

    def __init__(self, data: Data) -> None:
        import torch

        self.ids, self.latents = np.asarray(data.ids).astype(np.int64), np.asarray(data.latents)
        told = np.asarray(data.indicators).astype(np.int64)
        told = told.reshape(len(told), -1)
        self.shown = np.asarray(data.shown).astype(np.int64).reshape(len(told), -1)
        self.kept = len(self.ids) - min(HELD_OUT, len(self.ids) // 10)
        telling = told.any(axis=1) if data.kind == "captions" else np.asarray(data.against)
        self.telling = np.flatnonzero(telling[: self.kept])
        self.weight = torch.from_numpy(where_faces_are(pairs=data.kind == "pairs")).float()


def _showing_loss(states: torch.Tensor, ends: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of telling from the text's states which gender the image shows each person with.

    Stable Diffusion's text encoder comes with such knowledge from CLIP; this one learns it beside the images. Two
    fixed directions for each person are read after the end of the text, so that what tells is a good part of a state's
    length.

    Args:
        states: (n, length, width), of layer-normed length.
        ends: (n, length), true at the end-of-text token.
        answer: (n, people), 1 for a woman, 2 for a man; 0 does not count.
    """
    import torch

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
        import torch

        self._states: list[torch.Tensor] = []
        unet.mid_block.register_forward_hook(lambda *given: self._states.append(given[2]))
        self.head = torch.nn.Linear(unet.config.block_out_channels[-1], 2)
        """Trained with the network and not kept."""

    def loss(self, shown: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy over the last batch's people, of whom each has an equal part of the width.

        Args:
            shown: (n, people), 1 for a woman, 2 for a man; 0 does not count.
        """
        import torch

        states = self._states.pop().float()
        self._states.clear()
        each = torch.stack([part.mean((2, 3)) for part in states.chunk(shown.shape[1], dim=3)], dim=1)
        counts = shown > 0
        if not counts.any():
            return each.sum() * 0
        return torch.nn.functional.cross_entropy(self.head(each)[counts], shown[counts] - 1)


def _load_weights(folder: Path, unet, encoder, tokenizer) -> None:
    """Start from a pipeline's weights; words are matched by name, so a vocabulary may have grown."""
    import torch
    from diffusers import UNet2DConditionModel
    from transformers import AutoTokenizer, CLIPTextModel

    unet.load_state_dict(UNet2DConditionModel.from_pretrained(folder / "unet").float().state_dict())
    old = CLIPTextModel.from_pretrained(folder / "text_encoder").float()
    before = AutoTokenizer.from_pretrained(folder / "tokenizer").get_vocab()
    state = old.state_dict()
    name = next(k for k in state if k.endswith("token_embedding.weight"))
    table = encoder.state_dict()[name].clone()
    with torch.no_grad():
        for word, i in tokenizer.get_vocab().items():
            if word in before:
                table[i] = state[name][before[word]]
    state[name] = table
    # Longer texts than before have further positions, which start at random.
    name = next(k for k in state if k.endswith("position_embedding.weight"))
    table = encoder.state_dict()[name].clone()
    least = min(len(table), len(state[name]))
    table[:least] = state[name][:least]
    state[name] = table
    encoder.load_state_dict(state)


def save(folder: Path, average: Average, tokenizer, *, vae: Path | None = None) -> None:
    """Save averaged weights as a pipeline folder that diffusers loads: float16 but for the text encoder."""
    import copy

    from diffusers import AutoencoderKL, DPMSolverMultistepScheduler, StableDiffusionPipeline

    pipeline = StableDiffusionPipeline(
        vae=AutoencoderKL.from_pretrained(vae or folder / "vae"),
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
    """Store the denoising network's matrices as 8-bit floating-point numbers, in half of the space.

    diffusers reads them as any others. Biases and norms, which are few, stay as float16.
    """
    import torch
    from diffusers import UNet2DConditionModel

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


__all__ = [
    "MAX_LENGTH",
    "Data",
    "build_text_encoder",
    "build_unet",
    "pack",
    "prepare",
    "save",
    "tokens",
    "train",
]
