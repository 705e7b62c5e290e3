"""Shared pieces of the tests of calibration and of the world's own pages."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def plain_look():
    """Start every test from matplotlib's own look, whatever a test before it set, and leave none behind."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.use("Agg")
        yield
        plt.close("all")
