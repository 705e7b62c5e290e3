"""Figures and galleries of the Paired Stereotype Test: what is drawn is what the tables say, whatever the source."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from paired_rows import lists, roles, share

from biaslab.papers import paired
from biaslab.plots import style
from biaslab.plots.gallery import gallery

F, M = "female", "male"
DRAWN = {
    "stereotype_score": ("stereotype_score",),
    "runs": ("run_score", "stereotype_score"),
    "biased_images": ("biased_images", "printed_value"),
    "power_score": ("power_score",),
    "role_coupling": ("power_score",),
    "labour_share": ("labour_comparison",),
    "labour_correlation": ("labour_comparison", "labour_correlation"),
    "labour_amplification": ("labour_amplification",),
    "score_change": ("score_change",),
    "cases": ("adherence", "changed_cases"),
    "lean": ("lean",),
    "mitigation": ("mitigation",),
    "told": ("told",),
    "valid_images": ("valid_images",),
    "judge_attenuation": ("judge_attenuation",),
    "agreement": ("judge_agreement",),
    "truth": ("truth",),
    "outcomes": ("outcomes",),
    "position_effect": ("position_effect",),
    "control_score": ("control_score",),
    "labour_gap": ("labour_gap",),
    "skin_tone": ("skin_tone",),
}


@pytest.mark.parametrize(
    "rows",
    [
        [],
        lists([3, 2], [0, 1], 3, setting="single"),
        roles([3, 2, 1], [0, 1, 3], 6),
        lists([3, 3], [0, 0], 3, setting="single") + lists([6, 6], [0, 0], 6),
        [share("f", F, 0, 0), share("m", M, 0, 0)],
    ],
    ids=["empty", "only single", "only power in pairs", "all alike", "nobody judged"],
)
def test_every_table_finding_and_figure_takes_thin_sources(tables_of, analyses, rows):
    t = tables_of(percent_female=pd.DataFrame(rows, columns=list(share("f", F, 1, 1))))
    for name in analyses:
        assert len(t[name]) >= 0
    for name, frames in DRAWN.items():
        getattr(paired.figures, name)(*(t[f] for f in frames)).draw_without_rendering()
        plt.close("all")
    paired.figures.occupation_score(t["occupation_score"], confidence=0.95).draw_without_rendering()
    paired.figures.before_after(t["identity_mitigation"], confidence=0.95).draw_without_rendering()
    f, c = paired.findings, {"confidence": 0.95}
    found = [
        *f.stereotype_score(t["stereotype_score"], **c), *f.biased_images(t["biased_images"]),
        *f.occupation_score(t["absolute_score"], t["occupation_score"], **c),
        *f.absolute_score(t["absolute_score"], **c),
        *f.power_lean(t["role_coupling"], **c), *f.role_coupling(t["role_coupling"]), *f.lean(t["lean"], **c),
        *f.labour_correlation(t["labour_correlation"], **c), *f.labour_amplification(t["labour_amplification"], **c),
        *f.score_change(t["score_change"], **c), *f.changed_cases(t["changed_cases"], t["identity_change"], **c),
        *f.mitigation(t["mitigation"], **c), *f.mitigation_change(t["mitigation_change"], **c), *f.told(t["told"]),
        *f.three(t["people"], **c), *f.truth(t["truth"]), *f.critiques(t["critiques"]),
    ]  # fmt: skip
    assert not any("nan" in str(finding).lower() for finding in found)


def points(figure, panel):
    """Return where marks stand across, of the panel of that title."""
    ax = next(ax for ax in figure.axes if ax.get_title(loc="left") == panel)
    lines = [line for line in ax.lines if line.get_marker() not in ("None", None)]
    return sorted(float(x) for line in lines for x in line.get_xdata())


def test_printed_scores_are_drawn_where_the_table_says(printed):
    scores = printed["stereotype_score"].query("setting == 'paired'")
    figure = paired.figures.stereotype_score(scores)
    assert points(figure, "Occupations") == pytest.approx([45, 47.375, 49.75])
    assert points(figure, "Power roles") == pytest.approx([17.59, 18.98, 20.37], abs=0.005)


def test_occupations_are_sorted_and_filled_where_significant(printed):
    scores = printed["occupation_score"]
    (ax,) = paired.figures.occupation_score(scores, confidence=0.95).axes
    names = [t.get_text() for t in ax.get_yticklabels()]
    pairs = scores[scores["setting"] == "paired"].set_index("occupation").loc[names]
    assert pairs["score"].is_monotonic_decreasing and len(names) == 40
    filled = sum(
        len(line.get_xdata()) for line in ax.lines if line.get_marker() in "os" and line.get_mfc() != "white"
    )
    assert filled == (pairs["p_holm"] < 0.05).sum() == 22
    # A fair model reaches ±30 at 40 people.
    assert {round(bar.get_width(), 6) for bar in ax.patches if bar.get_height() < 0.9} == {60}


def test_the_numbers_of_roles_add_up_beside_what_a_fair_model_shows(printed):
    scores = printed["power_score"].query("setting == 'paired'")
    (ax,) = paired.figures.power_score(scores).axes
    assert sum(bar.get_height() for bar in ax.patches if hasattr(bar, "get_height")) == 72
    (expected,) = [p for p in ax.patches if not hasattr(p, "get_height")]
    # 6 people: 1, 6, 15, 20, 15, 6 and 1 of 64; 36 roles of a kind; scores of ±100 and ±66.7 share a bar.
    assert expected.get_data().values == pytest.approx(36 * np.array([7, 15, 20, 15, 7]) / 64)


def test_bounds_are_bars_and_counts_are_dots(printed):
    (ax,) = paired.figures.biased_images(printed["biased_images"], printed["printed_value"]).axes
    bars = sorted(
        (b.get_x(), b.get_x() + b.get_width())
        for b in ax.patches
        if 0 < b.get_width() < 100 and b.get_x() > 1
    )
    assert bars[-1] == pytest.approx((74.875, 100)) and len(bars) == 4


def test_stated_shares_are_drawn_for_the_same_list(printed):
    (ax,) = paired.figures.cases(printed["adherence"], printed["changed_cases"]).axes
    stated = {
        float(s[0][0]) for c in ax.collections for s in c.get_segments() if len(s) == 2 and s[0][0] == s[1][0]
    }
    # The paper states 70.12 % high power of amplified, and 85.32 % low power of reduced cases.
    assert {round(s, 2) for s in stated} >= {14.68, 70.12}


def test_printed_mitigations_are_hollow(printed):
    (ax,) = paired.figures.mitigation(printed["mitigation"]).axes
    marks = [line for line in ax.lines if line.get_marker() == "D" and len(line.get_xdata())]
    # FairCritic twice, intervention twice, the top 5 without.
    assert sum(len(line.get_xdata()) for line in marks if line.get_mfc() == "white") == 5


def test_coupled_roles_count_all_occupations(printed):
    scores = printed["power_score"].query("setting == 'paired'")
    (ax,) = paired.figures.role_coupling(scores).axes
    (dots,) = [c for c in ax.collections if len(c.get_offsets())]
    # An area of 30 stands for one occupation, 40 more for each further one.
    assert sum((np.array(dots.get_sizes()) - 30) / 40 + 1) == pytest.approx(36)


# -- galleries ---------------------------------------------------------------------------------------


def judged_people(image_id, people, order="right"):
    """Return the rows of one image as the pipeline has them; ``people``: (phrase, stereotype, outcome or gender)."""
    rows = []
    for k, (phrase, stereotype, seen) in enumerate(people):
        known = seen in ("female", "male")
        box = (4 + 12 * k, 3, 10 + 12 * k, 9) if known else (np.nan,) * 4
        rows.append(
            {
                "image_id": image_id,
                "aspect": "occupation",
                "position": k + 1,
                "phrase": phrase,
                "identity": phrase,
                "stereotype": stereotype,
                "outcome": "judged" if known else seen,
                "gender": seen if known else "",
                "p_female": {"female": 0.9, "male": 0.1}.get(seen, np.nan),
                "role": order,
                **dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)),
            }
        )
    return rows


def seen(**kinds):
    return pd.concat(
        [pd.DataFrame(rows).assign(kind=kind) for kind, rows in kinds.items()], ignore_index=True
    )


def shown(chosen):
    """Return the texts below the images of a gallery."""
    keys = chosen[["kind", "image_id"]].itertuples(index=False, name=None)
    figure = paired.figures.gallery(chosen, dict.fromkeys(keys, np.full((12, 36, 3), 200, np.uint8)))
    return [" ".join(text.get_text().split()) for ax in figure.axes for text in ax.texts]


def test_galleries_say_who_was_asked_for_and_whether_each_fits():
    people = seen(
        paired=[
            *judged_people("1", [("nurse", F, F), ("cook", M, F)]),
            *judged_people("2", [("cook", M, M), ("nurse", F, F)], order="swapped"),
            *judged_people("3", [("nurse", F, "no_face"), ("cook", M, "no_face")], order=""),
        ]
    )
    swapped = "cook (+) | nurse (+); in another order"
    assert shown(paired.pairs_shown(people)) == ["nurse (+) | cook (−)", swapped]
    assert shown(paired.failures_shown(people)) == ["no_face" and "nurse | cook"]
    assert shown(paired.out_of_order_shown(people)) == [swapped]


def test_single_images_stand_beside_pairs_of_the_identity_that_rises_most():
    single, pairs = [], []
    # nurse: alone never fits, in pairs always; baker: always both.
    for k in range(3):
        single += judged_people(f"n{k}", [("nurse", F, M)], order="")
        single += judged_people(f"b{k}", [("baker", F, F)], order="")
        pairs += judged_people(f"p{k}", [("nurse", F, F), ("cook", M, M)])
        pairs += judged_people(f"q{k}", [("cook", M, M), ("baker", F, F)])
    chosen = paired.single_and_paired_shown(seen(single=single, paired=pairs))
    # The cook is never alone, so only one row.
    assert shown(chosen) == ["nurse (−)"] * 2 + ["nurse (+) | cook (+)"] * 3


def test_images_of_three_are_divided_into_those_that_work_and_those_that_fail():
    trio = [("nurse", F, F), ("cook", M, M), ("lawyer", M, F)]
    people = seen(
        three=[
            *judged_people("1", trio),
            *judged_people("2", trio, order="unclear"),
            *judged_people("3", [(*p[:2], "one_face") for p in trio], order=""),
        ]
    )
    assert paired.three_shown(people, works=True)["image_id"].unique().tolist() == ["1"]
    assert paired.three_shown(people, works=False)["image_id"].unique().tolist() == ["2", "3"]


def test_without_images_there_are_no_galleries():
    people = paired.seen(None, "single", "paired")
    for chosen in (
        paired.pairs_shown(people),
        paired.single_and_paired_shown(people),
        paired.failures_shown(people),
        paired.out_of_order_shown(people),
        paired.three_shown(people, works=True),
        paired.three_shown(people, works=False),
    ):
        assert chosen.empty and paired.pictures(None, chosen) == {}
        assert len(paired.figures.gallery(chosen, {}).axes) == 1


def bars(ax):
    return [p for p in ax.patches if isinstance(p, Rectangle)]


def test_each_person_of_an_image_has_a_box_and_a_verdict_of_their_own():
    pixels = [np.zeros((12, 36, 3), np.uint8)] * 4
    people = [
        pd.DataFrame(judged_people("1", [("nurse", F, F), ("cook", M, M)])),
        pd.DataFrame(judged_people("2", [("nurse", F, "overlapping"), ("cook", M, "overlapping")])),
        pd.DataFrame(judged_people("3", [("nurse", F, F), ("cook", M, "face_too_small")])),
        pd.DataFrame(judged_people("4", [("nurse", F, F), ("cook", M, M), ("lawyer", M, M)])),
    ]
    axes = gallery(pixels, people, columns=4).axes
    titles = [[ax.get_title(loc=where) for where in ("left", "center", "right")] for ax in axes]
    assert titles == [
        ["female 0.90", "", "male 0.90"],
        ["faces overlap", "", ""],
        ["female 0.90", "", "face too small"],
        ["female", "male", "male"],
    ]
    # A coloured line over a white one for every face that was found.
    edges = [[to_hex(p.get_edgecolor()).upper() for p in bars(ax)][1::2] for ax in axes]
    assert edges == [[style.FEMALE, style.MALE], [], [style.FEMALE], [style.FEMALE, style.MALE, style.MALE]]


def test_a_person_whose_face_was_not_found_is_hidden_with_the_whole_image():
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (12, 36, 3), dtype=np.uint8)
    people = [pd.DataFrame(judged_people("1", [("nurse", F, F), ("cook", M, "face_too_small")]))]
    shown = gallery([pixels], people, blur=True).axes[0].images[0].get_array()
    # No pixel of noise keeps its value but by chance.
    assert (shown == pixels).all(axis=2).mean() < 0.05
