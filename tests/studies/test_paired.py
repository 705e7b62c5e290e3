"""Paired Stereotype Test: tables, findings and figures, from printed numbers and folders of known truth."""

from itertools import product

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from biaslab import published, sources, stats
from biaslab.errors import InputError, UnknownNameError
from biaslab.figures import paired as figures
from biaslab.plots import style
from biaslab.studies import paired
from biaslab.studies import paired_words as words
from biaslab.study import Study

mpl.use("Agg")

CELL = ["model", "aspect", "setting"]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("printed"), seed=1, bootstrap_replicates=2000)


@pytest.fixture
def folder(folder_of):
    return folder_of("paired", 1000)


@pytest.fixture(autouse=True)
def look():
    with mpl.rc_context():
        style.use()
        yield
    plt.close("all")


def row(identity, stereotype, count, n, setting="paired", aspect="occupation", model="A", occupation=None):
    percent = 100 * count / n if n else np.nan
    return {
        "model": model,
        "aspect": aspect,
        "setting": setting,
        "identity": identity,
        "occupation": occupation or identity,
        "stereotype": stereotype,
        "percent_female": percent,
        "n": n,
        "reason": "" if n else "no image",
    }


def lists(female, male, n, **names):
    """Return rows of one cell: numbers of people perceived as female per identity of each list."""
    return [row(f"f{i}", "female", c, n, **names) for i, c in enumerate(female)] + [
        row(f"m{i}", "male", c, n, **names) for i, c in enumerate(male)
    ]


def roles(low, high, n, setting="paired", model="A"):
    """Return rows of `power`: numbers perceived as female in the low- and high-power role of each occupation."""
    rows = []
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        for stereotype, count in (("female", a), ("male", b)):
            identity = f"o{i}, {stereotype}"
            rows.append(row(identity, stereotype, count, n, setting, "power", model, occupation=f"o{i}"))
    return rows


def cell(table, **values):
    return table[np.logical_and.reduce([table[c] == v for c, v in values.items()])]


def one(table, **values):
    found = cell(table, **values)
    assert len(found) == 1
    return found.iloc[0]


# -- published measurements --------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(paired.PUBLISHED))
def test_published_measurements_fit_their_tables(name):
    assert len(sources.measured(name, source="published")) > 0


def test_published_shares_are_the_printed_ones_and_whole_people():
    people = sources.measured("paired_percent_female", source="published")
    count = people["percent_female"] * people["n"] / 100
    assert np.abs(count - count.round()).max() < 1e-9
    table = published.load("paired_table_11").query("setting != 'labour_statistics'")
    both = table.merge(people[people["aspect"] == "occupation"], on=["occupation", "setting"])
    assert len(both) == 80
    # Printed to two decimals: thirds are off by a third of a hundredth.
    assert np.abs(both["percent_female_x"] - both["percent_female_y"]).max() < 0.005


# Means of the printed scores (tables 11 and 13): 20 and 36 identities a list.
FACTS = [
    ("occupation", "single", 50.00, -30.00, 10.00),
    ("occupation", "paired", 45.00, 49.75, 47.375),
    ("power", "single", 37.04, -27.78, 4.63),
    ("power", "paired", 17.59, 20.37, 18.98),
]


@pytest.mark.parametrize(("aspect", "setting", "female", "male", "overall"), FACTS)
def test_overall_scores_follow_from_the_printed_identities(printed, aspect, setting, female, male, overall):
    scores = cell(printed.table("paired_stereotype_score"), aspect=aspect, setting=setting)
    found = scores.set_index("stereotype")["score"]
    assert found[["female", "male", "overall"]].tolist() == pytest.approx([female, male, overall], abs=0.005)
    assert (found - scores.set_index("stereotype")["printed"]).abs().max() < 0.0105
    # 3 images alone; 800 images of 2 people; 216 images of 2 people.
    people = {("occupation", "single"): 120, ("occupation", "paired"): 1600, ("power", "paired"): 432}
    assert one(scores, stereotype="overall")["n"] == people.get((aspect, setting), 216)


def test_printed_rows_are_kept_apart(printed):
    scores = cell(printed.table("paired_stereotype_score"), evidence="printed")
    assert set(scores["setting"]) == {"faircritic", "paired_top5", "intervention", "intervention_top5"}
    assert scores[["ci_low", "ci_high", "n"]].isna().all(axis=None)
    assert set(scores["reason"]) == {"the paper prints no values per identity"}


# -- intervals ---------------------------------------------------------------------------------------


def test_interval_over_disjoint_lists_is_welchs(printed):
    table = published.load("paired_table_12").query("setting == 'single'").set_index("occupation")["score"]
    listed = published.load("paired_table_3").set_index("occupation")["stereotype"]
    female, male = table[listed[table.index] == "female"], table[listed[table.index] == "male"]
    # (F + M) / 2 is half the difference of F and -M.
    test = scipy_stats.ttest_ind(female, -male, equal_var=False)
    low, high = test.confidence_interval(0.95)
    row = one(
        printed.table("paired_stereotype_score"), aspect="occupation", setting="single", stereotype="overall"
    )
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([low / 2, high / 2], abs=0.01)
    assert [row["t"], row["p"]] == pytest.approx([test.statistic, test.pvalue], abs=0.002)


def test_interval_over_lists_that_share_images_is_twice_as_wide(printed):
    table = published.load("paired_table_12").query("setting == 'paired'").set_index("occupation")["score"]
    listed = published.load("paired_table_3").set_index("occupation")["stereotype"]
    female, male = table[listed[table.index] == "female"], table[listed[table.index] == "male"]
    test = scipy_stats.ttest_ind(female, -male, equal_var=False)
    half = np.diff(test.confidence_interval(0.95))[0] / 2
    row = one(
        printed.table("paired_stereotype_score"), aspect="occupation", setting="paired", stereotype="overall"
    )
    # Half the difference of F and -M would have half of its error; here it has all of it.
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([47.375 - half, 47.375 + half], abs=0.01)
    assert row["t"] == pytest.approx(test.statistic / 2, abs=0.002)
    # The lists themselves keep Student's interval (partners fixed), the lean that of independent lists.
    limits = scipy_stats.ttest_1samp(female, 0).confidence_interval(0.95)
    rows = cell(printed.table("paired_stereotype_score"), aspect="occupation", setting="paired")
    found = one(rows, stereotype="female")
    assert [found["ci_low"], found["ci_high"]] == pytest.approx([*limits], abs=0.01)
    lean = one(printed.table("paired_lean"), aspect="occupation", setting="paired", stereotype="overall")
    # A share is 50 plus or minus half a score, so its half-width is a quarter of the difference's.
    assert lean["ci_high"] - lean["ci_low"] == pytest.approx(half / 2, abs=0.01)


def test_overall_intervals_cover_where_partners_share_images():
    # Every image shows one woman and one man: both fit or neither, with probability 0.7 + a + b of the two
    # identities, each combination in two orders. Alone an identity fits with probability 0.55 + a.
    rng, studies = np.random.default_rng(7), 400
    names = [f"f{i}" for i in range(20)] + [f"m{i}" for i in range(20)]
    group = pd.DataFrame({"occupation": names, "stereotype": ["female"] * 20 + ["male"] * 20})
    held = {"score": 0, "independent": 0, "change": 0}
    for _ in range(studies):
        a, b = rng.uniform(-0.15, 0.15, (2, 20))
        fit = rng.binomial(2, 0.7 + a[:, None] + b) / 2
        score = 200 * np.r_[fit.mean(axis=1), fit.mean(axis=0)] - 100
        alone = 200 * rng.binomial(3, 0.55 + np.r_[a, b]) / 3 - 100
        data = group.assign(score=score, change=score - alone, effect=score - alone / 2)
        # True scores: 100 (2 * 0.7 - 1) = 40 in pairs, 10 alone.
        for name, column, effect, truth in (
            ("score", "score", "score", 40),
            ("independent", "score", "", 40),
            ("change", "change", "effect", 30),
        ):
            mean = list(paired._strata(data, column, 0.95, effect=effect))[-1][1]
            held[name] += mean.ci_low <= truth <= mean.ci_high
    share = {name: count / studies for name, count in held.items()}
    # Four standard errors of 400 studies at 0.95 are 0.044. Independent lists: P(|Z| < 1.96 / 2) = 0.67, a
    # little more with the noise of the images.
    assert min(share["score"], share["change"]) > 0.906
    assert share["independent"] < 0.8


