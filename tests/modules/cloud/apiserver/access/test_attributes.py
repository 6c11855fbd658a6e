"""What the authorizers decide on (kube-apiserver's `RequestInfo`)."""

import pytest

from modules.cloud.apiserver.access.service import attributes_of
from modules.cloud.authorization.rbac.rules import AccessRequest
from tests.modules.cloud.apiserver.endpoints.serving import read

PODS = "/api/v1/namespaces/shop/pods"
JOBS = "/apis/batch/v1/namespaces/shop/jobs"
CAKES = "/apis/kitchen.example/v1"


def of_pods(verb: str, name: str = "", **fields: str) -> AccessRequest:
    return AccessRequest(verb=verb, resource="pods", namespace="shop", name=name, **fields)


@pytest.mark.parametrize(
    ("method", "target", "asked"),
    [
        ("GET", PODS, of_pods("list")),
        ("HEAD", PODS, of_pods("list")),
        ("GET", f"{PODS}?watch=true", of_pods("watch")),
        ("GET", f"{PODS}?watch=0", of_pods("list")),
        ("GET", f"{PODS}/web", of_pods("get", "web")),
        ("GET", f"{PODS}/web?watch=true", of_pods("get", "web")),
        ("GET", f"{PODS}?fieldSelector=metadata.name%3Dweb", of_pods("list", "web")),
        ("GET", f"{PODS}?watch=1&fieldSelector=metadata.name%3Dweb", of_pods("watch", "web")),
        ("GET", f"{PODS}?fieldSelector=metadata.name%3Dweb,spec.nodeName%3Dn", of_pods("list")),
        ("GET", f"{PODS}?fieldSelector=status.phase%21%3Dx%5C,metadata.name%3Dweb", of_pods("list")),
        ("GET", "/api/v1/watch/namespaces/shop/pods", of_pods("watch")),
        ("GET", "/api/v1/watch/namespaces/shop/pods/web", of_pods("watch", "web")),
        ("GET", "/api/v1/watch/namespaces", AccessRequest(verb="watch", resource="namespaces")),
        ("GET", "/api/v1/watch/namespaces/shop", AccessRequest(
            verb="watch", resource="namespaces", namespace="shop", name="shop")),
        ("POST", f"{PODS}?fieldSelector=metadata.name%3Dweb", of_pods("create")),
        ("DELETE", PODS, of_pods("deletecollection")),
        ("DELETE", f"{PODS}?fieldSelector=metadata.name%3Dweb", of_pods("deletecollection", "web")),
        ("DELETE", f"{PODS}/web", of_pods("delete", "web")),
        ("GET", f"{PODS}/web/log", of_pods("get", "web", subresource="log")),
        ("GET", "/api/v1/nodes/n1/proxy/metrics", AccessRequest(
            verb="get", resource="nodes", subresource="proxy", name="n1")),
        ("POST", f"{PODS}/web/exec", of_pods("create", "web", subresource="exec")),
        ("PATCH", f"{JOBS}/j/status", AccessRequest(
            verb="patch", group="batch", resource="jobs", subresource="status", namespace="shop", name="j")),
        ("GET", "/api/v1/pods", AccessRequest(verb="list", resource="pods")),
        ("GET", "/api/v1/namespaces/shop", AccessRequest(
            verb="get", resource="namespaces", namespace="shop", name="shop")),
        ("PUT", "/api/v1/namespaces/shop/finalize", AccessRequest(
            verb="update", resource="namespaces", subresource="finalize", namespace="shop", name="shop")),
        ("GET", f"{CAKES}/cakes/one", AccessRequest(
            verb="get", group="kitchen.example", resource="cakes", name="one")),
        ("GET", f"{CAKES}/namespaces", AccessRequest(verb="list", group="kitchen.example", resource="namespaces")),
        ("GET", "/metrics", AccessRequest(verb="get", path="/metrics")),
        ("HEAD", "/metrics", AccessRequest(verb="get", path="/metrics")),
        ("POST", "/metrics", AccessRequest(verb="post", path="/metrics")),
        ("GET", "/apis/batch/v1", AccessRequest(verb="get", path="/apis/batch/v1")),
        *((method, f"{PODS}/https:web:80/proxy/a", of_pods(verb, "https:web:80", subresource="proxy"))
          for method, verb in (("HEAD", "get"), ("PUT", "update"), ("PATCH", "patch"), ("OPTIONS", ""))),
    ],
)  # fmt: skip
def test_the_attributes_of_a_request(method: str, target: str, asked: AccessRequest) -> None:
    assert attributes_of(read(f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())) == asked
