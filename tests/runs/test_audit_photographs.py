"""Photograph-like images, audited with judges from pip packages, compared with two annotators."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from photograph_benchmarks import benchmark, pictures, require_package

from biaslab.analyses import custom
from biaslab.pipeline import Pipeline
from biaslab.settings import Settings

pytestmark = pytest.mark.long

pytest.importorskip("torch", reason="judging needs the extra 'models'")

SKINS = ("light", "medium", "dark")


@pytest.fixture(scope="module")
def halves(root, tmp_path_factory):
    """Return folders of two models, whose subfolders are skin labels, with both annotators' labels of each image."""
    require_package("yunet")
    require_package("dlib")
    folder = pictures(benchmark(root, "_photographs"))
    labels = pd.read_csv(Path(folder, "labels.csv"))
    single_person = (
        labels["file"].str.startswith("portraits/") & labels["n_people_a"].eq(1) & labels["n_people_b"].eq(1)
    )
    same = (labels["gender_a"] == labels["gender_b"]) & (labels["skin_a"] == labels["skin_b"])
    agreed_labels = labels[
        single_person & same & labels["gender_a"].isin(["female", "male"]) & labels["skin_a"].isin(SKINS)
    ]
    to = tmp_path_factory.mktemp("halves")
    for k, row in enumerate(agreed_labels.itertuples()):
        place = to / ("first", "second")[k % 2] / row.skin_a
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(folder, row.file), place)
    table = agreed_labels.assign(
        model=[("first", "second")[k % 2] for k in range(len(agreed_labels))], group=agreed_labels["skin_a"]
    )
    return to, table


def test_shares_by_skin_label_cover_annotators(halves, tmp_path):
    to, annotators = halves
    settings = {
        "compute": {"cache": str(tmp_path)},
        "judging": {"faces": "yunet", "gender": "dlib", "skin_tone": "pixels"},
    }
    people = []
    for model in ("first", "second"):
        pipeline = Pipeline(f"images:{to / model}", Settings(**settings), seed=1)
        people.append(custom.measure.people(pipeline))
    shares = custom.shares(pd.concat(people, ignore_index=True))
    assert len(annotators) > 50 and len(shares["model"].unique()) == 2
    women = annotators["gender_a"].eq("female")
    rows = shares[shares["answer"] == "female"].set_index(["model", "group"])
    for (model, group), n in annotators.groupby(["model", "group"]).size().items():
        group_women = women[(annotators["model"] == model) & (annotators["group"] == group)]
        row = rows.loc[(model, group)]
        assert row["n"] <= n and row["ci_low"] <= 100 * group_women.mean() <= row["ci_high"], (model, group)
    for model, whole in annotators.groupby("model"):
        mean = 100 * women[whole.index].groupby(whole["group"]).mean().mean()
        assert rows.loc[(model, "all"), "ci_low"] <= mean <= rows.loc[(model, "all"), "ci_high"], model
