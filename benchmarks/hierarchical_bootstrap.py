"""Time 10,000 replicates of the hierarchical bootstrap against resampling images one by one with numpy.

Run: ``python benchmarks/hierarchical_bootstrap.py``. It prints both times from this one run, their ratio and
our peak memory. The statistic is the mean of |p - 0.5| over 62 occupations, four prompts and 500 images each.
Of ours, every two replicates share their draw of the occupations; each has its own images.
"""

import resource
import sys
import time

import numpy as np

from biaslab.stats import hierarchical_bootstrap

OCCUPATIONS, PROMPTS, IMAGES = 62, 4, 500
REPLICATES = 10_000
PEER_REPLICATES = 300  # scaled up: the loop's time is proportional to its replicates


def statistic(shares: np.ndarray) -> np.ndarray:
    return np.abs(shares - 0.5).mean(axis=(-2, -1))


def image_by_image(images: np.ndarray, replicates: int, seed: int) -> np.ndarray:
    """Draw occupations, then each prompt's images with replacement, as one would without counts."""
    rng = np.random.default_rng(seed)
    out = np.empty(replicates)
    for r in range(replicates):
        shares = np.empty((OCCUPATIONS, PROMPTS))
        for row, occupation in enumerate(rng.integers(OCCUPATIONS, size=OCCUPATIONS)):
            for prompt in range(PROMPTS):
                drawn = rng.integers(IMAGES, size=IMAGES)
                shares[row, prompt] = images[occupation, prompt, drawn].mean()
        out[r] = statistic(shares)
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    counts = rng.binomial(IMAGES, rng.beta(0.7, 0.9, size=(OCCUPATIONS, PROMPTS)))
    images = (np.arange(IMAGES) < counts[..., None]).astype(np.int8)
    n = np.full_like(counts, IMAGES)

    start = time.perf_counter()
    found = hierarchical_bootstrap(counts, n, statistic, replicates=REPLICATES, seed=1)
    ours = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    start = time.perf_counter()
    replicates = image_by_image(images, PEER_REPLICATES, seed=1)
    peer = (time.perf_counter() - start) * REPLICATES / PEER_REPLICATES

    print(f"{REPLICATES:,} replicates, {OCCUPATIONS} occupations x {PROMPTS} prompts x {IMAGES} images")
    interval = f"{found.value:.4f} ({found.ci_low:.4f}, {found.ci_high:.4f}), se {found.se:.4f}"
    print(f"biaslab     {ours:7.2f} s   {interval}, peak memory {peak / 2**20:.0f} MiB")
    scaled = f"scaled from {PEER_REPLICATES} replicates"
    print(f"image loop  {peer:7.2f} s   {scaled}, their standard deviation {replicates.std():.4f}")
    print(f"ratio       {peer / ours:7.0f} x")


if __name__ == "__main__":
    main()
