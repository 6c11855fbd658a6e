"""Which endpoints a node uses: tables of Services, slices and pods, without a kernel."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from modules.apimachinery.types import Pod, decode
from modules.edge.edgemesh import state as state_module
from modules.edge.edgemesh.nft.kernel import KernelRules
from modules.edge.edgemesh.nft.program import NftError
from modules.edge.edgemesh.nft.ruleset import IPV4, is_temporary, ruleset
from modules.edge.edgemesh.objects import Endpoints, EndpointSlice, Service, ServiceKey, ServiceStatus
from modules.edge.edgemesh.selection import EndpointSelector, Here, Prefer, Reason
from modules.edge.edgemesh.state import MeshState, own_addresses
from modules.edge.edgemesh.tables import Address, MeshTarget, PortTable, port_tables, target_to, without_taken
from tests.modules.edge.edgemesh.objects import NODE, endpoint, endpoints_of, pod, port_table, service, slice_of

KEY = ServiceKey("default", "web")
GROUPED = {"apps.kubeedge.io/service-topology": "range-nodegroup"}


def tables(
    given: Service, *slices: EndpointSlice, pods: tuple[Pod, ...] = (), settled: bool = True, **here: Any
) -> list[PortTable]:
    """The tables of a Service on the node n1, whose pods have addresses of 10.86.0.0/16."""
    state = MeshState(NODE)
    state.put_service(given)
    for each in slices:
        state.put_slice(each)
    state.set_pods(pods)
    state.is_settled = settled
    here.setdefault("own_ranges", ("10.86.0.0/16",))
    return list(port_tables(given, state.backends(KEY), EndpointSelector(Here(NODE, **here))))


def inside(*args: Any, **kwargs: Any) -> list[str]:
    """The addresses behind the ClusterIP."""
    (table,) = tables(*args, **kwargs)
    return [address for address, _ in table.inside.endpoints]


def test_named_ports_differ_by_pod() -> None:
    """Case 3; and TCP and UDP on one number have each their own (case 2)."""
    ports = [
        {"name": "a", "port": 53, "targetPort": "dns", "protocol": "TCP"},
        {"name": "b", "port": 53, "targetPort": "dns", "protocol": "UDP"},
        {"name": "c", "port": 54, "targetPort": "nothing"},
    ]
    one = pod("one", "10.86.0.2", ports=[{"name": "dns", "containerPort": 5300, "protocol": "TCP"}])
    named = [{"name": "dns", "containerPort": 5301}, {"name": "dns", "containerPort": 5302, "protocol": "UDP"}]
    two = pod("two", "10.86.0.3", ports=named)
    tcp, udp, none = tables(service(ports=ports), pods=(one, two))
    assert tcp.inside.endpoints == (("10.86.0.2", 5300), ("10.86.0.3", 5301))
    assert udp.inside.endpoints == (("10.86.0.3", 5302),)
    assert none.inside == MeshTarget(drops=False)
    assert (tcp.protocol, udp.protocol, tcp.port, udp.port) == ("tcp", "udp", 53, 53)


@pytest.mark.parametrize(("restarts", "expected"), [("Always", [("10.86.0.2", 5300)]), (None, [])])
def test_a_sidecar_has_named_ports_and_another_init_container_has_none(
    restarts: str | None, expected: list[Address]
) -> None:
    init = {"name": "i", "restartPolicy": restarts, "ports": [{"name": "dns", "containerPort": 5300}]}
    (table,) = tables(service(ports=[{"port": 53, "targetPort": "dns"}]), pods=(pod(initContainers=[init]),))
    assert list(table.inside.endpoints) == expected


def test_an_address_of_the_other_ip_version_than_the_slice_s_is_left_out() -> None:
    given = replace(slice_of(endpoint("192.0.2.7")), address_type="IPv6")
    assert inside(service(), given) == []


def test_services_and_slices_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ones that are known go on changing."""
    for name in ("MOST_SERVICES", "MOST_SLICES"):
        monkeypatch.setattr(state_module, name, 2)
    state = MeshState(NODE)
    names = ("a", "b", "c")
    for address in ("192.0.2.2", "192.0.2.3"):
        for name in names:
            state.put_service(service(name, address))
            state.put_slice(slice_of(endpoint(address), name=name))
    assert {each.name: kept.spec.cluster_ip for each, kept in state.services.items()} == {
        "a": "192.0.2.3",
        "b": "192.0.2.3",
    }
    state.put_service_list([service(name) for name in ("b", "c")])
    found = {name: [each.address for each in state.backends(ServiceKey("default", name))] for name in ("b", "c")}
    assert found == {"b": ["192.0.2.3"], "c": []}


