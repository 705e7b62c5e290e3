"""The contents of an annotation page, and the images that it refuses."""

import base64
import io
import json
import os
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from biaslab import cli
from biaslab.analyses.custom.stages import Custom
from biaslab.analyses.ratings import sample
from biaslab.errors import BiaslabError, InputError, ParameterError
from biaslab.generation import generator
from biaslab.hub.image_sources import CaptionImages
from biaslab.papers.triplets.stages import Triplets
from biaslab.pipeline import Pipeline
from biaslab.ratings import annotations, shares
from biaslab.runs import annotation_page, dry_run, jobs
from biaslab.runs.params import load
from biaslab.settings import Settings


@pytest.fixture
def save(tmp_path):
    """Return a function that saves an image below a folder."""

    def write(name, size=(4, 4), **options):
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(list(name.encode())).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, **options)
        return path

    return write


def data_of(page):
    """Return the data of a page."""
    text = page.path.read_text(encoding="utf-8")
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(block)


def held(page):
    """Return the rows of a page, each as a mapping, and the picture of each."""
    data = data_of(page)
    pictures = [data["pictures"][picture] for picture, *_ in data["items"]]
    return [dict(zip(data["header"], row, strict=True)) for row in data["rows"]], pictures


def opened(picture):
    return Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2])))


def test_a_folder_tells_ids_occupations_and_sources(save, tmp_path, capsys):
    for name in ("nurse/a.png", "generated/pilot/b.jpg", "c.png", "training/nurse/d.png", "in training/e.png"):
        save(name)
    (tmp_path / "mine" / "broken.png").write_bytes(b"not an image")
    assert cli.main(["annotate", str(tmp_path / "mine"), "--outputs", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == str(tmp_path / "out" / "annotate-mine.html") and "not an image" in said.err
    page = annotation_page.annotate(tmp_path / "mine", outputs=tmp_path / "out", show_faces=True)
    assert page.images == 5 and page.left_out == {"not an image": 1}
    rows, pictures = held(page)
    found = {row["image_id"]: (row["source"], row["occupation"]) for row in rows}
    assert found["a"] == ("generated", "nurse") and found["b"] == ("generated", "pilot")
    assert found["c"] == ("generated", "all") and found["d"] == ("training", "nurse")
    assert found["e"] == ("generated", "in training") and len(found) == 5
    of = dict(zip([row["image_id"] for row in rows], pictures, strict=True))
    for name, path in (("a", "nurse/a.png"), ("d", "training/nurse/d.png")):
        np.testing.assert_array_equal(np.asarray(opened(of[name])), np.asarray(Image.open(tmp_path / "mine" / path)))


def test_images_of_one_name_are_called_by_their_paths(save, tmp_path):
    for name in ("doctor/1.png", "nurse/1.png", "nurse/2.png"):
        save(name)
    rows, _ = held(annotation_page.annotate(tmp_path / "mine", outputs=tmp_path))
    assert {row["image_id"]: row["occupation"] for row in rows} == {
        "doctor/1": "doctor",
        "nurse/1": "nurse",
        "2": "nurse",
    }
    # By which a judge of ratings finds them.
    images = CaptionImages(tmp_path / "mine", [row["image_id"] for row in rows])
    assert all(images.has(row["image_id"]) for row in rows)


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "name", "occupation"),
    [
        ("mine/training/nurse", "face.png", "all"),
        ("mine", "TRAINING_images/face.png", "all"),
        ("mine", "run1/training/nurse/face.png", "nurse"),
        ("mine", "generated/training/face.png", "all"),
        # With a character that nobody sees.
        ("mine", "train\u200bing/nurse/face.png", "nurse"),
    ],
)
def test_training_images_are_none_of_generated_ones_however_their_folder_is_given(
    save, tmp_path, given, name, occupation
):
    folder = tmp_path / given
    save(str(Path(given.removeprefix("mine").strip("/"), name)))
    with pytest.raises(InputError, match=r"no image to show \(1 a training image, .* --show-faces, or put"):
        annotation_page.annotate(folder, outputs=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    ((row,), _) = held(annotation_page.annotate(folder, outputs=tmp_path / "out", show_faces=True))
    assert (row["image_id"], row["source"], row["occupation"]) == ("face", "training", occupation)


NAMES_OF_TRAINING = ["TRAINING", "training_images", "train", "training-2", "trainings", "train set", "lfw_train"]
# In wide letters, with an accent, with a year, and behind another word.
NAMES_OF_TRAINING += ["".join(chr(ord(letter) + 0xFEE0) for letter in "TRAINING"), "Train\u00edng data", "train2017"]
NAMES_OF_OTHERS = ["pilot in training", "train driver", "training manager", "personal trainer", "nurse"]


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        *((name, "training") for name in [*NAMES_OF_TRAINING, "my training photos"]),
        *((name, "") for name in NAMES_OF_OTHERS),
        ("generated-2", "generated"),
    ],
)
def test_the_name_of_a_folder_says_its_source_in_any_spelling(folder, source):
    assert annotation_page._read_source(folder) == source


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_links_show_no_training_images_and_nothing_from_elsewhere(save, tmp_path, capsys, monkeypatch):
    save("generated/nurse/a.png")
    for link, to in (
        ("generated/nurse/b.png", save("training/nurse/face.png")),
        ("generated/nurse/c.png", save("../elsewhere/c.png")),
        ("generated/nurse/d.png", save("../other/Training/d.png")),
    ):
        (tmp_path / "mine" / link).symlink_to(to)
    # One that leads to a generated image of the folder is as good as it.
    (tmp_path / "mine/generated/nurse/e.png").symlink_to(tmp_path / "mine/generated/nurse/a.png")
    assert cli.main(["annotate", str(tmp_path / "mine"), "--output", str(tmp_path / "page.html")]) == 0
    said = capsys.readouterr().err
    assert "Excluded: 2 images, a link that leads out of the folder." in said
    assert "Excluded: 2 images, a training image, which only --show-faces includes." in said
    page = annotation_page.annotate(tmp_path / "mine", output=tmp_path / "page.html")
    assert sorted(row["image_id"] for row in held(page)[0]) == ["a", "e"]
    # The folder itself may be a link.
    (tmp_path / "short").symlink_to(tmp_path / "mine" / "training" / "nurse")
    with pytest.raises(InputError, match="a training image"):
        annotation_page.annotate(tmp_path / "short", output=tmp_path / "page.html")
    monkeypatch.setenv("BIASLAB_FOLLOW_LINKS", "1")
    page = annotation_page.annotate(tmp_path / "mine", output=tmp_path / "page.html")
    assert page.left_out == {"a training image, which only --show-faces includes": 3}
    rows, _ = held(annotation_page.annotate(tmp_path / "mine", output=tmp_path / "page.html", show_faces=True))
    found = {row["image_id"]: row["source"] for row in rows}
    training = dict.fromkeys(("b", "d", "face"), "training")
    assert found == training | dict.fromkeys("ace", "generated")


