"""Time the search for the paradox paper's occupations, compared with ripgrep, DuckDB and pandas at equal threads.

Run: ``python benchmarks/search.py --captions FILE``; the file has one caption per line, ``.gz`` or not (default: the
synthetic world's captions). ``--rows`` is the number of captions to create from them (10 million; takes minutes and 3
GB of disk), ``--share`` the share of these that get an occupation. The peers come with ``pip install -e .[peers]``; a
missing peer is reported and skipped.

Ours is ``biaslab.captions.search.search`` on Parquet (zstd), which DuckDB reads in threads of one process. It samples
500 captions per occupation; the time includes its start and writing results to a cache. ripgrep runs ``-o -i -w`` with
all forms as patterns on the same captions as plain text, in as many files, piped into sort and uniq (in lower case).
DuckDB runs one alternation on the same Parquet files and counts each caption's distinct mentions, including its start
but without a sample. pandas runs ``str.contains`` for each occupation on a subset of the captions in memory; it uses
one thread, so its time is divided by the number of threads.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

if __name__ == "__main__":
    # Set before libraries start their threads.
    os.environ |= {"OMP_NUM_THREADS": "1", "LC_ALL": "C"}
    # The extra installs ripgrep in the interpreter's folder.
    os.environ["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))

from _corpus import occupations, print_costs, read_lines, write_corpus

OURS = """
import sys, tempfile
import pyarrow as pa
from biaslab import lexicons
from biaslab.captions.corpus import open_corpus
from biaslab.captions.search import search
from biaslab.cache.result_cache import ResultCache

if __name__ == "__main__":
    folder, threads, out = sys.argv[1:]
    pa.set_cpu_count(int(threads))
    with tempfile.TemporaryDirectory() as store:
        kept = ResultCache(store)
        found = search(open_corpus(folder), lexicons.load("paradox_occupations"), cache=kept, progress=False)
    found.totals.to_csv(out, index=False)
    print(f"  {len(found.captions):,} captions sampled")
"""

DUCKDB = """
import sys
import duckdb
folder, threads = sys.argv[1:]
either = open(f"{folder}/either.txt").read()
query = '''
    select count(*) from (
        select unnest(list_distinct(list_transform(regexp_extract_all(TEXT, ?, 1), lambda x: lower(x)))) as mention
        from read_parquet(?) where regexp_matches(TEXT, ?))'''
with duckdb.connect(config={"threads": threads}) as base:
    (n,) = base.execute(query, [either, f"{folder}/parquet/*.parquet", either]).fetchone()
