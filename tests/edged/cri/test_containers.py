"""Life of a container, on every runtime: states, exit codes, environment, lists."""

from pathlib import Path

import pytest

from edged.cri import ContainerId, CriError, NotFoundError
from edged.cri.client import CriClient
from protos.cri.v1 import api_pb2 as pb
from tests.edged.cri.harness import Can, Pods, eventually, shell

UNKNOWN = ContainerId("0" * 64)


def test_a_container_is_created_then_runs_then_has_exited_then_is_gone(
    pods: Pods, client: CriClient, tmp_path: Path
) -> None:
    """The times are in this order, and the exit code is the command's."""
    pod = pods.sandbox()
    config = pods.container_config(shell("until [ -e /mnt/go/on ]; do sleep 0.05; done; exit 7"))
    config.mounts.append(pb.Mount(container_path="/mnt/go", host_path=str(tmp_path)))
    container = pods.create(pod, config)
    assert pods.state(container) == pb.CONTAINER_CREATED
    client.start_container(container)
    assert pods.state(container) == pb.CONTAINER_RUNNING
    (tmp_path / "on").touch()
    status = pods.ended(container)
    assert status.exit_code == 7
    assert 0 < status.created_at <= status.started_at < status.finished_at
    client.remove_container(container)
    with pytest.raises(NotFoundError):
        client.container_status(container)


@pytest.mark.parametrize(
    ("script", "exit_code", "reason"),
    [
        ("exit 0", 0, "Completed"),
        ("exit 3", 3, "Error"),
        ("exit 255", 255, "Error"),
        ("kill -9 $$", 137, "Error"),
        ("exec nonexistent-command", 127, "Error"),
    ],
)
def test_exit_codes_and_reasons_are_kubernetes(pods: Pods, script: str, exit_code: int, reason: str) -> None:
    """A process that a signal ended counts as 128 and the signal's number."""
    status = pods.run(pods.sandbox(), *shell(script))
    assert (status.exit_code, status.reason) == (exit_code, reason)


def test_environment_arguments_and_working_directory_come_from_the_config(pods: Pods, client: CriClient) -> None:
    pod = pods.sandbox()
    config = pods.container_config(("sh", "-c"))
    config.args.extend(['echo "$GREETING|$EMPTY|$(pwd)|$1"; env | grep -c ^PYTEST_', "name", "an argument"])
    config.envs.extend([pb.KeyValue(key="GREETING", value=b"good  day"), pb.KeyValue(key="EMPTY", value=b"")])
    config.working_dir = "/tmp"
    container = pods.create(pod, config)
    client.start_container(container)
    pods.ended(container)
    lines = [line.split(" ", 3)[3] for line in pod.log().read_text().splitlines()]
    assert lines == ["good  day||/tmp|an argument", "0"]


def test_mounted_directories_and_files_appear_at_their_paths(pods: Pods, client: CriClient, tmp_path: Path) -> None:
    """A read-only one refuses to be written; writes to the other are seen on the machine."""
    for name in ("writable", "readonly"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "single").write_text("single")
    pod = pods.sandbox()
    script = "cat /mnt/w/file /mnt/r/file /etc/single; echo new >/mnt/w/new; echo new >/mnt/r/new || echo refused"
    config = pods.container_config(shell(script))
    config.mounts.extend([
        pb.Mount(container_path="/mnt/w", host_path=str(tmp_path / "writable")),
        pb.Mount(container_path="/mnt/r", host_path=str(tmp_path / "readonly"), readonly=True),
        pb.Mount(container_path="/etc/single", host_path=str(tmp_path / "single"), readonly=True),
    ])  # fmt: skip
    container = pods.create(pod, config)
    client.start_container(container)
    assert pods.ended(container).exit_code == 0
    assert "writablereadonlysingle" in pod.log().read_text()
    assert "refused" in pod.log().read_text()
    assert (tmp_path / "writable" / "new").read_text() == "new\n"
    assert not (tmp_path / "readonly" / "new").exists()


def test_a_command_that_does_not_exist_fails_to_start_with_its_name_in_the_error(pods: Pods, client: CriClient) -> None:
    pod = pods.sandbox()
    container = pods.create(pod, pods.container_config(("/nonexistent/command",)))
    with pytest.raises(CriError, match="/nonexistent/command"):
        client.start_container(container)
    assert pods.ended(container).exit_code in {127, 128}


def test_unknown_containers_are_not_found_except_by_stop_and_remove(client: CriClient) -> None:
    client.stop_container(UNKNOWN, 0)
    client.remove_container(UNKNOWN)
    for call in (client.container_status, client.start_container, client.container_stats):
        with pytest.raises(CriError) as caught:
            call(UNKNOWN)
        assert isinstance(caught.value, NotFoundError) or "not found" in caught.value.details


def test_a_container_in_an_unknown_sandbox_is_refused(pods: Pods, client: CriClient) -> None:
    pod = pods.sandbox()
    client.stop_pod_sandbox(pod.id)
    client.remove_pod_sandbox(pod.id)
    with pytest.raises(CriError):
        pods.create(pod, pods.container_config(("true",)))


@pytest.mark.needs(Can.ISOLATE)
def test_a_container_sees_only_its_pods_processes_and_its_own_root(pods: Pods) -> None:
    pod = pods.sandbox()
    pods.run(pod, *shell("ls /proc | grep -c '^[0-9]'; ls -d /work /lib64 2>&1 | grep -c 'No such'"))
    counts = [int(line.rpartition(" ")[2]) for line in pod.log().read_text().splitlines()]
    assert counts[0] < 8
    assert counts[1] == 2


@pytest.mark.needs(Can.LIMIT)
def test_a_container_that_takes_more_memory_than_its_limit_is_killed_as_oomkilled(
    pods: Pods, client: CriClient, tmp_path: Path
) -> None:
    """containerd 1.6 watches the cgroup only once the container has been started, and hears of the end elsewhere: the
    memory is taken when the start is over, and the container ends when the kill is known. Both are told by files of a
    volume: a command in the container would take of its memory, and might be killed in its place.
    """
    pod = pods.sandbox()
    wait = "until [ -e /told/{0} ]; do sleep 0.1; done"
    take = "(x=a; while true; do x=$x$x$x$x; done); code=$?"
    config = pods.container_config(shell(f"{wait.format('take')}; {take}; {wait.format('end')}; exit $code"))
    config.linux.resources.memory_limit_in_bytes = 8 * 2**20
    told = tmp_path / "told"
    told.mkdir()
    config.mounts.add(host_path=str(told), container_path="/told")
    container = pods.create(pod, config)
    client.start_container(container)
    (told / "take").touch()
    eventually(lambda: client.container_status(container).status.reason == "OOMKilled")
    (told / "end").touch()
    status = pods.ended(container)
    assert (status.exit_code, status.reason) == (137, "OOMKilled")
