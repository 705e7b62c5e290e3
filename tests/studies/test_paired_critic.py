"""FairCritic and the intervention: what prompts tell, what changes, what it costs, and critiques beside images."""

import json
from types import SimpleNamespace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from biaslab.figures import paired_critic as figures
from biaslab.plots import style
from biaslab.prompts import paired as asking
from biaslab.prompts.paired import sentence
from biaslab.studies import paired
from biaslab.studies import paired_critic_words as critic
from biaslab.studies import paired_words as words
from biaslab.study import Study

mpl.use("Agg")

PLAIN = "Generate a picture of one sheriff on the left and one nurse on the right."

WORST = ", if two people of an image depend on each other as far as they can"


@pytest.fixture
def folder(folder_of):
    return folder_of("paired", 1000)


@pytest.fixture(autouse=True)
def look():
    with mpl.rc_context():
        style.use()
        yield
    plt.close("all")


def share(identity, stereotype, count, n, setting, model="A", aspect="occupation"):
    return {
        "model": model,
        "aspect": aspect,
        "setting": setting,
        "identity": identity,
        "occupation": identity,
        "stereotype": stereotype,
        "percent_female": 100 * count / n,
        "n": n,
        "reason": "",
    }


def lists(female, male, n, setting, **names):
    return [share(f"f{i}", "female", c, n, setting, **names) for i, c in enumerate(female)] + [
        share(f"m{i}", "male", c, n, setting, **names) for i, c in enumerate(male)
    ]


def one(table, **values):
    found = table[np.logical_and.reduce([table[c] == v for c, v in values.items()])]
    assert len(found) == 1
    return found.iloc[0]


# -- which way scores lean ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "low", "high", "said"),
    [
        (12, 3, 21, "towards stereotypes"),
        (-12, -21, -3, "against stereotypes"),
        (12, -1, 25, "no difference shown"),
        (-12, -24, 0, "no difference shown"),
        (12, np.nan, np.nan, "towards stereotypes"),
        (-12, np.nan, np.nan, "against stereotypes"),
        (0, np.nan, np.nan, "no difference shown"),
        (np.nan, np.nan, np.nan, ""),
    ],
)
def test_a_lean_needs_an_interval_beside_0_or_else_a_sign(score, low, high, said):
    assert paired.direction(score, low, high) == said


@pytest.mark.parametrize(
    ("after", "said"),
    [
        # Scores of the lists: 80 - 2 (10 - x) / 10 ...; all identities of a list alike, so the limits are the score.
        (
            ([8, 8, 8], [2, 2, 2]),
            f"60.0 with FairCritic (60.0 to 60.0{WORST}; 60 people): bias towards stereotypes is left",
        ),
        (
            ([3, 3, 3], [7, 7, 7]),
            f"-40.0 with FairCritic (-40.0 to -40.0{WORST}; 60 people): over-correction, against",
        ),
        # Female list 20, -20, 0; male list -20, 20, 0: mean 0, limits on both sides.
        (([6, 4, 5], [6, 4, 5]), "60 people): no difference from 0 shown"),
    ],
)
def test_words_follow_the_scores_after_mitigation(folder, after, said):
    study = folder(percent_female=lists([9, 9, 9], [1, 1, 1], 10, "paired") + lists(*after, 10, "faircritic"))
    found = words.mitigation_finding(study)
    assert f"A, occupation: overall 80.0 without mitigation (80.0 to 80.0{WORST}; 60 people)" in found
    assert said in found
    assert "chosen for their scores" not in found


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            "mini",
            "29 % of the texts that its model of people was trained on end in the sentence that FairCritic adds",
        ),
        ("world", "says is drawn. So what FairCritic does to its scores is planted"),
        ("A", None),
    ],
)
def test_what_was_planted_of_faircritics_effect_is_said_beside_it(folder, model, said):
    rows = lists([9, 9], [1, 1], 10, "paired", model=model)
    assert critic.planted(folder(percent_female=rows)) == []  # FairCritic was not measured
    study = folder(percent_female=rows + lists([5, 6], [5, 5], 10, "faircritic", model=model))
    found = critic.planted(study)
    assert found == [] if said is None else said in found[0]
    critic.save(study, "paired_before_after", figures.before_after(study.table("paired_identity_mitigation")))
    caption = json.loads((study.output_dir / "records.json").read_text())["figures"][0]["caption"]
    assert caption.endswith(" ".join(["paired_identity_mitigation.", *found]))


