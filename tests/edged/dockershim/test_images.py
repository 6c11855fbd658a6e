"""The image service on a real dockerd, with a registry on the loopback interface."""

from collections.abc import Iterator

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.edged.dockershim.node import DockerNode
from tests.edged.oci.images.registry import TestRegistry
from tests.support.images import Image, ImageFile, parts

pytestmark = pytest.mark.slow


@pytest.fixture
def registry() -> Iterator[TestRegistry]:
    """A registry that wants a name and a password."""
    with TestRegistry(wants="basic") as served:
        _, layer = parts(Image("x", (ImageFile("file", b"content"),)))
        served.add([layer], User="1002:1003")
        yield served


def _status(node: DockerNode, name: str) -> cri.Image:
    answer: cri.ImageStatusResponse = node.images.ImageStatus(cri.ImageStatusRequest(image=cri.ImageSpec(image=name)))
    return answer.image


def test_an_image_from_a_registry(node: DockerNode, registry: TestRegistry) -> None:
    """It is pulled with credentials, found by all its names and its id, and removed with all of them."""
    name = f"{registry.address}/images/one:1"
    spec = cri.ImageSpec(image=name)
    with pytest.raises(grpc.RpcError) as refusal:
        node.images.PullImage(cri.PullImageRequest(image=spec))
    assert "unauthorized" in str(refusal.value.details()).lower() or "no basic auth" in str(refusal.value.details())
    auth = cri.AuthConfig(username="user", password="secret", server_address=registry.address)  # noqa: S106
    key = node.images.PullImage(cri.PullImageRequest(image=spec, auth=auth)).image_ref
    found = _status(node, name)
    assert (found.id, list(found.repo_tags), found.uid.value, found.pinned) == (key, [name], 1002, False)
    assert [_status(node, each) for each in (key, *found.repo_digests)] == [found, found]
    listed = node.images.ListImages(cri.ListImagesRequest()).images
    assert (key, [name]) in [(each.id, list(each.repo_tags)) for each in listed]
    node.images.RemoveImage(cri.RemoveImageRequest(image=spec))
    node.images.RemoveImage(cri.RemoveImageRequest(image=spec))
    assert not _status(node, name).id


def test_images_that_are_there(node: DockerNode) -> None:
    """Docker's short names are told in full; that of the pause program is pinned; a missing one has no status."""
    assert _status(node, "busybox").repo_tags == ["docker.io/library/busybox:latest"]
    assert _status(node, "edgecore/pause:1").pinned
    assert not _status(node, "nosuch:1").id
    with pytest.raises(grpc.RpcError) as refusal:
        _status(node, "NO SUCH")
    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    (usage,) = node.images.ImageFsInfo(cri.ImageFsInfoRequest()).image_filesystems
    assert usage.fs_id.mountpoint == str(node.dockerd.directory / "data")
    assert usage.used_bytes.value > 0
