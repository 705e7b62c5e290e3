"""Who changes whose keys: packages that bring something change those of their own results, and this one's rooms theirs.

What a key must not leave out is looked for as well: no published notebook runs a function that its key does not count.
"""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import biaslab
from biaslab import plugins
from biaslab.cache import code_digest
from biaslab.errors import ParameterError
from biaslab.runs import params, resume

PACKAGE_FOLDER = Path(biaslab.__file__).parent

# -- plugin packages ---------------------------------------------------------------------------------------


def forget():
    for cached_function in (plugins._find_entry_points, code_digest._path, code_digest._source, code_digest._file_hash):
        cached_function.cache_clear()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a function that installs a package of some files with an entry point, and returns that."""
    folder = tmp_path / "site"

    def install(value, files, version="1.0", name="guest"):
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        told = folder / f"{name}-{version}.dist-info"
        told.mkdir(parents=True, exist_ok=True)
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (told / "entry_points.txt").write_text(f"[{plugins.JUDGES}]\n{name} = {value}\n")
        if str(folder) not in sys.path:
            monkeypatch.syspath_prepend(folder)
        importlib.invalidate_caches()
        forget()
        return plugins.entry_points(plugins.JUDGES)[name]

    yield install
    forget()
    for module in [m for m in sys.modules if m.split(".")[0] in ("guest", "shared_name")]:
        del sys.modules[module]


PACKAGE = {
    "guest/__init__.py": "",
    "guest/measure.py": "from guest.inner import how\ndef measure(study):\n    return how()\n",
    "guest/inner.py": "from importlib import resources\ndef how():\n    return resources.files('guest')\n",
    "guest/words.json": "[1]",
    "guest/weights/model.safetensors": "1",
    "guest/beside.py": "X = 1\n",
}
FORMS = {
    "a package": ("guest.measure:measure", PACKAGE, "guest/inner.py"),
    "a module": ("guest:measure", {"guest.py": "def measure(study):\n    return 1\n"}, "guest.py"),
    "a package of several": ("shared_name.guest:measure", {"shared_name/guest.py": "x = 1\n"}, "shared_name/guest.py"),
}


@pytest.mark.parametrize("form", FORMS)
def test_entry_digest_follows_code_and_version(site, tmp_path, form):
    value, files, path = FORMS[form]
    entry = site(value, files)
    digest_before = code_digest.entry_digest(entry)
    assert code_digest.entry_digest(site(value, files)) == digest_before
    assert code_digest.entry_digest(site(value, {**files, path: files[path] + "# A comment.\n"})) == digest_before
    assert code_digest.entry_digest(site(value, {**files, path: files[path] + "Y = 1\n"})) != digest_before
    # By its version, too.
    shutil.rmtree(tmp_path / "site")
    assert code_digest.entry_digest(site(value, files, "2.0")) != digest_before
    shutil.rmtree(tmp_path / "site")
    assert code_digest.entry_digest(site(value, files)) == digest_before


def test_entry_digest_covers_data_of_file_readers(site):
    entry = site("guest.measure:measure", PACKAGE)
    digest_before, code = (
        code_digest.entry_digest(entry),
        code_digest.function_digests(importlib.import_module("guest.measure").measure),
    )
    assert set(code) == {"guest.measure", "guest.inner"}
    for path, text, is_same in (
        ("guest/words.json", "[2]", False),
        ("guest/weights/model.safetensors", "2", False),
        ("guest/beside.py", "X = 2\n", True),
    ):
        site("guest.measure:measure", {**PACKAGE, path: text})
        assert (code_digest.entry_digest(entry) == digest_before) is is_same, path
        # Keys of stages that use the plugin behave the same.
        assert (code_digest.function_digests(importlib.import_module("guest.measure").measure) == code) is is_same, path
        site("guest.measure:measure", PACKAGE)


def test_entry_digest_of_missing_module_is_refused(site):
    for value, module in (("guest.gone:measure", "guest.gone"), ("absent:measure", "absent")):
        entry = site(value, PACKAGE)
        with pytest.raises(ParameterError, match=f"^guest refers to the module {module}, whose source file is missing"):
            code_digest.entry_digest(entry)


def test_entry_digest_ignores_location(site, tmp_path, monkeypatch):
    entry = site("guest.measure:measure", PACKAGE)
    first = code_digest.entry_digest(entry)
    sys.modules.pop("guest", None)
    monkeypatch.syspath_prepend(shutil.copytree(tmp_path / "site", tmp_path / "elsewhere"))
    importlib.invalidate_caches()
    forget()
    assert code_digest._path("guest.measure").is_relative_to(tmp_path / "elsewhere")
    assert code_digest.entry_digest(entry) == first


# -- the world, and the packages of biaslab ----------------------------------------------------------------

KEYS = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
import pandas as pd
from PIL import Image
from biaslab.cache import code_digest
from biaslab.runs import resume, params, runner
from biaslab.captions.corpus import open_corpus
from biaslab.captions.search import search
from biaslab.generation.images import GeneratedImages
from biaslab.generation.models import open_model
from biaslab.generation.settings import GenerationSettings
from biaslab.hub.image_sources import FolderImages
from biaslab.judges.people import judge_people
from biaslab.judges.registry import parse
from biaslab.endpoints.settings import EndpointSettings
from biaslab.cache.result_cache import ResultCache, Stage

folder, notebooks, changes = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
(folder / "captions.csv").write_text("caption_id,text\\n1,A nurse at work.\\n")
(folder / "pictures").mkdir()
Image.new("RGB", (8, 8)).save(folder / "pictures" / "1.png")
store, asked = ResultCache(folder / "store"), []

class AskedError(Exception):
    pass

def computed(stage, *given, **how):
    if stage.key["name"] == "faces":
        return compute_iter(stage, *given, **how)
    asked.append(stage.digest)
    raise AskedError

compute_iter, Stage.compute_iter = Stage.compute_iter, computed

def stage(call, *given, **how):
    try:
        call(*given, cache=store, progress=False, **how)
    except AskedError:
        return asked[-1]

def notebook(name, brought=()):
    one = next(n for n in params.find_notebooks(notebooks) if n.id == name)
    return code_digest._hash(resume.notebook_code(one), list(brought))

def keys():
    world, file = open_corpus("mini", max_captions=10), open_corpus(str(folder / "captions.csv"))
    prompts = pd.DataFrame({"prompt_id": ["1"], "text": ["A photo of a nurse"], "n_images": [1]})
    prompts["occupation"] = "nurse"
    how = {"endpoint": EndpointSettings(), "corpus": lambda: world, "device": "cpu"}
    drawn = open_model("world", GenerationSettings(), **how)
    made = GeneratedImages(prompts, "mini-sd", GenerationSettings(), seed=0, cache=store)
    judges = parse("ViT-B-32:openai", "judging.gender"), parse("whole image", "judging.faces")
    pictures = FolderImages(folder / "pictures")
    requested = pictures.table[["image_id"]].assign(position=1)
    return {
        "captions of the world": world.digest,
        "triplets' captions of the world": open_corpus("depictions", max_captions=10).digest,
        "images drawn": drawn.generate(prompts, seed=0, cache=store).digest,
        "search over the world's captions": stage(search, world, ["nurse"], per_term=1, seed=0),
        "search over a file": stage(search, file, ["nurse"], per_term=1, seed=0),
        "judgements of a folder": stage(judge_people, pictures, requested, *judges),
        "images generated": made.digest,
        "published paradox": notebook("paradox/4_baseline"),
        "published triplets": notebook("triplets/7_1_one_prompt"),
        "paradox of images": notebook("paradox/4_baseline", resume.plugin_digests(images=True)),
    }

first, found = keys(), {}
for what, path in changes.items():
    text = Path(path).read_text()
    Path(path).write_text(text + "\\n_CHANGED = 1\\n")
    found[what] = sorted(name for name, key in keys().items() if key != first[name])
    Path(path).write_text(text)
assert keys() == first
print(json.dumps([first, found]))
"""
OF_WORLD = {
    "captions of the world",
    "triplets' captions of the world",
    "images drawn",
    "search over the world's captions",
    "paradox of images",
}
OF_PARADOX = {"published paradox", "paradox of images"}
NOTEBOOKS = {*OF_PARADOX, "published triplets"}
# An added line in a file, and the keys that it changes.
CHANGES = {
    "biaslab_world/render.py": OF_WORLD,
    "biaslab/generation/generator.py": {"images generated", *NOTEBOOKS},
    "biaslab/judges/zero_shot.py": {"judgements of a folder", *NOTEBOOKS},
    "biaslab/pipeline/stages.py": NOTEBOOKS,
    "biaslab/captions/search.py": {"search over a file", "search over the world's captions", *NOTEBOOKS},
    "biaslab/papers/paradox/analysis/amplification.py": OF_PARADOX,
    "biaslab/papers/triplets/analysis.py": {"published triplets"},
    "biaslab/stats/intervals.py": {"judgements of a folder", *NOTEBOOKS},
    "biaslab/report/notebook.py": NOTEBOOKS,
    "biaslab/cache/result_cache.py": set(),
    "biaslab/cli.py": set(),
}


