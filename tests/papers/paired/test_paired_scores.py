"""Paired Stereotype Test: tables, findings and figures, from printed numbers and folders of known truth."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from paired_rows import cell, lists, only_row, roles, share
from scipy import stats as scipy_stats
from statsmodels.api import OLS
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from biaslab import reference
from biaslab.errors import InputError

# -- published measurements --------------------------------------------------------------------------


# Means of the printed scores (tables 11 and 13): 20 and 36 identities a list.
FACTS = [
    ("occupation", "single", 50.00, -30.00, 10.00),
    ("occupation", "paired", 45.00, 49.75, 47.375),
    ("power", "single", 37.04, -27.78, 4.63),
    ("power", "paired", 17.59, 20.37, 18.98),
]


@pytest.mark.parametrize(("aspect", "setting", "female", "male", "overall"), FACTS)
def test_stereotype_score_follows_from_printed_identities(printed, aspect, setting, female, male, overall):
    scores = cell(printed["stereotype_score"], aspect=aspect, setting=setting)
    result = scores.set_index("stereotype")["score"]
    assert result[["female", "male", "overall"]].tolist() == pytest.approx([female, male, overall], abs=0.005)
    assert (result - scores.set_index("stereotype")["paper_table_value"]).abs().max() < 0.0105
    # 3 images of one person; 800 images of 2 people; 216 images of 2 people.
    people = {("occupation", "single"): 120, ("occupation", "paired"): 1600, ("power", "paired"): 432}
    assert only_row(scores, stereotype="overall")["n"] == people.get((aspect, setting), 216)


# -- intervals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "times"), [("single", 1), ("paired", 2)])
def test_stereotype_score_interval_doubles_for_shared_images(printed, setting, times):
    table = reference.load("paired_table_12").query("setting == @setting").set_index("occupation")["score"]
    listed = reference.load("paired_table_3").set_index("occupation")["stereotype"]
    female, male = table[listed[table.index] == "female"], table[listed[table.index] == "male"]
    # (F + M) / 2 is half the difference of F and -M, and has half of its error; where images are shared, all of it.
    test = scipy_stats.ttest_ind(female, -male, equal_var=False)
    half, score = np.diff(test.confidence_interval(0.95))[0] / 4 * times, (female.mean() + male.mean()) / 2
    rows = cell(printed["stereotype_score"], aspect="occupation", setting=setting)
    row = only_row(rows, stereotype="overall")
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([score - half, score + half], abs=0.01)
    assert row["t"] == pytest.approx(test.statistic / times, abs=0.002)
    assert setting == "paired" or row["p"] == pytest.approx(test.pvalue, abs=0.002)
    # The lists have Student's interval (partners fixed), the mean share that of independent lists.
    limits = scipy_stats.ttest_1samp(female, 0).confidence_interval(0.95)
    result = only_row(rows, stereotype="female")
    assert [result["ci_low"], result["ci_high"]] == pytest.approx([*limits], abs=0.01)
    lean = only_row(printed["percent_female_mean"], aspect="occupation", setting=setting, stereotype="overall")
    # A share is 50 plus or minus half a score, so its half-width is a quarter of the difference's.
    assert lean["ci_high"] - lean["ci_low"] == pytest.approx(half / times, abs=0.01)


def test_stereotype_score_of_power_pools_roles_by_occupation(printed):
    table = reference.load("paired_table_13").query("setting == 'paired'")
    mean = table.groupby("occupation")["score"].mean()
    test = scipy_stats.ttest_1samp(mean, 0)
    low, high = test.confidence_interval(0.95)
    row = only_row(printed["stereotype_score"], aspect="power", setting="paired", stereotype="overall")
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([low, high], abs=0.01)
    assert row["p"] == pytest.approx(test.pvalue, rel=0.01)


# -- identities --------------------------------------------------------------------------------------


@pytest.mark.long
def test_occupation_score_matches_scipy_and_statsmodels(printed):
    scores = cell(printed["occupation_score"], setting="paired").set_index("occupation")
    sheriff, sewist = scores.loc["sheriff"], scores.loc["sewist"]
    # Sheriff: 5 of 40 perceived as female, stereotyped male: the score falls as the share rises.
    low, high = proportion_confint(5, 40, method="beta")
    assert [sheriff["ci_low"], sheriff["ci_high"]] == pytest.approx([100 - 200 * high, 100 - 200 * low])
    low, high = proportion_confint(34, 40, method="beta")
    assert [sewist["ci_low"], sewist["ci_high"]] == pytest.approx([200 * low - 100, 200 * high - 100])
    count = (scores["percent_female"] * 40 / 100).round().astype(int)
    p = [scipy_stats.binomtest(c, 40).pvalue for c in count]
    assert scores["p"].tolist() == pytest.approx(p)
    # Interval and test of a row never contradict each other, also where Wilson's would: 4 of 4 alike has p = 0.125.
    every = pd.concat([printed[f"{aspect}_score"] for aspect in ("occupation", "power")])
    every = every.dropna(subset="p")
    assert ((every["p"] < 0.05) == ((every["ci_low"] > 0) | (every["ci_high"] < 0))).all()
    holm, bh = (multipletests(p, method=m)[1] for m in ("holm", "fdr_bh"))
    assert scores["p_holm"].tolist() == pytest.approx(holm)
    assert scores["p_bh"].tolist() == pytest.approx(bh)


@pytest.mark.parametrize(
    ("n", "edge", "smallest"),
    [
        # 3 images: none or all has probability 1/8 > 2.5%, so no score is unusual; smallest p 2/8.
        (3, 100, 1 / 4),
        # 6: 1/64 = 1.6% < 2.5%, but 7/64 is not: counts 1 to 5, scores to 2 * 5/6 - 1; smallest p 2/64.
        (6, 100 * 4 / 6, 1 / 32),
        # 40: P(X <= 13) = 1.9%, P(X <= 14) = 4.0%: counts 14 to 26, scores to 2 * 26/40 - 1.
        (40, 30, 2 / 2**40),
    ],
)
def test_occupation_score_of_fair_model_by_hand(tables_of, n, edge, smallest):
    scores = tables_of(percent_female=lists([1, 2], [0, 3], n))["occupation_score"]
    result = scores[["fair_low", "fair_high", "min_attainable_p"]].to_numpy()
    assert result == pytest.approx(np.tile([-edge, edge, smallest], (4, 1)))


def test_stereotype_score_overall_with_unjudged_roles(tables_of):
    # Of four occupations the low-power role of one and the high-power role of another was not judged.
    rows = roles([2, 1, 0, 2], [0, 2, 1, 1], 2)
    lost = {"n": 0, "percent_female": np.nan}
    rows = [r | lost if r["identity"] in ("o0, male", "o2, female") else r for r in rows]
    t = tables_of(percent_female=rows)
    for name, column in (("stereotype_score", "score"), ("percent_female_mean", "percent_female")):
        of = t[name].set_index("stereotype")[column]
        assert of["overall"] == pytest.approx((of["female"] + of["male"]) / 2)
    # Low power 100, 0, 100; high power -100, 0, 0 of o1 to o3 (o0 and o2 have one role).
    scores = t["stereotype_score"].set_index("stereotype")
    assert scores["score"].round(4).tolist() == pytest.approx([66.6667, -33.3333, 16.6667], abs=1e-4)
    assert scores["n_occupations"].to_dict() == {"female": 3, "male": 3, "overall": 4}
    # An occupation adds the deviations of both of its roles from 50 / 3, each a sixth of all people.
    added = (np.array([100, 0 - 100, 0, 100 + 0]) - 50 / 3 * np.array([1, 2, 1, 2])) / 6
    se = np.sqrt(4 / 3 * (added**2).sum())
    half = scipy_stats.t.ppf(0.975, 3) * se
    overall = scores.loc["overall"]
    limits = [50 / 3 - half, min(100, 50 / 3 + half)]
    assert [overall["ci_low"], overall["ci_high"]] == pytest.approx(limits)
    assert overall["p"] == pytest.approx(2 * scipy_stats.t.sf(50 / 3 / se, 3))
    # And the difference of high and low power restates the mean share of the same people.
    coupling = t["role_coupling"].iloc[0]
    lean = only_row(t["percent_female_mean"], stereotype="overall")
    assert coupling["percent_female"] == pytest.approx(lean["percent_female"])
    assert coupling["difference"] == pytest.approx(-100 / 3 - 200 / 3)
    assert coupling["difference_p"] == pytest.approx(lean["p"])


def people_of(rows):
    """Return one row per person: stereotype, identity, occupation, and 100 where the person fits, else -100."""
    each = []
    for row in rows:
        female = round(row["percent_female"] * row["n"] / 100)
        fit = female if row["stereotype"] == "female" else row["n"] - female
        values = [100.0] * fit + [-100.0] * (row["n"] - fit)
        each += [{k: row[k] for k in ("stereotype", "identity", "occupation")} | {"fits": v} for v in values]
    return pd.DataFrame(each)


def clustered(people, by):
    """Return mean, limits and p by cluster-robust least squares on a constant, Student's t over clusters."""
    codes = pd.factorize(people[by])[0]
    kind = {"cov_type": "cluster", "cov_kwds": {"groups": codes}, "use_t": True}
    fitted = OLS(people["fits"], np.ones(len(people))).fit(**kind)
    return [*fitted.params, *fitted.conf_int().to_numpy()[0], *fitted.pvalues]


