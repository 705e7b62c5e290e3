"""How often the judge is wrong, where the truth (or people's ratings) is known, and what that does to shares.

Two things can go wrong: an image that is judged gets the wrong gender, and images of one gender pass the gate
more often than those of the other. Both are measured for each group (an occupation) and overall; only the
first can be corrected by sensitivity and specificity, the second is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from biaslab.errors import InputError, name_help
from biaslab.genders import GENDERS
from biaslab.judging.judge import JUDGED
from biaslab.stats import corrected_shares, wilson_interval

OVERALL = "all"
MEASURES = ("sensitivity", "specificity", "judged_female", "judged_male", "judged_neither")
"""``sensitivity``: of judged images that show a woman by the reference, those judged female; ``specificity``:
of judged images that show a man, those judged male; ``judged_female``, ``judged_male``: of all images that show
one, those that were judged at all; ``judged_neither``: of images that show neither by the reference (no person,
several, raters unsure), those that were judged although they should not have been."""
REFERENCES = ("female", "male", "neither")


def known_truth(judgements: pd.DataFrame) -> pd.Series:
    """Return what images show, by image_id, where the corpus knows it (column ``truth_gender``); else empty.

    An image without a gender of its own (no person, or several) is ``neither``.
    """
    if "truth_gender" not in judgements:
        return pd.Series(dtype=object)
    once = judgements.drop_duplicates("image_id").set_index("image_id")["truth_gender"]
    return once.astype(object).where(once.isin(GENDERS), "neither")


def confusion(judgements: pd.DataFrame, truth: pd.Series, group: str = "") -> pd.DataFrame:
    """Count what each image shows by the reference against what the judge said.

    Args:
        judgements: Rows as from :func:`biaslab.judging.judge.judge`. An image that belongs to several groups has
            a row for each; it counts once among all images.
        truth: What each image shows, by image_id: ``female``, ``male``, or ``neither`` (also ``unsure``,
            ``tie``, ``both`` and ``""``, which are read as it). Images that are missing here are left out:
            nothing is known of them.
        group: The column to count apart, such as ``"occupation"``; empty for all images together only.

    Returns:
        group, truth, judged (``female``, ``male``, or the outcome of an image that was not judged), n: one row
        per combination that occurs, for ``all`` and then for each group.

    Raises:
        InputError: A truth is no known label, an image has two truths, or the column is missing.
    """
    if group and group not in judgements:
        raise InputError(f"The judgements have no column {group!r}; merge it in from the images' table.")
    known = _labels(truth)
    rows = judgements[judgements["image_id"].isin(known.index)]
    rows = rows.assign(
        truth=rows["image_id"].map(known),
        judged=rows["gender"].where(rows["outcome"] == JUDGED, rows["outcome"]),
    )
    counted = [_counted(rows.drop_duplicates("image_id").assign(group=OVERALL))]
    if group:
        counted.append(_counted(rows.assign(group=rows[group].astype(str))))
    return pd.concat(counted, ignore_index=True)


def _counted(rows: pd.DataFrame) -> pd.DataFrame:
    keys = ["group", "truth", "judged"]
    return rows.groupby(keys, sort=True, observed=True).size().rename("n").reset_index()


def judge_error(
    judgements: pd.DataFrame, truth: pd.Series, group: str = "", *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return the judge's sensitivity, specificity and the shares judged, with Wilson intervals.

    Arguments and errors as in :func:`confusion`.

    Returns:
        group, measure (one of :data:`MEASURES`), value, ci_low, ci_high (0–100), n (reference images behind
        it): one row per group and measure; NaN with n 0 where the reference has no such image.
    """
    counts = confusion(judgements, truth, group)
    rows = []
    for name, of_group in counts.groupby("group", sort=False):
        table = of_group.pivot_table(index="truth", columns="judged", values="n", aggfunc="sum", fill_value=0)
        table = table.reindex(index=list(REFERENCES), fill_value=0)
        table = table.reindex(columns=list(dict.fromkeys([*GENDERS, *table.columns])), fill_value=0)
        decided, total = table[list(GENDERS)].sum(axis=1), table.sum(axis=1)
        rows.append((name, "sensitivity", table.loc["female", "female"], decided["female"]))
        rows.append((name, "specificity", table.loc["male", "male"], decided["male"]))
        rows += [(name, f"judged_{r}", decided[r], total[r]) for r in REFERENCES]
    out = pd.DataFrame(rows, columns=["group", "measure", "count", "n"])
    low, high = wilson_interval(out["count"], out["n"], confidence)
    value = 100 * out["count"] / out["n"].where(out["n"] > 0)
    out = out.assign(value=value, ci_low=100 * low, ci_high=100 * high)
    return out[["group", "measure", "value", "ci_low", "ci_high", "n"]]


