"""Ports of the node: their owners, and that no reader waits."""

import pytest

from modules.apimachinery.pods.general_predicates import host_ports, used_port
from modules.apimachinery.types import Pod
from modules.apimachinery.types.codec import from_value
from tests.edged.admission.rooms import taken_by
from tests.edged.conftest import pod


def with_ports(*ports: tuple[str, str, int]) -> Pod:
    wanted = [
        {"containerPort": 1, "hostPort": number, "protocol": protocol, "hostIP": address}
        for address, protocol, number in ports
    ]
    return from_value(Pod, pod(containers=[{"name": "c", "image": "x", "ports": wanted}]))


@pytest.mark.parametrize(
    ("one", "other", "collide"),
    [
        (("", "TCP", 80), ("", "TCP", 80), True),
        (("", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("::", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("fd00::1", "TCP", 80), ("fd00:0:0::1", "TCP", 80), True),
        (("", "TCP", 80), ("", "UDP", 80), False),
        (("", "TCP", 80), ("", "TCP", 81), False),
    ],
)
def test_two_pods_want_one_port(one: tuple[str, str, int], other: tuple[str, str, int], collide: bool) -> None:
    """At one address, however it is spelt, or at all of them, of one protocol."""
    assert (used_port(host_ports(with_ports(one)), taken_by(with_ports(other)).ports) is not None) is collide
    assert (used_port(host_ports(with_ports(other)), taken_by(with_ports(one)).ports) is not None) is collide


def test_many_ports_are_compared_at_once() -> None:
    """Each with each of all others took minutes for pods of a megabyte, on the thread that all pods share."""
    odd = with_ports(*(("10.0.0.1", "TCP", number) for number in range(1, 60_000, 2)))
    even = with_ports(*(("10.0.0.1", "TCP", number) for number in range(2, 60_000, 2)))
    assert used_port(host_ports(odd), taken_by(even).ports) is None
