"""Measure images per second of our generation, compared with the loop of the paper's released code.

Run: ``python benchmarks/generation.py``, on a GPU
``python benchmarks/generation.py --device cuda --arch sd1 --size 512 --steps 50 --guidance 7.5``.

The loop is diffusers' default call for single images, which encodes the text each time and saves each image. It runs in
float32 on a CPU, as diffusers loads the model, and in float16 on a GPU. Ours is
``biaslab.generation.images.GeneratedImages`` with the same steps and guidance, including files and cache. Both start
with a loaded model and generate images of the same prompts with the same seeds; the script prints their difference. The
share is relative to the machine's throughput for products of large matrices, in the same type and with equal threads,
measured before and after ours. It counts the operations of text encoding, steps with guidance, and decoding.

The model is mini-sd if it is installed. ``--arch`` builds another with random weights: ``mini`` (the architecture of
mini-sd), ``sd1`` (Stable Diffusion 1.x), ``sdxl``, or ``small-sdxl`` (a narrow version). Both are timed after a warm-up
batch. ``benchmarks/gpu.py`` runs all benchmarks for a GPU.
"""

import argparse
import platform
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

OCCUPATIONS = ("nurse", "pilot", "teacher", "lawyer", "cook", "mechanic", "doctor", "librarian")


def tokenizer_of(length: int):
    """Return a tokenizer for the words of the prompts."""
    from training.text import make_tokenizer

    return make_tokenizer((word for text in prompts(len(OCCUPATIONS))["text"] for word in text.split()), length)


def autoencoder(blocks: tuple[int, ...], layers: int, channels: int, groups: int, **options):
    """Return an autoencoder with random weights."""
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=blocks,
        down_block_types=("DownEncoderBlock2D",) * len(blocks),
        up_block_types=("UpDecoderBlock2D",) * len(blocks),
        layers_per_block=layers,
        latent_channels=channels,
        norm_num_groups=groups,
        **options,
    )


BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}


def build_xl(folder: Path, *, small: bool) -> None:
    """Save Stable Diffusion XL with random weights, in float16 unless it is ``small``."""
    import torch
    from diffusers import DDIMScheduler, StableDiffusionXLPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    torch.manual_seed(0)
    tokenizer = tokenizer_of(77)
    ids = {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}

    def text(width: int, layers: int, heads: int) -> CLIPTextConfig:
        return CLIPTextConfig(
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            projection_dim=width,
            **ids,
        )

    # Widths as in the released model's configuration.
    widths = (32, 64, 64) if small else (320, 640, 1280)
    small_text, large_text = (text(32, 2, 2), text(64, 2, 2)) if small else (text(768, 12, 12), text(1280, 32, 20))
    unet = UNet2DConditionModel(
        sample_size=16 if small else 128,
        block_out_channels=widths,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 1, 1) if small else (1, 2, 10),
        attention_head_dim=tuple(width // (32 if small else 64) for width in widths),
        cross_attention_dim=small_text.hidden_size + large_text.hidden_size,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=6 * 256 + large_text.projection_dim,
    )
    pipe = StableDiffusionXLPipeline(
        vae=autoencoder((16, 32), 1, 4, 8) if small else autoencoder((128, 256, 512, 512), 2, 4, 32),
        text_encoder=CLIPTextModel(small_text),
        text_encoder_2=CLIPTextModelWithProjection(large_text),
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        unet=unet,
        scheduler=DDIMScheduler(**BETAS, clip_sample=False, steps_offset=1),
        add_watermarker=False,
    )
    pipe.to(dtype=torch.float32 if small else torch.float16).save_pretrained(folder)


