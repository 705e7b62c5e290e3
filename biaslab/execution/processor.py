"""Devices, memory and precision of this machine."""

from __future__ import annotations

import glob
import platform
from pathlib import Path

import psutil

# The processor's features on Linux.
_CPUINFO = Path("/proc/cpuinfo")
# Files of GPU drivers on Linux, files with vendors' ids, and the ids of NVIDIA and AMD.
_GPU_FILES = ("/dev/nv[ihg]*", "/dev/nvmap", "/dev/dxg", "/dev/kfd", "/proc/driver/nvidia")
_PCI_VENDORS, _GPU_VENDORS = "/sys/bus/pci/devices/*/vendor", ("0x10de", "0x1002")


def has_cuda() -> bool:
    """Return whether torch finds a GPU. Its import takes a second, so torch is imported only if a GPU may be present.

    Linux creates the files of a GPU's driver when it is first used, so the hardware is checked, too.
    """
    if platform.system() == "Linux" and not any(glob.glob(pattern) for pattern in _GPU_FILES):
        vendors = {Path(path).read_text().strip() for path in glob.glob(_PCI_VENDORS)}
        if vendors.isdisjoint(_GPU_VENDORS):
            return False
    import torch

    return torch.cuda.is_available()


def accelerator() -> str:
    """Return the device that ``auto`` represents: ``cuda``, else ``mps`` (Apple's processors), else ``cpu``."""
    if has_cuda():
        return "cuda"
    if platform.system() != "Darwin":
        return "cpu"
    import torch

    return "mps" if torch.backends.mps.is_available() else "cpu"


def memory(device: str = "cpu") -> tuple[int, int]:
    """Return the free and the total memory of a device in bytes; Apple's GPUs share that of the CPU."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)
    status = psutil.virtual_memory()
    return status.available, status.total


def describe_device(device: str) -> str:
    """Return a device with the name of its GPU, such as ``cuda:0 (NVIDIA H200)``; others as they are."""
    if device.startswith("cuda"):
        import torch

        return f"{device} ({torch.cuda.get_device_name(device)})"
    return device


def load_per_processor() -> float:
    """Return the average number of running processes per processor during the last minute."""
    return psutil.getloadavg()[0] / (psutil.cpu_count() or 1)


def favours_bfloat16() -> bool:
    """Return whether the processor multiplies matrices faster in bfloat16 than in float32, according to Linux.

    True is assumed for processors with AMX. Of processors with bfloat16 in AVX-512 only, it is true for AMD's (measured
    on Zen 4: 187 compared with 75 GFLOP/s per core). Others, and other systems, were not measured.
    """
    if not _CPUINFO.is_file():
        return False
    lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    # Names are repeated for each core.
    cpu_info = {name.strip(): value.split() for name, _, value in (line.partition(":") for line in lines)}
    flags, is_amd = cpu_info.get("flags", []), "AuthenticAMD" in cpu_info.get("vendor_id", [])
    return "amx_bf16" in flags or (is_amd and "avx512_bf16" in flags)
