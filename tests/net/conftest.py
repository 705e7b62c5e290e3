"""Shared pieces of the tests of endpoints."""

import pytest
from fake_endpoint import KEY, FakeEndpoint

from biaslab.store import Store


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("FAKE_KEY", KEY)
    # A proxy of the environment is not to stand between the test and its own machine.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with FakeEndpoint().running() as running:
        yield running


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")
