"""What is checked is what is made: controllers write with cloudcore's rights, whatever is in the objects of users."""

import json
from typing import Any

import msgspec
import pytest

from beehive.http.request import Request
from beehive.http.responses import Response
from beehive.simulation.scheduler import VirtualClock
from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.apiserver.access.service import AccessService, UserAccess
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.endpoints.service import ApiService, Requester
from modules.cloud.applications import EDGE_APPLICATION
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.controllers.application_definitions import ADMISSIONS, definitions
from modules.cloud.controllers.engine import Engine
from modules.cloud.controllers.own_writes import breach_of
from modules.cloud.controllers.plan import PlannedWrite, ReconcilePlan, create, delete, patch, update, update_status
from modules.cloud.controllers.registry import ALL
from modules.cloud.controllers.work_meter import WorkMeter
from modules.cloud.storage.watch_history import ObjectChanged, WatchQuery, WatchStart
from tests.modules.cloud.apiserver.endpoints.serving import not_asked, read
from tests.modules.cloud.controllers.site import workload
from tests.modules.cloud.controllers.test_edge_application import application, target
from tests.modules.cloud.controllers.test_module import Cloud
from tests.support.presence import present

RBAC = "rbac.authorization.k8s.io"
SHOP = ObjectKey(EDGE_APPLICATION.key_name, "a", "shop")
PATHS = (
    "/metadata/namespace",
    "metadata/namespace",
    "//metadata/namespace/",
    "/metadata/name",
    "/metadata/labels/app",
    "/metadata/annotations/note",
    "/metadata/ownerReferences/0/uid",
    "/kind",
    "/apiVersion",
    "/spec/selector/matchLabels/app",
    "/spec/strategy/type",
    "/spec/template/metadata/labels/app",
    "/spec/template",
    "/spec/template/spec",
)


class Alice:
    """Authenticates everybody as a user with a Role in the namespace a."""

    def user(self, _request: Request) -> User:
        return User("alice")


