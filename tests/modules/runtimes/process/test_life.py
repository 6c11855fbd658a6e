"""Containers from start to end: environment, output, signals, exit codes, and nothing left of them."""

import signal
import stat
import subprocess
from functools import partial
from pathlib import Path

import grpc
import pytest

from beehive.files.durable import beside
from modules.runtimes.process.driver import _make_mount_point
from modules.runtimes.process.shim_spawner import ShimSpawner
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.process.node import LocalNode, alive, eventually, processes_of, wait_for_death
from tests.support.stopping import stopping

_OF_THE_C_LIBRARY = 1 << 31 | 1 << 32


def test_exact_environment(node: LocalNode) -> None:
    """A process has the configured variables and three defaults, and nothing of edgecore's own."""
    config = cri.ContainerConfig(
        envs=[cri.KeyValue(key="GREETING", value=b"a b"), cri.KeyValue(key="HOME", value=b"/tmp")]
    )
    container = node.start(node.create(["/usr/bin/env"], config, node.pod("env")))
    assert node.ended(container).exit_code == 0
    assert sorted(text for _, _, text in node.log(container)) == [
        "GREETING=a b",
        "HOME=/tmp",
        "HOSTNAME=host-of-env",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ]


def test_shims_have_nothing_of_edgecores_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run beside containers, which may read it as the same user."""
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@proxy.test")
    with stopping(ShimSpawner(tmp_path)) as spawner:
        spawner._open()
        assert spawner._process is not None
        environment = Path(f"/proc/{spawner._process.pid}/environ")  # empty until the kernel has begun the program
        assert eventually(environment.read_bytes) == b"LC_ALL=C.UTF-8\0"


def test_the_spawner_is_there_before_the_first_pod(node: LocalNode) -> None:
    """Else each first pod after a start would wait for Python, and for the attempts to mount."""
    assert any(b"shim/__main__.py" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in _children())


def _children() -> list[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def test_a_mount_point_is_empty_and_made_once(tmp_path: Path) -> None:
    """No link that somebody has put there is followed."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("point", "point", "link"):
        _make_mount_point(tmp_path / name)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "point"]
    assert stat.filemode((tmp_path / "point").stat().st_mode) == "-r--r--r--"


def test_bytes_in_the_environment(node: LocalNode) -> None:
    """A variable's value is passed on byte by byte, even where it is no text."""
    config = cri.ContainerConfig(envs=[cri.KeyValue(key="RAW", value=b"\xff\xfe")])
    assert node.run('printf %s "$RAW" | od -An -tx1', config) == " ff fe\n"


def test_own_working_directories(node: LocalNode) -> None:
    """Without a working directory each container starts in an empty one of its own, which is also its HOME."""
    script = 'ls -A; [ "$PWD" = "$HOME" ] || exit 1; touch here; pwd'
    first, second = node.run(script), node.run(script)
    assert first != second
    assert len(first.splitlines()) == 1


def test_args_follow_the_command(node: LocalNode) -> None:
    """The process's arguments are command and args, unchanged."""
    container = node.start(node.create(["printf", "%s|"], cri.ContainerConfig(args=["a b", "$HOME", "*"])))
    node.ended(container)
    assert node.log(container) == [("stdout", "P", "a b|$HOME|*|")]


@pytest.mark.parametrize(
    ("script", "exit_code", "reason"),
    [("exit 0", 0, "Completed"), ("exit 3", 3, "Error"), ("kill -KILL $$", 137, "Error"), ("kill $$", 143, "Error")],
)
def test_exit_codes(node: LocalNode, script: str, exit_code: int, reason: str) -> None:
    """A container's exit code is its process's, or 128 and the number of the signal that ended it."""
    status = node.ended(node.shell(script))
    assert (status.exit_code, status.reason) == (exit_code, reason)
    assert status.created_at <= status.started_at <= status.finished_at


def test_clean_signals(node: LocalNode) -> None:
    """No signal is ignored or blocked at the start of a process, whatever edgecore's own are.

    Except for 32 and 33, which the C library lets no program set; they are inherited from the process that started us.
    """
    masks = dict(line.split(":\t") for line in node.run("grep -E '^Sig(Blk|Ign)' /proc/self/status").splitlines())
    assert {name: int(mask, 16) & ~_OF_THE_C_LIBRARY for name, mask in masks.items()} == {"SigBlk": 0, "SigIgn": 0}


