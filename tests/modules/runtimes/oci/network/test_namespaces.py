"""The namespaces of sandboxes live without a process, are joined by their files, and leave nothing."""

import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.network.errors import PodNamespaceError
from modules.runtimes.oci.network.kernel import bind_file, in_network_namespace
from modules.runtimes.oci.network.namespaces import PinnedNamespaces, PodNamespaces
from tests.modules.runtimes.oci.network.machine import needs_root

pytestmark = needs_root

SANDBOX = "a" * 64


def pin(namespaces: PodNamespaces, sandbox_id: str = SANDBOX, hostname: str = "web-0") -> PinnedNamespaces:
    """All three namespaces."""
    return namespaces.pin(sandbox_id, network=True, ipc=True, uts=True, hostname=hostname, sysctls={})


def inside(paths: PinnedNamespaces, *command: str) -> str:
    """What a command in the namespaces says."""
    joined = ["nsenter", f"--net={paths.network}", f"--ipc={paths.ipc}", f"--uts={paths.uts}"]
    return subprocess.run([*joined, *command], check=True, capture_output=True, text=True).stdout.strip()


def namespaces_of_processes() -> Iterator[str]:
    """The network namespaces that processes of the machine are in."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield (process / "ns" / "net").readlink().name


def test_a_process_joins_hostname_sysctls_and_loopback(namespaces: PodNamespaces) -> None:
    """They are the pod's inside, and the machine's are as before."""
    before = os.uname().nodename, Path("/proc/sys/net/ipv4/tcp_fin_timeout").read_text()
    sysctls = {"net.ipv4.tcp_fin_timeout": "17", "kernel/shm_rmid_forced": "1", "fs.mqueue.msg_max": "100"}
    paths = namespaces.pin(SANDBOX, network=True, ipc=True, uts=True, hostname="web-0", sysctls=sysctls)
    assert inside(paths, "hostname") == "web-0"
    files = ["net/ipv4/tcp_fin_timeout", "kernel/shm_rmid_forced", "fs/mqueue/msg_max"]
    assert inside(paths, "cat", *(f"/proc/sys/{each}" for each in files)).split() == ["17", "1", "100"]
    assert inside(paths, "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start") == "0"
    assert paths.network is not None
    assert in_network_namespace(paths.network, lambda: Path("/proc/thread-self/net/dev").read_text().count(":")) == 1
    assert "state UNKNOWN" in inside(paths, "ip", "link", "show", "lo")
    assert (os.uname().nodename, Path("/proc/sys/net/ipv4/tcp_fin_timeout").read_text()) == before


def test_ipc_is_shared_by_all_who_join_and_by_no_other(namespaces: PodNamespaces) -> None:
    """A segment of shared memory of one process is seen by the next."""
    paths = pin(namespaces)
    inside(paths, "ipcmk", "-M", "4096")
    assert inside(paths, "ipcs", "-m").count("4096") == 1
    unpinned_view = subprocess.run(["ipcs", "-m"], check=True, capture_output=True, text=True).stdout
    segment = inside(paths, "ipcs", "-m").splitlines()[-1].split()[0]
    assert segment not in unpinned_view


def test_no_process_or_thread_holds_them(namespaces: PodNamespaces) -> None:
    """The thread that made them has ended, and no process of the machine is in them."""
    paths = pin(namespaces)
    assert all(thread.name != "pod-namespace" for thread in threading.enumerate())
    assert paths.network is not None
    assert f"net:[{paths.network.stat().st_ino}]" not in set(namespaces_of_processes())


def test_a_hundred_at_one_time_are_different_and_go(namespaces: PodNamespaces) -> None:
    """Each has namespaces of its own; nothing is left of them."""
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: pin(namespaces, f"{number:064x}", f"host-{number}"), range(100)))
    assert len({path.stat().st_ino for paths in found for path in paths if path is not None}) == 300
    assert namespaces.sandboxes() == {f"{number:064x}" for number in range(100)}
    assert inside(found[42], "hostname") == "host-42"
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(namespaces.unpin, namespaces.sandboxes()))
    assert namespaces.sandboxes() == set()
    assert str(found[0].network).rpartition("/ns/")[0] + "/ns/0" not in Path("/proc/self/mountinfo").read_text()


def test_the_machines_own_are_left_out(namespaces: PodNamespaces) -> None:
    """A pod on the machine's network has ipc of its own, and no file for the others."""
    paths = namespaces.pin(SANDBOX, network=False, ipc=True, uts=False, hostname="not-set", sysctls={})
    assert paths.network is None
    assert paths.uts is None
    assert paths.ipc is not None
    assert os.uname().nodename != "not-set"
    none = namespaces.pin("b", network=False, ipc=False, uts=False, hostname="", sysctls={})
    assert none == namespaces.pinned("b") == PinnedNamespaces(None, None, None)


