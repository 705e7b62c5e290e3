"""Time people judged in batches against a loop over one image at a time, with the same models.

Run: ``python benchmarks/people.py`` for the embedded models on drawn people; ``--faces`` and ``--gender`` name other
models. It prints images/s of both and their ratio, from rounds that take turns: the fastest of each counts.

The loop is the one that a researcher writes, in the libraries' own calls: a transformers processor, detector and
post-processing; faces ordered; each person cut out as biaslab cuts people out; open_clip's transform and model on one
crop after the other; texts encoded once. The second line also looks at who is who, on a second crop of each person.
"""

import argparse
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

from biaslab import lexicons
from biaslab.judging import people
from biaslab.judging.judge import Judge, JudgeSettings, load
from biaslab.judging.person import Person, head_and_shoulders, wider
from biaslab.judging.zero_shot import GENDER_TEXTS
from biaslab.models import registry
from biaslab_world.pairs import held_out_pairs


class GenderOnly:
    """A model of gender that is not asked who is who."""

    def __init__(self, inner) -> None:
        self.answers = inner.answers


def one_at_a_time(ids, phrases, images, judges: Judge, transform, *, roles: bool) -> list[tuple]:
    """Take each image and each person alone; return p_female of both people and the order's probability."""
    import torch
    from PIL import Image

    detector, clip = judges.faces, judges.gender.classifier
    model, processor, device = detector.model, detector.processor, detector.device
    known = {}

    def encoded(texts):
        new = [text for text in texts if text not in known]
        for text in new:
            known[text] = clip._model.encode_text(clip._tokenizer([text]).to(device), normalize=True)[0]
        return torch.stack([known[text] for text in texts])

    def scores(crop, texts):
        pixels = transform(Image.fromarray(crop)).unsqueeze(0).to(device, clip._dtype)
        seen = clip._model.encode_image(pixels, normalize=True)[0].float()
        return (clip._model.logit_scale.exp() * encoded(texts).float() @ seen).cpu()

    out = []
    with torch.inference_mode():
        for _, told, image in zip(ids, phrases, images, strict=True):
            picture = Image.fromarray(image)
            inputs = processor(images=picture, return_tensors="pt").to(device)
            found = processor.post_process_object_detection(
                model(**inputs), threshold=detector.min_score, target_sizes=[picture.size[::-1]]
            )[0]
            faces = detector._of_one({k: v.float().cpu() for k, v in found.items()}, *picture.size)
            faces = sorted(faces, key=lambda face: face.x0 + face.x1)
            if people.gate(faces, len(told)):
                out.append(())
                continue
            strips = people.parts(faces, picture.width)
            there = [Person(image, face[:4], part=part) for face, part in zip(faces, strips, strict=True)]
            genders = [float(scores(head_and_shoulders(one), GENDER_TEXTS).softmax(0)[1]) for one in there]
            here = float("nan")
            if roles and len(set(told)) > 1:
                texts = [lexicons.fill(people.ROLE_TEXT, phrase) for phrase in told]
                logits = [scores(wider(one), texts).double().numpy() for one in there]
                here = people.order(np.stack(logits), told)[0]
            out.append((*genders, here))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--faces", default="mini-detector")
    parser.add_argument("--gender", default="mini-clip", help="an open_clip model")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--peer-images", type=int, default=96)
    parser.add_argument("--size", type=int, default=64, help="height in pixels")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()

    import open_clip
    import torch
    import transformers

    if options.threads:
        torch.set_num_threads(options.threads)
    judges = load(JudgeSettings(faces=options.faces, gender=options.gender), options.device)
    where = registry.resolve(options.gender, "clip")
    place = (f"local-dir:{where}",) if Path(where).is_dir() else where.split(":")
    _, _, transform = open_clip.create_model_and_transforms(*place)
    source = held_out_pairs(options.images, size=options.size)
    told = source.table.groupby("image_id", sort=False)["phrase"].agg(list)
    ids, phrases = list(told.index), list(told)
    images = source.read(ids)
    step = 128 if options.device == "cpu" else 512
    # Seconds of the processor where there is no other device: other work on the machine does not count then.
    clock = time.process_time if options.device == "cpu" else time.perf_counter

    def ours(n, some):
        parts = [slice(k, min(k + step, n)) for k in range(0, n, step)]
        found = [people._look(ids[p], phrases[p], images[p], some) for p in parts]
        rows = [row for part in found for row in part]
        # Each image has a row for each of its two people.
        return list(zip(rows[::2], rows[1::2], strict=True))

    def peer(n, some):
        roles = some is judges
        return one_at_a_time(ids[:n], phrases[:n], images[:n], judges, transform, roles=roles)

    def timed(work, n, some):
        start = clock()
        found = work(n, some)
        return n / (clock() - start), found

    where = torch.cuda.get_device_name() if options.device.startswith("cuda") else platform.processor() or "CPU"
    print(
        f"{where}, {torch.get_num_threads()} threads of {os.cpu_count()} cores; Python {sys.version.split()[0]}, "
        f"torch {torch.__version__}, transformers {transformers.__version__}, open_clip {open_clip.__version__}"
    )
    print(f"{len(images):,} images of two people, {images[0].shape[1]} x {images[0].shape[0]}; {step} at a time")
    few = min(options.peer_images, len(images))
    for what, some in (("gender", judges._replace(gender=GenderOnly(judges.gender))), ("gender and roles", judges)):
        ours(min(step, len(images)), some), peer(min(8, few), some)
        rates = {"ours": 0.0, "peer": 0.0}
        for _ in range(options.rounds):
            rate, mine = timed(ours, len(images), some)
            rates["ours"] = max(rates["ours"], rate)
            rate, theirs = timed(peer, few, some)
            rates["peer"] = max(rates["peer"], rate)
        same(mine[:few], theirs)
        ratio = rates["ours"] / rates["peer"]
        print(
            f"{what:17} biaslab {rates['ours']:8,.1f} images/s   one at a time {rates['peer']:8,.1f} images/s   "
            f"ratio {ratio:5.1f} x"
        )


def same(mine: list[tuple[dict, dict]], theirs: list[tuple]) -> None:
    """Hold both ways of judging against each other, so that the ratio is one of equal work."""
    for rows, other in zip(mine, theirs, strict=True):
        judged = not rows[0]["outcome"]
        found = [*(row["p_female"] for row in rows), rows[0].get("role_p", np.nan)] if judged else []
        np.testing.assert_allclose(found, other, atol=0.02)


if __name__ == "__main__":
    main()
