"""Human annotation: the sample, and agreement by hand."""

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
    """30 training images (10 per occupation) and 6 generated ones; the last of each source is not judged."""
    out = {}
    for source, n in (("training", 30), ("generated", 6)):
        rows = pd.DataFrame({"image_id": [f"{source[0]}{k}" for k in range(n)], "status": "judged"})
        rows["occupation"] = np.resize(OCCUPATIONS, n)
        rows["gender"], rows["probability_female"] = np.resize(["female", "male"], n), np.resize([0.95, 0.02], n)
        rows.loc[n - 1, ["status", "gender", "probability_female"]] = ["no_face", "", np.nan]
        out[source] = rows
    return out


@pytest.fixture
def all_judgements(judgements):
    return pd.concat([table.assign(source=source) for source, table in judgements.items()], ignore_index=True)


@pytest.fixture
def sample_rows(judgements):
    """12 images of the sample of a notebook."""
    return draw(candidates(judgements)[["image_id", "source", "occupation"]], 12, seed=1)


def test_draw_spreads_over_sources_and_occupations(judgements):
    images = candidates(judgements)
    result = draw(images, 16, seed=3)
    # Half and half would be 8 and 8; there are only 5 generated images to judge, so training gives 11.
    assert Counter(result["source"]) == {"training": 11, "generated": 5}
    # 11 of training over three occupations: 4, 4 and 3.
    training = Counter(result.loc[result["source"] == "training", "occupation"])
    assert sorted(training.values()) == [3, 4, 4]
    assert len(result) == 16 and result["image_id"].is_unique
    pd.testing.assert_frame_equal(result, draw(images, 16, seed=3))
    assert list(result["image_id"]) != list(draw(images, 16, seed=4)["image_id"])
    # An image of two occupations is drawn once.
    result = draw(pd.concat([images, images.assign(occupation="clerk")], ignore_index=True), 1000, seed=0)
    assert len(result) == 34 and result["image_id"].is_unique
    with pytest.raises(ParameterError, match="n, the number of images to annotate, is 0"):
        draw(images, 0, seed=0)
    assert draw(images[:0], 5, seed=0).empty


def test_simulate_error_rates_match_parameters(judgements):
    sample_rows = draw(candidates(judgements)[["image_id", "source", "occupation"]], 34, seed=1)
    truth = pd.Series("female", index=sample_rows["image_id"])
    truth.iloc[:4] = "neither"
    made = sample.simulate(sample_rows, truth.iloc[:30], 60, seed=0, error=0.2, unsure=0.1)
    assert made["annotator"].unique().tolist() == [f"simulated-{k}" for k in range(1, 61)]
    table = made["label"].to_numpy().reshape(60, 34).T
    assert set(table[:4].flat) == {"unsure"} and set(table[30:].flat) == {""}
    counts = Counter(table[4:30].flat)
    n = 26 * 60
    # Four standard deviations of a share of 1,560.
    assert counts["male"] / n == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / n))
    assert counts["unsure"] / n == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / n))
    with pytest.raises(ParameterError, match=r"error is 0\.9"):
        sample.simulate(sample_rows, truth, seed=0, error=0.9, unsure=0.2)


def test_collect_prefers_file_to_simulated_annotators(sample_rows, tmp_path):
    truth = pd.Series("female", index=sample_rows["image_id"])[:5]
    for none in ({}, {"truth": truth, "simulated": 0}):
        result = sample.collect(sample_rows, seed=1, **none)
        assert result.annotations.empty and result.note.startswith("No annotations yet: the sample has 12")
    made = sample.collect(sample_rows, truth=truth, seed=1, simulated=3, error=0, unsure=0)
    assert made.kind == "simulated" and made.note.startswith(
        "SIMULATED annotations, not by people: 3 simulated annotators"
    )
    assert "5 of 12 images" in made.note and made.annotations["annotator"].nunique() == 3
    assert (sample.votes(made.annotations) == "female").sum() == 5 and len(sample.votes(made.annotations)) == 5
    path = tmp_path / "r.csv"
    path.write_text("image,source,occupation,x,y\nt1,training,nurse,female,male\n")
    assert sample.collect(sample_rows, path, truth, seed=1).note == "Annotations come from r.csv: 2 annotators."
    path.write_text("occupation,source,percent_female,n\nnurse,generated,50,2\nnurse,training,50,2\n")
    with pytest.raises(InputError, match="no column 'image_id'"):
        sample.collect(sample_rows, path, seed=1)


