"""The run of every notebook on published values, and its output files."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biaslab import reference
from biaslab.runs import compare, params, replication_status, runner
from biaslab.schema import tables

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def record(report):
    return report("published")[1]


@pytest.fixture(scope="module")
def folder(root, record):
    return root / "outputs/published"


@pytest.mark.long
def test_published_run_finishes_with_all_recorded_files(folder, record):
    assert {n["id"]: n["reason"] for n in record["notebooks"] if n["status"] != "ok"} == {}
    assert record["status"] == "ok" and not record["problems"]
    # For an up-to-date run the returned record has one more key.
    saved_record = {key: value for key, value in record.items() if key != "up_to_date"}
    assert saved_record == json.loads((folder / "run.json").read_text(encoding="utf-8"))
    for notebook in record["notebooks"]:
        assert (folder / notebook["notebook"]).is_file() and (folder / notebook["html"]).is_file()
    for figure in record["figures"]:
        assert (folder / figure["png"]).is_file() and (folder / figure["svg"]).is_file()
        assert figure["caption"].endswith(".") and figure["alt"], figure["name"]
    for entry in record["tables"]:
        assert all(c["description"] for c in entry["columns"]), entry["name"]


def test_published_tables_have_interval_or_reason(folder, record):
    n_missing = 0
    for entry in record["tables"]:
        frame = pd.read_csv(folder / entry["file"])
        # Rows of models repeat those of other tables, which have the reason.
        if "ci_low" not in frame.columns or entry["name"] == "synthesis_models":
            continue
        missing = frame[frame[["ci_low", "ci_high"]].isna().any(axis=1)]
        if len(missing):
            # An excluded row has its reason in `excluded`; an empty cell reads as NaN.
            why = "reason" if "reason" in frame.columns else "excluded"
            silent = missing[missing[why].fillna("").str.strip() == ""]
            assert silent.empty, (entry["name"], silent.to_dict("records")[:3])
            n_missing += len(missing)
    # Table 5 of the triplets alone prints 240 means without an interval: the check had something to do.
    assert n_missing >= 240


@pytest.mark.long
def test_published_estimates_lie_in_intervals(folder, record, estimates_lie_in_intervals):
    # At least 36 intervals of published values, some tables with several.
    assert estimates_lie_in_intervals(folder, record) >= 36


# Papers print neither images by skin tone nor verdicts on scenes.
NOT_PRINTED = "dalleval_skin_tone_counts", "dalleval_skill_verdicts"
ESTIMANDS = [estimand for of_table in compare.estimands().values() for estimand in of_table]
PRINTED = [estimand for estimand in ESTIMANDS if estimand.source not in NOT_PRINTED]


@pytest.mark.parametrize("estimand", PRINTED, ids=lambda estimand: f"{estimand.table}-{estimand.source}")
def test_estimand_units_average_to_table_rows(folder, estimand):
    def read(name):
        paths = (folder / place / f"{name}.csv" for place in ("tables", "measured"))
        return tables.read(next(filter(Path.is_file, paths)), name)

    schema = tables.schema(estimand.table)
    estimates = {low: estimate for estimate, low, _ in schema.intervals}
    assert set(estimand.limits) <= set(estimates)
    units = estimand.units(read(estimand.source))
    # A deviation is of all images of its cell, and the mean over two lists is that of theirs.
    units = units.sort_values("n_images").groupby([*schema.keys, "list", "unit", "cell"])["value"].last()
    mean = units.groupby([*schema.keys, "list", "unit"]).mean().groupby([*schema.keys, "list"]).mean()
    rows = read(estimand.table).merge(mean.groupby(schema.keys).mean().rename("by_unit").reset_index(), on=schema.keys)
    if "definition" in rows:
        # The paper's definition counts others at each prompt; corrections for small samples are a bootstrap's.
        rows = rows[(rows["definition"] != "paper") | (rows["prompt"] != "mean")]
        rows = rows.assign(amplification_corrected=rows["amplification"])
    estimate = rows[estimates["ci_low" if "ci_low" in estimand.limits else estimand.limits[0]]]
    # Of metrics of distance the gap has the other sign.
    assert len(rows) >= 3 and rows["by_unit"].abs().to_numpy() == pytest.approx(estimate.abs().to_numpy(), abs=1e-6)


def test_replication_status_lists_all_tables_and_figures():
    rows = replication_status.entries()
    assert Counter(r["kind"] for r in rows) == {"table": 66, "figure": 38, "test": 2, "text": 4}
    assert Counter(r["paper"] for r in rows) == {"paradox": 20, "paired": 26, "dalleval": 42, "triplets": 22}
    assert len({(r["paper"], r["kind"], r["number"]) for r in rows}) == len(rows)
    # Every table of the papers that the package holds is in it.
    listed_tables = {(r["paper"], r["number"]) for r in rows if r["kind"] == "table"}
    descriptions = [reference.describe(name) for name in reference.names()]
    assert {(t.paper, t.table) for t in descriptions if t.table != "text"} <= listed_tables


@pytest.mark.parametrize(
    "row", replication_status.entries(), ids=lambda row: " ".join([row["paper"], row["kind"], row["number"]])
)
def test_replication_status_is_consistent_with_its_runs(row):
    runs_, again = row["runs"].split(), row["reprinted_by"].split()
    files = [*ROOT.glob("params/*.yaml"), *ROOT.glob("world/params/*.yaml")]
    assert not set(runs_) & set(again) and {*runs_, *again} <= {file.stem for file in files}
    # Computed anywhere, or else reprinted, or else neither with the reason.
    expected = {"regenerated"} if runs_ else {"reprinted"} if again else {"open", "illustrative"}
    assert row["status"] in expected
    assert bool(runs_ or again) == bool(row["output"]) == bool(row["notebook"])
    assert row["output"] or row["note"]
    # A run on published values computes from tables in the package.
    assert bool(row["inputs"]) == ("published" in runs_)
    numbers = re.fullmatch(r"Tables? (\d+)(?:(?:, \d+)* and (\d+)| to (\d+))?", row["inputs"])
    assert bool(numbers) == bool(row["inputs"])
    for number in re.findall(r"\d+", row["inputs"]):
        assert f"{row['paper']}_table_{number}" in reference.names()


def test_replication_status_matches_published_run(record):
    outputs_by_name = {t["name"]: set(t["notebooks"]) for t in record["tables"]}
    outputs_by_name |= {f["name"]: {f["notebook"]} for f in record["figures"]}
    coverage = {(r["paper"], r["kind"], r["number"]): r for r in record["coverage"]}
    for row in replication_status.entries():
        name = (row["paper"], row["kind"], row["number"])
        recomputed, again = ("published" in row[of].split() for of in ("runs", "reprinted_by"))
        if recomputed or again:
            assert row["output"] in outputs_by_name, name
            assert row["notebook"] in outputs_by_name[row["output"]], name
        # In a complete run the report's replication status equals the table, except for items of other runs.
        if recomputed or not row["output"]:
            assert coverage[name] == row
        else:
            assert coverage[name]["status"] == ("reprinted" if again else "open"), name
    assert len(coverage) == len(replication_status.entries())


# Location of the published values of a reprinted table: rows and columns of the paper, column of the output.
PROFESSIONS = "kind == 'profession'", ["value"], "value"
SHARES = "kind == 'attribute'", ["presence"], "share"
P_VALUES = "p == p", ["p"], "p"
REPRINTED = {
    ("paradox", "6"): ("occupation != ''", ["percent_female"], "percent_female"),
    ("paradox", "7"): ("occupation != ''", ["percent_female"], "percent_female"),
    ("paired", "2"): ("score == score", ["score"], "score"),
    ("paired", "7"): ("setting != ''", ["fleiss_kappa"], "value"),
    ("paired", "9"): ("setting != ''", ["cohen_kappa"], "value"),
    ("paired", "10"): ("run != 'average'", ["score"], "score"),
    ("paired", "13"): ("score == score", ["score"], "score"),
    ("dalleval", "2"): ("not model.str.startswith('ground truth')", ["accuracy"], "percent_correct"),
    ("dalleval", "3"): ("skill != 'average'", ["accuracy"], ["percent_human", "percent_detr"]),
    ("dalleval", "5"): ("skill != ''", ["accuracy"], "percent_correct"),
    ("dalleval", "14"): ("model != ''", [f"{m}_at_{k}" for m in ("bias", "recall") for k in (1, 5, 10)], "value"),
    ("dalleval", "18"): ("precision_at_0 >= 0", [f"precision_at_{k}" for k in range(4)], "value"),
    ("dalleval", "19"): ("model != 'ground truth'", ["bleu4", "cider", "r_precision", "fid"], "value"),
    **{("dalleval", str(k)): PROFESSIONS for k in (6, 7, 16, 17, 20, 21)},
    **{("dalleval", str(k)): SHARES for k in range(23, 32)},
    ("triplets", "5"): ("value == value", ["value"], "value"),
    ("triplets", "6"): ("pair != 'feminine-masculine'", ["value"], ["feminine", "masculine"]),
    **{("triplets", str(k)): P_VALUES for k in (7, 8, 9)},
    ("triplets", "10"): ("value == value", ["value"], "value"),
    ("triplets", "11"): ("model != ''", ["percent_images"], "percent_images"),
    ("triplets", "12"): ("model != ''", ["objects"], "n_objects"),
    ("triplets", "13"): ("model != ''", ["percent"], "percent"),
}  # fmt: skip


# Lists of words: where they are printed, and their column.
LISTS = {
    ("paradox", "4"): ("paradox_table_6", "occupation"),
    ("triplets", "2"): ("triplets_table_2", "word"),
    ("triplets", "3"): ("triplets_table_3", "profession"),
}


def test_reprinted_tables_equal_published_values(folder):
    again = [r for r in replication_status.entries() if "published" in r["reprinted_by"].split()]
    again = [r for r in again if r["kind"] != "text"]
    figure_scores = [r for r in again if (r["paper"], r["kind"]) == ("triplets", "figure")]
    assert [r["number"] for r in figure_scores] == ["4", "7", "8"]
    assert {(r["paper"], r["number"]) for r in again if r not in figure_scores} == {*LISTS, *REPRINTED}
    for row in again:
        frame = pd.read_csv(folder / "tables" / f"{row['output']}.csv")
        if row in figure_scores:
            # Scores that the text states of a figure.
            printed = reference.load("triplets_bias_score_text").query(f"figure == '{row['number']}'")
            assert not Counter(printed["bias_score"]) - Counter(frame["bias_score"])
            continue
        if (row["paper"], row["number"]) in LISTS:
            printed, column = LISTS[row["paper"], row["number"]]
            assert set(frame[column]) == set(reference.load(printed)[column])
            continue
        selection, columns, actual = REPRINTED[row["paper"], row["number"]]
        printed = reference.load(f"{row['paper']}_table_{row['number']}").query(selection)[columns].to_numpy()
        actual = frame[actual].to_numpy().ravel()
        printed = printed[printed == printed]
        # To the digits of the print: thirds and ninths that it rounds, or cuts off in tables 23 to 31, are restored.
        decimals = max(len(f"{v:.10g}".partition(".")[2]) for v in printed)
        if row["output"] == "dalleval_attribute_presence":
            printed, actual, decimals = printed * 9, actual * 9, 0
        missing = Counter(np.round(printed, decimals)) - Counter(np.round(actual, decimals))
        assert printed.size and not missing, (row, missing)


@pytest.mark.long
@pytest.mark.parametrize(
    ("reads_it", "notebooks"),
    [
        # Another run is a source like any other.
        (True, "paradox/4_baseline paired/4_4_overall dalleval/5_3_gender triplets/4_disparities"),
        (False, "synthesis/spec* dalleval/5_3_gender"),
    ],
    ids=["of its tables", "of what is printed"],
)
def test_published_run_same_seed_gives_same_tables(root, record, folder, tmp_path, warm, reads_it, notebooks):
    given = ["run=again", *[f"source={folder}"] * reads_it]
    loaded = params.load(root / "params" / "published.yaml", overrides=given, notebooks=notebooks.split())
    again = runner.run(loaded, outputs=tmp_path, progress=False)
    assert {n["id"]: n["reason"] for n in again["notebooks"] if n["status"] != "ok"} == {}
    # To the byte, where the same notebooks wrote them in both runs.
    wrote = {t["name"]: t["notebooks"] for t in record["tables"]}
    same = [t["file"] for t in again["tables"] if t["notebooks"] == wrote[t["name"]]]
    assert len(same) >= 3
    for file in same:
        assert (tmp_path / "again" / file).read_bytes() == (folder / file).read_bytes(), file
