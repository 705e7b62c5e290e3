"""The embedded world and models, for real but small: the notebooks of the run, and what they leave behind."""

import json

import numpy as np
import pytest

from biaslab import coverage, params, runs, tables
from biaslab.captions.settings import CAPTIONS_AS_PROMPTS
from biaslab.pipeline import Pipeline, Settings

pytestmark = pytest.mark.slow

OCCUPATIONS = ("nurse", "engineer", "teacher", "lawyer")
SMALL = {
    "captions": {
        "occupations": list(OCCUPATIONS),
        "rows": 12_000,
        "per_occupation": 60,
        "candidates_per_occupation": 150,
        "nearest_per_prompt": 20,
    },
    "generation": {"images_per_prompt": 4, "caption_prompts_per_occupation": 12, "steps": 4},
    "calibration": {
        "guidance_scales": [1.0],
        "guidance_images": 1,
        "world_images": 4,
        "matched_captions": 20,
        "off_rows": 8000,
        "off_captions": 20,
        "test_renders": 200,
    },
    "people": {"occupations": 2, "power_runs": 1, "single_images": 1, "three_prompts": 2},
    "dalleval": {"scenes": 6, "professions": 2, "social_images": 2, "detector_renders": 16},
    "triplets": {"triplets": 3, "one_triplet": 3, "detector_drawings": 60},
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory, pytestconfig):
    """Run params/mini.yaml with few images; return the run's parameters, outputs folder and record."""
    outputs = tmp_path_factory.mktemp("outputs")
    settings = {**SMALL, "compute": {"store": str(outputs / "store")}}
    overrides = [
        f"{group}.{name}={json.dumps(v)}" for group, of in settings.items() for name, v in of.items()
    ]
    file = pytestconfig.rootpath / "params" / "mini.yaml"
    # Of the paired paper's notebooks, two that go through all of its stages, of DALL-Eval's as few; of the paradox's,
    # all but those that have no stage of their own and that test_paradox_notebooks.py executes.
    left_out = ("paired/", "paradox/5_", "paradox/8_", "dalleval/")
    every = [n for n in params.load(file).notebooks if not n.startswith(left_out)]
    every += ["paradox/5_1_*", "paradox/5_2_*", "dalleval/4_*", "dalleval/5_2_*", "dalleval/d_*"]
    loaded = params.load(
        file,
        overrides=[*overrides, "bootstrap_replicates=200"],
        notebooks=[*every, "paired/4_6_*", "paired/5_*"],
    )
    return loaded, outputs, runs.run(loaded, outputs=outputs, progress=False)


def test_every_notebook_finishes_and_nothing_is_run_twice(ran):
    loaded, outputs, record = ran
    assert {n["id"]: n["reason"] for n in record["notebooks"] if n["status"] != "ok"} == {}
    assert record["status"] == "ok" and not record["problems"]
    shards = {p: p.stat().st_mtime_ns for p in (outputs / "store").rglob("*.parquet")}
    again = runs.run(loaded, outputs=outputs, progress=False)
    assert again["up_to_date"] and again["ended"] == record["ended"]
    assert {p: p.stat().st_mtime_ns for p in (outputs / "store").rglob("*.parquet")} == shards


def test_the_ledger_says_what_the_run_leaves_behind(ran):
    _, _, record = ran
    made = {t["name"]: set(t["notebooks"]) for t in record["tables"] if t["rows"]}
    made |= {f["name"]: {f["notebook"]} for f in record["figures"]}
    executed = {n["id"] for n in record["notebooks"]}
    # Scores are of objects that are seen ten times in a group: three triplets have none.
    needs_more = {"triplets_group_bias_score"}
    due = [r for r in coverage.ledger() if "mini" in r["runs"].split() and r["notebook"] in executed]
    due = [row for row in due if row["output"] not in needs_more]
    assert len(due) >= 10
    for row in due:
        assert row["notebook"] in made.get(row["output"], ()), row


def test_the_embedded_model_stands_beside_the_printed_ones(ran):
    _, outputs, record = ran
    folder = outputs / "mini"
    shares = tables.read(folder / "tables" / "paradox_percent_female.csv", "paradox_percent_female")
    assert list(dict.fromkeys(shares["model"])) == ["mini", "SD 1.4", "SD 1.5"]
    mini = shares[shares["model"] == "mini"]
    assert set(mini["approach"]) == set(Settings().captions.approaches)
    assert set(mini["occupation"]) == set(OCCUPATIONS)
    amplification = tables.read(folder / "tables" / "paradox_amplification.csv", "paradox_amplification")
    naive = amplification.query("approach == 'naive' and definition == 'published' and prompt == 'mean'")
    assert naive["model"].tolist() == ["mini", "SD 1.4", "SD 1.5"] and naive["amplification"].notna().all()
    # Table 3 of the paper, within 0.02.
    printed = naive.set_index("model")["amplification_plain"]
    assert printed["SD 1.4"] == pytest.approx(12.57, abs=0.02)
    assert any("embedded world" in text for text in record["limits"])


def test_pairs_of_captions_follow_from_judgements_and_give_the_shares(ran):
    loaded, outputs, _ = ran
    settings = Settings.of({**SMALL, "compute": {"store": str(outputs / "store")}})
    pipeline = Pipeline("mini", settings, seed=loaded.values["seed"], progress=False)
    pairs = tables.read(outputs / "mini/measured/paradox_caption_pairs.csv", "paradox_caption_pairs")
    shares = tables.read(outputs / "mini/tables/paradox_percent_female.csv", "paradox_percent_female")
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


def test_shares_follow_from_judgements_image_by_image(ran):
    loaded, outputs, _ = ran
    settings = Settings.of({**SMALL, "compute": {"store": str(outputs / "store")}})
    pipeline = Pipeline("mini", settings, seed=loaded.values["seed"], progress=False)
    judged = pipeline.judgements("generated")
    assert len(judged) == 4 * 4 * 4 and not judged["image_id"].duplicated().any()
    shares = tables.read(outputs / "mini/tables/paradox_percent_female.csv", "paradox_percent_female")
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
    sample = training[training["rank"] <= SMALL["captions"]["per_occupation"]]
    decided = sample[sample["gender"].isin(["female", "male"])]
    assert (decided["gender"] == decided["truth_gender"]).mean() > 0.97
