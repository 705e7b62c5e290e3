"""What each test costs in seconds of processor, and by that which of `make quick`, `test` and `long` runs it.

``costs.csv`` lists the tests that took :data:`SLOW` and more, as ``make costs`` measured them one after the other on
two processors: their own time, their set-up's and that of the processes they start. A test that is not there is cheap,
but for those that say themselves that they are long: what a cluster's own processes take cannot be measured so.
"""

from __future__ import annotations

import csv
import glob
import os
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

FILE = Path(__file__).with_suffix(".csv")
SLOW, LONG = 0.3, 0.5
"""Seconds from which a test is left out of `make quick`, and from which `make long` runs it in place of `make test`."""
_VARIABLE = "TEST_COSTS"


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]):
    """Mark tests ``slow`` and ``long`` by what they cost; those marked ``main`` are never long.

    What is left of them then begins with the dearest file, so that no worker ends alone with one.
    """
    with FILE.open(encoding="utf-8", newline="") as file:
        costs = {row["test"]: float(row["seconds"]) for row in csv.DictReader(file)}
    for item in items:
        cost = costs.get(item.nodeid, 0.0)
        if cost >= LONG and not item.get_closest_marker("main"):
            item.add_marker(pytest.mark.long)
        if cost >= SLOW or item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)
    yield
    dear = Counter()
    for item in items:
        dear[_file(item.nodeid)] += costs.get(item.nodeid, 0.0)
    items.sort(key=lambda item: -dear[_file(item.nodeid)])


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item):
    """Add a line with what a test cost to the file that the environment names, where it names one."""
    if not (path := os.environ.get(_VARIABLE)):
        yield
        return
    whole, own = _seconds(os.getpid()), time.process_time()
    yield
    # What others took that ended without this process waiting for them is gone; at least it took its own.
    cost = max(_seconds(os.getpid()) - whole, time.process_time() - own)
    with Path(path).open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow([item.nodeid, f"{cost:.1f}"])


def _seconds(pid: int) -> float:
    """Return what a process, and all that it started, have taken of processors; 0 where it is gone. For Linux."""
    try:
        # The command's name, in brackets, may hold anything.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lists = [Path(path).read_text() for path in glob.glob(f"/proc/{pid}/task/*/children")]
    except OSError:
        return 0.0
    own = sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_seconds(int(child)) for words in lists for child in words.split())


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8", newline="") as measured:
        dear = sorted(row for row in csv.reader(measured) if float(row[1]) >= SLOW)
    with FILE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("test", "seconds"), *dear])
