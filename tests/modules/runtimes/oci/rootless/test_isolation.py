"""What pods of an ordinary user's node may do to the machine, to the user, and to each other."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from beehive.node_namespaces import POD_IDS
from modules.runtimes.oci.rootless.identifiers import SUBGID, SUBUID, Account, sub_ids
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.rootless.node import RootlessNode, rootless_node
from tests.modules.runtimes.process.node import eventually


@pytest.fixture(scope="module")
def node() -> Iterator[RootlessNode]:
    """A node for all tests of this file."""
    with rootless_node() as made:
        yield made


def _namespaces(pid: int | str) -> dict[str, str]:
    kinds = ("user", "mnt", "pid", "ipc", "net", "uts")
    return {kind: str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in kinds}


def test_each_pod_has_namespaces_of_its_own(node: RootlessNode) -> None:
    """None is the machine's, and none is another pod's: not even the one of its users, which are the same."""
    one, two = (_namespaces(node.pid(node.shell("sleep 1000"))) for _ in range(2))
    machine = _namespaces("self")
    assert {kind for kind in one if one[kind] == machine[kind]} == set()
    assert {kind for kind in one if one[kind] == two[kind]} == set()


@pytest.mark.parametrize(("file", "kind"), [(SUBUID, "uid"), (SUBGID, "gid")])
def test_all_users_of_a_pod_are_sub_ids(node: RootlessNode, file: Path, kind: str) -> None:
    """None is the user, or another user of the machine; its root is the first."""
    container = node.shell("sleep 1000")
    own = sub_ids(Account(pwd.getpwuid(os.getuid()).pw_name, os.getuid()), file)
    mapped = Path(f"/proc/{node.pid(container)}/{kind}_map").read_text().split()
    assert mapped == ["0", str(own.start), str(POD_IDS)]


def test_a_container_runs_as_any_user_of_its_pod(node: RootlessNode) -> None:
    """And its files are that user's."""
    config = cri.ContainerConfig()
    config.linux.security_context.run_as_user.value = 1000
    assert node.run("id -u; touch /tmp/mine; stat -c %u /tmp/mine", config).split() == ["1000", "1000"]


@pytest.mark.parametrize("option", ["pid", "ipc"])
def test_the_machines_processes_and_ipc_are_refused_with_words(node: RootlessNode, option: str) -> None:
    """A pod among the user's processes could end them all."""
    config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name=f"host-{option}", uid="u", namespace="n"))
    setattr(config.linux.security_context.namespace_options, option, cri.NODE)
    with pytest.raises(grpc.RpcError, match=f"host{option.upper()} needs root"):
        node.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=config))


def test_nothing_of_the_users_files_is_in_a_pod(node: RootlessNode, tmp_path: Path) -> None:
    """But what a hostPath mounts, and of that what others of the machine may read or write, too."""
    secret, public = tmp_path / "secret", tmp_path / "public"
    for path, mode in ((secret, 0o600), (public, 0o644)):
        path.write_text("key")
        path.chmod(mode)
    tmp_path.chmod(0o755)
    found = node.run(f"ls -d {node.directory} {secret} /run/lock/edgecore /home/* 2>/dev/null || true")
    assert found == ""
    config = cri.ContainerConfig(mounts=[cri.Mount(container_path="/given", host_path=str(tmp_path))])
    attempts = ("cat /given/secret", "echo x > /given/public", "touch /given/more", "chmod 777 /given", "rm -r /given")
    script = "; ".join(f"({each}) 2> /dev/null && echo {each.split()[0]}" for each in attempts)
    assert node.run(f"cat /given/public; {script}; true", config) == "key\n"
    assert {each.name for each in tmp_path.iterdir()} == {"secret", "public"}


def test_another_user_of_the_machine_can_do_nothing_to_a_node(node: RootlessNode) -> None:
    """Neither signal nor read its processes, nor enter its namespaces, nor use its files and sockets."""
    container = node.shell("echo secret; exec sleep 1000")
    node.logged(container, "secret")
    processes = [*node.members().values(), node.pid(container)]
    paths = [node.state, node.socket, node.directory / "namespaces", *node.logs.glob("*/*.log")]
    command = [sys.executable, "-m", "tests.modules.runtimes.oci.rootless.stranger", *map(str, (*processes, *paths))]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert found.splitlines() == ["user 4321"]


def test_a_directory_that_a_mount_makes_is_the_pods(node: RootlessNode, tmp_path: Path) -> None:
    """As root's pods may write into it; its files are a sub-id's on the machine."""
    tmp_path.chmod(0o755)
    made = tmp_path / "made"
    config = cri.ContainerConfig(mounts=[cri.Mount(container_path="/given", host_path=str(made))])
    assert node.run("touch /given/more && stat -c '%u %g' /given /given/more", config) == "0 0\n0 0\n"
    first = sub_ids(Account(pwd.getpwuid(os.getuid()).pw_name, os.getuid()), SUBUID).start
    assert {(made / each).stat().st_uid for each in ("", "more")} == {first}
    node.run("rm -r /given/more", config)


