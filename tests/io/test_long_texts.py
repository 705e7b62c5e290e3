"""Adversarial long texts: all readers take linear time.

None of these tests measures time: with quadratic time they would not end.
"""

import nbformat
import pytest

from biaslab import redact
from biaslab.captions import indicators, paraphrase
from biaslab.errors import InputError
from biaslab.judges import questions
from biaslab.metrics import captioning
from biaslab.papers import findings
from biaslab.papers.paired.faircritic import endpoint
from biaslab.papers.triplets import prompts as triplet_prompts
from biaslab.report import notebook
from biaslab.runs import params
from biaslab_world import pairs

N = 150_000
BLANK = " " * N


@pytest.mark.parametrize("reply", ["```" + BLANK + "x", "```" * N, "```json" + "\n" * N + "```x", "[" * N])
def test_parse_reply_is_linear_in_length(reply):
    assert endpoint._parse_reply(reply) == "it is not one JSON object."


@pytest.mark.parametrize("reply", ["caption" + BLANK + "x", "here is the " * (N // 12), '"' * N, "'" + BLANK])
def test_plain_answer_is_linear_in_length(reply):
    assert isinstance(paraphrase._plain_answer(reply), str)


CAPTIONS = *(word + BLANK + "x" for word in ("a", "smiling", "Anna")), *(word * N for word in ("a ", "a", "a-"))
CAPTIONS += tuple(word * (N // 4) for word in ("Mr. ", "she "))


@pytest.mark.long
@pytest.mark.parametrize("caption", CAPTIONS)
def test_caption_functions_are_linear_in_length(caption):
    assert len(indicators.indicators([caption])) == 1
    assert isinstance(indicators.remove_gender([caption])[0], str)
    assert isinstance(paraphrase.paraphrase(caption, "nurse", 0), str)
    assert questions.read_answer(caption) and questions.read_yes_no(caption)
    assert isinstance(captioning.split_words(caption), str)
    assert triplet_prompts._swap(f"a{BLANK}person {caption}") and triplet_prompts.words(caption)


def test_singular_is_linear_in_length():
    assert findings._singular(f"images{BLANK}(naive)") == f"image{BLANK}(naive)"


@pytest.mark.parametrize("added", ["the " * N, "the a as a woman" * (N // 16), " as a man." * (N // 10)])
def test_pairs_parse_is_linear_in_length(added):
    with pytest.raises(InputError, match="cannot read"):
        pairs.parse(f"one nurse on the left and one {added}")


@pytest.mark.parametrize("line", ["# a" + BLANK + "b", "#" + BLANK + "b", "# a" + "#" * N + "b", "# " + "# " * N])
def test_notebook_headings_are_linear_in_length(tmp_path, write_notebook, line):
    assert isinstance(notebook._first_heading([nbformat.v4.new_markdown_cell(line)]), str)
    write_notebook(tmp_path / "paradox/a.ipynb", "seed = 1", title=line)
    assert len(params.find_notebooks(tmp_path)) == 1


@pytest.mark.long
@pytest.mark.parametrize("text", ["/" * N, "~" + "/" * N, "/a" + "/" * N, "a:" * N, "/a/" * N, "file://" * N])
def test_redact_is_linear_in_length(text):
    assert isinstance(redact.basename(text), str)
    assert isinstance(redact.redact(text, redact.sensitive_texts(text)), str)
