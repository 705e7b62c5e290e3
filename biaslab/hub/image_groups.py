"""What the groups of a folder's images are: their prompts, a level of folders, or what a pattern finds in paths."""

from __future__ import annotations

import re

import pandas as pd

from biaslab.errors import InputError
from biaslab.io.cells import join_values
from biaslab.io.plaintext import same_text

PROMPT = "prompt"
_LEVEL = re.compile(r"folder\[([1-9]\d?)\]")
# Folders that generators make and that are no groups: days, with a time or without, and kinds of output.
_DATE = re.compile(r"(?:19|20)\d\d(?:[-_.]?[01]\d(?:[-_.]?[0-3]\d)?)?(?:[T _-]+\d[\d_.:-]*)?")
_DAY = re.compile(r"[0-3]?\d")
_OUTPUT = re.compile("(?i)(?:txt2img|img2img|extras|text|image|hires)(?:-images)?|outputs?|images?|local|raw")


def group_images(rows: pd.DataFrame, group_by: str, where: str) -> pd.Series:
    """Return the group of each image; empty where it has none.

    Without ``group_by``, images are grouped by what separates them: prompts, or one level of folders. Where a level's
    names occur in the prompts of its images, it gives shorter names to groups and is taken. Where prompts and folders
    separate the same images, the prompts are taken.

    Args:
        rows: One row per image: ``image_id``, its path below the folder, and ``prompt``, empty where it has none.
        group_by: ``prompt``, ``folder[1]`` (the folders right below) or a deeper level, or a regular expression that
            is searched in paths, of which the first group counts; empty as above.
        where: The folder, for messages.

    Raises InputError: Prompts and folders disagree, or several levels could be the groups; or ``group_by`` gives none.
    """
    # Spellings of one prompt are one group, called as the first.
    prompts = rows["prompt"].groupby(rows["prompt"].map(same_text)).transform("first")
    above = [name.split("/")[:-1] for name in rows["image_id"]]
    depth = max(map(len, above), default=0)
    columns = {f"folder[{k + 1}]": [names[k] if k < len(names) else "" for names in above] for k in range(depth)}
    levels = pd.DataFrame(columns, index=rows.index, dtype=object)
    if group_by:
        groups = _apply(group_by, prompts, levels, rows["image_id"])
        if (groups == "").all():
            raise InputError(
                f"--group-by is {group_by!r}, which gives no image of {where} a group. Give {join_values([PROMPT])}, "
                f"{join_values(levels)}, a column of the folder's table, or a regular expression that occurs in paths "
                f"such as {rows['image_id'].iloc[0]!r}."
            )
        return groups
    candidates: dict[str, pd.Series] = {}
    for name in _separating(levels):
        if not any(_same(levels[name], other) for other in candidates.values()):
            candidates[name] = levels[name]
    if (prompts == "").all():
        if len(candidates) > 1:
            raise _ask(candidates, where)
        if candidates or levels.empty:
            return next(iter(candidates.values()), prompts)
        # One folder alone may have a name of its own.
        first = levels["folder[1]"]
        return first.where(~first.map(lambda name: bool(_DATE.fullmatch(name) or _OUTPUT.fullmatch(name))), "")
    named = [level for level in candidates.values() if _named_in(level, prompts)]
    equal = [level for level in candidates.values() if _same(level, prompts)]
    if len(named) > 1 or not all(_named_in(level, prompts) or _same(level, prompts) for level in candidates.values()):
        raise _ask({PROMPT: prompts} | candidates, where)
    first, *others = [*named, prompts, *equal]
    for other in others:
        first = first.where(first != "", other)
    return first


def _apply(group_by: str, prompts: pd.Series, levels: pd.DataFrame, paths: pd.Series) -> pd.Series:
    if group_by == PROMPT:
        return prompts
    if _LEVEL.fullmatch(group_by):
        return levels.get(group_by, pd.Series("", levels.index))
    try:
        pattern = re.compile(group_by)
    except re.error as error:
        raise InputError(f"--group-by is {group_by!r}, which is no regular expression: {error}.") from None
    matches = paths.map(pattern.search)
    return matches.map(lambda match: (match[1 if pattern.groups else 0] or "") if match else "")


def _separating(levels: pd.DataFrame) -> list[str]:
    """Return the levels that separate images, and that are not made by generators: days and kinds of output."""
    separating, above_is_date = [], False
    for k, (name, level) in enumerate(levels.items()):
        values = set(level) - {""}
        is_date = all(map(_DATE.fullmatch, values)) or (above_is_date and all(map(_DAY.fullmatch, values)))
        # Below the first level, images that are not so deep would have no group.
        complete = k == 0 or "" not in set(level)
        if complete and level.nunique() > 1 and not is_date and not all(map(_OUTPUT.fullmatch, values)):
            separating.append(name)
        above_is_date = is_date
    return separating


def _same(one: pd.Series, other: pd.Series) -> bool:
    """Return whether two groupings separate the images that have both in the same way."""
    pairs = pd.DataFrame({"one": one, "other": other})[(one != "") & (other != "")]
    return len(pairs.drop_duplicates()) == pairs["one"].nunique() == pairs["other"].nunique()


def _named_in(level: pd.Series, prompts: pd.Series) -> bool:
    """Return whether the name of each folder occurs in the prompts of its images; some must have both."""
    pairs = pd.DataFrame({"name": level, "prompt": prompts})[(level != "") & (prompts != "")].drop_duplicates()
    return len(pairs) > 0 and all(map(_occurs, pairs["name"], pairs["prompt"]))


def _occurs(name: str, prompt: str) -> bool:
    name, prompt = (same_text(re.sub("[_-]+", " ", text)) for text in (name, prompt))
    if not name.isascii():
        # Scripts without spaces have no words to compare.
        return name in prompt
    return re.search(rf"\b{re.escape(name.removesuffix('s'))}s?\b", prompt) is not None


def _ask(options: dict[str, pd.Series], where: str) -> InputError:
    each = []
    for name, groups in options.items():
        values = sorted(set(groups) - {""})
        each.append(f"{name} ({len(values):,}: {join_values(values)})")
    return InputError(
        f"Several things could be the groups of images in {where}: {'; '.join(each)}. Choose one, such as "
        f"--group-by '{next(iter(options))}' (setting custom.group_by), or give a regular expression on paths, or a "
        "table with a column group. Where folders are models, audit each as images:FOLDER."
    )
