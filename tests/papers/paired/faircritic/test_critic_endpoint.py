"""A vision-language model as critic: its requests, valid answers, and the handling of all others."""

import base64
import json
from io import BytesIO

import numpy as np
import pytest
from fake_endpoint import KEY, completion, failure
from PIL import Image

from biaslab.cache.result_cache import ResultCache
from biaslab.endpoints.settings import EndpointSettings
from biaslab.hub.image_sources import UnreadableImage
from biaslab.papers.paired.faircritic import endpoint
from biaslab.papers.paired.faircritic.critique import Counts, Critique, Guideline, briefs, critiques_table
from biaslab.papers.paired.faircritic.endpoint import READINGS, SCHEMA


@pytest.fixture
def server(server):
    server.reply = lambda question, n: completion(json.dumps(said()))
    return server


def said(**other):
    answer = {
        "biased": True,
        "kind": "towards stereotypes",
        "reasons": "All sheriffs look like men.",
        "guideline": "Show women as sheriffs in half of the pictures.",
    }
    return {**answer, **other}


def critiques_of(server, given, store=None):
    settings = EndpointSettings(url=server.url, model="some-vision", api_key_env="FAKE_KEY", timeout=5.0)
    return endpoint.critiques(given, settings, cache=store)


def image(image_id):
    """Return an image whose colour encodes its number."""
    k = int(image_id.split("-")[1].split("/")[0])
    return np.full((40, 60, 3), (k, 100, 200), np.uint8)


@pytest.fixture
def brief(crowd, texts):
    """Return a function that gives a brief for each identity in turn."""

    def make(*names, read=None, earlier=(), round_=1):
        people = crowd(*[(name, "male", "", 2, 6, 1) for name in names])
        reader = read or (lambda ids: [image(i) for i in ids])
        options = {"critic": "endpoint", "batch_size": 3, "earlier": earlier}
        return briefs(people, "occupation", round_, texts(people), reader, **options)

    return make


def question_images(parts):
    """Return the images in a question."""
    data = [part["image_url"]["url"].partition(",")[2] for part in parts if part["type"] == "image_url"]
    return [np.asarray(Image.open(BytesIO(base64.b64decode(one)))) for one in data]


def test_critiques_request_has_images_prompts_and_schema(server, brief):
    (given,) = brief("sheriff")
    (critique,) = critiques_of(server, [given])
    (request,) = server.requests
    assert request["path"] == "/v1/chat/completions" and request["temperature"] == 0
    assert request["response_format"]["type"] == "json_schema"
    assert request["response_format"]["json_schema"]["schema"] == SCHEMA
    (message,) = request["messages"]
    parts = message["content"]
    assert "asked for pictures of sheriffs. You see 3 of them" in parts[0]["text"]
    assert [p["type"] for p in parts] == ["text", *["text", "image_url"] * 3, "text"]
    assert parts[1]["text"] == "Picture 1 was asked for as: Generate a picture of one sheriff."
    assert parts[2]["image_url"]["url"].startswith("data:image/png;base64,")
    for image_id, pixels in zip(given.people["image_id"], question_images(parts), strict=True):
        assert (pixels == image(image_id)).all()
    assert server.keys == [f"Bearer {KEY}"]
    people = given.people["gender"]
    n = int(people.isin(["female", "male"]).sum())
    assert critique == Critique(
        *("occupation/sheriff", "occupation", 1, "sheriff"),
        *("judged", True, "towards stereotypes", "All sheriffs look like men."),
        (Guideline("sheriff", "", 1.0, "Show women as sheriffs in half of the pictures."),),
        Counts(int((people == "female").sum()), n, 3 - n, 3),
        raw=json.dumps(said()),
        image_ids=tuple(given.people["image_id"]),
    )


def test_critiques_table_lists_unsupported_fields(server, brief):
    (critique,) = critiques_of(server, brief("sheriff"))
    assert "unsupported_fields" not in critiques_table([critique])
    refusal = failure(400, "Unsupported parameter: 'response_format' is not supported with this model.")
    server.reply = lambda question, n: (
        refusal if "response_format" in server.requests[-1] else completion(json.dumps(said()))
    )
    (critique,) = critiques_of(server, brief("nurse"))
    assert critiques_table([critique])["unsupported_fields"].unique().tolist() == ["response_format"]


