"""edgemesh alone on the bus, with a data plane that keeps what it is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from msgspec import structs

from beehive import Message, ModuleName, State
from beehive.decoding import decode_json
from beehive.exposition import CollectorRegistry
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED, CONNECTION_RESOURCE
from beehive.testing import Harness
from modules.apimachinery.application import FOLLOW_RESOURCE, FOLLOWED, Target
from modules.apimachinery.types import Node, Pod, decode, encode
from modules.edge.edgemesh import module, owner
from modules.edge.edgemesh.counters import MeshCounters, mesh_metrics
from modules.edge.edgemesh.dns.explaining import Resolution
from modules.edge.edgemesh.dns.wire import WireError
from modules.edge.edgemesh.links import ServiceLinks
from modules.edge.edgemesh.module import AGAIN_SECONDS, FIND_SECONDS, EdgeMesh, MeshSettings, addresses_of_names
from modules.edge.edgemesh.objects import ServiceKey
from modules.edge.edgemesh.owner import (
    RESOLVE,
    RESOURCE,
    SERVICES,
    NameAnswer,
    ResolveRequest,
    ServicesAnswer,
    ServicesRequest,
)
from modules.edge.edgemesh.plane import DataPlane
from modules.edge.edgemesh.selection import EndpointSelector, Here
from modules.edge.edgemesh.tables import port_tables
from tests.modules.edge.edgemesh.doubles import Plane
from tests.modules.edge.edgemesh.objects import NODE, endpoint, endpoints_of, pod, service, slice_of

KEY = ServiceKey("default", "web")


class Pods:
    """A `PodSource`."""

    def __init__(self, *pods: Pod) -> None:
        self.now = pods
        self.changed: Callable[[], None] = lambda: None
        self.are_complete = True

    def pods(self) -> tuple[Pod, ...]:
        """The pods."""
        return self.now

    def listen(self, changed: Callable[[], None]) -> None:
        """Keep the function."""
        self.changed = changed

    def set(self, *pods: Pod) -> None:
        """Change the pods."""
        self.now = pods
        self.changed()


class Mesh:
    """The module, its doubles, and what a cloud sends."""

    def __init__(self, bee: Harness, stored: dict[str, list[Any]] | None = None) -> None:
        self.bee = bee
        self.plane, self.pods, self.counters = Plane(), Pods(), MeshCounters()
        self.plane.now = bee.clock.monotonic
        self.stored = stored or {}
        bee.answer(ModuleName.METAMANAGER, self.answer)

    def start(
        self,
        planes: list[DataPlane] | None = None,
        names: _Known | None = None,
        links: ServiceLinks | None = None,
        **settings: Any,
    ) -> Mesh:
        """Start the module, with settings beside the range of its own pods."""
        given = MeshSettings(NODE, **{"own_ranges": ("10.86.0.0/16",), **settings})
        used = [self.plane] if planes is None else planes
        self.bee.start(EdgeMesh, given, self.pods, used, self.counters, names and (lambda: names), links)
        self.bee.run_for(1)
        return self

    def tell(
        self, kind: str, operation: str, content: Any = None, name: str = "web", namespace: str = "default"
    ) -> None:
        """Send a message of the cloud, as metamanager forwards it."""
        body = None if content is None else content if isinstance(content, bytes) else encode(content)
        source = {"source": "dynamiccontroller"}
        self.bee.send(ModuleName.EDGEMESH, self.bee.message(f"{namespace}/{kind}/{name}", operation, body, **source))
        self.bee.run_for(1)

    @property
    def last(self) -> dict[str, list[str]]:
        """The addresses by Service, as the data plane has them."""
        return self.plane.tables[-1]

    def answer(self, request: Message) -> Message | None:
        """Answer as metamanager."""
        kind = request.route.resource.split("/")[1]
        values = [encode(each).decode() for each in self.stored.get(kind, [])]
        return request.reply(self.bee.clock, values, source="metamanager")


def test_services_come_from_the_store_and_from_the_cloud(bee: Harness) -> None:
    mesh = Mesh(bee, {"service": [service()], "endpointslice": [slice_of(endpoint("192.0.2.2"))]}).start()
    assert mesh.last == {"web": ["192.0.2.2"], "pods": []}
    followed = [msgspec.json.decode(each.content_bytes())["plural"] for each in bee.sent_to(ModuleName.METASERVER)]
    assert followed == ["services", "endpointslices", "endpoints"]
    mesh.tell("endpointslice", "update", slice_of(endpoint("192.0.2.3")), "web-x")
    assert mesh.last["web"] == ["192.0.2.3"]
    mesh.tell("service", "insert", service("db", "10.96.0.2"), "db")
    mesh.tell("endpoints", "insert", endpoints_of("192.0.2.9", name="db"), "db")
    assert mesh.last["db"] == ["192.0.2.9"]
    mesh.tell("endpointslice", "delete", None, "web-x")
    mesh.tell("endpoints", "delete", None, "db")
    assert mesh.last == {"web": [], "db": [], "pods": []}
    mesh.tell("service", "delete", None, "db")
    assert mesh.last == {"web": [], "pods": []}


def test_own_pods_count_in_one_change(bee: Harness) -> None:
    """Case 9, without the probe: once edged knows, the next change of the data plane has it immediately."""
    mesh = Mesh(bee, {"service": [service()]})
    mesh.pods.now = (pod(),)
    mesh.start()
    assert mesh.last == {"web": ["10.86.0.2"], "pods": ["10.86.0.2"]}
    before, now = len(mesh.plane.tables), bee.clock.monotonic()
    mesh.pods.set(pod(ready=False))
    mesh.pods.set(pod(ready=False), pod("b", "10.86.0.3"))
    bee.run_for(1)
    assert mesh.plane.tables[before:] == [{"web": ["10.86.0.3"], "pods": ["10.86.0.2", "10.86.0.3"]}]
    assert mesh.plane.times[-1] - now < 0.05


def test_until_edged_knows_its_pods_the_clouds_endpoints_on_this_node_count(bee: Harness) -> None:
    """Case 10: and not for a moment longer; also when edged starts again."""
    ends = (endpoint("10.86.0.77", NODE), endpoint("192.0.2.2"))
    mesh = Mesh(bee, {"service": [service()], "endpointslice": [slice_of(*ends)]})
    mesh.pods.are_complete = False
    mesh.start()
    bee.run_for(3600)
    assert mesh.last["web"] == ["10.86.0.77"]
    for complete, used in ((True, "192.0.2.2"), (False, "10.86.0.77"), (True, "192.0.2.2")):
        mesh.pods.are_complete = complete
        mesh.pods.set()
        bee.run_for(0.2)
        assert mesh.last["web"] == [used]


def test_many_changes_are_gathered(bee: Harness) -> None:
    mesh = Mesh(bee).start()
    before = len(mesh.plane.tables)
    for number in range(200):
        given = service(f"s{number}", f"10.96.1.{number}")
        message = bee.message(f"default/service/s{number}", "insert", encode(given), source="dynamiccontroller")
        bee.hive.send(ModuleName.EDGEMESH, message)
    bee.run_for(1)
    assert len(mesh.last) == 201
    assert len(mesh.plane.tables) - before <= 2


@pytest.mark.parametrize(("planes", "host"), [(1, "127.96.0.1"), (0, "10.96.0.1")])
def test_containers_have_variables_of_services_once_it_is_known_where_they_are(
    bee: Harness, planes: int, host: str
) -> None:
    mesh, links = Mesh(bee, {"service": [service()]}), ServiceLinks()
    mesh.start([mesh.plane] * planes, links=links)
    assert links.variables("default")["WEB_SERVICE_HOST"] == host
    mesh.tell("service", "delete", None)
    assert links.variables("default") == {}


def test_messages_of_a_cloud_of_2019_are_taken(bee: Harness) -> None:
    """Lists of all Services and Endpoints, and the pods behind each Service."""
    mesh = Mesh(bee).start()
    lists = {"namespace": "namespace"}
    mesh.tell("servicelist", "update", encode([service(), service("db", "10.96.0.2")]), "service", **lists)
    mesh.tell("endpointslist", "update", encode([endpoints_of("192.0.2.9", name="db")]), "endpoints", **lists)
    ports = [{"containerPort": 8080, "hostPort": 18080}]
    mesh.tell("podlist", "update", encode([pod(node="n2", ports=ports, status={"hostIP": "192.0.2.2"})]))
    assert mesh.last == {"web": ["192.0.2.2"], "db": ["192.0.2.9"], "pods": []}
    mesh.tell("servicelist", "update", encode([service()]), "service", **lists)
    assert mesh.last == {"web": ["192.0.2.2"], "pods": []}


def test_lists_of_2019_are_read_from_the_store(bee: Harness) -> None:
    stored: dict[str, list[Any]] = {"servicelist": [[service()]], "endpointslist": [[endpoints_of("192.0.2.9")]]}
    assert Mesh(bee, stored).start().last == {"web": ["192.0.2.9"], "pods": []}


def test_only_the_own_node_has_the_zone(bee: Harness) -> None:
    near, far = endpoint("192.0.2.2", "n2", zone="z1"), endpoint("192.0.2.3", "n3", zone="z2")
    mesh = Mesh(bee, {"service": [service()], "endpointslice": [slice_of(near, far)]}).start()
    for name, zone in ((NODE, "z1"), ("n3", "z2")):
        labels = {"topology.kubernetes.io/zone": zone}
        mesh.tell("node", "update", msgspec.json.encode({"metadata": {"name": name, "labels": labels}}), name)
    assert mesh.last["web"] == ["192.0.2.2"]


def test_the_store_is_read_again_after_each_connection(bee: Harness) -> None:
    mesh = Mesh(bee, {"service": [service()]}).start()
    mesh.stored["endpointslice"] = [slice_of(endpoint("192.0.2.2"))]
    for content, expected in ((CLOUD_DISCONNECTED, []), (CLOUD_CONNECTED, ["192.0.2.2"])):
        bee.send(ModuleName.EDGEMESH, bee.message(CONNECTION_RESOURCE, "connect", content, source="edgehub"), wait=1)
        assert mesh.last["web"] == expected


def test_addresses_of_pods_that_no_service_selects_are_known(bee: Harness) -> None:
    """Their connections to themselves through a Service, and to each other, need the node's address."""
    mesh = Mesh(bee).start()
    mesh.pods.now = (pod(labels={}),)
    mesh.pods.changed()
    bee.run_for(1)
    assert mesh.last["pods"] == ["10.86.0.2"]


