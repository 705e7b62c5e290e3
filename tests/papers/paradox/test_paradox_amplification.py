"""The paradox tables follow from the printed shares, and from a user's shares."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from statsmodels.stats.proportion import confint_proportions_2indep
from statsmodels.stats.weightstats import DescrStatsW

from biaslab import reference
from biaslab.errors import InputError, MissingInputError
from biaslab.papers import paradox
from biaslab.papers.paradox.analysis.groups import MIN_IMAGES, expected, groups
from biaslab.schema import tables

DRAWS = {"seed": 1, "replicates": 400, "confidence": 0.95}
COLUMNS = ["occupation", "source", "prompt", "percent_female", "n"]


@pytest.fixture(scope="module")
def shares():
    return paradox.printed.percent_female()


@pytest.fixture(scope="module")
def amplification_table(shares):
    return paradox.amplification(shares, None, paradox.printed.printed_amplification(), **DRAWS)


@pytest.fixture(scope="module")
def variation(shares):
    return paradox.prompt_variation(shares, confidence=0.95)


def shares_of(rows):
    """Return rows of (occupation, source, prompt, percent, n) as measured shares."""
    frame = pd.DataFrame(rows, columns=COLUMNS).assign(model="M", approach="naive")
    return tables.make_table(frame, "paradox_percent_female")


# Printed in Table 3 for SD 1.4; for SD 1.5 too, with prompts 1 and 3 printed 0.01 higher than they follow.
NAIVE = {"SD 1.4": [10.24, 17.57, 10.77, 11.68], "SD 1.5": [10.86, 16.36, 11.14, 9.91]}
# The signed change in the training direction over all 62 occupations, SD 1.4.
DIRECTIONAL = [1.05, 5.81, 0.58, -0.99]


@pytest.mark.long
def test_amplification_matches_printed_and_signed_change(amplification_table):
    table = amplification_table.query("approach == 'naive'").set_index(["model", "definition", "prompt"])
    for model, values in NAIVE.items():
        for prompt, value in zip("1234", values, strict=True):
            plain = table.loc[(model, "paper", prompt), "amplification"]
            assert plain == pytest.approx(value, abs=0.006)
    for prompt, value in zip("1234", DIRECTIONAL, strict=True):
        row = table.loc[("SD 1.4", "signed", prompt)]
        assert row["amplification"] == pytest.approx(value, abs=0.006)
        assert (row["n_occupations"], row["n_excluded"]) == (62, 0)
    paper_rows = table.xs("paper", level="definition")
    assert len(paper_rows) == 10 and (paper_rows["amplification"] - paper_rows["paper_table_value"]).abs().max() < 0.02
    assert table.drop(index="paper", level="definition")["paper_table_value"].isna().all()


def test_amplification_counts_and_test_match_plain_loop(amplification_table):
    printed = reference.load("paradox_table_6")
    amplified_values = []
    for _, row in printed.pivot(index="occupation", columns="prompt", values="percent_female").iterrows():
        t, g = row["captions"], row["4"]
        if (t < 50 and g < 50) or (t > 50 and g > 50):
            amplified_values.append(abs(g - 50) - abs(t - 50))
    table = amplification_table.set_index(["model", "approach", "definition", "prompt"])
    got = table.loc[("SD 1.4", "naive", "paper", "4")]
    expected = scipy.stats.ttest_1samp(amplified_values, 0)
    assert got["n_occupations"] == len(amplified_values) and got["n_excluded"] == 62 - len(amplified_values)
    plain = got["t_uncorrected"], got["p_uncorrected"]
    assert plain == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    assert got["ci_low"] < got["amplification_corrected"] < got["ci_high"]


def test_amplification_of_printed_averages_has_reason(amplification_table):
    table = amplification_table.query("approach != 'naive'")
    assert len(table) == 2 * 3 * 5 + 4
    assert table["ci_low"].isna().all() and table["n_occupations"].isna().all()
    plain = "The paper prints no shares per occupation, so there is no interval."
    # 1.11, 8.72, 3.06 and 4.05 average 4.235; 4.35 is printed.
    odd = table[table["reason"] != plain]
    assert odd["reason"].tolist() == [plain + " The mean of the printed values by prompt is 4.235."]
    assert odd["amplification"].tolist() == [4.35] and table["amplification_corrected"].isna().all()


def test_prompt_variation_matches_printed_spread(variation):
    assert variation.groupby("model").size().to_dict() == {"SD 1.4": 62, "SD 1.5": 62}
    # By hand: the shares of the accountant in Table 6, and the population standard deviation of the four.
    shares = reference.load("paradox_table_6").query("occupation == 'accountant' and source == 'generated'")
    one = variation.query("model == 'SD 1.4' and occupation == 'accountant'").iloc[0]
    four = shares["percent_female"].tolist()
    mean = sum(four) / 4
    assert one["sd_prompts"] == pytest.approx((sum((v - mean) ** 2 for v in four) / 4) ** 0.5, abs=1e-9)
    assert one["paper_table_value"] == 15.1
    # Shares and spreads are both printed to 0.1, so each moves the spread by 0.05 at most; divisor 3 does not fit.
    assert (variation["sd_prompts"] - variation["paper_table_value"]).abs().max() <= 0.1
    assert (variation["sd_prompts"] * np.sqrt(4 / 3) - variation["paper_table_value"]).abs().max() > 2


def test_prompt_variation_test_matches_scipy(variation):
    rows = variation.query("model == 'SD 1.4'").set_index("occupation")
    row = rows.loc["painter"]
    # Table 6: 36.4, 12.2, 17.6 and 3.6% of 500.
    female = np.array([182, 61, 88, 18])
    expected = scipy.stats.chi2_contingency(np.stack([female, 500 - female]), correction=False)
    assert row["p"] == pytest.approx(expected.pvalue)
    pooled = female.sum() / 2000
    assert row["sd_noise"] == pytest.approx(100 * (3 / 4 * pooled * (1 - pooled) / 500) ** 0.5)
    assert (row["lowest"], row["highest"], row["direction_flips"]) == (3.6, 36.4, "no")
    # 9.4 to 65.1.
    assert rows.loc["attorney", "direction_flips"] == "beyond intervals"
    # Journalist: 49.9, 59.9, 68.8 and 64.0; the interval of the first reaches over 50.
    assert rows.loc["journalist", "direction_flips"] == "yes"


def test_amplification_of_custom_shares_by_hand():
    shares = shares_of(
        [
            ("a", "training", "captions", 30, 100),  # 30 -> 20: amplified by 10
            ("a", "generated", "captions", 20, 100),
            ("b", "training", "captions", 80, 100),  # 80 -> 40: flips, -20 by distance, -40 in the training direction
            ("b", "generated", "captions", 40, 100),
            ("c", "training", "captions", 50, 100),  # no direction: +40 by distance, no signed change
            ("c", "generated", "captions", 90, 100),
            ("d", "training", "captions", 60, 100),  # not generated
        ]
    )
    table = paradox.amplification(shares, **DRAWS).set_index("definition")
    plain = {"paper": 10, "all": 10, "signed": -15}
    assert table["amplification"].to_dict() == plain
    assert table["n_occupations"].to_dict() == {"paper": 1, "all": 3, "signed": 2}
    assert table["n_excluded"].to_dict() == {"paper": 3, "all": 1, "signed": 2}
    out = paradox.occupation_amplification(shares, confidence=0.95).set_index("occupation")["excluded"]
    assert out.to_dict() == {"a": "", "b": "opposite_direction", "c": "training_at_50", "d": "missing"}


def test_signed_change_interval_is_newcombe():
    rows = [("male lean", "training", "captions", 30, 200), ("male lean", "generated", "captions", 20, 100)]
    rows += [("female lean", "training", "captions", 70, 200), ("female lean", "generated", "captions", 90, 100)]
    shares = shares_of(rows)
    table = paradox.occupation_amplification(shares, confidence=0.95).set_index("occupation")
    low, high = confint_proportions_2indep(20, 100, 60, 200, method="newcomb")
    row = table.loc["male lean"]
    # The training direction is male, so the change of -10 counts +10 and the limits swap.
    assert row[["signed_change", "ci_low", "ci_high"]].tolist() == pytest.approx([10, -100 * high, -100 * low])
    low, high = confint_proportions_2indep(90, 100, 140, 200, method="newcomb")
    row = table.loc["female lean"]
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(100 * low), pytest.approx(100 * high))


def test_amplification_of_one_occupation_has_reason():
    shares = shares_of([("a", "training", "captions", 30, 100), ("a", "generated", "captions", 20, 100)])
    table = paradox.amplification(shares, **DRAWS)
    assert table["amplification"].tolist() == [10, 10, 10] and table["ci_low"].isna().all()
    assert table[["amplification_corrected", "t", "p", "small_sample_bias"]].isna().all(axis=None)
    few = "Fewer than 6 occupations are included, too few for an interval or a correction for small-sample bias."
    assert set(table["reason"]) == {few}


def few_images(occupations, n_training, n_generated, seed, prompts="1"):
    """Return shares of occupations with U-shaped true shares, sampled from numbers of images in half-open ranges."""
    rng = np.random.default_rng(seed)
    cells = [("training", "captions", (n_training, n_training + 1)), *(("generated", p, n_generated) for p in prompts)]
    rows = []
    for i, p in enumerate(rng.beta(0.7, 0.9, occupations)):
        for source, prompt, sizes in cells:
            n = rng.integers(*sizes)
            rows.append((f"o{i:02}", source, prompt, 100 * rng.binomial(n, p) / n, n))
    return shares_of(rows)


def test_amplification_of_single_images_has_no_interval():
    # Shares of one image are always 0 or 100%, which would look like certain amplification.
    table = paradox.amplification(few_images(40, 20, (1, 2), 0), **DRAWS)
    assert table["ci_low"].isna().all()
    told = table.set_index("definition")["reason"]
    few = "With fewer than 2 images per share, sampling noise cannot be separated from differences."
    assert told["signed"] == few and (told != "").all()


def test_amplification_of_even_shares_has_no_interval():
    rng = np.random.default_rng(1)
    cells = [("training", "captions", 500), *(("generated", prompt, 8) for prompt in "1234")]
    rows = [(f"o{i:02}", *c[:2], 100 * rng.binomial(c[2], 0.5) / c[2], c[2]) for i in range(40) for c in cells]
    table = paradox.amplification(shares_of(rows), **DRAWS)
    assert table["ci_low"].isna().all()
    assert table["reason"].str.startswith("Shares do not differ significantly from one half").all()
    # If training shares have a direction, the signed change is estimable even if generated shares have none.
    leaning = [(*r[:3], r[3] + 30 * (-1) ** i * (r[1] == "training"), *r[4:]) for i, r in enumerate(rows)]
    table = paradox.amplification(shares_of(leaning), **DRAWS).query("prompt == 'mean'").set_index("definition")
    assert np.isfinite(table.loc["signed", "ci_low"]) and np.isnan(table.loc["paper", "ci_low"])


@pytest.mark.long
def test_amplification_estimate_ignores_seed_and_replicates(shares, amplification_table):
    # Printed shares: all digits are equal, whatever the seed and replicates.
    old = shares[shares["model"] == "SD 1.4"]
    recomputed = paradox.amplification(old, seed=2, replicates=500, confidence=0.95)
    first = amplification_table[
        (amplification_table["model"] == "SD 1.4") & (amplification_table["approach"] == "naive")
    ]
    pd.testing.assert_frame_equal(first[list(recomputed)].reset_index(drop=True), recomputed, check_dtype=False)
    # Measured shares: the estimate is equal; its limits vary with the replicates.
    own = few_images(20, 20, (5, 6), 3)
    first, second = (paradox.amplification(own, seed=k, replicates=200 + 100 * k, confidence=0.95) for k in (1, 3))
    assert first["amplification_corrected"].tolist() == second["amplification_corrected"].tolist()
    assert first["ci_low"].tolist() != second["ci_low"].tolist()


def test_expected_of_rounded_counts_matches_exact(shares):
    # Rounding printed shares to whole images must not change the estimate.
    for group in groups(shares):
        counts, n = group.counts()
        training, generated = group.split(counts / n)
        for definition in ("paper", "all", "signed"):
            exact = expected(group, group.training, group.generated, definition)
            np.testing.assert_allclose(expected(group, training, generated, definition), exact, atol=0.05)


def test_amplification_mean_test_needs_same_occupations(amplification_table):
    table = amplification_table.query("approach == 'naive' and prompt == 'mean'")
    table = table.set_index(["model", "definition"])
    rule = table.loc[("SD 1.4", "paper")]
    assert np.isnan(rule["t_uncorrected"])
    assert rule["reason"].startswith("No plain t-test, because the included occupations differ between prompts")
    signed = table.loc[("SD 1.4", "signed")]
    wide = reference.load("paradox_table_6").pivot(index="occupation", columns="prompt", values="percent_female")
    change = np.sign(wide["captions"] - 50) * (wide[[*"1234"]].mean(axis=1) - wide["captions"])
    assert signed["amplification"] == pytest.approx(np.mean(change))
    assert signed["t_uncorrected"] == pytest.approx(scipy.stats.ttest_1samp(change, 0).statistic)


# -- one estimate, its interval and its test; captions as prompts --------------------------------------------


def caption_shares(pairs, model="M"):
    """Return the shares that pairs (occupation, training, n_female, n_judged, n_captions) of an approach add up to."""
    rows = []
    for (approach, occupation), some in pairs.groupby(["approach", "occupation"]):
        known, times = some[some["training"] != "none"], some["n_captions"]
        women = (known["n_captions"] * (known["training"] == "female")).sum()
        sides = {"training": (women, known["n_captions"].sum())}
        sides["generated"] = (some["n_female"] * times).sum(), (some["n_judged"] * times).sum()
        for source, (count, n) in sides.items():
            percent = 100 * count / n if n else np.nan
            rows.append((model, approach, occupation, source, "captions", percent, n))
    columns = ["model", "approach", "occupation", "source", "prompt", "percent_female", "n"]
    return pd.DataFrame(rows, columns=columns)


def caption_pairs(approach, n, seed, same=0.978, occupations=62):
    """Return pairs of an approach whose generated images mostly show the gender of their caption's own image."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.9, (occupations, 1))
    own = rng.random((occupations, n)) < p
    generated_female = np.where(rng.random(own.shape) < same, own, ~own)
    names = np.repeat([f"o{i:02}" for i in range(occupations)], n)
    frame = pd.DataFrame({"model": "M", "approach": approach, "occupation": names})
    frame["training"] = np.where(own, "female", "male").ravel()
    frame = frame.assign(n_female=generated_female.ravel().astype(int), n_judged=1)
    frame["generated"] = frame["n_female"].astype(str) + " of 1"
    return frame.groupby(list(frame), as_index=False).size().rename(columns={"size": "n_captions"})


