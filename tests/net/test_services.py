"""Services that are not shaped like OpenAI's: an example package, which orders an image and asks until it is there."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fake_endpoint import FakeEndpoint, picture
from test_image_endpoint import asked, made

from biaslab.ground.errors import ParameterError, RunError, UnknownNameError
from biaslab.models.images import Unreadable
from biaslab.net.services import ServiceError
from biaslab.study import Study

EXAMPLE = Path(__file__).with_name("queue_service")
KEY = "queue-key-5f0e1d2c3b4a"


class Shop(FakeEndpoint):
    """A server that draws each order when it is asked for the second time; ``does`` says otherwise, by prompt."""

    def __init__(self):
        super().__init__()
        self.orders, self.asked, self.does, self.busy = [], [], {}, 0
        self.reply = self._taken

    def _taken(self, prompt, n):
        with self._mutex:
            if self.busy:
                self.busy -= 1
                return 503, {}, "drawing for others"
            if self.does.get(prompt) == "reject":
                return 422, {}, f"no such size, {KEY}"
            number = len(self.orders)
            self.orders.append({k: v for k, v in self.requests[n - 1].items() if k != "path"})
            self.files[f"/v1/orders/{number}"] = partial(self._told, number, prompt)
            return 200, {}, json.dumps({"id": str(number)})

    def _told(self, number, prompt):
        self.asked.append(number)
        state = self.does.get(prompt, "draw")
        if state in ("policy", "gone"):
            return 200, {}, json.dumps({"state": "failed", "reason": state})
        if state == "wait" or self.asked.count(number) < 2:
            return 200, {}, json.dumps({"state": "waiting"})
        file = base64.b64encode(picture((number, 100, 200))).decode()
        return 200, {}, json.dumps({"state": "done", "picture": file, "drew": f"a detailed {prompt}"})


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Return such a server, with the example installed, for processes too."""
    package = tmp_path / "package"
    (told := package / "biaslab_queue-1.dist-info").mkdir(parents=True)
    shutil.copy(EXAMPLE / "queue_service.py", package)
    # As its metadata say.
    (group, points), *_ = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"].items()
    lines = [f"{name} = {where}" for name, where in (points | {"broken": "queue_service:Picture"}).items()]
    (told / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: biaslab-queue\nVersion: 1\n")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("QUEUE_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Shop().running() as running:
        yield running
    sys.modules.pop("queue_service", None)


def bought(shop, store, n=2, **more):
    given = {"model": "kiln-2", "service": "queue", "key_variable": "QUEUE_KEY"}
    return made(shop, store, asked(n), **given | more)


def test_images_are_ordered_once_and_collected_when_they_are_there(shop, store):
    # A busy one is asked again.
    shop.busy = 3
    images = bought(shop, store, size="512x512", concurrency=1)
    assert [order["prompt"] for order in shop.orders] == ["photo 0", "photo 1"]
    assert shop.orders[0] == {"model": "kiln-2", "n": 1, "size": "512x512", "prompt": "photo 0"}
    assert shop.asked == [0, 0, 1, 1] and set(shop.keys) == {f"Bearer {KEY}"}
    table = images.table
    assert table["outcome"].tolist() == ["ok", "ok"] and table["request_id"].tolist() == ["0", "1"]
    assert table["revised_prompt"].tolist() == ["a detailed photo 0", "a detailed photo 1"]
    assert [image[0, 0].tolist() for image in images.read(["p0/0", "p1/0"])] == [[0, 100, 200], [1, 100, 200]]
    assert images.spent == 0.5
    # Another run finds them.
    assert bought(shop, store, size="512x512").spent == 0.5 and len(shop.orders) == 2


def test_what_has_no_image_is_counted_and_paid_as_the_service_says(shop, store):
    shop.does = {"photo 0": "policy", "photo 1": "gone", "photo 2": "reject"}
    images = bought(shop, store, 4, concurrency=1)
    assert images.table["outcome"].tolist() == ["refused", "lost", "rejected", "ok"]
    assert images.table["detail"].tolist()[2] == "HTTP 422: no such size, [key]"
    assert images.read(["p0/0"]) == [Unreadable("blocked")]
    # A refusal costs nothing there, what is lost does, and nothing was asked of what was rejected.
    assert images.spent == 0.5
    again = bought(shop, store, 4)
    assert again.table["outcome"].tolist() == images.table["outcome"].tolist() and again.spent == 0.5
    assert [order["prompt"] for order in shop.orders] == ["photo 0", "photo 1", "photo 3"]


def test_what_takes_too_long_is_collected_by_the_next_run(shop, store):
    bought(shop, store, 1)
    shop.does = {"photo 1": "wait"}
    images = bought(shop, store, timeout=0.05)
    assert images.table["outcome"].tolist() == ["ok", "not_fetched"]
    assert images.table["detail"].tolist()[1] == "not ready after 0.05 seconds"
    with pytest.raises(RunError, match=r"kiln-2 has not delivered 1 of 2 images \(1 not_fetched"):
        images.check_delivered()
    shop.does = {}
    assert bought(shop, store).table["outcome"].tolist() == ["ok", "ok"]
    assert len(shop.orders) == 2 and images.spent == 0.5


BUY = """
import sys
from types import SimpleNamespace
from biaslab.keep.store import Store
from test_services import bought

bought(SimpleNamespace(url=sys.argv[1]), Store(sys.argv[2]), concurrency=1)
"""


def test_a_killed_run_collects_what_it_ordered(shop, store):
    shop.does = {"photo 0": "wait"}
    where = os.pathsep.join([os.environ["PYTHONPATH"], *sys.path])
    command = [sys.executable, "-c", BUY, shop.url, str(store.root)]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": where}) as running:
        end = time.monotonic() + 60
        while len(shop.asked) < 2:
            assert running.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        running.kill()
    shop.does = {}
    images = bought(shop, store, concurrency=1)
    assert images.table["outcome"].tolist() == ["ok", "ok"]
    assert [order["prompt"] for order in shop.orders] == ["photo 0", "photo 1"] and images.spent == 0.5


def test_a_service_that_breaks_off_ends_the_run_and_stays_counted(shop, store, monkeypatch):
    import queue_service

    monkeypatch.setattr(queue_service.Queue, "submit", lambda *_: 1 / 0)
    with pytest.raises(RunError, match=r"The service 'queue' broke off in submit: ZeroDivisionError"):
        bought(shop, store, concurrency=1)
    assert bought(shop, store, 0).spent == 0.25


def test_what_is_no_service_is_told_before_anything_is_asked(shop, store, tmp_path):
    with pytest.raises(UnknownNameError, match=r"no service of images .* named 'qeue'. Did you mean 'queue'\?"):
        bought(shop, store, service="qeue")
    with pytest.raises(ParameterError, match=r"queue_service:Picture makes is no service of images: .* 'submit'"):
        bought(shop, store, service="broken")
    assert not shop.orders and not shop.keys
    with pytest.raises(ValueError, match="outcome is 'sold out'; allowed are refused, "):
        ServiceError("sold out")
    with pytest.raises(ParameterError, match=r"needs endpoint\.service or endpoint\.url"):
        Study(tmp_path / "out", source="pipeline", model="endpoint:kiln-2", settings={}).pipeline.image_model()


def test_a_pipeline_buys_from_a_service(shop, store, tmp_path):
    endpoint = {"url": shop.url, "service": "queue", "key_variable": "QUEUE_KEY", "price": 0.01, "cost_limit": 9}
    settings = {"endpoint": endpoint, "compute": {"store": str(store.root)}}
    study = Study(tmp_path / "out", source="pipeline", model="endpoint:kiln-2", settings=settings)
    model = study.pipeline.image_model()
    prompts = pd.DataFrame({"prompt_id": ["a"], "text": ["a nurse"], "n_images": [1]})
    images = model.generate(prompts, progress=False, seed=1, store=store)
    assert isinstance(images.read(["a/0"])[0], np.ndarray) and len(shop.orders) == 1
