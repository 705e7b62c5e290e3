"""The embedded world and models, for real: the run of `make report`, and what it leaves behind."""

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
def here(root):
    """Stand where `make report` does: its store is named from there."""
    with contextlib.chdir(root):
        yield


@pytest.fixture(scope="module")
def ran(report):
    return report("mini")


@pytest.fixture(scope="module")
def folder(root, ran):
    return root / "outputs/mini"


@pytest.fixture(scope="module")
def pipeline(ran):
    """Return what the notebooks opened: it finds everything in the store."""
    ((pipeline, _, _),) = jobs.pipelines(jobs.plan(ran[0]))
    return pipeline


def test_every_notebook_finishes_and_nothing_is_run_twice(root, ran):
    loaded, record = ran
    assert {n["id"]: n["reason"] for n in record["notebooks"] if n["status"] != "ok"} == {}
    assert record["status"] == "ok" and not record["problems"]
    store = places.default_root()
    shards = {p: p.stat().st_mtime_ns for p in store.rglob("*.parquet")}
    again = runner.run(loaded, outputs=root / "outputs", overwrite=True, progress=False)
    assert again["up_to_date"] and again["ended"] == record["ended"]
    assert len(shards) > 100 and {p: p.stat().st_mtime_ns for p in store.rglob("*.parquet")} == shards


@pytest.mark.long
def test_the_two_reports_are_compared_in_either_order(root, ran, report, tmp_path):
    report("published")
    listed = {}
    for names in (("mini", "published"), ("published", "mini")):
        folder = compare.compare(*(root / "outputs" / name for name in names), outputs=tmp_path)
        limits = json.loads((folder / "run.json").read_text())["limits"]
        apart = [text for text in limits if "Not compared" in text]
        # Tables that one of them lacks, or leaves empty; all others are compared.
        assert len(apart) >= 2
        assert all("as only " in text or text.endswith(" has no rows.") for text in apart)
        listed[names] = pd.read_csv(folder / "tables" / "compared_tables.csv").set_index("table")
    first, second = listed.values()
    pd.testing.assert_frame_equal(first, second)
    # Printed numbers are the same in both, and what a run analysed by itself has no sampling error in between.
    assert len(first) >= 40 and (first["identical"] > 0).sum() >= 20
    assert first["differences"].sum() == 0 and (first["in one run"] > 0).sum() >= 20


def test_every_estimate_lies_in_its_interval(folder, ran, estimates_lie_in_intervals):
    assert estimates_lie_in_intervals(folder, ran[1]) >= 80


def test_headlines_of_the_default_report_are_the_committed_ones(folder):
    moved = mini_headlines.moved(pd.read_csv(mini_headlines.FILE), mini_headlines.read(folder))
    assert moved.empty, f"To commit new ones: python tests/golden/mini_headlines.py\n{moved.to_string()}"


def test_the_ledger_says_what_the_run_leaves_behind(ran):
    _, record = ran
    made = {t["name"]: set(t["notebooks"]) for t in record["tables"] if t["rows"]}
    made |= {f["name"]: {f["notebook"]} for f in record["figures"]}
    executed = {n["id"] for n in record["notebooks"]}
    due = [r for r in replication_status.entries() if "mini" in r["runs"].split() and r["notebook"] in executed]
    assert len(due) >= 10
    for row in due:
        assert row["notebook"] in made.get(row["output"], ()), row


def test_the_embedded_model_stands_beside_the_printed_ones(ran, folder, pipeline):
    _, record = ran
    shares = tables.read(folder / "tables" / "paradox_percent_female.csv", "paradox_percent_female")
    assert list(dict.fromkeys(shares["model"])) == ["mini", "SD 1.4", "SD 1.5"]
    mini = shares[shares["model"] == "mini"]
    assert set(mini["approach"]) == set(Settings().captions.approaches)
    assert set(mini["occupation"]) == set(pipeline.occupations) and len(pipeline.occupations) == 62
    amplification = tables.read(folder / "tables" / "paradox_amplification.csv", "paradox_amplification")
    naive = amplification.query("approach == 'naive' and definition == 'paper' and prompt == 'mean'")
    assert naive["model"].tolist() == ["mini", "SD 1.4", "SD 1.5"] and naive["amplification_corrected"].notna().all()
    # What the page says of it first is no bare number.
    assert naive.loc[naive["model"] == "mini", ["ci_low", "ci_high"]].notna().all(axis=None)
    # Table 3 of the paper, within 0.02.
    printed = naive.set_index("model")["amplification"]
    assert printed["SD 1.4"] == pytest.approx(12.57, abs=0.02)
    assert any("synthetic world" in text for text in record["limits"])