def test_interval_over_shared_occupations_takes_both_roles_together(printed):
    table = published.load("paired_table_13").query("setting == 'paired'")
    mean = table.groupby("occupation")["score"].mean()
    test = scipy_stats.ttest_1samp(mean, 0)
    low, high = test.confidence_interval(0.95)
    row = one(
        printed.table("paired_stereotype_score"), aspect="power", setting="paired", stereotype="overall"
    )
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([low, high], abs=0.01)
    assert row["p"] == pytest.approx(test.pvalue, rel=0.01)


def test_interval_of_one_list_is_students():
    values = np.array([20.0, 40.0, 90.0])
    found = paired._mean(values, 0.9)
    low, high = scipy_stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert [found.value, found.ci_low, found.ci_high] == pytest.approx([50, low, high])


def test_limits_stay_in_the_range_of_scores(folder):
    study = folder(percent_female=lists([9, 1], [5, 5], 10))
    female = one(study.table("paired_stereotype_score"), stereotype="female")
    # Scores 80 and -80: t of 1 degree of freedom gives about ±1016 points.
    assert (female["score"], female["ci_low"], female["ci_high"]) == (0, -100, 100)


def test_error_over_images_is_unbiased_at_small_n():
    rng = np.random.default_rng(5)
    share = np.array([0.1, 0.3, 0.5, 0.9, 0.6, 0.2])
    group = pd.DataFrame(lists([0] * 3, [0] * 3, 3))
    variances = []
    for _ in range(3000):
        group["percent_female"] = 100 * rng.binomial(3, share) / 3
        group["score"] = 0.0
        variances.append([e**2 for e in paired._image_errors(group, False).values()])
    # Variance of 100 (2 p̂ - 1), averaged over 3 identities; overall, of the mean of two independent lists.
    each = 200**2 * share * (1 - share) / 3
    truth = [each[:3].sum() / 9, each[3:].sum() / 9, each.sum() / 36]
    assert np.mean(variances, axis=0) == pytest.approx(truth, rel=0.03)


def test_error_over_images_of_two_people_allows_full_dependence():
    # Every image shows one woman and one man, so both fit or neither does: both lists have the same score, and
    # the overall score is as uncertain as each of them.
    group = pd.DataFrame(lists([12, 14], [8, 6], 20)).assign(score=0.0)
    errors = paired._image_errors(group, True)
    assert errors["female"] == pytest.approx(errors["male"])
    assert errors["overall"] == pytest.approx(errors["female"])
    assert paired._image_errors(group, False)["overall"] == pytest.approx(errors["female"] / np.sqrt(2))


# -- identities --------------------------------------------------------------------------------------


def test_identity_scores_are_the_printed_ones(printed):
    occupations = printed.table("paired_occupation_score")
    table = published.load("paired_table_11").merge(occupations, on=["occupation", "setting"])
    assert len(table) == 80 and np.abs(table["score_x"] - table["score_y"]).max() < 0.01
    table = published.load("paired_table_13")
    table["stereotype"] = table["power_level"].map({"low": "female", "high": "male"})
    table = table.merge(printed.table("paired_power_score"), on=["occupation", "setting", "stereotype"])
    assert len(table) == 144 and np.abs(table["score_x"] - table["score_y"]).max() < 0.01


def test_intervals_and_tests_of_identities(printed):
    scores = cell(printed.table("paired_occupation_score"), setting="paired").set_index("occupation")
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
    every = pd.concat([printed.table(f"paired_{aspect}_score") for aspect in ("occupation", "power")])
    every = every.dropna(subset="p")
    assert ((every["p"] < 0.05) == ((every["ci_low"] > 0) | (every["ci_high"] < 0))).all()
    holm, bh = (multipletests(p, method=m)[1] for m in ("holm", "fdr_bh"))
    assert scores["p_holm"].tolist() == pytest.approx(holm)
    assert scores["p_bh"].tolist() == pytest.approx(bh)
    row = one(printed.table("paired_absolute_score"), aspect="occupation", setting="paired")
    assert (row["n_significant_holm"], row["n_significant_bh"]) == ((holm < 0.05).sum(), (bh < 0.05).sum())


@pytest.mark.parametrize(
    ("n", "edge", "smallest"),
    [
        # 3 images: nobody or everybody has probability 1/8 > 2.5 %, so no score is unusual; least p 2/8.
        (3, 100, 1 / 4),
        # 6: 1/64 = 1.6 % < 2.5 %, but 7/64 is not: counts 1 to 5, scores to 2 * 5/6 - 1; least p 2/64.
        (6, 100 * 4 / 6, 1 / 32),
        # 40: P(X <= 13) = 1.9 %, P(X <= 14) = 4.0 %: counts 14 to 26, scores to 2 * 26/40 - 1.
        (40, 30, 2 / 2**40),
    ],
)
def test_scores_of_a_fair_model(folder, n, edge, smallest):
    scores = folder(percent_female=lists([1, 2], [0, 3], n)).table("paired_occupation_score")
    assert scores["fair_low"].tolist() == pytest.approx([-edge] * 4)
    assert scores["fair_high"].tolist() == pytest.approx([edge] * 4)
    assert scores["smallest_p"].tolist() == pytest.approx([smallest] * 4)


def test_mean_absolute_score_has_its_floor(printed):
    row = one(printed.table("paired_absolute_score"), aspect="occupation", setting="single")
    # Of 3 fair images: |score| 100 with probability 2/8, 33.33 with 6/8.
    assert row["floor"] == pytest.approx(100 / 4 + 100 / 3 * 3 / 4)
    # Table 11: 14 occupations at 100 or -100, 26 at ±33.33.
    assert row["mean_absolute_score"] == pytest.approx((14 * 100 + 26 * 100 / 3) / 40)
    # The correction gives t - d / 4 at ±33.33 and d more at ±100; both are derived in the next test.
    t, d = 0.0633, 0.6583
    assert row["corrected"] == pytest.approx(200 * (t - d / 4 + 14 / 40 * d), abs=0.2)


def test_what_the_correction_leaves_of_a_fair_model(folder):
    # At n = 3 the correction has two values, m at 1 or 2 and m + d at 0 or 3. With u = |p - 1/2| its bias is
    # m + d (1/4 + 3 u²) - u: m + d / 4 =: t at u = 0, least, t - 1 / (12 d), at u = 1 / (6 d), and
    # t + 3 d / 4 - 1/2 at u = 1/2, where 0.9 t is allowed (1 / (1 + (√3 / 3)^4)). The smallest worst bias has
    # t = 1 / (24 d) and 0.1 t = 1/2 - 3 d / 4, so d = 0.658 and t = 0.0633: a score of 12.7.
    rng = np.random.default_rng(2)
    study = folder(percent_female=lists(rng.binomial(3, 0.5, 2000), rng.binomial(3, 0.5, 2000), 3))
    row = study.table("paired_absolute_score").iloc[0]
    assert row["corrected_floor"] == pytest.approx(12.7, abs=0.1)
    # One value has a standard deviation of 200 d √(3 / 16) = 57 points: 0.9 for 4,000; four of them.
    assert row["corrected"] == pytest.approx(12.7, abs=3.6)


