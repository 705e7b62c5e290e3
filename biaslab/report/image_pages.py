"""Pages of generated images: strips by group for a run's index page, and one page per model with its images."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from biaslab.judges.judge_labels import JUDGED, UNCERTAIN
from biaslab.report.dotplots import number
from biaslab.report.pages import asset, write_from
from biaslab.schema.genders import GENDERS

if TYPE_CHECKING:
    import pandas as pd
    from PIL.Image import Image

    from biaslab.hub.image_sources import ImageSource

MAX_IMAGES = 2_000
"""Maximum number of images on a model's page; of more images, the first of each group are shown."""
ROWS, SIDE_BY_SIDE = 4, 8
"""Maximum number of groups in a strip, and of images in a group."""
STRIP_BYTES, PAGE_BYTES = 500_000, 6_000_000
"""Maximum bytes of images before encoding: of all strips of a run, and of a model's page."""
# Longer sides in pixels; the largest that fits is used, and images are never enlarged.
_SIDES = (256, 192, 128, 96, 64, 48)
_QUALITY, _TRIED, _AT_A_TIME = 82, 24, 32
# The mark below an image for each person, and its meaning.
MARKS = {"f": "female", "m": "male", "u": "unclear", "r": "matches the prompt", "n": "not judged"}
_GENDER_MARKS = {"female": "f", "male": "m"}


class ModelImages(NamedTuple):
    """Images of one kind that a model generated, and the people in them."""

    paper: str
    kind: str
    title: str  # The kind of images, in words.
    model: str
    people: pd.DataFrame  # As `people_in_images` of the paper's `measure` module returns them.
    images: ImageSource


def strips(image_sets: Sequence[ModelImages]) -> list[dict[str, Any]]:
    """Return one strip for each set of a model's images: a subset of its groups, with a subset of their images.

    Groups with enough images are chosen evenly between the highest and the lowest share perceived as female, and images
    of a group likewise. All strips together take at most :data:`STRIP_BYTES`.
    """
    image_sets = [
        model_images._replace(people=model_images.people[~model_images.people["apart"]])
        if "apart" in model_images.people
        else model_images
        for model_images in image_sets
    ]
    selections = [(model_images, _rows(model_images.people)) for model_images in image_sets]
    side = _side(
        [(model_images.images, i) for model_images, rows in selections for row in rows for i in row["ids"]], STRIP_BYTES
    )
    strips_found = []
    for model_images, rows in selections:
        image_ids = [image_id for row in rows for image_id in row["ids"]]
        sources = dict(zip(image_ids, data_urls(model_images.images, image_ids, side), strict=True))
        by_image = _by_image(model_images.people)
        for row in rows:
            row["pictures"] = [_describe_image(by_image[i], sources[i]) for i in row.pop("ids") if sources[i]]
        shown_rows = [row for row in rows if row["pictures"]]
        group_shares = (_share(people) for _, people in model_images.people.groupby("group"))
        shares = [share["percent"] for share in group_shares if share]
        summary = {
            "groups": model_images.people["group"].nunique(),
            "mean": sum(shares) / len(shares) if shares else None,
        }
        summary["judged_groups"] = len(shares)
        labels = {key: getattr(model_images, key) for key in ("paper", "kind", "title", "model")}
        if shown_rows:
            n_images = model_images.people["image_id"].nunique()
            strips_found.append(labels | {"rows": shown_rows, "images": n_images} | summary)
    return strips_found


