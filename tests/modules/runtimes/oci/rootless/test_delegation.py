"""The control groups that an ordinary user's node gets from the user's systemd."""

import os
import shutil
from pathlib import Path

import pytest

from modules.runtimes.oci.rootless import delegation
from modules.runtimes.oci.rootless.delegation import WANTED, delegated_group, undelegated
from tests.support.failing import census

_PROGRAMS = ("systemd-run", "busctl")


class Machine:
    """A machine of control groups v2, whose systemd delegates what pods need to this user."""

    def __init__(self, top: Path) -> None:
        user = os.getuid()
        self.groups, self.runtime, self.searched = top / "cgroup", top / "run", top / "bin"
        self.manager = self.groups / f"user.slice/user-{user}.slice/user@{user}.service"
        for each in (self.manager, self.runtime / str(user), self.searched):
            each.mkdir(parents=True)
        (self.groups / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        (self.manager / "cgroup.procs").touch()
        self.delegate("cpu memory pids")
        self.bus = self.runtime / str(user) / "bus"
        self.bus.touch()
        for name in _PROGRAMS:
            (self.searched / name).touch(mode=0o755)

    def delegate(self, controllers: str) -> None:
        """Let the user have controllers."""
        (self.manager / "cgroup.controllers").write_text(f"{controllers}\n")

    def gap(self) -> tuple[tuple[str, ...], str, str]:
        """What is not enforced, why, and the command."""
        found = undelegated(self.groups, self.runtime, str(self.searched))
        assert found is not None
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_all_is_there(machine: Machine) -> None:
    assert undelegated(machine.groups, machine.runtime, str(machine.searched)) is None


def test_version_1(machine: Machine) -> None:
    """Its groups are root's alone."""
    (machine.groups / "cgroup.controllers").unlink()
    limits, reason, remedy = machine.gap()
    assert (limits, remedy) == (WANTED, "systemd.unified_cgroup_hierarchy=1 on the kernel's command line")
    assert "control groups v1" in reason


def test_no_systemd_of_the_user(machine: Machine) -> None:
    """As in a program that cron or `su` has started: lingering starts one."""
    shutil.rmtree(machine.manager)
    assert machine.gap() == (WANTED, "no systemd of this user runs", "loginctl enable-linger")


@pytest.mark.parametrize("missing", ["bus", *_PROGRAMS])
def test_a_systemd_that_cannot_be_asked(machine: Machine, missing: str) -> None:
    (machine.bus if missing == "bus" else machine.searched / missing).unlink()
    assert machine.gap() == (
        WANTED, "this user's systemd cannot be asked", "apt-get install systemd dbus-user-session",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "missing"), [("memory pids", ("cpu",)), ("pids", ("cpu", "memory")), ("", WANTED), ("io", WANTED)]
)
def test_controllers_that_are_not_delegated(machine: Machine, given: str, missing: tuple[str, ...]) -> None:
    """By name, with the one command that brings them: older distributions keep `cpu` back."""
    machine.delegate(given)
    limits, reason, remedy = machine.gap()
    assert (limits, reason) == (missing, f"systemd does not delegate {' and '.join(missing)} to users")
    assert r"printf '[Service]\nDelegate=cpu memory pids\n' > /etc/systemd/system/user@.service.d/" in remedy


def test_a_node_that_has_begun_without_groups_goes_on_without(tmp_path: Path) -> None:
    """Its containers are in none, and crun would look for theirs."""
    assert delegated_group(tmp_path / "oci-scope", anew=False) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("own", "is_begun"),
    [
        ("/system.slice/edgecore.service", False),
        ("/user.slice/user-{0}.slice/session-3.scope", True),
        ("/user.slice/user-{0}.slice/user@{0}.service/app.slice/edgecore.service", True),
    ],
)
def test_a_service_of_the_system_stays_in_its_unit(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, is_begun: bool
) -> None:
    """A unit with `User=`: systemd would find its main process in another one. Other processes get a scope; when
    systemd refuses it, nothing is left, and the node goes on without.
    """
    begun: list[str] = []

    def refuse(name: str, _group: Path) -> int:
        begun.append(name)
        raise TimeoutError

    (machine.manager / "app.slice").mkdir()
    (machine.manager / "app.slice/cgroup.procs").touch()
    monkeypatch.setattr(delegation, "GROUPS", machine.groups)
    monkeypatch.setattr(delegation, "undelegated", lambda: None)
    monkeypatch.setattr(delegation, "_own_group", lambda: own.format(os.getuid()))
    monkeypatch.setattr(delegation, "_start_keeper", refuse)
    assert delegated_group(tmp_path / "oci-scope", anew=True) is None
    assert len(begun) == is_begun
    assert not (tmp_path / "oci-scope").exists()


@pytest.mark.parametrize("is_run", [False, True])
def test_a_keeper_that_cannot_be_placed_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_run: bool
) -> None:
    """It would sleep, and keep its scope, until the user's systemd ends."""
    keeper = os.posix_spawnp("echo", ["echo"], os.environ) if is_run else 0

    def run(*_: object, file_actions: list[tuple[int, int, int]], **__: object) -> int:
        if not is_run:
            raise FileNotFoundError
        os.write(file_actions[-1][1], b"\n")
        return keeper

    monkeypatch.setattr(os, "posix_spawnp", run)
    before = census()
    with pytest.raises(FileNotFoundError):
        delegation._start_keeper("edgecore-1.scope", tmp_path / "missing")
    assert not census().more_than(before)
    if is_run:
        with pytest.raises(ChildProcessError):
            os.waitpid(keeper, 0)


def test_a_keeper_that_is_of_no_use_is_ended(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scope is there, and edgecore is not let into it."""
    ended: list[int] = []

    def refuse(_name: str, _group: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(delegation, "GROUPS", machine.groups)
    monkeypatch.setattr(delegation, "undelegated", lambda: None)
    monkeypatch.setattr(delegation, "_own_group", lambda: "/user.slice/session-3.scope")
    monkeypatch.setattr(delegation, "_start_keeper", lambda *_: 77)
    monkeypatch.setattr(delegation, "_move_into", refuse)
    monkeypatch.setattr(delegation, "end_child", ended.append)
    assert delegated_group(tmp_path / "oci-scope", anew=True) is None
    assert ended == [77]
