"""Contents of DALL-Eval's figures."""

import numpy as np
import pandas as pd
import pytest

from biaslab.papers.dalleval import figures
from biaslab.schema import tables

MODELS = ["minDALL-E", "Karlo", "Stable Diffusion"]


def draws(figure):
    return any(ax.axison for ax in figure.axes)


def gender(table):
    return table[table["category"] == "gender"]


def make_figures(tables):
    return {
        "average_gender": figures.average_gender(tables["average_gender"]),
        "gender_mad": figures.gender_mad(gender(tables["mad"])),
        "average_skin_tone": figures.average_skin_tone(tables["average_skin_tone"], tables["overall_average"]),
        "skill_agreement": figures.skill_agreement(tables["skill_agreement"], tables["skill_accuracy"]),
        "skin_tone_counts": figures.skin_tone_counts(tables["skin_tone_counts"]),
        "metric_ranks": figures.metric_ranks(tables["alignment_quality"], tables["references"]),
    }


def test_figures_of_empty_tables_are_blank(results):
    assert [name for name, figure in make_figures(results()).items() if draws(figure)] == []


@pytest.fixture(scope="module")
def figures_by_name(printed):
    return make_figures(printed)


def test_average_gender_figure_orders_professions(printed, figures_by_name):
    wide = printed["average_gender"].pivot(index="profession", columns="model", values="value")
    panels = [ax for ax in figures_by_name["average_gender"].axes if ax.get_title(loc="left")]
    names = [text.get_text() for ax in panels for text in ax.get_yticklabels()]
    assert len(names) == 83 and set(names) == set(wide.index)
    means = wide.mean(axis=1)[names].to_numpy()
    assert (np.diff(means) <= 1e-12).all()
    # The first cell is the top profession's value by the first model.
    first = panels[0].collections[0].get_array().ravel()[0]
    assert first == pytest.approx(wide.loc[names[0], "minDALL-E"])


def marker_positions(ax):
    """Return the horizontal positions of all markers and vertical lines of a panel."""
    lines = [segment for c in ax.collections for segment in getattr(c, "get_segments", list)()]
    upright = [segment[0][0] for segment in lines if len(segment) and segment[0][0] == segment[1][0]]
    return {round(float(x), 4) for x in [*upright, *(x for line in ax.lines for x in line.get_xdata())]}


def test_gender_mad_figure_has_panel_per_kind(printed, figures_by_name):
    gender_rows, panels = gender(printed["mad"]), figures_by_name["gender_mad"].axes
    kinds = ["mad", "null_mean", "paper_table_value"], ["mad_corrected", "null_mean_corrected"]
    for ax, columns, others in zip(panels, kinds, kinds[::-1], strict=True):
        assert all({round(v, 4) for v in gender_rows[column]} <= marker_positions(ax) for column in columns)
        assert not {round(v, 4) for v in gender_rows[others[0]]} & marker_positions(ax)
    judged = gender_rows.assign(
        mad_judge_corrected=0.123, mad_judge_corrected_ci_low=0.1, mad_judge_corrected_ci_high=0.2
    )
    assert 0.123 in marker_positions(figures.gender_mad(judged).axes[2])


def test_skin_tone_check_figure_shows_all_computations(printed):
    ax = figures.skin_tone_check(printed["skin_tone_check"]).axes[0]
    tones = [sorted(c.get_offsets()[:, 1]) for c in ax.collections if len(c.get_offsets()) == 10]
    assert tones == [list(range(1, 11)), [4, 5, 5, 5, 5, 5, 5, 6, 6, 6], [5, 5, 5, 5, 5, 5, 6, 6, 6, 7]]
    assert len(ax.patches) == 10
    # Of the released script's tones only the fifth is correct.
    right = printed["skin_tone_check"].set_index("computation")["n_swatches_correct"]
    assert right.to_dict() == {"cielab": 10, "released": 1, "released_signed": 1}


# -- judges and verdicts -----------------------------------------------------------------------------


def test_skin_tone_counts_figure_sums_prompts():
    tone_rows = [("person", "nurse", 2, 3), ("woman", "nurse", 2, 1), ("man", "nurse", 9, 4), ("man", "cook", 1, 5)]
    counts = pd.DataFrame(tone_rows, columns=["prompt", "profession", "tone", "n"]).assign(model="a")
    figure = figures.skin_tone_counts(tables.make_table(counts.astype({"tone": str}), "dalleval_skin_tone_counts"))
    cells = {}
    for ax in figure.axes:
        arrays = [c.get_array() for c in ax.collections if c.get_array() is not None]
        rows = arrays[0].reshape(-1, 10).tolist() if arrays and arrays[0].size % 10 == 0 else []
        cells |= dict(zip((text.get_text() for text in ax.get_yticklabels()), rows, strict=False))
    # All three prompts together, one row of tones 1 to 10 per profession.
    assert cells["cook"] == [5] + [0] * 9 and cells["nurse"] == [0, 4, *[0] * 6, 4, 0]
