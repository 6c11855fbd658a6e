"""Workloads, budgets, certificates, rights, Events and other kinds, as [sig-apps], [sig-auth] and others test them."""

from typing import Any

from modules.cloud.client.calls import STRATEGIC
from tests.modules.cloud.apiserver.conformance.world import CONTAINERS, LABELS, SELECTED, TEMPLATE, World, path_of
from tests.modules.cloud.objects import CERTIFICATE, SIGNING_REQUEST

Json = dict[str, Any]

_SELECTED: Json = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
_JOB: Json = {"template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}}
_CONDITION: Json = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "set from e2e test"}
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1"
_WHEN = "2026-01-01T00:00:00.000000Z"
_EVENT: Json = {
    "eventTime": _WHEN,
    "reportingController": "example.com/maker",
    "reportingInstance": "maker-1",
    "action": "Making",
    "reason": "Made",
    "regarding": {"kind": "Pod", "namespace": "default", "name": "web"},
    "type": "Normal",
}


def make(world: World, kind: str, name: str = "one", /, **spec: Any) -> Json:
    return world.create(path_of(kind), {"metadata": {"name": name, "labels": LABELS}, "spec": spec})


def scales(world: World, kind: str, **spec: Any) -> None:
    """Check that the subresource `scale` is read, updated and patched."""
    make(world, kind, replicas=1, **spec)
    path = path_of(kind, "one", subresource="scale")
    scale = world.get(path)
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 1})
    scale["spec"]["replicas"] = 2
    assert world.request("PUT", path, scale)["spec"] == {"replicas": 2}
    assert world.get(path_of(kind, "one"))["spec"]["replicas"] == 2
    assert world.request("PATCH", path, {"spec": {"replicas": 4}})["spec"] == {"replicas": 4}
    assert world.get(path_of(kind, "one"))["spec"]["replicas"] == 4


def has_status(world: World, kind: str, **spec: Any) -> None:
    """Check that the status is read, updated and patched, and that watches see it."""
    make(world, kind, **spec)
    path = path_of(kind, "one", subresource="status")
    start = world.get(path_of(kind))["metadata"]["resourceVersion"]
    found = world.get(path)
    conditions = [*(found.get("status", {}).get("conditions") or ()), _CONDITION]
    changed = world.request("PUT", path, {**found, "status": {**found.get("status", {}), "conditions": conditions}})
    assert changed["status"]["conditions"][-1] == _CONDITION
    patched = [{**_CONDITION, "type": "StatusPatched"}]
    world.request("PATCH", path, {"status": {"conditions": patched}})
    told = world.events(path_of(kind), resourceVersion=start, **SELECTED)
    assert [obj["status"]["conditions"][-1]["type"] for _, obj in told] == ["StatusUpdate", "StatusPatched"]
    assert told[-1][1]["spec"] == found["spec"]


def is_deleted_by_label(world: World, kind: str, **spec: Any) -> None:
    for name in ("one", "two", "three"):
        make(world, kind, name, **spec)
    assert len(world.names(path_of(kind, namespace=""), **SELECTED)) == 3
    world.request("DELETE", path_of(kind), **SELECTED)
    assert world.names(path_of(kind), **SELECTED) == []


def test_the_scale_of_a_deployment(world: World) -> None:
    """[sig-apps] Deployment Deployment should have a working scale subresource [Conformance]"""
    scales(world, "apps/v1/deployments", **_SELECTED)


def test_the_scale_of_a_replica_set(world: World) -> None:
    """[sig-apps] ReplicaSet Replicaset should have a working scale subresource [Conformance]"""
    scales(world, "apps/v1/replicasets", **_SELECTED)


