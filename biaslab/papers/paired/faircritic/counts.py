"""The built-in critic, which applies a fixed rule to the judges' counts and describes each group and identity.

1. **Is there bias?** Exact two-sided binomial tests of one half, corrected by Holm's method: one family for the aspect
   (people who look like their stereotype) and each group (people of one stereotype), another for identities. They
   treat people as independent. For an unbiased model with independent people, the aspect or a group is called biased in
   3% of samples; where every image shows one woman and one man, in 8 to 9%. An identity may need a guideline if the
   aspect, its group or its own count differs. It is called biased only where that guideline must change.
2. **How large is an identity's share?** :func:`shrink_share` shrinks it towards its group's mean, among people
   without a stated gender.
3. **How often is the other gender stated?** :func:`share_to_tell`; ``follows`` counts ten more people who follow.
   A guideline for less than one prompt and less than 1% of prompts is left out. At most 90% of prompts state a
   gender, so that plain ones remain. Where all prompts of a group state one, the share is that for p = 1.

Source: paired paper, section 5; the rule is this project's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from biaslab import lexicons
from biaslab.papers.paired.faircritic.critique import (
    JUDGED,
    NO_JUDGEMENT,
    Brief,
    Counts,
    Critique,
    Finding,
    Guideline,
    name_identity,
)
from biaslab.papers.paired.prompts import sentence
from biaslab.schema.genders import GENDERS

if TYPE_CHECKING:
    import pandas as pd

_PLURALS = {"female": "women", "male": "men"}
_NOUNS = {"occupation": "occupation", "power": "role"}
# Reasons for no guideline.
_TOO_SMALL = "The difference is too small for a guideline"
_NO_EFFECT = "Guidelines do not change these images, so none is given"
_UNKNOWN_SHARE = "No classified person of the group is without a guideline, so the share that needs one is unknown"
# Level of the tests, after correction.
_LEVEL = 0.05
# Number of additional people assumed to follow a stated gender.
_PRIOR = 10
# Shares, and changes of shares, below this and below one prompt are ignored. A limit of one prompt alone would be too
# large: in the paper's power aspect each identity has six, and a score of 19 requires 0.96 of them, 69 in all.
_MIN_SHARE = 0.01
# If all prompts stated a gender, no plain people would remain to learn from.
_MAX_SHARE = 0.9


def shrink_share(count, n, weight=None) -> tuple[np.ndarray, float, float]:
    """Return shares shrunk to their mean m by a beta-binomial model, m, and rho (0: no more than chance).

    Shares p_i of n_i people scatter about m with variance rho m (1 - m). By moments (Kleinman 1973, JASA 68, 46–54),
    with weights w_i (by default n_i; else all people classified, so that m does not favour identities with fewer
    guidelines) and their sum W, rho, within 0 to 1, is

        [sum w_i (p_i - m)² / (m (1 - m)) - sum w_i (1 - w_i / W) / n_i] / sum w_i (1 - w_i / W) (n_i - 1) / n_i,

    and the share the posterior mean m + n_i rho / (1 + (n_i - 1) rho) (p_i - m). ``count`` of ``n`` are whole numbers
    ``(identities,)``; an n of 0 gives m. Results are 0–1, NaN where every n is 0.
    """
    count, n = np.asarray(count, float), np.asarray(n, float)
    # Identities without classified people have no weight.
    weight = np.where(n > 0, n if weight is None else np.asarray(weight, float), 0.0)
    total = weight.sum()
    if total == 0:
        return np.full(n.shape, np.nan), float("nan"), float("nan")
    divisor = np.maximum(n, 1)
    # Multiplied first: where the weights are n, the quotients are exactly the counts.
    mean = float((weight * count / divisor).sum() / total)
    share = np.where(n > 0, count / divisor, mean)
    # For one person, all variance is chance: (n - 1) / n is 0.
    variance, weight_terms = mean * (1 - mean), weight * (1 - weight / total)
    chance, scale = (weight_terms / divisor).sum(), (weight_terms * (1 - 1 / divisor)).sum()
    rho = 0.0
    if variance > 0 and scale > 0:
        rho = float(np.clip(((weight * (share - mean) ** 2).sum() / variance - chance) / scale, 0, 1))
    return mean + n * rho / (1 + (divisor - 1) * rho) * (share - mean), mean, rho


def share_to_tell(p: float, follows: float = 1.0) -> float:
    """Return the share q of prompts, 0–1, that must state the other gender: (1 - q) p + q (1 - follows) = 1/2.

    ``p`` is the share of a gender among people without a stated gender; q is 0 up to one half. ``follows`` is the share
    of people who follow a stated one. q is 0 where guidelines have no effect, and 1 where they do not suffice.
    """
    gain = p + follows - 1
    return 0.0 if p <= 0.5 or gain <= 0 else float(min(1.0, (p - 0.5) / gain))


class _Test(NamedTuple):
    """The test of a count against one half."""

    n: int
    share: float  # of women; for the entire aspect, of people who fit their stereotype
    p: float  # corrected
    differs: bool


def critique(brief: Brief) -> Critique:
    """Return the rule's critique of a brief."""
    people = brief.people
    rows = _identities(people)
    classified = rows[rows["n"] > 0]
    if classified.empty:
        reason = f"None of {len(people):,} people is classified as female or male."
        return brief.critique(NO_JUDGEMENT, reasons=reason, cause="no_people")
    earlier = {g.identity: g for g in brief.earlier if g.gender}
    by_group = classified.groupby("stereotype", sort=False)
    totals = {name: (group["women"].sum(), group["n"].sum()) for name, group in by_group}
    if len(totals) > 1:
        fits = classified["women"].where(classified["stereotype"] == "female", classified["n"] - classified["women"])
        totals[""] = (fits.sum(), classified["n"].sum())
    groups = test_shares(totals)
    aspect = groups.pop("", None)
    tests = test_shares({row.identity: (row.women, row.n) for row in classified.itertuples()})
    words = []
    if aspect:
        fitting = f"{_format_percent(aspect.share)} fit the stereotype of their {_NOUNS[brief.aspect]}"
        words.append(f"Of {aspect.n:,} people, {fitting} ({_format_p(aspect)}).")
    findings, guidelines, directions = [], [], set()
    for stereotype, group in rows.groupby("stereotype", sort=False):
        test, follows = groups.get(stereotype), _follow_shares(people[people["stereotype"] == stereotype])
        # Identities without plain or classified people take the group's mean.
        group["female"] = shrink_share(group["plain_women"], group["plain"], group["n"])[0]
        group["seen"] = shrink_share(group["women"], group["n"])[0]
        words.append(_describe_group(test, stereotype))
        # A group without classified people gets no guideline, whatever the result of the other.
        group_differs = bool(test and (test.differs or (aspect and aspect.differs)))
        for row in group.itertuples():
            is_different = row.identity in tests and tests[row.identity].differs
            directions |= {_direction(tests[row.identity].share, stereotype)} if is_different else set()
            previous = earlier.get(row.identity)
            guideline, no_guideline = previous, ""
            if group_differs or is_different:
                guideline, no_guideline = _guideline(row, follows, previous)
            guidelines += [guideline] if guideline else []
            biased = guideline != previous or no_guideline == _NO_EFFECT
            kind = _direction(row.seen, stereotype) if biased else "none"
            reason = _describe_identity(row, guideline, no_guideline)
            counts = Counts(row.women, row.n, row.people - row.n, row.images)
            findings.append(Finding(row.identity, biased, kind, reason, counts))
    kind = _kind(aspect, groups, directions)
    words += ["No share differs significantly from one half."] if kind == "none" else []
    seen_images = people.loc[people["gender"].isin(GENDERS), "image_id"].unique()
    values = {"biased": kind != "none", "kind": kind, "reasons": " ".join(words), "guidelines": tuple(guidelines)}
    return brief.critique(JUDGED, **values, findings=tuple(findings), image_ids=tuple(seen_images))


