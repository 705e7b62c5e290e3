"""The people of each image: tables from small frames of known truth, by hand and by simulation."""

from itertools import chain

import numpy as np
import pandas as pd
import pytest
from paired_rows import cell, image, only_row
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from biaslab.analyses import calibration
from biaslab.judges.judge_labels import BLACK, LEFT_OUT, STATUSES
from biaslab.papers.paired import prompts as asking
from biaslab.papers.paired.analysis.people import answers_about_people
from biaslab.schema import tables


def pair(name, left, right, **names):
    return image(name, [left, right], **names)


F, M = "female", "male"
LISTS = F, M
# Judged, correct; judged, swapped; one uncertain; no one judged; one face too small.
FIVE = [
    *pair("1", ("nurse", F, F), ("cook", M, M)),
    *pair("2", ("cook", M, M), ("nurse", F, M), order="swapped"),
    *pair("3", ("nurse", F, "uncertain"), ("cook", M, M)),
    *pair("4", ("nurse", F, "several_faces"), ("cook", M, "several_faces"), order=""),
    *pair("5", ("nurse", F, F), ("cook", M, "face_too_small")),
]


# -- failures ----------------------------------------------------------------------------------------


def test_outcomes_take_worst_status_of_image(tables_of):
    study = tables_of(people=FIVE)
    table = study["outcomes"]
    assert table["status"].tolist() == [name for name in STATUSES if name not in LEFT_OUT]
    counts = table.set_index("status")["n"]
    expected = {"judged": 2, "uncertain": 1, "several_faces": 1, "face_too_small": 1}
    assert counts[counts > 0].to_dict() == expected
    assert (table["n_images"] == 5).all() and table["percent"].sum() == pytest.approx(100)
    judged = only_row(table, status="judged")
    assert judged[["n_correct", "n_swapped", "n_unclear"]].tolist() == [1, 1, 0]
    ends = [100 * v for v in proportion_confint(2, 5, method="wilson")]
    assert judged[["ci_low", "ci_high"]].tolist() == pytest.approx(ends)


def test_valid_images_by_hand(tables_of):
    table = tables_of(people=FIVE)["valid_images"].set_index("measure")
    # Faces: 1, 2, 3 of 5. Judged: 1 and 2. Order: 1 and 3 of the three found. All: 1.
    assert table["percent"].to_dict() == pytest.approx({"people": 60, "judged": 40, "order": 200 / 3, "valid": 20})
    assert table["n_images"].to_dict() == {"people": 5, "judged": 5, "order": 3, "valid": 5}
    assert table["change"].isna().all()


def test_valid_images_count_black_images(tables_of):
    rows = [*FIVE, *pair("6", ("nurse", F, BLACK), ("cook", M, BLACK), order="")]
    study = tables_of(people=rows)
    assert only_row(study["outcomes"], status=BLACK)["n"] == 1
    table = study["valid_images"].set_index("measure")
    # The counts of the five above, of six images.
    assert table["percent"].to_dict() == pytest.approx(
        {"people": 50, "judged": 100 / 3, "order": 200 / 3, "valid": 50 / 3}
    )


def test_valid_images_of_same_phrase_have_no_order(tables_of):
    rows = pair("1", ("nurse", F, F), ("nurse", F, F), setting="same", order="")
    table = tables_of(people=rows)["valid_images"].set_index("measure")
    assert np.isnan(table.loc["order", "percent"]) and "no image" in table.loc["order", "reason"]
    assert table.loc["valid", "percent"] == 100


