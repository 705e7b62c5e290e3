"""Differences between runs, and their intervals."""

import json

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from scipy import stats as scipy_stats

from biaslab import stats
from biaslab.errors import ParameterError, RunError
from biaslab.papers.dalleval.estimands import average_units
from biaslab.runs import compare
from biaslab.schema import tables


def amplification(model, values, arm=1, prompts=("1", "2")):
    """Return rows whose limits lie ``arm`` to either side of values."""
    values = np.array(values)
    rows = {"model": model, "approach": "naive", "definition": "paper", "prompt": list(prompts)}
    rows |= {"amplification_corrected": values, "ci_low": values - arm, "ci_high": values + arm}
    rows |= {
        "n_occupations": 50,
        "n_excluded": 12,
        "t": 1.0,
        "p": 0.5,
        "amplification": values,
        "small_sample_bias": 0.0,
    }
    return pd.DataFrame({**rows, "t_uncorrected": 1.0, "p_uncorrected": 0.5, "n_images": 500, "reason": ""})


def test_side_by_side_matches_single_models_across_runs():
    first, second = amplification("SD 1.4", [10, 20]), amplification("SD 1.5", [13, 20])
    got = compare.side_by_side(first, second, "paradox_amplification", same_models=True)
    assert got["amplification_corrected_difference"].tolist() == [3, 0]
    # The paper's own estimate is compared next to the corrected one, which alone has an interval.
    assert got["amplification_difference"].tolist() == [3, 0]
    assert set(got["model_first"]) == {"SD 1.4"} and set(got["model_second"]) == {"SD 1.5"}
    # By sqrt(1 + 1) to either side. With different names, they are not the same measurements.
    assert got["ci_low"].tolist() == pytest.approx([3 - 2**0.5, -(2**0.5)])
    assert set(got["basis"]) == {"different inputs"} and got["ci_low"].notna().all()
    got = compare.side_by_side(first, second.assign(model="SD 1.4"), "paradox_amplification", same_models=True)
    assert got["basis"].tolist() == ["same inputs", "identical"]


def test_side_by_side_published_models_do_not_block_matching():
    keys = ["model", "aspect", "setting", "stereotype"]
    published_row = ("DALL-E 3", "occupation", "paired", "overall", 40.0)
    first_rows, second_rows = (
        pd.DataFrame([(name, *published_row[1:4], score), published_row], columns=[*keys, "score"]).assign(
            ci_low=0.0, ci_high=60.0
        )
        for name, score in (("mine", 10.0), ("yours", 30.0))
    )

    def match_sides(first, second):
        return compare.side_by_side(first, second, "paired_stereotype_score", printed={"DALL-E 3"})

    result = match_sides(first_rows, second_rows)
    assert result[["model_first", "model_second", "score_difference"]].to_numpy().tolist() == [["mine", "yours", 20.0]]
    # Also if only one run includes it.
    assert match_sides(first_rows[:1], second_rows)["score_difference"].tolist() == [20.0]
    # A model of both runs is matched with itself, next to published models.
    result = match_sides(first_rows, first_rows.assign(score=[15.0, 40.0])).set_index("model")["score_difference"]
    assert result.to_dict() == {"mine": 5.0, "DALL-E 3": 0.0}


def test_side_by_side_matches_on_swept_parameters():
    first = pd.concat([amplification("SD", [v, v]).assign(seed=v) for v in (1, 2)], ignore_index=True)
    options = {"name": "paradox_amplification", "swept": ["seed"]}
    got = compare.side_by_side(
        first, first.assign(amplification_corrected=first["amplification_corrected"] + 5), **options
    )
    assert len(got) == 4 and got["amplification_corrected_difference"].tolist() == [5] * 4
    # A parameter swept in one run identifies rows: seed 1 has the value 1, seed 2 the value 2, for both prompts.
    second = amplification("SD", [7, 7])
    got = compare.side_by_side(first, second, **options)
    assert "seed_second" not in got
    by_seed = got.groupby("seed_first")["amplification_corrected_difference"].agg(["size", "min", "max"])
    assert by_seed.loc[1].tolist() == [2, 6, 6] and by_seed.loc[2].tolist() == [2, 5, 5]
    assert sorted(compare.side_by_side(second, first, **options)["seed_second"]) == [1, 1, 2, 2]


