"""Shared pieces of the tests of both packages."""

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).parent
# What runs share, the endpoint that tells tests what it was asked, images in memory, GCC's captions, tiny pipelines,
# a hub.
FOLDERS = ("", "endpoints", "golden", "judges", "captions", "generation", "hub")
sys.path += [str(ROOT / "tests" / folder) for folder in FOLDERS]

# Trying every model before each run of a test takes longer than the run; what does so is tried where it is left away.
os.environ.setdefault("BIASLAB_PREFLIGHT_DONE", "1")
# jsonschema, which papermill needs, imports it where it is installed: seconds for a format that notebooks lack.
sys.modules.setdefault("rfc3987_syntax", None)
# The same examples each time, however busy the machine is, and nothing left in the folder.
hypothesis.settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("steady")
# A shell's background jobs begin with Ctrl-C ignored, and so would everything that the tests start and stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def one_thread():
    """Tiny models, which one thread of torch computes fastest, and alike wherever sums may be taken in parts."""
    torch = pytest.importorskip("torch", reason="models need the extra 'models'")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def plain_look():
    """Start from matplotlib's own look, whatever a test before it set, and leave no figure behind."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.use("Agg")
        yield
        plt.close("all")


@pytest.fixture
def notebook(root, tmp_path, monkeypatch):
    """Return a function that runs a notebook's cells with other parameters in this process and returns its records.

    Results are in the folder of the notebook's name in ``tmp_path``; figures are drawn and not written: what is written
    is tested with the study.
    """
    import matplotlib.pyplot as plt

    monkeypatch.setattr("biaslab.study.study._save_png", lambda *given: None)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *given, **options: None)

    # Of tests that ran before in this process.
    plt.close("all")

    def run(name, **parameters):
        out, names = tmp_path / name, {"display": print}
        for cell in json.loads((root / f"notebooks/{name}.ipynb").read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
                if "parameters" in cell["metadata"].get("tags", ()):
                    assert names.get("settings", {}) == {}
                    names |= {"output_dir": str(out), "bootstrap_replicates": 100, **parameters}
        assert not plt.get_fignums()
        records = out / "records.json"
        return json.loads(records.read_text(encoding="utf-8")) if records.exists() else {}

    return run


@pytest.fixture
def cpuinfo(monkeypatch, tmp_path):
    """Return what makes Linux say that the processor is a vendor's and has some flags."""

    def made(flags, vendor="GenuineIntel"):
        monkeypatch.setattr("platform.system", lambda: "Linux")
        file = tmp_path / "cpuinfo"
        core = f"vendor_id\t: {vendor}\nmodel name\t: amx_bf16 AuthenticAMD\nflags\t\t: {flags}\nbugs\t: none\n\n"
        file.write_text("".join(f"processor\t: {i}\n{core}" for i in range(2)))
        monkeypatch.setattr("biaslab.execution.processor._CPUINFO", file)

    return made


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, one for all files: two of Playwright's loops cannot run side by side; skipped without it."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not path:
        pytest.skip("No Chromium: install Debian's chromium or set CHROMIUM to its path.")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Return the folder of a tiny pipeline by its family's name; each is built when first asked for."""
    import tiny_pipelines

    root, built = tmp_path_factory.mktemp("pipelines"), {}

    def folder(name: str) -> str:
        if name not in built:
            built[name] = tiny_pipelines.save(name, root / name)
        return str(built[name])

    return folder


@pytest.fixture
def server(monkeypatch):
    """Return an endpoint that tells tests what it was asked."""
    from fake_endpoint import KEY, FakeEndpoint

    monkeypatch.setenv("FAKE_KEY", KEY)
    # A proxy of the environment is not to stand between the test and its own machine.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with FakeEndpoint().running() as running:
        yield running


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def report(root, tmp_path_factory):
    """Return a function of a name: parameters and record of that run of `make report`, made where it is not there yet.

    One process of the tests makes it, or sees that nothing of it has changed, while the others wait.
    """
    from filelock import FileLock

    from biaslab.runs import params, runner

    # What the processes of one session have in common.
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent

    def made(name: str) -> tuple:
        (file,) = (*root.glob(f"params/{name}.yaml"), *root.glob(f"world/params/{name}.yaml"))
        loaded = params.load(file)
        record = shared / f"{name}.json"
        with FileLock(shared / f"{name}.lock"), contextlib.chdir(root):
            if not record.exists():
                found = runner.run(loaded, outputs=root / "outputs", overwrite=True, progress=False)
                record.write_text(json.dumps(found), encoding="utf-8")
        return loaded, json.loads(record.read_text(encoding="utf-8"))

    return made


