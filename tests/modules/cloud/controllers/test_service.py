"""EndpointSlices and Endpoints of Services, in virtual time."""

from typing import Any

import pytest

from modules.apimachinery.conditions import condition_of
from modules.apimachinery.endpoint_addresses import SERVICE_NAME
from modules.apimachinery.kinds import JsonObject, version_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.client.calls import MERGE
from modules.cloud.controllers import service as controller
from modules.cloud.controllers.endpoint_slices import MANAGED_BY
from tests.modules.cloud.controllers.site import Site, site_of

PORTS = [{"port": 80, "targetPort": 8080}]


def service(name: str = "web", **spec: Any) -> JsonObject:
    given = {"selector": {"app": name}, "ports": PORTS, **spec}
    return {"kind": "Service", "apiVersion": "v1", "metadata": {"name": name}, "spec": given}


def pod(name: str, ports: dict[str, int] | None = None, **spec: Any) -> JsonObject:
    container: JsonObject = {"name": "main", "image": "app:1"}
    if ports:
        container["ports"] = [{"name": key, "containerPort": number} for key, number in ports.items()]
    metadata = {"name": name, "labels": {"app": "web"}}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": [container], **spec}}


def run(site: Site, number: int, *, ready: bool = True, seconds: float = 0, **fields: Any) -> JsonObject:
    """Make a pod with an address, as its node reports it, and let time pass."""
    made = site.apply(pod(f"p{number:03}", **fields))
    address = f"10.1.{number // 250}.{number % 250 + 1}"
    site.report(made, "Running", ready=ready, seconds=seconds, podIP=address, podIPs=[{"ip": address}])
    return made


def slices(site: Site) -> list[JsonObject]:
    return sorted(site.all("EndpointSlice"), key=lambda each: -len(each["endpoints"]))


def shown(site: Site) -> dict[str, tuple[bool, bool, bool]]:
    """Return ready, serving and terminating by address."""
    return {
        endpoint["addresses"][0]: tuple(endpoint["conditions"][name] for name in ("ready", "serving", "terminating"))
        for each in slices(site)
        for endpoint in each["endpoints"]
    }


def test_a_service_without_pods_has_an_empty_slice_and_endpoints_that_a_person_can_read(site: Site) -> None:
    made = site.apply(service())
    (found,) = slices(site)
    assert found["metadata"]["name"].startswith("web-")
    assert found["metadata"]["labels"] == {SERVICE_NAME: "web", MANAGED_BY: "endpointslice-controller.k8s.io"}
    assert found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert (found["addressType"], found["endpoints"], found["ports"]) == ("IPv4", [], [])
    assert "subsets" not in site.get("Endpoints", "web")
    run(site, 0, seconds=5)
    (same,) = slices(site)
    assert same["metadata"]["name"] == found["metadata"]["name"], "it is used again"


