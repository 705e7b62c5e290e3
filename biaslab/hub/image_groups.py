"""Group the images of a folder by their prompts, by a level of folders, or by a pattern in their paths."""

from __future__ import annotations

import re

import pandas as pd

from biaslab.errors import InputError
from biaslab.io.cells import join_values
from biaslab.io.plaintext import same_text

PROMPT = "prompt"
_LEVEL = re.compile(r"folder\[([1-9]\d?)\]")
# Folders that generators create and that are not groups: dates, with or without a time, and kinds of output.
_DATE = re.compile(r"(?:19|20)\d\d(?:[-_.]?[01]\d(?:[-_.]?[0-3]\d)?)?(?:[T _-]+\d[\d_.:-]*)?")
_DAY = re.compile(r"[0-3]?\d")
_OUTPUT = re.compile("(?i)(?:txt2img|img2img|extras|text|image|hires)(?:-images)?|outputs?|images?|local|raw")


def group_images(rows: pd.DataFrame, group_by: str, folder_name: str) -> pd.Series:
    """Return the group of each image; empty where it has none.

    Without ``group_by``, images are grouped by prompts or by one level of folders. A level whose names occur in the
    prompts of its images has precedence, because its names are shorter. Where prompts and folders give the same groups,
    prompts have precedence.

    Args:
        rows: One row per image: ``image_id``, its path below the folder, and ``prompt``, empty where it has none.
        group_by: ``prompt``, ``folder[1]`` (the folders right below) or a deeper level, or a regular expression that
            is searched in paths, whose first capturing group is the name; empty as above.
        folder_name: The folder, for messages.

    Raises InputError: Prompts and folders disagree, several levels could be the groups, or ``group_by`` gives none.
    """
    # Spellings of one prompt are one group, named like the first.
    prompts = rows["prompt"].groupby(rows["prompt"].map(same_text)).transform("first")
    parents = [name.split("/")[:-1] for name in rows["image_id"]]
    depth = max(map(len, parents), default=0)
    columns = {f"folder[{k + 1}]": [names[k] if k < len(names) else "" for names in parents] for k in range(depth)}
    levels = pd.DataFrame(columns, index=rows.index, dtype=object)
    if group_by:
        groups = _apply_group_by(group_by, prompts, levels, rows["image_id"])
        if (groups == "").all():
            raise InputError(
                f"--group-by is {group_by!r}, which assigns no image in {folder_name} to a group. Use "
                f"{join_values([PROMPT, *levels])}, a column of the folder's table, or a regular expression that "
                f"matches paths such as {rows['image_id'].iloc[0]!r}."
            )
        return groups
    candidates: dict[str, pd.Series] = {}
    for name in _find_separating(levels):
        if not any(_is_same(levels[name], candidate) for candidate in candidates.values()):
            candidates[name] = levels[name]
    if (prompts == "").all():
        if len(candidates) > 1:
            raise _ambiguity_error(candidates, folder_name)
        if candidates or levels.empty:
            return next(iter(candidates.values()), prompts)
        # A single folder may name the group of its images.
        groups = levels["folder[1]"]
        return groups.where(~groups.map(lambda name: bool(_DATE.fullmatch(name) or _OUTPUT.fullmatch(name))), "")
    named_levels = [level for level in candidates.values() if _is_named_in(level, prompts)]
    equal_levels = [level for level in candidates.values() if _is_same(level, prompts)]
    if len(named_levels) > 1 or not all(
        _is_named_in(level, prompts) or _is_same(level, prompts) for level in candidates.values()
    ):
        raise _ambiguity_error({PROMPT: prompts} | candidates, folder_name)
    groups, *others = [*named_levels, prompts, *equal_levels]
    for fallback in others:
        groups = groups.where(groups != "", fallback)
    return groups


def _apply_group_by(group_by: str, prompts: pd.Series, levels: pd.DataFrame, paths: pd.Series) -> pd.Series:
    if group_by == PROMPT:
        return prompts
    if _LEVEL.fullmatch(group_by):
        return levels.get(group_by, pd.Series("", levels.index))
    try:
        pattern = re.compile(group_by)
    except re.error as error:
        raise InputError(f"--group-by is {group_by!r}, which is not a valid regular expression: {error}.") from None
    matches = paths.map(pattern.search)
    return matches.map(lambda match: (match[1 if pattern.groups else 0] or "") if match else "")


def _find_separating(levels: pd.DataFrame) -> list[str]:
    """Return the levels that separate images, except those that generators create: dates and kinds of output."""
    level_names, above_is_date = [], False
    for k, (name, level) in enumerate(levels.items()):
        values = set(level) - {""}
        is_date = all(map(_DATE.fullmatch, values)) or (above_is_date and all(map(_DAY.fullmatch, values)))
        # Below the first level, images in shallower folders would have no group.
        complete = k == 0 or "" not in set(level)
        if complete and level.nunique() > 1 and not is_date and not all(map(_OUTPUT.fullmatch, values)):
            level_names.append(name)
        above_is_date = is_date
    return level_names


def _is_same(grouping: pd.Series, other_grouping: pd.Series) -> bool:
    """Return whether two groupings agree on the images that have both."""
    pairs = pd.DataFrame({"one": grouping, "other": other_grouping})[(grouping != "") & (other_grouping != "")]
    return len(pairs.drop_duplicates()) == pairs["one"].nunique() == pairs["other"].nunique()


def _is_named_in(level: pd.Series, prompts: pd.Series) -> bool:
    """Return whether the name of each folder occurs in the prompts of its images; at least one must have both."""
    pairs = pd.DataFrame({"name": level, "prompt": prompts})[(level != "") & (prompts != "")].drop_duplicates()
    return len(pairs) > 0 and all(map(_occurs, pairs["name"], pairs["prompt"]))


def _occurs(name: str, prompt: str) -> bool:
    name, prompt = (same_text(re.sub("[_-]+", " ", text)) for text in (name, prompt))
    if not name.isascii():
        # Scripts without spaces have no words to compare.
        return name in prompt
    return re.search(rf"\b{re.escape(name.removesuffix('s'))}s?\b", prompt) is not None


def _ambiguity_error(options: dict[str, pd.Series], folder_name: str) -> InputError:
    texts = []
    for name, groups in options.items():
        values = sorted(set(groups) - {""})
        texts.append(f"{name} ({len(values):,}: {join_values(values)})")
    return InputError(
        f"Images in {folder_name} could be grouped in several ways: {'; '.join(texts)}. Choose one, for example "
        f"--group-by '{next(iter(options))}' (setting custom.group_by), use a regular expression that matches paths, "
        "or add a table with a column group. If folders are models, audit each as images:FOLDER."
    )