@pytest.fixture(scope="session")
def estimates_lie_in_intervals():
    """Return a function of a run's folder and record that checks each table, and returns how many intervals it has."""
    from biaslab.schema import tables

    def checked(folder: Path, record: dict) -> int:
        n = 0
        for entry in record["tables"]:
            frame = tables.read(folder / entry["file"], entry["name"])
            for estimate, low, high in tables.schema(entry["name"]).intervals:
                if {low, high} <= set(frame.columns) and len(known := frame.dropna(subset=[low, high])):
                    inside = (known[low] <= known[estimate] + 1e-9) & (known[estimate] <= known[high] + 1e-9)
                    assert inside.all(), (entry["name"], estimate, known[~inside].to_dict("records")[:3])
                    n += 1
        return n

    return checked


@pytest.fixture
def any_text(monkeypatch):
    """Let figures of any name have a title and a caption, as if a paper's ``texts.yaml`` had them."""
    monkeypatch.setattr("biaslab.plots.texts.of_figure", lambda name, facts: ("Title", "Caption."))


@pytest.fixture(scope="session")
def kernels_of_all():
    """Return what stands in the place of a run's own kernels, and imports libraries once."""
    from shared_kernels import Warm

    warm = Warm()
    yield warm
    warm.close()


@pytest.fixture
def warm(kernels_of_all, monkeypatch):
    """Let runs share kernels."""
    from biaslab.execution import kernels

    monkeypatch.setattr(kernels, "Kernels", kernels_of_all)


@pytest.fixture
def inline(monkeypatch):
    """Let runs take no process but this one: notebooks are its code, one by one, and leave results but no page."""
    import inline_kernels

    from biaslab.execution import kernels

    monkeypatch.setattr(kernels, "Kernels", inline_kernels.Kernels)
    monkeypatch.setattr("biaslab.runs.execute._papermill", inline_kernels.executed)


@pytest.fixture(scope="session")
def sites():
    """The folders that packages of tests are installed into, by package."""
    return {}


@pytest.fixture
def use(sites, tmp_path_factory, monkeypatch):
    """Return a function that installs a package's folder as a user would, and lets it be imported in this test."""
    used = []

    def installed(package: Path) -> Path:
        if package not in sites:
            folder = sites[package] = tmp_path_factory.mktemp("site")
            quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation"]
            words = [sys.executable, "-m", "pip", "install", *quiet, "--target", folder, package]
            subprocess.run(words, check=True)
        monkeypatch.syspath_prepend(sites[package])
        importlib.invalidate_caches()
        used.append(package.name)
        return sites[package]

    yield installed
    for name in used:
        sys.modules.pop(name, None)


@pytest.fixture(scope="session")
def write_notebook():
    """Return a function that writes a notebook with a title, a cell of parameters and code cells."""

    def write(path: Path, parameters: str, *code: str, title: str = "A notebook") -> Path:
        cells = [
            {"cell_type": "markdown", "id": "title", "metadata": {}, "source": f"# {title}\n"},
            _code("parameters", parameters, ["parameters"]),
            *(_code(f"cell{i}", source, []) for i, source in enumerate(code)),
        ]
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        notebook = {
            "cells": cells,
            "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notebook), encoding="utf-8")
        return path

    return write


def _code(cell_id: str, source: str, tags: list[str]) -> dict:
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {"tags": tags},
        "execution_count": None,
        "outputs": [],
        "source": source,
    }
