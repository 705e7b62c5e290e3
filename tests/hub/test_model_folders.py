"""Folders of models that bring code: refused by name before any library sees them, whoever was to load them."""

import io
import json
import os
import pickle
import shutil
import sys

import huggingface_hub
import pytest

from biaslab.captions.embeddings import Encoder
from biaslab.errors import BiaslabError, ParameterError, loading
from biaslab.generation.generator import load
from biaslab.generation.loading import pipeline_class
from biaslab.generation.settings import GenerationSettings
from biaslab.hub import registry, safety
from biaslab.io import reading
from biaslab.judges import blip, faces
from biaslab.judges.fairface import FairFaceGender
from biaslab.judges.zero_shot import ZeroShot
from biaslab_world.brought import WEIGHTS

NEVER = r"Code that comes with a model is never run\."
PARTS = {"unet": ["diffusers", "UNet2DConditionModel"], "scheduler": ["diffusers", "DDIMScheduler"]}


def pipeline(folder, **index):
    """Write a folder as of a pipeline, with one part that has weights."""
    said = {"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.42.1", **PARTS, **index}
    for part, file in (("unet", "config.json"), ("scheduler", "scheduler_config.json")):
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part / file).write_text("{}")
    (folder / "unet" / "diffusion_pytorch_model.safetensors").write_bytes(b"")
    (folder / "model_index.json").write_text(json.dumps(said))
    return folder


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a pipeline."""
    return pipeline(tmp_path / "model")


def refused(folder, message):
    with pytest.raises(ParameterError, match=message):
        registry.resolve(str(folder), "text-to-image")


# Files beside the weights.
CODE = (
    *("pipeline.py", "unet/diffusers.py", "unet/None.py", "None.py", "scheduler/transformers.PY", "lib.so.1.2"),
    *("unet/__pycache__/diffusers.cpython-311.pyc", "unet/diffusers.cpython-311-x86_64-linux-gnu.so", "lib.dll"),
    *("tokenizer/vocab.pkl", "deep/er/and/deeper/custom_generate/generate.py"),
)
ENTRIES = {
    "unet/config.json": {"auto_map": {"AutoModel": "mine.Mine"}},
    "tokenizer/tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["mine.Mine", None]}},
    "config.json": {"text_config": [{"deep": {"auto_map": {"AutoModel": "owner/other--mine.Mine"}}}]},
    "other/config.json": {"custom_pipelines": {"evil": {"impl": "mine.Mine"}}},
    "open_clip_config.json": {"model_cfg": {"text_cfg": {"tokenizer_kwargs": {"trust_remote_code": True}}}},
    "sentence_bert_config.json": {"model_args": {"trust_remote_code": "yes"}},
}
MODEL = ["diffusers", "UNet2DConditionModel"]
INDEXES = [{"_class_name": name} for name in (None, "None", ["pipeline", "Mine"], "mine.Mine", "../mine")]
INDEXES += [{"unet": [None, "Mine"]}, {"unet": ["mine", None]}, {"unet": ["../unet/mine", "Mine"]}]
INDEXES += [{"unet": ["os.path", "join"]}, {"unet": [*MODEL, "mine.py"]}, {"../elsewhere": MODEL}]


@pytest.mark.parametrize("file", CODE)
def test_files_that_could_be_run(folder, file):
    safety.check_folder(folder)
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("raise SystemExit")
    refused(folder, rf"holds {file}, which could be run .*{NEVER}")
    (folder / file).unlink()
    assert registry.resolve(str(folder), "text-to-image") == str(folder)


# What else a configuration could name, by the entry: a model of the hub, a folder, a piece of code of the hub.
OTHERS = {
    "hf_model_name": ("open_clip_config.json", {"model_cfg": {"text_cfg": {"hf_model_name": "roberta-base"}}}),
    "hf_tokenizer_name": ("open_clip_config.json", {"text_cfg": {"hf_tokenizer_name": "/srv/model"}}),
    "timm_model_name": ("open_clip_config.json", {"vision_cfg": {"timm_model_name": "hf-hub:owner/name"}}),
    "backbone": ("config.json", {"backbone_config": {"backbone": "local-dir:../other"}}),
    "architecture": ("config.json", {"architecture": "hf-hub:owner/name", "num_classes": 1}),
    "attn_implementation": ("unet/config.json", {"attn_implementation": {"": "sdpa", "text": "owner/kernel"}}),
    "base_model_name_or_path": ("adapter_config.json", {"base_model_name_or_path": "owner/name"}),
    "tokenizer_name_or_path": ("sentence_bert_config.json", {"tokenizer_name_or_path": "owner/name"}),
}


NAMED = [(file, said, rf"holds {file}, which names code .*{NEVER}") for file, said in ENTRIES.items()]
NAMED += [(file, said, rf"holds {file}, .* \({entry}\), another model") for entry, (file, said) in OTHERS.items()]
# Saying that nothing is trusted is no harm, and neither is a word.
HARMLESS = {"trust_remote_code": False, "auto_map": None, "a": "auto_map"} | dict.fromkeys(OTHERS)


@pytest.mark.parametrize(("file", "said", "message"), NAMED)
def test_configurations_that_name_code_or_another_model(folder, file, said, message):
    """No check has seen the other, and a library would fetch or open it, whoever sits there being asked or not."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps(said))
    refused(folder, message)
    (folder / file).write_text(json.dumps(HARMLESS | {"backbone": "resnet50", "architecture": "resnet50"}))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"auto_map": 1}}}))
    if "another" in message:
        # Notes that nobody loads may name what they will, such as on which model one was trained.
        (folder / "training_args.json").write_text(json.dumps(said))
    safety.check_folder(folder)


