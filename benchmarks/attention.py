"""Time and memory of capturing cross-attention during generation, compared with DAAM's method.

Run: ``python benchmarks/attention.py``; it takes a few minutes on one thread. ``--model`` selects the pipeline of
another U-Net, ``--device cuda`` a GPU. The default models are mini-sd, and a U-Net with random weights and three layers
of the finest resolution of Stable Diffusion 1.x (64 x 64 cells, 8 heads, 77 tokens). In the latter, attention has a
realistic size, and plain generation uses the fused kernel.

Rounds alternate between plain generation, generation with our capture and masks, and generation with DAAM's method and
masks, for the same images in the same batches. DAAM 0.2.0 does not run with current diffusers, and supports only single
square images. The peer therefore reimplements its method for batches, as described by its authors (Tang et al. 2023,
arXiv:2210.04885) and implemented in its package. A separate attention processor computes attention, sums over steps are
stored per token, layer and head, and each is interpolated to the latents' grid, clamped at 0 and averaged at the end.
The script prints the minimum processor time in seconds (elapsed time on a GPU), the additional time relative to plain
generation, the memory of the sums, the share of pixels with equal masks, and whether images are byte-identical.
"""

import argparse
import contextlib
import os
import platform
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

OCCUPATIONS = ("nurse", "pilot", "teacher", "lawyer")
TEXTS = {f"a photo of the face of a {o}": ["photo", "face", o] for o in OCCUPATIONS}


def build(folder: Path) -> None:
    """Save a pipeline whose U-Net is the finest resolution of Stable Diffusion 1.x, with random weights."""
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    from training.text import make_tokenizer

    torch.manual_seed(0)
    tokenizer = make_tokenizer((word for text in TEXTS for word in text.split()), 77)
    text = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=768,
        num_hidden_layers=1,
        num_attention_heads=12,
        bos_token_id=2,
        eos_token_id=3,
    )
    unet = UNet2DConditionModel(
        sample_size=64,
        block_out_channels=(320,),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D",),
        up_block_types=("CrossAttnUpBlock2D",),
        mid_block_type=None,
        cross_attention_dim=768,
        attention_head_dim=8,
    )
    vae = AutoencoderKL(
        block_out_channels=(16, 16, 16, 16),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        norm_num_groups=8,
        mid_block_add_attention=False,
    )
    StableDiffusionPipeline(
        vae=vae,
        text_encoder=CLIPTextModel(text),
        tokenizer=tokenizer,
        unet=unet,
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)


