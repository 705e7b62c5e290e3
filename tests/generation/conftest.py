"""Tests of tiny pipelines, which are fastest with one thread."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def diffusers(one_thread):
    return pytest.importorskip("diffusers", reason="generation needs the extra 'models'")
