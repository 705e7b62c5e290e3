"""Groups of images by prompts, folders or a pattern, and refusal of ambiguous ones."""

import pandas as pd
import pytest

from biaslab.errors import InputError
from biaslab.hub.image_groups import group_images

NURSE, CHEF = "a photo of a nurse", "a photo of a chef"


def groups(by_path, group_by=""):
    """Return the groups of images given as path: prompt."""
    rows = pd.DataFrame({"image_id": list(by_path), "prompt": list(by_path.values())}, dtype=object)
    return group_images(rows, group_by, "images").tolist()


def bare(*paths):
    return dict.fromkeys(paths, "")


@pytest.mark.parametrize(
    ("by_path", "expected"),
    [
        # Folders alone: the one level that separates images, days and kinds of output apart.
        (bare("nurse/1.png", "chef/1.png"), ["nurse", "chef"]),
        (bare("nurse/a/1.png", "chef/2.png"), ["nurse", "chef"]),
        (bare("SDXL/nurse/1.png", "SDXL/chef/1.png"), ["nurse", "chef"]),
        (bare("nurse/1.png", "nurse/2.png"), ["nurse", "nurse"]),
        (bare("nurse/2024-05-01/1.png", "chef/2024-05-02/1.png"), ["nurse", "chef"]),
        (bare("nurse/n_1/1.png", "chef/c_1/1.png"), ["nurse", "chef"]),
        (bare("001/1.png", "NA/1.png", "_x $5/1.png", "医生/1.png"), ["001", "NA", "_x $5", "医生"]),
        # Prompts in days, in one folder, in none.
        ({"2024-05-01/1.png": NURSE, "2024-05-02/1.png": CHEF}, [NURSE, CHEF]),
        ({"2024/05/01/1.png": NURSE, "2024/06/02/1.png": CHEF}, [NURSE, CHEF]),
        ({"2024-05-01_12-30-45/1.png": NURSE, "20240502/1.png": CHEF}, [NURSE, CHEF]),
        ({"out/1.png": NURSE, "out/2.png": CHEF}, [NURSE, CHEF]),
        ({"1.png": NURSE, "2.png": "A photo of a nurse.", "3.png": ""}, [NURSE, NURSE, ""]),
        # They agree in words, or in the images that they separate.
        (
            {"nurse/1.png": NURSE, "nurse/2.png": "a portrait of a nurse", "chef/1.png": CHEF},
            ["nurse", "nurse", "chef"],
        ),
        ({"nurses/1.png": NURSE, "Chef/1.png": CHEF}, ["nurses", "Chef"]),
        ({"护士/1.png": "一位护士的照片", "厨师/1.png": "一位厨师的照片"}, ["护士", "厨师"]),
        ({"a/1.png": NURSE, "b/1.png": CHEF}, [NURSE, CHEF]),
        # Images without a prompt are in their folder.
        ({"chef/1.png": "", "2.png": NURSE}, ["chef", NURSE]),
    ],
)
def test_group_images_without_rule_follows_prompts_and_folders(by_path, expected):
    assert groups(by_path) == expected


@pytest.mark.parametrize(
    ("by_path", "options"),
    [
        (bare("SD 1.5/nurse/1.png", "SDXL/nurse/1.png", "SDXL/chef/1.png"), r"folder\[1\] \(2: .*folder\[2\] \(2: "),
        ({"nurse/1.png": CHEF, "chef/1.png": CHEF}, r"prompt \(1: .*folder\[1\] \(2: 'chef', 'nurse'"),
        # "man" is no word of "a woman".
        ({"man/1.png": "a woman", "man/2.png": "a man", "x/1.png": "a man"}, r"prompt \(2: .*folder\[1\]"),
        ({"SD/nurse/1.png": NURSE, "SDXL/nurse/1.png": NURSE, "SDXL/chef/1.png": CHEF}, r"folder\[1\].*folder\[2\]"),
    ],
)
def test_group_images_ambiguous_is_refused(by_path, options):
    with pytest.raises(InputError, match=options + ".*--group-by"):
        groups(by_path)


def test_group_images_of_day_folders_is_empty_without_rule():
    assert groups(bare("2024-05-01/1.png", "2024-05-02/1.png")) == ["", ""]
    assert groups(bare("2024-05-01/1.png", "2024-05-02/1.png"), "folder[1]") == ["2024-05-01", "2024-05-02"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("prompt", [NURSE, NURSE, ""]),
        ("folder[1]", ["SD 1.5", "SDXL", "SDXL"]),
        ("folder[2]", ["nurse", "chef", ""]),
        (r"^([^/]+)/", ["SD 1.5", "SDXL", "SDXL"]),
        (r"seed\d", ["seed1", "seed2", ""]),
    ],
)
def test_group_images_follows_rule(rule, expected):
    by_path = {"SD 1.5/nurse/seed1.png": NURSE, "SDXL/chef/seed2.png": "A photo of a nurse", "SDXL/x.png": ""}
    assert groups(by_path, rule) == expected


@pytest.mark.parametrize(
    ("rule", "problem"), [("folder[7]", "no image"), ("(", "not a valid regular"), ("dog", r"'prompt', 'fol")]
)
def test_group_images_rule_without_groups_is_refused(rule, problem):
    with pytest.raises(InputError, match=f"--group-by is .*{problem}"):
        groups({"nurse/1.png": NURSE}, rule)
