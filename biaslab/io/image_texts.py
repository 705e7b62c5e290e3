"""Reader of the prompts that image generators write into their images.

``image_texts.yaml`` describes the texts of each tool, with sources. Files are untrusted input: lengths of texts and the
number of links followed in a graph are bounded, nothing in a text is executed, and XMP is not parsed as XML.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from html import unescape
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from biaslab.io.image_files import formats

MAX_TEXT = 2_000_000
"""Maximum bytes of a text, also after decompression; a longer one is not read."""
MAX_PROMPT = 10_000
"""Maximum characters of a prompt; a longer one is not read."""
_MAX_CHUNKS, _MAX_LINKS = 100_000, 300
_FACTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_TOOLS, _NODES = _FACTS["tools"], _FACTS["nodes"]
_PNG = b"\x89PNG\r\n\x1a\n"
# EXIF: the comment with its directory, and tags with texts: description, make, model.
_EXIF, _USER_COMMENT, _EXIF_TEXTS = 0x8769, 0x9286, (0x010E, 0x010F, 0x0110)


@dataclass(frozen=True)
class ImageText:
    """Content of the text in an image: the prompt in one line, or the reason why it is missing."""

    prompt: str = ""
    tool: str = ""
    """The tool that wrote the text; empty if no tool wrote one."""
    problem: str = ""
    """Why the prompt is missing, such as ``"no positive prompt"`` or ``"the unsupported node OllamaGenerate"``."""


class _UnreadTextError(Exception):
    """A text whose prompt cannot be read, with the reason."""


def read_text(path: Path) -> ImageText:
    """Return the content of the text in an image file; it is empty without a text, and for other files.

    The content of a file never causes an error. Raises OSError: The file does not exist.
    """
    state = path.stat()
    return _read_text(path, state.st_mtime_ns, state.st_size)


# Cached, because a command opens a folder several times. The other arguments change with the file.
@lru_cache(maxsize=200_000)
def _read_text(path: Path, *_: int) -> ImageText:
    texts: dict[str, str | None] = {}
    # Damage is reported when pixels are decoded; texts before it are used.
    with suppress(Exception), path.open("rb") as file:
        for name, text in _png_texts(file) if file.read(8) == _PNG else _other_texts(path):
            texts.setdefault(name, text)
    texts |= _xmp_texts(texts.get("XML:com.adobe.xmp") or "")
    tool_names = [*_TOOLS, *_FACTS["others"]]
    other_names = sorted(name for name in texts.keys() - {*tool_names} if not re.fullmatch(_FACTS["ordinary"], name))
    results = [_read_one(name, texts[name]) for name in [*tool_names, *other_names] if name in texts]
    results = [result for result in results if result.tool]
    if texts.get("Software") == "NovelAI":
        # Before version 4 the comment has no prompt.
        results.append(_result("NovelAI", texts.get("Description") or ""))
    return next((result for result in results if result.prompt), results[0] if results else ImageText())


def _read_one(name: str, text: str | None) -> ImageText:
    """Return the content of one text, which is empty if no tool wrote it."""
    tool = _TOOLS.get(name, "" if name in _FACTS["others"] else "unknown tool")
    try:
        if text is None:
            raise _UnreadTextError(f"a text of more than {MAX_TEXT:,} bytes")
        if name in _FACTS["present"]:
            raise _UnreadTextError("a workflow without the executed graph")
        return _result(*_tool_and_prompt(name, text, tool))
    except _UnreadTextError as error:
        return ImageText("", tool, str(error)) if tool else ImageText()
    except RecursionError:
        return ImageText("", tool or "unknown tool", "a too deeply nested text")


def _result(tool: str, prompt: str) -> ImageText:
    prompt = " ".join(_EXTRA_NETWORK.sub(" ", prompt).split())
    if len(prompt) > MAX_PROMPT:
        return ImageText("", tool, f"a prompt of more than {MAX_PROMPT:,} characters")
    return ImageText(prompt, tool, "" if prompt else "no positive prompt")


_EXTRA_NETWORK = re.compile(r"<(?:lora|lyco|lycoris|hypernet):[^<>]{1,200}>")


# -- containers --------------------------------------------------------------------------------------------


def _png_texts(file: BinaryIO) -> Iterator[tuple[str, str | None]]:
    """Yield the texts of a PNG file with their keywords (PNG specification, 11.3.3); None if a text is too long."""
    for _ in range(_MAX_CHUNKS):
        head = file.read(8)
        size, kind = int.from_bytes(head[:4]), head[4:]
        if not kind:
            return
        end = file.tell() + size + 4
        if kind in (b"tEXt", b"zTXt", b"iTXt"):
            name, _, data = file.read(size if size <= MAX_TEXT else 80).partition(b"\0")
            yield name.decode("latin-1"), _png_text(kind, data) if size <= MAX_TEXT else None
        file.seek(end)


def _png_text(kind: bytes, data: bytes) -> str | None:
    compressed = kind == b"zTXt" or (kind == b"iTXt" and data[:1] == b"\1")
    if kind == b"zTXt":
        data = data[1:]
    elif kind == b"iTXt":
        # Two bytes about compression, a language, and the keyword in that language.
        data = b"".join(data[2:].split(b"\0", 2)[2:])
    return _decode(zlib.decompressobj().decompress(data, MAX_TEXT + 1) if compressed else data)


def _other_texts(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the texts of a file of another format than PNG, with the names of their fields."""
    from PIL import Image

    with Image.open(path, formats=formats()) as image:
        exif = image.getexif()
        comment = exif.get_ifd(_EXIF).get(_USER_COMMENT, b"")
        yield "UserComment", _comment(comment) if isinstance(comment, bytes) else comment
        for tag in _EXIF_TEXTS:
            # ComfyUI puts a name before the text.
            name, colon, text = str(exif.get(tag, "")).partition(":")
            if colon and name.lower() in _TOOLS:
                yield name.lower(), _decode(text.encode())
        for name, key in (("XML:com.adobe.xmp", "xmp"), ("comment", "comment")):
            value = image.info.get(key, b"")
            yield name, _decode(value if isinstance(value, bytes) else str(value).encode())


