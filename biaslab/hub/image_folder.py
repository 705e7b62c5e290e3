"""A folder of existing images: the prompt of each, and the group that it counts for.

Both come from a table in the folder; without one from the texts that tools write into images, and from subfolders.
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

IMAGES = "images:"  # What the name of a model begins with that is a folder of its pictures.
COLUMNS = ("file", "prompt", "group", "model", "position")
# What a folder says of a picture beside its prompt: its group, or that of the first person, and how many it shows.
TABLE_COLUMNS = ("told_group", "told_people")
_SIDES = {"left": "1", "right": "2"}
_MOST_PEOPLE = 9
MIXED = "::"  # What stands between a folder and one of the models whose pictures it holds.
_TABLES = (".csv", ".tsv", ".parquet")
_NEEDS = "The table of a folder of images needs file, and prompt or group; it may have model and position."
# Images that tools make of others, by their paths: those of the web UI and of InvokeAI.
_DERIVED = {
    "grid of several images": re.compile(r"(?:^|/)(?:grid-\d|(?:(?:txt2img|img2img)-)?grids/)", re.IGNORECASE),
    "thumbnail": re.compile(r"(?:^|/)thumbnails/", re.IGNORECASE),
}
# Characters of a prompt that are shown; tools write long texts into images.
_LONGEST_PROMPT = 4000


# The folders that a command has opened, by what names them; None outside of commands.
_OPENED: ContextVar[dict[tuple[str, str], ImageFolder] | None] = ContextVar("opened", default=None)


@contextmanager
def folders_read_once() -> Iterator[None]:
    """Let :func:`open_folder` read each folder once meanwhile: for commands, during which folders do not change."""
    token = _OPENED.set({})
    try:
        yield
    finally:
        _OPENED.reset(token)


def open_folder(path: str, group_by: str = "") -> ImageFolder:
    """Return the images of a folder, or of ``FOLDER::MODEL``; arguments and errors as :class:`ImageFolder`."""
    opened = _OPENED.get()
    if opened is None:
        return ImageFolder(path, group_by)
    if (path, group_by) not in opened:
        opened[path, group_by] = ImageFolder(path, group_by)
    return opened[path, group_by]


class ImageFolder(FolderImages):
    """The images of a folder with their prompts and groups; of ``FOLDER::MODEL`` those of a model of its table.

    ``group_by`` says what the groups are: ``prompt``, ``folder[1]`` (the folders right below) or a deeper level, a
    column of the table, or a regular expression that is searched in paths, of which the first group counts. Empty: the
    table's groups; without a table, prompts inside the images and subfolders as far as they agree.

    Raises InputError: There is no such folder; nothing gives its groups, or several things do; its table does not fit.
    """

    def __init__(self, path: str, group_by: str = "") -> None:
        folder, _, model = str(path).partition(MIXED)
        super().__init__(folder)
        self._folder, self.model, self.group_by = Path(folder).expanduser(), model, group_by
        if model:
            self.name = model

    @cached_property
    def people(self) -> pd.DataFrame:
        """Whom pictures show: image_id, prompt, group, position (1 is the leftmost) and, of several, model."""
        whole = self._described
        if not self.model and self.models:
            one = f"Name one, such as images:{self._folder.name}{MIXED}{self.models[0]}."
            raise InputError(
                f"{self._folder} contains images of several models: {cells.join_values(self.models)}. {one}"
            )
        if not self.model:
            return whole
        own = whole[whole["model"] == self.model].reset_index(drop=True)
        if own.empty:
            raise InputError(
                f"{self._folder} has no images of {self.model!r}; it has {cells.join_values(self.models)}."
            )
        return own

    @property
    def described_images(self) -> pd.DataFrame:
        """What is told of pictures: image_id, prompt and :data:`TABLE_COLUMNS`."""
        pictures = self.people.groupby("image_id", sort=False)
        named = {"prompt": ("prompt", "first"), "told_group": ("group", "first"), "told_people": ("position", "size")}
        return pictures.agg(**named).reset_index()

    @cached_property
    def models(self) -> list[str]:
        """The models whose images the folder holds; empty where it is one model's."""
        return sorted({*self._described["model"]} - {""}) if self._table is not None else []

    @cached_property
    def description_digest(self) -> str:
        """Tells pictures, and what is told of them, from others; :attr:`digest` is of the pictures alone."""
        table = reading.content(self._table) if self._table is not None else b""
        return hashlib.sha256(f"{self.digest} {self.model} {self.group_by}".encode() + table).hexdigest()

    @property
    def description_files(self) -> str:
        """The table that says what pictures were asked for; empty where subfolders and texts in pictures do."""
        return str(self._table) if self._table is not None else ""

    @property
    def undescribed_images(self) -> list[str]:
        """The images that the folder's table does not name, which are not judged; empty without a table."""
        return sorted(set(self._files) - set(self._described["image_id"])) if self._table is not None else []

    @cached_property
    def left_out(self) -> dict[str, list[str]]:
        """The files that count for no group, by the reason in words."""
        reasons: dict[str, list[str]] = {"format not read": self.not_read}
        for name, reason in self._derived.items():
            reasons.setdefault(reason, []).append(name)
        ungrouped = sorted({*self._texts} - {*self._described["image_id"]})
        others = [name for name in self.other_files if self._table is None or name != self._table.name]
        reasons |= {"no prompt and no group": ungrouped, "not an image": others}
        reasons |= {"link out of the folder": list(self.links_out), "not in the table": self.undescribed_images}
        return {reason: names for reason, names in reasons.items() if names}

    @property
    def remarks(self) -> list[str]:
        """Sentences on files that are left out, and on the texts inside the images."""
        reasons = {reason: names for reason, names in self.left_out.items() if reason != "not in the table"}
        files = [f"Left out ({reason}): {_counted(names)}" for reason, names in reasons.items()]
        read = Counter(text.tool for text in self._texts.values() if text.prompt)
        tools = ", ".join(f"{tool} {n:,}" for tool, n in read.most_common())
        summary = f"Prompts inside images: {read.total():,} of {len(self._texts):,} images have one ({tools})."
        return [*files, *([summary] if read else []), *self._unread_texts]

    @property
    def _unread_texts(self) -> list[str]:
        problems: dict[str, list[str]] = {}
        for name, text in self._texts.items():
            if text.problem:
                problems.setdefault(f"{text.tool}, {text.problem}", []).append(name)
        return [f"Texts inside images that give no prompt ({why}): {_counted(n)}" for why, n in problems.items()]

    @cached_property
    def _texts(self) -> dict[str, ImageText]:
        """The texts inside the images that groups may have; a table replaces them."""
        if self._table is not None:
            return {}
        return {name: read_text(path) for name, path in self._files.items() if name not in self._derived}

    @cached_property
    def _derived(self) -> dict[str, str]:
        """Images that tools make of others, with what they are; a table may name them."""
        if self._table is not None:
            return {}
        return {name: kind for name in self._files for kind, pattern in _DERIVED.items() if pattern.search(name)}

    @cached_property
    def _described(self) -> pd.DataFrame:
        shown = partial(shown_prompt, private=redact.sensitive_texts(None, default_root().absolute()))
        if self._table is not None:
            rows = _of_table(self._table, self._files, self.not_read, self.group_by)
            return rows.assign(prompt=rows["prompt"].map(shown), group=rows["group"].map(shown))
        prompts = [shown(text.prompt) for text in self._texts.values()]
        columns = {"prompt": prompts, "group": "", "position": 1, "model": ""}
        rows = pd.DataFrame({"image_id": list(self._texts), **columns}).astype({"prompt": object})
        rows["group"] = group_images(rows, self.group_by, str(self._folder))
        if (rows["group"] == "").all():
            raise InputError(
                f"{self._folder} gives no group to {next(iter(self._files))} and {len(self._files) - 1:,} more images. "
                f"{' '.join([*self._unread_texts, ''])}Put images into one folder per group, or a table next to them. "
                f"{_NEEDS} --group-by 'folder[1]' takes the folders as they are."
            )
        # Images of a group that have no prompt are alike.
        rows["prompt"] = rows["prompt"].where(rows["prompt"] != "", rows["group"])
        return rows[rows["group"] != ""].reset_index(drop=True)

    @cached_property
    def _table(self) -> Path | None:
        tables = list(folders.files(self._folder, _TABLES, deep=False).values())
        if len(tables) > 1:
            names = ", ".join(sorted(path.name for path in tables))
            raise InputError(f"{self._folder} has several tables: {names}. Keep only the one that lists its images.")
        return tables[0] if tables else None


