"""Images and maps of a table of prompts: made at once, kept, and found again."""

import numpy as np
import pandas as pd
import pytest

from biaslab.attribution import AttendedImages, WordMaps, compare_layers, generate_with_attention
from biaslab.generation import GeneratedImages, GenerationSettings, load
from biaslab.ground.errors import InputError
from biaslab.keep.store import Store

PROMPTS = pd.DataFrame(
    [("p", "a photo of a nurse", 2, ["nurse", "dog"]), ("q", "the face of a pilot", 1, ("pilot", "face"))],
    columns=["prompt_id", "text", "n_images", "words"],
)
GIVEN = GenerationSettings(steps=2, guidance_scale=3.0, height=32, width=32, dtype="float32")


def made(folder, store, prompts=PROMPTS, **more):
    return AttendedImages(prompts, folder, GIVEN, seed=1, store=store, **more).complete(progress=False)


def test_images_and_maps_are_kept_together(folders, tmp_path, monkeypatch):
    store, folder = Store(tmp_path), folders("sd1")
    first = made(folder, store)
    assert list(first.table["image_id"]) == ["p/0", "p/1", "q/0"]
    assert list(first.table) == ["image_id", "prompt_id", "index", "seed", "outcome", "tokens_cut"]

    def never(*given, **options):
        raise AssertionError("everything was there")

    with monkeypatch.context() as patched:
        patched.setattr("biaslab.generation.loading.load_pipeline", never)
        again = made(folder, store)
    keys = [("p", 0), ("p", 1), ("q", 0)]
    words = [["nurse", "dog"]] * 2 + [["pilot", "face"]]
    texts = ["a photo of a nurse"] * 2 + ["the face of a pilot"]
    images, maps, layers = generate_with_attention(load(folder, GIVEN), texts, keys, 1, words)
    asked = ["q/0", "p/1", "p/0"]
    for image, other in zip(again.read(asked), images[::-1], strict=True):
        np.testing.assert_array_equal(image, other)
    for found, other in zip(again.word_maps(asked), maps[::-1], strict=True):
        np.testing.assert_array_equal(found.maps, other.maps)
        assert (found.words, found.missing) == (other.words, other.missing)
    for found, other in zip(again.layer_maps(asked), layers[::-1], strict=True):
        assert list(found) == list(other) and all((found[k] == other[k]).all() for k in found)
    assert again.word_maps(["p/0"])[0].missing == {"dog": "not in the text"}
    with pytest.raises(InputError, match="no image 'p/7'"):
        again.word_maps(["p/7"])
    # They are the images that are made without maps.
    plain = GeneratedImages(PROMPTS, folder, GIVEN, seed=1, store=store).complete(progress=False)
    for image, other in zip(plain.read(asked), again.read(asked), strict=True):
        np.testing.assert_array_equal(image, other)


def test_each_layer_has_maps_of_its_own(folders, watching):
    texts, keys, words = ["a photo of a nurse"], [("p", 0)], [["nurse", "photo"]]
    _, (whole,), (layers,) = generate_with_attention(load(folders("sd1"), GIVEN), texts, keys, 1, words)
    made_by = load(folders("sd1"), GIVEN)
    watch, found = watching(made_by, texts, words)
    made_by.images(texts, keys, 1, watch=watch)
    (attention,) = found
    # Those with cross-attention on the ways down and up: the middle does not count.
    named = [name for name, _ in made_by.pipe.unet.named_modules() if name.endswith("attn2")]
    assert {name.split(" ")[1] for name in layers} == {name for name in named if "mid_block" not in name}
    for name, maps in layers.items():
        resolution, layer = name.split(" ")
        assert resolution == "x".join(map(str, attention.sums[layer, -1].shape[-2:]))
        values = attention.maps(layer=layer)[0].numpy()
        low, high = (end(values, axis=(1, 2), keepdims=True) for end in (np.min, np.max))
        # Small images have smaller grids than those that are averaged down.
        assert np.abs(maps - 255 * (values - low) / (high - low)).max() <= 0.5 + 1e-3
        assert maps.shape == whole.maps.shape
    assert len({maps.tobytes() for maps in layers.values()}) == len(layers) > 1


class Maps:
    """Images with maps of two layers, told by image."""

    name = digest = "by hand"

    def __init__(self, **of):
        self.of = of

    def word_maps(self, image_ids):
        return [WordMaps(tuple(self.of[i]), np.zeros((0, 1, 1), np.uint8), {}) for i in image_ids]

    def layer_maps(self, image_ids):
        found = [np.array(list(self.of[i].values()), np.uint8).reshape(-1, 1, 2) for i in image_ids]
        return [{"2x1 down": maps, "1x1 up": maps[..., ::-1] // 5 * 0 + 7} for maps in found]


def test_layers_are_compared_by_the_words_that_prompts_share(tmp_path):
    images = Maps(
        n={"person": [0, 10], "hat": [3, 4]},
        f={"hat": [3, 4], "woman": [10, 0]},
        m={"man": [0, 10], "hat": [3, 4], "male": [9, 9]},
        o={"male": [1, 2]},
        z={"hat": [0, 0]},
    )
    pairs = pd.DataFrame([("n", other) for other in "fmoz"], columns=["first", "second"])
    found = compare_layers(images, pairs, store=Store(tmp_path), progress=False)
    assert list(dict.fromkeys(found["metric"])) == ["attention 2x1 down", "attention 1x1 up"]
    down = found[found["metric"] == "attention 2x1 down"].set_index("second")
    # hat with hat, person with woman: (3, 4, 0, 10) and (3, 4, 10, 0), whose product is 25 of 125.
    assert down.loc["f", "value"] == pytest.approx(25 / 125)
    # Of two words more the one is of no other: the hats alone are held against one another.
    assert down.loc["m", "value"] == pytest.approx(1)
    # person, hat against male: as many words are needed. And a map that is the same everywhere has no direction.
    assert down.loc[["o", "z"], "value"].isna().all() and (down.loc[["o", "z"], "reason"] != "").all()
    assert found.loc[found["metric"] == "attention 1x1 up", "value"].iloc[0] == pytest.approx(1)


def test_other_words_are_mapped_anew(folders, tmp_path):
    store, folder = Store(tmp_path), folders("sd1")
    first = made(folder, store)
    other = made(folder, store, PROMPTS.assign(words=[["photo"], []]))
    assert other.digest != first.digest
    assert [m.words for m in other.word_maps(["p/1", "q/0"])] == [("photo",), ()]
    assert [m.words for m in made(folder, store).word_maps(["p/1", "q/0"])] == [("nurse",), ("pilot", "face")]


def test_prompts_without_words_are_refused(folders, tmp_path):
    with pytest.raises(InputError, match="no column 'words'"):
        made(folders("sd1"), Store(tmp_path), PROMPTS.drop(columns="words"))