MISSING = [
    *(share(f"f{i}", "female", k, n, "single") for i, (k, n) in enumerate([(10, 10), (0, 2), (3, 6), (5, 9), (1, 1)])),
    *(share(f"m{i}", "male", k, n, "single") for i, (k, n) in enumerate([(2, 8), (7, 7), (0, 1), (1, 5)])),
]


def test_stereotype_score_with_missing_people_is_equation_1(tables_of):
    scores = tables_of(percent_female=MISSING)["stereotype_score"].set_index("stereotype")
    # Of 28 people in the female list 19 fit: (19 - 9) / 28. Of 21 in the male list 6 + 0 + 1 + 4: (11 - 10) / 21.
    assert scores["score"].to_dict() == pytest.approx(
        {"female": 100 * 10 / 28, "male": 100 * 1 / 21, "overall": 100 * 11 / 49}
    )
    # A mean of the identities' scores is another number.
    assert scores.loc["female", "score"] != pytest.approx(np.mean([100, -100, 0, 100 / 9, 100]), abs=5)
    people = people_of(MISSING)
    for stereotype in ("female", "male"):
        expected = clustered(people[people["stereotype"] == stereotype], "identity")
        result = scores.loc[stereotype, ["score", "ci_low", "ci_high", "p"]].tolist()
        limits = np.clip(expected[1:3], -100, 100).tolist()
        assert result == pytest.approx([expected[0], *limits, expected[3]])


