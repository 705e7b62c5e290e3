"""Parsed and checked parameters of a notebook: the source of measured tables, and the models for images."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from biaslab import plugins
from biaslab.errors import ParameterError, name_help
from biaslab.hub import registry
from biaslab.schema import old_names, values

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline
    from biaslab.settings import Settings

PIPELINE = "pipeline"
"""The source whose images are generated and judged in this process, by the models in the parameters."""


@dataclass(frozen=True)
class Request:
    """Parameters of a notebook; :meth:`from_parameters` checks them."""

    source: str = "published"  # One of :func:`names`, or a folder.
    model: str = "all"  # The model to analyse, which also generates images if the source has none.
    settings: Settings | None = None  # As given; None if no images are generated.
    seed: int = 0
    annotations: str = ""  # The file of annotations, for ``source="annotations"``.
    baselines: tuple[str, ...] = ()  # As the setting ``baselines``.

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the request of parameters; those with other names are ignored, missing ones have their defaults.

        Raises:
            ParameterError: The source is neither a named one nor a folder; annotations, a model or settings are
                missing, wrong or not used.
        """
        field_names = (f.name for f in fields(cls) if f.name != "baselines")
        arguments = {name: parameters[name] for name in field_names if parameters.get(name) is not None}
        settings = arguments.pop("settings", {})
        values.check("settings", settings)
        values.check_draws(seed=arguments.get("seed", 0))
        request = cls(**arguments)
        source, annotations, model = request.source, str(request.annotations), request.model
        if source == "annotations" and not annotations:
            raise ParameterError(
                "source is 'annotations', but annotations is empty. Set annotations to a CSV or Parquet file."
            )
        if source != "annotations" and annotations:
            raise ParameterError(
                f"annotations is {annotations!r}, but source is {source!r}. Set source to 'annotations'."
            )
        if not request.makes_images:
            baselines = settings.get("baselines", "none") if isinstance(settings, Mapping) else ""
            baselines = [baselines] if isinstance(baselines, str) else baselines
            if settings and (set(settings) != {"baselines"} or baselines not in (["published"], ["none"])):
                raise ParameterError(
                    f"settings is {settings!r}, but source is {source!r}, which generates no images. Set source to "
                    "'pipeline' and name a model, or set settings to {}, or to {'baselines': 'published'} to add the "
                    "papers' published values to a folder or annotations."
                )
            if source not in names() and not os.path.isdir(source):
                if replacement := old_names.replacement("values", source):
                    raise ParameterError(f"The source {source} is now called {replacement}; use the new name.")
                raise ParameterError(
                    f"source is {source!r}, which is neither {', '.join(map(repr, names()))} nor an existing folder. "
                    f"{name_help(source, names())}"
                )
            return replace(request, baselines=("published",) if "published" in baselines else ())
        # Imported here, as it is not needed to read tables.
        from biaslab.settings import Settings

        checked = Settings.from_mapping(settings)
        if source == PIPELINE and model == "all":
            available = ", ".join(map(repr, plugins.entry_points(plugins.MODELS)))
            raise ParameterError(
                "source is 'pipeline', but model is 'all'. Set model to the model that generates images: a hub name or "
                f"a folder{f', or a model that an installed package provides: {available}' if available else ''}."
            )
        return cls(**arguments | {"settings": checked, "baselines": checked.baselines})

    @classmethod
    def from_pipeline(cls, pipeline: Pipeline) -> Self:
        """Return the request that opens a pipeline like this one."""
        s = pipeline.settings
        return cls(PIPELINE, pipeline.model, s, pipeline.seed, baselines=s.baselines)

    @property
    def makes_images(self) -> bool:
        """Whether images are generated and judged in this process."""
        return makes_images(self.source)

    @property
    def generating_model(self) -> str:
        """The model that generates images."""
        return self.source if self.model == "all" and self.source != PIPELINE else self.model

    @property
    def filled_settings(self) -> Settings:
        """The settings, with the model's own values for those that were not given."""
        from biaslab.settings import Settings

        if self.settings is None:
            return Settings()
        return self.settings.for_model(self.generating_model).with_defaults(registry.settings(self.generating_model))

    def pipeline(self, **options: Any) -> Pipeline:
        """Return a new pipeline that generates and judges the images; ``options`` are passed to it."""
        from biaslab.pipeline import Pipeline
        from biaslab.settings import Settings

        return Pipeline(self.generating_model, self.settings or Settings(), seed=self.seed, **options)

    @cached_property
    def opened(self) -> Pipeline:
        """A pipeline for inspection, which shows no progress."""
        return self.pipeline(progress=False)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def makes_images(source: object) -> bool:
    """Return whether a source's images are generated and judged in this process: ``source`` is ``pipeline``, or the
    name of a model that an installed package provides."""
    return isinstance(source, str) and (source == PIPELINE or source in plugins.entry_points(plugins.MODELS))


def names() -> tuple[str, ...]:
    """Return the names of sources; all other sources are folders."""
    return ("published", "annotations", PIPELINE, *plugins.entry_points(plugins.MODELS))


def resolve_parameters(parameters: Mapping[str, Any], start: Path | None = None) -> dict[str, Any]:
    """Return parameters with absolute paths, resolved relative to ``start``, by default the working folder.

    Raises:
        ParameterError: The source is neither a named one nor a folder.
    """
    start, out = start or Path.cwd(), dict(parameters)
    if out.get("annotations"):
        out["annotations"] = str((start / os.path.expanduser(out["annotations"])).resolve())
    out["source"] = "published" if out["source"] is None else out["source"]
    if makes_images(out["source"]):
        from biaslab.pipeline.paths import resolve_paths

        model, settings = resolve_paths(out.get("model", "all"), out.get("settings", {}), start)
        out |= {name: value for name, value in (("model", model), ("settings", settings)) if name in out}
    elif out["source"] not in names():
        folder = start / os.path.expanduser(out["source"])
        # The error about a missing folder names the original value.
        Request.from_parameters({"source": str(folder) if folder.is_dir() else out["source"]})
        out["source"] = str(folder.resolve())
    return out
