import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from ideal_pipeline import OCCUPATIONS, IdealPipeline
from scipy import stats as scipy_stats

from biaslab.errors import MissingInputError
from biaslab.judges.faces import HubFaces, WholeImage
from biaslab.judges.judge import Answer
from biaslab.judges.zero_shot import ClipJudge
from biaslab.pipeline import Pipeline, Settings
from biaslab.schema import tables
from biaslab_world import calibration, world
from biaslab_world.calibration import analysis, parameters
from biaslab_world.calibration.analysis import COUNTED

SHARES = {o: world.training_shares()[o] for o in OCCUPATIONS}


OWN = {"guidance": 3.0, "seed": 1, "replicates": 400}
# A run of few captions and images, for tests of a single estimate.
SMALL = {
    "captions": {"approaches": ("naive",), "per_occupation": 10, "max_captions": 4_000},
    "generation": {"images_per_prompt": 4},
    "calibration": {
        "world_images": 4,
        "guidance_scales": (),
        "unbiased_captions": 2_000,
        "unbiased_per_occupation": 10,
    },
}


@pytest.fixture(scope="module")
def c(tmp_path_factory):
    return calibration.Calibration(IdealPipeline("mini", tmp_path_factory.mktemp("store"), sharpen=0.25))


@pytest.fixture(scope="module")
def shares(c):
    return calibration.shares(c.training, c.generated, c.truth, c.renders)


@pytest.fixture(scope="module")
def amplification(c):
    return calibration.amplification(c.training, c.generated, c.truth, **OWN)


def _like_prompts(t):
    """P(female) among prompt-like captions, all and without indicators, of an occupation with share t (0–1)."""
    lean = math.log(t / (1 - t))
    women = 1 / (1 + math.exp(-1.45 * lean))
    level = math.log(0.35 / 0.65)
    silent_f, silent_m = (1 - 1 / (1 + math.exp(-(level + s * 0.3 * lean))) for s in (-1, 1))
    return women, women * silent_f / (women * silent_f + (1 - women) * silent_m)


# -- counts and formulas -----------------------------------------------------------------------------------


def test_count_includes_women_and_men_only():
    rows = pd.DataFrame(
        {
            "occupation": ["nurse"] * 5 + ["chef"] * 2,
            "prompt": ["1", "1", "1", "2", "2", "1", "1"],
            "gender": ["female", "male", "unsure", "female", "", "male", "male"],
        }
    )
    female, n = analysis.count(rows, ["nurse", "chef", "pilot"])
    np.testing.assert_array_equal(female, [[1, 1], [0, 0], [0, 0]])
    np.testing.assert_array_equal(n, [[2, 1], [2, 0], [0, 0]])


def test_expected_matches_hand_values():
    # 80 -> 90 adds 10; 40 -> 60 flips: excluded, or 10 - 10 = 0 in distance, or -20 in signed change.
    training, generated = np.array([[80.0], [40.0]]), np.array([[90.0], [60.0]])
    values = [float(analysis.expected(training, generated, d)) for d in analysis.DEFINITIONS]
    assert values == [10, 5, -5]
    # One selection for two prompts: (10 + 5) / 2 with 80 -> 90 and 80 -> 85.
    assert analysis.expected(training[:1], np.array([[90.0, 85.0]]), "paper") == pytest.approx(7.5)
    # A selection for each prompt and one share for all: (10 + 20) / 2.
    assert analysis.expected(np.array([[80.0, 70.0]]), generated[:1], "paper") == pytest.approx(15)


# -- the judge -----------------------------------------------------------------------------------------------


BY_HAND = pd.DataFrame(
    [
        ("female", False, "judged", "female", 0.995, 0.999),
        ("female", False, "uncertain", "unsure", 0.6, 0.995),
        ("female", False, "no_face", "", np.nan, 0.999),
        ("female", True, "uncertain", "unsure", 0.4, 0.7),
        ("male", False, "judged", "male", 0.02, 0.001),
        ("male", False, "judged", "female", 0.95, 0.005),
        ("male", True, "judged", "female", 0.91, 0.6),
    ],
    columns=["truth_gender", "ambiguous", "status", "gender", "probability_female", "posterior"],
)


