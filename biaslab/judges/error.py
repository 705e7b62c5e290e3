"""How often the judge is wrong, where the truth (or people's ratings) is known, and what that does to shares.

It may see the wrong gender, and pass images of one gender more often; only the first can be corrected.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import norm

from biaslab.judges.judge_labels import JUDGED
from biaslab.schema.genders import GENDERS
from biaslab.stats import corrected_shares, percent

OVERALL = "all"
MEASURES = ("sensitivity", "specificity", "judged_female", "judged_male", "judged_neither")
"""``sensitivity``: of judged images that show a woman by the reference, those judged female; ``specificity``: of judged
images that show a man, those judged male; ``judged_*``: of all images that show one, or neither by the reference (no
person, several, annotators unsure), those that were judged at all."""
REFERENCES = ("female", "male", "neither")
_CORRECTED = (
    *("percent_female_corrected", "ci_low", "ci_high", "reference"),
    *("sensitivity", "specificity", "n_sensitivity", "n_specificity", "reason"),
)
LEAST = 30
"""Reference images of each gender on which a group's own sensitivity and specificity must rest."""


def confusion(judgements: pd.DataFrame, truth: pd.Series) -> pd.DataFrame:
    """Count what each image shows by the reference against what the judge said.

    ``judgements`` are as of :func:`biaslab.judges.people.judge_people` with an occupation; an image of several counts
    once among all. ``truth`` is what each image shows, by image_id: ``female``, ``male``, or ``neither``, as any other
    label is read; images that it lacks are left out.

    Returns group (``all``, then each occupation), truth, judged (``female``, ``male``, or why not), n: a row a
    combination that occurs.
    """
    known = truth.dropna().astype(str)
    known = known.where(known.isin(GENDERS), "neither")
    rows = judgements[judgements["image_id"].isin(known.index)]
    rows = rows.assign(
        truth=rows["image_id"].map(known), judged=rows["gender"].where(rows["status"] == JUDGED, rows["status"])
    )
    whole = rows.drop_duplicates("image_id").assign(group=OVERALL)
    counted = [
        some.groupby(["group", "truth", "judged"], observed=True).size().rename("n").reset_index()
        for some in (whole, rows.assign(group=rows["occupation"].astype(str)))
    ]
    return pd.concat(counted, ignore_index=True)


