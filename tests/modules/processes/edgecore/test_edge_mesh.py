"""edgemesh in edgecore: what pods get for it, and what an uninstalled node has left of it."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from beehive import Hive, Threads
from beehive.exposition import CollectorRegistry
from edged.server.snapshots import Snapshots
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.nft.program import Nft
from modules.edge.edgemesh.plane import PlaneError
from modules.processes.edgecore import edge_mesh
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.edge_mesh import FOREIGN_INTERFACE, DataPlaneKind, EdgeMeshOptions
from modules.processes.edgecore.edge_mesh import SnapshotPods, hosts_of
from modules.processes.edgecore.settings import edged_settings
from modules.processes.edgecore.uninstall.commands import remove_service_rules
from tests.modules.edge.edgemesh.machine import needs_nft, own_machine
from tests.modules.edge.edgemesh.objects import pod

T = TypeVar("T")


def config(mesh: EdgeMeshOptions, *cluster_dns: str) -> EdgeCoreConfig:
    """A configuration with edgemesh."""
    made = EdgeCoreConfig.below(Path("/nowhere"))
    kubelet = replace(made.modules.edged.tailored_kubelet_config, cluster_dns=cluster_dns)
    edged = replace(made.modules.edged, tailored_kubelet_config=kubelet)
    return replace(made, modules=replace(made.modules, edge_mesh=mesh, edged=edged))


@pytest.mark.parametrize(
    ("mesh", "given", "expected"),
    [
        (EdgeMeshOptions(enable=True), (), ("169.254.20.10",)),
        (EdgeMeshOptions(enable=True), ("10.96.0.10",), ("10.96.0.10",)),
        (EdgeMeshOptions(enable=True, dns=False), (), ()),
        (EdgeMeshOptions(), (), ()),
    ],
)
def test_pods_ask_the_nodes_name_server(
    mesh: EdgeMeshOptions, given: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    """Whether or not it runs already: pods that start before it keep the address (case 35)."""
    assert edged_settings(config(mesh, *given)).cluster_dns == expected


@pytest.mark.parametrize(
    ("server", "url", "hosts"),
    [
        ("192.0.2.9:10000", "https://192.0.2.9:10002", ("192.0.2.9",)),
        ("[2001:db8::9]:10000", "https://cloud.example:10002", ("2001:db8::9", "cloud.example")),
    ],
)
def test_the_hosts_of_the_cloud_are_known(server: str, url: str, hosts: tuple[str, ...]) -> None:
    hub = config(EdgeMeshOptions()).modules.edge_hub
    assert hosts_of(replace(hub, http_server=url, websocket=replace(hub.websocket, server=server))) == hosts


@pytest.mark.parametrize("is_on", [True, False])
def test_a_node_tells_whether_it_answers_for_services(*, is_on: bool) -> None:
    assert edged_settings(config(EdgeMeshOptions(enable=is_on, dns=False))).has_service_proxy is is_on


def test_changes_of_pods_reach_edgemesh_and_who_listened_before() -> None:
    heard: list[str] = []
    snapshots = Snapshots()
    snapshots.subscribe(lambda: heard.append("before"))
    pods = SnapshotPods(snapshots)
    pods.listen(lambda: heard.append("a former module"))
    pods.listen(lambda: heard.append("mesh"))
    snapshots.pods = (pod(),)
    assert heard == ["before", "mesh"]
    assert pods.pods() == (pod(),)


def test_beside_kubeedges_agent_it_stays_off_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Case 24: both would translate the same connections."""
    (tmp_path / FOREIGN_INTERFACE).mkdir()
    monkeypatch.setattr(edge_mesh, "_INTERFACES", tmp_path)
    hive = Hive(Threads())
    made = edge_mesh.add_edge_mesh(hive, config(EdgeMeshOptions(enable=True)), CollectorRegistry(), Snapshots())
    assert made is None
    assert "edgemesh stays off" in caplog.text


@pytest.mark.parametrize(
    ("data_plane", "kinds", "warns"),
    [
        (DataPlaneKind.AUTO, ["nft"], False), (DataPlaneKind.NFT, ["nft"], False),
        (DataPlaneKind.USERSPACE, ["nft"], True), (DataPlaneKind.NONE, [], False),
    ],
)  # fmt: skip
def test_services_of_an_ordinary_users_pods_are_in_their_network(
    data_plane: DataPlaneKind,
    kinds: list[str],
    warns: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No pod reaches a proxy on the machine, and nothing of the machine's is changed."""
    entered: list[object] = []

    def within(function: Callable[[], T]) -> T:
        entered.append(function)
        raise OSError("there is no such network")

    monkeypatch.setattr(edge_mesh, "network_of_pods", lambda _: within)
    planes = edge_mesh.planes(Hive(Threads()), config(EdgeMeshOptions(enable=True, data_plane=data_plane)))
    assert [each.kind for each in planes] == kinds
    for plane in planes:
        with pytest.raises(PlaneError, match="there is no such network"):
            plane.prepare()
    assert len(entered) == len(kinds)
    assert ("taken as nft" in caplog.text) is warns


@needs_nft
@pytest.mark.extended
def test_the_name_server_of_an_ordinary_users_pods_listens_in_their_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the address that pods are given, on port 53; the machine has neither."""
    with own_machine() as machine:
        monkeypatch.setattr(edge_mesh, "network_of_pods", lambda _: machine.do)
        opened = edge_mesh.name_sockets(config(EdgeMeshOptions(enable=True)))
        for channel in opened():
            with channel:
                assert channel.getsockname() == ("169.254.20.10", 53)
        assert "169.254.20.10" in machine.sh("ip address")
    with pytest.raises(OSError, match="assign"), socket.socket() as probe:
        probe.bind(("169.254.20.10", 0))


@needs_nft
@pytest.mark.extended
def test_an_uninstalled_node_has_no_rules_route_or_address_left() -> None:
    said: list[str] = []
    with own_machine() as machine:
        nft, addresses = Nft(machine.prefix), HostAddresses(machine.prefix)
        plane = machine.plane()
        plane.prepare()
        plane.apply({}, ["10.86.0.2"])
        addresses.add_address("169.254.20.10")
        for _ in range(2):
            remove_service_rules(config(EdgeMeshOptions(enable=True)), said.append, nft, addresses)
            assert nft.names("ip") == []
            assert "10.96" not in machine.sh("ip route")
            assert "169.254.20.10" not in machine.sh("ip address")
    assert said == []