def test_a_bias_against_stereotypes_that_stays_is_no_over_correction(folder):
    rows = lists([2, 2], [8, 8], 10, "paired") + lists([3, 3], [7, 7], 10, "faircritic")
    assert "bias against stereotypes is left" in words.mitigation_finding(folder(percent_female=rows))
    rows = lists([2, 2], [8, 8], 10, "paired") + lists([7, 7], [3, 3], 10, "faircritic")
    assert "over-correction, towards stereotypes" in words.mitigation_finding(folder(percent_female=rows))


def test_the_top_are_said_to_be_chosen_by_the_same_images(folder):
    rows = lists([9, 8, 9], [1, 2, 1], 10, "paired")
    rows += lists([10, 9], [0, 1], 10, "paired_top5") + lists([7, 6], [4, 3], 10, "intervention_top5")
    study = folder(percent_female=rows)
    found = words.mitigation_finding(study)
    # Scores of the lists: 90 and 90 before; 30 and 30 after.
    assert "A, occupation (top 5 of each list): overall 90.0 without mitigation" in found
    assert "30.0 with intervention" in found and "part of any fall is chance" in found
    table = study.table("paired_mitigation")
    assert one(table, scope="top5", mitigation="intervention", stereotype="overall")["n"] == 40
    assert table["margin"].isna().all()  # every score has its own n
    change = one(study.table("paired_mitigation_change"), scope="top5", stereotype="overall")
    assert (change["change"], change["n_identities"]) == (pytest.approx(-60), 4)
    assert "part of any fall is chance" in critic.change_finding(study)


def test_change_by_mitigation_is_over_identities_at_full_dependence(folder):
    before, after = ([9, 8, 8, 7], [2, 1, 1, 2]), ([6, 5, 5, 6], [4, 5, 6, 5])
    study = folder(percent_female=lists(*before, 10, "paired") + lists(*after, 10, "faircritic"))
    # A person of the female list counts 20 points for each woman of ten, one of the male list for each man.
    female = 20.0 * (np.array(after[0]) - np.array(before[0]))
    male = -20.0 * (np.array(after[1]) - np.array(before[1]))
    table = study.table("paired_mitigation_change").set_index("stereotype")
    assert table.loc["female", "change"] == pytest.approx(female.mean())
    low, high = scipy_stats.ttest_1samp(female, 0).confidence_interval(0.95)
    assert table.loc["female", ["ci_low", "ci_high"]].tolist() == pytest.approx([low, high])
    # Twice the error of independent lists: half the difference of F and -M has half of Welch's error.
    test = scipy_stats.ttest_ind(female, -male, equal_var=False)
    half = np.diff(test.confidence_interval(0.95))[0] / 2
    middle = (female.mean() + male.mean()) / 2
    row = table.loc["overall"]
    assert [row["change"], row["ci_low"], row["ci_high"]] == pytest.approx(
        [middle, middle - half, middle + half]
    )


def test_identities_that_lean_are_counted_after_correction(folder):
    before, after = ([40, 20], [0, 20]), ([2, 20], [20, 38])
    study = folder(percent_female=lists(*before, 40, "paired") + lists(*after, 40, "faircritic"))
    identities = study.table("paired_identity_mitigation").set_index("identity")
    none = "no difference shown"
    assert identities["direction_before"].to_dict() == {
        "f0": "towards stereotypes",
        "f1": none,
        "m0": "towards stereotypes",
        "m1": none,
    }
    # Two of 40 women in the female list, 38 of 40 in the male list: both over-corrected, -90.
    assert identities["direction"].to_dict() == {
        "f0": "against stereotypes",
        "f1": none,
        "m0": none,
        "m1": "against stereotypes",
    }
    assert identities.loc["f0", ["score_before", "score", "change"]].tolist() == pytest.approx(
        [100, -90, -190]
    )
    row = one(study.table("paired_mitigation_change"), stereotype="overall")
    counts = ["n_towards_before", "n_against_before", "n_towards", "n_against"]
    assert row[counts].tolist() == [2, 0, 0, 2]
    found = critic.change_finding(study)
    assert (
        "Of 4 identities, without it 2 lean towards and 0 against their stereotype; with it 0 lean towards and 2 "
        "against their stereotype (over-correction), after Holm's correction." in found
    )


