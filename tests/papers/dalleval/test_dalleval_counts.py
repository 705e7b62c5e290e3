"""Numbers of objects with the detector's miscounts taken off, and how much of a ranking its error leaves."""

from math import sqrt

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from biaslab.ground import tables
from biaslab.papers import dalleval
from biaslab.papers.dalleval import figures, findings
from biaslab.papers.dalleval.analysis.detector import CANNOT, RIVALS
from biaslab.papers.dalleval.analysis.verdicts import counted


def images(found, model="a", **more):
    """Return verdicts on images: how many there are of each (asked for, found)."""
    pairs = [pair for pair, times in found.items() for _ in range(times)]
    frame = pd.DataFrame(pairs, columns=["n", "found"])
    frame["image_id"] = [f"{model}{k}" for k in range(len(frame))]
    return tables.of(
        frame.assign(**{"model": model, "rule": "paper", "skill": "count", "chosen": "yes"} | more),
        "dalleval_skill_verdicts",
    )


def drawings(said, model="a", **more):
    """Return drawings: how many there are of each (shown, found); every other one shows what was not asked for."""
    pairs = [pair for pair, times in said.items() for _ in range(times)]
    frame = pd.DataFrame(pairs, columns=["shown", "found"])
    right = (frame["shown"] > 0) & (frame.index % 2 == 0)
    frame["n"] = frame["shown"].where(right, (frame["shown"] + 1) % 4 + 1)
    frame["image_id"] = [f"{model}{k}" for k in range(len(frame))]
    return tables.of(frame.assign(**{"model": model, "skill": "count"} | more), "dalleval_detector_renders")


def join(*frames):
    return pd.concat(frames, ignore_index=True)


def corrected(verdicts, renders, **how):
    return dalleval.count_corrected(verdicts, renders, **how).set_index(["model", "asked"])


# -- what the detector counts ------------------------------------------------------------------------


def test_objects_of_the_class_asked_for_are_counted_above_the_threshold():
    found = [
        *[("i", "dog", 0.9), ("i", "dog", 0.71), ("i", "dog", 0.7), ("i", "car", 0.99)],
        *[("j", "car", 0.8), ("k", "dog", 0.1), ("k", "dog", 0.95)],
    ]
    found = pd.DataFrame(found, columns=["image_id", "label", "score"])
    asked = [("k", "dog"), ("i", "dog"), ("i", "car"), ("j", "dog"), ("l", "dog")]
    asked = pd.DataFrame(asked, columns=["image_id", "object"], index=[5, 3, 3, 1, 0])
    # What lies at the threshold does not pass it; an image that has no detection has none of anything.
    assert counted(found, asked, 0.7).tolist() == [1, 2, 1, 0, 0]
    assert counted(found, asked, 0.05).tolist() == [2, 3, 1, 0, 0]
    assert counted(found.iloc[:0], asked, 0.5).tolist() == [0] * 5


def test_confusion_of_numbers_by_hand():
    of = {(0, 0): 3, (0, 1): 1, (2, 2): 2, (2, 5): 1, (2, 6): 1, (2, 9): 1, (4, 4): 1}
    others = drawings({(1, 1): 4}, image_id=list("wxyz"), skill="object")
    table = dalleval.count_confusion(join(drawings(of), others, drawings({(3, 3): 1}, "b")))
    cells = table.astype({"shown": int, "found": int}).set_index(["model", "shown", "found"])
    # Five and more are one. Of what is not shown (1 and 3 by the first) nothing is said, nor of other skills.
    assert cells["percent"].to_dict() == {
        **{("a", 0, k): p for k, p in enumerate([75, 25, 0, 0, 0, 0])},
        **{("a", 2, k): p for k, p in enumerate([0, 0, 40, 0, 0, 60])},
        **{("a", 4, k): 100 * (k == 4) for k in range(6)},
        **{("b", 3, k): 100 * (k == 3) for k in range(6)},
    }
    sizes = cells["n"].groupby(["model", "shown"])
    assert sizes.min().tolist() == sizes.max().tolist() == [4, 5, 1, 1]


# -- miscounts taken off -----------------------------------------------------------------------------


