"""Captions, and the images behind them: gate and judge, indicators, similarity, following words (sections 2, 5, 6).

Functions return the table that they name, from rows of the measured table that their first argument is called after;
``confidence`` is the level of intervals, 0–1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab import reference, stats
from biaslab.captions.indicators import parse_spans
from biaslab.captions.settings import APPROACHES
from biaslab.hub import ground_truth, registry
from biaslab.schema import tables

TOO_FEW = "Too few occupations for an interval."
NOTHING = "Nothing was measured."
# What passed the gate: the gender model was asked, and was sure or was not.
PASSED = ("judged", "uncertain")
# The outcome of an image that could be fetched.
FETCHED = "ok"


def outcomes(counts: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return what gate and judge made of the images of each source and prompt: ``paradox_outcomes`` (section 2.2).

    ``counts`` are rows of ``paradox_judgement_outcomes``; intervals are Wilson's.
    """
    keys = ["model", "source", "approach", "prompt"]
    rows = counts.groupby([*keys, "status"], sort=False, as_index=False)["n"].sum()
    rows["n_images"] = rows.groupby(keys)["n"].transform("sum")
    found = stats.percent_columns(rows["n"], rows["n_images"], confidence)
    return tables.make_table(rows.assign(**found, reason=_nothing(rows["n_images"])), "paradox_outcomes")


