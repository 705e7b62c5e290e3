"""Shared pieces of the tests of the room that looks across papers."""

import pytest


@pytest.fixture(autouse=True)
def drawn(plain_look):
    """Give every test here matplotlib's own look."""