def test_a_detector_without_error_leaves_all_shares():
    exact = drawings({(k, k): 20 for k in range(5)})
    found = {(1, 1): 6, (1, 0): 2, (1, 2): 2, (3, 3): 15, (3, 4): 3, (3, 1): 12}
    table = corrected(images(found), exact)
    assert table["percent_found"].to_dict() == pytest.approx(
        {("a", "1"): 60, ("a", "3"): 50, ("a", "all"): 52.5}
    )
    assert table["percent_corrected"].tolist() == pytest.approx(table["percent_found"].tolist(), abs=1e-6)
    assert table["n"].tolist() == [10, 30, 40]
    # Then the interval is about that of the images alone, of 15 of 30.
    low, high = (100 * binom.ppf(q, 30, 0.5) / 30 for q in (0.025, 0.975))
    assert table.loc[("a", "3"), ["ci_low", "ci_high"]].tolist() == pytest.approx([low, high], abs=4)
    assert table["percent_true"].isna().all()


TWO = {(1, 1): 80, (1, 2): 20, (2, 1): 30, (2, 2): 70}


def test_two_numbers_are_told_apart_as_by_hand():
    # Found once: 0.8 p + 0.3 (1 - p), so that 60 of 100 come of p = (0.6 - 0.3) / 0.5. Found twice:
    # 0.2 (1 - q) + 0.7 q, so that 90 of 200 come of q = (0.45 - 0.2) / 0.5.
    found = {(1, 1): 60, (1, 2): 40, (2, 1): 110, (2, 2): 90}
    table = corrected(images(found), drawings(TWO))
    assert table["percent_found"].tolist() == pytest.approx([60, 45, 50])
    # All are the mean over images: (100 · 0.6 + 200 · 0.5) / 300.
    assert table["percent_corrected"].tolist() == pytest.approx([60, 50, 160 / 3], abs=0.01)
    assert (table["ci_low"] < table["percent_corrected"]).all()
    assert (table["percent_corrected"] < table["ci_high"]).all()
    # Solved by hand 90 of 100 would be 120 %.
    assert corrected(images({(1, 1): 90, (1, 2): 10}), drawings(TWO))["percent_corrected"].tolist() == (
        pytest.approx([100, 100], abs=0.01)
    )


def test_intervals_of_many_are_those_of_the_delta_method_by_hand():
    # 1,500 images and 1,000 drawings of each: p = (f - b) / (a - b) of three independent shares.
    f, a, b, n, m = 0.55, 0.8, 0.3, 1500, 1000
    p = (f - b) / (a - b)
    terms = [f * (1 - f) / n, p**2 * a * (1 - a) / m, (1 - p) ** 2 * b * (1 - b) / m]
    half = 100 * norm.ppf(0.975) * sqrt(sum(terms)) / (a - b)
    row = corrected(images({(1, 1): 825, (1, 2): 675}), drawings({k: 10 * v for k, v in TWO.items()}))
    row = row.loc[("a", "1")]
    assert row["percent_corrected"] == pytest.approx(50, abs=0.01)
    # A few images and drawings are added, which of so many is little.
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([50 - half, 50 + half], abs=0.05 * half)
    narrow = corrected(
        images({(1, 1): 825, (1, 2): 675}), drawings({k: 10 * v for k, v in TWO.items()}), confidence=0.5
    ).loc[("a", "1")]
    ratio = (narrow["ci_high"] - narrow["ci_low"]) / (row["ci_high"] - row["ci_low"])
    assert ratio == pytest.approx(norm.ppf(0.75) / norm.ppf(0.975), abs=0.01)


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        # Of ten drawings that show as many as asked for so many are found right, and of ten that do not.
        (5, 0, True),
        (4, 0, False),
        (10, 5, True),
        (10, 6, False),
        (0, 10, False),
        # Drawings that are all right, or all wrong, say nothing of what it tells.
        (10, None, False),
        (None, 0, False),
    ],
)
def test_a_detector_that_cannot_tell_numbers_gives_no_share(right, wrong, told):
    # Right drawings show the two that are asked for, wrong ones show one.
    kinds = [(shown, hits) for shown, hits in ((2, right), (1, wrong)) if hits is not None]
    known = drawings({(shown, found): n for shown, hits in kinds for found, n in ((2, hits), (1, 10 - hits))})
    verdicts = images({(2, 2): 6, (2, 1): 4}, shown=[2] * 5 + [1] * 5)
    table = corrected(verdicts, known.assign(n=2))
    numbers = table[["percent_corrected", "ci_low", "ci_high"]].notna()
    assert (numbers.all(axis=None) if told else not numbers.any(axis=None)) and len(table) == 2
    # Ten and five of ten: (0.6 - 0.5) / 0.5 are 20 %, of which 40 points were taken off.
    rivals = told and wrong == 5
    assert (table["reason"] == (RIVALS if rivals else "" if told else CANNOT)).all()
    # What it counts, and the truth, stand there in any case.
    assert table["percent_found"].tolist() == pytest.approx([60, 60])
    assert table["percent_true"].tolist() == pytest.approx([50, 50])
    (found,) = findings.count_corrected(table.reset_index())
    says = told and not rivals
    assert np.isfinite(found.estimate) == says and (says or not any(c.isdigit() for c in found.answer))
    assert any(ax.axison for ax in figures.count_corrected(table.reset_index()).axes) == told


