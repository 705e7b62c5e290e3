"""The site and its pages: working links and examples, without external resources."""

import ast
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pandas as pd
import pytest
import yaml

from biaslab import cli
from biaslab.errors import ParameterError, UnknownNameError
from biaslab.judges.annotation_questions import find_questions
from biaslab.prompts import word_files
from biaslab.report import cards, citation
from biaslab.runs import params, runner, settings_reference
from biaslab.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "world/README.md", *sorted(ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Replaces the placeholder URL in examples.
URL = "https://example.org/v1"


def blocks(*languages):
    """Return the code blocks of all pages in a language, each with its page."""
    entries = []
    for page in PAGES:
        for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language in languages:
                entries.append(pytest.param(text, id=f"{page.relative_to(ROOT)}:{text.strip().splitlines()[0][:50]}"))
    return entries


def commands():
    """Return the commands of biaslab in blocks and within sentences, as lists of words, each once."""
    entries = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line for language, block in BLOCK.findall(text) if language == "sh" for line in logical_lines(block)]
        lines += re.findall(r"`(biaslab [^`]+)`", BLOCK.sub("", text).replace(" \n", " "))
        for line in lines:
            words = shlex.split(line, comments=True)
            if words[:1] == ["biaslab"] and not any("COMMAND" in word for word in words):
                entries.setdefault(tuple(words[1:]), page.relative_to(ROOT).as_posix())
    return [pytest.param(list(words), id=f"{page}:{' '.join(words)}") for words, page in entries.items()]


def logical_lines(block):
    return block.replace("\\\n", " ").splitlines()


@cache
def available():
    return params.find_notebooks(ROOT / "notebooks", ROOT / "world/biaslab_world/calibration/notebooks")


@pytest.mark.parametrize("words", commands())
def test_documented_commands_parse(words, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    parser = cli.build_parser()
    # A command that a sentence only mentions needs only a valid name.
    if len(words) == 1:
        (subparsers,) = (a for a in parser._actions if hasattr(a, "choices") and isinstance(a.choices, dict))
        assert words[0] in subparsers.choices
        return
    if words[0] == "--completion":
        return
    try:
        given = parser.parse_args(words)
    except SystemExit:
        pytest.fail(capsys.readouterr().err)
    if words[0] in ("run", "shard") and not re.search("mine|NAME", given.params):
        assert (ROOT / given.params).is_file()
    if overrides := [re.sub(r"(?<==)URL$", URL, text) for text in getattr(given, "overrides", [])]:
        # Values are checked like those of a run.
        file = ROOT / given.params if words[0] == "run" and (ROOT / given.params).is_file() else None
        base_values = None if file else {"run": "mine", "source": "pipeline", "model": "owner/name"}
        checked = params.load(file or runner.PARAMS, overrides=overrides, given=base_values)
        Settings.from_mapping(checked.values.get("settings") or {})


@pytest.mark.parametrize("text", blocks("sh"))
def test_documented_make_targets_exist(text):
    targets = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in logical_lines(text):
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert [word for word in words[1:] if "=" not in word and word not in targets] == []


@pytest.mark.parametrize("text", blocks("python"))
def test_documented_python_runs(text, tmp_path, monkeypatch):
    # The captions of a reader, in the folder where the page works.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "captions").mkdir()
    captions = [
        (f"http://localhost/{n}.jpg", f"a photo of a {job}") for n, job in enumerate(["nurse", "cook", "pilot"])
    ]
    pd.DataFrame(captions, columns=["url", "text"]).to_parquet(tmp_path / "captions" / "0.parquet")
    tree = ast.parse(text)
    imported_names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom | ast.Import)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name) or importlib.import_module(f"{node.module}.{alias.name}")
    # Examples with imports are run.
    if imported_names:
        exec(compile(tree, "page", "exec"), {})


