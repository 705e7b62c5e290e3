"""The index page as text: its content, escaping and embedded files."""

import base64
import hashlib
import io
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from bs4 import BeautifulSoup
from fake_run import CLOSING, IMAGE, LARGE_ROWS, LONG, SCRIPT, layouts
from matplotlib.figure import Figure
from PIL import Image

from biaslab.report import build, index
from biaslab.report.pages import file_inside, format_seconds, format_time, href
from biaslab.schema.table_layout import TableLayout


@pytest.fixture(scope="module")
def html(run_dir):
    return (run_dir / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def soup(html):
    return BeautifulSoup(html, "html.parser")


def _minimal(folder, laid_out=None, **content):
    (folder / "run.json").write_text(json.dumps(content), encoding="utf-8")
    laid_out = laid_out or layouts(folder, content.get("tables", []))
    return BeautifulSoup(build(folder, laid_out).read_text(encoding="utf-8"), "html.parser")


# Hostile text


def test_index_escapes_hostile_text(soup):
    text = soup.get_text()
    for hostile in (SCRIPT, IMAGE, CLOSING, LONG):
        assert hostile in text
    assert soup.find(attrs={"alt": IMAGE}) is not None
    assert len(soup("script")) == 1
    assert len(soup("style")) == 1
    assert not soup(["iframe", "object", "embed", "form", "base"])
    assert all(svg["class"] == ["track"] for svg in soup("svg"))
    handlers = [name for tag in soup(True) for name in tag.attrs if name.startswith("on")]
    assert handlers == []
    assert all(re.match("data:image/(png|webp);base64,", image["src"]) for image in soup("img"))


def test_index_cleans_control_characters_in_names(tmp_path):
    page = _minimal(tmp_path, title="{{ 7 * 7 }} a\u2028b\u0000c\ud800d\x1b[31m\te\x85\u202e", limits=["{% raw %}"])
    # Control characters and a lone surrogate become replacement characters; separators and directions are ordinary.
    assert page.h1.get_text() == "{{ 7 * 7 }} a\u2028b\ufffdc\ufffdd\ufffd[31m\te\ufffd\u202e"
    assert page.find(id="limits").li.get_text() == "{% raw %}"


def test_index_links_stay_in_run_folder(run_dir, soup):
    ids = [tag["id"] for tag in soup(id=True)]
    assert len(ids) == len(set(ids))
    links = [tag["href"] for tag in soup(["a", "link"], href=True)]
    assert len(links) > 20
    for link in links:
        if link.startswith("#"):
            assert link[1:] in ids
        elif link != "data:,":
            assert (run_dir / link).is_file()


def test_index_policy_admits_only_own_style_and_script(html):
    policy = unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html).group(1))
    for tag in ("style", "script"):
        text = re.search(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'; img-src data:;" in policy
    assert "unsafe" not in policy


def test_build_reads_nothing_outside_run_folder(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"secret" * 10)
    (tmp_path / "secret.csv").write_text("word\nhunter2\n", encoding="utf-8")
    (run / "link.csv").symlink_to(tmp_path / "secret.csv")
    page = _minimal(
        run,
        dict.fromkeys("tu", TableLayout([], [], 1)),
        figures=[{"name": "f", "png": "../secret.png"}, {"name": "g", "png": str(tmp_path / "secret.png")}],
        tables=[{"name": "t", "file": "../secret.csv"}, {"name": "u", "file": "link.csv"}],
        notebooks=[{"id": "n", "status": "ok", "html": "javascript:alert(1)", "notebook": "a\u0000b"}],
    )
    assert not page("img")
    assert "hunter2" not in page.get_text()
    assert len(page(class_="problem")) == 2
    assert all("missing" in problem.get_text() for problem in page(class_="problem"))
    assert len(page(class_="table")) == 2 and not page("a", class_="button")
    assert not page.select(".sections a")


def test_file_inside_rejects_outside_and_invalid_paths(tmp_path):
    (tmp_path / "a b#?.csv").write_text("x", encoding="utf-8")
    assert file_inside(tmp_path, "a b#?.csv") == (tmp_path / "a b#?.csv").resolve()
    assert href(tmp_path, "a b#?.csv") == "a%20b%23%3F.csv"
    for invalid_path in (None, 3, "", ".", "..", "missing", "/etc/passwd", "x" * 5000):
        assert file_inside(tmp_path, invalid_path) is None


# Content


def test_index_shows_cards_and_findings_by_paper(soup):
    opening = soup.find("main").find("section", class_="cards")("article")
    # Two main findings have no place of their own: they fill up, the one with a small figure first.
    assert [card.h2.get_text()[:14] for card in opening] == ["Is bias amplif", "First of all? "]
    card = opening[0]
    assert card.find(class_="answer").get_text(" ", strip=True) == "SD 1.4 Yes, with the published exclusion rule."
    assert [a["href"] for a in card.find(class_="links")("a")] == [
        "#figure-paradox_naive", "notebooks/paradox/4_baseline.html",
    ]  # fmt: skip
    # The scale runs from 0 to 15, the first round number above 13.4.
    mark = card.find(class_="track")
    assert [float(mark.circle["cx"][:-1]), float(mark.find(class_="interval")["x1"][:-1])] == pytest.approx(
        [100 * 10.2 / 15, 100 * 7.1 / 15], abs=0.01
    )
    assert mark["aria-label"] == "SD 1.4: 10.2 points (7.10 to 13.4)"
    paper = soup.find(id="paper-paradox")
    main = paper.find(class_="beside")(class_="headline")
    assert main[0].h3.get_text().startswith("First of all?")
    assert main[1].h3.get_text() == "Is bias amplified?"
    answer = main[1].summary.p
    assert answer.b.get_text() == "SD 1.4" and "(published)" in answer.get_text()
    assert answer.find(class_="numbers").get_text() == "10.2 points (7.1 to 13.4; n = 62 occupations)"
    assert "Signed, it is about 1 point." in main[1].find("p", class_="quiet").get_text()
    assert [item.summary.p.bdi.get_text() for item in paper.find(class_="findings")(class_="headline")] == [
        "A minor finding."
    ]


def test_index_states_false_discovery_rate(soup, tmp_path):
    text_shown = " ".join(soup.find(class_="together").get_text().split())
    first = (
        "This report has 31 headline findings with a prespecified test (one per question and model or set of models; "
        "some may be under “More findings”). Their p-values are adjusted together (Benjamini–Hochberg, in two "
        "families: the 9 findings on published values, and the others): 18 are significant at a false discovery rate "
        "of 5%."
    )
    assert text_shown.startswith(first)
    untested = "Of the 31, 3 could not be tested and enter the adjustment with p = 1; "
    untested += "published values with the answer “Not tested” are not counted among the 31."
    assert untested in text_shown
    assert "Without the adjustment, 2 more would be significant." in text_shown
    others = "Of 60 additional findings with a test, each tested at a level of 5% and not adjusted across the report, "
    assert others + "25 are significant." in text_shown
    for broken in ({}, {"headlines": 3}, {"headlines": "<b>", "alpha": None}):
        assert _minimal(tmp_path, findings=_findings({}), verdicts=broken).find(class_="together") is None


@pytest.mark.parametrize(("significant", "verb"), [(0, "is not significant"), (1, "is significant")])
def test_index_single_headline_names_no_adjustment(tmp_path, significant, verb):
    others = dict.fromkeys(("untested", "withdrawn", "printed", "others", "others_significant"), 0)
    counts = {"alpha": 0.05, "headlines": 1, "significant": significant} | others
    page = _minimal(tmp_path, findings=_findings({}), verdicts=counts)
    text = " ".join(page.find(class_="together").get_text().split())
    assert text.startswith(f"This report has one headline finding; its test {verb} at a level of 5%.")


def _findings(*cards):
    return [{"question": f"Q{i}?", "answer": f"A{i}", "main": True, "order": i} | card for i, card in enumerate(cards)]


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        # By their places, and eight at most.
        (
            [{"card": place} for place in (0, 6, 2, 4, 3, 1, 5, 9, 8, 7)],
            ["Q5?", "Q2?", "Q4?", "Q3?", "Q6?", "Q1?", "Q9?", "Q8?"],
        ),
        # Filled up to three: of papers that have no card yet the one with an estimate first; the paradox has its card.
        (
            [
                {"card": 1, "notebook": "paradox/1"},
                {"notebook": "paradox/2", "estimate": 1.0},
                {"notebook": "triplets/1"},
                {"notebook": "paired/1", "estimate": 2.0},
            ],
            ["Q0?", "Q3?", "Q2?"],
        ),
    ],
)
def test_cards_are_ordered_and_filled_from_other_papers(tmp_path, cards, expected):
    page = _minimal(tmp_path, findings=_findings(*cards))
    assert [card.h2.get_text() for card in page("article")] == expected