def _counted(names: Sequence[str]) -> str:
    """Return how many files there are, and one of them, whose name may hold anything."""
    return f"{len(names):,}, such as {names[0] if names[0].isprintable() else ascii(names[0])}."


def _of_table(path: Path, files: Mapping[str, Path], not_read: Sequence[str], group_by: str) -> pd.DataFrame:
    frame, _ = cells.load(path, {*COLUMNS, group_by} - {""})
    cells.require(frame, ("file",), path, _NEEDS, set(COLUMNS))
    if group_by in frame:
        frame["group"] = frame[group_by]
    if not {"prompt", "group"} & set(frame):
        raise InputError(f"{path} has neither prompt nor group. {_NEEDS}")
    for name in COLUMNS[1:]:
        frame[name] = cells.names(frame[name], path, empty=True).astype(object) if name in frame else ""
    places = frame["position"].str.lower().replace(_SIDES).replace("", "1")
    strange = ~places.isin([str(k) for k in range(1, _MOST_PEOPLE + 1)])
    fix = "give left, right, or a number from 1 for the leftmost, or leave it empty"
    cells.refuse(strange, path, "position is {}", fix, frame["position"])
    frame["position"] = places.astype(int)
    for name, other in (("prompt", "group"), ("group", "prompt")):
        frame[name] = frame[name].where(frame[name] != "", frame[other])
    cells.refuse(frame["prompt"] == "", path, "file {} has neither prompt nor group", "give one", frame["file"])
    known = {normalize(image_id): image_id for image_id in files}
    names = frame["file"].str.strip().str.replace("\\", "/").str.removeprefix("./").map(normalize)
    fix = "its format is not read; convert it to PNG or JPEG"
    cells.refuse(names.isin(set(map(normalize, not_read))), path, "file is {}", fix, frame["file"])
    ids = names.map(known)
    there = f"it is not in {path.parent.name}; paths count from there"
    cells.refuse(ids.isna(), path, "file is {}", there, frame["file"])
    frame["image_id"] = ids
    if group_by and group_by not in frame:
        frame["group"] = group_images(frame, group_by, str(path.parent))
        cells.refuse(frame["group"] == "", path, "file {} has no group by --group-by", "leave it out", frame["file"])
    twice = frame.duplicated(["image_id", "position"])
    cells.refuse(
        twice, path, "file {} occurs twice", "keep one row, or give the positions left and right", frame["file"]
    )
    some = frame["model"] != ""
    fix = "fill it in, or leave the whole column out"
    cells.refuse(~some & some.any(), path, "file {} has no model, although others have one", fix, frame["file"])
    frame = frame.sort_values(["image_id", "position"], kind="stable", ignore_index=True)
    counted = frame.groupby("image_id").cumcount() + 1
    gap = (counted != frame["position"]).set_axis(frame.index)
    cells.refuse(
        gap, path, "file {} has people at some positions only", "name all people of an image", frame["image_id"]
    )
    return frame[["image_id", "prompt", "group", "position", "model"]]


def shown_prompt(text: str, private: Mapping[str, str]) -> str:
    """Return a prompt from a picture as tables and pages show it: printable, of bounded length, and without folders.

    Of a longer one the number of characters left out follows. ``private`` are the folders and keys of this machine
    (:func:`biaslab.redact.sensitive_texts`); a run that names one cannot be exported.
    """
    clean = "".join(filter(is_printable, text[:_LONGEST_PROMPT]))
    clean = redact.redact(clean, private)
    return f"{clean}… ({more:,} more characters)" if (more := len(text) - _LONGEST_PROMPT) > 0 else clean
