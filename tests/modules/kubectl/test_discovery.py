"""The resources of a server, by every name that a person may type."""

from pathlib import Path
from typing import Any

import pytest

from modules.cli.errors import KubectlError
from modules.cli.rest import RestClient
from modules.kubectl.discovery import ApiResource, RestMapper


def resource(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "singularName": kind.lower(), "kind": kind, "namespaced": True, "verbs": ["get"], **more}


CORE = [
    resource("pods", "Pod", shortNames=["po"], categories=["all"]),
    resource("pods/log", "Pod"),
    resource("nodes", "Node", namespaced=False, shortNames=["no"]),
    resource("services", "Service", shortNames=["svc"], categories=["all"]),
    {"name": 7},
    {"name": "odds", "kind": "Odd", "shortNames": "x"},
]
APPS = [resource("deployments", "Deployment", shortNames=["deploy"], categories=["all"])]
OTHER = [resource("services", "Service"), resource("leases", "Lease", singularName="")]


class Server(RestClient):
    """One with three groups, that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.asked: list[str] = []

    def get(self, path: str, query: Any = ()) -> dict[str, Any]:
        self.asked.append(path)
        group = {"groups": [
            {"name": "apps", "versions": [{"groupVersion": "apps/v1"}, {"groupVersion": "apps/v1beta1"}],
             "preferredVersion": {"version": "v1"}},
            {"name": "other.example", "versions": [{"groupVersion": "other.example/v2"}],
             "preferredVersion": {"version": "v2"}},
        ]}  # fmt: skip
        lists = {"/api/v1": CORE, "/apis/apps/v1": APPS, "/apis/apps/v1beta1": APPS, "/apis/other.example/v2": OTHER}
        return group if path == "/apis" else {"resources": lists[path]}


@pytest.mark.parametrize(
    ("word", "qualified"),
    [
        ("pods", "pods"), ("Pod", "pods"), ("po", "pods"), ("PODS", "pods"), ("pods.v1.", "pods"), ("svc", "services"),
        ("deploy", "deployments.apps"), ("deployments.apps", "deployments.apps"),
        ("deployment.v1.apps", "deployments.apps"), ("services.other.example", "services.other.example"),
        ("service.other", "services.other.example"), ("lease", "leases.other.example"),
    ],
)  # fmt: skip
def test_one_resource(word: str, qualified: str) -> None:
    assert RestMapper(Server()).one(word).qualified == qualified


def test_several_resources_and_categories() -> None:
    found = RestMapper(Server()).named("no,all,po")
    assert [each.plural for each in found] == ["nodes", "pods", "services", "deployments"]


def test_core_resources_need_one_request() -> None:
    server = Server()
    RestMapper(server).one("pods")
    assert server.asked == ["/api/v1"]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("podz", 'the server doesn\'t have a resource type "podz"; did you mean pods?'),
        ("deployment.v2.apps", 'the server doesn\'t have a resource type "deployment.v2.apps"'),
        ("xyzzy", 'the server doesn\'t have a resource type "xyzzy"'),
        ("cj", 'the server doesn\'t have a resource type "cj": the node has pods only'),
        ("Role", 'the server doesn\'t have a resource type "Role": the node has pods only'),
    ],
)
def test_unknown_resources(word: str, said: str) -> None:
    with pytest.raises(KubectlError) as refused:
        RestMapper(Server()).named(word)
    assert str(refused.value).startswith(said)


def test_resources_of_manifests() -> None:
    discovery = RestMapper(Server())
    assert discovery.of_manifest("v1", "Pod").plural == "pods"
    assert discovery.of_manifest("other.example/v2", "Lease").version == "v2"
    assert discovery.of_manifest("apps/v1beta1", "Deployment").version == "v1beta1", "not the preferred version"
    for version, kind, said in (("v1", "Podd", "did you mean pods"), ("v1", "Deployment", "Deployment is in apps/v1")):
        with pytest.raises(KubectlError, match=said):
            discovery.of_manifest(version, kind)


def test_paths_and_names() -> None:
    pods = ApiResource("pods", "pod", "Pod")
    assert pods.path() == "/api/v1/pods"
    assert pods.path("a b", "c/d", "log") == "/api/v1/namespaces/a%20b/pods/c%2Fd/log"
    leases = ApiResource("leases", "lease", "Lease", group="g.example", version="v2", namespaced=False)
    assert leases.path("x", "n") == "/apis/g.example/v2/leases/n"
    assert (pods.shown("w"), leases.shown("n")) == ("pod/w", "lease.g.example/n")
    assert RestMapper(Server()).group_versions == ("apps/v1", "apps/v1beta1", "other.example/v2", "v1")


@pytest.mark.parametrize(
    ("api_version", "kind", "advice"),
    [
        ("batch/v1", "Job", "the node has pods only; `cloudcore` and `kubectl`"),
        ("networking.k8s.io/v1", "Ingress", "a hostPort or hostNetwork of a pod"),
        ("rbac.authorization.k8s.io/v1", "Role", "the node has pods only; `cloudcore` and `kubectl`"),
    ],
)
def test_a_kind_without_a_controller_has_a_remedy(api_version: str, kind: str, advice: str) -> None:
    with pytest.raises(KubectlError) as refused:
        RestMapper(Server()).of_manifest(api_version, kind)
    assert str(refused.value).startswith(f'no matches for kind "{kind}" in version "{api_version}": ')
    assert advice in str(refused.value)


def test_a_kind_of_a_group_that_nobody_serves_may_lack_its_definition() -> None:
    with pytest.raises(KubectlError) as refused:
        RestMapper(Server()).of_manifest("foo.example/v1", "Unheard")
    assert str(refused.value) == (
        'no matches for kind "Unheard" in version "foo.example/v1"; ensure CRDs are installed first'
    )
