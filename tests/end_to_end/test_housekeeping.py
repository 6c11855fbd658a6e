"""A node that keeps itself in order: logs that do not grow for ever, pods that go when there is too little memory."""

import signal

import pytest

from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import container, is_ready, phase, pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest, RuntimeUnderTest

LINES = 3_000
WRITE = f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); [ $((i%1000)) = 0 ] && sleep 4; done; sleep 1000"
"""Three bursts of 50 KB and more, with a look at the log's size between two of them."""


@pytest.mark.slow
def test_logs_are_rotated_and_a_node_short_of_memory_ends_its_pods(stopped_machine: Machine) -> None:
    """No line is lost to the reader: there may be as many files as a slow machine makes of them. A threshold that no
    machine reaches makes every one short.
    """
    machine = stopped_machine
    sizes = {"container_log_max_size": 20 * 1024, "container_log_max_files": 30}
    machine.edge.kubelet |= {**sizes, "container_log_monitor_interval": 3.0}
    machine.start()
    machine.cloud.apply(pod("writer", container(WRITE), terminationGracePeriodSeconds=1))
    running = machine.cloud.pods.wait("writer", is_ready)
    directory = machine.edge.log(running).parent
    wait_until(lambda: len(list(directory.glob("0.log.*.gz"))) >= 1, "one was packed")
    wait_until(lambda: _logged(machine)[-1:] == [f"line {LINES - 1}"], "all is written")
    assert _logged(machine) == [f"line {number}" for number in range(LINES)]
    assert machine.edge.log(running).exists()

    machine.edge.kill()
    machine.edge.kubelet |= {"eviction_hard": {"memory.available": "1000Ti"}}
    machine.start_edge()
    ended = machine.cloud.pods.wait("writer", lambda each: phase(each) == "Failed")
    assert ended["status"]["reason"] == "Evicted"
    assert ended["status"]["message"].startswith("The node was low on resource: memory. Threshold quantity: 1000Ti, ")
    assert "Container app was using " in ended["status"]["message"]
    assert any(each["type"] == "DisruptionTarget" for each in ended["status"]["conditions"])
    node = machine.cloud.mirror("Node").wait(NODE, lambda each: _condition(each, "MemoryPressure") == "True")
    assert _condition(node, "DiskPressure") == "False"
    machine.cloud.apply(pod("late", container("sleep 1000"), nodeName=NODE))  # the scheduler heeds the taint
    late = machine.cloud.pods.wait("late", lambda each: phase(each) == "Failed")
    assert late["status"]["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "


def test_pods_end_before_the_machine_does(runtime: RuntimeUnderTest, stopped_machine: Machine) -> None:
    """A process manager without logind sends SIGPWR at a power failure; later statuses are not Ready."""
    if not isinstance(runtime, EmbeddedUnderTest):
        pytest.skip("it is the same on any runtime")
    machine = stopped_machine
    machine.edge.kubelet |= {"shutdown_grace_period": 20.0, "shutdown_grace_period_critical_pods": 5.0}
    machine.start()
    machine.cloud.apply(pod("web"))
    machine.cloud.pods.wait("web", is_ready)
    machine.edge.process.signal(signal.SIGPWR)
    ended = machine.cloud.pods.wait("web", lambda each: phase(each) == "Failed")
    assert ended["status"]["reason"] == "Terminated"
    assert ended["status"]["message"] == "Pod was terminated in response to imminent node shutdown."
    machine.cloud.mirror("Node").wait(NODE, lambda each: _condition(each, "Ready") == "False")
    assert machine.edge.process.runs


def _logged(machine: Machine) -> list[str]:
    return machine.edge.get("/containerLogs/default/writer/app")[1].splitlines()


def _condition(node: dict[str, object], kind: str) -> str:
    status = node.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return next((each["status"] for each in conditions or () if each["type"] == kind), "")