def test_names_that_are_alike_show_no_other_image(save, tmp_path):
    """An accent in one piece or in two: one of them in a folder whose images are not shown."""
    save("nurse/Ren\u00e9.png", (6, 6))
    save("training/nurse/Rene\u0301.png", (9, 9))
    rows, (picture,) = held(annotation_page.annotate(tmp_path / "mine", outputs=tmp_path))
    assert [row["source"] for row in rows] == ["generated"] and opened(picture).size == (6, 6)
    rows, pictures = held(annotation_page.annotate(tmp_path / "mine", outputs=tmp_path, show_faces=True))
    sizes = {row["image_id"]: opened(picture).size for row, picture in zip(rows, pictures, strict=True)}
    assert sizes == {"nurse/Ren\u00e9": (6, 6), "training/nurse/Rene\u0301": (9, 9)}


def asked(page):
    """Return the words of each question of a page."""
    return [words for _, _, words in data_of(page)["items"]]


def test_each_person_of_a_folder_that_an_audit_takes_is_asked_about(save, tmp_path):
    for name in ("a.png", "sub/b.png", "cc.png", "training/d.png", "unnamed.png"):
        save(name)
    told = "file,prompt,group,position\na.png,two at work,nurse,left\na.png,two at work,pilot,right\n"
    told += "sub/b.png,one,nurse,\n" + "".join(f"cc.png,four,cooks,{k}\n" for k in (1, 2, 3, 4))
    (tmp_path / "mine" / "told.csv").write_text(told + "training/d.png,one,nurse,\n", encoding="utf-8")
    page = annotation_page.annotate(f"images:{tmp_path / 'mine'}", outputs=tmp_path / "out")
    assert page.path.name == "annotate-mine.html" and page.images == 3
    assert page.left_out == {"a training image, which only --show-faces includes": 1}
    rows, pictures = held(page)
    people = {(row["image_id"], row["position"]): row["occupation"] for row in rows}
    cooks = {("cc.png", str(k)): "cooks" for k in (1, 2, 3, 4)}
    assert people == {("a.png", "1"): "nurse", ("a.png", "2"): "pilot", ("sub/b.png", "1"): "nurse", **cooks}
    questions = {(r["image_id"], r["position"]): q for r, q in zip(rows, asked(page), strict=True)}
    assert questions["a.png", "2"] == "Which gender do you perceive in the person on the right?"
    assert questions["sub/b.png", "1"] == "Which gender do you perceive in the person?"
    assert questions["cc.png", "3"] == "Which gender do you perceive in the person, number 3 from the left?"
    # People of one picture stand one after the other, with that picture.
    names = [row["image_id"] for row in rows]
    assert sum(a != b for a, b in pairwise(names)) == 2
    assert len(set(pictures)) == 3
    # Of a sample pictures are drawn, with all of their people.
    few = held(annotation_page.annotate(f"images:{tmp_path / 'mine'}", outputs=tmp_path / "out", n=1))[0]
    assert len({row["image_id"] for row in few}) == 1
    assert len(few) == {"a.png": 2, "sub/b.png": 1, "cc.png": 4}[few[0]["image_id"]]


