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


def rows_and_images(page):
    """Return the rows of a page, each as a mapping, and the image of each."""
    data = data_of(page)
    pictures = [data["pictures"][picture] for picture, *_ in data["items"]]
    return [dict(zip(data["header"], row, strict=True)) for row in data["rows"]], pictures


def opened(picture):
    return Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2])))


def test_annotate_folder_derives_ids_occupations_and_sources(save, tmp_path, capsys):
    for name in ("nurse/a.png", "generated/pilot/b.jpg", "c.png", "training/nurse/d.png", "in training/e.png"):
        save(name)
    (tmp_path / "mine" / "broken.png").write_bytes(b"not an image")
    assert cli.main(["annotate", str(tmp_path / "mine"), "--outputs", str(tmp_path / "out")]) == 0
    capture = capsys.readouterr()
    assert capture.out.strip() == str(tmp_path / "out" / "annotate-mine.html") and "not an image" in capture.err
    page = annotation_page.annotate(tmp_path / "mine", outputs=tmp_path / "out", show_faces=True)
    assert page.images == 5 and page.left_out == {"not an image": 1}
    rows, pictures = rows_and_images(page)
    found = {row["image_id"]: (row["source"], row["occupation"]) for row in rows}
    assert found["a"] == ("generated", "nurse") and found["b"] == ("generated", "pilot")
    assert found["c"] == ("generated", "all") and found["d"] == ("training", "nurse")
    assert found["e"] == ("generated", "in training") and len(found) == 5
    items = dict(zip([row["image_id"] for row in rows], pictures, strict=True))
    for name, path in (("a", "nurse/a.png"), ("d", "training/nurse/d.png")):
        np.testing.assert_array_equal(np.asarray(opened(items[name])), np.asarray(Image.open(tmp_path / "mine" / path)))


