"""What is left of networks and namespaces that cannot be made, or entered, without root."""

import fcntl
import os
import socket
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, Mock

import pytest

from modules.runtimes.engine.errors import StateDirectoryError
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.rootless import entering, probe
from modules.runtimes.oci.rootless.node_network import _ALSO_AS_ROUTER, _NEVER, NodeNetwork, _last_line
from modules.runtimes.oci.rootless.pod_network import RootlessPodNetwork
from modules.runtimes.shim import kernel
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call


@pytest.mark.parametrize(
    ("at", "undone"), [(0, []), (1, ["ports"]), (2, ["sandbox"])], ids=["the node's", "the sandbox's", "the ports"]
)
def test_a_network_that_fails_half_way_keeps_no_port_and_no_address(at: int, undone: list[str]) -> None:
    failing, done, network = Failing(at), list[str](), cast("Any", RootlessPodNetwork.__new__(RootlessPodNetwork))
    network._forward = failing.call(lambda *_: None)
    network._reserve_ports = lambda *_: ()
    network._within = failing.call(lambda *_: None)
    network._give_back = lambda _: done.append("ports")

    def detach(*_: object) -> None:
        done.append("sandbox")
        raise PodNetworkError("detach", "it is busy")  # the removal of the sandbox tries again

    network.detach = detach
    with pytest.raises(PlannedError):
        network.attach("a", None, None, None)
    assert done == undone


def test_a_slirp4netns_that_cannot_be_started_leaves_no_pipe_and_no_ear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod could announce itself as the node's router."""
    heard, network = list[str](), cast("Any", NodeNetwork.__new__(NodeNetwork))
    network._socket, network.namespace, network._searched = tmp_path / "socket", tmp_path / "net", ""
    network._accept_router = heard.append
    monkeypatch.setattr(subprocess, "Popen", Failing(0).call(subprocess.Popen))
    before = census()
    with pytest.raises(PlannedError):
        network._start("slirp4netns")
    assert (heard, census().more_than(before)) == ([_ALSO_AS_ROUTER, _NEVER], [])


def test_a_slirp4netns_that_fails_after_its_start_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep the interface, so that no other could ever be started in its place; and no pipe is left."""
    network, running, read = cast("Any", NodeNetwork.__new__(NodeNetwork)), list[str](), os.read
    network._socket, network.namespace, network._searched = tmp_path / "socket", tmp_path / "net", ""

    def start(*_: Any, pass_fds: list[int], **__: Any) -> Any:
        os.write(pass_fds[0], b"1")
        running[:] = ["slirp4netns", "its number"]
        return SimpleNamespace(kill=lambda: running.remove("slirp4netns"), wait=lambda: running.remove("its number"))

    def make(failing: Failing) -> Attempt:
        running.clear()
        network._accept_router = failing.call(lambda _: None)
        monkeypatch.setattr(os, "read", failing.call(read))
        monkeypatch.setattr(subprocess, "Popen", failing.call(start))
        return Attempt(lambda: network._start("slirp4netns"), left=lambda: list(running), is_repeatable=False)

    assert fail_at_each_call(make) == 4
    assert running == ["slirp4netns", "its number"]


@pytest.mark.parametrize("operation", [entering.make_namespaces, lambda: probe.probe(Path("/"))], ids=["make", "try"])
def test_a_process_that_cannot_be_started_leaves_no_pipe(
    monkeypatch: pytest.MonkeyPatch, operation: Callable[[], None]
) -> None:
    monkeypatch.setattr(os, "fork", Failing(0).call(os.fork))
    monkeypatch.setattr(entering, "_mappings", list)
    before = census()
    with pytest.raises(StateDirectoryError, match="no process can be started"):
        operation()
    assert not census().more_than(before)


def test_a_holder_that_cannot_be_recorded_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would find it, it holds the namespaces without an end, and each later start would leave one more."""
    ended = list[int]()
    monkeypatch.setattr(os, "posix_spawnp", lambda *_, **__: 4321)
    monkeypatch.setattr(entering, "end_child", ended.append)
    with pytest.raises(FileNotFoundError):
        entering.ensure_holder(tmp_path / "missing" / "holder")
    assert ended == [4321]


