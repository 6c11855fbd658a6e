"""What is left of shims whose start fails half-way."""

import errno
import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.clock import RealClock
from beehive.decoding import decode_json
from beehive.simulation import Simulation
from modules.runtimes.engine.errors import (
    BadRequestError,
    DeadlinePassedError,
    RunFailedError,
    ShimGoneError,
    WrongStateError,
)
from modules.runtimes.engine.process_watcher import ProcessWatcher
from modules.runtimes.engine.records import ContainerId, ContainerRecord, Run
from modules.runtimes.process import driver as driver_module
from modules.runtimes.process import execution, shim_manager, shim_spawner, streams
from modules.runtimes.process.driver import ProcessDriver
from modules.runtimes.process.execution import execute
from modules.runtimes.process.model import ProcessContainer
from modules.runtimes.process.shim_client import ShimClient
from modules.runtimes.process.shim_manager import ShimManager, _kill_if_marked
from modules.runtimes.process.shim_spawner import ShimSpawner
from modules.runtimes.shim import kernel, roots, spawner
from modules.runtimes.shim.protocol import EXIT_RECORD, RUN_RECORD, send, to_memory_file
from protos.cri.v1 import api_pb2 as cri
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call, fail_at_each_kernel_call

_RUN = b'{"pid": 1, "started_at": 1}'
_EXIT = b'{"exit_code": 3, "finished_at": 2, "reason": "Error", "message": ""}'


def test_the_descriptor_of_a_process_that_may_be_a_containers_is_closed() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert fail_at_each_kernel_call(lambda: _kill_if_marked(other.pid, b"HOME=/nowhere")) >= 1
        before, failing = census(), Failing(0, RuntimeError("of this test"))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(shim_manager, "_environment", failing.call(list))
            with pytest.raises(RuntimeError, match="of this test"):
                _kill_if_marked(other.pid, b"HOME=/nowhere")
        failing.forget()
        assert not census().more_than(before)


def test_a_container_that_cannot_be_handed_over_leaves_no_descriptor(tmp_path: Path) -> None:
    """Of its control socket, its link and its specification; the spawner has its own of what it was sent. It is watched
    before its shim is asked for, and else not started: nobody would see its end.
    """
    container = cast("Any", SimpleNamespace(directory=tmp_path, id="c1", link=None))
    watcher = ProcessWatcher()

    def make(failing: Failing) -> Attempt:
        asked = list[object]()
        spawner = SimpleNamespace(request=lambda *_, **__: asked.append(container.link))
        manager = ShimManager(failing.calls_of(spawner), failing.calls_of(watcher, "add"), *cast("Any", (None, None)))

        def run() -> None:
            with failing.kernel_calls():
                manager._hand_over(container, cast("Any", SimpleNamespace(name="spec")))
            assert asked == [container.link] and container.link is not None

        def undo() -> None:
            manager._unwatch(container)
            asked.clear()

        return Attempt(run, (watcher, asked), left=lambda: container.link, undo=undo)

    with closing(SimpleNamespace(close=watcher.stop)), pytest.MonkeyPatch.context() as patched:
        patched.setattr(shim_manager, "to_memory_file", lambda name, _: os.memfd_create(name))
        assert fail_at_each_call(make) >= 7


@pytest.mark.parametrize(
    ("records", "is_there", "state", "reason", "announced"),
    [
        ({RUN_RECORD: _RUN, EXIT_RECORD: _EXIT}, False, cri.CONTAINER_EXITED, "Error", 1),
        ({RUN_RECORD: _RUN, EXIT_RECORD: _EXIT}, True, cri.CONTAINER_EXITED, "Error", 1),
        ({RUN_RECORD: _RUN}, True, cri.CONTAINER_RUNNING, "", 0),
        ({RUN_RECORD: _RUN}, False, cri.CONTAINER_EXITED, "Unknown", 1),
        ({}, False, cri.CONTAINER_CREATED, "", 0),
    ],
)
def test_a_closed_link_says_what_the_records_say(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: dict[str, bytes],
    is_there: bool,
    state: int,
    reason: str,
    announced: int,
) -> None:
    """The shim may have ended between its record and its event, or have closed on an edgecore that did not read."""
    request, told = cri.CreateContainerRequest(), list[object]()
    container = ProcessContainer(ContainerId("c1"), tmp_path, request, ContainerRecord(created_at=0))
    container.run = decode_json(_RUN, Run) if RUN_RECORD in records and EXIT_RECORD not in records else None
    for name, content in records.items():
        (tmp_path / name).write_bytes(content)
    announcer = cast("Any", SimpleNamespace(stopped=told.append))
    manager = ShimManager(cast("Any", None), cast("Any", None), RealClock(), announcer)
    monkeypatch.setattr(manager, "_connect", lambda _: is_there)
    monkeypatch.setattr(shim_manager, "kill_leftovers", lambda _: None)
    for _ in range(2):
        manager._link_gone(container)
    assert container.state == state
    assert (container.exit.reason if container.exit else "") == reason
    assert len(told) == announced


