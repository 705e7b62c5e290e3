"""An audit that is killed several times ends with the tables of an uninterrupted one."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from biaslab import cli

pytestmark = pytest.mark.long

pytest.importorskip("torch", reason="models need the extra 'models'")

NOTEBOOKS = ("paired/4_6_*", "dalleval/5_2_*")
FEW = ("paired.n_occupations=1", "paired.power_samples=1", "paired.single_images=1", "dalleval.n_scenes=2")


class Audit:
    """One audit of few images, started several times, each time in its own process."""

    def __init__(self, root, folder):
        overrides = [*FEW, f"notebooks=[{', '.join(NOTEBOOKS)}]", "bootstrap_replicates=200", "jobs=2"]
        overrides += [f"compute.cache={folder / 'store'}"]
        words = ["audit", "world", "--preset", "quick", "--name", "a", "--outputs", str(folder / "outputs")]
        words += [
            "--notebooks-dir",
            str(root / "notebooks"),
            *(w for override in overrides for w in ("--set", override)),
        ]
        self.words = [*words, "--no-progress"]
        self.code = f"import sys; from biaslab.cli import main; sys.exit(main({self.words!r}))"
        self.folder, self.store = folder / "outputs/a", folder / "store"

    def start(self):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen([sys.executable, "-c", self.code], text=True, **pipes)

    def finish(self):
        process = self.start()
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 0, output
        return self.tables()

    def tables(self):
        assert json.loads((self.folder / "run.json").read_text())["status"] == "ok"
        return {path.name: path.read_bytes() for path in self.folder.glob("tables/*.csv")}

    def left(self):
        """Return how many files the audit has left: shards, and what notebooks write."""
        # Folders may be deleted while they are listed.
        return sum(len(files) for parent in (self.store, self.folder) for _, _, files in os.walk(parent))


def test_audit_killed_three_times_gives_same_tables(root, tmp_path, one_thread, inline, monkeypatch):
    # As in this process, so in others: sums are taken alike.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    calm = Audit(root, tmp_path / "calm")
    assert cli.main(calm.words) == 0
    undisturbed, whole = calm.tables(), calm.left()
    assert {"paired_score_change.csv", "dalleval_skill_accuracy.csv"} <= set(undisturbed)
    audited, rng = Audit(root, tmp_path / "killed"), random.Random(20231)
    # Moments in files, not in seconds, which depend on what else the machine does. Results come at the end, where a run
    # that is killed is not done yet.
    for moment in sorted(rng.uniform(0, 0.6) for _ in range(3)):
        process = audited.start()
        while audited.left() < moment * whole:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (audited.folder / "index.html").exists()
    assert audited.finish() == undisturbed
