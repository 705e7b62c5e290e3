"""The pipeline checks its settings, connects the stages, and computes only what is asked for."""

import functools
import io
import sys

import img2dataset_output
import numpy as np
import pandas as pd
import pytest
from loopback import Server
from PIL import Image
from tqdm import tqdm

from biaslab.captions import downloads
from biaslab.captions.embeddings import Encoder
from biaslab.errors import InputError, MissingInputError, ParameterError, UnknownNameError, UnreachableHubError
from biaslab.generation.models import DiffusersModel
from biaslab.hub import checkpoints, registry
from biaslab.papers.paradox import measure
from biaslab.pipeline import Pipeline, Settings, paths
from biaslab.planning import planning_pipeline, validation
from biaslab.planning.measures import measures
from biaslab.planning.plan import plan_of
from biaslab.planning.records import ModelUse
from biaslab.study import Study, sources

CAPTIONS = [
    ("a", "Portrait of a female nurse", "red"),
    ("b", "A nurse at work", "blue"),
    ("c", "nurse smiling, she is happy", "red"),
    ("d", "An engineer and a nurse", "blue"),
    ("e", "An engineer at a desk", "black"),
    ("f", "Garden gate", "red"),
]
COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255), "black": (0, 0, 0)}


class FakeImages:
    """Images as a generator makes them: red where the text says female or she, else blue."""

    name, digest = "generated", "g"

    def __init__(self, prompts):
        rows = [
            {"image_id": f"{p.prompt_id}/{i}", "prompt_id": p.prompt_id, "index": i, "seed": 0, "status": "ok"}
            for p in prompts.itertuples()
            for i in range(p.n_images)
        ]
        self.table = pd.DataFrame(rows)
        self._texts = dict(zip(prompts["prompt_id"], prompts["text"], strict=True))

    def read(self, image_ids):
        words = [self._texts[i.rsplit("/", 1)[0]].replace(",", "").split() for i in image_ids]
        return [plain("red" if {"female", "she"}.intersection(w) else "blue") for w in words]


def plain(colour):
    return np.full((8, 8, 3), COLOURS[colour], dtype=np.uint8)


class Fake(Pipeline):
    """A pipeline whose generator and judge use colors; it counts their images."""

    n_generated, n_judged = 0, 0

    def generate_images(self, prompts, kind):
        self.n_generated += int(prompts["n_images"].sum())
        return FakeImages(prompts)

    def judge_images(self, images):
        ids = images.table["image_id"].tolist()
        self.n_judged += len(ids)
        rows = []
        for image_id, image in zip(ids, images.read(ids), strict=True):
            if not isinstance(image, np.ndarray):
                rows.append((image_id, "unreadable", ""))
            elif not image.any():
                rows.append((image_id, "no_face", ""))
            else:
                rows.append((image_id, "judged", "female" if image[0, 0, 0] else "male"))
        return pd.DataFrame(rows, columns=["image_id", "status", "gender"])


@pytest.fixture
def fake(tmp_path):
    """Return a function that opens a pipeline on six captions with images in a folder."""
    (tmp_path / "images").mkdir()
    for name, _, colour in CAPTIONS:
        Image.fromarray(plain(colour)).save(tmp_path / "images" / f"{name}.png")
    pd.DataFrame(CAPTIONS, columns=["id", "text", "colour"]).to_csv(tmp_path / "captions.csv", index=False)

    def make(**settings):
        given = {
            "captions": {
                "corpus": str(tmp_path / "captions.csv"),
                "columns": {"caption_id": "id"},
                "training_images": str(tmp_path / "images"),
                "occupations": ["nurse", "engineer"],
                "approaches": ["naive", "no_indicators", "caption_prompts", "caption_prompts_no_indicators"],
            },
            "generation": {"images_per_prompt": 3, "images_per_caption": 2},
            # Colours are judged in their place.
            "judging": {"faces": "whole image", "gender": "ViT-L-14:openai"},
            "compute": {"cache": str(tmp_path / "store")},
        }
        return Fake("fake", Settings.from_mapping(given).with_changes(**settings), progress=False)

    return make


