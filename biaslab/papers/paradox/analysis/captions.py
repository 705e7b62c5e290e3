"""Captions, and the images behind them: gate and judge, indicators, similarity, following words (sections 2, 5, 6)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from biaslab import lexicons, measures, published, stats, tables
from biaslab.captions.indicators import indicators as indicators_of
from biaslab.captions.indicators import parse_spans
from biaslab.captions.settings import APPROACHES

TOO_FEW = "Too few occupations for an interval."
NOTHING = "Nothing was measured."
# What passed the gate: the gender model was asked, and was sure or was not.
PASSED = ("judged", "uncertain")
# The outcome of an image that could be fetched.
FETCHED = "ok"


def outcomes(counts: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return what gate and judge made of the images of each source, approach and prompt (section 2.2).

    Args:
        counts: Rows of ``paradox_judgement_outcomes``.
        confidence: Level of the Wilson intervals, 0–1.

    Returns:
        The table ``paradox_outcomes``, in %.
    """
    keys = ["model", "source", "approach", "prompt"]
    rows = counts.groupby([*keys, "outcome"], sort=False, as_index=False)["n"].sum()
    rows["n_images"] = rows.groupby(keys)["n"].transform("sum")
    return tables.of(_with_wilson(rows, rows["n"], rows["n_images"], confidence), "paradox_outcomes")


