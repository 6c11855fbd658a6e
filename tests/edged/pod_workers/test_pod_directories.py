"""A pod's files on the node."""

import os
import stat
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from beehive.files.damaged import all_set_aside
from beehive.files.removal import remove_tree
from beehive.simulation import Simulation
from edged.errors import ConfigError
from edged.pod_workers.pod_directories import PodDirectories
from edged.pods.labels import ref_of
from edged.pods.model import ContainerId, PodRef, PodUid
from edged.pods.paths import log_path
from edged.settings import EdgedSettings
from edged.volumes import VolumeError
from edged.volumes.mounting import MountTable
from modules.apimachinery.types import Container, ObjectMeta, Pod, PodSpec
from tests.beehive.files.trees import DEEP, make_deep, no_way_down
from tests.edged.volumes.mounting import needs_mounts, nothing_mounted_at_the_end

POD = Pod(
    metadata=ObjectMeta(name="web", namespace="default", uid="u1"),
    spec=PodSpec(containers=(Container(name="main", image="x", termination_message_path="/dev/termination-log"),)),
)
MAIN = POD.spec.containers[0]


def files_in(root: Path) -> PodDirectories:
    settings = EdgedSettings(node_name="n1", root=root / "edged", pod_logs=root / "logs", runtime_endpoint="")
    return PodDirectories(settings, Simulation(1).clock)


@pytest.fixture
def files(tmp_path: Path) -> PodDirectories:
    return files_in(tmp_path)


def mounted(files: PodDirectories, ips: tuple[str, ...] = ("10.0.0.1",), attempt: int = 0) -> dict[str, Path]:
    """Where what a container sees is on the node, by its path in the container."""
    return {m.container_path: Path(m.host_path) for m in files.mounts(POD, MAIN, attempt, {}, {}, ips)}


class _NoSources:
    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"asked for {name}")


def prepare(files: PodDirectories) -> None:
    files.prepare(POD, _NoSources())  # type: ignore[arg-type]


