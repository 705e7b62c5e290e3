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


def packed_alike(told) -> None:
    """Skip where pictures are packed otherwise than when the folder was written: a critic is then asked anew."""
    if asked.shown() != told["shown to the critic"]:
        pytest.skip("this version of Pillow packs pictures otherwise, so that a critic's questions are other ones")


def test_bought_images_are_found_again(folder, told):
    packed_alike(told)
    found = asked.bought(folder)
    assert found == told["images"]
    # 4 of templates, 2 of captions, 2 of paraphrases; 2 each of single, paired and intervention, of which controls have
    # one; 2 revised; of DALL-Eval 2 and 2; of triplets 2 each of captions and of professions.
    assert sum(map(len, found.values())) == 8 + 7 + 2 + 4 + 4
    # Each with the request that bought it, and that of the second pair, which the critic saw.
    ledger = next(folder.glob("store/bought_images/*/bought.jsonl")).read_text(encoding="utf-8")
    assert ledger.count('"event": "sent"') == 26


def test_answers_of_a_paraphraser_are_found_again(folder, told):
    found = asked.paraphrases(folder)
    assert found == told["paraphrases"]
    # As the model said it, which the rules would not.
    assert [(row[1], row[2]) for row in found] == [
        ("The nurse walks to a big hospital with her bag.", "paraphrased"),
        ("A nurse stands before a big hospital.", "paraphrased"),
    ]


def test_answers_of_a_critic_are_found_again(folder, told):
    packed_alike(told)
    found = asked.critiqued(folder)
    assert found == told["critiques"]
    assert [row[1] for row in found] == ["judged", "judged"]


def test_downloads_are_found_again(folder, told):
    found = asked.downloaded(folder)
    assert found == told["downloads"]
    assert [(row[2], row[4]) for row in found] == [("ok", [16, 16, 3])] * 2


def test_ratings_are_found_again(folder, told):
    # Of a file, and of a sitting that was broken off.
    assert asked.judged(folder) == told["judged by raters"]
    assert [row[2] for row in told["judged by raters"]] == ["female", "male", "unsure", "female"]
    assert asked.rated(folder) == told["rated"]


def test_none_of_it_is_pruned(folder):
    found = pruning.results(folder / "store")
    assert sorted(result.stage for result in found) == ["answers", "answers", "bought_images", "downloads"]
    assert {result.state for result in found} == {pruning.KEPT}
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
