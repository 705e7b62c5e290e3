"""The inputs and outputs of a notebook: :class:`Study` loads tables and saves tables, figures and findings."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from inspect import signature
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab import redact
from biaslab.cache import code_digest, result_cache
from biaslab.errors import MissingInputError, ParameterError, RunError, unknown_name
from biaslab.execution.progress import ATTEMPT, working
from biaslab.hub import registry
from biaslab.io.places import project_root
from biaslab.papers.findings import Finding
from biaslab.planning.measures import table_of
from biaslab.plots import texts
from biaslab.request import Request, resolve_parameters
from biaslab.schema import tables
from biaslab.schema.formatting import format_level
from biaslab.schema.table_layout import TableLayout, lay_out
from biaslab.schema.values import check_draws
from biaslab.study import sources

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    from biaslab.hub.image_sources import ImageSource
    from biaslab.papers.answers import Answer
    from biaslab.pipeline import Pipeline
    from biaslab.settings import Settings

# The folder of a run below which each notebook has its own.
PARTS = ".parts"
# The file in it with the progress of a notebook's stages.
PROGRESS = "progress.log"
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
_CACHED_HINT = "Finished results are cached. To continue, {fix}, and run the notebook again."
# A dict, as notebooks have it; never written to.
_NO_SETTINGS: dict = {}


def _describe_setting(value: str, words: str) -> str:
    """Return a setting of images in words, such as ``guidance scale 7.5``; ``words`` is a template for the value."""
    if value in ("null", "none"):
        noun = words.replace("{}", "").strip()
        return f"no {noun}" if value == "none" else f"default {noun}"
    # One denoising step.
    return words.format(f"{float(value):g}").removesuffix("s" if float(value) == 1 else "")


class Study:
    """The inputs, tables and results of one notebook.

    Args:
        output_dir: Folder for tables, figures and findings; empty for ``outputs/explore``. Paths are relative to the
            project's folder, not to the notebook's folder.
        source: ``published`` (the papers' published values), ``annotations`` (the file ``annotations``), ``pipeline``
            (images are generated and judged with the models and captions named by ``model`` and ``settings``), the name
            of a model from an installed package (like ``pipeline``, with this model and its settings), or a folder with
            measured tables, such as the folder of another run.
        model: The model to analyse, or ``all`` for all models of the source. If images are generated, the model that
            generates them: a folder or a hub name, or ``all`` for the model that the source names.
        annotations: A file of annotations or shares, for ``source="annotations"``.
        seed: The seed of image noise, of samples of captions, and of all other random numbers.
        replicates: Number of replicates of each bootstrap and of each simulated test.
        confidence: The level of confidence intervals, 0–1; the significance level of tests is 1 − ``confidence``.
        settings: Settings of the pipeline, if images are generated: values by group, as in
            :class:`biaslab.settings.Settings`.

    Raises:
        ParameterError: A parameter is out of range, or a name is unknown.
    """

    def __init__(
        self,
        output_dir: str | Path = "",
        *,
        source: str = "published",
        model: str = "all",
        annotations: str = "",
        seed: int = 0,
        replicates: int = 10_000,
        confidence: float = 0.95,
        settings: dict = _NO_SETTINGS,
    ) -> None:
        check_draws(seed=seed, bootstrap_replicates=replicates, confidence=confidence)
        root = project_root()
        parameters = {"source": source, "model": model, "annotations": annotations, "seed": seed, "settings": settings}
        values = resolve_parameters(parameters, root)
        self._request = Request.from_parameters(values)
        self.draws = {"seed": int(seed), "replicates": int(replicates), "confidence": float(confidence)}
        self.output_dir = root / Path(output_dir or "outputs/explore").expanduser()
        # The folder of the attempt at a run that this process works for, if the study belongs to that run.
        attempt = Path(attempt_folder) if (attempt_folder := os.environ.get(ATTEMPT)) else None
        self._attempt = attempt if attempt and self.output_dir.is_relative_to(attempt.parents[1]) else None
        if self._attempt:
            # Finished parts are renamed, so that processes left by an ended run cannot reach them.
            self.output_dir = self._attempt / self.output_dir.relative_to(self._attempt.parents[1])
        self.source, self.model, self.annotations = values["source"], values["model"], str(values["annotations"])
        self.seed, self.confidence = self.draws["seed"], self.draws["confidence"]
        self._inputs: dict[str, pd.DataFrame] = {}
        self._records: dict[str, list] = {"figures": [], "tables": [], "findings": []}
        # By measured table: its models whose rows are printed by a paper.
        self._printed: dict[str, list[str]] = {}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Study:
        """Return the study with the parameters of a notebook: the ``globals()`` of its parameters cell.

        The parameter ``bootstrap_replicates`` is used as the argument ``replicates``. Names that are not arguments of
        :class:`Study` are ignored. Raises ParameterError: A parameter is out of range, or a name is unknown.
        """
        arguments = {**parameters, "replicates": parameters.get("bootstrap_replicates", 10_000)}
        return cls(**{name: arguments[name] for name in signature(cls).parameters if name in arguments})

    # -- inputs and tables ---------------------------------------------------------------------------

    def load(self, measure: Callable | str, *, optional: bool = False) -> pd.DataFrame:
        """Return measurements from the study's source, for the study's model and its baselines.

        The result has no rows if the source contains the model only in other tables of the paper.

        Args:
            measure: The function that measures them, such as ``paradox.percent_female``. For a source with a pipeline,
                it is called. Other sources are searched for the table with its paper and name.
            optional: Whether to return a table without rows if the source has no such measurements.

        Raises:
            InputError: The source's data do not fit the table.
            MissingInputError: The source has no such measurements.
            UnknownNameError: There is no such table, or the source has no such model.
        """
        import pandas as pd

        name = table_of(measure)
        if optional and (reason := self._missing_reason(name)) is not None:
            print(f"The source {self.source!r} has no table {name}. {reason}".strip())
            return tables.check(pd.DataFrame(columns=tables.schema(name).names), name)
        frame = self._read_table(name)
        if self._takes_all(frame):
            return frame
        if self.model not in set(frame["model"]):
            # A paper may have measured some of its models in some sections only.
            paper = name.partition("_")[0]
            if self.model not in (sources.models(paper, source=self.source, annotations=self.annotations) or ()):
                kind = f"model in {name} ({self.source})"
                raise unknown_name(kind, self.model, sorted(set(frame["model"])))
            print(f"In the source {self.source!r}, the table {name} does not contain {self.model}.")
        baselines = self._printed[name] if self._request.baselines else ()
        return frame[frame["model"].isin([self.model, *baselines])].reset_index(drop=True)

    def has_table(self, measure: Callable | str) -> bool:
        """Return whether the source has the table that ``measure`` measures, with rows for the study's model."""
        return self._missing_reason(table_of(measure)) is None

    def _missing_reason(self, name: str) -> str | None:
        """Return why the source lacks a table with rows for the study's model; None if it has such a table."""
        if not sources.has_table(name, source=self.source, baselines=self._request.baselines):
            return ""
        try:
            frame = self._read_table(name)
        except MissingInputError as error:
            return str(error)
        return None if self._takes_all(frame) or self.model in set(frame["model"]) else ""

    def _takes_all(self, frame: pd.DataFrame) -> bool:
        return self.model == "all" or sources.makes_images(self.source) or "model" not in frame.columns

    def _read_table(self, name: str) -> pd.DataFrame:
        """Return a measured table for all models, and save it with the results, which can be the source of a run."""
        if name not in self._inputs:
            options: dict[str, Any] = {
                "source": self.source,
                "annotations": self.annotations,
                "baselines": self._request.baselines,
            }
            options["pipeline"] = self.pipeline if sources.makes_images(self.source) else None
            with working(f"measuring {name}", self._progress_file):
                self._inputs[name] = sources.load_measured(name, **options)
            folder = (self._attempt or self._shared_folder) / sources.MEASURED
            with self._guard_write(path := folder / f"{name}.csv"):
                tables.write(self._inputs[name], path)
            self._printed[name] = sources.printed_models(name, self._inputs[name])
            self._write_records()
        return self._inputs[name].copy()

    # -- images --------------------------------------------------------------------------------------

    @cached_property
    def settings(self) -> Settings:
        """The settings of the pipeline: those specified, then those of the model, then the defaults."""
        return self._request.filled_settings

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline that generates and judges images. Raises MissingInputError: The source has only tables."""
        if not sources.makes_images(self.source):
            raise MissingInputError(
                f"This needs images, but the source {self.source!r} has only tables. Set source to 'pipeline', and set "
                "a model and settings."
            )
        return self._request.pipeline(progress_file=self._progress_file)

    @property
    def real_faces(self) -> bool:
        """Whether the images of captions may show real people: true for all images except drawings."""
        return not sources.makes_images(self.source) or self.pipeline.training_domain != registry.DRAWINGS

    @property
    def pipelines(self) -> dict[str, Pipeline]:
        """The pipelines of the study's model and its baselines, by model label; empty if the source has only tables."""
        images = sources.makes_images(self.source)
        return {p.label: p for p in (self.pipeline, *self.pipeline.baseline_pipelines)} if images else {}

    def images(self, kind: str) -> ImageSource:
        """Return images of a kind in :data:`biaslab.pipeline.KINDS`; see :meth:`biaslab.pipeline.Pipeline.images`."""
        return self.pipeline.images(kind)

    def judgements(self, kind: str, *, model: str = "", optional: bool = False) -> pd.DataFrame:
        """Return judgements of images of a kind; see :meth:`biaslab.pipeline.Pipeline.judgements`.

        ``model`` is a key of :attr:`pipelines`, or empty for the study's model. With ``optional``, the result has no
        rows if the source lacks these images, and the reason is printed.

        Raises:
            UnknownNameError: The study has no such model.
        """
        if model and model not in self.pipelines:
            raise unknown_name("model of this study", model, self.pipelines)
        try:
            return (self.pipelines[model] if model else self.pipeline).judgements(kind)
        except MissingInputError as missing:
            if not optional:
                raise
            import pandas as pd

            print(f"No images: {missing}")
            columns = ("prompt", "occupation", "text", "caption_id", "indicator", "rank")
            return pd.DataFrame(columns=["image_id", *columns, "status", "gender", "probability_female"])

    # -- analyses that take long -------------------------------------------------------------------------

    def memoize(self, analysis: Callable[..., pd.DataFrame], *frames: pd.DataFrame, **options: object) -> pd.DataFrame:
        """Return ``analysis(*frames, **options)`` from a cache on disk, or compute it.

        The analysis is a pure function, such as ``paradox.amplification``. If it accepts seed, replicates and
        confidence, these are the study's. The key of the cached result contains the frames, the options and the code of
        the analysis. Raises RunError: The disk is full.
        """
        accepted = signature(analysis).parameters
        options = {name: value for name, value in self.draws.items() if name in accepted} | options
        key = hashlib.sha256(f"{code_digest.digest(analysis)} {sorted(options.items())}".encode())
        for frame in frames:
            key.update(frame.to_csv(index=False, float_format="%.17g").encode())
        path = self._shared_folder / ".cache" / f"{analysis.__name__}-{key.hexdigest()[:24]}.parquet"
        with self._guard_write(path):
            frame = result_cache.compute_or_load(path, lambda: analysis(*frames, **options))
        # Texts have the dtype object, as the analysis returns them.
        return frame.astype(dict.fromkeys(frame.select_dtypes("string").columns, object))

    @contextmanager
    def _guard_write(self, path: Path) -> Iterator[None]:
        """Guard a write to ``path``: raise RunError if the disk is full, or if this notebook's run has ended."""
        if self._attempt is not None and not self._attempt.is_dir():
            raise RunError(
                f"The run of this notebook has ended, so {path.name} is not written: the folder "
                f"{self._shared_folder.parent} may already belong to another run. Start the run again."
            )
        with result_cache.explain_errors(path, _CACHED_HINT):
            yield

    @cached_property
    def _shared_folder(self) -> Path:
        """The folder that the notebooks of a run share, with its parts; :attr:`output_dir` outside a run."""
        parts = [folder for folder in self.output_dir.parents if folder.name == PARTS]
        return parts[0] if parts else self.output_dir

    @property
    def _progress_file(self) -> Path | None:
        """The file for the progress of stages in a run; None outside a run, where the cell's output shows it."""
        return None if self._shared_folder == self.output_dir else self.output_dir / PROGRESS

    # -- results -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """Return a text that states the source of inputs, the model, the seed and the folder of results."""
        model = redact.basename(self.model)
        if sources.makes_images(self.source):
            model = redact.basename(self._request.generating_model)
            origin = f"images generated by {model} and judged in this run"
        elif self.source == "published":
            origin = "values published in the papers"
        else:
            names = {"annotations": f"annotations in {redact.basename(self.annotations)}"}
            origin = names.get(self.source, f"measured tables in {redact.basename(self.source)}")
        folder, root = self._shared_folder, project_root()
        folder = folder.parent if folder.name == PARTS else folder
        destination = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else folder.name
        return f"Study: {origin}\n  model   {model}\n  seed    {self.seed}\n  results {destination}"

    def save(self, name: str, frame: pd.DataFrame) -> pd.DataFrame:
        """Save a table for the report, and return it as saved: checked, with declared columns first and in order.

        ``name`` is ``<paper>_<name>``, as declared in the paper's ``tables.yaml``, or a name of your own, such as
        ``my_table``. A table with a name of your own is saved unchanged. A table without rows is saved with its
        columns, and the report does not list it.

        Raises:
            InputError: The table does not fit its declaration.
            ParameterError: The name contains characters other than lower-case letters, digits and underscores.
            UnknownNameError: The name begins with the name of a paper, and no such table is declared.
        """
        _check_name(name)
        frame = tables.check(frame, name)
        with self._guard_write(path := self.output_dir / "tables" / f"{name}.csv"):
            tables.write(frame, path)
        self._record("tables", {"name": name})
        if frame.empty:
            print(f"The source has no measurements for the table {name}, or no person could be classified.")
        frame.attrs["table"] = name
        return frame

    def table(self, frame: pd.DataFrame, *columns: str, name: str = "") -> TableLayout:
        """Return rows of a table, formatted for a notebook (see :func:`biaslab.schema.table_layout.lay_out`).

        Args:
            frame: The result of :meth:`save`, or a subset of its rows.
            columns: The columns to show, in order; by default all.
            name: The table that declares the columns, if the rows are not from :meth:`save`.

        Raises:
            ParameterError: The rows have no table name.
            UnknownNameError: There is no such column.
        """
        name = name or frame.attrs.get("table", "")
        if not name:
            raise ParameterError("These rows have no table name; pass name='…'.")
        return lay_out(frame, tables.schema(name), columns)

    def show(
        self, name: str, figure: Figure, *, text: str = "", model_shown: str = "", main: bool = False, **facts: Any
    ) -> None:
        """Show a figure with its title and caption, save it for the report, and close it.

        A figure without data is not saved; its text is printed instead.

        Args:
            name: ``<paper>_<name>``: lower-case words joined by underscores.
            figure: The figure.
            text: Name of the figure's text in the paper's ``texts.yaml``; by default the name of the figure.
            model_shown: The key in :attr:`pipelines` of the model whose images the figure shows. With several
                pipelines, the title names this model.
            main: Whether the report's first page shows the figure.
            facts: Values for the names in braces in the text. ``level``, such as ``95%`` for 95% intervals, is added.
                For a figure of your own, ``title`` and ``caption``.

        Raises:
            ParameterError: The name contains other characters, or a value for the text is missing.
            UnknownNameError: The name begins with the name of a paper, and there is no such text.
        """
        import matplotlib as mpl
        import matplotlib.pyplot as plt
        from matplotlib.text import Text

        from biaslab.plots import style

        text = text or name
        model_names = list(self.pipelines) if model_shown else []
        if model_shown in model_names[1:]:
            name = f"{name}_{texts.as_name(model_shown)}"
        _check_name(name)
        png, svg = (self.output_dir / "figures" / f"{name}.{kind}" for kind in ("png", "svg"))
        if not any(_is_data(artist, ax) for ax in figure.axes for artist in ax.get_children()):
            # Remove the files of an earlier call with other data.
            for path in (png, svg):
                path.unlink(missing_ok=True)
            self._records["figures"] = [r for r in self._records["figures"] if r["name"] != name]
            self._write_records()
            message = " ".join(text.get_text() for ax in figure.axes for text in ax.texts)
            print(message or f"The figure {name} is empty: every value is missing, for the reasons in its table.")
            plt.close(figure)
            return
        facts["level"] = format_level(facts.get("confidence", self.confidence))
        title, caption = texts.of_figure(text, facts)
        title = f"{title}: {model_shown}" if len(model_names) > 1 else title
        generation = self.describe_generation(name.split("_")[0]) if self._inputs or "pipeline" in vars(self) else ""
        caption = f"{caption} {generation}".strip()
        # With a fixed salt and no date, equal figures have equal bytes; images in them stay unchanged.
        options: Any = {"svg.hashsalt": name, "svg.fonttype": "none", "image.composite_image": False}
        if lacking := style.choose_fonts(figure):
            warnings.warn(
                f"No font on this machine contains all characters of {', '.join(lacking)}. {png.name} shows boxes in "
                f"their place, so {svg.name} is displayed instead. Install a font for this script, such as Noto Sans "
                "Arabic.",
                stacklevel=2,
            )
        with self._guard_write(png), mpl.rc_context(options | _NO_LAYOUT):
            png.parent.mkdir(parents=True, exist_ok=True)
            page = _lay_out(figure)
            labels = (label for label in figure.findobj(Text) if label.get_visible() and label.get_text().strip())
            # In points.
            smallest = min((float(label.get_fontsize()) for label in labels), default=11.0)
            _save_png(figure, png, page)
            figure.savefig(svg, bbox_inches=page, facecolor="white", metadata={"Date": None})
        record = {"name": name, "title": title, "caption": caption, "alt": caption, "main": bool(main)}
        # Files in the order in which pages show them.
        kinds = ["svg", "png"] if lacking else ["png", "svg"]
        self._record("figures", record | {"smallest": smallest, "kinds": kinds})
        _display(png, svg if lacking else png, caption)
        plt.close(figure)

    def answer(self, answer: Answer, frame: pd.DataFrame) -> None:
        """Show an answer, such as ``paradox.answers.baseline``, for rows of a table, and record it for the report.

        If there is no result, a message is printed. Raises InputError: The rows lack columns that the answer needs.
        """
        findings = answer.findings(frame, confidence=self.confidence)
        self.report_findings(findings, main=answer.main, card=answer.card, card_printed=answer.card_printed)

    def report_findings(
        self, *findings: Finding | Iterable[Finding], main: bool = False, card: int = 0, card_printed: int = 0
    ) -> None:
        """Show findings, or lists of findings, and record them for the report; without findings, a message is printed.

        The report shows ``main`` findings first in the section of their paper. ``card`` is their position among the
        cards at the top of the report, from 1. ``card_printed`` replaces it if the values of all their models are
        published values.
        """
        from IPython import get_ipython
        from IPython.display import display

        all_findings = [f for item in findings for f in ([item] if isinstance(item, Finding) else item)]
        printed = self.printed_models if all_findings else set()
        model_sets = [set(frame["model"]) for frame in self._inputs.values() if "model" in frame]
        for finding in all_findings:
            # A finding about several models names them: "A and B", or "A, B, C"; without a model it is about all.
            names = {finding.model} & printed or set(re.split(", | and ", finding.model))
            models = names if finding.model else set().union(*model_sets)
            is_printed = bool(models) and models <= printed
            place = (is_printed and card_printed) or card
            record = {"main": bool(main or place), "card": int(place), "printed": is_printed}
            self._record("findings", finding.as_record() | record)
            # Outside IPython it is printed as text.
            (print if get_ipython() is None else display)(finding)
        if not all_findings:
            print("The source has no measurements for this answer, or no person could be classified.")

    @property
    def printed_models(self) -> set[str]:
        """Models for which all measurements read so far are published values."""
        by_table = {
            name: set(frame["model"])
            for name, frame in self._inputs.items()
            if "model" in frame.columns and name != "pipeline_settings"
        }
        models = set().union(*by_table.values())
        return models.difference(*(names.difference(self._printed[name]) for name, names in by_table.items()))

    def describe_generation(self, paper: str = "") -> str:
        """Return how the images of this study were generated, in one sentence per model; empty for published values.

        For an analysis across papers, the guidance scale of every paper's prompts is stated; otherwise, that of the
        prompts of ``paper``.
        """
        name = "pipeline_settings"
        if not self.has_table(name):
            return ""
        papers, sentences = tables.papers(), []
        is_across = not paper or (paper in papers and not papers[paper].drawn)
        for model, rows in self.load(name).groupby("model", sort=False):
            model, value = str(model), rows.set_index("setting")["set_to"]
            plugin, description = registry.find_plugin(model, "text-to-image"), registry.describe(model, "made")
            if plugin and plugin.factory:
                sentences.append(f"{model}: {description}.")
            elif {"generation.guidance_scale", "generation.steps"} <= set(value.index):
                default = value["generation.guidance_scale"]
                steps = _describe_setting(value["generation.steps"], "{} denoising steps")
                # A paper's prompts may have another guidance scale.
                scales = {key: value.get(f"{key}.guidance_scale", "null") for key in papers}
                scales = {key: scale for key, scale in scales.items() if scale != "null"}
                guidance = _describe_setting(default if is_across else scales.get(paper, default), "guidance scale {}")
                if is_across and scales:
                    exceptions = (f"{float(scale):g} for {papers[key].title}" for key, scale in scales.items())
                    guidance += f" ({', '.join(exceptions)})"
                subject = f"Images generated by {model}" + (f" ({description})" if description else "")
                sentences.append(f"{subject}: {guidance}, {steps}.")
        return " ".join(sentences)

    def _record(self, kind: str, record: dict) -> None:
        """Add a record; it replaces an earlier record with the same keys."""
        keys = ("model", "question", "answer", "numbers") if kind == "findings" else ("name",)
        other_records = [r for r in self._records[kind] if any(r[k] != record[k] for k in keys)]
        self._records[kind] = [*other_records, record]
        self._write_records()

    def _write_records(self) -> None:
        content = json.dumps({**self._records, "printed": self._printed}, ensure_ascii=False, indent=1)
        with self._guard_write(path := self.output_dir / "records.json"):
            self.output_dir.mkdir(parents=True, exist_ok=True)
            result_cache.replace(path, content.encode(errors="replace"))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ParameterError(f"{name!r} is not a valid name; use lower-case words joined by underscores.")


def _is_data(artist: Artist, ax: Axes) -> bool:
    """Return whether an artist has finite positions in data coordinates of both axes, or is an image."""
    import numpy as np
    from matplotlib.collections import Collection
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if isinstance(artist, AxesImage):
        return True
    if isinstance(artist, Collection):
        return bool(np.isfinite(artist.get_datalim(ax.transData).get_points()).all())
    # The background is a patch in axes coordinates; a reference line has blended ones.
    if not all(artist.get_transform().contains_branch_seperately(ax.transData)):
        return False
    if isinstance(artist, Line2D):
        return bool(np.isfinite(artist.get_xydata()).all(axis=1).any())
    return isinstance(artist, Patch)


_DPI = 170
# The layout engine is removed after layout: with one, each save would draw the figure again. After saving, matplotlib
# gives a figure without an engine the one that these options name.
_NO_LAYOUT = {"figure.autolayout": False, "figure.constrained_layout.use": False}


def _lay_out(figure: Figure) -> Bbox:
    """Lay out a figure once for all formats, under :data:`_NO_LAYOUT`; return its bounding box in inches."""
    import matplotlib as mpl

    # The layout uses the PNG's resolution: glyph widths are whole pixels, so text lengths depend on it.
    figure.set_dpi(_DPI)
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)
    return figure.get_tightbbox().padded(mpl.rcParams["savefig.pad_inches"])