def test_what_lies_in_the_folder_is_its_own_whatever_it_is_called(folder):
    for entry, file in (("hf_model_name", "config.json"), ("hf_tokenizer_name", "tokenizer.json")):
        (folder / "open_clip_config.json").write_text(json.dumps({"text_cfg": {entry: "owner/name"}}))
        refused(folder, "Put the .* into the folder")
        (folder / file).write_text("{}")
        safety.check_folder(folder)


def test_modules_of_encoders_are_the_librarys_own_and_lie_in_their_folder(tmp_path):
    folder = encoder(tmp_path / "model")
    safety.check_folder(folder)
    (folder / "modules.json").write_text(json.dumps([{"path": "", "type": "mine.Mine"}]))
    refused(folder, rf"the module 'mine\.Mine'.*{NEVER}")
    (folder / "modules.json").write_text(json.dumps([{"path": "../other", "type": "sentence_transformers.X"}]))
    refused(folder, r"names '\.\./other'")
    # One of them that has a pickle alone, which the library would read.
    (folder / "modules.json").write_text(json.dumps([{"path": "2_Dense", "type": "sentence_transformers.X"}]))
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"")
    refused(folder, r"2_Dense holds only pytorch_model\.bin")


def test_no_library_asks_whether_to_run_code(tmp_path, code, monkeypatch):
    """Somebody who says yes to everything, or a pipe that does, is not asked."""
    import transformers

    (folder := tmp_path / "other").mkdir()
    code(folder / "mine.py")
    with (folder / "mine.py").open("a") as file:
        file.write("\nimport transformers\nclass Mine(transformers.PretrainedConfig):\n    model_type = 'mine'\n")
    (folder / "config.json").write_text('{"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}')
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    with pytest.raises(ParameterError, match="it cannot be loaded as a model"), loading("it", "a model"):
        transformers.AutoConfig.from_pretrained(folder)
    with pytest.raises(ParameterError, match=r"it asks 'Run it\?'"), loading("it", "a model"):
        input("Run it? ")
    with loading("it", "a model"):
        assert sys.stdin.read() == ""
    assert input() == "y" and sys.stdin.readline() == "y\n"


@pytest.mark.skipif(os.name != "posix", reason="Windows has no POSIX named pipes")
def test_what_is_no_file_or_too_large_is_not_read(folder):
    """A pipe that nobody writes to would be waited for, and a terabyte of nothing would not fit."""
    for name in ("config.json", "tokenizer.json", "unet/model.safetensors"):
        os.mkfifo(folder / name)
        refused(folder, rf"holds {name}, which cannot be read: .* is a folder, a pipe")
        (folder / name).unlink()
    for name in ("config.json", "tokenizer.json"):
        with (folder / name).open("wb") as file:
            file.truncate(reading.MOST + 1)
        refused(folder, rf"holds {name}, which cannot be read: .* bytes; at most")
        (folder / name).unlink()
    # Weights may be as large as they are.
    with (folder / "unet" / "model.safetensors").open("wb") as file:
        file.truncate(reading.MOST + 1)
    assert registry.resolve(str(folder), "text-to-image") == str(folder)


