"""Shared pieces of the tests of endpoints."""

import pytest

from biaslab.cache.result_cache import ResultCache


@pytest.fixture
def store(tmp_path):
    return ResultCache(tmp_path / "store")
