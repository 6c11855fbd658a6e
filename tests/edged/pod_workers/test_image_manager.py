"""Images are there, being pulled, or the reason why not; a failed pull has its back-off."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from beehive.simulation import Simulation
from edged.cri.contract import ImageRef
from edged.cri.errors import CriError, UnavailableError
from edged.events import EventRecorder, Occurrence
from edged.events.pods import PodEvents
from edged.images.puller import ImagePuller
from edged.pod_workers.errors import ImagePendingError, ImageUnavailableError
from edged.pod_workers.image_manager import ImageManager, ImageRequest
from edged.pods.model import PodUid
from edged.settings import PullLimits
from edged.sync_events import PodHealthChanged
from metamanager.client import NotConnectedError
from modules.apimachinery.types import Container, LocalObjectReference, ObjectMeta, Pod, PodSpec, Secret, seconds
from modules.lab.doubles.container_runtime import FakeRuntime
from modules.runtimes.process.images import ProcessImages
from protos.cri.v1 import api_pb2 as pb
from tests.edged.posted import Posted

UID, OTHER = PodUid("u"), PodUid("v")
HERE = "docker.io/library/here:1"
FAILURE = UnavailableError("PullImage", "", grpc.StatusCode.UNAVAILABLE, "no network")


class Sources:
    """The secrets of a namespace; None cannot be asked for."""

    def __init__(self, **secrets: Secret | None) -> None:
        self._secrets = secrets

    def secret(self, name: str) -> Secret | None:
        if name in self._secrets and self._secrets[name] is None:
            raise NotConnectedError("ask", name)
        return self._secrets.get(name)

    def config_map(self, name: str) -> None:
        """Nothing."""


def pull_secret(user: str, password: str, registry: str = "locked.example") -> Secret:
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    data = {".dockerconfigjson": json.dumps({"auths": {registry: {"auth": auth}}}).encode()}
    return Secret(metadata=ObjectMeta(name="pull", namespace="n"), type="kubernetes.io/dockerconfigjson", data=data)


class ImageBench:
    """An image manager over a runtime with one image."""

    def __init__(self, runtime: Callable[[Simulation], FakeRuntime] = lambda it: FakeRuntime(it, [HERE])) -> None:
        self.simulation = Simulation(1)
        self.runtime = runtime(self.simulation)
        self.told: list[Occurrence] = []
        events = PodEvents(EventRecorder(self.simulation.clock, "n1", self.told.append))
        pulls = ImagePuller(self.simulation, self.runtime, PullLimits(rate=0), Posted())
        self.manager = ImageManager(self.runtime, pulls, events)
        self.sources = Sources()
        self.secrets: tuple[str, ...] = ()

    def need(self, image: str, at: float = 0.0, uid: PodUid = UID, policy: str = "") -> ImageRequest:
        container = Container(name="main", image=image, image_pull_policy=policy)
        references = tuple(LocalObjectReference(name=name) for name in self.secrets)
        spec = PodSpec(containers=(container,), image_pull_secrets=references)
        pod = Pod(metadata=ObjectMeta(name="web", namespace="n", uid=uid), spec=spec)
        return ImageRequest(pod, container, pb.PodSandboxConfig(), self.sources, seconds(at))

    def ensure(self, image: str, at: float = 0.0, uid: PodUid = UID, policy: str = "") -> str:
        """The reference for CreateContainer, after as many turns as it takes."""
        need = self.need(image, at, uid, policy)
        for _ in range(2):
            try:
                return self.manager.ensure_image_exists(need)[0]
            except ImagePendingError:
                self.simulation.run_until_idle()
        raise AssertionError("it is pulled for ever")

    def trouble(self, image: str, at: float = 0.0, uid: PodUid = UID, policy: str = "") -> ImageUnavailableError:
        """Why it cannot be had."""
        with pytest.raises(ImageUnavailableError) as caught:
            self.ensure(image, at, uid, policy)
        return caught.value

    def sentences(self) -> list[tuple[str, str]]:
        """What was told since the last time."""
        told = [(each.reason, each.message) for each in self.told]
        self.told.clear()
        return told


@pytest.fixture
def images() -> ImageBench:
    return ImageBench()


def test_a_present_image_is_used_under_its_id(images: ImageBench) -> None:
    assert images.ensure("here:1") == f"sha256:{HERE}"
    assert images.runtime.calls["pull_image"] == 0
    assert images.sentences() == [("Pulled", 'Container image "here:1" already present on machine')]


class NamesOnly(FakeRuntime):
    """The image service of the process runtime."""

    def __init__(self, simulation: Simulation, root: Path) -> None:
        super().__init__(simulation)
        self._names = ProcessImages(root, simulation.clock)

    def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        """The status of a name."""
        return self._names.status(pb.ImageStatusRequest(image=image)).image

    def pull_image(self, image: pb.ImageSpec, *_: object) -> ImageRef:
        """Remember a name."""
        return ImageRef(self._names.pull(pb.PullImageRequest(image=image)).image_ref)


@pytest.mark.parametrize("policy", ["", "Always"])
def test_pulled_calls_an_image_of_a_runtime_without_images_only_a_name(tmp_path: Path, policy: str) -> None:
    """For it any name is present, and pulled at once (docs/runtimes.md)."""
    images = ImageBench(lambda simulation: NamesOnly(simulation, tmp_path))
    images.ensure("does-not-exist:9", policy=policy)
    told = 'Container image "does-not-exist:9" is only a name: the runtime has no images'
    assert images.sentences()[-1] == ("Pulled", told)


def test_a_missing_image_is_pulled_once(images: ImageBench) -> None:
    for _ in range(2):
        assert images.ensure("nginx:1") == "sha256:docker.io/library/nginx:1"
    assert images.runtime.calls["pull_image"] == 1


def test_a_pull_is_reported_from_its_beginning_to_its_end_with_its_time(images: ImageBench) -> None:
    images.runtime.pull_seconds = 2.0
    with pytest.raises(ImagePendingError) as caught:
        images.manager.ensure_image_exists(images.need("nginx:1", at=10))
    waiting = caught.value.waiting
    assert (waiting.reason, waiting.message) == ("ContainerCreating", 'Pulling image "nginx:1"')
    with pytest.raises(ImagePendingError):
        images.manager.ensure_image_exists(images.need("nginx:1", at=11))
    images.simulation.run_for(3)
    images.manager.ensure_image_exists(images.need("nginx:1", at=13.5))
    assert images.sentences() == [
        ("Pulling", 'Pulling image "nginx:1"'),
        ("Pulled", 'Successfully pulled image "nginx:1" in 2.000s (3.500s including waiting).'),
    ]


class _Telling(FakeRuntime):
    """A runtime that says how far its pulls are, twice as much at each question."""

    fetched = 1_000_000

    def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        assert verbose
        self.fetched *= 2
        layers = {"docker.io/library/nginx:1": [["aa", 77_000_000, self.fetched, 0]]}
        return pb.StatusResponse(info={"pulls": json.dumps(layers)})


def test_a_long_pull_tells_how_far_it_is(images: ImageBench) -> None:
    """After 30 s and then after ever longer times, as an event and as the reason of the wait, with no second event of
    a sync in between; a pod that has gone is not told of.
    """
    runtime = _Telling(images.simulation, [HERE])
    runtime.pull_seconds = 1000.0
    queued = Posted[PodHealthChanged]()
    pulls = ImagePuller(images.simulation, runtime, PullLimits(rate=0), queued)
    images.manager = ImageManager(runtime, pulls, images.manager._events)
    waiting = []
    for second in range(0, 1000, 10):
        with pytest.raises(ImagePendingError) as caught:
            images.manager.ensure_image_exists(images.need("nginx:1", at=second))
        waiting.append(caught.value.waiting.message)
        images.simulation.run_for(10)
    images.simulation.run_for(10)
    images.manager.ensure_image_exists(images.need("nginx:1", at=1010))
    told = [message for _, message in images.sentences()]
    assert "(1010.000s including waiting)" in told[-1]
    assert told[:-1] == ['Pulling image "nginx:1"'] + [
        f'Pulling image "nginx:1": {count}.0 of 77.0 MB fetched, 0.0 MB unpacked' for count in (2, 4, 8, 16, 32)
    ]
    assert list(dict.fromkeys(waiting)) == told[:-1]
    assert queued == [PodHealthChanged(UID)] * 6
    images.simulation.run_for(1000)
    assert runtime.fetched == 32_000_000


def test_a_pull_that_is_tried_again_waits_for_the_reason_of_the_one_before(images: ImageBench) -> None:
    images.runtime.fail("pull_image", FAILURE)
    reason = images.trouble("nginx:1").waiting
    with pytest.raises(ImagePendingError) as caught:
        images.manager.ensure_image_exists(images.need("nginx:1", at=11))
    assert caught.value.waiting == reason
    assert images.sentences()[-1] == ("Pulling", 'Pulling image "nginx:1"')


@pytest.mark.parametrize(("size", "told"), [(1234, " Image size: 1234 bytes."), (1, ""), (0, "")])
def test_a_pull_is_reported_with_the_images_size_if_the_runtime_knows_it(
    images: ImageBench, size: int, told: str
) -> None:
    """The process runtime's images are names alone, of one byte."""
    images.runtime.image_sizes["docker.io/library/nginx:1"] = size
    images.ensure("nginx:1")
    assert images.sentences()[-1][1].endswith(f" including waiting).{told}")


