"""Images and maps of a table of prompts, generated together and cached."""

import numpy as np
import pandas as pd
import pytest
from tiny_pipelines import settings

from biaslab.attribution.images import AttendedImages, generate_with_attention
from biaslab.cache.result_cache import ResultCache
from biaslab.errors import InputError
from biaslab.generation.generator import load
from biaslab.generation.images import GeneratedImages

PROMPTS = pd.DataFrame(
    [("p", "a photo of a nurse", 2, ["nurse", "dog"]), ("q", "the face of a pilot", 1, ("pilot", "face"))],
    columns=["prompt_id", "text", "n_images", "words"],
)
SETTINGS = settings("")[1]


def generate(folder, store, prompts=PROMPTS, **more):
    return AttendedImages(prompts, folder, SETTINGS, seed=1, cache=store, **more).complete(progress=False)


@pytest.mark.long
def test_attended_images_and_maps_are_cached(folders, tmp_path, monkeypatch):
    store, folder = ResultCache(tmp_path), folders("sd1")
    first = generate(folder, store)
    assert list(first.table["image_id"]) == ["p/0", "p/1", "q/0"]
    with monkeypatch.context() as patch:
        patch.setattr("biaslab.generation.loading.load_pipeline", None)
        reloaded = generate(folder, store)
    keys = [("p", 0), ("p", 1), ("q", 0)]
    words = [["nurse", "dog"]] * 2 + [["pilot", "face"]]
    texts = ["a photo of a nurse"] * 2 + ["the face of a pilot"]
    images, maps = generate_with_attention(load(folder, SETTINGS), texts, keys, 1, words)
    requested = ["q/0", "p/1", "p/0"]
    np.testing.assert_array_equal(reloaded.read(requested), images[::-1])
    for result, other in zip(reloaded.word_maps(requested), maps[::-1], strict=True):
        np.testing.assert_array_equal(result.maps, other.maps)
        assert (result.words, result.missing) == (other.words, other.missing)
    assert reloaded.word_maps(["p/0"])[0].missing == {"dog": "not in the text"}
    with pytest.raises(InputError, match="no image 'p/7'"):
        reloaded.word_maps(["p/7"])
    # They are the images that are made without maps.
    plain = GeneratedImages(PROMPTS, folder, SETTINGS, seed=1, cache=store).complete(progress=False)
    np.testing.assert_array_equal(plain.read(requested), reloaded.read(requested))


def test_attended_images_of_other_words_are_recomputed(folders, tmp_path):
    store, folder = ResultCache(tmp_path), folders("sd1")
    first = generate(folder, store)
    other = generate(folder, store, PROMPTS.assign(words=[["photo"], []]))
    assert other.digest != first.digest
    assert [m.words for m in other.word_maps(["p/1", "q/0"])] == [("photo",), ()]
    assert [m.words for m in generate(folder, store).word_maps(["p/1", "q/0"])] == [("nurse",), ("pilot", "face")]
