"""Other systems: no module imports POSIX-only features.

Other systems are simulated: missing features are removed.
"""

import subprocess
import sys

import pytest

from biaslab.runs import params

pytestmark = pytest.mark.long

# Modules and names that are missing on Windows.
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


def test_modules_import_without_posix_features():
    process = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("occupation,")


def test_read_yaml_accepts_windows_line_endings(tmp_path):
    text = "run: mine\nsource: published\nseed: 7\n"
    loaded = []
    for ends in ("\n", "\r\n"):
        path = tmp_path / f"{len(ends)}.yaml"
        path.write_bytes(text.replace("\n", ends).encode())
        loaded.append(params.read_yaml(path))
    assert loaded[0] == loaded[1] == {"run": "mine", "source": "published", "seed": 7}
