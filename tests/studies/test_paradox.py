"""The paradox tables follow from the printed shares, and from shares that a user brings."""

import json

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from matplotlib.collections import PathCollection
from statsmodels.stats.proportion import confint_proportions_2indep

from biaslab import published
from biaslab.errors import InputError
from biaslab.figures import paradox as figures
from biaslab.studies import paradox_words as words
from biaslab.study import Study

mpl.use("Agg")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("paradox"), seed=1, bootstrap_replicates=400)


def folder_study(tmp_path, rows, **more):
    """Write ``rows`` of (occupation, source, prompt, percent, n) as measured shares and open a study on them."""
    columns = ["occupation", "source", "prompt", "percent_female", "n"]
    frame = pd.DataFrame(rows, columns=columns).assign(model=more.pop("model_name", "M"), approach="naive")
    (tmp_path / "measured").mkdir(exist_ok=True)
    frame.to_csv(tmp_path / "measured" / "paradox_percent_female.csv", index=False)
    return Study(
        tmp_path / "out", source=str(tmp_path / "measured"), seed=1, bootstrap_replicates=400, **more
    )


# Printed in Table 3 for SD 1.4; for SD 1.5 too, with prompts 1 and 3 printed 0.01 higher than they follow.
NAIVE = {"SD 1.4": [10.24, 17.57, 10.77, 11.68], "SD 1.5": [10.86, 16.36, 11.14, 9.91]}
# The signed change along the training lean over all 62 occupations, SD 1.4.
DIRECTIONAL = [1.05, 5.81, 0.58, -0.99]


def test_the_published_row_comes_out_and_the_alternative_beside_it(study):
    table = (
        study.table("paradox_amplification")
        .query("approach == 'naive'")
        .set_index(["model", "definition", "prompt"])
    )
    for model, values in NAIVE.items():
        for prompt, value in zip("1234", values, strict=True):
            plain = table.loc[(model, "published", prompt), "amplification_plain"]
            assert plain == pytest.approx(value, abs=0.006)
    for prompt, value in zip("1234", DIRECTIONAL, strict=True):
        row = table.loc[("SD 1.4", "directional", prompt)]
        assert row["amplification_plain"] == pytest.approx(value, abs=0.006)
        assert (row["n_occupations"], row["n_excluded"]) == (62, 0)
    comparison = study.table("paradox_printed_comparison")
    assert len(comparison) == 10 and comparison["difference"].abs().max() < 0.02


def test_counts_and_tests_by_a_plain_loop(study):
    printed = published.load("paradox_table_6")
    wide = printed.assign(cell=printed["source"] + printed["prompt"]).pivot(
        index="occupation", columns="cell", values="percent_female"
    )
    kept = []
    for _, row in wide.iterrows():
        t, g = row["trainingcaptions"], row["generated4"]
        if (t < 50 and g < 50) or (t > 50 and g > 50):
            kept.append(abs(g - 50) - abs(t - 50))
    table = study.table("paradox_amplification").set_index(["model", "approach", "definition", "prompt"])
    got = table.loc[("SD 1.4", "naive", "published", "4")]
    expected = scipy.stats.ttest_1samp(kept, 0)
    assert got["n_occupations"] == len(kept) and got["n_excluded"] == 62 - len(kept)
    plain = got["t_plain"], got["p_plain"]
    assert plain == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    assert got["ci_low"] < got["amplification"] < got["ci_high"]
    reasons = study.table("paradox_exclusions").query("model == 'SD 1.4' and prompt == '4'")
    assert reasons["n"].sum() == 62 - len(kept)


def test_printed_averages_have_no_interval_but_a_reason(study):
    table = study.table("paradox_amplification").query("approach != 'naive'")
    assert len(table) == 2 * 3 * 5 + 4
    assert table["ci_low"].isna().all() and table["n_occupations"].isna().all()
    plain = "No per-occupation shares are given, so there is no interval."
    # 1.11, 8.72, 3.06 and 4.05 average 4.235; 4.35 is printed.
    odd = table[table["reason"] != plain]
    assert odd["reason"].tolist() == [plain + " The printed prompts average 4.235."]
    assert odd["amplification"].tolist() == [4.35]


