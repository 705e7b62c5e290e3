"""A local endpoint with replies defined by a test, which records its requests."""

import base64
import contextlib
import json
import multiprocessing
import os
import time
from io import BytesIO

import pytest
from loopback import Server
from PIL import Image

from biaslab.endpoints import endpoint
from biaslab.endpoints.settings import EndpointSettings

KEY = "sk-test-5f0e1d2c3b4a59687"


def endpoint_settings(server, **more):
    """Return the settings of an endpoint."""
    given = {"url": server.url, "model": "some-model", "api_key_env": "FAKE_KEY", "timeout": 5.0}
    return EndpointSettings(**given | more)


def picture(colour, kind="PNG", size=(6, 4)):
    """Return the file of a plain image, 6 pixels wide and 4 high."""
    file = BytesIO()
    Image.new("RGB", size, tuple(colour)).save(file, kind, quality=95)
    return file.getvalue()


def completion(text, **more):
    """Return the body of a chat completion with ``text``."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **more}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return 200, {}, json.dumps({"choices": [choice], "usage": usage})


def failure(status, message="", code="", **headers):
    """Return an error in the format of OpenAI's server."""
    named_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, named_headers, json.dumps({"error": {"message": message, "code": code}})


def drawn(picture, *, url="", revised="", **headers):
    """Return the body of an answer of an images endpoint, with ``picture`` (bytes) in it or at ``url``."""
    data = {"url": url} if url else {"b64_json": base64.b64encode(picture).decode()}
    named_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    reply_body = {"created": 1_700_000_000, "data": [data | ({"revised_prompt": revised} if revised else {})]}
    return 200, named_headers, json.dumps(reply_body)


class FakeEndpoint(Server):
    """An endpoint; ``reply(question, n)`` returns the server's reply to the n-th request for an answer, from 1.

    While it runs, requests are repeated after short waits. ``question`` is the text of the last message, or the prompt
    of an image. ``files`` holds the replies to GET requests by path,
    or what returns them.
    """

    def __init__(self):
        super().__init__()
        self.reply = lambda question, n: completion(question.upper())
        self.requests = []
        self.times = []
        self.headers = []
        self.files = {}
        self.fetched = []

    @property
    def url(self):
        return f"{super().url}/v1"

    @property
    def keys(self):
        return [headers.get("Authorization", "") for headers in self.headers]

    @property
    def questions(self):
        return [r["messages"][-1]["content"] for r in self.requests]

    @contextlib.contextmanager
    def running(self):
        with super().running(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(endpoint, "FIRST_WAIT", 0.01)
            patch.setattr(endpoint, "LONGEST_WAIT", 0.2)
            yield self

    def answer(self, request, _):
        with self._mutex:
            if request.method == "GET":
                self.fetched.append((request.path, request.headers.get("Authorization", "")))
                reply = self.files.get(request.path, (404, {}, ""))
                return reply() if callable(reply) else reply
            body = json.loads(request.body)
            self.requests.append({**body, "path": request.path})
            self.times.append(request.time)
            self.headers.append(request.headers)
            n = len(self.requests)
        question = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
        return self.reply(question, n)


def process(target, *arguments):
    """Start a process; all are forked from one that has loaded their modules."""
    context = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
    if os.name == "posix":
        context.set_forkserver_preload(["biaslab.generation.image_endpoint", "pandas", "pytest", "tqdm"])
    child = context.Process(target=target, args=arguments)
    child.start()
    return child


def wait(condition, *processes):
    """Wait for a condition while the processes that cause it are alive."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end and all(p.is_alive() for p in processes)
        time.sleep(0.005)


def bytes_below(folder):
    """Return the bytes of all files below a folder, and their names."""
    files = [p for p in folder.rglob("*") if p.is_file()]
    assert files
    return b"\0".join([p.read_bytes() for p in files] + [str(p).encode() for p in files])
