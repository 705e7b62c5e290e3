"""Shared pieces of the tests."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def root() -> Path:
    """Return the project's folder."""
    return ROOT


@pytest.fixture
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
