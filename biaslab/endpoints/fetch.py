"""One GET request, with its redirects, to an untrusted server.

A host name is resolved once. All of its addresses must be public, and the connection goes to a checked address. Only
http and https are allowed, and of the ports below 1024 only 80 and 443. Each redirect is checked again. Proxies of the
environment are not used, because they connect to unchecked addresses. No cookie or password is sent.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

import httpx

from biaslab import __version__
from biaslab.endpoints.endpoint import RequestError, retry_after

_HEADERS = {
    "User-Agent": f"Mozilla/5.0 (compatible; biaslab/{__version__}; image audit)",
    "Accept": "image/webp,image/png,image/jpeg,image/gif;q=0.8,*/*;q=0.5",
    "Accept-Encoding": "identity",
}
_MAX_REDIRECTS = 5


@dataclass(frozen=True)
class Limits:
    """Limits of one request."""

    max_bytes: int = 10_000_000  # Of the body.
    read_timeout: float = 10.0  # Longest wait for a connection or for the next bytes, in seconds.
    timeout: float = 30.0  # Longest time with all redirects; name resolution alone may take longer.
    opt_out: tuple[str, ...] = ()  # Honoured headers: ``tdm-reservation``, directives of ``X-Robots-Tag``.


def get(url: str, limits: Limits, allowed_hosts: Collection[str] = ()) -> bytes:
    """Return the body at a URL or at the URL to which it redirects; call it in a thread without an event loop.

    ``allowed_hosts`` are permitted although they are not public, such as ``"127.0.0.1:8000"``. Raises RequestError:
    There is no body; ``outcome`` is the reason, and ``retry`` is whether another request may help.
    """
    try:
        return asyncio.run(asyncio.wait_for(_get(url, limits, allowed_hosts), limits.timeout))
    except (TimeoutError, httpx.TimeoutException) as error:
        raise RequestError(
            "timed_out",
            str(error) or f"longer than {limits.read_timeout:g} s without data, or {limits.timeout:g} s in total",
        ) from None
    except (httpx.InvalidURL, httpx.LocalProtocolError, ValueError) as error:
        raise RequestError("bad_url", str(error)) from None
    except httpx.TransportError as error:
        detail = str(error) or type(error).__name__
        if "SSL" in detail:
            raise RequestError("tls_failed", detail) from None
        raise RequestError("connection_failed", detail, retry=True) from None


async def _get(text: str, limits: Limits, allowed: Collection[str]) -> bytes:
    url = httpx.URL(text)
    async with httpx.AsyncClient(transport=_Guard(allowed), timeout=limits.read_timeout, trust_env=False) as client:
        for _ in range(_MAX_REDIRECTS + 1):
            if url.scheme not in ("http", "https") or not url.host:
                raise RequestError("refused_scheme", str(url)[:100])
            async with client.stream("GET", url) as response:
                if not response.has_redirect_location:
                    return await _read_body(response, limits)
                url = url.join(response.headers["location"])
    raise RequestError("too_many_redirects", f"more than {_MAX_REDIRECTS}")


async def _read_body(response: httpx.Response, limits: Limits) -> bytes:
    """Return the body of a response; a compressed body, which was not requested, raises RequestError."""
    status, headers = response.status_code, response.headers
    if status != 200:
        wait = retry_after(headers.get("retry-after", "")) if status in (429, 503) else None
        raise RequestError(status_of_code(status), f"status {status}", retry=status == 429 or status >= 500, wait=wait)
    if opt_out := opts_out(headers, limits.opt_out):
        raise RequestError("opted_out", opt_out)
    if (encoding := headers.get("content-encoding", "identity")) != "identity":
        raise RequestError("compressed", f"Content-Encoding {encoding[:50]}, which was not requested")
    if (content_length := int(headers.get("content-length", 0))) > limits.max_bytes:
        raise RequestError("too_many_bytes", f"{content_length} bytes declared")
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > limits.max_bytes:
            raise RequestError("too_many_bytes", f"more than {limits.max_bytes} bytes")
    if not body:
        raise RequestError("empty")
    return bytes(body)


_OUTCOMES = dict.fromkeys((401, 402, 403, 451), "forbidden") | {404: "not_found", 410: "gone", 429: "rate_limited"}


def status_of_code(status: int) -> str:
    """Return the outcome for an HTTP status other than 200, such as ``not_found``."""
    return _OUTCOMES.get(status, "server_error" if status >= 500 else "http_error")


@cache
def tls() -> ssl.SSLContext:
    """Return certifi's certificates; certificates named by the environment are not used."""
    return httpx.create_ssl_context(trust_env=False)


class _Guard(httpx.AsyncHTTPTransport):
    """Sends requests to checked addresses, with only the headers of :data:`_HEADERS`."""

    def __init__(self, allowed: Collection[str]) -> None:
        # A kept-alive connection would serve another name at the same address, whose certificate was not checked.
        super().__init__(verify=tls(), trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
        self._allowed = allowed

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url, headers = request.url, {"Host": request.headers["host"], **_HEADERS}
        host, port = url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80)
        extensions = {**request.extensions, "sni_hostname": host}
        last_error: Exception = httpx.ConnectError(f"{host} has no address")
        for address in self._resolve_host(host, port):
            checked_request = httpx.Request("GET", url.copy_with(host=address), headers=headers, extensions=extensions)
            try:
                return await super().handle_async_request(checked_request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                last_error = error
        raise last_error

    def _resolve_host(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host; raise RequestError unless each is public or allowed."""
        if port > 65535:
            raise RequestError("bad_url", f"port {port}")
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise RequestError("no_address", str(error), retry=error.errno == socket.EAI_AGAIN) from None
        addresses = list(dict.fromkeys(entry[4][0] for entry in entries))
        for address in addresses:
            if (f"[{address}]:{port}" if ":" in address else f"{address}:{port}") in self._allowed:
                continue
            if not is_public(address):
                raise RequestError("refused_address", f"{address} is not a public address")
            if port < 1024 and port not in (80, 443):
                raise RequestError("refused_port", f"port {port}")
        return addresses


# Networks that the standard library may count as public: protocol assignments, an IPv6 relay, a cloud's internal
# server, documentation, IPv6 addresses that contain an IPv4 address, and addresses outside of 2000::/3.
_NOT_PUBLIC = (
    *("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16"),
    *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "::/3", "4000::/2", "8000::/1"),
)


def is_public(address: str) -> bool:
    """Return whether an IP address is public; an address of a translator from IPv4 to IPv6 (NAT64) is not."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    is_listed = any(ip in ipaddress.ip_network(network) for network in _NOT_PUBLIC)
    return ip.is_global and not (is_listed or ip.is_multicast or ip.is_reserved)


# A name before a colon is a robot's, unless it is a directive with a value.
_OTHER_ROBOT = re.compile(r"\s*(?!(?:biaslab|unavailable_after|max-[a-z-]+)\s*:)[a-z0-9_-]+\s*:")


def opts_out(headers: httpx.Headers, honoured: Collection[str]) -> str:
    """Return the header, if any, that forbids all robots or biaslab to use an image; ``honoured`` as in Limits."""
    for value in map(str.lower, headers.get_list("x-robots-tag")):
        directives = set(re.split(r"\s*[,:]\s*", value.strip())).intersection(honoured)
        if directives and not _OTHER_ROBOT.match(value):
            return f"X-Robots-Tag: {min(directives)}"
    is_reserved = "1" in headers.get_list("tdm-reservation", split_commas=True)
    return "TDM-Reservation: 1" if is_reserved and "tdm-reservation" in honoured else ""
