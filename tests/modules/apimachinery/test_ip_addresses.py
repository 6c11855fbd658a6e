"""Addresses and networks, where Python and Kubernetes differ."""

import pytest

from modules.apimachinery.ip_addresses import read_address, read_network


@pytest.mark.parametrize(("text", "version"), [("10.9.8.7", 4), ("2001:DB8::1", 6), ("::ffff:10.9.8.7", 6)])
def test_addresses_are_read(text: str, version: int) -> None:
    assert read_address(text).version == version


@pytest.mark.parametrize("text", ["", "10.9.8", "fe80::1%eth0", "fe80::1%a\nnameserver 10.9.8.7", "010.9.8.7"])
def test_an_address_has_no_zone_and_no_leading_zeros(text: str) -> None:
    """A zone can be any text, which would stand in a file of addresses."""
    with pytest.raises(ValueError, match=r".+"):
        read_address(text)


def test_a_network_has_an_address_within_it_and_a_length() -> None:
    assert str(read_network("10.1.2.3/8")) == "10.0.0.0/8"
    assert str(read_network("2001:db8::1/32")) == "2001:db8::/32"


@pytest.mark.parametrize(
    "text",
    ["10.1.2.3", "10.0.0.0/", "10.0.0.0/255.0.0.0", "10.0.0.0/0.0.0.255", "10.0.0.0/33", "fe80::1%eth0/64", "/8"],
)
def test_a_network_has_no_mask_and_no_zone(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_network(text)
