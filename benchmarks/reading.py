"""Time the readers of external data, compared with libraries that are less strict, in processor time of one run.

    python benchmarks/reading.py [--rows N] [--pictures N]

The script compares captions in CSV and TSV with chunks of pandas, a table of annotations with pyarrow, and images with
Pillow's conversion. Each line has our time, the peer's, and their ratio (the median of three pairs).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
from PIL import Image

from biaslab.captions.corpus import open_corpus
from biaslab.io import delimited
from biaslab.io.image_files import decode


def main() -> None:
    """Print one line per reader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--pictures", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        csv, tsv, rated = (Path(folder, name) for name in ("a.csv", "a.tsv", "r.csv"))
        _write(csv, tsv, rated, options.rows)
        _line("captions, CSV", lambda: _captions(csv), lambda: _chunks(csv, ","))
        _line("captions, TSV", lambda: _captions(tsv), lambda: _chunks(tsv, "\t"))
        _line("ratings, CSV", lambda: delimited.table(rated), lambda: pyarrow.csv.read_csv(rated).to_pandas())
    noise = np.random.default_rng(0).integers(0, 256, (512, 512, 3), dtype=np.uint8)
    for form in ("JPEG", "PNG"):
        file = BytesIO()
        # Resized noise compresses to the size of photographs; pure noise would take unrealistically long.
        Image.fromarray(noise).resize((128, 128)).resize((512, 512)).save(file, form)
        data = [file.getvalue()] * options.pictures
        _line(f"pictures, {form}", lambda data=data: [*map(decode, data)], lambda data=data: [*map(_plainly, data)])


def _write(csv: Path, tsv: Path, rated: Path, rows: int) -> None:
    numbers = range(rows)
    texts = [f'A nurse, number {n}, in a "red" room' if n % 5 == 0 else f"A man with dog {n}" for n in numbers]
    captions = pd.DataFrame({"text": texts, "url": [f"https://example.org/{n}.jpg" for n in numbers]})
    captions.to_csv(csv, index=False)
    captions.assign(text=captions["text"].str.replace('"', "")).to_csv(tsv, index=False, sep="\t")
    columns = {"image": [f"im{n}" for n in numbers], "occupation": [f"occ{n % 40}" for n in numbers]}
    pd.DataFrame(columns | {"annotator": [f"r{n % 5}" for n in numbers], "label": "female"}).to_csv(rated, index=False)


def _captions(path: Path) -> int:
    return sum(map(len, open_corpus(str(path)).batches()))


def _chunks(path: Path, separator: str) -> int:
    return sum(map(len, pd.read_csv(path, sep=separator, dtype=str, chunksize=8192)))


def _plainly(data: bytes) -> np.ndarray:
    return np.array(Image.open(BytesIO(data)).convert("RGB"))


def _line(label: str, ours: Callable[[], object], peers: Callable[[], object]) -> None:
    pairs = [(_seconds(ours), _seconds(peers)) for _ in range(3)]
    ours_seconds, peer_seconds = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{label:16} {ours_seconds:6.2f} s   peer {peer_seconds:6.2f} s   ours takes {ratio:.2f} times as long")


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
