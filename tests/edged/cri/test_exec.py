"""Commands run in a container that runs."""

import pytest

from edged.cri import ContainerId, CriError, DeadlineExceededError
from edged.cri.client import CriClient
from protos.cri.v1 import api_pb2 as pb
from tests.edged.cri.harness import Pods, eventually, shell


@pytest.fixture
def container(pods: Pods, client: CriClient) -> ContainerId:
    """A container that runs, with a variable of its own and a working directory."""
    pod = pods.sandbox()
    config = pods.container_config(("sleep", "1000"))
    config.envs.append(pb.KeyValue(key="OWN", value=b"value"))
    config.working_dir = "/tmp"
    made = pods.create(pod, config)
    client.start_container(made)
    return made


def test_output_and_exit_code_come_from_the_command(client: CriClient, container: ContainerId) -> None:
    result = client.exec_sync(container, shell("echo out; echo err >&2; exit 3"), 60)
    assert result == (b"out\n", b"err\n", 3)


def test_a_command_has_environment_and_directory_of_its_container(client: CriClient, container: ContainerId) -> None:
    assert client.exec_sync(container, shell('echo "$OWN" "$(pwd)"'), 60).stdout == b"value /tmp\n"


def test_a_command_that_takes_too_long_is_a_deadline_exceeded(client: CriClient, container: ContainerId) -> None:
    with pytest.raises(DeadlineExceededError):
        client.exec_sync(container, ["sleep", "1000"], 1)
    assert client.exec_sync(container, ["true"], 60).exit_code == 0


def test_a_command_that_takes_too_long_is_killed(client: CriClient, container: ContainerId, pods: Pods) -> None:
    marker = f"1{int(container[:6], 16)}"
    with pytest.raises(DeadlineExceededError):
        client.exec_sync(container, ["sleep", marker], 1)
    lookup = shell(
        f"for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done | grep -x 'sleep {marker} '"
    )
    eventually(lambda: client.exec_sync(container, lookup, 60).exit_code, lambda code: code == 1)


def test_a_command_that_does_not_exist_is_an_error_or_code_127(client: CriClient, container: ContainerId) -> None:
    """containerd answers with an error, other runtimes with the code of a shell; kubelet fails the probe on both."""
    try:
        exit_code = client.exec_sync(container, ["/nonexistent/command"], 60).exit_code
    except CriError as error:
        assert "/nonexistent/command" in error.details
    else:
        assert exit_code in {126, 127}


def test_large_output_comes_back_whole(client: CriClient, container: ContainerId) -> None:
    result = client.exec_sync(container, shell("head -c 3000000 /dev/zero"), 60)
    assert result.stdout == bytes(3_000_000)
