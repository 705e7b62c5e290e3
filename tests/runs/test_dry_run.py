"""A dry run counts images from the prompts of a run, without generating any."""

import re
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from biaslab import stats
from biaslab.errors import MissingInputError
from biaslab.generation.models import DiffusersModel, LoadedModel
from biaslab.papers.dalleval.stages import DallEval
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning import costs, planning_pipeline
from biaslab.planning.costs import Cost
from biaslab.planning.measures import measures
from biaslab.planning.plan import plan_of
from biaslab.planning.records import ImageRequest
from biaslab.runs import dry_run, jobs, params
from biaslab.schema import tables

pytest.importorskip("torch", reason="models need the extra 'models'")
SMALL = {
    "captions": {
        "occupations": ["nurse", "doctor"],
        "max_captions": 4000,
        "per_occupation": 6,
        "nearest_per_prompt": 2,
    },
    "generation": {"images_per_prompt": 2, "caption_prompts_per_occupation": 3, "steps": 1},
    "paired": {"n_occupations": 1, "power_samples": 1, "three_person_prompts": 1, "single_images": 1},
    "dalleval": {"n_scenes": 3, "n_professions": 1, "social_images": 1, "calibration_images": 6},
    "triplets": {
        "n_triplets": 3,
        "calibration_images": 6,
        "similarity": dict.fromkeys(("resnet", "clip", "dino", "split_product"), ""),
    },
    "baselines": "none",
}