# -- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"generation": {"stpes": 3}}, "no 'generation.stpes'. Did you mean 'generation.steps'"),
        ({"steps": 3}, "no 'steps'. Did you mean 'generation.steps'? Groups: captions, "),
        ({"critic": "counts"}, "critic is a group of settings"),
        ({"paired": {"pair_images": "many"}}, "paired.pair_images is 'many'"),
        ({"generation": {"steps": 0}}, "generation.steps is 0; it must be 1 to 1,000 steps."),
        ({"captions": {"name_recognizer": "gazeteer"}}, "name_recognizer is 'gazeteer'. Did you mean 'gazetteer'?"),
        ({"captions": {"approaches": ["naiv"]}}, "approaches contains 'naiv'. Did you mean 'naive'"),
        ({"baselines": []}, "baselines is (); specify at least one value."),
        ({"baselines": ["none", "mini"]}, "baselines is ['none', 'mini']"),
        ({"captions": {"occupations": 3}}, "captions.occupations contains 3; it must be a string."),
        ({"captions": {"columns": "text"}}, "captions.columns is 'text'; it must be a mapping"),
        ([], "settings is []; it must be a mapping"),
        ({"endpoint": {"options": {"x": [float("inf")]}}}, "endpoint.options.x is inf"),
        ({"calibration": {"guidance_scales": [1.0, float("nan")]}}, "calibration.guidance_scales is nan"),
        ({"captions": {"max_captions": 10**400}}, "captions.max_captions is a whole number outside the range"),
        ({1: 2}, "settings has the key 1, which must be a string"),
        # All problems are reported at once.
        ({"stpes": 3, "generation": {"height": -1}}, "height is -1; it must be 0 or more pixels"),
    ],
)
def test_settings_with_invalid_values_are_refused(given, message):
    with pytest.raises(ParameterError) as error:
        Settings.from_mapping(given)
    assert message in str(error.value)


def test_resolve_paths_makes_settings_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "caps").mkdir()
    (tmp_path / "caps/1.csv").write_text("text\n")
    given = {
        "captions": {"corpus": "caps/*.csv"},
        "judging": {"faces": "mediapipe:face.tflite", "gender": "mini-clip"},
        "compute": {"cache": "kept"},
    }
    model, result = paths.resolve_paths("owner/name", given)
    assert model == "owner/name"
    assert result == {
        "captions": {"corpus": str(tmp_path / "caps/*.csv")},
        "judging": {"faces": f"mediapipe:{tmp_path / 'face.tflite'}", "gender": "mini-clip"},
        "compute": {"cache": str(tmp_path / "kept")},
    }
    assert paths.resolve_paths("caps", {})[0] == str(tmp_path / "caps")
    # A known judge's name takes precedence over a folder of that name.
    (tmp_path / "yunet").mkdir()
    judge_names = {"judging": {"faces": "yunet", "gender": "dlib"}}
    assert paths.resolve_paths("owner/name", judge_names)[1] == judge_names
    # Tables name a folder by its last part, which does not reveal its location.
    assert Pipeline(str(tmp_path / "caps"), Settings()).label == "caps"
    assert Pipeline("owner/name", Settings()).label == "owner/name"


@pytest.mark.parametrize(
    ("gender", "extra_judges", "judge"),
    [
        ("ViT-L-14:openai", ("ViT-B-32:openai",), "ViT-L-14:openai"),
        ("dlib", ("annotations:a.csv", "ViT-B-32:openai"), "ViT-B-32:openai"),
        ("", ("mini-clip",), "mini-clip"),
        ("fairface:f.safetensors", ("vqa:a/b", "plugin:c", "endpoint:d"), ""),
    ],
)
def test_clip_judge_is_open_clip_model_among_judges(gender, extra_judges, judge):
    p = Pipeline("owner/name", Settings(judging={"gender": gender, "extra_judges": extra_judges}))
    assert (p.clip_judge.name if p.clip_judge else "") == judge
    if not judge:
        with pytest.raises(MissingInputError, match=r"neither judging\.gender nor judging\.extra_judges contains one"):
            p.text_embeddings(["a photo"])


