"""Duplicate images: which count, what is reported, and estimates that do not depend on the number of copies."""

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


def save(path, image, **save_options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, **save_options)
    return path


def load_with_duplicates(folder, group=lambda image_id: "one"):
    """Return a folder's images as a source, and which of them are copies."""
    images = FolderImages(folder)
    images.table = images.table.assign(status="ok")
    groups = images.table["image_id"].map(group)
    return images, duplicates.find_duplicates(
        images, groups, cache=ResultCache(folder.parent / "store"), progress=False
    )


def status_of(result):
    return {row.image_id: (row.status, row.copy_of) for row in result.itertuples()}


# -- which images are copies -----------------------------------------------------------------------------------


def test_find_duplicates_identical_pixels_count_once(tmp_path):
    folder, info = tmp_path / "pictures", PngInfo()
    info.add_text("parameters", "a photo of a nurse")
    save(folder / "b.png", noise(1))
    save(folder / "a.png", noise(1), pnginfo=info, compress_level=0)
    save(folder / "c.bmp", noise(1))
    save(folder / "d.png", noise(2))
    # 24 x 24 pixels in another shape are another image, though the bytes are the same.
    save(folder / "e.png", noise(1).reshape(12, 48, 3))
    _, result = load_with_duplicates(folder)
    expected = {"a.png": ("", ""), "b.png": (DUPLICATE, "a.png"), "c.bmp": (DUPLICATE, "a.png")}
    assert status_of(result) == expected | {"d.png": ("", ""), "e.png": ("", "")}


def test_find_duplicates_keeps_lowest_number(tmp_path):
    images = FolderImages(save(tmp_path / "pictures" / "a.png", noise(1)).parent)
    images.table = pd.DataFrame({"image_id": ["p/10", "p/2", "q/1"]})
    images.read = lambda ids: [noise(1) for _ in ids]
    groups = pd.Series(["one"] * 3)
    result = duplicates.find_duplicates(images, groups, cache=ResultCache(tmp_path / "store"), progress=False)
    assert status_of(result) == {"p/10": (DUPLICATE, "p/2"), "p/2": ("", ""), "q/1": (DUPLICATE, "p/2")}


def test_find_duplicates_across_groups_counts_in_each(tmp_path):
    folder = tmp_path / "pictures"
    for name in ("chef/1.png", "nurse/1.png", "nurse/2.png"):
        save(folder / name, noise(1))
    _, result = load_with_duplicates(folder, lambda image_id: image_id.partition("/")[0])
    assert status_of(result) == {
        "chef/1.png": ("", ""),
        "nurse/1.png": ("", ""),
        "nurse/2.png": (DUPLICATE, "nurse/1.png"),
    }


def test_find_duplicates_ignores_black_and_unreadable_images(tmp_path):
    folder = tmp_path / "pictures"
    for name in ("a.png", "b.png"):
        save(folder / name, np.zeros((8, 8, 3), np.uint8))
    for name in ("c.png", "d.png"):
        (folder / name).write_bytes(b"no image")
    # JPEG leaves black a little above 0; the darkest image that shows something is one level brighter.
    save(folder / "e.png", np.full((8, 8, 3), 8, np.uint8))
    save(folder / "f.png", np.full((8, 8, 3), 9, np.uint8))
    images, result = load_with_duplicates(folder)
    statuses = dict.fromkeys(("a.png", "b.png", "e.png"), (BLACK, ""))
    assert status_of(result) == statuses | dict.fromkeys(("c.png", "d.png", "f.png"), ("", ""))
    distinct = duplicates.DistinctImages(images, result)
    assert list(distinct.table["status"]) == [BLACK, BLACK, "ok", "ok", BLACK, "ok"]
    rows = [open_image(i, image) for i, image in zip("adf", distinct.read(["a.png", "d.png", "f.png"]), strict=True)]
    assert [(row["status"], row["reason"]) for row in rows] == [(BLACK, ""), ("unreadable", "not an image"), ("", "")]