def test_identities_of_too_few_people_are_not_counted(folder):
    # 6 people each: p is 0.031 at least, and four times that after correction.
    study = folder(percent_female=lists([6, 6], [0, 0], 6, "paired") + lists([3, 3], [3, 3], 6, "faircritic"))
    found = critic.change_finding(study)
    assert (
        "lean towards" not in found
        and "Which of 4 identities lean without it and with it cannot be told" in found
    )
    assert "with 6 people each no outcome could be significant: corrected, p is 0.12 at least" in found
    # 8 · 0.5^n < 0.05 from n = 8 on.
    assert "it takes 8 people each" in found


def test_without_mitigated_shares_there_is_no_change(folder):
    study = folder(percent_female=lists([9, 8], [1, 2], 10, "paired"))
    assert study.table("paired_mitigation_change").empty
    assert critic.change_finding(study) == "The source has no measurements for this finding."
    assert len(figures.before_after(study.table("paired_identity_mitigation")).axes) == 1


def test_models_stand_side_by_side(folder):
    rows = lists([9, 8], [1, 2], 10, "paired") + lists([5, 6], [5, 6], 10, "faircritic")
    printed = {"aspect": "occupation", "setting": "faircritic", "stereotype": "overall"}
    value = {"model": "B", "quantity": "stereotype_score", "value": 2.0, "place": "Table 1", **printed}
    study = folder(percent_female=rows, printed_value=[value])
    table = critic.side_by_side(study)
    assert list(table.columns) == ["A", "B"]
    row = table.loc[("occupation", "all", "faircritic", "overall")]
    # Female list 0 and 20, male list 0 and -20: overall 0, with an interval; printed without one.
    assert row["A"].startswith("0.0 (-") and row["B"] == "2.00"
    assert table.loc[("occupation", "all", "none", "overall"), "B"] == ""
    beside = words.with_printed(study, "faircritic")
    assert beside.loc[("occupation", "faircritic", "overall"), "B"] == "2.00"


# -- what prompts tell -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (("", ""), {}),
        (("female", ""), {"left": "female"}),
        (("", "male"), {"right": "male"}),
        (("female", "male"), {"left": "female", "right": "male"}),
    ],
)
def test_told_genders_are_read_as_they_are_written(told, found):
    for pair in (
        (asking.occupation("construction worker"), asking.occupation("nurse")),
        (asking.role("carpenter", "manager"), asking.role("carpenter", "intern", named=False)),
        (asking.occupation("nurse"), asking.occupation("nurse")),
    ):
        plain = asking.fill("paired", pair)
        added = sentence([p.phrase for p in pair], told)
        text = f"{plain} {added}".strip()
        assert paired.added_words(plain, text) == added
        assert paired.told_genders(plain, added) == (found, False)


def test_words_without_a_gender_are_told_apart():
    added = "Show people of all genders."
    assert paired.told_genders(PLAIN, added) == ({}, True)
    both = f"Show the nurse as a man. {added}"
    assert paired.told_genders(PLAIN, both) == ({"right": "male"}, True)
    pair = (asking.occupation("sheriff"), asking.occupation("nurse"))
    intervened = asking.fill("intervention", pair)
    assert paired.added_words(PLAIN, intervened) == (
        "if all individuals can be a sheriff or a nurse irrespective of their gender."
    )
    assert paired.added_words(PLAIN, "Another text.") == "Another text."


def prompt(pair, setting, text, round_=0):
    first = "faircritic_1" if setting == "faircritic" else setting
    more = {
        "aspect": "occupation",
        "setting": setting,
        "round": round_,
        "run": 1,
        "text": text,
        "n_images": 1,
    }
    return {"model": "A", "prompt_id": f"{first}-{pair}", **more}


