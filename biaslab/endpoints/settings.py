"""Settings of a model behind an OpenAI-compatible endpoint: address, key, fields of a request, and limits."""

from __future__ import annotations

import json
import os
import re
from typing import Annotated, Any, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, model_validator

from biaslab import redact
from biaslab.errors import ParameterError
from biaslab.schema.groups import Group, Integer, Texts, field

ENDPOINT = "endpoint:"
"""How names of models behind an endpoint begin."""
# Fields of a request for an image that are set otherwise, or would change the form of a reply.
_OWN_FIELDS = ("model", "prompt", "size", "n", "stream", "partial_images")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


def _plain_url(url: str) -> str:
    """Return a base URL without the path of one kind of request; refuse, and do not repeat, one with a secret."""
    if not url:
        return ""
    if held := redact.secret_in_url(re.sub(r"\s", "", url)):
        raise ParameterError(
            f"The endpoint's URL holds {held}, which would be written into reports. Take it out, and put the key into "
            "an environment variable (key_variable)."
        )
    example = "such as https://api.openai.com/v1 or http://localhost:8000/v1"
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        raise ParameterError(f"The endpoint's URL is not valid; give one {example}.") from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or re.search(r"\s", url.strip()):
        raise ParameterError(f"The endpoint's URL is {url!r}; give an http or https URL {example}.")
    path = parts.path.rstrip("/")
    for kind in ("/chat/completions", "/images/generations"):
        path = path.removesuffix(kind).rstrip("/")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))


def _variable(name: str) -> str:
    """Return a variable's name; refuse, and do not repeat, what can be none and so may be a key."""
    if name and not _VARIABLE.fullmatch(name):
        raise ParameterError(
            "The endpoint's key variable is not a name of an environment variable: capitals, digits and '_', such as "
            "OPENAI_API_KEY. It takes the variable's name, never the key itself."
        )
    return name


Url = Annotated[str, AfterValidator(_plain_url)]
"""A base URL in its plain form, without a secret; or an empty text."""
Variable = Annotated[str, AfterValidator(_variable)]
"""The name of an environment variable; or an empty text."""


class EndpointSettings(Group):
    """A model behind an endpoint: its address, the fields of a request, and limits of time, size and cost.

    Raises ParameterError: A value is not allowed. The message does not repeat a URL or variable that may hold a secret.
    """

    url: Url = field("", "Base URL, such as `http://localhost:8000/v1`, without a password.", secret=True)
    model: str = field("", "Language model there that says captions in other words (paper: gpt-3.5-turbo).")
    key_variable: Variable = field(
        "OPENAI_API_KEY", "Environment variable with the key, never kept; empty where none is asked for.", secret=True
    )
    price: float | None = field(
        None,
        "What one image costs of a model behind an images endpoint (`model: endpoint:NAME`), in the currency of "
        "`endpoint.cost_limit`, 0 where it costs nothing; null is not known, and none is bought.",
        ge=0,
    )
    cost_limit: float = field(0.0, "What may be spent on that model, over all runs with this store.", ge=0)
    buy: bool = field(True, "Whether missing images are bought; else their outcome is `not_bought`.")
    size: str = field("", "Size asked of it, such as `1024x1024`; empty is its own.")
    options: dict[str, Any] = field(
        {},
        "Further fields of a request, such as `quality: high`, `style: natural` or `response_format: b64_json`.",
    )
    allow: Texts = field((), "Addresses such as `127.0.0.1:8000` that may give images though not public.")
    concurrency: Integer = field(4, "Requests under way at a time.", "requests", ge=1)
    timeout: float = field(180.0, "Time limit of a reply, and of the download of an image.", "seconds", ge=0.01)
    most_bytes: Integer = field(50_000_000, "Larger image files are not accepted.", "bytes", ge=1)

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        own = [name for name in self.options if name in _OWN_FIELDS]
        if own:
            raise ParameterError(
                f"options holds {own[0]!r}, which cannot be set there: model and size are settings "
                "of their own, and each image is a request of its own, not streamed."
            )
        try:
            json.dumps(self.options, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"options does not fit in JSON: {error}.") from None
        return self

    @property
    def image_fields(self) -> dict[str, Any]:
        """The fields of a request for an image, without its prompt."""
        return {"model": self.model, "n": 1, **({"size": self.size} if self.size else {}), **self.options}

    def check_key(self) -> str:
        """Return the API key; empty where ``key_variable`` is.

        Raises ParameterError: URL, model or key is missing, or the variable's value cannot be a key. The message does
        not repeat the value.
        """
        if not self.url or not self.model:
            raise ParameterError(f"endpoint.url is {self.url!r}, endpoint.model {self.model!r}; give both.")
        if not self.key_variable:
            return ""
        key = os.environ.get(self.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise ParameterError(
                f"The environment variable {self.key_variable} holds no key for {self.url}. Set it to the key, or name "
                "another with endpoint.key_variable; for an endpoint without keys, leave that empty."
            )
        return key
