"""Paraphrases keep occupation and gender, and change other words."""

import pandas as pd
import pytest
from fake_endpoint import KEY, completion, failure

from biaslab.cache.result_cache import ResultCache
from biaslab.captions.corpus import open_corpus
from biaslab.captions.indicators import indicators
from biaslab.captions.paraphrase import ERRORS, LONGEST_CAPTION, paraphrase, paraphrases
from biaslab.captions.search import Matcher
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import ParameterError
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning.validation import check_plan


@pytest.mark.parametrize(
    ("text", "occupation", "allowed"),
    [
        ("A photo of a nurse at work", "nurse", {"A picture of a nurse working", "An image of a nurse working"}
         | {"A picture of a nurse on the job", "An image of a nurse on the job"}),
        ("a nurse smiling in the office", "nurse", {"a nurse with a smile in the office"}),
        ("portrait photo of a chef", "chef", {"portrait picture of a chef", "portrait of a chef"}),
        ("A nurse", "nurse", {"A photo of a nurse", "A picture of a nurse", "An image of a nurse"}),
        # A photographer's "photo" is none, and a smiling chef stays one.
        ("Some photographer, some smiling chef!", "chef", {"Some photographer, some smiling chef!",
                                                          "some smiling chef!, Some photographer"}),
        # Words with capitals inside may be names; the occupation stays though it is a word that could change.
        ("He told Happy Large", "large", {"He told Happy Large"}),
        ("big photo", "photo", {"large photo"}),
    ],
)  # fmt: skip
def test_paraphrase_gives_only_allowed_wordings(text, occupation, allowed):
    result = {paraphrase(text, occupation, seed) for seed in range(40)}
    assert result <= allowed
    # Each wording occurs for some seed.
    assert result == allowed


def test_paraphrase_keeps_occupation_and_gender():
    captions = pd.concat(list(open_corpus("mini", max_captions=800, seed=1).batches()), ignore_index=True)
    captions = captions[captions["truth_occupation"].notna()].reset_index(drop=True)
    pairs = list(zip(captions["text"], captions["truth_occupation"], strict=True))
    new = [paraphrase(text, occupation, 7) for text, occupation in pairs]
    assert new == [paraphrase(text, occupation, 7) for text, occupation in pairs]
    indicators_before, indicators_after = indicators(captions["text"]), indicators(new)
    assert (indicators_before["indicator"] == indicators_after["indicator"]).all()
    matcher = Matcher(sorted(set(captions["truth_occupation"])))
    for terms_before, terms_after in zip(matcher.match(captions["text"]), matcher.match(new), strict=True):
        assert terms_before.tolist() == terms_after.tolist()
    assert paraphrases([], []).empty
    # Most captions change.
    assert sum(a != b for a, b in zip(new, captions["text"], strict=True)) > 0.6 * len(new)


@pytest.mark.long
def test_paraphrase_is_linear_in_length():
    """With quadratic time this would not end."""
    text = "photo of a nurse smiling, " * 40_000
    result = paraphrase(text, "nurse")
    assert paraphrase("", "nurse") == "" and result.count("a nurse with a smile, ") == 40_000
    assert "photo" not in result


# -- by a model ----------------------------------------------------------------------------------------------


KINDS = ["text", "status"]


def by_model(server, captions, occupations, **more):
    endpoint = EndpointSettings(url=server.url, model="m", api_key_env="FAKE_KEY")
    return paraphrases(captions, occupations, endpoint=endpoint, progress=False, **more)


def caption_in(question):
    return question.partition("Phrase/Sentence: ")[2]


def test_paraphrases_instruction_matches_paper(server):
    """A.6: other words, the same meaning and intent, and the occupation's word; temperature 0."""
    server.reply = lambda question, n: completion("A portrait of {some} nurse")
    result = by_model(server, ["Photo of a {nurse}"], ["nurse"])
    assert result[KINDS].to_numpy().tolist() == [["A portrait of {some} nurse", "paraphrased"]]
    (request,) = server.requests
    (message,) = request["messages"]
    assert request["temperature"] == 0
    # As printed in A.6, with the occupation and the caption in place of [OCCUPATION] and [CAPTION].
    assert message["content"] == (
        "Please paraphrase the phrase/sentence below. You can change words without changing the original meaning or "
        "intent. You must include the word nurse.\nPhrase/Sentence: Photo of a {nurse}"
    )


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('"A nurse smiles"', "A nurse smiles"),
        ("Paraphrase: A nurse\n smiles ", "A nurse smiles"),
        ("Phrase/Sentence: A nurse smiles", "A nurse smiles"),
        ("“A nurse smiles”", "A nurse smiles"),
        ('"A" and a nurse "B"', '"A" and a nurse "B"'),
        ("Two Nurses smile", "Two Nurses smile"),
        ("Sure! Here is the paraphrased caption: A nurse smiles", "A nurse smiles"),
        ("Certainly. Rephrased caption:\nA nurse smiles", "A nurse smiles"),
        ("A sorry nurse smiles", "A sorry nurse smiles"),
    ],
)
def test_paraphrases_strip_text_around_answer(server, answer, text):
    server.reply = lambda question, n: completion(answer)
    assert by_model(server, ["a nurse with a smile"], ["nurse"])[KINDS].to_numpy().tolist() == [[text, "paraphrased"]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("caption", "first", "outcome"),
    [
        ("a prime minister speaks", "a politician speaks", "lost_occupation"),
        ("the prime minister and her dog", "the prime minister with a dog", "lost_gender"),
        ("the prime minister and a dog", "the prime minister and his dog", "added_gender"),
        ("a prime minister", "a prime minister " + "who speaks and speaks " * 20, "too_long"),
        ("a prime minister", "I'm sorry, but I can't write about a prime minister.", "declined"),
        ("a prime minister", "As an AI model I have no view of a prime minister.", "declined"),
    ],
)
def test_paraphrases_with_lost_content_are_retried_once(server, caption, first, outcome):
    good = caption.replace("minister", "minister, seen here,")
    server.reply = lambda question, n: completion(first if n == 1 else good)
    assert by_model(server, [caption], ["prime minister"])[KINDS].to_numpy().tolist() == [[good, "paraphrased"]]
    retry_messages = server.requests[1]["messages"]
    assert [m["role"] for m in retry_messages] == ["user", "assistant", "user"]
    assert retry_messages[1]["content"] == first.strip()
    assert '"prime minister" must be in your text' in retry_messages[2]["content"]

    server.reply = lambda question, n: completion(first)
    by_rule = paraphrase(caption, "prime minister", 5)
    result = by_model(server, [caption], ["prime minister"], seed=5)
    assert result[KINDS].to_numpy().tolist() == [[by_rule, outcome]]
    assert outcome in ERRORS
    assert len(server.requests) == 4


