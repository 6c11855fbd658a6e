"""Enters the user and mount namespace of a node, or makes them.

The namespaces live as long as a process is in them: edgecore, the parents of containers, slirp4netns, or the holder, a
`sleep` that outlives edgecore. A later edgecore, or a command that removes files of sub-ids, joins them. It finds them
by a random name in the node's own tmpfs, because numbers of processes and namespaces are soon another's.

A process may enter a user namespace only as long as it has one thread.
"""

import fcntl
import os
import pwd
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from beehive.files.descriptors import OwnedFd, open_process
from beehive.node_namespaces import DIRECTORY, GROUPS, PLACE, namespaces_id, write_namespaces_id
from beehive.on_failure import on_failure
from modules.runtimes.engine.errors import StateDirectoryError
from modules.runtimes.oci.rootless.delegation import delegated_group, end_child, keepers, show_group
from modules.runtimes.oci.rootless.identifiers import SUBGID, SUBUID, Account, sub_ids
from modules.runtimes.shim import kernel

REFUSED: Final = (
    "sysctl -w user.max_user_namespaces=15000; on Debian kernel.unprivileged_userns_clone=1, "
    "on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0"
)
"""The commands that allow user namespaces, by who forbids them."""

_ATTEMPT: Final = "isolate containers without root"
_PROC: Final = Path("/proc")
SCOPE: Final = "oci-scope"
"""File beside the record: the name of the scope with the node's control groups, if it has them."""
_SEARCHED: Final = "/usr/local/bin:/usr/bin:/bin"
_OF_ADMINISTRATORS: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_OWN_OPTIONS: Final = "mode=755,size=10%"
_SAFE: Final = kernel.MS_NOSUID | kernel.MS_NODEV
_HOLDER: Final = DIRECTORY / "holder"
"""File with the number of the holder's process."""
_OWNER: Final = 0xB701
"""NS_GET_USERNS of ioctl_ns(2)."""
_LONGEST: Final = 64
_SECONDS: Final = 60.0


def enter(record: Path) -> None:
    """Enter the namespaces of a node; new ones if no process is left in those of its record.

    Args:
        record: file with their secret name, of this user alone.

    Raises:
        StateDirectoryError: this machine, or this process, cannot have them.
        OSError: the record cannot be written.
    """
    search_programs_of_administrators()
    if namespaces_id():
        return
    if len(list((_PROC / "self/task").iterdir())) > 1:
        raise StateDirectoryError(_ATTEMPT, "this process has several threads already")
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    here = Path.cwd()
    with ExitStack() as stack:
        file = os.open(record, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        stack.callback(os.close, file)
        fcntl.flock(file, fcntl.LOCK_EX)
        secret = os.pread(file, _LONGEST, 0).decode("ascii", "replace").strip()
        member = _member(secret) if secret else None
        if member is not None:
            stack.callback(os.close, member)
        group = delegated_group(record.with_name(SCOPE), anew=member is None)
        if member is not None:
            _join(member, group)
            ensure_holder()
        else:
            secret = secrets.token_hex(16)
            signal_lost(record.parent, signal.SIGKILL)
            make_namespaces()
            os.ftruncate(file, 0)
            os.pwrite(file, secret.encode(), 0)
            _set_up(record, secret, group)
    with suppress(OSError):
        os.chdir(here)


def search_programs_of_administrators() -> None:
    """Let this process and its children find iptables, where the PATH of an ordinary user of Debian does not lead."""
    searched = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([*searched, *(each for each in _OF_ADMINISTRATORS if each not in searched)])


def signal_lost(directory: Path, number: int = 0) -> int:
    """Send a signal to the processes of a node whose namespaces nobody can enter any more, and return how many there
    are: the holder was killed, or the record is gone. An ordinary user may do that to all processes of the namespaces
    that it has made.

    The mounts of a process that may not be signalled are not read: a thousand containers of root have a million.

    Args:
        directory: of the node, above the record of its namespaces, which the mounts of these processes name.
        number: of the signal; 0 only counts.
    """
    top, found = _escaped(directory.resolve()), 0
    for process in _processes():
        with suppress(OSError, ValueError), OwnedFd(open_process(int(process.name))) as handle:
            signal.pidfd_send_signal(handle, 0)  # it has ended, or is somebody else's
            if _is_below(top, (process / "mountinfo").read_text(errors="replace")):
                signal.pidfd_send_signal(handle, number)
                found += 1
    return found


def _is_below(top: str, mounts: str) -> bool:
    """Return whether the root of a process, or the node's tmpfs in its place, comes from below a directory. Elsewhere
    the mounts of a node may be those of the machine, or of a container that sees all of it.
    """
    for line in mounts.splitlines():
        where, _, what = line.partition(" - ")
        is_source = what.startswith(f"tmpfs {top}/")
        match where.split(" ")[4:5]:
            case ["/"] if is_source or f"upperdir={top}/" in what:
                return True
            case [place] if is_source and place == str(PLACE):
                return True
    return False


def _escaped(path: Path) -> str:
    """Return a path as mountinfo has it (proc_pid_mountinfo(5))."""
    return str(path).translate({ord(each): f"\\{ord(each):03o}" for each in " \t\n\\"})


def check() -> None:
    """Look for what new namespaces need, as far as that is to be seen before. Raises StateDirectoryError."""
    _mappings()


def end_namespaces() -> None:
    """Kill all other processes of the namespaces of this process, which is about to end; it has removed all pods."""
    for keeper in keepers():
        with suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)
    users = _namespace(_PROC / "self")
    for process in _processes():
        pid = int(process.name)
        if pid not in (os.getpid(), os.getppid()) and _namespace(process) == users:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _processes() -> Iterator[Path]:
    return (each for each in _PROC.iterdir() if each.name.isdecimal())