def test_judge_accuracy_and_ceiling_match_hand_values():
    table = calibration.judge(BY_HAND).set_index(["cues", "truth", "answers"])
    # Of four judged renders two are right; an ideal judge: (0.999 + 0.999 + 0.995 + 0.6) / 4.
    row = table.loc[("all", "all", "judged")]
    assert row[["accuracy", "n", "n_images"]].tolist() == [50, 4, 7]
    assert row["ceiling"] == pytest.approx(100 * (0.999 + 0.999 + 0.995 + 0.6) / 4)
    # Of the six with a probability, 0.995, 0.6 and 0.02 are on the right side.
    assert table.loc[("all", "all", "likelier"), ["accuracy", "n"]].tolist() == [50, 6]
    assert table.loc[("ambiguous", "all", "likelier"), ["accuracy", "n"]].tolist() == [0, 2]
    assert table.loc[("unambiguous", "female", "likelier"), ["accuracy", "n"]].tolist() == [100, 2]
    assert math.isnan(table.loc[("all", "female", "judged"), "ceiling"])


# -- shares ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_shares_true_values_equal_world(shares):
    table = shares.set_index(["source", "skew", "approach", "occupation"])["percent_true"]
    for occupation, percent in SHARES.items():
        silent = 100 * _like_prompts(percent / 100)[1]
        assert table["training", "default", "naive", occupation] == pytest.approx(percent)
        assert table["training", "default", "matched", occupation] == pytest.approx(silent)
        assert table["generated", "default", "matched", occupation] == pytest.approx(silent)
        assert table["training", "off", "naive", occupation] == pytest.approx(percent)
        assert table["generated", "off", "matched", occupation] == pytest.approx(percent)


def test_shares_of_nearest_captions_average_selection(shares, c):
    percent_true = shares.set_index(["approach", "occupation"])["percent_true"].sort_index()
    selections = c.base.selections()
    for occupation in ("nurse", "ceo"):
        rows = selections[(selections["approach"] == "nearest") & (selections["occupation"] == occupation)]
        kinds = c.base.captions().set_index("caption_id").loc[rows["caption_id"]]
        shares = [
            world.probability_female(occupation, style=style, indicator=indicator)
            for style, indicator in zip(kinds["truth_style"], kinds["truth_indicator"], strict=True)
        ]
        assert percent_true["nearest", occupation] == pytest.approx(100 * np.mean(shares))


@pytest.mark.long
def test_shares_are_corrected_for_judge_error(tmp_path):
    # A judge that is wrong in a tenth of all images pulls shares of 5 to 10% (90 to 95%) 8 to 9 points to the middle.
    settings = SMALL | {"calibration": SMALL["calibration"] | {"world_images": 60}}
    erring = calibration.Calibration(IdealPipeline("mini", tmp_path, wrong=0.1, **settings))
    rows = calibration.shares(erring.training, erring.generated, erring.truth, erring.renders)
    coverage = calibration.coverage(rows).set_index(["counted", "source", "skew"])["n_covered"].sort_index()
    rows = rows[(rows["source"] == "generated") & (rows["skew"] == "default")].set_index("occupation")
    n_covered = {kind: coverage.loc[(kind, "generated", "default")] for kind in ("sampled", "judged", "corrected")}
    # Of ten: one below 8 has a chance of 1.2% where intervals are right (binomial, 0.95).
    assert n_covered["judged"] <= 6 and n_covered["sampled"] >= 8 and n_covered["corrected"] >= 8
    # By hand (Rogan and Gladen), from the held-out renders alone: none of them is counted here.
    renders = erring.renders
    renders = renders[renders["status"] == "judged"]
    right = renders["gender"] == renders["truth_gender"]
    sens, spec = (right[renders["truth_gender"] == g].mean() for g in ("female", "male"))
    by_hand = 100 * (rows["percent_female"] / 100 + spec - 1) / (sens + spec - 1)
    np.testing.assert_allclose(rows["percent_female_corrected"], by_hand.clip(0, 100))
    assert (rows["reference"] == "all").all()


