"""Images bought at an endpoint: requests, caching, outcomes and costs, with a faulty server."""

import contextlib
import json
import logging
import os
import re
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fake_endpoint import KEY, bytes_below, drawn, endpoint_settings, failure, picture, process, wait
from loopback import RESET
from PIL import Image

from biaslab.cache.result_cache import ResultCache
from biaslab.endpoints.images import OUTCOMES
from biaslab.endpoints.purchases import LimitError
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import InputError, ParameterError, RunError
from biaslab.generation.generator import image_seed
from biaslab.generation.image_endpoint import EndpointImages
from biaslab.generation.models import EndpointModel
from biaslab.hub.image_sources import UnreadableImage

REFUSAL = failure(400, "Your request was rejected by our safety system.", "content_policy_violation")


def colour_of(text):
    """Return the color of the server's image for a prompt, from the number in it."""
    return (int(re.findall(r"\d+", text)[-1]), 100, 200)


@pytest.fixture
def server(server):
    server.reply = lambda text, n: drawn(picture(colour_of(text)))
    return server


PAID_SETTINGS = {"model": "painter-3", "price": 0.25, "cost_limit": 100}


def asked(n, images=1):
    """Return n prompts, "photo 0", "photo 1", …"""
    texts = [f"photo {i}" for i in range(n)]
    return pd.DataFrame({"prompt_id": [f"p{i}" for i in range(n)], "text": texts, "n_images": images})


def made(server, store, prompts, *, seed=7, **more):
    return buy(prompts, endpoint_settings(server, **PAID_SETTINGS | more), store, seed)


def order_images(server, store, n, **more):
    """Return n images as a source before anything is bought."""
    return EndpointImages(asked(n), endpoint_settings(server, **PAID_SETTINGS | more), seed=7, cache=store)


def buy(prompts, settings, store, seed=7):
    return EndpointImages(prompts, settings, seed=seed, cache=store).complete(progress=False)


def query(root, select):
    """Return the rows of a query on the database of a cache, without the code that writes it."""
    with contextlib.closing(sqlite3.connect(root / "purchases.sqlite")) as database:
        return database.execute(select).fetchall()


# -- requests and results --------------------------------------------------------------------------------------


def test_endpoint_images_have_table_and_pixels(server, store):
    server.reply = lambda text, n: drawn(picture((10 * n, 0, 0)), revised=f"A detailed {text}", x_request_id=f"req-{n}")
    images = made(server, store, asked(2, images=[2, 1]), concurrency=1)
    table = images.table
    assert list(table["image_id"]) == ["p0/0", "p0/1", "p1/0"]
    assert list(table["prompt_id"]) == ["p0", "p0", "p1"] and list(table["index"]) == [0, 1, 0]
    assert list(table["seed"]) == [image_seed(7, "p0", 0), image_seed(7, "p0", 1), image_seed(7, "p1", 0)]
    assert set(table["status"]) == {"ok"} and set(table["detail"]) == {""}
    assert list(table["revised_prompt"]) == ["A detailed photo 0"] * 2 + ["A detailed photo 1"]
    assert list(table["request_id"]) == ["req-1", "req-2", "req-3"]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", t) for t in table["time"])
    assert images.name == "painter-3" and images.spent == 0.75
    # In the requested order, each with the color of its own request.
    read = images.read(["p1/0", "p0/0"])
    for image, red in zip(read, (30, 10), strict=True):
        assert image.dtype == np.uint8 and np.array_equal(image, np.full((4, 6, 3), (red, 0, 0)))
    with pytest.raises(InputError, match="painter-3 has no image 'p9/0'"):
        images.read(["p9/0"])


def test_shared_noise_prompts_have_one_seed(server, store):
    server.reply = lambda text, n: drawn(picture((n, 100, 200)))
    table = made(server, store, asked(3, images=2).assign(noise_id=["t", "t", "u"])).table
    # No endpoint takes noise: the seed says which images would share it.
    assert list(table["image_id"]) == ["p0/0", "p1/0", "p0/1", "p1/1", "p2/0", "p2/1"]
    assert list(table["seed"]) == [image_seed(7, *key) for key in zip("ttttuu", (0, 0, 1, 1, 0, 1), strict=True)]


def test_image_request_contains_only_settings(server, store):
    made(server, store, asked(1))
    assert server.requests[0] == {"path": "/v1/images/generations", "model": "painter-3", "prompt": "photo 0", "n": 1}
    assert server.keys == [f"Bearer {KEY}"]
    more = {"size": "1024x1024"}
    options = {"quality": "hd", "style": "natural", "response_format": "b64_json"}
    made(server, store, asked(1), **more, options=options)
    assert server.requests[1] == {**server.requests[0], **more, **options}


