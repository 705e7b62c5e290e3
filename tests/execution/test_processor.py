"""What the processor computes fastest with, as Linux or torch says what it is."""

import sys

import pytest

from biaslab.execution import processor

AMX, AVX, BOTH = "fpu avx512f amx_bf16 amx_tile", "fpu avx512f avx512_bf16", "avx512_bf16 amx_bf16 amx_tile"


@pytest.mark.parametrize(
    ("vendor", "flags", "favours"),
    [
        ("GenuineIntel", AMX, True),
        ("GenuineIntel", BOTH, True),
        # Without AMX, Intel's units multiply it at half the rate of float32, and AMD's at twice.
        ("GenuineIntel", AVX, False),
        ("AuthenticAMD", AVX, True),
        ("AuthenticAMD", "fpu avx512f avx512_bf16x", False),
    ],
)
def test_linux_says_it_without_torch(cpuinfo, monkeypatch, vendor, flags, favours):
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
def test_a_device_is_chosen_by_what_is_there(monkeypatch, system, cuda, mps, found):
    """No such device is here: what torch and the system say is made up."""
    torch = pytest.importorskip("torch", reason="models need the extra 'models'")
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr(processor, "has_cuda", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert processor.accelerator() == found


@pytest.mark.parametrize(
    ("files", "vendors", "asks"),
    [([], ["0x8086"], False), (["gpu0"], [], True), ([], ["0x8086", "0x10de"], True), ([], ["0x1002"], True)],
)
def test_torch_is_asked_where_a_gpu_may_be(monkeypatch, tmp_path, files, vendors, asks):
    torch = pytest.importorskip("torch", reason="models need the extra 'models'")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    for name, text in (*((name, "") for name in files), *((f"pci{i}", f"{v}\n") for i, v in enumerate(vendors))):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(processor, "_GPU_FILES", (str(tmp_path / "gpu*"),))
    monkeypatch.setattr(processor, "_PCI_VENDORS", str(tmp_path / "pci*"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert processor.has_cuda() == asks
