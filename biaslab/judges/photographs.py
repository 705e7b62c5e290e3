"""What was measured of judges on pictures that look like photographs: reports of runs that use them say it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from biaslab.endpoints.settings import ENDPOINT
from biaslab.judges.judge_names import WHOLE_IMAGE

_LABELLED = "pictures that look like photographs, made by text-to-image models and labelled by two raters"
_PASSES = "An image where it sees two of four people passes as a pair."


@cache
def error_rates() -> dict[str, dict]:
    """Return the numbers of ``photographs.yaml``."""
    import yaml

    return yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def face_errors(name: str) -> str:
    """Return what a report says of the error of a face detector; empty where none is named, or none looks for faces."""
    if name in ("", WHOLE_IMAGE):
        return ""
    known = error_rates()["faces"].get(name.rpartition(":")[2])
    if not known:
        return f"How well the face detector `{name}` counts faces in photographs was not measured. {_PASSES}"
    (groups, n_groups), (alone, n_alone) = known["groups"], known["alone"]
    return (
        f"The face detector `{name}` counted {groups} of {n_groups} pictures of groups right within one face, and "
        f"found the one face of {alone} of {n_alone} portraits, in a check of {n_groups + n_alone} {_LABELLED}. "
        f"{_PASSES}"
    )


def gender_errors(name: str) -> str:
    """Return what a report says of the error of a judge of gender; empty where it was not measured."""
    if name.startswith(ENDPOINT):
        return (
            f"Gender was asked of the vision model `{name.removeprefix(ENDPOINT)}` behind an endpoint, to which the "
            "pictures were sent. How often it errs on such pictures is not known before people rated a part of them; "
            "whether it answers alike at another time, its makers alone know."
        )
    if name not in error_rates()["genders"]:
        return ""
    right, sure, shown = error_rates()["genders"][name]
    return (
        f"The judge of gender `{name}` was right about {right} of the {sure} people of whom it was sure, and unsure of "
        f"{shown - sure}, in a check of {shown} {_LABELLED}. It is as sure of faces that are blurred or turned away."
    )
