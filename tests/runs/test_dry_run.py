"""What a run will make is told from the prompts that it will ask, without making any of it."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from biaslab.planning.image_counts import Cost, ImageRequest

from biaslab import stats
from biaslab.errors import MissingInputError
from biaslab.generation.models import Ready
from biaslab.judges import registry
from biaslab.papers.dalleval.stages import DallEval
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning import image_counts, requirements
from biaslab.runs import dry_run, jobs, params
from biaslab.schema import tables
from biaslab.study import sources
from biaslab_world.model import WorldModel

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
    settings = Settings.from_mapping(SMALL).changed(compute={"cache": str(store)}, **changes)
    return Pipeline(model, settings, seed=3, progress=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def made(monkeypatch):
    """Return how many images each call draws, in order."""
    counts = []

    def drawing(self, prompts, *, draw=WorldModel.generate, **how):
        counts.append(int(prompts["n_images"].sum()))
        return draw(self, prompts, **how)

    monkeypatch.setattr(WorldModel, "generate", drawing)
    return counts


# Those by judge measure others of these again: tests/analyses/precision/test_judges.py.
MEASURED = sorted(name for name in sources._pipeline() if not tables.schema(name).by_judge_of)


# What is taken, found out apart from what is declared: judges are checked when they are to look at images.
JUDGES = (*(set(registry.JUDGES) - {"dalleval.inception_file"}), requirements.ENCODER)


@pytest.fixture
def taken(monkeypatch):
    """Return the settings of the judges, and of the encoder, that are taken."""
    found, embedded = set(), Pipeline._encoder.func

    def checked(self, setting, images, judge=None, *, check=Pipeline.check_judge):
        # Further judges take the place of the first.
        further = setting == "judging.gender" and judge and judge.name in self.settings.judging.extra_judges
        found.add("judging.extra_judges" if further else setting)
        return check(self, setting, images, judge)

    monkeypatch.setattr(Pipeline, "check_judge", checked)
    monkeypatch.setattr(Pipeline, "_encoder", property(lambda self: found.add(requirements.ENCODER) or embedded(self)))
    return found


def of_all_judges(store, **changes):
    """Return a pipeline that is given a judge in every role."""
    similarity = {"similarity": SMALL["triplets"]["similarity"] | {"dino": "mini"}}
    prompts = Path(store) / "own.csv"
    prompts.write_text("prompt,group,n\na photo of the face of a nurse,nurse,2\n")
    custom = {"prompts_file": str(prompts)}
    judges = {"judging": {"extra_judges": ["vqa:mini-vqa"]}, "triplets": similarity, "custom": custom}
    for group, values in changes.items():
        judges[group] = judges.get(group, {}) | values
    return pipeline(store, **judges)


def without(*settings):
    """Return changes that leave settings empty on purpose."""
    changes = {}
    for setting in settings:
        group, name = setting.split(".")
        empty = {"extra_judges": (), "similarity": SMALL["triplets"]["similarity"]}.get(name, "")
        changes.setdefault(group, {})[name] = empty
    return changes


def declared(measuring, name, *hows):
    """Return the settings of the judges that a measured table is said to take."""
    looked = (look for look in requirements.classifier_uses(measuring, name) if not hows or look.how in hows)
    return {setting for look in looked for setting in requirements.judge_settings(measuring, look)} & {*JUDGES}


@pytest.mark.long
@pytest.mark.parametrize("name", MEASURED)
def test_each_table_takes_the_images_and_the_judges_that_were_told(name, store, made, taken):
    told = [one.n_images for one in image_counts.requests_for_tables(of_all_judges(store), [name])]
    assert not made  # nothing is drawn to tell
    whole = of_all_judges(store)
    try:
        table = sources.load_measured(name, source="pipeline", pipeline=whole)
    except MissingInputError:
        # Drawings keep no attention, and URLs are fetched of no embedded caption.
        assert name.startswith("triplets_")
        return
    assert sorted(made) == sorted(told)
    assert taken == declared(whole, name)
    assert {use.setting for use in requirements.uses_of_tables(whole, {name})} - {"model"} == taken
    # No other judge makes a difference, whether it is there or not. Without extra judges nothing is compared.
    taken.clear()
    kept = {"judging.extra_judges"} if name == "paradox_rated_images" else set()
    others = {*JUDGES} - declared(whole, name) - {requirements.ENCODER} - kept
    alone = of_all_judges(store, **without(*others))
    assert not requirements.missing_settings(alone, name) and not requirements.partial_settings(alone, name)
    again = sources.load_measured(name, source="pipeline", pipeline=alone)
    # Who judges is what these tell.
    if name not in ("pipeline_settings", "triplets_networks"):
        pd.testing.assert_frame_equal(again, table)


@pytest.mark.parametrize("name", MEASURED)
def test_a_table_without_a_judge_that_it_needs_says_so_before_an_image_is_made(name, store, made, taken):
    whole = of_all_judges(store)
    several = declared(whole, name, tables.ONE_OF)
    # There need be no further judge.
    each = [{setting} for setting in declared(whole, name, tables.NEEDED) - {"judging.extra_judges"}]
    for needed in each + [several] * bool(several):
        # Without an encoder no nearest captions are asked for, and without answers the judge of gender decides.
        replaced = needed == {requirements.ENCODER} and name != "paradox_similarity"
        if replaced or name == "dalleval_average_gender":
            continue
        bare = of_all_judges(store, **without(*needed))
        assert set(requirements.missing_settings(bare, name)) & needed
        with pytest.raises(MissingInputError, match=f"It takes {name}, and .* names nothing that"):
            sources.load_measured(name, source="pipeline", pipeline=bare)
    assert not made and not taken


@pytest.mark.long
@pytest.mark.parametrize("name", MEASURED)
def test_a_table_that_can_do_without_a_judge_is_measured_without(name, store, taken):
    whole = of_all_judges(store)
    optional = declared(whole, name, tables.IF_NAMED, tables.ONE_OF) - {"triplets.similarity"}
    for setting in optional:
        bare = of_all_judges(store, **without(setting))
        if requirements.missing_settings(bare, name):
            continue
        taken.clear()
        measured = sources.load_measured(name, source="pipeline", pipeline=bare)
        # What is told of who finds objects, where nobody does, is nothing.
        assert len(measured) or name in ("triplets_detections", "triplets_detector_counts")
        assert setting not in taken


def run(root, tmp_path, *patterns, **changes):
    settings = Settings.from_mapping(SMALL).changed(compute={"cache": str(tmp_path / "store")}, **changes)
    given = {"run": "r", "source": "pipeline", "model": "world", "notebooks": list(patterns)}
    # What was not set here is the model's own.
    given["settings"] = settings.model_dump(mode="json", exclude_unset=True)
    return params.load("params.yaml", given=given, notebooks_dir=root / "notebooks")


def test_a_run_asks_for_each_image_once_of_each_model(root, tmp_path):
    both = run(root, tmp_path, "paradox/4_*", "paradox/8_*", "dalleval/5_2_*", baselines=["mini"])
    found = {
        (one.paper, one.model, one.kind): one.n_images
        for one in dry_run.image_requests(jobs.pipelines(jobs.plan(both)))
    }
    # 2 occupations x 4 templates x 2 images; 2 x 3 captions, verbatim and paraphrased; 3 scenes of each of 3 skills.
    each = {("paradox", "generated"): 16, ("paradox", "caption_prompts"): 6, ("paradox", "paraphrased"): 6}
    each[("dalleval", "skills")] = 9
    assert found == {(p, m, k): n for m in ("world", "mini") for (p, k), n in each.items()}
    # Without approaches no image of captions is asked for.
    none = run(root, tmp_path, "paradox/4_*", captions={"approaches": ()})
    assert (
        dry_run.image_requests(jobs.pipelines(jobs.plan(none))) == []
        and dry_run.describe_images([], {}).count("\n") == 0
    )


def test_images_that_are_there_are_counted_and_not_timed(tmp_path):
    mini = pipeline(tmp_path, model="mini")
    (before,) = image_counts.requests_for_tables(mini, ["dalleval_social_images"])
    assert (before.n_images, before.n_cached) == (6, 0)
    mini.part(DallEval).images("social")
    (after,) = image_counts.requests_for_tables(mini, ["dalleval_social_images"])
    assert (after.n_images, after.n_cached) == (6, 6) and image_counts.requests_to_time([after]) == {}
    assert "6 already there" in dry_run.describe_images([after], {})
    # Noise of another seed makes other images.
    other = Pipeline("mini", mini.settings, seed=4, progress=False)
    assert [one.n_cached for one in image_counts.requests_for_tables(other, ["dalleval_social_images"])] == [0]


@pytest.mark.long
def test_an_image_is_measured_with_the_model_itself_and_leaves_nothing(tmp_path):
    (one,) = image_counts.requests_for_tables(pipeline(tmp_path, model="mini"), ["dalleval_social_images"])
    found = image_counts.measure_cost(one)
    # A PNG of 64 x 64 pixels has some kilobytes; one step takes far less than a minute.
    assert 0 < found.seconds < 60 and 500 < found.bytes < 200_000 and found.images >= 1
    assert not list(tmp_path.rglob("*.parquet"))
    (drawn,) = image_counts.requests_for_tables(pipeline(tmp_path), ["dalleval_social_images"])
    assert image_counts.measure_cost(drawn).bytes == 0  # the world's drawings are kept nowhere


def test_what_else_the_machine_does_is_told_as_a_range(tmp_path, monkeypatch):
    (one,) = image_counts.requests_for_tables(pipeline(tmp_path), ["dalleval_social_images"])
    # Seconds of four batches: of one image with what is prepared once, of four alone, and twice beside other work.
    clock = iter([0, 1, 2, 2.5, 3, 4, 5, 7])
    monkeypatch.setattr(image_counts, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found = image_counts.measure_cost(one)
    assert (found.seconds, found.longest, found.images) == (0.125, 0.5, 13)


def test_of_what_denoises_a_few_steps_are_timed(folders, tmp_path, monkeypatch):
    """Two and four of ten, of an image that takes 3 seconds beside them, and of four."""
    (one,) = image_counts.requests_for_tables(
        pipeline(tmp_path, model=folders("sd1"), generation={"steps": 10, "guidance_scale": 1}),
        ["dalleval_social_images"],
    )
    given = []

    def made(one, ready, prompts):
        given.append((len(prompts), steps[-1]))
        return 3.0 + len(prompts) * 0.25 * steps[-1], 1000

    steps = []
    monkeypatch.setattr(image_counts, "_time_images", made)
    monkeypatch.setattr(
        type(one.image_model), "ready", lambda self, held=None: Ready(generate=None, steps=10, set_steps=steps.append)
    )
    found = image_counts.measure_cost(one)
    assert given == [(1, 2), (1, 4)] and found.seconds == 3 + 10 * 0.25 and found.images == 1


def test_an_endpoint_is_priced_and_never_asked(server, tmp_path):
    endpoint = {"url": server.url, "price": 0.25, "cost_limit": 2, "api_key_env": "FAKE_KEY"}
    bought = pipeline(tmp_path, model="endpoint:dall-e", endpoint=endpoint)
    found = list(image_counts.requests_for_tables(bought, ["dalleval_skill_verdicts", "dalleval_social_images"]))
    text = dry_run.describe_images(found, {})
    # 9 scenes and 6 people; the limit buys 8.
    assert (
        image_counts.requests_to_time(found) == {} and "15 x 0.25 = 3.75" in text and "endpoint.cost_limit, 2" in text
    )
    assert not server.requests and "Time" not in text


def test_margins_of_error_are_of_a_share_of_one_half_by_wilson(tmp_path):
    own = tmp_path / "own.csv"
    own.write_text("prompt,n\na nurse,10\na pilot,40\n")
    asks = pipeline(tmp_path, custom={"prompts_file": str(own)}, dalleval={"n_scenes": 1, "social_images": 1})
    found = list(
        image_counts.requests_for_tables(asks, ["custom_people", "dalleval_social_images", "dalleval_skill_verdicts"])
    )
    assert {"custom", "social", "skills"} == {one.kind for one in found}
    head, custom, dalleval, _ = dry_run._margins(found, 0.95)
    low, high = stats.wilson_interval([20, 5], [40, 10])
    assert head == "Expected margin of error (95 %) of a share of 50 % over the images of one prompt:"
    each = " to ".join(f"{50 * width:.1f}" for width in high - low)
    assert custom.split() == f"prompts of one's own 10 to 40 images ±{each} points".split()
    # Of one image, 1.96 / 2 / sqrt(1 + 3.84) = 0.445; scenes show no person.
    assert "people by profession" in dalleval and dalleval.endswith(" 1 image  ±44.5 points")
    assert dry_run._margins([], 0.95) == []


def test_a_large_corpus_is_not_searched_for_a_plan(tmp_path):
    captions = pd.DataFrame({"text": ["a photo of a nurse"] * 3})
    captions.to_csv(tmp_path / "captions.csv", index=False)
    large = pipeline(tmp_path, model="mini", captions={"corpus": str(tmp_path / "captions.csv"), "max_captions": 0})
    (one,) = image_counts.requests_for_tables(large, ["triplets_similarity"])
    # 3 prompts of 3 triplets, 2 images each, if there are so many.
    assert one.at_most and one.n_images == 18 and "at most 18" in dry_run.describe_images([one], {}).replace("  ", "")
    assert not list(tmp_path.rglob("*.parquet"))


def test_hours_and_disk_are_of_what_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("psutil.getloadavg", lambda: (0.9, 9, 9))
    monkeypatch.setattr("psutil.cpu_count", lambda: 2)
    model = Pipeline("world", Settings(compute={"cache": str(tmp_path)}), progress=False)
    made_by = model.image_model()
    one = ImageRequest("paired", "world", "single", 1000, 250, False, pd.DataFrame(), made_by, None, model)
    text = dry_run.describe_images([one], {(made_by.cost_key, None): Cost(12.0, 2e6, 4, 12.0)})
    # 750 images are left: 750 x 12 s = 2.5 hours, 750 x 2 MB = 1.5 GB.
    assert "2.5 hours" in text and "1.5 GB" in text and "1,000" in text and "250 already there" in text
    assert "busy" not in text
    monkeypatch.setattr("psutil.getloadavg", lambda: (8.4, 1, 1))
    assert "busy: 4.2 processes" in dry_run.describe_images([one], {(made_by.cost_key, None): Cost(12.0, 2e6, 4, 12.0)})
    much = dry_run.describe_images([one], {(made_by.cost_key, None): Cost(12.0, 1e18, 4, 12.0)})
    assert "are free" in much and Path(tmp_path).exists()