def test_coverage_counts_match_hand_values():
    names = ["source", "skew", "approach", "percent_true"]
    names += [column for columns in COUNTED.values() for column in columns]
    right, wrong, none = (50.0, 40.0, 60.0), (90.0, 80.0, 95.0), (np.nan, np.nan, np.nan)
    rows = [("training", "default", "naive", 50.0, *right, *wrong, *none)] * 4
    rows += [("training", "default", "matched", 50.0, *right, *right, *none)] * 4
    table = calibration.coverage(pd.DataFrame(rows, columns=names), confidence=0.9)
    table = table.set_index(["counted", "approach"])
    assert table.loc[("sampled", "naive"), ["n_covered", "n", "n_expected", "p"]].tolist() == [4, 4, 3.6, 1]
    # All four miss with a chance of 0.1 ** 4; twice that after Holm's correction for two kinds of images.
    row = table.loc[("judged", "naive")]
    assert row["n_covered"] == 0 and row["p"] == pytest.approx(1e-4) and row["p_holm"] == pytest.approx(2e-4)
    assert (row["mean_error"], row["rms_error"]) == (40, 40)
    # 2 or fewer of 4 have a chance of 0.0523, 1 or fewer of 0.0037: at 90% a study in ten may have 2, none may have 1.
    assert row["n_covered_min"] == 3
    assert table.loc[("judged", "matched"), "p_holm"] == 1
    assert table.loc[("corrected", "naive"), "n"] == 0 and math.isnan(table.loc[("corrected", "naive"), "p"])
    assert table.loc[("judged", "naive"), ["n_covered_all", "n_all"]].tolist() == [4, 8]
    # The third has no intervals and no finding.
    sampled, uncorrected = calibration.answers.coverage.findings(table.reset_index(), confidence=0.9)
    assert sampled.supported_answer.startswith(
        "8 of 8 do; this is not significantly fewer"
    ) and uncorrected.supported_answer.startswith("4 of 8 do; this is significantly fewer")
    assert (uncorrected.p, uncorrected.alpha, uncorrected.n, sampled.p) == (pytest.approx(2e-4), 0.1, 8, 1)


def test_matched_captions_are_first_of_same_prompt(c):
    corpus = c.base.corpus
    rows = corpus.rows_at(range(len(corpus)))
    fits = (rows["truth_style"] == "prompt_like") & (rows["truth_indicator"] == "none")
    for occupation in ("nurse", "pilot"):
        caption_ids = rows[fits & (rows["truth_occupation"] == occupation)]["caption_id"].tolist()[:40]
        matched = c.training.query("approach == 'matched' and occupation == @occupation")
        assert matched["image_id"].tolist() == caption_ids
        genders = [corpus.scene(i).people[0].gender for i in caption_ids]
        assert matched["truth_gender"].tolist() == genders


# -- amplification -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_amplification_implied_matches_truth(amplification):
    rows = amplification.query("generator == 'world' and prompt == 'mean' and definition == 'paper'")
    implied = rows.set_index(["skew", "approach"])["implied"]
    # Prompt-like captions have the direction of their occupation, so the paper's definition excludes none.
    naive = [abs(100 * _like_prompts(t / 100)[1] - 50) - abs(t - 50) for t in SHARES.values()]
    assert implied["default", "naive"] == pytest.approx(np.mean(naive))
    assert implied["default", "matched"] == pytest.approx(0)
    assert implied["off", "naive"] == pytest.approx(0, abs=1e-9)


