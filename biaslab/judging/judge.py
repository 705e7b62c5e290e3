"""Judge images: the gate, then perceived gender; every image keeps a row and an outcome.

The order is the paper's: an image must show one face that is large enough, then the gender model must be
sure. Where it is not, the image has a labelled reason instead of a gender, and counts as that reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pandas as pd

from biaslab import models as named
from biaslab.errors import InputError, name_help
from biaslab.judging import loaded
from biaslab.judging.faces import MEDIAPIPE, WHOLE, Face, FaceDetector, gate, large_enough
from biaslab.judging.fairface import FAIRFACE, FairFaceGender, cut_out
from biaslab.judging.images import BLOCKED, ImageSource, Unreadable, check_image
from biaslab.judging.settings import JudgeSettings
from biaslab.judging.zero_shot import ZeroShot, ZeroShotGender

if TYPE_CHECKING:
    from biaslab.store import Store

RATINGS = "ratings:"
JUDGED = "judged"
OUTCOMES = (
    JUDGED,
    "uncertain",
    "no_face",
    "several_faces",
    "face_too_small",
    "unreadable",
    BLOCKED,
    "unrated",
)
"""``judged`` (female or male), or why not: ``uncertain`` (a probability between 1 - threshold and threshold;
raters who are unsure or divided), ``no_face``, ``several_faces``, ``face_too_small``, ``unreadable`` (column
``reason`` says how), ``blocked`` (withheld by the model's safety checker), ``unrated`` (ratings only)."""
_BOX = ("x0", "y0", "x1", "y1")
_NUMBERS = ("p_female", "n_faces", *_BOX, "image_width", "image_height")
COLUMNS = ("image_id", "outcome", "gender", *_NUMBERS, "reason", "boxes")
_SHARD_ROWS = 1024
# How open_clip's own weights are named, such as ViT-L-14:openai; one letter before a colon is a drive.
_ARCHITECTURE_AND_TAG = re.compile(r"[^/\\:]{2,}:[^/\\:]+")


class GenderModel(Protocol):
    """The contract of models of perceived gender.

    Those that also have ``side`` get people cut out of images of several at that many pixels a side, those with
    ``classifier`` (:class:`~biaslab.judging.zero_shot.ZeroShot`) are also asked which of them is who.
    """

    sees: str
    """``"image"`` where it takes whole images, ``"face"`` where it takes faces cut out of them."""

    def p_female(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return the probability of perceived as female against perceived as male, ``(images,)``, 0 to 1."""
        ...


class Judge(NamedTuple):
    """The two models that judge together."""

    faces: FaceDetector
    gender: GenderModel


def load(settings: JudgeSettings, device: str = "auto") -> Judge:
    """Return the models that ``settings`` name, on a ``device``: ``auto`` (a GPU if there is one), ``cpu``, ….

    Raises:
        ParameterError: A model is unknown or cannot be used.
        MissingInputError: A file or package is not there.
    """
    from biaslab.judging import faces

    place = {"device": device, "batch_size": settings.batch_size}
    gender: GenderModel
    if settings.gender.startswith(FAIRFACE):
        gender = FairFaceGender(settings.gender.removeprefix(FAIRFACE), dtype=settings.dtype, **place)
    else:
        model = ZeroShot(settings.gender, dtype=settings.dtype, **place)
        gender = ZeroShotGender(model, settings.texts)
    return Judge(faces.load(settings.faces, min_score=settings.min_score, **place), gender)


def judge(
    images: ImageSource,
    settings: JudgeSettings,
    *,
    store: Store,
    device: str = "auto",
    progress: bool = True,
    ids: Sequence[str] | None = None,
    models: Callable[[JudgeSettings, str], Judge] = load,
) -> pd.DataFrame:
    """Judge every image of a source, or those named by ``ids``; what was judged before is read again.

    Args:
        images: Where the images come from.
        settings: How they are judged.
        store: Where judgements are kept.
        device: Where the models run.
        progress: Whether a bar shows how far it is.
        ids: Image ids; by default all of the source's table.
        models: What loads the models, as :func:`load` does; it is called when an image must be judged, and not before.

    Returns:
        One row per image, in the order asked for: image_id, outcome (one of :data:`OUTCOMES`), gender
        (``female``, ``male``, ``unsure`` where uncertain, else empty), p_female (0–1, NaN where the gate let
        nothing pass), n_faces (NaN where not looked for), x0, y0, x1, y1 (the one face, else NaN), image_width,
        image_height (all in pixels), reason (of unreadable and unrated images), boxes (all faces: x0, y0, x1,
        y1, x0, …).

    Raises:
        InputError: An id is not in the source's table or is given twice.
        ParameterError: A model is unknown or cannot be used.
        MissingInputError: A file or package is not there.
    """
    table = images.table
    if ids is not None:
        table = _rows(table, [str(k) for k in ids], images.name)
    if settings.gender.startswith(RATINGS):
        return from_ratings(settings.gender.removeprefix(RATINGS), table["image_id"])
    units = pd.DataFrame({"image_id": table["image_id"].astype(object).to_numpy()})
    if "outcome" in table:  # A generated image that was withheld is known without reading it.
        units["blocked"] = (table["outcome"] == BLOCKED).to_numpy()
    if units.empty:
        return frame([])
    ready = cache(lambda: models(settings, device))

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        return _look_at_shard(shard, images, settings.batch_size, device, ready)

    seen = store.stage("judgements", inputs_of(images, settings), work).compute(
        units,
        shard_rows=_SHARD_ROWS,
        label=f"judging {images.name}",
        progress=progress,
    )
    return _decided(seen, settings)


def inputs_of(images: ImageSource, settings: JudgeSettings) -> dict:
    """Return what the models' answers depend on.

    How fast they run is not among it, nor are the limits of face and probability: these decide upon
    answers that are kept, so that other limits need no other look at the images.
    """
    inputs = settings.model_dump(mode="json", exclude={"further", "batch_size", "threshold", "min_face"})
    weights = {
        "faces": _weights(settings.faces, MEDIAPIPE, "detector"),
        "gender": _weights(settings.gender, FAIRFACE, "clip"),
    }
    return {"images": images.digest, "settings": inputs, "weights": weights}


def _weights(name: str, prefix: str, kind: str) -> str:
    """Return a digest of the weights behind a model's name; where they are not here, the name itself.

    Raises:
        ParameterError: The name is unknown.
        MissingInputError: The embedded model is not in this installation.
    """
    if name.startswith(prefix):
        return loaded.file_digest(name.removeprefix(prefix))
    if name == WHOLE or _ARCHITECTURE_AND_TAG.fullmatch(name):
        return name
    return named.digest(named.resolve(name, kind))


def _look_at_shard(
    shard: pd.DataFrame, images: ImageSource, batch_size: int, device: str, ready
) -> pd.DataFrame:
    blocked = shard["blocked"] if "blocked" in shard else pd.Series(False, index=shard.index)
    rows = {k: _row(k, BLOCKED) for k in shard.loc[blocked, "image_id"]}
    wanted = list(shard.loc[~blocked, "image_id"])
    if wanted:
        judges = ready()
        step = batch_size or loaded.batch_on(loaded.device(device))
        for some, read in read_ahead(images, wanted, step):
            rows.update(zip(some, _look(some, read, judges), strict=True))
    return frame(rows[k] for k in shard["image_id"])


def read_ahead(images: ImageSource, ids: list[str], step: int) -> Iterator[tuple[list[str], list]]:
    """Yield batches of ids with their images; the next batch is read while one is judged."""
    batches = [ids[k : k + step] for k in range(0, len(ids), step)]
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(images.read, batches[0])
        for batch, following in zip(batches, [*batches[1:], None], strict=True):
            read = coming.result()
            if following is not None:
                coming = pool.submit(images.read, following)
            yield batch, read


def judge_images(
    image_ids: Sequence[str],
    images: Sequence[np.ndarray | Unreadable],
    judges: Judge,
    settings: JudgeSettings,
) -> pd.DataFrame:
    """Judge images in memory, all at once: one row per image, in order, with the columns of :func:`judge`."""
    return _decided(frame(_look(image_ids, images, judges)), settings)


def _look(image_ids: Sequence[str], images: Sequence[np.ndarray | Unreadable], judges: Judge) -> list[dict]:
    """Return what the models see: faces, and where there is one, the probability of perceived as female."""
    rows = [_row(k, "") for k in image_ids]
    seen = []
    for k, image in enumerate(images):
        if isinstance(image, Unreadable):
            blocked = image.reason == BLOCKED
            reason = "" if blocked else image.reason
            rows[k].update(outcome=BLOCKED if blocked else "unreadable", reason=reason)
        else:
            height, width = check_image(image, f"image {image_ids[k]!r}").shape[:2]
            rows[k].update(image_width=width, image_height=height)
            seen.append(k)
    alone = []
    for k, found in zip(seen, judges.faces.faces([images[k] for k in seen]) if seen else [], strict=True):
        rows[k].update(n_faces=len(found), boxes=[float(v) for face in found for v in corners(face)])
        # How large it must be is decided later.
        rows[k]["outcome"] = gate(found, *images[k].shape[1::-1], min_face=0)
        if len(found) == 1:
            rows[k].update(zip(_BOX, corners(found[0]), strict=True))
            alone.append(k)
    if alone:
        shown = [images[k] for k in alone]
        if judges.gender.sees == "face":
            shown = [cut_out(images[k], [rows[k][c] for c in _BOX]) for k in alone]
        for k, p in zip(alone, judges.gender.p_female(shown), strict=True):
            rows[k]["p_female"] = float(p)
    return rows


def _decided(seen: pd.DataFrame, settings: JudgeSettings) -> pd.DataFrame:
    """Return judgements: what the models saw, with the limits of ``settings``."""
    if seen.empty:
        return seen
    alone = seen["outcome"] == ""
    large = large_enough(*(seen[c] for c in (*_BOX, "image_width", "image_height")), settings.min_face)
    said = [decide(p, settings.threshold) for p in seen["p_female"]]
    outcome, gender = (pd.Series(list(v), index=seen.index, dtype=object) for v in zip(*said, strict=True))
    outcome = outcome.where(alone & large, seen["outcome"].where(~alone, "face_too_small"))
    return seen.assign(
        outcome=outcome.astype(str),
        gender=gender.where(alone & large, "").astype(str),
        p_female=seen["p_female"].where(alone & large),
    )


def decide(p_female: float, threshold: float = 0.9) -> tuple[str, str]:
    """Return the outcome and the gender for a probability of perceived as female.

    ``p_female`` of at least ``threshold`` is female, ``1 - p_female`` of at least ``threshold`` male; anything
    between is uncertain, as is a probability that is missing.
    """
    if p_female >= threshold:
        return JUDGED, "female"
    if 1 - p_female >= threshold:
        return JUDGED, "male"
    return "uncertain", "unsure"


def from_ratings(path: str | Path, image_ids: Sequence[str]) -> pd.DataFrame:
    """Return judgements by raters: each image's majority, as :mod:`biaslab.ratings` resolves it.

    A majority of female or male is ``judged``; unsure, or a tie, is ``uncertain`` (``reason`` says which);
    an image that nobody rated or that the file lacks is ``unrated``. Columns as in :func:`judge`; there are no
    probabilities and no faces.

    Raises:
        InputError: The file cannot be read as ratings, or rates one image twice, for example for two models.
    """
    from biaslab import ratings

    rated = ratings.read(path)
    if rated.ratings is None:
        raise InputError(f"{path} holds shares; to judge images it must hold ratings, one row per image.")
    names = rated_ids(rated.images)
    if names.duplicated().any():
        twice = names[names.duplicated()].iloc[0]
        raise InputError(
            f"{path} rates image {twice!r} in several rows (other models, sources or occupations); keep the "
            "rows of the images that are judged here."
        )
    label_of = dict(zip(names, rated.images["label"].astype(str), strict=True))
    rows = []
    for image_id in image_ids:
        label = label_of.get(str(image_id), "not in the file")
        row = _row(str(image_id), "unrated", reason="" if label == "unrated" else label)
        if label in ("female", "male"):
            row.update(outcome=JUDGED, gender=label, reason="")
        elif label in ("unsure", "tie"):
            row.update(outcome="uncertain", gender="unsure")
        rows.append(row)
    return frame(rows)


def rated_ids(images: pd.DataFrame) -> pd.Series:
    """Return the image ids of rated images (:attr:`biaslab.ratings.Rated.images`).

    Ids that a spreadsheet would run as a formula are written with an apostrophe before them; it is taken off.
    """
    return images["image"].astype(str).str.replace(r"^'(?=[=+\-@\t\r'])", "", regex=True)


def outcomes(judgements: pd.DataFrame, by: Sequence[str] = (), *, confidence: float = 0.95) -> pd.DataFrame:
    """Count the outcomes of judgements, those that never occur among them.

    Args:
        judgements: Rows as from :func:`judge`, with the columns ``by`` merged in.
        by: Columns to count apart; only combinations that occur have rows.
        confidence: Level of the intervals.

    Returns:
        One row per combination of ``by`` and outcome: ``by``, outcome, n, n_images (all of the combination),
        percent (0–100 of n_images), ci_low, ci_high (Wilson). ``unrated`` has rows only where ratings judged.

    Raises:
        InputError: A column is missing, or an outcome is not known.
    """
    from biaslab.stats import wilson_interval

    by = list(by)
    missing = [c for c in (*by, "outcome") if c not in judgements]
    if missing:
        raise InputError(f"The judgements have no column {missing[0]!r}; merge it in from the images' table.")
    other = sorted(set(judgements["outcome"]) - set(OUTCOMES))
    if other:
        raise InputError(f"An outcome is {other[0]!r}. {name_help(str(other[0]), OUTCOMES)}")
    rated = (judgements["outcome"] == "unrated").any()
    names = [o for o in OUTCOMES if o != "unrated" or rated]
    groups = judgements.groupby(by, sort=True, observed=True) if by else [((), judgements)]
    rows = []
    for at, group in groups:
        n = group["outcome"].value_counts().reindex(names, fill_value=0)
        rows += [(*at, outcome, int(n[outcome]), len(group)) for outcome in names]
    out = pd.DataFrame(rows, columns=[*by, "outcome", "n", "n_images"])
    low, high = wilson_interval(out["n"], out["n_images"], confidence)
    percent = 100 * out["n"] / out["n_images"].where(out["n_images"] > 0)
    return out.assign(percent=percent, ci_low=100 * low, ci_high=100 * high)


def frame(rows) -> pd.DataFrame:
    """Return rows of judgements as a table with the columns of :func:`judge`, typed alike with or without rows."""
    made = pd.DataFrame(list(rows), columns=list(COLUMNS))
    texts = dict.fromkeys(("image_id", "outcome", "gender", "reason"), str)
    return made.astype(dict.fromkeys(_NUMBERS, float) | texts | {"boxes": object})


def _row(image_id: str, outcome: str, reason: str = "") -> dict:
    nothing = dict.fromkeys(_NUMBERS, np.nan)
    return {"image_id": image_id, "outcome": outcome, "gender": "", "reason": reason, "boxes": [], **nothing}


def corners(face: Face) -> tuple[float, float, float, float]:
    """Return a face's box: x0, y0, x1, y1 in pixels."""
    return face.x0, face.y0, face.x1, face.y1


def _rows(table: pd.DataFrame, ids: list[str], name: str) -> pd.DataFrame:
    known = table.set_index("image_id", drop=False)
    unknown = [k for k in ids if k not in known.index]
    if unknown:
        raise InputError(f"{name} has no image {unknown[0]!r}; its table lists those it has.")
    if len(set(ids)) < len(ids):
        raise InputError("ids names an image twice; name each once.")
    return known.loc[ids]
