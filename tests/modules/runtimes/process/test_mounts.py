"""Volumes in containers: at their paths, for every kind of path; and never a trace of them on the host."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.process.node import Node, eventually, node_directory
from tests.modules.runtimes.process.server_process import RemoteNode
from tests.modules.runtimes.process.users import Somebody

_PATHS = (
    "/embedded-test-data",
    "/embedded-test-data/deep/er",
    "/etc/embedded-test",
    "/etc/embedded-test/deep/er",
    "/var/run/secrets/kubernetes.io/serviceaccount",
    "/usr/lib/embedded-test",
    "/mnt",
)
"""In a container: the host has some of them, and parents of others."""
_USER_NAMESPACES_OFF = (
    'echo 0 >/proc/sys/user/max_mnt_namespaces && echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
)


def _as_root(directory: Path) -> RemoteNode:
    if os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    return RemoteNode(directory)


def _as_somebody(directory: Path) -> RemoteNode:
    somebody = Somebody.find()
    os.chown(directory, somebody.uid, somebody.uid)
    return RemoteNode(directory, somebody.interpreter, somebody.prefix)


@pytest.fixture(scope="module", params=[_as_root, _as_somebody], ids=["root", "somebody"])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """A node whose runtime runs as root, and one whose runtime runs as an ordinary user; one of each for all tests."""
    with node_directory() as directory, request.param(directory) as started:
        yield started


@pytest.fixture
def place(node: Node) -> Path:
    """A directory of this test's own, which the runtime's user may write."""
    made = Path(tempfile.mkdtemp(dir=node.directory))
    made.chmod(0o777)
    return made


@pytest.fixture
def volume(place: Path) -> Path:
    """A directory with a file, as a volume."""
    made = place / "volume"
    made.mkdir()
    made.chmod(0o777)
    (made / "file").write_text("content\n")
    return made


def _mounts(*mounts: tuple[str, Path], readonly: bool = False) -> cri.ContainerConfig:
    return cri.ContainerConfig(
        mounts=[
            cri.Mount(container_path=container, host_path=str(host), readonly=readonly) for container, host in mounts
        ]
    )


def _on_the_host() -> set[Path]:
    """Which of `_PATHS`, of what is above them, and of the volume's file in them, the host has.

    Everything else in those directories may be made and removed by other programs at any time.
    """
    files = [Path(path) / "file" for path in _PATHS]
    return {each for file in files for each in (file, *file.parents) if each.exists()}


def test_a_directory(node: Node, volume: Path) -> None:
    """A volume is at its path, whether or not the host has that path; its siblings on the host stay visible."""
    before = _on_the_host()
    for path in _PATHS:
        script = f"cat {path}/file; head -c1 /etc/passwd >&2 && ls /proc/self/fd /usr/bin/env /dev/null >&2"
        assert node.run(script, _mounts((path, volume))) == "content\n", path
        assert _on_the_host() == before, path


def test_a_file(node: Node, volume: Path) -> None:
    """A single file covers the host's, or appears where the host lacks it."""
    config = _mounts(("/etc/hosts", volume / "file"), ("/etc/embedded-test.conf", volume / "file"))
    assert node.run("cat /etc/hosts /etc/embedded-test.conf", config) == "content\n" * 2
    assert Path("/etc/hosts").read_text() != "content\n"


def test_writable_and_readonly(node: Node, volume: Path) -> None:
    """A container's files appear in a volume; a read-only one refuses them."""
    assert node.run("echo new >/data/new", _mounts(("/data", volume))) == ""
    assert (volume / "new").read_text() == "new\n"
    script = "cat /data/file; ! touch /data/other; ! rm /data/file"
    assert node.run(script, _mounts(("/data", volume), readonly=True)) == "content\n"
    assert sorted(path.name for path in volume.iterdir()) == ["file", "new"]


def test_nested_volumes(node: Node, place: Path, volume: Path) -> None:
    """A volume inside another is seen in it, in any order of the request."""
    outer = place / "outer"
    outer.mkdir()
    outer.chmod(0o777)
    (outer / "own").write_text("outer\n")
    config = _mounts(("/data/in/ner", volume), ("/data", outer))
    assert node.run("cat /data/own /data/in/ner/file", config) == "outer\ncontent\n"


