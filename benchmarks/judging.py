"""Time face detection and judging in batches, compared with the same models for single images.

Run: ``python benchmarks/judging.py`` for the synthetic world's models and drawings of people, on a CPU. On a GPU, with
CLIP's architecture and random weights for noise of 512 x 512: ``python benchmarks/judging.py --device cuda --arch
ViT-L-14 --images 4096``. It prints images/s of both and their ratio from one run.

The peer passes each image through the libraries' own calls, as in their examples: a transformers processor, detector
and post-processing, then open_clip's transform and model. Texts are encoded once, or, in the second line, for every
image, as in the forward pass of CLIP's model. Random weights do not detect faces: with ``--arch`` the detector runs,
and every image counts as one that meets the inclusion criteria.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from biaslab.hub import registry
from biaslab.judges.faces import FaceDetector, HubFaces, WholeImage
from biaslab.judges.judge import JudgeOptions
from biaslab.judges.judge_labels import GENDER_TEXTS
from biaslab.judges.people import check_faces, judge_arrays, large_enough
from biaslab.judges.settings import JudgeSettings
from biaslab.judges.zero_shot import ClipJudge, ZeroShot


class AlwaysOne(WholeImage):
    """Detector that runs another detector and then returns the entire image as one face."""

    def __init__(self, inner: FaceDetector) -> None:
        super().__init__(self.prefix)
        self.inner = inner

    def faces(self, images):
        self.inner.faces(images)
        return super().faces(images)


def drawn_people(n: int, size: int) -> list[np.ndarray]:
    """Return scenes of the synthetic world with one person each."""
    from biaslab_world.looks import OCCUPATIONS
    from biaslab_world.render import render
    from biaslab_world.scene import sample_scene

    rng, names = np.random.default_rng(0), list(OCCUPATIONS)
    genders = ("female", "male")
    return [
        render(sample_scene(rng, genders=(genders[k % 2],), occupations=(names[k % len(names)],)), size=size)[:, :, :3]
        for k in range(n)
    ]


def random_detector(folder: str) -> str:
    """Save a small detector with random weights, and return its folder."""
    from transformers import YolosConfig, YolosForObjectDetection, YolosImageProcessor

    config = YolosConfig(
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=128,
        image_size=[128, 128],
        num_detection_tokens=20,
        id2label={0: "face", 1: "person"},
        label2id={"face": 0, "person": 1},
    )
    YolosForObjectDetection(config).save_pretrained(folder)
    YolosImageProcessor(size={"height": 128, "width": 128}, do_pad=False).save_pretrained(folder)
    return folder


def clip_of(options: argparse.Namespace) -> tuple[ZeroShot, object, object]:
    """Return the classifier, its image transform and its tokenizer, which the peer also uses."""
    import open_clip
    from safetensors.torch import save_model

    if not options.arch:
        model = ZeroShot(options.gender, device=options.device, dtype=options.dtype)
        _, _, transform = open_clip.create_model_and_transforms(*_place(options.gender))
        return model, transform, model._tokenizer
    source, _, transform = open_clip.create_model_and_transforms(options.arch)
    tokenizer = open_clip.get_tokenizer(options.arch)
    with tempfile.TemporaryDirectory() as folder:
        config = {"model_cfg": open_clip.get_model_config(options.arch), "preprocess_cfg": {}}
        (Path(folder) / "open_clip_config.json").write_text(json.dumps(config), encoding="utf-8")
        save_model(source, str(Path(folder) / "open_clip_model.safetensors"))
        model = ZeroShot(folder, device=options.device, dtype=options.dtype, batch_size=options.batch)
    return model, transform, tokenizer


def _place(name: str) -> tuple[str, str | None]:
    """Return the architecture and the tag, or the folder, from which open_clip creates a model."""
    folder = registry.resolve(name, "clip")
    return (f"local-dir:{folder}", None) if Path(folder).is_dir() else tuple(folder.split(":"))


def passes(faces, width: int, height: int) -> bool:
    return not check_faces(faces, 1) and large_enough(*faces[0][:4], width, height)


def one_at_a_time(images, finder: FaceDetector, clip: ZeroShot, transform, tokenizer, *, texts_too: bool) -> None:
    """Judge each image separately with the libraries' own calls."""
    import torch
    from PIL import Image

    always = isinstance(finder, AlwaysOne)
    detector = (finder.inner if always else finder).model
    model, processor, device = detector.model, detector.processor, detector.device
    tokens = tokenizer(list(GENDER_TEXTS)).to(device)
    with torch.inference_mode():
        text_features = clip._model.encode_text(tokens, normalize=True)
        for image in images:
            picture = Image.fromarray(image)
            inputs = processor(images=picture, return_tensors="pt").to(device)
            detections = processor.post_process_object_detection(
                model(**inputs), threshold=detector.min_score, target_sizes=[picture.size[::-1]]
            )[0]
            boxes = detector._select_faces({k: v.float().cpu() for k, v in detections.items()}, *picture.size)
            if not always and not passes(boxes, *picture.size):
                continue
            pixels = transform(picture).unsqueeze(0).to(device, clip._dtype)
            if texts_too:
                text_features = clip._model.encode_text(tokens, normalize=True)
            image_features = clip._model.encode_image(pixels, normalize=True)
            (clip._model.logit_scale.exp() * image_features.float() @ text_features.float().T).softmax(dim=-1).cpu()


