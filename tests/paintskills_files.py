"""Files of PaintSkills, as its authors' simulator writes them."""

import json


def thing(shape, relation=None, number=0):
    """An object as the simulator writes it."""
    look = {"color": "plain", "scale": 1.0, "texture": "plain", "rotation": [0, 90, 0], "state": "idle"}
    return {"id": number, "shape": shape, "relation": relation} | look


def scene(name, *objects, skill="object", text="a photo of dog"):
    return {"id": name, "scene": "empty", "text": text, "skill": skill, "split": "val", "objects": list(objects)}


def put(folder, skill, data, split="val"):
    """Write scenes, or other content, to their file."""
    file = folder / skill / "scenes" / f"{skill}_{split}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    text_of_file = data if isinstance(data, str) else json.dumps({"data": data} if isinstance(data, list) else data)
    file.write_text(text_of_file, encoding="utf-8")
    return file


def put_boxes(folder, skill, boxes):
    file = folder / skill / f"{skill}_val_bounding_boxes.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(boxes if isinstance(boxes, str) else json.dumps(boxes), encoding="utf-8")
    return file


def pictured(number, name, width=200, height=100):
    return {"id": number, "file_name": name, "width": width, "height": height, "license": 1}


def annotation(image_id, category, bbox):
    more = {"area": 1.0, "iscrowd": 0, "segmentation": [], "color": "plain"}
    return {"id": 1, "image_id": image_id, "category_id": category, "bbox": bbox} | more


def coco(*annotations, images=None, categories=None):
    return {
        "info": {"year": 2022},
        "categories": categories or [{"id": 5, "name": "fireHydrant"}, {"id": 9, "name": "human"}],
        "images": images or [pictured(1, "image_a.png"), pictured(2, "images/image_b.png", 50, 50)],
        "annotations": list(annotations),
    }
