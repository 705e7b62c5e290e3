"""One request to a server that nobody trusts, and one picture out of what it sent.

The address that is checked is the address that is connected to: a name is resolved once, and the connection knows
only the result. Host header and certificate stay those of the name.
"""

from __future__ import annotations

import email.utils
import ipaddress
import os
import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import httpcore
import httpx

from biaslab.captions import _body as _body_of

if TYPE_CHECKING:
    from PIL import Image

    from biaslab.captions.downloads import DownloadSettings

# Formats that browsers show and Pillow reads without a large library behind it; the content decides, not the header.
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
# Endings of files and what Pillow calls the format.
SAVED = {"jpg": "JPEG", "webp": "WEBP", "png": "PNG"}
_ACCEPT = b"image/webp,image/png,image/jpeg,image/gif;q=0.8,*/*;q=0.5"
_REDIRECTS = (301, 302, 303, 307, 308)
# A picture of more pixels is decoded alone.
_LARGE = 4_000_000
# Progressive JPEGs have about ten scans; each costs a pass over the whole picture.
_MOST_SCANS = 200
_LONGEST_URL = 8192


class Failed(Exception):
    """Why a URL gives no image; ``retry`` where another try may, ``wait`` where the server said when (seconds)."""

    def __init__(
        self, outcome: str, detail: str = "", *, retry: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(outcome, detail)
        self.outcome, self.detail, self.retry, self.wait = outcome, detail, retry, wait


@dataclass
class Visit:
    """Where a URL leads, and what is known of it so far."""

    at: httpx.URL
    """Where to go next: the URL, or what it redirects to."""
    redirects: int = 0
    status: int | None = None
    """Of the last response."""
    n_bytes: int | None = None
    """Of the body, as far as it was read."""
    reached: bool = False
    """Whether a connection was ever made."""

    @property
    def host(self) -> str:
        """Name of the host to ask next."""
        return self.at.raw_host.decode("ascii")


def request(
    visit: Visit, settings: DownloadSettings, context: ssl.SSLContext, allow: Collection[str], deadline: float
) -> BytesIO | None:
    """Make one request; return the body, or None where it redirects: the visit then knows where to.

    Args:
        visit: Where to go; takes note of what happens.
        settings: Limits.
        context: Tells which certificates are valid.
        allow: Addresses with ports that are taken although they are not public.
        deadline: When the time is up, by :func:`time.monotonic`.

    Raises:
        Failed: There is no body to be had here, now or ever.
    """
    url, host = visit.at, visit.host
    port = url.port or (443 if url.scheme == "https" else 80)
    addresses = _addresses(host, port, allow, min(settings.silence, deadline - time.monotonic()))
    backend = _Backend(addresses, deadline, settings.silence)
    target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=port, target=url.raw_path)
    headers = [
        (b"Host", url.netloc),
        (b"User-Agent", settings.user_agent.encode("ascii", "replace")),
        (b"Accept", _ACCEPT),
        (b"Accept-Encoding", b"identity"),
        (b"Connection", b"close"),
    ]
    connection = httpcore.HTTPConnection(target.origin, ssl_context=context, network_backend=backend)
    try:
        response = connection.handle_request(httpcore.Request("GET", target, headers=headers))
        visit.status = response.status
        return _answer(visit, response, settings)
    except httpcore.TimeoutException as error:
        raise Failed("timed_out", str(error) or type(error).__name__) from None
    except httpcore.ConnectError as error:
        if isinstance(error.__cause__, ssl.SSLError):
            raise Failed("tls_failed", str(error)) from None
        raise Failed("connection_failed", str(error), retry=True) from None
    except (httpcore.NetworkError, httpcore.RemoteProtocolError) as error:
        raise Failed("connection_failed", str(error) or type(error).__name__, retry=True) from None
    except httpcore.LocalProtocolError as error:
        raise Failed("bad_url", str(error)) from None
    finally:
        visit.reached |= backend.connected
        connection.close()


def _answer(visit: Visit, response: httpcore.Response, settings: DownloadSettings) -> BytesIO | None:
    headers: dict[bytes, list[bytes]] = {}
    for name, value in response.headers:
        headers.setdefault(name.lower(), []).append(value)
    if response.status in _REDIRECTS and b"location" in headers:
        if visit.redirects >= settings.redirects:
            raise Failed("too_many_redirects", f"more than {settings.redirects}")
        visit.at = parsed(_text(headers[b"location"][0]), visit.at)
        visit.redirects += 1
        return None
    if response.status != 200:
        raise _of_status(response.status, headers)
    asked = opted_out(headers, settings.opt_out)
    if asked:
        raise Failed("opted_out", asked)
    body = _body(visit, response, settings.most_bytes)
    if not visit.n_bytes:
        raise Failed("empty")
    return body