def test_only_standard_descriptors(node: LocalNode) -> None:
    """A process inherits standard input, output and error, and no other descriptor."""
    assert node.run("exec ls /proc/self/fd").split() == ["0", "1", "2", "3"]  # 3 is the directory that ls reads


def test_a_session_of_its_own(node: LocalNode) -> None:
    """The main process leads its session and its process group."""
    pid, group, session = node.run("set -- $(cat /proc/$$/stat); echo $1 $5 $6").split()
    assert pid == group == session


def test_daemons_end_with_the_container(node: LocalNode) -> None:
    """A process outside the session of the main process is killed when that ends, before the container counts
    as ended.
    """
    container = node.shell("setsid sh -c 'setsid sleep 1000 & echo $!; exec sleep 1001' & read -r go < /dev/zero")
    daemon = int(eventually(lambda: node.log(container))[0][2])
    assert alive(daemon)
    node.stop(container, 0)
    assert not alive(daemon)


def test_daemons_end_after_a_normal_exit(node: LocalNode) -> None:
    """A container whose main process is done leaves no process behind."""
    container = node.shell("setsid sleep 1000 & echo $!")
    assert node.ended(container).exit_code == 0
    assert not alive(int(node.log(container)[0][2]))


def test_listed_as_ended_when_the_process_is_gone(node: LocalNode) -> None:
    """As soon as the main process is gone, the container is listed as ended."""
    containers = [node.shell("exec sleep 1000") for _ in range(5)]
    for container in containers:
        pid = node.pid(container)
        subprocess.run(["kill", "-KILL", str(pid)], check=True)
        eventually(partial(_gone, pid))
        assert node.states()[container] == cri.CONTAINER_EXITED


def _gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_everybody_in_the_group_is_asked_to_end(node: LocalNode) -> None:
    """The stop signal reaches the children of the main process too, as nothing else would hand it on."""
    container = node.shell(
        "(trap 'echo child; exit' TERM; echo up; while :; do sleep 0.01; done) & trap : TERM; wait; wait"
    )
    node.logged(container, "up")
    node.stop(container)
    assert ("stdout", "F", "child") in node.log(container)


def test_configured_stop_signal(node: LocalNode) -> None:
    """A container that names its stop signal gets that one."""
    config = cri.ContainerConfig(stop_signal=cri.SIGNAL_SIGUSR1)
    container = node.shell("trap 'exit 7' USR1; echo up; while :; do sleep 0.01; done", config)
    node.logged(container, "up")
    node.stop(container)
    assert node.status(container).exit_code == 7


def test_killed_after_the_grace_period(node: LocalNode) -> None:
    """A container that ignores its stop signal is killed when the grace period is over."""
    container = node.shell("trap '' TERM; echo up; while :; do sleep 0.01; done")
    node.logged(container, "up")
    node.stop(container, 1)
    assert node.status(container).exit_code == 128 + signal.SIGKILL


def test_stopped_processes_can_be_stopped(node: LocalNode) -> None:
    """A container that was halted by SIGSTOP is ended like any other."""
    container = node.shell("setsid sleep 1000 & kill -STOP $!; echo up; kill -STOP $$")
    node.logged(container, "up")
    node.stop(container, 0)
    assert node.status(container).exit_code == 137


def test_a_missing_command(node: LocalNode) -> None:
    """A missing command fails the start, and the container's status has the reason."""
    container = node.create(["no-such-program"])
    with pytest.raises(grpc.RpcError, match='"no-such-program" was not found on this machine in PATH='):
        node.start(container)
    status = node.status(container)
    assert (status.state, status.reason, status.exit_code) == (cri.CONTAINER_EXITED, "StartError", 128)
    assert "no-such-program" in status.message


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (b"#!/no/such/shell\n", 0o755, "interpreter"),
        (b"#!/bin/sh\n", 0o644, "not executable"),
        (b"?", 0o755, "neither"),
    ],
)
def test_commands_that_cannot_be_executed(node: LocalNode, content: bytes, mode: int, reason: str) -> None:
    """Each reason why a file cannot be executed has words of its own."""
    script = node.directory / "script"
    script.write_bytes(content)
    script.chmod(mode)
    with pytest.raises(grpc.RpcError, match=reason):
        node.start(node.create([str(script)]))


def test_no_log_wanted(node: LocalNode) -> None:
    """A container whose client requests no log runs, and its output is dropped."""
    asked = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="quiet"), command=["echo", "hello"])
    request = cri.CreateContainerRequest(pod_sandbox_id=node.pod(), config=asked)
    container = node.start(node.cri.CreateContainer(request).container_id)
    assert node.ended(container).exit_code == 0
    assert list(node.logs.glob("*/*")) == []