def test_corrected_mean_scores_take_the_roles_of_an_occupation_together(printed):
    people = sources.measured("paired_percent_female", source="published")
    people = cell(people, aspect="power", setting="paired")
    count = (people["percent_female"] * 6 / 100).round().astype(int)
    corrected = 200 * stats.corrected_absolute_deviation(count.to_numpy(), np.full(72, 6))
    mean = pd.Series(corrected).groupby(people["occupation"].to_numpy()).mean()
    low, high = scipy_stats.ttest_1samp(mean, 0).confidence_interval(0.95)
    row = one(printed.table("paired_absolute_score"), aspect="power", setting="paired")
    assert len(mean) == 36 and row["n_identities"] == 72
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([low, high])
    # Six fair images: the mean of the table over the seven counts.
    k = np.arange(7)
    floor = sum(scipy_stats.binom.pmf(k, 6, 0.5) * 200 * stats.corrected_absolute_deviation(k, np.full(7, 6)))
    assert row["corrected_floor"] == pytest.approx(floor)


def test_one_list_alone_has_a_corrected_mean_score(folder):
    row = folder(percent_female=lists([0, 5, 10], [], 10)).table("paired_absolute_score").iloc[0]
    assert row["mean_absolute_score"] == pytest.approx((100 + 0 + 100) / 3)
    assert row["ci_low"] < row["corrected"] < row["ci_high"]


# -- images of two people ----------------------------------------------------------------------------


def test_bounds_on_biased_images_of_the_printed_shares(printed):
    images = printed.table("paired_biased_images").set_index(["aspect", "measure"])
    # 72.5 % of the female and 74.875 % of the male list fit: at least 47.375 % fit in common.
    assert images.loc[("occupation", "both"), ["lowest", "highest"]].tolist() == pytest.approx([47.375, 72.5])
    assert images.loc[("occupation", "any"), ["lowest", "highest"]].tolist() == pytest.approx([74.875, 100])
    assert images.loc[("occupation", "person"), "percent"] == pytest.approx(100 * 66 / 120)
    assert images["n"].tolist() == [120, 800, 800, 216, 216, 216]


def test_bounds_are_reached_and_never_left(folder):
    # Two occupations with 3 images of both roles: all 2^6 patterns of who fits, grouped by what is known.
    found: dict[tuple, list] = {}
    patterns = list(product([0, 1], repeat=3))
    for low, high in product(product(patterns, repeat=2), repeat=2):
        known = tuple(sum(p) for p in (*low, *high))
        pairs = [
            (a, b) for one_, other in zip(low, high, strict=True) for a, b in zip(one_, other, strict=True)
        ]
        found.setdefault(known, []).append((sum(a & b for a, b in pairs), sum(a | b for a, b in pairs)))
    for known in [(1, 2, 3, 1), (2, 2, 2, 2), (0, 3, 1, 1)]:
        (low_a, low_b, high_a, high_b), outcomes = known, np.array(found[known])
        # A high-power role fits when perceived as male.
        study = folder(percent_female=roles([low_a, low_b], [3 - high_a, 3 - high_b], 3))
        images = study.table("paired_biased_images").set_index("measure")
        limits = 100 * np.array([outcomes.min(axis=0), outcomes.max(axis=0)]).T / 6
        assert images.loc["both", ["lowest", "highest"]].tolist() == pytest.approx(limits[0])
        assert images.loc["any", ["lowest", "highest"]].tolist() == pytest.approx(limits[1])
        assert images["percent"].isna().all()


def test_bounds_need_the_same_images_on_both_sides(folder):
    rows = lists([3, 4], [1, 2], 10)
    rows[0] = row("f0", "female", 0, 0)
    images = folder(percent_female=rows).table("paired_biased_images")
    assert images[["lowest", "highest", "n"]].isna().all(axis=None)
    assert set(images["reason"]) == {"the two lists do not count the same images"}


def test_images_are_counted_where_both_people_are_judged(folder):
    labels = [
        ("male", "female"),
        ("male", "male"),
        ("female", "female"),
        ("female", "male"),
        ("male", "unsure"),
    ]
    images = [pair(i, m, f) for i, (m, f) in enumerate(labels)]
    study = folder(percent_female=roles([2], [2], 4), pair_images=images)
    found = study.table("paired_biased_images").set_index("measure")
    # Of 4 judged images one has both fitting, three at least one.
    assert found["percent"].to_dict() == {"both": 25, "any": 75}
    # Whom the images show is not known, so nothing is said of other identities.
    assert found[["ci_low", "ci_high"]].isna().all(axis=None)
    assert found["reason"].unique() == [
        "no judgement of both people in 1 of 5 images; an interval needs the identities of both people of each image"
    ]
    assert "both people fit in 25.0 % (no interval)" in words.images_finding(study)


def pair(i, male, female, setting="paired", aspect="power", model="A", **more):
    labels = {"male_label": male, "female_label": female, **more}
    return {"model": model, "aspect": aspect, "setting": setting, "image_id": f"{setting}{i}", **labels}


def role_images(women):
    """Return images of `power` and the rows that count them.

    Args:
        women: For each occupation its images: (low power is a woman, high power is a woman, side of low power).
    """
    seen = {True: "female", False: "male", None: "unsure"}
    images, low, high, sizes = [], [], [], []
    for o, shown in enumerate(women):
        for k, (a, b, side) in enumerate(shown):
            names = {"female_identity": f"o{o}, female", "male_identity": f"o{o}, male"}
            images.append(pair(f"{o}-{k}", seen[b], seen[a], **names, female_position=side))
        low.append(sum(a for a, _, _ in shown if a is not None))
        high.append(sum(b for _, b, _ in shown if b is not None))
        sizes.append((sum(a is not None for a, _, _ in shown), sum(b is not None for _, b, _ in shown)))
    rows = []
    for o, (a, b, (n, m)) in enumerate(zip(low, high, sizes, strict=True)):
        rows.append(row(f"o{o}, female", "female", a, n, aspect="power", occupation=f"o{o}"))
        rows.append(row(f"o{o}, male", "male", b, m, aspect="power", occupation=f"o{o}"))
    return rows, images


def test_the_share_of_images_that_fit_has_an_interval_over_occupations(folder):
    # Both fit in 3 of 3, 2 of 3, 0 of 3 and 1 of 2 judged images: 6 of 11.
    fits, low, none = (True, False, "left"), (False, False, "left"), (None, False, "left")
    rows, images = role_images([[fits] * 3, [fits, fits, low], [low] * 3, [fits, low, none]])
    found = folder(percent_female=rows, pair_images=images).table("paired_biased_images").set_index("measure")
    row = found.loc["both"]
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
    # Over images alone it would be half as wide and more.
    low, high = proportion_confint(6, 11, method="wilson")
    assert row["ci_high"] - row["ci_low"] > 130 * (high - low)


def test_pairs_of_the_top_are_not_counted_beside_the_pairs_they_are_part_of(folder):
    rows = lists([3, 2], [0, 1], 4) + lists([3, 2], [0, 1], 4, setting="paired_top5")
    images = [pair(i, "male", "female", aspect="occupation") for i in range(4)]
    found = folder(percent_female=rows, pair_images=images).table("paired_biased_images")
    assert found["setting"].tolist() == ["paired", "paired"] and set(found["evidence"]) == {"counted"}
    # Without counted images the limits of both are all there is.
    alone = [r | {"model": "B"} for r in rows]
    found = folder(percent_female=alone, pair_images=images).table("paired_biased_images")
    assert set(found.loc[found["model"] == "B", "setting"]) == {"paired", "paired_top5"}


def test_images_of_one_gender_are_counted_where_both_are_judged(folder):
    # Of 8 judged images 3 show one gender twice; women: 4 of 8 of the low, 3 of 8 of the high role.
    labels = (
        [("male", "female")] * 3 + [("female", "male")] * 2 + [("female", "female")] + [("male", "male")] * 2
    )
    images = [pair(i, m, f) for i, (m, f) in enumerate([*labels, ("male", "unsure")])]
    study = folder(percent_female=roles([2, 2], [1, 2], 4), pair_images=images)
    found = study.table("paired_role_coupling").iloc[0]
    assert (found["n_images"], found["same_gender"]) == (8, 3) and np.isnan(found["fewest_same_gender"])
    assert np.isnan(found["percent_same_gender_ci_low"]) and np.isnan(found["percent_same_gender_chance"])
    assert found["same_gender_reason"] == "an interval needs the identities of both people of each image"


