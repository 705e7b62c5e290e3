"""Shared forms of models, local and on the hub: single files, LoRAs on a model, variants, quantised weights."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny_checkpoints as tiny
import tiny_pipelines
from safetensors.numpy import load_file, save_file

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.generation import generator, loading
from biaslab.generation.generator import load
from biaslab.generation.models import DiffusersModel
from biaslab.generation.settings import GenerationSettings
from biaslab.hub import checkpoints, model_files
from biaslab.hub import huggingface as hub_names
from biaslab.io import model_names

NAME, BASE, LORA = "owner/mix", "stable-diffusion-v1-5/stable-diffusion-v1-5", "owner/lora"
LORA_FILE = "pytorch_lora_weights.safetensors"
FEW_STEPS = GenerationSettings(steps=2, dtype="float32")


@pytest.fixture
def files(folders, tmp_path):
    """Return a folder with the files of a pipeline."""
    return Path(shutil.copytree(folders("sd1"), tmp_path / "files"))


def image(name, settings=FEW_STEPS) -> np.ndarray:
    (made,) = load(str(name), settings).images(["a photo of a nurse"], [("p", 0)], seed=3)
    return made


def model(name, settings=FEW_STEPS, **options) -> DiffusersModel:
    return DiffusersModel(str(name), settings, device="cpu", **options)


def without_weights(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to, ignore=shutil.ignore_patterns("*.safetensors")))


def check_refused(name, message, **settings):
    with pytest.raises(ParameterError, match=message):
        model(name, FEW_STEPS.with_changes(**settings)).look_up()
    with pytest.raises(ParameterError, match=message):
        load(str(name), FEW_STEPS.with_changes(**settings))


needs_peft = pytest.mark.skipif(find_spec("peft") is None, reason="LoRAs need the package peft")


# -- one file ----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_single_file_checkpoint_matches_its_pipeline(files, tmp_path):
    # Its configurations are next to it.
    file = tiny.one_file(files, without_weights(files, tmp_path / "mine") / "my-mix.safetensors")
    assert np.array_equal(image(file), image(files))
    assert model(file).label == "my-mix"
    # A marker tensor declares velocity prediction.
    save_file(load_file(file) | {"v_pred": np.zeros(0, np.float32)}, file)
    schedule = files / "scheduler" / "scheduler_config.json"
    schedule.write_text(json.dumps(json.loads(schedule.read_text()) | {"prediction_type": "v_prediction"}))
    assert np.array_equal(image(file), image(files))


@pytest.mark.long
def test_single_file_on_hub_uses_base_model_configurations(hub, files, tmp_path):
    file = tiny.one_file(files, tmp_path / "mix.safetensors")
    commit = hub.serve(NAME, tmp_path, lambda path: path == file.name).commit
    base = hub.serve(BASE, files).commit
    name = f"{NAME}/mix.safetensors"
    made_by = model(name)
    result = made_by.look_up()
    # Only the header of its weights was requested.
    assert hub.fetched() == 0
    assert [(one.repository, one.commit) for one in result] == [(NAME, commit), (BASE, base)]
    assert result[0].download == result[0].size == file.stat().st_size and result[1].size == 0
    assert f"it is assumed to be a model like {BASE}" in result[0].remarks[0]
    assert np.array_equal(image(name), image(files))
    # No weights of the base model are fetched.
    assert hub.fetched(of=BASE) == 0 and made_by.look_up()[0].download == 0
    assert load(name, FEW_STEPS).description()["revision"] == commit
    assert {NAME: commit, BASE: base}.items() <= hub_names.commits().items()
    assert made_by.digest == f"{NAME}@{commit}/mix.safetensors by {BASE}@{base}"


@pytest.mark.long
def test_local_single_file_uses_hub_configurations_at_commit(hub, files, tmp_path, monkeypatch):
    file = tiny.one_file(files, tmp_path / "mix.safetensors")
    check_refused(file, rf"needs the configurations of {BASE}: .*put the file into a folder with model_index\.json")
    base = hub.serve(BASE, files).commit
    digest = model(file).digest
    assert digest.endswith(f" by {BASE}@{base}") and np.array_equal(image(file), image(files))
    weights = load_file(file)
    save_file({k: v * 1.01 for k, v in weights.items()}, file)
    assert model(file).digest != digest
    other = {"tokenizer_name_or_path": "owner/other"}
    (hub_names.cache_folder(BASE) / "snapshots" / base / "sentence_bert_config.json").write_text(json.dumps(other))
    with pytest.raises(ParameterError, match=r"contains sentence_bert_config\.json, .* another model"):
        load(str(file), FEW_STEPS)


@pytest.mark.long
def test_single_file_in_repository_uses_its_pipeline(hub, files, tmp_path):
    tiny.one_file(files, files / "mix.safetensors")
    hub.serve(NAME, files)
    assert np.array_equal(image(f"{NAME}/mix.safetensors"), image(NAME))
    assert {one.repository for one in model(f"{NAME}/mix.safetensors").look_up()} == {NAME}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (["lora_unet_down_blocks_0.lora_down.weight"], r"is a LoRA.* trained on: BASE\+"),
        (["first_stage_model.encoder.weight"], "contains no denoising network and no text encoder"),
        (["model.diffusion_model.input_blocks.0.0.weight"], "contains no autoencoder and no text encoder"),
        (["model.diffusion_model.a", "scaled_fp8"], "is a quantized network"),
        (["emb_params"], "is not a complete model: it contains no denoising network and no autoencoder and no text"),
    ],
)
def test_single_file_of_other_kind_is_refused_by_kind(hub, tmp_path, tensors, message):
    file = tmp_path / "it.safetensors"
    save_file({name: np.zeros((2, 2), np.float32) for name in tensors}, file)
    check_refused(file, message)
    hub.serve(NAME, tmp_path)
    check_refused(f"{NAME}/it.safetensors", message)
    assert hub.fetched() == 0


def test_incomplete_single_file_is_refused_unfetched(hub, files, tmp_path):
    hub.serve(BASE, files)
    (tmp_path / "served").mkdir()
    file = tiny.one_file(files, tmp_path / "served" / "part.safetensors", leave="cond_stage_model.")
    (tmp_path / "served" / "broken.safetensors").write_bytes(b"\x10" * 40)
    hub.serve(NAME, tmp_path / "served")
    for name in (file, f"{NAME}/part.safetensors"):
        check_refused(name, "is not a complete model: it contains no text encoder")
    for name in (tmp_path / "served" / "broken.safetensors", f"{NAME}/broken.safetensors"):
        check_refused(name, "broken.safetensors is not a safetensors file, or is incomplete")
    check_refused(f"{NAME}/other.safetensors", "is not in its repository")
    check_refused(
        "owner/none/other.safetensors", r"There is no file 'owner/none/other\.safetensors' here\. The hub has no"
    )
    check_refused(NAME, r"is not a pipeline, but contains single-file checkpoints\. Choose one of owner/mix/broken")
    # Cached weights of a base model do not replace weights that a file lacks.
    assert hub.fetched() == 0


def test_configurations_follow_from_file_header(tmp_path):
    mark = "conditioner.embedders.1.model.transformer.resblocks.9.mlp.c_proj.bias"
    whole, where = ("model.diffusion_model.x", "first_stage_model.x", mark), str(tmp_path / "xl.safetensors")
    save_file({name: np.zeros(2, np.float32) for name in whole}, where)
    files = model_files.look_up(where, "text-to-image")
    assert checkpoints.configurations(files) == "stabilityai/stable-diffusion-xl-base-1.0"


# -- LoRAs -------------------------------------------------------------------------------------------------


@pytest.mark.long
@needs_peft
def test_lora_is_added_with_weight_of_its_name(hub, files, tmp_path):
    lora_delta = tiny.lora(files, tmp_path / "lora" / LORA_FILE, parts=("unet", "text_encoder"))
    other = tiny.lora(files, tmp_path / "other" / "it.safetensors", seed=1)
    hub.serve(BASE, files)
    commit = hub.serve(LORA, tmp_path / "lora").commit
    hub.serve("owner/other", tmp_path / "other")
    sum_delta = {name: 0.7 * lora_delta.get(name, 0) - 0.5 * other.get(name, 0) for name in {*lora_delta, *other}}
    whole = Path(shutil.copytree(files, tmp_path / "merged"))
    tiny.merged(whole, sum_delta)
    expected, plain = image(whole).astype(int), image(files).astype(int)
    assert np.abs(expected - plain).max() > 20
    local_name = f"{files}+{tmp_path / 'lora'}:0.7+{tmp_path / 'other' / 'it.safetensors'}:-.5"
    for name in (f"{BASE}+{LORA}:0.7+owner/other/it.safetensors:-0.5", local_name):
        # Floating-point sums in another order change pixels by at most one level.
        assert np.abs(image(name) - expected).max() <= 1
    made_by = model(f"{BASE}+{LORA}:0.7")
    assert [one.repository for one in made_by.look_up()] == [BASE, LORA]
    assert made_by.label == f"{BASE}+{LORA}:0.7" and made_by.digest.endswith(f"+{LORA}@{commit}:0.7")
    assert hub_names.commits()[LORA] == commit
    assert model(f"{files}+{tmp_path / 'lora' / LORA_FILE}").label == "files+pytorch_lora_weights"
    on_it = ("", f"+{tmp_path / 'lora'}", f"+{tmp_path / 'lora'}:0.7")
    assert len({model(f"{files}{lora}").digest for lora in on_it}) == 3


@pytest.mark.long
@needs_peft
@pytest.mark.parametrize("layout", ["peft", "kohya"])
def test_lora_of_other_trainers_applies_to_single_file(files, tmp_path, layout):
    lora_delta = tiny.lora(files, tmp_path / "lora.safetensors", parts=("unet", "text_encoder"), layout=layout)
    file = tiny.one_file(files, without_weights(files, tmp_path / "a+b") / "mix.safetensors")
    made = [image(f"{base}+{tmp_path / 'lora.safetensors'}").astype(int) for base in (files, file)]
    tiny.merged(files, lora_delta)
    assert np.abs(np.subtract(made, image(files))).max() <= 1


def rename_key(part, other):
    return lambda name, value: (name.replace(part, other), value)


def widen(part):
    return lambda name, value: (name, np.ones((2, 99), np.float32) if part in name else value)


@pytest.mark.long
@needs_peft
@pytest.mark.parametrize(
    ("spoilt", "message", "before"),
    [
        (rename_key("down_blocks.1", "down_blocks.7"), r"3 of the 3 layers .* such as unet\.down_blocks\.7\.", False),
        (rename_key("to_k", "to_z"), r"1 of the 3 layers .* such as unet\.down_blocks\.1.*to_z", False),
        (lambda name, value: (name, value * ("up" not in name)), "changes no weight of this model", False),
        (widen("to_q.lora.down"), "cannot be loaded as a LoRA on .* size mismatch", False),
        (
            widen("attn2.to_k.lora.down"),
            r"embeddings of 99 numbers, .* 16\. Use the model .* according to its card",
            True,
        ),
        (
            rename_key("unet.down_blocks.1.attentions.0.", "transformer."),
            r"a transformer.* has a unet\..*its-base",
            True,
        ),
    ],
)
def test_lora_for_other_model_is_refused(hub, files, tmp_path, spoilt, message, before):
    file = tmp_path / "lora" / LORA_FILE
    tiny.lora(files, file)
    save_file(dict(spoilt(*one) for one in load_file(file).items()), file, metadata={"format": "pt"})
    (tmp_path / "lora" / "README.md").write_text("---\nbase_model: owner/its-base\n---\n")
    hub.serve(BASE, files)
    hub.serve(LORA, tmp_path / "lora")
    for name in (f"{files}+{tmp_path / 'lora'}", f"{BASE}+{LORA}"):
        with pytest.raises(ParameterError, match=message):
            load(name, FEW_STEPS)
    if before:
        assert hub.fetched(of=BASE) == 0
        check_refused(f"{BASE}+{LORA}", message)


def test_non_lora_file_is_refused_as_adapter(hub, files, tmp_path):
    hub.serve(BASE, files)
    (tmp_path / "it").mkdir()
    save_file({"decoder.conv_in.weight": np.zeros(2, np.float32)}, tmp_path / "it" / "vae.safetensors")
    hub.serve(LORA, tmp_path / "it")
    vae = "is not a LoRA, so it cannot be applied to"
    for name, message in (
        (f"{BASE}+{LORA}", vae),
        (f"{files}+{tmp_path / 'it' / 'vae.safetensors'}", vae),
        (f"{BASE}+owner/none", "has no model 'owner/none'"),
        (
            f"{BASE}+{LORA}/other.safetensors",
            r"is not in its repository\. Choose one of owner/lora/vae",
        ),
        (f"{BASE}+nothing", "There is no LoRA 'nothing'"),
        (f"{BASE}+", "has no LoRA after its '[+]'"),
        (f"{BASE}+{LORA}:0", "gives owner/lora the weight 0"),
        (f"{BASE}+{LORA}+{LORA}:0.5", "contains owner/lora twice"),
    ):
        check_refused(name, message)
    shutil.copy(tmp_path / "it" / "vae.safetensors", tmp_path / "it" / "b.safetensors")
    hub.serve(LORA, tmp_path / "it")
    hub_names._commits.clear()
    check_refused(
        f"{BASE}+{LORA}",
        r"contains 2 .safetensors files. Choose one of owner/lora/b\.safetensors, owner/lora/vae",
    )
    (tmp_path / "it" / "lora.bin").write_bytes(b"pickled")
    hub.serve(LORA, tmp_path / "it", lambda path: path == "lora.bin")
    hub_names._commits.clear()
    check_refused(f"{BASE}+{LORA}", r"The LoRA owner/lora has lora\.bin; weights are read only from \.safetensors")
    assert hub.fetched(of=BASE) == 0 and hub.fetched(".bin") == 0


@pytest.mark.long
@needs_peft
def test_lora_next_to_model_requires_explicit_choice(hub, files, tmp_path):
    lora = tiny.lora(files, files / LORA_FILE)
    hub.serve(NAME, files)
    for name in (files, NAME):
        check_refused(
            name,
            rf"contains {LORA_FILE} next to the model.* write .*mi?.*\+.*/{LORA_FILE}; to ignore it, write .*\+none",
        )
    assert hub.fetched() == 0
    bare = image(f"{files}+none")
    assert np.array_equal(image(f"{NAME}+none"), bare)
    used_image = image(f"{NAME}+{NAME}/{LORA_FILE}")
    assert np.array_equal(image(f"{files}+{files / LORA_FILE}"), used_image)
    tiny.merged(files, lora)
    assert (
        np.abs(used_image.astype(int) - image(f"{files}+none")).max() <= 1 < np.abs(used_image.astype(int) - bare).max()
    )


@pytest.mark.long
def test_example_lora_next_to_model_is_remarked_and_ignored(files):
    (files / "an_example-lora_1.0.safetensors").write_bytes(b"")
    (result,) = model(files).look_up()
    assert result.remarks == (f"{files}: these LoRAs next to the model are not used: an_example-lora_1.0.safetensors.",)


@pytest.mark.parametrize("told", ["card", "configuration", "nothing"])
def test_lora_alone_is_refused_with_correct_name(hub, files, tmp_path, told):
    tiny.lora(files, tmp_path / "lora" / LORA_FILE)
    if told == "card":
        (tmp_path / "lora" / "README.md").write_text(f"---\nbase_model:\n- {BASE}\ntags: [lora]\n---\n# It\n")
    if told == "configuration":
        entries = {"peft_type": "LORA", "base_model_name_or_path": BASE}
        (tmp_path / "lora" / "adapter_config.json").write_text(json.dumps(entries))
    hub.serve(LORA, tmp_path / "lora")
    base = "BASE" if told == "nothing" else BASE
    for name in (LORA, tmp_path / "lora"):
        check_refused(
            name, rf"is a LoRA, which changes a model but is not a model itself\. .* trained on: {base}\+{name}"
        )
    assert hub.fetched() == 0


# -- names -------------------------------------------------------------------------------------------------


def test_split_model_name_at_plus_signs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("a+b", "c+owner", "a+b+lora"):
        (tmp_path / folder).mkdir()
    one = model_names.Adapter
    two = (one("owner/b/x.safetensors@v1", 0.8), one("o/c", 0.5))
    for name, base, *given in (
        ("owner/a@v1+owner/b", "owner/a@v1", one("owner/b")),
        ("owner/a+owner/b/x.safetensors@v1:0.8+o/c:.5", "owner/a", *two),
        ("a+b", "a+b"),
        ("a+b+owner/c:-1", "a+b", one("owner/c", -1.0)),
        ("a+b+lora", "a+b+lora"),
        ("owner/a+c+owner:2", "owner/a", one("c+owner", 2.0)),
        (f"owner/a+{tmp_path}/a+b", "owner/a", one(f"{tmp_path}/a+b")),
        (r"C:\models\a+D:\lora.safetensors:0.5", r"C:\models\a", one(r"D:\lora.safetensors", 0.5)),
        ("owner/a+none", "owner/a"),
        ("endpoint:a+b", "endpoint:a+b"),
    ):
        assert model_names.split(name) == model_names.ModelName(base, tuple(given), name.endswith("+none"))
        assert model_names.split(str(model_names.split(name))) == model_names.split(name)


# -- variants, and unused parts ------------------------------------------------------------------------------


PARTS = ("unet", "vae", "text_encoder")


def as_variant(folder: Path, variant: str, parts=PARTS, sharded: bool = False) -> None:
    """Replace the weights of parts by those of a variant."""
    import torch
    from diffusers import UNet2DConditionModel
    from safetensors.torch import load_file as read
    from safetensors.torch import save_file as write

    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[variant]
    for part in parts:
        (file,) = (folder / part).glob("*.safetensors")
        if sharded and part == "unet":
            network = UNet2DConditionModel.from_pretrained(folder / part).to(dtype)
            network.save_pretrained(folder / part, variant=variant, max_shard_size="20KB")
        else:
            small = {k: v.to(dtype) for k, v in read(file).items()}
            write(small, file.with_suffix(f".{variant}.safetensors"), metadata={"format": "pt"})
        file.unlink()


@pytest.mark.long
@pytest.mark.parametrize(
    ("variant", "parts", "sharded"), [("fp16", PARTS, True), ("bf16", PARTS, False), ("fp16", PARTS[:1], False)]
)
def test_variant_weights_are_loaded_if_alone(hub, files, tmp_path, variant, parts, sharded):
    import torch
    from safetensors.torch import load_file as read
    from safetensors.torch import save_file as write

    # Weights rounded to half precision, in files with the usual names.
    rounded_folder = Path(shutil.copytree(files, tmp_path / "rounded"))
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[variant]
    for file in (file for part in parts for file in (rounded_folder / part).glob("*.safetensors")):
        write({k: v.to(dtype).float() for k, v in read(file).items()}, file, metadata={"format": "pt"})
    as_variant(files, variant, parts, sharded)
    hub.serve(NAME, files)
    (result,) = model(NAME).look_up()
    file_sizes = {p.relative_to(files).as_posix(): p.stat().st_size for p in files.rglob("*.safetensors")}
    assert set(result.weights) == set(file_sizes) and result.size == sum(file_sizes.values()) and hub.fetched() == 0
    expected = image(rounded_folder)
    assert np.array_equal(image(NAME), expected) and hub.fetched() == result.size
    assert np.array_equal(image(files), expected)


@pytest.mark.long
def test_regular_weights_are_preferred_to_variant(hub, files, tmp_path):
    expected = image(files)
    usual = files / "unet" / "diffusion_pytorch_model.safetensors"
    save_file({k: v * 0 for k, v in load_file(usual).items()}, usual.with_suffix(".fp16.safetensors"))
    as_variant(files, "fp16", ("vae",))
    result = loading.look_up(str(files))
    assert result.variants == {"vae": "fp16"}
    assert "unet/diffusion_pytorch_model.fp16.safetensors" not in result.base.weights
    made = image(files).astype(int)
    # The autoencoder alone is rounded.
    assert np.abs(made - expected).max() <= 1
    hub.serve(NAME, files)
    assert np.array_equal(image(NAME), made)


@pytest.mark.long
def test_pickled_safety_checker_is_ignored_if_off(hub, folders, tmp_path):
    folder = Path(shutil.copytree(folders("checked"), tmp_path / "checked"))
    (folder / "safety_checker" / "model.safetensors").rename(folder / "safety_checker" / "pytorch_model.bin")
    hub.serve(NAME, folder)
    for name in (NAME, folder):
        check_refused(
            name, r"safety_checker has safety_checker/pytorch_model\.bin; .* Set generation\.safety_checker to off"
        )
    assert hub.fetched() == 0
    without_checker = FEW_STEPS.with_changes(safety_checker="off")
    expected = image(folders("checked"), without_checker)
    for name in (NAME, folder):
        assert np.array_equal(image(name, without_checker), expected)
    assert hub.fetched(".bin") == 0


def test_image_encoder_is_not_loaded(hub, folders, tmp_path, files):
    import transformers

    config = transformers.CLIPVisionConfig(**tiny_pipelines.VISION, projection_dim=8)
    expected = image(files)
    transformers.CLIPVisionModelWithProjection(config).save_pretrained(files / "image_encoder")
    index = json.loads((files / "model_index.json").read_text())
    index |= {"image_encoder": ["transformers", "CLIPVisionModelWithProjection"]}
    (files / "model_index.json").write_text(json.dumps(index))
    (files / "image_encoder" / "model.safetensors").rename(files / "image_encoder" / "pytorch_model.bin")
    hub.serve(NAME, files)
    assert np.array_equal(image(NAME), expected) and hub.fetched(".bin") == 0
    assert np.array_equal(image(files), expected)


# -- quantised ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "missing", "message"),
    [
        ("bitsandbytes", True, r"\(unet: bitsandbytes\).*pip install bits"),
        ("bitsandbytes", False, r"\(unet: bitsandbytes\).* a GPU"),
        ("quanto", True, r"needs the package optimum-quanto, .*pip install optimum-quanto"),
        ("awq", False, r"quantized \(unet: awq\) by a method that diffusers does not support"),
    ],
)
def test_quantised_weights_requirements_are_named_unfetched(hub, files, monkeypatch, method, missing, message):
    file = files / "unet" / "config.json"
    entries = {"quant_method": method, "load_in_4bit": True}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"quantization_config": entries}))
    hub.serve(NAME, files)

    def version(package):
        if missing:
            raise loading.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(loading.metadata, "version", version)
    monkeypatch.setattr(loading.processor, "accelerator", lambda: "cpu")
    check_refused(NAME, message)
    check_refused(files, message)
    assert hub.fetched() == 0


@pytest.mark.long
def test_quantised_network_keeps_its_type(files, monkeypatch):
    import torch
    from diffusers import UNet2DConditionModel

    expected, own = image(files), UNet2DConditionModel.to

    def to(network, *given, **named):
        assert not {*given, *named.values()} & {torch.float16, torch.bfloat16, torch.channels_last}
        return own(network, *given, **named)

    # As a quantisation library marks it.
    monkeypatch.setattr(UNet2DConditionModel, "hf_quantizer", object(), raising=False)
    monkeypatch.setattr(UNet2DConditionModel, "to", to)
    for dtype in ("auto", "float32", "bfloat16"):
        assert np.abs(image(files, FEW_STEPS.with_changes(dtype=dtype)).astype(int) - expected).max() <= 1


# -- offloading --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offload", ["model", "sequential"])
def test_offload_on_cpu_is_refused(files, offload):
    with pytest.raises(ParameterError, match=rf"compute\.offload is '{offload}'"):
        model(files, offload=offload).load()


def test_n_cached_ignores_offload_and_depends_on_lora(files, tmp_path):
    prompts = pd.DataFrame({"prompt_id": ["p"], "text": ["a photo of a nurse"], "n_images": [1]})
    run = {"seed": 3, "cache": ResultCache(tmp_path / "store")}
    assert model(files).n_cached(prompts, **run) == 0
    model(files).generate(prompts, progress=False, **run)
    for offload in ("none", "model"):
        assert model(files, offload=offload).n_cached(prompts, **run) == 1
    tiny.lora(files, tmp_path / "lora.safetensors")
    for other in ("", ":0.5"):
        assert model(f"{files}+{tmp_path / 'lora.safetensors'}{other}").n_cached(prompts, **run) == 0


@pytest.mark.long
@pytest.mark.parametrize("offload", ["none", "model", "sequential"])
def test_offloaded_model_makes_same_images(files, monkeypatch, offload):
    import diffusers

    expected, offload_calls = image(files), []
    # The CPU replaces a GPU.
    monkeypatch.setattr(generator, "check_offload", lambda offload, device: None)
    for name in ("enable_model_cpu_offload", "enable_sequential_cpu_offload"):
        own = getattr(diffusers.DiffusionPipeline, name)

        def enable(pipe, device, own=own, name=name):
            offload_calls.append(name)
            # Each layer by itself diffusers moves to other devices than the CPU alone.
            return own(pipe, device=device) if name == "enable_model_cpu_offload" else None

        monkeypatch.setattr(diffusers.DiffusionPipeline, name, enable)
    (made,) = model(files, offload=offload).load().images(["a photo of a nurse"], [("p", 0)], seed=3)
    assert np.array_equal(made, expected)
    assert sorted(set(offload_calls)) == ([] if offload == "none" else [f"enable_{offload}_cpu_offload"])
