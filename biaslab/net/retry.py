"""When a request is sent again: one policy for pictures, chats and images.

Pauses double from one try to the next, up to a limit, and are up to a quarter longer at random, so that not all come
back at once. Where a server says when it wants to be asked again (``Retry-After``), that counts instead.
"""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any

_log = logging.getLogger(__name__)
_SPREAD = 0.25
# 31 years; also what keeps digits without end from becoming a number without end.
_LONGEST = 1e9


class Failed(Exception):
    """Why a try gave nothing; ``retry`` where another may, ``wait`` where the server said when (seconds)."""

    def __init__(
        self, outcome: str, detail: str = "", *, retry: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(outcome, detail)
        self.outcome, self.detail, self.retry, self.wait = outcome, detail, retry, wait

    def __str__(self) -> str:
        return self.detail or self.outcome


@dataclass(frozen=True)
class Policy:
    """How often, and after which pauses, a function is called that raises :class:`Failed`."""

    tries: int
    first_wait: float
    """The first pause, in seconds; each further one is twice as long."""
    longest_wait: float
    abandons: bool = False
    """Whether a server that wants a pause longer than the longest is not asked again."""

    def pause(self, tries: int, failed: Failed) -> float | None:
        """Return the seconds before another try after ``tries``, the last of which failed; None where there is none."""
        too_long = self.abandons and (failed.wait or 0.0) > self.longest_wait
        if not failed.retry or tries >= self.tries or too_long:
            return None
        seconds = self.first_wait * 2 ** (tries - 1) if failed.wait is None else failed.wait
        return min(seconds * random.uniform(1, 1 + _SPREAD), self.longest_wait)

    def run(self, send: Callable[[], Any], stop: threading.Event) -> Any:
        """Return what ``send`` does in the end; ``stop`` ends a pause, and the try after it is the last one."""
        for tries in count(1):
            try:
                return send()
            except Failed as failed:
                seconds = self.pause(tries, failed)
                if seconds is None or stop.is_set():
                    raise
                _log.info("%s: asked again in %.1f s.", failed, seconds)
            stop.wait(seconds)


def retry_after(value: str) -> float | None:
    """Return the seconds that a header ``Retry-After`` asks for (a number, or a date); None where it says nothing."""
    value = value.strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return min(float(value), _LONGEST)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return None
