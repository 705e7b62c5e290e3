"""A plan asks all stages, computes nothing, and records what a run takes: images, models and settings."""

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


def opened(folder, model="world", **changes):
    captions = {"corpus": "mini", "max_captions": 2000, "occupations": ["nurse", "doctor"]}
    paired = {"n_occupations": 2, "power_samples": 1, "three_person_prompts": 1, "single_images": 1}
    given = Settings.from_mapping(
        {"captions": captions, "paired": paired, "baselines": "none", "compute": {"cache": str(folder / "store")}}
    )
    return Pipeline(model, given.with_changes(**changes), seed=3, progress=False)


def written(path, text):
    path.write_text(text)
    return str(path)


# -- settings that are read --------------------------------------------------------------------------------

# What decides how work is done, or is read by packages and by no measure.
READ_ELSEWHERE = ("baselines", "calibration.", "compute.", "models")


def configurations(folder, url):
    """Yield pipelines that together have an effect of each setting."""
    own = {
        "prompts_file": written(folder / "own.csv", "prompt,group\na photo of the face of a nurse,nurse\n"),
        "benchmark_file": written(folder / "benchmark.csv", "group,percent_female\nnurse,87\n"),
    }
    questions = written(folder / "q.yaml", "- {name: hat, question: Is it a hat, answers: [yes, no], of: person}\n")
    further = {"extra_judges": ["vqa:mini-vqa"], "questions_file": questions, "question_model": "vqa:mini-vqa"}
    similarity = dict.fromkeys(("resnet", "clip", "dino", "split_product"), "mini-segmenter")
    triplets = {"n_triplets": 3, "n_professions": 2, "similarity": similarity, "objects": "mini-segmenter"}
    yield opened(folder, custom=own, judging=further, triplets=triplets)
    # A model that reads the settings of generation.
    yield opened(folder, model="mini")
    yield bought(folder, url)
    # Images behind captions by their URLs.
    (folder / "images").mkdir(exist_ok=True)
    urls = pd.DataFrame({"text": ["a photo of a nurse", "a photo of a person"], "url": [f"{url}/1.png", ""]})
    urls.to_csv(folder / "urls.csv", index=False)
    fetched = {"corpus": str(folder / "urls.csv"), "training_images": "download", "approaches": ["naive"]}
    judging = {"gender": "ViT-L-14:openai", "faces": "whole image"}
    (folder / "more.txt").write_text("the photo of a person\n")
    triplets = {"filter": "paper", "extra_corpora": str(folder / "more.txt")}
    yield opened(folder, model="mini", captions=fetched, judging=judging, triplets=triplets)


