"""The connections of probes and hooks, by the container runtime."""

import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from beehive.clock import RealClock
from edged.probes.targets import TcpTarget
from modules.processes.edgecore import rootless
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.names import OCI_ENDPOINT
from modules.processes.edgecore.rootless import probing_network
from tests.support.patience import PATIENCE


def test_pods_of_plain_processes_name_this_machine() -> None:
    """They are on its network: a probe of `localhost` worked only while the machine kept its address."""
    clock = RealClock()
    network = probing_network(EdgeCoreConfig.below(Path("/nowhere")), clock)
    assert network is not None
    with socket.create_server(("127.0.0.1", 0)) as listening:
        network.tcp_connect(TcpTarget("localhost", listening.getsockname()[1], is_guarded=True), PATIENCE)
    clock.close()


def test_isolated_pods_of_root_are_asked_from_the_machines_network(monkeypatch: pytest.MonkeyPatch) -> None:
    made, clock = EdgeCoreConfig.below(Path("/nowhere")), RealClock()
    kubelet = replace(made.modules.edged.tailored_kubelet_config, container_runtime_endpoint=OCI_ENDPOINT)
    edged = replace(made.modules.edged, tailored_kubelet_config=kubelet)
    monkeypatch.setattr(rootless, "is_rootless", lambda _: False)
    assert probing_network(replace(made, modules=replace(made.modules, edged=edged)), clock) is None
    clock.close()
