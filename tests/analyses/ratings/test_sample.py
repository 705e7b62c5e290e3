"""Rating by people: the sample, and agreement by hand."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from biaslab.analyses.ratings import sample
from biaslab.analyses.ratings.analysis import NOT_ANNOTATED, agreement
from biaslab.analyses.ratings.sample import candidates, draw
from biaslab.errors import InputError, ParameterError
from biaslab.ratings import annotations

OCCUPATIONS = ("nurse", "pilot", "baker")


@pytest.fixture
def judgements():
    """30 training images (10 for each occupation) and 6 generated ones; of each source the last was not judged."""
    out = {}
    for source, n in (("training", 30), ("generated", 6)):
        rows = pd.DataFrame({"image_id": [f"{source[0]}{k}" for k in range(n)], "status": "judged"})
        rows["occupation"] = np.resize(OCCUPATIONS, n)
        rows["gender"], rows["probability_female"] = np.resize(["female", "male"], n), np.resize([0.95, 0.02], n)
        rows.loc[n - 1, ["status", "gender", "probability_female"]] = ["no_face", "", np.nan]
        out[source] = rows
    return out


@pytest.fixture
def every(judgements):
    return pd.concat([table.assign(source=source) for source, table in judgements.items()], ignore_index=True)


@pytest.fixture
def drawn(judgements):
    """12 images of the sample of a notebook."""
    return draw(candidates(judgements)[["image_id", "source", "occupation"]], 12, seed=1)


def test_the_sample_is_spread_over_sources_and_occupations(judgements):
    images = candidates(judgements)
    found = draw(images, 16, seed=3)
    # Half and half would be 8 and 8; there are only 5 generated images to judge, so training gives 11.
    assert Counter(found["source"]) == {"training": 11, "generated": 5}
    # 11 of training over three occupations: 4, 4 and 3.
    training = Counter(found.loc[found["source"] == "training", "occupation"])
    assert sorted(training.values()) == [3, 4, 4]
    assert len(found) == 16 and found["image_id"].is_unique
    pd.testing.assert_frame_equal(found, draw(images, 16, seed=3))
    assert list(found["image_id"]) != list(draw(images, 16, seed=4)["image_id"])
    # An image of two occupations is drawn once.
    found = draw(pd.concat([images, images.assign(occupation="clerk")], ignore_index=True), 1000, seed=0)
    assert len(found) == 34 and found["image_id"].is_unique
    with pytest.raises(ParameterError, match="n, the number of images to annotate, is 0"):
        draw(images, 0, seed=0)
    assert draw(images[:0], 5, seed=0).empty


def test_made_up_raters_err_as_often_as_they_are_told(judgements):
    drawn = draw(candidates(judgements)[["image_id", "source", "occupation"]], 34, seed=1)
    truth = pd.Series("female", index=drawn["image_id"])
    truth.iloc[:4] = "neither"
    made = sample.simulate(drawn, truth.iloc[:30], 60, seed=0, error=0.2, unsure=0.1)
    assert made["annotator"].unique().tolist() == [f"simulated-{k}" for k in range(1, 61)]
    table = made["label"].to_numpy().reshape(60, 34).T
    assert set(table[:4].flat) == {"unsure"} and set(table[30:].flat) == {""}
    counts = Counter(table[4:30].flat)
    n = 26 * 60
    # Four standard deviations of a share of 1,560.
    assert counts["male"] / n == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / n))
    assert counts["unsure"] / n == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / n))
    with pytest.raises(ParameterError, match=r"error is 0\.9"):
        sample.simulate(drawn, truth, seed=0, error=0.9, unsure=0.2)


def test_ratings_come_from_the_file_then_from_made_up_raters(drawn, tmp_path):
    truth = pd.Series("female", index=drawn["image_id"])[:5]
    for none in ({}, {"truth": truth, "simulated": 0}):
        found = sample.collect(drawn, seed=1, **none)
        assert found.annotations.empty and found.note.startswith("No annotations yet: the sample has 12")
    made = sample.collect(drawn, truth=truth, seed=1, simulated=3, error=0, unsure=0)
    assert made.kind == "simulated" and made.note.startswith(
        "SIMULATED annotations, not by people: 3 simulated annotators"
    )
    assert "5 of 12 images" in made.note and made.annotations["annotator"].nunique() == 3
    assert (sample.votes(made.annotations) == "female").sum() == 5 and len(sample.votes(made.annotations)) == 5
    path = tmp_path / "r.csv"
    path.write_text("image,source,occupation,x,y\nt1,training,nurse,female,male\n")
    assert sample.collect(drawn, path, truth, seed=1).note == "Annotations come from r.csv: 2 annotators."
    path.write_text("occupation,source,percent_female,n\nnurse,generated,50,2\nnurse,training,50,2\n")
    with pytest.raises(InputError, match="no column 'image_id'"):
        sample.collect(drawn, path, seed=1)


def test_truth_as_a_notebook_gives_it(judgements):
    assert sample.truth(judgements).empty
    told = judgements["training"].assign(truth_gender=["female", None] * 15)
    # An image that stands there twice counts once.
    found = sample.truth({"training": pd.concat([told, told[:2]]), "generated": judgements["generated"]})
    assert Counter(found) == {"female": 15, "neither": 15}


def write(path, *rows):
    path.write_text("\n".join(["image,source,occupation,ana,ben,cid", *rows, ""]))
    return annotations.read(path)


def test_agreement_by_hand(every, tmp_path):
    # The judge says female of even images, male of odd ones.
    rated = write(
        tmp_path / "r.csv",
        "t0,training,nurse,female,female,female",  # as the judge
        "t1,training,pilot,male,male,unsure",  # as the judge
        "t2,training,baker,male,male,female",  # not as the judge
        "g0,generated,nurse,unsure,unsure,female",  # the annotators are unsure
        "g1,generated,pilot,male,female,",  # a tie
    )
    table = agreement(rated, annotations.votes(rated), every, seed=0, replicates=200)
    found = table.set_index(["statistic", "labels", "subset"])
    two = found.loc[("judge_agreement", "female/male", "all")]
    assert two["value"] == pytest.approx(100 * 2 / 3) and two["n_items"] == 3 and two["paper_text_value"] == 98
    three = found.loc[("judge_agreement", "female/male/unsure", "all")]
    assert three["value"] == pytest.approx(50) and three["n_items"] == 4 and np.isnan(three["paper_text_value"])
    none = found.loc[("judge_agreement", "female/male", "generated")]
    assert np.isnan(none["value"]) and none["n_items"] == 0 and none["reason"].startswith("no image has both")
    # Krippendorff, female/male, over t0 (fff), t1 (mm), t2 (mmf), g1 (mf). Disagreeing ordered pairs over (annotators -
    # 1): 0 + 0 + 4/2 + 2/1 = 4. Labels: 5 female, 5 male of 10: expected 2 * 5 * 5 / 9. Alpha = 1 - 4 / (50 / 9) =
    # 0.28.
    alpha = found.loc[("krippendorff_alpha", "female/male", "all")]
    assert alpha["value"] == pytest.approx(0.28) and alpha["n_items"] == 4 and alpha["n_annotators"] == 3
    wrong = sample.disagreements(rated, every)
    # The judge gave g1 0.02 and the others 0.95: it was surest of g1.
    assert list(wrong["image_id"]) == ["g1", "t2", "g0"]


def test_nothing_rated_gives_rows_with_a_reason(drawn, every):
    nothing = sample.collect(drawn, seed=0).annotations
    found = agreement(nothing, annotations.votes(nothing), every, seed=0)
    # Three statistics of annotators and that of the judge, by two sets of labels and three subsets.
    assert len(found) == 24 and (found["reason"] == NOT_ANNOTATED).all() and found["value"].isna().all()
    assert sample.votes(nothing).empty and sample.disagreements(nothing, every).empty


def test_collect_file_without_source_and_occupation_takes_those_of_the_sample(drawn, tmp_path):
    path = tmp_path / "r.csv"
    known = drawn.set_index("image_id").loc[list(drawn["image_id"][:3])]
    path.write_text("image_id,ana\n" + "".join(f"{image_id},female\n" for image_id in known.index))
    found = sample.collect(drawn, path, seed=1).annotations.set_index("image_id")
    assert found["source"].to_dict() == known["source"].to_dict()
    assert found["occupation"].to_dict() == known["occupation"].to_dict()
    # Of an image that is not in the sample, the file has to say it.
    path.write_text("image_id,ana\nelsewhere,female\n")
    with pytest.raises(InputError, match="occupation of image 'elsewhere' is empty"):
        sample.collect(drawn, path, seed=1)
