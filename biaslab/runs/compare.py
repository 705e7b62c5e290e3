"""Comparison of runs: every table that they share, with differences and their confidence intervals."""

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
    "In rows with a value of `n_paired`, the interval of the difference treats the units that both runs have "
    "(occupations, professions, scenes or triplets) as paired (MOVER, Zou 2007). All other intervals assume that the "
    "two runs are independent; they are too wide if the runs share occupations, images or training captions and their "
    "values are therefore positively correlated."
)
# Keys that name a model.
_MODELS = ("model", "model_a", "model_b", "first", "second")
# Fields that a comparison's record copies from the records of the runs.
_COPIED = {"biaslab", "packages", "platform", "seeds"}
# What a row that both runs have compares.
IDENTICAL, SAME_INPUTS, DIFFERENT = "identical", "same inputs", "different inputs"
# Descriptions of the columns that a comparison adds.
_DESCRIPTIONS = {
    "in_runs": "The runs that have the row: both, first or second.",
    "n_paired": "The number of units in both runs that the interval of the difference treats as paired; empty if the "
    "interval assumes independent runs.",
    "basis": f"`{IDENTICAL}`: the same value from the same measurements; `{SAME_INPUTS}`: different values from the "
    f"same measurements, because the analyses differ (the difference has no interval); or `{DIFFERENT}`: different "
    "measurements.",
}
_PARAMETER = "A parameter that a run was repeated for."


def side_by_side(
    first: pd.DataFrame,
    second: pd.DataFrame,
    name: str,
    *,
    swept: Sequence[str] = (),
    intervals: bool = True,
    same_models: Collection[str] | bool = (),
    units: Sequence[pd.DataFrame] = (),
    confidence: float = 0.95,
    printed: Collection[str] = (),
) -> pd.DataFrame:
    """Return the rows of table ``name`` that either run has, with both values and the difference.

    Args:
        swept: Parameters that a run was repeated for; rows are matched on those that both runs have.
        intervals: Whether differences have intervals, that is, whether both runs use the same confidence level.
        same_models: Models whose measurements are the same in both runs, with ``""`` if all are; ``True`` represents
            all rows.
        units: The units of both runs that the rows are means over (:mod:`biaslab.papers.estimands`). Rows with enough
            units in both runs for a test at the level ``confidence`` are paired, and ``n_paired`` counts these units.
        printed: Models with printed values. Where each run also has a model of its own, only these are compared.

    Returns:
        The keys of the table; a key that differs in every row has the suffixes ``_first`` and ``_second``. Then
        ``in_runs`` (``both``, ``first`` or ``second``) and ``basis``: ``identical``; ``same inputs``, whose difference
        has no sampling error and so no limits; or ``different inputs``. Then ``_first``, ``_second``, ``_difference``
        and their limits for each estimate with an interval, after the uncorrected estimate if there is one. A table
        without such estimates has these columns for each number that is not a count.
    """
    schema = tables.schema(name)
    first, second = _own_models(first, second, printed)
    units = _own_models(*units, printed) if units else ()
    all_keys = list(dict.fromkeys([*schema.keys, *swept]))
    identity = [k for k in all_keys if k in first and k in second]
    # Rows are matched on all keys, except keys with one value per run that differs between the runs.
    values_by_key = {k: (set(first[k].dropna()), set(second[k].dropna())) for k in identity}
    keys = [k for k, (a, b) in values_by_key.items() if a == b or not len(a) == len(b) == 1] or identity
    differing_keys = [k for k in identity if k not in keys]
    declared_intervals = [i for i in schema.intervals if {*i} <= {*first} and {*i} <= {*second}]
    estimates = [estimate for estimate, *_ in schema.intervals]
    # A corrected estimate has the interval; the paper's own estimate is compared next to it.
    candidates = [name for column in estimates for name in (column.removesuffix("_corrected"), column)]
    names = {c.name for c in schema.columns}
    values = [name for name in dict.fromkeys(candidates) if name in names] or [
        c.name
        for c in schema.columns
        if not (c.text or c.key or c.optional) and c.name not in ("n", "t", "p") and not c.name.startswith("n_")
    ]
    # A run may lack a column, such as one that only some models have.
    values = [v for v in values if v in first or v in second]
    limits = [limit for _, *bounds in declared_intervals for limit in bounds]
    first, second = (side.reindex(columns=list(dict.fromkeys([*side, *values]))) for side in (first, second))
    for k in keys:
        if first[k].dtype != second[k].dtype:
            first[k], second[k] = first[k].astype(str), second[k].astype(str)
    sides = []
    for frame, other_frame, side in ((first, second, "first"), (second, first, "second")):
        own_columns = [k for k in all_keys if k in frame and k not in other_frame]
        columns = frame[[*keys, *differing_keys, *own_columns, *values, *limits]]
        sides.append(columns.rename(columns={k: f"{k}_{side}" for k in own_columns}))
    options = {"how": "outer", "suffixes": ("_first", "_second"), "indicator": "in_runs"}
    merged = sides[0].merge(sides[1], on=keys, **options)
    names = {"left_only": "first", "right_only": "second"}
    merged.insert(len(keys), "in_runs", merged.pop("in_runs").astype(str).replace(names))
    merged.insert(len(keys) + 1, "basis", _classify_rows(merged, values, same_models if not differing_keys else ()))
    for value in values:
        merged[f"{value}_difference"] = merged[f"{value}_second"] - merged[f"{value}_first"]
    if declared_intervals:
        has_interval = (merged["basis"] == DIFFERENT) & intervals
        pairing = _correlation(merged, units, keys, confidence) if units else None
        limits_over_units = {limit for estimand in estimands().get(name, ()) for limit in estimand.limits}
        for value, *ends in declared_intervals:
            parts = [f"{c}_{side}" for side in ("first", "second") for c in (value, *ends)]
            parts = [merged[c].where(has_interval) for c in parts]
            is_paired = pairing is not None and ends[0] in limits_over_units
            limits = difference_interval(*parts, pairing["correlation"].fillna(0) if is_paired else 0)
            merged[ends[0]], merged[ends[1]] = limits
        if pairing is not None:
            merged.insert(merged.columns.get_loc("basis") + 1, "n_paired", pairing["n_paired"].where(has_interval))
    return merged