def test_services_are_known_once_the_cloud_has_sent_one_or_a_list_of_them() -> None:
    """An empty store proves nothing: nobody may have written to it yet."""
    steps: list[tuple[Callable[[MeshState], object], bool]] = [
        (lambda state: state.put_service(service()), True),
        (lambda state: state.put_service_list([]), True),
        (lambda state: state.replace([], [], []), False),
        (lambda state: state.replace([service()], [], []), True),
        (lambda state: state.put_slice(slice_of(endpoint("192.0.2.2"))), False),
    ]
    for tell, is_known in steps:
        state = MeshState(NODE)
        assert not state.is_known
        tell(state)
        assert state.is_known is is_known
        state.replace([], [], [])
        assert state.is_known is is_known


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_whole_list_takes_away_what_it_lacks_and_a_part_of_one_does_not(*, is_whole: bool) -> None:
    state, (web, db) = MeshState(NODE), (ServiceKey("default", name) for name in ("web", "db"))
    for name in ("web", "db"):
        state.put_service(service(name))
        state.put_endpoints(endpoints_of("192.0.2.2", name=name))
    gone = {db} if is_whole else set[ServiceKey]()
    assert state.put_endpoints_list([endpoints_of("192.0.2.3")], is_whole=is_whole) == {web} | gone
    found = {key: [each.address for each in state.backends(key)] for key in (web, db)}
    assert found == {web: ["192.0.2.3"], db: [] if is_whole else ["192.0.2.2"]}
    assert state.put_service_list([service("web")], is_whole=is_whole) == gone
    assert state.services.keys() == {web, db} - gone


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ((pod(), pod("b", "10.86.0.3")), ["10.86.0.2", "10.86.0.3"]),
        ((pod(), pod("b", "10.86.0.3", ready=False)), ["10.86.0.2"]),
        ((pod(deleted=True), pod("b", "10.86.0.3")), ["10.86.0.3"]),
        ((pod(deleted=True), pod("b", "10.86.0.3", deleted=True, ready=False)), ["10.86.0.2"]),
        ((pod(ready=False),), []),
        ((pod(labels={"app": "db"}),), []),
        ((pod(ip=""),), []),
        ((pod(status={"phase": "Succeeded"}),), []),
    ],
)
def test_own_pods_count_as_they_are_now(pods: tuple[Pod, ...], expected: list[str]) -> None:
    """Cases 9, 10, 12: the cloud's entries for this node are old, and do not count."""
    stale = slice_of(endpoint("10.86.0.77", NODE))
    assert inside(service(), stale, pods=pods) == expected


def test_the_clouds_entries_for_this_node_count_until_edged_knows_its_pods() -> None:
    stale = slice_of(endpoint("10.86.0.77", NODE))
    assert inside(service(), stale, settled=False) == ["10.86.0.77"]
    assert inside(service(), stale, pods=(pod(),), settled=False) == ["10.86.0.2"]
    assert inside(service(selector={}), stale, pods=(pod(),)) == ["10.86.0.77"]


def test_addresses_that_may_be_strangers_here_are_never_used() -> None:
    """Case 11."""
    given = slice_of(endpoint("10.86.0.5"), endpoint("192.0.2.7"))
    assert inside(service(), given) == ["192.0.2.7"]
    assert inside(service(), given, routed=("10.86.0.0/16",)) == ["10.86.0.5", "192.0.2.7"]
    routed: dict[str, Any] = {"routed": ("10.86.0.0/16",), "prefer": Prefer.NONE}
    of_stranger = slice_of(endpoint("10.86.0.2"), ports=({"name": "", "port": 9999},))
    (table,) = tables(service(), of_stranger, pods=(pod(),), **routed)
    assert table.inside.endpoints == (("10.86.0.2", 8080),)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "224.0.0.1", "300.0.0.1", "x", "10.0.0.1%eth0", ""]
)
def test_addresses_that_no_pod_has_are_left_out(address: str) -> None:
    assert inside(service(selector={}), slice_of(endpoint(address), endpoint("192.0.2.7"))) == ["192.0.2.7"]


NEAR = slice_of(
    endpoint("192.0.2.2", "n2", zone="z1"),
    endpoint("192.0.2.3", "n3", zone="z2"),
    endpoint("192.0.2.4", "n4", zone="z2"),
)
GROUPS = {"n1": "g", "n3": "g", "n4": "h"}


