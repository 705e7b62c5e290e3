"""Which judges know which pictures, in every role that looks at images."""

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
NAMES, DRAWN, TABLES = (dict(zip(ROLES, column, strict=True)) for column in zip(*ROLES.values(), strict=True))


def check(model, given, names):
    """Refuse judges that do not know what they are to look at."""
    pipeline = Pipeline(model, given, progress=False)
    plan = plan_of(pipeline)
    for missing in filter(None, (plan.table(name).missing for name in sorted(names))):
        raise missing
    for use in plan.of_tables(names).uses:
        use.check_domain()


def settings(**changes):
    """Return settings with a judge for each role, those of ``changes`` in the place of photographs' by dotted names."""
    given = {"captions": {"corpus": "mini", "max_captions": 2000}}
    for setting, name in (NAMES | changes).items():
        group, field = setting.split(".")
        if field == "similarity":
            name = dict.fromkeys(("resnet", "clip", "dino", "split_product"), name)
        given.setdefault(group, {})[field] = name
    return given


@pytest.fixture
def photographer(folders, monkeypatch):
    """A model of photographs that knows all words."""
    monkeypatch.setattr(DiffusersModel, "check_texts", lambda self, prompts: None)
    return folders("sd1")


@pytest.mark.parametrize("role", NAMES)
def test_in_every_role_a_judge_is_refused_for_pictures_that_it_does_not_know(role, photographer, pictures):
    model = photographer
    given = settings(**{role: DRAWN[role]})
    # Images behind captions are photographs, too, so that only the judge is in question.
    given["captions"] |= {"training_images": str(pictures)}
    with pytest.raises(ParameterError) as refused:
        check(model, Settings.from_mapping(given), {TABLES[role]})
    told = str(refused.value)
    assert role in told and DRAWN[role] in told and "a model for drawings" in told and "are photographs" in told
    # Where the model makes drawings, this judge is right, and any other that the table takes is not.
    drawn = settings(**DRAWN)
    drawn["generation"] = {"image_domain": "drawings"}
    check(model, Settings.from_mapping(drawn), {TABLES[role]})
    given = settings(**DRAWN | {role: NAMES[role]})
    with pytest.raises(ParameterError, match=r"a model for photographs, but the images of .* are drawings"):
        check("mini", Settings.from_mapping(given), {TABLES[role]})


@pytest.mark.parametrize(
    "role", sorted(NAMES.keys() - {"judging.extra_judges", "triplets.similarity", "dalleval.captioner"})
)
def test_a_judge_that_is_not_named_is_asked_for_by_name(role, photographer, pictures):
    given = settings(**{role: ""})
    given["captions"] |= {"training_images": str(pictures)}
    with pytest.raises(MissingInputError) as refused:
        check(photographer, Settings.from_mapping(given), {TABLES[role]})
    told = str(refused.value)
    assert told.startswith(f"{role} is empty, but ") and f"a model that {JUDGES[role].does}" in told
    assert JUDGES[role].example in told and told.count(".") <= 4 + JUDGES[role].example.count(".")
    # Nobody is asked for where nothing is looked at.
    check(photographer, Settings.from_mapping(given), {"paradox_indicators", "dalleval_skill_prompts"})


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
def test_what_judges_know_by_their_names(known, judges):
    for judge in judges.split(", "):
        assert parse(*judge.rsplit(" ", 1)).domain == known


def test_a_copy_of_a_judge_says_what_it_knows(tmp_path):
    """The folder says it, so that no copy under another name looks at photographs."""
    where = registry.resolve("mini-clip", "clip")
    copy = shutil.copytree(where, tmp_path / "my-clip")
    assert parse(str(copy), "judging.gender").domain == DRAWINGS
    # The file is no part of what the model computes.
    assert model_files.digest(copy) == model_files.digest(where)
    (copy / registry.DOMAIN_FILE).unlink()
    assert parse(str(copy), "judging.gender").domain == PHOTOGRAPHS
    assert model_files.digest(copy) == model_files.digest(where)
    (copy / registry.DOMAIN_FILE).write_text(json.dumps({"pictures": "cartoons"}))
    with pytest.raises(ParameterError, match="one of drawings, photographs, any"):
        _ = parse(str(copy), "judging.gender").domain
    # Parts of a judge know the same.
    with pytest.raises(ParameterError, match="combines models for drawings and for photographs"):
        _ = parse("grounded:mini-clip+owner/grounding+owner/masks", "triplets.objects").domain


@pytest.fixture
def pictures(tmp_path):
    from PIL import Image

    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    return tmp_path


def test_a_folder_of_pictures_is_of_photographs_unless_it_says_otherwise(pictures):
    assert domain_of(FolderImages(pictures)) == PHOTOGRAPHS
    (pictures / registry.DOMAIN_FILE).write_text('{"pictures": "drawings"}')
    drawn = CaptionImages(pictures, ["a"])
    table = pd.DataFrame({"image_id": ["a"]})
    for source in (drawn, DescribedImages(drawn, table), Subset(DescribedImages(drawn, table), ["a"])):
        assert domain_of(source) == DRAWINGS


def test_a_notebook_is_refused_what_a_run_is_refused(pictures):
    """Without a run nobody checks before: the stage itself looks at source and judge."""
    images, stages = FolderImages(pictures), Pipeline("mini", Settings(), progress=False)
    asked = pd.DataFrame({"image_id": ["a.png"], "position": [1], "phrase": ["nurse"]})
    judges = [parse(name, "judging.gender") for name in ("mini-clip", "vqa:mini-vqa")]

    for look in (
        lambda: stages.judge_images(images),
        lambda: stages.judge_people(images, asked, judges[0]),
        lambda: stages.judge_people(images, asked, judges[1]),
        lambda: stages.part(DallEval).detections(images),
        lambda: stages.ask("dalleval.captioner", images, asked[["image_id"]].assign(question="What is it?")),
        lambda: stages.part(Triplets).find_instances(images),
        lambda: stages.image_embeddings(images, ["a.png"]),
    ):
        with pytest.raises(ParameterError, match="a model for drawings"):
            look()