def test_critiques_without_bias_retain_guideline(server, brief):
    server.reply = lambda question, n: completion(
        json.dumps(said(biased=False, kind="none", guideline="", reasons="Even."))
    )
    (first,) = critiques_of(server, brief("sheriff"))
    assert (first.outcome, first.biased, first.guidelines) == ("judged", False, ())
    before = Critique(
        "occupation/sheriff", "occupation", 1, "sheriff", "judged", True, "…", "…",
        (Guideline("sheriff", "", 1.0, "Mix."),), Counts(1, 1, 0, 1),
    )  # fmt: skip
    (second,) = critiques_of(server, brief("sheriff", earlier=[before], round_=2))
    assert (second.biased, second.guidelines) == (False, before.guidelines)


def test_critiques_guideline_is_sanitised_to_one_line(server, brief):
    hostile = "  Show\nwomen,\ttoo.\u200b\u202e\x07  <script>alert(1)</script> "
    server.reply = lambda question, n: completion(json.dumps(said(guideline=hostile)))
    (critique,) = critiques_of(server, brief("sheriff"))
    assert critique.guidelines[0].text == "Show women, too. <script>alert(1)</script>"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("I see only men.", "it is not one JSON object"),
        ("[" * 5000, "it is not one JSON object"),
        ("[]", "with exactly the fields biased, kind, reasons, guideline"),
        (json.dumps(said(more=1)), "with exactly the fields"),
        (json.dumps(said(biased=1)), '"biased" must be true or false'),
        (json.dumps(said(kind=None)), '"kind" must be a text'),
        (json.dumps(said(reasons=" \n")), '"reasons" is empty'),
        (json.dumps(said(guideline=" ")), '"guideline" is empty, but there is bias'),
        (json.dumps(said(guideline="x" * 301)), '"guideline" has 301 characters; at most 300'),
    ],
)
def test_critiques_invalid_reply_is_retried_then_no_judgement(server, brief, tmp_path, reply, why):
    store = ResultCache(tmp_path / "store")
    server.reply = lambda question, n: completion(reply)
    (critique,) = critiques_of(server, brief("sheriff"), store)
    assert (critique.outcome, critique.cause, critique.biased) == ("no_judgement", "invalid", None)
    assert critique.guidelines == () and critique.raw == reply and why in critique.reasons
    # The second request states the error of the first answer.
    assert len(server.requests) == READINGS
    first, second, third = server.requests[1]["messages"]
    assert first == server.requests[0]["messages"][0]
    assert second == {"role": "assistant", "content": reply}
    assert third["role"] == "user" and why in third["content"]
    # Invalid answers are paid for as well, and not requested again.
    critiques_of(server, brief("sheriff"), store)
    assert len(server.requests) == READINGS


def test_critiques_accept_second_reply(server, brief):
    # And it may be fenced.
    server.reply = lambda question, n: completion("Well, …" if n == 1 else f"```json\n{json.dumps(said())}\n```")
    (critique,) = critiques_of(server, brief("sheriff"))
    assert critique.outcome == "judged" and len(server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (completion(None, message={"content": None, "refusal": "I cannot."}), "refused"),
        (completion(""), "empty"),
        (failure(500, "it broke"), "unavailable"),
    ],
)
def test_critiques_record_failure_of_one_batch(server, brief, reply, cause):
    """One of two batches gets no answer; the other's is valid."""
    good = "sheriffs"
    server.reply = lambda question, n: completion(json.dumps(said())) if good in question[0]["text"] else reply
    first, second = critiques_of(server, brief("sheriff", "guard"))
    assert first.outcome == "judged"
    assert (second.outcome, second.cause) == ("no_judgement", cause)
    assert second.reasons.startswith("There is no answer: ") and second.guidelines == ()
    table = critiques_table([first, second])[["identity", "status", "cause", "biased", "guideline"]]
    guideline = "Show women as sheriffs in half of the pictures."
    assert table.to_numpy().tolist() == [
        ["sheriff", "judged", "", "yes", guideline],
        ["guard", "no_judgement", cause, "", ""],
    ]


def test_critiques_skip_unreadable_images(server, brief):
    read = lambda ids: [UnreadableImage("damaged"), *[image(i) for i in ids[1:]]]  # noqa: E731
    (given,) = brief("sheriff", read=read)
    (critique,) = critiques_of(server, [given])
    assert critique.outcome == "judged" and len(server.questions[0]) == 2 + 2 * 2
    none = lambda ids: [UnreadableImage("blocked") for _ in ids]  # noqa: E731
    (critique,) = critiques_of(server, brief("sheriff", read=none))
    assert (critique.outcome, critique.cause, critique.image_ids) == ("no_judgement", "no_images", ())
    assert critique.reasons == "None of the images can be shown."
    assert len(server.requests) == 1