def test_annotate_asks_all_questions_about_an_image_in_turn(save, tmp_path):
    for name in ("a.png", "b.png"):
        save(name)
    table = "file,prompt,group,position\na.png,two at work,nurse,1\na.png,two at work,pilot,2\nb.png,one,nurse,\n"
    (tmp_path / "mine" / "told.csv").write_text(table, encoding="utf-8")
    (tmp_path / "q.yaml").write_text("- {name: '=hair', question: 'Hair?', answers: [dark, '=1+1'], of: person}")
    questions = f"perceived gender,alignment,{tmp_path / 'q.yaml'}"
    page = annotation_page.annotate(f"images:{tmp_path / 'mine'}", outputs=tmp_path, questions=questions)
    rows, pictures = held(page)
    assert page.images == 2 and len(data_of(page)["pictures"]) == 2
    found = pd.DataFrame(rows).assign(picture=pictures)
    of_a = found[found["image_id"] == "a.png"]
    # A spreadsheet takes no name of a question for a formula.
    assert of_a["question"].tolist() == ["", "", "alignment", "'=hair", "'=hair"]
    assert of_a["position"].tolist() == ["1", "2", "1", "1", "2"] and of_a["picture"].nunique() == 1
    assert of_a["occupation"].tolist() == ["nurse", "pilot", "nurse", "nurse", "pilot"]
    assert set(of_a["prompt"]) == {"two at work"} and len(found) == 5 + 3
    assert "How well does the image match the prompt “one”?" in asked(page)
    save("../plain/c.png")
    with pytest.raises(ParameterError, match="'alignment' applies to none"):
        annotation_page.annotate(tmp_path / "plain", outputs=tmp_path, questions="alignment")


