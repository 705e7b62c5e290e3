"""Tables of the paradox paper's sections that need captions and images: what was measured, summed up.

They take measured tables of the sources ``mini`` and ``pipeline`` (or of a folder that holds such tables) and
give means over occupations with intervals, beside what the paper states for LAION and Stable Diffusion 1.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import measures, published, stats, tables
from biaslab.captions.settings import APPROACHES
from biaslab.studies import paradox

if TYPE_CHECKING:
    from biaslab.studies.paradox import Group
    from biaslab.study import Study

TOO_FEW = "Too few occupations for an interval."
NOTHING = "Nothing was measured."
MOST_REPLICATES = 2000
# What passed the gate: the gender model was asked, and was sure or was not.
PASSED = ("judged", "uncertain")
# With what each approach is compared, besides the naive one.
_REFERENCES = {
    "caption_prompts_no_indicators": ("caption_prompts",),
    "paraphrased": ("caption_prompts",),
    "paraphrased_no_indicators": ("caption_prompts_no_indicators",),
}


def outcomes(study: Study) -> pd.DataFrame:
    """Return what gate and judge made of the images of each source, approach and prompt (section 2.2)."""
    keys = ["model", "source", "approach", "prompt"]
    counts = study.measured("paradox_judgement_outcomes")
    counts = counts.groupby([*keys, "outcome"], sort=False, as_index=False)["n"].sum()
    counts["n_images"] = counts.groupby(keys)["n"].transform("sum")
    return _with_wilson(counts, counts["n"], counts["n_images"], study.confidence)


def gate_rates(outcomes: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return the share of images that passed the gate, one clear face, per source, approach and prompt.

    Args:
        outcomes: The table ``paradox_outcomes``.
        confidence: Level of the Wilson intervals.

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
    with np.errstate(invalid="ignore", divide="ignore"):
        percent = 100 * count / n
    reason = np.where(n > 0, "", NOTHING)
    return rows.assign(percent=percent, ci_low=100 * low, ci_high=100 * high, reason=reason)


# -- section 5.1: gender indicators ----------------------------------------------------------------------------


def indicator_correlation(study: Study) -> pd.DataFrame:
    """Return the correlation of perceived gender with indicators over occupations (section 5.1).

    The paper correlates the share perceived as female in training images with the share of captions that have
    female indicators; a caption with indicators of both genders has female ones, too (``any``).
    """
    stated = _stated("pearson_r", "naive")
    rows = []
    for corpus, some in study.measured("paradox_indicators").groupby("corpus", sort=False):
        both = some["percent_both"]
        for gender, share in (("female", some["percent_female"]), ("male", 100 - some["percent_female"])):
            only = some[f"percent_{gender}_indicator"]
            for counted, indicated in (("any", only + both), ("only", only)):
                found = stats.pearson_r(share, indicated, study.confidence, skip_nan=True)
                papers = stated if (gender, counted) == ("female", "any") else np.nan
                reason = (
                    "" if np.isfinite(found.ci_low) else "Too few occupations, or shares that do not vary."
                )
                row = [corpus, gender, counted, found.r, found.ci_low, found.ci_high, found.p, found.n]
                rows.append([*row, papers, reason])
    return pd.DataFrame(rows, columns=tables.schema("paradox_indicator_correlation").names)


def indicator_use(study: Study) -> pd.DataFrame:
    """Return how often captions indicate a gender, by whether their image shows the rarer one (section 5.1).

    Which gender is rarer is decided for each occupation by its training images; an occupation whose images are
    half and half, or all of one gender, has no two groups to compare.
    """
    rows = []
    for corpus, some in study.measured("paradox_indicators").groupby("corpus", sort=False):
        female, male = some["percent_any_of_female"], some["percent_any_of_male"]
        fewer_women = some["percent_female"] < 50
        there = (some["n_female"] > 0) & (some["n_male"] > 0) & (some["percent_female"] != 50)
        rarer = female.where(fewer_women, male)[there]
        commoner = male.where(fewer_women, female)[there]
        groups = {
            "all": (some["percent_any"], _stated("captions_with_indicators", "naive")),
            "rarer": (rarer, np.nan),
            "commoner": (commoner, np.nan),
            "difference": (rarer - commoner, np.nan),
        }
        for images, (values, papers) in groups.items():
            found = stats.mean_interval(values, study.confidence, skip_nan=True)
            rows.append([corpus, images, *found, papers, _reason(found)])
    return pd.DataFrame(rows, columns=tables.schema("paradox_indicator_use").names)


# -- section 5.2: nearest captions -----------------------------------------------------------------------------


def similarity_mean(study: Study) -> pd.DataFrame:
    """Return mean similarities by approach and prompt, and their change from the naive approach (section 5.2)."""
    measured = study.measured("paradox_similarity")
    rows = []
    for model, of_model in measured.groupby("model", sort=False):
        for compared in ("text", "image"):
            wide = of_model.pivot(
                index="occupation", columns=["approach", "prompt"], values=f"{compared}_similarity"
            )
            for approach in [a for a in APPROACHES if a in set(of_model["approach"])]:
                rows += _similarity_rows(wide, model, approach, compared, study.confidence)
    return pd.DataFrame(rows, columns=tables.schema("paradox_similarity_mean").names)


def _similarity_rows(
    wide: pd.DataFrame, model: str, approach: str, compared: str, confidence: float
) -> Iterator[list]:
    """Yield the rows of one approach for each prompt and their mean; ``wide`` has a row an occupation."""
    columns = wide[approach]
    for prompt in [*columns.columns, "mean"] if columns.shape[1] > 1 else columns.columns:
        values = _of_prompt(columns, prompt)
        found = stats.mean_interval(values, confidence, skip_nan=True)
        row = [model, approach, prompt, compared, *found]
        change = [np.nan] * 4
        reason = _reason(found)
        if approach != "naive" and "naive" in wide.columns.get_level_values(0):
            naive = _of_prompt(wide["naive"], prompt)
            differs = stats.mean_interval(values - naive, confidence, skip_nan=True)
            base = naive[(values - naive).notna()].mean()
            change = [*differs[:3], 100 * differs.value / base if base > 0 else np.nan]
            reason = reason or _reason(differs)
        yield [*row, *change, *_papers_similarity(compared, approach, prompt), reason]


def _of_prompt(columns: pd.DataFrame, prompt: str) -> pd.Series:
    """Return an occupation's similarity for a prompt; for ``mean`` over all prompts, where it has all."""
    return columns.mean(axis=1, skipna=False) if prompt == "mean" else columns[prompt]


