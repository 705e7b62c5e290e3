"""Inception-v3 features equal torchmetrics'; files without its weights are refused, and no pickle is executed."""

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="judging needs the extra 'models'")

from biaslab.errors import InputError, ParameterError  # noqa: E402
from biaslab.judges import features  # noqa: E402
from biaslab.judges.features import InceptionJudge, check_weights  # noqa: E402
from biaslab.judges.judge import JudgeOptions  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of random weights of the network."""
    # Seconds of imports, which a worker that runs no test of this file does without.
    from torch_fidelity import feature_extractor_inceptionv3 as fidelity

    with pytest.MonkeyPatch.context() as patch:
        # Its constructor downloads weights, and takes what it is given.
        patch.setattr(fidelity, "load_state_dict_from_url", lambda *_, **__: {})
        patch.setattr(fidelity.FeatureExtractorInceptionV3, "load_state_dict", lambda *_: None)
        network = fidelity.FeatureExtractorInceptionV3("random", ["2048"])
    torch.manual_seed(0)
    for value in network.parameters():
        if value.dim() == 4:
            # So that differences of images reach the last layer (He et al. 2015, equation 10).
            value.normal_(0, (2 / value[0].numel()) ** 0.5)
    path = tmp_path_factory.mktemp("inception") / "weights.pth"
    torch.save(network.state_dict(), path)
    return path


@pytest.mark.long
def test_inception_features_match_torchmetrics(weights):
    # Seconds of imports, which a worker that runs no test of this file does without.
    from torchmetrics.image.fid import FrechetInceptionDistance

    rng = np.random.default_rng(0)
    # The last two are darker.
    coarse = np.concatenate([rng.integers(0, top, (2, 5, 7, 3), dtype=np.uint8) for top in (256, 90)])
    images = coarse.repeat(4, axis=1).repeat(4, axis=2)
    model = InceptionJudge(str(weights), JudgeOptions(device="cpu"))
    metric = FrechetInceptionDistance(feature=2048, feature_extractor_weights_path=str(weights))
    result = model.embed(list(images))
    assert result.shape == (4, 2048) and result.dtype == np.float32
    reference = metric.inception(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
    np.testing.assert_allclose(result, reference, rtol=1e-4, atol=1e-5 * reference.std())
    with pytest.raises(InputError):
        model.embed([])
    assert np.linalg.matrix_rank(result - result.mean(axis=0)) == 3, "the network must tell images apart"


def test_check_weights_compares_digest_in_file_name(tmp_path):
    content = b"as if these were weights"
    digest = hashlib.sha256(content).hexdigest()
    for name in ("plain.pth", f"w-2015-12-05-{digest[:8]}.pth", f"w-{digest}.pth"):
        (tmp_path / name).write_bytes(content)
        assert check_weights(tmp_path / name) == digest
    # Cut short, as by a download that broke off.
    (tmp_path / f"w-{digest[:8]}.pth").write_bytes(content[:-1])
    for load_weights in (check_weights, lambda path: InceptionJudge(str(path)).load()):
        with pytest.raises(ParameterError, match=f"begins with .*its name contains {digest[:8]}"):
            load_weights(tmp_path / f"w-{digest[:8]}.pth")


def test_check_weights_warns_if_not_fid_weights(tmp_path, monkeypatch, caplog):
    (tmp_path / "mine.pth").write_bytes(b"as if these were weights")
    digest = check_weights(tmp_path / "mine.pth")
    (warning,) = caplog.messages
    assert "mine.pth" in warning and "6726825d" in warning
    monkeypatch.setattr(features, "_EXPECTED_DIGEST", digest[:8])
    caplog.clear()
    assert check_weights(tmp_path / "mine.pth") == digest and not caplog.messages
    for missing_name in ("no-such.pth", ".", "no-such-folder/weights.pth"):
        for load_weights in (check_weights, lambda path: InceptionJudge(str(path)).load()):
            with pytest.raises(ParameterError, match=r"no file .*dalleval\.inception_file"):
                load_weights(tmp_path / missing_name)


class _Bait:
    """An object that creates a file when unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.mark.parametrize(("zipped", "alone"), [(True, False), (False, True)])
def test_inception_pickle_with_code_is_refused_unexecuted(zipped, alone, tmp_path):
    marker, path = tmp_path / "ran", tmp_path / "weights.pth"
    bait = _Bait(marker) if alone else {"Conv2d_1a_3x3.conv.weight": torch.zeros(2), "fc.bias": _Bait(marker)}
    torch.save(bait, path, _use_new_zipfile_serialization=zipped)
    # It would run where it is read as any pickle.
    torch.load(path, weights_only=False)
    assert marker.exists()
    marker.unlink()
    with pytest.raises(ParameterError, match="cannot be read as tensors only"):
        InceptionJudge(str(path), JudgeOptions(device="cpu")).load()
    assert not marker.exists()


@pytest.mark.parametrize(
    "content", [b"", b"<!DOCTYPE html><html>404</html>", b"PK\x03\x04" + bytes(60), pickle.dumps({"a": 1}, protocol=4)]
)
def test_inception_invalid_weight_file_is_refused(content, tmp_path):
    path = tmp_path / "weights.pth"
    path.write_bytes(content)
    with pytest.raises(ParameterError, match=r"weights\.pth cannot be read as tensors only"):
        InceptionJudge(str(path), JudgeOptions(device="cpu")).load()


@pytest.mark.long
def test_inception_weights_of_other_network_are_refused(weights, tmp_path):
    path, fewer = tmp_path / "weights.pth", torch.load(weights, weights_only=True)
    del fewer["Mixed_7c.branch_pool.conv.weight"]
    for state in ([], fewer | {"fc.bias": torch.zeros(1000)}):
        torch.save(state, path)
        with pytest.raises(ParameterError, match=r"cannot be loaded as Inception-v3's weights"):
            InceptionJudge(str(path), JudgeOptions(device="cpu")).load()
