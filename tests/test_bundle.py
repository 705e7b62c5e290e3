"""A run as a bundle: what is in it, what repeats it, and what is refused before anything is written."""

import hashlib
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from biaslab.generation import generator
from biaslab.ground.errors import InputError, ParameterError, RunError
from biaslab.pipeline import Pipeline
from biaslab.prompts import custom as asking
from biaslab.runs import audit, bundle, earlier, export, gather, jobs, params
from biaslab.settings import Settings

PROMPTS = ("a nurse at work", "a pilot at work")


@pytest.fixture
def pictures(tmp_path):
    """Two pictures a prompt, told by a table, as somebody's service made them."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    for k in range(4):
        pixels = np.random.default_rng(k).integers(0, 256, (5, 4, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{k}.png")
    rows = {"file": [f"{k}.png" for k in range(4)], "prompt": [PROMPTS[k // 2] for k in range(4)]}
    pd.DataFrame({**rows, "group": ["nurse"] * 2 + ["pilot"] * 2}).to_csv(folder / "told.csv", index=False)
    return folder


@pytest.fixture
def leave(tmp_path, root, monkeypatch):
    """Return a function that leaves a run's folder on prompts of one's own, as runs do."""
    monkeypatch.chdir(root)

    def write(model, ids, settings, name="mine", **more):
        folder = tmp_path / "outputs" / name
        (folder / "measured").mkdir(parents=True)
        people = {"model": "theirs", "group": ["nurse"] * 2 + ["pilot"] * 2, "prompt": np.repeat(PROMPTS, 2)}
        people |= {"image_id": ids, "position": 1, "outcome": "judged", "gender": "female", "p_female": 0.99}
        pd.DataFrame(people).to_csv(folder / "measured" / "custom_people.csv", index=False)
        shares = {"group": ["nurse", "pilot"], "percent_female": [87.5, 9], "n": [800, 60]}
        shares = pd.DataFrame({**shares, "named": "the benchmark"})
        shares.to_csv(folder / "measured" / "custom_benchmark.csv", index=False)
        values = {"source": "pipeline", "model": model, "seed": 7, "settings": settings}
        text = {"run": name, "notebooks": ["custom/shares"], **values}
        (folder / "params.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
        record = {"run": name, "parameters": values, "commits": {}, **more}
        record["files"] = earlier.digests(folder, sorted(folder.glob("measured/*.csv")))
        (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
        return {"run": name, "outputs": tmp_path / "outputs", "as_bundle": True}

    return write


@pytest.fixture
def given(leave, pictures, tmp_path):
    """A run on the pictures, and what exports it: its own parameters name no folder."""
    further = ["ratings:r.csv", "vqa:Salesforce/blip-vqa-base"]
    settings = {"compare_with": "none", "judging": {"gender": "dlib", "faces": "yunet", "further": further}}
    settings |= {"endpoint": {"url": "https://example.org", "key_variable": "MINE", "size": "64x64"}}
    settings["compute"] = {"store": "store"}
    run = leave("images:theirs", [f"{k}.png" for k in range(4)], settings, judges={"judging.tone pixels": ""})
    return run | {"overrides": [f"model=images:{pictures}", f"compute.store={tmp_path / 'store'}"]}


def unpacked(path, folder):
    with zipfile.ZipFile(path) as packed:
        packed.extractall(folder)
    (top,) = folder.iterdir()
    return top


def test_pictures_of_a_folder_are_in_it_only_where_that_is_asked(given, pictures, tmp_path):
    path = export.export(**given)
    top = unpacked(path, tmp_path / "one")
    assert path.name == "mine-bundle.zip" and not list(top.rglob("*.png"))
    assert "images of theirs: they are pictures of a folder" in (top / "README.txt").read_text("utf-8")
    again = path.read_bytes()
    assert export.export(**given).read_bytes() == again
    whole = unpacked(export.export(**given, everything=True), tmp_path / "all")
    at = whole / "images" / "custom" / "theirs"
    for k in range(4):
        ours, theirs = (np.asarray(Image.open(place / f"{k}.png")) for place in (at, pictures))
        np.testing.assert_array_equal(ours, theirs)
    told = pd.read_csv(at / "prompts.csv")
    assert list(told["prompt"]) == list(np.repeat(PROMPTS, 2)) and set(told["position"]) == {1}
    assert "pictures of a folder" not in (whole / "README.txt").read_text("utf-8")


def test_what_was_asked_and_answered_stands_in_it_under_one_digest(given, tmp_path):
    top = unpacked(export.export(**given), tmp_path / "one")
    assert (top / "inputs" / "custom.prompts.csv").read_text("utf-8") == (
        "prompt,group,n,people\na nurse at work,nurse,2,1\na pilot at work,pilot,2,1\n"
    )
    assert pd.read_csv(top / "inputs" / "custom.benchmark.csv")["percent_female"].tolist() == [87.5, 9]
    run = tmp_path / "outputs" / "mine"
    for name in ("run.json", "measured/custom_people.csv"):
        assert (top / name).read_bytes() == (run / name).read_bytes()
    prompts, images = (pd.read_csv(top / f"{name}.csv") for name in ("prompts", "images"))
    assert prompts["text"].tolist() == list(PROMPTS) and prompts["n_images"].tolist() == [2, 2]
    assert images["image_id"].tolist() == [f"{k}.png" for k in range(4)]
    # As `sha256sum` lists them, by name.
    names = sorted(p.relative_to(top).as_posix() for p in top.rglob("*") if p.is_file())
    names.remove("bundle.json")
    sums = {name: hashlib.sha256((top / name).read_bytes()).hexdigest() for name in names}
    text = "".join(f"{sums[name]}  {name}\n" for name in names)
    told = json.loads((top / "bundle.json").read_text("utf-8"))
    assert told == {"format": 1, "digest": hashlib.sha256(text.encode()).hexdigest(), "files": sums}


def test_another_model_is_asked_the_same_and_its_record_names_the_bundle(given, pictures, tmp_path):
    path = export.export(**given)
    (other := tmp_path / "others").mkdir()
    (pictures / "0.png").rename(other / "0.png")
    pd.DataFrame({"file": ["0.png"], "prompt": PROMPTS[:1]}).to_csv(other / "t.csv", index=False)
    asked = bundle.params_of([str(path)], [f"images:{other}"], outputs=given["outputs"])
    assert asked["run"] == "mine-on-others" and asked["seed"] == 7 and asked["model"] == f"images:{other}"
    settings = asked["settings"]
    # Whom to ask with which key, and where work runs, is this machine's.
    assert settings["endpoint"] == {"size": "64x64"} and "compute" not in settings
    # Ratings are of the images that they are of.
    assert settings["judging"].pop("further") == ["vqa:Salesforce/blip-vqa-base"]
    assert settings["judging"] == {"gender": "dlib", "faces": "yunet", "tone": "pixels"}
    assert pd.read_csv(settings["custom"]["prompts"])["prompt"].tolist() == list(PROMPTS)
    record = hashlib.sha256((tmp_path / "outputs" / "mine" / "run.json").read_bytes()).hexdigest()
    digest = json.loads(zipfile.ZipFile(path).read("mine-bundle/bundle.json"))["digest"]
    checked = params.load("params.yaml", given=asked)
    assert gather.provenance(checked)["bundle"] == {"digest": digest, "record": record}
    # The file beside the report gives it again.
    assert yaml.safe_load(params.as_yaml(checked))["bundle"]["digest"] == digest


def test_a_folder_that_is_not_here_has_to_be_named(given, pictures, tmp_path):
    path = str(export.export(**given))
    with pytest.raises(ParameterError, match=r"the folder 'theirs', which is not here.* --model images:FOLDER"):
        bundle.params_of([path], [], outputs=tmp_path / "out")
    with pytest.raises(ParameterError, match=r"named alone: biaslab audit BUNDLE.zip --model"):
        bundle.params_of(["mini-sd"], ["mini-sd"], outputs=tmp_path / "out")
    with pytest.raises(ParameterError, match=r"A bundle says what is asked: leave its prompts to it"):
        bundle.params_of([path], ["x"], outputs=tmp_path / "out", prompts="p.csv")


def changed(path, edit):
    """Write a bundle again with its entries edited: ``{name: bytes}`` in place, ``ZipInfo``s in `edit`'s hands."""
    with zipfile.ZipFile(path) as packed:
        entries = {name: packed.read(name) for name in packed.namelist()}
    edit(entries)
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in entries.items():
            packed.writestr(name, data)
    return str(path)


