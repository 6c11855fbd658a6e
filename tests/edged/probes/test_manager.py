"""The manager of probes alone: which results a container begins with."""

from typing import Any
from unittest.mock import Mock

import pytest

from beehive.simulation import Simulation
from edged.api import ContainerState, ContainerStateRunning, ContainerStatus, HTTPGetAction, Pod, PodStatus, Probe
from edged.pods.model import PodFacts
from edged.probes.manager import ProbeManager
from tests.edged.pods.builders import UID, a_container, a_pod, facts, running

MAIN = a_container(
    "main", startup_probe=Probe(http_get=HTTPGetAction(port=80)), readiness_probe=Probe(http_get=HTTPGetAction(port=81))
)


def manager() -> ProbeManager:
    """Without workers: nothing is asked."""
    context: Any = Mock(clock=Simulation().clock)
    return ProbeManager(context, Mock(), Mock(), Mock(), Mock())


def reported(attempt: int) -> Pod:
    """The pod as its status was reported last: that instance has started and is ready."""
    status = ContainerStatus(
        name="main", container_id=f"containerd://main-{attempt}", ready=True, started=True,
        state=ContainerState(running=ContainerStateRunning()),
    )  # fmt: skip
    return a_pod(MAIN, status=PodStatus(phase="Running", container_statuses=(status,)))


@pytest.mark.parametrize(("told", "there", "is_ready"), [(0, 0, True), (0, 1, False), (1, 0, False)])
def test_a_container_has_the_reported_results_of_its_own_instance_only(told: int, there: int, is_ready: bool) -> None:
    """A restart that is seen in one look: the new instance has passed no probe yet, and gets no traffic."""
    known: PodFacts = facts(running(MAIN, there))
    probes = manager()
    probes.update_pod(reported(told), known, terminating=False)
    found, (container,) = probes.facts(UID), known.containers
    expected = {container.id: True} if is_ready else {}
    assert (found.readiness, found.startup) == (expected, expected)
