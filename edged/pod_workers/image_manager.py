"""ImageManager: makes sure that the image of a container is on the node."""

import msgspec

from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.events import EventType, Reason
from edged.events.pods import PodEvents
from edged.images.keyring import Credentials, Keyring, PullSecretError, read_pull_secret
from edged.images.progress import PullProgress
from edged.images.pull_backoff import PullBackOff, PullFailure
from edged.images.pull_policy import PullDecision, should_pull
from edged.images.puller import ImagePuller, PullRequest, PullResult
from edged.pod_workers.errors import ImagePendingError, ImageUnavailableError
from edged.pods.config.env import EnvSources
from edged.pods.config.security import ImageUser
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.pods.pod_status.container_status import CREATING
from edged.pods.pod_status.status import (
    ERR_IMAGE_NEVER_PULL,
    ERR_IMAGE_PULL,
    IMAGE_INSPECT_ERROR,
    IMAGE_PULL_BACK_OFF,
    INVALID_IMAGE_NAME,
    REGISTRY_UNAVAILABLE,
    SIGNATURE_VALIDATION_FAILED,
)
from metamanager.client import CallError
from modules.apimachinery.image_names import ONLY_A_NAME, ImageNameError, parse_image
from modules.apimachinery.types import Container, Nanoseconds, Pod
from protos.cri.v1 import api_pb2 as cri

_NAMED_BY_RUNTIMES = (REGISTRY_UNAVAILABLE, SIGNATURE_VALIDATION_FAILED)
"""Words in a runtime's error that are the reason to show (cri-api's pkg/errors)."""

_NOMINAL_SIZE = 1
"""Bytes of an image that has no size, such as the process runtime's: kubelets take zero for a missing image."""
_SECOND = 1e9
_SEEN = 1 * _SECOND
"""How long an image that was found counts as present: pods that start at the same time need the same few images."""


class ImageRequest(msgspec.Struct, frozen=True):
    """The image that a container needs."""

    pod: Pod
    container: Container
    sandbox: cri.PodSandboxConfig
    sources: EnvSources
    now: Nanoseconds
    """Time of the monotonic clock."""

    @property
    def uid(self) -> PodUid:
        """Uid of the pod."""
        return ref_of(self.pod).uid


class _Requested(msgspec.Struct, frozen=True):
    """A pull that a pod waits for."""

    at: Nanoseconds
    progress: PullProgress | None = None
    """As last recorded."""


class _Seen(msgspec.Struct, frozen=True):
    """An image that was found."""

    at: Nanoseconds
    image: cri.Image