@pytest.mark.parametrize("text", blocks("yaml"))
def test_documented_yaml_loads(text, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    content = yaml.safe_load(text)
    if isinstance(content, list):
        assert len(find_questions(str(file))) == len(content)
    elif "occupations" in content:
        assert word_files.read(str(file), "captions.vocabulary_file").occupations
    else:
        given = {"run": "mine", "source": "pipeline", "model": "owner/name"} | content
        Settings.from_mapping(params.load(runner.PARAMS, given=given).values["settings"])


@pytest.mark.parametrize("text", blocks("toml"))
def test_documented_entry_points_exist(text):
    from biaslab import plugins

    assert {*tomllib.loads(text)["project"]["entry-points"]} <= {*plugins.GROUPS}


def test_pages_name_existing_files_settings_and_tables():
    """Files of the project, settings, tables and notebooks that pages name in passing."""
    from biaslab import stats
    from biaslab.schema import tables

    settings = {one.name for one in settings_reference.find_declared()}
    groups = {group for group in settings_reference.groups() if group}
    setting = "|".join(group for group in groups if "." not in group)
    notebooks = {one.id for one in available()}

    def module(name):
        return name.endswith(".py") or (ROOT / "biaslab" / Path(*name.split(".")[:2])).with_suffix(".py").is_file()

    missing = []
    for page in PAGES:
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))
        # Code writes the generated parts.
        text = re.sub("<!-- Generated.*?<!-- End", "", text, flags=re.DOTALL)
        for name in re.findall(r"`([\w./*-]+)`", text):
            if re.match(r"(biaslab|params|benchmarks|notebooks|tests|docs|world/\w+)/", name):
                bases = (ROOT, ROOT / "world") if page.parent.name == "world" else (ROOT,)
                target_exists = any(next(base.glob(name), None) for base in bases)
            elif re.match(rf"({setting})\.[a-z]", name) and not module(name):
                target_exists = name in settings or name in groups
            elif re.fullmatch(r"(paradox|paired|dalleval|triplets|custom)_\w+", name):
                # Names of the library are tested in test_library.
                target_exists = (
                    name in tables.schemas() or name.startswith("paradox_table") or page.name == "library.md"
                )
                target_exists = target_exists or hasattr(stats, name)
            elif re.fullmatch(r"(paradox|paired|dalleval|triplets|synthesis|custom)/\w+", name):
                target_exists = name in notebooks
            else:
                continue
            missing += [] if target_exists else [(page.relative_to(ROOT).as_posix(), name)]
    assert missing == []


def test_glossary_matches_report_terms():
    """The glossary has the terms of reports and commands, each once and with an anchor."""
    page = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r'^\| <a id="([^"]+)"></a>(.+?) \| (.+?) \|$', page, re.MULTILINE)
    actual = {word: meaning for _, word, meaning in rows}
    assert len(actual) == len(rows) == len({anchor for anchor, _, _ in rows})
    assert [anchor for anchor, word, _ in rows] == [
        re.sub("[^a-z-]", "", word.lower().replace(" ", "-")) for _, word, _ in rows
    ]
    words = cards.words("glossary")["terms"]
    assert {word: actual.get(word) for word in words} == words


# -- commands that generate the site ---------------------------------------------------------------------