def test_an_image_that_came_by_other_means_ends_the_wait_for_it(images: ImageBench) -> None:
    """A later pull of it is reported, and its wait begins then."""
    with pytest.raises(ImagePendingError):
        images.manager.ensure_image_exists(images.need("nginx:1", at=0))
    images.manager._pulls.remove_pod(UID)
    images.simulation.run_until_idle()
    images.manager.ensure_image_exists(images.need("nginx:1", at=10))
    images.sentences()
    with pytest.raises(ImagePendingError):
        images.manager.ensure_image_exists(images.need("nginx:1", at=100, policy="Always"))
    images.simulation.run_until_idle()
    images.manager.ensure_image_exists(images.need("nginx:1", at=101, policy="Always"))
    pulling, pulled = images.sentences()
    assert pulling == ("Pulling", 'Pulling image "nginx:1"')
    assert "(1.000s including waiting)" in pulled[1]


def test_always_means_always(images: ImageBench) -> None:
    for _ in range(2):
        images.ensure("here:1", policy="Always")
    assert images.runtime.calls["pull_image"] == 2


def test_pods_that_start_at_the_same_time_look_for_their_image_once(images: ImageBench) -> None:
    """Soon the runtime is asked again, and at once after a pull; an image that is missing is always asked for."""
    for at, uid, asked in ((100.0, UID, 1), (100.9, OTHER, 1), (101.0, UID, 2)):
        assert images.ensure("here:1", at, uid) == f"sha256:{HERE}"
        assert images.runtime.calls["image_status"] == asked
    for at in (101.1, 101.2):
        images.trouble("nginx:1", at, policy="Never")
    assert images.runtime.calls["image_status"] == 4
    images.ensure("nginx:1", 101.3)
    asked = images.runtime.calls["image_status"]
    images.ensure("here:1", 101.4)
    assert images.runtime.calls["image_status"] == asked + 1


