"""Titles and captions of figures come from text files, whole, and what they name is given."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from biaslab.errors import ParameterError, UnknownNameError
from biaslab.plots import texts
from biaslab.study import Study

mpl.use("Agg")


@pytest.fixture
def told(monkeypatch):
    some = {"paired_told": {"title": "Of {model}", "caption": "Bars: {level}\n  intervals; {n:,} images."}}
    monkeypatch.setattr(texts, "figures", lambda: some)


@pytest.mark.usefixtures("told")
def test_facts_stand_where_a_text_names_them_and_a_missing_one_is_named():
    facts = {"model": "SD", "level": "95 %", "n": 1200, "unused": 1}
    assert texts.of_figure("paired_told", facts) == ("Of SD", "Bars: 95 % intervals; 1,200 images.")
    with pytest.raises(ParameterError, match="paired_told names 'level'"):
        texts.of_figure("paired_told", {"model": "SD", "n": 1})
    with pytest.raises(UnknownNameError, match="Did you mean 'paired_told'"):
        texts.of_figure("paired_tolt", {})


@pytest.mark.usefixtures("told")
def test_a_shown_figure_has_its_text_with_the_level_of_its_intervals(tmp_path):
    study = Study(tmp_path)

    drawn, ax = plt.subplots()
    ax.plot([0, 1])
    study.show("paired_sd", drawn, text="paired_told", confidence=0.9, model="SD", n=3)
    (record,) = study._records["figures"]
    assert (record["name"], record["title"]) == ("paired_sd", "Of SD")
    assert record["caption"] == record["alt"] == "Bars: 90 % intervals; 3 images."
    for name, error in (("paired told", ParameterError), ("paired_other", UnknownNameError)):
        with pytest.raises(error):
            study.show(name, drawn)
    plt.close("all")
    assert len(list(tmp_path.glob("figures/*"))) == 2
