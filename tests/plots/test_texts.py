"""Titles and captions of figures come from text files and have all their facts; texts use standard terms."""

import argparse
import ast
import json
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import yaml

from biaslab import cli
from biaslab.errors import ParameterError, UnknownNameError
from biaslab.plots import texts
from biaslab.runs import settings_reference
from biaslab.study import Study

mpl.use("Agg")


@pytest.fixture
def sample_texts(monkeypatch):
    figure_texts = {"paired_told": {"title": "Of {model}", "caption": "Bars: {level}\n  intervals; {n:,} images."}}
    monkeypatch.setattr(texts, "figures", lambda: figure_texts)


@pytest.mark.usefixtures("sample_texts")
def test_of_figure_inserts_facts_and_names_missing_one():
    facts = {"model": "SD", "level": "95%", "n": 1200, "unused": 1}
    assert texts.of_figure("paired_told", facts) == ("Of SD", "Bars: 95% intervals; 1,200 images.")
    with pytest.raises(ParameterError, match=r"paired_told contains \{level\}"):
        texts.of_figure("paired_told", {"model": "SD", "n": 1})
    with pytest.raises(UnknownNameError, match="Did you mean 'paired_told'"):
        texts.of_figure("paired_tolt", {})


@pytest.mark.usefixtures("sample_texts")
def test_show_text_states_confidence_level(tmp_path):
    study = Study(tmp_path)

    shown_figure, ax = plt.subplots()
    ax.plot([0, 1])
    study.show("paired_sd", shown_figure, text="paired_told", confidence=0.9, model="SD", n=3)
    (record,) = study._records["figures"]
    assert (record["name"], record["title"]) == ("paired_sd", "Of SD")
    assert record["caption"] == record["alt"] == "Bars: 90% intervals; 3 images."
    for name, error in (("paired told", ParameterError), ("paired_other", UnknownNameError)):
        with pytest.raises(error):
            study.show(name, shown_figure)
    plt.close("all")
    assert len(list(tmp_path.glob("figures/*"))) == 2


# -- standard terms -------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
TERMS = {
    r"told (apart|from)|(cannot|can|to) be told|(cannot|can) tell": "significantly different, or inconclusive",
    r"(taken|takes|taking|take) off|(floor|noise|error) left in": "corrected; uncorrected",
    r"noise floors?|the floor|a floor|its floor|floor of": "null expectation, or noise baseline",
    r"lean|leans|leaned|leaning": "direction of bias, stereotype, bias score",
    r"published rule": "the paper's definition",
    r"(?<!published )rehears\w*": "preflight check",
    r"rates? (a|the|an) (part|image|images)|raters?|people who rate|ratings": "annotator, annotations, to annotate",
    r"pictures?": "image",
    r"data sets?": "dataset",
    r"(embedded|drawn) worlds?": "synthetic world",
    r"known truth|truth is known": "ground truth",
    r"besides?": "next to, compared with, in addition to",
    r"nobody|somebody|whoever": "a concrete subject",
    r"that (is|are) there": "existing",
    r"gates?": "inclusion criteria",
    r"a (panel|point|row|column|line) an? \w+|images a (prompt|share|point|profession)": "one per",
    r"less (that|those|the|what|chance|women|second) ": "minus",
    r"what became of|side by side|goes on from": "status; comparison; resumes",
}
"""Private words, as regular expressions, with the standard terms for them."""
PROSE_TERMS = {
    r"(says?|tells?) (nothing|so|what|which|how|where|whether|whom|why|that)|says? of": "states, shows, describes",
    r"(is|are|was|were) (said|told)(?! apart)": "reported",
    r"looks at|looked at|sees|seen by": "classifies, uses, receives",
    r"whom": "people who, or the noun",
    r"a part of": "a subset of, a share of",
    r"stands? (in )?for|stood": "replaces, represents",
    r"set against": "compared with",
    r"goes on|once more|anew": "resumes, again",
    r"asked for|was asked|is asked": "prompted",
    r"put together": "combined",
    r"knows of|judge's word": "includes; label",
}
"""More private words, which hand-written texts avoid, with the standard terms for them."""
ALLOWED = {
    # The papers' own terms, and words with another meaning.
    "human rating": "a metric of DALL-Eval",
    "ratings of 3.5 and 3.7": "values of that metric",
    "1_ratings": "a name of a file",
    "With few images a share": "a share is the subject",
    "images a share": "a share is the subject",
    '{"pictures": …}': "a key of a file",
    "biaslab.analyses.ratings": "a module",
    "prompt is ratings": "a value of earlier versions",
}
"""Texts in which a private word has another meaning, with the reason."""
NAMES = {"rows", "known", "by", "lead", "value", "table", "figure", "looks", "makes", "allowed", "unit"}
"""Keys of YAML files whose values are names and not texts."""