def _papers_similarity(compared: str, approach: str, prompt: str) -> tuple[float, float]:
    """Return the mean cosine and the increase in percent that the paper states, over its prompts."""
    if prompt != "mean":
        return np.nan, np.nan
    if compared == "image":
        return np.nan, _stated("image_similarity_increase", approach)
    return _stated("cosine_similarity", approach), _stated("cosine_similarity_increase", approach)


# -- section 5.3 and 6: approaches -------------------------------------------------------------------------------


def approach_change(study: Study) -> pd.DataFrame:
    """Return the change of amplification from one approach to another, with an interval (sections 5 and 6).

    Both are taken over the occupations that have every share with either approach; the change is the difference of
    the two estimates that ``paradox_amplification`` gives for these occupations, each without its own images' noise.
    For the standard error occupations are resampled with both approaches' shares as they were measured, so what
    selections share (captions, training images, generated images) counts as shared; new images are drawn only to
    take out their noise. Many pairs are resampled, so at most 2,000 times each: a standard error is then good to a few
    percent. Where an approach has no interval of its own, both values are plain and the change has none.
    """
    of_model: dict[str, dict[str, Group]] = {}
    for group in paradox.groups(study):
        of_model.setdefault(group.model, {})[group.approach] = group
    # An approach is compared several times, mostly over the same occupations.
    known: dict[tuple, paradox.Estimates] = {}

    def estimated(group: Group) -> paradox.Estimates:
        key = group.model, group.approach, group.occupations
        if key not in known:
            known[key] = paradox.estimates(
                group,
                replicates=study.bootstrap_replicates,
                seed=study.seed,
                confidence=study.confidence,
            )
        return known[key]

    rows = [
        row
        for found in of_model.values()
        for approach, group in found.items()
        for reference in ("naive", *_REFERENCES.get(approach, ()))
        if reference in found and reference != approach
        for row in _change_rows(group, found[reference], study, estimated)
    ]
    return pd.DataFrame(rows, columns=tables.schema("paradox_approach_change").names)


