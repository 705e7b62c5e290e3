"""The database of purchases: nothing is bought twice or beyond the limit, however a process ends."""

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
from test_image_endpoint import REFUSAL, asked, buy, buy_from, colour_of, made, order_images, posix, query

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
DAMAGE_MESSAGE = rf"{NAME}, is damaged: .*no request is sent\. Restore a copy of this file"


@pytest.fixture
def ten(server, store):
    """Ten images at 0.25 under a limit of 2.50, the last of them a refusal, which cost nothing: 2.25 are spent."""
    server.reply = lambda text, n: REFUSAL if text == "photo 9" else drawn(picture(colour_of(text)))
    images = made(server, store, asked(10), cost_limit=2.5, concurrency=1)
    assert images.spent == 2.25 and len(server.requests) == 10
    server.requests.clear()
    return images


# -- killed at any point ----------------------------------------------------------------------------------------


def points(*main, left):
    """Return points of a test, of which some are ``left`` to long tests."""
    return [*main, *(pytest.param(point, marks=pytest.mark.long) for point in left if point not in main)]


def _die_at(point):
    """Kill this process at the n-th moment: before or after a commit, a request, or the write of an image."""
    moments = []

    def moment():
        moments.append(1)
        if len(moments) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def with_moments(function):
        def wrapped(*args, **kwargs):
            moment()
            result = function(*args, **kwargs)
            moment()
            return result

        return wrapped

    class Connection(sqlite3.Connection):
        def commit(self):
            with_moments(super().commit)() if self.in_transaction else super().commit()

    sqlite3.connect = functools.partial(sqlite3.connect, factory=Connection)
    purchases.replace = with_moments(purchases.replace)
    Requests.post = with_moments(Requests.post)


def _buy_and_die(url, root, point, more):
    _die_at(point)
    buy_from(url, root, 6, **more)


def _ask_and_die(url, root, point):
    _die_at(point)
    _ask_chat(url, root)


def _ask_chat(url, root):
    given = {"url": url, "model": "some-model", "api_key_env": "", "price": 0.25, "cost_limit": 1.25}
    settings = EndpointSettings(**given, concurrency=1)
    return ask(settings, say(*map(str, range(4))), ResultCache(root), charged=True, progress=False)


# By hand: the claim, the check of the file and the second claim are three commits, so moments 1 to 6. Each image then
# has its reservation, request, reply, file and row, so ten moments. All moments of the first one are tried.
@posix
@pytest.mark.parametrize("point", points(11, 14, left=[1, 4, *range(6, 17), 18, 23, 29, 31, 37, 44, 50, 55, 60]))
def test_killed_run_buys_only_missing_images(server, tmp_path, point):
    """Image 2 is refused and image 3 fails once, for which the server charges nothing."""
    charged, failed = [], []

    def reply(text, n):
        if text == "photo 2":
            return REFUSAL
        if text == "photo 3" and not failed:
            return failed.append(n) or failure(500)
        charged.append(text)
        return drawn(picture(colour_of(text)), revised=text.upper())

    server.reply = reply
    # Five images cost 1.25; the killed process may leave one request of which nobody knows what became.
    more = {"cost_limit": 1.5, "concurrency": 1}
    killed_run = process(_buy_and_die, server.url, tmp_path, point, more)
    killed_run.join(60)
    assert killed_run.exitcode == -signal.SIGKILL
    known_images = query(tmp_path, "select json_extract(asked, '$.prompt'), reply from images") if point > 2 else []
    n_before, saved = len(charged), sum(reply is not None for _, reply in known_images)
    images = buy_from(server.url, tmp_path, 6, **more)
    assert images.table["status"].tolist() == ["ok", "ok", "refused", "ok", "ok", "ok"]
    assert [image[0, 0, 0] for image in images.read(images.table["image_id"].drop(2))] == [0, 1, 3, 4, 5]
    # The revised prompt is that of the saved reply.
    assert images.table["revised_prompt"].drop(2).tolist() == [f"PHOTO {i}" for i in (0, 1, 3, 4, 5)]
    assert len(charged) * 0.25 <= images.spent <= 1.5
    # Neither a cached image nor one with a saved reply is bought again.
    n_kept = sum(prompt not in (None, "photo 2") for prompt, _ in known_images)
    assert len(charged) - n_before == 5 - n_kept - saved


