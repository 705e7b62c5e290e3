"""Time two Ray workers against one, on search and on embedding; ``workers.py`` has images, judgements and reruns.

Run: ``python benchmarks/engines.py`` on a machine with two free processors; some minutes. Workers have one thread
each, the cluster of this machine is up before a clock starts, and each time includes the start of the workers and
what they load. ``--rows``, ``--times`` and ``--texts`` size the work: the less it is, the more the start weighs.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

import _corpus


def make_corpus(folder: Path, captions: str, rows: int, times: int) -> str:
    """Write captions as Parquet files, give each of them several names, and return a pattern for all."""
    _corpus.write_corpus(folder, _corpus.read_lines(captions), rows, share=0.1)
    for path in list((folder / "parquet").iterdir()):
        for i in range(1, times):
            os.link(path, path.with_stem(f"{path.stem}-{i}"))
    return str(folder / "parquet" / "*.parquet")


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def of_workers(what: str, work) -> None:
    """Print the times of ``work(folder, workers)`` with one and with two, and their ratio."""
    found = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            found[workers] = seconds(lambda folder=folder, workers=workers: work(folder, workers))
    ratio = found[1] / found[2]
    print(f"{what:32} one worker {found[1]:6.1f} s, two {found[2]:6.1f} s, ratio {ratio:.2f} (reach: 1.7)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--captions", default="", help="file of captions to recombine; else the embedded ones")
    parser.add_argument("--rows", type=int, default=4 * 2**20, help="captions that are made")
    parser.add_argument("--times", type=int, default=10, help="how often the search meets each of them")
    parser.add_argument("--texts", type=int, default=16 * 8192, help="captions embedded")
    options = parser.parse_args()

    import pandas as pd

    from biaslab import lexicons
    from biaslab.captions.corpus import open_corpus
    from biaslab.captions.neighbours import Encoder, embed, embedding_stage
    from biaslab.captions.search import search
    from biaslab.keep import engine
    from biaslab.keep.store import Store

    with tempfile.TemporaryDirectory() as folder:
        corpus = make_corpus(Path(folder), options.captions, options.rows, options.times)
        terms = lexicons.load("paradox_occupations")
        # Starts the cluster.
        list(engine.get("ray", workers=2).map(str, [1, 2]))

        def searching(store: str, workers: int) -> None:
            ray = engine.get("ray", workers=workers)
            search(open_corpus(corpus), terms, store=Store(store, engine=ray), progress=False)

        of_workers(f"search of {options.rows * options.times:,} captions", searching)

        texts = pd.concat([b["text"] for b in open_corpus(corpus, rows=options.texts).batches()]).tolist()

        def embedding(store: str, workers: int) -> None:
            encoder, ray = Encoder(device="cpu"), engine.get("ray", workers=workers)
            embed(texts, encoder, embedding_stage(Store(store, engine=ray), encoder), progress=False)

        of_workers(f"embedding of {options.texts:,} captions", embedding)


if __name__ == "__main__":
    main()
