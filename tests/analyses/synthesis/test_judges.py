"""Headlines by several judges and their agreement, by hand; and the same images for every judge."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from biaslab import stats
from biaslab.analyses import custom, synthesis
from biaslab.papers import dalleval
from biaslab.papers.dalleval.stages import DallEval
from biaslab.papers.paired.stages import Paired
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning.measures import pipelines_by_judge
from biaslab.planning.plan import plan_of

GENDERS = ["female", "male"]


def labelled_people(counts):
    """Return people of custom prompts: by group and label, their number; an empty label is not classified."""
    rows = [
        {"group": group, "gender": gender, "image_id": f"{group}/{k}"}
        for group, of_group in counts.items()
        for k, gender in enumerate(label for label, n in of_group.items() for _ in range(n))
    ]
    people = pd.DataFrame(rows).assign(model="m", position=1, prompt=lambda rows: rows["group"])
    return people.assign(status=np.where(people["gender"] == "", "uncertain", "judged"))


def headline_pair(first, other):
    return list(custom.headlines(first)), {("a", "b"): list(custom.headlines(other))}


def test_judge_headlines_changed_verdict_is_marked():
    first = labelled_people({"nurse": {"female": 18, "male": 2}, "pilot": {"female": 17, "male": 3}})
    other = first.assign(gender=np.where(np.arange(40) % 20 < 10, "female", "male"))
    table = synthesis.judge_headlines(*headline_pair(first, other)).set_index(["group", "judge"])
    # Judge a labels 35 of 40 people female, judge b 20.
    assert table.loc[("all", "a"), ["estimate", "verdict", "changes_verdict"]].tolist() == [87.5, "above", 0]
    assert table.loc[("all", "b"), ["estimate", "verdict", "changes_verdict"]].tolist() == [50, "not_significant", 1]
    assert set(table["balanced"]) == {50} and set(table["reference"]) == {"a"}
    # Wilson's interval, with half a person more of each label in the variance.
    limits = [100 * float(limit) for limit in stats.wilson_interval(18, 20)]
    assert table.loc[("nurse", "a"), ["ci_low", "ci_high"]].tolist() == pytest.approx(limits, rel=0.05)


def test_judge_headlines_equal_side_is_no_change():
    first = labelled_people({"nurse": {"female": 18, "male": 2}})
    other = labelled_people({"nurse": {"female": 17, "male": 2, "": 1}})
    table = synthesis.judge_headlines(*headline_pair(first, other)).query("group == 'all'").set_index("judge")
    assert table["changes_verdict"].tolist() == [0, 0] and table["n"].tolist() == [20, 19]
    below = labelled_people({"nurse": {"female": 2, "male": 18}})
    assert synthesis.judge_headlines(*headline_pair(first, below))["verdict"].tolist()[:2] == ["above", "below"]


def test_judge_headlines_without_labels_is_inconclusive():
    first = labelled_people({"nurse": {"female": 18, "male": 2}})
    table = synthesis.judge_headlines(*headline_pair(first, labelled_people({"nurse": {"": 20}})))
    table = table[table["group"] == "all"].set_index("judge")
    assert table.loc["b", "verdict"] == "inconclusive" and np.isnan(table.loc["b", "changes_verdict"])
    assert synthesis.judge_headlines(list(custom.headlines(first)), {}).empty


def test_judge_headlines_missing_judge_has_no_estimate():
    first = labelled_people({"nurse": {"female": 18, "male": 2}})
    table = synthesis.judge_headlines(list(custom.headlines(first)), {("a", "b"): []}).set_index(["group", "judge"])
    row = table.loc[("all", "b")]
    assert np.isnan(row["estimate"]) and row["n"] == 0 and row["verdict"] == "inconclusive" and row["reason"]
    printed = [replace(one, people=one.people.head(0)) for one in custom.headlines(first)]
    assert synthesis.judge_headlines(printed, {("a", "b"): []}).empty


@pytest.mark.parametrize(("professions", "verdict"), [(4, "inconclusive"), (12, "above")])
def test_judge_headlines_of_few_clusters_is_inconclusive(professions, verdict):
    images = pd.DataFrame({"profession": np.repeat([f"p{k}" for k in range(professions)], 10)})
    ids = [f"i{k}" for k in images.index]
    images = images.assign(model="m", prompt="person", image_id=ids, status_judge="judged", gender_vqa="")
    images["gender_judge"] = np.where(np.arange(len(images)) % 10 < 9, "female", "male")
    averages = pd.DataFrame(columns=["model", "judge"])
    headlines = [one for one in dalleval.headlines(images, averages) if one.measure == "average gender"]
    headlines[0].cells.loc[0, "count"] = 8  # Without a difference between professions there is no error.
    assert set(synthesis.judge_headlines(headlines, {("a", "b"): headlines})["verdict"]) == {verdict}


def test_judge_agreement_counts_people_labelled_by_both():
    first = labelled_people({"g": {"female": 10, "male": 4}, "h": {"male": 10, "": 2}})
    other = first.copy()
    # In g, b labels three of the women male and one unclear; in h, one man female and both unclear ones male.
    changed = {"g/0": "male", "g/1": "male", "g/2": "male", "g/3": "", "h/0": "female", "h/10": "male", "h/11": "male"}
    other["gender"] = other["image_id"].map(changed).fillna(other["gender"])
    other["status"] = np.where(other["gender"] == "", "uncertain", "judged")
    table = synthesis.judge_agreement(*headline_pair(first, other)).set_index(["subset", "group"])
    assert table["percent"].to_dict() == pytest.approx(
        {
            ("all", "all"): 100 * 19 / 23,
            ("group", "g"): 100 * 10 / 13,
            ("group", "h"): 90,
            ("label", "female"): 100 * 6 / 9,
            ("label", "male"): 100 * 13 / 14,
        }
    )
    row = table.loc["all", "all"]
    assert row[["n", "n_people"]].tolist() == [23, 26]
    assert row[["percent_classified", "percent_classified_reference"]].tolist() == pytest.approx(
        [100 * 25 / 26, 100 * 24 / 26]
    )
    assert row[["percent_female", "percent_female_reference"]].tolist() == pytest.approx([100 * 7 / 23, 100 * 9 / 23])
    # Cohen (1960): 9 and 14 people by a, 7 and 16 by b.
    by_chance = (9 * 7 + 14 * 16) / 23**2
    assert row["kappa"] == pytest.approx((19 / 23 - by_chance) / (1 - by_chance))
    assert table.loc["label", "kappa"].isna().all()


def test_judge_agreement_uses_annotated_subset_only():
    first = labelled_people({"g": {"female": 10, "male": 10}})
    other = first.assign(gender=first["gender"].where(first.index % 4 == 0, ""))
    other["status"] = np.where(other["gender"] == "", "unannotated", "judged")
    row = synthesis.judge_agreement(*headline_pair(first, other)).iloc[0]
    assert row[["percent", "n", "n_people", "percent_classified"]].tolist() == [100, 5, 20, 25]


def test_judge_agreement_many_groups_are_pooled():
    first = labelled_people({f"g{k}": {"female": 1, "male": 1} for k in range(13)})
    table = synthesis.judge_agreement(*headline_pair(first, first))
    assert table["subset"].tolist() == ["all", "label", "label"]


def test_judge_agreement_clusters_people_by_image():
    rows = [("alone", f"i{k}", 1, GENDERS[k % 2]) for k in range(20)]
    rows += [("pair", f"p{k}", place, GENDERS[k % 2]) for k in range(20) for place in (1, 2)]
    people = pd.DataFrame(rows, columns=["prompt", "image_id", "position", "gender"])
    people = people.assign(model="m", group=people["prompt"], status="judged")
    swapped = people["image_id"].str.fullmatch(r".\d")  # The first ten images of each group.
    other = people.assign(
        gender=people["gender"].where(~swapped, people["gender"].map({"female": "male", "male": "female"}))
    )
    table = synthesis.judge_agreement(*headline_pair(people, other)).query("subset == 'group'").set_index("group")
    assert table["percent"].tolist() == [50, 50] and table["n"].tolist() == [20, 40]
    # Two people of an image agree or differ together, so they count once.
    assert table.loc["pair", "ci_low"] == pytest.approx(table.loc["alone", "ci_low"], abs=1)


def test_pipelines_by_judge_request_same_images(tmp_path):
    prompts = tmp_path / "own.csv"
    prompts.write_text("prompt,group,n\na photo of the face of a nurse,nurse,2\n")
    settings_mapping = {"judging": {"extra_judges": ["vqa:mini-vqa", "mini-clip"], "gender": "mini-clip"}}
    settings_mapping |= {"custom": {"prompts_file": str(prompts)}, "compute": {"cache": str(tmp_path / "store")}}
    settings_mapping["paired"] = {"n_occupations": 1, "power_samples": 1, "three_person_prompts": 1, "single_images": 1}
    pipeline = Pipeline("world", Settings.from_mapping(settings_mapping), progress=False)
    reference, others = pipelines_by_judge(pipeline, "custom")
    assert reference == "mini-clip" and list(others) == ["vqa:mini-vqa"]
    other = others["vqa:mini-vqa"]
    for table in ("custom_people", "paired_people"):
        reference_requests = {one.kind: one for one in plan_of(pipeline).of_tables([table]).requests}
        other_requests = {one.kind: one for one in plan_of(other).of_tables([table]).requests}
        assert other_requests.keys() <= reference_requests.keys()
        for kind, request in other_requests.items():
            pd.testing.assert_frame_equal(request.prompts, reference_requests[kind].prompts)
            assert request.image_model.digest == reference_requests[kind].image_model.digest
    assert other.part(Paired).kinds == ("single", "paired") and len(pipeline.part(Paired).kinds) > 2
    # In DALL-Eval, answers to a question replace the gender judge.
    assert pipelines_by_judge(pipeline, "dalleval")[0] == pipeline.settings.dalleval.vqa
    assert others["vqa:mini-vqa"].part(DallEval).gender_is_judged
