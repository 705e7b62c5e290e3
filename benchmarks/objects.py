"""Time the object detector in batches against a loop over one image at a time, with the same model.

Run: ``python benchmarks/objects.py``; it takes about a minute on one thread. The model is an RT-DETR of the embedded
detector's shape with random weights, in a temporary folder; ``--model`` names another, a folder or hub name whose
labels are PaintSkills' classes. The images are drawn scenes of 64 pixels.

It prints images a second of both and their ratio, from rounds that take turns: the fastest of each counts. The loop is
the one that a researcher writes, in the library's own calls: processor, model and post-processing of each image. Each
of its detections must be among ours: label, score to 1e-4, and box to a hundredth of a pixel.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from biaslab.judging.objects import Detector
from biaslab.prompts.dalleval import CLASSES


def make(folder: Path) -> None:
    """Save a detector of random weights whose scores differ from image to image."""
    import torch

    from training import detector, skills_detector

    torch.manual_seed(3)
    model = detector.build(skills_detector.labels(), (32, 64, 128), (4, 8, 16), 3)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "class_embed" in name or "enc_score_head" in name:
                # New heads say 1 % of everything.
                torch.nn.init.normal_(value, 0, 0.3)
    model.save_pretrained(folder)
    detector.processor().save_pretrained(folder)


def scenes(n: int) -> list[np.ndarray]:
    from biaslab_world import skills
    from biaslab_world.render import render
    from training.skills_detector import asked

    rng = np.random.default_rng(0)
    return [render(skills.skill_scene(rng, asked(rng)), 64) for _ in range(n)]


def one_at_a_time(model, processor, images: list[np.ndarray]) -> list[dict]:
    import torch

    out = []
    with torch.inference_mode():
        for image in images:
            inputs = processor(images=image, return_tensors="pt")
            found = model(**inputs)
            size = [image.shape[:2]]
            out += processor.post_process_object_detection(found, threshold=0.01, target_sizes=size)
    return out


def compare(mine: list[tuple], theirs: list[dict], images: list[np.ndarray], labels: list[str]) -> int:
    """Return how many detections the loop has; exit where one of them is not among ours."""
    columns, n = {name: k for k, name in enumerate(CLASSES)}, 0
    for (scores, boxes), other, image in zip(mine, theirs, images, strict=True):
        height, width = image.shape[:2]
        pixels = boxes * [width, height, width, height]
        for label, score, box in zip(*(other[k].numpy() for k in ("labels", "scores", "boxes")), strict=True):
            off = np.abs(scores[:, columns[labels[label]]] - score)
            # Ours end at the image's edges.
            beside = np.abs(pixels - box.clip(0, [width, height, width, height])).max(axis=1)
            if not ((off < 1e-4) & (beside < 0.01)).any():
                raise SystemExit(f"no detection of ours is the loop's {labels[label]} of {score:.4f} at {box}")
            n += 1
    return n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="", help="empty: random weights")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--peer-images", type=int, default=96)
    parser.add_argument("--batch", type=int, default=32, help="images at a time, of ours; 0: as biaslab finds it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    import torch
    import transformers

    from biaslab.models.registry import quiet

    torch.set_num_threads(options.threads)
    images = scenes(options.images)
    with tempfile.TemporaryDirectory() as folder, quiet():
        where = options.model or folder
        if not options.model:
            make(Path(folder))
        ours = Detector(where, {name: [] for name in CLASSES}, device="cpu", batch_size=options.batch)
        model = transformers.AutoModelForObjectDetection.from_pretrained(where).eval()
        processor = transformers.AutoImageProcessor.from_pretrained(where)
    print(
        f"{platform.processor() or 'CPU'}, {options.threads} threads of {os.cpu_count()} cores; Python "
        f"{sys.version.split()[0]}, torch {torch.__version__}, transformers {transformers.__version__}"
    )

    def timed(work, some: list) -> tuple[float, list]:
        start = time.process_time()
        found = work(some)
        return len(some) / (time.process_time() - start), found

    few = images[: options.peer_images]
    rates = {"ours": 0.0, "peer": 0.0}
    ours.look(images[:8]), one_at_a_time(model, processor, few[:4])
    for _ in range(options.rounds):
        rate, mine = timed(ours.look, images)
        rates["ours"] = max(rates["ours"], rate)
        rate, theirs = timed(lambda some: one_at_a_time(model, processor, some), few)
        rates["peer"] = max(rates["peer"], rate)
    names = [model.config.id2label[k] for k in range(len(model.config.id2label))]
    n = compare(mine[: len(few)], theirs, few, names)
    together = f"{options.batch or 'some'} at a time"
    print(
        f"{len(images):,} images of 64 pixels  biaslab, {together} {rates['ours']:8,.1f} images/s   one at a time "
        f"{rates['peer']:8,.1f} images/s   ratio {rates['ours'] / rates['peer']:5.1f} x   {n:,} detections are the same"
    )


if __name__ == "__main__":
    main()
