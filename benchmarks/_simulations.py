"""Shared parts of simulations: the command line, sums of results, and durations."""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np


def sum_results(studies: Iterable[dict]) -> dict:
    """Return the sum of the studies' results by way."""
    total: dict = {}
    for study in studies:
        for way, result in study.items():
            total[way] = total.get(way, 0) + np.asarray(result, dtype=float)
    return total


def run_simulations(doc: str, simulations: dict, simulate: Callable, unit: str, **numbers: int) -> Iterator[tuple]:
    """Yield name, way and result of ``simulate`` for each simulation that the command line selects.

    Arguments are parts of simulation names, and each of ``numbers`` is an option, which is passed to ``simulate``. The
    function prints the numbers and the ``unit`` of results first, and the duration of each simulation in seconds.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("simulations", nargs="*", help="names, or parts of names; all if none is given")
    for number, default in numbers.items():
        parser.add_argument(f"--{number}", type=int, default=default)
    options = vars(parser.parse_args())
    parts = options.pop("simulations")
    print(f"{', '.join(f'{value:,} {number}' for number, value in options.items())} each; {unit}")
    for name in simulations:
        if not parts or any(part in name for part in parts):
            start = time.perf_counter()
            for way, result in simulate(name, **options).items():
                yield name, way, result
            print(f"{time.perf_counter() - start:.0f} s", flush=True)