def _change_rows(group: Group, reference: Group, study: Study, estimated) -> Iterator[list]:
    group, reference = _same_occupations(group.complete(), reference.complete())
    pairs = _prompt_pairs(group, reference)
    if not group.occupations or not pairs:
        return
    first, second = estimated(group), estimated(reference)
    half = _half_widths(group, reference, pairs, study)
    for d, definition in enumerate(measures.DEFINITIONS):
        for prompt, (i, j) in pairs.items():
            width = half[definition, prompt]
            certain = np.isfinite([first.low[d, i], second.low[d, j]]).all()
            which = "amplification" if certain else "plain"
            value, base = getattr(first, which)[d, i], getattr(second, which)[d, j]
            change = value - base
            limits = (change - width, change + width) if certain else (np.nan, np.nan)
            percent = 100 * change / base if base > 0 else np.nan
            reason = "" if np.isfinite(limits[0]) else TOO_FEW
            if group.drawing is None or reference.drawing is None:
                reason = paradox.NO_PAIRS
            elif few := [g for g in (group, reference) if g.too_few(g.names[-1])]:
                reason = few[0].too_few(few[0].names[-1])
            head = [group.model, group.approach, reference.approach, definition, prompt]
            yield [*head, base, value, change, *limits, percent, len(group.occupations), reason]


def _half_widths(group: Group, reference: Group, pairs: dict[str, tuple[int, int]], study: Study) -> dict:
    """Return half the width of the interval of each change, by definition and prompt."""
    keys = [(definition, prompt) for definition in measures.DEFINITIONS for prompt in pairs]
    if group.drawing is None or reference.drawing is None:
        return dict.fromkeys(keys, np.nan)
    (ours, ours_n), (theirs, theirs_n) = group.counts(), reference.counts()
    drawn_once = group.prompts == reference.prompts and np.array_equal(
        ours[:, -len(group.prompts) :], theirs[:, -len(group.prompts) :]
    )
    # Cells of both side by side; where both have the same generated images, those stand once.
    training = ours.shape[1] - len(group.prompts)
    mine = ours[:, :training] if drawn_once else ours
    counts = np.hstack([mine, theirs])
    n = np.hstack([ours_n[:, : mine.shape[1]], theirs_n])
    drawing = stats.OneByOne(counts.shape[1]) if drawn_once else [group.drawing, reference.drawing]

    def statistic(shares: np.ndarray) -> np.ndarray:
        generated = (
            shares[..., -len(group.prompts) :] if drawn_once else shares[..., training : ours.shape[1]]
        )
        sides = np.concatenate([shares[..., :training], generated], axis=-1)
        others = shares[..., -theirs.shape[1] :]
        changes = []
        for definition in measures.DEFINITIONS:
            first = paradox.expected(group, *group.split(sides), definition)
            second = paradox.expected(reference, *reference.split(others), definition)
            changes += [first[..., i] - second[..., j] for i, j in pairs.values()]
        return np.stack(changes, axis=-1)

    boot = stats.hierarchical_bootstrap(
        counts,
        n,
        statistic,
        replicates=min(study.bootstrap_replicates, MOST_REPLICATES),
        seed=study.seed,
        confidence=study.confidence,
        drawing=drawing,
    )
    return dict(zip(keys, (np.ravel(boot.ci_high) - np.ravel(boot.ci_low)) / 2, strict=True))


def _same_occupations(first: Group, second: Group) -> tuple[Group, Group]:
    shared = set(first.occupations) & set(second.occupations)
    return tuple(g.only(np.array([o in shared for o in g.occupations], dtype=bool)) for g in (first, second))


def _prompt_pairs(group: Group, reference: Group) -> dict[str, tuple[int, int]]:
    """Return which values are compared, by the approach's prompt: its own and the reference's place.

    Captions as prompts have one value; a reference with several prompts then stands with their mean.
    """
    if group.prompts == reference.prompts:
        return {name: (i, i) for i, name in enumerate(group.names)}
    if len(group.prompts) == 1:
        return {group.prompts[0]: (0, len(reference.names) - 1)}
    return {}


# -- section 6 and A.6: captions as prompts --------------------------------------------------------------------------


