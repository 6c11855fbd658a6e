"""The life of a pod on the OCI runtime over its socket, with real crun and conmon."""

import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from modules.runtimes.oci import processes
from modules.runtimes.oci.crun import conmon
from modules.runtimes.oci.crun.conmon import Ended
from modules.runtimes.oci.crun.container_log import FileId, has_open, log_at, make_log
from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import refused
from tests.modules.runtimes.oci.node import OciNode
from tests.modules.runtimes.process.node import alive, eventually, wait_for_death
from tests.support.leftovers import cgroups_named

_LOOP = "exec sleep 1000"
_MIB = 1024 * 1024


def _config(text: str = "", **fields: object) -> cri.ContainerConfig:
    """A configuration with some fields of its Linux part set."""
    config = cri.ContainerConfig(**fields)  # type: ignore[arg-type]
    if text == "shared":
        config.linux.security_context.namespace_options.pid = cri.NODE
    return config


def test_it_reports_its_name_and_version(node: OciNode) -> None:
    """Its name tells it from the runtime of processes; without a CNI configuration the network is not ready."""
    version = node.cri.Version(cri.VersionRequest())
    assert (version.runtime_name, version.runtime_api_version) == ("edgecore-oci", "v1")
    answer = node.cri.Status(cri.StatusRequest(verbose=True))
    assert {each.type: each.status for each in answer.status.conditions} == {
        "RuntimeReady": True,
        "NetworkReady": False,
    }
    assert answer.info["isolation"] == "containers"
    assert [each.features.recursive_read_only_mounts for each in answer.runtime_handlers] == [True]
    assert stat.S_IMODE(node.socket.stat().st_mode) == 0o600


@pytest.mark.parametrize(("user", "home"), [(0, "/root"), (65534, "/home"), (1000, "/")])
def test_every_user_has_a_home(node: OciNode, user: int, home: str) -> None:
    """The one of /etc/passwd, or else the root."""
    config = cri.ContainerConfig()
    config.linux.security_context.run_as_user.value = user
    assert node.run("echo $HOME", config).strip() == home


@pytest.mark.parametrize(("name", "kind"), [("nosuch", "user"), ("4294967296", "number")])
def test_a_user_that_the_image_lacks_is_refused_before_the_container_is_made(
    node: OciNode, name: str, kind: str
) -> None:
    """So the container waits, and is made again when its image has one; it has not ended."""
    config = cri.ContainerConfig()
    config.linux.security_context.run_as_username = name
    with pytest.raises(grpc.RpcError, match=kind) as refusal:
        node.create(["true"], config)
    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not node.cri.ListContainers(cri.ListContainersRequest()).containers
    config.linux.security_context.run_as_username = "nobody"
    assert node.ended(node.start(node.create(["true"], config))).exit_code == 0


def test_a_missing_image_is_refused(node: OciNode) -> None:
    """A container whose image is not there is not created."""
    with pytest.raises(grpc.RpcError, match="there is no image") as refusal:
        node.create(["true"], cri.ContainerConfig(image=cri.ImageSpec(image="nosuch:1")))
    assert refusal.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_stop_right_after_the_start_is_noticed(node: OciNode) -> None:
    """The kernel drops a signal without a handler in the first process: the signal is sent once it has one."""
    slow = node.shell("sleep 1; trap 'exit 5' TERM; while :; do sleep 0.01; done")
    node.stop(slow, 3600)
    assert node.status(slow).exit_code == 5


def test_processes_of_the_machine_namespace_end_with_it(node: OciNode) -> None:
    """With the machine's process namespace nothing but the control group holds a container's processes together."""
    container = node.shell("setsid sleep 1000 & exec sleep 1001", _config("shared"))
    pid = node.pid(container)
    daemons = eventually(lambda: _below_control_group(pid))
    node.stop(container, 0)
    assert node.status(container).exit_code == 128 + signal.SIGKILL
    for each in daemons:
        wait_for_death(each)


def _below_control_group(pid: int) -> list[int]:
    """The other processes in the control group of a process."""
    groups = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    path = next(path for _, names, path in groups if names in ("pids", ""))
    top = Path("/sys/fs/cgroup/pids") if Path("/sys/fs/cgroup/pids").is_dir() else Path("/sys/fs/cgroup")
    found = (top / path.strip("/") / "cgroup.procs").read_text().split()
    return [int(each) for each in found if int(each) != pid]


