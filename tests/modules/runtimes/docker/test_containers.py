"""What CRI says of a container, tried in a real one of Docker's."""

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.docker.node import DockerNode
from tests.modules.runtimes.oci import test_streams as of_oci
from tests.modules.runtimes.process.node import alive, eventually
from tests.support.leftovers import cgroups_named

_LOOP = "exec sleep 1000"

pytestmark = pytest.mark.slow


def test_a_number_is_never_a_name(node: DockerNode) -> None:
    """Docker takes a user named 1001 for the number: such a container is not made, and no command runs there."""
    users, groups = node.directory / "passwd", node.directory / "group"
    users.write_text("root:x:0:0::/:/bin/sh\n1001:x:1001:0::/:/bin/sh\n")
    groups.write_text("root:x:0:\n")
    paths = {"/etc/passwd": users, "/etc/group": groups}
    mounts = [cri.Mount(container_path=target, host_path=str(source)) for target, source in paths.items()]
    config = cri.ContainerConfig(mounts=mounts)
    security = config.linux.security_context
    security.run_as_user.value, security.run_as_group.value = 1001, 1002
    security.supplemental_groups.append(1003)
    pod = node.pod()
    container = node.shell(_LOOP, config, pod)
    assert node.execute(container, "id", "-u").stdout == b"1001\n"
    users.write_text("1001:x:0:0::/:/bin/sh\n")
    with pytest.raises(grpc.RpcError, match='has the name "1001"'):
        node.execute(container, "id", "-u")
    before = len(node.in_docker())
    for file, name in ((users, "1001"), (groups, "1002"), (groups, "1003")):
        users.write_text("")
        groups.write_text("")
        file.write_text(f"{name}:x:0:0::/:/bin/sh\n")
        with pytest.raises(grpc.RpcError, match=f'has the name "{name}"'):
            node.shell(_LOOP, config, pod)
    assert len(node.in_docker()) == before


def test_a_volume_and_the_sandboxs_files(node: DockerNode) -> None:
    """A directory of the machine is mounted, a missing one is made; hosts and resolv.conf are the sandbox's."""
    volume = node.directory / "volume"
    volume.mkdir()
    (volume / "file").write_text("inside\n")
    mounts = [
        cri.Mount(container_path="/data", host_path=str(volume)),
        cri.Mount(container_path="/new", host_path=str(node.directory / "made"), readonly=True),
    ]
    script = "cat /data/file; cat /etc/hosts; test -f /etc/resolv.conf; echo x >/data/new; echo x >/new/y || echo ro"
    said = node.run(script, cri.ContainerConfig(mounts=mounts))
    assert said.startswith("inside\n127.0.0.1\tlocalhost\n")
    assert said.endswith("ro\n")
    assert (volume / "new").read_text() == "x\n"
    assert (node.directory / "made").is_dir()


def test_limits_change_in_place(node: DockerNode) -> None:
    """The kernel has the new limit immediately, and the status reports it; other limits stay; usage is measured."""
    config = cri.ContainerConfig()
    config.linux.resources.memory_limit_in_bytes = 64 * 1024 * 1024
    config.linux.resources.cpu_shares = 512
    writes = "for file in /file /etc/hostname /etc/resolv.conf; do dd if=/dev/zero of=$file bs=1M count=2; done"
    container = node.shell(f"{writes}; echo up; {_LOOP}", config)
    node.logged(container, "up")
    wanted = cri.LinuxContainerResources(memory_limit_in_bytes=96 * 1024 * 1024)
    node.cri.UpdateContainerResources(cri.UpdateContainerResourcesRequest(container_id=container, linux=wanted))
    limits = [
        path.read_text().strip()
        for name in ("memory.limit_in_bytes", "memory.max")
        for group in cgroups_named(node.dockerd.cgroup_parent)
        for path in group.glob(f"**/*{container}*/{name}")
    ]
    assert limits == [str(96 * 1024 * 1024)]
    resources = node.status(container).resources.linux
    assert (resources.memory_limit_in_bytes, resources.cpu_shares) == (96 * 1024 * 1024, 512)
    stats = node.cri.ContainerStats(cri.ContainerStatsRequest(container_id=container)).stats
    assert stats.cpu.usage_core_nano_seconds.value > 0
    assert 0 < stats.memory.working_set_bytes.value < 96 * 1024 * 1024
    assert stats.writable_layer.used_bytes.value >= 6 * 1024 * 1024
    (pod,) = node.cri.ListPodSandboxStats(cri.ListPodSandboxStatsRequest()).stats
    assert [each.attributes.id for each in pod.linux.containers] == [container]