def contradictions(table, value, alpha=0.05):
    """Return rows whose value is outside their interval, or whose p contradicts their interval."""
    known = table[table["ci_low"].notna()]
    outside = (known[value] < known["ci_low"]) | (known[value] > known["ci_high"])
    if "p" in known:
        excludes = (known["ci_low"] > 0) | (known["ci_high"] < 0)
        outside |= excludes != (known["p"] < alpha)
    return known[outside]


@pytest.mark.parametrize("seed", range(2))
def test_amplification_p_matches_interval_for_few_images(seed):
    table = paradox.amplification(few_images(30, 20, (3, 9), seed, "1234"), **DRAWS)
    assert table["ci_low"].notna().all() and len(contradictions(table, "amplification_corrected")) == 0
    # The small-sample bias of so few images is visible: some uncorrected value would be outside.
    assert (table["small_sample_bias"].abs() > 1).any()


def test_amplification_of_captions_uses_pairs():
    # True signed change: -0.022 |1 - 2p|, about -1.2 points; resampling images separately would make it positive.
    pairs = caption_pairs("caption_prompts", 8, seed=5)
    table = paradox.amplification(caption_shares(pairs), pairs, **DRAWS | {"replicates": 1000})
    assert table["n_images"].tolist() == [8, 8, 8] and set(table["reason"]) == {""}
    assert len(contradictions(table, "amplification_corrected")) == 0
    row = table.set_index("definition").loc["signed"]
    assert row["ci_low"] < -1.2 < row["ci_high"] and row["ci_high"] - row["ci_low"] < 5
    assert abs(row["small_sample_bias"]) < 1.5