@pytest.mark.parametrize("index", INDEXES, ids=map(json.dumps, INDEXES))
def test_parts_that_are_not_named_plainly(tmp_path, index):
    refused(pipeline(tmp_path / "model", **index), rf"model_index\.json says '.*' is .*{NEVER} Choose one")


def test_parts_that_a_model_does_without_and_settings_are_no_code(tmp_path):
    more = {"image_encoder": [None, None], "requires_safety_checker": False, "scales": [1, 2], "note": None}
    folder = pipeline(tmp_path / "model", **more)
    assert list(safety.check_index(folder / "model_index.json")[1]) == ["unet", "scheduler"]
    assert pipeline_class(folder, "it").__name__ == "StableDiffusionPipeline"


@pytest.mark.parametrize("library", ["os", "builtins", "__builtins__", "TYPE_CHECKING", "sys", "auto_pipeline", "unet"])
def test_libraries_that_are_none_of_the_two(tmp_path, library):
    """Also what can be reached as a name in diffusers.pipelines and is no module with such a class."""
    folder = pipeline(tmp_path / "model", unet=[library, "exec"])
    with pytest.raises(ParameterError, match=rf"needs code .* \({library}\)\. {NEVER}"):
        pipeline_class(folder, "it")


@pytest.mark.skipif(os.name != "posix", reason="Windows requires administrator rights for symbolic links")
def test_links_that_lead_out_of_the_folder(tmp_path):
    other = pipeline(tmp_path / "other")
    (other / "unet" / "diffusers.py").write_text("raise SystemExit")
    for name in ("unet", "unet/diffusion_pytorch_model.safetensors", "unet/config.json"):
        folder = pipeline(tmp_path / "model")
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        else:
            (folder / name).unlink()
        (folder / name).symlink_to(other / name)
        refused(folder, rf"holds {name}, a link that leads out")
        shutil.rmtree(folder)
    # Inside it links are as good as files, and the folder itself may be one.
    folder = pipeline(tmp_path / "model")
    (folder / "again").symlink_to(folder / "unet")
    (tmp_path / "short").symlink_to(folder)
    assert registry.resolve(str(tmp_path / "short"), "text-to-image") == str(tmp_path / "short")


@pytest.mark.skipif(os.name != "posix", reason="Windows requires administrator rights for symbolic links")
def test_the_hubs_cache_links_to_its_own_blobs(tmp_path):
    cache = tmp_path / "models--owner--tiny"
    folder = pipeline(cache / "snapshots" / "0123abcd")
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    (cache / "blobs").mkdir()
    weights.rename(cache / "blobs" / "f00d")
    weights.symlink_to("../../../blobs/f00d")
    assert registry.resolve(str(folder), "text-to-image") == str(folder)
    # What counts is the name that the loader sees.
    (folder / "unet" / "diffusers.py").symlink_to("../../../blobs/f00d")
    refused(folder, r"holds unet/diffusers\.py, which could be run")
    (folder / "unet" / "diffusers.py").unlink()
    (folder / "vae").symlink_to(tmp_path)
    refused(folder, r"holds vae, a link that leads out of the folder")


@pytest.mark.parametrize("shard", ["model.bin", "../a.safetensors", "/tmp/a.safetensors", "a.safetensors.pt"])
def test_shards_of_weights_are_safetensors_of_the_folder(folder, shard):
    file = folder / "unet" / "diffusion_pytorch_model.safetensors.index.json"
    file.write_text(json.dumps({"weight_map": {"a": "m-00001-of-00002.safetensors"}}))
    safety.check_folder(folder)
    file.write_text(json.dumps({"weight_map": {"a": "m-00001-of-00002.safetensors", "b": shard}}))
    refused(folder, r"index\.json, which names '.*' as weights; .* next to it only")


def encoder(folder):
    folder.mkdir()
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    (folder / "modules.json").write_text(json.dumps([module]))
    (folder / "model.safetensors").write_bytes(b"")
    return folder


LOADERS = {
    "text-to-image": lambda name: load(name, GenerationSettings(steps=1)),
    "clip": ZeroShot,
    "detector": faces.DetectorFaces,
    "vqa": blip.load,
    "captioner": lambda name: blip.load(name, "captioner"),
    "encoder": lambda name: Encoder(name).encode(["a nurse"]),
}