# -- stages ----------------------------------------------------------------------------------------------


def test_captions_are_found_once_per_occupation(fake):
    p = fake()
    result = p.captions().sort_values(["occupation", "caption_id"])
    assert list(zip(result["occupation"], result["caption_id"], result["indicator"], strict=True)) == [
        ("engineer", "d", "none"),
        ("engineer", "e", "none"),
        ("nurse", "a", "female"),
        ("nurse", "b", "none"),
        ("nurse", "c", "female"),
        ("nurse", "d", "none"),
    ]
    assert p.totals().to_numpy().tolist() == [["nurse", 4, 6], ["engineer", 2, 6]]
    assert result["colour"].tolist() == ["blue", "black", "red", "blue", "red", "blue"]
    # Selections rank within an occupation.
    selections = p.selections()
    sizes = selections.groupby(["approach", "occupation"]).size().to_dict()
    assert sizes == {
        ("naive", "engineer"): 2,
        ("naive", "nurse"): 4,
        ("no_indicators", "engineer"): 2,
        ("no_indicators", "nurse"): 2,
    }
    free = selections[(selections["approach"] == "no_indicators") & (selections["occupation"] == "nurse")]
    assert sorted(free["rank"]) == [1, 2] and set(free["caption_id"]) == {"b", "d"}


def test_nearest_captions_join_judged_sample(fake, monkeypatch):
    def letters(self, texts):
        # A text is the share of its letters that are "w" (as in "work"), and the rest.
        w = np.array([text.lower().count("w") for text in texts], dtype=np.float32)
        vectors = np.stack([1 + 0 * w, w], axis=1)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    monkeypatch.setattr(Encoder, "encode", letters)
    monkeypatch.setattr(Encoder, "digest", "letters")
    p = fake(
        captions={
            "approaches": ["naive", "nearest", "nearest_no_indicators"],
            "per_occupation": 1,
            "candidates_per_occupation": 0,
            "nearest_per_prompt": 1,
        }
    )
    selections = p.selections().set_index(["approach", "prompt", "occupation"])
    # Template 4 ends in "at work"; of the nurse's captions only b has a "w", once, as the template has.
    row = selections.loc[("nearest", "4", "nurse")]
    assert row["caption_id"] == "b" and row["cosine"] == pytest.approx(1)
    assert selections.loc[("nearest_no_indicators", "4", "nurse"), "caption_id"] == "b"
    # The random sample's cosine is its mean over the templates: of prompt 4 and the others, which have no "w".
    first = p.captions().query("rank == 1 and occupation == 'nurse'").iloc[0]
    has = "w" in first["text"].lower()
    expected = (1 + 3 * 0.5**0.5) / 4 if has else (0.5**0.5 + 3) / 4
    assert selections.loc[("naive", "captions", "nurse"), "cosine"] == pytest.approx(expected)
    judged = p.judgements("training")
    requested = p.selections()[["caption_id", "occupation"]].drop_duplicates()
    assert set(zip(judged["caption_id"], judged["occupation"], strict=True)) == set(requested.itertuples(False, None))
    cosine_by_key = p.cosines().set_index(["caption_id", "occupation", "prompt"])["cosine"]
    assert cosine_by_key["b", "nurse", "4"] == pytest.approx(1) and cosine_by_key["b", "nurse", "1"] == pytest.approx(
        0.5**0.5
    )


def test_prompts_fill_templates_and_take_captions(fake):
    p = fake(generation={"caption_prompts_per_occupation": 1, "images_per_caption": 5})
    made = p.prompts("generated").set_index("prompt_id")
    assert len(made) == 8 and made.loc["p1-engineer", "text"] == "A photo of the face of an engineer"
    assert made["n_images"].tolist() == [3] * 8
    captions = p.prompts("caption_prompts")
    first = p.captions().query("rank == 1")
    assert captions["prompt_id"].tolist() == [f"c-{i}" for i in first["caption_id"]]
    assert captions["text"].tolist() == first["text"].tolist() and captions["n_images"].tolist() == [5, 5]
    changed = p.prompts("paraphrased")
    assert [i.split("-")[2] for i in changed["prompt_id"]] == ["nurse", "engineer"]
    with pytest.raises(UnknownNameError, match=r"no kind of images named 'training'"):
        p.prompts("training")