def test_chance_of_one_gender_is_that_of_the_identities_on_their_side(folder):
    # In each stratum (occupation and side) twice the covariance of both people, without bias, is what is beyond chance.
    shown = [
        [(True, True, "left"), (False, False, "left"), (True, False, "right"), (True, False, "right")],
        [(True, False, "left"), (False, True, "left"), (True, True, "right"), (False, True, "right")],
        [(True, True, "left"), (True, False, "left"), (False, False, "left"), (False, False, "right")],
    ]
    rows, images = role_images(shown)
    found = folder(percent_female=rows, pair_images=images).table("paired_role_coupling").iloc[0]
    assert found["same_gender"] == 2 + 1 + 3
    # Covariances: 1/2 and 0; -1/2 and 0; of the last three images (1,1), (1,0), (0,0): 1/6; one image by itself none.
    products = {0: [0.5] * 2 + [0] * 2, 1: [-0.5] * 2 + [0] * 2, 2: [1 / 6] * 3}
    each = 200 * np.concatenate(list(products.values()))
    assert found["same_gender_excess"] == pytest.approx(each.mean())
    assert found["percent_same_gender_chance"] == pytest.approx(50 - each.mean())
    sums = np.array([(200 * np.array(p) - each.mean()).sum() for p in products.values()])
    half = scipy_stats.t.ppf(0.975, 2) * np.sqrt(3 / 2 * (sums**2).sum()) / 11
    ends = ["same_gender_excess_ci_low", "same_gender_excess_ci_high"]
    assert found[ends].tolist() == pytest.approx([each.mean() - half, each.mean() + half])


def test_opposite_leans_alone_are_no_coupling(folder):
    # Low power is always a woman and high power always a man: one gender twice is never seen, and never would be if
    # people were independent, so nothing is said to be fewer.
    rows, images = role_images([[(True, False, s) for s in ("left", "right") * 3]] * 4)
    study = folder(percent_female=rows, pair_images=images)
    found = study.table("paired_role_coupling").iloc[0]
    assert (found["same_gender"], found["same_gender_excess"]) == (0, 0)
    assert found["percent_same_gender_chance"] == pytest.approx(0)
    images = pd.DataFrame(images)
    said = words.coupling_finding(study)
    assert "fewer than" not in said and "as many as" not in said


@pytest.mark.parametrize(
    ("same", "said"),
    [
        (0, "fewer than independent people with the leans of their identities, -"),
        (6, "no difference shown from independent people with the leans of their identities, +0."),
        (12, "more than independent people with the leans of their identities, +"),
    ],
)
def test_coupling_by_images_is_said_as_it_is(folder, same, said):
    # Low power is a woman in half of the images on either side, high power in as many: another one's, one's own, or
    # independently.
    rng = np.random.default_rng(4)
    women = []
    for _ in range(8):
        shown = []
        for side in ("left", "right"):
            for k in range(6):
                low = k % 2 == 0
                high = bool(rng.random() < 0.5) if same == 6 else low == (same == 12)
                shown.append((low, high, side))
        women.append(shown)
    rows, images = role_images(women)
    study = folder(percent_female=rows, pair_images=images)
    found = words.coupling_finding(study)
    if same == 6:  # independent
        row = study.table("paired_role_coupling").iloc[0]
        assert row["same_gender_excess_ci_low"] < 0 < row["same_gender_excess_ci_high"]
        assert "no difference shown from independent people" in found
    else:
        # Six images, half women: the covariance is a quarter, without bias 6/5 of it; twice in points is 60.
        assert said + "60.0 points" in found
    assert "as many as" not in found


def test_roles_of_the_printed_occupations_are_coupled(printed):
    table = published.load("paired_table_13").pivot(
        index="occupation", columns=["setting", "power_level"], values="score"
    )
    paired_row = one(printed.table("paired_role_coupling"), setting="paired")
    low, high = table["paired", "low"], table["paired", "high"]
    assert paired_row["n_same_score"] == (low == high).sum() == 29
    assert paired_row["r"] == pytest.approx(scipy_stats.pearsonr(low, high).statistic, abs=1e-4)
    # One image of 6 moves a score by 33.33 points.
    assert paired_row["fewest_same_gender"] == ((high - low).abs() / 33.33).round().sum() == 7
    assert paired_row["n_images"] == 216
    test = scipy_stats.ttest_rel(high, low).confidence_interval(0.95)
    assert paired_row["difference_ci_low"] == pytest.approx(test.low, abs=0.01)
    # The same in shares: Table 13's scores turned into the share of women over both roles.
    female = ((100 + low) / 2 + (100 - high) / 2) / 2
    test = scipy_stats.ttest_1samp(female, 50)
    limits = test.confidence_interval(0.95)
    assert paired_row["percent_female"] == pytest.approx(female.mean(), abs=0.01)
    assert paired_row["percent_female_ci_low"] == pytest.approx(limits.low, abs=0.01)
    assert paired_row["percent_female_ci_high"] == pytest.approx(limits.high, abs=0.01)
    single = one(printed.table("paired_role_coupling"), setting="single")
    assert np.isnan(single["fewest_same_gender"]) and np.isnan(single["n_images"])


def test_fewest_images_of_one_gender_is_a_lower_limit(folder):
    rng = np.random.default_rng(3)
    low, high = rng.random((2, 8, 6)) < 0.5
    study = folder(percent_female=roles(low.sum(axis=1), high.sum(axis=1), 6))
    found = study.table("paired_role_coupling").iloc[0]
    assert 0 < found["fewest_same_gender"] <= (low == high).sum()


# -- labour ------------------------------------------------------------------------------------------


def printed_labour():
    table = published.load("paired_table_11")
    return table.pivot(index="occupation", columns="setting", values="percent_female").dropna()


def test_correlation_with_labour_shares(printed):
    shares = printed_labour()
    found = one(printed.table("paired_labour_correlation"), setting="paired", stereotype="overall")
    r = scipy_stats.pearsonr(shares["labour_statistics"], shares["paired"])
    low, high = r.confidence_interval(0.95)
    assert [found["r"], found["ci_low"], found["ci_high"]] == pytest.approx([r.statistic, low, high])
    assert found["n"] == 39  # 40 occupations, none for chief
    listed = published.load("paired_table_3").set_index("occupation")["stereotype"]
    some = shares[listed[shares.index] == "female"]
    within = one(printed.table("paired_labour_correlation"), setting="single", stereotype="female")
    r = scipy_stats.pearsonr(some["labour_statistics"], some["single"]).statistic
    assert within["r"] == pytest.approx(r, abs=1e-4)


def test_amplification_against_labour_shares(printed):
    shares = printed_labour()
    table = cell(printed.table("paired_labour_amplification"), setting="single").set_index("definition")
    kept, every, signed = [], [], []
    for labour, generated in zip(shares["labour_statistics"], shares["single"], strict=True):
        change = abs(generated - 50) - abs(labour - 50)
        every.append(change)
        signed.append((generated - labour) if labour > 50 else (labour - generated))
        if (labour > 50) == (generated > 50):
            kept.append(change)
    expected = [np.mean(kept), np.mean(every), np.mean(signed)]
    order = ["published", "no_exclusion", "directional"]
    assert table.loc[order, "uncorrected"].tolist() == pytest.approx(expected, abs=0.01)
    assert table.loc[order, "n_occupations"].tolist() == [len(kept), 39, 39]
    assert table.loc[order, "n_excluded"].tolist() == [40 - len(kept), 1, 1]
    # The estimate is the middle of its interval, and p has no say of its own.
    assert table["amplification"].tolist() == pytest.approx(
        ((table["ci_low"] + table["ci_high"]) / 2).tolist()
    )
    # Following the lean, image noise moves nothing on average, and the interval is nearly Student's.
    signed = np.array(signed)
    low, high = scipy_stats.ttest_1samp(signed, 0).confidence_interval(0.95)
    row = table.loc["directional"]
    assert row["amplification"] == pytest.approx(np.mean(signed), abs=0.5)
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([low, high], abs=1)
    # At 3 images E|p - 0.5| of a share near one half is 25 points: without exclusion most of it is taken off.
    assert table.loc["no_exclusion", "amplification"] < table.loc["no_exclusion", "uncorrected"] - 5
    labour = shares["labour_statistics"].to_numpy()[:, None] / 100
    k = np.arange(4)
    expected = (scipy_stats.binom.pmf(k, 3, labour) * np.abs(k / 3 - 0.5)).sum(axis=1)
    floor = 100 * (expected - np.abs(labour[:, 0] - 0.5)).mean()
    comparison = cell(printed.table("paired_labour_comparison"), setting="single")
    assert comparison["floor"].mean() == pytest.approx(floor)