def test_bought_images_are_cached(server, store, monkeypatch):
    server.reply = lambda text, n: drawn(picture((n, 100, 200)))
    first = made(server, store, asked(3))
    assert len(server.requests) == 3
    # More images cost only the new ones, and cached images need no key.
    more = made(server, store, asked(3, images=2))
    assert len(server.requests) == 6
    monkeypatch.delenv("FAKE_KEY")
    repeated = made(server, store, asked(3), price=None, options={"response_format": "url"})
    assert repeated.table.equals(first.table) and repeated.digest == first.digest != more.digest
    monkeypatch.setenv("FAKE_KEY", KEY)
    assert len(server.requests) == 6
    # Another seed, size, text or prompt's name is another image.
    made(server, store, asked(3), seed=8)
    made(server, store, asked(3), size="512x512")
    made(server, store, asked(3).assign(text="photo 9"))
    renamed = made(server, store, asked(3).assign(prompt_id=["q0", "q1", "q2"]))
    assert len(server.requests) == 6 + 4 * 3
    assert renamed.spent == 18 * 0.25


# -- the same image again ------------------------------------------------------------------------------------


def compressed_image(level):
    """Return the file of one image, whose bytes depend on the compression level."""
    file = BytesIO()
    Image.fromarray(np.arange(240, dtype=np.uint8).reshape(8, 10, 3)).save(file, "PNG", compress_level=level)
    return file.getvalue()


@pytest.mark.parametrize(("levels", "same"), [((6, 6), "bytes"), ((0, 9), "pixels")])
def test_repeated_image_stops_purchase_after_two(server, store, levels, same):
    server.reply = lambda text, n: drawn(compressed_image(levels[n % 2]))
    match = (
        rf"The endpoint http://127.* sent the same image twice: .*'photo 0' from painter-3 .*identical {same}.*cache"
    )
    # Four requests at a time would buy four.
    with pytest.raises(RunError, match=match):
        made(server, store, asked(3, images=16), concurrency=4)
    assert len(server.requests) == 2
    # Run again, nothing is bought before the copy is taken away.
    with pytest.raises(RunError, match=match) as stop_error:
        made(server, store, asked(3, images=16))
    assert len(server.requests) == 2
    server.reply = lambda text, n: drawn(picture((n, 100, 200)))
    Path(re.search(r"in the cache, (.*\.png),", str(stop_error.value))[1]).unlink()
    assert list(made(server, store, asked(3, images=16)).table["status"]) == ["ok"] * 48
    assert len(server.requests) == 2 + 47


def test_repeated_image_stops_resumed_run(server, store):
    server.reply = lambda text, n: drawn(compressed_image(6))
    made(server, store, asked(2, images=1))
    assert len(server.requests) == 2
    with pytest.raises(RunError, match="sent the same image twice"):
        made(server, store, asked(2, images=5))
    assert len(server.requests) == 3


def test_first_prompt_with_two_images_is_bought_first(server, store):
    server.reply = lambda text, n: drawn(picture((n, 100, 200)))
    # The first prompt has one image, so that the second is the first with two.
    made(server, store, asked(3).assign(n_images=[1, 3, 3]), concurrency=4)
    assert [request["prompt"] for request in server.requests[:2]] == ["photo 1"] * 2
    assert len(server.requests) == 7


@pytest.mark.parametrize("shown", ["refused", "black", "placeholder"])
def test_refusals_and_black_images_are_no_duplicates(server, store, shown):
    body = drawn(picture((3, 3, 3)))
    if shown == "placeholder":
        reply = json.loads(body[2])
        reply["data"][0] |= {
            **json.loads(drawn(compressed_image(6))[2])["data"][0],
            "finish_reason": "CONTENT_FILTERED",
        }
        body = 200, {}, json.dumps(reply)
    body = REFUSAL if shown == "refused" else body
    server.reply = lambda text, n: body if text == "photo 0" else drawn(picture((n, 100, 200)))
    images = made(server, store, asked(2, images=4))
    outcome = "ok" if shown == "black" else "refused"
    assert list(images.table["status"]) == [outcome] * 4 + ["ok"] * 4
    # A placeholder was paid for, and a refusal with an error status was not.
    assert images.spent == (4 if shown == "refused" else 8) * 0.25
    # The first prompt says nothing of copies, so that the next one is asked.
    assert [request["prompt"] for request in server.requests[2:4]] == ["photo 1"] * 2
    assert len(server.requests) == 8


