"""Printed values of the bias amplification paradox, one function per measured table."""

from __future__ import annotations

import pandas as pd

from biaslab import reference
from biaslab.captions.settings import CAPTIONS_AS_PROMPTS
from biaslab.schema import tables

NOMINAL_N = 500
"""Images per occupation and prompt (sections 2.2, 3.1 and 4), before faces and confidence are checked."""
MODEL = "SD 1.4"
"""The model of the results in sections 5.3, 6 and A.6."""


MODELS = {"SD 1.4": "paradox_table_6", "SD 1.5": "paradox_table_7"}
"""Models with printed shares, and the tables of these shares."""


def percent_female() -> pd.DataFrame:
    """Return Tables 6 and 7 as measurements of the naive approach: table ``paradox_percent_female`` (%)."""
    frames = [reference.load(name).assign(model=model) for model, name in MODELS.items()]
    shares = pd.concat(frames, ignore_index=True)
    shares.loc[shares["source"] == "training", "prompt"] = "captions"
    return tables.make_table(shares.assign(approach="naive", n=NOMINAL_N), "paradox_percent_female")


def printed_amplification() -> pd.DataFrame:
    """Return Table 3, and the averages that sections 6 and A.6 state for SD 1.4, in points."""
    texts = reference.load("paradox_text")
    averages = texts[(texts["quantity"] == "amplification") & texts["approach"].isin(CAPTIONS_AS_PROMPTS)]
    averages = averages.rename(columns={"value": "amplification"}).assign(model=MODEL, prompt="captions")
    values = pd.concat([reference.load("paradox_table_3"), averages], ignore_index=True)
    return tables.make_table(values, "paradox_printed_amplification")
