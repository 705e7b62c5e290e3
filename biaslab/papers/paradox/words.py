"""What the paradox's tables answer (``answers.yaml``), and what is said of models and captions that are not real."""

from pathlib import Path

import pandas as pd

from biaslab.models import registry, truths
from biaslab.papers.answers import read

answers = read(Path(__file__).parent)


def embedded(settings: pd.DataFrame) -> pd.DataFrame:
    """Return the models of ``pipeline_settings`` that are no real ones, or are measured beside captions of known truth.

    Columns model, words (what their package says of them) and more (a sentence, or empty).
    """
    rows = []
    for model, one in settings.groupby("model", sort=False):
        corpora = one.loc[one["setting"] == "captions.corpus", "set_to"]
        beside = next(filter(None, (truths.said(corpus, "training") for corpus in corpora)), "")
        if words := registry.said(str(model), "real") or beside:
            more = "" if words != beside else "The comparison tries the measures out."
            rows.append({"model": model, "words": words, "more": more})
    return pd.DataFrame(rows, columns=["model", "words", "more"])
