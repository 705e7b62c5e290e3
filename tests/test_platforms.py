"""What other systems lack: nothing imports what only POSIX has, and what is forked on Linux is started anew elsewhere.

No such system is here: what they lack is taken away.
"""

import subprocess
import sys

import pytest

from biaslab.ground import lifeline
from biaslab.keep import kernels
from biaslab.runs import params, runner

pytestmark = pytest.mark.long

# Modules that Windows has not, and names of modules that it has.
WITHOUT = """
import importlib, os, pkgutil, signal, sys
import numpy, pandas, scipy.stats, matplotlib, seaborn, statsmodels.api, pyarrow.parquet, psutil, filelock, httpx
import multiprocessing.connection, multiprocessing.resource_tracker, asyncio, jupyter_client, papermill, nbconvert
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog"):
    sys.modules[name] = None
for name in ("fork", "setsid", "killpg", "getuid", "geteuid", "sched_getaffinity", "getpgid", "statvfs", "mkfifo"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "pthread_sigmask", "SIG_BLOCK", "alarm"):
    delattr(signal, name)
import biaslab
for module in pkgutil.walk_packages(biaslab.__path__, "biaslab."):
    importlib.import_module(module.name)
from biaslab import cli
from biaslab.keep import workers
assert workers._processors() >= 1
sys.exit(cli.main(["published", "paradox_table_6"]))
"""

ANALYSIS = """
from biaslab.papers import paradox
from biaslab.study import Study
study = Study(output_dir, source=source, replicates=100)
shares = study.load(paradox.percent_female)
study.save("paradox_amplification", study.cached(paradox.amplification, shares))
"""


def test_every_module_is_imported_without_what_only_posix_has():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("occupation,")


def test_nothing_is_sheltered_where_signals_cannot_be_held(monkeypatch):
    monkeypatch.setattr(lifeline.os, "name", "nt")
    monkeypatch.delattr(lifeline.signal, "pthread_sigmask")
    with lifeline.sheltered():
        pass


def test_a_run_without_forks_is_the_same(tmp_path, monkeypatch, write_notebook):
    # As on macOS and Windows, where libraries of the system do not survive a fork.
    write_notebook(tmp_path / "notebooks/paradox/a.ipynb", 'output_dir = ""\nsource = "published"\n', ANALYSIS)
    tables = []
    for forks in {kernels.FORKS, False}:
        monkeypatch.setattr(kernels, "FORKS", forks)
        asked = params.load("mine.yaml", given={"run": "mine"}, notebooks_dir=tmp_path / "notebooks")
        record = runner.run(asked, outputs=tmp_path / str(forks), progress=False)
        assert record["status"] == "ok", record["notebooks"]
        tables.append((tmp_path / str(forks) / "mine/tables/paradox_amplification.csv").read_bytes())
    assert len(set(tables)) == 1


def test_texts_with_ends_of_lines_of_windows_are_read_alike(tmp_path):
    text = "run: mine\nsource: published\nseed: 7\n"
    loaded = []
    for ends in ("\n", "\r\n"):
        path = tmp_path / f"{len(ends)}.yaml"
        path.write_bytes(text.replace("\n", ends).encode())
        loaded.append(params.read_yaml(path))
    assert loaded[0] == loaded[1] == {"run": "mine", "source": "published", "seed": 7}
