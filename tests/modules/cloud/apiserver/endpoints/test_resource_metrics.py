"""`metrics.k8s.io` on a cluster alone, with nodes that keep when they are asked."""

import pytest

from beehive.http.request import Request, request_from
from beehive.http.responses import Response
from beehive.http.server import RequestHead
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.access.service import AccessService, NodeCaller
from modules.cloud.apiserver.endpoints.node_usage import BETWEEN_SECONDS, FRESH_SECONDS, KEPT_SECONDS, SILENT_SECONDS
from modules.cloud.apiserver.endpoints.service import ApiService, Requester
from modules.cloud.authentication.users import User
from tests.modules.cloud.apiserver.endpoints.metrics_site import PODS, ROOT, Site, measured
from tests.modules.cloud.apiserver.endpoints.serving import Serving, not_asked


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_nodes_and_pods(site: Site) -> None:
    """In metrics-server's form, with quantities; without unmeasured values and nodes without a tunnel."""
    node = site.get(f"{ROOT}/nodes/n1")
    assert (node["kind"], node["usage"]) == ("NodeMetrics", {"cpu": "500000000n", "memory": "1048576Ki"})
    assert node["window"] == "2.100s"
    assert site.names(f"{ROOT}/nodes") == ["n1", "n2"]
    pod = site.get(f"{PODS}/web")
    assert pod["metadata"]["labels"] == {"app": "web"}
    assert pod["containers"] == [{"name": "main", "usage": {"cpu": "250000000n", "memory": "3072Ki"}}]
    assert sorted(site.names(f"{ROOT}/pods")) == ["db", "web"]
    assert site.names(PODS, labelSelector="app=db") == ["db"]
    assert site.names(PODS, fieldSelector="spec.nodeName=n1") == ["web"]
    assert site.names(f"{ROOT}/namespaces/other/pods") == []


def test_a_node_is_asked_twice_then_once_and_not_while_its_answer_is_fresh(site: Site) -> None:
    """Its rate is the average since it was asked before, which must neither be now nor long ago."""
    for pause in (0.0, 1.0, FRESH_SECONDS, KEPT_SECONDS + 1):
        site.simulation.run_for(pause)
        assert site.get(f"{ROOT}/nodes/n1")["status"] == 200
    times = [at - site.nodes.asked[0][0] for at, names in site.nodes.asked if names == ["n1"]]
    once = BETWEEN_SECONDS + 1 + FRESH_SECONDS
    assert times == pytest.approx([0, BETWEEN_SECONDS, once, once + KEPT_SECONDS + 1, once + KEPT_SECONDS + 3.1])


def test_nobody_waits_for_nodes_without_a_tunnel(site: Site) -> None:
    """There is no second question, either."""
    before = site.simulation.clock.monotonic()
    assert site.get(f"{ROOT}/nodes/n3")["code"] == 404
    assert [names for _, names in site.nodes.asked] == [["n3"]]
    assert site.simulation.clock.monotonic() == before


def test_nothing_is_kept_when_nobody_asks(site: Site) -> None:
    """Neither answers, nor timers: the simulation runs out of events."""
    site.nodes.answers["n3"] = None
    site.get(f"{ROOT}/pods")
    site.get(f"{ROOT}/nodes")
    assert site.service._metrics is not None
    usage = site.service._metrics._usage
    assert (usage._known, usage._silent) != ({}, {})
    site.simulation.run_for(3 * KEPT_SECONDS)
    assert usage._timer is not None
    assert (usage._known, usage._asked, usage._silent, usage._timer.active) == ({}, {}, {}, False)


def test_a_node_that_hangs_is_left_alone_for_a_while(site: Site) -> None:
    """So that one person's question does not wait for it each time."""
    site.nodes.answers["n1"] = None
    assert [site.names(f"{ROOT}/nodes") for _ in range(2)] == [["n2"], ["n2"]]
    assert sum("n1" in names for _, names in site.nodes.asked) == 1
    site.simulation.run_for(SILENT_SECONDS)
    site.nodes.answers["n1"] = site.summary("web", 7)
    assert site.names(f"{ROOT}/nodes") == ["n1", "n2"]


