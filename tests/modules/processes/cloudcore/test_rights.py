"""The rights in deploy/cloudcore.yaml are those that cloudcore uses: a node asks for all that it can, and each request
is compared with the roles.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from beehive.message import Message
from beehive.runtime import Runtime
from modules.apimachinery.csi_drivers import NODE_ID_ANNOTATION
from modules.apimachinery.paths import parse_target
from modules.cloud.authorization.node_rules import RULES
from modules.cloud.client.http import factory
from modules.cloud.client.kubeconfig.model import Selected
from modules.cloud.client.transport import ApiRequest, Exchange, KubeTransport, ResponseListener
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.edgecontroller.upstream.handlers import HANDLERS
from modules.processes.cloudcore import cluster_rights
from modules.processes.cloudcore.cluster_rights import OPTIONAL, needed
from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.deployment import of_kind
from tests.modules.processes.cloudcore.devices import People, device, model, reports, twins
from tests.modules.processes.cloudcore.node_requests import Uids, ask_as_metaserver, pod_that_refers, upstream
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Right(NamedTuple):
    """A right of RBAC."""

    verb: str
    group: str
    resource: str
    name: str = ""
    """Empty: of any name."""
    namespace: str = ""
    """Empty: in all namespaces, or of no namespace."""


class Recording:
    """Carries requests as another transport does, and keeps them (`KubeTransport`)."""

    def __init__(self, transport: KubeTransport, requests: list[ApiRequest]) -> None:
        self._transport = transport
        self._requests = requests

    def start(self, request: ApiRequest, listener: ResponseListener) -> Exchange:
        self._requests.append(request)
        return self._transport.start(request, listener)

    def close(self) -> None:
        self._transport.close()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ApiRequest]:
    """All that cloudcore sends to the API server."""
    made: list[ApiRequest] = []
    original = factory.http_transport

    def recording(selected: Selected, runtime: Runtime, agent: str, connections: int) -> Recording:
        return Recording(original(selected, runtime, agent, connections), made)

    monkeypatch.setattr(factory, "http_transport", recording)
    return made


@pytest.fixture
def both(tmp_path: Path, requests: list[ApiRequest]) -> Iterator[Cluster]:
    made = Cluster(tmp_path, lambda: {"lease": LeaseSettings(name="core")})
    yield made
    made.close()


def rights_of(request: ApiRequest) -> Iterator[Right]:
    """What the user of a request needs. A request as another needs the right to be that one: the other has the rest."""
    if users := headers_of(request, "Impersonate-User"):
        yield from (Right("impersonate", "", "users") for _ in users)
        yield from (Right("impersonate", "", "groups", group) for group in headers_of(request, "Impersonate-Group"))
        return
    path, _, query = request.path.partition("?")
    target = parse_target(tuple(path.strip("/").split("/")))
    collection = "watch" if "watch=true" in query.split("&") else "list"
    verb = VERBS.get(request.method) or ("get" if target.name else collection)
    subresource = f"/{target.subresource}" if target.subresource else ""
    yield Right(verb, target.group, f"{target.plural}{subresource}", namespace=target.namespace)


def headers_of(request: ApiRequest, name: str) -> list[str]:
    """The values of a header."""
    return [value for key, value in request.headers if key == name]


def used_in(requests: Iterable[ApiRequest]) -> set[Right]:
    """What a user needs who makes all these requests."""
    return {right for request in tuple(requests) for right in rights_of(request)}


def granted(*roles: str) -> set[Right]:
    """What these roles of deploy/cloudcore.yaml allow; without names, all but the one for `--state cluster`."""
    return {
        Right(verb, group, resource, name, role["metadata"].get("namespace", ""))
        for role in (*of_kind("ClusterRole"), *of_kind("Role"))
        if role["metadata"]["name"] in roles or (not roles and role["metadata"]["name"] != "cloudcore-state")
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def needed_by(requests: Iterable[ApiRequest]) -> set[Right]:
    """What these requests need, in all namespaces where the roles allow that."""
    allowed = granted()
    anywhere = {right: right._replace(namespace="") for right in used_in(requests)}
    return {anywhere[right] if anywhere[right] in allowed else right for right in anywhere}


def send_all(edge: Edge, cluster: Cluster) -> None:
    """Sends a message of each type, and waits for the answers, or for the effect of unanswered ones."""
    ask_for(edge, Uids(), ("node", "query"))
    ask_for(edge, Uids(), ("node", "insert"))
    cluster.apply(pod_that_refers())
    while edge.next().route.resource != "default/pod/web":
        pass
    uids = uids_of(cluster)
    for key in upstream(uids):
        if key[0] not in ("event", "podstatus"):
            ask_for(edge, uids, key)
    send(edge, uids, ("podstatus", "update"))
    wait_until(lambda: stored(cluster, "web").get("status", {}).get("phase") == "Running", "the status is reported")
    for operation in ("insert", "update", "patch"):
        send(edge, uids, ("event", operation))
    wait_until(
        lambda: [each["involvedObject"]["kind"] for each in cluster.objects("events")].count("Pod") == 3,
        "the events are there",
    )


def report_driver(edge: Edge, cluster: Cluster, node_id: str) -> None:
    """A storage driver comes, or says another name of the node."""
    annotations = {NODE_ID_ANNOTATION: json.dumps({"disks": node_id})}
    edge.ask("default/nodepatch/n1", "patch", json.dumps({"metadata": {"annotations": annotations}}))
    expected = [[{"name": "disks", "nodeID": node_id}]]
    wait_until(lambda: [each["spec"]["drivers"] for each in cluster.objects("csinodes")] == expected, "it is there")


def report_devices(edge: Edge, cluster: Cluster) -> None:
    """A device reports twice: before it has a DeviceStatus, and then."""
    people = People(cluster.cluster.client)
    people.wait()
    people.apply(model())
    people.apply(device())
    while edge.next().route.resource != "default/device/thermo":
        pass
    people.delete("devicestatuses", "thermo")
    for at, value in enumerate(("20", "21")):
        assert reports(edge, "twin/edge_updated", twins({"temperature": value}, at + 1)) == "OK"
    assert people.reported("thermo") == {"temperature": "21"}


def change_identities(cluster: Cluster) -> None:
    """Revokes a node, for one reason and another, and allows it."""
    client = cluster.core.client
    assert [client.revoke("node", "n9"), client.revoke("node", "n9", "stolen"), client.allow("node", "n9")] == [""] * 3


def restart(cluster: Cluster, requests: list[ApiRequest]) -> None:
    """Starts cloudcore again without giving up its Lease, so that it finds it; then gives it up."""
    cluster.core.__exit__()
    before = len(requests)  # the first one has renewed it, too, if the test has taken long
    cluster.start_core()
    wait_until(
        lambda: any(one.method == "PUT" and one.path.endswith("/leases/core") for one in requests[before:]), "renewed"
    )
    cluster.core.core.drain(0.0)


def ask_for(edge: Edge, uids: Uids, key: tuple[str, str]) -> None:
    """Sends one message, and waits for its answer."""
    resource, content = upstream(uids)[key]
    edge.ask(resource, key[1], content)


def send(edge: Edge, uids: Uids, key: tuple[str, str]) -> None:
    """Sends a message that is not answered."""
    resource, content = upstream(uids)[key]
    edge.send(Message.new(CLOCK, source="edged", group="meta", resource=resource, operation=key[1], content=content))


def stored(cluster: Cluster, name: str, plural: str = "pods") -> Any:
    """An object of the cluster."""
    return next(one for one in cluster.objects(plural) if one["metadata"]["name"] == name)


def uids_of(cluster: Cluster) -> Uids:
    """As the cluster has them."""
    return Uids(stored(cluster, "web")["metadata"]["uid"], stored(cluster, "n1", "nodes")["metadata"]["uid"])


def test_the_roles_grant_the_used_rights_and_no_others(both: Cluster, requests: list[ApiRequest]) -> None:
    """A node that sends every message and asks for everything that the node authorizer allows."""
    change_identities(both)
    with both.core.edge() as edge:
        send_all(edge, both)
        report_devices(edge, both)
        for node_id in ("a", "b"):
            report_driver(edge, both, node_id)
        uids = uids_of(both)
        for (group, resource), verbs in RULES.items():
            for verb in (*verbs, *(["watch"] if "list" in verbs else [])):
                ask_as_metaserver(edge, group, resource, verb, uids)
        watches = {right for right in granted() if right.verb == "watch"}
        wait_until(
            lambda: watches <= needed_by(requests), "all watches have begun, those of the node's metaserver, too"
        )
    restart(both, requests)
    needed = needed_by(requests)
    assert needed - granted() == set(), "used, and not granted"
    assert granted() - needed == set(), "granted, and never used"


def asked_for(rights: Iterable[cluster_rights.Right]) -> set[Right]:
    """What the doctor asks for."""
    return {Right(right.verb, right.group, right.resource, right.name, right.namespace) for right in rights}


def test_the_doctor_asks_for_the_rights_of_the_roles_that_every_cloudcore_has() -> None:
    always = granted("cloudcore", "cloudcore-node-leases", "cloudcore-leases", "cloudcore-identities")
    assert asked_for(needed("kubeedge")) == always
    assert asked_for(needed("kubeedge", keeps_state=True)) == always | granted("cloudcore-state")
    assert {right.namespace for right in needed("edge", keeps_state=True)} == {"", "edge", "kube-node-lease"}


def test_the_doctor_asks_for_the_rights_of_each_optional_role() -> None:
    for name, role in OPTIONAL.items():
        assert asked_for(role.rights) == granted(name)
    names = {each["metadata"]["name"] for each in (*of_kind("ClusterRole"), *of_kind("Role"))}
    assert names == {
        "cloudcore",
        "cloudcore-node-leases",
        "cloudcore-leases",
        "cloudcore-identities",
        "cloudcore-state",
        *OPTIONAL,
    }


def test_only_nodes_are_impersonated(both: Cluster, requests: list[ApiRequest]) -> None:
    """RBAC cannot say that users begin with `system:node:`, so cloudcore must not be anybody else."""
    with both.core.edge() as edge:
        ask_for(edge, Uids(), ("node", "insert"))
        ask_for(edge, Uids(), ("certificatesigningrequest", "insert"))
    users = {user for request in tuple(requests) for user in headers_of(request, "Impersonate-User")}
    assert users == {"system:node:n1"}


def test_every_message_that_a_node_can_send_is_sent() -> None:
    assert set(upstream(Uids())) == {*HANDLERS, ("node", "insert")}