def test_the_prompt_column_of_the_arxiv_version_comes_out(study):
    ours = (
        study.table("paradox_prompt_variation")
        .query("model == 'SD 1.4'")
        .set_index("occupation")["sd_prompts"]
    )
    theirs = published.load("paradox_arxiv_table_5").set_index("occupation")["sd_prompts"]
    # Printed to 0.1 from shares before rounding.
    assert (ours - theirs).abs().max() < 0.11


def test_equal_shares_against_scipy(study):
    rows = study.table("paradox_prompt_variation").query("model == 'SD 1.4'").set_index("occupation")
    row = rows.loc["painter"]
    # Table 6: 36.4, 12.2, 17.6 and 3.6 % of 500.
    female = np.array([182, 61, 88, 18])
    expected = scipy.stats.chi2_contingency(np.stack([female, 500 - female]), correction=False)
    assert row["statistic"] == pytest.approx(expected.statistic)
    assert row["p"] == pytest.approx(expected.pvalue)
    pooled = female.sum() / 2000
    assert row["sd_noise"] == pytest.approx(100 * (3 / 4 * pooled * (1 - pooled) / 500) ** 0.5)
    assert (row["lowest"], row["highest"], row["lean_flips"]) == (3.6, 36.4, "no")
    # 9.4 to 65.1.
    assert rows.loc["attorney", "lean_flips"] == "beyond intervals"
    # Journalist: 49.9, 59.9, 68.8 and 64.0; the interval of the first reaches over 50.
    assert rows.loc["journalist", "lean_flips"] == "yes"


def test_a_users_shares_by_hand(tmp_path):
    study = folder_study(
        tmp_path,
        [
            ("a", "training", "captions", 30, 100),  # 30 -> 20: amplified by 10
            ("a", "generated", "captions", 20, 100),
            ("b", "training", "captions", 80, 100),  # 80 -> 40: flips, -20 by distance, -40 along the lean
            ("b", "generated", "captions", 40, 100),
            ("c", "training", "captions", 50, 100),  # leans nowhere: +40 by distance, none along a lean
            ("c", "generated", "captions", 90, 100),
            ("d", "training", "captions", 60, 100),  # not generated
        ],
    )
    table = study.table("paradox_amplification").set_index("definition")
    plain = {"published": 10, "no_exclusion": 10, "directional": -15}
    assert table["amplification_plain"].to_dict() == plain
    assert table["n_occupations"].to_dict() == {"published": 1, "no_exclusion": 3, "directional": 2}
    assert table["n_excluded"].to_dict() == {"published": 3, "no_exclusion": 1, "directional": 2}
    reasons = study.table("paradox_exclusions").set_index("reason")
    assert reasons["occupations"].to_dict() == {
        "missing": "d",
        "training_at_50": "c",
        "generated_at_50": "",
        "opposite_lean": "b",
    }


def test_the_signed_changes_interval_is_newcombes(tmp_path):
    study = folder_study(
        tmp_path,
        [
            ("male lean", "training", "captions", 30, 200),
            ("male lean", "generated", "captions", 20, 100),
            ("female lean", "training", "captions", 70, 200),
            ("female lean", "generated", "captions", 90, 100),
        ],
    )
    table = study.table("paradox_occupation_amplification").set_index("occupation")
    low, high = confint_proportions_2indep(20, 100, 60, 200, method="newcomb")
    row = table.loc["male lean"]
    # Toward male is along the lean, so the change of -10 counts +10 and the limits swap.
    assert (row["directional"], row["ci_low"], row["ci_high"]) == (
        10,
        pytest.approx(-100 * high),
        pytest.approx(-100 * low),
    )
    low, high = confint_proportions_2indep(90, 100, 140, 200, method="newcomb")
    row = table.loc["female lean"]
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(100 * low), pytest.approx(100 * high))


