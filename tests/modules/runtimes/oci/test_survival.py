"""edgecore and conmon die at any time: containers are found as they are, nothing is lost, doubled or left over."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import grpc
import msgspec
import pytest

from beehive.decoding import decode_json
from modules.runtimes.engine.records import UNKNOWN_EXIT_CODE, BootId, SandboxRecord
from modules.runtimes.oci.crun.conmon import conmon_pid
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.node import OciNode, RemoteOciNode
from tests.modules.runtimes.process.node import DEADLINE_SECONDS, alive, eventually, wait_for_death
from tests.modules.runtimes.process.served import function_of
from tests.support.slow import one_in

_LOOP = "exec sleep 1000"


@pytest.mark.extended
def test_killed_and_started_again(remote: RemoteOciNode) -> None:
    """After SIGKILL everything is found again: the same ids, names, times, states and process."""
    pod = remote.pod()
    running = remote.shell(f"echo one; while [ ! -e /go ]; do sleep 0.01; done; echo two; {_LOOP}", pod=pod)
    created = remote.create(["true"])
    ended = remote.shell("exit 5")
    remote.ended(ended)
    before = [remote.status(container) for container in (running, created, ended)]
    pid = remote.pid(running)
    remote.kill()
    remote.serve()
    assert [remote.status(container) for container in (running, created, ended)] == before
    assert remote.pid(running) == pid
    remote.execute(running, "touch", "/go")
    remote.logged(running, "two")
    with pytest.raises(grpc.RpcError, match="keeps a container's variables and command in memory only"):
        remote.start(created)
    remote.stop(running, 0)
    assert remote.status(running).exit_code == 128 + signal.SIGKILL


@pytest.mark.extended
def test_ended_meanwhile(remote: RemoteOciNode) -> None:
    """A container that ends while no edgecore is there keeps its exit code, its time and the end of its log."""
    container = remote.shell("while [ ! -e /go ]; do sleep 0.01; done; echo bye; exit 9")
    directory = remote.state / "containers" / container
    conmon = conmon_pid(directory)
    assert conmon is not None
    remote.kill()
    (directory / "rootfs" / "go").touch()
    wait_for_death(conmon)
    remote.serve()
    status = remote.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 9, "Error")
    assert status.finished_at > status.started_at
    assert remote.log(container) == [("stdout", "F", "bye")]


@pytest.mark.extended
def test_commands_of_a_dead_edgecore_end(remote: RemoteOciNode) -> None:
    """No command in a container outlives its edgecore beyond the next one's start."""
    container = remote.shell(_LOOP)
    command = remote.cri.ExecSync.future(cri.ExecSyncRequest(container_id=container, cmd=["sleep", "4321"]))
    eventually(lambda: b"4321" in remote.execute(container, "ps").stdout)
    remote.kill()
    assert command.exception(DEADLINE_SECONDS) is not None
    remote.serve()
    assert b"4321" not in remote.execute(container, "ps").stdout


_STEPS_OF_A_START = [
    "before modules.runtimes.oci.images:RootFilesystems.mount",
    "after modules.runtimes.oci.images:RootFilesystems.mount",
    "before modules.runtimes.oci.crun.conmon:Conmon.create",
    "before modules.runtimes.oci.crun.conmon:_read_line",
    "after modules.runtimes.oci.crun.conmon:_read_line",
    "after modules.runtimes.oci.crun.conmon:Conmon.create",
    "after modules.runtimes.oci.processes:_write_run",
    "before modules.runtimes.oci.crun.runtime_command:RuntimeCommand.start",
    "before modules.runtimes.oci.crun.runtime_command:_release",
    "after modules.runtimes.oci.crun.runtime_command:_release",
    "after modules.runtimes.oci.crun.runtime_command:RuntimeCommand.start",
    "before modules.runtimes.oci.model:OciContainer.started",
    "after modules.runtimes.oci.model:OciContainer.started",
]


