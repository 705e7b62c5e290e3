"""What servers and gateways say beside an answer: errors under a status of 200, refusals, thoughts, other addresses."""

import base64
import json

import pytest
import test_image_endpoint as images
from fake_endpoint import completion, failure, picture
from hypothesis import given, settings
from hypothesis import strategies as some
from test_chat import answers

from biaslab.endpoints import replies
from biaslab.errors import ParameterError
from biaslab.papers.paired.faircritic.endpoint import _parse_reply


def bought(server, store, n=1, **more):
    return images.made(server, store, images.asked(n), **more)


def body(reply, status=200):
    return status, {}, json.dumps(reply)


# -- errors in the body of a reply that has none by its status --------------------------------------------------

ERRORS = [
    ({"error": {"code": 429, "message": "Rate limit exceeded"}}, 429),
    ({"error": {"code": "429", "message": "slow down"}}, 429),
    ({"error": {"message": "upstream", "status": 502}}, 502),
    ({"error": {"type": "rate_limit_error", "message": "wait"}}, 429),
    ({"error": "the upstream server timed out"}, 408),
    ({"error": {"message": "overloaded"}}, 502),
    ({"choices": [{"message": {"content": None}, "error": {"code": 503, "message": "none left"}}]}, 503),
    ({"choices": [{"message": {"content": None}, "finish_reason": "error"}]}, 502),
    ({"error": None, "choices": [{"message": {"content": None}}]}, 200),
    # What was answered is an answer, whatever else is said.
    ({"error": {"code": 429}, "choices": [{"message": {"content": "yes"}}]}, 200),
    ({"error": {"code": 429}, "data": [{"b64_json": "QQ=="}]}, 200),
]


@pytest.mark.parametrize(("reply", "status"), ERRORS)
def test_an_error_in_a_body_has_the_status_that_it_says(reply, status):
    assert replies.status(200, json.dumps(reply).encode()) == status
    assert replies.status(404, json.dumps(reply).encode()) == 404


def test_error_in_a_body_is_asked_again_and_never_kept(server, store):
    passing = {str(k): reply for k, (reply, status) in enumerate(ERRORS) if status in (408, 429, 502, 503)}

    def reply(question, n):
        again = server.questions.count(question) > 1
        return completion("here") if again else body({"choices": [{"message": {"content": None}}]} | passing[question])

    server.reply = reply
    assert {(a.outcome, a.text) for a in answers(server, list(passing), store)} == {("answered", "here")}
    assert len(server.requests) == 2 * len(passing)


# -- what a policy stops -------------------------------------------------------------------------------------

REFUSALS = [
    failure(400, "Your request was rejected by our safety system.", "400"),
    failure(400, "flagged", "ResponsibleAIPolicyViolation"),
    failure(400, "flagged", "moderation_blocked"),
    failure(500, "flagged", "content_filter"),
    failure(403, "The prompt violates our content policy.", "forbidden"),
    body({"error": {"message": "no", "innererror": {"code": "content_filter"}}}, 400),
    body({"error": {"code": "400", "message": "x", "inner_error": {"code": "ResponsibleAIPolicyViolation"}}}, 422),
    # Under a status of 200, too.
    body({"error": {"code": 400, "message": "blocked by the moderation system"}}),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_policy_is_recognized_in_each_form_of_an_error(refusal):
    assert replies.is_policy(refusal[2].encode())


@pytest.mark.parametrize("refusal", REFUSALS[-4:])
def test_refusals_are_outcomes_and_kept(server, store, refusal):
    """Their statuses are 403, 400, 422 and 200."""
    server.reply = lambda question, n: refusal
    # More in a row than an endpoint out of order would have.
    found = bought(server, store, 4)
    assert found.table["status"].tolist() == ["refused"] * 4 and found.spent == 0
    # Kept: nobody is asked again.
    bought(server, store, 4)
    assert len(server.requests) == 4
    assert [a.outcome for a in answers(server, ["one"], store)] == ["filtered"]


# -- fields that a model does not take -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        {"message": "Unsupported value: 'temperature' does not support 0.0 with this model.", "param": "temperature"},
        {"message": "This model does not support the temperature parameter."},
    ],
)
def test_a_model_that_takes_no_temperature_is_asked_without_from_then_on(server, store, said, caplog):
    def reply(question, n):
        return body({"error": said}, 400) if "temperature" in server.requests[-1] else completion("fine")

    server.reply = reply
    assert {a.text for a in answers(server, list("012345678"), store)} == {"fine"}
    with_it = [request for request in server.requests if "temperature" in request]
    # No more than were under way before it was known.
    assert len(server.requests) == 9 + len(with_it) and len(with_it) <= 8
    assert "does not accept the field 'temperature'" in caplog.text
    # They are kept as what was asked for.
    answers(server, ["3"], store)
    assert len(server.requests) == 9 + len(with_it)