def test_removal_leaves_nothing(node: OciNode) -> None:
    """A running container is killed by its removal; its log stays, which is edged's."""
    container = node.shell(f"echo hello; {_LOOP}")
    node.logged(container, "hello")
    pid, log = node.pid(container), node.status(container).log_path
    node.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
    assert not alive(pid)
    assert node.states() == {}
    assert container not in Path("/proc/self/mountinfo").read_text()
    assert list((node.state / "containers").iterdir()) == []
    assert list((node.state / "runtime").glob(f"*/{container}")) == []
    assert "hello" in Path(log).read_text()


def test_stopping_and_removing_a_sandbox(node: OciNode) -> None:
    """Stopping ends its containers and its namespaces, removing removes all; both may be repeated."""
    pod = node.pod()
    container = node.shell(_LOOP, pod=pod)
    pid = node.pid(container)
    for _ in range(2):
        node.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
    assert not alive(pid)
    assert node.status(container).exit_code == 128 + signal.SIGKILL
    assert list((node.state / "namespaces").iterdir()) == []
    for _ in range(2):
        node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
    assert node.states() == {}


def test_without_a_log(node: OciNode) -> None:
    """A container without a log path writes nowhere, and lives as others do."""
    config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="quiet", uid="quiet", namespace="default"))
    node.complete_pod(config)
    pod = node.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=config)).pod_sandbox_id
    container = node.shell("echo lost; exit 6", pod=pod)
    assert node.ended(container).exit_code == 6
    assert node.status(container).log_path == ""


