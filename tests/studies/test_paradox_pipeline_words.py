"""What the paradox notebooks say, and the galleries that they show, from made-up tables and images."""

import json

import numpy as np
import pandas as pd
import pytest

from biaslab.errors import MissingInputError
from biaslab.judging.images import ArrayImages
from biaslab.pipeline import Settings
from biaslab.plots import gallery
from biaslab.studies import paradox
from biaslab.studies import paradox_pipeline_words as more
from biaslab.studies import paradox_words as words
from biaslab.study import Study


def shares_of(model, **values):
    """Return shares of a model: the training share and, for prompt 1, the generated one, by occupation."""
    return [
        {
            "model": model,
            "approach": "naive",
            "occupation": occupation,
            "source": source,
            "prompt": prompt,
            "percent_female": percent,
            "n": n,
        }
        for occupation, pair in values.items()
        for source, prompt, percent, n in zip(
            ("training", "generated"), ("captions", "1"), pair, (100, 12), strict=True
        )
    ]


MADE = {"generation.guidance_scale": 3.0, "generation.steps": 12, "captions.corpus": "mini"}
PRINTED = {"generation.guidance_scale": 7.5, "generation.steps": 50}


def settings_of(model, **values):
    return [
        {"model": model, "setting": name, "value": str(value), "description": "It is set."}
        for name, value in values.items()
    ]


@pytest.fixture
def measured(tmp_path):
    """Return a function that opens a study on measured tables, given by name as rows or frames."""

    def of(**frames) -> Study:
        source = tmp_path / "measured"
        source.mkdir(exist_ok=True)
        for name, rows in frames.items():
            pd.DataFrame(rows).to_csv(source / f"{name}.csv", index=False)
        return Study(tmp_path / "out", source=str(source), seed=1, bootstrap_replicates=400)

    return of


@pytest.fixture
def study(measured):
    """Open a study on shares of the embedded model, beside those that the paper prints."""
    printed = paradox.PUBLISHED["paradox_percent_female"]()
    shares = pd.DataFrame(shares_of("mini", nurse=(80, 90), pilot=(30, 10), author=(45, 60)))
    told = settings_of("mini", **MADE)
    return measured(paradox_percent_female=pd.concat([shares, printed]), pipeline_settings=told)


# -- models, and how their images were made ----------------------------------------------------------------------


def test_guidance_and_steps_belong_to_the_name(study):
    assert words.names(study, ["mini", "SD 1.4"]) == {
        "mini": "mini (embedded world; guidance 3, 12 steps)",
        "SD 1.4": "SD 1.4 (printed; guidance 7.5, 50 steps)",
    }
    assert words.titles(study, ["mini"])["mini"] == "mini\nembedded world; guidance 3, 12 steps"
    (said,) = words.instrument(study)
    assert said.startswith("mini is an instrument") and "no real model" in said
    assert words.detailed(study, ["mini", "SD 1.4"]) == ["mini"]
    assert words.detailed(study, ["SD 1.4"]) == ["SD 1.4"]


def test_a_model_of_a_printed_name_is_not_the_printed_one(measured):
    # Somebody's own measurements of SD 1.4 were made with other settings than the paper's.
    study = measured(paradox_percent_female=shares_of("SD 1.4", nurse=(80, 90), pilot=(30, 10)))
    assert words.names(study, ["SD 1.4"]) == {"SD 1.4": "SD 1.4"}
    assert words.printed_rows(study, study.measured("paradox_percent_female")).empty
    assert words.impossible_shares(pd.DataFrame()) == "" and words.instrument(study) == []


def test_a_real_model_in_the_embedded_world_is_told_apart(measured):
    told = settings_of("org/model", **PRINTED, **{"captions.corpus": "mini"})
    study = measured(paradox_percent_female=shares_of("org/model", nurse=(80, 90)), pipeline_settings=told)
    (said,) = words.instrument(study)
    assert said.startswith("The captions and training images beside org/model") and "not trained on" in said
    told = settings_of("org/model", **PRINTED, **{"captions.corpus": "data/*.parquet"})
    study = measured(paradox_percent_female=shares_of("org/model", nurse=(80, 90)), pipeline_settings=told)
    assert words.instrument(study) == [] and words.made_with(study, "org/model") == "guidance 7.5, 50 steps"


