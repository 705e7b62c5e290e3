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
"""The condition that others are compared with, and what an empty one is called."""
# Other files have their groups in these columns, and a column of prompts for each language: ``name,prompt`` of the
# repository felifri/MAGBIG, ``prompts/occ_german.csv``; ``adjective,en,de,…`` of its dataset on the hub; and
# ``occupation,en,de`` of fbiying87/BAFIS-…, ``prompts/bafis_occupations_direct.csv`` (both looked up in 2026).
_GROUPS = ("occupation", "adjective", "name")
_LANGUAGE = re.compile(r"[a-z]{2}([-_][a-z]{2,4})?", re.IGNORECASE)
ALL = "all"
"""What the mean over groups is called; no group has this name."""
EVEN = "an even split"
"""What a benchmark is called that no file gives."""
SHARED = 10
"""Prompts of a paper that images must come from, so that its notebooks use them."""
_NEEDS = (
    "A file of custom prompts needs prompt; it may have group, condition, n (images of a prompt) and people (1 or 2)."
)
_SHARES = ("group", "percent_female", "n")
_NEEDS_SHARES = "Shares to compare with need group and percent_female; they may have n, what the share was counted in."
_MOST_PEOPLE, _MOST_IMAGES = 2, 10_000
_MOST_BYTES = 100_000_000


def papers_of(texts: Iterable[str]) -> list[str]:
    """Return the papers of whose prompts at least :data:`SHARED` are among some texts."""
    told = set(map(same_text, texts))
    people = (asking(per_list=0) for asking in (paired_prompts.single, paired_prompts.paired))
    asked = {"paired": pd.concat([one.texts for one in people]), "dalleval": dalleval_prompts.social(1)}
    return [name for name, known in asked.items() if len(told & set(map(same_text, known["text"]))) >= SHARED]


def prompts(path: str, images: int) -> pd.DataFrame:
    """Return the prompts of a file: CSV, TSV or Parquet, or text with one prompt per line (``.txt``).

    One row per prompt: prompt_id, text, group (the prompt itself where none is given), n_images (``images`` where the
    file has no number), people. With a column condition, or a column of prompts per language, also condition and
    base_id: the prompt_id of the same prompt in the first condition, or in the one called ``neutral`` or ``en``. Within
    a group, the k-th prompts of all conditions are the same prompt. Raises InputError: It cannot be read, has no
    prompt, or one twice in a group, or a number is out of range; a prompt is in no group, or not in that condition.
    """
    file = cells.file_setting(path, "custom.prompts_file", (*cells.ENDINGS, ".txt"))
    if file.suffix.lower() == ".txt":
        reading.check(file, most=_MOST_BYTES)
        lines = [line.strip() for line in delimited.lines(file, ends="", strict=True)]
        frame = pd.DataFrame({"prompt": [line for line in lines if line]}, dtype=object)
    else:
        frame, _ = cells.load(file, {*COLUMNS, *_GROUPS})
        frame = _by_condition(frame)
        cells.require(frame, ("prompt",), file, _NEEDS, set(COLUMNS))
    if frame.empty:
        raise InputError(f"{path} holds no prompt. {_NEEDS}")
    texts = frame["prompt"].str.strip()
    cells.refuse(texts == "", file, "prompt is {}, empty", "give one, or leave the row out", frame["prompt"])
    cells.refuse(~texts.map(is_printable), file, "prompt is {}", "use printable characters", frame["prompt"])
    folders = tuple(redact.find_folders(None, default_root().absolute()))
    named = texts.map(lambda text: any(folder in text for folder in folders))
    fix = "leave the folder of this machine out, as no run that names it can be exported"
    cells.refuse(named, file, "prompt is {}", fix, frame["prompt"])
    same = frame[[name for name in ("group", "condition") if name in frame]].assign(text=texts.map(same_text))
    cells.refuse(same.duplicated(), file, "prompt {} occurs twice", "keep one row, with n", frame["prompt"])
    groups = cells.names(frame["group"], file, empty=True).astype(object) if "group" in frame else ""
    rows = pd.DataFrame({"text": texts, "group": groups})
    rows["group"] = rows["group"].where(rows["group"] != "", rows["text"])
    rows["n_images"] = _whole(frame, "n", images, _MOST_IMAGES, file)
    rows["people"] = _whole(frame, "people", 1, _MOST_PEOPLE, file)
    rows["prompt_id"] = [f"custom-{k:05d}" for k in range(len(rows))]
    return rows if "condition" not in frame else _with_base(rows, frame, file)


