"""Containers of images that declare volumes (`VOLUME`)."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from modules.runtimes.oci.images import DECLARED, root_filesystems
from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import refused
from tests.modules.runtimes.oci.node import OciNode, RemoteOciNode
from tests.support.images import busybox_image, docker_archive

_IMAGE = "docker.io/library/with-volumes:1"


@pytest.fixture(params=[{"/data": {}, "/etc": {}}])
def with_volumes(request: pytest.FixtureRequest, node_root: Path) -> cri.ContainerConfig:
    """The configuration of a container whose image declares volumes."""
    archive = docker_archive(busybox_image(_IMAGE, Volumes=request.param), node_root)
    shutil.move(archive, node_root / "archives" / "volumes.tar")
    return cri.ContainerConfig(image=cri.ImageSpec(image=_IMAGE))


@pytest.fixture(params=["overlay", "copy"])
def rooted(request: pytest.FixtureRequest, node_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OciNode]:
    """A node whose root file systems are overlays, or copies."""
    if request.param == "copy":

        def refuse(*_: object, **__: object) -> None:
            raise OSError(19, "No such device")

        monkeypatch.setattr(root_filesystems, "mount", refuse)
    with OciNode(node_root) as started:
        yield started


def test_they_are_the_containers_own(with_volumes: cri.ContainerConfig, rooted: OciNode) -> None:
    """Made at its start, counted with its writable layer, and removed with it; mounted without devices."""
    container = rooted.shell("dd if=/dev/zero of=/data/zeros bs=1M count=3 && sync; exec sleep 1000", with_volumes)
    directory = rooted.state / "containers" / container / DECLARED
    assert rooted.execute(container, "grep", "-c", "root:x", "/etc/passwd").stdout == b"1\n"
    options = rooted.execute(container, "grep", " /data ", "/proc/mounts").stdout.split()[3].split(b",")
    assert {b"rw", b"nosuid", b"nodev"} <= set(options)
    assert sorted(each.name for each in directory.iterdir()) == ["0", "1"]
    rooted.logged(container, "3+0 records out")
    usage = rooted.cri.ContainerStats(cri.ContainerStatsRequest(container_id=container)).stats.writable_layer
    assert usage.used_bytes.value >= 3 << 20
    rooted.stop(container, 0)
    assert (directory / "0" / "zeros").exists()
    rooted.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
    assert not directory.parent.exists()


@pytest.mark.parametrize("with_volumes", [{"/etc/passwd": {}}], indirect=True)
def test_a_file_in_the_place_of_one(with_volumes: cri.ContainerConfig, node: OciNode) -> None:
    """The start fails with the reason, as containerd's creation does."""
    container = node.create(["true"], with_volumes)
    error = refused(node.start, container)
    assert 'no directory at its volume "/etc/passwd"' in str(error)
    assert node.status(container).reason == "StartError"


@pytest.mark.parametrize("with_volumes", [{"/": {}}], indirect=True)
def test_an_impossible_one(with_volumes: cri.ContainerConfig, node: OciNode) -> None:
    """Nothing is made."""
    assert refused(node.create, ["true"], with_volumes).code() is grpc.StatusCode.INVALID_ARGUMENT
    assert node.states() == {}


def test_killed_while_they_are_made(with_volumes: cri.ContainerConfig, doomed: RemoteOciNode) -> None:
    """The container is as it was created; what has its place then makes its own."""
    doomed.serve_until("after modules.runtimes.oci.bundles:make_declared_volumes")
    command = ["sh", "-c", "ls /data && exec sleep 1000"]
    container = doomed.create(command, with_volumes)
    refused(doomed.start, container)
    left = doomed.state / "containers" / container / DECLARED / "0" / "left"
    left.touch()
    doomed.kill()
    doomed.serve()
    assert doomed.status(container).state == cri.CONTAINER_CREATED
    doomed.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
    assert not left.exists()
    doomed.start(doomed.create(command, with_volumes))
