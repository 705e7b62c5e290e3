"""Runs that tests kill, slowly, in many small shards: of captions, and of images.

``life(CORPUS, STORE, OUT, ENGINE, WORKERS, SECONDS)`` searches a corpus, looks for indicators, embeds and selects.
Where CORPUS is ``drawings``, it makes the paradox's images and those of people alone and in pairs, and judges them,
with stand-ins that need no library of models, so that processes start in a second. It writes OUT/tables.pickle. Every
shard that is computed leaves a line in OUT/log: the stage, the digest in the shard's name, the process that computes
it, and the node where it is Ray's.
"""

import hashlib
import os
import pickle
import sys
import time
from functools import cached_property, partial
from pathlib import Path
from unittest import mock

import numpy as np

from biaslab.captions import corpus, neighbours
from biaslab.generation import images
from biaslab.generation.generator import image_seed
from biaslab.generation.models import DiffusersModel
from biaslab.judging import judge, people
from biaslab.judging.faces import Face
from biaslab.keep import store
from biaslab.keep.store import Stage
from biaslab.pipeline import Pipeline, Settings, stages

DRAWINGS = "drawings"
OCCUPATIONS = ("nurse", "engineer", "chef", "prime minister")
READY, ERR = "ready", "err"
# What a run imports, read once for all of them.
IMPORTS = ("survivor", "pandas", "pyarrow.parquet")
IMPORTS += tuple(f"biaslab.captions.{name}" for name in ("indicators", "search", "neighbours"))
IMPORTS += ("PIL.Image", "biaslab_world.captions", "biaslab.pipeline.people")
compute_iter = Stage.compute_iter


class Hashes:
    """An encoder whose vectors follow from the hashes of words, so that like texts are near."""

    digest, device = "hashes", "cpu"

    def encode(self, texts):
        vectors = np.ones((len(texts), 16), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.split():
                row[hashlib.sha256(word.encode()).digest()[0] % 16] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Run(Pipeline):
    @cached_property
    def _encoder(self):
        return Hashes()


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

    def tokens_cut(self, prompts):
        return np.zeros(len(prompts), dtype=int)

    def images(self, prompts, keys, seed, *, watch):
        rngs = (np.random.default_rng(image_seed(seed, *key)) for key in keys)
        return [rng.integers(0, 256, self._size, dtype=np.uint8) for rng in rngs]


def drawn(model, settings, *, device):
    return Drawing(settings)


class Looks:
    """Both judges, by two pixels: no face or as many as it is wide enough for, and who it looks like."""

    def faces(self, images):
        return [[FACES[k] for k in range(1 + (i.shape[1] > 16))] if i[0, 0, 0] > 40 else [] for i in images]

    def answers(self, people):
        return [(float(person.image[0, 0, 1] > 127), "") for person in people]


def looked(settings, device, *, gender=True):
    return judge.Judge(Looks(), Looks())


class Light(Pipeline):
    def run(self, work, *given, **more):
        if isinstance(getattr(work, "__self__", None), DiffusersModel):
            more["load"] = drawn
        with mock.patch.object(judge, "load", looked):
            return super().run(work, *given, **more)


def watched(log, seconds, nodes, stage, work, rows):
    """Do some work, noted and slowly, and not before so many nodes are at work."""
    ray = sys.modules.get("ray")
    node = ray.get_runtime_context().get_node_id() if ray and ray.is_initialized() else "here"
    with open(log, "a") as file:
        file.write(f"{stage} {store._rows_digest(rows)[:16]} {os.getpid()} {node}\n")
    late = time.monotonic() + 200
    while nodes > 1 and len({line.rpartition(" ")[2] for line in Path(log).read_text().splitlines()}) < nodes:
        assert time.monotonic() < late, "One node does all the work."
        time.sleep(0.05)
    time.sleep(seconds)
    return work(rows)


def write_corpus(path, rows=3000):
    """Write captions as Parquet in row groups of 300."""
    import pandas as pd

    rng = np.random.default_rng(0)
    looks = np.array(["Portrait of a", "A happy", "Stock photo:", "The female", "An old man and a"])
    others = np.array(["at work", "in the city", "with her team", "holding a cup", "on white"])
    names = rng.choice([*OCCUPATIONS, "cat", "garden", "house"], rows)
    texts = [
        f"{a} {b} {c} {n % 700}"
        for n, (a, b, c) in enumerate(zip(rng.choice(looks, rows), names, rng.choice(others, rows), strict=True))
    ]
    pd.DataFrame({"text": texts}).to_parquet(path, row_group_size=300, index=False)


# How small pieces are: modules, what they call it, and the value here.
OF_CAPTIONS = ((corpus, "_PART_ROWS", 300), (stages, "_SHARD_CAPTIONS", 200), (neighbours, "_SHARD", 100))
OF_IMAGES = ((images, "SHARD", 8), (judge, "_SHARD_ROWS", 16), (people, "_SHARD_ROWS", 16))


def cut(pieces, put=setattr):
    """Make pieces small."""
    for module, name, value in pieces:
        assert hasattr(module, name)
        put(module, name, value)


def pipeline_of(path, root, engine="local", workers=0):
    """Return the run's pipeline with everything cut into small pieces."""
    cut(OF_CAPTIONS)
    given = {
        "captions": {
            "corpus": str(path),
            "occupations": OCCUPATIONS,
            "approaches": ["naive", "no_indicators", "nearest", "nearest_no_indicators"],
            "candidates_per_occupation": 0,
        },
        "compute": computed_by(root, engine, workers),
    }
    return Run("none", Settings.of(given), seed=1, progress=False)


def computed_by(root, engine, workers):
    """Return where work runs; ``ray@ADDRESS`` is a cluster that is there."""
    name, _, address = engine.partition("@")
    return {"store": str(root), "engine": name, "workers": workers, "address": address}


def images_of(root, engine="local", workers=0):
    """Return a pipeline that makes and judges a few images, with everything cut into small pieces."""
    cut(OF_IMAGES)
    given = {
        "captions": {"occupations": ["nurse", "chef"], "rows": 2000, "approaches": ["naive"]},
        "generation": {"images_per_prompt": 8, "steps": 1},
        "people": {"occupations": 1, "power_runs": 1, "single_images": 2, "three_prompts": 2},
        "judging": {"batch_size": 16},
        "compute": computed_by(root, engine, workers),
    }
    return Light("mini", Settings.of(given), seed=1, progress=False)


def main(path, root, out, engine, workers, seconds):
    log = os.path.join(out, "log")
    # A cluster that is there has two nodes, and one could be done before the other begins.
    nodes = 2 if "@" in engine else 1

    def slowly(stage, units, **options):
        work = stage.work
        if not hasattr(work, "__wrapped__"):
            stage.work = partial(watched, log, seconds, nodes, stage.key["name"], work)
            # What is watched is the same code.
            stage.work.__wrapped__ = work
        return compute_iter(stage, units, **options)

    Stage.compute_iter = slowly
    if path == DRAWINGS:
        run = images_of(root, engine, workers)
        Path(out, READY).touch()
        tables = run.judgements("generated"), *(run.people.people(kind) for kind in ("single", "paired"))
    else:
        run = pipeline_of(path, root, engine, workers)
        Path(out, READY).touch()
        tables = run.captions(), run.totals(), run.selections()
    Path(out, "tables.pickle").write_bytes(pickle.dumps(tables))


def life(*words):
    """Be a run in a process of its own, what it says on standard error going to OUT/err."""
    with open(os.path.join(words[2], ERR), "w") as err:
        os.dup2(err.fileno(), 2)
    main(*words)
