"""Shares by group, their distance from a benchmark, models on the same prompts: by hand and by SciPy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from biaslab import stats
from biaslab.analyses import custom
from biaslab.judges import photographs
from biaslab.judges.judge_labels import PIXELS, TONE_OF_PHOTOGRAPHS
from biaslab.report import image_pages
from biaslab.schema import tables

TONE_ERROR = photographs.describe_error("skin_tone", PIXELS)

# By model, group and prompt: people judged female, male, uncertain, and without a face.
CELLS = {
    ("A", "chef", "a chef"): (2, 6, 1, 1),
    ("A", "chef", "a cook"): (0, 4, 0, 0),
    ("A", "nurse", "a nurse"): (9, 1, 0, 0),
    ("B", "chef", "a chef"): (6, 2, 2, 0),
    ("B", "nurse", "a nurse"): (8, 2, 0, 2),
    ("B", "pilot", "a pilot"): (1, 3, 0, 0),
}
CLASSIFICATIONS = (("judged", "female"), ("judged", "male"), ("uncertain", "unsure"), ("no_face", ""))


def people_of(cells):
    rows = []
    for (model, group, prompt), counts in cells.items():
        for (outcome, gender), n in zip(CLASSIFICATIONS, counts, strict=True):
            rows += [[model, group, prompt, outcome, gender]] * n
    return pd.DataFrame(rows, columns=["model", "group", "prompt", "status", "gender"])


@pytest.fixture
def people():
    frame = people_of(CELLS)
    tones = np.where(frame["status"] == "no_face", np.nan, np.where(frame["group"] == "nurse", 2.0, 8.0))
    ids = [f"{k}.png" for k in range(len(frame))]
    return frame.assign(skin_tone=tones, tone_judge="tone by pixels", image_id=ids, position=1)


def test_shares_count_unclear_people_separately(people):
    table = custom.shares(people).set_index(["model", "group", "answer"]).sort_index()
    # A has 12 judged chefs, 2 female and 10 male; 1 of 13 visible is unclear. Its nurses are 9 and 1 of 10.
    assert table.loc["A", "chef"]["percent"].tolist() == pytest.approx([100 * 2 / 12, 100 * 10 / 12, 100 / 13])
    counts = ["n", "n_images", "n_prompts", "n_groups"]
    assert table.loc[("A", "chef", "female"), counts].tolist() == [12, 12, 2, 1]
    assert table.loc[("A", "chef", "unclear"), "n"] == 13
    assert table.loc[("A", "all", "female"), "percent"] == pytest.approx(100 * (2 / 12 + 9 / 10) / 2)
    # One person per image: Wilson's interval.
    known = scipy_stats.binomtest(2, 12).proportion_ci(method="wilson")
    assert table.loc[("A", "chef", "female"), ["ci_low", "ci_high"]].tolist() == pytest.approx([100 * k for k in known])
    # 2 of 14 requested chefs are judged neither female nor male: 2 to 4 of 14 women.
    bounds = ["percent_lower_bound", "percent_upper_bound"]
    assert table.loc[("A", "chef", "female"), bounds].tolist() == pytest.approx([100 * 2 / 14, 100 * 4 / 14])
    assert table.loc[("A", "all", "female"), bounds].tolist() == pytest.approx([50 * (k / 14 + 0.9) for k in (2, 4)])
    assert table.loc[("A", "chef", "unclear"), bounds].isna().all()


def test_shares_of_all_unclear_have_reason():
    people = people_of({("A", "nurse", "a nurse"): (0, 0, 5, 0)}).assign(position=1)
    table = custom.shares(people.assign(image_id=[f"{k}" for k in range(5)])).set_index(["group", "answer"])
    for group in ("all", "nurse"):
        assert np.isnan(table.loc[(group, "female"), "percent"])
        assert table.loc[(group, "female"), "reason"] == "no person is judged female or male"
    assert table.loc[("nurse", "unclear"), "percent"] == 100
    named = {"benchmark_name": "an even split", "others": "uncertain 5", "advice": "Lower the threshold."}
    (result,) = custom.answers.shares.findings(table.reset_index().assign(**named))
    assert result.supported_answer == "No person was judged female or male: uncertain 5." and not result.numbers
    assert result.card_text == "Lower the threshold."


def couples(counts, group="g", persons=2, model="A"):
    """Return people of images of ``persons``; ``counts`` is the number of images by number of women."""
    rows = [
        [model, group, group, f"{group}-{women}-{k}", place + 1, "judged", "female" if place < women else "male"]
        for women, n in counts.items()
        for k in range(n)
        for place in range(persons)
    ]
    return pd.DataFrame(rows, columns=["model", "group", "prompt", "image_id", "position", "status", "gender"])


def half(group="g"):
    return pd.DataFrame({"group": [group], "percent_female": 50.0, "n": np.nan, "name": "even"})


def test_shares_of_identical_people_have_interval_of_images():
    # 20 images of two women, 5 of two men: as precise as 20 of 25 images.
    table = custom.shares(couples({2: 20, 0: 5})).set_index(["group", "answer"])
    known = scipy_stats.binomtest(20, 25).proportion_ci(method="wilson")
    row = table.loc[("g", "female")]
    assert row[["percent", "n", "n_images"]].tolist() == [80, 50, 25]
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([100 * k for k in known])


def test_distance_test_flips_signs_per_image():
    # Women minus men: 2 in six images, 0 in four. Of 2**6 patterns two are as far from 0.
    row = custom.distance(couples({2: 6, 1: 4}), half()).set_index("group").loc["g"]
    assert row["p"] == pytest.approx(2 / 2**6)
    assert row[["n", "n_images"]].tolist() == [20, 10]


def test_groups_answer_of_three_images_is_inconclusive():
    result = custom.distance(couples({2: 3}), half())
    (finding,) = custom.answers.groups.findings(result[result["group"] != "all"].assign(benchmark_name="even"))
    assert finding.n == 3 and not finding.is_significant and finding.supported_answer == "Inconclusive (only 3 images)."


def test_groups_answer_names_group_without_judged_people():
    unseen = couples({0: 8}, "nurse").assign(status="no_face", gender="")
    people = pd.concat([couples({2: 8}, "pilot"), unseen], ignore_index=True)
    benchmark = pd.concat([half("pilot"), half("nurse")], ignore_index=True)
    result = custom.distance(people, benchmark)
    (finding,) = custom.answers.groups.findings(result[result["group"] != "all"].assign(benchmark_name="even"))
    assert (
        finding.supported_answer == "It is significantly higher in 1 of 2 groups and lower in 0 (Holm's correction)."
        and finding.is_significant
    )
    assert finding.details[0] == "No share or no benchmark for 1 of 2 groups: nurse."
    assert "As judged" in finding.details[1]
    rows = result.set_index("group")
    assert rows.loc["nurse", "reason"] == "no person is judged female or male" and rows.loc["nurse", "n"] == 0
    assert rows.loc["all", ["n_groups", "n_groups_prompted"]].tolist() == [1, 2]


def test_distance_group_without_benchmark_has_reason():
    people = pd.concat([couples({2: 8}, "pilot"), couples({0: 8}, "nurse")], ignore_index=True)
    row = custom.distance(people, half("pilot")).set_index("group").loc["nurse"]
    assert row["percent_female"] == 0 and np.isnan(row["difference"])
    assert row["reason"] == "the benchmark has no share for this group"


def test_shares_unequal_missing_people_note_bounds():
    judged = {"a": couples({1: 40}, "a", persons=1), "b": couples({1: 20, 0: 20}, "b", persons=1)}
    judged["b"].loc[:15, ["status", "gender"]] = ["no_face", ""]
    table = custom.shares(pd.concat(judged.values(), ignore_index=True)).set_index(["group", "answer"])
    row = table.loc[("all", "female")]
    # All of a and 24 of b's 40 are judged; Fisher's p of 40 of 40 against 24 of 40 is below 0.00001.
    assert row["p_judged"] < 0.002
    # Of b 4 to 20 of 40 are women: the mean is 55 to 75%.
    assert row["note"].endswith(
        "between groups (60 to 100%). If all others were male, the mean would be 55.0%; if all were female, 75.0%."
    )
    alike = custom.shares(pd.concat([couples({1: 9, 0: 9}, g, persons=1) for g in "ab"])).set_index(["group", "answer"])
    assert alike.loc[("all", "female"), "note"] == ""


def test_distance_from_even_split_by_hand_and_scipy(people):
    even_split = pd.DataFrame(
        {"group": ["chef", "nurse", "pilot"], "percent_female": 50.0, "n": np.nan, "name": "even"}
    )
    table = custom.distance(people, even_split).set_index(["model", "group"])
    row = table.loc[("A", "chef")]
    # 2 of 12, without the one that is unclear.
    assert row["percent_female"] == pytest.approx(100 / 6) and row["n"] == 12
    assert row["difference"] == pytest.approx(100 / 6 - 50) and row["distance"] == pytest.approx(50 - 100 / 6)
    p = [scipy_stats.binomtest(k, n).pvalue for k, n in ((2, 12), (9, 10))]
    assert table.loc[("A", "chef"), "p"] == pytest.approx(p[0])
    # Holm: the smaller twice, the larger at least that.
    holm = table.loc["A"]["p_holm"]
    assert holm[["chef", "nurse"]].tolist() == pytest.approx([max(2 * min(p), p[0]), 2 * min(p)])
    # The null expectation of an unbiased model with 12 images.
    chance = scipy_stats.binom.pmf(np.arange(13), 12, 0.5) @ np.abs(np.arange(13) / 12 - 0.5)
    assert row["null_mean"] == pytest.approx(100 * chance)
    whole = table.loc[("A", "all")]
    assert whole["percent_female"] == pytest.approx(100 * (1 / 6 + 9 / 10) / 2)
    # Of two groups no verdict on the mean distance is possible, and of one no corrected distance.
    assert whole["n_groups"] == 2 and np.isnan(whole["distance_corrected_ci_low"]) and np.isnan(whole["distance_p"])
    assert whole["distance"] == pytest.approx((100 / 3 + 40) / 2) and np.isnan(row["distance_corrected"])


def test_distance_from_sampled_benchmark_widens_interval(people):
    table = pd.DataFrame({"group": ["chef"], "percent_female": [25.0], "n": [40.0], "name": "survey"})
    known = custom.distance(people, table.assign(n=np.nan)).set_index(["model", "group"]).loc[("A", "chef")]
    sampled = custom.distance(people, table).set_index(["model", "group"]).loc[("A", "chef")]
    # 2 of 12 compared with 10 of 40.
    assert sampled["p"] == pytest.approx(scipy_stats.fisher_exact([[2, 10], [10, 30]]).pvalue)
    assert sampled["difference"] == known["difference"] == pytest.approx(100 / 6 - 25)
    assert sampled["ci_high"] - sampled["ci_low"] > known["ci_high"] - known["ci_low"]


def test_differences_use_shared_prompts_only(people):
    table = custom.differences(people, seed=3).set_index("group")
    assert table["model"].eq("B").all() and table["other"].eq("A").all()
    # a chef: 6 of 8 minus 2 of 8; a nurse: 8 of 10 minus 9 of 10. Only one model has cooks and pilots.
    assert table["difference"].to_dict() == pytest.approx({"all": 20, "chef": 50, "nurse": -10})
    assert table.loc["chef", ["n_prompts", "n", "n_other"]].tolist() == [1, 8, 8]
    # One prompt: the test is Fisher's.
    p = scipy_stats.fisher_exact([[6, 2], [2, 6]]).pvalue
    assert table.loc["chef", "p"] == pytest.approx(p, abs=0.015)
    assert table.loc["chef", "p_holm"] == pytest.approx(2 * table.loc["chef", "p"])
    assert custom.differences(people[people["model"] == "A"]).empty


def test_differences_weigh_prompts_by_both_sizes():
    counts = {("A", "x"): (1, 3), ("B", "x"): (9, 3), ("A", "y"): (5, 5), ("B", "y"): (5, 5)}
    people = people_of({(model, "g", prompt): (*n, 0, 0) for (model, prompt), n in counts.items()})
    people = people.assign(image_id=[f"{k}" for k in range(len(people))])
    result = custom.differences(people).set_index("group").loc["g", "difference"]
    # 4 * 12 / 16 = 3 of prompt x, where it is 0.75 - 0.25; 10 * 10 / 20 = 5 of y, where it is 0.
    assert result == pytest.approx(100 * 3 * 0.5 / 8)


def test_outcomes_add_up_to_100_percent(people):
    table = custom.outcomes(people).set_index(["model", "group", "status"])
    assert table.loc[("A", "all", "judged"), ["n", "n_people"]].tolist() == [22, 24]
    assert table.loc[("A", "chef", "no_face"), "percent"] == pytest.approx(100 / 14)
    assert table.groupby(level=["model", "group"])["percent"].sum().tolist() == pytest.approx([100] * 7)


def test_tones_count_unread_people(people):
    table = custom.tones(people).set_index(["model", "group"])
    # 13 chefs of 8 and 10 nurses of 2.
    assert table.loc[("A", "all"), "mean"] == pytest.approx((13 * 8 + 10 * 2) / 23)
    assert table.loc[("A", "chef"), ["n", "n_people"]].tolist() == [13, 14]
    assert table.loc[("B", "nurse"), "percent_unread"] == pytest.approx(100 * 2 / 12)


def test_tones_of_photographs_state_judge_error(people):
    photographs = people.assign(tone_judge=TONE_OF_PHOTOGRAPHS)
    result = {judge: custom.tones(rows) for judge, rows in (("drawings", people), ("photographs", photographs))}
    assert set(result["drawings"]["tone_error"]) == {""}
    assert set(result["photographs"]["tone_error"]) == {TONE_ERROR}
    answer = custom.answers.tones
    # It is no main answer, and 0 is no tone.
    assert not answer.main and not answer.card
    for judge, rows in result.items():
        for finding in answer.findings(rows):
            assert finding.reference is None
            assert (TONE_ERROR in finding.details) == (judge == "photographs")


def test_tones_without_readings_give_no_answer(people):
    rows = custom.tones(people.assign(skin_tone=np.nan, tone_judge="none"))
    assert rows["n"].eq(0).all() and not custom.answers.tones.findings(rows)


def test_differences_permute_whole_images():
    # Three images of two women against three of two men: 20 ways to deal them out, 2 of them as far apart.
    people = pd.concat([couples({0: 3}, model="A"), couples({2: 3}, model="B")], ignore_index=True)
    row = custom.differences(people, seed=1, replicates=4000).set_index("group").loc["g"]
    assert row["p"] == pytest.approx(2 / 20, abs=0.015)
    assert row[["n", "n_images", "n_other", "n_images_other"]].tolist() == [6, 3, 6, 3]


def test_tones_interval_is_clustered_by_image():
    people = couples({2: 4, 0: 4}).assign(tone_judge="t")
    tone = people["image_id"].map({name: float(k + 1) for k, name in enumerate(dict.fromkeys(people["image_id"]))})
    row = custom.tones(people.assign(skin_tone=tone)).set_index("group").loc["g"]
    # Eight images of the tones 1 to 8, whose two people are alike: Student's interval of eight values.
    known = scipy_stats.t.interval(0.95, 7, 4.5, scipy_stats.sem(np.arange(1, 9)))
    assert row[["mean", "n", "n_images"]].tolist() == [4.5, 16, 8]
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([max(1, known[0]), min(10, known[1])])


def test_outcomes_interval_is_clustered_by_image():
    people = couples({2: 20, 0: 5})
    people["status"] = np.where(people["gender"] == "female", "judged", "no_face")
    row = custom.outcomes(people).set_index(["group", "status"]).loc[("all", "judged")]
    known = scipy_stats.binomtest(20, 25).proportion_ci(method="wilson")
    assert row[["n", "n_people", "n_images"]].tolist() == [40, 50, 25]
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([100 * k for k in known])


def test_distance_null_mean_includes_benchmark_noise():
    # 50% of 100 people against 50% of 100: differences vary by 2 x 0.25 / 100.
    people = pd.concat([couples({1: 50, 0: 50}, f"g{k}", persons=1) for k in range(8)], ignore_index=True)
    benchmark = pd.DataFrame({"group": [f"g{k}" for k in range(8)], "percent_female": 50.0, "name": "b"})
    known, sampled = (custom.distance(people, benchmark.assign(n=n)).set_index("group") for n in (np.nan, 100.0))
    assert sampled.loc["g0", "null_mean"] == pytest.approx(100 * np.sqrt(2 / np.pi * 0.005), rel=0.01)
    assert sampled.loc["g0", "null_mean"] == pytest.approx(np.sqrt(2) * known.loc["g0", "null_mean"], rel=0.02)


def test_intersections_have_row_per_possible_answer():
    kinds = pd.CategoricalDtype(["a", "b", "c", "d", "unclear"])
    frame = {
        "model": "A",
        "one": pd.Categorical(["f"] * 14),
        "two": pd.Series([*"aaaaaabbbcccc", "unclear"], dtype=kinds),
    }
    answers = pd.DataFrame(frame).assign(image_id=[f"{k}" for k in range(14)])
    table = custom.intersections(answers, [("one", "two")]).set_index("second")
    assert table["n"].to_dict() == {"a": 6, "b": 3, "c": 4, "d": 0, "unclear": 1}
    # Shares are of the 13 whose second answer is not unclear.
    assert table["n_people"].to_dict() == {"a": 13, "b": 13, "c": 13, "d": 13, "unclear": 14}
    known = scipy_stats.binomtest(3, 13).proportion_ci(method="wilson")
    assert table.loc["b", ["ci_low", "ci_high"]].tolist() == pytest.approx([100 * k for k in known])


def test_wide_answers_have_tone_range_if_read(people):
    result = custom.wide_answers(people)
    assert set(result["skin tone"].dropna()) == {"light (1–3)", "dark (7–10)"}
    assert set(result["perceived gender"]) == set(custom.analysis.ANSWERS)
    assert custom.wide_answers(people.assign(skin_tone=np.nan))["skin tone"].isna().all()


def _own_answers(answer_counts, question="hat", choices="yes | no"):
    """Return answers of model A, by group and answer as many as ``said``."""
    rows = [(group, answer) for (group, answer), n in answer_counts.items() for _ in range(n)]
    frame = pd.DataFrame(rows, columns=["group", "answer"])
    same = {"model": "A", "question": question, "choices": choices, "position": 1, "reason": ""}
    return frame.assign(**same, prompt=frame["group"], image_id=[f"{k}.png" for k in range(len(frame))])


def test_answer_shares_include_answers_never_given():
    answer_counts = {("g", "yes"): 30, ("g", "unclear"): 10, ("h", "no"): 20, ("h", ""): 7}
    table = custom.answer_shares(_own_answers(answer_counts)).set_index(["group", "answer"])
    # Of g's 30 answers that are not unclear all are yes; 10 of 40 are unclear.
    assert table.loc[("g", "yes"), ["percent", "n"]].tolist() == [100.0, 30]
    assert table.loc[("g", "unclear"), ["percent", "n"]].tolist() == [25.0, 40]
    assert table.loc[("g", "no"), "percent"] == 0
    assert table.loc[("h", "no"), ["percent", "n"]].tolist() == [100.0, 20]
    # All groups have the same weight.
    assert table.loc[("all", "yes"), "percent"] == pytest.approx(50)
    # All clear answers are the same one: 50 points from an even split; only the mean has a corrected distance.
    assert table.loc[("g", "yes"), "distance"] == 50
    assert np.isnan(table.loc[("g", "yes"), "distance_corrected"])
    assert table.loc[("all", "yes"), "distance_corrected"] == pytest.approx(50, abs=3)
    n = np.arange(21)
    chance = 100 * (np.abs(n / 20 - 0.5) * scipy_stats.binom.pmf(n, 20, 0.5)).sum()
    assert table.loc[("h", "no"), "null_mean"] == pytest.approx(chance)


def test_wide_answers_repeat_image_answers_per_person(people):
    visible_people = people[people["status"].isin(["judged", "uncertain"])]
    image_answers = visible_people[["model", "group", "prompt", "image_id"]].assign(
        question="style", choices="drawing | photo", answer="drawing", position=0, reason=""
    )
    # As texts, too, which positions are where a table was measured.
    assert (
        custom.wide_answers(people, tables.make_table(image_answers, "custom_person_answers"))["style"] == "drawing"
    ).all()
    result = custom.wide_answers(people, image_answers)
    assert (result["style"] == "drawing").all() and len(result) == len(visible_people)
    table = custom.intersections(result, [("perceived gender", "style")])
    assert set(table["pair"]) == {"perceived gender × style"} and table["n"].sum() == len(result)
    assert set(table["second"]) == {"drawing", "photo", "unclear"}


@pytest.mark.parametrize("counts", [{2: 15, 0: 10}, {2: 8, 1: 9, 0: 8}, {1: 12, 2: 7, 0: 6}])
def test_design_from_pilot_half_width_matches_shares(counts):
    people = pd.concat([couples(counts, group) for group in ("g", "h")], ignore_index=True)
    table = custom.shares(people).query("answer == 'female'").set_index("group")
    for one in custom.headlines(people):
        planned = stats.design_from_pilot(one.cells, one.people, clusters_random=one.clusters_random).half_width()
        low, high = table.loc[one.group, ["ci_low", "ci_high"]]
        assert planned == pytest.approx((high - low) / 2, rel=0.06)


def test_image_page_share_matches_table():
    people = couples({2: 15, 1: 3, 0: 7})
    row = custom.shares(people).set_index(["group", "answer"]).loc[("g", "female")]
    page_share = image_pages._share(people)
    assert [page_share[k] for k in ("percent", "low", "high", "n")] == pytest.approx(
        row[["percent", "ci_low", "ci_high", "n"]].tolist()
    )