def test_bias_amp_by_hand(tmp_path):
    study = folder_study(
        tmp_path,
        [
            ("a", "training", "captions", 20, 100),
            ("a", "generated", "captions", 10, 100),
            ("b", "training", "captions", 60, 100),
            ("b", "generated", "captions", 75, 100),
        ],
    )
    got = study.table("paradox_bias_amp").set_index("direction")["bias_amp_plain"]
    # T->A: overall 40 % female; a (20) is associated with male, b (60) with female. P(female|a) -.10 and
    # P(male|a) +.10, P(female|b) +.15, P(male|b) -.15: signed along associations (.10 + .10 + .15 + .15) / 4.
    assert got["T->A"] == pytest.approx(12.5)
    # A->T: P(a|female) 20/80 -> 10/85, P(a|male) 80/120 -> 90/115; each moves along the association, twice.
    female, male = 20 / 80 - 10 / 85, 90 / 115 - 80 / 120
    assert got["A->T"] == pytest.approx(100 * (2 * female + 2 * male) / 4)


def test_too_little_for_an_interval_says_so(tmp_path):
    study = folder_study(
        tmp_path,
        [("a", "training", "captions", 30, 100), ("a", "generated", "captions", 20, 100)],
    )
    table = study.table("paradox_amplification")
    assert table["amplification"].tolist() == [10, 10, 10] and table["ci_low"].isna().all()
    assert table[["t", "p", "noise"]].isna().all(axis=None)
    assert set(table["reason"]) == {"Too few occupations or images for an interval; image noise is left in."}


def test_one_model_only(study, tmp_path):
    one = Study(tmp_path, model="SD 1.5", seed=1, bootstrap_replicates=400)
    assert set(one.table("paradox_amplification")["model"]) == {"SD 1.5"}


def test_a_run_reads_what_it_measured_again(study, tmp_path):
    ours = study.table("paradox_amplification")
    again = Study(tmp_path, source=str(study.output_dir), seed=1, bootstrap_replicates=400)
    pd.testing.assert_frame_equal(again.table("paradox_amplification"), ours)


def test_the_interval_is_of_the_number_beside_it(study):
    # Rounding printed shares to whole images must not move what is resampled away from what is reported.
    from biaslab.studies import paradox

    for group in paradox.groups(study):
        counts, n = group.counts()
        training, generated = group.split(counts / n)
        for definition in ("published", "no_exclusion", "directional"):
            exact = paradox.expected(group, group.training, group.generated, definition)
            np.testing.assert_allclose(
                paradox.expected(group, training, generated, definition), exact, atol=0.05
            )


def test_the_mean_of_prompts_has_a_test_only_where_it_is_a_mean_over_occupations(study):
    table = study.table("paradox_amplification").query("approach == 'naive' and prompt == 'mean'")
    table = table.set_index(["model", "definition"])
    rule = table.loc[("SD 1.4", "published")]
    assert np.isnan(rule["t_plain"]) and rule["reason"].startswith(
        "No plain t-test: each prompt counts other occupations"
    )
    signed = table.loc[("SD 1.4", "directional")]
    wide = published.load("paradox_table_6").pivot(
        index="occupation", columns="prompt", values="percent_female"
    )
    change = [
        np.mean([np.sign(row["captions"] - 50) * (row[p] - row["captions"]) for p in "1234"])
        for _, row in wide.iterrows()
    ]
    assert signed["amplification_plain"] == pytest.approx(np.mean(change))
    assert signed["t_plain"] == pytest.approx(scipy.stats.ttest_1samp(change, 0).statistic)


def test_shuffled_shares_by_a_plain_loop(study):
    table = study.table("paradox_shuffled").set_index(["model", "definition", "prompt"])
    # Averages of distances do not see a shuffle.
    row = table.loc[("SD 1.4", "no_exclusion", "1")]
    assert row["shuffled"] == pytest.approx(row["amplification_plain"])
    wide = published.load("paradox_table_6").pivot(
        index="occupation", columns="prompt", values="percent_female"
    )
    t, g = wide["captions"].to_numpy(), wide["1"].to_numpy()
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(2000):
        other = rng.permutation(g)
        kept = (other - 50) * (t - 50) > 0
        drawn.append((np.abs(other - 50) - np.abs(t - 50))[kept].mean())
    row = table.loc[("SD 1.4", "published", "1")]
    # 400 shuffles: the mean is good to about sd / 20.
    assert row["shuffled"] == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 20)


