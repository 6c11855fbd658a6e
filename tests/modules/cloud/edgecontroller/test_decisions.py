"""Pure decisions: references, downstream messages, pull policy, quality of service, merged statuses."""

from typing import Any

import pytest

from beehive.message import Message, Route
from beehive.names import Operation
from modules.apimachinery.graceful_deletion import grace_for_deletion, is_deletion_complete, with_deletion_begun
from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.pod_references import references_of
from modules.cloud.apiserver.pod_defaults import pull_policy, with_pod_defaults
from modules.cloud.edgecontroller.downstream_messages import messages_for_event
from modules.cloud.edgecontroller.upstream.controller import COMPARED, attributes_of
from modules.cloud.edgecontroller.upstream.handlers import HANDLERS
from modules.cloud.edgecontroller.upstream.requests import UpstreamRequest
from modules.cloud.edgecontroller.upstream.status_merge import merged_node, merged_pod_status
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from tests.modules.cloud.objects import configmap, pod, secret

NOW = 1_795_139_690.0


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.35", "IfNotPresent"),
        ("registry:5000/busybox", "Always"),
        ("registry:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:00", "IfNotPresent"),
        ("busybox:1.35@sha256:00", "IfNotPresent"),
        ("registry:5000/busybox:latest@sha256:00", "Always"),
    ],
)
def test_the_tag_decides_the_pull_policy(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def resources(**kinds: dict[str, str]) -> dict[str, Any]:
    return {"name": "c", "image": "i:1", "resources": kinds}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([resources()], "BestEffort"),
        ([resources(requests={"cpu": "10m"})], "Burstable"),
        ([resources(limits={"cpu": "1", "memory": "1Gi"})], "Guaranteed"),
        ([resources(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "1000m"})], "Guaranteed"),
        ([resources(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "500m"})], "Burstable"),
        ([resources(limits={"cpu": "1", "memory": "1Gi"}), resources()], "Burstable"),
    ],
)
def test_quality_of_service(containers: list[dict[str, Any]], expected: str) -> None:
    assert with_pod_defaults(pod(containers=containers))["status"]["qosClass"] == expected


def test_every_way_to_name_a_configmap_or_secret_is_found() -> None:
    """KubeEdge leaves out init containers; here they count."""
    found = references_of(
        pod(
            volumes=[
                {"name": "a", "configMap": {"name": "volume-cm"}},
                {"name": "b", "secret": {"secretName": "volume-secret"}},
                {
                    "name": "c",
                    "projected": {
                        "sources": [
                            {"configMap": {"name": "projected-cm"}},
                            {"secret": {"name": "projected-secret"}},
                            {"downwardAPI": {}},
                        ]
                    },
                },
                {"name": "d", "emptyDir": None},
            ],
            initContainers=[{"name": "i", "envFrom": [{"configMapRef": {"name": "init-cm"}}]}],
            containers=[
                {
                    "name": "c",
                    "envFrom": [{"secretRef": {"name": "from-secret"}}],
                    "env": [
                        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "key-cm", "key": "k"}}},
                        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "key-secret", "key": "k"}}},
                        {"name": "C", "value": "plain"},
                    ],
                }
            ],
            imagePullSecrets=[{"name": "pull-secret"}],
        )
    )
    assert {(key.kind, key.name) for key in found} == {
        *(("ConfigMap", name) for name in ("volume-cm", "projected-cm", "init-cm", "key-cm")),
        *(("Secret", n) for n in ("volume-secret", "projected-secret", "from-secret", "key-secret", "pull-secret")),
    }