def test_cost_limit_error_counts_remaining_images(server, store):
    server.reply = lambda text, n: drawn(picture((n, 100, 200)))
    with pytest.raises(RunError, match="Missing images: 5"):
        made(server, store, asked(2, images=3), cost_limit=0.25)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("way", ["b64_json", "url", "data"])
def test_image_formats_and_encodings_are_accepted(server, store, kind, way):
    data = picture((200, 60, 20), kind)
    server.files["/a?sig=1"] = 200, {"Content-Type": "text/plain"}, data
    address = server.url.removesuffix("/v1") + "/a?sig=1"

    def reply(text, n):
        status, headers, body = drawn(data, url=address if way == "url" else "")
        if way == "data":
            body = body.replace('"b64_json": "', '"url": "data:image/any;base64,')
        return status, headers, body

    server.reply = reply
    images = made(server, store, asked(1), allowed_hosts=(address.split("/")[2],))
    assert images.table["status"].tolist() == ["ok"]
    assert np.abs(images.read(["p0/0"])[0].astype(int) - (200, 60, 20)).max() <= 3
    # The key is for the endpoint, not for wherever its pictures are.
    assert server.fetched == ([("/a?sig=1", "")] if way == "url" else [])
    (file,) = store.root.rglob("images/*/*")
    assert file.read_bytes() == data and file.suffix == {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp"}[kind]


def test_no_prompts_give_empty_table(server, store):
    images = made(server, store, asked(0))
    assert list(images.table.columns)[:5] == ["image_id", "prompt_id", "index", "seed", "status"]
    assert len(images.table) == 0 and images.read([]) == [] and server.requests == []


# -- faults that pass -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "charged"),
    [
        (failure(500), 0),
        (failure(429), 0),
        # These may have made an image before they failed.
        (failure(504), 2),
        (RESET, 2),
        ((200, {}, '{"data": [{"b64'), 2),
    ],
)
def test_image_is_bought_after_two_failures(server, store, trouble, charged):
    server.reply = lambda text, n: trouble if n < 3 else drawn(picture(colour_of(text)))
    images = made(server, store, asked(1))
    assert images.table["status"].tolist() == ["ok"]
    assert len(server.requests) == 3
    assert images.spent == 0.25 * (1 + charged)


def test_unreachable_endpoint_costs_nothing(server, store):
    with pytest.raises(RunError, match="returns no images: ConnectError"):
        made(server, store, asked(1), url="http://127.0.0.1:9/v1")
    assert query(store.root, "select cost from charges order by rowid") == [("0.25",), ("-0.25",)] * 3


# -- outcomes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "content_policy_violation"), (400, "moderation_blocked"), (403, "content_filter"), (500, "content_filter")],
)
def test_refusal_is_cached_with_code_and_message(server, store, status, code):
    refusal = failure(status, "Rejected by our safety system.", code)
    server.reply = lambda text, n: refusal if text == "photo 1" else drawn(picture(colour_of(text)))
    images = made(server, store, asked(3))
    assert images.table["status"].tolist() == ["ok", "refused", "ok"]
    assert images.table["detail"][1] == f"{code}: Rejected by our safety system."
    assert images.read(["p1/0"]) == [UnreadableImage("blocked")]
    assert images.spent == 0.5
    server.reply = lambda text, n: drawn(picture(colour_of(text)))
    assert made(server, store, asked(3)).table["status"].tolist() == ["ok", "refused", "ok"]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("body", "outcome", "detail", "n"),
    [
        (picture((1, 2, 3))[:-30], "not_an_image", "truncated", 1),
        (picture((1, 2, 3), "GIF"), "not_an_image", "not an image", 1),
        (b"RIFF\0\0\0\0WAVE", "not_an_image", "not an image", 1),
        (picture((1, 2, 3), size=(60, 60)) + bytes(300_000), "not_an_image", "too large", 1),
        ((200, {}, '{"data": [{"b64_json": "!!!!"}]}'), "not_an_image", "not valid base64", 1),
        ((200, {}, "<html>busy</html>"), "malformed", "not a reply of an images endpoint: <html>busy", 3),
        ((200, {}, '{"data": [{"b64_json": 5}]}'), "malformed", "not a reply of an images", 3),
        ((200, {}, "[" * 100_000), "malformed", "not a reply of an images", 3),
        (failure(400, "size is not supported"), "rejected", "HTTP 400: size is not supported", 1),
        (failure(413), "rejected", "HTTP 413", 1),
        (failure(500, "it broke"), "unavailable", "HTTP 500: it broke", 8),
    ],
)
def test_failed_image_has_outcome(server, store, body, outcome, detail, n):
    bad = body if isinstance(body, tuple) else drawn(body)
    server.reply = lambda text, k: bad if text == "photo 1" else drawn(picture(colour_of(text)))
    # 90,000 bytes are allowed, in base64 with what stands around it up to 251,072.
    limits = {"max_bytes": 90_000}
    images = made(server, store, asked(3), **limits)
    assert images.table["status"].tolist() == ["ok", outcome, "ok"]
    assert outcome in OUTCOMES
    assert images.table["detail"][1].startswith(detail)
    assert [r["prompt"] for r in server.requests].count("photo 1") == n
    (shown,) = images.read(["p1/0"])
    assert shown == UnreadableImage(detail if outcome == "not_an_image" else outcome)
    # Paid outcomes stay; requests without an answer are repeated.
    server.reply = lambda text, k: drawn(picture(colour_of(text)))
    repeated = made(server, store, asked(3), **limits)
    is_paid = outcome == "not_an_image"
    assert repeated.table["status"].tolist() == ["ok", outcome if is_paid else "ok", "ok"]
    assert (repeated.digest == images.digest) == is_paid
    assert len(server.requests) == 2 + n + (0 if is_paid else 1)


