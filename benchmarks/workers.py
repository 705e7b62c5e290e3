"""Time two worker processes against one, on generation and on judging with the embedded models.

Run: ``python benchmarks/workers.py`` on a machine with two free processors; some minutes. Each worker has one thread;
one worker is this process. Started on a few images before the clock starts, they make images of the templates, and
judge those behind captions; models are loaded, and shards written and read, as in any run. It also says whether one
worker and two made the same bytes, what both stages take when nothing has changed since, and what two processors of
this machine give at most: convolutions as the model has them in two processes, pinned to a processor each, that share
nothing. Where two are threads of one core, that is far from twice as much.
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


# Convolutions on one processor for two seconds, all processes at once; how many were made.
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
    """Return how much more two pinned processes compute than one."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processors = sorted(os.sched_getaffinity(0))[:2] if hasattr(os, "sched_getaffinity") else [0, 1]
    made = []
    for some in (processors[:1], processors):
        started = [subprocess.Popen([sys.executable, "-c", ALONE, str(k)], **pipes) for k in some]
        for process in started:
            process.stdout.readline()
        for process in started:
            process.stdin.write(f"{time.time() + 0.1}\n")
            process.stdin.flush()
        made.append(sum(int(process.communicate()[0]) for process in started))
    return made[1] / made[0]


def _timed(pipeline) -> dict[str, tuple[float, int]]:
    """Return seconds and images of each part; another pipeline like one that has made them finds them in the store."""
    found = {}
    # Captions of training images are looked for before; these images are more, and drawn as they are read.
    pipeline.images("training")
    parts = {
        "generation": lambda: pipeline.images("generated").table,
        "judging": lambda: pipeline.judgements("training"),
    }
    for part, make in parts.items():
        began = time.perf_counter()
        n = len(make())
        found[part] = time.perf_counter() - began, n
    return found


def work(
    folder: Path, workers: int, images: int, n_steps: int
) -> tuple[dict[str, tuple[float, float, int]], dict[str, str]]:
    """Return seconds, seconds once more and images of each part, and the digests of shards that were made."""
    from biaslab import lexicons
    from biaslab.pipeline import Pipeline, Settings

    def some(store: str, occupations: int, n: int, steps: int) -> dict[str, dict]:
        names = list(lexicons.load("paradox_occupations"))[:occupations]
        return {
            "captions": {"occupations": names, "approaches": ["naive"], "per_occupation": 200},
            "generation": {"images_per_prompt": n, "steps": steps},
            "compute": {"workers": workers, "cache": str(folder / store), "device": "cpu"},
        }

    # Two pieces, for two workers, which the other pipeline shares.
    warm = Pipeline("mini", Settings.from_mapping(some("warm", 16, 2, 1)), seed=1, progress=False)
    warm.judgements("generated")
    timed = warm.changed(**some("timed", 62, images // (4 * 62), n_steps))
    first, again = (_timed(one) for one in (timed, timed.changed()))
    seconds = {part: (took, again[part][0], n) for part, (took, n) in first.items()}
    root = folder / "timed"
    shards = {
        p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for stage in ("generated", "generated_files", "judgements")
        for p in root.glob(f"{stage}/*/*.parquet")
    }
    return seconds, shards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=4 * 62 * 4, help="made and judged, a multiple of 248")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    found, shards = {}, {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            found[workers], shards[workers] = work(Path(folder), workers, options.images, options.steps)
    most = ceiling()
    for part, (one, again, n) in found[1].items():
        two = found[2][part][0]
        print(
            f"{part:12} {n:6,} images: one worker {one:6.1f} s ({n / one:6.1f}/s), two {two:6.1f} s "
            f"({n / two:6.1f}/s), ratio {one / two:.2f} (reach: 1.7); with nothing changed {again:.2f} s, "
            f"{100 * again / one:.1f} % (reach: under 3)"
        )
    print(f"Two processors here give {most:.2f} times what one does, in processes that share nothing")
    same = shards[1] == shards[2]
    print(f"{len(shards[1])} shards, {'the same bytes' if same else 'OTHER BYTES'} by one worker and by two")
    sys.exit(not same)


if __name__ == "__main__":
    main()