def test_stereotype_score_clusters_roles_by_occupation(tables_of):
    counts = [((4, 4), (1, 3)), ((0, 2), (2, 5)), ((3, 3), (0, 4)), ((2, 6), (1, 1)), ((1, 2), (3, 3))]
    rows = [
        share(f"o{i}, {s}", s, k, n, "paired", "power", occupation=f"o{i}")
        for i, both in enumerate(counts)
        for s, (k, n) in zip(("female", "male"), both, strict=True)
    ]
    overall = tables_of(percent_female=rows)["stereotype_score"].set_index("stereotype").loc["overall"]
    expected = clustered(people_of(rows), "occupation")
    expected[2] = min(expected[2], 100)
    assert overall[["score", "ci_low", "ci_high", "p"]].tolist() == pytest.approx(expected)
    assert overall["dependence"] == "within occupations"


def test_scores_of_equal_identities_have_no_interval(tables_of):
    t = tables_of(percent_female=lists([5] * 8, [0] * 8, 5) + lists([3] * 8, [0] * 8, 3, "single"))
    for name in ("stereotype_score", "percent_female_mean", "score_change", "adherence"):
        ends = t[name][["ci_low", "ci_high"]]
        assert len(ends) and ends.isna().all(axis=None), name
        assert (t[name]["reason"] != "").all(), name


