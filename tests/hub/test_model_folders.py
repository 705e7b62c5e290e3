"""Model folders with code, pickles or names of other models: refused and never run, by every loader."""

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

NEVER_RUN = r"Code that comes with a model is never run\."
PARTS = {"unet": ["diffusers", "UNet2DConditionModel"], "scheduler": ["diffusers", "DDIMScheduler"]}


def pipeline(folder, **index):
    """Write a pipeline folder with one part that has weights."""
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


def look_up(folder):
    return model_files.look_up(str(folder), "text-to-image")


def check_refused(folder, message):
    with pytest.raises(ParameterError, match=message):
        look_up(folder)


MODEL = ["diffusers", "UNet2DConditionModel"]
INDEXES = [{"_class_name": name} for name in (None, "None", ["pipeline", "Mine"], "mine.Mine", "../mine")]
INDEXES += [{"unet": [None, "Mine"]}, {"unet": ["mine", None]}, {"unet": ["../unet/mine", "Mine"]}]
INDEXES += [{"unet": ["os.path", "join"]}, {"unet": [*MODEL, "mine.py"]}, {"../elsewhere": MODEL}]


# Other things a configuration can name, by entry: a model of the hub, a folder, code of the hub.
FOREIGN_ENTRIES = {
    "hf_model_name": ("open_clip_config.json", {"model_cfg": {"text_cfg": {"hf_model_name": "roberta-base"}}}),
    "hf_tokenizer_name": ("open_clip_config.json", {"text_cfg": {"hf_tokenizer_name": "/srv/model"}}),
    "timm_model_name": ("open_clip_config.json", {"vision_cfg": {"timm_model_name": "hf-hub:owner/name"}}),
    "backbone": ("config.json", {"backbone_config": {"backbone": "local-dir:../other"}}),
    "architecture": ("config.json", {"architecture": "hf-hub:owner/name", "num_classes": 1}),
    "attn_implementation": ("unet/config.json", {"attn_implementation": {"": "sdpa", "text": "owner/kernel"}}),
    "base_model_name_or_path": ("adapter_config.json", {"base_model_name_or_path": "owner/name"}),
    "tokenizer_name_or_path": ("sentence_bert_config.json", {"tokenizer_name_or_path": "owner/name"}),
}


FOREIGN_CASES = [
    (file, said, rf"contains {file}, .* \({entry}\), another model") for entry, (file, said) in FOREIGN_ENTRIES.items()
]
HARMLESS = dict.fromkeys(FOREIGN_ENTRIES)


