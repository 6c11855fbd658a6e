"""Aggregated ClusterRoles have the rules of others, whoever writes over them, and no pods are read for that."""

from typing import Any

from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, kind_named
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.system_objects import make_system_objects
from modules.cloud.client.calls import MERGE
from modules.cloud.controllers.cluster_role import reconcile
from modules.cloud.controllers.plan import NOTHING
from modules.cloud.controllers.view import View
from tests.modules.cloud.controllers.test_module import Cloud

GROUP = "rbac.authorization.k8s.io"
CAKES = {"apiGroups": ["kitchen.example"], "resources": ["cakes"], "verbs": ["get"]}
PIES = {"apiGroups": ["kitchen.example"], "resources": ["pies"], "verbs": ["get"]}


def role(name: str, *rules: JsonObject, selects: str = "", **labels: str) -> JsonObject:
    """Return a ClusterRole; `selects` is a label of those whose rules it has."""
    made: JsonObject = {
        "kind": "ClusterRole",
        "apiVersion": f"{GROUP}/v1",
        "metadata": {"name": name, "labels": labels},
    }
    if selects:
        made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {selects: "yes"}}]}
    return {**made, "rules": [*rules]}


def planned(name: str, *roles: JsonObject) -> list[JsonObject] | None:
    """Return the rules that are written for a role; None if nothing is."""
    view = View()
    for version, each in enumerate(roles):
        view.put({**each, "metadata": {**each["metadata"], "resourceVersion": str(version + 1)}})
    plan = reconcile(view, ObjectKey("ClusterRole", "", name), 0.0)
    if plan is NOTHING:
        return None
    (write,) = plan.writes
    rules: list[JsonObject] = write.call.body["rules"]
    return rules


def test_the_rules_come_by_the_selectors_and_the_names_of_the_roles_and_each_once() -> None:
    a, b = role("a", PIES, CAKES, of="yes"), role("b", CAKES, of="yes")
    other = role("c", {**CAKES, "verbs": ["list"]})
    wanted = [PIES, CAKES]
    assert planned("all", b, a, other, role("all", selects="of")) == wanted
    assert planned("all", b, a, other, role("all", *wanted, selects="of")) is None
    assert planned("all", role("all", *wanted, selects="of")) == []
    assert planned("a", b, a, role("all", selects="of")) is None
    assert planned("gone", a) is None
    two = role("all", selects="second")
    two["aggregationRule"]["clusterRoleSelectors"].append({"matchLabels": {"of": "yes"}})
    assert planned("all", a, role("z", CAKES, second="yes"), two) == [CAKES, PIES]


def test_a_role_does_not_select_itself() -> None:
    assert planned("all", role("all", CAKES, selects="of", of="yes")) == []


def test_the_roles_of_a_new_cluster_have_their_rules_from_the_start(bee: Harness) -> None:
    cluster, view = Cluster(bee.clock), View()
    make_system_objects(cluster)
    roles = cluster.storage.list(kind_named("ClusterRole"))
    for each in roles:
        view.put(each)
    assert {key_of(each).name for each in roles if reconcile(view, key_of(each), 0.0) is not NOTHING} == set()


def rules(cloud: Cloud, name: str) -> list[JsonObject]:
    """Return the rules of a ClusterRole."""
    found = cloud.cluster.storage.get(ObjectKey("ClusterRole", "", name))["rules"]
    assert isinstance(found, list)
    return found


def test_roles_are_aggregated_over_two_steps_and_restored(bee: Harness) -> None:
    place: dict[str, Any] = {"api_version": f"{GROUP}/v1", "namespace": ""}
    cloud = Cloud(bee)
    before = {name: rules(cloud, name) for name in ("view", "edit", "admin")}
    added = role("cakes", CAKES, **{f"{GROUP}/aggregate-to-view": "true"})
    cloud.call("create", "clusterroles", body=added, **place)
    bee.run_for(2)
    assert [CAKES in rules(cloud, name) for name in before] == [True] * 3
    cloud.call("patch", "clusterroles", name="view", patch_type=MERGE, body={"rules": []}, **place)
    bee.run_for(2)
    assert CAKES in rules(cloud, "view")
    cloud.call("delete", "clusterroles", name="cakes", **place)
    bee.run_for(2)
    assert {name: rules(cloud, name) for name in before} == before
    assert {"Pod", "Node"}.isdisjoint(cloud.subscriptions._by_kind), "no workload needs them"
