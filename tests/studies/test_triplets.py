"""Gender triplets: gaps, tests, bias scores and groups, from the printed numbers and from folders of known truth."""

import csv
from decimal import Decimal
from importlib.resources import files
from itertools import product

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from biaslab import published, stats
from biaslab.errors import InputError, UnknownNameError
from biaslab.figures import triplets as figures
from biaslab.studies import triplets
from biaslab.studies import triplets_words as words
from biaslab.study import Study

mpl.use("Agg")

GENDERS = ["neutral", "feminine", "masculine"]
PAIRS = ["neutral-feminine", "neutral-masculine"]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("printed"), seed=1, bootstrap_replicates=500)


@pytest.fixture
def folder(folder_of):
    return folder_of("triplets", 500)


def similarity(
    feminine, masculine, *, metric="clip", dataset="D", model="M", higher=1, unit="1", sample="triplets"
):
    """Return measured similarities: one case a value."""
    return [
        {
            "model": model,
            "dataset": dataset,
            "space": "image",
            "metric": metric,
            "pair": pair,
            "case": f"t{i}",
            "value": value,
            "n": 1,
            "unit": unit,
            "higher_is_closer": higher,
            "sample": sample,
            "reason": "",
        }
        for pair, values in zip(PAIRS, (feminine, masculine), strict=True)
        for i, value in enumerate(values)
    ]


def object_counts(counts, *, model="M", dataset="D", n_images=(100, 100, 100), group=None):
    """Return measured counts from object: (neutral, feminine, masculine)."""
    return [
        {
            "model": model,
            "dataset": dataset,
            "prompt_gender": gender,
            "object": name,
            "count": c,
            "n_images": n,
        }
        | ({"dependency_group": group} if group else {})
        for name, row in counts.items()
        for gender, c, n in zip(GENDERS, row, n_images, strict=True)
        if c is not None
    ]


def cell(table, **names):
    rows = table
    for column, value in names.items():
        rows = rows[rows[column] == value]
    assert len(rows) == 1, (names, len(rows))
    return rows.iloc[0]


def table_5():
    """Return the printed cells of table 5 as decimals: {(model, dataset, metric): (feminine, masculine, higher)}."""
    text = (files(published) / "data" / "triplets_table_5.csv").read_text(encoding="utf-8")
    cells = {}
    for row in csv.DictReader(text.splitlines()):
        key = (row["model"], row["dataset"], row["metric"])
        cells.setdefault(key, {"higher": row["higher_is_closer"] == "1"})[row["pair"]] = row["value"]
    return cells


def nearer_by_decimals(feminine, masculine, higher):
    """Return the nearer gender and the rounding unit of two printed texts, in exact decimal arithmetic."""
    texts = [t for t in (feminine, masculine) if t]
    unit = max(Decimal(1).scaleb(Decimal(t).as_tuple().exponent) for t in texts)
    if len(texts) < 2:
        return "", unit
    gap = (Decimal(masculine) - Decimal(feminine)) * (1 if higher else -1)
    return "tie" if abs(gap) <= unit else "masculine" if gap > 0 else "feminine", unit


# -- section 4: printed --------------------------------------------------------------------------------


def test_table_4_follows_from_triplets_and_seeds(printed):
    table = printed.table("triplets_datasets").set_index("dataset")
    expected = published.load("triplets_table_4").set_index("dataset")
    assert (table[["prompts", "images"]] == expected[["prompts", "images"]]).all(axis=None)


def test_disparity_holds_every_printed_value_once(printed):
    table = printed.table("triplets_disparity")
    assert len(table) == 240 + 16
    assert table["value"].isna().sum() == 6
    assert (table.loc[table["value"].isna(), "reason"] == triplets.NOT_LEGIBLE).all()
    assert (table["reading"] == "reconstructed").sum() == 14 + 4 + 8  # COCO, TextCaps, table 10
    assert table[["ci_low", "ci_high"]].isna().all(axis=None)
    assert (table["reason"] != "").all()


def test_n_is_triplets_in_prompt_space_and_pairs_of_images_elsewhere(printed):
    table = printed.table("triplets_disparity")
    assert (table.loc[table["value"].isna(), "n"] == 0).all()
    n = table[table["value"].notna()].groupby(["dataset", "space"])["n"].agg(set)
    # Table 4: 418 triplets with 5 seeds; 811 with 5; the others with 1. One triplet: 1000 seeds (section 7.1).
    assert n["GCC", "prompt"] == {418} and n["GCC", "image"] == {2090}
    assert n["Profession", "denoising"] == {4055} and n["COCO", "image"] == {51219}
    assert n[triplets.ONE_TRIPLET, "prompt"] == {1} and n[triplets.ONE_TRIPLET, "image"] == {1000}


def test_which_gender_is_nearer_agrees_with_decimal_arithmetic(printed):
    gap = printed.table("triplets_disparity_gap")
    gap = gap[gap["sample"] == "triplets"].set_index(["model", "dataset", "metric"])
    cells = table_5()
    assert set(gap.index) == set(cells)
    for key, found in cells.items():
        nearer, unit = nearer_by_decimals(*(found[p] for p in PAIRS), found["higher"])
        assert gap.loc[key, "nearer"] == nearer, key
        assert gap.loc[key, "rounding"] == pytest.approx(float(unit)), key


