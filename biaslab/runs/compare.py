"""Runs side by side: every table they share, with differences and their intervals."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, takewhile
from pathlib import Path

import pandas as pd

from biaslab.cache.result_cache import cache_now
from biaslab.errors import ParameterError, RunError, name_help
from biaslab.papers.estimands import Estimand, correlations
from biaslab.planning.measures import paper_modules
from biaslab.redact import basename
from biaslab.report import records
from biaslab.report.index import ROWS_SHOWN
from biaslab.runs.caveats import LIMITS
from biaslab.runs.collect import write_json, write_table
from biaslab.runs.params import run_name
from biaslab.runs.resume import check_tables
from biaslab.schema import tables
from biaslab.schema.table_layout import TableLayout, lay_out
from biaslab.stats import difference_interval, min_units
from biaslab.study import sources

_INDEPENDENCE = (
    "Intervals of differences pair the units that both runs have (occupations, professions, scenes, triplets), "
    "where `n_paired` counts some (MOVER, Zou 2007). All others take the two runs as independent: they are too wide "
    "where runs that share occupations, images or training captions move together."
)
# Keys that name a model.
_MODELS = ("model", "model_a", "model_b", "first", "second")
# What a comparison's record takes from the runs'.
_COPIED = {"biaslab", "packages", "platform", "seeds"}
# What a row of both runs compares.
IDENTICAL, SAME_INPUTS, DIFFERENT = "identical", "same inputs", "different inputs"
# What columns mean that a comparison adds.
_DESCRIPTIONS = {
    "in_runs": "Which run has the row: both, first or second.",
    "n_paired": "Units that both runs have and that the difference's interval pairs; empty where runs are taken as "
    "independent.",
    "basis": f"`{IDENTICAL}`: the same value from the same measurements; `{SAME_INPUTS}`: the same measurements, "
    f"analysed otherwise, so the difference has no interval; or `{DIFFERENT}`.",
}
_PARAMETER = "A parameter that a run was repeated for."


def side_by_side(
    first: pd.DataFrame,
    second: pd.DataFrame,
    name: str,
    *,
    swept: Sequence[str] = (),
    intervals: bool = True,
    same: Collection[str] | bool = (),
    over: Sequence[pd.DataFrame] = (),
    confidence: float = 0.95,
    printed: Collection[str] = (),
) -> pd.DataFrame:
    """Return the rows of table ``name`` that either run has, with both values and the difference.

    Args:
        swept: Parameters that a run was repeated for; rows are matched on those that both have.
        intervals: Whether differences have intervals: the two sides' are of one level.
        same: Models whose measurements are the same in both runs, with ``""`` where all are; ``True`` represents all
            rows.
        over: Both runs' units that the rows are means over (:mod:`biaslab.papers.estimands`). Rows with enough units
            in both for a verdict at the level ``confidence`` are paired, and ``n_paired`` counts these units.
        printed: Models with printed values: where each run also has a model of its own, these are compared.

    Returns:
        The table's identity (a key that differs in every row is told apart by ``_first`` and ``_second``),
        ``in_runs`` (``both``, ``first`` or ``second``), ``basis`` (``identical``; ``same inputs``, whose difference has
        no sampling error and so no limits; or ``different inputs``), then of each estimate with an interval, after the
        uncorrected estimate where there is one (without
        any: of each number that is no count) ``_first``, ``_second``, ``_difference``, and limits of each.
    """
    declared = tables.schema(name)
    first, second = _own_models(first, second, printed)
    over = _own_models(*over, printed) if over else ()
    either = list(dict.fromkeys([*declared.keys, *swept]))
    identity = [k for k in either if k in first and k in second]
    # Rows are matched on all keys but those with one value a run that the runs do not share.
    held = {k: (set(first[k].dropna()), set(second[k].dropna())) for k in identity}
    keys = [k for k, (a, b) in held.items() if a == b or not len(a) == len(b) == 1] or identity
    apart = [k for k in identity if k not in keys]
    declared_intervals = [i for i in declared.intervals if {*i} <= {*first} and {*i} <= {*second}]
    corrected = [estimate for estimate, *_ in declared.intervals]
    # A corrected estimate carries the interval; the paper's own is compared next to it.
    named = [name for column in corrected for name in (column.removesuffix("_corrected"), column)]
    names = {c.name for c in declared.columns}
    values = [name for name in dict.fromkeys(named) if name in names] or [
        c.name
        for c in declared.columns
        if not (c.text or c.key or c.optional) and c.name not in ("n", "t", "p") and not c.name.startswith("n_")
    ]
    # A run without a column, such as one that only some models have, lacks its values.
    values = [v for v in values if v in first or v in second]
    limits = [limit for _, *both in declared_intervals for limit in both]
    first, second = (side.reindex(columns=list(dict.fromkeys([*side, *values]))) for side in (first, second))
    for k in keys:
        if first[k].dtype != second[k].dtype:
            first[k], second[k] = first[k].astype(str), second[k].astype(str)
    sides = []
    for frame, other, side in ((first, second, "first"), (second, first, "second")):
        lone = [k for k in either if k in frame and k not in other]
        chosen = frame[[*keys, *apart, *lone, *values, *limits]]
        sides.append(chosen.rename(columns={k: f"{k}_{side}" for k in lone}))
    options = {"how": "outer", "suffixes": ("_first", "_second"), "indicator": "in_runs"}
    both = sides[0].merge(sides[1], on=keys, **options)
    names = {"left_only": "first", "right_only": "second"}
    both.insert(len(keys), "in_runs", both.pop("in_runs").astype(str).replace(names))
    both.insert(len(keys) + 1, "basis", _compared(both, values, same if not apart else ()))
    for value in values:
        both[f"{value}_difference"] = both[f"{value}_second"] - both[f"{value}_first"]
    if declared_intervals:
        sampled = (both["basis"] == DIFFERENT) & intervals
        paired = _correlation(both, over, keys, confidence) if over else None
        limits_over_units = {limit for estimand in estimands().get(name, ()) for limit in estimand.limits}
        for value, *ends in declared_intervals:
            parts = [f"{c}_{side}" for side in ("first", "second") for c in (value, *ends)]
            parts = [both[c].where(sampled) for c in parts]
            is_paired = paired is not None and ends[0] in limits_over_units
            limits = difference_interval(*parts, paired["correlation"].fillna(0) if is_paired else 0)
            both[ends[0]], both[ends[1]] = limits
        if paired is not None:
            both.insert(both.columns.get_loc("basis") + 1, "n_paired", paired["n_paired"].where(sampled))
    return both


def _own_models(first: pd.DataFrame, second: pd.DataFrame, printed: Collection[str]) -> tuple[pd.DataFrame, ...]:
    """Return the rows of the runs' own models where each has one, without those of ``printed`` models."""
    for key in (key for key in _MODELS if key in first and key in second):
        model_sets = [set(side[key].dropna()) - set(printed) for side in (first, second)]
        if model_sets[0] != model_sets[1] and len(model_sets[0]) == len(model_sets[1]) == 1:
            first, second = (side[~side[key].isin(printed)] for side in (first, second))
    return first, second