@pytest.fixture
def two_runs(tmp_path):
    """Return the folder of two runs, "one" and "two", of which the second amplifies by 3 points more in one prompt."""
    outputs = tmp_path / "outputs"
    for name, shift in (("one", 0), ("two", 3)):
        save(outputs, name, paradox_amplification=amplification("SD", [10 + shift, 20], arm=np.array([1, 2])))
        (outputs / name / "run.json").write_text(json.dumps({"run": name, **RECORD}))
    return outputs


RECORD = {"seeds": {"seed": 1}, "biaslab": {}, "packages": {}, "platform": {}}


def save(outputs, run, subfolder="tables", **frames):
    for name, frame in frames.items():
        tables.write(frame, outputs / run / subfolder / f"{name}.csv")


def compare_runs(outputs, table="paradox_amplification"):
    """Compare two runs, and return the comparison's record and one of its tables."""
    folder = compare.compare("one", "two", outputs=outputs)
    return report_of(folder), pd.read_csv(folder / "tables" / f"{table}.csv", dtype={"prompt": str})


def test_compare_writes_report_and_is_repeatable(two_runs):
    record, table = compare_runs(two_runs)
    folder = two_runs / "compare-one-two"
    assert table["amplification_corrected_difference"].tolist() == [3, 0]
    assert "1 of 2 intervals exclude 0" in (folder / "index.html").read_text(encoding="utf-8")
    # Again, in place.
    assert compare.compare(two_runs / "one", two_runs / "two", outputs=two_runs) == folder
    assert report_of(folder)["parameters"] == record["parameters"] == {"runs": ["one", "two"]}
    # A comparison cannot be compared.
    with pytest.raises(ParameterError, match="compare-one-two is a comparison, not a run"):
        compare.compare("one", "compare-one-two", outputs=two_runs)


def test_compare_runs_given_by_folder_records_no_path(two_runs):
    folder = compare.compare(str(two_runs / "one"), two_runs / "two", outputs=two_runs)
    for name in ("run.json", "index.html"):
        assert str(two_runs) not in (folder / name).read_text(encoding="utf-8")


def test_compare_three_runs_compares_each_with_first(two_runs):
    save(two_runs, "three", paradox_amplification=amplification("SD", [14, 20]))
    (two_runs / "three" / "run.json").write_text((two_runs / "one" / "run.json").read_text(encoding="utf-8"))
    for name, estimate in (("one", 10.0), ("two", 13.0), ("three", 14.0)):
        result = {"question": "Amplified?", "answer": "Yes.", "model": "SD", "main": True, "card": 1,
                 "estimate": estimate, "ci_low": estimate - 1, "ci_high": estimate + 1, "unit": "points"}  # fmt: skip
        printed = result | {"model": "SD 1.4", "printed": True, "estimate": 12.4, "ci_low": 9, "ci_high": 15}
        change(two_runs, name, findings=[result, printed, result | {"question": f"Only {name}?"}])
    folder = compare.compare("one", "two", "three", outputs=two_runs)
    assert folder.name == "compare-one-two-three"
    for name, expected in {"two": [3, 0], "three": [4, 0]}.items():
        table = pd.read_csv(folder / "tables" / f"paradox_amplification_{name}.csv")
        assert table["amplification_corrected_difference"].tolist() == expected
    page = BeautifulSoup((folder / "index.html").read_text(encoding="utf-8"), "html.parser")
    # One mark per run, and the published value, which all three have, once; questions of a single run are omitted.
    marks = [mark.get_text() for mark in page.article(class_="mark-name")[:-1]]
    assert marks == ["SD, one", "SD 1.4", "SD, two", "SD, three"]
    assert not [card for card in page("article") if "Only one?" in card.get_text()]
    (limit,) = [
        text for text in report_of(folder)["limits"] if text.startswith("Not shown together, because only the run two")
    ]
    assert limit == "Not shown together, because only the run two has the question: Only two?"


