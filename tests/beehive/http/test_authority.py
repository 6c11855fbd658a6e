"""The authority of a URL."""

import pytest

from beehive.http.authority import server_of


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("127.0.0.1:10000", ("127.0.0.1", 10000)),
        ("tcp://broker.local:1883", ("broker.local", 1883)),
        ("[fd00::1]:1883", ("fd00::1", 1883)),
        ("tls://[::1]:8883", ("::1", 8883)),
    ],
)
def test_a_server_is_read_with_and_without_a_scheme(text: str, server: tuple[str, int]) -> None:
    """Whoever connects needs an IPv6 address without its brackets."""
    assert server_of(text) == server