def test_a_shim_does_not_hold_the_socket_of_its_spawner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or edgecore would not notice that a spawner has died, as long as a container runs."""
    monkeypatch.setattr(os, "fork", lambda: 0)
    for owner, name in ((os, "umask"), (signal, "signal"), (gc, "collect"), (gc, "freeze")):
        monkeypatch.setattr(owner, name, lambda *_: None)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ended, descriptor = list[bytes](), theirs.detach()

    def serve(_operation: str, _scratch: str, _descriptors: list[int]) -> None:
        ours.settimeout(0)
        ended.append(ours.recv(1))
        raise PlannedError

    monkeypatch.setattr(spawner, "_serve_one", serve)
    with ours:
        send(ours, {"op": "probe"})
        with pytest.raises(PlannedError):
            spawner.serve(descriptor)
    assert ended == [b""]


def test_a_machine_without_mounts_says_why_for_each_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawner, "_candidates", lambda: ("mount", "user"))
    monkeypatch.setattr(spawner, "_try_out", lambda namespacing, _: f"no {namespacing}")
    told = list[dict[str, str]]()

    def answer(asked: socket.socket, message: dict[str, str]) -> None:
        told.append(message)
        asked.close()

    monkeypatch.setattr(spawner, "send", answer)
    ours, theirs = socket.socketpair()
    with ours:
        spawner._probe("/nowhere", theirs.detach())
    assert told == [{"namespacing": "", "reason": "no mount; no user"}]


def test_a_spawner_that_cannot_be_started_leaves_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, spawner = census(), ShimSpawner(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", Failing(0).call(subprocess.Popen))
        with pytest.raises(PlannedError) as caught:
            spawner.start()
    assert not census().more_than(before)
    assert caught.value is not None, "what the error holds is not collected before"
    spawner.stop()


def test_a_child_of_the_spawner_that_fails_is_no_second_spawner(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[int]()
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(os, "setsid", Failing(0).call(print))
    with pytest.raises(PlannedError):
        spawner._serve_one("probe", "", [])
    assert ended == [0]


def test_spawners_that_have_died_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that gets no request any more, with its socket; the next one is tried."""
    waited = list[str]()
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: SimpleNamespace(wait=lambda: waited.append("waited")))
    before, spawner = census(), ShimSpawner(tmp_path)
    for _ in range(2):
        with pytest.raises(BrokenPipeError):
            spawner.request("probe", [])
    spawner.stop()
    assert waited == ["waited"] * 3
    assert not census().more_than(before)


@pytest.mark.parametrize("end", [lambda _: os.kill(os.getpid(), signal.SIGKILL), Failing(0, MemoryError()).call(print)])
def test_mounts_that_could_not_be_tried_out_do_not_count_as_possible(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[str], None]
) -> None:
    """As when there is no memory for the attempt: each pod would fail later."""
    forked, fork = list[int](), os.fork

    def forks() -> int:
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(os, "fork", forks)
    monkeypatch.setattr(roots, "leave_host_mounts", end)
    assert spawner._try_out("user", "/nowhere") == "a user namespace: the attempt has ended early"
    os.waitpid(forked[0], 0)


def test_a_spawner_that_is_stopped_before_its_probe_was_asked_for_leaves_no_socket(tmp_path: Path) -> None:
    before, spawner = census(), ShimSpawner(tmp_path)
    spawner.start()
    spawner.stop()
    assert not census().more_than(before)


def test_mounts_that_could_not_be_tried_out_are_tried_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory was short, or a spawner died, once: no container could have a volume until edgecore was restarted."""
    answers: list[dict[str, str] | None] = [{"namespacing": "", "reason": "no memory"}, None]
    answers.append({"namespacing": "user", "reason": ""})

    def answer(_socket: socket.socket, message: dict[str, Any], descriptors: list[int]) -> None:
        assert message["op"] == "probe"
        with socket.socket(fileno=os.dup(descriptors[0])) as asked:
            if (one := answers.pop(0)) is not None:
                send(asked, one)

    monkeypatch.setattr(shim_spawner, "send", answer)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: SimpleNamespace(wait=lambda: None))
    before, spawner = census(), ShimSpawner(tmp_path)
    spawner.start()
    found = [spawner.mount_ability() for _ in range(4)]
    spawner.stop()
    assert found[0].reason == "no memory"
    assert found[1].reason == "the attempt to find out did not end well"
    assert found[2:] == [("user", "")] * 2
    assert not spawner.mount_ability().reason, "it is known"
    assert not census().more_than(before)


def test_without_a_spawner_it_is_not_known_which_mounts_are_possible(tmp_path: Path) -> None:
    spawner = ShimSpawner(tmp_path)
    spawner.stop()
    assert spawner.mount_ability() == ("", "the runtime is closing")


def test_a_file_in_memory_that_cannot_be_written_is_closed() -> None:
    assert fail_at_each_kernel_call(lambda: os.close(to_memory_file("test", {"args": ["true"]}))) >= 3


def test_a_command_whose_shim_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been started all the same."""
    monkeypatch.setattr(streams, "_ANSWER_SECONDS", 0)
    begun = list[str]()

    def begin(operation: str, *_: object, **__: object) -> tuple[int, Future[object]]:
        begun.append(operation)
        return 1, Future()

    with pytest.raises(RunFailedError, match="does not answer"):
        streams._ask(cast("Any", SimpleNamespace(begin=begin)), "run a command", "exec", [])
    assert begun == ["exec", "kill-exec"]


