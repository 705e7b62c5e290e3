"""What the bias amplification paradox prints of its measurements: one function a measured table."""

from __future__ import annotations

import pandas as pd

from biaslab import reference
from biaslab.captions.settings import CAPTIONS_AS_PROMPTS
from biaslab.schema import tables

NOMINAL_N = 500
"""Images an occupation and prompt (sections 2.2, 3.1 and 4), before faces and confidence are checked."""
MODEL = "SD 1.4"
"""The model that sections 5.3, 6 and A.6 state results for."""


MODELS = {"SD 1.4": "paradox_table_6", "SD 1.5": "paradox_table_7"}
"""Models whose shares are printed, and where."""


def percent_female() -> pd.DataFrame:
    """Return Tables 6 and 7 as measurements of the naive approach: table ``paradox_percent_female`` (%)."""
    tables_of = [reference.load(name).assign(model=model) for model, name in MODELS.items()]
    whole = pd.concat(tables_of, ignore_index=True)
    whole.loc[whole["source"] == "training", "prompt"] = "captions"
    return tables.make_table(whole.assign(approach="naive", n=NOMINAL_N), "paradox_percent_female")


def printed_amplification() -> pd.DataFrame:
    """Return Table 3, and the averages that sections 6 and A.6 state for SD 1.4, in points."""
    words = reference.load("paradox_text")
    stated = words[(words["quantity"] == "amplification") & words["approach"].isin(CAPTIONS_AS_PROMPTS)]
    stated = stated.rename(columns={"value": "amplification"}).assign(model=MODEL, prompt="captions")
    whole = pd.concat([reference.load("paradox_table_3"), stated], ignore_index=True)
    return tables.make_table(whole, "paradox_printed_amplification")