def test_endpoint_without_valid_images_is_abandoned(server, store):
    server.reply = lambda text, n: drawn(b"nothing")
    with pytest.raises(RunError, match=r"charged for 5 images but sent none: not_an_image \(not an image\)"):
        made(server, store, asked(20), concurrency=1)
    assert len(server.requests) == 5
    images = made(server, store, asked(20), allow_purchases=False)
    assert images.table["status"].value_counts().to_dict() == {"not_bought": 15, "not_an_image": 5}


# -- pictures by address --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["http://127.0.0.1:{port}/a", "http://169.254.169.254/a", "http://[::1]/a"])
def test_private_address_is_refused_and_not_bought_again(server, store, address):
    port = server.url.rpartition(":")[2].removesuffix("/v1")
    address = address.format(port=port)
    server.files["/a"] = 200, {}, picture((9, 9, 9))
    server.reply = lambda text, n: drawn(b"", url=address, revised="as told")
    with pytest.raises(RunError, match=r"no images: refused_address: .* address \(if you .* endpoint.allowed_hosts\)"):
        made(server, store, asked(1))
    assert len(server.requests) == 1 and server.fetched == []
    # It is paid: the next run starts with the cached reply.
    if port in address:
        images = made(server, store, asked(1), allowed_hosts=(f"127.0.0.1:{port}",))
        assert images.table[["status", "revised_prompt"]].values.tolist() == [["ok", "as told"]]
        assert len(server.fetched) == 1
        assert query(store.root, "select count(reply) from images") == [(0,)]
    else:
        with pytest.raises(RunError, match="refused_address"):
            made(server, store, asked(1))
    assert len(server.requests) == 1


def test_failing_image_addresses_have_outcomes(server, store):
    base = server.url.removesuffix("/v1")
    tries = []

    def third_time():
        tries.append(1)
        return (503, {}, "") if len(tries) < 3 else (200, {}, picture((2, 100, 200)))

    server.files |= {
        "/1": (302, {"Location": "http://10.0.0.1/secret"}, ""),
        "/2": third_time,
        "/3": (403, {}, "expired"),
        "/4": (200, {}, b"<html>"),
        "/5": (200, {}, picture((5, 5, 5)) + bytes(100_000)),
    }

    def reply(text, n):
        k = colour_of(text)[0]
        return drawn(picture(colour_of(text)), url={0: "", 6: "file:///etc/passwd"}.get(k, f"{base}/{k}"))

    server.reply = reply
    more = {"allowed_hosts": (base.removeprefix("http://"),), "max_bytes": 50_000, "concurrency": 1}
    images = made(server, store, asked(7), **more)
    assert " ".join(images.table["status"]) == "ok not_fetched ok lost not_an_image not_an_image lost"
    assert (
        "|".join(d.partition(":")[0] for d in images.table["detail"])
        == "|refused_address||forbidden|not an image|too many bytes|refused_scheme"
    )
    assert len(server.requests) == 7
    server.files["/1"] = 200, {}, picture((1, 1, 1))
    assert made(server, store, asked(7), **more).table["status"].tolist()[1] == "ok"
    assert len(server.requests) == 7 and images.spent == 7 * 0.25


