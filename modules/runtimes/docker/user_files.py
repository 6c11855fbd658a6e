"""Refuses containers where Docker would take the number of a user or group for a name.

Docker looks `User` and `GroupAdd` up in the container's /etc/passwd and /etc/group, by name first: an image with a user
named 1000 whose number is 0 would run as root against `runAsUser: 1000`. CRI's numbers are numbers.
"""

import io
import os
import posixpath
from collections.abc import Iterable, Mapping
from typing import Final

from modules.runtimes.docker.client import DockerClient
from modules.runtimes.engine.errors import BadRequestError, NoSuchObjectError
from modules.runtimes.oci.images.worker.compression import PlainBytes
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.limits import UnpackLimits
from modules.runtimes.oci.images.worker.tar_entries import FILE, SYMBOLIC_LINK, TarEntries
from modules.runtimes.oci.images.worker.tar_stream import TarStream
from modules.runtimes.oci.user_numbers import is_number, number_in
from protos.cri.v1 import api_pb2 as cri

_PASSWD, _GROUP = "/etc/passwd", "/etc/group"
_MOST_LINKS: Final = 8
LARGEST_ARCHIVE: Final = 1024 * 1024
"""Bytes of one of these files with the headers of its archive. They are read at each start and command."""


def refuse_numbers_as_names(
    docker: DockerClient, container_id: str, security: cri.LinuxContainerSecurityContext, image_user: str, attempt: str
) -> None:
    """Look into the files of a container before Docker does.

    Args:
        docker: Docker's API.
        container_id: of the container, which may run already.
        security: CRI's user and groups.
        image_user: the image's `USER`, which counts where CRI gives no user.
        attempt: a phrase for errors.

    Raises:
        BadRequestError: a number that is asked for is a name there, and stands for another number.
        RequestRefusedError: the files cannot be read.
    """
    for path, asked in _asked(security, image_user).items():
        numbers = {each: number_in(each) for each in asked if is_number(each)}
        if not numbers:
            continue
        for fields in _entries(_content(docker, container_id, path, attempt)):
            if fields[0] in numbers and number_in(fields[2] if len(fields) > 2 else "") != numbers[fields[0]]:
                reason = f'{path} of the image has the name "{fields[0]}", and Docker would take it for the number'
                raise BadRequestError(attempt, reason, "use another image")


def _asked(security: cri.LinuxContainerSecurityContext, image_user: str) -> Mapping[str, Iterable[str]]:
    """Return the texts that Docker looks up, by file."""
    user, group = str(security.run_as_user.value), str(security.run_as_group.value)
    if not security.HasField("run_as_user"):
        user = security.run_as_username
    if not security.HasField("run_as_group"):
        group = ""
    if not user:
        user, _, group = image_user.partition(":")
    return {_PASSWD: [user], _GROUP: [group, *map(str, security.supplemental_groups)]}


def _content(docker: DockerClient, container_id: str, path: str, attempt: str) -> bytes:
    """Return a file of a container, or b"". Docker follows links in the directories of a path only."""
    for _ in range(_MOST_LINKS):
        try:
            archive = docker.archive(container_id, path, attempt, LARGEST_ARCHIVE)
        except NoSuchObjectError:
            return b""
        try:
            blocks = TarStream(PlainBytes(io.BytesIO(archive).read), UnpackLimits(), lambda: None)
            found = next(iter(TarEntries(blocks, 1)), None)
            if found is not None and found.kind == SYMBOLIC_LINK:
                path = posixpath.normpath(posixpath.join(posixpath.dirname(path), os.fsdecode(found.target)))
                continue
            if found is not None and found.kind == FILE:
                return b"".join(blocks.chunks(found.stored))
        except ImageWorkError as error:
            raise BadRequestError(attempt, f"{path} of the image cannot be read: {error}") from error
        break
    raise BadRequestError(attempt, f"{path} of the image is no file", "use another image")


def _entries(content: bytes) -> Iterable[list[str]]:
    for line in set(content.split(b"\n")):  # most lines of a hostile file are the same
        yield line.strip().decode(errors="surrogateescape").split(":")