def test_a_later_edgecore_finds_them(namespaces: PodNamespaces, directory: Path) -> None:
    """It takes over what is pinned, and clears away what was half made."""
    paths = pin(namespaces)
    (directory / "ns" / f".{'b' * 64}").mkdir()
    later = PodNamespaces(directory / "ns")
    assert later.pinned(SANDBOX) == paths
    assert later.pinned("c") is None
    assert sorted(each.name for each in (directory / "ns").iterdir()) == [SANDBOX]
    later.unpin(SANDBOX)
    later.unpin(SANDBOX)
    assert namespaces.pinned(SANDBOX) is None


def test_no_other_mount_namespace_keeps_them(namespaces: PodNamespaces, directory: Path) -> None:
    """A mount namespace that was made as a copy of the machine's loses them with the sandbox."""
    pin(namespaces)
    count = f"echo; read x; grep -c {directory}/ns/ /proc/self/mountinfo"
    other = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", count],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with other:
        assert other.stdout is not None
        other.stdout.readline()
        namespaces.unpin(SANDBOX)
        assert other.communicate("\n")[0].strip() == "0"


def test_shm_is_memory_of_the_sandbox(namespaces: PodNamespaces) -> None:
    """It has the size and mode of /dev/shm, is made once, and goes with the sandbox."""
    pin(namespaces)
    path = namespaces.shm(SANDBOX, 1 << 20)
    assert namespaces.shm(SANDBOX, 1 << 20) == path
    assert path.stat().st_mode & 0o7777 == 0o1777
    assert os.statvfs(path).f_blocks * os.statvfs(path).f_frsize == 1 << 20
    (path / "x").write_bytes(b"1")
    namespaces.unpin(SANDBOX)
    assert not path.exists()
    with pytest.raises(PodNamespaceError, match="/dev/shm"):
        namespaces.shm(SANDBOX, 1 << 20)


def test_sandboxes_in_use_go_too(namespaces: PodNamespaces) -> None:
    """A process that is still inside does not hold the files."""
    paths = pin(namespaces)
    with subprocess.Popen(["nsenter", f"--net={paths.network}", "sh", "-c", "echo; read x"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        namespaces.unpin(SANDBOX)
        assert namespaces.sandboxes() == set()
        process.communicate(b"\n")


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("net", "1", BadRequestError),
        ("net.ipv4...x", "1", BadRequestError),
        ("net/../vm/swappiness", "1", BadRequestError),
        ("net.ipv4.no_such_thing", "1", PodNamespaceError),
        ("net.ipv4.tcp_fin_timeout", "many", PodNamespaceError),
    ],
)
def test_a_wrong_sysctl_leaves_nothing(
    namespaces: PodNamespaces, name: str, value: str, error: type[Exception]
) -> None:
    """It is refused, and the sandbox may be made again."""
    with pytest.raises(error):
        namespaces.pin(SANDBOX, network=True, ipc=True, uts=True, hostname="h", sysctls={name: value})
    assert namespaces.sandboxes() == set()
    pin(namespaces)


def test_wrong_names_are_refused(namespaces: PodNamespaces) -> None:
    """No id leads out of the directory; a hostname fits the kernel."""
    for sandbox_id in ("../x", "", "a/b", ".a"):
        with pytest.raises(BadRequestError):
            namespaces.unpin(sandbox_id)
    with pytest.raises(BadRequestError, match="64 bytes"):
        pin(namespaces, hostname="h" * 65)