def test_amplification_of_captions_needs_pairs_for_interval():
    shares = caption_shares(caption_pairs("caption_prompts", 8, seed=5))
    table = paradox.amplification(shares, **DRAWS)
    assert table["ci_low"].isna().all() and table["p"].isna().all()
    assert table["reason"].str.contains("add a table paradox_caption_pairs next to the shares").all()
    assert table["amplification_corrected"].isna().all() and table["amplification"].notna().all()
    assert paradox.occupation_amplification(shares, confidence=0.95)["ci_low"].isna().all()


def test_amplification_of_few_captions_has_reason():
    approaches = ["caption_prompts", "caption_prompts_no_indicators"]
    pairs = [caption_pairs(a, n, seed=n) for a, n in zip(approaches, (MIN_IMAGES, 3), strict=True)]
    whole = paradox.amplification(caption_shares(pairs := pd.concat(pairs)), pairs, **DRAWS)
    table = whole.set_index(["approach", "definition"])
    few = table.loc[(approaches[1], "paper")]
    assert few["reason"] == "Each share is based on 3 images; with fewer than 6, an interval would be too narrow."
    assert np.isnan(few["ci_low"]) and table.loc[(approaches[0], "paper"), "reason"] == ""
    findings = paradox.answers.captions_as_prompts.findings(whole)
    # By the paper's definition and the signed change, of the approach with enough images.
    told = table.loc[approaches[0]].loc[["paper", "signed"], "amplification_corrected"]
    assert [one.estimate for one in findings] == told.tolist()


