"""What a run's numbers do not say: limits of all of them, and those of what this run holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from biaslab import sources, tables

if TYPE_CHECKING:
    import pandas as pd

LIMITS = (
    "Gender is what a viewer or a judging model perceives in an image, in two categories. That is a limit of "
    "the method, not a statement about anybody's identity. People outside the two categories are not measured, and "
    "nothing here says how anyone identifies.",
    "Intervals say how much a number could move through the choice of occupations and images. They do not "
    "cover a judge that is wrong in a systematic way, prompts that were not tried, or other definitions of bias.",
    "A difference from balance, or from training data, is described and not explained: which differences "
    "are harmful, and to whom, is not something that these measures decide.",
)
_PAPERS = {
    "paradox": "the bias amplification paradox",
    "paired": "the Paired Stereotype Test",
    "dalleval": "DALL-Eval",
    "triplets": "the gender triplets",
}
# By the model that makes the images, as the pipeline's settings name it.
_EMBEDDED = {
    "mini": (
        "The model `mini` was trained on drawings of an embedded world whose truth is known, and captions made for "
        "them. What is found there are properties of that instrument; they say nothing about any model in use."
    ),
    "world": (
        "`world` is no model: it draws what texts ask for with the shares of an embedded world, which were set from "
        "the papers' tables. What is found there tests measures and judge; it says nothing about any model."
    ),
}
_EMBEDDED_JUDGE = (
    "Faces are found and perceived gender is judged by models that were trained on the embedded world's drawings, "
    "which they are applied to here: their errors are at their smallest, and say nothing about a judge of photographs."
)
_STRANGE_JUDGE = (
    "Faces are found or perceived gender is judged by models that have seen nothing but an embedded world's drawings: "
    "on images of another kind their answers mean nothing."
)


def of_run(
    measured: Path,
    results: Iterable[Mapping],
    source: object = "",
    printed: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[str]:
    """Return the limits of a run: those of all runs first, then those of the models and papers that it holds.

    Args:
        measured: The folder of the run's inputs, a CSV file each.
        results: The run's tables as ``run.json`` lists them: ``name`` and ``models`` of each.
        source: Its source, for runs whose notebooks ask for no settings.
        printed: By input, its models whose rows are what a paper prints, as far as that is known; else it is found out.
    """
    inputs = {path.stem: tables.read(path, path.stem) for path in sorted(measured.glob("*.csv"))}
    settings = inputs.pop("pipeline_settings", None)
    found = [*LIMITS]
    if settings is not None:
        found += _of_settings(settings)
    elif source == "mini":
        found += [_EMBEDDED["mini"], _EMBEDDED_JUDGE]
    shown: dict[str, set[str]] = {}
    for table in results:
        shown.setdefault(_paper(table["name"]), set()).update(table["models"])
    # The models shown whose measurements are printed ones, by paper; and whether there are others.
    models: dict[str, list[str]] = {}
    others = False
    for name, frame in inputs.items():
        if "model" in frame:
            paper = _paper(name)
            as_printed = printed[name] if name in printed else sources.printed_models(name, frame)
            held = [model for model in dict.fromkeys(frame["model"]) if model in shown.get(paper, ())]
            others |= any(model not in as_printed for model in held)
            models.setdefault(paper, []).extend(model for model in held if model in as_printed)
    of = "; ".join(f"{_PAPERS[p]}: {', '.join(dict.fromkeys(models[p]))}" for p in _PAPERS if models.get(p))
    if not of:
        return found
    if others:
        text = (
            "Rows of models that a paper reports on are numbers as it prints them, rounded, with the number of images "
            f"that it states. They are of {of}. No image of theirs was made or judged for this run."
        )
    else:
        text = (
            "The inputs of this run are numbers as the papers print them, rounded, with the number of images that the "
            f"papers state. They are of {of}. Images that were left out by a gate are not known, so the true n can be "
            "smaller."
        )
    return [*found, text]


def _of_settings(settings: pd.DataFrame) -> list[str]:
    """Return what the pipeline's settings say of where images and judgements come from."""
    value = settings.groupby("setting")["set_to"].agg(set)
    models = value.get("model", set())
    judges = value.get("judging.faces", set()) | value.get("judging.gender", set())
    found = [text for name, text in _EMBEDDED.items() if name in models]
    if judges & {"mini-detector", "mini-clip"}:
        found.append(_EMBEDDED_JUDGE if models <= set(_EMBEDDED) else _STRANGE_JUDGE)
    return found


def _paper(table: str) -> str:
    return table.partition("_")[0]