def _by_condition(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a file's cells with the usual columns: its group, and one row per prompt and language."""
    groups = [name for name in _GROUPS if name in frame and "group" not in frame]
    frame = frame.rename(columns=dict(zip(groups[:1], ["group"], strict=False)))
    languages = [name for name in frame if _LANGUAGE.fullmatch(name) and not frame[name].str.isdigit().all()]
    if "prompt" in frame or not languages:
        return frame
    more = [name for name in frame if name not in languages]
    long = frame.melt(more, languages, "condition", "prompt")
    # A prompt that is not translated has no condition of that language.
    long = long[long["prompt"].str.strip() != ""].reset_index(drop=True)
    return long if len(languages) > 1 else long.drop(columns="condition")


def _with_base(rows: pd.DataFrame, frame: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Return prompts with their condition, and the prompt_id of the same prompt in the condition to compare with."""
    if "group" not in frame:
        raise InputError(
            f"{file} has the column condition and no column group. Add one, with the same group for prompts that "
            "differ in their condition alone."
        )
    named = pd.Series(cells.names(frame["condition"], file, empty=True), frame.index).astype(object)
    rows["condition"] = named.where(named != "", NEUTRAL)
    place = [rows["group"], rows.groupby(["group", "condition"]).cumcount()]
    usual = [name for name in (NEUTRAL, "en") for one in rows["condition"].unique() if one.lower() == name]
    is_base = rows["condition"].str.lower() == (usual or [rows["condition"].iloc[0].lower()])[0]
    rows["base_id"] = rows["prompt_id"].where(is_base).groupby(place).transform("first")
    base = rows.loc[is_base, "condition"].iloc[0]
    fix = "give as many prompts of a group in each condition"
    cells.refuse(rows["base_id"].isna(), file, f"prompt {{}} is no prompt of {base!r}", fix, frame["prompt"])
    return rows


def benchmark(path: str) -> pd.DataFrame:
    """Return the shares of a file: group, percent_female (0–100) and n (NaN where the share is not of a sample).

    Raises InputError: It cannot be read; a share is missing, given as 0–1 or outside 0–100; a group occurs twice.
    """
    file = cells.file_setting(path, "custom.benchmark_file")
    frame, _ = cells.load(file, set(_SHARES))
    cells.require(frame, _SHARES[:2], file, _NEEDS_SHARES, set(_SHARES))
    groups = pd.Series(cells.names(frame["group"], file), frame.index).astype(object)
    cells.refuse(groups.duplicated(), file, "group {} occurs twice", "keep one row", frame["group"])
    missing, fix = frame["percent_female"].str.strip() == "", "give a number from 0 to 100, or leave the row out"
    cells.refuse(missing, file, "group {} has no percent_female", fix, frame["group"])
    shares = cells.numbers(frame["percent_female"], file)
    strange = shares.isna() | (shares < 0) | (shares > 100)
    fix = "give a number from 0 to 100"
    cells.refuse(strange, file, "percent_female is {}", fix, frame["percent_female"])
    if len(shares) and shares.max() <= 1 and (shares > 0).any():
        raise InputError(f"{path}: every percent_female is 1 or less, as if given as 0–1; multiply it by 100.")
    n = pd.Series(np.nan, frame.index)
    if "n" in frame:
        n = cells.numbers(frame["n"], file)
        fix = "give how many the share was counted in, or leave it empty"
        cells.refuse(~(n >= 1) & (frame["n"].str.strip() != ""), file, "n is {}", fix, frame["n"])
    return pd.DataFrame({"group": groups, "percent_female": shares, "n": n})


def matched(groups: Sequence[str], shares: pd.DataFrame) -> pd.DataFrame:
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


def unused(groups: Iterable[str], shares: pd.DataFrame) -> list[str]:
    """Return the groups of a benchmark that match none of a run's ``groups``, as :func:`matched` matches them."""
    known = set(map(same_name, groups))
    return [group for group in shares["group"] if same_name(group) not in known]


def listed(names: Iterable[str], others: Iterable[str]) -> str:
    """Return names that match nothing in words: the first five, each with the nearest of ``others``, and how many."""
    names, others = list(names), list(others)
    each = []
    for name in names[:5]:
        near = near_matches(name, others)[:1]
        each.append(cells.shorten(name) + "".join(f" (near match: {cells.shorten(one)})" for one in near))
    return ", ".join(each) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _whole(frame: pd.DataFrame, name: str, default: int, most: int, file: Path) -> pd.Series:
    """Return a column of whole numbers of 1 to ``most``, those that are empty the default."""
    if name not in frame:
        return pd.Series(default, frame.index)
    given = frame[name].str.strip() != ""
    values = cells.numbers(frame[name].where(given, str(default)), file, whole=True)
    strange = ~((values >= 1) & (values <= most) & (values % 1 == 0))
    cells.refuse(strange, file, f"{name} is {{}}", f"give a whole number of 1 to {most:,}", frame[name])
    return values.astype(int)
