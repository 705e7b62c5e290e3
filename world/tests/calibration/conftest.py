"""Shared pieces of the tests of calibration and of the world's own pages."""

import pytest


@pytest.fixture(autouse=True)
def drawn(plain_look):
    """Give every test here matplotlib's own look."""