def test_card_draws_models_with_own_benchmarks(tmp_path):
    marks = [{"name": g, "estimate": 60.0, "benchmark": b} for g, b in (("all", 40.0), ("cook", 20.0))]
    finding = {"question": "Q?", "answer": "A.", "main": True, "marks": marks, "reference": 50}
    finding |= {"reference_name": "labour.csv", "card_text": "What to do."}
    (card,) = _minimal(tmp_path, findings=[finding | {"model": m} for m in "ab"], notices=["2 left out."])("article")
    names = [name.get_text(" ", strip=True) for name in card(class_="mark-name")]
    assert names == ["a, all", "b, all", "a, cook", "b, cook", "labour.csv"]
    # The scale runs from 20 to 60: a benchmark of 40 is in its middle; the line at 50 is not drawn.
    assert [mark["x"] for mark in card.select(".track .benchmark")] == ["50.00%", "50.00%", "0.00%", "0.00%"]
    assert not card.select(".reference")
    assert [p.get_text(" ", strip=True) for p in card(class_="judge")] == ["a : What to do.", "b : What to do."]


def test_index_shows_notices_below_title(tmp_path):
    page = _minimal(tmp_path, notices=["2 <b> images left out."])
    assert [li.get_text(strip=True) for li in page.header.find(class_="notices")("li")] == ["2 <b> images left out."]


