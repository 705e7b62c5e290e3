"""How many images: the half-widths that headlines will have, and what narrower ones take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from operator import attrgetter

from biaslab import stats
from biaslab.ground import tables
from biaslab.ground.errors import ParameterError
from biaslab.ground.wording import digits, durations, level
from biaslab.pipeline.asked import Asked, Cost

POINTS = (10.0, 5.0, 2.0)
"""Half-widths, in percentage points of shares, that sizes are told for."""
ASSUMED = (
    "Expected before any image: shares of one half, that differ between clusters as the papers' own tables say; all "
    "people judged, and no errors of the judge taken off. Nothing is known of similarities before a run. "
    "'biaslab plan RUN' goes by a run's own images."
)


@dataclass(frozen=True)
class Planned:
    """A headline, what it rests on, and what its images take."""

    name: str
    scale: float  # What a percentage point of a share is in its unit.
    design: stats.Design
    of: str  # What its clusters are called.
    setting: str  # Holds images a prompt; empty where none does.
    size: int  # How many these are.
    images: float  # Images of these prompts, of all models.
    seconds: float = 0.0  # To make one; 0 where that is not known.
    price: float = 0.0

    def sized(self, points: float, confidence: float) -> tuple[int, str]:
        """Return images a prompt for a half-width in points, or 0 and why no number of them gives it."""
        n, more = self.design.sizes(points * self.scale, confidence)
        if n:
            return max(ceil(self.size * n / self.design.images - 1e-9), 1), ""
        takes = f"; {more:,} {self.of} at {self.size:,} images do" if more else ""
        return 0, f"no number at {self.design.clusters:,} {self.of}{takes}"


def of_asked(asked: Sequence[Asked], measured: Mapping[tuple, Cost]) -> Iterator[Planned]:
    """Yield the headlines of images that are asked for, as papers declare them at the head of their tables."""
    for one in (one for paper in tables.papers().values() for one in paper.headlines):
        alike = [some for some in asked if some.kind == one["images"]]
        rows = alike[0].prompts.query(one.get("where", "index >= 0")) if alike else ()
        if not len(rows) or (over := rows.query(one.get("over", "index >= 0"))).empty:
            continue
        settings, setting = alike[0].pipeline.settings, one["setting"]
        clusters = over[one["cluster"]].astype(str).str.extract(one.get("named", "(.*)"))[0].value_counts()
        k, prompts = (1, clusters.min()) if one.get("each") else (len(clusters), len(over) / len(clusters))
        # People of one image may move as one, in clusters and in images.
        people, group = one.get("together", 1), one.get("group", 0.0)
        beside = attrgetter(one["beside"])(settings) if "beside" in one else 0
        design = stats.Design(
            k, people * prompts, over["n_images"].mean(), one["reach"], one.get("drawn", True), one.get("lists", 1),
            group * people**2 + (0.25 / beside if beside else 0), 0.0, (0.25 - group) * people,
            folded=one.get("folded", False), fewest=one.get("fewest", 1),
        )  # fmt: skip
        # Of pictures that are there, and where a file says how many, no setting decides.
        fixed = alike[0].pipeline.custom.folder or (rows["n_images"] != attrgetter(setting)(settings)).any()
        seconds = [measured[some.alike].seconds for some in alike if some.alike in measured]
        name = f"{one['measure']}{', single group' if one.get('each') else ''} ({one['unit']})"
        yield Planned(
            name, one["reach"] / 100, design, one["of"], "" if fixed else setting, round(rows["n_images"].mean()),
            float(rows["n_images"].sum() * len(alike)), sum(seconds) / max(len(seconds), 1),
            sum(some.price or 0 for some in alike) / len(alike),
        )  # fmt: skip


def check(points: float) -> None:
    """Refuse a half-width that no share can have (ParameterError)."""
    if not 0 < points < 50:
        raise ParameterError(
            f"--precision is {points:g}; allowed are percentage points above 0 and below 50, such as 5."
        )


def chosen(planned: Iterable[Planned], points: float, confidence: float) -> tuple[dict[str, int], list[str]]:
    """Return by setting the images a prompt that give a half-width, never fewer than now, and what cannot have it."""
    found, cannot = {}, []
    for one in planned:
        n, why = one.sized(points, confidence)
        if n and one.setting:
            found[one.setting] = max(n, one.size, found.get(one.setting, 0))
        else:
            cannot.append(f"{one.name}: {why or 'no setting says how many images there are'}.")
    return found, cannot


def said(planned: Iterable[Planned], confidence: float, points: Iterable[float] = POINTS) -> list[str]:
    """Return the lines of a table: half-widths at the sizes chosen, and what narrower ones take."""
    rows = [(f"half-widths ({level(confidence)})", "±", "images a prompt", "images", "time", "price")]
    for one in planned:
        each = [(one.name, one.design.half_width(confidence), one.size, "")]
        each += [("  for", p * one.scale, *one.sized(p, confidence)) for p in points]
        for name, half, n, why in each:
            images = ceil(one.images * n / one.size)
            time = durations(*[images * one.seconds] * 2) if one.seconds else "-"
            taken = f"{n:,}", f"{images:,}", time, f"{images * one.price:,.2f}" if one.price else "-"
            rows.append((name, digits(half) if half < float("inf") else "-", *((why, "", "", "") if why else taken)))
    # A reason is as long as it is.
    widths = [max(len(row[k]) for row in rows if k != 2 or row[3]) for k in range(6)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows] if len(rows) > 1 else []