def test_the_scale_of_a_stateful_set(world: World) -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should have a working scale subresource
    [Conformance]
    """
    scales(world, "apps/v1/statefulsets", serviceName="x", **_SELECTED)


def test_the_scale_of_a_replication_controller(world: World) -> None:
    """[sig-apps] ReplicationController should get and update a ReplicationController scale [Conformance]"""
    scales(world, "v1/replicationcontrollers", selector=LABELS, template=TEMPLATE)


def test_the_status_of_a_deployment(world: World) -> None:
    """[sig-apps] Deployment should validate Deployment Status endpoints [Conformance]"""
    has_status(world, "apps/v1/deployments", **_SELECTED)


def test_the_status_of_a_daemon_set(world: World) -> None:
    """[sig-apps] Daemon set [Serial] should verify changes to a daemon set status [Conformance]"""
    has_status(world, "apps/v1/daemonsets", **_SELECTED)


def test_the_status_of_a_replica_set(world: World) -> None:
    """[sig-apps] ReplicaSet should validate Replicaset Status endpoints [Conformance]"""
    has_status(world, "apps/v1/replicasets", **_SELECTED)


def test_the_status_of_a_stateful_set(world: World) -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should validate Statefulset Status
    endpoints [Conformance]
    """
    has_status(world, "apps/v1/statefulsets", serviceName="x", **_SELECTED)


def test_the_status_of_a_job(world: World) -> None:
    """[sig-apps] Job should apply changes to a job status [Conformance]"""
    has_status(world, "batch/v1/jobs", **_JOB)
    found = world.get(path_of("batch/v1/jobs", "one", subresource="status"))
    annotated = {
        "metadata": {"annotations": {"patchedstatus": "true"}},
        "status": {"startTime": "2026-01-01T00:00:00Z"},
    }
    world.request("PATCH", path_of("batch/v1/jobs", "one", subresource="status"), annotated)
    changed = world.get(path_of("batch/v1/jobs", "one"))
    assert changed["metadata"]["annotations"]["patchedstatus"] == "true"
    assert (changed["status"]["startTime"], changed["spec"]) == ("2026-01-01T00:00:00Z", found["spec"])


def test_daemon_sets_are_deleted_by_label(world: World) -> None:
    """[sig-apps] Daemon set [Serial] should list and delete a collection of DaemonSets [Conformance]"""
    is_deleted_by_label(world, "apps/v1/daemonsets", **_SELECTED)


def test_replica_sets_are_deleted_by_label(world: World) -> None:
    """[sig-apps] ReplicaSet should list and delete a collection of ReplicaSets [Conformance]"""
    is_deleted_by_label(world, "apps/v1/replicasets", **_SELECTED)


def test_stateful_sets_are_deleted_by_label(world: World) -> None:
    """[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should list, patch and delete a
    collection of StatefulSets [Conformance]
    """
    make(world, "apps/v1/statefulsets", "patched", serviceName="x", **_SELECTED)
    change = {"metadata": {"labels": {"test-ss": "patched", "conformance": None}}, "spec": {"replicas": 2}}
    changed = world.request("PATCH", path_of("apps/v1/statefulsets", "patched"), change)
    assert (changed["metadata"]["labels"], changed["spec"]["replicas"]) == ({"test-ss": "patched"}, 2)
    is_deleted_by_label(world, "apps/v1/statefulsets", serviceName="x", **_SELECTED)
    assert world.names(path_of("apps/v1/statefulsets")) == ["patched"]


def test_budgets_are_deleted_by_label(world: World) -> None:
    """[sig-apps] DisruptionController Listing PodDisruptionBudgets for all namespaces should list and delete a
    collection of PodDisruptionBudgets [Conformance]
    """
    is_deleted_by_label(world, "policy/v1/poddisruptionbudgets", minAvailable=1, selector={"matchLabels": LABELS})


def test_a_budget(world: World) -> None:
    """[sig-apps] DisruptionController should create a PodDisruptionBudget [Conformance]"""
    path = path_of("policy/v1/poddisruptionbudgets", "one")
    made = make(world, "policy/v1/poddisruptionbudgets", minAvailable="1%", selector={"matchLabels": LABELS})
    made["spec"]["minAvailable"] = "2%"
    assert world.request("PUT", path, made)["spec"]["minAvailable"] == "2%"
    patched = world.request("PATCH", path, {"spec": {"minAvailable": "3%"}})
    assert (patched["spec"]["minAvailable"], patched["metadata"]["generation"]) == ("3%", 3)
    world.request("DELETE", path)
    assert world.gone(path)


