"""Runs execute notebooks in parallel, continue after failures, and write the documented files."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from filelock import FileLock

from biaslab import cli, report
from biaslab.errors import BiaslabError, InputError, ParameterError, RunError
from biaslab.io import reading
from biaslab.papers import paradox
from biaslab.papers.findings import Finding
from biaslab.planning import validation
from biaslab.plots import texts
from biaslab.request import Request
from biaslab.runs import compare, execute, export, jobs, params, resume, runner
from biaslab.study import Study
from biaslab.study.study import ATTEMPT

CELL = 'output_dir = ""\nsource = "published"\nmodel = "all"\nseed = 0\nshare = 25.0\n'
# Writes a declared table, a figure and a finding, which all contain the parameters used.
CODE = """
import pandas as pd, matplotlib.pyplot as plt
from biaslab.plots import texts
from biaslab.papers.findings import Finding
from biaslab.study import Study
study = Study(output_dir, source=source, model=model, seed=seed)
rows = dict(model=model, approach="naive", occupation="OCC", source="generated", prompt="1",
            percent_female=[share + seed], n=[500])
study.save("paradox_percent_female", pd.DataFrame(rows))
fig, ax = plt.subplots(); ax.plot([0, 1])
texts.figures()["paradox_line"] = dict(title="A line", caption="From 0 to 1.")
study.show("paradox_line_OCC", fig, text="paradox_line", main=True)
study.report_findings(Finding("How many women?", f"OCC: {share + seed}%."), main=True)
"""


def run_project(folder, write_notebook, notebooks, text="run: mine\n", *, outputs="outputs", only=(), **more):
    """Run notebooks ``{id: code}`` with a parameters text, in a folder."""
    shutil.rmtree(folder / "notebooks", ignore_errors=True)
    for name, cell in notebooks.items():
        write_notebook(folder / "notebooks" / f"{name}.ipynb", CELL, cell, title=f"Title of {name}")
    (folder / "params").mkdir(exist_ok=True)
    (folder / "params" / "mine.yaml").write_text(text, encoding="utf-8")
    loaded = params.load(folder / "params" / "mine.yaml", notebooks=only)
    return runner.run(loaded, outputs=folder / outputs, progress=False, **more)


@pytest.fixture
def project(tmp_path, write_notebook, warm):
    """Return a function that runs notebooks ``{id: code}`` with a parameters text, in ``tmp_path``."""
    return partial(run_project, tmp_path, write_notebook)


@pytest.fixture
def inline_project(tmp_path, write_notebook, inline):
    """Return the same function, with notebooks in this process, for tests that do not depend on processes."""
    yield partial(run_project, tmp_path, write_notebook)
    # Notebooks add to this cache.
    texts._figures.cache_clear()


def read_record(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def code(occupation: str) -> str:
    return CODE.replace("OCC", occupation)


BOTH = {"paradox/a": code("ceo"), "paradox/b": code("nurse")}
SEED = "run: mine\nseed: 3\n"


@pytest.fixture(scope="module")
def shared_run(tmp_path_factory, write_notebook):
    """Run two notebooks once, in their own processes, for all tests that continue from them: folder and record."""
    folder = tmp_path_factory.mktemp("once")
    return folder, run_project(folder, write_notebook, BOTH, SEED)


@pytest.fixture
def finished_record(shared_run, tmp_path):
    """Return the record of a finished run of two notebooks, whose folder is copied to ``tmp_path``."""
    shutil.copytree(shared_run[0] / "outputs", tmp_path / "outputs")
    return shared_run[1]


def test_run_writes_tables_figures_pages_and_record(finished_record, tmp_path):
    record, folder = finished_record, tmp_path / "outputs" / "mine"
    assert record["status"] == "ok" and read_record(folder) == json.loads(json.dumps(record))
    # Rows of both notebooks, share 25 + seed 3.
    table = pd.read_csv(folder / "tables" / "paradox_percent_female.csv")
    assert table[["occupation", "percent_female"]].to_numpy().tolist() == [["ceo", 28], ["nurse", 28]]
    for figure, name in (("paradox_line_ceo", "a"), ("paradox_line_nurse", "b")):
        assert (folder / "figures" / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / "figures" / f"{figure}.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")
        notebook_json = json.loads((folder / "notebooks" / "paradox" / f"{name}.ipynb").read_text(encoding="utf-8"))
        assert any(c.get("outputs") for c in notebook_json["cells"])
        assert (folder / "notebooks" / "paradox" / f"{name}.html").stat().st_size > 1000
    assert "ceo: 28.0%." in (folder / "index.html").read_text(encoding="utf-8")
    assert [f["answer"] for f in record["findings"]] == ["ceo: 28.0%.", "nurse: 28.0%."]
    # Provenance.
    assert record["parameters"] == {"seed": 3} and record["seeds"] == {"seed": 3}
    assert record["packages"]["numpy"] and record["platform"]["cores"] >= 1
    assert record["started"].endswith("Z") and record["ended"] >= record["started"]
    assert all(n["status"] == "ok" and n["seconds"] > 0 for n in record["notebooks"])
    assert record["tables"][0]["columns"][5]["unit"] == "%"


@pytest.mark.long
def test_run_failed_notebook_is_saved_and_others_finish(project, tmp_path):
    record = project(
        {
            "paradox/good": code("ceo"),
            "paradox/raises": "from biaslab.errors import InputError\nraise InputError('x is 3; allowed is 4.')",
            "paradox/dies": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        }
    )
    by_id = {n["id"].removeprefix("paradox/"): n for n in record["notebooks"]}
    assert record["status"] == "failed"
    assert {name for name, n in by_id.items() if n["status"] == "failed"} == {"raises", "dies"}
    assert by_id["good"]["status"] == "ok"
    assert by_id["raises"]["reason"].startswith("InputError: x is 3; allowed is 4. (cell ")
    assert "DeadKernelError" in by_id["dies"]["reason"]
    saved_notebook = (tmp_path / "outputs/mine/notebooks/paradox/raises.ipynb").read_text(encoding="utf-8")
    assert "x is 3; allowed is 4." in saved_notebook
    index = (tmp_path / "outputs/mine/index.html").read_text(encoding="utf-8")
    assert "x is 3; allowed is 4." in index and "ceo: 25.0%." in index


@pytest.mark.long
def test_run_swept_values_share_one_table(inline_project, tmp_path):
    record = inline_project({"paradox/a": code("ceo")}, "run: mine\nmodel: [SD 1.4]\nseed: [1, 2]\n")
    table = pd.read_csv(tmp_path / "outputs/mine/tables/paradox_percent_female.csv")
    # A swept key that is no column of the table becomes one.
    rows = table[["model", "seed", "percent_female"]].to_numpy().tolist()
    assert rows == [["SD 1.4", 1, 26], ["SD 1.4", 2, 27]]
    assert [n["variant"] for n in record["notebooks"]] == ["model=SD 1.4, seed=1", "model=SD 1.4, seed=2"]
    names = sorted(p.name for p in (tmp_path / "outputs/mine/figures").glob("*.svg"))
    assert names[0] == "paradox_line_ceo--model-sd-1.4-seed-1.svg" and len(names) == 2


@pytest.mark.long
def test_run_conflicting_table_rows_are_a_problem(inline_project, tmp_path):
    record = inline_project({"paradox/a": code("ceo"), "paradox/b": code("ceo").replace("share + seed", "share + 1")})
    assert record["status"] == "failed" and record["tables"] == []
    assert record["problems"][0].startswith("Table paradox_percent_female: notebooks differ in their values for ")
    assert "'occupation': 'ceo'" in record["problems"][0]


@pytest.mark.long
def test_rerun_reuses_unchanged_notebooks(finished_record, inline_project, tmp_path):
    run = partial(inline_project, text=SEED)
    run_folder = tmp_path / "outputs/mine"
    files = {p: p.stat().st_mtime_ns for p in run_folder.rglob("*") if p.is_file()}
    # Nothing has changed: nothing is executed or written, also with overwrite.
    rerun_result = run(BOTH, overwrite=True)
    assert rerun_result.pop("up_to_date") and rerun_result == json.loads(json.dumps(finished_record))
    assert {p: p.stat().st_mtime_ns for p in files} == files
    # One notebook has changed: it can be selected alone, the other keeps its results and their time.
    changed = {**BOTH, "paradox/b": code("pilot")}
    record = run(changed, only=["paradox/b"])
    assert [n["id"] for n in record["notebooks"]] == ["paradox/a", "paradox/b"]
    assert {f["name"] for f in record["figures"]} == {"paradox_line_ceo", "paradox_line_pilot"}
    record = run(changed)
    a, b = record["notebooks"]
    assert (a["kept"], b["kept"]) == (True, True) and a["ended"] == finished_record["notebooks"][0]["ended"]
    assert (
        files[run_folder / "notebooks/paradox/a.ipynb"] == (run_folder / "notebooks/paradox/a.ipynb").stat().st_mtime_ns
    )
    table = pd.read_csv(run_folder / "tables/paradox_percent_female.csv")
    assert table["occupation"].tolist() == ["ceo", "pilot"]
    page = (run_folder / "index.html").read_text(encoding="utf-8")
    assert page.count("reused, because its inputs have not changed") == 2
    # A missing output file is rebuilt from the parts; a missing part is executed again.
    (run_folder / "tables/paradox_percent_female.csv").unlink()
    assert [n["kept"] for n in run(changed)["notebooks"]] == [True, True]
    assert (run_folder / "tables/paradox_percent_female.csv").exists()
    shutil.rmtree(run_folder / ".parts/paradox/a")
    assert [n["kept"] for n in run(changed)["notebooks"]] == [False, True]
    # With force, it is executed again.
    assert [n["kept"] for n in run(changed, only=["paradox/a"], force=True)["notebooks"]] == [False, True]


def test_select_jobs_outdated_table_omits_notebook(tmp_path):
    slugs = {"paradox/gone": "paradox_outdated", "paradox/own": "my_table", "paradox/kept": "paradox_amplification"}
    for slug, name in slugs.items():
        (part := tmp_path / ".parts" / slug).mkdir(parents=True)
        (part / "records.json").write_text(json.dumps({"tables": [{"name": name}]}))
    earlier = [{"id": slug, "slug": slug} for slug in slugs]
    stay, left, notes = resume.select_jobs(tmp_path, earlier, [], force=False)
    assert [notebook["slug"] for notebook in stay] == ["paradox/own", "paradox/kept"] and not left
    assert notes == ["paradox/gone is omitted, because its table paradox_outdated is from another version."]


def test_fingerprint_covers_all_inputs_of_a_job(tmp_path):
    notebook = tmp_path / "a.ipynb"
    notebook.write_text("1")
    record = {"inputs": {}, "packages": {"numpy": "2.0"}}
    a = params.Notebook("paradox/a", notebook, "A", {})
    job = jobs.Job(a, {}, "", {"seed": 1, "source": "published"}, request=Request(seed=1), folder=tmp_path)
    fingerprint = resume.fingerprint
    first = fingerprint(job, record)
    assert fingerprint(replace(job, folder=Path("y")), record) == first
    folder = replace(job, parameters_given={"seed": 1, "source": "f"}, request=Request("f"))
    others = [
        fingerprint(replace(job, parameters_given={**job.parameters_given, "seed": 2}), record),
        fingerprint(job, {**record, "packages": {"numpy": "2.1"}}),
        fingerprint(folder, record),
        fingerprint(folder, {**record, "inputs": {"f": "1"}}),
        fingerprint(replace(job, notebook=replace(a, cells=("from biaslab.papers import triplets",))), record),
    ]
    # What models compute with counts where there are images.
    other = {**record, "packages": {"numpy": "2.0", "torch": "2.9"}}
    images = replace(job, parameters_given={"seed": 1}, request=None)
    assert fingerprint(job, other) == first and fingerprint(images, other) != fingerprint(images, record)
    notebook.write_text("2")
    assert len({first, fingerprint(job, record), *others}) == 7


def test_progress_line_is_latest_recent_one(tmp_path):
    assert execute._progress_line(tmp_path) == ""
    logs = {name: tmp_path / "paradox" / name / execute.PROGRESS for name in "abc"}
    for (name, log), seconds in zip(logs.items(), (5, 1, 300), strict=True):
        log.parent.mkdir(parents=True)
        log.write_text(f"generating: {name}")
        os.utime(log, (time.time() - seconds,) * 2)
    assert execute._progress_line(tmp_path) == "paradox/b: generating: b"
    # Deleted after it was listed.
    logs["b"].unlink()
    logs["b"].symlink_to(tmp_path / "gone")
    assert execute._progress_line(tmp_path) == "paradox/a: generating: a"
    os.utime(logs["a"], (time.time() - 300,) * 2)
    assert execute._progress_line(tmp_path) == ""


def test_next_job_avoids_images_of_running_jobs():
    def job(takes, suffix="", makes=True):
        return SimpleNamespace(used_tables=frozenset(takes.split()), suffix=suffix, makes_images=makes)

    people, scores, shares = map(job, ("paired_people", "paired_score paired_people", "paradox_shares"))
    across, other = job("paired_score paradox_shares"), job("paired_people", "--a")
    printed = job("paired_score", makes=False)
    # The first in order where none is executed, or all would wait.
    assert execute.next_job([people, scores, shares], []) is people
    assert execute.next_job([scores, across], [people]) is scores
    # Another paper's, another variant's, or one for which no image is made.
    for free in (shares, other, printed):
        assert execute.next_job([scores, across, free], [people]) is free
    assert execute.next_job([people, scores], [across, shares]) is people


def test_run_folder_of_another_run_needs_overwrite(finished_record, inline_project, tmp_path):
    index = tmp_path / "outputs/mine/index.html"
    with pytest.raises(RunError, match=r"contains another run \(seed: 3 there, 2 here\)\. Choose another name"):
        inline_project({"paradox/a": code("ceo")}, "run: mine\nseed: 2\n")
    assert "ceo: 28.0%." in index.read_text(encoding="utf-8")
    inline_project({"paradox/a": code("ceo")}, "run: mine\nseed: 2\n", overwrite=True)
    assert "ceo: 27.0%." in index.read_text(encoding="utf-8")


SHARES = "model,approach,occupation,source,prompt,percent_female,n\n"
GOOD = [
    "M,naive,ceo,training,captions,20,100",
    "M,naive,ceo,generated,captions,10,100",
    "M,naive,nurse,training,captions,80,100",
    "M,naive,nurse,generated,captions,95,100",
]


def _shares(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "paradox_percent_female.csv").write_text(SHARES + "\n".join(rows) + "\n", encoding="utf-8")
    return folder


def test_run_output_containing_source_is_refused(project, tmp_path):
    source = _shares(tmp_path / "outputs/mine/in", GOOD)
    for given in (source, source.parent, tmp_path):
        _shares(given, GOOD)
        with pytest.raises(RunError, match="overlap, so the run would replace its input"):
            project({"paradox/a": code("ceo")}, f"run: mine\nsource: {given}\n", overwrite=True)
    assert (source / "paradox_percent_female.csv").exists()


@pytest.mark.long
def test_run_files_contain_no_local_paths(project, tmp_path, monkeypatch):
    """Files contain neither the folder of the run, nor that of the input, nor those of Python and its packages."""
    source = _shares(tmp_path / "telltale" / "in", GOOD)
    noisy = """
