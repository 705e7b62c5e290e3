"""Pipelines from the hub: what is fetched, and what is refused before it is."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from biaslab.errors import ParameterError
from biaslab.generation import loading
from biaslab.generation.generator import load
from biaslab.generation.settings import GenerationSettings
from biaslab.hub import huggingface as hub_names
from biaslab.hub import model_files
from biaslab.judges import zero_shot
from biaslab.judges.registry import parse
from biaslab_world.brought import WEIGHTS

NAME = "owner/tiny"
UNET = "unet/diffusion_pytorch_model.safetensors"


@pytest.fixture
def files(hub, folders, tmp_path):
    """Return a folder with the files of a model."""
    return Path(shutil.copytree(folders("sd1"), tmp_path / "files"))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("gated", r"is accessible only to users who have accepted its terms"),
        ("private", r"stable-difusion-v1-4'.* 'CompVis/stable-diffusion-v1-4'"),
        ("no index", r"is not a diffusers pipeline, because it contains no model_index\.json"),
    ],
)
def test_what_the_hub_answers_is_said_plainly(hub, files, fault, message):
    name = "CompVis/stable-difusion-v1-4"
    hub.serve(name, files, lambda path: fault != "no index" or path != "model_index.json").closed = fault
    with pytest.raises(ParameterError, match=message):
        loading.fetch(name)


def test_without_the_hub_what_was_fetched_before_is_loaded(hub, files, monkeypatch):
    commit = hub.serve(NAME, files).commit
    assert load(NAME, GenerationSettings(steps=1)).description()["revision"] == commit
    hub.repositories.clear()

    def unreachable(name):
        # The client wraps what it met.
        raise OSError("Cannot ask: see above.") from OSError("no way there")

    with monkeypatch.context() as patch:
        patch.setattr(hub_names, "fetch_info", unreachable)
        assert load(NAME, GenerationSettings(steps=1)).description()["revision"] == commit
        with pytest.raises(ParameterError, match=r"owner/other is not on this machine .*\(no way"):
            loading.fetch("owner/other")
    # What the hub denies is not taken from the cache.
    hub.serve(NAME, files).closed = "private"
    with pytest.raises(ParameterError, match="has no model"):
        model_files.look_up(NAME, "text-to-image")


def test_a_hub_that_does_not_answer_is_not_waited_for_again(hub, monkeypatch):
    from huggingface_hub import HfApi

    asked = []

    def late(self, repository, **how):
        asked.append(repository)
        raise TimeoutError("no answer")

    monkeypatch.setattr(HfApi, "model_info", late)
    for name in ("owner/one", "owner/two"):
        with pytest.raises(ParameterError, match=rf"{name} is not on this machine and .*\(no answer\)"):
            model_files.look_up(name, "text-to-image")
    assert asked == ["owner/one"]


def test_who_asks_too_much_waits_and_asks_again(hub, files):
    hub.serve(NAME, files).refusals = 1
    assert "model_index.json" in model_files.look_up(NAME, "text-to-image").files


def test_the_hub_states_the_licence_of_the_model_card(hub, files):
    (files / "README.md").write_text("---\nlicense: openrail++\n---\n# A model\n")
    hub.serve(NAME, files)
    assert loading.look_up(NAME).base.licence == "openrail++"
    assert not any(request.path.endswith("README.md") for request in hub.log)


def test_sizes_are_told_before_anything_is_fetched(hub, files):
    hub.serve(NAME, files)
    located = loading.look_up(NAME).base
    whole = {path: (files / path).stat().st_size for path in located.loaded}
    weights = {path for path in whole if path.endswith(".safetensors")}
    assert weights == {*located.weights} and located.size == sum(whole[path] for path in weights)
    # But for the index and the parts' configurations, which were read.
    read = [path for path in whole if path.endswith(("/config.json", "model_index.json"))]
    assert located.download == sum(whole.values()) - sum(whole[path] for path in read) and hub.fetched() == 0
    loading.fetch(NAME)
    assert loading.look_up(NAME).base.download == 0


def test_of_the_hub_only_what_is_needed_is_fetched(hub, files):
    for other in ("unet/diffusion_pytorch_model.fp16.safetensors", "v1-4.safetensors", "old/model.safetensors"):
        (files / other).parent.mkdir(exist_ok=True)
        shutil.copy(files / UNET, files / other)
    for code in ("pipeline.py", "unet/diffusers.py", "unet/model.bin", "scheduler/evil.py", "v1-4.ckpt", "a.pkl"):
        (files / code).write_text("raise SystemExit")
    hub.serve(NAME, files)
    snapshot = loading.fetch(NAME).base.folder
    there = {p.relative_to(snapshot).as_posix() for p in snapshot.rglob("*") if p.is_file()}
    weights = {UNET, "vae/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors"}
    assert {p for p in there if not p.endswith((".json", ".txt"))} == weights


@pytest.mark.parametrize("other", ["bin", "non_ema.safetensors"])
def test_a_part_on_the_hub_without_weights_that_are_read(hub, files, other):
    (files / UNET).rename(files / UNET.replace("safetensors", other))
    hub.serve(NAME, files)
    with pytest.raises(ParameterError, match=rf"owner/tiny .*unet has unet/.*\.{other};"):
        loading.fetch(NAME)
    assert hub.fetched() == 0


def test_a_pipeline_on_the_hub_that_names_code_is_refused_by_its_index_alone(hub, files):
    index = files / "model_index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"unet": [None, "Mine"]}))
    hub.serve(NAME, files)
    with pytest.raises(ParameterError, match=r"needs code .*unet: None\.Mine"):
        loading.fetch(NAME)
    assert {r.path.rpartition("/")[2] for r in hub.log if "/resolve/" in r.path} == {"model_index.json"}


# -- open_clip's names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "repository", "mean", "quick"),
    [
        ("ViT-L-14:openai", "timm/vit_large_patch14_clip_224.openai", 0.4815, True),
        ("ViT-L-14:laion2b_s32b_b82k", "laion/CLIP-ViT-L-14-laion2B-s32B-b82K", 0.5, False),
    ],
)
def test_weights_by_open_clips_names_are_of_one_commit(hub, tmp_path, name, repository, mean, quick):
    """And OpenAI's get their own activation: with open_clip's architecture of that name, results would be off."""
    file = "open_clip_model.safetensors"
    (served := tmp_path / "served").mkdir()
    (served / file).write_bytes(b"weights")
    (served / "open_clip_pytorch_model.bin").write_bytes(b"pickled")
    commit = hub.serve(repository, served).commit
    config, weights, words, options = zero_shot._load_parts(name)
    # ViT-L/14 of Radford et al. 2021, Table 20, with a tokenizer that open_clip carries.
    assert config["model_cfg"]["embed_dim"] == 768 and words is None and options["force_quick_gelu"] is quick
    assert weights.parts[-2:] == (commit, file) and hub.fetched(".bin") == 0
    assert hub_names.digest_of_tag(name) == f"{name}@{commit}" and hub_names.commits()[name] == commit
    # With the numbers that open_clip knows its pixels are to be brought to.
    assert options["image_mean"][0] == pytest.approx(mean, abs=1e-4)
    (served / file).unlink()
    hub.serve(repository, served)
    hub_names._commits.clear()
    with pytest.raises(ParameterError, match=r"open_clip_pytorch_model\.bin; .*\.safetensors only"):
        zero_shot._load_parts(name)


# open_clip's architectures of these names leave their words to a repository, which may be another than their weights'.
SIGLIP, SIGLIP_L = "timm/ViT-B-16-SigLIP", "timm/ViT-L-16-SigLIP-256"
ROBERTA, TEXT = "laion/CLIP-ViT-B-32-roberta-base-laion2B-s12B-b32k", "FacebookAI/roberta-base"


@pytest.fixture
def siglip(hub, tmp_path, monkeypatch):
    """Let open_clip build a tiny model as two of its architectures, which leave their words to one repository."""
    from open_clip import factory

    clip = WEIGHTS / "mini-clip"
    config = json.loads((clip / "open_clip_config.json").read_text())["model_cfg"]
    config["text_cfg"]["hf_tokenizer_name"] = SIGLIP
    own = {"ViT-B-16-SigLIP": config, "ViT-L-16-SigLIP-256": config}
    monkeypatch.setattr(factory, "_MODEL_CONFIGS", factory._MODEL_CONFIGS | own)

    def serve(repository, *, words):
        left = ["open_clip_config.json", *([] if words else ["*.json", "*.txt"])]
        folder = shutil.copytree(clip, tmp_path / repository, ignore=shutil.ignore_patterns(*left))
        return hub.serve(repository, folder).commit

    return serve


@pytest.mark.parametrize(
    ("file", "said", "setting"),
    [
        ("open_clip_config.json", {"model_cfg": {"text_cfg": {"hf_model_name": "owner/other"}}}, "judging.gender"),
        ("config.json", {"model_type": "detr", "backbone_config": {"backbone": "hf-hub:owner/other"}}, "judging.faces"),
    ],
)
def test_a_model_that_names_another_is_refused_before_its_weights_are_fetched(hub, tmp_path, file, said, setting):
    (tmp_path / "open_clip_model.safetensors").write_bytes(b"weights")
    (tmp_path / file).write_text(json.dumps(said))
    hub.serve(NAME, tmp_path)
    with pytest.raises(ParameterError, match=rf"{NAME} holds {file}, .*, another model"):
        parse(NAME, setting).files()
    assert hub.fetched() == 0 and not any("owner/other" in request.path for request in hub.log)


def test_words_of_open_clips_names_come_from_the_repository_of_the_weights_where_it_has_them(hub, siglip):
    commit = siglip(SIGLIP, words=True)
    model = zero_shot.ZeroShot("ViT-B-16-SigLIP:webli", device="cpu")
    assert model.text_embeddings(["a woman"]).shape == (1, 128)
    assert hub_names.digest_of_tag("ViT-B-16-SigLIP:webli") == f"ViT-B-16-SigLIP:webli@{commit}"
    asked = [r.path for r in hub.log if "/resolve/" in r.path]
    assert asked and all(f"/{SIGLIP}/resolve/{commit}/" in path for path in asked)


def test_words_of_another_repository_are_refused(hub, siglip, tmp_path, monkeypatch):
    from open_clip import factory

    siglip(SIGLIP_L, words=False)
    with pytest.raises(ParameterError, match=f"uses the tokenizer of {SIGLIP}, but its weights are in {SIGLIP_L}"):
        zero_shot.look_up("ViT-L-16-SigLIP-256:webli")
    name, config = "roberta-ViT-B-32:laion2b_s12b_b32k", {"text_cfg": {"hf_model_name": TEXT}}
    monkeypatch.setitem(factory._MODEL_CONFIGS, name.partition(":")[0], config)
    (tmp_path / "roberta").mkdir()
    (tmp_path / "roberta" / "open_clip_model.safetensors").write_text("{}")
    hub.serve(ROBERTA, tmp_path / "roberta")
    with pytest.raises(ParameterError, match=f"uses the tokenizer of {TEXT}, but its weights are in {ROBERTA}"):
        zero_shot.look_up(name)


def test_they_see_what_open_clip_sees_by_its_own_name(hub, repositories, monkeypatch):
    import open_clip
    import tiny_repositories as tiny
    import torch
    from open_clip import factory
    from PIL import Image

    monkeypatch.setattr(factory, "_MODEL_CONFIGS", dict(factory._MODEL_CONFIGS))
    tiny.shrink()
    hub.serve(tiny.CLIP_B, repositories(tiny.CLIP_B))
    model, _, transform = open_clip.create_model_and_transforms("ViT-B-32", pretrained="openai", force_quick_gelu=True)
    image = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    with torch.no_grad():
        expected = model.eval().encode_image(transform(Image.fromarray(image))[None], normalize=True)
    ours = zero_shot.ZeroShot("ViT-B-32:openai", device="cpu").image_embeddings([image])
    assert np.abs(ours - expected.numpy()).max() < 1e-5
    other = zero_shot.ZeroShot("ViT-B-32:openai", device="cpu").image_embeddings([image[::-1].copy()])
    assert np.abs(ours - other).max() > 1e-2
