"""The site shows a notebook with the outputs of a run of the same code, and without outputs otherwise."""

import base64
import json
import runpy
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
ROOT = Path(__file__).parents[2]
PNG = base64.b64encode(b"an image").decode()
OUTPUTS = [
    {"output_type": "stream", "name": "stdout", "text": ["1 < 2\n"]},
    {"output_type": "execute_result", "data": {"text/html": ["<b>bold</b>\n\n<script>alert()</script>"]}},
    {
        "output_type": "display_data",
        "data": {"image/png": PNG},
        "metadata": {"image/png": {"alt": 'Shares "by" group.'}},
    },
]


def notebook(code, outputs=(), injected=False):
    parameters = {"cell_type": "code", "metadata": {"tags": ["injected-parameters"]}, "source": ["seed = 2"]}
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Shares\n", "How many?"]},
        *([parameters | {"outputs": []}] if injected else []),
        {"cell_type": "code", "metadata": {}, "source": [code], "outputs": list(outputs)},
    ]
    return json.dumps({"cells": cells})


@pytest.fixture
def page(tmp_path):
    """Return what makes the page of a notebook with some code; a run has executed ``shares()``."""
    hooks = runpy.run_path(str(ROOT / "docs/hooks.py"))
    hooks["_notebook"].__globals__["ROOT"] = tmp_path
    executed_path = tmp_path / "outputs/published/notebooks/custom/shares.ipynb"
    executed_path.parent.mkdir(parents=True)
    images = []

    def add_image(number, data):
        images.append(data)
        return f"shares-{number}.png"

    def make(code, outputs=OUTPUTS):
        executed_path.write_text(notebook("shares()", outputs, injected=True))
        path = tmp_path / "notebooks/custom/shares.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(notebook(code))
        return hooks["_notebook"](path, add_image), images

    return make


def test_page_of_executed_notebook_has_outputs_without_scripts(page):
    text, images = page("shares()")
    assert text.startswith("# Shares\n\n*The outputs are computed from the values that the papers print")
    assert '<pre class="output" data-search-exclude>1 &lt; 2</pre>' in text
    assert "<b>bold</b>" in text and "script" not in text and "seed = 2" not in text
    assert '<img src="shares-3.png" alt="Shares &quot;by&quot; group.">' in text and images == [b"an image"]


def test_page_of_changed_notebook_has_no_outputs(page):
    text, images = page("shares(2)")
    assert "*This page has no outputs:" in text and "```python\nshares(2)\n```" in text
    assert 'output"' not in text and images == []


def test_page_of_failed_notebook_has_no_outputs(page):
    error = {"output_type": "error", "ename": "TypeError", "evalue": "wrong", "traceback": ["wrong"]}
    text, images = page("shares()", [*OUTPUTS, error])
    assert "*This page has no outputs:" in text and "wrong" not in text and images == []