def test_what_comes_back_judges_the_people_of_the_folder(save, tmp_path):
    for name in ("nurse/a.png", "nurse/b.png", "pilot/a.png"):
        save(name)
    folder = f"images:{tmp_path / 'mine'}"
    rows, _ = held(annotation_page.annotate(folder, outputs=tmp_path))
    answers = {"nurse/a.png": "female", "nurse/b.png": "unsure", "pilot/a.png": "male"}
    frame = pd.DataFrame(rows).assign(annotator="ana")
    frame.assign(label=frame["image_id"].map(answers)).to_csv(tmp_path / "ratings-ana.csv", index=False)
    judging = {"gender": f"annotations:{tmp_path / 'ratings-ana.csv'}"}
    settings = Settings(judging=judging, compute={"cache": str(tmp_path / "store")}, baselines=("none",))
    people = Pipeline(folder, settings, progress=False).part(Custom).people().set_index("image_id")
    assert people["gender"].to_dict() == answers
    assert people["status"].to_dict() == dict(zip(answers, ("judged", "uncertain", "judged"), strict=True))
    # The ids are those of shares by occupation as well.
    read = shares.read(tmp_path / "ratings-ana.csv")
    assert dict(sample.votes(read.table)) == answers and set(read.images["occupation"]) == {"nurse", "pilot"}


def test_a_folder_of_several_models_is_rated_with_their_names(save, tmp_path):
    for name in ("1.png", "2.png"):
        save(name)
    (tmp_path / "mine" / "t.csv").write_text("file,prompt,model\n1.png,one,A\n2.png,one,B\n", encoding="utf-8")
    rows, _ = held(annotation_page.annotate(f"images:{tmp_path / 'mine'}", outputs=tmp_path))
    assert {row["image_id"]: row["model"] for row in rows} == {"1.png": "A", "2.png": "B"}
    ((row,), _) = held(annotation_page.annotate(f"images:{tmp_path / 'mine'}::B", outputs=tmp_path))
    assert (row["image_id"], row["model"]) == ("2.png", "B")
    with pytest.raises(InputError, match="contains no images of 'C'"):
        annotation_page.annotate(f"images:{tmp_path / 'mine'}::C", outputs=tmp_path)


def test_a_page_replaces_a_page_and_nothing_else(save, tmp_path):
    save("nurse/a.png")
    target = tmp_path / "there.html"
    target.write_text("<!DOCTYPE html><title>Mine</title>")
    with pytest.raises(ParameterError, match=rf"{target} already exists and is no annotation page .* with --output\."):
        annotation_page.annotate(tmp_path / "mine", output=target)
    assert target.read_text() == "<!DOCTYPE html><title>Mine</title>"
    page = annotation_page.annotate(tmp_path / "mine", output=tmp_path / "page.html")
    assert annotation_page.annotate(tmp_path / "mine", output=page.path).path == page.path


def test_files_are_decoded_and_made_anew_from_their_pixels(save, tmp_path):
    path = save("nurse/a.jpg", (1300, 900), comment=b"<script>window.hacked</script>")
    path.write_bytes(path.read_bytes() + b"<script>behind</script>")
    save("nurse/b.png", (40, 20))
    rows, pictures = held(annotation_page.annotate(tmp_path / "mine", outputs=tmp_path))
    of = dict(zip([row["image_id"] for row in rows], pictures, strict=True))
    large, small = opened(of["a"]), opened(of["b"])
    assert (large.format, large.size) == ("JPEG", (512, 354)) and "comment" not in large.info
    assert (small.format, small.size) == ("PNG", (40, 20))
    assert b"behind" not in base64.b64decode(of["a"].partition(",")[2])


def test_more_bytes_than_a_page_holds_are_refused_with_what_to_do(save, tmp_path, monkeypatch):
    for k in range(6):
        save(f"nurse/{k}.png", (20, 20))  # noise: 1,200 bytes of pixels that nothing makes smaller
    monkeypatch.setattr(annotation_page, "MAX_BYTES", 6000)
    with pytest.raises(ParameterError, match=r"at most 6,000.*--sample 2\b"):
        annotation_page.annotate(tmp_path / "mine", outputs=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert annotation_page.annotate(tmp_path / "mine", outputs=tmp_path / "out", n=2).images == 2


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["b/a.png", "b/a.jpg"], "two images named 'b/a'"),
        (["of\ntwo.png"], r"holds b'of\\ntwo.png'"),
        (["Nurse/a.png", "nurse/b.png"], "use one spelling"),
    ],
)
def test_names_that_no_page_may_have_are_refused_before_anybody_rates(save, tmp_path, names, told):
    for name in names:
        save(name)
    with pytest.raises(InputError, match=told) as error:
        annotation_page.annotate(tmp_path / "mine", outputs=tmp_path)
    assert "/ratings.csv" not in str(error.value)
    assert not list(tmp_path.glob("*.html"))


