"""Conditions of a pod: this node's among others', and the message about init containers."""

from typing import Any

import pytest
from msgspec.structs import replace

from edged.pods.kill_options import KillOptions
from edged.pods.model import PodFacts, ProbeFacts
from edged.pods.pod_status.conditions import pod_conditions, with_conditions_of_others
from edged.pods.pod_status.status import NodeView, pod_status
from modules.apimachinery.pods.node_conditions import DISRUPTION_TARGET
from modules.apimachinery.types import Pod, PodCondition, PodStatus, Probe, Time, format_time
from tests.edged.pods.builders import a_container, a_pod, at, exited, facts, running

NODE = NodeView(ips=("192.0.2.2",), runtime="containerd")
A = a_container("a")
FIRST, SIDECAR = a_container("first"), a_container("proxy", restart_policy="Always")
GATE = PodCondition(type="example.com/gate", status="False", reason="Closed")
OPEN = replace(GATE, status="True", reason="Open")
READY = PodCondition(type="Ready", status="True", last_transition_time=Time("2027-01-01T00:00:00Z"))
EVICTED = PodCondition(
    type=DISRUPTION_TARGET,
    status="True",
    reason="TerminationByKubelet",
    message="low on memory",
    last_transition_time=Time("2027-01-01T00:00:00Z"),
)
PREEMPTED = replace(EVICTED, reason="PreemptionByScheduler", message="another pod needs the room")


def conditions(pod: Pod, known: PodFacts, **more: Any) -> dict[str, PodCondition]:
    """By type."""
    return {each.type: each for each in pod_status(pod, known, NODE, at(100), **more).conditions}


@pytest.mark.parametrize(
    ("mine", "theirs", "kept"),
    [
        ((GATE, READY), (OPEN,), (OPEN, READY)),
        ((READY,), (replace(READY, status="False"), GATE), (GATE, READY)),
        ((GATE, READY), (), (READY,)),
        ((READY, EVICTED), (GATE,), (GATE, READY, EVICTED)),
        ((READY, EVICTED), (PREEMPTED,), (PREEMPTED, READY)),
        ((READY, PREEMPTED), (), (READY,)),
    ],
)
def test_each_says_what_is_his(
    mine: tuple[PodCondition, ...], theirs: tuple[PodCondition, ...], kept: tuple[PodCondition, ...]
) -> None:
    """The node its own conditions, whatever the cloud has of them; others theirs, also that they are gone. An eviction
    by this node stays until the cloud has one.
    """
    found = with_conditions_of_others(PodStatus(phase="Running", conditions=mine), PodStatus(conditions=theirs))
    assert (found.phase, found.conditions) == ("Running", kept)


def test_an_eviction_takes_the_place_of_anothers_disruption() -> None:
    """What else others have said stays in front."""
    pod = a_pod(A, status=PodStatus(phase="Running", conditions=(GATE, PREEMPTED)))
    kept = conditions(pod, facts(running(A)))
    assert (kept[GATE.type], kept[DISRUPTION_TARGET]) == (GATE, PREEMPTED)
    found = conditions(pod, facts(running(A)), kill=KillOptions("Evicted", "low on memory", disruption=True))
    assert found[GATE.type] == GATE
    assert (found[DISRUPTION_TARGET].reason, found[DISRUPTION_TARGET].message) == (EVICTED.reason, EVICTED.message)


def test_an_init_container_is_complete_when_it_has_ended_well_and_a_sidecar_when_it_has_started() -> None:
    """Whether a sidecar is ready is not asked for that."""
    pod = a_pod(A, init=(FIRST, replace(SIDECAR, readiness_probe=Probe())))
    begun = conditions(pod, facts(running(FIRST)))["Initialized"]
    assert begun.message == "containers with incomplete status: [first proxy]"
    first_ended = conditions(pod, facts(exited(FIRST)))["Initialized"]
    assert first_ended.message == "containers with incomplete status: [proxy]"
    both = conditions(pod, facts(exited(FIRST), running(SIDECAR)), probes=ProbeFacts())["Initialized"]
    assert (both.status, both.message) == ("True", "")


def test_without_statuses_of_containers_nothing_is_known_of_them() -> None:
    """As of a pod that was refused before it had any."""
    pod, status = a_pod(A, init=(FIRST,)), PodStatus(phase="Failed", reason="OutOfcpu")
    found = {each.type: each for each in pod_conditions(pod, facts(), status, PodStatus(), format_time(at(100)))}
    unknown = ("False", "UnknownContainerStatuses")
    shown = {kind: (found[kind].status, found[kind].reason) for kind in ("Initialized", "ContainersReady", "Ready")}
    assert shown == dict.fromkeys(shown, unknown)
    plain = pod_conditions(a_pod(A), facts(), status, PodStatus(), format_time(at(100)))
    assert [each.status for each in plain if each.type == "Initialized"] == ["True"]
