"""One request to a server that nobody trusts.

The address that is checked is the one that is connected to: a name is resolved once. Only public addresses are taken,
only http and https, and of the ports below 1024 only 80 and 443. Each redirect is checked anew. Proxies of the
environment are not used: they would connect to addresses that nobody checked. No cookie is kept, no password is sent.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
import time
from collections.abc import Collection
from dataclasses import dataclass
from io import BytesIO

import httpcore
import httpx

from biaslab import __version__
from biaslab.net import connection
from biaslab.net.endpoint import Failed, retry_after

_ACCEPT = b"image/webp,image/png,image/jpeg,image/gif;q=0.8,*/*;q=0.5"
_REDIRECTS = (301, 302, 303, 307, 308)
_LONGEST_URL = 8192
_MOST_REDIRECTS = 5
_USER_AGENT = f"Mozilla/5.0 (compatible; biaslab/{__version__}; image audit)".encode("ascii")


@dataclass(frozen=True)
class Limits:
    """What is taken from a server, and how long it is waited for."""

    most_bytes: int = 10_000_000
    # Longest wait for a name, a connection or the next bytes, and time of one try with its redirects, in seconds.
    silence: float = 10.0
    seconds: float = 30.0
    opt_out: tuple[str, ...] = ()  # Headers that ask not to use an image and are honoured, see :func:`opted_out`.


@dataclass
class Visit:
    """Where a URL leads, and what is known of it so far."""

    at: httpx.URL  # Where to go next: the URL, or what it redirects to.
    redirects: int = 0
    status: int | None = None  # Of the last response.
    n_bytes: int | None = None  # Of the body, as far as it was read.
    reached: bool = False  # Whether a connection was ever made.

    @property
    def host(self) -> str:
        """Name of the host to ask next."""
        return self.at.raw_host.decode("ascii")


class Fetcher:
    """Makes requests within limits, to public addresses and those in ``allow``, such as ``127.0.0.1:8000``."""

    def __init__(self, limits: Limits, allow: Collection[str] = ()) -> None:
        self._limits, self._allow = limits, frozenset(allow)
        self._tls = connection.tls(trust_env=False)

    def get(self, url: str) -> bytes:
        """Return the body at a URL, wherever it redirects to; raise :class:`Failed` where there is none to be had."""
        visit, deadline = Visit(parsed(url)), time.monotonic() + self._limits.seconds
        while (found := self.request(visit, deadline)) is None:
            pass
        return found

    def request(self, visit: Visit, deadline: float) -> bytes | None:
        """Make one request until ``deadline`` (:func:`time.monotonic`) and note in ``visit`` what happens.

        Returns the body, or None where it redirects. Raises :class:`Failed` where there is none to be had.
        """
        url, silence = visit.at, self._limits.silence
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = self._addresses(visit.host, port, min(silence, deadline - time.monotonic()))

        def left() -> float:
            if (seconds := deadline - time.monotonic()) <= 0:
                raise httpcore.ReadTimeout("the time for one try is up")
            return min(seconds, silence)

        backend = connection.Backend(lambda *_: addresses, left)
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=port, target=url.raw_path)
        headers = [
            (b"Host", url.netloc),
            (b"User-Agent", _USER_AGENT),
            (b"Accept", _ACCEPT),
            (b"Accept-Encoding", b"identity"),
            (b"Connection", b"close"),
        ]
        asking = httpcore.HTTPConnection(target.origin, ssl_context=self._tls, network_backend=backend)
        try:
            response = asking.handle_request(httpcore.Request("GET", target, headers=headers))
            visit.status = response.status
            return self._answer(visit, response)
        except httpcore.TimeoutException as error:
            raise Failed("timed_out", str(error) or type(error).__name__) from None
        except (httpcore.NetworkError, httpcore.RemoteProtocolError) as error:
            said = str(error) or type(error).__name__
            if isinstance(error, httpcore.ConnectError) and isinstance(error.__cause__, ssl.SSLError):
                raise Failed("tls_failed", said) from None
            raise Failed("connection_failed", said, retry=True) from None
        except httpcore.LocalProtocolError as error:
            raise Failed("bad_url", str(error)) from None
        finally:
            visit.reached |= backend.connected
            asking.close()

    def _addresses(self, host: str, port: int, seconds: float) -> list[str]:
        """Return the addresses of a host, all of them public."""
        found = connection.resolve(host, port, seconds)
        for address in found:
            if (f"[{address}]:{port}" if ":" in address else f"{address}:{port}") in self._allow:
                continue
            if not is_public(address):
                raise Failed("refused_address", f"{address} is no public address")
            if port < 1024 and port not in (80, 443):
                raise Failed("refused_port", f"port {port}")
        return found

    def _answer(self, visit: Visit, response: httpcore.Response) -> bytes | None:
        headers, limits = httpx.Headers(response.headers), self._limits
        if response.status in _REDIRECTS and "location" in headers:
            if visit.redirects >= _MOST_REDIRECTS:
                raise Failed("too_many_redirects", f"more than {_MOST_REDIRECTS}")
            visit.at = parsed(headers.get_list("location")[0], visit.at)
            visit.redirects += 1
            return None
        if response.status != 200:
            raise _of_status(response.status, headers)
        asked = opted_out(headers, limits.opt_out)
        if asked:
            raise Failed("opted_out", asked)
        found, visit.n_bytes = BytesIO(), 0
        # We ask for plain bytes; some servers send packed ones all the same.
        for piece in connection.read(response.iter_stream(), headers, limits.most_bytes):
            visit.n_bytes += found.write(piece)
        if not visit.n_bytes:
            raise Failed("empty")
        return found.getvalue()


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


# Addresses that look public and are not, beside those that the library knows.
_NOT_PUBLIC = [
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # an old relay of IPv6
        "168.63.129.16",  # an internal server of a cloud
        "2001::/23",  # protocol assignments
        "2001:db8::/32",  # documentation
        "2002::/16",  # IPv4 in another coat
        "3fff::/20",  # documentation
    )
]


def is_public(address: str) -> bool:
    """Return whether an IP address is public; IPv4 ones in IPv6 (mapped, or behind NAT64's prefix) count themselves."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if ip.version == 6:
        if ip.ipv4_mapped:
            ip = ip.ipv4_mapped
        elif ip in ipaddress.ip_network("64:ff9b::/96"):
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        elif ip not in ipaddress.ip_network("2000::/3"):
            return False
    listed = any(ip in network for network in _NOT_PUBLIC)
    return ip.is_global and not (listed or ip.is_multicast or ip.is_reserved)


_STATUSES = dict.fromkeys((401, 402, 403, 451), "forbidden")
_STATUSES |= {404: "not_found", 410: "gone", 429: "rate_limited"}


def _of_status(status: int, headers: httpx.Headers) -> Failed:
    """Return what a status other than 200 means."""
    detail, wait = f"status {status}", None
    if status in (429, 503):
        wait = retry_after(headers.get("retry-after", ""))
        detail += "" if wait is None else f", to be asked again after {wait:.0f} s"
    outcome = _STATUSES.get(status, "server_error" if status >= 500 else "http_error")
    return Failed(outcome, detail, retry=outcome in ("rate_limited", "server_error"), wait=wait)


# Directives of X-Robots-Tag that have a value; any other name before a colon is that of a robot.
_ROBOT = re.compile(r"\*|[a-z0-9_-]+")
_VALUED = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


def opted_out(headers: httpx.Headers, honoured: Collection[str]) -> str:
    """Return the header that asks not to use an image, or an empty text.

    ``honoured`` are ``tdm-reservation`` and directives of ``X-Robots-Tag`` such as ``noai``, for all robots or for us.
    """
    for value in headers.get_list("x-robots-tag"):
        robot = ""
        for part in value.lower().split(","):
            name, colon, rest = part.partition(":")
            if colon and _ROBOT.fullmatch(name.strip()) and name.strip() not in _VALUED:
                robot, part = name.strip(), rest
            if robot in ("", "*", "biaslab") and part.strip() in honoured:
                return f"X-Robots-Tag: {part.strip()}"
    reserved = "1" in headers.get_list("tdm-reservation", split_commas=True)
    return "TDM-Reservation: 1" if reserved and "tdm-reservation" in honoured else ""