def test_a_group_that_names_a_folder_of_this_machine_is_cleaned(save, tmp_path):
    save("a.png")
    (tmp_path / "mine" / "told.csv").write_text(f"file,group\na.png,{Path.home()}/clients\n", encoding="utf-8")
    ((row,), _) = held(annotation_page.annotate(f"images:{tmp_path / 'mine'}", outputs=tmp_path))
    assert row["occupation"] == "~/clients"


@pytest.mark.parametrize(
    ("options", "told"),
    [({"n": 0}, "at least 1"), ({"seed": -1}, "seed is -1"), ({"paper": "paradox"}, "--paper is 'paradox'")],
)
def test_numbers_and_names_out_of_range(save, tmp_path, options, told):
    save("a.png")
    with pytest.raises(BiaslabError, match=told):
        annotation_page.annotate(tmp_path / "mine", outputs=tmp_path, **options)


def test_the_same_seed_draws_the_same_page(save, tmp_path):
    for k in range(8):
        save(f"nurse/{k}.png")
    page = tmp_path / "p.html"
    drawn = [annotation_page.annotate(tmp_path / "mine", n=4, seed=k, output=page).path.read_bytes() for k in (5, 5, 6)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_sample_is_even_over_models_then_occupations():
    rows = [
        {"image_id": f"{job}-{k}", "source": "generated", "occupation": job, "model": model}
        for model in ("a", "b", "c")
        for job in ("nurse", "pilot")
        for k in range(5)
    ]
    training = [{"image_id": f"t{k}", "source": "training", "occupation": "nurse", "model": ""} for k in range(30)]
    drawn = sample.draw(pd.DataFrame(rows + training), 24, seed=0)
    # Half of each source; of the generated 12 four a model, and of these two an occupation.
    assert Counter(drawn["source"]) == {"training": 12, "generated": 12}
    of = drawn[drawn["source"] == "generated"]
    assert set(Counter(zip(of["model"], of["occupation"], strict=True)).values()) == {2}
    # One id of three models is three images.
    assert len(sample.draw(pd.DataFrame(rows), 1000, seed=0)) == 30


# -- images of a run ---------------------------------------------------------------------------------------

SMALL = """
run: small
source: pipeline
model: {model}
seed: 3
settings:
  compute: {{cache: '{store}'}}
  baselines: none
  captions: {{corpus: mini, occupations: [nurse, doctor], max_captions: 4000, per_occupation: 4, approaches: [naive]}}
  generation: {{images_per_prompt: 2}}
  paired: {{n_occupations: 2, power_samples: 1, three_person_prompts: 2, single_images: 1}}
  dalleval: {{n_professions: 1, social_images: 2}}
notebooks: ["paradox/4_*", "paired/4_4_occupations", "dalleval/5_3_gender"]
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Where images are kept that several tests ask for."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def run(tmp_path, root, store, monkeypatch):
    """Return a function that leaves a run's folder with its parameters, as a run of these notebooks does."""
    pytest.importorskip("torch", reason="models need the extra 'models'")
    monkeypatch.chdir(root)

    def leave(model="world"):
        folder = tmp_path / "outputs" / "small"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}", encoding="utf-8")
        text = SMALL.format(model=model, store=store)
        (folder / "params.yaml").write_text(text, encoding="utf-8")
        return {"images": "small", "outputs": tmp_path / "outputs"}

    return leave


@pytest.mark.long
def test_the_store_of_a_run_is_named_where_its_parameters_name_no_folder(run, root, store, tmp_path):
    given = run()
    params = tmp_path / "outputs" / "small" / "params.yaml"
    text = params.read_text(encoding="utf-8")
    params.write_text(text.replace(str(store), "store"), encoding="utf-8")
    overrides = [f"compute.cache={tmp_path / 'store'}"]
    annotation_page.annotate(**given, overrides=overrides)
    assert (tmp_path / "store").is_dir() and not (root / "store").exists()


