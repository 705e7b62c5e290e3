"""Time questions about images: encoding each image once for all questions, compared with once per question.

Run: ``python benchmarks/questions.py``; it takes about a minute on one thread. The model is a BLIP for questions with
random weights, created from its configuration in a temporary folder: an image encoder of 6 layers, 384 wide, at 224
pixels, and a text encoder and decoder of 2 layers. The questions are those of DALL-Eval, one about gender and 15 about
attributes.

It prints answers per second of both and their ratio, from the fastest of alternating rounds. The peer is the library's
example: its processor and its model's ``generate`` for one image and one question at a time, with the settings of
biaslab, no beams and up to 20 words. The answers must be equal.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from biaslab.judges import blip
from biaslab.papers.dalleval.prompts import ATTRIBUTES, GENDER_QUESTION, attribute_question

SIZE = 224
QUESTIONS = [GENDER_QUESTION, *map(attribute_question, ATTRIBUTES)]


def make(folder: Path, layers: int, width: int) -> None:
    """Save a BLIP with random weights and the vocabulary of the questions."""
    import torch
    from transformers import BlipConfig, BlipForQuestionAnswering, BlipImageProcessor, BlipProcessor

    from biaslab_world import captions
    from training.text import make_tokenizer

    words = {word for question in QUESTIONS for word in captions.words(question)}
    tokenizer = make_tokenizer(words | {"yes", "no", "male", "female"}, 40)
    heads = {"num_attention_heads": width // 64, "hidden_size": width, "intermediate_size": 4 * width}
    text = {
        **heads,
        "vocab_size": len(tokenizer),
        "encoder_hidden_size": width,
        "num_hidden_layers": 2,
        "max_position_embeddings": 40,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "sep_token_id": 3,
        "pad_token_id": 0,
    }
    vision = heads | {"num_hidden_layers": layers, "image_size": SIZE, "patch_size": 16}
    torch.manual_seed(3)
    model = BlipForQuestionAnswering(BlipConfig(text_config=text, vision_config=vision))
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                # Large enough that the answer depends on image and question.
                value.normal_(0, 0.08)
        # Answers are short, like those of a trained model.
        model.text_decoder.cls.predictions.bias[3] += 4
    model.save_pretrained(folder)
    BlipProcessor(BlipImageProcessor(size={"height": SIZE, "width": SIZE}), tokenizer).save_pretrained(folder)


def one_at_a_time(model, processor, images: list[np.ndarray]) -> list[str]:
    import torch

    out = []
    for image in images:
        for question in QUESTIONS:
            inputs = processor(images=image, text=question, return_tensors="pt")
            inputs.pop("token_type_ids", None)
            with torch.inference_mode():
                tokens = model.generate(**inputs, max_new_tokens=20, do_sample=False, num_beams=1)[0]
            out.append(processor.tokenizer.decode(tokens, skip_special_tokens=True))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--peer-images", type=int, default=4)
    parser.add_argument("--layers", type=int, default=6, help="of the image encoder")
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    import torch
    import transformers

    from biaslab.hub.registry import quiet

    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8) for _ in range(options.images)]
    for image in images:
        image[: SIZE // 2] //= rng.integers(1, 9, dtype=np.uint8)
    image_indices = [k for k in range(len(images)) for _ in QUESTIONS]
    n_peer_images = min(options.peer_images, len(images))
    with tempfile.TemporaryDirectory() as folder, quiet():
        make(Path(folder), options.layers, options.width)
        biaslab_model = blip.load(folder, device="cpu")
        model = transformers.BlipForQuestionAnswering.from_pretrained(folder).eval()
        processor = transformers.AutoProcessor.from_pretrained(folder)
    print(
        f"{platform.processor() or 'CPU'}, {options.threads} threads of {os.cpu_count()} cores; Python "
        f"{sys.version.split()[0]}, torch {torch.__version__}, transformers {transformers.__version__}"
    )

    def timed(work, n: int) -> tuple[float, list[str]]:
        start = time.process_time()
        result = work()
        return n * len(QUESTIONS) / (time.process_time() - start), result

    ours = peer = 0.0
    biaslab_model.ask(images[:1], image_indices[:1], QUESTIONS[:1])
    for _ in range(options.rounds):
        rate, answers = timed(lambda: biaslab_model.ask(images, image_indices, QUESTIONS * len(images)), len(images))
        ours = max(ours, rate)
        rate, peer_answers = timed(lambda: one_at_a_time(model, processor, images[:n_peer_images]), n_peer_images)
        peer = max(peer, rate)
    if answers[: len(peer_answers)] != peer_answers:
        raise SystemExit("the answers differ")
    print(
        f"{len(QUESTIONS)} questions about each image  biaslab {ours:7.1f} answers/s   one at a time {peer:7.1f} "
        f"answers/s   ratio {ours / peer:5.1f} x   {len(peer_answers)} equal answers, {len(set(peer_answers))} kinds"
    )


if __name__ == "__main__":
    main()
