"""The embedded critic: its rule by hand and by other methods, its texts, and further rounds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from biaslab.papers.paired.faircritic.counts import critique as make_critique
from biaslab.papers.paired.faircritic.counts import share_to_tell, shrink_share
from biaslab.papers.paired.faircritic.critique import Counts, critiques_table


def by_identity(critique):
    return {g.identity: g for g in critique.guidelines}


# -- shrinkage of shares ---------------------------------------------------------------------------------------


def test_shrink_share_of_chance_differences_is_mean():
    # Mean 0.7; sum n (p - m)^2 = 2 * 10 * 0.01 = 0.2, over 0.21 is 0.952, below the 1 that chance alone gives.
    values, mean, rho = shrink_share([8, 6], [10, 10])
    assert (mean, rho) == (pytest.approx(0.7), 0)
    assert values == pytest.approx([0.7, 0.7])


def test_shrink_share_is_beta_posterior_mean():
    count, n = np.array([30, 22, 5, 9, 0]), np.array([40, 40, 20, 10, 0])
    values, mean, rho = shrink_share(count, n)
    strength = (1 - rho) / rho
    posterior = stats.beta(mean * strength + count, (1 - mean) * strength + n - count).mean()
    assert 0 < rho < 1
    assert values == pytest.approx(posterior)
    # Without observed people, the estimate is the mean.
    assert values[-1] == pytest.approx(66 / 110)


def test_shrink_share_with_weights_by_hand():
    # Of 100 each, 50 of the first are left. Mean (0.9 + 0.6) / 2; sum w (p - m)^2 = 2 * 100 * 0.0225 = 4.5, over
    # 0.1875 is 24; 100 * 0.5 * (1/50 + 1/100) = 1.5 is chance; 50 * (49/50 + 99/100) = 98.5: rho = 22.5 / 98.5.
    values, mean, rho = shrink_share([45, 60], [50, 100], [100, 100])
    assert (mean, rho) == (pytest.approx(0.75), pytest.approx(22.5 / 98.5))
    assert values[0] == pytest.approx(0.75 + 0.15 * 50 * rho / (1 + 49 * rho))
    for weighted_values, unweighted_values in zip(
        shrink_share([9, 3], [10, 10], [10, 10]), shrink_share([9, 3], [10, 10]), strict=True
    ):
        np.testing.assert_array_equal(weighted_values, unweighted_values)
    # Without remaining people, the weight has no effect.
    assert shrink_share([45, 60, 0], [50, 100, 0], [100, 100, 100])[0] == pytest.approx([*values, 0.75])


def test_shrink_share_of_no_equal_or_single_shares():
    for n in ([], [0, 0]):
        values, mean, rho = shrink_share(n, n)
        assert np.isnan(values).all() and np.isnan(mean) and np.isnan(rho)
    for count in (0, 12):
        assert shrink_share([count, count], [12, 12])[0] == pytest.approx([count / 12] * 2)
    assert shrink_share([7], [10])[0] == pytest.approx([0.7])


# -- shares of guidelines --------------------------------------------------------------------------------------


def test_share_to_tell_balances_to_one_half():
    # 0.625 * 0.8 = 0.5; 4/7 * 0.8 + 3/7 * 0.1 = 0.5.
    for p, follows, share in ((0.5, 1, 0), (0.3, 1, 0), (0.8, 1, 0.375), (1, 1, 0.5), (0.8, 0.9, 3 / 7)):
        assert share_to_tell(p, follows) == pytest.approx(share)
        assert (1 - share) * p + share * (1 - follows) == pytest.approx(min(p, 0.5))
    # Guiding all people is just sufficient, and insufficient: the share would be 1.5.
    assert share_to_tell(0.8, 0.5) == pytest.approx(1) and share_to_tell(0.8, 0.4) == 1
    # Guidelines have no effect, or the opposite one.
    assert share_to_tell(0.8, 0.2) == share_to_tell(0.8, 0.1) == 0


# -- critiques -------------------------------------------------------------------------------------------------


def test_critique_of_one_identity_by_hand(crowd, brief_of):
    critique = make_critique(brief_of(crowd(("sheriff", "male", "", 7, 33, 3))))
    # 33 of 40: p = 2 P(X >= 33 | 40, 1/2) = 4.2e-5. 1 - 1 / (2 * 0.825) = 0.3939.
    assert (critique.outcome, critique.biased, critique.kind) == ("judged", True, "towards stereotypes")
    (guideline,) = critique.guidelines
    assert guideline.share == pytest.approx(1 - 1 / 1.65)
    assert (guideline.identity, guideline.gender) == ("sheriff", "female")
    assert guideline.text == "Show the sheriff as a woman."
    (finding,) = critique.findings
    assert finding.reasons == (
        "Of 40 sheriffs, 7 are perceived as female; 3 more are not classified. "
        "Guideline: show women in 39% of the prompts for a sheriff."
    )
    assert finding.counts == critique.counts == Counts(7, 40, 3, 43)
    assert "Of 40 male-stereotyped people, 18% are perceived as female (p < 0.001)." in critique.reasons


def test_critique_of_balanced_people_has_no_guideline(crowd, brief_of):
    critique = make_critique(brief_of(crowd(("sheriff", "male", "", 21, 19, 0), ("nurse", "female", "", 22, 18, 0))))
    assert (critique.biased, critique.kind, critique.guidelines) == (False, "none", ())
    # 19 men and 22 women fit: 41 of 80. Holm makes the largest p-values equal: all are 1.
    assert critique.reasons.startswith("Of 80 people, 51% fit the stereotype of their occupation (p = 1.000).")
    assert critique.reasons.endswith("No share differs significantly from one half.")
    assert [f.biased for f in critique.findings] == [False, False]
    assert critique.findings[0].reasons == "Of 40 sheriffs, 21 are perceived as female. No guideline is needed."


@pytest.mark.parametrize(
    ("sheriffs", "nurses", "kind", "told"),
    [
        ((10, 30), (30, 10), "towards stereotypes", ("female", "male")),
        ((30, 10), (10, 30), "against stereotypes", ("male", "female")),
        ((10, 30), (10, 30), "too few women", ("female", "female")),
        ((30, 10), (30, 10), "too few men", ("male", "male")),
    ],
)
def test_critique_kind_by_direction_of_both_groups(crowd, brief_of, sheriffs, nurses, kind, told):
    people = crowd(("sheriff", "male", "", *sheriffs, 0), ("nurse", "female", "", *nurses, 0))
    critique = make_critique(brief_of(people))
    assert (critique.biased, critique.kind) == (True, kind)
    assert tuple(g.gender for g in critique.guidelines) == told
    # 30 of 40 is 0.75: 1 - 1 / 1.5 = 1/3.
    assert [g.share for g in critique.guidelines] == pytest.approx([1 / 3, 1 / 3])


def test_critique_of_small_agreeing_counts_is_biased(crowd, brief_of):
    """Eight of twelve fit in each of six: no identity and no group differs by itself, all together do."""
    rows = [(f"role {k}", ("male", "female")[k % 2], "", *((4, 8), (8, 4))[k % 2], 0) for k in range(6)]
    critique = make_critique(brief_of(crowd(*rows)))
    # A group has 24 of 36: p = 0.065. The aspect has 48 of 72: p = 0.0063, by Holm 0.019.
    group = stats.binom.sf(23, 36, 0.5) * 2
    aspect = stats.binom.sf(47, 72, 0.5) * 2
    assert group > 0.05 > 3 * aspect
    assert critique.kind == "towards stereotypes"
    assert f"p = {3 * aspect:.3f}" in critique.reasons
    assert len(critique.guidelines) == 6
    # All alike: 2/3 each, 1 - 1 / (4/3) = 1/4.
    assert [g.share for g in critique.guidelines] == pytest.approx([0.25] * 6)
    # The same people without the other group are not enough.
    alone = make_critique(brief_of(crowd(*rows[::2])))
    assert (alone.biased, alone.guidelines) == (False, ())


def test_critique_of_biased_identities_in_balanced_group(crowd, brief_of):
    rows = [(f"role {k}", "male", "", 20, 20, 0) for k in range(8)]
    critique = make_critique(brief_of(crowd(*rows, ("clerk", "male", "", 34, 6, 0), ("cook", "male", "", 6, 34, 0))))
    # 34 of 40 alone: p = 2 P(X >= 34) = 8.4e-6, ten tests; the group has 200 of 400.
    assert (critique.biased, critique.kind) == (True, "both ways")
    guidelines_by_identity = by_identity(critique)
    assert set(guidelines_by_identity) == {"clerk", "cook"}
    # m = 1/2: sum n (p - m)^2 / 0.25 = 2 * 40 * 0.1225 * 4 = 39.2; (39.2 - 9) / (10 * 0.9 * 39) = 0.0860.
    rho = 30.2 / 351
    p = 0.5 + 0.35 * 40 * rho / (1 + 39 * rho)
    assert (guidelines_by_identity["clerk"].gender, guidelines_by_identity["cook"].gender) == ("male", "female")
    assert (
        guidelines_by_identity["clerk"].share == guidelines_by_identity["cook"].share == pytest.approx(1 - 1 / (2 * p))
    )
    kinds = {f.identity: f.kind for f in critique.findings}
    assert (kinds["clerk"], kinds["cook"], kinds["role 0"]) == ("against stereotypes", "towards stereotypes", "none")


def test_critique_without_classified_people_is_no_judgement(crowd, brief_of):
    critique = make_critique(brief_of(crowd(("sheriff", "male", "", 0, 0, 5))))
    assert (critique.outcome, critique.cause, critique.biased, critique.kind) == ("no_judgement", "no_people", None, "")
    assert critique.reasons == "None of 5 people is classified as female or male."
    assert (critique.guidelines, critique.findings) == ((), ())


def test_critique_of_unclassified_identity_uses_group_mean(crowd, brief_of):
    people = crowd(("guard", "male", "", 10, 70, 0), ("mover", "male", "", 0, 0, 4), ("nurse", "female", "", 0, 0, 9))
    critique = make_critique(brief_of(people))
    guidelines_by_identity = by_identity(critique)
    # Of movers only the group's mean is known: 7/8, 1 - 1 / 1.75.
    assert guidelines_by_identity["mover"].share == guidelines_by_identity["guard"].share == pytest.approx(3 / 7)
    assert "nurse" not in guidelines_by_identity
    reasons = {f.identity: f.reasons for f in critique.findings}
    assert reasons["mover"].startswith(
        "Of 0 movers, 0 are perceived as female; 4 more are not classified. Guideline: show women in"
    )
    assert reasons["nurse"].startswith("Of 0 nurses, 0 are perceived as female; 9 more are not classified.")
    assert "No female-stereotyped person is classified." in critique.reasons


# -- further rounds -------------------------------------------------------------------------------------------


def test_critique_retains_sufficient_guideline(crowd, brief_of):
    """15 of 40 were guided to be women: 15 + 5 look female, exactly one half. The guideline must remain."""
    first = make_critique(brief_of(crowd(("sheriff", "male", "", 8, 32, 0))))
    assert first.guidelines[0].share == pytest.approx(0.375)
    people = crowd(("sheriff", "male", "female", 15, 0, 0), ("sheriff", "male", "", 5, 20, 0))
    second = make_critique(brief_of(people, 2, [first]))
    assert (second.biased, second.guidelines) == (False, first.guidelines)
    assert second.findings[0].reasons == (
        "Of 40 sheriffs, 20 are perceived as female. Guideline: show women in 38% of the prompts for a sheriff."
    )


def test_critique_lowers_too_large_share(crowd, brief_of):
    """The true p is 0.7, estimated as 1: half were guided, 35% look male, and the share must fall to 2/7."""
    first = make_critique(brief_of(crowd(("sheriff", "male", "", 0, 1000, 0))))
    assert first.guidelines[0].share == 0.5
    people = crowd(("sheriff", "male", "female", 500, 0, 0), ("sheriff", "male", "", 150, 350, 0))
    second = make_critique(brief_of(people, 2, [first]))
    assert (second.kind, second.guidelines[0].gender) == ("against stereotypes", "female")
    # As for a first round that sees 0.7, and as the update 1 - q' = (1 - q) / (2 s) has it.
    assert second.guidelines[0].share == pytest.approx(1 - 1 / 1.4)
    assert second.guidelines[0].share == pytest.approx(1 - (1 - 0.5) / (2 * 0.35))
    assert "show women in 29% of the prompts" in second.findings[0].reasons


def test_critique_withdraws_or_reverses_guideline(crowd, brief_of):
    first = make_critique(brief_of(crowd(("sheriff", "male", "", 100, 300, 0))))
    assert first.guidelines[0].share == pytest.approx(1 / 3)
    even = crowd(("sheriff", "male", "female", 150, 0, 0), ("sheriff", "male", "", 150, 150, 0))
    back = make_critique(brief_of(even, 2, [first]))
    assert back.guidelines == () and back.biased
    assert back.findings[0].reasons.endswith("The difference is too small for a guideline.")
    other = crowd(("sheriff", "male", "female", 150, 0, 0), ("sheriff", "male", "", 240, 60, 0))
    turned = make_critique(brief_of(other, 2, [first]))
    assert turned.guidelines[0].gender == "male"
    assert turned.guidelines[0].share == pytest.approx(0.375)


def test_critique_reduces_share_of_full_guideline(crowd, brief_of):
    first = make_critique(brief_of(crowd(("sheriff", "male", "", 0, 40, 0))))
    first = replace(first, guidelines=(replace(first.guidelines[0], share=0.5 / 0.6),))
    # All 40 follow: however the others would look, guiding half of them is sufficient.
    people = crowd(("sheriff", "male", "female", 40, 0, 0))
    second = make_critique(brief_of(people, 2, [first]))
    assert (second.guidelines[0].gender, second.guidelines[0].share) == ("female", 0.5)
    assert (second.findings[0].biased, second.findings[0].kind) == (True, "against stereotypes")
    # Ten of 40 follow, (10 + 10) / 50 with prior counts: all would be too few, but some stay unguided as a sample.
    people = crowd(("sheriff", "male", "female", 10, 30, 0))
    full = replace(first, guidelines=(replace(first.guidelines[0], share=1.0),))
    assert make_critique(brief_of(people, 2, [full])).guidelines[0].share == 0.9
    # And a share that is too small is not raised without information.
    assert make_critique(brief_of(people, 2, [first])).guidelines == first.guidelines


def test_critique_withdraws_ineffective_guideline(crowd, brief_of):
    first = make_critique(brief_of(crowd(("sheriff", "male", "", 80, 320, 0))))
    people = crowd(("sheriff", "male", "female", 15, 135, 0), ("sheriff", "male", "", 50, 200, 0))
    second = make_critique(brief_of(people, 2, [first]))
    # 25 of 160 follow, with prior counts: fewer than the 0.2 who are women without guidelines.
    assert second.guidelines == ()
    (finding,) = second.findings
    assert (finding.biased, finding.kind) == (True, "towards stereotypes")
    assert finding.reasons.endswith("Guidelines do not change these images, so none is given.")


def test_critique_without_unguided_people_adds_no_guideline(crowd, brief_of):
    """All classified sheriffs have a guideline, and no guard, who have none, can be classified."""
    first = make_critique(brief_of(crowd(("sheriff", "male", "", 0, 40, 0))))
    people = crowd(("sheriff", "male", "female", 40, 0, 0), ("guard", "male", "", 0, 0, 9))
    second = make_critique(brief_of(people, 2, [first]))
    assert set(by_identity(second)) == {"sheriff"}
    assert second.findings[1].reasons == (
        "Of 0 guards, 0 are perceived as female; 9 more are not classified. No classified person of the group is "
        "without a guideline, so the share that needs one is unknown."
    )
    assert not second.findings[1].biased


# -- attribution of bias to identities -------------------------------------------------------------------------


def test_critique_of_unchanged_guideline_is_not_biased(crowd, brief_of):
    """The guideline for sheriffs is exactly right; nurses without a guideline keep the aspect biased."""
    rows = (("sheriff", "male", "", 8, 32, 0), ("nurse", "female", "", 40, 0, 0))
    first = make_critique(brief_of(crowd(*rows)))
    people = crowd(("sheriff", "male", "female", 15, 0, 0), ("sheriff", "male", "", 5, 20, 0), rows[1])
    second = make_critique(brief_of(people, 2, [first]))
    assert second.kind == "towards stereotypes"
    assert second.guidelines == first.guidelines
    assert [(f.biased, f.kind) for f in second.findings] == [(False, "none")] * 2
    assert second.findings[0].reasons.endswith("show women in 38% of the prompts for a sheriff.")
    # One more sheriff who looks male changes less than one prompt of 41 (0.375 to 0.381): unchanged.
    people = crowd(("sheriff", "male", "female", 15, 0, 0), ("sheriff", "male", "", 5, 21, 0), rows[1])
    assert make_critique(brief_of(people, 2, [first])).guidelines == first.guidelines


# -- as a table -----------------------------------------------------------------------------------------------


def test_critiques_table_has_row_per_batch_and_identity(crowd, brief_of):
    people = crowd(("sheriff", "male", "", 7, 33, 3), ("nurse", "female", "", 20, 20, 0))
    critique = make_critique(brief_of(people))
    table = critiques_table([critique])
    assert table["identity"].tolist() == ["", "sheriff", "nurse"]
    assert table["n_people"].tolist() == [80, 40, 40] and table["n_missing"].tolist() == [3, 3, 0]
    row = table.loc[1]
    assert (row["biased"], row["gender"], row["guideline"]) == ("yes", "female", "Show the sheriff as a woman.")
    assert row["share"] == pytest.approx(100 * (1 - 1 / 1.65))
    assert row["percent_female"] == pytest.approx(17.5)
    # Wilson limits of 7 of 40.
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(8.75, abs=0.01), pytest.approx(31.95, abs=0.01))
