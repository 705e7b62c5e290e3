"""Captioning metrics against hand values, resampled corpora and means."""

import math
import warnings

import numpy as np
import pytest

from biaslab.errors import InputError
from biaslab.metrics.captioning import caption_scores, split_words
from biaslab.stats import mean_interval

scorers = pytest.importorskip("pycocoevalcap.bleu.bleu_scorer", reason="scores need the extra 'models'")
from pycocoevalcap.cider.cider import Cider  # noqa: E402
from pycocoevalcap.rouge.rouge import Rouge  # noqa: E402

SAID = [
    "a nurse stands in a ward and smiles",
    "a man rides a brown horse on the beach",
    "two dogs play with a ball in the park",
    "a woman",
    "the the the the the",
]
TRUE = [
    ["a nurse stands in a hospital ward", "the nurse smiles in a ward of the hospital"],
    ["a man rides a brown horse on the beach", "someone on a horse"],
    ["two dogs are in the park", "dogs play with a red ball in the park", "a ball and two dogs"],
    ["a woman repairs a bicycle in a workshop"],
    ["the cat is on the mat", "a cat sits on the mat"],
]


def scores(captions, true, **options):
    return caption_scores(captions, true, **{"seed": 1} | options).set_index("metric")


# -- values --------------------------------------------------------------------------------------------------


def test_bleu_matches_hand_values():
    # Six words against seven or five: as near, so the shorter counts and nothing is taken off. "a" is said three
    # times and twice in a reference: 5 of 6 words; of longer ones all but the first: 4 of 5, 3 of 4, 2 of 3.
    captions = ["a a cat on a chair"]
    true = [["a cat on a chair by me", "a cat sleeps a lot"]]
    by_hand = 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25
    assert scores(captions, true).loc["BLEU-4", "value"] == pytest.approx(by_hand, rel=1e-6)
    # Four words against six, all of them right: exp(1 - 6 / 4).
    short = scores(["a cat on a"], [["a cat on a red chair"]])
    assert short.loc["BLEU-4", "value"] == pytest.approx(100 * math.exp(-0.5), rel=1e-6)


def test_cider_matches_hand_values():
    # Two images; "a" is in both references and weighs log(2 / 2) = 0, all else log 2. The first shares one of two
    # words that weigh, and one of two pairs: cosines of 1/2, 1/2, 0 and none, lengths of 3. The second shares nothing.
    captions, true = ["a red horse", "xylophone"], [["a red house"], ["a dog"]]
    value = 100 * 10 * (0.5 + 0.5) / 4 / 2
    assert scores(captions, true).loc["CIDEr", "value"] == pytest.approx(value, rel=1e-6)
    # A word said twice is cut to the once that it stands there: 1 / 2, as the norms are 2 and 1 (times log 2). One word
    # more than the reference takes off exp(-1 / 72).
    captions, true = ["red red", "dog"], [["red"], ["blue"]]
    value = 100 * 10 * (1 / 2) * math.exp(-1 / 72) / 4 / 2
    assert scores(captions, true).loc["CIDEr", "value"] == pytest.approx(value, rel=1e-6)


def test_rouge_matches_hand_values():
    # "the cat the mat" has "the cat mat" in common with five words: precision 3/4, recall 3/5.
    result = scores(["the cat the mat"], [["the grey cat mat sleeps"]])
    by_hand = 100 * (1 + 1.2**2) * 0.75 * 0.6 / (0.6 + 1.2**2 * 0.75)
    assert result.loc["ROUGE-L", "value"] == pytest.approx(by_hand, rel=1e-6)
    # Of two references the best precision and the best recall count, each of its own: 3/4, and 1/1.
    both = scores(["the cat the mat"], [["the grey cat mat sleeps", "mat"]])
    by_hand = 100 * 2.44 * 0.75 / (1 + 1.44 * 0.75)
    assert both.loc["ROUGE-L", "value"] == pytest.approx(by_hand, rel=1e-6)


def test_caption_scores_of_references_are_maximal():
    texts = ["a nurse in a blue coat", "two pilots near the old aeroplane", "someone paints this very long wall"]
    result = scores([text.upper() + "!" for text in texts], [[text] for text in texts])
    # Every cosine is 1: CIDEr-D is 10, shown as 1,000.
    assert result["value"].to_numpy() == pytest.approx([100, 1000, 100], rel=1e-6)
    assert result["ci_low"].to_numpy() == pytest.approx(result["value"].to_numpy(), rel=1e-6)
    assert result["ci_high"].to_numpy() == pytest.approx(result["value"].to_numpy(), rel=1e-6)