def write_model(path: Path, model: str, image_sets: Sequence[ModelImages], *, index: str) -> dict[str, Any]:
    """Write the page of a model's images, and return the numbers of images and of shown images, and their side."""
    selections = [(model_images, _spread(model_images.people, image_sets)) for model_images in image_sets]
    side = _side([(model_images.images, image_id) for model_images, ids in selections for image_id in ids], PAGE_BYTES)
    pictures = []
    for model_images, ids in selections:
        by_image = _by_image(model_images.people)
        for image_id, source in zip(ids, data_urls(model_images.images, ids, side), strict=True):
            labels = {"called": model_images.title, **_filters(by_image[image_id])}
            pictures.append(_describe_image(by_image[image_id], source) | labels)
    images = sum(model_images.people["image_id"].nunique() for model_images in image_sets)
    choices = {
        "called": list(dict.fromkeys(p["called"] for p in pictures)),
        "group": list(dict.fromkeys(group for p in pictures for group in p["groups"])),
        "judged": sorted({j for p in pictures for j in p["judged"]}),
        "status": sorted({o for p in pictures for o in p["statuses"]}),
        "tone": sorted({t for p in pictures for t in p["tones"]}, key=float),
    }
    options = {"style": asset("report.css"), "script": asset("image_pages.js")}
    content = {"model": model, "pictures": pictures, "choices": choices, "images": images}
    write_from(path, "image_pages.html.j2", **options, **content, marks=MARKS, index=index)
    return {"images": images, "shown": len(pictures), "side": side}


# -- selection -------------------------------------------------------------------------------------------


def _rows(people: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the groups of a strip, each with its share perceived as female and the ordered ids of its images."""
    # A score from 0 (male) to 1 (female), plus at most 0.001; missing if the person was not classified.
    gender = people["gender"] if "gender" in people else people["group"].map(lambda _: "")
    score = gender.map({"female": 1.0, "male": 0.0})
    score = score.where(score.notna() | (people["status"] != UNCERTAIN), 0.5)
    if "probability_female" in people:
        # The judge's probability orders people with the same answer.
        score += 0.001 * people["probability_female"].astype(float).fillna(0)
    by_image = people.assign(_lean=score).groupby(["group", "image_id"], sort=False)["_lean"].mean()
    # Prefer groups whose images fill a row, if enough groups have that many.
    images = by_image.groupby(level="group", sort=False).size()
    is_full = images >= min(SIDE_BY_SIDE, images.nlargest(ROWS).min())
    by_group = by_image.groupby(level="group", sort=False).mean()[is_full]
    if by_group.notna().any():
        by_group = by_group.dropna().sort_values(ascending=False, kind="stable")
    rows = []
    for group in evenly(list(by_group.index), ROWS):
        images = by_image.loc[group]
        if images.notna().any():
            images = images.sort_values(ascending=False, kind="stable", na_position="last")
        share = _share(people[people["group"] == group])
        rows.append({"group": str(group), "share": share, "ids": evenly(list(images.index), SIDE_BY_SIDE)})
    return rows


def _share(people: pd.DataFrame) -> dict[str, Any]:
    """Return the share perceived as female, among people judged female or male; empty if no person is judged.

    The confidence interval is that of tables: Wilson's, with the image as the unit.
    """
    from biaslab.stats import clustered_share

    gender = people["gender"] if "gender" in people else people["group"]
    classified = people.assign(count=gender.eq("female").astype(int), n=1)[gender.isin(GENDERS)]
    if classified.empty:
        return {}
    images = classified.groupby("image_id")[["count", "n"]].sum()
    unclear = int((people["status"] == UNCERTAIN).sum())
    share, low, high, n = clustered_share(images["count"], images["n"])
    return {"percent": 100 * share, "low": 100 * low, "high": 100 * high, "n": n, "unclear": unclear}


def evenly(items: list, most: int) -> list:
    """Return at most ``most`` (1 or more) items of a list, evenly spaced, including the first."""
    if len(items) <= most:
        return items
    return [items[round(k * (len(items) - 1) / max(most - 1, 1))] for k in range(most)]


def _spread(people: pd.DataFrame, image_sets: Sequence[ModelImages]) -> list[str]:
    """Return the images of a kind that a page shows: the first of each group if there are too many."""
    images = people.drop_duplicates("image_id")
    limit = max(MAX_IMAGES // len(image_sets), 1)
    if len(images) <= limit:
        return images["image_id"].tolist()
    place = images.groupby("group", sort=False).cumcount()
    selection = place.sort_values(kind="stable").index[:limit]
    return images.loc[images.index.isin(selection), "image_id"].tolist()


# -- presentation ------------------------------------------------------------------------------------------


def _by_image(people: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each image, in the order of positions."""
    columns = ["image_id", "group", "prompt", "position", "status", "gender", "probability_female", "tone"]
    rows = people[[name for name in columns if name in people]].sort_values("position", kind="stable")
    by_image: dict[str, list[dict[str, Any]]] = {}
    for row in rows.to_dict("records"):
        by_image.setdefault(row["image_id"], []).append(row)
    return by_image


def _describe_image(rows: list[dict[str, Any]], source: str) -> dict[str, Any]:
    """Return the entry of an image on a page: a mark for each person, and its prompt and labels in words."""
    # A person in two groups has a row for each group.
    people = list({row["position"]: row for row in reversed(rows)}.values())[::-1]
    group, description = " and ".join(_groups(rows)), "; ".join(map(_describe_person, people))
    return {
        "source": source, "marks": list(map(_mark, people)), "group": group, "prompt": str(rows[0]["prompt"]),
        "said": description, "alt": f"{group}: {description}",
    }  # fmt: skip


def _groups(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row["group"]) for row in rows))


