"""How a container is stopped: asked first, killed after its grace period."""

import os
import select
from pathlib import Path

import pytest

from edged.cri import ContainerId
from edged.cri.client import CriClient
from protos.cri.v1 import api_pb2 as pb
from tests.edged.cri.harness import DEADLINE_SECONDS, Pod, Pods, eventually, shell

PROMPT_SECONDS = 250
"""Seconds for start, observation and end of a container beyond its grace period, on a busy machine."""


def _started(pods: Pods, pod: Pod, script: str) -> ContainerId:
    """A container that has printed `ready`, so that its traps are set."""
    container = pods.start(pod, *shell(script))
    eventually(lambda: pod.log().exists() and "ready" in pod.log().read_text())
    return container


def _seconds_to_stop(pods: Pods, client: CriClient, container: ContainerId, grace_seconds: int) -> float:
    """Between the last sign of life and the end, by the runtime's own clock."""
    client.stop_container(container, grace_seconds)
    status = client.container_status(container).status
    assert status.state == pb.CONTAINER_EXITED, "stop returned before the container was dead"
    return (status.finished_at - status.started_at) / 1e9


def test_a_container_that_ends_on_sigterm_has_its_own_exit_code(pods: Pods, client: CriClient) -> None:
    """And its grace period is not waited for."""
    pod = pods.sandbox()
    container = _started(pods, pod, "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    assert _seconds_to_stop(pods, client, container, 2 * PROMPT_SECONDS) < PROMPT_SECONDS
    assert client.container_status(container).status.exit_code == 5
    assert "bye" in pod.log().read_text()


def test_a_container_that_ignores_sigterm_is_killed_after_its_grace_period(pods: Pods, client: CriClient) -> None:
    pod = pods.sandbox()
    container = _started(pods, pod, "trap 'echo no' TERM; echo ready; while :; do sleep 0.05; done")
    assert 1 <= _seconds_to_stop(pods, client, container, 1) < 1 + PROMPT_SECONDS
    assert client.container_status(container).status.exit_code == 137
    assert "no" in pod.log().read_text()


def test_no_grace_period_means_no_sigterm(pods: Pods, client: CriClient) -> None:
    pod = pods.sandbox()
    container = _started(pods, pod, "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    assert _seconds_to_stop(pods, client, container, 0) < PROMPT_SECONDS
    assert pods.ended(container).exit_code == 137
    assert "asked" not in pod.log().read_text()


def test_a_container_that_has_ended_can_be_stopped_without_changing_its_exit_code(
    pods: Pods, client: CriClient
) -> None:
    container = pods.start(pods.sandbox(), *shell("exit 4"))
    pods.ended(container)
    client.stop_container(container, 5)
    assert pods.ended(container).exit_code == 4


@pytest.mark.parametrize("how", ["stop", "kill", "end by itself"])
def test_children_of_a_container_end_with_it(pods: Pods, client: CriClient, tmp_path: Path, how: str) -> None:
    """Also a child that ignores SIGTERM in its own session: it holds a pipe open that we read to its end."""
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    child = "trap '' TERM HUP; exec 3>/mnt/pipes/pipe; echo alive >&3; touch /mnt/pipes/up; while :; do sleep 1; done"
    up = "until [ -e /mnt/pipes/up ]; do sleep 0.05; done"
    main = "exit 0" if how == "end by itself" else "while :; do sleep 0.05; done"
    config = pods.container_config(shell(f"setsid sh -c \"{child}\" & trap 'exit 0' TERM; {up}; {main}"))
    config.mounts.append(pb.Mount(container_path="/mnt/pipes", host_path=str(tmp_path)))
    container = pods.create(pods.sandbox(), config)
    client.start_container(container)
    try:
        assert eventually(lambda: _read(pipe)) == b"alive\n"
        if how != "end by itself":
            client.stop_container(container, 1 if how == "stop" else 0)
        pods.ended(container)
        assert select.select([pipe], [], [], DEADLINE_SECONDS)[0], "a child outlived its container"
        assert os.read(pipe, 100) == b""
    finally:
        os.close(pipe)


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 100)
    except BlockingIOError:
        return b""