def _own_models(first: pd.DataFrame, second: pd.DataFrame, printed: Collection[str]) -> tuple[pd.DataFrame, ...]:
    """Return the rows of the two runs; if each has one model of its own, without those of ``printed`` models."""
    for key in (key for key in _MODELS if key in first and key in second):
        model_sets = [set(side[key].dropna()) - set(printed) for side in (first, second)]
        if model_sets[0] != model_sets[1] and len(model_sets[0]) == len(model_sets[1]) == 1:
            first, second = (side[~side[key].isin(printed)] for side in (first, second))
    return first, second


def printed_models(*folders: Path) -> set[str]:
    """Return the models for which the runs read only values that papers print."""
    printed, measured = set(), set()
    for path in (path for folder in folders for path in folder.glob(f"{sources.MEASURED}/*.csv")):
        if sources.has_table(path.stem, source="published"):
            frame = tables.read(path, path.stem)
            as_printed = sources.printed_models(path.stem, frame)
            printed |= {*as_printed}
            measured |= {*frame.get("model", ())} - {*as_printed}
    return printed - measured


def read_table(folder: Path, name: str, swept: Sequence[str] = ()) -> pd.DataFrame:
    """Return a measured or computed table of a run; an empty table if the run does not have it."""
    path = sources.table_path(folder, name)
    return tables.read(path, name, more_keys=swept) if path else tables.make_table([], name)


