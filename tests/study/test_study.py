"""What a study keeps for other notebooks is computed once, and again when anything that it comes from has changed."""

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

    def counted(frame, other=None, *, seed=0):
        computed.append(seed)
        return pd.DataFrame({"n": [len(frame)], "name": ["a"], "seed": [seed]})

    counted.computed, counted.version = computed, 1
    monkeypatch.setattr(code_digest, "digest", lambda work, **_: f"{work.__name__} {work.version}")
    return counted


FRAME = pd.DataFrame({"x": [1.5, 2.5], "word": ["a", "b"]})


def test_an_analysis_is_computed_once_for_all_notebooks_of_a_run(tmp_path, analysis):
    parts = tmp_path / "mine/.parts"
    first = Study(parts / "paradox/a").memoize(analysis, FRAME, seed=3)
    again = Study(parts / "synthesis/b").memoize(analysis, FRAME.copy(), seed=3)
    assert analysis.computed == [3]
    pd.testing.assert_frame_equal(first, again)
    assert len(list((parts / ".cache").glob("counted-*.parquet"))) == 1
    # Alone, a notebook keeps it in its own folder.
    Study(tmp_path / "alone").memoize(analysis, FRAME, seed=3)
    assert analysis.computed == [3, 3]


def test_it_is_computed_again_after_code_frames_or_options_change(tmp_path, analysis):
    study = Study(tmp_path)

    def new(*frames, **options):
        before = len(analysis.computed)
        study.memoize(analysis, *frames, **options)
        return len(analysis.computed) > before

    assert new(FRAME) and not new(FRAME)
    # The last of these differs by less than a table is written with.
    for other in (FRAME.rename(columns={"x": "y"}), FRAME.iloc[::-1], FRAME.assign(x=[1.5, 2.5 + 1e-12])):
        assert new(other) and not new(other)
    assert new(FRAME, FRAME) and not new(FRAME, FRAME)
    assert new(FRAME, seed=1) and not new(FRAME, seed=1)
    for analysis.version, again in ((2, True), (1, False)):
        assert new(FRAME) is again and not new(FRAME)


def test_what_is_kept_is_what_the_call_gives_and_what_is_damaged_is_computed_again(tmp_path):
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


def test_draws_are_the_studys_where_an_analysis_takes_them(tmp_path):
    def drawn(frame, *, seed, confidence=0.5):
        return pd.DataFrame({"seed": [seed], "confidence": [confidence]})

    study = Study(tmp_path, seed=7, replicates=200, confidence=0.9)
    assert study.memoize(drawn, FRAME).iloc[0].to_dict() == {"seed": 7, "confidence": 0.9}
    assert study.memoize(drawn, FRAME, confidence=0.8).iloc[0].to_dict() == {"seed": 7, "confidence": 0.8}
    with pytest.raises(ParameterError, match="confidence is 95"):
        Study(tmp_path, confidence=95)


def test_from_parameters_takes_the_arguments_of_a_study_from_a_parameters_cell(tmp_path):
    cell = {"output_dir": tmp_path, "seed": 7, "bootstrap_replicates": 200, "confidence": 0.9, "pd": pd, "_i1": "cell"}
    study = Study.from_parameters(cell)
    assert study.draws == {"seed": 7, "replicates": 200, "confidence": 0.9} and study.output_dir == tmp_path
    assert Study.from_parameters({"output_dir": tmp_path}).draws == Study(tmp_path).draws
    with pytest.raises(ParameterError, match="confidence is 95"):
        Study.from_parameters(cell | {"confidence": 95})


def test_a_table_is_shown_by_the_declaration_of_its_name(tmp_path):
    study = Study(tmp_path)
    saved = study.save("paradox_percent_female", study.load(paradox.percent_female))
    (share,) = study.table(saved[saved["model"] == "SD 1.4"], "percent_female").columns
    assert (share.heading, share.numeric) == ("female (%)", True)
    with pytest.raises(ParameterError, match="name="):
        study.table(FRAME)
    assert [column.heading for column in study.table(FRAME, name="my_table").columns] == ["x", "word"]


def test_tables_and_figures_of_a_readers_own_are_taken(tmp_path):
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
    # What is named as a paper's is held to what the paper declares, in that order.
    shares = study.load(paradox.percent_female)
    saved = study.save("paradox_percent_female", shares[shares.columns[::-1]].assign(note="x"))
    assert list(saved) == [*shares.columns, "note"]
    with pytest.raises(InputError):
        study.save("paradox_percent_female", shares.assign(percent_female=101.0))
    with pytest.raises(UnknownNameError, match="paradox_amplificaton"):
        study.save("paradox_amplificaton", frame)
    with pytest.raises(ParameterError, match="lower-case words"):
        study.save("../up", frame)