def test_the_status_of_a_budget(world: World) -> None:
    """[sig-apps] DisruptionController should update/patch PodDisruptionBudget status [Conformance]"""
    make(world, "policy/v1/poddisruptionbudgets", minAvailable=1, selector={"matchLabels": LABELS})
    path = path_of("policy/v1/poddisruptionbudgets", "one", subresource="status")
    found = world.get(path)
    disrupted = {"disruptedPods": {"one-0": "2026-01-01T00:00:00Z"}}
    counts = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 0}
    changed = world.request("PUT", path, {**found, "status": {**counts, **disrupted}})
    assert changed["status"]["disruptedPods"] == disrupted["disruptedPods"]
    assert world.request("PATCH", path, {"status": {"disruptedPods": None}})["status"] == counts


def test_an_eviction_is_blocked(world: World) -> None:
    """[sig-apps] DisruptionController should block an eviction until the PDB is updated to allow it [Conformance]"""
    make(world, "v1/pods", containers=CONTAINERS, schedulerName="nobody")
    world.request(
        "PATCH",
        path_of("v1/pods", "one", subresource="status"),
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
    )
    make(world, "policy/v1/poddisruptionbudgets", minAvailable=1, selector={"matchLabels": LABELS})
    status = path_of("policy/v1/poddisruptionbudgets", "one", subresource="status")
    counted = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    world.request("PATCH", status, {"status": {**counted, "disruptionsAllowed": 0}})
    eviction = {"metadata": {"name": "one"}}
    refusal = world.request("POST", path_of("v1/pods", "one", subresource="eviction"), eviction, 429)
    assert "DisruptionBudget" in [each["reason"] for each in refusal["details"]["causes"]]
    world.request("PATCH", status, {"status": {**counted, "disruptionsAllowed": 1}})
    world.request("POST", path_of("v1/pods", "one", subresource="eviction"), eviction, 201)
    assert world.get(status)["status"]["disruptionsAllowed"] == 0


def test_cron_jobs(world: World) -> None:
    """[sig-apps] CronJob should support CronJob API operations [Conformance]"""
    made = {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": _JOB}}}
    world.supports_operations("batch/v1/cronjobs", made, status={"lastScheduleTime": "2026-01-01T00:00:00Z"})


def test_the_life_of_a_job(world: World) -> None:
    """[sig-apps] Job should manage the lifecycle of a job [Conformance]"""
    make(world, "batch/v1/jobs", suspend=True, **_JOB)
    path = path_of("batch/v1/jobs", "one")
    assert world.request("PATCH", path, {"metadata": {"labels": {"one": "patched"}}})["metadata"]["labels"]["one"]
    found = world.get(path)
    found["metadata"]["annotations"] = {"updated": "true"}
    found["spec"]["suspend"] = False
    changed = world.request("PUT", path, found)
    assert (changed["metadata"]["annotations"], changed["spec"]["suspend"]) == ({"updated": "true"}, False)
    assert world.names(path_of("batch/v1/jobs", namespace=""), labelSelector="one=patched") == ["one"]
    world.request("DELETE", path_of("batch/v1/jobs"), labelSelector="one=patched")
    assert world.names(path_of("batch/v1/jobs")) == []


def test_the_life_of_a_controller_revision(world: World) -> None:
    """[sig-apps] ControllerRevision [Serial] should manage the lifecycle of a ControllerRevision [Conformance]"""
    world.supports_operations("apps/v1/controllerrevisions", {"data": {"a": "b"}, "revision": 3}, status=None)


def test_the_life_of_a_replication_controller(world: World) -> None:
    """[sig-apps] ReplicationController should test the lifecycle of a ReplicationController [Conformance]"""
    made = {"spec": {"replicas": 1, "selector": LABELS, "template": TEMPLATE}}
    world.supports_operations("v1/replicationcontrollers", made, status={"replicas": 1, "readyReplicas": 1})


def test_a_replica_set_is_replaced_and_patched(world: World) -> None:
    """[sig-apps] ReplicaSet Replace and Patch tests [Conformance]"""
    made = {"spec": {"replicas": 1, **_SELECTED}}
    world.supports_operations("apps/v1/replicasets", made, status={"replicas": 1})


def test_the_life_of_a_deployment(world: World) -> None:
    """[sig-apps] Deployment should run the lifecycle of a Deployment [Conformance]"""
    world.supports_operations("apps/v1/deployments", {"spec": _SELECTED}, status={"replicas": 1, "readyReplicas": 1})


def test_certificates(world: World) -> None:
    """[sig-auth] Certificates API [Privileged:ClusterAdmin] should support CSR API operations [Conformance]"""
    kind = "certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": SIGNING_REQUEST, "signerName": "example.com/e2e", "usages": ["client auth"]}
    world.supports_operations(kind, {"spec": spec}, "", status={"certificate": CERTIFICATE})
    listed = {each["name"]: each["verbs"] for each in world.get("/apis/certificates.k8s.io/v1")["resources"]}
    assert {*listed["certificatesigningrequests/approval"]} == {"get", "patch", "update"}
    world.create(path_of(kind, namespace=""), {"metadata": {"name": "three"}, "spec": spec})
    approval = path_of(kind, "three", "", "approval")
    found = world.get(approval)
    approved = {"type": "Approved", "status": "True", "reason": "E2E", "message": "set from e2e test"}
    changed = world.request("PUT", approval, {**found, "status": {"conditions": [approved]}})
    (condition,) = changed["status"]["conditions"]
    assert approved.items() <= condition.items()
    other = {**approved, "type": "ApprovalPatch"}
    world.request("PATCH", approval, {"status": {"conditions": [condition, other]}})
    types = [each["type"] for each in world.get(approval)["status"]["conditions"]]
    assert types == ["Approved", "ApprovalPatch"]