class Daam:
    """Context manager that records attention with DAAM's method."""

    def __init__(self, pipe, images: int) -> None:
        self.unet, self.images, self.sums = pipe.unet, images, defaultdict(float)

    def __enter__(self):
        from diffusers.models.attention_processor import AttnProcessor

        self.before = self.unet.attn_processors
        recorder = self

        class Processor(AttnProcessor):
            def __init__(self, layer: str) -> None:
                self.layer = layer

            def __call__(self, attn, hidden_states, encoder_hidden_states=None, **options):
                plain = attn.get_attention_scores

                def scores(*arguments):
                    probabilities = plain(*arguments)
                    recorder.add(self.layer, attn.heads, probabilities)
                    return probabilities

                attn.get_attention_scores = scores
                try:
                    return super().__call__(attn, hidden_states, encoder_hidden_states, **options)
                finally:
                    del attn.get_attention_scores

        layers = [k for k in self.before if ".attn2." in k and not k.startswith("mid_block")]
        self.unet.set_attn_processor({k: Processor(k) if k in layers else v for k, v in self.before.items()})
        return self

    def __exit__(self, *error) -> None:
        self.unet.set_attn_processor(self.before)

    def add(self, layer: str, heads: int, probabilities) -> None:
        # Tokens come first; only the half of the batch with the prompt is used; one map per head.
        maps = probabilities.float().unflatten(0, (-1, heads))[-self.images :].permute(1, 0, 3, 2).contiguous()
        for head, of_head in enumerate(maps):
            self.sums[layer, head] = self.sums[layer, head] + of_head

    def masks(self, pipe, latent, size, texts, words) -> list[np.ndarray]:
        import torch
        from torch.nn.functional import interpolate

        merged = []
        for total in self.sums.values():
            factor = round((latent[0] * latent[1] / total.shape[2]) ** 0.5)
            on_grid = total.unflatten(2, (latent[0] // factor, latent[1] // factor))
            merged.append(interpolate(on_grid, latent, mode="bicubic").clamp_(min=0))
        maps, masks = torch.stack(merged).mean(0), []
        for i, (text, text_words) in enumerate(zip(texts, words, strict=True)):
            pieces = pipe.tokenizer.tokenize(text)
            for word in text_words:
                tokens = [k + 1 for k, piece in enumerate(pieces) if piece.replace("</w>", "") == word]
                on_image = interpolate(maps[i, tokens].mean(0)[None, None], size, mode="bicubic")[0, 0]
                low, high = on_image.min(), on_image.max()
                masks.append(((on_image - low) / (high - low + 1e-8) > 0.35).cpu().numpy())
        return masks

    @property
    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.sums.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="", help="empty: mini-sd, and three layers of Stable Diffusion 1.x")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", type=int, default=0, help="pixels; 0 is the model's own")
    parser.add_argument("--steps", type=int, default=0, help="0: 10, of the three layers 1")
    parser.add_argument("--guidance", type=float, default=7.5)
    parser.add_argument("--dtype", default="float32", help="auto: as in generation")
    parser.add_argument("--images", type=int, default=0, help="0: 8, of the three layers 1")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    import torch

    from biaslab.generation.loading import quiet

    torch.set_num_threads(options.threads)
    if options.model:
        return compare(options, options.model, options.steps or 10, options.images or 8)
    compare(options, "mini", options.steps or 10, options.images or 8)
    with tempfile.TemporaryDirectory() as folder:
        with quiet():
            build(model_folder := Path(folder) / "three layers of Stable Diffusion 1.x")
        compare(options, str(model_folder), options.steps or 1, options.images or 1)


def compare(options, model: str, steps: int, n: int) -> None:
    from biaslab.attribution.attention import capture, columns
    from biaslab.attribution.images import generate_with_attention
    from biaslab.attribution.maps import word_masks
    from biaslab.generation.generator import load
    from biaslab.generation.settings import GenerationSettings

    settings = GenerationSettings(
        steps=steps,
        guidance_scale=options.guidance,
        height=options.size,
        width=options.size,
        dtype=options.dtype,
        batch_size=n,
    )
    generator = load(model, settings, device=options.device)
    info, size = generator.description(), (generator.height, generator.width)
    latent = tuple(side // generator.pipe.vae_scale_factor for side in size)
    texts = [list(TEXTS)[i % len(TEXTS)] for i in range(n)]
    words, keys = [TEXTS[text] for text in texts], [("p", i) for i in range(n)]
    sum_bytes = {"ours": 0, "peer": 0}

    def plain():
        return generator.images(texts, keys, 1), []

    def ours():
        images, maps = generate_with_attention(generator, texts, keys, 1, words)
        return images, [mask for of_image in maps for mask in word_masks(of_image.maps, *size)]

    def peer():
        masks = []

        @contextlib.contextmanager
        def watch(chosen):
            with Daam(generator.pipe, len(chosen)) as daam:
                yield
            selected = ([x[i] for i in chosen] for x in (texts, words))
            masks.extend(daam.masks(generator.pipe, latent, size, *selected))
            sum_bytes["peer"] = max(sum_bytes["peer"], daam.bytes // len(chosen))

        return generator.images(texts, keys, 1, watch=watch), masks

    @contextlib.contextmanager
    def weighed(chosen):
        selected = columns(generator.pipe, texts, words).select(chosen)
        with capture(generator.pipe, selected) as attention:
            yield
        sum_bytes["ours"] = sum(t.numel() * t.element_size() for t in attention.sums.values()) // len(chosen)

    generator.images(texts, keys, 1, watch=weighed)
    clock = time.perf_counter if options.device != "cpu" else time.process_time
    seconds, results = defaultdict(list), {}
    for _ in range(options.rounds):
        for work in (plain, ours, peer):
            start = clock()
            results[work.__name__] = work()
            seconds[work.__name__].append(clock() - start)
    best = {name: min(times) / n for name, times in seconds.items()}
    added = {name: best[name] - best["plain"] for name in ("ours", "peer")}
    identical = {
        name: all(np.array_equal(a, b) for a, b in zip(results[name][0], results["plain"][0], strict=True))
        for name in ("ours", "peer")
    }
    agreement = np.mean([np.mean(a == b) for a, b in zip(results["ours"][1], results["peer"][1], strict=True)])
    print(f"{platform.processor() or 'CPU'}, {options.threads} threads of {os.cpu_count()} cores, {info['versions']}")
    print(
        f"{Path(model).name} on {info['device']}, {n} images of {size[0]} x {size[1]} pixels in batches of "
        f"{generator.batch_size}, {steps} steps, guidance {options.guidance:g}, {info['dtype']}"
    )
    print(f"plain generation             {1000 * best['plain']:9.2f} ms per image")
    for name, label in (("ours", "with attention, biaslab"), ("peer", "with attention, DAAM")):
        print(
            f"{label:28} {1000 * best[name]:9.2f} ms per image  adds {1000 * added[name]:8.2f} ms "
            f"({100 * added[name] / best['plain']:5.1f}%)   sums {sum_bytes[name] / 2**10:10,.1f} KiB per image  "
            f"images {'byte-identical' if identical[name] else 'changed'}"
        )
    print(
        f"ratio of additional time     {added['peer'] / added['ours']:9.1f} x   of memory "
        f"{sum_bytes['peer'] / sum_bytes['ours']:.1f} x   masks agree in {100 * agreement:.2f}% of "
        f"{len(results['ours'][1])} x {size[0] * size[1]} pixels"
    )


if __name__ == "__main__":
    main()
