"""The module edgemesh: Services of the node's pods."""

import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, TypeVar

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import encode as encode_json
from msgspec.structs import replace

from beehive import Group, Message, Module, ModuleName, Operation, ResourceType, handles
from beehive.bounded_calls import BoundedCalls
from beehive.decoding import decode_json
from beehive.errors import ContentError
from beehive.names import CLOUD_CONNECTED
from metamanager.client import AsyncMetaClient, CallError
from modules.apimachinery.application import FOLLOW, FOLLOW_RESOURCE, FOLLOWED, Target
from modules.apimachinery.endpoint_addresses import endpoint_address
from modules.apimachinery.types import DecodeError, Node, Pod, decode
from modules.edge.edgemesh.applier import Applier
from modules.edge.edgemesh.backends import MeshBackend, selects
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.dns.explaining import Resolution
from modules.edge.edgemesh.dns.wire import WireError
from modules.edge.edgemesh.links import ServiceLinks
from modules.edge.edgemesh.objects import NODE_GROUP_LABEL, ZONE_LABEL, Endpoints, EndpointSlice, Service, ServiceKey
from modules.edge.edgemesh.owner import (
    RESOLVE,
    SERVICES,
    NameAnswer,
    ResolveRequest,
    ServicesAnswer,
    ServicesRequest,
    ShownService,
    shown,
)
from modules.edge.edgemesh.plane import DataPlane
from modules.edge.edgemesh.selection import EndpointSelector, Here, Prefer
from modules.edge.edgemesh.state import MeshState, own_addresses
from modules.edge.edgemesh.tables import PortTable, as_reached, is_moved, port_tables, without_taken

_log = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN_SECONDS: Final = 5.0
FIND_SECONDS: Final = 60.0
"""Until the names of the cloud are looked up again."""
MOST_RESOLVING: Final = 8
"""Names that the node's owner may wait for at a time."""
MOST_LISTED: Final = 20_000
"""Objects of a list that are read."""

FOLLOWED_COLLECTIONS: Final = (
    Target("", "v1", "services"),
    Target("discovery.k8s.io", "v1", "endpointslices"),
    Target("", "v1", "endpoints"),
)
"""The collections that the cloud sends from the module's first start on."""


class MeshSettings(Struct, frozen=True):
    """Settings of edgemesh."""

    node: str
    prefer: Prefer = Prefer.NODE
    own_ranges: tuple[str, ...] = ()
    """Ranges of the addresses of this node's pods."""
    routed: tuple[str, ...] = ()
    """Ranges of pods' addresses that reach other nodes."""
    cloud: tuple[str, ...] = ()
    """Hosts of the cloud: names and addresses."""


class PodSource(Protocol):
    """The node's pods."""

    def pods(self) -> tuple[Pod, ...]:
        """Return them with the statuses that edged last computed. Any thread."""

    @property
    def are_complete(self) -> bool:
        """Whether edged knows all of them. Any thread."""

    def listen(self, changed: Callable[[], None]) -> None:
        """Call a function, which does not block, after each change."""


class Names(Protocol):
    """The name server, as the module sees it. The module's thread calls it."""

    def start(self) -> None:
        """Begin to answer."""

    def stop(self) -> None:
        """End."""

    def known(self) -> None:
        """Note that the cloud has sent its Services: a name without one does not exist."""

    def put(
        self, key: ServiceKey, service: Service | None, addresses: Sequence[str], backends: Sequence[MeshBackend]
    ) -> None:
        """Take a Service with its addresses and the endpoints that this node reaches, or None for a deleted one."""

    def pods_changed(self, pods: tuple[Pod, ...]) -> None:
        """Take the node's pods."""

    def explain(self, name: str, namespace: str, type_: str) -> Resolution:
        """Ask for a name as a pod does. Blocks; any thread. Raises WireError for a text that is no name."""