def printed_models(*folders: Path) -> set[str]:
    """Return the models of which runs have read nothing but what papers print."""
    printed, measured = set(), set()
    for path in (path for folder in folders for path in folder.glob(f"{sources.MEASURED}/*.csv")):
        if sources.has_table(path.stem, source="published"):
            frame = tables.read(path, path.stem)
            as_printed = sources.printed_models(path.stem, frame)
            printed |= {*as_printed}
            measured |= {*frame.get("model", ())} - {*as_printed}
    return printed - measured


def read_table(folder: Path, name: str, swept: Sequence[str] = ()) -> pd.DataFrame:
    """Return a table of a run, measured or computed; without rows where it has none."""
    path = sources.table_path(folder, name)
    return tables.read(path, name, more_keys=swept) if path else tables.make_table([], name)


def _correlation(
    both: pd.DataFrame, over: Sequence[pd.DataFrame], keys: Sequence[str], confidence: float
) -> pd.DataFrame:
    """Return, of each row, the correlation of its two estimates and how many units both have; missing without."""
    by_key = correlations(*over, list(keys), least=min_units(1 - confidence))
    keys = [k for k in keys if k in by_key]
    # Without a key all rows have the same units.
    if not keys:
        return by_key.reindex([0] * len(both)).set_axis(both.index)
    return both[keys].astype(str).merge(by_key, on=keys, how="left").set_axis(both.index)


