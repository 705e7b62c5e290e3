"""Public addresses, and opt-out headers of images."""

import socket

import httpx
import pytest
from loopback import Server

from biaslab.captions.settings import OPT_OUT
from biaslab.endpoints.fetch import Limits, RequestError, get, is_public, opts_out

PUBLIC = """
93.184.215.14 1.1.1.1 2606:4700:4700::1111 172.32.0.1
"""
PRIVATE = """
0.0.0.0 10.1.2.3 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16 169.254.169.254
172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.9
224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1
64:ff9b::a00:1 64:ff9b::101:101 64:ff9b:1::1 ::ffff:1.1.1.1 2001:db8::1 2001::1 2002:7f00:1:: 3fff::1 5f00::1 fc00::1
fd00:ec2::254 fe80::1%eth0 fec0::1 ff02::1
"""


def test_is_public_accepts_only_public_addresses():
    assert [address for address in PUBLIC.split() if not is_public(address)] == []
    assert [address for address in PRIVATE.split() if is_public(address)] == []


# Values of X-Robots-Tag, of which a bar parts several.
ASK = (
    *("noai", "NoImageAI", "all|max-snippet: 20, noindex", "googlebot: nofollow|noimageindex", "biaslab: noai"),
    *("*: noai", "unavailable_after: Friday, 25 Jun 2010 15:00:00 PST, noai"),
)
ASK_NOT = ("nofollow", "googlebot: noindex, noai", "noaisle", "")


@pytest.mark.parametrize("values", [*ASK, *ASK_NOT])
def test_opts_out_reads_robots_and_tdm_headers(values):
    headers = httpx.Headers([("X-Robots-Tag", value) for value in values.split("|")])
    assert bool(opts_out(headers, OPT_OUT)) == (values in ASK)
    assert not opts_out(headers, ())
    # So are rights that are reserved.
    reserved = [opts_out(httpx.Headers({"TDM-Reservation": value}), OPT_OUT) for value in "10"]
    assert reserved == ["TDM-Reservation: 1", ""]


def test_get_tries_next_address(monkeypatch):
    with Server(lambda *_: (200, {}, b"red")).running() as server:
        port = server.http.server_port
        # Nothing listens at the first address.
        result = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in ("127.0.0.2", "127.0.0.1")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: result)
        allow = [f"127.0.0.{n}:{port}" for n in (1, 2)]
        assert get(f"http://h.org:{port}/", Limits(), allow) == b"red"
        # All of a host's addresses must be allowed.
        with pytest.raises(RequestError, match=r"127\.0\.0\.2 is not a public address"):
            get(f"http://h.org:{port}/", Limits(), allow[:1])
    with pytest.raises(RequestError, match="onnect") as error:
        get(f"http://h.org:{port}/", Limits(), allow)
    assert error.value.outcome == "connection_failed" and error.value.retry
