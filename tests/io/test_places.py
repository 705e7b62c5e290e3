"""The cache's folder: by the environment, by the project, and never next to one of an earlier version."""

import re

import pytest

from biaslab.errors import ParameterError
from biaslab.io import places


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Work in a project without a cache, with neither variable set."""
    for name in ("notebooks", "params", "outputs"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("BIASLAB_CACHE", "BIASLAB_STORE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_default_root_without_variable_is_in_project(project):
    assert places.default_root() == project / "outputs/.cache"


def test_default_root_with_old_variable_names_new_one(project, monkeypatch):
    monkeypatch.setenv("BIASLAB_STORE", "/data/paid")
    with pytest.raises(
        ParameterError, match=r"BIASLAB_STORE is now called BIASLAB_CACHE\. Set BIASLAB_CACHE=/data/paid"
    ):
        places.default_root()
    monkeypatch.setenv("BIASLAB_CACHE", "/data/paid")
    assert str(places.default_root()) == "/data/paid"


def test_default_root_with_old_folder_names_rename_command(project):
    (old := project / "outputs/.store").mkdir()
    new = project / "outputs/.cache"
    with pytest.raises(ParameterError, match=re.escape(f"mv {old} {new}")):
        places.default_root()
    old.rename(new)
    assert places.default_root() == new


def test_default_root_with_both_folders_is_new_one(project):
    for name in (".store", ".cache"):
        (project / "outputs" / name).mkdir()
    assert places.default_root() == project / "outputs/.cache"