def _comment(comment: bytes) -> str | None:
    """Return the text of an EXIF comment, whose first eight bytes name its encoding (EXIF 2.3, 4.6.5)."""
    if not comment.startswith(b"UNICODE\0") or len(comment) > MAX_TEXT:
        return _decode(comment.removeprefix(b"ASCII\0\0\0").lstrip(b"\0"))
    text = comment[8:]
    # Tools use either byte order; settings are in English, so every other byte is 0.
    little = text[1::2].count(0) > text[::2].count(0)
    return text.decode("utf-16-le" if little else "utf-16-be", "ignore").removeprefix("\ufeff")


def _decode(data: bytes) -> str | None:
    """Return a text decoded as UTF-8, which most tools use, else as Latin-1, the encoding of PNG; None if too long."""
    if len(data) > MAX_TEXT:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _xmp_texts(packet: str) -> dict[str, str | None]:
    texts = {}
    for name in ("dc:description", "exif:UserComment"):
        content = packet.partition(f"<{name}")[2].partition(f"</{name}>")[0].partition(">")[2]
        texts[name] = unescape(re.sub("<[^<>]*>", "", content)).strip()
    return {name: text for name, text in texts.items() if text}


# -- tools ---------------------------------------------------------------------------------------------------

# The line of settings: it starts with the steps, or has at least three settings, including seed or sampler.
_SETTINGS = re.compile(
    r"^[ \t]*(?:Steps: \d+[ \t\r]*(?:,|$)|(?:[\w /-]{1,60}: [^,\n]+, ){2}[^\n]*\b(?:Seed|Sampler): )", re.MULTILINE
)


def _tool_and_prompt(name: str, text: str, tool: str) -> tuple[str, str]:
    """Return the tool that wrote a text, detected by its form, and its prompt; ``tool`` is the default tool."""
    if settings := list(_SETTINGS.finditer(text)):
        lines = text[: settings[-1].start()].splitlines()
        positive = takewhile(lambda line: not line.lstrip().startswith("Negative prompt:"), lines)
        return "Stable Diffusion web UI", "\n".join(positive)
    if text.lstrip().startswith("{"):
        tool, prompt = _json_prompt(text)
    elif "Job ID:" in text:
        # Images come before the prompt, parameters after it; some keyboards write two hyphens as a dash.
        prompt = re.split(r"(?:^|\s)(?:--|\u2014)[A-Za-z]|Job ID:", text, maxsplit=1)[0]
        return "Midjourney", re.sub(r"^\s*(?:<?https?://\S+\s*)+", "", prompt)
    elif name == "Dream" and (quoted := re.match(r'\s*"((?:[^"\\]|\\.)*)"', text)):
        prompt = quoted[1]
    else:
        raise _UnreadTextError(f"the text {name!r}" if tool == "unknown tool" else "a text without settings")
    # Negative parts are removed.
    return tool, re.sub(r"\[[^\[\]]*\]", " ", prompt) if name in ("Dream", "sd-metadata") else prompt


def _json_prompt(text: str) -> tuple[str, str]:
    try:
        data = json.loads(text, strict=False)
    except ValueError:
        raise _UnreadTextError("damaged JSON") from None
    for kind in _FACTS["json"]:
        if {*kind["has"]} <= data.keys():
            return kind["tool"], _join_texts(text for path in kind["prompt"] for text in _values(data, path.split(".")))
    nodes = data["prompt"] if isinstance(data.get("prompt"), dict) else data
    if any(isinstance(node, dict) and "class_type" in node for node in nodes.values()):
        return "ComfyUI", _Graph(nodes).prompt()
    raise _UnreadTextError("JSON without a prompt")