def test_caption_scores_without_overlap_are_zero():
    result = scores(["red green", "", "?"], [["one two three four five"], ["six"], ["seven"]])
    assert result["value"].to_numpy() == pytest.approx([0, 0, 0], abs=1e-6)
    assert not result[["ci_low", "ci_high"]].isna().any(axis=None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A Nurse, in a WARD.", "a nurse in a ward"),
        ("the man's hat", "the man 's hat"),
        ("the men’s hats — they’re old", "the men 's hats they 're old"),
        ("two 1920s' cars (red_one) & more…", "two 1920s cars red one more"),
        # An apostrophe that opens a quotation belongs to no word.
        ("he says 'hello' and ‘good’", "he says hello and good"),
        ("Ärztin, naïve", "ärztin naïve"),
        ("  \n ", ""),
        ("…!?", ""),
    ],
)
def test_split_words_normalizes_text(text, words):
    assert split_words(text) == words
    assert split_words(split_words(text).replace(" '", "'")) == words


# -- intervals -----------------------------------------------------------------------------------------------


def many(n, seed=3):
    """Return sentences in which some words differ from the reference."""
    rng = np.random.default_rng(seed)
    words = [f"w{k}" for k in range(40)]
    true = [[" ".join(rng.choice(words, rng.integers(6, 12)))] for _ in range(n)]
    captions = [
        " ".join(word if rng.random() < 0.8 else str(rng.choice(words)) for word in item[0].split()) for item in true
    ]
    return captions, true


def bleu_scorer(captions, true):
    scorer = scorers.BleuScorer(n=4)
    for text, item in zip(captions, true, strict=True):
        scorer += (text, item)
    return scorer


def test_caption_score_intervals_contain_value_and_follow_seed():
    captions, true = many(60)
    result = scores(captions, true)
    assert (result["ci_low"] < result["value"]).all() and (result["value"] < result["ci_high"]).all()
    assert result.equals(scores(captions, true))
    other = scores(captions, true, seed=2)
    assert other["value"].equals(result["value"]) and (other["ci_low"] != result["ci_low"]).all()
    narrow = scores(captions, true, confidence=0.5)
    assert (narrow["ci_high"] - narrow["ci_low"] < result["ci_high"] - result["ci_low"]).all()


@pytest.mark.long
def test_bleu_interval_matches_resampled_corpora():
    captions, true = many(40)
    rng = np.random.default_rng(9)
    resamples = []
    for _ in range(400):
        chosen = rng.integers(40, size=40)
        resamples.append(
            bleu_scorer([captions[k] for k in chosen], [true[k] for k in chosen]).compute_score("closest")[0][-1]
        )
    low, high = scores(captions, true).loc["BLEU-4", ["ci_low", "ci_high"]]
    # The center and width of resamples, to the precision of 400 of them.
    assert (low + high) / 2 == pytest.approx(100 * np.median(resamples), abs=100 * 0.4 * np.std(resamples))
    assert high - low == pytest.approx(100 * 3.92 * np.std(resamples), rel=0.2)


def test_caption_scores_resample_groups_together():
    captions, true = many(30)
    single_scores = scores(captions, true)
    # Identical images have no more information than one of them.
    result, independent_scores = (scores(captions * 3, true * 3, groups=item) for item in (list(range(30)) * 3, None))
    limits, whole = ["value", "ci_low", "ci_high"], ["BLEU-4", "ROUGE-L"]
    np.testing.assert_allclose(result.loc[whole, limits], single_scores.loc[whole, limits], rtol=1e-6)
    # A word that is in no reference weighs more in CIDEr, the more of them there are.
    widths = [
        (item["ci_high"] - item["ci_low"]) / (single_scores["ci_high"] - single_scores["ci_low"])
        for item in (result, independent_scores)
    ]
    assert widths[0]["CIDEr"] == pytest.approx(1, abs=0.1)
    # As independent ones they would be √3 times surer.
    assert widths[1].to_numpy() == pytest.approx(np.full(3, 3**-0.5), abs=0.1)
    assert scores(captions, true, groups=["one"] * 30)[["ci_low", "ci_high"]].isna().all(axis=None)


def test_cider_and_rouge_intervals_match_mean_interval():
    captions, true = many(40)
    result = scores(captions, true)
    truth, tests = (dict(enumerate(side)) for side in (true, [[text] for text in captions]))
    for name, metric in (("CIDEr", Cider()), ("ROUGE-L", Rouge())):
        expected = mean_interval(100 * metric.compute_score(truth, tests)[1])
        limits = result.loc[name, ["ci_low", "ci_high"]].to_numpy(float)
        # Percentiles of resamples, widened by Student's t.
        assert limits == pytest.approx(
            [expected.ci_low, expected.ci_high], abs=0.1 * (expected.ci_high - expected.ci_low)
        )


def test_caption_scores_of_one_image_have_no_interval():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = scores(SAID[:1], TRUE[:1])
    assert result[["ci_low", "ci_high"]].isna().all(axis=None)
    # A word's rareness is counted over images: of one image every word is in all of them.
    assert result.loc["CIDEr", "value"] == 0 and (result["n"] == 1).all()


@pytest.mark.parametrize(
    ("captions", "true", "message"),
    [
        ([], [], "0 captions"),
        (["a", "b"], [["a"]], "2 captions, references for 1"),
        (["a", "b"], [["a"], []], "image 1"),
    ],
)
def test_caption_scores_invalid_input_is_refused(captions, true, message):
    with pytest.raises(InputError, match=message):
        caption_scores(captions, true, seed=1)