def card(word):
    """Return a plain image with a mark in its middle, as a content filter's card has."""
    image = np.full((64, 64, 3), 230, np.uint8)
    image[28:36, 16 : 16 + 4 * len(word)] = 60
    return image


def test_find_duplicates_single_color_is_placeholder(tmp_path):
    folder = tmp_path / "pictures"
    grey, nearly = np.full((64, 64, 3), 128, np.uint8), np.full((64, 64, 3), 128, np.uint8)
    nearly[0, 0] = 137  # One value more than DARKEST from the others.
    save(folder / "a.png", grey)
    save(folder / "b.jpg", grey, quality=75)
    save(folder / "c.png", nearly)
    images, result = load_with_duplicates(folder)
    assert status_of(result) == {"a.png": (PLACEHOLDER, ""), "b.jpg": (PLACEHOLDER, ""), "c.png": ("", "")}
    distinct = duplicates.DistinctImages(images, result)
    (row,) = (open_image("a", image) for image in distinct.read(["a.png"]))
    assert row["status"] == PLACEHOLDER and list(distinct.table["status"]) == [PLACEHOLDER, PLACEHOLDER, "ok"]
    assert duplicates.describe_left_out(distinct).startswith("2 of 3 images: placeholder 2")


def test_find_duplicates_plain_image_in_two_groups_is_placeholder(tmp_path):
    folder = tmp_path / "pictures"
    for name in ("chef/1.png", "nurse/1.png", "nurse/2.png"):
        save(folder / name, card("blocked"))
    for name in ("chef/2.png", "chef/3.png"):
        save(folder / name, card("menu"))
    # A portrait in two groups was copied by the user, and counts in each.
    for name in ("chef/4.png", "nurse/4.png"):
        save(folder / name, noise(3, 64))
    _, result = load_with_duplicates(folder, lambda image_id: image_id.partition("/")[0])
    expected = dict.fromkeys(("chef/1.png", "nurse/1.png", "nurse/2.png"), (PLACEHOLDER, ""))
    expected |= {"chef/2.png": ("", ""), "chef/3.png": (DUPLICATE, "chef/2.png")}
    assert status_of(result) == expected | dict.fromkeys(("chef/4.png", "nurse/4.png"), ("", ""))


def test_distinct_images_digest_changes_only_with_duplicates(tmp_path):
    folder = tmp_path / "pictures"
    save(folder / "a.png", noise(1))
    save(folder / "b.png", noise(2))
    images, result = load_with_duplicates(folder)
    assert duplicates.DistinctImages(images, result).digest == images.digest
    save(folder / "c.png", noise(1))
    images, result = load_with_duplicates(folder)
    distinct = duplicates.DistinctImages(images, result)
    assert distinct.digest != images.digest and duplicates.all_images(distinct) is images
    loaded = distinct.read(["c.png", "a.png"])
    assert loaded[0] == UnreadableImage(DUPLICATE) and (loaded[1] == noise(1)).all()


def test_find_duplicates_of_no_images_is_empty(tmp_path):
    folder = tmp_path / "pictures"
    save(folder / "a.png", noise(1))
    images = FolderImages(folder)
    images.table = images.table.iloc[:0]
    result = duplicates.find_duplicates(
        images, pd.Series([], dtype=object), cache=ResultCache(tmp_path / "store"), progress=False
    )
    assert result.empty and duplicates.group_duplicates(result) == (0, [])
    assert duplicates.remarks(duplicates.DistinctImages(images, result)) == []


def test_near_duplicate_jpeg_is_reported_and_counted(tmp_path):
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
    images, result = load_with_duplicates(folder)
    assert duplicates.group_duplicates(result) == (1, [("a.png", "b.jpg")])
    assert (result["status"] == "").all()
    (said,) = duplicates.remarks(duplicates.DistinctImages(images, result))
    assert said == "Near-duplicates within a group, all included: 1 pair (for example, a.png and b.jpg)."


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
def distinct_images(tmp_path):
    """Return images of which b is a copy of a, in one group, and c is another image."""
    folder = tmp_path / "pictures"
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        save(folder / f"{name}.png", noise(seed))
    return duplicates.DistinctImages(*load_with_duplicates(folder))