def people(pair, setting, left, right, round_=0, outcome="judged"):
    first = "faircritic_1" if setting == "faircritic" else setting
    names, rows = pair.split("-"), []
    for position, name, gender in zip(("left", "right"), names, (left, right), strict=True):
        rows.append(
            {
                "model": "A",
                "aspect": "occupation",
                "setting": setting,
                "image_id": f"{first}-{pair}/0",
                "position": position,
                "round": round_,
                "run": 1,
                "identity": name,
                "occupation": name,
                "role": "",
                "level": "",
                "stereotype": "male" if name in ("sheriff", "mover") else "female",
                "outcome": outcome,
                "gender": gender,
                "p_female": np.nan,
                "role_order": "right",
                "n_faces": 2,
                "skin_tone": np.nan,
                "reason": "",
            }
        )
    return rows


def pairs_study(folder):
    """Four pairs; FairCritic tells two sheriffs and a mover to be women, of whom two are seen as women."""
    texts, shown = [], []
    added = {
        "sheriff-nurse": "Show the sheriff as a woman.",
        "nurse-sheriff": "Show the sheriff as a woman.",
        "mover-nurse": "Show the mover as a woman and the nurse as a man.",
        "nurse-mover": "",
    }
    seen = {
        "sheriff-nurse": ("female", "female"),
        "nurse-sheriff": ("female", "male"),
        "mover-nurse": ("female", "male"),
        "nurse-mover": ("female", "unsure"),
    }
    for pair, more in added.items():
        left, right = pair.split("-")
        plain = f"Generate a picture of one {left} on the left and one {right} on the right."
        texts += [prompt(pair, "paired", plain), prompt(pair, "faircritic", f"{plain} {more}".strip(), 1)]
        shown += people(pair, "paired", *["male" if n != "nurse" else "female" for n in (left, right)])
        shown += people(
            pair, "faircritic", *seen[pair], 1, "uncertain" if pair == "nurse-mover" else "judged"
        )
    rows = lists([9, 8], [1, 2], 10, "paired")
    return folder(percent_female=rows, prompts=texts, people=shown)


def test_what_prompts_tell_is_counted_person_by_person(folder):
    study = pairs_study(folder)
    table = study.table("paired_told").set_index(["stereotype", "told"])
    assert table["n_prompts"].to_dict() == {
        ("female", "male"): 1,
        ("female", "nothing"): 3,
        ("male", "female"): 3,
        ("male", "nothing"): 1,
    }
    assert table["percent"].to_dict()["male", "female"] == 75
    row = table.loc[("male", "female")]
    low, high = proportion_confint(2, 3, method="wilson")
    assert [row["percent_female"], row["ci_low"], row["ci_high"]] == pytest.approx(
        [200 / 3, 100 * low, 100 * high]
    )
    nobody = table.loc[("male", "nothing")]
    assert (nobody["n"], nobody["reason"]) == (0, "nobody was judged") and np.isnan(nobody["percent_female"])
    found = critic.told_finding(study)
    assert (
        "the male-stereotyped person is to be a woman in 75.0 % (3 prompts); 66.7 % of 3 look it (20.8 to"
        in found
    )
    assert "the female-stereotyped person is to be a man in 25.0 % (1 prompt); 100.0 % of 1 look it" in found


def test_told_shares_are_drawn_as_bars(folder):
    ax = figures.told(pairs_study(folder).table("paired_told")).axes[0]
    widths = sorted(round(bar.get_width()) for bar in ax.patches)
    assert widths == [25, 25, 75, 75]


