"""The proxies of pods and services: which port of which pod a path means, and what is refused."""

from typing import Any

import pytest

from beehive.http.request import Request, request_from
from beehive.http.responses import Reply, Response, text
from beehive.http.server import RequestHead
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.paths import parse_target
from modules.cloud.apiserver.endpoints.pod_proxies import PodPort, ProxiedPath, is_proxied, ready_pods, serve_proxy
from modules.cloud.client.calls import ApiCall, ApiResult

BASE = "/api/v1/namespaces/default"
PORTS = [{"containerPort": 53, "protocol": "UDP"}, {"name": "web", "containerPort": 8080}, {"containerPort": 9}]
SLICE = {
    "ports": [
        {"name": "http", "port": 8080}, {"name": "", "port": 9090}, {"name": "dns", "port": 53, "protocol": "UDP"},
    ],
    "endpoints": [
        {"addresses": ["10.0.0.9"], "conditions": {"ready": False}, "targetRef": {"kind": "Pod", "name": "late"}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": "web"}},
    ],
}  # fmt: skip
OWN = [{"name": "http", "port": 80}, {"port": 90}, {"name": "dns", "port": 53}]


class Site:
    """A pod and a service, and a node that keeps what it is asked."""

    def __init__(self, node: str = "n1", ports: Any = PORTS, slice_: Any = SLICE) -> None:
        spec = {"containers": [{"name": "app"}, {"name": "other", "ports": ports}], "nodeName": node}
        self.objects: dict[str, Any] = {
            "pods/web": {"metadata": {"name": "web"}, "spec": spec, "status": {"podIP": "10.0.0.2"}},
            "services/web": {"metadata": {"name": "web"}, "spec": {"ports": OWN}},
            "endpointslices/": {"items": [slice_]},
        }
        self.calls: list[ApiCall] = []
        self.asked: list[tuple[str, PodPort, ProxiedPath]] = []

    def call(self, call: ApiCall) -> ApiResult:
        self.calls.append(call)
        found = self.objects.get(f"{call.plural}/{call.name}")
        return ApiResult(found) if found else ApiResult(refusal={"code": 404, "message": f"no {call.name}"})

    def proxy(self, node: str, port: PodPort, path: ProxiedPath, request: Request) -> Reply:
        self.asked.append((node, port, path))
        return text(200, "of the pod")

    def serve(self, target: str, method: str = "GET") -> Reply:
        request = request_from(RequestHead(method, target, (), "1.1"), b"")
        assert is_proxied(request.parts)
        return serve_proxy(request, parse_target(request.parts), self, self)


@pytest.mark.parametrize(
    ("path", "port", "has_tls", "inside"),
    [
        ("pods/web/proxy/", 8080, False, "/"),
        ("pods/web/proxy/a/b/?c=d%20e&f", 8080, False, "/a/b/?c=d%20e&f"),
        ("pods/web:web/proxy/%C3%A9", 8080, False, "/%C3%A9"),
        ("pods/web:70/proxy/x", 70, False, "/x"),
        ("pods/http:web:70/proxy/x", 70, False, "/x"),
        ("pods/https:web:70/proxy/x", 70, True, "/x"),
        ("pods/https:web:/proxy/x", 8080, True, "/x"),
        ("pods/:web:/proxy/x", 8080, False, "/x"),
        ("services/web/proxy/x", 9090, False, "/x"),
        ("services/web:http/proxy/x", 8080, False, "/x"),
        ("services/web:80/proxy/x", 8080, False, "/x"),
        ("services/https:web:80/proxy/x", 8080, True, "/x"),
    ],
)
def test_a_path_means_a_port(path: str, port: int, has_tls: bool, inside: str) -> None:
    site = Site()
    site.serve(f"{BASE}/{path}")
    prefix = f"{BASE}/{path.partition('/proxy')[0]}/proxy"
    assert site.asked == [("n1", PodPort("default", "web", port, has_tls, "10.0.0.2"), ProxiedPath(prefix, inside))]


@pytest.mark.parametrize(("name", "port"), [("web", 80), ("http:web:", 80), ("https:web:", 443)])
def test_a_pod_that_names_no_port_has_the_schemes(name: str, port: int) -> None:
    site = Site(ports=[])
    site.serve(f"{BASE}/pods/{name}/proxy/")
    assert site.asked[0][1].port == port


@pytest.mark.parametrize(
    ("site", "path", "code", "message"),
    [
        (Site(), "pods/none/proxy/", 404, "no none"),
        (Site(), "pods/ftp:web:1/proxy/", 400, 'invalid pod request "ftp:web:1"'),
        (Site(), "services/a:b:c:d/proxy/", 400, 'invalid service request "a:b:c:d"'),
        (Site(), "pods/http::1/proxy/", 400, 'invalid pod request "http::1"'),
        (Site(), "pods/web:none/proxy/", 400, 'pod web has no port "none"'),
        (Site(), "pods/web:0/proxy/", 400, '"0" is no port'),
        (Site(), "pods/web:65536/proxy/", 400, '"65536" is no port'),
        (Site(), "pods/web:%D9%A3/proxy/", 400, "is no port"),
        (Site(node=""), "pods/web/proxy/", 400, "pod web does not have a host assigned"),
        (Site(), "services/none/proxy/", 404, "no none"),
        (Site(), "services/web:81/proxy/", 503, 'no service port 81 found for service "web"'),
        (Site(), "services/web:none/proxy/", 503, 'no endpoints available for service "web"'),
        (Site(), "services/web:dns/proxy/", 503, "no endpoints available"),
        (Site(slice_={}), "services/web:80/proxy/", 503, "no endpoints available"),
    ],
)
def test_what_is_no_port_is_refused_as_kube_apiserver_does(site: Site, path: str, code: int, message: str) -> None:
    with pytest.raises(ApiStatusError) as refused:
        site.serve(f"{BASE}/{path}")
    assert (refused.value.code, site.asked) == (code, [])
    assert message in refused.value.message


@pytest.mark.parametrize(
    "of", [None, {"kind": "Node", "name": "n1"}, {"kind": "Pod", "name": "web", "namespace": "other"}, {"kind": "Pod"}]
)
def test_an_endpoint_that_is_no_pod_of_the_namespace_is_not_reached(of: Any) -> None:
    """Whoever may write an EndpointSlice must not lead the cloud's requests to any address, or to others' pods."""
    endpoint = {"addresses": ["169.254.169.254"], "nodeName": "n1", **({"targetRef": of} if of else {})}
    found = list(ready_pods({"ports": [{"port": 80}], "endpoints": [endpoint]}, "", "default"))
    assert found == []


@pytest.mark.parametrize("port", [0, -1, 65_536, "80", None])
def test_a_port_of_an_endpoint_is_a_number(port: Any) -> None:
    of = {"kind": "Pod", "name": "web"}
    assert list(ready_pods({"ports": [{"port": port}], "endpoints": [{"targetRef": of}]}, "", "default")) == []


def test_a_path_without_its_last_slash_is_redirected() -> None:
    """So that relative links of the page stay below it; other methods than reads go to the root."""
    site = Site()
    for query in ("", "?a=b"):
        reply = site.serve(f"{BASE}/pods/web/proxy{query}")
        assert isinstance(reply, Response)
        assert (reply.status, reply.location) == (301, f"{BASE}/pods/web/proxy/{query}")
    site.serve(f"{BASE}/pods/web/proxy?a=b", "POST")
    assert [path.target for _, _, path in site.asked] == ["/?a=b"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_methods_are_passed_on(method: str) -> None:
    site = Site()
    site.serve(f"{BASE}/pods/web/proxy/", method)
    assert len(site.asked) == 1


def test_other_methods_are_refused() -> None:
    with pytest.raises(ApiStatusError) as refused:
        Site().serve(f"{BASE}/pods/web/proxy/", "TRACE")
    assert refused.value.code == 405


@pytest.mark.parametrize(
    "path", ["pods/web/log/proxy", "pods/web", "nodes/web/proxy", "configmaps/web/proxy", "pods/proxy", "proxy"]
)
def test_other_paths_are_no_proxies(path: str) -> None:
    request = request_from(RequestHead("GET", f"{BASE}/{path}", (), "1.1"), b"")
    assert not is_proxied(request.parts)


def test_the_endpoints_of_the_service_are_asked_for() -> None:
    site = Site()
    site.serve(f"{BASE}/services/web:http/proxy/")
    asked = next(call for call in site.calls if call.verb == "list")
    assert (asked.namespace, asked.options) == ("default", {"labelSelector": "kubernetes.io/service-name=web"})
