"""What the paradox's tables are said to show, from made-up tables."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from biaslab.ground import tables
from biaslab.papers.paradox import findings, printed

NAN = float("nan")


def p_of(value, low, high):
    """Return the p of an estimate whose interval at 95 % has these limits."""
    return 2 * scipy.stats.norm.sf(abs(value) * 2 * 1.959964 / (high - low))


def amplified(value, low, high, plain=None):
    """Return rows of three definitions: the mean of two prompts, which count 38 and 40 of 62 occupations."""
    row = {"model": "M", "approach": "naive", "prompt": "mean", "n_occupations": 40, "n_excluded": 22}
    row |= {"amplification": value, "ci_low": low, "ci_high": high, "p": p_of(value, low, high)}
    row |= {"amplification_plain": value if plain is None else plain}
    row["reason"] = "" if np.isfinite(low) else "Too few."
    rows = [row] + [
        row | {"prompt": p, "n_occupations": n, "n_excluded": 62 - n} for p, n in (("1", 38), ("2", 40))
    ]
    definitions = ("published", "no_exclusion", "directional")
    return pd.concat([pd.DataFrame(rows).assign(definition=d) for d in definitions])


@pytest.mark.parametrize(
    ("limits", "answer"),
    [
        ((3.0, 1.0, 5.0), "Yes, by 3.00 points."),
        ((-3.0, -5.0, -1.0), "No: it falls by 3.00 points."),
        ((-3.0, -7.0, 1.0), "Not told apart from 0."),
    ],
)
def test_a_direction_is_named_only_where_the_interval_shows_it(limits, answer):
    rule, lean = findings.baseline(amplified(*limits), confidence=0.95)
    assert rule.said == lean.said == answer
    assert rule.p == pytest.approx(p_of(*limits)) and rule.undecided == "Not told apart from 0."
    assert (rule.estimate, rule.ci_low, rule.ci_high, rule.n, rule.unit) == (*limits, 40, "points")
    assert "2 prompts, which count 38 to 40 of 62" in rule.details[0]


def test_one_answer_for_the_published_rule_and_the_signed_change():
    both = amplified(12.0, 9.0, 15.0)
    signed = both["definition"] == "directional"
    names = ["amplification", "amplification_plain", "ci_low", "ci_high", "p"]
    both.loc[signed, names] = 1.0, 1.5, -3.0, 5.0, p_of(1, -3, 5)
    (found,) = findings.headline(both, confidence=0.95)
    assert "12.0 points" in found.said and "1.00 as signed" in found.said
    # Holm over both: twice the smaller p.
    assert (
        found.p == pytest.approx(2 * p_of(12, 9, 15)) and "left in 12.0 and 1.50 points" in found.details[1]
    )
    assert [(m.estimate, m.ci_low, m.ci_high) for m in found.marks] == [(12, 9, 15), (1, -3, 5)]
    # The estimate that the finding stands for is the one that leaves no occupation out.
    assert (found.estimate, found.ci_low, found.ci_high) == (1, -3, 5)
    assert findings.headline(both[~signed], confidence=0.95) == []
    # Neither alone below one half of the level: nothing is claimed, and the numbers still stand.
    (found,) = findings.headline(amplified(3.0, 0.1, 5.9), confidence=0.95)
    assert not found.decided and found.said.startswith("None told apart from 0: 3.00 points")


def test_nothing_is_told_from_almost_nothing():
    few = amplified(29.1, NAN, NAN).assign(n_occupations=1)
    (found,) = findings.headline(few, confidence=0.95)
    rule, lean = findings.baseline(few, confidence=0.95)
    assert found.said == "Cannot be told." and rule.said == lean.said == "Cannot be told: no interval."
    assert "Published rule: Too few." in found.details and "Too few." in rule.details
    # Nor where a table had an interval: one occupation is not enough for any verdict.
    few = amplified(29.1, 9.34, 48.9).assign(n_occupations=1)
    for said in [*findings.headline(few, confidence=0.95), *findings.baseline(few, confidence=0.95)]:
        assert not said.decided and not said.said.startswith("Yes")


def test_corrections_that_rival_the_estimate_are_shown_and_told():
    # 12.52 points were corrected for 6.27 that are left, and the sign turned: nothing is told, whatever p.
    rule, _ = findings.baseline(amplified(6.27, 2.0, 10.5, plain=-6.25), confidence=0.95)
    assert rule.said == "Cannot be told: image noise." and not rule.decided
    assert rule.details[:2] == (
        "-6.25 points as measured, 6.27 without image noise.",
        "More is corrected for image noise than is left.",
    )
    # By more than half the width: both stand there, and the answer holds.
    rule, _ = findings.baseline(amplified(19.4, 14.8, 23.9, plain=25.2), confidence=0.95)
    assert rule.said == "Yes, by 19.4 points." and rule.details[0].startswith("25.2 points as measured, 19.4")
    # By less: one number is enough.
    rule, _ = findings.baseline(amplified(12.4, 9.8, 15.1, plain=12.6), confidence=0.95)
    assert rule.said == "Yes, by 12.4 points." and not any("as measured" in told for told in rule.details)


def test_embedded_models_and_worlds_are_told_apart():
    def of(model, corpus):
        return pd.DataFrame({"model": [model], "setting": ["captions.corpus"], "set_to": [corpus]})

    (said,) = findings.embedded(of("mini", "mini"))
    assert said.model == "mini" and "embedded model" in said.answer
    # A real model on the embedded world's captions is no embedded one.
    (said,) = findings.embedded(of("org/model", "mini"))
    assert said.model == "org/model" and "training data" in said.answer
    assert findings.embedded(of("org/model", "data/*.parquet")) == []


def test_shares_that_no_500_images_give():
    # Printed to 0.1, a share of 500 is a multiple of 0.2: 81 of 248 (Table 6) and 68 of 248 (Table 7) are not.
    found = findings.impossible_shares(printed.percent_female())
    values = [(f.model, round(f.estimate * f.n / 100), f.n) for f in found]
    assert values == [("SD 1.4", 0, 62), ("SD 1.4", 81, 248), ("SD 1.5", 0, 62), ("SD 1.5", 68, 248)]
    assert findings.impossible_shares(printed.percent_female().head(0)) == []


def test_shuffles_are_compared_with_what_is_observed():
    columns = ["definition", "amplification_plain", "shuffled", "shuffled_low", "shuffled_high", "p"]
    rows = [
        ("published", 10, 9, 7, 12, 0.4),
        ("directional", 1, -9, -12, -6, 0.001),
        ("no_exclusion", 1, 1, 1, 1, 1.0),
    ]
    rows = pd.DataFrame(rows, columns=columns)
    rows = rows.assign(model="M", approach="naive", prompt="mean", n_shuffles=100, n_occupations=62)
    rule, lean = findings.shuffled(rows, confidence=0.95)
    assert (rule.estimate, rule.ci_low, rule.ci_high) == (1, -2, 3) and rule.said == "Not told apart."
    assert (lean.estimate, lean.ci_low, lean.ci_high) == (10, 7, 13) and lean.said == "More."
    assert (lean.n, lean.of, lean.p) == (62, "occupations", 0.001)


def test_what_is_found_about_indicators():
    use = pd.DataFrame(
        [
            ("mini", "all", 40.0, 35.0, 45.0, NAN, 62, 59.5),
            ("mini", "rarer", 60.0, 50.0, 70.0, NAN, 60, NAN),
            ("mini", "commoner", 30.0, 20.0, 40.0, NAN, 60, NAN),
            ("mini", "difference", 30.0, 25.0, 35.0, 0.001, 60, NAN),
        ],
        columns=["corpus", "images", "percent", "ci_low", "ci_high", "p", "n", "published"],
    )
    often, whom = findings.indicators(use, confidence=0.95)
    assert (often.estimate, often.n) == (40, 62) and "no replication" in often.details[1]
    assert (whom.estimate, whom.ci_low, whom.n, whom.said, whom.p) == (30, 25, 60, "Yes.", 0.001)
    # Only the embedded world was set to the paper's share.
    often, _ = findings.indicators(use.assign(corpus="captions.csv"), confidence=0.95)
    assert len(often.details) == 1


@pytest.mark.parametrize(
    ("limits", "answer", "opposite"),
    [
        ((0.9, 0.84, 0.94), "They rise together.", True),
        ((-0.3, -0.5, -0.1), "One falls as the other rises.", False),
        ((-0.2, -0.5, 0.1), "No sign is told.", False),
    ],
)
def test_a_correlation_of_the_opposite_sign_is_said_to_be_one(limits, answer, opposite):
    row = {"corpus": "mini", "gender": "female", "counted": "any", "n": 62, "published": -0.458}
    row |= dict(zip(("r", "ci_low", "ci_high"), limits, strict=True)) | {"p": p_of(*limits)}
    rows = pd.DataFrame([row, row | {"counted": "only"}, row | {"gender": "male"}])
    (said,) = findings.correlation(rows, confidence=0.95)
    assert said.said == answer and ("opposite" in said.details[0]) == opposite


def test_tests_say_what_they_reject():
    columns = ["model", "approach", "definition", "prompt", "amplification", "n_occupations", "t", "p"]
    table = pd.DataFrame(
        [
            ("mini", "nearest", "published", "1", 3.0, 40, 2.5, 0.012),
            ("mini", "nearest", "published", "2", 1.0, 41, 0.5, 0.61),
            ("mini", "nearest", "published", "3", 2.0, 41, 2.0, 0.03),
            ("mini", "nearest", "published", "mean", 2.0, 42, 2.0, 0.04),
            ("mini", "nearest", "directional", "1", 3.0, 62, 2.5, 0.012),
            ("mini", "naive", "published", "1", 3.0, 40, 2.5, 0.012),
        ],
        columns=columns,
    )
    table = table.assign(amplification_plain=table["amplification"], ci_low=0.1, ci_high=5.0, reason="")
    (said,) = findings.t_tests(table, ["nearest"], confidence=0.95)
    # Holm over three prompts: 3 * 0.012 = 0.036, 2 * 0.03 = 0.06.
    assert said.said == "Yes, for prompt 1." and len(said.details) == 3
    assert (said.p, said.n) == (pytest.approx(0.036), 40)
    (said,) = findings.t_tests(table, ["nearest"], confidence=0.99)
    assert said.said == "Not told apart from 0."
    (said,) = findings.t_tests(table.iloc[[1]], ["nearest"], confidence=0.95)
    assert said.said == "Not told apart from 0."


@pytest.mark.parametrize(
    ("base", "value", "limits", "answer", "percent"),
    [
        (10.0, 4.0, (-9.0, -3.0), "Yes.", True),
        # A fall below 0 is no share of what was there.
        (5.0, -1.0, (-9.0, -3.0), "Yes.", False),
        (5.0, 4.0, (-3.0, 1.0), "Not told apart from 0.", True),
        (5.0, 4.0, (NAN, NAN), "Cannot be told: no interval.", True),
        (5.0, 8.0, (1.0, 5.0), "No: more.", True),
    ],
)
def test_changes_between_approaches(base, value, limits, answer, percent):
    row = {"model": "mini", "approach": "nearest", "reference": "naive", "definition": "published"}
    row |= {"prompt": "mean", "n_occupations": 60, "reason": "", "reference_amplification": base}
    row |= {"amplification": value, "change": value - base, "change_percent": 100 * (value - base) / base}
    row |= dict(zip(("ci_low", "ci_high"), limits, strict=True))
    row |= {"p": p_of(value - base, *limits), "change_plain": value - base}
    (said,) = findings.changes(pd.DataFrame([row]), ["nearest", "caption_prompts"], confidence=0.95)
    assert (said.said, said.estimate, said.n) == (answer, value - base, 60)
    assert ("%" in said.details[0]) == percent


def test_captions_without_pairs_cannot_be_told():
    rows = amplified(3.0, NAN, NAN).assign(approach="paraphrased", n_images=8.0, reason="No pairs.")
    rows = rows[rows["prompt"] == "mean"]
    rule, lean = findings.captions_as_prompts(
        rows, printed.printed_amplification(), ["paraphrased"], enough=True, confidence=0.95
    )
    assert rule.said == lean.said == "Cannot be told: no interval."
    assert rule.details == ("No pairs.", "The paper states 0.69 for SD 1.4.") and lean.details == (
        "No pairs.",
    )


def spread(**more):
    row = {
        "model": "M",
        "p_holm": NAN,
        "p_lean": 1.0,
        "lean_flips": "no",
        "flip_possible": "no",
        "sd_prompts": 9.0,
        "sd_noise": 8.0,
        "n": 12,
    }
    return pd.DataFrame([row, row | {"lean_flips": "yes"}]).assign(**more)


def test_variation_that_cannot_be_tested_is_not_counted():
    beyond, turns = findings.variation(spread(), confidence=0.95)
    assert np.isnan(beyond.estimate) and "Too few" in beyond.answer
    # No interval could have been clear of 50, so that none was says nothing.
    assert turns.said == "For 1 of 2; too few images to be sure." and turns.estimate == 50
    both = pd.concat([spread(p_holm=[0.01, 0.2], flip_possible="yes")] * 3)
    beyond, turns = findings.variation(both, confidence=0.95)
    assert (beyond.estimate, beyond.n, beyond.p) == (
        50,
        6,
        0.01,
    ) and beyond.said == "In 3 of 6 occupations tested."
    assert turns.said == "For 3 of 6; none beyond sampling noise."
    _, turns = findings.variation(both.assign(p_lean=[0.01] + [1.0] * 5), confidence=0.95)
    assert turns.said == "For 3 of 6; 1 beyond sampling noise." and turns.p == 0.01
    # No occupation differs: nothing is said to.
    beyond, _ = findings.variation(both.assign(p_holm=0.4), confidence=0.95)
    assert beyond.said == "Not told apart from sampling noise."


def test_gates_words_and_similarities_have_their_numbers():
    rates = {"model": "M", "source": "training", "approach": "naive", "prompt": "captions", "n_images": 50}
    rates |= {"percent": 80.0, "ci_low": 70.0, "ci_high": 90.0}
    judged = pd.DataFrame([rates | {"outcome": "judged", "percent": 75.0}])
    (said,) = findings.gate(pd.DataFrame([rates]), judged)
    assert (said.estimate, said.n) == (80, 50) and "75.0 %" in said.answer
    words = {"model": "M", "approach": "caption_prompts", "indicator": "all", "n": 30, "percent": 98.0}
    words |= {"ci_low": 90.0, "ci_high": 99.0}
    both = [
        words | {"against": "training image", "published": 98.41},
        words | {"against": "indicator", "published": NAN},
    ]
    own, said = findings.gender_words(pd.DataFrame(both), "caption_prompts")
    assert own.n == 30 and "98.41" in own.details[0] and said.details == ()
    similar = {
        "model": "M",
        "approach": "nearest",
        "prompt": "mean",
        "n": 62,
        "change_percent": 50.0,
        "p": 0.3,
    }
    similar |= {
        "compared": "image",
        "change": 0.1,
        "change_low": -0.1,
        "change_high": 0.3,
        "published_percent": 13.0,
    }
    (said,) = findings.similarity(pd.DataFrame([similar]), confidence=0.95)
    assert (said.estimate, said.ci_low, said.said) == (0.1, -0.1, "Not told apart.")
    (said,) = findings.similarity(pd.DataFrame([similar | {"p": 0.01, "change_low": 0.02}]), confidence=0.95)
    assert said.said == "Yes."


def test_raters_who_are_simulated_say_nothing_about_people():
    row = {"subset": "all", "value": 0.95, "ci_low": 0.9, "ci_high": 0.99, "n_items": 60, "published": 0.948}
    rows = [
        row | {"statistic": "krippendorff_alpha", "labels": "female/male/unsure"},
        row | {"statistic": "judge_agreement", "labels": "female/male", "value": 97.0, "published": 98.0},
        row | {"statistic": "judge_agreement", "labels": "female/male/unsure"},
    ]
    for kind, part in (("simulated", "nothing about people"), ("ratings", "printed 0.948")):
        alpha, judge = findings.rater_agreement(pd.DataFrame(rows), kind, "whose they are")
        assert part in alpha.answer and alpha.details == ("whose they are",) and judge.estimate == 97
        assert ("simulated" in alpha.question) == (kind == "simulated")
    unknown = pd.DataFrame([rows[0] | {"value": NAN}])
    assert findings.rater_agreement(unknown, "ratings", "") == []


def test_shares_that_nothing_corrects_are_no_finding():
    rows = tables.of(
        [
            {"model": "M", "approach": "naive", "occupation": o, "source": s, "prompt": "1", "percent_female": 40.0,
             "n": 50, "percent_corrected": v, "reason": "no reference"}
            for s, values in (("training", (44.0, 38.0)), ("generated", (NAN, NAN)))
            for o, v in zip("ab", values, strict=True)
        ],
        "judging_corrected",
    )  # fmt: skip
    training, generated = findings.correction(rows)
    assert (training.estimate, training.n) == (3, 2) and generated.answer == "They are not corrected."
    assert findings.correction(rows[rows["source"] == "generated"]) == []
