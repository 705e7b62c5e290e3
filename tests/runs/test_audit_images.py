"""`biaslab audit images:FOLDER`: drawings with ground truth as images of two models, from the command to the page."""

import json

import numpy as np
import pandas as pd
import pytest
from fake_vision import FakeVision, marked
from PIL import Image

from biaslab import cli
from biaslab.analyses.custom.stages import Custom
from biaslab.errors import InputError, ParameterError
from biaslab.papers.dalleval import prompts as dalleval_prompts
from biaslab.papers.paired import prompts as paired_prompts
from biaslab.papers.paired.stages import Paired
from biaslab.pipeline import Pipeline
from biaslab.planning import measures, validation
from biaslab.runs import audit
from biaslab.settings import Settings

pytest.importorskip("torch", reason="models need the extra 'models'")
truth = pytest.importorskip("biaslab_world.truth")

JUDGES = ["faces=mini-detector", "gender=mini-clip"]
CUSTOM = ["custom/beyond_precision", "custom/people", "custom/shares"]
# Women of ten drawings, by model and group.
WOMEN = {("first", "nurse"): 9, ("first", "pilot"): 2, ("second", "nurse"): 9, ("second", "pilot"): 8}


def drawings(n, seed):
    """Return a function of a gender, which gives another of ``n`` drawn people each time."""
    queries = pd.DataFrame({"prompt": ["person"], "profession": ["(none)"], "text": ["a photo of a person"]})
    people_images = truth.people(queries.assign(prompt_id="p", n_images=1), n, seed=seed, decoded=None)
    left = {gender: list(ids) for gender, ids in people_images.table.groupby("truth_gender")["image_id"]}
    return lambda gender: people_images.read([left[gender].pop()])[0]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a folder with one of each model, whose subfolders are groups."""
    root, another = tmp_path_factory.mktemp("pictures"), drawings(60, seed=3)
    for (model, group), women in WOMEN.items():
        (root / model / group).mkdir(parents=True, exist_ok=True)
        (root / model / "biaslab.json").write_text(json.dumps({"pictures": "drawings"}))
        for k in range(10):
            Image.fromarray(another("female" if k < women else "male")).save(root / model / group / f"{k}.png")
    return root


def test_audit_two_image_folders_estimates_their_shares(folders, root, tmp_path, capsys, inline):
    names = [f"images:{folders / model}" for model in ("first", "second")]
    options = [
        "--notebooks-dir",
        str(root / "notebooks"),
        "--outputs",
        str(tmp_path),
        "--name",
        "mine",
        "--no-progress",
    ]
    sets = [f"settings.judging.{judge}" for judge in JUDGES]
    sets += ["bootstrap_replicates=200", "notebooks=[custom/shares, custom/people]"]
    status = cli.main(["audit", *names, *options, *(text for override in sets for text in ("--set", override))])
    assert status == 0, capsys.readouterr().err
    shares = pd.read_csv(tmp_path / "mine/tables/custom_shares.csv").set_index(["model", "group", "answer"])
    for (model, group), women in WOMEN.items():
        rows = shares.sort_index().loc[(model, group)]
        female, male, unclear = (rows["percent"] * rows["n"] / 100).loc[["female", "male", "unclear"]]
        # Undetected or unclear people may be either; the judge misclassifies at most one of ten.
        assert female < women + 1.5 and male < 10 - women + 1.5 and female + male + unclear >= 8
    changes = pd.read_csv(tmp_path / "mine/tables/custom_differences.csv").set_index("group")
    assert changes.loc["pilot", "ci_low"] <= 60 <= changes.loc["pilot", "ci_high"]
    record = json.loads((tmp_path / "mine/run.json").read_text())
    assert [n["slug"] for n in record["notebooks"]] == ["custom/people", "custom/shares"]
    page = (tmp_path / "mine/index.html").read_text()
    assert "What share of the people is perceived as female?" in page
    comparison = pd.read_csv(tmp_path / "mine/tables/custom_comparison.csv").iloc[0]
    # Groups of both are 40 and 30 points from an even split.
    assert comparison["ci_low"] <= 0 <= comparison["ci_high"] and comparison["p_holm"] > 0.05
    assert [card["question"] for card in record["findings"] if card["card"] == 1] == [
        "Which model is more biased, that is, farther from an even split?"
    ]
    # People annotate the images of the run, whose groups the page has.
    capsys.readouterr()
    command = ["annotate", "mine", "--outputs", str(tmp_path), "--sample", "6"]
    assert cli.main(command) == 2
    # The run's own parameters contain no local path.
    assert "first is not a folder" in (output := capsys.readouterr().err) and "--set model=images:FOLDER" in output
    assert cli.main([*command, "--set", f"model={names[0]}", "--set", f"settings.baselines=['{names[1]}']"]) == 0
    assert capsys.readouterr().err.startswith("6 images, ")
    annotations = (tmp_path / "annotate-mine.html").read_text()
    assert '"occupation"' in annotations and '"pilot"' in annotations


@pytest.mark.long
def test_audit_annotations_correct_biased_vision_model(root, tmp_path, capsys, inline):
    """A third of the women are classified as male; half of the images have annotations with the ground truth."""
    another, folder, labels_by_image, rated = drawings(170, seed=4), tmp_path / "eyed", {}, ["image_id,gender"]
    (folder / "nurse").mkdir(parents=True)
    (folder / "biaslab.json").write_text(json.dumps({"pictures": "drawings"}))
    for k in range(120):
        gender = "female" if k < 72 else "male"
        Image.fromarray(array := another(gender)).save(folder / "nurse" / f"{k:03}.png")
        hard = gender == "female" and k % 3 == 0
        labels_by_image[marked(array)] = "male" if hard else "unclear" if k % 11 == 1 else gender
        rated += [f"nurse/{k:03}.png,{gender}"] if k // 3 % 2 else []
    ratings, questions = tmp_path / "rated.csv", tmp_path / "questions.yaml"
    ratings.write_text("\n".join(rated))
    questions.write_text("- {name: style, question: 'What is it?', answers: [drawing, photo], of: image}")

    def see(picture, text, answers):
        return "drawing" if "drawing" in answers else labels_by_image.get(marked(picture), "nobody")

    with FakeVision(see).running() as server:
        sets = [
            f"settings.vision={{url: '{server.url}', price: 0.01, cost_limit: 9, person_view: position}}",
            "settings.endpoint.api_key_env=",
            f"settings.judging={{gender: 'endpoint:eye', annotations: '{ratings}', questions_file: '{questions}'}}",
            f"settings.compute.cache={tmp_path / 'store'}",
            "bootstrap_replicates=1000",
        ]
        options = ["--notebooks-dir", str(root / "notebooks"), "--outputs", str(tmp_path), "--name", "eye"]
        command = ["audit", f"images:{folder}", *options, *(text for override in sets for text in ("--set", override))]
        assert cli.main([*command, "--dry-run"]) == 0
        output = capsys.readouterr().out
        assert "Price: endpoint:eye at most 240 questions x 0.01 = 2.40" in output
        # The preflight check sends at most one request.
        assert (rehearsed := len(server.requests)) <= 1
        assert cli.main([*command, "--no-progress"]) == 0, capsys.readouterr().err
        # Each image is sent once for gender, and once for its style.
        assert (asked_for := len(server.requests)) == 240 + rehearsed
        assert cli.main([*command, "--no-progress", "--overwrite"]) == 0 and len(server.requests) == asked_for
    estimates = pd.read_csv(tmp_path / "eye/tables/precision_estimates.csv").query("group == 'all'")
    judge, both = (estimates.set_index("estimator").loc[name] for name in ("judge", "both"))
    # 60% are women; a third of them are called male.
    assert judge["estimate"] < 45 and both["ci_low"] < 60 < both["ci_high"]
    answered = pd.read_csv(tmp_path / "eye/tables/custom_answer_shares.csv").set_index(["group", "answer"])
    assert answered.loc[("nurse", "drawing"), ["percent", "n"]].tolist() == [100.0, 120]
    page = (tmp_path / "eye/index.html").read_text()
    assert "estimated from annotations and judge combined?" in page


def blank(folder, *names):
    """Write images that all differ."""
    folder.mkdir(exist_ok=True)
    for k, name in enumerate(names):
        Image.fromarray(np.full((4, 4, 3), 3 * k, np.uint8)).save(folder / name)


def test_make_parameters_folder_of_models_lists_each(tmp_path):
    blank(tmp_path, "a.png", "b.png")
    (tmp_path / "t.csv").write_text("file,group,model\na.png,chef,B\nb.png,chef,A\n")
    results = audit.make_parameters([f"images:{tmp_path}"])
    assert results["model"] == f"images:{tmp_path}::A"
    assert results["settings"]["baselines"] == [f"images:{tmp_path}::B"]
    assert results["notebooks"] == CUSTOM and results["title"] == "Audit of A, B"


def test_check_plan_benchmark_of_other_groups_is_refused(folders, tmp_path):
    file = tmp_path / "labour.csv"
    file.write_text("group,percent_female\ndentist,40\n")
    settings = Settings.from_mapping({"custom": {"benchmark_file": str(file)}, "captions": {"approaches": []}})
    with pytest.raises(InputError, match=r"'dentist'.*'nurse', 'pilot'"):
        validation.check_plan(Pipeline(f"images:{folders / 'first'}", settings, progress=False), ["custom_benchmark"])


def test_digest_changes_with_prompts_and_table(tmp_path):
    blank(tmp_path, "a.png", "b.png")
    settings = Settings.from_mapping(
        {"custom": {"prompts_file": f"{tmp_path}/prompts.txt"}, "captions": {"approaches": []}}
    )
    results = []
    for prompts, rows in (("", ""), ("", ""), ("", "b.png,a chef\n"), ("a nurse\n", "b.png,a chef\n")):
        (tmp_path / "prompts.txt").write_text(f"a chef\n{prompts}")
        (tmp_path / "t.csv").write_text(f"file,prompt\na.png,a chef\n{rows}")
        results.append(validation.digest(Pipeline(f"images:{tmp_path}", settings, progress=False)))
    assert results[0] == results[1] and len(set(results)) == 3


@pytest.mark.parametrize("person_view", ["crop", "position"])
@pytest.mark.parametrize("of", ["person", "image"])
def test_questions_cropped_people_need_face_detector(folders, tmp_path, of, person_view):
    (rated := tmp_path / "rated.csv").write_text("image_id,gender\nnurse/0.png,female\n")
    (file := tmp_path / "q.yaml").write_text(f"- {{name: hat, question: Is it a hat, answers: [yes, no], of: {of}}}")
    judging = {"gender": f"annotations:{rated}", "question_model": "endpoint:eye", "questions_file": str(file)}
    settings = Settings(judging=judging, vision={"person_view": person_view})
    queries = Pipeline(f"images:{folders / 'first'}", settings, progress=False).part(Custom)
    if (of, person_view) == ("person", "crop"):
        with pytest.raises(ParameterError, match=r"Set vision\.person_view to 'position'"):
            queries.questions()
    else:
        assert len(queries.questions()) == 1


def test_extra_judges_with_same_file_name_stay_distinct(folders, tmp_path):
    files = []
    for gender in ("female", "male"):
        (tmp_path / gender).mkdir()
        (file := tmp_path / gender / "rated.csv").write_text(f"image_id,gender\nnurse/0.png,{gender}\n")
        files.append(f"annotations:{file}")
    judging = {"faces": "mini-detector", "gender": "mini-clip", "extra_judges": files}
    pipeline = Pipeline(f"images:{folders / 'first'}", Settings(judging=judging), progress=False)
    table = measures.measures()["custom_people_by_judge"](pipeline)
    labels = table[table["image_id"] == "nurse/0.png"].set_index("judge")["gender"]
    assert len(labels) == 2 and set(labels) == {"female", "male"}


def test_check_plan_unrelated_annotations_are_refused(folders, tmp_path):
    other = tmp_path / "rated.csv"
    other.write_text("image_id,gender\nelsewhere/1.png,female\n")
    judging = {"faces": "mini-detector", "gender": "mini-clip", "extra_judges": [f"annotations:{other}"]}
    pipeline = Pipeline(f"images:{folders / 'first'}", Settings(judging=judging), progress=False)
    with pytest.raises(InputError, match=r"annotates none of the 20 people here, such as 'nurse/0\.png'"):
        validation.check_plan(pipeline, ["custom_people_by_judge"])
    validation.check_plan(pipeline, ["custom_people"])


def test_skin_tones_are_not_read_by_default(tmp_path):
    (tmp_path / "mine").mkdir()
    blank(tmp_path / "mine" / "nurse", "0.png", "1.png")
    params = audit.make_parameters([f"images:{tmp_path / 'mine'}"])
    assert "tone" not in params["settings"]["judging"]
    pipeline = Pipeline(
        params["model"], Settings.from_mapping(params["settings"] | {"compute": {"cache": str(tmp_path)}})
    )
    source = pipeline.part(Custom).images().source
    people = pd.DataFrame({"image_id": source.table["image_id"], "x0": 0.0, "y0": 0.0, "x1": 4.0, "y1": 4.0})
    tones = pipeline.skin_tones(source, people)
    assert set(tones["judge"]) == {"none"} and set(tones["reason"]) == {"not read"} and tones["tone"].isna().all()


@pytest.mark.long
def test_make_parameters_paper_prompts_select_its_notebooks(tmp_path):
    """Images of people by profession and of pairs select notebooks; pairs only the kinds that have images."""
    queries = [f"a photo of something {k}" for k in range(20)]
    social = list(dalleval_prompts.social(1)["text"][:12])
    pairs = list(paired_prompts.paired(images=1, runs=1).texts.query("aspect == 'occupation'")["text"][:12])
    for name, texts in (("other", queries), ("social", social), ("few", social[:9]), ("pairs", pairs)):
        files = [f"{k}.png" for k in range(len(texts))]
        blank(tmp_path / name, *files)
        pd.DataFrame({"file": files, "prompt": texts}).to_csv(tmp_path / name / "told.csv", index=False)
    results = {
        name: audit.make_parameters([f"images:{tmp_path / name}"]) for name in ("other", "social", "few", "pairs")
    }
    assert results["other"]["notebooks"] == results["few"]["notebooks"] == CUSTOM
    assert results["social"]["notebooks"] == [*CUSTOM, "dalleval/5_3_gender", "dalleval/5_3_skin_tone"]
    assert results["social"]["settings"]["dalleval"] == {"vqa": "", "detector": ""}
    assert "paired/4_4_overall" in results["pairs"]["notebooks"]
    pipeline = Pipeline(f"images:{tmp_path / 'pairs'}", Settings(critic={"rounds": 0}), progress=False)
    assert pipeline.part(Paired).kinds == ("paired",)
    assert not Pipeline(f"images:{tmp_path / 'other'}", Settings(), progress=False).part(Paired).kinds