def gate_rates(outcomes: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the share of images that passed the gate, one clear face, per source, approach and prompt.

    Args:
        outcomes: Rows of ``paradox_outcomes``.
        confidence: Level of the Wilson intervals, 0–1.

    Returns:
        model, source, approach, prompt, n, n_images, percent, ci_low, ci_high.
    """
    keys = ["model", "source", "approach", "prompt", "n_images"]
    passed = outcomes[outcomes["outcome"].isin(PASSED)]
    rows = passed.groupby(keys, sort=False, as_index=False)["n"].sum()
    return _with_wilson(rows, rows["n"], rows["n_images"], confidence).drop(columns="reason")


def _with_wilson(rows: pd.DataFrame, count, n, confidence: float) -> pd.DataFrame:
    """Return ``rows`` with percent, its Wilson limits, and a reason where there is nothing to take it of."""
    count, n = np.asarray(count, float), np.asarray(n, float)
    low, high = stats.wilson_interval(count, n, confidence)
    limits = {"ci_low": 100 * low, "ci_high": 100 * high}
    return rows.assign(percent=_percent(count, n), **limits, reason=np.where(n > 0, "", NOTHING))


def _percent(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return 100 * np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


# -- training images that could not be fetched (section 4) ------------------------------------------------------


def image_survival(counts: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the share of training images that could be fetched, and bounds of the training share, by occupation.

    The interval (Wilson) is of the share fetched of all images asked for. The bounds of the share perceived as female
    take every missing image as a man's, then as a woman's.

    Args:
        counts: Rows of ``paradox_download_outcomes``.
        confidence: Level of the intervals, 0–1.

    Returns:
        The table ``paradox_image_survival``, in %.
    """
    keys = ["corpus", "approach", "prompt", "occupation"]
    missing = counts[counts["outcome"] != FETCHED].sort_values("n", ascending=False, kind="stable")
    most = missing[missing["n"] > 0].drop_duplicates(keys).set_index(keys)["outcome"]
    rows = counts.groupby(keys, sort=False)[["n", "n_female", "n_male"]].sum()
    rows["n_missing"] = missing.groupby(keys)["n"].sum().reindex(rows.index).fillna(0)
    rows["most_missing"] = most.reindex(rows.index).fillna("").astype(object)
    rows = rows.reset_index()
    n, n_missing, female, male = (rows[c].to_numpy(float) for c in ("n", "n_missing", "n_female", "n_male"))
    bounds = measures.percent_female_bounds(female, male, n_missing)
    rows = _with_wilson(rows, n - n_missing, n, confidence).assign(
        percent_female=_percent(female, female + male),
        training_low=bounds.low,
        training_high=bounds.high,
        reason=np.where((n > 0) & (female + male > 0), "", NOTHING),
    )
    return tables.of(rows, "paradox_image_survival")


def amplification_bounds(survival: pd.DataFrame, shares: pd.DataFrame) -> pd.DataFrame:
    """Return expected amplification with its least and greatest value over what missing training images may show.

    Args:
        survival: Rows of ``paradox_image_survival``.
        shares: Rows of ``paradox_percent_female`` of models whose training images were fetched.

    Returns:
        The table ``paradox_amplification_bounds``, in points.
    """
    generated = shares[shares["source"] == "generated"]
    rows = []
    for (model, approach, prompt), of in generated.groupby(["model", "approach", "prompt"], sort=False):
        training = survival[
            (survival["approach"] == approach) & survival["prompt"].isin([prompt, "captions"])
        ]
        both = of[["occupation", "percent_female"]].merge(
            training, on="occupation", suffixes=("_generated", "")
        )
        g, t = both["percent_female_generated"].to_numpy(float), both["percent_female"].to_numpy(float)
        limits = both["training_low"].to_numpy(float), both["training_high"].to_numpy(float)
        for definition in measures.DEFINITIONS if len(both) else ():
            value = float(measures.expected_amplification(g, t, definition).amplification)
            lowest, highest = measures.expected_amplification_bounds(g, *limits, definition)
            rows.append(
                {
                    **{"model": model, "approach": approach, "definition": definition, "prompt": prompt},
                    **{"amplification": value, "lowest": float(lowest), "highest": float(highest)},
                    "n_occupations": int((~np.isnan(g) & ~np.isnan(limits[0])).sum()),
                    "reason": "" if np.isfinite([value, lowest, highest]).all() else NOTHING,
                }
            )
    return tables.of(rows, "paradox_amplification_bounds")


# -- section 5.1: gender indicators ------------------------------------------------------------------------------


def indicator_correlation(indicators: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the correlation of perceived gender with indicators over occupations (section 5.1; Pearson, Fisher z).

    The paper correlates the share perceived as female in training images with the share of captions that have female
    indicators; a caption with indicators of both genders has female ones, too (``any``).

    Args:
        indicators: Rows of ``paradox_indicators``.
        confidence: Level of the intervals, 0–1.

    Returns:
        The table ``paradox_indicator_correlation``.
    """
    stated = _stated("pearson_r", "naive")
    rows = []
    for corpus, some in indicators.groupby("corpus", sort=False):
        both = some["percent_both"]
        for gender, share in (("female", some["percent_female"]), ("male", 100 - some["percent_female"])):
            only = some[f"percent_{gender}_indicator"]
            for counted, indicated in (("any", only + both), ("only", only)):
                found = stats.pearson_r(share, indicated, confidence, skip_nan=True)
                known = np.isfinite(found.ci_low)
                rows.append(
                    {
                        **{
                            "corpus": corpus,
                            "gender": gender,
                            "counted": counted,
                            "r": found.r,
                            "n": found.n,
                        },
                        **{"ci_low": found.ci_low, "ci_high": found.ci_high, "p": found.p},
                        "published": stated if (gender, counted) == ("female", "any") else np.nan,
                        "reason": "" if known else "Too few occupations, or shares that do not vary.",
                    }
                )
    return tables.of(rows, "paradox_indicator_correlation")


def indicator_use(indicators: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return how often captions indicate a gender, by whether their image shows the rarer one (section 5.1).

    Which gender is rarer is decided for each occupation by its training images; an occupation whose images are half and
    half, or all of one gender, has no two groups to compare.

    Args:
        indicators: Rows of ``paradox_indicators``.
        confidence: Level of the intervals of means over occupations (Student t), 0–1.

    Returns:
        The table ``paradox_indicator_use``, in % and points.
    """
    rows = []
    for corpus, some in indicators.groupby("corpus", sort=False):
        female, male = some["percent_any_of_female"], some["percent_any_of_male"]
        fewer_women = some["percent_female"] < 50
        there = (some["n_female"] > 0) & (some["n_male"] > 0) & (some["percent_female"] != 50)
        rarer = female.where(fewer_women, male)[there]
        commoner = male.where(fewer_women, female)[there]
        groups = {"all": some["percent_any"], "rarer": rarer, "commoner": commoner}
        for images, values in (groups | {"difference": rarer - commoner}).items():
            found = stats.mean_interval(values, confidence, skip_nan=True)
            stated = _stated("captions_with_indicators", "naive") if images == "all" else np.nan
            rows.append([corpus, images, *found, stated, _reason(found)])
    names = tables.schema("paradox_indicator_use").names
    return tables.of(pd.DataFrame(rows, columns=names), "paradox_indicator_use")


def marked(caption: str, spans: str) -> str:
    """Return a caption with the words that indicate a gender in square brackets (Table 5).

    Args:
        caption: The caption.
        spans: ``start:end:label`` in characters, joined by ``;``, as :func:`biaslab.captions.indicators.indicators`
            gives them.
    """
    out, at = [], 0
    for span in sorted(parse_spans(spans), key=lambda s: s.start):
        if span.start < at:  # within one that is marked already
            continue
        out += [caption[at : span.start], "[", caption[span.start : span.end], "]"]
        at = span.end
    return "".join([*out, caption[at:]])


def marked_examples(examples: pd.DataFrame, occupations: Sequence[str]) -> pd.DataFrame:
    """Return the first caption with each kind of indicator of some occupations, indicators marked (Table 5).

    Args:
        examples: Rows of ``paradox_examples``.
        occupations: Which occupations, in order.

    Returns:
        Its rows with indicators; ``caption`` has them in square brackets.
    """
    some = examples[examples["occupation"].isin(list(occupations)) & (examples["indicator"] != "none")]
    some = some.groupby(["occupation", "indicator"], sort=False).head(1)
    order = {o: i for i, o in enumerate(occupations)}
    some = some.sort_values("occupation", key=lambda c: c.map(order), kind="stable")
    shown = [marked(c, s) for c, s in zip(some["caption"], some["spans"], strict=True)]
    return some.assign(caption=shown).reset_index(drop=True)


# -- section 5.2: nearest captions -------------------------------------------------------------------------------


def similarity_mean(similarity: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return mean similarities by approach and prompt, and their change from the naive approach (section 5.2).

    Args:
        similarity: Rows of ``paradox_similarity``.
        confidence: Level of the intervals of means over occupations (Student t), 0–1.

    Returns:
        The table ``paradox_similarity_mean`` (cosines, -1 to 1).
    """
    rows = []
    for model, of_model in similarity.groupby("model", sort=False):
        for compared in ("text", "image"):
            wide = of_model.pivot(
                index="occupation", columns=["approach", "prompt"], values=f"{compared}_similarity"
            )
            for approach in [a for a in APPROACHES if a in set(of_model["approach"])]:
                rows += _similarity_rows(wide, model, approach, compared, confidence)
    names = tables.schema("paradox_similarity_mean").names
    return tables.of(pd.DataFrame(rows, columns=names), "paradox_similarity_mean")


def _similarity_rows(
    wide: pd.DataFrame, model: str, approach: str, compared: str, confidence: float
) -> Iterator[list]:
    """Yield the rows of one approach for each prompt and their mean; ``wide`` has a row an occupation."""

    def of(approach: str, prompt: str) -> pd.Series:
        # An occupation has a mean over prompts where it has all of them.
        return wide[approach].mean(axis=1, skipna=False) if prompt == "mean" else wide[approach][prompt]

    prompts = list(wide[approach].columns)
    for prompt in [*prompts, "mean"] if len(prompts) > 1 else prompts:
        values = of(approach, prompt)
        found = stats.mean_interval(values, confidence, skip_nan=True)
        change, reason = [np.nan] * 4, _reason(found)
        if approach != "naive" and "naive" in wide.columns.get_level_values(0):
            naive = of("naive", prompt)
            differs = stats.mean_interval(values - naive, confidence, skip_nan=True)
            base = naive[(values - naive).notna()].mean()
            change = [*differs[:3], 100 * differs.value / base if base > 0 else np.nan]
            reason = reason or _reason(differs)
        # The paper states means over its prompts.
        whole, text = prompt == "mean", compared == "text"
        cosine = _stated("cosine_similarity", approach) if whole and text else np.nan
        rise = "cosine_similarity_increase" if text else "image_similarity_increase"
        stated = [cosine, _stated(rise, approach) if whole else np.nan]
        yield [model, approach, prompt, compared, *found, *change, *stated, reason]


# -- section 6 and A.6: captions as prompts ----------------------------------------------------------------------


def gender_word_accuracy(words: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return how often generated images follow the gender indicators in their captions (section 6).

    Args:
        words: Rows of ``paradox_gender_words``.
        confidence: Level of the Wilson intervals, 0–1; images of one caption count as independent.

    Returns:
        The table ``paradox_gender_word_accuracy``, in %.
    """
    counts = ["n_same", "n_pairs", "n_followed", "n_judged"]
    each = words.groupby(["model", "approach", "indicator"], sort=False, as_index=False)[counts].sum()
    every = each.groupby(["model", "approach"], sort=False, as_index=False)[counts].sum()
    whole = pd.concat([every.assign(indicator="all"), each], ignore_index=True)
    stated = _stated("generated_as_captioned", "caption_prompts")
    papers = whole["approach"].eq("caption_prompts") & whole["indicator"].eq("all")
    frames = []
    for against, count, n in (
        ("training image", "n_same", "n_pairs"),
        ("indicator", "n_followed", "n_judged"),
    ):
        published = np.where(papers & (against == "training image"), stated, np.nan)
        rows = whole.assign(against=against, n=whole[n], published=published)
        frames.append(_with_wilson(rows, whole[count], whole[n], confidence))
    found = pd.concat(frames, ignore_index=True)
    order = found.sort_values(["model", "approach"], kind="stable").index
    return tables.of(found.loc[order], "paradox_gender_word_accuracy")


def paraphrase_check(
    paraphrases: pd.DataFrame, settings: pd.DataFrame | None = None, *, confidence: float
) -> pd.DataFrame:
    """Return how many paraphrases differ from their caption and keep its occupation and indicators (A.6).

    Args:
        paraphrases: Rows of ``paradox_paraphrases``.
        settings: Rows of ``pipeline_settings``: how names told a gender when captions were measured (``names``).
        confidence: Level of the Wilson intervals, 0–1.

    Returns:
        The table ``paradox_paraphrase_check``, in %.
    """
    told = [] if settings is None else settings.loc[settings["setting"] == "captions.names", "value"].tolist()
    rows = []
    for corpus, some in paraphrases.groupby("corpus", sort=False):
        again = indicators_of(some["paraphrase"].tolist(), names=(told or ["gazetteer"])[0])[
            "indicator"
        ].to_numpy()
        kept = [
            _names(text, (occupation, *lexicons.plurals(occupation)))
            for text, occupation in zip(some["paraphrase"], some["occupation"], strict=True)
        ]
        checks = {
            "changed": (some["caption"] != some["paraphrase"]).sum(),
            "occupation_kept": sum(kept),
            "indicator_kept": (again == some["indicator"].to_numpy()).sum(),
        }
        rows += [
            {"corpus": corpus, "check": check, "count": n, "n": len(some)} for check, n in checks.items()
        ]
    frame = pd.DataFrame(rows, columns=["corpus", "check", "count", "n"])
    return tables.of(_with_wilson(frame, frame["count"], frame["n"], confidence), "paradox_paraphrase_check")


def _names(text: str, terms: Sequence[str]) -> bool:
    """Tell whether ``text`` has one of ``terms`` as whole words, in any case."""
    any_of = "|".join(map(re.escape, terms))
    return bool(re.search(rf"(?<!\w)(?:{any_of})(?!\w)", text, re.IGNORECASE))


# -- what serves several -----------------------------------------------------------------------------------------


def _stated(quantity: str, approach: str) -> float:
    """Return what the paper states in its text; NaN where it does not."""
    words = published.load("paradox_text")
    found = words.loc[(words["quantity"] == quantity) & (words["approach"] == approach), "value"]
    return float(found.iloc[0]) if len(found) else np.nan


def _reason(found: stats.Estimate) -> str:
    if not found.n:
        return NOTHING
    return "" if np.isfinite(found.ci_low) else TOO_FEW