def test_card_merges_models_with_equal_answers(tmp_path):
    rows = [("a", "Yes."), ("b", "No."), ("c", "Yes.")]
    items_found = [{"question": "Q?", "answer": text_shown, "model": model, "main": True} for model, text_shown in rows]
    page = _minimal(tmp_path, findings=items_found)
    assert [p.get_text(" ", strip=True) for p in page.article(class_="answer")] == ["a, c Yes.", "b No."]


def test_card_states_numbers_of_each_model(tmp_path):
    rows = [("a", "Yes.", "1.0 (n = 3)"), ("b", "No.", "2.0 (n = 4)"), ("c", "Yes.", "3.0 (MAD; no interval)")]
    rows += [("d", "Yes.", "4.0 (n = 5)")]
    items_found = [
        {"question": "Q?", "answer": answer, "model": model, "numbers": numbers, "main": True}
        for model, answer, numbers in rows
    ]
    page = _minimal(tmp_path, findings=items_found)
    assert [p.get_text(strip=True) for p in page.article(class_="numbers")] == [
        "a: 1.0 (n = 3)", "d: 4.0 (n = 5)", "2.0 (n = 4)",
    ]  # fmt: skip


def test_card_answers_for_measured_models_only(tmp_path):
    rows = (("a", "Yes.", False), ("b", "No.", True))
    items_found = [
        {"question": "Q?", "answer": text_shown, "model": model, "main": True, "printed": printed, "estimate": 1.0}
        for model, text_shown, printed in rows
    ]
    (card,) = _minimal(tmp_path, findings=items_found).find(class_="cards")("article")
    assert [p.get_text(" ", strip=True) for p in card(class_="answer")] == ["a Yes."]
    assert [name.get_text(strip=True) for name in card(class_="mark-name")][:2] == ["a", "b"]