def test_a_change_that_comes_while_the_store_is_read_is_newer(bee: Harness) -> None:
    """As after a connection, when the cloud sends what has changed: some kinds may have been read before, and others
    not. So may a read that a further connection began.
    """
    mesh = Mesh(bee, {"service": [service()], "endpointslice": [slice_of(endpoint("192.0.2.2"))]}).start()
    held: list[Message] = []

    def answer(request: Message) -> Message | None:
        if "podlist" in request.route.resource:
            held.append(request)
            return None
        return mesh.answer(request)

    def connect() -> None:
        bee.send(ModuleName.EDGEMESH, bee.message(CONNECTION_RESOURCE, "connect", CLOUD_CONNECTED))

    bee.answer(ModuleName.METAMANAGER, answer)
    connect()
    mesh.tell("endpointslice", "update", slice_of(endpoint("192.0.2.3")), "web-x")
    mesh.tell("service", "insert", service("db", "10.96.0.2"), "db")
    connect()
    for request in held:
        bee.respond(request.reply(bee.clock, [], source="metamanager"), wait=1)
        assert mesh.last == {"web": ["192.0.2.3"], "db": [], "pods": []}


def test_what_came_during_a_read_is_not_kept_for_a_later_one(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the place of newer objects then. Also where the read has failed."""
    modules, held = list[EdgeMesh](), list[Message]()

    def follow(self: EdgeMesh) -> None:
        modules.append(self)

    monkeypatch.setattr(EdgeMesh, "_follow", follow)
    mesh = Mesh(bee)
    bee.answer(ModuleName.METAMANAGER, held.append)
    mesh.start()
    mesh.tell("service", "insert", service())
    assert len(modules[0]._meanwhile) == 1
    mesh.stored["service"] = [service()]
    bee.answer(ModuleName.METAMANAGER, mesh.answer)
    bee.hive.respond(held[0].error(bee.clock, "database or disk is full"))
    bee.run_for(AGAIN_SECONDS + 1)
    assert (mesh.last, modules[0]._meanwhile) == ({"web": [], "pods": []}, {})


@pytest.mark.parametrize("is_read", [False, True])
def test_a_store_that_cannot_be_read_is_asked_again_until_it_can(bee: Harness, *, is_read: bool) -> None:
    """At the start, and after a connection to the cloud."""
    mesh = Mesh(bee)
    if is_read:
        mesh.start()
    asked: list[float] = []

    def refuse(request: Message) -> Message:
        asked.append(round(bee.clock.monotonic()))
        return request.error(bee.clock, "database or disk is full")

    bee.answer(ModuleName.METAMANAGER, refuse)
    if is_read:
        bee.send(ModuleName.EDGEMESH, bee.message(CONNECTION_RESOURCE, "connect", CLOUD_CONNECTED, source="edgehub"))
    else:
        mesh.start()
    bee.run_for(3.5 * AGAIN_SECONDS)
    assert list(Counter(asked).values()) == [7] * 4  # each kind once at a time
    mesh.stored["service"] = [service()]
    bee.answer(ModuleName.METAMANAGER, mesh.answer)
    bee.run_for(AGAIN_SECONDS)
    assert mesh.last == {"web": [], "pods": []}


def test_the_nodes_of_the_store_are_known(bee: Harness) -> None:
    near, far = endpoint("192.0.2.2", "n2", zone="z1"), endpoint("192.0.2.3", "n3", zone="z2")
    node = decode(Node, b'{"metadata":{"name":"%s","labels":{"topology.kubernetes.io/zone":"z2"}}}' % NODE.encode())
    stored: dict[str, list[Any]] = {"service": [service()], "endpointslice": [slice_of(near, far)], "node": [node]}
    assert Mesh(bee, stored).start().last["web"] == ["192.0.2.3"]


def test_what_cannot_be_read_is_counted(bee: Harness) -> None:
    mesh = Mesh(bee, {"service": [service(), {"spec": 7}], "endpoints": [[]]}).start()
    assert mesh.counters.unread == 2
    mesh.tell("service", "insert", b"[")
    assert mesh.counters.unread == 3
    mesh.tell("servicelist", "update", b"{}")
    assert mesh.counters.unread == 4
    mesh.tell("servicelist", "update", b'[{"spec":7},{"spec":8}]')
    assert mesh.counters.unread == 6


@pytest.mark.parametrize("content", [b"[", b"{}", b'{"spec":{"ports":7}}', b"\xff", b'[{"spec":[]}]', b"null"])
@pytest.mark.parametrize("kind", ["service", "endpoints", "endpointslice", "servicelist", "podlist", "node"])
def test_what_cannot_be_read_changes_nothing(bee: Harness, kind: str, content: bytes) -> None:
    mesh = Mesh(bee, {"service": [service()], "endpointslice": [slice_of(endpoint("192.0.2.2"))]}).start()
    mesh.tell(kind, "insert", content)
    if (kind, content) == ("servicelist", b"null"):
        assert "web" not in mesh.last  # Go's empty list
    else:
        assert mesh.last["web"] == ["192.0.2.2"]


def test_the_beginning_of_a_list_is_known(bee: Harness) -> None:
    """Without any Service in it: a name of the cluster then does not exist."""
    names = _Known()
    Mesh(bee).start(names=names)
    assert not names.is_known
    bee.hive.broadcast("mesh", bee.message(FOLLOW_RESOURCE, FOLLOWED, Target("", "v1", "endpoints")))
    bee.run_for(1)
    assert not names.is_known
    bee.hive.broadcast("mesh", bee.message(FOLLOW_RESOURCE, FOLLOWED, Target("", "v1", "services")))
    bee.run_for(1)
    assert names.is_known


def test_names_stand_for_what_programs_of_the_node_reach(bee: Harness) -> None:
    """Also of Services that were read before a proxy without root was chosen."""
    names = _Known()
    mesh = Mesh(bee, {"service": [service()]}).start(names=names)
    mesh.tell("service", "insert", service("db", "10.96.0.2"), "db")
    bee.run_for(1)
    assert names.services == {name: ([20_080], ("127.96.0.1",)) for name in ("web", "db")}


def test_names_have_only_endpoints_that_this_node_reaches(bee: Harness) -> None:
    names = _Known()
    found = slice_of(endpoint("10.86.0.5"), endpoint("192.0.2.2"))
    Mesh(bee, {"service": [service()], "endpointslice": [found]}).start(names=names)
    assert names.near == {"web": ["192.0.2.2"]}


def test_names_follow_services_and_pods(bee: Harness) -> None:
    names = _Known()
    mesh = Mesh(bee, {"service": [service(), service("db", "10.96.0.2")]})
    mesh.pods.now = (pod(),)
    mesh.start(names=names)
    assert [each.metadata.name for each in names.pods] == [pod().metadata.name]
    mesh.tell("service", "delete", None)
    assert set(names.services) == {"db"}


def test_the_name_server_and_the_data_plane_live_as_long_as_the_module() -> None:
    names = _Known()
    with Harness() as bee:
        mesh = Mesh(bee).start(names=names)
        assert bee.hive.readiness()[ModuleName.EDGEMESH].state is State.READY
        assert (names.lives, mesh.plane.closed) == (["start"], 0)
    assert (names.lives, mesh.plane.closed) == (["start", "stop"], 1)


class _Known:
    """A name server that notes whether Services are known."""

    is_known = False

    def __init__(self) -> None:
        self.services: dict[str, tuple[Any, Any]] = {}
        self.near: dict[str, list[str]] = {}
        self.pods: tuple[Pod, ...] = ()
        self.lives: list[str] = []

    def start(self) -> None:
        """Note it."""
        self.lives.append("start")

    def stop(self) -> None:
        """Note it."""
        self.lives.append("stop")

    def known(self) -> None:
        """Note it."""
        self.is_known = True

    def put(self, key: Any, service: Any, addresses: Any, backends: Any) -> None:
        """Keep the ports and addresses."""
        if service is None:
            del self.services[key.name]
            return
        self.services[key.name] = ([each.port for each in service.spec.ports], addresses)
        self.near[key.name] = [each.address for each in backends]

    def pods_changed(self, pods: tuple[Pod, ...]) -> None:
        """Keep them."""
        self.pods = pods

    def explain(self, name: str, namespace: str, type_: str) -> Resolution:
        """Know one name."""
        if name == "bad..name":
            raise WireError("a label is empty")
        return Resolution(name, ("192.0.2.1",), f"{namespace} {type_}", ())


def test_a_refused_change_is_tried_again(bee: Harness) -> None:
    """Case 21."""
    mesh = Mesh(bee, {"service": [service()]}).start()
    mesh.plane.refusals = ["no memory", "no memory"]
    mesh.tell("service", "insert", service("db", "10.96.0.2"), "db")
    bee.run_for(10)
    assert "db" in mesh.last
    assert mesh.counters.failed == 2
    registry = CollectorRegistry()
    registry.register(partial(mesh_metrics, mesh.counters))
    text = registry.text()
    assert "edgemesh_services 2" in text
    assert 'edgemesh_changes_total{result="refused"} 2' in text


def test_the_first_data_plane_that_works_is_taken(bee: Harness) -> None:
    first, second = Plane(), Plane()
    first.refusals.append("fake")
    mesh = Mesh(bee, {"service": [service()]}).start([first, second])
    assert (first.tables, second.tables[-1]["web"]) == ([], [])
    assert mesh.counters.plane == "fake"


def test_without_a_data_plane_the_readiness_has_the_reason(bee: Harness) -> None:
    mesh = Mesh(bee)
    mesh.plane.refusals.append("fake")
    mesh.start()
    assert "not here" in bee.hive.readiness()[ModuleName.EDGEMESH].reason


def test_the_owner_sees_which_endpoints_are_used_and_why_the_others_are_not(bee: Harness) -> None:
    ends = (endpoint("192.0.2.2"), endpoint("192.0.2.3", ready=False), endpoint("10.86.0.9"))
    other = service("db", "10.96.0.2", labels={"service.kubernetes.io/service-proxy-name": "x"})
    headless = service("sets", "None")
    stored: dict[str, list[Any]] = {
        "service": [service(), other, headless],
        "endpointslice": [slice_of(*ends), slice_of(*ends, name="sets")],
    }
    Mesh(bee, stored).start()
    asking = bee.message(RESOURCE, SERVICES, ServicesRequest())
    found = bee.ask(ModuleName.EDGEMESH, asking).content_as(ServicesAnswer)
    assert (found.data_plane, found.problem, found.is_known) == ("fake", "", True)
    db, sets, web = found.services
    assert [(each.address, each.used, each.reason) for each in web.endpoints] == [
        ("192.0.2.2", True, "used"),
        ("192.0.2.3", False, "it is not ready"),
        ("10.86.0.9", False, "its address is in another node's private network"),
    ]
    assert (web.carried_by, web.remark, web.number, web.used) == ("fake", "", 3, 1)
    assert [(each.port, each.at) for each in web.ports] == [(80, "127.96.0.1:20080")]
    assert (db.carried_by, db.remark) == ("", "a label leaves it to another proxy")
    assert (sets.carried_by, sets.used, sets.addresses) == ("", 1, ())
    one = bee.ask(ModuleName.EDGEMESH, bee.message(RESOURCE, SERVICES, ServicesRequest("default", "db")))
    assert [each.name for each in one.content_as(ServicesAnswer).services] == ["db"]
    none = bee.ask(ModuleName.EDGEMESH, bee.message(RESOURCE, SERVICES, ServicesRequest("other")))
    assert none.content_as(ServicesAnswer).services == ()


def test_the_owner_sees_so_many_endpoints_and_how_many_there_are(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "MOST_SHOWN", 2)
    ends = [endpoint(f"192.0.2.{number}") for number in range(2, 5)]
    Mesh(bee, {"service": [service()], "endpointslice": [slice_of(*ends)]}).start()
    asking = bee.message(RESOURCE, SERVICES, ServicesRequest())
    (web,) = bee.ask(ModuleName.EDGEMESH, asking).content_as(ServicesAnswer).services
    assert ([each.address for each in web.endpoints], web.number, web.used) == (["192.0.2.2", "192.0.2.3"], 3, 3)


def test_the_owner_sees_where_a_port_of_both_ip_versions_is_reached_in_the_first_one() -> None:
    given = service(clusterIPs=["10.96.0.1", "fd00::1"])
    selector = EndpointSelector(Here(NODE))
    both = list(port_tables(given, [], selector))
    assert [each.is_ipv6 for each in both] == [False, True]
    found = owner.shown(
        KEY, given, [], selector, both, "fake", lambda table: (f"127.0.0.{4 + 2 * table.is_ipv6}", 20080)
    )
    assert [each.at for each in found.ports] == ["127.0.0.4:20080"]


def test_the_owner_sees_why_a_service_has_no_connections(bee: Harness) -> None:
    out = service("out", "", type="ExternalName", externalName="www.example.org")
    Mesh(bee, {"service": [out, service("none", ""), service()]}).start([])
    asking = bee.message(RESOURCE, SERVICES, ServicesRequest())
    found = bee.ask(ModuleName.EDGEMESH, asking).content_as(ServicesAnswer)
    assert (found.data_plane, found.problem) == ("", "no data plane is configured")
    assert [(each.name, each.addresses, each.carried_by, each.remark) for each in found.services] == [
        ("none", (), "", "it has no address"),
        ("out", (), "", "it is another name of www.example.org"),
        ("web", ("10.96.0.1",), "", "nothing carries connections on this node"),
    ]
    assert [(each.port, each.protocol, each.at) for each in found.services[2].ports] == [(80, "TCP", "")]


def test_the_owner_sees_what_differs_for_connections_from_outside(bee: Harness) -> None:
    given = service(type="NodePort", externalTrafficPolicy="Local", ports=[{"port": 80, "nodePort": 30080}])
    ends = (endpoint("192.0.2.2"), endpoint("192.0.2.3", ports=[]))
    Mesh(bee, {"service": [given], "endpointslice": [slice_of(*ends)]}).start()
    asking = bee.message(RESOURCE, SERVICES, ServicesRequest())
    web = bee.ask(ModuleName.EDGEMESH, asking).content_as(ServicesAnswer).services[0]
    assert [(each.used, each.reason) for each in web.endpoints] == [
        (True, "used; from outside: the traffic policy is Local, and it is on another node")
    ] * 2
    assert [each.node_port for each in web.ports] == [30080]


def test_the_owner_sees_an_endpoint_used_that_has_one_of_the_ports(bee: Harness) -> None:
    """Also what differs from outside of a Service with external addresses only."""
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    given = service(externalIPs=["198.51.100.1"], externalTrafficPolicy="Local", ports=ports)
    near, far = endpoint("10.86.0.2", NODE), endpoint("192.0.2.2")
    slices = [
        slice_of(near, ports=({"name": "b", "port": 8080},)),
        slice_of(far, name="web.2", ports=tuple({"name": each, "port": 8080} for each in "ba")),
    ]
    mesh = Mesh(bee, {"service": [given], "endpointslice": slices})
    mesh.pods.are_complete = False
    mesh.start()
    asking = bee.message(RESOURCE, SERVICES, ServicesRequest())
    web = bee.ask(ModuleName.EDGEMESH, asking).content_as(ServicesAnswer).services[0]
    assert {each.address: each.reason for each in web.endpoints} == {
        "10.86.0.2": "used",
        "192.0.2.2": "used; from outside: the traffic policy is Local, and it is on another node",
    }


def test_no_service_takes_the_address_of_a_node_or_of_the_cloud(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster without the plug-in DenyServiceExternalIPs lets every author of a Service name any address. The names
    of the cloud are looked up again and again; while there are none, the last addresses count.
    """
    led_to = {"192.0.2.77"}
    monkeypatch.setattr(module, "addresses_of_names", lambda names: frozenset(led_to if names else ()))
    status = b'{"addresses":[{"type":"InternalIP","address":"192.0.2.1"},{"type":"Hostname","address":"n1"}]}'
    node = decode(Node, b'{"metadata":{"name":"%s"},"status":%s}' % (NODE.encode(), status))
    given = service(externalIPs=["192.0.2.1", "192.0.2.99", "192.0.2.77", "192.0.2.78", "198.51.100.1"])
    Mesh(bee, {"service": [given], "node": [node]}).start(cloud=("192.0.2.99", "cloud.example"))

    def external() -> tuple[str, ...]:
        asking = bee.message(RESOURCE, SERVICES, ServicesRequest())
        return bee.ask(ModuleName.EDGEMESH, asking).content_as(ServicesAnswer).services[0].external

    assert external() == ("192.0.2.78", "198.51.100.1")
    for now, taken in (({"192.0.2.78"}, "192.0.2.77"), (set[str](), "192.0.2.77")):
        led_to.clear()
        led_to.update(now)
        bee.run_for(FIND_SECONDS + 1)
        assert external() == (taken, "198.51.100.1")


@pytest.mark.parametrize("first", ["bank", "a"])
def test_of_services_with_one_external_address_the_data_plane_gets_the_oldest(
    bee: Harness, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Whichever namespace's comes first, and after a change of either."""
    applied: list[dict[str, tuple[str, ...]]] = []
    monkeypatch.setattr(
        Plane, "apply", lambda _self, tables, _pods: applied.append({e.namespace: e.external for e in tables.values()})
    )
    given = service(externalIPs=["198.51.100.1"])
    made = {"bank": "2026-01-01T00:00:00Z", "a": "2026-01-02T00:00:00Z"}
    services = {
        namespace: structs.replace(
            given, metadata=structs.replace(given.metadata, namespace=namespace, creation_timestamp=created)
        )
        for namespace, created in made.items()
    }
    mesh = Mesh(bee).start()
    for namespace in sorted(made, key=lambda each: each != first):
        mesh.tell("service", "insert", services[namespace], namespace=namespace)
    mesh.tell("endpoints", "insert", endpoints_of("192.0.2.9"), namespace="bank")
    assert applied[-1] == {"bank": ("198.51.100.1",), "a": ()}
    mesh.tell("service", "delete", None, namespace="bank")
    assert applied[-1] == {"a": ("198.51.100.1",)}


def test_names_lead_to_addresses_that_pods_can_have() -> None:
    assert addresses_of_names(["192.0.2.1", "localhost", "bad..name", "a" * 64, ""]) == {"192.0.2.1"}


def test_the_owner_asks_for_names(bee: Harness) -> None:
    mesh = Mesh(bee)
    bee.start(EdgeMesh, MeshSettings(NODE), mesh.pods, [mesh.plane], mesh.counters, _Known)

    def answer(name: str) -> NameAnswer:
        asking = bee.message(RESOURCE, RESOLVE, ResolveRequest(name, "other", "SRV"))
        return bee.ask(ModuleName.EDGEMESH, asking).content_as(NameAnswer)

    assert decode_json(answer("web").body, Resolution).problem == "other SRV"
    assert answer("bad..name").error == "this is no name: a label is empty"


def test_without_a_name_server_the_owner_sees_why(bee: Harness) -> None:
    Mesh(bee).start()
    asking = bee.message(RESOURCE, RESOLVE, ResolveRequest("web"))
    assert "modules.edgeMesh.dns" in bee.ask(ModuleName.EDGEMESH, asking).content_as(NameAnswer).error
