"""Analyses that a study caches for other notebooks are computed once, and again after changes of their inputs."""

import json

import pandas as pd
import pytest

from biaslab.cache import code_digest
from biaslab.errors import InputError, MissingInputError, ParameterError, UnknownNameError
from biaslab.papers import paired, paradox
from biaslab.schema import tables
from biaslab.study import Study


@pytest.fixture
def analysis(monkeypatch):
    """Return an analysis that counts how often it is computed, and whose code is of a version."""
    computed = []

    def fake_analysis(frame, other=None, *, seed=0):
        computed.append(seed)
        return pd.DataFrame({"n": [len(frame)], "name": ["a"], "seed": [seed]})

    fake_analysis.computed, fake_analysis.version = computed, 1
    monkeypatch.setattr(code_digest, "digest", lambda work, **_: f"{work.__name__} {work.version}")
    return fake_analysis


FRAME = pd.DataFrame({"x": [1.5, 2.5], "word": ["a", "b"]})


def test_memoize_computes_once_per_run(tmp_path, analysis):
    parts = tmp_path / "mine/.parts"
    first = Study(parts / "paradox/a").memoize(analysis, FRAME, seed=3)
    again = Study(parts / "synthesis/b").memoize(analysis, FRAME.copy(), seed=3)
    assert analysis.computed == [3]
    pd.testing.assert_frame_equal(first, again)
    assert len(list((parts / ".cache").glob("fake_analysis-*.parquet"))) == 1
    # Outside a run, a notebook uses a cache in its own folder.
    Study(tmp_path / "alone").memoize(analysis, FRAME, seed=3)
    assert analysis.computed == [3, 3]


def test_memoize_recomputes_after_changes(tmp_path, analysis):
    study = Study(tmp_path)

    def new(*frames, **options):
        n_before = len(analysis.computed)
        study.memoize(analysis, *frames, **options)
        return len(analysis.computed) > n_before

    assert new(FRAME) and not new(FRAME)
    # The last of these differs by less than a table is written with.
    for other in (FRAME.rename(columns={"x": "y"}), FRAME.iloc[::-1], FRAME.assign(x=[1.5, 2.5 + 1e-12])):
        assert new(other) and not new(other)
    assert new(FRAME, FRAME) and not new(FRAME, FRAME)
    assert new(FRAME, seed=1) and not new(FRAME, seed=1)
    for analysis.version, again in ((2, True), (1, False)):
        assert new(FRAME) is again and not new(FRAME)


def test_memoize_recomputes_damaged_cache(tmp_path):
    study = Study(tmp_path)
    shares = study.load(paradox.percent_female)
    expected = paradox.share_intervals(shares, confidence=0.9)
    for _ in range(2):
        pd.testing.assert_frame_equal(study.memoize(paradox.share_intervals, shares, confidence=0.9), expected)
    (path,) = (tmp_path / ".cache").glob("*.parquet")
    whole = path.read_bytes()
    for damaged in (whole[:-5], whole[:100] + b"x" + whole[101:], b""):
        path.write_bytes(damaged)
        pd.testing.assert_frame_equal(study.memoize(paradox.share_intervals, shares, confidence=0.9), expected)
        assert path.read_bytes() == whole


def test_memoize_passes_seed_and_confidence_of_study(tmp_path):
    def draws_of_study(frame, *, seed, confidence=0.5):
        return pd.DataFrame({"seed": [seed], "confidence": [confidence]})

    study = Study(tmp_path, seed=7, replicates=200, confidence=0.9)
    assert study.memoize(draws_of_study, FRAME).iloc[0].to_dict() == {"seed": 7, "confidence": 0.9}
    assert study.memoize(draws_of_study, FRAME, confidence=0.8).iloc[0].to_dict() == {"seed": 7, "confidence": 0.8}
    with pytest.raises(ParameterError, match="confidence is 95"):
        Study(tmp_path, confidence=95)


def test_from_parameters_uses_parameters_cell(tmp_path):
    cell = {"output_dir": tmp_path, "seed": 7, "bootstrap_replicates": 200, "confidence": 0.9, "pd": pd, "_i1": "cell"}
    study = Study.from_parameters(cell)
    assert study.draws == {"seed": 7, "replicates": 200, "confidence": 0.9} and study.output_dir == tmp_path
    assert Study.from_parameters({"output_dir": tmp_path}).draws == Study(tmp_path).draws
    with pytest.raises(ParameterError, match="confidence is 95"):
        Study.from_parameters(cell | {"confidence": 95})


