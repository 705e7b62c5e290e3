"""The embedded critic: its rule by hand and by other routes, its words, and further rounds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from biaslab.papers.paired.faircritic.counts import critique as criticised
from biaslab.papers.paired.faircritic.counts import share_to_tell, shrink_share
from biaslab.papers.paired.faircritic.critique import Counts, critiques_table


def by_identity(critique):
    return {g.identity: g for g in critique.guidelines}


# -- shares drawn to their mean -------------------------------------------------------------------------------


def test_shares_that_differ_by_chance_become_their_mean():
    # Mean 0.7; sum n (p - m)^2 = 2 * 10 * 0.01 = 0.2, over 0.21 is 0.952, below the 1 that chance alone gives.
    values, mean, rho = shrink_share([8, 6], [10, 10])
    assert (mean, rho) == (pytest.approx(0.7), 0)
    assert values == pytest.approx([0.7, 0.7])


def test_the_drawn_share_is_the_mean_of_the_beta_posterior():
    count, n = np.array([30, 22, 5, 9, 0]), np.array([40, 40, 20, 10, 0])
    values, mean, rho = shrink_share(count, n)
    strength = (1 - rho) / rho
    posterior = stats.beta(mean * strength + count, (1 - mean) * strength + n - count).mean()
    assert 0 < rho < 1
    assert values == pytest.approx(posterior)
    # Of whom nobody was seen, the mean is all that is known.
    assert values[-1] == pytest.approx(66 / 110)


def test_weights_stand_in_for_people_who_were_told():
    # Of 100 each, 50 of the first are left. Mean (0.9 + 0.6) / 2; sum w (p - m)^2 = 2 * 100 * 0.0225 = 4.5, over
    # 0.1875 is 24; 100 * 0.5 * (1/50 + 1/100) = 1.5 is chance; 50 * (49/50 + 99/100) = 98.5: rho = 22.5 / 98.5.
    values, mean, rho = shrink_share([45, 60], [50, 100], [100, 100])
    assert (mean, rho) == (pytest.approx(0.75), pytest.approx(22.5 / 98.5))
    assert values[0] == pytest.approx(0.75 + 0.15 * 50 * rho / (1 + 49 * rho))
    for given, plain in zip(shrink_share([9, 3], [10, 10], [10, 10]), shrink_share([9, 3], [10, 10]), strict=True):
        np.testing.assert_array_equal(given, plain)
    # Of whom nobody is left, the weight counts for nothing.
    assert shrink_share([45, 60, 0], [50, 100, 0], [100, 100, 100])[0] == pytest.approx([*values, 0.75])


def test_nobody_has_no_share_and_all_alike_or_one_alone_are_what_they_are():
    for n in ([], [0, 0]):
        values, mean, rho = shrink_share(n, n)
        assert np.isnan(values).all() and np.isnan(mean) and np.isnan(rho)
    for count in (0, 12):
        assert shrink_share([count, count], [12, 12])[0] == pytest.approx([count / 12] * 2)
    assert shrink_share([7], [10])[0] == pytest.approx([0.7])


# -- how often to tell ----------------------------------------------------------------------------------------


def test_the_share_to_tell_brings_the_sum_to_one_half():
    # 0.625 * 0.8 = 0.5; 4/7 * 0.8 + 3/7 * 0.1 = 0.5.
    for p, follows, share in ((0.5, 1, 0), (0.3, 1, 0), (0.8, 1, 0.375), (1, 1, 0.5), (0.8, 0.9, 3 / 7)):
        assert share_to_tell(p, follows) == pytest.approx(share)
        assert (1 - share) * p + share * (1 - follows) == pytest.approx(min(p, 0.5))
    # All told is just enough, and not quite: the share would be 1.5.
    assert share_to_tell(0.8, 0.5) == pytest.approx(1) and share_to_tell(0.8, 0.4) == 1
    # Told or not is the same, or telling makes it worse.
    assert share_to_tell(0.8, 0.2) == share_to_tell(0.8, 0.1) == 0


# -- what it says ---------------------------------------------------------------------------------------------


def test_one_identity_by_hand(crowd, brief_of):
    critique = criticised(brief_of(crowd(("sheriff", "male", "", 7, 33, 3))))
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


def test_a_fair_world_needs_nothing(crowd, brief_of):
    critique = criticised(brief_of(crowd(("sheriff", "male", "", 21, 19, 0), ("nurse", "female", "", 22, 18, 0))))
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
def test_kinds_of_bias_and_over_correction_by_the_same_rule(crowd, brief_of, sheriffs, nurses, kind, told):
    people = crowd(("sheriff", "male", "", *sheriffs, 0), ("nurse", "female", "", *nurses, 0))
    critique = criticised(brief_of(people))
    assert (critique.biased, critique.kind) == (True, kind)
    assert tuple(g.gender for g in critique.guidelines) == told
    # 30 of 40 is 0.75: 1 - 1 / 1.5 = 1/3.
    assert [g.share for g in critique.guidelines] == pytest.approx([1 / 3, 1 / 3])


def test_small_counts_that_agree_are_bias_together(crowd, brief_of):
    """Eight of twelve fit in each of six: no identity and no group differs by itself, all together do."""
    rows = [(f"role {k}", ("male", "female")[k % 2], "", *((4, 8), (8, 4))[k % 2], 0) for k in range(6)]
    critique = criticised(brief_of(crowd(*rows)))
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
    alone = criticised(brief_of(crowd(*rows[::2])))
    assert (alone.biased, alone.guidelines) == (False, ())


def test_one_identity_of_a_fair_group(crowd, brief_of):
    rows = [(f"role {k}", "male", "", 20, 20, 0) for k in range(8)]
    critique = criticised(brief_of(crowd(*rows, ("clerk", "male", "", 34, 6, 0), ("cook", "male", "", 6, 34, 0))))
    # 34 of 40 alone: p = 2 P(X >= 34) = 8.4e-6, ten tests; the group has 200 of 400.
    assert (critique.biased, critique.kind) == (True, "both ways")
    found = by_identity(critique)
    assert set(found) == {"clerk", "cook"}
    # m = 1/2: sum n (p - m)^2 / 0.25 = 2 * 40 * 0.1225 * 4 = 39.2; (39.2 - 9) / (10 * 0.9 * 39) = 0.0860.
    rho = 30.2 / 351
    p = 0.5 + 0.35 * 40 * rho / (1 + 39 * rho)
    assert (found["clerk"].gender, found["cook"].gender) == ("male", "female")
    assert found["clerk"].share == found["cook"].share == pytest.approx(1 - 1 / (2 * p))
    kinds = {f.identity: f.kind for f in critique.findings}
    assert (kinds["clerk"], kinds["cook"], kinds["role 0"]) == ("against stereotypes", "towards stereotypes", "none")


def test_nobody_to_judge_is_no_judgement(crowd, brief_of):
    critique = criticised(brief_of(crowd(("sheriff", "male", "", 0, 0, 5))))
    assert (critique.outcome, critique.cause, critique.biased, critique.kind) == ("no_judgement", "no_people", None, "")
    assert critique.reasons == "None of 5 people is classified as female or male."
    assert (critique.guidelines, critique.findings) == ((), ())


def test_an_identity_or_a_group_that_nobody_sees(crowd, brief_of):
    people = crowd(("guard", "male", "", 10, 70, 0), ("mover", "male", "", 0, 0, 4), ("nurse", "female", "", 0, 0, 9))
    critique = criticised(brief_of(people))
    found = by_identity(critique)
    # Of movers only the group's mean is known: 7/8, 1 - 1 / 1.75.
    assert found["mover"].share == found["guard"].share == pytest.approx(3 / 7)
    assert "nurse" not in found
    reasons = {f.identity: f.reasons for f in critique.findings}
    assert reasons["mover"].startswith(
        "Of 0 movers, 0 are perceived as female; 4 more are not classified. Guideline: show women in"
    )
    assert reasons["nurse"].startswith("Of 0 nurses, 0 are perceived as female; 9 more are not classified.")
    assert "No female-stereotyped person is classified." in critique.reasons


# -- further rounds -------------------------------------------------------------------------------------------


def test_what_suffices_stays(crowd, brief_of):
    """Of 40, 15 were told to be women: 15 + 5 look so, just one half. The guideline must not be lost."""
    first = criticised(brief_of(crowd(("sheriff", "male", "", 8, 32, 0))))
    assert first.guidelines[0].share == pytest.approx(0.375)
    people = crowd(("sheriff", "male", "female", 15, 0, 0), ("sheriff", "male", "", 5, 20, 0))
    second = criticised(brief_of(people, 2, [first]))
    assert (second.biased, second.guidelines) == (False, first.guidelines)
    assert second.findings[0].reasons == (
        "Of 40 sheriffs, 20 are perceived as female. Guideline: show women in 38% of the prompts for a sheriff."
    )


def test_a_share_that_was_too_large_is_lowered_and_not_counted_twice(crowd, brief_of):
    """p is 0.7 in truth and was taken for 1: half were told, 35% men are seen, and the share must fall to 2/7."""
    first = criticised(brief_of(crowd(("sheriff", "male", "", 0, 1000, 0))))
    assert first.guidelines[0].share == 0.5
    people = crowd(("sheriff", "male", "female", 500, 0, 0), ("sheriff", "male", "", 150, 350, 0))
    second = criticised(brief_of(people, 2, [first]))
    assert (second.kind, second.guidelines[0].gender) == ("against stereotypes", "female")
    # As for a first round that sees 0.7, and as the update 1 - q' = (1 - q) / (2 s) has it.
    assert second.guidelines[0].share == pytest.approx(1 - 1 / 1.4)
    assert second.guidelines[0].share == pytest.approx(1 - (1 - 0.5) / (2 * 0.35))
    assert "show women in 29% of the prompts" in second.findings[0].reasons


def test_a_guideline_against_nothing_is_taken_back_or_turned(crowd, brief_of):
    first = criticised(brief_of(crowd(("sheriff", "male", "", 100, 300, 0))))
    assert first.guidelines[0].share == pytest.approx(1 / 3)
    even = crowd(("sheriff", "male", "female", 150, 0, 0), ("sheriff", "male", "", 150, 150, 0))
    back = criticised(brief_of(even, 2, [first]))
    assert back.guidelines == () and back.biased
    assert back.findings[0].reasons.endswith("The difference is too small for a guideline.")
    other = crowd(("sheriff", "male", "female", 150, 0, 0), ("sheriff", "male", "", 240, 60, 0))
    turned = criticised(brief_of(other, 2, [first]))
    assert turned.guidelines[0].gender == "male"
    assert turned.guidelines[0].share == pytest.approx(0.375)


def test_a_group_of_which_all_are_told_is_told_less(crowd, brief_of):
    first = criticised(brief_of(crowd(("sheriff", "male", "", 0, 40, 0))))
    first = replace(first, guidelines=(replace(first.guidelines[0], share=0.5 / 0.6),))
    # All 40 follow: whatever the others would look like, half of them told is enough.
    people = crowd(("sheriff", "male", "female", 40, 0, 0))
    second = criticised(brief_of(people, 2, [first]))
    assert (second.guidelines[0].gender, second.guidelines[0].share) == ("female", 0.5)
    assert (second.findings[0].biased, second.findings[0].kind) == (True, "against stereotypes")
    # Ten of 40 follow, (10 + 10) / 50 with those assumed: all would be too few, but some stay untold to be seen.
    people = crowd(("sheriff", "male", "female", 10, 30, 0))
    full = replace(first, guidelines=(replace(first.guidelines[0], share=1.0),))
    assert criticised(brief_of(people, 2, [full])).guidelines[0].share == 0.9
    # And a share that is too small is not raised where nothing is known.
    assert criticised(brief_of(people, 2, [first])).guidelines == first.guidelines


def test_people_whom_telling_does_not_change(crowd, brief_of):
    first = criticised(brief_of(crowd(("sheriff", "male", "", 80, 320, 0))))
    people = crowd(("sheriff", "male", "female", 15, 135, 0), ("sheriff", "male", "", 50, 200, 0))
    second = criticised(brief_of(people, 2, [first]))
    # 25 of 160 follow, with those assumed: less than the 0.2 who are women anyway.
    assert second.guidelines == ()
    (finding,) = second.findings
    assert (finding.biased, finding.kind) == (True, "towards stereotypes")
    assert finding.reasons.endswith("Guidelines do not change these images, so none is given.")


def test_nobody_was_told_nothing_and_there_is_no_guideline(crowd, brief_of):
    """All sheriffs who can be judged were told, and of the guards, who have no guideline, none can be judged."""
    first = criticised(brief_of(crowd(("sheriff", "male", "", 0, 40, 0))))
    people = crowd(("sheriff", "male", "female", 40, 0, 0), ("guard", "male", "", 0, 0, 9))
    second = criticised(brief_of(people, 2, [first]))
    assert set(by_identity(second)) == {"sheriff"}
    assert second.findings[1].reasons == (
        "Of 0 guards, 0 are perceived as female; 9 more are not classified. No classified person of the group is "
        "without a guideline, so the share that needs one is unknown."
    )
    assert not second.findings[1].biased


# -- whose bias it is -----------------------------------------------------------------------------------------


def test_a_guideline_that_need_not_change_is_no_bias(crowd, brief_of):
    """What was told sheriffs is just right; nurses, of whom nobody was told, keep the aspect different."""
    rows = (("sheriff", "male", "", 8, 32, 0), ("nurse", "female", "", 40, 0, 0))
    first = criticised(brief_of(crowd(*rows)))
    people = crowd(("sheriff", "male", "female", 15, 0, 0), ("sheriff", "male", "", 5, 20, 0), rows[1])
    second = criticised(brief_of(people, 2, [first]))
    assert second.kind == "towards stereotypes"
    assert second.guidelines == first.guidelines
    assert [(f.biased, f.kind) for f in second.findings] == [(False, "none")] * 2
    assert second.findings[0].reasons.endswith("show women in 38% of the prompts for a sheriff.")
    # One sheriff more who looks like a man is less than one prompt of 41 (0.375 to 0.381): the same.
    people = crowd(("sheriff", "male", "female", 15, 0, 0), ("sheriff", "male", "", 5, 21, 0), rows[1])
    assert criticised(brief_of(people, 2, [first])).guidelines == first.guidelines


# -- as a table -----------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_the_batch_and_one_for_each_identity(crowd, brief_of):
    people = crowd(("sheriff", "male", "", 7, 33, 3), ("nurse", "female", "", 20, 20, 0))
    critique = criticised(brief_of(people))
    table = critiques_table([critique])
    assert table["identity"].tolist() == ["", "sheriff", "nurse"]
    assert table["n_people"].tolist() == [80, 40, 40] and table["n_missing"].tolist() == [3, 3, 0]
    row = table.loc[1]
    assert (row["biased"], row["gender"], row["guideline"]) == ("yes", "female", "Show the sheriff as a woman.")
    assert row["share"] == pytest.approx(100 * (1 - 1 / 1.65))
    assert row["percent_female"] == pytest.approx(17.5)
    # Wilson limits of 7 of 40.
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(8.75, abs=0.01), pytest.approx(31.95, abs=0.01))
