"""Containers that run as another user than edgecore, which only root can give them."""

import os
import signal

import grpc
import pytest

from modules.runtimes.shim.procfs import read_stat
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.process.node import LocalNode, wait_for_death

_UID = 23456

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run containers as other users")


def _as_user(**fields: object) -> cri.ContainerConfig:
    context = cri.LinuxContainerSecurityContext(run_as_user=cri.Int64Value(value=_UID), **fields)  # type: ignore[arg-type]
    return cri.ContainerConfig(linux=cri.LinuxContainerConfig(security_context=context))


def test_user_and_groups(node: LocalNode) -> None:
    """User, group and supplementary groups are the pod's, and the container's own directory is the user's."""
    config = _as_user(run_as_group=cri.Int64Value(value=34567), supplemental_groups=[45678])
    assert node.run("id -u; id -g; id -G; touch mine && ls", config).split() == [
        str(_UID),
        "34567",
        "34567",
        "45678",
        "mine",
    ]


def test_volumes_of_another_user(node: LocalNode) -> None:
    """A user without rights sees the volumes that were mounted for it, and commands run as that user too."""
    volume = node.directory / "volume"
    volume.mkdir()
    (volume / "file").write_text("content")
    config = _as_user()
    config.mounts.add(container_path="/etc/embedded-test", host_path=str(volume))
    container = node.shell("exec sleep 1000", config)
    answer = node.execute(container, "sh", "-c", "id -u; cat /etc/embedded-test/file; ! touch /etc/embedded-test/x")
    assert (answer.stdout, answer.exit_code) == (b"%d\ncontent" % _UID, 0)


def test_no_new_privileges(node: LocalNode) -> None:
    """allowPrivilegeEscalation: false reaches the process."""
    assert node.run("grep NoNewPrivs /proc/self/status", _as_user(no_new_privs=True)) == "NoNewPrivs:\t1\n"
    assert node.run("grep NoNewPrivs /proc/self/status", _as_user()) == "NoNewPrivs:\t0\n"


def test_no_container_outlives_its_shim(node: LocalNode) -> None:
    """The bond between a container and its shim holds although the user was changed."""
    container = node.shell("exec sleep 1000", _as_user())
    pid = node.pid(container)
    main = read_stat(pid)
    assert main is not None
    os.kill(main.parent, signal.SIGKILL)
    wait_for_death(pid)


def test_an_executable_of_somebody_else(node: LocalNode) -> None:
    """A program that the container's user may not execute is refused with that reason."""
    program = node.directory / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    with pytest.raises(grpc.RpcError, match="not executable for the container's user"):
        node.start(node.create([str(program)], _as_user()))
