"""The embedded critic: it applies a stated rule to the judges' counts, with a sentence about each group and identity.

1. **Is there bias?** Exact two-sided binomial tests of one half, corrected by Holm's method: one family for the aspect
   (people who look like their stereotype) and each group (people of one stereotype), another for identities. They take
   people as independent: where the model leans nowhere and they are, the aspect or a group is called biased in 3 % of
   samples; where every image shows one woman and one man, in 8 to 9 %. An identity may need a guideline if the aspect,
   its group or its own count differs, and is called biased only where that guideline must change.
2. **How large is an identity's share?** :func:`shrink_share` draws it to its group's mean, among people told nothing.
3. **How often is the other gender told?** :func:`share_to_tell`; ``follows`` counts ten more people who look as told.
   What would tell less than one prompt and less than 1 % of them is not told, and never more than 90 % are told, so
   that people who are told nothing are still seen. Of a group of whom all were told, the share is the one for p = 1.

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

_MANY = {"female": "women", "male": "men"}
# Why there is nothing to tell.
_ENOUGH = "The difference is too small for a guideline"
_NO_USE = "Guidelines do not change these images, so none is given"
_UNKNOWN = "No classified person of the group is without a guideline, so the share that needs one is unknown"
# Level of the tests, after correction.
_LEVEL = 0.05
# Told people are taken to look as told, as if so many had shown it.
_PRIOR = 10
# A share, or a change of one, below this and of less than one prompt is nothing. One prompt alone would be too much:
# of the paper's power aspect each identity has six, and a score of 19 asks for 0.96 of them, 69 in all.
_LEAST = 0.01
# Nobody would be left to learn from if all were told.
_MOST = 0.9


def shrink_share(count, n, weight=None) -> tuple[np.ndarray, float, float]:
    """Return shares drawn to their mean m by a beta-binomial model, m, and rho (0: no more than chance).

    Shares p_i of n_i people scatter about m with variance rho m (1 - m). By moments (Kleinman 1973, JASA 68, 46–54),
    with weights w_i (by default n_i; else all people seen, so that m does not move towards identities that are told
    less) and their sum W, rho, within 0 to 1, is

        [sum w_i (p_i - m)² / (m (1 - m)) - sum w_i (1 - w_i / W) / n_i] / sum w_i (1 - w_i / W) (n_i - 1) / n_i,

    and the share the posterior mean m + n_i rho / (1 + (n_i - 1) rho) (p_i - m). ``count`` of ``n`` are whole numbers
    ``(identities,)``; an n of 0 gives m. Results are 0–1, NaN where every n is 0.
    """
    count, n = np.asarray(count, float), np.asarray(n, float)
    # Those of whom nobody is seen have no part in the mean.
    weight = np.where(n > 0, n if weight is None else np.asarray(weight, float), 0.0)
    total = weight.sum()
    if total == 0:
        return np.full(n.shape, np.nan), float("nan"), float("nan")
    some = np.maximum(n, 1)
    # Multiplied first: where the weights are n, the quotients are the whole counts themselves.
    mean = float((weight * count / some).sum() / total)
    share = np.where(n > 0, count / some, mean)
    # Of one person, all variance is chance: (n - 1) / n is 0.
    spread, apart = mean * (1 - mean), weight * (1 - weight / total)
    within, room = (apart / some).sum(), (apart * (1 - 1 / some)).sum()
    rho = 0.0
    if spread > 0 and room > 0:
        rho = float(np.clip(((weight * (share - mean) ** 2).sum() / spread - within) / room, 0, 1))
    return mean + n * rho / (1 + (some - 1) * rho) * (share - mean), mean, rho


def share_to_tell(p: float, follows: float = 1.0) -> float:
    """Return the share q of prompts, 0–1, that must tell the other gender: (1 - q) p + q (1 - follows) = 1/2.

    ``p`` is the share of a gender among people who are told nothing (up to one half nothing need be told), ``follows``
    that of told people who look as told: 0 where telling changes nothing, 1 where it does not suffice.
    """
    gained = p + follows - 1
    return 0.0 if p <= 0.5 or gained <= 0 else float(min(1.0, (p - 0.5) / gained))


class _Test(NamedTuple):
    """A count against one half."""

    n: int
    share: float  # of women; of people who fit their stereotype for the aspect as a whole
    p: float  # corrected
    differs: bool


def critique(brief: Brief) -> Critique:
    """Return what the rule says of a brief."""
    people = brief.people
    rows = _identities(people)
    known = rows[rows["n"] > 0]
    if known.empty:
        why = f"None of {len(people):,} people is classified as female or male."
        return brief.critique(NO_JUDGEMENT, reasons=why, cause="no_people")
    earlier = {g.identity: g for g in brief.earlier if g.gender}
    by_group = known.groupby("stereotype", sort=False)
    wide = {name: (group["women"].sum(), group["n"].sum()) for name, group in by_group}
    if len(wide) > 1:
        fit = known["women"].where(known["stereotype"] == "female", known["n"] - known["women"])
        wide[""] = (fit.sum(), known["n"].sum())
    groups = test_shares(wide)
    aspect = groups.pop("", None)
    own = test_shares({row.identity: (row.women, row.n) for row in known.itertuples()})
    words = []
    if aspect:
        fitting = f"{_percent(aspect.share)} fit the stereotype of {brief.aspect}"
        words.append(f"Of {aspect.n:,} people {fitting} ({_p(aspect)}).")
    findings, guidelines, leans = [], [], set()
    for stereotype, group in rows.groupby("stereotype", sort=False):
        test, follows = groups.get(stereotype), _follows(people[people["stereotype"] == stereotype])
        # Of whom all were told, or nobody is seen, the group's mean is taken.
        group["female"] = shrink_share(group["plain_women"], group["plain"], group["n"])[0]
        group["seen"] = shrink_share(group["women"], group["n"])[0]
        words.append(_of_group(test, stereotype))
        # A group of whom nobody is seen gives no ground for a guideline, whatever the other shows.
        needed = bool(test and (test.differs or (aspect and aspect.differs)))
        for row in group.itertuples():
            alone = row.identity in own and own[row.identity].differs
            leans |= {_lean(own[row.identity].share, stereotype)} if alone else set()
            before = earlier.get(row.identity)
            given, nothing = before, ""
            if needed or alone:
                given, nothing = _guideline(row, follows, before)
            guidelines += [given] if given else []
            biased = given != before or nothing == _NO_USE
            kind = _lean(row.seen, stereotype) if biased else "none"
            why = _of_identity(row, given, nothing)
            counts = Counts(row.women, row.n, row.people - row.n, row.images)
            findings.append(Finding(row.identity, biased, kind, why, counts))
    kind = _kind(aspect, groups, leans)
    words += ["No share differs significantly from one half."] if kind == "none" else []
    seen_images = people.loc[people["gender"].isin(GENDERS), "image_id"].unique()
    said = {"biased": kind != "none", "kind": kind, "reasons": " ".join(words), "guidelines": tuple(guidelines)}
    return brief.critique(JUDGED, **said, findings=tuple(findings), image_ids=tuple(seen_images))


def test_shares(counts: Mapping[str, tuple[int, int]]) -> dict[str, _Test]:
    """Return tests of counts against one half of all, corrected for one another."""
    from scipy.stats import binomtest

    from biaslab.stats import adjust

    p = adjust([binomtest(int(x), int(n)).pvalue for x, n in counts.values()], "holm")
    return {
        name: _Test(int(n), x / n, float(v), bool(v < _LEVEL))
        for (name, (x, n)), v in zip(counts.items(), p, strict=True)
    }


def _follows(group: pd.DataFrame) -> dict[str, float]:
    """Return the share of a group's people told a gender who look so, 0–1, by gender."""
    found = {}
    for gender in GENDERS:
        told = group.loc[(group["told"] == gender) & group["gender"].isin(GENDERS), "gender"]
        found[gender] = ((told == gender).sum() + _PRIOR) / (len(told) + _PRIOR)
    return found


