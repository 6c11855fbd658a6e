"""A shim's decisions about its container's life, and what a command leaves in the shim."""

import errno
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from modules.runtimes.shim import kernel, launch, roots, spawner
from modules.runtimes.shim import shim as shim_module
from modules.runtimes.shim.connections import Connection
from modules.runtimes.shim.procfs import parse_stat, read_stat
from modules.runtimes.shim.protocol import (
    EXIT_RECORD,
    RUN_RECORD,
    ContainerSpec,
    Namespacing,
    Pid,
    ProcessSpec,
    receive,
    send,
    to_memory_file,
)
from modules.runtimes.shim.shim import Commands, Shim
from tests.support.failing import Failing, census


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    """A shim whose container has not been started."""
    process = ProcessSpec(argv=["true"], env={}, cwd="/", user=None, no_new_privileges=False)
    spec = ContainerSpec(
        directory=str(tmp_path / "container"),
        log="",
        namespacing="",
        steps=[],
        process=process,
        terminal=False,
        stdin=False,
        stdin_once=False,
        oom_score_adj=None,
    )
    (tmp_path / "container").mkdir()
    with ExitStack() as closing:
        ours, control = socket.socketpair()
        listener = socket.socket(socket.AF_UNIX)
        made = Shim(spec, control, listener)
        for each in (ours, control, listener, made._clients.events):
            closing.callback(each.close)
        yield made


def test_a_failing_disk_is_no_reason_to_end_a_container(shim: Shim) -> None:
    """Only the removal of its directory is: nobody could end the container any more."""
    assert not shim._is_forgotten()
    shim._directory.rmdir()
    assert shim._is_forgotten()
    shim._directory.symlink_to(shim._directory)
    assert not shim._is_forgotten()


