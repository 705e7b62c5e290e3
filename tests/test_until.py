"""Images in batches until intervals are narrow: what is aimed at, what counts, when it ends, and what it may cost."""

import json
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from fake_endpoint import drawn
from PIL import Image

from biaslab import cli
from biaslab.ground.errors import BiaslabError
from biaslab.ground.tables import Rounds
from biaslab.runs import audit, jobs, params, runner, until
from biaslab.stats import confidence_sequence

PROMPTS = "prompt,group\na nurse,nurse\na nurse at work,nurse\na pilot,pilot\n"


def planned(root, *names, overrides=(), **how):
    asked = audit.params_of(names, **how)
    return params.load(runner.PARAMS, given=asked, overrides=overrides, notebooks_dir=root / "notebooks")


@pytest.mark.parametrize("text", ["0", "60", "nan", "wide", "-5"])
def test_what_cannot_be_aimed_at_is_refused_before_anything_else(text, capsys):
    assert cli.main(["audit", "nowhere/at-all", "--until", text]) == 2
    said = capsys.readouterr().err
    assert f"--until is '{text}'" in said and "0.5 to 30" in said


@pytest.mark.parametrize(
    ("names", "prompts", "how", "said"),
    [
        (["mini"], "prompt,n\na nurse,4\na pilot,\n", {}, "leave the column n out"),
        (["mini"], PROMPTS, {"overrides": ["custom.images=7"]}, r"custom\.images is set"),
        (["mini"], PROMPTS, {"overrides": ["seed=[1, 2]"]}, "one value of seed"),
        (["mini"], PROMPTS, {"papers": ["triplets"]}, "--prompts"),
        # Of pictures that are there no more are made.
        (["images:theirs"], "", {}, "no more can be made"),
    ],
)
def test_what_says_the_number_itself_is_refused(root, tmp_path, monkeypatch, names, prompts, how, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text(prompts)
    (tmp_path / "theirs" / "nurse").mkdir(parents=True)
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save("theirs/nurse/a.png")
    checked = planned(root, *names, prompts="p.csv" if prompts else "", **how)
    with pytest.raises(BiaslabError, match=said):
        until.at_most(checked, 10)


def test_the_most_is_three_times_a_fixed_number_for_prompts_and_professions(root, tmp_path):
    (tmp_path / "p.txt").write_text("a nurse\na pilot\n")
    # (50 * 1.96 / 10)² = 96.04, of which 97 are enough.
    checked, said = until.at_most(planned(root, "mini", prompts=str(tmp_path / "p.txt")), 10)
    assert checked.values["settings"]["custom"]["images"] == 291 and "291" in said and "97" in said
    checked, _ = until.at_most(planned(root, "mini", papers=["dalleval"], size="quick"), 10)
    assert checked.values["settings"]["dalleval"]["social_images"] == 291


def test_what_counts_as_an_observation():
    # Of the nurse's first prompt the image 1 shows nobody who is judged; of the second, image 0 shows two people.
    seen = {
        ("nurse", "a nurse"): ["female", "", "male", "male"],
        ("nurse", "a nurse at work"): ["male female", "female", "male"],
        ("pilot", "a pilot"): ["male", "male", "male", "unsure", "male"],
        ("nobody", "a chair"): ["", ""],
    }
    rows = [
        {"model": "m", "group": group, "prompt": prompt, "image_id": f"{prompt}/{k}", "gender": gender}
        for (group, prompt), genders in seen.items()
        for k, each in enumerate(genders)
        for gender in each.split(" ")
    ]
    rounds, frame = Rounds(setting="custom.images", table="custom_people"), pd.DataFrame(rows)
    # The k-th images that count: (1, 0.5), (0, 1), (0, 0) of the nurse; all 0 of the pilot.
    expected = {"nurse": [0.75, 0.5, 0], "pilot": [0, 0, 0, 0], until.ALL: [0.375, 0.25, 0]}
    found = pd.DataFrame(until.intervals(frame[frame["group"] != "nobody"], rounds, 20, 0.5))
    assert found["group"].tolist() == [*expected] and found["n"].tolist() == [3, 4, 3]
    assert found["percent_female"].tolist() == pytest.approx([125 / 3, 0, 62.5 / 3])
    for row, values in zip(found.itertuples(), expected.values(), strict=True):
        low, high = confidence_sequence(values, 0.2, 0.5)
        assert (row.ci_low, row.ci_high) == pytest.approx((100 * low[-1], 100 * high[-1]))
    assert found["ci_high"].min() < 100
    # A group of which nobody is judged is known to be anything, and so is the mean.
    rows = {row["group"]: row for row in until.intervals(frame, rounds, 20, 0.5)}
    for group in ("nobody", until.ALL):
        assert [rows[group][key] for key in ("percent_female", "ci_low", "ci_high", "n")] == [None, 0, 100, 0]
    # Only some rows, by the first column that says a gender.
    other = Rounds("a.b", "t", group="prompt", gender=("said", "gender"), only={"group": "pilot"})
    (row,) = until.intervals(frame.assign(said=""), other, 20)
    assert (row["group"], row["n"], row["percent_female"]) == ("a pilot", 4, 0)


@pytest.fixture
def bought(root, server, tmp_path):
    """Return a function of a cost limit: what an audit until ±20 points of a model at an endpoint is changed to.

    Raters say whom images show: of the nurse women, of the pilot men, all alike.
    """
    picture = BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(picture, "PNG")
    server.reply = lambda prompt, n: drawn(picture.getvalue())
    (tmp_path / "p.csv").write_text(PROMPTS)
    ids = [(f"custom-0000{p}/{k}", gender) for p, gender in enumerate(("female", "female", "male")) for k in range(60)]
    rated = pd.DataFrame(ids, columns=["image_id", "gender"]).assign(rater="r", position=1)
    rated.to_csv(tmp_path / "rated.csv", index=False)
    said = []

    def made(limit, points=20.0, seed=1):
        endpoint = {"url": server.url, "price": 0.1, "cost_limit": limit, "key_variable": "FAKE_KEY"}
        sets = [f"endpoint.{name}={value}" for name, value in endpoint.items()]
        sets += [f"judging.gender=ratings:{tmp_path / 'rated.csv'}", f"compute.store={tmp_path / 'store'}"]
        sets += [f"seed={seed}"]
        checked = planned(root, "endpoint:painter", prompts=str(tmp_path / "p.csv"), overrides=sets)
        checked, _ = until.at_most(checked, points)
        said.clear()
        return until.made(checked, points, said.append, progress=False), list(said)

    return made


@pytest.mark.main
def test_never_more_is_bought_than_the_limit_and_nothing_twice(bought, server):
    # 2.05 buys 20 images: 6 of each of 3 prompts, which is less than a first batch.
    changed, said = bought(2.05)
    assert changed.values["settings"]["custom"]["images"] == 6 and len(server.requests) == 18
    assert len(said) == 2 and "The limit of cost ended them at 6 images a prompt" in said[-1]
    assert changed.until["limits"][-1] == said[-1] and {row["n"] for row in changed.until["groups"]} == {6}
    assert bought(2.05)[0].until == changed.until and len(server.requests) == 18
    # With more of it, it goes on from there, and ends when all are narrow.
    changed, said = bought(100)
    n = changed.values["settings"]["custom"]["images"]
    assert len(server.requests) == 3 * n and 6 < n < 30 and len(changed.until["limits"]) == 1
    widths = [row["ci_high"] - row["ci_low"] for row in changed.until["groups"]]
    assert max(widths) <= 40 and len(widths) == 3
    # The run that is changed finds all of them.
    (opened,) = jobs.pipelines(jobs.plan(changed))
    assert len(opened.pipeline.custom.images().table) == 3 * n == len(server.requests)


def test_an_error_after_the_first_batch_ends_it_with_what_there_is(bought, server):
    low, high = confidence_sequence(np.zeros(50), 0.2)
    first = 1 + int((high - low > 0.4 + 1e-9).sum())
    reply = server.reply
    server.reply = lambda prompt, n: (402, {}, "pay") if n > 3 * first + 2 else reply(prompt, n)
    changed, said = bought(100)
    assert changed.values["settings"]["custom"]["images"] == first and len(said) == 2
    assert "wants to be paid first" in said[-1] and f"ended at {first} images a prompt" in said[-1]
    # Before there is any, it is an error.
    server.reply = lambda prompt, n: (402, {}, "pay")
    with pytest.raises(BiaslabError, match="wants to be paid first"):
        bought(100, seed=2)


@pytest.mark.slow
def test_an_audit_until_intervals_are_narrow(root, tmp_path, capsys, monkeypatch, inline):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text("prompt,group\na photo of a nurse,nurse\na photo of a pilot,pilot\n")
    how = ["--prompts", "p.csv", "--until", "30", "--notebooks-dir", str(root / "notebooks"), "--no-progress"]
    how += ["--set", "bootstrap_replicates=200", "--set", "generation.steps=1", "--set", "notebooks=[custom/shares]"]
    assert cli.main(["audit", "mini", *how, "--dry-run"]) == 0
    # (50 * 1.96 / 30)² = 10.7: at most 3 * 11 images of 2 prompts.
    out = capsys.readouterr()
    assert "Images: 66" in out.out and "33 a prompt" in out.out and "images a prompt, with" not in out.err
    assert cli.main(["audit", "mini", *how]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Until ±30 points: ")]
    folder = tmp_path / "outputs/audit-mini-standard-until-30"
    record = json.loads((folder / "run.json").read_text())
    n = record["parameters"]["settings"]["custom"]["images"]
    assert said[-1].startswith(f"Until ±30 points: {n} images a prompt")
    people = pd.read_csv(folder / "measured/custom_people.csv")
    assert people.groupby("prompt")["image_id"].nunique().tolist() == [n] * 2
    assert [row["group"] for row in record["until"]["groups"]] == ["nurse", "pilot", until.ALL]
    page = (folder / "index.html").read_text()
    assert "Images until ±30 points" in page and "do not know of it" in page
    shards = {path: path.stat().st_mtime_ns for path in (tmp_path / "outputs/.store").rglob("*.parquet")}
    assert cli.main(["audit", "mini", *how]) == 0 and "Nothing has changed" in capsys.readouterr().err
    assert shards == {path: path.stat().st_mtime_ns for path in (tmp_path / "outputs/.store").rglob("*.parquet")}
