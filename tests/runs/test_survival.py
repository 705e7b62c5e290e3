"""Runs that are killed or lose workers, and shares of one, end with the tables of an undisturbed one.

The runs are those of ``survivor.py``: images of a stand-in with their judgements, in some forty shards.
"""

import hashlib
import multiprocessing.forkserver
import os
import pickle
import random
import signal
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import survivor
from clusters import cluster

from biaslab.runs import shards

pytestmark = pytest.mark.long
needs_dask = pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="needs the extra 'dask'")
KILLS = 8
SHARDS = {"generated": 28, "fingerprints": 3, "faces": 14, "people": 13}


@pytest.fixture(scope="module")
def forks():
    """Return what starts processes: each is forked from one that has imported what a run does."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(survivor.IMPORTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(survivor.__file__).parent))
        # One thread each: two processors are all that a test can count on.
        patch.setenv("OMP_NUM_THREADS", "1")
        multiprocessing.forkserver.ensure_running()
        yield context


class Life:
    """A run in a process of its own."""

    def __init__(self, process, out):
        self._process, self._out = process, out
        (out / survivor.READY).unlink(missing_ok=True)
        process.start()
        self.pid = process.pid

    def ready(self):
        """Wait until it has read what it needs and begins."""
        while not (self._out / survivor.READY).exists():
            assert self._process.is_alive(), self.end()
            time.sleep(0.01)

    def runs(self):
        return self._process.exitcode is None

    def kill(self):
        self._process.kill()
        return self.end()[0]

    def end(self):
        """Wait for its end, and return its status and what it said."""
        self._process.join(600)
        return self._process.exitcode, (self._out / survivor.ERR).read_text()


class Runs:
    """Runs on one store; a folder for each store."""

    def __init__(self, folder, forks):
        self.folder, self.forks = folder, forks
        self.store = folder / "store"
        folder.mkdir(exist_ok=True)

    def start(self, *, engine="local", workers=0, seconds=0.0):
        out = self.folder / "out"
        out.mkdir(exist_ok=True)
        words = [str(self.store), str(out), engine, workers, seconds]
        return Life(self.forks.Process(target=survivor.life, args=words), out)

    def finish(self, life):
        status, said = life.end()
        assert status == 0, said
        return self.tables()

    def tables(self):
        return pickle.loads((self.folder / "out" / "tables.pickle").read_bytes())

    def finished(self):
        """Return stage and digest of each shard that is whole."""
        return {(p.parts[-3], p.stem.split("-")[1]) for p in self.store.glob("*/*/*.parquet")}

    def computed(self):
        """Return stage, digest and process of each shard that was computed, in order."""
        # Files are made within the work that states facts.
        log = self.folder / "out" / "log"
        lines = (line.split() for line in log.read_text().splitlines()) if log.exists() else ()
        # The last line of a process that was killed may be cut off.
        whole = [words for words in lines if len(words) == 3]
        return [(of, digest, int(pid)) for of, digest, pid in whole if of != "generated_files"]

    def reach(self, n, life):
        """Wait until so many shards have been begun."""
        while len(self.computed()) < n:
            time.sleep(0.02)
            assert life.runs(), life.end()

    def check(self):
        """Look at every file, and return the digests of shards: whole ones fit their checksums."""
        digests = {}
        for path in self.store.glob("*/*/*.parquet"):
            digests[path.relative_to(self.store)] = hashlib.sha256(path.read_bytes()).hexdigest()
            assert digests[path.relative_to(self.store)] == Path(f"{path}.sha256").read_text().strip()
        return digests


@pytest.fixture(scope="module")
def undisturbed(forks, tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("drawings"), forks)


@pytest.fixture(scope="module")
def drawings(undisturbed):
    runs = undisturbed
    tables = runs.finish(runs.start())
    assert Counter(stage for stage, _, _ in runs.computed()) == SHARDS
    assert all(table["gender"].isin(["female", "male"]).sum() > 20 for table in tables)
    return tables


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_killed_at_random_moments(forks, drawings, tmp_path):
    rng, kills, resumed, stages = random.Random(20231), 0, 0, Counter()
    runs = Runs(tmp_path / "0", forks)
    while kills < KILLS:
        before, already = runs.finished(), len(runs.computed())
        process = runs.start(seconds=0.03)
        process.ready()
        # All lives do the work about once, so that kills fall into every stage, and into the midst of a shard.
        shards = rng.randint(0, 2 * sum(SHARDS.values()) // KILLS)
        while process.runs() and len(runs.computed()) < already + shards:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.03))
        status = process.kill()
        work = [(stage, digest) for stage, digest, _ in runs.computed()[already:]]
        # What an earlier life finished is not computed again.
        assert not before.intersection(work)
        if status == -signal.SIGKILL:
            kills += 1
            stages[work[-1][0] if work else "none"] += 1
            resumed += bool(before)
        else:
            # It had come to its end: the next one begins at the beginning.
            same(runs.tables(), drawings)
            runs = Runs(tmp_path / str(kills), forks)
    runs.check()
    same(runs.finish(runs.start()), drawings)
    begun = [(stage, digest) for stage, digest, _ in runs.computed()]
    # Each shard was begun once, and once more for each kill that fell into it.
    assert len(set(begun)) == sum(SHARDS.values()) <= len(begun) <= sum(SHARDS.values()) + KILLS
    assert resumed >= KILLS // 2 and len({*stages} - {"none"}) >= 2, stages
    assert not list(runs.store.rglob("*.tmp"))


@needs_dask
def test_images_of_two_dask_workers_of_which_one_is_killed(forks, undisturbed, drawings, tmp_path):
    runs = Runs(tmp_path / "runs", forks)
    with cluster(tmp_path / "cluster") as started:
        process = runs.start(engine=f"dask@{started.file}", seconds=0.2)
        runs.reach(10, process)
        os.kill(runs.computed()[-1][2], signal.SIGKILL)
        same(runs.finish(process), drawings)
    # The same bytes as without workers.
    assert runs.check() == undisturbed.check()
    begun = Counter((stage, digest) for stage, digest, _ in runs.computed())
    assert len(begun) == sum(SHARDS.values())
    # What the lost worker had in hand is all that was begun again.
    assert sum(begun.values()) <= sum(SHARDS.values()) + 1


@needs_dask
def test_a_run_on_dask_that_is_killed_computes_what_is_missing_when_started_again(
    forks, undisturbed, drawings, tmp_path
):
    runs = Runs(tmp_path / "runs", forks)
    with cluster(tmp_path / "cluster") as started:
        process = runs.start(engine=f"dask@{started.file}", seconds=0.2)
        runs.reach(10, process)
        assert process.kill() == -signal.SIGKILL
        before, already = runs.finished(), len(runs.computed())
        same(runs.finish(runs.start(engine=f"dask@{started.file}")), drawings)
    assert runs.check() == undisturbed.check()
    assert len(before) >= 8
    assert not before.intersection((stage, digest) for stage, digest, _ in runs.computed()[already:])
    # The workers finish what they have in hand, and nothing is computed twice.
    assert len(runs.computed()) == sum(SHARDS.values())


def test_images_of_killed_workers_and_of_a_killed_run(forks, undisturbed, drawings, tmp_path):
    runs = Runs(tmp_path / "runs", forks)
    process = runs.start(workers=2, seconds=0.1)
    runs.reach(4, process)
    victim = runs.computed()[-1][2]
    assert victim != process.pid
    os.kill(victim, signal.SIGKILL)
    runs.reach(12, process)
    process.kill()
    # Its workers end with it, so that nothing is computed by them while the next one looks.
    time.sleep(3)
    before, already = runs.finished(), len(runs.computed())
    same(runs.finish(runs.start(workers=2)), drawings)
    assert runs.check() == undisturbed.check()
    begun = Counter((stage, digest) for stage, digest, _ in runs.computed())
    assert len(begun) == sum(SHARDS.values())
    assert not before.intersection((stage, digest) for stage, digest, _ in runs.computed()[already:])
    # Two workers end where one is killed, and two with their run.
    assert sum(begun.values()) <= sum(SHARDS.values()) + 4


def test_shares_of_images_make_the_run(drawings, tmp_path, monkeypatch):
    # Set again to what they were when the test ends.
    survivor.cut(monkeypatch.setattr)
    said = []
    for i in (1, 0) * 9:
        pipeline = survivor.images_of(tmp_path)
        said.append(shards.compute_pipeline(pipeline, ["paradox_judgement_outcomes"], (i, 2)))
        if not said[-1]:
            break
    left = {text for one in said for text in one}
    for stage, half, whole in (("generated", 4, 8), ("faces", 2, 4)):
        assert f"{stage}: this shard is done; {half} of {whole} pieces remain for the others." in left
    # Each share is called for each stage, at most.
    assert len(said) <= 10
    monkeypatch.setattr("biaslab.cache.result_cache._write", lambda *_: pytest.fail("computed again"))
    same((survivor.images_of(tmp_path).judgements("generated"),), drawings[:1])
