"""Purchases, answers, downloads and annotations in a cache written by the code of 66c4b31c are found by today's.

There is no network here, so that a request for anything that has another key than it had then fails. No key depends on
biaslab's code:

- an image of an endpoint by URL and model (the folder), and by what is asked for (size, quality, style, options),
  prompt_id, text, index and the run's seed (:mod:`biaslab.generation.image_endpoint`);
- an answer by URL, model, temperature and options (the folder), and by the messages, in which a critic's pictures are
  packed by Pillow (:mod:`biaslab.endpoints.chat`);
- an image that was fetched by caption_id, from the folder of fetched images as ``captions.training_images``;
- a rating by image_id, that is prompt_id and index, or the caption_id; and by position, where people stand in pairs.

So prompt_ids, caption_ids, texts and seeds are among the keys. None of them may change: the results were paid for.
"""

import contextlib
import json
import shutil
import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest
from stores import stored_requests

from biaslab.cache import pruning
from biaslab.endpoints.purchases import ImagePurchases
from biaslab.errors import RunError

STORED_FOLDER = Path(__file__).parent / "stores" / "66c4b31c"
OLD = {p.relative_to(STORED_FOLDER): p.read_bytes() for p in STORED_FOLDER.rglob("*") if p.is_file()}


@pytest.fixture
def requested_hosts(monkeypatch):
    """Return the requested hosts; none can be reached."""
    hosts = []

    def refuse(host, *_, **__):
        hosts.append(host.decode() if isinstance(host, bytes) else host)
        raise OSError("Nobody answers.")

    monkeypatch.setenv(stored_requests.KEY, "sk-none")
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    return hosts


@pytest.fixture
def folder(tmp_path, requested_hosts):
    """Return a copy of the folder; the test fails if a host was requested."""
    yield Path(shutil.copytree(STORED_FOLDER, tmp_path / "copy"))
    assert not requested_hosts


@pytest.fixture(scope="module")
def expected_results():
    """Return the results at the time when the folder was written."""
    return json.loads((STORED_FOLDER / "found.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("what", stored_requests.FOUND)
def test_old_cache_contents_are_found(folder, expected_results, what):
    if what in ("images", "critiques") and stored_requests.shown() != expected_results["shown to the critic"]:
        pytest.skip("this version of Pillow encodes images differently, so the critic's requests differ")
    actual = stored_requests.FOUND[what](folder)
    assert actual and actual == expected_results[what]
    # Nothing of the old store is changed, and a second run copies nothing twice.
    assert {p: (folder / p).read_bytes() for p in OLD} == OLD
    assert stored_requests.FOUND[what](folder) == actual
    if what == "images":
        # Each image with the request that bought it, and that of the second pair, which the critic saw; one request
        # that the server failed. That one and the refusal cost nothing.
        n = sum(map(len, actual.values())) + 1
        assert n == 26
        with contextlib.closing(sqlite3.connect(folder / "store" / "purchases.sqlite")) as database:
            costs = database.execute("select cost from charges").fetchall()
            left = database.execute("select count(*), count(reply) from images").fetchall()
        assert sorted(costs) == [("-0.04",)] * 2 + [("0.04",)] * (n + 1)
        assert left == [(n, 0)]


def test_import_keeps_unprocessed_reply(folder):
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
def test_damaged_line_of_old_cache_is_refused(folder, name, damage):
    path = next((folder / "store").rglob(name))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1:2] = [lines[1].replace(b'"', damage, 1)] if damage else []
    path.write_bytes(b"".join(lines))
    for _ in range(2):
        with pytest.raises(RunError, match=rf"Line 2 of .*{name} is damaged.*Restore a copy"):
            stored_requests.paraphrases(folder)
    assert path.read_bytes() == b"".join(lines)


def test_incomplete_last_line_of_old_cache_is_ignored(folder, expected_results):
    for name in ("bought.jsonl", "answers.jsonl"):
        for path in (folder / "store").rglob(name):
            path.write_bytes((content := path.read_bytes()) + content[:40])
    assert stored_requests.paraphrases(folder) == expected_results["paraphrases"]


def test_prune_keeps_old_purchases(folder):
    actual = pruning.results(folder / "store")
    assert sorted(result.stage for result in actual) == ["answers", "answers", "bought_images", "downloads"]
    assert not any(result.is_computed for result in actual)
    assert pruning.prune(folder / "store", delete=True) == ([], [])


@pytest.mark.parametrize("stage", stored_requests.KEPT)
def test_missing_old_cache_causes_requests(tmp_path, requested_hosts, stage):
    """The tests above can fail: without the cached folder, a host is requested."""
    folder = Path(shutil.copytree(STORED_FOLDER, tmp_path / "copy"))
    shutil.rmtree(folder / "store" / stage)
    ask = {"answers": stored_requests.paraphrases, "bought_images": stored_requests.judged}[stage]
    with pytest.raises(RunError):
        ask(folder)
    assert set(requested_hosts) == {"endpoint.invalid"}