def test_shares_that_no_500_images_give(study):
    # Printed to 0.1, a share of 500 is a multiple of 0.2: 81 of 248 (Table 6) and 68 of 248 (Table 7) are not.
    said = words.impossible_shares(study.table("paradox_percent_female"))
    for part in (
        "SD 1.4, training images: 0 of 62",
        "SD 1.4, generated images: 81 of 248",
        "SD 1.5, generated images: 68 of 248",
    ):
        assert part in said


def _rows(value, low, high, **more):
    row = {
        "model": "M",
        "approach": "naive",
        "prompt": "mean",
        "n_occupations": 40,
        "n_excluded": 22,
        "amplification": value,
        "ci_low": low,
        "ci_high": high,
    }
    prompts = pd.DataFrame(
        [row | {"prompt": p, "n_occupations": n, "n_excluded": 62 - n} for p, n in (("1", 38), ("2", 40))]
    )
    frame = pd.concat([pd.DataFrame([row]), prompts], ignore_index=True)
    return pd.concat(
        [frame.assign(definition=d) for d in ("published", "no_exclusion", "directional")]
    ).assign(**more)


@pytest.mark.parametrize(
    ("limits", "said", "end"),
    [
        ((3.0, 1.0, 5.0), "bias is amplified by 3.00 points (1.00 to 5.00)", "excludes 0."),
        (
            (-3.0, -5.0, -1.0),
            "bias changes by -3.00 points (-5.00 to -1.00), so it is de-amplified,",
            "excludes 0.",
        ),
        (
            (-3.0, -5.0, 1.0),
            "bias changes by -3.00 points (-5.00 to 1.00), which is not told apart from 0,",
            "includes 0.",
        ),
    ],
)
def test_the_finding_says_what_the_numbers_say(limits, said, end):
    (finding,) = words.headlines_baseline(_rows(*limits), 0.9)
    assert said in finding and f"an interval that {end}" in finding
    assert "mean of 2 prompts, 38 to 40 of 62 occupations each" in finding
    assert finding.endswith("In brackets: 90 % intervals.")


def test_the_scatter_draws_every_occupation_where_it_lies(study):
    rows = study.table("paradox_occupation_amplification").query("model == 'SD 1.4'")
    figure = figures.training_against_generated(rows, label_most=3)
    assert [ax.get_title(loc=mpl.rcParams["axes.titlelocation"]) for ax in figure.axes] == [
        f"Prompt #{i}" for i in "1234"
    ]
    points = [c for c in figure.axes[1].collections if isinstance(c, PathCollection)]
    drawn = np.vstack([c.get_offsets() for c in points])
    expected = rows.query("prompt == '2'")[["percent_training", "percent_generated"]].to_numpy()
    assert sorted(map(tuple, drawn)) == sorted(map(tuple, expected))
    # Left out are drawn hollow: the second collection.
    out = points[1].get_offsets()
    assert len(out) == (rows.query("prompt == '2'")["excluded"] != "").sum()


def test_intervals_are_drawn_where_there_are_any(study):
    table = study.table("paradox_amplification").query("definition == 'published'")
    figure = figures.by_approach(table)
    first = figure.axes[0]
    drawn = sum(len(c.get_segments()) for c in first.collections)
    # SD 1.4: four prompts and their mean of the naive approach have intervals; nothing else has.
    assert drawn == 5
    assert first.get_yticklabels()[0].get_text() == "All captions (naive)"


# -- one estimate, its interval and its test; captions as prompts --------------------------------------------