def stored(obj: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    meta = {"namespace": "default", "uid": "u", "resourceVersion": "7", **obj["metadata"], **metadata}
    return {**obj, "metadata": meta}


def event(change: EventType, new: dict[str, Any], old: dict[str, Any] | None = None) -> ObjectEvent:
    key = ObjectKey(new["kind"], new["metadata"].get("namespace", ""), new["metadata"]["name"])
    return ObjectEvent(change, key, new, old)


UNPLACED = stored(pod(nodeName=""))
PLACED = stored(pod())
RUNNING = {**PLACED, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("happened", "operations"),
    [
        pytest.param(event(EventType.ADDED, PLACED), ["insert"], id="a new pod"),
        pytest.param(event(EventType.ADDED, UNPLACED), [], id="a new pod without a node"),
        pytest.param(event(EventType.ADDED, stored(pod(), deletionTimestamp="t")), ["update"],
            id="a new pod that is being deleted"),
        pytest.param(event(EventType.MODIFIED, PLACED, UNPLACED), ["insert"], id="a pod that gets its node"),
        pytest.param(event(EventType.MODIFIED, RUNNING, PLACED), ["update"], id="a changed status is echoed"),
        pytest.param(event(EventType.MODIFIED, stored(pod(), labels={"a": "1"}), PLACED), ["update"], id="a new label"),
        pytest.param(event(EventType.DELETED, PLACED), ["delete"], id="a deleted pod"),
        pytest.param(event(EventType.ADDED, stored(configmap())), ["insert", "insert"], id="a new configmap"),
        pytest.param(event(EventType.ADDED, stored(secret())), ["update", "update"], id="a new secret is an update"),
        pytest.param(event(EventType.DELETED, stored(secret())), ["delete", "delete"], id="a deleted secret"),
        pytest.param(
            event(EventType.ADDED, {"kind": "Lease", "metadata": {"name": "n1", "namespace": "kube-node-lease"}}), [],
            id="a lease"),
    ],
)  # fmt: skip
def test_messages_to_nodes_for_a_change(happened: ObjectEvent, operations: list[str]) -> None:
    down = messages_for_event(happened, holders=["n1", "n2"])
    assert [message.operation for message in down] == operations
    assert all(message.version == happened.new["metadata"]["resourceVersion"] for message in down)


def test_resources_are_addressed_as_kubeedge_does() -> None:
    node_event = event(
        EventType.MODIFIED, {"kind": "Node", "metadata": {"name": "n1", "uid": "u", "resourceVersion": "7"}}
    )
    assert [down.resource for down in messages_for_event(node_event, [])] == ["node/n1/null/node/n1"]
    assert [down.resource for down in messages_for_event(event(EventType.ADDED, PLACED), [])] == [
        "node/n1/default/pod/web"
    ]
    assert messages_for_event(node_event, [])[0].operation is Operation.UPDATE


def terminated(name: str) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": 0}}}


@pytest.mark.parametrize(
    ("metadata", "status", "complete"),
    [
        ({}, {"phase": "Succeeded"}, False),
        ({"deletionTimestamp": "t"}, {"phase": "Succeeded"}, True),
        ({"deletionTimestamp": "t"}, {"phase": "Failed", "containerStatuses": [{"state": {"running": {}}}]}, False),
        ({"deletionTimestamp": "t"}, {"phase": "Failed", "containerStatuses": [terminated("a")]}, True),
        ({"deletionTimestamp": "t"}, {"phase": "Running", "containerStatuses": [terminated("a")]}, False),
        ({"deletionTimestamp": "t"}, {"phase": "Pending"}, False),
    ],
)
def test_when_a_deletion_is_complete(metadata: dict[str, Any], status: dict[str, Any], complete: bool) -> None:
    assert is_deletion_complete({"metadata": metadata, "status": status}) is complete


def test_a_reported_status_keeps_the_time_of_an_old_transition() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    old = {**PLACED, "status": {"conditions": [ready], "startTime": "2026-01-01T00:00:00Z"}}
    reported = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": None}]}
    same = merged_pod_status(old, reported, NOW)
    assert same["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert same["startTime"] == "2026-01-01T00:00:00Z"
    changed = merged_pod_status(old, {"conditions": [{"type": "Ready", "status": "False"}]}, NOW)
    assert changed["conditions"][0]["lastTransitionTime"] == "2026-11-20T01:54:50Z"


@pytest.mark.parametrize(
    ("reported", "stored", "kept"),
    [
        ([], [("DisruptionTarget", "EvictionByEvictionAPI")], [("DisruptionTarget", "EvictionByEvictionAPI")]),
        ([("example.com/gate", "Old")], [("example.com/gate", "New")], [("example.com/gate", "New")]),
        ([("example.com/gate", "Old")], [], []),
        ([("DisruptionTarget", "TerminationByKubelet")], [("DisruptionTarget", "EvictionByEvictionAPI")],
         [("DisruptionTarget", "TerminationByKubelet")]),
        ([("Initialized", "")], [("Ready", "")], [("Initialized", "")]),
    ],
)  # fmt: skip
def test_a_whole_status_leaves_to_others_what_is_theirs(
    reported: list[tuple[str, str]], stored: list[tuple[str, str]], kept: list[tuple[str, str]]
) -> None:
    """The report may be older than an eviction, or than the condition of a readiness gate."""

    def status(conditions: list[tuple[str, str]]) -> dict[str, Any]:
        return {"conditions": [{"type": name, "status": "True", "reason": why} for name, why in conditions]}

    of_others = {"nominatedNodeName": "n2", "resize": "Proposed", "resourceClaimStatuses": [{"name": "gpu"}]}
    old = {**PLACED, "status": {**status(stored), **of_others}}
    merged = merged_pod_status(old, status(reported), NOW)
    assert [(one["type"], one["reason"]) for one in merged.get("conditions", ())] == kept
    assert {name: merged[name] for name in of_others} == of_others


def test_a_whole_node_status_leaves_to_others_what_is_theirs() -> None:
    """Conditions of a network plug-in, and extended resources that an administrator has patched in."""
    dongles = {"example.com/dongle": "4"}
    network = {"type": "NetworkUnavailable", "status": "False"}
    before = {
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {
            "capacity": {"cpu": "1", "example.com/gpu": "9", **dongles},
            "allocatable": {"cpu": "1", **dongles},
            "conditions": [network, {"type": "Ready", "status": "Unknown"}],
        },
    }
    own = {"cpu": "2", "example.com/gpu": "1"}
    request = {"Status": {"capacity": own, "allocatable": own, "conditions": [{"type": "Ready", "status": "True"}]}}
    after = merged_node(before, request, NOW, update_frequency=10)["status"]
    assert [(one["type"], one["status"]) for one in after["conditions"]] == [
        ("NetworkUnavailable", "False"),
        ("Ready", "True"),
    ]
    assert after["capacity"] == after["allocatable"] == {**own, **dongles}


def test_container_statuses_are_sorted_and_init_ones_follow_the_spec() -> None:
    spec = {"initContainers": [{"name": "z"}, {"name": "a"}]}
    reported = {
        "containerStatuses": [{"name": "b"}, {"name": "a"}],
        "initContainerStatuses": [{"name": "a"}, {"name": "z"}],
    }
    merged = merged_pod_status({**pod(), "spec": spec}, reported, NOW)
    assert [status["name"] for status in merged["containerStatuses"]] == ["a", "b"]
    assert [status["name"] for status in merged["initContainerStatuses"]] == ["z", "a"]


def test_an_old_heartbeat_of_a_node_is_stamped_and_extended_resources_are_annotated() -> None:
    stale = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    request = {"Status": {"conditions": [stale]}, "ExtendResources": {"nvidia.com/gpu": [{"name": "gpu0"}]}}
    before = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"volumesAttached": [{"name": "v"}]}}
    after = merged_node(before, request, NOW, update_frequency=10)
    assert after["status"]["conditions"][0]["lastHeartbeatTime"] == "2026-11-20T01:54:50Z"
    assert after["status"]["volumesAttached"] == [{"name": "v"}]
    assert after["metadata"]["annotations"] == {
        "nvidia.com/gpu": '[{"name":"gpu0"}]',
        "huawei.com/gpu-status": '[{"id":"gpu0","healthy":true}]',
    }


