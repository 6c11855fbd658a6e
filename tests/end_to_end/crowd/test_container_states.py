"""How containers begin and end. More of it is in test_pod_life.py, test_health.py and test_restarts.py beside this."""

from typing import Any

from tests.end_to_end.crowd.crowd import Crowd, lasting, once, wants
from tests.end_to_end.pods import RUN, container, is_ready, phase, pod, restarts_of, state_of, status_of


def condition(obj: Any, kind: str) -> str:
    """A condition's status."""
    found = (obj.get("status") or {}).get("conditions") or []
    return next((str(each["status"]) for each in found if each["type"] == kind), "")


def last_end(obj: Any) -> dict[str, Any]:
    """How the container before the present one ended."""
    ended: dict[str, Any] = (status_of(obj).get("lastState") or {}).get("terminated") or {}
    return ended


@wants(once("lives-well", "true"), once("lives-badly", "exit 9"))
def test_ends_have_their_reason_and_their_times(crowd: Crowd) -> None:
    crowd.said("lives-well")
    well = state_of(crowd.machine.cloud.get("Pod", "lives-well"), "terminated")
    badly = state_of(crowd.wait("lives-badly", lambda obj: phase(obj) == "Failed"), "terminated")
    assert (well["reason"], well["exitCode"]) == ("Completed", 0)
    assert (badly["reason"], badly["exitCode"]) == ("Error", 9)
    assert well["startedAt"] <= well["finishedAt"]
    assert condition(crowd.machine.cloud.get("Pod", "lives-well"), "Ready") == "False"


_STUBBORN = container(
    "trap '' TERM; while true; do sleep 1; done",
    livenessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1,
                   "terminationGracePeriodSeconds": 1},
)  # fmt: skip


@wants(lasting("lives-stubbornly", _STUBBORN, terminationGracePeriodSeconds=600))
def test_a_probes_grace_period_overrides_the_pods(crowd: Crowd) -> None:
    made = crowd.wait("lives-stubbornly", lambda obj: restarts_of(obj) >= 1)
    assert last_end(made)["exitCode"] == 137


@wants(lasting("lives-gated", readinessGates=[{"conditionType": "example.com/open"}]))
def test_a_gate_keeps_a_pod_from_being_ready(crowd: Crowd) -> None:
    made = crowd.wait("lives-gated", lambda obj: condition(obj, "ContainersReady") == "True")
    assert condition(made, "Ready") == "False"


@wants(lasting("lives-hooked", container(lifecycle={"postStart": {"exec": {"command": ["false"]}}})))
def test_a_container_whose_hook_fails_is_killed(crowd: Crowd) -> None:
    def told(obj: Any) -> bool:
        waiting = state_of(obj, "waiting").get("reason")
        return waiting in ("PostStartHookError", "CrashLoopBackOff") and bool(last_end(obj))

    crowd.wait("lives-hooked", told)


@wants(lasting("lives-rested", container(lifecycle={"postStart": {"sleep": {"seconds": 1}}})))
def test_a_hook_that_sleeps_delays_the_start(crowd: Crowd) -> None:
    made = crowd.wait("lives-rested", is_ready)
    (ready,) = (each for each in made["status"]["conditions"] if each["type"] == "Ready")
    assert ready["lastTransitionTime"] > state_of(made, "running")["startedAt"], "in whole seconds"


_SIDE = container(RUN, "side", restartPolicy="Always", startupProbe={
    "exec": {"command": ["true"]}, "initialDelaySeconds": 1, "periodSeconds": 1})  # fmt: skip
_FIRST = container("echo first > /dev/termination-log", "first")


@wants(pod("lives-in-order", container("true"), initContainers=[_SIDE, _FIRST], restartPolicy="Never"))
def test_a_sidecar_has_started_before_the_next_init_container_and_keeps_no_job(crowd: Crowd) -> None:
    ended = crowd.wait("lives-in-order", lambda obj: phase(obj) == "Succeeded")
    statuses = {each["name"]: each for each in ended["status"]["initContainerStatuses"]}
    assert statuses["first"]["state"]["terminated"]["message"] == "first\n"
    assert statuses["side"]["started"] is not None
    begun = statuses["side"]["state"]["terminated"]["startedAt"]
    assert begun < statuses["first"]["state"]["terminated"]["startedAt"]


@wants(once("lives-image", "true", container={"image": "Not A Name"}))
def test_an_image_with_no_proper_name(crowd: Crowd) -> None:
    crowd.wait("lives-image", lambda obj: state_of(obj, "waiting").get("reason") == "InvalidImageName")


@wants(once("lives-nowhere", "true", container={"image": "127.0.0.1:1/none:1"}))
def test_an_image_that_cannot_be_pulled_is_tried_again_later(crowd: Crowd) -> None:
    made = crowd.wait("lives-nowhere", lambda obj: state_of(obj, "waiting").get("reason") == "ImagePullBackOff")
    assert "127.0.0.1:1/none:1" in state_of(made, "waiting")["message"]
    said = {f"Error: {reason}" for reason in ("ErrImagePull", "RegistryUnavailable")}
    crowd.machine.cloud.mirror("Event").wait_any(
        lambda event: event["involvedObject"]["name"] == "lives-nowhere" and event["message"] in said, "failed pull"
    )


@wants(once("lives-never", "true", container={"image": "none:1", "imagePullPolicy": "Never"}))
def test_an_image_that_is_not_here_and_must_not_be_pulled(crowd: Crowd) -> None:
    crowd.wait("lives-never", lambda obj: state_of(obj, "waiting").get("reason") == "ErrImageNeverPull")


_UNHEARD_OF = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "unheard-of"},
    "handler": "unheard-of",
}


@wants(_UNHEARD_OF, once("lives-lost", "true", runtimeClassName="unheard-of"))
def test_a_runtime_class_that_nobody_has(crowd: Crowd) -> None:
    crowd.wait("lives-lost", lambda obj: "unheard-of" in state_of(obj, "waiting").get("message", ""))
