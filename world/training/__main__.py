"""The command that trains an embedded model from the embedded world, from scratch: ``python -m training NAME``."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from pathlib import Path

import training
from biaslab import cli
from biaslab.errors import RunError


def parser() -> argparse.ArgumentParser:
    """Return what reads the command's arguments."""
    text = "Train an embedded model from the embedded world, from scratch."
    made = argparse.ArgumentParser(prog="python -m training", description=text)
    made.set_defaults(call=_train, stop_hint="continue with --resume")
    add = made.add_argument
    add("name", metavar="NAME", help=f"one of {', '.join(training.TRAINERS)}")
    add("--folder", metavar="DIR", help="where the model goes (default: outputs/models/NAME)")
    add("--minutes", type=_minutes, metavar="N", help="end after so many minutes")
    add("--steps", type=int, metavar="N", help="steps to train (default: the model's own)")
    add("--batch", type=int, metavar="N", help="examples a step (default: the model's own)")
    add("--seed", type=int, metavar="N", help="seed of weights and data")
    add("--resume", action="store_true", help="go on with a training that was stopped")
    add("--overwrite", action="store_true", help="start anew where a training or a model is")
    add("--no-progress", action="store_true", help="show no progress bar")
    return made


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of minutes above 0")
    return value


def _train(given: argparse.Namespace) -> None:
    trainer = training.trainer(given.name)
    folder = Path(given.folder or f"outputs/models/{given.name}")
    work = Path("outputs/.train") / given.name
    there = [path for path in (folder, work) if path.exists() and any(path.iterdir())]
    if there and given.overwrite:
        for path in there:
            shutil.rmtree(path)
    elif there and not given.resume:
        raise RunError(f"{there[0]} is not empty. Go on with --resume, or start anew with --overwrite.")
    work.mkdir(parents=True, exist_ok=True)
    asked = {name: getattr(given, name) for name in ("minutes", "steps", "batch", "seed")}
    how = {name: value for name, value in asked.items() if value is not None}
    how |= {"checkpoint": work / "state.pt", "log": work / "log.csv", "progress": not given.no_progress}
    for name, value in trainer(folder, **how).items():
        print(f"{name}: {value:.4g}")
    print(folder)


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit status: 0 fine, 2 wrong input."""
    return cli.main(arguments, parser())


if __name__ == "__main__":
    sys.exit(main())
