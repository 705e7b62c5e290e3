"""Shared pieces of the tests of studies."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest

from biaslab.study import Study


@pytest.fixture(autouse=True)
def plain_look():
    """Start every test from matplotlib's own look, whatever a test before it set, and leave none behind."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.use("Agg")
        yield
        plt.close("all")


@pytest.fixture
def folder_of(tmp_path):
    """Return a function that gives, for a paper, one that writes measured tables and opens a study on them."""

    def of(paper: str, replicates: int):
        def write(model="all", **tables) -> Study:
            source = tmp_path / "measured"
            source.mkdir(exist_ok=True)
            for name, rows in tables.items():
                pd.DataFrame(rows).to_csv(source / f"{paper}_{name}.csv", index=False)
            out = tmp_path / "out"
            return Study(out, source=str(source), model=model, seed=1, bootstrap_replicates=replicates)

        return write

    return of