def _correlation(
    merged: pd.DataFrame, units: Sequence[pd.DataFrame], keys: Sequence[str], confidence: float
) -> pd.DataFrame:
    """Return each row's correlation of the two estimates and number of shared units; missing without such units."""
    by_key = correlations(*units, list(keys), min_units=min_units(1 - confidence))
    keys = [k for k in keys if k in by_key]
    # Without a key all rows have the same units.
    if not keys:
        return by_key.reindex([0] * len(merged)).set_axis(merged.index)
    return merged[keys].astype(str).merge(by_key, on=keys, how="left").set_axis(merged.index)


def _classify_rows(merged: pd.DataFrame, values: Sequence[str], same_models: Collection[str] | bool) -> pd.Series:
    """Return the basis of comparison of each row; empty for rows of one run."""
    agrees = merged["in_runs"] == "both"
    model_keys = [c for c in _MODELS if c in merged]
    if isinstance(same_models, bool):
        is_shared = agrees & same_models
    else:
        is_shared = agrees & (merged[model_keys].isin(same_models).all(axis=1) if model_keys else "" in same_models)
    for value in values:
        first_values, second_values = merged[f"{value}_first"], merged[f"{value}_second"]
        agrees &= (first_values == second_values) | (first_values.isna() & second_values.isna())
    status = merged["in_runs"].map({"both": DIFFERENT}).fillna("")
    return status.mask(is_shared, SAME_INPUTS).mask(is_shared & agrees, IDENTICAL)


def compare(first: str | Path, *others: str | Path, outputs: str | Path = "outputs", name: str | None = None) -> Path:
    """Compare finished runs with the first, and return the folder of a report: findings, and a table per shared table.

    Runs are folders, or names below ``outputs``. The comparison is written to a folder below ``outputs``, by default
    ``compare-<first>-<second>-…``. Differences are the other run minus the first. With several other runs, the names
    of tables end in the name of the other run.

    Raises:
        ParameterError: A run does not exist or is itself a comparison, a run is named twice, the name is invalid, or
            biaslab did not write the page in ``outputs``.
        InputError: A table lacks a declared column, or contains a value that is not allowed.
        RunError: Two runs share no table or no row, a table has changed since its run ended, or the comparison's
            folder contains other files.
    """
    from biaslab import report

    outputs = Path(outputs)
    chosen_name = None if name is None else run_name(name)
    folders = [find_run(run, outputs) for run in (first, *others)]
    for i, folder in enumerate(folders):
        if folder in folders[:i]:
            raise ParameterError(f"{folder} cannot be compared with itself; specify different runs.")
    if len(folders) < 2:
        raise ParameterError(f"There is no run to compare with {folders[0].name}; specify another run.")
    runs = [make_record(folder) for folder in folders]
    report.check_overview(outputs)
    names = [folder.name for folder in folders]
    started = cache_now()
    title = f"{', '.join(names[:-1])} and {names[-1]}"
    pairs = [_pair(folders[0], second, runs[0], run) for second, run in zip(folders[1:], runs[1:], strict=True)]
    folder = outputs / (chosen_name or re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(["compare", *names])))
    _prepare(folder, title)
    entries, findings, limits = [], _joint_findings(names, runs), _describe_lone_questions(names, runs)
    for pair in pairs:
        subtitle = "" if len(pairs) == 1 else pair.names[1]
        different = {t: f for t, f in pair.frames.items() if not (f["basis"] == IDENTICAL).all()}
        entries.append(_write_overview(pair, folder, subtitle))
        entries += [_write_table(*table, pair, folder, subtitle) for table in different.items()]
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
        "tables": [entry for entry, _ in entries],
        "limits": list(dict.fromkeys([*limits, _INDEPENDENCE, *LIMITS])),
        "coverage": [],
        "problems": [],
    }
    write_json(folder / "run.json", record)
    report.build(folder, {entry["name"]: layout for entry, layout in entries})
    report.overview(outputs)
    return folder


@cache
def estimands() -> dict[str, list[Estimand]]:
    """Return the estimands of the rows by table, as the papers' ``estimands`` modules define them."""
    by_table: dict[str, list[Estimand]] = {}
    for module in paper_modules("estimands"):
        for estimand in getattr(module, "ESTIMANDS", ()):
            by_table.setdefault(estimand.table, []).append(estimand)
    return by_table


