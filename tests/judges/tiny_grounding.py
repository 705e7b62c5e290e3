"""Random models of one layer that tag, detect and segment, in the formats of the real ones."""

import tiny_blip
from tiny_pipelines import TINY, VISION

WORDS = ("dog", "cup", "red", "skate", "##board", "hat", "person")
SIZE = {"height": 32, "width": 32}
LABELS = {0: "background", 1: "Dog", 2: "coffee_cup", 3: "person"}


# Sizes of an encoder or a decoder.
_PART = {"layers": 1, "ffn_dim": 16, "attention_heads": 2}


def _label_maps(labels=LABELS):
    return {"id2label": labels, "label2id": {v: k for k, v in labels.items()}}


def _save(folder, kind, config, *parts, by, seed=4):
    """Save a random model of a kind, and what prepares its input; its weights are spread ``by`` so much."""
    import torch

    torch.manual_seed(seed)
    model = kind(config)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.normal_(0, by)
    for part in (model, *parts):
        part.save_pretrained(folder)
    return folder


def bert_tokenizer():
    """Return a tokenizer of word pieces, with marks and full stops where Grounding DINO looks for them."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    places = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 1012: ".", 1029: "?"}
    places |= {1030 + k: w for k, w in enumerate(WORDS)}
    vocabulary = {places.get(k, f"[unused{k}]"): k for k in range(1030 + len(WORDS))}
    wordpiece = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    wordpiece.normalizer = normalizers.Lowercase()
    wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    wordpiece.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 101), ("[SEP]", 102)]
    )
    wordpiece.decoder = decoders.WordPiece()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=wordpiece, model_max_length=256, **special)


def _swin(heads):
    import transformers

    stages = {"depths": [1] * len(heads), "out_features": [f"stage{k + 1}" for k in range(len(heads))]}
    return transformers.SwinConfig(image_size=32, patch_size=4, embed_dim=8, num_heads=heads, window_size=4, **stages)


def segformer(folder, labels=LABELS, kind="SegformerForSemanticSegmentation"):
    """Save a SegFormer whose masks are a quarter of the image a side."""
    import transformers

    sizes = {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [8, 16]}
    sizes |= {"patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2]}
    config = transformers.SegformerConfig(**sizes, decoder_hidden_size=16, **_label_maps(labels))
    processor = transformers.SegformerImageProcessor(size=SIZE)
    return _save(folder, getattr(transformers, kind), config, processor, by=0.5, seed=2)


def mask2former(folder):
    """Save a Mask2Former of five queries, all of whose classes are things: it sees some, whatever its weights are."""
    import transformers

    sizes = dict.fromkeys(("feature_size", "mask_feature_size", "hidden_dim"), 32)
    sizes |= dict.fromkeys(("encoder_feedforward_dim", "dim_feedforward"), 16)
    sizes |= {"encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 2, "num_queries": 5}
    labels = _label_maps({**LABELS, 0: "table"})
    config = transformers.Mask2FormerConfig(backbone_config=_swin([1, 1, 2, 2]), **sizes, **labels)
    images = transformers.Mask2FormerImageProcessor(size={"height": 64, "width": 64})
    return _save(folder, transformers.Mask2FormerForUniversalSegmentation, config, images, by=0.4, seed=2)


def grounding_dino(folder):
    """Save a Grounding DINO of five queries."""
    import transformers

    text = transformers.BertConfig(vocab_size=1030 + len(WORDS), max_position_embeddings=300, **TINY)
    sizes = {f"encoder_{k}": v for k, v in _PART.items()} | {f"decoder_{k}": v for k, v in _PART.items()}
    sizes |= {"decoder_layers": 2, "d_model": 32, "num_queries": 5, "num_feature_levels": 2}
    sizes |= {"encoder_n_points": 2, "decoder_n_points": 2}
    config = transformers.GroundingDinoConfig(backbone_config=_swin([1, 2]), text_config=text, **sizes)
    images = transformers.GroundingDinoImageProcessor(size=SIZE)
    processor = transformers.GroundingDinoProcessor(images, bert_tokenizer())
    return _save(folder, transformers.GroundingDinoForObjectDetection, config, processor, by=0.2)


_CLIP_WORDS = ("a", "photo", "of", "dog", "cup", "red", "hat", "person", "skateboard")
_SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
_TEXT = TINY | {"vocab_size": len(_CLIP_WORDS) + 4, "max_position_embeddings": 16} | _SPECIAL


def _two_towers(folder, name, kind, *, by, size=SIZE, text=_TEXT, **extra_config):
    """Save a model that sees images and texts, of the transformers' classes of a name."""
    import transformers

    config = getattr(transformers, f"{name}Config")(text_config=text, vision_config=VISION, **extra_config)
    crop = {"crop_size": SIZE} if size is not SIZE else {}
    images = getattr(transformers, f"{name}ImageProcessor")(size=size, **crop)
    words = tiny_blip.tokenizer(_CLIP_WORDS, length=16)
    processor = getattr(transformers, f"{name}Processor")(images, words)
    return _save(folder, getattr(transformers, kind), config, processor, by=by)