def test_shared_image_is_made_and_judged_once(fake):
    p = fake()
    training = p.judgements("training")
    # Only what is asked for is computed.
    assert len(training) == 6 and (p.n_generated, p.n_judged) == (0, 5)
    assert training.set_index("caption_id")["status"].to_dict()["e"] == "no_face"
    judged = p.judgements("caption_prompts")
    # Captions a, b, c, d for nurse and d, e for engineer; two images each.
    assert judged.groupby("occupation").size().to_dict() == {"engineer": 4, "nurse": 8}
    assert (p.n_generated, p.n_judged) == (10, 15)
    # A repeated request generates nothing.
    p.judgements("caption_prompts")
    assert (p.n_generated, p.n_judged) == (10, 15)


def test_check_settings_runs_before_any_work(fake, tmp_path, monkeypatch):
    resolved_names = []

    def resolve(name, kind):
        resolved_names.append((name, kind))
        return name

    monkeypatch.setattr(registry, "resolve", resolve)
    good = fake().settings
    validation.check_settings(Pipeline("owner/name", good))
    # Models are looked up by preflight checks, once the measured tables are known.
    assert resolved_names == []
    for model, changed, message in (
        ("owner/name", {"training_images": "gone"}, "captions.training_images is 'gone', which is not a folder"),
        ("owner/name", {"corpus": "gone.csv"}, r"no corpus 'gone\.csv'"),
    ):
        with pytest.raises((ParameterError, InputError), match=message):
            validation.check_settings(Pipeline(model, good.with_changes(captions=changed)))
    # It draws the embedded captions only.
    with pytest.raises(
        ParameterError, match=r"model is 'world', .* but captions.corpus is .*captions\.csv'\. Set captions.corpus"
    ):
        validation.check_plan(Pipeline("world", good), ["paradox_percent_female"])


def test_check_models_reports_all_judge_problems(fake):
    missing_files = {"faces": "mediapipe:gone.tflite", "gender": "fairface:gone.st"}
    pipeline = Pipeline(
        "mini", fake(generation={"image_domain": "drawings"}).settings.with_changes(judging=missing_files)
    )
    problems = validation.check_models(pipeline, plan_of(pipeline).table("paradox_percent_female").uses)
    faces, gender = sorted(set(problems), key=lambda said: "FairFace" in said)
    assert "There is no file gone.tflite" in faces and "https://storage.googleapis.com/mediapipe-models" in faces
    assert "no file gone.st" in gender and "https://github.com/dchen236/FairFace" in gender
    with pytest.raises(ParameterError, match=r"^The run has 2 problems and was not started:\n  - .*gone"):
        given = Settings.from_mapping({"captions": {"corpus": "mini"}, "judging": missing_files})
        validation.check_plan(Pipeline("mini", given), {"paradox_percent_female"})


def test_unreachable_hub_error_names_offline_judges(monkeypatch):
    def look_up(use, pipeline):
        raise UnreachableHubError(f"{use.name} cannot be fetched.")

    monkeypatch.setattr(ModelUse, "files", look_up)
    monkeypatch.setattr(DiffusersModel, "check_texts", lambda self, prompts: None)
    pipeline = Pipeline("owner/name", Settings(judging={"faces": "owner/detector", "gender": "ViT-L-14:openai"}))
    problems = validation.check_models(pipeline, plan_of(pipeline).table("paired_percent_female").uses)
    has_advice = {
        text.partition(":")[0]: "judging.gender=dlib and judging.faces=yunet work" in text for text in problems
    }
    assert has_advice == {"model": False, "judging.faces": True, "judging.gender": True}


