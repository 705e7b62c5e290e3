"""Files that a user writes: custom prompts, and reference shares to compare images with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import biaslab.papers.dalleval.prompts as dalleval_prompts
import biaslab.papers.paired.prompts as paired_prompts
from biaslab import redact
from biaslab.errors import InputError, near_matches
from biaslab.io import cells, delimited, reading
from biaslab.io.places import default_root
from biaslab.io.plaintext import is_printable, same_name, same_text

COLUMNS = ("prompt", "group", "condition", "n", "people")
NEUTRAL = "neutral"
"""Name of the condition that others are compared with, and of an empty condition."""
# Other files have their groups in these columns, and a column of prompts for each language: ``name,prompt`` of the
# repository felifri/MAGBIG, ``prompts/occ_german.csv``; ``adjective,en,de,…`` of its dataset on the hub; and
# ``occupation,en,de`` of fbiying87/BAFIS-…, ``prompts/bafis_occupations_direct.csv`` (both looked up in 2026).
_GROUP_COLUMNS = ("occupation", "adjective", "name")
_LANGUAGE = re.compile(r"[a-z]{2}([-_][a-z]{2,4})?", re.IGNORECASE)
ALL = "all"
"""Name of the mean over groups; no group may have it."""
EVEN = "an even split"
"""Name of the benchmark where no file is set."""
MIN_SHARED_PROMPTS = 10
"""Minimum number of a paper's prompts that images must have for its notebooks to use them."""
_NEEDS = (
    "A file of custom prompts needs the column prompt; optional columns are group, condition, n (images per prompt) "
    "and people (1 or 2)."
)
_SHARE_COLUMNS = ("group", "percent_female", "n")
_NEEDS_SHARES = "A benchmark needs the columns group and percent_female; n, the sample size of a share, is optional."
_MAX_PEOPLE, _MAX_IMAGES = 2, 10_000
_MAX_BYTES = 100_000_000


def find_papers(texts: Iterable[str]) -> list[str]:
    """Return the papers that have at least :data:`MIN_SHARED_PROMPTS` of their prompts among ``texts``."""
    keys = set(map(same_text, texts))
    people = (asking(per_list=0) for asking in (paired_prompts.single, paired_prompts.paired))
    tables = {"paired": pd.concat([prompt_set.texts for prompt_set in people]), "dalleval": dalleval_prompts.social(1)}
    return [
        name for name, table in tables.items() if len(keys & set(map(same_text, table["text"]))) >= MIN_SHARED_PROMPTS
    ]


def prompts(path: str, images: int) -> pd.DataFrame:
    """Return the prompts of a file: CSV, TSV or Parquet, or text with one prompt per line (``.txt``).

    One row per prompt: prompt_id, text, group (the prompt itself where none is given), n_images (``images`` where the
    file has no number), people. With a column condition, or a column of prompts per language, also condition and
    base_id: the prompt_id of the same prompt in the first condition, or in the one called ``neutral`` or ``en``. Within
    a group, the k-th prompts of all conditions are the same prompt. Raises InputError: The file cannot be read or has
    no prompt; a prompt is repeated in a group, has no group, or is missing in that condition; a number is out of range.
    """
    file = cells.file_setting(path, "custom.prompts_file", (*cells.ENDINGS, ".txt"))
    if file.suffix.lower() == ".txt":
        reading.check(file, most=_MAX_BYTES)
        lines = [line.strip() for line in delimited.lines(file, ends="", strict=True)]
        frame = pd.DataFrame({"prompt": [line for line in lines if line]}, dtype=object)
    else:
        frame, _ = cells.load(file, {*COLUMNS, *_GROUP_COLUMNS})
        frame = _to_condition_rows(frame)
        cells.require(frame, ("prompt",), file, _NEEDS, set(COLUMNS))
    if frame.empty:
        raise InputError(f"{path} contains no prompt. {_NEEDS}")
    texts = frame["prompt"].str.strip()
    cells.refuse(
        texts == "", file, "prompt is {}, which is empty", "enter a prompt, or remove the row", frame["prompt"]
    )
    cells.refuse(~texts.map(is_printable), file, "prompt is {}", "use printable characters", frame["prompt"])
    folders = tuple(redact.find_folders(None, default_root().absolute()))
    has_folder = texts.map(lambda text: any(folder in text for folder in folders))
    fix = "remove the path of a folder on this machine, because runs that contain it cannot be exported"
    cells.refuse(has_folder, file, "prompt is {}", fix, frame["prompt"])
    keys = frame[[name for name in ("group", "condition") if name in frame]].assign(text=texts.map(same_text))
    cells.refuse(
        keys.duplicated(),
        file,
        "prompt {} occurs twice",
        "keep one row, and set its number of images in n",
        frame["prompt"],
    )
    groups = cells.names(frame["group"], file, empty=True).astype(object) if "group" in frame else ""
    rows = pd.DataFrame({"text": texts, "group": groups})
    rows["group"] = rows["group"].where(rows["group"] != "", rows["text"])
    rows["n_images"] = _integer_column(frame, "n", images, _MAX_IMAGES, file)
    rows["people"] = _integer_column(frame, "people", 1, _MAX_PEOPLE, file)
    rows["prompt_id"] = [f"custom-{k:05d}" for k in range(len(rows))]
    return rows if "condition" not in frame else _add_base(rows, frame, file)


