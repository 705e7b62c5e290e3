"""Models that make images, behind an OpenAI-compatible endpoint.

- **Never bought twice.** A reply is written down as it came; then the picture, then what became of it
  (:mod:`biaslab.endpoints.purchases`). A stopped run continues from whichever was written. One process at a time buys
  from a model.
- **Never too much.** Before a request is sent, its price is written down and must fit under ``cost_limit``. It is taken
  back where the server says that there was no image. What may have been charged stays counted.
- **Counted.** What has no image has an outcome that says why (:data:`OUTCOMES`). A refusal is never asked again.
- **Independent.** The first two images of a prompt are bought before all others. Where they are identical nothing more
  is bought: an endpoint that ignores seeds, or a cache, sends one image over and over.
- **The key** is not sent to the addresses that the endpoint names for its pictures, and of these only public ones are
  visited (:mod:`biaslab.endpoints.fetch`).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import numpy as np

from biaslab.cache.result_cache import cache_now
from biaslab.endpoints import fetch, replies
from biaslab.endpoints.endpoint import Failed, Requests, retrying
from biaslab.endpoints.purchases import BEGINNINGS, OK, STAYS, ImagePurchases, LimitError, PurchasedImage
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import RunError
from biaslab.hub.image_sources import UnreadableImage, decode
from biaslab.io.image_files import PLAIN, is_black, plain_share

REFUSED = "refused"
# What may become of an image, and what it means. Those in KEPT are not asked for again.
OUTCOMES: dict[str, str] = {
    OK: "there is an image",
    REFUSED: "the endpoint's content policy stopped the prompt or the image",
    "not_an_image": "the bought file is not an image (PNG, JPEG, WebP, …) that can be decoded within the limits",
    "lost": "what was bought is not to be had at the address that the endpoint named",
    "not_fetched": "what was bought could not be fetched from its address yet; the next run tries again",
    "malformed": "what came back is no answer of an images endpoint, three times",
    "rejected": "the server does not take this request (status 400, 413, 422, …)",
    "unavailable": "the server did not answer this request, however often it was sent",
    "not_bought": "it was not bought yet",
}
CACHED_OUTCOMES = (OK, REFUSED, "not_an_image", "lost")
UNDELIVERED = ("not_fetched", "malformed", "unavailable", "not_bought")
"""Outcomes of images that another run may well get."""
NO_IMAGE_OUTCOMES = (*UNDELIVERED, "rejected")
"""Outcomes of images that there never were, which say nothing of the model."""
# Statuses of errors after which an image may have been made all the same: whoever stood between did not wait for it.
_PERHAPS_CHARGED = (408, 502, 504, 520, 522, 524)
# Headers in which servers name a request.
_REQUEST_IDS = ("x-request-id", "apim-request-id", "request-id")
# What a failed fetch of a picture means; any other reason may be gone at another time, or by another parameter.
_FOR_GOOD = ("forbidden", "not_found", "gone", "http_error", "refused_scheme")
_NO_IMAGE = ("empty", "too_many_bytes", "damaged")
_FETCHES = 4
_OF_URLS = str.maketrans("-_", "+/")
# Images paid for in a row that are none, after which no more are bought where there has never been a good one.
_WASTED = 5


def buy(
    missing: Mapping[str, Mapping[str, Any]],
    settings: EndpointSettings,
    purchases: ImagePurchases,
    *,
    pairs: Sequence[tuple[str, str, str]] = (),
    progress: bool,
) -> dict[str, PurchasedImage]:
    """Buy ``missing`` images (prompt_id, prompt and index by key) in the ledger's turn; return what became of them.

    ``pairs`` has each prompt of two images or more, and the keys of its first two, whether missing or not. They are
    bought first, until two of one prompt can be compared: neither is refused, black or plain.

    Raises as :meth:`biaslab.endpoints.endpoint.Requests.request_all`. ParameterError: There is no URL, model or key.
    RunError: One more image would pass ``cost_limit``, two images of a prompt are identical, or there is no room to
    keep an image.
    """
    # What is paid for already comes first: it may be all that the limit leaves room for.
    missing = dict(sorted(missing.items(), key=lambda item: item[0] not in purchases.replies))
    try:
        buying = _Buying(settings, purchases)
        label, found = f"buying from {settings.model}", {}
        for prompt, *pair in pairs:
            if first := {key: missing[key] for key in pair if key in missing}:
                found |= buying.request_all(first, label, progress)
            if buying.check_distinct(prompt, *pair):
                break
        left = {key: question for key, question in missing.items() if key not in found}
        return found | (buying.request_all(left, label, progress) if left else {})
    except LimitError:
        left = sum(not purchases.is_purchased(key) for key in missing)
        price, limit = Decimal(str(settings.price)), Decimal(str(settings.cost_limit))
        raise RunError(
            f"{settings.model} at {settings.url}: {_money(purchases.spent)} of cost_limit {_money(limit)} is spent, "
            f"and an image costs {_money(price)}: one more would pass the limit. Images left: {left}. Bought images "
            f"are cached. To continue, set cost_limit to {_money(purchases.spent + left * price)} or more and run "
            "again; to use the bought images only, set endpoint.allow_purchases to false."
        ) from None


class _Buying(Requests):
    path, product, unit, after_stop = "images/generations", "images", "images", STAYS
    outcomes, cached_outcomes, empty_answer, stopped = OUTCOMES, CACHED_OUTCOMES, PurchasedImage, REFUSED

    def __init__(self, settings: EndpointSettings, purchases: ImagePurchases) -> None:
        super().__init__(settings, settings.image_fields, worked_before=bool(purchases.done))
        self._purchases = purchases
        # In base64, with room for what stands around it.
        self.longest_reply = settings.max_bytes * 4 // 3 + 2**17
        self._useful = any(b.outcome in (OK, REFUSED) for b in purchases.done.values())
        self._wasted = 0

    def request_fields(self, question: Mapping[str, Any]) -> dict[str, Any]:
        return {"prompt": question["prompt"]}

    def save(self, digest: str, question: Mapping[str, Any], answer: PurchasedImage) -> None:
        """Write down what became of an image; RunError for an endpoint that is paid and sends none."""
        asked = {k: v for k, v in self.settings.image_fields.items() if k != "model"}
        self._purchases.save_status(digest, answer, {**question, "asked": asked})
        useful = answer.outcome in (OK, REFUSED)
        with self.mutex:
            self._useful = self._useful or useful
            self._wasted += not useful
            if not self._useful and self._wasted >= _WASTED:
                raise RunError(
                    f"{self.where} was paid for {self._wasted} images and sent none: {answer.outcome} "
                    f"({answer.detail}). Check that the model {self.settings.model!r} generates images there. "
                    f"{STAYS}; run again to continue."
                )

    def attempt(
        self, client: httpx.Client, digest: str, question: Mapping[str, Any]
    ) -> tuple[PurchasedImage, float | None]:
        """Buy an image, unless a stopped run left a reply that is paid for."""
        left = self._purchases.reply(digest)
        return super().attempt(client, digest, question) if left is None else (self._read_image(digest, left), None)

    def post(self, client: httpx.Client, digest: str, whole: bytes) -> tuple[int, httpx.Headers, bytes]:
        """Send one request, whose price is written down before."""
        self._purchases.reserve(digest, self.stop.is_set)
        charged = True
        try:
            status, headers, data = super().post(client, digest, whole)
            charged = status < 300 or status in _PERHAPS_CHARGED
            return status, headers, data
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol):
            charged = False
            raise
        finally:
            self._purchases.settle(digest, charged=charged)

    def handle_oversized(self) -> PurchasedImage:
        return PurchasedImage("not_an_image", "too large", time=cache_now())

    def handle_rejection(self, status: int, data: bytes) -> PurchasedImage:
        code, message = replies.error(data)
        if replies.is_policy(data):
            return PurchasedImage(REFUSED, f"{code}: {self.shorten_message(message, longest=1000)}", time=cache_now())
        return super().handle_rejection(status, data)

    def read(self, digest: str, data: bytes, headers: httpx.Headers) -> PurchasedImage:
        """Return what was bought with a reply of status 200, which is written down as it came."""
        try:
            reply = json.loads(data)
            first = reply["data"][0]
            image, address, revised = (first.get(k) or "" for k in ("b64_json", "url", "revised_prompt"))
            named = next((headers[h] for h in _REQUEST_IDS if headers.get(h)), reply.get("id") or "")
            if not (isinstance(image, str) and isinstance(address, str) and (image or address)):
                raise TypeError
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return PurchasedImage("malformed", f"no answer of an images endpoint: {self.shorten_message(data)}")
        whole = {
            "b64_json": self.redact_key(image),
            "url": "" if image else self.redact_key(address),
            "revised_prompt": self.shorten_message(revised, longest=10_000),
            "request_id": self.shorten_message(named),
            "time": cache_now(),
        }
        if why := replies.placeholder(data):
            return PurchasedImage(
                REFUSED, self.shorten_message(why), request_id=whole["request_id"], time=whole["time"]
            )
        self._purchases.save_reply(digest, whole)
        return self._read_image(digest, whole)

    def _read_image(self, digest: str, reply: Mapping[str, str]) -> PurchasedImage:
        """Save the picture that a reply holds or names."""
        said = {k: reply[k] for k in ("revised_prompt", "request_id", "time")}
        image, address = reply["b64_json"], reply["url"]
        try:
            if address and not address.startswith("data:"):
                data = self._fetch_image(address)
            else:
                # Base64 in either alphabet, with or without its padding.
                text = "".join((image or address).rpartition(",")[2].split()).rstrip("=").translate(_OF_URLS)
                data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except Failed as failed:
            if failed.outcome in _NO_IMAGE:
                return PurchasedImage("not_an_image", failed.outcome.replace("_", " "), **said)
            detail = self.shorten_message(f"{failed.outcome}: {failed.detail}")
            if failed.outcome in ("refused_address", "refused_port"):
                detail += " (if the address is to be trusted, name it with its port in allow)"
            return PurchasedImage("lost" if failed.outcome in _FOR_GOOD else "not_fetched", detail, **said)
        except ValueError:
            return PurchasedImage("not_an_image", "not base64", **said)
        return self._save_image(digest, data, said)

    def _save_image(self, digest: str, data: bytes, said: Mapping[str, str]) -> PurchasedImage:
        """Save a picture, if it is one."""
        ending = next((e for start, e in BEGINNINGS if data.startswith(start)), "")
        if not ending or (ending == "webp" and data[8:12] != b"WEBP"):
            return PurchasedImage("not_an_image", "not an image" if data else "empty", **said)
        image = decode(data, max_bytes=self.settings.max_bytes)
        if isinstance(image, UnreadableImage):
            return PurchasedImage("not_an_image", image.reason, **said)
        self._purchases.save_image(digest, ending, data)
        return PurchasedImage(OK, "", **said, ending=ending, sha256=hashlib.sha256(data).hexdigest())

    def _fetch_image(self, address: str) -> bytes:
        """Return the body at a picture's address, asked for again where that may help; it costs nothing."""

        s = self.settings
        # Headers that ask not to use an image are about others' images; this one was made for us.
        limits = fetch.Limits(s.max_bytes, read_timeout=min(30.0, s.timeout), timeout=s.timeout)

        def once() -> bytes:
            try:
                # Some servers name a picture by its path with them.
                return fetch.get(urljoin(self.target, address), limits, s.allowed_hosts)
            except Failed as failed:
                retry = failed.retry or failed.outcome == "timed_out"
                # What goes wrong may quote what was sent, and is logged.
                detail = self.shorten_message(failed.detail)
                raise Failed(failed.outcome, detail, retry=retry, wait=failed.wait) from None

        return retrying(_FETCHES, self.stop)(once)

    def check_distinct(self, prompt: str, first: str, second: str) -> bool:
        """Return whether two images of a prompt differ; False where one cannot be compared. RunError: They do not."""
        files, shown = [], []
        for key in (first, second):
            bought = self._purchases.done.get(key, PurchasedImage("not_bought"))
            path = self._purchases.image_path(key, bought.ending)
            if bought.outcome != OK or not path.exists():
                return False
            files.append(path)
            shown.append(decode(path.read_bytes()))
        if any(isinstance(one, UnreadableImage) or is_black(one) or plain_share(one) >= PLAIN for one in shown):
            return False
        if not np.array_equal(*shown):
            return True
        same = "bytes" if files[0].read_bytes() == files[1].read_bytes() else "pixels"
        path = files[1]
        with contextlib.suppress(ValueError):
            path = path.relative_to(Path.cwd())
        raise RunError(
            f"{self.where} sent the same image twice: the first two images of {prompt!r} by {self.settings.model} have "
            f"identical {same}. Nothing more is bought, because copies are not independent observations. Let the "
            "server use a new seed for each request, switch off the cache of a gateway in front of it, or request "
            f"one image per prompt. {STAYS}: delete the copy in the store, {path}, so that it is requested again, "
            "and run again."
        )

    def repeated_failure(self, last: PurchasedImage) -> RunError:
        mend = "see that it runs and takes such requests, and run again."
        if last.outcome == "not_fetched":
            mend = "the next run fetches what is paid for; with endpoint.options {response_format: b64_json} replies "
            mend += "contain the images."
        why = last.detail or OUTCOMES[last.outcome]
        return RunError(f"{self.where} gives no images: {why}. {STAYS}; {mend}")


def _money(amount: Decimal) -> str:
    return f"{amount.normalize():f}" if amount else "0"
