"""What cannot be had again for nothing is found again: in a store that the code of e40f3be wrote, by that of today.

Nobody answers here, so whatever is keyed otherwise than it was then is asked for, and fails. What is bought, asked,
fetched or said by people is keyed by none of biaslab's code:

- an image of an endpoint by URL and model (the folder), and by what is asked for (size, quality, style, options),
  prompt_id, text, index and the run's seed (:mod:`biaslab.generation.image_endpoint`);
- an answer by URL, model, temperature and options (the folder), and by the messages, in which a critic's pictures are
  packed by Pillow (:mod:`biaslab.net.chat`);
- a download by what decides how pictures are saved (the folder), caption_id and URL
  (:mod:`biaslab.captions.downloads`);
- a rating by image_id, that is prompt_id and index, or the caption_id; and by position, where people stand in pairs.

So prompt_ids, caption_ids, texts and seeds are among the keys. None of it may change: somebody has paid for it.
"""

import json
import shutil
from pathlib import Path

import pytest
from stores import asked

from biaslab.ground.errors import RunError
from biaslab.keep import pruning

WRITTEN = Path(__file__).parent / "stores" / "e40f3be"


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
        pytest.skip("this version of Pillow packs pictures otherwise, so that a critic's questions are other ones")
    found = asked.FOUND[what](folder)
    assert found and found == told[what]
    if what == "images":
        # Each with the request that bought it, and that of the second pair, which the critic saw.
        ledger = next(folder.glob("store/bought_images/*/bought.jsonl")).read_text(encoding="utf-8")
        assert ledger.count('"event": "sent"') == sum(map(len, found.values())) + 1 == 26


def test_none_of_it_is_pruned(folder):
    found = pruning.results(folder / "store")
    assert sorted(result.stage for result in found) == ["answers", "answers", "bought_images", "downloads"]
    assert not any(result.computed for result in found)
    assert pruning.prune(folder / "store", delete=True) == ([], [])


@pytest.mark.parametrize("stage", asked.KEPT)
def test_where_it_is_gone_it_would_be_asked_for(tmp_path, looked_for, stage):
    """The tests above can fail: without the store's folder, a server is looked for."""
    folder = Path(shutil.copytree(WRITTEN, tmp_path / "copy"))
    shutil.rmtree(folder / "store" / stage)
    ask = {"answers": asked.paraphrases, "bought_images": asked.judged, "downloads": asked.downloaded}[stage]
    with pytest.raises(RunError):
        ask(folder)
    assert set(looked_for) == {"pictures.invalid" if stage == "downloads" else "endpoint.invalid"}