def test_an_endpoint_has_all_fields_that_proxies_read() -> None:
    site = Site(nodes=())
    site.add_node("n1", labels={"topology.kubernetes.io/zone": "hall"})
    site.apply(service(clusterIP="None", trafficDistribution="PreferClose"))
    made = run(site, 0, hostname="a", subdomain="web", seconds=5)
    (found,) = slices(site)
    assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    assert found["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
    assert found["endpoints"] == [{
        "addresses": ["10.1.0.1"], "conditions": {"ready": True, "serving": True, "terminating": False},
        "hostname": "a", "nodeName": "n1", "zone": "hall", "hints": {"forZones": [{"name": "hall"}]},
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "p000", "uid": made["metadata"]["uid"]},
    }]  # fmt: skip
    endpoints = site.get("Endpoints", "web")
    assert endpoints["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    assert endpoints["subsets"][0]["addresses"][0]["ip"] == "10.1.0.1"
    assert endpoints["subsets"][0]["ports"] == [{"port": 8080, "protocol": "TCP"}]


def test_a_terminating_pod_serves_but_is_not_ready_and_an_ended_one_is_gone() -> None:
    site = site_of(service())
    first, second = run(site, 0), run(site, 1)
    site.offline = {"n1", "n2", "n3"}
    site.call("delete", first, seconds=2)
    assert shown(site) == {"10.1.0.1": (False, True, True), "10.1.0.2": (True, True, False)}
    assert len(site.get("Endpoints", "web")["subsets"][0]["addresses"]) == 1
    site.report(second, "Failed", podIP="10.1.0.2", seconds=2)
    assert set(shown(site)) == {"10.1.0.1"}


@pytest.mark.parametrize("publishes", [False, True])
def test_pods_that_are_not_ready(site: Site, publishes: bool) -> None:
    site.ready_after = lambda _: None
    site.apply(service(publishNotReadyAddresses=publishes))
    run(site, 0, ready=False, seconds=2)
    assert shown(site) == {"10.1.0.1": (publishes, False, False)}
    assert ("addresses" if publishes else "notReadyAddresses") in site.get("Endpoints", "web")["subsets"][0]
    site.offline = {"n1", "n2", "n3"}
    site.call("delete", site.get("Pod", "p000"), seconds=5)
    assert ("subsets" in site.get("Endpoints", "web")) is publishes, "an address that is published until its end"


@pytest.mark.parametrize("publishes", [False, True])
def test_an_address_on_a_node_that_is_gone_is_published_only_if_all_are(site: Site, publishes: bool) -> None:
    site.apply(service(publishNotReadyAddresses=publishes))
    name = run(site, 0, seconds=5)["spec"]["nodeName"]
    (node,) = (each for each in site.all("Node") if each["metadata"]["name"] == name)
    site.call("delete", node, seconds=5)
    assert set(shown(site)) == ({"10.1.0.1"} if publishes else set())


def test_connections_are_not_kept_in_the_zone_of_a_pod_that_is_not_ready() -> None:
    site = Site(nodes=())
    site.ready_after = lambda _: None
    site.add_node("n1", labels={"topology.kubernetes.io/zone": "hall"})
    site.apply(service(trafficDistribution="PreferClose"))
    run(site, 0, ready=False, seconds=5)
    (endpoint,) = slices(site)[0]["endpoints"]
    assert (endpoint["zone"], endpoint.get("hints")) == ("hall", None)


@pytest.mark.parametrize(("policy", "ports"), [("Always", [9000]), ("", [])])
def test_a_port_by_name_may_be_a_sidecars(policy: str, ports: list[int]) -> None:
    """The port of another init container is closed when the pod serves."""
    site = site_of(service(ports=[{"port": 80, "targetPort": "http"}]))
    before = {"name": "s", "image": "i", "ports": [{"name": "http", "containerPort": 9000}]}
    run(site, 0, initContainers=[{**before, **({"restartPolicy": policy} if policy else {})}], seconds=5)
    assert [port["port"] for port in slices(site)[0]["ports"]] == ports


def test_of_too_many_addresses_endpoints_have_the_ready_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """And say that there are more (endpoints.kubernetes.io/over-capacity)."""
    monkeypatch.setattr(controller, "_MOST_ADDRESSES", 2)
    site = Site()
    site.ready_after = lambda _: None
    site.apply(service())
    for number in range(4):
        run(site, number, ready=number > 1)
    site.run_for(5)
    endpoints = site.get("Endpoints", "web")
    assert [each["ip"] for each in endpoints["subsets"][0]["addresses"]] == ["10.1.0.3", "10.1.0.4"]
    assert "notReadyAddresses" not in endpoints["subsets"][0]
    assert endpoints["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"] == "truncated"
    site.call("delete", site.get("Pod", "p000"))
    site.call("delete", site.get("Pod", "p001"), seconds=60)
    assert "annotations" not in site.get("Endpoints", "web")["metadata"]


def test_250_pods_are_three_slices_and_a_change_of_readiness_writes_one_of_them(site: Site) -> None:
    site.ready_after = lambda _: None
    site.apply(service())
    pods = [run(site, number) for number in range(250)]
    site.run_for(5)
    assert [len(each["endpoints"]) for each in slices(site)] == [100, 100, 50]
    before = {each["metadata"]["name"]: version_of(each) for each in slices(site)}
    site.report(pods[130], "Running", ready=False, podIP="10.1.0.131", podIPs=[{"ip": "10.1.0.131"}], seconds=5)
    changed = [each for each in slices(site) if before[each["metadata"]["name"]] != version_of(each)]
    assert len(changed) == 1
    assert len(shown(site)) == 250


def test_changes_within_a_second_are_one_write(site: Site) -> None:
    site.ready_after = lambda _: None
    site.apply(service(), seconds=5)
    site.writes.clear()
    for number in range(20):
        run(site, number)
    site.run_for(5)
    written = [call for call in site.writes if call.plural == "endpointslices"]
    assert len(written) <= 2
    assert len(shown(site)) == 20


def test_ports_by_name_differ_by_pod(site: Site) -> None:
    """Pods without one of them, or with another number for it, are in slices of their own."""
    ports = [{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81, "targetPort": "admin"}]
    site.apply(service(ports=ports))
    run(site, 0, ports={"http": 8080, "admin": 9090})
    run(site, 1, ports={"http": 8080, "admin": 9090})
    run(site, 2, ports={"http": 8081, "admin": 9090})
    run(site, 3, ports={"http": 8080}, seconds=5)
    found = sorted(
        ([(port["name"], port["port"]) for port in each["ports"]], len(each["endpoints"])) for each in slices(site)
    )
    assert found == [([("a", 8080)], 1), ([("a", 8080), ("b", 9090)], 2), ([("a", 8081), ("b", 9090)], 1)]


def heard(site: Site, status: str) -> None:
    """Write what the API server knows of the only node: `True` or `Unknown`."""
    (node,) = site.all("Node")
    conditions = [{"type": "Ready", "status": status, "lastTransitionTime": format_rfc3339(site.clock.now())}]
    site.cluster.replace({**node, "status": {**node["status"], "conditions": conditions}})
    site.settle()


def silent(site: Site) -> tuple[JsonObject, ...]:
    """Silence the only node, with two pods behind a Service, one of them ready."""
    site.ready_after = lambda _: None
    site.apply(service())
    pods = run(site, 0), run(site, 1, ready=False)
    site.run_for(5)
    heard(site, "Unknown")
    return pods


def test_a_node_that_is_silent_for_two_minutes_keeps_its_endpoints_and_one_for_six_does_not() -> None:
    site = Site(nodes=("n1",))
    pod, _ = silent(site)
    site.run_for(120)
    assert shown(site)["10.1.0.1"][0], "a break of the link is no change for all nodes"
    site.run_for(240)
    assert shown(site)["10.1.0.1"] == (False, False, False)
    condition = condition_of(site.get("Pod", "p000"), "Ready")
    assert condition["status"] == "False"
    assert condition["lastTransitionTime"] == format_rfc3339(site.clock.now() - 60)
    assert site.get("Pod", "p000")["status"]["phase"] == "Running", "silence is not death"
    told = [event["involvedObject"]["name"] for event in site.all("Event") if event["message"] == "Node is not ready"]
    assert told == ["p000"]
    heard(site, "True")
    site.report(pod, "Running", ready=True, podIP="10.1.0.1", podIPs=[{"ip": "10.1.0.1"}], seconds=5)
    assert shown(site)["10.1.0.1"] == (True, True, False)


def test_a_node_whose_lease_alone_is_late_has_the_last_word_about_its_pods() -> None:
    site = Site(nodes=("n1",))
    pod, _ = silent(site)
    site.run_for(400)
    site.report(pod, "Running", ready=True, podIP="10.1.0.1", podIPs=[{"ip": "10.1.0.1"}], seconds=600)
    assert shown(site)["10.1.0.1"] == (True, True, False)
    heard(site, "True")
    heard(site, "Unknown")
    site.run_for(400)
    assert shown(site)["10.1.0.1"] == (False, False, False), "it is marked once each time that it falls silent"


def test_a_service_finds_its_pods_by_all_pairs_of_its_selector() -> None:
    site = site_of(service(selector={"app": "web", "tier": "front"}))
    run(site, 0)
    run(site, 1, seconds=3)
    assert shown(site) == {}
    site.patch(site.get("Pod", "p001"), {"metadata": {"labels": {"tier": "front"}}}, seconds=3)
    assert set(shown(site)) == {"10.1.0.2"}
    site.patch(site.get("Service", "web"), {"spec": {"selector": {"tier": None}}}, seconds=3)
    assert set(shown(site)) == {"10.1.0.1", "10.1.0.2"}
    site.patch(site.get("Pod", "p001"), {"metadata": {"labels": {"app": "other"}}}, seconds=3)
    assert set(shown(site)) == {"10.1.0.1"}


def test_hand_made_endpoints_are_mirrored_for_a_service_without_a_selector() -> None:
    site = site_of(service(selector=None))
    made = site.apply({
        "kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "web"},
        "subsets": [{"addresses": [{"ip": "10.9.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 5}]}],
    })  # fmt: skip
    site.run_for(3)
    assert {each["addressType"] for each in slices(site)} == {"IPv4", "IPv6"}
    assert {each["metadata"]["labels"][MANAGED_BY] for each in slices(site)} == {
        "endpointslicemirroring-controller.k8s.io"
    }
    subsets = [{"addresses": [{"ip": "10.9.0.2"}], "ports": [{"port": 6}]}]
    site.call("patch", made, patch_type=MERGE, body={"subsets": subsets}, seconds=3)
    (changed,) = slices(site)
    assert (changed["endpoints"][0]["addresses"], changed["ports"][0]["port"]) == (["10.9.0.2"], 6)
    (owner,) = changed["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Endpoints", made["metadata"]["uid"]), "it goes with them"
    skip = {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
    site.call("patch", made, patch_type=MERGE, body=skip, seconds=3)
    assert slices(site) == []


def test_slices_mirror_annotations_and_each_address_once() -> None:
    """As kube-controller-manager's, which leaves out how and when somebody has applied the Endpoints."""
    site = site_of(service(selector=None))
    left_out = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    made = site.apply({
        "kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "web", "annotations": {"a": "b", **left_out}},
        "subsets": [{"addresses": [{"ip": "10.9.0.1", "hostname": "h"}, {"ip": "10.9.0.1"}, {"ip": "10.9.0.2"}],
                     "notReadyAddresses": [{"ip": "10.9.0.2"}], "ports": [{"port": 5}]}],
    }, seconds=3)  # fmt: skip
    (mirror,) = slices(site)
    found = [(each["addresses"], each["conditions"]["ready"], each.get("hostname")) for each in mirror["endpoints"]]
    assert found == [(["10.9.0.1"], True, "h"), (["10.9.0.2"], False, None)]
    assert mirror["metadata"]["annotations"] == {"a": "b"}
    for annotations, expected in (({"a": "c"}, {"a": "c"}), ({"a": None}, {})):
        site.call("patch", made, patch_type=MERGE, body={"metadata": {"annotations": annotations}}, seconds=3)
        assert slices(site)[0]["metadata"].get("annotations", {}) == expected


def test_the_endpoints_of_an_election_are_not_mirrored() -> None:
    site = site_of(service(selector=None))
    metadata = {"name": "web", "annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}
    subsets = [{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 5}]}]
    site.apply({"kind": "Endpoints", "apiVersion": "v1", "metadata": metadata, "subsets": subsets}, seconds=3)
    assert slices(site) == []


def mirrored() -> tuple[Site, JsonObject]:
    """Return a site with a Service whose hand-made Endpoints are mirrored, and the Service."""
    site = Site()
    made = site.apply(service(selector=None))
    subsets = [{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 5}]}]
    site.apply({"kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "web"}, "subsets": subsets}, seconds=3)
    assert [each["endpoints"][0]["addresses"] for each in slices(site)] == [["10.9.0.1"]]
    return site, made


def test_a_service_that_gets_a_selector_has_no_longer_the_addresses_of_hand_made_endpoints() -> None:
    site, made = mirrored()
    site.patch(made, {"spec": {"selector": {"app": "web"}}})
    run(site, 1, seconds=3)
    assert set(shown(site)) == {"10.1.0.2"}


def test_the_endpoints_that_were_mirrored_for_a_deleted_service_are_deleted() -> None:
    site, made = mirrored()
    site.call("delete", made, seconds=3)
    assert site.all("Endpoints") == []


def test_endpoints_that_are_made_before_their_service_stay(site: Site) -> None:
    subsets = [{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 5}]}]
    site.apply({"kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "web"}, "subsets": subsets}, seconds=3)
    site.apply(service(selector=None), seconds=3)
    assert len(slices(site)) == 1


def test_a_deleted_service_leaves_the_endpoints_of_others(site: Site) -> None:
    made = site.apply(service())
    other = {"kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "leader"}}
    site.apply(other)
    site.call("delete", made, seconds=3)
    assert [each["metadata"]["name"] for each in site.all("Endpoints")] == ["leader"]


def test_a_settled_service_is_not_written_again() -> None:
    site = site_of(service(ports=[{"name": "a", "port": 80, "appProtocol": "http"}, {"name": "b", "port": 81}]))
    for number in range(5):
        run(site, number)
    site.run_for(10)
    site.writes.clear()
    site.restart()
    site.run_for(10)
    assert site.writes == []


@pytest.mark.parametrize("seed", range(3))
def test_the_controllers_are_killed_while_pods_come_and_go(seed: int) -> None:
    site = site_of(service(), seed=seed)
    for number in range(120):
        run(site, number)
        if number % 17 == 0:
            site.restart()
        if number % 7 == 0:
            site.call("delete", site.get("Pod", f"p{number:03}"))
    site.run_for(20)
    left = {each["status"]["podIP"] for each in site.pods()}
    assert set(shown(site)) == left
    assert sum(len(each["endpoints"]) for each in slices(site)) == len(left), "none is in two slices"


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "0.0.0.0", "x"])  # noqa: S104 - refused
def test_an_address_that_no_pod_has_is_left_out_and_the_others_are_shown(address: str) -> None:
    """A node could otherwise hold back the endpoints of a Service's other pods, as the slice is refused."""
    site = site_of(service())
    made = run(site, 1)
    site.report(made, "Running", ready=True, podIP=address, podIPs=[{"ip": address}])
    run(site, 2, seconds=5)
    assert list(shown(site)) == ["10.1.0.3"]
