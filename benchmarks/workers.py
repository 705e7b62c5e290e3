"""Time two worker processes, compared with one, on generation and judging with the synthetic world's models.

Run: ``python benchmarks/workers.py`` on a machine with two free processors; takes minutes. Each worker has one thread;
one worker is this process. After a warm-up on a few images, they generate images of the templates and judge the
captions' images; models are loaded, and chunks written and read, as in any run. The script also prints whether one and
two workers produce the same bytes, and the time of both stages with cached results. As an upper bound, it measures the
convolutions of the model in two independent processes, each pinned to a processor. If the processors are threads of one
core, this bound is far below two.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


# Convolutions on one processor for two seconds, with all processes at once; prints their number.
ALONE = """
import os, sys, time
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {int(sys.argv[1])})
import torch
torch.set_num_threads(1)
x, w, made = torch.rand(8, 64, 32, 32), torch.rand(64, 64, 3, 3), 0
print("ready", flush=True)
end = float(sys.stdin.readline()) + 2
while time.time() < end:
    torch.nn.functional.conv2d(x, w, padding=1)
    made += 1
print(made)
"""


def ceiling() -> float:
    """Return the ratio of the throughput of two pinned processes to that of one."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processors = sorted(os.sched_getaffinity(0))[:2] if hasattr(os, "sched_getaffinity") else [0, 1]
    counts = []
    for used_processors in (processors[:1], processors):
        started = [subprocess.Popen([sys.executable, "-c", ALONE, str(k)], **pipes) for k in used_processors]
        for process in started:
            process.stdout.readline()
        for process in started:
            process.stdin.write(f"{time.time() + 0.1}\n")
            process.stdin.flush()
        counts.append(sum(int(process.communicate()[0]) for process in started))
    return counts[1] / counts[0]


def _timed(pipeline) -> dict[str, tuple[float, int]]:
    """Return seconds and number of images of each part; an equal pipeline reads them from the cache."""
    results = {}
    # The search for training captions is not timed. Training images are more, and are rendered when they are read.
    pipeline.images("training")
    parts = {
        "generation": lambda: pipeline.images("generated").table,
        "judging": lambda: pipeline.judgements("training"),
    }
    for part, make in parts.items():
        start = time.perf_counter()
        n = len(make())
        results[part] = time.perf_counter() - start, n
    return results


def work(
    folder: Path, workers: int, images: int, n_steps: int
) -> tuple[dict[str, tuple[float, float, int]], dict[str, str]]:
    """Return seconds, seconds with cached results and number of images of each part, and the digests of chunks."""
    from biaslab import lexicons
    from biaslab.pipeline import Pipeline, Settings

    def settings(store: str, occupations: int, n: int, steps: int) -> dict[str, dict]:
        names = list(lexicons.load("paradox_occupations"))[:occupations]
        return {
            "captions": {"occupations": names, "approaches": ["naive"], "per_occupation": 200},
            "generation": {"images_per_prompt": n, "steps": steps},
            "compute": {"workers": workers, "cache": str(folder / store), "device": "cpu"},
        }

    # This pipeline has two chunks for two workers; the other pipeline shares the workers.
    warm = Pipeline("mini", Settings.from_mapping(settings("warm", 16, 2, 1)), seed=1, progress=False)
    warm.judgements("generated")
    timed = warm.with_changes(**settings("timed", 62, images // (4 * 62), n_steps))
    first, repeated = (_timed(pipeline) for pipeline in (timed, timed.with_changes()))
    seconds = {part: (seconds_taken, repeated[part][0], n) for part, (seconds_taken, n) in first.items()}
    root = folder / "timed"
    shards = {
        p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for stage in ("generated", "generated_files", "judgements")
        for p in root.glob(f"{stage}/*/*.parquet")
    }
    return seconds, shards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=4 * 62 * 4, help="images of each stage, a multiple of 248")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    results, shards = {}, {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            results[workers], shards[workers] = work(Path(folder), workers, options.images, options.steps)
    maximum = ceiling()
    for part, (one_worker, repeated, n) in results[1].items():
        two_workers = results[2][part][0]
        print(
            f"{part:12} {n:6,} images: one worker {one_worker:6.1f} s ({n / one_worker:6.1f}/s), two "
            f"{two_workers:6.1f} s ({n / two_workers:6.1f}/s), ratio {one_worker / two_workers:.2f} (goal: 1.7); "
            f"cached {repeated:.2f} s, {100 * repeated / one_worker:.1f}% (goal: below 3)"
        )
    print(f"Two independent processes are {maximum:.2f} times as fast as one")
    identical = shards[1] == shards[2]
    print(f"{len(shards[1])} shards, {'the same bytes' if identical else 'OTHER BYTES'} by one worker and by two")
    sys.exit(not identical)


if __name__ == "__main__":
    main()
