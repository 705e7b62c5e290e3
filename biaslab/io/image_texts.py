"""One reader of the texts that tools write into the images that they generate: an image's prompt, or why it has none.

Where each tool writes, and what, by its own code (versions up to 2026):

- AUTOMATIC1111, Forge, SD.Next (``modules/infotext_utils.py``): PNG text ``parameters``, else EXIF ``UserComment``.
  Lines of the prompt; ``Negative prompt: …``; ``Steps: 20, Sampler: …``. The first two may be missing; extensions add
  lines after the last, such as ``Template:``.
- ComfyUI (``nodes.py``, ``comfy_extras/nodes_images.py``): PNG texts ``prompt``, the executed graph, and ``workflow``,
  what the editor shows; in WebP the EXIF tags Model (``prompt:{…}``) and Make (``workflow:{…}``).
- SwarmUI (``src/Text2Image/T2IParamInput.cs``): ``parameters``, JSON with ``sui_image_params.prompt``.
- Fooocus (``modules/meta_parser.py``): ``parameters``, JSON with ``prompt``, or a text as the first tool's.
- InvokeAI: ``invokeai_metadata``, JSON with ``positive_prompt`` (3 to 5); ``sd-metadata`` and ``Dream`` (2), with the
  negative prompt in square brackets inside the prompt.
- NovelAI: ``Software`` is NovelAI; ``Description``, and ``Comment``, JSON with ``prompt`` and from version 4 on
  ``v4_prompt.caption``, which has a text for each person.
- Midjourney: ``Description`` (PNG, XMP ``dc:description``): the prompt, parameters such as ``--v 6.1``, ``Job ID: …``.
- Draw Things: XMP ``exif:UserComment``, JSON in which ``c`` is the prompt and ``uc`` the negative prompt.

Files are hostile input: lengths of texts and the links followed in a graph are bounded, nothing in a text is executed,
and XMP is searched rather than parsed as XML.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from html import unescape
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from biaslab.io.image_files import formats

MAX_TEXT = 2_000_000
"""Bytes of a text, also when it is decompressed; a longer one is not read."""
MAX_PROMPT = 10_000
"""Characters of a prompt; a longer one is not read."""
_MAX_CHUNKS, _MAX_LINKS = 100_000, 300
_PNG = b"\x89PNG\r\n\x1a\n"
# EXIF: the comment with its directory, and tags that hold texts: description, make, model; XMP in TIFF.
_EXIF, _USER_COMMENT, _EXIF_TEXTS, _XMP = 0x8769, 0x9286, (0x010E, 0x010F, 0x0110), 0x02BC
_WEB_UI, _COMFY, _UNKNOWN = "Stable Diffusion web UI", "ComfyUI", "unknown tool"
_NO_PROMPT = "no positive prompt"


@dataclass(frozen=True)
class ImageText:
    """What the text in an image says: the prompt in one line, or the problem that there is none."""

    prompt: str = ""
    tool: str = ""
    """The tool that wrote the text; empty where the image has no text of a tool."""
    problem: str = ""
    """Why there is no prompt, such as ``"no positive prompt"`` or ``"node OllamaGenerate"``."""


class _UnreadTextError(Exception):
    """A text whose prompt cannot be read, with the reason."""


def read_text(path: Path) -> ImageText:
    """Return what the text in an image file says; an image without one, and no image, have an empty result.

    Nothing in the file raises. Raises OSError where there is no such file.
    """
    state = path.stat()
    return _read_text(path, state.st_mtime_ns, state.st_size)


# A command opens a folder several times. The further arguments change with the file.
@lru_cache(maxsize=200_000)
def _read_text(path: Path, *_: int) -> ImageText:
    texts: dict[str, str | None] = {}
    # Damage is reported where pixels are read; texts in front of it count.
    with suppress(Exception), path.open("rb") as file:
        for name, text in _png_texts(file) if file.read(8) == _PNG else _other_texts(path):
            texts.setdefault(name, text)
    results = []
    for tool, read in _readers(texts):
        try:
            prompt = " ".join(_EXTRA_NETWORK.sub(" ", read()).split())
            problem = "" if prompt else _NO_PROMPT
            if len(prompt) > MAX_PROMPT:
                prompt, problem = "", f"a prompt of more than {MAX_PROMPT:,} characters"
        except _UnreadTextError as error:
            prompt, problem = "", str(error)
        results.append(ImageText(prompt, tool, problem))
    return next((one for one in results if one.prompt), results[0] if results else ImageText())


# What adds a LoRA to a model: the web UI removes it from the prompt.
_EXTRA_NETWORK = re.compile(r"<(?:lora|lyco|lycoris|hypernet):[^<>]{1,200}>")


# -- containers --------------------------------------------------------------------------------------------


def _png_texts(file: BinaryIO) -> Iterator[tuple[str, str | None]]:
    """Yield the texts of a PNG file by their keywords (PNG specification, 11.3.3); None is one that is too long."""
    for _ in range(_MAX_CHUNKS):
        head = file.read(8)
        size, kind = int.from_bytes(head[:4]), head[4:]
        if kind in (b"", b"IEND"):
            return
        end = file.tell() + size + 4
        if kind == b"eXIf" and size <= MAX_TEXT:
            from PIL import Image

            exif = Image.Exif()
            with suppress(Exception):
                exif.load(file.read(size))
                yield from _exif_texts(exif)
        elif kind in (b"tEXt", b"zTXt", b"iTXt"):
            name, _, rest = file.read(min(size, 80)).partition(b"\0")
            keyword = name.decode("latin-1")
            if keyword in _PRESENT or size > MAX_TEXT:
                yield keyword, "" if keyword in _PRESENT else None
            else:
                yield keyword, _png_text(kind, rest + file.read(max(0, size - 80)))
        file.seek(end)


def _png_text(kind: bytes, data: bytes) -> str | None:
    compressed = kind == b"zTXt"
    if compressed:
        data = data[1:]
    elif kind == b"iTXt":
        compressed = data[:1] == b"\1"
        # Two bytes on compression, a language, and the keyword in that language.
        data = b"".join(data[2:].split(b"\0", 2)[2:])
    if compressed:
        data = zlib.decompressobj().decompress(data, MAX_TEXT + 1)
    return _decoded(data)


def _other_texts(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the texts of a JPEG, WebP, AVIF, GIF or TIFF file, by their places."""
    from PIL import Image

    with Image.open(path, formats=formats()) as image:
        exif = image.getexif()
        yield from _exif_texts(exif)
        for name, value in (("XML:com.adobe.xmp", image.info.get("xmp") or exif.get(_XMP)), ("comment", None)):
            value = value or image.info.get(name)
            if value:
                yield name, _decoded(value)


