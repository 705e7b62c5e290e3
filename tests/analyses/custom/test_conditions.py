"""Prompts under several conditions: files, noise, and paired differences."""

import numpy as np
import pandas as pd
import pytest

from biaslab.analyses import custom
from biaslab.analyses.custom import prompts as custom_prompts
from biaslab.analyses.custom.stages import Custom
from biaslab.errors import InputError, MissingInputError
from biaslab.pipeline import Pipeline
from biaslab.settings import Settings


def read(folder, text):
    path = folder / "own.csv"
    path.write_text(text, encoding="utf-8")
    return custom_prompts.prompts(str(path), 5)


# -- files ---------------------------------------------------------------------------------------------------


def test_prompts_condition_column_pairs_by_group_order(tmp_path):
    rows = read(
        tmp_path,
        "prompt,group,condition\nnurse A,nurse,fair\nnurse B,nurse,fair\na nurse,nurse,\nthe nurse,nurse,\n"
        "a cook,cook,neutral\nfair cook,cook,fair\n",
    )
    text = dict(zip(rows["prompt_id"], rows["text"], strict=True))
    assert dict(zip(rows["text"], rows["base_id"].map(text), strict=True)) == {
        "nurse A": "a nurse", "nurse B": "the nurse", "a nurse": "a nurse", "the nurse": "the nurse",
        "a cook": "a cook", "fair cook": "a cook",
    }  # fmt: skip
    assert rows["condition"].tolist() == ["fair", "fair", "neutral", "neutral", "neutral", "fair"]


def test_prompts_bafis_layout_has_condition_per_language(tmp_path):
    # The layout of prompts/bafis_occupations_direct.csv, and of MAGBIG's dataset on the hub.
    rows = read(tmp_path, "occupation,en,de\nnurse,A photo of a nurse.,Ein Foto.\ncook,A photo of a cook.,Ein Bild.\n")
    assert rows[["text", "group", "condition"]].to_numpy().tolist() == [
        ["A photo of a nurse.", "nurse", "en"],
        ["A photo of a cook.", "cook", "en"],
        ["Ein Foto.", "nurse", "de"],
        ["Ein Bild.", "cook", "de"],
    ]
    assert rows["base_id"].tolist() == rows["prompt_id"].tolist()[:2] * 2


def test_prompts_english_is_base_of_other_languages(tmp_path):
    rows = read(tmp_path, "adjective,de,en\nkind,freundlich,kind person\n")
    assert rows.loc[rows["prompt_id"] == rows["base_id"], "text"].tolist() == ["kind person"]


def test_prompts_magbig_layout_takes_group_from_name_column(tmp_path):
    # prompts/occ_german.csv has the same prompt for several occupations.
    text = "name,prompt\nhousekeeper,Ein Foto eines Hausmeisters.\njanitor, Ein Foto eines Hausmeisters.\n"
    rows = read(tmp_path, text)
    assert rows["group"].tolist() == ["housekeeper", "janitor"] and rows["prompt_id"].is_unique
    assert rows["text"].nunique() == 1 and "condition" not in rows


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("prompt,condition\na,neutral\nb,fair\n", "no column group"),
        ("prompt,group,condition\na,x,neutral\nb,x,fair\nc,x,fair\n", "'c' has no counterpart in 'neutral'"),
        ("prompt,group,condition\na,x,neutral\na,x,neutral\n", "'a' occurs twice"),
        ("occupation,prompt\ncook,a\ncook,A \n", "'A ' occurs twice"),
    ],
)
def test_prompts_refuse_unpaired_conditions(tmp_path, text, names):
    with pytest.raises(InputError, match=names):
        read(tmp_path, text)


# -- differences ---------------------------------------------------------------------------------------------


def people(before, after, group="nurse", condition="fair"):
    """Return both tables of people; F and M are genders, `-` is an image without a face."""
    names = {"F": ("judged", "female"), "M": ("judged", "male"), "-": ("no_face", "")}
    ids = [f"{group}/{k}" for k in range(len(before))]
    base = pd.DataFrame([names[one] for one in before], columns=["status", "gender"])
    other = pd.DataFrame([names[one] for one in after], columns=["status", "gender"])
    base = base.assign(model="m", group=group, prompt=group, image_id=ids, position=1)
    changed = {"condition": condition, "other": "neutral", "prompt": "p", "position": 1}
    other = other.assign(model="m", group=group, image_id=ids, **changed)
    return base, other


def table(*parts, center=50):
    base, other = (pd.concat(frames, ignore_index=True) for frames in zip(*parts, strict=True))
    groups = list(dict.fromkeys(base["group"]))
    benchmark = pd.DataFrame({"group": groups, "percent_female": center, "n": np.nan, "name": "b"})
    return custom.conditions(base.drop_duplicates("image_id"), other, benchmark)


