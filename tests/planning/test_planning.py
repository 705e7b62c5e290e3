"""A plan runs through all stages without computing, and records the images, models and settings of a run."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from biaslab.papers.paired.stages import Paired
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning import planning_pipeline, validation
from biaslab.planning.measures import measures
from biaslab.planning.plan import plan_of
from biaslab.planning.planning_pipeline import PlanningPipeline
from biaslab.planning.records import Recorder, SettingRead
from biaslab.schema import groups

pytest.importorskip("torch", reason="models need the extra 'models'")


def open_pipeline(folder, model="world", **changes):
    captions = {"corpus": "mini", "max_captions": 2000, "occupations": ["nurse", "doctor"]}
    paired = {"n_occupations": 2, "power_samples": 1, "three_person_prompts": 1, "single_images": 1}
    given = Settings.from_mapping(
        {"captions": captions, "paired": paired, "baselines": "none", "compute": {"cache": str(folder / "store")}}
    )
    return Pipeline(model, given.with_changes(**changes), seed=3, progress=False)


def write_text(path, text):
    path.write_text(text)
    return str(path)


# -- settings read -----------------------------------------------------------------------------------------

# Settings of execution, or read by packages and by no table.
READ_ELSEWHERE = ("baselines", "calibration.", "compute.", "models")


def configurations(folder, url):
    """Yield pipelines that together have an effect of each setting."""
    custom_files = {
        "prompts_file": write_text(folder / "own.csv", "prompt,group\na photo of the face of a nurse,nurse\n"),
        "benchmark_file": write_text(folder / "benchmark.csv", "group,percent_female\nnurse,87\n"),
    }
    questions = write_text(folder / "q.yaml", "- {name: hat, question: Is it a hat, answers: [yes, no], of: person}\n")
    further = {"extra_judges": ["vqa:mini-vqa"], "questions_file": questions, "question_model": "vqa:mini-vqa"}
    similarity = dict.fromkeys(("resnet", "clip", "dino", "split_product"), "mini-segmenter")
    triplets = {"n_triplets": 3, "n_professions": 2, "similarity": similarity, "objects": "mini-segmenter"}
    yield open_pipeline(folder, custom=custom_files, judging=further, triplets=triplets)
    # A model that reads the settings of generation.
    yield open_pipeline(folder, model="mini")
    yield endpoint_pipeline(folder, url)
    # Images behind captions by their URLs.
    (folder / "images").mkdir(exist_ok=True)
    urls = pd.DataFrame({"text": ["a photo of a nurse", "a photo of a person"], "url": [f"{url}/1.png", ""]})
    urls.to_csv(folder / "urls.csv", index=False)
    url_captions = {"corpus": str(folder / "urls.csv"), "training_images": "download", "approaches": ["naive"]}
    judging = {"gender": "ViT-L-14:openai", "faces": "whole image"}
    (folder / "more.txt").write_text("the photo of a person\n")
    triplets = {"filter": "paper", "extra_corpora": str(folder / "more.txt")}
    yield open_pipeline(folder, model="mini", captions=url_captions, judging=judging, triplets=triplets)


def endpoint_pipeline(folder, url):
    """Return a pipeline that asks an endpoint for images, paraphrases, critiques and judgements."""
    endpoint = {"url": url, "model": "m", "price": 1.0, "cost_limit": 1e6, "api_key_env": "FAKE_KEY"}
    return open_pipeline(
        folder,
        model="endpoint:maker",
        endpoint=endpoint,
        vision={"url": url, "price": 0.0, "api_key_env": "FAKE_KEY"},
        generation={"image_domain": "drawings"},
        captions={"paraphraser": "endpoint", "approaches": ["naive", "paraphrased"], "encoder": ""},
        critic={"kind": "endpoint", "model": "m"},
        judging={"gender": "endpoint:eye", "faces": "mini-detector"},
        dalleval={"vqa": "endpoint:eye", "captioner": "endpoint:eye", "detector": "mini-skills-detector"},
        triplets={"objects": "mini-segmenter"},
    )


def test_each_setting_is_read_by_a_plan_or_elsewhere(tmp_path, server):
    settings_read = set()
    for pipeline in configurations(tmp_path, server.url):
        settings_read |= set().union(*(plan_of(pipeline).table(name).settings_read for name in measures()))
    never_read = set(groups.names(Settings)) - settings_read
    assert {name for name in never_read if not name.startswith(READ_ELSEWHERE)} == set()


def test_search_settings_are_recorded_by_caption_tables(tmp_path):
    result = open_pipeline(tmp_path, captions={"approaches": ["nearest"]})
    assert "captions.candidates_per_occupation" in plan_of(result).table("paradox_caption_counts").settings_read
    assert "triplets.filter" in plan_of(result).table("triplets_prompts").settings_read
    # Occupations are not read by tables that do not use them.
    assert "captions.occupations" not in plan_of(result).table("dalleval_social_images").settings_read


# -- side effects that a plan must not have ----------------------------------------------------------------


def test_plan_never_calls_endpoint(tmp_path, server):
    pipeline = endpoint_pipeline(tmp_path, server.url)
    plans = {name: plan_of(pipeline).table(name) for name in measures()}
    assert {request.kind for request in plans["paired_people"].requests} >= {"paired", "faircritic_1"}
    assert {request.kind for request in plans["paradox_percent_female"].requests} == {"generated", "paraphrased"}
    assert {"endpoint:eye"} < {use.name for plan in plans.values() for use in plan.uses}
    assert server.requests == []


def test_planning_pipeline_names_unplanned_stage_function(tmp_path):
    def count_hats(images, *, cache, progress):
        return len(images)

    with pytest.raises(AttributeError, match=r"biaslab\.planning\.planned.* 'count_hats'"):
        PlanningPipeline(open_pipeline(tmp_path), Recorder("")).compute(count_hats, [])


def test_plan_of_large_corpus_has_upper_bound_of_prompts(tmp_path, monkeypatch):
    monkeypatch.setattr(planning_pipeline, "MAX_SEARCHED_CAPTIONS", 2)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "biaslab.json").write_text('{"pictures": "drawings"}')
    Image.new("RGB", (8, 8)).save(tmp_path / "images" / "1.png")
    corpus = write_text(tmp_path / "captions.txt", "a photo of a nurse\n" * 3)
    captions = {"corpus": corpus, "training_images": str(tmp_path / "images"), "max_captions": 0, "encoder": ""}
    captions["approaches"] = ["naive", "caption_prompts"]
    generation = {"images_per_prompt": 2, "caption_prompts_per_occupation": 3, "images_per_caption": 5}

    def requests():
        pipeline = open_pipeline(tmp_path, model="mini", captions=captions, generation=generation)
        requests_planned = plan_of(pipeline).table("paradox_percent_female").requests
        return {request.kind: (request.n_images, request.at_most) for request in requests_planned}

    # 2 occupations x 4 templates x 2 images; 2 occupations x 3 captions x 5 images.
    assert requests() == {"generated": (16, False), "caption_prompts": (30, True)}
    # Of a smaller one it is known: 3 captions of nurses.
    monkeypatch.setattr(planning_pipeline, "MAX_SEARCHED_CAPTIONS", 4)
    assert requests() == {"generated": (16, False), "caption_prompts": (15, False)}


# -- what is recorded --------------------------------------------------------------------------------------


def test_remembered_results_record_reads_again(tmp_path):
    recorder = Recorder("")
    pipeline = PlanningPipeline(open_pipeline(tmp_path), recorder)
    calls = []

    def compute():
        calls.append(1)
        recorder.add("an image")
        return pipeline.settings.paired.single_images

    for _ in range(2):
        with recorder.scope() as records:
            assert pipeline.remember("key", compute) == 1
        assert "an image" in records
        assert SettingRead("paired.single_images") in records
    assert len(calls) == 1
    with recorder.scope() as records:
        pass
    assert not records


def test_plan_tables_share_requests_of_same_images(tmp_path):
    pipeline = open_pipeline(tmp_path)
    plan = plan_of(pipeline)
    first, second = plan.table("paired_people"), plan.table("paired_percent_female")
    kinds = sorted(pipeline.part(Paired).kinds)
    assert sorted(request.kind for request in first.requests) == kinds
    assert set(second.requests) <= set(first.requests)
    # Together each is there once.
    together = plan.of_tables(["paired_people", "paired_percent_female"]).requests
    assert sorted(request.kind for request in together) == kinds and set(together) == set(first.requests)


# -- folders of images -------------------------------------------------------------------------------------


@pytest.fixture
def access_counts(monkeypatch):
    """Return how often each folder was listed, and each image opened."""
    counts = {}

    def count_calls(name, call):
        def counted_call(path=".", *given, **more):
            counts[str(path), name] = counts.get((str(path), name), 0) + 1
            return call(path, *given, **more)

        return counted_call

    monkeypatch.setattr(os, "scandir", count_calls("list", os.scandir))
    monkeypatch.setattr(os, "listdir", count_calls("list", os.listdir))
    monkeypatch.setattr(Image, "open", count_calls("open", Image.open))
    return counts


def test_image_folder_is_listed_once_by_pipeline_and_plan(tmp_path, access_counts):
    folder = tmp_path / "photos"
    for group in ("chef", "nurse"):
        (folder / group).mkdir(parents=True)
        for k in range(3):
            Image.fromarray(np.full((8, 8, 3), 9 * k, np.uint8)).save(folder / group / f"{k}.jpg")
    judging = {"gender": "ViT-L-14:openai", "faces": "whole image"}
    pipeline = open_pipeline(
        tmp_path, model=f"images:{folder}", captions={"corpus": "", "approaches": []}, judging=judging
    )
    access_counts.clear()
    validation.check_settings(pipeline)
    names = [name for name in measures() if name.startswith("custom_")]
    plan = plan_of(pipeline)
    (request,) = plan.of_tables(names).requests
    assert (request.n_images, request.n_cached) == (6, 6)
    groups_listed = {path: access_counts[str(folder / path), "list"] for path in ("chef", "nurse")}
    assert groups_listed == {"chef": 2, "nurse": 2}
    # The prompt inside an image is read once.
    opened_images = {Path(path): n for (path, name), n in access_counts.items() if name == "open"}
    assert opened_images == dict.fromkeys(folder.rglob("*.jpg"), 1)
