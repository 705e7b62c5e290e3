"""Images from any OpenAI-compatible images endpoint: DALL-E 3, gpt-image-1 and what follows them, or a local server.

:func:`generate` sends each image as a request of its own to ``<url>/images/generations`` and gives the same kind of
source as :func:`biaslab.generation.generate`.

- **Never bought twice.** A reply is written down as it came before anything is made of it; then the picture, then the
  line that says what became of it, each under a temporary name first or with a checksum. A stopped run goes on from
  whichever is there. One process at a time buys from a model; another one waits and finds what was bought. What is
  lost when a process is killed is what the server has been asked for and has not sent yet.
- **Never too much.** Before a request is sent, its price is written down and must fit under ``cost_limit`` with all
  that was spent on the model in this store. It is taken back where the server says that there was no image. A request
  that broke off, or whose answer cannot be read, may have been charged and stays counted.
- **Never from a ledger that lies.** What was bought and spent stands in numbered lines with checksums. Where one of
  them is damaged or gone, nothing is bought until the ledger is rebuilt (:func:`rebuild`, ``biaslab ledger``).
- **Counted.** What has no image has an outcome that says why (:data:`OUTCOMES`). A refusal is one of them; it is never
  asked again.
- **The key** stays in its environment variable, as in :mod:`biaslab.captions.endpoint`. It is not sent to the
  addresses that the endpoint names for its pictures, and of these only public ones are visited.

An endpoint takes no noise: the same prompt and index give the same image because it is kept, not because it could be
made again.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import math
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.captions._body import BodyError
from biaslab.captions.endpoint import (
    Answer,
    _Asking,
    _error_in,
    _Journal,
    _StoppedError,
    line_of,
    record_of,
)
from biaslab.errors import InputError, ParameterError, RunError
from biaslab.generation.generator import image_seed
from biaslab.generation.images import OK, _image_ids, _units
from biaslab.net.settings import EndpointSettings
from biaslab.store import replace, room_on

if TYPE_CHECKING:
    import httpx
    import numpy as np
    import pandas as pd

    from biaslab.judging.images import Unreadable
    from biaslab.store import Store

_log = logging.getLogger(__name__)
REFUSED = "refused"
# What may become of an image, and what it means. Those in _KEPT are not asked for again.
OUTCOMES: dict[str, str] = {
    OK: "there is an image",
    REFUSED: "the endpoint's content policy stopped the prompt or the image",
    "not_an_image": "what was bought is no PNG, JPEG or WebP that can be decoded within the limits",
    "lost": "what was bought is not to be had at the address that the endpoint named",
    "not_fetched": "what was bought could not be fetched from its address yet; the next run tries again",
    "malformed": "what came back is no answer of an images endpoint, three times",
    "rejected": "the server does not take this request (status 400, 413, 422, …)",
    "unavailable": "the server did not answer this request, however often it was sent",
    "not_bought": "it was not bought yet",
}
_KEPT = (OK, REFUSED, "not_an_image", "lost")
UNDELIVERED = ("not_fetched", "malformed", "unavailable", "not_bought")
"""Outcomes of images that another run may well get."""
NEVER_MADE = (*UNDELIVERED, "rejected")
"""Outcomes of images that there never were, which say nothing of the model."""
_STAYS = "Images bought before are kept"
_ROOM = (
    "Images bought before are kept and will be found again: free some space, or choose another folder for the store, "
    "and run again."
)
# Codes of errors that stand for a refusal: OpenAI's two, Azure's, and those of servers that pass them on.
_REFUSALS = (
    "content_policy_violation",
    "moderation_blocked",
    "content_filter",
    "contentfilter",
    "content_moderation",
)
# Statuses of errors after which an image may have been made all the same: whoever stood between did not wait for it.
_PERHAPS_CHARGED = (408, 502, 504, 520, 522, 524)
# Headers in which servers name a request.
_REQUEST_IDS = ("x-request-id", "apim-request-id", "request-id")
# How pictures begin, and their files' endings.
_BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpg"), (b"RIFF", "webp"))
# The key of an image, which its files are named by.
_KEY = re.compile("[0-9a-f]{64}")
# What a failed fetch of a picture means; any other reason may be gone at another time, or by another parameter.
_FOR_GOOD = ("forbidden", "not_found", "gone", "http_error", "bad_url", "refused_scheme")
_NO_IMAGE = ("empty", "too_many_bytes", "damaged")
_FETCHES = 4
# Images paid for in a row that are none, after which no more are bought where there has never been a good one.
_WASTED = 5
_TYPES = {
    "image_id": object,
    "prompt_id": object,
    "index": "int64",
    "seed": "int64",
    "outcome": object,
    "revised_prompt": object,
    "request_id": object,
    "time": object,
    "detail": object,
}


@dataclass(frozen=True)
class _Bought:
    """What became of one image."""

    outcome: str
    detail: str = ""
    revised_prompt: str = ""
    request_id: str = ""
    time: str = ""
    """When the reply came, UTC."""
    ending: str = ""
    """Of the picture's file; empty where there is none."""
    sha256: str = ""
    """Of that file."""