def test_one_volume_for_two_containers(node: Node, volume: Path) -> None:
    """Containers of a pod share a volume, each at a path of its own."""
    pod = node.pod()
    node.ended(node.shell("echo shared >/a/shared", _mounts(("/a", volume)), pod))
    second = cri.ContainerConfig(metadata=cri.ContainerMetadata(attempt=1))
    second.MergeFrom(_mounts(("/b", volume)))
    container = node.shell("cat /b/shared", second, pod)
    node.ended(container)
    assert node.log(container) == [("stdout", "F", "shared")]


def test_atomic_swap(node: Node, volume: Path) -> None:
    """A configMap's files, exchanged by renaming a symbolic link as kubelet does, are seen exchanged."""
    (volume / "1").mkdir()
    (volume / "1/key").write_text("old")
    (volume / "..data").symlink_to("1")
    (volume / "key").symlink_to("..data/key")
    container = node.shell("echo up; exec sleep 1000", _mounts(("/etc/config", volume), readonly=True))
    assert node.execute(container, "cat", "/etc/config/key").stdout == b"old"
    (volume / "2").mkdir()
    (volume / "2/key").write_text("new")
    (volume / "..new").symlink_to("2")
    (volume / "..new").rename(volume / "..data")
    assert node.execute(container, "cat", "/etc/config/key").stdout == b"new"


@pytest.mark.extended
def test_commands_see_the_volumes(node: Node, volume: Path) -> None:
    """A command executed in a container has its mounts, working directory, environment and user."""
    config = _mounts(("/data", volume))
    config.working_dir = "/data"
    config.envs.append(cri.KeyValue(key="WORD", value=b"word"))
    container = node.shell("id -u; exec sleep 1000", config)
    user = eventually(lambda: node.log(container))[0][2]
    answer = node.execute(container, "sh", "-c", "cat file; pwd; echo $WORD; id -u")
    assert answer.stdout.decode().split() == ["content", "/data", "word", user]


def test_a_missing_working_directory(node: Node) -> None:
    """A working directory that only an image would have is there, empty, and not on the host."""
    assert node.run("pwd; ls -A", cri.ContainerConfig(working_dir="/embedded-test/app")) == "/embedded-test/app\n"
    assert not Path("/embedded-test").exists()


def test_a_missing_host_path(node: Node, place: Path) -> None:
    """A host path that is missing is made, as containerd does for a hostPath without a type."""
    path = place / "made" / "here"
    node.run("echo x >/data/x", _mounts(("/data", path)))
    assert (path / "x").read_text() == "x\n"


def test_a_device_under_another_name(node: Node) -> None:
    """A device that the pod wants under another path is there."""
    device = cri.Device(container_path="/dev/embedded-test", host_path="/dev/zero", permissions="r")
    config = cri.ContainerConfig(devices=[device])
    assert node.run("head -c2 /dev/embedded-test | od -An -tx1", config) == " 00 00\n"


def test_a_volume_that_cannot_be_placed(node: Node, volume: Path) -> None:
    """A directory where the host has a file is refused when the container starts, with both named."""
    container = node.create(["true"], _mounts(("/etc/passwd", volume)))
    with pytest.raises(grpc.RpcError, match=r'mount at "/etc/passwd".*a file .* where a directory is needed'):
        node.start(container)
    assert node.status(container).reason == "StartError"


def test_nothing_is_written_through_a_link_in_a_volume(node: Node, place: Path, volume: Path) -> None:
    """A link inside a volume does not lead a mount point out of it."""
    target = place / "target"
    target.mkdir()
    (volume / "link").symlink_to(target)
    container = node.create(["true"], _mounts(("/data", volume), ("/data/link/x", volume)))
    with pytest.raises(grpc.RpcError, match="symbolic link inside a volume"):
        node.start(container)
    assert list(target.iterdir()) == []