def _body(visit: Visit, response: httpcore.Response, most: int) -> BytesIO:
    """Read a body up to the limit, also where it came compressed although we ask for plain bytes."""
    body, visit.n_bytes = BytesIO(), 0
    try:
        for piece in _body_of.read(response.iter_stream(), response.headers, most):
            visit.n_bytes += len(piece)
            body.write(piece)
    except _body_of.BodyError as error:
        raise Failed(error.outcome, error.detail) from None
    body.seek(0)
    return body


def _addresses(host: str, port: int, allow: Collection[str], seconds: float) -> list[str]:
    """Return the addresses of a host, all of them public."""
    found = _resolve(host, port, seconds)
    for address in found:
        if _with_port(address, port) in allow:
            continue
        why = not_public(address)
        if why:
            raise Failed("refused_address", f"{address}: {why}")
        if port < 1024 and port not in (80, 443):
            raise Failed("refused_port", f"port {port}")
    return found


def parsed(text: str, base: httpx.URL | None = None) -> httpx.URL:
    """Return a URL, or what it means in a page at ``base``; raise where it cannot be fetched."""
    if not text and base is None:
        raise Failed("no_url")
    if len(text) > _LONGEST_URL:
        raise Failed("bad_url", f"{len(text)} characters")
    try:
        url = httpx.URL(text) if base is None else base.join(text)
        host = url.raw_host.decode("ascii")
        whole = str(url)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise Failed("bad_url", str(error)) from None
    if url.scheme not in ("http", "https"):
        raise Failed("refused_scheme" if url.scheme else "bad_url", whole[:100])
    if not host or not 0 < (url.port or 80) < 65536:
        raise Failed("bad_url", "it names no host" if not host else f"port {url.port}")
    return url


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _resolve(host: str, port: int, seconds: float) -> list[str]:
    """Return a host's addresses; raise where it has none, or where they take longer than ``seconds``."""
    answers: queue.SimpleQueue = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    # The system's resolver cannot be told to hurry, so it is left behind where it takes too long.
    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        answer = answers.get(timeout=max(seconds, 0.001))
    except queue.Empty:
        raise Failed("timed_out", f"no answer about the name {host}") from None
    if isinstance(answer, UnicodeError):
        raise Failed("bad_url", f"{host[:100]} is no name of a host")
    if isinstance(answer, OSError):
        raise Failed("no_address", str(answer), retry=answer.errno == socket.EAI_AGAIN)
    return list(dict.fromkeys(entry[4][0] for entry in answer))


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


# Addresses that look public and are not, beside those that the library knows: protocol assignments, an old relay of
# IPv6, an internal server of a cloud; for IPv6 protocol assignments, documentation, and IPv4 in another coat.
_NOT_PUBLIC = (
    "192.0.0.0/24",
    "192.88.99.0/24",
    "168.63.129.16/32",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
)


