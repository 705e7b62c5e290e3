"""Special replies of servers and gateways: errors with status 200, refusals, thoughts, other addresses."""

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


def buy_images(server, store, n=1, **more):
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
    # An answer counts, even with an error next to it.
    ({"error": {"code": 429}, "choices": [{"message": {"content": "yes"}}]}, 200),
    ({"error": {"code": 429}, "data": [{"b64_json": "QQ=="}]}, 200),
]


@pytest.mark.parametrize(("reply", "status"), ERRORS)
def test_status_of_error_in_body(reply, status):
    assert replies.status(200, json.dumps(reply).encode()) == status
    assert replies.status(404, json.dumps(reply).encode()) == 404


def test_error_in_body_is_retried_and_not_cached(server, store):
    temporary_errors = {str(k): reply for k, (reply, status) in enumerate(ERRORS) if status in (408, 429, 502, 503)}

    def reply(question, n):
        is_repeated = server.questions.count(question) > 1
        return (
            completion("here")
            if is_repeated
            else body({"choices": [{"message": {"content": None}}]} | temporary_errors[question])
        )

    server.reply = reply
    assert {(a.outcome, a.text) for a in answers(server, list(temporary_errors), store)} == {("answered", "here")}
    assert len(server.requests) == 2 * len(temporary_errors)


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
def test_is_policy_recognises_each_error_form(refusal):
    assert replies.is_policy(refusal[2].encode())


@pytest.mark.parametrize("refusal", REFUSALS[-4:])
def test_policy_refusals_are_cached_outcomes(server, store, refusal):
    """Their statuses are 403, 400, 422 and 200."""
    server.reply = lambda question, n: refusal
    # More in a row than an endpoint out of order would have.
    result = buy_images(server, store, 4)
    assert result.table["status"].tolist() == ["refused"] * 4 and result.spent == 0
    # Cached: no request is repeated.
    buy_images(server, store, 4)
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
def test_refused_temperature_is_omitted_from_then_on(server, store, said, caplog):
    def reply(question, n):
        return body({"error": said}, 400) if "temperature" in server.requests[-1] else completion("fine")

    server.reply = reply
    assert {a.text for a in answers(server, list("012345678"), store)} == {"fine"}
    with_it = [request for request in server.requests if "temperature" in request]
    # At most those under way before the first refusal.
    assert len(server.requests) == 9 + len(with_it) and len(with_it) <= 8
    assert "does not accept the field 'temperature'" in caplog.text
    # They are cached under the original request.
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
def test_plain_text_removes_thoughts_and_marks(server, said, answer):
    assert replies.plain_text(said) == answer


def test_thoughts_alone_are_empty_answer(server):
    thought = "<think>So many thoughts"
    server.reply = lambda question, n: completion(thought + ("</think>A photo" if question == "one" else " that"))
    result = answers(server, ["one", "two"])
    assert [(a.text, a.outcome) for a in result] == [("A photo", "answered"), ("", "empty")]


@pytest.mark.parametrize(("reason", "text"), [("stop", "A photo"), ("length", "")])
def test_text_uses_reasoning_only_if_complete(reason, text):
    message = {"content": "", "reasoning_content": "Thoughts.</think>A photo"}
    assert replies.text(message, is_complete=reason == "stop") == text


# -- addresses and base64 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["relative", "unpadded", "of URLs"])
def test_images_of_each_reply_form_are_read(server, store, form):
    # Its base64 has letters that the alphabet of URLs lacks, and ends with a pad.
    data = picture((255, 251, 254), "JPEG", (7, 5))
    text = base64.b64encode(data).decode()
    assert {"+", "/", "="} <= set(text)
    server.files["/files/1.jpg"] = (200, {}, data)
    of_urls = text.replace("+", "-").replace("/", "_")
    given = {"relative": {"url": "/files/1.jpg"}, "unpadded": {"b64_json": text.rstrip("=")}}
    server.reply = lambda question, n: body({"data": [given.get(form, {"b64_json": of_urls})]})
    result = buy_images(server, store, allowed_hosts=[server.url.split("/")[2]])
    assert result.read(["p0/0"])[0].shape == (5, 7, 3)


# -- arbitrary replies -----------------------------------------------------------------------------------------

WORDS = ("error", "code", "message", "choices", "data", "content", "status", "type", "param", "x")
JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(WORDS), inner, max_size=4),
    max_leaves=6,
)


@pytest.mark.long
@settings(max_examples=50)
@given(JSON)
def test_replies_of_any_json_are_parsed(reply):
    data = json.dumps(reply).encode()
    assert replies.status(200, data) == 200 or 400 <= replies.status(200, data) <= 599
    code, message = replies.error(data)
    assert isinstance(code, str) and isinstance(message, str)
    assert replies.is_policy(data) in (True, False)
    assert replies.refused_field(data, ["temperature"]) in ("", "temperature")


@given(some.binary(max_size=40) | some.text(alphabet="<|>think/ab \n`{}", max_size=80).map(str.encode))
def test_replies_of_any_text_are_parsed(data):
    assert replies.status(200, data) == 200
    said = data.decode("utf-8", errors="replace")
    plain = replies.plain_text(said)
    assert plain == plain.strip() and len(plain) <= len(said)
    assert isinstance(_parse_reply(said), str)


@pytest.mark.parametrize("piece", ["<|", "<|a", "```", "</think>", "<think>", "` ", '{"error":'])
def test_long_replies_are_parsed_in_linear_time(piece):
    """Eight megabytes are read: with an expression that takes cubic time this would not end."""
    said = piece * 200_000
    assert len(replies.plain_text(said)) <= len(said)
    assert isinstance(_parse_reply(said), str) and replies.status(200, said.encode()) == 200


def test_refused_key_is_not_policy_refusal(server, store):
    server.reply = lambda question, n: failure(403, "You have no access to this model.", "forbidden")
    with pytest.raises(ParameterError, match="does not accept the key"):
        buy_images(server, store)


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
def test_placeholder_names_filter_field(picture_says, reply_says, field):
    reply = {"data": [{"b64_json": "QQ==", **picture_says}], **reply_says}
    assert replies.placeholder(json.dumps(reply).encode()) == field
