"""The host ports of pods without root: whose they are over a restart, and in which order they go."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beehive.clock import RealClock
from modules.runtimes.engine.records import PodAddresses
from modules.runtimes.oci.network.pod_network import PodNetwork
from modules.runtimes.oci.rootless.node_network import Forward
from modules.runtimes.oci.rootless.pod_network import RootlessPodNetwork
from protos.cri.v1 import api_pb2 as cri

EARLIER = Forward("tcp", "0.0.0.0", 8080, 8080)  # noqa: S104 - not listened on


class Node:
    """The node's network: what is forwarded, and the steps that change it."""

    def __init__(self, *present: Forward) -> None:
        self.namespace = Path("/none")
        self.present = {forward: number for number, forward in enumerate(present)}
        self.steps: list[str] = []

    def ensure(self) -> dict[Forward, int]:
        return dict(self.present)

    def add(self, forward: Forward) -> None:
        self.steps.append(f"add {forward.port}")
        self.present[forward] = max(self.present.values(), default=0) + 1

    def remove(self, number: int) -> None:
        (forward,) = (each for each, its in self.present.items() if its == number)
        self.steps.append(f"remove {forward.port}")
        del self.present[forward]

    def within(self, function: Callable[[], Any]) -> Any:
        return function()


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node on which an earlier edgecore has forwarded a port; root's part of the network notes what it is asked."""
    made = Node(EARLIER)
    for name in ("attach", "detach", "collect", "watch", "status"):

        def note(_self: PodNetwork, *_: object, name: str = name) -> PodAddresses:
            made.steps.append(name)
            return PodAddresses("10.0.0.2")

        monkeypatch.setattr(PodNetwork, name, note)
    return made


def network_on(node: Node, directory: Path) -> RootlessPodNetwork:
    return RootlessPodNetwork(node, RealClock(), ("10.0.0.0/24",), directory)  # type: ignore[arg-type]


def with_port(port: int) -> cri.PodSandboxConfig:
    return cri.PodSandboxConfig(port_mappings=[cri.PortMapping(host_port=port, container_port=80)])


def test_ports_of_pods_that_run_on_stay_until_all_are_known(node: Node, tmp_path: Path) -> None:
    """After a restart of edgecore: its first looks know none of the sandboxes yet."""
    network = network_on(node, tmp_path)
    network.status()
    network.collect(set())
    network.attach("new", tmp_path, tmp_path, with_port(9090))
    assert "remove 8080" not in node.steps
    network.watch({})
    assert node.steps.count("remove 8080") == 1
    assert [each.port for each in node.present] == [9090]


def test_a_port_is_another_s_after_the_pod_was_detached_only(node: Node, tmp_path: Path) -> None:
    """Else there are two rules for one port of the node's network."""
    network = network_on(node, tmp_path)
    network.watch({})
    network.attach("one", tmp_path, tmp_path, with_port(9090))
    node.steps.clear()

    def taken_meanwhile(*_: object) -> None:
        (other,) = network._reserve_ports("other", with_port(9090))
        node.steps.append(f"detached while 9090 is {other.inner} for another pod")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PodNetwork, "detach", taken_meanwhile)
        network.detach("one", tmp_path, tmp_path)
    assert node.steps[0] == "detached while 9090 is 65535 for another pod"
    assert [forward.inner for forward in network._forwards["other"]] == [65535]


def test_a_sandbox_that_cannot_be_attached_has_no_ports(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(PodNetwork, "attach", refuse)
    network = network_on(node, tmp_path)
    network.watch({})
    with pytest.raises(OSError, match="no room"):
        network.attach("one", tmp_path, tmp_path, with_port(9090))
    assert (network._forwards, node.present) == ({}, {})