def test_amplification_refuses_pairs_of_other_images():
    pairs = caption_pairs("caption_prompts", 8, seed=5)
    shares = caption_shares(pairs)
    shares.loc[1, "n"] = 7.0
    shares.loc[1, "percent_female"] = 0.0
    text = r"paradox_caption_pairs and paradox_percent_female differ for 'o00' \(M, caption_prompts\)"
    with pytest.raises(InputError, match=text):
        paradox.amplification(shares, pairs, **DRAWS)


@pytest.mark.long
def test_approach_change_is_difference_of_estimates():
    pairs = pd.concat([caption_pairs("caption_prompts", 8, seed=1), caption_pairs("paraphrased", 8, seed=2)])
    naive = caption_shares(caption_pairs("naive", 20, seed=1))
    naive.loc[naive["source"] == "generated", "prompt"] = "1"
    shares = pd.concat([naive, caption_shares(pairs)])
    draws = DRAWS | {"replicates": 1000}
    change = paradox.approach_change(shares, pairs, **draws)
    known = paradox.amplification(shares, pairs, **draws)
    known = known.set_index(["approach", "definition"])["amplification_corrected"]
    for row in change.itertuples():
        assert row.amplification_corrected == known[row.approach, row.definition]
        assert row.reference_amplification_corrected == known[row.reference, row.definition]
        assert row.change_corrected == row.amplification_corrected - row.reference_amplification_corrected
        assert row.ci_low < row.change_corrected < row.ci_high
    assert len(change) == 9 and len(contradictions(change, "change_corrected")) == 0
    assert change["p"].notna().all() and set(change["n_occupations"]) <= set(range(6, 63))


