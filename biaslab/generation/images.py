"""All images of a table of prompts: generated once, in shards that a stopped run finds again.

A shard is 64 images in the order of the table, or as many fewer as keep together those that share noise, so that a run
that goes on makes the same batches, and thereby the same bytes. One stage keeps the files of images, another all that
is known of them otherwise: a finished run reads this one alone until somebody looks at an image.
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

from biaslab.cache.result_cache import ResultCache, explain_errors, load_if_whole, locked, replace
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
# Shards of images held in memory for those who read one image after the other.
_HELD = 4
# What tells an image of a stage from all others.
_KEY = ["prompt_id", "text", "index"]


class GeneratedSource:
    """Images that were made of a table of prompts, as a source.

    The table has one row per image: image_id (``prompt_id/index``), prompt_id, index (from 0), seed (of its noise),
    outcome (``ok``, or why there is none) and what else is known of it.
    """

    name: str
    digest: str
    table: pd.DataFrame
    # By image_id, what :meth:`_image` takes.
    _by_id: Mapping[str, Any]

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | UnreadableImage]:
        """Return images in the order asked for, or why there is none; InputError where an id is not in the table."""
        return list(map(self._image, self._row_of(image_ids)))

    def _row_of(self, image_ids: Sequence[str]) -> list:
        for image_id in image_ids:
            if image_id not in self._by_id:
                raise InputError(f"{self.name} has no image {image_id!r}; its table lists those it has.")
        return [self._by_id[image_id] for image_id in image_ids]


class GeneratedImages(GeneratedSource):
    """``n_images`` generated images of each prompt; what was generated before is found again.

    They are kept by model, weights, settings, seed and prompts. Types and batch sizes that were found stay in
    ``made.json`` of the stage's folder, for when a stopped run goes on. Images that share no noise are found whatever
    else is asked for: of more images a prompt, only the new ones are made. The table has an outcome ``blocked`` (by the
    model's safety checker) and n_tokens_truncated (tokens at the prompt's end that no text encoder reads).

    Args:
        prompts: Columns prompt_id (unique texts), text and n_images (0 or more), and where prompts share noise
            noise_id, which stands in for prompt_id there. Of those that share noise latents are kept, too.
        load: Loads the model once an image must be generated, as :func:`biaslab.generation.generator.load`.
        stated: What the model's authors state in place of its family's settings, which is part of the cache's key.

    Raises ParameterError, MissingInputError: The model is not to be had.
    """

    # What a result depends on beside what every generated image does.
    _also: Mapping[str, object] = MappingProxyType({})

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
        self._shard_rows = _shard_rows(units)
        where = checkpoints.find_checkpoint(model)
        is_folder = os.path.isdir(where.base) and not (where.adapters or where.removes_adapters)
        self.name = Path(where.base).name if is_folder else checkpoints.label(model)
        self._settings, self._seed, self._load = settings, seed, partial(load, model, device=device)
        inputs = settings.look | {"model": self.name, "weights": checkpoints.digest(model), "seed": seed, **self._also}
        inputs |= {"stated": dict(stated)} if stated else {}
        self._facts = cache.stage("generated", inputs, self._without_files)
        # Made by whoever states the facts of a shard, in the same process.
        self._files = cache.stage("generated_files", inputs, self._generate).without_workers()
        self._device = device
        whole = hashlib.sha256(self._facts.digest.encode())
        for row in units.itertuples(index=False):
            whole.update(f"{row.prompt_id}\0{row.text}\0{row.index_}\n".encode())
        if NOISE in units:
            whole.update("\n".join(units[NOISE]).encode())
        self.digest = whole.hexdigest()
        self._check_open()

    def _check_open(self) -> None:
        self._by_id = {k: i for i, k in enumerate(image_ids_of(self._units))}
        # Where images of other shards are, and the shards that were looked at.
        self._places: dict[tuple, Path] = {}
        self._looked_at: set[Path] = set()
        self._shard_at = lru_cache(_HELD)(self._read_shard)

    def __getstate__(self) -> dict[str, Any]:
        # To other processes go what was asked and what makes it, and nothing that is read or loaded when needed.
        left = ("_by_id", "_places", "_looked_at", "_shard_at", "_generator", "table")
        return {k: v for k, v in self.__dict__.items() if k not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._check_open()

    def complete(self, *, progress: bool = True) -> Self:
        """Generate what is missing and set :attr:`table`.

        Raises ParameterError: The model cannot be loaded, or do what is asked, or does not know a word. RunError: A
        single image does not fit in memory, or the numbers overflow.
        """
        import pandas as pd

        label = f"generating with {self.name}"
        options = {"label": label, "progress": progress, "gpu": self._device != "cpu"}
        found = self._facts.compute(self._units, shard_rows=self._shard_rows, **options)
        empty = pd.DataFrame({k: pd.Series(dtype=v) for k, v in _TYPES.items()})
        self.table = (found if len(found) else empty).astype(_TYPES)
        if cut := self.table.loc[self.table["n_tokens_truncated"] > 0, "prompt_id"].nunique():
            said = "%d of %d prompts are longer than the text encoder of %s reads (column n_tokens_truncated)."
            _log.warning(said, cut, self.table["prompt_id"].nunique(), self.name)
        return self

    def n_cached(self) -> int:
        """Return how many of the images were generated before."""
        return self._facts.n_cached(self._units, shard_rows=self._shard_rows)

    def latents(self, image_ids: Sequence[str]) -> list[LatentRecord]:
        """Return latents of images in the order asked for; InputError where an id or the column noise_id is missing."""
        if NOISE not in self._units:
            raise InputError(f"No latents of {self.name} are saved: its prompts have no column {NOISE!r}.")
        records = []
        for row in map(self._row, self._row_of(image_ids)):
            has_final = isinstance(row["latent"], bytes)
            final = np.load(BytesIO(row["latent"]), allow_pickle=False) if has_final else None
            records.append(LatentRecord(final, row["like"], np.frombuffer(row["by_step"], float)))
        return records

    def _image(self, place: int) -> np.ndarray | UnreadableImage:
        # Images that were withheld have no file.
        file = self._row(place)["file"]
        return decode(file) if isinstance(file, bytes) else UnreadableImage(BLOCKED)

    def _row(self, place: int) -> pd.Series:
        row = place % self._shard_rows
        return self._shard_at(place - row).iloc[row]

    def _read_shard(self, start: int) -> pd.DataFrame:
        return self._shard(self._units.iloc[start : start + self._shard_rows].reset_index(drop=True))

    def _shard(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return a shard with its files, generated where it is not there or damaged."""
        return self._files.compute(rows, shard_rows=self._shard_rows, progress=False)

    def _without_files(self, rows: pd.DataFrame) -> pd.DataFrame:
        return self._shard(rows)[list(_TYPES)]

    def _generate(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return a shard, of which images are made that no other shard has."""
        import pandas as pd

        if set(rows) - {*_KEY, "index_"}:
            # Those that share noise stay side by side, for their latents; and what else is asked is not looked at.
            return self._generate_rows(rows)
        asked = pd.MultiIndex.from_frame(rows[["prompt_id", "text", "index_"]], names=_KEY)
        there = self._elsewhere(asked)
        left = rows[~asked.isin(there.index)].reset_index(drop=True) if len(there) else rows
        made = [self._generate_rows(left).set_index(_KEY, drop=False)] if len(left) else []
        return pd.concat([there, *made]).loc[asked].reset_index(drop=True)

    def _elsewhere(self, asked: pd.MultiIndex) -> pd.DataFrame:
        """Return the rows of images that shards of the stage have, by :data:`_KEY`."""
        import pandas as pd
        import pyarrow.parquet as pq

        for path in set(self._files.folder.glob("*.parquet")) - self._looked_at:
            self._looked_at.add(path)
            # What is damaged has no images, and what another process takes away has none either.
            with contextlib.suppress(OSError, ValueError):
                listed = pq.read_table(path, columns=_KEY).to_pydict()
                self._places |= dict.fromkeys(zip(*listed.values(), strict=True), path)
        shards = (load_if_whole(path) for path in {self._places[key] for key in asked if key in self._places})
        found = [shard.set_index(_KEY, drop=False) for shard in shards if shard is not None]
        found = [shard[shard.index.isin(asked)] for shard in found]
        whole = pd.concat(found) if found else pd.DataFrame()
        return whole[~whole.index.duplicated()]

    def _generate_rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        made_by, keys = self._generator, noise_keys(rows)
        size, ids = made_by.batch_size, image_ids_of(rows)
        followed = LatentRecorder(keys, ids) if NOISE in rows else None
        images, more = self._generate_with(made_by, rows, keys, followed.watch if followed else generator.unwatched)
        more |= followed.columns() if followed else {}
        if made_by.batch_size != size:
            self._write_down(made_by)
        self._check_differ(rows, images)
        files = [_png(image) if isinstance(image, np.ndarray) else None for image in images]
        made = rows[["prompt_id", "text", "index_"]].rename(columns={"index_": "index"})
        return made.assign(
            image_id=ids,
            seed=[generator.image_seed(self._seed, *key) for key in keys],
            status=[OK if isinstance(i, np.ndarray) else i.reason for i in images],
            n_tokens_truncated=made_by.n_tokens_truncated(list(rows["text"])),
            file=files,
            **more,
        )[[*_TYPES, "text", "file", *more]]

    def _check_differ(self, rows: pd.DataFrame, images: Sequence[np.ndarray | UnreadableImage]) -> None:
        """Raise RunError where the first two images of a prompt are identical, though their noise differs."""
        by_index = {(row.prompt_id, row.index_): k for k, row in enumerate(rows.itertuples(index=False))}
        for (prompt_id, index), k in by_index.items():
            other = by_index.get((prompt_id, 1), k) if index == 0 else k
            first, second = images[k], images[other]
            if other == k or isinstance(first, UnreadableImage) or isinstance(second, UnreadableImage):
                continue
            if np.array_equal(first, second) and not is_black(first):
                raise RunError(
                    f"{self.name} generates the same image from different noise: the first two images of "
                    f"{rows['text'].iloc[k]!r} have identical pixels. Copies are not independent observations. Check "
                    "that the pipeline uses the generator it is given, and generation.steps and generation.scheduler."
                )

    def _generate_with(
        self, made_by: generator.Generator, rows: pd.DataFrame, keys: list[tuple[str, int]], watch: generator.Watch
    ) -> tuple[list[np.ndarray | UnreadableImage], dict[str, list]]:
        """Return the images of some rows, and by name what else is kept beside their files."""
        return made_by.images(list(rows["text"]), keys, self._seed, watch=watch), {}

    @cached_property
    def _generator(self) -> generator.Generator:
        """The model, loaded with what an earlier run or another worker found for it."""
        if said := self._written_down():
            return self._load_message(said)
        # The first of several workers finds it for all: of other types and batches come other roundings.
        with locked(self._note):
            return self._load_message(self._written_down())

    def _load_message(self, said: Mapping[str, Any]) -> generator.Generator:
        own = self._settings
        open_ = {"dtype": own.dtype == "auto", "batch_size": not own.batch_size}
        found = {name: said[name] for name, is_open in open_.items() if is_open and name in said}
        loaded = self._load(own.changed(**found))
        loaded.check(list(self._units["text"].unique()))
        self._write_down(loaded)
        return loaded

    @property
    def _note(self) -> Path:
        return self._files.folder / "made.json"

    def _written_down(self) -> dict:
        try:
            return dict(json.loads(self._note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    def _write_down(self, loaded: generator.Generator) -> None:
        with explain_errors(self._note):
            replace(self._note, (json.dumps(loaded.description(), indent=1) + "\n").encode())


_TYPES = {"image_id": object, "prompt_id": object, "index": "int64", "seed": "int64"}
_TYPES |= {"status": object, "n_tokens_truncated": "int64"}


def units_of(prompts: pd.DataFrame) -> pd.DataFrame:
    """Return one row per image, in order: prompt_id, text, index_ and, where prompts have it, noise_id.

    Of neighbours with one noise_id, the images of an index stand side by side.
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
    """Return what decides each image's noise beside the run's seed: its noise_id, or else its prompt_id, and index."""
    return list(zip(units[NOISE if NOISE in units else "prompt_id"], units["index_"], strict=True))


def _shard_rows(units: pd.DataFrame) -> int:
    """Return how many rows are a shard: 64, or so many fewer that images side by side with one noise stay together."""
    if NOISE not in units or units.empty:
        return SHARD
    keys = units[[NOISE, "index_"]]
    together = (keys != keys.shift()).any(axis=1).cumsum().value_counts()
    least, most = int(together.min()), int(together.max())
    if least != most or most > SHARD:
        raise InputError(
            f"The prompts' column {NOISE!r} has between {least} and {most} consecutive images of one noise. Give the "
            f"same number everywhere, at most {SHARD}: consecutive prompts of each {NOISE}, with the same n_images."
        )
    return SHARD - SHARD % most


def image_ids_of(units: pd.DataFrame) -> list[str]:
    """Return the id of each image: ``prompt_id/index``."""
    return [f"{prompt_id}/{i}" for prompt_id, i in zip(units["prompt_id"], units["index_"], strict=True)]


def _png(image: np.ndarray) -> bytes:
    """Return an image as a PNG file, compressed little: that is much faster and hardly larger."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(image).save(file, format="PNG", compress_level=1)
    return file.getvalue()


# -- latents of images that share noise: the last of each in half precision, and how alike they were by step ---


class LatentRecord(NamedTuple):
    """What is kept of an image's latents."""

    final: np.ndarray | None
    """``float16 (channels, height, width)``, before decoding; None where the pipeline does not show them."""
    reference_image: str  # The first image of the same noise, with which it was compared.
    by_step: np.ndarray  # ``float64 (steps,)``: the cosine of both after each step, -1 to 1.


class LatentRecorder:
    """Latents of images, taken while they are made; ``keys`` decide each image's noise.

    Neighbours with the same are compared with the first of them.
    """

    def __init__(self, keys: Sequence[tuple[str, int]], image_ids: Sequence[str]) -> None:
        self._first: list[int] = []
        for i, key in enumerate(keys):
            self._first.append(self._first[-1] if i and keys[i - 1] == key else i)
        self._ids = image_ids
        self._final: list[np.ndarray | None] = [None] * len(keys)
        self._cosines: list[list[float]] = [[] for _ in keys]
        # Of the last image's first one, by step: where a batch is too small for all of one noise, the next goes on.
        self._held: dict[int, np.ndarray] = {}

    @contextlib.contextmanager
    def watch(self, chosen: range) -> Iterator[generator.Follow]:
        """Follow a batch, as :meth:`biaslab.generation.Generator.images` asks for."""
        from biaslab.metrics.similarity import cosines

        firsts = [self._first[i] - chosen.start for i in chosen]
        held: dict[int, np.ndarray] = {}
        by_step, final = [], None

        def follow(step: int, latents) -> None:
            nonlocal final
            final = latents.detach().float().cpu().numpy()
            others = [self._held[step] if first < 0 else final[first] for first in firsts]
            held[step] = others[-1].copy()
            by_step.append(cosines(final, np.stack(others)))

        yield follow
        if final is None:
            return
        self._held = held
        for i, image, of_image in zip(chosen, final, np.stack(by_step, axis=1), strict=True):
            self._final[i], self._cosines[i] = image, list(of_image)

    def columns(self) -> dict[str, list]:
        """Return what is kept of each image, as :meth:`GeneratedImages.latents` reads it."""
        return {
            "latent": list(map(_packed, self._final)),
            "like": [self._ids[first] for first in self._first],
            "by_step": [np.asarray(of_image, float).tobytes() for of_image in self._cosines],
        }


def _packed(latent: np.ndarray | None) -> bytes | None:
    if latent is None:
        return None
    file = BytesIO()
    np.save(file, latent.astype(np.float16))
    return file.getvalue()
