"""What counts as a public address, and which headers ask not to use an image."""

import socket

import httpcore
import httpx
import pytest

from biaslab.captions.settings import OPT_OUT
from biaslab.net.connection import Backend
from biaslab.net.fetch import is_public, opted_out

PUBLIC = """
93.184.215.14 1.1.1.1 2606:4700:4700::1111 ::ffff:1.1.1.1 64:ff9b::101:101 172.32.0.1
"""
PRIVATE = """
0.0.0.0 10.1.2.3 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16 169.254.169.254
172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.9
224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1
64:ff9b::a00:1 64:ff9b:1::1 2001:db8::1 2001::1 2002:7f00:1:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254
fe80::1%eth0 fec0::1 ff02::1 localhost
"""


def test_only_public_addresses_are_public():
    assert [address for address in PUBLIC.split() if not is_public(address)] == []
    assert [address for address in PRIVATE.split() if is_public(address)] == []


# Values of X-Robots-Tag, of which a bar parts several.
ASK = (
    *("noai", "NoImageAI", "all|max-snippet: 20, noindex", "googlebot: nofollow|noimageindex", "biaslab: noai"),
    *("*: noai", "unavailable_after: Friday, 25 Jun 2010 15:00:00 PST, noai"),
)
ASK_NOT = ("nofollow", "googlebot: noindex, noai", "noaisle", "")


@pytest.mark.parametrize("values", [*ASK, *ASK_NOT])
def test_which_headers_ask_not_to_use_an_image(values):
    headers = httpx.Headers([("X-Robots-Tag", value) for value in values.split("|")])
    assert bool(opted_out(headers, OPT_OUT)) == (values in ASK)
    assert not opted_out(headers, ())
    # So are rights that are reserved.
    reserved = [opted_out(httpx.Headers({"TDM-Reservation": value}), OPT_OUT) for value in "10"]
    assert reserved == ["TDM-Reservation: 1", ""]


def test_the_next_address_is_tried_where_one_takes_no_connection():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        # Nothing listens at the first address.
        backend = Backend(lambda host, port: ["127.0.0.2", "127.0.0.1"], lambda: 10)
        backend.connect_tcp("h.org", port).close()
        assert backend.connected
    with pytest.raises(httpcore.ConnectError):
        Backend(lambda host, port: ["127.0.0.2", "127.0.0.1"], lambda: 10).connect_tcp("h.org", port)