def test_cells_finding_counts_and_names_the_exceptions(printed):
    # SD v2.0 and v2.1 share a text encoder: their equal prompt values count once. The metric t is the prompt's.
    cells, prompts = {}, set()
    for (model, dataset, metric), c in table_5().items():
        if metric == "t":
            if (dataset, *(c[p] for p in PAIRS)) in prompts:
                continue
            prompts.add((dataset, *(c[p] for p in PAIRS)))
        cells[model, dataset, metric] = c
    assert len(table_5()) - len(cells) == 5
    kinds = [nearer_by_decimals(*(c[p] for p in PAIRS), c["higher"])[0] for c in cells.values()]
    assert "(prompt 7 of 10, denoising 15 of 15 and image 74 of 84)" in words.cells_finding(printed)
    assert "Another 5 in prompt space repeat the values" in words.cells_finding(printed)
    finding = words.cells_finding(printed)
    assert (
        f"Of {len(kinds) - kinds.count('')} distinct cells of model, dataset and metric, Table 5" in finding
    )
    assert f"nearer to masculine in {kinds.count('masculine')} " in finding
    assert f"nearer to feminine in {kinds.count('feminine')}, and tied in {kinds.count('tie')}" in finding
    assert f"; {kinds.count('')} cells cannot be compared." in finding
    # The notes of the published table name CLIP on two datasets with every model, and Split-Product once; the
    # difference of one unit in Profession is a tie here.
    assert finding.endswith(
        "Nearer to feminine: CLIP on COCO (SD v1.4, SD v2.0, SD v2.1) and Flickr30k (SD v1.4, SD v2.0, SD v2.1); "
        "Split-product on Flickr30k (SD v2.1)."
    )


def test_gap_is_turned_where_lower_is_closer(printed):
    gap = printed.table("triplets_disparity_gap")
    pixels = cell(gap, model="SD v1.4", dataset="GCC", metric="diff_pix")
    assert pixels["gap"] == pytest.approx(42.61 - 39.34)
    assert pixels["percent_nearer"] == pytest.approx(100 * 3.27 / 42.61)
    text = cell(gap, model="SD v1.4", dataset="GCC", metric="t")
    assert text["gap"] == pytest.approx(0.931 - 0.909)
    # distances 1 - 0.909 and 1 - 0.931
    assert text["percent_nearer"] == pytest.approx(100 * (0.091 - 0.069) / 0.091)
    clip = cell(gap, model="SD v2.1", dataset="Flickr30k", metric="clip")
    assert (clip["nearer"], clip["gap"]) == ("feminine", pytest.approx(-0.010))


def test_summary_is_student_t_over_dataset_means(printed):
    gap = printed.table("triplets_disparity_gap")
    dino = gap[(gap["sample"] == "triplets") & (gap["metric"] == "dino")]
    means = dino.groupby("dataset")["gap"].mean().to_numpy()
    assert len(means) == 5
    row = cell(printed.table("triplets_gap_summary"), model="all models", metric="dino")
    low, high = scipy_stats.t.interval(0.95, 4, means.mean(), scipy_stats.sem(means))
    assert [row["gap"], row["ci_low"], row["ci_high"]] == pytest.approx([means.mean(), low, high])
    # 15 cells less the two of SD v2.1 that are not legible.
    assert (row["n_datasets"], row["n_cells"], row["n_missing"], row["n_masculine"]) == (5, 13, 2, 13)


def test_sign_flips_of_datasets_cannot_reach_five_percent(printed):
    table = printed.table("triplets_gap_summary")
    rows = table[table["model"] == "all models"].set_index("metric")
    # All five dataset means positive: only the observed and the mirrored pattern of 32 are as far from 0.
    assert rows.loc["z0", "p_datasets"] == pytest.approx(2 / 32) == rows.loc["z0", "smallest_p_datasets"]
    assert rows.loc["z0", "p_cells"] == pytest.approx(2 / 2**15)
    for p in ("p_datasets", "p_cells"):
        assert rows[f"{p}_holm"].to_numpy() == pytest.approx(multipletests(rows[p], method="holm")[1])
    # CLIP: enumerate the patterns of the five dataset means by themselves.
    gap = printed.table("triplets_disparity_gap")
    clip = gap[(gap["sample"] == "triplets") & (gap["metric"] == "clip")].groupby("dataset")["gap"].mean()
    sums = [abs(sum(s * g for s, g in zip(signs, clip, strict=True))) for signs in product((-1, 1), repeat=5)]
    assert rows.loc["clip", "p_datasets"] == pytest.approx(np.mean(np.array(sums) >= abs(clip.sum()) - 1e-12))
    finding = words.flip_finding(printed)
    assert "over 5 datasets cannot give a p below 0.0625" in finding
    # Of 8 metrics, 8 · 2 · 0.5^n falls below 0.05 from 9 datasets on.
    assert "after Holm's correction none could lie below 0.05, which takes 9 datasets" in finding