def timed(work, n: int) -> float:
    """Return images per second of ``work``, which processes ``n`` images and waits for the results."""
    start = time.perf_counter()
    work()
    return n / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="auto", help="of the CLIP model's image tower")
    parser.add_argument("--arch", default="", help="an open_clip architecture, with random weights")
    parser.add_argument("--faces", default="mini-detector")
    parser.add_argument("--gender", default="mini-clip")
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--peer-images", type=int, default=256)
    parser.add_argument("--size", type=int, default=0, help="pixels; 64, or 512 with --arch")
    parser.add_argument("--batch", type=int, default=0, help="images at a time; 0 finds it")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()

    import open_clip
    import torch
    import transformers

    if options.threads:
        torch.set_num_threads(options.threads)
    size = options.size or (512 if options.arch else 64)
    clip, transform, tokenizer = clip_of(options)
    with tempfile.TemporaryDirectory() as folder:
        detector_name = random_detector(folder) if options.arch and options.faces == "mini-detector" else options.faces
        settings = JudgeOptions(JudgeSettings(batch_size=options.batch), device=options.device)
        finder, judge = HubFaces(detector_name, settings), ClipJudge(options.gender, settings)
        # The detector has to be loaded while its folder exists.
        _ = finder.model
    if options.arch:
        images = list(np.random.default_rng(0).integers(0, 256, (options.images, size, size, 3), dtype=np.uint8))
        finder = AlwaysOne(finder)
    else:
        images = drawn_people(options.images, size)
    judge.classifier = clip
    step = options.batch or (128 if options.device == "cpu" else 512)

    def ours(batch):
        ids, parts = list(map(str, range(step))), [batch[k : k + step] for k in range(0, len(batch), step)]
        rows = [judge_arrays(ids[: len(part)], part, judge, finder) for part in parts]
        return sum(int(row["probability_female"].notna().sum()) for row in rows)

    peer_images = images[: options.peer_images]
    for warm in (ours, lambda some: one_at_a_time(some, finder, clip, transform, tokenizer, texts_too=True)):
        warm(images[: 2 * step] if warm is ours else images[:8])
    judged = ours(peer_images)
    rate = timed(lambda: ours(images), len(images))
    judge_rate = timed(lambda: judge.model.probability_female(images), len(images))
    peer, with_texts = (
        timed(lambda t=t: one_at_a_time(peer_images, finder, clip, transform, tokenizer, texts_too=t), len(peer_images))
        for t in (False, True)
    )

    on_gpu = options.device.startswith("cuda")
    device = torch.cuda.get_device_name() if on_gpu else platform.processor() or "CPU"
    print(
        f"{device}, {torch.get_num_threads()} threads of {os.cpu_count()} cores; Python {sys.version.split()[0]}, "
        f"torch {torch.__version__}, transformers {transformers.__version__}, open_clip {open_clip.__version__}"
    )
    model_name = options.arch or options.gender
    print(
        f"{len(images):,} images of {size} x {size}, {model_name} in {clip._dtype}, {step} images at a time; "
        f"{judged} of {len(peer_images)} meet the inclusion criteria"
    )
    print(f"biaslab, faces and judge        {rate:10,.1f} images/s")
    print(f"biaslab, judge alone            {judge_rate:10,.1f} images/s")
    print(f"one at a time, texts once       {peer:10,.1f} images/s   ratio {rate / peer:6.1f} x")
    print(f"one at a time, texts each time  {with_texts:10,.1f} images/s   ratio {rate / with_texts:6.1f} x")


if __name__ == "__main__":
    main()
