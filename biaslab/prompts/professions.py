"""The sentences on the professions of Table 3: the paper's own are not published, these are ours, as many as its 811.

Source: triplets paper, section 3.1 and Table 3.
"""

from __future__ import annotations

import pandas as pd

from biaslab import lexicons, published

ONE = "{} (one triplet)"
"""What a data set is called of which one triplet is repeated (section 7.1)."""
PROFESSION = "Profession"
"""What the paper calls the sentences on professions as a data set."""


def sentences() -> pd.DataFrame:
    """Return the sentences on professions: topic and profession (as in Table 3), text; two or three a profession."""
    found, table = [], published.load("triplets_table_3")
    for topic, texts in lexicons.load("profession_sentences").items():
        names = table.loc[table["topic"] == topic, "profession"]
        for text in texts:
            said = text.partition(" ")[2].lower()
            fitting = [name for name in names if said.startswith(f"{name.lower()} ")]
            found.append((topic, max(fitting, key=len), text))
    return pd.DataFrame(found, columns=["topic", "profession", "text"])