def test_images_that_were_never_seen_do_not_count():
    seen = images({(1, 1): 60, (1, 2): 40})
    more = images({(1, 0): 30}, image_id=[f"u{k}" for k in range(30)], outcome=["unreadable", "blocked"] * 15)
    pd.testing.assert_frame_equal(corrected(join(seen, more), drawings(TWO)), corrected(seen, drawings(TWO)))
    assert corrected(more, drawings(TWO)).empty


@pytest.mark.parametrize(("found", "share"), [({(1, 1): 10}, 100), ({(1, 2): 10}, 0), ({(3, 3): 4}, 100)])
def test_limits_hold_the_estimate(found, share):
    # At 0 and 100 % the middle of the interval lies inwards of the estimate.
    table = corrected(images(found), drawings({(k, k): 20 for k in range(5)}))
    assert table["percent_corrected"].tolist() == pytest.approx([share] * 2, abs=1e-6)
    assert (table["ci_low"] <= table["percent_corrected"]).all()
    assert (table["percent_corrected"] <= table["ci_high"]).all()
    assert (table["ci_high"] - table["ci_low"] > 1).all()


CONFUSION = np.array(
    [
        [0.90, 0.08, 0.02, 0.00, 0.00, 0.00],
        [0.07, 0.85, 0.06, 0.02, 0.00, 0.00],
        [0.01, 0.12, 0.80, 0.06, 0.01, 0.00],
        [0.00, 0.02, 0.20, 0.70, 0.06, 0.02],
        [0.00, 0.01, 0.04, 0.25, 0.60, 0.10],
    ]
)


def test_a_planted_mix_is_found_again():
    # Expected counts of a large sample, so that nothing is left to chance: 20,000 images of three objects.
    mix = np.array([0.05, 0.1, 0.2, 0.55, 0.1])
    sizes = np.rint(20_000 * (mix @ CONFUSION)).astype(int)
    found = {(3, k): int(size) for k, size in enumerate(sizes)}
    known = {(k, j): round(2000 * CONFUSION[k, j]) for k, j in np.ndindex(5, 6)}
    row = corrected(images(found), drawings(known)).loc[("a", "3")]
    assert row["percent_found"] == pytest.approx(100 * (mix @ CONFUSION)[3], abs=0.01)
    assert abs(row["percent_found"] - 55) > 8
    assert row["percent_corrected"] == pytest.approx(55, abs=0.5)


def test_intervals_hold_the_truth():
    # 120 studies of 150 images of two objects each, and 60 drawings of each number.
    rng, studies = np.random.default_rng(3), 120
    mix, verdicts, renders = np.array([0.05, 0.2, 0.6, 0.1, 0.05]), [], []
    for study in range(studies):
        shown = rng.multinomial(150, mix @ CONFUSION)
        verdicts.append(images({(2, k): int(c) for k, c in enumerate(shown)}, f"m{study}"))
        cells = [rng.multinomial(60, row) for row in CONFUSION]
        renders.append(drawings({(k, j): int(cells[k][j]) for k, j in np.ndindex(5, 6)}, f"m{study}"))
    table = corrected(join(*verdicts), join(*renders)).xs("2", level="asked")
    assert len(table) == studies
    held = ((table["ci_low"] <= 60) & (table["ci_high"] >= 60)).mean()
    # Of 120 intervals that hold it in 95 of 100 cases, fewer than 89 % (three standard errors) come once in 1,000.
    assert held >= 0.95 - 3 * sqrt(0.95 * 0.05 / studies)
    # As counted there are 0.6 · 0.8 + 0.05 · 0.02 + 0.2 · 0.06 + 0.1 · 0.2 + 0.05 · 0.04 = 51.5 %; the mean of 120 such
    # studies is known to 0.4 points.
    assert abs(table["percent_corrected"].mean() - 60) < 3 * table["percent_corrected"].std() / sqrt(studies)
    assert table["percent_found"].mean() == pytest.approx(100 * (mix @ CONFUSION)[2], abs=1.5)