# -- faults that end it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (failure(401, f"Incorrect API key: {KEY}"), ParameterError, "variable FAKE_KEY.*HTTP 401"),
        (failure(400, "limit", "billing_hard_limit_reached"), RunError, "requires payment"),
    ],
)
def test_permanent_error_stops_and_keeps_purchases(server, store, reply, kind, message):
    server.reply = lambda text, n: reply if n == 4 else drawn(picture(colour_of(text)))
    with pytest.raises(kind, match=message) as error:
        made(server, store, asked(9), concurrency=1)
    assert "Images bought earlier are cached" in str(error.value) and KEY not in str(error.value)
    assert len(server.requests) == 4
    images = made(server, store, asked(9))
    assert set(images.table["status"]) == {"ok"}
    # Three were bought before; the request that failed cost nothing.
    assert len(server.requests) == 4 + 6 and images.spent == 9 * 0.25


def test_image_key_is_in_no_file_message_or_log(server, store, caplog, capfd):
    replies = [
        drawn(picture((1, 1, 1)), revised=f"for {KEY}", x_request_id=KEY),
        drawn(b"", url=f"http://10.0.0.1/{KEY}"),
        failure(400, f"no, {KEY}", "moderation_blocked"),
        (200, {}, "x" * 190 + KEY),
        failure(500, f"Bearer {KEY}"),
        failure(400, KEY),
    ]
    server.reply = lambda text, n: replies[colour_of(text)[0]] if colour_of(text)[0] < 6 else drawn(picture((1, 1, 1)))
    # The library below shows what a server's headers hold when it is asked for every detail; ours does not.
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.INFO, "httpcore"):
        # Image 6, between the bad ones, shows that the endpoint works.
        order = asked(7).iloc[[0, 1, 2, 3, 6, 4, 5]]
        images = made(server, store, order, concurrency=1)
    assert " ".join(images.table["status"]) == "ok not_fetched refused malformed ok unavailable rejected"
    assert images.table["revised_prompt"][0] == "for [key]"
    output = images.table.to_csv() + caplog.text + "".join(capfd.readouterr()) + repr(endpoint_settings(server))
    assert KEY[:8] not in output
    assert KEY[:8].encode() not in bytes_below(store.root)


# -- money ------------------------------------------------------------------------------------------------------------


def test_cost_limit_stops_and_higher_limit_resumes(server, store):
    # 1.10 holds four images of 0.25, not five.
    with pytest.raises(RunError) as error:
        made(server, store, asked(6), cost_limit=1.10)
    for said in (
        "painter-3 at http://127.0.0.1",
        "cost limit of 1.1; 1 is already spent",
        "set endpoint.cost_limit to 1.5 or more",
    ):
        assert said in str(error.value)
    assert len(server.requests) == 4
    # Cached images are usable without the key or another request.
    partial = made(server, store, asked(6), allow_purchases=False, api_key_env="", price=None)
    assert sorted(partial.table["status"]) == ["not_bought"] * 2 + ["ok"] * 4
    for image_id, outcome in zip(partial.table["image_id"], partial.table["status"], strict=True):
        (image,) = partial.read([image_id])
        assert image == UnreadableImage("not bought") if outcome == "not_bought" else image.shape == (4, 6, 3)
    # The limit in the message is just enough.
    images = made(server, store, asked(6), cost_limit=1.5)
    assert set(images.table["status"]) == {"ok"} and images.spent == 1.5
    assert sorted(r["prompt"] for r in server.requests) == [f"photo {i}" for i in range(6)]
    assert images.digest != partial.digest


def test_cost_limit_covers_model_in_cache(server, store):
    made(server, store, asked(2), cost_limit=0.5)
    with pytest.raises(RunError, match="cost_limit to 1 or more"):
        made(server, store, asked(2), size="512x512", cost_limit=0.6)
    # Another model has a limit of its own.
    made(server, store, asked(1), model="other", cost_limit=0.25)
    assert len(server.requests) == 3


def test_endpoint_model_without_url_is_refused():
    with pytest.raises(ParameterError, match=r"model is 'endpoint:NAME', but endpoint\.url is not set"):
        EndpointModel("endpoint:NAME", EndpointSettings())


