"""Settings of a model behind an OpenAI-compatible endpoint: address, key, fields of a request, and limits."""

from __future__ import annotations

import json
import os
import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, model_validator

from biaslab import redact
from biaslab.errors import ParameterError
from biaslab.schema.groups import Group, Integer, Texts, field

ENDPOINT = "endpoint:"
"""Prefix of the names of models behind an endpoint."""
# Fields of a request for an image that have other settings, or would change the form of a reply.
_OWN_FIELDS = ("model", "prompt", "size", "n", "stream", "partial_images")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


def _normalize_url(url: str) -> str:
    """Return a base URL without the path of a request type; ParameterError, without the URL, if it has a secret."""
    if not url:
        return ""
    if secret := redact.secret_in_url(re.sub(r"\s", "", url)):
        raise ParameterError(
            f"The endpoint's URL contains {secret}, which would be written into reports. Remove it, and put the key "
            "into an environment variable (api_key_env)."
        )
    example = "such as https://api.openai.com/v1 or http://localhost:8000/v1"
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        raise ParameterError(f"The endpoint's URL is not valid; give a URL {example}.") from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or re.search(r"\s", url.strip()):
        raise ParameterError(f"The endpoint's URL is {url!r}; give an http or https URL {example}.")
    path = parts.path.rstrip("/")
    for kind in ("/chat/completions", "/images/generations"):
        path = path.removesuffix(kind).rstrip("/")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))


def _check_variable(name: str) -> str:
    """Return a variable's name; ParameterError, without the text, for other texts, because they may be a key."""
    if name and not _VARIABLE.fullmatch(name):
        raise ParameterError(
            "api_key_env is not the name of an environment variable. Set it to a name of capitals, digits and '_', "
            "such as OPENAI_API_KEY, never to the key itself."
        )
    return name


Url = Annotated[str, AfterValidator(_normalize_url)]
"""A base URL in its plain form, without a secret; or an empty text."""
Variable = Annotated[str, AfterValidator(_check_variable)]
"""The name of an environment variable; or an empty text."""


class EndpointSettings(Group):
    """A model behind an endpoint: its address, the fields of a request, and limits of time, size and cost.

    Raises ParameterError: A value is not allowed. The message does not repeat a URL or variable that may hold a secret.
    """

    url: Url = field(
        "",
        "Base URL of the OpenAI-compatible endpoint, such as `http://localhost:8000/v1`, without a user name or "
        "password.",
        secret=True,
    )
    model: str = field("", "Language model at this endpoint, which paraphrases captions (paper: gpt-3.5-turbo).")
    api_key_env: Variable = field(
        "OPENAI_API_KEY",
        "Environment variable with the API key, which is never stored; empty for endpoints without keys.",
        secret=True,
    )
    price: float | None = field(
        None,
        "Price of one image from `model: endpoint:NAME`, in the currency of `endpoint.cost_limit`. 0 means free; null "
        "means unknown, and no image is bought.",
        ge=0,
    )
    cost_limit: float = field(
        0.0, "Maximum total cost of images from this model in all runs that share the cache.", ge=0
    )
    allow_purchases: bool = field(True, "Whether missing images are bought; otherwise their status is `not_bought`.")
    size: str = field("", "Image size sent in requests, such as `1024x1024`; if empty, the endpoint decides.")
    options: dict[str, Any] = field(
        {},
        "Additional fields of an image request, such as `quality: high`, `style: natural` or `response_format: "
        "b64_json`.",
    )
    allowed_hosts: Texts = field((), "Non-public hosts from which images may be downloaded, such as `127.0.0.1:8000`.")
    answer_format: Literal["auto", "json_schema", "json_object", "none"] = field(
        "auto",
        "Format that chat requests, including those to vision-language models, specify for structured answers. `auto` "
        "tries a JSON schema, then `json_object`, then no format, until the endpoint accepts one; any other value is "
        "the only format tried.",
    )
    concurrency: Integer = field(4, "Maximum number of simultaneous requests.", "requests", ge=1)
    timeout: float = field(180.0, "Time limit of one response, and of one image download.", "seconds", ge=0.01)
    max_bytes: Integer = field(50_000_000, "Maximum size of an image file; larger ones are rejected.", "bytes", ge=1)

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        reserved_names = [name for name in self.options if name in _OWN_FIELDS]
        if reserved_names:
            raise ParameterError(
                f"options contains {reserved_names[0]!r}, which cannot be set there: model and size have their own "
                "settings, and each request asks for one image, which is not streamed."
            )
        try:
            json.dumps(self.options, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"options cannot be written as JSON: {error}.") from None
        return self

    @property
    def image_fields(self) -> dict[str, Any]:
        """The fields of a request for an image, without its prompt."""
        return {"model": self.model, "n": 1, **({"size": self.size} if self.size else {}), **self.options}

    def check_key(self) -> str:
        """Return the API key; empty where ``api_key_env`` is.

        Raises ParameterError: URL, model or key is missing, or the variable's value cannot be a key. The message does
        not repeat the value.
        """
        if not self.url or not self.model:
            raise ParameterError(
                f"endpoint.url is {self.url!r} and endpoint.model is {self.model!r}; both must be set."
            )
        if not self.api_key_env:
            return ""
        key = os.environ.get(self.api_key_env, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise ParameterError(
                f"The environment variable {self.api_key_env} contains no key for {self.url}. Set it to the key, or "
                "set endpoint.api_key_env to another variable, or to an empty text if the endpoint needs no key."
            )
        return key
