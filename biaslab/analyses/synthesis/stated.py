"""Numbers that the papers state in their text, next to values computed from their own tables where possible."""

from __future__ import annotations

from statistics import fmean

import pandas as pd

from biaslab import reference
from biaslab.schema import tables

# Columns that state the subject of a number; the tables of paradox, paired and DALL-Eval name them differently.
_SUBJECTS = ("approach", "aspect", "setting", "subject")
_PAPERS = ("paradox", "paired", "dalleval", "triplets")
_MODEL = "SD 1.4"
_PROMPTS = ("1", "2", "3", "4")


def stated_numbers() -> pd.DataFrame:
    """Return the numbers of all papers' running text as ``synthesis_stated_numbers``.

    ``value_from_tables`` is the same quantity computed from the numbers of the paper's tables and text: means over the
    four prompts and their reductions (paradox, Table 3), and agreement as a share (triplets, section 7.3).
    """
    texts = [_text_of(paper) for paper in _PAPERS]
    rows = pd.concat(texts, ignore_index=True)
    values = {**_amplification(), **_agreement()}
    keys = zip(rows["paper"], rows["quantity"], rows["subject"], rows["unit"], strict=True)
    rows["value_from_tables"] = [values.get(key, float("nan")) for key in keys]
    return tables.make_table(rows, "synthesis_stated_numbers")


def _text_of(paper: str) -> pd.DataFrame:
    text = reference.load(f"{paper}_text")
    parts = text[[name for name in _SUBJECTS if name in text]]
    subject = parts.apply(lambda row: ", ".join(part for part in row if part), axis=1)
    return text.assign(paper=paper, subject=subject).rename(columns={"value": "paper_text_value"})


def _amplification() -> dict[tuple[str, str, str, str], float]:
    """Return means over the prompts of Table 3 and how much lower than ``naive`` amplification is, by key."""
    table = reference.load("paradox_table_3").query("model == @_MODEL")
    by_prompt = {
        (str(row["approach"]), str(row["prompt"])): float(row["amplification"]) for row in table.to_dict("records")
    }
    # Captions as prompts have a mean in the text alone.
    text = reference.load("paradox_text").query("quantity == 'amplification'")
    means = {str(row["approach"]): float(row["value"]) for row in text.to_dict("records")}
    in_table = {approach for approach, _ in by_prompt}
    means |= {approach: fmean(by_prompt[approach, prompt] for prompt in _PROMPTS) for approach in in_table}
    values = {("paradox", "amplification", approach, "points"): means[approach] for approach in in_table}
    for approach, mean in means.items():
        values["paradox", "amplification_reduction", approach, "%"] = 100 * (1 - mean / means["naive"])
    for (approach, prompt), value in by_prompt.items():
        quantity = f"amplification_reduction_prompt_{prompt}"
        values["paradox", quantity, approach, "%"] = 100 * (1 - value / by_prompt["naive", prompt])
    return values


def _agreement() -> dict[tuple[str, str, str, str], float]:
    text = reference.load("triplets_text")
    counts = {str(row["quantity"]): float(row["value"]) for row in text.query("unit == 'nouns'").to_dict("records")}
    return {("triplets", "nouns_agreed", "", "%"): 100 * counts["nouns_agreed"] / counts["nouns"]}