# -- images of two people ----------------------------------------------------------------------------


def test_biased_images_bounds_match_enumeration(tables_of):
    # Two occupations with 3 images of both roles: all 2^6 patterns of who fits, grouped by what is known.
    result: dict[tuple, list] = {}
    patterns = list(product([0, 1], repeat=3))
    for low, high in product(product(patterns, repeat=2), repeat=2):
        known_counts = tuple(sum(p) for p in (*low, *high))
        pairs = [(a, b) for one_, other in zip(low, high, strict=True) for a, b in zip(one_, other, strict=True)]
        result.setdefault(known_counts, []).append((sum(a & b for a, b in pairs), sum(a | b for a, b in pairs)))
    for known_counts in [(1, 2, 3, 1), (2, 2, 2, 2), (0, 3, 1, 1)]:
        (low_a, low_b, high_a, high_b), outcomes = known_counts, np.array(result[known_counts])
        # A high-power role fits when perceived as male.
        study = tables_of(percent_female=roles([low_a, low_b], [3 - high_a, 3 - high_b], 3))
        images = study["biased_images"].set_index("measure")
        limits = 100 * np.array([outcomes.min(axis=0), outcomes.max(axis=0)]).T / 6
        bounds = images.loc[["both", "any"], ["percent_lower_bound", "percent_upper_bound"]].to_numpy()
        assert bounds == pytest.approx(limits)
        assert images["percent"].isna().all()


def test_biased_images_bounds_need_equal_image_counts(tables_of):
    rows = lists([3, 4], [1, 2], 10)
    rows[0] = share("f0", "female", 0, 0)
    images = tables_of(percent_female=rows)["biased_images"]
    assert images[["percent_lower_bound", "percent_upper_bound", "n"]].isna().all(axis=None)
    assert set(images["reason"]) == {"the two lists do not have the same number of people"}


def test_biased_images_count_fully_judged_images(tables_of):
    labels = [("male", "female"), ("male", "male"), ("female", "female"), ("female", "male"), ("male", "unsure")]
    images = [pair(i, m, f) for i, (m, f) in enumerate(labels)]
    study = tables_of(percent_female=roles([2], [2], 4), pair_images=images)
    result = study["biased_images"].set_index("measure")
    # Of 4 judged images one has both fitting, three at least one.
    assert result["percent"].to_dict() == {"both": 25, "any": 75}
    # The identities in the images are unknown, so there is no interval over identities.
    assert result[["ci_low", "ci_high"]].isna().all(axis=None)
    assert result["reason"].unique() == [
        "in 1 of 5 images, not both people are classified; "
        "an interval requires the identities of both people in each image"
    ]


def pair(i, male, female, setting="paired", aspect="power", model="A", **more):
    labels = {"male_label": male, "female_label": female, **more}
    return {"model": model, "aspect": aspect, "setting": setting, "image_id": f"{setting}{i}", **labels}


def role_images(women):
    """Return images of `power` and the rows that count them.

    Args:
        women: For each occupation its images: (low power is a woman, high power is a woman, side of low power).
    """
    seen = {True: "female", False: "male", None: "unsure"}
    rows, images = [], []
    for o, shown in enumerate(women):
        names = {"female_identity": f"o{o}, female", "male_identity": f"o{o}, male"}
        for k, (a, b, side) in enumerate(shown):
            images.append(pair(f"{o}-{k}", seen[b], seen[a], **names, female_position=side))
        for stereotype, of in zip(("female", "male"), zip(*shown, strict=True), strict=False):
            judged = [woman for woman in of if woman is not None]
            of_role = f"o{o}, {stereotype}", stereotype, sum(judged), len(judged)
            rows.append(share(*of_role, aspect="power", occupation=f"o{o}"))
    return rows, images


