"""All images of a table of prompts: generated once, in shards that a stopped run reuses.

A shard is 64 images in the order of the table, or fewer to keep images with shared noise together. A resumed run
therefore generates the same batches, and the same bytes. One stage caches the files of images, another one all other
facts about them: a finished run reads only the facts until an image is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from biaslab.cache.result_cache import ResultCache, explain_errors, load_if_valid, locked, replace
from biaslab.errors import InputError, RunError
from biaslab.generation import generator
from biaslab.generation.settings import GenerationSettings
from biaslab.hub import checkpoints
from biaslab.io.image_files import UnreadableImage, decode, is_black
from biaslab.judges.judge_labels import BLOCKED

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)
OK = "ok"
SHARD = generator.MAX_BATCH
NOISE = "noise_id"  # The column of prompts that share noise: those with the same one, such as a triplet.
# Maximum number of shards in memory, for reading image by image.
_MAX_SHARDS = 4
# The columns that identify an image of a stage.
_KEY = ["prompt_id", "text", "index"]


class GeneratedSource:
    """Images generated from a table of prompts, as a source.

    The table has one row per image: image_id (``prompt_id/index``), prompt_id, index (from 0), seed (of its noise),
    status (``ok``, or the reason why there is no image) and further columns of subclasses.
    """

    name: str
    digest: str
    table: pd.DataFrame
    # Arguments of :meth:`_image` by image_id.
    _by_id: Mapping[str, Any]

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | UnreadableImage]:
        """Return images in the order of ``image_ids``, or reasons; InputError where an id is not in the table."""
        return list(map(self._image, self._row_of(image_ids)))

    def _row_of(self, image_ids: Sequence[str]) -> list:
        for image_id in image_ids:
            if image_id not in self._by_id:
                raise InputError(f"{self.name} has no image {image_id!r}; its table lists all its images.")
        return [self._by_id[image_id] for image_id in image_ids]


class GeneratedImages(GeneratedSource):
    """``n_images`` generated images of each prompt; earlier images are read from the cache.

    Their cache keys consist of model, weights, settings, seed and prompts. Automatically selected number types and
    batch sizes are saved in ``made.json`` of the stage's folder, for resumed runs. Images without shared noise are
    found independently of other images, so that a larger ``n_images`` generates only the new ones. The table has a
    status ``blocked`` (by the model's safety checker) and n_tokens_truncated (tokens at the prompt's end that no text
    encoder reads).

    Args:
        prompts: Columns prompt_id (unique texts), text and n_images (0 or more), and for prompts that share noise
            noise_id, which then replaces prompt_id in the seed. Latents of such images are also cached.
        load: Loads the model when an image must be generated, as :func:`biaslab.generation.generator.load`.
        stated: Settings that the model's authors state in place of its family's, which are part of the cache key.

    Raises ParameterError, MissingInputError: The model is unavailable.
    """

    # Inputs of a result in addition to those of every generated image.
    _extra_inputs: Mapping[str, object] = MappingProxyType({})

    def __init__(
        self,
        prompts: pd.DataFrame,
        model: str,
        settings: GenerationSettings,
        *,
        seed: int,
        cache: ResultCache,
        device: str = "auto",
        load: Callable[..., generator.Generator] = generator.load,
        stated: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self._units = units = units_of(prompts)
        self._n_shard_rows = _count_shard_rows(units)
        place = checkpoints.find_checkpoint(model)
        is_folder = os.path.isdir(place.base) and not (place.adapters or place.removes_adapters)
        self.name = Path(place.base).name if is_folder else checkpoints.label(model)
        self._settings, self._seed, self._load = settings, seed, partial(load, model, device=device)
        inputs = settings.look | {
            "model": self.name,
            "weights": checkpoints.digest(model),
            "seed": seed,
            **self._extra_inputs,
        }
        inputs |= {"stated": dict(stated)} if stated else {}
        self._facts = cache.stage("generated", inputs, self._compute_facts)
        # Computed in the process that computes the facts of a shard.
        self._files = cache.stage("generated_files", inputs, self._generate).without_workers()
        self._device = device
        digest = hashlib.sha256(self._facts.digest.encode())
        for row in units.itertuples(index=False):
            digest.update(f"{row.prompt_id}\0{row.text}\0{row.index_}\n".encode())
        if NOISE in units:
            digest.update("\n".join(units[NOISE]).encode())
        self.digest = digest.hexdigest()
        self._check_open()

    def _check_open(self) -> None:
        self._by_id = {k: i for i, k in enumerate(image_ids_of(self._units))}
        # The paths of images in other shards, and the shards that were searched.
        self._places: dict[tuple, Path] = {}
        self._searched: set[Path] = set()
        self._cached_shard = lru_cache(_MAX_SHARDS)(self._read_shard)

    def __getstate__(self) -> dict[str, Any]:
        # Other processes get the request and the code, but nothing that is read or loaded on demand.
        excluded = ("_by_id", "_places", "_searched", "_cached_shard", "_generator", "table")
        return {k: v for k, v in self.__dict__.items() if k not in excluded}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._check_open()

    def complete(self, *, progress: bool = True) -> Self:
        """Generate missing images and set :attr:`table`.

        Raises ParameterError: The model cannot be loaded, does not support the settings, or lacks a word. RunError: A
        single image does not fit in memory, or the numbers overflow.
        """
        import pandas as pd

        label = f"generating images with {self.name}"
        options = {"label": label, "progress": progress, "gpu": self._device != "cpu"}
        table = self._facts.compute(self._units, shard_rows=self._n_shard_rows, **options)
        empty = pd.DataFrame({k: pd.Series(dtype=v) for k, v in _TYPES.items()})
        self.table = (table if len(table) else empty).astype(_TYPES)
        if n_truncated := self.table.loc[self.table["n_tokens_truncated"] > 0, "prompt_id"].nunique():
            message = "%d of %d prompts are too long for the text encoder of %s (column n_tokens_truncated)."
            _log.warning(message, n_truncated, self.table["prompt_id"].nunique(), self.name)
        return self

    def n_cached(self) -> int:
        """Return the number of images that are cached."""
        return self._facts.n_cached(self._units, shard_rows=self._n_shard_rows)

    def latents(self, image_ids: Sequence[str]) -> list[LatentRecord]:
        """Return latents in the order of ``image_ids``; InputError where an id or the column noise_id is missing."""
        if NOISE not in self._units:
            raise InputError(f"No latents of {self.name} are saved, because its prompts have no column {NOISE!r}.")
        records = []
        for row in map(self._row, self._row_of(image_ids)):
            has_final = isinstance(row["latent"], bytes)
            final = np.load(BytesIO(row["latent"]), allow_pickle=False) if has_final else None
            records.append(LatentRecord(final, row["like"], np.frombuffer(row["by_step"], float)))
        return records

    def _image(self, place: int) -> np.ndarray | UnreadableImage:
        # Withheld images have no file.
        file = self._row(place)["file"]
        return decode(file) if isinstance(file, bytes) else UnreadableImage(BLOCKED)

    def _row(self, place: int) -> pd.Series:
        row = place % self._n_shard_rows
        return self._cached_shard(place - row).iloc[row]

    def _read_shard(self, start: int) -> pd.DataFrame:
        return self._load_shard(self._units.iloc[start : start + self._n_shard_rows].reset_index(drop=True))

    def _load_shard(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return a shard with its files, generated if it is missing or damaged."""
        return self._files.compute(rows, shard_rows=self._n_shard_rows, progress=False)

    def _compute_facts(self, rows: pd.DataFrame) -> pd.DataFrame:
        return self._load_shard(rows)[list(_TYPES)]

    def _generate(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return a shard, generating only images that no other shard has."""
        import pandas as pd

        if set(rows) - {*_KEY, "index_"}:
            # Images with shared noise stay adjacent, for their latents; other additional columns are not searched.
            return self._generate_rows(rows)
        keys = pd.MultiIndex.from_frame(rows[["prompt_id", "text", "index_"]], names=_KEY)
        cached_rows = self._find_in_shards(keys)
        missing_rows = rows[~keys.isin(cached_rows.index)].reset_index(drop=True) if len(cached_rows) else rows
        new_rows = [self._generate_rows(missing_rows).set_index(_KEY, drop=False)] if len(missing_rows) else []
        return pd.concat([cached_rows, *new_rows]).loc[keys].reset_index(drop=True)

    def _find_in_shards(self, keys: pd.MultiIndex) -> pd.DataFrame:
        """Return the rows of images in other shards of the stage, indexed by :data:`_KEY`."""
        import pandas as pd
        import pyarrow.parquet as pq

        for path in set(self._files.folder.glob("*.parquet")) - self._searched:
            self._searched.add(path)
            # Shards that are damaged, or removed by another process, have no images.
            with contextlib.suppress(OSError, ValueError):
                columns = pq.read_table(path, columns=_KEY).to_pydict()
                self._places |= dict.fromkeys(zip(*columns.values(), strict=True), path)
        shards = (load_if_valid(path) for path in {self._places[key] for key in keys if key in self._places})
        frames = [shard.set_index(_KEY, drop=False) for shard in shards if shard is not None]
        frames = [shard[shard.index.isin(keys)] for shard in frames]
        rows = pd.concat(frames) if frames else pd.DataFrame()
        return rows[~rows.index.duplicated()]

    def _generate_rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        model, keys = self._generator, noise_keys(rows)
        batch_size, ids = model.batch_size, image_ids_of(rows)
        recorder = LatentRecorder(keys, ids) if NOISE in rows else None
        images, extra = self._generate_with(model, rows, keys, recorder.watch if recorder else generator.no_watch)
        extra |= recorder.columns() if recorder else {}
        if model.batch_size != batch_size:
            self._write_note(model)
        self._check_differ(rows, images)
        files = [_png(image) if isinstance(image, np.ndarray) else None for image in images]
        columns = rows[["prompt_id", "text", "index_"]].rename(columns={"index_": "index"})
        return columns.assign(
            image_id=ids,
            seed=[generator.image_seed(self._seed, *key) for key in keys],
            status=[OK if isinstance(i, np.ndarray) else i.reason for i in images],
            n_tokens_truncated=model.n_tokens_truncated(list(rows["text"])),
            file=files,
            **extra,
        )[[*_TYPES, "text", "file", *extra]]

    def _check_differ(self, rows: pd.DataFrame, images: Sequence[np.ndarray | UnreadableImage]) -> None:
        """Raise RunError if the first two images of a prompt are identical although their noise differs."""
        by_index = {(row.prompt_id, row.index_): k for k, row in enumerate(rows.itertuples(index=False))}
        for (prompt_id, index), k in by_index.items():
            other_index = by_index.get((prompt_id, 1), k) if index == 0 else k
            first, second = images[k], images[other_index]
            if other_index == k or isinstance(first, UnreadableImage) or isinstance(second, UnreadableImage):
                continue
            if np.array_equal(first, second) and not is_black(first):
                raise RunError(
                    f"{self.name} generates the same image from different noise: the first two images of "
                    f"{rows['text'].iloc[k]!r} have identical pixels. Copies are not independent observations. Check "
                    "that the pipeline uses the generator passed to it, and check generation.steps and "
                    "generation.scheduler."
                )

    def _generate_with(
        self, model: generator.Generator, rows: pd.DataFrame, keys: list[tuple[str, int]], watch: generator.Watch
    ) -> tuple[list[np.ndarray | UnreadableImage], dict[str, list]]:
        """Return the images of rows, and additional columns to cache, by name."""
        return model.images(list(rows["text"]), keys, self._seed, watch=watch), {}

    @cached_property
    def _generator(self) -> generator.Generator:
        """The model, loaded with the number type and batch size of an earlier run or another worker."""
        if note := self._read_note():
            return self._load_generator(note)
        # The first worker determines them for all, because other types and batches change rounding.
        with locked(self._note):
            return self._load_generator(self._read_note())

    def _load_generator(self, note: Mapping[str, Any]) -> generator.Generator:
        settings = self._settings
        is_auto = {"dtype": settings.dtype == "auto", "batch_size": not settings.batch_size}
        changes = {name: note[name] for name, use_note in is_auto.items() if use_note and name in note}
        loaded = self._load(settings.with_changes(**changes))
        loaded.check(list(self._units["text"].unique()))
        self._write_note(loaded)
        return loaded

    @property
    def _note(self) -> Path:
        return self._files.folder / "made.json"

    def _read_note(self) -> dict:
        try:
            return dict(json.loads(self._note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    def _write_note(self, loaded: generator.Generator) -> None:
        with explain_errors(self._note):
            replace(self._note, (json.dumps(loaded.description(), indent=1) + "\n").encode())


_TYPES = {"image_id": object, "prompt_id": object, "index": "int64", "seed": "int64"}
_TYPES |= {"status": object, "n_tokens_truncated": "int64"}


def units_of(prompts: pd.DataFrame) -> pd.DataFrame:
    """Return one row per image, in order: prompt_id, text, index_ and, where prompts have it, noise_id.

    For neighbours with the same noise_id, images with the same index are adjacent.
    """
    import pandas as pd

    texts = ["prompt_id", "text", *({NOISE} & set(prompts))]
    units = prompts.loc[:, texts].astype(object).reset_index(drop=True)
    units = units.loc[units.index.repeat(prompts["n_images"].to_numpy(np.int64))].reset_index(drop=True)
    units = units.assign(index_=units.groupby("prompt_id").cumcount().to_numpy(np.int64))
    if NOISE not in units:
        return units
    order = pd.DataFrame({"group": (units[NOISE] != units[NOISE].shift()).cumsum(), "index": units["index_"]})
    return units.loc[order.sort_values(["group", "index"], kind="stable").index].reset_index(drop=True)


def noise_keys(units: pd.DataFrame) -> list[tuple[str, int]]:
    """Return the key of each image's noise in addition to the run's seed: noise_id, or else prompt_id, and index."""
    return list(zip(units[NOISE if NOISE in units else "prompt_id"], units["index_"], strict=True))


def _count_shard_rows(units: pd.DataFrame) -> int:
    """Return the number of rows of a shard: 64, or fewer to keep adjacent images with the same noise together."""
    if NOISE not in units or units.empty:
        return SHARD
    keys = units[[NOISE, "index_"]]
    counts = (keys != keys.shift()).any(axis=1).cumsum().value_counts()
    smallest, largest = int(counts.min()), int(counts.max())
    if smallest != largest or largest > SHARD:
        raise InputError(
            f"The prompts' column {NOISE!r} has between {smallest} and {largest} consecutive images with the same "
            f"noise. The number must be the same everywhere, at most {SHARD}: use consecutive prompts for each "
            f"{NOISE}, with the same n_images."
        )
    return SHARD - SHARD % largest


def image_ids_of(units: pd.DataFrame) -> list[str]:
    """Return the id of each image: ``prompt_id/index``."""
    return [f"{prompt_id}/{i}" for prompt_id, i in zip(units["prompt_id"], units["index_"], strict=True)]


def _png(image: np.ndarray) -> bytes:
    """Return an image as a PNG file with low compression, which is much faster and hardly larger."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(image).save(file, format="PNG", compress_level=1)
    return file.getvalue()


# -- latents of images that share noise: the final ones in half precision, and their similarity by step ---------


class LatentRecord(NamedTuple):
    """The cached data of an image's latents."""

    final: np.ndarray | None
    """``float16 (channels, height, width)``, before decoding; None if the pipeline does not provide them."""
    reference_image: str  # The first image with the same noise, with which it was compared.
    by_step: np.ndarray  # ``float64 (steps,)``: the cosine of both after each step, -1 to 1.


class LatentRecorder:
    """A recorder of latents during generation; ``keys`` determine each image's noise.

    Neighbours with the same key are compared with the first of them.
    """

    def __init__(self, keys: Sequence[tuple[str, int]], image_ids: Sequence[str]) -> None:
        self._first_rows: list[int] = []
        for i, key in enumerate(keys):
            self._first_rows.append(self._first_rows[-1] if i and keys[i - 1] == key else i)
        self._ids = image_ids
        self._final: list[np.ndarray | None] = [None] * len(keys)
        self._cosines: list[list[float]] = [[] for _ in keys]
        # Latents of the last image's reference by step, because the next batch may continue the same noise.
        self._references: dict[int, np.ndarray] = {}

    @contextlib.contextmanager
    def watch(self, positions: range) -> Iterator[generator.Follow]:
        """Record the latents of a batch, as ``watch`` of :meth:`biaslab.generation.Generator.images`."""
        from biaslab.metrics.similarity import cosines

        firsts = [self._first_rows[i] - positions.start for i in positions]
        states: dict[int, np.ndarray] = {}
        by_step, final = [], None

        def follow(step: int, latents) -> None:
            nonlocal final
            final = latents.detach().float().cpu().numpy()
            references = [self._references[step] if first < 0 else final[first] for first in firsts]
            states[step] = references[-1].copy()
            by_step.append(cosines(final, np.stack(references)))

        yield follow
        if final is None:
            return
        self._references = states
        for i, latent, image_cosines in zip(positions, final, np.stack(by_step, axis=1), strict=True):
            self._final[i], self._cosines[i] = latent, list(image_cosines)

    def columns(self) -> dict[str, list]:
        """Return the cached columns of all images, as :meth:`GeneratedImages.latents` reads them."""
        return {
            "latent": list(map(_pack, self._final)),
            "like": [self._ids[first] for first in self._first_rows],
            "by_step": [np.asarray(image_cosines, float).tobytes() for image_cosines in self._cosines],
        }


def _pack(latent: np.ndarray | None) -> bytes | None:
    if latent is None:
        return None
    file = BytesIO()
    np.save(file, latent.astype(np.float16))
    return file.getvalue()