def test_service_accounts(world: World) -> None:
    """[sig-auth] ServiceAccounts should run through the lifecycle of a ServiceAccount [Conformance]"""
    world.supports_operations("v1/serviceaccounts", {}, status=None)


def test_a_service_account_is_updated(world: World) -> None:
    """[sig-auth] ServiceAccounts should update a ServiceAccount [Conformance]"""
    made = world.create(path_of("v1/serviceaccounts"), {"metadata": {"name": "one"}})
    made["automountServiceAccountToken"] = True
    path = path_of("v1/serviceaccounts", "one")
    assert world.request("PUT", path, made)["automountServiceAccountToken"] is True
    assert world.get(path)["automountServiceAccountToken"] is True


def test_reviews_of_rights(world: World) -> None:
    """[sig-auth] SubjectReview should support SubjectReview API operations [Conformance]"""
    asked = {"verb": "list", "resource": "configmaps", "namespace": "default"}
    spec = {"user": "system:serviceaccount:default:one", "groups": [], "resourceAttributes": asked}
    whole = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    local = path_of("authorization.k8s.io/v1/localsubjectaccessreviews")
    for path in (whole, local):
        assert world.create(path, {"spec": spec})["status"]["allowed"] is False
        administrator = {**spec, "groups": ["system:masters"]}
        assert world.create(path, {"spec": administrator})["status"]["allowed"] is True


def test_the_life_of_an_event(world: World) -> None:
    """[sig-instrumentation] Events API should ensure that an event can be fetched, patched, deleted, and listed
    [Conformance]
    """
    kind = "events.k8s.io/v1/events"
    world.create(path_of(kind), {"metadata": {"name": "one", "labels": LABELS}, **_EVENT})
    assert world.names(path_of(kind, namespace=""), **SELECTED) == ["one"]
    assert world.names(path_of(kind), fieldSelector="reportingController=example.com/maker") == ["one"]
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:02.000000Z"}}
    assert world.request("PATCH", path_of(kind, "one"), series, media=STRATEGIC)["series"] == series["series"]
    found = world.get(path_of(kind, "one"))
    found["series"]["count"] = 100
    assert world.request("PUT", path_of(kind, "one"), found)["series"]["count"] == 100
    world.request("DELETE", path_of(kind, "one"))
    assert world.names(path_of(kind, namespace="")) == []


def test_events_are_deleted_by_label(world: World) -> None:
    """[sig-instrumentation] Events API should delete a collection of events [Conformance]"""
    for name in ("one", "two", "three"):
        world.create(path_of("events.k8s.io/v1/events"), {"metadata": {"name": name, "labels": LABELS}, **_EVENT})
    world.request("DELETE", path_of("events.k8s.io/v1/events"), **SELECTED)
    assert world.names(path_of("events.k8s.io/v1/events")) == []