def test_card_omits_non_numeric_marks(tmp_path):
    marks = [
        {"name": "rule", "estimate": 12.0, "ci_low": 9.0, "ci_high": 15.0},
        {"name": SCRIPT, "estimate": "x"},
        {"name": "signed", "estimate": -2.0, "ci_low": None, "ci_high": None},
    ]
    line = {"reference": 0.0, "reference_name": "none"}
    items_found = [{"question": "Q?", "answer": "A", "main": True, "marks": marks, "unit": "points", **line}]
    page = _minimal(tmp_path, findings=items_found)
    # From -2 to 15 in steps of 5: -5 to 15.
    marks_drawn = [(svg.circle["cx"], svg.find(class_="interval") is None) for svg in page.article("svg")]
    assert marks_drawn == [("85.00%", False), ("15.00%", True)]
    assert page.article.find(class_="axis").get_text(" ", strip=True) == "line: 0 = none -5 15 points"


def test_card_without_reference_draws_no_line(tmp_path):
    tone = {"estimate": 5.0, "ci_low": 4.0, "ci_high": 6.0, "unit": "tones", "reference": None}
    page = _minimal(tmp_path, findings=_findings(tone))
    # From 4 to 6, not from 0, which is no tone.
    assert page.article.svg.circle["cx"] == "50.00%" and page.article.find(class_="reference") is None
    assert page.article.find(class_="axis").get_text(" ", strip=True) == "4 6 tones"


def test_index_draws_measures_from_models_table(tmp_path):
    (tmp_path / "t.csv").write_text(
        "model,measure,estimate,estimate_corrected,ci_low,ci_high,null_mean,n,unit\n"
        f'"{SCRIPT}",lean,7,5,0,10,2,9,points\nworld,lean,,,,,,0,points\nb,share,50,,,,,9,%\n',
        encoding="utf-8",
    )
    page = _minimal(tmp_path, tables=[{"name": "synthesis_models", "file": "t.csv", "rows": 3}])
    measures = page.find(id="measures")(class_="measure")
    assert [measure.h3.get_text() for measure in measures] == ["lean", "share"]
    assert [svg["aria-label"] for svg in measures[0]("svg")] == [
        f"{SCRIPT}: 5.00 points (0.00 to 10.0; null expectation 2.00)"
    ]
    assert measures[0].find(class_="null_mean")["x1"] == "20.00%"


JUDGED = """paper,model,headline,group,judge,reference,estimate,ci_low,ci_high,unit,balanced,n,verdict,changes_verdict
custom,m,share,all,a,a,70,60,80,%,50,80,above,0
custom,m,share,all,b,a,{estimate},{low},{high},%,50,75,{verdict},{changes}
custom,m,share,nurse,b,a,1,1,1,%,50,9,below,1
"""
AGREED = """paper,model,headline,judge,reference,subset,group,percent,ci_low,ci_high,kappa,n,n_people
custom,m,share,b,a,all,all,{percent},80,97,{kappa},{n},90
custom,m,share,b,a,group,nurse,50,40,60,,5,9
"""


def _judged_page(folder, headline="share", **values):
    values = {"verdict": "above", "changes": 0, "percent": 93, "kappa": 0.85, "n": 72} | values
    values = {"estimate": 65, "low": 54, "high": 75} | values
    texts = {"synthesis_judge_headlines": JUDGED, "synthesis_judge_agreement": AGREED}
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text.format(**values), encoding="utf-8")
    tables = [{"name": name, "file": f"{name}.csv", "rows": 2, "notebooks": ["custom/1"]} for name in texts]
    about = {"model": "m", "notebook": "custom/1", "headline": headline}
    return _minimal(folder, tables=tables, findings=_findings(about))


def test_card_shows_other_judge_with_agreement(tmp_path):
    page = _judged_page(tmp_path)
    line = page.article.find(class_="judge")
    assert line.get_text() == (
        "By b: 65.0% (54.0 to 75.0; n = 75 people), as judged. Agreement with a: 93% (kappa 0.85; n = 72 people)."
    )
    assert page.find(id=line.a["href"].removeprefix("#")) is not None
    assert len(page.article(class_="judge")) == 1 and not page(class_="change")


