"""What rows of results are means over, unit by unit; see :mod:`biaslab.runs.pairing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

from biaslab.metrics import mean_absolute_deviation

Read = Callable[[str], pd.DataFrame]


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


OVER = {
    "dalleval_overall_average": (_averages, ("ci_low", "average_judge_corrected_ci_low")),
    "dalleval_mad": (_deviations, ("mad_ci_low", "ci_low", "mad_judge_corrected_ci_low")),
    "dalleval_attribute_difference": (_attributes, ("ci_low",)),
}