@pytest.mark.long
def test_a_run_is_rated_by_the_ids_that_its_tables_have(run):
    rows, _ = held(annotation_page.annotate(**run(), n=1000))
    found = pd.DataFrame(rows)
    made = found[found["source"] == "generated"]
    # 2 occupations, 4 templates, 2 images; 4 captions of each occupation, drawn, of which one may name both.
    ids = {f"p{t}-{job}/{k}" for t in (1, 2, 3, 4) for job in ("nurse", "doctor") for k in (0, 1)}
    assert set(made["image_id"]) == ids and set(made["model"]) == {"world"}
    assert all(row.occupation in row.image_id for row in made.itertuples())
    training = found[found["source"] == "training"]
    assert len(training) in (7, 8) and set(training["model"]) == {""}


@pytest.mark.long
def test_people_alone_are_rated_as_the_judge_of_people_reads_it(run, tmp_path):
    given = run()
    page = annotation_page.annotate(**given, n=1000, paper="paired")
    rows, _ = held(page)
    found = pd.DataFrame(rows)
    # Whom the prompt asked for, as the paper's annotators were told.
    questions = set(asked(page))
    assert all(re.fullmatch(r"Which gender do you perceive in the [A-Za-z -]+\?", text) for text in questions)
    assert len(questions) > 1 and not any("the person" in text for text in questions)
    assert list(found) == [*annotation_page.LEADING_COLUMNS, *annotation_page.OPTIONAL_COLUMNS]
    assert set(found["source"]) == {"generated"} and found["image_id"].is_unique
    found.assign(annotator="ana", label="female").to_csv(tmp_path / "r.csv", index=False)
    people = pd.DataFrame({"image_id": found["image_id"], "position": 1})
    read = annotations.judgements(people, tmp_path / "r.csv")
    assert len(people) and (read["gender"] == "female").all()
    with pytest.raises(BiaslabError, match="triplets"):
        annotation_page.annotate(**given, paper="triplets")


@pytest.mark.long
def test_both_people_of_an_image_are_asked_about(run, tmp_path):
    page = annotation_page.annotate(**run(), n=2, subset="paired")
    rows, _ = held(page)
    found = pd.DataFrame(rows)
    # Two images, everybody in them, with one probability each.
    assert found.groupby("image_id").size().tolist() == [2, 2]
    assert found.groupby("image_id")["position"].agg(list).tolist() == [["1", "2"]] * 2
    assert (found.groupby("image_id")["probability"].nunique() == 1).all()
    questions = asked(page)
    assert all("on the left" in q for q in questions[::2]) and all("on the right" in q for q in questions[1::2])
    found.assign(annotator="ana", label="female").to_csv(tmp_path / "r.csv", index=False)
    assert len(annotations.read(tmp_path / "r.csv")) == 4
    with pytest.raises(BiaslabError, match=r"'pairs'.*Did you mean 'paired'"):
        annotation_page.annotate("small", outputs=tmp_path / "outputs", subset="pairs")


def test_people_by_profession_are_those_whose_prompt_names_no_gender(run):
    rows, _ = held(annotation_page.annotate(**run(), n=1000, paper="dalleval"))
    # One profession and none, two images each.
    assert len(rows) == 4 and all(row["image_id"].startswith("social-person-") for row in rows)
    assert Counter(row["occupation"] for row in rows)["(none)"] == 2


OTHER = """
run: small
source: pipeline
model: world
seed: 3
settings:
  compute: {{cache: '{store}'}}
  baselines: none
  captions: {{corpus: mini, max_captions: 4000}}
  dalleval: {{n_scenes: 2}}
  triplets: {{n_triplets: 2, images_per_prompt: 1, single_triplet_images: 0, noun_tagger: world, objects: truth}}
notebooks: ["dalleval/5_2_skills", "triplets/5_co_occurrence"]
"""


@pytest.mark.long
def test_annotate_scenes_asks_what_their_skill_has(run, store, tmp_path):
    given = run()
    (tmp_path / "outputs/small/params.yaml").write_text(OTHER.format(store=store), encoding="utf-8")
    rows, _ = held(annotation_page.annotate(**given, questions="objects,number,relation"))
    counts = Counter((row["occupation"], row["question"]) for row in rows)
    assert counts == {
        **dict.fromkeys([(skill, "objects") for skill in ("object", "count", "spatial")], 2),
        ("count", "number"): 2,
        ("spatial", "relation"): 2,
    }
    answers = pd.DataFrame(rows).assign(annotator="ana", label="yes")
    answers.to_csv(tmp_path / "r.csv", index=False)
    skills = annotations.skills(tmp_path / "r.csv", answers["image_id"].unique())
    assert len(skills) == answers["image_id"].nunique() and (skills["correct"] == "yes").all()