def test_conditions_of_one_group_by_hand():
    rows = table(people("MMMMMMMF-F", "FFFFFMMFM-")).set_index("group")
    row = rows.loc["nurse"]
    # 8 pairs: 5 change to female, none to male.
    assert (row["n_images"], row["percent_before"], row["percent_female"]) == (8, 12.5, 75)
    assert row["difference"] == 62.5
    # Bonett and Price: shares 6/10 and 1/10 of changes to each side.
    half = 1.959964 * np.sqrt((0.7 - 0.5**2) / 10)
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([100 * (0.5 - half), 100 * (0.5 + half)], abs=1e-4)
    # Of five changes all to one side: 2 / 2^5.
    assert row["p"] == 2 / 32 and row["reason"] == ""
    # 6 of 8 is beyond an even split, its interval is not.
    assert row["overcorrected"] == "unclear" and rows.loc["all", "n_overcorrected"] == 0


def test_conditions_beyond_benchmark_are_overcorrected():
    rows = table(people("M" * 20, "F" * 20), people("F" * 20, "F" * 10 + "M" * 10, "cook")).set_index("group")
    assert rows.loc["nurse", "overcorrected"] == "yes" and rows.loc["cook", "overcorrected"] == "no"
    assert rows.loc["all", "n_overcorrected"] == 1
    # (100 − 50) / 2, each group alike.
    assert rows.loc["all", "difference"] == 25


def test_conditions_group_without_pairs_is_not_in_mean():
    rows = table(people("MM", "FM"), people("--", "FF", "cook")).set_index("group")
    assert rows.loc["cook", "n_images"] == 0 and rows.loc["cook", "reason"] != ""
    assert rows.loc["all", "n_groups"] == 1 and rows.loc["all", "difference"] == 50


def test_conditions_adjust_p_over_conditions():
    both = [people("M" * 10, "F" * 10), people("M" * 10, "F" * 9 + "M", condition="style")]
    rows = table(*both)
    mean = rows[rows["group"] == "all"].set_index("condition")
    assert mean["p"].to_dict() == {"fair": 2 / 2**10, "style": 2 / 2**9}
    assert mean["p_holm"].to_dict() == {"fair": 4 / 2**10, "style": 4 / 2**10}
    assert custom.answers.conditions.findings(rows)[0].answer.startswith("Yes, it is 100 points higher")


def test_conditions_without_other_condition_is_empty():
    base, other = people("M", "F")
    assert custom.conditions(base, other.head(0), pd.DataFrame({"group": [], "percent_female": []})).empty


# -- images --------------------------------------------------------------------------------------------------


def test_condition_images_share_noise_of_base_prompt(folders, one_thread, tmp_path):
    text = "prompt,group,condition,n\na nurse,nurse,neutral,2\na photo of a nurse,nurse,fair,2\na nurse,nurse,same,3\n"
    (tmp_path / "p.csv").write_text(text)
    settings = {
        "custom": {"prompts_file": str(tmp_path / "p.csv")}, "captions": {"approaches": []},
        "generation": {"steps": 1, "height": 32, "width": 32, "dtype": "float32", "image_domain": "photographs"},
        "compute": {"cache": str(tmp_path / "store"), "device": "cpu"},
    }  # fmt: skip
    part = Pipeline(folders("sd1"), Settings.from_mapping(settings), progress=False).part(Custom)
    base, fair, same = part.images(), part.condition_images("fair"), part.condition_images("same")
    assert base.table["text"].tolist() == ["a nurse"] * 2
    assert fair.table["image_id"].tolist() == base.table["image_id"].tolist()
    assert fair.table["seed"].tolist() == base.table["seed"].tolist() == same.table["seed"].tolist()[:2]
    assert fair.table["other"].unique().tolist() == ["neutral"] and len(same.table) == 3
    first, changed, repeated = (source.read(base.table["image_id"].tolist()[:1])[0] for source in (base, fair, same))
    np.testing.assert_array_equal(repeated, first)
    assert not np.array_equal(changed, first)


def test_condition_people_requires_two_conditions(tmp_path):
    (tmp_path / "p.csv").write_text("prompt,group\na nurse,nurse\n")
    settings = {"custom": {"prompts_file": str(tmp_path / "p.csv")}, "captions": {"approaches": []}}
    with pytest.raises(MissingInputError, match="the same condition"):
        custom.condition_people(Pipeline("any/model", Settings.from_mapping(settings), progress=False))


def test_condition_people_refuses_annotations_as_judge(tmp_path):
    (tmp_path / "p.csv").write_text("prompt,group,condition\na nurse,nurse,neutral\nfair,nurse,fair\n")
    (tmp_path / "r.csv").write_text("image_id,gender\ncustom-00000/0,female\n")
    settings = {"custom": {"prompts_file": str(tmp_path / "p.csv")}, "captions": {"approaches": []}}
    settings["judging"] = {"gender": f"annotations:{tmp_path / 'r.csv'}"}
    with pytest.raises(MissingInputError, match="the same ids"):
        custom.condition_people(Pipeline("any/model", Settings.from_mapping(settings), progress=False))
