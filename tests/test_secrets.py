"""Keys and passwords: what of a URL is one, and texts without those that the environment holds."""

import base64
import html
import json
from urllib.parse import quote

import pytest

from biaslab.ground import secrets

KEY = "sk-Test+/=5f0e1d2c3b4a59687"


@pytest.mark.parametrize(
    ("url", "where", "rest"),
    [
        ("https://me:word@h.org/v1", "a user or a password", "https://[key]@h.org/v1"),
        ("https://h.org/v1?a=1&pwd=word&b=2", "after '?'", "https://h.org/v1?a=1&pwd=[key]&b=2"),
        ("https://h.org/v1?a=1;key=word", "after '?'", "https://h.org/v1?a=1;key=[key]"),
        ("https://h.org/v1?%6bey=word", "after '?'", "https://h.org/v1?%6bey=[key]"),
        ("https://h.org/?X-Amz-Credential=word/x&X=1", "after '?'", "https://h.org/?X-Amz-Credential=[key]&X=1"),
        ("https://h.org/a.jpg?sig=wo/rd==", "after '?'", "https://h.org/a.jpg?sig=[key]"),
        ("https://h.org/v1?accessToken=word", "after '?'", "https://h.org/v1?accessToken=[key]"),
        ("https://h.org/v1?x=sk-5f0e1d2c", "after '?'", "https://h.org/v1?x=[key]"),
        ("https://h.org/v1;token=word/x", "in its path", "https://h.org/v1;token=[key]/x"),
        ("https://h.org/sk-5f0e1d2c/v1", "in its path", "https://h.org/[key]/v1"),
        ("https://h.org/v1#token=word", "after '#'", "https://h.org/v1#token=[key]"),
        ("https://sk-5f0e1d2c.h.org/v1", "as its host", "https://[key].h.org/v1"),
    ],
)
def test_a_secret_is_found_in_any_part_of_a_url(url, where, rest):
    assert where in secrets.in_url(url)
    assert secrets.without_in_urls(f"see <{url}>, 'x'") == f"see <{rest}>, 'x'"


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/v1",
        "https://x.openai.azure.com/openai/deployments/gpt-4o-2024-07-18?api-version=2024-06-01",
        "https://api-inference.huggingface.co/models/stabilityai/stable-diffusion-xl-base-1.0/v1",
        # An account's number and a project's, which are none.
        "https://gateway.ai.cloudflare.com/v1/0123456789abcdef0123456789abcdef/lab/openai",
        "https://h.org/8b1a9953-c461-4a9e-8f0e-2d1b1f6f7a55/v1?keyword=nurse&author=me&code=",
        "https://h.org/sk-learn/v1",
    ],
)
def test_a_url_without_a_secret_is_left_as_it_is(url):
    assert secrets.in_url(url) == ""
    assert secrets.without_in_urls(f"({url})") == f"({url})"


def test_what_is_long_is_a_key_of_an_endpoint_and_the_name_of_a_picture():
    url = "https://h.org/" + "aB3" * 14 + "/v1"
    assert "in its path" in secrets.in_url(url) and secrets.without_in_urls(url) == url


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        quote(KEY),
        quote(KEY, safe=""),
        quote(quote(KEY, safe=""), safe=""),
        html.escape(KEY),
        "".join(f"&#{ord(c)};" for c in KEY),
        "".join(f"\\u{ord(c):04x}" for c in KEY),
        json.dumps(KEY).replace("/", "\\/")[1:-1],
    ],
)
def test_a_key_is_blotted_in_every_form(form):
    assert secrets.without(f"bad key {form}.", [KEY]) == "bad key [key]."
    assert secrets.without(form, []) == secrets.without(form, [""]) == form


@pytest.mark.parametrize("around", [b"", b"u:", b"me:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_key_is_blotted_in_base64_wherever_in_it(encode, around):
    """Of what stands before and after it, at most the letters that hold a part of it are left."""
    left = secrets.without(encode(around + KEY.encode() + around).decode(), [KEY])
    assert "[key]" in left and len(left.replace("[key]", "")) <= 4 + 3 * len(around)


def test_keys_of_the_environment_are_those_of_usual_names_and_those_that_settings_name(monkeypatch):
    named = {"OPENAI_API_KEY", "HF_TOKEN", "MY_SECRET", "OURS", "CRITICS"}
    for name in (*named, "OTHERS"):
        monkeypatch.setenv(name, f"{name}-1234")
    # A word that stands for no key.
    monkeypatch.setenv("LOCAL_API_KEY", "EMPTY")
    values = {"settings": {"endpoint": {"key_variable": "OURS"}, "critique.key_variable": "CRITICS"}}
    held = secrets.held(values)
    assert named <= set(held.values()) and not {"OTHERS", "LOCAL_API_KEY"} & set(held.values())
    assert held["HF_TOKEN-1234"] == "HF_TOKEN"
