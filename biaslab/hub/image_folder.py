"""A folder of existing images, each with a prompt and a group.

Both come from a table in the folder, or without one from texts that tools embed in images, and from subfolders.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from pathlib import Path

import pandas as pd

from biaslab import redact
from biaslab.errors import InputError
from biaslab.hub.image_groups import group_images
from biaslab.hub.image_sources import FolderImages
from biaslab.io import cells, folders, reading
from biaslab.io.image_texts import ImageText, read_text
from biaslab.io.places import default_root
from biaslab.io.plaintext import is_printable, normalize

IMAGES = "images:"  # Prefix of the name of a model that is a folder of its images.
COLUMNS = ("file", "prompt", "group", "model", "position")
# Description of an image in addition to its prompt: its group, or that of the first person, and the number of people.
TABLE_COLUMNS = ("told_group", "told_people")
_SIDES = {"left": "1", "right": "2"}
_MAX_PEOPLE = 9
MIXED = "::"  # Separator between a folder and one of the models of its images.
_TABLES = (".csv", ".tsv", ".parquet")
_HELP = "The table of a folder of images needs the column file, and prompt or group; model and position are optional."
# Images that tools derive from others, by their paths: those of the web UI and of InvokeAI.
_DERIVED = {
    "grid of several images": re.compile(r"(?:^|/)(?:grid-\d|(?:(?:txt2img|img2img)-)?grids/)", re.IGNORECASE),
    "thumbnail": re.compile(r"(?:^|/)thumbnails/", re.IGNORECASE),
}
# Maximum characters of a displayed prompt; tools embed long texts in images.
_MAX_PROMPT = 4000


# The folders that a command has opened, by path and grouping; None outside of commands.
_OPEN_FOLDERS: ContextVar[dict[tuple[str, str], ImageFolder] | None] = ContextVar("opened", default=None)


@contextmanager
def folders_read_once() -> Iterator[None]:
    """Make :func:`open_folder` read each folder only once in this context: for commands, during which none changes."""
    token = _OPEN_FOLDERS.set({})
    try:
        yield
    finally:
        _OPEN_FOLDERS.reset(token)


def open_folder(path: str, group_by: str = "") -> ImageFolder:
    """Return the images of a folder, or of ``FOLDER::MODEL``; arguments and errors as for :class:`ImageFolder`."""
    folders_by_name = _OPEN_FOLDERS.get()
    if folders_by_name is None:
        return ImageFolder(path, group_by)
    if (path, group_by) not in folders_by_name:
        folders_by_name[path, group_by] = ImageFolder(path, group_by)
    return folders_by_name[path, group_by]


class ImageFolder(FolderImages):
    """The images of a folder with their prompts and groups; for ``FOLDER::MODEL``, those of one model in its table.

    ``group_by`` selects the groups: ``prompt``, ``folder[1]`` (the folders right below) or a deeper level, a column of
    the table, or a regular expression that is searched in paths, whose first capturing group is the name. If empty, the
    groups are the table's, or without a table prompts embedded in the images and subfolders, if they agree.

    Raises InputError: The folder is missing, its groups are missing or ambiguous, or its table is invalid.
    """

    def __init__(self, path: str, group_by: str = "") -> None:
        folder, _, model = str(path).partition(MIXED)
        super().__init__(folder)
        self._folder, self.model, self.group_by = Path(folder).expanduser(), model, group_by
        if model:
            self.name = model

    @cached_property
    def people(self) -> pd.DataFrame:
        """The people in the images: image_id, prompt, group, position (1 is the leftmost) and, if several, model."""
        description = self._description
        if not self.model and self.models:
            advice = f"Select one, for example images:{self._folder.name}{MIXED}{self.models[0]}."
            raise InputError(
                f"{self._folder} contains images of several models: {cells.join_values(self.models)}. {advice}"
            )
        if not self.model:
            return description
        rows = description[description["model"] == self.model].reset_index(drop=True)
        if rows.empty:
            raise InputError(
                f"{self._folder} contains no images of {self.model!r}; its models are {cells.join_values(self.models)}."
            )
        return rows

    @property
    def described_images(self) -> pd.DataFrame:
        """The descriptions of the images: image_id, prompt and :data:`TABLE_COLUMNS`."""
        pictures = self.people.groupby("image_id", sort=False)
        columns = {"prompt": ("prompt", "first"), "told_group": ("group", "first"), "told_people": ("position", "size")}
        return pictures.agg(**columns).reset_index()

    @cached_property
    def models(self) -> list[str]:
        """The models whose images the folder contains; empty if it belongs to one model."""
        return sorted({*self._description["model"]} - {""}) if self._table is not None else []

    @cached_property
    def description_digest(self) -> str:
        """A digest of the images and their descriptions; :attr:`digest` covers only the images."""
        table = reading.content(self._table) if self._table is not None else b""
        return hashlib.sha256(f"{self.digest} {self.model} {self.group_by}".encode() + table).hexdigest()

    @property
    def description_files(self) -> str:
        """The table that describes the images; empty if subfolders and embedded texts do."""
        return str(self._table) if self._table is not None else ""

    @property
    def undescribed_images(self) -> list[str]:
        """The images that the folder's table omits, which are not judged; empty without a table."""
        return sorted(set(self._files) - set(self._description["image_id"])) if self._table is not None else []

    @cached_property
    def left_out(self) -> dict[str, list[str]]:
        """The files that are in no group, by the reason in words."""
        reasons: dict[str, list[str]] = {"format not read": self.not_read}
        for name, reason in self._derived.items():
            reasons.setdefault(reason, []).append(name)
        ungrouped = sorted({*self._texts} - {*self._description["image_id"]})
        other_files = [name for name in self.other_files if self._table is None or name != self._table.name]
        reasons |= {"no prompt and no group": ungrouped, "not an image": other_files}
        reasons |= {"link out of the folder": list(self.links_out), "not in the table": self.undescribed_images}
        return {reason: names for reason, names in reasons.items() if names}

    @property
    def remarks(self) -> list[str]:
        """Sentences on excluded files, and on the texts embedded in the images."""
        reasons = {reason: names for reason, names in self.left_out.items() if reason != "not in the table"}
        files = [f"Excluded ({reason}): {_count(names)}" for reason, names in reasons.items()]
        by_tool = Counter(text.tool for text in self._texts.values() if text.prompt)
        tools = ", ".join(f"{tool} {n:,}" for tool, n in by_tool.most_common())
        summary = f"Prompts embedded in images: {by_tool.total():,} of {len(self._texts):,} images have one ({tools})."
        return [*files, *([summary] if by_tool else []), *self._text_problems]

    @property
    def _text_problems(self) -> list[str]:
        problems: dict[str, list[str]] = {}
        for name, text in self._texts.items():
            if text.problem:
                problems.setdefault(f"{text.tool}, {text.problem}", []).append(name)
        return [f"Embedded texts without a readable prompt ({text}): {_count(n)}" for text, n in problems.items()]

    @cached_property
    def _texts(self) -> dict[str, ImageText]:
        """The texts embedded in the images that may have groups; empty if there is a table."""
        if self._table is not None:
            return {}
        return {name: read_text(path) for name, path in self._files.items() if name not in self._derived}

    @cached_property
    def _derived(self) -> dict[str, str]:
        """Images that tools derive from others, with their kind; empty if there is a table, which may name them."""
        if self._table is not None:
            return {}
        return {name: kind for name in self._files for kind, pattern in _DERIVED.items() if pattern.search(name)}

    @cached_property
    def _description(self) -> pd.DataFrame:
        clean_prompt = partial(shown_prompt, private=redact.sensitive_texts(None, default_root().absolute()))
        if self._table is not None:
            rows = _read_table(self._table, self._files, self.not_read, self.group_by)
            return rows.assign(prompt=rows["prompt"].map(clean_prompt), group=rows["group"].map(clean_prompt))
        prompts = [clean_prompt(text.prompt) for text in self._texts.values()]
        columns = {"prompt": prompts, "group": "", "position": 1, "model": ""}
        rows = pd.DataFrame({"image_id": list(self._texts), **columns}).astype({"prompt": object})
        rows["group"] = group_images(rows, self.group_by, str(self._folder))
        if (rows["group"] == "").all():
            raise InputError(
                f"{self._folder} does not state a group for {next(iter(self._files))} and {len(self._files) - 1:,} "
                f"more images. {' '.join([*self._text_problems, ''])}Put images into one folder per group, or add a "
                f"table. {_HELP} With --group-by 'folder[1]', subfolders are the groups."
            )
        # For images without a prompt, the group serves as the prompt.
        rows["prompt"] = rows["prompt"].where(rows["prompt"] != "", rows["group"])
        return rows[rows["group"] != ""].reset_index(drop=True)

    @cached_property
    def _table(self) -> Path | None:
        tables = list(folders.files(self._folder, _TABLES, deep=False).values())
        if len(tables) > 1:
            names = ", ".join(sorted(path.name for path in tables))
            raise InputError(f"{self._folder} has several tables: {names}. Keep only the one that lists its images.")
        return tables[0] if tables else None