def test_annotate_duplicate_names_use_paths_as_ids(save, tmp_path):
    for name in ("doctor/1.png", "nurse/1.png", "nurse/2.png"):
        save(name)
    rows, _ = rows_and_images(annotation_page.annotate(tmp_path / "mine", outputs=tmp_path))
    assert {row["image_id"]: row["occupation"] for row in rows} == {
        "doctor/1": "doctor",
        "nurse/1": "nurse",
        "2": "nurse",
    }
    # A judge that reads annotations finds images by these ids.
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
        # With an invisible character.
        ("mine", "train\u200bing/nurse/face.png", "nurse"),
    ],
)
def test_annotate_training_images_require_show_faces(save, tmp_path, given, name, occupation):
    folder = tmp_path / given
    save(str(Path(given.removeprefix("mine").strip("/"), name)))
    with pytest.raises(InputError, match=r"no image to show \(1 a training image, .* --show-faces, or put"):
        annotation_page.annotate(folder, outputs=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    ((row,), _) = rows_and_images(annotation_page.annotate(folder, outputs=tmp_path / "out", show_faces=True))
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
def test_read_source_of_folder_name_spellings(folder, source):
    assert annotation_page._read_source(folder) == source


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_annotate_symlinks_to_training_or_outside_are_excluded(save, tmp_path, capsys, monkeypatch):
    save("generated/nurse/a.png")
    for link, link_target in (
        ("generated/nurse/b.png", save("training/nurse/face.png")),
        ("generated/nurse/c.png", save("../elsewhere/c.png")),
        ("generated/nurse/d.png", save("../other/Training/d.png")),
    ):
        (tmp_path / "mine" / link).symlink_to(link_target)
    # One that leads to a generated image of the folder is as good as it.
    (tmp_path / "mine/generated/nurse/e.png").symlink_to(tmp_path / "mine/generated/nurse/a.png")
    assert cli.main(["annotate", str(tmp_path / "mine"), "--output", str(tmp_path / "page.html")]) == 0
    capture = capsys.readouterr().err
    assert "Excluded: 2 images, a link that leads out of the folder." in capture
    assert "Excluded: 2 images, a training image, which only --show-faces includes." in capture
    page = annotation_page.annotate(tmp_path / "mine", output=tmp_path / "page.html")
    assert sorted(row["image_id"] for row in rows_and_images(page)[0]) == ["a", "e"]
    # The folder itself may be a link.
    (tmp_path / "short").symlink_to(tmp_path / "mine" / "training" / "nurse")
    with pytest.raises(InputError, match="a training image"):
        annotation_page.annotate(tmp_path / "short", output=tmp_path / "page.html")
    monkeypatch.setenv("BIASLAB_FOLLOW_LINKS", "1")
    page = annotation_page.annotate(tmp_path / "mine", output=tmp_path / "page.html")
    assert page.left_out == {"a training image, which only --show-faces includes": 3}
    rows, _ = rows_and_images(
        annotation_page.annotate(tmp_path / "mine", output=tmp_path / "page.html", show_faces=True)
    )
    found = {row["image_id"]: row["source"] for row in rows}
    training = dict.fromkeys(("b", "d", "face"), "training")
    assert found == training | dict.fromkeys("ace", "generated")


def test_annotate_unicode_equivalent_names_stay_distinct(save, tmp_path):
    """An accent in one piece or in two: one of them in a folder whose images are not shown."""
    save("nurse/Ren\u00e9.png", (6, 6))
    save("training/nurse/Rene\u0301.png", (9, 9))
    rows, (picture,) = rows_and_images(annotation_page.annotate(tmp_path / "mine", outputs=tmp_path))
    assert [row["source"] for row in rows] == ["generated"] and opened(picture).size == (6, 6)
    rows, pictures = rows_and_images(annotation_page.annotate(tmp_path / "mine", outputs=tmp_path, show_faces=True))
    sizes = {row["image_id"]: opened(picture).size for row, picture in zip(rows, pictures, strict=True)}
    assert sizes == {"nurse/Ren\u00e9": (6, 6), "training/nurse/Rene\u0301": (9, 9)}


def question_texts(page):
    """Return the words of each question of a page."""
    return [words for _, _, words in data_of(page)["items"]]


def test_annotate_asks_about_each_person_of_folder(save, tmp_path):
    for name in ("a.png", "sub/b.png", "cc.png", "training/d.png", "unnamed.png"):
        save(name)
    expected = "file,prompt,group,position\na.png,two at work,nurse,left\na.png,two at work,pilot,right\n"
    expected += "sub/b.png,one,nurse,\n" + "".join(f"cc.png,four,cooks,{k}\n" for k in (1, 2, 3, 4))
    (tmp_path / "mine" / "told.csv").write_text(expected + "training/d.png,one,nurse,\n", encoding="utf-8")
    page = annotation_page.annotate(f"images:{tmp_path / 'mine'}", outputs=tmp_path / "out")
    assert page.path.name == "annotate-mine.html" and page.images == 3
    assert page.left_out == {"a training image, which only --show-faces includes": 1}
    rows, pictures = rows_and_images(page)
    people = {(row["image_id"], row["position"]): row["occupation"] for row in rows}
    cooks = {("cc.png", str(k)): "cooks" for k in (1, 2, 3, 4)}
    assert people == {("a.png", "1"): "nurse", ("a.png", "2"): "pilot", ("sub/b.png", "1"): "nurse", **cooks}
    questions = {(r["image_id"], r["position"]): q for r, q in zip(rows, question_texts(page), strict=True)}
    assert questions["a.png", "2"] == "Which gender do you perceive in the person on the right?"
    assert questions["sub/b.png", "1"] == "Which gender do you perceive in the person?"
    assert questions["cc.png", "3"] == "Which gender do you perceive in the person, number 3 from the left?"
    # People of one image follow each other, with that image.
    names = [row["image_id"] for row in rows]
    assert sum(a != b for a, b in pairwise(names)) == 2
    assert len(set(pictures)) == 3
    # A sample consists of images, with all of their people.
    small_sample = rows_and_images(
        annotation_page.annotate(f"images:{tmp_path / 'mine'}", outputs=tmp_path / "out", n=1)
    )[0]
    assert len({row["image_id"] for row in small_sample}) == 1
    assert len(small_sample) == {"a.png": 2, "sub/b.png": 1, "cc.png": 4}[small_sample[0]["image_id"]]


def test_annotate_groups_questions_by_image(save, tmp_path):
    for name in ("a.png", "b.png"):
        save(name)
    table = "file,prompt,group,position\na.png,two at work,nurse,1\na.png,two at work,pilot,2\nb.png,one,nurse,\n"
    (tmp_path / "mine" / "told.csv").write_text(table, encoding="utf-8")
    (tmp_path / "q.yaml").write_text("- {name: '=hair', question: 'Hair?', answers: [dark, '=1+1'], of: person}")
    questions = f"perceived gender,alignment,{tmp_path / 'q.yaml'}"
    page = annotation_page.annotate(f"images:{tmp_path / 'mine'}", outputs=tmp_path, questions=questions)
    rows, pictures = rows_and_images(page)
    assert page.images == 2 and len(data_of(page)["pictures"]) == 2
    found = pd.DataFrame(rows).assign(picture=pictures)
    of_a = found[found["image_id"] == "a.png"]
    # A spreadsheet takes no name of a question for a formula.
    assert of_a["question"].tolist() == ["", "", "alignment", "'=hair", "'=hair"]
    assert of_a["position"].tolist() == ["1", "2", "1", "1", "2"] and of_a["picture"].nunique() == 1
    assert of_a["occupation"].tolist() == ["nurse", "pilot", "nurse", "nurse", "pilot"]
    assert set(of_a["prompt"]) == {"two at work"} and len(found) == 5 + 3
    assert "How well does the image match the prompt “one”?" in question_texts(page)
    save("../plain/c.png")
    with pytest.raises(ParameterError, match="'alignment' applies to none"):
        annotation_page.annotate(tmp_path / "plain", outputs=tmp_path, questions="alignment")


def test_annotations_of_page_judge_people_of_folder(save, tmp_path):
    for name in ("nurse/a.png", "nurse/b.png", "pilot/a.png"):
        save(name)
    folder = f"images:{tmp_path / 'mine'}"
    rows, _ = rows_and_images(annotation_page.annotate(folder, outputs=tmp_path))
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


def test_annotate_folder_of_models_records_model(save, tmp_path):
    for name in ("1.png", "2.png"):
        save(name)
    (tmp_path / "mine" / "t.csv").write_text("file,prompt,model\n1.png,one,A\n2.png,one,B\n", encoding="utf-8")
    rows, _ = rows_and_images(annotation_page.annotate(f"images:{tmp_path / 'mine'}", outputs=tmp_path))
    assert {row["image_id"]: row["model"] for row in rows} == {"1.png": "A", "2.png": "B"}
    ((row,), _) = rows_and_images(annotation_page.annotate(f"images:{tmp_path / 'mine'}::B", outputs=tmp_path))
    assert (row["image_id"], row["model"]) == ("2.png", "B")
    with pytest.raises(InputError, match="contains no images of 'C'"):
        annotation_page.annotate(f"images:{tmp_path / 'mine'}::C", outputs=tmp_path)


def test_annotate_overwrites_only_annotation_pages(save, tmp_path):
    save("nurse/a.png")
    target = tmp_path / "there.html"
    target.write_text("<!DOCTYPE html><title>Mine</title>")
    with pytest.raises(ParameterError, match=rf"{target} exists and is not an annotation page .* with --output\."):
        annotation_page.annotate(tmp_path / "mine", output=target)
    assert target.read_text() == "<!DOCTYPE html><title>Mine</title>"
    page = annotation_page.annotate(tmp_path / "mine", output=tmp_path / "page.html")
    assert annotation_page.annotate(tmp_path / "mine", output=page.path).path == page.path


def test_annotate_reencodes_images_without_metadata(save, tmp_path):
    path = save("nurse/a.jpg", (1300, 900), comment=b"<script>window.hacked</script>")
    path.write_bytes(path.read_bytes() + b"<script>behind</script>")
    save("nurse/b.png", (40, 20))
    rows, pictures = rows_and_images(annotation_page.annotate(tmp_path / "mine", outputs=tmp_path))
    items = dict(zip([row["image_id"] for row in rows], pictures, strict=True))
    large, small = opened(items["a"]), opened(items["b"])
    assert (large.format, large.size) == ("JPEG", (512, 354)) and "comment" not in large.info
    assert (small.format, small.size) == ("PNG", (40, 20))
    assert b"behind" not in base64.b64decode(items["a"].partition(",")[2])


def test_annotate_oversized_page_is_refused(save, tmp_path, monkeypatch):
    for k in range(6):
        save(f"nurse/{k}.png", (20, 20))  # noise: 1,200 bytes of pixels that nothing makes smaller
    monkeypatch.setattr(annotation_page, "MAX_BYTES", 6000)
    with pytest.raises(ParameterError, match=r"maximum of a page is 6,000.*--sample 2\b"):
        annotation_page.annotate(tmp_path / "mine", outputs=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert annotation_page.annotate(tmp_path / "mine", outputs=tmp_path / "out", n=2).images == 2


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["b/a.png", "b/a.jpg"], "two images named 'b/a'"),
        (["of\ntwo.png"], r"contains b'of\\ntwo.png'"),
        (["Nurse/a.png", "nurse/b.png"], "use one spelling"),
    ],
)
def test_annotate_invalid_file_names_are_refused(save, tmp_path, names, expected):
    for name in names:
        save(name)
    with pytest.raises(InputError, match=expected) as error:
        annotation_page.annotate(tmp_path / "mine", outputs=tmp_path)
    assert "/ratings.csv" not in str(error.value)
    assert not list(tmp_path.glob("*.html"))


