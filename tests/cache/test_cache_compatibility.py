"""Purchases, answers, downloads and ratings in a store that the code of 66c4b31c wrote are found by that of today.

Its journals were imported into the database that ``purchases.sql`` holds, key by key.

There is no network here, so that a request for anything that has another key than it had then fails. No key depends on
biaslab's code:

- an image of an endpoint by URL and model (the folder), and by what is asked for (size, quality, style, options),
  prompt_id, text, index and the run's seed (:mod:`biaslab.generation.image_endpoint`);
- an answer by URL, model, temperature and options (the folder), and by the messages, in which a critic's pictures are
  packed by Pillow (:mod:`biaslab.endpoints.chat`);
- an image that was fetched by caption_id, from the folder of fetched images as ``captions.training_images``;
- a rating by image_id, that is prompt_id and index, or the caption_id; and by position, where people stand in pairs.

So prompt_ids, caption_ids, texts and seeds are among the keys. None of it may change: somebody has paid for it.
"""

import contextlib
import json
import shutil
import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest
from stores import asked

from biaslab.cache import pruning
from biaslab.endpoints.purchases import ImagePurchases
from biaslab.errors import RunError

WRITTEN = Path(__file__).parent / "stores" / "66c4b31c"


def copied(place):
    """Return a copy of the folder, with its database."""
    folder = Path(shutil.copytree(WRITTEN, place / "copy"))
    with contextlib.closing(sqlite3.connect(folder / "store" / "purchases.sqlite")) as database:
        database.executescript((WRITTEN / "store" / "purchases.sql").read_text(encoding="utf-8"))
        database.execute("pragma user_version = 1")
    return folder


@pytest.fixture
def looked_for(monkeypatch):
    """Return the servers that are looked for; none is to be reached."""
    hosts = []

    def refuse(host, *_, **__):
        hosts.append(host.decode() if isinstance(host, bytes) else host)
        raise OSError("Nobody answers.")

    monkeypatch.setenv(asked.KEY, "sk-none")
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    return hosts


@pytest.fixture
def folder(tmp_path, looked_for):
    """Return a copy of the folder; the test fails where a server was asked for."""
    yield copied(tmp_path)
    assert not looked_for


@pytest.fixture(scope="module")
def told():
    """Return what came back when the folder was written."""
    return json.loads((WRITTEN / "found.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("what", asked.FOUND)
def test_all_of_it_is_found_again(folder, told, what):
    if what in ("images", "critiques") and asked.shown() != told["shown to the critic"]:
        pytest.skip("this version of Pillow encodes images differently, so the critic's requests differ")
    found = asked.FOUND[what](folder)
    assert found and found == told[what]
    assert asked.FOUND[what](folder) == found
    if what == "images":
        # Each image with the request that bought it, and that of the second pair, which the critic saw; one request
        # that the server failed. That one and the refusal cost nothing.
        n = sum(map(len, found.values())) + 1
        assert n == 26
        with contextlib.closing(sqlite3.connect(folder / "store" / "purchases.sqlite")) as database:
            costs = database.execute("select cost from charges").fetchall()
            left = database.execute("select count(*), count(reply) from images").fetchall()
        assert sorted(costs) == [("-0.04",)] * 2 + [("0.04",)] * (n + 1)
        assert left == [(n, 0)]


def test_a_reply_that_was_not_worked_up_is_still_there(folder):
    (images,) = (folder / "store").glob("bought_images/*")
    ledger = ImagePurchases(images)
    ledger.load()
    (left,) = ledger.replies
    assert ledger.reply(left)["b64_json"]
    # 27 requests at 0.04, of which two were free. 25 images are worked up, one of them a refusal.
    assert ledger.spent == Decimal("1.00") and len(ledger.done) == 25


def test_none_of_it_is_pruned(folder):
    found = pruning.results(folder / "store")
    assert sorted(result.stage for result in found) == ["bought_images", "downloads"]
    assert not any(result.computed for result in found)
    assert pruning.prune(folder / "store", delete=True) == ([], [])


@pytest.mark.parametrize("stage", asked.KEPT)
def test_where_it_is_gone_it_would_be_asked_for(tmp_path, looked_for, stage):
    """The tests above can fail: without its rows, a server is looked for."""
    folder = copied(tmp_path)
    shutil.rmtree(folder / "store" / "bought_images")
    table = {"answers": "answers", "bought_images": "images"}[stage]
    with contextlib.closing(sqlite3.connect(folder / "store" / "purchases.sqlite")) as database:
        database.execute(f"delete from {table}")
        database.commit()
    ask = {"answers": asked.paraphrases, "bought_images": asked.judged}[stage]
    with pytest.raises(RunError):
        ask(folder)
    assert set(looked_for) == {"endpoint.invalid"}