def change(outputs, name, **entries):
    path = outputs / name / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def report_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


@pytest.mark.long
def test_compare_unequal_confidence_gives_no_interval(two_runs):
    for name in ("one", "two"):
        change(two_runs, name, notebook_defaults={"paradox/4_baseline": {"confidence": 0.9}})
    record, _ = compare_runs(two_runs)
    assert not any("confidence" in text for text in record["limits"])
    # Expected number of two differences at 90% that exclude 0 by chance.
    assert "1 of 2 intervals exclude 0; 0.2 would be expected by chance." in [f["answer"] for f in record["findings"]]
    assert compare_runs(two_runs, "compared_tables")[1]["by chance"].tolist() == [pytest.approx(0.2)]
    change(two_runs, "two", parameters={"confidence": 0.5})
    record, table = compare_runs(two_runs)
    assert table[["ci_low", "ci_high"]].isna().all(axis=None)
    assert table["amplification_corrected_difference"].tolist() == [3, 0]
    assert any("the confidence level of one is 0.9 and that of two is 0.5" in text for text in record["limits"])
    # Swept in one run: its rows are of several levels.
    change(two_runs, "one", sweep={"confidence": [0.5, 0.9]})
    record, _ = compare_runs(two_runs)
    assert any("confidence level of one is 0.5, 0.9 and that of two is 0.5" in text for text in record["limits"])


def test_compare_counts_rows_in_both_runs(two_runs):
    # Prompts 1 and 2 against 2, 3 and 4.
    frame = amplification("SD", [1, 1, 1], prompts=("2", "3", "4"))
    save(two_runs, "two", paradox_amplification=frame)
    record, table = compare_runs(two_runs)
    first, second = record["findings"]
    assert first["answer"] == "1 of 4 rows are in both runs." and first["main"] and second["main"]
    expected = {"1": "first", "2": "both", "3": "second", "4": "second"}
    assert table.set_index("prompt")["in_runs"].to_dict() == expected
    described = {c["name"]: c["description"] for c in record["tables"][1]["columns"]}
    assert described["in_runs"] == "The runs that have the row: both, first or second."
    save(two_runs, "two", paradox_amplification=frame[1:])
    with pytest.raises(RunError, match=r"have no row in common.*runs have no prompt in common: paradox_amplification"):
        compare.compare("one", "two", outputs=two_runs, name="none")
    assert not (two_runs / "none").exists()


def test_compare_limits_name_uncompared_tables(two_runs):
    shares = tables.make_table([], "paradox_caption_counts")
    save(two_runs, "one", paradox_caption_counts=shares)
    limits = compare_runs(two_runs)[0]["limits"]
    assert "Not compared, because only one has them: paradox_caption_counts." in limits
    save(two_runs, "two", paradox_caption_counts=shares)
    assert "Not compared, because one run has no rows: paradox_caption_counts." in compare_runs(two_runs)[0]["limits"]
    # So are runs that are not finished.
    sections = [{"status": status} for status in ("ok", "failed", "skipped", "skipped")]
    change(two_runs, "one", status="failed", notebooks=sections)
    change(two_runs, "two", status="running", notebooks=[])
    first, second, *_ = compare_runs(two_runs)[0]["limits"]
    assert first.startswith(
        "The status of the run one is failed; of its 4 sections: 1 failed, 2 skipped. Tables or rows may be missing"
    )
    assert second.startswith("The status of the run two is running. ")


@pytest.mark.long
def test_compare_existing_comparison_of_others_is_refused(two_runs):
    with pytest.raises(ParameterError, match="is not a valid name"):
        compare.compare("one", "two", outputs=two_runs, name="../x")
    # "a", "b-c" and "a-b", "c" share a default name.
    (two_runs / "one").rename(two_runs / "a")
    (two_runs / "two").rename(two_runs / "b-c")
    folder = compare.compare("a", "b-c", outputs=two_runs)
    (two_runs / "a").rename(two_runs / "a-b")
    (two_runs / "b-c").rename(two_runs / "c")
    with pytest.raises(RunError, match="contains the comparison of a and b-c; choose another name with --name"):
        compare.compare("a-b", "c", outputs=two_runs)
    assert report_of(folder)["title"] == "a and b-c"