def test_card_marks_verdict_changed_by_judge(tmp_path):
    page = _judged_page(tmp_path, estimate=52, low=41, high=62, verdict="not_significant", changes=1)
    assert page.article.find(class_="change").get_text() == (
        "The verdict changes with the judge: above 50% by a and not significantly different from 50% by b."
    )


def test_card_of_judge_without_labels_has_no_estimate(tmp_path):
    values = dict.fromkeys(("estimate", "low", "high", "changes", "percent", "kappa"), "")
    page = _judged_page(tmp_path, verdict="inconclusive", n=0, **values)
    assert page.article.find(class_="judge").get_text() == (
        "By b: no estimate. Agreement with a: no person is classified by both."
    )


def test_card_without_headline_shows_no_other_judge(tmp_path):
    assert not _judged_page(tmp_path, headline="")(class_="judge")


def test_findings_of_a_sweep_name_their_variant(tmp_path):
    variants = ["model=SD 1.4", "model=SD 1.5", IMAGE]
    page = _minimal(
        tmp_path,
        findings=[
            {"question": f"{kind}?", "answer": f"{kind} of {v}", "variant": v, "main": kind == "Main"}
            for kind in ("Main", "Minor")
            for v in variants
        ],
    )
    # One finding per question, one line per variant.
    main, more = page(class_="headline")
    for items_found in (main, more):
        assert [item.get_text() for item in items_found(class_="variant")] == variants


def test_index_names_failed_and_skipped_sections(soup):
    notice = soup.find(class_="notice").get_text(" ", strip=True)
    assert "1 of 4 sections failed" in notice
    assert f"Variation across prompts : ValueError: no table {SCRIPT}" in notice
    assert "1 section was skipped" in soup.find(id="about").get_text()
    rows = {row.bdi.get_text(): row for row in soup.select(".sections li")}
    assert rows["Naive approach"].find(class_="status").get_text(strip=True) == "✓finished"
    assert rows["Naive approach"].find(class_="time").get_text(strip=True) == "12.3 s"
    skipped = rows["Overall scores"]
    assert skipped.find(class_="status").get_text(strip=True) == "–skipped"
    assert skipped.find(class_="reason").get_text(strip=True) == "Needs a table that failed."
    assert not skipped("a")
    assert "failed" in rows["Variation across prompts"]["class"]


def test_index_notice_names_incomplete_parts(tmp_path):
    page = _minimal(tmp_path, status="ok", notebooks=[{"id": "paradox/4", "status": "ok", "seconds": 61}])
    assert page.find(class_="notice") is None and page.find(class_="time").get_text() == "1 min 1 s"
    # Although no section failed.
    page = _minimal(tmp_path, status="failed", notebooks=[{"id": "paradox/4", "status": "ok"}])
    assert "“failed”" in page.find(class_="notice").get_text()
    page = _minimal(tmp_path, status="failed", problems=[f"Table t: notebooks differ in their values for {SCRIPT}"])
    assert page.find(class_="notice").li.get_text() == f"Table t: notebooks differ in their values for {SCRIPT}"
    assert "recorded as" not in page.find(class_="notice").get_text()


def test_index_counts_replication_coverage(soup):
    # Two papers, two kinds, four items each, one of each status.
    coverage = soup.find(id="coverage")
    assert re.findall(r"\d+", coverage.p.get_text()) == ["16", "4", "4", "4", "4"]
    head, first, *_, last = [[c.get_text(strip=True) for c in row(["th", "td"])] for row in coverage.table("tr")]
    assert head == ["Paper", "Kind", "regenerated", "reprinted", "open", "illustrative", "total"]
    assert first == ["The bias amplification paradox", "tables", "1", "1", "1", "1", "4"]
    assert last == ["All", "", "4", "4", "4", "4", "16"]
    ledger = soup.find(id="ledger").tbody("tr")
    assert len(ledger) == 16
    assert ledger[0]("a")[0]["href"] == "#table-paradox_amplification"
    assert ledger[0]["data-status"] == "regenerated" and ledger[1]["data-status"] == "reprinted"
    # The inputs precede the note.
    assert ledger[0]("td")[-1].get_text() == "From the printed Table 7. "


