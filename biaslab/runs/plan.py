"""The headline estimates of a run, and the number of images for narrower intervals, with the run as a pilot study."""

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
from biaslab.schema.values import flatten
from biaslab.settings import Settings
from biaslab.study import sources

_WORDS = {"group": "clusters", "template": "wording"}
# Half-widths in percentage points of shares that the table lists in addition to the requested one.
_POINTS = (10, 5, 2)


@dataclass(frozen=True)
class Planned:
    """A headline, its design, and the number and price of its images."""

    name: str
    scale: float  # Change of the headline per percentage point of a share.
    design: stats.Design
    clusters: str  # The name of its clusters.
    setting: str  # The setting of the images per prompt; empty if there is none.
    size: int  # Images per prompt.
    images: int  # Images of all prompts.
    price: float = 0.0  # Price of one image.

    def choose_size(self, points: float, confidence: float) -> tuple[int, str]:
        """Return images per prompt for a half-width in points, or 0 and the reason why no number suffices."""
        n, n_clusters = self.design.sizes(points * self.scale, confidence)
        if n:
            return max(ceil(self.size * n / self.design.images - 1e-9), 1), ""
        hint = f"; {n_clusters:,} {self.clusters} with {self.size:,} images each suffice" if n_clusters else ""
        return 0, f"not possible with {self.design.clusters:,} {self.clusters}{hint}"


def headlines(folder: Path) -> Iterator[Headline]:
    """Yield the headlines of a run's folder in the papers' order, for papers whose measured tables it has."""
    for module in paper_modules("estimands"):
        if hasattr(module, "headlines") and sources.table_path(folder, module.TABLES[0]):
            yield from module.headlines(*(read_table(folder, name) for name in module.TABLES))


def plan_designs(folder: Path, parameters: Mapping, confidence: float) -> tuple[list[Planned], pd.DataFrame]:
    """Return the headlines of a run with these ``parameters``, from its own images, and their variance components.

    Among single groups, the one with the widest interval represents all. The components are the table
    ``precision_components``, which uses the annotations that the run read.
    """
    settings = flatten(Settings().model_dump()) | flatten(parameters.get("settings") or {})
    printed = printed_models(folder)
    own_headlines = [headline for headline in headlines(folder) if headline.model not in printed]
    own_headlines = [item for item in own_headlines if (item.cells["coefficient"] * item.cells["n"]).any()]
    widest: dict[tuple, tuple[Headline, stats.Design]] = {}
    for headline in own_headlines:
        design = stats.design_from_pilot(
            headline.cells, headline.people, clusters_random=headline.clusters_random, is_absolute=headline.is_absolute
        )
        key = headline.model, headline.measure, headline.group == MEAN
        if key not in widest or design.half_width() > widest[key][1].half_width():
            widest[key] = headline, design
    headline_plans = []
    for (_, measure, is_mean), (headline, design) in widest.items():
        cells = headline.cells[headline.cells["coefficient"] != 0]
        people = headline.people[headline.people["cell"].isin(cells.index)]
        setting, n = headline.setting, people["image_id"].nunique()
        size = settings.get(setting) or max(round(design.images), 1)
        # No setting decides the number of existing images, or of images whose number a file states.
        if str(parameters.get("model")).startswith(IMAGES) or (
            not headline.clusters_random and abs(design.images - size) > 0.5
        ):
            setting, size = "", max(round(design.images), 1)
        if len(people) < cells["n"].sum():
            n = size * int((headline.cells["source"] != "training").sum())
        group = "" if is_mean else f", {headline.group} (widest interval),"
        name = f"{measure}{group} of {headline.model} ({headline.unit})"
        price = settings.get("endpoint.price") or 0.0
        headline_plans.append(Planned(name, headline.scale, design, headline.clusters, setting, size, n, price))
    annotation_rows = read_table(folder, table_of(precision.ratings))
    estimates = precision.estimates(own_headlines, annotation_rows, confidence=confidence)
    return headline_plans, precision.components(own_headlines, estimates, confidence=confidence)


def plan(run: str, outputs: str, points: float) -> Iterator[str]:
    """Yield lines with a run's headlines, sample sizes for narrower intervals, variance components, and the command.

    Raises ParameterError: The run does not exist, it has no images for a headline, or a number is out of range.
    """
    if not 0 < points < 50:
        raise ParameterError(
            f"--precision is {points:g}; it must be a number of percentage points above 0 and below 50, such as 5."
        )
    folder = find_run(run, Path(outputs))
    check_tables(folder, record := records.read(folder))
    parameters = record.get("parameters", {})
    confidence = float(np.max(parameters.get("confidence", 0.95)))
    headline_plans, components = plan_designs(folder, parameters, confidence)
    if not headline_plans:
        raise ParameterError(
            f"The run {record['run']!r} has no headline estimate from images of people: its values are published in "
            "papers, or its notebooks measure none. Use a run of 'biaslab audit', for example with --preset quick."
        )
    from_folder = str(parameters.get("model")).startswith(IMAGES)
    # Existing images have no seed.
    words = _WORDS | ({"seed": "choice of images"} if from_folder else {})
    # The images per prompt by setting for the half-width, at least the current ones.
    sizes, problems = {}, []
    for headline in headline_plans:
        n, reason = headline.choose_size(points, confidence)
        if n and headline.setting:
            sizes[headline.setting] = max(n, headline.size, sizes.get(headline.setting, 0))
        elif reason:
            problems.append(f"{headline.name}: {reason}.")
    yield from _table(headline_plans, confidence, sorted({*_POINTS, points}, reverse=True))
    for (model, measure), parts in components.dropna(subset="percent").groupby(["model", "headline"], sort=False):
        percents = zip(parts["part"], parts["percent"], strict=True)
        shares = ", ".join(f"{words.get(part, part)} {percent:.0f}%" for part, percent in percents if percent > 0)
        yield f"Variance components of {measure} of {model}: {shares or 'none'}."
    if not sizes:
        yield from problems
        if from_folder:
            yield "The images come from a folder. Add images up to the numbers in the table, and run again."
        elif not all(headline.setting for headline in headline_plans):
            yield "The file of prompts sets the number of images. Increase the numbers in its column n, and run again."
    else:
        options = [word for name, n in sizes.items() for word in ("--set", f"{name}={n}")]
        run = f"run={record['run']}-{points:g}"
        yield shlex.join(["biaslab", "run", str(folder / PARAMS), *options, "--set", run])


def _table(headline_plans: Iterable[Planned], confidence: float, points: Iterable[float]) -> list[str]:
    """Return the lines of a table: half-widths at the current sample sizes, and the images for other half-widths."""
    rows = [(f"margin of error ({format_level(confidence)})", "±", "images per prompt or group", "images", "price")]
    for headline in headline_plans:
        lines = [(headline.name, headline.design.half_width(confidence), headline.size, "")]
        lines += [("  to reach", p * headline.scale, *headline.choose_size(p, confidence)) for p in points]
        for name, half, n, note in lines:
            images = ceil(headline.images * n / headline.size)
            sizes = f"{n:,}", f"{images:,}", f"{images * headline.price:,.2f}" if headline.price else "-"
            rows.append(
                (name, format_digits(half) if half < float("inf") else "-", *((note, "", "") if note else sizes))
            )
    # A reason may be wider than its column.
    widths = [max(len(row[k]) for row in rows if k != 2 or row[3]) for k in range(5)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
