"""Paraphrases keep what they must and change what they can."""

import pandas as pd
import pytest

from biaslab.captions.corpus import open_corpus
from biaslab.captions.indicators import indicators
from biaslab.captions.paraphrase import paraphrase
from biaslab.captions.search import Matcher
from biaslab.errors import ParameterError


@pytest.mark.parametrize(
    ("text", "occupation", "allowed"),
    [
        ("A photo of a nurse at work", "nurse", {"A picture of a nurse working", "An image of a nurse working"}
         | {"A picture of a nurse on the job", "An image of a nurse on the job"}),
        ("a nurse smiling in the office", "nurse", {"a nurse with a smile in the office"}),
        ("portrait photo of a chef", "chef", {"portrait picture of a chef", "portrait of a chef"}),
        ("A nurse", "nurse", {"A photo of a nurse", "A picture of a nurse", "An image of a nurse"}),
        # A photographer's "photo" is none, and a smiling chef stays one.
        ("Some photographer, some smiling chef!", "chef", {"Some photographer, some smiling chef!",
                                                          "some smiling chef!, Some photographer"}),
        # Words with capitals inside may be names; the occupation stays though it is a word that could change.
        ("He told Happy Large", "large", {"He told Happy Large"}),
        ("big photo", "photo", {"large photo"}),
    ],
)  # fmt: skip
def test_by_hand(text, occupation, allowed):
    found = {paraphrase(text, occupation, seed) for seed in range(40)}
    assert found <= allowed
    # Every wording comes up under some seed.
    assert found == allowed


def test_the_embedded_world_s_captions_keep_occupation_and_gender():
    captions = pd.concat(list(open_corpus("mini", rows=3000, seed=1).batches()), ignore_index=True)
    captions = captions[captions["truth_occupation"].notna()].reset_index(drop=True)
    pairs = list(zip(captions["text"], captions["truth_occupation"], strict=True))
    new = [paraphrase(text, occupation, 7) for text, occupation in pairs]
    assert new == [paraphrase(text, occupation, 7) for text, occupation in pairs]
    before, after = indicators(captions["text"]), indicators(new)
    assert (before["indicator"] == after["indicator"]).all()
    matcher = Matcher(sorted(set(captions["truth_occupation"])))
    for one, other in zip(matcher.match(captions["text"]), matcher.match(new), strict=True):
        assert one.tolist() == other.tolist()
    # Most captions change.
    assert sum(a != b for a, b in zip(new, captions["text"], strict=True)) > 0.6 * len(new)


def test_bad_input_is_named():
    with pytest.raises(ParameterError, match="occupation of 'a nurse' is empty"):
        paraphrase("a nurse", " ")
    assert paraphrase("", "nurse") == ""
