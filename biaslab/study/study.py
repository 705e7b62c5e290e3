"""What a notebook holds: where its inputs come from, and where its tables, figures and findings go."""

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
# The file there that says how far a notebook's stages are.
PROGRESS = "progress.log"
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
_KEPT = "Finished results are cached: {fix} and run it again."
# A dict, as notebooks have it; never written to.
_NO_SETTINGS: dict = {}


def _describe_setting(value: str, words: str) -> str:
    """Return a setting of images in words, such as ``guidance 7.5``, by words for a value."""
    if value in ("null", "none"):
        what = words.replace("{}", "").strip()
        return f"no {what}" if value == "none" else f"{what} of its own"
    return words.format(f"{float(value):g}")


class Study:
    """The inputs, tables and results of one notebook.

    Args:
        output_dir: Where tables, figures and findings go; empty for ``outputs/explore``. Paths count from the
            project's folder, wherever in it the notebook stands.
        source: ``published`` (the papers' printed numbers), ``annotations`` (the file ``annotations``), ``pipeline``
            (images are generated and judged here, with the models and captions that ``model`` and ``settings`` name),
            the name of a model that an installed package brings (the same with that model and its own settings), or a
            folder with measured tables, such as another run's.
        model: The model to look at, or ``all`` that the source has; where images are generated the one that makes them:
            a folder or a hub name, ``all`` being the model that the source names.
        annotations: A file of annotations or shares, for ``source="annotations"``.
        seed: The seed of images' noise, of samples of captions and of every other random draw.
        replicates: Replicates of each bootstrap and of each test by simulation.
        confidence: The level of intervals, 0–1; one less it is the level of tests.
        settings: What the pipeline does, where images are generated: values by group, as
            :class:`biaslab.settings.Settings` has them.

    Raises:
        ParameterError: A parameter is out of its range, or a name is unknown.
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
        given = {"source": source, "model": model, "annotations": annotations, "seed": seed, "settings": settings}
        asked = resolve_parameters(given, root)
        self._request = Request.from_parameters(asked)
        self.draws = {"seed": int(seed), "replicates": int(replicates), "confidence": float(confidence)}
        self.output_dir = root / Path(output_dir or "outputs/explore").expanduser()
        # The folder of the start of a run that this process works for, where the study is a part of that run.
        attempt = Path(named) if (named := os.environ.get(ATTEMPT)) else None
        self._attempt = attempt if attempt and self.output_dir.is_relative_to(attempt.parents[1]) else None
        if self._attempt:
            # A part becomes whole under another name, and nothing that an ended run left alive can reach it.
            self.output_dir = self._attempt / self.output_dir.relative_to(self._attempt.parents[1])
        self.source, self.model, self.annotations = asked["source"], asked["model"], str(asked["annotations"])
        self.seed, self.confidence = self.draws["seed"], self.draws["confidence"]
        self._inputs: dict[str, pd.DataFrame] = {}
        self._records: dict[str, list] = {"figures": [], "tables": [], "findings": []}
        # By measured table: its models whose rows are what a paper prints.
        self._printed: dict[str, list[str]] = {}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Study:
        """Return the study with a notebook's parameters: the ``globals()`` of its parameters cell.

        ``bootstrap_replicates`` is the argument ``replicates``. Names that are no argument of :class:`Study` are
        ignored. Raises ParameterError: A parameter is out of its range, or a name is unknown.
        """
        named = {**parameters, "replicates": parameters.get("bootstrap_replicates", 10_000)}
        return cls(**{name: named[name] for name in signature(cls).parameters if name in named})

    # -- inputs and tables ---------------------------------------------------------------------------

    def load(self, what: Callable | str, *, optional: bool = False) -> pd.DataFrame:
        """Return measurements from this study's source, for this study's model and what is next to it.

        Of a model that the source knows from other tables of the paper only there are no rows.

        Args:
            what: What measures them, such as ``paradox.percent_female``: called here where the source is a pipeline,
                and looked up under its paper and name in any other source.
            optional: Whether a source without these measurements gives a table without rows.

        Raises:
            InputError: The source's data do not fit the table.
            MissingInputError: The source has no such measurements.
            UnknownNameError: There is no such table, or the source has no such model.
        """
        import pandas as pd

        name = table_of(what)
        if optional and (why := self._why_missing(name)) is not None:
            print(f"The source {self.source!r} has no {name}. {why}".strip())
            return tables.check(pd.DataFrame(columns=tables.schema(name).names), name)
        frame = self._read(name)
        if self._takes_all(frame):
            return frame
        if self.model not in set(frame["model"]):
            # A paper may have measured some of its models in some sections only.
            paper = name.partition("_")[0]
            if self.model not in (sources.models(paper, source=self.source, annotations=self.annotations) or ()):
                kind = f"model in {name} ({self.source})"
                raise unknown_name(kind, self.model, sorted(set(frame["model"])))
            print(f"The source {self.source!r} has no {name} of {self.model}.")
        baselines = self._printed[name] if self._request.baselines else ()
        return frame[frame["model"].isin([self.model, *baselines])].reset_index(drop=True)

    def has_table(self, what: Callable | str) -> bool:
        """Return whether the source holds what ``what`` measures, with rows of this study's model."""
        return self._why_missing(table_of(what)) is None

    def _why_missing(self, name: str) -> str | None:
        """Return why the source does not hold a table with rows of this study's model; None where it does."""
        if not sources.has_table(name, source=self.source, baselines=self._request.baselines):
            return ""
        try:
            frame = self._read(name)
        except MissingInputError as error:
            return str(error)
        return None if self._takes_all(frame) or self.model in set(frame["model"]) else ""

    def _takes_all(self, frame: pd.DataFrame) -> bool:
        return self.model == "all" or sources.makes_images(self.source) or "model" not in frame.columns

    def _read(self, name: str) -> pd.DataFrame:
        """Return a measured table whole, and write it next to the results: a run's folder is a source, too."""
        if name not in self._inputs:
            options: dict[str, Any] = {
                "source": self.source,
                "annotations": self.annotations,
                "baselines": self._request.baselines,
            }
            options["pipeline"] = self.pipeline if sources.makes_images(self.source) else None
            with working(f"measuring {name}", self._progress_file):
                self._inputs[name] = sources.load_measured(name, **options)
            folder = (self._attempt or self._common) / sources.MEASURED
            with self._writing(path := folder / f"{name}.csv"):
                tables.write(self._inputs[name], path)
            self._printed[name] = sources.printed_models(name, self._inputs[name])
            self._write_records()
        return self._inputs[name].copy()

    # -- images --------------------------------------------------------------------------------------

    @cached_property
    def settings(self) -> Settings:
        """What the pipeline does: the settings given, what the model brings for others, and defaults."""
        return self._request.filled_settings

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline that makes and judges images here; a MissingInputError where the source has tables only."""
        if not sources.makes_images(self.source):
            raise MissingInputError(
                f"This needs images, and source {self.source!r} has tables only: set source to 'pipeline' with a model "
                "and settings."
            )
        return self._request.pipeline(progress_file=self._progress_file)

    @property
    def real_faces(self) -> bool:
        """Whether images behind captions may show real people: all but drawings do."""
        return not sources.makes_images(self.source) or self.pipeline.training_domain != registry.DRAWINGS

    @property
    def pipelines(self) -> dict[str, Pipeline]:
        """The pipelines of this study's model and of those next to it, by what tables call the model; else none."""
        images = sources.makes_images(self.source)
        return {one.label: one for one in (self.pipeline, *self.pipeline.baseline_pipelines)} if images else {}

    def images(self, kind: str) -> ImageSource:
        """Return images of one of :data:`biaslab.pipeline.KINDS`, as :meth:`biaslab.pipeline.Pipeline.images`."""
        return self.pipeline.images(kind)

    def judgements(self, kind: str, *, model: str = "", optional: bool = False) -> pd.DataFrame:
        """Return what gate and judge made of images of a kind, as :meth:`biaslab.pipeline.Pipeline.judgements`.

        ``model`` is one of :attr:`pipelines`, empty the study's own. With ``optional`` a source without these images
        gives a table without rows, and says why.

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
            of = ("prompt", "occupation", "text", "caption_id", "indicator", "rank")
            return pd.DataFrame(columns=["image_id", *of, "status", "gender", "probability_female"])

    # -- analyses that take long -------------------------------------------------------------------------

    def memoize(self, analysis: Callable[..., pd.DataFrame], *frames: pd.DataFrame, **options: object) -> pd.DataFrame:
        """Return ``analysis(*frames, **options)``, a pure function such as ``paradox.amplification``, computed once.

        Seed, replicates and confidence are the study's, where the analysis takes them. The result is kept on disk,
        keyed by the frames, the options and the code of the analysis. RunError: The disk is full.
        """
        taken = signature(analysis).parameters
        options = {name: value for name, value in self.draws.items() if name in taken} | options
        key = hashlib.sha256(f"{code_digest.digest(analysis)} {sorted(options.items())}".encode())
        for frame in frames:
            key.update(frame.to_csv(index=False, float_format="%.17g").encode())
        path = self._common / ".cache" / f"{analysis.__name__}-{key.hexdigest()[:24]}.parquet"
        with self._writing(path):
            frame = result_cache.compute_or_load(path, lambda: analysis(*frames, **options))
        # Texts are objects, as the analysis gives them.
        return frame.astype(dict.fromkeys(frame.select_dtypes("string").columns, object))

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        """Write something at ``path``, unless the disk is full, or the run that this notebook is part of has ended."""
        if self._attempt is not None and not self._attempt.is_dir():
            raise RunError(
                f"The run that this notebook is part of has ended, so {path.name} is not written: its folder "
                f"{self._common.parent} may be another run's by now. Start the run again."
            )
        with result_cache.explain_errors(path, _KEPT):
            yield

    @cached_property
    def _common(self) -> Path:
        """What the notebooks of a run share: the folder of its parts; alone, a notebook has its own."""
        parts = [folder for folder in self.output_dir.parents if folder.name == PARTS]
        return parts[0] if parts else self.output_dir

    @property
    def _progress_file(self) -> Path | None:
        """Where stages show progress in a run; alone, a notebook shows it below the cell."""
        return None if self._common == self.output_dir else self.output_dir / PROGRESS

    # -- results -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """Return where inputs come from and where results go."""
        model = redact.basename(self.model)
        if sources.makes_images(self.source):
            model = redact.basename(self._request.generating_model)
            come = f"images generated and judged here, by {model}"
        elif self.source == "published":
            come = "numbers as the papers print them"
        else:
            what = {"annotations": f"annotations in {redact.basename(self.annotations)}"}
            come = what.get(self.source, f"measured tables in {redact.basename(self.source)}")
        folder, root = self._common, project_root()
        folder = folder.parent if folder.name == PARTS else folder
        go = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else folder.name
        return f"Study: {come}\n  model   {model}\n  seed    {self.seed}\n  results {go}"

    def save(self, name: str, frame: pd.DataFrame) -> pd.DataFrame:
        """Write a table for the report and return it as written: checked, with its columns in declared order, others
        after them.

        ``name`` is ``<paper>_<what>``, as declared in the paper's ``tables.yaml``, or a reader's own, such as
        ``my_table``, which is written as it is. Without rows it is written as well, so that its columns can be read;
        the report does not list it.

        Raises:
            InputError: It does not fit its declaration.
            ParameterError: The name has other characters than lower-case letters, digits and underscores.
            UnknownNameError: It is named as tables of a paper are, and no such table is declared.
        """
        _check_name(name)
        frame = tables.check(frame, name)
        with self._writing(path := self.output_dir / "tables" / f"{name}.csv"):
            tables.write(frame, path)
        self._record("tables", {"name": name})
        if frame.empty:
            print(f"The source has no measurements for the table {name}, or no person could be classified.")
        frame.attrs["table"] = name
        return frame

    def table(self, frame: pd.DataFrame, *columns: str, name: str = "") -> TableLayout:
        """Return rows of a table in words, for a notebook: as :func:`biaslab.schema.table_layout.lay_out`, by the
        table's name.

        Args:
            frame: What :meth:`save` returned, or a part of it.
            columns: Which columns are shown, in order; all where none is named.
            name: The table that declares the columns, of rows that come from elsewhere.

        Raises:
            ParameterError: It is not known which table the rows are of.
            UnknownNameError: There is no such column.
        """
        name = name or frame.attrs.get("table", "")
        if not name:
            raise ParameterError("These rows have no table name: give it as name='…'.")
        return lay_out(frame, tables.schema(name), columns)

    def show(
        self, name: str, figure: Figure, *, text: str = "", model_shown: str = "", main: bool = False, **facts: Any
    ) -> None:
        """Show a figure with its title and caption, write it for the report, and close it.

        A figure that draws nothing is no result: what it says instead is printed, and nothing is written.

        Args:
            name: ``<paper>_<what>``: lower-case words joined by underscores.
            figure: The figure.
            text: Name of its text in the paper's ``texts.yaml``; its own name where empty.
            model_shown: One of :attr:`pipelines`, whose images it shows; where there are several, titles name it.
            main: Whether the report's first page shows it.
            facts: What the text names in braces, next to ``level``, that of intervals such as ``95 %``; ``title`` and
                ``caption`` of a reader's own figure.

        Raises:
            ParameterError: The name has other characters, or the text names what is not given.
            UnknownNameError: It is named as figures of a paper are, and there is no such text.
        """
        import matplotlib as mpl
        import matplotlib.pyplot as plt
        from matplotlib.text import Text

        from biaslab.plots import style

        text = text or name
        several = list(self.pipelines) if model_shown else []
        if model_shown in several[1:]:
            name = f"{name}_{texts.as_name(model_shown)}"
        _check_name(name)
        png, svg = (self.output_dir / "figures" / f"{name}.{kind}" for kind in ("png", "svg"))
        if not any(_is_data(artist, ax) for ax in figure.axes for artist in ax.get_children()):
            # What an earlier call with other data left of it goes.
            for path in (png, svg):
                path.unlink(missing_ok=True)
            self._records["figures"] = [r for r in self._records["figures"] if r["name"] != name]
            self._write_records()
            said = " ".join(text.get_text() for ax in figure.axes for text in ax.texts)
            print(said or f"The figure {name} is empty: every value is missing, for the reasons in its table.")
            plt.close(figure)
            return
        facts["level"] = format_level(facts.get("confidence", self.confidence))
        title, caption = texts.of_figure(text, facts)
        title = f"{title}: {model_shown}" if len(several) > 1 else title
        made = self.describe_generation if self._inputs or "pipeline" in vars(self) else ""
        caption = f"{caption} {made}".strip()
        # A fixed salt and no date make the same figure the same bytes; images in it stay as they are.
        options: Any = {"svg.hashsalt": name, "svg.fonttype": "none", "image.composite_image": False}
        if lacking := style.choose_fonts(figure):
            warnings.warn(
                f"No font of this machine has all letters of {', '.join(lacking)}. {png.name} shows boxes in their "
                f"place; {svg.name} is shown instead. Install a font, such as Noto Sans.",
                stacklevel=2,
            )
        with self._writing(png), mpl.rc_context(options | _NO_LAYOUT):
            png.parent.mkdir(parents=True, exist_ok=True)
            page = _lay_out(figure)
            words = (said for said in figure.findobj(Text) if said.get_visible() and said.get_text().strip())
            # In points.
            smallest = min((float(said.get_fontsize()) for said in words), default=11.0)
            _save_png(figure, png, page)
            figure.savefig(svg, bbox_inches=page, facecolor="white", metadata={"Date": None})
        record = {"name": name, "title": title, "caption": caption, "alt": caption, "main": bool(main)}
        # Files in the order in which pages show them.
        kinds = ["svg", "png"] if lacking else ["png", "svg"]
        self._record("figures", record | {"smallest": smallest, "kinds": kinds})
        _display(png, svg if lacking else png, caption)
        plt.close(figure)

    def answer(self, answer: Answer, frame: pd.DataFrame) -> None:
        """Show what rows of a table answer, such as ``paradox.answers.baseline``, and record it for the report.

        Where they say nothing, that is said. InputError: The rows have not the columns that it reads.
        """
        found = answer.findings(frame, confidence=self.confidence)
        self.report_findings(found, main=answer.main, card=answer.card, card_printed=answer.card_printed)

    def report_findings(
        self, *findings: Finding | Iterable[Finding], main: bool = False, card: int = 0, card_printed: int = 0
    ) -> None:
        """Show findings, or lists of them, and record them for the report; where there are none, that is said.

        ``main`` ones are among the first that the report says of their paper. ``card`` is their place among the cards
        that it opens with, from 1; ``card_printed`` where all their models are printed ones.
        """
        from IPython import get_ipython
        from IPython.display import display

        each = [f for given in findings for f in ([given] if isinstance(given, Finding) else given)]
        printed = self.printed_models if each else set()
        known = [set(frame["model"]) for frame in self._inputs.values() if "model" in frame]
        for finding in each:
            # One about several models names them: "A and B", or "A, B, C"; one about none is about all.
            named = {finding.model} & printed or set(re.split(", | and ", finding.model))
            about = named if finding.model else set().union(*known)
            alone = bool(about) and about <= printed
            place = (alone and card_printed) or card
            record = {"main": bool(main or place), "card": int(place), "printed": alone}
            self._record("findings", finding.as_record() | record)
            # As text where nothing shows more.
            (print if get_ipython() is None else display)(finding)
        if not each:
            print("The source has no measurements for this answer, or no person could be classified.")

    @property
    def printed_models(self) -> set[str]:
        """Models of which every measurement read so far is what a paper prints."""
        by_table = {
            name: set(frame["model"])
            for name, frame in self._inputs.items()
            if "model" in frame.columns and name != "pipeline_settings"
        }
        models = set().union(*by_table.values())
        return models.difference(*(of.difference(self._printed[name]) for name, of in by_table.items()))

    @cached_property
    def describe_generation(self) -> str:
        """How the images behind this study's numbers were made, a sentence a model; empty for printed numbers."""
        name = "pipeline_settings"
        if not self.has_table(name):
            return ""
        said = []
        for model, rows in self.load(name).groupby("model", sort=False):
            model, value = str(model), rows.set_index("setting")["set_to"]
            brought, told = registry.find_plugin(model, "text-to-image"), registry.describe(model, "made")
            if brought and brought.factory:
                said.append(f"{model}: {told}.")
            elif {"generation.guidance_scale", "generation.steps"} <= set(value.index):
                guidance = _describe_setting(value["generation.guidance_scale"], "guidance {}")
                steps = _describe_setting(value["generation.steps"], "{} steps")
                # Images of people whom prompts place may have a guidance of their own.
                own = value.get("paired.guidance_scale", "null")
                pairs = "" if own == "null" else f" ({float(own):g} of people in pairs)"
                named = f"{model} ({told})" if told else model
                said.append(f"{named}: {guidance}{pairs}, {steps}.")
        return " ".join(said)

    def _record(self, kind: str, record: dict) -> None:
        """Add a record, in place of an earlier one of the same."""
        same = ("model", "question", "answer", "numbers") if kind == "findings" else ("name",)
        others = [r for r in self._records[kind] if any(r[k] != record[k] for k in same)]
        self._records[kind] = [*others, record]
        self._write_records()

    def _write_records(self) -> None:
        whole = json.dumps({**self._records, "printed": self._printed}, ensure_ascii=False, indent=1)
        with self._writing(path := self.output_dir / "records.json"):
            self.output_dir.mkdir(parents=True, exist_ok=True)
            result_cache.replace(path, whole.encode(errors="replace"))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ParameterError(f"{name!r} is not a name: use lower-case words joined by underscores.")


