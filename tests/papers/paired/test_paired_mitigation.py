"""FairCritic and the intervention: guidelines in prompts, changes of scores, and critiques with images."""

import base64
import io
import re
from html import escape
from types import SimpleNamespace

import numpy as np
import pytest
from paired_rows import critiques, faircritic_pairs, lists
from PIL import Image
from scipy import stats as scipy_stats

from biaslab.papers import paired
from biaslab.papers.paired.analysis import mitigated
from biaslab.report.notebook import sanitise
from biaslab.schema import tables

# -- direction of scores -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "low", "high", "said"),
    [
        (12, 3, 21, "towards stereotypes"),
        (-12, -21, -3, "against stereotypes"),
        (12, -1, 25, "no difference shown"),
        (-12, -24, 0, "no difference shown"),
        (12, np.nan, np.nan, "not tested"),
        (-12, np.nan, np.nan, "not tested"),
        (np.nan, np.nan, np.nan, ""),
    ],
)
def test_direction_needs_interval_excluding_0(score, low, high, said):
    assert mitigated.direction(score, low, high) == said


def test_mitigation_change_at_full_dependence_by_hand(tables_of):
    before, after = ([9, 8, 8, 7], [2, 1, 1, 2]), ([6, 5, 5, 6], [4, 5, 6, 5])
    study = tables_of(percent_female=lists(*before, 10, "paired") + lists(*after, 10, "faircritic"))
    # A person of the female list counts 20 points for each woman of ten, one of the male list for each man.
    female = 20.0 * (np.array(after[0]) - np.array(before[0]))
    male = -20.0 * (np.array(after[1]) - np.array(before[1]))
    table = study["mitigation_change"].set_index("stereotype")
    assert table.loc["female", "change"] == pytest.approx(female.mean())
    low, high = scipy_stats.ttest_1samp(female, 0).confidence_interval(0.95)
    assert table.loc["female", ["ci_low", "ci_high"]].tolist() == pytest.approx([low, high])
    # Twice the error of independent lists: half the difference of F and -M has half of Welch's error.
    test = scipy_stats.ttest_ind(female, -male, equal_var=False)
    half = np.diff(test.confidence_interval(0.95))[0] / 2
    middle = (female.mean() + male.mean()) / 2
    row = table.loc["overall"]
    assert [row["change"], row["ci_low"], row["ci_high"]] == pytest.approx([middle, middle - half, middle + half])


def test_mitigation_change_counts_significant_identities(tables_of):
    before, after = ([40, 20], [0, 20]), ([2, 20], [20, 38])
    study = tables_of(percent_female=lists(*before, 40, "paired") + lists(*after, 40, "faircritic"))
    # Of 40 people all and none fit before (f0 and m0: 100), after it two of the female and two of the male list (-90).
    table = study["mitigation_change"].set_index("stereotype")
    counts = ["n_towards_before", "n_against_before", "n_towards", "n_against"]
    assert table[counts].to_numpy().tolist() == [[1, 0, 0, 1], [1, 0, 0, 1], [2, 0, 0, 2]]
    assert table["change"].tolist() == pytest.approx([-95, -95, -95])


# -- critiques ---------------------------------------------------------------------------------------


class Images:
    """Stages that return images of one colour each."""

    def part(self, kind):
        return self

    def images(self, kind):
        return self

    def read(self, image_ids):
        return [
            SimpleNamespace(reason="<i>blocked</i>") if "mover" in i else np.full((64, 96, 3), 40, np.uint8)
            for i in image_ids
        ]


def prompts_and_people(tables_of):
    texts, people = faircritic_pairs()
    study = tables_of(percent_female=lists([9, 8], [1, 2], 10, "paired"), prompts=texts, people=people)
    return study["prompts"], study["people"]


def examples_of(tables_of, each=3):
    table = tables.make_table(critiques(), "paired_critiques")
    return table, paired.critique_examples(table, *prompts_and_people(tables_of), n_per_side=each)


def test_critique_examples_pair_images_of_same_prompts(tables_of):
    _, examples = examples_of(tables_of)
    sheriff = examples[examples["critique"] == 1]
    # Both of the sheriff's prompts have a guideline; the same pairs are on both sides.
    assert sheriff[["n_told", "n_prompts"]].drop_duplicates().to_numpy().tolist() == [[2, 2]]
    ids = {side: rows["image_id"].tolist() for side, rows in sheriff.groupby("side")}
    assert ids["before"] == ["paired-sheriff-nurse/0", "paired-nurse-sheriff/0"]
    assert ids["after"] == [i.replace("paired", "faircritic_1") for i in ids["before"]]
    assert sheriff["people"].tolist() == ["left: man", "right: man", "left: woman", "right: man"]
    assert set(sheriff["added"]) == {"Show the sheriff as a woman."}
    # The critique of all names no person. Prompts with a guideline come first.
    whole = examples[(examples["critique"] == 0) & (examples["side"] == "after")]
    assert set(whole["people"]) == {""} and whole[["n_told", "n_prompts"]].iloc[0].tolist() == [3, 4]
    assert len(whole) == 3 and "faircritic_1-nurse-mover/0" in set(whole["image_id"])


def test_critiques_figure_escapes_text_and_shrinks_images(tables_of):
    table, examples = examples_of(tables_of)
    pictures = paired.read_images(Images(), examples)
    html = paired.figures.critiques(table, examples, pictures).data
    # Texts of critics and endpoints are escaped.
    assert "<b>" not in html and "&lt;b&gt;$x$&lt;/b&gt;" in html
    assert "<i>blocked" not in html and "&lt;i&gt;blocked&lt;/i&gt;" in html
    assert html.count("<tr>") == 1 + len(table)
    image_data = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', html)
    assert image_data and max(map(len, image_data)) < 8000
    with Image.open(io.BytesIO(base64.b64decode(image_data[0]))) as picture:
        assert max(picture.size) <= 108
    assert "Added to 2 of 2 prompts; for example: Show the sheriff as a woman." in html
    # The report's sanitising leaves it unchanged, images included.
    cleaned = sanitise(html)
    assert cleaned.count("data:image/jpeg") == len(image_data) and "not embedded" not in cleaned


def test_critiques_figure_without_images_shows_reasons(tables_of):
    table, examples = examples_of(tables_of)
    html = paired.figures.critiques(table, examples, paired.read_images(None, examples)).data
    assert "<img" not in html and all(escape(r) in html for r in table["reasons"])
    # Of two critiques of an identity, the one with the larger share of prompts.
    assert "sheriffs" in (most := paired.figures.critiques(table, examples, {}, max_critiques=1).data)
    assert "chance allows" not in most and "Of 40 people" in most
    none = table.head(0)
    nothing = paired.critique_examples(none, *prompts_and_people(tables_of))
    assert nothing.empty and "<table" not in paired.figures.critiques(none, nothing, {}).data


def test_mitigation_of_zero_score_has_no_correction(tables_of):
    study = tables_of(percent_female=lists([9, 9], [1, 1], 10, "paired") + lists([5, 5], [5, 5], 10, "faircritic"))
    rows = study["mitigation"].query("mitigation == 'faircritic' and stereotype == 'overall'")
    assert rows["score"].tolist() == [0] and rows["correction"].tolist() == [""]
