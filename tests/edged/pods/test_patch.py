"""A status patch is what a kubelet sends, and applying it gives the new status."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from edged.pods.pod_status.conditions import with_parts_of_others
from edged.pods.pod_status.patch import diff_node, diff_pod_status
from modules.apimachinery.types import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    HostIP,
    Node,
    NodeAddress,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
    Time,
    decode,
    to_value,
)
from tests.interop.traces import messages, recordings

_MERGE_KEYS = {"conditions": "type", "podIPs": "ip", "hostIPs": "ip", "addresses": "type"}


def apply_patch(original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Strategic merge as an API server does it, as far as statuses need it."""
    result = dict(original)
    for name, value in patch.items():
        if name.startswith("$setElementOrder/"):
            continue
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = apply_patch(result[name], value)
        elif name in _MERGE_KEYS and isinstance(value, list):
            result[name] = _merge_list(result.get(name, []), value, _MERGE_KEYS[name])
        else:
            result[name] = value
    for name, order in patch.items():
        if name.startswith("$setElementOrder/"):
            field = name.removeprefix("$setElementOrder/")
            key = _MERGE_KEYS[field]
            places = [element[key] for element in order]
            result[field] = sorted(result.get(field, []), key=lambda e: places.index(e[key]))
    return {name: value for name, value in result.items() if value != []}


def _merge_list(original: list[Any], patch: list[Any], key: str) -> list[Any]:
    if {"$patch": "replace"} in patch:
        return [element for element in patch if element != {"$patch": "replace"}]
    result = {element[key]: element for element in original}
    for element in patch:
        if element.get("$patch") == "delete":
            del result[element[key]]
        else:
            before = result.get(element[key], {})
            merged = {k: v for k, v in (before | element).items() if v is not None or k.startswith("last")}
            result[element[key]] = merged
    return list(result.values())


def _recorded() -> Iterator[tuple[str, str, Any, Any, str]]:
    """Each recorded patch with the object as the cloud had it before and after."""
    for file in recordings("today"):
        known: dict[str, Any] = {}
        sent: dict[str, tuple[Any, str]] = {}
        for message in messages(file):
            if message["route"]["resource"].count("/") != 2:
                continue
            _, kind, name = message["route"]["resource"].split("/")
            content, parent = message["content"], message["header"].get("parent_msg_id")
            key = f"{kind.removesuffix('patch')}/{name}"
            if message["route"]["operation"] == "patch":
                sent[message["header"]["msg_id"]] = known.get(key), content
            elif isinstance(content, dict):
                content = content.get("Object") or content
                before, patch = sent.get(parent, (None, ""))
                if before is not None:
                    yield f"{file.name}:{parent}", key.split("/", maxsplit=1)[0], before, content, patch
                if "uid" in content.get("metadata", {}):
                    known[key] = content


RECORDED = list(_recorded())


@pytest.mark.parametrize(("kind", "before", "after", "patch"), [r[1:] for r in RECORDED], ids=[r[0] for r in RECORDED])
def test_patch_is_as_a_kubelet_sent_it(kind: str, before: Any, after: Any, patch: str) -> None:
    """From the object before and after, the recorded patch comes out, key for key."""
    if kind == "pod":
        old, new = (decode(Pod, json.dumps(value)) for value in (before, after))
        ours = diff_pod_status(old.status, new.status, new.metadata.uid)
    else:
        ours = diff_node(*(decode(Node, json.dumps(value)) for value in (before, after)))
    assert json.loads(ours or "{}") == json.loads(patch)


def test_there_are_recorded_patches_to_compare_with() -> None:
    """The comparison above is not empty by accident."""
    assert len(RECORDED) >= 10


def test_no_change_is_no_patch() -> None:
    """An unchanged status is not sent."""
    status = PodStatus(phase="Running", conditions=(PodCondition(type="Ready", status="True"),))
    assert diff_pod_status(status, status, "u") is None
    assert diff_node(Node(), Node()) is None


def test_a_restated_status_has_the_nodes_own_disruption_but_not_known_conditions_of_others() -> None:
    gate = PodCondition(type="Custom", status="True")
    ours = PodCondition(type="DisruptionTarget", status="True", reason="TerminationByKubelet")
    patch = diff_pod_status(PodStatus(conditions=(gate,)), PodStatus(conditions=(gate, ours)), "u", sure=False)
    assert [each["type"] for each in json.loads(patch or "")["status"]["conditions"]] == ["DisruptionTarget"]


