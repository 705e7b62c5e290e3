"""No file uses a name that was replaced before version 0.1.0: of a module, command, option, setting or variable."""

import re
import subprocess

import pytest

from biaslab.schema import old_names

SUFFIXES = (".py", ".md", ".yaml", ".yml", ".toml", ".ipynb", ".j2", ".js", "Makefile", ".ci/run", ".ci/matrix")
# The table itself and its tests; the list of changes names old and new ones.
EXCEPTIONS = {
    "CHANGELOG.md",
    "biaslab/schema/old_names.toml",
    "tests/project/test_no_old_names.py",
    "tests/schema/test_old_columns.py",
    "tests/schema/test_old_names.py",
    "tests/test_commands.py",
}
# Packages that were renamed or split. ``biaslab.models`` is also a group of entry points, then without a module.
PACKAGES = ("ground", "keep", "judging", "net", "measures", "published")
MODULES = (
    rf"\bbiaslab[./]({'|'.join(PACKAGES)})\b",
    r"\bbiaslab[./]models[./]",
    r"\bbiaslab[./]papers[./](custom|precision|ratings|synthesis)\b",
    rf"\bfrom biaslab import [\w, ]*\b({'|'.join((*PACKAGES, 'models'))})\b",
)
# Settings whose old dotted name is also a function or a table of a paper, such as ``custom.benchmark``.
FUNCTIONS = {
    "captions.words",
    "custom.benchmark",
    "custom.prompts",
    "triplets.nouns",
    "triplets.professions",
    "triplets.triplets",
}


@pytest.fixture(scope="module")
def texts(root):
    git_process = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True)
    if git_process.returncode:
        pytest.skip("not a clone: git lists no files")
    names = [name for name in git_process.stdout.splitlines() if name.endswith(SUFFIXES) and name not in EXCEPTIONS]
    paths = [(name, root / name) for name in names]
    return {name: path.read_text(encoding="utf-8") for name, path in paths if path.is_file()}


def uses(texts, pattern):
    """Return the places of a pattern, as ``file: text``."""
    regex = re.compile(pattern)
    return [f"{name}: {match[0]}" for name, text in texts.items() for match in regex.finditer(text)]


@pytest.mark.parametrize("pattern", MODULES)
def test_no_file_uses_old_modules(texts, pattern):
    assert uses(texts, pattern) == []


def test_no_file_uses_old_settings(texts):
    old = {name for name in old_names.table("settings") if "." in name} - FUNCTIONS
    names = "|".join(sorted(map(re.escape, old), key=len, reverse=True))
    assert uses(texts, rf"(?<![\w./])({names})\b(?![\w(])") == []


def test_no_file_uses_old_commands(texts):
    commands = "|".join(old_names.table("commands"))
    assert uses(texts, rf"\bbiaslab ({commands})\b(?= [A-Z`\-]|`|$)") == []


def test_no_file_uses_old_options(texts):
    # Scripts of benchmarks and of the world's training have options of their own.
    of_commands = {name: text for name, text in texts.items() if not name.startswith(("benchmarks/", "world/"))}
    options = "|".join(sorted(old_names.table("options"), key=len, reverse=True))
    assert uses(of_commands, rf"(?<![\w-])({options})(?![\w-])(?=[ `\"'=])") == []


def test_no_file_uses_old_environment_variables(texts):
    texts = {
        name: text for name, text in texts.items() if name not in ("biaslab/io/places.py", "tests/io/test_places.py")
    }
    assert uses(texts, "|".join(old_names.table("environment"))) == []
