"""Pipelines from the hub: files that are fetched, and refusals before fetching."""

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
def test_fetch_explains_hub_refusal(hub, files, fault, message):
    name = "CompVis/stable-difusion-v1-4"
    hub.serve(name, files, lambda path: fault != "no index" or path != "model_index.json").closed = fault
    with pytest.raises(ParameterError, match=message):
        loading.fetch(name)


def test_load_without_hub_uses_cached_files(hub, files, monkeypatch):
    commit = hub.serve(NAME, files).commit
    assert load(NAME, GenerationSettings(steps=1)).description()["revision"] == commit
    hub.repositories.clear()

    def unreachable(name):
        # The client wraps the original error.
        raise OSError("Cannot ask: see above.") from OSError("no way there")

    with monkeypatch.context() as patch:
        patch.setattr(hub_names, "fetch_info", unreachable)
        assert load(NAME, GenerationSettings(steps=1)).description()["revision"] == commit
        with pytest.raises(ParameterError, match=r"owner/other is not on this machine .*\(no way"):
            loading.fetch("owner/other")
    # A model that the hub refuses is not taken from the cache.
    hub.serve(NAME, files).closed = "private"
    with pytest.raises(ParameterError, match="has no model"):
        model_files.look_up(NAME, "text-to-image")


def test_unreachable_hub_is_asked_once(hub, monkeypatch):
    from huggingface_hub import HfApi

    requests_made = []

    def raise_timeout(self, repository, **kwargs):
        requests_made.append(repository)
        raise TimeoutError("no answer")

    monkeypatch.setattr(HfApi, "model_info", raise_timeout)
    for name in ("owner/one", "owner/two"):
        with pytest.raises(ParameterError, match=rf"{name} is not on this machine and .*\(no answer\)"):
            model_files.look_up(name, "text-to-image")
    assert requests_made == ["owner/one"]


def test_hub_rate_limit_is_retried(hub, files):
    hub.serve(NAME, files).refusals = 1
    assert "model_index.json" in model_files.look_up(NAME, "text-to-image").files


def test_look_up_reads_licence_of_model_card(hub, files):
    (files / "README.md").write_text("---\nlicense: openrail++\n---\n# A model\n")
    hub.serve(NAME, files)
    assert loading.look_up(NAME).base.licence == "openrail++"
    assert not any(request.path.endswith("README.md") for request in hub.log)


def test_look_up_gives_sizes_before_fetching(hub, files):
    hub.serve(NAME, files)
    location = loading.look_up(NAME).base
    sizes = {path: (files / path).stat().st_size for path in location.loaded}
    weights = {path for path in sizes if path.endswith(".safetensors")}
    assert weights == {*location.weights} and location.size == sum(sizes[path] for path in weights)
    # Except the index and the parts' configurations, which were read.
    read_files = [path for path in sizes if path.endswith(("/config.json", "model_index.json"))]
    assert location.download == sum(sizes.values()) - sum(sizes[path] for path in read_files) and hub.fetched() == 0
    loading.fetch(NAME)
    assert loading.look_up(NAME).base.download == 0


def test_fetch_downloads_only_required_files(hub, files):
    for other in ("unet/diffusion_pytorch_model.fp16.safetensors", "v1-4.safetensors", "old/model.safetensors"):
        (files / other).parent.mkdir(exist_ok=True)
        shutil.copy(files / UNET, files / other)
    for code in ("pipeline.py", "unet/diffusers.py", "unet/model.bin", "scheduler/evil.py", "v1-4.ckpt", "a.pkl"):
        (files / code).write_text("raise SystemExit")
    hub.serve(NAME, files)
    snapshot = loading.fetch(NAME).base.folder
    fetched_files = {p.relative_to(snapshot).as_posix() for p in snapshot.rglob("*") if p.is_file()}
    weights = {UNET, "vae/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors"}
    assert {p for p in fetched_files if not p.endswith((".json", ".txt"))} == weights


