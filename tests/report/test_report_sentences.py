"""No sentence that a report's first page can show has more than 30 words."""

import re

import yaml

from biaslab.report import cards
from biaslab.runs import caveats

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


def test_report_texts_have_no_long_sentence(root):
    texts_by_source = {"limits": caveats.LIMITS, "glossary": list(texts_of(cards.words("glossary")))}
    texts_by_source["questions"] = [about["question"] for about in cards.words("papers").values()]
    for path in (*root.glob("biaslab/*/*/texts.yaml"), *root.glob("params/*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        texts_by_source[str(path)] = (
            list(texts_of(content)) if path.stem == "texts" else [content.get("description", "")]
        )
    assert len(texts_by_source) > 15
    assert {
        name: sentences
        for name, texts in texts_by_source.items()
        if (sentences := [s for t in texts for s in long_sentences(t)])
    } == {}
