"""What is left of pods' networks and namespaces that cannot be made."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive.clock import RealClock
from beehive.simulation import Simulation
from modules.runtimes.oci.network import nf_tables, plugin, pod_init, pod_network, user_namespaces
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.network.pause import process
from modules.runtimes.oci.network.plugin import PluginRunner, _ClosedError
from modules.runtimes.oci.network.pod_init import end_pod_init
from modules.runtimes.oci.network.pod_network import PodNetwork
from modules.runtimes.oci.network.rule_watch import AttachedSandbox
from modules.runtimes.oci.network.turns import MOST_CHAINS, Turns
from modules.runtimes.oci.network.user_namespaces import IdRange, UserMapping, pin_with_users
from protos.cri.v1 import api_pb2 as cri
from tests.support.failing import (
    Attempt,
    Failing,
    PlannedError,
    census,
    fail_at_each_call,
    fail_at_each_kernel_call,
    left_by_repeating,
)


def test_no_descriptor_and_no_process_is_left_of_namespaces_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cat` stands for unshare: it answers, and ends when its input does."""
    spawned: list[int] = []

    def spawn(_kinds: object, stdin: int, stdout: int) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1)]
        program = ("/bin/sh", "-c", "echo; exec cat")
        spawned.append(os.posix_spawn(program[0], program, {}, file_actions=actions))
        return spawned[-1]

    def make(failing: Failing) -> Attempt:
        monkeypatch.setattr(user_namespaces, "_spawn", spawn)
        for name in ("_write_mapping", "bind_file"):
            monkeypatch.setattr(user_namespaces, name, failing.call(lambda *_: None))

        def run() -> None:
            with failing.kernel_calls():
                pin_with_users(tmp_path, ["net"], UserMapping(IdRange(0, 1), IdRange(0, 1)))

        return Attempt(run)

    assert fail_at_each_call(make) >= 6
    for each in spawned:
        with pytest.raises(ProcessLookupError):
            os.kill(each, 0)


@pytest.mark.parametrize("way", ["to_attach", "to_detach"])
def test_a_sandbox_whose_turn_ends_with_an_error_gives_it_back(way: str) -> None:
    """Otherwise no pod would get its network any more after the fourth failure."""
    turns = Turns()

    def cycle() -> None:
        with pytest.raises(PlannedError), getattr(turns, way)("a"):
            assert turns.concern("a")
            raise PlannedError
        assert not turns.concern("a")

    for _ in range(MOST_CHAINS):
        cycle()
    assert not left_by_repeating(cycle, turns)
    turns._changed.wait_for = Failing(0).call(turns._changed.wait_for)  # type: ignore[method-assign]
    with pytest.raises(PlannedError), getattr(turns, way)("a"):
        pass
    assert not turns.concern("a")


@pytest.mark.parametrize(
    ("fails", "works"),
    [
        ("_configurations", lambda network: network.attach("a", Path(), Path(), cri.PodSandboxConfig())),
        ("_kept", lambda network: network.detach("a", Path(), None)),
        ("_chain", lambda network: network.collect(set())),
        ("read_attachment", lambda network: network._repeat_ports("a", AttachedSandbox(Path(), lambda: None))),
    ],
)
def test_a_network_that_fails_gives_its_turn_back(
    monkeypatch: pytest.MonkeyPatch, fails: str, works: Callable[[PodNetwork], object]
) -> None:
    network = cast("Any", object.__new__(PodNetwork))
    network._turns, network._prefix, network._default = Turns(), "", None
    for name in ("_configurations", "_chain", "_rules", "_name"):
        setattr(network, name, Mock())
    lease = SimpleNamespace(container_id="a", changed=-1.0)
    for name, double in (("leases_of", [lease]), ("has_attachment", True), ("read_attachment", None)):
        monkeypatch.setattr(pod_network, name, lambda *_, double=double: double)
    failing = Mock(side_effect=PlannedError)
    failing.current = failing.delete = failing
    if fails == "read_attachment":
        monkeypatch.setattr(pod_network, fails, failing)
    else:
        setattr(network, fails, failing)
    with pytest.raises(PlannedError):
        works(network)
    assert failing.called
    assert not network._turns.concern("a")


def test_a_first_process_of_a_pod_that_cannot_be_started_leaves_no_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", Failing(0).call(print))
    before = census()
    with pytest.raises(PlannedError) as caught:
        pod_init.start_pod_init(tmp_path, ())
    assert not census().more_than(before)
    assert caught.value is not None, "what the error holds is not collected before"