def test_compare_invalid_runs_are_refused(two_runs):
    with pytest.raises(ParameterError, match=r"There is no run 'tow'.*Did you mean 'two'"):
        compare.compare("one", "tow", outputs=two_runs)
    with pytest.raises(ParameterError, match="no run to compare with one"):
        compare.compare("one", outputs=two_runs)
    with pytest.raises(ParameterError, match="compared with itself"):
        compare.compare("one", "two", "one", outputs=two_runs)
    (two_runs / "mine").mkdir()
    (thesis := two_runs / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match="mine is not a comparison"):
        compare.compare("one", "two", outputs=two_runs, name="mine")
    (two_runs / "two" / "tables" / "paradox_amplification.csv").unlink()
    with pytest.raises(RunError, match="have no table in common"):
        compare.compare("one", "two", outputs=two_runs, name="mine")
    assert thesis.read_text() == "years of work"


# -- which column an interval belongs to ----------------------------------------------------------------


def test_side_by_side_gives_difference_for_each_interval():
    frame = pd.DataFrame(
        {
            "model": ["m"], "approach": "naive", "occupation": "nurse", "prompt": "1",
            "percent_training": 50.0, "percent_training_ci_low": 40.0, "percent_training_ci_high": 60.0,
            "percent_generated": 30.0, "percent_generated_ci_low": 20.0, "percent_generated_ci_high": 40.0,
            "signed_change": 20.0, "amplification": 20.0, "ci_low": 5.0, "ci_high": 35.0,
            "n_training": 9, "n_generated": 9, "excluded": "",
        }
    )  # fmt: skip
    got = compare.side_by_side(frame, frame.assign(percent_generated=35.0), "paradox_occupation_amplification")
    got = got.iloc[0]
    assert (got["percent_training_difference"], got["percent_generated_difference"]) == (0, 5)
    assert got["percent_training_ci_high"] == pytest.approx(200**0.5)
    # The estimate need not precede its interval, and the column before it has none.
    assert got["ci_high"] == pytest.approx(450**0.5) and "amplification_plain_difference" not in got
    # By MOVER: the second's lower arm is 15, its upper 5.
    assert got["percent_generated_ci_low"] == pytest.approx(5 - np.hypot(15, 10))
    assert got["percent_generated_ci_high"] == pytest.approx(5 + np.hypot(5, 10))


# -- the same inputs --------------------------------------------------------------------------------------


@pytest.mark.long
def test_compare_same_measurements_have_no_interval(two_runs):
    printed, own_rows = amplification("SD 1.4", [10, 20]), [amplification("mine", [v, v]) for v in (3, 4)]
    columns = ["model", "approach", "occupation", "source", "prompt", "percent_female", "n"]
    shares = [(model, "naive", "ceo", "generated", "1", 10.0, 20) for model in ("SD 1.4", "mine")]
    shares = pd.DataFrame(shares, columns=columns)
    for name, first_rows, share in (("one", own_rows[0], 50), ("two", own_rows[1], 50.5)):
        frame = pd.concat([printed.assign(ci_low=9 if name == "one" else 9.01), first_rows])
        save(two_runs, name, paradox_amplification=frame, paradox_percent_female=shares[:1])
        save(two_runs, name, "measured", paradox_percent_female=shares.assign(percent_female=[10.0, share]))
    record, table = compare_runs(two_runs)
    table = table.set_index("model")
    assert set(table.loc["SD 1.4", "basis"]) == {"identical"}
    assert set(table.loc["mine", "basis"]) == {"different inputs"}
    # No interval where nothing was drawn twice; the shares themselves, all alike, are listed and not shown.
    limits = ["ci_low", "ci_high"]
    assert table.loc["SD 1.4", limits].isna().all(axis=None) and table.loc["mine", limits].notna().all(axis=None)
    assert (table.loc["SD 1.4", "amplification_corrected_difference"] == 0).all()
    assert "paradox_percent_female" not in [entry["name"] for entry in record["tables"]]
    compared_tables = compare_runs(two_runs, "compared_tables")[1].set_index("table")
    kinds = ["identical", "same inputs", "different inputs", "differences"]
    assert compared_tables.loc["paradox_amplification", kinds].tolist() == [2, 0, 2, 2]
    assert compared_tables.loc["paradox_percent_female", kinds].tolist() == [1, 0, 0, 0]
    answers = {f["question"]: f["answer"] for f in record["findings"]}
    assert answers["Which tables are the same?"].startswith("1 of 2")
    # The same measurements analysed otherwise: a difference, and no interval of it.
    save(
        two_runs,
        "two",
        paradox_amplification=pd.concat([printed.assign(amplification_corrected=[10, 25]), own_rows[1]]),
    )
    _, table = compare_runs(two_runs)
    other = table[table["basis"] == "same inputs"]
    assert other["amplification_corrected_difference"].tolist() == [5] and other["ci_low"].isna().all()


