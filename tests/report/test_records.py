"""Truncated, empty or foreign records of runs are reported by every reader."""

import json

import pytest

from biaslab import cli
from biaslab.errors import RunError
from biaslab.report import records
from biaslab.runs import compare

RUN = {"run": "mine", "title": "Mine", "status": "ok", "parameters": {}, "notebooks": [], "inputs": {}}
RUN |= {key: {} for key in ("seeds", "biaslab", "packages", "platform")}
NOTEBOOK = dict.fromkeys(("suffix", "variant", "status", "reason"), "") | {"id": "a", "slug": "a", "values": {}}
BROKEN = [
    ("", "is empty."),
    (json.dumps(RUN)[:-9], "is incomplete, or not JSON."),
    ("[]", "is not the record of a run: a list replaces a mapping."),
    ('{"name": "some-package", "version": 3}', "is not the record of a run: '"),
    (json.dumps(RUN | {"run": 3}), "'run' is 3."),
    (json.dumps(RUN | {"notebooks": {"a": 1}}), "'notebooks' is {'a': 1}."),
    (json.dumps(RUN | {"notebooks": [NOTEBOOK | {"values": 1}]}), "in notebooks, 'values' is 1."),
    (json.dumps(RUN | {"notebooks": [NOTEBOOK, {"id": "b"}]}), "in notebooks, 'suffix' is missing"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_read_invalid_record_is_named(tmp_path, text, message):
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunError) as error:
        records.read(tmp_path, needs={"notebooks": tuple(NOTEBOOK)}, fix="Wait.")
    error_text = str(error.value)
    assert (
        error_text.startswith(f"{tmp_path / 'run.json'} is") and message in error_text and error_text.endswith(" Wait.")
    )


def test_commands_name_invalid_record(tmp_path, write_notebook, capsys):
    outputs = tmp_path / "outputs"
    for name, text in (("mine", "[]"), ("other", json.dumps(RUN))):
        (outputs / name).mkdir(parents=True)
        (outputs / name / "run.json").write_text(text, encoding="utf-8")
    write_notebook(tmp_path / "notebooks/paradox/a.ipynb", 'source = "published"\n')
    (tmp_path / "mine.yaml").write_text("run: mine\n", encoding="utf-8")
    params = [str(tmp_path / "mine.yaml"), "--notebooks-dir", str(tmp_path / "notebooks"), "--no-progress"]
    for words, fix in (
        (["run", *params], "Choose another name with --set run=NAME, or replace the run with --overwrite."),
        (["compare", "mine", "other"], "Start the run again with --overwrite."),
        (["export", "mine"], "Start the run again with --overwrite."),
    ):
        assert cli.main([*words, "--outputs", str(outputs)]) == 2
        error_text = capsys.readouterr().err.strip()
        assert f"{outputs / 'mine' / 'run.json'} is not the record of a run: " in error_text and error_text.endswith(
            fix
        ), error_text
    with pytest.raises(RunError, match=r"record of a run: .*[Cc]hoose another name with --name"):
        compare._prepare(outputs / "mine", "Of two others")
    # Nothing was changed.
    assert (outputs / "mine" / "run.json").read_text(encoding="utf-8") == "[]"


def test_read_folder_or_missing_key_is_refused(tmp_path):
    (tmp_path / "run.json").mkdir()
    with pytest.raises(
        RunError,
        match=r"run\.json is a folder, a pipe or a device; specify a file, or move it away\. Start the run again",
    ):
        records.read(tmp_path)
    (tmp_path / "run.json").rmdir()
    (tmp_path / "run.json").write_bytes(b'{"run": "\xe9"}')
    with pytest.raises(RunError, match=r"run\.json is not UTF-8 \(line 1: byte 0xe9\)"):
        records.read(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    assert records.read(tmp_path) == RUN
    with pytest.raises(RunError, match=r"'sweep' is missing\. Wait\."):
        records.read(tmp_path, needs={"sweep": ()}, fix="Wait.")