def _core_event(name: str) -> Json:
    about = {"kind": "Pod", "namespace": "default", "name": "web"}
    return {"metadata": {"name": name, "labels": LABELS}, "involvedObject": about, "reason": "Test", "type": "Normal"}


def test_the_life_of_an_older_event(world: World) -> None:
    """[sig-instrumentation] Events should manage the lifecycle of an event [Conformance]"""
    world.create(path_of("v1/events"), _core_event("one"))
    assert world.names(path_of("v1/events", namespace=""), **SELECTED) == ["one"]
    changed = world.request("PATCH", path_of("v1/events", "one"), {"message": "patched"}, media=STRATEGIC)
    assert changed["message"] == "patched"
    changed["series"] = {"count": 100, "lastObservedTime": _WHEN}
    assert world.request("PUT", path_of("v1/events", "one"), changed)["series"]["count"] == 100
    world.request("DELETE", path_of("v1/events", "one"))
    assert world.gone(path_of("v1/events", "one"))


def test_older_events_are_deleted_by_label(world: World) -> None:
    """[sig-instrumentation] Events should delete a collection of events [Conformance]"""
    for name in ("one", "two", "three"):
        world.create(path_of("v1/events"), _core_event(name))
    world.request("DELETE", path_of("v1/events"), **SELECTED)
    assert world.names(path_of("v1/events"), **SELECTED) == []


def test_the_life_of_a_service(world: World) -> None:
    """[sig-network] Services should complete a service status lifecycle [Conformance]"""
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}
    made = {"spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80, "targetPort": 80}]}}
    world.supports_operations("v1/services", made, status=status)


def test_services_change_their_type(world: World) -> None:
    """[sig-network] Services should be able to change the type from ExternalName to ClusterIP [Conformance]"""
    made = make(world, "v1/services", type="ExternalName", externalName="foo.example.com")
    assert "clusterIP" not in made["spec"]
    spec = {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80, "name": "http", "protocol": "TCP"}]}
    changed = world.request("PATCH", path_of("v1/services", "one"), {"spec": spec})
    assert changed["spec"]["clusterIP"]
    assert changed["spec"]["clusterIPs"] == [changed["spec"]["clusterIP"]]


def test_services_become_names(world: World) -> None:
    """[sig-network] Services should be able to change the type from ClusterIP to ExternalName [Conformance]"""
    make(world, "v1/services", ports=[{"port": 80, "name": "http", "protocol": "TCP"}])
    spec = {"type": "ExternalName", "externalName": "foo.example.com", "clusterIP": None, "clusterIPs": None}
    changed = world.request("PATCH", path_of("v1/services", "one"), {"spec": spec})
    assert (changed["spec"]["externalName"], "clusterIP" in changed["spec"]) == ("foo.example.com", False)


def _has_a_node_port(world: World) -> bool:
    (port,) = world.get(path_of("v1/services", "one"))["spec"]["ports"]
    return "nodePort" in port


def test_names_become_services_with_a_node_port(world: World) -> None:
    """[sig-network] Services should be able to change the type from ExternalName to NodePort [Conformance]"""
    make(world, "v1/services", type="ExternalName", externalName="foo.example.com")
    spec = {"type": "NodePort", "externalName": None, "ports": [{"port": 80, "name": "http", "protocol": "TCP"}]}
    changed = world.request("PATCH", path_of("v1/services", "one"), {"spec": spec})
    assert (bool(changed["spec"]["clusterIP"]), _has_a_node_port(world)) == (True, True)


def test_services_with_a_node_port_become_names(world: World) -> None:
    """[sig-network] Services should be able to change the type from NodePort to ExternalName [Conformance]"""
    make(world, "v1/services", type="NodePort", ports=[{"port": 80, "name": "http", "protocol": "TCP"}])
    assert _has_a_node_port(world)
    spec = {"type": "ExternalName", "externalName": "foo.example.com", "clusterIP": None, "clusterIPs": None}
    changed = world.request("PATCH", path_of("v1/services", "one"), {"spec": spec})
    assert ("clusterIP" in changed["spec"], _has_a_node_port(world)) == (False, False)


