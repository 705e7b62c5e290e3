"""Builds tiny pipelines; a module of its own so that a test's subprocess can import it, too."""

import gzip
from functools import cache, partial
from pathlib import Path

WORDS = ("a", "photo", "of", "the", "face", "nurse", "pilot", "woman", "man", "person", ",", "blurry")
LENGTH = 12
# Sizes of text and vision networks, and the vocabulary of the former.
TINY = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
VISION = TINY | {"image_size": 32, "patch_size": 8}
# Blocks of autoencoders and U-Nets.
_BLOCKS = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}
_AUTOENCODER = _BLOCKS | {
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "sample_size": 32,
    "mid_block_add_attention": False,
}
_BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
_JOINT = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 1}


def settings(folder: str, **more) -> tuple:
    """Return a model's folder, and how it makes small images in few steps."""
    from biaslab.generation.settings import GenerationSettings

    given = {"steps": 2, "guidance_scale": 3.0, "height": 32, "width": 32, "dtype": "float32"}
    return folder, GenerationSettings(**given | more)


def by_diffusers(folder, prompt: str, seed: int, **call_args):
    """Return the image of 32 x 32 pixels of diffusers' default call on one prompt, with a seeded generator."""
    import numpy as np
    import torch
    from diffusers import AutoPipelineForText2Image

    from biaslab.generation.loading import quiet

    with quiet():
        pipe = AutoPipelineForText2Image.from_pretrained(folder)
        pipe.set_progress_bar_config(disable=True)
        noise = torch.Generator().manual_seed(seed)
        result = pipe(prompt=prompt, generator=noise, output_type="np", height=32, width=32, **call_args).images[0]
    return (result * 255).round().astype(np.uint8)


def tokenizer(words=(), length=0):
    """Return a tokenizer of whole words, with the marks of a beginning and an end around each text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = ["[pad]", "[unk]", "[bos]", "[eos]", *(words or WORDS)]
    made = Tokenizer(models.WordLevel({w: k for k, w in enumerate(names)}, unk_token="[unk]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [("[bos]", 2), ("[eos]", 3)]
    made.post_processor = processors.TemplateProcessing(single="[bos] $A [eos]", special_tokens=special)
    named = {f"{k}_token": f"[{k}]" for k in ("pad", "unk", "bos", "eos")}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=length or LENGTH, **named)


def _clip(hidden: int, projection: bool, **read: int):
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    sizes = {"hidden_size": hidden, "projection_dim": hidden, "intermediate_size": 32, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "vocab_size": len(WORDS) + 4, "max_position_embeddings": LENGTH}
    config = CLIPTextConfig(**sizes | {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3} | read)
    return (CLIPTextModelWithProjection if projection else CLIPTextModel)(config)


def _t5(hidden: int):
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=len(WORDS) + 4, d_model=hidden, d_kv=8, d_ff=32, num_layers=1, num_heads=2, pad_token_id=0
    )
    return T5EncoderModel(config)


def _vae(channels: int, **more):
    from diffusers import AutoencoderKL

    return AutoencoderKL(latent_channels=channels, **_AUTOENCODER, **more)


def _unet(cross: int, sample_size: int = 16, **more):
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=sample_size,
        in_channels=4,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=cross,
        attention_head_dim=2,
        **_BLOCKS,
        **more,
    )


def _schedule(**more):
    from diffusers import DDIMScheduler

    return DDIMScheduler(**_BETAS, clip_sample=False, steps_offset=1, **more)


def _checker():
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPTextConfig, CLIPVisionConfig

    text, vision = CLIPTextConfig(**TINY).to_dict(), CLIPVisionConfig(**VISION).to_dict()
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
    from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker

    size = {"height": 32, "width": 32}
    return StableDiffusionSafetyChecker(config), CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size)


@cache
def _words_of_clip() -> tuple[dict[str, int], list[tuple[str, ...]]]:
    """Return CLIP's words and how they are joined, as open_clip carries them."""
    from open_clip.tokenizer import bytes_to_unicode, default_bpe

    lines = gzip.decompress(Path(default_bpe()).read_bytes()).decode().split("\n")
    merges = [tuple(line.split()) for line in lines[1 : 49152 - 256 - 2 + 1]]
    letters = list(bytes_to_unicode().values())
    words = [*letters, *(c + "</w>" for c in letters), *map("".join, merges), "<|startoftext|>", "<|endoftext|>"]
    return {word: k for k, word in enumerate(words)}, merges