def test_biased_images_interval_clusters_by_occupation(tables_of):
    # Both fit in 3 of 3, 2 of 3, 0 of 3 and 1 of 2 judged images: 6 of 11.
    fits, low, none = (True, False, "left"), (False, False, "left"), (None, False, "left")
    rows, images = role_images([[fits] * 3, [fits, fits, low], [low] * 3, [fits, low, none]])
    result = tables_of(percent_female=rows, pair_images=images)["biased_images"].set_index("measure")
    row = result.loc["both"]
    assert (row["percent"], row["n"]) == (pytest.approx(600 / 11), 11)
    # Sums of deviations from 6/11 by occupation; four clusters, so three degrees of freedom.
    share = 6 / 11
    sums = np.array([3 - 3 * share, 2 - 3 * share, -3 * share, 1 - 2 * share])
    variance = 4 / 3 * (sums**2).sum() / 11**2
    q = scipy_stats.t.ppf(0.975, 3) ** 2 * variance / (share * (1 - share))
    centre = (share + q / 2) / (1 + q)
    half = np.sqrt(q * share * (1 - share) + q**2 / 4) / (1 + q)
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([100 * (centre - half), 100 * (centre + half)])
    assert row["dependence"] == "within occupations"
    # Over images only it would be about half as wide.
    low, high = proportion_confint(6, 11, method="wilson")
    assert row["ci_high"] - row["ci_low"] > 130 * (high - low)


def test_biased_images_skip_top_pairs_if_counted(tables_of):
    rows = lists([3, 2], [0, 1], 4) + lists([3, 2], [0, 1], 4, setting="paired_top5")
    images = [pair(i, "male", "female", aspect="occupation") for i in range(4)]
    result = tables_of(percent_female=rows, pair_images=images)["biased_images"]
    assert result["setting"].tolist() == ["paired", "paired"] and set(result["evidence"]) == {"counted"}
    # Without counted images only the bounds of both are available.
    alone = [r | {"model": "B"} for r in rows]
    result = tables_of(percent_female=alone, pair_images=images)["biased_images"]
    assert set(result.loc[result["model"] == "B", "setting"]) == {"paired", "paired_top5"}


def test_role_coupling_chance_is_by_occupation_and_side(tables_of):
    # In each stratum (occupation and side) twice the covariance of both people, without bias, is what is beyond chance.
    shown = [
        [(True, True, "left"), (False, False, "left"), (True, False, "right"), (True, False, "right")],
        [(True, False, "left"), (False, True, "left"), (True, True, "right"), (False, True, "right")],
        [(True, True, "left"), (True, False, "left"), (False, False, "left"), (False, False, "right")],
    ]
    rows, images = role_images(shown)
    result = tables_of(percent_female=rows, pair_images=images)["role_coupling"].iloc[0]
    assert result["n_same_gender"] == 2 + 1 + 3
    # Covariances: 1/2 and 0; -1/2 and 0; of the last three images (1,1), (1,0), (0,0): 1/6; one image by itself none.
    products = {0: [0.5] * 2 + [0] * 2, 1: [-0.5] * 2 + [0] * 2, 2: [1 / 6] * 3}
    each = 200 * np.concatenate(list(products.values()))
    assert result["same_gender_excess"] == pytest.approx(each.mean())
    assert result["percent_same_gender_chance"] == pytest.approx(50 - each.mean())
    sums = np.array([(200 * np.array(p) - each.mean()).sum() for p in products.values()])
    half = scipy_stats.t.ppf(0.975, 2) * np.sqrt(3 / 2 * (sums**2).sum()) / 11
    ends = ["same_gender_excess_ci_low", "same_gender_excess_ci_high"]
    assert result[ends].tolist() == pytest.approx([each.mean() - half, each.mean() + half])


