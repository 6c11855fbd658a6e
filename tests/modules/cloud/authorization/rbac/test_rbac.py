"""Decisions of RBAC, and the rights that nobody may grant without having them."""

from typing import Any

import pytest

from beehive.clock import RealClock
from modules.apimachinery.api_errors import ApiError, ForbiddenError
from modules.apimachinery.kinds import key_of, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.system_objects import make_system_objects
from modules.cloud.authentication.users import ADMINISTRATORS, ANONYMOUS, User
from modules.cloud.authorization.rbac.escalation import admission
from modules.cloud.authorization.rbac.index import KINDS, RbacIndex
from modules.cloud.authorization.rbac.reviews import decision, rules_status
from modules.cloud.authorization.rbac.rules import AccessRequest, PolicyRule, uncovered
from tests.modules.cloud.objects import CERTIFICATE, SIGNING_REQUEST

GROUP = "rbac.authorization.k8s.io"
CAROL = User("carol", groups=("shop",))
ROBOT = User("system:serviceaccount:shop:robot", groups=("system:serviceaccounts",))
READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


def of(kind: str, name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    """Return a role or binding."""
    space = {"namespace": namespace} if namespace else {}
    return {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": {"name": name, **space}, **fields}


def bound(
    name: str, role: str, *subjects: dict[str, str], namespace: str = "", to: str = "ClusterRole"
) -> dict[str, Any]:
    """Return a binding."""
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    reference = {"apiGroup": GROUP, "kind": to, "name": role}
    return of(kind, name, namespace, roleRef=reference, subjects=list(subjects))


def user(name: str) -> dict[str, str]:
    """Return a user as a subject."""
    return {"kind": "User", "apiGroup": GROUP, "name": name}


class World:
    """An API server's objects, with the index of its roles and bindings."""

    def __init__(self) -> None:
        self.cluster = Cluster(RealClock())
        make_system_objects(self.cluster)
        self.index = RbacIndex()
        self.index.load(each for kind in KINDS for each in self.cluster.storage.list(kind_named(kind)))
        self.cluster.storage.drain_events()

    def make(self, *objects: dict[str, Any], by: User | None = None) -> None:
        """Create objects, of a user or of an administrator."""
        for obj in objects:
            if by is None:
                self.cluster.create(obj)
            else:
                with self.cluster.with_admission(admission(by, self.index)):
                    self.cluster.create(obj)
            self.settle()

    def settle(self) -> None:
        """Tell the index of all changes."""
        for event in self.cluster.storage.drain_events():
            self.index.handle_event(event)

    def may(self, who: User, verb: str, resource: str = "", namespace: str = "", name: str = "", **more: str) -> bool:
        """Return whether a user may do something."""
        kind, _, sub = resource.partition("/")
        asked = AccessRequest(verb=verb, resource=kind, subresource=sub, namespace=namespace, name=name, **more)
        return self.index.allowed(who, asked) is not None


@pytest.fixture
def world() -> World:
    return World()


def test_a_role_counts_in_its_namespace(world: World) -> None:
    world.make(
        of("Role", "reader", "shop", rules=[READ_PODS]),
        bound("carol", "reader", user("carol"), namespace="shop", to="Role"),
    )
    assert world.may(CAROL, "get", "pods", "shop")
    assert not world.may(CAROL, "get", "pods", "other")
    assert not world.may(CAROL, "get", "pods")
    assert not world.may(CAROL, "delete", "pods", "shop")
    assert not world.may(CAROL, "get", "pods/log", "shop"), "a subresource is named"
    assert not world.may(CAROL, "get", "pods", "shop", group="metrics.k8s.io")
    assert not world.may(User("eve"), "get", "pods", "shop")


def test_a_cluster_role_counts_where_it_is_bound(world: World) -> None:
    group = {"kind": "Group", "apiGroup": GROUP, "name": "shop"}
    world.make(bound("shop", "view", group, namespace="shop"))
    assert world.may(CAROL, "watch", "deployments", "shop", group="apps")
    assert not world.may(CAROL, "watch", "deployments", group="apps")
    assert not world.may(CAROL, "get", "secrets", "shop"), "one who views sees no secrets"
    world.make(bound("all", "view", group))
    assert world.may(CAROL, "watch", "deployments", group="apps")


def test_a_service_account_is_of_the_namespace_of_its_binding(world: World) -> None:
    robot = {"kind": "ServiceAccount", "name": "robot"}
    world.make(bound("robot", "edit", robot, namespace="shop"))
    assert world.may(ROBOT, "create", "pods", "shop")
    assert not world.may(User("system:serviceaccount:other:robot"), "create", "pods", "shop")


@pytest.mark.parametrize(
    ("rule", "request_", "allowed"),
    [
        ({"resources": ["pods"], "resourceNames": ["web"]}, {"resource": "pods", "name": "web"}, True),
        ({"resources": ["pods"], "resourceNames": ["web"]}, {"resource": "pods", "name": "db"}, False),
        ({"resources": ["pods"], "resourceNames": ["web"]}, {"resource": "pods"}, False),
        ({"resources": ["*"]}, {"resource": "pods", "subresource": "log"}, True),
        ({"resources": ["*/log"]}, {"resource": "pods", "subresource": "log"}, True),
        ({"resources": ["*/log"]}, {"resource": "pods"}, False),
        ({"resources": ["*/"]}, {"resource": "pods"}, False),
        ({"resources": ["pods/log"]}, {"resource": "pods"}, False),
        ({"apiGroups": ["*"], "resources": ["jobs"]}, {"resource": "jobs", "group": "batch"}, True),
        ({"verbs": ["*"], "resources": ["pods"]}, {"resource": "pods", "verb": "delete"}, True),
        ({"apiGroups": [], "nonResourceURLs": ["/own/*"]}, {"path": "/own/v1"}, True),
        ({"apiGroups": [], "nonResourceURLs": ["/own/*"]}, {"path": "/owns"}, False),
        ({"apiGroups": [], "nonResourceURLs": ["/healthz"]}, {"path": "/healthz/etcd"}, False),
    ],
)
def test_requests_that_a_rule_allows(
    world: World, rule: dict[str, Any], request_: dict[str, str], allowed: bool
) -> None:
    world.make(of("ClusterRole", "one", rules=[{"apiGroups": [""], "verbs": ["get"], **rule}]))
    world.make(bound("one", "one", user("carol")))
    asked = AccessRequest(**{"verb": "get", **request_})
    assert (world.index.allowed(CAROL, asked) is not None) is allowed


def test_everybody_may_discover_and_nobody_else_more(world: World) -> None:
    assert world.may(CAROL, "get", path="/apis/apps/v1")
    assert world.may(CAROL, "create", "selfsubjectaccessreviews", group="authorization.k8s.io")
    assert world.may(ANONYMOUS, "get", path="/version")
    assert not world.may(ANONYMOUS, "get", path="/apis")
    assert not world.may(CAROL, "get", path="/metrics")


def test_changes_of_roles_and_bindings_count_immediately(world: World) -> None:
    world.make(of("ClusterRole", "one", rules=[READ_PODS]), bound("one", "one", user("carol")))
    assert world.may(CAROL, "get", "pods", "any")
    changed = of("ClusterRole", "one", rules=[{**READ_PODS, "verbs": ["watch"]}])
    world.cluster.update(changed)
    world.settle()
    assert not world.may(CAROL, "get", "pods", "any")
    assert world.may(CAROL, "watch", "pods", "any")
    world.cluster.update(bound("one", "one", user("dave")))
    world.settle()
    assert not world.may(CAROL, "watch", "pods", "any")
    assert "carol" not in {subject.name for subject in world.index._by_subject}, "of who has no binding nothing is kept"
    assert world.may(User("dave"), "watch", "pods", "any")
    key = next(key for key in world.cluster.storage if key.kind == "ClusterRole" and key.name == "one")
    world.cluster.delete(key)
    world.settle()
    assert not world.may(User("dave"), "watch", "pods", "any"), "a binding of a role that is gone gives nothing"


def test_a_role_that_went_before_the_objects_are_read_again_gives_nothing(world: World) -> None:
    """The index outlives a restart of the API server."""
    binding = bound("one", "one", user("carol"))
    world.index.load([of("ClusterRole", "one", rules=[READ_PODS]), binding])
    assert world.may(CAROL, "get", "pods", "any")
    world.index.load([binding])
    assert not world.may(CAROL, "get", "pods", "any")


def test_who_stays_in_a_binding_has_its_rights_at_each_moment_of_its_change(world: World) -> None:
    """Threads of other requests read the index meanwhile."""
    seen = list[bool]()

    class Watched(dict[Any, Any]):
        """The bindings; another thread has its turn after each change of them."""

        def __setitem__(self, key: Any, binding: Any) -> None:
            super().__setitem__(key, binding)
            seen.append(world.may(CAROL, "get", "pods", "any"))

        def pop(self, *key: Any) -> Any:
            found = super().pop(*key)
            seen.append(world.may(CAROL, "get", "pods", "any"))
            return found

    world.make(of("ClusterRole", "one", rules=[READ_PODS]), bound("one", "one", user("carol"), user("dave")))
    world.index._bindings = Watched(world.index._bindings)
    world.cluster.update(bound("one", "one", user("eve"), user("carol")))
    world.settle()
    assert seen
    assert all(seen)
    assert [world.may(User(name), "get", "pods", "any") for name in ("carol", "dave", "eve")] == [True, False, True]


def test_aggregated_roles_have_the_rules_of_others(world: World) -> None:
    """Kubernetes' own: `edit` has `view`'s, and `admin` has `edit`'s."""
    world.make(*(bound(name, name, user(name), namespace="shop") for name in ("view", "edit", "admin")))
    may = {name: world.may(User(name), "get", "pods", "shop") for name in ("view", "edit", "admin")}
    assert may == {"view": True, "edit": True, "admin": True}
    assert [world.may(User(name), "create", "roles", "shop", group=GROUP) for name in may] == [False, False, True]


def test_nobody_grants_rights_that_they_lack(world: World) -> None:
    world.make(bound("carol", "admin", user("carol"), namespace="shop"))
    fine = of("Role", "reader", "shop", rules=[READ_PODS])
    world.make(fine, bound("dave", "reader", user("dave"), namespace="shop", to="Role"), by=CAROL)
    assert world.may(User("dave"), "list", "pods", "shop")
    nodes = of(
        "Role", "nodes", "shop", rules=[{"apiGroups": [""], "resources": ["nodes", "a"], "verbs": ["list", "get"]}]
    )
    with pytest.raises(ForbiddenError) as refused:
        world.make(nodes, by=CAROL)
    assert refused.value.message == (
        'roles.rbac.authorization.k8s.io "nodes" is forbidden: user "carol" (groups=["shop" "system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["a"], Verbs:["get" "list"]}\n'
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}'
    )
    for role, code in (("cluster-admin", 403), ("none", 404)):
        with pytest.raises(ApiError) as denied:
            world.make(bound("mine", role, user("carol"), namespace="shop"), by=CAROL)
        assert denied.value.code == code
    aggregated = of("ClusterRole", "mine", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    with pytest.raises(ForbiddenError, match="must have cluster-admin privileges to use the aggregationRule"):
        world.make(aggregated, by=CAROL)
    world.make(of("ClusterRole", "mine", rules=[]))
    (live,) = (
        role for role in world.cluster.storage.list(kind_named("ClusterRole")) if role["metadata"]["name"] == "mine"
    )
    with world.cluster.with_admission(admission(CAROL, world.index)), pytest.raises(ForbiddenError):
        world.cluster.update({**live, "aggregationRule": aggregated["aggregationRule"]})
    world.make(bound("admins", "cluster-admin", user("dave")))
    (admins,) = (
        one
        for one in world.cluster.storage.list(kind_named("ClusterRoleBinding"))
        if one["metadata"]["name"] == "admins"
    )
    with world.cluster.with_admission(admission(CAROL, world.index)), pytest.raises(ForbiddenError):
        world.cluster.update({**admins, "subjects": [user("carol")]})
    world.make(nodes, by=User("root", groups=(ADMINISTRATORS,)))


@pytest.mark.parametrize(("verb", "made"), [("bind", "binding"), ("escalate", "role")])
def test_the_verbs_bind_and_escalate_allow_it(world: World, verb: str, made: str) -> None:
    name = "cluster-admin" if verb == "bind" else "root"
    rule = {"apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": [name], "verbs": [verb]}
    world.make(of("ClusterRole", "trusted", rules=[rule]), bound("trusted", "trusted", user("carol")))
    binding = bound("root", "cluster-admin", user("carol"))
    role = of("ClusterRole", "root", rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    allowed, refused = (binding, role) if made == "binding" else (role, binding)
    world.make(allowed, by=CAROL)
    with pytest.raises(ForbiddenError):
        world.make(refused, by=User("carol", groups=("x",)) if made == "role" else User("dave"))


@pytest.mark.parametrize(
    ("signer", "may"), [("example.com/one", True), ("example.com/*", True), ("example.com/two", False), ("", False)]
)
@pytest.mark.parametrize("decision", ["Approved", "Denied"])
def test_a_request_is_decided_by_who_may_approve_for_its_signer(
    world: World, signer: str, may: bool, decision: str
) -> None:
    """The admission plug-in CertificateApproval."""
    if signer:
        rule = {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [signer]}
        role = of("ClusterRole", "approver", rules=[{**rule, "verbs": ["approve"]}])
        world.make(role, bound("approver", "approver", user("carol")))
    spec = {"request": SIGNING_REQUEST, "signerName": "example.com/one", "usages": ["client auth"]}
    made = {"kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1", "metadata": {"name": "a"}}
    stored = world.cluster.create({**made, "spec": spec})
    approved = {**stored, "status": {"conditions": [{"type": decision, "status": "True"}]}}
    with world.cluster.with_admission(admission(CAROL, world.index)):
        world.cluster.update({**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}})
        if may:
            assert world.cluster.update_approval(key_of(stored), _unversioned(approved))["status"]["conditions"]
            return
        other = {**stored, "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Other"}]}}
        with pytest.raises(ForbiddenError, match="not permitted to approve"):
            admission(CAROL, world.index)(approved, other)
        with pytest.raises(ForbiddenError, match=r'signerName "example\.com/one"'):
            world.cluster.update_approval(key_of(stored), _unversioned(approved))


