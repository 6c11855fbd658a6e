"""Who may read what mosquitto has, and which rights it has itself; no mosquitto is needed."""

import os
import stat
import subprocess
import sys
from pathlib import Path

from beehive.files.descriptors import OwnedFd
from modules.edge.eventbus import mosquitto_files, mosquitto_launcher
from modules.edge.eventbus.internal_broker import ACL, CONFIGURATION, DATA, PASSWORDS, InternalBroker
from modules.edge.eventbus.mosquitto_files import Owner

NOBODY = 65534


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_files_are_for_mosquitto_and_the_secret_name_for_edgecore_alone(tmp_path: Path) -> None:
    """Also in a directory that was open to others before: with the name of edgecore's session, an application could
    take its place.
    """
    directory = tmp_path / "m"
    directory.mkdir()
    directory.chmod(0o755)
    name = mosquitto_files.client_id(directory)
    broker = InternalBroker(directory=directory, program=Path("m"), host="::1", port=1, client_id=name, user="u")
    for _ in range(2):
        mosquitto_files.write_files(broker, Owner(os.geteuid(), os.getegid()))
        assert (_mode(directory), _mode(directory / DATA), _mode(directory / "client-id")) == (0o750, 0o700, 0o600)
        assert {_mode(directory / each) for each in (CONFIGURATION, ACL, PASSWORDS)} == {0o640}
    assert mosquitto_files.client_id(directory) == name


def test_a_mosquitto_that_ends_by_itself_needs_no_signal() -> None:
    """It may be gone between the look at its name and the signal."""
    ended = subprocess.Popen(["true"])
    with OwnedFd(os.pidfd_open(ended.pid)) as process:
        ended.wait()
        mosquitto_files._end(process)


_GROUP = 12_345
"""A supplementary group of edgecore."""


def _launched(parent: int, uid: int, gid: int) -> subprocess.CompletedProcess[str]:
    script = "umask; grep -E '^(Uid|Gid|Groups|NoNewPrivs):' /proc/self/status"
    given = [str(parent), str(uid), str(gid), "name", "/bin/sh", "-c", script]
    return subprocess.run(
        [sys.executable, "-I", "-S", str(mosquitto_launcher.__file__), *given],
        capture_output=True,
        check=False,
        text=True,
        extra_groups=[_GROUP] if os.geteuid() == 0 else None,
    )


def test_mosquitto_has_no_more_rights_than_its_user() -> None:
    """Not even by a program that gives rights; and its files are for it alone. Without edgecore it does not begin."""
    is_root = os.geteuid() == 0
    uid, gid = (NOBODY, NOBODY) if is_root else (os.geteuid(), os.getegid())
    umask, *rest = _launched(os.getpid(), uid, gid).stdout.splitlines()
    found = {name: value.split() for name, _, value in (line.partition(":") for line in rest)}
    assert int(umask, 8) == 0o077
    assert found["NoNewPrivs"] == ["1"]
    assert (found["Uid"], found["Gid"]) == ([str(uid)] * 4, [str(gid)] * 4)
    assert not is_root or found["Groups"] == []
    orphan = _launched(1, uid, gid)
    assert (orphan.returncode, orphan.stdout) == (1, "")
