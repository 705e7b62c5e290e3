"""Settings of an endpoint: invalid values, secrets that are not repeated, normalised URLs."""

import pytest

from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import ParameterError


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"url": "https://me:secret-word@example.org/v1"}, "contains a user name or password"),
        ({"url": "ht\ttps://me:secret-word@example.org/v1"}, "contains a user name or password"),
        ({"url": "secret-word@example.org/v1"}, "contains a user name or password"),
        ({"url": "https://example.org/v1?code=secret-word"}, "contains a text that looks like a key"),
        ({"url": "ftp://example.org/v1"}, "is 'ftp://example.org/v1'; give an http or https URL"),
        ({"url": "http://"}, "give an http or https URL"),
        ({"url": "http://a b/v1"}, "give an http or https URL"),
        ({"url": "http://host:port/v1"}, "URL is not valid"),
        ({"api_key_env": "secret-word"}, "never to the key itself"),
        ({"price": -1}, "price is -1; it must be 0 or more."),
        ({"cost_limit": float("inf")}, "cost_limit is inf"),
        ({"options": {"prompt": "x"}}, "options contains 'prompt'"),
        ({"options": {"x": float("nan")}}, "options cannot be written as JSON"),
        ({"size": 512}, "size is 512; it must be a string"),
        # Without one of them nothing is asked.
        ({"url": ""}, "both must be set"),
        ({"model": ""}, "both must be set"),
    ],
)
def test_endpoint_settings_refuse_invalid_values(more, message):
    with pytest.raises(ParameterError) as error:
        EndpointSettings(**{"model": "m", "url": "http://localhost/v1", "api_key_env": "", **more}).check_key()
    assert message in str(error.value)
    assert "secret-word" not in str(error.value)


def test_endpoint_settings_normalise_url():
    for url in (
        "https://Example.org/v1",
        "https://example.org/v1/",
        " https://example.org/v1/chat/completions ",
        "https://example.org/v1/images/generations/",
    ):
        assert EndpointSettings(url=url) == EndpointSettings(url="https://example.org/v1")
    # The version that Azure asks for is no secret.
    azure = EndpointSettings(url="https://x.openai.azure.com/openai/deployments/d?api-version=2024-06-01")
    assert azure.url.endswith("/deployments/d?api-version=2024-06-01")