@pytest.mark.parametrize("share", [0, 0.02, 0.98, 1])
def test_intervals_hold_the_truth_at_both_ends(share):
    # 100 studies of 15 images of each of two numbers, and 40 drawings of each: what is not right is one off.
    rng, held = np.random.default_rng(4), []
    for _ in range(100):
        known = {(k, j): int(n) for k in range(5) for j, n in enumerate(rng.multinomial(40, CONFUSION[k]))}
        found = {}
        for asked in (1, 2):
            mix = share * np.eye(5)[asked] + (1 - share) * (np.eye(5)[asked - 1] + np.eye(5)[asked + 1]) / 2
            found |= {(asked, j): int(n) for j, n in enumerate(rng.multinomial(15, mix @ CONFUSION))}
        table = corrected(images(found), drawings(known))
        held.append((table["ci_low"] <= 100 * share + 1e-9) & (table["ci_high"] >= 100 * share - 1e-9))
    # Fewer than 88 of 100 come once in 500 where 95 % are held.
    assert (pd.DataFrame(held).mean() >= 0.88).all()


def test_truth_stands_beside_only_where_all_of_it_is_known():
    found = {(1, 1): 3, (2, 2): 1}
    known = images(found, shown=[1, 1, 0, 2])
    # Two of three show one, the other one shows two.
    assert corrected(known, drawings(TWO))["percent_true"].tolist() == pytest.approx([200 / 3, 100, 75])
    part = images(found, shown=[1, 1, np.nan, 2])
    assert corrected(part, drawings(TWO))["percent_true"].isna().all()


def test_other_rules_and_skills_do_not_count():
    found = {(1, 1): 60, (1, 2): 40}
    more = join(
        images(found),
        images({(1, 2): 50}, rule="geneval", chosen="no"),
        images({(1, 0): 50}, image_id=[f"o{k}" for k in range(50)], skill="object"),
    )
    other = drawings({(1, 2): 500}, image_id=[f"o{k}" for k in range(500)], skill="object")
    first = corrected(images(found), drawings(TWO))
    pd.testing.assert_frame_equal(corrected(more, join(drawings(TWO), other)), first)


def test_without_drawings_of_a_model_nothing_is_corrected():
    found = {(1, 1): 6, (1, 2): 4}
    both = join(images(found), images(found, "b"))
    assert set(corrected(both, drawings(TWO, "b")).index.get_level_values("model")) == {"b"}
    assert corrected(images(found), drawings({})).empty
    assert corrected(images(found), drawings(TWO, skill="object")).empty
    assert corrected(images({}), drawings(TWO)).empty


# -- how much of a ranking is left -------------------------------------------------------------------


MANY = 10**9


def errors(n=MANY, skill="object", model="a", **percent):
    """Return a detector's errors on so many drawings; a name that starts with ``_`` is a way of failing."""
    rows = [
        {"model": model, "skill": skill, "object": "all", "value": value, "n": n}
        | {"measure": name.replace("_", "specificity: ")}
        for name, value in percent.items()
    ]
    return tables.of(rows, "dalleval_detector_error")


def accuracy(shares, n=1000, **more):
    rows = [
        {
            "model": f"m{k}",
            "evaluator": "DETR",
            "images": "test",
            "training_percent": "100",
            "skill": "object",
        }
        | {"percent_correct": share, "n": n}
        | more
        for k, share in enumerate(shares)
    ]
    return tables.of(rows, "dalleval_skill_accuracy")


def kept(known, shares):
    return dalleval.ranking_kept(known, shares, seed=1).set_index("judge")


PERFECT = {"sensitivity": 100, "_missing": 100, "_other": 100}


def needed(middle, n):
    """Return the difference d of two shares about a middle whose z is the 95th percentile of a normal.

    d = z · sqrt((2 m (1 - m) - d²/2) / n), solved for d; in points.
    """
    z = norm.ppf(0.95)
    return 100 * z * sqrt(2 * middle * (1 - middle) / (n + z**2 / 2))


