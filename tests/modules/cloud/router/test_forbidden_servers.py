"""The servers that no Rule calls."""

import pytest

from modules.cloud.router.deliveries import refusal_of_server


@pytest.mark.parametrize(
    ("address", "port", "word"),
    [
        ("169.254.169.254", 80, "link-local"),
        ("::ffff:169.254.169.254", 80, "link-local"),
        ("fe80::1%eth0", 443, "link-local"),
        ("fd00:ec2::254", 80, "link-local"),
        ("100.100.100.200", 80, "metadata"),
        ("127.0.0.1", 8080, "cloudcore's own"),
        ("127.9.9.9", 8080, "cloudcore's own"),
        ("::1", 8080, "cloudcore's own"),
        ("::ffff:127.0.0.1", 8080, "cloudcore's own"),
        ("0.0.0.0", 8080, "cloudcore's own"),  # noqa: S104 - connects to this machine
        ("127.0.0.1", 8081, ""),
        ("10.0.0.7", 8080, ""),
        ("fd00:ec2::25", 80, ""),
        ("2001:db8::1", 8080, ""),
    ],
)
def test_metadata_services_and_cloudcore_are_refused(address: str, port: int, word: str) -> None:
    why = refusal_of_server(address, port, {8080, 10000})
    assert word in why
    assert bool(word) == bool(why)
