"""Makes sure that a container's image is on the node."""

from edged.api import Container, Nanoseconds
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.images import ImageNameError, PullDecision, parse_image, should_pull
from edged.pods.backoff import BackOffs, image_key
from edged.pods.model import PodUid
from edged.pods.security import ImageUser
from edged.pods.status import ERR_IMAGE_NEVER_PULL, ERR_IMAGE_PULL, IMAGE_PULL_BACK_OFF, INVALID_IMAGE_NAME
from edged.work.errors import ImageTroubleError
from protos.cri.v1 import api_pb2 as cri


class ImageKeeper:
    """Looks for images and pulls them; a failed pull is tried again only after its back-off.

    Used by several workers at once, by each for another pod. Its points in time are the monotonic clock's, so that a
    wall clock that is set back makes no pod wait longer.
    """

    def __init__(self, runtime: ContainerRuntime, backoffs: BackOffs) -> None:
        self._runtime = runtime
        self._backoffs = backoffs
        self._failed_at: dict[tuple[PodUid, str], Nanoseconds] = {}

    def ensure(
        self, uid: PodUid, container: Container, sandbox: cri.PodSandboxConfig, now: Nanoseconds
    ) -> tuple[str, ImageUser]:
        """The image's reference for CreateContainer, and the user it names.

        Raises:
            ImageTroubleError: it is not there and cannot be had (now).
        """
        try:
            full_name = str(parse_image(container.image))
            image = self._runtime.image_status(cri.ImageSpec(image=full_name))
            decision = should_pull(container.image_pull_policy, container.image, present=image is not None)
        except ImageNameError as error:
            raise ImageTroubleError(container.name, INVALID_IMAGE_NAME, str(error)) from error
        except CriError as error:
            raise ImageTroubleError(container.name, ERR_IMAGE_PULL, str(error)) from error
        if decision is PullDecision.PULL:
            return self._pull(uid, container, sandbox, full_name, now)
        if image is None:
            message = f'container image "{container.image}" is not present with pull policy of Never'
            raise ImageTroubleError(container.name, ERR_IMAGE_NEVER_PULL, message)
        return image.id or full_name, _user_of(image)

    def forget(self, uid: PodUid) -> None:
        """Forget the failures of a pod that is gone."""
        for key in list(self._failed_at):
            if key[0] == uid:
                self._failed_at.pop(key, None)

    def _pull(
        self, uid: PodUid, container: Container, sandbox: cri.PodSandboxConfig, full_name: str, now: Nanoseconds
    ) -> tuple[str, ImageUser]:
        key, failure = image_key(uid, full_name), self._failed_at.get((uid, full_name))
        ready_at = now if failure is None else self._backoffs.ready_at(key, failure)
        if ready_at > now:
            message = f'Back-off pulling image "{container.image}"'
            raise ImageTroubleError(container.name, IMAGE_PULL_BACK_OFF, message, retry_after=(ready_at - now) / 1e9)
        try:
            reference = self._runtime.pull_image(cri.ImageSpec(image=full_name), sandbox_config=sandbox)
            image = self._runtime.image_status(cri.ImageSpec(image=reference))
        except CriError as error:
            self._backoffs.advance(key, failure or now, now)
            self._failed_at[uid, full_name] = now
            raise ImageTroubleError(container.name, ERR_IMAGE_PULL, str(error)) from error
        self._backoffs.reset(key)
        self._failed_at.pop((uid, full_name), None)
        return (image.id or reference, _user_of(image)) if image is not None else (reference, ImageUser())


def _user_of(image: cri.Image) -> ImageUser:
    return ImageUser(uid=image.uid.value if image.HasField("uid") else None, name=image.username)