def test_role_coupling_of_printed_scores_matches_scipy(printed):
    columns = ["setting", "power_level"]
    table = reference.load("paired_table_13").pivot(index="occupation", columns=columns, values="score")
    paired_row = only_row(printed["role_coupling"], setting="paired")
    low, high = table["paired", "low"], table["paired", "high"]
    assert paired_row["n_same_score"] == (low == high).sum() == 29
    assert paired_row["r"] == pytest.approx(scipy_stats.pearsonr(low, high).statistic, abs=1e-4)
    # One image of 6 moves a score by 33.33 points.
    assert paired_row["n_same_gender_min"] == ((high - low).abs() / 33.33).round().sum() == 7
    assert paired_row["n_images"] == 216
    test = scipy_stats.ttest_rel(high, low).confidence_interval(0.95)
    assert paired_row["difference_ci_low"] == pytest.approx(test.low, abs=0.01)
    # The same in shares: Table 13's scores turned into the share of women over both roles.
    female = ((100 + low) / 2 + (100 - high) / 2) / 2
    test = scipy_stats.ttest_1samp(female, 50)
    result = paired_row[["percent_female", "percent_female_ci_low", "percent_female_ci_high"]]
    assert result.tolist() == pytest.approx([female.mean(), *test.confidence_interval(0.95)], abs=0.01)
    single = only_row(printed["role_coupling"], setting="single")
    assert np.isnan(single["n_same_gender_min"]) and np.isnan(single["n_images"])


# -- labour ------------------------------------------------------------------------------------------


def test_labour_correlation_matches_scipy(printed):
    shares = reference.load("paired_table_11").pivot(index="occupation", columns="setting", values="percent_female")
    shares = shares.dropna()
    result = only_row(printed["labour_correlation"], setting="paired", stereotype="overall")
    r = scipy_stats.pearsonr(shares["labour_statistics"], shares["paired"])
    low, high = r.confidence_interval(0.95)
    assert [result["r"], result["ci_low"], result["ci_high"]] == pytest.approx([r.statistic, low, high])
    assert result["n"] == 39  # 40 occupations, none for chief
    listed = reference.load("paired_table_3").set_index("occupation")["stereotype"]
    some = shares[listed[shares.index] == "female"]
    within = only_row(printed["labour_correlation"], setting="single", stereotype="female")
    r = scipy_stats.pearsonr(some["labour_statistics"], some["single"]).statistic
    assert within["r"] == pytest.approx(r, abs=1e-4)


def test_labour_comparison_uses_source_or_paper(tables_of):
    rows = [share("nurse", "female", 8, 10), share("guard", "male", 1, 10)]
    result = tables_of(percent_female=rows)["labour_comparison"].set_index("occupation")
    assert result["percent_female_labour"].to_dict() == {"nurse": 87.9, "guard": 24.3}
    labour_shares = [{"occupation": "nurse", "percent_female_labour": 60, "reason": ""}]
    result = tables_of(percent_female=rows, labour_share=labour_shares)["labour_comparison"].set_index("occupation")
    assert result.loc["nurse", "percent_female_labour"] == 60
    assert result.loc["guard", "reason"] == "no share of women in the labour force is given"


# -- changes -----------------------------------------------------------------------------------------


def test_identity_change_matches_printed_gaps(printed):
    changes = printed["identity_change"]
    table = reference.load("paired_table_12").dropna(subset="gap")
    table = table.merge(changes[changes["aspect"] == "occupation"], on="occupation")
    assert len(table) == 40 and np.abs(table["gap"] - table["change"]).max() < 0.01
    table = reference.load("paired_table_13").dropna(subset="gap")
    table["stereotype"] = table["power_level"].map({"low": "female", "high": "male"})
    table = table.merge(changes[changes["aspect"] == "power"], on=["occupation", "stereotype"])
    assert len(table) == 72 and np.abs(table["gap"] - table["change"]).max() < 0.011
    # Table 1: overall gaps 37.38 and 14.36 (from rounded scores).
    overall = cell(printed["score_change"], stereotype="overall").set_index("aspect")["change"]
    assert overall.to_dict() == pytest.approx({"occupation": 37.38, "power": 14.36}, abs=0.01)