def test_digest_covers_captions_images_and_weights(fake, tmp_path, monkeypatch):
    (tmp_path / "r.csv").write_text("1")
    weights = {"owner/name": "1"}
    monkeypatch.setattr(registry, "resolve", lambda name, kind: name)
    monkeypatch.setattr(checkpoints, "digest", lambda name: weights.get(name, "others"))
    settings = fake(judging={"gender": f"annotations:{tmp_path / 'r.csv'}"}).settings

    def digests():
        pipeline = Pipeline("owner/name", settings)
        judges = [ModelUse("judging.gender", "annotations", judge=pipeline.gender_judge).digest()]
        return validation.digest(pipeline), *judges

    result = [digests()]
    assert validation.digest(Pipeline("owner/name", settings.with_changes(generation={"steps": 3}))) == result[0][0]
    weights["owner/name"] = "2"
    result.append(digests())
    (tmp_path / "r.csv").write_text("2")
    result.append(digests())
    (tmp_path / "images/a.png").unlink()
    result.append(digests())
    with (tmp_path / "captions.csv").open("a") as file:
        file.write("g,Another nurse,red\n")
    result.append(digests())
    assert len(set(result)) == 5


def test_progress_file_receives_only_progress(tmp_path, monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    p = Pipeline("fake", Settings(), progress_file=tmp_path / "deep" / "progress.log")
    with p.progress_shown() as progress:
        assert progress
        for i in tqdm(range(2), desc="generating", mininterval=0, file=sys.stderr):
            if i:
                assert (tmp_path / "deep/progress.log").read_text().startswith("generating:")
        print("a warning", file=sys.stderr)
    assert stderr.getvalue().strip() == "a warning"
    assert not (tmp_path / "deep/progress.log").exists()


# -- as a source -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["published", "folder"])
def test_source_of_tables_has_no_images(tmp_path, source):
    study = Study(tmp_path, source=str(tmp_path) if source == "folder" else source)
    with pytest.raises(
        MissingInputError, match=r"This needs images, but the source .* has only tables\. Set source to"
    ):
        study.images("generated")
    none = study.judgements("generated", optional=True)
    assert none.empty and {"image_id", "occupation", "status", "gender"} <= set(none)
    if source == "published":
        with pytest.raises(
            MissingInputError, match=r"Published has no table paradox_indicators. It is measured on images"
        ):
            study.load("paradox_indicators")
        with pytest.raises(UnknownNameError, match="no table of measurements in published named 'paradox_x'"):
            study.load("paradox_x")


def test_published_values_join_measured_table(fake):
    p = fake()
    joined = sources.load_measured("paradox_percent_female", source="mini", pipeline=p)
    assert list(dict.fromkeys(joined["model"])) == ["fake", "SD 1.4", "SD 1.5"]
    # 2 models, 62 occupations, 4 prompts and the training side.
    assert (joined["model"] != "fake").sum() == 2 * 62 * 5
    without_baselines = fake(baselines="none")
    assert set(sources.load_measured("paradox_percent_female", source="mini", pipeline=without_baselines)["model"]) == {
        "fake"
    }
    printed_table = sources.load_measured("paradox_printed_amplification", source="mini", pipeline=p)
    assert set(printed_table["model"]) == {"SD 1.4", "SD 1.5"}
    with pytest.raises(
        MissingInputError, match=r"The pipeline has no table triplets_printed_chi_square. Set source to 'pub"
    ):
        sources.load_measured("triplets_printed_chi_square", source="mini", pipeline=without_baselines)
    assert sources.has_table("paradox_printed_amplification", source="mini", baselines=("published",))
    assert not sources.has_table("paradox_printed_amplification", source="mini")


# -- images fetched by URL -------------------------------------------------------------------------------


@pytest.fixture
def pictures():
    """Serve the captions' images by name, except b's, which is gone."""
    colours = {name: COLOURS[colour] for name, _, colour in CAPTIONS if name != "b"}

    def answer(request, _):
        if (colour := colours.get(request.path[1:])) is None:
            return 410, {}, b""
        file = io.BytesIO()
        Image.new("RGB", (900, 900), colour).save(file, "PNG")
        return 200, {}, file.getvalue()

    with Server(answer).running() as server:
        yield server


@pytest.fixture
def open_url_pipeline(fake, pictures, tmp_path, monkeypatch):
    """Return a function that opens a pipeline on the six captions with URLs instead of a folder."""
    download_locally = functools.partial(downloads.download, allow=[pictures.address])
    monkeypatch.setattr(downloads, "download", download_locally)
    base = f"{pictures.url}/"
    rows = [(name, text, base + name) for name, text, _ in CAPTIONS]
    pd.DataFrame(rows, columns=["id", "text", "url"]).to_csv(tmp_path / "urls.csv", index=False)

    def make(**settings):
        urls = {"corpus": str(tmp_path / "urls.csv"), "training_images": "download", "downloads": {"max_side": 64}}
        return Fake("fake", fake(captions=urls).settings.with_changes(**settings), progress=False)

    return make


def test_training_images_are_downloaded_and_cached(open_url_pipeline, pictures, tmp_path):
    p = open_url_pipeline(captions={"approaches": ["naive"]})
    judged = p.judgements("training").set_index(["caption_id", "occupation"])
    assert judged["gender"].to_dict() == {
        ("a", "nurse"): "female",
        ("b", "nurse"): "",
        ("c", "nurse"): "female",
        ("d", "nurse"): "male",
        ("d", "engineer"): "male",
        ("e", "engineer"): "",
    }
    assert judged.loc[("b", "nurse"), "status"] == "unreadable"
    # f names no occupation, and d is one image for two.
    assert sorted(request.path for request in pictures.received) == ["/a", "/b", "/c", "/d", "/e"]
    result = p.downloads().set_index("caption_id")
    assert result["status"].to_dict() == {"a": "ok", "b": "gone", "c": "ok", "d": "ok", "e": "ok"}
    assert set(result.loc[["a", "e"], "original_width"]) == {900}
    assert p.images("training").read(["a"])[0].shape == (64, 64, 3)
    assert p.images("training").read(["b"])[0].reason == "gone"
    # Another pipeline finds them, and another size is another set.
    reopened = open_url_pipeline(captions={"approaches": ["naive"]})
    assert reopened.images("training").source.digest == p.images("training").source.digest
    assert len(pictures.received) == 5
    assert [folder.name for folder in (tmp_path / "store" / "downloads").iterdir()] == [
        reopened.settings.captions.downloads.digest
    ]
    reopened.with_changes(captions={"downloads": {"timeout": 3}}).downloads()
    assert len(pictures.received) == 5
    reopened.with_changes(captions={"downloads": {"max_side": 32}}).downloads()
    assert len(pictures.received) == 10 and len(list((tmp_path / "store" / "downloads").iterdir())) == 2


def test_download_outcomes_count_images_by_status(open_url_pipeline):
    p = open_url_pipeline(captions={"approaches": ["naive", "no_indicators", "caption_prompts"]})
    counts = measure.download_outcomes(p).set_index(["approach", "occupation", "status"])[["n", "n_female", "n_male"]]
    # nurse: a, c female, d male, b gone; without indicators b, d. engineer: d male, e without a face.
    for approach, nurses in (("naive", [3, 2, 1]), ("no_indicators", [1, 0, 1]), ("caption_prompts", [3, 2, 1])):
        counts_by_key = {key: list(row) for key, *row in counts.loc[approach].itertuples(name=None)}
        assert counts_by_key == {("nurse", "ok"): nurses, ("nurse", "gone"): [1, 0, 0], ("engineer", "ok"): [2, 0, 1]}


def test_downloads_require_url_column_and_setting(open_url_pipeline, fake, pictures, tmp_path, monkeypatch):
    p = open_url_pipeline(captions={"approaches": ["naive"]})
    validation.check_settings(Pipeline("owner/name", p.settings))
    # What is fetched is no input of a run.
    monkeypatch.setattr(registry, "resolve", lambda name, kind: name)
    monkeypatch.setattr(checkpoints, "digest", lambda name: name)
    digest_before = validation.digest(Pipeline("owner/name", p.settings))
    assert not pictures.received
    p.downloads()
    assert pictures.received and validation.digest(Pipeline("owner/name", p.settings)) == digest_before
    none = fake(captions={"training_images": "download"})
    with pytest.raises(MissingInputError, match=r"no recognized column of URLs\. Specify it in captions\.columns"):
        validation.check_settings(Pipeline("owner/name", none.settings))
    with pytest.raises(
        MissingInputError, match=r"No images are downloaded, because captions.training_images is '.*images'"
    ):
        fake().downloads()
    # It is a word and no folder.
    monkeypatch.chdir(tmp_path)
    given = {"captions": {"training_images": "download"}}
    assert paths.resolve_paths("owner/name", given) == ("owner/name", given)


@pytest.mark.parametrize("kind", ["files", "webdataset"])
def test_img2dataset_output_is_read_with_statuses(open_url_pipeline, pictures, tmp_path, kind, monkeypatch):
    base, fetched_by_url = f"{pictures.url}/", {}
    for name, colour in {name: COLOURS[colour] for name, _, colour in CAPTIONS if name in "acd"}.items():
        Image.new("RGB", (9, 9), colour).save(tmp_path / "one.png")
        fetched_by_url[base + name] = (tmp_path / "one.png").read_bytes()
    fetched_by_url[base + "b"] = "HTTP Error 404: Not Found"
    folder = img2dataset_output.write(tmp_path / "fetched", kind, [fetched_by_url])
    p = open_url_pipeline(captions={"approaches": ["naive"], "training_images": str(folder)})
    validation.check_settings(Pipeline("owner/name", p.settings))
    assert p.fetches_images and p.has_images and not pictures.received
    outcomes = p.downloads().set_index("caption_id")["status"].to_dict()
    # e was not requested from img2dataset.
    assert outcomes == {"a": "ok", "b": "not_found", "c": "ok", "d": "ok", "e": "missing"}
    judged = p.judgements("training").set_index(["caption_id", "occupation"])
    genders = {"a": "female", "b": "", "c": "female", "d": "male"}
    assert judged["gender"].xs("nurse", level="occupation").to_dict() == genders
    counts = measure.download_outcomes(p).set_index(["occupation", "status"])["n"].to_dict()
    nurses = {("nurse", "ok"): 3, ("nurse", "not_found"): 1}
    assert counts == nurses | {("engineer", "ok"): 1, ("engineer", "missing"): 1}
    assert not pictures.received
    # Other images are another input of a run.
    monkeypatch.setattr(registry, "resolve", lambda name, kind: name)
    monkeypatch.setattr(checkpoints, "digest", lambda name: name)
    other_folder = img2dataset_output.write(
        tmp_path / "more", kind, [fetched_by_url, {base + "e": fetched_by_url[base + "d"]}]
    )
    opened = Pipeline("owner/name", p.settings)
    assert validation.digest(opened.with_changes(captions={"training_images": str(other_folder)})) != validation.digest(
        opened
    )


def nurse_captions(corpus):
    return {"corpus": str(corpus), "occupations": ["nurse"]}


IMAGES = {"training_images": "images"}
AS_PROMPTS = {"approaches": ["naive", "caption_prompts"]}


def check_captions(settings):
    """Check tables that need captions only, and those that need images."""
    validation.check_plan(Pipeline("mini", settings), ["paradox_indicators", "paradox_percent_female"])


@pytest.mark.parametrize(
    ("name", "text", "settings", "message"),
    [
        ("a.csv", "text,url\n", {}, "The corpus 'a.csv' contains no captions"),
        ("a.txt", "", {}, "The corpus 'a.txt' contains no captions"),
        ("a.txt", "a tree\nthe sea\n", {}, "None of the 2 captions of the corpus 'a.txt' mentions one"),
        ("a.csv", "id,text\n1,a nurse\n1,the nurse\n", {"columns": {"caption_id": "id"}}, "the id '1'"),
        ("a.csv", "a,b\n1,2\n", {}, "Its columns are: a, b."),
        ("a.txt", "a nurse", {"occupations": ["astronaut"]}, "None of the 1 captions"),
        ("a.txt", "an astronaut", IMAGES | {"occupations": ["astronaut"]}, "The tokenizer of mini lacks .*'astronaut'"),
        ("a.txt", "a nurse on zanzibar", IMAGES | AS_PROMPTS, "cannot be used as prompts .*lacks .*'zanzibar'"),
        ("a.txt", "a nurse", {"occupations": [" "]}, "The term ' ' cannot be searched"),
    ],
)
def test_check_plan_refuses_unusable_captions(tmp_path, monkeypatch, name, text, settings, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "images" / "1.png")
    (tmp_path / "images" / registry.DOMAIN_FILE).write_text('{"pictures": "drawings"}')
    (tmp_path / name).write_text(text)
    given = {"captions": nurse_captions(tmp_path / name), "compute": {"cache": str(tmp_path / "store")}}
    with pytest.raises((InputError, ParameterError), match=message):
        check_captions(Settings.from_mapping(given).with_changes(captions=settings))
    assert not list((tmp_path / "store").rglob("*images*"))


def test_check_plan_accepts_usable_captions(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a nurse on zanzibar\na tree\n")
    given = {"captions": nurse_captions(tmp_path / "a.txt"), "compute": {"cache": str(tmp_path / "store")}}
    # Without images nothing is generated, so no word needs to be known.
    check_captions(Settings.from_mapping(given))
    # The first captions of a large corpus do not determine the rest.
    monkeypatch.setattr(planning_pipeline, "MAX_SEARCHED_CAPTIONS", 2)
    (tmp_path / "a.txt").write_text("a tree\na tree\na nurse\n")
    check_captions(Settings.from_mapping(given))
    check_captions(Settings.from_mapping({}))
    with pytest.raises(UnknownNameError, match="no occupation of the synthetic world named 'astronaut'"):
        validation.check_plan(
            Pipeline("world", Settings.from_mapping({"captions": {"occupations": ["astronaut"]}})), ["paired_people"]
        )
    validation.check_plan(Pipeline("mini", Settings.from_mapping({})), ["paired_people"])
    with pytest.raises(ParameterError, match="lacks 1 of the prompts' words: 'zanzibar'"):
        unknown_word = {"generation": {"negative_prompt": "zanzibar", "guidance_scale": 3}}
        validation.check_plan(Pipeline("mini", Settings.from_mapping(unknown_word)), ["paired_people"])


# Tables of the paradox that need images.
OF_IMAGES = {"percent_female", "judgement_outcomes", "caption_pairs", "gender_words"}


def test_tables_needing_images_are_refused_and_planned(tmp_path, monkeypatch):
    """With captions only, a table is available if and only if it needs no images, and a plan agrees."""

    def refuse_generation(*_, **__):
        raise AssertionError("an image is generated")

    monkeypatch.setattr(Pipeline, "generate_images", refuse_generation)
    (tmp_path / "captions.txt").write_text("a female nurse\na nurse at work\nan engineer\nhe is an engineer\n")
    settings = {
        "captions": {"corpus": str(tmp_path / "captions.txt"), "occupations": ["nurse", "engineer"]},
        "compute": {"cache": str(tmp_path / "store")},
        "baselines": "none",
    }
    made = Study(tmp_path / "out", source="mini", settings=settings)
    made.pipeline.progress = False
    measured = {name for name in measures() if name.startswith("paradox_")}
    needing_images = set()
    for name in measured:
        try:
            made.load(name)
        except MissingInputError as error:
            assert "captions but no images. Set captions.training_images to a folder" in str(error), name
            needing_images.add(name)
        assert (plan_of(made.pipeline).table(name).missing is not None) == (name in needing_images), name
    assert needing_images == {f"paradox_{name}" for name in OF_IMAGES}