def _save_png(figure: Figure, path: Path, page: Bbox) -> None:
    """Write a figure as PNG of 256 colours, which suffice for charts and keep reports small."""
    import numpy as np
    from PIL import Image

    buffer = BytesIO()
    # Without compression, because it is read immediately.
    png_options = {"compress_level": 0}
    figure.savefig(buffer, format="png", dpi=_DPI, bbox_inches=page, facecolor="white", pil_kwargs=png_options)
    image = Image.open(buffer).convert("RGB")
    # A median cut takes six times as long, for colours that are closer by about one level of 255.
    palette_image = image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    # The quantization merges the background with colours that are nearly as light; restore it.
    colours, corner, shade = palette_image.getpalette() or [], np.asarray(palette_image)[0, 0], np.asarray(image)[0, 0]
    colours[3 * corner : 3 * corner + 3] = shade.tolist()
    palette_image.putpalette(colours)
    palette_image.save(path, dpi=(_DPI, _DPI))


def _display(png: Path, file: Path, alt: str) -> None:
    """Show a saved figure in a notebook, in the size of its PNG, with a text alternative."""
    from IPython import get_ipython
    from IPython.display import SVG, Image, display
    from matplotlib import rcParams
    from PIL import Image as Opened

    if get_ipython() is None:
        return
    with Opened.open(png) as opened:
        width, height = (round(pixels * rcParams["figure.dpi"] / _DPI) for pixels in opened.size)
    about = {"alt": alt, "width": width, "height": height}
    if file == png:
        display(Image(data=png.read_bytes(), format="png"), metadata={"image/png": about})
    else:
        display(SVG(file.read_text(encoding="utf-8")), metadata={"image/svg+xml": about})
