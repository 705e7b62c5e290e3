"""The ledger of bought images: whatever becomes of it, nothing is bought twice and nothing beyond the limit."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import test_image_endpoint as base
from fake_endpoint import drawn, picture, process
from test_image_endpoint import REFUSAL, asked, buy_from, journal, made, of, posix

from biaslab import cli
from biaslab.ground.errors import InputError, ParameterError, RunError
from biaslab.keep.journal import Journal
from biaslab.net.endpoint import Requests
from biaslab.net.ledger import rebuild

server = base.server
DAMAGED = r"bought\.jsonl, is damaged: .*nothing is bought\. Rebuild it .*: biaslab ledger --rebuild "


def file_of(store):
    (path,) = store.root.rglob("bought.jsonl")
    return path


def lines_of(store):
    return file_of(store).read_bytes().splitlines(keepends=True)


def damage(line):
    """Return a line with one digit or letter of it changed; its JSON stays JSON."""
    return line.replace(b'"event": "sent"', b'"event": "sant"').replace(b'"event": "kept"', b'"event": "kapt"')


def break_ledger(store, which):
    """Damage a ledger in one of several ways, and return what is left of it."""
    lines = lines_of(store)
    damaged = {
        "first": [damage(lines[0]), *lines[1:]],
        "sent": [damage(line) if b'"sent"' in line else line for line in lines],
        "kept": [damage(line) if b'"kept"' in line else line for line in lines],
        "every line": [damage(line).replace(b'"free"', b'"fee"') for line in lines],
        "cut short": lines[:10],
        "one gone": lines[:4] + lines[5:],
        "two swapped": [*lines[:4], lines[5], lines[4], *lines[6:]],
    }
    path = file_of(store)
    path.write_bytes(left := b"".join(damaged.get(which, ())))
    if which == "gone":
        path.unlink()
    return left


@pytest.fixture
def bought(server, store):
    """Ten images at 0.25 under a limit of 2.50, the last of them a refusal, which cost nothing: 2.25 are spent."""
    server.reply = lambda text, n: REFUSAL if text == "photo 9" else drawn(picture(of(text)), revised=text.upper())
    images = made(server, store, asked(10), cost_limit=2.5, concurrency=1)
    assert images.spent == 2.25 and len(server.requests) == 10
    server.requests.clear()
    return images


@pytest.mark.parametrize("which", ["first", "sent", "kept", "cut short", "one gone", "two swapped", "gone"])
def test_a_damaged_ledger_stops_the_run_before_anything_is_bought(server, store, bought, which):
    break_ledger(store, which)
    # There is room under the limit for more, which is what a run that does not look would buy.
    for n in (10, 12):
        with pytest.raises(RunError, match=DAMAGED):
            made(server, store, asked(n), cost_limit=100)
    assert server.requests == []


@pytest.mark.parametrize("which", ["sent", "kept", "every line", "cut short", "gone"])
def test_a_ledger_is_rebuilt_from_what_is_there(server, store, bought, which, capsys):
    path, before = file_of(store), break_ledger(store, which)
    known = which in ("kept", "cut short")
    if not known:
        with pytest.raises(ParameterError, match=r"says what an image cost: give the price, as in --price"):
            rebuild(path.parent)
    arguments = ["ledger", "--rebuild", str(path.parent), *(["--price", "0.25"] if not known else [])]
    assert cli.main(arguments) == 0
    assert server.requests == []
    # By hand: lines of ten images are ten "sent", ten "kept" and one "free" of the refusal. Of the first ten lines,
    # five are "sent" and five "kept"; four pictures are left that no line speaks of.
    lines_there, lost, pictures, spent = {
        # The price of the refusal, which was taken back, comes once more: ten lost requests and one free.
        "sent": (11, 10, 0, 10 * 0.25 - 0.25),
        # Each lost line counts as a request, beside the ten that are known.
        "kept": (11, 10, 9, 20 * 0.25 - 0.25),
        "every line": (0, 21, 9, 21 * 0.25),
        "cut short": (10, 0, 4, 9 * 0.25),
        "gone": (0, 0, 9, 9 * 0.25),
    }[which]
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    numbers = {"lines": lines_there, "lost": lost, "pictures": pictures, "spent": spent}
    assert {k: float(said[k]) for k in numbers} == numbers
    # Never too little, and the damaged one is kept.
    assert spent >= 2.25
    assert Path(said["saved"]).read_bytes() == before
    again = made(server, store, asked(9), cost_limit=2.5)
    assert again.table["outcome"].tolist() == ["ok"] * 9 and again.spent == spent
    assert server.requests == []
    if which in ("sent", "cut short"):
        assert again.table["revised_prompt"].tolist()[:5] == [f"PHOTO {i}" for i in range(5)]
    for i, image in enumerate(again.read([f"p{i}/0" for i in range(9)])):
        assert tuple(image[0, 0]) == of(f"photo {i}")
    # What is bought from now on is bought under the limit, all that may have been spent counted.
    room = int((6 - spent) / 0.25)
    server.reply = lambda text, n: drawn(picture(of(text)))
    with pytest.raises(RunError, match="one more would pass the limit"):
        made(server, store, asked(60).iloc[20:], cost_limit=6)
    assert len(server.requests) == room
    again = {"lines": len(lines_of(store)), "spent": spent + room * 0.25, "saved": None}
    assert rebuild(path.parent) == again | dict.fromkeys(("lost", "requests", "pictures"), 0)


def test_a_reply_that_is_paid_for_is_worked_up_after_a_rebuild(server, store, bought):
    """A kill came when the reply was there and its line was not; then the ledger was damaged, too."""
    key = bought._keys[0]
    path, lines = file_of(store), lines_of(store)
    said = {"url": "", "revised_prompt": "as told", "request_id": "r", "time": "2030-01-01T00:00:00Z"}
    bought._ledger.save_reply(key, json.loads(drawn(picture((0, 100, 200)))[2])["data"][0] | said)
    path.write_bytes(b"".join(damage(x) if key.encode() in x and b"kept" in x else x for x in lines))
    with pytest.raises(RunError, match=DAMAGED):
        made(server, store, asked(10))
    found = rebuild(path.parent)
    assert (found["lost"], found["pictures"], found["spent"]) == (1, 0, 2.5)
    again = made(server, store, asked(10), cost_limit=0)
    assert server.requests == [] and again.table["revised_prompt"][0] == "as told"


def test_half_a_line_at_the_end_stands_for_nothing(server, store, bought):
    """A kill while a line is written leaves its beginning; it is no damage, and the next line takes its place."""
    lines, path = lines_of(store), file_of(store)
    # Nor do files that systems put beside pictures.
    next(path.parent.glob("images/*")).joinpath("Thumbs.db").write_bytes(b"")
    for rest in (1, 10, -2):
        path.write_bytes(b"".join(lines) + lines[-1][:rest])
        images = made(server, store, asked(10), cost_limit=2.25)
        assert images.spent == 2.25 and server.requests == []
        assert images.digest == bought.digest
    server.reply = lambda text, n: drawn(picture(of(text)))
    assert made(server, store, asked(11), cost_limit=2.5).spent == 2.5
    assert made(server, store, asked(11), cost_limit=2.5).spent == 2.5 and len(server.requests) == 1
    assert [e["line"] for e in journal(store)] == list(range(1, 24))
    # Only the end of the last line is missing: it is whole all the same.
    path.write_bytes(path.read_bytes()[:-1])
    assert made(server, store, asked(12), cost_limit=2.75).spent == 2.75 and len(server.requests) == 2
    assert [e["line"] for e in journal(store)] == list(range(1, 26))


def _buy_and_die(url, root, n, event):
    """Buy, and be killed when half of the n-th line of an event is written."""
    from biaslab.keep import journal

    whole, lines = journal.line_of, []

    def half(entry, *how):
        line = whole(entry, *how)
        lines.append(entry.get("event"))
        if lines.count(event) < n:
            return line
        (path,) = Path(root).rglob("bought.jsonl")
        with path.open("ab") as file:
            file.write(line[: len(line) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    journal.line_of = half
    buy_from(url, root, 8, **EIGHT)


EIGHT = {"cost_limit": 2, "concurrency": 1}


@posix
@pytest.mark.parametrize("event", ["sent", "kept"])
def test_killed_while_a_line_is_written(server, tmp_path, event):
    """Limit and price allow exactly the eight images; one request too many would end in an error."""
    server.reply = lambda text, n: drawn(picture(of(text)), revised=text.upper())
    killed = process(_buy_and_die, server.url, tmp_path, 4, event)
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    assert len(server.requests) == (3 if event == "sent" else 4)
    images = buy_from(server.url, tmp_path, 8, **EIGHT)
    assert images.table["revised_prompt"].tolist() == [f"PHOTO {i}" for i in range(8)]
    assert sorted(r["prompt"] for r in server.requests) == [f"photo {i}" for i in range(8)]
    assert images.spent == 2


def test_what_is_spent_is_on_disk_before_a_request_leaves(server, store, monkeypatch):
    order = []
    write, sync, post = Journal.write, os.fsync, Requests.post

    def writes(self, entry, **more):
        write(self, entry, **more)
        order.append(entry["event"])

    monkeypatch.setattr(Journal, "write", writes)
    monkeypatch.setattr(os, "fsync", lambda file: (sync(file), order.append("on disk"))[0])
    monkeypatch.setattr(Requests, "post", lambda *args: (order.append("request"), post(*args))[1])
    made(server, store, asked(1))
    # The price; the reply and the picture, each before the line that says that they are there.
    assert order == ["on disk", "sent", "request", "on disk", "on disk", "on disk", "kept"]


def test_what_a_ledger_holds(bought, store, capsys, tmp_path):
    folder = file_of(store).parent
    assert cli.main(["ledger", str(folder)]) == 0
    assert capsys.readouterr().out == "spent: 2.25\nimages: 9 ok, 1 refused\nreplies: 0\n"
    with pytest.raises(InputError, match="holds no ledger of bought images"):
        rebuild(tmp_path / "nowhere")
    shutil.rmtree(folder / "images")
    file_of(store).write_text("{}\n")
    assert cli.main(["ledger", str(folder)]) == 2
    assert "line 1 is damaged" in capsys.readouterr().err
    with pytest.raises(ParameterError, match="price is nan"):
        rebuild(folder, price=float("nan"))
