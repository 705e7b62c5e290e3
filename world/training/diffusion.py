"""Training of mini-sd: a latent diffusion model of the synthetic world, in the format of Stable Diffusion."""

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
# Maximum length of a text in tokens: a prompt for two people with a sentence about them.
MAX_LENGTH = 40
# Share of captions that are replaced by an empty text, as guidance requires.
DROPOUT = 0.1
HELD_OUT = 2048
FACES = 8.0
# Share of sampled captions that indicate a gender, and of prompts for people that state the gender of one person,
# against the stereotype. Images given the text are unchanged, but the referent of a gender word is learnt sooner.
GENDERED_SHARE = 0.5
# Weight of the text encoder's auxiliary task, see _showing_loss.
SHOWING_WEIGHT = 0.05
INDICATORS = ("none", "female", "male")
# Kinds of training data with their shares of the steps: captions of the corpus, the paired paper's prompts for one
# person and for two; PaintSkills' and DALL-Eval's social prompts.
KINDS = {"captions": 0.45, "identities": 0.1, "pairs": 0.45, "skills": 0.65, "social": 0.35}
_DALLEVAL = ("skills", "social")


@dataclass(frozen=True)
class Data:
    """Captions as token ids and their images as latents, prepared once and saved in a folder of arrays.

    - ``ids``: token ids, uint16 (rows, length);
    - ``indicators``: gender of each person in the text, uint8 (rows, people), as an index in ``INDICATORS``;
    - ``shown``: gender of each person in the image, in the same form; 0 without a person;
    - ``against``: whether the text states the gender of exactly one person, against the stereotype (rows,);
    - ``latents``: scaled latents, float16 (rows, 8, 16, 16), or 24 wide for pairs.
    """

    folder: Path  # folder of ``NAME.npy`` for each array and ``data.json``
    rows: int  # number of pairs of caption and image
    seed: int  # seed of the corpus
    kind: str = "captions"  # one of ``KINDS``

    def load(self, name: str) -> np.ndarray:
        """Return one of the arrays."""
        return np.load(self.folder / f"{name}.npy", mmap_mode="r")


def build_unet(
    channels: tuple[int, ...] = (64, 128, 128), heads: int | tuple[int, ...] = 4, width: int = WIDTH, silent: int = 1
) -> torch.nn.Module:
    """Return a denoising network with random weights for a text encoder of ``width``.

    The network has ``channels`` at 16x16, 8x8 and so on, with ``heads`` of attention for all or for each of them. The
    ``silent`` finest resolutions have no cross-attention, which is least useful there.
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
    """Return the text encoder with random weights and with token embeddings spread widely enough."""
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
    """Return the noise schedule of training: that of Stable Diffusion, with the velocity as the target."""
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
    """Return the tokenizer for the words of the world's captions, their paraphrases and the prompts."""
    paraphrases = " ".join(p for options in lexicons.load("paraphrases").values() for p in options)
    return make_tokenizer([*captions.vocabulary(), *captions.words(paraphrases), *world.vocabulary()], MAX_LENGTH)


def tokenizer_of(kind: str):
    """Return the tokenizer for a kind of data: the world's, or one for the words of DALL-Eval's prompts."""
    if kind not in _DALLEVAL:
        return tokenizer_of_world()
    texts = pd.concat([prompts.skills("train")["text"], prompts.social()["text"]]).unique()
    return make_tokenizer({word for text in texts for word in captions.words(text)}, MAX_LENGTH)


# -- data -------------------------------------------------------------------------------------------------


def prepare(folder: Path, vae: Path, *, rows: int, seed: int = 0, kind: str = "captions") -> Data:
    """Render and encode the training data, see :func:`training.data.prepare`.

    Raises InputError: The folder has data of another corpus or vocabulary.
    """
    data = Data(folder, rows, seed, kind)
    words = hashlib.sha256(repr(sorted(tokenizer_of(kind).get_vocab())).encode()).hexdigest()[:16]
    settings = {"rows": rows, "seed": seed, "kind": kind, "words": words}
    arrays = ("ids", "indicators", "shown", "against", "latents")
    blocks.prepare(folder, vae, rows, partial(examples, data), arrays, settings)
    return data