@posix
@pytest.mark.parametrize("point", points(13, left=[2, 9, 11, 17, 22]))
def test_killed_chat_asks_no_question_twice(server, tmp_path, point):
    server.reply = lambda question, n: completion(question)
    killed_run = process(_ask_and_die, server.url, tmp_path, point)
    killed_run.join(60)
    assert killed_run.exitcode == -signal.SIGKILL
    n_answered = query(tmp_path, "select count(*) from answers")[0][0] if point > 2 else 0
    n_before = len(server.requests)
    assert [answer.text for answer in _ask_chat(server.url, tmp_path)] == list("0123")
    assert len(server.requests) - n_before == 4 - n_answered
    (actual,) = summary(tmp_path)
    assert len(server.requests) * 0.25 <= actual["spent"] <= 1.25
    assert actual["endpoint"] == f"some-model at {server.url}"


# -- several at once --------------------------------------------------------------------------------------------


def _buy_other(url, root, seed):
    settings = EndpointSettings(url=url, model="painter-3", api_key_env="", price=0.25, cost_limit=2.5)
    with contextlib.suppress(RunError):
        buy(asked(10), settings, ResultCache(root), seed)


def _reserve(folder):
    with contextlib.suppress(LimitError):
        while True:
            ImagePurchases(folder, 0.25, 10).reserve("a" * 64, lambda: False)


def test_two_processes_share_cost_limit(server, tmp_path):
    """Each requests ten images of its own; the limit allows ten in total."""
    server.reply = lambda text, n: drawn(picture((n, 100, 200)))
    started = [process(_buy_other, server.url, tmp_path, seed) for seed in (1, 2)]
    for child in started:
        child.join(60)
    assert [child.exitcode for child in started] == [0, 0]
    assert len(server.requests) == 10 and summary(tmp_path)[0]["spent"] == 2.5


def test_concurrent_reservations_fill_limit_exactly(tmp_path):
    """Without turns: the transaction alone keeps the sum of the folder under the limit."""
    folder = tmp_path / "bought_images" / ("0" * 16)
    started = [process(_reserve, folder) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_reserve, [folder] * 2))
    for child in started:
        child.join(60)
    assert [child.exitcode for child in started] == [0, 0]
    assert query(tmp_path, "select count(*), sum(cost) from charges") == [(40, 10.0)]


def test_charge_is_saved_before_request(server, store):
    n_charges = []

    def reply(text, n):
        n_charges.append(query(store.root, "select count(*) from charges")[0][0])
        return drawn(picture(colour_of(text)))

    server.reply = reply
    made(server, store, asked(3), concurrency=1)
    assert n_charges == [1, 2, 3]


# -- one host ---------------------------------------------------------------------------------------------------


def _buy_elsewhere(url, root):
    platform.node = lambda: "elsewhere"
    buy_from(url, root, 1)


@posix
def test_second_host_buys_only_after_release(server, store, capsys):
    pending = []
    server.reply = lambda text, n: pending.append(n) or wait(lambda: not pending) or drawn(picture(colour_of(text)))
    other_host = process(_buy_elsewhere, server.url, store.root)
    wait(lambda: pending, other_host)
    other_host_message = (
        rf"The host elsewhere is buying with {store.root / NAME}.*nothing is bought on {platform.node()}: .*"
    )
    other_host_message += rf"biaslab purchases --release --cache {store.root}"
    for killed_run in (False, True):
        with pytest.raises(RunError, match=other_host_message):
            made(server, store, asked(2), api_key_env="")
        if not killed_run:
            other_host.kill()
            other_host.join(60)
    assert len(server.requests) == 1
    # Cached images remain readable.
    assert made(server, store, asked(2), allow_purchases=False).spent == 0.25
    assert cli.main(["purchases", "--release", "--cache", str(store.root)]) == 0
    assert "spent: 0.25\nimages: none\nreplies: 0\n" in capsys.readouterr().out
    pending.clear()
    server.reply = lambda text, n: drawn(picture(colour_of(text)))
    assert made(server, store, asked(2)).spent == 0.75
    # A finished process holds nothing.
    elsewhere = process(_buy_elsewhere, server.url, store.root)
    elsewhere.join(60)
    assert elsewhere.exitcode == 0


# -- system errors and damage -----------------------------------------------------------------------------------


def _patch_connect(monkeypatch, change):
    """Let each new connection to a database be changed."""
    connect = sqlite3.connect
    monkeypatch.setattr(purchases.sqlite3, "connect", lambda file, **options: change(connect, file, options))


def _full(connect, file, options):
    database = connect(file, **options)
    database.execute(f"pragma max_page_count = {database.execute('pragma page_count').fetchone()[0]}")
    return database


def _read_only(connect, file, options):
    return connect(f"{Path(file).as_uri()}?mode=ro", uri=True, **options)


