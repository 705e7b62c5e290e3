"""The output folder of a run, with hostile texts in all names that users can choose."""

import csv
import json
import shutil
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import nbformat
import numpy as np
import pandas as pd
import papermill
import pytest
from matplotlib.figure import Figure

from biaslab import report
from biaslab.report.index import ROWS_SHOWN
from biaslab.schema.table_layout import lay_out
from biaslab.schema.tables import Column, Schema

# Each sets window.hacked if any of it ever runs. The names replace user-chosen names: occupations, files.
SCRIPT = "<script>window.hacked=1</script>"
IMAGE = '"><img src=x onerror="window.hacked=1">'
CLOSING = "</script></style></title><svg onload=window.hacked=1>"
RTL = "\u202eevil\u202c \u05de\u05d4\u05e0\u05d3\u05e1\u05ea \u0645\u0645\u0631\u0636\u0629"
EMOJI = "👩🏽‍🔬 scientist"
LONG = "occupation" * 30
HOSTILE = [SCRIPT, IMAGE, CLOSING, RTL, EMOJI, LONG, "{{ 7 * 7 }}", "a\u2028b\u0000c\ud800d"]

LARGE_ROWS = 12_000
GAPS = [
    ("nurse", "12.5", "30", ""),
    ("=SUM(A1)", "", "0", "no accepted image"),
    ("ceo", "-3.25", "8", ""),
    ("tutor", "-10.5", "9", ""),
    ("poet", "0.000013", "7", ""),
]
OCCUPATIONS = ["nurse", "Doctor", "doctor 10", "doctor 9", "ceo", *HOSTILE[:6]]


def _notebook(cells):
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def _parameters():
    cell = nbformat.v4.new_code_cell(
        'model = "SD 1.4"  # which model\nseed = 1  # seed of every resampling\nalphas = [0.05, 0.01]'
    )
    cell.metadata["tags"] = ["parameters"]
    return cell


GOOD_CELLS = [
    nbformat.v4.new_markdown_cell(
        "# The naive approach\n\nExpect amplification $|\\hat{p}-50|$ of about ten points.\n\n"
        f"{SCRIPT}{IMAGE}\n\n[link](javascript:window.hacked=1) and [paper](https://example.org/)\n\n"
        "![remote](https://example.org/pixel.png)\n\n$$\\frac{1}{n}\\sum_{i} (G_i - T_i)$$\n\n> A quotation & more"
    ),
    nbformat.v4.new_code_cell(
        "import matplotlib\nmatplotlib.use('Agg')\nimport pandas as pd\nfrom IPython.display import *\n"
        f"hostile = {SCRIPT + IMAGE!r}\n"
        "table = pd.DataFrame({'occupation': ['nurse', hostile], 'amplification': [10.25, -3.5]})\ntable"
    ),
    nbformat.v4.new_code_cell(
        "from matplotlib.figure import Figure\nimport io\nfigure = Figure(figsize=(4, 3), dpi=100)\n"
        "axes = figure.subplots()\naxes.plot([0, 1], [0, 1])\nbuffer = io.BytesIO()\nfigure.savefig(buffer)\n"
        "display(Image(buffer.getvalue()), metadata={'alt': 'A rising line'})\n"
        "display(HTML('<b>kept</b><iframe src=\"https://example.org\"></iframe>' + hostile))\n"
        "display(Markdown('**strong** ' + hostile))\ndisplay(Javascript('window.hacked=1'))\nprint(hostile)"
    ),
]


def execute(folder):
    """Run a notebook that fails with papermill, ``failed.ipynb`` below ``folder``; ``good.ipynb`` is what went well."""
    failing = nbformat.v4.new_code_cell(f"raise ValueError({'no table ' + SCRIPT!r})")
    cells = [GOOD_CELLS[0], _parameters(), *GOOD_CELLS[1:]]
    not_run = nbformat.v4.new_code_cell(GOOD_CELLS[-1].source)
    nbformat.write(_notebook([*cells, failing, not_run]), folder / "source.ipynb")
    options = {"parameters": {"model": "SD 1.5"}, "progress_bar": False}
    with pytest.raises(papermill.PapermillExecutionError):
        papermill.execute_notebook(folder / "source.ipynb", folder / "failed.ipynb", **options)
    failed = nbformat.read(folder / "failed.ipynb", as_version=4)
    went = [c for c in failed.cells if "papermill-error-cell-tag" not in c.metadata.get("tags", [])]
    failed.cells = went[: len(cells) + 1]  # with the injected parameters
    nbformat.write(failed, folder / "good.ipynb")