def bought(folder, url):
    """Return a pipeline that asks an endpoint for images, paraphrases, critiques and judgements."""
    endpoint = {"url": url, "model": "m", "price": 1.0, "cost_limit": 1e6, "api_key_env": "FAKE_KEY"}
    return opened(
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


def test_each_setting_is_read_by_a_plan_or_by_no_measure(tmp_path, server):
    read = set()
    for pipeline in configurations(tmp_path, server.url):
        read |= set().union(*(plan_of(pipeline).table(name).settings_read for name in measures()))
    unread = set(groups.names(Settings)) - read
    assert {name for name in unread if not name.startswith(READ_ELSEWHERE)} == set()


def test_a_setting_of_a_search_is_read_where_captions_are_searched(tmp_path):
    found = opened(tmp_path, captions={"approaches": ["nearest"]})
    assert "captions.candidates_per_occupation" in plan_of(found).table("paradox_caption_counts").settings_read
    assert "triplets.filter" in plan_of(found).table("triplets_prompts").settings_read
    # Occupations do not matter to who takes none.
    assert "captions.occupations" not in plan_of(found).table("dalleval_social_images").settings_read


# -- what a plan does not do -------------------------------------------------------------------------------


def test_an_endpoint_is_never_called_for_a_plan(tmp_path, server):
    pipeline = bought(tmp_path, server.url)
    plans = {name: plan_of(pipeline).table(name) for name in measures()}
    assert {request.kind for request in plans["paired_people"].requests} >= {"paired", "faircritic_1"}
    assert {request.kind for request in plans["paradox_percent_female"].requests} == {"generated", "paraphrased"}
    assert {"endpoint:eye"} < {use.name for plan in plans.values() for use in plan.uses}
    assert server.requests == []


def test_a_stage_function_without_a_planned_counterpart_is_named(tmp_path):
    def count_hats(images, *, cache, progress):
        return len(images)

    with pytest.raises(AttributeError, match=r"biaslab\.planning\.planned.* 'count_hats'"):
        PlanningPipeline(opened(tmp_path), Recorder("")).compute(count_hats, [])


def test_a_large_corpus_has_at_most_as_many_prompts_as_settings_allow(tmp_path, monkeypatch):
    monkeypatch.setattr(planning_pipeline, "MAX_SEARCHED_CAPTIONS", 2)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "biaslab.json").write_text('{"pictures": "drawings"}')
    Image.new("RGB", (8, 8)).save(tmp_path / "images" / "1.png")
    corpus = written(tmp_path / "captions.txt", "a photo of a nurse\n" * 3)
    captions = {"corpus": corpus, "training_images": str(tmp_path / "images"), "max_captions": 0, "encoder": ""}
    captions["approaches"] = ["naive", "caption_prompts"]
    generation = {"images_per_prompt": 2, "caption_prompts_per_occupation": 3, "images_per_caption": 5}

    def requests():
        pipeline = opened(tmp_path, model="mini", captions=captions, generation=generation)
        planned = plan_of(pipeline).table("paradox_percent_female").requests
        return {request.kind: (request.n_images, request.at_most) for request in planned}

    # 2 occupations x 4 templates x 2 images; 2 occupations x 3 captions x 5 images.
    assert requests() == {"generated": (16, False), "caption_prompts": (30, True)}
    # Of a smaller one it is known: 3 captions of nurses.
    monkeypatch.setattr(planning_pipeline, "MAX_SEARCHED_CAPTIONS", 4)
    assert requests() == {"generated": (16, False), "caption_prompts": (15, False)}


# -- what is recorded --------------------------------------------------------------------------------------


def test_results_that_are_taken_again_are_recorded_again(tmp_path):
    recorder = Recorder("")
    pipeline = PlanningPipeline(opened(tmp_path), recorder)
    calls = []

    def compute():
        calls.append(1)
        recorder.add("an image")
        return pipeline.settings.paired.single_images

    for _ in range(2):
        with recorder.scope() as recorded:
            assert pipeline.remember("key", compute) == 1
        assert "an image" in recorded
        assert SettingRead("paired.single_images") in recorded
    assert len(calls) == 1
    with recorder.scope() as recorded:
        pass
    assert not recorded


def test_tables_of_the_same_images_each_have_their_requests(tmp_path):
    pipeline = opened(tmp_path)
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
def listed(monkeypatch):
    """Return how often each folder was listed, and each image opened."""
    counts = {}

    def counting(name, call):
        def counted(path=".", *given, **more):
            counts[str(path), name] = counts.get((str(path), name), 0) + 1
            return call(path, *given, **more)

        return counted

    monkeypatch.setattr(os, "scandir", counting("list", os.scandir))
    monkeypatch.setattr(os, "listdir", counting("list", os.listdir))
    monkeypatch.setattr(Image, "open", counting("open", Image.open))
    return counts


def test_a_folder_of_images_is_listed_by_a_pipeline_and_its_plan_once_each(tmp_path, listed):
    folder = tmp_path / "photos"
    for group in ("chef", "nurse"):
        (folder / group).mkdir(parents=True)
        for k in range(3):
            Image.fromarray(np.full((8, 8, 3), 9 * k, np.uint8)).save(folder / group / f"{k}.jpg")
    judging = {"gender": "ViT-L-14:openai", "faces": "whole image"}
    pipeline = opened(tmp_path, model=f"images:{folder}", captions={"corpus": "", "approaches": []}, judging=judging)
    listed.clear()
    validation.check_settings(pipeline)
    names = [name for name in measures() if name.startswith("custom_")]
    plan = plan_of(pipeline)
    (request,) = plan.of_tables(names).requests
    assert (request.n_images, request.n_cached) == (6, 6)
    groups_listed = {path: listed[str(folder / path), "list"] for path in ("chef", "nurse")}
    assert groups_listed == {"chef": 2, "nurse": 2}
    # What an image itself says of its prompt is read once.
    opened_images = {Path(path): n for (path, name), n in listed.items() if name == "open"}
    assert opened_images == dict.fromkeys(folder.rglob("*.jpg"), 1)