def _without_locks(connect, file, options):
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
def test_database_error_names_path_and_fix(server, store, ten, monkeypatch, change, message):
    # More rows than fit on the pages that there are.
    with monkeypatch.context() as patch:
        _patch_connect(patch, change)
        with pytest.raises(RunError, match=rf"{NAME}: {message}"):
            made(server, store, asked(60), cost_limit=100)
    images = made(server, store, asked(60), cost_limit=100)
    assert images.spent >= len(server.requests) * 0.25 and (images.table["status"] == "ok").sum() == 59


def test_image_refused_by_full_disk_is_restored(server, store, monkeypatch):
    server.reply = lambda text, n: drawn(picture(colour_of(text)))
    with monkeypatch.context() as patch:
        patch.setattr(purchases, "replace", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(RunError, match=r"No space left to write .*Purchases remain in the cache"):
            made(server, store, asked(1))
    assert made(server, store, asked(1)).table["status"].tolist() == ["ok"]
    assert len(server.requests) == 1


def test_locked_database_is_reported(server, store, ten, monkeypatch):
    _patch_connect(monkeypatch, lambda connect, file, options: connect(file, **{**options, "timeout": 0.05}))
    with contextlib.closing(sqlite3.connect(store.root / NAME, isolation_level=None)) as holder:
        holder.execute("begin exclusive")
        with pytest.raises(
            RunError,
            match=rf"{NAME}: database is locked.*, set compute.cache or BIASLAB_CACHE to a folder on a local disk",
        ):
            made(server, store, asked(11))
    assert server.requests == []


def test_read_only_cache_is_readable(server, store, ten, monkeypatch):
    _patch_connect(monkeypatch, _read_only)
    assert made(server, store, asked(10), allow_purchases=False).digest == ten.digest
    assert order_images(server, store, 12).n_cached() == 10


def test_folder_in_place_of_database_is_reported(server, store):
    (store.root / NAME).mkdir(parents=True)
    with pytest.raises(
        RunError, match=rf"{NAME}: unable to open database file.*give this user read and write access to it"
    ):
        made(server, store, asked(1))
    assert server.requests == []


@pytest.mark.parametrize("damage", ["no database", "cut", "overwritten", "older", "gone"])
def test_damaged_database_stops_before_purchase(server, store, ten, damage):
    path = store.root / NAME
    content = path.read_bytes()
    if damage == "older":
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("delete from images where rowid > 5")
            database.commit()
    elif damage == "gone":
        path.unlink()
    else:
        middle = content[:4096] + b"\xff" * 4096 + content[8192:]
        path.write_bytes({"no database": b"{}" * 4096, "cut": content[:-6000], "overwritten": middle}[damage])
    # The limit allows more, which a run without the check would buy.
    with pytest.raises(RunError, match=DAMAGE_MESSAGE):
        made(server, store, asked(12), cost_limit=100)
    assert server.requests == []
    path.write_bytes(content)
    server.reply = lambda text, n: drawn(picture(colour_of(text)))
    assert made(server, store, asked(12), cost_limit=100).spent == 2.75


def test_system_files_next_to_images_are_ignored(server, store, ten):
    next(store.root.glob("bought_images/*/images/*")).joinpath("Thumbs.db").write_bytes(b"")
    assert made(server, store, asked(11), cost_limit=2.5).spent == 2.5


# -- the command ------------------------------------------------------------------------------------------------


def test_purchases_command_lists_each_model(server, store, ten, capsys, tmp_path, monkeypatch):
    server.reply = lambda text, n: drawn(picture(colour_of(text)))
    made(server, store, asked(1), model="other")
    monkeypatch.setenv("BIASLAB_CACHE", str(store.root))
    folders = [path.relative_to(store.root) for path in store.root.glob("bought_images/*")]
    assert cli.main(["purchases"]) == 0
    blocks = capsys.readouterr().out.split("\n\n")
    actual = sorted(block.strip().splitlines() for block in blocks)
    assert [lines[:4] for lines in actual] == [
        [f"endpoint: other at {server.url}", "spent: 0.25", "images: 1 ok", "replies: 0"],
        [f"endpoint: painter-3 at {server.url}", "spent: 2.25", "images: 9 ok, 1 refused", "replies: 0"],
    ]
    assert sorted(lines[4] for lines in actual) == sorted(f"folder: {folder}" for folder in folders)
    shutil.rmtree(store.root)
    assert cli.main(["purchases", "--cache", str(tmp_path)]) == 2
    assert f"{tmp_path} contains no {NAME}: nothing was bought with this cache." in capsys.readouterr().err
    with pytest.raises(InputError, match="nothing was bought"):
        purchases.release(tmp_path)
