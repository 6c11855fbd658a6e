"""Reviews about others: SubjectAccessReview, LocalSubjectAccessReview, TokenReview."""

import json
from typing import Any

import msgspec
import pytest

from beehive.clock import RealClock
from beehive.http.request import Request
from beehive.http.responses import Response
from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.access.service import AccessService
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.authentication.users import ADMINISTRATORS, Authenticated, User
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.authorization.access_reviews import answer, is_allowed, review_of_rights
from modules.cloud.authorization.attributes import Attributes, of_call
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.subject_reviews import access_review, is_access_review, token_review
from modules.cloud.authorization.user_reviews import PATHS
from modules.cloud.authorization.user_reviews import review as user_review
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.refusals import Refusals
from tests.modules.cloud.apiserver.endpoints.serving import Serving, not_asked

ACCESS = ("apis", "authorization.k8s.io", "v1", "subjectaccessreviews")
LOCAL = ("apis", "authorization.k8s.io", "v1", "namespaces", "shop", "localsubjectaccessreviews")
GET = {"verb": "get", "resource": "pods", "namespace": "shop"}


def of_node(call: ApiCall) -> ApiResult:
    """The node authorizer, in its place."""
    if call.node == "n3":
        return ApiResult(refusal={"code": 503, "message": "not yet"})
    return ApiResult({"status": {"allowed": call.node == "n1"}})


def review(parts: tuple[str, ...] = ACCESS, **spec: Any) -> dict[str, Any]:
    return access_review(parts, {"spec": {"resourceAttributes": GET, **spec}}, of_node, RbacIndex())


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"user": "eve", "groups": ["system:masters"]}, True),
        ({"user": "eve", "groups": ["shop"]}, False),
        ({"groups": ["system:masters"]}, True),
        ({"user": "system:node:n1", "groups": ["system:nodes"]}, True),
        ({"user": "system:node:n2", "groups": ["system:nodes"]}, False),
        ({"user": "system:node:n3", "groups": ["system:nodes"]}, False),
        ({"user": "system:node:n2", "groups": ["system:nodes", "system:masters"]}, True),
        ({"user": "system:node:n1"}, False),
    ],
)
@pytest.mark.parametrize("parts", [ACCESS, LOCAL])
def test_the_rights_of_another(parts: tuple[str, ...], spec: dict[str, Any], allowed: bool) -> None:
    assert [is_access_review(each) for each in (parts, (*parts, "x"), parts[:-1])] == [True, False, False]
    found = review(parts, **spec)
    assert found["status"]["allowed"] is allowed
    assert found["kind"] == ("SubjectAccessReview" if parts == ACCESS else "LocalSubjectAccessReview")


@pytest.mark.parametrize(("groups", "allowed"), [([], False), (["system:authenticated"], True)])
def test_another_has_the_groups_that_the_review_names_and_no_others(groups: list[str], allowed: bool) -> None:
    """Asked by a user, or by a node for its own API."""
    index, group = RbacIndex(), "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "viewer"}
    subjects = [{"kind": "Group", "apiGroup": group, "name": "system:authenticated"}]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    index.load(
        [
            {"kind": "ClusterRole", "metadata": {"name": "viewer"}, "rules": rules},
            {"kind": "ClusterRoleBinding", "metadata": {"name": "all"}, "roleRef": role, "subjects": subjects},
        ]
    )
    body = {"spec": {"user": "eve", "groups": groups, "resourceAttributes": GET}}
    assert access_review(ACCESS, body, of_node, index)["status"]["allowed"] is allowed
    log = {"spec": {**body["spec"], "resourceAttributes": {**GET, "subresource": "log"}}}
    assert not access_review(ACCESS, log, of_node, index)["status"]["allowed"]
    call = ApiCall(verb="create", api_version="authorization.k8s.io/v1", plural=ACCESS[3], node="n1", body=body)
    graph = NodeGraph(Cluster(RealClock()).storage, RealClock())
    assert (answer(call, graph, index).object or {})["status"]["allowed"] is allowed


def of_the_node(group: str, plural: str, **spec: Any) -> dict[str, Any]:
    """Answer a review of node n1."""
    version = f"{group}.k8s.io/v1"
    call = ApiCall(verb="create", api_version=version, plural=plural, node="n1", body={"spec": spec})
    graph = NodeGraph(Cluster(RealClock()).storage, RealClock())
    return answer(call, graph, RbacIndex(), lambda *_: Authenticated(User("alice"))).object or {}


def test_the_answer_to_a_node_has_no_token() -> None:
    """It goes through the bus, where it is traced."""
    found = of_the_node("authentication", "tokenreviews", token="secret", audiences=["vault"])  # noqa: S106 - none
    assert found["status"]["authenticated"]
    assert found["spec"] == {"audiences": ["vault"]}


@pytest.mark.parametrize(("subresource", "allowed"), [("", True), ("binding", False), ("eviction", False)])
def test_a_node_asks_about_a_subresource(subresource: str, allowed: bool) -> None:
    asked = {"verb": "create", "resource": "pods", "subresource": subresource, "namespace": "shop"}
    found = of_the_node("authorization", "selfsubjectaccessreviews", resourceAttributes=asked)
    assert found["status"]["allowed"] is allowed
    call = ApiCall(verb="create", api_version="v1", plural="pods", subresource=subresource, namespace="shop", node="n1")
    graph = NodeGraph(Cluster(RealClock()).storage, RealClock())
    assert is_allowed(answer(review_of_rights(call), graph, RbacIndex())) is allowed, "by the head of a request, too"