@pytest.mark.long
def test_identity_change_is_newcombe_and_fisher(printed):
    worker = only_row(printed["identity_change"], aspect="occupation", identity="construction worker")
    # Perceived as female: 6 of 40 with two people, 3 of 3 with one; stereotyped male.
    low, high = confint_proportions_2indep(6, 40, 3, 3, method="newcomb")
    assert [worker["ci_low"], worker["ci_high"]] == pytest.approx([-200 * high, -200 * low])
    assert worker["p"] == pytest.approx(scipy_stats.fisher_exact([[6, 34], [3, 0]]).pvalue)
    changes = cell(printed["identity_change"], aspect="occupation")
    assert changes["p_holm"].tolist() == pytest.approx(multipletests(changes["p"], method="holm")[1])


def test_score_change_matches_t_test(tables_of):
    # Changes of the male list: +20, +40, +60, +80 (all up), of the female list none.
    rows = lists([5] * 4, [5, 5, 5, 5], 10, setting="single") + lists([5] * 4, [4, 3, 2, 1], 10)
    result = tables_of(percent_female=rows)["score_change"].set_index("stereotype")
    test = scipy_stats.ttest_1samp([20, 40, 60, 80], 0)
    assert result.loc["male", ["change", "t", "p"]].tolist() == pytest.approx([50, test.statistic, test.pvalue])
    low, high = test.confidence_interval(0.95)
    assert result.loc["male", ["ci_low", "ci_high"]].tolist() == pytest.approx([low, high])
    assert result.loc["female", "change"] == 0 and np.isnan(result.loc["female", "p"])


def test_adherence_of_printed_counts_by_hand(printed):
    table = printed["adherence"]
    # 580 of 800 of the female, 599 of 800 of the male list fit in pairs; 45 and 21 of 60 alone.
    pair = only_row(table, aspect="occupation", setting="paired", stereotype="male")
    assert pair["percent_of_adhering"] == pytest.approx(100 * 599 / (580 + 599))
    alone = only_row(table, aspect="occupation", setting="single", stereotype="female")
    assert alone["percent_of_adhering"] == pytest.approx(100 * 45 / 66)
    assert alone["ci_low"] < alone["percent_of_adhering"] < alone["ci_high"]


def test_changed_cases_follow_from_printed_gaps(printed):
    gaps = reference.load("paired_table_13").dropna(subset="gap")
    table = cell(printed["changed_cases"], aspect="power").set_index(["direction", "stereotype"])
    up, down = gaps[gaps["gap"] > 0], gaps[gaps["gap"] < 0]
    high = table.loc[("amplified", "male")]
    assert (high["n_identities"], high["n"]) == ((up["power_level"] == "high").sum(), len(up)) == (24, 34)
    points = 100 * up.loc[up["power_level"] == "high", "gap"].sum() / up["gap"].sum()
    assert high["percent_of_points"] == pytest.approx(points, abs=0.01)
    low = table.loc[("reduced", "female")]
    assert (low["n_identities"], low["n"]) == ((down["power_level"] == "low").sum(), len(down)) == (22, 26)
    assert (high["paper_table_value"], low["paper_table_value"]) == (70.12, 85.32)
    assert table["paper_table_value"].notna().sum() == 2
    assert table.loc["unchanged", "n"].unique() == [(gaps["gap"] == 0).sum()]


# -- mitigation ---------------------------------------------------------------------------


def test_mitigation_without_interval_has_margin_only(printed):
    table = printed["mitigation"]
    after = only_row(table, aspect="power", mitigation="intervention", stereotype="overall")
    # Printed without an interval: 11.12 points below 0 are within the half-width.
    assert (after["score"], after["direction"]) == (-11.12, "not tested")
    # 216 images: 1.96 * 100 / sqrt(216).
    assert after["margin"] == pytest.approx(13.336, abs=0.001)
    top = cell(table, scope="top5")
    assert top["score"].tolist() == [92.0, 26.0] and top["margin"].isna().all()


# -- other sources -----------------------------------------------------------------------------------


