"""Pods that cannot run: the cloud gets the reason, and other pods go on."""

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, is_ready, pod, state_of


def _waits_because(reason: str, obj: JsonObject) -> bool:
    return state_of(obj, "waiting").get("reason") == reason


@pytest.mark.parametrize("runtime", ["embedded"], indirect=True)
@pytest.mark.gives_its_machine_back
def test_a_container_without_a_command_on_the_container_runtime(machine: Machine) -> None:
    """It has no images that could name one, and says so."""
    machine.cloud.apply(pod("p", {"name": "app", "image": "busybox:1.36"}), pod("q"))
    refused = machine.cloud.pods.wait("p", lambda obj: _waits_because("CreateContainerError", obj))
    assert "no command" in state_of(refused, "waiting")["message"]
    machine.cloud.pods.wait("q", is_ready)


@pytest.mark.parametrize("runtime", [pytest.param("containerd", marks=pytest.mark.containerd)], indirect=True)
def test_an_image_that_is_not_there_and_may_not_be_pulled(machine: Machine) -> None:
    """imagePullPolicy Never and no such image: ErrImageNeverPull, as a kubelet says."""
    machine.cloud.apply(pod("p", container(image="nowhere:1", imagePullPolicy="Never")), pod("q"))
    machine.cloud.pods.wait("p", lambda obj: _waits_because("ErrImageNeverPull", obj))
    machine.cloud.pods.wait("q", is_ready)


@pytest.mark.gives_its_machine_back
def test_a_command_that_is_not_there(machine: Machine) -> None:
    """The container is tried and fails; what the runtime says is passed on."""
    machine.cloud.apply(pod("p", {**container(), "command": ["/no/such/program"]}), pod("q"))
    seen = machine.cloud.pods.wait("p", lambda obj: "/no/such/program" in str(obj.get("status")))
    assert not is_ready(seen)
    machine.cloud.pods.wait("q", is_ready)
