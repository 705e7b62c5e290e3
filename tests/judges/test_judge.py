"""Inclusion criteria and gender together: each image gets one status, computed once, in batches of any size."""

import hashlib
import re

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.hub import huggingface
from biaslab.hub.image_sources import UnreadableImage
from biaslab.judges.annotations import AnnotationJudge
from biaslab.judges.judge import JudgeOptions
from biaslab.judges.people import count_statuses, judge_people
from biaslab.judges.registry import parse
from biaslab.judges.settings import JudgeSettings
from biaslab.judges.skin_tone import judge_skin_tones


@pytest.fixture
def cases(picture):
    """Images of 20 x 20 with every status; the pixel judges read kind and percent female from them."""
    return ArrayImages(
        [
            picture(15, 97),  # one face of 5 x 5, 0.97
            picture(15, 90),  # exactly the threshold
            picture(15, 10),  # exactly the threshold, male
            picture(15, 89),
            picture(15, 50),
            picture(0),
            picture(2),
            picture(11, 97),  # one face of 1 x 1: less than 2 pixels
            picture(12, 3),  # 2 x 2: just enough
            UnreadableImage("truncated"),
            UnreadableImage("blocked"),
        ]
    )


@pytest.fixture
def run(make_judges, cases, tmp_path):
    def _run(**options):
        requested = cases.table.assign(position=1)
        return judge_people(cases, requested, *make_judges(**options), cache=ResultCache(tmp_path), progress=False)

    return _run


@pytest.mark.usefixtures("one_thread")
def test_judge_people_gives_each_image_a_status(make_judges, cases, tmp_path):
    gender, faces = make_judges()
    requested = cases.table.assign(position=1)
    result = judge_people(cases, requested, gender, faces, cache=ResultCache(tmp_path), progress=False)
    assert list(result["image_id"]) == [str(k) for k in range(11)]
    first, last = ["judged"] * 3 + ["uncertain"] * 2, ["judged", "unreadable", "blocked"]
    assert result["status"].tolist() == [*first, "no_face", "several_faces", "face_too_small", *last]
    genders = ["female", "female", "male", "unsure", "unsure", "", "", "", "male", "", ""]
    assert result["gender"].tolist() == genders and result["reason"].tolist() == [""] * 9 + ["truncated", ""]
    p = [0.97, 0.9, 0.1, 0.89, 0.5, np.nan, np.nan, np.nan, 0.03, np.nan, np.nan]
    np.testing.assert_allclose(result["probability_female"], p)
    np.testing.assert_array_equal(result["n_faces"], [1, 1, 1, 1, 1, 0, 2, 1, 1, np.nan, np.nan])
    # The pixel detector puts one face at (1, 2) and two side by side, 5 pixels wide each.
    np.testing.assert_array_equal(result.loc[0, ["x0", "y0", "x1", "y1"]].astype(float), [1, 2, 6, 7])
    assert result.loc[[5, 6, 9], ["x0", "y0", "x1", "y1"]].isna().all(axis=None)
    assert list(result["boxes"][6]) == [0, 0, 5, 5, 5, 0, 10, 5] and len(result["boxes"][5]) == 0
    # Only images of one face are shown to the gender model: seven of eleven, one of them too small to count.
    assert sum(len(shapes) for shapes in gender.shapes) == 7
    np.testing.assert_array_equal(result["image_width"], [20] * 9 + [np.nan] * 2)


@pytest.mark.usefixtures("one_thread")
def test_judge_people_reads_cached_answers(run):
    first = run()
    # The speed does not matter, nor do other judges.
    unrelated_settings = {
        "annotations": "r.csv",
        "extra_judges": ("annotations:r.csv",),
        "questions_file": "q.yaml",
        "question_model": "endpoint:a",
    }
    repeated = run(allowed=False, batch_size=7, skin_tone="none", **unrelated_settings)
    pd.testing.assert_frame_equal(first, repeated)
    with pytest.raises(AssertionError, match="computed again"):
        run(allowed=False, faces="other")


