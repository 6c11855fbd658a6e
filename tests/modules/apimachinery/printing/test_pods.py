"""kubectl's words and numbers for pods."""

from typing import Any

import pytest

from modules.apimachinery.printing.pods import PodSummary, pod_ready, pod_restarts_and_when, pod_status, pod_summary

NOW = 1_795_139_690.0
ENDED = "2026-11-20T01:49:50Z"
LATER = "2026-11-20T01:53:50Z"


def container(name: str = "main", ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


def pod(*containers: dict[str, Any], phase: str = "Running", init: tuple[dict[str, Any], ...] = (),
        conditions: tuple[str, ...] = (), **metadata: Any) -> dict[str, Any]:  # fmt: skip
    status = {
        "phase": phase,
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
        "conditions": [{"type": name, "status": "True"} for name in conditions],
    }
    spec: dict[str, Any] = {
        "containers": [{}] * max(1, len(containers)),
        "initContainers": [{"name": each["name"]} for each in init],
    }
    return {"kind": "Pod", "metadata": {"name": "web", **metadata}, "spec": spec, "status": status}


def with_sidecars(shown: dict[str, Any], *names: str) -> dict[str, Any]:
    for each in shown["spec"]["initContainers"]:
        if each["name"] in names:
            each["restartPolicy"] = "Always"
    return shown


def reasoned(shown: dict[str, Any], reason: str) -> dict[str, Any]:
    shown["status"]["reason"] = reason
    return shown


GATED = pod(phase="Pending")
GATED["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        (pod(phase="Pending"), "Pending"),
        (GATED, "SchedulingGated"),
        (pod(container(running={})), "Running"),
        (pod(container(waiting={"reason": "CrashLoopBackOff"})), "CrashLoopBackOff"),
        (pod(container(waiting={"reason": "PodInitializing"}), phase="Pending"), "PodInitializing"),
        (pod(container(terminated={"reason": "Completed", "exitCode": 0}), phase="Succeeded"), "Completed"),
        (pod(container(terminated={"exitCode": 3}), phase="Failed"), "ExitCode:3"),
        (pod(container(terminated={}), phase="Failed"), "ExitCode:0"),
        (pod(container(terminated={"signal": 9}), phase="Failed"), "Signal:9"),
        (reasoned(pod(phase="Failed"), "Evicted"), "Evicted"),
        (pod(container(running={}), deletionTimestamp="t"), "Terminating"),
        (pod(phase="Succeeded", deletionTimestamp="t"), "Succeeded"),
        (reasoned(pod(container(running={}), deletionTimestamp="t"), "NodeLost"), "Unknown"),
        (pod(init=(container(running={}),), phase="Pending"), "Init:0/1"),
        (pod(init=(container("a", terminated={"exitCode": 0}), container("b", running={}))), "Init:1/2"),
        (pod(init=(container(waiting={"reason": "PodInitializing"}),)), "Init:0/1"),
        (pod(init=(container(waiting={"reason": "ErrImagePull"}),)), "Init:ErrImagePull"),
        (pod(init=(container(terminated={"exitCode": 1, "reason": "Error"}),)), "Init:Error"),
        (pod(init=(container(terminated={"exitCode": 2}),)), "Init:ExitCode:2"),
        (pod(init=(container(terminated={"exitCode": 137, "signal": 9}),)), "Init:Signal:9"),
        (pod(container(running={}), init=(container(terminated={"exitCode": 0}),)), "Running"),
        ({"metadata": {"name": "bare"}}, "Unknown"),
    ],
)
def test_the_word_for_a_pod(shown: dict[str, Any], word: str) -> None:
    assert pod_status(shown) == word


@pytest.mark.parametrize(
    ("ready", "conditions", "word"),
    [(True, ("Ready",), "Running"), (True, (), "NotReady"), (False, ("Ready",), "Completed")],
)
def test_a_pod_with_an_ended_container_runs_while_another_does(
    ready: bool, conditions: tuple[str, ...], word: str
) -> None:
    ended = container("a", terminated={"reason": "Completed", "exitCode": 0})
    assert pod_status(pod(ended, container("b", ready=ready, running={}), conditions=conditions)) == word


def test_the_first_container_with_a_reason_names_the_state() -> None:
    shown = pod(container("a", waiting={"reason": "ErrImagePull"}), container("b", terminated={"reason": "Error"}))
    assert pod_status(shown) == "ErrImagePull"


def test_a_sidecar_counts_as_a_container_and_holds_nothing_up_once_it_has_started() -> None:
    shown = pod(container("a", ready=True, running={}), init=(container("s", ready=True, running={}),))
    with_sidecars(shown, "s")
    assert (pod_ready(shown), pod_status(shown)) == ("0/2", "Init:0/1")
    shown["status"]["initContainerStatuses"][0]["started"] = True
    assert (pod_ready(shown), pod_status(shown)) == ("2/2", "Running")


def test_while_init_containers_run_their_restarts_are_counted() -> None:
    """And afterwards only sidecars', with the containers'."""
    failing = container("b", restarts=3, waiting={"reason": "CrashLoopBackOff"})
    failing["lastState"] = {"terminated": {"finishedAt": ENDED}}
    shown = pod(container("main"), init=(container("a", restarts=1, terminated={"exitCode": 0}), failing))
    assert pod_summary(shown) == PodSummary(0, 1, "Init:CrashLoopBackOff", 4, ENDED)
    assert pod_restarts_and_when(shown, NOW) == "4 (5m ago)"
    through = pod(
        container("main", ready=True, restarts=2, running={}),
        init=(
            container("a", restarts=7, terminated={"exitCode": 0}),
            container("s", ready=True, restarts=5, running={}) | {"started": True},
        ),
    )
    assert pod_summary(with_sidecars(through, "s")) == PodSummary(2, 2, "Running", 7, "")


def test_a_pod_that_was_initialized_shows_its_containers_though_an_init_container_runs_again() -> None:
    again = pod(
        container("main", ready=True, restarts=1, running={}),
        init=(container("a", restarts=4, running={}),),
        conditions=("Initialized",),
    )
    assert pod_summary(again) == PodSummary(1, 1, "Init:0/1", 1, "")


def test_the_last_restart_is_the_latest_of_all_containers() -> None:
    first, second = container("a", restarts=1, running={}), container("b", restarts=1, running={})
    first["lastState"] = {"terminated": {"finishedAt": LATER}}
    second["lastState"] = {"terminated": {"finishedAt": ENDED}}
    assert pod_restarts_and_when(pod(first, second), NOW) == "2 (60s ago)"


@pytest.mark.parametrize("odd", [{"status": None}, {"status": {"containerStatuses": [{"restartCount": "9"}, 7]}}])
def test_values_of_another_form_are_left_out(odd: dict[str, Any]) -> None:
    assert pod_summary(odd).restarts == 0
