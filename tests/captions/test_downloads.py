"""Images downloaded by URL from local servers: working, unreachable and malicious ones."""

import functools
import gzip
import hashlib
import io
import json
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import zlib

import numpy as np
import pandas as pd
import pytest
from loopback import RESET, Server, head
from PIL import Image

from biaslab.captions import downloads
from biaslab.captions.downloads import download, encode_image
from biaslab.captions.fetched import FetchedImages, shards
from biaslab.captions.settings import DownloadSettings
from biaslab.endpoints import endpoint
from biaslab.endpoints import fetch as fetching
from biaslab.errors import ParameterError, RunError
from biaslab.hub.image_sources import UnreadableImage

FAST = {"PER_HOST": 16}
FIRST_WAIT = 0.01


@pytest.fixture(scope="module", autouse=True)
def fast():
    """Ask hosts without the usual pauses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endpoint, "FIRST_WAIT", FIRST_WAIT)
        for name, value in FAST.items():
            patch.setattr(downloads, name, value)
        yield


def quick(**changes):
    return DownloadSettings(**{"timeout": 10.0, **changes})


def encode(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, n):
    """Return a PNG of 8-bit RGBA that states a size; ``n`` rows of its pixels follow."""
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    pack, row = zlib.compressobj(9), b"\0" + b"\x10\x20\x30\x40" * width
    data = b"".join(pack.compress(row) for _ in range(n)) + pack.flush()
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


RED = encode(Image.new("RGB", (90, 60), (200, 20, 30)), "JPEG", quality=95)
NOISE = encode(
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (80, 80, 3), dtype=np.uint8)), "JPEG", quality=95
)
# Expensive content is created at first use.
BIG = functools.cache(lambda: png(50_000, 50_000, 20))
LARGE = functools.cache(lambda: png(4999, 4999, 4999))
WEBP = functools.cache(lambda: encode(Image.new("RGB", (4999, 4999), "green"), "WEBP", lossless=True, method=0))
BOMB = functools.cache(lambda: gzip.compress(bytes(60_000_000)))
BROKEN = encode(Image.open(io.BytesIO(NOISE)))
BROKEN = BROKEN[:2000] + bytes(100) + BROKEN[2100:]
SCANS = RED[:-2] + b"\xff\xda" * 300 + b"\xff\xd9"


# -- a server ------------------------------------------------------------------------------------------------------


JPEG = {"Content-Type": "image/jpeg"}
# Replies by the first part of the path; expensive ones are functions.
REPLIES = {
    "red": (200, JPEG, RED),
    "html": (200, JPEG, b"<html><script>alert(1)</script></html>"),
    "svg": (200, {"Content-Type": "image/svg+xml"}, b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
    "image-called-html": (200, {"Content-Type": "text/html"}, RED),
    "cut": (200, JPEG, NOISE[:3000]),
    "broken": (200, {"Content-Type": "image/png"}, BROKEN),
    "much-later": (429, {"Retry-After": "3600"}, b""),
    "busy": (503, {}, b""),
    "gzip": (200, {"Content-Encoding": "gzip"}, gzip.compress(NOISE)),
    "gzip-bomb": lambda: (200, {"Content-Encoding": "gzip"}, BOMB()),
    "brotli": (200, {"Content-Encoding": "br"}, RED),
    "empty": (200, {}, b""),
    "cookie": (200, {"Set-Cookie": "seen=1; Path=/"}, RED),
    "big": lambda: (200, {"Content-Type": "image/png"}, BIG()),
    # An image of nearly as many pixels as are allowed, in 40 kB.
    "large": lambda: (200, {}, LARGE()),
    "webp": lambda: (200, {}, WEBP()),
    "scans": (200, {}, SCANS),
    "circle": (307, {"Location": "circle"}, b""),
    "endless": lambda: without_end(head()),
    "stated": [head(b"Content-Length: 99999999999")],
    "drip": lambda: drip(head(b"Content-Length: 100000"), RED[:30], 1),
    "drip-header": lambda: drip(b"HTTP/1.1 200 OK\r\nX: ", b"a" * 300, 0.1),
    # Fewer bytes than stated, then the end.
    "short": [head(b"Content-Length: %d" % len(RED)), RED[:300]],
    "reset": RESET,
    # A small compressed body, and bytes without end behind it.
    "gzip-tail": lambda: without_end(head(b"Content-Encoding: gzip") + gzip.compress(RED)),
    "garbage": [b"\0\1\2 this is no HTTP\r\n\r\n"],
}
# Replies to the first request for a path that is answered with an image later.
AT_FIRST = {"later": (429, {"Retry-After": "1"}, b""), "reset-once": RESET}


def without_end(start):
    yield start
    while True:
        yield bytes(65536)


def drip(start, data, pause):
    yield start
    for byte in data:
        yield bytes([byte])
        time.sleep(pause)


class Pictures(Server):
    """A server of valid and malicious replies, by the first part of a path."""

    def __init__(self):
        super().__init__()
        self.active, self.most_active, self.released = 0, 0, threading.Event()

    def url_of(self, path):
        return f"{self.url}/{path}"

    def times(self, path):
        return [request.time for request in self.received if request.path == f"/{path}"]

    def answer(self, request, _):
        name, _, rest = request.path[1:].partition("/")
        with self._mutex:
            self.active += 1
            self.most_active = max(self.most_active, self.active)
        try:
            if name == "held":
                self.released.wait(60)
            elif name == "slow":
                time.sleep(0.02)
            elif name == "status":
                return int(rest.partition("/")[0]), {}, b"<html>no</html>"
            elif name == "to":
                return 302, {"Location": bytes.fromhex(rest).decode()}, b""
            elif name == "loop":
                return 301, {"Location": f"/loop/{int(rest or 0) + 1}"}, b""
            elif name == "robots":
                return 200, {"X-Robots-Tag": bytes.fromhex(rest).decode()}, RED
            elif name in AT_FIRST and len(self.times(request.path[1:])) == 1:
                return AT_FIRST[name]
            reply = REPLIES.get(name, REPLIES["red"])
            return reply() if callable(reply) else reply
        finally:
            with self._mutex:
                self.active -= 1


@pytest.fixture
def server():
    with Pictures().running() as made:
        yield made


@pytest.fixture
def fetch(server, tmp_path):
    """Return a function that downloads paths of the server, or whole URLs, and returns the table."""

    def run(*paths, allow=(), folder="pictures", ids=None, attempt="", **changes):
        urls = [p if p is None or ":" in p or not p else server.url_of(p) for p in paths]
        table = pd.DataFrame({"caption_id": ids or [f"c{i}" for i in range(len(urls))], "url": urls}, dtype=object)
        allow = [server.address, *allow]
        download_options = {"attempt": attempt, "allow": allow, "progress": False}
        return download(table, tmp_path / folder, quick(**changes), **download_options).table

    return run


def redirect_to(url):
    """Return the path that redirects to a URL."""
    return f"to/{url.encode().hex()}"


# -- status of a URL -----------------------------------------------------------------------------------------------

HOSTILE = {
    "red": "ok",
    "endless": "too_many_bytes",
    "stated": "too_many_bytes",
    "big": "too_large",
    "scans": "too_large",
    "html": "not_an_image",
    "svg": "not_an_image",
    "image-called-html": "ok",
    "cut": "truncated",
    "short": "connection_failed",
    "broken": "damaged",
    "later": "ok",
    "much-later": "rate_limited",
    "busy": "server_error",
    "reset": "connection_failed",
    "reset-once": "ok",
    "loop": "too_many_redirects",
    "circle": "too_many_redirects",
    **dict.fromkeys(("gzip", "gzip-bomb", "gzip-tail", "brotli"), "compressed"),
    "garbage": "connection_failed",
    "empty": "empty",
    **dict.fromkeys(("status/204", "status/400"), "http_error"),
    **dict.fromkeys(("status/401", "status/403", "status/451"), "forbidden"),
    "status/404": "not_found",
    "status/410": "gone",
    "status/500": "server_error",
    redirect_to("http://169.254.169.254/latest/meta-data/"): "refused_address",
    redirect_to("http://[::1]:80/"): "refused_address",
    redirect_to("http://2130706433/"): "refused_address",
    redirect_to("http://1.1.1.1:22/"): "refused_port",
    redirect_to("file:///etc/passwd"): "refused_scheme",
    redirect_to("ftp://example.com/x.jpg"): "refused_scheme",
    redirect_to("http://a b:c/"): "connection_failed",
    "nothing:": "refused_scheme",
    redirect_to("/red"): "ok",
    "file:///etc/passwd": "refused_scheme",
    "ftp://example.com/x.jpg": "refused_scheme",
    "data:image/png;base64,AAAA": "refused_scheme",
    "http://a b:c/": "bad_url",
    "http://x:99999/": "bad_url",
    "http://127.0.0.1:1/x.jpg": "refused_address",
    "http://x/" + "a" * 70_000: "bad_url",
    "": "no_url",
    None: "no_url",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Download all of them at once, without the deliberately slow ones."""
    folder, ids = tmp_path_factory.mktemp("hostile"), [f"{p}"[:60] for p in HOSTILE]
    with Pictures().running() as made:
        urls = [p if not p or ":" in p else made.url_of(p) for p in HOSTILE]
        table = pd.DataFrame({"caption_id": ids, "url": urls})
        source = download(table, folder, quick(max_bytes=2_000_000), allow=[made.address], progress=False)
        result = source.table
        assert result["caption_id"].tolist() == source.table["image_id"].tolist() == ids
        yield result.set_index("caption_id"), made, source, folder


