"""A node whose pods are Docker Engine's, as a person on the node meets it."""

from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.runtimes.docker.answers import InspectedContainer
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import RUN, container, is_ready, pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import DockerUnderTest
from tests.end_to_end.test_looking_in import edgecore

DOCKER = pytest.mark.parametrize("runtime", ["docker"], indirect=True)


@DOCKER
def test_a_pod_lives_through_the_death_of_edgecore(machine: Machine) -> None:
    """It runs with an address, its log and a command in it are seen, and it is the same one after SIGKILL; then all of
    it is removed by `edgecore reset`.
    """
    machine.cloud.apply(pod("p", container(f"echo one; until [ -e /go ]; do sleep 0.05; done; echo two; {RUN}")))
    made = machine.cloud.pods.wait("p", is_ready)
    assert made["status"]["podIP"].startswith("10.99.")
    (status,) = made["status"]["containerStatuses"]
    assert status["containerID"].startswith("edgecore-docker://")
    wait_until(lambda: edgecore(machine, "logs", "p").stdout == "one\n", "its log")
    said = edgecore(machine, "exec", "p", "--", "sh", "-c", "hostname; exit 3")
    assert (said.stdout, said.returncode) == ("p\n", 3)
    machine.edge.kill()
    assert isinstance(machine.runtime, DockerUnderTest)
    docker_id = status["containerID"].partition("://")[2]
    found = machine.runtime.daemon.client.get(f"/containers/{docker_id}/json", InspectedContainer, "look")
    Path(f"/proc/{found.state.pid}/root/go").touch()
    machine.start_edge()
    wait_until(lambda: edgecore(machine, "logs", "p").stdout == "one\ntwo\n", "its log goes on")
    (after,) = machine.cloud.pods.wait("p", is_ready)["status"]["containerStatuses"]
    assert (after["containerID"], after["restartCount"]) == (status["containerID"], 0)
    machine.edge.kill()
    done = edgecore(machine, "reset", "--runtime", "--yes")
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert machine.runtime.left_behind() == {}
