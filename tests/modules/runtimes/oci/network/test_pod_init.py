"""The first process of a pod that shares its processes: power over it gives nothing of the machine."""

import os
import select
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from modules.runtimes.oci.network import pause
from modules.runtimes.oci.network.kernel import bind_file
from modules.runtimes.oci.network.namespaces import PodNamespaces
from modules.runtimes.oci.network.pause.program import pause_program
from modules.runtimes.oci.network.user_namespaces import IdRange, UserMapping
from tests.modules.runtimes.oci.network.machine import needs_root
from tests.modules.runtimes.process.node import eventually
from tests.support.patience import PATIENCE

SANDBOX = "a" * 64
_NOBODY = 65534
_HOST_USERS = 200_000
_MOST_KILOBYTES = 64
"""`sleep` has some 150."""
_SECCOMP_FILTER = "2"


def _needs_user_namespaces() -> None:
    if subprocess.run(["unshare", "--user", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine has no user namespaces")


def started(namespaces: PodNamespaces, users: UserMapping | None = None) -> int:
    """The first process of a new sandbox."""
    namespaces.pin(SANDBOX, network=True, ipc=True, uts=True, hostname="web-0", sysctls={}, users=users)
    path = namespaces.processes(SANDBOX)
    return int(path.with_name("init").read_text())


def status_of(pid: int) -> dict[str, list[str]]:
    """The fields of /proc/PID/status, once the program is executed."""
    eventually(lambda: Path(f"/proc/{pid}/comm").read_text() == "pause\n")
    eventually(lambda: f"Seccomp:\t{_SECCOMP_FILTER}\n" in Path(f"/proc/{pid}/status").read_text())
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


@needs_root
@pytest.mark.parametrize("first_user", [0, _HOST_USERS], ids=["users of the machine", "users of the pod"])
def test_it_is_a_container_without_content(namespaces: PodNamespaces, directory: Path, first_user: int) -> None:
    """No user, group, capability, file, descriptor, variable or mount, in the namespaces of the pod."""
    if first_user:
        _needs_user_namespaces()
    users = UserMapping(IdRange(first_user, 65536), IdRange(first_user, 65536)) if first_user else None
    pid = started(namespaces, users)
    status, proc = status_of(pid), Path(f"/proc/{pid}")
    nobody = [str(first_user + _NOBODY)] * 4
    assert (status["Uid"], status["Gid"], status["Groups"]) == (nobody, nobody, [])
    capabilities = [status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")]
    assert capabilities == [["0" * 16]] * 5
    assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], [_SECCOMP_FILTER])
    assert list((proc / "fd").iterdir()) == []
    assert (proc / "environ").read_bytes() == b""
    assert (proc / "cmdline").read_bytes() == b"pause\0"
    assert (proc / "cwd").readlink() == (proc / "root").readlink() == Path("/")
    assert list((proc / "root").iterdir()) == []
    (mount,) = (proc / "mountinfo").read_text().splitlines()
    assert mount.split()[3:5] == ["/", "/"]
    assert {"ro", "nosuid", "nodev"} <= set(mount.split()[5].split(","))
    assert (proc / "exe").readlink() == Path("/pause (deleted)")
    assert (proc / "stat").stat().st_uid == 0, "it is dumpable"
    for kind in ("net", "ipc", "uts", "pid", *(["user"] if users else [])):
        assert (proc / "ns" / kind).stat().st_ino == (directory / "ns" / SANDBOX / kind).stat().st_ino
    assert (proc / "ns/mnt").stat().st_ino != Path("/proc/self/ns/mnt").stat().st_ino
    pss = next(line for line in (proc / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    assert int(pss.split()[1]) <= _MOST_KILOBYTES


_ATTACKS = """
cd /
ls -A /proc/1/root /proc/1/cwd | grep -v :; cat /proc/1/root/etc/shadow && echo read
echo evil > /proc/1/root/evil && echo wrote
(: >> /proc/1/exe) && echo program
chroot /proc/1/root /bin/sh -c 'echo entered'
nsenter --target 1 --mount /bin/sh -c 'echo entered'
ls /proc/1/fd
wc -l < /proc/1/mountinfo
cut -d: -f1 /proc/1/net/dev | grep -v '|' | tr -d ' '
"""


@needs_root
def test_all_rights_in_the_pod_reach_nothing_of_the_machine(namespaces: PodNamespaces) -> None:
    """Root with every capability, SYS_PTRACE and SYS_ADMIN among them: no file, no program, no network."""
    pid = started(namespaces)
    status_of(pid)
    inside = ["nsenter", f"--pid=/proc/{pid}/ns/pid", "unshare", "--mount", "--mount-proc", "sh", "-c", _ATTACKS]
    told = subprocess.run(inside, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert told.stdout.split() == ["1", "lo"], told.stderr


@needs_root
def test_the_root_of_the_pod_has_no_power_over_it(namespaces: PodNamespaces) -> None:
    """It is in the pod's user namespace, and its program and its mounts are the machine's."""
    _needs_user_namespaces()
    pid = started(namespaces, UserMapping(IdRange(_HOST_USERS, 65536), IdRange(_HOST_USERS, 65536)))
    status_of(pid)
    look = "ls /proc/1/root/ && echo listed; readlink /proc/1/exe && echo program; cat /proc/self/uid_map"
    joined = [f"--pid=/proc/{pid}/ns/pid", f"--user=/proc/{pid}/ns/user"]
    inside = ["nsenter", *joined, "unshare", "--mount", "--mount-proc", "sh", "-c", look]
    told = subprocess.run(inside, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert told.stdout.split() == ["0", str(_HOST_USERS), "65536"], told.stderr


@needs_root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_it_ends_by_a_signal_and_is_not_disturbed_by_others(namespaces: PodNamespaces, number: int) -> None:
    """As `pause` does; being stopped and continued does not end it, nor do signals that it does not await."""
    pid = started(namespaces)
    status_of(pid)
    process = os.pidfd_open(pid)
    try:
        for other in (signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD, signal.SIGSTOP, signal.SIGCONT):
            signal.pidfd_send_signal(process, other)
        assert Path(f"/proc/{pid}/stat").read_text().split()[2] in "STR"
        signal.pidfd_send_signal(process, number)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        assert poll.poll(60_000)
    finally:
        os.close(process)
    assert namespaces.processes(SANDBOX).exists()


@needs_root
def test_the_first_process_of_an_earlier_edgecore_stays_and_is_named(
    namespaces: PodNamespaces, directory: Path
) -> None:
    """Its pod runs on: a `sleep` with the machine's rights until the pod ends."""
    namespaces.pin(SANDBOX, network=True, ipc=True, uts=True, hostname="web-0", sysctls={})
    home = directory / "ns" / SANDBOX
    command = ["unshare", "--pid", "--fork", "--kill-child", "sleep", "1000"]
    with subprocess.Popen(command) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        eventually(children.read_text)
        pid = children.read_text().strip()
        (home / "init").write_text(pid)
        (home / "pid").touch()
        bind_file(f"/proc/{pid}/ns/pid", home / "pid")
        later = PodNamespaces(directory / "ns")
        assert later.processes(SANDBOX) == home / "pid"
        assert (home / "init").read_text() == pid
        assert later.unconfined() == {SANDBOX}
        later.unpin(SANDBOX)
        assert parent.wait(PATIENCE)
    status_of(started(later))
    assert later.unconfined() == set()


@pytest.mark.parametrize(
    ("machine", "kind", "bits"),
    [("x86_64", 62, 64), ("aarch64", 183, 64), ("armv7l", 40, 32), ("armv6l", 40, 32), ("riscv64", 243, 64)],
)
def test_the_program_of_each_processor(machine: str, kind: int, bits: int) -> None:
    """A static executable for it: it begins behind the headers, fits a page, and its stack is not executed."""
    program = pause_program(machine)
    assert program is not None
    assert program[:6] == b"\x7fELF" + bytes([bits // 32, 1])
    assert struct.unpack_from("<HH", program, 16) == (2, kind)
    entry, segments = struct.unpack_from("<QQ" if bits == 64 else "<II", program, 24)
    size = 56 if bits == 64 else 32
    assert entry == 0x400000 + segments + 2 * size
    rights = [struct.unpack_from("<I", program, segments + each + (4 if bits == 64 else 24))[0] for each in (0, size)]
    assert rights == [5, 6]
    assert len(program) < 512


def test_a_processor_without_a_program() -> None:
    """There is no other program in its place."""
    assert pause_program("s390x") is None


def test_the_process_that_makes_it_loads_little() -> None:
    """A pod waits for it; pathlib and sockets took more than a quarter of its processor time."""
    program = Path(pause.__file__).with_name("__main__.py")
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(program), "99", "/missing"]
    said = subprocess.run(command, check=False, capture_output=True, text=True, close_fds=True).stderr
    loaded = {line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")}
    assert "modules.runtimes.oci.network.pause.process" in loaded
    assert not loaded & {"fnmatch", "ipaddress", "pathlib", "selectors", "socket", "urllib.parse"}
