"""Archives of images in the node's directory: imported once, again when they change or an image is wanted."""

import shutil
from pathlib import Path

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.node import OciNode
from tests.support.images import busybox_image, docker_archive

NAME = "example.org/own:1"


def _images(node: OciNode) -> set[str]:
    listed = node.images.ListImages(cri.ListImagesRequest()).images
    return {tag for image in listed for tag in image.repo_tags}


def _add(node: OciNode, **labels: str) -> Path:
    archive = docker_archive(busybox_image(NAME, Labels=labels), node.directory)
    return Path(shutil.move(archive, node.directory / "archives" / "own.tar"))


def test_a_new_archive_is_imported_when_images_are_listed(node: OciNode) -> None:
    before = _images(node)
    _add(node, one="1")
    assert _images(node) == before | {NAME}


def test_a_removed_image_comes_back_when_it_is_wanted(node: OciNode) -> None:
    """And not before: collection of images would be in vain."""
    _add(node, one="1")
    spec = cri.ImageSpec(image=NAME)
    first = node.images.ImageStatus(cri.ImageStatusRequest(image=spec)).image.id
    node.images.RemoveImage(cri.RemoveImageRequest(image=spec))
    assert NAME not in _images(node)
    node.restart()
    assert NAME not in _images(node)
    assert node.images.ImageStatus(cri.ImageStatusRequest(image=spec)).image.id == first


def test_a_changed_archive_is_imported_again(node: OciNode) -> None:
    _add(node, one="1")
    spec = cri.ImageSpec(image=NAME)
    first = node.images.ImageStatus(cri.ImageStatusRequest(image=spec)).image.id
    _add(node, two="2")
    second = node.images.ImageStatus(cri.ImageStatusRequest(image=spec)).image.id
    assert first != second


def test_other_bytes_than_an_archive_end_nothing(node: OciNode, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and the others are there."""
    (node.directory / "archives" / "bad.tar").write_bytes(b"no tar at all")
    before = _images(node)
    assert before
    assert _images(node) == before
    assert sum("bad.tar" in record.getMessage() for record in caplog.records) == 1


def test_an_image_that_a_container_uses_stays_for_it(node: OciNode) -> None:
    """Removed images are found no more, but their containers start."""
    _add(node, one="1")
    assert NAME in _images(node)
    container = node.create(["true"], cri.ContainerConfig(image=cri.ImageSpec(image=NAME)))
    (node.directory / "archives" / "own.tar").unlink()
    node.images.RemoveImage(cri.RemoveImageRequest(image=cri.ImageSpec(image=NAME)))
    node.start(container)
    assert node.ended(container).exit_code == 0
    with pytest.raises(grpc.RpcError, match="there is no image"):
        node.create(["true"], cri.ContainerConfig(image=cri.ImageSpec(image=NAME)))
