"""Copies of images: which count, what is reported, and that estimates do not depend on how often an image is there."""

import shutil
from functools import partial
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from biaslab.analyses import custom, precision
from biaslab.analyses.custom.stages import Custom
from biaslab.cache.result_cache import ResultCache
from biaslab.errors import InputError
from biaslab.hub.image_sources import FolderImages, UnreadableImage
from biaslab.judges import duplicates, people, skin_tone
from biaslab.judges.judge_labels import BLACK, DUPLICATE, PLACEHOLDER
from biaslab.judges.people import judge_people, open_image
from biaslab.pipeline import Pipeline
from biaslab.planning.plan import plan_of
from biaslab.runs import generated_images
from biaslab.settings import Settings


def noise(seed, side=24):
    return np.random.default_rng(seed).integers(20, 256, (side, side, 3), dtype=np.uint8)


def save(path, image, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, **how)
    return path


def searched(folder, group=lambda image_id: "one"):
    """Return a folder's images as a source, and which of them are copies."""
    images = FolderImages(folder)
    images.table = images.table.assign(status="ok")
    groups = images.table["image_id"].map(group)
    return images, duplicates.find_duplicates(
        images, groups, cache=ResultCache(folder.parent / "store"), progress=False
    )


def status_of(found):
    return {row.image_id: (row.status, row.copy_of) for row in found.itertuples()}


# -- which images are copies -----------------------------------------------------------------------------------


def test_find_identical_pixels_in_other_files_count_once(tmp_path):
    folder, info = tmp_path / "pictures", PngInfo()
    info.add_text("parameters", "a photo of a nurse")
    save(folder / "b.png", noise(1))
    save(folder / "a.png", noise(1), pnginfo=info, compress_level=0)
    save(folder / "c.bmp", noise(1))
    save(folder / "d.png", noise(2))
    # 24 x 24 pixels in another shape are another image, though the bytes are the same.
    save(folder / "e.png", noise(1).reshape(12, 48, 3))
    _, found = searched(folder)
    expected = {"a.png": ("", ""), "b.png": (DUPLICATE, "a.png"), "c.bmp": (DUPLICATE, "a.png")}
    assert status_of(found) == expected | {"d.png": ("", ""), "e.png": ("", "")}


def test_find_of_numbered_images_the_first_number_counts(tmp_path):
    images = FolderImages(save(tmp_path / "pictures" / "a.png", noise(1)).parent)
    images.table = pd.DataFrame({"image_id": ["p/10", "p/2", "q/1"]})
    images.read = lambda ids: [noise(1) for _ in ids]
    groups = pd.Series(["one"] * 3)
    found = duplicates.find_duplicates(images, groups, cache=ResultCache(tmp_path / "store"), progress=False)
    assert status_of(found) == {"p/10": (DUPLICATE, "p/2"), "p/2": ("", ""), "q/1": (DUPLICATE, "p/2")}


def test_find_copies_in_two_groups_count_in_each(tmp_path):
    folder = tmp_path / "pictures"
    for name in ("chef/1.png", "nurse/1.png", "nurse/2.png"):
        save(folder / name, noise(1))
    _, found = searched(folder, lambda image_id: image_id.partition("/")[0])
    assert status_of(found) == {
        "chef/1.png": ("", ""),
        "nurse/1.png": ("", ""),
        "nurse/2.png": (DUPLICATE, "nurse/1.png"),
    }


def test_find_black_and_unreadable_images_are_no_copies(tmp_path):
    folder = tmp_path / "pictures"
    for name in ("a.png", "b.png"):
        save(folder / name, np.zeros((8, 8, 3), np.uint8))
    for name in ("c.png", "d.png"):
        (folder / name).write_bytes(b"no image")
    # JPEG leaves black a little above 0; the darkest image that shows something is one level brighter.
    save(folder / "e.png", np.full((8, 8, 3), 8, np.uint8))
    save(folder / "f.png", np.full((8, 8, 3), 9, np.uint8))
    images, found = searched(folder)
    statuses = dict.fromkeys(("a.png", "b.png", "e.png"), (BLACK, ""))
    assert status_of(found) == statuses | dict.fromkeys(("c.png", "d.png", "f.png"), ("", ""))
    distinct = duplicates.DistinctImages(images, found)
    assert list(distinct.table["status"]) == [BLACK, BLACK, "ok", "ok", BLACK, "ok"]
    rows = [open_image(i, image) for i, image in zip("adf", distinct.read(["a.png", "d.png", "f.png"]), strict=True)]
    assert [(row["status"], row["reason"]) for row in rows] == [(BLACK, ""), ("unreadable", "not an image"), ("", "")]


