"""A folder of pictures that are there already: what each was asked for, and for whom it is counted.

It is told by a table in the folder; without one by subfolders, and by the texts that tools write into pictures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property, lru_cache, partial
from pathlib import Path

import pandas as pd

from biaslab import redact
from biaslab.errors import InputError
from biaslab.hub.image_sources import FolderImages
from biaslab.io import cells, folders, reading
from biaslab.io.image_files import formats
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
# Where texts in pictures are kept: of EXIF the comment, and its description.
_EXIF, _USER_COMMENT, _DESCRIPTION = 0x8769, 0x9286, 0x010E
_MOST_LINKS = 20
# Characters of a prompt that are shown; tools write texts of megabytes into pictures.
_LONGEST_PROMPT = 4000


# The folders that a command has opened, by what names them; None outside of commands.
_OPENED: ContextVar[dict[str, ImageFolder] | None] = ContextVar("opened", default=None)


@contextmanager
def folders_read_once() -> Iterator[None]:
    """Let :func:`open_folder` read each folder once meanwhile: for commands, during which folders do not change."""
    token = _OPENED.set({})
    try:
        yield
    finally:
        _OPENED.reset(token)


def open_folder(path: str) -> ImageFolder:
    """Return the images of a folder, or of ``FOLDER::MODEL``; raises as :class:`ImageFolder`."""
    opened = _OPENED.get()
    if opened is None:
        return ImageFolder(path)
    if path not in opened:
        opened[path] = ImageFolder(path)
    return opened[path]


class ImageFolder(FolderImages):
    """The pictures of a folder, with what tells them apart; of ``FOLDER::MODEL`` those of a model of its table.

    Raises InputError: There is no such folder; nothing tells its pictures apart; or its table does not fit.
    """

    def __init__(self, path: str) -> None:
        folder, _, model = str(path).partition(MIXED)
        super().__init__(folder)
        self._folder, self.model = Path(folder).expanduser(), model
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
        """The models whose pictures the folder holds; empty where it is one model's."""
        return sorted({*self._described["model"]} - {""})

    @cached_property
    def description_digest(self) -> str:
        """Tells pictures, and what is told of them, from others; :attr:`digest` is of the pictures alone."""
        table = reading.content(self._table) if self._table is not None else b""
        return hashlib.sha256(f"{self.digest} {self.model} ".encode() + table).hexdigest()

    @property
    def description_files(self) -> str:
        """The table that says what pictures were asked for; empty where subfolders and texts in pictures do."""
        return str(self._table) if self._table is not None else ""

    @property
    def undescribed_images(self) -> list[str]:
        """The pictures that the folder's table does not name: nobody looks at them."""
        return sorted(set(self._files) - set(self._described["image_id"]))

    @cached_property
    def _described(self) -> pd.DataFrame:
        shown = partial(shown_prompt, private=redact.sensitive_texts(None, default_root().absolute()))
        if self._table is not None:
            rows = _of_table(self._table, self._files, self.not_read)
            return rows.assign(prompt=rows["prompt"].map(shown), group=rows["group"].map(shown))
        prompts = [shown(prompt_in(path)) for path in self._files.values()]
        groups = [image_id.rpartition("/")[0].partition("/")[0] for image_id in self._files]
        told = {"prompt": prompts, "group": groups, "position": 1, "model": ""}
        rows = pd.DataFrame({"image_id": list(self._files), **told})
        bare = (rows["prompt"] == "") & (rows["group"] == "")
        if bare.any():
            raise InputError(
                f"Nothing says what {rows.loc[bare, 'image_id'].iloc[0]} in {self._folder} was asked for, nor of "
                f"{bare.sum() - 1:,} more. Put images into one folder per group, or a table next to them. {_NEEDS}"
            )
        # Of pictures that say nothing of a prompt, all of a group are alike.
        rows["prompt"] = rows["prompt"].where(rows["prompt"] != "", rows["group"])
        rows["group"] = rows["group"].where(rows["group"] != "", rows["prompt"])
        return rows

    @cached_property
    def _table(self) -> Path | None:
        tables = list(folders.files(self._folder, _TABLES, deep=False).values())
        if len(tables) > 1:
            names = ", ".join(sorted(path.name for path in tables))
            raise InputError(f"{self._folder} has several tables: {names}. Keep only the one that lists its images.")
        return tables[0] if tables else None