def test_the_end_is_recorded_before_it_is_told_and_without_processes_that_do_not_die(
    shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edgecore that is killed in between would find no exit code; processes stuck in the kernel stay for ever."""
    told = list[bool]()
    monkeypatch.setattr(shim._connections, "broadcast", lambda _: told.append((shim._directory / EXIT_RECORD).exists()))
    monkeypatch.setattr(shim_module, "children_of_this_process", lambda: [Pid(1)])
    monkeypatch.setattr(os, "waitpid", lambda *_: (0, 0))
    monkeypatch.setattr(os, "kill", lambda *_: None)
    shim._finish(0)
    assert (told, shim._done) == ([True], True)


def test_a_start_is_made_durable_after_it_is_told(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut the next edgecore would take the container for one that was never started."""
    done = list[str]()
    monkeypatch.setattr(shim._connections, "announce", lambda event: done.append(event["event"]))
    monkeypatch.setattr(shim_module, "make_durable", lambda path: done.append(path.name))
    shim._announce_start({"pid": Pid(1), "started_at": 1})
    assert done == ["running", RUN_RECORD]


@pytest.mark.parametrize("operation", ["exec", "stream", "attach"])
def test_a_request_after_the_end_leaves_no_descriptor(shim: Shim, operation: str) -> None:
    """It is refused, and its client reads the end of its output."""
    answers, before = list[dict[str, Any]](), census()
    shim._exit_code = 0
    asker = cast("Connection", SimpleNamespace(send=answers.append))
    shim._handle(asker, {"id": 7, "op": operation, "terminal": False}, [os.open(os.devnull, os.O_RDONLY)])
    assert answers == [{"id": 7, "error": "the container has just ended"}]
    assert not census().more_than(before)


def test_a_refused_process_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe is tried again and again on a machine without room for a process, and the shim lives on."""
    before = census()
    monkeypatch.setattr(os, "fork", Failing(0, OSError(errno.EAGAIN, "of this test")).call(print))
    spec = ProcessSpec(argv=["true"], env={}, cwd="/", user=None, no_new_privileges=False)
    with pytest.raises(launch.LaunchError, match="cannot start another process"):
        launch.launch(spec, launch.StandardStreams(1, 2), lambda: None)
    assert not census().more_than(before)


def test_a_process_whose_shim_has_died_before_their_bond_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells only of later deaths; nobody would write its log or take its exit code."""
    monkeypatch.setattr(kernel, "die_with_parent", lambda _: None)
    monkeypatch.setattr(os, "_exit", Failing(0, SystemExit()).call(print))
    launch._die_with(os.getppid())
    with pytest.raises(SystemExit):
        launch._die_with(os.getpid())


@pytest.mark.parametrize("is_refused", [False, True])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_command_leaves_no_descriptor_in_the_shim(
    monkeypatch: pytest.MonkeyPatch, *, is_streamed: bool, is_refused: bool
) -> None:
    """The container may live for years. The kind of its terminal is the pod's."""
    launched, answers, before = list[ProcessSpec](), list[dict[str, Any]](), census()

    def start(spec: ProcessSpec, *_: object) -> Pid:
        launched.append(spec)
        if is_refused:
            raise launch.LaunchError("no such program")
        return Pid(7)

    monkeypatch.setattr(shim_module, "launch", start)
    like = ProcessSpec(argv=["true"], env={"TERM": "vt100"}, cwd="/", user=None, no_new_privileges=False)
    commands, asker = Commands("", like, None), cast("Connection", SimpleNamespace(send=answers.append))
    arguments, streams = to_memory_file("arguments", ["ls"]), [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
    exit_read, exit_write = os.pipe()
    if is_streamed:
        commands.stream(asker, 1, Pid(1), [arguments, exit_write, *streams], has_terminal=True)
    else:
        os.close(exit_write)
        os.close(streams.pop())
        commands.start(asker, 1, Pid(1), [arguments, *streams])
    commands.reaped(Pid(7), 3)
    assert os.read(exit_read, 9) == (b"3" if is_streamed and not is_refused else b"")
    os.close(exit_read)
    assert (launched[0]["argv"], launched[0]["env"]) == (["ls"], {"TERM": "vt100"})
    assert ("no such program" in str(answers)) is is_refused
    assert not census().more_than(before)


def test_an_end_by_a_signal_has_the_code_of_a_shell(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a command and of the main process, whose group ends with it."""
    ended, signals = list[tuple[int, int]](), list[int]()
    monkeypatch.setattr(shim._commands, "reaped", lambda pid, code: ended.append((pid, code)))
    monkeypatch.setattr(os, "waitpid", lambda pid, _: (pid, 9))
    assert shim._reap(Pid(5))
    assert ended == [(5, 137)]
    monkeypatch.setattr(shim, "_signal_group", signals.append)
    shim._begin_ending(cast("Any", SimpleNamespace(si_code=os.CLD_KILLED, si_status=15)))
    assert (shim._exit_code, signals) == (143, [signal.SIGKILL])


def test_the_end_of_an_output_is_in_the_log_and_a_client_that_is_behind_holds_it_up(
    shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when another process still holds the other output."""
    finished, poller, packets = list[int](), Mock(), iter([b"\2x", None])
    output = SimpleNamespace(pump=lambda _: next(packets), finish=finished.append)
    monkeypatch.setattr(shim, "_poller", poller)
    shim._outputs = cast("Any", {5: output})
    clients = Mock(is_behind=True)
    monkeypatch.setattr(shim, "_clients", clients)
    shim._pump(5)
    clients.send.assert_called_once_with(b"\2x")
    poller.remove.assert_called_once_with(5)
    shim._pump(5)
    assert (len(finished), shim._outputs) == (1, {})


def test_a_full_disk_keeps_nobody_from_hearing_of_the_end(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the last output, which clients get first."""
    told, rest = list[dict[str, Any]](), list[bytes]()
    monkeypatch.setattr(shim_module, "write_json", Failing(0, OSError(errno.ENOSPC, "of this test")).call(print))
    monkeypatch.setattr(shim._connections, "broadcast", told.append)
    monkeypatch.setattr(shim, "_clients", SimpleNamespace(finish=rest.extend, events=shim._clients.events))
    shim._outputs = cast("Any", {5: SimpleNamespace(rest=lambda _: [b"\2last"])})
    shim._end(0, "Completed", "")
    assert (rest, [each["event"] for each in told], shim._done) == ([b"\2last"], ["exited"], True)


def test_what_a_shim_cannot_do_is_an_answer(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no more files" in shim._attach([])
    full = SimpleNamespace(reopen=Failing(0, OSError(errno.ENOSPC, "No space left", "log")).call(print))
    monkeypatch.setattr(shim, "_log", full)
    assert shim._reopen_log() == "No space left: log"
    with Path(os.devnull).open("rb") as no_terminal:
        monkeypatch.setattr(shim, "_terminal", no_terminal.fileno())
        shim._resize(80, 24)


def test_a_record_is_for_nobody_else(tmp_path: Path) -> None:
    shim_module.write_json(tmp_path / "record", {"environment": "secret"})
    assert (tmp_path / "record").stat().st_mode & 0o777 == 0o600


def test_privileges_are_forbidden_whoever_the_user_is(monkeypatch: pytest.MonkeyPatch) -> None:
    forbidden = Mock()
    monkeypatch.setattr(kernel, "forbid_new_privileges", forbidden)
    spec = ProcessSpec(argv=["true"], env={}, cwd="/", user=None, no_new_privileges=True)
    launch._drop_privileges(spec, owns_terminal=False)
    forbidden.assert_called_once_with()


def test_the_bond_to_the_shim_is_made_again_for_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel forgets it with the credentials."""
    done = list[str]()
    for name in ("setgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, name, lambda *_, name=name: done.append(name))
    monkeypatch.setattr(kernel, "die_with_parent", lambda _: done.append("bound"))
    launch._become_user({"uid": 1, "gid": 1, "groups": [2]})
    assert done == ["setgroups", "setgid", "setuid", "bound"]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spawner that changes nothing of the process of the tests."""
    for name in ("os.umask", "signal.signal", "gc.collect", "gc.freeze", "kernel.name_process"):
        monkeypatch.setattr(f"modules.runtimes.shim.spawner.{name}", Mock())


@pytest.mark.parametrize("descriptors", [3, 0])
@pytest.mark.parametrize("operation", ["shim", "probe"])
def test_a_spawner_without_room_for_a_process_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, quiet: None, operation: str, descriptors: int
) -> None:
    """Also to a request whose descriptors were lost, and it keeps none. A dead spawner would be started again for each
    container, and nobody knew why.
    """
    del quiet
    before = census()
    monkeypatch.setattr(os, "fork", Failing(0, OSError(errno.EAGAIN, "no room")).call(lambda: 1))
    requests, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    answer, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with answer, theirs, Path(os.devnull).open("rb") as other:
        given = [other.fileno(), theirs.fileno(), other.fileno()] if operation == "shim" else [theirs.fileno()]
        for _ in range(2):
            send(ours, {"op": operation}, given[:descriptors])
        ours.close()
        spawner.serve(requests.detach())
        theirs.close()
        received, further = receive(answer), receive(answer)
    why = "cannot start another process: no room"
    ended = {"event": "exited", "exit_code": 128, "reason": "StartError", "message": why}
    expected = ended if operation == "shim" else {"namespacing": "", "reason": why}
    assert (received is not None and expected.items() <= received[0].items()) is (descriptors > 0)
    assert further is None, "the second has got a process, which has the socket"
    cast("Mock", os.umask).assert_called_once_with(0o077)
    assert not census().more_than(before)


def test_a_shim_that_fails_records_why(monkeypatch: pytest.MonkeyPatch, quiet: None, tmp_path: Path) -> None:
    """The last lines of it."""
    del quiet

    def fail(_: ContainerSpec, *sockets: socket.socket) -> Shim:
        for each in sockets:
            each.close()
        raise RuntimeError("x" * 9000 + " at last")

    monkeypatch.setattr(spawner, "Shim", fail)
    ours, theirs = socket.socketpair()
    spawner._run_shim(to_memory_file("spec", {"directory": str(tmp_path)}), ours.detach(), theirs.detach())
    record = json.loads((tmp_path / EXIT_RECORD).read_text())
    assert (record["reason"], record["exit_code"]) == ("ShimFailed", 255)
    assert record["message"].endswith(" at last\n")


def test_an_attempt_that_is_killed_has_not_succeeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "leave_host_mounts", lambda _: os._exit(0))
    assert "has ended early" in spawner._try_out("mount", "/nowhere")


def test_a_terminal_is_all_three_streams(shim: Shim) -> None:
    """Its output is read at one descriptor, and its input written to another of the same terminal."""
    shim._spec["terminal"] = True
    streams = shim._open_streams()
    assert streams.are_terminal and streams.stdin == streams.stdout == streams.stderr
    assert list(shim._outputs) == [shim._terminal]
    os.write(streams.stdout, b"hello")
    assert os.read(shim._terminal, 100) == b"hello"
    assert shim._clients.input is not None
    for each in (streams.stdout, shim._terminal, shim._clients.input.descriptor):
        os.close(each)


def test_a_container_whose_start_cannot_be_recorded_is_killed(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later edgecore could not find it; it may have ended already."""
    signals = list[tuple[int, int]]()

    def kill(group: int, number: int) -> None:
        signals.append((group, number))
        raise ProcessLookupError

    monkeypatch.setattr(os, "killpg", kill)
    monkeypatch.setattr(shim_module, "launch", lambda *_: Pid(7))
    monkeypatch.setattr(shim, "_open_streams", lambda: launch.StandardStreams(-1, -1))
    monkeypatch.setattr(shim_module, "close_all", lambda _: None)
    monkeypatch.setattr(shim_module, "write_json_soon", Failing(0, OSError("full")).call(print))
    assert shim._start()["pid"] == 7
    assert (signals, shim._failure) == ([(7, signal.SIGKILL)], "full")


def test_why_a_process_cannot_become_the_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut, as the reader cuts it; whatever the error is."""
    monkeypatch.setattr(launch, "_detach", Failing(0, ValueError("x" * 9999)).call(print))
    monkeypatch.setattr(os, "_exit", Failing(0, SystemExit()).call(print))
    spec = ProcessSpec(argv=["true"], env={}, cwd="/", user=None, no_new_privileges=False)
    read, write = os.pipe()
    with os.fdopen(read, "rb") as told:
        with os.fdopen(write, "wb"), pytest.raises(SystemExit):
            launch._become(spec, launch.StandardStreams(1, 2), lambda: None, os.getppid(), write)
        why = told.read()
    assert why.startswith(b"cannot prepare the container's process: ValueError: xx") and len(why) < 9999


def test_a_volume_that_is_made_read_only_keeps_its_other_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses to take them away in a user namespace."""
    asked = list[tuple[object, ...]]()
    monkeypatch.setattr(kernel, "mount_flags", lambda _: kernel.MS_NOSUID | kernel.MS_NODEV)
    monkeypatch.setattr(kernel, "mount", lambda *given: asked.append(given))
    roots.build([["readonly", "/v"]])
    kept = kernel.MS_NOSUID | kernel.MS_NODEV
    assert asked == [("none", "/v", "none", kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kept)]


def test_the_numbers_of_a_process_are_at_their_places() -> None:
    """As proc_pid_stat(5) counts them; a name may have blanks and brackets."""
    numbers = " ".join(str(number) for number in range(4, 53))
    assert parse_stat(f"7 (a ) (b) S {numbers}") == (7, 4, 10, 12, 14 + 15, 16 + 17, 24)


def test_a_process_becomes_the_command_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounts want privileges, and so may a working directory; the new session comes before all."""
    done = list[str]()
    for name in ("_detach", "_change_directory", "_drop_privileges"):
        monkeypatch.setattr(launch, name, lambda *_, _name=name, **__: done.append(_name))
    monkeypatch.setattr(launch, "_execute", Failing(0, SystemExit()).call(print))
    spec = ProcessSpec(argv=["true"], env={}, cwd="/", user=None, no_new_privileges=False)
    with pytest.raises(SystemExit):
        launch._become(spec, launch.StandardStreams(1, 2), lambda: done.append("prepare"), os.getppid(), -1)
    assert done == ["_detach", "prepare", "_change_directory", "_drop_privileges"]


@pytest.mark.parametrize(
    ("namespacing", "entered", "left"),
    [
        ("", [], None),
        ("mount", ["mnt"], ["unshare", "mount"]),
        ("user", ["user", "mnt"], ["_enter_user_namespace", "mount"]),
    ],
)
def test_namespaces_are_left_and_entered_in_their_order(
    monkeypatch: pytest.MonkeyPatch, namespacing: Namespacing, entered: list[str], left: list[str] | None
) -> None:
    """Only who has the rights of the user namespace may enter its mounts."""
    done = list[str]()
    monkeypatch.setattr(kernel, "join_namespace", lambda path, _: done.append(path.removeprefix("/proc/7/ns/")))
    roots.join(7, namespacing)
    assert done == entered
    done.clear()
    for owner, name in ((kernel, "unshare"), (kernel, "mount"), (roots, "_enter_user_namespace")):
        monkeypatch.setattr(owner, name, lambda *_, _name=name: done.append(_name))
    if left is not None:
        roots.leave_host_mounts(namespacing)
        assert done == left


def test_ambient_capabilities_are_cleared_as_the_kernel_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses other arguments, as an old one refuses the operation, which is no error."""
    asked = list[tuple[int, ...]]()

    def prctl(*given: int) -> int:
        asked.append(given)
        return 0

    monkeypatch.setattr(kernel, "_libc", SimpleNamespace(prctl=prctl, capset=lambda *_: 0))
    kernel.drop_capabilities()
    assert asked == [(47, 4, 0, 0, 0)]


@pytest.mark.parametrize("has_terminal", [False, True])
def test_a_command_at_a_terminal_knows_its_kind(monkeypatch: pytest.MonkeyPatch, *, has_terminal: bool) -> None:
    specs = list[ProcessSpec]()
    monkeypatch.setattr(shim_module, "launch", lambda spec, *_: specs.append(spec))
    arguments = to_memory_file("command", ["true"])
    given = [arguments, *(os.open(os.devnull, os.O_RDWR) for _ in range(4))]
    like = ProcessSpec(argv=["true"], env={}, cwd="/", user=None, no_new_privileges=False)
    commands = Commands("", like, None)
    commands.stream(cast("Connection", Mock()), 7, Pid(7), given, has_terminal=has_terminal)
    os.close(given[1])  # for the exit code
    assert ("TERM" in specs[0]["env"]) is has_terminal


@pytest.mark.parametrize(
    ("of_file_system", "of_mount"),
    [(0, 0), (0x1 | 0x2 | 0x4 | 0x8, 0x1 | 0x2 | 0x4 | 0x8), (0x1000, 0x20_0000), (0x20_0000 | 0x1002, 0x20_0002)],
)
def test_the_flags_of_a_mount_are_those_of_its_file_system(
    monkeypatch: pytest.MonkeyPatch, of_file_system: int, of_mount: int
) -> None:
    """As statvfs(3) has them, where a relative time of access is another bit."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=of_file_system))
    assert kernel.mount_flags("/v") == of_mount


def test_a_mount_is_whole_and_a_directory_in_memory_has_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what is mounted below; the owner is of the new file system, not of the name under it."""
    done = list[object]()
    monkeypatch.setattr(kernel, "mount", lambda _source, _target, kind, flags, *_: done.append((kind, flags)))
    monkeypatch.setattr(os, "chown", lambda *_: done.append("chown"))
    roots.build([["scaffold", str(tmp_path), "/v"], ["bind", "/a", "/v"]])
    assert done == [("tmpfs", 0), "chown", ("none", kernel.MS_BIND | kernel.MS_REC)]


def test_no_output_is_read_while_a_client_is_behind(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()
    poller = SimpleNamespace(add=lambda *_: done.append("add"), remove=lambda _: done.append("remove"))
    monkeypatch.setattr(shim, "_poller", poller)
    shim._outputs = {5: cast("Any", None)}
    for is_behind in (True, True, False, False):
        monkeypatch.setattr(shim, "_clients", SimpleNamespace(is_behind=is_behind, events=shim._clients.events))
        shim._hold_output()
    assert done == ["remove", "add"]


def test_a_container_without_its_directory_is_ended(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next look."""
    ends = iter([None, 137])

    def kill(number: int) -> None:
        assert number == signal.SIGKILL
        shim._exit_code = next(ends)

    monkeypatch.setattr(kernel, "adopt_orphans", lambda: None)
    monkeypatch.setattr(shim, "_watch_children", lambda: None)
    monkeypatch.setattr(shim, "_start", shim._directory.rmdir)
    monkeypatch.setattr(shim, "_announce_start", lambda _: None)
    monkeypatch.setattr(shim, "_poller", SimpleNamespace(wait=Failing(3).call(lambda _: None)))
    monkeypatch.setattr(shim, "_signal_group", kill)
    monkeypatch.setattr(shim, "_finish", lambda code: setattr(shim, "_done", code == 137))
    shim.run()


@pytest.mark.parametrize(("exit_code", "killed"), [(-1, ["7"]), (0, ["7", 8, 9]), (5, ["7", 8, 9])])
def test_a_streamed_command_is_killed_with_the_jobs_of_its_shell(
    monkeypatch: pytest.MonkeyPatch, exit_code: int, killed: list[str | int]
) -> None:
    """They are groups of their own; some of them have ended meanwhile."""
    done = list[str | int]()

    def kill(pid: int, _: int) -> None:
        done.append(pid)
        raise ProcessLookupError

    monkeypatch.setattr(shim_module, "all_processes", dict)
    monkeypatch.setattr(shim_module, "descendants", lambda *_: [SimpleNamespace(pid=8), SimpleNamespace(pid=9)])
    monkeypatch.setattr(shim_module, "_kill_group", lambda pid: done.append(str(pid)))
    monkeypatch.setattr(os, "kill", kill)
    shim_module._kill(Pid(7), shim_module._Asked(cast("Connection", None), 1, exit_code))
    assert done == killed


def test_a_process_that_could_not_become_the_command_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it stays for ever below an init that reaps nothing, as of a container, with each try."""
    reaped, pipe = list[int](), os.pipe()
    os.write(pipe[1], b"no such program")
    monkeypatch.setattr(os, "pipe2", lambda _: pipe)
    monkeypatch.setattr(os, "fork", lambda: 7)
    monkeypatch.setattr(os, "waitpid", lambda pid, _: reaped.append(pid))
    spec = ProcessSpec(argv=["true"], env={}, cwd="/", user=None, no_new_privileges=False)
    with pytest.raises(launch.LaunchError, match="no such program"):
        launch.launch(spec, launch.StandardStreams(1, 2), lambda: None)
    assert reaped == [7]


def test_a_command_inherits_neither_handlers_nor_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that may be handled."""
    reset, masks = set[int](), list[tuple[object, ...]]()
    monkeypatch.setattr(signal, "set_wakeup_fd", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda number, _: reset.add(number))
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *given: masks.append(given))
    launch._reset_signals()
    assert signal.valid_signals() - reset == {signal.SIGKILL, signal.SIGSTOP}
    assert masks == [(signal.SIG_SETMASK, ())]


@pytest.mark.parametrize(
    ("user", "works", "found"),
    [(0, "mount", "mount"), (0, "user", "user"), (0, "", ""), (1000, "mount", ""), (1000, "user", "user")],
)
def test_mounts_of_their_own_are_tried_as_the_user_may(
    monkeypatch: pytest.MonkeyPatch, user: int, works: str, found: str
) -> None:
    """Root in a container may be refused the mounts that it is given with a user namespace."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(spawner, "_try_out", lambda way, _: "" if way == works else f"no {way}")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        spawner._probe("/nowhere", theirs.detach())
        answer = (receive(ours) or ({}, []))[0]
    tried = "no mount; no user" if user == 0 else "no user"
    assert answer == {"namespacing": found, "reason": "" if found else tried}


def test_a_process_that_ends_while_it_is_read_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel knows it no more, although its file was opened."""
    for error in (ProcessLookupError(), FileNotFoundError()):
        monkeypatch.setattr(Path, "read_text", Failing(0, error).call(print))
        assert read_stat(7) is None