@pytest.mark.parametrize("step", one_in(len(_STEPS_OF_A_START), reversed(_STEPS_OF_A_START)))
@pytest.mark.extended
def test_killed_while_it_starts_a_container(doomed: RemoteOciNode, step: str) -> None:
    """The container is found running, or created as before; then another one takes its place, as a kubelet does it."""
    doomed.serve_until(step)
    container = doomed.create(["sh", "-c", f"echo run; {_LOOP}"])
    with pytest.raises(grpc.RpcError):
        doomed.start(container)
    doomed.kill()
    doomed.serve()
    if doomed.states()[container] == cri.CONTAINER_CREATED:
        assert container not in Path("/proc/self/mountinfo").read_text()
        doomed.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
        container = doomed.shell(f"echo run; {_LOOP}")
    doomed.logged(container, "run")
    assert len(_processes_of(container)) == 1
    doomed.stop(container, 0)
    assert doomed.log(container) == [("stdout", "F", "run")]
    assert _processes_of(container) == []


_STEPS_OF_A_REMOVAL = [
    "before modules.runtimes.oci.crun.runtime_command:RuntimeCommand.delete",
    "after modules.runtimes.oci.crun.runtime_command:RuntimeCommand.delete",
    "after modules.runtimes.oci.images:RootFilesystems.unmount",
    "before modules.runtimes.engine.containers:discard",
    "after modules.runtimes.engine.containers:discard",
    "before modules.runtimes.oci.network.namespaces:PodNamespaces.unpin",
    "after modules.runtimes.oci.network.namespaces:PodNamespaces.unpin",
    "before modules.runtimes.engine.engine:discard",
    "after modules.runtimes.engine.engine:discard",
]


@pytest.mark.parametrize("step", one_in(4, _STEPS_OF_A_REMOVAL))
@pytest.mark.extended
def test_killed_while_it_removes_a_pod(doomed: RemoteOciNode, step: str) -> None:
    """The removal can be repeated, and nothing is left."""
    doomed.serve_until(step)
    pod = doomed.pod()
    container = doomed.shell(_LOOP, pod=pod)
    request = cri.RemovePodSandboxRequest(pod_sandbox_id=pod)
    with pytest.raises(grpc.RpcError):
        doomed.cri.RemovePodSandbox(request)
    doomed.kill()
    doomed.serve()
    doomed.cri.RemovePodSandbox(request)
    _nothing_is_left(doomed, container)


_STEPS_OF_A_SANDBOX = [
    "before modules.runtimes.engine.engine:publish",
    "after modules.runtimes.engine.engine:publish",
    "before modules.runtimes.oci.network.namespaces:PodNamespaces.pin",
    "after modules.runtimes.oci.network.namespaces:PodNamespaces.pin",
    "after modules.runtimes.oci.sandbox_resources:SandboxResources.make",
    "after modules.runtimes.engine.model:write_record_soon",
]


@pytest.mark.parametrize("step", [*_STEPS_OF_A_START, *_STEPS_OF_A_REMOVAL, *_STEPS_OF_A_SANDBOX])
def test_each_step_is_a_function_of_the_product(step: str) -> None:
    """Most of them are tried by slow tests only."""
    assert callable(function_of(step)[2])


@pytest.mark.parametrize("step", one_in(4, _STEPS_OF_A_SANDBOX))
@pytest.mark.extended
def test_killed_while_it_makes_a_sandbox(doomed: RemoteOciNode, step: str) -> None:
    """What is there of it can be removed like any other sandbox; nothing is left of one without a record."""
    doomed.serve_until(step)
    with pytest.raises(grpc.RpcError):
        doomed.pod("a")
    doomed.kill()
    doomed.serve()
    for sandbox in doomed.cri.ListPodSandbox(cri.ListPodSandboxRequest()).items:
        doomed.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id))
    _nothing_is_left(doomed, "")
    doomed.pod("a")