# -- tables with missing columns or rows -------------------------------------------------------------------


def declared_rows(name, *, value, optional=True):
    """Return two rows of a table as declared, with or without its optional columns; limits lie 1 to either side."""
    columns = {}
    for column in tables.schema(name).columns:
        if column.optional and not optional:
            continue
        if column.text:
            texts = column.allowed or ("a", "b")
            columns[column.name] = [texts[0], texts[-1]]
        else:
            end = -1 if column.name.endswith("_low") else column.name.endswith("_high")
            position = min(max(column.low, 0) + value + (end if column.of else 0), column.high)
            columns[column.name] = [position, position + 0.25 * column.key]
    keys = [k for k in tables.schema(name).keys if k in columns]
    return tables.make_table(pd.DataFrame(columns).drop_duplicates(keys), name)


# Tables with optional columns, and tables with numeric keys.
UNLIKE = [n for n, s in tables.schemas().items() if any(c.optional or (c.key and not c.text) for c in s.columns)]


@pytest.mark.parametrize("name", UNLIKE)
def test_side_by_side_accepts_missing_columns_or_rows(name):
    whole, less = declared_rows(name, value=0.5), declared_rows(name, value=0.5, optional=False)
    for first, second in ((whole, less), (less, whole), (whole, whole[:0]), (whole[:0], whole)):
        got = compare.side_by_side(first, second, name)
        assert len(got) == len(whole)
        sides = {"both"} if len(first) and len(second) else {"first" if len(first) else "second"}
        assert set(got["in_runs"]) == sides
        # Columns of a single run are included and have no difference.
        for estimate, *_ in tables.schema(name).intervals:
            if estimate not in less:
                assert got[f"{estimate}_difference"].isna().all()


# -- units that both runs have -----------------------------------------------------------------------------


def professions(values, names=None, model="M"):
    names = names or [f"p{i}" for i in range(len(values))]
    return pd.DataFrame({"model": model, "profession": names, "value": values, "n": 9})


def audited(outputs, run, genders):
    """Write a run's genders by profession, and their mean with its interval."""
    mean = stats.mean_interval(genders["value"].to_numpy(), 0.95)
    row = {"model": "M", "category": "gender", "average": mean.value, "n": mean.n}
    row |= {"ci_low": mean.ci_low, "ci_high": mean.ci_high, "n_images_per_profession": 9}
    overall = tables.make_table([row], "dalleval_overall_average")
    save(outputs, run, dalleval_overall_average=overall, dalleval_average_gender=genders)


@pytest.fixture
def two_audits(tmp_path):
    rng = np.random.default_rng(5)
    true_values = rng.uniform(-0.9, 0.9, 20)
    result = [np.clip(true_values + rng.normal(shift, 0.05, 20), -1, 1) for shift in (0, 0.06)]
    for name, values in zip(("one", "two"), result, strict=True):
        audited(tmp_path, name, professions(values))
        (tmp_path / name / "run.json").write_text(json.dumps({"run": name, **RECORD}))
    return tmp_path, result