def test_a_value_stands_before_its_interval():
    row = pd.Series({"amplification": 6.36, "ci_low": 4.6, "ci_high": 8.12})
    assert words.with_interval(row) == "6.36 points (4.60 to 8.12)"
    row = pd.Series({"amplification": 4.35, "ci_low": np.nan, "ci_high": np.nan})
    assert words.with_interval(row) == "4.35 points (no interval)"
    row = pd.Series({"change": -2.0, "ci_low": -3.0, "ci_high": 0.5})
    assert words.with_interval(row, "change", sign="+") == "-2.00 points (-3.00 to +0.50)"


def test_images_of_a_share_are_counted_for_each_source(study):
    assert words.stated_n(study, "mini") == "n = 100 training and 12 generated"
    assert words.stated_n(study, "SD 1.4") == "n = 500"
    assert words.stated_n(study) == "n = 100 training and 12 generated (mini); 500 (SD 1.4); 500 (SD 1.5)"


def test_shares_stand_in_the_papers_columns(study):
    wide = words.shares_wide(study.measured("paradox_percent_female"))
    assert wide.loc[("mini", "nurse"), ["training", "prompt 1"]].tolist() == [80, 90]
    # Table 6, accountant.
    assert wide.loc[("SD 1.4", "accountant")].tolist() == [29.8, 29.5, 3.4, 43.8, 35.7]


def test_variation_that_cannot_be_tested_is_said():
    row = {"model": "mini", "sd_prompts": 9.0, "sd_noise": 10.0, "lean_flips": "no", "p_holm": np.nan}
    row["flip_possible"] = "no"
    (said,) = words.headlines_variation(pd.DataFrame([row, row]), {"mini": "mini (guidance 3)"})
    assert said.startswith(
        "mini (guidance 3): images are too few to test whether shares differ between prompts; 0 of 2"
    )


# -- captions and indicators ---------------------------------------------------------------------------------------


def test_indicators_are_marked_in_the_caption():
    text = "Mrs. Mary Lopez says she cooks"
    assert more.marked(text, "0:3:female-title;5:9:female-name;21:24:female-pronoun") == (
        "[Mrs]. [Mary] Lopez says [she] cooks"
    )
    assert more.marked("a cook", "") == "a cook"


def test_examples_stand_in_the_order_asked_for():
    table = pd.DataFrame(
        [
            ("cook", "female", "a woman cook", "2:7:female-word", "female"),
            ("cook", "none", "a cook", "", "male"),
            ("nurse", "male", "his nurse", "0:3:male-pronoun", ""),
            ("nurse", "male", "a male nurse", "2:6:male-word", "male"),
        ],
        columns=["occupation", "indicator", "caption", "spans", "gender"],
    )
    shown = more.examples(table, ["nurse", "cook"])
    assert shown["caption"].tolist() == ["[his] nurse", "a [woman] cook"]


def test_occupations_to_show(study):
    assert more.some_occupations(study, ["pilot", "astronaut"]) == ["pilot"]
    # From few women to many: 30, 45, 80.
    assert more.some_occupations(study, ["astronaut"], most=2) == ["pilot", "nurse"]
    assert more.some_occupations(study) == ["pilot", "author", "nurse"]