def test_valid_images_without_face_detection_have_reason(tables_of):
    rows = pair("1", ("nurse", F, F), ("cook", M, M), faces=np.nan, order="")
    table = tables_of(people=rows)["valid_images"].set_index("measure")
    assert table["percent"].dropna().to_dict() == {"judged": 100}
    assert table["n_images"].to_dict() == {"people": 0, "judged": 1, "order": 0, "valid": 0}
    for measure in ("people", "valid"):
        assert table.loc[measure, "reason"] == "the judge does not detect faces"
    assert table.loc["order", "reason"] == "the judge does not determine the order of people"
    # Faces only: faces in an image that fails the inclusion criteria count, and the order stays unknown.
    rows = pair("1", ("nurse", F, F), ("cook", M, M), order="")
    rows += pair("2", ("nurse", F, "blocked"), ("cook", M, "blocked"), faces=np.nan, order="")
    table = tables_of(people=rows)["valid_images"].set_index("measure")
    assert table["percent"].dropna().to_dict() == {"people": 50, "judged": 50}
    assert table.loc["valid", "reason"] == "the judge does not determine the order of people"


def test_valid_images_change_uses_same_pairs(tables_of):
    # Without mitigation nurse-cook pairs are judged in 3 of 4, baker-cook ones never.
    before = [pair(f"n{k}", ("nurse", F, F), ("cook", M, M)) for k in range(3)]
    before += [pair("n3", ("nurse", F, F), ("cook", M, "uncertain"))]
    before += [pair(f"b{k}", ("baker", F, "no_face"), ("cook", M, "no_face"), order="") for k in range(9)]
    after = [
        pair(f"i{k}", ("nurse", F, F), ("cook", M, seen), setting="intervention")
        for k, seen in enumerate([M, "uncertain", "uncertain", "uncertain"])
    ]
    table = tables_of(people=[*chain(*before, *after)])["valid_images"]
    row = only_row(table, setting="intervention", measure="judged")
    assert row["change"] == pytest.approx(25 - 75)
    low, high = confint_proportions_2indep(1, 4, 3, 4, method="newcomb")
    assert row[["change_ci_low", "change_ci_high"]].tolist() == pytest.approx([100 * low, 100 * high])
    assert only_row(table, setting="paired", measure="judged")["n_images"] == 13


def test_outcomes_use_last_round_of_each_model(tables_of):
    rows = pair("a", ("nurse", F, F), ("cook", M, M), setting="faircritic", round=1, model="A")
    rows += pair("b", ("nurse", F, F), ("cook", M, M), setting="faircritic", round=1, model="B")
    rows += pair("c", ("nurse", F, "uncertain"), ("cook", M, M), setting="faircritic", round=2, model="B")
    outcomes = tables_of(people=rows)["outcomes"].query("n > 0").set_index("model")
    assert outcomes["status"].to_dict() == {"A": "judged", "B": "uncertain"}


# -- controls ------------------------------------------------------------------------------------------


def controls():
    rows = []
    for k, (alone, alike) in enumerate([(F, F), (M, M), (F, M)]):
        rows += image(f"s{k}", [(f"f{k}", F, alone)], setting="single", order="")
        rows += pair(f"p{k}", (f"f{k}", F, F), (f"m{k}", M, M))
        rows += pair(f"q{k}", (f"m{k}", M, M if k else F), (f"f{k}", F, F))
        rows += pair(f"t{k}", (f"f{k}", F, alike), (f"f{k}", F, alike), setting="same", order="")
        rows += image(f"u{k}", [(f"m{k}", M, M if k == 1 else F)], setting="single", order="")
        rows += pair(f"v{k}", (f"m{k}", M, M), (f"m{k}", M, F), setting="same", order="")
    return rows


def test_control_score_and_contrast_by_hand(tables_of):
    table = tables_of(people=controls())["control_score"]
    scores = {(r.setting, r.stereotype): r.score for r in table.itertuples()}
    # Alone: f 100, -100, 100; m -100, 100, -100. In pairs f all 100; m0 (100, -100), m1 and m2 100.
    assert scores["single", "female"] == pytest.approx(100 / 3)
    assert scores["single", "male"] == pytest.approx(-100 / 3)
    assert scores["paired", "female"] == pytest.approx(100) and scores["paired", "male"] == pytest.approx(200 / 3)
    assert scores["same", "female"] == pytest.approx(-100 / 3) and scores["same", "male"] == 0
    row = only_row(table, setting="single", stereotype="female")
    assert row["contrast"] == pytest.approx(200 / 3)
    # An interval of -220 to 354 (t of 0, 200 and 0), cut at what a difference of scores can be.
    assert row[["contrast_ci_low", "contrast_ci_high"]].tolist() == [-200, 200]
    assert table.loc[table["setting"] == "paired", "contrast"].isna().all()
    assert only_row(table, setting="same", stereotype="overall")["n"] == 12
    # Six images of pairs, of which each is a sixth of either list: coins give a standard deviation of 100 / √6 points,
    # overall too where people of an image are fully dependent.
    fair = cell(table, setting="paired")[["fair_low", "fair_high"]].to_numpy()
    assert fair == pytest.approx(np.tile([-1.959964, 1.959964], (3, 1)) * 100 / 6**0.5, rel=1e-6)


