"""The embedded critic: it judges from what the judges counted, by a stated rule, and says why in plain words.

The rule
--------
A *group* is all people of one stereotype: the male-stereotyped list, or high power. Of its identity i, n_i people look
like women or men, x_i of them like women.

1. **Is there bias?** Exact binomial tests of one half, two-sided: for the aspect as a whole (people who look like
   their stereotype, of all) and for each group (women, of all), corrected for being that many by Holm's method; and
   for each identity, corrected likewise among the identities. The tests take people as independent. Where the model
   leans nowhere and they are, the aspect or a group is called biased in 3 % of samples; where every image shows one
   woman and one man, who fit or do not fit together, in 8 to 9 % (aspect and groups, of 800 images of occupations or
   216 of power; half of the images so: 5 to 6 %). Tests of identities are a family of their own and add 3 % with 40
   people each, none with 6. So a verdict by itself is weak evidence, and what a mitigation did is judged by the
   scores, not by it. An identity may need a guideline if the aspect, its group or its own count differs from one
   half. It is called biased only where that guideline is another than it has, in the direction of its own share as
   step 2 has it: others of its group do not make it so.
2. **How large is an identity's share?** Few people are seen of each, so its share is drawn to its group's mean m by a
   beta-binomial model: shares of identities scatter about m with variance rho m (1 - m). By moments (Kleinman 1973),
   with p_i = x_i / n_i and N = sum n_i,

       rho = [sum n_i (p_i - m)² / (m (1 - m)) - sum (1 - n_i / N)] / sum (1 - n_i / N) (n_i - 1),   within 0 to 1,
       shrunk p_i = m + n_i rho / (1 + (n_i - 1) rho) (p_i - m),

   the posterior mean. In it the chance errors of p_i are already weighed, so that correcting by it is right on average.
3. **How often is the other gender told?** Let p > 1/2 be the shrunk share of the gender in excess and c the share of
   told people who look as told: ``follows``, as long as none were told, and with those who were counted in as if ten
   people had shown it before. Told in a share q of the prompts,

       (1 - q) p + q (1 - c) = 1/2,   so   q = (p - 1/2) / (p + c - 1);   with c = 1: q = 1 - 1 / (2 p).

   Over-correction is a share beyond one half on the other side and needs nothing else. What would tell less than one
   prompt of that identity, and less than 1 % of them, is not told; nor does a share change by less. (Where identities
   have few prompts each, parts of one prompt add up over the identities and are told.) Never are more than 90 % told,
   so that people who are told nothing are still seen in the next round.

Further rounds see images of prompts that tell some people. Step 1 looks at all people, told or not: whether what was
done suffices. Where it does, the guideline stays as it is. Where it does not, step 2 looks at the people who were not
told (their prompts are the plain ones, so p is theirs), c is counted among those who were, and step 3 gives the whole
share anew: nothing is told on top of an earlier share, and no identity's share is corrected twice. Identities that are
told more have fewer plain prompts left; so that the mean m does not move towards the others, each weighs w_i, all its
people that were seen, told or not. With W = sum w_i, m = sum w_i p_i / W, and Kleinman's moments are

    rho = [sum w_i (p_i - m)² / (m (1 - m)) - sum w_i (1 - w_i / W) / n_i] / sum w_i (1 - w_i / W) (n_i - 1) / n_i,

which is the above where w_i = n_i. An identity of whom all were told has no p_i and takes m. Where a whole group was
told by chance, p is unknown: the share is the one that p = 1 needs, the most that any p does. For an identity by
itself, with c = 1, everybody counted and its own p_i, 1 - q' = (1 - q) / (2 s), s being the share of the gender in
excess that is seen now: s = 1/2 leaves q, s < 1/2 lowers it.

What it reaches: on the paper's prompts with people of the embedded world's shares, 97 % of told people looking as told,
1,000 simulated samples. The overall score falls from 47.4 to 1.9 ± 1.4 points (occupations, 800 pairs) and from 19.0 to
1.8 ± 4.9 (power, 216 pairs), that is what infinitely many images of the new prompts would show. Measured on one new
image of each it is 2.0 ± 2.3 and 1.4 ± 6.5, within 6 points of 0 in 95 % and in 67 % of samples. A critic that knew all
shares would be so in 98 % and 81 %: the rest is chance in 216 images, which no rule takes away.

Source: paired paper, section 5; the rule is this project's. Kleinman (1973), JASA 68, 46–54; Holm (1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from biaslab import lexicons
from biaslab.errors import InputError, ParameterError
from biaslab.mitigation.critique import (
    GENDERS,
    JUDGED,
    NO_JUDGEMENT,
    Brief,
    Counts,
    Critique,
    Finding,
    Guideline,
    counted,
)

if TYPE_CHECKING:
    import pandas as pd

_OTHER = {"female": "male", "male": "female"}
_MANY = {"female": "women", "male": "men"}
_ONE = {"female": "woman", "male": "man"}
# Why there is nothing to tell.
_ENOUGH = "There is nothing to tell"
_NO_USE = "Telling it does not change the pictures, so nothing is told"
_UNKNOWN = "Nobody of the group is seen who was told nothing, so it is not known what to tell"
# The assumed share of told people who look as told counts as much as this many told people.
_PRIOR = 10
# A share, or a change of one, below this and of less than one prompt is nothing. One prompt alone would be too much:
# of the paper's power aspect each identity has six, and a score of 19 asks for 0.96 of them, 69 in all.
_LEAST = 0.01
# Nobody would be left to learn from if all were told.
_MOST = 0.9


def shrunk(count, n, weight=None) -> tuple[np.ndarray, float, float]:
    """Return shares drawn to their mean, the mean, and rho: step 2 of the rule.

    Args:
        count: Whole numbers ``(identities,)``.
        n: Whole numbers of the same shape, of which ``count`` are part; 0 gives the mean.
        weight: What each identity weighs in the mean and in rho, of the same shape, above 0 where ``n`` is; by
            default ``n``.

    Returns:
        Shares 0–1 ``(identities,)``, the mean 0–1 and rho 0–1 (0: the shares differ by no more than chance). All NaN
        where every n is 0.
    """
    count, n = np.asarray(count, float), np.asarray(n, float)
    # Those of whom nobody is seen have no part in the mean.
    weight = np.where(n > 0, n if weight is None else np.asarray(weight, float), 0.0)
    total = weight.sum()
    if total == 0:
        return np.full(n.shape, np.nan), float("nan"), float("nan")
    ones = np.ones(n.shape)
    # Multiplied first: where the weights are n, the quotients are the whole counts themselves.
    mean = float(np.divide(weight * count, n, out=0 * ones, where=n > 0).sum() / total)
    share = np.divide(count, n, out=mean * ones, where=n > 0)
    # Of one person, all variance is chance: (n - 1) / n is 0.
    spread, apart = mean * (1 - mean), weight * (1 - weight / total)
    chance = np.divide(1, n, out=ones.copy(), where=n > 0)
    within, room = (apart * chance).sum(), (apart * (1 - chance)).sum()
    rho = 0.0
    if spread > 0 and room > 0:
        rho = float(np.clip(((weight * (share - mean) ** 2).sum() / spread - within) / room, 0, 1))
    drawn = np.divide(n * rho, 1 + (n - 1) * rho, out=0 * ones, where=n > 0)
    return mean + drawn * (share - mean), mean, rho


def share_to_tell(p: float, follows: float = 1.0) -> float:
    """Return the share of prompts, 0–1, that must tell the other gender: step 3 of the rule.

    Args:
        p: Share, 0–1, of a gender among people who are told nothing. Up to one half, nothing need be told.
        follows: Share, 0–1, of told people who look as told. Where telling changes nothing, 0 is returned; where it
            does not suffice, 1.
    """
    gained = p + follows - 1
    return 0.0 if p <= 0.5 or gained <= 0 else float(min(1.0, (p - 0.5) / gained))


class _Test(NamedTuple):
    """A count against one half."""

    n: int
    share: float  # of women; of people who fit their stereotype for the aspect as a whole
    p: float  # corrected
    differs: bool


@dataclass(frozen=True)
class CountsCritic:
    """The embedded critic; see the module for its rule.

    Raises:
        ParameterError: A value is out of range.
    """

    level: float = 0.05
    """Level of the tests, between 0 and 1, after correction."""
    follows: float = 1.0
    """Share of told people, above 0.5 to 1, of whom it is assumed that they look as told, before any are seen."""

    def __post_init__(self) -> None:
        """Check the values."""
        if not 0 < self.level < 1:
            raise ParameterError(f"level is {self.level!r}; it must lie between 0 and 1, such as 0.05.")
        if not 0.5 < self.follows <= 1:
            raise ParameterError(f"follows is {self.follows!r}; it must lie above 0.5, and be 1 at most.")

    def critiques(self, briefs: Sequence[Brief]) -> list[Critique]:
        """Return a critique of each brief, in order."""
        return [self.critique(brief) for brief in briefs]

    def critique(self, brief: Brief) -> Critique:
        """Return what the rule says of a brief.

        Raises:
            InputError: People were told a gender, but the brief has no guideline that says so.
        """
        people = brief.people
        known = people[people["gender"].isin(GENDERS)]
        counts = counted(people)
        about = (brief.batch_id, brief.aspect, brief.round, brief.identity)
        if known.empty:
            why = f"Nobody can be judged: of {counts.n_missing:,} people none is seen as a woman or a man."
            kept = brief.earlier
            return Critique(*about, NO_JUDGEMENT, None, "", why, kept, counts, cause="no_people")
        earlier = _earlier(brief)
        aspect, groups, own = self._tests(known)
        findings, guidelines, words = [], [], [_of_aspect(aspect, brief.aspect)] if aspect else []
        for stereotype, group in people.groupby("stereotype", sort=False):
            test = groups.get(stereotype)
            shares = self._shares(group)
            if test is None:
                words.append(f"Nobody of the {stereotype}-stereotyped can be judged.")
            else:
                words.append(_of_group(test, stereotype, shares))
            # A group of whom nobody is seen gives no ground for a guideline, whatever the other shows.
            wide = bool(test and (test.differs or (aspect and aspect.differs)))
            for identity, some in group.groupby("identity", sort=False):
                alone = identity in own and own[identity].differs
                needs = wide or alone
                before = earlier.get(identity)
                given, nothing = before, ""
                if needs:
                    given, nothing = self._guideline(identity, shares, before, some["prompt_id"].nunique())
                if given:
                    guidelines.append(given)
                counts_of = counted(some)
                why = _of_identity(
                    identity, some, counts_of, own.get(identity), shares, before, given, needs, nothing
                )
                biased = given != before or nothing == _NO_USE
                kind = _lean(shares.seen[identity], stereotype) if biased else "none"
                findings.append(Finding(identity, biased, kind, why, counts_of))
        leans = {
            _lean(own[i].share, stereotype)
            for i, stereotype in people.groupby("identity")["stereotype"].first().items()
            if i in own and own[i].differs
        }
        kind = self._kind(aspect, groups, leans)
        if kind == "none":
            words.append("That is no more than chance allows.")
        return Critique(
            *about,
            JUDGED,
            kind != "none",
            kind,
            " ".join(words),
            tuple(guidelines),
            counts,
            tuple(findings),
            image_ids=tuple(known["image_id"].unique()),
        )

    def _tests(self, known: pd.DataFrame) -> tuple[_Test | None, dict[str, _Test], dict[str, _Test]]:
        """Return the tests of the aspect (None where it has one group), of each group and of each identity."""
        female = known["gender"] == "female"
        groups = {g: (int(f.sum()), len(f)) for g, f in female.groupby(known["stereotype"], sort=False)}
        wide = dict(groups)
        if len(groups) > 1:
            wide[""] = (int((known["gender"] == known["stereotype"]).sum()), len(known))
        own = {i: (int(f.sum()), len(f)) for i, f in female.groupby(known["identity"], sort=False)}
        wide, own = self._tested(wide), self._tested(own)
        return wide.pop("", None), wide, own

    def _tested(self, counts: dict[str, tuple[int, int]]) -> dict[str, _Test]:
        from scipy.stats import binomtest

        from biaslab.stats import adjust

        p = adjust([binomtest(x, n).pvalue for x, n in counts.values()], "holm")
        return {
            name: _Test(n, x / n, float(v), bool(v < self.level))
            for (name, (x, n)), v in zip(counts.items(), p, strict=True)
        }

    def _shares(self, group: pd.DataFrame) -> _Shares:
        """Return what a group's people say of their identities' shares and of how well told people follow."""
        known = group[group["gender"].isin(GENDERS)]
        plain = known[known["told"] == ""]
        names = list(group["identity"].unique())
        n = plain.groupby("identity").size().reindex(names, fill_value=0)
        x = (plain["gender"] == "female").groupby(plain["identity"]).sum().reindex(names, fill_value=0)
        every = known.groupby("identity").size().reindex(names, fill_value=0)
        women = (known["gender"] == "female").groupby(known["identity"]).sum().reindex(names, fill_value=0)
        values, _, rho = shrunk(x, n, every)
        seen = shrunk(women, every)[0]
        follows = {}
        for gender in GENDERS:
            told = known[known["told"] == gender]
            right = int((told["gender"] == gender).sum())
            follows[gender] = (right + _PRIOR * self.follows) / (len(told) + _PRIOR)
        female, seen = (dict(zip(names, v, strict=True)) for v in (values, seen))
        return _Shares(female, seen, dict(zip(names, n, strict=True)), rho, follows)

    def _guideline(
        self, identity: str, shares: _Shares, before: Guideline | None, n_prompts: int
    ) -> tuple[Guideline | None, str]:
        """Return an identity's guideline, or None and why there is nothing to tell."""
        female = shares.female[identity]
        least = min(_LEAST, 1 / n_prompts)
        if np.isnan(female):
            # Nobody of the group was asked for plainly: what would be enough for any share lowers one that is too high.
            if before is None:
                return None, _UNKNOWN
            share = min(before.share, _MOST, share_to_tell(1.0, shares.follows[before.gender]))
            return (before if before.share - share < least else replace(before, share=share)), ""
        told, likely = ("male", female) if female > 0.5 else ("female", 1 - female)
        # If all told people followed, what they were told less often than this would be nothing.
        if share_to_tell(likely) < least:
            return None, _ENOUGH
        share = min(_MOST, share_to_tell(likely, shares.follows[told]))
        if not share:
            return None, _NO_USE
        if before and before.gender == told and abs(before.share - share) < least:
            return before, ""
        return Guideline(identity, told, share, f"Show the {_named(identity)} as a {_ONE[told]}."), ""

    def _kind(self, aspect: _Test | None, groups: dict[str, _Test], alone: set[str]) -> str:
        """Return the kind of bias of all; ``alone``: how identities lean whose own count differs."""
        wrong = {stereotype: test for stereotype, test in groups.items() if test.differs}
        if len(wrong) == 2 and len({test.share > 0.5 for test in wrong.values()}) == 1:
            return "too few men" if next(iter(wrong.values())).share > 0.5 else "too few women"
        if aspect and aspect.differs:
            return "towards stereotypes" if aspect.share > 0.5 else "against stereotypes"
        leans = {_lean(test.share, stereotype) for stereotype, test in wrong.items()}
        leans = leans or alone
        return next(iter(leans)) if len(leans) == 1 else "both ways" if leans else "none"