def test_a_mirror_pod_is_its_node_s_only(world: World) -> None:
    """Whoever could make pods of a namespace could use up a node's account with them."""
    metadata = {"name": "a", "namespace": "default", "annotations": {"kubernetes.io/config.mirror": "x"}}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    made = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}
    with pytest.raises(ForbiddenError, match="made by its node"):
        world.make(made, by=CAROL)
    world.make({**made, "metadata": {**metadata, "annotations": {}}}, by=CAROL)
    (stored,) = world.cluster.storage.list(kind_named("Pod"))
    with (
        world.cluster.with_admission(admission(CAROL, world.index)),
        pytest.raises(ForbiddenError, match="made by its node"),
    ):
        world.cluster.update({**stored, "metadata": {**stored["metadata"], **metadata}})


@pytest.mark.parametrize("namespace", ["", "default"])
def test_external_addresses_want_the_right_to_all_services(world: World, namespace: str) -> None:
    """With the cloud's address, the Services of a namespace would cut all nodes off, for good."""
    rule = {"apiGroups": [""], "resources": ["services", "services/status"], "verbs": ["*"]}
    world.make(of("ClusterRole", "services", rules=[rule]))
    world.make(bound("services", "services", user("carol"), namespace=namespace))
    ports = [{"port": 80}]
    metadata = {"name": "a", "namespace": "default"}
    spec = {"type": "LoadBalancer", "ports": ports}
    made: dict[str, Any] = {"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": spec}
    world.make(made, by=CAROL)
    stored = _unversioned(world.cluster.storage.list(kind_named("Service"))[0])
    balanced = {**stored, "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}}
    addresses = {"externalIPs": ["198.51.100.1"]}
    outside = {**stored, "spec": {**stored["spec"], **addresses}}
    key = key_of(stored)
    for write in (
        lambda: world.make({**made, "metadata": {**metadata, "name": "b"}, "spec": {"ports": ports, **addresses}}),
        lambda: world.cluster.update(outside),
        lambda: world.cluster.update_status(key, balanced),
    ):
        with world.cluster.with_admission(admission(CAROL, world.index)):
            if namespace:
                with pytest.raises(ForbiddenError, match="external addresses take traffic"):
                    write()
            else:
                write()
    world.cluster.update(outside)
    with world.cluster.with_admission(admission(CAROL, world.index)):
        kept = {**outside, "metadata": {**outside["metadata"], "labels": {"a": "b"}}}
        assert world.cluster.update(kept)["metadata"]["labels"] == {"a": "b"}
        assert "externalIPs" not in world.cluster.update(stored)["spec"], "whoever may not set them may take them away"


@pytest.mark.parametrize(
    "change", [{"certificate": CERTIFICATE}, {"conditions": [{"type": "Failed", "status": "True"}]}]
)
def test_a_certificate_is_stored_by_who_may_sign_for_its_signer(world: World, change: dict[str, Any]) -> None:
    """The admission plug-in CertificateSigning: the right to write statuses is not enough."""
    made = {"kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1", "metadata": {"name": "a"}}
    spec = {"request": SIGNING_REQUEST, "signerName": "example.com/one", "usages": ["client auth"]}
    stored = world.cluster.create({**made, "spec": spec})
    signed = _unversioned({**stored, "status": change})
    rule = {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["example.com/*"]}
    world.make(of("ClusterRole", "approver", rules=[{**rule, "verbs": ["approve"]}]))
    world.make(bound("approver", "approver", user("carol")))
    with (
        world.cluster.with_admission(admission(CAROL, world.index)),
        pytest.raises(ForbiddenError, match=r"not permitted to sign"),
    ):
        world.cluster.update_status(key_of(stored), signed)
    world.make(of("ClusterRole", "signer", rules=[{**rule, "verbs": ["sign"]}]))
    world.make(bound("signer", "signer", user("carol")))
    with world.cluster.with_admission(admission(CAROL, world.index)):
        assert world.cluster.update_status(key_of(stored), signed)["status"] == change


def _unversioned(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}}


