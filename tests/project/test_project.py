"""The project as a whole: imports stay light, environments agree, notebooks are clean."""

import ast
import email
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from biaslab.report.formulas import formula_html
from biaslab.runs import params

HEAVY = ("numpy", "pandas", "scipy", "matplotlib", "papermill", "nbconvert", "torch", "yaml", "jinja2")
# The names that conda-forge gives to what PyPI calls otherwise.
CONDA = {
    "torch": "pytorch",
    "matplotlib": "matplotlib-base",
    "open_clip_torch": "open-clip-torch",
    "bleach[css]": "bleach-with-css",
    "opencv-python-headless": "opencv",
    "duckdb": "python-duckdb",
}
# Packages that the environment must include.
PROMISED = "jupyterlab papermill diffusers torch open_clip_torch sentence-transformers seaborn statsmodels datasets"


@pytest.mark.parametrize("words", [["-c", "import biaslab"], ["-m", "biaslab.cli", "--help"]])
def test_import_and_help_load_no_heavy_packages(words):
    process = subprocess.run([sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=True)
    loaded = {line.split("|")[-1].strip().split(".")[0] for line in process.stderr.splitlines()}
    assert "biaslab" in loaded
    assert not loaded.intersection(HEAVY)


def _requirements(root):
    """Return the requirements of the package, and of its extras, each with those of the extras that it includes."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    parts = project["optional-dependencies"]

    def whole(name):
        inner = [re.fullmatch(r"biaslab\[(.+)\]", text) for text in parts[name]]
        further = [text for match in inner if match for part in match[1].split(",") for text in whole(part)]
        return [*further, *(text for text, match in zip(parts[name], inner, strict=True) if not match)]

    return project["dependencies"], {name: whole(name) for name in parts}


def test_conda_environment_matches_requirements(root):
    needed, extras = _requirements(root)
    conda = yaml.safe_load((root / "environment.yml").read_text())["dependencies"]
    pip = next(d["pip"] for d in conda if isinstance(d, dict))
    available = {d.lower() for d in [*(d for d in conda if isinstance(d, str)), *pip]}
    for requirement in [*needed, *extras["models"], *extras["dev"], *extras["dask"]]:
        name, version = re.fullmatch(r"([A-Za-z0-9_\[\]-]+)(.*)", requirement).groups()
        assert f"{CONDA.get(name, name)}{version}".lower() in available, requirement
    names = {re.match(r"[A-Za-z0-9_-]+", r).group() for r in [*needed, *extras["models"], *extras["lab"]]}
    assert names.issuperset(PROMISED.split())
    # Both packages, by lines that pip reads in a file of requirements, as conda hands them over.
    assert pip[-2:] == ["--editable .", "--editable world"]


def test_lock_pins_all_requirements_within_bounds(root):
    needed, extras = _requirements(root)
    lines = (root / "requirements.lock").read_text().splitlines()
    locked = {}
    for line in map(Requirement, lines):
        if line.marker is None or line.marker.evaluate():
            locked[canonicalize_name(line.name)] = line.specifier
    for requirement in map(Requirement, [*needed, *extras["dev"], *extras["models"], *extras["dask"]]):
        (pinned,) = locked[canonicalize_name(requirement.name)]
        assert pinned.operator == "==" and requirement.specifier.contains(pinned.version), requirement
        # This one ran a file of the model's folder that had the library's name.
        assert requirement.name != "diffusers" or not requirement.specifier.contains("0.37.1")


ALONE = """
import importlib, pkgutil, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        allowed = {"biaslab", "numpy", "pandas", "scipy", "pyarrow", "dateutil", "six", "pytz"}
        top = name.partition(".")[0]
        if path is None and top[0] != "_" and top not in {*sys.stdlib_module_names, *allowed}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refused())
for name in ("biaslab.metrics", "biaslab.stats"):
    for module in pkgutil.iter_modules(importlib.import_module(name).__path__, f"{name}."):
        importlib.import_module(module.name)
