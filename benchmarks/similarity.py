"""Time pixel similarities of image pairs in batches, compared with one pair at a time, on the same images.

Run: ``python benchmarks/similarity.py``; it takes a minute or two on one thread. Ours and the peer alternate, and the
fastest round of each counts, in processor time; values must be equal to 1e-6 (``ssim``) or half a point
(``diff_pix``).

The peer is scikit-image if it is installed (it is not a dependency), else a loop with SciPy's uniform filter.
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
    """Return smooth images with slight noise, ``uint8 (n, side, side, 3)``."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    large = np.stack([cv2.resize(image, (side, side), interpolation=cv2.INTER_CUBIC) for image in coarse])
    return (large * 0.9 + rng.integers(0, 25, large.shape)).astype(np.uint8)


def one_map(x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Return mean and map of one pair's structural similarity, computed by the peer."""
    if structural_similarity is not None:
        return structural_similarity(x, y, data_range=255, full=True)
    x, y, n = x.astype(float), y.astype(float), 49
    mx, my = uniform_filter(x, 7), uniform_filter(y, 7)
    vx, vy, vxy = (
        n / (n - 1) * (uniform_filter(a * b, 7) - m) for a, b, m in ((x, x, mx * mx), (y, y, my * my), (x, y, mx * my))
    )
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    similarity_map = (2 * mx * my + c1) * (2 * vxy + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    return similarity_map[3:-3, 3:-3].mean(), similarity_map


def one_diff_pix(similarity_map: np.ndarray) -> float:
    levels = (255 * similarity_map.clip(0, 1)).astype(np.uint8)
    _, is_different = cv2.threshold(levels, 0, 255, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
    contours, _ = cv2.findContours(is_different, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    filled = np.zeros_like(is_different)
    for contour in contours:
        if cv2.contourArea(contour) > 40 * is_different.size / 512**2:
            cv2.drawContours(filled, [contour], 0, 255, -1)
    return 100 * np.count_nonzero(filled) / filled.size


def timed(works: dict, rounds: int) -> dict:
    """Return the result and the minimum time in seconds of each of ``works``, in alternating rounds."""
    out = {}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.process_time()
            result = work()
            seconds = time.process_time() - start
            out[name] = (result, min(seconds, out[name][1] if name in out else np.inf))
    return out


def report(label: str, n: int, out: dict, tolerance: float) -> None:
    (ours, seconds), (peer, peer_seconds) = out["ours"], out["peer"]
    difference = np.abs(np.asarray(ours) - np.asarray(peer)).max()
    print(
        f"{label:34s} biaslab {1e3 * seconds / n:8.3f} ms per pair   peer {1e3 * peer_seconds / n:8.3f} ms   ratio "
        f"{peer_seconds / seconds:5.1f} x   maximum difference {difference:.0e}"
    )
    if difference > tolerance:
        raise SystemExit(f"{label}: the values differ by {difference}")


def pixels(side: int, n: int, rounds: int) -> None:
    left, right = luma(pictures(n, side, 0)), luma(pictures(n, side, 1))
    right[: n // 2] = left[: n // 2] // 2 + right[: n // 2] // 2
    works = {
        "ours": lambda: ssim(ssim_maps(left, right)),
        "peer": lambda: [one_map(x, y)[0] for x, y in zip(left, right, strict=True)],
    }
    report(f"ssim, {side} x {side}", n, timed(works, rounds), 1e-6)
    works = {
        "ours": lambda: diff_pix(ssim_maps(left, right)),
        "peer": lambda: [one_diff_pix(one_map(x, y)[1]) for x, y in zip(left, right, strict=True)],
    }
    # A different rounding of one level in 255 may move a contour by a pixel.
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
        f"NumPy {np.__version__}, OpenCV {cv2.__version__}; compared with {peer}"
    )
    pixels(512, options.pairs, options.rounds)
    pixels(64, 16 * options.pairs, options.rounds)


if __name__ == "__main__":
    main()