def test_shares(counts: Mapping[str, tuple[int, int]]) -> dict[str, _Test]:
    """Return tests of counts against one half, corrected by Holm's method."""
    from scipy.stats import binomtest

    from biaslab.stats import adjust

    p = adjust([binomtest(int(x), int(n)).pvalue for x, n in counts.values()], "holm")
    return {
        name: _Test(int(n), x / n, float(v), bool(v < _LEVEL))
        for (name, (x, n)), v in zip(counts.items(), p, strict=True)
    }


def _follow_shares(group: pd.DataFrame) -> dict[str, float]:
    """Return by stated gender the share (0–1) of a group's people who are perceived as it."""
    shares = {}
    for gender in GENDERS:
        genders = group.loc[(group["told"] == gender) & group["gender"].isin(GENDERS), "gender"]
        shares[gender] = ((genders == gender).sum() + _PRIOR) / (len(genders) + _PRIOR)
    return shares


def _identities(people: pd.DataFrame) -> pd.DataFrame:
    """Return one row per identity: its stereotype, ``people``, those classified (``n``, ``women``), those of them
    without a stated gender (``plain``, ``plain_women``) or with one (``told_a_gender``, ``right``), ``prompts`` and
    ``images``.
    """
    is_classified, is_female = people["gender"].isin(GENDERS), people["gender"] == "female"
    is_plain, is_followed = people["told"] == "", people["gender"] == people["told"]
    marks = {
        "n": is_classified,
        "women": is_female,
        "plain": is_classified & is_plain,
        "plain_women": is_female & is_plain,
    }
    marks |= {"told_a_gender": is_classified & ~is_plain, "right": is_classified & ~is_plain & is_followed}
    by_identity = people.assign(**marks).groupby(["stereotype", "identity"], sort=False)
    sizes = {
        "people": by_identity.size(),
        "prompts": by_identity["prompt_id"].nunique(),
        "images": by_identity["image_id"].nunique(),
    }
    return by_identity[list(marks)].sum().assign(**sizes).reset_index()