@pytest.mark.parametrize(("stored", "after"), [(10003, 10003), (0, 10350), (None, 10350)])
def test_a_reported_port_fills_a_node_without_one_and_replaces_none(stored: int | None, after: int) -> None:
    """The port of the cloud's stream tunnel stays; 0 is what clients in Go write for none."""
    before = {"kind": "Node", "metadata": {"name": "n1"}, "status": {}}
    if stored is not None:
        before["status"] = {"daemonEndpoints": {"kubeletEndpoint": {"Port": stored}}}
    request = {"Status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10350}}}}
    merged = merged_node(before, request, NOW, update_frequency=10)
    assert merged["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": after}}


@pytest.mark.parametrize(
    ("resource_type", "operation"),
    sorted((str(kind), str(verb)) for kind, verb in HANDLERS if kind not in COMPARED),
)
def test_each_request_of_a_node_has_attributes_for_the_authorizer(resource_type: str, operation: str) -> None:
    """A type without them is an internal error, and the node waits for an answer."""
    message = Message(route=Route(resource=f"node/n1/default/{resource_type}/x", operation=operation), content={})
    request = UpstreamRequest(node="n1", namespace="default", name="x", message=message)
    assert attributes_of(resource_type, operation, request).verb


def test_a_later_deletion_shortens_the_grace_period_from_when_the_first_began() -> None:
    begun = with_deletion_begun({"metadata": {}}, 30, 100.0)
    assert with_deletion_begun(begun, 40, 105.0) == begun
    sooner = with_deletion_begun(begun, 10, 105.0)
    assert sooner == {"metadata": {"deletionTimestamp": "1970-01-01T00:01:50Z", "deletionGracePeriodSeconds": 10}}


@pytest.mark.parametrize(("asked", "seconds"), [(-5, 1), (0, 0), (7, 7), (None, 30), (2**62, 100 * 365 * 24 * 3600)])
def test_a_grace_period_has_a_second_for_a_negative_one_and_a_readable_end(asked: int | None, seconds: int) -> None:
    bound = {"metadata": {}, "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 30}}
    grace = grace_for_deletion(bound, asked)
    assert grace == seconds
    assert with_deletion_begun(bound, grace, 1.8e9)["metadata"]["deletionTimestamp"] < "3"
