"""Images are there, pulled, or the reason why not; a failed pull has its back-off."""

import grpc
import pytest

from beehive.simulation import Simulation
from edged.api import Container, Nanoseconds, seconds
from edged.cri.errors import UnavailableError
from edged.pods.backoff import BackOffs
from edged.pods.model import PodUid
from edged.testing import FakeRuntime
from edged.work.errors import ImageTroubleError
from edged.work.images import ImageKeeper
from protos.cri.v1 import api_pb2 as pb

UID, OTHER = PodUid("u"), PodUid("v")
HERE = "docker.io/library/here:1"
FAILURE = UnavailableError("PullImage", "", grpc.StatusCode.UNAVAILABLE, "no network")


class Shelf:
    """An image keeper over a runtime with one image."""

    def __init__(self) -> None:
        self.runtime = FakeRuntime(Simulation(1), [HERE])
        self.keeper = ImageKeeper(self.runtime, BackOffs())

    def ensure(self, image: str, at: float = 0.0, uid: PodUid = UID, policy: str = "") -> str:
        """The reference for CreateContainer."""
        container = Container(name="main", image=image, image_pull_policy=policy)
        return self.keeper.ensure(uid, container, pb.PodSandboxConfig(), seconds(at))[0]

    def trouble(self, image: str, at: float = 0.0, uid: PodUid = UID, policy: str = "") -> ImageTroubleError:
        """Why it cannot be had."""
        with pytest.raises(ImageTroubleError) as caught:
            self.ensure(image, at, uid, policy)
        return caught.value


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def test_what_is_present_is_used_under_its_id(shelf: Shelf) -> None:
    assert shelf.ensure("here:1") == f"sha256:{HERE}"
    assert shelf.runtime.calls["pull_image"] == 0


def test_what_is_missing_is_pulled_once(shelf: Shelf) -> None:
    for _ in range(2):
        assert shelf.ensure("nginx:1") == "sha256:docker.io/library/nginx:1"
    assert shelf.runtime.calls["pull_image"] == 1


def test_always_means_always(shelf: Shelf) -> None:
    for _ in range(2):
        shelf.ensure("here:1", policy="Always")
    assert shelf.runtime.calls["pull_image"] == 2


def test_never_means_never_and_says_so(shelf: Shelf) -> None:
    trouble = shelf.trouble("nginx:1", policy="Never")
    assert trouble.reason == "ErrImageNeverPull"
    assert trouble.message == 'container image "nginx:1" is not present with pull policy of Never'
    assert shelf.runtime.calls["pull_image"] == 0


def test_a_name_that_is_none(shelf: Shelf) -> None:
    assert shelf.trouble("UPPER CASE").reason == "InvalidImageName"


def test_a_runtime_that_does_not_answer(shelf: Shelf) -> None:
    shelf.runtime.fail("image_status", FAILURE)
    assert shelf.trouble("here:1").reason == "ErrImagePull"


def test_a_failed_pull_waits_ten_seconds_then_twenty_and_says_how_long(shelf: Shelf) -> None:
    shelf.runtime.fail("pull_image", FAILURE, times=2)
    assert shelf.trouble("nginx:1").reason == "ErrImagePull"
    waiting = shelf.trouble("nginx:1", at=4)
    assert (waiting.reason, waiting.retry_after) == ("ImagePullBackOff", 6.0)
    assert shelf.trouble("nginx:1", at=10).reason == "ErrImagePull"
    assert shelf.trouble("nginx:1", at=29).retry_after == 1.0
    assert shelf.ensure("nginx:1", at=30)
    assert shelf.runtime.calls["pull_image"] == 3


def test_a_success_ends_the_back_off(shelf: Shelf) -> None:
    shelf.runtime.fail("pull_image", FAILURE)
    shelf.trouble("nginx:1")
    shelf.ensure("nginx:1", at=10)
    shelf.runtime.remove_image(pb.ImageSpec(image="docker.io/library/nginx:1"))
    shelf.runtime.fail("pull_image", FAILURE)
    assert shelf.trouble("nginx:1", at=11).reason == "ErrImagePull"
    assert shelf.trouble("nginx:1", at=12).retry_after == 9.0


def test_the_back_off_of_one_pod_is_not_another_pods_nor_that_of_its_successor(shelf: Shelf) -> None:
    shelf.runtime.fail("pull_image", FAILURE, times=3)
    shelf.trouble("nginx:1")
    assert shelf.trouble("nginx:1", uid=OTHER).reason == "ErrImagePull"
    shelf.keeper.forget(UID)
    assert shelf.trouble("nginx:1", at=1).reason == "ErrImagePull"
    assert shelf.trouble("nginx:1", at=1, uid=OTHER).reason == "ImagePullBackOff"


def test_the_user_of_an_image_comes_with_it(shelf: Shelf) -> None:
    image = pb.Image(id="sha256:x", uid=pb.Int64Value(value=101), username="")
    shelf.runtime.image_status = lambda _: image  # type: ignore[method-assign,assignment]
    container = Container(name="main", image="here:1")
    _, user = shelf.keeper.ensure(UID, container, pb.PodSandboxConfig(), Nanoseconds(0))
    assert user.uid == 101
