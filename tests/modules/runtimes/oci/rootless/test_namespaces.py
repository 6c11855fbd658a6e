"""Which processes keep the namespaces of a node, and what a start makes of what is left of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.rootless.node import RootlessNode, rootless_node
from tests.modules.runtimes.process.node import alive, wait_for_death


@pytest.fixture
def node() -> Iterator[RootlessNode]:
    """A node."""
    with rootless_node() as made:
        yield made


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_for_death(pid)


def test_a_container_keeps_them(node: RootlessNode) -> None:
    """Also when the holder and edgecore were killed: there is another holder, for when the container has ended, too.
    slirp4netns, which has other mounts, is never entered.
    """
    container = node.shell("exec tail -f /dev/null")
    holder, network = node.members()["sleep"], node.members()["slirp4netns"]
    node.kill()
    _kill(holder)
    node.serve()
    assert node.status(container).state == cri.CONTAINER_RUNNING
    assert node.execute(container, "echo", "hi").stdout == b"hi\n"
    assert node.run("echo new") == "new\n"
    assert node.members()["slirp4netns"] == network
    after = node.members()["sleep"]
    assert after != holder
    node.kill()
    node.serve()
    assert node.members()["sleep"] == after, "a holder that lives is enough"


def test_what_is_left_without_a_container_is_ended(node: RootlessNode) -> None:
    """A slirp4netns of before would hold ports of the machine."""
    pod = node.pod()
    holder, network = node.members()["sleep"], node.members()["slirp4netns"]
    node.kill()
    _kill(holder)
    assert alive(network)
    node.serve()
    wait_for_death(network)
    assert node.members()["slirp4netns"] != network
    status = node.cri.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod)).status
    assert status.state == cri.SANDBOX_NOTREADY, "its namespaces are gone, as after a restart of the machine"
    assert node.run("echo new") == "new\n"


@pytest.mark.parametrize("user", [0, 1000])
def test_a_container_that_nobody_can_enter_is_ended(node: RootlessNode, user: int) -> None:
    """Its parent and the holder were killed: the next start makes new namespaces, and it would run beside them."""
    config = cri.ContainerConfig()
    config.linux.security_context.run_as_user.value = user
    container = node.shell("exec sleep 4321", config)
    pid, members = node.pid(container), node.members()
    node.kill()
    for each in (members["conmon"], members["sleep"]):
        _kill(each)
    assert alive(pid)
    node.serve()
    wait_for_death(pid)
    assert node.status(container).state == cri.CONTAINER_EXITED
    assert node.run("echo new") == "new\n"


def test_the_first_process_of_a_pod_that_nobody_can_enter_is_ended(node: RootlessNode) -> None:
    """It outlives its pod's containers, and nothing of it is in their writable layers."""
    node.shares_processes = True
    pid = node.pid(node.shell("exec sleep 4321"))
    first = next(pid for pid in _pids() if _comm(pid) == "pause" and _is_of(pid, node.directory))
    members = node.members()
    node.kill()
    for each in (members["conmon"], members["sleep"]):
        _kill(each)
    assert alive(first)
    node.serve()
    wait_for_death(first)
    wait_for_death(pid)


def _pids() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]


def _comm(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _is_of(pid: int, directory: Path) -> bool:
    return f" {directory}/" in Path(f"/proc/{pid}/mountinfo").read_text()
