"""Names in any script in figures: as written, in fonts of the machine, or named as missing."""

import warnings
from xml.etree import ElementTree

import pandas as pd
import pytest
from matplotlib import font_manager, pyplot
from matplotlib.text import Text

from biaslab.plots import forms, style
from biaslab.plots.texts import as_name

# Latin with signs that mathematics has, Cyrillic, Greek, Han, Hangul, Kana, Devanagari, Bengali, Thai, Arabic, Hebrew,
# Georgian, Armenian, Ethiopic, and emoji.
NAMES = (
    "$5 chef to $9 chef", "a $x_{$ b", r"\frac{1}{2} $x_{$", "a_b^c", "_hidden", "NA", "001", "R&D #2 50%",
    "медсестра", "νοσοκόμα", "医生", "간호사", "カンゴシ",
    "डॉक्टर", "ডাক্তার", "แพทย์", "طبيبة", "רופאה", "ექიმი", "բժիշկ", "ሐኪም",
    "👩‍⚕️ nurse",
)  # fmt: skip


@pytest.fixture
def figure():
    rows = pd.DataFrame({"model": NAMES, "kind": [f"_{k % 3} $x$" for k in range(len(NAMES))], "n": 10})
    rows = rows.assign(
        estimate=range(len(NAMES)), ci_low=lambda of: of["estimate"] - 1, ci_high=lambda of: of["estimate"] + 1
    )
    made = forms.estimates(rows, "estimate", row="model", color="kind")
    yield made
    pyplot.close(made)


def test_names_are_text_in_svg_and_never_mathematics(figure, tmp_path):
    figure.savefig(tmp_path / "f.svg")
    figure.savefig(tmp_path / "f.png")
    written = {
        "".join(node.itertext()) for node in ElementTree.parse(tmp_path / "f.svg").iter() if node.tag.endswith("}text")
    }
    # Also those in the legend that begin with an underscore.
    assert {*NAMES, "_0 $x$", "_1 $x$", "_2 $x$"} <= written


def test_scripts_without_a_font_are_named(figure, monkeypatch):
    usual = [font for font in font_manager.fontManager.ttflist if font.name == "DejaVu Sans"]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", usual)
    style._find_fonts.cache_clear()
    missing = style.choose_fonts(figure)
    style._find_fonts.cache_clear()
    # DejaVu Sans has Latin, Cyrillic, Greek, Georgian and Armenian, and of scripts that are joined Arabic and Hebrew.
    assert {"CJK", "Hangul", "Katakana", "Devanagari", "Bengali", "Thai", "Ethiopic", "emoji and symbols"} <= {*missing}
    assert not {"Latin", "Cyrillic", "Greek", "Georgian", "Armenian"} & {*missing}


def test_fonts_of_the_machine_serve_letters_that_the_usual_font_lacks(figure, monkeypatch):
    held = {"Noto Sans Han": "医生간호사カンゴシ", "Aaa": "ሐኪም", "Last Resort": "".join(NAMES)}
    fonts = [font_manager.FontEntry(fname=name, name=name, style="normal", weight=400) for name in held]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", fonts)
    usual = style._letters_of(font_manager.findfont("DejaVu Sans"))
    monkeypatch.setattr(style, "_letters_of", lambda font: frozenset(held.get(font, usual)))
    style._find_fonts.cache_clear()
    missing = style.choose_fonts(figure)
    style._find_fonts.cache_clear()
    families = {tuple(text.get_fontfamily()) for text in figure.findobj(Text) if text.get_text()}
    assert families == {("DejaVu Sans", "Noto Sans Han", "Aaa")}
    assert not {"CJK", "Hangul", "Katakana", "Ethiopic"} & {*missing} and "Devanagari" in missing


def test_glyphs_that_are_missing_are_not_warned_of_letter_by_letter(figure):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        style.use()
        figure.draw_without_rendering()
    assert [str(one.message) for one in seen] == []


def test_figure_names_of_models_in_other_letters_differ():
    names = [as_name(text) for text in ("医生", "护士", "طبيبة", "SD v1.4", "SD v1.4 é")]
    assert len({*names}) == 5 and names[3] == "sd_v1_4" and all(name.isascii() for name in names)