def test_settings_reference_matches_declarations(capsys):
    expected = {name: meaning for name, _, meaning in Settings().describe()}
    entries = settings_reference.find_declared()
    assert {one.name: one.meaning for one in entries} == expected
    by_name = {one.name: one for one in entries}
    assert by_name["generation.steps"].facts == "whole number or null; 1 to 1,000 steps; default null"
    assert by_name["paired.aspect"].limits == "0.1 to 10"
    assert by_name["compute.engine"].facts == 'one of `local`, `dask`; default "local"'
    assert by_name["judging.class_prompts"].kind == "list of strings"
    assert by_name["compute.cache"].kind == "path" and by_name["judging.gender"].kind == "name or path"
    # Defaults of an installed package.
    assert "default for models from biaslab-world: mini-clip" in by_name["judging.gender"].package_default
    assert (
        by_name["captions.corpus"].package_default[-1]
        == "from installed packages: depictions (biaslab-world), mini (biaslab-world)"
    )

    assert [one.name for one in settings_reference.find_declared("vision")] == [
        n for n in expected if n.startswith("vision.")
    ]
    assert [one.name for one in settings_reference.find_declared("settings.generation.steps")] == ["generation.steps"]
    assert "judging.min_face_size" in {one.name for one in settings_reference.find_declared("FACE")}
    assert cli.main(["settings", "compute.workers"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "compute.workers  (whole number; 0 or more processes; default 0)"
    assert cli.main(["settings", "guidance_scal3"]) == 2
    assert "Did you mean 'guidance_scale'" in capsys.readouterr().err
    with pytest.raises(UnknownNameError, match="No setting has 'xyzzy' in its name or description"):
        settings_reference.find_declared("xyzzy")


RUN = {
    "run": "mini_a",
    "title": "Four papers & more",
    "started": "2026-11-27T07:22:07Z",
    "biaslab": {"version": "0.1.0", "git_commit": "0123456789abcdef", "git_dirty": False},
    "notebooks": [{"id": "paradox/4_baseline", "status": "ok"}, {"id": "paired/4_4_overall", "status": "skipped"}],
    "tables": [{"name": "triplets_disparity", "rows": 3}, {"name": "dalleval_mad", "rows": 0}],
}


def test_citation_of_run_lists_what_it_used(tmp_path, capsys):
    run, package, *papers = citation.of_run(RUN, "https://example.org/a_b", "A. Auditor")
    by = "generated with biaslab 0.1.0 (commit 0123456789ab)"
    assert run.text == (
        f"A. Auditor (2026). Four papers & more. Run “mini_a” of 2026-11-27, {by}. https://example.org/a_b"
    )
    assert run.bibtex.splitlines() == [
        "@misc{biaslab-run-mini-a,",
        r"  title = {Four papers \& more},",
        "  author = {A. Auditor},",
        "  year = {2026},",
        "  url = {https://example.org/a_b},",
        rf"  howpublished = {{Run ``mini\_a'' {by}}},",
        "  note = {Generated on 2026-11-27}",
        "}",
    ]
    assert "version 0.1.0, commit 0123456789ab" in package.text and "Commit 0123456789abcdef" in package.bibtex
    # Only of what was finished: nothing of pairs was, and the table of DALL-Eval is empty.
    assert [one.what for one in papers] == ["paradox", "triplets"]
    assert papers[1].text.endswith("Journal of Imaging 11(2). https://doi.org/10.3390/jimaging11020035")
    with pytest.raises(ParameterError, match="--url is 'here'; it must be like https://"):
        citation.of_run(RUN, "here")
    # A title cannot break out of BibTeX.
    assert "  title = {a, author = b},\n" in citation.of_run(RUN | {"title": "a}, author = {b}\\"})[0].bibtex

    (tmp_path / "mini_a").mkdir()
    (tmp_path / "mini_a" / "run.json").write_text(json.dumps(RUN))
    words = ["cite", "mini_a", "--outputs", str(tmp_path), "--author", "A. Auditor", "--url", "https://example.org/a_b"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out == citation.format_citations([run, package, *papers]) + "\n"
    assert cli.main(["cite", "other", "--outputs", str(tmp_path)]) == 2


def test_citations_agree_with_cff():
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (
        f"{cff['authors'][0]['name']} (2026). {cff['title']} (version {cff['version']})." == citation.of_package().text
    )
    actual = [citation.of_paper(name).text for name, about in cards.words("papers").items() if about["bibtex"]]
    assert [next(r["title"] in text for text in actual if r["title"] in text) for r in cff["references"]] == [True] * 4


# -- the site -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    folder = tmp_path_factory.mktemp("site")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "world"), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    process = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert process.returncode == 0, process.stdout + process.stderr
    return folder


class Parsed(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        has = dict(attrs)
        self.ids.update(filter(None, (has.get("id"), has.get("name") if tag == "a" else "")))
        if tag == "a" and has.get("href"):
            self.links.append(has["href"])
        elif tag == "link" and has.get("rel") not in ("prev", "next", "canonical"):
            self.loads.append(has.get("href", ""))
        else:
            self.loads += [has[name] for name in ("src", "srcset", "data", "poster") if has.get(name)]


@pytest.fixture(scope="module")
def parsed(site):
    return {path: Parsed(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}


@pytest.mark.long
def test_site_links_resolve(site, parsed):
    assert {"index.html", "tutorial.html", "glossary.html"} <= {p.relative_to(site).as_posix() for p in parsed}
    broken = []
    for path, page in parsed.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme:
                assert target.scheme in ("https", "http"), (path, link)
                continue
            target_exists = (path.parent / unquote(target.path)).resolve() if target.path else path
            expected = parsed.get(target_exists)
            if not target_exists.is_file() or (
                target.fragment and expected and unquote(target.fragment) not in expected.ids | {"__top"}
            ):
                broken.append((path.relative_to(site).as_posix(), link))
    assert broken == []


@pytest.mark.long
def test_site_loads_no_external_resources(site, parsed):
    for path, page in parsed.items():
        for load in page.loads:
            assert load.startswith("data:") or (not urlsplit(load).scheme and not load.startswith("//")), (path, load)
            assert load.startswith("data:") or (path.parent / unquote(urlsplit(load).path)).is_file(), (path, load)
    for path in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path


def test_site_lists_every_command_setting_and_table(site):
    names = ("commands", "settings", "tables")
    page = {name: (site / f"reference/{name}.html").read_text(encoding="utf-8") for name in names}
    (subparsers,) = (a for a in cli.build_parser()._actions if isinstance(getattr(a, "choices", None), dict))
    assert all(f'id="{name}"' in page["commands"] for name in subparsers.choices)
    assert all(f'id="{one.name}"' in page["settings"] for one in settings_reference.find_declared())
    assert 'id="paradox_amplification"' in page["tables"]
    assert not any("{{" in text for text in page.values())


@pytest.mark.long
@pytest.mark.browser
def test_site_works_and_searches_offline(site, browser):
    requested_urls = []
    for width in (1280, 390):
        context = browser.new_context(viewport={"width": width, "height": 900})
        tab = context.new_page()
        tab.on("request", lambda request: requested_urls.append(request.url))
        for name in ("index", "tutorial", "howto/model", "papers/paired", "glossary", "reference/outputs", "world"):
            tab.goto((site / f"{name}.html").as_uri())
            beyond = "e => e.filter(x => x.getBoundingClientRect().right > innerWidth + 1).length"
            assert tab.eval_on_selector_all(".md-content table, .md-content img", beyond) == 0, (name, width)
        if width == 1280:
            tab.fill(".md-search__input", "specification curve")
            tab.wait_for_selector(".md-search-result__item", timeout=20_000)
        context.close()
    assert [url for url in requested_urls if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


def test_citation_title_is_escaped_in_bibtex():
    run, *_ = citation.of_run(RUN | {"title": "a}, author = {b}\\", "run": "x"})
    assert "  title = {a, author = b},\n" in run.bibtex