def card(word):
    """Return a plain image with a mark in its middle, as a content filter's card has."""
    image = np.full((64, 64, 3), 230, np.uint8)
    image[28:36, 16 : 16 + 4 * len(word)] = 60
    return image


def test_find_images_of_one_color_are_placeholders(tmp_path):
    folder = tmp_path / "pictures"
    grey, nearly = np.full((64, 64, 3), 128, np.uint8), np.full((64, 64, 3), 128, np.uint8)
    nearly[0, 0] = 137  # One value more than DARKEST from the others.
    save(folder / "a.png", grey)
    save(folder / "b.jpg", grey, quality=75)
    save(folder / "c.png", nearly)
    images, found = searched(folder)
    assert status_of(found) == {"a.png": (PLACEHOLDER, ""), "b.jpg": (PLACEHOLDER, ""), "c.png": ("", "")}
    distinct = duplicates.DistinctImages(images, found)
    (row,) = (open_image("a", image) for image in distinct.read(["a.png"]))
    assert row["status"] == PLACEHOLDER and list(distinct.table["status"]) == [PLACEHOLDER, PLACEHOLDER, "ok"]
    assert duplicates.describe_left_out(distinct).startswith("2 of 3 images: placeholder 2")


def test_find_plain_image_in_several_groups_is_a_placeholder_and_in_one_a_copy(tmp_path):
    folder = tmp_path / "pictures"
    for name in ("chef/1.png", "nurse/1.png", "nurse/2.png"):
        save(folder / name, card("blocked"))
    for name in ("chef/2.png", "chef/3.png"):
        save(folder / name, card("menu"))
    # A portrait that two groups have is one that a user copied, and counts in each.
    for name in ("chef/4.png", "nurse/4.png"):
        save(folder / name, noise(3, 64))
    _, found = searched(folder, lambda image_id: image_id.partition("/")[0])
    expected = dict.fromkeys(("chef/1.png", "nurse/1.png", "nurse/2.png"), (PLACEHOLDER, ""))
    expected |= {"chef/2.png": ("", ""), "chef/3.png": (DUPLICATE, "chef/2.png")}
    assert status_of(found) == expected | dict.fromkeys(("chef/4.png", "nurse/4.png"), ("", ""))


def test_distinct_images_digest_is_that_of_the_source_without_copies(tmp_path):
    folder = tmp_path / "pictures"
    save(folder / "a.png", noise(1))
    save(folder / "b.png", noise(2))
    images, found = searched(folder)
    assert duplicates.DistinctImages(images, found).digest == images.digest
    save(folder / "c.png", noise(1))
    images, found = searched(folder)
    distinct = duplicates.DistinctImages(images, found)
    assert distinct.digest != images.digest and duplicates.all_images(distinct) is images
    read = distinct.read(["c.png", "a.png"])
    assert read[0] == UnreadableImage(DUPLICATE) and (read[1] == noise(1)).all()


def test_find_no_images_returns_no_rows(tmp_path):
    folder = tmp_path / "pictures"
    save(folder / "a.png", noise(1))
    images = FolderImages(folder)
    images.table = images.table.iloc[:0]
    found = duplicates.find_duplicates(
        images, pd.Series([], dtype=object), cache=ResultCache(tmp_path / "store"), progress=False
    )
    assert found.empty and duplicates.group_duplicates(found) == (0, [])
    assert duplicates.remarks(duplicates.DistinctImages(images, found)) == []


