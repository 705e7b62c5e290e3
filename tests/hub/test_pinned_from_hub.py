"""A network that is known by its digest, fetched from the hub where no package brings it."""

import hashlib

import pytest
from fake_hub import Repository
from huggingface_hub import constants

from biaslab.errors import MissingInputError, ParameterError
from biaslab.hub import huggingface as hub_names
from biaslab.judges import pinned
from biaslab.judges.pinned import PINNED, YUNET
from biaslab.judges.registry import parse

DATA = b"a network of the hub"
COMMIT, OTHER = "1" * 40, "2" * 40
NAME, FILE = "owner/network", "network.onnx"


@pytest.fixture
def repository(hub, tmp_path, monkeypatch):
    """Serve a network at the commit that is pinned, another one at a later one; `yunet` stands for the first."""
    told = {"path": FILE, "size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest(), "on_hub": f"{NAME}@{COMMIT}"}
    pin = PINNED[YUNET]._replace(**told, module="no_such_package_is_installed")
    monkeypatch.setitem(PINNED, YUNET, pin)
    commits = {}
    for commit, data in ((COMMIT, DATA), (OTHER, b"moved on")):
        (folder := tmp_path / commit).mkdir()
        (folder / FILE).write_bytes(data)
        (folder / "demo.py").write_text("raise RuntimeError")
        commits[commit] = {path.name: path for path in folder.iterdir()}
    hub.repositories[NAME] = Repository(commits)
    return hub.repositories[NAME]


def test_it_is_looked_up_without_its_bytes_and_fetched_alone(hub, repository):
    (located,) = parse(YUNET, "judging.faces").files()
    assert (located.size, located.download, located.commit) == (len(DATA), len(DATA), COMMIT)
    assert hub.fetched(FILE) == 0
    assert pinned.content(YUNET) == DATA
    files = {asked.path for asked in hub.log if asked.method == "GET" and "/resolve/" in asked.path}
    assert files == {f"/{NAME}/resolve/{COMMIT}/{FILE}"}
    # It is here from then on, with the hub or without.
    assert pinned.look_up(YUNET).download == 0
    hub.log.clear()
    repository.closed = "private"
    hub_names._failures[constants.ENDPOINT] = float("inf"), OSError("gone")
    assert pinned.content(YUNET) == DATA and hub.fetched(FILE) == 0


@pytest.mark.parametrize("data", [DATA * 1000, DATA.upper()])
def test_a_file_of_other_bytes_is_refused_when_it_is_loaded(repository, data):
    repository.commits[COMMIT][FILE].write_bytes(data)
    pytest.importorskip("cv2", reason="judging needs the extra 'models'")
    with pytest.raises(ParameterError, match="is not the file of 'yunet'"):
        parse(YUNET, "judging.faces").load()


@pytest.mark.parametrize("closed", ["private", "gated"])
def test_a_hub_that_does_not_give_it_is_told_with_the_package_that_does(repository, closed):
    repository.closed = closed
    with pytest.raises(MissingInputError) as missing:
        parse(YUNET, "judging.faces").files()
    assert NAME in str(missing.value)
    assert f"Or install the package that contains it: {pinned.install_command(YUNET)}." in str(missing.value)
