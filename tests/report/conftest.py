"""The run folder that the report's tests read, and Chromium to look at its pages with."""

import fake_run
import pytest

from biaslab import report


@pytest.fixture(scope="session")
def executed(tmp_path_factory):
    """Two notebooks run by papermill, the second of which fails."""
    folder = tmp_path_factory.mktemp("executed")
    fake_run.execute(folder)
    return folder


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory, executed):
    """A run folder with its index page built."""
    folder = tmp_path_factory.mktemp("outputs") / "published"
    fake_run.write_run(folder, executed)
    report.build(folder)
    return folder
