"""What a run leaves on the machine is found; what others do there meanwhile is not."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.processes import wait_until
from tests.support import remains
from tests.support.directories import SHORT, VARIABLE, short_directory
from tests.support.leftovers import LOOPBACK_RULE
from tests.support.remains import Machine, changes


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """The mark of another run, whose remains this test makes."""
    made = secrets.token_hex(6)
    monkeypatch.setenv(VARIABLE, made)
    return made


@pytest.fixture(params=["environment", "arguments"])
def left_process(request: pytest.FixtureRequest, mark: str) -> Iterator[int]:
    """A process of that run that goes on."""
    command = ["sh", "-c", "read x", f"/tmp/e2e-{mark}"] if request.param == "arguments" else ["cat"]
    environment = {VARIABLE: mark} if request.param == "environment" else {}
    environment["PATH"] = os.environ["PATH"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:
        # the kernel closes the pipe by which `Popen` sees that the program runs before it shows its environment
        wait_until(Path(f"/proc/{process.pid}/environ").read_bytes, "the process has an environment")
        yield process.pid
        process.kill()


def test_a_process_is_left(mark: str, left_process: int) -> None:
    assert [each.split(":")[0] for each in remains.remains(mark)] == [f"process {left_process}"]
    assert not remains.is_of_run(left_process, "0000")


def test_the_process_that_looks_is_not_left(mark: str) -> None:
    """It has the mark, like its ancestors."""
    assert remains.remains(mark) == []


def test_a_directory_is_left(mark: str) -> None:
    with short_directory("remains-"):
        (found,) = remains.remains(mark)
    assert found.startswith(f"file {SHORT}/remains-{mark}")
    assert remains.remains(mark) == []


_OTHER = "29 1 0:5 / /tmp/e2e-zzzz0000/volume rw - tmpfs tmpfs rw\n"


def test_a_mount_is_left(mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"{_OTHER}30 1 0:6 / /tmp/e2e-{mark}0000/volume rw - tmpfs tmpfs rw\n")
    monkeypatch.setattr(remains, "_MOUNTS", table)
    assert remains.remains(mark) == [f"mount /tmp/e2e-{mark}0000/volume"]


def test_an_interface_and_a_control_group_are_left(mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("net/eth0", f"net/ec-{mark}", "cgroup/pids/oci-0000", f"cgroup/pids/oci-{mark}/pod"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(remains, "_INTERFACES", tmp_path / "net")
    monkeypatch.setattr(remains, "_CGROUPS", tmp_path / "cgroup")
    assert remains.remains(mark) == [f"network interface ec-{mark}", f"control group {tmp_path}/cgroup/pids/oci-{mark}"]


def test_changed_modes_and_the_programs_own_directories_are_seen() -> None:
    before = Machine({"/tmp": (0o41777, 0, 0), "/home/me": (0o40700, 7, 7)}, frozenset({"directory /etc/cni"}))
    after = Machine(
        {"/tmp": (0o40755, 0, 0), "/home/me": (0o40700, 7, 7)}, before.present | {"directory /var/lib/edged"}
    )
    assert changes(before, before) == []
    assert changes(before, after) == [
        "directory /tmp: mode 1777, user 0, group 0 became 755, 0, 0",
        "directory /var/lib/edged was made",
    ]


def test_the_names_of_the_programs_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interfaces and rules that no configuration of a test has named."""
    for name in ("eth0", "edgecore0"):
        (tmp_path / name).mkdir()
    saved = """:INPUT ACCEPT [0:0]
:CNI-HOSTPORT-MASQ - [0:0]
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A INPUT ! -i lo -m comment --comment "edgecore: loopback from elsewhere" -j DROP
-A FORWARD -i edgecore0 -m comment --comment "edgecore: pods of edgecore0" -j ACCEPT
-A FORWARD -i oci-abcd -m comment --comment "edgecore: pods of oci-abcd" -j ACCEPT
table ip edgecore {
table ip nat {"""
    monkeypatch.setattr(remains, "_INTERFACES", tmp_path)
    monkeypatch.setattr(remains, "_lines_of_rules", lambda: (("iptables", line) for line in saved.splitlines()))
    found = remains.machine(tmp_path)
    assert {each for each in found.present if not each.startswith("directory")} == {
        "network interface edgecore0",
        "rule of iptables: CNI-HOSTPORT-MASQ",
        "rule of iptables: CNI portfwd requiring masquerade",
        "rule of iptables: edgecore: loopback from elsewhere",
        "rule of iptables: edgecore: pods of edgecore0",
        "rule of iptables: table ip edgecore",
    }
    assert remains.had_rule(found, LOOPBACK_RULE)
    only_ports = Machine({}, frozenset({"rule of iptables: CNI-HOSTPORT-MASQ", "network interface edgecore0"}))
    assert (remains.had_rule(only_ports, LOOPBACK_RULE), remains.had_rule(only_ports, "CNI")) == (False, True)
    assert not remains.had_rule(Machine({}, frozenset({"directory /etc/CNI was made"})), "CNI")


@pytest.mark.parametrize(("variable", "is_seen"), [("", False), ("OTHER=x", False), ("=mark", False), ("=x", True)])
def test_another_run_is_seen(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_seen: bool) -> None:
    """By the environment of its processes."""
    (tmp_path / "17").mkdir()
    (tmp_path / "18").mkdir()  # it has just ended
    (tmp_path / "17" / "environ").write_text(f"A=b\0{VARIABLE if variable[:1] == '=' else ''}{variable}\0C=d\0")
    monkeypatch.setattr(remains, "_PROCESSES", tmp_path)
    assert remains.others_run("mark") is is_seen
