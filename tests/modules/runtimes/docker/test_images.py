"""The image service on a real dockerd, with a registry on the loopback interface."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from edged.images.progress import PullProgress, progress_of
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.docker.node import DockerNode
from tests.modules.runtimes.oci.images.registry import Handler, TestRegistry
from tests.modules.runtimes.process.node import eventually
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
    """Docker's short names become full names; the pause program's is pinned; a missing one has no status."""
    assert _status(node, "busybox").repo_tags == ["docker.io/library/busybox:latest"]
    assert _status(node, "edgecore/pause:1").pinned
    assert not _status(node, "nosuch:1").id
    with pytest.raises(grpc.RpcError) as refusal:
        _status(node, "NO SUCH")
    assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    (usage,) = node.images.ImageFsInfo(cri.ImageFsInfoRequest()).image_filesystems
    assert usage.fs_id.mountpoint == str(node.dockerd.directory / "data")
    assert usage.used_bytes.value > 0


def test_progress_of_a_pull(node: DockerNode) -> None:
    """The status says how far a layer is while its registry hesitates, and nothing when the pull has ended."""
    content = os.urandom(4 << 20)  # it cannot be compressed
    _, layer = parts(Image("x", (ImageFile("file", content),)))
    with TestRegistry() as registry:
        registry.add([layer])
        (digest,) = registry.layer_digests()
        blob = registry.blobs[digest]

        def half(handler: Handler) -> bool:
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(blob)))
            handler.end_headers()
            handler.wfile.write(blob[: len(blob) // 2])
            handler.wfile.flush()
            registry.released.wait()
            handler.wfile.write(blob[len(blob) // 2 :])
            return True

        registry.fail(digest, half)
        name = f"{registry.address}/images/large:1"

        def progress() -> PullProgress | None:
            return progress_of(name, dict(node.cri.Status(cri.StatusRequest(verbose=True)).info))

        with ThreadPoolExecutor(1) as threads:
            try:
                pulled = threads.submit(node.images.PullImage, cri.PullImageRequest(image=cri.ImageSpec(image=name)))
                found = eventually(progress)
                assert found is not None
                assert [(each.name, each.size) for each in found.layers] == [(digest[7:19], len(blob))]
                assert (0 < found.fetched < len(blob), found.unpacked) == (True, 0)
            finally:
                registry.released.set()
            assert pulled.result().image_ref
        assert progress() is None
    node.images.RemoveImage(cri.RemoveImageRequest(image=cri.ImageSpec(image=name)))