def test_a_detector_without_error_leaves_what_the_sample_does():
    table = kept(errors(**PERFECT), accuracy([40, 42, 60], n=400))
    alone, seen = table.loc["none"], table.loc["detector"]
    assert list(table.index) == ["none", "detector"]
    # 4,000 simulations of three pairs, of which one is unsure: the mean is known to 0.3 points.
    assert seen["percent_kept"] == pytest.approx(alone["percent_kept"], abs=1)
    middle = (0.40 + 0.42 + 0.60) / 3
    # In steps of a tenth.
    assert 0 <= alone["difference_needed"] - needed(middle, 400) <= 0.1 + 1e-9
    assert seen["difference_needed"] == pytest.approx(alone["difference_needed"], abs=0.11)
    assert table["smallest_difference"].tolist() == pytest.approx([2, 2])
    assert (table["n_models"] == 3).all() and (table["n"] == 400).all()
    # By summing over both binomials; as many right images are half a pair.
    k, pairs = np.arange(401), []
    for a, b in ((0.40, 0.42), (0.40, 0.60), (0.42, 0.60)):
        first, second = binom.pmf(k, 400, a), binom.cdf(k, 400, b)
        pairs.append(1 - first @ second + 0.5 * first @ binom.pmf(k, 400, b))
    assert alone["percent_kept"] == pytest.approx(100 * np.mean(pairs), abs=1)
    # The middle 95 of 100 simulations keep two or all three pairs.
    assert (alone["ci_low"], alone["ci_high"]) == (pytest.approx(200 / 3), 100)


@pytest.mark.parametrize(("middle", "n"), [(0.5, 100), (0.9, 2000)])
def test_the_difference_that_a_sample_needs_by_hand(middle, n):
    found = kept(errors(**PERFECT), accuracy([100 * middle - 3, 100 * middle + 3], n=n))
    assert 0 <= found.loc["none", "difference_needed"] - needed(middle, n) <= 0.1 + 1e-9


def test_a_detector_that_cannot_tell_ranks_by_chance():
    table = kept(errors(sensitivity=60, _missing=40), accuracy([20, 50, 80]))
    assert np.isnan(table.loc["detector", "difference_needed"]) and table.loc["none", "difference_needed"] > 0
    # Pairs of a simulation share models, so that 4,000 simulations know the mean to 0.55 points or so.
    assert table.loc["detector", "percent_kept"] == pytest.approx(50, abs=2.5)
    assert table.loc["none", "percent_kept"] == 100


def test_what_is_seen_of_failures_moves_models_against_each_other():
    shares = accuracy([40, 45, 60])
    alike = kept(errors(sensitivity=95, _missing=75, _other=75), shares)
    apart = kept(errors(sensitivity=95, _missing=55, _other=95), shares)
    alone, even, uneven = (
        t.loc[j, "difference_needed"] for t, j in ((alike, "none"), (alike, "detector"), (apart, "detector"))
    )
    # Alike, differences shrink to 0.7 of what they are and the spread stays about as it is: 3.7 to 5.2 points.
    m = np.mean([0.40, 0.45, 0.60])
    judged = 0.95 * m + 0.25 * (1 - m)
    expected = needed(judged, 1000) / 0.7
    assert even == pytest.approx(expected, abs=0.15) and alone < even
    # Apart, two mixes differ by (u - v) · 40 points of the wrong images, u and v uniform: its standard deviation is
    # 40 / sqrt(6) = 16 points of the 52 % that are wrong, 8.5, where differences shrink to 0.7: many times as much.
    assert uneven > 3 * even
    assert uneven < norm.ppf(0.95) * 8.5 / 0.7 * 1.3
    assert apart.loc["detector", "percent_kept"] < alike.loc["detector", "percent_kept"] < 100


def test_few_drawings_leave_more_unsure():
    # Two hundred drawings say less of a detector than a thousand million.
    shares = accuracy([40, 60], n=5000)
    ways = {"sensitivity": 90, "_missing": 90, "_other": 90}
    few, many = (kept(errors(n, **ways), shares).loc["detector", "difference_needed"] for n in (30, MANY))
    assert few > many


def test_models_of_the_run_its_curve_and_its_own_shares_are_no_printed_ones():
    two = accuracy([40, 60], n=500)
    own = accuracy([10], n=36, model="a", evaluator="detector")
    curve = accuracy([5], n=36, model="a, fine-tuned", images="curve")
    part = accuracy([7], n=36, model="m0", training_percent="10")
    sample = accuracy([3], n=36, evaluator="Human", images="sample")
    average = accuracy([2], n=36, skill="average")
    known = errors(**PERFECT)
    table = kept(known, join(two, own, curve, part, sample, average))
    # As many scenes as the run's own model was judged on.
    assert (table["n_models"] == 2).all() and (table["n"] == 36).all()
    assert table["smallest_difference"].tolist() == pytest.approx([20, 20])
    assert 0 <= table.loc["none", "difference_needed"] - needed(0.5, 36) <= 0.1 + 1e-9
    assert (kept(known, two)["n"] == 500).all()