@pytest.mark.parametrize(
    ("pods", "here", "expected"),
    [
        ((pod(),), {}, ["10.86.0.2"]),
        ((pod(ready=False),), {"group": "g", "groups": GROUPS, "zone": "z1"}, ["192.0.2.3"]),
        ((), {"zone": "z2"}, ["192.0.2.3", "192.0.2.4"]),
        ((), {}, ["192.0.2.2", "192.0.2.3", "192.0.2.4"]),
        ((pod(),), {"prefer": Prefer.NONE}, ["10.86.0.2", "192.0.2.2", "192.0.2.3", "192.0.2.4"]),
    ],
)
def test_the_nearest_that_are_ready(pods: tuple[Pod, ...], here: dict[str, Any], expected: list[str]) -> None:
    """Case 13: node, node group, zone, all."""
    assert inside(service(), NEAR, pods=pods, **here) == expected


def test_distributions_and_hints() -> None:
    hinted = slice_of(
        endpoint("192.0.2.2", zone="z1", hints={"forZones": [{"name": "z2"}]}),
        endpoint("192.0.2.3", zone="z2", hints={"forZones": [{"name": "z1"}]}),
    )
    close = {"trafficDistribution": "PreferClose"}
    assert inside(service(**close), hinted, zone="z1") == ["192.0.2.3"]
    unready = slice_of(endpoint("192.0.2.4", ready=False), name="web.2")
    assert inside(service(**close), hinted, unready, zone="z1") == ["192.0.2.3"], "it needs no hint"
    assert inside(service(), hinted, zone="z1", prefer=Prefer.NONE) == ["192.0.2.3"], "by topology-mode: Auto"
    assert inside(service(), hinted, zone="z9", prefer=Prefer.NONE) == ["192.0.2.2", "192.0.2.3"]
    assert inside(service(**close), NEAR, zone="z2") == ["192.0.2.3", "192.0.2.4"]
    assert inside(service(**close), NEAR, zone="z9") == ["192.0.2.2", "192.0.2.3", "192.0.2.4"]
    same = service(trafficDistribution="PreferSameNode")
    assert inside(same, NEAR, pods=(pod(),), prefer=Prefer.NONE) == ["10.86.0.2"]


def test_an_endpoint_that_is_hinted_for_this_node_is_used() -> None:
    ends = [endpoint(f"192.0.2.{number}", hints={"forNodes": [{"name": f"n{number}"}]}) for number in (1, 2)]
    close = service(trafficDistribution="PreferClose")
    assert inside(close, slice_of(*ends)) == ["192.0.2.1"]
    assert inside(close, slice_of(ends[1])) == ["192.0.2.2"], "no other is there"
    hints = {"forNodes": [{"name": "n2"}], "forZones": [{"name": "z1"}]}
    both = endpoint("192.0.2.2", hints=hints)
    assert inside(close, slice_of(ends[0], both), zone="z1") == ["192.0.2.1"], "a node's hint is before a zone's"


def test_a_service_of_a_cloud_before_kubernetes_1_20_has_its_one_address() -> None:
    (table,) = tables(service(clusterIPs=[]), NEAR)
    assert table.addresses == ("10.96.0.1",)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"serving": True, "terminating": True}, ["192.0.2.2"]),
        ({"serving": True}, []),
        ({"serving": False, "terminating": True}, []),
    ],
)
def test_without_a_ready_endpoint_only_terminating_ones_are_used(
    conditions: dict[str, bool], expected: list[str]
) -> None:
    """KEP-1669."""
    assert inside(service(), slice_of(endpoint("192.0.2.2", ready=False, conditions=conditions))) == expected


def test_a_slice_that_gets_another_service_leaves_the_former_one() -> None:
    state = MeshState(NODE)
    for name in ("web", "db"):
        state.put_service(service(name))
    given = slice_of(endpoint("192.0.2.2"))
    state.put_slice(given)
    labels = replace(given.metadata.labels, service="db")
    changed = state.put_slice(replace(given, metadata=replace(given.metadata, labels=labels)))
    assert changed == {ServiceKey("default", "web"), ServiceKey("default", "db")}
    assert [len(state.backends(ServiceKey("default", name))) for name in ("web", "db")] == [0, 1]


