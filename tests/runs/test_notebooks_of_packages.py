"""Notebooks that installed packages bring, with the tables and texts that these save and show."""

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
    """Return a function that installs a package which brings notebooks, and returns its folder."""
    sites = []

    def installed(name="guest", *notebooks, code="", **files):
        site = tmp_path / "site" / name
        folder, told = site / name / "inner", site / f"{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        told.mkdir()
        (folder.parent / "__init__.py").touch()
        (folder / "__init__.py").write_text(code, encoding="utf-8")
        for key, text in files.items():
            (folder / f"{key}.yaml").write_text(text, encoding="utf-8")
        for notebook in notebooks:
            write_notebook(folder / "notebooks" / f"{notebook}.ipynb", PARAMETERS, title=f"Of {name}")
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        entry = f"[{plugins.NOTEBOOKS}]\n{name} = {name}.inner\n"
        (told / "entry_points.txt").write_text(entry, encoding="utf-8")
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


def load(project, *patterns, **given):
    return params.load(project / "params/mine.yaml", notebooks=patterns or ["guest/*", "paradox/*"], **given)


def ids(loaded):
    return [notebook.id for notebook in loaded.selected]


# -- notebooks ---------------------------------------------------------------------------------------------


def test_notebooks_of_a_package_stand_beside_the_users(install, project, tmp_path, monkeypatch):
    folder = install("guest", "guest/1_first", "paradox/0_other")
    monkeypatch.chdir(tmp_path)
    loaded = load(project)
    # In the order of papers, and of names within one.
    assert ids(loaded) == ["paradox/0_other", "paradox/1_mine", "guest/1_first"]
    assert [notebook.title for notebook in loaded.selected] == ["Of guest", "Mine", "Of guest"]
    assert loaded.selected[0].path == folder / "notebooks/paradox/0_other.ipynb"
    # Its parameters are keys of the file, and its code is not loaded to say so.
    assert load(project, overrides=["guest_only=2"]).values == {"guest_only": 2}
    assert "guest.inner" not in sys.modules


def test_they_are_executed_where_a_pattern_asks_for_them(install, project, tmp_path):
    folder = install("guest", "guest/1_first")
    assert ids(load(project, "*")) == ["paradox/1_mine"]
    assert ids(load(project, "*", "g*")) == ["paradox/1_mine", "guest/1_first"]
    # Wherever the user's notebooks are.
    loaded = load(project, "g*", notebooks_dir=project / "notebooks")
    assert ids(loaded) == ["guest/1_first"]
    # So that `biaslab.io.places.project_root` is the user's project in its kernel as well; neither is told.
    assert loaded.selected[0].folder == project / "notebooks"
    private = runner._private_texts(loaded, jobs.plan(loaded), tmp_path / "outputs/mine")
    assert {str(project), str(folder.parents[1])} <= set(private)


@pytest.mark.long
def test_a_run_executes_them(install, project, tmp_path, monkeypatch, write_notebook):
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
    written = tables.read(tmp_path / "outputs/mine" / table["file"], "guest_shades")
    assert written.to_dict("records") == [{"model": "m", "shade": "grey", "depth": 3}]


def test_a_package_that_is_missing_is_named_and_hides_no_other(install, project, caplog):
    folder = install("guest", "guest/1_first")
    install("other", "other/1_first")
    folder.rename(folder.with_name("moved"))
    assert ids(load(project, "other/*", "paradox/*")) == ["paradox/1_mine", "other/1_first"]
    assert "The package guest.inner, which should contain the notebooks 'guest', is missing" in caplog.text


def test_no_code_of_a_package_runs_where_its_notebooks_are_looked_up(install, project):
    folder = install("guest", "guest/1_first")
    (folder.parent / "__init__.py").write_text("raise SystemExit(3)")
    assert ids(load(project)) == ["paradox/1_mine", "guest/1_first"]


# -- tables and texts --------------------------------------------------------------------------------------


def test_what_its_notebooks_save_and_show_is_declared(install):
    assert tables.schema("guest_shades").columns == ()
    own = set(tables.schemas())
    folder = install("guest", tables=TABLES, texts=TEXTS)
    assert set(tables.schemas()) == own | {"guest_shades"}
    declared = tables.schema("guest_shades")
    # A column of its own, one that papers share, and one of this table.
    assert declared.names == ["model", "shade", "depth"] and declared.keys == ["model", "shade"]
    assert texts.of_figure("guest_shades", {"level": "95%"}) == ("Shades", "Bars with 95% intervals.")
    # It counts for what was computed earlier.
    before = resume.declarations_digest()
    (folder / "tables.yaml").write_text(TABLES.replace("Shades", "Tints"), encoding="utf-8")
    assert resume.declarations_digest() != before


@pytest.mark.parametrize(
    ("name", "texts_of", "by"),
    [("guest_shades", "other_shades", "other.inner"), ("paradox_percent_female", "paradox_scatter", "biaslab")],
)
def test_what_two_packages_declare_is_refused(install, name, texts_of, by):
    if by != "biaslab":
        install("other", tables=TABLES, texts=TEXTS.replace("guest_shades", texts_of))
    install("guest", tables=TABLES.replace("guest_shades", name), texts=TEXTS.replace("guest_shades", texts_of))
    both = rf"({by} and guest\.inner|guest\.inner and {by}) both"
    with pytest.raises(InputError, match=rf"{both} declare the table '{name}'"):
        tables.schemas()
    with pytest.raises(InputError, match=rf"{both} contain a text for the figure '{texts_of}'"):
        texts.figures()


# -- what they take beyond measured tables -----------------------------------------------------------------

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


def test_a_package_says_what_its_notebooks_take_beyond_tables(install):
    install("guest", "guest/1_first", "guest/2_second", code=WORK)
    install("other", "guest/3_third")
    asked = ("guest/1_first", "guest/2_second", "guest/3_third", "paradox/4_baseline")
    found = [[work.pipeline for work in jobs.work(name, "the pipeline")] for name in asked]
    assert found == [["the pipeline"], [], [], []]
    # It is asked about its own notebooks alone.
    assert sys.modules["guest.inner"].asked == ["guest/1_first", "guest/2_second"]


def test_shares_of_a_run_compute_it(install):
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


def test_code_that_cannot_be_loaded_is_named(install):
    install("guest", "guest/1_first", code="import nothing_of_this_name")
    with pytest.raises(ParameterError, match=r"guest\.inner cannot be loaded as a package with notebooks.*nothing_of"):
        list(jobs.work("guest/1_first", None))