def test_an_update_that_changes_no_right_is_free(world: World) -> None:
    role = of("Role", "nodes", "shop", rules=[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}])
    binding = bound("nodes", "nodes", user("dave"), namespace="shop", to="Role")
    world.make(role, binding)
    for made in (role, binding):
        kept = {**made, "metadata": {**made["metadata"], "finalizers": ["shop.example/mine"]}}
        with world.cluster.with_admission(admission(CAROL, world.index)):
            assert world.cluster.update(kept)["metadata"]["finalizers"] == ["shop.example/mine"]


def test_a_label_that_gives_a_role_s_rules_to_others_wants_the_rules(world: World) -> None:
    """Else whoever may update roles made all who may read, administrators."""
    world.make(bound("editor", "view", user("carol"), namespace="shop"))
    roles = world.cluster.storage.list(kind_named("ClusterRole"))
    powerful = next(each for each in roles if each["metadata"]["name"] == "cluster-admin")
    for label in ("rbac.authorization.k8s.io/aggregate-to-view", "any"):
        labelled = {**powerful, "metadata": {**powerful["metadata"], "labels": {label: "true"}}}
        with world.cluster.with_admission(admission(CAROL, world.index)), pytest.raises(ForbiddenError):
            world.cluster.update(labelled)


def test_an_aggregated_role_is_changed_by_who_may_do_everything(world: World) -> None:
    """Also when the change takes its rule of aggregation away: it lets its rules be chosen freely."""
    roles = world.cluster.storage.list(kind_named("ClusterRole"))
    view = next(each for each in roles if each["metadata"]["name"] == "view")
    world.make(bound("carol", "view", user("carol")))
    plain = {name: value for name, value in view.items() if name != "aggregationRule"}
    with world.cluster.with_admission(admission(CAROL, world.index)), pytest.raises(ForbiddenError):
        world.cluster.update(plain)


