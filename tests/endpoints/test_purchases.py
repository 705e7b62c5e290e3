"""The database of purchases: nothing is bought twice and nothing beyond the limit, whatever ends a process."""

import contextlib
import errno
import functools
import os
import platform
import shutil
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
import test_image_endpoint as base
from fake_endpoint import completion, drawn, failure, picture, process, wait
from test_chat import say
from test_image_endpoint import REFUSAL, asked, bought, buy_from, made, of, ordered, posix, query

from biaslab import cli
from biaslab.cache.result_cache import ResultCache
from biaslab.endpoints import purchases
from biaslab.endpoints.chat import ask
from biaslab.endpoints.endpoint import Requests
from biaslab.endpoints.purchases import ImagePurchases, LimitError, summary
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import InputError, RunError

server = base.server
NAME = "purchases.sqlite"
DAMAGED = rf"{NAME}, is damaged: .*no request is sent\. Restore a copy of this file"


@pytest.fixture
def ten(server, store):
    """Ten images at 0.25 under a limit of 2.50, the last of them a refusal, which cost nothing: 2.25 are spent."""
    server.reply = lambda text, n: REFUSAL if text == "photo 9" else drawn(picture(of(text)))
    images = made(server, store, asked(10), cost_limit=2.5, concurrency=1)
    assert images.spent == 2.25 and len(server.requests) == 10
    server.requests.clear()
    return images


# -- killed at any point ----------------------------------------------------------------------------------------


def points(*main, left):
    """Return points of a test, of which some are ``left`` to long tests."""
    return [*main, *(pytest.param(point, marks=pytest.mark.long) for point in left if point not in main)]


def _die_at(point):
    """Let this process be killed at the n-th moment: before or after a commit, a request, or the write of an image."""
    passed = []

    def moment():
        passed.append(1)
        if len(passed) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(function):
        def both(*args, **kwargs):
            moment()
            result = function(*args, **kwargs)
            moment()
            return result

        return both

    class Connection(sqlite3.Connection):
        def commit(self):
            watched(super().commit)() if self.in_transaction else super().commit()

    sqlite3.connect = functools.partial(sqlite3.connect, factory=Connection)
    purchases.replace = watched(purchases.replace)
    Requests.post = watched(Requests.post)


def _buy_and_die(url, root, point, more):
    _die_at(point)
    buy_from(url, root, 6, **more)


def _ask_and_die(url, root, point):
    _die_at(point)
    _asked(url, root)


def _asked(url, root):
    given = {"url": url, "model": "some-model", "api_key_env": "", "price": 0.25, "cost_limit": 1.25}
    settings = EndpointSettings(**given, concurrency=1)
    return ask(settings, say(*map(str, range(4))), ResultCache(root), charged=True, progress=False)


# By hand: the claim, the check of the file and the second claim are three commits, so moments 1 to 6. Each image then
# has its reservation, request, reply, file and row, so ten moments. All moments of the first one are tried.
@posix
@pytest.mark.parametrize("point", points(11, 14, left=[1, 4, *range(6, 17), 18, 23, 29, 31, 37, 44, 50, 55, 60]))
def test_killed_at_any_point_it_buys_what_is_left_under_the_limit(server, tmp_path, point):
    """Image 2 is refused and image 3 fails once, for which the server charges nothing."""
    charged, failed = [], []

    def reply(text, n):
        if text == "photo 2":
            return REFUSAL
        if text == "photo 3" and not failed:
            return failed.append(n) or failure(500)
        charged.append(text)
        return drawn(picture(of(text)), revised=text.upper())

    server.reply = reply
    # Five images cost 1.25; the killed process may leave one request of which nobody knows what became.
    more = {"cost_limit": 1.5, "concurrency": 1}
    killed = process(_buy_and_die, server.url, tmp_path, point, more)
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    known = query(tmp_path, "select json_extract(asked, '$.prompt'), reply from images") if point > 2 else []
    before, saved = len(charged), sum(reply is not None for _, reply in known)
    images = buy_from(server.url, tmp_path, 6, **more)
    assert images.table["status"].tolist() == ["ok", "ok", "refused", "ok", "ok", "ok"]
    assert [image[0, 0, 0] for image in images.read(images.table["image_id"].drop(2))] == [0, 1, 3, 4, 5]
    # The revised prompt is that of the saved reply.
    assert images.table["revised_prompt"].drop(2).tolist() == [f"PHOTO {i}" for i in (0, 1, 3, 4, 5)]
    assert len(charged) * 0.25 <= images.spent <= 1.5
    # Neither an image that is there nor one whose reply was saved is bought again.
    kept = sum(prompt not in (None, "photo 2") for prompt, _ in known)
    assert len(charged) - before == 5 - kept - saved