class Tenant:
    """A user who may write EdgeApplications in the namespace a, and nothing else, at an API server with controllers."""

    def __init__(self, bee: Harness) -> None:
        self.bee = bee
        self.cloud = Cloud(bee, Cluster(bee.clock, admissions=ADMISSIONS))
        for each in definitions():
            self.cloud.cluster.apply(each)
        rule = {"apiGroups": ["apps.kubeedge.io"], "resources": ["edgeapplications"], "verbs": ["*"]}
        alice = {"kind": "User", "apiGroup": RBAC, "name": "alice"}
        place, of = {"name": "apps", "namespace": "a"}, f"{RBAC}/v1"
        reference = {"apiGroup": RBAC, "kind": "Role", "name": "apps"}
        rights = RbacIndex()
        rights.load(
            [
                {"kind": "Role", "apiVersion": of, "metadata": place, "rules": [rule]},
                {"kind": "RoleBinding", "apiVersion": of, "metadata": place, "roleRef": reference, "subjects": [alice]},
            ]
        )
        service = ApiService(Requester(self), self.cloud.subscriptions, "v1.32.0", bee.clock)
        users = UserAccess(rights, lambda _: service)
        self._access = AccessService(Alice(), service, lambda _: service, not_asked, users=users)

    def call(self, call: ApiCall) -> ApiResult:
        """Carry out a call of the API server."""
        return self.cloud.make(call)

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Refuse a watch."""
        raise AssertionError(query)

    def post(self, namespace: str, plural: str, body: JsonObject) -> tuple[int, str]:
        """Create an object; return code and message of the answer."""
        group = body["apiVersion"]
        data = json.dumps(body).encode()
        head = f"POST /apis/{group}/namespaces/{namespace}/{plural} HTTP/1.1\r\nHost: x\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        reply = self._access.serve(read(head.encode() + data))
        assert isinstance(reply, Response)
        return reply.status, str(json.loads(reply.body).get("message", ""))

    def made(self, plural: str = "deployments") -> list[tuple[str, str]]:
        """Return namespace and name of the objects in all namespaces."""
        version = "v1" if plural in ("secrets", "pods") else "apps/v1"
        found = present(self.cloud.call("list", plural, api_version=version, namespace="").object)
        return sorted((each["metadata"]["namespace"], each["metadata"]["name"]) for each in found["items"])


def overridden(path: str, value: str = "bank", component: str = "Repository") -> JsonObject:
    """Return an application of the namespace a whose overrider changes a text of the Deployment."""
    change = {"component": component, "operator": "replace", "value": value, "predicate": {"path": path}}
    deployment = workload("Deployment", replicas=1)
    deployment["metadata"] |= {"labels": {"app": "web"}, "annotations": {"note": "x"}}
    deployment["spec"]["strategy"] = {"type": "Recreate"}
    made = application(target("east", imageOverriders=[change]), manifests=[deployment])
    made["metadata"]["namespace"] = "a"
    return made


@pytest.mark.parametrize("path", PATHS)
def test_an_overrider_writes_in_no_other_namespace_and_makes_nothing_else(bee: Harness, path: str) -> None:
    tenant = Tenant(bee)
    code, message = tenant.post("a", "edgeapplications", overridden(path))
    assert code == 422
    assert f"predicate.path: Invalid value: {json.dumps(path)}: must begin with /spec/template/spec/" in message
    bee.run_for(60)
    assert (tenant.made(), tenant.made("secrets"), tenant.made("pods")) == ([], [], [])


def test_an_overrider_that_was_stored_before_it_was_refused_makes_nothing(bee: Harness) -> None:
    tenant = Tenant(bee)
    stored = application(target("east"))
    stored["metadata"]["namespace"] = "a"
    assert tenant.post("a", "edgeapplications", stored)[0] == 201
    bee.run_for(5)
    assert tenant.made() == [("a", "web-east")]
    live = tenant.cloud.cluster.storage.get(SHOP)
    tenant.cloud.cluster.replace({**live, "spec": overridden("/metadata/namespace")["spec"]})
    tenant.cloud.call("create", "deployments", namespace="bank", body=workload("Deployment", "till", replicas=0))
    bee.run_for(60)
    assert tenant.made() == [("a", "web-east"), ("bank", "till")]


def test_a_user_with_a_role_for_applications_has_no_right_to_deployments(bee: Harness) -> None:
    """What the overriders would have given."""
    tenant = Tenant(bee)
    assert [tenant.post(where, "deployments", workload("Deployment"))[0] for where in ("a", "bank")] == [403, 403]
    code, _ = tenant.post("bank", "edgeapplications", overridden("/spec/template/spec/containers/0/image"))
    assert code == 403
    code, _ = tenant.post("a", "edgeapplications", overridden("/spec/template/spec/containers/0/image"))
    assert code == 201
    bee.run_for(5)
    assert tenant.made() == [("a", "web-east")]


def an(api_version: str, kind: str, namespace: str = "a", **metadata: Any) -> JsonObject:
    given = {"name": "web", "uid": "u", "resourceVersion": "1", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**given, **metadata}}


SECRET = an("v1", "Secret")
SETS = an("apps/v1", "ReplicaSet")
DEPLOYMENT = ObjectKey("Deployment", "a", "web")
GROUP = ObjectKey("NodeGroup.apps.kubeedge.io", "", "east")


def aimed(write: PlannedWrite, **fields: Any) -> PlannedWrite:
    """Return a write whose call has other fields than its object."""
    return msgspec.structs.replace(write, call=msgspec.structs.replace(write.call, **fields))


@pytest.mark.parametrize(
    ("owner", "write"),
    [
        (DEPLOYMENT, create(SETS)),
        (DEPLOYMENT, patch(SETS, {})),
        (DEPLOYMENT, delete(SETS)),
        (SHOP, create(an("apps/v1", "Deployment"))),
        (SHOP, create(an("v1", "ConfigMap"))),
        (ObjectKey("CronJob", "a", "web"), create(an("batch/v1", "Job"))),
        (ObjectKey("Service", "a", "web"), create(an("discovery.k8s.io/v1", "EndpointSlice"))),
        (GROUP, patch(an("v1", "Node", ""), {})),
        (GROUP, delete(an("v1", "Pod"))),
    ],
)
def test_a_controller_writes_in_the_namespace_of_its_object_what_it_makes(
    owner: ObjectKey, write: PlannedWrite
) -> None:
    assert breach_of(owner, ReconcilePlan((write,))) == ""


@pytest.mark.parametrize(
    ("owner", "write", "why"),
    [
        (DEPLOYMENT, create(an("apps/v1", "ReplicaSet", "bank")), "create replicasets in another namespace"),
        (DEPLOYMENT, create(an("apps/v1", "ReplicaSet", "")), "create replicasets in another namespace"),
        (DEPLOYMENT, patch(an("apps/v1", "ReplicaSet", "bank"), {}), "patch replicasets in another namespace"),
        (DEPLOYMENT, update(an("apps/v1", "ReplicaSet", "bank")), "update replicasets in another namespace"),
        (DEPLOYMENT, delete(an("apps/v1", "ReplicaSet", "bank")), "delete replicasets in another namespace"),
        (DEPLOYMENT, aimed(create(SETS), namespace="bank"), "create replicasets in another namespace"),
        (DEPLOYMENT, aimed(create(SETS), plural="secrets"), "create ReplicaSet of apps/v1"),
        (DEPLOYMENT, aimed(create(SETS), api_version="v1"), "create ReplicaSet of apps/v1"),
        (DEPLOYMENT, aimed(create(SETS), body={**SETS, "apiVersion": "v1"}), "create ReplicaSet of v1"),
        (DEPLOYMENT, aimed(create(SETS), body=SECRET), "create Secret of v1"),
        (DEPLOYMENT, patch(SETS, {"metadata": {"namespace": "bank"}}), "patch replicasets in another namespace"),
        (SHOP, create(SECRET), "create Secret of v1"),
        (SHOP, create(an("apps/v1", "ReplicaSet")), "create ReplicaSet of apps/v1"),
        (GROUP, create(an("v1", "Pod")), "create Pod of v1"),
        (ObjectKey("PodDisruptionBudget", "a", "web"), create(an("v1", "Pod")), "create Pod of v1"),
    ],
)  # fmt: skip
def test_a_controller_writes_nothing_else(owner: ObjectKey, write: PlannedWrite, why: str) -> None:
    good = patch(an("v1", "Pod", owner.namespace or "a"), {})
    assert breach_of(owner, ReconcilePlan((good, write))) == f"it would {why}"


def test_a_status_is_of_the_namespace_too() -> None:
    status = update_status(an("apps/v1", "ReplicaSet", "bank"), {"replicas": 1})
    assert breach_of(DEPLOYMENT, ReconcilePlan(status=status)) == "it would update replicasets in another namespace"


def test_a_breach_is_logged_once_and_counted_as_a_failure_and_nothing_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, asked = VirtualClock(1), list[ApiCall]()
    meter, bad = WorkMeter(clock), [True]

    def reconcile(_view: object, _key: ObjectKey, _now: float) -> ReconcilePlan:
        stolen = patch(an("apps/v1", "ReplicaSet", "bank"), {})
        return ReconcilePlan((create(SETS), *([stolen] if bad[0] else [])))

    engine = Engine({"Deployment": reconcile}, lambda call, _: asked.append(call), clock, lambda: None, meter)
    engine.handle(ObjectChanged("ADDED", an("apps/v1", "Deployment")))
    for _ in range(5):
        again = present(engine.run())
        clock.jump_wall(again - clock.now())
    assert (asked, meter.retries["Deployment"]) == ([], 5)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["nothing is written for deployment/a/web: it would patch replicasets in another namespace"]
    bad.clear()
    bad.append(False)
    engine.run()
    assert [call.plural for call in asked] == ["replicasets"]


def test_the_kinds_that_controllers_make_are_named_for_each_controller() -> None:
    """A plan for a kind without a row makes nothing."""
    makes = {
        kind for kind in ALL if breach_of(ObjectKey(kind, "a", "x"), ReconcilePlan((create(an("v1", "Pod")),))) == ""
    }
    assert makes == {"ReplicaSet", "ReplicationController", "DaemonSet", "StatefulSet", "Job"}


def test_a_replica_set_of_another_namespace_is_not_adopted(bee: Harness) -> None:
    """Neither by labels that match, nor by an owner reference that names the Deployment."""
    cloud = Cloud(bee)
    made = present(cloud.call("create", "deployments", namespace="a", body=workload("Deployment", replicas=1)).object)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": made["metadata"]["uid"]}
    for name, owners in (("loose", []), ("claimed", [{**owner, "controller": True}])):
        other = workload("ReplicaSet", name, replicas=0)
        other["spec"] |= {name: made["spec"][name] for name in ("selector", "template")}
        other["metadata"] |= {"labels": {"app": "web"}, "ownerReferences": owners}
        assert cloud.call("create", "replicasets", namespace="bank", body=other).refusal is None
    bee.run_for(30)
    found = {
        key.namespace: cloud.cluster.storage.get(key)
        for key in cloud.cluster.storage
        if key.kind == "ReplicaSet" and key.name != "claimed"
    }
    assert sorted(found) == ["a", "bank"]
    assert found["a"]["metadata"]["ownerReferences"][0]["uid"] == owner["uid"]
    assert "ownerReferences" not in found["bank"]["metadata"]