def test_it_says_where_inputs_come_from_and_no_folder_of_this_machine(tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "rated.csv").write_text("a\n")
    for given in (
        {},
        {"source": str(tmp_path)},
        {"source": "annotations", "annotations": str(tmp_path / "rated.csv")},
        {"source": "pipeline", "model": str(tmp_path)},
    ):
        said = repr(Study(tmp_path / "out", **given))
        assert str(tmp_path.parent) not in said and "/tmp" not in said, said
    said = repr(Study(tmp_path / "mine/.parts/paradox/a", seed=7))
    assert said.partition("\n")[2] == "  model   all\n  seed    7\n  results mine"


def test_what_a_source_lacks_is_no_rows_where_it_is_optional(tmp_path, capsys):
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


def test_only_rows_of_the_model_asked_for(tmp_path):
    whole = Study(tmp_path).load(paired.percent_female)
    name = whole["model"].iloc[-1]
    some = Study(tmp_path, model=name).load(paired.percent_female)
    assert set(some["model"]) == {name} and len(some) == (whole["model"] == name).sum()
    with pytest.raises(UnknownNameError, match=name[:-1]):
        Study(tmp_path, model=name[:-1]).load(paired.percent_female)


BESIDE, SOURCES = {"baselines": "published"}, ("training", "generated")


def test_printed_numbers_stand_beside_a_folder_where_it_holds_the_papers_tables(tmp_path):
    printed = Study(tmp_path).load(paired.percent_female)
    (tmp_path / "mine").mkdir()
    own = printed[printed["model"] == printed["model"].iloc[0]].assign(model="mine")
    tables.write(own, tmp_path / "mine/paired_percent_female.csv")
    source = str(tmp_path / "mine")
    alone = Study(tmp_path, source=source)
    assert set(alone.load(paired.percent_female)["model"]) == {"mine"} and not alone.has_table(
        paired.printed.labour_share
    )
    beside = Study(tmp_path, source=source, settings=BESIDE)
    whole = beside.load(paired.percent_female)
    assert len(whole) == len(own) + len(printed) and set(whole["model"]) == {"mine", *printed["model"]}
    # One model of the folder has them beside it, too, and so have tables that are printed alone.
    some = Study(tmp_path, source=source, model="mine", settings=BESIDE).load(paired.percent_female)
    assert set(some["model"]) == set(whole["model"])
    assert len(beside.load(paired.printed.labour_share)) == len(Study(tmp_path).load(paired.printed.labour_share))
    # Of a paper of which the folder holds nothing, nothing is read.
    assert not beside.has_table(paradox.percent_female)
    # A model that both have is the folder's.
    tables.write(own.assign(model=printed["model"].iloc[0], n=7), tmp_path / "mine/paired_percent_female.csv")
    again = Study(tmp_path, source=source, settings=BESIDE).load(paired.percent_female)
    assert set(again.loc[again["model"] == printed["model"].iloc[0], "n"]) == {7}


def test_printed_numbers_stand_beside_ratings(tmp_path):
    file = tmp_path / "ratings.csv"
    rows = [(f"i{k}", source, "nurse", "mine", "female" if k % 3 else "male") for k in range(6) for source in SOURCES]
    pd.DataFrame(rows, columns=["image", "source", "occupation", "model", "anna"]).to_csv(file, index=False)
    given = {"source": "annotations", "annotations": str(file), "settings": BESIDE}
    shares = Study(tmp_path, **given).load(paradox.percent_female)
    assert {"SD 1.4", "SD 1.5"} < set(shares["model"]) and len(set(shares["model"])) == 3
    for settings in ({"baselines": "mini"}, BESIDE | {"paired": {"n_occupations": 1}}):
        with pytest.raises(ParameterError, match=r"generates no images.*'baselines': 'published'"):
            Study(tmp_path, **given | {"settings": settings})


@pytest.mark.long
def test_each_model_has_its_pipeline_and_figures_of_its_images(tmp_path, any_text):
    import matplotlib.pyplot as plt

    study = Study(tmp_path, source="mini", settings={"baselines": ["world"]})
    assert list(study.pipelines) == ["mini", "world"]
    for model in study.pipelines:
        figure, ax = plt.subplots()
        ax.plot([0, 1])
        study.show("paradox_pictures", figure, model_shown=model)
    shown = json.loads((tmp_path / "records.json").read_text(encoding="utf-8"))["figures"]
    assert [f["name"] for f in shown] == ["paradox_pictures", "paradox_pictures_world"]
    assert [f["title"] for f in shown] == ["Title: mini", "Title: world"]
    with pytest.raises(UnknownNameError, match="wrld"):
        study.judgements("generated", model="wrld", optional=True)
    # Alone, a model is not named; tables alone have no pipeline.
    alone = Study(tmp_path / "alone", source="mini")
    alone.show("paradox_pictures", plt.figure().add_subplot().plot([0, 1])[0].figure, model_shown="mini")
    assert "Title: " not in (tmp_path / "alone/records.json").read_text(encoding="utf-8")
    assert Study(tmp_path).pipelines == {}


def test_paths_in_a_notebook_count_from_the_project(tmp_path, monkeypatch):
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
