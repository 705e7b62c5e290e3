"""Layout of the packages, in addition to `make lint`, and declared tables in notebooks."""

import ast
import functools
import json
import re
from operator import attrgetter
from pathlib import Path

from biaslab import plugins
from biaslab.plots import texts
from biaslab.runs.params import Notebook, find_notebooks
from biaslab.schema import tables
from biaslab.settings import Settings

ROOT = Path(__file__).parents[2]
# The package, and the synthetic world, which is found by entry points, with the training of its models.
PACKAGES = {"biaslab": ROOT, "biaslab_world": ROOT / "world", "training": ROOT / "world"}


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    _name(path, root): path
    for package, root in PACKAGES.items()
    for path in sorted((root / package).rglob("*.py"))
    if "tests" not in path.parts[len(root.parts) :]
}


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each of :data:`MODULES`; on demand, since each worker imports this file."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def package_of(module: str) -> str:
    return module.split(".")[0]


def imports(tree: ast.Module) -> set[tuple[str, str]]:
    """Return module and name of all imports of :data:`PACKAGES`, also of those in functions."""
    results = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and package_of(node.module or "") in PACKAGES:
            results.update((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            results.update((a.name, "") for a in node.names if package_of(a.name) in PACKAGES)
    return results


def bound_names(tree: ast.Module) -> set[str]:
    """Return the names that a module has when it is loaded."""
    results = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            results.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            results.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            results.update(alias.asname or alias.name for alias in node.names)
    return results


def test_imports_across_modules_are_public_and_exist():
    names = {name: bound_names(tree) for name, tree in trees().items()}
    for name, tree in trees().items():
        for module, taken in imports(tree):
            assert module in MODULES, f"{name} imports {module}"
            assert not re.match(r"_[^_]", taken), f"{name} imports the private name {module}.{taken}"
            name_exists = not taken or f"{module}.{taken}" in MODULES or taken in names[module]
            assert name_exists, f"{name} imports {taken} from {module}, which has none"


# -- papers --------------------------------------------------------------------------------------------------

# Packages of the papers: their metrics, prompts and published values, and the stages for their prompts.
_OF_PAPERS = ("papers", "analyses", "prompts", "reference")
# Prompt sets that name a group of settings; lexicons.
_NAMED = {
    "biaslab.pipeline.stages": {"paired", "dalleval", "triplets", "paradox_occupations", "paradox_prompts"},
    # The name of images of triplets in reports.
    "biaslab.planning.records": {"triplets"},
    "biaslab.settings": {"paired", "triplets"},
    "biaslab.runs.audit": {"custom"},
    "biaslab.runs.jobs": {"custom"},
    # A term of numpy.
    "biaslab.captions.embeddings": {"precision"},
}


def test_shared_modules_name_no_paper():
    """A new paper declares itself in its own package, and in the stages for its prompts."""
    papers = tables.measuring_papers()
    known_names = {*papers, *(name for name in tables.schemas() if name.startswith(tuple(f"{p}_" for p in papers)))}
    starts = tuple(f"{paper}/" for paper in papers)
    results = {}
    for name, tree in trees().items():
        module_path = name.removeprefix("biaslab.")
        if package_of(name) != "biaslab" or module_path.startswith(_OF_PAPERS):
            continue
        texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        texts = {t for t in texts if t in known_names or (t.startswith(starts) and " " not in t)}
        if texts := texts - _NAMED.get(name, set()):
            results[name] = sorted(texts)
    assert results == {}


# -- plugin packages ------------------------------------------------------------------------------------------

# Names of the synthetic world and of its models.
_NAMES = re.compile(
    r"biaslab_world|mini-(sd|clip|detector|vqa|captioner|segmenter|skills)|([\"'`])mini\2", re.IGNORECASE
)
# Lists of English words, in which "mini" is a word.
_WORDS = ROOT / "biaslab" / "lexicons" / "data"


def test_package_does_not_name_world():
    kinds = {".py", ".yaml", ".json", ".html", ".j2", ".css", ".js"}
    files = [path for path in sorted((ROOT / "biaslab").rglob("*")) if path.suffix in kinds]
    assert len(files) > len(MODULES) / 2
    results = {
        path.relative_to(ROOT).as_posix(): sorted({match[0] for match in _NAMES.finditer(text)})
        for path in files
        if _NAMES.search(text := path.read_text(encoding="utf-8"))
    }
    words = {name for name in results if (ROOT / name).is_relative_to(_WORDS) and results[name] == ['"mini"']}
    assert {name: names for name, names in results.items() if name not in words} == {}


# -- contents of notebooks ---------------------------------------------------------------------------------


def notebooks() -> list[Notebook]:
    """Return the notebooks of the project and of installed packages."""
    return find_notebooks(ROOT / "notebooks", *(folder / "notebooks" for folder in plugins.notebook_folders().values()))


def calls(attribute: str) -> list[tuple[str, ast.Call]]:
    """Return each call of ``study.ATTRIBUTE(…)`` in a notebook, with the notebook's id."""
    results = []
    for notebook in notebooks():
        for node in ast.walk(ast.parse("\n".join(notebook.cells))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == attribute:
                results.append((notebook.id, node))
    return results


def words() -> set[str]:
    """Return the texts of one word in notebooks' code, and the tables that they take."""
    results = {word for n in notebooks() for word in re.findall(r"""["'](\w+)["']""", "\n".join(n.cells))}
    return results.union(*(n.used_tables for n in notebooks()))


def first_text(call: ast.Call) -> str | None:
    return call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None


# Limits of a notebook; notebooks beyond a paper have twice these limits.
LIMITS = {"save": 5, "show": 4, "answer": 2, "words": 700}
# Of all notebooks together, and of those on custom prompts and images.
TABLES, FIGURES = 120, 103
CUSTOM = 13


def test_notebooks_stay_within_size_limits():
    counts = {notebook_entry.id: dict.fromkeys(LIMITS, 0) for notebook_entry in notebooks()}
    for kind in ("save", "show", "answer"):
        for notebook, _ in calls(kind):
            counts[notebook][kind] += 1
    for notebook_entry in notebooks():
        cells = json.loads(notebook_entry.path.read_text(encoding="utf-8"))["cells"]
        prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        counts[notebook_entry.id]["words"] = sum(len(re.findall(r"[^\W\d_]{2,}", text)) for text in prose)
    excess = {
        f"{notebook}: {n} of {kind}, allowed {allowed * times}"
        for notebook, results in counts.items()
        for times in (2 if notebook.startswith(("synthesis/", "custom/")) or "/beyond_" in notebook else 1,)
        for kind, allowed in LIMITS.items()
        if (n := results[kind]) > allowed * times
    }
    assert excess == set()
    for kind, most in (("save", TABLES), ("show", FIGURES)):
        names = {first_text(call) for _, call in calls(kind)}
        custom_names = {name for name in names if name and name.startswith("custom_")}
        assert len(names - custom_names) <= most and len(custom_names) <= CUSTOM


def test_notebooks_use_existing_settings():
    setting_names = set()
    for notebook in notebooks():
        code = notebook.path.read_text(encoding="utf-8")
        setting_names |= set(re.findall(r"study\.settings\.([a-z_.]*[a-z_])", code))
    assert setting_names
    for name in setting_names:
        attrgetter(name)(Settings())


def test_figure_texts_match_shown_figures():
    known_names = set(texts.figures())
    named_texts = set()
    for notebook, call in calls("show"):
        options = {k.arg: k.value for k in call.keywords}
        text_argument = options.get("text", call.args[0])
        # A text given in a dict is among the words of the notebook.
        if None not in options:
            assert isinstance(text_argument, ast.Constant), f"{notebook}: {ast.unparse(call)} names no text"
            named_texts.add(text_argument.value)
    assert named_texts - known_names == set()
    assert known_names - words() == set()


def test_declared_tables_are_saved_or_measured():
    saved_tables = {first_text(call) for _, call in calls("save")}
    declared = set(tables.schemas())
    assert saved_tables - {name for name, schema in tables.schemas().items() if schema.description} == set()
    # Results shown only in a figure, and the content of a file of annotations, have no measure.
    assert declared - saved_tables - words() == {"paired_adherence", "ratings_input"}


def test_durations_do_not_use_wall_clock():
    # Ages of files, and dates of servers, use the wall clock.
    allowed = {
        "biaslab.cache.pruning",
        "biaslab.execution.progress",
        "biaslab.runs.execute",
        "biaslab.report.all_runs",
        "biaslab.endpoints.endpoint",
    }
    assert {name for name, path in MODULES.items() if "time.time()" in path.read_text(encoding="utf-8")} == allowed
