"""A run as one zip file: what is in it, and what is refused."""

import json
import zipfile
from pathlib import Path

import pytest

from biaslab import cli, export
from biaslab.errors import ParameterError, RunError


@pytest.fixture
def outputs(tmp_path):
    run = tmp_path / "outputs" / "mine"
    for name in (
        "tables/a.csv",
        "figures/a.png",
        "notebooks/paradox/4.ipynb",
        "measured/m.csv",
        ".parts/p.json",
    ):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(name.encode())
    (run / "index.html").write_text("<p>", encoding="utf-8")
    (run / "run.json").write_text(json.dumps({"run": "mine"}), encoding="utf-8")
    return tmp_path / "outputs"


def names(path):
    with zipfile.ZipFile(path) as packed:
        assert packed.testzip() is None
        return sorted(packed.namelist())


def test_what_a_reader_needs_is_in_it_and_the_stages_are_not(outputs, capsys):
    assert cli.main(["export", "mine", "--outputs", str(outputs)]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == outputs / "mine.zip"
    inside = (
        "README.txt",
        "figures/a.png",
        "index.html",
        "measured/m.csv",
        "notebooks/paradox/4.ipynb",
        "run.json",
        "tables/a.csv",
    )
    assert names(path) == [f"mine/{name}" for name in inside]
    with zipfile.ZipFile(path) as packed:
        assert packed.read("mine/tables/a.csv") == b"tables/a.csv"
    # The same run gives the same bytes.
    first = path.read_bytes()
    assert export.export(outputs / "mine", to=path).read_bytes() == first


@pytest.mark.parametrize("form", ["{}/data/x.csv", "file://{}/x", '"{}"'])
def test_a_file_that_names_a_folder_of_this_machine_is_refused(outputs, form):
    (outputs / "mine" / "tables" / "a.csv").write_text("path\n" + form.format(Path.home()), encoding="utf-8")
    with pytest.raises(RunError, match=r"tables/a\.csv names"):
        export.export("mine", outputs=outputs)
    assert not list(outputs.glob("*.zip*"))


def test_links_out_of_the_run_are_left_out(outputs, tmp_path):
    (tmp_path / "secret.csv").write_text("secret", encoding="utf-8")
    (outputs / "mine" / "tables" / "link.csv").symlink_to(tmp_path / "secret.csv")
    assert "mine/tables/link.csv" not in names(export.export("mine", outputs=outputs))


def test_a_run_that_is_not_there(outputs):
    with pytest.raises(ParameterError, match=r"no run 'mein'.*mine"):
        export.export("mein", outputs=outputs)


@pytest.mark.parametrize("name", ["mine/index.html", "mine", "other.zip", "notes.txt"])
def test_an_export_replaces_an_export_and_nothing_else(outputs, name):
    with zipfile.ZipFile(outputs / "other.zip", "w") as packed:
        packed.writestr("README.txt", "mine")
    (outputs / "notes.txt").write_text("mine")
    target = outputs / name
    before = target.read_bytes() if target.is_file() else sorted(target.iterdir())
    with pytest.raises(ParameterError, match=r"is there already and is no export of biaslab.* with --to\."):
        export.export("mine", outputs=outputs, to=target)
    assert before == (target.read_bytes() if target.is_file() else sorted(target.iterdir()))
    first = export.export("mine", outputs=outputs)
    assert export.export("mine", outputs=outputs) == first
    (outputs / "link.zip").symlink_to(first)
    with pytest.raises(ParameterError, match="is there already"):
        export.export("mine", outputs=outputs, to=outputs / "link.zip")
