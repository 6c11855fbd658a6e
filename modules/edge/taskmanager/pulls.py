"""The action Pull: pulls the images of an ImagePrePullJob, one after the other."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from beehive import Module, ResourceType
from beehive.backoff import doubled
from beehive.bounded_calls import BoundedCalls
from beehive.decoding import decode_json
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.images.keyring import Credentials, Keyring, PullSecretError, read_pull_secret
from metamanager.client import AsyncMetaClient, CallError
from modules.apimachinery.image_names import ImageNameError, parse_image
from modules.apimachinery.node_jobs import LONGEST_REASON, ImageResult, PrePullTemplate
from modules.apimachinery.types import Secret
from protos.cri.v1 import api_pb2 as cri

FAILED: Final = "there were some failures when pulling images"
"""The reason that KubeEdge's edge reports, too; each image has its own."""
DEADLINE: Final = 3600.0
"""Seconds for all images, if the job names no time."""
FIRST_DELAY: Final = 0.5
LONGEST_DELAY: Final = 30.0
"""Seconds between two attempts for an image: the first, and the most; the time doubles."""
_MOST_TRIES: Final = 100
OpenRuntime = Callable[[], ContainerRuntime]
"""Connects to the container runtime."""


class PullOutcome(msgspec.Struct, frozen=True):
    """End of a job's pulls."""

    reason: str
    """Why not all are here; empty if they are."""
    images: list[ImageResult]


Done = Callable[[PullOutcome], None]


class ImagePulls:
    """The pulls of a job's images. An image that is here is not pulled again, as by KubeEdge.

    Args:
        module: on whose thread it is decided.
        calls: for calls of the runtime.
        meta: has the pull secret.
        open_runtime: connects to the runtime.
    """

    def __init__(self, module: Module, calls: BoundedCalls, meta: AsyncMetaClient, open_runtime: OpenRuntime) -> None:
        self._module = module
        self._calls = calls
        self._meta = meta
        self._open_runtime = open_runtime

    def begin(self, template: PrePullTemplate, done: Done) -> None:
        """Pull the images; `done` is called on the module's thread with the end."""
        images = list(dict.fromkeys(template.images or ()))
        if not images:
            done(PullOutcome("the job names no image", []))
            return
        pulls = _Pulls(self._module, self._calls, self._open_runtime, template, images, done)
        if not template.image_secrets:
            pulls.begin(Keyring())
            return
        namespace, _, name = template.image_secrets.partition("/")
        if not namespace or not name or "/" in name:
            done(PullOutcome("imageSecrets is not NAMESPACE/NAME of one secret", []))
            return
        self._meta.get(ResourceType.SECRET, namespace, name, then=partial(_with_secret, pulls, done))


def _with_secret(pulls: "_Pulls", done: Done, result: bytes | CallError) -> None:
    if isinstance(result, CallError):
        done(PullOutcome(f"the pull secret cannot be had: {result}"[:LONGEST_REASON], []))
        return
    try:
        entries = read_pull_secret(decode_json(result, Secret))
    except (msgspec.DecodeError, UnicodeError, PullSecretError):
        done(PullOutcome("the pull secret cannot be read", []))
        return
    pulls.begin(Keyring(entries))


class _Pulls:
    """The pulls of one job."""

    def __init__(
        self,
        module: Module,
        calls: BoundedCalls,
        open_runtime: OpenRuntime,
        template: PrePullTemplate,
        images: Sequence[str],
        done: Done,
    ) -> None:
        self._module = module
        self._calls = calls
        self._open_runtime = open_runtime
        self._images = images
        self._done = done
        self._tries = 1 + min(template.retry_times or 0, _MOST_TRIES)
        self._ends = module.clock.monotonic() + float(template.timeout_seconds or DEADLINE)
        self._keyring = Keyring()
        self._results: list[ImageResult] = []

    def begin(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._next()

    def _next(self) -> None:
        if len(self._results) == len(self._images):
            is_whole = all(each.status == "True" for each in self._results)
            self._done(PullOutcome("" if is_whole else FAILED, self._results))
        else:
            self._try(self._images[len(self._results)], 1)

    def _try(self, image: str, attempt: int) -> None:
        if self._module.clock.monotonic() >= self._ends:
            self._ended(image, "the time of the job is over")
            return
        try:
            name = parse_image(image)
        except ImageNameError as error:
            self._ended(image, str(error))
            return
        credentials = self._keyring.lookup(f"{name.domain}/{name.path}")
        work = partial(_pull, self._open_runtime, str(name), credentials)
        if not self._calls.submit(work, partial(self._tried, image, attempt)):
            self._ended(image, "too many calls of the container runtime are under way")

    def _tried(self, image: str, attempt: int, fault: str) -> None:
        if not fault or attempt >= self._tries:
            self._ended(image, fault)
            return
        delay = doubled(FIRST_DELAY, attempt - 1, LONGEST_DELAY)
        self._module.after(delay, partial(self._try, image, attempt + 1))

    def _ended(self, image: str, fault: str) -> None:
        self._results.append(ImageResult(image, "False" if fault else "True", fault[:LONGEST_REASON]))
        self._next()


def _pull(open_runtime: OpenRuntime, image: str, credentials: tuple[Credentials, ...]) -> str:
    """Pull an image that is not here, with one of the credentials after the other; return why not, or ""."""
    fault = ""
    spec = cri.ImageSpec(image=image)
    try:
        runtime = open_runtime()
    except CriError as error:
        return str(error)
    try:
        if runtime.image_status(spec) is not None:
            return ""
        for each in credentials or (None,):
            auth = None if each is None else cri.AuthConfig(**each._asdict())
            try:
                runtime.pull_image(spec, auth)
            except CriError as error:
                fault = str(error)
            else:
                return ""
    except CriError as error:
        fault = str(error)
    finally:
        runtime.close()
    return fault