@pytest.mark.long
def test_paraphrases_endless_answer_is_truncated(server, tmp_path):
    store = ResultCache(tmp_path)
    server.reply = lambda question, n: completion("a nurse " + "and a dog " * 500_000)
    result = by_model(server, ["a nurse"], ["nurse"], cache=store)
    assert result["status"].tolist() == ["too_long"]
    # The answer, and the part that is sent back.
    assert len(server.requests[1]["messages"][1]["content"]) == 4 * LONGEST_CAPTION
    # Pages of 4,096 bytes: those of empty tables and their indices, and of two answers.
    assert (tmp_path / "purchases.sqlite").stat().st_size < 80_000


def test_paraphrases_without_answer_use_rules(server, tmp_path):
    captions = ["a nurse at work", "a nurse with a smile", "a nurse " + "x" * LONGEST_CAPTION, "a nurse and a cat"]
    replies = {captions[0]: completion("At work: a nurse"), captions[1]: completion(""), captions[3]: failure(400)}
    server.reply = lambda question, n: replies[caption_in(question)]
    store = ResultCache(tmp_path)
    result = by_model(server, captions, ["nurse"] * 4, seed=3, cache=store)
    assert result["status"].tolist() == ["paraphrased", "empty", "not_asked", "rejected"]
    assert result["text"].tolist() == ["At work: a nurse", *(paraphrase(c, "nurse", 3) for c in captions[1:])]
    # The first answer and the empty second one are cached.
    n_requests = len(server.requests)
    pd.testing.assert_frame_equal(by_model(server, captions, ["nurse"] * 4, seed=3, cache=store), result)
    assert len(server.requests) == n_requests + 1


# -- in the pipeline -----------------------------------------------------------------------------------------


@pytest.fixture
def open_pipeline(tmp_path, server):
    """Return a function that opens a pipeline on three captions."""
    texts = ["Portrait of a female nurse", "A nurse at work", "A nurse and an engineer"]
    pd.DataFrame({"text": texts}).to_csv(tmp_path / "a.csv", index=False)

    def opened(**more):
        configuration = {
            "captions": {
                "corpus": str(tmp_path / "a.csv"),
                "occupations": ["nurse", "engineer"],
                "approaches": ["paraphrased"],
                "paraphraser": "endpoint",
            },
            "compute": {"cache": str(tmp_path / "store")},
            "endpoint": {"url": server.url, "model": "m", "api_key_env": "FAKE_KEY"},
        }
        return Pipeline("mini", Settings.from_mapping(configuration).with_changes(**more), progress=False)

    return opened


def test_pipeline_paraphrases_by_model_or_rules(open_pipeline, server, tmp_path):
    server.reply = lambda question, n: completion(f"Seen here: {caption_in(question)}")
    prompts = open_pipeline().prompts("paraphrased")
    captions = open_pipeline().prompts("caption_prompts")
    assert "paraphrase_status" not in captions
    assert sorted(prompts["text"]) == sorted("Seen here: " + captions["text"])
    assert set(prompts["paraphrase_status"]) == {"paraphrased"}
    # A caption with two occupations is paraphrased once for each.
    assert len(server.requests) == len(prompts) == 4
    open_pipeline().prompts("paraphrased")
    assert len(server.requests) == 4
    assert KEY not in str(open_pipeline().settings.describe())
    rules = open_pipeline(captions={"paraphraser": "rules"}).prompts("paraphrased")
    assert set(rules["paraphrase_status"]) == {"by_rule"}
    assert rules["prompt_id"].tolist() == prompts["prompt_id"].tolist()


def test_paraphraser_endpoint_is_checked_before_run(open_pipeline, monkeypatch):
    monkeypatch.setenv("FAKE_KEY", "")
    settings = open_pipeline().settings
    with pytest.raises(ParameterError, match="environment variable FAKE_KEY contains no key"):
        check_plan(
            Pipeline("mini", settings.with_changes(captions={"corpus": "mini", "max_captions": 10})),
            ["paradox_paraphrases"],
        )
    with pytest.raises(ParameterError, match=r"needs endpoint.url .* and endpoint.model\."):
        open_pipeline(endpoint={"url": ""}).endpoint("paraphraser")
