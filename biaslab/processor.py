"""What the processor computes fastest with: one rule for all that chooses a type of numbers."""

from __future__ import annotations

import platform
from pathlib import Path

# Where Linux says what the processor can do.
_CPUINFO = Path("/proc/cpuinfo")
_AMD = "AuthenticAMD"


def favours_bfloat16() -> bool:
    """Return whether the processor multiplies matrices of bfloat16 faster than those of float32.

    With AMX it is taken to. With the bfloat16 of AVX-512 alone AMD's processors do (measured on Zen 4: 187 against 75
    GFLOP/s a core); of others nothing was measured, and they take float32, whose images are the more exact ones.

    Linux tells without torch, and is always asked in the same way, so that it never gives two answers.
    """
    if platform.system() == "Linux" and _CPUINFO.is_file():
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
        # Names come again for each core.
        said = {name.strip(): value.split() for name, _, value in (line.partition(":") for line in lines)}
        flags, is_amd = said.get("flags", []), _AMD in said.get("vendor_id", [])
        return "amx_bf16" in flags or (is_amd and "avx512_bf16" in flags)
    import torch

    has_amx, has_avx512 = (
        getattr(torch.cpu, check, bool)() for check in ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    )
    return has_amx or (has_avx512 and _AMD in platform.processor())