from biaslab import cli
print(*(cli.main(["reference"]), cli.main(["audit", "world"])))
"""


@pytest.mark.long
def test_library_needs_only_core_dependencies(root):
    needed, _ = _requirements(root)
    assert {Requirement(text).name for text in needed} == {"numpy", "pandas", "scipy"}
    process = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == "0 2"
    # The extra that the whole audit needs, not the smallest one with the package.
    assert process.stderr.endswith("is not installed: pip install 'biaslab[models]'\n")


def _notebooks(root):
    folders = (root / "notebooks", *root.glob("world/biaslab_world/*/notebooks"))
    return [notebook for folder in folders for notebook in params.find_notebooks(folder)]


@pytest.mark.long
def test_notebooks_are_clean_and_documented(root):
    from biaslab.study import Study

    takes = inspect.signature(Study.__init__).parameters
    items = _notebooks(root)
    assert len(items) >= 15 and {"synthesis/world", "synthesis/calibration"} <= {n.id for n in items}
    for notebook in items:
        cells = json.loads(notebook.path.read_text(encoding="utf-8"))["cells"]
        for cell in cells:
            if cell["cell_type"] != "code":
                continue
            assert not cell["outputs"] and cell["execution_count"] is None, notebook.id
            source = "".join(cell["source"])
            lines = [line for line in source.splitlines() if line.strip() and not line.strip().startswith("#")]
            assert len(lines) <= 15, (notebook.id, source)
            kinds = {type(node) for node in ast.walk(ast.parse(source))}
            assert not kinds & {ast.ClassDef, ast.FunctionDef, ast.While}, (notebook.id, source)
        # A parameter shared with the study has the study's type.
        for name, default in notebook.parameters.items():
            if name in takes and takes[name].default is not inspect.Parameter.empty:
                assert type(default) is type(takes[name].default), (notebook.id, name)
        prose = [c for c in cells if c["cell_type"] == "markdown"]
        assert len(prose) >= 3, notebook.id
        text = "".join("".join(c["source"]) for c in prose)
        assert "## What this cannot show" in text, notebook.id
        # The report sets formulas by itself.
        for display, tex in re.findall(r"(\$\$?)(.+?)\1", text, re.DOTALL):
            assert formula_html(tex, display=display == "$$").startswith("<img"), (notebook.id, tex)


def test_notebooks_pass_their_random_draws_and_confidence(root):
    # `Study.memoize` passes them; a direct call has to.
    required, n_calls = {"seed", "replicates", "confidence"}, 0
    for notebook in _notebooks(root):
        tree = ast.parse("\n".join(notebook.cells))
        names = {}
        exec("\n".join(ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)), names)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            match call.func:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if inspect.ismodule(names.get(name)):
                    function = getattr(names[name], attribute)
                case _:
                    continue
            if not inspect.isfunction(function):
                continue
            parameters = inspect.signature(function).parameters.values()
            named = {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY} & required
            given = {keyword.arg for keyword in call.keywords}
            n_calls += bool(named)
            assert None in given or named <= given, (notebook.id, ast.unparse(call))
    assert n_calls > 30


def _tracked_files(folder, *below):
    """Return the project's files in a folder, by their names from there."""
    words = ["git", "-C", str(folder), "ls-files", "--cached", "--others", "--exclude-standard", *below]
    process = subprocess.run(words, capture_output=True, text=True)
    if process.returncode:
        pytest.skip("not a git checkout, so there is no list of the project's files")
    return process.stdout.splitlines()


def test_files_contain_no_local_paths(root):
    bad = re.compile(rb"/(home|Users|root)/[a-z]|/work/|index-url|extra-index")
    for name in _tracked_files(root):
        path = root / name
        if path.is_file() and path.suffix not in (".png", ".safetensors") and path.name != "test_project.py":
            assert not bad.search(path.read_bytes()), name


def test_params_files_load(root):
    paths = [*root.glob("params/*.yaml"), *root.glob("world/params/*.yaml")]
    assert {"published", "mini"} <= {path.stem for path in paths}
    for path in paths:
        loaded = params.load(path)
        assert loaded.run == path.stem and loaded.description