def test_pairs_of_captions_follow_from_judgements_and_give_the_shares(folder, pipeline):
    pairs = tables.read(folder / "measured/paradox_caption_pairs.csv", "paradox_caption_pairs")
    shares = tables.read(folder / "tables/paradox_percent_female.csv", "paradox_percent_female")
    own = pipeline.judgements("training").set_index(["caption_id", "occupation"])["gender"]
    for approach in CAPTIONS_AS_PROMPTS:
        images = pipeline.judgements(approach.removesuffix("_no_indicators"))
        if approach.endswith("_no_indicators"):
            images = images[images["indicator"] == "none"]
        counted = {}
        for (caption, occupation), some in images.groupby(["caption_id", "occupation"]):
            judged = [g for g in some["gender"] if g in ("female", "male")]
            training = own.get((caption, occupation))
            training = training if training in ("female", "male") else "none"
            key = occupation, training, f"{judged.count('female')} of {len(judged)}"
            counted[key] = counted.get(key, 0) + 1
        rows = pairs[pairs["approach"] == approach]
        found = rows.set_index(["occupation", "training", "generated"])["n_captions"].to_dict()
        assert found == counted and len(counted) > 0
        mine = shares[(shares["approach"] == approach) & (shares["model"] == "mini")]
        n = mine.set_index(["source", "occupation"])["n"]
        for occupation, some in rows.groupby("occupation"):
            known = some.loc[some["training"] != "none", "n_captions"].sum()
            assert n["training", occupation] == known
            assert n["generated", occupation] == (some["n_judged"] * some["n_captions"]).sum()


def test_shares_follow_from_judgements_image_by_image(folder, pipeline):
    judged = pipeline.judgements("generated")
    # Six images of each of four prompts of each occupation.
    assert len(judged) == 62 * 4 * 6 and not judged["image_id"].duplicated().any()
    shares = tables.read(folder / "tables/paradox_percent_female.csv", "paradox_percent_female")
    mine = shares[(shares["model"] == "mini") & (shares["approach"] == "naive")]
    for row in mine[mine["source"] == "generated"].itertuples():
        some = judged[(judged["occupation"] == row.occupation) & (judged["prompt"] == row.prompt)]
        female, male = (some["gender"] == "female").sum(), (some["gender"] == "male").sum()
        assert row.n == female + male
        if row.n:
            assert row.percent_female == pytest.approx(100 * female / (female + male))
        else:
            assert np.isnan(row.percent_female)
    # The training side against the known truth: a judge that is nearly always right gives nearly its shares.
    training = pipeline.judgements("training")
    sample = training[training["rank"] <= pipeline.settings.captions.per_occupation]
    decided = sample[sample["gender"].isin(["female", "male"])]
    assert (decided["gender"] == decided["truth_gender"]).mean() > 0.97


def test_printed_numbers_have_the_same_digits_beside_a_model(root, ran, report):
    report("published")
    beside, alone = (root / "outputs" / name / "tables" for name in ("mini", "published"))
    compared = 0
    for path in sorted(path for path in alone.glob("*.csv") if (beside / path.name).exists()):
        one, other = (pd.read_csv(f, dtype=str, keep_default_na=False) for f in (path, beside / path.name))
        named = next((c for c in ("model", "model_a", "first") if c in one), "")
        # Summaries over all models of a run are of others here; a source has either printed captions or real ones.
        some = one[one[named].isin(reference.MODELS)] if named else one[:0]
        columns = [c for c in one if c in other]
        rows = set(other[columns].itertuples(index=False, name=None))
        missing = [row for row in some[columns].itertuples(index=False, name=None) if row not in rows]
        assert not missing, (path.name, len(missing), missing[0])
        compared += len(some)
    assert compared > 1000


def test_strips_of_pictures_say_what_the_measured_tables_say(folder, ran):
    _, record = ran
    strips = json.loads((folder / record["pictures"]["strips"]).read_text(encoding="utf-8"))["strips"]
    people, counted = {}, 0
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
                own = shares[shares["occupation"] == row["group"]]
                n, women = own["n"].sum(), (own["percent_female"] * own["n"] / 100).sum()
            elif strip["paper"] in people:
                own = people[strip["paper"]]
                seen = own.loc[own["group"].replace("(none)", "a person") == row["group"], "seen"]
                n, women = seen.isin(["female", "male"]).sum(), (seen == "female").sum()
            else:
                assert not row["share"]
                continue
            assert row["share"]["n"] == n
            assert row["share"]["percent"] == pytest.approx(100 * women / n)
            counted += 1
    assert {strip["paper"] for strip in strips} == {"paradox", "paired", "dalleval", "triplets"} and counted >= 10
    assert all((folder / one["page"]).is_file() for one in record["pictures"]["models"])
