"""A local vision-language model with answers defined by a test."""

import base64
import hashlib
import io
import json

import numpy as np
from fake_endpoint import FakeEndpoint, completion
from PIL import Image


def picture_of(message):
    """Return the image in a message, ``uint8 (height, width, 3)``."""
    url = next(part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))).convert("RGB"))


class FakeVision(FakeEndpoint):
    """``see(picture, text, answers)`` returns the answer, or a whole reply; answers are those to choose from."""

    def __init__(self, see):
        super().__init__()
        self.see, self.reply = see, self._answer

    def _answer(self, _, n):
        body = self.requests[n - 1]
        first_message = body["messages"][0]
        form = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        answers = form.get("properties", {}).get("answer", {}).get("enum", [])
        answer = self.see(picture_of(first_message), first_message["content"][0]["text"], answers)
        return answer if isinstance(answer, tuple) else completion(json.dumps({"answer": answer}))


def marked(image):
    """Return the digest of an image's pixels, to identify it in a test."""
    return hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()
