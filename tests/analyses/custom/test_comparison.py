"""Models compared by distance from a benchmark, and answer cards on judged people and custom questions."""

import numpy as np
import pandas as pd
import pytest

from biaslab.analyses import custom
from biaslab.judges.questions import CHOICES
from biaslab.papers.findings import LONGEST_ANSWER

GROUPS = ("baker", "chef", "nurse", "pilot", "teacher", "welder")


def people_of(shares, n, model):
    """Return ``n`` people per group, one per image; ``shares`` are the female shares by group."""
    rows = [
        (model, group, group, f"{group}/{k}", 1, "judged", "female" if k < share * n else "male")
        for group, share in shares.items()
        for k in range(n)
    ]
    return pd.DataFrame(rows, columns=["model", "group", "prompt", "image_id", "position", "status", "gender"])


def benchmark_of(shares):
    percent = 100 * np.array(list(shares.values()))
    return pd.DataFrame({"group": list(shares), "percent_female": percent, "n": np.nan, "name": "labour.csv"})


def test_comparison_of_same_people_is_zero():
    shares = dict.fromkeys(GROUPS, 0.3)
    people = pd.concat([people_of(shares, 20, model) for model in "ab"])
    (row,) = custom.comparison(people, benchmark_of(dict.fromkeys(GROUPS, 0.5))).to_dict("records")
    assert (row["model"], row["other"], row["difference"]) == ("b", "a", 0)
    assert row["ci_low"] == pytest.approx(-row["ci_high"]) and row["ci_high"] > 0
    assert (row["n_groups"], row["n"], row["n_images_other"]) == (6, 120, 120) and row["p"] == pytest.approx(1, abs=0.4)


def test_comparison_uses_distance_not_direction():
    # Of 400 people per group little noise is left: a is 20 points below the benchmark, b 25 points above and 35 below.
    benchmark = benchmark_of(dict.fromkeys(GROUPS, 0.5))
    b = {group: 0.75 if k % 2 else 0.15 for k, group in enumerate(GROUPS)}
    people = pd.concat([people_of(dict.fromkeys(GROUPS, 0.3), 400, "a"), people_of(b, 400, "b")])
    (row,) = custom.comparison(people, benchmark).to_dict("records")
    assert row["difference"] == pytest.approx(30 - 20, abs=0.3) and row["p_holm"] < 0.001
    # The error of both means: the square root of the sum of p (1 - p) / 400 over the groups and models, over 6.
    variance = sum(p * (1 - p) / 400 for p in (*b.values(), *[0.3] * 6))
    half = 196 * np.sqrt(variance) / 6
    assert (row["ci_high"] - row["ci_low"]) / 2 == pytest.approx(half, rel=0.35)
    named = custom.name_pairs(pd.DataFrame([row])).assign(benchmark_name="the benchmark labour.csv")
    (finding,) = custom.answers.comparison.findings(named)
    assert finding.question == "Which model is more biased, that is, farther from the benchmark labour.csv?"
    assert finding.model == "b and a" and finding.supported_answer.startswith("b (b − a: ")
    assert [mark.name for mark in finding.marks] == ["b − a"]


def test_comparison_takes_shared_groups_only():
    people = pd.concat(
        [people_of(dict.fromkeys(GROUPS, 0.3), 9, "a"), people_of(dict.fromkeys(GROUPS[2:], 0.6), 9, "b")]
    )
    benchmark = benchmark_of(dict.fromkeys(GROUPS, 0.5))
    benchmark.loc[5, "percent_female"] = np.nan
    (row,) = custom.comparison(people, benchmark).to_dict("records")
    assert (row["n_groups"], row["n"], row["n_other"]) == (3, 27, 27)
    assert custom.comparison(people[people["model"] == "a"], benchmark).empty


def outcomes_of(*statuses):
    rows = [("m", "g", status, k) for k, status in enumerate(statuses)]
    return custom.outcomes(pd.DataFrame(rows, columns=["model", "group", "status", "image_id"]))


def test_judged_shares_without_judged_people_give_advice():
    rows = custom.judged_shares(outcomes_of(*["several_faces"] * 3, "no_face"))
    assert rows["percent"].tolist() == [0, 0] and rows["n_people"].tolist() == [4, 4]
    assert rows["others"].tolist() == ["several faces 3, no face 1"] * 2
    assert "custom.all_faces=true" in rows["advice"][0]
    (finding,) = custom.answers.outcomes.findings(rows)
    assert finding.supported_answer == "0.00% of 4 people. Not judged: several faces 3, no face 1."


def test_judged_shares_of_mostly_judged_have_no_advice():
    rows = custom.judged_shares(outcomes_of("judged", "judged", "no_face"))
    assert rows["percent"].tolist() == pytest.approx([200 / 3] * 2)
    assert rows["advice"].tolist() == ["", ""] and rows["others"][0] == "no face 1"
    assert custom.judged_shares(outcomes_of("judged"))["others"].tolist() == ["none", "none"]


def test_listed_answers_are_sorted_with_unclear_last():
    answers = ["dark"] * 2 + ["fair"] * 6 + ["unclear"] * 2
    rows = pd.DataFrame({"answer": answers, "image_id": [str(k) for k in range(10)]})
    rows = rows.assign(model="m", question="hair", group="g", prompt="g", position=1)
    shares = custom.listed_answers(custom.answer_shares(rows.assign(choices=CHOICES.join(["dark", "fair"]))))
    (finding,) = custom.answers.own_questions.findings(shares)
    assert finding.supported_answer == "fair 75%, dark 25%, unclear 20% (means over groups)."
    assert finding.question == "How are answers to your question “hair” distributed?"
    assert {mark.name for mark in finding.marks} == {"fair", "dark", "unclear"}


def test_listed_answers_of_many_words_are_shortened():
    names = [f"answer {k} of a great many words" for k in range(9)]
    rows = pd.DataFrame({"answer": names, "image_id": names})
    rows = rows.assign(model="m", question="q", choices=CHOICES.join(names), group="g", prompt="g", position=0)
    (finding,) = custom.answers.own_questions.findings(custom.listed_answers(custom.answer_shares(rows)))
    assert len(finding.supported_answer.split()) <= LONGEST_ANSWER and " more (means over" in finding.supported_answer


def test_name_pairs_shortens_long_names():
    name = "a model whose folder has a name of very many words indeed"
    rows = pd.DataFrame({"model": [name], "other": [f"other {name}"]})
    named = custom.name_pairs(rows).iloc[0]
    assert named[["model", "first", "second"]].tolist() == [
        f"{name} and other {name}",
        "a model whose…",
        "other a model…",
    ]