def correct(
    shares: pd.DataFrame,
    errors: pd.DataFrame,
    *,
    group: str = "",
    least: int = 30,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Correct shares for the judge's error, as :func:`biaslab.stats.corrected_shares` does.

    Args:
        shares: Rows with percent_female (0–100) and n (images judged female or male).
        errors: Sensitivity and specificity as from :func:`judge_error`.
        group: The column of ``shares`` that names the group of ``errors``, such as ``"occupation"``; empty
            takes the judge's error over all images.
        least: A group whose sensitivity or specificity rests on fewer reference images takes those of all.
        confidence: Level of the intervals, which include the uncertainty of sensitivity and specificity.

    Returns:
        ``shares`` with percent_corrected, corrected_low, corrected_high (0–100), reference (the group whose
        error was used, or ``all``), sensitivity, specificity (0–100), sensitivity_n, specificity_n, and the
        reason where a share cannot be corrected.

    Raises:
        InputError: A column is missing.
    """
    for column in ("percent_female", "n", *([group] if group else [])):
        if column not in shares:
            raise InputError(f"The shares have no column {column!r}.")
    wide = errors.pivot(index="group", columns="measure", values=["value", "n"])
    if OVERALL not in wide.index:
        raise InputError(f"The errors have no group {OVERALL!r}; take them from judge_error.")
    enough = (wide["n"][["sensitivity", "specificity"]] >= least).all(axis=1)
    usable = set(wide.index[enough])
    names = shares[group].astype(str) if group else pd.Series(OVERALL, index=shares.index)
    reference = names.where(names.isin(usable), OVERALL)
    sens, spec = (wide["value"][m].reindex(reference).to_numpy(float) for m in ("sensitivity", "specificity"))
    sens_n, spec_n = (wide["n"][m].reindex(reference).to_numpy(float) for m in ("sensitivity", "specificity"))

    n = shares["n"].to_numpy(float)
    count = np.round(shares["percent_female"].to_numpy(float) * n / 100)
    reason = np.full(len(shares), "", dtype=object)
    reason[~(n > 0) | np.isnan(count)] = "no image was judged"
    unknown = ~(sens_n > 0) | ~(spec_n > 0)
    reason[unknown] = "no reference images of one gender"
    reason[~unknown & ~(sens + spec > 100)] = "the judge is no better than chance here"
    ok = reason == ""
    out = np.full((3, len(shares)), np.nan)
    if ok.any():
        found = corrected_shares(
            count[ok], n[ok], sens[ok] / 100, spec[ok] / 100, sens_n[ok], spec_n[ok], confidence
        )
        out[:, ok] = 100 * np.stack([found.share, found.ci_low, found.ci_high])
    return shares.assign(
        percent_corrected=out[0],
        corrected_low=out[1],
        corrected_high=out[2],
        reference=reference.to_numpy(object),
        sensitivity=sens,
        specificity=spec,
        sensitivity_n=sens_n,
        specificity_n=spec_n,
        reason=reason,
    )


def by_source(
    judgements: Mapping[str, pd.DataFrame],
    references: Mapping[str, pd.Series],
    group: str = "occupation",
    *,
    confidence: float = 0.95,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return errors and confusions for each reference and each source of images.

    Args:
        judgements: Rows as from :func:`biaslab.judging.judge.judge`, by source (``training``, ``generated``).
        references: What images show, by image_id, for each reference (``truth``, ``ratings``, …); a reference that
            knows none of a source's images gives no rows.
        group: The column to measure apart.
        confidence: Level of the intervals.

    Returns:
        The rows of the tables ``judging_error`` and ``judging_confusion``. Errors as in :func:`confusion`.
    """
    errors, counts = [], []
    for reference, truth in references.items():
        for source, rows in judgements.items():
            at = {"reference": reference, "source": source}
            errors.append(judge_error(rows, truth, group, confidence=confidence).assign(**at))
            counts.append(confusion(rows, truth, group).assign(**at))
    names = ["reference", "source", "group", "measure", "value", "ci_low", "ci_high", "n"]
    return (
        pd.concat(errors, ignore_index=True)[names],
        pd.concat(counts, ignore_index=True)[[*names[:3], "truth", "judged", "n"]],
    )


def correct_by_source(
    shares: pd.DataFrame,
    errors: pd.DataFrame,
    *,
    references: Sequence[str] = ("truth", "ratings"),
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Correct shares with the errors measured on images of the same source, where there are any.

    Args:
        shares: Rows of table ``paradox_percent_female``.
        errors: Rows of table ``judging_error``.
        references: Which references may correct, the best first.
        confidence: Level of the intervals.

    Returns:
        The rows of table ``judging_corrected``; shares of a source without a reference keep a reason.
    """
    out = []
    for source, rows in shares.groupby("source", sort=False):
        there = errors[errors["source"] == source]
        best = next((r for r in references if (there["reference"] == r).any()), None)
        if best is None:
            rows = rows.assign(**_UNCORRECTED, reason=f"no reference for {source} images")
        else:
            rows = correct(rows, there[there["reference"] == best], group="occupation", confidence=confidence)
        out.append(rows)
    return pd.concat(out, ignore_index=True) if out else shares.assign(**_UNCORRECTED, reason="")


_UNCORRECTED = dict.fromkeys(
    ("percent_corrected", "corrected_low", "corrected_high", "sensitivity", "specificity"), np.nan
) | {"reference": "", "sensitivity_n": np.nan, "specificity_n": np.nan}


def _labels(truth: pd.Series) -> pd.Series:
    if truth.index.has_duplicates:
        twice = truth.index[truth.index.duplicated()][0]
        raise InputError(f"Image {twice!r} has two truths; give one for each image.")
    labels = truth.dropna().astype(str).replace(dict.fromkeys(("", "unsure", "tie", "both"), "neither"))
    other = sorted(set(labels) - set(REFERENCES))
    if other:
        raise InputError(f"A truth is {other[0]!r}. {name_help(other[0], REFERENCES)}")
    return labels