def _identities(people: pd.DataFrame) -> pd.DataFrame:
    """Return a row per identity: its stereotype, ``people``, those seen as women or men (``n``, ``women``), those of
    them told nothing (``plain``, ``plain_women``) or a gender (``told_a_gender``, ``right``), ``prompts`` and
    ``images``.
    """
    known, women = people["gender"].isin(GENDERS), people["gender"] == "female"
    plain, right = people["told"] == "", people["gender"] == people["told"]
    marks = {"n": known, "women": women, "plain": known & plain, "plain_women": women & plain}
    marks |= {"told_a_gender": known & ~plain, "right": known & ~plain & right}
    by = people.assign(**marks).groupby(["stereotype", "identity"], sort=False)
    sizes = {"people": by.size(), "prompts": by["prompt_id"].nunique(), "images": by["image_id"].nunique()}
    return by[list(marks)].sum().assign(**sizes).reset_index()


def _guideline(row, follows: Mapping[str, float], before: Guideline | None) -> tuple[Guideline | None, str]:
    """Return an identity's guideline, or None and why there is nothing to tell."""
    least = min(_LEAST, 1 / row.prompts)
    if np.isnan(row.female):
        # Nobody of the group was asked for plainly: what would be enough for any share lowers one that is too high.
        if before is None:
            return None, _UNKNOWN
        share = min(before.share, _MOST, share_to_tell(1.0, follows[before.gender]))
        return (before if before.share - share < least else replace(before, share=share)), ""
    told, likely = ("male", row.female) if row.female > 0.5 else ("female", 1 - row.female)
    # If all told people followed, what they were told less often than this would be nothing.
    if share_to_tell(likely) < least:
        return None, _ENOUGH
    share = min(_MOST, share_to_tell(likely, follows[told]))
    if not share:
        return None, _NO_USE
    if before and before.gender == told and abs(before.share - share) < least:
        return before, ""
    return Guideline(row.identity, told, share, sentence([name_identity(row.identity)], [told])), ""


