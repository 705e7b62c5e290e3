"""Agreement of judges and annotators about people in images, by other methods."""

import itertools

import numpy as np
import pandas as pd
import pytest

from biaslab.metrics import agreement
from biaslab.papers.paired.analysis.agreement import AGREEMENT_COLUMNS, agreement_tables
from biaslab.ratings.annotations import judgements
from biaslab.schema import tables


@pytest.fixture
def write(tmp_path):
    """Write a file of annotations."""

    def _write(content):
        (tmp_path / "a.csv").write_text(content, encoding="utf-8")
        return tmp_path / "a.csv"

    return _write


OTHER = {"female": "male", "male": "female"}


def world(seed, n_images, two=True, aspect="occupation"):
    """People of ``n_images`` images; the people of one image are mistaken together."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(n_images):
        whole = rng.random() < 0.15
        for position in [1, 2] if two else [1]:
            shows = "female" if rng.random() < 0.5 else "male"
            outcome = "judged" if rng.random() > 0.1 else "uncertain"
            said = (OTHER[shows] if whole else shows) if outcome == "judged" else "unsure"
            rows.append((f"{aspect}{i}", position, shows, said, outcome))
    frame = pd.DataFrame(rows, columns=["image_id", "position", "truth", "gender", "status"])
    return frame.assign(aspect=aspect, setting="paired" if two else "single")


def truth_of(people):
    return people[["image_id", "position"]].assign(gender=people["truth"])


def test_agreement_tables_kappa_matches_bootstrap():
    people = world(3, 60)
    ground_truth = truth_of(people)
    result = agreement_tables({"clip": people}, ground_truth, seed=7)
    assert list(result) == list(AGREEMENT_COLUMNS) and len(result) == 1
    row = result.iloc[0]
    assert tuple(row[:5]) == ("occupation", "paired", "clip", "truth", "cohen_kappa")

    def kappa(a, b):
        chance = a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
        return ((a == b).mean() - chance) / (1 - chance)

    judged = people[people["status"] == "judged"].reset_index(drop=True)
    a, b = (judged[c].to_numpy() == "female" for c in ("truth", "gender"))
    assert row["value"] == pytest.approx(kappa(a, b))
    assert (row["n"], row["n_missing"], row["n_annotators"]) == (len(judged), 120 - len(judged), 2)
    # Images are redrawn, one by one, with all their people.
    rng = np.random.default_rng(1)
    groups = list(judged.groupby("image_id").indices.values())
    resampled = []
    for _ in range(1000):
        use = np.concatenate([groups[k] for k in rng.integers(0, len(groups), len(groups))])
        resampled.append(kappa(a[use], b[use]))
    low, high = np.quantile(resampled, [0.025, 0.975])
    assert row["ci_low"] == pytest.approx(low, abs=0.03) and row["ci_high"] == pytest.approx(high, abs=0.03)
    # People taken as independent would be too narrow an interval: this judge errs for whole images.
    alone = agreement.cohen_kappa(judged["truth"], judged["gender"], ("female", "male"), seed=7)
    assert row["ci_high"] - row["ci_low"] > 1.15 * (alone.ci_high - alone.ci_low)


def annotated_file(people, seed, n_annotators=3):
    """Return annotations of people by annotators who err in one of ten, as the text of a file."""
    wrong = np.random.default_rng(seed).random((len(people), n_annotators)) < 0.1
    truth = people["truth"].to_numpy()[:, None]
    said = pd.DataFrame(np.where(wrong, np.vectorize(OTHER.get)(truth), truth)).add_prefix("r")
    return people[["image_id", "position"]].join(said).to_csv(index=False)


def test_agreement_tables_fleiss_kappa_of_file_by_hand(write):
    people = pd.concat([world(1, 40), world(2, 30, aspect="power")], ignore_index=True)
    content = annotated_file(people, 4)
    rated = judgements(people, write(content))
    ground_truth = truth_of(people)
    judged = {"clip": people, "annotators": people.assign(gender=rated["gender"].to_numpy(), status="judged")}
    result = agreement_tables(judged, ground_truth, rated, seed=3, replicates=500)
    assert not result.duplicated(list(AGREEMENT_COLUMNS[:5])).any()
    with_value = result[result["reason"] == ""]
    assert len(with_value) == 12
    assert (with_value["ci_low"] < with_value["value"]).all() and (with_value["value"] < with_value["ci_high"]).all()

    fleiss = result[result["statistic"] == "fleiss_kappa"].set_index("aspect")
    for aspect in ("occupation", "power"):
        # Fleiss (1971), from the counts of each label.
        counts = rated.loc[rated["aspect"] == aspect, ["female", "male"]].to_numpy()
        agreed = ((counts**2).sum(axis=1) - 3).mean() / 6
        chance = ((counts.sum(axis=0) / counts.sum()) ** 2).sum()
        assert fleiss.loc[aspect, "value"] == pytest.approx((agreed - chance) / (1 - chance))
        assert fleiss.loc[aspect, "n_annotators"] == 3 and fleiss.loc[aspect, "n_missing"] == 0
    assert fleiss.loc["average", "value"] == pytest.approx(fleiss["value"][:2].mean())
    assert fleiss.loc["average", "n"] == 140
    # The mean of two independent estimates varies less than either.
    width = fleiss["ci_high"] - fleiss["ci_low"]
    assert width["average"] < width["occupation"] and width["average"] < width["power"]

    # A judge compared with itself has kappa 1 and no interval.
    own = result.query("judge == reference == 'annotators' and statistic == 'cohen_kappa' and aspect == 'power'").iloc[
        0
    ]
    assert own["value"] == 1 and np.isnan(own["ci_low"]) and "same value" in own["reason"]
    # All columns of the study's table are present.
    assert {*tables.schema("paired_judge_agreement").names} - {"model"} <= {*result}


def test_agreement_tables_with_varying_annotators(write):
    # Five annotators, three per person: Fleiss' kappa is that of the three annotations, whoever made them.
    people = world(8, 20, two=False)
    rng = np.random.default_rng(0)
    dense = pd.read_csv(write(annotated_file(people, 9))).filter(like="r")
    chosen = itertools.cycle(itertools.combinations("vwxyz", 3))
    lines = ["image_id,position,annotator,label"]
    for k, (p, annotators) in enumerate(zip(people.itertuples(), chosen, strict=False)):
        said = dense.iloc[k].tolist()
        rng.shuffle(said)
        lines += [f"{p.image_id},1,{r},{s}" for r, s in zip(annotators, said, strict=True)]
    # A person with only two annotations is excluded.
    sparse = judgements(people, write("\n".join(lines[:-1])))
    result = agreement_tables({}, None, sparse, seed=1, replicates=50).iloc[0]
    own = agreement.fleiss_kappa(dense[:-1], seed=1, replicates=50)
    assert result["value"] == pytest.approx(own.value)
    assert (result["n"], result["n_missing"], result["n_annotators"]) == (19, 1, 3)


def test_agreement_tables_without_value_have_reason(write):
    people = world(1, 6)
    ground_truth = truth_of(people)
    blind = people.assign(status="no_face", gender="")
    row = agreement_tables({"x": blind}, ground_truth, seed=1).iloc[0]
    assert np.isnan(row["value"]) and row["reason"] == "no item has a label by both annotators"
    assert (row["n"], row["n_missing"]) == (0, 12)
    one = people.assign(status="judged", gender="female")
    assert "one label only: female" in agreement_tables({"x": one}, ground_truth, seed=1).iloc[0]["reason"]
    # One annotation per person: no agreement.
    lone = judgements(people, write(annotated_file(people, 1, n_annotators=1)))
    row = agreement_tables({}, None, lone, seed=1).iloc[0]
    assert np.isnan(row["value"]) and "two or more annotators" in row["reason"] and row["n_missing"] == 12
    assert agreement_tables({}, seed=1).empty


def test_agreement_tables_accept_position_words():
    people = world(3, 60)
    ground_truth = truth_of(people)
    words = {1: "left", 2: "right"}
    said = {"clip": people.assign(position=people["position"].map(words))}
    pd.testing.assert_frame_equal(
        agreement_tables(said, ground_truth.assign(position=ground_truth["position"].map(words))),
        agreement_tables({"clip": people}, ground_truth),
    )