def test_rules_are_covered_by_several_or_reported() -> None:
    def rule(verbs: str, resources: str) -> PolicyRule:
        return PolicyRule(frozenset(verbs), frozenset(("",)), frozenset(resources))

    held = [rule("ab", "x"), rule("a", "y")]
    assert uncovered([rule("a", "xy")], held, 100) == []
    assert uncovered([rule("ab", "xy")], held, 100) == [rule("b", "y")]
    large = rule("ab", "xy")
    assert uncovered([large], held, 1) == [large], "a rule with more combinations than are looked at is refused whole"


def test_reviews_say_why(world: World) -> None:
    world.make(
        of("Role", "reader", "shop", rules=[READ_PODS]),
        bound("carol", "reader", user("carol"), namespace="shop", to="Role"),
    )
    asked = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "shop"}}
    reason = 'RBAC: allowed by RoleBinding "carol/shop" of Role "reader" to User "carol"'
    assert decision(CAROL, asked, world.index) == {"allowed": True, "reason": reason}
    assert decision(User("eve"), asked, world.index) == {"allowed": False}
    rules = rules_status(CAROL, "shop", world.index)
    assert {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]} in rules["resourceRules"]
    assert any("/version" in each["nonResourceURLs"] for each in rules["nonResourceRules"])