def clip_tokenizer():
    """Return the tokenizer of CLIP, which Stable Diffusion has."""
    from transformers import CLIPTokenizer

    words, merges = _words_of_clip()
    marks = {"bos_token": "<|startoftext|>", **dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>")}
    return CLIPTokenizer(vocab=words, merges=merges, **marks, model_max_length=77)


def sd1(checker: bool = False, **schedule):
    from diffusers import StableDiffusionPipeline

    safety, extractor = _checker() if checker else (None, None)
    return StableDiffusionPipeline(
        vae=_vae(4),
        text_encoder=_clip(16, False),
        tokenizer=tokenizer(),
        unet=_unet(16),
        scheduler=_schedule(**schedule),
        safety_checker=safety,
        feature_extractor=extractor,
        requires_safety_checker=checker,
    )


checked = partial(sd1, checker=True)
sd2 = partial(sd1, prediction_type="v_prediction")


def sdxl(**unet):
    from diffusers import StableDiffusionXLPipeline

    # Time ids: 6 numbers of 8 each, in addition to the pooled text of 16.
    more = {"addition_embed_type": "text_time", "addition_time_embed_dim": 8, "use_linear_projection": True}
    unet = _unet(32, projection_class_embeddings_input_dim=6 * 8 + 16, **more | unet)
    return StableDiffusionXLPipeline(
        vae=_vae(4, force_upcast=True),
        text_encoder=_clip(16, False),
        text_encoder_2=_clip(16, True),
        tokenizer=tokenizer(),
        tokenizer_2=tokenizer(),
        unet=unet,
        scheduler=_schedule(),
        force_zeros_for_empty_prompt=True,
        add_watermarker=False,
    )


def sd3(**more):
    from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline

    transformer = SD3Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=8,
        out_channels=8,
        **_JOINT | {"attention_head_dim": 8},
        joint_attention_dim=32,
        caption_projection_dim=16,
        pooled_projection_dim=32,
        pos_embed_max_size=16,
        **more,
    )
    return StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_vae(8, shift_factor=0.06, scaling_factor=1.5, use_quant_conv=False, use_post_quant_conv=False),
        text_encoder=_clip(16, True),
        tokenizer=tokenizer(),
        text_encoder_2=_clip(16, True),
        tokenizer_2=tokenizer(),
        text_encoder_3=_t5(32),
        tokenizer_3=tokenizer(),
    )


def flux(guidance_embeds: bool = True):
    from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

    transformer = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_single_layers=1,
        **_JOINT,
        joint_attention_dim=32,
        pooled_projection_dim=16,
        guidance_embeds=guidance_embeds,
        axes_dims_rope=(4, 4, 8),
    )
    return FluxPipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=_vae(4, shift_factor=0.1, scaling_factor=0.4, use_quant_conv=False, use_post_quant_conv=False),
        text_encoder=_clip(16, False),
        tokenizer=tokenizer(),
        text_encoder_2=_t5(32),
        tokenizer_2=tokenizer(),
    )


def schnell():
    pipe = flux(guidance_embeds=False)
    pipe.scheduler = type(pipe.scheduler)(shift=1.0, use_dynamic_shifting=False)
    return pipe


def sdxl_turbo():
    from diffusers import EulerAncestralDiscreteScheduler

    pipe = sdxl(sample_size=64)
    pipe.scheduler = EulerAncestralDiscreteScheduler(**_BETAS, timestep_spacing="trailing")
    return pipe


sd35_medium = partial(sd3, qk_norm="rms_norm", dual_attention_layers=(0,))
sd35_large = partial(sd3, qk_norm="rms_norm")


# Sizes of language models.
_READS = TINY | {"num_key_value_heads": 2, "max_position_embeddings": 4096}


def _chat_tokenizer():
    """Return a tokenizer of chat messages, as of models with a language model as text encoder."""
    read = tokenizer()
    read.chat_template = (
        "{% for m in messages %}[bos] {{ m.content }} [eos]{% endfor %}{% if add_generation_prompt %} woman{% endif %}"
    )
    return read


def _qwen3(layers: int, head: bool):
    from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3Model

    read = _READS | {"vocab_size": len(WORDS) + 4, "num_hidden_layers": layers}
    config = Qwen3Config(head_dim=8, pad_token_id=0, **read)
    return (Qwen3ForCausalLM if head else Qwen3Model)(config)


def zimage():
    from diffusers import FlowMatchEulerDiscreteScheduler, ZImagePipeline, ZImageTransformer2DModel

    transformer = ZImageTransformer2DModel(
        in_channels=8,
        dim=32,
        n_layers=1,
        n_refiner_layers=1,
        n_heads=2,
        n_kv_heads=2,
        cap_feat_dim=16,
        axes_dims=[4, 6, 6],
        axes_lens=[1024, 128, 128],
    )
    return ZImagePipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_vae(8, shift_factor=0.1, scaling_factor=0.4, use_quant_conv=False, use_post_quant_conv=False),
        text_encoder=_qwen3(2, head=False),
        tokenizer=_chat_tokenizer(),
    )


