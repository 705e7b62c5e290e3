"""Captions for benchmarks: recombined halves of real captions with occupations, any number, from a seed."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from biaslab import lexicons

# Number of captions in a block, which has its own seed, and of blocks in a file.
_BLOCK, _BLOCKS_IN_FILE = 2**18, 2


def read_lines(path: str) -> list[str]:
    """Return the captions of a text file, ``.gz`` or not; without a file, those of the synthetic world."""
    if not path:
        from biaslab.captions.corpus import open_corpus

        return [text for batch in open_corpus("mini", max_captions=20_000).batches() for text in batch["text"]]
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode("utf-8", errors="replace")
    return [line for line in (" ".join(line.split()) for line in text.split("\n")) if line]


def occupations() -> tuple[str, ...]:
    """Return the paradox paper's 62 occupations."""
    return tuple(lexicons.load("paradox_occupations"))


def blocks(lines: list[str], rows: int, share: float, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield ``rows`` captions in arrays of text.

    A caption is the first half of one line and the second half of another. In a ``share`` of them an occupation
    replaces "person" or precedes the first word.
    """
    halves = []
    for line in lines:
        words = line.split(" ")
        halves.append((" ".join(words[: (len(words) + 1) // 2]), " ".join(words[(len(words) + 1) // 2 :])))
    names = occupations()
    for start in range(0, rows, _BLOCK):
        n = min(_BLOCK, rows - start)
        rng = np.random.default_rng([seed, start // _BLOCK])
        head_indices, tail_indices = rng.integers(0, len(halves), n), rng.integers(0, len(halves), n)
        occupation_indices = np.where(rng.random(n) < share, rng.integers(0, len(names), n), -1)
        captions = []
        for a, b, o in zip(head_indices.tolist(), tail_indices.tolist(), occupation_indices.tolist(), strict=True):
            head, tail = halves[a][0], halves[b][1]
            if o >= 0:
                replaced = re.sub(r"\bperson\b", names[o], head, count=1)
                head = replaced if replaced != head else f"{names[o]} {head}"
            captions.append(f"{head} {tail}".strip())
        yield np.array(captions, dtype=object)


def write_corpus(folder: Path, lines: list[str], rows: int, share: float, seed: int = 0) -> dict[str, float]:
    """Write captions to several Parquet files with zstd and one URL per caption, like LAION, and to plain text files.

    Returns:
        ``rows``, and the sizes in bytes of the Parquet files (``parquet``) and of the plain text files (``plain``).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    places = {"parquet": folder / "parquet", "plain": folder / "plain"}
    for place in places.values():
        place.mkdir(parents=True)
    n_rows = 0
    writer = plain = None
    for i, texts in enumerate(blocks(lines, rows, share, seed)):
        numbers = range(n_rows, n_rows + len(texts))
        urls = [f"https://images.example.org/{number * 2654435761 % 2**32:08x}.jpg" for number in numbers]
        table = pa.table({"TEXT": pa.array(texts, pa.string()), "URL": pa.array(urls, pa.string())})
        if i % _BLOCKS_IN_FILE == 0:
            if writer:
                writer.close()
                plain.close()
            name = f"part-{i // _BLOCKS_IN_FILE:05d}"
            writer = pq.ParquetWriter(places["parquet"] / f"{name}.parquet", table.schema, compression="zstd")
            plain = (places["plain"] / f"{name}.txt").open("w", encoding="utf-8", newline="\n")
        writer.write_table(table)
        plain.write("\n".join(texts) + "\n")
        n_rows += len(texts)
    if writer:
        writer.close()
        plain.close()
    sizes = {what: sum(path.stat().st_size for path in place.iterdir()) for what, place in places.items()}
    return {"rows": n_rows, **sizes}


def costs(captions: float, rate: float, bytes_each: float, *, cores: int, machines: int) -> dict[str, float]:
    """Return the cost of a pass over many captions, with evenly distributed work and sufficiently fast disks.

    Args:
        captions: Number of captions.
        rate: Captions per second on one core.
        bytes_each: Bytes to read per caption.
        cores: Number of cores per machine.
        machines: Number of machines.

    Returns:
        ``hours`` of elapsed time, ``core_hours``, ``gigabytes`` (10^9) read in total, and the read rate per machine,
        ``megabytes_per_second``.
    """
    seconds = captions / (rate * cores * machines)
    return {
        "hours": seconds / 3600,
        "core_hours": captions / rate / 3600,
        "gigabytes": captions * bytes_each / 1e9,
        "megabytes_per_second": captions * bytes_each / machines / seconds / 1e6,
    }


def print_costs(work: str, captions: float, rate: float, bytes_each: float) -> None:
    """Print :func:`costs` for one machine with 16 cores and for ten."""
    for machines in (1, 10):
        cost = costs(captions, rate, bytes_each, cores=16, machines=machines)
        print(
            f"  {work}, {captions / 1e9:.1f} billion captions, {machines} x 16 cores: {cost['hours']:.2f} hours, "
            f"{cost['gigabytes']:.0f} GB read ({cost['megabytes_per_second']:.0f} MB/s per machine)"
        )