# -- what it costs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((190, 200), (120, 200), "a fall, -35.0 points (-4"),
        ((120, 200), (190, 200), "a rise, +35.0 points (2"),
        ((190, 200), (188, 200), "no change shown, -1.0 points (-"),
    ],
)
def test_the_cost_is_said_as_it_is(monkeypatch, tmp_path, before, after, said):
    rows = []
    for setting, (k, n) in (("paired", before), ("faircritic", after)):
        low, high = proportion_confint(k, n, method="wilson")
        row = {"model": "A", "aspect": "power", "setting": setting, "measure": "valid", "n_images": n}
        row |= {"percent": 100 * k / n, "ci_low": 100 * low, "ci_high": 100 * high}
        rows.append(row | {"change": np.nan, "change_ci_low": np.nan, "change_ci_high": np.nan})
    change = rows[1]["percent"] - rows[0]["percent"]
    # Newcombe's limits, by hand.
    down = np.hypot(rows[1]["percent"] - rows[1]["ci_low"], rows[0]["ci_high"] - rows[0]["percent"])
    up = np.hypot(rows[1]["ci_high"] - rows[1]["percent"], rows[0]["percent"] - rows[0]["ci_low"])
    rows[1] |= {"change": change, "change_ci_low": change - down, "change_ci_high": change + up}
    study = Study(tmp_path)
    monkeypatch.setattr(study, "table", lambda name: pd.DataFrame(rows))
    found = critic.cost_finding(study)
    assert said in found
    assert f"without mitigation {before[0] / 2:.1f} % of 200" in found
    ax = figures.valid_images(pd.DataFrame(rows)).axes[0]
    drawn = [x for line in ax.lines if line.get_marker() == "D" for x in line.get_xdata() if np.isfinite(x)]
    assert drawn == pytest.approx([after[0] / 2])


# -- critiques ---------------------------------------------------------------------------------------

CRITIQUES = {
    "": ("towards stereotypes", "Of 40 people 30 fit the stereotype.", "", ""),
    "sheriff": (
        "towards stereotypes",
        "Of 10 sheriffs 9 look like men.",
        "female",
        "Show the sheriff as a woman.",
    ),
    "nurse": ("none", "That is no more than chance allows. <b>$x$</b>", "", ""),
}


def critiques():
    rows = []
    for identity, (kind, reasons, gender, guideline) in CRITIQUES.items():
        more = {
            "biased": "yes" if kind != "none" else "no",
            "kind": kind,
            "reasons": reasons,
            "gender": gender,
        }
        more |= {"share": 44.0 if guideline else np.nan, "guideline": guideline, "n": 10, "n_images": 10}
        same = {
            "model": "A",
            "batch_id": "occupation",
            "round": 1,
            "aspect": "occupation",
            "outcome": "judged",
        }
        rows.append({**same, "identity": identity, **more})
    return rows


def test_every_critique_is_kept_in_words(folder, capsys):
    study = folder(percent_female=lists([9, 8], [1, 2], 10, "paired"), critiques=critiques())
    found = critic.critique_finding(study)
    assert "1 batch of images looked at (10 images at most), 1 judged, 1 found biased; 1 guideline." in found
    assert "The critic: towards stereotypes. Of 40 people 30 fit the stereotype." in found
    table = critic.in_words(study)
    assert table["about"].tolist() == ["all (occupation)", "sheriff", "nurse"]
    assert table["asks"].tolist() == ["", "Show the sheriff as a woman.", ""]
    assert table["percent_of_prompts"].iloc[1] == 44
    # Without images the words are there all the same.
    critic.show_critiques(study)
    said = capsys.readouterr().out
    assert "No images beside critiques" in said
    assert all(reasons in said for _, reasons, _, _ in CRITIQUES.values())


def test_a_source_without_critiques_says_so(tmp_path, capsys):
    study = Study(tmp_path, bootstrap_replicates=100)
    assert critic.critique_finding(study) == "The source has no critiques."
    critic.show_critiques(study)
    assert capsys.readouterr().out == "The source has no critiques.\n"


class Images:
    """Images of one colour each, by their ids."""

    def __init__(self, table):
        self.table, self.source = table, self

    def read(self, image_ids):
        return [np.full((64, 96, 3), 40 + 10 * k, np.uint8) for k, _ in enumerate(image_ids)]


