"""Whether RBAC or the node authorizer decides on the requests of a node."""

from __future__ import annotations

import pytest

from beehive.http.request import Request
from beehive.http.responses import Response, text
from modules.cloud.apiserver.access.service import AccessService, UserAccess
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.index import RbacIndex
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
