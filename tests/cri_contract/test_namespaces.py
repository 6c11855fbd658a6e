"""critest: Namespaces, User namespaces."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from modules.runtimes.oci.spec import Machine
from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import LOOP, Client, refused

_IPC_PRIVATE, _IPC_RMID = 0, 0


@pytest.fixture
def segment() -> Iterator[str]:
    """The number of a memory segment of the machine (System V)."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = libc.shmget(_IPC_PRIVATE, 4096, 0o600)
    assert number >= 0
    yield str(number)
    libc.shmctl(number, _IPC_RMID, None)


def _pod(client: Client, **options: cri.NamespaceMode.ValueType) -> str:
    config = client.pod_config()
    for name, mode in options.items():
        setattr(config.linux.security_context.namespace_options, name, mode)
    return client.pod(config)


def test_host_pid(client: Client) -> None:
    """critest: Namespaces: runtime should support HostPID; the machine's first process is seen."""
    container = client.start(*LOOP, pod=_pod(client, pid=cri.NODE))
    with open("/proc/1/comm") as file:  # noqa: PTH123
        assert client.said(container, "cat /proc/1/comm") == file.read()


@pytest.mark.parametrize("mode", [pytest.param(cri.NODE, id="host"), pytest.param(cri.POD, id="pod")])
def test_host_ipc(client: Client, segment: str, mode: cri.NamespaceMode.ValueType) -> None:
    """critest: Namespaces: runtime should support HostIpc is true, and false."""
    container = client.start(*LOOP, pod=_pod(client, ipc=mode))
    seen = [line.split()[1] for line in client.said(container, "cat /proc/sysvipc/shm").splitlines()[1:]]
    assert (segment in seen) is (mode == cri.NODE)


def test_pod_pid(client: Client) -> None:
    """critest: Namespaces: runtime should support PodPID; containers see each other, the first process is neither."""
    pod = _pod(client, pid=cri.POD)
    first, second = client.start("sleep", "1001", pod=pod), client.start("sleep", "1002", pod=pod)
    assert "100" not in client.said(first, "cat /proc/1/cmdline")
    for each in (first, second):
        client.sees(each, "1001", "1002")


def test_container_pid(client: Client) -> None:
    """critest: Namespaces: runtime should support ContainerPID; each container's command is its first process."""
    pod = _pod(client, pid=cri.CONTAINER)
    client.start("sleep", "1001", pod=pod)
    container = client.start("sleep", "1002", pod=pod)
    client.sees(container, "1002")
    assert client.said(container, "cat /proc/1/cmdline") == "sleep\0001002\0"
    assert "1001" not in client.said(container, "cat /proc/[0-9]*/cmdline")


def test_target_pid(client: Client) -> None:
    """A debug container (TARGET) is among its target's processes."""
    pod = _pod(client, pid=cri.CONTAINER)
    target = client.start("sleep", "1001", pod=pod)
    security = cri.LinuxContainerSecurityContext()
    security.namespace_options.pid, security.namespace_options.target_id = cri.TARGET, target
    debugger = client.start("sleep", "1002", pod=pod, security=security)
    client.sees(debugger, "1001", "1002")
    assert client.said(debugger, "cat /proc/1/cmdline") == "sleep\0001001\0"


def _mapped(client: Client, *ranges: tuple[int, int, int], mode: cri.NamespaceMode.ValueType) -> cri.PodSandboxConfig:
    config = client.pod_config(network=True)
    user = config.linux.security_context.namespace_options.userns_options
    user.mode = mode
    mappings = [cri.IDMapping(container_id=inside, host_id=outside, length=size) for inside, outside, size in ranges]
    user.uids.extend(mappings)
    user.gids.extend(mappings)
    return config


def _needs_user_namespaces(client: Client) -> None:
    """critest asks Status whether the runtime has user namespaces; a runtime without them is an exception."""
    if not Machine.read().user_namespaces:
        pytest.skip("this machine has no user namespaces with id-mapped mounts")
    handlers = client.runtime.Status(cri.StatusRequest()).runtime_handlers
    assert any(each.features.user_namespaces for each in handlers)


def test_user_namespace_of_the_machine(client: Client) -> None:
    """critest: User namespaces: with NODE the ids are the machine's."""
    _needs_user_namespaces(client)
    container = client.start(*LOOP, pod=client.pod(_mapped(client, mode=cri.NODE)))
    with open("/proc/self/uid_map") as file:  # noqa: PTH123
        assert client.said(container, "cat /proc/self/uid_map").split() == file.read().split()


