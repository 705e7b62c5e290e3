"""Distilled and merged models use the steps and guidance that their authors state, or require settings."""

import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from tiny_checkpoints import lora

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.generation import families, stated
from biaslab.generation.generator import load
from biaslab.generation.models import DiffusersModel
from biaslab.generation.settings import GenerationSettings

CARD = """---
license: openrail++
---
Use {steps} steps.

```py
!pip install diffusers
import torch
pipe = AutoPipelineForText2Image.from_pretrained("x")
image = pipe(prompt, num_inference_steps={steps}, guidance_scale={guidance}).images[0]
```
"""


@pytest.fixture
def model(hub, folders, tmp_path):
    """Return a function that serves a pipeline under a name, with a card, and returns the model."""

    def made(name, card="", family="sdxl", scheduler="", **settings):
        folder = tmp_path / name.replace("/", "-")
        shutil.copytree(folders(family), folder)
        if card:
            (folder / "README.md").write_text(card)
        if scheduler:
            path = folder / "scheduler/scheduler_config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | {"_class_name": scheduler}))
        hub.serve(name, folder)
        return DiffusersModel(name, GenerationSettings(**settings), device="cpu")

    return made


def own_values(model):
    model.look_up()
    return {name: value for name, (value, _) in model.own_settings().items()}


def test_distilled_model_uses_settings_of_its_card(model):
    lightning = model("Lykon/dreamshaper-xl-lightning", CARD.format(steps=4, guidance=2))
    assert own_values(lightning) == {"steps": 4, "guidance_scale": 2}
    assert "4 steps, guidance_scale 2" in lightning.describe_settings()
    assert "steps from its model card; guidance_scale from its model card" in lightning.describe_settings()
    assert {source for _, source in lightning.own_settings().values()} == {"its model card"}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("RunDiffusion/Juggernaut-XL-Lightning", "lightning"),
        ("someone/hyper-sd15", "hyper"),
        ("someone/realistic-vision-lcm", "lcm"),
        ("someone/merge-8step", "8step"),
        ("Lykon/dreamshaper-xl-v2-turbo", "turbo"),
    ],
)
def test_distilled_model_without_card_is_refused(model, name, word):
    silent = model(name, "---\nlicense: mit\n---\nVery fast.")
    asks = "Set generation.steps and generation.guidance_scale" if word != "8step" else "Set generation.guidance_scale"
    with pytest.raises(ParameterError, match=rf"seems to be distilled \({word}\).*{asks}"):
        silent.look_up()


def test_distilled_model_accepts_settings_of_run(model):
    configured = model("someone/xl-lightning", steps=4, guidance_scale=0.0)
    configured.look_up()
    assert "4 steps, guidance_scale 0" in configured.describe_settings()
    assert "steps from the settings; guidance_scale from the settings" in configured.describe_settings()
    partly = model("someone/xl-lightning-2", steps=4)
    with pytest.raises(ParameterError, match=r"Set generation\.guidance_scale\.$"):
        partly.look_up()


def test_card_with_conflicting_steps_is_refused(model):
    conflicting = CARD.format(steps=4, guidance=0) + CARD.format(steps=8, guidance=0)
    with pytest.raises(ParameterError, match=r"Set generation\.steps\.$"):
        model("someone/sdxl-lightning", conflicting).look_up()


@pytest.mark.parametrize("name", ["someone/merge-of-many", "someone/hyperrealism", "someone/flashback-xl"])
def test_merged_model_uses_settings_of_its_family(model, name):
    merged = model(name)
    assert own_values(merged) == {"steps": 50, "guidance_scale": 5}
    assert "steps from its family, StableDiffusionXLPipeline" in merged.describe_settings()


def test_merged_model_uses_settings_of_its_card(model):
    code = "---\nlicense: mit\n---\n```python\nimage = pipe(\n    prompt=prompt,\n    num_inference_steps=30,\n)\n"
    broken_code = "pipe(prompt, image=image, strength=0.5, num_inference_steps=2)\nrun(unclosed\n```"
    assert own_values(model("someone/merge", code + broken_code.replace("run(unclosed\n", ""))) == {
        "steps": 30,
        "guidance_scale": 5,
    }
    # Code that cannot be parsed states nothing.
    assert own_values(model("someone/merge-2", code + broken_code)) == {"steps": 50, "guidance_scale": 5}


def test_lcm_scheduler_sets_few_steps(model):
    consistent = model("someone/fast-photos", family="sd1", scheduler="LCMScheduler")
    assert own_values(consistent) == {"steps": 4, "guidance_scale": 1}
    assert "steps from its scheduler, LCMScheduler" in consistent.describe_settings()


def test_distilled_lora_uses_its_card_and_file_name(hub, folders, model, tmp_path):
    base = model("someone/plain", family="sd1")
    assert own_values(base) == {"steps": 50, "guidance_scale": 7.5}
    for card in (CARD.format(steps=4, guidance=1.5), ""):
        folder = tmp_path / f"lora{bool(card)}"
        lora(tmp_path / "someone-plain", folder / "sd15-hyper-sd-8step.safetensors")
        (folder / "README.md").write_text(card)
        hub.serve("someone/loras", folder)
        name = "someone/plain+someone/loras/sd15-hyper-sd-8step.safetensors"
        combined = DiffusersModel(name, GenerationSettings(), device="cpu")
        if card:
            # Its card has an example of another file; the file's name has its own number of steps.
            assert own_values(combined) == {"steps": 8, "guidance_scale": 1.5}
        else:
            hub.repositories.pop("someone/loras")


def test_loaded_model_describes_sources_of_settings(model):
    model("someone/xl-lightning", CARD.format(steps=2, guidance=1.5))
    description = load(
        "someone/xl-lightning", GenerationSettings(height=32, width=32, guidance_scale=2.0)
    ).description()
    assert (description["steps"], description["guidance_scale"]) == (2, 2)
    assert description["sources"] == {"steps": "its model card", "guidance_scale": "the settings"}


def test_image_digest_depends_on_effective_settings(model, tmp_path):
    prompts = pd.DataFrame({"prompt_id": ["p"], "text": ["a nurse"], "n_images": [1]})
    cache = ResultCache(tmp_path / "store")
    made = model("someone/xl-lightning", CARD.format(steps=4, guidance=2))
    digests = set()
    for settings in ({}, {"steps": 6}, {"steps": 8}):
        for stated_steps in (4, 2):
            made._settings = GenerationSettings(**settings)
            made._family = replace(made._family, steps=stated_steps)
            digests.add(made._images(prompts, seed=1, cache=cache)._facts.digest)
    assert len(digests) == 6


def test_unknown_family_describes_its_settings():
    family = families.Family("OtherPipeline", steps=25, guidance=4.0, argument="guidance_scale")
    text = family.describe_settings(GenerationSettings(), "a/b")
    assert "steps from OtherPipeline, because its family is unknown" in text


@pytest.mark.parametrize(
    "card",
    ["", "```python\n" + "(" * 10_000 + "\n```", "```py\n\0\n```", "```python\npipe(num_inference_steps=True)\n```"],
)
def test_card_without_parsable_call_states_nothing(card):
    assert [call for call in stated._find_calls(card) if call] == []