@posix
@pytest.mark.parametrize("point", points(13, left=[2, 9, 11, 17, 22]))
def test_killed_at_any_point_it_asks_no_answered_question_again(server, tmp_path, point):
    server.reply = lambda question, n: completion(question)
    killed = process(_ask_and_die, server.url, tmp_path, point)
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    answered = query(tmp_path, "select count(*) from answers")[0][0] if point > 2 else 0
    before = len(server.requests)
    assert [answer.text for answer in _asked(server.url, tmp_path)] == list("0123")
    assert len(server.requests) - before == 4 - answered
    (found,) = summary(tmp_path)
    assert len(server.requests) * 0.25 <= found["spent"] <= 1.25
    assert found["endpoint"] == f"some-model at {server.url}"


# -- several at once --------------------------------------------------------------------------------------------


def _buy_other(url, root, seed):
    settings = EndpointSettings(url=url, model="painter-3", api_key_env="", price=0.25, cost_limit=2.5)
    with contextlib.suppress(RunError):
        bought(asked(10), settings, ResultCache(root), seed)


def _reserve(folder):
    with contextlib.suppress(LimitError):
        while True:
            ImagePurchases(folder, 0.25, 10).reserve("a" * 64, lambda: False)


def test_two_processes_stay_under_one_limit(server, tmp_path):
    """Each wants ten images of its own; ten are all that the limit allows."""
    server.reply = lambda text, n: drawn(picture((n, 100, 200)))
    started = [process(_buy_other, server.url, tmp_path, seed) for seed in (1, 2)]
    for one in started:
        one.join(60)
    assert [one.exitcode for one in started] == [0, 0]
    assert len(server.requests) == 10 and summary(tmp_path)[0]["spent"] == 2.5


def test_reservations_of_processes_and_threads_fill_the_limit_exactly(tmp_path):
    """Without turns: the transaction alone keeps the sum of the folder under the limit."""
    folder = tmp_path / "bought_images" / ("0" * 16)
    started = [process(_reserve, folder) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_reserve, [folder] * 2))
    for one in started:
        one.join(60)
    assert [one.exitcode for one in started] == [0, 0]
    assert query(tmp_path, "select count(*), sum(cost) from charges") == [(40, 10.0)]


def test_what_is_spent_is_in_the_database_before_a_request_leaves(server, store):
    seen = []

    def reply(text, n):
        seen.append(query(store.root, "select count(*) from charges")[0][0])
        return drawn(picture(of(text)))

    server.reply = reply
    made(server, store, asked(3), concurrency=1)
    assert seen == [1, 2, 3]


# -- one host ---------------------------------------------------------------------------------------------------


def _buy_elsewhere(url, root):
    platform.node = lambda: "elsewhere"
    buy_from(url, root, 1)


@posix
def test_a_second_host_buys_nothing_until_the_first_has_ended_or_is_released(server, store, capsys):
    holding = []
    server.reply = lambda text, n: holding.append(n) or wait(lambda: not holding) or drawn(picture(of(text)))
    other = process(_buy_elsewhere, server.url, store.root)
    wait(lambda: holding, other)
    refused = rf"The host elsewhere is buying with {store.root / NAME}.*nothing is bought on {platform.node()}: .*"
    refused += rf"biaslab purchases --release --cache {store.root}"
    for killed in (False, True):
        with pytest.raises(RunError, match=refused):
            made(server, store, asked(2), api_key_env="")
        if not killed:
            other.kill()
            other.join(60)
    assert len(server.requests) == 1
    # What there is can be read all the same.
    assert made(server, store, asked(2), allow_purchases=False).spent == 0.25
    assert cli.main(["purchases", "--release", "--cache", str(store.root)]) == 0
    assert "spent: 0.25\nimages: none\nreplies: 0\n" in capsys.readouterr().out
    holding.clear()
    server.reply = lambda text, n: drawn(picture(of(text)))
    assert made(server, store, asked(2)).spent == 0.75
    # Who has ended holds nothing.
    elsewhere = process(_buy_elsewhere, server.url, store.root)
    elsewhere.join(60)
    assert elsewhere.exitcode == 0


# -- what the system refuses, and damage ------------------------------------------------------------------------


def _connecting(monkeypatch, change):
    """Let each new connection to a database be changed."""
    connect = sqlite3.connect
    monkeypatch.setattr(purchases.sqlite3, "connect", lambda file, **how: change(connect, file, how))


def _full(connect, file, how):
    database = connect(file, **how)
    database.execute(f"pragma max_page_count = {database.execute('pragma page_count').fetchone()[0]}")
    return database


def _read_only(connect, file, how):
    return connect(f"{Path(file).as_uri()}?mode=ro", uri=True, **how)