def examples(data: Data, indices: Sequence[int]) -> dict[str, Any]:
    """Return ``texts``, arrays as in :class:`Data`, and ``images``, uint8 (n, height, width, 3)."""
    texts, genders_named, genders_shown, against, scenes = zip(*_sample_examples(data, indices), strict=True)
    return {
        "texts": list(texts),
        "ids": tokens(tokenizer_of(data.kind), texts).astype(np.uint16),
        "indicators": _encode_genders(genders_named),
        "shown": _encode_genders(genders_shown),
        "against": np.array(against),
        "images": np.stack([render.render(scene, autoencoder.SIZE) for scene in scenes]),
    }


def _sample_examples(data: Data, indices: Sequence[int]) -> list[tuple]:
    """Return text, genders in the text and in the image, the value of ``against``, and scene of each example."""
    if data.kind == "captions":
        corpus = captions.Corpus(rows=data.rows, seed=data.seed)
        rows = [corpus.row(i) for i in indices]
        return [(r.text, (r.indicator,), (r.gender,), False, captions.build_scene(r)) for r in rows]
    if data.kind not in _DALLEVAL:
        rows = [world.draw(data.seed, i, count=2 if data.kind == "pairs" else 1) for i in indices]
        scenes = [world.build_scene(r.prompt, r.genders, r.seed) for r in rows]
        return [
            (r.text, r.prompt.genders, r.genders, _is_against(r.prompt), scene)
            for r, scene in zip(rows, scenes, strict=True)
        ]
    # PaintSkills' training split or the social prompts, in random order and repeated as necessary.
    people = data.kind == "social"
    table = prompts.social() if people else prompts.skills("train")
    order = rng(data.seed, 0, 61).permutation(len(table))
    examples = []
    for i, row in zip(indices, table.iloc[order[np.asarray(indices) % len(table)]].to_dict("records"), strict=True):
        scene = (social.social_scene if people else skills.skill_scene)(rng(data.seed, i, 62), row)
        gender = social.GENDERED.get(row["prompt"], "") if people else ""
        examples.append((row["text"], (gender,), (scene.people[0].gender if people else "",), False, scene))
    return examples


def _encode_genders(words) -> np.ndarray:
    """Return gender words as indices in ``INDICATORS``, 0 for any other word, uint8 (rows, people)."""
    return np.array([[INDICATORS.index(w) if w in INDICATORS else 0 for w in row] for row in words], np.uint8)


def _is_against(prompt: world.PairPrompt) -> bool:
    """Return whether a text states the gender of exactly one person, and contrary to the person's stereotype."""
    gendered = [(gender, person) for gender, person in zip(prompt.genders, prompt.people, strict=True) if gender]
    return len(gendered) == 1 and gendered[0][0] != gendered[0][1].stereotype