@pytest.mark.parametrize(
    ("verb", "path", "allowed"), [("get", "/healthz", True), ("post", "/healthz", False), ("get", "/metrics", False)]
)
def test_a_node_asks_about_a_path(verb: str, path: str, *, allowed: bool) -> None:
    asked = {"verb": verb, "path": path}
    found = of_the_node("authorization", "selfsubjectaccessreviews", nonResourceAttributes=asked)
    assert found["status"]["allowed"] is allowed


@pytest.mark.parametrize(
    ("parts", "spec", "code", "words"),
    [
        (ACCESS, {}, 422, "at least one of user or group must be specified"),
        (ACCESS, {"user": "a", "resourceAttributes": None}, 422, "exactly one of"),
        (ACCESS, {"user": "a", "nonResourceAttributes": {"path": "/"}}, 422, "cannot be specified in combination"),
        (LOCAL, {"user": "a", "nonResourceAttributes": {"path": "/"}}, 422, "disallowed on this kind of request"),
        (LOCAL, {"user": "a", "resourceAttributes": {"namespace": "x"}}, 400, "must match namespace: shop"),
        (LOCAL, {"user": "a", "resourceAttributes": {"verb": "get"}}, 400, "must match namespace: shop"),
    ],
)
def test_a_review_of_nothing_or_nobody_is_refused(
    parts: tuple[str, ...], spec: dict[str, Any], code: int, words: str
) -> None:
    with pytest.raises(ApiError, match=words) as refused:
        review(parts, **spec)
    assert refused.value.status()["code"] == code


@pytest.mark.parametrize(
    ("plural", "namespace", "selector", "name"),
    [
        ("secrets", "shop", "metadata.name=key", "key"),
        ("secrets", "", "metadata.name=key", ""),
        ("secrets", "shop", "type=x", ""),
        ("nodes", "", "metadata.name=n1", "n1"),
    ],
)
def test_a_list_is_of_one_object_only_where_it_can_have_one(
    plural: str, namespace: str, selector: str, name: str
) -> None:
    """A list of all namespaces has the objects of that name in each of them."""
    options = {"fieldSelector": selector}
    call = ApiCall(verb="list", api_version="v1", plural=plural, namespace=namespace, name="ignored", options=options)
    assert of_call("n1", call).name == name


def test_refusals_are_counted_by_few_kinds() -> None:
    """Else each name that a node makes up would be a series of a metric."""
    clock = RealClock()
    refusals = Refusals(clock)
    control = AccessControl(NodeGraph(Cluster(clock).storage, clock), refusals)
    for resource in ("pods", "mine", "yours"):
        with pytest.raises(ApiError):
            control.authorize(Attributes(node="n1", verb="deletecollection", resource=resource))
    assert refusals.counts == {("not authorized", "pods"): 1, ("not authorized", "other"): 2}


def test_the_rights_of_a_node_are_not_listed() -> None:
    """Its roles are not what is decided by; nor are those of nobody's namespace."""
    with pytest.raises(ApiError, match="no namespace"):
        user_review(User("alice"), PATHS[2], {"spec": {}}, RbacIndex())
    user = User("system:node:n1", groups=("system:nodes",))
    for path in PATHS[1:]:
        with pytest.raises(ApiStatusError) as refused:
            user_review(user, path, {"spec": {"namespace": "shop"}}, RbacIndex())
        assert refused.value.code == 403


def test_a_token_is_its_users_or_nobodys() -> None:
    asked: list[tuple[str, ...]] = []

    def authenticate(token: str, audiences: tuple[str, ...]) -> Authenticated | None:
        asked.append(audiences)
        return Authenticated(User("alice", "1", ("shop",)), audiences[:1]) if token == "t" else None  # noqa: S105 - of this test

    found = token_review({"spec": {"token": "t", "audiences": ["vault", "other"]}}, authenticate)
    groups = ["shop", "system:authenticated"]
    assert found["status"] == {
        "authenticated": True,
        "user": {"username": "alice", "uid": "1", "groups": groups},
        "audiences": ["vault"],
    }
    assert asked == [("vault", "other")]
    assert found["spec"] == {"token": "t", "audiences": ["vault", "other"]}
    assert token_review({"spec": {"token": "x"}}, authenticate)["status"]["authenticated"] is False
    for spec in ({}, {"token": ""}, {"token": 7}):
        with pytest.raises(ApiError, match="token is required"):
            token_review({"spec": spec}, authenticate)
    for audiences in ("vault", 7, [7]):
        with pytest.raises(ApiError, match="is a list of texts"):
            token_review({"spec": {"token": "t", "audiences": audiences}}, authenticate)


def test_the_server_answers_them() -> None:
    serving = Serving()
    path = f"/{'/'.join(ACCESS)}"
    made = serving.ask("POST", path, {"spec": {"user": "eve", "resourceAttributes": GET}})
    assert (made.status, json.loads(made.body)["status"]["allowed"]) == (201, False)
    assert serving.ask("POST", path, {"spec": {"user": "eve"}}).status == 422


class Alice:
    """Authenticates everybody as an administrator."""

    def user(self, _request: Request) -> User:
        return User("alice", groups=(ADMINISTRATORS,))


@pytest.mark.parametrize(("token", "authenticated"), [("good", True), ("bad", False)])
def test_an_administrator_reviews_tokens(token: str, authenticated: bool) -> None:
    users = {"good": Authenticated(User("bob"))}
    service = Serving(authenticate=lambda token, _: users.get(token)).service
    access = AccessService(Alice(), service, lambda _node: service, not_asked)
    body = msgspec.json.encode({"spec": {"token": token}})
    path = ("apis", "authentication.k8s.io", "v1", "tokenreviews")
    reply = access.serve(Request(method="POST", target="/".join(path), parts=path, body=body))
    assert isinstance(reply, Response)
    assert (reply.status, json.loads(reply.body)["status"]["authenticated"]) == (201, authenticated)