def test_annotate_home_folder_in_group_is_redacted(save, tmp_path):
    save("a.png")
    (tmp_path / "mine" / "told.csv").write_text(f"file,group\na.png,{Path.home()}/clients\n", encoding="utf-8")
    ((row,), _) = rows_and_images(annotation_page.annotate(f"images:{tmp_path / 'mine'}", outputs=tmp_path))
    assert row["occupation"] == "~/clients"


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"n": 0}, "at least 1"), ({"seed": -1}, "seed is -1"), ({"paper": "paradox"}, "--paper is 'paradox'")],
)
def test_annotate_invalid_options_are_refused(save, tmp_path, options, expected):
    save("a.png")
    with pytest.raises(BiaslabError, match=expected):
        annotation_page.annotate(tmp_path / "mine", outputs=tmp_path, **options)


def test_annotate_same_seed_gives_same_page(save, tmp_path):
    for k in range(8):
        save(f"nurse/{k}.png")
    page = tmp_path / "p.html"
    sample_rows = [
        annotation_page.annotate(tmp_path / "mine", n=4, seed=k, output=page).path.read_bytes() for k in (5, 5, 6)
    ]
    assert sample_rows[0] == sample_rows[1] != sample_rows[2]


def test_draw_is_balanced_over_models_and_occupations():
    rows = [
        {"image_id": f"{job}-{k}", "source": "generated", "occupation": job, "model": model}
        for model in ("a", "b", "c")
        for job in ("nurse", "pilot")
        for k in range(5)
    ]
    training = [{"image_id": f"t{k}", "source": "training", "occupation": "nurse", "model": ""} for k in range(30)]
    sample_rows = sample.draw(pd.DataFrame(rows + training), 24, seed=0)
    # Half of each source; of the generated 12 four a model, and of these two an occupation.
    assert Counter(sample_rows["source"]) == {"training": 12, "generated": 12}
    items = sample_rows[sample_rows["source"] == "generated"]
    assert set(Counter(zip(items["model"], items["occupation"], strict=True)).values()) == {2}
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
    """Return the cache of images that several tests use."""
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
def test_annotate_cache_override_is_used(run, root, store, tmp_path):
    given = run()
    params = tmp_path / "outputs" / "small" / "params.yaml"
    text = params.read_text(encoding="utf-8")
    params.write_text(text.replace(str(store), "store"), encoding="utf-8")
    overrides = [f"compute.cache={tmp_path / 'store'}"]
    annotation_page.annotate(**given, overrides=overrides)
    assert (tmp_path / "store").is_dir() and not (root / "store").exists()