def build(arch: str, folder: Path) -> None:
    """Save a pipeline with random weights and a tokenizer for the words of the prompts."""
    import torch
    from diffusers import DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    if arch.endswith("sdxl"):
        build_xl(folder, small=arch != "sdxl")
        return
    torch.manual_seed(0)
    length = 24 if arch == "mini" else 77
    tokenizer = tokenizer_of(length)
    if arch == "mini":
        text = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}
        unet = UNet2DConditionModel(
            sample_size=16,
            in_channels=8,
            out_channels=8,
            block_out_channels=(64, 128, 128),
            layers_per_block=1,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=128,
            attention_head_dim=4,
            norm_num_groups=16,
        )
        blocks, layers, channels, groups = (16, 32, 64), 1, 8, 8
    else:
        text = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
        # Except for the text width and the heads, diffusers' defaults are those of Stable Diffusion 1.
        unet = UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
        blocks, layers, channels, groups = (128, 256, 512, 512), 2, 4, 32
    vae = autoencoder(blocks, layers, channels, groups, mid_block_add_attention=arch != "mini")
    config = CLIPTextConfig(
        **text,
        vocab_size=len(tokenizer),
        max_position_embeddings=length,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    StableDiffusionPipeline(
        vae=vae,
        text_encoder=CLIPTextModel(config),
        tokenizer=tokenizer,
        unet=unet,
        scheduler=DDIMScheduler(**BETAS, clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)


def prompts(n_images: int) -> pd.DataFrame:
    """Return the paper's first template for each occupation, with ``n_images`` images in total."""
    per_occupation = -(-n_images // len(OCCUPATIONS))
    rows = [(f"p1-{o}", f"a photo of the face of a {o}", per_occupation) for o in OCCUPATIONS]
    table = pd.DataFrame(rows, columns=["prompt_id", "text", "n_images"])
    return table[: -(-n_images // per_occupation)].reset_index(drop=True)


def loop(pipe, table: pd.DataFrame, settings, folder: Path, seed: int, n: int) -> tuple[float, list[np.ndarray]]:
    """Return the seconds per image of the released code's loop, and its images."""
    import torch

    from biaslab.generation.generator import image_seed

    images, size = [], {"height": settings.height or None, "width": settings.width or None}
    start = time.perf_counter()
    for row in table.itertuples():
        for i in range(row.n_images):
            if len(images) == n:
                break
            generator = torch.Generator("cpu").manual_seed(image_seed(seed, row.prompt_id, i))
            image = pipe(
                row.text,
                num_inference_steps=settings.steps,
                guidance_scale=settings.guidance_scale,
                generator=generator,
                **size,
            ).images[0]
            image.save(folder / f"{len(images)}.png")
            images.append(np.asarray(image))
    return (time.perf_counter() - start) / len(images), images


def product(device: str, dtype: str, size: int = 2048) -> float:
    """Return operations per second of the product of two matrices, the median of nine runs."""
    import torch

    a, b = (torch.ones(size, size, dtype=getattr(torch, dtype), device=device) for _ in range(2))
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        # Reading one number waits until a GPU is done.
        (a @ b)[0, 0].item()
        seconds.append(time.perf_counter() - start)
    return 2 * size**3 / float(np.median(seconds[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--arch", choices=("mini", "sd1", "sdxl", "small-sdxl"), help="random weights instead of mini-sd"
    )
    parser.add_argument("--size", type=int, default=0, help="pixels; 0 is the model's own")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--guidance", type=float, default=3.0)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--images", type=int, default=128, help="ours; a multiple of 64 fills all batches")
    parser.add_argument("--loop-images", type=int, default=12, help="the loop's: its time is proportional to them")
    parser.add_argument("--compile", action="store_true", help="compile our denoising network before the timing")
    options = parser.parse_args()

    import diffusers
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from biaslab.cache.result_cache import ResultCache
    from biaslab.errors import MissingInputError
    from biaslab.generation.generator import load
    from biaslab.generation.images import GeneratedImages
    from biaslab.generation.loading import quiet
    from biaslab.generation.settings import GenerationSettings
    from biaslab.hub import registry

    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        model, weights = "mini-sd", "mini-sd"
        try:
            if not options.arch:
                registry.resolve(model, "text-to-image")
        except MissingInputError:
            options.arch = "mini"
        if options.arch:
            model, weights = str(root / options.arch), f"random weights, architecture {options.arch}"
            with quiet():
                build(options.arch, Path(model))
        settings = GenerationSettings(
            steps=options.steps,
            guidance_scale=options.guidance,
            height=options.size,
            width=options.size,
            dtype=options.dtype,
            compile=options.compile,
        )
        table, seed = prompts(options.images), 1

        # The loop runs first, before our model is in memory.
        kind = torch.float16 if options.device.startswith("cuda") else torch.float32
        with quiet():
            folder = registry.resolve(model, "text-to-image")
            pipe = diffusers.DiffusionPipeline.from_pretrained(folder, dtype=kind).to(options.device)
            pipe.set_progress_bar_config(disable=True)
            loop(pipe, table, settings, root, seed, 1)
            loop_seconds, loop_images = loop(pipe, table, settings, root, seed, options.loop_images)
        del pipe

        generator = load(model, settings, device=options.device)
        info = generator.description()
        texts = ["a photo of the face of a nurse"] * generator.batch_size
        with FlopCounterMode(display=False) as counter:
            generator.images(texts, [("first", i) for i in range(generator.batch_size)], seed)
        operations = counter.get_total_flops() / len(texts)
        products = [product(options.device, info["dtype"])]
        if options.device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        store = ResultCache(root / "store")
        generated = GeneratedImages(table, model, settings, seed=seed, cache=store, load=lambda *_, **__: generator)
        generated.complete(progress=False)
        seconds = time.perf_counter() - start
        ours = len(generated.table) / seconds
        products.append(product(options.device, info["dtype"]))

        versions = ", ".join(f"{k} {v}" for k, v in info["versions"].items())
        threads = f", {torch.get_num_threads()} threads" if options.device == "cpu" else ""
        print(f"{info['device']}{threads} ({platform.machine()}), {versions}")
        print(
            f"{weights}, {info['height']} x {info['width']} pixels, {settings.steps} steps, guidance "
            f"{settings.guidance_scale:g}, {info['scheduler']}"
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        memory = f"peak memory {peak / 2**20:.0f} MiB"
        if options.device.startswith("cuda"):
            memory = f"peak GPU memory {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB"
        compiled = ", compiled" if settings.compile else ""
        print(
            f"biaslab  {ours:8.2f} images/s  {len(generated.table)} images, {info['dtype']}, batches of "
            f"{info['batch_size']}{compiled}, {memory}"
        )
        print(f"loop     {1 / loop_seconds:8.2f} images/s  {len(loop_images)} images, {kind}".replace("torch.", ""))
        difference = ""
        # On a GPU, the loop samples its noise in float16, so its images differ.
        if options.device == "cpu":
            pairs = zip(generated.read(_ids(table)), loop_images, strict=False)
            levels = np.mean([np.abs(a.astype(int) - b).mean() for a, b in pairs])
            difference = f"  mean difference of pixels {levels:.2f} levels of 255"
        print(f"ratio    {ours * loop_seconds:8.1f} x{difference}")
        # The counter does not support compiled networks.
        if not settings.compile:
            reached = ours * operations / np.mean(products)
            print(
                f"share    {reached:8.0%} of the throughput of matrix products in {info['dtype']}, "
                f"{np.mean(products) / 1e9:.0f} GFLOP/s; an image takes {operations / 1e9:.1f} GFLOP"
            )


def _ids(table: pd.DataFrame) -> list[str]:
    return [f"{row.prompt_id}/{i}" for row in table.itertuples() for i in range(row.n_images)]


if __name__ == "__main__":
    main()
