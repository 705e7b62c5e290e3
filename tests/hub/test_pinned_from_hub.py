"""A network pinned by digest, fetched from the hub if no package contains it."""

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
COMMIT, LATER = "1" * 40, "2" * 40
NAME, FILE = "owner/network", "network.onnx"


@pytest.fixture
def repository(hub, tmp_path, monkeypatch):
    """Serve a network at the pinned commit and another at a later one; `yunet` is pinned to the first."""
    fields = {"path": FILE, "size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest(), "on_hub": f"{NAME}@{COMMIT}"}
    pin = PINNED[YUNET]._replace(**fields, module="no_such_package_is_installed")
    monkeypatch.setitem(PINNED, YUNET, pin)
    commits = {}
    for commit, data in ((COMMIT, DATA), (LATER, b"moved on")):
        (folder := tmp_path / commit).mkdir()
        (folder / FILE).write_bytes(data)
        (folder / "demo.py").write_text("raise RuntimeError")
        commits[commit] = {path.name: path for path in folder.iterdir()}
    hub.repositories[NAME] = Repository(commits)
    return hub.repositories[NAME]


def test_pinned_look_up_fetches_only_its_file(hub, repository):
    (location,) = parse(YUNET, "judging.faces").files()
    assert (location.size, location.download, location.commit) == (len(DATA), len(DATA), COMMIT)
    assert hub.fetched(FILE) == 0
    assert pinned.content(YUNET) == DATA
    files = {request.path for request in hub.log if request.method == "GET" and "/resolve/" in request.path}
    assert files == {f"/{NAME}/resolve/{COMMIT}/{FILE}"}
    # It is cached from then on, with or without the hub.
    assert pinned.look_up(YUNET).download == 0
    hub.log.clear()
    repository.closed = "private"
    hub_names._failures[constants.ENDPOINT] = float("inf"), OSError("gone")
    assert pinned.content(YUNET) == DATA and hub.fetched(FILE) == 0


@pytest.mark.parametrize("data", [DATA * 1000, DATA.upper()])
def test_pinned_hub_file_of_other_bytes_is_refused(repository, data):
    repository.commits[COMMIT][FILE].write_bytes(data)
    pytest.importorskip("cv2", reason="judging needs the extra 'models'")
    with pytest.raises(ParameterError, match="is not the file of 'yunet'"):
        parse(YUNET, "judging.faces").load()


@pytest.mark.parametrize("closed", ["private", "gated"])
def test_pinned_hub_refusal_names_package(repository, closed):
    repository.closed = closed
    with pytest.raises(MissingInputError) as error:
        parse(YUNET, "judging.faces").files()
    assert NAME in str(error.value)
    assert f"Or install the package that contains it: {pinned.install_command(YUNET)}." in str(error.value)
