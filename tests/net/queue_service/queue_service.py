"""A service that takes an order, draws for a while, and is asked whether it is done: the shape of most that sell time.

``POST /orders`` with a prompt answers ``{"id": …}``; ``GET /orders/ID`` says ``{"state": "waiting"}``, ``"done"`` with
the picture in base64, or ``"failed"`` with a reason.
"""

import base64

import httpx

from biaslab.net.services import Picture, ServiceError


class Queue:
    """One model there; the key stays in the header of a request."""

    def __init__(self, settings, key):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Each question is short; how long an image may take is the buyer's matter.
        self._client = httpx.Client(base_url=settings.url, headers=headers, timeout=30)
        self._asked = settings.image_fields

    def submit(self, prompt, index):
        return self._answer("POST", "/orders", json={"prompt": prompt, **self._asked})["id"]

    def collect(self, ticket):
        order = self._answer("GET", f"/orders/{ticket}")
        if order["state"] == "failed":
            refused = order["reason"] == "policy"
            raise ServiceError("refused" if refused else "lost", order["reason"], charged=not refused)
        if order["state"] != "done":
            return None
        return Picture(base64.b64decode(order["picture"]), order.get("drew", ""))

    def _answer(self, method, path, **sent):
        try:
            response = self._client.request(method, path, **sent)
        except httpx.TransportError as error:
            # What broke off may have been ordered all the same.
            charged = method == "POST" and not isinstance(error, httpx.ConnectError)
            raise ServiceError("unavailable", str(error), charged=charged) from error
        if response.status_code in (429, 503):
            raise ServiceError("unavailable", response.text, wait=float(response.headers.get("Retry-After", 0)))
        if response.status_code != 200:
            raise ServiceError("rejected", f"HTTP {response.status_code}: {response.text}")
        return response.json()
