"""Which addresses a machine asks for nobody else."""

import pytest

from beehive.sockets.near_addresses import is_beside, is_near, is_own, plain_address


@pytest.mark.parametrize(
    ("text", "own", "beside"),
    [
        ("127.0.0.1", True, False),
        ("127.255.255.254", True, False),
        ("0.0.0.0", True, False),  # noqa: S104 - not listened on
        ("::1", True, False),
        ("::", True, False),
        ("::ffff:127.0.0.1", True, False),
        ("169.254.169.254", False, True),
        ("::ffff:169.254.169.254", False, True),
        ("fe80::1%eth0", False, True),
        ("fd00:ec2::254", False, True),
        ("fd00:ec2::254%eth0", False, True),
        ("100.100.100.200", False, True),
        ("192.0.2.1", False, False),
        ("10.0.0.1", False, False),
        ("2001:db8::1", False, False),
    ],
)
def test_near_addresses(text: str, *, own: bool, beside: bool) -> None:
    found = plain_address(text)
    assert (is_own(found), is_beside(found), is_near(text)) == (own, beside, own or beside)


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "host.example"])
def test_a_name_is_no_address(text: str) -> None:
    assert not is_near(text)