def _values(data: Any, path: list[str]) -> Iterator[str]:
    """Yield the texts at the end of a path of keys, for all items of lists on the path or at its end."""
    if isinstance(data, list):
        for item in data:
            # No tool writes a list in a list.
            yield from () if isinstance(item, list) else _values(item, path)
    elif not path and isinstance(data, str):
        yield data
    elif path and isinstance(data, dict):
        yield from _values(data.get(path[0]), path[1:])


def _join_texts(texts: Iterable[str]) -> str:
    """Return unique texts as one, because encoders of one model often take the same text twice."""
    return ", ".join(dict.fromkeys(filter(None, map(str.strip, texts))))


# -- graphs of ComfyUI ---------------------------------------------------------------------------------------


class _Graph:
    """An executed graph: nodes by id, each with ``class_type`` and ``inputs``; a link is ``[id, output]``."""

    def __init__(self, nodes: dict[str, Any]) -> None:
        self._nodes = {
            str(name): (str(node.get("class_type", "")), node["inputs"])
            for name, node in nodes.items()
            if isinstance(node, dict) and isinstance(node.get("inputs"), dict)
        }
        self._links = 0

    def prompt(self) -> str:
        """Return the positive prompt of the samplers of the saved images, which must be the same for all."""
        nodes = self._find_saved_nodes()
        starts = [start for kind, inputs in nodes if (start := _start(kind.lower(), inputs)) is not None]
        # Nodes of services take the prompt themselves.
        starts = starts or [inputs["prompt"] for _, inputs in nodes if "prompt" in inputs]
        if not starts:
            raise _UnreadTextError("a graph without a supported sampler")
        prompts = {" ".join(self._text(start).split()) for start in starts}
        if len(prompts) > 1:
            raise _UnreadTextError("several prompts in one graph")
        return prompts.pop()

    def _find_saved_nodes(self) -> list[tuple[str, dict[str, Any]]]:
        ends = (
            [name for name, (kind, _) in self._nodes.items() if word in kind.lower()] for word in ("save", "preview")
        )
        visited, queue = set(), next(filter(None, ends), list(self._nodes))
        while queue:
            name = queue.pop()
            if name not in visited and name in self._nodes:
                visited.add(name)
                queue += [str(link[0]) for link in self._nodes[name][1].values() if _is_link(link)]
        return [node for name, node in self._nodes.items() if name in visited]

    def _text(self, link: Any, role: str = "positive") -> str:
        """Return the text at the end of a link; ``role`` is the prompt to follow through nodes with both prompts."""
        if isinstance(link, str):
            return link
        self._links += 1
        if self._links > _MAX_LINKS:
            raise _UnreadTextError("circular or too many links")
        if not _is_link(link) or str(link[0]) not in self._nodes:
            raise _UnreadTextError("a broken link")
        kind, inputs = self._nodes[str(link[0])]
        node_kind = kind.lower()
        if kind == "ConditioningZeroOut":
            return ""
        if {"positive", "negative"} <= inputs.keys():
            role = _role(node_kind, link[1], role)
            return self._text(inputs[role], role)
        if f"{role}_prompt" in inputs:
            return self._text(inputs[f"{role}_prompt"])
        if "textencode" in node_kind:
            return _join_texts([self._text(inputs[name]) for name in _NODES["encoded"] if name in inputs])
        if re.search(_NODES["joining"], node_kind):
            names = [name for name, value in inputs.items() if re.fullmatch(_NODES["joined"], name) and value]
            texts = [self._text(inputs[name], role) for name in names]
            if "conditioning" in node_kind:
                return _join_texts(texts)
            text = str(inputs.get("delimiter", inputs.get("separator", ""))).join(texts)
            return text[: MAX_PROMPT + 1]
        is_text = re.search(_NODES["text"], node_kind) and not re.search(_NODES["made"], node_kind)
        names = [*_NODES["passed"], *(inputs if "reroute" in node_kind else ())]
        if is_text or "populated_text" in inputs:
            names = _NODES["texts"]
        for name in names:
            if _is_link(inputs.get(name)) or (names is _NODES["texts"] and isinstance(inputs.get(name), str)):
                return self._text(inputs[name], role)
        raise _UnreadTextError(f"the unsupported node {kind[:60]}")


def _start(kind: str, inputs: dict[str, Any]) -> Any:
    """Return the input of a sampler with its positive prompt, or None for other nodes."""
    if "sampler" in kind:
        return next((inputs[name] for name in ("guider", "positive", *_NODES["passed"]) if name in inputs), None)
    return inputs.get("positive") if inputs.keys() & {"latent_image", "seed", "noise_seed"} else None


def _is_link(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str | int) and isinstance(value[1], int)


def _role(kind: str, output: int, role: str) -> str:
    """Return the prompt of an output of a node with both; a single output, such as a guider's, has the given role."""
    if re.search("pipe|guider", kind):
        return role
    outputs = {1: "positive", 2: "negative"} if re.search("loader|sampler", kind) else {0: "positive", 1: "negative"}
    return outputs.get(output, role)