def manifest_with(**more):
    def edit(entries):
        told = json.loads(entries["mine-bundle/bundle.json"])
        entries["mine-bundle/bundle.json"] = json.dumps(told | more).encode()

    return edit


def link(entries):
    info = zipfile.ZipInfo("mine-bundle/inputs/link.csv")
    info.external_attr = 0o120777 << 16
    entries[info] = b"/etc/passwd"


def holds(name, data=b""):
    return lambda entries: entries.update({f"mine-bundle/{name}": data})


def lacks(name):
    return lambda entries: entries.pop(f"mine-bundle/{name}")


BAD = {
    r"damaged: .* inputs/custom.prompts.csv is not the one": holds("inputs/custom.prompts.csv", b"prompt\nanother\n"),
    r"damaged: its digest does not match, as prompts.csv is missing": lacks("prompts.csv"),
    r"damaged: its digest does not match, as more.txt is not the one": holds("more.txt"),
    r"damaged: its digest does not match that of its files": manifest_with(digest="0" * 64),
    r"is damaged, or no zip file": manifest_with(files=3),
    r"is a bundle of format 2, and this version of biaslab reads 1: update it": manifest_with(format=2),
    r"is no bundle: it holds no bundle.json with params.yaml": lacks("bundle.json"),
    r"holds 'mine-bundle/../../out.csv', a link or outside of its folder": holds("../../out.csv"),
    r"holds '/etc/out.csv', a link or outside": lambda entries: entries.update({"/etc/out.csv": b""}),
    r"holds 'mine-bundle/inputs/link.csv', a link or": link,
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_damaged_newer_or_leads_elsewhere_is_refused_and_nothing_is_written(given, tmp_path, message):
    path = changed(export.export(**given), BAD[message])
    with pytest.raises(InputError, match=message):
        bundle.params_of([path], ["mini-sd"], outputs=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_no_zip_or_not_there_or_too_large_says_so(given, tmp_path, monkeypatch):
    (tmp_path / "a.zip").write_bytes(b"PK no zip")
    monkeypatch.setattr(bundle, "_MOST_BYTES", 100)
    for path, message in (
        (tmp_path / "a.zip", "is damaged, or no zip file"),
        (tmp_path / "b.zip", "There is no bundle"),
        (export.export(**given), r"holds \S+ of more than 100 bytes"),
    ):
        with pytest.raises(InputError, match=message):
            bundle.params_of([str(path)], ["mini-sd"], outputs=tmp_path / "out")


def test_prompts_and_groups_of_digits_alone_stay_what_they_are(tmp_path):
    people = {"model": "a", "group": "007", "prompt": "0042", "image_id": ["0", "1"], "position": 1}
    pd.DataFrame(people).to_csv(tmp_path / "custom_people.csv", index=False)
    (found,) = asking.files_of(tmp_path).values()
    assert found.to_numpy().tolist() == [["0042", "007", 2, 1]]


def test_a_key_in_a_prompt_is_not_sent(leave, pictures, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", PROMPTS[0])
    run = leave(f"images:{pictures}", [f"{k}.png" for k in range(4)], {"compare_with": "none"})
    with pytest.raises(RunError, match="holds the key in the environment variable MY_API_KEY"):
        export.export(**run)
    assert not list((tmp_path / "outputs").glob("*.zip*"))


def test_what_makes_no_images_or_has_several_settings_is_no_bundle(given, leave, tmp_path):
    run = tmp_path / "outputs" / "mine"
    with pytest.raises(ParameterError, match=r"'images:theirs'|theirs is not a folder.* name them with --set"):
        export.export(**given | {"overrides": []})
    (run / "params.yaml").write_text("run: mine\nsource: published\nnotebooks: [paradox/4_baseline]\n", "utf-8")
    with pytest.raises(ParameterError, match="makes no images, so there is nothing to repeat"):
        export.export(**given | {"overrides": []})
    twice = leave("images:x", list("abcd"), [{"people": {"occupations": 1}}], name="twice")
    with pytest.raises(ParameterError, match="twice has several settings"):
        export.export(**twice)
    with pytest.raises(ParameterError, match="add --bundle"):
        export.export(**given | {"as_bundle": False})


def test_images_that_a_model_made_are_in_it_with_their_seeds(leave, tmp_path):
    pytest.importorskip("torch", reason="models need the extra 'models'")
    settings = {"compare_with": "none", "custom": {"prompts": "mine.csv"}, "generation": {"steps": 1}}
    ids = [f"custom-0000{k // 2}/{k % 2}" for k in range(4)]
    run = leave("mini-sd", ids, settings) | {"overrides": [f"compute.store={tmp_path / 'store'}"]}
    with pytest.raises(ParameterError, match=r"Of 4 images that mine asks of mini-sd, 0 are in the store"):
        export.export(**run)
    pd.DataFrame({"prompt": PROMPTS, "n": 2}).to_csv(tmp_path / "p.csv", index=False)
    settings |= {"custom": {"prompts": str(tmp_path / "p.csv")}, "compute": {"store": str(tmp_path / "store")}}
    made = Pipeline("mini-sd", Settings(**settings), seed=7, progress=False).custom.images()
    top = unpacked(export.export(**run), tmp_path / "one")
    images = pd.read_csv(top / "images.csv").set_index("image_id")
    for image_id, pixels in zip(ids, made.read(ids), strict=True):
        prompt, _, index = image_id.partition("/")
        assert images["seed"][image_id] == generator.image_seed(7, prompt, int(index))
        path = top / "images" / "custom" / "mini-sd" / images["file"][image_id]
        np.testing.assert_array_equal(np.asarray(Image.open(path)), pixels)
    # What draws stays what draws, so that its own judges look at it again.
    found = audit.params_of([f"images:{path.parents[1]}"])
    assert found["settings"].get("judging", {}).get("gender") != "dlib"


PAPERS = """
run: small
source: pipeline
model: world
seed: 3
settings:
  compare_with: none
  captions: {corpus: mini, occupations: [nurse], rows: 2000, per_occupation: 4, approaches: [naive]}
  generation: {images_per_prompt: 2}
  people: {occupations: 2, power_runs: 1, three_prompts: 0, single_images: 1}
notebooks: ["paradox/4_*", "paired/4_4_occupations"]
"""


def test_of_papers_it_holds_prompts_and_what_judges_said_of_each_image(tmp_path, root, monkeypatch):
    pytest.importorskip("torch", reason="models need the extra 'models'")
    monkeypatch.chdir(root)
    (run := tmp_path / "outputs" / "small").mkdir(parents=True)
    (run / "params.yaml").write_text(PAPERS, encoding="utf-8")
    record = {"run": "small", "files": {}, "parameters": yaml.safe_load(PAPERS)}
    for name in ("run", "notebooks"):
        del record["parameters"][name]
    (run / "run.json").write_text(json.dumps(record), encoding="utf-8")
    how = {"outputs": tmp_path / "outputs", "as_bundle": True, "overrides": [f"compute.store={tmp_path / 'store'}"]}
    # Nobody is judged to pack a bundle.
    bare = unpacked(export.export("small", **how), tmp_path / "a")
    assert not (bare / "judgements").exists()
    assert "what judges said of world's generated: it is not in the store" in (bare / "README.txt").read_text("utf-8")
    checked = params.load(run / "params.yaml", overrides=how["overrides"])
    for pipeline, *_ in jobs.pipelines(jobs.plan(checked)):
        pipeline.judgements("generated")
    top = unpacked(export.export("small", **how), tmp_path / "b")
    prompts, images = (pd.read_csv(top / f"{name}.csv") for name in ("prompts", "images"))
    templates = prompts[prompts["kind"] == "generated"]
    # Four templates, two images each; then people alone and in pairs.
    assert templates["n_images"].tolist() == [2] * 4 and templates["text"].str.contains("nurse").all()
    assert {"single", "paired"} <= set(prompts["kind"]) and prompts["text"].notna().all()
    assert prompts["n_images"].sum() == len(images)
    judged = pd.read_csv(top / "judgements" / "world-generated.csv")
    assert set(judged["image_id"]) == set(images.loc[images["kind"] == "generated", "image_id"])
    assert judged["outcome"].notna().all() and len(judged) == 8
    # Whoever repeats it has the captions, for a package brings them.
    assert yaml.safe_load((top / "params.yaml").read_text("utf-8"))["settings"]["captions"]["corpus"] == "mini"