def test_a_log_is_made_through_no_link(node: OciNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with a hostPath of the logs puts one in its place, also between edgecore's look and conmon's."""
    elsewhere = node.directory / "elsewhere"
    elsewhere.write_text("kept")
    made: list[Path] = []

    def replaced(path: Path) -> FileId:
        found = make_log(path)
        path.unlink()
        path.symlink_to(elsewhere)
        made.append(path)
        return found

    monkeypatch.setattr(processes, "make_log", replaced)
    with pytest.raises(grpc.RpcError, match=r"something else is in the place of .*log"):
        node.shell("echo harm")
    with pytest.raises(OSError, match="symbolic links"):
        make_log(made[0])
    assert elsewhere.read_text() == "kept"


def test_a_rotated_log_goes_on_through_no_link(node: OciNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """conmon empties what it opens beside the log."""
    elsewhere = node.directory / "elsewhere"
    elsewhere.write_text("kept")
    container = node.shell("while :; do echo line; sleep 0.01; done")
    node.logged(container, "line")
    log = Path(node.status(container).log_path)
    beside = log.with_name(f"{log.name}.tmp")

    def rotate() -> None:
        log.rename(log.with_name("old"))
        beside.symlink_to(elsewhere)
        node.cri.ReopenContainerLog(cri.ReopenContainerLogRequest(container_id=container))

    rotate()
    node.logged(container, "line")
    assert elsewhere.read_text() == "kept"
    status = elsewhere.stat()

    def after_conmon(path: Path) -> FileId | None:
        pid = conmon.conmon_pid(node.state / "containers" / container)
        assert pid is not None
        eventually(lambda: has_open(pid, (status.st_dev, status.st_ino)))
        return log_at(path)

    monkeypatch.setattr(processes, "clear_way", lambda _: None)
    monkeypatch.setattr(processes, "log_at", after_conmon)
    monkeypatch.setattr(processes, "_REOPEN_SECONDS", 0.0)
    with pytest.raises(grpc.RpcError, match="the container is killed"):
        rotate()
    assert node.ended(container).exit_code == 137


def test_out_of_memory_that_conmon_was_not_told(node: OciNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has seen the end first."""
    ended = conmon.ended

    def untold(directory: Path) -> Ended | None:
        found = ended(directory)
        return None if found is None else msgspec.structs.replace(found, out_of_memory=False)

    monkeypatch.setattr("modules.runtimes.oci.crun.conmon.ended", untold)
    config = cri.ContainerConfig()
    config.linux.resources.memory_limit_in_bytes = config.linux.resources.memory_swap_limit_in_bytes = 15 * _MIB
    assert node.ended(node.shell("dd if=/dev/zero of=/dev/null bs=40M", config)).reason == "OOMKilled"
    assert node.ended(node.shell("sh -c 'kill -9 $$'; exit $?")).reason == "Error"


def _memory_limits(node: OciNode, container: str) -> list[str]:
    """What the kernel says."""
    return [
        path.read_text().strip()
        for name in ("memory.limit_in_bytes", "memory.max")
        for group in cgroups_named(node.directory.name)
        for path in group.glob(f"**/*{container}*/{name}")
    ]


def _change(node: OciNode, container: str, **limits: Any) -> None:
    wanted = cri.LinuxContainerResources(**limits)
    node.cri.UpdateContainerResources(cri.UpdateContainerResourcesRequest(container_id=container, linux=wanted))


def test_a_limit_that_the_kernel_refuses_is_no_part_of_later_changes(node: OciNode) -> None:
    """The machine has no such processor."""
    container = node.shell(_LOOP)
    assert refused(partial(_change, node, container, cpuset_cpus="99999")).code() is grpc.StatusCode.UNKNOWN
    _change(node, container, memory_limit_in_bytes=96 * _MIB)
    assert _memory_limits(node, container) == [str(96 * _MIB)]
    assert node.status(container).resources.linux.cpuset_cpus == ""


def test_limits_change_before_the_start(node: OciNode) -> None:
    """Wrong ones are refused immediately, alone or with present ones; right ones count from the start on."""
    config = cri.ContainerConfig()
    config.linux.resources.memory_limit_in_bytes = 64 * _MIB
    config.linux.resources.memory_swap_limit_in_bytes = 80 * _MIB
    container = node.create(["sh", "-c", _LOOP], config)
    for wrong in ({"cpu_period": 1}, {"cpuset_cpus": "all"}, {"memory_swap_limit_in_bytes": 32 * _MIB}):
        assert refused(partial(_change, node, container, **wrong)).code() is grpc.StatusCode.INVALID_ARGUMENT
    _change(node, container, memory_limit_in_bytes=96 * _MIB)
    node.start(container)
    assert _memory_limits(node, container) == [str(96 * _MIB)]
    assert node.status(container).resources.linux.memory_limit_in_bytes == 96 * _MIB


def test_usage_of_a_container(node: OciNode) -> None:
    """Statistics come from its control group, its writable layer and what it wrote into the sandbox's files."""
    writes = (
        "for file in /file /etc/hostname /etc/hosts /etc/resolv.conf; do dd if=/dev/zero of=$file bs=1M count=2; done"
    )
    container = node.shell(f"{writes}; echo up; " + _LOOP)
    node.logged(container, "up")
    stats = node.cri.ContainerStats(cri.ContainerStatsRequest(container_id=container)).stats
    assert stats.cpu.usage_core_nano_seconds.value > 0
    assert 0 < stats.memory.working_set_bytes.value < 64 * _MIB
    assert stats.writable_layer.used_bytes.value >= 8 * _MIB
    (pod,) = node.cri.ListPodSandboxStats(cri.ListPodSandboxStatsRequest()).stats
    assert pod.linux.cpu.usage_core_nano_seconds.value >= stats.cpu.usage_core_nano_seconds.value
    assert [each.attributes.id for each in pod.linux.containers] == [container]


def test_a_sandbox_of_its_own(node: OciNode) -> None:
    """Hostname, ipc and the loopback interface are the pod's, and shared by its containers; no process holds them."""
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="own", uid="own", namespace="default"),
        hostname="its-own-name",
        log_directory=str(node.logs),
    )
    node.complete_pod(config)
    config.linux.security_context.namespace_options.network = cri.POD
    with pytest.raises(grpc.RpcError, match="has no file"):
        node.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=config))
    assert list((node.state / "namespaces").iterdir()) == []
    assert list((node.state / "sandboxes").iterdir()) == []