def test_table_uses_declaration_of_its_name(tmp_path):
    study = Study(tmp_path)
    saved_table = study.save("paradox_percent_female", study.load(paradox.percent_female))
    (share,) = study.table(saved_table[saved_table["model"] == "SD 1.4"], "percent_female").columns
    assert (share.heading, share.numeric) == ("female (%)", True)
    with pytest.raises(ParameterError, match="name="):
        study.table(FRAME)
    assert [column.heading for column in study.table(FRAME, name="my_table").columns] == ["x", "word"]


def test_save_and_show_accept_custom_names(tmp_path):
    import matplotlib.pyplot as plt

    study = Study(tmp_path)
    frame = pd.DataFrame({"what": ["b", "a"], "number": [2.5, None]})
    pd.testing.assert_frame_equal(study.save("my_table", frame), frame)
    assert (study.output_dir / "tables/my_table.csv").read_text() == "what,number\nb,2.5\na,\n"
    figure, ax = plt.subplots()
    ax.plot([1, 2])
    study.show("my_figure", figure, title="Mine", caption="A line.")
    (record,) = json.loads((tmp_path / "records.json").read_text())["figures"]
    assert (record["name"], record["title"], record["caption"]) == ("my_figure", "Mine", "A line.")
    # A table with a declared name must follow its declaration, in that order of columns.
    shares = study.load(paradox.percent_female)
    saved_table = study.save("paradox_percent_female", shares[shares.columns[::-1]].assign(note="x"))
    assert list(saved_table) == [*shares.columns, "note"]
    with pytest.raises(InputError):
        study.save("paradox_percent_female", shares.assign(percent_female=101.0))
    with pytest.raises(UnknownNameError, match="paradox_amplificaton"):
        study.save("paradox_amplificaton", frame)
    with pytest.raises(ParameterError, match="lower-case words"):
        study.save("../up", frame)


def test_repr_names_inputs_without_local_paths(tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "rated.csv").write_text("a\n")
    for arguments in (
        {},
        {"source": str(tmp_path)},
        {"source": "annotations", "annotations": str(tmp_path / "rated.csv")},
        {"source": "pipeline", "model": str(tmp_path)},
    ):
        text = repr(Study(tmp_path / "out", **arguments))
        assert str(tmp_path.parent) not in text and "/tmp" not in text, text
    text = repr(Study(tmp_path / "mine/.parts/paradox/a", seed=7))
    assert text.partition("\n")[2] == "  model   all\n  seed    7\n  results mine"


def test_load_missing_optional_table_is_empty(tmp_path, capsys):
    study = Study(tmp_path)
    with pytest.raises(MissingInputError):
        study.load(paradox.caption_pairs)
    pairs = study.load(paradox.caption_pairs, optional=True)
    assert pairs.empty and "model" in pairs.columns and not study.has_table(paradox.caption_pairs)
    assert "paradox_caption_pairs" in capsys.readouterr().out
    assert study.judgements("generated", optional=True).empty
    with pytest.raises(MissingInputError):
        study.judgements("generated")
    with pytest.raises(ParameterError, match="is not a measure"):
        study.load(paradox.amplification)


def test_load_selects_rows_of_model(tmp_path):
    whole = Study(tmp_path).load(paired.percent_female)
    name = whole["model"].iloc[-1]
    subset = Study(tmp_path, model=name).load(paired.percent_female)
    assert set(subset["model"]) == {name} and len(subset) == (whole["model"] == name).sum()
    with pytest.raises(UnknownNameError, match=name[:-1]):
        Study(tmp_path, model=name[:-1]).load(paired.percent_female)


BESIDE, SOURCES = {"baselines": "published"}, ("training", "generated")


