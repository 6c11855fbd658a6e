"""Adds edgemesh to the hive, with what carries connections on this machine."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from socket import socket
from typing import Final
from urllib.parse import urlsplit

from beehive import Hive
from beehive.exposition import CollectorRegistry
from edged.server.snapshots import Snapshots
from modules.apimachinery.types import Pod
from modules.edge.edgemesh.counters import MeshCounters, mesh_metrics
from modules.edge.edgemesh.dns.host import Clients, HostServers, open_sockets
from modules.edge.edgemesh.dns.resolving import DnsNames
from modules.edge.edgemesh.dns.server import NameServer
from modules.edge.edgemesh.dns.upstream import UpstreamResolver
from modules.edge.edgemesh.dns.zone import Zone
from modules.edge.edgemesh.links import ServiceLinks
from modules.edge.edgemesh.module import EdgeMesh, MeshSettings
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.nft.kernel import KernelRules
from modules.edge.edgemesh.nft.program import Nft
from modules.edge.edgemesh.plane import DataPlane, NamespacedPlane, NftPlane
from modules.edge.edgemesh.proxy.plane import ProxyPlane
from modules.edge.edgemesh.selection import Prefer
from modules.edge.metaserver.watch_agent import ClientWatches, WatchAgent
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.edge_mesh import FOREIGN_INTERFACE, DataPlaneKind
from modules.processes.edgecore.config.edgehub import EdgeHub
from modules.processes.edgecore.rootless import network_of_pods

_log = logging.getLogger(__name__)

POD_CIDRS: Final = ("10.86.0.0/16",)
"""Addresses of pods where none are configured."""

_INTERFACES: Final = Path("/sys/class/net")


def add_edge_mesh(
    hive: Hive, config: EdgeCoreConfig, registry: CollectorRegistry, snapshots: Snapshots
) -> Callable[[str, bool], Mapping[str, str]] | None:
    """Add the module, and the module that makes the cloud watch Services where the metaserver does not bring it.

    It stays off beside KubeEdge's edgemesh-agent, which would translate the same connections. Return what gives
    containers the variables of Services (`Host.service_links`); None where it stays off.
    """
    if (_INTERFACES / FOREIGN_INTERFACE).exists():
        _log.warning("edgemesh stays off: KubeEdge's edgemesh-agent runs here (interface %s)", FOREIGN_INTERFACE)
        return None
    mesh = config.modules.edge_mesh
    edged = config.modules.edged
    settings = MeshSettings(
        node=config.node_name,
        prefer=Prefer(mesh.prefer.value),
        own_ranges=edged.tailored_kubelet_config.pod_cidr or POD_CIDRS,
        routed=mesh.routed_pod_cidrs,
        cloud=hosts_of(config.modules.edge_hub),
    )
    counters = MeshCounters()
    pods = SnapshotPods(snapshots) if edged.enable else None
    if not config.modules.meta_manager.meta_server.enable:
        hive.add(WatchAgent, config.node_name, ClientWatches())
    names = partial(_name_server, hive, config, counters) if mesh.dns else None
    links = ServiceLinks()
    hive.add(EdgeMesh, settings, pods, planes(hive, config), counters, names, links)
    registry.register(partial(mesh_metrics, counters))
    return links.variables


def hosts_of(hub: EdgeHub) -> tuple[str, ...]:
    """Return the hosts of the cloud."""
    urls = (f"//{hub.websocket.server}", hub.http_server)
    return tuple(dict.fromkeys(urlsplit(url).hostname or "" for url in urls))


def _name_server(hive: Hive, config: EdgeCoreConfig, counters: MeshCounters) -> NameServer:
    mesh, kubelet = config.modules.edge_mesh, config.modules.edged.tailored_kubelet_config
    servers = HostServers(kubelet.resolv_conf, mesh.upstream, mesh.stub_domains, mesh.dns_address)
    zone = Zone(kubelet.cluster_domain or "cluster.local", hive.clock.random)
    names = DnsNames(zone, UpstreamResolver(servers, hive.clock, counters, serve_stale=mesh.serve_stale))
    ranges = (*(kubelet.pod_cidr or POD_CIDRS), *mesh.routed_pod_cidrs, mesh.dns_address, "127.0.0.0/8", "::1")
    clients = Clients(ranges, names)
    return NameServer(names, name_sockets(config), clients, hive.clock, counters)


def name_sockets(config: EdgeCoreConfig) -> Callable[[], tuple[socket, socket]]:
    """Return what opens the name server's sockets, in the network of the pods; it raises OSError."""
    opened = partial(open_sockets, config.modules.edge_mesh.dns_address, HostAddresses())
    network = network_of_pods(config)
    return opened if network is None else partial(network, opened)


class SnapshotPods:
    """The pods in edged's snapshots (`PodSource`).

    Args:
        snapshots: of edged.
    """

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._changed: Callable[[], None] = lambda: None
        snapshots.subscribe(self._notify)

    def pods(self) -> tuple[Pod, ...]:
        """See `PodSource`."""
        return self._snapshots.pods

    @property
    def are_complete(self) -> bool:
        """See `PodSource`."""
        return self._snapshots.pods_are_complete

    def listen(self, changed: Callable[[], None]) -> None:
        """See `PodSource`; the function of a restarted module takes the place of the former one."""
        self._changed = changed

    def _notify(self) -> None:
        self._changed()


def planes(hive: Hive, config: EdgeCoreConfig) -> list[DataPlane]:
    """Return what may carry connections to Services, the best first."""
    mesh = config.modules.edge_mesh
    network = network_of_pods(config)
    if network is not None:
        if mesh.data_plane is DataPlaneKind.USERSPACE:
            _log.warning("without root no pod reaches a proxy: modules.edgeMesh.dataPlane is taken as nft")
        is_on = mesh.data_plane is not DataPlaneKind.NONE
        return [NamespacedPlane(_nft_plane(config), network)] if is_on else []
    found: list[DataPlane] = []
    if mesh.data_plane in (DataPlaneKind.AUTO, DataPlaneKind.NFT):
        found.append(_nft_plane(config))
    if mesh.data_plane in (DataPlaneKind.AUTO, DataPlaneKind.USERSPACE):
        found.append(ProxyPlane(hive.clock, HostAddresses(), mesh.service_cidrs))
    return found


def _nft_plane(config: EdgeCoreConfig) -> NftPlane:
    return NftPlane(KernelRules(Nft()), HostAddresses(), config.modules.edge_mesh.service_cidrs)
