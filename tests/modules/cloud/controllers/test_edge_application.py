"""EdgeApplications: a Deployment for each target with its overriders, and everything else once."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.applications import BELONGING_TO, EDGE_APPLICATION, TOPOLOGY
from modules.cloud.controllers import application_copies
from modules.cloud.controllers.application_copies import copies_of
from modules.cloud.controllers.application_definitions import ADMISSIONS, definitions
from modules.cloud.controllers.overriders import override
from tests.modules.cloud.controllers.site import Site, image_of, site_of, workload
from tests.modules.cloud.controllers.test_node_group import group

SERVICE: JsonObject = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}
SETTINGS: JsonObject = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings"},
    "data": {"color": "red"},
}
KEY = ObjectKey(EDGE_APPLICATION.key_name, "default", "shop")


def target(name: str, **overriders: Any) -> JsonObject:
    return {"name": name, "overriders": overriders}


def tag(value: str) -> list[JsonObject]:
    return [{"component": "Tag", "operator": "replace", "value": value}]


def application(*groups: JsonObject, manifests: list[JsonObject] | None = None, **scope: Any) -> JsonObject:
    given = [workload("Deployment", replicas=1)] if manifests is None else manifests
    return {
        "apiVersion": EDGE_APPLICATION.api_version,
        "kind": "EdgeApplication",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "workloadTemplate": {"manifests": given},
            "workloadScope": {"targetNodeGroups": list(groups), **scope},
        },
    }


@pytest.fixture
def at() -> Site:
    return site_of(*definitions(), group("east", nodes=["n1"]), group("west", nodes=["n2"]), nodes=("n1", "n2", "n3"))


def names(at: Site, kind: str = "Deployment") -> list[str]:
    return sorted(each["metadata"]["name"] for each in at.all(kind))


def states(at: Site) -> list[tuple[int, str, str]]:
    found = at.cluster.storage.get(KEY)["status"]["workloadStatus"]
    return [(each["identifier"]["ordinal"], each["identifier"].get("name", ""), each["conditions"]) for each in found]


TOO_LONG = (
    "spec.workloadTemplate.manifests: Too long: the Deployments of all targets may not be more than 2097152 bytes"
)


def large(arguments: list[str]) -> JsonObject:
    """A Deployment with a container, all of the same name, for each argument."""
    made = workload("Deployment")
    made["spec"]["template"]["spec"]["containers"] = [{"name": "main", "args": [each]} for each in arguments]
    return made


def causes_of(obj: JsonObject) -> list[str]:
    return [str(cause) for cause in ADMISSIONS[EDGE_APPLICATION.key_name](obj, None, lambda _: None)]


def test_two_groups_get_different_images_and_a_group_that_is_removed_loses_its_deployment_alone(at: Site) -> None:
    west = target("west", imageOverriders=tag("3"), replicas=2)
    at.apply(application(target("east", imageOverriders=tag("2")), west), seconds=10)
    places = sorted((pod["spec"]["nodeName"], image_of(pod)) for pod in at.pods())
    assert places == [("n1", "app:2"), ("n2", "app:3"), ("n2", "app:3")]
    assert states(at) == [(0, "web-east", "Available"), (0, "web-west", "Available")]
    assert at.cluster.storage.get(KEY)["status"]["available"] == "2/2"
    uid = at.get("Deployment", "web-west")["metadata"]["uid"]
    at.apply(application(west), seconds=60)
    assert names(at) == ["web-west"]
    assert at.get("Deployment", "web-west")["metadata"]["uid"] == uid
    assert states(at) == [(0, "web-west", "Available")]


def test_a_deployment_without_its_pods_is_not_available(at: Site) -> None:
    at.ready_after = lambda _: None
    at.apply(application(target("east"), manifests=[workload("Deployment", replicas=1), SETTINGS]), seconds=10)
    assert states(at) == [(0, "web-east", "Processing"), (1, "settings", "Available")]


def test_a_deployment_is_available_when_all_its_pods_are_ready(at: Site) -> None:
    """As in KubeEdge: a Deployment of four has its own condition Available with three."""
    at.ready_after = lambda pod: None if pod["metadata"]["name"] == min(names(at, "Pod")) else 1.0
    at.apply(application(target("east"), manifests=[workload("Deployment", replicas=4)]), seconds=20)
    ready = at.get("Deployment", "web-east")["status"]["readyReplicas"]
    assert (ready, states(at)) == (3, [(0, "web-east", "Processing")])
    at.ready_after = lambda _: 1.0
    at.run_for(10)
    assert states(at) == [(0, "web-east", "Available")]


def test_a_changed_manifest_changes_only_its_own_fields(at: Site) -> None:
    at.apply(application(target("east"), manifests=[workload("Deployment", replicas=1), SETTINGS, SERVICE]), seconds=10)
    address = at.get("Service", "web")["spec"]["clusterIP"]
    at.patch(at.get("Deployment", "web-east"), {"spec": {"replicas": 3}, "metadata": {"labels": {"mine": "1"}}})
    changed = {**SETTINGS, "data": {"size": "1"}}
    at.apply(
        application(target("east"), manifests=[workload("Deployment", image="app:9", replicas=1), changed, SERVICE])
    )
    at.run_for(20)
    deployment = at.get("Deployment", "web-east")
    assert (deployment["spec"]["replicas"], deployment["metadata"]["labels"]) == (3, {"mine": "1"})
    assert image_of(deployment["spec"]["template"]) == "app:9"
    assert at.get("ConfigMap", "settings")["data"] == {"size": "1"}
    assert at.get("Service", "web")["spec"]["clusterIP"] == address
    assert [state for *_, state in states(at)] == ["Available"] * 3
    at.writes.clear()
    at.run_for(60)
    assert at.writes == []


def test_objects_deleted_by_hand_are_made_again_and_unwanted_ones_go(at: Site) -> None:
    at.apply(application(target("east"), manifests=[workload("Deployment"), SETTINGS, SERVICE]))
    at.call("delete", at.get("ConfigMap", "settings"))
    at.call("delete", at.get("Deployment", "web-east"), seconds=30)
    assert (names(at), at.get("ConfigMap", "settings")["data"]) == (["web-east"], {"color": "red"})
    at.apply(application(target("east"), manifests=[workload("Deployment")]), seconds=5)
    assert names(at, "Service") == []
    assert "settings" not in names(at, "ConfigMap")
    assert {
        ("SuccessfulCreate", "Created ConfigMap: settings"),
        ("SuccessfulDelete", "Deleted ConfigMap: settings"),
        ("SuccessfulDelete", "Deleted Service: web"),
    } <= set(at.events())


def test_the_status_names_each_object_in_the_order_of_the_manifests(at: Site) -> None:
    at.apply(application(target("west"), target("east"), manifests=[workload("Deployment", replicas=1), SETTINGS]))
    at.run_for(10)
    deployment = {"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "default"}
    settings = {"ordinal": 1, "version": "v1", "kind": "ConfigMap", "namespace": "default", "name": "settings"}
    found = [each["identifier"] for each in at.cluster.storage.get(KEY)["status"]["workloadStatus"]]
    assert found == [{**deployment, "name": "web-east"}, {**deployment, "name": "web-west"}, settings]


def test_a_service_keeps_to_node_groups_and_its_slices_say_which(at: Site) -> None:
    at.apply(application(target("east"), target("west"), manifests=[workload("Deployment", replicas=1), SERVICE]))
    at.run_for(10)
    assert at.get("Service", "web")["metadata"]["annotations"][TOPOLOGY] == "range-nodegroup"
    give_addresses(at)
    assert nodes_of_slices(at) == {"east": ["n1"], "west": ["n2"]}
    at.apply(group("west", nodes=["n3"]), seconds=60)
    give_addresses(at)
    assert nodes_of_slices(at) == {"east": ["n1"], "west": ["n3"]}
    at.patch(at.get("Service", "web"), {"metadata": {"annotations": {TOPOLOGY: None}}}, seconds=5)
    assert nodes_of_slices(at) == {"": ["n1", "n3"]}


def give_addresses(at: Site) -> None:
    for number, pod in enumerate(at.pods()):
        at.report(pod, "Running", ready=True, podIPs=[{"ip": f"10.1.0.{number + 1}"}])
    at.run_for(5)


def nodes_of_slices(at: Site) -> dict[str, list[str]]:
    return {
        each["metadata"]["labels"].get(BELONGING_TO, ""): sorted(one["nodeName"] for one in each["endpoints"])
        for each in at.all("EndpointSlice")
    }


def test_an_object_of_a_stranger_is_left_alone(at: Site) -> None:
    at.apply({**SETTINGS, "data": {"color": "blue"}})
    at.apply(application(target("east"), manifests=[SETTINGS, workload("Deployment", replicas=1)]), seconds=10)
    assert at.get("ConfigMap", "settings")["data"] == {"color": "blue"}
    assert states(at) == [(0, "settings", "Processing"), (1, "web-east", "Available")]
    assert ("FailedCreate", "ConfigMap settings exists, and is not this application's") in at.events()
    at.call("delete", at.get("ConfigMap", "settings"))
    at.apply(application(target("east"), target("west"), manifests=[SETTINGS, workload("Deployment", replicas=1)]))
    at.run_for(10)
    assert at.get("ConfigMap", "settings")["data"] == {"color": "red"}


def test_a_refused_object_is_reported_and_tried_again(at: Site) -> None:
    broken = workload("Deployment", replicas=1)
    broken["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    at.apply(application(target("east"), manifests=[broken]), seconds=5)
    assert states(at) == [(0, "web-east", "Processing")]
    assert any(reason == "FailedCreate" and "web-east" in why for reason, why in at.events())
    at.apply(application(target("east")), seconds=60)
    assert states(at) == [(0, "web-east", "Available")]


def test_a_settled_application_is_not_written_again_nor_after_a_restart(at: Site) -> None:
    at.apply(
        application(target("east"), target("west"), manifests=[workload("Deployment", replicas=1), SETTINGS, SERVICE])
    )
    at.run_for(10)
    at.writes.clear()
    at.restart()
    at.run_for(60)
    assert at.writes == []


def test_objects_of_an_application_go_with_it(at: Site) -> None:
    made = at.apply(application(target("east"), manifests=[workload("Deployment"), SETTINGS]))
    for kind, name in (("Deployment", "web-east"), ("ConfigMap", "settings")):
        owner = at.get(kind, name)["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("EdgeApplication", made["metadata"]["uid"], True)


def test_targets_by_labels_have_kubeedges_names_and_an_affinity() -> None:
    expression = {"key": "gpu", "operator": "Exists"}
    labels = [
        {"labelSelector": {"matchLabels": {"a": "1", "b": "2"}}},
        {"labelSelector": {"matchExpressions": [expression]}},
    ]
    copies, causes = copies_of(application(targetNodeLabels=labels))
    assert causes == []
    first, second = (copy.obj for copy in copies)
    assert first["metadata"]["name"] == "web-ls-85337816"  # sha256 of a1b2
    terms = [
        obj["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for obj in (first, second)
    ]
    assert terms[0]["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": name, "operator": "In", "values": [value]} for name, value in (("a", "1"), ("b", "2"))
            ]
        }
    ]
    assert terms[1]["nodeSelectorTerms"] == [{"matchExpressions": [expression]}]
    assert second["metadata"]["name"] != first["metadata"]["name"]


@pytest.mark.parametrize(
    ("image", "component", "operator", "value", "made"),
    [
        ("nginx:1.25", "Registry", "add", "reg.example:5000", "reg.example:5000/nginx:1.25"),
        ("a.io/x/nginx:1", "Registry", "replace", "b.io", "b.io/x/nginx:1"),
        ("a.io/x/nginx:1", "Registry", "remove", "", "x/nginx:1"),
        ("a.io/nginx", "Repository", "replace", "x/y", "a.io/x/y"),
        ("localhost/nginx", "Repository", "add", "-alpine", "localhost/nginx-alpine"),
        ("nginx", "Tag", "add", "2", "nginx:2"),
        ("nginx:1", "Tag", "remove", "", "nginx"),
        (f"nginx@sha256:{'a' * 64}", "Tag", "replace", "1", "nginx:1"),
        ("nginx:1", "Tag", "replace", f"sha256:{'b' * 64}", f"nginx@sha256:{'b' * 64}"),
    ],
)
def test_images(image: str, component: str, operator: str, value: str, made: str) -> None:
    deployment = workload("Deployment", image=image)
    overrider = {"component": component, "operator": operator, "value": value}
    assert list(override(deployment, {"imageOverriders": [overrider]}, "x")) == []
    assert image_of(deployment["spec"]["template"]) == made


def test_the_other_overriders() -> None:
    deployment = workload("Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container |= {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}], "args": ["-v", "-x"]}
    container["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    by = {"containerName": "main"}
    overriders = {
        "replicas": 0,
        "envOverriders": [
            {**by, "operator": "replace", "value": [{"name": "B", "value": "2"}, {"name": "C", "value": "3"}]},
            {**by, "operator": "remove", "value": [{"name": "A"}]},
            {**by, "operator": "add", "value": [{"name": "D", "value": "4"}]},
            {"containerName": "other", "operator": "add", "value": [{"name": "E"}]},
        ],
        "commandOverriders": [{**by, "operator": "add", "value": ["run"]}],
        "argsOverriders": [{**by, "operator": "remove", "value": ["-x"]}, {**by, "operator": "add", "value": ["-y"]}],
        "resourcesOverriders": [{**by, "value": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}],
    }
    assert list(override(deployment, overriders, "x")) == []
    assert deployment["spec"]["replicas"] == 0
    assert [(each["name"], each["value"]) for each in container["env"]] == [("B", "2"), ("C", "3"), ("D", "4")]
    assert (container["command"], container["args"]) == (["run"], ["-v", "-y"])
    assert container["resources"] == {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}


def test_an_image_by_its_path() -> None:
    deployment = workload("Deployment")
    path = "/spec/template/spec/containers/0/image"
    overriders = {
        "imageOverriders": [{"component": "Tag", "operator": "replace", "value": "7", "predicate": {"path": path}}]
    }
    assert list(override(deployment, overriders, "x")) == []
    assert image_of(deployment["spec"]["template"]) == "app:7"


PODS = "/spec/template/spec"


@pytest.mark.parametrize(
    "path",
    ["/spec/replicas", f"{PODS}/containers/image", f"{PODS}/none/image", "/x", "", PODS, "/spec/template", "/kind"],
)
def test_a_path_that_leads_to_no_text_is_refused(path: str) -> None:
    change = {"component": "Tag", "operator": "replace", "value": "7", "predicate": {"path": path}}
    (cause,) = override(workload("Deployment", replicas=1), {"imageOverriders": [change]}, "x")
    assert cause.field == "x.imageOverriders[0].predicate.path"


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.update(kind="Secret"),
        lambda made: made.update(apiVersion="v1"),
        lambda made: made.update(status={"replicas": 1}),
        lambda made: made["metadata"].update(name="other"),
        lambda made: made["metadata"].update(namespace="bank"),
        lambda made: made["metadata"].update(labels={"app": "bank"}),
        lambda made: made["metadata"].update(finalizers=["x/y"]),
        lambda made: made["metadata"].update(ownerReferences=[{"uid": "u"}]),
        lambda made: made["spec"].update(selector={"matchLabels": {"app": "bank"}}),
        lambda made: made["spec"]["template"]["metadata"].update(labels={"app": "bank"}),
    ],
)
def test_a_deployment_is_looked_at_again_when_it_is_made(change: Callable[[JsonObject], None]) -> None:
    """Whatever the overriders of a later version change."""

    def changing(made: JsonObject, *_: object) -> list[object]:
        change(made)
        return []

    with patch.object(application_copies, "override", changing):
        _, causes = copies_of(application(target("east")))
    assert list(map(str, causes)) == [
        "spec.workloadScope.targetNodeGroups[0].overriders: Forbidden: an overrider changes a Deployment's replicas "
        "and its pods only"
    ]


def test_no_overrider_changes_the_place_of_the_pods() -> None:
    """The nodes of the target are wanted after the overriders have changed the pods' own affinity."""
    deployment = workload("Deployment")
    term = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    deployment["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
    path = f"{PODS}/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0"
    change = {"component": "Repository", "operator": "replace", "value": "other"}
    changes = [{**change, "predicate": {"path": f"{path}/matchExpressions/{number}/key"}} for number in range(2)]
    labels = {"labelSelector": {"matchLabels": {"site": "east"}}, "overriders": {"imageOverriders": changes[:1]}}
    (copy,), causes = copies_of(application(targetNodeLabels=[labels], manifests=[deployment]))
    assert causes == []
    affinity = copy.obj["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (found,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [each["key"] for each in found["matchExpressions"]] == ["other", "site"]
    labels["overriders"] = {"imageOverriders": changes[1:]}
    _, causes = copies_of(application(targetNodeLabels=[labels], manifests=[deployment]))
    assert [cause.field[-14:] for cause in causes] == ["predicate.path"]


ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "me"}}
KINDS = (
    '"ConfigMap", "CronJob", "DaemonSet", "Deployment", "Job", "PersistentVolumeClaim", "PodDisruptionBudget", '
    '"Service", "StatefulSet"'
)


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (application(target("a"), target("a")), 'spec.workloadScope.targetNodeGroups[1]: Duplicate value: "a"'),
        (application(target("")), "spec.workloadScope.targetNodeGroups[0].name: Required value"),
        (application(targetNodeLabels=[{"labelSelector": {}}]),
         "spec.workloadScope.targetNodeLabels[0].labelSelector: Required value"),
        (
            application(manifests=[ROLE]),
            "spec.workloadTemplate.manifests[0].kind: Unsupported value: "
            f'"ClusterRoleBinding": supported values: {KINDS}',
        ),
        (application(manifests=[{**SETTINGS, "apiVersion": "v2"}]),
         'spec.workloadTemplate.manifests[0].apiVersion: Unsupported value: "v2": supported values: "v1"'),
        (
            application(manifests=[{**SETTINGS, "metadata": {"name": "x", "namespace": "kube-system"}}]),
            'spec.workloadTemplate.manifests[0].metadata.namespace: Invalid value: "kube-system": must be default, the '
            "application's",
        ),
        (application(manifests=[{**SETTINGS, "metadata": {}}]),
         "spec.workloadTemplate.manifests[0].metadata.name: Required value"),
        (application(manifests=[SETTINGS, SETTINGS]),
         'spec.workloadTemplate.manifests[1].metadata.name: Duplicate value: "settings"'),
        (application(manifests=[{**SERVICE, "spec": {"externalIPs": ["1.2.3.4"]}}]),
         "spec.workloadTemplate.manifests[0].spec.externalIPs: Forbidden: an EdgeApplication may not take addresses"),
        (
            application(target("a", imageOverriders=[{"component": "Tag", "operator": "add"}])),
            "spec.workloadScope.targetNodeGroups[0].overriders.imageOverriders[0].value: Required value: must not be "
            "empty when the operator is add or replace",
        ),
        (
            application(target("a", imageOverriders=tag("a b"))),
            "spec.workloadScope.targetNodeGroups[0].overriders.imageOverriders[0].value: Invalid value: \"a b\": "
            "'app:a b' is not the name of an image",
        ),
        (
            application(target("a", argsOverriders=[{"containerName": "x", "operator": "add", "value": []}])),
            'spec.workloadScope.targetNodeGroups[0].overriders.argsOverriders[0].containerName: Invalid value: "x": no '
            "Deployment has a container of this name",
        ),
        (application(target("a"), manifests=[{**workload("Deployment"), "spec": {"template": []}}]),
         'spec.workloadTemplate.manifests[0]: Invalid value: "Deployment": a part of it has the wrong type'),
        (application(*(target(f"g{at}") for at in range(501)), manifests=[workload("Deployment")] * 2),
         "spec.workloadTemplate.manifests: Too many: 1002: must have at most 1000 items"),
        (application(*(target(f"g{at}") for at in range(100)), manifests=[large(["x" * 30_000])]), TOO_LONG),
        (
            application(
                target("g", argsOverriders=[{"containerName": "main", "operator": "add", "value": ["x" * 30_000]}]),
                manifests=[large(["x"] * 100)],
            ),
            TOO_LONG,
        ),
    ],
)  # fmt: skip
def test_wrong_applications_are_refused_before_anything_is_written(wrong: JsonObject, cause: str) -> None:
    assert causes_of(wrong) == [cause]


def test_an_application_that_was_stored_before_there_were_rules_makes_nothing(at: Site) -> None:
    at.apply(application(target("east"), target("east")), seconds=5)
    assert names(at) == []
    assert states(at) == [(0, "", "Processing")]
    at.run_for(60)
    assert [reason for reason, _ in at.events()].count("InvalidApplication") == 1
