"""The command line hands over what it is given, and says what it did."""

import json
import sys
import types

import pandas as pd
import pytest

from biaslab import cli, runs
from biaslab.mini import train


@pytest.fixture
def trainings(monkeypatch, tmp_path):
    """Return the calls that reach the trainer of a model, in an empty folder."""
    calls = []

    def trainer(folder, *, checkpoint, log, steps=7, **more):
        calls.append({"folder": folder, "checkpoint": checkpoint, "log": log, "steps": steps, **more})
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").write_text("weights")
        checkpoint.write_text("state")
        return {"accuracy": 0.98765}

    monkeypatch.setitem(sys.modules, "a_trainer", types.SimpleNamespace(train=trainer))
    monkeypatch.setitem(train.TRAINERS, "mini-clip", "a_trainer")
    monkeypatch.chdir(tmp_path)
    return calls


def test_train_hands_over_what_was_asked_and_prints_quality(trainings, tmp_path, capsys):
    assert cli.main(["train", "mini-clip", "--minutes", "2", "--seed", "5", "--no-progress"]) == 0
    (call,) = trainings
    assert str(call["folder"]) == "outputs/models/mini-clip" and call["steps"] == 7
    assert (call["minutes"], call["seed"], call["progress"]) == (2.0, 5, False) and "batch" not in call
    assert str(call["checkpoint"]) == "outputs/.train/mini-clip/state.pt"
    assert capsys.readouterr().out.splitlines() == ["accuracy: 0.9877", "outputs/models/mini-clip"]


def test_a_training_is_never_replaced_unasked(trainings, tmp_path, capsys):
    assert cli.main(["train", "mini-clip"]) == 0
    assert cli.main(["train", "mini-clip"]) == 2
    assert "is not empty. Go on with --resume, or start anew with --overwrite." in capsys.readouterr().err
    assert cli.main(["train", "mini-clip", "--resume"]) == 0
    (tmp_path / "outputs/models/mini-clip/old").write_text("")
    assert cli.main(["train", "mini-clip", "--overwrite"]) == 0
    assert len(trainings) == 3 and not (tmp_path / "outputs/models/mini-clip/old").exists()


def test_an_unknown_model_to_train_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "mini-clp"]) == 2
    assert "no embedded model named 'mini-clp'. Did you mean 'mini-clip'" in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()


def test_models_lists_them(monkeypatch, capsys):
    listed = pd.DataFrame({"name": ["mini-sd"], "kind": ["text-to-image"], "megabytes": [15.7]})
    monkeypatch.setattr("biaslab.models.embedded", lambda: listed)
    assert cli.main(["models"]) == 0
    assert capsys.readouterr().out.split() == [
        "name",
        "kind",
        "megabytes",
        "mini-sd",
        "text-to-image",
        "15.7",
    ]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            {"up_to_date": True, "kept": [True, True]},
            "Nothing has changed since 2026-01-01T00:00:00Z: all results",
        ),
        ({"kept": [True, False]}, "1 of 2 notebooks are kept"),
        ({"kept": [False, False]}, ""),
    ],
)
def test_run_says_what_it_kept(tmp_path, write_notebook, monkeypatch, capsys, record, said):
    write_notebook(tmp_path / "notebooks/paradox/a.ipynb", 'output_dir = ""\n')
    (tmp_path / "mine.yaml").write_text("run: mine\n")
    notebooks = [
        {"slug": f"paradox/{i}", "status": "ok", "kept": k} for i, k in enumerate(record.pop("kept"))
    ]
    whole = {
        "status": "ok",
        "problems": [],
        "ended": "2026-01-01T00:00:00Z",
        "notebooks": notebooks,
        **record,
    }
    asked = {}
    monkeypatch.setattr(
        runs, "run", lambda params, **more: asked.update(more) or json.loads(json.dumps(whole))
    )
    words = ["run", str(tmp_path / "mine.yaml"), "--notebooks-dir", str(tmp_path / "notebooks"), "--again"]
    assert cli.main(words) == 0
    assert asked["again"] is True and asked["overwrite"] is False
    err = capsys.readouterr().err
    assert said in err if said else not err