def test_a_privileged_pod_has_no_rights_over_the_machine(node: RootlessNode) -> None:
    """No device, no module, no mount of a disk, no parameter of the kernel, no way to another's network."""
    config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="privileged", uid="u-p", namespace="n"))
    config.linux.security_context.privileged = True
    config.linux.security_context.namespace_options.pid = cri.CONTAINER
    config.log_directory = str(node.logs / "privileged")
    pod = str(node.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id)
    container = cri.ContainerConfig()
    container.linux.security_context.privileged = True
    attempts = {
        "device": "mknod /tmp/disk b 7 0",
        "module": "insmod /bin/busybox",
        "parameter": "echo 1 > /proc/sys/vm/swappiness",
        "core": "echo x > /proc/sys/kernel/core_pattern",
        "log": "dmesg -c > /dev/null && exit 1; false",
        "kill": "kill -0 2",
        "host": "mount -t cgroup none /tmp",
    }
    script = "; ".join(f"({command}) > /dev/null 2>&1 && echo {name}" for name, command in attempts.items())
    request = cri.CreateContainerRequest(
        pod_sandbox_id=pod,
        config=cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="main"),
            image=cri.ImageSpec(image="busybox"),
            command=["sh", "-c", f"{script}; true"],
            log_path="main.log",
            linux=container.linux,
        ),
        sandbox_config=config,
    )
    made = node.start(str(node.cri.CreateContainer(request).container_id))
    assert node.ended(made).exit_code == 0
    assert node.log(made) == []


def test_a_pod_does_not_reach_the_machines_loopback(node: RootlessNode) -> None:
    """slirp4netns would lead 10.0.2.2 there."""
    assert "refused" in node.run("nc -w 5 10.0.2.2 22 < /dev/null || echo refused")


def test_a_low_host_port_is_refused_with_the_command(node: RootlessNode) -> None:
    """Ports below 1024 are root's."""
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="low", uid="u-l", namespace="n"),
        port_mappings=[cri.PortMapping(container_port=80, host_port=81)],
    )
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 81:
        pytest.skip("this machine allows everybody port 81")
    with pytest.raises(grpc.RpcError, match="ip_unprivileged_port_start=81"):
        node.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=config))


def test_a_runtime_that_was_killed_finds_its_containers(node: RootlessNode) -> None:
    """It joins the namespaces of its record, and makes no second ones."""
    container = node.shell("sleep 1000")
    before = node.members()
    node.kill()
    node.serve()
    assert node.status(container).state == cri.CONTAINER_RUNNING
    assert node.execute(container, "echo", "hi").stdout == b"hi\n"
    assert node.members()["sleep"]
    assert node.members()["slirp4netns"] == before["slirp4netns"]
    node.stop(container, 0)
    assert node.ended(container).exit_code == 137


def test_a_command_that_takes_too_long_is_killed(node: RootlessNode) -> None:
    """Without control groups it is known by its namespace."""
    container = node.shell("sleep 1000")
    with pytest.raises(grpc.RpcError, match="DEADLINE"):
        node.execute(container, "sleep", "765", timeout=1)
    assert "765" not in node.execute(container, "ps").stdout.decode()


@pytest.fixture
def sharing(node: RootlessNode) -> Iterator[RootlessNode]:
    """A node whose containers share the processes of their pod."""
    node.shares_processes = True
    yield node
    node.shares_processes = False


def _seen_by(node: RootlessNode, container: str) -> str:
    """The command lines of all processes that a container sees."""
    return node.execute(container, "sh", "-c", "cat /proc/[0-9]*/cmdline").stdout.decode().replace("\0", " ")


def test_what_a_container_of_shared_processes_has_left_is_killed(sharing: RootlessNode) -> None:
    """Their namespace goes on, and there is no control group to end."""
    pod = sharing.pod("shared")
    looking = sharing.shell("sleep 1000", pod=pod)
    named = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="leaving"), stdin=True)
    leaving = sharing.shell("setsid sleep 4321 & read line", named, pod)
    eventually(lambda: "sleep 4321" in _seen_by(sharing, looking))
    sharing.stop(leaving, 0)
    assert sharing.ended(leaving).exit_code == 137
    seen = _seen_by(sharing, looking)
    assert "sleep 4321" not in seen
    assert "sleep 1000" in seen


def test_a_start_among_shared_processes_that_was_cut_off_leaves_none(sharing: RootlessNode) -> None:
    """crun deletes such a container without control groups, and leaves its first process."""
    pod = sharing.pod("cut-off")
    looking = sharing.shell("sleep 1000", pod=pod)
    sharing.kill()
    sharing.serve_until("before modules.runtimes.oci.processes:_write_run")
    cut = sharing.create(["sleep", "4322"], cri.ContainerConfig(metadata=cri.ContainerMetadata(name="cut")), pod)
    with pytest.raises(grpc.RpcError):
        sharing.start(cut)
    sharing.kill()
    sharing.serve()
    assert sharing.status(cut).state == cri.CONTAINER_CREATED
    assert cut not in _seen_by(sharing, looking)


def test_usage_is_that_of_the_processes(node: RootlessNode) -> None:
    """Though there are no control groups."""
    container = node.shell("sleep 1000")
    stats = node.cri.ContainerStats(cri.ContainerStatsRequest(container_id=container)).stats
    assert stats.memory.page_faults.value > 0, "the kernel counts small memory late"