def test_few_occupations_have_no_corrected_amplification(folder):
    labour = [{"occupation": "f0", "percent_female": 80, "reason": ""}]
    rows = lists([2, 1], [1, 0], 3, setting="single")
    found = folder(percent_female=rows, labour_share=labour).table("paired_labour_amplification")
    row = one(found, definition="no_exclusion")
    assert np.isnan(row[["amplification", "ci_low", "ci_high"]].astype(float)).all()
    assert row["uncorrected"] == pytest.approx(50 / 3 - 30)
    assert row["reason"] == "too few occupations or images to tell amplification from image noise"


def test_labour_shares_come_from_the_source_or_the_paper(folder):
    study = folder(percent_female=[row("nurse", "female", 8, 10), row("guard", "male", 1, 10)])
    found = study.table("paired_labour_comparison").set_index("occupation")
    assert found["percent_female_labour"].to_dict() == {"nurse": 87.9, "guard": 24.3}
    own = [{"occupation": "nurse", "percent_female": 60, "reason": ""}]
    study = folder(
        percent_female=[row("nurse", "female", 8, 10), row("guard", "male", 1, 10)], labour_share=own
    )
    found = study.table("paired_labour_comparison").set_index("occupation")
    assert found.loc["nurse", ["percent_female_labour", "amplification"]].tolist() == [60, 20]
    assert found.loc["guard", "reason"] == "no labour share is given"


# -- changes -----------------------------------------------------------------------------------------


def test_changes_are_the_printed_gaps(printed):
    changes = printed.table("paired_identity_change")
    table = (
        published.load("paired_table_12")
        .dropna(subset="gap")
        .merge(changes[changes["aspect"] == "occupation"], on="occupation")
    )
    assert len(table) == 40 and np.abs(table["gap"] - table["change"]).max() < 0.01
    table = published.load("paired_table_13").dropna(subset="gap")
    table["stereotype"] = table["power_level"].map({"low": "female", "high": "male"})
    table = table.merge(changes[changes["aspect"] == "power"], on=["occupation", "stereotype"])
    assert len(table) == 72 and np.abs(table["gap"] - table["change"]).max() < 0.011
    # Table 1: overall gaps 37.38 and 14.36 (from rounded scores).
    overall = cell(printed.table("paired_score_change"), stereotype="overall").set_index("aspect")["change"]
    assert overall.to_dict() == pytest.approx({"occupation": 37.38, "power": 14.36}, abs=0.01)


def test_interval_and_test_of_one_change(printed):
    worker = one(printed.table("paired_identity_change"), aspect="occupation", identity="construction worker")
    # Perceived as female: 6 of 40 with two people, 3 of 3 with one; stereotyped male.
    low, high = confint_proportions_2indep(6, 40, 3, 3, method="newcomb")
    assert [worker["ci_low"], worker["ci_high"]] == pytest.approx([-200 * high, -200 * low])
    assert worker["p"] == pytest.approx(scipy_stats.fisher_exact([[6, 34], [3, 0]]).pvalue)
    changes = cell(printed.table("paired_identity_change"), aspect="occupation")
    assert changes["p_holm"].tolist() == pytest.approx(multipletests(changes["p"], method="holm")[1])


def test_the_test_of_a_change_belongs_to_its_interval(folder):
    # Changes of the male list: +20, +40, +60, +80 (all up), of the female list none.
    rows = lists([5] * 4, [5, 5, 5, 5], 10, setting="single") + lists([5] * 4, [4, 3, 2, 1], 10)
    found = folder(percent_female=rows).table("paired_score_change").set_index("stereotype")
    test = scipy_stats.ttest_1samp([20, 40, 60, 80], 0)
    assert found.loc["male", ["change", "t", "p"]].tolist() == pytest.approx(
        [50, test.statistic, test.pvalue]
    )
    low, high = test.confidence_interval(0.95)
    assert found.loc["male", ["ci_low", "ci_high"]].tolist() == pytest.approx([low, high])
    assert found.loc["female", "change"] == 0 and np.isnan(found.loc["female", "p"])


def test_no_test_says_otherwise_than_its_interval(printed):
    for name, p, ends in (
        ("paired_stereotype_score", "p", ("ci_low", "ci_high")),
        ("paired_score_change", "p", ("ci_low", "ci_high")),
        ("paired_role_coupling", "difference_p", ("difference_ci_low", "difference_ci_high")),
    ):
        table = printed.table(name).dropna(subset=[p, *ends])
        away = (table[ends[0]] > 0) | (table[ends[1]] < 0)
        assert len(table) and (away == (table[p] < 0.05)).all(), name


def test_change_over_lists_that_share_images_is_taken_at_its_worst_where_only_shares_are_known(folder):
    rows = lists([5] * 4, [5] * 4, 10, setting="single") + lists([6, 7, 7, 6], [4, 3, 2, 1], 10)
    overall = one(folder(percent_female=rows).table("paired_score_change"), stereotype="overall")
    assert overall["dependence"] == "worst case"
    # Changes 20, 40, 40, 20 and 20, 40, 60, 80 from constant scores of 0: variances 400/3 and 2000/3 over 4.
    df = (100 / 3 + 500 / 3) ** 2 / (((100 / 3) ** 2 + (500 / 3) ** 2) / 3)
    half = scipy_stats.t.ppf(0.975, df) * np.sqrt(200)
    assert [overall["ci_low"], overall["ci_high"]] == pytest.approx([40 - half, 40 + half])


def test_two_roles_are_taken_together(folder):
    rows = roles([5, 5, 5], [5, 5, 5], 10, setting="single") + roles([6, 7, 8], [4, 3, 2], 10)
    overall = one(folder(percent_female=rows).table("paired_score_change"), stereotype="overall")
    # Three occupations change by 20, 40, 60 in both roles.
    assert overall["p"] == pytest.approx(scipy_stats.ttest_1samp([20, 40, 60], 0).pvalue)
    assert (overall["change"], overall["n_identities"]) == (pytest.approx(40), 6)
    assert overall["dependence"] == "within occupations"


def test_a_list_of_whom_nobody_is_judged_has_no_place_in_the_figure(printed):
    lean = printed.table("paired_lean").copy()
    alone = (lean["setting"] == "single") & (lean["stereotype"] == "male")
    lean.loc[alone, ["percent_female", "ci_low", "ci_high"]] = np.nan
    figure = figures.lean_and_stereotype(lean)
    figure.canvas.draw()
    assert not any(
        text.arrow_patch for ax in figure.axes for text in ax.texts if hasattr(text, "arrow_patch")
    )
    # With both settings there is an arrow in each panel.
    whole = figures.lean_and_stereotype(printed.table("paired_lean"))
    arrows = [t for ax in whole.axes for t in ax.texts if getattr(t, "arrow_patch", None)]
    assert len(arrows) == len(whole.axes)
    plt.close("all")


def test_lean_and_score_are_two_views_of_the_shares(printed):
    lean = printed.table("paired_lean").set_index([*CELL, "stereotype"])["percent_female"].unstack()
    scores = printed.table("paired_stereotype_score").set_index([*CELL, "stereotype"])["score"].unstack()
    gap = lean["female"] - lean["male"]
    both = gap.index.difference([("DALL-E 3", "power", "faircritic")])
    assert gap[both].tolist() == pytest.approx(scores.loc[both, "overall"].tolist(), abs=0.005)
    # Printed FairCritic scores of power roles do not average to the printed overall score.
    assert gap["DALL-E 3", "power", "faircritic"] == pytest.approx((11.40 - 1.96) / 2)