def generate(
    prompts: pd.DataFrame,
    settings: EndpointSettings,
    *,
    seed: int,
    store: Store,
    progress: bool = True,
) -> EndpointImages:
    """Buy ``n_images`` images for each prompt; what was bought before is found again.

    An image is kept by URL, model, what is asked of it (size, quality, style, options), prompt_id, text, index and
    seed: another seed asks for other images of the same prompts. A store's share plays no part: whichever process
    comes first buys for all.

    Args:
        prompts: Columns prompt_id (unique texts), text and n_images (0 or more); others are passed over.
        settings: Model, how it is asked, and what it may cost.
        seed: Seed of the run, which tells its images from those of another run. No endpoint is sent one.
        store: Where images are kept.
        progress: Whether a bar shows how far it is.

    Raises:
        InputError: The prompts lack a column or hold values that do not fit.
        ParameterError: ``price`` is not set, the environment has no key, the key is not accepted (401, 403), or there
            is no such model or path (404).
        RunError: One more image would pass ``cost_limit``, the endpoint is out of order or wants to be paid, or there
            is no room to keep an image. What was bought before is kept; with ``buy`` off, it is what there is.
    """
    images = EndpointImages(_units(prompts), settings, seed=seed, store=store)
    images.complete(progress=progress)
    return images


def check_delivered(images: EndpointImages) -> None:
    """Look whether the endpoint delivered all that it may deliver: results with gaps would pass for complete ones.

    Raises:
        RunError: It did not. What was bought is kept.
    """
    left = images.table[images.table["outcome"].isin(UNDELIVERED)]
    if left.empty:
        return
    counts = ", ".join(f"{n} {outcome}" for outcome, n in left["outcome"].value_counts().items())
    first = left.iloc[0]
    said = first["detail"] or OUTCOMES[first["outcome"]]
    raise RunError(
        f"{images.name} has not delivered {len(left)} of {len(images.table)} images ({counts}; first "
        f"{first['image_id']}: {said}). {_STAYS}; run again to get the others."
    )