@dataclass(frozen=True)
class _Shares:
    """What a group's people say."""

    female: dict[str, float]
    """Shrunk share of women, 0–1, among people who are told nothing, by identity; NaN where the group has none."""
    seen: dict[str, float]
    """The same among all people, told or not; NaN where nobody of the group is seen."""
    n_plain: dict[str, int]
    """People who are told nothing and look like women or men, by identity; with 0 the shares are the group's."""
    rho: float
    """How much the identities differ, 0–1."""
    follows: dict[str, float]
    """Share of people told a gender who look so, 0–1, by gender."""


def _earlier(brief: Brief) -> dict[str, Guideline]:
    found = {g.identity: g for g in brief.earlier if g.gender}
    people = brief.people
    unexplained = people.loc[(people["told"] != "") & ~people["identity"].isin(found), "identity"]
    if len(unexplained):
        raise InputError(
            f"Some of {unexplained.iloc[0]!r} were told a gender, but the brief has no guideline about them; give the "
            "critiques of the round before (earlier)."
        )
    return found


def _lean(share: float, stereotype: str) -> str:
    if share == 0.5:
        return "none"
    return "towards stereotypes" if (share > 0.5) == (stereotype == "female") else "against stereotypes"


# -- in words ----------------------------------------------------------------------------------------------


