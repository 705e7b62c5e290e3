"""A model behind an OpenAI-compatible endpoint: where it is, how it is asked, and what it may cost."""

from __future__ import annotations

import json
from typing import Annotated, Any, Self

from pydantic import AfterValidator, model_validator

from biaslab.errors import ParameterError
from biaslab.groups import Group, Texts, Whole, field
from biaslab.net.endpoint import Endpoint, checked_url, checked_variable

# Fields of a request for an image that are given otherwise, or would change what a reply is.
_OWN_FIELDS = (
    "model",
    "prompt",
    "n",
    "size",
    "quality",
    "style",
    "response_format",
    "stream",
    "partial_images",
)


Url = Annotated[str, AfterValidator(lambda url: checked_url(url) if url else "")]
"""A base URL in its plain form, without a secret; or an empty text."""
Variable = Annotated[str, AfterValidator(checked_variable)]
"""The name of an environment variable; or an empty text."""


class EndpointSettings(Group):
    """A model behind an endpoint, how it is asked, and what its images may cost.

    Raises:
        ParameterError: A value is not allowed. A URL or a variable that seems to hold a secret is not repeated.
    """

    url: Url = field(
        "",
        "Base URL of an OpenAI-compatible endpoint, such as `http://localhost:8000/v1`: without user and password.",
        secret=True,
    )
    model: str = field(
        "", "Name of the language model there that says captions in other words (paper: gpt-3.5-turbo)."
    )
    key_variable: Variable = field(
        "OPENAI_API_KEY",
        "Environment variable that holds the key, which is never kept; empty where none is asked for.",
        secret=True,
    )
    price: float | None = field(
        None,
        "What one image costs of a model behind an images endpoint (`model: endpoint:NAME`), in the currency of "
        "`endpoint.cost_limit`, 0 where it costs nothing; null is not known, and none is bought.",
        ge=0,
    )
    cost_limit: float = field(
        0.0,
        "What may be spent on that model, over all runs with this store; with 0 nothing that has a price is bought.",
        ge=0,
    )
    buy: bool = field(
        True, "Whether missing images are bought; otherwise they have the outcome `not_bought`."
    )
    size: str = field("", "Size asked of it, such as `1024x1024`; empty is its own.")
    quality: str = field("", "Quality asked of it, such as `standard` or `high`; empty is its own.")
    style: str = field("", "Style asked of it, such as `natural`; empty is its own.")
    response_format: str = field(
        "",
        "How it sends images, `b64_json` or `url`, where it leaves the choice; both are taken in any case.",
    )
    options: dict[str, Any] = field(
        {}, "Further fields of a request for an image, such as `background: opaque`."
    )
    allow: Texts = field(
        (),
        "Addresses with ports, such as `127.0.0.1:8000`, that may give images although they are not public.",
    )
    concurrency: Whole = field(4, "Requests under way at a time.", "requests", ge=1)
    attempts: Whole = field(
        8, "How often a request is sent that meets a busy server or a broken connection.", "requests", ge=1
    )
    timeout: float = field(
        180.0, "Time in which a reply, or a picture fetched from its address, is whole.", "seconds", ge=0.01
    )
    first_wait: float = field(
        1.0, "Pause before a request is sent again; each further one is twice as long.", "seconds", ge=0
    )
    longest_wait: float = field(
        60.0, "What a pause takes at most, whatever the server asks for.", "seconds", ge=0
    )
    most_bytes: Whole = field(50_000_000, "Larger files of pictures are not taken.", "bytes", ge=1)
    most_pixels: Whole = field(25_000_000, "Pictures with more pixels are not decoded.", "pixels", ge=1)

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        own = [name for name in self.options if name in _OWN_FIELDS]
        if own:
            raise ParameterError(
                f"options holds {own[0]!r}, which is no further field of the request: model, size, quality, style and "
                "response_format are settings of their own, and each image is a request of its own, not streamed."
            )
        try:
            json.dumps(self.options, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"options does not fit in JSON ({error}); give texts, numbers, true or false."
            ) from None
        return self

    def chat(self) -> Endpoint:
        """Return the endpoint for conversations.

        Raises:
            ParameterError: There is no URL or no model.
        """
        return Endpoint(self.url, self.model, key_variable=self.key_variable, **self._patience)

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint for images, with the fields of a request beside its prompt.

        Raises:
            ParameterError: There is no URL or no model.
        """
        fields = {n: getattr(self, n) for n in ("size", "quality", "style", "response_format")}
        return Endpoint(
            self.url,
            self.model,
            key_variable=self.key_variable,
            temperature=None,
            options={"n": 1, **{k: v for k, v in fields.items() if v}, **self.options},
            **self._patience,
        )

    @property
    def _patience(self) -> dict[str, Any]:
        names = ("concurrency", "attempts", "timeout", "first_wait", "longest_wait")
        return {name: getattr(self, name) for name in names}