def test_a_terminal_and_long_lines(node: DockerNode) -> None:
    """A container's terminal ends lines as terminals do; a line that Docker breaks is joined by its parts' tags."""
    terminal = _ended(node, "tty; echo a", tty=True)
    assert Path(node.status(terminal).log_path).read_bytes().endswith(b" stdout F a\r\n")
    parts = node.log(_ended(node, "head -c 40000 /dev/zero | tr '\\0' x; echo end"))
    assert [tag for _, tag, _ in parts] == ["P", "P", "F"]
    assert "".join(text for *_, text in parts) == 40_000 * "x" + "end"


def _ended(node: DockerNode, script: str, *, tty: bool = False) -> str:
    container = node.shell(script, cri.ContainerConfig(tty=tty))
    node.ended(container)
    return container


def test_containers_that_share_their_processes(node: DockerNode) -> None:
    """Both see each other's and the pause program, which reaps orphans; it ends with the sandbox."""
    pod = node.pod()
    configs = [cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name)) for name in ("one", "two")]
    for each in configs:
        each.linux.security_context.namespace_options.network = cri.NODE
        each.linux.security_context.namespace_options.pid = cri.POD
    one, two = (node.start(_created(node, each, pod)) for each in configs)
    node.execute(one, "sh", "-c", "(sleep 0.01 &)")
    said = eventually(lambda: _processes(node, two), lambda said: "sleep 0.01" not in said)
    assert said.count("sleep 1000") == 2
    assert said.splitlines()[1].split() == ["1", "/pause"]
    assert "[sleep]" not in said
    lines = node.execute(two, "cat", "/proc/1/status").stdout.splitlines()
    rights = {name: value.split()[0] for name, _, value in (line.partition(b":") for line in lines) if value.split()}
    found = [rights[name] for name in (b"Uid", b"CapBnd", b"NoNewPrivs", b"Seccomp")]
    assert found == [b"65534", b"0" * 16, b"1", b"2"], "a container with SYS_PTRACE has it do what it may"
    pid = node.pid(two)
    node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
    assert not alive(pid)
    assert node.in_docker() == []


def _processes(node: DockerNode, container: str) -> str:
    said: bytes = node.execute(container, "ps", "-o", "pid,args").stdout
    return said.decode()


def _created(node: DockerNode, config: cri.ContainerConfig, pod: str) -> str:
    asked = cri.ContainerConfig(image=cri.ImageSpec(image="busybox"), command=["sleep", "1000"])
    asked.MergeFrom(config)
    request = cri.CreateContainerRequest(pod_sandbox_id=pod, config=asked)
    return str(node.cri.CreateContainer(request).container_id)


def test_names_are_given_once(node: DockerNode) -> None:
    """A second pod or container of one name and attempt is refused, and nothing of it is left in Docker."""
    pod = node.pod("p")
    node.create(["true"], pod=pod)
    with pytest.raises(grpc.RpcError) as pod_refused:
        node.pod("p")
    with pytest.raises(grpc.RpcError) as container_refused:
        node.create(["true"], pod=pod)
    assert {pod_refused.value.code(), container_refused.value.code()} == {grpc.StatusCode.ALREADY_EXISTS}
    assert len(node.in_docker()) == 2


@pytest.mark.parametrize("behaviour", [of_oci.test_a_client_that_goes_ends_its_command])
def test_like_the_oci_runtime(node: DockerNode, behaviour: Callable[[DockerNode], None]) -> None:
    """What the contract leaves to each runtime."""
    behaviour(node)