@pytest.mark.parametrize("said", [("female", "female"), ("female", ""), ("", "female")])
def test_drop_duplicates_moves_annotation_to_counted_image(distinct_images, said):
    given = annotations(a=said[0], b=said[1], c="male")
    result = duplicates.drop_duplicates(distinct_images, given, "r.csv")
    assert list(result["status"]) == ["judged", DUPLICATE, "judged"]
    assert list(result["gender"]) == ["female", "", "male"]


def test_drop_duplicates_refuses_conflicting_annotations(distinct_images):
    with pytest.raises(
        InputError, match=r"a\.png and b\.png are copies .* r\.csv states female for the first and male for the second"
    ):
        duplicates.drop_duplicates(distinct_images, annotations(a="female", b="male", c="male"), "r.csv")


@pytest.mark.parametrize(("rows", "is_refused"), [("b.png,nurse", False), ("b.png,chef", True)])
def test_custom_images_refuse_conflicting_folder_rows(tmp_path, rows, is_refused):
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

REDS = {"female": 60, "male": 120, "unsure": 180, "": 240}
GROUPS, PER_GROUP = ("chef", "nurse", "pilot"), 6


def person(gender, seed):
    """Return an image whose red encodes the answer of the judge below, and whose blue its skin tone."""
    image = noise(seed, 16)
    image[0, 0] = REDS[gender], 100, 20 + seed % 9
    return image


def judge_by_first_pixel(images, requested, judge, *detector, **options):
    """Judge people by the first pixel of their image, unless annotations are the judge."""
    if not judge.needs_images:
        return judge_people(images, requested, judge, *detector, **options)
    answers = {red: gender for gender, red in REDS.items()}
    rows = []
    for image_id, image in zip(requested["image_id"], images.read(list(requested["image_id"])), strict=True):
        row = open_image(image_id, image)
        if not row["status"]:
            gender = answers[int(image[0, 0, 0])]
            row["gender"] = gender
            row["status"] = {"": "no_face", "unsure": "uncertain"}.get(gender, "judged")
        rows.append(row)
    return people.frame(pd.DataFrame(rows).assign(position=1, role="", answer=""))


def tones(images, seen, *_, **__):
    loaded = images.read(list(seen["image_id"]))
    tone_values = [np.nan if isinstance(image, UnreadableImage) else float(image[0, 0, 2]) - 19 for image in loaded]
    return pd.DataFrame({"tone": tone_values, "reason": "", "judge": "fake"})


@pytest.fixture(scope="module")
def portraits(tmp_path_factory):
    """Return a folder of two models' images in groups, with annotations of a subset."""
    root, rng, annotation_texts = tmp_path_factory.mktemp("portraits"), np.random.default_rng(5), {}
    for model in ("first", "second"):
        rows = ["image_id,gender"]
        for seed, (group, k) in enumerate((group, k) for group in GROUPS for k in range(PER_GROUP)):
            gender = rng.choice(list(REDS), p=[0.4, 0.4, 0.1, 0.1])
            save(root / model / group / f"m{k}.png", person(gender, seed + (1000 if model == "second" else 0)))
            rows += [f"{group}/m{k}.png,{rng.choice(['female', 'male'])}"] if k % 2 else []
        annotation_texts[model] = "\n".join(rows) + "\n"
    with pytest.MonkeyPatch.context() as patch:
        judged_by_pixels(patch)
        return root, annotation_texts, estimates(root, annotation_texts, root / "store")


def judged_by_pixels(patch):
    """Replace the judges by ones that read the first pixel."""
    patch.setattr(people, "judge_people", judge_by_first_pixel)
    patch.setattr(skin_tone, "judge_skin_tones", tones)
    patch.setattr(Pipeline, "check_judge", lambda *_: None)


def estimates(root, annotation_texts, store):
    """Return the tables of estimates of two folders of images."""
    frames, annotations, benchmark = [], [], None
    for model in ("first", "second"):
        file = store.parent / f"{model}.csv"
        file.write_text(annotation_texts[model])
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


