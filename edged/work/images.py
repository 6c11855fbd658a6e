"""Makes sure that a container's image is on the node, and says what becomes of it: in the status, and as events."""

from typing import NamedTuple

from edged.api import Container, Nanoseconds, Pod
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.events import EventType, Reason
from edged.events.pods import PodEvents
from edged.images import ImageNameError, PullDecision, parse_image, should_pull
from edged.images.keyring import Credentials, Keyring, PullSecretError, read_pull_secret
from edged.images.pulls import Outcome, Pulls, Wish
from edged.pods.backoff import BackOffs, image_key
from edged.pods.container_status import CREATING
from edged.pods.env import Sources
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.pods.security import ImageUser
from edged.pods.status import (
    ERR_IMAGE_NEVER_PULL,
    ERR_IMAGE_PULL,
    IMAGE_INSPECT_ERROR,
    IMAGE_PULL_BACK_OFF,
    INVALID_IMAGE_NAME,
    REGISTRY_UNAVAILABLE,
    SIGNATURE_VALIDATION_FAILED,
)
from edged.work.errors import ImagePendingError, ImageTroubleError
from metamanager.client import CallError
from protos.cri.v1 import api_pb2 as cri

_NAMED_BY_RUNTIMES = (REGISTRY_UNAVAILABLE, SIGNATURE_VALIDATION_FAILED)
"""Words in a runtime's error that are the reason to show (cri-api's pkg/errors)."""

_SECOND = 1e9


class Need(NamedTuple):
    """Who needs which image."""

    pod: Pod
    container: Container
    sandbox: cri.PodSandboxConfig
    sources: Sources
    now: Nanoseconds
    """Of the monotonic clock."""

    @property
    def uid(self) -> PodUid:
        """The pod's."""
        return ref_of(self.pod).uid


class _Failure(NamedTuple):
    at: Nanoseconds
    reason: str
    message: str


