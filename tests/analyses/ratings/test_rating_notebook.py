"""The annotation notebook, cell by cell, on synthetic images with known ground truth and judgements."""

import json
import re
import types
from itertools import product

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.analyses.calibration.analysis import UNKNOWN
from biaslab.planning.measures import table_of
from biaslab.schema import tables
from biaslab.study import study as module

pytestmark = pytest.mark.long

OCCUPATIONS = ("nurse", "pilot", "baker", "clerk")


def judgements_of(kind):
    """Every second image shows a woman; the judge rejects every tenth and errs on every 20th."""
    k = np.arange(240)
    female, judged, right = k % 2 == 0, k % 10 != 9, k % 20 != 4
    said = np.where(female == right, "female", "male")
    rows = pd.DataFrame({"image_id": [f"{kind}-{i}" for i in k], "occupation": [OCCUPATIONS[i // 2 % 4] for i in k]})
    rows = rows.assign(status=np.where(judged, "judged", "no_face"), gender=np.where(judged, said, ""))
    rows["probability_female"] = np.where(judged, np.where(said == "female", 0.97, 0.03), np.nan)
    rows[["x0", "y0", "x1", "y1"]] = 2.0, 2.0, 9.0, 9.0
    return rows.assign(truth_gender=np.where(female, "female", "male")) if kind == "training" else rows


class MadeUp(module.Study):
    """A study on arrays as images, with shares of one measured and one printed model."""

    pipeline = types.SimpleNamespace(label="mini", training_domain="drawings")

    def images(self, kind):
        pixels = np.random.default_rng(240).integers(0, 256, (240, 16, 16, 3), dtype=np.uint8)
        return ArrayImages(pixels, [f"{kind}-{k}" for k in range(240)], name=kind)

    def judgements(self, kind):
        return judgements_of(kind)

    def load(self, measure):
        name = table_of(measure)
        assert name == "paradox_percent_female"
        rows = product(("mini", "SD 1.4"), OCCUPATIONS, ("training", "generated"))
        rows = pd.DataFrame(rows, columns=["model", "occupation", "source"])
        return tables.check(rows.assign(approach="naive", prompt="1", percent_female=40.0, n=50.0), name)


@pytest.fixture
def execute(root, tmp_path, monkeypatch):
    """Return a function that runs the notebook with parameters and returns its names."""
    monkeypatch.setattr("biaslab.study.Study", MadeUp)
    mpl.use("Agg")

    def run(**parameters):
        path = root / "notebooks" / "paradox" / "a_4_rating.ipynb"
        space = {}
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] != "code":
                continue
            exec("".join(cell["source"]), space)
            if "parameters" in cell["metadata"].get("tags", []):
                short = {"output_dir": str(tmp_path / "out"), "bootstrap_replicates": 200, "n_annotated_images": 60}
                space.update({"source": "mini"} | short | parameters)
        return space

    with mpl.rc_context():
        yield run


def read(tmp_path, name):
    return tables.read(tmp_path / "out" / "tables" / f"{name}.csv", name)


def findings(tmp_path):
    return json.loads((tmp_path / "out" / "records.json").read_text())["findings"]


def test_rating_notebook_without_file_simulates_annotators(execute, tmp_path):
    space = execute(simulated_error_rate=0.0, simulated_unsure_rate=0.0)
    # 30 of each source; generated images have no ground truth.
    assert space["labelled"]["source"].value_counts().to_dict() == {"training": 30}
    result = read(tmp_path, "ratings_agreement").set_index(["statistic", "labels", "subset"])
    assert result.loc[("krippendorff_alpha", "female/male", "all"), "value"] == 1
    judge = result.loc[("judge_agreement", "female/male", "all")]
    sampled_ids = [i for i in space["drawn"]["image_id"] if i.startswith("training")]
    wrong = sum(int(i.split("-")[1]) % 20 == 4 for i in sampled_ids)
    assert judge["value"] == pytest.approx(100 * (30 - wrong) / 30) and judge["n_items"] == 30
    # The annotators are stated with their annotations.
    assert findings(tmp_path)[0]["details"][0].startswith(
        "SIMULATED annotations, not by people: 7 simulated annotators"
    )
    if wrong:
        assert (tmp_path / "out" / "figures" / "judging_disagreements.png").is_file()
    errors = read(tmp_path, "calibration_error").query("reference == 'truth'")
    assert set(errors["quantity"]) == {"gender: training"}
    # Of 240 training images, those of k % 20 == 4 (12, all women) are labelled male; every tenth, a man, is rejected.
    of_all = errors[errors["subject"] == "all"].set_index("measure")["value"]
    assert of_all["sensitivity"] == pytest.approx(100 * 108 / 120) and of_all["specificity"] == 100
    assert of_all["classified_male"] == pytest.approx(80)
    corrected = read(tmp_path, "calibration_corrected")
    assert set(corrected["model"]) == {"mini"} and len(corrected) == 8
    training, generated = (corrected[corrected["quantity"] == f"gender: {of}"] for of in ("training", "generated"))
    # 40% are labelled female, as are 90% of women and no man: 44.4%.
    pooled_rows = training[training["subject_of_error"] == "all"]
    assert (pooled_rows["estimate_corrected"] - 100 * 0.4 / 0.9).abs().max() < 1e-6
    assert set(generated["reason"]) == {UNKNOWN}
    # The last answers are of the judge.
    assert "Yes." in {f["answer"] for f in findings(tmp_path)[2:]}


def test_rating_notebook_with_file_corrects_shares(execute, tmp_path):
    rows = ["image,source,occupation,ana,ben"]
    for kind, k in product(("training", "generated"), range(120)):
        label = "female" if k % 2 == 0 else "male"
        rows.append(f"{kind}-{k},{kind},{OCCUPATIONS[k // 2 % 4]},{label},{label}")
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(rows) + "\n")
    space = execute(annotations_file=str(path))
    assert space["collected"].kind == "annotations"
    assert findings(tmp_path)[0]["details"][0] == "Annotations come from ratings.csv: 2 annotators."
    result = read(tmp_path, "ratings_agreement").set_index(["statistic", "labels", "subset"])
    # In each 120, 12 are rejected and 6 are misclassified: 102 of 108 agree with the annotators.
    both = result.loc[("judge_agreement", "female/male", "all")]
    assert both["value"] == pytest.approx(100 * 102 / 108) and both["n_items"] == 216 and both["n_annotators"] == 2
    corrected = read(tmp_path, "calibration_corrected")
    assert (corrected["reason"] == "").all() and corrected["estimate_corrected"].notna().all()


@pytest.mark.parametrize("show_faces", [False, True])
def test_rating_notebook_reads_answers_of_its_page(execute, tmp_path, monkeypatch, show_faces):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(MadeUp, "real_faces", True)
    space = execute(output_dir="", show_faces=show_faces)
    text = space["page"].path.read_text(encoding="utf-8")
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    data = json.loads(block)
    # Faces in training images are on the page only if requested.
    expected_rows = space["drawn"] if show_faces else space["drawn"].query("source == 'generated'")
    header = ["image_id", "position", "question", "probability", "source", "occupation"]
    assert data["header"] == header and len(data["pictures"]) == len(expected_rows)
    assert [row[0] for row in data["rows"]] == list(expected_rows["image_id"])
    if show_faces:
        return
    folder = tmp_path / "answers"
    folder.mkdir()
    rows = [",".join([*row, "ana", "female"]) for row in data["rows"]]
    (folder / "ana.csv").write_text("\n".join([",".join([*data["header"], "annotator", "label"]), *rows]))
    assert execute(annotations_file=str(folder))["collected"].annotations["annotator"].unique() == ["ana"]
