"""What a notebook holds: its inputs by name, its tables computed once, and a place for its results.

A notebook opens one :class:`Study` from its parameters, asks it for tables and gives it the figures,
tables and findings that the report shows. It never reads or writes files itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict
from functools import cache, cached_property
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab import sources, tables, values
from biaslab.errors import MissingInputError, ParameterError, unknown_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    from biaslab.judging.images import ImageSource
    from biaslab.pipeline import Pipeline, Settings

# The folder of a run below which each notebook has its own.
PARTS = ".parts"
# The file there that says how far a notebook's stages are.
PROGRESS = "progress.log"
_STUDIES = (
    "paradox",
    "paradox_sections",
    "paradox_downloads",
    "paired",
    "paired_people",
    "dalleval",
    "triplets",
    "ratings",
    "calibration",
    "synthesis",
)
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
# A dict, as notebooks have it; never written to.
_NO_SETTINGS: dict = {}


class Study:
    """The inputs, tables and results of one notebook.

    Args:
        output_dir: Where tables, figures and findings go; empty for ``outputs/explore`` of the project.
        source: ``published`` (the papers' printed numbers), ``ratings`` (the file ``ratings``), ``mini``
            (captions, images and judgements of the embedded world and models), ``pipeline`` (the same with the
            models and captions that ``model`` and ``settings`` name), or a folder that holds measured tables,
            such as another run's.
        model: The model to look at, or ``all`` that the source has; for ``mini`` and ``pipeline`` the one that
            generates: a folder or a hub name, ``all`` being ``mini``.
        ratings: A file of ratings or shares, for ``source="ratings"``.
        seed: The seed of every random draw.
        bootstrap_replicates: Replicates of each bootstrap and Monte Carlo test.
        confidence: Level of the intervals, between 0 and 1.
        settings: What the pipeline does, for ``source="mini"`` and ``"pipeline"``: values for fields of
            :class:`biaslab.pipeline.Settings`.

    Raises:
        ParameterError: A parameter is out of its range, or a name is unknown.
    """

    def __init__(
        self,
        output_dir: str | Path = "",
        *,
        source: str = "published",
        model: str = "all",
        ratings: str = "",
        seed: int = 0,
        bootstrap_replicates: int = 10_000,
        confidence: float = 0.95,
        settings: dict = _NO_SETTINGS,
    ) -> None:
        values.check("settings", settings)
        for name, value in (("seed", seed), ("bootstrap_replicates", bootstrap_replicates)):
            values.check(name, value)
            if not isinstance(value, Integral) or isinstance(value, bool):
                raise ParameterError(f"{name} is {value!r}; it must be a whole number, for example 20231.")
        if not 0 < confidence < 1:
            raise ParameterError(
                f"confidence is {confidence!r}; it must lie between 0 and 1, for example 0.95."
            )
        if not 100 <= bootstrap_replicates <= 1_000_000:
            raise ParameterError(
                f"bootstrap_replicates is {bootstrap_replicates!r}; allowed are 100 to 1000000, 10000 are usual."
            )
        if seed < 0:
            raise ParameterError(f"seed is {seed!r}; it must be 0 or more.")
        self.output_dir = Path(output_dir) if output_dir else project_root() / "outputs" / "explore"
        self.source = sources.check(source, ratings, model=model, settings=settings)
        self.model = model
        self._given_settings = dict(settings)
        self.ratings = str(ratings)
        self.seed = int(seed)
        self.bootstrap_replicates = int(bootstrap_replicates)
        self.confidence = float(confidence)
        self._kept: dict[str, pd.DataFrame] = {}
        self._inputs: dict[str, pd.DataFrame] = {}
        self._records: dict[str, list] = {"figures": [], "tables": [], "headlines": []}

    # -- inputs and tables ---------------------------------------------------------------------------

    def measured(self, name: str) -> pd.DataFrame:
        """Return the measured input table ``name`` from this study's source, for this study's model.

        The pipeline has one model of its own; rows of others are the printed numbers beside it, and stay.

        Raises:
            InputError: The source's data do not fit the table.
            MissingInputError: The source has no such table.
            UnknownNameError: There is no such table, or the source has no such model.
        """
        frame = self._read(name)
        if self._takes_all(frame):
            return frame
        if self.model not in set(frame["model"]):
            raise unknown_name(f"model in {name} ({self.source})", self.model, sorted(set(frame["model"])))
        return frame[frame["model"] == self.model].reset_index(drop=True)

    def has(self, name: str) -> bool:
        """Return whether the source holds the measured table ``name`` with rows of this study's model."""
        if not sources.has(name, source=self.source, beside=self.settings.beside):
            return False
        try:
            frame = self._read(name)
        except MissingInputError:
            # A corpus without images, of which there are no shares.
            return False
        return self._takes_all(frame) or self.model in set(frame["model"])

    def _takes_all(self, frame: pd.DataFrame) -> bool:
        return self.model == "all" or self.source in sources.PIPELINES or "model" not in frame.columns

    def _read(self, name: str) -> pd.DataFrame:
        """Return a measured table whole, and keep it beside the results: a run's folder is a source, too."""
        if name not in self._inputs:
            pipeline = self.pipeline if self.source in sources.PIPELINES else None
            self._inputs[name] = sources.measured(
                name, source=self.source, ratings=self.ratings, pipeline=pipeline
            )
            tables.write(self._inputs[name], self._common / sources.MEASURED / f"{name}.csv")
        return self._inputs[name].copy()

    # -- images --------------------------------------------------------------------------------------

    @cached_property
    def settings(self) -> Settings:
        """What the pipeline does: the settings given, with defaults for the others."""
        from biaslab.pipeline import Settings

        return Settings.of(self._given_settings)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline that makes and judges images for this study.

        Raises:
            MissingInputError: The source has tables only.
        """
        from biaslab.pipeline import Pipeline

        if self.source not in sources.PIPELINES:
            raise MissingInputError(
                f"This needs images, and source {self.source!r} has tables only: set source to 'mini' (embedded "
                "world and models), or to 'pipeline' with a model and settings."
            )
        return Pipeline(
            sources.pipeline_model(self.model),
            self.settings,
            seed=self.seed,
            progress_file=self._progress_file,
        )

    def images(self, kind: str) -> ImageSource:
        """Return images of one of :data:`biaslab.pipeline.KINDS`: ``training``, ``generated``, …

        Raises:
            MissingInputError: The source, or its corpus, has no images.
            UnknownNameError: There is no such kind.
        """
        return self.pipeline.images(kind)

    def judgements(self, kind: str) -> pd.DataFrame:
        """Return what gate and judge made of images of a kind, as :meth:`biaslab.pipeline.Pipeline.judgements`.

        Raises:
            MissingInputError: The source, or its corpus, has no images.
            UnknownNameError: There is no such kind.
        """
        return self.pipeline.judgements(kind)

    # -- tables --------------------------------------------------------------------------------------

    def measured_or_empty(self, name: str) -> pd.DataFrame:
        """Return the measured table ``name``; without rows where the source has none for this study's model."""
        import pandas as pd

        if self.has(name):
            return self.measured(name)
        return tables.conform(pd.DataFrame(columns=tables.schema(name).names), name)

    def table(self, name: str) -> pd.DataFrame:
        """Return the table ``name``, computed on the first call and kept from then on.

        A table that is declared in :mod:`biaslab.schemas` is checked against its declaration. Results are
        also kept on disk, keyed by inputs, parameters and code, where the next notebook finds them.

        Raises:
            UnknownNameError: No study computes a table of that name.
        """
        if name not in self._kept:
            builder = _builders().get(name)
            if builder is None:
                raise unknown_name("table that a study computes", name, _builders())
            self._kept[name] = self._stored(name, builder)
        return self._kept[name].copy()

    def _stored(self, name: str, builder) -> pd.DataFrame:
        import pandas as pd
        from filelock import FileLock

        def build() -> pd.DataFrame:
            frame = builder(self)
            return tables.conform(frame, name) if name in tables.schemas() else frame

        store = self._common / ".store"
        store.mkdir(parents=True, exist_ok=True)
        path = store / f"{name}-{self._fingerprint}.parquet"
        # Tables build on one another, so the lock is per table: two notebooks never compute the same one.
        with FileLock(f"{path}.lock"):
            if path.exists():
                return pd.read_parquet(path)
            frame = build()
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            frame.to_parquet(temporary, index=False)
            os.replace(temporary, path)
        return frame

    @cached_property
    def _common(self) -> Path:
        """What the notebooks of a run share: the folder of its parts; alone, a notebook has its own."""
        parts = [folder for folder in self.output_dir.parents if folder.name == PARTS]
        return parts[0] if parts else self.output_dir

    @property
    def _progress_file(self) -> Path | None:
        """Where stages show progress in a run; alone, a notebook shows it below the cell."""
        return None if self._common == self.output_dir else self.output_dir / PROGRESS

    @cached_property
    def _fingerprint(self) -> str:
        parameters = [self.source, self.model, self.seed, self.bootstrap_replicates, self.confidence]
        if self.source in sources.PIPELINES:
            parameters.append(asdict(self.settings))
        inputs = sources.digest(self.source, self.ratings, model=self.model, settings=self._given_settings)
        whole = json.dumps([parameters, inputs, code_digest()])
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    # -- results -------------------------------------------------------------------------------------

    def save_table(self, name: str, frame: pd.DataFrame | None = None) -> pd.DataFrame:
        """Write the table ``name`` for the report (computed if not given) and return it.

        Raises:
            InputError: It does not fit its declaration.
            UnknownNameError: No table of that name is declared.
        """
        frame = self.table(name) if frame is None else frame
        frame = tables.conform(frame, name)
        tables.write(frame, self.output_dir / "tables" / f"{name}.csv")
        self._record("tables", {"name": name})
        return frame

    def save_figure(
        self, name: str, figure: Figure, *, title: str, caption: str, alt: str = "", main: bool = False
    ) -> None:
        """Write ``figure`` as PNG and SVG for the report, show it below the cell, and close it.

        Args:
            name: ``<paper>_<what>``: lower-case words joined by underscores.
            figure: The figure.
            title: A few words for a heading.
            caption: What is drawn: axes, intervals, n, and what to see. Plain text.
            alt: A description for those who cannot see it; the caption when empty.
            main: Whether the report's first page shows it.

        Raises:
            ParameterError: The name has other characters.
        """
        _check_name(name)
        folder = self.output_dir / "figures"
        folder.mkdir(parents=True, exist_ok=True)
        import matplotlib as mpl
        import matplotlib.pyplot as plt

        page = _lay_out(figure)
        _save_png(figure, folder / f"{name}.png", page)
        # A fixed salt and no date make the same figure the same bytes; pictures in it stay as they are.
        how = {"svg.hashsalt": name, "svg.fonttype": "none", "image.composite_image": False}
        with mpl.rc_context(how):
            figure.savefig(
                folder / f"{name}.svg", bbox_inches=page, facecolor="white", metadata={"Date": None}
            )
        record = {"name": name, "title": title, "caption": caption, "alt": alt or caption, "main": bool(main)}
        self._record("figures", record)
        _show(folder / f"{name}.png", record["alt"])
        plt.close(figure)

    def headline(self, *findings: str, main: bool = False) -> None:
        """Record findings in words, each with its interval and n inside, for the report; and print them.

        Args:
            findings: Plain text, one finding a line; a main one reads best below about 260 characters.
            main: Whether they are among the first things the report says.
        """
        for finding in "\n".join(findings).splitlines():
            self._record("headlines", {"text": finding, "main": bool(main)})
            print(finding)

    def _record(self, kind: str, record: dict) -> None:
        same = "text" if kind == "headlines" else "name"
        self._records[kind] = [r for r in self._records[kind] if r[same] != record[same]] + [record]
        self.output_dir.mkdir(parents=True, exist_ok=True)
        whole = json.dumps(self._records, ensure_ascii=False, indent=1)
        (self.output_dir / "records.json").write_text(whole, encoding="utf-8")


_DPI = 170


def _lay_out(figure: Figure) -> Bbox:
    """Place what is in a figure once, for all the formats it is saved in, and return what it takes up, in inches."""
    import matplotlib as mpl

    # At the PNG's resolution: glyphs are as wide as whole pixels, so at another one texts are longer or shorter.
    figure.set_dpi(_DPI)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure.get_tightbbox().padded(mpl.rcParams["savefig.pad_inches"])


def _save_png(figure: Figure, path: Path, page: Bbox) -> None:
    """Write a figure as PNG of 256 colours: charts need no more, and reports that embed them stay small."""
    from io import BytesIO

    from PIL import Image

    drawn = BytesIO()
    # What is read again at once need not be small.
    small = {"compress_level": 1}
    figure.savefig(drawn, format="png", dpi=_DPI, bbox_inches=page, facecolor="white", pil_kwargs=small)
    with Image.open(drawn) as image:
        few = image.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def _show(picture: Path, alt: str) -> None:
    """Show a saved figure in a notebook, in its own size, with a description for those who cannot see it."""
    from IPython import get_ipython
    from IPython.display import Image, display
    from matplotlib import rcParams
    from PIL import Image as Opened

    if get_ipython() is None:
        return
    with Opened.open(picture) as opened:
        width, height = (round(pixels * rcParams["figure.dpi"] / _DPI) for pixels in opened.size)
    about = {"alt": alt, "width": width, "height": height}
    display(Image(data=picture.read_bytes(), format="png"), metadata={"image/png": about})


def project_root(start: Path | None = None) -> Path:
    """Return the folder, at or above ``start`` (the working folder), that holds ``notebooks`` and ``params``.

    Falls back to ``start`` itself, so that a notebook also works alone in a folder.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "notebooks").is_dir() and (folder / "params").is_dir():
            return folder
    return start


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ParameterError(f"{name!r} is not a name: use lower-case words joined by underscores.")


@cache
def _builders() -> dict:
    """Return the functions that compute tables, by table name: each takes a Study and returns rows."""
    found = {}
    for module in _STUDIES:
        found.update(import_module(f"biaslab.studies.{module}").TABLES)
    return found


@cache
def code_digest() -> str:
    """Return a digest of the package's code and data, so that what is kept never outlives them."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name = path.relative_to(root)
        # The weights of the embedded models are inputs of those who use them, and have their own digest.
        if "__pycache__" not in name.parts and name.parts[:2] != ("mini", "models"):
            digest.update(name.as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