@pytest.mark.long
def test_annotate_run_uses_table_image_ids(run):
    rows, _ = rows_and_images(annotation_page.annotate(**run(), n=1000))
    found = pd.DataFrame(rows)
    generated_rows = found[found["source"] == "generated"]
    # 2 occupations, 4 templates, 2 images; 4 sampled captions of each occupation, and one may name both.
    ids = {f"p{t}-{job}/{k}" for t in (1, 2, 3, 4) for job in ("nurse", "doctor") for k in (0, 1)}
    assert set(generated_rows["image_id"]) == ids and set(generated_rows["model"]) == {"world"}
    assert all(row.occupation in row.image_id for row in generated_rows.itertuples())
    training = found[found["source"] == "training"]
    assert len(training) in (7, 8) and set(training["model"]) == {""}


@pytest.mark.long
def test_annotate_paired_people_are_read_by_judgements(run, tmp_path):
    given = run()
    page = annotation_page.annotate(**given, n=1000, paper="paired")
    rows, _ = rows_and_images(page)
    found = pd.DataFrame(rows)
    # The question names the prompted person, as in the paper's instructions to annotators.
    questions = set(question_texts(page))
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
def test_annotate_paired_subset_asks_about_both_people(run, tmp_path):
    page = annotation_page.annotate(**run(), n=2, subset="paired")
    rows, _ = rows_and_images(page)
    found = pd.DataFrame(rows)
    # Two images, everybody in them, with one probability each.
    assert found.groupby("image_id").size().tolist() == [2, 2]
    assert found.groupby("image_id")["position"].agg(list).tolist() == [["1", "2"]] * 2
    assert (found.groupby("image_id")["probability"].nunique() == 1).all()
    questions = question_texts(page)
    assert all("on the left" in q for q in questions[::2]) and all("on the right" in q for q in questions[1::2])
    found.assign(annotator="ana", label="female").to_csv(tmp_path / "r.csv", index=False)
    assert len(annotations.read(tmp_path / "r.csv")) == 4
    with pytest.raises(BiaslabError, match=r"'pairs'.*Did you mean 'paired'"):
        annotation_page.annotate("small", outputs=tmp_path / "outputs", subset="pairs")