def test_a_node_group_uses_only_its_own() -> None:
    """Case 14, with slices, and with Endpoints, which KubeEdge's cloud filters itself."""
    given = service(annotations=GROUPED)
    assert inside(given, NEAR, group="g", groups=GROUPS) == ["192.0.2.3"]
    assert inside(given, NEAR, groups=GROUPS) == []
    both = (
        slice_of(endpoint("192.0.2.7", "n7"), group="g"),
        slice_of(endpoint("192.0.2.8", "n8"), name="web.2", group="h"),
    )
    assert inside(given, *both, group="g") == ["192.0.2.7"], (
        "cloudcore says the group of endpoints on nodes unknown here"
    )
    assert inside(given, *both) == []
    assert inside(given, *both, group="g", groups={"n7": "h"}) == [], "a node's label is newer than the slice's"
    assert inside(service(), *both, group="h") == ["192.0.2.8"], "nearer ones come first"
    state = MeshState(NODE)
    state.put_service(given)
    state.put_endpoints(endpoints_of("192.0.2.9"))
    (table,) = port_tables(given, state.backends(KEY), EndpointSelector(Here(NODE, "g")))
    assert table.inside.endpoints == (("192.0.2.9", 8080),)


def test_the_policy_local_drops_only_where_others_have_endpoints() -> None:
    """Case 7."""
    local = service(internalTrafficPolicy="Local")
    (table,) = tables(local, NEAR)
    assert table.inside == MeshTarget(drops=True)
    (table,) = tables(local)
    assert table.inside == MeshTarget(drops=False)
    (table,) = tables(local, slice_of(endpoint("192.0.2.2", ready=False)))
    assert table.inside == MeshTarget(drops=False), "of what is not ready nobody has one"
    (table,) = tables(local, NEAR, pods=(pod(),))
    assert table.inside == target_to((("10.86.0.2", 8080),))


def test_node_ports_and_external_addresses_have_their_own_policy() -> None:
    """Case 8."""
    spec: dict[str, Any] = {
        "type": "NodePort", "externalTrafficPolicy": "Local", "externalIPs": ["198.51.100.1", "127.0.0.1"],
        "ports": [{"port": 80, "nodePort": 30080, "targetPort": 8080}],
    }  # fmt: skip
    (table,) = tables(service(**spec), NEAR, prefer=Prefer.NONE)
    assert (table.node_port, table.external, table.keeps_source) == (30080, ("198.51.100.1",), True)
    assert len(table.inside.endpoints) == 3
    assert table.outside == MeshTarget(drops=True)
    (table,) = tables(service(**{**spec, "type": "ClusterIP"}), NEAR)
    assert table.node_port == 0, "the type has none, whatever is left in the ports"
    (table,) = tables(service(**{**spec, "externalTrafficPolicy": "Cluster", "externalIPs": []}), NEAR)
    assert (table.external, len(table.outside.endpoints)) == ((), 3), "of a node port alone"


def test_ports_and_external_addresses_of_a_service_are_bounded() -> None:
    given = service(externalIPs=[f"198.51.100.{number}" for number in range(1, 41)])
    (table,) = tables(given, NEAR)
    assert table.external == tuple(f"198.51.100.{number}" for number in range(1, 33))
    many = service(ports=[{"port": number} for number in range(1, 111)])
    assert [each.port for each in tables(many, NEAR)] == list(range(1, 101))


def test_no_service_takes_the_address_of_a_machine() -> None:
    """Whoever may write Services of a namespace, or their statuses, would have what is sent to the cloud, or to a
    node's own ports. One is the load balancer of cloudcore's own Service, whose endpoints are not reached from an edge.
    """
    given = service(externalIPs=["192.0.2.1", "198.51.100.1", "fd00::7", "169.254.1.1", "::1"])
    ingress = [{"ip": "192.0.2.2"}, {"ip": "198.51.100.2"}, {"ip": "127.0.0.1"}, {"hostname": "lb.example"}]
    status = decode(ServiceStatus, msgspec.json.encode({"loadBalancer": {"ingress": ingress}}))
    (table,) = tables(replace(given, status=status), machines=frozenset({"192.0.2.1", "192.0.2.2", "fd00::7"}))
    assert table.external == ("198.51.100.1", "198.51.100.2")


def test_the_address_of_a_load_balancer_that_packets_must_pass_is_left_alone() -> None:
    """KEP-1860: a load balancer that ends TLS, say, is passed from inside, too."""
    ingress = [
        {"ip": "198.51.100.1", "ipMode": "VIP"},
        {"ip": "198.51.100.2", "ipMode": "Proxy"},
        {"ip": "198.51.100.3"},
    ]
    status = decode(ServiceStatus, msgspec.json.encode({"loadBalancer": {"ingress": ingress}}))
    (table,) = tables(replace(service(type="LoadBalancer"), status=status))
    assert table.external == ("198.51.100.1", "198.51.100.3")


