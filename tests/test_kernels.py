"""Calls have processes of their own, and a forked kernel is like any other."""

import importlib
import json
import operator
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from biaslab.keep import code_digest, kernels
from biaslab.keep.workers import THREADS
from biaslab.runs import execute, params, runner

pytestmark = pytest.mark.long

posix = pytest.mark.skipif(os.name != "posix", reason="processes are killed on POSIX only")


@pytest.fixture(params=[True, False], ids=["forked", "started anew"])
def processes(request, monkeypatch):
    if request.param and not kernels.FORKS:
        pytest.skip("Processes are not forked here.")
    monkeypatch.setattr(kernels, "FORKS", request.param)
    with kernels.Processes({"BIASLAB_TRIED": "1"}, importlib.import_module, "colorsys") as made:
        yield made


@posix
def test_calls_are_made_in_processes_of_their_own(processes, tmp_path):
    log = tmp_path / "logs/1"
    leaks = "import os, string; os.environ['BIASLAB_TRIED'] = '2'; string.digits = ''; os.write(2, b'said')"
    assert processes.call(log, exec, leaks) is None
    assert log.read_text() == "said"
    seen = "(__import__('os').environ['BIASLAB_TRIED'], __import__('string').digits, __import__('os').getpid())"
    first, second = (processes.call(log, eval, seen) for _ in range(2))
    assert first[:2] == second[:2] == ("1", "0123456789")
    assert len({first[2], second[2], os.getpid()}) == 3
    with pytest.raises(ZeroDivisionError):
        processes.call(log, operator.truediv, 1, 0)
    # What is killed takes nothing along.
    with pytest.raises(EOFError):
        processes.call(log, eval, f"__import__('os').kill(__import__('os').getpid(), {signal.SIGKILL})")
    assert processes.call(log, operator.add, 1, 1) == 2


@pytest.mark.skipif(not kernels.FORKS, reason="forks")
def test_what_never_hears_what_to_read_ends_without_a_word():
    code = "from biaslab.keep import kernels; kernels.Processes({}, lambda: None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    # Its own error alone: both processes have ended when nobody holds their standard error any more.
    assert done.stderr.count("Traceback") == 1 and "pickle" in done.stderr


