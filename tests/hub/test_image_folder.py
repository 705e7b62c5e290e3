"""Folders of existing images: groups, prompts inside images, and refusals."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from biaslab.analyses.custom.matching import unmatched
from biaslab.analyses.custom.stages import Custom, read_prompts
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import InputError, MissingInputError
from biaslab.generation.models import open_model
from biaslab.generation.settings import GenerationSettings
from biaslab.hub.image_folder import ImageFolder
from biaslab.io import image_files
from biaslab.pipeline import Pipeline
from biaslab.planning.plan import plan_of
from biaslab.settings import Settings

PROMPT = "a photo of a nurse"


def draw(path, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), 200, np.uint8)).save(path, **options)
    return path


def text_chunks(**texts):
    info = PngInfo()
    for name, text in texts.items():
        info.add_text(name, text)
    return {"pnginfo": info}


def table(folder, text, name="pictures.csv"):
    for file in ("a.png", "b.png", "deep/c.png"):
        draw(folder / file)
    (folder / name).write_text(text)
    return ImageFolder(str(folder))


# -- groups of images ------------------------------------------------------------------------------------


def test_image_folder_subfolders_are_groups(tmp_path):
    for file in ("nurse/1.png", "nurse/deeper/2.png", "chef/1.png"):
        draw(tmp_path / file)
    folder = ImageFolder(str(tmp_path))
    groups = {"chef/1.png": "chef", "nurse/1.png": "nurse", "nurse/deeper/2.png": "nurse"}
    rows = [(image_id, group, group, 1, "") for image_id, group in groups.items()]
    assert folder.models == []
    assert list(folder.people.itertuples(index=False, name=None)) == rows


def test_image_folder_table_overrides_subfolders(tmp_path):
    folder = table(tmp_path, f"file;prompt;group\na.png;{PROMPT};nurse\n./deep\\c.png;a chef;\n")
    assert folder.undescribed_images == ["b.png"]
    rows = [["a.png", PROMPT, "nurse"], ["deep/c.png", "a chef", "a chef"]]
    assert folder.people[["image_id", "prompt", "group"]].to_numpy().tolist() == rows


def test_image_folder_table_with_models_and_positions(tmp_path):
    text = "file,group,model,position\na.png,chef,B,right\na.png,nurse,B,left\nb.png,chef,A,\n"
    both_models = table(tmp_path, text)
    assert both_models.models == ["A", "B"]
    with pytest.raises(InputError, match=r"'A', 'B'.*::A"):
        _ = both_models.people
    folder = ImageFolder(f"{tmp_path}::B")
    assert folder.name == "B" and folder.people["group"].tolist() == ["nurse", "chef"]
    # The prompt is the group of the first person.
    prompt_rows = read_prompts(folder)
    assert prompt_rows[["text", "n_images", "people"]].to_numpy().tolist() == [["nurse", 1, 2]]
    with pytest.raises(InputError, match=r"'C'.*'A', 'B'"):
        _ = ImageFolder(f"{tmp_path}::C").people


WEB_UI = f"{PROMPT}\nNegative prompt: ugly\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 1"


def test_image_folder_reads_prompts_inside_images(tmp_path):
    draw(tmp_path / "one.png", **text_chunks(parameters=WEB_UI))
    draw(tmp_path / "chef/two.png")
    (tmp_path / "chef/three.png").write_bytes(b"no picture")
    folder = ImageFolder(str(tmp_path))
    assert folder.people[["prompt", "group"]].to_numpy().tolist() == [["chef"] * 2, ["chef"] * 2, [PROMPT] * 2]


# -- what is refused ---------------------------------------------------------------------------------------


def test_image_folder_without_groups_is_refused(tmp_path):
    for k in range(3):
        draw(tmp_path / f"{k}.png")
    with pytest.raises(InputError, match=r"0\.png and 2 more images"):
        _ = ImageFolder(str(tmp_path)).people


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("file,prompt\nno.png,a chef\n", "'no.png'"),
        ("file,prompt\na.png,a chef\na.png,a nurse\n", "'a.png' occurs twice"),
        ("file,prompt,position\na.png,a chef,middle\n", "'middle'"),
        ("file,prompt,position\na.png,a chef,2\n", "'a.png'"),
        ("file,prompt\na.png,\n", "'a.png'"),
        ("file,style\na.png,oil\n", "neither prompt nor group"),
        ("file,group,model\na.png,chef,A\nb.png,chef,\n", "'b.png' has no model"),
        ("picture,prompt\na.png,a chef\n", "no column 'file'"),
    ],
)
def test_image_folder_invalid_table_is_refused(tmp_path, text, names):
    folder = table(tmp_path, text)
    with pytest.raises(InputError, match=names):
        _ = folder.people


def test_image_folder_with_two_tables_is_refused(tmp_path):
    (tmp_path / "other.csv").write_text("file,prompt\na.png,a chef\n")
    with pytest.raises(InputError, match=r"other\.csv, pictures\.csv"):
        _ = table(tmp_path, "file,prompt\na.png,a chef\n").people


# -- as a model ----------------------------------------------------------------------------------------------


def pipeline(folder, **custom):
    judging = {"gender": "ViT-B-32:openai", "faces": "whole image"}
    settings = Settings.from_mapping({"custom": custom, "captions": {"approaches": []}, "judging": judging})
    return Pipeline(f"images:{folder}", settings, progress=False)


def test_custom_prompts_count_images_per_group(tmp_path):
    for group, n in (("Kenya", 2), ("Peru", 3)):
        for k in range(n):
            draw(tmp_path / group / f"{k}.png", **text_chunks(parameters=WEB_UI))
    with pytest.raises(InputError, match=r"prompt \(1: .*folder\[1\] \(2: 'Kenya', 'Peru'\).*--group-by"):
        pipeline(tmp_path).part(Custom).prompts()
    grouped = pipeline(tmp_path, group_by="folder[1]").part(Custom)
    assert grouped.prompts()["n_images"].tolist() == [2, 3] and grouped.groups() == ["Kenya", "Peru"]
    counts = grouped.images().table.groupby("group")["image_id"].agg(["size", "first"])
    assert counts.to_numpy().tolist() == [[2, "Kenya/0.png"], [3, "Peru/0.png"]]
    plan = plan_of(pipeline(tmp_path, group_by="folder[1]")).of_tables(["custom_people"])
    assert plan.requests[0].n_images == plan.requests[0].n_cached == 5
    assert "custom.group_by" in plan.settings_read


def test_prompts_file_selects_prompts_and_groups(tmp_path):
    for name in ("nurse", "chef"):
        draw(tmp_path / "pictures" / name / "1.png")
    file = tmp_path / "mine.csv"
    file.write_text("prompt,group\nNurse,care\na pilot,travel\n")
    table = pipeline(tmp_path / "pictures", prompts_file=str(file)).part(Custom).images().table
    assert table[["image_id", "group"]].to_numpy().tolist() == [["nurse/1.png", "care"]]
    file.write_text("prompt\na pilot\n")
    with pytest.raises(InputError, match=r"'a pilot'.*'chef', 'nurse'"):
        plan_of(pipeline(tmp_path / "pictures", prompts_file=str(file))).table("custom_people")


def test_custom_group_named_all_is_refused(tmp_path):
    draw(tmp_path / "all/1.png")
    with pytest.raises(InputError, match="'all'"):
        plan_of(pipeline(tmp_path)).table("custom_benchmark")


def prompt_rows(*texts, n=2):
    ids = [f"p{k}" for k in range(len(texts))]
    return pd.DataFrame({"prompt_id": ids, "text": texts, "n_images": n})


def test_image_folder_model_generates_existing_images(tmp_path):
    for k in range(3):
        draw(tmp_path / f"{k}.png", **text_chunks(parameters=WEB_UI))
    extra = {"endpoint": EndpointSettings(), "corpus": lambda: pytest.fail("read")}
    model = open_model(f"images:{tmp_path}", GenerationSettings(), **extra)
    prompts = prompt_rows("A photo of  a nurse.", "a chef")
    assert model.n_cached(prompts, seed=1, cache=None) == 2
    images = model.generate(prompts, seed=1, cache=None)
    result = images.table[["image_id", "prompt_id", "index"]].to_numpy().tolist()
    assert result == [["0.png", "p0", 0], ["1.png", "p0", 1]]
    assert images.read(["1.png"])[0].shape == (8, 8, 3)
    with pytest.raises(MissingInputError, match="'a chef'"):
        model.generate(prompt_rows("a chef"), seed=1, cache=None)


# -- folders of image tools ------------------------------------------------------------------------------


def test_image_folder_ignores_day_folders_and_grids(tmp_path):
    for day in ("2024-05-01", "2024-05-02"):
        for k, prompt in enumerate((PROMPT, "a photo of an engineer")):
            draw(
                tmp_path / f"txt2img-images/{day}/0000{k}-1.png",
                **text_chunks(parameters=WEB_UI.replace(PROMPT, prompt)),
            )
    draw(tmp_path / "txt2img-images/2024-05-02/grid-0000.png", **text_chunks(parameters=WEB_UI))
    draw(tmp_path / "txt2img-grids/2024-05-02/grid-0001-7.png", **text_chunks(parameters=WEB_UI))
    folder = ImageFolder(str(tmp_path))
    counts = folder.people.groupby("group")["prompt"].agg(["size", "first"])
    assert counts.to_dict("index") == {g: {"size": 2, "first": g} for g in (PROMPT, "a photo of an engineer")}
    assert list(folder.left_out) == ["grid of several images"] and len(folder.left_out["grid of several images"]) == 2


def test_image_folder_counts_images_without_prompt(tmp_path):
    negative = WEB_UI.removeprefix(PROMPT + "\n")
    for k, text in enumerate((WEB_UI, negative, negative)):
        draw(tmp_path / f"{k}.png", **text_chunks(parameters=text))
    draw(tmp_path / "3.png", **text_chunks(prompt="{"))
    draw(tmp_path / "4.png")
    folder = ImageFolder(str(tmp_path))
    assert folder.people[["image_id", "group"]].to_numpy().tolist() == [["0.png", PROMPT]]
    assert folder.remarks == [
        "Excluded (no prompt and no group): 4, such as 1.png.",
        "Prompts embedded in images: 1 of 5 images have one (Stable Diffusion web UI 1).",
        "Embedded texts without a readable prompt (Stable Diffusion web UI, no positive prompt): 2, such as 1.png.",
        "Embedded texts without a readable prompt (ComfyUI, damaged JSON): 1, such as 3.png.",
    ]
    (tmp_path / "0.png").unlink()
    with pytest.raises(InputError, match=r"no positive prompt\): 2, such as 1\.png.*folder\[1\]"):
        _ = ImageFolder(str(tmp_path)).people


def test_unmatched_lists_grids_and_unread_texts(tmp_path):
    draw(tmp_path / "nurse/0.png", **text_chunks(prompt="{"))
    draw(tmp_path / "nurse/grid-0001.png")
    said = [text.partition(": ")[2] for text in unmatched([pipeline(tmp_path)])]
    assert said == [
        "Excluded (grid of several images): 1, such as nurse/grid-0001.png.",
        "Embedded texts without a readable prompt (ComfyUI, damaged JSON): 1, such as nurse/0.png.",
    ]


def test_group_by_accepts_column_and_path_pattern(tmp_path):
    text = "file,prompt,style\na.png,a chef,oil\nb.png,a nurse,photo\ndeep/c.png,a chef,photo\n"
    table(tmp_path, text)

    def groups(rule):
        return ImageFolder(str(tmp_path), rule).people["group"].tolist()

    assert groups("style") == ["oil", "photo", "photo"] and groups("prompt") == ["a chef", "a nurse", "a chef"]
    assert groups(r"([abc])\.png") == ["a", "b", "c"]
    with pytest.raises(InputError, match=r"--group-by is 'studio'.*column"):
        groups("studio")
    with pytest.raises(InputError, match=r"file a\.png.*no group by --group-by|'a\.png' has no group"):
        groups("folder[1]")


TOOLS = {
    "web": lambda prompt: {"parameters": WEB_UI.replace(PROMPT, prompt)},
    "comfy": lambda prompt: {
        "prompt": json.dumps(
            {
                "6": {"class_type": "CLIPTextEncode", "inputs": {"text": prompt}},
                "3": {"class_type": "KSampler", "inputs": {"positive": ["6", 0], "seed": 1}},
            }
        )
    },
    "swarm": lambda prompt: {"parameters": json.dumps({"sui_image_params": {"prompt": prompt}})},
    "fooocus": lambda prompt: {"parameters": json.dumps({"prompt": prompt, "metadata_scheme": "fooocus"})},
    "invoke": lambda prompt: {"invokeai_metadata": json.dumps({"positive_prompt": prompt})},
    "midjourney": lambda prompt: {"Description": f"{prompt} --v 7 Job ID: 0-0"},
}


def mixed_folder(folder, n=1_000):
    """Write files of six tools in day folders: images of ten prompts, and others in the ratio of one to nine."""
    n_made = Counter()
    raw = {e: draw(folder.parent / f"bare.{e}").read_bytes() for e in ("jpg", "png")}
    for k in range(n):
        day = folder / f"2025-06-{1 + k % 20:02}"
        day.mkdir(parents=True, exist_ok=True)
        tool, prompt = list(TOOLS)[k % 6], f"a photo of worker {k % 10}"
        kind = ("grid", "jxl", "text", "no prompt", "jfif", "unread")[k // 10 % 6] if k % 10 == 9 else "image"
        n_made[kind] += 1
        if kind in ("jxl", "text"):
            (day / f"{k}.{'jxl' if kind == 'jxl' else 'txt'}").write_bytes(b"....ftypjxl")
        elif kind == "jfif":
            (day / f"{k}.jfif").write_bytes(raw["jpg"])
        else:
            texts = {"image": TOOLS[tool](prompt), "grid": TOOLS["web"](prompt), "unread": {"prompt": "{"}}
            name = f"grid-{k:04}.png" if kind == "grid" else f"{k:05}-7.png"
            draw(day / name, **text_chunks(**texts.get(kind, {})))
    return n_made


def test_image_folder_counts_mixed_images_of_six_tools(tmp_path):
    n_made = mixed_folder(tmp_path / "mixed")
    folder = ImageFolder(str(tmp_path / "mixed"))
    left_out = {reason: len(names) for reason, names in folder.left_out.items()}
    assert left_out == {
        "grid of several images": n_made["grid"],
        "format not read": n_made["jxl"],
        "not an image": n_made["text"],
        "no prompt and no group": n_made["no prompt"] + n_made["jfif"] + n_made["unread"],
    }
    assert len(folder.people) == n_made["image"] == 900
    assert sum(left_out.values()) + len(folder.people) == 1_000
    # One in ten of the prompts, the tenth, has the other files.
    assert folder.people.groupby("group").size().to_dict() == {f"a photo of worker {k}": 100 for k in range(9)}
    # Every tenth file is of another kind (17 each of the first four, 16 of the others), and of an odd tool.
    tools = "Stable Diffusion web UI 167, SwarmUI 167, InvokeAI 166, ComfyUI 134, Fooocus 133, Midjourney 133"
    assert f"Prompts embedded in images: 900 of 949 images have one ({tools})." in folder.remarks
    assert any("(ComfyUI, damaged JSON): 16, such as" in said for said in folder.remarks)


# -- formats ---------------------------------------------------------------------------------------------


def test_image_folder_reads_jfif_and_lists_unread_formats(tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "_reads_heif", lambda: False)
    for k, ending in enumerate(("jpg", "jfif", "JPE")):
        (tmp_path / "nurse").mkdir(exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), 60 * k, np.uint8)).save(tmp_path / f"nurse/{k}.{ending}", "JPEG")
    for name in ("3.heic", "4.HEIC", "5.jxl"):
        (tmp_path / "nurse" / name).write_bytes(b"....ftypheic")
    (tmp_path / "nurse/notes.txt").write_text("no image")
    folder = ImageFolder(str(tmp_path))
    assert list(folder.people["image_id"]) == ["nurse/0.jpg", "nurse/1.jfif", "nurse/2.JPE"]
    assert [image.shape for image in folder.read(list(folder.people["image_id"]))] == [(8, 8, 3)] * 3
    assert folder.left_out == {
        "format not read": ["nurse/3.heic", "nurse/4.HEIC", "nurse/5.jxl"],
        "not an image": ["nurse/notes.txt"],
    }


def test_image_folder_of_unread_formats_is_refused(tmp_path):
    (tmp_path / "a.jxl").write_bytes(b"....ftypheic")
    with pytest.raises(
        InputError, match=r"contains no file that ends in .* Images in unsupported formats .*: 1, such as a\.jxl"
    ):
        ImageFolder(str(tmp_path))


def test_image_folder_table_naming_unread_format_is_refused(tmp_path):
    (tmp_path / "d.jxl").write_bytes(b"....ftypheic")
    with pytest.raises(InputError, match=r"its format is not supported; convert it to PNG or JPEG"):
        _ = table(tmp_path, "file,group\na.png,nurse\nd.jxl,nurse\n").people


def test_heic_image_is_read_with_its_prompt(tmp_path):
    pytest.importorskip("pillow_heif", reason="pillow-heif, of the extra heif, is not installed")
    image_files.endings()
    exif = Image.Exif()
    exif[0x0131] = "a program"
    exif.get_ifd(0x8769)[0x9286] = b"UNICODE\0" + WEB_UI.encode("utf-16-be")
    Image.new("RGB", (32, 32), "red").save(tmp_path / "a.heic", "HEIF", exif=exif.tobytes())
    folder = ImageFolder(str(tmp_path))
    assert folder.people["prompt"].tolist() == [PROMPT] and folder.not_read == []
    assert folder.read(["a.heic"])[0].shape == (32, 32, 3)


# -- hostile texts -----------------------------------------------------------------------------------------


def prompts_in(folder):
    return ImageFolder(str(folder)).people.set_index("image_id")["prompt"].to_dict()


def test_image_folder_long_prompt_is_truncated_and_counted(tmp_path):
    draw(tmp_path / "q/1.png", **text_chunks(parameters="word " * 1200 + "end\nSteps: 1"))
    # 6,003 characters in all.
    (text,) = prompts_in(tmp_path).values()
    assert text == ("word " * 800) + "\u2026 (2,003 more characters)"


def test_image_folder_prompt_is_cleaned_and_redacted(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/data/people/alice")
    draw(tmp_path / "q/1.png", **text_chunks(parameters="a nurse\0 in\x1b /data/people/al\0ice/x.png\nSteps: 1"))
    assert prompts_in(tmp_path) == {"q/1.png": "a nurse in ~/x.png"}


def test_image_folder_table_paths_are_redacted(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/data/people/alice")
    folder = table(tmp_path, "file,prompt\na.png,as in /data/people/alice/x.png\n")
    assert folder.people["prompt"].tolist() == folder.people["group"].tolist() == ["as in ~/x.png"]