def test_a_kernel_that_refuses_leaves_nothing(
    namespaces: PodNamespaces, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the second of three files cannot be bound."""
    bound: list[Path] = []

    def second_fails(source: str, target: Path) -> None:
        bound.append(target)
        if len(bound) == 2:
            raise OSError(28, "No space left on device")
        bind_file(source, target)

    monkeypatch.setattr("modules.runtimes.oci.network.namespaces.bind_file", second_fails)
    with pytest.raises(PodNamespaceError, match="No space left"):
        pin(namespaces)
    assert list((directory / "ns").iterdir()) == []


def kill(number: int) -> None:
    """Kill a process that is no child, and wait for its end."""
    process = os.pidfd_open(number)
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        assert select.select([process], [], [], 60)[0]
    finally:
        os.close(process)


def shared(namespaces: PodNamespaces) -> Path:
    """The process namespace of a new sandbox."""
    pin(namespaces)
    path = namespaces.processes(SANDBOX)
    assert namespaces.processes(SANDBOX) == path
    return path


def test_processes_are_shared_by_joining_containers(namespaces: PodNamespaces) -> None:
    """The first process belongs to no container, reaps all zombies, and ends all others when it ends."""
    pid = shared(namespaces)
    join = ["nsenter", f"--pid={pid}"]
    orphans = "for n in 1 2 3 4 5 6 7 8 9; do sh -c 'sh -c : &'; done"
    no_zombie = "until [ $(cat /proc/*/stat | grep -c ' Z ') = 0 ]; do :; done"
    look = f"mount -t proc proc /proc && {orphans}; {no_zombie}; cat /proc/1/comm"
    seen = subprocess.run([*join, "unshare", "--mount", "sh", "-c", look], check=False, capture_output=True, text=True)
    assert seen.stdout.split() == ["pause"]
    with subprocess.Popen([*join, "sleep", "1000"]) as process:
        namespaces.unpin(SANDBOX)
        assert process.wait() in (-9, 137, 1)
    assert namespaces.sandboxes() == set()


def test_the_first_process_outlives_edgecore_and_is_found(namespaces: PodNamespaces, directory: Path) -> None:
    """A later edgecore ends it; a killed one has a successor."""
    path = shared(namespaces)
    inode = path.stat().st_ino
    later = PodNamespaces(directory / "ns")
    assert later.processes(SANDBOX).stat().st_ino == inode
    number = int((directory / "ns" / SANDBOX / "init").read_text())
    kill(number)
    assert int((directory / "ns" / SANDBOX / "init").read_text()) == number
    later.processes(SANDBOX)
    assert int((directory / "ns" / SANDBOX / "init").read_text()) != number
    later.unpin(SANDBOX)
    assert later.sandboxes() == set()


def test_another_process_with_its_number_is_left_alone(namespaces: PodNamespaces, directory: Path) -> None:
    """The namespace is what tells them apart."""
    shared(namespaces)
    file = directory / "ns" / SANDBOX / "init"
    number = int(file.read_text())
    with subprocess.Popen(["sleep", "1000"]) as other:
        file.write_text(str(other.pid))
        namespaces.unpin(SANDBOX)
        assert other.poll() is None
        other.kill()
    kill(number)


def test_a_first_process_that_cannot_be_started_leaves_nothing(
    namespaces: PodNamespaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later attempt succeeds; a sandbox that is not pinned has no process."""
    with monkeypatch.context() as patch:
        patch.setattr("modules.runtimes.oci.network.pod_init._PROGRAM", "/no/such/program")
        with pytest.raises(PodNamespaceError, match="ended early"):
            shared(namespaces)
    assert namespaces.processes(SANDBOX).exists()
    with pytest.raises(PodNamespaceError, match="process namespace of sandbox b"):
        namespaces.processes("b")


def test_a_directory_that_cannot_be_made_is_reported(directory: Path) -> None:
    """The runtime does not start."""
    (directory / "file").touch()
    with pytest.raises(PodNamespaceError, match="prepare"):
        PodNamespaces(directory / "file" / "ns")
