"""Texts that tools write into images, and the prompts in them."""

import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from biaslab.io import image_texts
from biaslab.io.image_texts import ImageText, read_text

ST = "Steps: 20, Sampler: Euler a, CFG scale: 7, Seed: 1, Size: 64x64, Model: x"
NURSE = "a photo of a nurse"


def save(path, texts=None, **options):
    """Write an image of eight pixels a side, as PNG with texts by their keywords."""
    if texts is not None:
        options["pnginfo"] = info = PngInfo()
        for name, text in texts.items():
            (info.add_itxt if name.startswith("XML:") else info.add_text)(name, text)
    Image.fromarray(np.full((8, 8, 3), 200, np.uint8)).save(path, **options)
    return path


def text_of(tmp_path, **texts):
    texts_written = {name: text if isinstance(text, str) else json.dumps(text) for name, text in texts.items()}
    return read_text(save(tmp_path / "a.png", texts_written))


def node(kind, **inputs):
    return {"class_type": kind, "inputs": inputs}


# -- the web UI and its relatives ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        (f"a nurse\nNegative prompt: ugly, man\n{ST}", "a nurse"),
        (f"Negative prompt: ugly, man, male\n{ST}", ""),
        (ST, ""),
        (f"\nNegative prompt: ugly, man, male\n{ST}", ""),
        (f"a nurse\r\nNegative prompt: ugly\r\n{ST}", "a nurse"),
        (f"a nurse,\nportrait\nNegative prompt: ugly\nman\n{ST}", "a nurse, portrait"),
        (f"a nurse <lora:style:0.8>\n{ST}", "a nurse"),
        (f"<lora:style:0.8>\nNegative prompt: man\n{ST}", ""),
        (f"a nurse\nNegative prompt: ugly\n{ST}\nTemplate: a {{nurse|doctor}}\nNegative Template: ugly", "a nurse"),
        (f"a nurse\n{ST}\nTemplate: a {{nurse|doctor}}", "a nurse"),
        (f"dance lesson. Steps: one two\nNegative prompt: ugly\n{ST}", "dance lesson. Steps: one two"),
        (f"Steps: 1, 2, 3 of a dance\n{ST}", "Steps: 1, 2, 3 of a dance"),
        # SD.Next may begin its settings with others.
        ("a nurse\nNegative prompt: man\nSize: 64x64, Seed: 1, Sampler: Euler, App: SD.Next", "a nurse"),
        (f"{{nurse|doctor}} at work\n{ST}", "{nurse|doctor} at work"),
        ("a text without settings", ""),
    ],
)
def test_web_ui_text_gives_positive_prompt_only(tmp_path, text, prompt):
    read = text_of(tmp_path, parameters=text)
    assert (read.prompt, read.tool) == (prompt, "Stable Diffusion web UI")
    assert bool(read.problem) == (not prompt)


@pytest.mark.parametrize("encoding", ["utf-16-be", "utf-16-le", "utf-8"])
@pytest.mark.parametrize("ending", ["jpg", "webp", "avif"])
@pytest.mark.parametrize("prompt", [NURSE, "一位护士的照片"])
def test_exif_comment_in_any_encoding_gives_prompt(tmp_path, encoding, ending, prompt):
    exif = Image.Exif()
    exif[0x0131] = "a program"
    begin = b"\0" * 8 if encoding == "utf-8" else b"UNICODE\0"
    exif.get_ifd(0x8769)[0x9286] = begin + f"{prompt}\nNegative prompt: man\n{ST}".encode(encoding)
    assert read_text(save(tmp_path / f"a.{ending}", exif=exif)).prompt == prompt


# -- other tools -----------------------------------------------------------------------------------------

COMMENT = {"prompt": NURSE, "uc": "man", "steps": 28}
V4 = {"caption": {"base_caption": NURSE, "char_captions": [{"char_caption": "smiling"}]}}
XMP = "<x><{0}><rdf:Alt><rdf:li xml:lang='x-default'>{1}</rdf:li></rdf:Alt></{0}></x>"
DRAW_THINGS = '{"c": "a photo of a nurse", "uc": "man", "sampler": "DPM++"}'.replace('"', "&quot;")
SD_METADATA = {"model": "stable diffusion", "image": {"prompt": [{"prompt": f"{NURSE} [man, ugly]", "weight": 1.0}]}}


