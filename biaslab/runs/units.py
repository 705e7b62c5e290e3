"""What rows of results are means over, unit by unit: professions, occupations, identities, triplets.

Two runs that ask for the same units move together in each of them, so the difference of their estimates varies less
than that of independent ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from biaslab.measures import mean_absolute_deviation

if TYPE_CHECKING:
    import pandas as pd

Read = Callable[[str], "pd.DataFrame"]
"""Returns a run's table of a name: of its results, else of what they rest on; without rows where it has none."""


def _averages(read: Read) -> Iterator[pd.DataFrame]:
    for category in ("gender", "skin_tone"):
        rows = read(f"dalleval_average_{category}")
        yield rows.assign(category=category, unit=rows["profession"])


def _deviations(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("dalleval_average_gender")
    yield rows.assign(category="gender", unit=rows["profession"], value=rows["value"].abs() / 2)
    rows = read("dalleval_skin_tone_counts")
    keys = [c for c in rows if c not in ("tone", "n")]
    wide = rows.pivot(index=keys, columns="tone", values="n").fillna(0)
    # Tones that no image of the run has are empty bins of all ten.
    wide = wide.reindex(columns=[str(tone) for tone in range(1, 11)], fill_value=0.0)
    wide = wide[wide.sum(axis=1) > 0]
    rows = wide.index.to_frame(index=False)
    yield rows.assign(
        category="skin_tone", unit=rows["profession"], value=mean_absolute_deviation(wide.to_numpy(float))
    )


def _attributes(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("dalleval_attribute_presence")
    for one, other in (("woman", "man"), ("woman", "person"), ("man", "person")):
        sides = (rows[rows["prompt"] == prompt] for prompt in (one, other))
        keys = [c for c in ("model", "profession", "attribute") if c in rows]
        both = next(sides).merge(next(sides), on=keys, suffixes=("", "_other"))
        value = both["share"] - both["share_other"]
        yield both.assign(comparison=f"{one} - {other}", unit=both["profession"], value=value)


def _amplifications(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("paradox_occupation_amplification")
    rows = rows.assign(unit=rows["occupation"])
    several = rows[rows["prompt"].str.isdigit()].assign(prompt="mean")
    for some in (rows, several):
        plain = some.assign(value=some["amplification_plain"])
        yield plain.assign(definition="no_exclusion")
        yield plain[plain["excluded"] == ""].assign(definition="published")
        yield some.assign(definition="directional", value=some["directional"])


def _women(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("paired_percent_female")
    yield from _by_list(rows.assign(unit=rows["identity"], value=rows["percent_female"]))


def _scores(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("paired_percent_female")
    score = (2 * rows["percent_female"] - 100) * rows["stereotype"].map({"female": 1, "male": -1})
    yield from _by_list(rows.assign(unit=rows["identity"], value=score))


def _by_list(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    yield rows
    # The mean of two lists varies by how identities differ within either.
    keys = [c for c in ("model", "aspect", "setting", "stereotype") if c in rows]
    within = rows["value"] - rows.groupby(keys)["value"].transform("mean")
    yield rows.assign(stereotype="overall", value=within)


def _similarities(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("triplets_similarity")
    yield rows.assign(unit=rows["case"])


def _gaps(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("triplets_similarity")
    yield _gap(rows, ["model", "dataset", "space", "metric", "case", "higher_is_closer"])


def _object_gaps(read: Read) -> Iterator[pd.DataFrame]:
    yield _gap(read("triplets_object_similarity"), ["model", "dataset", "case"])


def _gap(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    sides = (rows[rows["pair"] == f"neutral-{gender}"] for gender in ("masculine", "feminine"))
    both = next(sides).merge(next(sides), on=keys, suffixes=("", "_feminine"))
    return both.assign(unit=both["case"], value=both["value"] - both["value_feminine"])


OVER: Mapping[str, tuple[Callable[[Read], Iterator[pd.DataFrame]], tuple[str, ...]]] = {
    "dalleval_overall_average": (_averages, ("ci_low", "judge_ci_low")),
    "dalleval_mad": (_deviations, ("ci_low", "corrected_ci_low", "judge_ci_low")),
    "dalleval_attribute_difference": (_attributes, ("ci_low",)),
    "paradox_amplification": (_amplifications, ("ci_low",)),
    "paired_stereotype_score": (_scores, ("ci_low",)),
    "paired_lean": (_women, ("ci_low",)),
    "triplets_disparity": (_similarities, ("ci_low",)),
    "triplets_disparity_gap": (_gaps, ("ci_low",)),
    "triplets_co_occurrence": (_object_gaps, ("ci_low",)),
}
"""By table: its rows' units, with the table's own keys, ``unit`` and ``value``; and the lower limits of intervals over
them. Intervals of other kinds, over the images of one unit, are not paired."""


def correlations(first: pd.DataFrame, second: pd.DataFrame, keys: list[str], *, least: int) -> pd.DataFrame:
    """Return how estimates of two runs correlate that are means over units: ``keys``, ``correlation``, ``n_paired``.

    Both have rows of ``keys`` (as many as they have), ``unit`` and ``value``; several of a unit are averaged. The
    covariance of two means comes of the units that both have: ``correlation`` is Pearson's r of these times their
    number over the root of the product of both numbers of units. Rows with fewer than ``least`` units in both, or
    without any variation, are left out.
    """
    import numpy as np
    import pandas as pd

    keys = [k for k in keys if k in first and k in second]
    sides = []
    for units in (first, second):
        values = units.dropna(subset="value").astype(dict.fromkeys(keys, str))
        sides.append(values.groupby([*keys, "unit"])["value"].mean())
    both = pd.concat(sides, axis=1, keys=["first", "second"]).reset_index("unit", drop=True)
    both = both.reset_index() if keys else both.reset_index(drop=True)
    rows = []
    groups = both.groupby(keys, sort=False) if keys else [((), both)]
    for names, some in groups:
        shared = some.dropna(subset=["first", "second"])
        values = shared[["first", "second"]].to_numpy()
        if len(shared) < least or np.ptp(values, axis=0).min() < 1e-12:
            continue
        r = np.corrcoef(values.T)[0, 1]
        share = len(shared) / np.sqrt(some["first"].count() * some["second"].count())
        rows.append([*names, r * share, len(shared)])
    return pd.DataFrame(rows, columns=[*keys, "correlation", "n_paired"])
