"""Validation before the first image is generated: models in every role, with each fault.

Faults missed here would stop the notebook that uses the model, after images were generated or bought.
"""

from pathlib import Path
from typing import NamedTuple

import pytest
import tiny_repositories as tiny

from biaslab.errors import BiaslabError
from biaslab.judges.faces import WholeImage
from biaslab.runs import audit, jobs, params, runner


class Role(NamedTuple):
    """A setting that names a model, and names to try in it."""

    setting: str
    notebook: str  # One that uses it.
    name: str
    served: str  # The repository behind the name.
    misspelt: str
    other: str  # A model of another kind.


PAIRS, SIMILARITY = "paired/4_4_overall", "settings.triplets.similarity."
OF_CLIP = ("ViT-B-32:openai", tiny.CLIP_B, "ViT-B-32:opneai", tiny.VQA)
DALLEVAL, BLIP = "settings.dalleval.", "Salesforce/blip-vqa-bsae"
ROLES = {
    "text-to-image": Role("model", PAIRS, tiny.SD14, tiny.SD14, "CompVis/stable-difusion-v1-4", tiny.VQA),
    "faces": Role("settings.judging.faces", PAIRS, tiny.FACES, tiny.FACES, "owner/yolo-face", tiny.DETR),
    "gender": Role("settings.judging.gender", PAIRS, *OF_CLIP),
    "further": Role(
        *("settings.judging.extra_judges", "paired/b_d_judges"),
        *(f"vqa:{tiny.VQA}", tiny.VQA, f"vqa:{BLIP}", f"vqa:{tiny.DETR}"),
    ),
    **{
        role: Role(setting, notebook, name, name, misspelt, other)
        for role, setting, notebook, name, misspelt, other in (
            ("detector", f"{DALLEVAL}detector", "dalleval/4_1_paintskills", tiny.DETR, "facebook/detr-resnet-101-dc",
             tiny.SEGFORMER),
            ("vqa", f"{DALLEVAL}vqa", "dalleval/5_3_gender", tiny.VQA, BLIP, tiny.CAPTIONER),
            ("captioner", f"{DALLEVAL}captioner", "dalleval/d_alignment_quality", tiny.CAPTIONER,
             "Salesforce/blip-image-captoining-base", tiny.VQA),
            ("objects", "settings.triplets.objects", "triplets/5_co_occurrence", tiny.SEGFORMER,
             "nvidia/segformer-b0-finetuned-ade", tiny.DETR),
        )
    },
    **{
        metric: Role(SIMILARITY + metric, "triplets/4_disparities", name, served, misspelt, tiny.SD14)
        for metric, name, served, misspelt in (
            ("resnet", "resnet50.tv_in1k", tiny.RESNET, "resnet50.tv_1k"),
            ("dino", "vit_small_patch16_224.dino", tiny.DINO_S, "vit_small_patch16_224.dion"),
            ("split_product", "vit_base_patch8_224.dino", tiny.DINO_B, "vit_base_patch_8_224.dino"),
        )
    },
    "clip": Role(SIMILARITY + "clip", "triplets/4_disparities", *OF_CLIP),
}  # fmt: skip
# Faults of the hub are the same in every role: they are tested with one model of each loader.
LOADERS = ("text-to-image", "gender", "detector", "resnet")
FAULTS = [(role, fault) for role in ROLES for fault in ("misspelt", "another kind")]
FAULTS += [(role, fault) for role in LOADERS for fault in ("absent", "gated", "only .bin")]


def make_audit_parameters(extra: dict, sets: dict) -> dict:
    """Return the parameters of an audit with additional settings, in the format of a file."""
    given = audit.make_parameters([tiny.SD14], preset="quick") | extra
    for key, value in sets.items():
        group, *inner, name = key.split(".")
        part = given["settings"].setdefault(group, {})
        for one in inner:
            part = part.setdefault(one, {})
        part[name] = str(value) if isinstance(value, Path) else value
    return given


