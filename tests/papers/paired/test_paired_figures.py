"""Figures and galleries of the Paired Stereotype Test match the tables, whatever the source."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from paired_rows import lists, roles, share

from biaslab.papers import paired

F, M = "female", "male"
PLAIN = ("power_score", "percent_female_mean", "outcomes")
DRAWN = {name: (name,) for name in PLAIN} | {"cases": ("adherence", "changed_cases")}
ROWS = {
    "empty": [],
    "only single": lists([3, 2], [0, 1], 3, setting="single"),
    "only power in pairs": roles([3, 2, 1], [0, 1, 3], 6),
    "all alike": lists([3, 3], [0, 0], 3, setting="single") + lists([6, 6], [0, 0], 6),
    "nobody judged": [share("f", F, 0, 0), share("m", M, 0, 0)],
}


@pytest.mark.long
@pytest.mark.parametrize("rows", ROWS.values(), ids=list(ROWS))
def test_tables_answers_and_figures_accept_sparse_sources(tables_of, analyses, rows):
    t = tables_of(percent_female=pd.DataFrame(rows, columns=list(share("f", F, 1, 1))))
    for name in analyses:
        assert len(t[name]) >= 0
    for name, frames in DRAWN.items():
        getattr(paired.figures, name)(*(t[f] for f in frames))
        plt.close("all")
    for answer in vars(paired.answers).values():
        findings = answer.findings(t[answer.table.removeprefix("paired_")])
        assert not any("nan" in str(finding).lower() for finding in findings), answer.name


def test_power_score_figure_shows_counts_and_fair_model(printed):
    scores = printed["power_score"].query("setting == 'paired'")
    (ax,) = paired.figures.power_score(scores).axes
    assert sum(bar.get_height() for bar in ax.patches if hasattr(bar, "get_height")) == 72
    (expected,) = [p for p in ax.patches if not hasattr(p, "get_height")]
    # 6 people: 1, 6, 15, 20, 15, 6 and 1 of 64; 36 roles of a kind; scores of ±100 and ±66.7 share a bar.
    assert expected.get_data().values == pytest.approx(36 * np.array([7, 15, 20, 15, 7]) / 64)


def test_cases_figure_shows_published_shares(printed):
    (ax,) = paired.figures.cases(printed["adherence"], printed["changed_cases"]).axes
    published_shares = {
        float(s[0][0]) for c in ax.collections for s in c.get_segments() if len(s) == 2 and s[0][0] == s[1][0]
    }
    # The paper states 70.12% high power of amplified, and 85.32% low power of reduced cases.
    assert {round(s, 2) for s in published_shares} >= {14.68, 70.12}


# -- galleries ---------------------------------------------------------------------------------------


def judged_people(image_id, people, order="correct"):
    """Return the rows of one image as the pipeline has them; ``people``: (phrase, stereotype, outcome or gender)."""
    rows = []
    for k, (phrase, stereotype, seen) in enumerate(people):
        is_classified = seen in ("female", "male")
        box = (4 + 12 * k, 3, 10 + 12 * k, 9) if is_classified else (np.nan,) * 4
        row = {"image_id": image_id, "aspect": "occupation", "position": k + 1, "phrase": phrase}
        row |= {"identity": phrase, "stereotype": stereotype, "status": "judged" if is_classified else seen}
        row |= {"gender": seen if is_classified else "", "probability_female": {F: 0.9, M: 0.1}.get(seen, np.nan)}
        row |= {"role": order}
        rows.append(row | dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)))
    return rows


def seen(**kinds):
    return pd.concat([pd.DataFrame(rows).assign(kind=kind) for kind, rows in kinds.items()], ignore_index=True)


def shown(chosen):
    """Return the texts below the images of a gallery."""
    keys = chosen[["kind", "image_id"]].itertuples(index=False, name=None)
    figure = paired.figures.gallery(chosen, dict.fromkeys(keys, np.full((12, 36, 3), 200, np.uint8)))
    return [" ".join(text.get_text().split()) for ax in figure.axes for text in ax.texts]


def test_gallery_labels_identity_and_fit():
    rows = judged_people("1", [("nurse", F, F), ("cook", M, F)])
    rows += judged_people("2", [("cook", M, M), ("nurse", F, F)], order="swapped")
    rows += judged_people("3", [("nurse", F, "no_face"), ("cook", M, "no_face")], order="")
    people = seen(paired=rows)
    swapped = "cook (+) | nurse (+); in another order"
    assert shown(paired.choose_pairs(people)) == ["nurse (+) | cook (−)", swapped]
    assert shown(paired.choose_failures(people)) == ["nurse | cook"]


def test_choose_single_and_paired_takes_largest_increase():
    single, pairs = [], []
    # nurse: alone never fits, in pairs always; baker: always both.
    for k in range(3):
        single += judged_people(f"n{k}", [("nurse", F, M)], order="")
        single += judged_people(f"b{k}", [("baker", F, F)], order="")
        pairs += judged_people(f"p{k}", [("nurse", F, F), ("cook", M, M)])
        pairs += judged_people(f"q{k}", [("cook", M, M), ("baker", F, F)])
    chosen = paired.choose_single_and_paired(seen(single=single, paired=pairs))
    # The cook is never alone, so only one row.
    assert shown(chosen) == ["nurse (−)"] * 2 + ["nurse (+) | cook (+)"] * 3


def test_choose_three_orders_failures_first():
    trio = [("nurse", F, F), ("cook", M, M), ("lawyer", M, F)]
    rows = judged_people("1", trio) + judged_people("2", trio, order="unclear")
    rows += judged_people("3", [(*p[:2], "one_face") for p in trio], order="")
    # First those that fail, then those that work.
    assert paired.choose_three(seen(three=rows))["image_id"].unique().tolist() == ["2", "3", "1"]


def test_galleries_without_images_are_empty():
    people = paired.people_with_faces(None, "single", "paired")
    shown = paired.choose_pairs, paired.choose_single_and_paired, paired.choose_failures, paired.choose_three
    for chosen in (show(people) for show in shown):
        assert chosen.empty and paired.read_images(None, chosen) == {}
        assert len(paired.figures.gallery(chosen, {}).axes) == 1
