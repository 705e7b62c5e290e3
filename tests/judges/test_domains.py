"""Image domains of judges, in every role that reads images."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from biaslab.errors import MissingInputError, ParameterError
from biaslab.generation.models import DiffusersModel
from biaslab.hub import model_files, registry
from biaslab.hub.image_sources import CaptionImages, DescribedImages, FolderImages, Subset, domain_of
from biaslab.hub.registry import ANY, DRAWINGS, PHOTOGRAPHS
from biaslab.judges.registry import JUDGES, parse
from biaslab.papers.dalleval.stages import DallEval
from biaslab.papers.triplets.stages import Triplets
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning.plan import plan_of

# By role a judge of photographs that no file has to be there for, one of drawings, and a measured table that takes it.
ROLES = {
    "judging.faces": ("hustvl/yolos-tiny", "mini-detector", "paradox_percent_female"),
    "judging.gender": ("ViT-L-14:openai", "mini-clip", "paired_percent_female"),
    "judging.extra_judges": ("vqa:Salesforce/blip-vqa-base", "vqa:mini-vqa", "paired_judge_agreement"),
    "dalleval.detector": ("facebook/detr-resnet-50", "mini-skills-detector", "dalleval_skill_verdicts"),
    "dalleval.vqa": ("Salesforce/blip-vqa-base", "mini-vqa", "dalleval_attribute_presence"),
    "dalleval.captioner": ("owner/blip", "mini-captioner", "dalleval_alignment_quality"),
    "triplets.objects": ("owner/segformer", "mini-segmenter", "triplets_object_counts"),
    "triplets.similarity": ("vit_small_patch16_224.dino", "mini-segmenter", "triplets_similarity"),
}
NAMES, DRAWING_JUDGES, TABLES = (dict(zip(ROLES, column, strict=True)) for column in zip(*ROLES.values(), strict=True))


def check(model, config, names):
    """Refuse judges of another image domain than the images."""
    pipeline = Pipeline(model, config, progress=False)
    plan = plan_of(pipeline)
    for missing in filter(None, (plan.table(name).missing for name in sorted(names))):
        raise missing
    for use in plan.of_tables(names).uses:
        use.check_domain()


def settings(**changes):
    """Return settings with a judge for each role, those of ``changes`` in the place of photographs' by dotted names."""
    config = {"captions": {"corpus": "mini", "max_captions": 2000}}
    for setting, name in (NAMES | changes).items():
        group, field = setting.split(".")
        if field == "similarity":
            name = dict.fromkeys(("resnet", "clip", "dino", "split_product"), name)
        config.setdefault(group, {})[field] = name
    return config


@pytest.fixture
def photographer(folders, monkeypatch):
    """A model of photographs that knows all words."""
    monkeypatch.setattr(DiffusersModel, "check_texts", lambda self, prompts: None)
    return folders("sd1")


@pytest.mark.parametrize("role", NAMES)
def test_judge_of_other_image_domain_is_refused_in_each_role(role, photographer, pictures):
    model = photographer
    config = settings(**{role: DRAWING_JUDGES[role]})
    # Images behind captions are photographs, too, so that only the judge is in question.
    config["captions"] |= {"training_images": str(pictures)}
    with pytest.raises(ParameterError) as error:
        check(model, Settings.from_mapping(config), {TABLES[role]})
    message = str(error.value)
    assert (
        role in message
        and DRAWING_JUDGES[role] in message
        and "a model for drawings" in message
        and "are photographs" in message
    )
    # Where the model makes drawings, this judge is right, and any other that the table takes is not.
    drawings = settings(**DRAWING_JUDGES)
    drawings["generation"] = {"image_domain": "drawings"}
    check(model, Settings.from_mapping(drawings), {TABLES[role]})
    config = settings(**DRAWING_JUDGES | {role: NAMES[role]})
    with pytest.raises(ParameterError, match=r"a model for photographs, but the images of .* are drawings"):
        check("mini", Settings.from_mapping(config), {TABLES[role]})


