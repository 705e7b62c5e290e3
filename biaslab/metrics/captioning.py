"""Captioning metrics: the similarity of a generated caption to captions of the same image written by people.

Scores are those of the COCO caption evaluation (``pycocoevalcap``). Its tokenizer and its metrics METEOR and SPICE need
Java. Therefore, this module splits the texts itself, and the two metrics are not computed.

Source: dalleval paper, section 4.3 and Table 19; BLEU: Papineni et al. 2002; CIDEr-D: Vedantam et al. 2015; ROUGE-L:
Lin 2004.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm, t

from biaslab.errors import InputError
from biaslab.stats.checks import align

METRICS = ("BLEU-4", "CIDEr", "ROUGE-L")
WITHOUT = {"METEOR": "needs Java", "SPICE": "needs Java"}
"""Metrics of Table 19 that are not computed, each with the reason."""
_REPLICATES = 2000
_ORDERS = 4


def split_words(text: str) -> str:
    """Return the words of ``text`` in lower case and without punctuation, separated by spaces.

    Letters after an apostrophe form a separate word: ``the man's`` becomes ``the man 's``, as in the Penn Treebank, but
    ``don't`` becomes ``don 't``.
    """
    words = re.findall(r"(?:(?<=[^\W_])['’])?[^\W_]+", text.casefold())
    return " ".join(words).replace("’", "'")


def caption_scores(
    captions: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    groups: ArrayLike | None = None,
    seed: int,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return each captioning metric of ``captions``, compared with the ``references`` of the same images.

    CIDEr is CIDEr-D, which weights words by their rarity among these references. Confidence intervals are percentiles
    of a bootstrap over images, or over ``groups`` of images with dependent captions. The percentiles are widened to
    match Student's t for the number of groups (Hesterberg 2015). For CIDEr, resamples use the word weights of the
    complete set.

    Args:
        captions: One caption for each image.
        references: One or more reference captions for each image.
        groups: The group of each image; None for independent images.
        seed: Seed of the bootstrap.
        confidence: Level of the intervals, 0–1.

    Returns:
        One row per metric (:data:`METRICS`) with the columns metric, value, ci_low and ci_high (100 times the metric,
        as papers print it), and n (images).

    Raises:
        InputError: There are no images, an image has no references, or the numbers of images differ.
    """
    from pycocoevalcap.bleu.bleu_scorer import BleuScorer
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    captions, references, groups = align(captions=captions, references=references, groups=groups)
    n = len(captions)
    groups = np.arange(n) if groups is None else np.asarray(groups)
    lacking = [k for k, texts in enumerate(references) if not len(texts)]
    if not n or {len(references), len(groups)} != {n} or lacking:
        note = f" (image {lacking[0]} has none)" if lacking else ""
        raise InputError(
            f"There are {n} captions, references for {len(references)} images{note}, and groups for {len(groups)} "
            "images. Pass at least one image, and for each image one caption and at least one reference."
        )
    caption_words = {k: [split_words(text)] for k, text in enumerate(captions)}
    reference_words = {k: [split_words(text) for text in texts] for k, texts in enumerate(references)}
    scorer = BleuScorer(n=_ORDERS)
    for k in range(n):
        scorer += (caption_words[k][0], reference_words[k])
    values, _ = scorer.compute_score(option="closest")
    options = groups, seed, confidence
    rows = [("BLEU-4", values[-1], *_limits(_counts(scorer.ctest), _bleu, *options))]
    for name, metric in (("CIDEr", Cider()), ("ROUGE-L", Rouge())):
        value, image_scores = metric.compute_score(reference_words, caption_words)
        sums = np.column_stack([image_scores, np.ones(n)])
        rows.append((name, value, *_limits(sums, lambda sums: sums[:, 0] / sums[:, 1], *options)))
    scores = pd.DataFrame(rows, columns=["metric", "value", "ci_low", "ci_high"])
    scores[["value", "ci_low", "ci_high"]] *= 100
    return scores.assign(n=n)


def _counts(images: list[dict]) -> np.ndarray:
    """Return the scorer's counts of each image, whose sums :func:`_bleu` takes."""
    lengths = np.array([c["testlen"] for c in images], float)
    # The reference length is the nearest to the caption's, or the shorter of two equally near ones.
    nearest_lengths = [min((abs(r - c["testlen"]), r) for r in c["reflen"])[1] for c in images]
    return np.column_stack([lengths, nearest_lengths, [c["guess"] for c in images], [c["correct"] for c in images]])


def _limits(
    sums: np.ndarray, statistic: Callable, groups: np.ndarray, seed: int, confidence: float
) -> tuple[float, float]:
    """Return percentiles of a statistic of sums over images (images, sums), with resampled groups."""
    _, codes = np.unique(groups, return_inverse=True)
    by_group = np.stack([np.bincount(codes, column) for column in sums.T], axis=1)
    n = len(by_group)
    if n < 2:
        return np.nan, np.nan
    rng = np.random.default_rng([seed, 74])
    resamples = rng.multinomial(n, np.full(n, 1 / n), _REPLICATES) @ by_group
    tail = norm.cdf(-np.sqrt(n / (n - 1)) * t.ppf((1 + confidence) / 2, n - 1))
    low, high = np.quantile(statistic(resamples), [tail, 1 - tail])
    return float(low), float(high)


def _bleu(sums: np.ndarray) -> np.ndarray:
    """Return BLEU-4 of sums over images, (..., 10): lengths, nearest reference lengths, guessed and correct n-grams."""
    length, reference = sums[..., 0], sums[..., 1]
    guessed, correct = sums[..., 2 : 2 + _ORDERS], sums[..., 2 + _ORDERS :]
    # The constants are the scorer's: without any match the score is 0, not undefined.
    precision = ((correct + 1e-15) / (guessed + 1e-9)).prod(axis=-1) ** (1 / _ORDERS)
    ratio = (length + 1e-15) / (reference + 1e-9)
    return precision * np.exp(np.minimum(0, 1 - 1 / ratio))
