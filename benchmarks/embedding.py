"""Time embeddings of captions, compared with sentence-transformers' ``encode`` with its defaults at equal threads.

Run: ``python benchmarks/embedding.py --captions FILE``; the file has one caption per line, ``.gz`` or not (default: the
synthetic world's captions). Both embed the same distinct captions with the same weights, after a warm-up batch. The
script prints captions per second, their ratio, and the overlap of the 500 nearest captions (cosine) with those in
float32, for several captions as queries. On a GPU: ``--device cuda``.
"""

import argparse
import os
import time

if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
from _corpus import print_costs, read_lines


def timed(work, n: int) -> tuple[np.ndarray, float, float]:
    """Return the result of ``work``, and captions per second of elapsed time and of processor time."""
    start, cpu_start = time.perf_counter(), time.process_time()
    result = work()
    return result, n / (time.perf_counter() - start), n / (time.process_time() - cpu_start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--captions", default="", help="file of one caption per line, .gz or not")
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=0, help="0 for as many as there are")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", nargs="+", default=["auto", "float32"])
    parser.add_argument("--runs", type=int, default=1, help="of each; the fastest counts")
    options = parser.parse_args()

    import torch
    from sentence_transformers import SentenceTransformer

    from biaslab.captions import embeddings
    from biaslab.captions.embeddings import Encoder, find_nearest

    if options.threads:
        torch.set_num_threads(options.threads)
    lines = sorted(set(read_lines(options.captions)))
    rng = np.random.default_rng(0)
    texts = [lines[i] for i in rng.permutation(len(lines))[: options.rows]]
    queries = rng.permutation(len(texts))[:248]
    peer = SentenceTransformer(str(embeddings._check_default().parent), device=options.device)
    encoders = {dtype: Encoder(device=options.device, dtype=dtype) for dtype in options.dtypes}
    for encode in (peer.encode, *(encoder.encode for encoder in encoders.values())):
        encode(texts[:256])
    works = {"encode": lambda: peer.encode(texts)}
    works |= {dtype: lambda e=encoder: e.encode(texts) for dtype, encoder in encoders.items()}
    best = {name: [None, 0.0, 0.0] for name in works}
    for _ in range(options.runs):
        # Methods alternate, so that other work on the machine slows all of them equally.
        for name, work in works.items():
            vectors, rate, cpu_rate = timed(work, len(texts))
            best[name] = [vectors, max(rate, best[name][1]), max(cpu_rate, best[name][2])]
    exact, rate, cpu_rate = best.pop("encode")
    print(f"{len(texts):,} captions, {torch.get_num_threads()} threads, {options.device}")
    print(f"sentence-transformers encode   {rate:7.0f} captions/s ({cpu_rate:.0f} per second of processor time)")
    exact_nearest = find_nearest(exact[queries], exact, 500)[0]
    for dtype, (vectors, ours, ours_cpu_rate) in best.items():
        own_nearest = find_nearest(vectors[queries], vectors, 500)[0]
        rows = zip(exact_nearest.tolist(), own_nearest.tolist(), strict=True)
        overlap = np.mean([len(set(a) & set(b)) / len(a) for a, b in rows])
        print(
            f"biaslab {dtype:8s} ({encoders[dtype].precision:8s})   {ours:7.0f} captions/s "
            f"({ours_cpu_rate:.0f}), {ours / rate:.2f} times as fast, {ours_cpu_rate / cpu_rate:.2f} by "
            f"processor time (goal: 3.5); same nearest 500: {overlap:.4f} (goal: 0.98)"
        )
    print_costs("embedding", 2.3e9, next(iter(best.values()))[2], float(np.mean([len(t.encode()) for t in texts])))


if __name__ == "__main__":
    main()