def _texts_of_yaml(value):
    """Yield the texts of a YAML file, without keys and names."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in NAMES:
                yield from _texts_of_yaml(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_of_yaml(inner)
    elif isinstance(value, str) and " " in value:
        yield value


def _texts_of_notebook(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def _prose(text):
    """Return a text without code, names, links' targets, comments, and placeholders."""
    text = re.sub(r"```.*?```|\{#.*?#\}|\{%.*?%\}|<!--.*?-->", " ", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|\{\{.*?\}\}|\{[\w:.,+]*\}|<[^>]*>|\$[^$]*\$", " ", text)
    text = " ".join(text.split())
    for allowed in ALLOWED:
        text = text.replace(allowed, " ")
    return text


def private_words(texts, terms=TERMS):
    """Return the private words of texts, each with the words around it and the standard term."""
    matches = []
    for text in map(_prose, texts):
        for pattern, term in terms.items():
            for match in re.finditer(rf"\b({pattern})\b", text, re.IGNORECASE):
                matches.append((text[max(0, match.start() - 30) : match.end() + 30], term))
    return matches


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("No group is told apart from it.", ["told apart"]),
        ("Amplification, floor left in and taken off.", ["left in", "taken off"]),
        ("A panel a model; `beside` and {beside} are names.", ["panel a model"]),
        ("Not significantly different from 0; see the null expectation.", []),
        ("The judge sees people whom nobody was asked for.", ["sees", "whom", "nobody", "asked for"]),
    ],
)
def test_private_words_in_a_text_are_listed(text, words):
    matches = private_words([text], TERMS | PROSE_TERMS)
    assert len(matches) == len(words) and all(any(word in around for around, _ in matches) for word in words)


def _files(*patterns):
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


DATA = _files(
    "biaslab/**/*.yaml",
    "world/biaslab_world/brought.yaml",
    "world/biaslab_world/calibration/*.yaml",
    "params/*.yaml",
    "world/params/*.yaml",
)
PAGES = _files(
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "docs/**/*.md",
    "world/README.md",
    "outputs/*.md",
)


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_yaml_texts_have_no_private_words(path):
    assert private_words(_texts_of_yaml(yaml.safe_load(path.read_text(encoding="utf-8"))), TERMS | PROSE_TERMS) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_have_no_private_words(path):
    assert private_words([path.read_text(encoding="utf-8")]) == []


@pytest.mark.parametrize(
    "path", _files("biaslab/report/templates/**/*.j2"), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_templates_have_no_private_words(path):
    assert private_words([path.read_text(encoding="utf-8")], TERMS | PROSE_TERMS) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_hand_written_pages_have_no_private_prose(path):
    # Generated parts have the texts of YAML files, settings and commands, which are checked themselves.
    text = re.sub("<!-- Generated.*?<!-- End", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert private_words([text], PROSE_TERMS) == []


@pytest.mark.parametrize(
    "path",
    _files("notebooks/*/*.ipynb", "world/biaslab_world/*/notebooks/*/*.ipynb"),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_notebooks_have_no_private_words(path):
    assert private_words(_texts_of_notebook(path), TERMS | PROSE_TERMS) == []


def test_help_of_commands_has_no_private_words():
    parser = cli.build_parser()
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = [action.help or "" for element in (parser, *commands.choices.values()) for action in element._actions]
    helps += [action.help or "" for action in commands._choices_actions]
    helps += [
        text or "" for element in (parser, *commands.choices.values()) for text in (element.description, element.epilog)
    ]
    assert len(helps) > 50
    assert private_words(helps, TERMS | PROSE_TERMS) == []


def test_descriptions_of_settings_have_no_private_words():
    meanings = [element.meaning for element in settings_reference.find_declared()]
    assert len(meanings) > 100
    assert private_words(meanings, TERMS | PROSE_TERMS) == []


# Modules whose texts are prompts of language models or values of tables; both stay unchanged.
_FIXED_TEXTS = ("captions/paraphrase.py", "judges/answers.py", "judges/questions.py", "judges/vision.py")
_FIXED_TEXTS += ("papers/paired/faircritic/", "papers/triplets/person_filter/", "papers/paired/printed.py")


def _errors_and_warnings(path):
    """Yield the texts of a module's raised errors, warnings and log messages; values are left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        calls = node.exc if isinstance(node, ast.Raise) else node if isinstance(node, ast.Call) else None
        if not isinstance(calls, ast.Call):
            continue
        name = getattr(calls.func, "attr", getattr(calls.func, "id", ""))
        if isinstance(node, ast.Raise) or name in ("warn", "warning", "refuse") or name.endswith("Error"):
            for argument in (*calls.args, *(keyword.value for keyword in calls.keywords)):
                parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
                texts = [element.value if isinstance(element, ast.Constant) else "{x}" for element in parts]
                yield "".join(map(str, texts))


@pytest.mark.parametrize(
    "path",
    [path for path in _files("biaslab/**/*.py") if not path.as_posix().split("biaslab/")[-1].startswith(_FIXED_TEXTS)],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_errors_and_warnings_have_no_private_words(path):
    assert private_words(_errors_and_warnings(path), TERMS | PROSE_TERMS) == []