# -- what models write around an answer ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("<think>The user wants …</think>\n\nA photo of a nurse", "A photo of a nurse"),
        ("The user wants …</think>A photo", "A photo"),
        ("<think>So many thoughts that", ""),
        ("A photo<|im_end|>", "A photo"),
        ("<|start_header_id|>A photo<|eot_id|>", "A photo"),
        # What only looks like marks stays.
        ("a <| b |> c", "a <| b |> c"),
        ("1 <| 2", "1 <| 2"),
        ("plain", "plain"),
    ],
)
def test_thoughts_and_marks_are_no_part_of_an_answer(server, said, answer):
    assert replies.plain_text(said) == answer


def test_thoughts_alone_are_an_empty_answer(server):
    thought = "<think>So many thoughts"
    server.reply = lambda question, n: completion(thought + ("</think>A photo" if question == "one" else " that"))
    found = answers(server, ["one", "two"])
    assert [(a.text, a.outcome) for a in found] == [("A photo", "answered"), ("", "empty")]


@pytest.mark.parametrize(("reason", "text"), [("stop", "A photo"), ("length", "")])
def test_what_a_server_puts_among_the_reasoning_counts_where_the_model_came_to_its_end(reason, text):
    message = {"content": "", "reasoning_content": "Thoughts.</think>A photo"}
    assert replies.text(message, is_complete=reason == "stop") == text


# -- addresses and base64 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["relative", "unpadded", "of URLs"])
def test_pictures_are_had_however_a_server_gives_them(server, store, form):
    # Its base64 has letters that the alphabet of URLs lacks, and ends with a pad.
    data = picture((255, 251, 254), "JPEG", (7, 5))
    text = base64.b64encode(data).decode()
    assert {"+", "/", "="} <= set(text)
    server.files["/files/1.jpg"] = (200, {}, data)
    of_urls = text.replace("+", "-").replace("/", "_")
    given = {"relative": {"url": "/files/1.jpg"}, "unpadded": {"b64_json": text.rstrip("=")}}
    server.reply = lambda question, n: body({"data": [given.get(form, {"b64_json": of_urls})]})
    found = bought(server, store, allowed_hosts=[server.url.split("/")[2]])
    assert found.read(["p0/0"])[0].shape == (5, 7, 3)


# -- whatever comes --------------------------------------------------------------------------------------------

WORDS = ("error", "code", "message", "choices", "data", "content", "status", "type", "param", "x")
JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(WORDS), inner, max_size=4),
    max_leaves=6,
)


@pytest.mark.long
@settings(max_examples=50)
@given(JSON)
def test_no_reply_is_more_than_can_be_read(reply):
    data = json.dumps(reply).encode()
    assert replies.status(200, data) == 200 or 400 <= replies.status(200, data) <= 599
    code, message = replies.error(data)
    assert isinstance(code, str) and isinstance(message, str)
    assert replies.is_policy(data) in (True, False)
    assert replies.refused_field(data, ["temperature"]) in ("", "temperature")


@given(some.binary(max_size=40) | some.text(alphabet="<|>think/ab \n`{}", max_size=80).map(str.encode))
def test_nor_is_any_text(data):
    assert replies.status(200, data) == 200
    said = data.decode("utf-8", errors="replace")
    plain = replies.plain_text(said)
    assert plain == plain.strip() and len(plain) <= len(said)
    assert isinstance(_parse_reply(said), str)


@pytest.mark.parametrize("piece", ["<|", "<|a", "```", "</think>", "<think>", "` ", '{"error":'])
def test_long_replies_are_read_to_their_end(piece):
    """Eight megabytes are read: with an expression that takes cubic time this would not end."""
    said = piece * 200_000
    assert len(replies.plain_text(said)) <= len(said)
    assert isinstance(_parse_reply(said), str) and replies.status(200, said.encode()) == 200


def test_a_key_that_is_not_accepted_is_no_refusal(server, store):
    server.reply = lambda question, n: failure(403, "You have no access to this model.", "forbidden")
    with pytest.raises(ParameterError, match="does not accept the key"):
        bought(server, store)


# -- placeholders of content filters ---------------------------------------------------------------------------

FILTERED = {"hate": {"filtered": False, "severity": "safe"}, "sexual": {"filtered": True, "severity": "high"}}


@pytest.mark.parametrize(
    ("picture_says", "reply_says", "field"),
    [
        ({"finish_reason": "CONTENT_FILTERED"}, {}, "finish_reason CONTENT_FILTERED"),
        ({}, {"finishReason": "SAFETY"}, "finish_reason SAFETY"),
        ({"raiFilteredReason": "people"}, {}, "filtered_reason people"),
        ({"content_filter_results": FILTERED}, {}, "content_filter_results sexual"),
        ({"finish_reason": "SUCCESS"}, {"finish_reason": "stop"}, ""),
        ({"content_filter_results": {"hate": {"filtered": False}}}, {}, ""),
        ({"content_filter_results": ["hate"], "finish_reason": 3}, {}, ""),
        ({}, {}, ""),
    ],
)
def test_placeholder_names_the_field_that_says_so(picture_says, reply_says, field):
    reply = {"data": [{"b64_json": "QQ==", **picture_says}], **reply_says}
    assert replies.placeholder(json.dumps(reply).encode()) == field