@pytest.mark.parametrize("sure", [True, False])
@pytest.mark.parametrize("name", ["DisruptionTarget", "example.com/gate", "PodResizePending"])
def test_a_status_from_before_anothers_write_does_not_undo_it(name: str, *, sure: bool) -> None:
    """The cloud has a condition and a nominated node that the node's status, which is older, lacks or has otherwise."""
    theirs = PodCondition(type=name, status="True", reason="TheirReason")
    ready = PodCondition(type="Ready", status="True")
    cloud = PodStatus(phase="Running", conditions=(theirs, ready), nominated_node_name="n2")
    for before in ((), (replace(theirs, status="False"),)):
        mine = PodStatus(phase="Running", conditions=(*before, replace(ready, status="False")))
        patch = diff_pod_status(cloud, mine, "u", sure=sure)
        assert patch is not None
        assert "nominatedNodeName" not in patch
        assert [each["type"] for each in json.loads(patch)["status"]["conditions"]] == ["Ready"]
        assert to_value(theirs) in apply_patch(to_value(cloud), json.loads(patch)["status"])["conditions"]


def test_the_nodes_own_disruption_takes_the_place_of_anothers() -> None:
    theirs = PodCondition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI")
    mine = replace(theirs, reason="TerminationByKubelet")
    patch = diff_pod_status(PodStatus(conditions=(theirs,)), PodStatus(conditions=(mine,)), "u")
    assert json.loads(patch or "")["status"]["conditions"] == [
        {"reason": "TerminationByKubelet", "type": "DisruptionTarget"}
    ]


def test_addresses_of_a_node_are_replaced() -> None:
    """Two addresses of one type survive, because the list is not merged by type."""
    new = Node(status=NodeStatus(addresses=tuple(NodeAddress(type="InternalIP", address=a) for a in ("a", "b"))))
    patch = json.loads(diff_node(Node(), new) or "")
    assert patch["status"]["addresses"][-1] == {"$patch": "replace"}
    assert apply_patch(to_value(Node()), patch) == to_value(new)


def test_labels_of_a_node_are_patched() -> None:
    """A new label is sent, a removed one is nulled."""
    old, new = (Node(metadata=ObjectMeta(name="n", labels=labels)) for labels in ({"a": "1"}, {"b": "2"}))
    assert json.loads(diff_node(old, new) or "") == {"metadata": {"labels": {"a": None, "b": "2"}}}


_words = st.sampled_from(["", "a", "b"])
_times = st.sampled_from([None, Time("2026-11-20T01:54:50Z"), Time("2026-11-20T01:54:51Z")])
_conditions = st.lists(
    st.builds(
        PodCondition,
        type=st.sampled_from(["Ready", "Initialized", "ContainersReady", "Custom"]),
        status=st.sampled_from(["True", "False"]),
        last_transition_time=_times,
        reason=_words,
        message=_words,
    ),
    unique_by=lambda condition: condition.type,
).map(tuple)
_containers = st.lists(
    st.builds(
        ContainerStatus,
        name=_words,
        ready=st.booleans(),
        state=st.builds(ContainerState, running=st.none() | st.builds(ContainerStateRunning, started_at=_times)),
    ),
    max_size=2,
).map(tuple)
_ips = st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1"]), unique=True)
_statuses = st.builds(
    PodStatus,
    phase=st.sampled_from(["Pending", "Running"]),
    reason=_words,
    conditions=_conditions,
    container_statuses=_containers,
    pod_ip=_words,
    pod_ips=_ips.map(lambda ips: tuple(PodIP(ip=ip) for ip in ips)),
    host_ips=_ips.map(lambda ips: tuple(HostIP(ip=ip) for ip in ips)),
    start_time=_times,
)


@given(_statuses, _statuses)
def test_applying_the_difference_gives_the_new_status(old: PodStatus, new: PodStatus) -> None:
    """apply(diff(a, b), a) == b, order of lists included; but for others' conditions, which stay as in a."""
    patch, new = diff_pod_status(old, new, "u"), with_parts_of_others(new, old)
    if patch is None:
        assert old == new
        return
    assert json.loads(patch)["metadata"] == {"uid": "u"}
    assert apply_patch(to_value(old), json.loads(patch)["status"]) == to_value(new)


@given(_statuses, _statuses, _statuses)
def test_a_whole_status_gives_the_new_one_from_any_state_of_the_cloud(
    old: PodStatus, new: PodStatus, cloud: PodStatus
) -> None:
    """But for conditions of others, which only they set."""
    patch = diff_pod_status(old, new, "u", sure=False)
    assert patch is not None
    found = apply_patch(to_value(cloud), json.loads(patch)["status"])
    wanted = to_value(new)
    assert {name: found.get(name) for name in ("podIPs", "hostIPs", "containerStatuses", "phase", "reason")} == {
        name: wanted.get(name) for name in ("podIPs", "hostIPs", "containerStatuses", "phase", "reason")
    }
    conditions = {each["type"]: each for each in found.get("conditions", [])}
    for each in wanted.get("conditions", []):
        if each["type"] != "Custom":
            assert conditions[each["type"]] == each
    theirs = {each.type: each for each in cloud.conditions}.get("Custom")
    assert conditions.get("Custom") == (None if theirs is None else to_value(theirs))