def test_index_shows_provenance(soup):
    facts = {fact.dt.get_text(): fact.dd.get_text() for fact in soup.find(id="provenance").select(".facts > div")}
    assert facts["Commit"] == "1a2b3c4d5e6f (with uncommitted changes)"
    assert facts["Started"] == "21 November 2025, 02:48 UTC"
    assert facts["Duration"] == "1 min 42 s"
    assert facts["Platform"] == "Linux, x86_64"
    assert facts["bootstrap_replicates"] == "2000"
    assert facts["models"] == '["SD 1.4"]'
    assert facts["nested.hostile"] == CLOSING
    assert facts["numpy"] == "2.3.0"


def test_build_empty_run_gives_page(tmp_path):
    page = _minimal(tmp_path)
    assert page.h1.get_text() == "Report"
    heads = ["What was run", "Provenance", "How to read this", "How to cite this run"]
    assert [h2.get_text() for h2 in page("h2")] == heads


def test_build_is_repeatable_without_temporary_files(run_dir, html):
    record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    assert build(run_dir, layouts(run_dir, record["tables"])) == run_dir / "index.html"
    assert (run_dir / "index.html").read_text(encoding="utf-8") == html
    assert not list(run_dir.glob(".*"))


# Figures


def _pixels(picture):
    """Return the pixels of a file, or of an image embedded in a page."""
    file = picture if isinstance(picture, Path) else io.BytesIO(base64.b64decode(picture.partition(",")[2]))
    return np.asarray(Image.open(file).convert("RGB"))


def test_index_embeds_figures_with_alt_text_and_links(run_dir, soup):
    cards = sorted(soup("figure"), key=lambda card: card.figcaption.strong.get_text())
    assert [card.figcaption.strong.get_text()[:9] for card in cards] == [f"Figure {n}." for n in (1, 2, 3, 4)]
    image = cards[0].img
    assert np.array_equal(_pixels(image["src"]), _pixels(run_dir / "figures/paradox_naive.png"))
    assert image["alt"] == "Points lie above the diagonal."
    assert cards[1].img["alt"] == f"Each point is one occupation. {SCRIPT}"  # no alt of its own: the caption
    # Of 7 by 4.4 inches, at 11.2 px for its smallest words: 8 points by default, 100.8 px per inch.
    assert (image["width"], image["height"]) == ("706", "444")
    assert [a["href"] for a in cards[0].find(class_="links")("a")][:2] == [
        "figures/paradox_naive.svg",
        "figures/paradox_naive.png",
    ]
    assert cards[2].find_parent("details") is not None  # not a main figure
    assert cards[0].find_parent("details") is None


