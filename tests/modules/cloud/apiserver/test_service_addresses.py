"""The addresses and node ports of Services."""

from typing import Any

import pytest

from beehive.simulation.scheduler import VirtualClock
from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.service_addresses import service_ranges
from modules.cloud.storage.service_numbers import ServiceNumbers

WEB = ObjectKey("Service", "default", "web")


def service(name: str = "web", **spec: Any) -> JsonObject:
    given = {"selector": {"app": name}, "ports": [{"port": 80}], **spec}
    return {"kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}, "spec": given}


def cluster_of(networks: str = "10.96.0.0/16", ports: str = "30000-32767") -> Cluster:
    return Cluster(VirtualClock(0), service_ranges=service_ranges(networks, ports))


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of()


def refusal(cluster: Cluster, obj: JsonObject) -> str:
    with pytest.raises(ApiError) as error:
        cluster.create(obj)
    return error.value.message


def test_a_service_gets_an_address_of_the_upper_band_with_its_family(cluster: Cluster) -> None:
    spec = cluster.create(service())["spec"]
    _, _, third, fourth = map(int, spec["clusterIP"].split("."))
    assert 256 < third * 256 + fourth < 65535
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


@pytest.mark.parametrize(("network", "free"), [("10.96.0.0/28", 13), ("10.96.0.0/27", 29)], ids=["no band", "a band"])
def test_no_address_or_port_is_given_twice_and_a_full_range_is_an_error(network: str, free: int) -> None:
    cluster = cluster_of(network, f"30000-{30000 + free}")
    specs = [cluster.create(service(f"s{n}", type="NodePort"))["spec"] for n in range(free)]
    upper = {spec["ports"][0]["nodePort"] for spec in specs[: free - 15]}
    assert free < 16 or upper == {*range(30016, 30030)}, "the lower band is for Services that name their ports"
    assert len({spec["clusterIP"] for spec in specs}) == len({spec["ports"][0]["nodePort"] for spec in specs}) == free
    assert refusal(cluster, service()) == (
        'Internal error occurred: failed to allocate a serviceIP for Service "web": range is full'
    )
    cluster.delete(ObjectKey("Service", "default", "s3"))
    assert cluster.create(service())["spec"]["clusterIP"] == specs[3]["clusterIP"], "released at once"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"clusterIP": "10.96.0.9"},
         'spec.clusterIPs: Invalid value: []string{"10.96.0.9"}: failed to allocate IP 10.96.0.9: '
         "provided IP is already allocated"),
        ({"clusterIP": "10.96.0.1"},
         'spec.clusterIPs: Invalid value: []string{"10.96.0.1"}: failed to allocate IP 10.96.0.1: '
         "provided IP is already allocated"),
        ({"clusterIP": "10.97.0.9"},
         'spec.clusterIPs: Invalid value: []string{"10.97.0.9"}: failed to allocate IP 10.97.0.9: the provided IP '
         "(10.97.0.9) is not in the valid range. The range of valid IPs is 10.96.0.0/16"),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]},
         "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
         "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. "
         "The range of valid ports is 30000-32767"),
        ({"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'),
        ({"ipFamilyPolicy": "RequireDualStack"},
         'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": '
         "this cluster is not configured for dual-stack services"),
        ({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]},
         '[spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack '
         'services, spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster]'),
        ({"ipFamilies": ["IPv4", "IPv6"]},
         'spec.ipFamilyPolicy: Invalid value: "SingleStack": must be \'RequireDualStack\' or \'PreferDualStack\' when '
         "multiple IP families are specified"),
    ],
)  # fmt: skip
def test_taken_and_missing_addresses_are_refused_in_kubernetes_words(
    cluster: Cluster, spec: JsonObject, message: str
) -> None:
    cluster.create(service("other", clusterIP="10.96.0.9", type="NodePort", ports=[{"port": 1, "nodePort": 30080}]))
    assert refusal(cluster, service(**spec)) == f'Service "web" is invalid: {message}'


@pytest.mark.parametrize("address", ["None", "10.96.0.8"])
def test_another_address_alone_may_not_be_set(cluster: Cluster, address: str) -> None:
    """A client that knows `clusterIP` alone has left `clusterIPs` as it was."""
    made = cluster.create(service(clusterIP="10.96.0.9"))
    with pytest.raises(ApiError) as refused:
        cluster.update({**made, "spec": {**made["spec"], "clusterIP": address}})
    why = f'spec.clusterIPs[0]: Invalid value: []string{{"{address}"}}: may not change once set'
    assert refused.value.message == f'Service "web" is invalid: {why}'


def test_two_families(cluster: Cluster) -> None:
    assert cluster.create(service(ipFamilyPolicy="PreferDualStack"))["spec"]["ipFamilies"] == ["IPv4"]
    both = cluster_of("10.96.0.0/16,fd00::/108")
    spec = both.create(service(ipFamilyPolicy="PreferDualStack"))["spec"]
    assert spec["ipFamilies"] == ["IPv4", "IPv6"]
    assert spec["clusterIPs"][1].startswith("fd00::")
    assert len(both.create(service("one"))["spec"]["clusterIPs"]) == 1