def test_annotate_dalleval_uses_neutral_prompts_only(run):
    rows, _ = rows_and_images(annotation_page.annotate(**run(), n=1000, paper="dalleval"))
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
def test_annotate_scenes_asks_questions_of_their_skill(run, store, tmp_path):
    given = run()
    (tmp_path / "outputs/small/params.yaml").write_text(OTHER.format(store=store), encoding="utf-8")
    rows, _ = rows_and_images(annotation_page.annotate(**given, questions="objects,number,relation"))
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
def test_annotate_triplets_asks_about_objects_and_nouns(run, store, tmp_path):
    given = run()
    params = tmp_path / "outputs/small/params.yaml"
    params.write_text(OTHER.format(store=store), encoding="utf-8")
    nouns, _ = rows_and_images(annotation_page.annotate(**given, paper="triplets", questions="object,noun"))
    names = [r["question"].partition(": ") for r in nouns]
    names = [{name for start, _, name in names if start == kind} for kind in ("object", "noun")]
    # No objects are detected yet.
    assert names[0] == names[1] and "person" in names[0]
    assert Counter(row["occupation"] for row in nouns).keys() == {"feminine", "masculine", "neutral"}
    (opened,) = {image_row.pipeline for image_row in dry_run.image_requests(jobs.pipelines(jobs.plan(load(params))))}
    found = opened.part(Triplets).objects().objects
    rows, _ = rows_and_images(annotation_page.annotate(**given, paper="triplets", questions="object"))
    pairs = {(row["image_id"], row["question"].removeprefix("object: ")) for row in rows}
    detected_pairs = set(found[["image_id", "object"]].itertuples(index=False, name=None))
    assert detected_pairs <= pairs and pairs - detected_pairs <= {
        (r["image_id"], r["question"].partition(": ")[2]) for r in nouns
    }
    with pytest.raises(ParameterError, match="'perceived gender' applies to none of these images"):
        annotation_page.annotate(**given, paper="triplets")


def test_annotate_missing_images_are_not_generated(run, monkeypatch, tmp_path):
    def load(*_, **__):
        raise AssertionError("a model is loaded")

    monkeypatch.setattr(generator, "load", load)
    with pytest.raises(ParameterError, match=r"contains only 0 of the 16 images"):
        annotation_page.annotate(**run("mini"))
    (tmp_path / "outputs" / "small" / "params.yaml").unlink()
    for name, expected in (("small", r"contains no params\.yaml"), ("nothing", "no run 'nothing'")):
        with pytest.raises(BiaslabError, match=expected):
            annotation_page.annotate(name, outputs=tmp_path / "outputs")


# -- annotations of a page ---------------------------------------------------------------------------------

LONG = "image,source,occupation,model,annotator,label\n"


def test_read_folder_combines_annotator_files(tmp_path):
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


def test_collect_selects_annotations_of_model(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text(LONG + "a,generated,nurse,m,ana,female\na,generated,nurse,n,ana,male\n")
    image_row = pd.DataFrame({"image_id": ["a"], "source": ["generated"], "occupation": ["nurse"]})
    for model, label in (("m", "female"), ("n", "male")):
        assert dict(sample.votes(sample.collect(image_row, path, seed=0, model=model).annotations)) == {"a": label}
    with pytest.raises(BiaslabError, match="no model in the annotations named 'o'"):
        sample.collect(image_row, path, seed=0, model="o")
