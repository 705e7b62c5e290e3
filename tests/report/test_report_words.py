"""No sentence that a report's first page can show has more than 30 words."""

import re

import pytest
import yaml

from biaslab.report import cards
from biaslab.runs import limits

MOST = 30
# A sentence ends before a capital, a number, a name in braces or backticks, or the count n.
_ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9{`]|n[ ,])")


def long_sentences(text):
    return [s for s in _ENDS.split(" ".join(str(text).split())) if len(s.split()) > MOST]


def texts_of(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from texts_of(inner)
    elif isinstance(value, str):
        yield value


def test_what_counts_as_a_long_sentence():
    assert long_sentences("word " * 29 + "end. " + "Word " * 30) == []
    assert len(long_sentences("word " * 31)) == 1


@pytest.mark.parametrize("paper", ["paradox", "paired", "dalleval", "triplets", "synthesis", "ratings"])
def test_captions(root, paper):
    path = root / "biaslab" / "papers" / paper / "texts.yaml"
    texts = list(texts_of(yaml.safe_load(path.read_text(encoding="utf-8"))))
    assert texts
    assert [s for text in texts for s in long_sentences(text)] == []


def test_descriptions_of_runs(root):
    files = sorted((root / "params").glob("*.yaml"))
    assert len(files) > 5
    said = {f.name: yaml.safe_load(f.read_text(encoding="utf-8")).get("description", "") for f in files}
    assert {name: found for name, text in said.items() if (found := long_sentences(text))} == {}


def test_limits_questions_and_glossary():
    papers = [about["question"] for about in cards.words("papers").values()]
    fixed = [*limits.LIMITS, *papers, *texts_of(cards.words("glossary"))]
    assert [s for text in fixed for s in long_sentences(text)] == []
