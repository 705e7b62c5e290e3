"""Shared pieces of the tests of papers and analyses."""

import pytest


@pytest.fixture(autouse=True)
def drawn(plain_look):
    """Give every test here matplotlib's own look, and leave no figure open."""