def test_a_node_is_not_believed(site: Site) -> None:
    """Of what it says only what is about its own pods and their containers counts."""
    foreign = site.summary("web", 9)
    foreign["pods"][0]["containers"].append(measured("stranger", 1, 1))
    site.nodes.answers = {"n2": foreign}
    assert site.names(f"{ROOT}/pods") == []
    earlier = site.summary("web", 9)
    earlier["pods"][0]["podRef"]["uid"] = "of a pod that is gone"
    site.nodes.answers = {"n1": earlier}
    site.simulation.run_for(KEPT_SECONDS)
    assert site.names(f"{ROOT}/pods") == []
    site.nodes.answers = {"n1": foreign}
    site.simulation.run_for(KEPT_SECONDS)
    assert [each["name"] for each in site.get(f"{PODS}/web")["containers"]] == ["main"]


@pytest.mark.parametrize(
    "said",
    [b"no such container", b"{}", b'{"node":{"cpu":{"usageNanoCores":-1}}}', b'{"node":{},"pods":[' + b"[" * 5000,
     b'{"node":{"cpu":{"usageNanoCores":18446744073709551616}}}', b'{"node":{},"pods":"' + b"x" * 300 + b'"}'],
    ids=["text", "empty", "negative", "deep", "large", "kind"],
)  # fmt: skip
def test_what_cannot_be_read_is_left_out(site: Site, said: bytes) -> None:
    """And the other nodes are served, and the node is left alone for a while."""
    site.nodes.answers["n1"] = said
    assert [site.names(f"{ROOT}/nodes") for _ in range(2)] == [["n2"], ["n2"]]
    assert sum("n1" in names for _, names in site.nodes.asked) == 2
    refused = site.get(f"{PODS}/web")
    assert (refused["code"], refused["message"]) == (404, 'podmetrics.metrics.k8s.io "default/web" not found')


def test_refusals_and_their_reasons(site: Site) -> None:
    """With kube-apiserver's statuses; what is no node or pod at all as its own group refuses it."""
    assert site.get(f"{PODS}/none")["message"] == 'pods "none" not found'
    assert site.get(f"{ROOT}/nodes/n3")["code"] == 404
    for path in (f"{ROOT}/namespaces/default/nodes", "/apis/metrics.k8s.io/v1/nodes", f"{PODS}/web/status"):
        assert site.get(path)["code"] == 404
    assert site.get(f"{ROOT}/nodes", watch="true")["code"] == 405
    assert site.ask("DELETE", f"{PODS}/web").status == 405
    assert site.get(f"{ROOT}/nodes", labelSelector="a in")["code"] == 400


def test_discovery(site: Site) -> None:
    """The group and its fields exist only for users who may ask nodes."""
    resources = {each["name"]: each for each in site.get(ROOT)["resources"]}
    assert {name: (each["kind"], each["verbs"]) for name, each in resources.items()} == {
        "nodes": ("NodeMetrics", ["get", "list"]),
        "pods": ("PodMetrics", ["get", "list"]),
    }
    schema = site.get(f"/openapi/v3{ROOT}")["components"]["schemas"]["io.k8s.metrics.v1beta1.PodMetrics"]
    assert list(schema["properties"]["containers"]["items"]["properties"]) == ["name", "usage"]
    alone = Serving()
    assert alone.ask("GET", ROOT).status == 404
    assert alone.ask("GET", f"{ROOT}/nodes").status == 404


def test_without_tunnels_the_error_has_the_remedy(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for logs."""

    def gather(*_: object) -> list[str]:
        raise ApiStatusError(503, "start with --tunnel-listen")

    monkeypatch.setattr(site.nodes, "gather", gather)
    refused = site.get(f"{ROOT}/nodes")
    assert (refused["code"], refused["message"]) == (503, "start with --tunnel-listen")


class OnlyNode:
    """Takes every client for a node."""

    def user(self, request: Request, /) -> User | None:
        return User("system:node:n1", groups=("system:nodes",))


@pytest.mark.parametrize("path", [f"{ROOT}/nodes/n1", f"{PODS}/web", ROOT, "/api/v1/watch/pods"])
def test_a_node_may_not_ask(site: Site, path: str) -> None:
    """Not even of itself, as with metrics-server; nor watch by the deprecated paths."""
    clock = site.simulation.clock
    served = ApiService(Requester(NodeCaller(site, "n1")), site.subscriptions, "v1.32.10", clock)
    reply = AccessService(OnlyNode(), site.service, lambda _: served, not_asked).serve(
        request_from(RequestHead("GET", path, (), "1.1"), b"")
    )
    assert isinstance(reply, Response)
    assert (reply.status, site.nodes.asked) == (404 if path == ROOT else 403, [])