def test_alike_image_saved_as_jpeg_is_reported_and_counts(tmp_path):
    folder = tmp_path / "pictures"
    smooth = np.asarray(Image.fromarray(noise(1, 8)).resize((64, 64), Image.Resampling.BICUBIC))
    save(folder / "a.png", smooth)
    save(folder / "b.jpg", smooth, quality=75)
    save(folder / "c.png", noise(2, 64))
    # A plain image has hardly any bits, so that all plain images would look alike.
    for name, value in (("d.png", 200), ("e.png", 90)):
        plain = np.full((64, 64, 3), value, np.uint8)
        plain[30:34, 30:34] = 0
        save(folder / name, plain)
    images, found = searched(folder)
    assert duplicates.group_duplicates(found) == (1, [("a.png", "b.jpg")])
    assert (found["status"] == "").all()
    (said,) = duplicates.remarks(duplicates.DistinctImages(images, found))
    assert said == "Near-duplicates within a group, all counted: 1 pair, such as a.png and b.jpg."


def test_difference_hash_compares_neighbours_by_brightness():
    # Columns of 17 cells whose brightness rises: each of the 16 x 16 bits is set; falling ones set none.
    rising = np.repeat(np.arange(17, dtype=np.uint8)[None, :, None] * 10, 16, axis=0).repeat(3, axis=2)
    assert duplicates.difference_hash(rising) == b"\xff" * 32
    assert duplicates.difference_hash(rising[:, ::-1].copy()) == bytes(32)


# -- annotations -----------------------------------------------------------------------------------------------


def annotations(**genders):
    rows = [(f"{name}.png", 1, "judged" if gender else "unannotated", gender) for name, gender in genders.items()]
    return pd.DataFrame(rows, columns=["image_id", "position", "status", "gender"])


@pytest.fixture
def copied(tmp_path):
    """Return images of which b is a copy of a, in one group, and c is another image."""
    folder = tmp_path / "pictures"
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        save(folder / f"{name}.png", noise(seed))
    return duplicates.DistinctImages(*searched(folder))


@pytest.mark.parametrize("said", [("female", "female"), ("female", ""), ("", "female")])
def test_annotated_copy_gives_its_annotation_to_the_image_that_counts(copied, said):
    given = annotations(a=said[0], b=said[1], c="male")
    found = duplicates.drop_duplicates(copied, given, "r.csv")
    assert list(found["status"]) == ["judged", DUPLICATE, "judged"]
    assert list(found["gender"]) == ["female", "", "male"]


def test_annotated_copies_that_differ_are_refused_by_name(copied):
    with pytest.raises(
        InputError, match=r"a\.png and b\.png are copies .* r\.csv states female for the first and male for the second"
    ):
        duplicates.drop_duplicates(copied, annotations(a="female", b="male", c="male"), "r.csv")


@pytest.mark.parametrize(("rows", "is_refused"), [("b.png,nurse", False), ("b.png,chef", True)])
def test_folder_table_that_differs_for_copies_stops_the_run(tmp_path, rows, is_refused):
    folder = tmp_path / "pictures"
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        save(folder / f"{name}.png", noise(seed))
    (folder / "pictures.csv").write_text(f"file,group\na.png,nurse\nc.png,nurse\n{rows}\n")
    given = {"compute": {"cache": str(tmp_path / "store")}}
    pipeline = Pipeline(f"images:{folder}", Settings.from_mapping(given), progress=False)
    if is_refused:
        match = r"a\.png and b\.png are copies .*pictures\.csv states prompt 'nurse', group 'nurse' .* group 'chef'"
        with pytest.raises(InputError, match=match):
            pipeline.part(Custom).images()
    else:
        outcomes = pipeline.part(Custom).images().table.set_index("image_id")["status"]
        assert outcomes.to_dict() == {"a.png": "ok", "b.png": DUPLICATE, "c.png": "ok"}


# -- duplicating images changes no estimate --------------------------------------------------------------------

SHOWN = {"female": 60, "male": 120, "unsure": 180, "": 240}
GROUPS, EACH = ("chef", "nurse", "pilot"), 6