class ImageManager:
    """The manager that looks for images and requests their pull; a failed pull is tried again only after its back-off
    (kubelet's imageManager).

    Several workers use it at the same time, each for another pod. Times are of the monotonic clock, so that no pod
    waits longer because the wall clock is set back.

    Args:
        runtime: lists the images of the node.
        pulls: pulls images.
        events: records pulls and failures.
    """

    def __init__(self, runtime: ContainerRuntime, pulls: ImagePuller, events: PodEvents) -> None:
        self._runtime = runtime
        self._pulls = pulls
        self._back_off = PullBackOff()
        self._events = events
        self._requested: dict[tuple[PodUid, str], _Requested] = {}
        self._seen: dict[str, _Seen] = {}
        """By name. Replaced, never changed."""

    def ensure_image_exists(self, request: ImageRequest) -> tuple[str, ImageUser]:
        """Return the image's reference for CreateContainer, and the user that it names.

        Raises:
            ImagePendingError: the image is being pulled.
            ImageUnavailableError: the image is not on the node and cannot be pulled (now).
        """
        name = request.container.image
        try:
            full_name = str(parse_image(name))
            outcome = self._pulls.pop_result(request.uid, full_name)
            if outcome is not None:
                return self._handle_result(request, full_name, outcome)
            image = self._inspect(request, full_name)
            decision = should_pull(request.container.image_pull_policy, name, present=image is not None)
        except ImageNameError as error:
            raise self._unavailable(
                request, INVALID_IMAGE_NAME, str(error), Reason.INSPECT_FAILED, str(error)
            ) from error
        if decision is PullDecision.PULL:
            raise self._request_pull(request, full_name)
        if image is None:
            message = f'Container image "{name}" is not present with pull policy of Never'
            raise self._unavailable(request, ERR_IMAGE_NEVER_PULL, message, Reason.ERR_IMAGE_NEVER_PULL, message)
        self._requested.pop((request.uid, full_name), None)
        present = f'Container image "{name}" already present on machine'
        self._record(request, EventType.NORMAL, Reason.PULLED, _only_a_name(name, image) or present)
        return image.id or full_name, _user_of(image)

    def forget_pod(self, uid: PodUid) -> None:
        """Drop the pulls and failures of a pod that is removed from the node."""
        self._pulls.remove_pod(uid)
        self._back_off.forget_pod(uid)
        for key in [key for key in list(self._requested) if key[0] == uid]:
            self._requested.pop(key, None)

    def _inspect(self, request: ImageRequest, name: str) -> cri.Image | None:
        """Return an image of the node, perhaps as it was a moment ago; None if it is not there."""
        recent = {known: seen for known, seen in self._seen.items() if request.now < seen.at + _SEEN}
        if name in recent:
            return recent[name].image
        try:
            image = self._runtime.image_status(cri.ImageSpec(image=name))
            self._seen = recent if image is None else {**recent, name: _Seen(request.now, image)}
            return image
        except CriError as error:
            message = f'Failed to inspect image "{request.container.image}": {error}'
            raise self._unavailable(request, IMAGE_INSPECT_ERROR, message, Reason.INSPECT_FAILED, message) from error

    def _request_pull(self, request: ImageRequest, full_name: str) -> ImagePendingError:
        """Request the pull of an image, unless its back-off lasts. A request during a pull only reports its
        progress. Until there is some, the container waits for the reason of the pull that failed before, as with a
        kubelet.
        """
        self._check_back_off(request, full_name)
        wanted = PullRequest(full_name, self._credentials(request, full_name))
        progress = self._pulls.request(request.uid, wanted, request.sandbox)
        message = f'Pulling image "{request.container.image}"' + (f": {progress}" if progress else "")
        key = request.uid, full_name
        before = self._requested.get(key)
        if before is None or progress != before.progress:
            self._requested[key] = _Requested(request.now if before is None else before.at, progress)
            self._record(request, EventType.NORMAL, Reason.PULLING, message)
        failure = self._back_off.last_failure(*key)
        if failure is not None and progress is None:
            return ImagePendingError(request.container.name, failure.reason, failure.message)
        return ImagePendingError(request.container.name, CREATING, message)

    def _handle_result(self, request: ImageRequest, full_name: str, outcome: PullResult) -> tuple[str, ImageUser]:
        """Take the result of a pull that an earlier sync of the pod has requested."""
        requested_at = self._requested.pop((request.uid, full_name), _Requested(request.now)).at
        if outcome.error is not None:
            raise self._failed(request, full_name, outcome.error) from outcome.error
        self._seen = {}
        return self._pulled(request, full_name, outcome, (request.now - requested_at) / _SECOND)

    def _check_back_off(self, request: ImageRequest, full_name: str) -> None:
        """Raise ImageUnavailableError while the back-off of an earlier failure lasts."""
        failure = self._back_off.last_failure(request.uid, full_name)
        ready = self._back_off.ready_at(request.uid, full_name)
        if failure is not None and ready > request.now:
            message = f'Back-off pulling image "{request.container.image}"'
            self._record(request, EventType.NORMAL, Reason.BACK_OFF, message)
            why = f"{message}: {failure.reason}: {failure.message}"
            raise self._unavailable(
                request, IMAGE_PULL_BACK_OFF, why, Reason.FAILED, f"Error: {IMAGE_PULL_BACK_OFF}",
                retry_at=ready / _SECOND,
            )  # fmt: skip

    def _failed(self, request: ImageRequest, full_name: str, error: Exception) -> ImageUnavailableError:
        message = str(error)
        reason = next((word for word in _NAMED_BY_RUNTIMES if word in message), ERR_IMAGE_PULL)
        self._back_off.failed(request.uid, full_name, PullFailure(request.now, reason, message))
        told = f'Failed to pull image "{request.container.image}": {message}'
        self._record(request, EventType.WARNING, Reason.FAILED, told)
        return self._unavailable(request, reason, message, Reason.FAILED, f"Error: {reason}")

    def _pulled(
        self, request: ImageRequest, full_name: str, outcome: PullResult, waited: float
    ) -> tuple[str, ImageUser]:
        self._back_off.succeeded(request.uid, full_name)
        image = self._inspect(request, outcome.reference)
        size = f" Image size: {image.size} bytes." if image is not None and image.size > _NOMINAL_SIZE else ""
        message = (
            f'Successfully pulled image "{request.container.image}" in {outcome.seconds:.3f}s '
            f"({max(waited, outcome.seconds):.3f}s including waiting).{size}"
        )
        name = request.container.image
        self._record(request, EventType.NORMAL, Reason.PULLED, _only_a_name(name, image) or message)
        if image is None:
            return outcome.reference, ImageUser()
        return image.id or outcome.reference, _user_of(image)

    def _credentials(self, request: ImageRequest, full_name: str) -> tuple[Credentials, ...]:
        """Return the credentials in the pod's pull secrets that are for this image. A secret that does not exist is
        skipped, as by a kubelet: the image may need none, or the credentials of another secret.
        """
        missing: list[str] = []
        entries: list[tuple[str, Credentials]] = []
        for reference in request.pod.spec.image_pull_secrets:
            try:
                secret = request.sources.secret(reference.name)
                entries += read_pull_secret(secret) if secret is not None else []
            except CallError:
                secret = None
            except PullSecretError as error:
                raise self._failed(request, full_name, error) from error
            if secret is None:
                missing.append(reference.name)
        if missing:
            names = f"some image pull secrets ({', '.join(missing)})"
            message = f"Unable to retrieve {names}; attempting to pull the image may not succeed."
            self._events.image(request.pod, "", EventType.WARNING, Reason.NO_REGISTRY_LOGIN, message)
        name = parse_image(full_name)
        return Keyring(entries).lookup(f"{name.domain}/{name.path}")

    def _unavailable(
        self,
        request: ImageRequest,
        reason: str,
        message: str,
        told: Reason,
        sentence: str,
        retry_at: float | None = None,
    ) -> ImageUnavailableError:
        self._record(request, EventType.WARNING, told, sentence)
        return ImageUnavailableError(request.container.name, reason, message, retry_at)

    def _record(self, request: ImageRequest, event_type: EventType, reason: Reason, message: str) -> None:
        self._events.image(request.pod, request.container.name, event_type, reason, message)


def _only_a_name(name: str, image: cri.Image | None) -> str:
    """Return the sentence about an image of a runtime without images; "" about another one."""
    is_one = image is not None and ONLY_A_NAME in image.spec.annotations
    return f'Container image "{name}" is only a name: the runtime has no images' if is_one else ""


def _user_of(image: cri.Image) -> ImageUser:
    return ImageUser(uid=image.uid.value if image.HasField("uid") else None, name=image.username)
