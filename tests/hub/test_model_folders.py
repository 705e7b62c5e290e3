"""Folders of models that bring code, pickles, or names of other models: refused, and never run, whoever loads them."""

import contextlib
import io
import json
import os
import pickle
import shutil
import sys

import pytest

from biaslab.captions.embeddings import Encoder
from biaslab.errors import BiaslabError, ParameterError, loading
from biaslab.generation import loading as pipelines
from biaslab.generation.generator import load
from biaslab.generation.settings import GenerationSettings
from biaslab.hub import model_files, safety
from biaslab.io import reading
from biaslab.judges import blip, faces
from biaslab.judges.face_classifiers import FairFaceJudge
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


def looked_up(folder):
    return model_files.look_up(str(folder), "text-to-image")


def refused(folder, message):
    with pytest.raises(ParameterError, match=message):
        looked_up(folder)


MODEL = ["diffusers", "UNet2DConditionModel"]
INDEXES = [{"_class_name": name} for name in (None, "None", ["pipeline", "Mine"], "mine.Mine", "../mine")]
INDEXES += [{"unet": [None, "Mine"]}, {"unet": ["mine", None]}, {"unet": ["../unet/mine", "Mine"]}]
INDEXES += [{"unet": ["os.path", "join"]}, {"unet": [*MODEL, "mine.py"]}, {"../elsewhere": MODEL}]


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


NAMED = [(file, said, rf"holds {file}, .* \({entry}\), another model") for entry, (file, said) in OTHERS.items()]
HARMLESS = dict.fromkeys(OTHERS)