@pytest.mark.parametrize("path", HOSTILE)
def test_download_status_of_each_url(outcomes, path):
    row = outcomes[0].loc[f"{path}"[:60]]
    assert row["status"] == HOSTILE[path], row.to_dict()
    image = outcomes[2].read([f"{path}"[:60]])[0]
    if row["status"] == "ok":
        assert image.shape == (60, 90, 3)
    else:
        assert image == UnreadableImage(row["status"])


def test_download_rows_have_sizes_message_and_requests(outcomes):
    result, server, _, folder = outcomes
    ok = result.loc[redirect_to("/red")[:60]]
    assert (ok["width"], ok["height"], ok["original_width"], ok["original_height"]) == (90, 60, 90, 60)
    assert ok["sha256"] == hashlib.sha256(RED).hexdigest() and len(ok["key"]) == 9
    assert result.loc["status/404", "detail"] == "not_found: status 404"
    saved = pd.concat(map(pd.read_parquet, folder.glob("*.parquet"))).set_index("url")["status"]
    assert saved[result.loc["svg", "url"]] == "failed_to_resize"
    assert saved[result.loc["busy", "url"]] == "failed_to_download"
    requests = {"reset": 3, "reset-once": 2, "busy": 3, "later": 2, "much-later": 1, "status/404": 1, "html": 1}
    assert {path: len(server.times(path)) for path in requests} == requests
    first, second = server.times("later")
    assert second - first >= 1


