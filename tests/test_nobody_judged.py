"""Notebooks where nobody can be judged."""

import contextlib
import io
import json
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from biaslab import params, runs
from biaslab.generation.images import GeneratedImages
from biaslab.judging import blip, faces, objects, segmenters, zero_shot
from biaslab.judging.images import Unreadable, DescribedImages
from biaslab.pipeline.stages import Stages

pytestmark = pytest.mark.slow

PAPERS = ("paradox", "paired", "dalleval", "triplets", "synthesis")
SMALL = {
    "captions.occupations": "[nurse, engineer]",
    "captions.rows": 3000,
    "captions.per_occupation": 8,
    "captions.candidates_per_occupation": 10,
    "captions.nearest_per_prompt": 3,
    "generation.images_per_prompt": 2,
    "generation.caption_prompts_per_occupation": 3,
    "generation.steps": 1,
    "people.occupations": 2,
    "people.power_runs": 1,
    "people.single_images": 1,
    "people.pair_images": 1,
    "people.three_prompts": 2,
    "dalleval.scenes": 2,
    "dalleval.professions": 2,
    "dalleval.social_images": 1,
    "dalleval.detector_renders": 10,
    "triplets.triplets": 4,
    "triplets.one_triplet": 2,
    "triplets.seeds": 1,
    "triplets.detector_drawings": 10,
    "settings.compare_with": "none",
}


def shown(mp, name, replace, outcome="ok"):
    """All images, made or behind captions."""
    complete, training = GeneratedImages.complete, Stages._training_source

    def completed(self, **more):
        complete(self, **more)
        self.digest += name
        if outcome != "ok":
            self.table["outcome"] = outcome
        return self

    def behind(self, ids):
        found = training(self, ids)
        other = DescribedImages(found, found.table)
        other.digest += name
        other.read = lambda ids: list(map(replace, found.read(ids)))
        return other

    image = GeneratedImages._image
    mp.setattr(GeneratedImages, "complete", completed)
    mp.setattr(GeneratedImages, "_image", lambda self, place: replace(image(self, place)))
    if name != "blocked":
        mp.setattr(Stages, "_training_source", behind)


def neither(mp):
    shown(mp, "neither", lambda image: image)

    def found(self, images):
        out = []
        for image in images:
            h, w = image.shape[:2]
            n = 1 if h == w else 2
            out.append([faces.Face(i * w / n + 1, 4, (i + 1) * w / n - 1, h - 4, 0.9) for i in range(n)])
        return out
    mp.setattr(faces.DetectorFaces, "faces", found)
    mp.setattr(zero_shot.ZeroShotGender, "p_female", lambda self, images: np.full(len(images), 0.5))
    mp.setattr(zero_shot.ZeroShot, "logits", lambda self, images, texts: np.zeros((len(images), len(texts))))
    mp.setattr(blip.Model, "ask", lambda self, images, of, questions: ["banana"] * len(questions))
    mp.setattr(objects.Detector, "look", lambda self, images: [(np.zeros((0, len(self._columns))), np.zeros((0, 4)))] * len(images))
    mp.setattr(segmenters.Segmenter, "look", lambda self, images: [[] for _ in images])


CASES = {
    "black": lambda mp: shown(mp, "black", lambda image: np.zeros_like(image)),
    "blocked": lambda mp: shown(mp, "blocked", lambda image: Unreadable("blocked"), "blocked"),
    "unreadable": lambda mp: shown(mp, "unreadable", lambda image: Unreadable("damaged")),
    "neither": neither,
}


def executed(folder, paper, mp, keep_going=False):
    root = Path(__file__).parents[1]
    loaded = params.load(
        root / "world" / "params" / "mini.yaml",
        notebooks=[f"{paper}/*"],
        overrides=[
            "run=nobody", "bootstrap_replicates=200",
            *(f"{k}={v}" for k, v in SMALL.items()), f"compute.store={folder.parent / ('store' if folder.name != 'neither' else 'store2')}",
        ],
    )
    mp.setattr("biaslab.study._save_png", lambda figure, path, page: path.touch())
    mp.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: None)
    for job in runs.plan(loaded, folder / "outputs"):
        if job.reason:
            print("skipped", job.notebook.id, job.reason)
            continue
        space, err, text = {"display": print}, None, io.StringIO()
        start = time.time()
        try:
            for cell in json.loads(job.notebook.path.read_text(encoding="utf-8"))["cells"]:
                if cell["cell_type"] == "code":
                    with contextlib.redirect_stdout(text):
                        exec("".join(cell["source"]), space)
                    if "parameters" in cell["metadata"].get("tags", ()):
                        space |= job.parameters
            assert not plt.get_fignums()
        except Exception as e:
            if not keep_going: raise
            err = e
        plt.close("all")
        yield job, space, err, time.time() - start, text.getvalue()
