"""The run of `make report` with the synthetic world and its models, and its output files."""

import contextlib
import json

import mini_headlines
import numpy as np
import pandas as pd
import pytest

from biaslab import reference
from biaslab.captions.settings import CAPTIONS_AS_PROMPTS
from biaslab.io import places
from biaslab.pipeline import Settings
from biaslab.runs import compare, jobs, replication_status, runner
from biaslab.schema import tables


@pytest.fixture(scope="module", autouse=True)
def project_folder(root):
    """Work in the folder of `make report`, from which its cache is resolved."""
    with contextlib.chdir(root):
        yield


@pytest.fixture(scope="module")
def loaded_and_record(report):
    return report("mini")


@pytest.fixture(scope="module")
def folder(root, loaded_and_record):
    return root / "outputs/mini"


@pytest.fixture(scope="module")
def pipeline(loaded_and_record):
    """Return the pipeline of the notebooks: it finds everything in the cache."""
    ((pipeline, _, _),) = jobs.pipelines(jobs.plan(loaded_and_record[0]))
    return pipeline


def test_mini_run_finishes_and_rerun_is_up_to_date(root, loaded_and_record):
    loaded, record = loaded_and_record
    assert {n["id"]: n["reason"] for n in record["notebooks"] if n["status"] != "ok"} == {}
    assert record["status"] == "ok" and not record["problems"]
    store = places.default_root()
    shards = {p: p.stat().st_mtime_ns for p in store.rglob("*.parquet")}
    rerun_record = runner.run(loaded, outputs=root / "outputs", overwrite=True, progress=False)
    assert rerun_record["up_to_date"] and rerun_record["ended"] == record["ended"]
    assert len(shards) > 100 and {p: p.stat().st_mtime_ns for p in store.rglob("*.parquet")} == shards


@pytest.mark.long
def test_compare_mini_and_published_is_symmetric(root, loaded_and_record, report, tmp_path):
    report("published")
    tables_by_order = {}
    for names in (("mini", "published"), ("published", "mini")):
        folder = compare.compare(*(root / "outputs" / name for name in names), outputs=tmp_path)
        limits = json.loads((folder / "run.json").read_text())["limits"]
        limits_uncompared = [text for text in limits if "Not compared" in text]
        # Tables that one of them lacks, or leaves empty; all others are compared.
        assert len(limits_uncompared) >= 2
        assert all("as only " in text or text.endswith(" has no rows.") for text in limits_uncompared)
        tables_by_order[names] = pd.read_csv(folder / "tables" / "compared_tables.csv").set_index("table")
    first, second = tables_by_order.values()
    pd.testing.assert_frame_equal(first, second)
    # Published values are the same in both, so their differences have no sampling error.
    assert len(first) >= 40 and (first["identical"] > 0).sum() >= 20
    assert first["differences"].sum() == 0 and (first["in one run"] > 0).sum() >= 20


def test_mini_estimates_lie_in_intervals(folder, loaded_and_record, estimates_lie_in_intervals):
    assert estimates_lie_in_intervals(folder, loaded_and_record[1]) >= 80


def test_mini_headlines_equal_committed_values(folder):
    moved = mini_headlines.moved(pd.read_csv(mini_headlines.FILE), mini_headlines.read(folder))
    assert moved.empty, f"To commit new ones: python tests/golden/mini_headlines.py\n{moved.to_string()}"


def test_replication_status_matches_mini_run(loaded_and_record):
    _, record = loaded_and_record
    outputs_by_name = {t["name"]: set(t["notebooks"]) for t in record["tables"] if t["rows"]}
    outputs_by_name |= {f["name"]: {f["notebook"]} for f in record["figures"]}
    executed_ids = {n["id"] for n in record["notebooks"]}
    due = [r for r in replication_status.entries() if "mini" in r["runs"].split() and r["notebook"] in executed_ids]
    assert len(due) >= 10
    for row in due:
        assert row["notebook"] in outputs_by_name.get(row["output"], ()), row


def test_mini_tables_include_published_models(loaded_and_record, folder, pipeline):
    _, record = loaded_and_record
    shares = tables.read(folder / "tables" / "paradox_percent_female.csv", "paradox_percent_female")
    assert list(dict.fromkeys(shares["model"])) == ["mini", "SD 1.4", "SD 1.5"]
    mini = shares[shares["model"] == "mini"]
    assert set(mini["approach"]) == set(Settings().captions.approaches)
    assert set(mini["occupation"]) == set(pipeline.occupations) and len(pipeline.occupations) == 62
    amplification = tables.read(folder / "tables" / "paradox_amplification.csv", "paradox_amplification")
    naive = amplification.query("approach == 'naive' and definition == 'paper' and prompt == 'mean'")
    assert naive["model"].tolist() == ["mini", "SD 1.4", "SD 1.5"] and naive["amplification_corrected"].notna().all()
    # The first estimate on the page has an interval.
    assert naive.loc[naive["model"] == "mini", ["ci_low", "ci_high"]].notna().all(axis=None)
    # Table 3 of the paper, within 0.02.
    printed = naive.set_index("model")["amplification"]
    assert printed["SD 1.4"] == pytest.approx(12.57, abs=0.02)
    assert any("synthetic world" in text for text in record["limits"])


