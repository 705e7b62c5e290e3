"""Judges of plugin packages: an example package, installed as a user would, and refusals."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab import plugins
from biaslab.cache.result_cache import ResultCache
from biaslab.errors import InputError, ParameterError, UnknownNameError
from biaslab.hub.image_sources import UnreadableImage
from biaslab.judges.faces import Face, FaceDetector, WholeImage
from biaslab.judges.judge import JudgeOptions
from biaslab.judges.people import judge_people
from biaslab.judges.plugins import PluginJudge, PluginTones
from biaslab.judges.skin_tone import judge_skin_tones

EXAMPLE = Path(__file__).parent / "example_judge"
CPU = JudgeOptions(device="cpu")


@pytest.fixture
def installed_example(use):
    return use(EXAMPLE)


def grey_image(level):
    return np.full((8, 8, 3), level, np.uint8)


def judge_levels(name, tmp_path, levels):
    images = ArrayImages([grey_image(level) for level in levels])
    judge_pair = PluginJudge(name, CPU), WholeImage("whole image", CPU)
    requested = images.table.assign(position=1)
    return judge_people(images, requested, *judge_pair, cache=ResultCache(tmp_path / "store"), progress=False)


def test_plugin_judge_classifies_images(installed_example, tmp_path):
    result = judge_levels("plugin:brightness", tmp_path, [255, 0, 128])
    # 255 / 255, 0 / 255 and 128 / 255, which is sure of neither.
    assert result["probability_female"].tolist() == pytest.approx([1, 0, 128 / 255])
    assert result["gender"].tolist() == ["female", "male", "unsure"]
    # The argument reaches it: a tenth of the brightness.
    assert judge_levels("plugin:brightness:0.1", tmp_path, [255])["gender"].tolist() == ["male"]


def test_plugin_digest_depends_on_code_and_argument(installed_example):
    first = PluginJudge("plugin:brightness").digest()
    assert PluginJudge("plugin:brightness").digest() == first
    assert PluginJudge("plugin:brightness:0.1").digest() != first
    module = installed_example / "example_judge.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace(".mean()", ".max()"), encoding="utf-8")
    assert PluginJudge("plugin:brightness").digest() != first
    module.write_text(text, encoding="utf-8")


def test_plugin_unknown_or_invalid_judge_is_refused(installed_example):
    with pytest.raises(UnknownNameError, match="brightness"):
        PluginJudge("plugin:brightnes").digest()
    with pytest.raises(ParameterError, match=r"cannot be used here.*judge\(people\)"):
        PluginJudge("plugin:nothing").probe(grey_image(0))
    with pytest.raises(InputError, match="much failed: ValueError: could not convert string to float"):
        PluginJudge("plugin:brightness:much").load()


@pytest.mark.parametrize(
    ("says", "outcome", "gender", "p", "reason"),
    [
        ("sure", "judged", "male", 0.02, ""),
        ("word", "judged", "female", 1.0, ""),
        ("torn", "uncertain", "unsure", 0.5, "both at once"),
        ("silent", "uncertain", "unsure", float("nan"), "a drawing"),
    ],
)
def test_plugin_judge_answer_sets_status_and_reason(installed_example, tmp_path, says, outcome, gender, p, reason):
    (row,) = judge_levels(f"plugin:asked:{says}", tmp_path, [255]).to_dict("records")
    assert (row["status"], row["gender"], row["reason"]) == (outcome, gender, reason)
    assert row["probability_female"] == pytest.approx(p, nan_ok=True)


def test_plugin_judge_receives_face_and_position(installed_example, tmp_path, monkeypatch):
    """Face, landmarks, position and phrase of each of two people in one image."""
    eyes = ((12.0, 8.0), (14.0, 8.0))
    faces = [Face(30.0, 4.0, 40.0, 14.0, 0.9), Face(10.0, 4.0, 20.0, 14.0, 0.8, eyes)]
    judge, detector = PluginJudge("plugin:asked", CPU), FaceDetector("both", CPU)
    monkeypatch.setattr(detector, "faces", lambda images: [faces for _ in images])
    image, phrases = np.zeros((24, 48, 3), np.uint8), ["nurse", "pilot"]
    monkeypatch.setattr(judge, "fresh", lambda: judge)
    monkeypatch.setattr(detector, "fresh", lambda: detector)
    monkeypatch.setattr(detector, "digest", lambda: "both")
    requested = pd.DataFrame({"image_id": "i", "position": [1, 2], "phrase": phrases})
    cache = ResultCache(tmp_path / "store")
    result = judge_people(ArrayImages([image], ["i"]), requested, judge, detector, cache=cache, progress=False)
    first, second = judge.model.asked
    assert (first.box, first.landmarks, first.position, first.phrase) == ((10, 4, 20, 14), eyes, 1, "nurse")
    assert (second.box, second.landmarks, second.position, second.people) == ((30, 4, 40, 14), (), 2, 2)
    assert first.image is image and result["gender"].tolist() == ["female", "male"]
    assert result["reason"].tolist() == phrases


def judge_tones(name, tmp_path, images, **faces):
    source = ArrayImages(images)
    people_rows = source.table.assign(**{"x0": 2.0, "y0": 2.0, "x1": 6.0, "y1": 6.0} | faces)
    judge = PluginTones(name, CPU)
    return judge_skin_tones(source, people_rows, judge, cache=ResultCache(tmp_path / "store"), progress=False)


def test_plugin_tones_are_read_and_cached(installed_example, tmp_path, monkeypatch):
    images = [grey_image(255), grey_image(0), grey_image(128), UnreadableImage("truncated"), grey_image(0)]
    result = judge_tones("plugin:tones", tmp_path, images, x1=[6.0, 6.0, 6.0, 6.0, np.nan])
    # 10 minus nine times the brightness: 5 for 128 (10 - round(4.52)).
    assert result["tone"].tolist()[:3] == [1, 10, 5]
    assert result["tone"][3:].isna().all() and result["reason"].tolist() == ["", "", "", "unreadable", "no face"]
    assert set(result["judge"]) == {"plugin:tones"} and result["red"].isna().all()
    for says, reason in (("silent", "a mask"), ("dumb", "the judge gives no answer")):
        (row,) = judge_tones(f"plugin:tones:{says}", tmp_path, images[:1]).itertuples()
        assert np.isnan(row.tone) and row.reason == reason
    # Answers are read from the cache.
    monkeypatch.setattr(PluginJudge, "load", lambda *_: pytest.fail("loaded again"))
    pd.testing.assert_frame_equal(
        judge_tones("plugin:tones", tmp_path, images, x1=[6.0, 6.0, 6.0, 6.0, np.nan]), result
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("brightness:2", r"plugin:brightness:2 returns .*2\.0.*; the probability must be a number from 0 to 1"),
        ("asked:odd", r"plugin:asked:odd returns 'Female'; the gender must be one of 'female', 'male', 'unclear', ''"),
        ("asked:against", r"returns 'female' with a probability of 0\.1"),
        ("asked:fails", r"plugin:asked:fails failed: RuntimeError: no answer"),
        ("asked:broken", r"plugin:asked:broken failed: OSError: no such weights"),
        ("tones:eleven", "plugin:tones:eleven returns 11"),
        ("tones:half", "returns 4.5; the tone"),
        ("tones:word", "returns 'light'; the tone"),
        ("asked:exits", r"plugin:asked:exits failed: SystemExit: 0"),
        ("asked:number", r"plugin:asked:number failed: TypeError: 'int' object is not iterable"),
        ("asked:string", r"plugin:asked:string returns 'female'; an answer must be a tuple"),
        ("asked:list", r"returns \['female'\]; the gender must be one of"),
        ("asked:text", r"plugin:asked:text returns '0\.9'; the probability must be a number"),
        ("tones:array", r"returns array\(\[1, 2\]\); the tone must be a whole number"),
        ("tones:few", "returns 0 answers about 1 people; it must return one answer"),
    ],
)
def test_plugin_invalid_answers_and_errors_are_refused(installed_example, tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        if name.startswith("tones"):
            judge_tones(f"plugin:{name}", tmp_path, [grey_image(255)])
        judge_levels(f"plugin:{name}", tmp_path, [255])


def test_plugin_judge_of_other_kind_is_refused(installed_example, tmp_path):
    with pytest.raises(ParameterError, match=r"plugin:asked .*`tones\(people\)`"):
        judge_tones("plugin:asked", tmp_path, [grey_image(255)])
    with pytest.raises(ParameterError, match=r"plugin:tones cannot be used here"):
        judge_levels("plugin:tones", tmp_path, [255])


def test_plugin_digest_depends_on_declared_files(installed_example, tmp_path):
    folder = tmp_path / "weights"
    (folder / "part").mkdir(parents=True)
    (folder / "a.onnx").write_bytes(b"1")
    (folder / "part" / "b.onnx").write_bytes(b"1")
    result = [PluginJudge(f"plugin:asked:{folder}").digest()]
    for file in ("a.onnx", "part/b.onnx"):
        (folder / file).write_bytes(b"2")
        result.append(PluginJudge(f"plugin:asked:{folder}").digest())
    assert len(set(result)) == 3
    with pytest.raises(ParameterError, match=r"declares the file .*gone, which does not exist"):
        PluginJudge(f"plugin:asked:{tmp_path}/gone").digest()


EXIT_MESSAGE = "its code tried to exit the program"


@pytest.mark.parametrize(
    ("within", "text", "told"),
    [
        ("", "raise RuntimeError('no licence')", "no licence"),
        (".inner", "raise SystemExit(0)", EXIT_MESSAGE),
        ("", "import sys\nsys.exit()", EXIT_MESSAGE),
    ],
)
def test_plugin_import_failure_is_parameter_error(tmp_path, monkeypatch, within, text, told):
    """Any error on import: one that exits would otherwise end the program with status 0."""
    for name, content in {
        "broken-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: broken\nVersion: 1\n",
        "broken-1.dist-info/entry_points.txt": f"[biaslab.judges]\nodd = broken_judge{within}:judge\n",
        "broken_judge/__init__.py": text,
        "broken_judge/inner.py": "judge = None\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    judge = PluginJudge("plugin:odd")
    for use in (judge.files, judge.digest, judge.load):
        with pytest.raises(ParameterError, match=rf"plugin:odd cannot be loaded as a judge: {told}$"):
            use()


def test_load_all_skips_broken_and_slow_plugins(tmp_path, monkeypatch, caplog):
    texts = {"exits": "raise SystemExit(0)", "hangs": "import time\ntime.sleep(20)", "lacks": "", "good": "entry = 1"}
    points = "".join(f"{name} = of_{name}:entry\n" for name in texts) + "odd = no module\ntwice = of_good:entry\n"
    for site, listed in (("first", points), ("second", "twice = of_good:other\n")):
        (info := tmp_path / site / f"{site}-1.dist-info").mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {site}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[biaslab.judges]\n{listed}")
        monkeypatch.syspath_prepend(tmp_path / site)
    for name, text in texts.items():
        (tmp_path / "first" / f"of_{name}.py").write_text(text)
    monkeypatch.setattr(plugins, "_LONGEST_IMPORT", 0.5)
    assert {name: plugin for name, plugin in plugins.load_all(plugins.JUDGES).items() if plugin == 1} == {"good": 1}
    for text in ("'exits' .* SystemExit: 0", "'hangs' .* longer than 0.5 seconds", "'lacks' .* AttributeError"):
        assert re.search(text, caplog.text)
    # An invalid entry point is refused with the reason when it is used by name.
    for name, reason in (
        ("odd", "which is not of the form MODULE:NAME"),
        ("twice", "Two installed packages declare 'twice'"),
    ):
        assert name not in plugins.entry_points(plugins.JUDGES)
        with pytest.raises(ParameterError, match=reason):
            plugins.entry_point(plugins.JUDGES, name, "judge")
