"""Image models behind an OpenAI-compatible endpoint.

- **Nothing is bought twice.** The reply is stored first, then the image, then its outcome
  (:mod:`biaslab.endpoints.purchases`). A stopped run continues from the last of these. One process at a time buys from
  a model.
- **The cost is limited.** Before a request is sent, its price is recorded and must fit under ``cost_limit``. The price
  is refunded if the server reports that there was no image. Possible charges remain counted.
- **Outcomes are counted.** A request without an image has an outcome with the reason (:data:`OUTCOMES`). A refused
  request is never repeated.
- **Images are independent.** The first two images of a prompt are bought before all others. If they are identical,
  buying stops: an endpoint that ignores seeds, or a cache, sends the same image repeatedly.
- **The key is protected.** It is not sent to the addresses that the endpoint gives for its images, of which only public
  ones are requested (:mod:`biaslab.endpoints.fetch`).
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
from biaslab.endpoints.endpoint import RequestError, Requests, make_retry_policy
from biaslab.endpoints.purchases import BEGINNINGS, OK, STAYS, ImagePurchases, LimitError, PurchasedImage
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import RunError
from biaslab.hub.image_sources import UnreadableImage, decode
from biaslab.io.image_files import PLAIN_SHARE, is_black, plain_share

REFUSED = "refused"
# The outcomes of images and their meanings. Images with outcomes in CACHED_OUTCOMES are not requested again.
OUTCOMES: dict[str, str] = {
    OK: "the image is available",
    REFUSED: "the endpoint's content policy blocked the prompt or the image",
    "not_an_image": "the purchased file is not an image (PNG, JPEG, WebP, …) that can be decoded within the limits",
    "lost": "the purchased image is not available at the address in the reply",
    "not_fetched": "the purchased image could not be downloaded yet; the next run tries again",
    "malformed": "three replies were not replies of an images endpoint",
    "rejected": "the server does not accept this request (status 400, 413, 422, …)",
    "unavailable": "the server did not answer this request in any attempt",
    "not_bought": "the image has not been bought yet",
}
CACHED_OUTCOMES = (OK, REFUSED, "not_an_image", "lost")
UNDELIVERED = ("not_fetched", "malformed", "unavailable", "not_bought")
"""Outcomes of images that another run may obtain."""
NO_IMAGE_OUTCOMES = (*UNDELIVERED, "rejected")
"""Outcomes of images that never existed, which are no evidence about the model."""
# Statuses of errors after which an image may have been generated nevertheless: a gateway did not wait for it.
_MAYBE_CHARGED_STATUSES = (408, 502, 504, 520, 522, 524)
# Headers in which servers name a request.
_REQUEST_IDS = ("x-request-id", "apim-request-id", "request-id")
# Permanent failures of a download, and downloads without an image; another attempt or setting may solve all others.
_PERMANENT_FAILURES = ("forbidden", "not_found", "gone", "http_error", "refused_scheme")
_NO_IMAGE = ("empty", "too_many_bytes", "damaged")
_MAX_FETCHES = 4
_URL_SAFE = str.maketrans("-_", "+/")
# Paid replies without an image after which buying stops, if there has never been an image or a refusal.
_MAX_WASTED = 5


def buy(
    missing: Mapping[str, Mapping[str, Any]],
    settings: EndpointSettings,
    purchases: ImagePurchases,
    *,
    pairs: Sequence[tuple[str, str, str]] = (),
    progress: bool,
) -> dict[str, PurchasedImage]:
    """Buy ``missing`` images (prompt_id, prompt and index by key) within ``purchases.buying()``; return their statuses.

    ``pairs`` has each prompt with two images or more, and the keys of its first two, whether missing or not. They are
    bought first, until two images of one prompt can be compared: neither is refused, black or plain.

    Raises as :meth:`biaslab.endpoints.endpoint.Requests.request_all`. ParameterError: URL, model or key is missing.
    RunError: One more image would exceed ``cost_limit``, two images of a prompt are identical, or an image cannot be
    stored.
    """
    # Images that are already paid for come first, because the limit may allow no others.
    missing = dict(sorted(missing.items(), key=lambda item: item[0] not in purchases.replies))
    try:
        client = _ImageRequests(settings, purchases)
        label, statuses = f"buying from {settings.model}", {}
        for prompt, *pair in pairs:
            if pair_questions := {key: missing[key] for key in pair if key in missing}:
                statuses |= client.request_all(pair_questions, label, progress)
            if client.check_distinct(prompt, *pair):
                break
        remaining = {key: question for key, question in missing.items() if key not in statuses}
        return statuses | (client.request_all(remaining, label, progress) if remaining else {})
    except LimitError:
        n_left = sum(not purchases.is_purchased(key) for key in missing)
        price, limit = Decimal(str(settings.price)), Decimal(str(settings.cost_limit))
        raise RunError(
            f"Another image from {settings.model} at {settings.url}, at a price of {_format(price)}, would exceed the "
            f"cost limit of {_format(limit)}; {_format(purchases.spent)} is already spent. Missing images: {n_left}. "
            "Purchased images are cached. To continue, set endpoint.cost_limit to "
            f"{_format(purchases.spent + n_left * price)} or more, and run again. To use only the purchased images, "
            "set endpoint.allow_purchases to false."
        ) from None


class _ImageRequests(Requests):
    path, product, unit, after_stop = "images/generations", "images", "images", STAYS
    outcomes, cached_outcomes, empty_answer, stopped = OUTCOMES, CACHED_OUTCOMES, PurchasedImage, REFUSED

    def __init__(self, settings: EndpointSettings, purchases: ImagePurchases) -> None:
        super().__init__(settings, settings.image_fields, worked_before=bool(purchases.done))
        self._purchases = purchases
        # In base64, with space for the rest of the reply.
        self.longest_reply = settings.max_bytes * 4 // 3 + 2**17
        self._has_useful = any(b.outcome in (OK, REFUSED) for b in purchases.done.values())
        self._n_wasted = 0

    def request_fields(self, question: Mapping[str, Any]) -> dict[str, Any]:
        return {"prompt": question["prompt"]}

    def save(self, digest: str, question: Mapping[str, Any], answer: PurchasedImage) -> None:
        """Save the status of an image; RunError for an endpoint that is paid and sends no images."""
        request_fields = {k: v for k, v in self.settings.image_fields.items() if k != "model"}
        self._purchases.save_status(digest, answer, {**question, "asked": request_fields})
        is_useful = answer.outcome in (OK, REFUSED)
        with self.mutex:
            self._has_useful = self._has_useful or is_useful
            self._n_wasted += not is_useful
            if not self._has_useful and self._n_wasted >= _MAX_WASTED:
                raise RunError(
                    f"{self.address} charged for {self._n_wasted} images but sent none: {answer.outcome} "
                    f"({answer.detail}). Check that the model {self.settings.model!r} generates images there. "
                    f"{STAYS}. To continue, run again."
                )

    def attempt(
        self, client: httpx.Client, digest: str, question: Mapping[str, Any]
    ) -> tuple[PurchasedImage, float | None]:
        """Buy an image, unless a stopped run left a paid reply."""
        reply = self._purchases.reply(digest)
        return super().attempt(client, digest, question) if reply is None else (self._read_image(digest, reply), None)

    def post(self, client: httpx.Client, digest: str, body: bytes) -> tuple[int, httpx.Headers, bytes]:
        """Send one request after recording its price."""
        self._purchases.reserve(digest, self.stop.is_set)
        charged = True
        try:
            status, headers, data = super().post(client, digest, body)
            charged = status < 300 or status in _MAYBE_CHARGED_STATUSES
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
        """Return the purchased image of a reply with status 200, after storing the reply unchanged."""
        try:
            reply = json.loads(data)
            image_entry = reply["data"][0]
            image, address, revised_prompt = (image_entry.get(k) or "" for k in ("b64_json", "url", "revised_prompt"))
            request_id = next((headers[h] for h in _REQUEST_IDS if headers.get(h)), reply.get("id") or "")
            if not (isinstance(image, str) and isinstance(address, str) and (image or address)):
                raise TypeError
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return PurchasedImage("malformed", f"not a reply of an images endpoint: {self.shorten_message(data)}")
        record = {
            "b64_json": self.redact_key(image),
            "url": "" if image else self.redact_key(address),
            "revised_prompt": self.shorten_message(revised_prompt, longest=10_000),
            "request_id": self.shorten_message(request_id),
            "time": cache_now(),
        }
        if filter_field := replies.placeholder(data):
            return PurchasedImage(
                REFUSED, self.shorten_message(filter_field), request_id=record["request_id"], time=record["time"]
            )
        self._purchases.save_reply(digest, record)
        return self._read_image(digest, record)

    def _read_image(self, digest: str, reply: Mapping[str, str]) -> PurchasedImage:
        """Save the image that a reply contains or links to; return its status."""
        values = {k: reply[k] for k in ("revised_prompt", "request_id", "time")}
        image, address = reply["b64_json"], reply["url"]
        try:
            if address and not address.startswith("data:"):
                data = self._fetch_image(address)
            else:
                # Base64 in either alphabet, with or without its padding.
                text = "".join((image or address).rpartition(",")[2].split()).rstrip("=").translate(_URL_SAFE)
                data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except RequestError as failed:
            if failed.outcome in _NO_IMAGE:
                return PurchasedImage("not_an_image", failed.outcome.replace("_", " "), **values)
            detail = self.shorten_message(f"{failed.outcome}: {failed.detail}")
            if failed.outcome in ("refused_address", "refused_port"):
                detail += " (if you trust the address, add it with its port to endpoint.allowed_hosts)"
            return PurchasedImage("lost" if failed.outcome in _PERMANENT_FAILURES else "not_fetched", detail, **values)
        except ValueError:
            return PurchasedImage("not_an_image", "not valid base64", **values)
        return self._save_image(digest, data, values)

    def _save_image(self, digest: str, data: bytes, values: Mapping[str, str]) -> PurchasedImage:
        """Save a file if it is an image; return its status."""
        ending = next((suffix for prefix, suffix in BEGINNINGS if data.startswith(prefix)), "")
        if not ending or (ending == "webp" and data[8:12] != b"WEBP"):
            return PurchasedImage("not_an_image", "not an image" if data else "empty", **values)
        image = decode(data, max_bytes=self.settings.max_bytes)
        if isinstance(image, UnreadableImage):
            return PurchasedImage("not_an_image", image.reason, **values)
        self._purchases.save_image(digest, ending, data)
        return PurchasedImage(OK, "", **values, ending=ending, sha256=hashlib.sha256(data).hexdigest())

    def _fetch_image(self, address: str) -> bytes:
        """Return the body at an image's address, with free retries after temporary failures."""

        settings = self.settings
        # Opt-out headers are not honoured, because this image was generated for this user.
        limits = fetch.Limits(settings.max_bytes, read_timeout=min(30.0, settings.timeout), timeout=settings.timeout)

        def fetch_once() -> bytes:
            try:
                # Some servers give a relative path.
                return fetch.get(urljoin(self.target, address), limits, settings.allowed_hosts)
            except RequestError as failed:
                retry = failed.retry or failed.outcome == "timed_out"
                # The error is logged, and may quote the request with the key.
                detail = self.shorten_message(failed.detail)
                raise RequestError(failed.outcome, detail, retry=retry, wait=failed.wait) from None

        return make_retry_policy(_MAX_FETCHES, self.stop)(fetch_once)

    def check_distinct(self, prompt: str, first: str, second: str) -> bool:
        """Return whether two images of a prompt differ; False if one is unusable. RunError: They are identical."""
        files, images = [], []
        for key in (first, second):
            purchase = self._purchases.done.get(key, PurchasedImage("not_bought"))
            path = self._purchases.image_path(key, purchase.ending)
            if purchase.outcome != OK or not path.exists():
                return False
            files.append(path)
            images.append(decode(path.read_bytes()))
        if any(
            isinstance(image, UnreadableImage) or is_black(image) or plain_share(image) >= PLAIN_SHARE
            for image in images
        ):
            return False
        if not np.array_equal(*images):
            return True
        same = "bytes" if files[0].read_bytes() == files[1].read_bytes() else "pixels"
        path = files[1]
        with contextlib.suppress(ValueError):
            path = path.relative_to(Path.cwd())
        raise RunError(
            f"{self.address} sent the same image twice: the first two images of {prompt!r} from {self.settings.model} "
            f"have identical {same}. Nothing more is bought, because copies are not independent observations. Make the "
            "server use a new seed for each request, disable the cache of any gateway in front of it, or request one "
            f"image per prompt. {STAYS}. Delete the copy in the cache, {path}, so that it is requested again, and run "
            "again."
        )

    def repeated_failure(self, last_answer: PurchasedImage) -> RunError:
        advice = "Check that the endpoint is running and accepts such requests, and run again."
        if last_answer.outcome == "not_fetched":
            advice = "The next run downloads the images that are paid for. If endpoint.options is {response_format: "
            advice += "b64_json}, replies contain the images."
        reason = last_answer.detail or OUTCOMES[last_answer.outcome]
        return RunError(f"{self.address} returns no images: {reason}. {STAYS}. {advice}")


def _format(amount: Decimal) -> str:
    return f"{amount.normalize():f}" if amount else "0"
