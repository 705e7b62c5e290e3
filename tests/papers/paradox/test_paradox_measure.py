"""Measured tables of the paradox, from a pipeline with all captions and images defined here."""

from inspect import isfunction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from biaslab.errors import MissingInputError
from biaslab.papers.paradox import measure
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning.measures import table_of
from biaslab.schema import tables
from biaslab.study import sources

OCCUPATIONS = ("nurse", "engineer")
# occupation, caption, rank, indicator, gender of its image, outcome
CAPTIONS = [
    ("nurse", "n1", 1, "female", "female", "judged"),
    ("nurse", "n2", 2, "none", "female", "judged"),
    ("nurse", "n3", 3, "male", "male", "judged"),
    ("nurse", "n4", 4, "none", "unsure", "uncertain"),
    ("nurse", "n5", 5, "none", "male", "judged"),
    ("engineer", "e1", 1, "female", "female", "judged"),
    ("engineer", "e2", 2, "none", "male", "judged"),
    ("engineer", "e3", 3, "both", "", "no_face"),
]
TEXTS = {"n1": "A female nurse", "e1": "Engineer and her pump, she smiles"}
SPANS = {"n1": "2:8:female-word", "e1": "13:16:female-pronoun;23:26:female-pronoun"}


class Pipe:
    """A stand-in for a pipeline."""

    label = "mini"
    occupations = OCCUPATIONS
    templates = ("1", "2")
    kinds = Pipeline.kinds
    headlines_only = fetches_images = False

    class corpus:
        name = "six captions"

    def image_model(self):
        return SimpleNamespace(label=self.label, sends_prompts=True, own_settings=dict)

    judge_settings = ("judging.gender", "judging.faces")

    def unset_settings(self, *settings):
        return ()

    def __init__(self, **settings):
        self.settings = Settings.from_mapping({"captions": {"per_occupation": 4}}).with_changes(**settings)
        self.asked = []

    def captions(self):
        columns = ["occupation", "caption_id", "rank", "indicator", "gender", "status"]
        frame = pd.DataFrame(CAPTIONS, columns=columns).drop(columns=["gender", "status"])
        ids = frame["caption_id"]
        return frame.assign(text=ids.map(TEXTS).fillna(ids), spans=ids.map(SPANS).fillna(""))

    def sample(self):
        captions = self.captions()
        return captions[captions["rank"] <= 4].reset_index(drop=True)

    def totals(self):
        return pd.DataFrame({"occupation": OCCUPATIONS, "n_captions": [90, 3], "n_corpus": 1000})

    def selections(self):
        sample = self.sample().assign(prompt="captions", cosine=0.3)
        free = sample[sample["indicator"] == "none"].assign(approach="no_indicators")
        near = [("1", "nurse", "n5", 1, 0.9), ("1", "nurse", "n2", 2, 0.8), ("2", "nurse", "n2", 1, 0.7)]
        near = pd.DataFrame(near, columns=["prompt", "occupation", "caption_id", "rank", "cosine"])
        near["approach"] = "nearest"
        whole = pd.concat([sample.assign(approach="naive"), free, near])
        return whole[["approach", "prompt", "occupation", "caption_id", "rank", "cosine"]]

    def cosines(self):
        pairs = self.captions()[["caption_id", "occupation"]]
        by_id = {"n1": 0.1, "n2": 0.8, "n3": 0.2, "n4": 0.3, "n5": 0.9, "e1": 0.4, "e2": 0.6, "e3": 0.5}
        frames = [
            pairs.assign(prompt=p, cosine=pairs["caption_id"].map(by_id) - less) for p, less in (("1", 0), ("2", 0.1))
        ]
        return pd.concat(frames, ignore_index=True)

    def prompts(self, kind="generated"):
        if kind == "generated":
            rows = [(f"p{p}-{o}", "naive", o, p, "text", 3) for p in "12" for o in OCCUPATIONS]
            return pd.DataFrame(rows, columns=["prompt_id", "approach", "occupation", "prompt", "text", "n_images"])
        captions = self.sample()
        captions = captions[captions["rank"] <= 2]
        more = {"approach": kind, "prompt": "captions", "n_images": 1}
        if kind == "paraphrased":
            more["paraphrase_status"], more["unsupported_fields"] = "by_rule", ""
        first = {"caption_prompts": "c-", "paraphrased": "x-"}[kind]
        changed = captions["text"] + ("!" if kind == "paraphrased" else "")
        return captions.assign(prompt_id=first + captions["caption_id"], text=changed, **more)

    def judgements(self, kind):
        self.asked.append(kind)
        if kind == "training":
            columns = ["occupation", "caption_id", "rank", "indicator", "gender", "status"]
            frame = pd.DataFrame(CAPTIONS, columns=columns)
            return frame.assign(prompt="captions", image_id=frame["caption_id"])
        if kind == "generated":
            genders = {"p1-nurse": "ffm", "p2-nurse": "ff-", "p1-engineer": "mmm", "p2-engineer": "---"}
        else:
            genders = {"c-n1": "f", "c-n2": "m", "c-e1": "m", "c-e2": "m", "x-n1": "-", "x-n2": "f"}
            genders |= {"x-e1": "f", "x-e2": "m"}
        word = {"f": "female", "m": "male", "-": "unsure"}
        rows = [
            {**row, "image_id": f"{row['prompt_id']}/{i}", "gender": word[g]}
            for row in self.prompts(kind).to_dict("records")
            for i, g in enumerate(genders[row["prompt_id"]])
        ]
        frame = pd.DataFrame(rows)
        return frame.assign(status=np.where(frame["gender"] == "unsure", "uncertain", "judged"))

    def images(self, kind):
        class Images:
            table = self.judgements(kind).drop(columns=["gender", "status"])

        return Images

    def image_embeddings(self, kind, image_ids):
        vectors = {k: [1, 0] for k in ("n1", "n3", "n5", "e1", "e2")} | {"n2": [0, 1], "n4": [0, 1], "e3": None}
        ids = list(dict.fromkeys(image_ids))
        image_vectors = [vectors[i] if kind == "training" else ([1, 0] if "nurse" in i else [0.6, 0.8]) for i in ids]
        return pd.DataFrame(
            {"image_id": ids, "vector": [None if v is None else np.array(v, np.float32) for v in image_vectors]}
        )