def gender_word_accuracy(study: Study) -> pd.DataFrame:
    """Return how often generated images follow the gender indicators in their captions (section 6)."""
    measured = study.measured("paradox_gender_words")
    counts = ["n_same", "n_pairs", "n_followed", "n_judged"]
    each = measured.groupby(["model", "approach", "indicator"], sort=False, as_index=False)[counts].sum()
    every = each.groupby(["model", "approach"], sort=False, as_index=False)[counts].sum()
    whole = pd.concat([every.assign(indicator="all"), each], ignore_index=True)
    stated = _stated("generated_as_captioned", "caption_prompts")
    papers = whole["approach"].eq("caption_prompts") & whole["indicator"].eq("all")
    frames = []
    for against, count, n in (
        ("training image", "n_same", "n_pairs"),
        ("indicator", "n_followed", "n_judged"),
    ):
        rows = whole.assign(against=against, n=whole[n])
        rows["published"] = np.where(papers & (against == "training image"), stated, np.nan)
        frames.append(_with_wilson(rows, whole[count], whole[n], study.confidence))
    found = pd.concat(frames, ignore_index=True)
    order = found.sort_values(["model", "approach"], kind="stable").index if len(found) else found.index
    return found.loc[order, tables.schema("paradox_gender_word_accuracy").names].reset_index(drop=True)


def paraphrase_check(study: Study) -> pd.DataFrame:
    """Return how many paraphrases differ from their caption and keep its occupation and indicators (A.6)."""
    from biaslab import lexicons
    from biaslab.captions.indicators import indicators

    rows = []
    for corpus, some in study.measured("paradox_paraphrases").groupby("corpus", sort=False):
        again = indicators(some["paraphrase"].tolist(), names=_names_by(study))["indicator"].to_numpy()
        checks = {
            "changed": (some["caption"] != some["paraphrase"]).to_numpy(),
            "occupation_kept": np.array(
                [
                    _names(text, (occupation, *lexicons.plurals(occupation)))
                    for text, occupation in zip(some["paraphrase"], some["occupation"], strict=True)
                ],
                dtype=bool,
            ),
            "indicator_kept": again == some["indicator"].to_numpy(),
        }
        for check, true in checks.items():
            rows.append([corpus, check, int(true.sum()), len(true)])
    frame = pd.DataFrame(rows, columns=["corpus", "check", "count", "n"])
    frame = _with_wilson(frame, frame["count"], frame["n"], study.confidence)
    return frame[tables.schema("paradox_paraphrase_check").names]


def _names_by(study: Study) -> str:
    """Return how names told a gender in the pipeline that measured; as by default where the source does not say."""
    told = study.measured_or_empty("pipeline_settings")
    found = told.loc[told["setting"] == "captions.names", "value"]
    return str(found.iloc[0] if len(found) else study.settings.captions.names)


def _names(text: str, terms: Sequence[str]) -> bool:
    """Tell whether ``text`` has one of ``terms`` as whole words, in any case."""
    any_of = "|".join(map(re.escape, terms))
    return bool(re.search(rf"(?<!\w)(?:{any_of})(?!\w)", text, re.IGNORECASE))


# -- what serves several -----------------------------------------------------------------------------------------


def mean_over_prompts(occupations: pd.DataFrame) -> pd.DataFrame:
    """Return both shares of each occupation averaged over prompts (the paper's last figure of approaches).

    Args:
        occupations: Rows of ``paradox_occupation_amplification``.

    Returns:
        The same columns with ``prompt`` = ``mean`` and the limits of the shares missing; an occupation without a
        share for one of its approach's prompts has none.
    """
    keys = ["model", "approach", "occupation"]
    shares = ["percent_training", "percent_generated"]
    grouped = occupations.groupby(keys, sort=False)[shares]
    # A mean over fewer prompts would be of other prompts than the next occupation's.
    mean = grouped.mean().where(grouped.count().eq(grouped.size(), axis=0)).reset_index()
    limits = dict.fromkeys(("training_low", "training_high", "generated_low", "generated_high"), np.nan)
    excluded = measures.exclusion_reason(mean["percent_generated"], mean["percent_training"])
    return mean.assign(prompt="mean", excluded=excluded, **limits)


def _stated(quantity: str, approach: str) -> float:
    """Return what the paper states in its text; NaN where it does not."""
    words = published.load("paradox_text")
    found = words.loc[(words["quantity"] == quantity) & (words["approach"] == approach), "value"]
    return float(found.iloc[0]) if len(found) else np.nan


def _reason(found: stats.Estimate) -> str:
    if not found.n:
        return NOTHING
    return "" if np.isfinite(found.ci_low) else TOO_FEW


TABLES = {
    "paradox_outcomes": outcomes,
    "paradox_indicator_correlation": indicator_correlation,
    "paradox_indicator_use": indicator_use,
    "paradox_similarity_mean": similarity_mean,
    "paradox_gender_word_accuracy": gender_word_accuracy,
    "paradox_approach_change": approach_change,
    "paradox_paraphrase_check": paraphrase_check,
}
