"""Copies of images: images of one group with identical pixels count once, and images that look alike are reported.

Copies are not independent observations. Of the images of a group with identical decoded pixels, the first by
``image_id`` counts; the others have the outcome ``duplicate``. Black images, which content filters return, have the
outcome ``black``, and their other placeholders ``placeholder``: images of one color, and a plain image, such as a card,
that several groups have. Images that merely look alike are counted and reported, because similar is not identical.

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
from biaslab.io.image_files import PLAIN, UnreadableImage, is_black, plain_share
from biaslab.judges.judge_labels import BLACK, DUPLICATE, PLACEHOLDER, WITHHELD

SIDE = 16
"""Rows and columns of a difference hash, which has ``SIDE * SIDE`` bits."""
NEAR = 32
"""Bits, of 256, in which hashes of images that look alike differ at most. On 80 portraits that look like photographs,
copies saved again as JPEG of quality 75 differ in up to 23 bits, and different portraits in at least 63."""
_COLUMNS = ("image_id", "pixels", "is_black", "plain", "hash")
_SHARD_ROWS = 1024
_AT_ONCE = 64
# Groups that a sentence names at most.
_GROUPS = 5


class DistinctImages(DescribedImages):
    """The images of ``whole``, of which copies, black images and placeholders read as :class:`UnreadableImage`.

    ``table`` is that of ``whole``, where these images have their outcome; ``found`` is what :func:`find_duplicates`
    returns. Where there are none, ``digest`` is that of ``whole``.
    """

    def __init__(self, whole: ImageSource, found: pd.DataFrame) -> None:
        withheld = found.loc[found["status"] != "", ["image_id", "status"]]
        self._withheld = dict(withheld.itertuples(index=False))
        table = whole.table
        if self._withheld and "status" in table:
            status = table["image_id"].map(self._withheld)
            table = table.assign(status=status.where(status.notna(), table["status"]))
        super().__init__(whole, table)
        # Of a source that wraps another, this reads the images, too.
        self.read = self._read
        self.whole, self.found = whole, found
        if self._withheld:
            text = "".join(f"\n{image_id}\0{status}" for image_id, status in sorted(self._withheld.items()))
            self.digest = hashlib.sha256((whole.digest + text).encode()).hexdigest()

    def _read(self, image_ids: Sequence[str]) -> list[np.ndarray | UnreadableImage]:
        shown = [image_id for image_id in image_ids if image_id not in self._withheld]
        read = iter(self.whole.read(shown))
        return [UnreadableImage(self._withheld[i]) if i in self._withheld else next(read) for i in image_ids]


def all_images(images: ImageSource) -> ImageSource:
    """Return the source that :class:`DistinctImages` wrap; another source as it is."""
    return getattr(images, "whole", images)


def originals(images: ImageSource) -> dict[str, str]:
    """Return the image that counts for each copy, by the copy's ``image_id``."""
    table = getattr(images, "found", pd.DataFrame(columns=["image_id", "status", "copy_of"]))
    copies = table[table["status"] == DUPLICATE]
    return dict(zip(copies["image_id"], copies["copy_of"], strict=True))


# -- which images are copies -----------------------------------------------------------------------------------


def find_duplicates(
    images: ImageSource, groups: pd.Series, *, cache: ResultCache, progress: bool = True
) -> pd.DataFrame:
    """Return which images of a source are copies of another image of their group, black, or placeholders.

    Args:
        images: The source; each of its images is decoded once, and the result is kept in ``cache``.
        groups: The group of each row of ``images.table``, in its order.

    Returns one row per image: image_id, group, pixels (SHA-256 of the decoded pixels, empty where the image is
    unreadable), status (``duplicate``, ``black``, ``placeholder`` or empty), copy_of (the image that counts instead, or
    empty), hash (the difference hash, ``SIDE * SIDE / 8`` bytes, or empty).
    """
    units = images.table[["image_id"]].astype(object).reset_index(drop=True)
    stage = cache.stage("fingerprints", {"images": images.digest}, partial(_fingerprints, images))
    label = f"looking for copies in {images.name}"
    found = stage.compute(units, shard_rows=_SHARD_ROWS, label=label, progress=progress)
    found = found if len(found) else pd.DataFrame(columns=list(_COLUMNS), dtype=object)
    found = found.assign(group=groups.astype(str).to_numpy(), status="", copy_of="")
    several = (found["pixels"] != "") & (found.groupby("pixels")["group"].transform("nunique") > 1)
    plain = found["plain"].astype(float)
    found.loc[(plain == 1) | ((plain >= PLAIN) & several), "status"] = PLACEHOLDER
    found.loc[found["is_black"].astype(bool), "status"] = BLACK
    shown = found[(found["pixels"] != "") & (found["status"] == "")]
    # By the number at their end, so that ``nurse/2`` comes before ``nurse/10``.
    numbered = shown["image_id"].astype(str).str.replace(r"\d{1,9}$", lambda end: end[0].zfill(9), regex=True)
    shown = shown.loc[numbered.sort_values(kind="stable").index]
    first = shown.groupby(["group", "pixels"], sort=False)["image_id"].transform("first")
    copies = first[first != shown["image_id"]]
    found.loc[copies.index, "status"] = DUPLICATE
    found.loc[copies.index, "copy_of"] = copies
    return found.drop(columns=["is_black", "plain"])


