"""Subresources that a pod's node serves: what is asked of the node, and what is refused before."""

import logging
from typing import Any

import pytest

from beehive.http.request import Request, request_from
from beehive.http.responses import Reply, Response, text
from beehive.http.server import RequestHead
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.paths import parse_target
from modules.cloud.apiserver.endpoints.pod_streams import is_stream, serve_stream
from modules.cloud.client.calls import ApiCall, ApiResult

POD = "/api/v1/namespaces/default/pods/web"


class Site:
    """A pod, and a node that keeps what it is asked."""

    def __init__(self, *containers: str, initial: tuple[str, ...] = (), node: str = "n1") -> None:
        spec: dict[str, Any] = {"containers": [{"name": each} for each in containers]}
        spec |= {"initContainers": [{"name": each} for each in initial], **({"nodeName": node} if node else {})}
        self.pod = {"metadata": {"name": "web"}, "spec": spec}
        self.asked: list[tuple[str, str]] = []

    def call(self, call: ApiCall) -> ApiResult:
        if call.plural == "nodes" and call.name in ("n1", "n7"):
            return ApiResult({"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10255}}}})
        if call.name != "web":
            return ApiResult(refusal={"code": 404, "message": f'pods "{call.name}" not found'})
        return ApiResult(self.pod)

    def reply(self, node: str, target: str, request: Request) -> Reply:
        self.asked.append((node, target))
        return text(200, "of the node")

    def serve(self, target: str, method: str = "GET") -> Reply:
        request = request_from(RequestHead(method, target, (("user-agent", "kubectl/v1.32"),), "1.1"), b"")
        wanted = parse_target(request.parts)
        assert is_stream(wanted)
        return serve_stream(request, wanted, self, self, "vera\x1b[2J")


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        ("log", "/containerLogs/default/web/main"),
        (
            "log?container=main&follow=true&previous=false&timestamps=true&tailLines=5&sinceSeconds=60&limitBytes=9"
            "&insecureSkipTLSVerifyBackend=true&pretty=1",
            "/containerLogs/default/web/main?follow=true&timestamps=true&sinceSeconds=60&tailLines=5&limitBytes=9",
        ),
        (
            "log?sinceTime=2026-11-22T00%3A00%3A00Z",
            "/containerLogs/default/web/main?sinceTime=2026-11-22T00%3A00%3A00Z",
        ),
        (
            "exec?command=sh&command=-c&command=a%26b&stdin=true&stdout=true&stderr=true",
            "/exec/default/web/main?command=sh&command=-c&command=a%26b&input=1&output=1&error=1",
        ),
        ("exec?command=sh&stdout=1&stderr=1&tty=true", "/exec/default/web/main?command=sh&output=1&tty=1"),
        ("attach?command=no&stdout=true&stdin=false", "/attach/default/web/main?output=1"),
        ("portforward?ports=80", "/portForward/default/web?port=80"),
        ("portforward?ports=80,81", "/portForward/default/web?port=80%2C81"),
        ("portforward", "/portForward/default/web"),
    ],
    ids=["log", "log-options", "log-since", "exec", "exec-tty", "attach", "port", "ports", "port-forward"],
)
def test_a_node_is_asked_in_a_kubelets_words(target: str, asked: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    site = Site("main")
    site.serve(f"{POD}/{target}")
    assert site.asked == [("n1", asked)]
    what = " ".join([target.partition("?")[0], *asked.partition("?")[0].split("/")[2:]])
    said = "" if target.startswith("log") else f"vera\\x1b[2J (kubectl/v1.32) asks node n1 for {what}"
    assert "".join(caplog.messages) == said


@pytest.mark.parametrize(
    ("site", "target", "code", "message"),
    [
        (Site("a", "b"), f"{POD}/log", 400, "a container name must be specified for pod web, choose one of: [a b]"),
        (
            Site("a", "b", initial=("i",)), f"{POD}/exec", 400,
            "a container name must be specified for pod web, choose one of: [a b] or one of the init containers: [i]",
        ),
        (Site("a"), f"{POD}/attach?container=b", 400, "container b is not valid for pod web"),
        (Site("a", node=""), f"{POD}/exec", 400, "pod web does not have a host assigned"),
        (Site("a"), POD.replace("web", "none") + "/log", 404, 'pods "none" not found'),
        (Site("a"), f"{POD}/log?tailLines=-1", 422, 'PodLogOptions "web" is invalid: tailLines: Invalid value: -1: '),
        (Site("a"), f"{POD}/log?tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (Site("a"), f"{POD}/portforward?ports=80&ports=x", 400,
         'cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax'),
        (Site("a"), f"{POD}/portforward?ports=70000", 400, 'strconv.ParseUint: parsing "70000": value out of range'),
        (Site("a"), "/api/v1/nodes/n1/proxy/configz", 404, "only these paths are served"),
        (Site("a"), "/api/v1/nodes/n1:22/proxy/metrics", 400, "of a node only its server is reached"),
        (Site("a"), "/api/v1/nodes/n1:0/proxy/metrics", 400, "of a node only its server is reached"),
        (Site("a"), "/api/v1/nodes/none:10255/proxy/metrics", 404, '"none" not found'),
        (Site("a"), "/api/v1/nodes/ftp:n1:10250/proxy/metrics", 400, 'invalid node request "ftp:n1:10250"'),
        (Site("a"), "/api/v1/nodes/:10250/proxy/metrics", 400, 'invalid node request ":10250"'),
        (Site("a"), "/api/v1/nodes/n1/proxy/edgecore/state", 404, "edgecore/chains/NAMESPACE/POD"),
        (Site("a"), "/api/v1/nodes/n1/proxy/edgecore/chains/a/b/c", 404, "only these paths are served"),
    ],
    ids=["which", "which-initial", "no-container", "no-node", "no-pod", "option", "number", "port", "large-port",
         "path", "port-of-node", "port-0", "no-such-node", "scheme", "no-name", "state", "long-path"],
)  # fmt: skip
def test_what_no_node_can_answer_is_refused_as_kube_apiserver_does(
    site: Site, target: str, code: int, message: str
) -> None:
    with pytest.raises(ApiStatusError) as refused:
        site.serve(target)
    assert (refused.value.code, site.asked) == (code, [])
    assert message in refused.value.message


@pytest.mark.parametrize(("target", "method"), [("log", "POST"), ("exec", "PUT"), ("attach", "DELETE")])
def test_methods(target: str, method: str) -> None:
    with pytest.raises(ApiStatusError) as refused:
        Site("a").serve(f"{POD}/{target}", method)
    assert refused.value.code == 405


def test_the_log_of_a_pod_without_a_node_is_empty() -> None:
    """As kube-apiserver answers: such a pod has said nothing yet."""
    reply = Site("a", node="").serve(f"{POD}/log")
    assert isinstance(reply, Response)
    assert (reply.status, reply.body) == (200, b"")


def test_statistics_of_a_node() -> None:
    site = Site()
    site.serve("/api/v1/nodes/n7/proxy/stats/summary?only_cpu_and_memory=true")
    assert site.asked == [("n7", "/stats/summary")]


@pytest.mark.parametrize("name", ["n7:10250", "n7:10255", "https:n7:10250", "http:n7:", "n7:"])
@pytest.mark.parametrize("path", ["pods", "runningpods", "metrics"])
def test_the_port_that_a_kubelet_has_is_that_of_the_nodes_server(name: str, path: str) -> None:
    """Tools write it: Kubernetes' own suite, and configurations of Prometheus."""
    site = Site()
    site.serve(f"/api/v1/nodes/{name}/proxy/{path}")
    assert site.asked == [("n7", f"/{path}")]


def test_the_steps_of_a_pod_on_its_node() -> None:
    """Names are quoted again; the node takes only valid names."""
    site = Site()
    site.serve("/api/v1/nodes/n7/proxy/edgecore/chains/default/web")
    site.serve("/api/v1/nodes/n7/proxy/edgecore/chains/default/a%3Fb")
    assert site.asked == [("n7", "/edgecore/chains/default/web"), ("n7", "/edgecore/chains/default/a%3Fb")]


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes/n1", "/api/v1/nodes/n1/status", "/apis/a/v1/namespaces/d/pods/p/log", f"{POD}/log/x"]
)
def test_other_paths_are_no_streams(path: str) -> None:
    assert not is_stream(parse_target(tuple(path.strip("/").split("/"))))