def _compared(both: pd.DataFrame, values: Sequence[str], same: Collection[str] | bool) -> pd.Series:
    """Return what each row compares; empty for rows of one run."""
    agree = both["in_runs"] == "both"
    named = [c for c in _MODELS if c in both]
    if isinstance(same, bool):
        shared = agree & same
    else:
        shared = agree & (both[named].isin(same).all(axis=1) if named else "" in same)
    for value in values:
        first_values, other = both[f"{value}_first"], both[f"{value}_second"]
        agree &= (first_values == other) | (first_values.isna() & other.isna())
    status = both["in_runs"].map({"both": DIFFERENT}).fillna("")
    return status.mask(shared, SAME_INPUTS).mask(shared & agree, IDENTICAL)


def compare(first: str | Path, *others: str | Path, outputs: str | Path = "outputs", name: str | None = None) -> Path:
    """Compare finished runs with the first, and return the folder of a report: findings, and a table per shared table.

    Runs are folders, or names below ``outputs``, where the comparison gets a folder, by default
    ``compare-<first>-<second>-…``. Differences are the others minus the first; names of tables end in the other run
    where there are several.

    Raises:
        ParameterError: A run does not exist or is a comparison itself, one is named twice, the name is not one, or
            the folder's own page is someone else's.
        InputError: A table lacks a declared column, or holds a value that is not allowed.
        RunError: Two share no table or no row, a table is not the one that its run left, or the comparison's folder
            holds something else.
    """
    from biaslab import report

    outputs = Path(outputs)
    chosen = None if name is None else run_name(name)
    folders = [find_run(run, outputs) for run in (first, *others)]
    for i, folder in enumerate(folders):
        if folder in folders[:i]:
            raise ParameterError(f"{folder} is compared with itself; name different runs.")
    if len(folders) < 2:
        raise ParameterError(f"There is nothing to compare {folders[0].name} with; name another run.")
    runs = [make_record(folder) for folder in folders]
    report.check_overview(outputs)
    names = [folder.name for folder in folders]
    started = cache_now()
    title = f"{', '.join(names[:-1])} and {names[-1]}"
    pairs = [_pair(folders[0], other, runs[0], run) for other, run in zip(folders[1:], runs[1:], strict=True)]
    folder = outputs / (chosen or re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(["compare", *names])))
    _prepare(folder, title)
    written, findings, limits = [], _shown_together(names, runs), _not_together(names, runs)
    for pair in pairs:
        subtitle = "" if len(pairs) == 1 else pair.names[1]
        different = {t: f for t, f in pair.frames.items() if not (f["basis"] == IDENTICAL).all()}
        written.append(_write_overview(pair, folder, subtitle))
        written += [_write_table(*table, pair, folder, subtitle) for table in different.items()]
        findings += _findings(pair, subtitle)
        limits += pair.limits
    record = {
        "run": folder.name,
        "title": title,
        "description": (
            f"Tables of the run {names[0]} (first) compared with those of {', '.join(names[1:])} (second). "
            "A difference is second minus first. Tables with the same values in every row are listed, not shown."
        ),
        "kind": "comparison",
        "status": "ok",
        "params_file": "",
        "parameters": {"runs": [basename(str(run)) for run in (first, *others)]},
        "sweep": {},
        "seeds": {f"{n}_{k}": v for n, r in zip(names, runs, strict=True) for k, v in r["seeds"].items()},
        **{key: runs[-1][key] for key in sorted(_COPIED - {"seeds"})},
        "started": started,
        "ended": cache_now(),
        "seconds": 0.0,
        "notebooks": [],
        "findings": [finding | {"order": order} for order, finding in enumerate(findings)],
        "figures": [],
        "tables": [entry for entry, _ in written],
        "limits": list(dict.fromkeys([*limits, _INDEPENDENCE, *LIMITS])),
        "coverage": [],
        "problems": [],
    }
    write_json(folder / "run.json", record)
    report.build(folder, {entry["name"]: layout for entry, layout in written})
    report.overview(outputs)
    return folder