def told(folder, script, *given, **environment):
    """Run a program in a separate process and return its JSON output."""
    completed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *given],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "BIASLAB_CACHE": str(folder / "none"), **environment},
    )
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)


@pytest.mark.long
def test_code_change_affects_only_dependent_keys(tmp_path, root):
    world = pytest.importorskip("biaslab_world", reason="needs biaslab-world")
    # Copies of both packages elsewhere, which are imported in their place.
    site, ignored = tmp_path / "site", shutil.ignore_patterns("__pycache__", "weights")
    shutil.copytree(PACKAGE_FOLDER, site / "biaslab", ignore=ignored)
    of_world = Path(world.__file__).parent
    shutil.copytree(of_world, site / "biaslab_world", ignore=ignored)
    (site / "biaslab_world" / "weights").symlink_to(of_world / "weights")
    (tmp_path / "work").mkdir()
    changes = json.dumps({path: str(site / path) for path in CHANGES})
    keys, changed = told(tmp_path, KEYS, tmp_path / "work", root / "notebooks", changes, PYTHONPATH=str(site))
    assert {path: set(names) for path, names in changed.items()} == CHANGES
    # The original packages have the same keys.
    original = next(n for n in params.find_notebooks(root / "notebooks") if n.id == "paradox/4_baseline")
    assert code_digest._hash(resume.notebook_code(original), []) == keys["published paradox"]


