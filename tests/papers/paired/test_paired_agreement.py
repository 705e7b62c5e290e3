"""Agreement of judges and annotators about people in images, by other routes."""

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


def test_kappa_and_its_interval_by_another_route():
    people = world(3, 60)
    shown = truth_of(people)
    found = agreement_tables({"clip": people}, shown, seed=7)
    assert list(found) == list(AGREEMENT_COLUMNS) and len(found) == 1
    row = found.iloc[0]
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
    drawn = []
    for _ in range(1000):
        use = np.concatenate([groups[k] for k in rng.integers(0, len(groups), len(groups))])
        drawn.append(kappa(a[use], b[use]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert row["ci_low"] == pytest.approx(low, abs=0.03) and row["ci_high"] == pytest.approx(high, abs=0.03)
    # People taken as independent would be too narrow an interval: this judge errs for whole images.
    alone = agreement.cohen_kappa(judged["truth"], judged["gender"], ("female", "male"), seed=7)
    assert row["ci_high"] - row["ci_low"] > 1.15 * (alone.ci_high - alone.ci_low)


def annotated_file(people, seed, n_annotators=3):
    """Return ratings of people by annotators who err in one of ten, as the text of a file."""
    wrong = np.random.default_rng(seed).random((len(people), n_annotators)) < 0.1
    truth = people["truth"].to_numpy()[:, None]
    said = pd.DataFrame(np.where(wrong, np.vectorize(OTHER.get)(truth), truth)).add_prefix("r")
    return people[["image_id", "position"]].join(said).to_csv(index=False)


def test_tables_7_and_9_from_a_file(write):
    people = pd.concat([world(1, 40), world(2, 30, aspect="power")], ignore_index=True)
    content = annotated_file(people, 4)
    rated = judgements(people, write(content))
    shown = truth_of(people)
    judged = {"clip": people, "annotators": people.assign(gender=rated["gender"].to_numpy(), status="judged")}
    found = agreement_tables(judged, shown, rated, seed=3, replicates=500)
    assert not found.duplicated(list(AGREEMENT_COLUMNS[:5])).any()
    known = found[found["reason"] == ""]
    assert len(known) == 12
    assert (known["ci_low"] < known["value"]).all() and (known["value"] < known["ci_high"]).all()

    fleiss = found[found["statistic"] == "fleiss_kappa"].set_index("aspect")
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

    # A judge against itself is at 1, without an interval to speak of.
    own = found.query("judge == reference == 'annotators' and statistic == 'cohen_kappa' and aspect == 'power'").iloc[0]
    assert own["value"] == 1 and np.isnan(own["ci_low"]) and "same value" in own["reason"]
    # What the study's table needs is there.
    assert {*tables.schema("paired_judge_agreement").names} - {"model"} <= {*found}


def test_raters_may_differ_between_people(write):
    # Five annotators, three to a person: Fleiss' kappa is that of the three ratings, whoever gave them.
    people = world(8, 20, two=False)
    rng = np.random.default_rng(0)
    dense = pd.read_csv(write(annotated_file(people, 9))).filter(like="r")
    chosen = itertools.cycle(itertools.combinations("vwxyz", 3))
    lines = ["image_id,position,annotator,label"]
    for k, (p, annotators) in enumerate(zip(people.itertuples(), chosen, strict=False)):
        said = dense.iloc[k].tolist()
        rng.shuffle(said)
        lines += [f"{p.image_id},1,{r},{s}" for r, s in zip(annotators, said, strict=True)]
    # One person with two ratings only is left out.
    sparse = judgements(people, write("\n".join(lines[:-1])))
    found = agreement_tables({}, None, sparse, seed=1, replicates=50).iloc[0]
    own = agreement.fleiss_kappa(dense[:-1], seed=1, replicates=50)
    assert found["value"] == pytest.approx(own.value)
    assert (found["n"], found["n_missing"], found["n_annotators"]) == (19, 1, 3)


def test_what_has_no_value_has_a_reason(write):
    people = world(1, 6)
    shown = truth_of(people)
    blind = people.assign(status="no_face", gender="")
    row = agreement_tables({"x": blind}, shown, seed=1).iloc[0]
    assert np.isnan(row["value"]) and row["reason"] == "no item has a label by both annotators"
    assert (row["n"], row["n_missing"]) == (0, 12)
    one = people.assign(status="judged", gender="female")
    assert "one label only: female" in agreement_tables({"x": one}, shown, seed=1).iloc[0]["reason"]
    # A rating by one person each: nothing to agree on.
    lone = judgements(people, write(annotated_file(people, 1, n_annotators=1)))
    row = agreement_tables({}, None, lone, seed=1).iloc[0]
    assert np.isnan(row["value"]) and "two or more annotators" in row["reason"] and row["n_missing"] == 12
    assert agreement_tables({}, seed=1).empty


def test_places_may_be_words():
    people = world(3, 60)
    shown = truth_of(people)
    words = {1: "left", 2: "right"}
    said = {"clip": people.assign(position=people["position"].map(words))}
    pd.testing.assert_frame_equal(
        agreement_tables(said, shown.assign(position=shown["position"].map(words))),
        agreement_tables({"clip": people}, shown),
    )
