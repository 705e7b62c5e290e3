"""Kernels execute many notebooks in isolation, and end with the process that started them."""

import json
import operator
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from biaslab.execution import kernels
from biaslab.runs import params, runner

pytestmark = pytest.mark.long

posix = pytest.mark.skipif(os.name != "posix", reason="processes are killed on POSIX only")


@pytest.fixture(scope="module")
def kernel_pool():
    """One kernel for the tests of this file, which is started again where a test ends it."""
    with kernels.Kernels(1, {"BIASLAB_TRIED": "1"}) as made:
        yield made


@posix
def test_call_runs_function_in_kernel(kernel_pool, tmp_path):
    log = tmp_path / "logs/1"
    assert kernel_pool.call(log, exec, "import sys; sys.stderr.write('said')") is None
    assert log.read_text() == "said"
    seen = "(__import__('os').environ['BIASLAB_TRIED'], __import__('os').getpid())"
    result, process = kernel_pool.call(log, eval, seen)
    assert result == "1" and process != os.getpid()
    with pytest.raises(ZeroDivisionError):
        kernel_pool.call(log, operator.truediv, 1, 0)
    with pytest.raises(EOFError):
        kernel_pool.call(log, eval, f"__import__('os').kill(__import__('os').getpid(), {signal.SIGKILL})")
    # The kernel is started again.
    assert kernel_pool.call(log, operator.add, 1, 1) == 2


@posix
def test_kernels_end_with_parent_process(tmp_path):
    code = "from biaslab.execution import kernels; import os, pathlib, signal\n"
    code += "k = kernels.Kernels(1, {}); print(k.call(pathlib.Path('log'), os.getpid), flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as parent:
        kernel = int(parent.stdout.readline())
        os.kill(kernel, 0)
        parent.kill()
    while Path(f"/proc/{kernel}/stat").exists() and Path(f"/proc/{kernel}/stat").read_text().split()[2] != "Z":
        time.sleep(0.1)


def run_cells(folder, write_notebook, *cells):
    """Run a notebook per cell, one after the other in one kernel, and return what each prints."""
    files = [folder / f"notebooks/paradox/{name}.ipynb" for name in "abcd"[: len(cells)]]
    for file, cell in zip(files, cells, strict=True):
        write_notebook(file, 'source = "published"\n', cell)
    (folder / "mine.yaml").write_text("run: mine\njobs: 1\n")
    loaded = params.load(folder / "mine.yaml", notebooks_dir=folder / "notebooks")
    record = runner.run(loaded, outputs=folder / "outputs", force=True, progress=False)
    assert [(n["status"], n["reason"]) for n in record["notebooks"]] == [("ok", "")] * len(cells)
    printed = []
    for file in files:
        executed = json.loads((folder / f"outputs/mine/notebooks/paradox/{file.name}").read_text())["cells"]
        (cell,) = (c for c in executed if c["id"] == "cell0")
        printed.append(("".join(cell["outputs"][0]["text"]), cell["execution_count"]))
    return printed


# The state of its process that a notebook can inspect.
INSPECT = """
import json, os, random, sys, warnings
import matplotlib.pyplot as plt, numpy as np, pandas as pd
found = {
    "process": os.getpid(),
    "names": sorted(name for name in globals() if not name.startswith("_")),
    "environment": dict(sorted(os.environ.items())),
    "folder": os.getcwd(),
    "path": sys.path,
    "figures": plt.get_fignums(),
    "look": {k: str(v) for k, v in plt.rcParams.items()},
    "frame": repr(pd.DataFrame(np.zeros((2, 40)))),
    "errors": np.geterr(),
    "filters": [str(f) for f in warnings.filters],
    "digits": [random.random(), np.random.random()],
}
registry = vars(np).setdefault("__warningregistry__", {})
with warnings.catch_warnings(record=True) as shown:
    warnings.warn_explicit("once", UserWarning, "a", 1, registry=registry)
found["shown"] = len(shown)
print(json.dumps(found))
"""
# Changes of state that a notebook may leave behind.
POLLUTE = """
left = 1
del os.environ["HOME"]
os.environ["LEFT"] = "1"
open("helper.py", "w").write("left = 1"); import helper
os.chdir("/")
sys.path.insert(0, "/nowhere")
plt.figure(); plt.rcParams["figure.dpi"] = 33
pd.set_option("display.max_columns", 3); np.seterr(all="raise"); warnings.simplefilter("ignore")
random.seed(1); np.random.seed(1)
"""


@posix
def test_notebooks_in_one_kernel_are_isolated(tmp_path, write_notebook):
    helper = "assert 'helper' not in sys.modules\n"
    cells = INSPECT + POLLUTE, INSPECT + POLLUTE, INSPECT + helper
    (first, n), *other_outputs = run_cells(tmp_path, write_notebook, *cells)
    first = json.loads(first)
    digits = {tuple(first.pop("digits"))}
    for text, count in other_outputs:
        result = json.loads(text)
        digits.add(tuple(result.pop("digits")))
        assert count == n
        for fact, value in first.items():
            assert result[fact] == value, fact
    assert len(digits) == 3


@posix
def test_kernel_restarts_after_failure_or_memory_limit(tmp_path, write_notebook, monkeypatch):
    process = "import os; print(os.getpid())"
    (first, _), (second, _) = run_cells(tmp_path, write_notebook, process, process)
    assert first == second
    monkeypatch.setattr(kernels, "_MAX_MEMORY", 1)
    (first, _), (second, _) = run_cells(tmp_path, write_notebook, process, process)
    assert first != second
    with kernels.Kernels(1, {}) as kernel_pool:
        with pytest.raises(KeyError), kernel_pool.acquire(tmp_path, tmp_path / "log") as manager:
            pid_before = manager.provisioner.pid
            raise KeyError
        with kernel_pool.acquire(tmp_path, tmp_path / "log") as manager:
            assert manager.provisioner.pid != pid_before


ADDRESS = """\
from ipykernel.connect import get_connection_info

said = get_connection_info(unpack=True)
print(said["transport"], said["ip"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="names of no file are Linux's own; elsewhere kernels have ports")
def test_kernels_use_no_network_port(tmp_path, write_notebook):
    ((output, _),) = run_cells(tmp_path, write_notebook, ADDRESS)
    transport, name = output.split()
    assert transport == "ipc" and name[0] == "@"