@cache
def estimands() -> dict[str, list[Estimand]]:
    """Return by table what its rows estimate, as papers' ``estimands`` define it."""
    by_table: dict[str, list[Estimand]] = {}
    for module in paper_modules("estimands"):
        for estimand in getattr(module, "ESTIMANDS", ()):
            by_table.setdefault(estimand.table, []).append(estimand)
    return by_table


@dataclass(frozen=True)
class _Pair:
    """Two runs' tables side by side."""

    names: tuple[str, str]
    frames: dict[str, pd.DataFrame]  # By table.
    limits: list[str]
    confidence: float  # Level of intervals; of rows that have their own, it is the row's.


def _pair(first: Path, other: Path, *runs: Mapping) -> _Pair:
    """Return what two runs share, side by side; a RunError where that is nothing."""
    held = [{path.stem for path in run.glob("tables/*.csv")} for run in (first, other)]
    shared = sorted(held[0] & held[1] & set(tables.schemas()))
    title = f"{first.name} and {other.name}"
    if not shared:
        papers = [", ".join(sorted({name.partition("_")[0] for name in names})) for names in held]
        whole = f"{first.name} has {papers[0]} and {other.name} has {papers[1]}"
        raise RunError(f"{title} share no table, so there is nothing to compare: of papers {whole}.")
    swept = sorted({key for run in runs for key in run.get("sweep", {})})
    unequal, level = _confidence(first.name, other.name, runs)
    alike = _same_measurements(first, other)
    frames, limits, reasons = {}, _unfinished((first.name, other.name), runs), {}
    printed = printed_models(first, other)
    for folder, alone in ((first, held[0] - held[1]), (other, held[1] - held[0])):
        if listed := sorted(alone & set(tables.schemas())):
            more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
            limits.append(f"Not compared, as only {folder.name} has them: {', '.join(listed[:8])}{more}.")
    for table in shared:
        sides = [tables.read(f / "tables" / f"{table}.csv", table, more_keys=swept) for f in (first, other)]
        # Only one row can be the same by chance.
        equal = len(sides[0]) > 1 and sides[0].equals(sides[1])
        # The paper on whose measurements the table rests; other tables rest on those of all papers.
        paper = tables.schema(table).rests_on or table.partition("_")[0]
        same = True if equal else alike.get(paper, alike.get("synthesis", set()))
        over = [_units(folder, table, swept) for folder in (first, other)] if table in estimands() else ()
        options = {"intervals": not unequal, "same": same, "over": over, "confidence": level, "printed": printed}
        frames[table] = side_by_side(*sides, table, swept=swept, **options)
        if not (frames[table]["in_runs"] == "both").any():
            reasons.setdefault(_why_apart(*sides, table), []).append(table)
    apart = [f"Not compared, as {reason}: {', '.join(named)}." for reason, named in reasons.items()]
    if not any((frame["in_runs"] == "both").any() for frame in frames.values()):
        raise RunError(f"{title} share no row, so there is nothing to compare. {' '.join(apart[:5])}")
    return _Pair((first.name, other.name), frames, [*limits, *apart, *unequal], level)


