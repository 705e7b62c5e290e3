"""When a request is sent again."""

import threading
import time
from email.utils import formatdate

import pytest

from biaslab.net.retry import Failed, pause, policy, retry_after


def failing(*results):
    """Return a function that raises or returns these one after the other, and what it was called."""
    left, calls = list(results), []

    def work():
        calls.append(time.monotonic())
        result = left.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    return work, calls


def busy(wait=None):
    return Failed("server_error", "status 503", retry=True, wait=wait)


def test_pauses_double_up_to_the_limit_and_are_a_quarter_longer_at_most():
    waits = [pause(policy(9, 0.01, 0.2), tries, busy()) for tries in range(1, 7)]
    for found, least in zip(waits, (0.01, 0.02, 0.04, 0.08, 0.16, 0.2), strict=True):
        assert least <= found <= min(least * 1.25, 0.2)
    assert len({pause(policy(9, 0.01, 0.2), 1, busy()) for _ in range(20)}) > 1


def test_what_a_server_asks_for_counts_up_to_the_limit():
    kept = policy(9, 30.0, 60.0)
    assert 0.1 <= pause(kept, 1, busy(0.1)) <= 0.125
    assert pause(kept, 1, busy(60)) == 60 and pause(kept, 1, busy(3600)) == 60
    # Who has others to ask leaves one that wants to be left.
    abandons = policy(9, 30.0, 60.0, abandons=True)
    assert pause(abandons, 1, busy(60)) == 60 and pause(abandons, 1, busy(60.1)) is None


def test_there_are_so_many_tries_and_only_where_another_may_help():
    assert pause(policy(3, 1, 9), 2, busy()) and pause(policy(3, 1, 9), 3, busy()) is None
    assert pause(policy(3, 1, 9), 1, Failed("not_found")) is None
    work, calls = failing(busy(), busy(), "at last", "never")
    assert policy(3, 0.001, 1)(work) == "at last" and len(calls) == 3
    for error in (Failed("gone", "status 410"), ValueError("a mistake"), busy()):
        work, calls = failing(busy(), error, "never")
        with pytest.raises(type(error), match=str(error)):
            policy(2, 0.001, 1)(work)
        assert len(calls) == 2


def test_a_stop_ends_the_pause_and_the_tries():
    stop = threading.Event()
    work, calls = failing(busy(), busy(), "one try too many")
    threading.Timer(0.05, stop.set).start()
    with pytest.raises(Failed):
        policy(9, 30, 30, stop=stop)(work)
    assert len(calls) == 2 and calls[1] - calls[0] < 20


def test_retry_after_is_a_number_or_a_date():
    seconds = {"12": 12, " 0 ": 0, "0.5": 0.5}
    # Never a number without end.
    seconds["9" * 400] = 1e9
    nothing = ("", "soon", "-5", "1e9", "inf", "\u0663", "Mon, 01 Jan 99999 00:00:00 GMT")
    assert {value: retry_after(value) for value in (*seconds, *nothing)} == seconds | dict.fromkeys(nothing)
    assert 50 < retry_after(formatdate(time.time() + 60, usegmt=True)) <= 60
    assert retry_after(formatdate(time.time() - 60, usegmt=True)) == 0
