"""Each pod waits for its own failures of an image, and for none that it has forgotten."""

import pytest

from edged.images.pull_backoff import PullBackOff, PullFailure
from edged.pods.model import PodUid
from modules.apimachinery.types import seconds

ONE, OTHER = PodUid("one"), PodUid("other")
FAILURE = PullFailure(seconds(5), "ErrImagePull", "no such image")


@pytest.fixture
def pulls() -> PullBackOff:
    """Two pods for which two images could not be pulled."""
    made = PullBackOff()
    for uid in (ONE, OTHER):
        for image in ("a", "b"):
            made.failed(uid, image, FAILURE)
    return made


def failed(pulls: PullBackOff) -> list[str]:
    keys = [(uid, image) for uid in (ONE, OTHER) for image in ("a", "b")]
    return [f"{uid}/{image}" for uid, image in keys if pulls.last_failure(uid, image) is not None]


def test_a_success_ends_the_failures_of_its_pod_and_image(pulls: PullBackOff) -> None:
    pulls.succeeded(ONE, "a")
    assert failed(pulls) == ["one/b", "other/a", "other/b"]
    assert (pulls.ready_at(ONE, "a"), pulls.ready_at(ONE, "b") > FAILURE.at) == (0, True)


def test_a_pod_that_is_removed_leaves_nothing(pulls: PullBackOff) -> None:
    pulls.forget_pod(ONE)
    assert failed(pulls) == ["other/a", "other/b"]
    assert pulls.ready_at(ONE, "a") == 0