@pytest.mark.skipif(not kernels.FORKS, reason="forks")
def test_what_is_forked_has_started_no_thread(tmp_path, root):
    """Nor read torch, whatever this project's notebooks import, unless libraries of models are asked for."""
    models = kernels.MODEL_MODULES if find_spec("torch") else ()
    cells = [cell for notebook in params.find_notebooks(root / "notebooks") for cell in notebook.cells]
    used = sorted(code_digest.imported(cells))
    assert any(name.startswith("biaslab.") for name in used)
    # Read between the two.
    (tmp_path / "looked.py").write_text("import sys\nseen = [name in sys.modules for name in ('seaborn', 'torch')]\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    # BLAS starts as many threads as it may use, and ends them before a fork.
    one = dict.fromkeys(THREADS, "1") | {"PYTHONPATH": path}
    with kernels.Processes(one, execute.read_libraries, [*used, "looked", *models]) as made:
        code = "import os, sys, looked; threads = len(os.listdir(f'/proc/{os.getppid()}/task'))"
        code += "; found = threads, looked.seen, [name for name in names if name not in sys.modules]"
        # What exec finds is not handed back: an assertion is.
        code += "; assert found == (1, [True, False], []), found"
        code += "; torch = sys.modules.get('torch'); assert not (torch and torch.cuda.is_initialized())"
        made.call(tmp_path / "log", exec, code, {"names": models})


def told(folder, write_notebook, cell):
    """Run two notebooks of one cell, and return what each prints."""
    files = [folder / f"notebooks/paradox/{name}.ipynb" for name in "ab"]
    for file in files:
        write_notebook(file, 'source = "published"\n', cell)
    loaded = params.load(folder / "mine.yaml", notebooks_dir=folder / "notebooks")
    record = runner.run(loaded, outputs=folder / "outputs", again=True, progress=False)
    assert [(n["status"], n["reason"]) for n in record["notebooks"]] == [("ok", "")] * 2
    cells = [
        json.loads((folder / f"outputs/mine/notebooks/paradox/{file.name}").read_text())["cells"] for file in files
    ]
    return ["".join(c["outputs"][0]["text"]) for executed in cells for c in executed if c["id"] == "cell0"]


# What a notebook can find out about its process.
LOOKS = """
import json, logging, multiprocessing, os, random, signal, sys, threading, warnings
import matplotlib.pyplot as plt, numpy as np, pandas as pd, tqdm.auto
# pytest reads readline, which sets the last two for processes that are given no variables.
own = ("JPY_PARENT_PID", "BIASLAB_ATTEMPT", "COLUMNS", "LINES")
found = {
    "environment": {k: v for k, v in sorted(os.environ.items()) if k not in own},
    "parent": os.environ["JPY_PARENT_PID"] == str(os.getppid()),
    "leads": os.getsid(0) == os.getpid(),
    "folder": os.getcwd(),
    "path": sys.path,
    "argv": [sys.argv[0], sys.argv[1], *sys.argv[4:]],
    "flags": str(sys.flags),
    "module": sys.modules["__main__"].__name__,
    "process": [multiprocessing.current_process().name, multiprocessing.parent_process(),
                multiprocessing.get_start_method(allow_none=True), multiprocessing.active_children()],
    "signals": [str(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
    "blocked": [str(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "threads": sorted(t.name for t in threading.enumerate() if "Thread-" not in t.name),
    "logging": [str(h) for h in logging.getLogger().handlers],
    "backend": plt.get_backend(),
    "look": {k: str(v) for k, v in plt.rcParams.items()},
    "bar": tqdm.auto.tqdm.__module__,
    "needless": "rfc3987_syntax" in sys.modules and sys.modules["rfc3987_syntax"] is None,
    "product": float((np.ones((700, 700)) @ np.ones((700, 700))).sum()),
    "frame": repr(pd.DataFrame(np.zeros((2, 40)))),
    "options": [pd.describe_option(name, _print_desc=False) for name in ("max_columns", "display.width")],
}
print(json.dumps(found))
print(random.random(), np.random.random())
"""


@pytest.mark.skipif(not kernels.FORKS, reason="forks")
def test_a_forked_kernel_is_like_any_other(tmp_path, write_notebook, monkeypatch):
    # BLAS has threads where notebooks do not run side by side.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    (tmp_path / "mine.yaml").write_text("run: mine\njobs: 2\n")
    # Settings of the folder where a run is started are not those of its notebooks.
    (tmp_path / "matplotlibrc").write_text("figure.dpi: 33\n")
    monkeypatch.chdir(tmp_path)
    found, draws = {}, []
    for forks in (True, False):
        monkeypatch.setattr(kernels, "FORKS", forks)
        for name, text in zip("ab", told(tmp_path, write_notebook, LOOKS), strict=True):
            said, drawn = text.splitlines()
            found[forks, name] = json.loads(said)
            draws += drawn.split()
    for name in "ab":
        for what, value in found[True, name].items():
            assert value == found[False, name][what], what
    # Nobody draws alike.
    assert len(set(draws)) == 8


ADDRESS = """\
from ipykernel.connect import get_connection_info

said = get_connection_info(unpack=True)
print(said["transport"], said["ip"])
"""


@pytest.mark.skipif(not kernels.FORKS, reason="names of no file are Linux's own; elsewhere kernels have ports")
def test_kernels_have_no_port_that_another_could_take(tmp_path, write_notebook):
    (tmp_path / "mine.yaml").write_text("run: mine\n")
    (one, first), (other, second) = (said.split() for said in told(tmp_path, write_notebook, ADDRESS))
    assert one == other == "ipc"
    assert first != second
    assert first[0] == second[0] == "@"