def test_compare_same_professions_use_paired_interval(two_audits):
    outputs, (first, second) = two_audits
    record, table = compare_runs(outputs, "dalleval_overall_average")
    (row,) = table.to_dict("records")
    # Independently: scipy's paired t interval of the mean difference.
    paired = scipy_stats.ttest_rel(second, first)
    assert row["average_difference"] == pytest.approx((second - first).mean())
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(paired.confidence_interval(0.95)), rel=1e-6)
    assert row["n_paired"] == 20 and row["ci_low"] > 0
    # As if they were independent, several times as wide and over 0.
    assert np.hypot(*[scipy_stats.sem(v) for v in (first, second)]) > 5 * paired._standard_error
    answers = {f["question"]: f["answer"] for f in record["findings"]}
    assert (
        answers["Average perceived gender and skin tone over professions: what differs?"]
        == "1 of 1 intervals exclude 0; 0.05 would be expected by chance."
    )
    (shown_table,) = [t for t in record["tables"] if t["name"] == "dalleval_overall_average"]
    described = {c["name"]: c["description"] for c in shown_table["columns"]}
    assert described["n_paired"].startswith("The number of units in both runs")


def test_compare_partly_shared_units_use_partial_pairing(two_audits):
    outputs, (first, second) = two_audits
    # Of the second run's professions 12 are the first's, and there are 3 more of its own.
    names = [*(f"p{i}" for i in range(12)), "x", "y", "z"]
    partly_shared_rows = professions(np.append(second[:12], [0.1, -0.4, 0.5]), names)
    audited(outputs, "two", partly_shared_rows)
    (row,) = compare_runs(outputs, "dalleval_overall_average")[1].to_dict("records")
    arms = [scipy_stats.t.ppf(0.975, v.size - 1) * scipy_stats.sem(v) for v in (first, partly_shared_rows["value"])]
    r = np.corrcoef(first[:12], second[:12])[0, 1] * 12 / np.sqrt(20 * 15)
    half = np.sqrt(arms[0] ** 2 + arms[1] ** 2 - 2 * r * arms[0] * arms[1])
    assert row["ci_high"] - row["average_difference"] == pytest.approx(half)
    assert row["n_paired"] == 12


def test_compare_prompt_without_profession_is_not_paired(two_audits):
    outputs, result = two_audits
    for name, values in zip(("one", "two"), result, strict=True):
        none = professions([values[0]], ["(none)"])
        save(outputs, name, dalleval_average_gender=pd.concat([professions(values), none]))
    assert compare_runs(outputs, "dalleval_overall_average")[1]["n_paired"].tolist() == [20]


def test_side_by_side_ignores_units_of_published_models():
    rng = np.random.default_rng(6)
    row = {"category": "gender", "average": 0.1, "ci_low": 0.0, "ci_high": 0.2, "n": 20}
    sides, units = [], []
    for name in ("mine", "yours"):
        sides.append(pd.DataFrame([{"model": model, **row} for model in (name, "printed")]))
        frames = [professions(rng.normal(size=20), model=model) for model in (name, "printed")]
        units.append(average_units(pd.concat(frames), "gender"))

    def match_sides(units_given):
        return compare.side_by_side(*sides, "dalleval_overall_average", units=units_given, printed={"printed"})

    measured = [rows[rows["model"] != "printed"] for rows in units]
    r = np.corrcoef(*(rows["value"] for rows in measured))[0, 1]
    # Arms of 0.1 on either side.
    half = 0.1 * np.sqrt(2 - 2 * r)
    assert match_sides(units)["ci_high"].tolist() == match_sides(measured)["ci_high"].tolist() == [pytest.approx(half)]


