"""Images on an ordinary user's node: owners, marks of overlayfs, and what only root makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.images.tars import device, directory, docker_archive, file, tar, xattrs
from tests.modules.runtimes.oci.rootless.node import RootlessNode, rootless_node
from tests.support.images import busybox_image, parts

_IMAGE = "example.org/layers:1"
_FORGED = xattrs(user__overlay__opaque=b"y")


@pytest.fixture(scope="module")
def node() -> Iterator[RootlessNode]:
    """A node with an image of three layers."""
    with rootless_node() as made:
        lowest = parts(busybox_image())[1]
        middle = tar(
            directory("opt", uid=33, gid=33),
            file("opt/hidden", b"old"),
            file("opt/last", b"x", uid=65534, gid=65534),
            directory("srv"),
            file("srv/hidden", b"old"),
            directory("merged"),
            file("merged/kept", b"below"),
            directory("forged"),
            file("forged/kept", b"below"),
            file("set", b"x", mode=0o4755, uid=33),
            device("disk", 7, 0, block=True),
        )
        upper = tar(
            file("opt/.wh.hidden"),
            directory("srv"),
            file("srv/.wh..wh..opq"),
            file("srv/new", b"new"),
            directory("merged"),
            file("merged/more", b"above"),
            directory("forged", pax_headers=_FORGED),
        )
        docker_archive(made.directory / "archives" / "layers.tar", [lowest, middle, upper], [_IMAGE])
        made.images.ImageStatus(cri.ImageStatusRequest(image=cri.ImageSpec(image=_IMAGE)))
        yield made


def _run(node: RootlessNode, script: str) -> list[str]:
    return node.run(script, cri.ContainerConfig(image=cri.ImageSpec(image=_IMAGE))).splitlines()


def test_owners_modes_and_devices(node: RootlessNode) -> None:
    """Sub-ids are other users; a device, which only root makes, is left out."""
    found = _run(node, "stat -c '%u %g %a' /opt /opt/last /set; ls /disk 2>/dev/null || echo none")
    assert found == ["33 33 755", "65534 65534 644", "33 0 4755", "none"]


def test_removed_names_and_opaque_directories(node: RootlessNode) -> None:
    """Overlayfs takes its marks from other attributes here, and overlooks root's."""
    assert _run(node, "ls /opt /srv /merged") == ["/merged:", "kept", "more", "", "/opt:", "last", "", "/srv:", "new"]


def test_an_image_cannot_forge_a_mark(node: RootlessNode) -> None:
    """It could show or hide files of other layers."""
    assert _run(node, "ls /forged") == ["kept"]


def test_a_merged_directory_is_removed_and_made_again(node: RootlessNode) -> None:
    """Without `userxattr` that ends with an input/output error."""
    assert _run(node, "rm -r /merged /srv && mkdir /merged /srv && ls -A /merged /srv && chown 1000 /srv") == [
        "/merged:",
        "",
        "/srv:",
    ]


def test_nothing_of_it_is_left_for_the_user_to_remove(node: RootlessNode) -> None:
    """A container's files of sub-ids go with it."""
    container = node.shell("mkdir -m 700 /tmp/d && touch /tmp/d/f && chown -R 1000:1000 /tmp/d")
    assert node.ended(container).exit_code == 0
    node.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
    assert not Path(node.state / "containers" / container).exists()
