"""The papers' published values: the loader, and consistency of the tables of `paradox` and `paired`."""

import csv
import re

import numpy as np
import pandas as pd
import pytest

from biaslab import reference
from biaslab.errors import UnknownNameError
from biaslab.schema import tables

# Half a unit of the last printed digit: values with one decimal and with two.
HALF_TENTH, HALF_HUNDREDTH = 0.05, 0.005
EPS = 1e-9


# -- loader ----------------------------------------------------------------------------------------------


def test_names_cover_all_csv_files():
    files = [entry.name.removesuffix(".csv") for entry in reference._DATA.iterdir() if entry.name.endswith(".csv")]
    assert set(files) == set(reference.names())


@pytest.mark.parametrize("name", reference.names())
def test_load_matches_description(name):
    about = reference.describe(name)
    frame = reference.load(name)
    assert about.paper in tables.measuring_papers() and name.startswith(f"{about.paper}_")
    assert name.endswith(about.table.rsplit(" ", 1)[-1])
    assert about.title and about.section and about.unit and all(about.notes)
    assert list(frame.columns) == list(about.columns)
    with (reference._DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    assert len(frame) == about.rows == len(rows)
    assert {len(row) for row in rows} <= {len(header)}
    # Decimals as papers print them: Python would also take "nan", "inf" and "1_000".
    numbers = [i for i, key in enumerate(header) if about.columns[key].unit is not None]
    assert all(re.fullmatch(r"(-?\d+(\.\d+)?)?", row[i], re.ASCII) for row in rows for i in numbers)
    for key, column in about.columns.items():
        assert column.description
        if column.unit is None:
            assert all(isinstance(value, str) and value == value.strip() for value in frame[key]), key
        else:
            assert column.unit
            assert frame[key].dtype == np.float64
            assert not np.isinf(frame[key]).any()
            if column.unit == "%":
                assert frame[key].dropna().between(-100, 100).all(), key


@pytest.mark.parametrize("call", [reference.load, reference.describe])
def test_load_unknown_name_suggests_near_matches(call):
    with pytest.raises(UnknownNameError) as raised:
        call("paradox_tabel_6")
    start = "There is no published table named 'paradox_tabel_6'. Did you mean 'paradox_table_6' or "
    assert str(raised.value).startswith(start)
    with pytest.raises(UnknownNameError):
        call("../data/paradox_table_6")


# -- paradox ---------------------------------------------------------------------------------------------

SHARES = {"SD 1.4": "paradox_table_6", "SD 1.5": "paradox_table_7"}
PROMPTS = ["1", "2", "3", "4"]


def spread(frame: pd.DataFrame, index, columns: str, values: str) -> pd.DataFrame:
    """Return ``values`` with a column for each value of ``columns``; fails where two rows share a cell."""
    return frame.pivot(index=index, columns=columns, values=values)


def wide(name: str) -> pd.DataFrame:
    """Return a table of shares with one row per occupation and the columns captions, 1, 2, 3, 4."""
    return spread(reference.load(name), "occupation", "prompt", "percent_female")


def stated_value(quantity: str, approach: str = "") -> float:
    words = reference.load("paradox_text")
    return words[(words["quantity"] == quantity) & (words["approach"] == approach)]["value"].item()


@pytest.mark.parametrize("name", SHARES.values())
def test_paradox_shares_are_complete(name):
    frame = reference.load(name)
    assert len(frame) == stated_value("occupations") * 5  # training and four prompts
    assert frame["occupation"].nunique() == stated_value("occupations")
    assert set(zip(frame["source"], frame["prompt"], strict=True)) == {
        ("training", "captions"),
        *(("generated", prompt) for prompt in PROMPTS),
    }
    assert not frame.duplicated(["occupation", "prompt"]).any()
    assert frame["percent_female"].between(0, 100).all()
    # Names are words, the same in all tables.
    assert frame["occupation"].str.fullmatch("[a-z]+( [a-z]+)*").all()
    assert {"hairdresser", "fashion designer", "prime minister", "ceo"} < set(frame["occupation"])
    assert (wide(name)["captions"] == wide(SHARES["SD 1.4"])["captions"]).all()
    for other in ("paradox_arxiv_table_5", "paradox_arxiv_table_6"):
        assert set(reference.load(other)["occupation"]) == set(frame["occupation"])


@pytest.mark.parametrize(("name", "odd"), [("paradox_table_6", 81), ("paradox_table_7", 68)])
def test_paradox_shares_match_number_of_images(name, odd):
    # One of 500 images is 0.2 points, so in tenths every share of 500 images is an even number.
    tenths = (wide(name) * 10).round().astype(int)
    assert (tenths["captions"] % 2 == 0).all()
    # The notes state in how many cells the inclusion criteria left fewer than 500 generated images.
    assert (tenths[PROMPTS] % 2).to_numpy().sum() == odd
    assert any(f"{odd} of the 248" in note for note in reference.describe(name).notes)


def test_paradox_amplification_means_are_consistent():
    table = reference.load("paradox_table_3")
    assert len(table) == 40
    by_prompt = spread(table, ["model", "approach"], "prompt", "amplification")
    assert by_prompt.shape == (8, 5)
    away = by_prompt["mean"] - by_prompt[PROMPTS].mean(axis=1)
    # The notes name the exception: (1.11 + 8.72 + 3.06 + 4.05) / 4 = 4.235, printed 4.35.
    assert away.pop(("SD 1.4", "nearest_no_indicators")) == pytest.approx(0.115)
    # Four values and their mean, each rounded to 0.005.
    assert away.abs().max() <= 2 * HALF_HUNDREDTH + EPS
    for approach in ("naive", "no_indicators", "nearest", "nearest_no_indicators"):
        assert stated_value("amplification", approach) == by_prompt["mean"]["SD 1.4", approach]


def test_paradox_reductions_follow_from_amplification():
    table = reference.load("paradox_table_3")
    old = table[table["model"] == "SD 1.4"].set_index(["approach", "prompt"])["amplification"]

    def reduction(approach, prompt):
        return 100 * (1 - old[approach, prompt] / old["naive", prompt])

    # Whole percents; the amplifications behind them move the ratio by less than 0.1.
    for approach in ("no_indicators", "nearest"):
        assert stated_value("amplification_reduction", approach) == pytest.approx(reduction(approach, "mean"), abs=0.6)
    captions = "caption_prompts_no_indicators"
    assert stated_value("amplification_reduction", captions) == pytest.approx(
        100 * (1 - stated_value("amplification", captions) / old["naive", "mean"]), abs=0.6
    )
    combined = "nearest_no_indicators"
    assert stated_value("amplification_reduction_prompt_1", combined) == pytest.approx(
        reduction(combined, "1"), abs=0.6
    )
    # The notes state this inconsistency: 1 - 8.72 / 17.57 = 0.504.
    assert stated_value("amplification_reduction_prompt_2", combined) == 49
    assert reduction(combined, "2") == pytest.approx(50.4, abs=0.1)
    similarity = stated_value("cosine_similarity", "nearest") / stated_value("cosine_similarity", "naive")
    assert stated_value("cosine_similarity_increase", "nearest") == pytest.approx(100 * (similarity - 1), abs=0.8)


# -- paired ----------------------------------------------------------------------------------------------


def paired(number: int) -> pd.DataFrame:
    return reference.load(f"paired_table_{number}")


def stereotypes() -> dict[str, str]:
    return paired(3).set_index("occupation")["stereotype"].to_dict()


def score_1(aspect: str, setting: str, stereotype: str) -> float:
    return paired(1).set_index(["aspect", "setting", "stereotype"])["score"][aspect, setting, stereotype]


def multiples(values, step: float) -> bool:
    """Whether all values are multiples of step to within the rounding of two decimals."""
    values = np.asarray(values)
    return bool((np.abs(values - step * np.round(values / step)) <= HALF_HUNDREDTH + EPS).all())


def test_paired_names_are_canonical():
    names = set(paired(3)["occupation"])
    assert len(names) == len(paired(3)) == 40
    assert paired(3)["stereotype"].value_counts().to_dict() == {"female": 20, "male": 20}
    changed = paired(3).query("occupation != printed_name")
    assert dict(zip(changed["occupation"], changed["printed_name"], strict=True)) == {
        "mechanic": "mechanician",
        "hairdresser": "hairstresser",
    }
    assert set(paired(11)["occupation"]) == set(paired(12)["occupation"]) == names
    assert set(paired(13)["occupation"]) == names - {"manager", "supervisor", "ceo", "assistant"}
    roles = paired(4).groupby(["power_level", "stereotype"]).size().to_dict()
    assert roles == {("high", "male"): 4, ("low", "female"): 4}


@pytest.mark.parametrize(
    ("aspect", "setting", "people", "means"),
    [
        # 3 images, 20 occupations a side; 40 individuals, 20 occupations a side.
        ("occupation", "single", 3, {"female": 50.00, "male": -30.00, "overall": 10}),
        ("occupation", "paired", 40, {"female": 45.00, "male": 49.75, "overall": 47.375}),
        # Each of the 36 thirds is off by 0.0034 at most.
        ("power", "single", 3, {"female": 37.04, "male": -27.78, "overall": 4.63}),
        ("power", "paired", 6, {"female": 17.59, "male": 20.37, "overall": 18.98}),
    ],
)
def test_paired_scores_match_averages_and_sample_size(aspect, setting, people, means):
    frame = paired({"occupation": 11, "power": 13}[aspect]).query("setting == @setting")
    assert multiples(frame["score"] - 100, 200 / people)
    if aspect == "occupation":
        assert multiples(frame["percent_female"], 100 / people)
        side = frame["occupation"].map(stereotypes())
    else:
        assert len(frame) == 72  # 36 occupations, 2 levels
        side = frame["power_level"].map({"low": "female", "high": "male"})
    means_found = {**frame.groupby(side)["score"].mean(), "overall": frame["score"].mean()}
    assert means_found == pytest.approx(means, abs=2 * HALF_HUNDREDTH)
    # Table 1 prints these up to one unit of the last digit off (49.74, 4.62, 17.60, 20.38).
    assert {name: score_1(aspect, setting, name) for name in means} == pytest.approx(means, abs=0.01 + EPS)


def test_paired_gaps_are_score_differences():
    for number, identity in ((12, ["occupation"]), (13, ["occupation", "power_level"])):
        frame = paired(number)
        assert not frame.duplicated([*identity, "setting"]).any()
        score = spread(frame, identity, "setting", "score")
        gap = frame[frame["setting"] == "paired"].set_index(identity)["gap"].reindex(score.index)
        assert gap.notna().all()
        assert frame[frame["setting"] == "single"]["gap"].isna().all()
        # Three rounded numbers.
        assert (score["paired"] - score["single"] - gap).abs().max() <= 3 * HALF_HUNDREDTH + EPS
    for aspect in ("occupation", "power"):
        printed = paired(1).query("aspect == @aspect and gap.notna()")
        assert printed["setting"].tolist() == ["paired", "faircritic"]
        for row in printed.itertuples():
            single = score_1(aspect, "single", "overall")
            assert row.score - single == pytest.approx(row.gap, abs=EPS)
    # Scores of occupations are printed twice alike.
    first, second = (paired(n).set_index(["occupation", "setting"])["score"].dropna().sort_index() for n in (11, 12))
    pd.testing.assert_series_equal(first, second)


def test_paired_runs_average_to_overall():
    frame = paired(10)
    assert len(frame) == 13
    people = {"occupation": {"single": 40, "paired": 1600}, "power": {"single": 72, "paired": 144}}
    for aspect, setting, n in ((aspect, *item) for aspect, each in people.items() for item in each.items()):
        part = frame.query("aspect == @aspect and setting == @setting").set_index("run")["score"]
        runs = part.drop("average", errors="ignore")
        assert list(runs.index) == (["1"] if n == 1600 else ["1", "2", "3"])
        # Some are cut, not rounded: up to one unit of the last digit away from a possible score.
        step = 200 / n
        assert (runs - step * (runs / step).round()).abs().max() <= 0.01
        overall = score_1(aspect, setting, "overall")
        assert runs.mean() == pytest.approx(overall, abs=0.01)
        assert part.get("average", overall) == overall


def test_paired_overall_is_mean_of_lists_with_one_exception():
    score = spread(paired(1), ["aspect", "setting"], "stereotype", "score")
    away = score["overall"] - (score["female"] + score["male"]) / 2
    # The notes name the exception: (11.40 - 1.96) / 2 = 4.72, printed 5.09.
    assert away.pop(("power", "faircritic")) == pytest.approx(0.37)
    assert away.abs().max() <= 0.01 + EPS


def test_paired_mitigation_scores_are_consistent():
    frame = paired(2).set_index(["aspect", "occupations", "mitigation"])["score"]
    assert frame.to_dict() == {
        ("occupation", "top 5", "none"): 92.0,
        ("occupation", "top 5", "intervention"): 26.0,
        ("power", "all", "none"): score_1("power", "paired", "overall"),
        ("power", "all", "intervention"): -11.12,
    }
    # The notes: the 5 highest of each gender average 70.5 over all partners.
    top = paired(12).query("setting == 'paired'")
    top = top.groupby(top["occupation"].map(stereotypes()))["score"].nlargest(5)
    assert top.mean() == pytest.approx(70.5)


def test_paired_agreement_averages_are_consistent():
    kappa = paired(7).set_index(["aspect", "setting"])["fleiss_kappa"]
    for setting in ("single", "paired"):
        mean = (kappa["occupation", setting] + kappa["power", setting]) / 2
        assert kappa["average", setting] == pytest.approx(mean, abs=2 * HALF_HUNDREDTH)
    assert paired(9)["cohen_kappa"].between(-1, 1).all()
    assert len(paired(9)) == 4