class ImageKeeper:
    """Looks for images and has them pulled; a failed pull is tried again only after its back-off.

    Used by several workers at once, by each for another pod. Its points in time are the monotonic clock's, so that a
    wall clock that is set back makes no pod wait longer.

    Args:
        runtime: knows what is there.
        pulls: fetches what is not.
        backoffs: the records of what failed.
        events: is told.
    """

    def __init__(self, runtime: ContainerRuntime, pulls: Pulls, backoffs: BackOffs, events: PodEvents) -> None:
        self._runtime = runtime
        self._pulls = pulls
        self._backoffs = backoffs
        self._events = events
        self._failures: dict[tuple[PodUid, str], _Failure] = {}
        self._asked: dict[tuple[PodUid, str], Nanoseconds] = {}

    def ensure(self, need: Need) -> tuple[str, ImageUser]:
        """The image's reference for CreateContainer, and the user it names.

        Raises:
            ImagePendingError: it is being pulled.
            ImageTroubleError: it is not there and cannot be had (now).
        """
        name = need.container.image
        try:
            full_name = str(parse_image(name))
            outcome = self._pulls.take(need.uid, full_name)
            if outcome is not None:
                return self._take(need, full_name, outcome)
            image = self._inspect(need, full_name)
            decision = should_pull(need.container.image_pull_policy, name, present=image is not None)
        except ImageNameError as error:
            raise self._trouble(need, INVALID_IMAGE_NAME, str(error), Reason.INSPECT_FAILED, str(error)) from error
        if decision is PullDecision.PULL:
            raise self._begin(need, full_name)
        if image is None:
            message = f'Container image "{name}" is not present with pull policy of Never'
            raise self._trouble(need, ERR_IMAGE_NEVER_PULL, message, Reason.ERR_IMAGE_NEVER_PULL, message)
        self._asked.pop((need.uid, full_name), None)
        self._tell(need, EventType.NORMAL, Reason.PULLED, f'Container image "{name}" already present on machine')
        return image.id or full_name, _user_of(image)

    def forget(self, uid: PodUid) -> None:
        """Forget what is about a pod that is gone."""
        self._pulls.forget(uid)
        for key in [key for key in list(self._failures) if key[0] == uid]:
            self._failures.pop(key, None)
        for key in [key for key in list(self._asked) if key[0] == uid]:
            self._asked.pop(key, None)

    def _inspect(self, need: Need, name: str) -> cri.Image | None:
        try:
            return self._runtime.image_status(cri.ImageSpec(image=name))
        except CriError as error:
            message = f'Failed to inspect image "{need.container.image}": {error}'
            raise self._trouble(need, IMAGE_INSPECT_ERROR, message, Reason.INSPECT_FAILED, message) from error

    def _begin(self, need: Need, full_name: str) -> ImagePendingError:
        """Have it pulled, unless it has to wait; who asks again while it is being pulled changes nothing."""
        self._hold_back(need, full_name)
        self._pulls.ask(need.uid, Wish(full_name, self._credentials(need, full_name)), need.sandbox)
        message = f'Pulling image "{need.container.image}"'
        if (need.uid, full_name) not in self._asked:
            self._asked[need.uid, full_name] = need.now
            self._tell(need, EventType.NORMAL, Reason.PULLING, message)
        return ImagePendingError(need.container.name, CREATING, message)

    def _take(self, need: Need, full_name: str, outcome: Outcome) -> tuple[str, ImageUser]:
        """What came of the pull that an earlier turn of the pod asked for."""
        asked = self._asked.pop((need.uid, full_name), need.now)
        if outcome.error is not None:
            raise self._failed(need, full_name, outcome.error) from outcome.error
        return self._pulled(need, full_name, outcome, (need.now - asked) / _SECOND)

    def _hold_back(self, need: Need, full_name: str) -> None:
        """Raise while an earlier failure has its back-off."""
        failure = self._failures.get((need.uid, full_name))
        if failure is None:
            return
        ready_at = self._backoffs.ready_at(image_key(need.uid, full_name), failure.at)
        if ready_at > need.now:
            message = f'Back-off pulling image "{need.container.image}"'
            self._tell(need, EventType.NORMAL, Reason.BACK_OFF, message)
            why = f"{message}: {failure.reason}: {failure.message}"
            raise self._trouble(
                need, IMAGE_PULL_BACK_OFF, why, Reason.FAILED, f"Error: {IMAGE_PULL_BACK_OFF}",
                retry_after=(ready_at - need.now) / _SECOND,
            )  # fmt: skip

    def _failed(self, need: Need, full_name: str, error: Exception) -> ImageTroubleError:
        key, before = (need.uid, full_name), self._failures.get((need.uid, full_name))
        self._backoffs.advance(image_key(*key), need.now if before is None else before.at, need.now)
        message = str(error)
        reason = next((word for word in _NAMED_BY_RUNTIMES if word in message), ERR_IMAGE_PULL)
        self._failures[key] = _Failure(need.now, reason, message)
        told = f'Failed to pull image "{need.container.image}": {message}'
        self._tell(need, EventType.WARNING, Reason.FAILED, told)
        return self._trouble(need, reason, message, Reason.FAILED, f"Error: {reason}")

    def _pulled(self, need: Need, full_name: str, outcome: Outcome, waited: float) -> tuple[str, ImageUser]:
        self._backoffs.reset(image_key(need.uid, full_name))
        self._failures.pop((need.uid, full_name), None)
        image = self._inspect(need, outcome.reference)
        size = f" Image size: {image.size} bytes." if image is not None and image.size else ""
        message = (
            f'Successfully pulled image "{need.container.image}" in {outcome.seconds:.3f}s '
            f"({max(waited, outcome.seconds):.3f}s including waiting).{size}"
        )
        self._tell(need, EventType.NORMAL, Reason.PULLED, message)
        if image is None:
            return outcome.reference, ImageUser()
        return image.id or outcome.reference, _user_of(image)

    def _credentials(self, need: Need, full_name: str) -> tuple[Credentials, ...]:
        """Those of the pod's pull secrets that are for this image. A secret that is not there is passed over, as by a
        kubelet: the image may be free, or another's credentials may do.
        """
        missing: list[str] = []
        entries: list[tuple[str, Credentials]] = []
        for reference in need.pod.spec.image_pull_secrets:
            try:
                secret = need.sources.secret(reference.name)
                entries += read_pull_secret(secret) if secret is not None else []
            except CallError:
                secret = None
            except PullSecretError as error:
                raise self._failed(need, full_name, error) from error
            if secret is None:
                missing.append(reference.name)
        if missing:
            names = f"some image pull secrets ({', '.join(missing)})"
            message = f"Unable to retrieve {names}; attempting to pull the image may not succeed."
            self._events.image(need.pod, "", EventType.WARNING, Reason.NO_REGISTRY_LOGIN, message)
        name = parse_image(full_name)
        return Keyring(entries).lookup(f"{name.domain}/{name.path}")

    def _trouble(
        self, need: Need, reason: str, message: str, told: Reason, sentence: str, retry_after: float | None = None
    ) -> ImageTroubleError:
        self._tell(need, EventType.WARNING, told, sentence)
        return ImageTroubleError(need.container.name, reason, message, retry_after)

    def _tell(self, need: Need, event_type: EventType, reason: Reason, message: str) -> None:
        self._events.image(need.pod, need.container.name, event_type, reason, message)


def _user_of(image: cri.Image) -> ImageUser:
    return ImageUser(uid=image.uid.value if image.HasField("uid") else None, name=image.username)