def test_services_are_found_in_all_namespaces(world: World) -> None:
    """[sig-network] Services should find a service from listing all namespaces [Conformance]"""
    make(world, "v1/services", ports=[{"port": 80}])
    assert "one" in world.names(path_of("v1/services", namespace=""))


def test_services_are_deleted_by_label(world: World) -> None:
    """[sig-network] Services should delete a collection of services [Conformance]"""
    is_deleted_by_label(world, "v1/services", ports=[{"port": 80}])


def test_the_life_of_endpoints(world: World) -> None:
    """[sig-network] Services should test the lifecycle of an Endpoint [Conformance]"""
    subsets = [{"addresses": [{"ip": "10.0.0.24"}], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}]
    world.supports_operations("v1/endpoints", {"subsets": subsets}, status=None)


def test_endpoint_slices(world: World) -> None:
    """[sig-network] EndpointSlice should support creating EndpointSlice API operations [Conformance]"""
    made = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.24"]}], "ports": [{"name": "a", "port": 80}]}
    world.supports_operations("discovery.k8s.io/v1/endpointslices", made, status=None)


def test_config_maps(world: World) -> None:
    """[sig-node] ConfigMap should run through a ConfigMap lifecycle [Conformance]"""
    world.supports_operations("v1/configmaps", {"data": {"a": "b"}}, status=None)


def test_a_config_map_with_an_empty_key(world: World) -> None:
    """[sig-node] ConfigMap should fail to create ConfigMap with empty key [Conformance]"""
    body = {"metadata": {"name": "one"}, "data": {"": "value"}}
    assert "data[]" in world.request("POST", path_of("v1/configmaps"), body, 422)["message"]


def test_secrets(world: World) -> None:
    """[sig-node] Secrets should patch a secret [Conformance]"""
    world.supports_operations("v1/secrets", {"data": {"a": "b25l"}}, status=None)


def test_a_secret_with_an_empty_key(world: World) -> None:
    """[sig-node] Secrets should fail to create secret due to empty secret key [Conformance]"""
    body = {"metadata": {"name": "one"}, "data": {"": "dmFsdWU="}}
    assert "data[]" in world.request("POST", path_of("v1/secrets"), body, 422)["message"]


def test_leases(world: World) -> None:
    """[sig-node] Lease lease API should be available [Conformance]"""
    world.supports_operations("coordination.k8s.io/v1/leases", {"spec": {"holderIdentity": "a"}}, status=None)


def test_runtime_classes(world: World) -> None:
    """[sig-node] RuntimeClass should support RuntimeClasses API operations [Conformance]"""
    world.supports_operations("node.k8s.io/v1/runtimeclasses", {"handler": "crun"}, "", status=None)


def test_pod_templates(world: World) -> None:
    """[sig-node] PodTemplates should run the lifecycle of PodTemplates [Conformance]"""
    world.supports_operations("v1/podtemplates", {"template": {"spec": {"containers": CONTAINERS}}}, status=None)


def test_a_pod_template_is_replaced(world: World) -> None:
    """[sig-node] PodTemplates should replace a pod template [Conformance]"""
    path, template = path_of("v1/podtemplates", "one"), {"spec": {"containers": CONTAINERS}}
    body = {"metadata": {"name": "one"}, "template": template}
    made = world.request("POST", path_of("v1/podtemplates"), body, 201)
    made["template"]["metadata"] = {"labels": {"a": "b"}}
    replaced = world.request("PUT", path, made)
    assert (replaced["template"]["metadata"], replaced["metadata"]["generation"]) == ({"labels": {"a": "b"}}, 2)


def test_ingresses(world: World) -> None:
    """[sig-network] Ingress API should support creating Ingress API operations [Conformance]"""
    backend = {"service": {"name": "default-backend", "port": {"number": 80}}}
    rule = {"host": "rule1.com", "http": {"paths": [{"path": "/rule1", "pathType": "Prefix", "backend": backend}]}}
    spec = {"defaultBackend": backend, "rules": [rule, {**rule, "host": "rule2.com"}]}
    status = {"loadBalancer": {"ingress": [{"ip": "169.1.1.1"}]}}
    world.supports_operations("networking.k8s.io/v1/ingresses", {"spec": spec}, status=status)


