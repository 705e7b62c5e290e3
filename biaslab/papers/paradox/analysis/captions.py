"""Captions and their images: statuses, indicators, similarity, agreement with words (sections 2, 5 and 6).

Functions return the table that they name, from rows of the measured table that their first argument is named after.
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
# Statuses of images that meet the inclusion criteria, whether the gender model was sure or not.
PASSED = ("judged", "uncertain")
# The status of a fetched image.
FETCHED = "ok"


def outcomes(counts: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the statuses of the images of each source and prompt: ``paradox_outcomes`` (section 2.2).

    ``counts`` are rows of ``paradox_judgement_outcomes``; intervals are Wilson's.
    """
    keys = ["model", "source", "approach", "prompt"]
    rows = counts.groupby([*keys, "status"], sort=False, as_index=False)["n"].sum()
    rows["n_images"] = rows.groupby(keys)["n"].transform("sum")
    intervals = stats.percent_columns(rows["n"], rows["n_images"], confidence)
    return tables.make_table(rows.assign(**intervals, reason=_reason_if_empty(rows["n_images"])), "paradox_outcomes")


def inclusion_rates(outcomes: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return ``paradox_outcomes`` of images that meet the inclusion criteria; ``judged`` is the judged share (%)."""
    keys = ["model", "source", "approach", "prompt", "n_images"]
    passed = outcomes[outcomes["status"].isin(PASSED)]
    rows = passed.groupby(keys, sort=False, as_index=False)["n"].sum()
    judged_shares = passed[passed["status"] == "judged"][[*keys, "percent"]].rename(columns={"percent": "judged"})
    return rows.assign(**stats.percent_columns(rows["n"], rows["n_images"], confidence)).merge(
        judged_shares, "left", keys
    )


def _reason_if_empty(n: ArrayLike) -> np.ndarray:
    return np.where(np.asarray(n) > 0, "", NOTHING)


# -- training images that could not be fetched (section 4) ------------------------------------------------------


def image_survival(counts: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the share of training images that could be fetched, by occupation: ``paradox_image_survival``.

    Intervals are Wilson's. Bounds of the share perceived as female count all missing images as male, or as female.
    """
    keys = ["corpus", "approach", "prompt", "occupation"]
    missing = counts[counts["status"] != FETCHED].sort_values("n", ascending=False, kind="stable")
    reasons = missing[missing["n"] > 0].drop_duplicates(keys).set_index(keys)["status"]
    rows = counts.groupby(keys, sort=False)[["n", "n_female", "n_male"]].sum()
    rows["n_not_fetched"] = missing.groupby(keys)["n"].sum().reindex(rows.index).fillna(0)
    rows["most_frequent_reason"] = reasons.reindex(rows.index)
    rows = rows.reset_index()
    n_judged, missing = rows["n_female"] + rows["n_male"], rows["n_not_fetched"]
    # Shares of all images that were judged or could not be fetched (Manski 1989, without assumptions).
    n_known = (n_judged + missing).where(n_judged + missing > 0)
    rows = rows.assign(
        **stats.percent_columns(rows["n"] - missing, rows["n"], confidence),
        percent_female=100 * rows["n_female"] / n_judged.where(n_judged > 0),
        percent_lower_bound=100 * (rows["n_female"] / n_known),
        percent_upper_bound=100 * ((rows["n_female"] + missing) / n_known),
        reason=_reason_if_empty(np.minimum(rows["n"], n_judged)),
    )
    return tables.make_table(rows, "paradox_image_survival")


# -- section 5.1: gender indicators ------------------------------------------------------------------------------


def indicator_correlation(indicators: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the correlation of perceived gender and indicators: ``paradox_indicator_correlation`` (section 5.1).

    Pearson's r over occupations, with Fisher's z. With ``any``, as in the paper, a caption with indicators of both
    genders counts for each.
    """
    rows = []
    for corpus, occupations in indicators.groupby("corpus", sort=False):
        for gender, share in (("female", occupations["percent_female"]), ("male", 100 - occupations["percent_female"])):
            single = occupations[f"percent_{gender}_indicator"]
            for kind, indicated in (("any", single + occupations["percent_both"]), ("only", single)):
                correlation = stats.pearson_r(share, indicated, confidence, skip_nan=True)
                has_interval = np.isfinite(correlation.ci_low)
                is_stated = (gender, kind) == ("female", "any")
                row = {"corpus": corpus, "gender": gender, "counted": kind, **correlation._asdict()}
                row["paper_text_value"] = _stated_value("pearson_r", "naive") if is_stated else np.nan
                row["reason"] = "" if has_interval else "Too few occupations, or shares that do not vary."
                rows.append(row)
    return tables.make_table(rows, "paradox_indicator_correlation")


def indicator_use(indicators: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the share of captions that indicate a gender, by majority or minority: ``paradox_indicator_use`` (5.1).

    An occupation's training images determine its minority gender; there is none where they are half and half, or all of
    one gender. Intervals are Student's t over occupations.
    """
    rows = []
    for corpus, occupations in indicators.groupby("corpus", sort=False):
        female, male = occupations["percent_any_of_female"], occupations["percent_any_of_male"]
        fewer_women = occupations["percent_female"] < 50
        has_rarer = (occupations["n_female"] > 0) & (occupations["n_male"] > 0) & (occupations["percent_female"] != 50)
        rarer = female.where(fewer_women, male)[has_rarer]
        commoner = male.where(fewer_women, female)[has_rarer]
        kinds = {"all": occupations["percent_any"], "minority": rarer, "majority": commoner}
        for images, values in (kinds | {"difference": rarer - commoner}).items():
            mean = stats.mean_interval(values, confidence, skip_nan=True)
            stated = _stated_value("captions_with_indicators", "naive") if images == "all" else np.nan
            p = stats.one_sample_t(values, skip_nan=True).p if images == "difference" else np.nan
            rows.append([corpus, images, *mean[:3], p, mean.n, stated, _missing_reason(mean)])
    return tables.make_table(rows, "paradox_indicator_use")


def mark_indicators(caption: str, spans: str) -> str:
    """Return a caption with the words that indicate a gender (``start:end:label;…``) in square brackets (Table 5)."""
    pieces, position = [], 0
    for span in sorted(parse_spans(spans), key=lambda s: s.start):
        if span.start < position:  # within a marked span
            continue
        pieces += [caption[position : span.start], "[", caption[span.start : span.end], "]"]
        position = span.end
    return "".join([*pieces, caption[position:]])


def marked_examples(examples: pd.DataFrame, occupations: Sequence[str]) -> pd.DataFrame:
    """Return the first caption of each kind of indicator for ``occupations``, marked, in their order (Table 5)."""
    rows = examples[examples["occupation"].isin(occupations) & (examples["indicator"] != "none")]
    rows = rows.groupby(["occupation", "indicator"], sort=False).head(1)
    rows = rows.sort_values("occupation", key=lambda c: c.map(list(occupations).index), kind="stable")
    captions = [mark_indicators(c, s) for c, s in zip(rows["caption"], rows["spans"], strict=True)]
    return rows.assign(caption=captions).reset_index(drop=True)


# -- section 5.2: nearest captions -------------------------------------------------------------------------------


def similarity_mean(similarity: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return mean cosines, and their change from the naive approach: ``paradox_similarity_mean`` (section 5.2)."""
    rows: list[list] = []
    for model, model_rows in similarity.groupby("model", sort=False):
        for compared in ("text", "image"):
            cells = {"index": "occupation", "columns": ["approach", "prompt"]}
            wide = model_rows.pivot(**cells, values=f"{compared}_similarity")
            for approach in [a for a in APPROACHES if a in set(model_rows["approach"])]:
                rows += _similarity_rows(wide, str(model), approach, compared, confidence)
    return tables.make_table(rows, "paradox_similarity_mean")


def _similarity_rows(wide: pd.DataFrame, model: str, approach: str, compared: str, confidence: float) -> Iterator[list]:
    """Yield the rows of one approach for each prompt and their mean; ``wide`` has one row per occupation."""

    def select(approach: str, prompt: str) -> pd.Series:
        # An occupation has a mean over prompts only with all of them.
        cosines: Any = wide[approach]
        return cosines.mean(axis=1, skipna=False) if prompt == "mean" else cosines[prompt]

    prompts = list(wide[approach].columns)
    for prompt in [*prompts, "mean"] if len(prompts) > 1 else prompts:
        values = select(approach, prompt)
        mean = stats.mean_interval(values, confidence, skip_nan=True)
        change, reason = [np.nan] * 5, _missing_reason(mean)
        if approach != "naive" and "naive" in wide:
            naive = select("naive", prompt)
            difference = stats.mean_interval(values - naive, confidence, skip_nan=True)
            base = naive[(values - naive).notna()].mean()
            p = stats.one_sample_t(values - naive, skip_nan=True).p
            change = [*difference[:3], p, 100 * difference.value / base if base > 0 else np.nan]
            reason = reason or _missing_reason(difference)
        # The paper states means over its prompts; for images, only their increase.
        kind = "cosine_similarity" if compared == "text" else "image_similarity"
        stated = [_stated_value(name, approach) if prompt == "mean" else np.nan for name in (kind, f"{kind}_increase")]
        yield [model, approach, prompt, compared, *mean, *change, *stated, reason]


# -- section 6 and A.6: captions as prompts ----------------------------------------------------------------------


def gender_word_accuracy(words: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the share of images that follow their captions' indicators: ``paradox_gender_word_accuracy`` (6)."""
    counts = ["n_same", "n_pairs", "n_followed", "n_judged"]
    by_indicator = words.groupby(["model", "approach", "indicator"], sort=False, as_index=False)[counts].sum()
    totals = by_indicator.groupby(["model", "approach"], sort=False, as_index=False)[counts].sum()
    groups = pd.concat([totals.assign(indicator="all"), by_indicator], ignore_index=True)
    references = {"training image": ("n_same", "n_pairs"), "indicator": ("n_followed", "n_judged")}
    frames = [
        groups.assign(reference=name, n=groups[n], **stats.percent_columns(groups[count], groups[n], confidence))
        for name, (count, n) in references.items()
    ]
    rows = pd.concat(frames, ignore_index=True).sort_values(["model", "approach"], kind="stable")
    is_stated = rows[["approach", "indicator", "reference"]].eq(["caption_prompts", "all", "training image"])
    stated = np.where(is_stated.all(axis=1), _stated_value("generated_as_captioned", "caption_prompts"), np.nan)
    rows = rows.assign(paper_text_value=stated, reason=_reason_if_empty(rows["n"]))
    return tables.make_table(rows, "paradox_gender_word_accuracy")


# -- synthetic models ---------------------------------------------------------------------------------------------


def simulated_models(settings: pd.DataFrame) -> pd.DataFrame:
    """Return the models of ``pipeline_settings`` that are simulated, or have captions with ground truth."""
    rows = []
    for model, model_settings in settings.groupby("model", sort=False):
        corpora = model_settings.loc[model_settings["setting"] == "captions.corpus", "set_to"]
        caption_words = next(filter(None, (ground_truth.describe(corpus, "training") for corpus in corpora)), "")
        if words := registry.describe(str(model), "real") or caption_words:
            note = "" if words != caption_words else "This comparison only tests the measures."
            rows.append({"model": model, "words": words, "more": note})
    return pd.DataFrame(rows, columns=["model", "words", "more"])


# -- shared helpers ----------------------------------------------------------------------------------------------


def _stated_value(quantity: str, approach: str) -> float:
    """Return a value that the paper states in its text, or NaN."""
    texts = reference.load("paradox_text")
    values = texts.loc[(texts["quantity"] == quantity) & (texts["approach"] == approach), "value"]
    return float(values.iloc[0]) if len(values) else np.nan


def _missing_reason(estimate: stats.Estimate) -> str:
    if not estimate.n:
        return NOTHING
    return "" if np.isfinite(estimate.ci_low) else TOO_FEW
