"""Files of a release: citation, changes, licence, model cards and a data statement, and their agreement."""

import datetime
import os
import re
import shutil
import subprocess

import pytest
import yaml

from biaslab import __version__

# Sections of every model card.
CARD = ("## How to use", "## Training", "## Evaluation", "## Limitations")


def test_citation_file_is_valid_cff(root):
    content = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    # Citation File Format 1.2.0.
    assert (content["cff-version"], content["type"], content["license"]) == ("1.2.0", "software", "Apache-2.0")
    assert {"message", "title", "authors"} <= set(content) and content["version"] == __version__
    assert len(content["references"]) == 4
    for reference in content["references"]:
        assert {"type", "title", "authors"} <= set(reference) and isinstance(reference["year"], int)
        assert all({"family-names", "given-names"} <= set(author) for author in reference["authors"])


def test_changelog_begins_with_current_version(root):
    heads = re.findall(r"^## (\S+) \((.+)\)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert heads[0][0] == __version__
    for _, when in heads:
        assert when == "not released yet" or datetime.date.fromisoformat(when)


def test_model_cards_and_data_statement_are_complete(root):
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
def test_release_without_tag_is_refused(root, tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(tmp_path)]
    changes = tmp_path / "CHANGELOG.md"
    of_version = ("CITATION.cff", "CHANGELOG.md", "biaslab/__init__.py", "world/biaslab_world/__init__.py")
    for name in (".ci/release", *of_version):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    subprocess.run([*git, "init", "--quiet"], check=True)
    text = changes.read_text(encoding="utf-8")
    for when, commits, content in (
        ("soon", (), f"CHANGELOG.md has no '## {__version__} (DATE)'"),
        ("2026-11-27", (), "not committed"),
        ("2026-11-27", (["add", "."], ["commit", "--quiet", "-m", "One"]), f"this commit has no tag v{__version__}"),
    ):
        changes.write_text(text.replace("not released yet", when, 1), encoding="utf-8")
        for words in commits:
            subprocess.run([*git, *words], check=True)
        process = subprocess.run([tmp_path / ".ci" / "release"], capture_output=True, text=True)
        assert process.returncode == 2 and content in process.stderr