def _exif_texts(exif: Any) -> Iterator[tuple[str, str | None]]:
    comment = exif.get_ifd(_EXIF).get(_USER_COMMENT)
    if comment:
        yield "UserComment", _comment(comment)
    for tag in _EXIF_TEXTS:
        # ComfyUI names the text in front of it.
        name, colon, text = str(exif.get(tag, "")).partition(":")
        if colon and name.lower() in ("prompt", "workflow"):
            yield name.lower(), _decoded(text)


def _comment(comment: bytes | str) -> str | None:
    """Return the text of an EXIF comment, whose first eight bytes name its encoding (EXIF 2.3, 4.6.5)."""
    if isinstance(comment, str) or not comment.startswith(b"UNICODE\0") or len(comment) > MAX_TEXT:
        return _decoded(comment if isinstance(comment, str) else comment.removeprefix(b"ASCII\0\0\0").lstrip(b"\0"))
    text = comment[8:]
    # Tools write either order of bytes; of settings, which are in English, every other byte is 0.
    little = text[1::2].count(0) > text[::2].count(0)
    return text.decode("utf-16-le" if little else "utf-16-be", "ignore").removeprefix("\ufeff")


def _decoded(data: bytes | str) -> str | None:
    """Return a text in UTF-8, which most tools write, else in Latin-1, the encoding of PNG; None if it is too long."""
    if len(data) > MAX_TEXT:
        return None
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


# -- tools ---------------------------------------------------------------------------------------------------

# Texts of which only the presence counts.
_PRESENT = ("workflow", "invokeai_graph", "invokeai_workflow")
# Names of texts that programs other than generators write (PNG specification, 11.3.3.2, and ImageMagick).
_ORDINARY = re.compile(
    "title|author|description|copyright|creation time|software|disclaimer|warning|source|comment|usercomment|"
    "generation time|xml:com.adobe.xmp|(date|exif|png|icc|tiff|photoshop|xmp|raw profile type).*",
    re.IGNORECASE,
)


