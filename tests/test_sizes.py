"""The half-widths that a dry run says, and the sizes that ``--precision`` takes."""

import re

import pytest

from biaslab import cli, stats

pytest.importorskip("torch", reason="models need the extra 'models'")


@pytest.fixture
def audit(root, tmp_path, monkeypatch, capsys):
    """Return what `biaslab audit` says of a model that draws, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = cli.main(["audit", "world", "--size", "quick", "--notebooks-dir", str(root / "notebooks"), *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def lines(out):
    """Return the table of half-widths: rows of columns."""
    rows = out[out.index("half-widths (95 %)") :].splitlines()
    return [re.split(r" {2,}", row) for row in rows]


def test_a_dry_run_says_half_widths_and_what_narrower_ones_take(audit):
    status, out, _ = audit("--paper", "dalleval", "--dry-run")
    rows = lines(out)
    at = next(k for k, row in enumerate(rows) if row[0] == "average gender (−1 to 1)")
    # 10 professions of 6 images: 2.262 x 2 sqrt((0.1 + 0.15 / 6) / 10); 11 places x 3 words x 6 images are made.
    assert status == 0 and rows[at][1:4] == ["0.506", "6", "198"]
    assert [row[2] for row in rows[at + 1 : at + 4]] == ["0.2", "0.1", "0.04"]
    assert rows[at + 1][3].startswith("no number at 10 professions; 51 professions at 6 images do")
    # With 51 professions of 6 images the half-width is just that.
    assert stats.Design(51, 1, 6, 2, group=0.1, seed=0.15).half_width() <= 0.2
    assert stats.Design(50, 1, 6, 2, group=0.1, seed=0.15).half_width() > 0.2
    assert "Expected before any image" in out


def test_precision_takes_what_the_table_gives_and_no_fewer_than_the_size_has(audit, tmp_path):
    prompts = tmp_path / "own.csv"
    prompts.write_text("prompt,group\na photo of the face of a nurse,nurse\na photo of the face of a pilot,pilot\n")
    # A share of one half has Wilson limits of 1.96 / 2 / sqrt(n + 3.84): 0.1 takes 93 images of each prompt.
    own = ["--prompts", str(prompts), "--dry-run"]
    status, out, _ = audit(*own, "--precision", "10")
    assert status == 0 and "For ±10 points: custom.images=93\n" in out and "Images: 186\n" in out
    (row,) = (row for row in lines(out) if row[0] == "share perceived as female, single group (%)")
    assert row[1:4] == ["9.96", "93", "186"]
    # The ten that the size has are enough for ±40.
    assert "custom.images=10\n" in audit(*own, "--precision", "40")[1]


def test_precision_leaves_what_it_cannot_have(audit):
    # Of 83 professions endless images leave 1.989 x 2 sqrt(0.1 / 83) = 0.138; 18 give 0.144: 4 / 83 (0.1 + 0.15 / 18)
    # is (0.144 / 1.989)².
    given = ["--paper", "dalleval", "--set", "dalleval.professions=0", "--dry-run"]
    _, out, _ = audit(*given, "--precision", "7.2")
    assert "dalleval.social_images=18" in out and f"{84 * 3 * 18:,}" in out
    status, _, err = audit("--paper", "dalleval", "--precision", "2", "--dry-run")
    assert status == 2 and "--precision 2 cannot be had. average gender (−1 to 1): no number at 10 professions" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--precision", "0"], "--precision is 0; allowed are percentage points above 0 and below 50"),
        (["--precision", "50"], "--precision is 50; allowed"),
        (["--precision", "nan"], "--precision is nan; allowed"),
        (["--precision", "10", "--until", "5"], "--precision chooses sizes before images are made, --until meanwhile"),
        (["--precision", "10", "--set", "custom.images=20"], "--precision chooses custom.images, and --set sets it"),
    ],
)
def test_what_precision_cannot_be_is_said_before_any_work(audit, tmp_path, words, said):
    (tmp_path / "own.txt").write_text("a photo of the face of a nurse\n")
    status, out, err = audit("--prompts", "own.txt", *words)
    assert status == 2 and said in err and not out and not list(tmp_path.glob("outputs/*"))
