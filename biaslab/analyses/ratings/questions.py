"""How annotators answer questions other than perceived gender."""

from __future__ import annotations

import pandas as pd

from biaslab import stats
from biaslab.analyses.custom.prompts import ALL
from biaslab.judges.annotation_questions import UNSURE

MEAN = "mean"
"""The row of a scale, where other questions have a row for each label."""


def question_shares(annotations: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the answers to each question by model and group: shares of labels, or the mean of a scale.

    Each annotation counts once, and all of an image are one cluster. Shares are of labels other than ``unsure`` (that
    of ``unsure`` is of all) with Wilson's interval; means are of steps, with Student's.

    Args:
        annotations: model, source, occupation (the group), image_id, question and label; rows about perceived gender
            (an empty question) or without a label do not count.
        confidence: Level of the intervals, 0–1.

    Returns:
        model, source, question, group (``all`` or an occupation), answer (a label, or ``mean``), value (percent, or
        steps), ci_low, ci_high, n (annotations) and n_images.
    """
    columns = ["model", "source", "question", "group", "answer", "value", "ci_low", "ci_high", "n", "n_images"]
    answered, rows = annotations[(annotations["question"] != "") & (annotations["label"] != "")], []
    for key, whole in answered.groupby(["model", "source", "question"], sort=False):
        labels = sorted(set(whole["label"]) - {UNSURE})
        is_scale = bool(labels) and all(label.isdecimal() for label in labels)
        for group, subset in [(ALL, whole), *whole.groupby("occupation", sort=False)]:
            clear = subset[subset["label"] != UNSURE]
            if is_scale:
                clusters = clear["image_id"].astype(str)
                mean = stats.mean_interval(clear["label"].astype(float), confidence, clusters=clusters)
                rows.append([*key, group, MEAN, *mean, clear["image_id"].nunique()])
            for label in [*([] if is_scale else labels), UNSURE]:
                counted = subset if label == UNSURE else clear
                images = (counted["label"] == label).groupby(counted["image_id"]).agg(["sum", "size"])
                share = stats.clustered_share(images["sum"], images["size"], confidence)
                limits = 100 * share.value, 100 * share.ci_low, 100 * share.ci_high
                rows.append([*key, group, label, *limits, share.n, len(images)])
    return pd.DataFrame(rows, columns=columns)
