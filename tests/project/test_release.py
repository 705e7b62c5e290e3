"""What a release carries beside code: citation, changes, licence, cards and a data statement, and that they agree."""

import datetime
import os
import re
import shutil
import subprocess

import pytest
import yaml

from biaslab import __version__

# What every card of the weights says.
CARD = ("## How to use", "## Training", "## Evaluation", "## Limitations")


def test_the_citation_file_has_what_its_format_asks_for(root):
    said = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    # Citation File Format 1.2.0.
    assert (said["cff-version"], said["type"], said["license"]) == ("1.2.0", "software", "Apache-2.0")
    assert {"message", "title", "authors"} <= set(said) and said["version"] == __version__
    assert len(said["references"]) == 4
    for reference in said["references"]:
        assert {"type", "title", "authors"} <= set(reference) and isinstance(reference["year"], int)
        assert all({"family-names", "given-names"} <= set(author) for author in reference["authors"])


def test_changes_begin_with_this_version(root):
    heads = re.findall(r"^## (\S+) \((.+)\)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert heads[0][0] == __version__
    for _, when in heads:
        assert when == "not released yet" or datetime.date.fromisoformat(when)


def test_every_card_is_whole_and_all_models_have_a_data_statement(root):
    weights = root / "world" / "biaslab_world" / "weights"
    statement = (weights.parent / "DATA.md").read_text(encoding="utf-8")
    folders = {path.name for path in weights.iterdir()}
    for name in folders:
        card = (weights / name / "README.md").read_text(encoding="utf-8")
        assert all(head in card for head in CARD), name
        assert f"python -m training {name}" in card and "Apache-2.0" in statement and f"`{name}`" in statement
    heads = ("Composition", "Motivation", "People", "Language", "Planted biases", "Annotation")
    assert all(f"## {head}\n" in statement for head in heads)


@pytest.mark.skipif(os.name != "posix", reason="releases are built on POSIX only")
def test_a_release_is_refused_without_its_tag(root, tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(tmp_path)]
    changes = tmp_path / "CHANGELOG.md"
    of_version = ("CITATION.cff", "CHANGELOG.md", "biaslab/__init__.py", "world/biaslab_world/__init__.py")
    for name in (".ci/release", *of_version):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    subprocess.run([*git, "init", "--quiet"], check=True)
    text = changes.read_text(encoding="utf-8")
    for when, commits, said in (
        ("soon", (), f"CHANGELOG.md has no '## {__version__} (DATE)'"),
        ("2026-11-27", (), "not committed"),
        ("2026-11-27", (["add", "."], ["commit", "--quiet", "-m", "One"]), f"this commit has no tag v{__version__}"),
    ):
        changes.write_text(text.replace("not released yet", when, 1), encoding="utf-8")
        for words in commits:
            subprocess.run([*git, *words], check=True)
        done = subprocess.run([tmp_path / ".ci" / "release"], capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr
