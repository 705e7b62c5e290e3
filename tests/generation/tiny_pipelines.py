"""Builds tiny pipelines; a module of its own so that a test's subprocess can import it, too."""

from pathlib import Path

WORDS = ("a", "photo", "of", "the", "face", "nurse", "pilot", "woman", "man", "person", ",", "blurry")
LENGTH = 12


def tokenizer():
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = ["[pad]", "[unk]", "[bos]", "[eos]", *WORDS]
    words = Tokenizer(models.WordLevel({w: k for k, w in enumerate(names)}, unk_token="[unk]"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[bos] $A [eos]", special_tokens=[("[bos]", 2), ("[eos]", 3)]
    )
    special = {f"{k}_token": f"[{k}]" for k in ("pad", "unk", "bos", "eos")}
    return PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=LENGTH, **special)


def _clip(hidden: int, projection: bool):
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=len(WORDS) + 4,
        hidden_size=hidden,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=LENGTH,
        projection_dim=hidden,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    return (CLIPTextModelWithProjection if projection else CLIPTextModel)(config)


def _t5(hidden: int):
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=len(WORDS) + 4, d_model=hidden, d_kv=8, d_ff=32, num_layers=1, num_heads=2, pad_token_id=0
    )
    return T5EncoderModel(config)


def _vae(channels: int, **more):
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        layers_per_block=1,
        latent_channels=channels,
        norm_num_groups=4,
        sample_size=32,
        mid_block_add_attention=False,
        **more,
    )


def _unet(cross: int, **more):
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=cross,
        attention_head_dim=2,
        norm_num_groups=4,
        **more,
    )


def _schedule(**more):
    from diffusers import DDIMScheduler

    betas = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
    return DDIMScheduler(**betas, clip_sample=False, steps_offset=1, **more)


def _checker():
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPTextConfig, CLIPVisionConfig

    vision = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=32,
        patch_size=8,
    )
    text = CLIPTextConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    config = CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=8)
    from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker

    size = {"height": 32, "width": 32}
    return StableDiffusionSafetyChecker(config), CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size=size
    )


def _sd(checker: bool = False, **schedule):
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


def sd1():
    return _sd()


def checked():
    return _sd(checker=True)


def sd2():
    return _sd(prediction_type="v_prediction")


def sdxl():
    from diffusers import StableDiffusionXLPipeline

    # Time ids: 6 numbers of 8 each, beside the pooled text of 16.
    more = {"addition_embed_type": "text_time", "addition_time_embed_dim": 8, "use_linear_projection": True}
    unet = _unet(32, projection_class_embeddings_input_dim=6 * 8 + 16, **more)
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


def sd3():
    from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline

    transformer = SD3Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=8,
        out_channels=8,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=32,
        caption_projection_dim=16,
        pooled_projection_dim=32,
        pos_embed_max_size=16,
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


def flux():
    from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

    transformer = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=16,
        guidance_embeds=True,
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


FAMILIES = ("sd1", "sd2", "sdxl", "sd3", "flux")


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
    """Make random weights large enough that prompts and noise are seen in the pixels."""
    import torch

    with torch.no_grad():
        for part in pipe.components.values():
            if isinstance(part, torch.nn.Module):
                for name, value in part.named_parameters():
                    if value.dim() > 1 and "embed" not in name:
                        value.mul_(1.5)