def test_half_a_line_is_logged_when_the_output_is_closed(node: LocalNode) -> None:
    """A container that goes on without its output ends nothing that would write it later."""
    node.logged(node.shell("printf half; exec >&- 2>&-; exec sleep 1000"), "half")


def test_a_chatty_container_loses_nothing(node: LocalNode) -> None:
    """Everything a container printed before it ended is in its log when it counts as ended."""
    container = node.shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; printf last")
    node.ended(container)
    log = node.log(container)
    assert [text for _, _, text in log[:-1]] == [f"line {number}" for number in range(20000)]
    assert log[-1] == ("stdout", "P", "last")


def test_a_rotated_log(node: LocalNode) -> None:
    """After its log was renamed and reopened, a container writes to a new file."""
    container = node.shell("echo before; while [ ! -e go ]; do sleep 0.01; done; echo after")
    node.logged(container, "before")
    path = Path(node.status(container).log_path)
    path.rename(path.with_suffix(".1"))
    node.cri.ReopenContainerLog(cri.ReopenContainerLogRequest(container_id=container))
    (node.state / "containers" / container / "work" / "go").touch()
    node.ended(container)
    assert [text for _, _, text in node.log(container)] == ["after"]


def test_stats_follow_use(node: LocalNode) -> None:
    """CPU time and memory of everything in the container are counted, of children that ended too."""
    container = node.shell("i=0; (while [ $i -lt 300000 ]; do i=$((i+1)); done); echo done; exec sleep 1000")
    node.logged(container, "done")
    stats = eventually(  # while a program takes the place of another, the process has no memory
        lambda: node.cri.ContainerStats(cri.ContainerStatsRequest(container_id=container)).stats,
        lambda stats: stats.memory.working_set_bytes.value > 100_000,
    )
    assert stats.cpu.usage_core_nano_seconds.value >= 20_000_000
    assert stats.memory.working_set_bytes.value < 100_000_000
    sandboxes = node.cri.ListPodSandboxStats(cri.ListPodSandboxStatsRequest()).stats
    assert [pod.linux.process.process_count.value for pod in sandboxes] == [1]


def test_resources(node: LocalNode) -> None:
    """A new OOM score reaches the processes; a limit, which nothing would enforce, is refused."""
    container = node.shell("exec sleep 1000")
    resources = cri.LinuxContainerResources(oom_score_adj=321)
    node.cri.UpdateContainerResources(cri.UpdateContainerResourcesRequest(container_id=container, linux=resources))
    assert Path(f"/proc/{node.pid(container)}/oom_score_adj").read_text() == "321\n"
    limits = cri.LinuxContainerResources(cpu_quota=5000)
    with pytest.raises(grpc.RpcError) as refusal:
        node.cri.UpdateContainerResources(cri.UpdateContainerResourcesRequest(container_id=container, linux=limits))
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_oom_score_at_the_start(node: LocalNode) -> None:
    """The process has the OOM score of the container's creation."""
    config = cri.ContainerConfig(
        linux=cri.LinuxContainerConfig(resources=cri.LinuxContainerResources(oom_score_adj=999))
    )
    assert node.run("cat /proc/self/oom_score_adj", config) == "999\n"


def test_removing_a_pod_removes_everything(node: LocalNode) -> None:
    """A removed pod leaves no process and no file of the runtime's."""
    pod = node.pod()
    pid = node.pid(node.shell("exec sleep 1000", pod=pod))
    node.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
    wait_for_death(pid)
    assert node.states() == {}
    assert [path for name in ("containers", "sandboxes") for path in (node.state / name).iterdir()] == []


def test_a_container_whose_record_cannot_be_written_does_not_run(node: LocalNode) -> None:
    """A command that filled the disk immediately left no room for its record: the start failed, and its processes kept
    running unnoticed.
    """
    container = node.create(["sh", "-c", "sleep 1234567 & echo $! > child; sleep 1234567"])
    beside(node.state / "containers" / container / "run.json").mkdir()
    with pytest.raises(grpc.RpcError, match="Is a directory"):
        node.start(container)
    status = node.status(container)
    assert (status.state, status.reason, status.exit_code) == (cri.CONTAINER_EXITED, "StartError", 128)
    assert not [each for each in processes_of(node.directory) if "1234567" in each]