def _figure(run, name, size=(7, 4.4)):
    figure = Figure(figsize=size, dpi=160, layout="constrained")
    axes = figure.subplots()
    noise = np.random.default_rng(len(name)).normal(0, 8, 62)
    training = np.linspace(2, 98, 62)
    axes.axline((0, 0), slope=1, color="#999", linewidth=0.8)
    axes.scatter(training, np.clip(training + noise, 0, 100), s=18)
    axes.set(xlabel="Training images: % female", ylabel="Generated images: % female", xlim=(0, 100), ylim=(0, 100))
    for kind in ("png", "svg"):
        figure.savefig(run / f"figures/{name}.{kind}")


def _csv(path, header, rows):
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_run(run: Path, executed: Path) -> dict:
    """Write a run folder under ``run`` and return the content of its ``run.json``."""
    for folder in ("notebooks/paradox", "tables", "figures"):
        (run / folder).mkdir(parents=True)
    for name in ("paradox_naive", "paradox_prompts", "triplets_" + "a" * 60):
        _figure(run, name)
    _csv(
        run / "tables/paradox_amplification.csv",
        ["model", "definition", "prompt", "amplification", "ci_low", "ci_high", "n_occupations", "p"],
        [
            [model, definition, prompt, f"{10.57 - i + j:.12f}", 7.1 - i, 13.9 - i, 62 - i, 0.000013 * (i + 1)]
            for model in ("SD 1.4", "SD 1.5")
            for i, definition in enumerate(("paper", "all", "signed"))
            for j, prompt in enumerate((1, 2, 3, 4, "mean"))
        ],
    )
    _csv(
        run / "tables/paradox_percent_female.csv",
        ["occupation", "percent_female", "n"],
        [[occupation, 100 - 9.5 * i, 100 + i] for i, occupation in enumerate(OCCUPATIONS)],
    )
    _csv(run / "tables/paired_gaps.csv", ["occupation", "score", "n", "reason"], GAPS)
    _csv(
        run / "tables/dalleval_skills.csv",
        ["image_id", "skill", "correct", "confidence"],
        ([f"{i:06d}", ("object", "count", "spatial")[i % 3], i % 2, f"{i / 12_000:.6f}"] for i in range(LARGE_ROWS)),
    )
    _csv(run / "tables/triplets_disparity.csv", ["pair", "value"], [[f"pair {i}", i * 1.5] for i in range(60)])
    shutil.copy(executed / "good.ipynb", run / "notebooks/paradox/4_baseline.ipynb")
    shutil.copy(executed / "failed.ipynb", run / "notebooks/paradox/8_prompts.ipynb")
    for name in ("4_baseline", "8_prompts"):
        report.render_notebook(
            run / f"notebooks/paradox/{name}.ipynb",
            run / f"notebooks/paradox/{name}.html",
            index_href="../../index.html",
        )

    def column(name, unit="", description=""):
        return {"name": name, "unit": unit, "description": description}

    def table(name, title, columns, notebook="paradox/4_baseline"):
        description = f"{title}, one row for each combination. {IMAGE}"
        file = f"tables/{name}.csv"
        return {"name": name, "title": title, "description": description, "file": file, "rows": 1,
                "columns": columns, "notebooks": [notebook]}  # fmt: skip

    def figure(name, title, main, order, alt):
        return {"name": name, "title": title, "caption": f"Each point is one occupation. {SCRIPT}", "alt": alt,
                "notebook": "paradox/4_baseline", "variant": "", "png": f"figures/{name}.png",
                "svg": f"figures/{name}.svg", "main": main, "order": order}  # fmt: skip

    def notebook(name, title, status="ok", reason="", written=True):
        stem = f"notebooks/{name}"
        return {"id": name, "variant": "", "paper": name.split("/")[0], "title": title, "status": status,
                "reason": reason, "seconds": 12.34, "notebook": f"{stem}.ipynb" if written else None,
                "html": f"{stem}.html" if written else None}  # fmt: skip

    about = {
        "run": "published",
        "title": "Gender bias of Stable Diffusion, from published numbers",
        "description": "The published shares of 62 occupations were read again and every measure was recomputed, "
        f"with intervals. {SCRIPT}\n\nNo image was generated.",
        "status": "failed",
        "params_file": "params/published.yaml",
        "parameters": {"seed": 20, "bootstrap_replicates": 2000, "models": ["SD 1.4"], "nested": {"hostile": CLOSING}},
        "sweep": {"model": ["SD 1.4", IMAGE]},
        "seeds": {"seed": 20},
        "biaslab": {"version": "0.1.0", "git_commit": "1a2b3c4d5e6f", "git_dirty": True},
        "packages": {"numpy": "2.3.0", "pandas": "3.1.1"},
        "platform": {"python": "3.12.1", "system": "Linux", "machine": "x86_64", "processor": "x86_64", "cores": 2},
        "started": "2025-11-21T02:48:00+00:00",
        "ended": "2025-11-21T02:49:42+00:00",
        "seconds": 102.0,
        "notebooks": [
            notebook("paradox/4_baseline", "Naive approach"),
            notebook("paradox/8_prompts", "Variation across prompts", "failed", f"ValueError: no table {SCRIPT}"),
            notebook("paired/4_overall", "Overall scores", "skipped", "Needs a table that failed.", written=False),
            notebook(f"triplets/{LONG}", LONG),
        ],
        "findings": [
            {"notebook": "paradox/4_baseline", "question": "Anything else?", "answer": "A minor finding.",
             "main": False, "order": 0},
            {"notebook": "paradox/4_baseline", "main": True, "order": 2, "question": "Is bias amplified?",
             "model": "SD 1.4", "printed": True, "answer": "Yes, with the published exclusion rule.",
             "numbers": "10.2 points (7.1 to 13.4; n = 62 occupations)", "figure": "paradox_naive",
             "estimate": 10.2, "ci_low": 7.1, "ci_high": 13.4, "unit": "points", "reference": 0.0,
             "details": ["Signed, it is about 1 point."]},
            {"notebook": "paradox/4_baseline", "question": f"First of all? {SCRIPT}{RTL}", "answer": f"{SCRIPT}{RTL}",
             "model": f"{SCRIPT}", "main": True, "order": 1},
        ],
        "verdicts": {
            "alpha": 0.05, "headlines": 31, "significant": 18, "untested": 3, "withdrawn": 2, "printed": 9,
            "others": 60, "others_significant": 25,
        },
        "figures": [
            figure("triplets_" + "a" * 60, LONG, False, 1, IMAGE),
            figure("paradox_naive", "Training against generated share", True, 1, "Points lie above the diagonal."),
            figure("paradox_prompts", "Variation across prompts", True, 2, ""),
            {**figure("gone", "A figure whose file is gone", False, 9, ""), "png": "../secret.png", "svg": None},
        ],
        "tables": [
            table("paradox_amplification", "Expected amplification",
                  [column("amplification", "points", "How much further from even the generated share is."),
                   column("p", "", f"Two-sided p-value. {CLOSING}")]),
            table("paradox_percent_female", "Share of women by occupation", [column("percent_female", "0–100")]),
            table("paired_gaps", "Scores with gaps", []),
            table("dalleval_skills", "Every judged image", []),
            table("triplets_disparity", "Disparity", []),
        ],
        "limits": ["Gender is as perceived, and binary.", f"A limit named {IMAGE}"],
        "coverage": [
            {"paper": paper, "kind": kind, "number": str(number), "title": f"Item {number}", "status": status,
             "notebook": "paradox/4_baseline", "output": "paradox_amplification" if number == 1 else "",
             "inputs": "Table 7" if number == 1 else "", "note": SCRIPT if number == 2 else ""}
            for paper in ("paradox", "triplets")
            for kind in ("table", "figure")
            for number, status in enumerate(["regenerated", "reprinted", "open", "illustrative"], start=1)
        ],
    }  # fmt: skip
    (run / "run.json").write_text(json.dumps(about), encoding="utf-8")
    return about


def layouts(run: Path, entries: list[dict]) -> dict:
    """Return layouts of the tables that entries of a record name, by name."""
    layouts_by_name = {}
    for entry in entries:
        columns = tuple(Column(**column) for column in entry.get("columns", ()))
        frame = pd.read_csv(run / entry["file"])
        layouts_by_name[entry["name"]] = lay_out(frame, Schema(entry["name"], "", "", columns), max_rows=ROWS_SHOWN)
    return layouts_by_name
