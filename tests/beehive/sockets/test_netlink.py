"""Netlink: what the kernel says about the network."""

from beehive.sockets.netlink import attribute, attributes


def test_the_last_attribute_may_have_no_content() -> None:
    assert attributes(attribute(3, b"eth0\0") + attribute(26, b"")) == {3: b"eth0\0", 26: b""}
