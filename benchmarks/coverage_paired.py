"""Simulate the coverage of intervals of the Paired Stereotype Test, and the false rejections of its tests.

Run: ``python benchmarks/coverage_paired.py [simulation ...] [--studies 2000]``. Each simulation draws entire studies
from a population with known truth. It prints for our method and simpler ones, in % of the same studies, how often each
interval covers the truth (at 95%) and a true hypothesis is rejected (at 5%), and the mean half-width. The tests in
``tests/stats/test_stats_coverage_paired.py`` are short versions.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from _simulations import run_simulations, sum_results
from scipy.stats import binom

from biaslab import stats
from biaslab.papers.paired.analysis import dependence, means, scores
from biaslab.papers.paired.faircritic.counts import test_shares

STUDIES, LEVEL = 2000, 0.05
LISTS = dependence.LISTS


# -- people --------------------------------------------------------------------------------------------------------


def crossed(
    rng, kind: str, n: int, images: int, spread: float = 0.25, mean: float = 0.7
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether people match the stereotype, for the female and the male list, each (n, n, images) of 0 and 1.

    The ``kind`` is ``independent``: each person depends on the own identity; ``one woman and one man``: both people
    match or neither, depending on both identities; ``half and half``: each image is of either kind with equal
    probability. Probabilities of identities are within ``spread`` of the ``mean``, which is the truth of both lists.
    """
    shape = (n, n, images)
    a, b = rng.uniform(-spread, spread, (n, 1, 1)), rng.uniform(-spread, spread, (1, n, 1))
    independent = [rng.random(shape) < mean + part for part in (a, b)]
    if kind == "independent":
        return tuple(x.astype(float) for x in independent)
    joint = rng.random(shape) < mean + (a + b) / 2
    if kind == "one woman and one man":
        return (joint.astype(float),) * 2
    is_joint = rng.random(shape) < 0.5
    return tuple(np.where(is_joint, joint, x).astype(float) for x in independent)