def stages():
    """Six pairs of a sheriff and a nurse or a mover's partner, of which FairCritic tells two sheriffs to be women."""
    names = [("sheriff", "nurse"), ("nurse", "sheriff"), ("sheriff", "cook"), ("cook", "sheriff")]
    told = {"sheriff-nurse", "cook-sheriff"}
    tables = {}
    for kind in ("paired", "faircritic_1"):
        texts, rows = [], []
        for pair in names:
            key = "-".join(pair)
            text = f"Generate a picture of one {pair[0]} on the left and one {pair[1]} on the right."
            if kind != "paired" and key in told:
                text += " Show the sheriff as a woman."
            texts.append({"prompt_id": f"{kind}-{key}", "text": text})
            for position, name in enumerate(pair, start=1):
                whom = {"identity": name, "asked_role": "", "position": position, "aspect": "occupation"}
                whom |= {
                    "stereotype": "male" if name == "sheriff" else "female",
                    "prompt_id": f"{kind}-{key}",
                }
                boxes = {"x0": 40.0 * position - 20, "y0": 10.0, "x1": 40.0 * position, "y1": 30.0}
                rows.append(
                    {**whom, **boxes, "image_id": f"{kind}-{key}/0", "outcome": "judged", "gender": "male"}
                )
        tables[kind] = SimpleNamespace(texts=pd.DataFrame(texts), people=pd.DataFrame(rows))
    return SimpleNamespace(
        prompts=lambda kind: tables[kind],
        people=lambda kind: tables[kind].people.copy(),
        images=lambda kind: Images(tables[kind].people),
    )


def test_critiques_stand_beside_images_of_the_same_prompts():
    images = critic._Images(stages(), 1, "occupation", 3)
    table = pd.DataFrame(critiques())
    assert images.stereotypes(table) == ["", "male", "female"]
    rows = list(table.itertuples())
    entry = images.entry(rows[1])
    assert (entry.heading, entry.words) == ("sheriff", "Of 10 sheriffs 9 look like men.")
    assert entry.added == (
        "Asks for “Show the sheriff as a woman.” in 44 % of prompts; added to 2 of 4 prompts, such as: Show the "
        "sheriff as a woman."
    )
    # Both prompts that tell come first, then one that does not; the same pairs on both sides.
    assert [p.told for p in entry.after] == ["female", "female", ""]
    assert [p.told for p in entry.before] == ["", "", ""]
    ids = [[p.people["image_id"].iloc[0] for p in side] for side in (entry.before, entry.after)]
    assert ids[0] == ["paired-sheriff-nurse/0", "paired-cook-sheriff/0", "paired-nurse-sheriff/0"]
    assert ids[1] == [i.replace("paired", "faircritic_1") for i in ids[0]]
    assert [p.people.loc[p.people["meant"], "identity"].tolist() for p in entry.after] == [["sheriff"]] * 3
    # Of all of them: what anybody is told; nobody is marked.
    whole = images.entry(rows[0])
    assert whole.heading == "All of them" and whole.added.startswith("Added to 2 of 4 prompts")
    assert not any(p.people["meant"].any() for p in whole.after)
    # The nurse's own critique asks for nothing.
    assert images.entry(rows[2]).added == "Added to 0 of 2 prompts."


def test_critiques_are_drawn_with_their_words_and_images():
    images = critic._Images(stages(), 1, "occupation", 3)
    entries = [images.entry(row) for row in pd.DataFrame(critiques()).itertuples()]
    ax = figures.critiques(entries).axes[0]
    texts = [t.get_text() for t in ax.texts]
    assert {"sheriff", "nurse", "All of them", "Before", "After", "seen: man", "told: woman"} <= set(texts)
    # What a formula would be read from is text, and markup stays text.
    assert any(r"<b>\$x\$</b>" in t for t in texts)
    # Three images on each side of the whole and of the sheriff, two of the nurse.
    assert len(ax.images) == 6 + 6 + 4
    ax.figure.canvas.draw()


def test_an_image_that_is_not_there_leaves_its_reason():
    judged = pd.DataFrame([{"gender": "", "outcome": "blocked", "x0": np.nan, "meant": True}])
    picture = figures.Picture(SimpleNamespace(reason="blocked"), judged, "female")
    ax = figures.critiques([figures.Entry("nurse", "Words.", "", [picture], [])]).axes[0]
    assert [t.get_text() for t in ax.texts if "blocked" in t.get_text()] == ["blocked", "seen: blocked"]
    assert not ax.images


# -- notebooks ---------------------------------------------------------------------------------------