def qwen():
    from diffusers import (
        AutoencoderKLQwenImage,
        FlowMatchEulerDiscreteScheduler,
        QwenImagePipeline,
        QwenImageTransformer2DModel,
    )
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    transformer = QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, **_JOINT, joint_attention_dim=16, axes_dims_rope=(4, 6, 6)
    )
    read = _READS | {
        "vocab_size": len(WORDS) + 4,
        "num_hidden_layers": 2,
        "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e6},
    }
    seen = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16}
    seen |= {"fullatt_block_indexes": [0]}
    marks = dict.fromkeys(("image", "video", "vision_start", "vision_end"), 1)
    config = Qwen2_5_VLConfig(text_config=read, vision_config=seen, **{f"{k}_token_id": v for k, v in marks.items()})
    scale = {"latents_mean": [0.1, -0.2, 0.3, 0.0], "latents_std": [1.5, 2.0, 1.0, 2.5]}
    sizes = {"base_dim": 8, "z_dim": 4, "dim_mult": [1, 1], "num_res_blocks": 1, "temperal_downsample": [False]}
    vae = AutoencoderKLQwenImage(**sizes, **scale)
    return QwenImagePipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, base_shift=0.5, max_shift=0.9),
        vae=vae,
        text_encoder=Qwen2_5_VLForConditionalGeneration(config),
        tokenizer=tokenizer(),
    )


def pixart():
    from diffusers import DPMSolverMultistepScheduler, PixArtSigmaPipeline, PixArtTransformer2DModel

    transformer = PixArtTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        out_channels=8,
        num_layers=1,
        cross_attention_dim=16,
        sample_size=16,
        patch_size=2,
        caption_channels=32,
        interpolation_scale=1,
        use_additional_conditions=False,
        norm_num_groups=8,
    )
    return PixArtSigmaPipeline(
        transformer=transformer,
        scheduler=DPMSolverMultistepScheduler(beta_schedule="linear", beta_start=0.0001, beta_end=0.02),
        vae=_vae(4, scaling_factor=0.13025),
        text_encoder=_t5(32),
        tokenizer=tokenizer(),
    )


def _flux2(text_width: int, **more) -> dict:
    import torch
    from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux2Transformer2DModel

    transformer = Flux2Transformer2DModel(
        patch_size=1,
        in_channels=16,
        num_single_layers=1,
        **_JOINT,
        joint_attention_dim=text_width,
        timestep_guidance_channels=16,
        axes_dims_rope=(4, 4, 4, 4),
        **more,
    )
    vae = AutoencoderKLFlux2(latent_channels=4, **_AUTOENCODER)
    vae.bn.running_mean.copy_(torch.linspace(-1, 1, 16))
    vae.bn.running_var.copy_(torch.linspace(0.5, 2, 16))
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    return {"transformer": transformer, "vae": vae, "scheduler": scheduler}


def klein(distilled: bool = False):
    from diffusers import Flux2KleinPipeline

    # It reads what the layers 9, 18 and 27 say.
    parts = {"text_encoder": _qwen3(28, head=True), "tokenizer": _chat_tokenizer()}
    return Flux2KleinPipeline(**_flux2(48, guidance_embeds=False), **parts, is_distilled=distilled)


klein_distilled = partial(klein, distilled=True)


def flux2():
    from diffusers import Flux2Pipeline
    from transformers import Mistral3Config, Mistral3ForConditionalGeneration

    layers = {"vocab_size": len(WORDS) + 4, "num_hidden_layers": 31, "head_dim": 8}
    read = _READS | layers | {"model_type": "mistral", "pad_token_id": 0}
    seen = VISION | {"model_type": "pixtral"}
    config = Mistral3Config(text_config=read, vision_config=seen, image_token_index=1)
    read = tokenizer()
    read.chat_template = "{% for m in messages %}{% for part in m.content %}{{ part.text }} {% endfor %}{% endfor %}"
    parts = {"text_encoder": Mistral3ForConditionalGeneration(config), "tokenizer": read}
    return Flux2Pipeline(**_flux2(48, guidance_embeds=True), **parts)


FAMILIES = ("sd1", "sd2", "sdxl", "sd3", "flux", "qwen", "zimage", "pixart", "flux2", "klein")


def save(name: str, folder: Path) -> Path:
    import torch

    from biaslab.generation.loading import quiet

    torch.manual_seed(7)
    with quiet():
        pipe = globals()[name]()
        _spread(pipe)
        pipe.save_pretrained(folder, safe_serialization=True)
    return folder


def _spread(pipe) -> None:
    """Make random weights large enough that prompts and noise affect the pixels."""
    import torch

    with torch.no_grad():
        for part in pipe.components.values():
            if isinstance(part, torch.nn.Module):
                for name, value in part.named_parameters():
                    if value.dim() > 1 and "embed" not in name:
                        value.mul_(1.5)