def test_a_pod_whose_name_no_directory_can_have_is_removed(files: PodDirectories, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    files.remove(PodRef(PodUid("u9"), "default", "x" * 300))


def test_directories_of_a_pod_are_open_to_nobody_else(files: PodDirectories, tmp_path: Path) -> None:
    prepare(files)
    files.make_log_directory(POD)
    assert stat.S_IMODE((tmp_path / "edged" / "pods" / "u1").stat().st_mode) & 0o007 == 0
    assert (tmp_path / "logs" / "default_web_u1").is_dir()
    assert files.pods() == ["u1"]


@pytest.mark.parametrize(("length", "fits"), [(210, True), (211, False)])
def test_a_pod_whose_names_are_too_long_for_its_log_directory_is_told_so(
    files: PodDirectories, length: int, *, fits: bool
) -> None:
    uid = "0ba0ee0a-7f3d-4b9b-9a4f-9a1c5cf6b7f1"
    pod = replace(POD, metadata=ObjectMeta(name="x" * length, namespace="default", uid=uid))
    if fits:
        files.make_log_directory(pod)
    else:
        with pytest.raises(ConfigError, match="namespace and name have 218 characters, 217 at most"):
            files.make_log_directory(pod)


def test_a_container_sees_its_pods_hosts_and_a_file_for_its_last_words(files: PodDirectories) -> None:
    prepare(files)
    seen = mounted(files)
    assert "10.0.0.1\tweb" in seen["/etc/hosts"].read_text()
    assert seen["/etc/hosts"].stat().st_mode & 0o777 == 0o644, "any user of the container may read it"
    assert stat.S_IMODE(seen["/dev/termination-log"].stat().st_mode) == 0o666


def test_a_containers_changes_of_its_hosts_file_keep_no_other_from_starting(files: PodDirectories) -> None:
    """It may be no text."""
    prepare(files)
    path = mounted(files)["/etc/hosts"]
    right = path.read_bytes()
    path.write_bytes(b"\xff" * len(right))
    assert mounted(files)["/etc/hosts"].read_bytes() == right
    path.write_bytes(right + b"10.0.0.9 more")
    assert mounted(files)["/etc/hosts"].read_bytes() == right


def test_on_the_hosts_network_a_container_gets_a_copy_of_the_machines_hosts(files: PodDirectories) -> None:
    """Root without any capability owned the machine's own file, and wrote to it."""
    prepare(files)
    pod = replace(POD, spec=replace(POD.spec, host_network=True))
    seen = {m.container_path: Path(m.host_path) for m in files.mounts(pod, MAIN, 0, {}, {}, ())}["/etc/hosts"]
    assert seen != Path("/etc/hosts")
    assert not seen.is_symlink()
    machine = Path("/etc/hosts").read_bytes()
    assert seen.read_bytes() == b"# Kubernetes-managed hosts file (host network).\n" + machine
    seen.write_text("10.6.6.6 bank.example\n")
    assert Path("/etc/hosts").read_bytes() == machine


def test_hosts_are_rewritten_only_when_they_changed(files: PodDirectories) -> None:
    """Other containers read the file meanwhile."""
    prepare(files)
    path = mounted(files)["/etc/hosts"]
    os.utime(path, (1, 1))
    mounted(files)
    assert path.stat().st_mtime == 1
    mounted(files, ("10.0.0.2",))
    assert "10.0.0.2\tweb" in path.read_text()


def test_each_attempt_has_last_words_of_its_own(files: PodDirectories) -> None:
    prepare(files)
    first = mounted(files)["/dev/termination-log"]
    first.write_text("good bye")
    assert mounted(files, attempt=1)["/dev/termination-log"].read_text() == ""
    assert first.read_text() == "good bye"


def test_the_log_of_a_container_and_its_link_go_with_it_and_with_no_other(
    files: PodDirectories, tmp_path: Path
) -> None:
    prepare(files)
    files.make_log_directory(POD)
    logs = [tmp_path / "logs/default_web_u1" / log_path("main", attempt) for attempt in (0, 1)]
    words = [mounted(files, attempt=attempt)["/dev/termination-log"] for attempt in (0, 1)]
    for each in logs:
        each.parent.mkdir(exist_ok=True)
        each.write_text("x")
    for attempt, container_id in enumerate(("c0", "c1")):
        files.link_log(POD, "main", attempt, ContainerId(container_id))
    links = [tmp_path / f"containers/web_default_main-c{attempt}.log" for attempt in (0, 1)]
    assert [each.readlink() for each in links] == logs
    (tmp_path / "containers/of-another.log").symlink_to("/var/log/pods/gone")
    for _ in range(2):
        files.remove_container(ref_of(POD), "main", 0)
        assert [each.exists() for each in (*logs, *words, *links)] == [False, True] * 3
    files.remove(ref_of(POD))
    assert [each.name for each in (tmp_path / "containers").iterdir()] == ["of-another.log"]


def test_a_container_runs_without_a_link_to_its_log(
    files: PodDirectories, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file is where the directory of the links should be."""
    (tmp_path / "containers").touch()
    files.link_log(POD, "main", 0, ContainerId("c0"))
    assert "the log of container main has no link" in caplog.text


def test_files_and_logs_go_and_a_second_removal_is_no_error(files: PodDirectories, tmp_path: Path) -> None:
    prepare(files)
    files.make_log_directory(POD)
    for _ in range(2):
        files.remove(ref_of(POD))
        assert files.pods() == []
        assert list((tmp_path / "logs").iterdir()) == []


def test_a_removal_that_was_interrupted_is_found_again(files: PodDirectories, tmp_path: Path) -> None:
    """The pod's directory goes last; of the pod nothing more is known than its uid."""
    prepare(files)
    files.make_log_directory(POD)
    left = iter((remove_tree, None))

    def remove_the_first(path: Path) -> None:
        remove = next(left)
        if remove is None:
            raise OSError("the power went")
        remove(path)

    with (
        patch("edged.pod_workers.pod_directories.remove_tree", remove_the_first),
        pytest.raises(OSError, match="power"),
    ):
        files.remove(ref_of(POD))
    assert files.pods() == ["u1"]
    files.remove(PodRef(PodUid("u1"), "", ""))
    assert files.pods() == []
    assert list((tmp_path / "logs").iterdir()) == []


def test_deeply_nested_files_of_a_container_are_removed(files: PodDirectories, tmp_path: Path) -> None:
    """1,500 directories in an emptyDir ended the removal with RecursionError, again and again."""
    prepare(files)
    make_deep(tmp_path / "edged/pods/u1/volumes/kubernetes.io~empty-dir/v", DEEP)
    make_deep(tmp_path / "logs/default_web_u1/main", DEEP)
    with no_way_down():
        files.remove(ref_of(POD))
    assert files.pods() == []
    assert list((tmp_path / "logs").iterdir()) == []


def test_only_the_logs_of_exactly_that_pod_go(files: PodDirectories, tmp_path: Path) -> None:
    others = [tmp_path / "logs" / name for name in ("default_web_u11", "default_web_xu1", "u1")]
    for other in others:
        other.mkdir(parents=True)
    files.remove(PodRef(PodUid("u1"), "", ""))
    files.remove(PodRef(PodUid("*"), "", ""))
    assert all(other.is_dir() for other in others)


def test_links_are_removed_and_not_followed(files: PodDirectories, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    prepare(files)
    (tmp_path / "edged" / "pods" / "u1" / "link").symlink_to(precious)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "default_web_u1").symlink_to(precious)
    files.remove(ref_of(POD))
    assert (precious / "file").read_text() == "kept"
    assert files.pods() == []
    assert list((tmp_path / "logs").iterdir()) == []


def test_a_file_in_place_of_a_pods_directory_gives_way(files: PodDirectories, tmp_path: Path) -> None:
    """For an unknown pod, it is removed like the directory."""
    place = tmp_path / "edged" / "pods" / "u1"
    place.parent.mkdir(parents=True)
    place.write_text("what a failing disk has made of it")
    assert files.pods() == ["u1"]
    files.remove(PodRef(PodUid("u1"), "", ""))
    assert files.pods() == []
    place.symlink_to(tmp_path / "nowhere")
    prepare(files)
    assert place.is_dir()
    assert [path.name for path in all_set_aside(tmp_path / "edged")] == ["u1.1"]


@needs_mounts
@pytest.mark.parametrize("place", ["edged/pods/u1/a volume", "logs/default_web_u1/a volume"])
@pytest.mark.parametrize("ref", [ref_of(POD), PodRef(PodUid("u1"), "", "")])
def test_a_mounted_directory_is_not_emptied(files: PodDirectories, tmp_path: Path, place: str, ref: PodRef) -> None:
    """A file system that somebody else has mounted, and a directory of the same one, as by a bind mount."""
    prepare(files)
    files.make_log_directory(POD)
    volume = tmp_path / place
    elsewhere = tmp_path / "elsewhere"
    for directory in (volume, elsewhere):
        directory.mkdir()
    with nothing_mounted_at_the_end(tmp_path) as mounts:
        for mount in (partial(mounts.tmpfs, volume, 4096), partial(mounts.bind, elsewhere, volume)):
            mount()
            (volume / "file").touch()
            with pytest.raises(VolumeError, match=f"{volume}.*mount point"):
                files.remove(ref)
            assert (volume / "file").exists()
            mounts.unmount(volume)
        files.remove(ref)
    assert not volume.parent.exists()
    assert (elsewhere / "file").exists()


def test_a_pod_without_volumes_leaves_without_a_look_at_all_mounts(files: PodDirectories) -> None:
    """The kernel's table of mounts has several lines of each pod: reading it for each is quadratic."""
    prepare(files)
    files.make_log_directory(POD)
    with patch.object(MountTable, "content", side_effect=AssertionError):
        files.remove_volumes(ref_of(POD))
        files.remove(ref_of(POD))
    assert files.pods() == []


@pytest.mark.parametrize("uid", ["..", ".", "a/b"])
def test_no_name_leaves_its_directory(files: PodDirectories, uid: str) -> None:
    with pytest.raises(ConfigError):
        files.remove(PodRef(PodUid(uid), "default", "web"))
