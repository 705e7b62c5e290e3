"""What DALL-Eval's figures draw."""

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


def every(tables):
    return {
        "average_gender": figures.average_gender(tables["average_gender"]),
        "gender_mad": figures.gender_mad(gender(tables["mad"])),
        "average_skin_tone": figures.average_skin_tone(tables["average_skin_tone"], tables["overall_average"]),
        "skill_agreement": figures.skill_agreement(tables["skill_agreement"], tables["skill_accuracy"]),
        "skin_tone_counts": figures.skin_tone_counts(tables["skin_tone_counts"]),
        "metric_ranks": figures.metric_ranks(tables["alignment_quality"], tables["references"]),
    }


def test_without_measurements_no_figure_draws_anything(results):
    assert [name for name, figure in every(results()).items() if draws(figure)] == []


@pytest.fixture(scope="module")
def shown(printed):
    return every(printed)


def test_every_profession_is_drawn_most_female_first(printed, shown):
    wide = printed["average_gender"].pivot(index="profession", columns="model", values="value")
    panels = [ax for ax in shown["average_gender"].axes if ax.get_title(loc="left")]
    names = [text.get_text() for ax in panels for text in ax.get_yticklabels()]
    assert len(names) == 83 and set(names) == set(wide.index)
    means = wide.mean(axis=1)[names].to_numpy()
    assert (np.diff(means) <= 1e-12).all()
    # The first cell is the top profession's value by the first model.
    first = panels[0].collections[0].get_array().ravel()[0]
    assert first == pytest.approx(wide.loc[names[0], "minDALL-E"])


def drawn(ax):
    """Return the places across of all markers and upright marks of a panel."""
    lines = [segment for c in ax.collections for segment in getattr(c, "get_segments", list)()]
    upright = [segment[0][0] for segment in lines if len(segment) and segment[0][0] == segment[1][0]]
    return {round(float(x), 4) for x in [*upright, *(x for line in ax.lines for x in line.get_xdata())]}


def test_deviations_of_one_kind_share_a_panel(printed, shown):
    of, panels = gender(printed["mad"]), shown["gender_mad"].axes
    kinds = ["mad", "null_mean", "paper_table_value"], ["mad_corrected", "null_mean_corrected"]
    for ax, columns, others in zip(panels, kinds, kinds[::-1], strict=True):
        assert all({round(v, 4) for v in of[column]} <= drawn(ax) for column in columns)
        assert not {round(v, 4) for v in of[others[0]]} & drawn(ax)
    judged = of.assign(mad_judge_corrected=0.123, mad_judge_corrected_ci_low=0.1, mad_judge_corrected_ci_high=0.2)
    assert 0.123 in drawn(figures.gender_mad(judged).axes[2])


def test_all_three_computations_are_drawn_beside_the_swatches(printed):
    ax = figures.skin_tone_check(printed["skin_tone_check"]).axes[0]
    tones = [sorted(c.get_offsets()[:, 1]) for c in ax.collections if len(c.get_offsets()) == 10]
    assert tones == [list(range(1, 11)), [4, 5, 5, 5, 5, 5, 5, 6, 6, 6], [5, 5, 5, 5, 5, 5, 6, 6, 6, 7]]
    assert len(ax.patches) == 10
    # Of the script's only the fifth is right.
    right = printed["skin_tone_check"].set_index("computation")["n_swatches_correct"]
    assert right.to_dict() == {"cielab": 10, "released": 1, "released_signed": 1}


# -- judges and verdicts -----------------------------------------------------------------------------


def test_tones_are_drawn_as_counts():
    said = [("person", "nurse", 2, 3), ("woman", "nurse", 2, 1), ("man", "nurse", 9, 4), ("man", "cook", 1, 5)]
    counts = pd.DataFrame(said, columns=["prompt", "profession", "tone", "n"]).assign(model="a")
    figure = figures.skin_tone_counts(tables.make_table(counts.astype({"tone": str}), "dalleval_skin_tone_counts"))
    cells = {}
    for ax in figure.axes:
        found = [c.get_array() for c in ax.collections if c.get_array() is not None]
        rows = found[0].reshape(-1, 10).tolist() if found and found[0].size % 10 == 0 else []
        cells |= dict(zip((text.get_text() for text in ax.get_yticklabels()), rows, strict=False))
    # All three prompts together, a row each of tones 1 to 10.
    assert cells["cook"] == [5] + [0] * 9 and cells["nurse"] == [0, 4, *[0] * 6, 4, 0]