def test_user_namespace_of_the_pod(client: Client) -> None:
    """critest: User namespaces: with POD ids are mapped; the image's files are root's, and root can write them."""
    _needs_user_namespaces(client)
    pod = client.pod(_mapped(client, (0, 100_000, 65_536), mode=cri.POD))
    security = cri.LinuxContainerSecurityContext(capabilities=cri.Capability(add_capabilities=["SYS_ADMIN"]))
    container = client.start(*LOOP, pod=pod, security=security)
    assert client.said(container, "cat /proc/self/uid_map /proc/self/gid_map").split() == ["0", "100000", "65536"] * 2
    assert client.said(container, "id -u; stat -c %u /bin/busybox; touch /etc/new && stat -c %u /etc/new") == "0\n" * 3
    assert client.said(container, "hostname mine && hostname") == "mine\n"
    options = client.pod_status(pod).linux.namespaces.options
    assert options.userns_options.uids[0].host_id == 100_000


def test_shared_processes_in_a_user_namespace(client: Client) -> None:
    """Kubernetes: `hostUsers: false` with `shareProcessNamespace: true`; containers see and signal each other."""
    _needs_user_namespaces(client)
    config = _mapped(client, (0, 100_000, 65_536), mode=cri.POD)
    config.linux.security_context.namespace_options.pid = cri.POD
    pod = client.pod(config)
    first, second = client.start("sleep", "1001", pod=pod), client.start("sleep", "1002", pod=pod)
    for each in (first, second):
        client.sees(each, "1001", "1002")
    assert client.said(first, "cat /proc/self/uid_map").split() == ["0", "100000", "65536"]
    found = '[ "$(tr "\\0" " " < $each/cmdline)" = "sleep 1001 " ] && kill -9 ${each#/proc/}'
    client.said(second, f"for each in /proc/[0-9]*; do {found}; done")
    assert client.ended(first).status.exit_code == 137


def test_a_volume_in_a_user_namespace(client: Client, tmp_path: Path) -> None:
    """What root in the container writes to a volume with id mappings belongs to root on the machine."""
    _needs_user_namespaces(client)
    (tmp_path / "file").write_text("of root\n")
    (tmp_path / "file").chmod(0o600)
    mapping = [cri.IDMapping(container_id=0, host_id=100_000, length=65_536)]
    mount = cri.Mount(host_path=str(tmp_path), container_path="/mnt", uidMappings=mapping, gidMappings=mapping)
    pod = client.pod(_mapped(client, (0, 100_000, 65_536), mode=cri.POD))
    container = client.start(*LOOP, pod=pod, mounts=[mount])
    assert client.said(container, "cat /mnt/file; touch /mnt/new; stat -c %u /mnt/new") == "of root\n0\n"
    assert (tmp_path / "new").stat().st_uid == 0


def test_sysctls_in_a_user_namespace(client: Client) -> None:
    """Those of its IPC namespace are its own root's alone, those of its network the machine's too."""
    _needs_user_namespaces(client)
    config = _mapped(client, (0, 100_000, 65_536), mode=cri.POD)
    config.linux.sysctls.update({"kernel.shm_rmid_forced": "1", "net.ipv4.ip_default_ttl": "33"})
    container = client.start(*LOOP, pod=client.pod(config))
    files = "/proc/sys/kernel/shm_rmid_forced /proc/sys/net/ipv4/ip_default_ttl"
    assert client.said(container, f"cat {files}") == "1\n33\n"


def test_volumes_of_the_image_in_a_user_namespace(client: Client) -> None:
    """The root of the pod owns them, and can write."""
    _needs_user_namespaces(client)
    pod = client.pod(_mapped(client, (0, 100_000, 65_536), mode=cri.POD))
    container = client.start(*LOOP, image="volumes", pod=pod)
    assert client.said(container, "stat -c %u /data /www /www/index.html") == "0\n" * 3
    assert client.said(container, "echo mine > /www/index.html && touch /data/new && stat -c %u /data/new") == "0\n"


_WRONG = [
    pytest.param([(0, 100_000, 1000), (1000, 200_000, 1000)], cri.POD, id="two-mappings"),
    pytest.param([(1, 100_000, 1000)], cri.POD, id="root-not-mapped"),
    pytest.param([(0, 100_000, 1000)], cri.CONTAINER, id="container"),
    pytest.param([(0, 100_000, 1000)], cri.TARGET, id="target"),
]


@pytest.mark.parametrize(("ranges", "mode"), _WRONG)
def test_wrong_user_namespaces(
    client: Client, ranges: list[tuple[int, int, int]], mode: cri.NamespaceMode.ValueType
) -> None:
    """critest: User namespaces: several mappings, an unmapped root, CONTAINER and TARGET are refused."""
    error = refused(client.pod, _mapped(client, *ranges, mode=mode))
    assert error.code() is not grpc.StatusCode.INTERNAL
