"""Ten thousand hostile captions from files to the report, without effect on other captions."""

import csv
import gzip
import json
import random
import re
from collections.abc import Callable

import nbformat
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from biaslab import report
from biaslab.captions.corpus import open_corpus
from biaslab.captions.embeddings import Encoder
from biaslab.pipeline import Pipeline, Settings
from biaslab.runs.collect import write_table
from biaslab.schema import tables
from biaslab.study import sources

pytestmark = pytest.mark.long

N = 10_000
OCCUPATIONS = ["nurse", "engineer", "prime minister", "chef", "housekeeper", "tax collector"]
# Scripts for a browser, each with a mark that reveals its execution.
SCRIPTS = [
    "<script>window.hacked=1</script>",
    "</td></tr></table></script><script>window.hacked=2</script>",
    '<img src=x onerror="window.hacked=3">',
    "<svg onload=window.hacked=4>",
    '"><body onload=window.hacked=5>',
    "'-window.hacked=6-'",
    "<iframe srcdoc='<script>parent.hacked=7</script>'></iframe>",
    '<a href="javascript:window.hacked=8">click</a>',
    "javascript:window.hacked=9",
    "<style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=https://example.org'>",
    "<link rel=stylesheet href=https://example.org/x.css>",
    "<base href=https://example.org/>",
    "<form action=https://example.org><input name=a></form>",
    "<!-- ",
    "]]> ",
    "<![CDATA[ ",
    "</textarea></title></noscript><template>",
    "&lt;script&gt;window.hacked=10&lt;/script&gt;",
    "&#60;script&#62;window.hacked=11&#60;/script&#62;",
    "{{ self.__init__.__globals__ }} {% raw %} ${7*7} <%= 1%>",
    "# heading\n---\n[x](javascript:window.hacked=12) ![y](https://example.org/y.png) `code` $\\frac{1}{$ $$",
    "<details open ontoggle=window.hacked=13>",
]
FORMULAS = [
    "=cmd|' /C calc'!A0", '=HYPERLINK("https://example.org","x")', "+1+1", "-2+3", "@SUM(1:9)", "\t=1+1", "\r=1+1",
    "\n=1+1", "＝1+1", "＋1", "－1", "＠SUM(1)", "'=1+1", "''", '"=1+1"',
]  # fmt: skip
CHARACTERS = [
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u200b\u200c\u200d\u2060\ufeff\u2028\u2029\u00ad\ufffd\ufffe\uffff\U0010ffff\ue000",
    *"\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c",
    *"İıſKÅﬁßΣς\u0130\u2126ǅ",
]
EMOJI = ["👩🏽‍⚕️", "👨‍👩‍👧‍👦", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🧑‍🚀" * 50, "🇩🇪🇫🇷", "☠️", "\U0001f9d1\u200d" * 200]
# Clusters without a line break opportunity.
UNBROKEN = ["ᄀ" * 300, "क्" * 200, "a" + "\u0903" * 300, "\U0001f3fd" * 200, "\U000e0041" * 300, "\u0600" * 200]
PILES = ["Z" + "\u0300\u0301\u0334\u0489" * 60, "ก" + "\u0e47" * 200, "\u0301" * 500, "ﷺ" * 300, "𒐫" * 100]
NOTHINGS = ["", " ", "\t \t", "null", "NULL", "NaN", "nan", "None", "inf", "-inf", "1e999", "-0", "0x10", "1" * 400]
LONG = ["x" * 5000, "nurse" * 2000, "," * 3000, '"' * 2999, "\\" * 3000, "(" * 2000 + "a+)+$", "a " * 20_000]


def hostile_captions():
    """Return 10,000 captions; about half of them name an occupation, so that they are selected, judged and shown."""
    rng = random.Random(4)

    def with_occupation(text: str) -> str:
        occupation = rng.choice(OCCUPATIONS)
        return rng.choice(
            [f"{text} {occupation}", f"{occupation} {text}", f"{text} the {occupation} and her {text}", text]
        )

    def characters() -> str:
        insertion = "".join(rng.choices(CHARACTERS, k=rng.randint(1, 12)))
        return rng.choice(
            [insertion, f"Dr. Maria{insertion} Lopez", f"a{insertion}woman", insertion.join("photo of a man")]
        )

    kinds: list[Callable[[], str]] = [
        lambda: rng.choice(SCRIPTS),
        lambda: rng.choice(FORMULAS),
        characters,
        lambda: rng.choice(EMOJI),
        lambda: rng.choice([*PILES, *UNBROKEN]),
        lambda: rng.choice(NOTHINGS),
        lambda: "".join(rng.sample([*SCRIPTS, *FORMULAS, *EMOJI, *PILES], 4)),
        lambda: "".join(chr(rng.choice([rng.randint(1, 0xD7FF), rng.randint(0xE000, 0x10FFFF)])) for _ in range(30)),
    ]
    texts = [with_occupation(kinds[i % len(kinds)]()) for i in range(N - len(LONG) - 3)]
    texts += [with_occupation(text) for text in LONG]
    megabyte = 2**20
    texts += ["nurse " + "x" * megabyte, "nurse, photo of a chef " * (megabyte // 23), "<b>" * (megabyte // 3) + "chef"]
    assert len(texts) == N
    return texts


def harmless_captions():
    """Return captions of the embedded world that name an occupation."""
    captions = pd.concat(list(open_corpus("mini", max_captions=3000, seed=2).batches()), ignore_index=True)
    texts = captions["text"][captions["truth_occupation"].isin(OCCUPATIONS)].tolist()
    assert len(texts) > 50
    return [f"{text}, by example {i}" for i, text in enumerate(texts)]


def mix_rows(texts, harmless):
    """Return rows (id, text, url), hostile ones among harmless ones."""
    rows = [(f"x{i:05d}", text, f"javascript:{i}") for i, text in enumerate(texts)]
    rows += [(f"h{i:05d}", text, f"https://example.org/{i}.jpg") for i, text in enumerate(harmless)]
    random.Random(5).shuffle(rows)
    return rows


def write_corpus(folder, rows):
    """Write rows to four kinds of files with columns, a quarter each; return the expected captions."""
    folder.mkdir()
    quarter = -(-len(rows) // 4)
    parts = [rows[i : i + quarter] for i in range(0, len(rows), quarter)]
    columns = ["key", "caption", "url"]
    pd.DataFrame(parts[0], columns=columns, dtype=object).to_parquet(folder / "0.parquet")
    for name, separator, part in (("1.csv", ",", parts[1]), ("2.tsv", "\t", parts[2])):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writerows([columns, *part])
    with (folder / "3.jsonl").open("w", encoding="utf-8") as file:
        for n, row in enumerate(parts[3]):
            # Half of the lines as they are, half with escapes.
            file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=bool(n % 2)) + "\n")
    return {key: (text, url) for key, text, url in rows}


class Letters(Encoder):
    """Unit vectors of counts of some letters in a text."""

    digest = "letters"

    def encode(self, texts):
        counts = np.array([[1.0, *(t[:2000].lower().count(c) for c in "aeinrw")] for t in texts], dtype=np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


class FakePipeline(Pipeline):
    """A pipeline without models."""

    _encoder = Letters()

    def judge_images(self, images):
        ids = images.table["image_id"]
        gender = np.where(np.arange(len(ids)) % 2, "female", "male")
        return pd.DataFrame({"image_id": ids, "status": "judged", "gender": gender, "probability_female": 0.5})

    def generate_images(self, prompts, *given, **more):
        return FakeImages(prompts)


class FakeImages:
    """Generated images that are never read."""

    name, digest, read = "made", "made", None

    def __init__(self, prompts):
        assert prompts["prompt_id"].is_unique and all(isinstance(t, str) for t in prompts["text"])
        constants = {"index": 0, "seed": 0, "status": "ok"}
        self.table = prompts[["prompt_id"]].assign(image_id=prompts["prompt_id"] + "/0", **constants)


def open_pipeline(folder, corpus, tmp_path):
    """Return a pipeline over all captions of a corpus, with a folder that holds an image of one."""
    images = tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (8, 8)).save(images / "h00000.png")
    settings = {
        "captions": {
            "corpus": str(folder / corpus),
            "columns": {"text": "caption", "caption_id": "key"},
            "training_images": str(images),
            "occupations": OCCUPATIONS,
            "per_occupation": 2 * N,
            "candidates_per_occupation": 0,
            "nearest_per_prompt": 2 * N,
        },
        "generation": {"caption_prompts_per_occupation": 2 * N, "images_per_prompt": 1},
        # Judges that the pipeline replaces.
        "judging": {"faces": "whole image", "gender": "plugin:drawn"},
        "compute": {"cache": str(tmp_path / "store")},
    }
    return FakePipeline("fake", Settings.from_mapping(settings), progress=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The corpora, of all captions and of the harmless ones, and the expected captions of the former."""
    folder = tmp_path_factory.mktemp("hostile")
    harmless = harmless_captions()
    rows = mix_rows(hostile_captions(), harmless)
    expected = write_corpus(folder / "all", rows)
    write_corpus(folder / "harmless", [row for row in rows if row[0].startswith("h")])
    return folder, expected


@pytest.fixture(scope="module")
def pipes(made, tmp_path_factory):
    """Pipelines over both corpora."""
    folder, _ = made
    return [open_pipeline(folder, name, tmp_path_factory.mktemp(name)) for name in ("all", "harmless")]


@pytest.fixture(scope="module")
def measured(pipes):
    """Every measured table of the pipeline over all captions."""
    return {name: sources.load_measured(name, source="pipeline", pipeline=pipes[0]) for name in TABLES}


TABLES = [
    *(f"paradox_{name}" for name in ("percent_female", "caption_counts", "prompts", "indicators", "examples")),
    *(f"paradox_{name}" for name in ("selection_examples", "judgement_outcomes", "gender_words", "paraphrases")),
    "pipeline_settings",
]


def test_corpus_reads_hostile_captions_unchanged(made):
    folder, expected = made
    corpus = open_corpus(str(folder / "all"), columns={"text": "caption", "caption_id": "key"})
    result = pd.concat(list(corpus.batches()), ignore_index=True)
    assert len(result) == len(expected) and result["caption_id"].is_unique
    mismatches = [
        (key, text[:60], expected[key][0][:60])
        for key, text, url in result[["caption_id", "text", "url"]].itertuples(index=False)
        if (text, url) != expected[key]
    ]
    assert mismatches == []


def test_corpus_reads_arbitrary_bytes_by_line(tmp_path):
    """One caption per line, for any bytes."""
    rng = random.Random(6)
    lines = [bytes(rng.choices([b for b in range(256) if b != 10], k=rng.randint(0, 60))) for _ in range(5000)]
    lines += [t.replace("\n", " ").encode() for t in hostile_captions()]
    for name, pack in (("a.txt", bytes), ("a.txt.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(b"\n".join(lines) + b"\n"))
        result = pd.concat(list(open_corpus(str(tmp_path / name)).batches()), ignore_index=True)
        # The byte order mark is not part of the first caption, nor a carriage return part of any.
        expected = [line.decode("utf-8", errors="replace").rstrip("\r") for line in lines]
        assert result["text"].tolist() == [expected[0].removeprefix("\ufeff"), *expected[1:]]


def test_hostile_captions_do_not_affect_others(pipes):
    all_captions, harmless_only = pipes

    def harmless(frame, *columns):
        keys = ["caption_id", *columns]
        rows = frame[frame["caption_id"].astype(str).str.startswith("h")][keys]
        return rows.sort_values(keys).to_numpy(dtype=object).tolist()

    def check_equal(get, *columns):
        expected = harmless(get(harmless_only), *columns)
        assert len(expected) > 50 and harmless(get(all_captions), *columns) == expected

    check_equal(lambda p: p.captions(), "occupation", "text", "url", "indicator", "spans")
    # To six digits: the last bits of a product of matrices depend on their size.
    check_equal(lambda p: p.cosines().round({"cosine": 6}), "occupation", "prompt", "cosine")
    check_equal(lambda p: p.selections(), "approach", "occupation", "prompt")
    for kind in ("caption_prompts", "paraphrased"):
        check_equal(lambda p, kind=kind: p.prompts(kind), "prompt_id", "occupation", "text")
    # The order of the random sample is the same, too, and independent of other captions.
    ranks = [p.captions().sort_values(["occupation", "rank"]) for p in pipes]
    orders = [r[r["caption_id"].str.startswith("h")][["occupation", "caption_id"]].to_numpy().tolist() for r in ranks]
    assert orders[0] == orders[1] and len(orders[0]) > 50
    # Hostile ones are found as well: thousands of them.
    assert (~all_captions.captions()["caption_id"].str.startswith("h")).sum() > 2000


def test_hostile_tables_round_trip_without_formulas(measured, tmp_path):
    starts = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
    for name, frame in measured.items():
        path = tables.write(tables.check(frame, name), tmp_path / f"{name}.csv")
        reread = tables.read(path, name)
        pd.testing.assert_frame_equal(reread, tables.check(frame, name), check_dtype=False, rtol=1e-9)
        texts = {c.name for c in tables.schema(name).columns if c.text}
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        assert len(rows) == len(frame)
        text_columns = [i for i, column in enumerate(header) if column in texts]
        assert [row[i] for row in rows for i in text_columns if row[i].startswith(starts)] == []
    assert measured["paradox_paraphrases"]["caption"].str.startswith(starts).sum() > 100


def test_notebook_page_truncates_long_output(tmp_path):
    long = "<" * 40_000
    cell = nbformat.v4.new_code_cell("x")
    cell.outputs = [
        nbformat.v4.new_output("stream", text=long),
        nbformat.v4.new_output("display_data", data={"text/html": f"<p>{'&lt;' * 40_000}</p>"}),
        nbformat.v4.new_output("display_data", data={"text/plain": long}),
        nbformat.v4.new_output("error", ename="E", evalue="e", traceback=[long]),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "a.ipynb")
    page = report.render_notebook(tmp_path / "a.ipynb", tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count("20,000 more characters in the notebook") == 4
    assert 4 * 20_000 <= page.count("&lt;") < 4 * 21_000


# -- the report ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_dir(made, measured, tmp_path_factory):
    """A run folder whose report shows every hostile caption: in tables, findings and titles."""
    folder = tmp_path_factory.mktemp("outputs") / "hostile"
    (folder / "tables").mkdir(parents=True)
    _, expected = made
    texts = [text for key, (text, _) in sorted(expected.items()) if key.startswith("x")]
    frames = {
        f"paradox_hostile_{i}": pd.DataFrame({"id": range(len(part)), "caption": part, "note": part[::-1]})
        for i in range(0, N, 2000)
        if (part := texts[i : i + 2000])
    }
    # Columns may have names like these, too.
    frames["paradox_names"] = pd.DataFrame([range(len(SCRIPTS))], columns=SCRIPTS)
    column = tables.Column("caption", SCRIPTS[1], SCRIPTS[0])
    written = [
        write_table(frame, folder, tables.Schema(name, SCRIPTS[2], "", (column,)))
        for name, frame in {**measured, **frames}.items()
    ]
    short = [*SCRIPTS, *FORMULAS, *EMOJI, *PILES, *UNBROKEN, *NOTHINGS, *LONG]
    about = {
        "run": "hostile",
        "title": "Hostile " + SCRIPTS[1] + PILES[0],
        "description": "\n\n".join(short[:40]),
        "status": "ok",
        "findings": [
            {"question": text, "answer": text, "model": text, "details": [text], "main": i < 3, "notebook": "paradox/1"}
            for i, text in enumerate(short)
        ],
        "tables": [entry for entry, _ in written],
        "limits": short,
        "parameters": {"settings": {text: text for text in short}},
        "notebooks": [{"id": "paradox/1", "title": SCRIPTS[4], "status": "ok", "html": "notebooks/paradox/1.html"}],
    }
    (folder / "run.json").write_text(json.dumps(about), encoding="utf-8")
    report.build(folder, {entry["name"]: layout for entry, layout in written})
    return folder


def test_report_contains_no_foreign_markup(run_dir):
    from bs4 import BeautifulSoup

    page = BeautifulSoup((run_dir / "index.html").read_text(encoding="utf-8"), "html.parser")
    assert len(page("script")) == 1 and len(page("style")) == 1
    assert page(["iframe", "form", "base", "object", "svg", "textarea", "template"]) == []
    # The page's own empty icon.
    assert [link["href"] for link in page("link")] == ["data:,"]
    assert [a for a in page("a") if not re.match("#|tables/|notebooks/|run.json$", a["href"])] == []
    assert [t for t in page(True) if any(name.startswith("on") for name in t.attrs)] == []
