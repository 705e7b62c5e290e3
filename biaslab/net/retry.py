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
from email.utils import parsedate_to_datetime

import tenacity

_log = logging.getLogger(__name__)
_SPREAD = 0.25
# 31 years; also what keeps digits without end from becoming a number without end.
_LONGEST = 1e9


class Failed(Exception):
    """Why a try gave nothing; ``retry`` where another may, ``wait`` where the server said when (seconds)."""

    def __init__(self, outcome: str, detail: str = "", *, retry: bool = False, wait: float | None = None) -> None:
        super().__init__(outcome, detail)
        self.outcome, self.detail, self.retry, self.wait = outcome, detail, retry, wait

    def __str__(self) -> str:
        return self.detail or self.outcome


def policy(
    tries: int, first_wait: float, longest_wait: float, *, stop: threading.Event | None = None, abandons: bool = False
) -> tenacity.Retrying:
    """Return what calls a function until it does not raise :class:`Failed`, ``tries`` times at most.

    The first pause takes ``first_wait`` seconds, none more than ``longest_wait``. ``stop`` ends a pause, and the try
    after it is the last. With ``abandons``, who wants a longer pause than ``longest_wait`` is not asked again.
    """
    stop = stop or threading.Event()

    def again(error: BaseException) -> bool:
        retry = isinstance(error, Failed) and error.retry
        return retry and not (abandons and (error.wait or 0.0) > longest_wait)

    def wait(state: tenacity.RetryCallState) -> float:
        asked = state.outcome.exception().wait
        seconds = first_wait * 2 ** (state.attempt_number - 1) if asked is None else asked
        return min(seconds * random.uniform(1, 1 + _SPREAD), longest_wait)

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(again),
        stop=tenacity.stop_after_attempt(tries) | tenacity.stop_when_event_set(stop),
        wait=wait,
        sleep=tenacity.sleep_using_event(stop),
        before_sleep=tenacity.before_sleep_log(_log, logging.INFO),
        reraise=True,
    )


def pause(policy: tenacity.Retrying, tries: int, failed: Failed) -> float | None:
    """Return the seconds before another try, after ``tries`` the last of which ``failed``; None where there is none."""
    state = tenacity.RetryCallState(policy, None, (), {})
    state.attempt_number = tries
    state.set_exception((Failed, failed, failed.__traceback__))
    return policy.wait(state) if policy.retry(state) and not policy.stop(state) else None


def retry_after(value: str) -> float | None:
    """Return the seconds that a header ``Retry-After`` asks for (a number, or a date); None where it says nothing."""
    value = value.strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return min(float(value), _LONGEST)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return None