def test_no_service_takes_a_pod_s_address() -> None:
    """Who may write Services of a namespace would be sent what is for another one's pod."""
    thief = port_table(("10.86.0.9", 1), port=80)._replace(external=("10.86.0.2", "198.51.100.1"))
    rules = ruleset(IPV4, (thief,), ("10.86.0.2",)).elements
    assert set(rules["services"]) == {"10.96.0.1 . tcp . 80", "198.51.100.1 . tcp . 80"}
    idle = thief._replace(inside=target_to(()), outside=target_to(()))
    assert set(ruleset(IPV4, (idle,), ("10.86.0.2",)).elements["no-endpoints"]) == {"198.51.100.1 . tcp . 80"}


def test_of_services_with_one_external_address_or_node_port_the_oldest_has_it() -> None:
    """Also while it has no endpoints, and whichever is known first: a tenant would get another one's connections. One
    that claims more keeps what nobody else has.
    """
    common: dict[str, Any] = {"external": ("198.51.100.1",), "node_port": 30080}
    bank = port_table(port=80)._replace(namespace="bank", created="2026-01-01T00:00:00Z", **common)
    evil = port_table(("10.86.0.9", 1), port=80)._replace(namespace="a", created="2026-01-02T00:00:00Z", **common)
    evil = evil._replace(addresses=("10.96.0.9",), external=("198.51.100.1", "198.51.100.2"))
    other = bank._replace(service="other", port=443, node_port=30443, created="2026-01-03T00:00:00Z")
    for several in permutations((bank, evil, other)):
        found = without_taken(several)
        assert list(found) == [each.key for each in several]
        assert (found[bank.key], found[other.key]) == (bank, other)
        assert (found[evil.key].external, found[evil.key].node_port) == (("198.51.100.2",), 0)
        rules = ruleset(IPV4, found.values(), ()).elements
        assert "198.51.100.1 . tcp . 80" in rules["no-endpoints"]
        assert "198.51.100.1 . tcp . 80" not in rules["services"]
        assert not rules["nodeports"]
    assert without_taken([evil]) == {evil.key: evil}, "when the older one is gone"
    for nothing in ({"external": ()}, {"node_port": 0}):
        one, later = bank._replace(**nothing), evil._replace(external=("198.51.100.1",))._replace(**nothing)
        found = without_taken([later, one])
        assert found == {later.key: later._replace(external=(), node_port=0), one.key: one}


def test_a_service_takes_no_other_service_s_address() -> None:
    """Who may write Services of a namespace could have the name server's queries while it had no endpoints."""
    dns, thief = port_table(port=53), port_table(("10.86.0.9", 1), port=53)
    claims = thief._replace(service="thief", addresses=("10.96.0.9",), external=("10.96.0.1", "198.51.100.1"))
    for tables_of_node in ((dns, claims), (claims, dns), (claims, dns._replace(port=80))):
        services = ruleset(IPV4, tables_of_node, ()).elements["services"]
        assert set(services) == {"10.96.0.9 . tcp . 53", "198.51.100.1 . tcp . 53"}


@pytest.mark.parametrize(
    "given",
    [
        service(ip="None"), service(ip=""), service(type="ExternalName", externalName="example.org"),
        service(labels={"service.kubernetes.io/service-proxy-name": "other"}),
        service(labels={"service.edgemesh.kubeedge.io/service-proxy-name": ""}),
        service(labels={"service.kubernetes.io/headless": ""}),
        service(ports=[{"port": 80, "protocol": "SCTP"}, {"port": 0}, {"port": 70000}]),
        service(type="NodePort", ports=[{"port": 80, "nodePort": -1}, {"port": 81, "nodePort": 65536}]),
    ],
)  # fmt: skip
def test_services_without_an_address_or_of_others_have_no_tables(given: Service) -> None:
    assert tables(given, NEAR, pods=(pod(),)) == []


def test_both_ip_versions_and_affinity() -> None:
    spec: dict[str, Any] = {
        "clusterIPs": ["10.96.0.1", "fd00::1"], "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
    }  # fmt: skip
    both = pod(status={"podIPs": [{"ip": "10.86.0.2"}, {"ip": "fd00:86::2"}]})
    four, six = tables(service(**spec), pods=(both,))
    assert (four.inside.endpoints, six.inside.endpoints) == ((("10.86.0.2", 8080),), (("fd00:86::2", 8080),))
    assert (four.affinity, six.affinity, six.is_ipv6) == (10, 10, True)
    (table,) = tables(service(sessionAffinity="ClientIP"), pods=(pod(),))
    assert table.affinity == 10800
    endless: dict[str, Any] = {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10**9}}}
    (table,) = tables(service(sessionAffinity="ClientIP", **endless), pods=(pod(),))
    assert table.affinity == 86400