open(f"{folder}/duck.txt", "w").write(str(n))
"""


def children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(words: list[str], **options) -> tuple[float, float, float]:
    """Return elapsed seconds, processor seconds, and the maximum memory of all processes together, in bytes."""
    import psutil

    cpu_before, start = children(), time.perf_counter()
    process = subprocess.Popen(words, **options)
    peak, ended = [0], threading.Event()

    def watch() -> None:
        parent = psutil.Process(process.pid)
        while not ended.wait(0.05):
            memory = 0
            try:
                for member in (parent, *parent.children(recursive=True)):
                    memory += member.memory_info().rss
            except psutil.Error:
                continue
            peak[0] = max(peak[0], memory)

    watcher = threading.Thread(target=watch)
    watcher.start()
    failed = process.wait()
    seconds = time.perf_counter() - start
    ended.set()
    watcher.join()
    if failed:
        raise SystemExit(f"{words[0]} failed with {failed}.")
    return seconds, children() - cpu_before, peak[0]


def forms_of(names: tuple[str, ...]) -> dict[str, str]:
    """Return the occupation of each form of its name."""
    from biaslab import lexicons

    return {form: name for name in names for form in (name, *lexicons.plurals(name))}


def _between(form: str) -> str:
    return form.replace(" ", r"[\s-]+")


def by_ripgrep(folder: Path, forms: dict[str, str], threads: int) -> tuple[tuple[float, float, float], int]:
    patterns = folder / "patterns.txt"
    patterns.write_text("".join(_between(form) + "\n" for form in forms))
    look = f"rg -j{threads} -o -i -w -N --no-filename -f {patterns} {folder / 'plain'}"
    took = run(["sh", "-c", f"{look} | tr A-Z a-z | sort | uniq -c > {folder}/rg.txt"])
    return took, sum(int(line.split()[0]) for line in (folder / "rg.txt").read_text().splitlines())


def by_duckdb(folder: Path, forms: dict[str, str], threads: int) -> tuple[tuple[float, float, float], int]:
    longest = sorted(forms, key=len, reverse=True)
    (folder / "either.txt").write_text(rf"(?i)\b({'|'.join(_between(form) for form in longest)})\b")
    (folder / "duck.py").write_text(DUCKDB)
    took = run([sys.executable, str(folder / "duck.py"), str(folder), str(threads)])
    return took, int((folder / "duck.txt").read_text())


def by_pandas(folder: Path, forms: dict[str, str], rows: int) -> tuple[tuple[float, float], int, int]:
    import pandas as pd

    texts = pd.read_parquet(sorted((folder / "parquet").iterdir())[0], columns=["TEXT"])["TEXT"][:rows]
    forms_by_name = {
        name: [form for form, occupation in forms.items() if occupation == name] for name in forms.values()
    }
    start, cpu_start = time.perf_counter(), time.process_time()
    n_mentions = 0
    for name_forms in forms_by_name.values():
        pattern = rf"\b(?:{'|'.join(_between(form) for form in name_forms)})\b"
        n_mentions += int(texts.str.contains(pattern, case=False, regex=True).sum())
    return (time.perf_counter() - start, time.process_time() - cpu_start), n_mentions, len(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--captions", default="", help="file of one caption per line, .gz or not")
    parser.add_argument("--rows", type=int, default=10_000_000, help="captions to create")
    parser.add_argument("--share", type=float, default=0.0, help="of captions that get an occupation")
    parser.add_argument("--threads", type=int, default=2, help="of ours, ripgrep and DuckDB")
    parser.add_argument("--pandas-rows", type=int, default=200_000, help="captions that pandas searches")
    parser.add_argument("--runs", type=int, default=1, help="of ours, ripgrep and DuckDB; the fastest counts")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = write_corpus(folder, read_lines(options.captions), options.rows, options.share)
        rows, threads = sizes["rows"], options.threads
        bytes_per_caption = sizes["parquet"] / rows
        print(
            f"{rows:,} captions: Parquet {sizes['parquet'] / 1e6:.0f} MB ({bytes_per_caption:.1f} bytes per caption, "
            f"URLs included), plain text {sizes['plain'] / 1e6:.0f} MB; {threads} threads",
            flush=True,
        )
        script = folder / "ours.py"
        script.write_text(OURS)
        forms = forms_of(occupations())
        totals = folder / "totals.csv"
        words = [sys.executable, str(script), str(folder / "parquet"), str(threads), str(totals)]
        ours = min(run(words) for _ in range(options.runs))
        mentions = sum(int(line.rsplit(",", 2)[1]) for line in totals.read_text().splitlines()[1:])
        print(f"  {100 * mentions / rows:.1f} mentions per 100 captions")
        print(f"biaslab   {ours[0]:8.2f} s ({ours[1]:.2f} s of processor time), peak memory {ours[2] / 2**20:.0f} MiB")

        def compare(label: str, seconds: float, processors: float, n_mentions: int, reach: str) -> None:
            print(
                f"{label:9s} {seconds:8.2f} s ({processors:.2f} s of processor time), {n_mentions:,} counted; ours is "
                f"{seconds / ours[0]:.2f} times as fast, {processors / ours[1]:.2f} by processor time (goal: {reach})",
                flush=True,
            )

        print(f"  {mentions:,} counted by ours")
        if shutil.which("rg"):
            usage, n_mentions = min(by_ripgrep(folder, forms, threads) for _ in range(options.runs))
            compare("ripgrep", *usage[:2], n_mentions, "1")
        else:
            print("ripgrep is not installed")
        usage, n_mentions = min(by_duckdb(folder, forms, threads) for _ in range(options.runs))
        compare("DuckDB", *usage[:2], n_mentions, "1")
        print(f"  peak memory {usage[2] / 2**20:.0f} MiB")
        usage, n_mentions, n_texts = by_pandas(folder, forms, options.pandas_rows)
        scale = rows / n_texts
        compare("pandas", usage[0] * scale / threads, usage[1] * scale, round(n_mentions * scale), "50")
        print_costs("search", 2.3e9, rows / ours[1], bytes_per_caption)


if __name__ == "__main__":
    main()
