"""The limitations of a run's results: those of all runs, and those due to its models, judges and papers."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.hub import registry
from biaslab.judges import photographs
from biaslab.judges.registry import parse
from biaslab.schema import tables

if TYPE_CHECKING:
    import pandas as pd

LIMITS = (
    "Gender is the gender that a person or a model perceives in an image, in two categories. This is a limitation of "
    "the method, not a statement about identities. Gender identity is not measured, and people outside the two "
    "categories are not represented.",
    "Confidence intervals account for the sampling of images, and of occupations, triplets or datasets treated as a "
    "sample. They do not account for systematic errors of a judge (unless the estimate is corrected for them), other "
    "prompts, or other definitions of bias.",
    "Differences from balance or from training data are described, not explained. These measures do not determine "
    "which differences are harmful, or which people they harm.",
)
# The settings that name the judges of people.
_JUDGES = ("judging.faces", "judging.gender", "judging.extra_judges", "judging.skin_tone", "dalleval.vqa")


def limits_of_run(
    measured: Path,
    results: Iterable[Mapping],
    source: object,
    printed: Mapping[str, Collection[str]],
) -> list[str]:
    """Return the limitations of a run: first those of all runs, then those of its models, judges and papers.

    Args:
        measured: The folder of the run's inputs, with one CSV file per input.
        results: The run's tables as listed in ``run.json``, each with ``name`` and ``models``.
        source: The source of the run, for runs whose notebooks have no settings.
        printed: By input, the models whose rows contain values that a paper prints.
    """
    inputs = {path.stem: tables.read(path, path.stem) for path in sorted(measured.glob("*.csv"))}
    settings = inputs.pop("pipeline_settings", None)
    limits = [*LIMITS]
    if settings is not None:
        limits += _describe_settings(settings)
    elif isinstance(source, str):
        limits += filter(None, [registry.describe(source, "limits")])
    by_paper: dict[str, set[str]] = {}
    for table in results:
        by_paper.setdefault(_paper(table["name"]), set()).update(table["models"])
    # The models in the results whose measurements are printed values, by paper; and whether results have other models.
    as_printed: dict[str, list[str]] = {}
    has_measured_models = False
    for name, frame in inputs.items():
        models = [model for model in dict.fromkeys(frame.get("model", ())) if model in by_paper.get(_paper(name), ())]
        as_printed.setdefault(_paper(name), []).extend(model for model in models if model in printed.get(name, ()))
        has_measured_models |= any(model not in printed.get(name, ()) for model in models)
    printed_list = "; ".join(
        f"{paper.title} ({', '.join(dict.fromkeys(as_printed[name]))})"
        for name, paper in tables.papers().items()
        if paper.title and as_printed.get(name)
    )
    if printed_list and has_measured_models:
        limits.append(
            "Some values are printed in a paper (rounded), or computed from such values and the number of images that "
            f"the paper states. Sources (and models, as named there): {printed_list}. For this "
            "run, no image was generated with these models or judged."
        )
    elif printed_list:
        limits.append(
            "The inputs of this run are the rounded values that the papers print, with the number of images that "
            f"they state. Sources (and models, as named there): {printed_list}. The number of images "
            "excluded by the inclusion criteria is unknown, so fewer images than stated may have been judged."
        )
    return limits


def _describe_settings(settings: pd.DataFrame) -> list[str]:
    """Return the limitations of the image models and judges that the pipeline's settings name."""
    value = settings.groupby("setting")["set_to"].agg(set).to_dict()
    model_limits = [registry.describe(name, "limits") for name in sorted(value.get("model", ()))]
    value["judging.extra_judges"] = set().union(*map(json.loads, value.get("judging.extra_judges", ())))
    judges = {key: [parse(name, key) for name in sorted(filter(None, value.get(key, ())))] for key in _JUDGES}
    genders, faces = judges["judging.gender"], judges["judging.faces"]
    # A package states the limits of its judges; for a charged gender judge, its statement covers the face detector.
    described_judges = [*genders, *([] if any(judge.is_charged for judge in genders) else faces)]
    judge_limits = [registry.describe(judge.name, "limits", judge.kind) for judge in described_judges]
    genders = [*genders, *judges["judging.extra_judges"]]
    faces = faces if any(judge.needs_faces for judge in genders) else []
    roles = {"faces": faces, "gender": [*genders, *judges["dalleval.vqa"]], "skin_tone": judges["judging.skin_tone"]}
    error_notes = [photographs.describe_error(role, judge.name) for role, members in roles.items() for judge in members]
    return list(dict.fromkeys(filter(None, [*model_limits, *judge_limits, *error_notes])))


def _paper(table: str) -> str:
    return table.partition("_")[0]