def test_purchase_requires_price_and_limit(server, store):
    with pytest.raises(ParameterError, match=r"price is not set\. Set it to the price of one image from painter-3"):
        made(server, store, asked(1), price=None)
    with pytest.raises(
        RunError, match=r"cost limit of 0; 0 is already spent.*set endpoint\.cost_limit to 0\.25 or more"
    ):
        made(server, store, asked(1), cost_limit=0)
    assert server.requests == []
    assert made(server, store, asked(4), price=0, cost_limit=0).spent == 0
    assert len(server.requests) == 4
    # In binary numbers 0.1 + 0.1 + 0.1 is more than 0.3.
    assert made(server, store, asked(3), price=0.1, cost_limit=0.3, size="8x8").spent == 0.3


@pytest.mark.parametrize("charged", [False, True])
def test_reservation_waits_for_pending_requests(server, store, charged):
    ledger, is_running = order_images(server, store, 3, cost_limit=0.5)._purchases, lambda: False
    with ledger.buying(), ThreadPoolExecutor(1) as pool:
        ledger.reserve("a", is_running)
        ledger.reserve("b", is_running)
        third = pool.submit(ledger.reserve, "c", is_running)
        wait(lambda: ledger._condition._waiters)
        (first_waiter,) = ledger._condition._waiters
        ledger.settle("a", charged=charged)
        if charged:
            # It checks, and waits again: b may still cost nothing.
            wait(lambda: {*ledger._condition._waiters} - {first_waiter})
            assert not third.done()
            ledger.settle("b", charged=True)
        assert isinstance(third.exception(5), LimitError) == charged


# -- stops ----------------------------------------------------------------------------------------------------------


def buy_from(url, root, n, **more):
    """Buy n images from a process of its own."""
    given = PAID_SETTINGS | {"url": url, "api_key_env": "", **more}
    return buy(asked(n), EndpointSettings(**given), ResultCache(root))


posix = pytest.mark.skipif(os.name != "posix", reason="kills with a signal")


def test_two_processes_buy_each_image_once(server, tmp_path):
    server.reply = lambda text, n: time.sleep(0.02) or drawn(picture(colour_of(text)))
    children = [process(buy_from, server.url, tmp_path, 20) for _ in range(2)]
    for one in children:
        one.join(60)
    assert [one.exitcode for one in children] == [0, 0]
    assert sorted(r["prompt"] for r in server.requests) == sorted(f"photo {i}" for i in range(20))
    assert buy_from(server.url, tmp_path, 20).spent == 20 * 0.25
    assert len(server.requests) == 20


@posix
def test_interrupt_keeps_requests_under_way(server, store):
    def reply(text, n):
        if n == 6:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return drawn(picture(colour_of(text)))

    server.reply = reply
    with pytest.raises(KeyboardInterrupt):
        made(server, store, asked(20), concurrency=3)
    assert 6 <= len(server.requests) <= 9
    server.reply = lambda text, n: drawn(picture(colour_of(text)))
    assert made(server, store, asked(20)).spent == 20 * 0.25
    assert sorted(r["prompt"] for r in server.requests) == sorted(f"photo {i}" for i in range(20))


def test_changed_or_missing_images_are_unreadable(server, store):
    images = made(server, store, asked(2))
    first, second = (images._purchases.image_path(k, "png") for k in images._keys)
    first.write_bytes(second.read_bytes())
    second.unlink()
    assert images.read(["p0/0", "p1/0"]) == [UnreadableImage("damaged"), UnreadableImage("missing")]
    # A file that is gone is bought anew, under the same limit.
    with pytest.raises(RunError, match=r"set endpoint\.cost_limit to 0\.75 or more"):
        made(server, store, asked(2), cost_limit=0.5)
    repeated = made(server, store, asked(2))
    assert len(server.requests) == 3 and repeated.read(["p1/0"])[0].shape == (4, 6, 3)


def test_paid_reply_is_processed_despite_limit(server, store):
    """A run was killed after the reply for the last image was written, and the limit allows no other."""
    ledger = order_images(server, store, 3)
    reply_data = json.loads(drawn(picture((2, 100, 200)))[2])["data"][0]
    said = {"url": "", "revised_prompt": "", "request_id": "", "time": "2030-01-01T00:00:00Z"}
    ledger._purchases.save_reply(ledger._keys[2], reply_data | said)
    with pytest.raises(RunError, match=r"Missing images: 2\."):
        made(server, store, asked(3), cost_limit=0, concurrency=1)
    images = made(server, store, asked(3), allow_purchases=False)
    assert images.table["status"].tolist() == ["not_bought", "not_bought", "ok"]
    assert server.requests == []
