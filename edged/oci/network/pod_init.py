"""The first process of a pod whose containers see each other's processes (shareProcessNamespace).

A process namespace lives only as long as its first process, so that such a pod, and no other, has one: `sleep`. It
ignores SIGCHLD, and the kernel therefore keeps no zombie of the orphans that it adopts. It outlives edgecore; its
namespace, which is pinned beside the others, tells it from a later process with its number.
"""

import logging
import os
import select
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from edged.embedded.shim.kernel import unshare
from edged.oci.network.kernel import NEW_PID, bind_file

_log = logging.getLogger(__name__)

NAMESPACE: Final = "pid"
"""File of the namespace, in the directory of the sandbox."""
INIT_VARIABLE: Final = "EDGECORE_SANDBOX"
"""Environment variable of the first process: the directory of its sandbox. An edgecore that is killed before the
namespace is pinned leaves a process that only this tells."""

_NUMBER: Final = "init"
"""File with the number of the first process."""
_COMMAND: Final = ("env", "--ignore-signal=CHLD", "sleep", "infinity")
_IN_BACKGROUND: Final = f"{' '.join(_COMMAND)} </dev/null >/dev/null 2>&1 & echo $!"
_SECONDS: Final = 30.0
"""Seconds in which nsenter, unshare and a shell must start the first process."""
_DEFAULT_SIGNALS: Final = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OOM_SCORE: Final = "-998"
"""As of the kubelet's pause containers."""
_END_MILLISECONDS: Final = 10_000


def start_pod_init(directory: Path, users: Path | None = None) -> None:
    """Start the first process of a new process namespace, and pin the namespace; call it on a thread that ends.

    Args:
        directory: of the sandbox's namespaces.
        users: file of the pod's user namespace, if it has one: the process namespace then belongs to it, so that the
            pod's root may mount its /proc.

    Raises:
        OSError: it cannot be started; `end_pod_init` removes the files.
    """
    environment = {"PATH": os.environ.get("PATH", os.defpath), INIT_VARIABLE: str(directory)}
    pid = _spawn(environment) if users is None else _spawn_with_users(users, environment)
    try:
        (directory / _NUMBER).write_text(str(pid))
        (directory / NAMESPACE).touch(mode=0o400)
        bind_file(f"/proc/{pid}/ns/pid", directory / NAMESPACE)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # one with users of its own is no child
            os.waitpid(pid, 0)
        raise
    with suppress(OSError):  # lowering it takes a capability
        Path(f"/proc/{pid}/oom_score_adj").write_text(_OOM_SCORE)


def _spawn(environment: dict[str, str]) -> int:
    unshare(NEW_PID)  # of this thread's children
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    return os.posix_spawnp(
        _COMMAND[0], _COMMAND, environment,
        file_actions=null, setsid=True, setsigmask=(), setsigdef=_DEFAULT_SIGNALS,
    )  # fmt: skip


def _spawn_with_users(users: Path, environment: dict[str, str]) -> int:
    """Start the first process by a shell in the user namespace, whose first child is the first process."""
    command = ("nsenter", f"--user={users}", "unshare", "--pid", "sh", "-c", _IN_BACKGROUND)
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
            cwd="/", start_new_session=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        return int(ended.stdout)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError("nsenter, unshare or sh does not end") from error
    except ValueError as error:
        raise OSError("nsenter or unshare cannot make a process namespace (apt-get install util-linux)") from error


def pod_init_lives(directory: Path) -> bool:
    """Return whether the pod has a process namespace whose first process lives."""
    return _pid(directory) is not None


def end_pod_init(directory: Path) -> None:
    """End the first process, and with it all of its namespace; nothing if there is none."""
    try:
        pid = _pid(directory)
        process = os.pidfd_open(pid) if pid is not None else None
    except ProcessLookupError:
        return
    if process is None:
        return
    try:
        if _pid(directory) != pid:  # it has ended meanwhile, and the number may be another's
            return
        signal.pidfd_send_signal(process, signal.SIGKILL)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        if not poll.poll(_END_MILLISECONDS):
            _log.error("the processes of a pod do not end: %s", directory)
        with suppress(ChildProcessError):  # of an earlier edgecore
            os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOHANG)
    except ProcessLookupError:
        return
    finally:
        os.close(process)


def end_lost_init(pid: int, directory: Path) -> None:
    """End a first process of a sandbox, unless it is the one whose namespace is pinned."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            if _pid(directory) != pid and os.fsencode(f"{INIT_VARIABLE}={directory}") in _environment(pid):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _pid(directory: Path) -> int | None:
    """Return the number of the first process; None if it does not live."""
    try:
        pid = int((directory / _NUMBER).read_text())
        of_process = Path(f"/proc/{pid}/ns/pid").stat()
        of_pod = (directory / NAMESPACE).stat()
    except (OSError, ValueError):
        return None
    is_same = (of_process.st_dev, of_process.st_ino) == (of_pod.st_dev, of_pod.st_ino)
    return pid if is_same else None
