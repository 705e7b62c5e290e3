"""Copies of images: images of one group with identical pixels count once, and similar images are reported.

Copies are not independent observations. Among the images of a group with identical decoded pixels, the first by
``image_id`` counts; the others have the status ``duplicate``. Black images, which content filters return, have the
status ``black``. Their other placeholders have the status ``placeholder``: images of one colour, and a plain image,
such as a card, that occurs in several groups. Images that are only similar are counted and reported.

Similarity is the Hamming distance of difference hashes (dHash: Krawetz 2013) of 16 x 16 bits.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import InputError
from biaslab.hub.image_sources import DescribedImages, ImageSource
from biaslab.io.cells import join_values
from biaslab.io.image_files import PLAIN_SHARE, UnreadableImage, is_black, plain_share
from biaslab.judges.judge_labels import BLACK, DUPLICATE, PLACEHOLDER, WITHHELD
from biaslab.schema.formatting import format_count

SIDE = 16
"""Rows and columns of a difference hash, which has ``SIDE * SIDE`` bits."""
MAX_DISTANCE = 32
"""Maximum number of differing bits, of 256, between hashes of similar images. On 80 photorealistic portraits, copies
saved again as JPEG of quality 75 differ in up to 23 bits, and different portraits in at least 63."""
_COLUMNS = ("image_id", "pixels", "is_black", "plain", "hash")
_SHARD_ROWS = 1024
_AT_ONCE = 64
# Maximum number of groups named in a sentence.
_GROUPS = 5


class DistinctImages(DescribedImages):
    """The images of ``source``; copies, black images and placeholders read as :class:`UnreadableImage`.

    ``table`` is the table of ``source`` with the statuses of these images; ``duplicate_table`` is the result of
    :func:`find_duplicates`. Without such images, ``digest`` equals that of ``source``.
    """

    def __init__(self, source: ImageSource, duplicate_table: pd.DataFrame) -> None:
        withheld = duplicate_table.loc[duplicate_table["status"] != "", ["image_id", "status"]]
        self._withheld = dict(withheld.itertuples(index=False))
        table = source.table
        if self._withheld and "status" in table:
            status = table["image_id"].map(self._withheld)
            table = table.assign(status=status.where(status.notna(), table["status"]))
        super().__init__(source, table)
        # A source that wraps another one has its `read` as an attribute, which this replaces.
        self.read = self._read
        self.all_images, self.duplicate_table = source, duplicate_table
        if self._withheld:
            text = "".join(f"\n{image_id}\0{status}" for image_id, status in sorted(self._withheld.items()))
            self.digest = hashlib.sha256((source.digest + text).encode()).hexdigest()

    def _read(self, image_ids: Sequence[str]) -> list[np.ndarray | UnreadableImage]:
        readable_ids = [image_id for image_id in image_ids if image_id not in self._withheld]
        pixel_arrays = iter(self.all_images.read(readable_ids))
        return [UnreadableImage(self._withheld[i]) if i in self._withheld else next(pixel_arrays) for i in image_ids]


def all_images(images: ImageSource) -> ImageSource:
    """Return the source that a :class:`DistinctImages` wraps; any other source unchanged."""
    return getattr(images, "all_images", images)


def originals(images: ImageSource) -> dict[str, str]:
    """Return the image that counts for each copy, by the copy's ``image_id``."""
    table = getattr(images, "duplicate_table", pd.DataFrame(columns=["image_id", "status", "copy_of"]))
    copies = table[table["status"] == DUPLICATE]
    return dict(zip(copies["image_id"], copies["copy_of"], strict=True))


# -- detection of copies ---------------------------------------------------------------------------------------


def find_duplicates(
    images: ImageSource, groups: pd.Series, *, cache: ResultCache, progress: bool = True
) -> pd.DataFrame:
    """Return which images of a source are copies of another image of their group, black, or placeholders.

    Args:
        images: The source; each of its images is decoded once, and the result is cached in ``cache``.
        groups: The group of each row of ``images.table``, in its order.

    Returns one row per image: image_id, group, pixels (SHA-256 of the decoded pixels, empty where the image is
    unreadable), status (``duplicate``, ``black``, ``placeholder`` or empty), copy_of (the image that counts instead, or
    empty), hash (the difference hash, ``SIDE * SIDE / 8`` bytes, or empty).
    """
    units = images.table[["image_id"]].astype(object).reset_index(drop=True)
    stage = cache.stage("fingerprints", {"images": images.digest}, partial(_fingerprints, images))
    label = f"searching for duplicates in {images.name}"
    table = stage.compute(units, shard_rows=_SHARD_ROWS, label=label, progress=progress)
    table = table if len(table) else pd.DataFrame(columns=list(_COLUMNS), dtype=object)
    table = table.assign(group=groups.astype(str).to_numpy(), status="", copy_of="")
    in_several_groups = (table["pixels"] != "") & (table.groupby("pixels")["group"].transform("nunique") > 1)
    plain = table["plain"].astype(float)
    table.loc[(plain == 1) | ((plain >= PLAIN_SHARE) & in_several_groups), "status"] = PLACEHOLDER
    table.loc[table["is_black"].astype(bool), "status"] = BLACK
    candidates = table[(table["pixels"] != "") & (table["status"] == "")]
    # Ids are sorted by their trailing number, so that ``nurse/2`` comes before ``nurse/10``.
    sort_keys = candidates["image_id"].astype(str).str.replace(r"\d{1,9}$", lambda end: end[0].zfill(9), regex=True)
    candidates = candidates.loc[sort_keys.sort_values(kind="stable").index]
    first_ids = candidates.groupby(["group", "pixels"], sort=False)["image_id"].transform("first")
    copies = first_ids[first_ids != candidates["image_id"]]
    table.loc[copies.index, "status"] = DUPLICATE
    table.loc[copies.index, "copy_of"] = copies
    return table.drop(columns=["is_black", "plain"])


