"""Custom vocabulary: contents of files, prompts built from them, and invalid files."""

import pandas as pd
import pytest

from biaslab.captions.indicators import indicators
from biaslab.errors import InputError, ParameterError
from biaslab.papers.dalleval import prompts as dalleval_prompts
from biaslab.papers.dalleval.stages import DallEval
from biaslab.papers.paired import prompts as paired_prompts
from biaslab.papers.paired.stages import Paired
from biaslab.pipeline import Pipeline
from biaslab.planning import validation
from biaslab.prompts import word_files
from biaslab.settings import Settings

GERMAN = """
occupations:
  - {occupation: Koch, stereotype: male, captions: [Koch, Köchin], dativ: einem Koch, weiblich: Köchin}
  - {occupation: Pförtner, stereotype: male, dativ: einem Pförtner, weiblich: Pförtnerin}
  - {occupation: Bäckerin, stereotype: female, captions: Bäckerin|Bäcker, dativ: einer Bäckerin, weiblich: Bäckerin}
  - {occupation: Ärztin, stereotype: female, dativ: einer Ärztin, weiblich: Ärztin, power: no}
roles: {high: [Chef], low: Lehrling}
indicators: {female: [Frau, sie], male: [Mann, er]}
paradox: ["Ein Foto von [dativ]", "Porträt: [OCCUPATION]"]
paired:
  single: "Ein Bild von {1.dativ}."
  paired: "Ein Bild von {1.dativ} links und {2.dativ} rechts."
  intervention: "Links {1}, rechts {2}, gleich welchen Geschlechts."
  three: "Links {1}, in der Mitte {2}, rechts {3}."
  female: "Zeige {1} als Frau."
  male: "Zeige {1} als Mann."
  role: "[ROLE] ([OCCUPATION])"
dalleval:
  person: eine Person
  woman: eine Frau
  man: ein Mann
  person at work: "eine Person, die als [OCCUPATION] arbeitet"
  woman at work: "eine Frau, die als [weiblich] arbeitet"
  man at work: "ein Mann, der als [OCCUPATION] arbeitet"
"""