def test_truth_of_judgements_counts_images_once(judgements):
    assert sample.truth(judgements).empty
    truth_rows = judgements["training"].assign(truth_gender=["female", None] * 15)
    # A repeated image counts once.
    result = sample.truth({"training": pd.concat([truth_rows, truth_rows[:2]]), "generated": judgements["generated"]})
    assert Counter(result) == {"female": 15, "neither": 15}


def write(path, *rows):
    path.write_text("\n".join(["image,source,occupation,ana,ben,cid", *rows, ""]))
    return annotations.read(path)


def test_agreement_by_hand(all_judgements, tmp_path):
    # The judge labels even images female and odd ones male.
    rated = write(
        tmp_path / "r.csv",
        "t0,training,nurse,female,female,female",  # as the judge
        "t1,training,pilot,male,male,unsure",  # as the judge
        "t2,training,baker,male,male,female",  # not as the judge
        "g0,generated,nurse,unsure,unsure,female",  # the annotators are unsure
        "g1,generated,pilot,male,female,",  # a tie
    )
    table = agreement(rated, annotations.votes(rated), all_judgements, seed=0, replicates=200)
    result = table.set_index(["statistic", "labels", "subset"])
    two = result.loc[("judge_agreement", "female/male", "all")]
    assert two["value"] == pytest.approx(100 * 2 / 3) and two["n_items"] == 3 and two["paper_text_value"] == 98
    three = result.loc[("judge_agreement", "female/male/unsure", "all")]
    assert three["value"] == pytest.approx(50) and three["n_items"] == 4 and np.isnan(three["paper_text_value"])
    none = result.loc[("judge_agreement", "female/male", "generated")]
    assert np.isnan(none["value"]) and none["n_items"] == 0 and none["reason"].startswith("no image has both")
    # Krippendorff, female/male, over t0 (fff), t1 (mm), t2 (mmf), g1 (mf). Disagreeing ordered pairs over (annotators -
    # 1): 0 + 0 + 4/2 + 2/1 = 4. Labels: 5 female, 5 male of 10: expected 2 * 5 * 5 / 9. Alpha = 1 - 4 / (50 / 9) =
    # 0.28.
    alpha = result.loc[("krippendorff_alpha", "female/male", "all")]
    assert alpha["value"] == pytest.approx(0.28) and alpha["n_items"] == 4 and alpha["n_annotators"] == 3
    wrong = sample.disagreements(rated, all_judgements)
    # The judge gave g1 0.02 and the others 0.95: it was most confident about g1.
    assert list(wrong["image_id"]) == ["g1", "t2", "g0"]


def test_agreement_without_annotations_has_reason(sample_rows, all_judgements):
    nothing = sample.collect(sample_rows, seed=0).annotations
    result = agreement(nothing, annotations.votes(nothing), all_judgements, seed=0)
    # Three statistics of annotators and that of the judge, by two sets of labels and three subsets.
    assert len(result) == 24 and (result["reason"] == NOT_ANNOTATED).all() and result["value"].isna().all()
    assert sample.votes(nothing).empty and sample.disagreements(nothing, all_judgements).empty


def test_collect_completes_source_and_occupation(sample_rows, tmp_path):
    path = tmp_path / "r.csv"
    known_rows = sample_rows.set_index("image_id").loc[list(sample_rows["image_id"][:3])]
    path.write_text("image_id,ana\n" + "".join(f"{image_id},female\n" for image_id in known_rows.index))
    result = sample.collect(sample_rows, path, seed=1).annotations.set_index("image_id")
    assert result["source"].to_dict() == known_rows["source"].to_dict()
    assert result["occupation"].to_dict() == known_rows["occupation"].to_dict()
    # For an image outside the sample, the file must contain it.
    path.write_text("image_id,ana\nelsewhere,female\n")
    with pytest.raises(InputError, match="occupation of image 'elsewhere' is empty"):
        sample.collect(sample_rows, path, seed=1)