class EdgeMesh(Module):
    """The module that keeps the tables of Services, from metamanager's store, the cloud's messages and edged's pods.

    Args:
        settings: of edgemesh.
        pods: the node's; None where edged does not run.
        planes: what may carry connections, the best first.
        counters: of the module.
        names: makes the name server; None without one.
        links: gets the Services that containers have variables of; None if nobody asks for them.
    """

    name = ModuleName.EDGEMESH
    group = Group.MESH

    def __init__(
        self,
        settings: MeshSettings,
        pods: PodSource | None,
        planes: Iterable[DataPlane],
        counters: MeshCounters,
        names: Callable[[], Names] | None = None,
        links: ServiceLinks | None = None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._pods = pods
        self._counters = counters
        self._names = names() if names is not None else None
        self._meta = AsyncMetaClient(self)
        self._state = MeshState(settings.node)
        self._machines: set[str] = set()
        """Addresses of nodes."""
        self._cloud = frozenset(filter(None, map(endpoint_address, settings.cloud)))
        """Addresses of the cloud, as its names led to them last."""
        self._here = Here(
            settings.node, own_ranges=settings.own_ranges, routed=settings.routed, prefer=settings.prefer,
            machines=self._cloud,
        )  # fmt: skip
        self._selector = EndpointSelector(self._here)
        self._tables: dict[ServiceKey, tuple[PortTable, ...]] = {}
        self._changed: set[ServiceKey] = set()
        self._is_read = self._is_computing = self._has_news_of_pods = False
        self._reads = 0
        """Reads of the store that are under way."""
        self._meanwhile: dict[str, Message] = {}
        """The newest message of each object since they began: what is read may be older."""
        self._problem = ""
        self._links = links
        self._is_decided = False
        self._applier = Applier(self, planes, counters, self._report)
        self._resolving = BoundedCalls(self, 1, MOST_RESOLVING)
        self._finding = BoundedCalls(self, 1, 1)

    def on_start(self) -> None:
        """Read the store, and have the cloud send its Services."""
        self._applier.start()
        if self._names is not None:
            self._names.start()
        self._read_store()
        self._follow()
        self._find_cloud()
        if self._pods is not None:
            self._pods.listen(self._observe_pods)
            self._update_pods()

    def on_end(self) -> None:
        """End; rules of the kernel stay, and a restarted module goes on."""
        self._applier.stop()
        if self._names is not None:
            self._names.stop()

    @handles(ResourceType.SERVICE)
    def handle_service(self, message: Message) -> None:
        """Take a Service, or its deletion."""
        self._remember(message)
        if message.route.operation == Operation.DELETE:
            self._enqueue(self._state.delete_service(_key(message)))
        elif (service := self._decoded(Service, message)) is not None:
            self._enqueue(self._state.put_service(service))

    @handles(ResourceType.ENDPOINTSLICE)
    def handle_slice(self, message: Message) -> None:
        """Take an EndpointSlice, or its deletion."""
        self._remember(message)
        if message.route.operation == Operation.DELETE:
            key = _key(message)
            self._enqueue(self._state.delete_slice(key.namespace, key.name))
        elif (slice_ := self._decoded(EndpointSlice, message)) is not None:
            self._enqueue(self._state.put_slice(slice_))

    @handles(ResourceType.ENDPOINTS)
    def handle_endpoints(self, message: Message) -> None:
        """Take Endpoints, or their deletion."""
        self._remember(message)
        if message.route.operation == Operation.DELETE:
            self._enqueue(self._state.delete_endpoints(_key(message)))
        elif (endpoints := self._decoded(Endpoints, message)) is not None:
            self._enqueue(self._state.put_endpoints(endpoints))

    @handles(ResourceType.SERVICELIST)
    def handle_service_list(self, message: Message) -> None:
        """Take all Services, as a cloud of 2019 sends them."""
        self._remember(message)
        services, is_whole = self._items(message, Service)
        self._enqueue(self._state.put_service_list(services, is_whole=is_whole))

    @handles(ResourceType.ENDPOINTSLIST)
    def handle_endpoints_list(self, message: Message) -> None:
        """Take all Endpoints, as a cloud of 2019 sends them."""
        self._remember(message)
        endpoints, is_whole = self._items(message, Endpoints)
        self._enqueue(self._state.put_endpoints_list(endpoints, is_whole=is_whole))

    @handles(ResourceType.PODLIST)
    def handle_pod_list(self, message: Message) -> None:
        """Take the pods behind a Service, as a cloud of 2019 sends them."""
        self._remember(message)
        pods, is_whole = self._items(message, Pod)
        if is_whole:
            self._enqueue(self._state.put_pod_list(_key(message), tuple(pods)))

    @handles(ResourceType.NODE)
    def handle_node(self, message: Message) -> None:
        """Take the labels of a node."""
        self._remember(message)
        if message.route.operation != Operation.DELETE and (node := self._decoded(Node, message)) is not None:
            self._update_nodes([node])

    @handles(ResourceType.CONNECTION, Operation.CONNECT)
    def connection_changed(self, message: Message) -> None:
        """Read the store again after each connection, should a message have been lost."""
        if message.content_bytes() == CLOUD_CONNECTED.encode():
            self._read_store()

    @handles(None, FOLLOWED)
    def collection_is_followed(self, message: Message) -> None:
        """Note that the cloud has begun to send a collection."""
        if message.content_as(Target).plural == "services":
            self._state.is_known = True
            self._enqueue(())

    @handles(None, SERVICES)
    def show_services(self, message: Message) -> None:
        """Answer which Services there are, for the node's owner."""
        wanted = message.content_as(ServicesRequest)
        keys = sorted(
            key
            for key in self._state.services
            if wanted.namespace in ("", key.namespace) and wanted.name in ("", key.name)
        )
        services = tuple(self._shown(key) for key in keys)
        self.reply(message, ServicesAnswer(self._applier.kind, self._problem, self._state.is_known, services))

    @handles(None, RESOLVE)
    def resolve(self, message: Message) -> None:
        """Answer what a pod gets for a name, for the node's owner."""
        wanted, names = message.content_as(ResolveRequest), self._names
        if names is None:
            self.reply(message, NameAnswer("this node answers no names: modules.edgeMesh.dns is false"))
            return
        work = partial(_explained, names, wanted)
        if not self._resolving.submit(work, lambda answer: self.reply(message, answer)):
            self.reply(message, NameAnswer("too many names are asked for at once"))

    @handles()
    def ignore(self, message: Message) -> None:
        """Ignore other messages of the group."""
        _log.debug("not for edgemesh: %s %s", message.route.operation, message.route.resource[:200])

    def _follow(self) -> None:
        for target in FOLLOWED_COLLECTIONS:
            self.send(ModuleName.METASERVER, self.message(FOLLOW_RESOURCE, FOLLOW, target))

    def _remember(self, message: Message) -> None:
        if self._reads:
            self._meanwhile.pop(message.route.resource, None)
            self._meanwhile[message.route.resource] = message

    def _end_read(self) -> list[Message]:
        """Note that a read of the store has ended, and return what has come since it began."""
        self._reads -= 1
        found = list(self._meanwhile.values())
        if not self._reads:
            self._meanwhile.clear()
        return found

    def _read_store(self) -> None:
        self._reads += 1
        found: dict[str, list[bytes]] = {}
        failed: list[str] = []
        kinds = (
            ResourceType.SERVICE, ResourceType.ENDPOINTSLICE, ResourceType.ENDPOINTS, ResourceType.NODE,
            ResourceType.SERVICELIST, ResourceType.ENDPOINTSLIST, ResourceType.PODLIST,
        )  # fmt: skip

        def read(kind: str, result: list[bytes] | CallError) -> None:
            if isinstance(result, CallError):
                _log.error("%s are not read from the store, and are asked for again: %s", kind, result)
                if not failed:  # once, however many of the kinds cannot be read
                    self._end_read()
                    self.after(AGAIN_SECONDS, self._read_store)
                failed.append(kind)
                return
            found[kind] = result
            if len(found) == len(kinds):
                self._load(found)

        for kind in kinds:
            self._meta.list_all(kind, then=partial(read, kind))

    def _load(self, found: dict[str, list[bytes]]) -> None:
        self._is_read = True
        self._update_nodes(self._decoded_all(Node, found[ResourceType.NODE]))
        listed = [*_listed(found[ResourceType.SERVICELIST]), *found[ResourceType.SERVICE]]
        of_names = [*_listed(found[ResourceType.ENDPOINTSLIST]), *found[ResourceType.ENDPOINTS]]
        changed = self._state.replace(
            self._decoded_all(Service, listed),
            self._decoded_all(EndpointSlice, found[ResourceType.ENDPOINTSLICE]),
            self._decoded_all(Endpoints, of_names),
        )
        listed_pods = tuple(self._decoded_all(Pod, _listed(found[ResourceType.PODLIST])))
        for key, service in self._state.services.items() if listed_pods else ():
            if pods := tuple(pod for pod in listed_pods if selects(service, pod)):
                changed |= self._state.put_pod_list(key, pods)
        self._enqueue(changed)
        for message in self._end_read():
            _TAKEN[message.subject.type](self, message)

    def _update_nodes(self, nodes: Iterable[Node]) -> None:
        groups, zone = dict(self._here.groups), self._here.zone
        for node in nodes:
            labels = node.metadata.labels
            self._machines.update(filter(None, (endpoint_address(each.address) for each in node.status.addresses)))
            groups[node.metadata.name] = labels.get(NODE_GROUP_LABEL, "")
            if node.metadata.name == self._settings.node:
                zone = labels.get(ZONE_LABEL, "")
        group = groups.get(self._here.node, "")
        self._move(replace(self._here, group=group, zone=zone, groups=groups))

    def _find_cloud(self) -> None:
        """Look the names of the cloud up, beside the module, once a minute: no Service takes their addresses."""
        if names := [host for host in self._settings.cloud if host and not endpoint_address(host)]:
            self._finding.submit(partial(addresses_of_names, names), self._set_cloud)

    def _set_cloud(self, found: frozenset[str]) -> None:
        if found:
            self._cloud = found | frozenset(filter(None, map(endpoint_address, self._settings.cloud)))
            self._move(self._here)
        self.after(FIND_SECONDS, self._find_cloud)

    def _move(self, here: Here) -> None:
        """Compute all tables again if something has changed about this node, other nodes or the cloud."""
        here = replace(here, machines=self._cloud | self._machines)
        if here != self._here:
            self._here, self._selector, self._state.zone = here, EndpointSelector(here), here.zone
            self._enqueue(self._state.services)

    def _observe_pods(self) -> None:
        """Note a change, on edged's thread; many changes are one."""
        if not self._has_news_of_pods:
            self._has_news_of_pods = True
            self.call_soon(self._update_pods)

    def _update_pods(self) -> None:
        self._has_news_of_pods = False
        if self._pods is None:
            return
        before, is_settled = own_addresses(self._state.pods), self._pods.are_complete
        changed = self._state.set_pods(self._pods.pods())
        if self._names is not None:
            self._names.pods_changed(self._state.pods)
        if changed or own_addresses(self._state.pods) != before:
            self._enqueue(changed)
        if is_settled != self._state.is_settled:
            self._state.is_settled = is_settled
            self._enqueue(self._state.services)

    def _enqueue(self, changed: Iterable[ServiceKey]) -> None:
        """Compute the tables of Services soon: a burst of messages is computed once."""
        self._changed.update(changed)
        self._counters.services = len(self._state.services)
        if self._is_read and not self._is_computing:
            self._is_computing = True
            self.after(0.0, self._compute)

    def _compute(self) -> None:
        self._is_computing = False
        changed, self._changed = self._changed, set()
        for key in changed:
            service = self._state.services.get(key)
            backends = self._state.backends(key)
            if service is None:
                self._tables.pop(key, None)
                if self._names is not None:
                    self._names.put(key, None, (), ())
                continue
            self._tables[key] = tuple(port_tables(service, backends, self._selector))
            if self._names is not None:
                near = [each for each in backends if self._selector.excluded(service, each) is None]
                self._names.put(key, *as_reached(service, self._tables[key], self._applier.reach), near)
        if self._names is not None and self._state.is_known:
            self._names.known()
        self._open_links()
        tables = without_taken(port for ports in self._tables.values() for port in ports)
        self._applier.apply(tables, own_addresses(self._state.pods))

    def _shown(self, key: ServiceKey) -> ShownService:
        service, tables = self._state.services[key], self._tables.get(key, ())
        backends = self._state.backends(key)
        return shown(key, service, backends, self._selector, tables, self._applier.kind, self._applier.reach)

    def _report(self, reason: str) -> None:
        """Say in the node's readiness why Services are not carried."""
        self._problem = reason
        if not self._is_decided:
            self._is_decided = True
            reach = self._applier.reach  # names stand for the addresses of a proxy without root
            self._enqueue(
                key for key, tables in self._tables.items() if any(is_moved(each, reach(each)) for each in tables)
            )
        self._open_links()
        if reason:
            self.announce_not_ready(reason)
        else:
            self.announce_ready()

    def _open_links(self) -> None:
        """Let containers have variables: Services are read, and it is known where programs of the node reach them."""
        if self._links is not None and self._is_read and self._is_decided:
            self._links.open(self._state.services, self._tables, self._applier.reach)

    def _decoded(self, kind: type[T], message: Message) -> T | None:
        try:
            return decode(kind, message.content_bytes())
        except (DecodeError, ContentError) as error:
            self._counters.unread += 1
            _log.warning("%s cannot be read: %s", message.route.resource[:200], error)
            return None

    def _decoded_all(self, kind: type[T], texts: Iterable[bytes]) -> Iterator[T]:
        for text in texts:
            try:
                yield decode(kind, text)
            except DecodeError as error:
                self._counters.unread += 1
                _log.warning("a stored %s cannot be read: %s", kind.__name__, error)

    def _items(self, message: Message, kind: type[T]) -> tuple[list[T], bool]:
        """Return the objects of a list, which a cloud of 2019 encodes without the List object around it, and whether
        all of them could be read.
        """
        try:
            texts = decode_json(message.content_bytes(), list[Raw] | None) or []
        except (ContentError, MsgspecError, UnicodeError) as error:
            self._counters.unread += 1
            _log.warning("%s cannot be read: %s", message.route.resource[:200], error)
            return [], False
        found = list(self._decoded_all(kind, (bytes(text) for text in texts[:MOST_LISTED])))
        return found, len(found) == len(texts)


def addresses_of_names(names: Iterable[str]) -> frozenset[str]:
    """Return the addresses of some hosts, as far as they are known. Blocks."""
    found: set[str] = set()
    for name in names:
        with suppress(OSError, UnicodeError):  # there is no such name now, or it is none
            found.update(str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM))
    return frozenset(filter(None, map(endpoint_address, found)))