def caption_shares(pairs, model="M"):
    """Return the shares that pairs (occupation, training, n_female, n_judged, n_captions) of an approach add up to."""
    rows = []
    for (approach, occupation), some in pairs.groupby(["approach", "occupation"]):
        known = some[some["training"] != "none"]
        women = (known["n_captions"] * (known["training"] == "female")).sum()
        made = (some["n_female"] * some["n_captions"]).sum()
        sides = {
            "training": (women, known["n_captions"].sum()),
            "generated": (made, (some["n_judged"] * some["n_captions"]).sum()),
        }
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
    made = np.where(rng.random(own.shape) < same, own, ~own)
    frame = pd.DataFrame(
        {
            "model": "M",
            "approach": approach,
            "occupation": np.repeat([f"o{i:02}" for i in range(occupations)], n),
            "training": np.where(own, "female", "male").ravel(),
            "n_female": made.ravel().astype(int),
            "n_judged": 1,
        }
    )
    frame["generated"] = frame["n_female"].astype(str) + " of 1"
    return frame.groupby(list(frame), as_index=False).size().rename(columns={"size": "n_captions"})


def pairs_study(tmp_path, shares, pairs=None):
    folder = tmp_path / "measured"
    folder.mkdir()
    shares.to_csv(folder / "paradox_percent_female.csv", index=False)
    if pairs is not None:
        pairs.to_csv(folder / "paradox_caption_pairs.csv", index=False)
    return Study(tmp_path / "out", source=str(folder), seed=1, bootstrap_replicates=1000)


def contradictions(table, value, alpha=0.05):
    """Return rows whose value lies outside their interval, or whose p says otherwise than their interval."""
    known = table[table["ci_low"].notna()]
    outside = (known[value] < known["ci_low"]) | (known[value] > known["ci_high"])
    if "p" in known:
        excludes = (known["ci_low"] > 0) | (known["ci_high"] < 0)
        outside |= excludes != (known["p"] < alpha)
    return known[outside]


def test_no_row_contradicts_itself_in_the_published_numbers(study):
    table = study.table("paradox_amplification")
    assert len(contradictions(table, "amplification")) == 0
    assert len(contradictions(study.table("paradox_bias_amp"), "bias_amp")) == 0
    known = table[table["ci_low"].notna()]
    assert known[["t", "p", "noise"]].notna().all(axis=None)
    np.testing.assert_allclose(known["amplification"], known["amplification_plain"] - known["noise"])


@pytest.mark.parametrize("seed", range(4))
def test_no_row_contradicts_itself_with_few_images(tmp_path, seed):
    rng = np.random.default_rng(seed)
    rows = []
    for i, p in enumerate(rng.beta(0.7, 0.9, 30)):
        cells = [
            ("training", "captions", 20),
            *(("generated", prompt, rng.integers(3, 9)) for prompt in "1234"),
        ]
        for source, prompt, n in cells:
            rows.append((f"o{i:02}", source, prompt, 100 * rng.binomial(n, p) / n, n))
    study = folder_study(tmp_path, rows)
    table = study.table("paradox_amplification")
    assert table["ci_low"].notna().all() and len(contradictions(table, "amplification")) == 0
    # The noise of so few images is seen: as it is, the measure of some row lies outside.
    assert (table["noise"].abs() > 1).any()
    assert len(contradictions(study.table("paradox_bias_amp"), "bias_amp")) == 0


def test_captions_keep_their_pairs(tmp_path):
    # True change along the lean: -0.022 |1 - 2p|, about -1.2 points; images drawn apart would make it positive.
    pairs = caption_pairs("caption_prompts", 8, seed=5)
    table = pairs_study(tmp_path, caption_shares(pairs), pairs).table("paradox_amplification")
    assert table["n_images"].tolist() == [8, 8, 8] and set(table["reason"]) == {""}
    assert len(contradictions(table, "amplification")) == 0
    row = table.set_index("definition").loc["directional"]
    assert row["ci_low"] < -1.2 < row["ci_high"] and row["ci_high"] - row["ci_low"] < 5
    assert abs(row["noise"]) < 1.5


