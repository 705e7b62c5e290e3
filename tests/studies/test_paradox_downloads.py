"""Training images that could not be fetched: survival, bounds, and what is said of them."""

import numpy as np
import pandas as pd
import pytest

from biaslab import tables
from biaslab.stats import wilson_interval
from biaslab.studies import paradox_downloads as downloads
from biaslab.study import Study

COUNTS = [
    # approach, prompt, occupation, outcome, n, female, male
    ("naive", "captions", "nurse", "ok", 8, 6, 1),
    ("naive", "captions", "nurse", "not_found", 1, 0, 0),
    ("naive", "captions", "nurse", "timed_out", 2, 0, 0),
    ("naive", "captions", "engineer", "ok", 10, 2, 8),
    ("naive", "captions", "pilot", "gone", 4, 0, 0),
    ("nearest", "1", "nurse", "ok", 1, 1, 0),
]
# Generated shares, by occupation, for prompts 1 and 2.
GENERATED = {"nurse": (90.0, 100.0), "engineer": (10.0, 0.0), "pilot": (30.0, 60.0)}


@pytest.fixture
def study(tmp_path):
    """Open a study on measured tables of three occupations."""
    source = tmp_path / "measured"
    source.mkdir()

    def write(name, rows, *columns):
        pd.DataFrame(rows, columns=columns).to_csv(source / f"{name}.csv", index=False)

    keys = ["corpus", "approach", "prompt", "occupation", "outcome", "n", "n_female", "n_male"]
    write("paradox_download_outcomes", [("urls", *row) for row in COUNTS], *keys)
    shares = [
        ("mini", a, o, "generated", p, g, 20)
        for a in ("naive", "nearest")
        for o, both in GENERATED.items()
        for p, g in zip("12", both, strict=True)
    ]
    shares += [("mini", "naive", "nurse", "training", "captions", 85.7, 7)]
    shares += [("SD 1.4", "naive", "nurse", "generated", "1", 99.0, 500)]
    columns = ["model", "approach", "occupation", "source", "prompt", "percent_female", "n"]
    write("paradox_percent_female", shares, *columns)
    told = [("mini", "captions.corpus", "urls.csv", "Captions.")]
    write("pipeline_settings", told, "model", "setting", "value", "description")
    row = {c.name: "x" if c.text else 1 for c in tables.schema("paradox_downloads").columns}
    write("paradox_downloads", [tuple(row.values())], *row)
    return Study(tmp_path / "out", source=str(tmp_path), bootstrap_replicates=100)


def test_survival_and_bounds_by_hand(study):
    found = study.table("paradox_image_survival").set_index(["approach", "occupation"])
    nurse = found.loc[("naive", "nurse")]
    assert (nurse["n"], nurse["n_missing"], nurse["most_missing"]) == (11, 3, "timed_out")
    low, high = wilson_interval(8, 11)
    assert nurse["percent"] == pytest.approx(100 * 8 / 11)
    assert (nurse["ci_low"], nurse["ci_high"]) == pytest.approx((100 * low, 100 * high))
    # 6 of 7, and with 3 missing 6 to 9 of 10.
    assert nurse["percent_female"] == pytest.approx(600 / 7)
    assert (nurse["training_low"], nurse["training_high"]) == pytest.approx((60, 90))
    engineer = found.loc[("naive", "engineer")]
    assert (engineer["percent"], engineer["n_missing"], engineer["most_missing"]) == (100, 0, "")
    assert engineer["training_low"] == engineer["percent_female"] == engineer["training_high"] == 20
    pilot = found.loc[("naive", "pilot")]
    assert (pilot["percent"], pilot["training_low"], pilot["training_high"]) == (0, 0, 100)
    assert np.isnan(pilot["percent_female"]) and pilot["reason"]
    assert found.loc[("nearest", "nurse"), "prompt"] == "1"


def test_amplification_is_bounded_for_each_prompt(study):
    table = study.table("paradox_amplification_bounds")
    assert set(table["model"]) == {"mini"}
    found = table.set_index(["approach", "definition", "prompt"])
    # Prompt 1, no exclusion: nurse 40 - 35.7 with bounds 40 - (10 to 40); engineer 40 - 30; pilot 20 - (0 to 50).
    row = found.loc[("naive", "no_exclusion", "1")]
    assert row["amplification"] == pytest.approx((40 - (600 / 7 - 50) + 10) / 2)
    assert (row["lowest"], row["highest"]) == pytest.approx(((0 + 10 - 30) / 3, (30 + 10 + 20) / 3))
    assert row["n_occupations"] == 3
    # Published: the pilot may lean the other way and not count: it does where that is more extreme.
    row = found.loc[("naive", "published", "1")]
    assert (row["lowest"], row["highest"]) == pytest.approx(((0 + 10 - 30) / 3, (30 + 10) / 2))
    # The nearest captions were selected for prompt 1 alone, and lost nothing.
    assert set(table.loc[table["approach"] == "nearest", "prompt"]) == {"1"}
    row = found.loc[("nearest", "published", "1")]
    assert row["lowest"] == row["amplification"] == row["highest"] == 40 - 50


def test_what_is_said_of_missing_images(study, capsys):
    shown = downloads.show(study)
    assert shown["occupation"].tolist() == ["pilot", "nurse", "engineer"]
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(
        "urls: of 25 images asked for (naive), 72.0 % (95 % interval 52.4 to 85.7) could be"
    )
    assert "by occupation between 0.0 % (pilot) and 100.0 % (engineer)." in said[0]
    assert said[0].endswith("Most frequent reasons: gone (4), timed_out (2), not_found (1).")
    # Of nurse and engineer: 85.7 and 20; 60 and 20; 90 and 20.
    assert "is 52.9 %, mean over 2 occupations; it would be 40.0 % if every missing" in said[1]
    assert said[1].endswith("and 55.0 % if every one showed a woman.")
    assert "is -6.7 to 20.0 for prompt 1 (as it is" in said[2] and len(said) == 3
    written = {p.stem for p in (study.output_dir / "tables").iterdir()}
    assert written == {"paradox_image_survival", "paradox_amplification_bounds", "paradox_downloads"}


def test_where_nothing_was_fetched_nothing_is_missing(tmp_path, capsys):
    study = Study(tmp_path, source=str(tmp_path))
    assert downloads.show(study) is None
    assert capsys.readouterr().out == "No images were fetched by URL here: none is missing for that reason.\n"
    assert not (tmp_path / "tables").exists()