def _of_table(path: Path, files: Mapping[str, Path], not_read: Sequence[str]) -> pd.DataFrame:
    frame, _ = cells.load(path, set(COLUMNS))
    cells.require(frame, ("file",), path, _NEEDS, set(COLUMNS))
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
    twice = frame.duplicated(["image_id", "position"])
    cells.refuse(twice, path, "file {} occurs twice", "keep one row, or say left and right", frame["file"])
    some = frame["model"] != ""
    fix = "fill it in, or leave the whole column out"
    cells.refuse(~some & some.any(), path, "file {} is of no model, where others are", fix, frame["file"])
    frame = frame.sort_values(["image_id", "position"], kind="stable", ignore_index=True)
    counted = frame.groupby("image_id").cumcount() + 1
    gap = (counted != frame["position"]).set_axis(frame.index)
    cells.refuse(gap, path, "file {} has people at some positions only", "name all of a picture", frame["image_id"])
    return frame[["image_id", "prompt", "group", "position", "model"]]


def shown_prompt(text: str, private: Mapping[str, str]) -> str:
    """Return a prompt from a picture as tables and pages show it: printable, of bounded length, and without folders.

    Of a longer one the number of characters left out follows. ``private`` are the folders and keys of this machine
    (:func:`biaslab.redact.sensitive_texts`); a run that names one cannot be exported.
    """
    clean = "".join(filter(is_printable, text[:_LONGEST_PROMPT]))
    clean = redact.redact(clean, private)
    return f"{clean}… ({more:,} more characters)" if (more := len(text) - _LONGEST_PROMPT) > 0 else clean


# -- texts in pictures -----------------------------------------------------------------------------------


def prompt_in(path: Path) -> str:
    """Return the prompt that a tool wrote into a picture, in one line; empty where none is found.

    Known are the Stable Diffusion web UI (``parameters``, in JPEG and WebP the comment of EXIF), ComfyUI (``prompt``,
    a graph) and InvokeAI (``invokeai_metadata``).
    """
    state = path.stat()
    return _prompt_in(path, state.st_mtime_ns, state.st_size)


# A command opens a folder several times. Beside the path, what changes with the file.
@lru_cache(maxsize=200_000)
def _prompt_in(path: Path, *_: int) -> str:
    from PIL import Image

    # A text that is too long, or no text, is none: the picture itself may still be read.
    with suppress(Exception), Image.open(path, formats=formats()) as image:
        found = image.info
        exif = image.getexif()
        comment = exif.get_ifd(_EXIF).get(_USER_COMMENT, b"")
        texts = (
            _of_web_ui(found.get("parameters")),
            _of_graph(found.get("prompt")),
            _of_invoke(found.get("invokeai_metadata")),
            _of_web_ui(_decoded(comment)),
            _of_graph(str(exif.get(_DESCRIPTION, "")).partition("Workflow:")[2]),
        )
        return " ".join(next(filter(None, texts), "").split())
    return ""


def _of_web_ui(text: object) -> str:
    if not isinstance(text, str) or "Steps: " not in text:
        return ""
    return text.partition("\nNegative prompt:")[0].partition("\nSteps: ")[0]


def _decoded(comment: object) -> str:
    """Return the text of an EXIF comment, whose first eight bytes name its encoding."""
    if not isinstance(comment, bytes):
        return ""
    if comment.startswith(b"UNICODE\0"):
        text = comment[8:]
        return text.decode("utf-16-le" if text[1:2] == b"\0" else "utf-16-be", "ignore")
    return comment.removeprefix(b"ASCII\0\0\0").decode("utf-8", "ignore")


def _of_invoke(text: object) -> str:
    known = json.loads(text) if isinstance(text, str) else {}
    return str(known.get("positive_prompt", "")) if isinstance(known, dict) else ""


def _of_graph(text: object) -> str:
    """Return the text that a ComfyUI graph's sampler takes as positive; empty where samplers take several."""
    graph = json.loads(text) if isinstance(text, str) and text.lstrip().startswith("{") else {}
    asked = {
        _followed(graph, node["inputs"]["positive"])
        for node in graph.values()
        if isinstance(node, dict) and "positive" in node.get("inputs", {})
    }
    return asked.pop() if len(asked) == 1 else ""


def _followed(graph: dict, link: object) -> str:
    """Return the text at the end of links between nodes, such as ``["6", 0]``."""
    for _ in range(_MOST_LINKS):
        if isinstance(link, str):
            return link
        inputs = graph.get(str(link[0]), {}).get("inputs", {}) if isinstance(link, list) and link else {}
        link = next(
            (inputs[k] for k in ("text", "text_g", "string", "value", "conditioning", "positive") if k in inputs), None
        )
    return ""