def test_ingress_classes(world: World) -> None:
    """[sig-network] IngressClass API should support creating IngressClass API operations [Conformance]"""
    spec = {"controller": "example.com/controller"}
    world.supports_operations("networking.k8s.io/v1/ingressclasses", {"spec": spec}, "", status=None)


def test_flow_schemas(world: World) -> None:
    """[sig-api-machinery] API priority and fairness should support FlowSchema API operations [Conformance]"""
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    subject = {"kind": "User", "user": {"name": "e2e"}}
    spec = {
        "matchingPrecedence": 10000, "priorityLevelConfiguration": {"name": "global-default"},
        "distinguisherMethod": {"type": "ByUser"}, "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }  # fmt: skip
    status = {"conditions": [{"type": "Dangling", "status": "False", "reason": "e2e"}]}
    world.supports_operations(f"{_FLOW_CONTROL}/flowschemas", {"spec": spec}, "", status=status)


def test_priority_levels(world: World) -> None:
    """[sig-api-machinery] API priority and fairness should support PriorityLevelConfiguration API operations
    [Conformance]
    """
    spec = {"type": "Limited", "limited": {"nominalConcurrencyShares": 2, "limitResponse": {"type": "Reject"}}}
    status = {"conditions": [{"type": "Degraded", "status": "False", "reason": "e2e"}]}
    world.supports_operations(f"{_FLOW_CONTROL}/prioritylevelconfigurations", {"spec": spec}, "", status=status)


def test_pods_are_deleted_by_label(world: World) -> None:
    """[sig-node] Pods should delete a collection of pods [Conformance]"""
    is_deleted_by_label(world, "v1/pods", containers=CONTAINERS, schedulerName="nobody")


def test_the_status_of_a_pod(world: World) -> None:
    """[sig-node] Pods should patch a pod status [Conformance]"""
    made = make(world, "v1/pods", containers=CONTAINERS, schedulerName="nobody")
    path = path_of("v1/pods", "one", subresource="status")
    changed = world.request("PATCH", path, {"status": {"message": "Patched by e2e test", "reason": "E2E"}})
    assert (changed["status"]["message"], changed["status"]["reason"]) == ("Patched by e2e test", "E2E")
    assert changed["spec"] == made["spec"]


def test_storage_classes(world: World) -> None:
    """[sig-storage] StorageClasses CSI Conformance should run through the lifecycle of a StorageClass [Conformance]"""
    world.supports_operations("storage.k8s.io/v1/storageclasses", {"provisioner": "example.com/e2e"}, "", status=None)


def test_csi_nodes(world: World) -> None:
    """[sig-storage] CSINodes CSI Conformance should run through the lifecycle of a csinode [Conformance]"""
    drivers = [{"name": "a.example.com", "nodeID": "n1", "topologyKeys": []}]
    world.supports_operations("storage.k8s.io/v1/csinodes", {"spec": {"drivers": drivers}}, "", status=None)


def test_volume_attachments(world: World) -> None:
    """[sig-storage] VolumeAttachment Conformance should run through the lifecycle of a VolumeAttachment
    [Conformance]
    """
    spec = {"attacher": "a.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
    kind = "storage.k8s.io/v1/volumeattachments"
    world.supports_operations(kind, {"spec": spec}, "", status={"attached": True})


def test_storage_capacities(world: World) -> None:
    """[sig-storage] CSIStorageCapacity should support CSIStorageCapacities API operations [Conformance]"""
    made = {"storageClassName": "fast", "capacity": "1Gi"}
    world.supports_operations("storage.k8s.io/v1/csistoragecapacities", made, status=None)


def test_an_immutable_config_map(world: World) -> None:
    """[sig-storage] ConfigMap should be immutable if `immutable` field is set [Conformance]"""
    path = path_of("v1/configmaps", "one")
    made = world.create(path_of("v1/configmaps"), {"metadata": {"name": "one"}, "data": {"a": "b"}})
    made["data"] = {"a": "c"}
    made = world.request("PUT", path, made)
    made = world.request("PUT", path, {**made, "immutable": True})
    for change in ({"data": {"a": "d"}}, {"immutable": False}, {"binaryData": {"b": "Yg=="}}):
        world.request("PUT", path, {**made, **change}, 422)
    world.request("PUT", path, {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})
    world.request("DELETE", path)


def test_an_immutable_secret(world: World) -> None:
    """[sig-storage] Secrets should be immutable if `immutable` field is set [Conformance]"""
    path = path_of("v1/secrets", "one")
    world.create(path_of("v1/secrets"), {"metadata": {"name": "one"}, "data": {"a": "Yg=="}})
    made = world.request("PATCH", path, {"immutable": True})
    for change in ({"data": {"a": "Yw=="}}, {"immutable": None}):
        world.request("PATCH", path, change, 422)
    world.request("PUT", path, {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})


def test_csi_drivers(world: World) -> None:
    """[sig-storage] CSIInlineVolumes should run through the lifecycle of a CSIDriver [Conformance]"""
    world.supports_operations("storage.k8s.io/v1/csidrivers", {"spec": {"attachRequired": False}}, "", status=None)


_VOLUME: Json = {
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "none",
        "csi": {"driver": "a.example.com", "volumeHandle": "v"},
    }
}
_CLAIM: Json = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "8Gi"}},
    "storageClassName": "other",
}