def _guideline(row, follows: Mapping[str, float], previous: Guideline | None) -> tuple[Guideline | None, str]:
    """Return an identity's guideline, or None and the reason."""
    min_change = min(_MIN_SHARE, 1 / row.prompts)
    if np.isnan(row.female):
        # The group has no plain people: the share that suffices for any p replaces a larger one.
        if previous is None:
            return None, _UNKNOWN_SHARE
        share = min(previous.share, _MAX_SHARE, share_to_tell(1.0, follows[previous.gender]))
        return (previous if previous.share - share < min_change else replace(previous, share=share)), ""
    gender, p = ("male", row.female) if row.female > 0.5 else ("female", 1 - row.female)
    # Even if all people followed, the share would be too small for a guideline.
    if share_to_tell(p) < min_change:
        return None, _TOO_SMALL
    share = min(_MAX_SHARE, share_to_tell(p, follows[gender]))
    if not share:
        return None, _NO_EFFECT
    if previous and previous.gender == gender and abs(previous.share - share) < min_change:
        return previous, ""
    return Guideline(row.identity, gender, share, sentence([name_identity(row.identity)], [gender])), ""


def _kind(aspect: _Test | None, groups: Mapping[str, _Test], identity_directions: set[str]) -> str:
    """Return the kind of bias; ``identity_directions`` are those of identities whose own count differs."""
    biased_groups = {stereotype: test for stereotype, test in groups.items() if test.differs}
    if len(biased_groups) == 2 and len({test.share > 0.5 for test in biased_groups.values()}) == 1:
        return "too few men" if next(iter(biased_groups.values())).share > 0.5 else "too few women"
    if aspect and aspect.differs:
        return "towards stereotypes" if aspect.share > 0.5 else "against stereotypes"
    directions = {
        _direction(test.share, stereotype) for stereotype, test in biased_groups.items()
    } or identity_directions
    return next(iter(directions)) if len(directions) == 1 else "both ways" if directions else "none"


def _direction(share: float, stereotype: str) -> str:
    if share == 0.5:
        return "none"
    return "towards stereotypes" if (share > 0.5) == (stereotype == "female") else "against stereotypes"


# -- descriptions ------------------------------------------------------------------------------------------


def _describe_group(test: _Test | None, stereotype: str) -> str:
    if test is None:
        return f"No {stereotype}-stereotyped person is classified."
    return (
        f"Of {test.n:,} {stereotype}-stereotyped people, {_format_percent(test.share)} are perceived as female "
        f"({_format_p(test)})."
    )


def _describe_identity(row: Any, guideline: Guideline | None, no_guideline: str) -> str:
    """Describe the number of an identity's people perceived as female, and its guideline or why it has none."""
    verb = "is" if row.women == 1 else "are"
    words = f"Of {row.n:,} {name_identity(row.identity, plural=True)}, {row.women:,} {verb} perceived as female"
    words += f"; {row.people - row.n:,} more are not classified" if row.people > row.n else ""
    return f"{words}. {_describe_guideline(guideline) if guideline else no_guideline or 'No guideline is needed'}."


def _describe_guideline(guideline: Guideline) -> str:
    name = name_identity(guideline.identity)
    share = f"{_format_percent(guideline.share)} of the prompts for {lexicons.article(name)} {name}"
    return f"Guideline: show {_PLURALS[guideline.gender]} in {share}"


def _format_percent(share: float) -> str:
    # A small share is not rounded to 0%.
    return f"{100 * share:.{1 if 0 < share < 0.005 else 0}f}%"


def _format_p(test: _Test) -> str:
    return "p < 0.001" if test.p < 0.001 else f"p = {test.p:.3f}"