import warnings
import pandas as pd
warnings.warn(f"Look into {output_dir}.")
print(output_dir, source, pd.__file__)
pd.DataFrame({"where": [output_dir]})
"""
    failing = "import pandas as pd\npd.read_csv(source + '/gone.csv')"
    missing = "from biaslab.errors import MissingInputError\nraise MissingInputError(source)"
    notebooks = {"paradox/a": noisy + code("ceo"), "paradox/b": failing, "paradox/c": missing}
    run = partial(project, notebooks, f"run: mine\nsource: {source}\n", outputs="telltale/outputs")
    monkeypatch.chdir(tmp_path)
    record = run()
    assert [n["status"] for n in record["notebooks"]] == ["ok", "failed", "skipped"]
    assert record["notebooks"][2]["reason"].startswith("MissingInputError: in (cell")
    assert record["parameters"] == {"source": "in"} and list(record["inputs"]) == ["in"]
    folder = tmp_path / "telltale" / "outputs" / "mine"
    files_checked = [p for p in folder.rglob("*") if p.is_file() and ".parts" not in p.parts]
    assert {p.suffix for p in files_checked} == {".json", ".yaml", ".ipynb", ".html", ".csv", ".png", ".svg"}
    for path in files_checked:
        text = path.read_bytes().decode("utf-8", errors="replace")
        for private in ("telltale", str(tmp_path), f"{sys.prefix}/", os.path.expanduser("~/")):
            assert private not in text, (path, private)
    # Relative paths remain: the run's own files by their place in it, others by their names.
    pages = [(folder / f"notebooks/paradox/{name}").read_text("utf-8") for name in ("a.ipynb", "b.html")]
    assert "Look into .parts/paradox/a." in pages[0] and "in/gone.csv" in pages[1]
    assert record["coverage"] == [] and record["description"].startswith("Measurements: the tables in in.")
    # With a changed input it is another run.
    _shares(source, [*GOOD[:3], "M,naive,nurse,generated,captions,96,100"])
    with pytest.raises(RunError, match="has changed or is another"):
        run()


@pytest.mark.long
def test_run_files_contain_no_keys_and_keep_urls(tmp_path, write_notebook, warm, monkeypatch):
    """Keys of the environment that notebooks print or raise are replaced in notebooks, pages and the record."""
    pytest.importorskip("biaslab_world", reason="needs biaslab-world")
    keys = {"OPENAI_API_KEY": "sk-test-5f0e1d2c", "HF_TOKEN": "hf-test-4b5a6978", "OURS": "ours/test+1234567"}
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    noisy = """
import os
print([os.environ[name] for name in ("OPENAI_API_KEY", "HF_TOKEN", "OURS")])
print(settings, "https://example.org/home/Alice?w=9", "a man/woman")
"""
    failing = 'import os\nraise RuntimeError("cannot ask with " + os.environ["OPENAI_API_KEY"])'
    for name, code_ in {"a": noisy, "b": failing}.items():
        write_notebook(tmp_path / "notebooks" / "paradox" / f"{name}.ipynb", CELL + "settings = {}\n", code_)
    url = "https://api.example.org/v1"
    text = f"run: mine\nsource: mini\nsettings:\n  endpoint: {{url: '{url}', api_key_env: OURS}}\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    record = runner.run(params.load("mine.yaml"), outputs="outputs", progress=False)
    reasons = [n["reason"] for n in record["notebooks"]]
    assert reasons[0] == "" and reasons[1].startswith("RuntimeError: cannot ask with [key] (cell")
    folder = tmp_path / "outputs" / "mine"
    files_checked = [p for p in [*folder.rglob("*"), tmp_path / "outputs/index.html"] if p.is_file()]
    texts = {
        p.relative_to(folder).as_posix(): p.read_text("utf-8") for p in files_checked[:-1] if ".parts" not in p.parts
    }
    texts["index of all"] = files_checked[-1].read_text("utf-8")
    assert {name: key for name, text in texts.items() for key in keys.values() if key in text} == {}
    for name in ("run.json", "params.yaml", "notebooks/paradox/a.ipynb", "notebooks/paradox/a.html"):
        assert url in texts[name], name
    assert record["parameters"]["settings"]["endpoint"] == {"url": url, "api_key_env": "OURS"}
    assert "https://example.org/home/Alice?w=9 a man/woman" in texts["notebooks/paradox/a.ipynb"]
    assert export.export("mine").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r",(\d\d),100", r",0.\1,100", "every percent_female is at most 1"),
        (",100", ",10.5", r"n is 10\.5 in row 1"),
        (",100", ",0", "n is 0 in row 1"),
        (",100", ",-3", "n is -3 in row 1"),
        ("generated", "training", "source is training; amplification needs both 'training' and 'generated'"),
        ("generated", "genrated", "source is 'genrated'. Did you mean 'generated'"),
    ],
)
def test_run_invalid_source_tables_are_refused(project, tmp_path, old, new, message):
    rows = GOOD[::2] if new == "training" else GOOD
    source = _shares(tmp_path / "in", [re.sub(old, new, row) for row in rows])
    with pytest.raises(InputError, match=message):
        project({"paradox/a": code("ceo")}, f"run: mine\nsource: {source}\n")
    assert not (tmp_path / "outputs").exists()


def test_plan_annotations_notebook_needs_no_source(tmp_path, write_notebook):
    cell = 'output_dir = ""\nsource = "annotations"\nannotations = ""\n'
    write_notebook(tmp_path / "notebooks/paradox/r.ipynb", cell)
    (tmp_path / "r.csv").write_text("image,source,occupation,r1\n1,training,ceo,male\n2,generated,ceo,female\n")
    (tmp_path / "mine.yaml").write_text(f"run: mine\nannotations: {tmp_path / 'r.csv'}\n")
    loaded = params.load(tmp_path / "mine.yaml", notebooks_dir=tmp_path / "notebooks")
    (job,) = jobs.plan(loaded)
    assert job.parameters["source"] == "annotations" and not job.reason


def test_suffixes_of_variants_are_unique():
    # Alike but for letters that a slug drops, or for case, or long.
    values = ["a b", "a-b", "A B", "x" * 300, "x" * 301, "é", "ü", "SD 1.4"]
    names = jobs._suffixes([{"model": v} for v in values])
    assert len(set(names)) == len(values) and max(map(len, names)) < 80
    assert names[-1] == "--model-sd-1.4"
    assert jobs._suffixes([{}]) == [""]


@pytest.mark.parametrize(
    ("run", "name", "message"),
    [
        ("file", "file", "is a file; choose another name"),
        ("mine", "mine/thesis.txt", r"is not empty and contains no run\.json"),
        # A foreign page in the folder of runs.
        ("mine", "index.html", r"index\.html exists .* --outputs DIR"),
    ],
)
def test_overwrite_refuses_foreign_files(project, tmp_path, run, name, message):
    path = tmp_path / "outputs" / name
    path.parent.mkdir(parents=True)
    path.write_text("years of work")
    with pytest.raises(BiaslabError, match=message):
        project({"paradox/a": code("ceo")}, f"run: {run}\n", overwrite=True)
    assert [p for p in (tmp_path / "outputs").rglob("*") if p.is_file() and p.suffix != ".lock"] == [path]
    assert path.read_text() == "years of work"


def test_run_locked_by_another_process_is_refused(project, tmp_path):
    (tmp_path / "outputs").mkdir()
    with FileLock(tmp_path / "outputs/.mine.lock"), pytest.raises(RunError, match="Another process is writing"):
        project({"paradox/a": code("ceo")})


RUN = [sys.executable, "-m", "biaslab.cli", "run", "mine.yaml"]
RESUMES = "biaslab: stopped; finished results are cached; to resume, run the same command again.\n"
posix = pytest.mark.skipif(os.name != "posix", reason="signals are tried on POSIX only")


def until(true, *, seconds=300, alive=None):
    """Wait for a state, and check that a process is alive until then."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        assert alive is None or alive.poll() is None, alive.communicate()
        time.sleep(0.05)