def test_never_means_never_with_an_event(images: ImageBench) -> None:
    trouble = images.trouble("nginx:1", policy="Never")
    assert trouble.reason == "ErrImageNeverPull"
    assert trouble.message == 'Container image "nginx:1" is not present with pull policy of Never'
    assert images.runtime.calls["pull_image"] == 0
    assert images.sentences() == [("ErrImageNeverPull", trouble.message)]


def test_an_invalid_image_name(images: ImageBench) -> None:
    assert images.trouble("UPPER CASE").reason == "InvalidImageName"


def test_a_runtime_that_does_not_say_whether_it_is_there(images: ImageBench) -> None:
    images.runtime.fail("image_status", FAILURE)
    assert images.trouble("here:1").reason == "ImageInspectError"
    assert images.sentences()[0][0] == "InspectFailed"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("no network", "ErrImagePull"),
        ("RegistryUnavailable: it is down", "RegistryUnavailable"),
        ("SignatureValidationFailed: no policy", "SignatureValidationFailed"),
    ],
)
def test_the_runtimes_word_is_the_reason_where_there_is_one(images: ImageBench, words: str, reason: str) -> None:
    images.runtime.fail("pull_image", CriError("PullImage", "", grpc.StatusCode.UNKNOWN, words))
    trouble = images.trouble("nginx:1")
    assert trouble.reason == reason
    assert words in trouble.message
    assert [told for told, _ in images.sentences()] == ["Pulling", "Failed", "Failed"]
    assert f": {reason}: " in images.trouble("nginx:1", at=1).message


