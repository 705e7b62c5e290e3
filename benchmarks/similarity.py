"""Time similarities of pixels of image pairs in batches against one pair at a time, on the same images.

Run: ``python benchmarks/similarity.py``; it takes a minute or two on one thread. Ours and the peer's take turns, the
fastest round of each counts, in seconds of the processor; values must be equal to 1e-6 (``ssim``) or half a point
(``diff_pix``).

The peer is scikit-image where it is installed (it is no dependency), else a plain loop with SciPy's uniform filter.
``diff_pix`` adds OpenCV's threshold and contours to both.
"""

import argparse
import os
import platform
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
from scipy.ndimage import uniform_filter

from biaslab.metrics.similarity import diff_pix, luma, ssim, ssim_maps

try:
    from skimage.metrics import structural_similarity
except ImportError:
    structural_similarity = None


def pictures(n: int, side: int, seed: int) -> np.ndarray:
    """Return smooth pictures with a little noise, ``uint8 (n, side, side, 3)``."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    large = np.stack([cv2.resize(one, (side, side), interpolation=cv2.INTER_CUBIC) for one in coarse])
    return (large * 0.9 + rng.integers(0, 25, large.shape)).astype(np.uint8)


def one_map(x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Return mean and map of one pair's structural similarity, by the peer."""
    if structural_similarity is not None:
        return structural_similarity(x, y, data_range=255, full=True)
    x, y, n = x.astype(float), y.astype(float), 49
    mx, my = uniform_filter(x, 7), uniform_filter(y, 7)
    vx, vy, vxy = (
        n / (n - 1) * (uniform_filter(a * b, 7) - m) for a, b, m in ((x, x, mx * mx), (y, y, my * my), (x, y, mx * my))
    )
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    found = (2 * mx * my + c1) * (2 * vxy + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    return found[3:-3, 3:-3].mean(), found


def one_diff_pix(found: np.ndarray) -> float:
    levels = (255 * found.clip(0, 1)).astype(np.uint8)
    _, apart = cv2.threshold(levels, 0, 255, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
    contours, _ = cv2.findContours(apart, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    filled = np.zeros_like(apart)
    for contour in contours:
        if cv2.contourArea(contour) > 40 * apart.size / 512**2:
            cv2.drawContours(filled, [contour], 0, 255, -1)
    return 100 * np.count_nonzero(filled) / filled.size


def timed(works: dict, rounds: int) -> dict:
    """Return each work's result and fastest seconds, by turns."""
    out = {}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.process_time()
            found = work()
            seconds = time.process_time() - start
            out[name] = (found, min(seconds, out[name][1] if name in out else np.inf))
    return out


def report(what: str, n: int, out: dict, most: float) -> None:
    (ours, seconds), (theirs, other) = out["ours"], out["peer"]
    apart = np.abs(np.asarray(ours) - np.asarray(theirs)).max()
    print(
        f"{what:34s} biaslab {1e3 * seconds / n:8.3f} ms a pair   peer {1e3 * other / n:8.3f} ms   ratio "
        f"{other / seconds:5.1f} x   apart by {apart:.0e}"
    )
    if apart > most:
        raise SystemExit(f"{what}: the values differ by {apart}")


def pixels(side: int, n: int, rounds: int) -> None:
    first, second = luma(pictures(n, side, 0)), luma(pictures(n, side, 1))
    second[: n // 2] = first[: n // 2] // 2 + second[: n // 2] // 2
    works = {
        "ours": lambda: ssim(ssim_maps(first, second)),
        "peer": lambda: [one_map(x, y)[0] for x, y in zip(first, second, strict=True)],
    }
    report(f"ssim, {side} x {side}", n, timed(works, rounds), 1e-6)
    works = {
        "ours": lambda: diff_pix(ssim_maps(first, second)),
        "peer": lambda: [one_diff_pix(one_map(x, y)[1]) for x, y in zip(first, second, strict=True)],
    }
    # A level of 255 that rounds the other way may move a contour by a pixel.
    report(f"ssim and diff_pix, {side} x {side}", n, timed(works, rounds), 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=16, help="of 512 x 512 pixels; of 64 x 64 sixteen times as many")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    peer = "SciPy's filters" if structural_similarity is None else "scikit-image"
    print(
        f"{platform.processor() or 'CPU'} of {os.cpu_count()} cores, one thread; Python {sys.version.split()[0]}, "
        f"NumPy {np.__version__}, OpenCV {cv2.__version__}; pixels against {peer}"
    )
    pixels(512, options.pairs, options.rounds)
    pixels(64, 16 * options.pairs, options.rounds)


if __name__ == "__main__":
    main()
