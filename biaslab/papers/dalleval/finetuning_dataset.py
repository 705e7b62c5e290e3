"""Export of PaintSkills' released scenes as a dataset for the training scripts of diffusers and transformers.

``train/`` and ``test/`` are an imagefolder of the library ``datasets``: images, and ``metadata.jsonl`` with the caption
and the boxes of each. ``annotations/`` has the boxes as COCO detections; ``README.md`` declares columns and classes.

Source: dalleval paper, sections 3.2 and 4.1, which fine-tunes models and the detector on them (Tables 2, 3 and 5).
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from biaslab.errors import InputError, ParameterError
from biaslab.hub.image_sources import CaptionImages
from biaslab.io.image_files import UnreadableImage
from biaslab.papers.dalleval import paintskills
from biaslab.papers.dalleval.prompts import CLASSES

_CATEGORIES = {name: number for number, name in enumerate(CLASSES)}


def export(folder: str | Path, output: str | Path) -> pd.DataFrame:
    """Write the scenes of PaintSkills' folder as a dataset into a new or empty folder, and return what was written.

    Images are hard links to those of ``folder``, or copies where the file system has no such links. Memory holds one
    image at a time, and the texts and boxes of all scenes.

    Returns one row per split: ``split``, numbers of ``images`` and ``boxes`` written, ``no_box`` (images in which no
    object is visible), and the numbers of excluded scenes: ``missing`` and ``unreadable`` images.

    Raises:
        ParameterError: ``output`` is not empty, or a file.
        InputError: ``folder`` has no images, no scenes of a split, or no boxes of a skill; or a file cannot be read.
    """
    target = Path(output).expanduser()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ParameterError(
            f"--output is {output}, which exists and is not an empty folder. Choose a new or empty folder."
        )
    splits = {"train": paintskills.scenes(folder, "train"), "test": paintskills.scenes(folder, "val")}
    boxes = {"train": paintskills.boxes(folder, splits["train"], "train")}
    boxes["test"] = paintskills.boxes(folder, splits["test"], "val")
    for name, scenes in splits.items():
        has_box = scenes["prompt_id"].isin(boxes[name]["image_id"])
        if skills := sorted(set(scenes["skill"]) - set(scenes.loc[has_box, "skill"])):
            raise InputError(
                f"{folder} contains no boxes for {name} scenes of the skill {skills[0]}, so a detector would learn to "
                f"detect nothing in them. Unpack {skills[0]}.zip of the release again."
            )
    scenes = pd.concat([table.assign(split=name) for name, table in splits.items()], ignore_index=True)
    if (is_repeated := scenes["prompt_id"].duplicated()).any():
        scene_id = scenes.loc[is_repeated, "prompt_id"].iloc[0]
        raise InputError(f"{folder} contains the scene {scene_id!r} in both splits. Unpack the release again.")
    images = CaptionImages(folder, [f"image_{name}" for name in scenes["prompt_id"]])
    if not any(map(images.has, images.table["image_id"])):
        example = f"{images.table['image_id'].iloc[0]}.png"
        raise InputError(
            f"{folder} contains none of the {len(scenes):,} images of its scenes, such as {example}. Unpack the "
            "release again."
        )
    (target / "annotations").mkdir(parents=True)
    rows = [_write_split(target, name, scenes[scenes["split"] == name], boxes[name], images) for name in splits]
    (target / "README.md").write_text(_card(), encoding="utf-8", newline="\n")
    return pd.DataFrame(rows, columns=["split", "images", "boxes", "no_box", "missing", "unreadable"])


def _write_split(target: Path, name: str, scenes: pd.DataFrame, boxes: pd.DataFrame, images: CaptionImages) -> tuple:
    """Write the images, metadata and annotations of a split, and return its row of :func:`export`."""
    rows_of, sides = boxes.groupby("image_id").indices, boxes[["left", "top", "right", "bottom"]].to_numpy(float)
    categories, counts = boxes["label"].map(_CATEGORIES).to_numpy(int), {"no_box": 0, "missing": 0, "unreadable": 0}
    coco: dict[str, list] = {"images": [], "annotations": []}
    coco["categories"] = [{"id": number, "name": label} for label, number in _CATEGORIES.items()]
    (target / name).mkdir()
    with (target / name / "metadata.jsonl").open("w", encoding="utf-8", newline="\n") as metadata:
        for number, scene, text, skill in scenes[["prompt_id", "text", "skill"]].itertuples():
            file, (pixels,) = images.file(f"image_{scene}"), images.read([f"image_{scene}"])
            if file is None or isinstance(pixels, UnreadableImage):
                counts["missing" if file is None else "unreadable"] += 1
                continue
            height, width, _ = pixels.shape
            places = rows_of.get(scene, np.empty(0, int))
            counts["no_box"] += not len(places)
            left_top, right_bottom = sides[places, :2] * (width, height), sides[places, 2:] * (width, height)
            bbox = np.concatenate([left_top, right_bottom - left_top], axis=1).round(3)
            objects = {
                "id": [len(coco["annotations"]) + k + 1 for k in range(len(places))],
                "area": (bbox[:, 2] * bbox[:, 3]).tolist(),
                "bbox": bbox.tolist(),
                "category": categories[places].tolist(),
            }
            image = {"file_name": f"{number:08}{file.suffix.lower()}", "width": width, "height": height}
            row = image | {"image_id": number, "text": text, "skill": skill, "scene_id": scene, "objects": objects}
            metadata.write(json.dumps(row) + "\n")
            coco["images"].append(image | {"id": number, "file_name": f"{name}/{image['file_name']}"})
            for box, area, sizes, category in zip(*objects.values(), strict=True):
                annotation = {"id": box, "image_id": number, "category_id": category, "bbox": sizes, "area": area}
                coco["annotations"].append(annotation | {"iscrowd": 0})
            _link(file.resolve(), target / name / image["file_name"])
    (target / "annotations" / f"{name}.json").write_text(json.dumps(coco), encoding="utf-8")
    return (name, len(coco["images"]), len(coco["annotations"]), *counts.values())


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    # The folders are on two file systems, or on one without hard links.
    except OSError:
        shutil.copyfile(source, target)


def _card() -> str:
    """Return the dataset card, from which ``datasets`` reads the class names that training scripts expect."""
    columns = {"image": "image", "width": "int64", "height": "int64", "image_id": "int64"}
    columns |= dict.fromkeys(("text", "skill", "scene_id"), "string")
    labels = {"class_label": {"names": {str(number): label for label, number in _CATEGORIES.items()}}}
    objects = {"id": "int64", "area": "float64", "bbox": {"sequence": "float64"}, "category": labels}
    features: list[dict] = [{"name": name, "dtype": kind} for name, kind in columns.items()]
    struct = [{"name": name, "sequence": feature} for name, feature in objects.items()]
    features.append({"name": "objects", "struct": struct})
    head = yaml.safe_dump({"configs": [{"config_name": "default", "features": features}]}, sort_keys=False)
    return f"---\n{head}---\n# PaintSkills for fine-tuning\n\nWritten by `biaslab export-dataset paintskills`.\n"
