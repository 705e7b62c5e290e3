"""The command that trains a model of the synthetic world from scratch: ``python -m training NAME``."""

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
    """Return the parser of the command's arguments."""
    text = "Train a model of the synthetic world from scratch."
    parser = argparse.ArgumentParser(prog="python -m training", description=text)
    parser.set_defaults(call=_train, stop_hint="continue with --resume")
    add = parser.add_argument
    add("name", metavar="NAME", help=f"one of {', '.join(training.TRAINERS)}")
    add("--folder", metavar="DIR", help="output folder of the model (default: outputs/models/NAME)")
    add("--minutes", type=_minutes, metavar="N", help="stop after N minutes")
    add("--steps", type=int, metavar="N", help="training steps (default: that of the model)")
    add("--batch", type=int, metavar="N", help="examples per step (default: that of the model)")
    add("--seed", type=int, metavar="N", help="seed of weights and data")
    add("--resume", action="store_true", help="continue an interrupted training")
    add("--overwrite", action="store_true", help="delete an existing training or model and start over")
    add("--no-progress", action="store_true", help="show no progress bar")
    return parser


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of minutes above 0")
    return value


def _train(arguments: argparse.Namespace) -> None:
    trainer = training.trainer(arguments.name)
    folder = Path(arguments.folder or f"outputs/models/{arguments.name}")
    work = Path("outputs/.train") / arguments.name
    existing = [path for path in (folder, work) if path.exists() and any(path.iterdir())]
    if existing and arguments.overwrite:
        for path in existing:
            shutil.rmtree(path)
    elif existing and not arguments.resume:
        raise RunError(f"{existing[0]} is not empty. Continue with --resume, or start over with --overwrite.")
    work.mkdir(parents=True, exist_ok=True)
    chosen = {name: getattr(arguments, name) for name in ("minutes", "steps", "batch", "seed")}
    settings = {name: value for name, value in chosen.items() if value is not None}
    settings |= {"checkpoint": work / "state.pt", "log": work / "log.csv", "progress": not arguments.no_progress}
    for name, value in trainer(folder, **settings).items():
        print(f"{name}: {value:.4g}")
    print(folder)


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit status: 0 for success, 2 for wrong input."""
    return cli.main(arguments, parser())


if __name__ == "__main__":
    sys.exit(main())