@pytest.mark.parametrize(("file", "said", "message"), FOREIGN_CASES)
def test_configuration_naming_other_model_is_refused(folder, file, said, message):
    """The other model is unchecked, and a library would fetch or open it, with or without asking."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps(said))
    check_refused(folder, message)
    (folder / file).write_text(json.dumps(HARMLESS | {"backbone": "resnet50", "architecture": "resnet50"}))
    # Files that are not loaded may name other models, such as the one it was trained on.
    (folder / "training_args.json").write_text(json.dumps(said))
    safety.check_folder(folder)


def test_configuration_naming_file_in_folder_is_accepted(folder):
    for entry, file in (("hf_model_name", "config.json"), ("hf_tokenizer_name", "tokenizer.json")):
        (folder / "open_clip_config.json").write_text(json.dumps({"text_cfg": {entry: "owner/name"}}))
        check_refused(folder, "Put the .* into the folder")
        (folder / file).write_text("{}")
        safety.check_folder(folder)


def test_encoder_modules_outside_library_or_folder_are_refused(tmp_path):
    folder = encoder(tmp_path / "model")
    safety.check_folder(folder)
    (folder / "modules.json").write_text(json.dumps([{"path": "", "type": "mine.Mine"}]))
    check_refused(folder, rf"the module 'mine\.Mine'.*{NEVER_RUN}")
    (folder / "modules.json").write_text(json.dumps([{"path": "../other", "type": "sentence_transformers.X"}]))
    check_refused(folder, r"refers to '\.\./other'")
    # A module with only a pickle, which the library would read.
    (folder / "modules.json").write_text(json.dumps([{"path": "2_Dense", "type": "sentence_transformers.X"}]))
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"")
    check_refused(
        folder, r"module sentence_transformers\.X has only pytorch_model\.bin; weights are read only from \.safetensors"
    )


def test_loading_never_prompts_to_run_code(tmp_path, code, monkeypatch):
    """A user, or a pipe, that confirms everything is never prompted."""
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
    with pytest.raises(ParameterError, match=r"it asks the user 'Run it\?'"), loading("it", "a model"):
        input("Run it? ")
    with loading("it", "a model"):
        assert sys.stdin.read() == ""
    assert input() == "y" and sys.stdin.readline() == "y\n"


@pytest.mark.skipif(os.name != "posix", reason="Windows has no POSIX named pipes")
def test_pipes_and_oversized_files_are_refused(folder):
    """Reading a pipe without a writer would block, and an oversized file would exhaust memory."""
    for name in ("config.json", "tokenizer.json", "unet/model.safetensors"):
        os.mkfifo(folder / name)
        check_refused(folder, rf"contains {name}, which cannot be read: .* is a folder, a pipe")
        (folder / name).unlink()
    for name in ("config.json", "tokenizer.json"):
        with (folder / name).open("wb") as file:
            file.truncate(reading.MAX_BYTES + 1)
        check_refused(folder, rf"contains {name}, which cannot be read: .* bytes; the maximum is")
        (folder / name).unlink()
    # Weights may be as large as they are.
    with (folder / "unet" / "model.safetensors").open("wb") as file:
        file.truncate(reading.MAX_BYTES + 1)
    assert look_up(folder).folder == folder


@pytest.mark.parametrize("index", INDEXES, ids=map(json.dumps, INDEXES))
def test_pipeline_index_with_foreign_code_is_refused(tmp_path, index):
    folder = pipeline(tmp_path / "model", **index)
    with pytest.raises(ParameterError, match=rf"needs code that diffusers .* does not have \(.*\)\. {NEVER_RUN}"):
        pipelines.look_up(str(folder))


def test_read_index_ignores_omitted_parts_and_settings(tmp_path):
    extra = {"image_encoder": [None, None], "requires_safety_checker": False, "scales": [1, 2], "note": None}
    pipeline_class, parts = pipelines.read_index(look_up(pipeline(tmp_path / "model", **extra)))
    assert pipeline_class.__name__ == "StableDiffusionPipeline" and list(parts) == ["unet", "scheduler"]


@pytest.mark.parametrize("library", ["os", "builtins", "__builtins__", "TYPE_CHECKING", "sys", "auto_pipeline", "unet"])
def test_pipeline_part_of_other_library_is_refused(tmp_path, library):
    """Also what can be reached as a name in diffusers.pipelines and is no module with such a class."""
    folder = pipeline(tmp_path / "model", unet=[library, "exec"])
    with pytest.raises(ParameterError, match=rf"needs code .* \(unet: {library}\.exec\)\. {NEVER_RUN}"):
        pipelines.look_up(str(folder))


@pytest.mark.skipif(os.name != "posix", reason="Windows requires administrator rights for symbolic links")
def test_links_out_of_model_folder_are_refused(tmp_path):
    other_folder = pipeline(tmp_path / "other")
    (other_folder / "unet" / "diffusers.py").write_text("raise SystemExit")
    for name in ("unet", "unet/diffusion_pytorch_model.safetensors", "unet/config.json"):
        folder = pipeline(tmp_path / "model")
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        else:
            (folder / name).unlink()
        (folder / name).symlink_to(other_folder / name)
        check_refused(folder, rf"contains {name}, a link that leads out")
        shutil.rmtree(folder)
    # Links within the folder are accepted, and the folder itself may be a link.
    folder = pipeline(tmp_path / "model")
    (folder / "again").symlink_to(folder / "unet")
    (tmp_path / "short").symlink_to(folder)
    assert look_up(tmp_path / "short").folder == tmp_path / "short"


@pytest.mark.skipif(os.name != "posix", reason="Windows requires administrator rights for symbolic links")
def test_hub_cache_links_to_its_blobs_are_accepted(tmp_path):
    cache = tmp_path / "models--owner--tiny"
    folder = pipeline(cache / "snapshots" / "0123abcd")
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    (cache / "blobs").mkdir()
    weights.rename(cache / "blobs" / "f00d")
    weights.symlink_to("../../../blobs/f00d")
    assert look_up(folder).folder == folder
    (folder / "vae").symlink_to(tmp_path)
    check_refused(folder, r"contains vae, a link that leads out of the folder")


@pytest.mark.parametrize("shard", ["model.bin", "../a.safetensors", "/tmp/a.safetensors", "a.safetensors.pt"])
def test_weight_shards_outside_folder_are_refused(folder, shard):
    file = folder / "unet" / "diffusion_pytorch_model.safetensors.index.json"
    file.write_text(json.dumps({"weight_map": {"a": "m-00001-of-00002.safetensors"}}))
    safety.check_folder(folder)
    file.write_text(json.dumps({"weight_map": {"a": "m-00001-of-00002.safetensors", "b": shard}}))
    check_refused(folder, r"index\.json, which refers to '.*'; .* next to it")


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
    """Return a function that writes code into a folder, and check afterwards that it was not run."""
    ran = tmp_path / "ran"
    # A module on the path is loaded more easily than one in a folder.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield lambda file: (file.parent.mkdir(exist_ok=True), file.write_text(f"open({str(ran)!r}, 'w')"))
    assert not ran.exists()


@pytest.fixture
def evil(tmp_path, code):
    """Return a pickle that writes a file when loaded, which must not happen."""

    class Evil:
        def __reduce__(self):
            return open, (str(tmp_path / "ran"), "w")

    return pickle.dumps(Evil())


BUNDLED = {"text-to-image": "mini-sd", "clip": "mini-clip", "detector": "mini-detector"}


def write_model(kind, folder):
    """Write a folder that the loader of a kind accepts until it reads the weights."""
    if kind == "encoder":
        return encoder(folder)
    if kind in ("vqa", "captioner"):
        folder.mkdir()
        (folder / "config.json").write_text('{"model_type": "blip"}')
        (folder / "model.safetensors").write_bytes(b"")
        return folder
    return shutil.copytree(WEIGHTS / BUNDLED[kind], folder)


@pytest.mark.parametrize("file", ["unet/diffusers.py", "scheduler/diffusers.py", "vae/diffusers.py"])
def test_code_found_by_diffusers_is_refused(tmp_path, code, file):
    folder = write_model("text-to-image", tmp_path / "model")
    code(folder / file)
    with pytest.raises(ParameterError, match=NEVER_RUN):
        LOADERS["text-to-image"](str(folder))


@pytest.mark.parametrize("names", [["mine", "Mine"], [None, "Mine"], ["None", "Mine"], ["unet", "Mine"]])
def test_code_named_by_pipeline_index_is_refused(tmp_path, code, names):
    folder = write_model("text-to-image", tmp_path / "model")
    index = json.loads((folder / "model_index.json").read_text())
    for change in ({"unet": names}, {"_class_name": names}):
        (folder / "model_index.json").write_text(json.dumps(index | change))
        for file in ("mine.py", "unet/mine.py", "None.py", "unet/None.py", "unet/unet.py"):
            code(folder / file)
        with pytest.raises(ParameterError, match=NEVER_RUN):
            LOADERS["text-to-image"](str(folder))


# Classes of code next to a model, as a configuration names it.
AUTO = ("Config", "Model", "Tokenizer", "ModelForObjectDetection")
AUTO_MAP = {"auto_map": {f"Auto{what}": "mine.Mine" for what in AUTO}}
# Refusals by kind, by transformers, or for the tokenizer's options.
REFUSALS = {
    "clip": "passes 'trust_remote_code' to its tokenizer",
    "detector": "of type 'mine'|" + NEVER_RUN,
    "vqa": "of type 'mine'",
    "captioner": "of type 'mine'",
    "encoder": "trust_remote_code|" + NEVER_RUN,
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_code_named_by_configuration_is_refused(tmp_path, code, kind):
    folder = write_model(kind, tmp_path / "model")
    code(folder / "mine.py")
    (folder / "config.json").write_text(json.dumps({"model_type": "mine", "trust_remote_code": True, **AUTO_MAP}))
    if kind == "clip":
        config = json.loads((folder / "open_clip_config.json").read_text())
        config["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"trust_remote_code": True}
        (folder / "open_clip_config.json").write_text(json.dumps(config))
    for arguments in ("model_args", "tokenizer_args", "config_args"):
        settings = {arguments: {"trust_remote_code": True}}
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8, **settings}))
        with pytest.raises(BiaslabError, match=REFUSALS[kind]):
            LOADERS[kind](str(folder))


@pytest.mark.parametrize("file", ["text_encoder/config.json", "tokenizer/tokenizer_config.json", "unet/config.json"])
def test_code_named_by_part_configuration_is_not_run(tmp_path, code, file):
    folder = write_model("text-to-image", tmp_path / "model")
    config = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(config | AUTO_MAP))
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
def test_hub_code_and_pickles_are_not_downloaded(hub, tmp_path, code, evil, kind):
    folder = write_model(kind, tmp_path / "model")
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


def test_pickle_next_to_safetensors_is_not_read(tmp_path, evil):
    """open_clip prefers it to safetensors with unknown names, and no digest covers it."""
    folder, texts = write_model("clip", tmp_path / "model"), ["a woman", "a man"]
    digest = model_files.digest(folder)
    (folder / "open_clip_model.safetensors").rename(folder / "decoy.safetensors")
    (folder / "open_clip_pytorch_model.bin").write_bytes(evil)
    result = ZeroShot(str(folder))
    assert (result.text_embeddings(texts) == ZeroShot("mini-clip").text_embeddings(texts)).all()
    assert model_files.digest(folder) != digest
    # Two files with unknown names are refused as ambiguous.
    shutil.copy(folder / "decoy.safetensors", folder / "other.safetensors")
    with pytest.raises(ParameterError, match=r"decoy\.safetensors, other\.safetensors"):
        ZeroShot(str(folder))
    # A file with open_clip's own name is used.
    (folder / "decoy.safetensors").rename(folder / "open_clip_model.safetensors")
    assert (ZeroShot(str(folder)).text_embeddings(texts) == result.text_embeddings(texts)).all()


@pytest.mark.parametrize("kind", ["detector", "text-to-image"])
def test_loaders_refuse_pickle_without_named_safetensors(tmp_path, evil, kind):
    folder = write_model(kind, tmp_path / "model")
    for file in list(folder.rglob("*.safetensors")):
        file.rename(file.with_name("decoy.safetensors"))
        for name in ("pytorch_model.bin", "diffusion_pytorch_model.bin", "model.bin"):
            (file.parent / name).write_bytes(evil)
    with pytest.raises(ParameterError, match="cannot be loaded as"):
        LOADERS[kind](str(folder))


def test_tokenizer_options_opening_files_are_refused(tmp_path):
    folder = write_model("clip", tmp_path / "model")
    config = json.loads((folder / "open_clip_config.json").read_text())
    config["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"clean": "lower", "vocab_file": "/etc/hostname"}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    with pytest.raises(ParameterError, match="passes 'vocab_file' to its tokenizer"):
        ZeroShot(str(folder))


def test_pickle_named_safetensors_is_refused(tmp_path, evil):
    file = tmp_path / "fairface.safetensors"
    file.write_bytes(evil)
    with pytest.raises(ParameterError, match=r"cannot be loaded as FairFace's ResNet-34"):
        FairFaceJudge(f"fairface:{file}").load()