def test_count_statuses_includes_zero_counts():
    judged = pd.DataFrame({"status": ["judged"] * 3 + ["no_face", "judged"], "occupation": ["nurse"] * 4 + ["pilot"]})
    result = count_statuses(judged, ["occupation"]).set_index(["occupation", "status"])
    assert len(result) == 2 * 7
    assert result.loc["nurse", "n"].sum() == 4 and result.loc["pilot", "n"].sum() == 1
    assert result.loc[("nurse", "judged"), "percent"] == 75
    assert result.loc[("pilot", "blocked"), ["n", "percent"]].tolist() == [0, 0]
    # Wilson, 3 of 4 at 95%, z = 1.96: (3/4 + z²/8) / (1 + z²/4) = 0.628; half 0.328 (by hand).
    assert result.loc[("nurse", "judged"), "ci_low"] == pytest.approx(30.06, abs=0.01)
    assert result.loc[("nurse", "judged"), "ci_high"] == pytest.approx(95.44, abs=0.01)


def test_judge_settings_refuse_invalid_values():
    for invalid, message in (
        ({"threshold": 0.4}, r"threshold is 0\.4; it must be 0\.5 to 1"),
        ({"class_prompts": ("A photo of a man",)}, "set it to two prompts"),
        ({"dtype": "float31"}, r"dtype is 'float31'.*'float32'"),
    ):
        with pytest.raises(ParameterError, match=message):
            JudgeSettings(**invalid)


def test_parse_unknown_skin_tone_judge_lists_allowed():
    allowed = "'pixels', 'none', endpoint:NAME, plugin:NAME, annotations:NAME"
    for name in ("pixel", "vqa:owner/name"):
        with pytest.raises(ParameterError, match=rf"judging.skin_tone is '{name}', but no judge .*{allowed}"):
            parse(name, "judging.skin_tone")
    for name in ("pixels", "none", "plugin:anything", "annotations:tones.csv"):
        assert parse(name, "judging.skin_tone").name == name


def test_annotation_judge_takes_majority_of_annotators(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(
        "image,source,occupation,ana,ben,cid\n"
        "a,generated,nurse,female,female,male\n"
        "b,generated,nurse,male,,male\n"
        "c,generated,pilot,female,male,\n"
        "d,generated,pilot,unsure,unsure,male\n"
        "e,generated,pilot,,,\n"
        "'=f,generated,pilot,male,male,male\n"
    )
    ids = ["=f", "e", "d", "c", "b", "a", "elsewhere"]
    requested, cache = pd.DataFrame({"image_id": ids, "position": 1}), ResultCache(tmp_path / "cache")
    images = ArrayImages([np.zeros((4, 4, 3), np.uint8)] * len(ids), ids)
    result = judge_people(images, requested, AnnotationJudge(f"annotations:{path}"), cache=cache)
    assert list(result["gender"]) == ["male", "", "unsure", "unsure", "male", "female", ""]
    assert list(result["status"]) == ["judged", "unannotated", *["uncertain"] * 2, *["judged"] * 2, "unannotated"]
    assert list(result["reason"]) == ["", "", "unsure", "tie", "", "", "not in the file"]
    counts = count_statuses(result.assign(prompt="1"), ["prompt"]).set_index("status")["n"]
    assert counts["unannotated"] == 2 and counts["uncertain"] == 2 and counts["judged"] == 3


def test_skin_tone_of_annotators_is_majority(tmp_path):
    path = tmp_path / "tones.csv"
    rows = ["a,1,ana,7", "a,1,ben,7", "a,1,cid,2", "a,2,ana,1", "a,2,ben,3", "b,1,ana,unsure", "c,1,ana,10"]
    texts = [row.replace(",", ",skin tone,", 1) for row in rows]
    path.write_text("\n".join(["image_id,question,position,annotator,label", *texts, "c,,1,ana,female"]) + "\n")
    people = pd.DataFrame({"image_id": list("aabcd"), "position": [1, 2, 1, 1, 1]})
    images = ArrayImages([np.zeros((4, 4, 3), np.uint8)] * 4, list("abcd"))
    judge = parse(f"annotations:{path}", "judging.skin_tone")
    tones = judge_skin_tones(images, people, judge, cache=ResultCache(tmp_path / "cache"))
    np.testing.assert_array_equal(tones["tone"].astype(float), [7, np.nan, np.nan, 10, np.nan])
    assert tones["reason"].tolist() == ["", "tie", "unsure", "", "unannotated"]
    assert set(tones["judge"]) == {judge.name}


def test_annotation_folder_digest_covers_names_and_contents(tmp_path):
    def digest(**files):
        folder = tmp_path / "-".join(files)
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / f"{name}.csv").write_text(text)
        return parse(f"annotations:{folder}", "judging.gender").digest()

    # The same bytes one after the other, divided otherwise between files, and under another name.
    result = [digest(a="image,ana\n", b="0,female\n"), digest(a="image,", b="ana\n0,female\n"), digest(a="", c="")]
    assert len({*result, digest(a="", d="")}) == 4
    assert digest(a="", d="") == digest(a="", d="")


