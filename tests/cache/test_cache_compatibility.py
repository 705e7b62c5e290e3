"""Purchases, answers, downloads and ratings in a store that the code of 66c4b31c wrote are found by that of today.

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
OLD = {p.relative_to(WRITTEN): p.read_bytes() for p in WRITTEN.rglob("*") if p.is_file()}


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
    yield Path(shutil.copytree(WRITTEN, tmp_path / "copy"))
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
    # Nothing of the old store is changed, and a second run copies nothing twice.
    assert {p: (folder / p).read_bytes() for p in OLD} == OLD
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


def test_a_reply_that_was_not_worked_up_is_kept_by_the_import(folder):
    (left,) = (folder / "store").glob("bought_images/*/replies/*.json")
    ledger = ImagePurchases(left.parents[1])
    ledger.load()
    assert ledger.reply(left.stem) == json.loads(left.read_bytes())
    # 27 requests at 0.04, of which two were free. 25 images are worked up, one of them a refusal.
    assert ledger.spent == Decimal("1.00") and len(ledger.done) == 25 and ledger.replies == {left.stem}


@pytest.mark.parametrize(
    ("name", "damage"),
    [("bought.jsonl", b""), ("bought.jsonl", b'"x'), ("answers.jsonl", b'"x')],
    ids=["a line is missing", "a line is changed", "an answer is changed"],
)
def test_a_damaged_line_of_an_old_store_is_named_and_nothing_is_asked(folder, name, damage):
    path = next((folder / "store").rglob(name))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1:2] = [lines[1].replace(b'"', damage, 1)] if damage else []
    path.write_bytes(b"".join(lines))
    for _ in range(2):
        with pytest.raises(RunError, match=rf"Line 2 of .*{name} is damaged.*Restore a copy"):
            asked.paraphrases(folder)
    assert path.read_bytes() == b"".join(lines)


def test_half_a_line_that_a_killed_process_left_stands_for_nothing(folder, told):
    for name in ("bought.jsonl", "answers.jsonl"):
        for path in (folder / "store").rglob(name):
            path.write_bytes((whole := path.read_bytes()) + whole[:40])
    assert asked.paraphrases(folder) == told["paraphrases"]


def test_none_of_it_is_pruned(folder):
    found = pruning.results(folder / "store")
    assert sorted(result.stage for result in found) == ["answers", "answers", "bought_images", "downloads"]
    assert not any(result.is_computed for result in found)
    assert pruning.prune(folder / "store", delete=True) == ([], [])


@pytest.mark.parametrize("stage", asked.KEPT)
def test_where_it_is_gone_it_would_be_asked_for(tmp_path, looked_for, stage):
    """The tests above can fail: without the store's folder, a server is looked for."""
    folder = Path(shutil.copytree(WRITTEN, tmp_path / "copy"))
    shutil.rmtree(folder / "store" / stage)
    ask = {"answers": asked.paraphrases, "bought_images": asked.judged}[stage]
    with pytest.raises(RunError):
        ask(folder)
    assert set(looked_for) == {"endpoint.invalid"}