def _fingerprints(images: ImageSource, shard: pd.DataFrame) -> pd.DataFrame:
    ids, rows = list(shard["image_id"]), []
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        for image_id, image in zip(some, images.read(some), strict=True):
            if isinstance(image, UnreadableImage):
                rows.append((image_id, "", False, 0.0, b""))
            else:
                plain = plain_share(image)
                rows.append((image_id, pixels(image), is_black(image), plain, difference_hash(image)))
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def pixels(image: np.ndarray) -> str:
    """Return the SHA-256 of an image's shape and pixels, ``uint8 (height, width, 3)``, in hexadecimal digits."""
    whole = hashlib.sha256(str(image.shape).encode())
    whole.update(np.ascontiguousarray(image))
    return whole.hexdigest()


def difference_hash(image: np.ndarray) -> bytes:
    """Return whether each cell of a grid over an image is brighter than its left neighbour, a bit per cell.

    ``image`` is ``uint8 (height, width, 3)``; the grid has :data:`SIDE` rows and as many columns.
    """
    from PIL import Image

    small = Image.fromarray(image).convert("L").resize((SIDE + 1, SIDE), Image.Resampling.BOX)
    brightness = np.asarray(small, np.int16)
    return np.packbits(brightness[:, 1:] > brightness[:, :-1]).tobytes()


def group_duplicates(found: pd.DataFrame) -> tuple[int, list[tuple[str, str]]]:
    """Return how many pairs of images of one group look alike, by the hashes that :func:`find_duplicates` returns, and
    examples.

    There is at most one example for each image. Copies and black images are in no pair. Plain images are left out,
    because their hashes say nothing: those with fewer than ``NEAR`` bits of either value.
    """
    n, pairs = 0, []
    counted = found[(found["status"] == "") & (found["pixels"] != "")]
    for _, rows in counted.groupby("group", sort=False):
        ids = rows["image_id"].to_numpy(object)
        bits = np.frombuffer(b"".join(rows["hash"]), np.uint64).reshape(len(rows), -1)
        ones = np.bitwise_count(bits).sum(axis=1)
        telling = (ones >= NEAR) & (ones <= SIDE * SIDE - NEAR)
        ids, bits = ids[telling], bits[telling]
        for k in range(len(ids) - 1):
            near = np.bitwise_count(bits[k] ^ bits[k + 1 :]).sum(axis=1) <= NEAR
            n += int(near.sum())
            pairs += [(ids[k], other) for other in ids[k + 1 :][near][:1]]
    return n, pairs


# -- what is said of copies ------------------------------------------------------------------------------------


