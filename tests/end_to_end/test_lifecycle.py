"""A pod from its manifest to its end: create, update, delete."""

import signal
from pathlib import Path

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import (
    IMAGE,
    OTHER_IMAGE,
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


def test_create(machine: Machine) -> None:
    """A manifest becomes a running container, and the cloud gets all that a kubelet reports."""
    machine.cloud.apply(pod("p"))
    created = machine.cloud.pods.wait("p", is_ready)
    status, app = created["status"], status_of(created)
    assert phase(created) == "Running"
    assert status["podIP"]
    assert status["hostIP"]
    assert status["startTime"]
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    for each in ("PodScheduled", "Initialized", "ContainersReady", "Ready"):
        assert conditions[each] == "True"
    assert app["containerID"].partition("://")[0]
    assert app["started"] is True
    assert restarts_of(created) == 0
    assert created["spec"]["nodeName"] == NODE


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
def test_a_container_without_a_command_on_the_process_runtime(machine: Machine) -> None:
    """It has no images that could name one, and says so; other pods go on."""
    machine.cloud.apply(pod("p", {"name": "app", "image": IMAGE}), pod("q"))
    refused = machine.cloud.pods.wait("p", lambda obj: state_of(obj, "waiting").get("reason") == "CreateContainerError")
    assert "no command" in state_of(refused, "waiting")["message"]
    machine.cloud.pods.wait("q", is_ready)


def test_environment_arguments_and_log(machine: Machine) -> None:
    """`$(VAR)` is expanded in arguments and environment, `$$` is not; the log has what is printed, in CRI's form."""
    script = 'echo "$0 $1 $TWICE $POD"; echo oops >&2; exec sleep 600'
    environment: list[JsonObject] = [
        {"name": "ONE", "value": "1"},
        {"name": "TWICE", "value": "$(ONE)$(ONE)"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    machine.cloud.apply(pod("p", container(script, args=["a$(ONE)", "$$(ONE)$(NONE)"], env=environment)))
    made = machine.cloud.pods.wait("p", is_ready)
    wait_until(lambda: len(machine.edge.lines(made)) == 2, "two lines in the log")
    assert sorted(machine.edge.lines(made)) == ["a1 $(ONE)$(NONE) 11 p", "oops"]
    for line in machine.edge.log(made).read_text().splitlines():
        moment, stream, tag, _ = line.split(" ", 3)
        assert moment.startswith("20")
        assert (stream, tag) in (("stdout", "F"), ("stderr", "F"))


def test_a_changed_image_restarts_only_its_container(machine: Machine) -> None:
    """The other container of the pod is the same one as before, and was never started again."""
    both = pod("p", container(name="a"), container(name="b"))
    machine.cloud.apply(both)
    before = machine.cloud.pods.wait("p", is_ready)
    both["spec"]["containers"][0]["image"] = OTHER_IMAGE
    machine.cloud.apply(both)
    after = machine.cloud.pods.wait("p", lambda obj: is_ready(obj) and restarts_of(obj, "a") == 1)
    assert status_of(after, "a")["containerID"] != status_of(before, "a")["containerID"]
    assert status_of(after, "a")["image"].endswith(OTHER_IMAGE)
    assert status_of(after, "b")["containerID"] == status_of(before, "b")["containerID"]
    assert {restarts_of(obj, "b") for obj in machine.cloud.pods.history("p")} == {0}


def test_a_changed_label_restarts_nothing(machine: Machine) -> None:
    """The node has the new label; the container is the same."""
    labelled = pod("p")
    machine.cloud.apply(labelled)
    before = machine.cloud.pods.wait("p", is_ready)
    labelled["metadata"]["labels"] = {"colour": "green"}
    machine.cloud.apply(labelled)
    wait_until(lambda: _labels(machine, "p") == {"colour": "green"}, "the node has the label")
    machine.cloud.apply(pod("q"))  # whatever the label might have started has had its time when this one runs
    machine.cloud.pods.wait("q", is_ready)
    after = machine.cloud.get("Pod", "p")
    assert status_of(after)["containerID"] == status_of(before)["containerID"]
    assert restarts_of(after) == 0


def test_deletion_asks_the_container_to_end(machine: Machine, tmp_path: Path) -> None:
    """SIGTERM comes first; a container that obeys may say its last words, and the pod goes without waiting longer."""
    script = "trap 'echo bye > /host/bye; exit 0' TERM; touch /host/listens; while true; do sleep 600 & wait $!; done"
    host = {"name": "host", "hostPath": {"path": str(tmp_path)}}
    machine.cloud.apply(pod("p", container(script, volumeMounts=[mount("host", "/host")]), volumes=(host,)))
    made = machine.cloud.pods.wait("p", is_ready)
    wait_until((tmp_path / "listens").exists, "the container listens")
    machine.cloud.delete("Pod", "p")
    machine.cloud.pods.wait_gone("p")
    assert (tmp_path / "bye").read_text() == "bye\n"
    _nothing_is_left_of(made, machine)


def test_a_container_that_will_not_end_is_killed(machine: Machine) -> None:
    """After the grace period, which the deletion may shorten, SIGKILL comes; not before."""
    stubborn = container("trap '' TERM; echo deaf; while true; do sleep 1; done")
    machine.cloud.apply(pod("p", stubborn, terminationGracePeriodSeconds=600))
    made = machine.cloud.pods.wait("p", is_ready)
    wait_until(lambda: machine.edge.lines(made) == ["deaf"], "the container does not listen any more")
    clock = machine.clock
    before = clock.monotonic()
    machine.cloud.delete("Pod", "p", grace=2)
    machine.cloud.pods.wait_gone("p")
    assert clock.monotonic() - before >= 2
    last = machine.cloud.pods.history("p")[-1]
    assert state_of(last, "terminated").get("exitCode") == 128 + signal.SIGKILL
    _nothing_is_left_of(made, machine)


def _labels(machine: Machine, name: str) -> JsonObject:
    """Of a pod, as the node has it."""
    labels: JsonObject = machine.edge.pods().get(name, {}).get("metadata", {}).get("labels") or {}
    return labels


def _nothing_is_left_of(made: JsonObject, machine: Machine) -> None:
    uid = made["metadata"]["uid"]
    wait_until(lambda: "p" not in machine.edge.pods(), "the node does not show the pod")
    wait_until(lambda: machine.runtime.pods(machine.edge.root / "edged") == 0, "the runtime has no sandbox")
    wait_until(lambda: not (machine.edge.root / "edged" / "pods" / uid).exists(), "its directory is removed")
    wait_until(lambda: not machine.edge.log(made).parent.parent.exists(), "its logs are removed")
