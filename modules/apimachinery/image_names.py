"""Full image names, as registries and container runtimes use them.

A short name means Docker Hub's official images: `busybox` is `docker.io/library/busybox:latest`. The grammar comes from
the distribution project's reference package.
"""

import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from modules.apimachinery.attempts import UnreadableError

ONLY_A_NAME: Final = "edgecore.io/only-a-name"
"""Annotation of an image's spec in the CRI, set by the process runtime: the runtime has no images, and any name counts
as present.
"""
_HUB = "docker.io"
_OLD_HUB = "index.docker.io"
_OFFICIAL = "library"
_DEFAULT_TAG = "latest"
_LONGEST = 255

_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_WORD}(?:/{_WORD})*")
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")
"""The digests that the reference package can check; it refuses those of other algorithms."""
_ID = re.compile(r"[0-9a-f]{64}")
"""The id of an image, for which runtimes would take a name of this form."""


class ImageNameError(UnreadableError):
    """An invalid image name; the pod shows InvalidImageName."""


class ImageName(Struct, frozen=True):
    """The parts of an image name: registry, repository, tag and digest ("" without one)."""

    domain: str
    path: str
    tag: str
    digest: str

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.domain}/{self.path}{tag}{digest}"


def parse_image(name: str) -> ImageName:
    """Return the parts of an image name; without tag and digest the tag is `latest`. Raises ImageNameError."""
    rest, _, digest = name.partition("@")
    head, slash, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    domain, path = _split_domain(head + slash + last)
    valid = (
        not _ID.fullmatch(name)
        and (_DOMAIN.fullmatch(domain) or _PATH.fullmatch(domain))  # a host with _, as the reference package takes it
        and _PATH.fullmatch(path)
        and len(path) <= _LONGEST
        and (_TAG.fullmatch(tag) if ":" in rest[len(head) :] else not tag)
        and (_DIGEST.fullmatch(digest) if "@" in name else not digest)
    )
    if not valid:
        raise ImageNameError("cannot read the image name", repr(name), "as registry/repository:tag, in lower case")
    return ImageName(domain, path, tag or ("" if digest else _DEFAULT_TAG), digest)


def listed_name(name: str) -> str:
    """Return the name as the runtime lists it: the tag is dropped beside a digest (Docker's ParseDockerRef). Text that
    is no name is returned as it is.
    """
    try:
        image = parse_image(name)
    except ImageNameError:
        return name
    return str(replace(image, tag="") if image.digest else image)


def _split_domain(name: str) -> tuple[str, str]:
    """Return registry and path. The first component is the registry if it has a dot, a port or capitals, or is
    `localhost`.
    """
    first, slash, rest = name.partition("/")
    is_domain = slash and (any(c in first for c in ".:[") or first == "localhost" or first != first.lower())
    domain, path = (first, rest) if is_domain else (_HUB, name)
    if domain == _OLD_HUB:
        domain = _HUB
    if domain == _HUB and "/" not in path:
        path = f"{_OFFICIAL}/{path}"
    return domain, path
