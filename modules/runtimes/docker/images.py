"""The image service: Docker's images by their full names, as CRI's clients expect them."""

import base64
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from beehive.clock import Clock
from beehive.decoding import decode_json
from beehive.http.errors import HttpError
from modules.runtimes.docker.answers import Image, Info, ListedContainer, Progress
from modules.runtimes.docker.client import DockerClient, Exchange, Headers, part
from modules.runtimes.docker.labels import OWNER
from modules.runtimes.docker.pause_image import NAME as PAUSE_IMAGE
from modules.runtimes.engine.driver import OnEnd, call_at_end
from modules.runtimes.engine.errors import BadRequestError, NoSuchObjectError, RequestRefusedError, RunFailedError
from modules.runtimes.engine.views import whole_file_system
from modules.runtimes.oci.images.names import ONE_NAME
from modules.runtimes.oci.images.pulls import PullsUnderWay
from modules.runtimes.oci.images.views import cri_user
from modules.runtimes.oci.images.worker.authorization import credentials_for
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.references import Reference, parse_reference
from modules.runtimes.oci.images.worker_process import LayerProgress
from protos.cri.v1 import api_pb2 as cri

_ID: Final = re.compile(r"(sha256:)?[0-9a-f]{64}")
_LONGEST_LINE: Final = 1024 * 1024
_SILENCE_SECONDS: Final = 300.0
"""Seconds without progress after which a pull is given up."""

_FETCHING: Final = "Downloading"
_FETCHED: Final = ("Verifying Checksum", "Download complete")
_UNPACKING: Final = "Extracting"
_DONE: Final = "Pull complete"
_MOST_LAYERS: Final = 500


class ReportedLayers:
    """The layers of a pull. Docker names them by the beginning of their digests.

    A layer is reported once Docker has sent its size: a small layer is fetched without it, and only unpacked with it.

    Args:
        told: takes how far a layer is.
    """

    def __init__(self, told: Callable[[LayerProgress], None]) -> None:
        self._told = told
        self._layers: dict[str, LayerProgress] = {}

    def update(self, line: Progress) -> None:
        """Take a line of the report; a line that is not about a layer, or of an unknown kind, changes nothing."""
        layer = self._changed(line)
        if layer is not None and (line.id in self._layers or len(self._layers) < _MOST_LAYERS):
            self._layers[line.id] = layer
            self._told(layer)

    def _changed(self, line: Progress) -> LayerProgress | None:
        before = self._layers.get(line.id)
        size = max(line.detail.total, before.size if before is not None else 0)
        if not line.id or size <= 0:
            return None
        digest, fetched = f"sha256:{line.id}", before.fetched if before is not None else 0
        if line.status == _FETCHING:
            return LayerProgress(digest, size, max(fetched, _within(line.detail.current, size)))
        if line.status in _FETCHED:
            return LayerProgress(digest, size, size)
        if line.status == _UNPACKING:
            return LayerProgress(digest, size, size, _within(line.detail.current, size))
        return LayerProgress(digest, size, size, size) if line.status == _DONE else None


def _within(count: int, size: int) -> int:
    return max(0, min(count, size))


