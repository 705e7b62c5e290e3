"""Judge images: the gate (one face that is large enough), then perceived gender.

Every image keeps a row; what does not pass, or is not sure, has a labelled outcome in place of a gender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.cache.result_cache import ResultCache
from biaslab.execution.workers import Memoized
from biaslab.hub.image_sources import ImageSource, UnreadableImage, check_image
from biaslab.judges import model_loading, plugins
from biaslab.judges.dlib_gender import DlibGender
from biaslab.judges.faces import gate, large_enough
from biaslab.judges.faces import load as load_faces
from biaslab.judges.fairface import FAIRFACE, FairFaceGender
from biaslab.judges.judge_labels import JUDGED, OUTCOMES, SELDOM, WITHHELD
from biaslab.judges.judge_names import files_digest
from biaslab.judges.person import Person
from biaslab.judges.pinned import DLIB
from biaslab.judges.settings import JudgeSettings
from biaslab.judges.zero_shot import ZeroShot, ZeroShotGender
from biaslab.schema.genders import GENDERS

BOX = ("x0", "y0", "x1", "y1")
NUMBERS = ("probability_female", "n_faces", *BOX, "image_width", "image_height")
COLUMNS = ("image_id", "status", "gender", *NUMBERS, "reason", "boxes")
_TYPES = dict.fromkeys(("image_id", "status", "gender", "reason", "role", "answer"), str)
_TYPES |= {"position": int, "people": int, "boxes": object}
_SHARD_ROWS = 1024


# A model of gender has ``answers(people)``, which returns of each (judging.person.Person) the probability of perceived
# as female against perceived as male, 0 to 1 or NaN, and a reason where it is unsure. A ``classifier``
# (judging.zero_shot.ZeroShot) of it is also asked which of several people is who.


class Judge(NamedTuple):
    """The two models that judge together; without the second faces are found and nobody is judged."""

    faces: Any
    gender: Any


def load(settings: JudgeSettings, device: str = "auto", *, gender: bool = True) -> Judge:
    """Return the models that ``settings`` name, on a ``device``: ``auto`` (a GPU if there is one), ``cpu``, ….

    Without ``gender`` faces alone are looked for. Raises ParameterError where a model is unknown or cannot be used,
    MissingInputError where a file or package is missing.
    """
    options = {"device": device, "batch_size": settings.batch_size, "min_score": settings.min_face_score}
    return Judge(load_faces(settings.faces, **options), load_gender(settings, device) if gender else None)


def load_gender(settings: JudgeSettings, device: str = "auto"):
    """Return the model of gender alone; arguments and errors as of :func:`load`."""
    place = {"device": device, "batch_size": settings.batch_size}
    if settings.gender == DLIB:
        return DlibGender()
    if settings.gender.startswith(FAIRFACE):
        return FairFaceGender(settings.gender.removeprefix(FAIRFACE), dtype=settings.dtype, **place)
    if settings.gender.startswith(plugins.PLUGIN):
        return plugins.load(settings.gender, **place)
    return ZeroShotGender(ZeroShot(settings.gender, dtype=settings.dtype, **place), settings.class_prompts)


def judge(
    images: ImageSource,
    settings: JudgeSettings,
    *,
    cache: ResultCache,
    device: str = "auto",
    progress: bool = True,
) -> pd.DataFrame:
    """Judge every image of a source's table; what was judged before is read again from ``cache``; errors as of
    :func:`load`.

    Returns one row per image, in the table's order: image_id, outcome (one of :data:`OUTCOMES`), gender (``female``,
    ``male``, ``unsure`` where uncertain, else empty), probability_female (0–1, NaN where the gate let nothing pass),
    n_faces (NaN where not looked for), x0, y0, x1, y1 (the one face, else NaN), image_width, image_height (all in
    pixels), reason (of unreadable and unannotated images), boxes (all faces: x0, y0, x1, y1, x0, …).
    """
    inputs = inputs_of(images, settings)
    return apply_threshold(_judge_rows(images, settings, "judgements", inputs, cache, device, progress), settings)


def find_faces(
    images: ImageSource, settings: JudgeSettings, *, cache: ResultCache, device: str = "auto", progress: bool = True
) -> pd.DataFrame:
    """Find the faces of every image as :func:`judge` does, and judge nobody: who judges gender need not be there.

    Returns its columns without gender and probability_female; outcome is that of the gate for one person.
    """
    inputs = {"images": images.digest, "faces": settings.faces, "min_score": settings.min_face_score}
    inputs["weights"] = files_digest(settings.faces, "detector")
    return _judge_rows(images, settings, "faces", inputs, cache, device, progress)


def _judge_rows(
    images: ImageSource,
    settings: JudgeSettings,
    stage: str,
    inputs: dict,
    cache: ResultCache,
    device: str,
    progress: bool,
) -> pd.DataFrame:
    """Return what models see in every image: ``stage`` is ``judgements``, or ``faces``, where nobody is judged."""
    units = pd.DataFrame({"image_id": images.table["image_id"].astype(object).to_numpy()})
    genders = stage == "judgements"
    columns = [name for name in COLUMNS if genders or name not in ("gender", "probability_female")]
    ready = Memoized(partial(load, settings, device, gender=genders))

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        batches = read_ahead(images, list(shard["image_id"]), device, settings.batch_size)
        return frame((row for ids, read in batches for row in _judge_units(ids, read, ready())), columns)

    bar = {"label": f"{stage} of {images.name}", "progress": progress, "gpu": device != "cpu"}
    return frame(cache.stage(stage, inputs, work).compute(units, shard_rows=_SHARD_ROWS, **bar), columns)


def inputs_of(images: ImageSource, settings: JudgeSettings) -> dict:
    """Return what the models' answers depend on: not the limits, which decide upon kept answers, nor the speed."""
    inputs = settings.model_dump(mode="json", include={"faces", "gender", "class_prompts", "min_face_score", "dtype"})
    weights = {"faces": files_digest(settings.faces, "detector"), "gender": files_digest(settings.gender, "clip")}
    return {"images": images.digest, "settings": inputs, "weights": weights}