def test_student_t_covers_over_five_datasets_where_a_bootstrap_does_not():
    """The reason that the summary's description gives, measured: 4000 times five normal gaps of mean 0."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4000, 5))
    drawn = rng.integers(0, 5, (400, 5))
    low, high = stats.percentile_interval(values[:, drawn].mean(axis=-1), axis=1)
    t = [stats.mean_interval(v) for v in values]
    # Monte Carlo error of a coverage: below 0.006 (one standard error).
    assert np.mean([e.ci_low < 0 < e.ci_high for e in t]) == pytest.approx(0.95, abs=0.015)
    assert np.mean((low < 0) & (high > 0)) == pytest.approx(0.84, abs=0.025)


def test_the_headline_counts_the_metrics(printed):
    # Table 5: CLIP and Split-product have intervals that include 0, the other six lie above it.
    said = words.disparity_headline(printed)
    assert said == (
        "Neutral prompts are nearer to masculine in 6 of 8 metrics, to feminine in 0, undecided in 2 (95 % intervals "
        "over 5 datasets, Table 5). Told apart after Holm's correction: 6 by t-tests; sign flips cannot reach p < 0.05."
    )
    gap = printed.table("triplets_disparity_gap").query("sample == 'triplets'")
    means = (
        gap.groupby(["metric", "dataset"], sort=False)["percent_nearer"].mean().groupby("metric", sort=False)
    )
    p = means.apply(lambda m: scipy_stats.ttest_1samp(m.dropna(), 0).pvalue)
    rows = words.shown_summary(printed).set_index("metric")
    assert rows["p_percent"].to_dict() == pytest.approx(p.to_dict())
    holm = multipletests(p, method="holm")[1]
    assert rows["p_percent_holm"].to_numpy() == pytest.approx(holm)
    assert (holm < 0.05).sum() == 6


def test_sign_flips_are_counted_where_they_can_reach_the_level(folder):
    # Six datasets, all nearer to masculine, one metric: p = 2 / 2**6 = 0.03, and Holm has nothing to multiply.
    rng = np.random.default_rng(4)
    rows = [
        r for d in "ABCDEF" for r in similarity(rng.normal(0.5, 0.01, 9), rng.normal(0.6, 0.01, 9), dataset=d)
    ]
    assert words.disparity_headline(folder(similarity=rows)) == (
        "M: Neutral prompts are nearer to masculine in 1 of 1 metric, to feminine in 0, undecided in 0 (95 % "
        "intervals over 6 datasets). Told apart after Holm's correction: 1 by t-tests; 1 by sign flips."
    )


def test_disparity_finding_separates_intervals_above_and_around_0(printed):
    finding = words.disparity_finding(printed)
    rows = words.shown_summary(printed).set_index("metric")
    around = [m for m in rows.index if rows.loc[m, "percent_ci_low"] <= 0 <= rows.loc[m, "percent_ci_high"]]
    assert around == ["clip", "split_product"]
    above, zero = finding.split("the interval includes 0 for ")
    assert "CLIP" in zero and "Split-product" in zero and "CLIP" not in above
    assert "neutral is nearer to masculine in Text embedding +10.4 % (4.1 to 16.7)" in above
    assert "Table 5" in finding and "5 datasets" in finding


def test_one_triplet_stands_apart(printed):
    gap = printed.table("triplets_disparity_gap")
    one = gap[gap["sample"] == "seeds"]
    assert len(one) == 8 and set(one["dataset"]) == {"GCC (one triplet)"}
    assert printed.table("triplets_gap_summary")["n_datasets"].max() == 5
    finding = words.one_triplet_finding(printed)
    # 0.981 and 0.982 are one unit apart.
    assert (
        "n = 1,000 seeds: neutral is nearer to masculine in 7 of 8 metrics, tied in Text embedding" in finding
    )


# -- section 4: measured -------------------------------------------------------------------------------


def test_measured_cases_give_paired_intervals(folder):
    feminine = np.array([0.50, 0.60, 0.55, 0.70, np.nan])
    masculine = np.array([0.53, 0.62, 0.60, np.nan, 0.80])
    study = folder(similarity=similarity(feminine, masculine))
    row = study.table("triplets_disparity_gap").iloc[0]
    differences = (masculine - feminine)[:3]
    low, high = scipy_stats.t.interval(0.95, 2, differences.mean(), scipy_stats.sem(differences))
    assert [row["gap"], row["ci_low"], row["ci_high"]] == pytest.approx([differences.mean(), low, high])
    assert row["masculine"] - row["feminine"] == pytest.approx(row["gap"])
    assert (row["nearer"], row["rounding"], row["reading"]) == ("masculine", 0, "")
    mean = cell(study.table("triplets_disparity"), pair="neutral-feminine")
    known = feminine[:4]
    low, high = scipy_stats.t.interval(0.95, 3, known.mean(), scipy_stats.sem(known))
    assert [mean["value"], mean["ci_low"], mean["ci_high"]] == pytest.approx([known.mean(), low, high])


def test_comparisons_that_have_no_value_do_not_count(folder):
    study = folder(similarity=similarity([0.5, np.nan, 0.7], [0.6, 0.7, 0.9]))
    assert study.table("triplets_disparity_gap")["n"].tolist() == [2]
    assert study.table("triplets_disparity")["n"].tolist() == [2, 3]


def test_a_cell_without_values_says_why(folder):
    study = folder(
        similarity=similarity([np.nan, np.nan], [0.6, 0.7]) + similarity([0.1], [0.2], metric="dino")
    )
    gap = study.table("triplets_disparity_gap").set_index("metric")
    assert np.isnan(gap.loc["clip", "gap"]) and gap.loc["clip", "nearer"] == ""
    assert gap.loc["clip", "reason"] == "no value is given"
    assert np.isnan(gap.loc["dino", "ci_low"]) and gap.loc["dino", "reason"] == "an interval needs two cases"
    summary = study.table("triplets_gap_summary").set_index("metric")
    assert (summary["n_missing"].tolist(), summary["n_cells"].tolist()) == ([1, 0], [0, 1])
    assert summary.loc["dino", "reason"] == "an interval needs two datasets"


def test_findings_turn_with_the_numbers(folder):
    rng = np.random.default_rng(5)
    rows = []
    for dataset in ("A", "B", "C"):
        base = rng.normal(0.5, 0.05, 40)
        rows += similarity(base + 0.1, base + rng.normal(0, 0.02, 40), dataset=dataset)
        pixels = rng.normal(40, 1, 40)
        rows += similarity(
            pixels + 5,
            pixels + rng.normal(0, 0.5, 40),
            dataset=dataset,
            metric="diff_pix",
            higher=0,
            unit="%",
        )
    study = folder(similarity=rows)
    finding = words.disparity_finding(study)
    assert "neutral is nearer to masculine in Differing pixels" in finding
    assert "neutral is nearer to feminine in CLIP" in finding
    assert "Table" not in finding and "M, mean over 3 datasets" in finding
    cells = words.cells_finding(study)
    assert "nearer to masculine in 3 (image 3 of 6), nearer to feminine in 3" in cells
    assert "The 95 % interval over triplets excludes 0 in 6 of 6 cells." in cells


def test_one_dataset_falls_back_on_intervals_over_triplets(folder):
    study = folder(similarity=similarity([0.5, 0.6, 0.7], [0.6, 0.7, 0.9]))
    differences = np.array([0.1, 0.1, 0.2])
    low, high = scipy_stats.t.interval(0.95, 2, differences.mean(), scipy_stats.sem(differences))
    expected = f"M, D: CLIP {differences.mean():+.3g} ({low:.3g} to {high:.3g}, n = 3)."
    assert words.disparity_finding(study).endswith(expected)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "pair",
            "neutral-male",
            "triplets_similarity: pair is 'neutral-male'. Did you mean 'neutral-masculine' or ",
        ),
        ("sample", "prompts", "triplets_similarity: sample is 'prompts'. Known: seeds, triplets."),
        ("higher_is_closer", 0.5, "triplets_similarity: higher_is_closer is '0.5'. "),
    ],
)
def test_unknown_names_are_refused(folder, column, value, message):
    rows = pd.DataFrame(similarity([0.5], [0.6]))
    rows[column] = rows[column].astype(object)
    rows.loc[1, column] = value
    with pytest.raises(InputError) as error:
        folder(similarity=rows).table("triplets_disparity")
    assert str(error.value).startswith(message)


def test_a_mean_beside_its_values_is_refused(folder):
    rows = pd.DataFrame(similarity([0.5, 0.6], [0.6, 0.7]))
    rows.loc[rows["case"] == "t1", "case"] = "mean"
    with pytest.raises(InputError, match=r"has the case 'mean' beside others for \{'model': 'M'"):
        folder(similarity=rows).table("triplets_disparity_gap")


def test_a_misspelt_model_is_refused_in_every_section(tmp_path):
    study = Study(tmp_path, model="SD v2")
    for name in (
        "triplets_disparity",
        "triplets_co_occurrence",
        "triplets_chi_square",
        "triplets_group_chi_square",
    ):
        with pytest.raises(UnknownNameError, match=r"'SD v2'\. Did you mean"):
            study.table(name)


def test_one_model_has_what_the_paper_prints_for_it(tmp_path):
    study = Study(tmp_path, model="SD v1.4", bootstrap_replicates=500)
    assert set(study.table("triplets_gap_summary")["model"]) == {"SD v1.4"}
    assert len(study.table("triplets_group_chi_square")) == 100
    # Tables 11 to 13 are of SD v2.0 alone.
    for name in (
        "triplets_group_share",
        "triplets_group_objects",
        "triplets_intersection",
        "triplets_detector",
    ):
        assert study.table(name).empty
    assert words.share_finding(study) == "" == words.detector_finding(study)


# -- section 5 -----------------------------------------------------------------------------------------


def test_co_occurrence_gap_of_table_6(printed):
    table = printed.table("triplets_co_occurrence")
    row = cell(table, model="SD v2.0", dataset="COCO")
    assert row["gap"] == pytest.approx(0.531 - 0.512) and row["n"] == 51219
    one = cell(table, model="SD v2.0", dataset="GCC (one triplet)")
    assert (one["feminine"], one["masculine"], one["n"], one["sample"]) == (0.733, 0.773, 1000, "seeds")
    values = published.load("triplets_table_6").pivot(
        index=["model", "dataset"], columns="pair", values="value"
    )
    gaps = values["neutral-masculine"] - values["neutral-feminine"]
    means = gaps.groupby("dataset").mean()
    row = cell(printed.table("triplets_co_occurrence_summary"), model="all models")
    low, high = scipy_stats.t.interval(0.95, 4, means.mean(), scipy_stats.sem(means))
    assert [row["gap"], row["ci_low"], row["ci_high"]] == pytest.approx([means.mean(), low, high])
    assert (row["n_masculine"], row["n_cells"]) == (15, 15)
    finding = words.co_occurrence_finding(printed)
    assert (
        f"masculine than of feminine ones: mean gap in co-occurrence similarity {means.mean():+.3f}"
        in finding
    )
    assert "in 15 of 15 cells" in finding


def test_stated_bounds_become_one_row_a_test(printed):
    table = printed.table("triplets_chi_square")
    many = table[table["sample"] == "triplets"]
    assert len(many) == 3 * 5 * 4 and len(table) == 64
    assert (many["p_relation"] == "<").all() and (many["p"] == 1e-5).all()
    # 60 equal bounds: Holm multiplies the smallest by 60; Benjamini-Hochberg leaves equal values alone.
    assert many["p_holm"].to_numpy() == pytest.approx(np.full(60, 60e-5))
    assert many["p_bh"].to_numpy() == pytest.approx(np.full(60, 1e-5))
    assert many["cramers_v"].isna().all() and (many["reason"] == triplets.NO_COUNTS).all()
    assert "No counts are printed, so there is no effect size" in words.chi_square_finding(printed)


def test_chi_square_of_counts_is_scipys(folder):
    counts = {"suit": (50, 20, 90), "dress": (40, 80, 10), "tree": (70, 60, 65)}
    study = folder(object_counts=object_counts(counts))
    row = cell(study.table("triplets_chi_square"), pair="feminine-masculine")
    table = np.array([[20, 90], [80, 10], [60, 65]])
    test = scipy_stats.chi2_contingency(table, correction=False)
    assert [row["statistic"], row["p"], row["dof"]] == pytest.approx([test.statistic, test.pvalue, 2])
    assert (row["n"], row["n_objects"], row["n_pooled"], row["evidence"]) == (325, 3, 0, "computed")
    assert row["cramers_v"] == pytest.approx(np.sqrt((test.statistic - 2) / 325))
    assert row["ci_low"] < row["cramers_v"] < row["ci_high"]
    triplet = cell(study.table("triplets_chi_square"), pair="triplet")
    assert triplet["statistic"] == pytest.approx(
        scipy_stats.chi2_contingency(list(counts.values())).statistic
    )
    p = study.table("triplets_chi_square")["p"]
    for column, method in (("p_holm", "holm"), ("p_bh", "fdr_bh")):
        assert study.table("triplets_chi_square")[column].to_numpy() == pytest.approx(
            multipletests(p, method=method)[1]
        )


def test_missing_genders_and_rare_objects_have_a_reason(folder):
    rows = object_counts({"suit": (None, 3, 1), "hat": (None, 0, 2)})
    table = folder(object_counts=rows).table("triplets_chi_square").set_index("pair")
    assert table.loc["neutral-feminine", "reason"] == "no counts for neutral prompts"
    assert table.loc["feminine-masculine", "reason"] == "fewer than two objects are common enough"
    assert table["p"].isna().all()


def test_pool_rare_by_hand():
    # Two sets of 100 and 50 objects: an object is expected in the smaller one a third of its total times, so it
    # needs 15. "15" and "135" stay apart; nothing is left to pool.
    exact, pooled = triplets.pool_rare(np.array([[90, 45], [10, 5]]))
    assert (exact.tolist(), pooled) == ([[90, 45], [10, 5]], 0)
    # 14 and 4 are too rare (4.67 and 1.33 expected) and enough together (6).
    table, pooled = triplets.pool_rare(np.array([[3, 1], [88, 44], [9, 5], [0, 0]]))
    assert (table.tolist(), pooled) == ([[88, 44], [12, 6]], 2)
    # A rest of 4 is too rare even together, so the rarest common object joins it.
    table, pooled = triplets.pool_rare(np.array([[3, 1], [70, 35], [27, 14]]))
    assert (table.tolist(), pooled) == ([[70, 35], [30, 15]], 2)
    empty, pooled = triplets.pool_rare(np.zeros((0, 2), dtype=int))
    assert (len(empty), pooled) == (0, 0)


def test_cramers_v_covers_a_known_difference():
    """300 samples of 2 x 4 tables whose V is known; 95 % intervals."""
    rng = np.random.default_rng(2)
    a, b = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.3, 0.3, 0.2, 0.2])
    middle = (a + b) / 2
    # V of two equally large sets: sqrt(sum of squared deviations over expectations), with n counted over both.
    true = np.sqrt(((a - middle) ** 2 / middle).sum())
    found = []
    for _ in range(300):
        table = np.stack([rng.multinomial(400, a), rng.multinomial(400, b)])
        test = scipy_stats.chi2_contingency(table, correction=False)
        found.append(triplets.cramers_v(test.statistic, 3, 800, 2))
    value, low, high, _ = np.array(found).T
    assert np.mean((low <= true) & (true <= high)) == pytest.approx(0.95, abs=0.03)
    assert value.mean() == pytest.approx(true, abs=0.01)
    same = triplets.cramers_v(0.5, 3, 800, 2)
    assert (same.value, same.ci_low) == (0, 0) and same.ci_high > 0
    assert np.isnan(triplets.cramers_v(np.nan, 3, 800, 2).value)


def test_bias_scores_of_equal_sets(folder):
    counts = {"suit": (5, 10, 30), "dress": (9, 24, 0), "tree": (7, 20, 20), "rare": (20, 9, 9)}
    study = folder(object_counts=object_counts(counts))
    scores = triplets.bias_scores(study).set_index("object")
    # Dataset D has no threshold in the paper: 10. The neutral count of "rare" does not count.
    assert list(scores.index) == ["suit", "tree", "dress"]
    assert scores["bias_score"].tolist() == [0.75, 0.5, 0.0]
    low, high = proportion_confint([30, 20, 0], [40, 40, 24], method="wilson")
    assert scores["ci_low"].to_numpy() == pytest.approx(low, abs=1e-12)
    assert scores["ci_high"].to_numpy() == pytest.approx(high, abs=1e-12)
    p = [scipy_stats.binomtest(k, n).pvalue for k, n in ((30, 40), (20, 40), (0, 24))]
    assert scores["p"].to_numpy() == pytest.approx(p)
    assert scores["p_holm"].to_numpy() == pytest.approx(multipletests(p, method="holm")[1])
    assert scores["n"].tolist() == [40, 40, 24]
    assert set(triplets.bias_scores(study, 25)["object"]) == {"suit"}
    # 0.05: suit 3 x 0.0022 and dress 3 x 1.2e-7 are left.
    assert (
        "of 3 objects that are common enough (over 1 dataset, 104 occurrences), 1 lean to masculine and 1 to"
        in (words.bias_finding(study, scores.reset_index().assign(dependency_group="all")))
    )


def test_bias_scores_of_unequal_sets(folder):
    # Twice as many masculine as feminine images: 30 / (30 + 2 x 10) = 0.6, and 20 against 10 is balance.
    counts = {"suit": (0, 10, 30), "tree": (0, 10, 20)}
    study = folder(object_counts=object_counts(counts, n_images=(100, 100, 200)))
    scores = triplets.bias_scores(study).set_index("object")
    assert scores["bias_score"].to_dict() == pytest.approx({"suit": 0.6, "tree": 0.5})
    low, high = proportion_confint(30, 40, method="wilson")
    expected = [s / (s + 2 * (1 - s)) for s in (low, high)]
    assert scores.loc["suit", ["ci_low", "ci_high"]].tolist() == pytest.approx(expected)
    binomial = scipy_stats.binom(40, 2 / 3)
    assert scores.loc["suit", "p"] == pytest.approx(2 * min(binomial.cdf(30), binomial.sf(29)))
    assert scores.loc["tree", "p"] == 1


def test_bias_score_intervals_cover(folder):
    """400 objects with a true score of 0.7 seen 40 times, in one set as many images as in the other."""
    masculine = np.random.default_rng(4).binomial(40, 0.7, 400)
    counts = {f"o{i}": (0, 40 - m, m) for i, m in enumerate(masculine.tolist())}
    scores = triplets.bias_scores(folder(object_counts=object_counts(counts)))
    assert len(scores) == 400
    # Wilson at p = 0.7, n = 40: exact coverage by summing the binomial.
    low, high = proportion_confint(np.arange(41), 40, method="wilson")
    exact = scipy_stats.binom(40, 0.7).pmf(np.arange(41))[(low <= 0.7) & (high >= 0.7)].sum()
    covered = ((scores["ci_low"] <= 0.7) & (scores["ci_high"] >= 0.7)).mean()
    assert covered == pytest.approx(exact, abs=3 * np.sqrt(exact * (1 - exact) / 400))


def test_thresholds_of_the_paper_are_by_dataset(folder):
    rows = []
    for dataset in ("GCC", "COCO", "TextCaps", "Flickr30k", "Profession", "world"):
        rows += object_counts({f"o{k}": (0, k, 1) for k in (4, 5, 9, 10, 19, 20)}, dataset=dataset)
    kept = triplets.bias_scores(folder(object_counts=rows)).groupby("dataset")["object"].nunique()
    assert kept.to_dict() == {"GCC": 3, "COCO": 1, "TextCaps": 1, "Flickr30k": 1, "Profession": 5, "world": 3}


def test_bias_scores_without_counts_are_an_empty_table(printed, capsys):
    scores = triplets.bias_scores(printed)
    assert scores.empty and "bias_score" in scores
    words.show_bias_scores(printed, scores)
    assert "no counts of objects, so no bias score" in capsys.readouterr().out
    assert not (printed.output_dir / "records.json").exists()


def test_counts_are_checked(folder):
    rows = object_counts({"suit": (1, 2, 3), "hat": (1, 2, 3)})
    rows[0]["n_images"] = 7
    with pytest.raises(InputError, match=r"triplets_object_counts: n_images differs within \{'model': 'M'"):
        folder(object_counts=rows).table("triplets_chi_square")
    rows[0] |= {"n_images": 100, "prompt_gender": "female"}
    with pytest.raises(InputError, match="triplets_object_counts: prompt_gender is 'female'"):
        triplets.bias_scores(folder(object_counts=rows))


def test_a_source_without_objects_says_what_is_missing(folder):
    study = folder(similarity=similarity([0.5], [0.6]))
    with pytest.raises(InputError, match=r"holds no triplets_object_similarity.csv"):
        study.table("triplets_co_occurrence")
    with pytest.raises(InputError, match=r"holds no triplets_group_object_counts.csv"):
        study.table("triplets_group_chi_square")


# -- sections 6 and 7 ----------------------------------------------------------------------------------


def test_corrections_count_all_printed_tests(printed):
    table = printed.table("triplets_group_chi_square")
    many = table[table["sample"] == "triplets"]
    given = pd.concat([published.load(f"triplets_table_{k}") for k in (7, 8, 9)])
    keys = ["model", "dataset", "dependency_group", "pair"]
    both = many.merge(given, on=keys, suffixes=("", "_printed"))
    assert len(many) == len(both) == 300
    assert (both["p"] == both["p_printed"]).all() and (both["p_relation"] == both["p_relation_printed"]).all()
    # Holm by its definition: the k-th smallest p times (300 - k + 1), never below a smaller one.
    p = np.sort(given["p"].to_numpy())
    holm = np.minimum(1, np.maximum.accumulate(p * (300 - np.arange(300))))
    assert np.sort(both["p_holm"].to_numpy()) == pytest.approx(holm)
    bh = np.minimum.accumulate((p * 300 / np.arange(1, 301))[::-1])[::-1]
    assert np.sort(both["p_bh"].to_numpy()) == pytest.approx(np.minimum(1, bh))


def test_what_corrections_change(printed):
    table = printed.table("triplets_group_chi_square")
    many = table[table["sample"] == "triplets"]
    lost = many[(many["p"] < 0.05) & (many["p_holm"] >= 0.05)]
    # p = 0.002 stands behind 141 smaller ones: 0.002 x 159 = 0.318.
    assert lost[["model", "dataset", "dependency_group", "pair"]].to_numpy().tolist() == [
        ["SD v2.0", "GCC", "implicitly_independent", "neutral-masculine"]
    ]
    assert lost["p_holm"].tolist() == pytest.approx([0.318])
    finding = words.groups_finding(printed)
    assert (
        "142 have p < 0.05; 142 remain after Benjamini and Hochberg's correction and 141 after Holm's"
        in finding
    )
    assert "implicitly guided 60 of 60" in finding and "hidden 0 of 60" in finding
    assert "GCC, implicitly independent, neutral, masculine, SD v2.0 (p = 0.002, Holm 0.32)" in finding


def test_coco_is_named_and_large_p_values_are_counted(printed):
    given = pd.concat([published.load(f"triplets_table_{k}") for k in (7, 8, 9)])
    explicit = given[given["dependency_group"].str.startswith("explicitly")]
    rest = explicit[explicit["dataset"] != "COCO"]
    assert len(rest) == 96 and (rest["p"] < 0.1).sum() == 0
    finding = words.explicit_finding(printed)
    # Two COCO tests of explicitly independent objects have p = 0.234 and 0.056.
    assert finding.startswith("Objects that the prompt names differ between genders in COCO (22 of 24 tests)")
    assert "0 of 96 p-values lie below 0.1" in finding
    guided = rest[(rest["dataset"] == "TextCaps") & (rest["dependency_group"] == "explicitly_guided")]
    assert f"TextCaps, explicitly guided, are at least {guided['p'].min():g}" in finding


def test_tests_that_were_not_made_are_missing_with_a_reason(printed):
    table = printed.table("triplets_group_chi_square")
    one = table[table["sample"] == "seeds"].set_index(["dependency_group", "pair"])
    assert len(one) == 20
    assert np.isnan(one.loc[("hidden", "triplet"), "p"])
    assert one.loc[("hidden", "triplet"), "reason"] == "not tested: fewer than 5 objects"
    # Eight tests were: the bound times 8.
    assert one.loc[("implicitly_guided", "triplet"), "p_holm"] == pytest.approx(8e-5)


def test_group_counts_replace_printed_tests(folder):
    rows = [
        row
        for group in ("implicitly_guided", "hidden", "nouns")
        for row in object_counts({"suit": (50, 20, 90), "dress": (40, 80, 10)}, group=group)
    ]
    study = folder(group_object_counts=rows)
    table = study.table("triplets_group_chi_square")
    # All nouns of the prompts are no dependency group.
    assert table["dependency_group"].tolist() == ["implicitly_guided"] * 4 + ["hidden"] * 4
    test = scipy_stats.chi2_contingency([[50, 90], [40, 10]], correction=False)
    row = cell(table, dependency_group="hidden", pair="neutral-masculine")
    assert row["p"] == pytest.approx(test.pvalue)
    scores = triplets.bias_scores(study, by_group=True)
    assert cell(scores, dependency_group="hidden", object="suit")["bias_score"] == pytest.approx(90 / 110)
    rows[0]["dependency_group"] = "guided"
    with pytest.raises(InputError, match="dependency_group is 'guided'"):
        folder(group_object_counts=rows).table("triplets_group_chi_square")


def test_group_shares_take_triplets_as_the_sample(printed):
    row = cell(printed.table("triplets_group_share"), dataset="GCC", dependency_group="explicitly_guided")
    # 64.48 % of 418 triplets is 269.5; 6270 images.
    low, high = proportion_confint(round(0.6448 * 418), 418, method="wilson")
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([100 * low, 100 * high])
    assert (row["percent_images"], row["n"], row["n_triplets"]) == (64.48, 6270, 418)
    # The n beside an interval is the one that it rests on; table 4 has 811 triplets (12,165 images) of professions.
    said = words.share_finding(printed)
    assert "98.1 % (Profession, 96.8 to 98.8, n = 811 triplets)" in said
    assert "12,165" not in said


def test_missing_group_shares_have_a_reason(folder):
    rows = [
        {"model": "M", "dataset": "D", "dependency_group": g, "percent_images": v, "n": 30, "n_triplets": t}
        for g, v, t in (
            ("hidden", np.nan, 10),
            ("implicitly_guided", 50.0, np.nan),
            ("explicitly_guided", 50.0, 10),
        )
    ]
    table = folder(group_images=rows).table("triplets_group_share")
    assert table["reason"].tolist() == ["no value is given", "the number of triplets is missing", ""]
    assert table["ci_low"].isna().tolist() == [True, True, False]
    said = words.share_finding(folder(group_images=rows))
    assert "implicitly guided in 50.0 % (D, n = 30 images)" in said
    # Five of ten triplets.
    low, high = (100 * end for end in proportion_confint(5, 10, method="wilson"))
    assert f"explicitly guided in 50.0 % (D, {low:.1f} to {high:.1f}, n = 10 triplets)" in said


def test_groups_and_intersections_from_counts(folder):
    rows = [
        *object_counts({"cat": (1, 0, 0), "dog": (0, 2, 0), "bus": (0, 0, 0)}, group="explicitly_guided"),
        *object_counts({"cat": (1, 1, 1), "sky": (1, 1, 1), "sea": (0, 1, 0)}, group="implicitly_guided"),
        *object_counts({"cat": (3, 3, 3), "dog": (3, 3, 3), "joy": (3, 3, 3)}, group="nouns"),
    ]
    study = folder(group_object_counts=rows)
    objects = study.table("triplets_group_objects").set_index("dependency_group")
    # A bus was never found.
    assert objects["objects"].to_dict() == {"explicitly_guided": 2, "implicitly_guided": 3, "nouns": 3}
    assert objects["percent_of_nouns"].tolist() == pytest.approx([200 / 3, 100, 100])
    shared = study.table("triplets_intersection").set_index(["over", "dependency_group"])
    assert shared.loc[("explicitly_guided", "implicitly_guided"), "percent"] == 50
    assert shared.loc[("implicitly_guided", "explicitly_guided"), "percent"] == pytest.approx(100 / 3)
    assert shared.loc[("explicitly_guided", "nouns"), "shared"] == 2
    assert (shared["agrees"] == "yes").all() and (shared["evidence"] == "computed").all()


def test_printed_intersections_that_do_not_fit_are_found(printed):
    table = printed.table("triplets_intersection")
    assert len(table) == 180
    odd = table[table["agrees"] == "no"]
    # The three that the notes of the published table name; 78.82 % of 85 is 67, and 67 / 1059 is 6.33 %.
    assert odd[["dataset", "over", "dependency_group", "percent"]].to_numpy().tolist() == [
        ["GCC", "implicitly_guided", "explicitly_independent", 0.63],
        ["TextCaps", "hidden", "explicitly_guided", 9.5],
        ["TextCaps", "hidden", "implicitly_guided", 13.9],
    ]
    assert odd["shared"].tolist()[0] == 67 and odd["percent_implied"].tolist()[0] == pytest.approx(
        6700 / 1059
    )
    # What their mirrored cells imply is not known then.
    assert (table["agrees"] == "").sum() == 3


def test_detector_bounds(printed, folder):
    table = printed.table("triplets_detector").set_index("quantity")
    # 346 nouns, 227 found by both, 8 by the detector alone: people see at most 346 - 8.
    assert table["n"].to_dict() == {"found_by_both": 346, "detector_precision": 235, "detector_recall": 338}
    assert table["percent"].tolist() == pytest.approx([65.6069, 96.5957, 67.1598], abs=1e-4)
    low, high = proportion_confint(227, 235, method="wilson")
    assert table.loc["detector_precision", ["ci_low", "ci_high"]].tolist() == pytest.approx(
        [100 * low, 100 * high]
    )
    assert (
        np.isnan(table.loc["detector_recall", "ci_high"])
        and table.loc["detector_recall", "bound"] == "at least"
    )
    counts = {"model": "M", "n_images": 10, "nouns": 50, "both": 20, "model_only": 5, "people_only": 20}
    known = folder(detector_counts=[counts]).table("triplets_detector").set_index("quantity")
    assert known.loc["detector_recall", ["percent", "bound"]].tolist() == [50.0, ""]
    assert known.loc["detector_recall", "ci_high"] > 50


# -- figures -------------------------------------------------------------------------------------------


def marks(ax):
    """Return the x values of all marks of an axes."""
    return np.concatenate(
        [line.get_xdata() for line in ax.lines if line.get_marker() not in ("None", "")] or [[]]
    )


def test_gap_figure_draws_each_cell_and_marks_missing_ones(printed):
    gap = printed.table("triplets_disparity_gap")
    figure = figures.gaps(gap)
    panels = {ax.get_title(): ax for ax in figure.axes if ax.get_visible()}
    assert set(panels) == set(figures.METRIC_NAMES.values())
    for metric, name in figures.METRIC_NAMES.items():
        rows = gap[gap["metric"] == metric]
        repaired = rows[(rows["reading"] == "reconstructed") & rows["gap"].notna()]
        drawn = np.sort(marks(panels[name]))
        # Reconstructed values have a second, grey mark.
        expected = np.sort([*rows["gap"].dropna(), *repaired["gap"]])
        assert drawn == pytest.approx(expected)
        assert [t.get_text() for t in panels[name].texts] == ["?"] * int(rows["gap"].isna().sum())
    mpl.pyplot.close(figure)


def test_summary_figure_draws_means_with_intervals(printed):
    rows = words.shown_summary(printed)
    figure = figures.summary(rows, words.many_triplets(printed.table("triplets_disparity_gap")))
    ax = figure.axes[0]
    ends = np.concatenate([c.get_segments() for c in ax.collections])[:, :, 0]
    assert ends == pytest.approx(rows[["percent_ci_low", "percent_ci_high"]].to_numpy())
    assert ax.get_yticklabels()[0].get_text() == "Text embedding (prompt)"
    mpl.pyplot.close(figure)


def test_test_figure_writes_p_and_colours_by_correction(printed):
    rows = words.many_triplets(printed.table("triplets_group_chi_square"))
    figure = figures.tests(rows)
    for ax, (model, some) in zip(figure.axes, rows.groupby("model", sort=False), strict=True):
        assert ax.get_title() == model
        texts = [t.get_text() for t in ax.texts]
        assert texts.count("<1e-5") == (some["p_relation"] == "<").sum() and len(texts) == 100
        level = ax.images[0].get_array()
        assert (level == 3).sum() == (some["p_holm"] < 0.05).sum()
        assert (level == 0).sum() == (some["p"] >= 0.05).sum()
    # GCC, neutral and masculine, is the second row; implicitly independent the fourth column.
    assert figure.axes[1].images[0].get_array()[1, 3] == 2
    mpl.pyplot.close(figure)


def test_bias_figure_fills_what_survives_holm(folder):
    counts = {"suit": (5, 10, 60), "hat": (5, 20, 30), "dress": (9, 54, 2), "tree": (7, 20, 20)}
    scores = triplets.bias_scores(folder(object_counts=object_counts(counts)))
    figure = figures.bias_scores(scores)
    ax = figure.axes[0]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["suit (n = 70)", "hat (n = 50)", "dress (n = 56)"]
    filled = {
        round(float(x), 6)
        for line in ax.lines
        if line.get_marker() in ("o", "s", "D") and line.get_markerfacecolor() != "white"
        for x in line.get_xdata()
    }
    assert filled == {round(60 / 70, 6), round(2 / 56, 6)}
    mpl.pyplot.close(figure)


def test_group_figures_draw_shares_objects_and_frames(printed):
    share = printed.table("triplets_group_share")
    figure = figures.group_share(share)
    assert np.sort(marks(figure.axes[0])) == pytest.approx(np.sort(share["percent_images"]))
    objects = printed.table("triplets_group_objects")
    other = figures.group_objects(objects)
    assert np.sort(marks(other.axes[0])) == pytest.approx(np.sort(objects["objects"]))
    assert other.axes[0].get_xlim() == (10, 10_000)
    shared = figures.intersections(printed.table("triplets_intersection"))
    framed = {ax.get_title(): len(ax.patches) for ax in shared.axes if ax.get_title()}
    assert framed == {"GCC": 1, "COCO": 0, "TextCaps": 2, "Flickr30k": 0, "Profession": 0}
    for made in (figure, other, shared):
        mpl.pyplot.close(made)


def test_co_occurrence_figure_draws_both_similarities(printed):
    rows = words.many_triplets(printed.table("triplets_co_occurrence"))
    figure = figures.co_occurrence(rows)
    for ax, (_, some) in zip(figure.axes, rows.groupby("model", sort=False), strict=True):
        assert np.sort(marks(ax)) == pytest.approx(np.sort([*some["feminine"], *some["masculine"]]))
    mpl.pyplot.close(figure)


def test_captions_state_n_and_what_lines_mean(printed, folder):
    caption = words.caption_gaps(printed)
    assert "what rounding leaves open" in caption and "n = 1,000 to 51,219 pairs of images" in caption
    measured = words.caption_gaps(folder(similarity=similarity([0.5, 0.6], [0.6, 0.8])))
    assert "lines are 95 % intervals over triplets" in measured and "rounding" not in measured
    assert "n = 2 pairs" in measured
    assert "0.63 instead of 6.33" in words.caption_intersections(printed.table("triplets_intersection"))
    assert "p-values of 300 chi-square tests" in words.caption_tests(printed)