class DockerImages:
    """The manager of Docker's images, which lists, pulls and removes them.

    Args:
        docker: Docker's API.
        root: the label of this edgecore's containers.
        clock: for the time of a measurement.
    """

    def __init__(self, docker: DockerClient, root: str, clock: Clock) -> None:
        self._docker = docker
        self._root = root
        self._clock = clock
        self.pulls = PullsUnderWay()

    def find(self, name: str, attempt: str) -> Image:
        """Return an image by name, digest or id. Raises NoSuchObjectError, BadRequestError."""
        try:
            return self._docker.get(f"/images/{part(_asked(name, attempt))}/json", Image, attempt)
        except NoSuchObjectError:
            raise NoSuchObjectError(attempt, f'there is no image "{name[:200]}"', "pull it first") from None

    def listing(self, request: cri.ListImagesRequest) -> cri.ListImagesResponse:
        """ListImages: all images, without their users, or the image of the filter."""
        if wanted := request.filter.image.image:
            image = self._find_or_none(wanted)
            return cri.ListImagesResponse(images=[] if image is None else [_view(image, self._pinned())])
        attempt, pinned = "list images", self._pinned()
        listed = self._docker.get("/images/json", list[Image], attempt)
        return cri.ListImagesResponse(images=[_view(each, pinned) for each in listed])

    def status(self, request: cri.ImageStatusRequest) -> cri.ImageStatusResponse:
        """ImageStatus: an answer without an image if it does not exist."""
        image = self._find_or_none(request.image.image)
        return cri.ImageStatusResponse(image=None if image is None else _view(image, self._pinned()))

    def pull(self, request: cri.PullImageRequest, on_cancel: OnEnd) -> cri.PullImageResponse:
        """PullImage. The pull ends when the client cancels the call. Raises RequestRefusedError."""
        name = request.image.image
        attempt = f'pull the image "{name[:200]}"'
        reference = _reference(name, attempt)
        query = {"fromImage": reference.repository, "tag": reference.digest or reference.tag}
        headers = _authorization(request.auth, reference.host, attempt) if request.HasField("auth") else []
        exchange = self._docker.stream("POST", "/images/create", attempt, query, headers)
        call_at_end(on_cancel, lambda: _cut(exchange))
        exchange.socket.settimeout(_SILENCE_SECONDS)
        try:
            with self.pulls.one(name) as told:
                said = _followed(exchange, ReportedLayers(told))
        except (OSError, HttpError) as error:
            raise self._docker.unreachable(attempt, error) from error
        finally:
            exchange.close()
        if said:
            raise RunFailedError(attempt, said[:2000])
        return cri.PullImageResponse(image_ref=self.find(name, attempt).id)

    def remove(self, request: cri.RemoveImageRequest) -> cri.RemoveImageResponse:
        """RemoveImage: removes the image with all its names, which is refused while a container uses it, or with
        `ONE_NAME` one of several tags alone. A missing one is no error.
        """
        image = self._find_or_none(request.image.image)
        is_one = image is not None and ONE_NAME in request.image.annotations
        tag = _one_of_several(image, request.image.image) if image is not None and is_one else ""
        if image is not None and tag:
            self._remove_name(tag, image.id)
        elif image is not None:
            for each in (*(image.repo_tags or ()), *(image.repo_digests or ()), image.id):
                self._remove_name(each, image.id)
        return cri.RemoveImageResponse()

    def file_system(self, _: cri.ImageFsInfoRequest) -> cri.ImageFsInfoResponse:
        """ImageFsInfo: usage of the file system of Docker's directory."""
        root = Path(self._docker.get("/info", Info, "measure the file system of images").docker_root_dir)
        return whole_file_system(root, self._clock.now_ns())

    def _remove_name(self, name: str, image_id: str) -> None:
        try:
            self._docker.call("DELETE", f"/images/{part(name)}", f'remove the image "{name}"')
        except RequestRefusedError as error:  # with its last name the image goes; or another call has removed it
            if not isinstance(error, NoSuchObjectError) and self._find_or_none(image_id) is not None:
                raise

    def _find_or_none(self, name: str) -> Image | None:
        try:
            return self.find(name, "look at an image")
        except NoSuchObjectError:
            return None

    def _pinned(self) -> set[str]:
        """Return the images that garbage collection must keep: the pause image, and images of containers that are not
        this edgecore's.
        """
        listed = self._docker.get("/containers/json", list[ListedContainer], "list containers", {"all": "1"})
        pinned = {each.image_id for each in listed if (each.labels or {}).get(OWNER) != self._root}
        pause = self._find_or_none(PAUSE_IMAGE)
        return pinned | ({pause.id} if pause is not None else set())


def _one_of_several(image: Image, name: str) -> str:
    """Return the tag of an image that a name stands for; "" if it is another name, or the only tag."""
    tags = image.repo_tags or ()
    if len(tags) < 2 or _ID.fullmatch(name):
        return ""
    wanted = [_asked(name, "remove an image")]
    return next((tag for tag in tags if list(_full((tag,))) == wanted), "")


def _asked(name: str, attempt: str) -> str:
    """Return the name under which to request an image from Docker: its id, or its full name."""
    if _ID.fullmatch(name):
        return name
    reference = _reference(name, attempt)
    return reference.tagged or f"{reference.repository}@{reference.digest}"


def _reference(name: str, attempt: str) -> Reference:
    try:
        return parse_reference(name)
    except ImageWorkError:
        raise BadRequestError(attempt, f"{name[:200]!r} is no name of an image") from None


def _view(image: Image, pinned: set[str]) -> cri.Image:
    uid, username = cri_user(image.config.user if image.config is not None else "")
    return cri.Image(
        id=image.id,
        repo_tags=list(_full(image.repo_tags)),
        repo_digests=list(_full(image.repo_digests)),
        size=image.size,
        uid=uid,
        username=username,
        pinned=image.id in pinned,
    )


def _full(names: tuple[str, ...] | None) -> Iterator[str]:
    """Yield the full forms of Docker's short names, without `<none>`."""
    for name in names or ():
        with suppress(ImageWorkError):
            reference = parse_reference(name)
            yield reference.tagged or f"{reference.repository}@{reference.digest}"


def _authorization(auth: cri.AuthConfig, registry: str, attempt: str) -> Headers:
    """Return the header that logs Docker in to a registry; no header if the credentials are for another registry."""
    asked = {field.name: str(value) for field, value in auth.ListFields()}
    try:
        found = credentials_for(asked, registry)
    except ImageWorkError as error:
        raise BadRequestError(attempt, str(error)) from None
    fields = {
        "username": found.username,
        "password": found.password,
        "serveraddress": registry,
        "identitytoken": found.identity_token,
        "registrytoken": found.registry_token,
    }
    return [("X-Registry-Auth", base64.urlsafe_b64encode(json.dumps(fields).encode()).decode())]


def _followed(exchange: Exchange, layers: ReportedLayers) -> str:
    """Take Docker's report to its end; return the error in it, or an empty text. Raises OSError, HttpError."""
    for line in _progress(exchange):
        if line.error:
            return line.error
        layers.update(line)
    return ""


def _progress(exchange: Exchange) -> Iterator[Progress]:
    """Yield the lines of Docker's progress report. Raises OSError, HttpError."""
    rest = b""
    while piece := exchange.piece():
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise HttpError(502, "a line of Docker's report is too long")
        for line in lines:
            with suppress(msgspec.MsgspecError, UnicodeError):
                yield decode_json(line, Progress)


def _cut(exchange: Exchange) -> None:
    with suppress(OSError):
        exchange.socket.shutdown(socket.SHUT_RDWR)