def gate_rates(outcomes: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return ``paradox_outcomes`` of images that passed the gate, with ``judged``, the share judged in the end (%)."""
    keys = ["model", "source", "approach", "prompt", "n_images"]
    passed = outcomes[outcomes["status"].isin(PASSED)]
    rows = passed.groupby(keys, sort=False, as_index=False)["n"].sum()
    judged = passed[passed["status"] == "judged"][[*keys, "percent"]].rename(columns={"percent": "judged"})
    return rows.assign(**stats.percent_columns(rows["n"], rows["n_images"], confidence)).merge(judged, "left", keys)


def _nothing(n: ArrayLike) -> np.ndarray:
    return np.where(np.asarray(n) > 0, "", NOTHING)


# -- training images that could not be fetched (section 4) ------------------------------------------------------


def image_survival(counts: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the share of training images that could be fetched, by occupation: ``paradox_image_survival``.

    With Wilson limits; bounds of the share perceived as female take every missing image as a man's, then as a woman's.
    """
    keys = ["corpus", "approach", "prompt", "occupation"]
    missing = counts[counts["status"] != FETCHED].sort_values("n", ascending=False, kind="stable")
    most = missing[missing["n"] > 0].drop_duplicates(keys).set_index(keys)["status"]
    rows = counts.groupby(keys, sort=False)[["n", "n_female", "n_male"]].sum()
    rows["n_not_fetched"] = missing.groupby(keys)["n"].sum().reindex(rows.index).fillna(0)
    rows["most_frequent_reason"] = most.reindex(rows.index)
    rows = rows.reset_index()
    judged, missing = rows["n_female"] + rows["n_male"], rows["n_not_fetched"]
    # Of all that were judged or could not be fetched (Manski 1989, without assumptions).
    every = (judged + missing).where(judged + missing > 0)
    rows = rows.assign(
        **stats.percent_columns(rows["n"] - missing, rows["n"], confidence),
        percent_female=100 * rows["n_female"] / judged.where(judged > 0),
        percent_lower_bound=100 * (rows["n_female"] / every),
        percent_upper_bound=100 * ((rows["n_female"] + missing) / every),
        reason=_nothing(np.minimum(rows["n"], judged)),
    )
    return tables.make_table(rows, "paradox_image_survival")


# -- section 5.1: gender indicators ------------------------------------------------------------------------------


def indicator_correlation(indicators: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return how perceived gender goes with indicators over occupations: ``paradox_indicator_correlation`` (5.1).

    Pearson's r, with Fisher's z; a caption with indicators of both genders has female ones, too (``any``, as the paper
    counts).
    """
    rows = []
    for corpus, some in indicators.groupby("corpus", sort=False):
        for gender, share in (("female", some["percent_female"]), ("male", 100 - some["percent_female"])):
            only = some[f"percent_{gender}_indicator"]
            for counted, indicated in (("any", only + some["percent_both"]), ("only", only)):
                found = stats.pearson_r(share, indicated, confidence, skip_nan=True)
                known = np.isfinite(found.ci_low)
                told = (gender, counted) == ("female", "any")
                row = {"corpus": corpus, "gender": gender, "counted": counted, **found._asdict()}
                row["paper_text_value"] = _stated("pearson_r", "naive") if told else np.nan
                row["reason"] = "" if known else "Too few occupations, or shares that do not vary."
                rows.append(row)
    return tables.make_table(rows, "paradox_indicator_correlation")


def indicator_use(indicators: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return how often captions indicate a gender, by whether it is the rarer: ``paradox_indicator_use`` (section 5.1).

    Which gender is rarer is decided by an occupation's training images; where these are half and half, or all of one
    gender, there is none. Intervals are Student's t over occupations.
    """
    rows = []
    for corpus, some in indicators.groupby("corpus", sort=False):
        female, male = some["percent_any_of_female"], some["percent_any_of_male"]
        fewer_women = some["percent_female"] < 50
        there = (some["n_female"] > 0) & (some["n_male"] > 0) & (some["percent_female"] != 50)
        rarer = female.where(fewer_women, male)[there]
        commoner = male.where(fewer_women, female)[there]
        kinds = {"all": some["percent_any"], "minority": rarer, "majority": commoner}
        for images, values in (kinds | {"difference": rarer - commoner}).items():
            found = stats.mean_interval(values, confidence, skip_nan=True)
            stated = _stated("captions_with_indicators", "naive") if images == "all" else np.nan
            p = stats.one_sample_t(values, skip_nan=True).p if images == "difference" else np.nan
            rows.append([corpus, images, *found[:3], p, found.n, stated, _reason(found)])
    return tables.make_table(rows, "paradox_indicator_use")


def marked(caption: str, spans: str) -> str:
    """Return a caption with the words that indicate a gender (``start:end:label;…``) in square brackets (Table 5)."""
    out, at = [], 0
    for span in sorted(parse_spans(spans), key=lambda s: s.start):
        if span.start < at:  # within one that is marked already
            continue
        out += [caption[at : span.start], "[", caption[span.start : span.end], "]"]
        at = span.end
    return "".join([*out, caption[at:]])


def marked_examples(examples: pd.DataFrame, occupations: Sequence[str]) -> pd.DataFrame:
    """Return the first caption of each kind of indicator for ``occupations``, marked, in their order (Table 5)."""
    some = examples[examples["occupation"].isin(occupations) & (examples["indicator"] != "none")]
    some = some.groupby(["occupation", "indicator"], sort=False).head(1)
    some = some.sort_values("occupation", key=lambda c: c.map(list(occupations).index), kind="stable")
    shown = [marked(c, s) for c, s in zip(some["caption"], some["spans"], strict=True)]
    return some.assign(caption=shown).reset_index(drop=True)


# -- section 5.2: nearest captions -------------------------------------------------------------------------------


def similarity_mean(similarity: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return mean cosines, and their change from the naive approach: ``paradox_similarity_mean`` (section 5.2)."""
    rows: list[list] = []
    for model, of_model in similarity.groupby("model", sort=False):
        for compared in ("text", "image"):
            cells = {"index": "occupation", "columns": ["approach", "prompt"]}
            wide = of_model.pivot(**cells, values=f"{compared}_similarity")
            for approach in [a for a in APPROACHES if a in set(of_model["approach"])]:
                rows += _similarity_rows(wide, str(model), approach, compared, confidence)
    return tables.make_table(rows, "paradox_similarity_mean")


def _similarity_rows(wide: pd.DataFrame, model: str, approach: str, compared: str, confidence: float) -> Iterator[list]:
    """Yield the rows of one approach for each prompt and their mean; ``wide`` has one row per occupation."""

    def of(approach: str, prompt: str) -> pd.Series:
        # An occupation has a mean over prompts where it has all of them.
        of_prompts: Any = wide[approach]
        return of_prompts.mean(axis=1, skipna=False) if prompt == "mean" else of_prompts[prompt]

    prompts = list(wide[approach].columns)
    for prompt in [*prompts, "mean"] if len(prompts) > 1 else prompts:
        values = of(approach, prompt)
        found = stats.mean_interval(values, confidence, skip_nan=True)
        change, reason = [np.nan] * 5, _reason(found)
        if approach != "naive" and "naive" in wide:
            naive = of("naive", prompt)
            differs = stats.mean_interval(values - naive, confidence, skip_nan=True)
            base = naive[(values - naive).notna()].mean()
            p = stats.one_sample_t(values - naive, skip_nan=True).p
            change = [*differs[:3], p, 100 * differs.value / base if base > 0 else np.nan]
            reason = reason or _reason(differs)
        # The paper states means over its prompts, of images only how they rise.
        kind = "cosine_similarity" if compared == "text" else "image_similarity"
        stated = [_stated(name, approach) if prompt == "mean" else np.nan for name in (kind, f"{kind}_increase")]
        yield [model, approach, prompt, compared, *found, *change, *stated, reason]


# -- section 6 and A.6: captions as prompts ----------------------------------------------------------------------


def gender_word_accuracy(words: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return how often images follow the indicators in their captions: ``paradox_gender_word_accuracy`` (section 6)."""
    counts = ["n_same", "n_pairs", "n_followed", "n_judged"]
    each = words.groupby(["model", "approach", "indicator"], sort=False, as_index=False)[counts].sum()
    every = each.groupby(["model", "approach"], sort=False, as_index=False)[counts].sum()
    whole = pd.concat([every.assign(indicator="all"), each], ignore_index=True)
    counted = {"training image": ("n_same", "n_pairs"), "indicator": ("n_followed", "n_judged")}
    frames = [
        whole.assign(reference=against, n=whole[n], **stats.percent_columns(whole[count], whole[n], confidence))
        for against, (count, n) in counted.items()
    ]
    found = pd.concat(frames, ignore_index=True).sort_values(["model", "approach"], kind="stable")
    papers = found[["approach", "indicator", "reference"]].eq(["caption_prompts", "all", "training image"])
    stated = np.where(papers.all(axis=1), _stated("generated_as_captioned", "caption_prompts"), np.nan)
    found = found.assign(paper_text_value=stated, reason=_nothing(found["n"]))
    return tables.make_table(found, "paradox_gender_word_accuracy")


# -- what is not real ---------------------------------------------------------------------------------------------


def embedded(settings: pd.DataFrame) -> pd.DataFrame:
    """Return the models of ``pipeline_settings`` that are no real ones, or have captions with ground truth."""
    rows = []
    for model, one in settings.groupby("model", sort=False):
        corpora = one.loc[one["setting"] == "captions.corpus", "set_to"]
        beside = next(filter(None, (ground_truth.describe(corpus, "training") for corpus in corpora)), "")
        if words := registry.describe(str(model), "real") or beside:
            more = "" if words != beside else "The comparison tries the measures out."
            rows.append({"model": model, "words": words, "more": more})
    return pd.DataFrame(rows, columns=["model", "words", "more"])


# -- what serves several -----------------------------------------------------------------------------------------


def _stated(quantity: str, approach: str) -> float:
    """Return what the paper states in its text; NaN where it does not."""
    words = reference.load("paradox_text")
    found = words.loc[(words["quantity"] == quantity) & (words["approach"] == approach), "value"]
    return float(found.iloc[0]) if len(found) else np.nan


def _reason(found: stats.Estimate) -> str:
    if not found.n:
        return NOTHING
    return "" if np.isfinite(found.ci_low) else TOO_FEW