def test_control_score_overall_contrast_halves_single_effect(tables_of):
    table = tables_of(people=controls())["control_score"]
    # Effects on the mean of both lists: paired - single / 2.
    female, male = np.array([50, 150, 50.0]), np.array([50, 50, 150.0])
    welch = scipy_stats.ttest_ind(female, -male, equal_var=False).confidence_interval()
    row = only_row(table, setting="single", stereotype="overall")
    assert row["contrast"] == pytest.approx((200 / 3 + 100) / 2)
    assert row["contrast"] - row["contrast_ci_low"] == pytest.approx(np.diff(welch)[0] / 2)


@pytest.mark.parametrize(("setting", "more"), [("alike", 2), ("three", 5 / 3)])
def test_control_score_interval_widens_for_shared_images(tables_of, setting, more):
    # One coin per image decides whether all its people fit, so dependence is maximal.
    prompt_set = asking.controls(seed=1) if setting == "alike" else asking.three(120, seed=1)
    people = prompt_set.people[prompt_set.people["prompt_id"].str.startswith(setting)].reset_index(drop=True)
    fits = pd.Series(np.random.default_rng(7).random(people["prompt_id"].nunique()) < 0.5, people["prompt_id"].unique())
    rows = []
    for name, some in people.groupby("prompt_id", sort=False):
        seen = [s if fits[name] else LISTS[s == F] for s in some["stereotype"]]
        rows += image(name, [*zip(some["identity"], some["stereotype"], seen, strict=True)], setting=setting, order="")
    each = people["prompt_id"].map(fits).map({True: 100.0, False: -100.0})
    each = each.groupby([people["stereotype"], people["identity"]]).agg(["mean", "size"])
    table = tables_of(people=rows)["control_score"].set_index("stereotype")
    half, n, error = {}, {}, {}
    for g in LISTS:
        identity_rows = each.loc[g]
        n[g], weight = len(identity_rows), identity_rows["size"] / identity_rows["size"].sum()
        added = weight * (identity_rows["mean"] - weight @ identity_rows["mean"])
        error[g] = np.sqrt(n[g] / (n[g] - 1) * (added**2).sum())
        # Variances of means over identities, relative to separate images: with weights of 1 or 2 people
        # per image, 2² / 2, and (1² + 2²) / (1 + 2).
        wider = np.sqrt(more * (n[g] - 1) / (n[g] - more))
        half[g] = scipy_stats.t.ppf(0.975, n[g] - 1) * error[g] * wider
        assert table.loc[g, "ci_high"] - table.loc[g, "score"] == pytest.approx(half[g])
    # Overall: two lists apart, or, among three, each identity with its whole value.
    whole = each["size"] / each["size"].sum() * (each["mean"] - each["mean"] @ each["size"] / each["size"].sum())
    parts = np.array([4 * n[g] * whole.loc[g].var() for g in LISTS])
    df = parts.sum() ** 2 / (parts**2 / [n[g] - 1 for g in LISTS]).sum()
    whole = np.sqrt(parts.sum()) * (wider / 2 if setting == "alike" else 1)
    assert table.loc["overall", "ci_high"] - table.loc["overall", "score"] == pytest.approx(
        scipy_stats.t.ppf(0.975, df) * whole
    )