def test_caption_pairs_agree_with_judgements_and_shares(folder, pipeline):
    pairs = tables.read(folder / "measured/paradox_caption_pairs.csv", "paradox_caption_pairs")
    shares = tables.read(folder / "tables/paradox_percent_female.csv", "paradox_percent_female")
    matching_rows = pipeline.judgements("training").set_index(["caption_id", "occupation"])["gender"]
    for approach in CAPTIONS_AS_PROMPTS:
        images = pipeline.judgements(approach.removesuffix("_no_indicators"))
        if approach.endswith("_no_indicators"):
            images = images[images["indicator"] == "none"]
        counts = {}
        for (caption, occupation), subset in images.groupby(["caption_id", "occupation"]):
            judged = [g for g in subset["gender"] if g in ("female", "male")]
            training = matching_rows.get((caption, occupation))
            training = training if training in ("female", "male") else "none"
            key = occupation, training, f"{judged.count('female')} of {len(judged)}"
            counts[key] = counts.get(key, 0) + 1
        rows = pairs[pairs["approach"] == approach]
        actual = rows.set_index(["occupation", "training", "generated"])["n_captions"].to_dict()
        assert actual == counts and len(counts) > 0
        mini_shares = shares[(shares["approach"] == approach) & (shares["model"] == "mini")]
        n = mini_shares.set_index(["source", "occupation"])["n"]
        for occupation, subset in rows.groupby("occupation"):
            n_known = subset.loc[subset["training"] != "none", "n_captions"].sum()
            assert n["training", occupation] == n_known
            assert n["generated", occupation] == (subset["n_judged"] * subset["n_captions"]).sum()


def test_percent_female_follows_from_judgements(folder, pipeline):
    judged = pipeline.judgements("generated")
    # Six images of each of four prompts of each occupation.
    assert len(judged) == 62 * 4 * 6 and not judged["image_id"].duplicated().any()
    shares = tables.read(folder / "tables/paradox_percent_female.csv", "paradox_percent_female")
    mini_shares = shares[(shares["model"] == "mini") & (shares["approach"] == "naive")]
    for row in mini_shares[mini_shares["source"] == "generated"].itertuples():
        subset = judged[(judged["occupation"] == row.occupation) & (judged["prompt"] == row.prompt)]
        female, male = (subset["gender"] == "female").sum(), (subset["gender"] == "male").sum()
        assert row.n == female + male
        if row.n:
            assert row.percent_female == pytest.approx(100 * female / (female + male))
        else:
            assert np.isnan(row.percent_female)
    # Training images against the ground truth: an accurate judge gives nearly its shares.
    training = pipeline.judgements("training")
    sample = training[training["rank"] <= pipeline.settings.captions.per_occupation]
    decided = sample[sample["gender"].isin(["female", "male"])]
    assert (decided["gender"] == decided["truth_gender"]).mean() > 0.97


def test_published_rows_are_equal_in_mini_and_published_runs(root, loaded_and_record, report):
    report("published")
    mini_folder, published_folder = (root / "outputs" / name / "tables" for name in ("mini", "published"))
    n_compared = 0
    for path in sorted(path for path in published_folder.glob("*.csv") if (mini_folder / path.name).exists()):
        one, other = (pd.read_csv(f, dtype=str, keep_default_na=False) for f in (path, mini_folder / path.name))
        model_column = next((c for c in ("model", "model_a", "first") if c in one), "")
        # Summaries over all models of a run are of others here; a source has either printed captions or real ones.
        subset = one[one[model_column].isin(reference.MODELS)] if model_column else one[:0]
        columns = [c for c in one if c in other]
        rows = set(other[columns].itertuples(index=False, name=None))
        missing = [row for row in subset[columns].itertuples(index=False, name=None) if row not in rows]
        assert not missing, (path.name, len(missing), missing[0])
        n_compared += len(subset)
    assert n_compared > 1000


def test_image_strips_agree_with_measured_tables(folder, loaded_and_record):
    _, record = loaded_and_record
    strips = json.loads((folder / record["pictures"]["strips"]).read_text(encoding="utf-8"))["strips"]
    people, counts = {}, 0
    for paper, name, group, gender, where in (
        ("paired", "paired_people", "identity", "gender", "setting == 'paired' and round == 0"),
        ("dalleval", "dalleval_social_images", "profession", "gender_vqa", "prompt == 'person'"),
    ):
        rows = tables.read(folder / "measured" / f"{name}.csv", name).query(f"model == 'mini' and {where}")
        people[paper] = rows.rename(columns={group: "group", gender: "seen"})
    shares = tables.read(folder / "measured" / "paradox_percent_female.csv", "paradox_percent_female")
    shares = shares.query("model == 'mini' and source == 'generated' and approach == 'naive'")
    for strip in strips:
        for row in strip["rows"]:
            if strip["paper"] == "paradox":
                matching_rows = shares[shares["occupation"] == row["group"]]
                n, women = matching_rows["n"].sum(), (matching_rows["percent_female"] * matching_rows["n"] / 100).sum()
            elif strip["paper"] in people:
                matching_rows = people[strip["paper"]]
                labels = matching_rows.loc[matching_rows["group"].replace("(none)", "a person") == row["group"], "seen"]
                n, women = labels.isin(["female", "male"]).sum(), (labels == "female").sum()
            else:
                assert not row["share"]
                continue
            assert row["share"]["n"] == n
            assert row["share"]["percent"] == pytest.approx(100 * women / n)
            counts += 1
    assert {strip["paper"] for strip in strips} == {"paradox", "paired", "dalleval", "triplets"} and counts >= 10
    assert all((folder / one["page"]).is_file() for one in record["pictures"]["models"])