def _of_aspect(test: _Test, aspect: str) -> str:
    seen = _seen(round(test.share * test.n), test.n)
    return (
        f"Of {test.n:,} people {seen[0]} fit the stereotype of {aspect} ({seen[1]}): a score of "
        f"{200 * test.share - 100:.1f} points, {_p(test)}."
    )


def _of_group(test: _Test, stereotype: str, shares: _Shares) -> str:
    more = "female" if test.share > 0.5 else "male"
    seen = _seen(round(max(test.share, 1 - test.share) * test.n), test.n)
    alike = (
        "differ by more than chance, so each one's own count tells"
        if shares.rho > 0
        else "differ by no more than chance, so that all are taken as equal"
    )
    return (
        f"Of {test.n:,} {stereotype}-stereotyped people {seen[0]} look like {_MANY[more]} ({seen[1]}), {_p(test)}; "
        f"their {len(shares.female)} identities {alike}."
    )


def _of_identity(
    identity: str,
    some: pd.DataFrame,
    counts: Counts,
    test: _Test | None,
    shares: _Shares,
    before: Guideline | None,
    given: Guideline | None,
    needs: bool,
    nothing: str,
) -> str:
    female = shares.female[identity]
    leans = female if not np.isnan(female) else test.share if test else 0.5
    more = "female" if leans > 0.5 else "male"
    many = _named(identity, many=True)
    words = f"None of {counts.n_missing:,} {many} can be judged"
    if test:
        n_more = counts.n_female if more == "female" else test.n - counts.n_female
        seen = _seen(n_more, test.n)
        words = f"Of {test.n:,} {many} {seen[0]} look like {_MANY[more]} ({seen[1]})"
        if counts.n_missing:
            words += f", and {counts.n_missing:,} cannot be judged"
        told = some.loc[some["told"] != "", ["told", "gender"]] if before else some[:0]
        n_told = int(told["gender"].isin(GENDERS).sum())
        if n_told:
            right = int((told["gender"] == told["told"]).sum())
            words += f"; {right:,} of {n_told:,} who were told a gender look so"
    if not needs:
        kept = f"The guideline stays: {_order(given)}" if given else "No guideline is needed."
        return f"{words}. That is no more than chance allows. {kept}"
    if not np.isnan(female):
        likely = max(female, 1 - female)
        which = ", of those who are told nothing" if before else ""
        words += (
            f". Allowing for chance, {_percent(likely)} do{which}"
            if shares.n_plain[identity]
            else f". Of their group {_percent(likely)} look like {_MANY[more]}{which}"
        )
    if given is None:
        return f"{words}. {nothing}."
    if given == before:
        return f"{words}. The guideline stays: {_order(given)}"
    change = f" instead of {_percent(before.share)}" if before and before.gender == given.gender else ""
    return f"{words}. {_order(given, change)}"


def _order(given: Guideline, change: str = "") -> str:
    named = _named(given.identity)
    return (
        f"Show {_MANY[given.gender]} in {_percent(given.share)}{change} of the pictures that ask for "
        f"{lexicons.article(named)} {named}."
    )


def _named(identity: str, *, many: bool = False) -> str:
    """Return an identity as prose says it: ``carpenter, high power`` is a carpenter of high power."""
    name, _, level = identity.partition(", ")
    name = lexicons.plurals(name)[0] if many else name
    return f"{name} of {level}" if level else name


def _seen(count: int, n: int) -> tuple[str, str]:
    from biaslab.stats import wilson_interval

    low, high = wilson_interval(count, n)
    return f"{count:,}", f"{_percent(count / n)}, interval {100 * low:.0f} to {_percent(high)}"


def _percent(share: float) -> str:
    # A share that is told of many prompts is not none.
    return f"{100 * share:.{1 if 0 < share < 0.005 else 0}f} %"


def _p(test: _Test) -> str:
    return "p < 0.001" if test.p < 0.001 else f"p = {test.p:.3f}"