def read_ahead(
    images: ImageSource, ids: list[str], device: str, batch_size: int = 0
) -> Iterator[tuple[list[str], list]]:
    """Yield batches of ids with their images, a model's batch or more; the next is read while one is judged."""
    step = batch_size or (128 if model_loading.device(device).type == "cpu" else 512)
    batches = [ids[k : k + step] for k in range(0, len(ids), step)]
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(images.read, batches[0])
        for batch, following in zip(batches, [*batches[1:], None], strict=True):
            read = coming.result()
            if following is not None:
                coming = pool.submit(images.read, following)
            yield batch, read


def judge_images(
    image_ids: Sequence[str], images: Sequence[np.ndarray | UnreadableImage], judges: Judge, settings: JudgeSettings
) -> pd.DataFrame:
    """Judge images in memory, all at once: one row per image, in order, with the columns of :func:`judge`."""
    return apply_threshold(frame(_judge_units(image_ids, images, judges)), settings)


def open_images(image_id: str, image: np.ndarray | UnreadableImage) -> dict:
    """Return the row of an image that nobody has looked at yet: its size, or why it cannot be looked at."""
    row = {"image_id": image_id, "status": "", "gender": "", "reason": "", **dict.fromkeys(NUMBERS, np.nan)}
    if isinstance(image, UnreadableImage):
        why = image.reason
        return row | ({"status": why} if why in WITHHELD else {"status": "unreadable", "reason": why})
    height, width = check_image(image, f"image {image_id!r}").shape[:2]
    return row | {"image_width": width, "image_height": height}