@pytest.mark.parametrize(("file", "said", "message"), NAMED)
def test_configurations_that_name_another_model(folder, file, said, message):
    """No check has seen the other, and a library would fetch or open it, whoever sits there being asked or not."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps(said))
    refused(folder, message)
    (folder / file).write_text(json.dumps(HARMLESS | {"backbone": "resnet50", "architecture": "resnet50"}))
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
    refused(folder, r"module sentence_transformers\.X has only pytorch_model\.bin; .*\.safetensors only")


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
            file.truncate(reading.MAX_BYTES + 1)
        refused(folder, rf"holds {name}, which cannot be read: .* bytes; the maximum is")
        (folder / name).unlink()
    # Weights may be as large as they are.
    with (folder / "unet" / "model.safetensors").open("wb") as file:
        file.truncate(reading.MAX_BYTES + 1)
    assert looked_up(folder).folder == folder


@pytest.mark.parametrize("index", INDEXES, ids=map(json.dumps, INDEXES))
def test_parts_that_are_not_named_plainly(tmp_path, index):
    folder = pipeline(tmp_path / "model", **index)
    with pytest.raises(ParameterError, match=rf"needs code that diffusers .* does not have \(.*\)\. {NEVER}"):
        pipelines.look_up(str(folder))


def test_parts_that_a_model_omits_and_settings_are_no_code(tmp_path):
    more = {"image_encoder": [None, None], "requires_safety_checker": False, "scales": [1, 2], "note": None}
    made, parts = pipelines.read_index(looked_up(pipeline(tmp_path / "model", **more)))
    assert made.__name__ == "StableDiffusionPipeline" and list(parts) == ["unet", "scheduler"]


@pytest.mark.parametrize("library", ["os", "builtins", "__builtins__", "TYPE_CHECKING", "sys", "auto_pipeline", "unet"])
def test_libraries_that_are_none_of_the_two(tmp_path, library):
    """Also what can be reached as a name in diffusers.pipelines and is no module with such a class."""
    folder = pipeline(tmp_path / "model", unet=[library, "exec"])
    with pytest.raises(ParameterError, match=rf"needs code .* \(unet: {library}\.exec\)\. {NEVER}"):
        pipelines.look_up(str(folder))


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
    assert looked_up(tmp_path / "short").folder == tmp_path / "short"


@pytest.mark.skipif(os.name != "posix", reason="Windows requires administrator rights for symbolic links")
def test_the_hubs_cache_links_to_its_own_blobs(tmp_path):
    cache = tmp_path / "models--owner--tiny"
    folder = pipeline(cache / "snapshots" / "0123abcd")
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    (cache / "blobs").mkdir()
    weights.rename(cache / "blobs" / "f00d")
    weights.symlink_to("../../../blobs/f00d")
    assert looked_up(folder).folder == folder
    (folder / "vae").symlink_to(tmp_path)
    refused(folder, r"holds vae, a link that leads out of the folder")


@pytest.mark.parametrize("shard", ["model.bin", "../a.safetensors", "/tmp/a.safetensors", "a.safetensors.pt"])
def test_shards_of_weights_are_safetensors_of_the_folder(folder, shard):
    file = folder / "unet" / "diffusion_pytorch_model.safetensors.index.json"
    file.write_text(json.dumps({"weight_map": {"a": "m-00001-of-00002.safetensors"}}))
    safety.check_folder(folder)
    file.write_text(json.dumps({"weight_map": {"a": "m-00001-of-00002.safetensors", "b": shard}}))
    refused(folder, r"index\.json, which refers to '.*'; .* next to it")


def encoder(folder):
    folder.mkdir()
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    (folder / "modules.json").write_text(json.dumps([module]))
    (folder / "model.safetensors").write_bytes(b"")
    return folder


LOADERS = {
    "text-to-image": lambda name: load(name, GenerationSettings(steps=1)),
    "clip": ZeroShot,
    "detector": lambda name: faces.HubFaces(name).load(),
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


@pytest.mark.parametrize("file", ["unet/diffusers.py", "scheduler/diffusers.py", "vae/diffusers.py"])
def test_code_that_diffusers_finds_next_to_a_model_is_refused(tmp_path, code, file):
    folder = whole("text-to-image", tmp_path / "model")
    code(folder / file)
    with pytest.raises(ParameterError, match=NEVER):
        LOADERS["text-to-image"](str(folder))


@pytest.mark.parametrize("names", [["mine", "Mine"], [None, "Mine"], ["None", "Mine"], ["unet", "Mine"]])
def test_code_that_the_index_of_a_pipeline_names_is_refused(tmp_path, code, names):
    folder = whole("text-to-image", tmp_path / "model")
    index = json.loads((folder / "model_index.json").read_text())
    for change in ({"unet": names}, {"_class_name": names}):
        (folder / "model_index.json").write_text(json.dumps(index | change))
        for file in ("mine.py", "unet/mine.py", "None.py", "unet/None.py", "unet/unet.py"):
            code(folder / file)
        with pytest.raises(ParameterError, match=NEVER):
            LOADERS["text-to-image"](str(folder))


# Classes of code next to a model, as a configuration names it.
AUTO = ("Config", "Model", "Tokenizer", "ModelForObjectDetection")
MINE = {"auto_map": {f"Auto{what}": "mine.Mine" for what in AUTO}}
# What is refused by its kind, or by transformers, or takes its tokenizer from elsewhere.
REFUSED = {
    "clip": "passes 'trust_remote_code' to its tokenizer",
    "detector": "of type 'mine'|" + NEVER,
    "vqa": "of type 'mine'",
    "captioner": "of type 'mine'",
    "encoder": "trust_remote_code|" + NEVER,
}


@pytest.mark.parametrize("kind", REFUSED)
def test_code_that_a_configuration_names_is_refused(tmp_path, code, kind):
    folder = whole(kind, tmp_path / "model")
    code(folder / "mine.py")
    (folder / "config.json").write_text(json.dumps({"model_type": "mine", "trust_remote_code": True, **MINE}))
    if kind == "clip":
        config = json.loads((folder / "open_clip_config.json").read_text())
        config["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"trust_remote_code": True}
        (folder / "open_clip_config.json").write_text(json.dumps(config))
    for arguments in ("model_args", "tokenizer_args", "config_args"):
        settings = {arguments: {"trust_remote_code": True}}
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8, **settings}))
        with pytest.raises(BiaslabError, match=REFUSED[kind]):
            LOADERS[kind](str(folder))


@pytest.mark.parametrize("file", ["text_encoder/config.json", "tokenizer/tokenizer_config.json", "unet/config.json"])
def test_a_part_of_a_librarys_class_is_made_without_the_code_that_it_names(tmp_path, code, file):
    folder = whole("text-to-image", tmp_path / "model")
    config = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(config | MINE))
    for path in (
        (folder / file).parent / "mine.py",
        folder / "pipeline.py",
        folder / "custom_generate" / "generate.py",
    ):
        code(path)
    loaded = load(str(folder), GenerationSettings(steps=1))
    libraries = {type(part).__module__.partition(".")[0] for part in loaded.pipe.components.values()}
    assert libraries <= {"diffusers", "transformers", "builtins"}


@pytest.mark.parametrize("kind", ["clip", "detector", "vqa", "encoder"])
def test_no_code_and_no_pickles_of_the_hub_are_downloaded(hub, tmp_path, code, evil, kind):
    folder = whole(kind, tmp_path / "model")
    for file in ("modeling_mine.py", "pipeline.py", "1_Pooling/mine.py"):
        code(folder / file)
    for file in ("pytorch_model.bin", "open_clip_pytorch_model.bin", "vocab.pkl"):
        (folder / file).write_bytes(evil)
    hub.serve("owner/name", folder)
    # Some have no weights that could be loaded.
    with contextlib.suppress(BiaslabError):
        LOADERS[kind]("owner/name")
    endings = {request.path.rpartition(".")[2] for request in hub.log if "/resolve/" in request.path}
    assert endings <= {"json", "txt", "safetensors"} and "safetensors" in endings


def test_a_pickle_beside_safetensors_of_another_name_is_not_read(tmp_path, evil):
    """open_clip prefers it to safetensors that it does not know, and no digest tells of it."""
    folder, texts = whole("clip", tmp_path / "model"), ["a woman", "a man"]
    digest = model_files.digest(folder)
    (folder / "open_clip_model.safetensors").rename(folder / "decoy.safetensors")
    (folder / "open_clip_pytorch_model.bin").write_bytes(evil)
    found = ZeroShot(str(folder))
    assert (found.text_embeddings(texts) == ZeroShot("mini-clip").text_embeddings(texts)).all()
    assert model_files.digest(folder) != digest
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
    with pytest.raises(ParameterError, match="passes 'vocab_file' to its tokenizer"):
        ZeroShot(str(folder))


def test_a_pickle_that_is_called_safetensors_is_none(tmp_path, evil):
    file = tmp_path / "fairface.safetensors"
    file.write_bytes(evil)
    with pytest.raises(ParameterError, match=r"cannot be loaded as FairFace's ResNet-34"):
        FairFaceJudge(f"fairface:{file}").load()