def _is_data(artist: Artist, ax: Axes) -> bool:
    """Return whether an artist stands at finite places in both of its axes' data coordinates, or is an image."""
    import numpy as np
    from matplotlib.collections import Collection
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if isinstance(artist, AxesImage):
        return True
    if isinstance(artist, Collection):
        return bool(np.isfinite(artist.get_datalim(ax.transData).get_points()).all())
    # The background is a patch in axes' coordinates, a line across at one value in blended ones.
    if not all(artist.get_transform().contains_branch_seperately(ax.transData)):
        return False
    if isinstance(artist, Line2D):
        return bool(np.isfinite(artist.get_xydata()).all(axis=1).any())
    return isinstance(artist, Patch)


_DPI = 170
# Once it is laid out a figure has no engine: with one, each saving draws all of it again. After saving, matplotlib
# gives a figure without an engine the one that these name.
_NO_LAYOUT = {"figure.autolayout": False, "figure.constrained_layout.use": False}


def _lay_out(figure: Figure) -> Bbox:
    """Place what is in a figure, once for all formats, under :data:`_NO_LAYOUT`; return what it takes up, in inches."""
    import matplotlib as mpl

    # At the PNG's resolution: glyphs are as wide as whole pixels, so at another one texts are longer or shorter.
    figure.set_dpi(_DPI)
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)
    return figure.get_tightbbox().padded(mpl.rcParams["savefig.pad_inches"])