def classify_images(
    image_ids: Sequence[str], images: Sequence[np.ndarray | UnreadableImage], see: Callable[[list], Sequence]
) -> tuple[list[dict], dict[int, Any]]:
    """Return the rows of images, and by their place in the list what ``see`` finds in those that can be read."""
    rows = [open_images(image_id, image) for image_id, image in zip(image_ids, images, strict=True)]
    readable = [k for k, row in enumerate(rows) if not row["status"]]
    found = see([images[k] for k in readable]) if readable else []
    return rows, dict(zip(readable, found, strict=True))


def _judge_units(image_ids: Sequence[str], images: Sequence[np.ndarray | UnreadableImage], judges: Judge) -> list[dict]:
    """Return what the models see: faces, and where there is one, the probability of perceived as female."""
    rows, found = classify_images(image_ids, images, judges.faces.faces)
    for row in rows:
        row["boxes"] = []
    asked = {}
    for k, faces in found.items():
        boxes = [float(v) for face in faces for v in face[:4]]
        rows[k].update(status=gate(faces), n_faces=len(faces), boxes=boxes)
        if len(faces) == 1:
            rows[k].update(zip(BOX, faces[0][:4], strict=True))
            asked[k] = Person(images[k], faces[0][:4], faces[0].landmarks)
    if asked and judges.gender:
        for k, (p, reason) in zip(asked, judges.gender.answers(list(asked.values())), strict=True):
            rows[k].update(probability_female=p, reason=reason)
    return rows


def apply_threshold(seen: pd.DataFrame, settings: JudgeSettings, people: int | pd.Series = 1) -> pd.DataFrame:
    """Return judgements: what the models saw (outcome empty where nothing is in the way) with the limits of settings;
    ``people`` is how many share the width of each row's image.
    """
    standing = seen["status"] == ""
    sizes = (seen[c] for c in (*BOX, "image_width", "image_height"))
    counts = standing & large_enough(*sizes, settings.min_face_size, people)
    gender = decide(seen["probability_female"].to_numpy(float), settings.threshold)
    outcome = np.where(standing, "face_too_small", seen["status"].to_numpy(object))
    return seen.assign(
        status=np.where(counts, np.where(gender == "unsure", "uncertain", JUDGED), outcome),
        gender=np.where(counts, gender, ""),
        probability_female=seen["probability_female"].where(counts),
    ).astype({"status": str, "gender": str})


def decide(probability_female: np.ndarray, threshold: float = 0.9) -> np.ndarray:
    """Return genders for probabilities of perceived as female, an object array of the same shape: at least
    ``threshold`` is female, at most ``1 - threshold`` male, the rest, NaN among it, unsure.
    """
    probability_female = np.asarray(probability_female, float)
    sure = [probability_female >= threshold, 1 - probability_female >= threshold]
    return np.select(sure, GENDERS, "unsure").astype(object)


def outcomes(judgements: pd.DataFrame, by: Sequence[str], *, confidence: float = 0.95) -> pd.DataFrame:
    """Count the outcomes of judgements (:func:`judge`, with the columns ``by``).

    A row for each combination of ``by`` and each outcome (of :data:`SELDOM` those that occur): ``by``, outcome, n,
    n_images (of the combination), percent (0–100 of n_images), ci_low, ci_high (Wilson).
    """
    there = set(judgements["status"])
    names = [o for o in OUTCOMES if o not in SELDOM or o in there]
    counts = judgements.groupby([*by, "status"], observed=True).size().unstack(fill_value=0)
    out = counts.reindex(columns=names, fill_value=0).rename_axis(columns="status").stack()
    out = out.rename("n").reset_index()
    out["n_images"] = out.groupby(list(by), observed=True)["n"].transform("sum")
    percent, low, high = stats.percent(out["n"], out["n_images"], confidence)
    return out.assign(percent=percent, ci_low=low, ci_high=high)


def frame(rows: Iterable[dict] | pd.DataFrame, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """Return rows of judgements as a table with these columns, typed alike with or without rows."""
    made = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    return made.reindex(columns=list(columns)).astype({c: _TYPES.get(c, float) for c in columns})