def not_public(address: str) -> str:
    """Say why an IP address is not one of the public internet; empty where it is.

    IPv4 addresses in IPv6 ones (mapped, and behind the NAT64 prefix) are looked at themselves.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "no IP address"
    if ip.version == 6:
        if ip.ipv4_mapped:
            ip = ip.ipv4_mapped
        elif ip in ipaddress.ip_network("64:ff9b::/96"):
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        elif ip not in ipaddress.ip_network("2000::/3"):
            return _kind(ip)
    listed = any(ip in ipaddress.ip_network(n) for n in _NOT_PUBLIC if (":" in n) == (ip.version == 6))
    return _kind(ip) if listed or not ip.is_global or ip.is_multicast or ip.is_reserved else ""


def _kind(ip: Any) -> str:
    kinds = ("loopback", "link_local", "multicast", "unspecified", "reserved", "private")
    return next(
        (f"{k.replace('_', '-')} address" for k in kinds if getattr(ip, f"is_{k}")), "no public address"
    )


class _Stream(httpcore.NetworkStream):
    """A connection whose every wait ends at the deadline, however many bytes come one by one."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float, silence: float) -> None:
        self._stream, self._deadline, self._silence = stream, deadline, silence

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the time for one try is up")
        return min(left, self._silence)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        stream = self._stream.start_tls(ssl_context, server_hostname, self._left())
        return _Stream(stream, self._deadline, self._silence)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    """Connects to one of the addresses that were checked, whatever name is asked for."""

    def __init__(self, addresses: Sequence[str], deadline: float, silence: float) -> None:
        self._addresses, self._deadline, self._silence = addresses, deadline, silence
        self.connected = False

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: Any = None,
        socket_options: Any = None,
    ) -> _Stream:
        failed: Exception = httpcore.ConnectTimeout("the time for one try is up")
        for address in self._addresses[:4]:
            left = self._deadline - time.monotonic()
            if left <= 0:
                break
            try:
                stream = httpcore.SyncBackend().connect_tcp(
                    address, port, min(left, self._silence), socket_options=[]
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
            else:
                self.connected = True
                return _Stream(stream, self._deadline, self._silence)
        raise failed


def _of_status(status: int, headers: Mapping[bytes, list[bytes]]) -> Failed:
    """Return what a status other than 200 means."""
    detail, wait = f"status {status}", None
    if status in (429, 503):
        wait = _retry_after(headers)
        detail += "" if wait is None else f", to be asked again after {wait:.0f} s"
    if status in (404, 410):
        return Failed("not_found" if status == 404 else "gone", detail)
    if status in (401, 402, 403, 451):
        return Failed("forbidden", detail)
    if status == 429 or status >= 500:
        return Failed("rate_limited" if status == 429 else "server_error", detail, retry=True, wait=wait)
    return Failed("http_error", detail)


def _retry_after(headers: Mapping[bytes, list[bytes]]) -> float | None:
    """Return the seconds after which a server wants to be asked again; None where it does not say."""
    value = _text(headers.get(b"retry-after", [b""])[0]).strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


# Directives of X-Robots-Tag that have a value; any other name before a colon is that of a robot.
_ROBOT = re.compile(r"\*|[a-z0-9_-]+")
_VALUED = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


def opted_out(headers: Mapping[bytes, Sequence[bytes]], honoured: Collection[str]) -> str:
    """Return the header that asks not to use an image, or an empty text.

    Args:
        headers: Values of a response's headers, by names in lower case.
        honoured: Which of :data:`OPT_OUT` count. Directives of ``X-Robots-Tag`` that name another robot do not.
    """
    for value in map(_text, headers.get(b"x-robots-tag", ())):
        robot = ""
        for part in value.lower().split(","):
            name, colon, rest = part.partition(":")
            if colon and _ROBOT.fullmatch(name.strip()) and name.strip() not in _VALUED:
                robot, part = name.strip(), rest
            if robot in ("", "*", "biaslab") and part.strip() in honoured:
                return f"X-Robots-Tag: {part.strip()}"
    reserved = any(_text(v).strip() == "1" for v in headers.get(b"tdm-reservation", ()))
    return "TDM-Reservation: 1" if reserved and "tdm-reservation" in honoured else ""


# -- pictures ----------------------------------------------------------------------------------------------------


class Decoders:
    """Threads that decode pictures: one for large ones, so that there is one at a time, and a few for others.

    Threads of their own, because memory that a thread frees is kept for that thread.
    """

    def __init__(self) -> None:
        self._small = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="decode")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="decode-large")

    def made(self, image: Image.Image, settings: DownloadSettings) -> bytes:
        """Return an image as it is saved."""
        pool = self._large if image.width * image.height > _LARGE else self._small
        return pool.submit(_made, image, settings).result()

    def close(self) -> None:
        """Decode nothing more."""
        for pool in (self._small, self._large):
            pool.shutdown(wait=False, cancel_futures=True)


def picture(body: BytesIO, settings: DownloadSettings, decoders: Decoders) -> tuple[bytes, int, int]:
    """Return the picture to save, and the width and height of what came; raise :class:`Failed` where it is none."""
    from PIL import Image, UnidentifiedImageError

    data = body.getvalue()
    # Compressed data never hold this marker, so what is counted are the scans and the markers of a thumbnail.
    if data.startswith(b"\xff\xd8") and data.count(b"\xff\xda") > _MOST_SCANS:
        raise Failed("too_large", f"a JPEG of more than {_MOST_SCANS} scans")
    try:
        with Image.open(body, formats=_FORMATS) as image:
            width, height = image.size
            if width * height > settings.most_pixels:
                raise Failed("too_large", f"{width} x {height} pixels")
            return decoders.made(image, settings), width, height
    except UnidentifiedImageError:
        start = data[:40].decode("ascii", "replace")
        raise Failed("not_an_image", f"it begins with {start!r}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Failed("too_large", str(error)) from None
    except Failed:
        raise
    # Decoders fail in many ways on damaged files; whatever they raise, there is no image.
    except Exception as error:
        truncated = "truncated" in str(error).lower()
        raise Failed("truncated" if truncated else "damaged", f"{type(error).__name__}: {error}") from None


def _made(image: Image.Image, settings: DownloadSettings) -> bytes:
    """Return an image as it is saved: small, upright, on white, without metadata."""
    from PIL import Image, ImageOps

    deep = image.mode.startswith("I")  # 16 bits a pixel
    if deep:
        image = image.convert("I")
    elif image.has_transparency_data and image.mode not in ("RGBA", "LA"):
        image = image.convert("RGBA")
    elif image.mode not in ("RGB", "RGBA", "L", "LA", "CMYK", "YCbCr"):
        image = image.convert("RGB")
    # Large JPEGs are decoded at a fraction of their size.
    image.thumbnail((settings.size, settings.size), Image.Resampling.BICUBIC)
    image.load()
    image = ImageOps.exif_transpose(image)
    if deep:
        image = image.point(lambda v: v * (1 / 256)).convert("L")
    if image.mode in ("RGBA", "LA"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    plain = Image.new("RGB", image.size)
    plain.paste(image.convert("RGB"))
    whole = BytesIO()
    options = {} if settings.format == "png" else {"quality": settings.quality}
    plain.save(whole, SAVED[settings.format], **options)
    return whole.getvalue()