def test_amplification_of_world_matches_implied(amplification):
    table = amplification
    of_world = table[table["generator"] == "world"]
    # Each interval surrounds its excess; three half-widths allow for the many rows.
    half = (of_world["excess_ci_high"] - of_world["excess_ci_low"]) / 2
    assert (of_world["excess"].abs() < 1.5 * half).all()
    naive = of_world[(of_world["approach"] == "naive") & (of_world["skew"] == "default")]
    assert (naive["ci_low"] > 0).all()
    # The interval is that of the value less its null expectation.
    assert table["amplification_corrected"].to_numpy() == pytest.approx(table["amplification"] - table["null_mean"])
    assert table["amplification_corrected"].between(table["ci_low"], table["ci_high"]).all()
    # Five selections: two kinds of prompts for the world and the run's own guidance, one for the two others swept;
    # and the world without the paradox.
    assert len(table) == 3 * (5 * (2 + 2 + 1 + 1) + 2)
    swept = table[(table["generator"] == "mini") & (table["guidance_scale"] == 1)]
    assert (swept["n_generated"] <= 16).all() and (swept["n_generated"] > 13).all()


def test_guidance_parts_add_up_to_total(c):
    table = calibration.guidance(c.generated, c.truth)
    wide = table.pivot(index=["approach", "guidance_scale"], columns="part", values="change")
    np.testing.assert_allclose(wide[["measurement", "model", "guidance"]].sum(axis=1), wide["total"])
    t = np.array(list(SHARES.values()))
    prompts = np.array([100 * _like_prompts(v / 100)[1] for v in t])
    expected = (np.sign(t - 50) * (prompts - t)).mean()
    np.testing.assert_allclose(wide.loc["naive", "measurement"], expected)
    np.testing.assert_allclose(wide.loc["matched", "measurement"], 0, atol=1e-9)
    assert wide.loc[("naive", 1), "guidance"] == 0
    # Independently: the shares of images themselves, and a t interval over occupations by scipy.
    shares = {}
    for scale, pipeline in c.scales.items():
        rows = pipeline.judgements("generated")
        rows = rows[rows["status"] == "judged"]
        shares[scale] = 100 * (rows["gender"] == "female").groupby(rows["occupation"]).mean()[list(OCCUPATIONS)]
    change = np.sign(t - 50) * (shares[7.5] - shares[1.0])
    low, high = scipy_stats.t.interval(0.95, len(t) - 1, change.mean(), scipy_stats.sem(change))
    row = table.set_index(["approach", "guidance_scale", "part"]).loc[("naive", 7.5, "guidance")]
    assert row[["change", "ci_low", "ci_high"]].tolist() == pytest.approx([change.mean(), low, high])
    exact = table[(table["part"] == "measurement") | ((table["part"] == "guidance") & (table["guidance_scale"] == 1))]
    assert exact["ci_low"].isna().all() and exact["ci_high"].isna().all()


# -- what must hold ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "low", "high", "met"),
    [
        (5, 4, 6, "yes"),
        (5, -1, 6, "yes, not certain"),
        (-1, -2, 1, "no, not certain"),
        (-1, -2, -0.5, "no"),
        (5, math.nan, math.nan, "yes, not certain"),
    ],
)
def test_requirement_met_classifies_interval(value, low, high, met):
    assert analysis.requirement_met(value, low, high, 0, 10) == met


def test_ratio_interval_equals_statsmodels():
    proportion = pytest.importorskip("statsmodels.stats.proportion", reason="statsmodels is the independent route")
    ratio, low, high = analysis.ratio_interval(180, 200, 190, 200, 0.95)
    assert ratio == pytest.approx(180 / 190)
    peer = proportion.confint_proportions_2indep(180, 200, 190, 200, compare="ratio", method="log")
    assert (low, high) == pytest.approx(peer)
    assert analysis.ratio_interval(0, 10, 5, 10, 0.95)[0] == 0
    assert math.isnan(analysis.ratio_interval(3, 10, 0, 10, 0.95)[0])


class _Texts:
    def __init__(self, name, *, device):
        assert (name, device) == ("mini-clip", "cpu")

    def text_embeddings(self, texts):
        assert texts[OCCUPATIONS.index("ceo")] == "A photo of a ceo"
        return np.eye(len(texts), dtype=np.float32)