@pytest.mark.parametrize(
    ("spec", "families", "policy"),
    [
        ({"clusterIP": "None"}, ["IPv4"], "SingleStack"),
        ({"clusterIP": "None", "selector": None}, ["IPv4", "IPv6"], "RequireDualStack"),
        ({"type": "ExternalName", "externalName": "a.b", "ports": None}, None, None),
    ],
)
def test_services_without_addresses(
    cluster: Cluster, spec: JsonObject, families: list[str] | None, policy: str | None
) -> None:
    made = cluster.create(service(**spec))["spec"]
    assert (made.get("ipFamilies"), made.get("ipFamilyPolicy")) == (families, policy)
    assert made.get("clusterIP") == spec.get("clusterIP")


def test_addresses_and_ports_stay_when_a_manifest_does_not_say_them_and_go_with_the_type(cluster: Cluster) -> None:
    before = cluster.create(service(type="NodePort"))["spec"]
    after = cluster.update(service(type="NodePort", ports=[{"port": 81}]))["spec"]
    assert after["clusterIPs"] == before["clusterIPs"]
    assert after["ports"][0]["nodePort"] == before["ports"][0]["nodePort"]
    plain = cluster.update({**service(), "spec": {**after, "type": "ClusterIP"}})
    assert "nodePort" not in plain["spec"]["ports"][0]
    external = {**plain["spec"], "type": "ExternalName", "externalName": "a.b", "externalIPs": ["192.0.2.1"]}
    gone = cluster.update({**service(), "spec": external})["spec"]
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "internalTrafficPolicy", "externalTrafficPolicy"} & gone.keys()
    cluster.create(service("other", type="NodePort"))
    bare = cluster.update(service("other", type="LoadBalancer", allocateLoadBalancerNodePorts=False))["spec"]
    assert "nodePort" not in bare["ports"][0]


def test_tcp_and_udp_on_one_number_share_a_node_port(cluster: Cluster) -> None:
    ports = [{"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53}, {"name": "c", "port": 9}]
    numbers = [port["nodePort"] for port in cluster.create(service(type="NodePort", ports=ports))["spec"]["ports"]]
    assert numbers[0] == numbers[1] != numbers[2]


def test_a_node_port_that_is_given_goes_to_its_own_port_and_to_the_other_protocol_only(cluster: Cluster) -> None:
    def numbers(made: JsonObject) -> list[int]:
        return [port["nodePort"] for port in made["spec"]["ports"]]

    shared = [{"name": "a", "port": 53, "protocol": "UDP", "nodePort": 30053}, {"name": "b", "port": 53}]
    assert numbers(cluster.create(service("dns", type="NodePort", ports=shared))) == [30053, 30053]
    for given in (30000, 30001):
        small = cluster_of(ports="30000-30001")
        ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2, "nodePort": given}]
        assert sorted(numbers(small.create(service(type="NodePort", ports=ports)))) == [30000, 30001]
    cluster.create(service(type="NodePort", ports=[{"name": "a", "port": 1, "nodePort": 30001}]))
    moved = [{"name": "a", "port": 1}, {"name": "b", "port": 2, "nodePort": 30001}]
    first, second = numbers(cluster.update(service(type="NodePort", ports=moved)))
    assert first != second == 30001


BALANCED: JsonObject = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}


def test_a_port_for_health_checks_stays_and_goes_with_the_policy(cluster: Cluster) -> None:
    """Only a load balancer with `externalTrafficPolicy: Local` has one, even if it has no other node port."""
    assert "healthCheckNodePort" not in cluster.create(service("other", type="LoadBalancer"))["spec"]
    bare: JsonObject = {**BALANCED, "allocateLoadBalancerNodePorts": False}
    spec = cluster.create(service(**bare))["spec"]
    number = spec["healthCheckNodePort"]
    assert number in range(30000, 32768)
    assert "nodePort" not in spec["ports"][0]
    assert cluster.update(service(**bare))["spec"]["healthCheckNodePort"] == number
    with pytest.raises(ApiError, match=r"spec\.healthCheckNodePort: Forbidden: field is immutable"):
        cluster.update(service(**bare, healthCheckNodePort=30001))
    other = cluster.update(service(type="LoadBalancer", externalTrafficPolicy="Cluster", healthCheckNodePort=number))
    assert "healthCheckNodePort" not in other["spec"]
    assert cluster.update(service(**bare))["spec"]["healthCheckNodePort"]