def test_a_container_that_could_not_start_has_ended_also_on_a_full_disk(tmp_path: Path) -> None:
    """Nobody could remove it else; the next edgecore comes to the same conclusion."""
    container = ProcessContainer(
        ContainerId("c1"), tmp_path / "gone", cri.CreateContainerRequest(), ContainerRecord(created_at=0)
    )
    told, driver = list[object](), cast("Any", object.__new__(ProcessDriver))
    driver._clock, driver._announcer = Simulation(0).clock, SimpleNamespace(stopped=told.append)
    driver._prepare = Failing(0, BadRequestError("mount", "of this test")).call(print)
    with pytest.raises(RunFailedError):
        driver.start(container)
    assert container.exit is not None
    assert container.exit.reason == "StartError"
    assert "of this test" in container.exit.message
    assert told == [container]


@pytest.mark.parametrize(("tty", "stdin", "calls"), [(True, True, 6), (False, True, 8), (False, False, 8)])
def test_a_command_whose_streams_fail_leaves_no_descriptor(*, tty: bool, stdin: bool, calls: int) -> None:
    """As when the process has no more of them: each exec of a client would take some more."""

    def make(failing: Failing) -> Attempt:
        opened, answer = list[Any](), Future[dict[str, int]]()
        answer.set_result({"id": 1, "exit_code": 0})
        link: Any = SimpleNamespace(begin=failing.call(lambda *_, **__: (1, answer)))

        def run() -> None:
            with failing.kernel_calls():
                opened.append(streams._Command(link, ["true"], "execute", tty=tty, stdin=stdin))

        return Attempt(run, undo=lambda: opened.pop().close())

    assert fail_at_each_call(make) >= calls


def test_a_command_of_a_probe_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe may run one each second, which its client may leave; any of its calls may fail, also that of its end."""
    container: Any = SimpleNamespace(id="c1")

    def make(failing: Failing) -> Attempt:
        link = SimpleNamespace(begin=failing.call(lambda *_, **__: (1, Future())))
        monkeypatch.setattr(execution, "link_of", lambda *_: link)

        def run() -> None:
            with failing.kernel_calls(), suppress(DeadlinePassedError):
                execute(container, cri.ExecSyncRequest(cmd=["true"]), lambda _: False, Simulation(0).clock)

        return Attempt(run)

    assert fail_at_each_call(make) >= 8


def test_the_search_for_a_shim_that_has_ended_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the container's directory: a node has many containers that have ended. Without a descriptor it is not known
    whether one has ended: edgecore would kill all of them.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        before = census()
        assert not shim_manager._reach(link, tmp_path)
        assert not census().more_than(before)
        monkeypatch.setattr(
            shim_manager, "ControlAddress", Failing(0, OSError(errno.EMFILE, "of this test")).call(print)
        )
        with pytest.raises(OSError, match="of this test"):
            shim_manager._reach(link, tmp_path)


def test_pods_have_the_address_by_which_the_machine_reaches_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number in its place would be a port."""
    monkeypatch.setattr(driver_module, "_SOMEWHERE", ("127.0.0.1", 9))
    assert ProcessDriver.node_address(cast("Any", None)) == "127.0.0.1"


def test_a_refused_attachment_leaves_no_socket() -> None:
    """Of the container's input and output; whoever holds the error keeps nothing open."""
    begin = Failing(0, ShimGoneError("ask the shim", "of this test"))
    container = SimpleNamespace(id="c1", link=SimpleNamespace(begin=begin.call(print)), state=cri.CONTAINER_RUNNING)
    runner, before = streams.ProcessStreams(cast("Any", SimpleNamespace(container=lambda _: container))), census()
    with pytest.raises(WrongStateError, match="has just ended") as caught:
        runner.attach("c1", tty=False, stdin=False)
    assert not census().more_than(before)
    assert caught.value is not None, "what the error holds is not collected before"


def test_no_request_outlives_its_connection() -> None:
    """Whoever waits for an answer is told that none comes, and a request that was not sent is not waited for."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client = ShimClient(ours, lambda _: None, lambda: None)
    _, answer = client.begin("signal", number=0)
    with pytest.raises(TypeError):
        client.begin("signal", number=object())
    theirs.close()
    for _ in range(3):
        with pytest.raises(ShimGoneError):
            client.begin("signal", number=0)
    assert len(client._waiting) == 1
    client.close()
    with pytest.raises(ShimGoneError):
        answer.result(0)
    assert not client._waiting


def test_a_link_in_a_directory_that_is_shown_stays_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "mount", lambda *_: pytest.fail("it is mounted over"))
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "link").symlink_to("elsewhere")
    with os.scandir(tmp_path / "from") as entries:
        roots._mirror(next(entries), str(tmp_path / "link"))
    assert (tmp_path / "link").readlink() == Path("elsewhere")