def test_dripping_body_times_out(fetch):
    # Bytes arrive often enough to avoid the read timeout.
    result = fetch("drip", "drip-header", "red", timeout=1.5)
    assert result["status"].tolist() == ["timed_out", "timed_out", "ok"]


@pytest.fixture
def names(monkeypatch):
    """Return a dict of names with lists of answers to give one after the other, and a list of names asked."""
    answers, asked_names, real = {}, [], socket.getaddrinfo

    def resolve(host, port, *args, **kwargs):
        if host not in answers:
            return real(host, port, *args, **kwargs)
        asked_names.append(host)
        answer = answers[host].pop(0) if len(answers[host]) > 1 else answers[host][0]
        if isinstance(answer, Exception):
            raise answer
        kind = socket.AF_INET6 if ":" in answer[0] else socket.AF_INET
        return [(kind, socket.SOCK_STREAM, 6, "", (a, port)) for a in answer]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return answers, asked_names


def test_download_connects_to_checked_address(server, fetch, names):
    # The second answer would be used by a second lookup between check and connection.
    answers, asked_names = names
    answers["rebind.test"] = [["127.0.0.1"], ["127.0.0.9"]]
    result = fetch(f"http://rebind.test:{server.http.server_port}/red")
    assert result["status"].tolist() == ["ok"] and asked_names == ["rebind.test"]
    assert server.received[-1].headers["Host"] == f"rebind.test:{server.http.server_port}"
    # Each redirect is resolved and checked anew, and all of a name's addresses count.
    answers["rebind.test"] = [["127.0.0.1"], ["10.0.0.1"]]
    repeated = f"http://rebind.test:{server.http.server_port}/"
    answers["both.test"] = [["127.0.0.1", "192.168.1.1"]]
    result = fetch(repeated + redirect_to(repeated + "red"), f"http://both.test:{server.http.server_port}/red")
    assert result["status"].tolist() == ["refused_address"] * 2