class _Seen(IdealPipeline):
    """Recognizes each image's occupation, but nurses as chefs for the model; one image is unreadable."""

    def with_changes(self, model="", **changes):
        changed = dict(self.settings.with_changes(**changes))
        return _Seen(model or self.model, self.folder, sharpen=self.sharpen, **changed)

    def image_embeddings(self, kind, image_ids):
        table = self.images(kind).table.set_index("image_id").loc[list(image_ids)]
        names = table["occupation"]
        if self.model == "mini":
            names = names.replace("nurse", "chef")
        vectors = list(np.eye(len(OCCUPATIONS), dtype=np.float32)[[OCCUPATIONS.index(o) for o in names]])
        if self.model == "mini":
            vectors[-1] = None
        return pd.DataFrame({"image_id": list(image_ids), "vector": vectors})


def _quality(c, words, measured):
    """Return the requirements of a run."""
    table = calibration.amplification(c.training, c.generated, c.truth, **OWN)
    return calibration.quality(
        calibration.judge(c.renders), c.training, c.base.judgements("generated"), c.named(), words, measured, table,
        model="mini", seed=1, replicates=200,
    ).set_index("metric")  # fmt: skip


@pytest.fixture
def quality(tmp_path, monkeypatch):
    pipeline = _Seen(
        "mini",
        tmp_path,
        sharpen=0.0,
        captions={"per_occupation": 20, "max_captions": 8_000},
        generation={"images_per_prompt": 6},
        calibration={
            "world_images": 8,
            "guidance_scales": (),
            "unbiased_captions": 2_000,
            "unbiased_per_occupation": 10,
        },
    )
    rows = [
        ("mini", "naive", "paper", "mean", 9.0, 6.0, 12.0, 10, ""),
        ("mini", "caption_prompts", "paper", "captions", 1.5, -0.5, 3.5, 10, ""),
        ("SD 1.4", "naive", "paper", "mean", 12.57, 9.0, 15.0, 62, ""),
    ]
    names = ["model", "approach", "definition", "prompt", "amplification_corrected", "ci_low", "ci_high"]
    names += ["n_occupations", "reason"]
    more_columns = ("t", "p", "amplification", "noise", "t_uncorrected", "p_uncorrected", "n_images")
    measured = pd.DataFrame(rows, columns=names).assign(n_excluded=0, **dict.fromkeys(more_columns, np.nan))
    words = pd.DataFrame(
        [("mini", "caption_prompts", 90, 95), ("mini", "caption_prompts", 97, 97), ("mini", "paraphrased", 0, 50)],
        columns=["model", "approach", "n_followed", "n_judged"],
    )
    monkeypatch.setattr("biaslab_world.calibration.measure.ZeroShot", _Texts)
    return _quality(calibration.Calibration(pipeline), words, measured)


@pytest.mark.long
def test_quality_reports_measured_requirements(quality):
    assert quality.loc["naive_amplification", ["value", "ci_low", "met"]].tolist() == [9, 6, "yes"]
    assert quality.loc["caption_prompts", ["value", "met"]].tolist() == [1.5, "yes, not certain"]
    # 187 of 192; its Wilson interval reaches below 97%.
    row = quality.loc["gender_word_accuracy"]
    assert row["value"] == pytest.approx(100 * 187 / 192) and row["n"] == 192 and row["met"] == "yes, not certain"
    # 10 occupations, 4 prompts, 6 images each: nurses are called chefs, and one image cannot be read.
    row = quality.loc["occupation_accuracy_generated"]
    assert row["value"] == pytest.approx(100 * (240 - 24 - 1) / 240) and row["n"] == 240
    assert quality.loc["occupation_accuracy_renders", "value"] == 100
    row = quality.loc["occupation_accuracy"]
    assert row["value"] == pytest.approx(100 * 215 / 240) and row["met"] == "no, not certain"
    assert quality.loc["gate_pass_rate_prompt_3", ["value", "n", "met"]].tolist() == [100, 60, "yes"]
    assert quality.loc["judge_accuracy_renders", "met"] == "yes"
    assert "ideal judge" in quality.loc["judge_accuracy_renders_ambiguous", "reason"]
    assert quality.loc["judge_accuracy_renders_sure", "n"] <= quality.loc["judge_accuracy_renders", "n"]
    assert quality.loc["judge_accuracy_renders_sure", ["requirement", "met"]].tolist() == ["", ""]
    # With 40 captions and 32 images an occupation the interval is far wider than 2 points.
    row = quality.loc["truth_preserving_matched"]
    assert row["ci_high"] - row["ci_low"] > 2 and row["met"] == "no"
    row = quality.loc["world_off_naive"]
    assert row["met"] == ("yes" if row["ci_low"] <= 0 <= row["ci_high"] else "no")