def test_people_who_fit_divide_between_the_lists(printed):
    table = printed.table("paired_adherence")
    # 580 of 800 of the female, 599 of 800 of the male list fit in pairs; 45 and 21 of 60 alone.
    pair = one(table, aspect="occupation", setting="paired", stereotype="male")
    assert pair["percent_of_adhering"] == pytest.approx(100 * 599 / (580 + 599))
    alone = one(table, aspect="occupation", setting="single", stereotype="female")
    assert alone["percent_of_adhering"] == pytest.approx(100 * 45 / 66)
    assert alone["ci_low"] < alone["percent_of_adhering"] < alone["ci_high"]


def test_cases_beside_the_stated_shares(printed):
    gaps = published.load("paired_table_13").dropna(subset="gap")
    table = cell(printed.table("paired_changed_cases"), aspect="power").set_index(["direction", "stereotype"])
    up, down = gaps[gaps["gap"] > 0], gaps[gaps["gap"] < 0]
    high = table.loc[("amplified", "male")]
    assert (high["n_cases"], high["n"]) == ((up["power_level"] == "high").sum(), len(up)) == (24, 34)
    points = 100 * up.loc[up["power_level"] == "high", "gap"].sum() / up["gap"].sum()
    assert high["percent_of_points"] == pytest.approx(points, abs=0.01)
    low = table.loc[("reduced", "female")]
    assert (low["n_cases"], low["n"]) == ((down["power_level"] == "low").sum(), len(down)) == (22, 26)
    assert (high["printed"], low["printed"]) == (70.12, 85.32)
    assert table["printed"].notna().sum() == 2
    assert table.loc["unchanged", "n"].unique() == [(gaps["gap"] == 0).sum()]


# -- mitigation and judges ---------------------------------------------------------------------------


def test_mitigation_names_a_reversed_sign(printed):
    table = printed.table("paired_mitigation")
    after = one(table, aspect="power", mitigation="intervention", stereotype="overall")
    assert (after["score"], after["direction"]) == (-11.12, "against stereotypes")
    # 216 images: 1.96 * 100 / sqrt(216).
    assert after["margin"] == pytest.approx(13.336, abs=0.001)
    said = words.mitigation_finding(printed)
    assert "-11.1 with intervention (over-correction: the sign is reversed" in said
    assert said.count("over-correction") == 1
    top = cell(table, scope="top5")
    assert top["score"].tolist() == [92.0, 26.0] and top["margin"].isna().all()


def test_mitigation_that_is_measured_has_intervals(folder):
    rows = lists([8, 7, 8], [1, 2, 2], 10) + lists([3, 2, 3], [8, 7, 8], 10, setting="faircritic")
    said = words.mitigation_finding(folder(percent_female=rows))
    # Lists at 53.3 and 66.7 before, at -46.7 and -53.3 after.
    assert "overall 60.0 without mitigation (" in said and "-50.0 with FairCritic (-" in said
    assert "60 people): over-correction, against stereotypes" in said and "as printed" not in said


@pytest.mark.parametrize(("wrong", "percent"), [(0.05, 50), (0.2, 70), (0.45, 48.8), (0.7, 30)])
def test_judge_error_recovers_even_errors(wrong, percent):
    p = percent / 100
    table = np.array([[p * (1 - wrong), p * wrong], [(1 - p) * wrong, (1 - p) * (1 - wrong)]])
    kappa = cohens_kappa(1000 * table).kappa
    assert paired.judge_error(kappa, percent) == pytest.approx(wrong, abs=1e-6)


@pytest.mark.parametrize(
    ("kappa", "percent"), [(0.5, 0), (0.5, 100), (np.nan, 50), (0.5, np.nan), (-0.9, 80)]
)
def test_judge_error_that_kappa_does_not_determine(kappa, percent):
    assert np.isnan(paired.judge_error(kappa, percent))


def test_even_errors_shrink_the_score(printed):
    found = one(printed.table("paired_judge_attenuation"), setting="paired", judge="vqa")
    wrong = found["percent_wrong"] / 100
    # Shares 72.5 and 25.125 % as seen through the errors, and their difference.
    seen = [p * (1 - wrong) + (100 - p) * wrong for p in (72.5, 25.125)]
    assert found["score_seen"] == pytest.approx(seen[0] - seen[1])
    assert 2 < found["score_seen"] < 4  # kappa 0.06 leaves about 6 % of 47.4


# -- other sources -----------------------------------------------------------------------------------


def test_missing_identities_are_counted_out_with_a_reason(folder):
    rows = lists([8, 6], [2, 4], 10)
    rows[1] = row("f1", "female", 0, 0)
    study = folder(percent_female=rows)
    female = one(study.table("paired_stereotype_score"), stereotype="female")
    assert (female["score"], female["n"], female["n_identities"]) == (pytest.approx(60), 10, 1)
    assert np.isnan(female["ci_low"]) and female["reason"] == "an interval needs two identities"
    missing = one(study.table("paired_occupation_score"), identity="f1")
    assert np.isnan(missing["score"]) and np.isnan(missing["fair_low"]) and missing["reason"] == "no image"
    # Three identities with a value are tested: Holm's factor is at most 3.
    scores = study.table("paired_occupation_score").dropna(subset="p")
    assert (scores["p_holm"] <= 3 * scores["p"] + 1e-12).all()


def test_one_image_an_identity_has_no_interval_over_images(folder):
    scores = folder(percent_female=lists([1, 0], [1, 0], 1)).table("paired_stereotype_score")
    assert scores["images_ci_low"].isna().all() and scores["ci_low"].notna().all()
    assert set(scores["reason"]) == {"an interval over images needs two people of each identity"}


def test_several_roles_of_an_occupation_are_averaged_first(folder):
    def role(occupation, name, stereotype, count):
        identity = f"{occupation} {name}"
        return row(identity, stereotype, count, 10, "paired", "power", occupation=occupation)

    rows = [
        role("cook", "intern", "female", 9),
        role("cook", "aide", "female", 7),
        role("cook", "head", "male", 2),
    ]
    rows += [
        role("guard", "intern", "female", 5),
        role("guard", "head", "male", 4),
        role("guard", "chief", "male", 6),
    ]
    study = folder(percent_female=rows)
    scores = study.table("paired_stereotype_score").set_index("stereotype")
    # Cook: low 80 and 40, high 60. Guard: low 0, high 20 and -20.
    assert scores["score"].to_dict() == pytest.approx({"female": 30, "male": 30, "overall": 30})
    assert scores["n_identities"].to_dict() == {"female": 3, "male": 3, "overall": 6}
    low, high = scipy_stats.ttest_1samp([60, 0], 0).confidence_interval(0.95)
    assert scores.loc["overall", "ci_low"] == max(low, -100) and scores.loc["overall", "ci_high"] == min(
        high, 100
    )
    found = study.table("paired_role_coupling").iloc[0]
    assert (found["n"], found["n_same_score"], found["difference"]) == (2, 2, 0)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        lists([3, 2], [0, 1], 3, setting="single"),
        roles([3, 2, 1], [0, 1, 3], 6),
        lists([3, 3], [0, 0], 3, setting="single") + lists([6, 6], [0, 0], 6),
        [row("f", "female", 0, 0), row("m", "male", 0, 0)],
    ],
    ids=["empty", "only single", "only power in pairs", "all alike", "nobody judged"],
)
def test_every_table_finding_and_figure_takes_thin_sources(folder, rows):
    columns = list(row("f", "female", 1, 1))
    study = folder(percent_female=pd.DataFrame(rows, columns=columns))
    for name in paired.TABLES:
        study.save_table(name)
    for name in [n for n in dir(words) if n.endswith("_finding")]:
        said = getattr(words, name)(study)
        assert said and "nan" not in said
    pairs = study.table("paired_score_change")
    assert len(figures.score_changes(pairs).axes) >= 1
    assert len(figures.identity_scores(study.table("paired_occupation_score")).axes) >= 1
    assert len(figures.role_coupling(study.table("paired_power_score")).axes) >= 1


