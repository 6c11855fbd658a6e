"""edgecore as a process: its end, its own HTTP server, and what it says of itself to the cloud."""

import signal

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import container, is_ready, mount, pod, restarts_of, status_of
from tests.end_to_end.processes import wait_until


@pytest.mark.gives_its_machine_back
def test_sigterm_leaves_the_containers_running(machine: Machine) -> None:
    """edgecore ends with 0; the container runs on meanwhile, and is the same one after the next start."""
    beats = container("while true; do echo x >> /shared/beats; sleep 0.05; done", volumeMounts=[mount("s", "/shared")])
    machine.cloud.apply(pod("p", beats, volumes=({"name": "s", "emptyDir": {}},)))
    before = machine.cloud.pods.wait("p", is_ready)
    machine.edge.process.signal(signal.SIGTERM)
    assert machine.edge.process.wait() == ExitCode.OK
    file = machine.edge.volume(before, "empty-dir", "s") / "beats"
    wait_until(file.exists, "the container has begun")
    size = file.stat().st_size
    wait_until(lambda: file.stat().st_size > size, "the container goes on")
    machine.start_edge()
    wait_until(lambda: is_ready(machine.edge.pods().get("p", {})), "the pod is ready again")
    now = machine.edge.pods()["p"]
    assert status_of(now)["containerID"] == status_of(before)["containerID"]
    assert restarts_of(now) == 0


@pytest.mark.gives_its_machine_back
def test_a_second_signal_ends_immediately(machine: Machine) -> None:
    """Exit status 130, without waiting for anything. Both come while it stands still: it would have ended by itself
    before the second, if this process had to wait for a processor between the two.
    """
    machine.edge.process.signal(signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT)
    assert machine.edge.process.wait() == ExitCode.INTERRUPTED


@pytest.mark.gives_its_machine_back
def test_a_termination_in_the_middle_of_work(machine: Machine) -> None:
    """SIGTERM while pods are being started ends it cleanly; the next start finishes the work, each container once."""
    names = [f"p{number}" for number in range(4)]
    machine.cloud.apply(*(pod(name) for name in names))
    wait_until(lambda: len(machine.edge.pods()) == len(names), "the node knows the pods")
    machine.edge.process.signal(signal.SIGTERM)
    assert machine.edge.process.wait() == ExitCode.OK
    machine.start_edge()
    for name in names:
        assert restarts_of(machine.cloud.pods.wait(name, is_ready)) == 0


@pytest.mark.gives_its_machine_back
def test_the_node_in_the_cloud(machine: Machine) -> None:
    """It is registered with its addresses, capacity and versions, and renews a lease that bears its name."""
    status = machine.cloud.get("Node", NODE)["status"]
    assert {each["type"] for each in status["addresses"]} >= {"InternalIP", "Hostname"}
    assert status["capacity"]["pods"] == "110"
    assert status["nodeInfo"]["containerRuntimeVersion"].partition("://")[0]
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert conditions["Ready"] == "True"
    lease = machine.cloud.mirror("Lease").wait(NODE, lambda obj: bool(obj["spec"].get("renewTime")))
    assert lease["spec"]["holderIdentity"] == NODE