def _readers(whole: dict[str, str | None]) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield each text of a tool as the tool's name and a function that returns its prompt or raises."""
    texts = {name: text for name, text in whole.items() if text is not None}
    for _ in range(len(whole) - len(texts)):
        yield _UNKNOWN, lambda: _refuse(f"a text of more than {MAX_TEXT:,} bytes")
    for name in ("parameters", "UserComment", "comment"):
        if text := texts.get(name):
            yield from _any_reader(text, certain=name == "parameters")
    if "prompt" in texts and texts.keys() & {"negative_prompt", "Negative Prompt"}:
        yield "Easy Diffusion", lambda: texts["prompt"]
    elif "prompt" in texts:
        yield _COMFY, lambda: _Graph(_json(texts["prompt"])).prompt()
    elif "workflow" in texts:
        yield _COMFY, lambda: _refuse("a workflow without the executed graph")
    if "invokeai_metadata" in texts:
        yield "InvokeAI", lambda: _value(_json(texts["invokeai_metadata"]), "positive_prompt")
    elif texts.keys() & {"sd-metadata", "Dream"}:
        yield "InvokeAI", lambda: _invoke_2(texts)
    elif texts.keys() & {"invokeai_graph", "invokeai_workflow"}:
        yield "InvokeAI", lambda: _refuse("a workflow without metadata")
    described = [texts.get("Description", "")]
    packet = texts.get("XML:com.adobe.xmp", "")
    for name in ("dc:description", "exif:UserComment"):
        for part in packet.split(f"<{name}")[1:]:
            text = unescape(re.sub("<[^<>]*>", "", part.partition(f"</{name}>")[0].partition(">")[2])).strip()
            described += [text] if name == "dc:description" else []
            yield from _any_reader(text)
    if texts.get("Software") == "NovelAI":
        yield "NovelAI", lambda: _novelai(_json(texts.get("Comment", "{}"))) or described[0]
    for text in described:
        if "Job ID:" in text:
            yield "Midjourney", lambda text=text: _midjourney(text)
    known = {"parameters", "prompt", "negative_prompt", "Negative Prompt", "invokeai_metadata", "sd-metadata", "Dream"}
    for name in texts.keys() - known - {*_PRESENT}:
        if not _ORDINARY.fullmatch(name):
            yield _UNKNOWN, lambda name=name: _refuse(f"the text {name!r}")