def _fingerprints(images: ImageSource, shard: pd.DataFrame) -> pd.DataFrame:
    ids, rows = list(shard["image_id"]), []
    for start in range(0, len(ids), _AT_ONCE):
        batch_ids = ids[start : start + _AT_ONCE]
        for image_id, image in zip(batch_ids, images.read(batch_ids), strict=True):
            if isinstance(image, UnreadableImage):
                rows.append((image_id, "", False, 0.0, b""))
            else:
                plain = plain_share(image)
                rows.append((image_id, pixels(image), is_black(image), plain, difference_hash(image)))
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def pixels(image: np.ndarray) -> str:
    """Return the SHA-256 of an image's shape and pixels, ``uint8 (height, width, 3)``, in hexadecimal digits."""
    digest = hashlib.sha256(str(image.shape).encode())
    digest.update(np.ascontiguousarray(image))
    return digest.hexdigest()


def difference_hash(image: np.ndarray) -> bytes:
    """Return whether each cell of a grid over an image is brighter than its left neighbour, a bit per cell.

    ``image`` is ``uint8 (height, width, 3)``; the grid has :data:`SIDE` rows and as many columns.
    """
    from PIL import Image

    small = Image.fromarray(image).convert("L").resize((SIDE + 1, SIDE), Image.Resampling.BOX)
    brightness = np.asarray(small, np.int16)
    return np.packbits(brightness[:, 1:] > brightness[:, :-1]).tobytes()


def group_duplicates(table: pd.DataFrame) -> tuple[int, list[tuple[str, str]]]:
    """Return the number of similar pairs of images within groups, by the hashes of :func:`find_duplicates`, and
    examples.

    There is at most one example for each image. Copies and black images are excluded. So are plain images, whose hashes
    are uninformative: those with fewer than ``MAX_DISTANCE`` bits of either value.
    """
    n, pairs = 0, []
    distinct = table[(table["status"] == "") & (table["pixels"] != "")]
    for _, rows in distinct.groupby("group", sort=False):
        ids = rows["image_id"].to_numpy(object)
        bits = np.frombuffer(b"".join(rows["hash"]), np.uint64).reshape(len(rows), -1)
        ones = np.bitwise_count(bits).sum(axis=1)
        is_informative = (ones >= MAX_DISTANCE) & (ones <= SIDE * SIDE - MAX_DISTANCE)
        ids, bits = ids[is_informative], bits[is_informative]
        for k in range(len(ids) - 1):
            is_similar = np.bitwise_count(bits[k] ^ bits[k + 1 :]).sum(axis=1) <= MAX_DISTANCE
            n += int(is_similar.sum())
            pairs += [(ids[k], similar_id) for similar_id in ids[k + 1 :][is_similar][:1]]
    return n, pairs


# -- reports on copies -----------------------------------------------------------------------------------------


def drop_duplicates(images: ImageSource, annotations: pd.DataFrame, file: str) -> pd.DataFrame:
    """Return human annotations of images, where the image that counts takes its copies' annotations.

    Args:
        images: The annotated images; only :class:`DistinctImages` have copies.
        annotations: One row per image, or per image and position: image_id, position (if several), status, gender.
        file: The file of annotations, for messages.

    Copies, black images and placeholders get their status. Raises InputError: Copies of one image are annotated
    differently.
    """
    table = getattr(images, "duplicate_table", None)
    if table is None:
        return annotations
    annotations = annotations.reset_index(drop=True)
    rows = annotations[["image_id"]].merge(table, on="image_id", how="left")
    position = annotations["position"] if "position" in annotations else pd.Series(1, annotations.index)
    labels = annotations["gender"].where(annotations["gender"] != "", annotations["status"])
    is_annotated = (
        ~rows["status"].isin([BLACK, PLACEHOLDER]) & (annotations["status"] != "unannotated") & (rows["pixels"] != "")
    )
    for _, answers in labels[is_annotated].groupby([rows["pixels"], position], sort=False):
        if answers.nunique() > 1:
            conflict = answers.index[answers != answers.iloc[0]][0]
            contradiction = ((annotations["image_id"][k], answers[k]) for k in (answers.index[0], conflict))
            raise InputError(_contradiction(*contradiction, file))
    # An image whose copy alone is annotated takes the copy's annotation.
    row = pd.Series(annotations.index, annotations.index)
    first_row = row.where(is_annotated).groupby([rows["group"], rows["pixels"], position]).transform("first")
    source_row = first_row.where((rows["pixels"] != "") & first_row.notna(), row).astype(int)
    names = [name for name in annotations if name not in ("image_id", "position")]
    annotations = annotations.assign(**{name: annotations[name].to_numpy()[source_row] for name in names})
    is_withheld = rows["status"] != ""
    outcome, gender = (
        annotations["status"].mask(is_withheld, rows["status"]),
        annotations["gender"].mask(is_withheld, ""),
    )
    return annotations.assign(status=outcome, gender=gender)