def _why_apart(first: pd.DataFrame, second: pd.DataFrame, table: str) -> str:
    """Return why no row of a table is in both runs: which of the columns that match rows have no value in common."""
    if first.empty or second.empty:
        return "one run has no rows"
    keys = [key for key in tables.schema(table).keys if key in first and key in second]
    values = {key: (set(first[key]), set(second[key])) for key in keys}
    # Rows of runs with one value each, such as a model, are matched all the same.
    disjoint = [key for key, (a, b) in values.items() if not a & b and not len(a) == len(b) == 1]
    return f"runs have no {', '.join(disjoint or keys)} in common"


def _units(folder: Path, table: str, swept: Sequence[str]) -> pd.DataFrame:
    """Return the units that a run's rows of a table are means over, for each value of what it was repeated for."""
    frames = []
    for estimand in estimands()[table]:
        rows = read_table(folder, estimand.source, swept)
        keys = [key for key in swept if key in rows]
        groups = rows.groupby(keys, sort=False) if keys else [((), rows)]
        # As texts, as correlations match keys: a table without rows lacks them.
        frames += [
            estimand.units(group).assign(**dict(zip(keys, map(str, values), strict=True))) for values, group in groups
        ]
    return pd.concat(frames, ignore_index=True)


def _shown_together(names: Sequence[str], runs: Sequence[Mapping]) -> list[dict]:
    """Return the runs' first findings by question, each with the run it is of, where two runs or more have it."""
    by_question: dict[str, list[tuple[str, dict]]] = {}
    for name, run in zip(_shorten(names), runs, strict=True):
        for finding in run.get("findings", []):
            if finding.get("main") and finding.get("estimate") is not None:
                by_question.setdefault(_question(finding), []).append((name, finding))
    together = []
    for question, entries in by_question.items():
        if len({name for name, _ in entries}) > 1:
            asked = {finding["question"] for _, finding in entries}
            words = {"question": asked.pop() if len(asked) == 1 else question.replace("…", "each model")}
            runs_of_model, runs_of_result = defaultdict(list), defaultdict(list)
            results: dict[str, dict] = {}
            for name, finding in entries:
                same = [finding.get(k) for k in ("model", "estimate", "ci_low", "ci_high", "marks")]
                kept = {k: v for k, v in finding.items() if k not in ("figure", "notebook")}
                results.setdefault(json.dumps(same), kept | words)
                runs_of_model[finding.get("model") or ""].append(name)
                runs_of_result[json.dumps(same)].append(name)
            for key, finding in results.items():
                # A result that is the same in all runs with the model names none of them.
                in_all = runs_of_result[key] == runs_of_model[finding.get("model") or ""]
                together.append(finding | {"variant": "" if in_all else ", ".join(runs_of_result[key])})
    return together


def _question(finding: Mapping) -> str:
    """Return a finding's question, with dots where it names its model."""
    return re.sub(rf"(?<!\w){re.escape(finding.get('model') or '-')}(?!\w)", "…", finding["question"])


def _not_together(names: Sequence[str], runs: Sequence[Mapping]) -> list[str]:
    """Return sentences on main questions that one run alone answers, so that no card shows the runs together."""
    questions = [{_question(one) for one in run.get("findings", []) if one.get("main")} for run in runs]
    n_runs = Counter(question for of_run in questions for question in of_run)
    sentences = []
    for name, of_run in zip(names, questions, strict=True):
        alone = [question.replace("…", "each model") for question in sorted(of_run) if n_runs[question] == 1]
        if alone:
            sentences.append(f"Not shown together, as only the run {name} has the question: {' '.join(alone[:4])}")
    return sentences


def _shorten(names: Sequence[str]) -> Sequence[str]:
    """Return names of runs without the parts, between hyphens, that all of them begin or end with."""
    parts = [name.split("-") for name in names]
    columns = (zip(*(part[::step] for part in parts), strict=False) for step in (1, -1))
    start, end = (len([*takewhile(lambda same: len(set(same)) == 1, each)]) for each in columns)
    short = ["-".join(part[start : len(part) - end]) for part in parts]
    return short if all(short) and len(set(short)) == len(names) else names