@pytest.mark.long
def test_quality_unmeasured_requirements_have_reason(tmp_path):
    pipeline = IdealPipeline("mini", tmp_path, **SMALL | {"calibration": SMALL["calibration"] | {"test_images": 62}})

    def none(*_):
        raise MissingInputError("No open_clip model.")

    pipeline.image_embeddings = none
    words, measured = (
        tables.make_table(pd.DataFrame(), name) for name in ("paradox_gender_words", "paradox_amplification")
    )
    table = _quality(calibration.Calibration(pipeline), words, measured)
    for metric in ("gender_word_accuracy", "naive_amplification", "caption_prompts", "occupation_accuracy"):
        row = table.loc[metric]
        assert math.isnan(row["value"]) and row["met"] == "" and row["reason"] and row["n"] == 0
    assert table.loc["nearest_no_indicators_to_naive", "reason"] == "The run lacks one of the two approaches."
    (finding,) = calibration.answers.quality.findings(calibration.summarize_requirements(table.reset_index()))
    assert "gender_word_accuracy, occupation_accuracy, naive_amplification" in finding.details[-1]


def test_calibration_works_with_real_pipeline(tmp_path, monkeypatch):
    monkeypatch.setattr(ClipJudge, "answers", lambda judge, people: [Answer(0.97)] * len(people.persons))
    monkeypatch.setattr(ClipJudge, "classifier", None)
    monkeypatch.setattr(HubFaces, "faces", lambda _, images: WholeImage("whole image").faces(images))
    captions = {"occupations": ["nurse", "mechanic"], "approaches": ["naive", "no_indicators"], "max_captions": 4096}
    sizes = {
        "world_images": 5,
        "matched_captions": 2,
        "unbiased_captions": 2048,
        "unbiased_per_occupation": 10,
        "test_images": 20,
    }
    settings = {
        "captions": captions | {"per_occupation": 20},
        "generation": {"images_per_prompt": 3},
        "calibration": sizes,
        "judging": {"faces": "mini-detector", "gender": "mini-clip"},
        "compute": {"cache": str(tmp_path)},
    }
    pipeline = Pipeline("world", Settings.from_mapping(settings), seed=3, progress=False)
    c = calibration.Calibration(pipeline)
    shares = calibration.shares(c.training, c.generated, c.truth, c.renders)
    shares = shares.set_index(["source", "skew", "approach", "occupation"])
    # Every image is judged female, whatever was drawn: 4 prompts of 5 images, and of 3 without planted causes.
    assert (shares["percent_female"] == 100).all()
    assert shares.loc[("generated", "default", "matched", "nurse"), "n"] == 20
    assert shares.loc[("generated", "off", "matched", "nurse"), "n"] == 12
    assert shares.loc[("training", "default", "matched", "nurse"), "n"] == 2
    judgements = c.world.judgements("generated")
    genders = judgements.loc[judgements["occupation"] == "mechanic", "truth_gender"]
    percent = shares.loc[("generated", "default", "matched", "mechanic"), "percent_true_sample"]
    assert percent == pytest.approx(100 * (genders == "female").mean())
    # Ground truth of captions: the same scenes from the corpus.
    sample = pipeline.judgements("training")
    corpus = pipeline.corpus
    people = [corpus.scene(i).people for i in sample["caption_id"]]
    assert sample["truth_gender"].fillna("").tolist() == [p[0].gender if p else "" for p in people]
    accuracy = calibration.judge(c.renders).set_index(["cues", "truth", "answers"])
    assert accuracy.loc[("all", "all", "judged"), ["accuracy", "n"]].tolist() == [50, 20]


# -- sources, and the world --------------------------------------------------------------------------------


