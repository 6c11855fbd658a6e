"""critest: Image, Image consistency, Image ids."""

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from modules.runtimes.oci.images.worker import platforms
from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import LOOP, Client, refused
from tests.cri_contract.images import SAME, SMALL_ARCHITECTURE
from tests.modules.runtimes.oci.images.registry import Handler
from tests.support.patience import PATIENCE


@pytest.mark.parametrize("by", ["tag", "nothing", "digest"])
def test_pull_and_remove(client: Client, by: str) -> None:
    """critest: Image: public image with tag, without tag, with digest should be pulled and removed."""
    tag = {"tag": "test", "nothing": "latest", "digest": "digest"}[by]
    images = client.images
    name = {"tag": images.name(tag), "nothing": images.untagged(), "digest": images.by_digest(tag)}[by]
    client.pull(name)
    image = client.image(name)
    assert image is not None
    assert image.size > 0
    assert list(image.repo_tags) == ([] if by == "digest" else [images.name(tag)])
    assert list(image.repo_digests) == [images.by_digest(tag)]
    client.remove_image(image.id)
    assert client.image(name) is None
    assert image.id not in [each.id for each in client.listed_images()]


def test_a_pull_with_a_deadline(client: Client) -> None:
    """critest: Image: a pull whose client waits 1 ms ends with DEADLINE_EXCEEDED."""
    released, images = threading.Event(), client.images

    def stall(handler: Handler) -> bool:
        released.wait(PATIENCE)
        return handler.reply(503)

    images.fail("/manifests/stalled", stall, stall)
    try:
        error = refused(lambda: client.pull(images.name("stalled"), timeout=0.001))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    finally:
        released.set()
    assert client.image(images.name("stalled")) is None


def test_a_missing_image(client: Client) -> None:
    """An image that no registry has is an error of the pull, and has no status."""
    name = client.images.name("nosuch")
    refused(client.pull, name)
    assert client.image(name) is None


def test_status_by_every_reference(client: Client) -> None:
    """critest: Image: image status should support all kinds of references: id, tags, digests."""
    image = client.image(client.pulled("test"))
    assert image is not None
    for reference in (image.id, *image.repo_tags, *image.repo_digests):
        assert client.image(reference) == image
    client.remove_image(image.id)


@pytest.mark.parametrize(
    ("tag", "uid", "username"),
    [
        ("user-uid", 1002, ""),
        ("user-username", None, "www-data"),
        ("user-uid-group", 1003, ""),
        ("user-username-group", None, "www-data"),
    ],
)
def test_user(client: Client, tag: str, uid: int | None, username: str) -> None:
    """critest: Image: image status get image fields should not have Uid|Username empty."""
    image = client.image(client.pulled(tag))
    assert image is not None
    assert (image.uid.value if image.HasField("uid") else None) == uid
    assert image.username == username


def test_three_images(client: Client) -> None:
    """critest: Image: listImage should get exactly 3 image in the result list."""
    names = [client.pulled(tag) for tag in ("one", "two", "three")]
    listed = {tag: each.id for each in client.listed_images() for tag in each.repo_tags}
    assert len({listed[name] for name in names}) == 3
    for name in names:
        client.remove_image(name)


def test_three_tags(client: Client) -> None:
    """critest: Image: listImage should get exactly 3 repoTags in the result image."""
    names = [client.pulled(tag) for tag in SAME]
    (found,) = (each for each in client.listed_images() if names[0] in each.repo_tags)
    assert sorted(found.repo_tags) == names
    client.remove_image(found.id)


def test_removal_by_one_tag(client: Client) -> None:
    """critest: Image: removing an image by one of its tags removes them all."""
    names = [client.pulled(tag) for tag in SAME]
    image = client.image(names[0])
    assert image is not None
    client.remove_image(names[0])
    assert [client.image(each) for each in (*names, image.id)] == [None] * 4


def test_one_image_of_two_registries(client: Client) -> None:
    """critest: Image: an image of two registries is one, with both names; removing it removes both."""
    names = [client.images.name("test", host) for host in ("127.0.0.1", "localhost")]
    for name in names:
        client.pull(name)
    image = client.image(names[0])
    assert image is not None
    assert sorted(image.repo_tags) == names
    client.remove_image(image.id)
    assert [client.image(each) for each in (*names, image.id)] == [None] * 3


def test_gone_after_removal(client: Client) -> None:
    """critest: Image consistency: an image is gone as soon as its removal has returned."""
    name = client.pulled("test")
    client.remove_image(name)
    assert client.image(name) is None
    assert name not in [tag for each in client.listed_images() for tag in each.repo_tags]


def test_listed_after_pull(client: Client) -> None:
    """critest: Image consistency: an image is listed as soon as its pull has returned."""
    name = client.images.name("test")
    client.pull(name)
    assert name in [tag for each in client.listed_images() for tag in each.repo_tags]
    client.remove_image(name)


def test_removals_at_once(client: Client) -> None:
    """critest: Image consistency: several removals of one image in parallel are no error."""
    name = client.pulled("test")
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(client.remove_image, [name] * 5))
    assert client.image(name) is None


def test_ids_across_calls(client: Client) -> None:
    """critest: Image ids: PullImage, Image, Container and ContainerStatus give the same id."""
    name = client.images.name("test")
    reference = client.pull(name)
    image = client.image(name)
    assert image is not None
    container = client.start(*LOOP, image="test")
    ids = {reference, image.id, client.listed()[container].image_id, client.status(container).image_id}
    assert ids == {image.id}


def test_ids_across_registries(client: Client) -> None:
    """critest: Image ids: one image has the same id from two registries."""
    hosts = ("127.0.0.1", "localhost")
    ids = {client.pull(client.images.name("test", host)) for host in hosts}
    assert len(ids) == 1
    client.remove_image(ids.pop())


def test_an_image_in_use(client: Client) -> None:
    """An image that a container uses can be removed; the container runs on, also after a new start of a command."""
    container = client.start(*LOOP, image="test")
    client.remove_image(client.images.name("test"))
    assert client.said(container, "echo here") == "here\n"


def test_file_systems(client: Client) -> None:
    """ImageFsInfo names the file system of the images and how much they take."""
    client.pulled("busybox")
    answer = client.image_service.ImageFsInfo(cri.ImageFsInfoRequest())
    (usage,) = answer.image_filesystems
    assert usage.fs_id.mountpoint.startswith("/")
    assert usage.timestamp > 0
    assert usage.used_bytes.value > 0


@pytest.mark.skipif(not platforms.runs(SMALL_ARCHITECTURE), reason="the kernel runs no programs of 32 bits")
def test_an_image_of_32_bits(client: Client) -> None:
    """As in containerd: on a machine of 64 bits an image of its 32-bit architecture is pulled, and runs."""
    seccomp = cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault)
    container = client.start(image="small", security=cri.LinuxContainerSecurityContext(seccomp=seccomp))
    assert client.ended(container).status.exit_code == 77