def _to_condition_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a file's cells with the usual columns: its group, and one row per prompt and language."""
    groups = [name for name in _GROUP_COLUMNS if name in frame and "group" not in frame]
    frame = frame.rename(columns=dict(zip(groups[:1], ["group"], strict=False)))
    languages = [name for name in frame if _LANGUAGE.fullmatch(name) and not frame[name].str.isdigit().all()]
    if "prompt" in frame or not languages:
        return frame
    id_columns = [name for name in frame if name not in languages]
    long = frame.melt(id_columns, languages, "condition", "prompt")
    # A prompt without a translation has no row for that language.
    long = long[long["prompt"].str.strip() != ""].reset_index(drop=True)
    return long if len(languages) > 1 else long.drop(columns="condition")


def _add_base(rows: pd.DataFrame, frame: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Return prompts with their condition, and the prompt_id of the same prompt in the condition to compare with."""
    if "group" not in frame:
        raise InputError(
            f"{file} has the column condition but no column group. Add it, with one group for prompts that differ "
            "only in their condition."
        )
    conditions = pd.Series(cells.names(frame["condition"], file, empty=True), frame.index).astype(object)
    rows["condition"] = conditions.where(conditions != "", NEUTRAL)
    place = [rows["group"], rows.groupby(["group", "condition"]).cumcount()]
    usual = [name for name in (NEUTRAL, "en") for condition in rows["condition"].unique() if condition.lower() == name]
    is_base = rows["condition"].str.lower() == (usual or [rows["condition"].iloc[0].lower()])[0]
    rows["base_id"] = rows["prompt_id"].where(is_base).groupby(place).transform("first")
    base = rows.loc[is_base, "condition"].iloc[0]
    fix = "use the same number of prompts per group in each condition"
    cells.refuse(rows["base_id"].isna(), file, f"prompt {{}} has no counterpart in {base!r}", fix, frame["prompt"])
    return rows


def benchmark(path: str) -> pd.DataFrame:
    """Return the shares of a file: group, percent_female (0–100) and n (NaN where the share is not of a sample).

    Raises InputError: It cannot be read; a share is missing, given as 0–1 or outside 0–100; a group occurs twice.
    """
    file = cells.file_setting(path, "custom.benchmark_file")
    frame, _ = cells.load(file, set(_SHARE_COLUMNS))
    cells.require(frame, _SHARE_COLUMNS[:2], file, _NEEDS_SHARES, set(_SHARE_COLUMNS))
    groups = pd.Series(cells.names(frame["group"], file), frame.index).astype(object)
    cells.refuse(groups.duplicated(), file, "group {} occurs twice", "keep one row", frame["group"])
    missing, fix = frame["percent_female"].str.strip() == "", "enter a number from 0 to 100, or remove the row"
    cells.refuse(missing, file, "group {} has no percent_female", fix, frame["group"])
    shares = cells.numbers(frame["percent_female"], file)
    strange = shares.isna() | (shares < 0) | (shares > 100)
    fix = "enter a number from 0 to 100"
    cells.refuse(strange, file, "percent_female is {}", fix, frame["percent_female"])
    if len(shares) and shares.max() <= 1 and (shares > 0).any():
        raise InputError(
            f"{path}: every percent_female is at most 1, so the shares seem to be fractions (0–1). Multiply them by "
            "100."
        )
    n = pd.Series(np.nan, frame.index)
    if "n" in frame:
        n = cells.numbers(frame["n"], file)
        fix = "enter the sample size of the share, or leave the cell empty"
        cells.refuse(~(n >= 1) & (frame["n"].str.strip() != ""), file, "n is {}", fix, frame["n"])
    return pd.DataFrame({"group": groups, "percent_female": shares, "n": n})


def match_groups(groups: Sequence[str], shares: pd.DataFrame) -> pd.DataFrame:
    """Return a benchmark's share for each group of a run, in the order of ``groups``.

    Names match without regard to case, to blanks around them, and to repeated blanks inside.

    Args:
        groups: The names of a run's groups, each once.
        shares: As :func:`benchmark` returns them.

    Returns:
        A row for each group: group, percent_female (0–100) and n; both are NaN where the benchmark has no such group.
    """
    by_name = shares.set_index(shares["group"].map(same_name))[["percent_female", "n"]]
    rows = by_name.reindex([same_name(group) for group in groups]).reset_index(drop=True)
    rows.insert(0, "group", pd.Series(list(groups), dtype=object))
    return rows


def unmatched_groups(groups: Iterable[str], shares: pd.DataFrame) -> list[str]:
    """Return the groups of a benchmark that match none of a run's ``groups``, as :func:`match_groups` matches them."""
    run_names = set(map(same_name, groups))
    return [group for group in shares["group"] if same_name(group) not in run_names]


def describe_names(names: Iterable[str], candidates: Iterable[str]) -> str:
    """Return a text of the first five ``names``, each with its nearest match in ``candidates``, and how many follow."""
    names, candidates = list(names), list(candidates)
    texts = []
    for name in names[:5]:
        matches = near_matches(name, candidates)[:1]
        texts.append(cells.shorten(name) + "".join(f" (near match: {cells.shorten(match)})" for match in matches))
    return ", ".join(texts) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _integer_column(frame: pd.DataFrame, name: str, default: int, maximum: int, file: Path) -> pd.Series:
    """Return a column of whole numbers of 1 to ``maximum``, with ``default`` in place of empty cells."""
    if name not in frame:
        return pd.Series(default, frame.index)
    has_value = frame[name].str.strip() != ""
    values = cells.numbers(frame[name].where(has_value, str(default)), file, whole=True)
    strange = ~((values >= 1) & (values <= maximum) & (values % 1 == 0))
    cells.refuse(strange, file, f"{name} is {{}}", f"enter a whole number from 1 to {maximum:,}", frame[name])
    return values.astype(int)
