"""An audit that is killed again and again ends with the tables of one that was left alone."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from biaslab import cli

pytest.importorskip("torch", reason="models need the extra 'models'")

FEW = ("people.occupations=1", "people.power_runs=1", "people.single_images=1", "dalleval.scenes=2")
FEW += ("notebooks=[paired/4_6_*, dalleval/5_2_*]", "bootstrap_replicates=200", "jobs=2")


def tables(folder):
    """Return the tables of a finished audit."""
    assert json.loads((folder / "outputs/a/run.json").read_text())["status"] == "ok"
    return {path.name: path.read_bytes() for path in folder.glob("outputs/a/tables/*.csv")}


def left(folder):
    """Return how many files the audit has left: shards, and what notebooks write."""
    # Folders may go while they are looked at.
    return sum(len(files) for of in ("store", "outputs/a") for _, _, files in os.walk(folder / of))


@pytest.mark.slow
def test_an_audit_killed_at_three_random_moments_ends_with_the_same_tables(
    root, tmp_path, one_thread, inline, monkeypatch
):
    # As in this process, so in others: sums are taken alike.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def words(folder):
        sets = [word for one in (*FEW, f"compute.store={folder / 'store'}") for word in ("--set", one)]
        given = ["audit", "world", "--size", "quick", "--name", "a", "--outputs", str(folder / "outputs")]
        return [*given, "--notebooks-dir", str(root / "notebooks"), *sets, "--no-progress"]

    def start(folder):
        code = f"import sys; from biaslab.cli import main; sys.exit(main({words(folder)!r}))"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen([sys.executable, "-c", code], **pipes)

    calm, killed, rng = tmp_path / "calm", tmp_path / "killed", random.Random(20231)
    assert cli.main(words(calm)) == 0
    assert {"paired_score_change.csv", "dalleval_skill_accuracy.csv"} <= set(tables(calm))
    # Moments in files, not in seconds, which depend on what else the machine does. Results come at the end, where a run
    # that is killed is not done yet.
    for moment in sorted(rng.uniform(0, 0.6) for _ in range(3)):
        process = start(killed)
        while left(killed) < moment * left(calm):
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (killed / "outputs/a/index.html").exists()
    process = start(killed)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert tables(killed) == tables(calm)