@dataclass(frozen=True)
class _Pair:
    """The compared tables of two runs."""

    names: tuple[str, str]
    frames: dict[str, pd.DataFrame]  # By table.
    limits: list[str]
    confidence: float  # Level of intervals, for rows without a level of their own.


def _pair(first: Path, second: Path, *runs: Mapping) -> _Pair:
    """Return the shared tables of two runs, compared; raise RunError if they share none."""
    names_by_run = [{path.stem for path in run.glob("tables/*.csv")} for run in (first, second)]
    shared_tables = sorted(names_by_run[0] & names_by_run[1] & set(tables.schemas()))
    title = f"{first.name} and {second.name}"
    if not shared_tables:
        papers = [", ".join(sorted({name.partition("_")[0] for name in names})) for names in names_by_run]
        paper_list = f"{first.name} contains {papers[0]}, and {second.name} contains {papers[1]}"
        raise RunError(f"{title} have no table in common, so there is nothing to compare. Papers: {paper_list}.")
    swept = sorted({key for run in runs for key in run.get("sweep", {})})
    notes, level = _confidence(first.name, second.name, runs)
    same_by_paper = _same_measurements(first, second)
    frames, limits, reasons = {}, _describe_unfinished((first.name, second.name), runs), {}
    printed = printed_models(first, second)
    for folder, own_names in ((first, names_by_run[0] - names_by_run[1]), (second, names_by_run[1] - names_by_run[0])):
        if table_names := sorted(own_names & set(tables.schemas())):
            suffix = f" and {len(table_names) - 8} more" if len(table_names) > 8 else ""
            limits.append(f"Not compared, because only {folder.name} has them: {', '.join(table_names[:8])}{suffix}.")
    for table in shared_tables:
        sides = [tables.read(f / "tables" / f"{table}.csv", table, more_keys=swept) for f in (first, second)]
        # Only one row can be the same by chance.
        is_equal = len(sides[0]) > 1 and sides[0].equals(sides[1])
        # The paper whose measurements the table uses; other tables use those of all papers.
        paper = tables.schema(table).rests_on or table.partition("_")[0]
        same_models = True if is_equal else same_by_paper.get(paper, same_by_paper.get("synthesis", set()))
        units = [_units(folder, table, swept) for folder in (first, second)] if table in estimands() else ()
        options = {"intervals": not notes, "same_models": same_models, "units": units, "printed": printed}
        frames[table] = side_by_side(*sides, table, swept=swept, confidence=level, **options)
        if not (frames[table]["in_runs"] == "both").any():
            reasons.setdefault(_explain_mismatch(*sides, table), []).append(table)
    omissions = [f"Not compared, because {reason}: {', '.join(table_list)}." for reason, table_list in reasons.items()]
    if not any((frame["in_runs"] == "both").any() for frame in frames.values()):
        raise RunError(f"{title} have no row in common, so there is nothing to compare. {' '.join(omissions[:5])}")
    return _Pair((first.name, second.name), frames, [*limits, *omissions, *notes], level)


def _explain_mismatch(first: pd.DataFrame, second: pd.DataFrame, table: str) -> str:
    """Return why no row of a table is in both runs: the key columns that have no value in common."""
    if first.empty or second.empty:
        return "one run has no rows"
    keys = [key for key in tables.schema(table).keys if key in first and key in second]
    values = {key: (set(first[key]), set(second[key])) for key in keys}
    # Rows match even if a column, such as the model, has one value per run and these differ.
    disjoint = [key for key, (a, b) in values.items() if not a & b and not len(a) == len(b) == 1]
    return f"runs have no {', '.join(disjoint or keys)} in common"