def test_stereotype_score_skips_missing_identities(tables_of):
    rows = lists([8, 6], [2, 4], 10)
    rows[1] = share("f1", "female", 0, 0)
    study = tables_of(percent_female=rows)
    female = only_row(study["stereotype_score"], stereotype="female")
    assert (female["score"], female["n"], female["n_identities"]) == (pytest.approx(60), 10, 1)
    assert np.isnan(female["ci_low"]) and female["reason"] == "an interval requires two identities"
    missing = only_row(study["occupation_score"], identity="f1")
    assert np.isnan(missing["score"]) and np.isnan(missing["fair_low"]) and missing["reason"] == "no image"
    # Three identities with a value are tested: Holm's factor is at most 3.
    scores = study["occupation_score"].dropna(subset="p")
    assert (scores["p_holm"] <= 3 * scores["p"] + 1e-12).all()


def test_stereotype_score_of_several_roles_pools_people(tables_of):
    def role(occupation, name, stereotype, count):
        identity = f"{occupation} {name}"
        return share(identity, stereotype, count, 10, "paired", "power", occupation=occupation)

    rows = [role("cook", "intern", "female", 9), role("cook", "aide", "female", 7), role("cook", "head", "male", 2)]
    rows += [role("guard", "intern", "female", 5), role("guard", "head", "male", 4), role("guard", "chief", "male", 6)]
    study = tables_of(percent_female=rows)
    scores = study["stereotype_score"].set_index("stereotype")
    # Cook: low 80 and 40, high 60. Guard: low 0, high 20 and -20. Each role has ten people.
    assert scores["score"].to_dict() == pytest.approx({"female": 40, "male": 20, "overall": 30})
    assert scores["n_identities"].to_dict() == {"female": 3, "male": 3, "overall": 6}
    low, high = scipy_stats.ttest_1samp([60, 0], 0).confidence_interval(0.95)
    assert scores.loc["overall", "ci_low"] == max(low, -100) and scores.loc["overall", "ci_high"] == min(high, 100)
    result = study["role_coupling"].iloc[0]
    assert (result["n"], result["n_same_score"], result["difference"]) == (2, 2, 0)


def test_occupation_score_refuses_invalid_shares(tables_of):
    for wrong, message in (
        (share("f", "female", 1, 4) | {"percent_female": 40}, r"40% in row 1 cannot come from n = 4 people"),
        (share("f", "feminine", 1, 4), r"stereotype is 'feminine'; it must be 'female' or 'male'\."),
    ):
        with pytest.raises(InputError, match=message):
            tables_of(percent_female=[wrong])["occupation_score"]


# -- few occupations, and lists that differ in their occupations ------------------------------------------


def test_stereotype_score_of_one_occupation_has_no_interval(tables_of):
    rows = [share("cook, low", "female", 6, 6, aspect="power", occupation="cook")]
    rows += [share("cook, high", "male", 2, 2, aspect="power", occupation="cook")]
    overall = only_row(tables_of(percent_female=rows)["stereotype_score"], stereotype="overall")
    # Six people fit, two do not: (6 - 2) / 8.
    assert overall["score"] == pytest.approx(50) and np.isnan(overall["ci_low"])
    assert overall["reason"] == "an interval requires two identities"


def test_adherence_resamples_occupations_with_one_role(tables_of):
    # Ten occupations have both roles, and ten more only that of low power, where all people fit.
    rows = roles([5] * 10, [2, 3] * 5, 10) + [
        share(f"x{i}, female", "female", 10, 10, aspect="power", occupation=f"x{i}") for i in range(10)
    ]
    row = only_row(tables_of(percent_female=rows, replicates=2000)["adherence"], stereotype="female")
    # Of the female list 15 of 20 fit on average (0.75), of the male list 0.75 as well.
    assert row["percent_of_adhering"] == pytest.approx(50)
    assert row["ci_low"] < row["percent_of_adhering"] < row["ci_high"]


def test_role_coupling_of_three_occupations_has_no_interval(tables_of):
    study = tables_of(percent_female=roles([1, 4, 8], [2, 3, 9], 10))
    row = study["role_coupling"].iloc[0]
    assert np.isfinite(row["r"]) and np.isnan(row["ci_low"])
    assert row["reason"] == "the interval of a correlation requires four occupations"
