"""edgecore's log while things go wrong: few lines, and each has a fact."""

import json

import pytest

from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, phase, pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import ContainerdUnderTest

CONTAINERD = pytest.mark.parametrize(
    "runtime", [pytest.param("containerd", marks=pytest.mark.containerd)], indirect=True
)
EMBEDDED = pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 1}


@CONTAINERD
def test_a_runtime_that_goes_and_comes_back_is_one_line_each(machine: Machine) -> None:
    """Not two for each pod and try. Pods are named, and their networks' devices are not."""
    assert isinstance(machine.runtime, ContainerdUnderTest)
    names = [f"p{number}" for number in range(4)]
    machine.cloud.apply(*(pod(name, container(readinessProbe=PROBE)) for name in names))
    for name in names:
        machine.cloud.pods.wait(name, is_ready)
    machine.runtime.daemon.kill()
    try:
        wait_until(lambda: "the container runtime is away" in log(machine), "the log says that the runtime is away")
        machine.cloud.apply(pod("later"))
        machine.cloud.pods.wait("later", lambda obj: bool(phase(obj)))
    finally:
        machine.runtime.daemon.start()
    machine.cloud.pods.wait("later", lambda obj: phase(obj) == "Running")
    wait_until(lambda: "the container runtime answers again" in log(machine), "the log says that it is back")
    text = log(machine)
    assert text.count("the container runtime is away") == 1
    assert text.count("the container runtime answers again") == 1
    assert text.count("UNAVAILABLE") <= 1 + text.count("probe of container"), text
    assert "the network has changed" not in text, text
    for name in names:
        assert str(machine.cloud.get("Pod", name)["metadata"]["uid"]) not in text


@EMBEDDED
def test_each_line_is_an_object_if_that_is_asked_for(stopped_machine: Machine) -> None:
    """From the first remark to the last line, and a pod is a field."""
    machine = stopped_machine
    machine.edge.options = ["--log-format", "json"]
    machine.start()
    machine.cloud.apply(pod("web"))
    machine.cloud.pods.wait("web", lambda obj: phase(obj) == "Running")
    machine.cloud.delete("Pod", "web", 1)
    machine.cloud.pods.wait_gone("web")
    wait_until(lambda: "default/web" in log(machine), "the log tells of the pod")
    lines = [json.loads(line) for line in log(machine).splitlines()]
    assert {"ts", "level", "logger", "msg"} <= set.intersection(*(set(line) for line in lines))
    about = [line for line in lines if line.get("pod") == "default/web"]
    assert {(line["node"], line["module"]) for line in about} == {("edge-1", "edged")}


def log(machine: Machine) -> str:
    """What edgecore has logged until now, without a line that is half there."""
    return machine.edge.process.log.read_text().rpartition("\n")[0]
