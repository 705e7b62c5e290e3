"""Captions for benchmarks: real ones put together anew with occupations, as many as asked for, from a seed."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from biaslab import lexicons

# Captions in a block, which is drawn from a seed of its own, and blocks in a file.
_BLOCK, _BLOCKS_IN_FILE = 2**18, 8
# Share of captions that get an occupation.
_WITH_OCCUPATION = 0.2


def read_lines(path: str) -> list[str]:
    """Return the captions of a text file, ``.gz`` or not; of the embedded world where no file is given."""
    if not path:
        from biaslab.captions.corpus import open_corpus

        return [text for batch in open_corpus("mini", rows=20_000).batches() for text in batch["text"]]
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode("utf-8", errors="replace")
    return [line for line in (" ".join(line.split()) for line in text.split("\n")) if line]


def occupations() -> tuple[str, ...]:
    """Return the paradox paper's 62 occupations."""
    return tuple(lexicons.load("paradox_occupations"))


def blocks(lines: list[str], rows: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield ``rows`` captions in arrays of text.

    A caption is the first half of one line and the second half of another. In one of five an occupation takes the
    place of a "person", or of the first words.
    """
    halves = []
    for line in lines:
        words = line.split(" ")
        halves.append((" ".join(words[: (len(words) + 1) // 2]), " ".join(words[(len(words) + 1) // 2 :])))
    names = occupations()
    for start in range(0, rows, _BLOCK):
        n = min(_BLOCK, rows - start)
        rng = np.random.default_rng([seed, start // _BLOCK])
        first, second = rng.integers(0, len(halves), n), rng.integers(0, len(halves), n)
        which = np.where(rng.random(n) < _WITH_OCCUPATION, rng.integers(0, len(names), n), -1)
        made = []
        for a, b, o in zip(first.tolist(), second.tolist(), which.tolist(), strict=True):
            head, tail = halves[a][0], halves[b][1]
            if o >= 0:
                replaced = re.sub(r"\bperson\b", names[o], head, count=1)
                head = replaced if replaced != head else f"{names[o]} {head}"
            made.append(f"{head} {tail}".strip())
        yield np.array(made, dtype=object)


def write_corpus(folder: Path, lines: list[str], rows: int, seed: int = 0) -> dict[str, float]:
    """Write captions as Parquet with zstd, in several files and columns as LAION has, and as plain text.

    Returns:
        ``rows``, and bytes of the Parquet files (``parquet``), of the text column in them (``text_column``) and of the
        plain text (``plain``).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    sizes = {"rows": 0, "parquet": 0, "text_column": 0, "plain": 0}
    (folder / "parquet").mkdir(parents=True)
    writer = None
    with (folder / "captions.txt").open("w", encoding="utf-8", newline="\n") as plain:
        for i, texts in enumerate(blocks(lines, rows, seed)):
            numbers = np.arange(sizes["rows"], sizes["rows"] + len(texts))
            urls = [f"https://images.example.org/{number * 2654435761 % 2**32:08x}.jpg" for number in numbers]
            table = pa.table({"TEXT": pa.array(texts, pa.string()), "URL": pa.array(urls, pa.string())})
            if i % _BLOCKS_IN_FILE == 0:
                if writer:
                    writer.close()
                path = folder / "parquet" / f"part-{i // _BLOCKS_IN_FILE:05d}.parquet"
                writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
            plain.write("\n".join(texts) + "\n")
            sizes["rows"] += len(texts)
    if writer:
        writer.close()
    for path in (folder / "parquet").iterdir():
        sizes["parquet"] += path.stat().st_size
        groups = pq.read_metadata(path)
        for g in range(groups.num_row_groups):
            sizes["text_column"] += groups.row_group(g).column(0).total_compressed_size
    sizes["plain"] = (folder / "captions.txt").stat().st_size
    return sizes