def _explained(names: Names, wanted: ResolveRequest) -> NameAnswer:
    try:
        return NameAnswer(body=encode_json(names.explain(wanted.name, wanted.namespace, wanted.type)))
    except WireError as error:
        return NameAnswer(f"this is no name: {error}")


def _listed(rows: Iterable[bytes]) -> list[bytes]:
    """Return the objects of the lists that a cloud of 2019 has sent; the rows of single objects are newer."""
    found: list[bytes] = []
    for row in rows:
        try:
            found.extend(bytes(text) for text in decode_json(row, list[Raw])[:MOST_LISTED])
        except (MsgspecError, UnicodeError) as error:
            _log.warning("a stored list cannot be read: %s", error)
    return found


def _key(message: Message) -> ServiceKey:
    resource = message.subject
    return ServiceKey(resource.namespace, resource.name)


_TAKEN: Final[dict[str, Callable[[EdgeMesh, Message], None]]] = {
    ResourceType.SERVICE: EdgeMesh.handle_service,
    ResourceType.ENDPOINTSLICE: EdgeMesh.handle_slice,
    ResourceType.ENDPOINTS: EdgeMesh.handle_endpoints,
    ResourceType.SERVICELIST: EdgeMesh.handle_service_list,
    ResourceType.ENDPOINTSLIST: EdgeMesh.handle_endpoints_list,
    ResourceType.PODLIST: EdgeMesh.handle_pod_list,
    ResourceType.NODE: EdgeMesh.handle_node,
}
"""What takes a message over that came while the store was read."""