@pytest.mark.extended
def test_where_namespaces_are_forbidden(directory: Path) -> None:
    """On a machine without private mounts a container with volumes is refused with the reason; others run."""
    prefix = ["unshare", "--map-root-user", "sh", "-c", _USER_NAMESPACES_OFF, "sh"]
    with RemoteNode(directory, prefix=prefix) as node:
        with pytest.raises(
            grpc.RpcError, match=r"does not permit private mounts: a mount namespace: No space"
        ) as refusal:
            node.create(["true"], _mounts(("/data", directory)))
        assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert node.run("echo runs") == "runs\n"
        hosts = directory / "etc-hosts"
        hosts.touch()
        assert node.run("echo runs", _mounts(("/etc/hosts", hosts))) == "runs\n", "what edged gives all is left out"
        info = node.cri.Status(cri.StatusRequest(verbose=True)).info["volumes"]
        assert '"possible": false' in info


def _words(node: Node) -> str:
    """The path of the termination message: the host's /dev has it too, so each test has its own."""
    return f"/dev/embedded-test-message-{node.directory.name}"


@pytest.fixture
def own_files(node: Node, place: Path) -> Iterator[cri.ContainerConfig]:
    """The files that edged gives every container: /etc/hosts of its pod, and one for its termination message."""
    hosts, words = place / "etc-hosts", place / "words"
    hosts.write_text("10.1.2.3 pod\n")
    words.touch()
    for path in (hosts, words):
        path.chmod(0o666)
    config = _mounts(("/etc/hosts", hosts), (_words(node), words))
    config.annotations["io.kubernetes.container.terminationMessagePath"] = _words(node)
    yield config
    Path(_words(node)).unlink(missing_ok=True)


@pytest.mark.parametrize("has_volume", [False, True])
def test_a_container_has_hosts_and_a_termination_message_of_its_own(
    node: Node, place: Path, volume: Path, own_files: cri.ContainerConfig, has_volume: bool
) -> None:
    """Not the machine's: they were shared by all, and stayed. Only without volumes, and without root, there is nothing
    to mount with, and the machine's files are what this user may do to them.
    """
    before = Path("/etc/hosts").read_bytes()
    if has_volume:
        own_files.mounts.append(cri.Mount(container_path="/embedded-test-data", host_path=str(volume)))
    script = f"cat /etc/hosts; echo 10.6.6.6 bank >>/etc/hosts; echo bye >{_words(node)}; true"
    printed = node.run(script, own_files)
    assert Path("/etc/hosts").read_bytes() == before
    is_root = (place / "words").read_text() != ""
    if is_root:
        assert Path(_words(node)).read_bytes() == b"", "no more than a mount point"
        assert (place / "words").read_text() == "bye\n"
    if is_root or has_volume:
        assert printed == "10.1.2.3 pod\n"
        assert (place / "etc-hosts").read_text() == "10.1.2.3 pod\n10.6.6.6 bank\n"
    if not is_root:
        assert not Path(_words(node)).exists()


@pytest.mark.extended
def test_an_invalid_termination_message_path_is_no_hindrance(node: Node, own_files: cri.ContainerConfig) -> None:
    """Relative, out of everything, or a directory: there is no message, and the container runs."""
    for path in ("relative", "/../x", "/etc", "/dev/null/below", "/etc/hosts"):
        own_files.mounts[1].container_path = path
        own_files.annotations["io.kubernetes.container.terminationMessagePath"] = path
        assert node.run("echo runs", own_files) == "runs\n"


def test_devices_that_come_later_are_seen(node: Node, own_files: cri.ContainerConfig) -> None:
    """/dev stays the machine's: an edge node's containers wait for devices to be plugged in."""
    later = Path(f"/dev/embedded-test-later-{node.directory.name}")
    container = node.shell(f"while [ ! -e {later} ]; do sleep 0.01; done; echo seen", own_files)
    if os.geteuid() != 0:
        pytest.skip("only root can make a file there")
    later.touch()
    try:
        assert node.ended(container).exit_code == 0
    finally:
        later.unlink()
