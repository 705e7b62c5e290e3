"""Token columns of words in a text, with the tokenizer of CLIP and with two different ones."""

from types import SimpleNamespace

import numpy as np
import pytest
import tiny_pipelines

from biaslab.attribution.attention import ABSENT, CUT, check_tokenizers, columns
from biaslab.errors import ParameterError


@pytest.fixture(scope="module")
def clip():
    pytest.importorskip("open_clip", reason="the tokenizer's words are open_clip's")
    return tiny_pipelines.clip_tokenizer()


class StableDiffusionPipeline(SimpleNamespace):
    def __call__(self): ...


class StableDiffusionXLPipeline(StableDiffusionPipeline):
    pass


class StableDiffusion3Pipeline(SimpleNamespace):
    def __call__(self, max_sequence_length=20): ...


class FluxPipeline(StableDiffusion3Pipeline):
    pass


def sd1(tokenizer):
    return StableDiffusionPipeline(tokenizer=tokenizer, text_encoder=True)


def places(result, text: int = 0) -> dict[str, list[int]]:
    """Return the columns of each word of a text."""
    rows = zip(result.words[text], result.weights[text], strict=False)
    return {word: np.flatnonzero(row).tolist() for word, row in rows}


def test_columns_find_words_with_all_tokens(clip):
    text = "A mountaineeress with her Umbrella; in an umbrella's shade, umbrellas"
    # <start> a mountaine e ress with her umbrella ; in an umbrella 's shade , umbrellas <end>
    #    0    1     2     3  4    5    6      7     8  9 10     11   12  13   14    15
    result = columns(sd1(clip), [text], [["mountaineeress", "umbrella", "shade", "with her", "umbrella"]])
    assert places(result) == {"mountaineeress": [2, 3, 4], "umbrella": [7, 11], "shade": [13], "with her": [5, 6]}
    # Each word's columns share 1, so that its map is the mean over its tokens.
    np.testing.assert_allclose(result.weights[0].sum(1), 1)
    assert result.weights.shape == (1, 4, 77)
    assert result.weights[0, 0, 3] == pytest.approx(1 / 3)
    assert result.is_text[0].sum() == 17


def test_columns_report_absent_and_cut_words(clip):
    # The start, 74 times "a" and two of a word's three pieces would be 77, but the end's token takes the last column.
    texts = ["a " * 73 + "mountaineeress dog", "a " * 72 + "mountaineeress dog", "a " * 72 + "dog mountaineeress dog"]
    result = columns(sd1(clip), texts, [["mountaineeress", "dog", "cat"]] * 3)
    assert places(result, 0) == {}
    assert result.missing[0] == {"mountaineeress": CUT, "dog": CUT, "cat": ABSENT}
    assert places(result, 1) == {"mountaineeress": [73, 74, 75]}
    assert result.missing[1] == {"dog": CUT, "cat": ABSENT}
    # One occurrence before the cut suffices.
    assert places(result, 2) == {"dog": [73]}
    assert result.missing[2] == {"mountaineeress": CUT, "cat": ABSENT}


def test_columns_of_sdxl_combine_two_tokenizers(clip):
    text = "a mountaineeress dog"
    second_tokenizer = tiny_pipelines.tokenizer(("a", "mountaineeress", "dog"), 77)
    pipe = StableDiffusionXLPipeline(tokenizer=clip, tokenizer_2=second_tokenizer, text_encoder=1, text_encoder_2=1)
    result = columns(pipe, [text], [["mountaineeress", "dog"]])
    # A column holds what both tokenizers put there: the second has the dog in column 3, the first in column 5.
    assert places(result) == {"mountaineeress": [2, 3, 4], "dog": [3, 5]}
    np.testing.assert_allclose(result.weights[0].sum(1), 1)


def test_columns_of_text_parts_have_equal_weight(clip):
    encoders = {f"text_encoder{k}": True for k in ("", "_2", "_3")}
    tokenizers = dict.fromkeys(("tokenizer", "tokenizer_2"), clip)
    tokenizers["tokenizer_3"] = tiny_pipelines.tokenizer(("a", "mountaineeress"), 99)
    result = columns(StableDiffusion3Pipeline(**tokenizers, **encoders), ["a mountaineeress"], [["mountaineeress"]])
    # 77 columns of CLIP, then the 20 that the pipeline gives T5; the word has three tokens in one and one in the other.
    assert result.weights.shape == (1, 1, 97)
    assert {k: pytest.approx(result.weights[0, 0, k]) for k in (2, 3, 4, 79)} == {2: 1 / 3, 3: 1 / 3, 4: 1 / 3, 79: 1}
    assert np.flatnonzero(result.is_text[0]).tolist() == [0, 1, 2, 3, 4, 5, 77, 78, 79, 80]
    # Without its encoder, T5's columns are there and hold nothing.
    result = columns(StableDiffusion3Pipeline(**tokenizers, **encoders | {"text_encoder_3": None}), ["a"], [["a"]])
    assert (result.weights.shape, places(result), result.is_text[0, 77:].any()) == ((1, 1, 97), {"a": [1]}, False)
    # Flux reads T5 alone as words.
    tokenizers["tokenizer_2"] = tiny_pipelines.tokenizer(("a",), 99)
    result = columns(FluxPipeline(**tokenizers, **encoders), ["a"], [["a"]])
    assert (result.weights.shape, places(result)) == ((1, 1, 20), {"a": [1]})


def test_check_tokenizers_refuses_unsupported(clip):
    with pytest.raises(ParameterError, match="SimpleNamespace"):
        check_tokenizers(SimpleNamespace(tokenizer=clip))
    with pytest.raises(ParameterError, match="tokenizer, a SimpleNamespace, returns no positions"):
        check_tokenizers(sd1(SimpleNamespace(is_fast=False)))