def find_run(run: str | Path, outputs: Path) -> Path:
    """Return the folder of a run, given that folder or its name below ``outputs``; ParameterError if there is none."""
    for folder in (Path(run), outputs / run):
        if (folder / "run.json").is_file():
            return folder.resolve()
    run_names = [p.parent.name for p in sorted(outputs.glob("*/run.json"))]
    raise ParameterError(
        f"There is no run {str(run)!r}: neither a folder with run.json nor a run in {outputs}. "
        f"{name_help(str(run), run_names)}"
    )


def _confidence(first: str, second: str, runs: Sequence[Mapping]) -> tuple[list[str], float]:
    """Return a sentence where the runs' intervals are not of one level, none where they are, and that level."""
    levels = []
    for run in runs:
        defaults = [v["confidence"] for v in run.get("notebook_defaults", {}).values() if "confidence" in v]
        given = run.get("parameters", {}).get("confidence", defaults)
        swept = run.get("sweep", {}).get("confidence", given)
        levels.append(sorted(set(swept if isinstance(swept, list) else [swept])))
    # Where both swept it, rows are matched on it.
    if not all(levels) or all("confidence" in run.get("sweep", {}) for run in runs):
        return [], 0.95
    if levels[0] == levels[1] and len(levels[0]) == 1:
        return [], levels[0][0]
    first_levels, other = (", ".join(f"{level:g}" for level in run_levels) for run_levels in levels)
    return [
        f"Differences have no intervals: the confidence of {first} is {first_levels} and that of {second} {other}. "
        "Repeat one of the runs with the level of the other."
    ], 0.95


def _same_measurements(first: Path, other: Path) -> dict[str, set[str]]:
    """Return by paper, and for ``synthesis`` over all, the models whose measured rows are the same in two runs.

    ``""`` is among them where no model's rows differ.
    """
    models, apart = defaultdict(set), defaultdict(set)
    for path in first.glob(f"{sources.MEASURED}/*.csv"):
        paper, twin = path.stem.partition("_")[0], other / sources.MEASURED / path.name
        if paper in tables.measuring_papers() and twin.is_file():
            rows, other_rows = _rows_by_model(path), _rows_by_model(twin)
            differ = {model for model in {*rows, *other_rows} if rows.get(model) != other_rows.get(model)}
            for name in (paper, "synthesis"):
                models[name] |= {"", *rows, *other_rows}
                apart[name] |= {"", *differ} if differ else differ
    return {paper: models[paper] - apart[paper] for paper in models}