def test_namespaces_that_are_refused_leave_neither_a_pipe_nor_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    child = os.posix_spawnp("true", ["true"], os.environ)
    monkeypatch.setattr(os, "fork", lambda: child)
    monkeypatch.setattr(entering, "_mappings", list)
    monkeypatch.setattr(kernel, "unshare", Failing(0).call(print))
    before = census()
    with pytest.raises(StateDirectoryError, match="refuses a user namespace"):
        entering.make_namespaces()
    assert not census().more_than(before)
    with pytest.raises(ChildProcessError):
        os.waitpid(child, 0)


def test_namespaces_that_cannot_be_entered_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "ioctl", lambda *_: os.open(os.devnull, os.O_RDONLY))
    monkeypatch.setattr(kernel, "set_namespace", Failing(0).call(print))
    before = census()
    with pytest.raises(StateDirectoryError, match="cannot be entered"):
        entering._join(0, None)
    assert not census().more_than(before)


def test_a_trial_that_is_refused_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "make_namespaces", lambda: None)
    monkeypatch.setattr(probe, "kernel", SimpleNamespace(mount=lambda *_: None, MS_REC=0, MS_SLAVE=0))
    monkeypatch.setattr(os, "chown", Failing(0).call(os.chown))
    with pytest.raises(StateDirectoryError, match="files of sub-ids"):
        probe._try(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("secret", ["", "known"])
def test_namespaces_that_cannot_be_entered_leave_their_record_unlocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    """Neither new ones nor those of a living process: the next attempt would wait for the lock for ever."""
    record = tmp_path / "node" / "record"
    (tmp_path / "proc" / "self" / "task" / "1").mkdir(parents=True)
    monkeypatch.setattr(entering, "_PROC", tmp_path / "proc")
    for name in ("search_programs_of_administrators", "namespaces_id"):
        monkeypatch.setattr(entering, name, lambda: "")

    def make(failing: Failing) -> Attempt:
        doubles: dict[str, Any] = dict.fromkeys(
            ("_join", "ensure_holder", "make_namespaces", "_set_up", "signal_lost"), lambda *_: None
        )
        doubles |= {"_member": lambda _: os.dup(1), "delegated_group": lambda *_, **__: None}
        for name, double in doubles.items():
            monkeypatch.setattr(entering, name, failing.call(double))

        def run() -> None:
            record.parent.mkdir(exist_ok=True)
            record.write_text(secret)
            entering.enter(record)

        return Attempt(run)

    assert fail_at_each_call(make) == 4


@pytest.mark.parametrize(
    ("said", "shown"),
    [(None, "it says nothing"), (b"\n \n", "it says nothing"), (b"one\nno \xff\n\n", "no \N{REPLACEMENT CHARACTER}")],
)
def test_what_slirp4netns_has_said_last_is_shown(said: bytes | None, shown: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    if said is not None:
        log.write_bytes(said)
    assert _last_line(log) == shown


def test_ports_of_a_pod_are_given_back_also_without_slirp4netns() -> None:
    """Its successor forwards none of them; a pod without ports asks it nothing."""
    network, failing = (
        cast("Any", RootlessPodNetwork.__new__(RootlessPodNetwork)),
        Failing(0, PodNetworkError("a", "b")),
    )
    network._forwards, network._forward = {"s1": (Mock(),)}, failing.call(lambda: None)
    network._give_back("s2")
    assert not failing.has_failed
    network._give_back("s1")
    assert (network._forwards, failing.has_failed) == ({}, True)


def test_slirp4netns_is_asked_before_the_end_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    network, connection = cast("Any", object.__new__(NodeNetwork)), MagicMock()
    network._asking, network._socket = nullcontext(), Path("socket")
    connection.__enter__.return_value = connection
    connection.recv.side_effect = (b'{"return": {}}', b"")
    monkeypatch.setattr(socket, "socket", lambda *_: connection)
    assert network._ask("list_hostfwd") == {"return": {}}
    assert [name for name, *_ in connection.method_calls if name in ("sendall", "shutdown")] == ["sendall", "shutdown"]