def test_figure_without_png_is_embedded_as_svg(tmp_path):
    (tmp_path / "f.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    (tmp_path / "f.png").write_bytes(b"\x89PNG\r\n\x1a\n and no picture")
    for png in (None, "f.png"):
        page = _minimal(tmp_path, figures=[{"name": "f", "svg": "f.svg", "png": png}])
        assert page.img["src"].startswith("data:image/svg+xml;base64,")


def test_file_above_limit_is_linked_not_embedded(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "FIGURE_BYTES", 10)
    monkeypatch.setattr(index, "TABLE_FILE_BYTES", 3)
    (tmp_path / "f.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (tmp_path / "a.csv").write_text("x\n1\n", encoding="utf-8")
    page = _minimal(tmp_path, figures=[{"name": "f", "png": "f.png"}], tables=[{"name": "a", "file": "a.csv"}])
    link = page.find("a", class_="button")
    assert not page("img") and link["href"] == "a.csv" and "data-csv" not in link.attrs
    assert page.find(class_="problem").get_text().startswith("This figure is not embedded, to keep the page small")
    assert page.find("figcaption").a["href"] == "f.png"


# Tables


def test_table_shows_units_and_column_meanings(soup):
    table = soup.find(id="table-paradox_amplification")
    heads = table.thead("th")
    assert [head.get("class", []) == ["n"] for head in heads] == [False] * 3 + [True] * 5
    assert heads[3].get_text(" ", strip=True) == "amplification (points)"
    meanings = {d.dt.code.get_text(): d.dd.get_text() for d in table.find(class_="columns").select("dl > div")}
    assert meanings["amplification"] == "How much further from even the generated share is."
    assert meanings["p"] == f"Two-sided p-value. {CLOSING}"
    assert soup.find(id="table-paired_gaps").find(class_="none").span["title"] == "no accepted image"


def test_long_table_is_previewed_and_linked(soup, html):
    table = soup.find(id="table-dalleval_skills")
    assert table.summary.get_text(" ", strip=True) == f"Every judged image {LARGE_ROWS:,} rows"
    assert table.find(class_="problem").get_text().startswith("The first 50 of 12,000 rows are shown")
    assert len(table.tbody("tr")) == 50
    link = table.find("a", class_="button")
    assert link["href"] == "tables/dalleval_skills.csv"
    assert link["download"] == "dalleval_skills.csv"
    assert len(html) < 1_000_000


def test_tables_above_cell_limit_are_previewed(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "CELLS_SHOWN", 300)
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("x\n" + "1\n" * 350, encoding="utf-8")
    page = _minimal(tmp_path, tables=[{"name": n, "file": f"{n}.csv"} for n in "ab"])
    assert [len(page.find(id=f"table-{n}").tbody("tr")) for n in "ab"] == [350, 50]


def test_table_text_is_cleaned(tmp_path):
    (tmp_path / "t.csv").write_text("word\n\x1ba" + "\u0301" * 9, encoding="utf-8")
    page = _minimal(tmp_path, tables=[{"name": "t", "file": "t.csv"}])
    assert page.find(id="table-t").td.get_text() == "\ufffda" + "\u0301" * 5


def test_backticks_become_escaped_code(tmp_path):
    page = _minimal(tmp_path, limits=["Read `percent_female` and `<b>x</b>` & an odd ` alone"])
    item = page.find(id="limits").li
    assert [code.get_text() for code in item("code")] == ["percent_female", "<b>x</b>"]
    assert item.get_text() == "Read percent_female and <b>x</b> & an odd ` alone"


def test_format_seconds_and_time():
    seconds = (3.21, 59.96, 7500, None, True, -1)
    assert [format_seconds(s) for s in seconds] == ["3.2 s", "1 min 0 s", "2 h 5 min", "", "", ""]
    assert format_time("2025-11-21T01:30:00+02:00") == "20 November 2025, 23:30 UTC"
    assert format_time("yesterday") == "yesterday"


@pytest.mark.parametrize(
    ("sizes", "lead"),
    [({"a": (2, 9), "b": (3, 2)}, "b"), ({"a": (2, 9), "b": (2, 12)}, "a"), ({"a": (9, 2), "b": (3, 2)}, "b")],
)
def test_paper_lead_figure_is_not_tall(tmp_path, sizes, lead):
    for name, size in sizes.items():
        Figure(figsize=size).savefig(tmp_path / f"{name}.png")
    figures = [{"name": n, "png": f"{n}.png", "main": True, "notebook": "paired/1"} for n in sizes]
    items_found = [{"question": "Q?", "answer": "Yes.", "notebook": "paired/1"}]
    page = _minimal(tmp_path, figures=figures, findings=items_found)
    assert page.find("figure").find(class_="zoom")["id"] == f"figure-{lead}" and len(page("figure")) == 2


def test_description_folds_after_first_sentence(tmp_path):
    about = _minimal(tmp_path, description="One thing. Two things.\nThree.\n\nAnother paragraph.").find(id="about")
    assert about.find("p", class_="lead").get_text() == "One thing."
    assert [p.get_text() for p in about.details("p")] == ["Two things. Three.", "Another paragraph."]
    assert not _minimal(tmp_path, description="One thing.").find(id="about").details