def test_what_is_found_about_indicators(study):
    use = pd.DataFrame(
        [
            ("mini", "all", 40.0, 35.0, 45.0, 62, 59.5),
            ("mini", "rarer", 60.0, 50.0, 70.0, 60, np.nan),
            ("mini", "commoner", 30.0, 20.0, 40.0, 60, np.nan),
            ("mini", "difference", 30.0, 25.0, 35.0, 60, np.nan),
        ],
        columns=["corpus", "images", "percent", "ci_low", "ci_high", "n", "published"],
    )
    row = {"corpus": "mini", "gender": "female", "counted": "any", "r": -0.3, "ci_low": -0.5, "ci_high": 0.1}
    correlation = pd.DataFrame([row | {"p": 0.06, "n": 62, "published": -0.458}])
    often, whom, goes = more.headlines_indicators(study, use, correlation)
    assert often.startswith(
        "Captions of mini (embedded world): 40.0 % (35.0 to 45.0) indicate a gender, mean over 62"
    )
    assert "60.0 % of images of an occupation's rarer gender and 30.0 % of the other" in whom
    assert "30.0 points (25.0 to 35.0), an interval that excludes 0, over 60 occupations" in whom
    assert "r = -0.30 (-0.50 to 0.10, p = 0.06, 62 occupations; paper, LAION: -0.458)" in goes
    assert "The embedded world was set to the paper's share" in often and often.endswith("is no replication.")
    assert "opposite" not in more.caption_indicator_correlation(study, correlation)


def test_a_correlation_of_the_opposite_sign_is_said_to_be_one(study):
    row = {"corpus": "mini", "gender": "female", "counted": "any", "r": 0.9, "ci_low": 0.84, "ci_high": 0.94}
    row |= {"p": 1e-20, "n": 62, "published": -0.458}
    correlation = pd.DataFrame([row, row | {"counted": "only", "r": 0.8}])
    use = pd.DataFrame(columns=["corpus", "images"])
    (goes,) = more.headlines_indicators(study, use, correlation)
    assert "62 occupations; paper, LAION: -0.458, the opposite sign)" in goes
    caption = more.caption_indicator_correlation(study, correlation)
    assert (
        "r = 0.90 for female indicators, where the paper prints -0.458 for LAION: the opposite sign."
        in caption
    )
    assert "0.80" not in caption


def test_tests_say_what_they_reject(study):
    columns = ["model", "approach", "definition", "prompt", "amplification", "n_occupations", "t", "p"]
    columns += ["amplification_plain", "t_plain", "p_plain"]
    plain = (4.0, 3.5, 0.001)
    table = pd.DataFrame(
        [
            ("mini", "nearest", "published", "1", 3.0, 40, 2.5, 0.012, *plain),
            ("mini", "nearest", "published", "2", 1.0, 41, 0.5, 0.61, *plain),
            ("mini", "nearest", "published", "mean", 2.0, 42, np.nan, np.nan, *plain),
            ("mini", "nearest", "directional", "1", 3.0, 62, 2.5, 0.012, *plain),
            ("mini", "naive", "published", "1", 3.0, 40, 2.5, 0.012, *plain),
        ],
        columns=columns,
    )
    tests = more.t_tests(table, ["nearest"])
    assert tests["prompt"].tolist() == ["1", "2"]
    (said,) = more.headlines_t(study, tests)
    assert "prompt #1 rejected (t = 2.50, p = 0.012, 40 occupations)" in said
    assert "prompt #2 not rejected (t = 0.50, p = 0.61, 41 occupations)" in said


def test_changes_below_zero_have_no_percent(study):
    row = {
        "model": "mini",
        "approach": "nearest",
        "reference": "naive",
        "definition": "published",
        "prompt": "mean",
    }
    row |= {
        "reference_amplification": 10.0,
        "n_occupations": 60,
        "ci_low": -9.0,
        "ci_high": -3.0,
        "reason": "",
    }
    half = row | {"amplification": 4.0, "change": -6.0, "change_percent": -60.0}
    over = row | {
        "reference_amplification": 5.0,
        "amplification": -1.0,
        "change": -6.0,
        "change_percent": -120.0,
    }
    first, second = more.headlines_change(study, pd.DataFrame([half, over]), ["nearest"])
    assert "changes by -6.00 points (-9.00 to -3.00), -60 %, from 10.00 to 4.00, over 60 occupations" in first
    assert "changes by -6.00 points (-9.00 to -3.00), from 5.00 to -1.00" in second


# -- galleries -------------------------------------------------------------------------------------------------------