def _units(folder: Path, table: str, swept: Sequence[str]) -> pd.DataFrame:
    """Return the units that a run's rows of a table are means over, for each value of the swept parameters."""
    frames = []
    for estimand in estimands()[table]:
        rows = read_table(folder, estimand.source, swept)
        keys = [key for key in swept if key in rows]
        groups = rows.groupby(keys, sort=False) if keys else [((), rows)]
        # Keys are matched as texts; a table without rows lacks them.
        frames += [
            estimand.units(group).assign(**dict(zip(keys, map(str, values), strict=True))) for values, group in groups
        ]
    return pd.concat(frames, ignore_index=True)


def _joint_findings(names: Sequence[str], runs: Sequence[Mapping]) -> list[dict]:
    """Return the main findings by question, each with its run, for questions that two runs or more answer."""
    by_question: dict[str, list[tuple[str, dict]]] = {}
    for name, run in zip(_shorten(names), runs, strict=True):
        for finding in run.get("findings", []):
            if finding.get("main") and finding.get("estimate") is not None:
                by_question.setdefault(_question(finding), []).append((name, finding))
    joint_findings = []
    for question, entries in by_question.items():
        if len({name for name, _ in entries}) > 1:
            questions = {finding["question"] for _, finding in entries}
            words = {"question": questions.pop() if len(questions) == 1 else question.replace("…", "each model")}
            runs_of_model, runs_of_result = defaultdict(list), defaultdict(list)
            results: dict[str, dict] = {}
            for name, finding in entries:
                values = [finding.get(k) for k in ("model", "estimate", "ci_low", "ci_high", "marks")]
                fields = {k: v for k, v in finding.items() if k not in ("figure", "notebook")}
                results.setdefault(json.dumps(values), fields | words)
                runs_of_model[finding.get("model") or ""].append(name)
                runs_of_result[json.dumps(values)].append(name)
            for key, finding in results.items():
                # A result that is the same in all runs with the model names none of them.
                in_all = runs_of_result[key] == runs_of_model[finding.get("model") or ""]
                joint_findings.append(finding | {"variant": "" if in_all else ", ".join(runs_of_result[key])})
    return joint_findings


def _question(finding: Mapping) -> str:
    """Return the question of a finding, with an ellipsis in place of its model's name."""
    return re.sub(rf"(?<!\w){re.escape(finding.get('model') or '-')}(?!\w)", "…", finding["question"])


def _describe_lone_questions(names: Sequence[str], runs: Sequence[Mapping]) -> list[str]:
    """Return sentences on main questions that only one run answers, so that no card shows the runs together."""
    questions = [{_question(finding) for finding in run.get("findings", []) if finding.get("main")} for run in runs]
    n_runs = Counter(question for of_run in questions for question in of_run)
    sentences = []
    for name, of_run in zip(names, questions, strict=True):
        texts = [question.replace("…", "each model") for question in sorted(of_run) if n_runs[question] == 1]
        if texts:
            sentences.append(f"Not shown together, because only the run {name} has the question: {' '.join(texts[:4])}")
    return sentences


def _shorten(names: Sequence[str]) -> Sequence[str]:
    """Return names of runs without the hyphen-separated parts that all of them begin or end with."""
    parts = [name.split("-") for name in names]
    columns = (zip(*(part[::step] for part in parts), strict=False) for step in (1, -1))
    start, end = (len([*takewhile(lambda words: len(set(words)) == 1, rows)]) for rows in columns)
    short_names = ["-".join(part[start : len(part) - end]) for part in parts]
    return short_names if all(short_names) and len(set(short_names)) == len(names) else names


def find_run(run: str | Path, outputs: Path) -> Path:
    """Return the folder of a run, named as a folder or below ``outputs``; raise ParameterError if it does not exist."""
    for folder in (Path(run), outputs / run):
        if (folder / "run.json").is_file():
            return folder.resolve()
    run_names = [p.parent.name for p in sorted(outputs.glob("*/run.json"))]
    raise ParameterError(
        f"There is no run {str(run)!r}: neither a folder with run.json nor a run in {outputs}. "
        f"{name_help(str(run), run_names)}"
    )


