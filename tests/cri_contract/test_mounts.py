"""critest: Mount propagation, Mount readonly, Image volume."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import LOOP, Client, refused
from tests.support.leftovers import unmount_under

_TOUCH = "touched() { touch $1 2>&1 | grep -q 'Read-only file system' && echo refused; }; touched"


class Shared(NamedTuple):
    """A directory of the machine that is a shared mount, with one more mount below it."""

    path: Path
    inner: Path

    def mount(self, name: str) -> None:
        """Mount memory with a file in it at a directory below."""
        directory = self.path / name
        directory.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "edgecore-contract", str(directory)], check=True)
        (directory / "file").write_text("seen")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    """Such a directory; nothing stays mounted."""
    made = Shared(tmp_path / "shared", tmp_path / "shared" / "inner")
    made.path.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "edgecore-contract", str(made.path)], check=True)
        subprocess.run(["mount", "--make-shared", str(made.path)], check=True)
        made.mount("inner")
        yield made
    finally:
        unmount_under(tmp_path)


_PROPAGATIONS = [
    pytest.param(cri.PROPAGATION_PRIVATE, False, False, id="private"),
    pytest.param(cri.PROPAGATION_HOST_TO_CONTAINER, True, False, id="host-to-container"),
    pytest.param(cri.PROPAGATION_BIDIRECTIONAL, True, True, id="bidirectional"),
]


@pytest.mark.parametrize(("propagation", "goes_in", "comes_out"), _PROPAGATIONS)
def test_propagation(
    client: Client, shared: Shared, propagation: cri.MountPropagation.ValueType, goes_in: bool, comes_out: bool
) -> None:
    """critest: Mount propagation: mount with rprivate, rslave and rshared; the status tells it."""
    mount = cri.Mount(host_path=str(shared.path), container_path="/mnt", propagation=propagation)
    config = client.pod_config()
    config.linux.security_context.privileged = True
    security = cri.LinuxContainerSecurityContext(privileged=True)
    container = client.start(*LOOP, pod=client.pod(config), security=security, mounts=[mount])
    shared.mount("later")
    assert client.said(container, "cat /mnt/later/file || true") == ("seen" if goes_in else "")
    client.said(container, "mkdir /mnt/own && mount -t tmpfs edgecore-contract /mnt/own && touch /mnt/own/file")
    assert client.said(container, "ls /mnt/own") == "file\n"
    assert (shared.path / "own" / "file").exists() is comes_out
    assert client.status(container).mounts[0].propagation == propagation


def test_not_recursively_read_only(client: Client, shared: Shared) -> None:
    """critest: Mount readonly: a read-only mount is so itself; what is mounted below it stays writable."""
    mount = cri.Mount(host_path=str(shared.path), container_path="/mnt", readonly=True)
    container = client.start(*LOOP, mounts=[mount])
    assert client.said(container, f"{_TOUCH} /mnt/inner/new; {_TOUCH} /mnt/new").endswith("refused\n")
    assert (shared.inner / "new").exists()


def test_recursively_read_only(client: Client, shared: Shared) -> None:
    """critest: Mount readonly: recursive read-only; what is mounted below cannot be written either."""
    mount = cri.Mount(host_path=str(shared.path), container_path="/mnt", readonly=True, recursive_read_only=True)
    container = client.start(*LOOP, mounts=[mount])
    assert client.said(container, f"{_TOUCH} /mnt/inner/new; {_TOUCH} /mnt/new") == "refused\n" * 2
    assert client.status(container).mounts[0].recursive_read_only


_CONTRADICTIONS = [
    pytest.param({"readonly": True, "propagation": cri.PROPAGATION_HOST_TO_CONTAINER}, id="host-to-container"),
    pytest.param({"readonly": True, "propagation": cri.PROPAGATION_BIDIRECTIONAL}, id="bidirectional"),
    pytest.param({"readonly": False}, id="writable"),
]


@pytest.mark.parametrize("fields", _CONTRADICTIONS)
def test_recursively_read_only_refused(client: Client, shared: Shared, fields: dict[str, object]) -> None:
    """critest: Mount readonly: recursive read-only with propagation, or of a writable mount, is refused."""
    mount = cri.Mount(host_path=str(shared.path), container_path="/mnt", recursive_read_only=True, **fields)  # type: ignore[arg-type]
    refused(lambda: client.create(*LOOP, mounts=[mount]))


def _image_mount(client: Client, **fields: object) -> cri.Mount:
    image = cri.ImageSpec(image=client.pulled("web"))
    return cri.Mount(container_path="/mnt", image=image, **{"readonly": True, **fields})  # type: ignore[arg-type]


def test_image_volume(client: Client) -> None:
    """critest: Image volume: the image's files are there, can be run, and cannot be written."""
    container = client.start(*LOOP, mounts=[_image_mount(client)])
    assert client.said(container, "ls /mnt/bin/sh; /mnt/bin/busybox echo ran") == "/mnt/bin/sh\nran\n"
    assert b"Read-only file system" in client.execute(container, "touch", "/mnt/new").stderr