def test_pods_that_a_cloud_of_2019_lists_are_used_at_their_nodes() -> None:
    state = MeshState(NODE)
    state.put_service(service())
    ports = [{"containerPort": 8080, "hostPort": 18080}, {"containerPort": 8080, "hostPort": 9, "protocol": "UDP"}]
    state.put_pod_list(
        KEY,
        (
            pod("a", "10.86.0.9", node="n2", ports=ports, status={"hostIP": "192.0.2.2"}),
            pod("b", "10.86.0.9", node="n3", status={"hostIP": "192.0.2.3"}),
            pod("c", "10.86.0.9", node="n4", hostNetwork=True, status={"hostIP": "192.0.2.4"}),
            pod("d", "10.86.0.9", node=NODE, ports=ports, status={"hostIP": "192.0.2.1"}),
        ),
    )
    (table,) = port_tables(service(), state.backends(KEY), EndpointSelector(Here(NODE)))
    assert table.inside.endpoints == (("192.0.2.2", 18080), ("192.0.2.4", 8080))


def test_of_the_pods_that_a_cloud_of_2019_lists_the_first_ones_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "MOST_BACKENDS", 1)
    state = MeshState(NODE)
    state.put_service(service())
    listed = (pod(node=NODE), pod("b", node="n2", hostNetwork=True, status={"hostIP": "192.0.2.2"}))
    state.put_pod_list(KEY, listed)
    assert state.backends(KEY) == [], "the second one is left out"
    state.put_pod_list(KEY, listed[1:])
    assert [each.address for each in state.backends(KEY)] == ["192.0.2.2"]