def test_containers_that_share_their_processes(node: OciNode) -> None:
    """Both see each other's, and a first process that is neither's; it ends with the sandbox, and reaps orphans."""
    pod, node.shares_processes = node.pod(), True
    configs = [cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name)) for name in ("one", "two")]
    configs[1].linux.security_context.capabilities.add_capabilities.append("SYS_PTRACE")
    one, two = (node.shell(_LOOP, config, pod) for config in configs)
    for file in [Path(f"/proc/{node.pid(each)}/cmdline") for each in (one, two)]:
        eventually(file.read_bytes, lambda command: command == b"sleep\0001000\0")
    node.execute(one, "sh", "-c", "(sleep 0.01 &)")
    said = node.execute(two, "ps", "-o", "pid,args").stdout.decode()
    assert said.count("sleep 1000") == 2
    assert said.splitlines()[1].split() == ["1", "pause"]
    first = int((node.state / "namespaces" / pod / "init").read_text())
    assert f"/{node.directory.name}/{pod}\n" in Path(f"/proc/{first}/cgroup").read_text(), "it counts for its pod"
    attack = (
        "ls -A /proc/1/root/ && touch /proc/1/root/x; cat /proc/1/root/etc/passwd; (: >/proc/1/exe) && echo written"
    )
    answer = node.execute(two, "sh", "-c", attack)
    assert answer.stdout == b"", "the first process leads to files"
    assert answer.stderr.count(b"Read-only file system") == 2
    node.restart()
    assert node.execute(two, "true").exit_code == 0
    node.stop(one, 0)
    assert node.states()[two] == cri.CONTAINER_RUNNING
    node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
    assert not alive(first)


def test_only_the_owner_reads_the_records(node: OciNode) -> None:
    """A container's variables are in its bundle alone, in memory; other users reach neither them, nor set-user-id
    programs in its files.
    """
    container = node.shell(_LOOP, cri.ContainerConfig(envs=[cri.KeyValue(key="PASSWORD", value=b"x")]))
    directory = node.state / "containers" / container
    files = [path for path in (*directory.iterdir(), *(directory / "bundle").iterdir()) if path.is_file()]
    assert len(files) >= 4
    (secret,) = (path for path in files if b"PASSWORD" in path.read_bytes())
    assert secret == directory / "bundle" / "config.json"
    assert secret.stat().st_mode & 0o077 == 0
    assert stat.S_IMODE(node.state.stat().st_mode) == 0o700, "nobody reaches the programs of images"


def test_a_command_has_the_oom_score_of_its_container(node: OciNode) -> None:
    """As a service edgecore has a score with which the kernel ends everything else first."""
    config = cri.ContainerConfig()
    config.linux.resources.oom_score_adj = 700
    container = node.shell(_LOOP, config)
    assert node.execute(container, "cat", "/proc/self/oom_score_adj").stdout == b"700\n"


def test_a_command_gets_large_variables_which_no_file_keeps(node: OciNode) -> None:
    """They reach the OCI runtime by a pipe that holds all of them, and of which the command has no descriptor."""
    big = [cri.KeyValue(key=f"BIG_{each}", value=b"x" * 100_000) for each in range(3)]
    container = node.shell(_LOOP, cri.ContainerConfig(envs=big))
    files = node.state / "containers" / container / "commands"
    with ThreadPoolExecutor(1) as thread:
        script = "until [ -e /go ]; do sleep 0.05; done; echo ${#BIG_2}; ls /proc/$$/fd; true"
        told = thread.submit(node.execute, container, "sh", "-c", script)
        eventually(lambda: files.is_dir() and [*files.glob("*.pid")])
        assert {each.suffix for each in files.iterdir()} == {".pid"}
        node.execute(container, "touch", "/go")
    assert told.result().stdout.split() == [b"100000", b"0", b"1", b"2"]


def test_a_command_past_its_time(node: OciNode) -> None:
    """It is killed with what it has started, and nothing of it is left in the container."""
    container = node.shell(_LOOP)
    with pytest.raises(grpc.RpcError) as refusal:
        node.execute(container, "sh", "-c", "sleep 4321 & sleep 4322", timeout=1)
    assert refusal.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert b"432" not in node.execute(container, "ps").stdout


def test_a_command_right_after_the_start(node: OciNode) -> None:
    """crun 1.8.1 may lose a race against the start: one retry hides it."""
    for _ in range(10):
        container = node.shell(_LOOP)
        assert node.execute(container, "echo", "hello").stdout == b"hello\n"