def _rows_by_model(path: Path) -> dict[str, set[frozenset]]:
    """Return the rows of a measured table, each as its texts by column, by model; ``""`` where it has none."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    # A column that has nothing to say of a row is there for others.
    rows = pd.Series([frozenset((c, t) for c, t in row.items() if t) for row in frame.to_dict("records")], dtype=object)
    return rows.groupby(frame["model"] if "model" in frame else [""] * len(frame)).agg(set).to_dict()


def _unfinished(names: Sequence[str], runs: Sequence[Mapping]) -> list[str]:
    """Return which run is not finished or did not execute all of its sections."""
    sentences = []
    for name, run in zip(names, runs, strict=True):
        ended = Counter(n.get("status", "unknown") for n in run.get("notebooks", []))
        statuses = ", ".join(f"{n} {status}" for status, n in sorted(ended.items()) if status != "ok")
        status = run.get("status", "not recorded")
        if statuses or status != "ok":
            sections = f"; of its {ended.total()} sections: {statuses}" if statuses else ""
            missing = "Tables or rows may be missing for that reason."
            sentences.append(f"The status of the run {name} is {status}{sections}. {missing}")
    return sentences


def make_record(folder: Path, *, comparisons: bool = False) -> dict:
    """Return the record of a run whose tables are those that it left; of comparisons only where they are wanted.

    Raises:
        ParameterError: It is a comparison.
        RunError: Its record cannot be used, or a table is not the one that it left.
    """
    needs = {"run"} if comparisons else {"run", *_COPIED}
    run = records.read(folder, needs=dict.fromkeys(needs, ()))
    check_tables(folder, run)
    if run.get("kind") == "comparison" and not comparisons:
        raise ParameterError(f"{folder.name} is a comparison, not a run; name the two runs to compare.")
    return run


def _prepare(folder: Path, title: str) -> None:
    """Make the folder ready: new, or in place of an earlier comparison of the same two runs."""
    record = folder / "run.json"
    if folder.exists() and any(folder.iterdir()):
        fix = "Choose another name with --name, or move that folder away."
        earlier = records.read(folder, fix=fix) if record.exists() else {}
        if earlier.get("kind") != "comparison" or earlier.get("title") != title:
            held = f"holds the comparison of {earlier['title']}" if "kind" in earlier else "is no comparison"
            raise RunError(f"{folder} {held}; choose another name with --name.")
        shutil.rmtree(folder)
    (folder / "tables").mkdir(parents=True)


def _write_overview(pair: _Pair, folder: Path, subtitle: str) -> tuple[dict, TableLayout]:
    """Write the table of tables: how many rows of each compare what."""
    described = {
        "table": "The table.",
        "title": "What it holds.",
        IDENTICAL: "Rows with the same values from the same measurements; a table of these alone is not shown.",
        SAME_INPUTS: "Rows from the same measurements whose values differ, because the analysis does.",
        DIFFERENT: "Rows from different measurements.",
        "in one run": "Rows that only one run has.",
        "differences": "Differences with an interval.",
        "excluding 0": "Of them, those whose interval excludes 0.",
        "by chance": "How many of them would on average, were there no difference at all.",
    }
    rows = []
    for name, frame in pair.frames.items():
        counts = frame["basis"].value_counts().reindex([IDENTICAL, SAME_INPUTS, DIFFERENT, ""], fill_value=0)
        rows.append([name, tables.schema(name).title, *counts, *_apart(name, frame, pair.confidence)])
    frame = pd.DataFrame(rows, columns=list(described))
    words = ("What was compared", "The tables that both runs have, and what their rows compare.")
    columns = tuple(tables.Column(*column) for column in described.items())
    return write_table(frame, folder, tables.Schema(_of("compared_tables", subtitle), *words, columns))


def _of(name: str, subtitle: str) -> str:
    """Return a table's name with the run that it compares, where there are several."""
    return name if not subtitle else f"{name}_{re.sub(r'[^a-z0-9]+', '_', subtitle.lower())}"


def _write_table(name: str, frame: pd.DataFrame, pair: _Pair, folder: Path, subtitle: str) -> tuple[dict, TableLayout]:
    """Write a table that differs."""
    first, second = pair.names
    declared = tables.schema(name)
    sides = {"first": f"In {first}.", "second": f"In {second}.", "difference": "Second minus first."}
    described = {}
    for c in declared.columns:
        described[c.name] = f"Limit of the difference of {c.of}." if c.of else c.description, c.unit
        for side, words in sides.items():
            unit = "points" if side == "difference" and c.unit == "%" else c.unit
            described[f"{c.name}_{side}"] = f"{c.description} {words}", unit
    columns = (tables.Column(name, *described.get(name, (_DESCRIPTIONS.get(name, _PARAMETER), ""))) for name in frame)
    words = f"{declared.description} First: {first}; second: {second}. {_in_both([frame])}"
    title = f"{declared.title}: {subtitle}" if subtitle else declared.title
    record, _ = write_table(frame, folder, tables.Schema(_of(name, subtitle), title, words, tuple(columns)))
    return record, _lay_out(frame, declared, pair)