def test_the_pods_that_a_cloud_of_2019_lists_go_with_their_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Services that never come there are no more than of others."""
    monkeypatch.setattr(state_module, "MOST_SERVICES", 2)
    state = MeshState(NODE)
    listed = (pod("b", node="n2", hostNetwork=True, status={"hostIP": "192.0.2.2"}),)
    for number in range(3):
        state.put_pod_list(ServiceKey("default", f"s{number}"), listed)
    state.put_service(service("s2"))
    assert state.backends(ServiceKey("default", "s2")) == []
    state.put_service(service("s0"))
    assert state.backends(ServiceKey("default", "s0")) != []
    state.put_service_list([])
    state.put_service(service("s0"))
    assert state.backends(ServiceKey("default", "s0")) == []


def test_pods_on_the_nodes_network_have_no_addresses_of_their_own() -> None:
    host = pod("b", "192.0.2.1", hostNetwork=True)
    assert own_addresses((pod(), host, pod("c", "x"))) == {"10.86.0.2"}


def test_of_the_pods_that_a_cloud_of_2019_lists_only_ready_ones_are_used_and_ending_ones_at_last() -> None:
    def listed(name: str, node: str, **more: Any) -> Pod:
        status = {"hostIP": f"192.0.2.{node[1:]}", **more.pop("status", {})}
        return pod(name, "10.86.0.9", node=node, hostNetwork=True, status=status, **more)

    unready, ending = listed("a", "n2", ready=False), listed("b", "n3", deleted=True)
    initialized = {"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "False"}]}
    others = [unready, ending, listed("c", "n4", status=initialized)]
    for more, expected in (((), ["192.0.2.3"]), ((listed("d", "n5"),), ["192.0.2.5"])):
        state = MeshState(NODE)
        state.put_service(service())
        state.put_pod_list(KEY, (*others, *more))
        (table,) = port_tables(service(), state.backends(KEY), EndpointSelector(Here(NODE)))
        assert [address for address, _ in table.inside.endpoints] == expected


def test_unready_addresses_of_endpoints_are_not_used_and_ready_ones_belong_to_their_nodes() -> None:
    state = MeshState(NODE)
    state.put_service(service(selector={}))
    subset = {
        "addresses": [{"ip": "192.0.2.2", "nodeName": NODE}, {"ip": "192.0.2.3", "nodeName": "n3"}],
        "notReadyAddresses": [{"ip": "192.0.2.4", "nodeName": "n4"}],
        "ports": [{"port": 8080}],
    }
    metadata = {"name": "web", "namespace": "default"}
    state.put_endpoints(decode(Endpoints, msgspec.json.encode({"metadata": metadata, "subsets": [subset]})))
    for prefer, expected in ((Prefer.NODE, ["192.0.2.2"]), (Prefer.NONE, ["192.0.2.2", "192.0.2.3"])):
        selector = EndpointSelector(Here(NODE, prefer=prefer))
        assert [each.address for each in selector.select(service(), "", state.backends(KEY)).backends] == expected


@pytest.mark.parametrize(
    ("hostname", "subdomain", "expected"),
    [("db-0", "web", "db-0"), ("db-0", "other", ""), ("db-0", None, ""), (None, "web", ""), (None, None, "")],
)
def test_a_pod_of_this_node_has_a_host_name_in_the_service_of_its_subdomain(
    hostname: str | None, subdomain: str | None, expected: str
) -> None:
    """As the EndpointSlice controller has it."""
    state = MeshState(NODE)
    state.put_service(service())
    given: dict[str, Any] = {"hostname": hostname, "subdomain": subdomain}
    state.set_pods((pod(**{key: value for key, value in given.items() if value}),))
    assert [each.hostname for each in state.backends(KEY)] == [expected]


@pytest.mark.parametrize("target", [None, 0, ""])
def test_without_a_target_port_the_ports_number_is_the_target(target: object) -> None:
    for number in (80, 1):
        (table,) = tables(service(ports=[{"port": number, "targetPort": target}]), pods=(pod(),))
        assert table.inside.endpoints == (("10.86.0.2", number),)


def test_a_pod_with_one_address_only_is_used_at_it() -> None:
    """Statuses of old edges have no podIPs."""
    assert inside(service(), pods=(pod(status={"podIPs": []}),)) == ["10.86.0.2"]


@pytest.mark.parametrize(("number", "expected"), [(0, []), (1, [1]), (65535, [65535]), (65536, []), (None, [])])
def test_ports_of_slices_that_no_packet_can_have_are_left_out(number: int | None, expected: list[int]) -> None:
    (table,) = tables(service(), slice_of(endpoint("192.0.2.2"), ports=({"name": "", "port": number},)))
    assert [port for _, port in table.inside.endpoints] == expected


@pytest.mark.parametrize(("kind", "pod_name"), [("Pod", "web-1"), ("Node", "")])
def test_an_endpoint_of_a_slice_names_its_pod(kind: str, pod_name: str) -> None:
    state = MeshState(NODE)
    state.put_service(service())
    state.put_slice(slice_of(endpoint("192.0.2.2", targetRef={"kind": kind, "name": "web-1"})))
    assert [each.pod for each in state.backends(KEY)] == [pod_name]


@pytest.mark.parametrize(
    ("annotations", "group", "used"),
    [(GROUPED, "", ["192.0.2.2"]), (GROUPED, "g", ["192.0.2.3"]), ({}, "", ["192.0.2.3", "192.0.2.4"])],
    ids=["KubeEdge's cloud", "ours", "a Service for all"],
)
def test_of_unlabelled_slices_the_endpoints_object_is_the_nodes_part(
    annotations: dict[str, str], group: str, used: list[str]
) -> None:
    """KubeEdge's cloud sends a Service's endpoints in both forms; some of its versions send slices whole."""
    state = MeshState(NODE)
    given = service(annotations=annotations)
    state.put_service(given)
    state.put_endpoints(endpoints_of("192.0.2.2"))
    ends = [endpoint("192.0.2.3", "n3")] + ([] if group else [endpoint("192.0.2.4", "n4")])
    state.put_slice(slice_of(*ends, group=group))
    selected = EndpointSelector(Here(NODE, "g")).select(given, "", state.backends(KEY))
    assert [each.address for each in selected.backends] == used


def test_each_endpoint_has_a_reason() -> None:
    given = service(annotations=GROUPED)
    state = MeshState(NODE)
    state.put_service(given)
    state.put_slice(slice_of(endpoint("192.0.2.3", "n3"), endpoint("192.0.2.4", "n4"), endpoint("10.86.0.9", "n4")))
    state.set_pods((pod(), pod("b", "10.86.0.3", ready=False)))
    here = Here(NODE, "g", groups=GROUPS, own_ranges=("10.86.0.0/16",))
    assert EndpointSelector(here).reasons(given, "", state.backends(KEY)) == [
        Reason.USED, Reason.NOT_READY, Reason.FARTHER, Reason.OTHER_GROUP, Reason.UNREACHABLE,
    ]  # fmt: skip
    assert EndpointSelector(here).reasons(given, "Local", state.backends(KEY))[2] is Reason.OTHER_NODE


def test_equal_texts_of_services_and_slices_are_kept_once() -> None:
    """A thousand Services have the same ports, policies and namespaces."""
    state = MeshState(NODE)
    for name in ("web", "db"):
        state.put_service(service(name, internalTrafficPolicy="Cluster", ports=[{"name": "http", "port": 80}]))
        state.put_slice(slice_of(endpoint("192.0.2.3"), name=name))
    web, db = state.services.values()
    for one, other in (
        (web.metadata.namespace, db.metadata.namespace),
        (web.spec.ports[0].name, db.spec.ports[0].name),
        (web.spec.internal_traffic_policy, db.spec.internal_traffic_policy),
        (web.spec.cluster_ip, web.spec.cluster_ips[0]),
        (web.metadata.name, next(iter(state._slices)).name),
    ):
        assert one
        assert one is other


def test_only_services_of_changed_pods_change() -> None:
    state = MeshState(NODE)
    state.put_service(service())
    state.put_service(service("db", "10.96.0.2"))
    other = ServiceKey("default", "db")
    assert state.set_pods((pod(),)) == {KEY}
    assert state.set_pods((pod(),)) == set()
    assert state.set_pods((pod(labels={"app": "db"}),)) == {KEY, other}
    assert state.set_pods(()) == {other}
    assert state.put_service(service()) == set()
    assert state.put_slice(slice_of(endpoint("192.0.2.2"))) == {KEY}
    assert state.put_slice(slice_of(endpoint("192.0.2.2"))) == set()
    assert state.delete_slice("default", "web-x") == {KEY}
    assert state.delete_slice("default", "web-x") == set()


class _Nft:
    """The program `nft`, which keeps the names of chains and sets."""

    def __init__(self) -> None:
        self.chains: dict[str, set[str]] = {"ip": set(), "ip6": set()}
        self.refuses = 0
        self.last = ""

    def check(self, transaction: str) -> None:
        """Take all."""

    def apply(self, transaction: str) -> None:
        """Take a transaction as a whole, or refuse it: as told, or because it deletes what there is not."""
        self.last = transaction
        words = [line.split() for line in transaction.splitlines() if line]
        gone = [(each[2], each[4]) for each in words if each[0] == "delete" and each[1] in ("chain", "set")]
        self.refuses -= 1
        if self.refuses >= 0 or any(name not in self.chains[family] for family, name in gone):
            raise NftError("No such file or directory")
        for each in words:
            if each[0] == "add" and each[1] in ("chain", "set"):
                self.chains[each[2]].add(each[4])
        for family, name in gone:
            self.chains[family].discard(name)

    def names(self, family: str) -> list[str]:
        """Return the names."""
        return sorted(self.chains[family])

    @property
    def left(self) -> int:
        """The number of chains that come and go with Services."""
        return sum(map(is_temporary, self.chains["ip"]))


def test_remains_of_a_refused_change_and_a_flush_are_deleted_later() -> None:
    """After each of them the rules are made as a whole, without what they were before."""
    nft = _Nft()
    rules = KernelRules(nft, lambda _: True)
    one = [port_table(("192.0.2.1", 80))]
    two = [*one, port_table(("192.0.2.1", 81))._replace(service="db", addresses=("10.96.0.2",))]
    rules.apply(two, ())
    rules.delete_unused()
    assert nft.left == 2
    nft.refuses = 1
    with pytest.raises(NftError):
        rules.apply(one, ())
    rules.apply(one, ())
    assert "flush table ip edgecore" in nft.last
    rules.delete_unused()
    assert nft.left == 1
    rules.apply(two, ())
    rules.apply(one, ())
    nft.chains = {"ip": set(), "ip6": set()}  # somebody has flushed the rules
    rules.forget()
    rules.apply(one, ())
    rules.delete_unused()
    assert nft.left == 1


def test_a_changed_time_of_affinity_is_a_set_of_its_own() -> None:
    """The time of a set does not change."""
    given = port_table(("192.0.2.1", 80))
    ten, twenty = (ruleset(IPV4, [given._replace(affinity=seconds)], ()).sets for seconds in (10, 20))
    assert (list(ten.values()), list(twenty.values()), ten.keys() & twenty.keys()) == ([10], [20], set())


def test_endpoints_are_kept_packed_and_equal_by_content() -> None:
    ends = tuple((f"10.86.{number // 250}.{number % 250}", 8080) for number in range(1000))
    assert target_to(ends).endpoints == ends
    assert len(target_to(ends).packed) < 20 * len(ends)
    assert target_to(ends) != target_to(ends[1:])
    assert (target_to(()), target_to((), drops=True).endpoints) == (MeshTarget(), ())
