"""The overview of all runs: their progress, their cards, and hostile or broken records."""

import json
import os

from bs4 import BeautifulSoup
from fake_run import IMAGE, SCRIPT

from biaslab import report
from biaslab.report import all_runs


def _page(outputs):
    return BeautifulSoup(report.overview(outputs).read_text(encoding="utf-8"), "html.parser")


def _run(outputs, name, **record):
    (outputs / name).mkdir(parents=True)
    (outputs / name / "index.html").write_text("", encoding="utf-8")
    (outputs / name / "run.json").write_text(json.dumps(record), encoding="utf-8")


def test_overview_orders_runs_by_start(tmp_path):
    _run(tmp_path, "second", title=f"Two {SCRIPT}", started="2026-01-02T00:00:00+00:00", status="ok")
    _run(tmp_path, "first", title="One", started="2026-01-01T00:00:00+00:00", status="ok")
    page = _page(tmp_path)
    assert [h2.get_text() for h2 in page("h2")] == ["One", f"Two {SCRIPT}"]
    assert [h2.a["href"] for h2 in page("h2")] == ["first/index.html", "second/index.html"]
    assert not page("script")
    assert page.find("meta", attrs={"http-equiv": "refresh"}) is None


def test_overview_running_run_shows_progress_and_findings(tmp_path):
    finished_notebooks = [{"id": "paradox/1", "status": "ok"}, {"id": "paradox/2", "status": "skipped"}]
    card_findings = [{"question": f"Q{i} {IMAGE}?", "answer": "A", "card": i, "estimate": i} for i in (1, 2, 3, 4)]
    _run(tmp_path, "a", status="running", planned=9, notebooks=finished_notebooks, findings=card_findings)
    page = _page(tmp_path)
    # Nine were planned, and one lacks an input.
    assert "1 of 8 sections finished so far" in page.find(class_="byline").find_next(class_="byline").get_text()
    assert [h3.get_text() for h3 in page("h3")] == [f"Q{i} {IMAGE}?" for i in (1, 2, 3)]
    assert page.find("meta", attrs={"http-equiv": "refresh"}) is not None
    assert not page("img")
    # The page does not refresh for a run that was killed long ago.
    os.utime(tmp_path / "a" / "run.json", (0, 0))
    page = _page(tmp_path)
    assert page.find("meta", attrs={"http-equiv": "refresh"}) is None
    assert "then stopped" in page.get_text()


def test_overview_unreadable_records_are_listed(tmp_path):
    _run(tmp_path, "good", title="Good", status="ok", notebooks=[{"status": "ok"}], findings=[{"question": "Q?"}])
    nonsense = {"a": {"notebooks": "x"}, "b": {"findings": [3]}, "c": {"status": 3}, "d": {"notebooks": [{"id": []}]}}
    for name, record in nonsense.items():
        _run(tmp_path, name, title="Bad", **record)
    _run(tmp_path, "e", findings=[{"question": "Q?", "answer": "A", "card": 1, "marks": [{"estimate": "x"}]}])
    cut = {"f": "", "g": "{", "h": "[]", "i": "\udcff", "j": "[" * 100_000}
    for name, text in cut.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_bytes(text.encode(errors="surrogateescape"))
    page = _page(tmp_path)
    assert "Good" in [h2.get_text() for h2 in page("h2")]
    problems = {p.bdi.get_text() for p in page("p", class_="problem")}
    assert problems >= {f"{name}/run.json" for name in (*nonsense, *cut)}
    assert "start the run again with --overwrite" in page.get_text()


def test_overview_lists_older_runs_by_name(tmp_path, monkeypatch):
    assert _page(tmp_path).find("main").code.get_text() == "make report"
    monkeypatch.setattr(all_runs, "SHOWN", 1)
    _run(tmp_path, "old", title="Old", status="ok")
    os.utime(tmp_path / "old" / "run.json", (0, 0))
    _run(tmp_path, "new", title="New", status="ok")
    page = _page(tmp_path)
    assert [h2.get_text() for h2 in page("h2")] == ["New", "Older runs"]
    assert page.li.a["href"] == "old/index.html"
