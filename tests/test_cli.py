"""The command line hands over what it is given, and says what it did."""

import json
import subprocess
import sys
from unittest.mock import Mock

import pandas as pd
import pytest

from biaslab import cli
from biaslab.pipeline import Pipeline, Settings
from biaslab.runs import runner


@pytest.mark.parametrize(
    ("kept", "more", "said"),
    [
        ([True, True], {"up_to_date": True}, "Nothing has changed since 2026-01-01T00:00:00Z: all results"),
        ([True, False], {}, "1 of 2 notebooks are kept"),
        ([False, False], {}, ""),
    ],
)
def test_run_says_what_it_kept(tmp_path, write_notebook, monkeypatch, capsys, kept, more, said):
    write_notebook(tmp_path / "notebooks/paradox/a.ipynb", 'output_dir = ""\n')
    (tmp_path / "mine.yaml").write_text("run: mine\n")
    notebooks = [{"slug": f"paradox/{i}", "status": "ok", "kept": k} for i, k in enumerate(kept)]
    record = {"status": "ok", "problems": [], "ended": "2026-01-01T00:00:00Z", "notebooks": notebooks, **more}
    asked = {}
    monkeypatch.setattr(runner, "run", lambda params, **how: asked.update(how) or record)
    assert cli.main(["run", str(tmp_path / "mine.yaml"), "--again"]) == 0
    assert asked["again"] is True and asked["overwrite"] is False
    err = capsys.readouterr().err
    assert said in err if said else not err


@pytest.mark.long
def test_shares_of_a_run_are_computed_apart(tmp_path, write_notebook, monkeypatch, capsys):
    parameters = 'output_dir = ""\nsource = "published"\nmodel = "all"\nseed = 5\nsettings = {}\n'
    write_notebook(tmp_path / "notebooks/paradox/a.ipynb", parameters)
    (tmp_path / "images").mkdir()
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text("A nurse\nA garden\nShe is a nurse\n")
    captions = {"corpus": f"{tmp_path}/*.txt", "training_images": f"{tmp_path}/images"}
    captions |= {"occupations": ["nurse"], "approaches": ["naive"]}
    settings = {"captions": captions, "compute": {"cache": f"{tmp_path}/store"}}
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"run": "mine", "source": "pipeline", "model": "mini", "settings": settings}))

    def shard(share, status=0):
        assert cli.main(["shard", str(file), "--no-progress", "--of", share]) == status
        said = capsys.readouterr()
        return said.err if status else said.out.splitlines()

    assert shard("0/2") == [
        "search: this share is done; 1 of 2 pieces are left to the others.",
        "Start all shares once more when they have ended.",
    ]
    # This share of the search is the last; the only piece of the indicators is the other one's.
    assert shard("1/2")[0] == "indicators: this share is done; 1 of 1 pieces are left to the others."
    assert shard("0/2") == [f"Nothing is left: `biaslab run {file}` reads it all."]
    # With the notebook's own seed, the run finds it all.
    monkeypatch.setattr("biaslab.cache.result_cache._write", lambda *_: pytest.fail("computed again"))
    found = Pipeline("mini", Settings.of(settings), seed=5, progress=False).captions()
    assert sorted(found["indicator"]) == ["female", "female", "none", "none"]

    assert "share is 2/2; the shares of n are 0/n" in shard("2/2", 2)
    assert "--of is 'half'; it must be a share of a number" in shard("half", 2)
    file.write_text("run: mine\n")
    assert "make nothing that can be shared; set source to 'pipeline'." in shard("0/2", 2)


@pytest.mark.long
def test_a_reader_that_has_gone_ends_it_quietly():
    words = [sys.executable, "-m", "biaslab.cli", "published"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # As `| head -0` does, before anything is printed.
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), err) == (141, "")


def test_ctrl_c_says_how_to_go_on(monkeypatch, capsys):
    for name in ("biaslab.runs.params.load", "biaslab.reference.index"):
        monkeypatch.setattr(name, Mock(side_effect=KeyboardInterrupt))
    assert cli.main(["run", "mine.yaml"]) == 130
    goes_on = "biaslab: stopped; what had finished is kept, and the same command goes on from there.\n"
    assert capsys.readouterr() == ("", goes_on)
    assert cli.main(["published"]) == 130
    assert capsys.readouterr() == ("", "biaslab: stopped.\n")


def test_models_lists_them(monkeypatch, capsys):
    listed = pd.DataFrame({"name": ["mini-sd"], "kind": ["text-to-image"], "megabytes": [15.7]})
    monkeypatch.setattr("biaslab.hub.registry.installed", lambda: listed)
    assert cli.main(["models"]) == 0
    assert capsys.readouterr().out.split() == ["name", "kind", "megabytes", "mini-sd", "text-to-image", "15.7"]


def test_the_shell_is_told_the_commands(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--completion", "bash"])
    assert ended.value.code == 0
    script = capsys.readouterr().out
    assert all(f"_{name}_option_strings" in script for name in ("run", "compare", "export", "store", "models"))