# -- what counts for a notebook ----------------------------------------------------------------------------

IMPORTS = "from biaslab.papers import paradox\nfrom biaslab.study import Study"


def counted_modules(*cells, takes=()):
    """Return the modules that count for a notebook with some cells, without the package's name."""
    notebook = params.Notebook("paradox/x", Path("x"), "X", {}, cells=cells, used_tables=frozenset(takes))
    return {name.removeprefix("biaslab.") for name in resume.notebook_code(notebook)}


def test_notebook_code_covers_papers_of_used_tables():
    def printed_papers(*cells, takes=()):
        result = counted_modules(*cells, takes=takes)
        return {name.split(".")[1] for name in result if name.endswith(".printed")}

    result = counted_modules(IMPORTS, "study.load(paradox.percent_female)", takes=["paradox_percent_female"])
    assert {"papers.paradox.measure", "papers.paradox.printed", "pipeline.stages", "judges.judge"} <= result
    # The table of generation settings belongs to the paradox.
    assert printed_papers(takes=["paired_run_score", "dalleval_mad"]) == {"paradox", "paired", "dalleval"}
    # Tables of unknown papers.
    assert printed_papers(takes=["name_name"]) == {"paradox", "paired", "dalleval", "triplets"}


# -- what a published notebook runs ------------------------------------------------------------------------

TRACE_SCRIPT = """
import contextlib, importlib, json, os, sys, tempfile
os.environ["MPLBACKEND"] = "agg"
from pathlib import Path
from biaslab.cache import code_digest
from biaslab.request import Request
from biaslab.runs import resume, params, runner
from biaslab.study import sources

for name in sources.modules():
    importlib.import_module(name)
told = {}
for notebook in params.find_notebooks(Path(sys.argv[1])):
    if notebook.id not in sys.argv[2:]:
        continue
    seen, ran, names = set(), set(), {"__name__": "__main__"}

    def called(frame, event, arg):
        if event == "call" and frame.f_code not in seen:
            seen.add(frame.f_code)
            ran.add(frame.f_globals.get("__name__", ""))

    for cell in notebook.cells:
        code = compile(cell, notebook.id, "exec")
        sys.setprofile(called if "study" in names else None)
        with contextlib.redirect_stdout(sys.stderr):
            exec(code, names)
        sys.setprofile(None)
        if "output_dir" in names and "study" not in names:
            names |= {"output_dir": tempfile.mkdtemp(dir=sys.argv[-1])}
            names |= {"bootstrap_replicates": 100} if "bootstrap_replicates" in names else {}
    ours = {name for name in ran if name.split(".")[0] == "biaslab" and not code_digest._NO_EFFECT.fullmatch(name)}
    told[notebook.id] = [sorted(ours - set(resume.notebook_code(notebook))), len(ours)]
print(json.dumps(told))
"""
RUN = ("paradox/5_approaches", "paired/5_mitigation", "dalleval/5_2_skills", "triplets/7_1_one_prompt")


@pytest.mark.long
def test_published_notebook_runs_only_code_in_its_key(tmp_path, root):
    """One of each paper, with those that ask for images which a published source has not."""
    result = told(tmp_path, TRACE_SCRIPT, root / "notebooks", *RUN, tmp_path)
    assert {name: left_out for name, (left_out, _) in result.items()} == {name: [] for name in RUN}
    # The trace must not be nearly empty.
    assert all(n >= 15 for _, n in result.values())
