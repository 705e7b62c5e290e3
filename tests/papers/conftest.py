"""Shared pieces of the tests of the papers' rooms."""

import json

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def drawn(plain_look):
    """Give every test here matplotlib's own look, and leave no figure open."""


@pytest.fixture
def notebook(root, tmp_path, monkeypatch):
    """Return a function that runs a notebook's cells with other parameters in this process and returns its records.

    Results are in the folder of the notebook's name in ``tmp_path``; figures are drawn and not written: what is written
    is tested with the study.
    """
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
