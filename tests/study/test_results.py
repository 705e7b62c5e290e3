"""Recorded results: nonempty figures, tables with rows, findings with measurements."""

import json
from collections import defaultdict

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from biaslab.papers import paradox
from biaslab.papers.findings import Finding
from biaslab.plots import style
from biaslab.report.index import _embed_figure
from biaslab.schema import tables
from biaslab.study import Study

mpl.use("Agg")


@pytest.fixture
def study(tmp_path, any_text):
    yield Study(tmp_path, source="published")
    plt.close("all")


def records(study):
    path = study.output_dir / "records.json"
    return json.loads(path.read_text()) if path.exists() else {"figures": [], "tables": [], "findings": []}


NOTHING = "The figure paired_runs is empty: every value is missing, for the reasons in its table."


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda ax: ax.text(0.5, 0.5, "Nobody was asked."), "Nobody was asked."),
        # Nothing but guides.
        (lambda ax: (ax.axvline(0), ax.axhline(0), ax.axhspan(-1, 1), ax.set_title("Guides")), NOTHING),
        # Unknown values.
        (lambda ax: (ax.plot([1, 2], [np.nan] * 2, "o"), ax.scatter([], []), ax.vlines([], [], [])), NOTHING),
        (lambda ax: ax.set_visible(False), NOTHING),
    ],
)
def test_show_empty_figure_is_not_recorded(study, capsys, draw, said):
    figure, ax = plt.subplots()
    draw(ax)
    study.show("paired_runs", figure, main=True)
    assert records(study)["figures"] == [] and not list(study.output_dir.glob("figures/*"))
    assert capsys.readouterr().out == f"{said}\n"
    assert not plt.fignum_exists(figure.number)


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: ax.plot([1], [2], "o"),
        lambda ax: ax.plot([1, np.nan], [2, np.nan]),
        lambda ax: ax.scatter([1], [2]),
        lambda ax: ax.vlines([1], [0], [2]),
        lambda ax: ax.barh([0], [0]),
        lambda ax: ax.imshow([[0, 1]]),
        lambda ax: ax.errorbar([1], [2], yerr=[1], fmt="none"),
    ],
)
def test_show_figure_with_one_mark_is_recorded(study, draw):
    figure, (_, ax) = plt.subplots(1, 2)
    draw(ax)
    study.show("paired_runs", figure)
    assert [f["name"] for f in records(study)["figures"]] == ["paired_runs"]


@pytest.mark.parametrize("lacking", [[], ["CJK", "Thai"]])
def test_show_missing_font_warns_and_prefers_svg(study, monkeypatch, recwarn, lacking):
    monkeypatch.setattr(style, "choose_fonts", lambda _: lacking)
    figure, ax = plt.subplots()
    ax.plot([1], [2], "o")
    study.show("paired_runs", figure)
    (record,) = records(study)["figures"]
    assert record["kinds"] == (["svg", "png"] if lacking else ["png", "svg"])
    # Each file is found where the page looks for it first.
    files = {kind: f"figures/paired_runs.{kind}" for kind in record["kinds"]}
    entry = defaultdict(str, files | {"svg_first": bool(lacking)})
    source, (width, height), _ = _embed_figure(study.output_dir, entry, 10**7)
    assert source.startswith("data:image/svg" if lacking else "data:image/") and ("svg" in source[:20]) == bool(lacking)
    assert width > height > 100
    said = [str(warning.message) for warning in recwarn]
    assert len(said) == bool(lacking) and all("CJK, Thai" in text and "Noto Sans" in text for text in said)


def test_show_png_keeps_background_and_colors(study):
    figure, ax = plt.subplots()
    # Many colours, so that 256 are too few, and one that is written in thin letters alone.
    ax.imshow(np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8))
    ax.set_title("female 1.00", color="#9b4f7d", fontsize=20)
    study.show("paired_runs", figure)
    with Image.open(study.output_dir / "figures" / "paired_runs.png") as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    assert (pixels[0] == 255).all() and (pixels[:, 0] == 255).all()
    # The title is above the axes, and its letters are as dark as nothing else there.
    title = pixels[: len(pixels) // 12].reshape(-1, 3)
    title = title[title.sum(axis=1) < 500]
    assert len(title) > 100
    assert np.abs(np.median(title, axis=0) - [0x9B, 0x4F, 0x7D]).max() < 24


def test_show_empty_figure_removes_earlier_one(study, capsys):
    table = pd.DataFrame({"value": [1.0]})

    @style.empty_without_rows
    def draw_line(table):
        figure, ax = plt.subplots()
        ax.plot(table["value"], table["value"], "o")
        return figure

    study.show("paired_runs", draw_line(table))
    study.show("paired_percent_female_mean", draw_line(table))
    assert len(records(study)["figures"]) == 2 and len(list(study.output_dir.glob("figures/*"))) == 4
    study.show("paired_runs", draw_line(table.head(0)))
    assert [f["name"] for f in records(study)["figures"]] == ["paired_percent_female_mean"]
    assert {f.stem for f in study.output_dir.glob("figures/*")} == {"paired_percent_female_mean"}
    assert capsys.readouterr().out.endswith(
        "The source has no measurements for this figure, or no person could be classified.\n"
    )


def test_report_findings_prints_and_records_once(study, capsys):
    first = Finding("How many?", "Few.", model="A", estimate=3.0, unit="points", n=4, n_unit="images")
    second = Finding("How many?", "Many.", model="B")
    study.report_findings(first, [second], main=True)
    study.report_findings(first)
    assert capsys.readouterr().out == f"{first}\n{second}\n{first}\n"
    recorded_findings = [(f["model"], f["answer"], f["estimate"], f["main"]) for f in records(study)["findings"]]
    assert recorded_findings == [("B", "Many.", None, True), ("A", "Few.", 3.0, False)]


def test_report_findings_empty_is_printed_not_recorded(study, capsys):
    study.report_findings([], main=True)
    assert records(study)["findings"] == []
    assert (
        capsys.readouterr().out == "The source has no measurements for this answer, or no person could be classified.\n"
    )


def test_report_findings_marks_published_values(study):
    shares = study.load(paradox.percent_female)
    study.report_findings(Finding("How many?", "Few.", model=model) for model in (shares["model"].iloc[0], "other"))
    assert [f["printed"] for f in records(study)["findings"]] == [True, False]


def test_save_empty_table_is_written_and_reported(study, capsys):
    empty = pd.DataFrame(columns=tables.schema("world_conditional").names)
    study.save("world_conditional", empty)
    assert tables.read(study.output_dir / "tables" / "world_conditional.csv", "world_conditional").empty
    assert (
        capsys.readouterr().out
        == "The source has no measurements for the table world_conditional, or no person could be classified.\n"
    )
