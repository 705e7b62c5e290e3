"""Shared pieces of the tests of the paradox's rooms."""

import pytest


@pytest.fixture(autouse=True)
def drawn(plain_look):
    """Give every test here matplotlib's own look."""
