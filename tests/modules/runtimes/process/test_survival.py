"""edgecore, shims and the machine die at any time; sandboxes and containers are found again as they are."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import msgspec
import pytest

from beehive.decoding import decode_json
from beehive.files.removal import remove_tree
from modules.runtimes.engine.records import UNKNOWN_EXIT_CODE, BootId, SandboxRecord
from modules.runtimes.engine.state import ControlAddress
from modules.runtimes.shim.procfs import read_stat
from modules.runtimes.shim.protocol import receive, send
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.process.node import DEADLINE_SECONDS, LocalNode, alive, eventually, wait_for_death
from tests.modules.runtimes.process.server_process import RemoteNode


@pytest.fixture
def remote(directory: Path) -> Iterator[RemoteNode]:
    """A node whose runtime can be killed."""
    with RemoteNode(directory) as started:
        yield started


def _shim(pid: int) -> int:
    stat = read_stat(pid)
    assert stat is not None
    return stat.parent


def _sandbox(node: RemoteNode | LocalNode, pod: str) -> cri.PodSandboxStatus:
    answer: cri.PodSandboxStatusResponse = node.cri.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod))
    return answer.status


def test_killed_and_started_again(remote: RemoteNode) -> None:
    """After SIGKILL everything is found again: the same ids, names, times, states and process."""
    pod = remote.pod()
    running = remote.shell("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exec sleep 1000", pod=pod)
    created = remote.create(["true"])
    ended = remote.shell("exit 5")
    remote.ended(ended)
    before = [remote.status(container) for container in (running, created, ended)]
    sandbox, pid = _sandbox(remote, pod), remote.pid(running)
    remote.kill()
    (remote.state / "containers" / running / "work/go").touch()
    remote.serve()
    assert [remote.status(container) for container in (running, created, ended)] == before
    assert _sandbox(remote, pod) == sandbox
    assert remote.pid(running) == pid
    remote.logged(running, "two")


def test_ended_meanwhile(remote: RemoteNode) -> None:
    """A container that ends while no edgecore is there keeps its exit code, its time and the end of its log."""
    container = remote.shell("while [ ! -e go ]; do sleep 0.01; done; echo bye; exit 9")
    shim = _shim(remote.pid(container))
    remote.kill()
    (remote.state / "containers" / container / "work/go").touch()
    wait_for_death(shim)
    remote.serve()
    status = remote.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 9, "Error")
    assert status.finished_at > status.started_at
    assert remote.log(container) == [("stdout", "F", "bye")]


def test_found_containers_obey(remote: RemoteNode) -> None:
    """A found container can be asked, stopped and removed like any other. One that was only
    created starts no more: its variables and command were in memory.
    """
    running, created = remote.shell("X=1 exec sleep 1000"), remote.create(["sh", "-c", "exit 4"])
    remote.kill()
    remote.serve()
    assert remote.execute(running, "echo", "hello").stdout == b"hello\n"
    remote.stop(running)
    assert remote.status(running).exit_code == 128 + signal.SIGTERM
    with pytest.raises(grpc.RpcError, match="in memory only") as refusal:
        remote.start(created)
    assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    remote.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=running))
    assert set(remote.states()) == {created}


def test_a_container_that_a_killed_edgecore_was_starting_does_not_survive_its_removal(node: LocalNode) -> None:
    """Its shim had received the request but not started the container yet. The test plays the shim."""
    container = node.create(["true"])
    node.disconnect()
    node.runtime.stop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        with ControlAddress(node.state / "containers" / container) as address:
            listener.bind(address)
        listener.listen()
        node.restart()
        assert node.status(container).state == cri.CONTAINER_CREATED
        removal = node.cri.RemoveContainer.future(cri.RemoveContainerRequest(container_id=container))
        with pytest.raises(grpc.FutureTimeoutError):
            removal.result(0.3)
        control, _ = listener.accept()
    with control:
        control.settimeout(DEADLINE_SECONDS)
        send(control, {"event": "running", "pid": os.getpid(), "started_at": 1})
        asked = receive(control)
        assert asked is not None
        assert (asked[0]["op"], asked[0]["number"]) == ("signal", signal.SIGKILL)
        send(control, {"event": "exited", "exit_code": 137, "finished_at": 2, "reason": "Error", "message": ""})
        removal.result(DEADLINE_SECONDS)
    assert node.states() == {}


def test_names_stay_taken(remote: RemoteNode) -> None:
    """The names of containers that were found again are still reserved."""
    pod = remote.pod("web")
    remote.create(["true"], pod=pod)
    remote.kill()
    remote.serve()
    with pytest.raises(grpc.RpcError) as refusal:
        remote.pod("web")
    assert refusal.value.code() is grpc.StatusCode.ALREADY_EXISTS
    with pytest.raises(grpc.RpcError) as refusal:
        remote.create(["true"], pod=pod)
    assert refusal.value.code() is grpc.StatusCode.ALREADY_EXISTS


def test_commands_of_a_dead_client_end(remote: RemoteNode) -> None:
    """A command that edgecore executed in a container does not outlive that edgecore."""
    container = remote.shell("echo up; exec sleep 1000")
    command = remote.cri.ExecSync.future(
        cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "echo $$ >command; exec sleep 1000"])
    )
    file = remote.state / "containers" / container / "work/command"
    remote.execute(container, "sh", "-c", "while [ ! -s command ]; do sleep 0.01; done")
    remote.kill()
    wait_for_death(int(file.read_text()))
    assert command.exception(DEADLINE_SECONDS) is not None
    remote.serve()
    assert remote.states()[container] == cri.CONTAINER_RUNNING


def test_a_killed_shim(node: LocalNode) -> None:
    """Without its shim a container ends, with all its processes, and its exit code is unknown."""
    container = node.shell("setsid sleep 1000 & echo $!; exec sleep 1001")
    daemon = int(eventually(lambda: node.log(container))[0][2])
    pid = node.pid(container)
    os.kill(_shim(pid), signal.SIGKILL)
    status = node.ended(container)
    assert (status.exit_code, status.reason) == (UNKNOWN_EXIT_CODE, "Unknown")
    assert "shim was killed" in status.message
    wait_for_death(pid)
    wait_for_death(daemon)


def test_a_shim_killed_meanwhile(remote: RemoteNode) -> None:
    """A shim that is killed while edgecore is away has the same effect."""
    container = remote.shell("setsid sh -c 'echo $$; exec sleep 1000' & while [ ! -e go ]; do sleep 0.01; done")
    daemon, pid = int(eventually(lambda: remote.log(container))[0][2]), remote.pid(container)
    remote.kill()
    os.kill(_shim(pid), signal.SIGKILL)
    wait_for_death(pid)
    assert alive(daemon)
    remote.serve()
    status = remote.status(container)
    assert (status.state, status.exit_code) == (cri.CONTAINER_EXITED, UNKNOWN_EXIT_CODE)
    wait_for_death(daemon)


def test_a_dead_spawner_is_replaced(node: LocalNode) -> None:
    """When the process that forks shims dies, running containers stay and new ones start."""
    first = node.shell("exec sleep 1000")
    spawner = _shim(_shim(node.pid(first)))
    assert _shim(spawner) == os.getpid()
    os.kill(spawner, signal.SIGKILL)
    second = node.shell("exec sleep 1000")
    assert node.states() == {first: cri.CONTAINER_RUNNING, second: cri.CONTAINER_RUNNING}
    node.stop(first, 0)
    assert node.status(first).exit_code == 137


def test_after_a_reboot(node: LocalNode) -> None:
    """After a reboot sandboxes are not ready, and the end of their containers was not observed."""
    pod = node.pod()
    container = node.shell("exec sleep 1000", pod=pod)
    os.kill(_shim(node.pid(container)), signal.SIGKILL)
    node.ended(container)
    (node.state / "containers" / container / "exit.json").unlink()
    record = node.state / "sandboxes" / pod / "record.json"
    old = decode_json(record.read_bytes(), SandboxRecord)
    record.write_bytes(msgspec.json.encode(msgspec.structs.replace(old, boot_id=BootId("another"))))
    node.restart()
    assert _sandbox(node, pod).state == cri.SANDBOX_NOTREADY
    status = node.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, UNKNOWN_EXIT_CODE, "Unknown")
    assert "the machine was restarted" in status.message


def test_unreadable_state_is_dropped(node: LocalNode) -> None:
    """A container whose files a power failure has spoiled is forgotten; the others are found."""
    spoiled, kept = node.create(["true"]), node.create(["true"])
    (node.state / "containers" / spoiled / "request.pb").write_bytes(b"\xff\xff\xff")
    node.restart()
    assert set(node.states()) == {kept}


def test_stopping_edgecore_leaves_containers(node: LocalNode) -> None:
    """After an orderly stop containers run on, and write their logs."""
    container = node.shell("while [ ! -e go ]; do sleep 0.01; done; echo on; exec sleep 1000")
    pid = node.pid(container)
    node.disconnect()
    node.runtime.stop()
    assert alive(pid)
    (node.state / "containers" / container / "work/go").touch()
    node.restart()
    assert node.pid(container) == pid
    node.logged(container, "on")


def test_containers_end_when_their_state_directory_is_removed(remote: RemoteNode) -> None:
    """After `rm -rf` of edgecore's directory, processes that ignore SIGTERM ran for ever."""
    container = remote.shell("trap '' TERM; while :; do echo on; sleep 0.05; done")
    pid = remote.pid(container)
    shim = _shim(pid)
    remote.logged(container, "on")
    remote.kill()
    remove_tree(remote.state)
    wait_for_death(pid)
    wait_for_death(shim)