def pipeline(store, model="world", **changes):
    settings = Settings.from_mapping(SMALL).with_changes(compute={"cache": str(store)}, **changes)
    return Pipeline(model, settings, seed=3, progress=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


# Those by judge measure others of these again: tests/analyses/synthesis/test_judges.py.
MEASURED = sorted(name for name in measures() if not tables.schema(name).by_judge_of)


class Counting(Pipeline):
    """A pipeline that computes, and records which images and which judges its stages ask for."""

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.images_asked, self.used = set(), set()

    def with_changes(self, model="", **changes):
        other = super().with_changes(model, **changes)
        other.images_asked, other.used = self.images_asked, self.used
        return other

    def generate_images(self, prompts, kind, prompt_set="captions", **more):
        self.images_asked.add((kind, int(prompts["n_images"].sum())))
        return super().generate_images(prompts, kind, prompt_set, **more)

    def record_use(self, setting, judge=None, images=None):
        self.used.add((setting, judge.name if judge else self.settings.captions.encoder))


def of_all_judges(store, **changes):
    """Return a pipeline that is given a judge in every role."""
    similarity = {"similarity": SMALL["triplets"]["similarity"] | {"dino": "mini-segmenter"}}
    prompts = Path(store) / "own.csv"
    prompts.write_text("prompt,group,n\na photo of the face of a nurse,nurse,2\n")
    given = {"judging": {"extra_judges": ["vqa:mini-vqa"]}, "triplets": similarity}
    given["custom"] = {"prompts_file": str(prompts)}
    for group, values in changes.items():
        given[group] = given.get(group, {}) | values
    settings = Settings.from_mapping(SMALL).with_changes(compute={"cache": str(store)}, **given)
    return Counting("world", settings, seed=3, progress=False)


def empty_settings(*settings):
    """Return changes that leave settings empty on purpose."""
    changes = {}
    for setting in settings:
        group, name = setting.split(".")
        empty = {"extra_judges": (), "similarity": SMALL["triplets"]["similarity"]}.get(name, "")
        changes.setdefault(group, {})[name] = empty
    return changes


def judges_of(plan_of_one):
    """Return the settings and names of the judges, and of the encoder, in the plan of a table."""
    return {use[:2] for use in plan_of_one.uses if use.setting != "model"}


@pytest.mark.long
@pytest.mark.parametrize("name", MEASURED)
def test_plan_of_table_matches_its_measure(name, store):
    pipeline = of_all_judges(store)
    plan_of_one = plan_of(pipeline).table(name)
    assert not pipeline.images_asked and not pipeline.used
    try:
        measures()[name](pipeline)
    except MissingInputError as error:
        assert plan_of_one.missing is not None and str(plan_of_one.missing) == str(error)
        assert not pipeline.images_asked
        return
    assert plan_of_one.missing is None
    assert {(request.kind, request.n_images) for request in plan_of_one.requests} == pipeline.images_asked
    assert judges_of(plan_of_one) == pipeline.used


@pytest.mark.long
@pytest.mark.parametrize("name", MEASURED)
def test_plan_of_table_without_judge_matches_measure(name, store):
    """The table is unavailable, reported before an image is generated, or is measured by other judges, or in part."""
    for setting in sorted({setting for setting, _ in judges_of(plan_of(of_all_judges(store)).table(name))}):
        bare = of_all_judges(store, **empty_settings(setting))
        plan_of_one = plan_of(bare).table(name)
        if plan_of_one.missing is None:
            measures()[name](bare)
            assert judges_of(plan_of_one) == bare.used and setting not in {used for used, _ in bare.used}
            continue
        assert setting in plan_of_one.missing.settings
        with pytest.raises(MissingInputError, match=re.escape(str(plan_of_one.missing))):
            measures()[name](bare)
        assert not bare.images_asked


def run(root, tmp_path, *patterns, **changes):
    settings = Settings.from_mapping(SMALL).with_changes(compute={"cache": str(tmp_path / "store")}, **changes)
    given = {"run": "r", "source": "pipeline", "model": "world", "notebooks": list(patterns)}
    # What was not set here is the model's own.
    given["settings"] = settings.model_dump(mode="json", exclude_unset=True)
    return params.load("params.yaml", given=given, notebooks_dir=root / "notebooks")


def test_image_requests_count_each_image_once_per_model(root, tmp_path):
    both = run(root, tmp_path, "paradox/4_*", "paradox/8_*", "dalleval/5_2_*", baselines=["mini"])
    result = {
        (image_request.paper, image_request.model, image_request.kind): image_request.n_images
        for image_request in dry_run.image_requests(jobs.pipelines(jobs.plan(both)))
    }
    # 2 occupations x 4 templates x 2 images; 2 x 3 captions, verbatim and paraphrased; 3 scenes of each of 3 skills.
    each = {("paradox", "generated"): 16, ("paradox", "caption_prompts"): 6, ("paradox", "paraphrased"): 6}
    each[("dalleval", "skills")] = 9
    assert result == {(p, m, k): n for m in ("world", "mini") for (p, k), n in each.items()}
    # Without approaches there are no requests for images of captions.
    none = run(root, tmp_path, "paradox/4_*", captions={"approaches": ()})
    assert (
        dry_run.image_requests(jobs.pipelines(jobs.plan(none))) == []
        and dry_run.describe_images([], {}).count("\n") == 0
    )


def test_cached_images_are_counted_and_not_timed(tmp_path):
    mini = pipeline(tmp_path, model="mini")
    (first_request,) = plan_of(mini).of_tables(["dalleval_social_images"]).requests
    assert (first_request.n_images, first_request.n_cached) == (6, 0)
    mini.part(DallEval).images("social")
    mini = pipeline(tmp_path, model="mini")
    (second_request,) = plan_of(mini).of_tables(["dalleval_social_images"]).requests
    assert (second_request.n_images, second_request.n_cached) == (6, 6) and costs.requests_to_time(
        [second_request]
    ) == {}
    assert "6 already cached" in dry_run.describe_images([second_request], {})
    # Noise of another seed makes other images.
    other = Pipeline("mini", mini.settings, seed=4, progress=False)
    assert [
        image_request.n_cached for image_request in plan_of(other).of_tables(["dalleval_social_images"]).requests
    ] == [0]


@pytest.mark.long
def test_measure_cost_generates_and_caches_nothing(tmp_path):
    (image_request,) = plan_of(pipeline(tmp_path, model="mini")).of_tables(["dalleval_social_images"]).requests
    result = costs.measure_cost(image_request)
    # A PNG of 64 x 64 pixels has some kilobytes; one step takes far less than a minute.
    assert 0 < result.seconds < 60 and 500 < result.bytes < 200_000 and result.images >= 1
    assert not list(tmp_path.rglob("*.parquet"))
    (world_request,) = plan_of(pipeline(tmp_path)).of_tables(["dalleval_social_images"]).requests
    assert costs.measure_cost(world_request).bytes == 0  # the world's drawings are kept nowhere


def test_measure_cost_other_load_gives_range(tmp_path, monkeypatch):
    (image_request,) = plan_of(pipeline(tmp_path)).of_tables(["dalleval_social_images"]).requests
    # Seconds of four batches: of one image with setup, of four without, and twice with other load.
    clock = iter([0, 1, 2, 2.5, 3, 4, 5, 7])
    monkeypatch.setattr(costs, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    result = costs.measure_cost(image_request)
    assert (result.seconds, result.longest, result.images) == (0.125, 0.5, 13)


def test_measure_cost_diffusion_model_times_few_steps(folders, tmp_path, monkeypatch):
    """Two and four of ten steps are timed, of an image with 3 seconds of other work."""
    # The tokenizer has a small vocabulary.
    monkeypatch.setattr(DiffusersModel, "check_texts", lambda self, prompts: None)
    few_steps = {"generation": {"steps": 10, "guidance_scale": 1}, "judging": {"faces": "whole image"}}
    (image_request,) = (
        plan_of(pipeline(tmp_path, model=folders("sd1"), **few_steps)).of_tables(["dalleval_social_images"]).requests
    )
    given = []

    def fake_time_images(image_request, ready, prompts):
        given.append((len(prompts), steps[-1]))
        return 3.0 + len(prompts) * 0.25 * steps[-1], 1000

    steps = []
    monkeypatch.setattr(costs, "_time_images", fake_time_images)
    monkeypatch.setattr(
        type(image_request.image_model),
        "ready",
        lambda self, held=None: LoadedModel(generate=None, steps=10, set_steps=steps.append),
    )
    result = costs.measure_cost(image_request)
    assert given == [(1, 2), (1, 4)] and result.seconds == 3 + 10 * 0.25 and result.images == 1


def test_describe_images_prices_endpoint_without_requests(server, tmp_path):
    endpoint = {"url": server.url, "price": 0.25, "cost_limit": 2, "api_key_env": "FAKE_KEY"}
    judges = {"judging": {"faces": "whole image"}, "dalleval": {"detector": "owner/detr"}}
    bought = pipeline(tmp_path, model="endpoint:dall-e", endpoint=endpoint, **judges)
    result = plan_of(bought).of_tables(["dalleval_skill_verdicts", "dalleval_social_images"]).requests
    text = dry_run.describe_images(result, {})
    # 9 scenes and 6 people; the limit buys 8.
    assert costs.requests_to_time(result) == {} and "15 x 0.25 = 3.75" in text and "endpoint.cost_limit (2)" in text
    assert not server.requests and "Time" not in text


def test_describe_margins_are_wilson_at_one_half(tmp_path):
    prompts_path = tmp_path / "own.csv"
    prompts_path.write_text("prompt,n\na nurse,10\na pilot,40\n")
    asks = pipeline(tmp_path, custom={"prompts_file": str(prompts_path)}, dalleval={"n_scenes": 1, "social_images": 1})
    result = plan_of(asks).of_tables(["custom_people", "dalleval_social_images", "dalleval_skill_verdicts"]).requests
    assert {"custom", "social", "skills"} == {image_request.kind for image_request in result}
    head, custom, dalleval, _ = dry_run._describe_margins(result, 0.95)
    low, high = stats.wilson_interval([20, 5], [40, 10])
    assert head == "Expected margin of error (95%) of a share of 50% in the images of one prompt:"
    each = " to ".join(f"{50 * width:.1f}" for width in high - low)
    assert custom.split() == f"custom prompts 10 to 40 images ±{each} points".split()
    # Of one image, 1.96 / 2 / sqrt(1 + 3.84) = 0.445; scenes show no person.
    assert "people by profession" in dalleval and dalleval.endswith(" 1 image  ±44.5 points")
    assert dry_run._describe_margins([], 0.95) == []


def test_plan_large_corpus_is_not_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(planning_pipeline, "MAX_SEARCHED_CAPTIONS", 2)
    captions = pd.DataFrame({"text": ["a photo of a nurse"] * 3})
    captions.to_csv(tmp_path / "captions.csv", index=False)
    large = pipeline(tmp_path, model="mini", captions={"corpus": str(tmp_path / "captions.csv"), "max_captions": 0})
    (image_request,) = plan_of(large).of_tables(["triplets_similarity"]).requests
    # 3 prompts of 3 triplets, 2 images each, at most.
    assert (
        image_request.at_most
        and image_request.n_images == 18
        and "at most 18" in dry_run.describe_images([image_request], {}).replace("  ", "")
    )
    assert not list(tmp_path.rglob("*images*"))


def test_describe_images_time_and_disk_cover_remaining_images(tmp_path, monkeypatch):
    monkeypatch.setattr("psutil.getloadavg", lambda: (0.9, 9, 9))
    monkeypatch.setattr("psutil.cpu_count", lambda: 2)
    model = Pipeline("world", Settings(compute={"cache": str(tmp_path)}), progress=False)
    made_by = model.image_model()
    image_request = ImageRequest("paired", "world", "single", 1000, 250, False, pd.DataFrame(), made_by, None, model)
    text = dry_run.describe_images([image_request], {(made_by.cost_key, None): Cost(12.0, 2e6, 4, 12.0)})
    # 750 images are left: 750 x 12 s = 2.5 hours, 750 x 2 MB = 1.5 GB.
    assert "2.5 hours" in text and "1.5 GB" in text and "1,000" in text and "250 already cached" in text
    assert "busy" not in text
    monkeypatch.setattr("psutil.getloadavg", lambda: (8.4, 1, 1))
    assert "busy (4.2 processes" in dry_run.describe_images(
        [image_request], {(made_by.cost_key, None): Cost(12.0, 2e6, 4, 12.0)}
    )
    much = dry_run.describe_images([image_request], {(made_by.cost_key, None): Cost(12.0, 1e18, 4, 12.0)})
    assert "are free" in much and Path(tmp_path).exists()