def test_approach_change_uses_printed_averages():
    printed = paradox.printed.printed_amplification()
    naive = caption_shares(caption_pairs("naive", 20, seed=1)).assign(model="SD 1.4")
    change = paradox.approach_change(naive, None, printed, **DRAWS)
    of = change.set_index(["model", "approach", "reference", "prompt"])
    # Table 3: 12.57 and 4.35, 12.07 and 3.59; section 6: 0.68 against the mean of the naive prompts, 12.57.
    assert of.loc[("SD 1.4", "nearest_no_indicators", "naive", "mean"), "change"] == -8.22
    assert of.loc[("SD 1.5", "nearest_no_indicators", "naive", "mean"), "change"] == -8.48
    assert of.loc[("SD 1.4", "caption_prompts", "naive", "captions"), "change"] == -11.89
    # Section A.6: 2.49 after 2.05.
    paraphrased = of.loc[("SD 1.4", "paraphrased_no_indicators", "caption_prompts_no_indicators", "captions")]
    assert paraphrased["change"] == 0.44 and round(paraphrased["change_percent"], 1) == 21.5
    assert (
        change[["change_corrected", "ci_low", "ci_high", "p", "n_occupations"]].isna().all(axis=None)
        and (change["reason"] != "").all()
    )
    # Measured approaches are not compared as printed ones.
    two = pd.concat([naive, naive.assign(approach="nearest")])
    recomputed = paradox.approach_change(two, None, printed, **DRAWS | {"replicates": 100})
    measured = recomputed[(recomputed["model"] == "SD 1.4") & (recomputed["approach"] == "nearest")]
    assert measured["change"].eq(0).all() and set(measured["definition"]) > {"paper"}