def test_load_folder_with_published_baselines(tmp_path):
    printed = Study(tmp_path).load(paired.percent_female)
    (tmp_path / "mine").mkdir()
    measured_rows = printed[printed["model"] == printed["model"].iloc[0]].assign(model="mine")
    tables.write(measured_rows, tmp_path / "mine/paired_percent_female.csv")
    source = str(tmp_path / "mine")
    single_study = Study(tmp_path, source=source)
    assert set(single_study.load(paired.percent_female)["model"]) == {"mine"} and not single_study.has_table(
        paired.printed.labour_share
    )
    published_study = Study(tmp_path, source=source, settings=BESIDE)
    whole = published_study.load(paired.percent_female)
    assert len(whole) == len(measured_rows) + len(printed) and set(whole["model"]) == {"mine", *printed["model"]}
    # A single model of the folder has them, too, and tables with published values only are available.
    subset = Study(tmp_path, source=source, model="mine", settings=BESIDE).load(paired.percent_female)
    assert set(subset["model"]) == set(whole["model"])
    assert len(published_study.load(paired.printed.labour_share)) == len(
        Study(tmp_path).load(paired.printed.labour_share)
    )
    # Nothing is read of a paper without tables in the folder.
    assert not published_study.has_table(paradox.percent_female)
    # A model that both have is the folder's.
    tables.write(measured_rows.assign(model=printed["model"].iloc[0], n=7), tmp_path / "mine/paired_percent_female.csv")
    again = Study(tmp_path, source=source, settings=BESIDE).load(paired.percent_female)
    assert set(again.loc[again["model"] == printed["model"].iloc[0], "n"]) == {7}


def test_load_annotations_with_published_baselines(tmp_path):
    file = tmp_path / "ratings.csv"
    rows = [(f"i{k}", source, "nurse", "mine", "female" if k % 3 else "male") for k in range(6) for source in SOURCES]
    pd.DataFrame(rows, columns=["image", "source", "occupation", "model", "anna"]).to_csv(file, index=False)
    arguments = {"source": "annotations", "annotations": str(file), "settings": BESIDE}
    shares = Study(tmp_path, **arguments).load(paradox.percent_female)
    assert {"SD 1.4", "SD 1.5"} < set(shares["model"]) and len(set(shares["model"])) == 3
    for settings in ({"baselines": "mini"}, BESIDE | {"paired": {"n_occupations": 1}}):
        with pytest.raises(ParameterError, match=r"generates no images.*'baselines': 'published'"):
            Study(tmp_path, **arguments | {"settings": settings})


@pytest.mark.long
def test_study_has_pipeline_and_figures_per_model(tmp_path, any_text):
    import matplotlib.pyplot as plt

    study = Study(tmp_path, source="mini", settings={"baselines": ["world"]})
    assert list(study.pipelines) == ["mini", "world"]
    for model in study.pipelines:
        figure, ax = plt.subplots()
        ax.plot([0, 1])
        study.show("paradox_pictures", figure, model_shown=model)
    figures = json.loads((tmp_path / "records.json").read_text(encoding="utf-8"))["figures"]
    assert [f["name"] for f in figures] == ["paradox_pictures", "paradox_pictures_world"]
    assert [f["title"] for f in figures] == ["Title: mini", "Title: world"]
    with pytest.raises(UnknownNameError, match="wrld"):
        study.judgements("generated", model="wrld", optional=True)
    # Alone, a model is not named; tables alone have no pipeline.
    single_study = Study(tmp_path / "alone", source="mini")
    single_study.show("paradox_pictures", plt.figure().add_subplot().plot([0, 1])[0].figure, model_shown="mini")
    assert "Title: " not in (tmp_path / "alone/records.json").read_text(encoding="utf-8")
    assert Study(tmp_path).pipelines == {}


def test_study_resolves_paths_from_project_root(tmp_path, monkeypatch):
    for folder in ("params", "notebooks/mine", "measured", "caps"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "mine.csv").write_text("occupation,gender\n")
    monkeypatch.chdir(tmp_path / "notebooks/mine")
    assert Study().output_dir == tmp_path / "outputs/explore"
    study = Study("outputs/mine", source="measured")
    assert (study.output_dir, study.source) == (tmp_path / "outputs/mine", str(tmp_path / "measured"))
    assert Study(source="annotations", annotations="mine.csv").annotations == str(tmp_path / "mine.csv")
    study = Study(source="pipeline", model="caps", settings={"captions": {"corpus": "caps"}})
    assert (study.model, study.settings.captions.corpus) == (str(tmp_path / "caps"),) * 2
    with pytest.raises(ParameterError, match="'notebooks/none'"):
        Study(source="notebooks/none")
    with pytest.raises(ParameterError, match="settings is 'x'"):
        Study(source="pipeline", model="caps", settings="x")