@pytest.mark.extended
def test_killed_before_the_first_process_of_a_pod_is_pinned(doomed: RemoteOciNode) -> None:
    """Where containers share their processes: a first process without a record ends, and there is another later."""
    doomed.serve_until("before modules.runtimes.oci.network.pod_init:bind_file")
    doomed.shares_processes = True
    pod = doomed.pod()
    with pytest.raises(grpc.RpcError):
        doomed.shell(_LOOP, pod=pod)
    (number,) = (doomed.state / "namespaces").glob("*/init")
    lost = int(number.read_text())
    doomed.kill()
    eventually(lambda: not alive(lost))
    doomed.serve()
    doomed.shell(_LOOP, cri.ContainerConfig(metadata=cri.ContainerMetadata(attempt=1)), pod)
    assert alive(int(number.read_text()))


def _nothing_is_left(node: RemoteOciNode, container: str) -> None:
    assert node.states() == {}
    kept = [path.name for name in ("containers", "sandboxes", "namespaces") for path in (node.state / name).iterdir()]
    assert kept == []
    assert list((node.state / "runtime").glob("*/*")) == []
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    left = [path.relative_to(node.state) for path in map(Path, mounted) if path.is_relative_to(node.state)]
    assert [each for each in left if each.parts[0] != "programs"] == [Path("namespaces"), Path("runtime")]
    assert container == "" or _processes_of(container) == []


def _processes_of(container: str) -> list[int]:
    """The processes in the control group of a container."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and alive(int(entry.name)) and container in _groups(entry)
    ]


def _groups(process: Path) -> str:
    try:
        return (process / "cgroup").read_text()
    except OSError:
        return ""


@pytest.mark.parametrize("when", ["before", "while edgecore is away"])
@pytest.mark.extended
def test_a_killed_conmon(remote: RemoteOciNode, when: str) -> None:
    """Without its conmon a container cannot write its log: it is killed, and its exit code is unknown."""
    container = remote.shell(_LOOP)
    pid, conmon = remote.pid(container), conmon_pid(remote.state / "containers" / container)
    assert conmon is not None
    if when == "before":
        os.kill(conmon, signal.SIGKILL)
    else:
        remote.kill()
        os.kill(conmon, signal.SIGKILL)
        remote.serve()
    status = remote.ended(container)
    assert (status.exit_code, status.reason) == (UNKNOWN_EXIT_CODE, "Unknown")
    assert "conmon was killed" in status.message
    wait_for_death(pid)


@pytest.mark.extended
def test_after_a_reboot(node: OciNode) -> None:
    """Sandboxes of an earlier run of the machine are not ready, and their containers ended with nobody seeing it."""
    pod = node.pod()
    container = node.shell(_LOOP, pod=pod)
    conmon = conmon_pid(node.state / "containers" / container)
    assert conmon is not None
    os.kill(conmon, signal.SIGKILL)
    node.ended(container)
    (node.state / "containers" / container / "exit.json").unlink()
    record = node.state / "sandboxes" / pod / "record.json"
    old = decode_json(record.read_bytes(), SandboxRecord)
    record.write_bytes(msgspec.json.encode(msgspec.structs.replace(old, boot_id=BootId("another"))))
    node.restart()
    answer = node.cri.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod))
    assert answer.status.state == cri.SANDBOX_NOTREADY
    status = node.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, UNKNOWN_EXIT_CODE, "Unknown")
    assert "the machine was restarted" in status.message
    assert list((node.state / "namespaces").iterdir()) == []


def _spoil_request(directory: Path) -> None:
    (directory / "request.pb").write_bytes(b"\xff\xff\xff")


def _spoil_record(directory: Path) -> None:
    (directory / "record.json").write_bytes(b"{")


@pytest.mark.parametrize("spoil", [_spoil_request, _spoil_record])
@pytest.mark.extended
def test_a_container_that_cannot_be_read_is_ended(node: OciNode, spoil: Callable[[Path], None]) -> None:
    """Its processes do not go on unseen, nothing of it stays mounted, and the others are found."""
    good, bad = node.shell(_LOOP), node.shell(_LOOP)
    good_pid, pid = node.pid(good), node.pid(bad)
    spoil(node.state / "containers" / bad)
    node.restart()
    assert node.states() == {good: cri.CONTAINER_RUNNING}
    assert alive(good_pid)
    wait_for_death(pid)
    assert bad not in Path("/proc/self/mountinfo").read_text()
