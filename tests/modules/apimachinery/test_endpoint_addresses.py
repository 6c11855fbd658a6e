"""The addresses of pods that Services use."""

import pytest

from modules.apimachinery.endpoint_addresses import endpoint_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.1.0.2", "10.1.0.2"),
        ("FD00::0:1", "fd00::1"),
        ("127.0.0.1", ""),
        ("::1", ""),
        ("::ffff:127.0.0.1", ""),
        ("::ffff:10.1.0.2", ""),
        ("fe80::1%eth0", ""),
        ("fd00::1%eth0", ""),
        ("169.254.169.254", ""),
        ("224.0.0.1", ""),
        ("::", ""),
        ("010.1.0.2", ""),
        ("x", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_an_address_that_no_pod_can_have_does_not_count(text: object, expected: str) -> None:
    """By an IPv4 address in the form of IPv6, a proxy would connect to the loopback interface of its node."""
    assert endpoint_address(text) == expected