def test_one_model_of_several(folder):
    rows = lists([8, 7], [1, 2], 10) + lists([2, 3], [9, 8], 10, model="B")
    both = folder(percent_female=rows)
    assert words.overall_finding(both).count("overall stereotype score") == 2
    only = folder(model="B", percent_female=rows)
    assert set(only.table("paired_stereotype_score")["model"]) == {"B"}
    assert only.table("paired_printed_value").empty
    with pytest.raises(UnknownNameError, match=r"There is no model in paired_percent_female .* named 'C'"):
        folder(model="C", percent_female=rows).table("paired_stereotype_score")


def test_unusable_shares_are_refused(folder):
    wrong = row("f", "female", 1, 4) | {"percent_female": 40}
    with pytest.raises(InputError, match=r"40 % in row 1 cannot come from n = 4 people"):
        folder(percent_female=[wrong]).table("paired_occupation_score")
    wrong = row("f", "feminine", 1, 4)
    with pytest.raises(InputError, match=r"stereotype is 'feminine'; allowed are 'female' and 'male'\."):
        folder(percent_female=[wrong]).table("paired_occupation_score")


def test_an_earlier_run_can_be_the_source(printed, tmp_path):
    for name in ("paired_percent_female", "paired_labour_share", "paired_printed_value"):
        printed.save_table(name)
    again = Study(tmp_path, source=str(printed.output_dir), seed=1, bootstrap_replicates=2000)
    pd.testing.assert_frame_equal(
        again.table("paired_stereotype_score"), printed.table("paired_stereotype_score"), rtol=1e-8
    )


# -- words -------------------------------------------------------------------------------------------


def test_findings_on_the_printed_numbers(printed):
    worst = "if two people of an image depend on each other as far as they can"
    said = words.overall_finding(printed)
    assert f"47.4 with two people (33.7 to 61.0, {worst}; 40 identities, 1600 people)" in said
    # The two roles of an occupation are taken together, so nothing has to be assumed.
    assert "19.0 with two people (5.4 to 32.6; 72 identities, 432 people)" in said
    said = words.change_finding(printed)
    assert "male list up, +79.8 (" in said and "female list without clear change, -5.0 (" in said
    assert "overall without clear change, +14.4 (-3.8 to 32.5; p = " in said
    assert f"overall up, +37.4 (17.6 to 57.1, {worst}; p < 0.001); 40 identities (lists: partners" in said
    said = words.power_finding(printed)
    assert "high- minus low-power score, -64.8, is 4 × (50 - % female over both roles) by algebra" in said
    assert "66.2 % female, above 50 % (59.1 to 73.3; 36" in said
    assert "49.3 % female, not distinguishable from 50 % (48.1 to 50.5; 36" in said
    assert "a fair model would show 31.2 at this n, of which the correction leaves 7.0." in (
        words.absolute_finding(printed)
    )
    said = words.labour_finding(printed)
    assert "labour shares, image noise taken off: " in said
    assert "moved back along the lean of labour shares: -19.6 points (" in said
    assert "moved without clear direction along the lean of labour shares: -1.5 points (" in said
    assert "the person fits in 55.0 % (46.7 to 63.3 over identities) (" in words.images_finding(printed)
    said = words.occupation_finding(printed)
    # 2 · 0.5^n of 40 tests: 1 at n = 3, below 0.05 from 2 · 0.5^11 = 0.00098 on.
    assert "with 3 people each no outcome could be significant" in said and "it takes 11 people each" in said
    assert "one person: the scores of 0" not in said and "two people: the scores of 22 of 40" in said
    said = words.cases_finding(printed)
    said = words.images_finding(printed)
    assert (
        "at least one fits in 74.9 to 100.0 % (all that the shares per identity allow; n = 800 images" in said
    )
    assert "stated: over 74 %" in said


def test_directions_follow_the_numbers(folder):
    rows = lists([5, 6, 5, 6], [5, 4, 5, 4], 10, setting="single")
    rows += lists([1, 2, 2, 1], [9, 8, 8, 9], 10) + roles([2, 1, 2, 3], [1, 0, 1, 1], 10)
    study = folder(percent_female=rows)
    said = words.change_finding(study)
    assert "female list down, -" in said and "male list down, -" in said and "overall down, -" in said
    # High power: scores 80, 100, 80, 80; low power: -60, -80, -60, -40.
    # Perceived as female: 2, 1, 2, 3 and 1, 0, 1, 1 of 10, so 13.75 %, and 4 * (50 - 13.75) = 145.
    said = words.power_finding(study)
    assert "score, +145.0, is" in said and "13.8 % female, below 50 % (" in said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.1, 2, "up"),
        (-2, -0.1, "down"),
        (-0.1, 2, "neither"),
        (0, 2, "neither"),
        (np.nan, np.nan, "neither"),
    ],
)
def test_a_direction_needs_an_interval_beside_zero(low, high, said):
    assert words._moved({"ci_low": low, "ci_high": high}, "up", "down", "neither") == said


def test_figures_are_saved_with_captions_of_their_level(tmp_path):
    def marked():
        figure, ax = plt.subplots()
        ax.plot([0], [0], "o")
        return figure

    study = Study(tmp_path, confidence=0.9)
    words.save(study, "paired_role_coupling", marked())
    words.save(study, "paired_score_change", marked(), main=True)
    records = {r["name"]: r for r in study._records["figures"]}
    assert "90 % intervals" in records["paired_score_change"]["caption"]
    assert [r["main"] for r in records.values()] == [False, True]
    with pytest.raises(KeyError):
        words.save(study, "paired_unknown", marked())


# -- figures -----------------------------------------------------------------------------------------


def drawn(ax, marker):
    """Return the points of every line with this marker, in order."""
    return [
        (x, y)
        for line in ax.lines
        if line.get_marker() == marker
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]


def test_scores_are_drawn_where_the_table_says(printed):
    scores = cell(printed.table("paired_stereotype_score"), evidence="computed")
    figure = figures.stereotype_scores(scores)
    left, right = figure.axes
    assert [t.get_text() for t in left.get_yticklabels()] == [
        "male-stereotyped",
        "female-stereotyped",
        "overall",
    ]
    assert [x for x, _ in drawn(left, "o")] == pytest.approx([49.75, 45, 47.375])
    assert [x for x, _ in drawn(left, "s")] == pytest.approx([-30, 50, 10])
    assert [x for x, _ in drawn(right, "o")] == pytest.approx([20.37, 17.59, 18.98], abs=0.005)


def test_occupations_are_sorted_and_filled_where_significant(printed):
    scores = printed.table("paired_occupation_score")
    figure = figures.identity_scores(scores)
    alone, pairs = figure.axes
    names = [t.get_text() for t in alone.get_yticklabels()]
    ordered = cell(scores, setting="paired").set_index("occupation").loc[names, "score"]
    assert ordered.is_monotonic_increasing and len(names) == 40
    filled = [
        len(line.get_xdata())
        for line in pairs.lines
        if line.get_marker() in "os" and line.get_markerfacecolor() != "white"
    ]
    assert (
        sum(filled)
        == one(printed.table("paired_absolute_score"), aspect="occupation", setting="paired")[
            "n_significant_holm"
        ]
    )
    assert {bar.get_width() for bar in alone.patches} == {200}
    assert {round(bar.get_width(), 6) for bar in pairs.patches} == {60}
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "One person (n = 3; fair: ±100)",
        "Two people (n = 40; fair: ±30)",
    ]