def judge_error(judgements: pd.DataFrame, truth: pd.Series, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the judge's sensitivity, specificity and shares judged with Wilson intervals; arguments as of
    :func:`confusion`, by image.

    One row per group and measure (of :data:`MEASURES`): group, measure, value, ci_low, ci_high (0–100), n (reference
    images behind it); NaN with n 0 where the reference has no such image.
    """
    rows = []
    for name, of_group in confusion(judgements, truth).groupby("group", sort=False):
        known = of_group.set_index(["truth", "judged"])["n"]
        total = known.groupby("truth").sum().reindex(REFERENCES, fill_value=0)
        said = known.unstack(fill_value=0).reindex(index=REFERENCES, columns=list(GENDERS), fill_value=0)
        decided = said.sum(axis=1)
        rows.append((name, "sensitivity", said.loc["female", "female"], decided["female"]))
        rows.append((name, "specificity", said.loc["male", "male"], decided["male"]))
        rows += [(name, f"judged_{r}", decided[r], total[r]) for r in REFERENCES]
    out = pd.DataFrame(rows, columns=["group", "measure", "count", "n"])
    value, low, high = percent(out["count"], out["n"], confidence)
    return out.assign(value=value, ci_low=low, ci_high=high)[["group", "measure", "value", "ci_low", "ci_high", "n"]]


def correct(shares: pd.DataFrame, errors: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Correct shares for the judge's error, as :func:`biaslab.stats.corrected_shares` does.

    ``shares`` has occupation, percent_female (0–100) and n (images judged female or male); ``errors`` are as from
    :func:`judge_error`. An occupation of fewer than :data:`LEAST` reference images takes the errors of all
    occupations; its interval then includes the variance of errors between occupations. Returns ``shares`` with
    percent_female_corrected, ci_low, ci_high (0–100; the interval includes the uncertainty of the errors), reference
    (the occupation whose errors were used, or ``all``), sensitivity, specificity (0–100), n_sensitivity,
    n_specificity, and the reason where a share cannot be corrected.
    """
    wide = errors.pivot(index="group", columns="measure", values=["value", "n"])
    enough = (wide["n"][["sensitivity", "specificity"]] >= LEAST).all(axis=1)
    names = shares["occupation"].astype(str)
    reference = names.where(names.isin(wide.index[enough]), OVERALL)
    used = wide.reindex(reference)
    sens, spec, sens_n, spec_n = (
        used[what, of].to_numpy(float) for what in ("value", "n") for of in ("sensitivity", "specificity")
    )

    n = shares["n"].to_numpy(float)
    count = np.round(shares["percent_female"].to_numpy(float) * n / 100)
    unknown = ~(sens_n > 0) | ~(spec_n > 0)
    problems = {
        "no reference images of one gender": unknown,
        "the judge is no better than chance here": ~(sens + spec > 100),
        "no image was judged": ~(n > 0) | np.isnan(count),
    }
    reason = np.select(list(problems.values()), list(problems), "").astype(object)
    ok = reason == ""
    out = np.full((3, len(shares)), np.nan)
    if ok.any():
        known = (sens[ok] / 100, spec[ok] / 100, sens_n[ok], spec_n[ok])
        found = corrected_shares(count[ok], n[ok], *known, confidence)
        share, z = found.share, norm.ppf((1 + confidence) / 2)
        vary = share**2 * _between(wide, "sensitivity") + (1 - share) ** 2 * _between(wide, "specificity")
        vary = np.where(reference[ok] == OVERALL, z**2 * vary / (known[0] + known[1] - 1) ** 2, 0)
        low = np.maximum(share - np.hypot(share - found.ci_low, np.sqrt(vary)), 0)
        high = np.minimum(share + np.hypot(found.ci_high - share, np.sqrt(vary)), 1)
        out[:, ok] = 100 * np.stack([share, low, high])
    values = (*out, reference.to_numpy(object), sens, spec, sens_n, spec_n, reason)
    return shares.assign(**dict(zip(_CORRECTED, values, strict=True)))


def _between(wide: pd.DataFrame, measure: str) -> float:
    """Return the variance (0–1) that sensitivity or specificity of all groups has for a single group, beyond chance.

    The variance between groups is estimated by moments (Cochran 1954, Biometrics 10, 101–129).
    """
    value, n = wide["value"][measure] / 100, wide["n"][measure]
    groups = (n.index != OVERALL) & (n > 0)
    if OVERALL not in n or groups.sum() < 2:
        return 0.0
    mean, own = value[OVERALL], n[groups]
    square, even = (own**2).sum() / own.sum(), mean * (1 - mean)
    between = (own @ (value[groups] - mean) ** 2 - even * (groups.sum() - 1)) / (own.sum() - square)
    return max(float(between), 0.0) * (1 + square / own.sum())


def by_source(
    judgements: Mapping[str, pd.DataFrame], references: Mapping[str, pd.Series], *, confidence: float = 0.95
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the tables ``judging_error`` and ``judging_confusion``: judgements by source, references (what
    images show, by image_id) by name.
    """
    errors, counts = [], []
    for reference, truth in references.items():
        for source, rows in judgements.items():
            at = {"reference": reference, "source": source}
            errors.append(judge_error(rows, truth, confidence=confidence).assign(**at))
            counts.append(confusion(rows, truth).assign(**at))
    names = ["reference", "source", "group", "measure", "value", "ci_low", "ci_high", "n"]
    return (
        pd.concat(errors, ignore_index=True)[names],
        pd.concat(counts, ignore_index=True)[[*names[:3], "truth", "judged", "n"]],
    )


def correct_by_source(shares: pd.DataFrame, errors: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Correct shares with errors of the same source, as table ``judging_corrected`` has them.

    The truth corrects where it is known, else annotators do, but never simulated ones.
    """
    corrected = []
    for source, rows in shares.groupby("source", sort=False):
        known = errors[errors["source"] == source].set_index("reference")
        best = next((r for r in ("truth", "annotations") if r in known.index), None)
        if best is None:
            corrected.append(rows.assign(reference="", reason=f"no reference for {source} images"))
        else:
            corrected.append(correct(rows, known.loc[[best]], confidence=confidence))
    return pd.concat([shares[:0], *corrected], ignore_index=True).reindex(columns=[*shares, *_CORRECTED])
