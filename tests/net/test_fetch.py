"""What counts as a public address, and which headers ask not to use an image."""

import httpx
import pytest

from biaslab.captions.settings import OPT_OUT
from biaslab.net.fetch import is_public, opted_out


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("1.1.1.1", True),
        ("2606:4700:4700::1111", True),
        ("::ffff:1.1.1.1", True),
        ("64:ff9b::101:101", True),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("100.100.100.200", False),
        ("127.0.0.1", False),
        ("127.255.255.254", False),
        ("168.63.129.16", False),
        ("169.254.169.254", False),
        ("172.16.0.1", False),
        ("172.31.255.255", False),
        ("172.32.0.1", True),
        ("192.0.0.192", False),
        ("192.0.2.1", False),
        ("192.168.0.1", False),
        ("198.18.0.1", False),
        ("198.51.100.1", False),
        ("203.0.113.9", False),
        ("224.0.0.1", False),
        ("239.255.255.250", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("::127.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b:1::1", False),
        ("2001:db8::1", False),
        ("2001::1", False),
        ("2002:7f00:1::", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("fc00::1", False),
        ("fd00:ec2::254", False),
        ("fe80::1%eth0", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("localhost", False),
    ],
)
def test_only_public_addresses_are_public(address, public):
    assert is_public(address) == public


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        (["noai"], True),
        (["NoImageAI"], True),
        (["all", "max-snippet: 20, noindex"], True),
        (["nofollow"], False),
        (["googlebot: noindex, noai"], False),
        (["googlebot: nofollow", "noimageindex"], True),
        (["biaslab: noai"], True),
        (["*: noai"], True),
        (["unavailable_after: Friday, 25 Jun 2010 15:00:00 PST, noai"], True),
        (["noaisle"], False),
        ([], False),
    ],
)
def test_which_headers_ask_not_to_use_an_image(values, asked):
    headers = httpx.Headers([("X-Robots-Tag", v) for v in values])
    assert bool(opted_out(headers, OPT_OUT)) == asked
    assert not opted_out(headers, ())


def test_rights_that_are_reserved_are_honoured():
    assert opted_out(httpx.Headers({"TDM-Reservation": "1"}), OPT_OUT) == "TDM-Reservation: 1"
    assert not opted_out(httpx.Headers({"TDM-Reservation": "0"}), OPT_OUT)
    assert not opted_out(httpx.Headers({"TDM-Reservation": "1"}), ("noai",))