@pytest.mark.parametrize(
    "role", sorted(NAMES.keys() - {"judging.extra_judges", "triplets.similarity", "dalleval.captioner"})
)
def test_unnamed_judge_is_refused_with_example(role, photographer, pictures):
    config = settings(**{role: ""})
    config["captions"] |= {"training_images": str(pictures)}
    with pytest.raises(MissingInputError) as error:
        check(photographer, Settings.from_mapping(config), {TABLES[role]})
    message = str(error.value)
    assert message.startswith(f"{role} is empty, but ") and f"a model that {JUDGES[role].does}" in message
    assert JUDGES[role].example in message and message.count(".") <= 4 + JUDGES[role].example.count(".")
    # No judge is required for tables that read no image.
    check(photographer, Settings.from_mapping(config), {"paradox_indicators", "dalleval_skill_prompts"})


@pytest.mark.parametrize(
    ("known", "judges"),
    [
        (ANY, "whole image judging.faces, annotations:people.csv judging.gender, endpoint:eye judging.gender"),
        (ANY, "truth triplets.objects, found.parquet triplets.objects, pixels judging.skin_tone"),
        (PHOTOGRAPHS, "mediapipe:face.tflite judging.faces, yunet judging.faces, dlib judging.gender"),
        (PHOTOGRAPHS, "fairface:face.safetensors judging.gender, ViT-L-14:openai judging.gender"),
        (PHOTOGRAPHS, "owner/name judging.gender, grounded:owner/a+owner/b+owner/c triplets.objects"),
        (DRAWINGS, "mini-clip judging.gender, mini judging.faces, vqa:mini-vqa judging.gender"),
        (DRAWINGS, "grounded:mini-clip+mini-detector+mini-segmenter triplets.objects"),
        (DRAWINGS, "grounded:mini-clip+mini-detector+none triplets.objects"),
    ],
)
def test_judge_domain_follows_from_name(known, judges):
    for judge in judges.split(", "):
        assert parse(*judge.rsplit(" ", 1)).domain == known


def test_judge_copy_keeps_image_domain(tmp_path):
    """The folder declares it, so that a copy under another name is not used on photographs."""
    original = registry.resolve("mini-clip", "clip")
    copy = shutil.copytree(original, tmp_path / "my-clip")
    assert parse(str(copy), "judging.gender").domain == DRAWINGS
    # The file does not enter the digest of the model.
    assert model_files.digest(copy) == model_files.digest(original)
    (copy / registry.DOMAIN_FILE).unlink()
    assert parse(str(copy), "judging.gender").domain == PHOTOGRAPHS
    assert model_files.digest(copy) == model_files.digest(original)
    (copy / registry.DOMAIN_FILE).write_text(json.dumps({"pictures": "cartoons"}))
    with pytest.raises(ParameterError, match="one of drawings, photographs, any"):
        _ = parse(str(copy), "judging.gender").domain
    # Parts of a judge must have the same domain.
    with pytest.raises(ParameterError, match="combines models for drawings and for photographs"):
        _ = parse("grounded:mini-clip+owner/grounding+owner/masks", "triplets.objects").domain


@pytest.fixture
def pictures(tmp_path):
    from PIL import Image

    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    return tmp_path


def test_image_folder_domain_is_photographs_unless_declared(pictures):
    assert domain_of(FolderImages(pictures)) == PHOTOGRAPHS
    (pictures / registry.DOMAIN_FILE).write_text('{"pictures": "drawings"}')
    drawings = CaptionImages(pictures, ["a"])
    table = pd.DataFrame({"image_id": ["a"]})
    for source in (drawings, DescribedImages(drawings, table), Subset(DescribedImages(drawings, table), ["a"])):
        assert domain_of(source) == DRAWINGS


def test_stages_refuse_judge_of_other_image_domain(pictures):
    """Without a run there is no preflight check: the stage itself compares source and judge."""
    images, stages = FolderImages(pictures), Pipeline("mini", Settings(), progress=False)
    requested = pd.DataFrame({"image_id": ["a.png"], "position": [1], "phrase": ["nurse"]})
    judges = [parse(name, "judging.gender") for name in ("mini-clip", "vqa:mini-vqa")]

    for call in (
        lambda: stages.judge_images(images),
        lambda: stages.judge_people(images, requested, judges[0]),
        lambda: stages.judge_people(images, requested, judges[1]),
        lambda: stages.part(DallEval).detections(images),
        lambda: stages.ask("dalleval.captioner", images, requested[["image_id"]].assign(question="What is it?")),
        lambda: stages.part(Triplets).find_instances(images),
        lambda: stages.image_embeddings(images, ["a.png"]),
    ):
        with pytest.raises(ParameterError, match="a model for drawings"):
            call()