def _without_locks(connect, file, how):
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_LOCK
    raise error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_full, "database or disk is full.*To continue, free some space, and run again"),
        (
            _read_only,
            "attempt to write a readonly database.*, give this user read and write access to it and its folder",
        ),
        (_without_locks, "disk I/O error.*, set compute.cache or BIASLAB_CACHE to a folder on a local disk"),
    ],
)
def test_what_the_system_refuses_is_one_error_with_path_and_fix(server, store, ten, monkeypatch, change, message):
    # More rows than fit on the pages that there are.
    with monkeypatch.context() as patch:
        _connecting(patch, change)
        with pytest.raises(RunError, match=rf"{NAME}: {message}"):
            made(server, store, asked(60), cost_limit=100)
    images = made(server, store, asked(60), cost_limit=100)
    assert images.spent >= len(server.requests) * 0.25 and (images.table["status"] == "ok").sum() == 59


def test_image_that_a_full_disk_refused_is_written_by_the_next_run_from_its_reply(server, store, monkeypatch):
    server.reply = lambda text, n: drawn(picture(of(text)))
    with monkeypatch.context() as patch:
        patch.setattr(purchases, "replace", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(RunError, match=r"No space left to write .*Purchases remain in the cache"):
            made(server, store, asked(1))
    assert made(server, store, asked(1)).table["status"].tolist() == ["ok"]
    assert len(server.requests) == 1


def test_a_database_that_is_locked_for_too_long_is_told(server, store, ten, monkeypatch):
    _connecting(monkeypatch, lambda connect, file, how: connect(file, **{**how, "timeout": 0.05}))
    with contextlib.closing(sqlite3.connect(store.root / NAME, isolation_level=None)) as holder:
        holder.execute("begin exclusive")
        with pytest.raises(
            RunError,
            match=rf"{NAME}: database is locked.*, set compute.cache or BIASLAB_CACHE to a folder on a local disk",
        ):
            made(server, store, asked(11))
    assert server.requests == []


def test_a_store_that_can_be_read_alone_is_read(server, store, ten, monkeypatch):
    _connecting(monkeypatch, _read_only)
    assert made(server, store, asked(10), allow_purchases=False).digest == ten.digest
    assert ordered(server, store, 12).n_cached() == 10


def test_a_folder_in_the_place_of_the_database_is_told(server, store):
    (store.root / NAME).mkdir(parents=True)
    with pytest.raises(
        RunError, match=rf"{NAME}: unable to open database file.*give this user read and write access to it"
    ):
        made(server, store, asked(1))
    assert server.requests == []


@pytest.mark.parametrize("damage", ["no database", "cut", "overwritten", "older", "gone"])
def test_a_damaged_database_stops_the_run_before_anything_is_bought(server, store, ten, damage):
    path = store.root / NAME
    whole = path.read_bytes()
    if damage == "older":
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("delete from images where rowid > 5")
            database.commit()
    elif damage == "gone":
        path.unlink()
    else:
        middle = whole[:4096] + b"\xff" * 4096 + whole[8192:]
        path.write_bytes({"no database": b"{}" * 4096, "cut": whole[:-6000], "overwritten": middle}[damage])
    # There is room under the limit for more, which is what a run that does not look would buy.
    with pytest.raises(RunError, match=DAMAGED):
        made(server, store, asked(12), cost_limit=100)
    assert server.requests == []
    path.write_bytes(whole)
    server.reply = lambda text, n: drawn(picture(of(text)))
    assert made(server, store, asked(12), cost_limit=100).spent == 2.75


def test_files_that_systems_put_next_to_images_are_none(server, store, ten):
    next(store.root.glob("bought_images/*/images/*")).joinpath("Thumbs.db").write_bytes(b"")
    assert made(server, store, asked(11), cost_limit=2.5).spent == 2.5


# -- the command ------------------------------------------------------------------------------------------------


def test_the_command_says_what_was_bought_of_each_model(server, store, ten, capsys, tmp_path, monkeypatch):
    server.reply = lambda text, n: drawn(picture(of(text)))
    made(server, store, asked(1), model="other")
    monkeypatch.setenv("BIASLAB_CACHE", str(store.root))
    folders = [path.relative_to(store.root) for path in store.root.glob("bought_images/*")]
    assert cli.main(["purchases"]) == 0
    blocks = capsys.readouterr().out.split("\n\n")
    found = sorted(block.strip().splitlines() for block in blocks)
    assert [lines[:4] for lines in found] == [
        [f"endpoint: other at {server.url}", "spent: 0.25", "images: 1 ok", "replies: 0"],
        [f"endpoint: painter-3 at {server.url}", "spent: 2.25", "images: 9 ok, 1 refused", "replies: 0"],
    ]
    assert sorted(lines[4] for lines in found) == sorted(f"folder: {folder}" for folder in folders)
    shutil.rmtree(store.root)
    assert cli.main(["purchases", "--cache", str(tmp_path)]) == 2
    assert f"{tmp_path} contains no {NAME}: nothing was bought with this cache." in capsys.readouterr().err
    with pytest.raises(InputError, match="nothing was bought"):
        purchases.release(tmp_path)
