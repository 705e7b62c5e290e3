"""Time FID's trace and R-precision, compared with SciPy's matrix root and the released loop, on the same features.

Run: ``python benchmarks/retrieval.py``; it takes a minute or two on one thread. It prints processor time in seconds and
the ratio from one run. Distances must be equal to 1e-6, and the loop's mean must be within four standard errors of its
exact expectation.

The loop samples like the released one (DallEval, ``retrieval/rprecision.py``), with the same calls of PyTorch: for each
image, its own caption and 99 sampled with replacement from all, without normalized features, five times. The time of
ours is the fastest of three runs; the loop runs once.
"""

import argparse
import os
import platform
import random
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import linalg

from biaslab.metrics.retrieval import DISTRACTORS, frechet_distance, r_precision


def timed(work) -> tuple:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def by_root(first: np.ndarray, second: np.ndarray) -> float:
    """Return the distance as in the first implementations of FID."""
    a, b = (np.cov(features, rowvar=False) for features in (first, second))
    root = linalg.sqrtm(a @ b)
    return float(((first.mean(axis=0) - second.mean(axis=0)) ** 2).sum() + np.trace(a + b - 2 * root.real))


def released(images: np.ndarray, texts: np.ndarray, repeats: int, seed: int) -> np.ndarray:
    """Return the share of images that retrieve their own caption, for each repeat."""
    import torch

    rng, places, out = random.Random(seed), list(range(len(images))), []
    images, texts = torch.from_numpy(images), torch.from_numpy(texts)
    for _ in range(repeats):
        right = 0
        for i, image in enumerate(images):
            indices = torch.LongTensor(rng.choices(places, k=DISTRACTORS))
            candidates = torch.cat([texts[i].view(1, -1), texts.index_select(0, indices)])
            right += (image @ candidates.T).argmax().item() == 0
        out.append(right / len(images))
    return np.array(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, default=2048, help="Inception has 2048")
    parser.add_argument("--images", type=int, default=2600, help="of each of both sets of FID")
    parser.add_argument("--captions", type=int, default=3000, help="images and captions of R-precision")
    parser.add_argument("--repeats", type=int, default=5, help="of the released loop")
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    print(
        f"{platform.processor() or 'CPU'} of {os.cpu_count()} cores; Python {sys.version.split()[0]}, "
        f"NumPy {np.__version__}"
    )
    shape, mix = (options.images, options.features), rng.standard_normal((options.features,) * 2)
    mix *= 1 / np.sqrt(options.features)
    sets = [rng.standard_normal(shape) @ mix, rng.standard_normal(shape) @ mix * 1.1 + 0.05]
    ours, seconds = timed(lambda: frechet_distance(*sets))
    peer, peer_seconds = timed(lambda: by_root(*sets))
    difference = abs(peer / ours - 1)
    print(
        f"FID, {options.features} features  biaslab {seconds:6.2f} s   scipy sqrtm {peer_seconds:6.2f} s   "
        f"ratio {peer_seconds / seconds:5.1f} x   relative difference {difference:.0e} at {ours:.4f}"
    )
    if difference > 1e-6:
        raise SystemExit(f"the distances differ: {ours} and {peer}")

    n = options.captions
    texts = rng.standard_normal((n, 512)).astype(np.float32)
    images = texts + 9 * rng.standard_normal((n, 512)).astype(np.float32)
    loop, peer_seconds = timed(lambda: released(images, texts, options.repeats, seed=1))
    similarity = images @ texts.T

    def cosine() -> np.ndarray:
        unit = [features / np.linalg.norm(features, axis=1, keepdims=True) for features in (images, texts)]
        return r_precision(unit[0] @ unit[1].T).mean()

    exact, seconds = min((timed(cosine) for _ in range(3)), key=lambda found: found[1])
    # Expectation of the loop's samples, for features without normalization.
    expected = ((similarity <= np.diagonal(similarity)[:, None]).mean(axis=1)) ** DISTRACTORS
    error = np.sqrt((expected * (1 - expected)).sum() / options.repeats) / n
    print(
        f"R-precision, {n:,} images  biaslab {seconds:6.2f} s   released loop {peer_seconds:6.2f} s   ratio "
        f"{peer_seconds / seconds:5.1f} x   {100 * exact:.2f}% exact; loop {100 * loop.mean():.2f}%, expected "
        f"{100 * expected.mean():.2f} ± {100 * error:.2f}%"
    )
    if abs(loop.mean() - expected.mean()) > 4 * error:
        raise SystemExit("the loop's mean is not what its draws should give")


if __name__ == "__main__":
    main()
