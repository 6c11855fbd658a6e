"""Who may make requests as somebody else."""

import msgspec
import pytest

from beehive.http.request import Request
from beehive.http.responses import Response
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.access.service import AccessService, impersonated
from modules.cloud.authentication.users import ADMINISTRATORS, User, groups_of
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.user_reviews import PATHS
from tests.modules.cloud.apiserver.endpoints.serving import Serving, not_asked

CAROL = User("carol")
ROBOT = "system:serviceaccount:shop:robot"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:shop")
_GROUP = "rbac.authorization.k8s.io"


def index(resource: str, namespace: str = "", *groups: str) -> RbacIndex:
    """The roles by which carol may impersonate: in a namespace, or everywhere; and groups by name."""
    rules: list[JsonObject] = [{"apiGroups": [""], "resources": [resource], "verbs": ["impersonate"]}]
    rules += [{**rules[0], "resources": ["groups"], "resourceNames": [group]} for group in groups]
    subjects = [{"kind": "User", "apiGroup": _GROUP, "name": "carol"}]
    place = {"namespace": namespace} if namespace else {}
    role = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "r"}
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    objects: list[JsonObject] = [
        {"kind": "ClusterRole", "apiVersion": f"{_GROUP}/v1", "metadata": {"name": "r"}, "rules": rules},
        {
            "kind": kind,
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {"name": "b", **place},
            "roleRef": role,
            "subjects": subjects,
        },
    ]
    found = RbacIndex()
    found.load(objects)
    return found


def as_(name: str, *groups: str) -> Request:
    """A request with the headers of an impersonation."""
    headers = (("impersonate-user", name), *(("impersonate-group", group) for group in groups))
    return Request(method="GET", target="/api/v1/pods", parts=("api", "v1", "pods"), headers=headers)


@pytest.mark.parametrize(
    ("roles", "name", "groups"),
    [
        (index("users"), "bob", ()),
        (index("users", "", "dev", "ops"), "bob", ("dev", "ops")),
        (index("serviceaccounts"), ROBOT, GROUPS),
        (index("serviceaccounts", "shop"), ROBOT, GROUPS),
    ],
)
def test_an_account_is_impersonated_with_the_right_to_accounts(
    roles: RbacIndex, name: str, groups: tuple[str, ...]
) -> None:
    given = () if name == ROBOT else groups
    assert impersonated(as_(name, *given), CAROL, roles) == User(name, groups=groups)


@pytest.mark.parametrize(
    ("roles", "request_"),
    [
        (index("users"), as_(ROBOT)),
        (index("serviceaccounts", "other"), as_(ROBOT)),
        (index("serviceaccounts", "shop"), as_(ROBOT, "system:masters")),
        (index("serviceaccounts"), as_("bob")),
        (index("users"), as_("bob", "system:masters")),
        (index("users", "", "dev"), as_("bob", "dev", "system:masters")),
    ],
)
def test_the_right_to_impersonate_users_does_not_extend_to_accounts_and_groups(
    roles: RbacIndex, request_: Request
) -> None:
    """As in Kubernetes: who may act as people could otherwise act as each service account, too."""
    with pytest.raises(ApiStatusError, match="cannot impersonate resource"):
        impersonated(request_, CAROL, roles)
    assert impersonated(request_, User("root", groups=(ADMINISTRATORS,)), roles) is not None


@pytest.mark.parametrize(
    ("name", "group"), [("system:anonymous", "system:unauthenticated"), ("bob", "system:authenticated")]
)
def test_who_is_impersonated_as_anonymous_is_not_authenticated(name: str, group: str) -> None:
    found = impersonated(as_(name), User("root", groups=(ADMINISTRATORS,)), RbacIndex())
    assert found is not None
    assert groups_of(found) == (group,)


@pytest.mark.parametrize(("name", "status"), [("system:anonymous", 403), ("bob", 201)])
def test_who_is_impersonated_as_anonymous_asks_for_no_rights(name: str, status: int) -> None:
    """As in Kubernetes, whose role `system:basic-user` is for authenticated users."""

    class Root:
        """Authenticates all as an administrator."""

        def user(self, _request: Request) -> User:
            return User("root", groups=(ADMINISTRATORS,))

    service = AccessService(Root(), Serving().service, lambda _: Serving().service, not_asked)
    asked = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    request = msgspec.structs.replace(as_(name), method="POST", parts=PATHS[1], body=msgspec.json.encode(asked))
    reply = service.serve(request)
    assert isinstance(reply, Response)
    assert reply.status == status


def test_a_uid_is_impersonated_with_a_right_of_its_own() -> None:
    headers = (*as_("bob").headers, ("impersonate-uid", "17"))
    request = Request(method="GET", target="/api/v1/pods", parts=("api", "v1", "pods"), headers=headers)
    with pytest.raises(ApiStatusError, match="cannot impersonate"):
        impersonated(request, CAROL, index("users"))
    assert impersonated(request, User("root", groups=(ADMINISTRATORS,)), RbacIndex()) == User("bob", "17")