def _lay_out(frame: pd.DataFrame, declared: tables.Schema, pair: _Pair) -> TableLayout:
    """Return a compared table for readers: for each estimate a column per run, and one of the difference.

    Columns are named by the runs' models, where each run has one of its own, else by the runs.
    """
    models = [set(frame.get(f"model_{side}", pd.Series(dtype=str)).dropna()) for side in ("first", "second")]
    has_models = models[0] != models[1] and len(models[0]) == len(models[1]) == 1
    names = [name.rpartition("/")[2] for side in models for name in side] if has_models else _shorten(pair.names)
    sides = {"first": names[0], "second": names[1], "difference": "difference"}
    limits = {estimate: (low, high) for estimate, low, high in reversed(declared.intervals)}
    values = [c.name for c in declared.columns if f"{c.name}_difference" in frame]
    taken = {f"{name}_{side}" for name in (*values, *chain(*limits.values())) for side in sides} | {
        *chain(*limits.values())
    }
    same = {"in_runs", "basis", *(f"{model}_{side}" for model in _MODELS for side in sides)}
    kept = [c for c in frame if c not in taken and not (c in same and frame[c].nunique() <= 1)]
    by_name = {c.name: c for c in declared.columns}
    shown, originals = {c: frame[c] for c in kept}, {}
    columns = [tables.Column(c, "", labels=by_name[c].labels if c in by_name else {}) for c in kept]
    for value in values:
        for side, name in sides.items():
            # The difference of two differences, of which both runs have one.
            is_twice = side == "difference" and value.startswith("difference")
            heading = f"{value}_{'change' if is_twice else name}"
            shown[heading] = frame[f"{value}_{side}"]
            unit = by_name[value].unit
            columns.append(tables.Column(heading, "", "points" if side == "difference" and unit == "%" else unit))
            originals[heading] = f"{value}_{side}"
            for end, limit in zip(("low", "high"), limits.get(value, ()), strict=False):
                if (source := limit if side == "difference" else f"{limit}_{side}") in frame:
                    shown[f"{heading}_{end}"] = frame[source]
                    columns.append(tables.Column(f"{heading}_{end}", "", of=heading))
    view = tables.Schema(declared.name, declared.title, "", tuple(columns))
    laid_out = lay_out(pd.DataFrame(shown), view, max_rows=ROWS_SHOWN)
    # As in the file, whose columns the page describes.
    return replace(laid_out, columns=[replace(c, name=originals.get(c.name, c.name)) for c in laid_out.columns])


def _in_both(frames: Sequence[pd.DataFrame]) -> str:
    both = sum(int((frame["in_runs"] == "both").sum()) for frame in frames)
    return f"{both:,} of {sum(map(len, frames)):,} rows are in both runs."


def _apart(name: str, frame: pd.DataFrame, confidence: float) -> tuple[int, int, float]:
    """Return how many differences have an interval, how many of these exclude 0, and how many would by chance."""
    ends = {estimate: (low, high) for estimate, low, high in reversed(tables.schema(name).intervals)}
    both = [(frame[low], frame[high]) for low, high in ends.values() if low in frame]
    n_intervals = sum(int(low.notna().sum()) for low, _ in both)
    apart = sum(int(((low > 0) | (high < 0)).sum()) for low, high in both)
    level = frame["confidence"].astype(float) if "confidence" in frame else confidence
    return n_intervals, apart, sum(float(((1 - level) * low.notna()).sum()) for low, _ in both)


def _findings(pair: _Pair, subtitle: str) -> list[dict]:
    """Return how many rows met, how many tables are the same, and how many differences exclude 0."""
    frames = pair.frames
    findings = [("Which rows are in both runs?", _in_both(list(frames.values())))]
    alike = sum(bool((frame["basis"] == IDENTICAL).all()) for frame in frames.values())
    if alike:
        findings.append(("Which tables are the same?", f"{alike} of {len(frames)}, from the same measurements."))
    for name, frame in frames.items():
        n_intervals, apart, chance = _apart(name, frame, pair.confidence)
        if n_intervals:
            question = f"{tables.schema(name).title}: what differs?"
            findings.append(
                (question, f"{apart} of {n_intervals} differences exclude 0; by chance {chance:.2g} would.")
            )
    # The rows that met and what follows first stand at the top.
    return [
        {"question": question, "answer": answer, "variant": subtitle, "main": order < 2}
        for order, (question, answer) in enumerate(findings)
    ]
