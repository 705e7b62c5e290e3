"""What there is to compute with: one rule for all that chooses a device, or a type of numbers."""

from __future__ import annotations

import glob
import platform
from pathlib import Path

import psutil

# Where Linux says what the processor can do.
_CPUINFO = Path("/proc/cpuinfo")
# Files that a GPU's driver has on Linux, and where vendors' numbers are, with those of NVIDIA and AMD.
_GPU_FILES = ("/dev/nv[ihg]*", "/dev/nvmap", "/dev/dxg", "/dev/kfd", "/proc/driver/nvidia")
_PCI_VENDORS, _GPU_VENDORS = "/sys/bus/pci/devices/*/vendor", ("0x10de", "0x1002")


def has_cuda() -> bool:
    """Return whether torch finds a GPU. Its import takes a second, so it is asked only where there may be one.

    Linux makes the files of a GPU's driver when it is first used, so the hardware counts too.
    """
    if platform.system() == "Linux" and not any(glob.glob(pattern) for pattern in _GPU_FILES):
        vendors = {Path(path).read_text().strip() for path in glob.glob(_PCI_VENDORS)}
        if vendors.isdisjoint(_GPU_VENDORS):
            return False
    import torch

    return torch.cuda.is_available()


def accelerator() -> str:
    """Return the device that ``auto`` represents: ``cuda``, else ``mps`` (of Apple's processors), else ``cpu``."""
    if has_cuda():
        return "cuda"
    if platform.system() != "Darwin":
        return "cpu"
    import torch

    return "mps" if torch.backends.mps.is_available() else "cpu"


def memory(device: str = "cpu") -> tuple[int, int]:
    """Return the bytes of memory that are free on a device, and all that it has; a GPU of Apple's shares the CPU's."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)
    found = psutil.virtual_memory()
    return found.available, found.total


def busy() -> float:
    """Return how many processes want to compute for each processor, as the last minute's average."""
    return psutil.getloadavg()[0] / (psutil.cpu_count() or 1)


def favours_bfloat16() -> bool:
    """Return whether the processor multiplies matrices of bfloat16 faster than those of float32, as Linux says.

    With AMX it is taken to. With the bfloat16 of AVX-512 alone AMD's processors do (measured on Zen 4: 187 against 75
    GFLOP/s a core); of others, and on other systems, nothing was measured.
    """
    if not _CPUINFO.is_file():
        return False
    lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    # Names come again for each core.
    said = {name.strip(): value.split() for name, _, value in (line.partition(":") for line in lines)}
    flags, is_amd = said.get("flags", []), "AuthenticAMD" in said.get("vendor_id", [])
    return "amx_bf16" in flags or (is_amd and "avx512_bf16" in flags)