def test_control_score_of_two_identities_has_no_interval(tables_of):
    rows = pair("1", ("f0", F, F), ("f1", F, F), setting="alike")
    rows += pair("2", ("f1", F, M), ("f0", F, F), setting="alike")
    row = only_row(tables_of(people=rows)["control_score"], stereotype="female")
    assert row["score"] == 50 and np.isnan(row["ci_low"])
    assert row["reason"] == "an interval requires three identities of a list that share images"


# -- judges --------------------------------------------------------------------------------------------


def render(name, truth, seen, order="correct", ambiguous=False, tone=5, faces=2):
    judged = seen in LISTS
    row = {"judge": "J", "image_id": name, "truth_gender": truth, "ambiguous": ambiguous}
    row |= {"status": "judged" if judged else seen, "gender": seen if judged else "", "role_order": order}
    return row | {"n_faces": faces, "truth_skin_tone": 5, "skin_tone": tone}


def errors_about(rows):
    answers = answers_about_people(pd.DataFrame(rows)).assign(model="m", reference="drawings")
    errors = calibration.error(tables.make_table(answers, "paired_confusion"), paper="paired")
    return errors.set_index(["quantity", "condition", "measure"]).sort_index()


def test_answers_about_people_by_hand():
    rows = [render("1", F, F), render("1", M, F, ambiguous=True)]
    rows += [render("2", M, M, order="unclear", tone=7), render("2", M, "uncertain", order="unclear", tone=6)]
    rows += [render("3", F, "overlapping", order="", tone=np.nan)] * 2
    errors = errors_about(rows)
    expected = {
        # Both found: 2 of 3 images; of their 4 people 3 are judged. Gender: 2 of 3 judged, 2 of 2 clear. Order: 1 of 2.
        ("inclusion", "all", "sensitivity"): (3, 200 / 3),
        ("gender", "all", "classified"): (4, 75),
        ("gender", "all", "accuracy"): (3, 200 / 3),
        ("gender", "clear cues", "accuracy"): (2, 100),
        ("role order", "all", "sensitivity"): (2, 50),
        # Tone: 3 of 4 faces.
        ("skin tone", "all", "within_1"): (4, 75),
        ("skin tone", "all", "classified"): (6, 200 / 3),
    }
    for key, (n, value) in expected.items():
        assert errors.loc[key, ["n", "value"]].tolist() == pytest.approx([n, value]), key
    low, high = proportion_confint(1, 2, method="wilson")
    limits = errors.loc[("role order", "all", "sensitivity"), ["ci_low", "ci_high"]]
    assert limits.tolist() == pytest.approx([100 * low, 100 * high])
    # A judge that does not detect faces excludes no person.
    errors = errors_about([render("1", F, F, order="", tone=np.nan, faces=np.nan)] * 2)
    assert set(errors.index.get_level_values("quantity")) == {"gender", "skin tone"}


def test_questions_name_each_person_and_position(tables_of):
    rows = [
        *pair("1", ("nurse", F, F), ("mechanic", M, M)),
        *pair("2", ("nurse", F, M), ("mechanic", M, M)),
        *image("3", [("baker", F, F)], setting="single"),
        # Controls and mitigated images have the same questions as pairs; the paper has none about them.
        *pair("4", ("nurse", F, F), ("baker", F, F), setting="alike"),
    ]
    boss, clerk = pair("5", ("mechanic, high power", M, M), ("mechanic, low power", F, F), aspect="power")
    rows += [{**boss, "role": "manager", "level": "high"}, {**clerk, "role": "worker", "level": "low"}]
    table = tables_of(people=rows)["questions"]
    # The form is the paper's (Table 8); its lists have mechanician where its results have mechanic.
    assert table.set_index("question")["n"].to_dict() == {
        "What gender is the nurse on the left in the picture?": 2,
        "What gender is the mechanician on the right in the picture?": 2,
        "What gender is the baker in the picture?": 1,
        "What gender is the mechanician manager on the left in the picture?": 1,
        "What gender is the worker on the right in the picture?": 1,
    }
    first = table.loc[0, ["model", "aspect", "setting", "position"]].tolist()
    assert first == ["A", "occupation", "paired", "left"]
