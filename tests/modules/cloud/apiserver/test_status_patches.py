"""A patch of a status that leaves the metadata alone has the outcome of a whole new state, of which all is asked."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import InvalidError
from modules.apimachinery.conversion import copied
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, kind_named
from modules.apimachinery.protobuf.empty_members import without_empty_members
from modules.apimachinery.strategic_merge import merge_strategic
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.fields.merge_schemas import schema_of
from modules.cloud.apiserver.fields.types import DecodingError, decoded
from modules.cloud.apiserver.verbs.patching import patch, shown_patch
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.client.calls import JSON_PATCH, MERGE, STRATEGIC, ApiCall
from modules.cloud.refusals import Refusals
from tests.modules.cloud.apiserver.updates.samples import sample
from tests.modules.cloud.objects import node, pod

KEYS = (ObjectKey("Pod", "default", "web"), ObjectKey("Node", "", "n1"))
_TEXTS = st.sampled_from(["", "Running", "Failed", "True", None, 3, {"a": "b"}])
_CONDITIONS = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["Ready", "Other", None])}, optional={"status": _TEXTS}), max_size=3
)
STATUSES = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "phase": _TEXTS,
        "message": _TEXTS,
        "qosClass": _TEXTS,
        "conditions": _CONDITIONS | st.none() | st.just("none"),
        "resourceClaimStatuses": st.sampled_from([None, [], [{"name": "a"}]]),
        "capacity": st.sampled_from([None, {}, {"cpu": "2"}, {"cpu": 2}, {"cpu": "two"}, []]),
        "startTime": st.sampled_from(["2026-11-28T04:00:00Z", "now"]),
        "containerStatuses": st.lists(st.fixed_dictionaries({"name": _TEXTS, "restartCount": _TEXTS}), max_size=2),
        "unknown": _TEXTS,
    },
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "uid": st.just("own"),
        "labels": st.sampled_from([{"a": "b"}, {"a": "c"}, None]),
        "annotations": st.sampled_from([{"a": "b"}, {"kubernetes.io/config.mirror": "m"}, None]),
        "finalizers": st.sampled_from([["a/b"], []]),
        "resourceVersion": st.sampled_from(["own", "1"]),
    },
)
PATCHES = st.fixed_dictionaries(
    {"key": st.sampled_from(KEYS)}, optional={"status": STATUSES, "metadata": METADATA, "spec": st.just({"a": 1})}
)


def _cluster() -> tuple[Cluster, Callable[[JsonObject | None, JsonObject | None], None]]:
    clock = Simulation(1).clock
    cluster = Cluster(clock)
    cluster.apply({"apiVersion": "v1", "kind": "Node", **node()})
    cluster.apply({**pod(), "metadata": {"name": "web", "labels": {"a": "b"}, "finalizers": ["a/b"]}})
    return cluster, AccessControl(NodeGraph(cluster.storage, clock), Refusals(clock)).admission("n1")


def _call(key: ObjectKey, body: JsonObject) -> ApiCall:
    return ApiCall(
        verb="patch", api_version="v1", plural="pods" if key.kind == "Pod" else "nodes", namespace=key.namespace,
        name=key.name, subresource="status", patch_type=STRATEGIC, body=body, node="n1",
    )  # fmt: skip


def _patched(cluster: Cluster, key: ObjectKey, body: JsonObject) -> JsonObject:
    return patch(cluster, _call(key, body), key)


def _asked_whole(cluster: Cluster, key: ObjectKey, body: JsonObject) -> JsonObject:
    """Store a status as a whole new state that shares nothing with the stored one."""
    live = cluster.to_change(key)
    merged: JsonObject = copied(merge_strategic(live, body, schema_of(key.kind)))
    try:
        merged = decoded(kind_named(key.kind), merged)
    except DecodingError as error:
        why = f"Invalid value: {shown_patch(_call(key, body))}: {error.converted}"
        raise InvalidError("", "", "patch", why) from error
    return cluster.update_status(key, without_empty_members(merged, live))


def _outcome(store: Callable[[Cluster, ObjectKey, JsonObject], JsonObject], patches: list[dict[str, Any]]) -> list[Any]:
    cluster, admission = _cluster()
    found: list[Any] = []
    for each in patches:
        key, body = each["key"], {name: value for name, value in each.items() if name != "key"}
        live = cluster.storage.get(key)
        if metadata := body.get("metadata"):
            own = {name: live["metadata"].get(name) for name, value in metadata.items() if value == "own"}
            body["metadata"] = {**metadata, **own}
        try:
            with cluster.with_admission(admission):
                store(cluster, key, body)
        except Exception as error:  # noqa: BLE001 - refusals are compared, too
            found.append(error.status() if isinstance(error, ApiStatusError) else f"{type(error).__name__}: {error}")
        found.append(cluster.storage.get(key))
    found += [(event.type, event.new, event.is_selected_alike) for event in cluster.storage.drain_events()]
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(PATCHES, min_size=1, max_size=4))
def test_a_patched_status_has_the_outcome_of_a_whole_state(patches: list[dict[str, Any]]) -> None:
    assert _outcome(_patched, patches) == _outcome(_asked_whole, patches)


@pytest.mark.parametrize(
    ("key", "status"),
    [
        (KEYS[1], {"capacity": {"cpu": "two"}}),
        (KEYS[0], {"startTime": "now"}),
        (KEYS[0], {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ""}]}),
    ],
    ids=["quantity", "time", "time of a condition"],
)
def test_a_node_stores_no_status_that_keeps_others_from_patching_the_object(key: ObjectKey, status: JsonObject) -> None:
    """Any patch of an object decodes the whole: with such a status a Node could be neither cordoned nor tainted."""
    cluster, _ = _cluster()
    with pytest.raises(InvalidError):
        _patched(cluster, key, {"status": status})
    stored = cluster.storage.get(key).get("status", {})
    assert all(stored.get(name) != value for name, value in status.items())


def test_an_approval_is_decoded_like_a_status() -> None:
    cluster, _ = _cluster()
    stored = cluster.create(sample("CertificateSigningRequest", "x"))
    condition = {"type": "Approved", "status": "True", "reason": "known", "lastUpdateTime": "now"}
    call = ApiCall(
        verb="patch", api_version="certificates.k8s.io/v1", plural="certificatesigningrequests", name="x",
        subresource="approval", patch_type=MERGE, body={"status": {"conditions": [condition]}},
    )  # fmt: skip
    with pytest.raises(InvalidError):
        patch(cluster, call, key_of(stored))


@pytest.mark.parametrize("subresource", ["", "status"])
def test_no_patch_gives_an_object_the_uid_of_another(subresource: str) -> None:
    """What is bound to the object, a token or an owner's reference, would be the other's. A list of operations names
    it nowhere before it is carried out.
    """
    cluster, _ = _cluster()
    operations = [{"op": "replace", "path": "/metadata/uid", "value": "other"}]
    call = msgspec.structs.replace(
        _call(KEYS[0], {}), body=operations, patch_type=JSON_PATCH, subresource=subresource, node=""
    )
    with pytest.raises(InvalidError, match="field is immutable"):
        patch(cluster, call, KEYS[0])


def test_what_a_patch_leaves_alone_stays_the_stored_object_s_own() -> None:
    cluster, admission = _cluster()
    live = cluster.storage.get(KEYS[0])
    uid, metadata = live["metadata"]["uid"], cluster.storage.get(KEYS[0])["metadata"]
    asked: list[bool] = []

    def noted(old: JsonObject | None, new: JsonObject | None) -> None:
        asked.append(new is not None and new["metadata"] is metadata)
        admission(old, new)

    with cluster.with_admission(noted):
        stored = _patched(cluster, KEYS[0], {"metadata": {"uid": uid}, "status": {"phase": "Running"}})
    assert asked == [True, True]
    assert stored["spec"] is live["spec"]
    assert stored["status"]["phase"] == "Running"
