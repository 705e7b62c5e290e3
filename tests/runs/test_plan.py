"""``biaslab plan``: the sizes that a run's own images tell."""

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
    """Return a run's folder of pictures of two groups, two prompts each."""
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


def test_a_plan_goes_by_the_images_of_a_run(pilot, tmp_path, capsys):
    assert cli.main(["plan", "first", "--outputs", str(tmp_path / "outputs"), "--precision", "20"]) == 0
    out = capsys.readouterr().out
    rows = [re.split(r" {2,}", row) for row in out.splitlines()]
    # Over groups as strata_mean has it: shares 0.8 and 0.3 of 20 images, within 2% of a variance.
    found = stats.strata_mean([16, 6], [20, 20])
    assert (
        rows[0][0] == "margin of error (95%)"
        and rows[1][0] == "share perceived as female of m (%)"
        and rows[1][2:4] == ["10", "40"]
    )
    assert float(rows[1][1]) == pytest.approx(50 * (found.ci_high - found.ci_low), rel=0.02)
    # Of the groups the one with the wider interval, 7 of 22 against 17 of 22 women.
    (at,) = (k for k, row in enumerate(rows) if len(row) > 3 and row[0].startswith("share perceived as female, "))
    assert rows[at][0] == "share perceived as female, pilot (widest interval), of m (%)" and rows[at][2:4] == [
        "10",
        "20",
    ]
    assert [row[1:3] for row in rows[at + 1 : at + 3]] == [["to reach", "20.0"], ["to reach", "10.0"]]
    # ±20 points take as many as there are, or fewer.
    command = f"biaslab run {pilot / 'params.yaml'} --set custom.images_per_prompt=10 --set run=first-20"
    assert out.splitlines()[-1] == command
    # Images of a prompt vary by (0.09 + 0.21 + 0 + 0.24) / 4 x 10 / 9 = 0.15; prompts 10 (0.02 + 0.18) / 2 = 1, that is
    # by (1 - 0.15) / 10 = 0.085 about their group, and half of that about the mean of just two: 0.0425 of 0.1925.
    assert "Variance components of share perceived as female of m: wording 22%, seed 78%.\n" in out


def test_what_ratings_contradict_is_the_judges_part(pilot, capsys):
    """Annotators call every second of the women whom the judge sees in half of the images a man."""
    rated = [
        {"image_model": "", "source": "generated", "image_id": f"{group}-{k}/{i}", "position": 1, "n_annotators": 1}
        | {"label": "female" if i < women and i % 2 else "male", "probability": 0.5}
        for group, counts in WOMEN.items()
        for k, women in enumerate(counts)
        for i in range(10)
    ]
    tables.write(tables.make_table(rated, "precision_ratings"), pilot / "measured" / "precision_ratings.csv")
    assert cli.main(["plan", str(pilot)]) == 0
    (said,) = re.findall(r"Variance components of share perceived as female of m: (.*)\.", capsys.readouterr().out)
    parts = {name: float(value) for name, value in re.findall(r"(\w+) (\d+) %", said)}
    # 27 points too many: far more than by images, which bring a standard error of 7.
    assert parts["judge"] > 80 and sum(parts.values()) == pytest.approx(100, abs=2)


def test_what_no_plan_can_be_made_of(pilot, tmp_path, capsys):
    outputs = ["--outputs", str(tmp_path / "outputs")]
    for words, said in (
        (["other"], "There is no run 'other'"),
        (["first", "--precision", "60"], "--precision is 60; allowed are"),
    ):
        assert cli.main(["plan", *words, *outputs]) == 2
        assert said in capsys.readouterr().err
    (pilot / "measured" / "custom_people.csv").unlink()
    assert cli.main(["plan", "first", *outputs]) == 2
    assert "The run 'first' has no headline estimate from images of people" in capsys.readouterr().err


def test_of_pictures_that_are_there_no_setting_is_told(pilot, capsys):
    record = json.loads((pilot / "run.json").read_text())
    record["parameters"]["model"] = "images:some"
    (pilot / "run.json").write_text(json.dumps(record))
    assert cli.main(["plan", str(pilot), "--precision", "20"]) == 0
    out = capsys.readouterr().out
    assert "The images come from a folder. Add images up to the numbers in the table, and run again.\n" in out
    assert "setting" not in out and "seed" not in out
    assert "biaslab run" not in out


def test_a_run_whose_measured_table_was_cut_is_not_planned_from(pilot, tmp_path, capsys):
    path, record = pilot / "measured/custom_people.csv", json.loads((pilot / "run.json").read_text())
    (pilot / "run.json").write_text(json.dumps(record | {"files": reading.digests(pilot, [path])}))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:11]))
    assert cli.main(["plan", "first", "--outputs", str(tmp_path / "outputs")]) == 2
    assert "measured/custom_people.csv was changed since the run ended" in capsys.readouterr().err