def parts(
    fits: tuple[np.ndarray, np.ndarray],
    values: tuple[np.ndarray, np.ndarray] | None = None,
    slopes: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and cells of :func:`biaslab.stats.crossed_error` of the mean over both lists, in points.

    The result equals that of :func:`biaslab.papers.paired.analysis.dependence.parts`, which a test checks; for complete
    arrays this function is faster.

    Args:
        fits: Whether each person matches the stereotype, for each list, (n, n, images) of 0 and 1.
        values: One value per identity; by default its score.
        slopes: Derivative of each value with respect to the score; by default 1.
    """
    n, _, images = fits[0].shape
    scores_of_lists = score(fits)
    values = values or scores_of_lists
    slopes = slopes or (np.ones(n), np.ones(n))
    female, male = (200 * x - 100 for x in fits)
    n_people = 2 * n * n * images
    female_part = slopes[0][:, None, None] * (female - scores_of_lists[0][:, None, None]) / n_people
    male_part = slopes[1][None, :, None] * (male - scores_of_lists[1][None, :, None]) / n_people
    identity_parts = [(v - v.mean()) / (2 * n) for v in values]
    rows, columns = identity_parts[0] + male_part.sum(axis=(1, 2)), identity_parts[1] + female_part.sum(axis=(0, 2))
    return rows, columns, (female_part + male_part).sum(axis=2)


def score(fits: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of the identities of each list."""
    return 200 * fits[0].mean(axis=(1, 2)) - 100, 200 * fits[1].mean(axis=(0, 2)) - 100


def _welch(effects: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """Return standard error and degrees of freedom of the mean of two independent lists (Welch).

    ``effects`` are the contributions of identities to the mean, times the length of their list.
    """
    variances = np.array([e.var(ddof=1) / len(e) for e in effects])
    degrees = np.array([len(e) - 1 for e in effects])
    return float(np.sqrt(variances.sum())), float(variances.sum() ** 2 / (variances**2 / degrees).sum())


def _outcome(low: float, high: float, p: float, truth: float) -> np.ndarray:
    return np.array([low <= truth <= high, p < LEVEL, (high - low) / 2])


def _by_t(value: float, error: tuple[float, float], truth: float) -> np.ndarray:
    row = means.t_mean(value, *error, 0.95)
    return _outcome(row.ci_low, row.ci_high, row.p, truth)


# -- overall scores, their changes, bias, and matching images --------------------------------------------------------


def overall(rng, studies, *, kind, n, images=2, spread=0.25, mean=0.7) -> Iterator[dict]:
    """Yield the results of each way for the overall score of two crossed lists."""
    truth = 200 * mean - 100
    for _ in range(studies):
        fits = crossed(rng, kind, n, images, spread, mean)
        list_scores = score(fits)
        value = np.mean(list_scores)
        ways = {
            "estimated": stats.crossed_error(*parts(fits)),
            "worst case": _welch(list_scores),
            "independent lists": _welch(tuple(e / 2 for e in list_scores)),
        }
        yield {way: _by_t(value, error, truth) for way, error in ways.items()}


def change(rng, studies, *, kind, n, images=2, single_images=3, spread=0.25) -> Iterator[dict]:
    """Yield the results for the change from one person to two; its truth is 0, as shares are equal in both settings."""
    joint = {"independent": 0.0, "half and half": 0.5, "one woman and one man": 1.0}[kind]
    for _ in range(studies):
        a, b = rng.uniform(-spread, spread, (2, n))
        p = 0.6 + (a[:, None, None] + b[None, :, None]) / 2
        shape = (n, n, images)
        is_joint, together = rng.random(shape) < joint, rng.random(shape) < p
        fits = tuple(np.where(is_joint, together, rng.random(shape) < p).astype(float) for _ in range(2))
        single_scores = tuple(200 * rng.binomial(single_images, 0.6 + x / 2) / single_images - 100 for x in (a, b))
        pair_scores = score(fits)
        changes = tuple(after - single for after, single in zip(pair_scores, single_scores, strict=True))
        ways = {
            "estimated": stats.crossed_error(*parts(fits, changes)),
            "worst case": _welch(tuple(x - y / 2 for x, y in zip(pair_scores, single_scores, strict=True))),
        }
        yield {way: _by_t(np.mean(changes), error, 0.0) for way, error in ways.items()}


def roles_judged(rng, studies, *, occupations=36, judged=0.7, together=0.5, gap=0.2) -> Iterator[dict]:
    """Yield the results for the overall score of power roles that are ``judged`` at random.

    A share ``together`` of images shows one woman and one man; the two roles of an occupation have the same bias. The
    probability of a judgement of high-power roles changes by ``gap``, so that occupations with both roles differ.
    """
    for _ in range(studies):
        effect = rng.uniform(-0.3, 0.3, occupations)
        joint = rng.random(occupations) < together
        fits_female = rng.random(occupations) < 0.6 + effect
        fits_male = np.where(joint, fits_female, rng.random(occupations) < 0.6 + effect)
        fits = {"female": fits_female, "male": fits_male}
        chances = {"female": judged, "male": judged + gap * effect}
        kept = {s: np.flatnonzero(rng.random(occupations) < chances[s]) for s in LISTS}
        lists = [pd.Series(200.0 * fits[s][kept[s]] - 100, kept[s]) for s in LISTS]
        row = means.mean_over_roles(*lists, 0.95)
        # In the male list, effects are weighted by the probability of a judgement, which has the mean ``judged``.
        truth = 20 + 0.5 * 200 * gap * 0.3**2 / 3 / judged
        complete_means = ((lists[0] + lists[1]) / 2).dropna().to_numpy()
        complete = means.mean(complete_means, 0.95)
        yield {
            way: _outcome(interval.ci_low, interval.ci_high, np.nan, truth)
            for way, interval in (("both lists", row), ("occupations with both roles", complete))
        }


def _count_people(people: pd.DataFrame) -> pd.DataFrame:
    """Return one row per identity of judged people (stereotype, occupation, identity, fits): its n and its score."""
    keys = ["stereotype", "occupation", "identity"]
    counts = people.groupby(keys)["fits"].agg(["mean", "size"]).reset_index()
    return counts.assign(score=200 * counts["mean"] - 100, n=counts["size"])


def _over_people(group: pd.DataFrame, truth: dict[str, float], images: pd.DataFrame | None = None) -> dict:
    """Return the results of the intervals of equation 1 for each list and overall."""
    options = {"images": dependence.deviations(images, group, "score"), "two_people": images is not None}
    rows = [row for row, _ in means.strata(group, "score", 0.95, -100, 100, over_people=True, **options)]
    return {
        row["stereotype"]: _outcome(row["ci_low"], row["ci_high"], row["p"], truth[row["stereotype"]]) for row in rows
    }


def missing_people(rng, studies, *, kind, n, images=2, alone=0, spread=0.25, mean=0.7, follows=1.0) -> Iterator[dict]:
    """Yield the results for the score by equation 1 with missing people, which vary over identities.

    An identity's people are judged with probability 0.6 plus or minus ``spread``. This probability ``follows`` their
    share of matches (1) or is independent of it (0). ``alone`` is the number of images of one person, 0 for crossed
    lists.
    """
    for _ in range(studies):
        effects = {s: rng.uniform(-spread, spread, n) for s in LISTS}
        judged = {s: 0.6 + follows * effects[s] + (1 - follows) * rng.uniform(-spread, spread, n) for s in LISTS}
        # The share of matches is E[judged * fit] / E[judged]; if both match or neither, half of the effect counts.
        share = mean + follows * spread**2 / 3 / 0.6 * (0.5 if not alone and kind == "one woman and one man" else 1)
        truth = dict.fromkeys((*LISTS, "overall"), 200 * share - 100)
        if alone:
            rows = [
                pd.DataFrame(
                    {"stereotype": s, "identity": f"{s} {i}", "fits": rng.random(alone) < mean + effects[s][i]}
                )
                for s in LISTS
                for i in range(n)
            ]
            people = pd.concat(rows, ignore_index=True)
            is_judged = rng.random(len(people)) < np.repeat(np.concatenate([judged[s] for s in LISTS]), alone)
            people = people[is_judged].assign(occupation=people["identity"])
            yield _over_people(_count_people(people), truth)
            continue
        i, j, _ = (part.ravel() for part in np.indices((n, n, images)))
        index_of = {"female": i, "male": j}
        chance = {s: mean + effects[s][index_of[s]] for s in LISTS}
        if kind == "one woman and one man":
            together = rng.random(i.size) < (chance["female"] + chance["male"]) / 2
            fits = dict.fromkeys(LISTS, together)
            # Intervals of one list treat the partners as fixed, so half of their mean effect is in its truth.
            for s, other_list in zip(LISTS, reversed(LISTS), strict=True):
                truth[s] += 200 * effects[other_list].mean() / 2
        else:
            fits = {s: rng.random(i.size) < chance[s] for s in LISTS}
        is_judged = {s: rng.random(i.size) < judged[s][index_of[s]] for s in LISTS}
        pairs = pd.DataFrame({s: np.where(is_judged[s], 200.0 * fits[s] - 100, np.nan) for s in LISTS})
        pairs = pairs.assign(**{f"{s}_identity": [f"{s} {k}" for k in index_of[s]] for s in LISTS})
        frames = [
            pd.DataFrame({"stereotype": s, "identity": pairs[f"{s}_identity"], "fits": fits[s]})[is_judged[s]]
            for s in LISTS
        ]
        people = pd.concat(frames, ignore_index=True)
        yield _over_people(_count_people(people.assign(occupation=people["identity"])), truth, pairs)


def missing_roles(rng, studies, *, occupations=36, judged=0.7, gap=1.0, runs=6) -> Iterator[dict]:
    """Yield the same for the two roles of an occupation, with people that are judged more often the more they match."""
    for _ in range(studies):
        effect = rng.uniform(-0.25, 0.25, occupations)
        # Low-power roles match in 40% of images on average, high-power roles in 80%.
        level = {"female": 0.4, "male": 0.8}
        frames = []
        for s in LISTS:
            index = np.repeat(np.arange(occupations), runs)
            fits = rng.random(index.size) < level[s] + effect[index] * (0.7 if s == "male" else 1)
            is_judged = rng.random(index.size) < judged + (gap * effect[index] if s == "female" else 0)
            row = {"stereotype": s, "occupation": index, "identity": [f"{k} {s}" for k in index], "fits": fits}
            frames.append(pd.DataFrame(row)[is_judged])
        share = {"female": 0.4 + gap * 0.25**2 / 3 / judged, "male": 0.8}
        share["overall"] = (share["female"] + share["male"]) / 2
        truth = {s: 200 * value - 100 for s, value in share.items()}
        yield _over_people(_count_people(pd.concat(frames, ignore_index=True)), truth)


def both_fit(rng, studies, *, kind, n, images=2, spread=0.25, mean=0.7) -> Iterator[dict]:
    """Yield the results for the share of images in which both people match the stereotype."""
    truth = mean**2 if kind == "independent" else mean
    truth = (mean**2 + mean) / 2 if kind == "half and half" else truth
    for _ in range(studies):
        fits = crossed(rng, kind, n, images, spread, mean)
        event = fits[0] * fits[1]
        parts_of_mean = (event - event.mean()) / event.size
        error = stats.crossed_error(*(parts_of_mean.sum(axis=axis) for axis in ((1, 2), (0, 2), 2)))
        ways = {
            "over identities": stats.clustered_share_interval(event.mean(), error, n),
            "Wilson over images": stats.wilson_interval(int(event.sum()), event.size),
        }
        yield {way: _outcome(*map(float, limits), np.nan, truth) for way, limits in ways.items()}


# -- power -----------------------------------------------------------------------------------------------------------


def power(rng, studies, *, joint, occupations=36, runs=3, spread=0.35, position=0.0) -> Iterator[dict]:
    """Yield the results for both roles of an occupation in shared images: both match, or both have the same gender.

    A ``joint`` share of images shows one woman and one man regardless of identities; else people are independent.
    Effects of occupations are within ``spread`` and opposite for the two roles. The person on the left is a woman more
    often by ``position``. Each order has ``runs`` images.
    """
    i, side, _ = (part.ravel() for part in np.indices((occupations, 2, runs)))
    # Identities are numbers: those of high-power roles follow those of low-power roles.
    identity = {"female": i, "male": occupations + i}
    occupation = {k: k % occupations for k in range(2 * occupations)}
    for _ in range(studies):
        effect = rng.uniform(-spread, spread, occupations)[i]
        probability = {"female": 0.6 + effect, "male": 0.4 - effect}
        shift = np.where(side == 0, position, -position)
        women = {
            s: rng.random(i.size) < np.clip(probability[s] + (shift if s == "female" else -shift), 0, 1) for s in LISTS
        }
        is_mixed = rng.random(i.size) < joint
        women["male"] = np.where(is_mixed, ~women["female"], women["male"])
        images = pd.DataFrame(
            {
                **{f"{s}_label": np.where(women[s], "female", "male") for s in LISTS},
                **{f"{s}_identity": identity[s] for s in LISTS},
                "female_position": np.where(side == 0, "left", "right"),
            }
        )
        row = scores._same_gender(images, occupation, 0.95)
        is_same_gender = women["female"] == women["male"]
        low, high = stats.wilson_interval(int(is_same_gender.sum()), is_same_gender.size)
        f, m = (women[s].mean() for s in LISTS)
        by_lists = f * m + (1 - f) * (1 - m)
        limits = row["same_gender_excess_ci_low"], row["same_gender_excess_ci_high"]
        truth = 0.0 if joint == 0 else np.nan
        results = {
            "given the shares of identities": _outcome(*limits, row["same_gender_excess_p"], truth),
            "given the shares of lists": np.array([np.nan, not low <= by_lists <= high, (high - low) / 2]),
        }
        both_fit_image = women["female"] & ~women["male"]
        if joint == 0 and position == 0:
            identity_indices = pd.DataFrame({"female": i, "male": i})
            share = scores.share_of_images(both_fit_image, identity_indices, 0.95)
            results["both fit"] = _outcome(share["ci_low"] / 100, share["ci_high"] / 100, np.nan, 0.36 + spread**2 / 3)
        yield results


# -- significant identities, and the critic --------------------------------------------------------------------------


def identities(rng, studies, *, n, tests=72) -> Iterator[dict]:
    """Yield whether any of many unbiased identities is significant, and whether significance was possible."""
    possible = stats.can_be_significant(stats.min_binomial_p(np.full(tests, n)))
    counts = rng.binomial(n, 0.5, (studies, tests))
    tails = np.minimum(counts, n - counts)
    p = np.minimum(1, 2 * binom.cdf(tails, n, 0.5))
    for row in p:
        is_any_significant = bool((stats.adjust(row) < LEVEL).any())
        if is_any_significant and not possible:
            raise AssertionError("An outcome was significant that was said to be impossible.")
        yield {f"Holm, {'possible' if possible else 'impossible'}": np.array([np.nan, is_any_significant, np.nan])}


def critic(rng, studies, *, joint, n=20, images=2, identities=True) -> Iterator[dict]:
    """Yield whether the tests of the critic ``counts`` find bias in the aspect, a list or an identity without bias.

    A ``joint`` share of images shows one woman and one man, who both match the stereotype or both do not. Testing
    ``identities`` as well takes most of the time.
    """
    shape = (n, n, images)
    for _ in range(studies):
        female = rng.random(shape) < 0.5
        male = np.where(rng.random(shape) < joint, ~female, rng.random(shape) < 0.5)
        women, people = (int(female.sum()), int(male.sum())), female.size
        # As in the critic, the aspect counts matching people, and lists and identities count women.
        wide = {"": (women[0] + people - women[1], 2 * people)}
        wide |= {s: (x, people) for s, x in zip(LISTS, women, strict=True)}
        counts = [*female.sum(axis=(1, 2)), *male.sum(axis=(0, 2))]
        identity_counts = {str(k): (int(x), n * images) for k, x in enumerate(counts)} if identities else {}
        is_biased = [any(test.differs for test in test_shares(g).values()) for g in (wide, identity_counts)]
        outcomes = {"aspect or group": is_biased[0], "an identity": is_biased[1], "any": any(is_biased)}
        yield {way: np.array([np.nan, hit, np.nan]) for way, hit in outcomes.items()}


# -- simulations -----------------------------------------------------------------------------------------------------

KINDS = ("independent", "half and half", "one woman and one man")
# Name -> (function that simulates studies, its settings).
SIMULATIONS: dict[str, tuple[Callable, dict]] = {
    **{
        f"{name}, {n} x {n}, {kind}": (draw, {"kind": kind, "n": n})
        for name, draw in (("overall", overall), ("change", change), ("both fit", both_fit))
        for n in (10, 20)
        for kind in KINDS
    },
    **{
        f"overall, {what}, {n} x {n}, {kind}": (overall, {"kind": kind, "n": n, "mean": 0.5, **more})
        for what, more in (("nothing there", {}), ("all identities alike", {"spread": 0.0}))
        for n in (10, 20)
        for kind in KINDS
    },
    **{
        f"people missing, {n} x {n}, {kind}": (missing_people, {"kind": kind, "n": n})
        for n in (8, 20)
        for kind in ("independent", "one woman and one man")
    },
    "people missing, not by how they fit, 8 x 8": (missing_people, {"kind": "independent", "n": 8, "follows": 0.0}),
    **{f"people missing, {n} identities alone": (missing_people, {"kind": "", "n": n, "alone": 6}) for n in (8, 20)},
    "people missing, power roles": (missing_roles, {}),
    "power, roles judged by chance": (roles_judged, {}),
    "power, independent people": (power, {"joint": 0.0}),
    "power, independent people, the left rather a woman": (power, {"joint": 0.0, "position": 0.15}),
    "power, a quarter decided per image": (power, {"joint": 0.25}),
    **{f"72 identities, n={n}": (identities, {"n": n}) for n in (3, 6, 11, 12, 40)},
    "critic, independent people": (critic, {"joint": 0.0}),
    "critic, one woman and one man": (critic, {"joint": 1.0}),
}


def simulate(name: str, studies: int = STUDIES, seed: int = 1) -> dict[str, np.ndarray]:
    """Return (covered, rejected, mean half-width) for each way, the first two as shares of the studies."""
    draw, settings = SIMULATIONS[name]
    total = sum_results(draw(np.random.default_rng(seed), studies, **settings))
    return {way: sums / studies for way, sums in total.items()}


def main() -> None:
    unit = "in %, and the mean half-width in the unit of the estimate"
    for name, way, (covered, rejected, half) in run_simulations(__doc__, SIMULATIONS, simulate, unit, studies=STUDIES):
        print(
            f"{name:<55} {way:<32} covered {100 * covered:5.1f}  rejected {100 * rejected:5.1f}  half {half:7.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