def person(gender, seed):
    """Return an image whose red says what the judge below answers, and whose blue is its skin tone."""
    image = noise(seed, 16)
    image[0, 0] = SHOWN[gender], 100, 20 + seed % 9
    return image


def look(images, asked, judge, *detector, **options):
    """Judge people by the first pixel of their image, where no annotators have done so."""
    if not judge.needs_images:
        return judge_people(images, asked, judge, *detector, **options)
    answers = {red: gender for gender, red in SHOWN.items()}
    rows = []
    for image_id, image in zip(asked["image_id"], images.read(list(asked["image_id"])), strict=True):
        row = open_image(image_id, image)
        if not row["status"]:
            gender = answers[int(image[0, 0, 0])]
            row["gender"] = gender
            row["status"] = {"": "no_face", "unsure": "uncertain"}.get(gender, "judged")
        rows.append(row)
    return people.frame(pd.DataFrame(rows).assign(position=1, role="", answer=""))


def tones(images, seen, *_, **__):
    read = images.read(list(seen["image_id"]))
    known = [np.nan if isinstance(image, UnreadableImage) else float(image[0, 0, 2]) - 19 for image in read]
    return pd.DataFrame({"tone": known, "reason": "", "judge": "fake"})


@pytest.fixture(scope="module")
def portraits(tmp_path_factory):
    """Return a folder of two models' images in groups, with annotations by name of a part of them."""
    root, rng, rated = tmp_path_factory.mktemp("portraits"), np.random.default_rng(5), {}
    for model in ("first", "second"):
        rows = ["image_id,gender"]
        for seed, (group, k) in enumerate((group, k) for group in GROUPS for k in range(EACH)):
            gender = rng.choice(list(SHOWN), p=[0.4, 0.4, 0.1, 0.1])
            save(root / model / group / f"m{k}.png", person(gender, seed + (1000 if model == "second" else 0)))
            rows += [f"{group}/m{k}.png,{rng.choice(['female', 'male'])}"] if k % 2 else []
        rated[model] = "\n".join(rows) + "\n"
    with pytest.MonkeyPatch.context() as patch:
        judged_by_pixels(patch)
        return root, rated, estimates(root, rated, root / "store")


def judged_by_pixels(patch):
    """Judge images by their first pixel, which no network does."""
    patch.setattr(people, "judge_people", look)
    patch.setattr(skin_tone, "judge_skin_tones", tones)
    patch.setattr(Pipeline, "check_judge", lambda *_: None)


def estimates(root, rated, store):
    """Return the tables of estimates of two folders of images."""
    frames, annotations, benchmark = [], [], None
    for model in ("first", "second"):
        file = store.parent / f"{model}.csv"
        file.write_text(rated[model])
        judging = {"gender": "mini-clip", "faces": "mini-detector", "annotations": str(file)}
        given = Settings.from_mapping({"judging": judging, "compute": {"cache": str(store)}})
        pipeline = Pipeline(f"images:{root / model}", given, progress=False)
        frames.append(custom.people(pipeline))
        annotations.append(precision.ratings(pipeline).assign(image_model=model))
        benchmark = custom.benchmark(pipeline)
    people_, annotations = (pd.concat(tables, ignore_index=True) for tables in (frames, annotations))
    pair = ("perceived gender", "skin tone")
    return {
        "people": people_,
        "shares": custom.shares(people_),
        "distance": custom.distance(people_, benchmark),
        "differences": custom.differences(people_, replicates=200),
        "tones": custom.tones(people_),
        "intersections": custom.intersections(custom.wide_answers(people_), [pair]),
        "corrected": precision.estimates(custom.headlines(people_), annotations),
    }


@pytest.fixture
def seen(monkeypatch):
    judged_by_pixels(monkeypatch)


def again(path, name, way):
    """Save an image again: the same bytes, or the same pixels in another file."""
    target = path.with_name(name)
    if way == "bytes":
        shutil.copy(path, target)
        return
    with Image.open(path) as image:
        image.load()
        file = BytesIO()
        image.save(file, "BMP" if way == "bmp" else "PNG", **({} if way == "bmp" else {"compress_level": 0}))
    target.with_suffix(".bmp" if way == "bmp" else ".png").write_bytes(file.getvalue())


