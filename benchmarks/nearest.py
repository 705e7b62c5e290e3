"""Time the search for the 500 nearest of a million embeddings for 248 prompts, compared with faiss's flat index.

Run: ``python benchmarks/nearest.py``; it takes 3 GB of memory and 1.5 GB of disk. faiss is optional: ``pip install
faiss-cpu``. Both use equal threads. Ours reads the vectors from a memory-mapped file; faiss holds them in memory. The
vectors are random around 1,000 centres, with the dimension of all-MiniLM-L6-v2, and the prompts are close to centres.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__" and "--threads" in sys.argv:
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), sys.argv[sys.argv.index("--threads") + 1])

import numpy as np

WIDTH, CENTRES = 384, 1000


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def timed(work) -> tuple:
    start, cpu_start = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - start, time.process_time() - cpu_start


def own_memory() -> int:
    """Return the private memory of this process in bytes, without mapped files, which the system can reclaim."""
    import psutil

    memory = psutil.Process().memory_info()
    return memory.rss - getattr(memory, "shared", 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=248)
    parser.add_argument("--k", type=int, default=500)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()

    from biaslab.captions.embeddings import find_nearest

    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CENTRES, WIDTH), dtype=np.float32)
    centres_of_queries = centres[rng.integers(0, CENTRES, options.queries)]
    queries = unit(centres_of_queries + 0.5 * rng.standard_normal(centres_of_queries.shape, dtype=np.float32))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.npy"
        shape = (options.rows, WIDTH)
        vectors = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
        for start in range(0, options.rows, 2**16):
            n = min(2**16, options.rows - start)
            noise = rng.standard_normal((n, WIDTH), dtype=np.float32)
            vectors[start : start + n] = unit(0.7 * centres[rng.integers(0, CENTRES, n)] + noise)
        vectors.flush()
        vectors = np.load(path, mmap_mode="r")
        memory_before = own_memory()
        (indices, cosines), seconds, processors = timed(lambda: find_nearest(queries, vectors, options.k))
        memory_used = own_memory() - memory_before
        print(
            f"{options.rows:,} vectors of {WIDTH}, {options.queries} queries, {options.k} nearest, {options.threads} "
            "threads"
        )
        print(
            f"biaslab  {seconds:7.2f} s ({processors:.2f} s of processor time), memory kept {memory_used / 2**20:.0f} "
            "MiB, vectors on disk"
        )
        try:
            import faiss
        except ImportError:
            print("faiss is not installed")
            return
        faiss.omp_set_num_threads(options.threads)
        index = faiss.IndexFlatIP(WIDTH)
        index.add(np.ascontiguousarray(vectors))
        (scores, peer_indices), peer, by_processors = timed(lambda: index.search(queries, options.k))
        rows = zip(indices.tolist(), peer_indices.tolist(), strict=True)
        overlap = np.mean([len(set(a) & set(b)) / len(a) for a, b in rows])
        print(f"faiss    {peer:7.2f} s ({by_processors:.2f} s of processor time), vectors in memory")
        difference = np.abs(np.sort(scores) - np.sort(cosines)).max()
        print(
            f"{peer / seconds:.2f} times as fast as faiss, {by_processors / processors:.2f} by CPU time (goal: 1); "
            f"share of equal results {overlap:.5f}, greatest difference of cosines {difference:.1e}"
        )


if __name__ == "__main__":
    main()