def _confidence(first: str, second: str, runs: Sequence[Mapping]) -> tuple[list[str], float]:
    """Return a sentence if the confidence levels of the runs differ, and the common level, or 0.95 without one."""
    levels = []
    for run in runs:
        defaults = [v["confidence"] for v in run.get("notebook_defaults", {}).values() if "confidence" in v]
        confidence = run.get("parameters", {}).get("confidence", defaults)
        swept = run.get("sweep", {}).get("confidence", confidence)
        levels.append(sorted(set(swept if isinstance(swept, list) else [swept])))
    # If all runs swept the level, rows are matched on it.
    if not all(levels) or all("confidence" in run.get("sweep", {}) for run in runs):
        return [], 0.95
    if levels[0] == levels[1] and len(levels[0]) == 1:
        return [], levels[0][0]
    first_levels, second_levels = (", ".join(f"{level:g}" for level in run_levels) for run_levels in levels)
    return [
        f"Differences have no intervals, because the confidence level of {first} is {first_levels} and that of "
        f"{second} is {second_levels}. Repeat one of the runs with the level of the other."
    ], 0.95


def _same_measurements(first: Path, second: Path) -> dict[str, set[str]]:
    """Return the models whose measured rows are the same in two runs, by paper; ``synthesis`` represents all papers.

    The models include ``""`` if no model's rows differ.
    """
    models, unequal_models = defaultdict(set), defaultdict(set)
    for path in first.glob(f"{sources.MEASURED}/*.csv"):
        paper, second_path = path.stem.partition("_")[0], second / sources.MEASURED / path.name
        if paper in tables.measuring_papers() and second_path.is_file():
            rows, second_rows = _rows_by_model(path), _rows_by_model(second_path)
            models_apart = {model for model in {*rows, *second_rows} if rows.get(model) != second_rows.get(model)}
            for name in (paper, "synthesis"):
                models[name] |= {"", *rows, *second_rows}
                unequal_models[name] |= {"", *models_apart} if models_apart else models_apart
    return {paper: models[paper] - unequal_models[paper] for paper in models}