def where_faces_are(n: int = 1000, *, pairs: bool = False) -> np.ndarray:
    """Return weights of the latents' cells, (1, 1, 16, 16 or 24), with mean 1 and up to FACES times more for faces.

    Weights do not change the predictions of an ideal network, only the order in which a small one learns.
    """
    if pairs:
        rows = [world.draw(3, i) for i in range(n)]
        truths = [render.truth(world.build_scene(r.prompt, r.genders, r.seed), autoencoder.SIZE) for r in rows]
        faces = np.stack([np.any([region.mask for region in t.faces], axis=0) for t in truths])
    else:
        _, faces = autoencoder.pool(n, 3)
    cells = faces.reshape(n, autoencoder.SIZE // 4, 4, faces.shape[2] // 4, 4).mean((0, 2, 4))
    weights = 1 + (FACES - 1) * cells / cells.max()
    return (weights / weights.mean())[None, None]


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
    """Train the text encoder and the denoising network together and save the pipeline to ``folder``.

    ``folder/vae`` must exist. One caption in ten is replaced by an empty text, for guidance. A batch has fewer images
    of two people, which are wider, so that the duration of a step is constant.

    Args:
        folder: The pipeline's folder.
        data: Training data; ``KINDS`` determines each kind's share of the steps.
        start_from: A pipeline folder with the initial weights; random weights if ``None``.
        placing: Weight of the denoising network's auxiliary task: to predict each person's gender from the middle
            block. Without it, a gender stated for one person spreads to the other.
        noisier: Exponent of the noise steps, 1000 u^noisier for a uniform u. Values below 1 favour the noisier steps,
            at which the text determines the person.
        settings: Fields of :class:`~training.common.Training`.

    Returns ``held_out_<kind>`` for each kind of data, the mean squared error of the velocity on held-out examples.
    Raises MissingInputError: The folder has no autoencoder.
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

    def losses_of(examples, unet, encoder, chosen, draws, words=None, exponent=1.0):
        words = examples.ids[chosen] if words is None else words
        ids = torch.from_numpy(words)
        squared, states = velocity_error(unet, encoder, examples.latents[chosen], ids, draws, exponent)
        # An empty text has no gender to predict.
        is_empty = (words == nets.empty).all(1, keepdims=True)
        answer = torch.from_numpy(np.where(is_empty, 0, examples.shown[chosen]))
        showing = _showing_loss(states, ids == nets.tokenizer.eos_token_id, answer)
        return (squared * examples.weight).mean(), showing

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        draw = rng(seed, i)
        examples = list(sets.values())[draw.choice(len(sets), p=shares / shares.sum()) if len(sets) > 1 else 0]
        size = max(1, batch * 16 // examples.latents.shape[-1])
        chosen = draw.integers(examples.n_train, size=size)
        if len(examples.gendered):
            is_gendered = draw.random(size) < GENDERED_SHARE
            chosen[is_gendered] = examples.gendered[draw.integers(len(examples.gendered), size=is_gendered.sum())]
        words = np.where(draw.random((size, 1)) < DROPOUT, nets.empty, examples.ids[chosen])
        error, showing = losses_of(examples, nets.run, nets.encoder, chosen, torch_rng(seed, i), words, noisier)
        logged = {"loss": error, "showing": showing}
        total = error + SHOWING_WEIGHT * showing
        if middle:
            logged["placing"] = middle.loss(torch.from_numpy(examples.shown[chosen]))
            total = total + placing * logged["placing"]
        return total, logged

    def quality() -> dict[str, float]:
        result = {}
        for kind, examples in sets.items():
            places = range(examples.n_train, len(examples.ids))
            result[f"held_out_{kind}"] = nets.held_out(places, partial(losses_of, examples))[0]
        return result

    head = {"head": middle.head} if middle else {}
    result = nets.fit(folder, loss, quality, **head)
    cards.note_training(folder, start_from, training)
    return result


class Networks:
    """The text encoder and the denoising network of a pipeline during training, and their average.

    ``run`` is the denoising network, compiled if the training requires it; ``width`` is the width of the text
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
        # On processors this is 1.6 times as fast as the fused kernel, which has a slow backward pass.
        unet.set_attn_processor(AttnProcessor())
        # One program per shape is faster than a dynamic one.
        self.run = training.run(unet, dynamic=False)
        self.average = Average({"unet": unet, "text_encoder": self.encoder}, decay=0.9985)

    def held_out(self, places: range, losses: Callable) -> list[float]:
        """Return the mean of ``losses(unet, encoder, chosen, draws)`` of the averaged networks, 256 examples each."""
        nets, values = (self.average.averaged["unet"], self.average.averaged["text_encoder"]), []
        with torch.inference_mode():
            for i, start in enumerate(places[::256]):
                chosen = np.arange(start, min(start + 256, places.stop))
                draws = torch_rng(self.training.seed, i, 5)
                values.append([float(value) for value in losses(*nets, chosen, draws)])
        return np.mean(values, axis=0).tolist()

    def fit(self, folder: Path, loss, quality, quality_every: int = 500, **heads) -> dict:
        """Train, with ``heads`` that are not saved; save the average as the pipeline ``folder``; return its quality."""
        result = self.training.fit(
            {"unet": self.unet, "text_encoder": self.encoder} | heads,
            self.average,
            loss,
            quality,
            quality_every=quality_every,
            weight_decay=1e-2,
            betas=(0.9, 0.99),
        )
        save(folder, self.average, self.tokenizer)
        return result


def velocity_error(
    unet, encoder, latents: np.ndarray, words: torch.Tensor, draws: torch.Generator, exponent: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the squared errors of the predicted velocity of noised latents, and the states of their texts.

    Latents are (n, channels, height, width), ``words`` token ids (n, length); ``draws`` determines the noise and its
    steps, which are 1000 u^exponent for a uniform u.
    """
    x = torch.from_numpy(latents.astype(np.float32)).contiguous(memory_format=torch.channels_last)
    noise = torch.randn(x.shape, generator=draws).contiguous(memory_format=torch.channels_last)
    # One random number per stratum reduces the variance of the mean over noise levels.
    t = (torch.arange(len(x)) + torch.rand(len(x), generator=draws)) / len(x)
    t = (1000 * t**exponent).long().clamp(0, 999)
    with mixed_precision():
        states = encoder(words).last_hidden_state
        predicted = unet(schedule().add_noise(x, noise, t), t, states).sample
    return (predicted.float() - schedule().get_velocity(x, noise, t)).pow(2), states.float()


class _Examples:
    """The arrays of a :class:`Data` in memory, with the last rows held out."""

    def __init__(self, data: Data) -> None:
        self.latents = np.asarray(data.load("latents"))
        self.ids, genders_named, self.shown = (data.load(k).astype(np.int64) for k in ("ids", "indicators", "shown"))
        genders_named, self.shown = (a.reshape(len(a), -1) for a in (genders_named, self.shown))
        self.n_train = len(self.ids) - min(HELD_OUT, len(self.ids) // 10)
        is_gendered = genders_named.any(axis=1) if data.kind in ("captions", "social") else data.load("against")
        self.gendered = np.flatnonzero(is_gendered[: self.n_train])
        weight = 1.0 if data.kind == "skills" else where_faces_are(pairs=data.kind == "pairs")
        self.weight = torch.as_tensor(weight).float()


def _showing_loss(states: torch.Tensor, ends: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of predicting each person's gender in the image from the states of the text.

    The logits are two fixed dimensions per person of the states after the end of the text, so that they are a large
    part of a state's norm. States are (n, length, width), with layer normalization; ``ends`` (n, length) is true at the
    end-of-text token; ``answer`` (n, people) is 1 for a woman, 2 for a man, and 0 is ignored.
    """
    after_end = (ends.cumsum(1) > 0).float()
    people = answer.shape[1]
    readings = (states[..., : 3 * people] * after_end[..., None]).sum(1) / after_end.sum(1, keepdim=True)
    # The first of the three dimensions per person is unused.
    readings, answer = readings.reshape(len(states), people, 3)[..., 1:].flatten(0, 1), answer.flatten()
    is_counted = answer > 0
    if not is_counted.any():
        return readings.sum() * 0
    return torch.nn.functional.cross_entropy(readings[is_counted], answer[is_counted] - 1)


class _Middle:
    """Auxiliary classifier of each person's gender from the middle block of a denoising network.

    The network then learns the referent of a gender word as fast as a classifier; in the images' error it is a small
    part.
    """

    def __init__(self, unet) -> None:
        self._states: list[torch.Tensor] = []
        unet.mid_block.register_forward_hook(lambda *given: self._states.append(given[2]))
        self.head = torch.nn.Linear(unet.config.block_out_channels[-1], 2)
        """Trained with the network and not saved."""

    def loss(self, shown: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy over the people of the last batch, each of which has an equal part of the width.

        ``shown`` (n, people) is 1 for a woman, 2 for a man, and 0 is ignored.
        """
        states = self._states.pop().float()
        self._states.clear()
        person_states = torch.stack([part.mean((2, 3)) for part in states.chunk(shown.shape[1], dim=3)], dim=1)
        is_counted = shown > 0
        if not is_counted.any():
            return person_states.sum() * 0
        return torch.nn.functional.cross_entropy(self.head(person_states)[is_counted], shown[is_counted] - 1)


def _load_weights(folder: Path, unet, encoder, tokenizer) -> None:
    """Load a pipeline's weights; token embeddings are matched by word, so the new vocabulary may be larger."""
    from diffusers import UNet2DConditionModel
    from transformers import AutoTokenizer, CLIPTextModel

    unet.load_state_dict(UNet2DConditionModel.from_pretrained(folder / "unet").float().state_dict())
    state = CLIPTextModel.from_pretrained(folder / "text_encoder").float().state_dict()
    initial = encoder.state_dict()
    name = next(k for k in state if k.endswith("token_embedding.weight"))
    old_tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    state[name] = carried_over(initial[name], tokenizer, state[name], old_tokenizer)
    # Additional positions of longer texts keep their random initial values.
    name = next(k for k in state if k.endswith("position_embedding.weight"))
    positions = initial[name].clone()
    n_shared = min(len(positions), len(state[name]))
    positions[:n_shared] = state[name][:n_shared]
    encoder.load_state_dict(state | {name: positions})


def save(folder: Path, average: Average, tokenizer) -> None:
    """Save averaged weights as a pipeline folder that diffusers loads: float16 except for the text encoder."""
    from diffusers import AutoencoderKL, DPMSolverMultistepScheduler, StableDiffusionPipeline

    pipeline = StableDiffusionPipeline(
        vae=AutoencoderKL.from_pretrained(folder / "vae"),
        # In float32, because transformers keeps the saved type, while diffusers loads the other parts as float32.
        text_encoder=copy.deepcopy(average.averaged["text_encoder"]),
        tokenizer=tokenizer,
        unet=copy.deepcopy(average.averaged["unet"]).half(),
        # This second-order scheduler needs few steps; any other scheduler of diffusers works.
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
    """Save the denoising network's matrices as 8-bit floating-point numbers and the text encoder as float16.

    diffusers loads them like other weights. The network's biases and norms, which are few, stay float16.
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
    """Remove the local path from which a part was loaded from its configuration."""
    config = part / "config.json"
    settings = {k: v for k, v in json.loads(config.read_text()).items() if k != "_name_or_path"}
    config.write_text(json.dumps(settings, indent=2) + "\n")


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

    ``rows`` is the number of pairs of text and image per kind of data. ``vae`` are settings of the autoencoder's
    training; ``None`` copies that of ``start_from``. The autoencoder's state and curve, and the data, are saved next to
    ``checkpoint`` and ``log``. Other arguments and the result are those of :func:`train`, with ``psnr`` in dB if this
    call trained the autoencoder. Raises MissingInputError: ``start_from`` has no autoencoder.
    """
    checkpoint = checkpoint or Path(f"outputs/.train/{name}/state.pt")
    work, vae_folder, seed = checkpoint.parent, folder / "vae", settings.get("seed", 0)
    result: dict[str, float] = {}
    if not (vae_folder / "config.json").exists():
        if vae is not None:
            result |= autoencoder.train(
                vae_folder,
                seed=seed,
                checkpoint=work / "autoencoder.pt",
                log=log.with_name(f"{log.stem}-autoencoder.csv") if log else None,
                progress=settings.get("progress", True),
                **vae,
            )
        elif source_vae := registry.autoencoder(start_from):
            shutil.copytree(source_vae, vae_folder, dirs_exist_ok=True)
        else:
            raise MissingInputError(f"{start_from} has no vae; name a whole pipeline to start from.")
    data = [prepare(work / kind, vae_folder, rows=n, seed=seed, kind=kind) for kind, n in rows.items()]
    result |= train(folder, data=data, checkpoint=checkpoint, log=log, start_from=start_from, **settings)
    pack(folder)
    return result