# -- changes between approaches ------------------------------------------------------------------------------


def share_rows(approach, training, generated, n_training=1000, n_generated=1000):
    """Give shares per prompt as {prompt: {occupation: percent}}."""
    return [
        {"model": "M", "approach": approach, "occupation": occupation, "source": source, "prompt": prompt}
        | {"percent_female": percent, "n": n}
        for source, shares, n in (("training", training, n_training), ("generated", generated, n_generated))
        for prompt, of in shares.items()
        for occupation, percent in of.items()
    ]


def test_approach_change_by_hand():
    generated = {"1": {"a": 10, "b": 95}, "2": {"a": 20, "b": 85}}
    rows = share_rows("naive", {"captions": {"a": 30, "b": 80}}, generated)
    rows += share_rows("no_indicators", {"captions": {"a": 20, "b": 90}}, generated)
    training, generated_female = {"a": 30, "b": 80, "c": 10}, {"a": 25, "b": 80, "c": 0}
    rows += share_rows("caption_prompts", {"captions": training}, {"captions": generated_female})
    table = change_of(rows).set_index(["approach", "definition", "prompt"])
    # Naive: 20 and 15 for prompt 1, 10 and 5 for prompt 2; without indicators 10 and 5, then 0 and -5.
    row = table.loc[("no_indicators", "paper", "mean")]
    estimates = ["reference_amplification", "amplification", "change"]
    assert row[estimates].tolist() == pytest.approx([12.5, 2.5, -10])
    assert row["change_percent"] == pytest.approx(-80) and row["n_occupations"] == 2
    assert table.loc[("no_indicators", "paper", "1"), "change"] == pytest.approx(-10)
    # Two occupations are too few for an interval, and so for a correction.
    assert table[[f"{name}_corrected" for name in estimates]].isna().all(axis=None)
    # Captions as prompts: 5 and 0, against the mean over naive prompts; c has no naive share.
    row = table.loc[("caption_prompts", "paper", "captions")]
    assert row[[*estimates, "n_occupations"]].tolist() == pytest.approx([12.5, 2.5, -10, 2])


def change_of(rows):
    shares = tables.make_table(rows, "paradox_percent_female")
    return paradox.approach_change(shares, **DRAWS | {"replicates": 2000})


@pytest.mark.parametrize("n_generated", [12, 1_000_000])
def test_approach_change_ignores_noise_of_shared_images(n_generated):
    # The signed change depends on the training shares only, whatever was generated: with very many training
    # images its interval is Student's over occupations.
    rng = np.random.default_rng(4)
    names = [f"o{i}" for i in range(30)]
    naive = dict(zip(names, rng.uniform(10, 35, 30).round(4), strict=True))
    other = {name: share - step for (name, share), step in zip(naive.items(), rng.uniform(1, 8, 30), strict=True)}
    generated = {"1": dict(zip(names, rng.integers(0, 5, 30) * 100 / 12, strict=True))}
    big = {"n_training": 1_000_000, "n_generated": n_generated}
    rows = share_rows("naive", {"captions": naive}, generated, **big)
    rows += share_rows("no_indicators", {"captions": other}, generated, **big)
    table = change_of(rows).set_index("definition")
    row = table.loc["signed"]
    steps = [naive[o] - other[o] for o in names]
    low, high = DescrStatsW([-s for s in steps]).tconfint_mean()
    # Each estimate resamples its images, a few hundred times.
    assert row["change_corrected"] == pytest.approx(-np.mean(steps), abs=0.2 if n_generated == 12 else 0.001)
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([low, high], abs=0.1 * (high - low))


