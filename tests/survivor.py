"""Runs that tests kill, slowly, in many small shards.

``life(STORE, OUT, ENGINE, WORKERS, SECONDS)`` makes the paradox's images and those of people alone and in pairs, and
judges them, with stand-ins that need no library of models, so that processes start in a second. It writes
OUT/tables.pickle. Every shard that is computed leaves a line in OUT/log: the stage, the digest in the shard's name, and
the process that computes it.
"""

import os
import pickle
import time
from functools import partial
from pathlib import Path

import numpy as np

from biaslab.cache import result_cache
from biaslab.cache.result_cache import Stage
from biaslab.generation import images
from biaslab.generation.generator import image_seed
from biaslab.generation.models import DiffusersModel
from biaslab.hub import registry
from biaslab.judges import people
from biaslab.judges.faces import Face, FaceDetector
from biaslab.judges.judge import Answer
from biaslab.papers.paired.stages import Paired
from biaslab.pipeline import Pipeline, Settings

READY, ERR = "ready", "err"
# What a run imports, read once for all of them.
IMPORTS = (
    "survivor",
    "pandas",
    "pyarrow.parquet",
    "PIL.Image",
    "biaslab_world.captions",
    "biaslab.papers.paired.stages",
)
compute_iter = Stage.compute_iter


FACES = Face(1, 2, 9, 14, 1.0), Face(13, 2, 21, 14, 1.0)


class Drawing:
    """A model whose images follow from their seeds: noise, as wide as one person or two."""

    batch_size = 4

    def __init__(self, settings):
        self._size = 16, round(16 * settings.aspect), 3

    def check(self, prompts):
        assert all(prompts)

    def description(self):
        return {"batch_size": self.batch_size}

    def n_tokens_truncated(self, prompts):
        return np.zeros(len(prompts), dtype=int)

    def images(self, prompts, keys, seed, *, watch):
        rngs = (np.random.default_rng(image_seed(seed, *key)) for key in keys)
        return [rng.integers(0, 256, self._size, dtype=np.uint8) for rng in rngs]


def drawn(model, settings, *, device):
    return Drawing(settings)


class Looks(FaceDetector):
    """Both judges, by two pixels: no face or as many as it is wide enough for, and who it looks like."""

    domain, needs_faces = registry.ANY, True

    def faces(self, images):
        return [[FACES[k] for k in range(1 + (i.shape[1] > 16))] if i[0, 0, 0] > 40 else [] for i in images]

    def answers(self, people):
        return [Answer(float(person.image[0, 0, 1] > 127)) for person in people.persons]


class Light(Pipeline):
    def judge(self, setting, name="", network=""):
        return Looks(setting, self.judge_options)

    def compute(self, work, *given, **more):
        if isinstance(getattr(work, "__self__", None), DiffusersModel):
            more["load"] = drawn
        return super().compute(work, *given, **more)


def watched(log, seconds, workers, stage, work, rows):
    """Do some work, noted and slowly, and not before so many workers are at work."""
    with open(log, "a") as file:
        file.write(f"{stage} {result_cache._rows_digest(rows)[:16]} {os.getpid()}\n")
    late = time.monotonic() + 200
    while workers > 1 and len({line.rpartition(" ")[2] for line in Path(log).read_text().splitlines()}) < workers:
        assert time.monotonic() < late, "One worker does all the work."
        time.sleep(0.05)
    time.sleep(seconds)
    return work(rows)


# How small pieces are: modules, what they call it, and the value here.
PIECES = ((images, "SHARD", 8), (people, "_SHARD_ROWS", 16))


def cut(put=setattr):
    """Make pieces small."""
    for module, name, value in PIECES:
        assert hasattr(module, name)
        put(module, name, value)


def images_of(root, engine="local", workers=0):
    """Return a pipeline that makes and judges a few images in small pieces; engine ``dask@FILE`` is a cluster."""
    cut()
    name, _, address = engine.partition("@")
    given = {
        "captions": {"occupations": ["nurse", "chef"], "max_captions": 2000, "approaches": ["naive"]},
        "generation": {"images_per_prompt": 8, "steps": 1},
        "paired": {"n_occupations": 1, "power_samples": 1, "single_images": 2, "three_person_prompts": 2},
        "judging": {"batch_size": 16},
        "compute": {"cache": str(root), "engine": name, "workers": workers, "address": address},
    }
    return Light("mini", Settings.from_mapping(given), seed=1, progress=False)


def main(root, out, engine, workers, seconds):
    log = os.path.join(out, "log")
    # A cluster has two workers, and one could be done before the other begins.
    at_work = 2 if "@" in engine else 1

    def slowly(stage, units, **options):
        work = stage.work
        if not hasattr(work, "__wrapped__"):
            stage.work = partial(watched, log, seconds, at_work, stage.key["name"], work)
            # What is watched is the same code.
            stage.work.__wrapped__ = work
        return compute_iter(stage, units, **options)

    Stage.compute_iter = slowly
    run = images_of(root, engine, workers)
    Path(out, READY).touch()
    tables = run.judgements("generated"), *(run.part(Paired).people(kind) for kind in ("single", "paired"))
    Path(out, "tables.pickle").write_bytes(pickle.dumps(tables))


def life(*words):
    """Be a run in a process of its own, what it says on standard error going to OUT/err."""
    with open(os.path.join(words[1], ERR), "w") as err:
        os.dup2(err.fileno(), 2)
    main(*words)
