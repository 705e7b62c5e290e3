"""Notebooks of installed packages, with the tables and texts that they declare."""

import sys
from unittest.mock import Mock

import pytest

from biaslab import plugins
from biaslab.cache.result_cache import UnfinishedError
from biaslab.errors import InputError, MissingInputError, ParameterError
from biaslab.plots import texts
from biaslab.runs import jobs, params, resume, runner, shards
from biaslab.schema import tables

PARAMETERS = 'output_dir = ""\nsource = "published"\nmodel = "all"\nguest_only = 1'
TABLES = """
columns:
  shade: {is: A shade., key: true}
meanings:
  depth: How deep.
tables:
  guest_shades:
    title: Shades
    description: A row a shade.
    columns: [model, shade, {depth: {is: Its depth., unit: points}}]
"""
TEXTS = "figures:\n  guest_shades: {title: Shades, caption: 'Bars with {level} intervals.'}\n"


@pytest.fixture
def install(tmp_path, monkeypatch, write_notebook):
    """Return a function that installs a package with notebooks and returns its folder."""
    sites = []

    def installed(name="guest", *notebooks, code="", **files):
        site = tmp_path / "site" / name
        folder, metadata_folder = site / name / "inner", site / f"{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        metadata_folder.mkdir()
        (folder.parent / "__init__.py").touch()
        (folder / "__init__.py").write_text(code, encoding="utf-8")
        for key, text in files.items():
            (folder / f"{key}.yaml").write_text(text, encoding="utf-8")
        for notebook in notebooks:
            write_notebook(folder / "notebooks" / f"{notebook}.ipynb", PARAMETERS, title=f"Of {name}")
        (metadata_folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
        )
        entry = f"[{plugins.NOTEBOOKS}]\n{name} = {name}.inner\n"
        (metadata_folder / "entry_points.txt").write_text(entry, encoding="utf-8")
        monkeypatch.syspath_prepend(site)
        sites.append(name)
        return folder

    yield installed
    for module in [module for module in sys.modules if module.split(".")[0] in sites]:
        del sys.modules[module]


@pytest.fixture
def project(tmp_path, write_notebook):
    """A user's folder with one notebook."""
    root = tmp_path / "project"
    (root / "params").mkdir(parents=True)
    write_notebook(root / "notebooks/paradox/1_mine.ipynb", PARAMETERS.replace("guest_only", "mine"), title="Mine")
    (root / "params/mine.yaml").write_text("run: mine\n", encoding="utf-8")
    return root


def load(project, *patterns, **options):
    return params.load(project / "params/mine.yaml", notebooks=patterns or ["guest/*", "paradox/*"], **options)


def ids(loaded):
    return [notebook.id for notebook in loaded.selected]


# -- notebooks ---------------------------------------------------------------------------------------------


def test_load_merges_package_and_user_notebooks(install, project, tmp_path, monkeypatch):
    folder = install("guest", "guest/1_first", "paradox/0_other")
    monkeypatch.chdir(tmp_path)
    loaded = load(project)
    # In the order of papers, and of names within one.
    assert ids(loaded) == ["paradox/0_other", "paradox/1_mine", "guest/1_first"]
    assert [notebook.title for notebook in loaded.selected] == ["Of guest", "Mine", "Of guest"]
    assert loaded.selected[0].path == folder / "notebooks/paradox/0_other.ipynb"
    # Its parameters are keys of the file, and its code is not imported for this.
    assert load(project, overrides=["guest_only=2"]).values == {"guest_only": 2}
    assert "guest.inner" not in sys.modules


def test_package_notebooks_require_matching_pattern(install, project, tmp_path):
    folder = install("guest", "guest/1_first")
    assert ids(load(project, "*")) == ["paradox/1_mine"]
    assert ids(load(project, "*", "g*")) == ["paradox/1_mine", "guest/1_first"]
    # Wherever the user's notebooks are.
    loaded = load(project, "g*", notebooks_dir=project / "notebooks")
    assert ids(loaded) == ["guest/1_first"]
    # So that `biaslab.io.places.project_root` is the user's project in its kernel as well; both are redacted.
    assert loaded.selected[0].folder == project / "notebooks"
    private = runner._private_texts(loaded, jobs.plan(loaded), tmp_path / "outputs/mine")
    assert {str(project), str(folder.parents[1])} <= set(private)