def _mark(row: dict[str, Any]) -> str:
    if row.get("gender") in _GENDER_MARKS:
        return _GENDER_MARKS[row["gender"]]
    return {UNCERTAIN: "u", "correct": "r"}.get(row["status"], "n")


def _describe_person(row: dict[str, Any]) -> str:
    """Return the label of a person, or of an image without people, in words."""
    p, tone = number(row.get("probability_female")), number(row.get("tone"))
    if row.get("gender") in GENDERS:
        chance = "" if p is None else f" (probability {p if row['gender'] == 'female' else 1 - p:.2f})"
        text = f"perceived as {row['gender']}{chance}"
    elif row["status"] == UNCERTAIN:
        text = "unclear" + ("" if p is None else f" (probability of female {p:.2f})")
    else:
        text = _describe_reason(row)
    return text + ("" if tone is None else f", skin tone {tone:g} of 10")


def _describe_reason(row: dict[str, Any]) -> str:
    return {"ok": "not judged", "": "not judged"}.get(row["status"], str(row["status"]).replace("_", " "))


def _filters(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the filter values of an image: groups, labels, reasons why a person was not judged, and skin tones."""
    labels = {MARKS[_mark(row)] for row in rows}
    reasons = {_describe_reason(row) for row in rows if row["status"] not in (JUDGED, UNCERTAIN, "correct")}
    tones = {f"{tone:g}" for row in rows if (tone := number(row.get("tone"))) is not None}
    return {"groups": _groups(rows), "judged": sorted(labels), "statuses": sorted(reasons), "tones": sorted(tones)}


# -- encoding ----------------------------------------------------------------------------------------------


def _side(pairs: Sequence[tuple[ImageSource, str]], allowed: int) -> int:
    """Return the longest side of images, in pixels, with which all of them take at most ``allowed`` bytes."""
    sample = evenly(list(pairs), _TRIED)
    images = [image for source, image_id in sample for image in _read(source, [image_id]) if image]
    for side in _SIDES:
        # A reserve of a tenth covers images that are larger than the sampled ones.
        size = sum(len(_encode(image, side)) for image in images) / max(len(images), 1)
        if size * len(pairs) <= 0.9 * allowed:
            return side
    return _SIDES[-1]


def data_urls(images: ImageSource, ids: Sequence[str], side: int) -> Iterator[str]:
    """Yield images as ``data:`` URLs, in order; empty for those that cannot be shown."""
    for k in range(0, len(ids), _AT_A_TIME):
        for image in _read(images, ids[k : k + _AT_A_TIME]):
            data = _encode(image, side) if image else b""
            yield f"data:image/webp;base64,{base64.b64encode(data).decode()}" if data else ""


def _read(images: ImageSource, ids: Sequence[str]) -> list[Image | None]:
    import numpy as np
    from PIL import Image

    return [Image.fromarray(image) if isinstance(image, np.ndarray) else None for image in images.read(list(ids))]


def _encode(image: Image, side: int) -> bytes:
    """Return an image encoded from its pixels, without palette and metadata."""
    from PIL import Image

    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    small.save(file := io.BytesIO(), "WEBP", quality=_QUALITY, method=2)
    return file.getvalue()