def _any_reader(text: str, certain: bool = False) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield what reads a text whose place does not tell the tool; ``certain`` is whether a generator wrote it."""
    if not text.lstrip().startswith("{"):
        if certain or _SETTINGS.search(text):
            yield _WEB_UI, lambda: _web_ui(text)
        return
    try:
        data = _json(text)
    except _UnreadTextError as error:
        if certain:
            yield _UNKNOWN, lambda reason=str(error): _refuse(reason)
        return
    if "sui_image_params" in data:
        yield "SwarmUI", lambda: _value(data["sui_image_params"], "prompt")
    elif any(isinstance(node, dict) and "class_type" in node for node in data.values()):
        yield _COMFY, lambda: _Graph(data).prompt()
    elif isinstance(data.get("prompt"), dict):
        yield _COMFY, lambda: _Graph(data["prompt"]).prompt()
    elif "positive_prompt" in data:
        yield "InvokeAI", lambda: _value(data, "positive_prompt")
    elif "c" in data and data.keys() & {"uc", "sampler", "model"}:
        yield "Draw Things", lambda: _value(data, "c")
    elif data.get("Software") == "NovelAI" or "v4_prompt" in data or {"prompt", "uc"} <= data.keys():
        yield "NovelAI", lambda: _novelai(data)
    elif data.keys() & {"prompt", "Prompt", "full_prompt"}:
        tool = "Fooocus" if data.keys() & {"metadata_scheme", "full_prompt", "Fooocus V2 Expansion"} else _UNKNOWN
        yield tool, lambda: _value(data, "prompt") or _value(data, "Prompt") or _value(data, "full_prompt")
    elif certain:
        yield _UNKNOWN, lambda: _refuse("JSON without a prompt")


def _refuse(reason: str) -> NoReturn:
    raise _UnreadTextError(reason)


def _json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text, strict=False)
    except RecursionError:
        _refuse("JSON that is nested too deep")
    except ValueError:
        _refuse("damaged JSON")
    return data if isinstance(data, dict) else {}


def _value(data: Any, name: str) -> str:
    """Return a text of a mapping, or the texts of a list in it; empty where there is none."""
    value = data.get(name) if isinstance(data, dict) else None
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return _joined([text for text in texts if isinstance(text, str)])


def _joined(texts: list[str]) -> str:
    """Return different texts as one: encoders of one model often take the same text twice."""
    return ", ".join(dict.fromkeys(text.strip() for text in texts if text.strip()))


# The line of settings: it starts with the steps, or is at least three settings of which one is seed or sampler.
_SETTINGS = re.compile(
    r"^[ \t]*(?:Steps: \d+[ \t\r]*(?:,|$)|(?:[\w /-]{1,60}: [^,\n]+, ){2}[^\n]*\b(?:Seed|Sampler): )", re.MULTILINE
)


def _web_ui(text: str) -> str:
    settings = [match.start() for match in _SETTINGS.finditer(text)]
    if not settings:
        _refuse("a text without settings")
    lines = text[: settings[-1]].splitlines()
    return "\n".join(takewhile(lambda line: not line.lstrip().startswith("Negative prompt:"), lines))


def _invoke_2(texts: Mapping[str, str]) -> str:
    image = _json(texts.get("sd-metadata", "{}")).get("image")
    prompt = image.get("prompt") if isinstance(image, dict) else None
    if prompt is None:
        quoted = re.match(r'\s*"((?:[^"\\]|\\.)*)"', texts.get("Dream", ""))
        prompt = quoted[1] if quoted else ""
    parts = prompt if isinstance(prompt, list) else [{"prompt": prompt}]
    positive = [part for part in parts if isinstance(part, dict) and _number(part.get("weight", 1)) > 0]
    return re.sub(r"\[[^\[\]]*\]", " ", _joined([_value(part, "prompt") for part in positive]))


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 1


def _novelai(data: dict[str, Any]) -> str:
    if isinstance(data.get("Comment"), str):
        data = {"prompt": data.get("Description")} | _json(data["Comment"])
    whole = data.get("v4_prompt")
    caption = whole.get("caption") if isinstance(whole, dict) else None
    if not isinstance(caption, dict):
        return _value(data, "prompt")
    people = caption.get("char_captions")
    people = [_value(person, "char_caption") for person in people] if isinstance(people, list) else []
    return _joined([_value(caption, "base_caption") or _value(data, "prompt"), *people])


def _midjourney(text: str) -> str:
    text = text.partition("Job ID:")[0]
    # Images come before the prompt, parameters after it; some keyboards write two hyphens as a dash.
    text = re.split(r"(?:^|\s)(?:--|\u2014)[A-Za-z]", text, maxsplit=1)[0]
    return re.sub(r"^\s*(?:<?https?://\S+\s*)+", "", text)


# -- graphs of ComfyUI ---------------------------------------------------------------------------------------

# What an encoder of texts reads, by the names of its inputs.
_ENCODED = ("text", "text_g", "text_l", "clip_l", "clip_g", "t5xxl", "llama", "bert", "mt5xl", "qwen25_7b", "prompt",
            "user_prompt")  # fmt: skip
# What a node of texts holds or passes on, and what other nodes pass on. The second condition of a DualCFGGuider is the
# one between both prompts, and carries the negative one.
_TEXTS = ("populated_text", "text", "string", "value", "prompt", "positive", "Text", "STRING")
_PASSED = ("conditioning", "cond1", "guider", "basic_pipe", "pipe", "sdxl_tuple", "text_embeds", "positive")
_PARTS = re.compile(r"(?:conditioning|string|text)_?(?:\d{1,3}|to|from|[a-h])")
_TEXT_NODE = re.compile("text|string|prompt|primitive|literal|positive", re.IGNORECASE)
# Nodes whose text is made while the graph runs: it is not in the graph.
_MADE = re.compile(
    "llm|gpt|ollama|gemini|claude|florence|caption|tagger|interrog|generat|enhanc|translat|random|wildcard|schedule|"
    "regex|substring|replace",
    re.IGNORECASE,
)
# Which outputs of a node with both prompts are the positive and the negative one.
_PIPE_OUTPUTS = {"FromBasicPipe": (3, 4), "FromBasicPipe_v2": (4, 5)}


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
        """Return the positive prompt of the samplers behind the saved images; all of them must have the same."""
        behind = self._behind_saved()
        starts = [start for kind, inputs in behind if (start := self._start(kind, inputs)) is not None]
        # Nodes of services take the prompt themselves.
        starts = starts or [inputs["prompt"] for _, inputs in behind if "prompt" in inputs]
        if not starts:
            _refuse("a graph without a sampler that is read")
        prompts = {" ".join(self._text(start).split()) for start in starts}
        if len(prompts) > 1:
            _refuse("several prompts in one graph")
        return prompts.pop()

    def _behind_saved(self) -> list[tuple[str, dict[str, Any]]]:
        ends = [
            [name for name, (kind, _) in self._nodes.items() if word in kind.lower()] for word in ("save", "preview")
        ]
        seen, queue = set(), next(filter(None, ends), list(self._nodes))
        while queue:
            name = queue.pop()
            if name in seen or name not in self._nodes:
                continue
            seen.add(name)
            queue += [str(link[0]) for link in self._nodes[name][1].values() if _is_link(link)]
        return [node for name, node in self._nodes.items() if name in seen]

    def _start(self, kind: str, inputs: dict[str, Any]) -> Any:
        """Return what a sampler takes as its positive prompt; None for other nodes."""
        if "sampler" in kind.lower():
            return next((inputs[name] for name in ("guider", "positive", *_PASSED) if name in inputs), None)
        return inputs.get("positive") if inputs.keys() & {"latent_image", "seed", "noise_seed"} else None

    def _text(self, link: Any, role: str = "positive") -> str:
        """Return the text at the end of a link; ``role`` is the prompt that it is taken as behind a pair of both."""
        if isinstance(link, str):
            return link
        self._links += 1
        if self._links > _MAX_LINKS:
            _refuse("links in a circle, or too many")
        if not _is_link(link) or str(link[0]) not in self._nodes:
            _refuse("a link that leads nowhere")
        (kind, inputs), output = self._nodes[str(link[0])], link[1]
        lower = kind.lower()
        if kind == "ConditioningZeroOut":
            return ""
        if {"positive", "negative"} <= inputs.keys():
            role = _role(lower, output, role)
            return self._text(inputs[role], role)
        if kind in _PIPE_OUTPUTS:
            role = dict(zip(_PIPE_OUTPUTS[kind], ("positive", "negative"), strict=True)).get(output, role)
        if f"{role}_prompt" in inputs:
            return self._text(inputs[f"{role}_prompt"])
        if "textencode" in lower and inputs.keys() & {*_ENCODED}:
            return _joined([self._text(inputs[name]) for name in _ENCODED if name in inputs])
        parts = [name for name in inputs if _PARTS.fullmatch(name) and not isinstance(inputs[name], int | float)]
        if len(parts) > 1 and re.search("concat|join|combine|average", lower):
            texts = [self._text(inputs[name], role) for name in parts]
            if not _TEXT_NODE.search(kind):
                return _joined(texts)
            joined = str(inputs.get("delimiter", inputs.get("separator", ""))).join(filter(None, texts))
            if len(joined) > MAX_TEXT:
                _refuse("a text that is joined too often")
            return joined
        chosen = inputs.get(f"input{inputs.get('select')}")
        if chosen is None and isinstance(inputs.get("switch"), bool):
            chosen = inputs.get("on_true" if inputs["switch"] else "on_false")
        if chosen is not None:
            return self._text(chosen, role)
        if "populated_text" in inputs or (_TEXT_NODE.search(kind) and not _MADE.search(kind)):
            name = next((name for name in _TEXTS if isinstance(inputs.get(name), str | list)), "")
            if name:
                return self._text(inputs[name])
        names = inputs if "reroute" in lower else _PASSED
        passed = next((inputs[name] for name in names if _is_link(inputs.get(name))), None)
        if passed is None:
            _refuse(f"node {kind[:60]}")
        return self._text(passed, role)


def _is_link(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str | int) and isinstance(value[1], int)


def _role(kind: str, output: int, role: str) -> str:
    """Return which prompt an output of a node with both is: of one output, such as a guider's, the one looked for."""
    if re.search("pipe|guider", kind):
        return role
    outputs = ("", "positive", "negative") if re.search("loader|sampler", kind) else ("positive", "negative")
    return (outputs[output] if 0 <= output < len(outputs) else "") or role
