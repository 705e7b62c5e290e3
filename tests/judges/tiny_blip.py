"""Random BLIP and BLIP-2 of one layer, in the formats of the real ones, and images that they distinguish."""

import numpy as np
import tiny_pipelines

_VOCABULARY = "what gender is the nurse pilot carpenter manager on left right middle in picture ? female male woman man"
WORDS = (*f"{_VOCABULARY} question : answer a no person".split(),)
_VISION = tiny_pipelines.VISION | {"patch_size": 16}
_SIZE = {"height": 32, "width": 32}


def tokenizer(words=WORDS, length=40):
    return tiny_pipelines.tokenizer(words, length)


def _spread(model, std):
    """Make random weights large enough that image and question affect the answer."""
    import torch

    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.normal_(0, std)
    return model


def save_blip(folder, kind="BlipForQuestionAnswering"):
    """Save a random BLIP of ``kind``, a class of transformers, and return its folder."""
    import torch
    import transformers

    text = tiny_pipelines.TINY | {"vocab_size": len(WORDS) + 4, "encoder_hidden_size": 16}
    text |= {"max_position_embeddings": 64, "bos_token_id": 2, "eos_token_id": 3, "sep_token_id": 3, "pad_token_id": 0}
    torch.manual_seed(3)
    config = transformers.BlipConfig(
        text_config=text, vision_config=_VISION, projection_dim=16, image_text_hidden_size=16
    )
    _spread(getattr(transformers, kind)(config), 0.5).save_pretrained(folder)
    images = transformers.BlipImageProcessor(size=_SIZE)
    transformers.BlipProcessor(images, tokenizer()).save_pretrained(folder)
    return folder


# Language models of BLIP-2: one is a decoder only, the other has an encoder and a decoder.
_OPT = {"hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
_OPT |= {"max_position_embeddings": 80, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
_T5 = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
_T5 |= {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}
_LANGUAGE = {"opt": _OPT, "t5": _T5}


def save_blip2(folder, language):
    """Save a random BLIP-2 with the language model ``opt`` or ``t5``, and return its folder."""
    import torch
    from transformers import Blip2Config, Blip2ForConditionalGeneration, Blip2Processor, BlipImageProcessor

    qformer = tiny_pipelines.TINY | {"vocab_size": 4, "encoder_hidden_size": 16, "cross_attention_frequency": 1}
    processor = Blip2Processor(BlipImageProcessor(size=_SIZE), tokenizer(), num_query_tokens=3)
    image_token = processor.tokenizer.convert_tokens_to_ids("<image>")
    torch.manual_seed(5)
    config = Blip2Config(
        vision_config=_VISION,
        qformer_config=qformer,
        text_config={"model_type": language, **_LANGUAGE[language], "vocab_size": image_token + 1},
        num_query_tokens=3,
        image_token_index=image_token,
    )
    _spread(Blip2ForConditionalGeneration(config), 0.4).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_retriever(folder):
    """Save a random BLIP-2 for retrieval, with three queries and a text encoder, and return its folder."""
    import torch
    from transformers import Blip2Config, Blip2ForImageTextRetrieval, Blip2Processor, BlipImageProcessor

    qformer = tiny_pipelines.TINY | {"vocab_size": len(WORDS) + 4, "encoder_hidden_size": 16}
    qformer |= {"cross_attention_frequency": 1, "use_qformer_text_input": True, "max_position_embeddings": 40}
    text = {"model_type": "opt", **_OPT, "vocab_size": len(WORDS) + 5}
    torch.manual_seed(7)
    config = Blip2Config(
        vision_config=_VISION, qformer_config=qformer, text_config=text, num_query_tokens=3, image_text_hidden_size=8
    )
    _spread(Blip2ForImageTextRetrieval(config), 0.4).save_pretrained(folder)
    Blip2Processor(BlipImageProcessor(size=_SIZE), tokenizer(), num_query_tokens=3).save_pretrained(folder)
    return folder


def photos():
    """Return five images of three sizes."""
    from PIL import Image

    rng = np.random.default_rng(0)
    coarse = [rng.integers(0, 256, (4, 4, 3), dtype=np.uint8) for _ in range(5)]
    sizes = [(48, 40), (32, 32), (48, 40), (100, 30), (32, 32)]
    return [np.array(Image.fromarray(c).resize(s[::-1])) for c, s in zip(coarse, sizes, strict=True)]


def own_text(model, processor, image, text=None, longest=20):
    """Return the text that transformers generates for one image, after ``text`` if given."""
    import torch

    inputs = processor(images=image, text=text, return_tensors="pt")
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        tokens = model.generate(**inputs, max_new_tokens=longest, do_sample=False)[0]
    # Language models without an encoder repeat what they were given.
    if "input_ids" in inputs and "2" in type(model).__name__ and not model.language_model.config.is_encoder_decoder:
        tokens = tokens[inputs["input_ids"].shape[1] :]
    return processor.tokenizer.decode(tokens, skip_special_tokens=True)
