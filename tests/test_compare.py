"""Differences between runs, and their intervals."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from scipy import stats as scipy_stats

from biaslab import stats
from biaslab.ground import tables
from biaslab.ground.errors import ParameterError, RunError
from biaslab.runs import compare


def amplification(model, values, low, high, prompts=("1", "2")):
    return pd.DataFrame(
        {
            "model": model,
            "approach": "naive",
            "definition": "published",
            "prompt": list(prompts),
            "amplification": values,
            "ci_low": low,
            "ci_high": high,
            "n_occupations": 50,
            "n_excluded": 12,
            "t": 1.0,
            "p": 0.5,
            "amplification_plain": values,
            "noise": 0.0,
            "t_plain": 1.0,
            "p_plain": 0.5,
            "n_images": 500,
            "reason": "",
        }
    )


def test_rows_meet_on_their_identity_and_lone_rows_stay():
    first = amplification("SD", [10, 20], [9, 19], [11, 21])
    second = amplification("SD", [13, 5], [12, 4], [14, 6], prompts=("1", "3"))
    got = compare.side_by_side(first, second, "paradox_amplification").set_index("prompt")
    assert got.loc["1", "amplification_difference"] == 3
    # sqrt(1 + 1) on either side.
    assert got.loc["1", "ci_low"] == pytest.approx(3 - 2**0.5)
    assert np.isnan(got.loc["2", "amplification_second"]) and np.isnan(got.loc["3", "amplification_first"])


def test_runs_of_one_model_each_are_matched_across_models():
    first = amplification("SD 1.4", [10, 20], [9, 19], [11, 21])
    second = amplification("SD 1.5", [13, 5], [12, 4], [14, 6])
    got = compare.side_by_side(first, second, "paradox_amplification")
    assert got["amplification_difference"].tolist() == [3, -15]
    assert set(got["model_first"]) == {"SD 1.4"} and set(got["model_second"]) == {"SD 1.5"}


def test_what_stands_beside_both_does_not_keep_the_runs_own_models_apart():
    keys = ["model", "aspect", "setting", "stereotype"]
    beside = ("DALL-E 3", "occupation", "paired", "overall", 40.0)
    own = [
        pd.DataFrame([(name, *beside[1:4], score), beside], columns=[*keys, "score"]).assign(ci_low=0.0, ci_high=60.0)
        for name, score in (("mine", 10.0), ("yours", 30.0))
    ]
    found = compare.side_by_side(*own, "paired_stereotype_score", beside={"DALL-E 3"})
    assert found[["model_first", "model_second", "score_difference"]].to_numpy().tolist() == [["mine", "yours", 20.0]]
    # So they do where it stands beside one of them.
    found = compare.side_by_side(own[0][:1], own[1], "paired_stereotype_score", beside={"DALL-E 3"})
    assert found["score_difference"].tolist() == [20.0]
    # One model in both meets itself, beside what is printed.
    found = compare.side_by_side(
        own[0], own[0].assign(score=[15.0, 40.0]), "paired_stereotype_score", beside={"DALL-E 3"}
    )
    assert found.set_index("model")["score_difference"].to_dict() == {"mine": 5.0, "DALL-E 3": 0.0}


def test_swept_parameters_are_matched_on():
    seeds = [amplification("SD", [v, v], [v - 1] * 2, [v + 1] * 2).assign(seed=str(v)) for v in (1, 2)]
    first = pd.concat(seeds, ignore_index=True)
    second = first.assign(amplification=first["amplification"] + 5)
    got = compare.side_by_side(first, second, "paradox_amplification", swept=["seed"])
    assert len(got) == 4 and got["amplification_difference"].tolist() == [5] * 4


def test_a_parameter_that_one_run_swept_tells_its_rows_apart():
    first = pd.concat(
        [amplification("SD", [v, v], [v - 1] * 2, [v + 1] * 2).assign(seed=v) for v in (1, 2)], ignore_index=True
    )
    second = amplification("SD", [7, 7], [6, 6], [8, 8])
    got = compare.side_by_side(first, second, "paradox_amplification", swept=["seed"])
    assert "seed_second" not in got
    # Seed 1 has the value 1, seed 2 the value 2, for both prompts.
    by_seed = got.groupby("seed_first")["amplification_difference"].agg(["size", "min", "max"])
    assert by_seed.loc[1].tolist() == [2, 6, 6] and by_seed.loc[2].tolist() == [2, 5, 5]
    got = compare.side_by_side(second, first, "paradox_amplification", swept=["seed"])
    assert sorted(got["seed_second"]) == [1, 1, 2, 2]


def test_swept_values_of_other_types_do_not_break_the_match():
    first = amplification("SD", [1, 1], [0, 0], [2, 2]).assign(model_set="all")
    second = amplification("SD", [4, 4], [3, 3], [5, 5]).assign(model_set=2)
    got = compare.side_by_side(first, second, "paradox_amplification", swept=["model_set"])
    # One value a run, so it is told apart and not matched on.
    assert got["amplification_difference"].tolist() == [3, 3]
    assert set(got["model_set_first"]) == {"all"} and set(got["model_set_second"]) == {2}
    first = pd.concat([first, first.assign(model_set="2")], ignore_index=True)
    got = compare.side_by_side(first, second, "paradox_amplification", swept=["model_set"])
    assert got.loc[got["in_runs"] == "both", "model_set"].tolist() == ["2", "2"]


@pytest.fixture
def two_runs(tmp_path):
    for name, shift in (("one", 0), ("two", 3)):
        folder = tmp_path / "outputs" / name
        frame = amplification("SD", [10 + shift, 20], [9 + shift, 18], [11 + shift, 22])
        tables.write(frame, folder / "tables" / "paradox_amplification.csv")
        record = {"run": name, "seeds": {"seed": 1}, "biaslab": {}, "packages": {}, "platform": {}}
        (folder / "run.json").write_text(json.dumps(record))
    return tmp_path / "outputs"


def test_a_comparison_is_a_report_of_its_own(two_runs):
    folder = compare.compare("one", "two", outputs=two_runs)
    assert folder.name == "compare-one-two"
    table = pd.read_csv(folder / "tables" / "paradox_amplification.csv")
    assert table["amplification_difference"].tolist() == [3, 0]
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "1 of 2 differences exclude 0" in page
    # Again, in place.
    assert compare.compare(two_runs / "one", two_runs / "two", outputs=two_runs) == folder
    assert report_of(folder)["parameters"] == {"runs": ["one", "two"]}


def test_a_comparison_names_no_folder_and_holds_no_key(two_runs, monkeypatch):
    """Whatever runs of earlier versions say, and wherever they lie."""
    monkeypatch.setenv("HF_TOKEN", "hf-1234567890")
    answer = f"In {two_runs}/one, '/srv/clients/acme/x.csv' and https://example.org/home/Alice?sig=abc: hf-1234567890."
    for name in ("one", "two"):
        change(two_runs, name, findings=[{"question": "Why?", "answer": answer, "main": True, "estimate": 1.0}])
    folder = compare.compare(str(two_runs / "one"), "two", outputs=two_runs)
    pages = [(folder / name).read_text(encoding="utf-8") for name in ("run.json", "index.html")]
    for private in (str(two_runs), "/srv/clients", "sig=abc", "hf-1234567890"):
        assert not any(private in page for page in pages), private
    assert "In one, 'x.csv' and https://example.org/home/Alice?sig=[key]: [key]." in pages[0]


def test_several_runs_are_compared_with_the_first_and_shown_together(two_runs):
    third = two_runs / "three"
    frame = amplification("SD", [14, 20], [13, 18], [15, 22])
    tables.write(frame, third / "tables" / "paradox_amplification.csv")
    (third / "run.json").write_text((two_runs / "one" / "run.json").read_text(encoding="utf-8"))
    for name, estimate in (("one", 10.0), ("two", 13.0), ("three", 14.0)):
        found = {"question": "Amplified?", "answer": "Yes.", "model": "SD", "main": True, "card": 1,
                 "estimate": estimate, "ci_low": estimate - 1, "ci_high": estimate + 1, "unit": "points"}  # fmt: skip
        printed = found | {"model": "SD 1.4", "printed": True, "estimate": 12.4, "ci_low": 9, "ci_high": 15}
        alone = found | {"question": f"Only {name}?"}
        change(two_runs, name, findings=[found, printed, alone])
    folder = compare.compare("one", "two", "three", outputs=two_runs)
    assert folder.name == "compare-one-two-three"
    differences = {
        name: pd.read_csv(folder / "tables" / f"paradox_amplification_{name}.csv")["amplification_difference"].tolist()
        for name in ("two", "three")
    }
    assert differences == {"two": [3, 0], "three": [4, 0]}
    page = BeautifulSoup((folder / "index.html").read_text(encoding="utf-8"), "html.parser")
    # A mark a run, and the printed number, which all three have, once; what one run alone asks is left out.
    marks = [mark.get_text() for mark in page.article(class_="mark-name")[:-1]]
    assert marks == ["SD, one", "SD 1.4", "SD, two", "SD, three"]
    assert "Only one?" not in page.get_text()


def test_one_run_alone_or_twice_is_no_comparison(two_runs):
    with pytest.raises(ParameterError, match="nothing to compare one with"):
        compare.compare("one", outputs=two_runs)
    with pytest.raises(ParameterError, match="compared with itself"):
        compare.compare("one", "two", "one", outputs=two_runs)


def change(outputs, name, **entries):
    path = outputs / name / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def report_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def test_intervals_of_unequal_confidence_are_not_combined(two_runs):
    change(two_runs, "one", notebook_defaults={"paradox/4_baseline": {"confidence": 0.95}})
    change(two_runs, "two", notebook_defaults={"paradox/4_baseline": {"confidence": 0.95}})
    folder = compare.compare("one", "two", outputs=two_runs)
    assert not any("confidence" in text for text in report_of(folder)["limits"])
    change(two_runs, "two", parameters={"confidence": 0.5})
    compare.compare("one", "two", outputs=two_runs)
    table = pd.read_csv(folder / "tables" / "paradox_amplification.csv")
    assert table["ci_low"].isna().all() and table["ci_high"].isna().all()
    assert table["amplification_difference"].tolist() == [3, 0]
    assert (
        "Differences have no intervals: the confidence of one is 0.95 and that of two 0.5. "
        "Repeat one of the runs with the level of the other."
    ) in report_of(folder)["limits"]
    # Swept in one run: its rows are of several levels.
    change(two_runs, "one", sweep={"confidence": [0.5, 0.9]})
    compare.compare("one", "two", outputs=two_runs)
    assert any("confidence of one is 0.5, 0.9 and that of two 0.5" in t for t in report_of(folder)["limits"])


def test_runs_of_one_bundle_say_so_and_others_what_differs(two_runs):
    def told(name="one"):
        folder = compare.compare(name, "two", outputs=two_runs)
        found = report_of(folder)
        main = [f["answer"] for f in found["findings"] if f["question"] == "Are they of one bundle?"]
        return found["description"].partition("Are they of one bundle? ")[2], main

    values = {"seed": 1, "model": "A", "settings": {"compare_with": "none", "judging": {"gender": "dlib"}}}
    change(two_runs, "one", parameters=values)
    change(two_runs, "two", parameters=values | {"model": "B", "seed": 2})
    assert told() == ("No: seed is 1 in one and 2 in two.", [])
    # The second repeats the first, with the judge that is in the first's record.
    record = hashlib.sha256((two_runs / "one" / "run.json").read_bytes()).hexdigest()
    bundle = {"digest": "d" * 64, "record": record}
    change(two_runs, "two", parameters=values | {"model": "B"}, bundle=bundle)
    said = "Yes, of dddddddddddd: the same prompts, settings and seeds."
    assert told() == (said, [said])
    # Where work runs is no setting of what is found; another judge is.
    other = {"compute": {"store": "s"}, "judging": {"gender": "fairface:f.onnx"}}
    change(two_runs, "two", parameters=values | {"settings": other})
    assert told()[0] == 'Yes, of dddddddddddd: judging.gender is "dlib" in one and "fairface:f.onnx" in two.'
    change(two_runs, "one", bundle={"digest": "e" * 64, "record": "f"})
    assert told()[0].startswith("No: judging.gender is")
    change(two_runs, "one", bundle={"digest": "d" * 64, "record": "f"})
    change(two_runs, "two", parameters=values)
    assert told() == (said, [said])
    change(two_runs, "two", bundle={})
    assert told()[0] == "No: neither was made from the bundle of the other, though they ask the same."


def test_rows_that_meet_are_counted(two_runs):
    frame = amplification("SD", [1, 1, 1], [0, 0, 0], [2, 2, 2], prompts=("2", "3", "4"))
    path = two_runs / "two" / "tables" / "paradox_amplification.csv"
    tables.write(frame, path)
    # Prompts 1 and 2 against 2, 3 and 4.
    folder = compare.compare("one", "two", outputs=two_runs)
    first, second = report_of(folder)["findings"]
    assert first["answer"] == "1 of 4 rows are in both runs." and first["main"] and second["main"]
    table = pd.read_csv(folder / "tables" / "paradox_amplification.csv", dtype={"prompt": str})
    expected = {"1": "first", "2": "both", "3": "second", "4": "second"}
    assert table.set_index("prompt")["in_runs"].to_dict() == expected
    described = {c["name"]: c["description"] for c in report_of(folder)["tables"][1]["columns"]}
    assert described["in_runs"] == "Which run has the row: both, first or second."

    tables.write(frame[1:], path)
    with pytest.raises(RunError) as error:
        compare.compare("one", "two", outputs=two_runs, name="none")
    assert str(error.value) == (
        "No row of the tables that one and two share is in both, so there is nothing to compare: "
        "they are of other models, occupations or prompts. Not compared: paradox_amplification: prompt is '1', '2' in "
        "one and '3', '4' in two."
    )
    assert not (two_runs / "none").exists()


def test_what_only_one_run_has_is_named_in_the_limits(two_runs):
    shares = tables.of([], "paradox_captions_found")
    tables.write(shares, two_runs / "one" / "tables" / "paradox_captions_found.csv")
    folder = compare.compare("one", "two", outputs=two_runs)
    assert "Not compared, as only one has them: paradox_captions_found." in report_of(folder)["limits"]
    tables.write(shares, two_runs / "two" / "tables" / "paradox_captions_found.csv")
    folder = compare.compare("one", "two", outputs=two_runs)
    assert "Not compared: paradox_captions_found: one has no rows." in report_of(folder)["limits"]


def test_unfinished_runs_are_named_in_the_limits(two_runs):
    sections = [{"status": status} for status in ("ok", "failed", "skipped", "skipped")]
    change(two_runs, "one", status="failed", notebooks=sections)
    change(two_runs, "two", status="ok", notebooks=sections[:1])
    limits = report_of(compare.compare("one", "two", outputs=two_runs))["limits"]
    assert limits[0] == (
        "The status of the run one is failed; of its 4 sections: 1 failed, 2 skipped. "
        "Tables or rows may be missing for that reason."
    )
    assert not any("run two" in text for text in limits)
    change(two_runs, "two", status="running", notebooks=[])
    limits = report_of(compare.compare("one", "two", outputs=two_runs))["limits"]
    assert limits[1].startswith("The status of the run two is running. ")


@pytest.mark.parametrize("name", ["../x", "", "a" * 81])
def test_a_name_that_leads_elsewhere_is_refused(two_runs, name):
    with pytest.raises(ParameterError, match=r"is not a name; use letters, digits"):
        compare.compare("one", "two", outputs=two_runs, name=name)
    assert not list(two_runs.parent.glob("x"))


def test_names_keep_their_case_and_a_comparison_of_others_is_not_replaced(two_runs):
    (two_runs / "one").rename(two_runs / "One")
    assert compare.compare("One", "two", outputs=two_runs).name == "compare-One-two"
    # "a", "b-c" and "a-b", "c" share a default name.
    (two_runs / "One").rename(two_runs / "a")
    (two_runs / "two").rename(two_runs / "b-c")
    folder = compare.compare("a", "b-c", outputs=two_runs)
    (two_runs / "a").rename(two_runs / "a-b")
    (two_runs / "b-c").rename(two_runs / "c")
    with pytest.raises(RunError, match="holds the comparison of a and b-c; choose another name with --name"):
        compare.compare("a-b", "c", outputs=two_runs)
    assert report_of(folder)["title"] == "a and b-c"


def test_a_comparison_is_not_compared_again(two_runs):
    compare.compare("one", "two", outputs=two_runs)
    with pytest.raises(ParameterError) as error:
        compare.compare("one", "compare-one-two", outputs=two_runs)
    assert str(error.value) == "compare-one-two is a comparison, not a run; name the two runs to compare."


def test_what_cannot_be_compared(two_runs):
    with pytest.raises(ParameterError, match=r"There is no run 'tow'.*Did you mean 'two'"):
        compare.compare("one", "tow", outputs=two_runs)
    (two_runs / "two" / "tables" / "paradox_amplification.csv").unlink()
    with pytest.raises(RunError, match="share no table"):
        compare.compare("one", "two", outputs=two_runs)
    (two_runs / "mine").mkdir()
    (two_runs / "mine" / "thesis.txt").write_text("years of work")
    amplified = two_runs / "one/tables/paradox_amplification.csv"
    amplified.rename(two_runs / "two/tables/paradox_amplification.csv")
    with pytest.raises(RunError, match="share no table"):
        compare.compare("one", "two", outputs=two_runs, name="mine")
    assert (two_runs / "mine" / "thesis.txt").exists()


# -- which column an interval belongs to ----------------------------------------------------------------


def test_each_interval_of_a_table_has_its_difference():
    frame = pd.DataFrame(
        {
            "model": ["m"], "approach": "naive", "occupation": "nurse", "prompt": "1",
            "percent_training": 50.0, "training_low": 40.0, "training_high": 60.0,
            "percent_generated": 30.0, "generated_low": 20.0, "generated_high": 40.0,
            "directional": 20.0, "amplification_plain": 20.0, "ci_low": 5.0, "ci_high": 35.0,
            "n_training": 9, "n_generated": 9, "excluded": "",
        }
    )  # fmt: skip
    got = compare.side_by_side(frame, frame.assign(percent_generated=35.0), "paradox_occupation_amplification")
    got = got.iloc[0]
    assert (got["percent_training_difference"], got["percent_generated_difference"]) == (0, 5)
    assert got["training_high"] == pytest.approx(200**0.5)
    # The estimate need not stand left of its interval, and what stands there has none.
    assert got["ci_high"] == pytest.approx(450**0.5) and "amplification_plain_difference" not in got
    # By MOVER: the second's lower arm is 15, its upper 5.
    assert got["generated_low"] == pytest.approx(5 - np.hypot(15, 10))
    assert got["generated_high"] == pytest.approx(5 + np.hypot(5, 10))


# -- the same inputs --------------------------------------------------------------------------------------


def test_the_same_measurements_have_no_sampling_error_between_them(two_runs):
    printed = amplification("SD 1.4", [10, 20], [9, 19], [11, 21])
    own = [amplification("mine", [v, v], [v - 1] * 2, [v + 1] * 2) for v in (3, 4)]
    shares = pd.DataFrame(
        {
            "model": ["SD 1.4", "mine"], "approach": "naive", "occupation": "ceo", "source": "generated",
            "prompt": "1", "percent_female": [10.0, 50], "n": 20,
        }
    )  # fmt: skip
    for name, mine, share in (("one", own[0], 50), ("two", own[1], 50.5)):
        frame = pd.concat([printed.assign(ci_low=9 if name == "one" else 9.01), mine])
        tables.write(frame, two_runs / name / "tables" / "paradox_amplification.csv")
        told = shares.assign(percent_female=[10.0, share])
        tables.write(told, two_runs / name / "measured" / "paradox_percent_female.csv")
        tables.write(shares[:1], two_runs / name / "tables" / "paradox_percent_female.csv")
    folder = compare.compare("one", "two", outputs=two_runs)
    table = pd.read_csv(folder / "tables" / "paradox_amplification.csv").set_index("model")
    assert set(table.loc["SD 1.4", "basis"]) == {"identical"}
    assert set(table.loc["mine", "basis"]) == {"different inputs"}
    # No interval where nothing was drawn twice; the shares themselves, all alike, are listed and not shown.
    assert table.loc["SD 1.4", ["ci_low", "ci_high"]].isna().all(axis=None)
    assert (table.loc["SD 1.4", "amplification_difference"] == 0).all()
    assert table.loc["mine", ["ci_low", "ci_high"]].notna().all(axis=None)
    assert not (folder / "tables" / "paradox_percent_female.csv").exists()
    listed = pd.read_csv(folder / "tables" / "compared_tables.csv").set_index("table")
    kinds = ["identical", "same inputs", "different inputs", "differences"]
    assert listed.loc["paradox_amplification", kinds].tolist() == [2, 0, 2, 2]
    assert listed.loc["paradox_percent_female", kinds].tolist() == [1, 0, 0, 0]
    said = {f["question"]: f["answer"] for f in report_of(folder)["findings"]}
    assert said["Which tables are the same?"].startswith("1 of 2")

    # The same measurements analysed otherwise: a difference, and no interval of it.
    changed = pd.concat([printed.assign(amplification=[10, 25]), own[1]])
    tables.write(changed, two_runs / "two" / "tables" / "paradox_amplification.csv")
    table = pd.read_csv(compare.compare("one", "two", outputs=two_runs) / "tables" / "paradox_amplification.csv")
    other = table[table["basis"] == "same inputs"]
    assert other["amplification_difference"].tolist() == [5] and other["ci_low"].isna().all()


def test_models_told_apart_are_not_the_same_measurements():
    # Two runs of one source, each for one of its models.
    first = amplification("SD 1.4", [10, 20], [9, 19], [11, 21])
    second = amplification("SD 1.5", [13, 20], [12, 19], [14, 21])
    got = compare.side_by_side(first, second, "paradox_amplification", same=True)
    assert set(got["basis"]) == {"different inputs"} and got["ci_low"].notna().all()
    got = compare.side_by_side(first, second.assign(model="SD 1.4"), "paradox_amplification", same=True)
    assert got["basis"].tolist() == ["same inputs", "identical"]


def test_equal_values_of_different_measurements_keep_their_interval(two_runs):
    # Two runs can measure the same by chance: 0 of 8 images, say.
    for name, share in (("one", 10.0), ("two", 20)):
        frame = amplification("SD", [10, 20 + share], [9, 19], [11, 50])
        tables.write(frame, two_runs / name / "tables" / "paradox_amplification.csv")
    folder = compare.compare("one", "two", outputs=two_runs)
    table = pd.read_csv(folder / "tables" / "paradox_amplification.csv")
    assert set(table["basis"]) == {"different inputs"} and table["ci_low"].notna().all()


def test_a_table_of_another_version_is_named_and_the_others_compared(two_runs):
    tables.write(pd.DataFrame({"model": ["SD"]}), two_runs / "one" / "tables" / "paradox_t_tests.csv")
    tables.write(pd.DataFrame({"model": ["SD"]}), two_runs / "two" / "tables" / "paradox_t_tests.csv")
    folder = compare.compare("one", "two", outputs=two_runs)
    assert (
        "Not compared: one/tables/paradox_t_tests.csv has no column 'approach'. Repeat the run with this version."
    ) in report_of(folder)["limits"]
    assert (folder / "tables" / "paradox_amplification.csv").is_file()


# -- tables of which a run has less ------------------------------------------------------------------------


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
            at = min(max(column.low, 0) + value + (end if column.of else 0), column.high)
            columns[column.name] = [at, at + 0.25 * column.key]
    keys = [k for k in tables.schema(name).keys if k in columns]
    return tables.of(pd.DataFrame(columns).drop_duplicates(keys), name)


# Those that may lack a column, and those that numbers tell the rows of apart.
UNLIKE = [n for n, s in tables.schemas().items() if any(c.optional or (c.key and not c.text) for c in s.columns)]


@pytest.mark.parametrize("name", UNLIKE)
def test_any_table_can_be_compared_with_one_that_lacks_columns_or_rows(name):
    whole, less = declared_rows(name, value=0.5), declared_rows(name, value=0.5, optional=False)
    for first, second in ((whole, less), (less, whole), (whole, whole[:0]), (whole[:0], whole)):
        got = compare.side_by_side(first, second, name)
        assert len(got) == len(whole)
        sides = {"both"} if len(first) and len(second) else {"first" if len(first) else "second"}
        assert set(got["in_runs"]) == sides
        # What one run alone has stands there and has no difference.
        for estimate, *_ in tables.schema(name).intervals:
            if estimate not in less:
                assert got[f"{estimate}_difference"].isna().all()


# -- units that both runs have -----------------------------------------------------------------------------


def professions(values, model="M"):
    return pd.DataFrame(
        {"model": model, "profession": [f"p{i}" for i in range(len(values))], "value": values, "n": 9}
    )  # fmt: skip


def overall(genders, confidence=0.95):
    mean = stats.mean_interval(genders["value"].to_numpy(), confidence)
    row = {"model": genders["model"].iloc[0], "category": "gender", "average": mean.value, "n": mean.n}
    row |= {"ci_low": mean.ci_low, "ci_high": mean.ci_high, "images_per_profession": 9}
    return tables.of([row], "dalleval_overall_average")


@pytest.fixture
def two_audits(tmp_path):
    rng = np.random.default_rng(5)
    lean = rng.uniform(-0.9, 0.9, 20)
    found = [np.clip(lean + rng.normal(shift, 0.05, 20), -1, 1) for shift in (0, 0.06)]
    for name, values in zip(("one", "two"), found, strict=True):
        genders, folder = professions(values), tmp_path / name
        tables.write(overall(genders), folder / "tables" / "dalleval_overall_average.csv")
        tables.write(genders, folder / "tables" / "dalleval_average_gender.csv")
        (folder / "run.json").write_text(
            json.dumps({"run": name, "seeds": {}, "biaslab": {}, "packages": {}, "platform": {}})
        )
    return tmp_path, found


def test_runs_over_the_same_professions_are_paired(two_audits):
    outputs, (first, second) = two_audits
    folder = compare.compare("one", "two", outputs=outputs)
    (row,) = pd.read_csv(folder / "tables/dalleval_overall_average.csv").to_dict("records")
    # Independently: scipy's paired t interval of the mean difference.
    paired = scipy_stats.ttest_rel(second, first)
    expected = paired.confidence_interval(0.95)
    assert row["average_difference"] == pytest.approx((second - first).mean())
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(expected), rel=1e-6)
    assert row["n_paired"] == 20 and row["ci_low"] > 0
    # As if they were independent, several times as wide and over 0.
    assert np.hypot(*[scipy_stats.sem(v) for v in (first, second)]) > 5 * paired._standard_error
    said = {f["question"]: f["answer"] for f in report_of(folder)["findings"]}
    assert said["Overall averages: what differs?"] == "1 of 1 differences exclude 0; by chance 0.05 would."
    (shown,) = [t for t in report_of(folder)["tables"] if t["name"] == "dalleval_overall_average"]
    described = {c["name"]: c["description"] for c in shown["columns"]}
    assert described["n_paired"].startswith("Units that both runs have")


def test_units_of_one_run_alone_vary_by_themselves(two_audits):
    outputs, (first, second) = two_audits
    # Of the second run's professions 12 are the first's, and there are 3 more of its own.
    kept = professions(np.append(second[:12], [0.1, -0.4, 0.5])).assign(
        profession=[f"p{i}" for i in range(12)] + ["x", "y", "z"]
    )
    tables.write(overall(kept), outputs / "two/tables/dalleval_overall_average.csv")
    tables.write(kept, outputs / "two/tables/dalleval_average_gender.csv")
    folder = compare.compare("one", "two", outputs=outputs)
    (row,) = pd.read_csv(folder / "tables/dalleval_overall_average.csv").to_dict("records")
    arms = [scipy_stats.t.ppf(0.975, v.size - 1) * scipy_stats.sem(v) for v in (first, kept["value"])]
    r = np.corrcoef(first[:12], second[:12])[0, 1] * 12 / np.sqrt(20 * 15)
    half = np.sqrt(arms[0] ** 2 + arms[1] ** 2 - 2 * r * arms[0] * arms[1])
    assert row["ci_high"] - row["average_difference"] == pytest.approx(half)
    assert row["n_paired"] == 12


def test_fewer_units_than_a_verdict_takes_are_not_paired(two_audits):
    outputs, (first, second) = two_audits
    for name, values in (("one", first[:5]), ("two", second[:5])):
        genders = professions(values)
        tables.write(overall(genders), outputs / name / "tables/dalleval_overall_average.csv")
        tables.write(genders, outputs / name / "tables/dalleval_average_gender.csv")
    folder = compare.compare("one", "two", outputs=outputs)
    (row,) = pd.read_csv(folder / "tables/dalleval_overall_average.csv").to_dict("records")
    half = scipy_stats.t.ppf(0.975, 4) * np.hypot(scipy_stats.sem(first[:5]), scipy_stats.sem(second[:5]))
    assert np.isnan(row["n_paired"]) and row["ci_high"] - row["average_difference"] == pytest.approx(half)


def test_chance_expects_as_many_rows_as_its_level_has(two_runs):
    for name in ("one", "two"):
        change(two_runs, name, notebook_defaults={"paradox/4_baseline": {"confidence": 0.9}})
    folder = compare.compare("one", "two", outputs=two_runs)
    listed = pd.read_csv(folder / "tables" / "compared_tables.csv").set_index("table")
    # Two differences at 90 %.
    assert listed.loc["paradox_amplification", "by chance"] == pytest.approx(0.2)
    answers = [f["answer"] for f in report_of(folder)["findings"]]
    assert "1 of 2 differences exclude 0; by chance 0.2 would." in answers


def test_what_one_run_measured_besides_leaves_printed_rows_the_same(two_runs):
    # Two judges of captions as printed, of which the second run has measured one more.
    printed = pd.DataFrame(
        {"judge": ["CLIP", "BLIP"], "captions": "original", "metric": "recall@1", "value": [50.0, 60.0]}
    ).assign(reason="")
    more = pd.concat([printed, printed[:1].assign(judge="mine")])
    genders, shown = professions([0.1, 0.2, -0.3], "Karlo"), professions([0.5, 0.1, 0.2], "mine")
    for name, judges, rows in (("one", printed, genders), ("two", more, pd.concat([genders, shown]))):
        for room in ("tables", "measured"):
            tables.write(rows, two_runs / name / room / "dalleval_average_gender.csv")
        tables.write(judges, two_runs / name / "measured/dalleval_gender_judges.csv")
    folder = compare.compare("one", "two", outputs=two_runs)
    listed = pd.read_csv(folder / "tables" / "compared_tables.csv").set_index("table")
    counts = listed.loc["dalleval_average_gender", ["identical", "different inputs", "in one run"]].tolist()
    assert counts == [3, 0, 3]