def check_descriptions(table: pd.DataFrame, descriptions: pd.DataFrame, table_name: str) -> None:
    """Check that a table describes all copies of an image identically, in any group.

    ``descriptions`` has one row per person: image_id, position, prompt, group; ``table_name`` is for the message.
    Raises InputError: The descriptions differ.
    """
    rows_of_copies = table[table["pixels"].ne("") & table["pixels"].duplicated(keep=False)].sort_values("image_id")
    by_image = dict(list(descriptions.groupby("image_id", sort=False)))
    for _, copies in rows_of_copies.groupby("pixels", sort=False):
        texts = {}
        for image_id in filter(by_image.__contains__, copies["image_id"]):
            people = by_image[image_id].sort_values("position")[["prompt", "group"]].drop_duplicates()
            texts[image_id] = "; ".join(f"prompt {p!r}, group {g!r}" for p, g in people.itertuples(index=False))
        first_id = next(iter(texts), "")
        for image_id, text in texts.items():
            if text != texts[first_id]:
                raise InputError(_contradiction((first_id, texts[first_id]), (image_id, text), table_name))


def _contradiction(first: tuple[str, str], second: tuple[str, str], table_name: str) -> str:
    return (
        f"{first[0]} and {second[0]} are copies of one image (identical pixels), but {table_name} states {first[1]} "
        f"for the first and {second[1]} for the second. Correct {table_name}, or remove one of the two images."
    )


def describe_left_out(images: ImageSource, skipped: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the excluded images of a source by reason and group, such as ``2 of 9 images: duplicate 2 (chef 2)``.

    ``skipped`` lists files that are not images of the source, by reason. Empty if nothing is excluded.
    """
    duplicate_table, image_table = getattr(images, "duplicate_table", pd.DataFrame()), all_images(images).table
    statuses = dict(zip(image_table["image_id"], image_table["status"], strict=True)) if "status" in image_table else {}
    counts: dict[str, Counter[str]] = {}
    example = ""
    for image in duplicate_table.itertuples():
        status = statuses.get(image.image_id, "")
        if image.status or not image.pixels:
            reason = image.status or (status if status in WITHHELD else "unreadable")
            counts.setdefault(reason, Counter())[image.group] += 1
        if image.copy_of and not example:
            example = f"; {image.image_id} has the pixels of {image.copy_of}"
    for reason, files in (skipped or {}).items():
        counts |= {reason: Counter(file.rpartition("/")[0].partition("/")[0] for file in files)} if files else {}
    parts = []
    for reason, by_group in counts.items():
        groups = ", ".join(f"{group} {n:,}".strip() for group, n in by_group.most_common(_GROUPS))
        groups += f" and {len(by_group) - _GROUPS:,} more groups" if len(by_group) > _GROUPS else ""
        parts.append(f"{reason} {by_group.total():,} ({groups}{example if reason == DUPLICATE else ''})")
    total = len(duplicate_table) + sum(map(len, (skipped or {}).values()))
    n = sum(by_group.total() for by_group in counts.values())
    kind = "files" if any((skipped or {}).values()) else "images"
    return f"{n:,} of {total:,} {kind}: {', '.join(parts)}" if n else ""


def remarks(images: ImageSource) -> list[str]:
    """Return remarks on the images that count: those in several groups, and similar ones."""
    table = getattr(images, "duplicate_table", None)
    if table is None or table.empty:
        return []
    sentences = []
    distinct = table[(table["status"] == "") & (table["pixels"] != "")]
    rows = distinct[distinct["pixels"].duplicated(keep=False)]
    if len(rows):
        copy_ids = join_values(rows.loc[rows["pixels"] == rows["pixels"].iloc[0], "image_id"])
        n = rows["pixels"].nunique()
        sentences.append(f"Images that occur in several groups and count in each: {n:,}, such as {copy_ids}.")
    n, pairs = group_duplicates(table)
    if n:
        example, count = " and ".join(pairs[0]), format_count(n, "pair", "pairs")
        sentences.append(f"Near-duplicates within a group, all included: {count} (for example, {example}).")
    return sentences
