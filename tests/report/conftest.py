"""The run folder that the report's tests read, and Chromium to open its pages."""

import fake_run
import pytest

from biaslab import report


@pytest.fixture(scope="session")
def executed(tmp_path_factory):
    """Return the folder of two notebooks run by papermill; the second fails."""
    folder = tmp_path_factory.mktemp("executed")
    fake_run.execute(folder)
    return folder


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory, executed):
    """A run folder with its index page built."""
    folder = tmp_path_factory.mktemp("outputs") / "published"
    record = fake_run.write_run(folder, executed)
    report.build(folder, fake_run.layouts(folder, record["tables"]))
    return folder


@pytest.fixture
def visit(browser):
    """Open a page; at the end it must have used no network, logged nothing and run no foreign code."""
    contexts, seen = [], []

    def open_page(path, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: seen.append(request.url))
        page.on("console", lambda message: seen.append(f"console {message.type}: {message.text}"))
        page.on("dialog", lambda dialog: (seen.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            assert page.evaluate("window.hacked") is None
        context.close()
    assert [entry[:200] for entry in seen if not entry.startswith(("file:", "data:", "blob:"))] == []
