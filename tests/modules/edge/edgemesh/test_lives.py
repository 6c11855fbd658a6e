"""Laws of the node's Services over random lives: what it knows, which endpoints it uses, which UDP flows it ends."""

import ipaddress
import socket
import struct
from collections.abc import Mapping
from random import Random
from typing import Any, Final, cast

import pytest
from msgspec.structs import replace

from beehive.sockets.netlink import attribute
from modules.apimachinery.types import Pod
from modules.edge.edgemesh.backends import BackendPort, MeshBackend
from modules.edge.edgemesh.nft.addresses import HostAddresses
from modules.edge.edgemesh.nft.conntrack import UDP, Flow, changed_udp, flow_of, is_stale
from modules.edge.edgemesh.nft.kernel import KernelRules
from modules.edge.edgemesh.objects import Endpoints, EndpointSlice, Service, ServiceKey
from modules.edge.edgemesh.plane import NftPlane, PlaneError
from modules.edge.edgemesh.selection import EndpointSelector, Here, Prefer
from modules.edge.edgemesh.state import MeshState
from modules.edge.edgemesh.tables import Address, PortTable, port_tables, target_to
from tests.modules.edge.edgemesh.objects import NODE, endpoint, endpoints_of, pod, port_table, service, slice_of

_NAMES: Final = ("web", "db")
_SLICES: Final = ("web-x", "web.2-x", "db-x")


