"""Images, present and missing ones."""

import pytest

from edged.cri import CriError, NotFoundError
from edged.cri.client import CriClient
from edged.gc.images import names_in_use, sandbox_images, unused, updated_records
from protos.cri.v1 import api_pb2 as pb
from tests.edged.cri.harness import Can, Pods, RuntimeUnderTest

MISSING = pb.ImageSpec(image="127.0.0.1:1/never/pushed:1")


def test_the_image_of_a_container_is_present_and_listed(
    cri_runtime: RuntimeUnderTest, pods: Pods, client: CriClient
) -> None:
    container = pods.start(pods.sandbox(), "sleep", "1000")
    image = client.image_status(pb.ImageSpec(image=cri_runtime.image))
    assert image is not None
    assert image.id
    assert cri_runtime.image in image.repo_tags
    assert image.id in {listed.id for listed in client.list_images()}
    assert client.container_status(container).status.image_ref in {image.id, *image.repo_digests}


@pytest.mark.needs(Can.IMAGES)
def test_garbage_collection_knows_which_are_used_and_which_the_sandboxes_need(
    cri_runtime: RuntimeUnderTest, pods: Pods, client: CriClient
) -> None:
    """A runtime names one image in several ways: in a container it is not called as in the list."""
    pods.start(pods.sandbox(), "sleep", "1000")
    used, pinned = names_in_use(client.list_containers(), ()), sandbox_images(client)
    records = updated_records({}, client.list_images(), used, pinned, 10.0)
    image = client.image_status(pb.ImageSpec(image=cri_runtime.image))
    assert image is not None
    assert records[image.id].last_used == 10.0
    assert [record.pinned for record in records.values()].count(True) >= 1, "that of the sandboxes"
    assert image.id not in {record.id for record in unused(records, 10.0, 0.0)}


def test_filesystems_of_images_are_named(client: CriClient) -> None:
    (usage,) = client.image_fs_info()
    assert usage.fs_id.mountpoint.startswith("/")
    assert usage.timestamp > 0


def test_removing_an_image_that_is_not_there_succeeds(client: CriClient) -> None:
    client.remove_image(MISSING)


@pytest.mark.needs(Can.IMAGES)
def test_an_image_that_is_missing_has_no_status_and_makes_no_container(pods: Pods, client: CriClient) -> None:
    assert client.image_status(MISSING) is None
    config = pods.container_config(("true",))
    config.image.CopyFrom(MISSING)
    pod = pods.sandbox()
    with pytest.raises(NotFoundError, match="container main in pod default/"):
        pods.create(pod, config)


@pytest.mark.needs(Can.IMAGES)
def test_a_pull_that_fails_names_the_image_and_not_the_credentials(client: CriClient) -> None:
    auth = pb.AuthConfig(username="jane", password="very secret")  # noqa: S106 - must not be seen in the error
    with pytest.raises(CriError, match="never/pushed") as caught:
        client.pull_image(MISSING, auth)
    assert "secret" not in str(caught.value)


@pytest.mark.needs(Can.IMAGES)
def test_a_container_without_a_command_runs_its_images(pods: Pods, client: CriClient) -> None:
    """busybox's is `sh`, which ends immediately without a terminal."""
    container = pods.create(pods.sandbox(), pods.container_config(()))
    client.start_container(container)
    assert pods.ended(container).exit_code == 0
