"""A pod's life on real runtimes: sidecars, deadlines, restart rules, last words, debugging. Several pods in
each test: what they do takes time, and not the machine's.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import (
    OTHER_IMAGE,
    RUN,
    container,
    is_ready,
    mount,
    phase,
    pod,
    restarts_of,
    state_of,
    status_of,
)
from tests.end_to_end.processes import wait_until

pytestmark = pytest.mark.gives_its_machine_back


OBEYS = "trap 'echo $NAME >> /host/log; exit 0' TERM; touch /host/up-$NAME; while true; do sleep 600 & wait $!; done"
"""Runs until SIGTERM, and says so; says before that it will (a shell that is first in its container and has no trap yet
does not hear the signal)."""


def named(name: str, script: str = OBEYS, **fields: Any) -> JsonObject:
    """A container that knows its name and has a directory of the machine at /host."""
    environment = [{"name": "NAME", "value": name}]
    return container(script, name, env=environment, volumeMounts=[mount("host", "/host")], **fields)


def hosting(name: str, directory: Path, *containers: JsonObject, **spec: Any) -> JsonObject:
    """A pod with that directory."""
    directory.mkdir(exist_ok=True)
    return pod(name, *containers, volumes=({"name": "host", "hostPath": {"path": str(directory)}},), **spec)


def ended(obj: JsonObject) -> bool:
    return phase(obj) in ("Succeeded", "Failed")


def other_status(obj: JsonObject, kind: str, name: str) -> JsonObject:
    """The status of an init container or an ephemeral one."""
    statuses = (obj.get("status") or {}).get(kind) or []
    return next((each for each in statuses if each["name"] == name), {})


def test_sidecars_go_last_and_a_job_is_done_although_they_run(machine: Machine, tmp_path: Path) -> None:
    """Of the deleted pod all end in order, each by the signal that it wants; the job succeeds by itself, and its
    sidecars end in the same order.
    """
    sides = [named(name, restartPolicy="Always") for name in ("first", "second")]
    served, done = tmp_path / "served", tmp_path / "done"
    job = named("main", "while [ ! -e /host/finish ]; do sleep 0.1; done; echo main >> /host/log")
    signalled = named("main")
    if machine.runtime.name == "embedded":  # this containerd does not look at CRI's stop_signal
        signalled = named("main", OBEYS.replace("TERM", "USR1"), lifecycle={"stopSignal": "SIGUSR1"})
    machine.cloud.apply(
        hosting("served", served, signalled, initContainers=sides, os={"name": "linux"}),
        hosting("job", done, job, initContainers=sides, restartPolicy="Never"),
    )
    for name in ("served", "job"):
        machine.cloud.pods.wait(name, is_ready)
    expected = {served / "up-main", *(where / f"up-{name}" for where in (served, done) for name in ("first", "second"))}
    wait_until(lambda: all(path.exists() for path in expected), "everybody listens")
    machine.cloud.delete("Pod", "served")
    (done / "finish").touch()
    finished = machine.cloud.pods.wait("job", ended)
    machine.cloud.pods.wait_gone("served")
    assert phase(finished) == "Succeeded"
    assert [(tmp_path / name / "log").read_text().split() for name in ("served", "done")] == [
        ["main", "second", "first"]
    ] * 2
    for name in ("first", "second"):
        assert other_status(finished, "initContainerStatuses", name)["state"]["terminated"]["exitCode"] == 0


def test_ends_that_containers_come_to(machine: Machine) -> None:
    """A deadline, a rule for an exit code, and last words from the log, each in a pod of its own. The deadline is set
    when the pod runs, as it may be: how long it takes to start is the machine's.
    """
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    ruled = container("sleep 0.2; exit 42", restartPolicy="Never", restartPolicyRules=[rule])
    once = container("exit 7", restartPolicy="Never")
    quiet = container("echo preparing; echo it broke >&2; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
    late = pod("late", container(f"trap 'exit 0' TERM; echo listens; {RUN}"), activeDeadlineSeconds=3600)
    machine.cloud.apply(
        late,
        pod("ruled", ruled, restartPolicy="Never"),
        pod("once", once, container(name="stays")),
        pod("quiet", quiet, restartPolicy="Never"),
    )
    again = machine.cloud.pods.wait("ruled", lambda obj: restarts_of(obj) >= 1)
    assert phase(again) == "Running"
    said = machine.cloud.pods.wait("quiet", lambda obj: phase(obj) == "Failed")
    assert sorted(state_of(said, "terminated")["message"].splitlines()) == ["it broke", "preparing"]
    left = machine.cloud.pods.wait(
        "once", lambda obj: bool(state_of(obj, "terminated")) and bool(state_of(obj, "running", "stays"))
    )
    assert (phase(left), state_of(left, "terminated")["exitCode"]) == ("Running", 7)
    running = machine.cloud.pods.wait("late", is_ready)
    wait_until(lambda: machine.edge.lines(running) == ["listens"], "the container listens")
    late["spec"]["activeDeadlineSeconds"] = 1
    machine.cloud.apply(late)
    over = machine.cloud.pods.wait("late", ended)
    assert (phase(over), over["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert state_of(over, "terminated")["exitCode"] == 0
    assert restarts_of(machine.cloud.get("Pod", "once")) == 0


def test_pods_that_are_changed_while_they_run(machine: Machine) -> None:
    """One gets a container to look into it, one another image for its sidecar; nothing else of them is touched. Slow
    postStart hooks of others keep neither waiting.
    """
    slow = container(lifecycle={"postStart": {"exec": {"command": ["sleep", "600"]}}})
    looked_into = pod("looked-into", container(name="app"))
    sided = pod("sided", initContainers=[container(name="side", restartPolicy="Always")])
    machine.cloud.apply(*(pod(f"slow-{number}", slow) for number in range(5)), looked_into, sided)
    before = {name: machine.cloud.pods.wait(name, is_ready) for name in ("looked-into", "sided")}
    debug = container("echo looking; exit 3", "debug", targetContainerName="app")
    patch = json.dumps({"spec": {"ephemeralContainers": [debug]}}).encode()
    path = "/api/v1/namespaces/default/pods/looked-into/ephemeralcontainers"
    status, body = machine.cloud.client.request("PATCH", path, patch, "application/strategic-merge-patch+json")
    assert status == 200, body
    sided["spec"]["initContainers"][0]["image"] = OTHER_IMAGE
    machine.cloud.apply(sided)

    def was_looked_into(obj: JsonObject) -> bool:
        return "terminated" in (other_status(obj, "ephemeralContainerStatuses", "debug").get("state") or {})

    def has_other_side(obj: JsonObject) -> bool:
        return other_status(obj, "initContainerStatuses", "side").get("restartCount") == 1 and is_ready(obj)

    after = {
        "looked-into": machine.cloud.pods.wait("looked-into", was_looked_into),
        "sided": machine.cloud.pods.wait("sided", has_other_side),
    }
    debugged = other_status(after["looked-into"], "ephemeralContainerStatuses", "debug")
    assert debugged["state"]["terminated"]["exitCode"] == 3
    for name, obj in after.items():
        assert status_of(obj)["containerID"] == status_of(before[name])["containerID"]
        assert is_ready(obj)
    assert not is_ready(machine.cloud.get("Pod", "slow-0"))


def test_a_deletion_by_force_overtakes_a_waiting_one(machine: Machine) -> None:
    """The grace period of ten minutes has begun; a second deletion ends it within seconds."""
    stubborn = container("trap '' TERM; echo deaf; while true; do sleep 1; done")
    machine.cloud.apply(pod("p", stubborn, terminationGracePeriodSeconds=600))
    made = machine.cloud.pods.wait("p", is_ready)
    wait_until(lambda: machine.edge.lines(made) == ["deaf"], "the container does not listen any more")
    machine.cloud.delete("Pod", "p")
    machine.cloud.pods.wait("p", lambda obj: bool(obj["metadata"].get("deletionTimestamp")))
    machine.cloud.delete("Pod", "p", grace=1)
    machine.cloud.pods.wait_gone("p")