def test_a_first_process_of_a_pod_that_fails_does_not_go_on_as_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[int]()
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(os, "set_inheritable", lambda *_: None)
    monkeypatch.setattr(process, "_enter", lambda *_: 0)
    monkeypatch.setattr(os, "read", Failing(0, MemoryError("of this test")).call(print))
    with pytest.raises(MemoryError, match="of this test"):
        process.main(-1, "", ())
    assert ended == [1]


@pytest.mark.parametrize("operation", [pod_init._has_ended, lambda _: end_pod_init(Path())], ids=["look", "end"])
def test_the_descriptor_of_a_pods_first_process_is_closed(
    monkeypatch: pytest.MonkeyPatch, operation: Callable[[int], object]
) -> None:
    with subprocess.Popen("/bin/true") as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        monkeypatch.setattr(pod_init, "_pid", lambda _: process.pid)
        with monkeypatch.context() as patched:
            patched.setattr(os, "waitid", lambda *_: None)

            assert fail_at_each_kernel_call(lambda: operation(process.pid)) >= 1


def test_a_channel_to_the_firewall_that_cannot_be_set_up_is_closed() -> None:
    assert fail_at_each_kernel_call(lambda: nf_tables._open().close()) >= 1


def test_plugins_that_have_ended_leave_nothing(tmp_path: Path) -> None:
    """One that succeeds, one that fails, and one that cannot be started."""
    clock = RealClock()
    runner = PluginRunner(clock)
    programs = [tmp_path / name for name in ("true", "false", "missing")]
    for program in programs[:2]:
        program.symlink_to(f"/bin/{program.name}")

    def cycle() -> None:
        assert runner.run(programs[0], {"CNI_COMMAND": "ADD"}, {}) == {}
        for program in programs[1:]:
            with pytest.raises(PodNetworkError):
                runner.run(program, {"CNI_COMMAND": "ADD"}, {})

    assert not left_by_repeating(cycle, runner)
    clock.close()


def test_a_plugin_that_has_ended_with_an_error_is_not_killed_later() -> None:
    """Its number may be another process's by then."""
    clock, process = RealClock(), subprocess.Popen(["true"])
    runner = PluginRunner(clock)
    with process, pytest.raises(PlannedError), runner._known(process):
        raise PlannedError
    clock.close()
    assert not runner._running


def test_a_plugin_is_killed_and_waited_for_after_a_failure_of_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would work on the network of a pod that counts as not attached."""
    runner, started, killed = PluginRunner(Simulation(0).clock), list[Any](), list[Any]()
    start, kill = subprocess.Popen, plugin._kill_group

    def noted(*args: Any, **options: Any) -> Any:
        counting = sys.getprofile()
        sys.setprofile(None)  # Python's own calls leave pipes when they fail
        started.append(process := start(*args, **options))
        sys.setprofile(counting)
        return process

    def kill_noted(process: Any) -> None:
        killed.append(process)
        kill(process)

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr(plugin, "_kill_group", kill_noted)
    assert fail_at_each_kernel_call(lambda: runner._outcome(Path("/bin/true"), {}, b"{}")) >= 4
    assert killed == started
    assert None not in [each.returncode for each in started]
    assert not runner._running


def test_plugins_that_run_are_killed_when_edgecore_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait as long as they may take, and those begun later, too."""
    runner, killed = PluginRunner(Simulation(0).clock), list[object]()
    process = cast("subprocess.Popen[bytes]", object())
    monkeypatch.setattr(plugin, "_kill_group", killed.append)
    with pytest.raises(_ClosedError), runner._known(process):
        runner.close()
        assert killed == [process]
    with pytest.raises(_ClosedError), runner._known(process):
        pytest.fail("it begins")


def test_the_first_process_of_a_pod_is_waited_for_when_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would stay as a zombie."""
    calls = list[str]()
    monkeypatch.setattr(pod_init, "_pid", lambda _: os.getpid())
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: calls.append("kill"))
    monkeypatch.setattr(pod_init, "is_readable", lambda *_: calls.append("ended"))
    monkeypatch.setattr(os, "waitid", lambda *_: calls.append("waited for"))
    end_pod_init(Path())
    assert calls == ["kill", "ended", "waited for"]