PUBLIC = [f for name, f in vars(measure).items() if isfunction(f) and name[0] != "_"]
NO_TABLES = (measure.people_in_images, measure.people_to_annotate)
MEASURES = {table_of(f): f for f in PUBLIC if f.__module__ == measure.__name__ and f not in NO_TABLES}


def frame(name, pipe=None):
    return MEASURES[name](pipe or Pipe())


@pytest.mark.long
def test_measured_tables_match_schemas_and_sources():
    for name in MEASURES:
        assert set(tables.schema(name).names) <= set(frame(name).columns), name
        assert sources.has_table(name, source="mini"), name


def test_paraphrases_list_unsupported_fields():
    class Reluctant(Pipe):
        def prompts(self, kind="generated"):
            paraphrases = super().prompts(kind)
            return paraphrases.assign(unsupported_fields="temperature") if kind == "paraphrased" else paraphrases

    assert "unsupported_fields" not in frame("paradox_paraphrases")
    assert set(frame("paradox_paraphrases", Reluctant())["unsupported_fields"]) == {"temperature"}


def test_percent_female_counts_judged_images():
    shares = frame("paradox_percent_female").set_index(["approach", "source", "occupation", "prompt"])
    value = shares[["percent_female", "n"]].T.to_dict("list")
    # Nurse, naive: n1 and n2 female, n3 male; n4 is uncertain and n5 is not in the sample of 4.
    assert value["naive", "training", "nurse", "captions"] == [pytest.approx(100 * 2 / 3), 3]
    # Engineer: e1 female, e2 male; e3 shows no face.
    assert value["naive", "training", "engineer", "captions"] == [50, 2]
    assert value["no_indicators", "training", "nurse", "captions"] == [100, 1]
    assert value["no_indicators", "training", "engineer", "captions"] == [0, 1]
    # Nearest: n5 (male) and n2 (female) for prompt 1, n2 for prompt 2.
    assert value["nearest", "training", "nurse", "1"] == [50, 2]
    assert value["nearest", "training", "nurse", "2"] == [100, 1]
    for approach in ("naive", "no_indicators", "nearest"):
        assert value[approach, "generated", "nurse", "1"] == [pytest.approx(200 / 3), 3]
        assert value[approach, "generated", "nurse", "2"] == [100, 2]
        assert value[approach, "generated", "engineer", "1"] == [0, 3]
    # Captions 1 and 2 of each occupation as prompts; their own images are the training side.
    assert value["caption_prompts", "training", "nurse", "captions"] == [100, 2]
    assert value["caption_prompts", "generated", "nurse", "captions"] == [50, 2]
    assert value["caption_prompts", "training", "engineer", "captions"] == [50, 2]
    assert value["caption_prompts", "generated", "engineer", "captions"] == [0, 2]
    assert value["caption_prompts_no_indicators", "generated", "nurse", "captions"] == [0, 1]
    assert value["paraphrased", "generated", "nurse", "captions"] == [100, 1]
    assert value["paraphrased_no_indicators", "training", "engineer", "captions"] == [0, 1]


def test_percent_female_without_judged_image_is_nan():
    shares = frame("paradox_percent_female").set_index(["approach", "source", "occupation", "prompt"])
    row = shares.loc[("naive", "generated", "engineer", "2")]
    assert np.isnan(row["percent_female"]) and row["n"] == 0
    # No caption for engineer is near to a prompt.
    assert shares.loc[("nearest", "training", "engineer", "1"), "n"] == 0