def _rows_by_model(path: Path) -> dict[str, set[frozenset]]:
    """Return the rows of a measured table by model (``""`` if it has no models), each as pairs of column and text."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    # Empty cells belong to columns that only other rows use.
    rows = pd.Series([frozenset((c, t) for c, t in row.items() if t) for row in frame.to_dict("records")], dtype=object)
    return rows.groupby(frame["model"] if "model" in frame else [""] * len(frame)).agg(set).to_dict()


def _describe_unfinished(names: Sequence[str], runs: Sequence[Mapping]) -> list[str]:
    """Return a sentence for each run that is not finished or did not execute all of its sections."""
    sentences = []
    for name, run in zip(names, runs, strict=True):
        counts = Counter(n.get("status", "unknown") for n in run.get("notebooks", []))
        statuses = ", ".join(f"{n} {status}" for status, n in sorted(counts.items()) if status != "ok")
        status = run.get("status", "not recorded")
        if statuses or status != "ok":
            sections = f"; of its {counts.total()} sections: {statuses}" if statuses else ""
            missing = "Tables or rows may be missing for this reason."
            sentences.append(f"The status of the run {name} is {status}{sections}. {missing}")
    return sentences


def make_record(folder: Path, *, comparisons: bool = False) -> dict:
    """Return the record of a run whose tables are unchanged; the record of a comparison only with ``comparisons``.

    Raises:
        ParameterError: The folder contains a comparison, and ``comparisons`` is false.
        RunError: The record cannot be used, or a table has changed since the run ended.
    """
    needs = {"run"} if comparisons else {"run", *_COPIED}
    run = records.read(folder, needs=dict.fromkeys(needs, ()))
    check_tables(folder, run)
    if run.get("kind") == "comparison" and not comparisons:
        raise ParameterError(f"{folder.name} is a comparison, not a run; specify the two runs to compare.")
    return run


def _prepare(folder: Path, title: str) -> None:
    """Create the folder; replace an earlier comparison of the same runs."""
    record = folder / "run.json"
    if folder.exists() and any(folder.iterdir()):
        fix = "Choose another name with --name, or move the folder away."
        earlier = records.read(folder, fix=fix) if record.exists() else {}
        if earlier.get("kind") != "comparison" or earlier.get("title") != title:
            content = f"contains the comparison of {earlier['title']}" if "kind" in earlier else "is not a comparison"
            raise RunError(f"{folder} {content}; choose another name with --name.")
        shutil.rmtree(folder)
    (folder / "tables").mkdir(parents=True)


def _write_overview(pair: _Pair, folder: Path, subtitle: str) -> tuple[dict, TableLayout]:
    """Write the table of compared tables: the number of rows of each by their basis of comparison."""
    descriptions = {
        "table": "The table.",
        "title": "The contents of the table.",
        IDENTICAL: "Rows with the same values from the same measurements. Tables with only such rows are not shown.",
        SAME_INPUTS: "Rows with different values from the same measurements, because the analyses differ.",
        DIFFERENT: "Rows from different measurements.",
        "in one run": "Rows in only one of the runs.",
        "differences": "The number of differences with an interval.",
        "excluding 0": "The number of these differences whose interval excludes 0.",
        "by chance": "The expected number of such intervals if there were no differences.",
    }
    rows = []
    for name, frame in pair.frames.items():
        counts = frame["basis"].value_counts().reindex([IDENTICAL, SAME_INPUTS, DIFFERENT, ""], fill_value=0)
        rows.append([name, tables.schema(name).title, *counts, *_count_exclusions(name, frame, pair.confidence)])
    frame = pd.DataFrame(rows, columns=list(descriptions))
    words = ("What was compared", "The tables that both runs have, and what their rows compare.")
    columns = tuple(tables.Column(*column) for column in descriptions.items())
    return write_table(frame, folder, tables.Schema(_table_name("compared_tables", subtitle), *words, columns))


def _table_name(name: str, subtitle: str) -> str:
    """Return a table's name, followed by the other run's name if there are several."""
    return name if not subtitle else f"{name}_{re.sub(r'[^a-z0-9]+', '_', subtitle.lower())}"


def _write_table(name: str, frame: pd.DataFrame, pair: _Pair, folder: Path, subtitle: str) -> tuple[dict, TableLayout]:
    """Write a compared table, and return its record and layout."""
    first, second = pair.names
    schema = tables.schema(name)
    sides = {"first": f"In {first}.", "second": f"In {second}.", "difference": "Second minus first."}
    texts = {}
    for c in schema.columns:
        texts[c.name] = f"Limit of the difference of {c.of}." if c.of else c.description, c.unit
        for side, words in sides.items():
            unit = "points" if side == "difference" and c.unit == "%" else c.unit
            texts[f"{c.name}_{side}"] = f"{c.description} {words}", unit
    columns = (tables.Column(name, *texts.get(name, (_DESCRIPTIONS.get(name, _PARAMETER), ""))) for name in frame)
    words = f"{schema.description} First: {first}; second: {second}. {_count_in_both([frame])}"
    title = f"{schema.title}: {subtitle}" if subtitle else schema.title
    record, _ = write_table(frame, folder, tables.Schema(_table_name(name, subtitle), title, words, tuple(columns)))
    return record, _lay_out(frame, schema, pair)


def _lay_out(frame: pd.DataFrame, schema: tables.Schema, pair: _Pair) -> TableLayout:
    """Return the layout of a compared table: for each estimate one column per run, and one of the difference.

    Columns are named after the models if each run has one model of its own, else after the runs.
    """
    models = [set(frame.get(f"model_{side}", pd.Series(dtype=str)).dropna()) for side in ("first", "second")]
    has_models = models[0] != models[1] and len(models[0]) == len(models[1]) == 1
    names = [name.rpartition("/")[2] for side in models for name in side] if has_models else _shorten(pair.names)
    sides = {"first": names[0], "second": names[1], "difference": "difference"}
    limits = {estimate: (low, high) for estimate, low, high in reversed(schema.intervals)}
    values = [c.name for c in schema.columns if f"{c.name}_difference" in frame]
    value_columns = {f"{name}_{side}" for name in (*values, *chain(*limits.values())) for side in sides} | {
        *chain(*limits.values())
    }
    comparison_columns = {"in_runs", "basis", *(f"{model}_{side}" for model in _MODELS for side in sides)}
    keys = [c for c in frame if c not in value_columns and not (c in comparison_columns and frame[c].nunique() <= 1)]
    by_name = {c.name: c for c in schema.columns}
    data, originals = {c: frame[c] for c in keys}, {}
    columns = [tables.Column(c, "", labels=by_name[c].labels if c in by_name else {}) for c in keys]
    for value in values:
        for side, name in sides.items():
            # The difference of two differences, one per run.
            is_twice = side == "difference" and value.startswith("difference")
            heading = f"{value}_{'change' if is_twice else name}"
            data[heading] = frame[f"{value}_{side}"]
            unit = by_name[value].unit
            columns.append(tables.Column(heading, "", "points" if side == "difference" and unit == "%" else unit))
            originals[heading] = f"{value}_{side}"
            for end, limit in zip(("low", "high"), limits.get(value, ()), strict=False):
                if (source := limit if side == "difference" else f"{limit}_{side}") in frame:
                    data[f"{heading}_{end}"] = frame[source]
                    columns.append(tables.Column(f"{heading}_{end}", "", of=heading))
    view = tables.Schema(schema.name, schema.title, "", tuple(columns))
    laid_out = lay_out(pd.DataFrame(data), view, max_rows=ROWS_SHOWN)
    # Columns have the names of the file, which the page describes.
    return replace(laid_out, columns=[replace(c, name=originals.get(c.name, c.name)) for c in laid_out.columns])


def _count_in_both(frames: Sequence[pd.DataFrame]) -> str:
    n_both = sum(int((frame["in_runs"] == "both").sum()) for frame in frames)
    return f"{n_both:,} of {sum(map(len, frames)):,} rows are in both runs."


def _count_exclusions(name: str, frame: pd.DataFrame, confidence: float) -> tuple[int, int, float]:
    """Return how many differences have an interval, how many of these exclude 0, and how many would by chance."""
    ends = {estimate: (low, high) for estimate, low, high in reversed(tables.schema(name).intervals)}
    limit_pairs = [(frame[low], frame[high]) for low, high in ends.values() if low in frame]
    n_intervals = sum(int(low.notna().sum()) for low, _ in limit_pairs)
    n_excluding = sum(int(((low > 0) | (high < 0)).sum()) for low, high in limit_pairs)
    level = frame["confidence"].astype(float) if "confidence" in frame else confidence
    return n_intervals, n_excluding, sum(float(((1 - level) * low.notna()).sum()) for low, _ in limit_pairs)


def _findings(pair: _Pair, subtitle: str) -> list[dict]:
    """Return findings on the rows in both runs, the tables that are the same, and the differences that exclude 0."""
    frames = pair.frames
    findings = [("Which rows are in both runs?", _count_in_both(list(frames.values())))]
    n_identical = sum(bool((frame["basis"] == IDENTICAL).all()) for frame in frames.values())
    if n_identical:
        findings.append(("Which tables are the same?", f"{n_identical} of {len(frames)}, from the same measurements."))
    for name, frame in frames.items():
        n_intervals, n_excluding, chance = _count_exclusions(name, frame, pair.confidence)
        if n_intervals:
            question = f"{tables.schema(name).title}: what differs?"
            findings.append(
                (
                    question,
                    f"{n_excluding} of {n_intervals} intervals exclude 0; {chance:.2g} would be expected by chance.",
                )
            )
    # The first two findings are the main ones.
    return [
        {"question": question, "answer": answer, "variant": subtitle, "main": order < 2}
        for order, (question, answer) in enumerate(findings)
    ]
