"""Kernels execute many notebooks, each as if it were the first, and end with the process that started them."""

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
def one():
    """One kernel for the tests of this file, which is started again where a test ends it."""
    with kernels.Kernels(1, {"BIASLAB_TRIED": "1"}) as made:
        yield made


@posix
def test_a_function_is_called_in_a_kernel(one, tmp_path):
    log = tmp_path / "logs/1"
    assert one.call(log, exec, "import sys; sys.stderr.write('said')") is None
    assert log.read_text() == "said"
    seen = "(__import__('os').environ['BIASLAB_TRIED'], __import__('os').getpid())"
    found, process = one.call(log, eval, seen)
    assert found == "1" and process != os.getpid()
    with pytest.raises(ZeroDivisionError):
        one.call(log, operator.truediv, 1, 0)
    with pytest.raises(EOFError):
        one.call(log, eval, f"__import__('os').kill(__import__('os').getpid(), {signal.SIGKILL})")
    # The kernel is started again.
    assert one.call(log, operator.add, 1, 1) == 2


@posix
def test_kernels_end_with_the_process_that_started_them(tmp_path):
    code = "from biaslab.execution import kernels; import os, pathlib, signal\n"
    code += "k = kernels.Kernels(1, {}); print(k.call(pathlib.Path('log'), os.getpid), flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as parent:
        kernel = int(parent.stdout.readline())
        os.kill(kernel, 0)
        parent.kill()
    while Path(f"/proc/{kernel}/stat").exists() and Path(f"/proc/{kernel}/stat").read_text().split()[2] != "Z":
        time.sleep(0.1)


def told(folder, write_notebook, *cells):
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


# What a notebook can find out about its process.
LOOKS = """
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
# And what a notebook may leave behind.
LEAVES = """
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
def test_a_notebook_finds_nothing_of_another(tmp_path, write_notebook):
    helper = "assert 'helper' not in sys.modules\n"
    cells = LOOKS + LEAVES, LOOKS + LEAVES, LOOKS + helper
    (first, n), *others = told(tmp_path, write_notebook, *cells)
    first = json.loads(first)
    digits = {tuple(first.pop("digits"))}
    for text, count in others:
        found = json.loads(text)
        digits.add(tuple(found.pop("digits")))
        assert count == n
        for what, value in first.items():
            assert found[what] == value, what
    assert len(digits) == 3


@posix
def test_a_kernel_that_failed_or_holds_much_memory_is_started_again(tmp_path, write_notebook, monkeypatch):
    process = "import os; print(os.getpid())"
    (first, _), (second, _) = told(tmp_path, write_notebook, process, process)
    assert first == second
    monkeypatch.setattr(kernels, "_MAX_MEMORY", 1)
    (first, _), (second, _) = told(tmp_path, write_notebook, process, process)
    assert first != second
    with kernels.Kernels(1, {}) as one:
        with pytest.raises(KeyError), one.acquire(tmp_path, tmp_path / "log") as manager:
            before = manager.provisioner.pid
            raise KeyError
        with one.acquire(tmp_path, tmp_path / "log") as manager:
            assert manager.provisioner.pid != before


ADDRESS = """\
from ipykernel.connect import get_connection_info

said = get_connection_info(unpack=True)
print(said["transport"], said["ip"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="names of no file are Linux's own; elsewhere kernels have ports")
def test_kernels_have_no_port_that_another_could_take(tmp_path, write_notebook):
    ((said, _),) = told(tmp_path, write_notebook, ADDRESS)
    transport, name = said.split()
    assert transport == "ipc" and name[0] == "@"