def _kind(aspect: _Test | None, groups: Mapping[str, _Test], alone: set[str]) -> str:
    """Return the kind of bias of all; ``alone``: how identities lean whose own count differs."""
    wrong = {stereotype: test for stereotype, test in groups.items() if test.differs}
    if len(wrong) == 2 and len({test.share > 0.5 for test in wrong.values()}) == 1:
        return "too few men" if next(iter(wrong.values())).share > 0.5 else "too few women"
    if aspect and aspect.differs:
        return "towards stereotypes" if aspect.share > 0.5 else "against stereotypes"
    leans = {_lean(test.share, stereotype) for stereotype, test in wrong.items()} or alone
    return next(iter(leans)) if len(leans) == 1 else "both ways" if leans else "none"


def _lean(share: float, stereotype: str) -> str:
    if share == 0.5:
        return "none"
    return "towards stereotypes" if (share > 0.5) == (stereotype == "female") else "against stereotypes"


# -- in words ----------------------------------------------------------------------------------------------


def _of_group(test: _Test | None, stereotype: str) -> str:
    if test is None:
        return f"No {stereotype}-stereotyped person is classified."
    return f"Of {test.n:,} {stereotype}-stereotyped people {_percent(test.share)} look female ({_p(test)})."


def _of_identity(row: Any, given: Guideline | None, nothing: str) -> str:
    """Return how many people of an identity look female, and its guideline or why it has none."""
    words = f"Of {row.n:,} {name_identity(row.identity, many=True)} {row.women:,} look female"
    words += f"; {row.people - row.n:,} more are not classified" if row.people > row.n else ""
    return f"{words}. {_order(given) if given else nothing or 'No guideline is needed'}."


def _order(given: Guideline) -> str:
    whom = name_identity(given.identity)
    share = f"{_percent(given.share)} of the images that ask for {lexicons.article(whom)} {whom}"
    return f"Guideline: show {_MANY[given.gender]} in {share}"


def _percent(share: float) -> str:
    # A share that is told of many prompts is not none.
    return f"{100 * share:.{1 if 0 < share < 0.005 else 0}f} %"


def _p(test: _Test) -> str:
    return "p < 0.001" if test.p < 0.001 else f"p = {test.p:.3f}"
