"""What a user's own ratings answer (``answers.yaml``), and what a file of them holds."""

import pandas as pd

from biaslab.ground.wording import count
from biaslab.papers.answers import read
from biaslab.ratings.readers import SOURCES, UNNAMED, Rated

answers = read("ratings")


def holds(rated: Rated, file: str) -> pd.DataFrame:
    """Return what the file of this name holds in one row: file, words, and more (a sentence, or empty)."""

    def counted(n: float, noun: str) -> str:
        return count(n, noun, f"{noun}s")

    rows = rated.outcomes if rated.ratings is None else rated.images
    occupations = counted(rows["occupation"].nunique(), "occupation")
    models = [model for model in sorted(set(rated.outcomes["model"])) if model != UNNAMED]
    more = [f"Models: {', '.join(models)}."] if models else []
    if rated.ratings is None:
        # Training shares without a model are listed for every model, and count once.
        decided = rated.notes.set_index("item")["n"]["images decided female or male"]
        n = rated.outcomes["n"].sum() if rated.part else decided
        words = f"Shares of {occupations} from {counted(n, 'image')}."
    else:
        raters = int(rated.ratings.notna().any().sum()) if rated.raters else rated.n_raters
        sources = ", ".join(f"{(rated.images['source'] == source).sum():,} {source}" for source in SOURCES)
        more.insert(0, f"Images: {sources}.")
        words = f"{counted(len(rated.images), 'image')} of {occupations}, rated by {counted(raters, 'rater')}."
    return pd.DataFrame({"file": [file], "words": [words], "more": [" ".join(more)]})