def is_gone(pid):
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


FINDS = """
from biaslab.papers.findings import Finding
from biaslab.study import Study
Study(output_dir).report_findings(Finding("Which?", "Found by a."), main=True)
"""
WAITS = """
import os, time
from pathlib import Path
marks = Path(os.environ["MARKS"])
(marks / "parent").write_text(os.environ["JPY_PARENT_PID"])
(marks / "kernel").write_text(str(os.getpid()))
while not (marks / "go").exists():
    time.sleep(0.02)
"""


@pytest.fixture
def marks(tmp_path, monkeypatch):
    """Return the folder where notebooks leave marks."""
    folder = tmp_path / "marks"
    folder.mkdir()
    monkeypatch.setenv("MARKS", str(folder))
    return folder


@pytest.fixture
def start_run(tmp_path, write_notebook):
    """Return a function that starts a run of notebooks in a process of its own, which leads a group."""
    processes = []

    def start(notebooks, *words, jobs):
        for name, cell in notebooks.items():
            write_notebook(tmp_path / f"notebooks/paradox/{name}.ipynb", CELL, cell)
        (tmp_path / "mine.yaml").write_text(f"run: mine\njobs: {jobs}\n")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        words = [*RUN, *words, "--no-progress"]
        processes.append(subprocess.Popen(words, cwd=tmp_path, start_new_session=True, **pipes))
        return processes[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.long
@posix
def test_interrupted_run_keeps_results_and_resumes(start_run, tmp_path, marks):
    processes = start_run({"a": FINDS, "b": WAITS, "c": FINDS}, jobs=1)
    until((marks / "kernel").exists, alive=processes)
    kernel = int((marks / "kernel").read_text())
    # As Ctrl-C in a terminal does: every process of the group.
    os.killpg(processes.pid, signal.SIGINT)
    out, err = processes.communicate(timeout=60)
    assert (processes.returncode, out, err) == (130, "", RESUMES)
    assert is_gone(kernel)
    folder = tmp_path / "outputs/mine"
    record = read_record(folder)
    assert [n["status"] for n in record["notebooks"]] == ["ok", "stopped", "stopped"]
    assert record["status"] == "stopped"
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "Found by a." in page and "2 of 3 sections were stopped" in page and "sections failed" not in page
    # The same command resumes.
    (marks / "go").write_text("")
    rerun_result = subprocess.run([*RUN, "--no-progress"], cwd=tmp_path, capture_output=True, text=True)
    assert rerun_result.returncode == 0, rerun_result.stderr
    done = [(n["status"], n["kept"]) for n in read_record(folder)["notebooks"]]
    assert done == [("ok", True), ("ok", False), ("ok", False)]


@pytest.mark.long
@posix
def test_kernel_of_killed_run_cannot_change_next_run(start_run, tmp_path, marks):
    first = start_run({"a": WAITS + code("ceo")}, "--set", "seed=1", jobs=1)
    until((marks / "kernel").exists, alive=first)
    kernel, parent = (int((marks / name).read_text()) for name in ("kernel", "parent"))
    assert parent == first.pid
    # It cannot detect that its parent ends.
    os.kill(kernel, signal.SIGSTOP)
    first.kill()
    first.communicate()
    # The next run has another seed; then the first run's kernel continues, if it is alive.
    (marks / "go").write_text("")
    second = [*RUN, "--set", "seed=2", "--overwrite", "--no-progress"]
    done = subprocess.run(second, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with contextlib.suppress(ProcessLookupError):
        os.kill(kernel, signal.SIGCONT)
    until(lambda: is_gone(kernel))
    folder = tmp_path / "outputs/mine"
    table, record = pd.read_csv(folder / "tables/paradox_percent_female.csv"), read_record(folder)
    assert table["percent_female"].tolist() == [27]
    assert record["status"] == "ok" and record["parameters"] == {"seed": 2}
    assert reading.describe_changes(folder, record["files"] | record["notebooks"][0]["files"]) == ""


def test_study_of_ended_run_writes_nothing(tmp_path, monkeypatch):
    parts = tmp_path / "mine/.parts"
    attempt = parts / ".attempts/1"
    attempt.mkdir(parents=True)
    monkeypatch.setenv(ATTEMPT, str(attempt))
    study = Study(parts / "paradox/a")
    # Read before the run ends.
    texts.figures()
    rows = {"model": "m", "approach": "naive", "occupation": "ceo", "source": "generated", "prompt": "1"}
    frame = pd.DataFrame([{**rows, "percent_female": 25.0, "n": 500}])
    study.save("paradox_percent_female", frame)
    study.report_findings(Finding("Which?", "One."))
    # It writes to its attempt, from where the run takes it when it is whole.
    assert (attempt / "paradox/a/tables/paradox_percent_female.csv").exists()
    assert not (parts / "paradox").exists()
    # Another folder is not the run's.
    Study(tmp_path / "alone").report_findings(Finding("Which?", "Alone."))
    assert (tmp_path / "alone/records.json").exists()
    # Another run takes its place.
    shutil.rmtree(parts)
    (parts / ".attempts/2").mkdir(parents=True)
    for write in (
        lambda: study.save("paradox_percent_female", frame),
        lambda: study.report_findings(Finding("Which?", "Two.")),
        lambda: study.show("paradox_line", plt.figure()),
        lambda: study.load("paradox_percent_female"),
        lambda: study.memoize(paradox.overall, frame),
    ):
        with pytest.raises(RunError, match="The run of this notebook has ended"):
            write()
    plt.close("all")
    assert sorted(p.relative_to(parts).as_posix() for p in parts.rglob("*")) == [".attempts", ".attempts/2"]


@pytest.mark.long
def test_rerun_restores_files_changed_on_disk(finished_record, inline_project, tmp_path):
    run = partial(inline_project, BOTH, SEED)
    folder, name = tmp_path / "outputs/mine", "tables/paradox_percent_female.csv"
    first = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.csv")}
    # An output table: rebuilt from the parts, without executing a notebook.
    (folder / name).write_text((folder / name).read_text().replace("28", "82"))
    shutil.copytree(folder, tmp_path / "outputs/other")
    with pytest.raises(RunError, match=f"{name} was changed since the run ended"):
        compare.compare("mine", "other", outputs=tmp_path / "outputs")
    record = run()
    assert [n["kept"] for n in record["notebooks"]] == [True, True]
    (said,) = record["notes"]
    assert said.endswith(f"are created again, because {name} was changed since the run ended.")
    assert {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.csv")} == first
    assert run()["up_to_date"]
    # A file of a notebook: the notebook is executed again, with a note.
    part, page = f".parts/paradox/a/{name}", "notebooks/paradox/b.html"
    (folder / part).write_text((folder / part).read_text().replace("28", "82"))
    (folder / page).write_text("<p>Other findings</p>")
    record = run()
    assert [n["kept"] for n in record["notebooks"]] == [False, False]
    assert record["notes"] == [
        f"paradox/{of} is executed again, because {changed} was changed since it finished."
        for of, changed in (("a", part), ("b", page))
    ]
    assert {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.csv")} == first


READS = """
from biaslab.study import Study
study = Study(output_dir, source=source, seed=seed)
study.save("paradox_percent_female", study.load("paradox_percent_female"))
"""


# As a power loss may leave it.
def test_rerun_restores_truncated_measured_tables(inline_project, tmp_path):
    text = f"run: mine\nsource: {_shares(tmp_path / 'in', GOOD)}\n"
    reading = partial(inline_project, {"paradox/a": READS, "paradox/b": code("nurse")})
    folder, name = tmp_path / "outputs/mine", "measured/paradox_percent_female.csv"
    assert reading(text)["status"] == "ok"
    left, measured_path = folder / ".parts" / name, folder / name
    whole = measured_path.read_text(encoding="utf-8")
    assert len(whole.splitlines()) == 1 + len(GOOD)
    cut = "".join(whole.splitlines(keepends=True)[:-1])
    for write, said in ((lambda: left.write_text(cut, encoding="utf-8"), "was changed"), (left.unlink, "is missing")):
        write()
        # Rebuilding an output table includes all measured tables.
        (folder / "tables/paradox_percent_female.csv").write_text("cut")
        record = reading(text)
        assert record["status"] == "ok" and [n["kept"] for n in record["notebooks"]] == [False, True]
        assert f".parts/{name} {said} since it finished" in record["notes"][0]
        assert measured_path.read_text(encoding="utf-8") == left.read_text(encoding="utf-8") == whole
        assert reading(text)["up_to_date"]
    # Where its notebook is not executed it is left out.
    left.write_text(cut, encoding="utf-8")
    record = reading(f"{text}notebooks: [paradox/b]\n", force=True)
    assert record["notes"][0].endswith("csv was changed, so it is omitted until paradox/a is executed again.")
    assert not left.exists() and not list((folder / "measured").iterdir())
    assert [n["kept"] for n in reading(text)["notebooks"]] == [False, True] and left.exists()


@pytest.mark.long
def test_run_variants_may_differ_in_measured_tables(inline_project, tmp_path):
    given = [_shares(tmp_path / name, rows) for name, rows in (("one", GOOD), ("two", GOOD[:-1]))]
    text = f"run: mine\nsource: [{given[0]}, {given[1]}]\n"
    assert inline_project({"paradox/a": READS}, text)["status"] == "ok"
    assert inline_project({"paradox/a": READS}, text)["up_to_date"]


@pytest.mark.long
def test_run_full_disk_gives_advice(project, tmp_path, monkeypatch):
    fills = """
import errno
from biaslab.schema import tables
def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
tables.write = full
"""
    record = project({"paradox/a": code("ceo"), "paradox/b": fills + code("nurse")})
    assert [n["status"] for n in record["notebooks"]] == ["ok", "failed"], record["notebooks"][0].get("reason")
    said = record["notebooks"][1]["reason"]
    assert (
        said.startswith("RunError: No space left to write ") and "free some space, and run the notebook again" in said
    )
    # The run's own files.
    with monkeypatch.context() as patch:
        patch.setattr(report, "build", Mock(side_effect=OSError(122, "Disk quota exceeded")))
        with pytest.raises(RunError) as error:
            project({"paradox/a": code("ceo")})
    assert str(error.value).startswith(f"No space left to write {tmp_path / 'outputs/run_folder'}. Finished notebooks")
    record = project({"paradox/a": code("ceo")})
    assert [(n["id"], n["kept"]) for n in record["notebooks"]] == [("paradox/a", True), ("paradox/b", False)]


# -- source: pipeline ------------------------------------------------------------------------------------


@pytest.fixture
def plan_run(tmp_path, write_notebook, monkeypatch):
    """Return a function that plans three notebooks with a parameters text, and the list of checked models."""
    lookups = []
    monkeypatch.setattr(validation, "check_settings", lambda p: lookups.append((p.model, p.settings.generation.steps)))
    monkeypatch.setattr(validation, "digest", lambda p: f"{p.model} {p.settings.captions.corpus}")
    with_settings = CELL + "settings = {}\n"
    write_notebook(tmp_path / "notebooks/paradox/a.ipynb", with_settings)
    write_notebook(tmp_path / "notebooks/paradox/b.ipynb", CELL)
    write_notebook(tmp_path / "notebooks/mine/c.ipynb", with_settings)

    def plan(text):
        (tmp_path / "mine.yaml").write_text(f"run: mine\n{text}")
        plan_run = jobs.plan(params.load(tmp_path / "mine.yaml"))
        return plan_run, jobs.inputs(plan_run, tmp_path / "outputs/mine"), lookups

    return plan


def test_plan_pipeline_serves_notebooks_with_settings(plan_run):
    plan_found, inputs, lookups = plan_run("source: mini\nsettings: {generation: {steps: 3}}\n")
    assert {job.notebook.id: job.reason for job in plan_found} == {
        "paradox/a": "",
        "paradox/b": "It has no parameter settings, so it may measure something else than the rest of the run.",
        "mine/c": "The pipeline measures nothing for mine.",
    }
    assert plan_found[0].parameters["settings"] == {"generation": {"steps": 3}}
    assert lookups == [("mini", 3)] and inputs == {"mini: mini": "mini mini"}


def test_plan_list_of_settings_gives_variants(plan_run):
    given = [{"generation": {"steps": s}, "captions": {"corpus": c}} for s, c in ((3, "a"), (4, "b"))]
    text = "source: pipeline\nmodel: owner/name\nnotebooks: ['paradox/a']\n"
    plan_found, inputs, lookups = plan_run(f"{text}settings: {json.dumps(given)}\n")
    assert [job.parameters["settings"] for job in plan_found] == given
    for job, steps, corpus in zip(plan_found, (3, 4), "ab", strict=True):
        assert job.slug == f"paradox/a--settings-generation.steps-{steps}-captions.corpus-{corpus}"
        assert job.variant == {"settings": f"generation.steps={steps}, captions.corpus={corpus}"}
    assert lookups == [("owner/name", 3), ("owner/name", 4)]
    assert inputs == {f"pipeline: owner/name, captions.corpus {c}": f"owner/name {c}" for c in "ab"}


@pytest.mark.long
def test_plan_captions_without_images_omits_image_notebooks(tmp_path, root):
    """The plan lists the notebooks of the paradox paper on captions alone, and their reasons."""
    (tmp_path / "captions.txt").write_text("a female nurse\nan engineer\n")
    captions = {"corpus": f"{tmp_path}/captions.txt", "occupations": ["nurse", "engineer"]}
    text = f"run: mine\nsource: mini\nsettings: {json.dumps({'captions': captions})}\n"
    (tmp_path / "mine.yaml").write_text(text + "notebooks: ['paradox/*']\n")

    def reasons(*overrides):
        loaded = params.load(tmp_path / "mine.yaml", notebooks_dir=root / "notebooks", overrides=overrides)
        return {job.notebook.id: job.reason for job in jobs.plan(loaded)}

    bare = reasons()
    runs_anyway = {"paradox/2_setup", "paradox/5_1_indicators", "paradox/5_2_nearest"}
    assert {name for name, reason in bare.items() if not reason} == runs_anyway
    said = bare["paradox/4_baseline"]
    assert said.startswith("It needs the images behind captions (for paradox_")
    assert "The corpus 'captions.txt' has captions but no images. Set captions.training_images to a folder" in said
    # With images, no notebook of the paper is left out for want of them.
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "biaslab.json").write_text('{"pictures": "drawings"}')
    with_images = reasons(f"captions.training_images={tmp_path}/images")
    assert [name for name, reason in with_images.items() if reason] == ["paradox/ratings"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: SD 14\nnotebooks: ['paradox/*']", r"has no measurements of the model 'SD 14'.*'SD 1\.4'"),
        ("source: publishd", "source is 'publishd'.*Did you mean 'published'"),
        ("source: annotations", "source is 'annotations', but annotations is empty"),
        ("source: mini\nsettings: {steps: 3}", r"settings has no 'steps'\. Did you mean 'generation\.steps'"),
        ("source: pipeline", "source is 'pipeline', but model is 'all'"),
        ("source: published\nsettings: {generation: {steps: 3}}", "source is 'published', which generates no images"),
    ],
)
def test_plan_invalid_values_are_refused(plan_run, text, message):
    with pytest.raises(ParameterError, match=message):
        plan_run(f"{text}\n")


TYPED = "output_dir = ''\nseed: int = 20231\nname = 'x'\n"


@pytest.mark.long
def test_run_record_matches_notebook_parameters(tmp_path, write_notebook, warm):
    """Notebooks of other tools and formats run with recorded parameters; invalid ones do not affect others."""
    own_folder, print_line = tmp_path / "notebooks/own", "print(f'seed {seed}, {name}')"
    odd = {"widgets": {"application/vnd.jupyter.widget-state+json": {"0a": {"state": {}}}}}
    odd |= {"kernelspec": {"name": "conda-env-x-py", "display_name": "x"}, "language_info": None}
    good = {
        "colab": (TYPED, odd),
        # papermill would look for a parameter of that name.
        "{x} {}": (TYPED, {}),
        "ü": ("output_dir = ''\nseed = 20231\nname = None\n", {}),
    }
    for name, (parameters, metadata) in good.items():
        path = write_notebook(own_folder / f"{name}.ipynb", parameters, print_line)
        whole = json.loads(path.read_text()) | {"metadata": metadata, "nbformat_minor": 4}
        for cell in whole["cells"]:
            del cell["id"]
        path.write_text(json.dumps(whole))
    (own_folder / "cut.ipynb").write_text("{")
    (own_folder / "untagged.ipynb").write_text('{"cells": [], "metadata": {}}')
    given = {"run": "mine", "notebooks": ["own/*"], "seed": [77, 78], "name": "y"}
    loaded = params.load("mine.yaml", given=given, notebooks_dir=tmp_path / "notebooks")
    record = runner.run(loaded, outputs=tmp_path / "outputs", progress=False)
    folder = tmp_path / "outputs/mine"
    done, others = [], []
    for entry in record["notebooks"]:
        if entry["status"] == "ok":
            text = (folder / entry["notebook"]).read_text(encoding="utf-8")
            assert (folder / entry["html"]).is_file() and f"seed {entry['values']['seed']}, y" in text
            done.append((entry["id"].removeprefix("own/"), entry["variant"]))
        else:
            others.append((entry["id"], entry["status"], entry["reason"][:24]))
    assert sorted(done) == sorted((name, f"seed={seed}") for name in good for seed in (77, 78))
    # Once, whatever is swept.
    assert others == [
        ("own/cut", "failed", "It is not a complete not"),
        ("own/untagged", "skipped", "It has no cell tagged 'p"),
    ]
    # Unchanged notebooks are reused, and problems are reported again.
    rerun_result = runner.run(loaded, outputs=tmp_path / "outputs", progress=False)
    reused_ids = [n["id"] for n in rerun_result["notebooks"] if n["kept"]]
    assert len(reused_ids) == 7 and "own/untagged" in reused_ids


@pytest.mark.long
def test_run_long_or_unencodable_errors_are_recorded(project, tmp_path):
    record = project(
        {
            "paradox/long": "raise ValueError('x' * 5_000_000)",
            "paradox/half": "raise ValueError('half \\udcff')",
            "paradox/prints": "import sys\nprint('half \\udcff')\nseed",
        }
    )
    folder = tmp_path / "outputs/mine"
    assert (folder / "run.json").stat().st_size < 200_000
    assert json.loads((folder / "run.json").read_text(encoding="utf-8")) == json.loads(json.dumps(record))
    long = next(n for n in record["notebooks"] if n["id"] == "paradox/long")
    assert long["reason"] == f"ValueError: {'x' * 2000} … (4,998,000 more characters) (cell 3)"
    assert all((folder / n["html"]).is_file() for n in record["notebooks"])
    assert [n["status"] for n in record["notebooks"]] == ["failed", "failed", "ok"]


@pytest.mark.long
def test_run_unusable_cache_folder_fails_before_start(tmp_path, write_notebook, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    parameters = "source = 'published'\nmodel = 'all'\nseed = 0\nsettings = {}\n"
    write_notebook(tmp_path / "notebooks/paired/a.ipynb", parameters)
    (tmp_path / "mine.yaml").write_text("run: mine\nsource: mini\n")
    monkeypatch.setattr(execute, "execute_all", lambda *_: pytest.fail("started"))
    monkeypatch.setenv("BIASLAB_CACHE", f"{tmp_path}/file/b")
    for outputs, override, place in (
        ("outputs", f"compute.cache={tmp_path}/file/a", "file/a. Finished shards"),
        ("outputs", "seed=0", "file/b. Finished shards"),
        # The folder of runs.
        ("file/o", "source=published", "file/o. Finished notebooks"),
    ):
        words = ["run", f"{tmp_path}/mine.yaml", "--outputs", f"{tmp_path}/{outputs}", "--set", override]
        assert cli.main([*words, "--no-progress"]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"biaslab: A file is where a folder is needed: {tmp_path}/{place}")
        assert ("compute.cache or BIASLAB_CACHE" in said) == (outputs == "outputs")