def test_image_volume_in_the_status(client: Client) -> None:
    """critest: Image volume: the status tells the image's id."""
    container = client.start(*LOOP, mounts=[_image_mount(client)])
    image = client.image(client.images.name("web"))
    assert image is not None
    assert [each.image.image_ref for each in client.status(container).mounts] == [image.id]


def test_image_volume_is_not_writable(client: Client) -> None:
    """critest: Image volume: `readonly: false` is refused."""
    mount = _image_mount(client, readonly=False)
    refused(lambda: client.create(*LOOP, mounts=[mount]))


def test_image_volume_of_a_part(client: Client) -> None:
    """critest: Image volume: a path in the image."""
    container = client.start(*LOOP, mounts=[_image_mount(client, image_sub_path="etc")])
    assert client.said(container, "grep -c www-data /mnt/passwd") == "1\n"


def test_image_volume_of_a_missing_part(client: Client) -> None:
    """critest: Image volume: a path that the image does not have is refused, by our runtime at the creation."""
    mount = _image_mount(client, image_sub_path="no/such")
    attempt = client.start if client.kind.name == "containerd" else client.create
    assert refused(lambda: attempt(*LOOP, mounts=[mount])).code() is not grpc.StatusCode.UNIMPLEMENTED


def test_mounts_hide_nothing_of_each_other(client: Client, tmp_path: Path) -> None:
    """Volumes one below the other are both seen, in whatever order they are given."""
    for name in ("outer", "inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
        (tmp_path / name / name).touch()
    mounts = [
        cri.Mount(host_path=str(tmp_path / "inner"), container_path="/mnt/outer/below"),
        cri.Mount(host_path=str(tmp_path / "outer"), container_path="/mnt/outer"),
    ]
    container = client.start(*LOOP, mounts=mounts)
    assert client.said(container, "ls /mnt/outer; ls /mnt/outer/below") == "below\nouter\ninner\n"


_READ_ONLY = cri.LinuxContainerSecurityContext(readonly_rootfs=True)


def test_volumes_of_the_image(client: Client) -> None:
    """As in containerd, CRI-O and Docker: a VOLUME is a writable directory of the container's own, with the image's
    files, also where the image has no such path and the root is read-only.
    """
    pod = client.pod()
    container = client.start(*LOOP, image="volumes", pod=pod, security=_READ_ONLY)
    assert client.said(container, "cat /www/index.html; stat -c '%u %a' /www") == "the page of the contract\n0 755\n"
    assert client.said(container, "echo mine > /www/index.html && touch /data/new && ls /data") == "new\n"
    assert client.said(container, f"{_TOUCH} /etc/new") == "refused\n"
    other = client.start(*LOOP, image="volumes", pod=pod, security=_READ_ONLY)
    assert client.said(other, "ls /data; cat /www/index.html") == "the page of the contract\n"


def test_a_mount_in_place_of_a_volume_of_the_image(client: Client, tmp_path: Path) -> None:
    """What the pod mounts at the path of a VOLUME replaces it."""
    directory = tmp_path / "volume"
    directory.mkdir()
    directory.chmod(0o777)
    (directory / "mounted").touch()
    mount = cri.Mount(host_path=str(directory), container_path="/www")
    container = client.start(*LOOP, image="volumes", mounts=[mount])
    assert client.said(container, "ls /www; touch /www/new") == "mounted\n"
    assert (directory / "new").exists()