@pytest.mark.usefixtures("one_thread")
def test_judge_people_loads_models_by_name(clip_folder, detector_folder, tmp_path):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (40, 40, 3), dtype=np.uint8) for _ in range(6)]
    judging = JudgeSettings(min_face_score=0.0, threshold=0.5)
    options = JudgeOptions(judging, device="cpu")
    judges = parse(str(clip_folder), "judging.gender", options), parse(str(detector_folder), "judging.faces", options)
    source = ArrayImages(images)
    requested = source.table.assign(position=1)
    result = judge_people(source, requested, *judges, cache=ResultCache(tmp_path), progress=False)
    faces = judges[1].faces(images)
    assert [len(image_faces) for image_faces in faces] == list(result["n_faces"])
    # One face, of any size, and a probability of at least 0.5.
    lone = result["n_faces"] == 1
    assert (
        result.loc[~lone, "status"] == np.where(result.loc[~lone, "n_faces"] == 0, "no_face", "several_faces")
    ).all()
    assert set(result.loc[lone, "status"]) <= {"judged", "small_face"}


def test_judge_digest_depends_on_weights(tmp_path, monkeypatch):
    def unheard(*_, **__):
        raise ConnectionError("no network")

    monkeypatch.setattr(huggingface, "fetch_info", unheard)
    monkeypatch.setattr(huggingface, "_commits", {})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"one")

    def digest(name, setting="judging.gender"):
        return parse(name, setting).digest()

    before = digest(str(tmp_path))
    file.write_bytes(b"two")
    assert digest(str(tmp_path)) != before
    assert digest(f"vqa:{tmp_path}") == digest(str(tmp_path))
    # A single file by its content; names of weights that lie elsewhere by themselves.
    assert digest(f"fairface:{file}") == hashlib.sha256(b"two").hexdigest()
    for name in ("ViT-L-14:openai", "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"):
        assert digest(name) == name
    assert digest("vqa:a/b") == "a/b"
    for name in ("mediapipe:x", "whole image"):
        assert digest(name, "judging.faces") == name


@pytest.mark.parametrize(
    ("setting", "name", "nearest"),
    [
        ("judging.gender", "dlibb", "dlib"),
        ("judging.faces", "yunt", "yunet"),
        ("judging.gender", "endpont:gpt-4o", "endpoint:gpt-4o"),
        ("judging.extra_judges", "anotations:a.csv", "annotations:a.csv"),
    ],
)
def test_parse_misspelt_judge_names_nearest(setting, name, nearest):
    message = f"{re.escape(f'{setting} is {name!r}, but no judge')}.*{re.escape(f'Did you mean {nearest!r}?')}"
    with pytest.raises(ParameterError, match=message):
        parse(name, setting)


def test_parse_open_clip_and_hub_names_are_accepted():
    for name in ("ViT-L-14:openai", "owner/dlibb", "laion/CLIP-ViT-L-14-laion2B-s32B-b82K"):
        assert parse(name, "judging.gender").name == name