class EndpointImages:
    """The images of a table of prompts as a source; :func:`generate` makes it.

    Attributes:
        name: What to call the source: the model.
        digest: Identifies the images, and what stands in the place of those that are missing.
        table: One row per image: image_id (``prompt_id/index``), prompt_id, index (from 0), seed (which tells images
            apart and was not sent), outcome (one of :data:`OUTCOMES`), revised_prompt (what the endpoint says it drew
            in place of the prompt), request_id, time (of the reply, UTC) and detail (more about an outcome other than
            ``ok``, such as code and message of a refusal). Texts are empty where the endpoint said nothing.
    """

    def __init__(self, units: pd.DataFrame, settings: EndpointSettings, *, seed: int, store: Store) -> None:
        self.name = settings.model
        self._units = units
        self._settings = settings
        self._seed = seed
        where = {"url": settings.url, "model": settings.model}
        self._ledger = _Ledger(store.stage("bought_images", where).folder, settings)
        # The way that a picture comes does not make it another one.
        asked = {k: v for k, v in settings.endpoint.settings.items() if k != "response_format"}
        self._keys = [
            _digest([asked, row.prompt_id, row.text, int(row.index_), int(seed)])
            for row in units.itertuples(index=False)
        ]
        self._by_id: dict[str, tuple[str, _Bought]] = {}

    @property
    def spent(self) -> float:
        """What was spent on this model in this store, requests counted that may have been charged for nothing."""
        return float(self._ledger.spent)

    def complete(self, *, progress: bool = True) -> None:
        """Buy what is missing and set :attr:`table` and :attr:`digest`."""
        import pandas as pd

        self._ledger.load()
        failed: dict[str, Any] = {}
        if self._settings.buy and self._missing():
            self._check()
            with self._ledger.turn():
                # Another process may have bought them meanwhile.
                self._ledger.load()
                self._ledger.check_pictures()
                missing = self._missing()
                failed = self._buy(missing, progress) if missing else {}
        found = [self._result(key, failed) for key in self._keys]
        ids = _image_ids(self._units)
        self._by_id = dict(zip(ids, zip(self._keys, found, strict=True), strict=True))
        table = pd.DataFrame([asdict(b) for b in found], columns=[k for k in _TYPES if k in _FIELDS])
        pairs = zip(self._units["prompt_id"], self._units["index_"], strict=True)
        self.table = table.assign(
            image_id=ids,
            prompt_id=self._units["prompt_id"].to_numpy(object),
            index=self._units["index_"].to_numpy(),
            seed=[image_seed(self._seed, *pair) for pair in pairs],
        )[list(_TYPES)].astype(_TYPES)
        self.digest = _digest([[i, key, b.outcome, b.sha256] for i, (key, b) in self._by_id.items()])

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return images in the order asked for, ``uint8 (height, width, 3)`` RGB or why there is none.

        A refusal reads as ``blocked``, like what a model's own safety checker withholds.

        Raises:
            InputError: An id is not in the table.
        """
        from biaslab.judging.images import BLOCKED, Unreadable, decode

        read: list[np.ndarray | Unreadable] = []
        for image_id in image_ids:
            if image_id not in self._by_id:
                raise InputError(f"{self.name} has no image {image_id!r}; its table lists those it has.")
            key, bought = self._by_id[image_id]
            if bought.outcome == REFUSED:
                read.append(Unreadable(BLOCKED))
            elif bought.outcome == "not_an_image":
                read.append(Unreadable(bought.detail))
            elif bought.outcome != OK:
                read.append(Unreadable(bought.outcome.replace("_", " ")))
            else:
                data = self._ledger.picture(key, bought)
                same = data is not None and hashlib.sha256(data).hexdigest() == bought.sha256
                image = decode(data, most_pixels=self._settings.most_pixels) if same else None
                read.append(Unreadable("missing" if data is None else "damaged") if image is None else image)
        return read

    # -- buying -------------------------------------------------------------------------------------------

    def _missing(self) -> dict[str, dict[str, Any]]:
        """Return the images that are not there, by key: prompt_id, prompt and index."""
        return {
            key: {"prompt_id": row.prompt_id, "prompt": row.text, "index": int(row.index_)}
            for key, row in zip(self._keys, self._units.itertuples(index=False), strict=True)
            if not self._ledger.has(key)
        }

    def _check(self) -> None:
        s = self._settings
        if s.price is None:
            raise ParameterError(
                f"price is not set: what an image of {s.model} costs at {s.url} must be known before one is bought. "
                "Set it, and with it cost_limit, the most that may be spent; for a server that takes nothing, set it "
                "to 0."
            )
        s.endpoint.check_key()

    def _buy(self, missing: Mapping[str, dict[str, Any]], progress: bool) -> dict[str, Any]:
        s = self._settings
        # What is paid for already comes first: it may be all that the limit leaves room for.
        missing = dict(sorted(missing.items(), key=lambda item: not self._ledger.is_paid(item[0])))
        try:
            return _Buying(s, self._ledger).all(missing, f"buying from {s.model}", progress)
        except _LimitError:
            left = len(self._missing())
            price, spent = Decimal(str(s.price)), self._ledger.spent
            raise RunError(
                f"{s.model} at {s.url}: {_money(spent)} of cost_limit {_money(Decimal(str(s.cost_limit)))} is spent, "
                f"and an image costs {_money(price)}: one more would pass the limit. Images left: {left}. What was "
                f"bought is kept. To go on, set cost_limit to {_money(spent + left * price)} or more and run again; "
                "to work with what there is, set buy to false."
            ) from None

    def _result(self, key: str, failed: Mapping[str, Any]) -> _Bought:
        if self._ledger.has(key):
            return self._ledger.done[key]
        answer = failed.get(key)
        return _Bought("not_bought") if answer is None else _Bought(answer.outcome, answer.detail)


_FIELDS = frozenset(_Bought.__dataclass_fields__)


class _LimitError(Exception):
    """One more request would pass the limit of cost."""


class _Ledger:
    """What was spent on a model and what came of it: a journal, replies not worked up yet, and pictures.

    Each line of the journal has a checksum and its own number. What is about to be spent is on disk before a request
    leaves, so half a line at the end, which a kill leaves, stands for nothing that was spent; a reply stays on disk
    until the line that says what became of it is there. Anything else that is wrong with the journal means that
    neither the sum nor what was bought is known, and nothing is bought until it is rebuilt (:func:`rebuild`).
    """

    def __init__(self, folder: Path, settings: EndpointSettings | None = None) -> None:
        self.folder = folder
        self.file = folder / "bought.jsonl"
        self._journal = _Journal(self.file)
        self._price = Decimal(str((settings and settings.price) or 0))
        self._limit = Decimal(str(settings.cost_limit if settings else 0))
        self._changed = threading.Condition()
        self._under_way = 0
        self._lines = 0
        self.done: dict[str, _Bought] = {}
        self.spent = Decimal(0)

    def turn(self) -> AbstractContextManager[None]:
        """Be the only process that buys from this model."""
        return self._journal.turn(["buying"])

    def load(self) -> None:
        """Read the journal.

        Raises:
            RunError: It is damaged.
        """
        self.done, self.spent, self._lines = {}, Decimal(0), 0
        for number, line in enumerate(self._journal.lines(), start=1):
            entry = _entry(line)
            # Lines of earlier versions have no number.
            if entry is None or entry.get("line", number) != number:
                raise self._damaged(f"line {number} is {'damaged' if entry is None else 'not where it was'}")
            self._lines = number
            if entry["event"] == "kept":
                self.done[entry["image"]] = _Bought(**entry["bought"])
            else:
                self.spent += Decimal(entry["cost"])

    def check_pictures(self) -> None:
        """Look whether the journal knows every picture; only who holds the turn may ask.

        Raises:
            RunError: It does not: lines were lost at its end, or all of it.
        """
        for key, path in self.pictures():
            if key not in self.done and not self.is_paid(key):
                raise self._damaged(f"it does not know the picture {path.name}")

    def _damaged(self, why: str) -> RunError:
        folder = self.folder
        with contextlib.suppress(ValueError):
            folder = folder.relative_to(Path.cwd())
        return RunError(
            f"The ledger of bought images, {folder / self.file.name}, is damaged: {why}. What was spent and what was "
            "bought is not known, so nothing is bought. Rebuild it from its sound lines and from the pictures and "
            f"answers beside it, which buys nothing: biaslab ledger --rebuild {folder}"
        )

    def has(self, key: str) -> bool:
        """Return whether an image needs no further request; one whose file was taken away needs one."""
        bought = self.done.get(key)
        return bought is not None and (not bought.ending or self._file(key, bought.ending).exists())

    def reserve(self, key: str, stopped: Callable[[], bool]) -> None:
        """Write down that a request is about to be sent.

        Raises:
            _LimitError: It would pass the limit, and nothing under way may yet turn out to cost nothing.
        """
        with self._changed:
            while self._price and self.spent + self._price > self._limit:
                if not self._under_way:
                    raise _LimitError
                self._changed.wait()
            if stopped():
                raise _StoppedError
            self._note("sent", key, self._price)
            self._under_way += 1

    def settle(self, key: str, *, charged: bool) -> None:
        """Note that a request has ended; take its price back where nothing was ``charged``."""
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()
            if not charged:
                self._note("free", key, -self._price)

    def _note(self, event: str, key: str, cost: Decimal) -> None:
        self._write({"event": event, "image": key, "cost": str(cost), "time": _now()})
        self.spent += cost

    def _write(self, entry: Mapping[str, Any]) -> None:
        self._journal.write({**entry, "line": self._lines + 1}, sync=True)
        self._lines += 1

    def keep(self, key: str, bought: _Bought, asked: Mapping[str, Any]) -> None:
        """Write down what became of an image; its picture is there already."""
        with self._changed:
            self._write({"event": "kept", "image": key, **asked, "bought": asdict(bought)})
            self.done[key] = bought
        self._reply(key).unlink(missing_ok=True)

    # -- files --------------------------------------------------------------------------------------------

    def _reply(self, key: str) -> Path:
        return self.folder / "replies" / f"{key}.json"

    def _file(self, key: str, ending: str) -> Path:
        return self.folder / "images" / key[:2] / f"{key}.{ending}"

    def pictures(self) -> Iterator[tuple[str, Path]]:
        """Yield every picture there is: its image's key, and where it is."""
        for path in sorted(self.folder.glob("images/*/*")):
            # Systems put files of their own beside pictures.
            if _KEY.fullmatch(path.stem) and path.suffix.removeprefix(".") in (e for _, e in _BEGINNINGS):
                yield path.stem, path

    def replies(self) -> list[str]:
        """Return the keys of the replies that are still to be worked up."""
        return sorted(p.stem for p in self.folder.glob("replies/*.json") if _KEY.fullmatch(p.stem))

    def save_reply(self, key: str, reply: Mapping[str, str]) -> None:
        """Write a reply down before anything is made of it."""
        _save(self._reply(key), json.dumps(reply).encode())

    def is_paid(self, key: str) -> bool:
        """Return whether there is a reply that is still to be worked up."""
        return self._reply(key).exists()

    def reply(self, key: str) -> dict[str, str] | None:
        """Return the reply that is still to be worked up, or None."""
        try:
            return json.loads(self._reply(key).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            _log.warning("%s is damaged; its image is asked for again.", self._reply(key))
            return None

    def save_picture(self, key: str, ending: str, data: bytes) -> None:
        """Write a picture as it came."""
        _save(self._file(key, ending), data)

    def picture(self, key: str, bought: _Bought) -> bytes | None:
        """Return the picture as it came, or None where its file was taken away."""
        try:
            return self._file(key, bought.ending).read_bytes()
        except FileNotFoundError:
            return None


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return what a line of the journal says, or None where it is damaged."""
    entry = record_of(line)
    return entry if entry is not None and _sound(entry) else None


def _sound(entry: Any) -> bool:
    try:
        if entry["event"] == "kept":
            return bool(_Bought(**entry["bought"]).outcome) and isinstance(entry["image"], str)
        return Decimal(entry["cost"]).is_finite() and isinstance(entry["image"], str)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return False


@dataclass(frozen=True)
class Rebuilt:
    """What :func:`rebuild` found."""

    lines: int
    """Sound lines, which were kept as they are."""
    lost: int
    """Lines that are damaged or missing."""
    requests: int
    """Requests that were counted in the place of lost ones, each at the highest price that is known."""
    pictures: int
    """Pictures that no line knew and that were entered again; what the endpoint drew in place of their prompts is
    not known any more."""
    spent: float
    """What was spent, never too little."""
    saved: Path | None
    """Where the damaged ledger is now; None where there was nothing to mend and nothing was written."""


def ledger(folder: str | Path) -> dict[str, Any]:
    """Return what a ledger holds: ``spent``, ``images`` by outcome, and ``replies`` that are still to be worked up.

    Raises:
        InputError: There is no ledger in the folder.
        RunError: It is damaged.
    """
    found = _located(folder)
    found.load()
    outcomes = Counter(bought.outcome for bought in found.done.values())
    listed = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
    return {"spent": float(found.spent), "images": listed or "none", "replies": len(found.replies())}


def _located(folder: str | Path) -> _Ledger:
    found = _Ledger(Path(folder))
    if not found.file.exists() and not any(found.pictures()) and not found.replies():
        raise InputError(f"{folder} holds no ledger of bought images: no bought.jsonl, images or replies.")
    return found


def rebuild(folder: str | Path, *, price: float | None = None) -> Rebuilt:
    """Rebuild a damaged ledger of bought images from its sound lines and the pictures and answers beside it.

    Nothing is bought, and nothing that was paid for is counted too low: for each lost line, and for each image that
    no sound line speaks of a request for, a request is counted at the highest price that is known. A refusal whose
    line is lost will be asked for again.

    Args:
        folder: The folder of ``bought.jsonl``, as the message about the damage names it.
        price: What an image cost, where no sound line says it.

    Raises:
        InputError: There is no ledger in the folder.
        ParameterError: No sound line says what an image cost, and ``price`` is not given.
    """
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise ParameterError(f"price is {price!r}; it must be a number from 0.")
    ledger = _located(folder)
    with ledger.turn():
        entries, lost = _sound_entries(ledger)
        kept = {e["image"] for e in entries if e["event"] == "kept"}
        found = [
            (key, path) for key, path in ledger.pictures() if key not in kept and not ledger.is_paid(key)
        ]
        sent = {e["image"] for e in entries if e["event"] == "sent"}
        unsent = sorted({*kept, *(key for key, _ in found), *ledger.replies()} - sent)
        requests = [*unsent, *[""] * (lost - len(unsent))]
        costs = [Decimal(e["cost"]) for e in entries if e["event"] == "sent"]
        n = len(entries)
        if requests and not costs and price is None:
            raise ParameterError(
                f"No sound line of {ledger.file} says what an image cost: give the price, as in --price 0.04."
            )
        cost = max(costs, default=Decimal(str(price or 0)))
        entries += [
            {"event": "sent", "image": key, "cost": str(cost), "time": _now(), "rebuilt": True}
            for key in requests
        ]
        for key, path in found:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            bought = _Bought(OK, ending=path.suffix.removeprefix("."), sha256=digest)
            entries.append({"event": "kept", "image": key, "rebuilt": True, "bought": asdict(bought)})
        spent = float(sum((Decimal(e["cost"]) for e in entries if e["event"] != "kept"), Decimal(0)))
        saved = None
        if lost or len(entries) > n:
            saved = _set_aside(ledger.file)
            numbered = (line_of({**e, "line": k}) for k, e in enumerate(entries, start=1))
            _save(ledger.file, b"".join(numbered))
    return Rebuilt(n, lost, len(requests), len(found), spent, saved)


def _sound_entries(ledger: _Ledger) -> tuple[list[dict[str, Any]], int]:
    """Return what the sound lines say, in order, and how many lines are lost."""
    entries: list[dict[str, Any]] = []
    seen: set[bytes] = set()
    lost, last = 0, 0
    for line in ledger._journal.lines():
        entry = _entry(line) or _unchecked(line)
        if entry is None:
            lost, last = lost + 1, last + 1
            continue
        number = entry.pop("line", None)
        if number is not None and number <= last:
            # A line that is there twice counts once.
            if line in seen:
                continue
        elif number is not None:
            lost += number - last - 1
        seen.add(line)
        last = max(last + 1, number or 0)
        entries.append(entry)
    return entries, lost


def _unchecked(line: bytes) -> dict[str, Any] | None:
    """Return what a line without a checksum says that is whole otherwise."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if _sound(entry) else None


def _set_aside(file: Path) -> Path:
    for k in count(1):
        aside = file.with_name(f"{file.name}.damaged-{k}")
        if not aside.exists():
            break
    with room_on(aside, _ROOM):
        replace(aside, file.read_bytes() if file.exists() else b"")
    return aside


class _Buying(_Asking):
    """The requests of one call of :func:`generate`."""

    path = "images/generations"
    gives, unit, setting, stays = "images", "images", "the model's name", _STAYS
    kept = _KEPT

    def __init__(self, settings: EndpointSettings, ledger: _Ledger) -> None:
        super().__init__(settings.endpoint, _Journal(None), worked_before=bool(ledger.done))
        self._settings = settings
        self._ledger = ledger
        # In base64, with room for what stands around it.
        self.longest_reply = settings.most_bytes * 4 // 3 + 2**17
        self._useful = any(b.outcome in (OK, REFUSED) for b in ledger.done.values())
        self._wasted = 0

    def _asked(self, question: Mapping[str, Any]) -> dict[str, Any]:
        return {"prompt": question["prompt"]}

    def _exchange(self, client: httpx.Client, digest: str, question: Mapping[str, Any]) -> Any:
        # A run that was stopped left a reply that is paid for.
        left = None if self._stop.is_set() else self._ledger.reply(digest)
        return super()._exchange(client, digest, question) if left is None else self._made(digest, left)

    def _post(self, client: httpx.Client, digest: str, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        import httpx

        self._ledger.reserve(digest, self._stop.is_set)
        charged = True
        try:
            status, headers, data = super()._post(client, digest, body)
            charged = status < 300 or status in _PERHAPS_CHARGED
            return status, headers, data
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL, httpx.UnsupportedProtocol):
            charged = False
            raise
        finally:
            self._ledger.settle(digest, charged=charged)

    def _unread(self, error: BodyError) -> Any:
        if error.outcome == "too_many_bytes":
            return _Bought("not_an_image", "too large", time=_now())
        return super()._unread(error)

    def _read(self, digest: str, data: bytes, headers: Mapping[str, str]) -> Any:
        """Return what was bought with a reply of status 200."""
        try:
            reply = json.loads(data)
            first = reply["data"][0]
            picture, address = (first.get(k) or "" for k in ("b64_json", "url"))
            revised, own_id = first.get("revised_prompt") or "", reply.get("id") or ""
            if not (isinstance(picture, str) and isinstance(address, str) and (picture or address)):
                raise TypeError
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return Answer("", "malformed", f"no answer of an images endpoint: {self._clean(data)}")
        named = next((headers[h] for h in _REQUEST_IDS if headers.get(h)), own_id)
        whole = {
            "b64_json": picture,
            "url": address if not picture else "",
            "revised_prompt": self._clean(revised, longest=10_000),
            "request_id": self._clean(named),
            "time": _now(),
        }
        if self._key:
            whole = {k: v.replace(self._key, "[key]") for k, v in whole.items()}
        self._ledger.save_reply(digest, whole)
        return self._made(digest, whole)

    def _made(self, digest: str, reply: Mapping[str, str]) -> _Bought:
        """Save the picture that a reply holds or names."""
        from biaslab.captions._fetch import Failed
        from biaslab.judging.images import Unreadable, decode

        said = {k: reply[k] for k in ("revised_prompt", "request_id", "time")}
        picture, address = reply["b64_json"], reply["url"]
        if address.startswith("data:"):
            picture, address = address, ""
        try:
            data = self._fetched(address) if address else _from_base64(picture)
        except Failed as failed:
            return self._not_fetched(failed, said)
        except ValueError:
            return _Bought("not_an_image", "not base64", **said)
        ending = next((e for start, e in _BEGINNINGS if data.startswith(start)), "")
        if ending == "webp" and data[8:12] != b"WEBP":
            ending = ""
        if not ending:
            return _Bought("not_an_image", "not an image" if data else "empty", **said)
        limits = {"most_pixels": self._settings.most_pixels, "most_bytes": self._settings.most_bytes}
        image = decode(data, **limits)
        if isinstance(image, Unreadable):
            return _Bought("not_an_image", image.reason, **said)
        self._ledger.save_picture(digest, ending, data)
        return _Bought(OK, "", **said, ending=ending, sha256=hashlib.sha256(data).hexdigest())

    def _fetched(self, address: str) -> bytes:
        """Return the body at a picture's address, asked for again where that may help; it costs nothing.

        Raises:
            Failed: There is none.
        """
        from biaslab.captions._fetch import Failed, Visit, parsed, request

        s = self._settings
        for attempt in count():
            deadline, visit = time.monotonic() + s.timeout, Visit(parsed(address))
            try:
                body = None
                while body is None:
                    body = request(visit, self._limits, self._tls, s.allow, deadline)
                return body.getvalue()
            except Failed as failed:
                again = failed.retry or failed.outcome == "timed_out"
                if not again or attempt + 1 == _FETCHES or self._stop.is_set():
                    raise
                self._stop.wait(self._pause(attempt, failed.wait, "0000"))

    @cached_property
    def _limits(self) -> Any:
        from biaslab.captions.downloads import DownloadSettings

        s = self._settings
        seconds = min(s.timeout, 3600.0)
        # The headers that ask not to use an image are about others' images; this one was made for us.
        return DownloadSettings(
            opt_out=(),
            most_bytes=min(s.most_bytes, 10**9),
            seconds=seconds,
            silence=min(30.0, seconds),
        )

    @cached_property
    def _tls(self) -> Any:
        import httpx

        return httpx.create_ssl_context(trust_env=False)

    def _not_fetched(self, failed: Any, said: Mapping[str, str]) -> _Bought:
        if failed.outcome in _NO_IMAGE:
            return _Bought("not_an_image", failed.outcome.replace("_", " "), **said)
        detail = self._clean(f"{failed.outcome}: {failed.detail}")
        if failed.outcome in ("refused_address", "refused_port"):
            detail += " (if the address is to be trusted, name it with its port in allow)"
        return _Bought("lost" if failed.outcome in _FOR_GOOD else "not_fetched", detail, **said)

    def _turned_down(self, status: int, data: bytes) -> Any:
        code, message = _error_in(data)
        if code.lower() in _REFUSALS:
            return _Bought(REFUSED, f"{code}: {self._clean(message, longest=1000)}", time=_now())
        return super()._turned_down(status, data)

    def _keep(self, digest: str, question: Any, answer: _Bought) -> None:
        asked = {k: v for k, v in self._endpoint.settings.items() if k != "model"}
        self._ledger.keep(digest, answer, {**question, "asked": asked})
        with self._mutex:
            self._useful = self._useful or answer.outcome in (OK, REFUSED)
            self._wasted += answer.outcome not in (OK, REFUSED)
            if not self._useful and self._wasted >= _WASTED:
                raise RunError(
                    f"{self._where} was paid for {self._wasted} images and sent none: {answer.outcome} "
                    f"({answer.detail}). See that the model {self._settings.model!r} makes images there. {_STAYS}; "
                    "run again to go on."
                )

    def _out_of_order(self, last: Any) -> RunError:
        mend = "see that it runs and takes such requests, and run again."
        if last.outcome == "not_fetched":
            mend = (
                "the next run fetches what is paid for. Where pictures cannot be fetched from here, set "
                "response_format to b64_json, so that they come with the reply."
            )
        return RunError(
            f"{self._where} gives no images: {last.detail or OUTCOMES[last.outcome]}. {_STAYS}; {mend}"
        )


def _from_base64(text: str) -> bytes:
    """Return the bytes of a text in base64, with or without ``data:…,`` before it.

    Raises:
        ValueError: It is none.
    """
    if text.startswith("data:"):
        text = text.partition(",")[2]
    return base64.b64decode("".join(text.split()), validate=True)


def _save(path: Path, data: bytes) -> None:
    with room_on(path, _ROOM):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, data)
        # What is bought outlasts a power cut: the line that says so is written after it.
        with path.open("r+b") as file:
            os.fsync(file.fileno())


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _money(amount: Decimal) -> str:
    return f"{amount.normalize():f}" if amount else "0"