def siglip(folder):
    """Save a SigLIP, which scores each text independently."""
    return _two_towers(folder, "Siglip", "SiglipModel", by=0.3, text=_TEXT | {"projection_size": 16})


def clip(folder):
    """Save a CLIP as transformers has it, which compares texts."""
    return _two_towers(folder, "CLIP", "CLIPModel", by=0.5, size={"shortest_edge": 32}, projection_dim=16)


def sam(folder):
    """Save a SAM that takes images of 64 x 64."""
    import transformers

    sizes = {"hidden_size": 16, "output_channels": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "mlp_dim": 16}
    sizes |= {"image_size": 64, "patch_size": 16, "window_size": 2, "global_attn_indexes": [0], "num_pos_feats": 8}
    vision = transformers.SamVisionConfig(**sizes)
    prompt = transformers.SamPromptEncoderConfig(hidden_size=16, image_size=64, patch_size=16, mask_input_channels=4)
    decoder = transformers.SamMaskDecoderConfig(
        hidden_size=16, mlp_dim=16, num_hidden_layers=1, num_attention_heads=2, iou_head_hidden_dim=16
    )
    config = transformers.SamConfig(vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder)
    images = transformers.SamImageProcessor(
        size={"longest_edge": 64}, pad_size={"height": 64, "width": 64}, mask_size={"longest_edge": 16}
    )
    return _save(folder, transformers.SamModel, config, transformers.SamProcessor(images), by=0.5)


def florence2(folder):
    """Save a Florence-2 whose words are those of an answer to ``<OD>``."""
    import transformers

    words = "<image> locate the objects with category name in image dog cup ."
    plain = tiny_blip.tokenizer(tuple(words.split()), length=64)
    special = {f"{k}_token": f"[{k}]" for k in ("pad", "unk", "bos", "eos")}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain.backend_tokenizer, extra_special_tokens={"image_token": "<image>"}, **special
    )
    tokenizer.add_tokens([transformers.AddedToken(f"<loc_{k}>", normalized=False) for k in range(20)])
    sizes = {"depths": [1, 1], "patch_size": [7, 3], "patch_stride": [4, 2], "patch_padding": [3, 1]}
    sizes |= {"patch_prenorm": [False, True], "embed_dim": [8, 16], "num_heads": [1, 2], "num_groups": [1, 2]}
    sizes |= {"window_size": 4, "projection_dim": 16, "max_position_embeddings": 10, "max_temporal_embeddings": 4}
    vision = transformers.models.florence2.Florence2VisionConfig(**sizes)
    sizes = {f"encoder_{k}": v for k, v in _PART.items()} | {f"decoder_{k}": v for k, v in _PART.items()}
    sizes |= {"vocab_size": len(tokenizer), "d_model": 16, "max_position_embeddings": 1024, **_SPECIAL}
    text = transformers.BartConfig(**sizes, decoder_start_token_id=3, forced_eos_token_id=3)
    config = transformers.Florence2Config(
        vision_config=vision, text_config=text, image_token_id=tokenizer.image_token_id
    )
    images = transformers.CLIPImageProcessor(size=SIZE, do_center_crop=False)
    images.image_seq_length = 17
    processor = transformers.Florence2Processor(
        images, tokenizer, post_processor_config={"description_with_bboxes": {}}
    )
    return _save(folder, transformers.Florence2ForConditionalGeneration, config, processor, by=0.3)


SAVED = {f.__name__: f for f in (segformer, mask2former, grounding_dino, siglip, clip, sam, florence2)}
