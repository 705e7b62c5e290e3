"""Other systems: no module imports what only POSIX has.

No such system is here: what they lack is taken away.
"""

import subprocess
import sys

import pytest

from biaslab.runs import params

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
from biaslab.execution import workers
assert workers._own_threads() >= 1
sys.exit(cli.main(["reference", "paradox_table_6"]))
"""


def test_every_module_is_imported_without_what_only_posix_has():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("occupation,")


def test_texts_with_ends_of_lines_of_windows_are_read_alike(tmp_path):
    text = "run: mine\nsource: published\nseed: 7\n"
    loaded = []
    for ends in ("\n", "\r\n"):
        path = tmp_path / f"{len(ends)}.yaml"
        path.write_bytes(text.replace("\n", ends).encode())
        loaded.append(params.read_yaml(path))
    assert loaded[0] == loaded[1] == {"run": "mine", "source": "published", "seed": 7}