@pytest.mark.parametrize(
    ("tool", "texts"),
    [
        ("SwarmUI", {"parameters": {"sui_image_params": {"prompt": NURSE, "negativeprompt": "man"}}}),
        ("Fooocus", {"parameters": {"prompt": NURSE, "negative_prompt": "man", "metadata_scheme": "fooocus"}}),
        ("InvokeAI", {"invokeai_metadata": {"positive_prompt": NURSE, "negative_prompt": "man"}}),
        ("InvokeAI", {"invokeai_metadata": {"positive_prompt": NURSE}, "invokeai_graph": "{}"}),
        ("InvokeAI", {"sd-metadata": SD_METADATA, "Dream": '"other"'}),
        ("InvokeAI", {"Dream": f'"{NURSE} [man, ugly]" -s 50 -S 7 -W 512 -H 512 -C 7.5 -A k_lms'}),
        ("NovelAI", {"Software": "NovelAI", "Description": NURSE, "Comment": COMMENT}),
        ("NovelAI", {"Software": "NovelAI", "Description": NURSE}),
        ("NovelAI", {"Software": "NovelAI", "Description": NURSE, "Comment": {"uc": "man", "steps": 28}}),
        ("Midjourney", {"Description": f"{NURSE} --no man --v 6.1 Job ID: 0000-0000", "Author": "somebody"}),
        ("Midjourney", {"Description": f"https://s.mj.run/x {NURSE} --ar 3:2 Job ID: 0000"}),
        ("Midjourney", {"XML:com.adobe.xmp": XMP.format("dc:description", f"{NURSE} --v 7 Job ID: 1")}),
        ("Draw Things", {"XML:com.adobe.xmp": XMP.format("exif:UserComment", DRAW_THINGS)}),
    ],
)
def test_other_tools_text_gives_positive_prompt_and_tool(tmp_path, tool, texts):
    assert text_of(tmp_path, **texts) == ImageText(NURSE, tool)


def test_novelai_people_are_part_of_the_prompt(tmp_path):
    read = text_of(tmp_path, Software="NovelAI", Description=NURSE, Comment=COMMENT | {"v4_prompt": V4})
    assert read.prompt == f"{NURSE}, smiling"


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"invokeai_metadata": {"negative_prompt": "man"}}, ("InvokeAI", "JSON without a prompt")),
        ({"invokeai_metadata": {"positive_prompt": ""}}, ("InvokeAI", "no positive prompt")),
        ({"parameters": {"sui_image_params": {"negativeprompt": "man"}}}, ("SwarmUI", "no positive prompt")),
        ({"parameters": "{broken"}, ("Stable Diffusion web UI", "damaged JSON")),
        ({"workflow": "{}"}, ("ComfyUI", "a workflow without the executed graph")),
        ({"prompt": "{"}, ("ComfyUI", "damaged JSON")),
        ({"sd_tool_9": "a nurse"}, ("unknown tool", "the text 'sd_tool_9'")),
        # Programs and cameras write these: no tool that generates images is behind them.
        ({"Software": "GIMP", "Comment": "my dog", "Description": "a dog"}, ("", "")),
        ({}, ("", "")),
    ],
)
def test_text_without_readable_prompt_is_named_by_kind(tmp_path, texts, problem):
    read = text_of(tmp_path, **texts)
    assert (read.tool, read.problem) == problem and read.prompt == ""


# -- graphs of ComfyUI -----------------------------------------------------------------------------------