@pytest.mark.parametrize("other", ["bin", "non_ema.safetensors"])
def test_fetch_part_without_readable_weights_is_refused(hub, files, other):
    (files / UNET).rename(files / UNET.replace("safetensors", other))
    hub.serve(NAME, files)
    with pytest.raises(ParameterError, match=rf"owner/tiny .*unet has unet/.*\.{other};"):
        loading.fetch(NAME)
    assert hub.fetched() == 0


def test_pipeline_naming_code_is_refused_by_index(hub, files):
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
def test_open_clip_weights_are_of_one_commit(hub, tmp_path, name, repository, mean, quick):
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
    # With the normalization of pixels in open_clip's configuration.
    assert options["image_mean"][0] == pytest.approx(mean, abs=1e-4)
    (served / file).unlink()
    hub.serve(repository, served)
    hub_names._commits.clear()
    with pytest.raises(ParameterError, match=r"open_clip_pytorch_model\.bin; weights are read only from \.safetensors"):
        zero_shot._load_parts(name)


# open_clip loads the tokenizers of these architectures from a repository, which may differ from that of the weights.
SIGLIP, SIGLIP_L = "timm/ViT-B-16-SigLIP", "timm/ViT-L-16-SigLIP-256"
ROBERTA, TEXT = "laion/CLIP-ViT-B-32-roberta-base-laion2B-s12B-b32k", "FacebookAI/roberta-base"


@pytest.fixture
def siglip(hub, tmp_path, monkeypatch):
    """Let open_clip build a tiny model as two of its architectures, with the tokenizer of one repository."""
    from open_clip import factory

    clip = WEIGHTS / "mini-clip"
    config = json.loads((clip / "open_clip_config.json").read_text())["model_cfg"]
    config["text_cfg"]["hf_tokenizer_name"] = SIGLIP
    architectures = {"ViT-B-16-SigLIP": config, "ViT-L-16-SigLIP-256": config}
    monkeypatch.setattr(factory, "_MODEL_CONFIGS", factory._MODEL_CONFIGS | architectures)

    def serve(repository, *, words):
        ignored = ["open_clip_config.json", *([] if words else ["*.json", "*.txt"])]
        folder = shutil.copytree(clip, tmp_path / repository, ignore=shutil.ignore_patterns(*ignored))
        return hub.serve(repository, folder).commit

    return serve


@pytest.mark.parametrize(
    ("file", "said", "setting"),
    [
        ("open_clip_config.json", {"model_cfg": {"text_cfg": {"hf_model_name": "owner/other"}}}, "judging.gender"),
        ("config.json", {"model_type": "detr", "backbone_config": {"backbone": "hf-hub:owner/other"}}, "judging.faces"),
    ],
)
def test_model_naming_other_model_is_refused_unfetched(hub, tmp_path, file, said, setting):
    (tmp_path / "open_clip_model.safetensors").write_bytes(b"weights")
    (tmp_path / file).write_text(json.dumps(said))
    hub.serve(NAME, tmp_path)
    with pytest.raises(ParameterError, match=rf"{NAME} contains {file}, .*, another model"):
        parse(NAME, setting).files()
    assert hub.fetched() == 0 and not any("owner/other" in request.path for request in hub.log)


def test_open_clip_tokenizer_of_weights_repository_is_used(hub, siglip):
    commit = siglip(SIGLIP, words=True)
    model = zero_shot.ZeroShot("ViT-B-16-SigLIP:webli", device="cpu")
    assert model.text_embeddings(["a woman"]).shape == (1, 128)
    assert hub_names.digest_of_tag("ViT-B-16-SigLIP:webli") == f"ViT-B-16-SigLIP:webli@{commit}"
    requests_made = [r.path for r in hub.log if "/resolve/" in r.path]
    assert requests_made and all(f"/{SIGLIP}/resolve/{commit}/" in path for path in requests_made)


def test_open_clip_tokenizer_of_other_repository_is_refused(hub, siglip, tmp_path, monkeypatch):
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


def test_zero_shot_matches_open_clip_by_its_name(hub, repositories, monkeypatch):
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