@pytest.fixture
def code(tmp_path, monkeypatch):
    """Return what writes code into a folder, and look afterwards that it was not run."""
    ran = tmp_path / "ran"
    # A module on the path is loaded more easily than one in a folder.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield lambda file: (file.parent.mkdir(exist_ok=True), file.write_text(f"open({str(ran)!r}, 'w')"))
    assert not ran.exists()


@pytest.fixture
def evil(tmp_path, code):
    """Return a pickle that writes a file when it is read, which it must not be."""

    class Evil:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    return pickle.dumps(Evil())


BROUGHT = {"text-to-image": "mini-sd", "clip": "mini-clip", "detector": "mini-detector"}


def whole(kind, folder):
    """Write a folder that the loader of a kind takes for a model until it looks at the weights."""
    if kind == "encoder":
        return encoder(folder)
    if kind in ("vqa", "captioner"):
        folder.mkdir()
        (folder / "config.json").write_text('{"model_type": "blip"}')
        (folder / "model.safetensors").write_bytes(b"")
        return folder
    return shutil.copytree(WEIGHTS / BROUGHT[kind], folder)


@pytest.mark.parametrize("kind", LOADERS)
def test_no_loader_sees_a_folder_with_code(tmp_path, monkeypatch, code, kind):
    """Nor what the hub's client fetches: it is asked for nothing else, and what lay in its cache is looked through."""
    folder, asked = whole(kind, tmp_path / "model"), []

    def download(name, *, revision, allow_patterns):
        asked.append((name, *allow_patterns))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    code(folder / "modeling_mine.py")
    # Pipelines are fetched otherwise (tests/hub).
    for name in (str(folder), *(["owner/name"] if kind != "text-to-image" else [])):
        with pytest.raises(BiaslabError, match=rf"holds modeling_mine\.py, which could be run .*{NEVER}"):
            LOADERS[kind](name)
    weights = "open_clip*.safetensors" if kind == "clip" else "*.safetensors"
    patterns = "owner/name", "*.json", "*.txt", "*.model", "*.jinja", weights
    assert asked == ([patterns] if kind != "text-to-image" else [])


def test_a_pickle_beside_safetensors_of_another_name_is_not_read(tmp_path, evil):
    """open_clip prefers it to safetensors that it does not know, and no digest tells of it."""
    folder, texts = whole("clip", tmp_path / "model"), ["a woman", "a man"]
    digest = registry.digest(folder)
    (folder / "open_clip_model.safetensors").rename(folder / "decoy.safetensors")
    (folder / "open_clip_pytorch_model.bin").write_bytes(evil)
    found = ZeroShot(str(folder))
    assert (found.text_embeddings(texts) == ZeroShot("mini-clip").text_embeddings(texts)).all()
    assert registry.digest(folder) != digest
    # Of two files whose names say nothing none is chosen.
    shutil.copy(folder / "decoy.safetensors", folder / "other.safetensors")
    with pytest.raises(ParameterError, match=r"decoy\.safetensors, other\.safetensors"):
        ZeroShot(str(folder))
    # One by open_clip's own name is the model's.
    (folder / "decoy.safetensors").rename(folder / "open_clip_model.safetensors")
    assert (ZeroShot(str(folder)).text_embeddings(texts) == found.text_embeddings(texts)).all()


@pytest.mark.parametrize("kind", ["detector", "text-to-image"])
def test_other_loaders_take_no_pickle_beside_safetensors_of_another_name_either(tmp_path, evil, kind):
    folder = whole(kind, tmp_path / "model")
    for file in list(folder.rglob("*.safetensors")):
        file.rename(file.with_name("decoy.safetensors"))
        for name in ("pytorch_model.bin", "diffusion_pytorch_model.bin", "model.bin"):
            (file.parent / name).write_bytes(evil)
    with pytest.raises(ParameterError, match="cannot be loaded as"):
        LOADERS[kind](str(folder))


def test_options_of_a_tokenizer_open_no_files(tmp_path):
    folder = whole("clip", tmp_path / "model")
    config = json.loads((folder / "open_clip_config.json").read_text())
    config["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"clean": "lower", "vocab_file": "/etc/hostname"}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    with pytest.raises(ParameterError, match="gives its tokenizer 'vocab_file'"):
        ZeroShot(str(folder))


def test_a_pickle_that_is_called_safetensors_is_none(tmp_path, evil):
    file = tmp_path / "fairface.safetensors"
    file.write_bytes(evil)
    with pytest.raises(ParameterError, match=r"cannot be loaded as FairFace's ResNet-34"):
        FairFaceGender(file)