@pytest.mark.long
def test_run_executes_package_notebook(install, project, tmp_path, monkeypatch, write_notebook):
    folder = install("guest", tables=TABLES, texts=TEXTS)
    write_notebook(
        folder / "notebooks/guest/1_first.ipynb",
        PARAMETERS,
        "import pandas as pd\nfrom pathlib import Path\nfrom biaslab.io import places\nfrom biaslab.study import Study",
        "study = Study(output_dir)\nrow = {'model': 'm', 'shade': 'grey', 'depth': 3}",
        "study.save('guest_shades', pd.DataFrame([row]))",
        f"assert places.project_root() == Path({str(project)!r})",
    )
    # The kernel is another process.
    monkeypatch.setenv("PYTHONPATH", str(folder.parents[1]))
    record = runner.run(load(project, "guest/*"), outputs=tmp_path / "outputs", progress=False)
    assert record["status"] == "ok", record["notebooks"]
    (table,) = record["tables"]
    assert (table["name"], table["title"]) == ("guest_shades", "Shades")
    saved_table = tables.read(tmp_path / "outputs/mine" / table["file"], "guest_shades")
    assert saved_table.to_dict("records") == [{"model": "m", "shade": "grey", "depth": 3}]


def test_load_missing_package_is_logged_and_skipped(install, project, caplog):
    folder = install("guest", "guest/1_first")
    install("other", "other/1_first")
    folder.rename(folder.with_name("moved"))
    assert ids(load(project, "other/*", "paradox/*")) == ["paradox/1_mine", "other/1_first"]
    assert "The package guest.inner, which should contain the notebooks 'guest', is missing" in caplog.text


def test_load_does_not_import_package(install, project):
    folder = install("guest", "guest/1_first")
    (folder.parent / "__init__.py").write_text("raise SystemExit(3)")
    assert ids(load(project)) == ["paradox/1_mine", "guest/1_first"]


# -- tables and texts --------------------------------------------------------------------------------------


def test_package_tables_and_texts_are_declared(install):
    assert tables.schema("guest_shades").columns == ()
    own_tables = set(tables.schemas())
    folder = install("guest", tables=TABLES, texts=TEXTS)
    assert set(tables.schemas()) == own_tables | {"guest_shades"}
    declared = tables.schema("guest_shades")
    # A column of its own, one that papers share, and one of this table.
    assert declared.names == ["model", "shade", "depth"] and declared.keys == ["model", "shade"]
    assert texts.of_figure("guest_shades", {"level": "95%"}) == ("Shades", "Bars with 95% intervals.")
    # It counts for what was computed earlier.
    earlier_digest = resume.declarations_digest()
    (folder / "tables.yaml").write_text(TABLES.replace("Shades", "Tints"), encoding="utf-8")
    assert resume.declarations_digest() != earlier_digest


@pytest.mark.parametrize(
    ("name", "texts_of", "by"),
    [("guest_shades", "other_shades", "other.inner"), ("paradox_percent_female", "paradox_scatter", "biaslab")],
)
def test_duplicate_declarations_are_refused(install, name, texts_of, by):
    if by != "biaslab":
        install("other", tables=TABLES, texts=TEXTS.replace("guest_shades", texts_of))
    install("guest", tables=TABLES.replace("guest_shades", name), texts=TEXTS.replace("guest_shades", texts_of))
    both = rf"({by} and guest\.inner|guest\.inner and {by}) both"
    with pytest.raises(InputError, match=rf"{both} declare the table '{name}'"):
        tables.schemas()
    with pytest.raises(InputError, match=rf"{both} contain a text for the figure '{texts_of}'"):
        texts.figures()


# -- inputs other than measured tables ----------------------------------------------------------------------

WORK = """
asked = []

class Work:
    generators = ()

    def __init__(self, pipeline):
        self.pipeline = pipeline

    def stages(self):
        return [self.pipeline.first, self.pipeline.second]

def work(notebook, pipeline):
    asked.append(notebook)
    return Work(pipeline) if notebook == "guest/1_first" else None
"""


def test_work_is_queried_from_owning_package(install):
    install("guest", "guest/1_first", "guest/2_second", code=WORK)
    install("other", "guest/3_third")
    notebook_ids = ("guest/1_first", "guest/2_second", "guest/3_third", "paradox/4_baseline")
    works = [[work.pipeline for work in jobs.work(name, "the pipeline")] for name in notebook_ids]
    assert works == [["the pipeline"], [], [], []]
    # It is called with its own notebooks only.
    assert sys.modules["guest.inner"].asked == ["guest/1_first", "guest/2_second"]


def test_compute_pipeline_runs_package_work(install):
    install("guest", "guest/1_first", code=WORK)
    work = Mock(
        **{"first.side_effect": UnfinishedError("it is left"), "second.side_effect": MissingInputError("None.")}
    )
    work.has_captions = False
    pipeline = Mock(**{"shard.return_value": work})
    left = shards.compute_pipeline(
        pipeline, ["triplets_objects_of_none"], (1, 3), {"paradox/4_baseline", "guest/1_first"}
    )
    assert left == ["it is left"]
    pipeline.shard.assert_called_with(1, 3)
    work.first.assert_called_once_with()
    work.second.assert_called_once_with()


def test_work_import_error_names_package(install):
    install("guest", "guest/1_first", code="import nothing_of_this_name")
    with pytest.raises(ParameterError, match=r"guest\.inner cannot be loaded as a package with notebooks.*nothing_of"):
        list(jobs.work("guest/1_first", None))
