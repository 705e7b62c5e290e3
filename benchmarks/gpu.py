"""Run all benchmarks for a GPU: images and judgements per second, ours and the peers', with the ratio.

Run: ``python benchmarks/gpu.py`` on a machine with a GPU. Without a GPU, the script prints this and ends. Weights are
random, with the architectures of Stable Diffusion 1.x, Stable Diffusion XL and CLIP ViT-L/14, since durations do not
depend on weights. Each part runs ``benchmarks/generation.py`` or ``benchmarks/judging.py``, which describe the
comparison. Ours selects its batch size, and uses channels last for convolutional networks. Goals on an H100 or H200: at
least 5 images per second with Stable Diffusion 1.x (50 steps, 512 x 512), and 2,000 judged.

``--rehearse`` runs the same on a processor, with narrow networks and few images, as a functional test; its figures are
meaningless.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Runs: title, file, arguments on a GPU, and arguments with --rehearse.
RUNS = (
    (
        "Stable Diffusion 1.x",
        "generation.py",
        "--arch sd1 --size 512 --steps 50 --guidance 7.5 --images 128 --loop-images 8",
        "--arch mini --steps 2 --images 8 --loop-images 2",
    ),
    (
        "Stable Diffusion 1.x, compiled",
        "generation.py",
        "--arch sd1 --size 512 --steps 50 --guidance 7.5 --images 256 --loop-images 8 --compile",
        "--arch mini --steps 2 --images 8 --loop-images 2 --compile",
    ),
    (
        "Stable Diffusion XL",
        "generation.py",
        "--arch sdxl --size 1024 --steps 50 --guidance 7.5 --images 32 --loop-images 4",
        "--arch small-sdxl --steps 2 --images 8 --loop-images 2",
    ),
    (
        "Stable Diffusion XL, compiled",
        "generation.py",
        "--arch sdxl --size 1024 --steps 50 --guidance 7.5 --images 64 --loop-images 4 --compile",
        "--arch small-sdxl --steps 2 --images 8 --loop-images 2 --compile",
    ),
    (
        "Judging with CLIP ViT-L/14",
        "judging.py",
        "--arch ViT-L-14 --images 8192 --peer-images 256",
        "--images 64 --peer-images 16",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rehearse", action="store_true", help="on a processor, small")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available() and not options.rehearse:
        print("skipped: torch finds no GPU here (torch.cuda.is_available() is False)")
        return
    failed = []
    for title, file, on_gpu, on_cpu in RUNS:
        arguments = on_cpu.split() if options.rehearse else ["--device", "cuda", *on_gpu.split()]
        print(f"== {title}: {file} {' '.join(arguments)}", flush=True)
        if subprocess.run([sys.executable, str(HERE / file), *arguments]).returncode:
            failed.append(title)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
