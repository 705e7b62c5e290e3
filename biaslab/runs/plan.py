"""The numbers that a run leads with, and how many images narrower intervals take by what its own tell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.analyses import precision
from biaslab.errors import ParameterError
from biaslab.hub.image_folder import IMAGES
from biaslab.metrics.headline import MEAN, Headline
from biaslab.planning.measures import paper_modules, table_of
from biaslab.report import records
from biaslab.runs.compare import find_run, printed_models, read_table
from biaslab.runs.resume import check_tables
from biaslab.runs.runner import PARAMS
from biaslab.schema.formatting import format_digits, format_level
from biaslab.schema.values import dotted
from biaslab.settings import Settings
from biaslab.study import sources

_WORDS = {"group": "clusters", "template": "wording"}
# Half-widths in percentage points of shares that the table lists in addition to the requested one.
_POINTS = (10, 5, 2)


@dataclass(frozen=True)
class Planned:
    """A headline, its design, and the number and the price of its images."""

    name: str
    scale: float  # Change of the headline per percentage point of a share.
    design: stats.Design
    clusters: str  # What its clusters are called.
    setting: str  # The setting that holds the images per prompt; empty where none does.
    size: int  # Images per prompt.
    images: int  # Images of all prompts.
    price: float = 0.0  # Of one image.

    def choose_size(self, points: float, confidence: float) -> tuple[int, str]:
        """Return images per prompt for a half-width in points, or 0 and the reason why no number gives it."""
        n, more = self.design.sizes(points * self.scale, confidence)
        if n:
            return max(ceil(self.size * n / self.design.images - 1e-9), 1), ""
        takes = f"; {more:,} {self.clusters} at {self.size:,} images do" if more else ""
        return 0, f"no number at {self.design.clusters:,} {self.clusters}{takes}"


def headlines(folder: Path) -> Iterator[Headline]:
    """Yield the headlines of a run's folder, of papers whose measured tables it has, in the papers' order."""
    for module in paper_modules("estimands"):
        if hasattr(module, "headlines") and sources.table_path(folder, module.TABLES[0]):
            yield from module.headlines(*(read_table(folder, name) for name in module.TABLES))


def plan_designs(folder: Path, given: Mapping, confidence: float) -> tuple[list[Planned], pd.DataFrame]:
    """Return the headlines of a run with parameters ``given``, by its own images, and what their variance is made of.

    Of single groups the widest represents all. The second is ``precision_components``, with the annotations that it
    read.
    """
    settings = dotted(Settings().model_dump()) | dotted(given.get("settings") or {})
    printed = printed_models(folder)
    own = [one for one in headlines(folder) if one.model not in printed]
    own = [one for one in own if (one.cells["coefficient"] * one.cells["n"]).any()]
    widest: dict[tuple, tuple[Headline, stats.Design]] = {}
    for one in own:
        design = stats.design_from_pilot(
            one.cells, one.people, clusters_random=one.clusters_random, is_absolute=one.is_absolute
        )
        key = one.model, one.measure, one.group == MEAN
        if key not in widest or design.half_width() > widest[key][1].half_width():
            widest[key] = one, design
    planned = []
    for (_, measure, whole), (one, design) in widest.items():
        cells = one.cells[one.cells["coefficient"] != 0]
        people = one.people[one.people["cell"].isin(cells.index)]
        setting, n = one.setting, people["image_id"].nunique()
        size = settings.get(setting) or max(round(design.images), 1)
        # Of images that are there, and where a file says how many, no setting decides.
        if str(given.get("model")).startswith(IMAGES) or (not one.clusters_random and abs(design.images - size) > 0.5):
            setting, size = "", max(round(design.images), 1)
        if len(people) < cells["n"].sum():
            n = size * int((one.cells["source"] != "training").sum())
        name = f"{measure}{'' if whole else f', {one.group} (widest interval),'} of {one.model} ({one.unit})"
        price = settings.get("endpoint.price") or 0.0
        planned.append(Planned(name, one.scale, design, one.clusters, setting, size, n, price))
    rated = read_table(folder, table_of(precision.ratings))
    estimates = precision.estimates(own, rated, confidence=confidence)
    return planned, precision.components(own, estimates, confidence=confidence)


def plan(run: str, outputs: str, points: float) -> Iterator[str]:
    """Yield lines that say what a run's headlines are made of, the sizes for narrower ones, and the command.

    Raises ParameterError: There is no such run, it has no images that a headline rests on, or a number cannot be one.
    """
    if not 0 < points < 50:
        raise ParameterError(
            f"--precision is {points:g}; allowed are percentage points above 0 and below 50, such as 5."
        )
    folder = find_run(run, Path(outputs))
    check_tables(folder, record := records.read(folder))
    given = record.get("parameters", {})
    confidence = float(np.max(given.get("confidence", 0.95)))
    planned, components = plan_designs(folder, given, confidence)
    if not planned:
        raise ParameterError(
            f"The run {record['run']!r} has no images of people that a headline rests on: it reads printed numbers, or "
            "its notebooks measure none. Plan from one of 'biaslab audit', such as of --preset quick."
        )
    from_folder = str(given.get("model")).startswith(IMAGES)
    # Existing images have no seed.
    words = _WORDS | ({"seed": "choice of images"} if from_folder else {})
    # The images per prompt by setting for the half-width, at least the current ones.
    chosen, cannot = {}, []
    for one in planned:
        n, why = one.choose_size(points, confidence)
        if n and one.setting:
            chosen[one.setting] = max(n, one.size, chosen.get(one.setting, 0))
        elif why:
            cannot.append(f"{one.name}: {why}.")
    yield from _table(planned, confidence, sorted({*_POINTS, points}, reverse=True))
    for (model, measure), parts in components.dropna(subset="percent").groupby(["model", "headline"], sort=False):
        each = zip(parts["part"], parts["percent"], strict=True)
        told = ", ".join(f"{words.get(part, part)} {percent:.0f} %" for part, percent in each if percent > 0)
        yield f"Variance of {measure} of {model}: {told or 'none'}."
    if not chosen:
        yield from cannot
        if from_folder:
            yield "The images come from a folder: add images up to the numbers in the table, and run again."
        elif not all(one.setting for one in planned):
            yield "The file of prompts sets the number of images: increase its column n, and run again."
    else:
        sets = [word for name, n in chosen.items() for word in ("--set", f"{name}={n}")]
        run = f"run={record['run']}-{points:g}"
        yield shlex.join(["biaslab", "run", str(folder / PARAMS), *sets, "--set", run])


def _table(planned: Iterable[Planned], confidence: float, points: Iterable[float]) -> list[str]:
    """Return the lines of a table: half-widths at the current sizes, and the images for others."""
    rows = [(f"half-widths ({format_level(confidence)})", "±", "images per prompt or group", "images", "price")]
    for one in planned:
        each = [(one.name, one.design.half_width(confidence), one.size, "")]
        each += [("  to reach", p * one.scale, *one.choose_size(p, confidence)) for p in points]
        for name, half, n, why in each:
            images = ceil(one.images * n / one.size)
            taken = f"{n:,}", f"{images:,}", f"{images * one.price:,.2f}" if one.price else "-"
            rows.append((name, format_digits(half) if half < float("inf") else "-", *((why, "", "") if why else taken)))
    # A reason may be wider than its column.
    widths = [max(len(row[k]) for row in rows if k != 2 or row[3]) for k in range(5)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