class Pictured:
    """A study with images: every image is grey, of a shade that tells which it is."""

    def __init__(self, corpus="mini", **rows):
        self.settings = Settings.of({"captions": {"corpus": corpus}})
        self.rows = {kind: pd.DataFrame(of) for kind, of in rows.items()}
        self.figures = {}

    def judgements(self, kind):
        return self.rows[kind]

    def images(self, kind):
        ids = list(dict.fromkeys(self.rows[kind]["image_id"]))
        return ArrayImages([np.full((8, 8, 3), shade(i), np.uint8) for i in ids], ids)

    def measured_or_empty(self, name):
        assert name == "pipeline_settings"
        told = settings_of("mini", **MADE)
        return pd.DataFrame(told)

    def measured(self, name):
        return self.rows[name]

    def save_figure(self, name, figure, **more):
        self.figures[name] = more | {"caption": more["caption"]}


def shade(image_id):
    return sum(map(ord, image_id)) % 251


@pytest.fixture
def drawn(monkeypatch):
    """Catch what is handed to the gallery: image ids, texts, and whether faces are blurred."""
    calls = []

    def catch(images, judgements, captions=(), *, columns, blur):
        assert [image[0, 0, 0] for image in images] == [shade(i) for i in judgements["image_id"]]
        calls.append((judgements["image_id"].tolist(), list(captions), columns, blur))

    monkeypatch.setattr(gallery, "gallery", catch)
    monkeypatch.setattr(words, "is_printed", lambda study, model: False)
    return calls


def judged(image_id, occupation, prompt="1", outcome="judged", **more):
    row = {"image_id": image_id, "occupation": occupation, "prompt": prompt, "outcome": outcome}
    row |= {
        "gender": "female" if outcome == "judged" else "",
        "p_female": 0.95,
        "text": f"text of {image_id}",
    }
    return row | more


def test_generated_images_of_one_prompt(drawn):
    rows = [judged(f"{o}{p}{k}", o, p) for o in ("nurse", "cook", "pilot") for p in "12" for k in range(3)]
    study = Pictured(generated=rows)
    more.show_generated(study, ["pilot", "nurse"], prompt="2", each=2)
    assert drawn == [
        (["pilot20", "pilot21", "nurse20", "nurse21"], ["pilot", "pilot", "nurse", "nurse"], 2, False)
    ]
    told = study.figures["paradox_gallery_generated"]["caption"]
    assert "prompt #2" in told and told.endswith("mini: embedded world; guidance 3, 12 steps.")


@pytest.mark.parametrize(
    ("corpus", "show_faces", "blur"),
    [
        ("mini", False, False),
        ("mini", True, False),
        ("captions.csv", False, True),
        ("captions.csv", True, False),
    ],
)
def test_faces_of_real_people_are_hidden(drawn, corpus, show_faces, blur):
    study = Pictured(corpus, training=[judged("b", "nurse", rank=2), judged("a", "nurse", rank=1)])
    more.show_training(study, ["nurse"], each=1, show_faces=show_faces)
    # The first of the random order.
    assert drawn == [(["a"], ["text of a"], 1, blur)]
    said = study.figures["paradox_gallery_training"]["caption"]
    assert ("made unrecognisable" in said) == blur


def test_images_without_a_gender_of_each_reason(drawn):
    training = [judged(f"t{k}", "cook", outcome="no_face") for k in range(3)] + [judged("ok", "cook")]
    generated = [judged("g0", "nurse", outcome="uncertain"), judged("g1", "nurse")]
    more.show_not_judged(Pictured(training=training, generated=generated), each=2)
    assert drawn == [(["t0", "t1", "g0"], ["training: cook", "training: cook", "generated: nurse"], 8, False)]


def test_selected_captions_stand_beside_generated_images(drawn):
    training = [
        judged(c, o, "captions", caption_id=c) for c, o in (("c1", "nurse"), ("c2", "nurse"), ("c3", "cook"))
    ]
    generated = [judged(f"{o}{p}{k}", o, p) for o in ("nurse", "cook") for p in "12" for k in range(2)]
    chosen = pd.DataFrame(
        [
            ("nearest", "1", "nurse", 2, "c1", "first caption"),
            ("nearest", "1", "nurse", 1, "c2", "nearer caption"),
            ("nearest", "2", "nurse", 1, "c3", "of another prompt"),
            ("naive", "captions", "nurse", 1, "c3", "of another approach"),
        ],
        columns=["approach", "prompt", "occupation", "rank", "caption_id", "caption"],
    )
    study = Pictured(training=training, generated=generated, paradox_selection_examples=chosen)
    more.show_selection(study, "nearest", ["nurse"], prompt="1", each=2)
    texts = ["nearer caption", "first caption", "generated: nurse", "generated: nurse"]
    assert drawn == [(["c2", "c1", "nurse10", "nurse11"], texts, 4, False)]
    assert list(study.figures) == ["paradox_gallery_nearest"]