def test_percent_female_has_requested_approaches_only():
    pipe = Pipe(captions={"approaches": ["naive"]})
    assert set(frame("paradox_percent_female", pipe)["approach"]) == {"naive"}
    assert sorted(pipe.asked) == ["generated", "training"]
    assert set(frame("paradox_prompts", pipe)["approach"]) == {"naive"}
    pipe = Pipe(captions={"approaches": ["paraphrased_no_indicators"]})
    assert set(frame("paradox_percent_female", pipe)["approach"]) == {"paraphrased_no_indicators"}
    assert "generated" not in pipe.asked


def test_indicators_count_captions_and_images():
    row = frame("paradox_indicators").set_index("occupation").loc["nurse"]
    # Sample n1 female, n2 none, n3 male, n4 none; images female, female, male, unsure.
    assert row[["n", "percent_any", "percent_none"]].tolist() == [4, 50, 50]
    assert row[["percent_female_indicator", "percent_male_indicator", "percent_both"]].tolist() == [25, 25, 0]
    assert row["percent_female"] == pytest.approx(200 / 3) and row["n_judged"] == 3
    assert row[["percent_any_of_female", "n_female", "percent_any_of_male", "n_male"]].tolist() == [50, 2, 100, 1]


def test_examples_show_indicator_words():
    examples = frame("paradox_examples").set_index("caption_id")
    assert examples.loc["n1", "words"] == "female" and examples.loc["e1", "words"] == "her, she"
    assert examples.loc["e3", "gender"] == "" and examples.loc["n2", "words"] == ""
    assert set(examples["indicator"]) == {"female", "male", "both", "none"}


def test_judgement_outcomes_count_template_images_once():
    counts = frame("paradox_judgement_outcomes")
    generated = counts[counts["source"] == "generated"]
    selected = {"no_indicators", "nearest", "nearest_no_indicators"}
    assert set(generated["approach"]) == set(Pipe().settings.captions.approaches) - selected
    row = counts.set_index(["approach", "source", "occupation", "prompt", "status"])
    unclear = row.loc[("naive", "generated", "engineer", "2", "uncertain")]
    assert unclear[["n", "percent", "n_images"]].tolist() == [3, 100, 3]
    assert row.loc[("naive", "generated", "engineer", "2", "judged"), "n"] == 0
    assert row.loc[("naive", "training", "engineer", "captions", "no_face"), "n"] == 1


def test_gender_words_compare_with_image_and_word():
    rows = frame("paradox_gender_words").set_index(["approach", "occupation", "indicator"])
    columns = ["n_same", "n_pairs", "n_followed", "n_judged", "n_images"]
    assert rows.loc[("caption_prompts", "nurse", "female"), columns].tolist() == [1, 1, 1, 1, 1]
    # The engineer's caption has a female indicator, its image is female, the generated one male.
    assert rows.loc[("caption_prompts", "engineer", "female"), columns].tolist() == [0, 1, 0, 1, 1]
    # The paraphrase's image is uncertain: it counts nowhere but among the images.
    assert rows.loc[("paraphrased", "nurse", "female"), columns].tolist() == [0, 0, 0, 0, 1]


def test_similarity_is_mean_over_all_pairs():
    rows = frame("paradox_similarity").set_index(["approach", "prompt", "occupation"])
    naive = rows.loc[("naive", "1", "nurse")]
    # Text: n1 to n4 against prompt 1: (0.1 + 0.8 + 0.2 + 0.3) / 4; prompt 2 is 0.1 lower.
    assert naive["text_similarity"] == pytest.approx(0.35) and naive["n_captions"] == 4
    assert rows.loc[("naive", "2", "nurse"), "text_similarity"] == pytest.approx(0.25)
    # Images: two of four training vectors equal the generated one, two are at right angles to it.
    assert naive["image_similarity"] == pytest.approx(0.5)
    assert naive[["n_training", "n_generated"]].tolist() == [4, 3]
    # e3 cannot be read, so two training images are left: 0.6 each.
    engineer = rows.loc[("naive", "1", "engineer")]
    assert engineer["image_similarity"] == pytest.approx(0.6) and engineer["n_training"] == 2
    near = rows.loc[("nearest", "1", "nurse")]
    assert near["text_similarity"] == pytest.approx(0.85) and near["image_similarity"] == pytest.approx(0.5)


def test_similarity_without_images_has_text_values(monkeypatch):
    def none(self, kind, image_ids):
        raise MissingInputError("not an open_clip model")

    monkeypatch.setattr(Pipe, "image_embeddings", none)
    rows = frame("paradox_similarity")
    assert rows["text_similarity"].notna().all() and rows["image_similarity"].isna().all()


def test_caption_counts_have_sampled_and_candidates():
    rows = frame("paradox_caption_counts").set_index("occupation")
    assert rows.loc["nurse", ["n_captions", "n_corpus", "n_sampled", "n_candidates"]].tolist() == [90, 1000, 4, 5]


def test_pipeline_settings_table_includes_model():
    rows = frame("pipeline_settings").set_index("setting")
    assert rows.loc["captions.per_occupation", "set_to"] == "4" and rows.loc["model", "set_to"] == "mini"
    assert rows["description"].str.endswith(".").all()