def _count(names: Sequence[str]) -> str:
    """Return the number of files, and the name of one, escaped if it is not printable."""
    return f"{len(names):,}, such as {names[0] if names[0].isprintable() else ascii(names[0])}."


def _read_table(path: Path, files: Mapping[str, Path], not_read: Sequence[str], group_by: str) -> pd.DataFrame:
    frame, _ = cells.load(path, {*COLUMNS, group_by} - {""})
    cells.require(frame, ("file",), path, _HELP, set(COLUMNS))
    if group_by in frame:
        frame["group"] = frame[group_by]
    if not {"prompt", "group"} & set(frame):
        raise InputError(f"{path} has neither prompt nor group. {_HELP}")
    for name in COLUMNS[1:]:
        frame[name] = cells.names(frame[name], path, empty=True).astype(object) if name in frame else ""
    places = frame["position"].str.lower().replace(_SIDES).replace("", "1")
    is_invalid = ~places.isin([str(k) for k in range(1, _MAX_PEOPLE + 1)])
    fix = "use left, right, or a number (1 is the leftmost person), or leave the cell empty"
    cells.refuse(is_invalid, path, "position is {}", fix, frame["position"])
    frame["position"] = places.astype(int)
    for name, fallback in (("prompt", "group"), ("group", "prompt")):
        frame[name] = frame[name].where(frame[name] != "", frame[fallback])
    cells.refuse(frame["prompt"] == "", path, "file {} has neither prompt nor group", "enter one", frame["file"])
    ids_by_path = {normalize(image_id): image_id for image_id in files}
    names = frame["file"].str.strip().str.replace("\\", "/").str.removeprefix("./").map(normalize)
    fix = "its format is not supported; convert it to PNG or JPEG"
    cells.refuse(names.isin(set(map(normalize, not_read))), path, "file is {}", fix, frame["file"])
    ids = names.map(ids_by_path)
    reason = f"it is not in {path.parent.name}; paths must be relative to this folder"
    cells.refuse(ids.isna(), path, "file is {}", reason, frame["file"])
    frame["image_id"] = ids
    if group_by and group_by not in frame:
        frame["group"] = group_images(frame, group_by, str(path.parent))
        cells.refuse(frame["group"] == "", path, "file {} has no group by --group-by", "remove the row", frame["file"])
    is_duplicate = frame.duplicated(["image_id", "position"])
    cells.refuse(
        is_duplicate, path, "file {} occurs twice", "keep one row, or enter the positions left and right", frame["file"]
    )
    is_set = frame["model"] != ""
    fix = "enter it, or remove the whole column"
    cells.refuse(~is_set & is_set.any(), path, "file {} has no model, although others have one", fix, frame["file"])
    frame = frame.sort_values(["image_id", "position"], kind="stable", ignore_index=True)
    expected = frame.groupby("image_id").cumcount() + 1
    has_gap = (expected != frame["position"]).set_axis(frame.index)
    cells.refuse(
        has_gap, path, "file {} has people at some positions only", "list all people in an image", frame["image_id"]
    )
    return frame[["image_id", "prompt", "group", "position", "model"]]


def shown_prompt(text: str, private: Mapping[str, str]) -> str:
    """Return an embedded prompt for tables and pages: printable, of bounded length, and without folders.

    A truncated prompt ends with the number of omitted characters. ``private`` are the folders and keys of this machine
    (:func:`biaslab.redact.sensitive_texts`); a run that names one cannot be exported.
    """
    clean = "".join(filter(is_printable, text[:_MAX_PROMPT]))
    clean = redact.redact(clean, private)
    return f"{clean}… ({n_omitted:,} more characters)" if (n_omitted := len(text) - _MAX_PROMPT) > 0 else clean