def _save_png(figure: Figure, path: Path, page: Bbox) -> None:
    """Write a figure as PNG of 256 colours: charts need no more, and reports that embed them stay small."""
    import numpy as np
    from PIL import Image

    drawn = BytesIO()
    # Not compressed: it is read at once.
    quick = {"compress_level": 0}
    figure.savefig(drawn, format="png", dpi=_DPI, bbox_inches=page, facecolor="white", pil_kwargs=quick)
    image = Image.open(drawn).convert("RGB")
    # A median cut takes six times as long for colours that are nearer by about one level of 255.
    few = image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    # It takes the background together with what is nearly as light.
    colours, corner, shade = few.getpalette() or [], np.asarray(few)[0, 0], np.asarray(image)[0, 0]
    colours[3 * corner : 3 * corner + 3] = shade.tolist()
    few.putpalette(colours)
    few.save(path, dpi=(_DPI, _DPI))


def _display(png: Path, shown: Path, alt: str) -> None:
    """Show a saved figure in a notebook, in the size of its PNG, with a description for those who cannot see it."""
    from IPython import get_ipython
    from IPython.display import SVG, Image, display
    from matplotlib import rcParams
    from PIL import Image as Opened

    if get_ipython() is None:
        return
    with Opened.open(png) as opened:
        width, height = (round(pixels * rcParams["figure.dpi"] / _DPI) for pixels in opened.size)
    about = {"alt": alt, "width": width, "height": height}
    if shown == png:
        display(Image(data=png.read_bytes(), format="png"), metadata={"image/png": about})
    else:
        display(SVG(shown.read_text(encoding="utf-8")), metadata={"image/svg+xml": about})
