"""Steps and guidance that the authors of a model state, and distilled models, which need other ones than their family.

Sources are the code in model cards, of which keyword arguments are parsed and nothing is run; the number of steps in a
file's name; and a scheduler that is made for distilled models.
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
# Lines of code blocks that are no Python, and marks before lines of a session.
_SHELL, _SESSION = re.compile(r"^[ \t]*(?:[!%$]|pip ).*$", re.MULTILINE), re.compile(r"^(?:>>>|\.\.\.) ?", re.MULTILINE)
# Arguments of calls that make images of images, or a part of an image's steps.
_OTHER_CALLS = {"image", "strength", "denoising_start", "denoising_end"}
_MOST_CHARACTERS = 1_000_000
# Of LatentConsistencyModelPipeline in diffusers: with an embedded scale of guidance, and without guidance otherwise.
_LCM = {"steps": 4, "guidance": 8.5}


def with_stated(family: Family, files: PipelineFiles, name: str) -> Family:
    """Return the family of a model with what its authors state; what is not stated of a distilled one is ``unstated``.

    Cards of the models in ``hub/known.yaml`` are not read. Of a distilled LoRA, its card and the name of its file count
    alone. A variant that the table of families has states what its card does not.
    """
    values: dict[str, float] = {}
    sources: dict[str, str] = {}
    loras = [lora for lora in files.adapters if _DISTILLED.search(_last(lora))]
    words = [_DISTILLED.search(_last(one)) for one in loras]
    statements = [(_stated(lora, family), f"the card of {lora.name}") for lora in loras]
    if not loras and name not in registry.HUB["text-to-image"]:
        words = [_DISTILLED.search(_last(files.base))]
        statements = [(_stated(files.base, family), "its model card")]
        scheduler = "scheduler/scheduler_config.json"
        kind = files.pipeline.json(scheduler).get("_class_name") if scheduler in files.pipeline.files else ""
        if kind == "LCMScheduler":
            unet = files.pipeline.json("unet/config.json") if "unet/config.json" in files.pipeline.files else {}
            lcm = _LCM if unet.get("time_cond_proj_dim") else {**_LCM, "guidance": 1.0}
            statements.append((lcm, "its scheduler, LCMScheduler"))
    for statement, source in statements:
        sources |= {name: source for name in statement if name not in values}
        values = statement | values
    word = next((word.group().lower() for word in words if word), "")
    needed = ["steps"] * (family.steps is not None) + ["guidance"] * bool(family.argument)
    is_asked = bool(word and (loras or not family.variant))
    unstated = tuple(name for name in needed if is_asked and name not in values)
    return replace(family, distilled=word, unstated=unstated, sources=sources, **values, **dict.fromkeys(unstated))


def _last(files: ModelFiles) -> str:
    return model_names.base(files.name).rstrip("/\\").replace("\\", "/").rpartition("/")[2]


def _stated(files: ModelFiles, family: Family) -> dict[str, float]:
    """Return the steps and guidance that all examples of a model's card agree on, or the name of its file states."""
    stated: dict[str, set[float]] = {"steps": set(), "guidance": set()}
    for call in _calls(_card(files)):
        for argument, value in call.items():
            if argument == "num_inference_steps" and 1 <= value <= 1000 and value == int(value):
                stated["steps"].add(int(value))
            elif argument == family.argument and 0 <= value <= 100:
                stated["guidance"].add(float(value))
    if in_name := _STEPS.search(_last(files)):
        stated["steps"] = {int(in_name[1])}
    return {name: values.pop() for name, values in stated.items() if len(values) == 1}


def _card(files: ModelFiles) -> str:
    with contextlib.suppress(BiaslabError, OSError, ValueError):
        if "README.md" in files.files or (files.folder and (files.folder / "README.md").is_file()):
            # Of a download, the folder holds what is loaded alone.
            files = replace(files, folder=None) if files.repository else files
            return reading.text(files.file("README.md"))[:_MOST_CHARACTERS]
    return ""


def _calls(card: str) -> Iterator[dict[str, float]]:
    """Yield the numbers that calls in a card's code are given by name."""
    for code in _CODE.findall(card):
        # Authors write what they like.
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.parse(textwrap.dedent(_SHELL.sub("", _SESSION.sub("", code))))
            for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
                given = {k.arg: getattr(k.value, "value", None) for k in call.keywords if k.arg}
                if not _OTHER_CALLS & given.keys():
                    yield {name: value for name, value in given.items() if type(value) in (int, float)}
