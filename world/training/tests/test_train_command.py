"""``python -m training NAME`` passes its options on and prints its results."""

import subprocess
import sys
import types

import pytest

import training
from training.__main__ import main


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
    monkeypatch.setitem(training.TRAINERS, "mini-clip", "a_trainer")
    monkeypatch.chdir(tmp_path)
    return calls


def test_main_passes_options_and_prints_quality(trainings, capsys):
    assert main(["mini-clip", "--minutes", "2", "--seed", "5", "--no-progress"]) == 0
    (call,) = trainings
    assert str(call["folder"]) == "outputs/models/mini-clip" and call["steps"] == 7
    assert (call["minutes"], call["seed"], call["progress"]) == (2.0, 5, False) and "batch" not in call
    assert str(call["checkpoint"]) == "outputs/.train/mini-clip/state.pt"
    assert capsys.readouterr().out.splitlines() == ["accuracy: 0.9877", "outputs/models/mini-clip"]


@pytest.mark.parametrize("minutes", ["nan", "inf", "0", "-1"])
def test_main_invalid_minutes_are_refused(trainings, capsys, minutes):
    with pytest.raises(SystemExit):
        main(["mini-clip", f"--minutes={minutes}"])
    assert f"{minutes} is not a number of minutes above 0" in capsys.readouterr().err and not trainings


def test_main_existing_model_needs_overwrite(trainings, tmp_path, capsys):
    assert main(["mini-clip"]) == 0
    assert main(["mini-clip"]) == 2
    assert "is not empty. Continue with --resume, or start over with --overwrite." in capsys.readouterr().err
    assert main(["mini-clip", "--resume"]) == 0
    (tmp_path / "outputs/models/mini-clip/old").write_text("")
    assert main(["mini-clip", "--overwrite"]) == 0
    assert len(trainings) == 3 and not (tmp_path / "outputs/models/mini-clip/old").exists()


def test_main_unknown_model_suggests_nearest(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["mini-clp"]) == 2
    assert "no bundled model named 'mini-clp'. Did you mean 'mini-clip'" in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()


def test_help_lists_all_models(root):
    words = [sys.executable, "-m", "training", "--help"]
    output = subprocess.run(words, cwd=root / "world", capture_output=True, text=True, check=True).stdout
    # Names may be broken at their hyphens.
    assert all(name in output.replace("\n", "").replace(" ", "") for name in training.TRAINERS)
