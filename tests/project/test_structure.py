"""How the packages are laid out, where `make lint` does not check it, and what notebooks show of declared tables."""

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
# The package, and the world, which only its entry points bring to it, with what trains its models.
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
    """Return what each of :data:`MODULES` says; when a test asks, since each worker imports this file."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def package_of(module: str) -> str:
    return module.split(".")[0]


def imports(tree: ast.Module) -> set[tuple[str, str]]:
    """Return module and name of all imports of :data:`PACKAGES`, also of those in functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and package_of(node.module or "") in PACKAGES:
            found.update((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update((a.name, "") for a in node.names if package_of(a.name) in PACKAGES)
    return found


def bound(tree: ast.Module) -> set[str]:
    """Return the names that a module has when it is loaded."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name for alias in node.names)
    return found


def test_imports_across_modules_name_public_names_that_exist():
    names = {name: bound(tree) for name, tree in trees().items()}
    for name, tree in trees().items():
        for module, taken in imports(tree):
            assert module in MODULES, f"{name} imports {module}"
            assert not re.match(r"_[^_]", taken), f"{name} imports the private name {module}.{taken}"
            there = not taken or f"{module}.{taken}" in MODULES or taken in names[module]
            assert there, f"{name} imports {taken} from {module}, which has none"


# -- papers --------------------------------------------------------------------------------------------------

# Rooms of the papers themselves: what they measure, ask and print, and the stages for their prompts.
_OF_PAPERS = ("papers", "analyses", "prompts", "reference")
# What prompts ask for, which gives a group of settings its name; lexicons of words.
_NAMED = {
    "biaslab.pipeline.stages": {"paired", "dalleval", "triplets", "paradox_occupations", "paradox_prompts"},
    # What reports call the images of triplets.
    "biaslab.planning.records": {"triplets"},
    "biaslab.settings": {"paired", "triplets"},
    "biaslab.runs.audit": {"custom"},
    "biaslab.runs.jobs": {"custom"},
    # A word of numpy's.
    "biaslab.captions.embeddings": {"precision"},
}


def test_what_is_for_all_papers_names_none():
    """A new one declares itself: in its room, and the stages for its prompts."""
    papers = tables.measuring_papers()
    known = {*papers, *(name for name in tables.schemas() if name.startswith(tuple(f"{p}_" for p in papers)))}
    starts = tuple(f"{paper}/" for paper in papers)
    found = {}
    for name, tree in trees().items():
        room = name.removeprefix("biaslab.")
        if package_of(name) != "biaslab" or room.startswith(_OF_PAPERS):
            continue
        texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        texts = {t for t in texts if t in known or (t.startswith(starts) and " " not in t)}
        if texts := texts - _NAMED.get(name, set()):
            found[name] = sorted(texts)
    assert found == {}


# -- guests --------------------------------------------------------------------------------------------------

# How code names the world, and what it brings.
_NAMES = re.compile(
    r"biaslab_world|mini-(sd|clip|detector|vqa|captioner|segmenter|skills)|([\"'`])mini\2", re.IGNORECASE
)
# Lists of English words and of what is also a name: there it is a word.
_WORDS = ROOT / "biaslab" / "lexicons" / "data"


def test_the_package_names_nothing_of_its_guests():
    kinds = {".py", ".yaml", ".json", ".html", ".j2", ".css", ".js"}
    files = [path for path in sorted((ROOT / "biaslab").rglob("*")) if path.suffix in kinds]
    assert len(files) > len(MODULES) / 2
    found = {
        path.relative_to(ROOT).as_posix(): sorted({match[0] for match in _NAMES.finditer(text)})
        for path in files
        if _NAMES.search(text := path.read_text(encoding="utf-8"))
    }
    words = {name for name in found if (ROOT / name).is_relative_to(_WORDS) and found[name] == ['"mini"']}
    assert {name: names for name, names in found.items() if name not in words} == {}


# -- what notebooks show -----------------------------------------------------------------------------------


def notebooks() -> list[Notebook]:
    """Return the project's notebooks, and those that installed packages bring."""
    return find_notebooks(ROOT / "notebooks", *(at / "notebooks" for at in plugins.notebook_folders().values()))


def calls(attribute: str) -> list[tuple[str, ast.Call]]:
    """Return each call of ``study.ATTRIBUTE(…)`` in a notebook, with the notebook's id."""
    found = []
    for notebook in notebooks():
        for node in ast.walk(ast.parse("\n".join(notebook.cells))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == attribute:
                found.append((notebook.id, node))
    return found


def words() -> set[str]:
    """Return the texts of one word in notebooks' code, and the tables that they take."""
    found = {word for n in notebooks() for word in re.findall(r"""["'](\w+)["']""", "\n".join(n.cells))}
    return found.union(*(n.used_tables for n in notebooks()))


def first_text(call: ast.Call) -> str | None:
    return call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None


# What a notebook saves, shows, answers and explains at most; one of ours, beyond a paper, at most twice that.
LIMITS = {"save": 5, "show": 4, "answer": 2, "words": 700}
# Of all notebooks together, and of those on custom prompts and images.
TABLES, FIGURES = 120, 103
CUSTOM = 13


def test_notebooks_can_be_read_in_one_sitting():
    counts = {one.id: dict.fromkeys(LIMITS, 0) for one in notebooks()}
    for kind in ("save", "show", "answer"):
        for notebook, _ in calls(kind):
            counts[notebook][kind] += 1
    for one in notebooks():
        cells = json.loads(one.path.read_text(encoding="utf-8"))["cells"]
        prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        counts[one.id]["words"] = sum(len(re.findall(r"[^\W\d_]{2,}", text)) for text in prose)
    over = {
        f"{notebook}: {n} of {kind}, allowed {allowed * times}"
        for notebook, found in counts.items()
        for times in (2 if notebook.startswith(("synthesis/", "custom/")) or "/beyond_" in notebook else 1,)
        for kind, allowed in LIMITS.items()
        if (n := found[kind]) > allowed * times
    }
    assert over == set()
    for kind, most in (("save", TABLES), ("show", FIGURES)):
        names = {first_text(call) for _, call in calls(kind)}
        own = {name for name in names if name and name.startswith("custom_")}
        assert len(names - own) <= most and len(own) <= CUSTOM


def test_notebooks_ask_for_settings_that_there_are():
    asked = set()
    for notebook in notebooks():
        code = notebook.path.read_text(encoding="utf-8")
        asked |= set(re.findall(r"study\.settings\.([a-z_.]*[a-z_])", code))
    assert asked
    for name in asked:
        attrgetter(name)(Settings())


def test_every_text_is_of_a_figure_that_a_notebook_shows():
    known = set(texts.figures())
    named = set()
    for notebook, call in calls("show"):
        options = {k.arg: k.value for k in call.keywords}
        given = options.get("text", call.args[0])
        # Of what is given in a dict, the text is among the words of the notebook.
        if None not in options:
            assert isinstance(given, ast.Constant), f"{notebook}: {ast.unparse(call)} names no text"
            named.add(given.value)
    assert named - known == set()
    assert known - words() == set()


def test_every_declared_table_is_saved_or_measured():
    saved = {first_text(call) for _, call in calls("save")}
    declared = set(tables.schemas())
    assert saved - {name for name, schema in tables.schemas().items() if schema.description} == set()
    # Results that a figure alone shows, and what a file of annotations holds, have no measure of their own.
    assert declared - saved - words() == {"paired_adherence", "ratings_input"}


def test_durations_are_not_taken_from_the_clock_that_can_be_set():
    # What is said of files goes by their times, and a server's date by ours.
    allowed = {
        "biaslab.cache.pruning",
        "biaslab.execution.progress",
        "biaslab.runs.execute",
        "biaslab.report.all_runs",
        "biaslab.endpoints.endpoint",
    }
    assert {name for name, path in MODULES.items() if "time.time()" in path.read_text(encoding="utf-8")} == allowed
