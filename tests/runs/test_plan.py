"""``biaslab plan``: sample sizes estimated from the images of a run."""

import json
import re

import pytest

from biaslab import cli, stats
from biaslab.io import reading
from biaslab.schema import tables

# Images judged female of ten, by group and prompt.
WOMEN = {"nurse": (9, 7), "pilot": (0, 6)}


@pytest.fixture
def pilot(tmp_path):
    """Return the folder of a run with images of two groups, two prompts each."""
    rows = []
    for group, counts in WOMEN.items():
        for k, women in enumerate(counts):
            for i in range(10):
                prompt, gender = f"a {group}, {k}", "female" if i < women else "male"
                row = {"model": "m", "group": group, "prompt": prompt, "image_id": f"{group}-{k}/{i}", "position": 1}
                rows.append(
                    row | {"status": "judged", "gender": gender, "probability_female": float(gender == "female")}
                )
    folder = tmp_path / "outputs" / "first"
    tables.write(tables.make_table(rows, "custom_people"), folder / "measured" / "custom_people.csv")
    settings = {"custom": {"images_per_prompt": 10, "prompts_file": "own.csv"}}
    record = {"run": "first", "parameters": {"source": "pipeline", "confidence": 0.95, "settings": settings}}
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def test_plan_uses_variance_of_run_images(pilot, tmp_path, capsys):
    assert cli.main(["plan", "first", "--outputs", str(tmp_path / "outputs"), "--precision", "20"]) == 0
    out = capsys.readouterr().out
    rows = [re.split(r" {2,}", row) for row in out.splitlines()]
    # Over groups as strata_mean has it: shares 0.8 and 0.3 of 20 images, within 2% of a variance.
    expected = stats.strata_mean([16, 6], [20, 20])
    assert (
        rows[0][0] == "margin of error (95%)"
        and rows[1][0] == "share perceived as female of m (%)"
        and rows[1][2:4] == ["10", "40"]
    )
    assert float(rows[1][1]) == pytest.approx(50 * (expected.ci_high - expected.ci_low), rel=0.02)
    # Of the groups the one with the wider interval, 7 of 22 against 17 of 22 women.
    (position,) = (k for k, row in enumerate(rows) if len(row) > 3 and row[0].startswith("share perceived as female, "))
    assert rows[position][0] == "share perceived as female, pilot (widest interval), of m (%)" and rows[position][
        2:4
    ] == [
        "10",
        "20",
    ]
    assert [row[1:3] for row in rows[position + 1 : position + 3]] == [["to reach", "20.0"], ["to reach", "10.0"]]
    # ±20 points need at most the existing number of images.
    command = f"biaslab run {pilot / 'params.yaml'} --set custom.images_per_prompt=10 --set run=first-20"
    assert out.splitlines()[-1] == command
    # Images of a prompt vary by (0.09 + 0.21 + 0 + 0.24) / 4 x 10 / 9 = 0.15; prompts 10 (0.02 + 0.18) / 2 = 1, that is
    # by (1 - 0.15) / 10 = 0.085 about their group, and half of that about the mean of just two: 0.0425 of 0.1925.
    assert "Variance components of share perceived as female of m: wording 22%, seed 78%.\n" in out


def test_plan_annotations_attribute_variance_to_judge(pilot, capsys):
    """Annotators label as male every second person whom the judge classified as female."""
    annotation_rows = [
        {"image_model": "", "source": "generated", "image_id": f"{group}-{k}/{i}", "position": 1, "n_annotators": 1}
        | {"label": "female" if i < women and i % 2 else "male", "probability": 0.5}
        for group, counts in WOMEN.items()
        for k, women in enumerate(counts)
        for i in range(10)
    ]
    tables.write(tables.make_table(annotation_rows, "precision_ratings"), pilot / "measured" / "precision_ratings.csv")
    assert cli.main(["plan", str(pilot)]) == 0
    (message,) = re.findall(r"Variance components of share perceived as female of m: (.*)\.", capsys.readouterr().out)
    parts = {name: float(value) for name, value in re.findall(r"(\w+) (\d+)%", message)}
    # A bias of 27 points: far more than the standard error of 7 from images.
    assert parts["judge"] > 80 and sum(parts.values()) == pytest.approx(100, abs=2)


def test_plan_invalid_input_is_refused(pilot, tmp_path, capsys):
    outputs = ["--outputs", str(tmp_path / "outputs")]
    for words, message in (
        (["other"], "There is no run 'other'"),
        (["first", "--precision", "60"], "--precision is 60; it must be"),
    ):
        assert cli.main(["plan", *words, *outputs]) == 2
        assert message in capsys.readouterr().err
    (pilot / "measured" / "custom_people.csv").unlink()
    assert cli.main(["plan", "first", *outputs]) == 2
    assert "The run 'first' has no headline estimate from images of people" in capsys.readouterr().err


def test_plan_image_folder_names_no_setting(pilot, capsys):
    record = json.loads((pilot / "run.json").read_text())
    record["parameters"]["model"] = "images:some"
    (pilot / "run.json").write_text(json.dumps(record))
    assert cli.main(["plan", str(pilot), "--precision", "20"]) == 0
    out = capsys.readouterr().out
    assert "The images come from a folder. Add images up to the numbers in the table, and run again.\n" in out
    assert "setting" not in out and "seed" not in out
    assert "biaslab run" not in out


def test_plan_truncated_measured_table_is_refused(pilot, tmp_path, capsys):
    path, record = pilot / "measured/custom_people.csv", json.loads((pilot / "run.json").read_text())
    (pilot / "run.json").write_text(json.dumps(record | {"files": reading.digests(pilot, [path])}))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:11]))
    assert cli.main(["plan", "first", "--outputs", str(tmp_path / "outputs")]) == 2
    assert "measured/custom_people.csv was changed since the run ended" in capsys.readouterr().err
