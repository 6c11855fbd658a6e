"""Whether RBAC or the node authorizer decides on the requests of a node."""

import json

import pytest

from beehive.http.request import Request
from beehive.http.responses import Response, text
from modules.cloud.apiserver.access.service import AccessService, UserAccess
from modules.cloud.authentication.users import User
from modules.cloud.authorization import access_reviews
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.client.calls import ApiCall, ApiResult
from tests.modules.cloud.apiserver.endpoints.serving import not_asked, read

_GROUP = "rbac.authorization.k8s.io"


class Node:
    """Authenticates everybody as a node."""

    def user(self, _request: Request) -> User:
        return User("system:node:n1", groups=("system:nodes",))


class Named:
    """Answers with a name."""

    def __init__(self, name: str, status: int = 200) -> None:
        self._name, self._status = name, status

    def serve(self, _request: Request) -> Response:
        return text(self._status, self._name)


def all_rights() -> RbacIndex:
    """Every right, by RBAC, for all nodes."""
    meta, version = {"metadata": {"name": "all"}}, f"{_GROUP}/v1"
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    role = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "all"}
    nodes = {"apiGroup": _GROUP, "kind": "Group", "name": "system:nodes"}
    found = RbacIndex()
    found.load(
        [
            {"kind": "ClusterRole", "apiVersion": version, **meta, "rules": [rule]},
            {"kind": "ClusterRoleBinding", "apiVersion": version, **meta, "roleRef": role, "subjects": [nodes]},
        ]
    )
    return found


@pytest.mark.parametrize(
    ("method", "path", "rights", "served"),
    [
        ("GET", "/apis/kitchen.example/v1/cakes", all_rights(), (200, "rbac")),
        ("GET", "/apis/kitchen.example/v1/cakes", RbacIndex(), (200, "node")),
        ("POST", "/apis/kitchen.example/v1/cakes", all_rights(), (200, "node")),
        ("GET", "/api/v1/secrets", all_rights(), (200, "node")),
        ("GET", "/api/v1/namespaces/shop/pods/web/log", all_rights(), (200, "node")),
    ],
)
def test_rbac_lets_a_node_read_what_the_node_authorizer_has_no_rule_for(
    method: str, path: str, rights: RbacIndex, served: tuple[int, str]
) -> None:
    users = UserAccess(rights, lambda _: Named("rbac"))
    service = AccessService(Node(), Named("administrators"), lambda _: Named("node"), not_asked, users=users)
    reply = service.serve(read(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()))
    assert isinstance(reply, Response)
    assert (reply.status, reply.body.decode()) == served


@pytest.mark.parametrize(("path", "status"), [("/apis/kitchen.example/v1/cakes", 403), ("/api/v1/secrets/no", 404)])
def test_a_node_does_not_learn_which_resources_there_are(path: str, status: int) -> None:
    service = AccessService(Node(), Named("administrators"), lambda _: Named("node", 404), not_asked)
    reply = service.serve(read(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()))
    assert isinstance(reply, Response)
    assert reply.status == status


class Cloud:
    """Answers calls as the node authorizer would, and notes them."""

    def __init__(self, allowed: bool) -> None:
        self.allowed = allowed
        self.calls: list[ApiCall] = []

    def review(self, call: ApiCall) -> ApiResult:
        self.calls.append(call)
        if access_reviews.is_review(call):
            return ApiResult({"status": {"allowed": self.allowed}}, created=True)
        return ApiResult(refusal={"code": 403, "message": "no node may do that", "reason": "Forbidden"})


def _written(cloud: Cloud, path: str, body: bytes, media: str = "application/yaml", method: str = "POST") -> Response:
    service = AccessService(Node(), Named("administrators"), lambda _: Named("node"), cloud.review)
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    reply = service.serve(read(head.encode() + body))
    assert isinstance(reply, Response)
    return reply


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("POST", "/api/v1/namespaces/a/pods", ("create", "", "pods", "", "a", "")),
        ("PUT", "/api/v1/nodes/n2/status", ("update", "", "nodes", "status", "", "n2")),
        ("PATCH", "/apis/x.io/v2/namespaces/a/cakes/c", ("patch", "x.io", "cakes", "", "a", "c")),
    ],
)
def test_nothing_is_read_for_a_node_before_its_rights_are_known(method: str, path: str, asked: tuple[str, ...]) -> None:
    """The node authorizer is asked by the head alone, and refuses in its own words."""
    cloud = Cloud(allowed=False)
    reply = _written(cloud, path, b"a: [", method=method)
    assert (reply.status, json.loads(reply.body)["message"]) == (403, "no node may do that")
    review, refused = cloud.calls
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    assert review.body == {"spec": {"resourceAttributes": dict(zip(fields, asked, strict=True))}}
    assert (refused.node, refused.verb, refused.plural, refused.body) == ("n1", asked[0], asked[2], None)
    allowed = Cloud(allowed=True)
    assert _written(allowed, path, b"a: [", method=method).body == b"node"
    assert len(allowed.calls) == 1


@pytest.mark.parametrize(
    ("body", "media", "status"),
    [(b"{}", "application/json", 200), (b"{}", "application/yaml", 415), (b"[" + b" " * 65536, "", 413)],
)
def test_the_request_of_a_node_for_a_token_is_small(body: bytes, media: str, status: int) -> None:
    """Its body decides whether the node may have one."""
    cloud = Cloud(allowed=False)
    assert _written(cloud, "/api/v1/namespaces/a/serviceaccounts/b/token", body, media).status == status
    assert not cloud.calls