def drop_duplicates(images: ImageSource, judged: pd.DataFrame, file: str) -> pd.DataFrame:
    """Return people's annotations of images with each copy's annotation given to the image that counts.

    Args:
        images: The annotated images; only :class:`DistinctImages` have copies.
        judged: One row per image, or per image and position: image_id, position (if several), outcome, gender.
        file: The file of annotations, for messages.

    Copies, black images and placeholders get their outcome. Raises InputError: Copies of one image are annotated
    differently.
    """
    found = getattr(images, "found", None)
    if found is None:
        return judged
    judged = judged.reset_index(drop=True)
    about = judged[["image_id"]].merge(found, on="image_id", how="left")
    position = judged["position"] if "position" in judged else pd.Series(1, judged.index)
    said = judged["gender"].where(judged["gender"] != "", judged["status"])
    rated = ~about["status"].isin([BLACK, PLACEHOLDER]) & (judged["status"] != "unannotated") & (about["pixels"] != "")
    for _, answers in said[rated].groupby([about["pixels"], position], sort=False):
        if answers.nunique() > 1:
            other = answers.index[answers != answers.iloc[0]][0]
            both = ((judged["image_id"][k], answers[k]) for k in (answers.index[0], other))
            raise InputError(_contradiction(*both, file))
    # An image whose copy alone is annotated takes the copy's annotation.
    row = pd.Series(judged.index, judged.index)
    first = row.where(rated).groupby([about["group"], about["pixels"], position]).transform("first")
    take = first.where((about["pixels"] != "") & first.notna(), row).astype(int)
    names = [name for name in judged if name not in ("image_id", "position")]
    judged = judged.assign(**{name: judged[name].to_numpy()[take] for name in names})
    withheld = about["status"] != ""
    outcome, gender = judged["status"].mask(withheld, about["status"]), judged["gender"].mask(withheld, "")
    return judged.assign(status=outcome, gender=gender)


def check_descriptions(found: pd.DataFrame, told: pd.DataFrame, where: str) -> None:
    """Look whether a table says the same of all copies of an image, in whichever group they are.

    ``told`` has one row per person: image_id, position, prompt, group; ``where`` names the table. Raises InputError:
    It does not.
    """
    named = found[found["pixels"].ne("") & found["pixels"].duplicated(keep=False)].sort_values("image_id")
    by_image = dict(list(told.groupby("image_id", sort=False)))
    for _, copies in named.groupby("pixels", sort=False):
        texts = {}
        for image_id in filter(by_image.__contains__, copies["image_id"]):
            people = by_image[image_id].sort_values("position")[["prompt", "group"]].drop_duplicates()
            texts[image_id] = "; ".join(f"prompt {p!r}, group {g!r}" for p, g in people.itertuples(index=False))
        first = next(iter(texts), "")
        for image_id, text in texts.items():
            if text != texts[first]:
                raise InputError(_contradiction((first, texts[first]), (image_id, text), where))


def _contradiction(first: tuple[str, str], second: tuple[str, str], where: str) -> str:
    return (
        f"{first[0]} and {second[0]} are copies of one image (identical pixels), but {where} gives {first[1]} for the "
        f"first and {second[1]} for the second. Correct {where}, or remove one of the two images."
    )


def describe_left_out(images: ImageSource, skipped: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return how many images of a source are left out, by reason and group, as ``2 of 9 images: duplicate 2 (chef 2)``.

    ``skipped`` are files that are no images of the source, by reason. Empty where nothing is left out.
    """
    found, table = getattr(images, "found", pd.DataFrame()), all_images(images).table
    made = dict(zip(table["image_id"], table["status"], strict=True)) if "status" in table else {}
    counts: dict[str, Counter[str]] = {}
    example = ""
    for image in found.itertuples():
        own = made.get(image.image_id, "")
        if image.status or not image.pixels:
            reason = image.status or (own if own in WITHHELD else "unreadable")
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
    total = len(found) + sum(map(len, (skipped or {}).values()))
    n = sum(by_group.total() for by_group in counts.values())
    kind = "files" if any((skipped or {}).values()) else "images"
    return f"{n:,} of {total:,} {kind}: {', '.join(parts)}" if n else ""


def remarks(images: ImageSource) -> list[str]:
    """Return what readers should know of images that count: those in several groups, and those that look alike."""
    found = getattr(images, "found", None)
    if found is None or found.empty:
        return []
    said = []
    counted = found[(found["status"] == "") & (found["pixels"] != "")]
    shared = counted[counted["pixels"].duplicated(keep=False)]
    if len(shared):
        both = join_values(shared.loc[shared["pixels"] == shared["pixels"].iloc[0], "image_id"])
        n = shared["pixels"].nunique()
        said.append(f"Images that are in more than one group, and count in each: {n:,}, such as {both}.")
    n, pairs = group_duplicates(found)
    if n:
        example = " and ".join(pairs[0])
        said.append(f"Pairs of images of one group that look alike, and all count: {n:,}, such as {example}.")
    return said