chosen = st.lists(
    st.tuples(
        st.sampled_from(["first", "second"]),
        st.sampled_from(GROUPS),
        st.integers(0, EACH - 1),
        # Copies come before and after the original by name.
        st.sampled_from(["a", "z"]),
        st.sampled_from(["bytes", "png", "bmp"]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=12,
)
quiet = partial(settings, max_examples=10, deadline=None, derandomize=True)


@quiet(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen)
@pytest.mark.long
def test_custom_tables_are_the_same_whichever_images_are_duplicated(seen, portraits, tmp_path_factory, which):
    root, rated, before = portraits
    place = tmp_path_factory.mktemp("copied")
    shutil.copytree(root, place / "root")
    for model, group, k, start, way, n in which:
        for number in range(n):
            again(place / "root" / model / group / f"m{k}.png", f"{start}-{group}-{k}-{way}-{number}.png", way)
    after = estimates(place / "root", rated, place / "after")
    n_files = sum(1 for path in (place / "root").rglob("*") if path.suffix in (".png", ".bmp"))
    assert (after["people"]["status"] == DUPLICATE).sum() == n_files - 2 * len(GROUPS) * EACH > 0
    for name in before.keys() - {"people"}:
        pd.testing.assert_frame_equal(after[name], before[name], obj=name)


def test_ratings_annotation_of_a_copy_is_of_the_image_that_counts(tmp_path):
    folder = tmp_path / "pics"
    for name, seed in (("chef/1.png", 1), ("chef/2.png", 1), ("chef/3.png", 3)):
        save(folder / name, noise(seed))
    (file := tmp_path / "r.csv").write_text("image_id,gender\nchef/2.png,female\nchef/3.png,male\n")
    judging = {"gender": "mini-clip", "faces": "mini-detector", "annotations": str(file)}
    given = Settings.from_mapping({"judging": judging, "compute": {"cache": str(tmp_path / "store")}})
    table = precision.ratings(Pipeline(f"images:{folder}", given, progress=False))
    assert dict(zip(table["image_id"], table["label"], strict=True)) == {"chef/1.png": "female", "chef/3.png": "male"}


# -- what readers are told -------------------------------------------------------------------------------------


def test_run_reports_copies_and_files_that_are_not_read(tmp_path):
    folder = tmp_path / "pics"
    for name, seed in (("chef/1.png", 1), ("nurse/1.png", 1), ("nurse/2.png", 1), ("nurse/3.png", 3)):
        save(folder / name, noise(seed))
    save(folder / "nurse/4.png", np.zeros((8, 8, 3), np.uint8))
    (folder / "nurse/5.jxl").write_bytes(b"....ftypjxl")
    (folder / "chef/2.png").write_bytes(b"no image")
    judging = {"gender": "ViT-B-32:openai", "faces": "whole image"}
    given = Settings.from_mapping({"judging": judging, "compute": {"cache": str(tmp_path / "store")}})
    pipeline = Pipeline(f"images:{folder}", given, progress=False)
    asked = plan_of(pipeline).of_tables(["custom_people"]).requests
    # Nothing is computed for the page: without results of the run there is nothing to say.
    assert generated_images.remarks(asked) == []
    pipeline.part(Custom).images()
    assert custom.unmatched([pipeline]) == ["pics: Excluded (format not read): 1, such as nurse/5.jxl."]
    left_out = (
        "4 of 7 files: unreadable 1 (chef 1), duplicate 1 (nurse 1; nurse/2.png has the pixels of nurse/1.png), "
        "black 1 (nurse 1), format not read 1 (nurse 1)"
    )
    more = "Images that occur in several groups and count in each: 1, such as 'chef/1.png', 'nurse/1.png'."
    assert generated_images.remarks(asked) == [f"Excluded images: pics {left_out}.", f"pics: {more}"]
    assert custom.remarks(pipeline) == [f"Excluded: {left_out}.", more]