class Cloud:
    """What the cloud and edged say, at random."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.services: dict[ServiceKey, Service] = {}
        self.slices: dict[str, EndpointSlice] = {}
        self.endpoints: dict[ServiceKey, Endpoints] = {}
        self.pods: tuple[Pod, ...] = ()

    def tell(self, state: MeshState) -> set[ServiceKey]:
        """Change something, and return the Services that are said to have changed."""
        name = self.random.choice(_NAMES)
        key = ServiceKey("default", name)
        match self.random.randrange(9):
            case 0:
                self.services[key] = service(name, f"10.96.0.{1 + _NAMES.index(name)}",
                                             type=self.random.choice(("ClusterIP", "NodePort")))  # fmt: skip
                return state.put_service(self.services[key])
            case 1 if self.random.random() < 0.5:
                self.services.pop(key, None)
                return state.delete_service(key)
            case 2 | 3:
                return self._put_slice(state)
            case 4 if self.slices and self.random.random() < 0.5:
                gone = self.random.choice(sorted(self.slices))
                del self.slices[gone]
                return state.delete_slice("default", gone)
            case 5:
                self.endpoints[key] = endpoints_of(*self._addresses(), name=name)
                return state.put_endpoints(self.endpoints[key])
            case 6:
                return self._put_list(state)
            case 7:
                self.services = {key: each for key, each in self.services.items() if self.random.random() < 0.8}
                self.slices = {key: each for key, each in self.slices.items() if self.random.random() < 0.8}
                return state.replace(self.services.values(), self.slices.values(), self.endpoints.values())
        return self._set_pods(state)

    def _addresses(self) -> list[str]:
        return self.random.sample(("192.0.2.2", "192.0.2.3", "10.86.0.2"), self.random.randint(0, 2))

    def _put_slice(self, state: MeshState) -> set[ServiceKey]:
        name = self.random.choice(_SLICES)
        given = [endpoint(each, self.random.choice(("n2", NODE)), ready=self.random.random() < 0.7)
                 for each in self._addresses()]  # fmt: skip
        made = slice_of(*given, name=name.removesuffix("-x"))
        if self.random.random() < 0.3:  # it is another Service's now
            other = slice_of(*given, name=self.random.choice(_NAMES))
            made = replace(other, metadata=replace(other.metadata, name=name))
        self.slices[name] = made
        return state.put_slice(made)

    def _put_list(self, state: MeshState) -> set[ServiceKey]:
        is_whole = self.random.random() < 0.5
        chosen = {key: each for key, each in self.endpoints.items() if self.random.random() < 0.5}
        if is_whole:
            self.endpoints = chosen
        return state.put_endpoints_list(chosen.values(), is_whole=is_whole)

    def _set_pods(self, state: MeshState) -> set[ServiceKey]:
        found = []
        for name in self.random.sample(("p1", "p2", "p3"), self.random.randint(0, 3)):
            known = next((each for each in self.pods if each.metadata.name == name), None)
            if known is not None and self.random.random() < 0.5:
                found.append(known)
            else:
                address = self.random.choice(("10.86.0.2", "10.86.0.3", ""))
                found.append(pod(name, address, ready=self.random.random() < 0.6, deleted=self.random.random() < 0.2,
                                 labels={"app": self.random.choice(_NAMES)}))  # fmt: skip
        self.pods = tuple(found)
        return state.set_pods(self.pods)


def _tables(state: MeshState) -> dict[ServiceKey, list[PortTable]]:
    selector = EndpointSelector(Here(NODE))
    return {key: list(port_tables(each, state.backends(key), selector)) for key, each in state.services.items()}


@pytest.mark.parametrize("seed", range(8))
def test_a_node_knows_its_services_as_one_that_learns_all_at_once(seed: int) -> None:
    """Each change says whose tables it changes: no other is made again."""
    cloud = Cloud(Random(seed))  # noqa: S311 - reproducible
    state = MeshState(NODE)
    before = _tables(state)
    for _ in range(120):
        if not state.is_settled and cloud.random.random() < 0.02:
            state.is_settled, before = True, {}
        changed = cloud.tell(state)
        after = _tables(state)
        assert {
            key for key in before.keys() | after.keys() if before.get(key) != after.get(key)
        } <= changed or not before
        other = MeshState(NODE)
        other.is_settled = state.is_settled
        other.replace(cloud.services.values(), cloud.slices.values(), cloud.endpoints.values())
        other.set_pods(cloud.pods)
        assert _tables(other) == after
        own = [each for each in state.backends(ServiceKey("default", "web")) if each.pod in ("p1", "p2", "p3")]
        if not state.is_settled and not any(each.ready for each in own):
            given = [each for each in _cloud_only(cloud).backends(ServiceKey("default", "web")) if each.node == NODE]
            mine = {each.address for each in state.backends(ServiceKey("default", "web")) if each.node == NODE}
            assert {each.address for each in given} <= mine, "until edged knows its pods, the cloud's word counts"
        before = after


def _cloud_only(cloud: Cloud) -> MeshState:
    """Return the state of a node that has not heard of its pods."""
    state = MeshState(NODE)
    state.replace(cloud.services.values(), cloud.slices.values(), cloud.endpoints.values())
    return state


def test_an_update_of_a_known_object_counts_also_when_no_more_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.edge.edgemesh.state.MOST_SLICES", 1)
    state, key = MeshState(NODE), ServiceKey("default", "web")
    state.put_service(service())
    for address in ("192.0.2.2", "192.0.2.3"):
        assert state.put_slice(slice_of(endpoint(address))) == {key}
        assert state.put_slice(slice_of(endpoint("192.0.2.9"), name="web.2")) == set()
        assert state.put_endpoints(endpoints_of(address)) == {key}
        assert state.put_endpoints(endpoints_of(address, name="db")) == set()
        assert [each.address for each in state.backends(key)] == [address]


def _backend(random: Random, number: int) -> MeshBackend:
    ready = random.random() < 0.5
    zones = random.choice(((), ("z1",), ("z2",)))
    return MeshBackend(
        f"192.0.2.{number}", (BackendPort("", random.choice(("UDP", "TCP")), 8080),), random.choice((NODE, "n2", "n3")),
        ready=ready, serving=ready or random.random() < 0.5, terminating=not ready and random.random() < 0.5,
        zone=random.choice(("z1", "z2")), zones=zones, nodes=random.choice(((), (), (NODE,))) if zones else (),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_the_endpoints_in_use(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible
    for _ in range(300):
        backends = [_backend(random, number) for number in range(random.randint(0, 6))]
        here = Here(NODE, random.choice(("", "g")), "z1", {"n2": "g"}, prefer=random.choice((Prefer.NODE, Prefer.NONE)))
        distribution = random.choice(("", "PreferClose", "PreferSameNode"))
        seconds = random.choice((None, 0, 5, 10**6))
        given = service(
            trafficDistribution=distribution, ports=[{"port": 53, "protocol": "UDP", "targetPort": 8080}],
            sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": seconds}},
        )  # fmt: skip
        policy = random.choice(("", "Local"))
        selector = EndpointSelector(here)
        found = selector.select(given, policy, backends)
        used = set(found.backends)
        near = [each for each in backends if policy != "Local" or each.node == NODE]
        ready = {each for each in near if each.ready}
        assert used <= ready if ready else used == {each for each in near if each.serving and each.terminating}
        assert bool(used) or not ready
        if (here.prefer is Prefer.NODE or distribution == "PreferSameNode") and distribution != "PreferClose" and ready:
            own = {each for each in ready if each.node == NODE}
            assert used == own or not own
        if distribution == "PreferClose" and any(not (each.zones or each.nodes) for each in ready):
            without = [each._replace(zones=(), nodes=()) for each in backends]
            assert {each.address for each in selector.select(given, policy, without).backends} == {
                each.address for each in used
            }, "hints count only if all endpoints have them"
        shuffled = random.sample(backends, len(backends))
        assert set(selector.select(given, policy, shuffled).backends) == used
        (table,) = port_tables(given, backends, selector)
        serving = {each.address for each in backends if each.serving and each.ports[0].protocol == "UDP"}
        assert {address for address, _ in table.serving} == serving
        assert 1 <= table.affinity <= 86_400


@pytest.mark.parametrize(
    ("conditions", "serves"),
    [({}, True), ({"ready": False}, False), ({"ready": False, "serving": True}, True), ({"serving": False}, False)],
)
def test_an_endpoint_whose_serving_is_unknown_serves_if_it_is_ready(
    conditions: dict[str, Any], *, serves: bool
) -> None:
    state = MeshState(NODE)
    state.put_service(service())
    state.put_slice(slice_of(endpoint("192.0.2.2", conditions={"ready": None, **conditions})))
    assert [each.serving for each in state.backends(ServiceKey("default", "web"))] == [serves]


class Tracked:
    """A kernel that tracks UDP flows, and whose netlink may fail."""

    def __init__(self, random: Random) -> None:
        self.flows: list[Flow] = []
        self.fails = False
        self._random = random

    def delete(self, serving: Mapping[Address, frozenset[Address]]) -> int:
        """Delete what is stale; a failure may come half-way."""
        if self.fails:
            half = self._random.random() < 0.5
            self.flows = [each for each in self.flows if not (half and is_stale(each, serving))]
            raise OSError("no buffer space available")
        self.flows = [each for each in self.flows if not is_stale(each, serving)]
        return 0

    def send(self, tables: Mapping[str, PortTable]) -> None:
        """Let clients send to each Service, and to its node port."""
        for table in tables.values():
            for to in _of(table):
                if all(each.to != to for each in self.flows):
                    ends = table.inside.endpoints
                    self.flows.append(Flow(UDP, to, self._random.choice(ends) if ends else to, b"", 2))


@pytest.mark.parametrize("seed", range(6))
def test_no_flow_goes_to_an_endpoint_that_is_gone(seed: int) -> None:
    """Also after a failure to end them: the next change, or the repetition of this one, ends them."""
    random = Random(seed)  # noqa: S311 - reproducible
    kernel = Tracked(random)
    rules = cast("KernelRules", type("Rules", (), {"apply": lambda *_: None})())
    addresses = cast("HostAddresses", type("Own", (), {"of_node": lambda _: ["192.0.2.1"]})())
    plane = NftPlane(rules, addresses, (), kernel.delete)
    tables: dict[str, PortTable] = {}
    for number in range(80):
        if number % 3 or random.random() < 0.5:  # otherwise the same again
            for port in random.sample((53, 54), random.randint(1, 2)):
                key = f"default/web/{port}"
                tables.pop(key, None)
                if random.random() < 0.8:
                    ends = tuple((f"10.0.0.{each}", 53) for each in random.sample(range(3), random.randint(0, 2)))
                    made = port_table(*ends, protocol="udp", port=port)
                    tables[key] = made._replace(inside=target_to(ends), node_port=random.choice((0, 30_000 + port)),
                                                external=random.choice(((), ("198.51.100.1",))))  # fmt: skip
        present = {address: table.serving for table in tables.values() for address in _of(table)}
        good = [each for each in kernel.flows if each.answers in present.get(each.to, ())]
        kernel.fails = random.random() < 0.4
        try:
            plane.apply(tables, ())
        except PlaneError:
            kernel.send(tables)
            continue
        finally:
            assert set(good) <= set(kernel.flows), "a flow to an endpoint that serves goes on"
        for flow in kernel.flows:
            if flow.answers != flow.to or present.get(flow.to):  # otherwise it is refused
                assert flow.to in present and not is_stale(flow, present), "the client would wait for ever"
        kernel.send(tables)


def test_flows_of_an_earlier_process_are_ended_if_their_endpoint_is_gone() -> None:
    """While edgecore was stopped an endpoint went, or a client began to send before there were rules."""
    kernel = Tracked(Random(0))  # noqa: S311 - reproducible
    to = ("10.96.0.1", 53)
    of_tcp = Flow(6, to, ("10.0.0.1", 53), b"", 2)
    kernel.flows = [*(Flow(UDP, to, answers, b"", 2) for answers in (("10.0.0.1", 53), ("10.0.0.2", 53), to)), of_tcp]
    rules = cast("KernelRules", type("Rules", (), {"apply": lambda *_: None})())
    table = port_table(("10.0.0.2", 53), protocol="udp", port=53)
    NftPlane(rules, cast("HostAddresses", None), (), kernel.delete).apply({table.key: table}, ())
    assert kernel.flows == [Flow(UDP, to, ("10.0.0.2", 53), b"", 2), of_tcp]


def test_flows_that_have_been_ended_are_looked_for_no_more() -> None:
    """Each search reads all flows that the kernel tracks."""
    searches: list[Mapping[Address, frozenset[Address]]] = []
    rules = cast("KernelRules", type("Rules", (), {"apply": lambda *_: None})())

    def search(serving: Mapping[Address, frozenset[Address]]) -> int:
        searches.append(serving)
        return 0

    plane = NftPlane(rules, cast("HostAddresses", None), (), search)
    for table in (port_table(("10.0.0.2", 53), protocol="udp", port=53), port_table(("10.0.0.2", 80))) * 2:
        plane.apply({table.key: table}, ())
        plane.apply({table.key: table}, ())
    assert len(searches) <= 4, "the repetitions change nothing"


def test_a_node_port_is_on_the_addresses_of_its_ip_version() -> None:
    """The same port of the other version has other endpoints."""
    table = port_table(("10.0.0.2", 53), protocol="udp", port=53)._replace(node_port=30_053)
    found = changed_udp({}, {table.key: table}, ("192.0.2.1", "2001:db8::1"))
    assert found.keys() == {("10.96.0.1", 53), ("192.0.2.1", 30_053)}


def test_flows_to_an_address_that_goes_from_one_service_to_another_stay_with_its_endpoints() -> None:
    """The address is both gone and there: the endpoints of the new Service are no stale ones."""
    old = port_table(("10.0.0.2", 53), protocol="udp", port=53)
    new = old._replace(service="other", serving=frozenset({("10.0.0.3", 53)}))
    assert changed_udp({old.key: old}, {new.key: new}) == {("10.96.0.1", 53): new.serving}


def _of(table: PortTable) -> list[Address]:
    own = [("192.0.2.1", table.node_port)] if table.node_port else []
    return [*((each, table.port) for each in (*table.addresses, *table.external)), *own]


def _tuple(kind: int, source: str, destination: str, ports: bytes, protocol: bytes = bytes([UDP])) -> bytes:
    """A direction of a flow as ctnetlink writes it, from one address to another."""
    from_, to = (ipaddress.ip_address(each) for each in (source, destination))
    places = (1, 2) if from_.version == 4 else (3, 4)
    addresses = b"".join(attribute(place, each.packed) for place, each in zip(places, (from_, to), strict=True))
    numbers = attribute(1, protocol) + attribute(2, ports[:2]) + attribute(3, ports[2:])
    return attribute(kind, attribute(1, addresses, nested=True) + attribute(2, numbers, nested=True), nested=True)


@pytest.mark.parametrize(
    ("family", "client", "service_ip", "end"),
    [(socket.AF_INET, "10.86.0.7", "10.96.0.1", "10.86.0.2"), (socket.AF_INET6, "fd00::7", "fd00:96::1", "fd00::2")],
)
def test_a_tracked_flow_is_read_as_where_its_client_sends_and_who_answers(
    family: int, client: str, service_ip: str, end: str
) -> None:
    head, ports, back = bytes([family, 0, 0, 0]), struct.pack("!HH", 4000, 53), struct.pack("!HH", 5353, 4000)
    there, answer = _tuple(1, client, service_ip, ports), _tuple(2, end, client, back)
    flow = flow_of(head + there + answer)
    assert flow is not None
    assert (flow.protocol, flow.to, flow.answers, flow.family) == (UDP, (service_ip, 53), (end, 5353), family)
    assert attribute(1, flow.original, nested=True) == there, "what its deletion names"
    for malformed in (
        b"",
        head,
        bytes([1, 0, 0, 0]) + there + answer,
        head + there,
        head + answer,
        head + _tuple(1, client, service_ip, ports[:3]) + answer,
        head + _tuple(1, client, service_ip, ports, b"\x11\0") + answer,
        head + there + _tuple(2, end, client, back[:1]),
    ):
        assert flow_of(malformed) is None
