"""Steps and guidance stated by a model's authors, and distilled models, whose values differ from their family's.

Sources are the code in model cards, whose keyword arguments are parsed without running it; the number of steps in a
file's name; and a scheduler for distilled models.
"""

from __future__ import annotations

import ast
import contextlib
import re
import textwrap
from collections.abc import Iterator
from dataclasses import replace

from biaslab.errors import BiaslabError
from biaslab.generation.families import Family
from biaslab.generation.loading import PipelineFiles
from biaslab.hub import registry
from biaslab.hub.model_files import ModelFiles
from biaslab.io import model_names, reading

# Words in names of models that were distilled into few steps, and the end of a name such as ``8steps``.
_DISTILLED = re.compile(
    r"lightning|turbo|distill|sdxs|(?<![a-z])(?:lcm|dmd2?|tcd|pcm|flash|nitro|hyper(?=[-_ ]?sd))(?![a-z])"
    r"|(?<!\d)[1-9]\d?[-_ ]?steps?(?![a-z])",
    re.IGNORECASE,
)
_STEPS = re.compile(r"(?<!\d)([1-9]\d?)[-_ ]?steps?(?![a-z])", re.IGNORECASE)
_CODE = re.compile(r"^[ \t]*```(?:py\w*)?[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL | re.IGNORECASE)
# Lines of code blocks that are not Python, and prompts of interactive sessions.
_SHELL, _SESSION = re.compile(r"^[ \t]*(?:[!%$]|pip ).*$", re.MULTILINE), re.compile(r"^(?:>>>|\.\.\.) ?", re.MULTILINE)
# Arguments of calls that generate images from images, or run only some of the steps.
_OTHER_CALLS = {"image", "strength", "denoising_start", "denoising_end"}
_MAX_CHARACTERS = 1_000_000
# Defaults of LatentConsistencyModelPipeline in diffusers with an embedded guidance scale; others have no guidance.
_LCM = {"steps": 4, "guidance": 8.5}


def add_stated_settings(family: Family, files: PipelineFiles, name: str) -> Family:
    """Return the family of a model with values stated by its authors; a distilled one may have ``unstated`` values.

    Cards of the models in ``hub/known.yaml`` are not read. For a distilled LoRA, only its card and file name count. A
    variant in the table of families provides values that its card lacks.
    """
    values: dict[str, float] = {}
    sources: dict[str, str] = {}
    loras = [lora for lora in files.adapters if _DISTILLED.search(_base_name(lora))]
    matches = [_DISTILLED.search(_base_name(adapter)) for adapter in loras]
    statements = [(_read_card_settings(lora, family), f"the card of {lora.name}") for lora in loras]
    if not loras and name not in registry.HUB["text-to-image"]:
        matches = [_DISTILLED.search(_base_name(files.base))]
        statements = [(_read_card_settings(files.base, family), "its model card")]
        scheduler = "scheduler/scheduler_config.json"
        kind = files.pipeline.json(scheduler).get("_class_name") if scheduler in files.pipeline.files else ""
        if kind == "LCMScheduler":
            unet = files.pipeline.json("unet/config.json") if "unet/config.json" in files.pipeline.files else {}
            lcm = _LCM if unet.get("time_cond_proj_dim") else {**_LCM, "guidance": 1.0}
            statements.append((lcm, "its scheduler, LCMScheduler"))
    for statement, source in statements:
        sources |= {name: source for name in statement if name not in values}
        values = statement | values
    word = next((word.group().lower() for word in matches if word), "")
    setting_names = ["steps"] * (family.steps is not None) + ["guidance"] * bool(family.argument)
    is_asked = bool(word and (loras or not family.variant))
    unstated = tuple(name for name in setting_names if is_asked and name not in values)
    return replace(family, distilled=word, unstated=unstated, sources=sources, **values, **dict.fromkeys(unstated))


def _base_name(files: ModelFiles) -> str:
    return model_names.base(files.name).rstrip("/\\").replace("\\", "/").rpartition("/")[2]


def _read_card_settings(files: ModelFiles, family: Family) -> dict[str, float]:
    """Return the steps and guidance on which all examples in a model's card agree, or which its file name states."""
    values_by_name: dict[str, set[float]] = {"steps": set(), "guidance": set()}
    for call in _find_calls(_read_card(files)):
        for argument, value in call.items():
            if argument == "num_inference_steps" and 1 <= value <= 1000 and value == int(value):
                values_by_name["steps"].add(int(value))
            elif argument == family.argument and 0 <= value <= 100:
                values_by_name["guidance"].add(float(value))
    if match := _STEPS.search(_base_name(files)):
        values_by_name["steps"] = {int(match[1])}
    return {name: values.pop() for name, values in values_by_name.items() if len(values) == 1}


def _read_card(files: ModelFiles) -> str:
    with contextlib.suppress(BiaslabError, OSError, ValueError):
        if "README.md" in files.files or (files.folder and (files.folder / "README.md").is_file()):
            # The folder of a download contains only loaded files.
            files = replace(files, folder=None) if files.repository else files
            return reading.text(files.file("README.md"))[:_MAX_CHARACTERS]
    return ""


def _find_calls(card: str) -> Iterator[dict[str, float]]:
    """Yield the numeric keyword arguments of each call in a card's code."""
    for code in _CODE.findall(card):
        # Code blocks may have any content.
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.parse(textwrap.dedent(_SHELL.sub("", _SESSION.sub("", code))))
            for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
                arguments = {k.arg: getattr(k.value, "value", None) for k in call.keywords if k.arg}
                if not _OTHER_CALLS & arguments.keys():
                    yield {name: value for name, value in arguments.items() if type(value) in (int, float)}
