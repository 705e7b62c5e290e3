"""Only the package of judges reads the text of a judge's name."""

import ast
import importlib
from pathlib import Path

import biaslab
from biaslab.judges.registry import JUDGES

PREFIXES = {prefix for role in JUDGES.values() for prefix in role.judges if prefix.endswith(":")}
# Names of image models and of endpoints begin alike: these modules read the names of models.
OF_MODELS = {"generation/models.py", "endpoints/settings.py", "runs/audit.py"}


def modules():
    root = Path(biaslab.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith("judges/") and name not in OF_MODELS:
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def imported_values(node):
    """Return the values that a statement imports from the package of judges, or of endpoints."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(("biaslab.judges", "biaslab.endp")):
        return []
    module = importlib.import_module(node.module)
    return [getattr(module, alias.name, None) for alias in node.names]


def test_only_judges_package_reads_judge_prefixes():
    assert {"annotations:", "endpoint:", "fairface:", "grounded:", "mediapipe:", "plugin:", "vqa:"} <= PREFIXES
    reads = []
    for name, tree in modules():
        imports_judges = any(isinstance(n, ast.ImportFrom) and "judges" in f"{n.module}" for n in ast.walk(tree))
        for node in ast.walk(tree):
            values = [node.value] if isinstance(node, ast.Constant) else imported_values(node)
            reads += [(name, node.lineno, value) for value in values if isinstance(value, str) and value in PREFIXES]
            if imports_judges and isinstance(node, ast.Attribute) and node.attr == "prefix":
                reads.append((name, node.lineno, ".prefix"))
    assert reads == []