@pytest.mark.parametrize(
    ("known", "shares"),
    [
        (PERFECT, accuracy([40])),
        (PERFECT, accuracy([])),
        (PERFECT, join(accuracy([40]), accuracy([50], model="a"))),
        (PERFECT, accuracy([40, 60], skill="count")),
        ({"sensitivity": 100}, accuracy([40, 60])),
        ({"_missing": 100}, accuracy([40, 60])),
    ],
)
def test_without_two_models_or_an_error_there_is_no_ranking(known, shares):
    assert dalleval.ranking_kept(errors(**known), shares, seed=1).empty


def test_models_as_accurate_as_each_other_have_no_order():
    table = kept(errors(**PERFECT), accuracy([50, 50, 90]))
    # Only the pairs with the third are counted.
    assert table["percent_kept"].tolist() == [100, 100] and (table["smallest_difference"] == 0).all()


# -- figures and findings ----------------------------------------------------------------------------


def dots(figure):
    """Return the values of all dots of all panels."""
    lines = [line for ax in figure.axes for line in ax.lines if line.get_marker() not in ("", "None", None)]
    return sorted(round(float(x), 3) for line in lines for x in line.get_xdata() if np.isfinite(x))


def test_numbers_are_drawn_as_counted_and_corrected():
    table = corrected(
        images({(1, 1): 60, (1, 2): 40}, shown=[1] * 55 + [2] * 45), drawings(TWO)
    ).reset_index()
    figure = figures.count_corrected(table)
    expected = [*table["percent_found"], *table["percent_corrected"]]
    assert dots(figure) == sorted(round(value, 3) for value in expected)
    (found,) = findings.count_corrected(table)
    row = table[table["asked"] == "all"].iloc[0]
    assert (found.estimate, found.ci_low, found.ci_high, found.n) == (
        row["percent_corrected"], row["ci_low"], row["ci_high"], 100,
    )  # fmt: skip
    said = " ".join([found.answer, *found.details])
    assert all(number in said for number in ("60.0", "55.0"))
    (unknown,) = findings.count_corrected(table.assign(percent_true=np.nan))
    assert "55.0" not in " ".join(unknown.details) and "nan" not in " ".join(unknown.details)


def test_the_confusion_is_drawn_with_five_as_more():
    table = dalleval.count_confusion(drawings({(1, 1): 3, (1, 0): 1, (4, 7): 2}))
    (panel, *_) = figures.count_confusion(table).axes
    names = [text.get_text() for text in panel.get_yticklabels()]
    values = np.asarray(panel.collections[0].get_array()).reshape(len(names), -1)
    assert [name.split()[0] for name in names] == ["1", "4"]
    assert values.tolist() == [[25, 75, 0, 0, 0, 0], [0, 0, 0, 0, 0, 100]]
    assert "5 or more" in panel.get_xticklabels()[-1].get_text()


def test_what_models_must_differ_by_is_drawn_and_said():
    row = {"model": "a", "skill": "object", "percent_kept": 91.5, "ci_low": 70, "ci_high": 100, "n_models": 4}
    row |= {"smallest_difference": 1.25, "n": 100}
    rows = [
        row | {"judge": "none", "percent_kept": 96.5, "difference_needed": 3.7},
        row | {"judge": "detector", "difference_needed": 12.5},
        row | {"judge": "none", "skill": "count", "difference_needed": 2.5},
        row | {"judge": "detector", "skill": "count"},
    ]
    table = tables.of(rows, "dalleval_ranking_kept")
    assert dots(figures.ranking_kept(table)) == [2.5, 3.7, 12.5]
    tells, cannot = findings.ranking_kept(table)
    assert tells.model == "a" and "12.5" in tells.answer and "3.7" in tells.answer
    assert all(number in tells.details[0] for number in ("4", "91.5", "96.5"))
    assert "2.5" in cannot.answer and "nan" not in cannot.answer + tells.answer


@pytest.mark.parametrize("name", ["count_confusion", "count_corrected", "ranking_kept"])
def test_tables_without_rows_draw_and_say_nothing(name):
    nothing = tables.of([], f"dalleval_{name}")
    assert not any(ax.axison for ax in getattr(figures, name)(nothing).axes)
    if name != "count_confusion":
        assert getattr(findings, name)(nothing) == []
