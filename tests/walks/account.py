"""The ordinary user of the walks, and the files in /etc that the programs of one installation see."""

import os
import pwd
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NAME: Final = "edgecore-walks-"
"""The beginning of its name; the rest is the number of the process that walks."""
_TUN: Final = ("mount -t tmpfs -o mode=0755 none /dev/net", "mknod -m 0666 /dev/net/tun c 10 200")
"""As udev lets an ordinary user open it: `.ci/as-user`."""


@dataclass(frozen=True)
class Account:
    """An ordinary user."""

    name: str
    uid: int
    gid: int
    home: Path


@contextmanager
def ordinary_user(*, is_root: bool) -> Iterator[Account | None]:
    """The user that rows of an ordinary user have: made for the walks and removed after them, as `.ci/as-user` does it.

    None where the walks run as one. Users of walks that were killed are removed, too.
    """
    if not is_root:
        yield None
        return
    for entry in pwd.getpwall():
        _, is_of_walks, pid = entry.pw_name.partition(_NAME)
        if is_of_walks and not Path("/proc", pid).exists():
            _remove(entry.pw_name)
    name = f"{_NAME}{os.getpid()}"
    subprocess.run(["useradd", "--create-home", "--user-group", "--shell", "/bin/sh", name], check=True)
    try:
        entry = pwd.getpwnam(name)
        yield Account(name, entry.pw_uid, entry.pw_gid, Path(entry.pw_dir))
    finally:
        _remove(name)


def _remove(name: str) -> None:
    subprocess.run(["userdel", "--remove", name], check=True, capture_output=True)


@contextmanager
def place(account: Account | None, files: Mapping[str, Path], *, is_root: bool) -> Iterator[list[str]]:
    """Yield the beginning of each command of an installation: in a mount namespace with other files, and as its user.

    Args:
        account: as which they run; None: as whom the walks run.
        files: by their place on the machine, the files that are there instead; only root can have any.
        is_root: whether the walks run as root.
    """
    if not is_root:
        yield []
        return
    with ExitStack() as stack:
        for where in files:
            stack.enter_context(_there(Path(where)))
        steps = [f"mount --bind {file} {where}" for where, file in files.items()]
        steps += _TUN if account is not None and Path("/dev/net/tun").exists() else ()
        script = " && ".join((*steps, "echo ready", "exec sleep infinity"))
        holder = stack.enter_context(
            subprocess.Popen(
                ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script], stdout=subprocess.PIPE, text=True
            )
        )
        stack.callback(holder.send_signal, signal.SIGKILL)
        assert holder.stdout is not None
        if holder.stdout.readline() != "ready\n":
            raise OSError(f"no mount namespace with {', '.join(files)}")
        yield [*_inside(holder.pid), *_as(account)]


@contextmanager
def _there(path: Path) -> Iterator[None]:
    """Let a path be there, that something is mounted on."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    if missing:
        path.mkdir(parents=True)
    try:
        yield
    finally:
        for made in missing:
            with suppress(OSError):  # another installation uses it
                made.rmdir()


def _inside(pid: int) -> Sequence[str]:
    return ("nsenter", f"--mount=/proc/{pid}/ns/mnt", "--")


def _as(account: Account | None) -> Sequence[str]:
    if account is None:
        return ()
    unset = [f"--unset=XDG_{each}" for each in ("RUNTIME_DIR", "CACHE_HOME", "CONFIG_HOME", "STATE_HOME", "DATA_HOME")]
    return (
        "setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--init-groups", "--inh-caps=-all",
        "env", *unset, f"HOME={account.home}", f"USER={account.name}", f"LOGNAME={account.name}",
    )  # fmt: skip