CLIP = node("CLIPTextEncode", text="a nurse", clip=["11", 0])
BAD = node("CLIPTextEncode", text="man")
SAMPLER = node("KSampler", positive=["6", 0], negative=["7", 0], latent_image=["5", 0])
GUIDED = node("SamplerCustomAdvanced", guider=["22", 0], noise=["25", 0])
PAIR = {"positive": ["6", 0], "negative": ["7", 0]}
GRAPHS = {
    "flux template": {
        "6": CLIP,
        "13": GUIDED,
        "22": node("BasicGuider", model=["30", 0], conditioning=["26", 0]),
        "26": node("FluxGuidance", guidance=3.5, conditioning=["6", 0]),
    },
    "CFGGuider": {"6": CLIP, "7": BAD, "13": GUIDED, "22": node("CFGGuider", cfg=4, **PAIR)},
    "DualCFGGuider": {
        "6": CLIP,
        "7": BAD,
        "13": GUIDED,
        "22": node("DualCFGGuider", cond1=["6", 0], cond2=["7", 0], negative=["7", 0]),
    },
    "CLIPTextEncodeFlux": {"6": node("CLIPTextEncodeFlux", clip_l="a nurse", t5xxl="a nurse"), "7": BAD, "3": SAMPLER},
    "Qwen": {"6": node("TextEncodeQwenImageEditPlus", prompt="a nurse", image1=["1", 0]), "7": BAD, "3": SAMPLER},
    "Lumina": {"6": node("CLIPTextEncodeLumina2", system_prompt="superior", user_prompt="a nurse"), "3": SAMPLER},
    "concatenated": {
        "1": node("StringConcatenate", string_a="a", string_b=["2", 0], delimiter=" "),
        "2": node("PrimitiveStringMultiline", value="nurse"),
        "6": node("CLIPTextEncode", text=["1", 0]),
        "7": BAD,
        "3": SAMPLER,
    },
    "zero-out": {"6": CLIP, "7": node("ConditioningZeroOut", conditioning=["6", 0]), "3": SAMPLER},
    # A node with both outputs: the second one is the negative prompt.
    "control network": {
        "6": CLIP,
        "7": BAD,
        "9": node("ControlNetApplyAdvanced", **PAIR),
        "3": node("KSampler", positive=["9", 0], negative=["9", 1]),
    },
    "wired the other way round": {
        "6": BAD,
        "7": CLIP,
        "9": node("ControlNetApplyAdvanced", **PAIR),
        "3": node("KSampler", positive=["9", 1], negative=["9", 0]),
    },
    "efficient loader": {
        "1": node("Efficient Loader", positive="a nurse", negative="man"),
        "3": node("KSampler (Efficient)", positive=["1", 1], negative=["1", 2]),
    },
    "Wan": {
        "1": node("WanVideoTextEncode", positive_prompt="a nurse", negative_prompt="man"),
        "3": node("WanVideoSampler", text_embeds=["1", 0]),
    },
    "two samplers, one prompt": {"6": CLIP, "7": BAD, "3": SAMPLER, "4": SAMPLER},
    # The other sampler is not behind the saved image.
    "a branch that is not saved": {
        "6": CLIP,
        "7": BAD,
        "3": SAMPLER,
        "8": node("VAEDecode", samples=["3", 0]),
        "9": node("SaveImage", images=["8", 0]),
        "4": node("KSampler", positive=["7", 0]),
    },
    "wildcards as filled in": {
        "6": node("ImpactWildcardEncode", wildcard_text="a __job__", populated_text="a nurse"),
        "3": SAMPLER,
    },
    "node of a service": {
        "1": node("FluxProUltraImageNode", prompt="a nurse"),
        "2": node("SaveImage", images=["1", 0]),
    },
}


@pytest.mark.parametrize("name", GRAPHS)
def test_comfyui_graph_is_read_from_its_sampler(tmp_path, name):
    assert text_of(tmp_path, prompt=GRAPHS[name]) == ImageText("a nurse", "ComfyUI")


def test_comfyui_combined_texts_are_joined_once(tmp_path):
    graph = {
        "6": CLIP,
        "7": node("CLIPTextEncode", text="portrait"),
        "8": node("ConditioningCombine", conditioning_1=["6", 0], conditioning_2=["7", 0]),
        "9": node("ConditioningConcat", conditioning_to=["8", 0], conditioning_from=["8", 0]),
        "3": node("KSampler", positive=["9", 0]),
    }
    assert text_of(tmp_path, prompt=graph).prompt == "a nurse, portrait"


def chain(n):
    """Return a graph in which each text is joined of two copies of the one before."""
    graph = {str(k): node("StringConcatenate", string_a=[str(k - 1), 0], string_b=[str(k - 1), 0]) for k in range(1, n)}
    return graph | {"0": node("PrimitiveString", value="x"), "s": node("KSampler", positive=[str(n - 1), 0])}


@pytest.mark.parametrize(
    ("graph", "problem"),
    [
        ({"6": CLIP, "7": BAD, "3": SAMPLER, "4": node("KSampler", positive=["7", 0])}, "several prompts in one graph"),
        ({"3": node("KSampler", positive=["3", 0])}, "circular or "),
        ({"1": node("Reroute", value=["1", 0]), "3": node("KSampler", positive=["1", 0])}, "circular or "),
        ({"3": node("KSampler", positive=["9", 0])}, "a broken link"),
        ({"6": node("ConditioningZeroOut", conditioning=["7", 0]), "7": CLIP, "3": SAMPLER}, "no positive prompt"),
        ({"6": node("OllamaGenerate", prompt="describe a man"), "3": SAMPLER}, "the unsupported node OllamaGenerate"),
        ({"6": node("CLIPTextEncode", text=["1", 0]), "1": node("DPRandomGenerator", text="a __job__"), "3": SAMPLER},
         "the unsupported node DPRandomGenerator"),
        ({"6": CLIP}, "a graph without a supported sampler"),
        ({"nodes": [], "links": []}, "JSON without a prompt"),
        (chain(60), "circular or "),
    ],
)  # fmt: skip
def test_comfyui_graph_without_one_known_prompt_is_not_read(tmp_path, graph, problem):
    read = text_of(tmp_path, prompt=graph)
    assert read.prompt == "" and read.tool == "ComfyUI" and read.problem.startswith(problem)