def test_download_ignores_environment_proxies(server, fetch, monkeypatch):
    with Pictures().running() as other:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{other.address}")
        assert fetch("red")["status"].tolist() == ["ok"] and not other.received


def test_download_sends_no_cookies_or_credentials(server, fetch, monkeypatch):
    monkeypatch.setattr(downloads, "CONCURRENCY", 1)
    result = fetch("cookie/1", f"http://user:secret@{server.address}/cookie/2", "cookie/3")
    assert set(result["status"]) == {"ok"}
    for headers in (request.headers for request in server.received):
        assert not {"Cookie", "Authorization", "Referer"}.intersection(headers)
        assert "biaslab" in headers["User-Agent"] and headers["Accept-Encoding"] == "identity"


def test_download_verifies_certificate_host_name(server, fetch, tmp_path, names, monkeypatch):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    asked_names = (
        "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=pictures.test -addext"
    )
    make = [openssl, *asked_names.split(), "subjectAltName=DNS:pictures.test"]
    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True)
    server_names = []
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server_context.sni_callback = lambda connection, name, context: server_names.append(name)
    server.http.socket = server_context.wrap_socket(server.http.socket, server_side=True)
    names[0].update({"pictures.test": [["127.0.0.1"]], "other.test": [["127.0.0.1"]]})

    def outcome(name, folder):
        return fetch(f"https://{name}:{server.http.server_port}/red", folder=folder)["status"].iloc[0]

    assert outcome("pictures.test", "a") == "tls_failed"
    trusted_context = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    monkeypatch.setattr(fetching, "tls", lambda: trusted_context)
    assert outcome("pictures.test", "b") == "ok" and server_names[-1] == "pictures.test"
    assert server.received[-1].headers["Host"] == f"pictures.test:{server.http.server_port}"
    assert outcome("other.test", "c") == "tls_failed"


# -- headers -------------------------------------------------------------------------------------------------------


def test_opt_out_headers_follow_setting(server, fetch):
    paths = [f"robots/{v.encode().hex()}" for v in ("noai, nofollow", "noindex")]
    result = fetch(*paths)
    assert result["status"].tolist() == ["opted_out"] * 2
    assert result["detail"].tolist() == ["opted_out: X-Robots-Tag: noai", "opted_out: X-Robots-Tag: noindex"]
    assert fetch(*paths, folder="b", opt_out=["noindex"])["status"].tolist() == ["ok", "opted_out"]
    assert fetch(*paths, folder="c", opt_out=[])["status"].tolist() == ["ok", "ok"]


def test_download_limits_requests_per_host(server, fetch, monkeypatch):
    monkeypatch.setattr(downloads, "PER_HOST", 2)
    result = fetch(*[f"slow/{i}" for i in range(12)])
    assert set(result["status"]) == {"ok"} and server.most_active <= 2


# -- missing networks --------------------------------------------------------------------------------------------


def test_download_without_network_fails_unrecorded(server, fetch, names, tmp_path):
    dead = socket.gaierror(socket.EAI_NONAME, "unknown")
    hosts = [f"host{i}.test" for i in range(130)]
    names[0].update({h: [dead] for h in hosts})
    urls = [f"http://{h}:{server.http.server_port}/red" for h in hosts]
    # The first shard ends the work, whatever invalid URLs are among its own.
    with pytest.raises(RunError, match=r"None of \d+ hosts .*no_address.* again with a network"):
        fetch("http://a b:c/", *urls)
    with pytest.raises(RunError, match=r"None of 3 hosts"):
        fetch(*urls[:3])
    assert shards(tmp_path / "pictures") == []
    names[0].update({h: [["127.0.0.1"]] for h in hosts})
    assert set(fetch(*urls)["status"]) == {"ok"}
    # If other hosts have answered, a few failing hosts are accepted, and many are not.
    dead_hosts = [f"gone{i}.test" for i in range(10)]
    names[0].update({h: [dead] for h in dead_hosts})
    dead_urls = [f"http://{h}:{server.http.server_port}/x" for h in dead_hosts]
    assert fetch(*urls[:2], *dead_urls[:9])["status"].tolist() == ["ok"] * 2 + ["no_address"] * 9
    other_urls = [f"http://other{i}.test/x" for i in range(10)]
    names[0].update({f"other{i}.test": [dead] for i in range(10)})
    with pytest.raises(RunError, match=r"None of 10 hosts"):
        fetch(*urls[:2], *other_urls)
    # Hosts that failed before are not counted.
    assert fetch(*urls[:2], *dead_urls[:9])["status"].tolist() == ["ok"] * 2 + ["no_address"] * 9
    names[0].update({h: [["127.0.0.1"]] for h in dead_hosts})
    assert set(fetch(*urls[:2], *dead_urls[:9])["status"]) == {"ok"}