def test_captions_without_pairs_have_no_interval(tmp_path):
    pairs = caption_pairs("caption_prompts", 8, seed=5)
    study = pairs_study(tmp_path, caption_shares(pairs))
    table = study.table("paradox_amplification")
    assert table["ci_low"].isna().all() and table["p"].isna().all()
    assert table["reason"].str.contains("a table paradox_caption_pairs beside the shares gives it").all()
    pd.testing.assert_series_equal(table["amplification"], table["amplification_plain"], check_names=False)
    assert study.table("paradox_bias_amp").empty
    assert study.table("paradox_occupation_amplification")["ci_low"].isna().all()


def test_few_captions_say_so_and_make_no_main_finding(tmp_path, capsys):
    from biaslab.studies import paradox
    from biaslab.studies import paradox_pipeline_words as more

    pairs = pd.concat(
        [
            caption_pairs("caption_prompts", paradox.LEAST_IMAGES, seed=1),
            caption_pairs("caption_prompts_no_indicators", 3, seed=2),
        ]
    )
    study = pairs_study(tmp_path, caption_shares(pairs), pairs)
    table = study.table("paradox_amplification").set_index(["approach", "definition"])
    few = table.loc[("caption_prompts_no_indicators", "published")]
    assert few["reason"] == "Rests on 3 images a share; below 6 the interval is too narrow."
    assert np.isfinite(few["ci_low"]) and table.loc[("caption_prompts", "published"), "reason"] == ""
    approaches = ["caption_prompts", "caption_prompts_no_indicators"]
    more.find_captions_as_prompts(study, table.reset_index(), approaches, main=True)
    found = json.loads((tmp_path / "out" / "records.json").read_text(encoding="utf-8"))["headlines"]
    assert [record["main"] for record in found] == [True, False]
    assert "With 3 images a share, fewer than 6" in found[1]["text"]


def test_pairs_of_other_images_than_the_shares_are_refused(tmp_path):
    pairs = caption_pairs("caption_prompts", 8, seed=5)
    shares = caption_shares(pairs)
    shares.loc[1, "n"] = 7.0
    shares.loc[1, "percent_female"] = 0.0
    with pytest.raises(InputError) as error:
        pairs_study(tmp_path, shares, pairs).table("paradox_amplification")
    assert "paradox_caption_pairs and paradox_percent_female differ for 'o00' (M, caption_prompts)" in str(
        error.value
    )


def test_changes_are_differences_of_the_two_estimates(tmp_path):
    pairs = pd.concat([caption_pairs("caption_prompts", 8, seed=1), caption_pairs("paraphrased", 8, seed=2)])
    naive = caption_shares(caption_pairs("naive", 20, seed=1))
    naive.loc[naive["source"] == "generated", "prompt"] = "1"
    study = pairs_study(tmp_path, pd.concat([naive, caption_shares(pairs)]), pairs)
    change = study.table("paradox_approach_change")
    known = study.table("paradox_amplification").set_index(["approach", "definition"])["amplification"]
    for row in change.itertuples():
        assert row.amplification == known[row.approach, row.definition]
        assert row.reference_amplification == known[row.reference, row.definition]
        assert row.change == row.amplification - row.reference_amplification
        assert row.ci_low < row.change < row.ci_high
    assert len(change) == 9


def test_changes_from_naive_are_on_one_scale(study):
    table = study.table("paradox_reduction").set_index(["model", "approach"])
    # Only printed for the other approaches: both values as the paper defines them.
    row = table.loc[("SD 1.4", "nearest_no_indicators")]
    assert row["scale"] == "plain" and row["naive"] == pytest.approx(12.57, abs=0.02)
    assert row["change_percent"] == pytest.approx(100 * (4.35 - 12.57) / 12.57, abs=0.2)
    amplification = study.table("paradox_amplification").query("definition == 'published'")
    first, second = words.headlines_approaches(amplification, 0.95)[:2]
    assert "as they are goes from 12.56 points with all captions to 4.35 (no interval)" in first
    assert "(-65 %)" in first and "without image noise it is" in second