def test_calibration_corpus_without_ground_truth_is_refused():
    corpus = SimpleNamespace(name="laion.parquet")
    with pytest.raises(MissingInputError, match=r"'laion.parquet' does not have. Set captions.corpus to 'mini'"):
        calibration.Calibration(SimpleNamespace(corpus=corpus))


@pytest.mark.long
def test_amplification_of_world_as_model_is_listed_once(tmp_path):
    c = calibration.Calibration(IdealPipeline("world", tmp_path, **SMALL))
    assert set(calibration.amplification(c.training, c.generated, c.truth, **OWN)["generator"]) == {"world"}
    assert calibration.guidance(c.generated, c.truth).empty


@pytest.mark.long
def test_amplification_with_bias_off_is_listed_once(tmp_path):
    settings = SMALL | {"captions": SMALL["captions"] | {"synthetic_bias": "off"}}
    c = calibration.Calibration(IdealPipeline("mini", tmp_path, **settings))
    table = calibration.amplification(c.training, c.generated, c.truth, **OWN)
    assert set(table["skew"]) == {"off"}
    np.testing.assert_allclose(table["implied"], 0, atol=1e-9)
    assert set(calibration.shares(c.training, c.generated, c.truth, c.renders)["skew"]) == {"off"}
    # World and model, each against both selections; the world without the paradox is the first of them.
    assert len(calibration.amplification_questions(table, model="mini")) == 4


def test_parameter_and_conditional_tables_match_world():
    assert set(parameters.values()["parameter"]) == set(world.Parameters.__dataclass_fields__)
    gain = parameters.conditional().set_index(["skew", "captions"])
    conditional_shares = [_like_prompts(t / 100) for t in world.training_shares().values()]
    lean = np.mean([abs(t - 50) for t in world.training_shares().values()])
    assert gain.loc[("default", "prompt-like"), "distance"] == pytest.approx(
        np.mean([abs(100 * p[0] - 50) for p in conditional_shares])
    )
    silent = np.mean([abs(100 * p[1] - 50) for p in conditional_shares])
    assert gain.loc[("default", "prompt-like, no indicator"), "distance_difference"] == pytest.approx(silent - lean)
    np.testing.assert_allclose(gain.loc["off", "distance_difference"], 0, atol=1e-9)
    np.testing.assert_allclose(gain.xs("prompt-like", level="captions")["percent_of_captions"], 10)
    np.testing.assert_allclose(gain.xs("all", level="captions")["percent_of_captions"], 100)


# -- answers --------------------------------------------------------------------------------------------------


def test_amplification_findings_match_table_rows(amplification):
    rows = amplification.query("definition == 'paper' and prompt == 'mean'")
    rows = rows.set_index(["generator", "skew", "approach"])
    table = calibration.amplification_questions(amplification, model="mini")
    findings = calibration.answers.amplification.findings(table)
    keys = zip((f.model for f in findings), table["skew"], table["approach"], strict=True)
    findings = dict(zip(keys, findings, strict=True))
    expected = {(model, "default", approach) for model in ("world", "mini") for approach in ("naive", "matched")}
    assert findings.keys() == expected | {("world", "off", "naive")}
    for key, finding in findings.items():
        row = rows.loc[key]
        # Bias-corrected amplification of the world; excess over the implied value for models.
        names = ["amplification_corrected", "ci_low", "ci_high", "p"]
        if key[:2] != ("world", "default"):
            names = ["excess", "excess_ci_low", "excess_ci_high", "excess_p"]
        assert finding.n == row["n_occupations"] and finding.not_significant
        assert [finding.estimate, finding.ci_low, finding.ci_high, finding.p] == row[names].tolist()
        assert f"imply an amplification of {row['implied']:.2f} points" in finding.details[0]
        # Verdicts: their test is of the number that they show.
        assert (finding.p < 0.05) == (finding.ci_low > 0 or finding.ci_high < 0)
    # The world shows amplification, and none against captions that ask the same.
    assert findings["world", "default", "naive"].supported_answer == "Yes."
    assert findings["world", "default", "matched"].supported_answer == "Not significantly different from 0."
