"""Texts that are made to be read for ever: what reads them takes a step or a few for each of their characters.

None of these tests measures time: what took steps by the square of so many characters would not end.
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
def test_replies_of_a_critic(reply):
    assert endpoint._parse_reply(reply) == "it is not one JSON object."


@pytest.mark.parametrize("reply", ["caption" + BLANK + "x", "here is the " * (N // 12), '"' * N, "'" + BLANK])
def test_replies_with_a_paraphrase(reply):
    assert isinstance(paraphrase._plain_answer(reply), str)


CAPTIONS = *(word + BLANK + "x" for word in ("a", "smiling", "Anna")), *(word * N for word in ("a ", "a", "a-"))
CAPTIONS += tuple(word * (N // 4) for word in ("Mr. ", "she "))


@pytest.mark.long
@pytest.mark.parametrize("caption", CAPTIONS)
def test_captions(caption):
    assert len(indicators.indicators([caption])) == 1
    assert isinstance(indicators.remove_gender([caption])[0], str)
    assert isinstance(paraphrase.paraphrase(caption, "nurse", 0), str)
    assert questions.read_answer(caption) and questions.read_yes_no(caption)
    assert isinstance(captioning.split_words(caption), str)
    assert triplet_prompts._swap(f"a{BLANK}person {caption}") and triplet_prompts.words(caption)


def test_what_findings_say():
    assert findings._singular(f"images{BLANK}(naive)") == f"image{BLANK}(naive)"


@pytest.mark.parametrize("added", ["the " * N, "the a as a woman" * (N // 16), " as a man." * (N // 10)])
def test_words_that_a_prompt_was_given(added):
    with pytest.raises(InputError, match="cannot read"):
        pairs.parse(f"one nurse on the left and one {added}")


@pytest.mark.parametrize("line", ["# a" + BLANK + "b", "#" + BLANK + "b", "# a" + "#" * N + "b", "# " + "# " * N])
def test_headings_of_notebooks(tmp_path, write_notebook, line):
    assert isinstance(notebook._first_heading([nbformat.v4.new_markdown_cell(line)]), str)
    write_notebook(tmp_path / "paradox/a.ipynb", "seed = 1", title=line)
    assert len(params.find_notebooks(tmp_path)) == 1


@pytest.mark.long
@pytest.mark.parametrize("text", ["/" * N, "~" + "/" * N, "/a" + "/" * N, "a:" * N, "/a/" * N, "file://" * N])
def test_paths(text):
    assert isinstance(redact.basename(text), str)
    assert isinstance(redact.redact(text, redact.sensitive_texts(text)), str)