@pytest.mark.skipif(os.name != "posix", reason="make is tried on POSIX only")
def test_make_plans_setup_before_every_job(root):
    for target, job in (("report", "biaslab run params/published.yaml"), ("test", "pytest"), ("lab", "jupyter lab")):
        words = ["make", "-n", target, "VENV=.venv-that-does-not-exist"]
        commands = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout
        assert "-m venv" in commands
        assert commands.index('--editable ".[dev,models,dask]" --editable world') < commands.index(job)


def test_figure_names_are_unique_across_notebooks(root):
    # The later image would appear with the earlier caption.
    notebooks_by_figure = {}
    for notebook in _notebooks(root):
        for name in re.findall(r'\bstudy\.show\(\s*"(\w+)"', "\n".join(notebook.cells)):
            notebooks_by_figure.setdefault(name, set()).add(notebook.id)
    assert len(notebooks_by_figure) > 60
    assert {name: items for name, items in notebooks_by_figure.items() if len(items) > 1} == {}


@pytest.fixture(scope="module")
def wheels(root, tmp_path_factory):
    """Return the paths of the wheels of both packages, by package, built without a network."""
    folder = tmp_path_factory.mktemp("wheels")
    words = ["wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([sys.executable, "-m", "pip", *words, "--wheel-dir", folder, root, root / "world"], check=True)
    items = {path.name.split("-")[0]: path for path in folder.glob("*.whl")}
    assert set(items) == {"biaslab", "biaslab_world"}
    return items


def _contents(wheel):
    """Return a wheel's metadata and the files of its package."""
    with zipfile.ZipFile(wheel) as packed:
        (metadata_file,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        (licence,) = (name for name in packed.namelist() if name.endswith("/LICENSE"))
        text = packed.read(metadata_file).decode()
        files = {name for name in packed.namelist() if ".dist-info/" not in name}
        return email.message_from_string(text), files, packed.read(licence)


@pytest.mark.long
def test_wheel_of_biaslab_excludes_world(root, wheels):
    metadata, files, licence = _contents(wheels["biaslab"])
    assert wheels["biaslab"].stat().st_size < 5_000_000
    assert {name.split("/")[0] for name in files} == {"biaslab"}
    assert not [name for name in files if name.endswith(".safetensors") or "mini" in name]
    # What `biaslab init` writes: as in the project.
    inside = {name.removeprefix("biaslab/project/") for name in files if name.startswith("biaslab/project/")}
    available = {
        path.relative_to(root).as_posix() for path in (*root.glob("notebooks/*/*.ipynb"), *root.glob("params/*"))
    }
    assert inside == available
    assert "biaslab-world; extra == 'world'" in metadata.get_all("Requires-Dist")
    assert licence == (root / "LICENSE").read_bytes()


def test_wheel_of_world_is_complete_without_training(root, wheels):
    metadata, files, licence = _contents(wheels["biaslab_world"])
    assert (metadata["Name"], metadata["License-Expression"]) == ("biaslab-world", "Apache-2.0")
    assert metadata["Version"] == _contents(wheels["biaslab"])[0]["Version"]
    assert metadata.get_all("Requires-Dist") == ["biaslab[models]"]
    assert metadata.get_payload() == (root / "world" / "README.md").read_text(encoding="utf-8")
    assert licence == (root / "LICENSE").read_bytes()
    assert {name.split("/")[0] for name in files} == {"biaslab_world"}
    assert not [name for name in files if "training/" in name or "/tests/" in name or "test_" in name]
    # All files of the package, such as weights, cards, tables and notebooks.
    available = {name for name in _tracked_files(root / "world", "biaslab_world") if (root / "world" / name).is_file()}
    params_of_world = {f"biaslab_world/calibration/params/{path.name}" for path in root.glob("world/params/*.yaml")}
    assert files == available | params_of_world
    kinds = {name.rpartition(".")[2] for name in available}
    assert {"py", "safetensors", "json", "csv", "yaml", "ipynb", "md"} <= kinds