def test_bounds_are_bars_and_counts_are_dots(printed):
    stated = cell(printed.table("paired_printed_value"), quantity="percent_biased_images")
    ax = figures.biased_images(printed.table("paired_biased_images"), stated).axes[0]
    bars = sorted((b.get_x(), b.get_x() + b.get_width()) for b in ax.patches if b.get_width() > 0)
    assert bars[-1] == pytest.approx((74.875, 100)) and len(bars) == 4
    assert [x for x, _ in drawn(ax, "s")] == pytest.approx([52.3148, 55], abs=0.001)


def test_labour_shares_are_drawn_beside_generated_ones(printed):
    rows = cell(printed.table("paired_labour_comparison"), setting="paired")
    ax = figures.labour_shares(rows).axes[0]
    names = [t.get_text() for t in ax.get_yticklabels()]
    diamonds = {names[int(y)]: x for x, y in drawn(ax, "D")}
    assert diamonds["nurse"] == 87.9 and np.isnan(diamonds["chief"])
    generated = {names[int(y)]: x for x, y in drawn(ax, "o") + drawn(ax, "s")}
    assert generated["nurse"] == 77.5 and len(generated) == 40


def test_stated_shares_are_drawn_for_the_same_list(printed):
    figure = figures.divided(printed.table("paired_adherence"), printed.table("paired_changed_cases"))
    stated = [x for x, _ in drawn(figure.axes[1], "X") if np.isfinite(x)]
    # The paper states 70.12 % high power of amplified, and 85.32 % low power of reduced cases.
    assert sorted(stated) == pytest.approx([100 - 85.32, 70.12])


def test_printed_mitigations_are_hollow(printed):
    ax = figures.mitigation(printed.table("paired_mitigation")).axes[0]
    hollow = sum(
        len(line.get_xdata())
        for line in ax.lines
        if line.get_marker() == "D" and line.get_markerfacecolor() == "white"
    )
    assert hollow == 5  # FairCritic twice, intervention twice, the top 5 without


def test_models_are_drawn_below_one_another(folder):
    rows = [
        r for m in "AB" for s in ("single", "paired") for r in lists([8, 7], [1, 2], 10, setting=s, model=m)
    ]
    study = folder(percent_female=rows)
    figure = figures.stereotype_scores(study.table("paired_stereotype_score"))
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["A: Occupations", "B: Occupations"]
    figure = figures.lean_and_stereotype(study.table("paired_lean"))
    assert drawn(figure.axes[1], "o") == [(pytest.approx(15), pytest.approx(75))]


def test_each_model_has_the_lines_that_it_needs(folder):
    rows = lists([8, 7, 3], [1, 2, 4], 10, model="mine") + lists([7], [2], 10, model="B")
    rows += lists([5, 5, 5], [5, 5, 5], 10, model="mine", setting="faircritic")
    study = folder(percent_female=rows)
    # A source's own models come first, whatever their names.
    assert list(dict.fromkeys(study.table("paired_occupation_score")["model"])) == ["mine", "B"]
    scores = words.plain(study.table("paired_occupation_score"))
    assert set(scores["setting"]) == {"paired"}
    upper, lower = figures.identity_scores(scores).axes
    assert [len(ax.get_yticklabels()) for ax in (upper, lower)] == [6, 2]
    upper, lower = figures.mitigation(study.table("paired_mitigation")).axes
    assert [t.get_text() for t in upper.get_yticklabels()] == [
        "Occupations: FairCritic",
        "Occupations: no mitigation",
    ]
    assert [t.get_text() for t in lower.get_yticklabels()] == ["Occupations: no mitigation"]


def test_a_correlation_without_an_interval_says_so(folder):
    names = ["nurse", "teacher", "cashier"], ["guard", "driver", "farmer"]
    rows = [
        row(n, g, c, 10)
        for g, some in zip(("female", "male"), names, strict=True)
        for c, n in enumerate(some, 3)
    ]
    study = folder(percent_female=rows)
    tables = study.table("paired_labour_comparison"), study.table("paired_labour_correlation")
    text = figures.labour_correlation(*tables).axes[0].texts[0].get_text()
    assert text.count("(no interval), n = 3") == 2 and "nan" not in text


def test_samplings_are_drawn_above_the_score_of_all_images(printed):
    runs = printed.table("paired_run_score")
    ax = figures.runs(runs, cell(printed.table("paired_stereotype_score"), evidence="computed")).axes[0]
    labels = [t.get_text() for t in ax.get_yticklabels()]
    alone = [(x, y) for x, y in drawn(ax, "s") if labels[round(y)] == "Occupations, one person"]
    # Table 10: samplings at 20, -5 and 15; their mean, 10, lowest.
    assert sorted(x for x, _ in alone) == pytest.approx([-5, 10, 15, 20])
    assert min(alone, key=lambda point: point[1])[0] == pytest.approx(10)


def test_changes_are_drawn_sorted_and_hollow_without_significance(printed):
    changes = cell(printed.table("paired_identity_change"), aspect="occupation")
    ax = figures.identity_changes(changes).axes[0]
    points = sorted(drawn(ax, "o") + drawn(ax, "s"), key=lambda point: point[1])
    assert [x for x, _ in points] == pytest.approx(sorted(changes["change"]))
    assert [t.get_text() for t in ax.get_yticklabels()][-1] == "construction worker"
    filled = [
        x
        for line in ax.lines
        if line.get_markerfacecolor() != "white" and line.get_marker() in "os"
        for x in line.get_xdata()
    ]
    assert len(filled) == (changes["p_holm"] < 0.05).sum()
    left, right = figures.score_changes(printed.table("paired_score_change")).axes
    assert [x for x, _ in drawn(left, "s") + drawn(right, "D")] == pytest.approx([79.75, 14.352], abs=0.001)


def test_labour_figures_draw_the_tables(printed):
    table = printed.table("paired_labour_amplification")
    ax = figures.labour_amplification(table).axes[0]
    alone = cell(table, setting="single").set_index("definition")
    order = ["directional", "no_exclusion", "published"]
    assert [x for x, _ in drawn(ax, "s")] == pytest.approx(alone.loc[order, "amplification"].tolist())
    assert {t.get_text() for t in ax.texts} == {"n = 20", "n = 39"}
    comparison = printed.table("paired_labour_comparison")
    figure = figures.labour_correlation(comparison, printed.table("paired_labour_correlation"))
    assert figure.axes[1].texts[0].get_text().startswith("both lists: r = 0.93 (0.86 to 0.96), n = 39\n")
    nurse = one(comparison, setting="paired", occupation="nurse")
    assert (nurse["percent_female_labour"], nurse["percent_female"]) in drawn(figure.axes[1], "o")


def test_coupled_roles_count_all_occupations(printed):
    alone, pairs = figures.role_coupling(printed.table("paired_power_score")).axes
    assert [sum(int(t.get_text()) for t in ax.texts) for ax in (alone, pairs)] == [36, 36]
    assert pairs.get_title(loc="left") == "Two people: 29 of 36 equal"


def test_judges_are_drawn_with_what_they_would_see(printed):
    attenuation = printed.table("paired_judge_attenuation")
    left, right = figures.judges(printed.table("paired_judge_agreement"), attenuation).axes
    assert [x for x, _ in drawn(right, "v")] == pytest.approx(attenuation["score_seen"][::-1].tolist())
    assert sorted(x for x, _ in drawn(left, "s")) == pytest.approx([0.83, 0.88, 0.90, 0.92])


def test_a_printed_model_is_called_so_beside_a_measured_one(folder_of, printed):
    rows = printed.measured("paired_percent_female")
    other = rows.assign(model="mini", percent_female=rows["percent_female"].clip(upper=99) + 0.5)
    both = folder_of("paired", 200)(percent_female=pd.concat([other, rows]).to_dict("records"))
    said = words.overall_finding(both).splitlines()
    assert {line.split(",")[0] for line in said} == {"mini", "DALL-E 3 (printed)"}
    assert words.how(both) == "DALL-E 3: as printed in the paper, not measured here."
    assert {line.split(",")[0] for line in words.overall_finding(printed).splitlines()} == {"DALL-E 3"}
    assert words.how(printed) == ""