@pytest.mark.parametrize("place", ["exif", "png"])
def test_comfyui_graph_in_webp_tags_and_next_to_a_long_workflow(tmp_path, place):
    graph = json.dumps(GRAPHS["CFGGuider"])
    if place == "exif":
        exif = Image.Exif()
        exif[0x0110], exif[0x010F] = f"prompt:{graph}", "workflow:{}"
        file = save(tmp_path / "a.webp", exif=exif)
    else:
        file = save(tmp_path / "a.png", {"workflow": "x" * 900_000, "prompt": graph})
    assert read_text(file).prompt == "a nurse"


# -- hostile files ---------------------------------------------------------------------------------------


def with_chunks(path, *chunks):
    """Write a PNG with chunks of a kind and data after its header."""
    raw = save(path).read_bytes()
    chunk_bytes = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    path.write_bytes(raw[:33] + b"".join(chunk_bytes) + raw[33:])
    return path


def test_text_above_the_bound_is_counted_and_not_read(tmp_path):
    long = b"parameters\0" + b"word " * 500_000 + ST.encode()
    compressed = b"parameters\0\0" + zlib.compress(b"word " * 5_000_000)
    for data, kind in ((long, b"tEXt"), (compressed, b"zTXt")):
        read = read_text(with_chunks(tmp_path / f"{kind.decode()}.png", (kind, data)))
        assert read == ImageText("", "Stable Diffusion web UI", "a text of more than 2,000,000 bytes")


def test_prompt_above_the_bound_is_counted_and_not_read(tmp_path):
    read = text_of(tmp_path, parameters="word " * 3_000 + "\n" + ST)
    assert read == ImageText("", "Stable Diffusion web UI", "a prompt of more than 10,000 characters")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 900_000,
        '{"a":' * 300_000,
        '"' + '\\"' * 400_000,
        "<dc:description" * 60_000,
        "<" * 900_000,
        "[" * 900_000 + "]",
        ("a: b, " * 100_000 + "\n") * 2,
        "<lora:" * 150_000 + "\n" + ST,
        "https://" * 100_000 + " Job ID: 1",
    ],
)
def test_text_made_to_be_slow_ends_soon_without_error(tmp_path, text):
    names = ("parameters", "prompt", "invokeai_metadata", "Dream", "sd-metadata", "Description", "XML:com.adobe.xmp")
    file = save(tmp_path / "a.png")
    chunks = [(b"tEXt", name.encode() + b"\0" + text.encode()) for name in names]
    assert read_text(with_chunks(file, *chunks)).prompt == ""


@pytest.mark.parametrize("depth", [100, 290, 900])
def test_deep_texts_and_graphs_end_without_error(tmp_path, depth):
    nested = json.dumps({"sui_image_params": {"prompt": 0}}).replace("0", "[" * depth + '"a nurse"' + "]" * depth)
    assert text_of(tmp_path, parameters=nested).prompt == ""
    graph = {str(k): node("StringConcatenate", string_a=[str(k - 1), 0], string_b="x") for k in range(1, depth)}
    graph |= {"0": node("PrimitiveString", value="a"), "s": node("KSampler", positive=[str(depth - 1), 0])}
    read = text_of(tmp_path, prompt=graph)
    # 300 links are followed at most.
    assert read.prompt == ("a" + "x" * (depth - 1) if depth < 300 else "") and bool(read.problem) == (depth > 300)


def test_damaged_and_foreign_files_have_no_text(tmp_path):
    content = save(tmp_path / "a.png", {"parameters": f"{NURSE}\n{ST}"}).read_bytes()
    for name, data in (
        ("no.png", b"no image"),
        ("empty.jpg", b""),
        ("cut.png", content[:40]),
        ("cut.webp", b"RIFF\0\0"),
    ):
        (tmp_path / name).write_bytes(data)
        assert read_text(tmp_path / name) == ImageText()
    # Text before the damage is read.
    (tmp_path / "pixels.png").write_bytes(content[:-30])
    assert read_text(tmp_path / "pixels.png").prompt == NURSE


def test_text_is_read_again_after_the_file_changes(tmp_path):
    file = save(tmp_path / "a.png", {"parameters": f"{NURSE}\n{ST}"})
    assert read_text(file).prompt == NURSE
    save(file, {"parameters": f"a chef at work\n{ST}"})
    assert read_text(file).prompt == "a chef at work"
    assert image_texts.MAX_TEXT == 2_000_000