def _namespace(process: Path, kind: str = "user") -> str:
    """Return a namespace of a process; empty if it has ended. Its user namespace is there until somebody has waited."""
    try:
        return str((process / "ns" / kind).readlink())
    except OSError:
        return ""


def _member(secret: str) -> int | None:
    """Return a descriptor of the mount namespace of a secret, which holds it as long as it is open.

    slirp4netns has mounts of its own, in which the file of the secret is, too. If only such processes are left, they
    are killed, as they hold ports of the machine, and None is returned.
    """
    if not secret.isalnum():
        return None
    member, others = None, []
    for opened, mounts in _with_mark(str(DIRECTORY / secret)):
        if member is None:
            member = _namespace_of(opened, mounts)
        others.append(opened)
    for each in others:
        if member is None:
            with suppress(OSError):  # it has just ended
                signal.pidfd_send_signal(each, signal.SIGKILL)
        os.close(each)
    return member


def _namespace_of(process: int, mounts: str) -> int | None:
    """Return a descriptor of the mount namespace of a process, None if it is another one or the process has ended.

    Args:
        process: descriptor of its directory in /proc. A command of the OCI runtime ends while it is looked at.
        mounts: the namespace that is meant.
    """
    try:
        opened = os.open("ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
    except OSError:
        return None
    if str(Path(f"/proc/self/fd/{opened}").readlink()) == mounts:
        return opened
    os.close(opened)
    return None


def _with_mark(mark: str) -> Iterator[tuple[int, str]]:
    """Yield descriptors of the directories in /proc of this user's processes that see a file, with its content."""
    for process in _processes():
        try:
            if process.stat().st_uid != os.getuid():
                continue
            opened = os.open(process, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            mounts = Path(f"/proc/self/fd/{opened}/root{mark}").read_text()
        except OSError:
            os.close(opened)
        else:
            yield opened, mounts


def _join(mounts: int, group: Path | None) -> None:
    """Enter a mount namespace, and before it the user namespace that owns it; a new scope of its control groups is
    mounted there. Raises StateDirectoryError.
    """
    try:
        scope = 0 if group is None else group.stat().st_ino
        with OwnedFd(fcntl.ioctl(mounts, _OWNER)) as users:
            kernel.set_namespace(users, kernel.NEW_USER_NAMESPACE, "user namespace")
        kernel.set_namespace(mounts, kernel.NEW_MOUNT_NAMESPACE, "mount namespace")
        namespaces_id.cache_clear()
        if group is not None and GROUPS.stat().st_ino != scope:
            show_group(group)
    except OSError as error:
        raise StateDirectoryError(_ATTEMPT, f"the namespaces of this node cannot be entered: {error}") from error


def make_namespaces() -> None:
    """Leave the machine's users and mounts for new ones, with the user as root. Raises StateDirectoryError."""
    commands = _mappings()
    waiting, go = os.pipe2(os.O_CLOEXEC)
    child = fork_with(waiting, go)
    if child == 0:
        _map_parent(waiting, go, commands)
    os.close(waiting)
    try:
        kernel.unshare(kernel.NEW_USER_NAMESPACE | kernel.NEW_MOUNT_NAMESPACE)
        os.write(go, b"1")
    except OSError as error:
        raise StateDirectoryError(
            _ATTEMPT,
            f"this machine refuses a user namespace: {error.strerror}",
            REFUSED,
        ) from error
    finally:
        os.close(go)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        refused = " or ".join(" ".join(command) for command in commands)
        raise StateDirectoryError(_ATTEMPT, f"refused: {refused}", "ls -l /usr/bin/newuidmap: it must be set-user-id")


def fork_with(*descriptors: int) -> int:
    """Fork. Close descriptors, which the child would have had, and raise StateDirectoryError if there is no child."""
    try:
        return os.fork()
    except BaseException as error:
        for each in descriptors:
            os.close(each)
        if isinstance(error, OSError):
            raise StateDirectoryError(_ATTEMPT, f"no process can be started: {error.strerror}") from error
        raise


def _mappings() -> list[list[str]]:
    """Return the commands that map users and groups of this process: root is the own, all others are sub-ids.

    Raises StateDirectoryError.
    """
    account = _account()
    if "NoNewPrivs:\t1" in (_PROC / "self/status").read_text():
        reason = "it was started with no_new_privs, which takes newuidmap its rights"
        raise StateDirectoryError(_ATTEMPT, reason, "take NoNewPrivileges= out of its unit")
    wanted = (("newuidmap", os.getuid(), SUBUID), ("newgidmap", os.getgid(), SUBGID))
    found = [(_mapper(program), own, sub_ids(account, path)) for program, own, path in wanted]
    me = str(os.getpid())
    return [[program, me, "0", str(own), "1", "1", str(ids.start), str(ids.number)] for program, own, ids in found]


def _account() -> Account:
    number = os.getuid()
    try:
        return Account(pwd.getpwuid(number).pw_name, number)
    except KeyError:
        return Account(str(number), number)


def _mapper(name: str) -> str:
    found = shutil.which(name, path=_SEARCHED)
    if found is None:
        raise StateDirectoryError(_ATTEMPT, f"{name} is not installed", "apt-get install uidmap")
    return found


def _map_parent(waiting: int, go: int, commands: list[list[str]]) -> None:
    """Map the users of the parent, when it is in its new namespace; this process ends."""
    status = 1
    try:
        os.close(go)
        if os.read(waiting, 1):
            ended = [subprocess.run(command, timeout=_SECONDS, check=False).returncode for command in commands]
            status = int(any(ended))
    finally:
        os._exit(status)


def _set_up(record: Path, secret: str, group: Path | None) -> None:
    """Mount what the node needs, and start the holder. The tmpfs names the record, by which lost processes are found.
    Without a delegated group, control groups are the machine's and none of them may be changed: containers and crun see
    none. Raises StateDirectoryError.
    """
    try:
        kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
        if group is not None:
            show_group(group)
        elif GROUPS.is_dir():
            kernel.mount("tmpfs", str(GROUPS), "tmpfs", _SAFE | kernel.MS_RDONLY, "mode=755,size=4k")
        kernel.mount(str(record.resolve()), str(PLACE), "tmpfs", _SAFE, _OWN_OPTIONS)
        DIRECTORY.mkdir(mode=0o711)
        write_namespaces_id(secret)
        ensure_holder()
    except OSError as error:
        hint = REFUSED if isinstance(error, PermissionError) else ""
        raise StateDirectoryError(_ATTEMPT, f"its namespaces cannot be set up: {error}", hint) from error


def ensure_holder(record: Path = _HOLDER) -> None:
    """Start the holder of the namespaces of this process, unless it lives. Raises OSError.

    Args:
        record: file with the number of its process.
    """
    with suppress(OSError, ValueError):
        if _namespace(_PROC / record.read_text(), "mnt") == _namespace(_PROC / "self", "mnt"):
            return
    holder = os.posix_spawnp(
        "sleep", ["sleep", "infinity"], {"PATH": _SEARCHED},
        file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)],
        setsid=True,
    )  # fmt: skip
    with on_failure(lambda: end_child(holder)):
        record.write_text(str(holder))