@pytest.mark.parametrize(
    ("obj", "field", "words"),
    [
        (of("Role", "a/b", "shop"), "metadata.name", "may not contain '/'"),
        (of("Role", "a", "shop", rules=[{"verbs": []}]), "rules[0].verbs", "verbs must contain at least one value"),
        (of("Role", "a", "shop", rules=[{"verbs": ["get"]}]), "rules[0].apiGroups", "at least one api group"),
        (
            of("Role", "a", "shop", rules=[{"verbs": ["get"], "nonResourceURLs": ["/x"]}]),
            "rules[0].nonResourceURLs",
            "namespaced rules cannot apply to non-resource URLs",
        ),
        (of("ClusterRole", "a", aggregationRule={}), "aggregationRule.clusterRoleSelectors", "at least one"),
        (bound("a", "", user("carol")), "roleRef.name", "Required value"),
        (bound("a", "view", user("carol"), to="Pod"), "roleRef.kind", 'supported values: "ClusterRole"'),
        (bound("a", "view", {"kind": "Robot", "name": "x"}), "subjects[0].kind", "supported values"),
        (bound("a", "view", {"kind": "ServiceAccount", "name": "x"}), "subjects[0].namespace", "Required value"),
    ],
)
def test_other_objects_than_roles_and_bindings_are_refused(
    world: World, obj: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(ApiError) as refused:
        world.make(obj)
    causes = refused.value.details["causes"]
    assert refused.value.code == 422
    assert any(cause["field"] == field and words in cause["message"] for cause in causes), causes


def test_a_binding_keeps_its_role(world: World) -> None:
    world.make(bound("carol", "view", user("carol")))
    with pytest.raises(ApiError, match="cannot change roleRef"):
        world.cluster.update(bound("carol", "cluster-admin", user("carol")))