def test_volumes_and_claims(world: World) -> None:
    """[sig-storage] PersistentVolumes CSI Conformance should run through the lifecycle of a PV and a PVC
    [Conformance]
    """
    world.supports_operations("v1/persistentvolumes", _VOLUME, "", status={"phase": "Failed", "message": "E2E"})
    is_deleted_by_label(world, "v1/persistentvolumeclaims", **_CLAIM)


def test_the_status_of_volumes_and_claims(world: World) -> None:
    """[sig-storage] PersistentVolumes CSI Conformance should apply changes to a pv/pvc status [Conformance]"""
    has_status(world, "v1/persistentvolumeclaims", **_CLAIM)
    world.create(path_of("v1/persistentvolumes", namespace=""), {"metadata": {"name": "one"}, **_VOLUME})
    path = path_of("v1/persistentvolumes", "one", "", "status")
    changed = world.request("PATCH", path, {"status": {"message": "StatusPatched", "reason": "E2E patchStatus"}})
    assert (changed["status"]["message"], changed["status"]["reason"]) == ("StatusPatched", "E2E patchStatus")


def test_nodes(world: World) -> None:
    """[sig-node] Node Lifecycle should run through the lifecycle of a node [Conformance]"""
    condition = {"type": "Ready", "status": "Unknown", "reason": "E2E"}
    world.supports_operations("v1/nodes", {"spec": {"unschedulable": True}}, "", status={"conditions": [condition]})


def test_qos_classes(world: World) -> None:
    """[sig-node] Pods Extended Pods Set QOS Class should be set on Pods with matching resource requests and limits for
    memory and cpu [Conformance]
    """
    amounts = {"cpu": "100m", "memory": "100Mi"}
    container = {**CONTAINERS[0], "resources": {"requests": amounts, "limits": amounts}}
    made = make(world, "v1/pods", containers=[container], schedulerName="nobody")
    assert made["status"]["qosClass"] == "Guaranteed"


def test_quotas(world: World) -> None:
    """[sig-api-machinery] ResourceQuota should manage the lifecycle of a ResourceQuota [Conformance]"""
    status = {"hard": {"pods": "5"}, "used": {"pods": "1"}}
    world.supports_operations("v1/resourcequotas", {"spec": {"hard": {"pods": "5"}}}, status=status)


def test_limits(world: World) -> None:
    """[sig-scheduling] LimitRange should list, patch and delete a LimitRange by collection [Conformance]"""
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    world.supports_operations("v1/limitranges", {"spec": {"limits": limits}}, status=None)


def test_priority_classes(world: World) -> None:
    """[sig-scheduling] SchedulerPreemption [Serial] PriorityClass endpoints verify PriorityClass endpoints can be
    operated with different HTTP methods [Conformance]
    """
    kind = "scheduling.k8s.io/v1/priorityclasses"
    world.create(path_of(kind, "", ""), {"metadata": {"name": "lasting"}, "value": 1})
    world.request("PATCH", path_of(kind, "lasting", ""), {"value": 2}, 422)
    world.supports_operations(kind, {"value": 10}, "", status=None)
