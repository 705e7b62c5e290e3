"""Export of a run as one zip file: its contents, and files that are refused."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from biaslab import cli
from biaslab.analyses.custom import prompts as custom_prompts
from biaslab.errors import ParameterError, RunError
from biaslab.io import reading
from biaslab.runs import export

FILES = ("tables/a.csv", "figures/a.png", "notebooks/paradox/4.ipynb", "notebooks/paradox/4.html", "measured/m.csv")
FILES += ("prompts.csv", "images.csv")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def record(run, **more):
    """Write the record of a run with :data:`FILES`, as runs leave it."""
    of_notebooks = [name for name in FILES if name.startswith("notebooks")]
    notebook = dict(zip(("notebook", "html"), of_notebooks, strict=True))
    files = reading.digests(run, [run / name for name in FILES if name not in of_notebooks])
    whole = {"run": "mine", "notebooks": [notebook], "files": {**files, "index.html": ""}, **more}
    (run / "run.json").write_text(json.dumps(whole), encoding="utf-8")


@pytest.fixture
def outputs(tmp_path):
    run = tmp_path / "outputs" / "mine"
    for name in (*FILES, "index.html", ".parts/p.json"):
        write(run / name, name)
    record(run)
    return tmp_path / "outputs"


def assert_refused(outputs, name, text, message):
    """Check that a run is not exported with a text in one of its files."""
    write(outputs / "mine" / name, text)
    record(outputs / "mine")
    with pytest.raises(RunError, match=message) as error:
        export.export("mine", outputs=outputs)
    assert not list(outputs.glob("*.zip*"))
    return str(error.value)


def names(path):
    with zipfile.ZipFile(path) as packed:
        assert packed.testzip() is None
        return sorted(packed.namelist())


def sent(*files):
    """Return what a zip file of a run holds with some files of its folder, in order."""
    return sorted(f"mine/{name}" for name in ("README.txt", "index.html", "run.json", *files))


def test_export_contains_results_only_and_is_reproducible(outputs, capsys):
    assert cli.main(["export", "mine", "--outputs", str(outputs)]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == outputs / "mine.zip" and names(path) == sent(*FILES)
    with zipfile.ZipFile(path) as packed:
        assert packed.read("mine/tables/a.csv") == b"tables/a.csv"
    # The same run gives the same bytes.
    first = path.read_bytes()
    assert export.export(outputs / "mine", output=path).read_bytes() == first
    # No other file is created or changed, not even the target of a link with a predictable name.
    (outputs / "theirs").write_bytes(b"theirs")
    (outputs / "mine.zip.part").symlink_to("theirs")
    files_before = sorted(outputs.iterdir())
    export.export(outputs / "mine", output=path)
    assert sorted(outputs.iterdir()) == files_before and (outputs / "theirs").read_bytes() == b"theirs"


def test_export_local_path_in_file_is_refused(outputs, monkeypatch):
    monkeypatch.setenv("BIASLAB_CACHE", "/opt/elsewhere/store")
    for folder in (f"{Path.home()}/x", outputs, Path(export.__file__).parents[1], Path.cwd(), "/opt/elsewhere/store"):
        said = assert_refused(
            outputs, "tables/a.csv", f"\0({folder}/x)", r"tables/a\.csv contains .*, a folder of this machine"
        )
        assert "--force" in said
    # As escaped in pages, notebooks and URLs.
    monkeypatch.setenv("HOME", "/data/people/jo & \u00e9va")
    for text in (
        "/data/people/jo &amp; \u00e9va/x",
        "/data/people/jo & \\u00e9va/x",
        "/data/people/jo%20%26%20%C3%A9va/x",
    ):
        assert_refused(outputs, "tables/a.csv", text, r"tables/a\.csv contains /data/people/jo & ")
    # Other paths are allowed.
    write(outputs / "mine" / "tables" / "a.csv", "see /usr/lib/python3, https://example.org/home/Alice")
    record(outputs / "mine")
    assert export.export("mine", outputs=outputs).exists()


def test_export_environment_key_is_refused(outputs, monkeypatch):
    for variable, more in (
        ("OPENAI_API_KEY", {}),
        ("OURS", {"parameters": {"settings": {"endpoint.api_key_env": "OURS"}}}),
    ):
        monkeypatch.setenv(variable, key := "sk-test-5f0e1d2c+x")
        write(outputs / "mine" / "tables" / "a.csv", f"said {key}.")
        record(outputs / "mine", **more)
        with pytest.raises(RunError, match=rf"tables/a\.csv contains the key .* {variable}") as error:
            export.export("mine", outputs=outputs)
        assert key not in str(error.value)
        monkeypatch.delenv(variable)


def test_export_contains_recorded_files_only(outputs, tmp_path):
    run = outputs / "mine"
    unlisted_files = [
        "notebooks/.env",
        "notebooks/id_rsa",
        "notebooks/paradox/.ipynb_checkpoints/4.ipynb",
        "tables/more.csv",
    ]
    for name in (*unlisted_files, "figures/..\\..\\x.csv", "tables/..\\x.csv"):
        write(run / name, "secret")
    record(run)
    assert names(export.export("mine", outputs=outputs)) == sent(*FILES)
    # Nor files that a changed record names.
    whole = json.loads((run / "run.json").read_text(encoding="utf-8"))
    write(outputs / "x.csv", "secret")
    paths = ["../x.csv", "figures/../../x.csv", ".parts/p.json", *unlisted_files[:1], "figures/..\\..\\x.csv"]
    whole["notebooks"] += [{"notebook": path, "html": 5} for path in paths]
    write(run / "run.json", json.dumps(whole))
    assert names(export.export("mine", outputs=outputs)) == sent(*FILES)
    # Nor targets of links.
    (run / "figures" / "a.png").unlink()
    (run / "figures" / "a.png").symlink_to(outputs / "x.csv")
    assert names(export.export("mine", outputs=outputs)) == sent(*FILES[:1], *FILES[2:])


@pytest.mark.parametrize("name", ["tables/a.csv", "measured/m.csv"])
def test_export_changed_table_is_refused(outputs, name):
    write(outputs / "mine" / name, name[:-1])
    with pytest.raises(RunError, match=f"{name} was changed since the run ended"):
        export.export("mine", outputs=outputs)
    assert not list(outputs.glob("*.zip*"))


PROMPTS = ("a nurse at work", "a pilot at work", "'Two' pilots")


def test_exported_run_is_repeatable_without_models(tmp_path, root, monkeypatch, inline):
    """Of images of folders, judged by annotations: neither is at hand where the run is repeated, nor named."""
    models, given = ("one", "two"), tmp_path / "The clients" / "acme & co"
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("BIASLAB_CACHE", str(tmp_path / "store"))
    for seed, model in enumerate(models):
        (given / model).mkdir(parents=True)
        rows = {
            "file": [f"{k}.png" for k in range(6)],
            "prompt": list(PROMPTS) * 2,
            "group": ["nurse", *["pilot"] * 2] * 2,
        }
        pd.DataFrame(rows).to_csv(given / model / "told.csv", index=False)
        for k, name in enumerate(rows["file"]):
            pixels = np.random.default_rng(6 * seed + k).integers(0, 256, (5, 4, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(given / model / name)
    said = pd.DataFrame({"image_id": rows["file"], "gender": ["female", "male"] * 3})
    said.to_csv(given / "r.csv", index=False)
    options = ["--notebooks-dir", str(root / "notebooks"), "--no-progress", "--set", "notebooks=[custom/shares]"]
    options += ["--set", "bootstrap_replicates=200"]
    audit_options = ["--set", f"judging.gender=annotations:{given}/r.csv", "--name", "mine"]
    assert cli.main(["audit", *(f"images:{given}/{model}" for model in models), *audit_options, *options]) == 0
    zipped = export.export("mine").absolute()
    # Somewhere else, without images and annotations.
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    with zipfile.ZipFile(zipped) as packed:
        packed.extractall()
        for name in packed.namelist():
            text = packed.read(name).decode("utf-8", errors="replace")
            assert not any(private in text for private in (str(tmp_path), "The clients", "acme")), name
    shutil.rmtree(given)
    repeat_options = ["--set", "source=mine", "--set", "model=all", "--set", "settings={}"]
    assert cli.main(["run", "mine/params.yaml", *options, *repeat_options]) == 0
    repeated = {path.name: path.read_bytes() for path in Path("outputs/mine/tables").iterdir()}
    assert repeated == {path.name: path.read_bytes() for path in Path("mine/tables").iterdir()} and repeated
    # The prompts can be used with another model, and each image is listed with its prompt.
    assert custom_prompts.prompts("mine/prompts.csv", 1)[
        ["text", "group", "n_images", "people"]
    ].to_numpy().tolist() == [[prompt, group, 2, 1] for prompt, group in zip(PROMPTS, rows["group"][:3], strict=True)]
    images = pd.read_csv("mine/images.csv")
    assert images["model"].tolist() == list(np.repeat(models, 6)) and set(images["image_id"]) == set(rows["file"])
    prompt_rows = pd.read_csv("mine/prompts.csv").set_index("prompt_id")
    assert set(prompt_rows["model"]) == {", ".join(models)} and set(images["prompt_id"]) == set(prompt_rows.index)


def test_export_comparison_contains_its_tables(outputs):
    run = outputs / "mine"
    write(run / "run.json", json.dumps({"run": "mine", "kind": "comparison", "tables": [{"file": "tables/a.csv"}]}))
    assert names(export.export("mine", outputs=outputs)) == sent("tables/a.csv")


@pytest.mark.parametrize("name", ["mine/index.html", "mine", "other.zip", "link.zip"])
def test_export_overwrites_only_exports(outputs, name):
    with zipfile.ZipFile(outputs / "other.zip", "w") as packed:
        packed.writestr("README.txt", "mine")
    first = export.export("mine", outputs=outputs)
    assert export.export("mine", outputs=outputs) == first
    (outputs / "link.zip").symlink_to(first)
    target = outputs / name
    files_before = target.read_bytes() if target.is_file() else sorted(target.iterdir())
    with pytest.raises(ParameterError, match=r"exists and is not an export written by biaslab.* with --output\."):
        export.export("mine", outputs=outputs, output=target)
    assert files_before == (target.read_bytes() if target.is_file() else sorted(target.iterdir()))