@pytest.mark.long
def test_annotate_triplets_asks_about_objects_of_the_run_and_nouns_of_the_prompt(run, store, tmp_path):
    given = run()
    params = tmp_path / "outputs/small/params.yaml"
    params.write_text(OTHER.format(store=store), encoding="utf-8")
    nouns, _ = held(annotation_page.annotate(**given, paper="triplets", questions="object,noun"))
    names = [r["question"].partition(": ") for r in nouns]
    names = [{name for start, _, name in names if start == kind} for kind in ("object", "noun")]
    # No objects are detected yet.
    assert names[0] == names[1] and "person" in names[0]
    assert Counter(row["occupation"] for row in nouns).keys() == {"feminine", "masculine", "neutral"}
    (opened,) = {one.pipeline for one in dry_run.image_requests(jobs.pipelines(jobs.plan(load(params))))}
    found = opened.part(Triplets).objects().objects
    rows, _ = held(annotation_page.annotate(**given, paper="triplets", questions="object"))
    pairs = {(row["image_id"], row["question"].removeprefix("object: ")) for row in rows}
    seen = set(found[["image_id", "object"]].itertuples(index=False, name=None))
    assert seen <= pairs and pairs - seen <= {(r["image_id"], r["question"].partition(": ")[2]) for r in nouns}
    with pytest.raises(ParameterError, match="'perceived gender' applies to none of these images"):
        annotation_page.annotate(**given, paper="triplets")


def test_images_that_are_not_there_are_not_made(run, monkeypatch, tmp_path):
    def load(*_, **__):
        raise AssertionError("a model is loaded")

    monkeypatch.setattr(generator, "load", load)
    with pytest.raises(ParameterError, match=r"contains only 0 of the 16 images"):
        annotation_page.annotate(**run("mini"))
    (tmp_path / "outputs" / "small" / "params.yaml").unlink()
    for name, told in (("small", r"has no params\.yaml"), ("nothing", "no run 'nothing'")):
        with pytest.raises(BiaslabError, match=told):
            annotation_page.annotate(name, outputs=tmp_path / "outputs")


# -- ratings that come back --------------------------------------------------------------------------------

LONG = "image,source,occupation,model,annotator,label\n"


def test_the_files_of_several_raters_are_read_from_their_folder(tmp_path):
    (tmp_path / "ana.csv").write_text(LONG + "a,generated,nurse,m,ana,female\nb,generated,nurse,m,ana,male\n")
    (tmp_path / "ben.csv").write_text(LONG + "a,generated,nurse,m,ben,female\nb,generated,nurse,m,ben,f\n")
    (tmp_path / "notes.txt").write_text("not read")
    read = shares.read(tmp_path)
    assert annotations.annotators(read.table) == ["ana", "ben"]
    assert dict(sample.votes(read.table)) == {
        "a": "female",
        "b": "tie",
    }
    (tmp_path / "cid.csv").write_text("image,source,occupation,cid\na,generated,nurse,male\n")
    with pytest.raises(InputError, match=r"cid\.csv and ana\.csv .* only one has 'annotator'"):
        shares.read(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no file"):
        shares.read(tmp_path / "empty")


def test_of_several_models_the_judged_one_is_compared(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text(LONG + "a,generated,nurse,m,ana,female\na,generated,nurse,n,ana,male\n")
    one = pd.DataFrame({"image_id": ["a"], "source": ["generated"], "occupation": ["nurse"]})
    for model, label in (("m", "female"), ("n", "male")):
        assert dict(sample.votes(sample.collect(one, path, seed=0, model=model).annotations)) == {"a": label}
    with pytest.raises(BiaslabError, match="no model in the annotations named 'o'"):
        sample.collect(one, path, seed=0, model="o")