def test_pairs_of_one_caption(drawn):
    keys = [("c0", "nurse", "female"), ("c1", "cook", "none"), ("c2", "pilot", "male")]
    training = [judged(c, o, "captions", caption_id=c, indicator=i) for c, o, i in keys]
    prompted = [judged(f"c-{c}/0", o, "captions", caption_id=c, indicator=i) for c, o, i in keys]
    more.show_pairs(
        Pictured(training=training, caption_prompts=prompted),
        "training",
        "caption_prompts",
        "x",
        title="t",
        pairs=2,
    )
    # With an indicator first, then without; each beside what was generated from it.
    assert drawn[0][0] == ["c0", "c-c0/0", "c1", "c-c1/0"]
    assert drawn[0][1] == [
        "text of c0",
        "generated from this caption",
        "text of c1",
        "generated from this caption",
    ]


def test_examples_of_indicators_are_shown_with_their_words(drawn):
    training = [
        judged(c, o, "captions", caption_id=c, indicator="x", spans="y")
        for c, o in (("c0", "cook"), ("c1", "cook"))
    ]
    table = pd.DataFrame(
        [
            ("cook", "c0", "female", "a woman cook", "2:7:female-word", "female"),
            ("cook", "c1", "none", "cook", "", ""),
        ],
        columns=["occupation", "caption_id", "indicator", "caption", "spans", "gender"],
    )
    more.show_indicators(Pictured(training=training), table, ["cook"])
    assert drawn == [(["c0"], ["a [woman] cook"], 4, False)]


def test_prompts_of_one_occupation(drawn):
    rows = [judged(f"{p}{k}", "attorney", p) for p in "21" for k in range(3)] + [judged("n", "nurse")]
    more.show_prompts(Pictured(generated=rows), "attorney", each=2)
    assert drawn == [
        (["10", "11", "20", "21"], ["Prompt #1", "Prompt #1", "Prompt #2", "Prompt #2"], 2, False)
    ]


def test_no_images_no_gallery(study, drawn, capsys):
    more.show_generated(study, ["nurse"])
    more.show_pairs(study, "training", "caption_prompts", "x", title="t")
    more.show_prompts(Pictured(generated=[judged("n", "nurse")]), "attorney")
    said = capsys.readouterr().out
    assert said.count("No gallery: ") == 3 and "has tables only" in said
    assert drawn == [] and not (study.output_dir / "figures").exists()


def test_captions_without_shares_are_missing_input(study):
    with pytest.raises(MissingInputError, match="no shares for paraphrased"):
        more.show_caption_shares(study, study.table("paradox_occupation_amplification"), ["paraphrased"], "x")


def test_printed_numbers_alone_have_nothing_to_compare(tmp_path, capsys):
    study = Study(tmp_path, seed=1, bootstrap_replicates=200)
    assert more.show_changes(study).empty
    more.show_approach_shares(study, study.table("paradox_occupation_amplification"), "1")
    more.show_occupation(study, "engineer")
    assert capsys.readouterr().out.count("The source has no shares") == 3
    # Nothing is left for the report.
    assert not (tmp_path / "records.json").exists()
    with pytest.raises(MissingInputError, match="takes images"):
        study.table("paradox_outcomes")


def test_findings_of_a_source_are_recorded(study):
    study.headline(*words.instrument(study), main=True)
    (kept,) = json.loads((study.output_dir / "records.json").read_text(encoding="utf-8"))["headlines"]
    assert kept["main"] and kept["text"].startswith("mini is an instrument")