def planned(root, tmp_path, role: Role, name: str) -> None:
    """Plan a run of one notebook with ``name`` in a role and valid models in all others."""
    captions = tmp_path / "captions.csv"
    captions.write_text("image_id,text\n1,a nurse\n2,a pilot\n")
    sets = {"judging.faces": WholeImage.prefix, "judging.gender": "ViT-B-32:openai", "dalleval.captions": captions}
    sets |= {"dalleval.captioner": tiny.CAPTIONER}
    given = make_audit_parameters({"notebooks": [role.notebook]}, sets)
    overrides = [f"{role.setting}={name}"]
    run_parameters = params.load(runner.PARAMS, given=given, overrides=overrides, notebooks_dir=root / "notebooks")
    jobs.plan(run_parameters)


@pytest.mark.long
@pytest.mark.parametrize("role", ROLES.values(), ids=ROLES)
def test_plan_accepts_valid_model_in_each_role(root, tmp_path, full_hub, role):
    planned(root, tmp_path, role, role.name)


@pytest.mark.parametrize(("role", "fault"), FAULTS)
def test_plan_refuses_invalid_model_in_each_role(root, tmp_path, full_hub, repositories, role, fault):
    role = ROLES[role]
    name = {"misspelt": role.misspelt, "another kind": role.other}.get(fault, role.name)
    repository = full_hub.repositories[role.served]
    repository.closed = {"absent": "private", "gated": "gated"}.get(fault, "")
    if fault == "only .bin":
        del full_hub.repositories[role.served]
        full_hub.serve(role.served, repositories(role.served), lambda path: not path.endswith(".safetensors"))
    with pytest.raises(BiaslabError) as error:
        planned(root, tmp_path, role, name)
    assert name.rpartition(":")[2] in str(error.value)


# The judges of each paper's notebooks; all others belong to other papers.
OF_PAPERS = {
    "paired/*": {"faces", "gender", "further"},
    "dalleval/4_1_*": {"detector"},
    # Its images of people are shown with the labels of all configured judges.
    "dalleval/5_3_skin_tone": {"faces", "vqa", "gender"},
    "dalleval/5_3_attributes": {"vqa"},
    "dalleval/d_*": {"gender", "captioner"},
    "triplets/4_*": {"resnet", "dino", "split_product", "clip"},
    "triplets/5_*": {"objects"},
}


@pytest.mark.long
@pytest.mark.parametrize("pattern", OF_PAPERS)
def test_plan_ignores_models_of_other_papers(root, tmp_path, full_hub, pattern):
    captions = tmp_path / "captions.csv"
    captions.write_text("image_id,text\n1,a nurse\n2,a pilot\n")
    sets = {role.setting.removeprefix("settings."): role.name for role in list(ROLES.values())[1:]}
    sets |= {"judging.extra_judges": [f"vqa:{tiny.BLIP2}"], "dalleval.captions": captions}
    # With a different name in each role.
    sets["triplets.similarity.clip"] = "ViT-L-14:openai"
    served_names = {"gender": tiny.CLIP_B, "clip": tiny.CLIP_L, "further": tiny.BLIP2}
    served_names = {
        name: served_names.get(name, role.served) for name, role in ROLES.items() if name != "text-to-image"
    }
    other_repositories = {served for name, served in served_names.items() if name not in OF_PAPERS[pattern]}
    for served in other_repositories:
        full_hub.repositories[served].closed = "private"
    run_parameters = params.load(
        runner.PARAMS, given=make_audit_parameters({"notebooks": [pattern]}, sets), notebooks_dir=root / "notebooks"
    )
    # The defaults of an audit are looked up before these settings are known.
    full_hub.log.clear()
    planned = jobs.plan(run_parameters)
    assert not any(job.reason for job in planned)
    assert {key.split()[0] for of in jobs.judges(planned).values() for key in of}
    jobs.inputs(planned, tmp_path / "run")
    requested_paths = " ".join(request.path for request in full_hub.log)
    assert not [served for served in other_repositories if served in requested_paths]
