"""Captioning metrics: how near a text about an image comes to those that people wrote about it.

Scores are those of the COCO caption evaluation (``pycocoevalcap``). Its tokenizer, METEOR and SPICE need Java: texts
are split here instead, and the two are left out.

Source: dalleval paper, section 4.3 and Table 19; BLEU: Papineni et al. 2002; CIDEr-D: Vedantam et al. 2015; ROUGE-L:
Lin 2004.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from biaslab.errors import InputError

METRICS = ("BLEU-4", "CIDEr", "ROUGE-L")
WITHOUT = {"METEOR": "needs Java", "SPICE": "needs Java"}
"""Metrics of Table 19 that are not computed -> why."""
_REPLICATES = 2000
_ORDERS = 4


def split(text: str) -> str:
    """Return the words of ``text`` in lower case with a space between them, without marks.

    What stands after an apostrophe is a word of its own, so that ``the man's`` is ``the man 's`` as in the Penn
    treebank; unlike there ``don't`` is ``don 't``, and a decimal two words.
    One that opens a quotation is a mark.
    """
    words = re.findall(r"(?:(?<=[^\W_])['’])?[^\W_]+", text.casefold())
    return " ".join(words).replace("’", "'")


def caption_scores(
    captions: Sequence[str], references: Sequence[Sequence[str]], *, seed: int, confidence: float = 0.95
) -> pd.DataFrame:
    """Return each metric of ``captions`` against the ``references`` of the same images.

    CIDEr is CIDEr-D; it weighs words by how rare they are among these references, so that it depends on the set of
    images. Intervals are of bootstraps over images; for CIDEr with the weights of the whole set.

    Takes one caption and one or more references an image, of at least one image; ``confidence`` is the level of the
    intervals, 0–1. Returns metric (:data:`METRICS`), value, ci_low, ci_high (all 100 times the metric, as papers print
    them: 0–100, CIDEr 0–1000) and n (images). Raises InputError for no image, an image without references, or other
    numbers of images.
    """
    from pycocoevalcap.bleu.bleu_scorer import BleuScorer
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    from biaslab.stats import bootstrap_mean

    n = len(captions)
    lacking = [k for k, of in enumerate(references) if not len(of)]
    if not n or len(references) != n or lacking:
        at = f"; image {lacking[0]} has none" if lacking else ""
        raise InputError(
            f"There are {n} captions and references of {len(references)} images{at}; give one caption and at least one "
            "reference for each image, and at least one image."
        )
    said = {k: [split(text)] for k, text in enumerate(captions)}
    true = {k: [split(text) for text in of] for k, of in enumerate(references)}
    scorer = BleuScorer(n=_ORDERS)
    for k in range(n):
        scorer += (said[k][0], true[k])
    values, _ = scorer.compute_score(option="closest")
    rows = [("BLEU-4", values[-1], *_bleu_limits(scorer.ctest, seed, confidence))]
    for name, metric in (("CIDEr", Cider()), ("ROUGE-L", Rouge())):
        value, each = metric.compute_score(true, said)
        limits = bootstrap_mean(np.asarray(each, float), _REPLICATES, seed, confidence)
        rows.append((name, value, limits.ci_low, limits.ci_high))
    found = pd.DataFrame(rows, columns=["metric", "value", "ci_low", "ci_high"])
    found[["value", "ci_low", "ci_high"]] *= 100
    return found.assign(n=n)


def _bleu_limits(counted: list[dict], seed: int, confidence: float) -> tuple[float, float]:
    """Return percentiles of BLEU-4 over resampled images; ``counted`` is what the scorer counts in each."""
    if len(counted) < 2:
        return np.nan, np.nan
    lengths = np.array([c["testlen"] for c in counted], float)
    # Of several references the length counts that is nearest, of equally near ones the shorter.
    nearest = [min((abs(r - c["testlen"]), r) for r in c["reflen"])[1] for c in counted]
    each = np.column_stack([lengths, nearest, [c["guess"] for c in counted], [c["correct"] for c in counted]])
    rng = np.random.default_rng([seed, 74])
    drawn = rng.multinomial(len(each), np.full(len(each), 1 / len(each)), _REPLICATES) @ each
    tail = (1 - confidence) / 2
    low, high = np.quantile(_bleu(drawn), [tail, 1 - tail])
    return float(low), float(high)


def _bleu(sums: np.ndarray) -> np.ndarray:
    """Return BLEU-4 of sums over images, (..., 10): lengths, nearest reference's, n-grams said, and those right."""
    length, reference = sums[..., 0], sums[..., 1]
    said, right = sums[..., 2 : 2 + _ORDERS], sums[..., 2 + _ORDERS :]
    # The constants are the scorer's: without any match the score is 0, not undefined.
    precision = ((right + 1e-15) / (said + 1e-9)).prod(axis=-1) ** (1 / _ORDERS)
    ratio = (length + 1e-15) / (reference + 1e-9)
    return precision * np.exp(np.minimum(0, 1 - 1 / ratio))