def test_compare_swept_values_are_paired_separately(two_audits):
    outputs, (first, second) = two_audits
    for name, values in (("one", first), ("two", second)):
        rows = [professions(values).assign(size=1), professions(values[::-1]).assign(size=2)]
        save(outputs, name, dalleval_average_gender=pd.concat(rows))
        average = pd.read_csv(outputs / name / "tables" / "dalleval_overall_average.csv")
        save(outputs, name, dalleval_overall_average=pd.concat([average.assign(size=size) for size in (1, 2)]))
        change(outputs, name, sweep={"size": [1, 2]})
    rows = compare_runs(outputs, "dalleval_overall_average")[1]
    # The same values in another order, in both runs.
    assert rows["n_paired"].tolist() == [20, 20] and rows["ci_low"].nunique() == 1


def test_compare_too_few_units_are_not_paired(two_audits):
    outputs, result = two_audits
    for name, values in zip(("one", "two"), result, strict=True):
        audited(outputs, name, professions(values[:5]))
    (row,) = compare_runs(outputs, "dalleval_overall_average")[1].to_dict("records")
    half = scipy_stats.t.ppf(0.975, 4) * np.hypot(*(scipy_stats.sem(values[:5]) for values in result))
    assert np.isnan(row["n_paired"]) and row["ci_high"] - row["average_difference"] == pytest.approx(half)


@pytest.mark.long
def test_compare_extra_measurements_keep_published_rows_identical(two_runs):
    # Two published judges of captions; the second run has measured a third.
    printed = pd.DataFrame({"judge": ["CLIP", "BLIP"], "captions": "original", "metric": "recall@1", "reason": ""})
    printed = printed.assign(value=[50.0, 60.0])
    more = pd.concat([printed, printed[:1].assign(judge="mine")])
    genders = professions([0.1, 0.2, -0.3], model="Karlo")
    both = pd.concat([genders, professions([0.5, 0.1, 0.2], model="mine")])
    for name, judges, rows in (("one", printed, genders), ("two", more, both)):
        for subfolder in ("tables", "measured"):
            save(two_runs, name, subfolder, dalleval_average_gender=rows)
        save(two_runs, name, "measured", dalleval_gender_judges=judges)
    compared_tables = compare_runs(two_runs, "compared_tables")[1].set_index("table")
    counts = compared_tables.loc["dalleval_average_gender", ["identical", "different inputs", "in one run"]].tolist()
    assert counts == [3, 0, 3]


def test_shorten_drops_common_parts_of_run_names():
    assert compare._shorten(["audit-photos-quick", "audit-other-set-quick"]) == ["photos", "other-set"]
    # Nothing would remain of the first, and the second two share no part.
    assert compare._shorten(["audit-quick", "audit-other-quick"]) == ["audit-quick", "audit-other-quick"]
    assert compare._shorten(["one", "two"]) == ["one", "two"]


def test_compare_table_has_column_for_each_model(two_runs):
    save(two_runs, "two", paradox_amplification=amplification("owner/SD-XL", [13, 20]))
    folder = compare.compare("one", "two", outputs=two_runs)
    page = BeautifulSoup((folder / "index.html").read_text(encoding="utf-8"), "html.parser")
    headings = [cell.get_text() for table in page("table") for cell in table("th")]
    assert {"amplification corrected SD (points)", "amplification corrected SD-XL (points)"} <= set(headings)
    assert "amplification corrected difference (points)" in headings
    # One value in all rows is not a column, and limits are in the cell of their estimate.
    assert not {"model first", "in runs", "ci low first (points)"} & set(headings)


def test_compare_merges_questions_that_name_their_model(two_runs):
    for name, model in (("one", "A"), ("two", "B")):
        finding = {"question": f"Are images of {model} biased?", "answer": f"{model}.", "model": model, "main": True}
        change(two_runs, name, findings=[finding | {"estimate": 1.0, "ci_low": 0.0, "ci_high": 2.0, "unit": "%"}])
    record = json.loads((compare.compare("one", "two", outputs=two_runs) / "run.json").read_text())
    first, second = record["findings"][:2]
    assert first["question"] == second["question"] == "Are images of each model biased?"
    # Each run has a model of its own, which names it.
    assert (first["model"], first["variant"], second["model"], second["variant"]) == ("A", "", "B", "")