# -- caching -----------------------------------------------------------------------------------------------------


def test_download_repeats_only_temporary_failures(server, fetch, monkeypatch):
    monkeypatch.setattr(downloads, "SHARD", 2)
    paths = ["red/1", "status/404", "html", "busy", "red/2", ""]
    first = fetch(*paths)
    n = len(server.received)
    repeated = fetch(*paths)
    assert [request.path for request in server.received[n:]] == ["/busy"] * 3
    columns = ["url", "status", "width", "sha256"]
    pd.testing.assert_frame_equal(repeated[columns], first[columns])
    # In one start of a run, a temporary failure is requested once.
    fetch(*paths, attempt="first")
    fetch(*paths, attempt="first")
    assert len(server.times("busy")) == 9
    fetch(*paths, attempt="second")
    assert len(server.times("busy")) == 12
    # The status belongs to the URL, for any caption.
    n = len(server.received)
    subset = fetch(*paths[:2:-1], "red/3", ids=["c3", "c9", "c5", "c4"], attempt="second")
    assert subset["status"].tolist() == ["no_url", "ok", "server_error", "ok"] and len(server.received) == n + 1


def test_download_requests_shared_url_once(server, fetch):
    ids = ["../../../escape", "CON", "=1+1", "a" * 300]
    result = fetch(*["red"] * 4, ids=ids)
    assert len(server.received) == 1 and result["status"].tolist() == ["ok"] * 4 and result["image_id"].tolist() == ids
    assert result["key"].unique().tolist() == ["000000000"]


def test_download_repeats_missing_image_files(server, fetch, tmp_path):
    first = fetch("red/1", "red/2")
    folder = tmp_path / "pictures"
    missing_file = next(folder.glob("00000/*.jpg"))
    missing_file.unlink()
    # Left by an interrupted run under the next number: no statistics, and an invalid image file.
    (folder / "00001").mkdir()
    (folder / "00001.parquet").write_bytes(b"PAR1")
    (folder / "00001" / "000010000.jpg").write_bytes(b"half")
    repeated = fetch("red/1", "red/2")
    assert len(server.received) == 3 and repeated["status"].tolist() == ["ok", "ok"]
    assert sorted(repeated["shard"]) == ["00000", "00001"] and repeated["sha256"].tolist() == first["sha256"].tolist()
    assert all(image.shape == (60, 90, 3) for image in FetchedImages(folder, first).read(["c0", "c1"]))