def test_a_failed_pull_waits_ten_seconds_then_twenty_with_the_time_in_its_message(images: ImageBench) -> None:
    images.runtime.fail("pull_image", FAILURE, times=2)
    assert images.trouble("nginx:1").reason == "ErrImagePull"
    waiting = images.trouble("nginx:1", at=4)
    assert (waiting.reason, waiting.retry_at) == ("ImagePullBackOff", 10.0)
    assert "no network" in waiting.message
    assert images.sentences()[-2:] == [
        ("BackOff", 'Back-off pulling image "nginx:1"'),
        ("Failed", "Error: ImagePullBackOff"),
    ]
    assert images.trouble("nginx:1", at=10).reason == "ErrImagePull"
    assert images.trouble("nginx:1", at=29).retry_at == 30.0
    assert images.ensure("nginx:1", at=30)
    assert images.runtime.calls["pull_image"] == 3


def test_pulls_that_take_long_to_fail_have_a_back_off_that_grows(images: ImageBench) -> None:
    """Its time is counted from the last failure, and not from the end of the next pull."""
    images.runtime.fail("pull_image", FAILURE, times=2)
    images.trouble("nginx:1")
    images.trouble("nginx:1", at=4000)
    assert images.trouble("nginx:1", at=4001).retry_at == 4020.0


def test_a_pull_that_is_tried_again_shows_how_far_it_is(images: ImageBench) -> None:
    """That is newer than why the one before has failed."""
    runtime = _Telling(images.simulation, [HERE])
    pulls = ImagePuller(images.simulation, runtime, PullLimits(rate=0), Posted())
    images.manager = ImageManager(runtime, pulls, images.manager._events)
    runtime.fail("pull_image", FAILURE)
    images.trouble("nginx:1")
    runtime.pull_seconds = 100.0
    for second in (11, 51):
        with pytest.raises(ImagePendingError) as caught:
            images.manager.ensure_image_exists(images.need("nginx:1", at=second))
        images.simulation.run_for(40)
    assert "fetched" in caught.value.waiting.message


def test_a_pod_of_the_same_uid_waits_from_its_own_beginning(images: ImageBench) -> None:
    """A static pod that was removed and comes again has it."""
    for second in (0, 50):
        with pytest.raises(ImagePendingError):
            images.manager.ensure_image_exists(images.need("nginx:1", at=second))
        if not second:
            images.manager.forget_pod(UID)
    images.simulation.run_until_idle()
    images.manager.ensure_image_exists(images.need("nginx:1", at=51))
    told = images.sentences()
    assert [reason for reason, _ in told] == ["Pulling", "Pulling", "Pulled"]
    assert "(1.000s including waiting)" in told[-1][1]