def test_no_port_for_health_checks_is_given_twice(cluster: Cluster) -> None:
    cluster.create(service("other", **BALANCED, healthCheckNodePort=30080))
    taken = "failed to allocate requested HealthCheck NodePort 30080: provided port is already allocated"
    assert taken in refusal(cluster, service(**BALANCED, healthCheckNodePort=30080))
    assert "already allocated" in refusal(cluster, service(type="NodePort", ports=[{"port": 80, "nodePort": 30080}]))
    own = service(**BALANCED, ports=[{"port": 80, "nodePort": 30081}], healthCheckNodePort=30081)
    assert "already allocated" in refusal(cluster, own)
    assert "not in the valid range" in refusal(cluster, service(**BALANCED, healthCheckNodePort=80))
    small = cluster_of(ports="30000-30001")
    spec = small.create(service(**BALANCED))["spec"]
    assert {spec["healthCheckNodePort"], spec["ports"][0]["nodePort"]} == {30000, 30001}
    full = "failed to allocate a nodePort: range is full"
    assert full in refusal(small, service("next", **BALANCED))
    bare: JsonObject = {**BALANCED, "allocateLoadBalancerNodePorts": False}
    assert "failed to allocate a HealthCheck NodePort: range is full" in refusal(small, service("next", **bare))


def test_an_update_is_refused_what_another_service_has() -> None:
    cluster = cluster_of("10.96.0.0/16,fd00::/108")
    taken = {"port": 1, "nodePort": 30080}
    cluster.create(service("other", ipFamilies=["IPv6"], clusterIP="fd00::9", type="NodePort", ports=[taken]))
    spec = cluster.create(service(type="NodePort", ports=[{"name": "a", "port": 80}]))["spec"]
    ports = [*spec["ports"], {"name": "b", **taken}]
    addresses, families = [spec["clusterIP"], "fd00::9"], ["IPv4", "IPv6"]
    both = {"ipFamilyPolicy": "PreferDualStack", "clusterIPs": addresses, "ipFamilies": families}
    for changed in ({"ports": ports}, both):
        with pytest.raises(ApiError, match="already allocated"):
            cluster.update({**service(), "spec": {**spec, **changed}})


def test_the_last_address_of_a_range_is_the_broadcast_in_ipv4_only() -> None:
    """The smallest ranges have eight addresses."""
    cluster = cluster_of("10.96.0.0/29,fd00::/125")
    assert "is not in the valid range" in refusal(cluster, service(clusterIP="10.96.0.7"))
    assert cluster.create(service(ipFamilies=["IPv6"], clusterIP="fd00::7"))["spec"]["clusterIP"] == "fd00::7"


def test_services_that_an_older_cloudcore_has_stored_get_addresses_at_the_start(cluster: Cluster) -> None:
    cluster.storage.create(service(clusterIP=None), "uid")
    cluster.address_services()
    assert cluster.storage.get(WEB)["spec"]["clusterIP"].startswith("10.96.")
    version = cluster.storage.version
    cluster.address_services()
    assert cluster.storage.version == version
    assert cluster.storage.list(kind_named("Service"))


@pytest.mark.parametrize(
    ("networks", "ports", "why"),
    [
        ("10.96.0.1/16", "1-2", "has host bits set"),
        ("10.0.0.0/24,10.1.0.0/24", "1-2", "one for IPv4 and one for IPv6"),
        ("10.0.0.0/30", "1-2", "8 addresses or more"),
        ("10.0.0.0/24", "2-1", "is written as 30000-32767"),
        ("x", "1-2", "does not appear to be"),
    ],
)
def test_ranges_that_cannot_be_read_are_refused(networks: str, ports: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        service_ranges(networks, ports)


def test_a_new_service_looks_at_no_other(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among a thousand it would cost ten times as much."""
    cluster.create(service())
    monkeypatch.setattr(cluster.storage, "list", None)
    taken = cluster.storage.get(WEB)["spec"]["clusterIP"]
    assert cluster.create(service("other", type="NodePort"))["spec"]["clusterIP"] != taken
    assert "already allocated" in refusal(cluster, service("third", clusterIP=taken))


def test_an_address_that_two_services_have_is_anothers_for_both_until_one_is_gone() -> None:
    """A restored backup may have two."""
    numbers, keys = ServiceNumbers(), [ObjectKey("Service", "default", name) for name in ("a", "b", "c")]
    for key in keys[:2]:
        numbers.put(key, service(key.name, clusterIPs=["10.96.0.9"]))
    assert [numbers.others_have("10.96.0.9", key) for key in keys] == [True, True, True]
    numbers.remove(keys[0])
    assert [numbers.others_have("10.96.0.9", key) for key in keys] == [True, False, True]


def test_an_address_is_free_after_its_service_was_rolled_back(cluster: Cluster) -> None:
    cluster.create(service(clusterIP="10.96.0.9", type="NodePort"))
    port = cluster.storage.get(WEB)["spec"]["ports"][0]["nodePort"]
    cluster.storage.drain_events()
    assert cluster.storage.service_numbers.others_have("10.96.0.9", WEB._replace(name="other"))
    cluster.storage.roll_back()
    assert not cluster.storage.service_numbers.others_have("10.96.0.9", WEB._replace(name="other"))
    made = cluster.create(
        service("other", clusterIP="10.96.0.9", type="NodePort", ports=[{"port": 80, "nodePort": port}])
    )
    assert made["spec"]["ports"][0]["nodePort"] == port