def test_download_on_full_disk_keeps_complete_shards(server, fetch, monkeypatch, tmp_path):
    fetch("red/1")
    real = pathlib.Path.write_bytes

    def full(path, data):
        if path.suffix == ".jpg":
            real(path, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(RunError, match=r"No space left .*Downloaded images remain"):
        patch.setattr(pathlib.Path, "write_bytes", full)
        fetch("red/1", "red/2")
    assert fetch("red/1", "red/2")["status"].tolist() == ["ok", "ok"]
    assert len(server.times("red/1")) == 1
    images = FetchedImages(tmp_path / "pictures", pd.DataFrame({"caption_id": ["a"], "url": [server.url_of("red/2")]}))
    assert images.read(["a"])[0].shape == (60, 90, 3)


def test_killed_download_resumes_from_complete_shards(server, fetch, tmp_path):
    # The 30 images of three shards are served at once, the others after the process was killed.
    paths = [f"red/{i}" for i in range(30)] + [f"held/{i}" for i in range(4)]
    process = child(paths, server, tmp_path / "pictures", shard=10)
    deadline = time.monotonic() + 60
    while len(shards(tmp_path / "pictures")) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    server.released.set()
    n = len(server.received)
    assert set(fetch(*paths)["status"]) == {"ok"}
    assert sorted(request.path for request in server.received[n:]) == [f"/held/{i}" for i in range(4)]


CHILD = """
import json, pathlib, re, resource, sys
import pandas as pd
from biaslab.captions import downloads
from biaslab.captions.settings import DownloadSettings
from biaslab.endpoints import endpoint
table, folder, allow, settings, fast, endpoint.FIRST_WAIT = json.loads(sys.argv[1])
for name, value in fast.items():
    setattr(downloads, name, value)
settings = DownloadSettings(**settings)
made = downloads.download(pd.DataFrame(table), pathlib.Path(folder), settings, allow=[allow], progress=False).table
# Linux counts what the parent had before this program began into ru_maxrss, so its own peak is read elsewhere.
status = pathlib.Path("/proc/self/status")
if status.exists():
    peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1])
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"peak": peak, "outcomes": made["status"].tolist()}))
"""


def child(paths, server, folder, shard=100, **settings):
    table = {"caption_id": [f"c{i}" for i in range(len(paths))], "url": [server.url_of(p) for p in paths]}
    arguments = json.dumps([table, str(folder), server.address, settings, {**FAST, "SHARD": shard}, FIRST_WAIT])
    return subprocess.Popen([sys.executable, "-c", CHILD, arguments], stdout=subprocess.PIPE, text=True)


@pytest.mark.long
def test_download_memory_is_bounded(server, tmp_path):
    kinds = ("endless", "gzip-bomb", "large", "webp", "big", "gzip-tail", "stated", "scans", "html")
    # More than are downloaded at a time, with four large images.
    paths = [f"{kind}/{i}" for i in range(2) for kind in kinds]
    # Expensive content is created in advance.
    for make in (LARGE, WEBP, BIG, BOMB):
        make()
    result = json.loads(child(paths, server, tmp_path / "pictures", timeout=120).communicate()[0])
    expected_statuses = HOSTILE | {"large": "ok", "webp": "ok"}
    assert result["outcomes"] == [expected_statuses[kind] for kind in kinds] * 2
    assert result["peak"] < 1e9


# -- pictures ----------------------------------------------------------------------------------------------------


def saved(data, **settings):
    """Return the encoded image of ``data`` as an array, and its original size."""
    made, sizes = encode_image(data, DownloadSettings(**settings))
    with Image.open(io.BytesIO(made)) as image:
        assert image.size == (sizes["width"], sizes["height"])
        return np.asarray(image).astype(int), (sizes["original_width"], sizes["original_height"])


def test_encode_image_shrinks_and_keeps_aspect():
    two_colored = Image.new("RGB", (1000, 400), "blue")
    two_colored.paste("red", (0, 0, 500, 400))
    made, size = saved(encode(two_colored, "JPEG"), max_side=100)
    assert made.shape == (40, 100, 3) and size == (1000, 400)
    assert np.abs(made[:, :45] - [255, 0, 0]).max() < 20 and np.abs(made[:, 55:] - [0, 0, 255]).max() < 20
    # Never larger, and never thinner than a pixel.
    assert saved(encode(Image.new("RGB", (30, 20))), max_side=100)[0].shape == (20, 30, 3)
    assert saved(encode(Image.new("RGB", (4000, 1))), max_side=100)[0].shape == (1, 100, 3)


def test_encode_image_removes_metadata():
    exif = Image.Exif()
    exif[0x010E] = "who and where"
    data = encode(Image.new("RGB", (8, 8)), "JPEG", exif=exif, comment=b"who and where", icc_profile=b"where")
    made, _ = encode_image(data, DownloadSettings())
    with Image.open(io.BytesIO(made)) as image:
        assert image.format == "JPEG"
        assert not image.getexif() and not {"comment", "icc_profile"}.intersection(image.info)
    assert b"where" not in made


# -- settings ------------------------------------------------------------------------------


def test_download_settings_digest_ignores_speed():
    assert DownloadSettings(timeout=5).digest == DownloadSettings().digest
    assert DownloadSettings(max_side=256).digest != DownloadSettings().digest
    with pytest.raises(ParameterError, match="'noia'"):
        DownloadSettings(opt_out=("noia",))