def resave(path, name, way):
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


duplications_strategy = st.lists(
    st.tuples(
        st.sampled_from(["first", "second"]),
        st.sampled_from(GROUPS),
        st.integers(0, PER_GROUP - 1),
        # Copies come before and after the original by name.
        st.sampled_from(["a", "z"]),
        st.sampled_from(["bytes", "png", "bmp"]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=12,
)
quick_settings = partial(settings, max_examples=10, deadline=None, derandomize=True)


@quick_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(duplications_strategy)
@pytest.mark.long
def test_custom_tables_do_not_depend_on_duplicates(seen, portraits, tmp_path_factory, duplications):
    root, annotation_texts, tables_before = portraits
    place = tmp_path_factory.mktemp("copied")
    shutil.copytree(root, place / "root")
    for model, group, k, start, way, n in duplications:
        for number in range(n):
            resave(place / "root" / model / group / f"m{k}.png", f"{start}-{group}-{k}-{way}-{number}.png", way)
    tables_after = estimates(place / "root", annotation_texts, place / "after")
    n_files = sum(1 for path in (place / "root").rglob("*") if path.suffix in (".png", ".bmp"))
    assert (tables_after["people"]["status"] == DUPLICATE).sum() == n_files - 2 * len(GROUPS) * PER_GROUP > 0
    for name in tables_before.keys() - {"people"}:
        pd.testing.assert_frame_equal(tables_after[name], tables_before[name], obj=name)


def test_precision_ratings_of_duplicate_move_to_counted_image(tmp_path):
    folder = tmp_path / "pics"
    for name, seed in (("chef/1.png", 1), ("chef/2.png", 1), ("chef/3.png", 3)):
        save(folder / name, noise(seed))
    (file := tmp_path / "r.csv").write_text("image_id,gender\nchef/2.png,female\nchef/3.png,male\n")
    judging = {"gender": "mini-clip", "faces": "mini-detector", "annotations": str(file)}
    given = Settings.from_mapping({"judging": judging, "compute": {"cache": str(tmp_path / "store")}})
    table = precision.ratings(Pipeline(f"images:{folder}", given, progress=False))
    assert dict(zip(table["image_id"], table["label"], strict=True)) == {"chef/1.png": "female", "chef/3.png": "male"}


# -- remarks ----------------------------------------------------------------------------------------------------


def test_run_remarks_list_duplicates_and_unread_files(tmp_path):
    folder = tmp_path / "pics"
    for name, seed in (("chef/1.png", 1), ("nurse/1.png", 1), ("nurse/2.png", 1), ("nurse/3.png", 3)):
        save(folder / name, noise(seed))
    save(folder / "nurse/4.png", np.zeros((8, 8, 3), np.uint8))
    (folder / "nurse/5.jxl").write_bytes(b"....ftypjxl")
    (folder / "chef/2.png").write_bytes(b"no image")
    judging = {"gender": "ViT-B-32:openai", "faces": "whole image"}
    given = Settings.from_mapping({"judging": judging, "compute": {"cache": str(tmp_path / "store")}})
    pipeline = Pipeline(f"images:{folder}", given, progress=False)
    requested = plan_of(pipeline).of_tables(["custom_people"]).requests
    # Nothing is computed for the page: without results of the run there are no remarks.
    assert generated_images.remarks(requested) == []
    pipeline.part(Custom).images()
    assert custom.unmatched([pipeline]) == ["pics: Excluded (format not read): 1, such as nurse/5.jxl."]
    left_out = (
        "4 of 7 files: unreadable 1 (chef 1), duplicate 1 (nurse 1; nurse/2.png has the pixels of nurse/1.png), "
        "black 1 (nurse 1), format not read 1 (nurse 1)"
    )
    cross_group = "Images that occur in several groups and count in each: 1, such as 'chef/1.png', 'nurse/1.png'."
    assert generated_images.remarks(requested) == [f"Excluded images: pics {left_out}.", f"pics: {cross_group}"]
    assert custom.remarks(pipeline) == [f"Excluded: {left_out}.", cross_group]
