"""The command line passes its arguments on, and reports the results."""

import argparse
import io
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
    ("is_reused", "more", "output"),
    [
        ([True, True], {"up_to_date": True}, "Nothing has changed since 2026-01-01T00:00:00Z: all results are up"),
        ([True, False], {}, "1 of 2 notebooks are up to date and were not executed."),
        ([False, False], {}, ""),
    ],
)
def test_run_reports_up_to_date_notebooks(tmp_path, write_notebook, monkeypatch, capsys, is_reused, more, output):
    write_notebook(tmp_path / "notebooks/paradox/a.ipynb", 'output_dir = ""\n')
    (tmp_path / "mine.yaml").write_text("run: mine\n")
    notebooks = [{"slug": f"paradox/{i}", "status": "ok", "kept": k} for i, k in enumerate(is_reused)]
    record = {"status": "ok", "problems": [], "ended": "2026-01-01T00:00:00Z", "notebooks": notebooks, **more}
    options_given = {}
    monkeypatch.setattr(runner, "run", lambda params, **options: options_given.update(options) or record)
    assert cli.main(["run", str(tmp_path / "mine.yaml"), "--force"]) == 0
    assert options_given["force"] is True and options_given["overwrite"] is False
    err = capsys.readouterr().err
    assert output in err if output else not err


@pytest.mark.long
def test_shards_together_compute_all_work(tmp_path, write_notebook, monkeypatch, capsys):
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

    def shard(text, status=0):
        assert cli.main(["shard", str(file), "--no-progress", "--shard", text]) == status
        output = capsys.readouterr()
        return output.err if status else output.out.splitlines()

    assert shard("0/2") == [
        "search: this shard is done; 1 of 2 chunks remain for other shards.",
        "When all shards have finished, start all of them again.",
    ]
    # This shard of the search is the last; the only piece of the indicators belongs to the other one.
    assert shard("1/2")[0] == "indicators: this shard is done; 1 of 1 chunks remain for other shards."
    assert shard("0/2") == [f"All work is done. To build the report: `biaslab run {file}`."]
    # With the notebook's own seed, the run finds it all.
    monkeypatch.setattr("biaslab.cache.result_cache._write", lambda *_: pytest.fail("computed again"))
    captions_found = Pipeline("mini", Settings.from_mapping(settings), seed=5, progress=False).captions()
    assert sorted(captions_found["indicator"]) == ["female", "female", "none", "none"]

    assert "The shard is 2/2; with n shards, it must be one of 0/n to n-1/n" in shard("2/2", 2)
    assert "--shard is 'half'; it must be I/N, for example 0/10" in shard("half", 2)
    file.write_text("run: mine\n")
    assert "have no work for shards. Set source to 'pipeline'." in shard("0/2", 2)


@pytest.mark.long
def test_command_with_closed_pipe_prints_no_error():
    words = [sys.executable, "-m", "biaslab.cli", "reference"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # As `| head -0` does, before anything is printed.
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), err) == (141, "")


def test_ctrl_c_prints_how_to_resume(monkeypatch, capsys):
    for name in ("biaslab.runs.params.load", "biaslab.reference.index"):
        monkeypatch.setattr(name, Mock(side_effect=KeyboardInterrupt))
    assert cli.main(["run", "mine.yaml"]) == 130
    resumes = "biaslab: stopped; finished results are cached; to resume, run the same command again.\n"
    assert capsys.readouterr() == ("", resumes)
    assert cli.main(["reference"]) == 130
    assert capsys.readouterr() == ("", "biaslab: stopped.\n")


def test_models_command_lists_installed_models(monkeypatch, capsys):
    models = pd.DataFrame({"name": ["mini-sd"], "kind": ["text-to-image"], "megabytes": [15.7]})
    monkeypatch.setattr("biaslab.hub.registry.installed", lambda: models)
    assert cli.main(["models"]) == 0
    assert capsys.readouterr().out.split() == ["name", "kind", "megabytes", "mini-sd", "text-to-image", "15.7"]


def test_completion_script_contains_commands(capsys):
    with pytest.raises(SystemExit) as exit_info:
        cli.main(["--completion", "bash"])
    assert exit_info.value.code == 0
    script = capsys.readouterr().out
    names = ("run", "compare", "export", "annotate", "cache", "purchases", "reference")
    assert all(f"_{name}_option_strings" in script for name in names)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "cp932", "utf-8"])
def test_main_prints_names_of_any_script_to_any_code_page(monkeypatch, encoding):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding=encoding))
    parser = argparse.ArgumentParser("program")
    parser.set_defaults(call=lambda _: print("Ärztin 医生 طبيبة \udcff end"))
    assert cli.main([], parser) == 0
    text = buffer.getvalue().decode(encoding)
    assert text.endswith(" ? end\n") and ("医生" in text) == (encoding in ("utf-8", "cp932"))