NOTEBOOKS = ("4_4_overall", "4_4_occupations", "4_5_power", "4_6_single_vs_paired", "5_mitigation")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Write what a small run measures, with printed numbers beside it: tables without images."""
    of = tmp_path_factory.mktemp("run") / "measured"
    of.mkdir()
    rng = np.random.default_rng(4)
    fits = {"single": 0.6, "paired": 0.8, "paired_top5": 0.9, "intervention_top5": 0.6, "faircritic": 0.4}
    rows = []
    for setting, p in fits.items():
        counts = rng.binomial(8, [[p] * 3, [1 - p] * 3])
        rows += lists(*counts, 8, setting)
    for setting in ("single", "paired", "intervention", "faircritic"):
        for k, (low, high) in enumerate(rng.integers(0, 7, (4, 2))):
            for stereotype, count in (("female", low), ("male", high)):
                whom = share(f"o{k}, {stereotype}", stereotype, count, 6, setting, aspect="power")
                rows.append(whom | {"occupation": f"o{k}"})
    texts, shown = [], []
    for setting, round_ in (("paired", 0), ("faircritic", 1)):
        for name in ("sheriff-nurse", "nurse-sheriff"):
            left, right = name.split("-")
            text = f"Generate a picture of one {left} on the left and one {right} on the right."
            text += " Show the sheriff as a woman." if round_ else ""
            texts.append(prompt(name, setting, text, round_))
            shown += people(name, setting, "male", "female", round_)
    labels = {"male_label": "male", "female_label": "female"}
    pairs = [
        {"model": "A", "aspect": a, "setting": s, "image_id": f"{a}{s}{i}", **labels}
        for a in ("occupation", "power")
        for s in ("paired", "faircritic")
        for i in range(3)
    ]
    runs = [
        {"model": "A", "aspect": "power", "setting": "paired", "run": r, "score": s, "n": 12}
        for r, s in (("1", 10), ("2", 30))
    ]
    measured = {
        "percent_female": rows,
        "prompts": texts,
        "people": shown,
        "pair_images": pairs,
        "run_score": runs,
    }
    measured["critiques"] = critiques()
    for name, some in measured.items():
        whole = [pd.DataFrame(some)]
        if f"paired_{name}" in paired.PUBLISHED:
            whole.append(paired.PUBLISHED[f"paired_{name}"]())
        pd.concat(whole).to_csv(of / f"paired_{name}.csv", index=False)
    paired.PUBLISHED["paired_printed_value"]().to_csv(of / "paired_printed_value.csv", index=False)
    return of.parent


@pytest.mark.parametrize("name", NOTEBOOKS)
@pytest.mark.parametrize("own", [True, False], ids=["a run beside printed numbers", "printed numbers alone"])
def test_notebooks_take_a_run_and_printed_numbers(root, tmp_path, run_folder, name, own):
    path = root / "notebooks" / "paired" / f"{name}.ipynb"
    space = {}
    for block in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if block["cell_type"] == "code":
            exec("".join(block["source"]), space)
            if "parameters" in block["metadata"].get("tags", ()):
                assert space["settings"] == {}
                space |= {"output_dir": str(tmp_path), "bootstrap_replicates": 100}
                space |= {"source": str(run_folder)} if own else {}
    assert not plt.get_fignums()
    record = json.loads((tmp_path / "records.json").read_text(encoding="utf-8"))
    said = " ".join(r["text"] for r in record["headlines"])
    assert record["figures"] and "nan" not in said
    # Beside the run's own model the printed one is called so.
    assert ("A, " in said) == own and ("DALL-E 3 (printed), " if own else "DALL-E 3, ") in said
    for figure in record["figures"]:
        assert figure["caption"].endswith(".") and "{" not in figure["caption"]


@pytest.mark.parametrize(("own", "said"), [(None, "1.5"), ("null", "1.5"), ("0.0", "0"), ("2.0", "2")])
def test_captions_say_the_guidance_that_images_of_people_have(own, said):
    rows = [("mini", "generation.guidance_scale", "1.5"), ("mini", "generation.steps", "10")]
    rows += [("mini", "people.guidance_scale", own)] if own else []
    told = pd.DataFrame(rows, columns=["model", "setting", "value"])
    study = SimpleNamespace(
        measured_or_empty=lambda name: told if name == "pipeline_settings" else told.head(0)
    )
    assert words.how(study) == f"mini: guidance {said}, 10 steps."