def test_mean_over_prompts_needs_every_prompt():
    of = [("a", "1", 20, 10), ("a", "2", 40, 30), ("b", "1", 70, 30), ("b", "2", 50, np.nan), ("c", "1", 70, 40)]
    columns = ["occupation", "prompt", "percent_training", "percent_generated"]
    rows = pd.DataFrame([*of, ("c", "2", 60, 20)], columns=columns).assign(model="M", approach="nearest")
    mean = paradox.mean_over_prompts(rows).set_index("occupation")
    assert mean.loc["a", ["percent_training", "percent_generated", "excluded"]].tolist() == [30, 20, ""]
    assert np.isnan(mean.loc["b", "percent_generated"]) and mean.loc["b", "excluded"] == "missing"
    # 65 and 30: the direction flips.
    assert mean.loc["c", "excluded"] == "opposite_direction"
    assert mean["percent_training_ci_low"].isna().all() and set(mean["prompt"]) == {"mean"}


# -- compared with published values --------------------------------------------------------------------------


def test_t_tests_of_printed_averages_are_missing(amplification_table):
    table = (
        paradox.t_tests(amplification_table, confidence=0.95)
        .query("model == 'SD 1.4'")
        .set_index(["approach", "prompt"])
    )
    # Section 5.3 rejects for prompts 2 and 4, footnote 11 for captions as prompts.
    assert table["paper_rejected"].to_dict() == {
        **{("nearest_no_indicators", p): text for p, text in zip("1234", ("no", "yes") * 2, strict=True)},
        ("caption_prompts", "captions"): "yes",
        ("caption_prompts_no_indicators", "captions"): "yes",
    }
    assert table[["t", "p"]].isna().all(axis=None) and set(table["rejected"]) == {""}
    assert table["reason"].str.contains("The paper prints no shares per occupation").all()


def test_direction_flips_p_matches_scipy():
    counts = {"turns": (2, 19), "one side": (2, 4), "chance": (9, 11), "none": (10, 10)}
    rows = [(name, "training", "captions", 30, 100) for name in counts]
    for name, both in counts.items():
        rows += [(name, "generated", p, 5.0 * k, 20) for p, k in zip("12", both, strict=True)]
    table = paradox.prompt_variation(shares_of(rows), confidence=0.95).set_index("occupation")

    def tail(k, side):
        return scipy.stats.binomtest(k, 20, 0.5, alternative=side).pvalue

    # Below one half with one prompt and above with the other, each adjusted for two prompts.
    sides = "less", "greater"
    each = {name: min(1, 2 * max(min(tail(k, side) for k in both) for side in sides)) for name, both in counts.items()}
    assert each["turns"] == pytest.approx(2 * tail(2, "less")) and each["one side"] == 1
    # Holm: the smallest times four, the others are 1.
    assert table["p_direction_flips"].to_dict() == pytest.approx(
        dict.fromkeys(counts, 1.0) | {"turns": 4 * each["turns"]}
    )
    # No image of one prompt, and all 20 of the other.
    assert table["min_attainable_p"].tolist() == pytest.approx([2 * 0.5**20] * 4)


def test_prompt_variation_needs_two_prompts():
    shares = shares_of([("a", "training", "1", 30, 100), ("a", "generated", "1", 20, 100)])
    with pytest.raises(MissingInputError, match="two prompts"):
        paradox.prompt_variation(shares, confidence=0.95)


def test_prompt_variation_skips_prompt_without_images():
    rows = [("a", "training", prompt, 30, 100) for prompt in "123"]
    rows += [("a", "generated", prompt, 25.0 + 50 * k, 4) for k, prompt in enumerate("12")]
    rows.append(("a", "generated", "3", np.nan, 0))
    (row,) = paradox.prompt_variation(shares_of(rows), confidence=0.95).to_dict("records")
    # Two shares around 50% of 4 images each: half of 0.5 * 0.5 / 4.
    assert row["sd_noise"] == pytest.approx(100 * (0.5 * 0.0625) ** 0.5)
    assert (row["sd_prompts"], row["n"]) == (25, 8)
    # Two prompts of 4 images each; the third has none.
    assert row["min_attainable_p"] == pytest.approx(2 * 0.5**4)