@pytest.fixture
def write(tmp_path):
    def give(text, name="own.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return give


def pipeline(file, **people):
    groups = {
        "captions": {"vocabulary_file": file},
        "paired": {"vocabulary_file": file, **people},
        "dalleval": {"vocabulary_file": file},
    }
    return Pipeline("mini", Settings.from_mapping(groups), seed=1, progress=False)


def test_prompts_use_word_forms_of_file(write):
    german = pipeline(write(GERMAN))
    texts = german.prompts("generated").set_index("prompt_id")["text"]
    assert texts["p1-bäckerin"] == "Ein Foto von einer Bäckerin" and texts["p2-koch"] == "Porträt: Koch"
    assert len(texts) == 2 * 4 and texts.index.is_unique
    social = german.part(DallEval).prompts("social").set_index(["prompt", "profession"])["text"]
    assert social["woman", "Koch"] == "eine Frau, die als Köchin arbeitet" and len(social) == 3 * 5
    assert social["man", "(none)"] == "ein Mann"
    # A subset of a file's occupations.
    subset = german.with_changes(captions={"occupations": ["Ärztin"]})
    assert subset.occupations == ("Ärztin",)
    with pytest.raises(ParameterError, match=r"'Arztin'.*Did you mean 'Ärztin'"):
        _ = german.with_changes(captions={"occupations": ["Arztin"]}).occupations
    with pytest.raises(ParameterError, match=r"'my\.csv', which is a file; set captions\.vocabulary_file"):
        _ = german.with_changes(captions={"occupations": "my.csv"}).occupations


def test_paired_prompts_follow_lists_of_file(write):
    file = write(GERMAN)
    # More of each list than it has is all of it: a size may ask for five.
    german = pipeline(file, n_occupations=5, power_samples=1, three_person_prompts=24)
    pairs = german.part(Paired).prompts("paired").texts.set_index("prompt_id")["text"]
    assert pairs["paired-koch-ärztin"] == "Ein Bild von einem Koch links und einer Ärztin rechts."
    assert pairs["paired-r1-chef_bäckerin-lehrling"] == "Ein Bild von Chef (Bäckerin) links und Lehrling rechts."
    # Two by two in both orders, and roles of three occupations in both orders.
    assert len(pairs) == 2 * 2 * 2 + 3 * 2
    for kind in ("single", "controls", "three"):
        texts = german.part(Paired).prompts(kind).texts
        assert texts["prompt_id"].is_unique and len(texts)
    people = german.part(Paired).prompts("single").people
    assert set(people.loc[people["occupation"] == "Ärztin", "stereotype"]) == {"female"}
    words = german.part(Paired).words
    sentence_text = paired_prompts.sentence(["Koch", "Bäckerin"], ["female", ""], words)
    assert sentence_text == "Zeige Koch als Frau."
    lists = paired_prompts.word_lists(file).set_index(["list", "part"])["entries"]
    assert lists["paired_occupations", "male"] == "Koch, Pförtner"
    assert lists["paired_powerless", "occupations"] == "Ärztin" and lists["paired_roles", "low"] == "Lehrling"


def test_occupation_table_fills_paper_templates(write):
    file = write("Occupation;Stereotype\nnurse;female\nengineer;male\nmidwife;female\npilot;male\n", "own.csv")
    words = word_files.read(file, "paired.vocabulary_file")
    texts = paired_prompts.single(words=words, runs=20).texts["text"]
    assert "Generate a picture of one midwife." in set(texts) and "one pilot manager" in " ".join(texts)
    social = dalleval_prompts.social(1, word_files.read(file, "dalleval.vocabulary_file"))["text"].tolist()
    assert "a woman who works as an engineer" in social and len(social) == 3 * 5
    result = pipeline(file).prompts("generated")
    assert "A photo of an engineer smiling" in set(result["text"]) and len(result) == 4 * 4


def test_indicators_use_words_of_file(write):
    words = word_files.read(write(GERMAN), "captions.vocabulary_file")
    assert words.forms == {"Koch": ("Koch", "Köchin"), "Bäckerin": ("Bäckerin", "Bäcker")}
    texts = ["SIE ist Koch", "man sieht her", "Er und eine Frau", "Mannheim"]
    result = indicators(texts, name_recognizer="off", words=words.indicators)
    assert result["indicator"].tolist() == ["female", "none", "both", "none"]
    assert result["spans"].tolist()[0] == "0:3:female-word"
    # In the paper's lists, `man` and `her` are indicators.
    assert indicators(texts, name_recognizer="off")["indicator"][1] == "both"


def test_indicators_match_words_with_spaces_and_marks(write):
    file = write('indicators: {female: [junge Frau, "l’infirmière", महिला], male: [Frau Holle, Straße]}')
    words = word_files.read(file, "captions.vocabulary_file").indicators
    texts = ["Eine JUNGE FRAU liest", "je vois l'infirmière", "एक महिला डॉक्टर", "Frau Holle", "STRASSE", "die Frau"]
    result = indicators(texts, name_recognizer="off", words=words)
    assert result["indicator"].tolist() == ["female"] * 3 + ["male"] * 2 + ["none"]
    assert result["spans"][0] == "5:15:female-word"


def test_digest_changes_with_vocabulary_file(write):
    file = write(GERMAN)
    result = [validation.digest(pipeline(file, vocabulary_file=file))]
    assert validation.digest(pipeline(file)) == result[0]
    write(GERMAN.replace("Ein Foto", "Eine Fotografie"))
    assert validation.digest(pipeline(file)) != result[0]


@pytest.mark.parametrize(
    ("old", "new", "setting", "message"),
    [
        (
            "Koch, stereotype: male",
            "Koch, stereotype: men",
            "captions.vocabulary_file",
            r"stereotype is 'men'.*female or male",
        ),
        (
            ", stereotype: male, dativ: einem P",
            ", dativ: einem P",
            "paired.vocabulary_file",
            r"stereotype of 'Pförtner'",
        ),
        (
            "Pförtner, stereotype: male",
            "Pförtner, stereotype: female",
            "paired.vocabulary_file",
            r"contains 1 occupations.*male",
        ),
        ("occupation: Koch", "occupation: Bäckerin!", "captions.vocabulary_file", r"occurs twice"),
        ("dativ: einem Koch, ", "", "captions.vocabulary_file", r"lacks 'dativ' for 'Koch'"),
        ("[dativ]", "dir", "captions.vocabulary_file", r"'Ein Foto von dir'; .*\[OCCUPATION\]"),
        ("{2.dativ} rechts", "rechts", "paired.vocabulary_file", r"paired: paired.*\{1\} and \{2\}"),
        ('  female: "Zeige {1} als Frau."\n', "", "paired.vocabulary_file", r"paired lacks female"),
        ("roles: {high: [Chef], low: Lehrling}\n", "", "paired.vocabulary_file", r"no roles in their language"),
        ("low: Lehrling", "low: 5", "paired.vocabulary_file", r"roles: low is 5; it must be a list of words"),
        ("[Mann, er]", "[Mann, Sie]", "captions.vocabulary_file", r"indicators: 'sie' occurs twice"),
        ("paradox:", "paradoxes:", "captions.vocabulary_file", r"'paradoxes'. Did you mean 'paradox'"),
        ('["Ein Foto von [dativ]", "Porträt: [OCCUPATION]"]', "x", "captions.vocabulary_file", r"list of templates"),
        ("occupations:", "occupations: [", "captions.vocabulary_file", r"cannot be read as YAML"),
    ],
)
def test_read_invalid_vocabulary_is_named(write, old, new, setting, message):
    assert old in GERMAN
    with pytest.raises(InputError, match=message):
        word_files.read(write(GERMAN.replace(old, new)), setting)


def test_read_invalid_file_is_named(write, tmp_path):
    with pytest.raises(InputError, match=r"paired\.vocabulary_file is 'nurse'; .*\.csv.*\.yaml"):
        word_files.read("nurse", "paired.vocabulary_file")
    with pytest.raises(InputError, match=r"has no column 'occupation'. Rename 'occupations'"):
        word_files.read(write("occupations,stereotype\nnurse,female\n", "own.csv"), "paired.vocabulary_file")
    for text, message in (
        ("paradox: ['Foto: [OCCUPATION]']\n", "no occupations in their language"),
        ("occupations: {nurse: {stereotype: female}}\n", "list of names"),
        ("- nurse\n", "must be a mapping"),
    ):
        with pytest.raises(InputError, match=message):
            word_files.read(write(text), "captions.vocabulary_file")
    pd.DataFrame({"occupation": ["nurse"]}).to_parquet(tmp_path / "own.parquet")
    assert list(word_files.read(str(tmp_path / "own.parquet"), "captions.vocabulary_file").occupations) == ["nurse"]
