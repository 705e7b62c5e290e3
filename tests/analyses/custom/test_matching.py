"""Names in a user's files are matched with those of a run, and unmatched names are reported before the run."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from biaslab import cli
from biaslab.analyses import custom
from biaslab.analyses.custom import matching
from biaslab.analyses.custom import prompts as asking
from biaslab.analyses.custom.stages import Custom
from biaslab.errors import InputError, ParameterError
from biaslab.pipeline import Pipeline
from biaslab.planning import validation
from biaslab.runs import dry_run
from biaslab.schema import tables
from biaslab.settings import Settings

LABOUR = "group,percent_female\nnurse ,87\npilots,6\nCHEF,30\nflight   attendant,75\n"


def images(folder, *names):
    """Write images that all differ."""
    for k, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), 20 + 3 * k, np.uint8)).save(folder / name)
    return folder


def write_file(folder, text, name="labour.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def pipeline(folder, judging=None, **settings):
    whole = Settings.from_mapping({"custom": settings, "judging": judging or {}, "captions": {"approaches": []}})
    return Pipeline(f"images:{folder}", whole, progress=False)


@pytest.fixture
def four(tmp_path):
    """Return a folder of images in four groups."""
    return images(tmp_path / "four", "Nurse/0.png", "Flight attendant/0.png", "chef/0.png", "pilot/0.png")


# -- groups and a benchmark ----------------------------------------------------------------------------------


def test_match_groups_ignores_case_and_blanks(tmp_path):
    shares = asking.benchmark(write_file(tmp_path, LABOUR))
    rows = asking.match_groups(["Nurse", " Flight attendant", "chef", "pilot"], shares)
    assert rows["group"].tolist() == ["Nurse", " Flight attendant", "chef", "pilot"]
    np.testing.assert_array_equal(rows["percent_female"], [87, 75, 30, np.nan])
    assert asking.unmatched_groups(["Nurse", "flight attendant", "chef"], shares) == ["pilots"]


def test_describe_names_lists_five_and_near_matches():
    assert asking.describe_names(["pilot"], ["chef", "pilots"]) == "'pilot' (near match: 'pilots')"
    assert asking.describe_names([*"abcdefg"], ["xyz"]) == "'a', 'b', 'c', 'd', 'e' and 2 more"


def test_check_plan_refuses_missing_benchmark_group(four, tmp_path):
    file = write_file(tmp_path, LABOUR)
    with pytest.raises(InputError, match=r"no share for 1 of 4 groups of four: 'pilot' \(near match: 'pilots'\)"):
        validation.check_plan(pipeline(four, benchmark_file=file), ["custom_benchmark"])
    validation.check_plan(pipeline(four, benchmark_file=file, partial_benchmark=True), ["custom_benchmark"])


def test_benchmark_partial_has_row_without_share(four, tmp_path):
    rows = custom.benchmark(pipeline(four, benchmark_file=write_file(tmp_path, LABOUR), partial_benchmark=True))
    shares = rows.set_index("group")["percent_female"]
    np.testing.assert_array_equal(shares[["Flight attendant", "Nurse", "chef", "pilot"]], [75, 87, 30, np.nan])


def test_benchmark_partial_without_any_group_is_refused(four, tmp_path):
    file = write_file(tmp_path, "group,percent_female\ndentist,40\n")
    with pytest.raises(InputError, match="none of the groups"):
        pipeline(four, benchmark_file=file, partial_benchmark=True).part(Custom).benchmark()


def test_benchmark_table_without_samples_round_trips(four, tmp_path):
    rows = custom.benchmark(pipeline(four, benchmark_file=write_file(tmp_path, LABOUR), partial_benchmark=True))
    path = tables.write(rows, tmp_path / "custom_benchmark.csv")
    pd.testing.assert_frame_equal(tables.read(path, "custom_benchmark"), rows, check_dtype=False)


def test_distance_mean_skips_group_without_benchmark():
    rows = [("chef", "female")] * 3 + [("chef", "male")] + [("pilot", "male")] * 5
    people = pd.DataFrame(rows, columns=["group", "gender"])
    people = people.assign(model="A", prompt=people["group"], status="judged", position=1, image_id=range(9))
    shares = {"group": ["chef", "pilot"], "percent_female": [25.0, np.nan], "n": np.nan, "name": "the benchmark"}
    table = custom.distance(people, pd.DataFrame(shares)).set_index("group")
    assert table.index.tolist() == ["all", "chef", "pilot"]
    assert table.loc["pilot", "reason"] == "the benchmark has no share for this group"
    # 3 of 4 chefs: 75 - 25.
    assert table.loc["all", ["difference", "n", "n_groups"]].tolist() == [50, 4, 1]


def test_groups_include_people_sharing_an_image(tmp_path):
    folder = images(tmp_path / "both", "a.png", "b.png", "c.png")
    rows = "file,prompt,group,position\na.png,a chef,cook,\nb.png,two people,nurse,left\nb.png,two people,pilot,right\n"
    write_file(folder, rows + "c.png,a dog,dog,\n")
    prompts = write_file(tmp_path, "prompt,group\nA chef,kitchen\nTwo people,pair\n", "mine.csv")
    # The folder's table identifies two people in an image, the prompts file single people.
    assert pipeline(folder, prompts_file=prompts).part(Custom).groups() == ["kitchen", "nurse", "pilot"]


@pytest.mark.parametrize("own", [False, True])
def test_images_match_prompts_of_other_spelling(tmp_path, own):
    folder = images(tmp_path / "both", "a.png", "b.png")
    write_file(folder, "file,prompt,group\na.png,a chef,cook\nb.png,a chef.,cook\n")
    file = write_file(tmp_path, "prompt,group\nA Chef,cook\n", "mine.csv")
    table = pipeline(folder, prompts_file=file if own else "").part(Custom).images().table
    assert table["image_id"].tolist() == ["a.png", "b.png"]
    assert set(table["text"]) == {"A Chef" if own else "a chef"} and set(table["group"]) == {"cook"}


# -- messages before the run ---------------------------------------------------------------------------------


def test_unmatched_names_groups_in_both_directions(four, tmp_path):
    said = matching.unmatched([pipeline(four, benchmark_file=write_file(tmp_path, LABOUR), partial_benchmark=True)])
    assert said == [
        "labour.csv contains no share for 1 of 4 groups: 'pilot' (near match: 'pilots'). The comparison with it covers "
        "3 of 4 groups.",
        "1 of 4 groups in labour.csv match no group of this run: 'pilots' (near match: 'pilot').",
    ]
    whole = write_file(tmp_path, "group,percent_female\nnurse,87\npilot,6\nchef,30\nflight attendant,75\n")
    assert matching.unmatched([pipeline(four, benchmark_file=whole)]) == []


def test_unmatched_pools_groups_of_models(four, tmp_path):
    file = write_file(tmp_path, "group,percent_female\nnurse,87\npilot,6\nchef,30\nflight attendant,75\nclerk,60\n")
    other = images(tmp_path / "other", "clerk/0.png")
    each = [pipeline(folder, benchmark_file=file) for folder in (four, other)]
    assert matching.unmatched(each) == [] and len(matching.unmatched(each[:1])) == 1


def test_unmatched_names_prompts_of_file_and_folder(four, tmp_path):
    file = write_file(tmp_path, "prompt\nnurse\nChef.\npilots\n", "mine.csv")
    assert matching.unmatched([pipeline(four, prompts_file=file)]) == [
        "four contains no image for 1 of 3 prompts in mine.csv: 'pilots' (near match: 'pilot').",
        "2 of 4 images in four are excluded, because their prompts are not in mine.csv: 'Flight attendant', 'pilot' "
        "(near match: 'pilots').",
    ]


def test_unmatched_names_images_missing_from_table(tmp_path):
    folder = images(tmp_path / "some", "a.png", "b.png")
    write_file(folder, "file,group\na.png,chef\n")
    said = "The table of some does not list 1 image, which is excluded: 'b.png'."
    assert matching.unmatched([pipeline(folder)]) == [said]


def test_unmatched_names_annotated_people(four, tmp_path):
    file = write_file(tmp_path, "image_id,gender\nNurse/0.png,female\nNurse/9.png,male\n", "rated.csv")
    annotated_pipeline = pipeline(four, judging={"gender": f"annotations:{file}"})
    (said,) = matching.unmatched([annotated_pipeline])
    assert said == "rated.csv annotates 1 person who is not in this run, in the images 'Nurse/9.png'."


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["a,chef/0.png", "a,chef/9.png"], "1 of 2 annotated images in r.csv are not in this run: 'chef/9.png'."),
        (["a,chef/0.png", "aa,chef/0.png"], "r.csv annotates images of models that are not in this run: 'aa'"),
        ([",chef/0.png"], None),
        (["b,chef/0.png"], InputError),
        (["a,x.png"], InputError),
    ],
)
def test_check_ratings_names_or_refuses_other_images(tmp_path, rows, said):
    folder = images(tmp_path / "a", "chef/0.png")
    text = "\n".join(["model,image,annotator,label", *(f"{row},r,female" for row in rows)])
    one = pipeline(folder, judging={"annotations": write_file(tmp_path, text, "r.csv")})
    requests = [SimpleNamespace(pipeline=one, at_most=False, prompts=None)]
    if said is InputError:
        with pytest.raises(InputError, match=r"r\.csv (annotates|rates)"):
            dry_run.check_ratings(requests)
    else:
        messages = dry_run.check_ratings(requests)
        assert len(messages) == (said is not None) and all(one.startswith(said) for one in messages)


def test_audit_reports_unmatched_in_dry_run_and_record(four, root, tmp_path, capsys, inline):
    pytest.importorskip("torch", reason="models need the extra 'models'")
    rated = ["image_id,gender", "Nurse/0.png,female", "Flight attendant/0.png,female", "chef/0.png,male"]
    rated = write_file(tmp_path, "\n".join([*rated, "pilot/0.png,male"]), "rated.csv")
    command = [
        "audit",
        f"images:{four}",
        "--benchmark",
        write_file(tmp_path, LABOUR),
        "--name",
        "mine",
        "--no-progress",
    ]
    command += ["--notebooks-dir", str(root / "notebooks"), "--outputs", str(tmp_path / "outputs")]
    sets = [
        f"judging.gender=annotations:{rated}",
        "judging.faces=",
        "judging.skin_tone=none",
        "notebooks=[custom/shares]",
    ]
    command += [text for one in sets for text in ("--set", one)]
    assert cli.main([*command, "--dry-run"]) == 2
    assert "'pilot' (near match: 'pilots')" in capsys.readouterr().err
    command += ["--set", "custom.partial_benchmark=true"]
    said = "The comparison with it covers 3 of 4 groups."
    assert cli.main([*command, "--dry-run"]) == 0
    assert said in capsys.readouterr().out
    assert cli.main(command) == 0, capsys.readouterr().err
    assert said in capsys.readouterr().out
    assert any(said in text for text in json.loads((tmp_path / "outputs/mine/run.json").read_text())["left_out"])
    assert said in (tmp_path / "outputs/mine/index.html").read_text()
    distance = pd.read_csv(tmp_path / "outputs/mine/tables/custom_distance.csv").set_index("group")
    assert distance.loc["all", "n_groups"] == 3 and distance.loc["pilot", "reason"].startswith("the benchmark has no")


# -- assumptions about images ----------------------------------------------------------------------------------


def test_describe_assumptions_names_folder_without_domain(four):
    (text,) = matching.describe_assumptions([pipeline(four)])
    assert text.startswith("Images in four are assumed to be photographs") and '{"pictures": "drawings"}' in text
    (four / "biaslab.json").write_text('{"pictures": "photographs"}', encoding="utf-8")
    assert matching.describe_assumptions([pipeline(four)]) == []


def test_describe_scenes_of_several_faces_names_setting(four, monkeypatch):
    judging = {"gender": "dlib", "faces": "yunet"}
    one = pipeline(four, judging)
    detector = one.judge("judging.faces")
    monkeypatch.setattr(type(detector), "faces", lambda self, images: [["face"] * k for k in (2, 3, 0, 4)])
    (text,) = matching.describe_scenes([one])
    assert text.startswith("3 of 4 sampled images in four show several faces.") and "custom.all_faces=true" in text
    assert matching.describe_scenes([pipeline(four, judging, all_faces=True)]) == []
    monkeypatch.setattr(type(detector), "faces", lambda self, images: [["face"] * k for k in (2, 3, 1, 1)])
    assert matching.describe_scenes([pipeline(four, judging)]) == []


def test_all_faces_refuses_judge_without_faces(four):
    with pytest.raises(ParameterError, match=r"custom\.all_faces is true.*'vqa:some/model'"):
        pipeline(four, {"gender": "vqa:some/model"}, all_faces=True).part(Custom).people()


def test_all_faces_people_take_group_of_image(four, tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLAB_CACHE", str(tmp_path / "cache"))

    def judge_people(self, images, requested, judge, *, every_face):
        assert every_face
        rows = requested.loc[requested.index.repeat([2, 1, 3, 1])].reset_index(drop=True)
        return rows.assign(position=rows.groupby("image_id").cumcount() + 1, status="judged", gender="female")

    monkeypatch.setattr(Pipeline, "judge_people", judge_people)
    people = pipeline(four, {"gender": "dlib", "faces": "yunet"}, all_faces=True).part(Custom).people()
    assert people["image_id"].value_counts(sort=False).tolist() == [2, 1, 3, 1]
    assert people["group"].tolist() == people["image_id"].str.partition("/")[0].tolist()
    assert people["position"].tolist() == [1, 2, 1, 1, 2, 3, 1] and (people["status"] == "judged").all()
