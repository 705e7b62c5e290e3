"""The fastest number type and device of a processor, as reported by Linux or torch."""

import sys

import pytest

from biaslab.execution import processor

AMX, AVX, AMX_AND_AVX = "fpu avx512f amx_bf16 amx_tile", "fpu avx512f avx512_bf16", "avx512_bf16 amx_bf16 amx_tile"


@pytest.mark.parametrize(
    ("vendor", "flags", "favours"),
    [
        ("GenuineIntel", AMX, True),
        ("GenuineIntel", AMX_AND_AVX, True),
        # Without AMX, Intel's units multiply it at half the rate of float32, and AMD's at twice.
        ("GenuineIntel", AVX, False),
        ("AuthenticAMD", AVX, True),
        ("AuthenticAMD", "fpu avx512f avx512_bf16x", False),
    ],
)
def test_favours_bfloat16_without_torch(cpuinfo, monkeypatch, vendor, flags, favours):
    cpuinfo(flags, vendor)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert processor.favours_bfloat16() == favours
    # An ARM processor has other lines, and another system has none.
    processor._CPUINFO.write_text("processor\t: 0\nFeatures\t: fp asimd bf16\n")
    assert not processor.favours_bfloat16()
    processor._CPUINFO.unlink()
    assert not processor.favours_bfloat16()


@pytest.mark.parametrize(
    ("system", "cuda", "mps", "found"),
    [
        ("Linux", True, False, "cuda"),
        ("Linux", False, True, "cpu"),
        ("Darwin", False, True, "mps"),
        ("Darwin", False, False, "cpu"),
    ],
)
def test_accelerator_prefers_available_device(monkeypatch, system, cuda, mps, found):
    """Devices are simulated by patching torch and the platform."""
    torch = pytest.importorskip("torch", reason="models need the extra 'models'")
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr(processor, "has_cuda", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert processor.accelerator() == found


@pytest.mark.parametrize(
    ("files", "vendors", "asks"),
    [([], ["0x8086"], False), (["gpu0"], [], True), ([], ["0x8086", "0x10de"], True), ([], ["0x1002"], True)],
)
def test_has_cuda_asks_torch_only_if_gpu_possible(monkeypatch, tmp_path, files, vendors, asks):
    torch = pytest.importorskip("torch", reason="models need the extra 'models'")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    for name, text in (*((name, "") for name in files), *((f"pci{i}", f"{v}\n") for i, v in enumerate(vendors))):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(processor, "_GPU_FILES", (str(tmp_path / "gpu*"),))
    monkeypatch.setattr(processor, "_PCI_VENDORS", str(tmp_path / "pci*"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert processor.has_cuda() == asks
