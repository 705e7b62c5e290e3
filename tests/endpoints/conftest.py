"""Shared pieces of the tests of endpoints."""

import pytest

from biaslab.cache.result_cache import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")