def test_a_success_ends_the_back_off(images: ImageBench) -> None:
    images.runtime.fail("pull_image", FAILURE)
    images.trouble("nginx:1")
    images.ensure("nginx:1", at=10)
    images.runtime.remove_image(pb.ImageSpec(image="docker.io/library/nginx:1"))
    images.runtime.fail("pull_image", FAILURE)
    with pytest.raises(ImagePendingError) as caught:
        images.manager.ensure_image_exists(images.need("nginx:1", at=11))
    assert caught.value.waiting.reason == "ContainerCreating"
    images.simulation.run_until_idle()
    assert images.trouble("nginx:1", at=11).reason == "ErrImagePull"
    assert images.trouble("nginx:1", at=12).retry_at == 21.0


def test_each_pod_and_each_successor_has_its_own_back_off(images: ImageBench) -> None:
    images.runtime.fail("pull_image", FAILURE, times=3)
    images.trouble("nginx:1")
    assert images.trouble("nginx:1", uid=OTHER).reason == "ErrImagePull"
    images.manager.forget_pod(UID)
    assert images.trouble("nginx:1", at=1).reason == "ErrImagePull"
    assert images.trouble("nginx:1", at=1, uid=OTHER).reason == "ImagePullBackOff"


def test_the_user_of_an_image_comes_with_it(images: ImageBench) -> None:
    image = pb.Image(id="sha256:x", uid=pb.Int64Value(value=101), username="")
    images.runtime.image_status = lambda _: image  # type: ignore[method-assign,assignment]
    _, user = images.manager.ensure_image_exists(images.need("here:1"))
    assert user.uid == 101


LOCKED = "locked.example/app:1"


def test_the_pods_secrets_open_their_registry(images: ImageBench) -> None:
    images.runtime.locked[LOCKED] = ("me", "open sesame")
    images.sources = Sources(wrong=pull_secret("me", "x", "other.example"), right=pull_secret("me", "open sesame"))
    images.secrets = ("wrong", "right")
    assert images.ensure(LOCKED)


def test_without_one_or_with_a_wrong_one_it_stays_closed_and_the_password_is_nowhere(images: ImageBench) -> None:
    images.runtime.locked[LOCKED] = ("me", "open sesame")
    images.sources = Sources(wrong=pull_secret("me", "hunter2"))
    assert images.trouble(LOCKED).reason == "ErrImagePull"
    images.secrets = ("wrong",)
    trouble = images.trouble(LOCKED, at=20)
    assert trouble.reason == "ErrImagePull"
    assert "hunter2" not in f"{trouble} {images.told}"


@pytest.mark.parametrize("sources", [Sources(), Sources(gone=None)], ids=["missing", "cannot be asked"])
def test_a_missing_pull_secret_is_reported_and_the_pull_tried_without(images: ImageBench, sources: Sources) -> None:
    images.secrets = ("gone",)
    images.sources = sources
    assert images.ensure("nginx:1")
    message = "Unable to retrieve some image pull secrets (gone); attempting to pull the image may not succeed."
    assert ("FailedToRetrieveImagePullSecret", message) in images.sentences()


def test_a_secret_that_cannot_be_read_is_a_failed_pull(images: ImageBench) -> None:
    images.secrets = ("bad",)
    broken = Secret(metadata=ObjectMeta(name="bad", namespace="n"), type="kubernetes.io/dockerconfigjson")
    broken.data[".dockerconfigjson"] = b"hunter2"
    images.sources = Sources(bad=broken)
    trouble = images.trouble("nginx:1")
    assert trouble.reason == "ErrImagePull"
    assert "n/bad" in trouble.message
    assert "hunter2" not in f"{trouble} {images.told}"
    assert images.trouble("nginx:1", at=1).reason == "ImagePullBackOff"
