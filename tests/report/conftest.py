"""The run folder that the report's tests read, and Chromium to look at its pages with."""

import os
import shutil

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


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; the tests that need it are skipped where there is none."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not path:
        pytest.skip("No Chromium: install Debian's chromium or set CHROMIUM to its path.")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        yield browser
        browser.close()
