"""Shared pieces of the tests of papers and analyses."""

import pytest


@pytest.fixture(autouse=True)
def plot_style(plain_look):
    """Give every test here matplotlib's default style, and leave no figure open."""
