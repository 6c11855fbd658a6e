"""Names of images as people write them, and in full as runtimes and registries keep them.

The rules are those of the distribution project's reference grammar: the first part is a registry only when it looks like
one (a dot, a port, or `localhost`), Docker Hub is what is meant otherwise, and its official images live in `library/`.
"""

import re

import msgspec

from edged.errors import EdgedError

DEFAULT_REGISTRY = "docker.io"
_LIBRARY = "library/"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_REGISTRY = re.compile(r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,}")
_LONGEST_PATH = 255


class ImageNameError(EdgedError):
    """A text that names no image (`InvalidImageName`)."""


class ImageName(msgspec.Struct, frozen=True, gc=False):
    """An image's name in its parts."""

    registry: str
    path: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        """The full name: `docker.io/library/busybox:latest`."""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.registry}/{self.path}{tag}{digest}"


def parse_image(text: str) -> ImageName:
    """The parts of a name; without tag and digest the tag is `latest`. Raises ImageNameError."""
    rest, at, digest = text.partition("@")
    name, tag = _split_tag(rest)
    registry, path = _split_registry(name)
    good = (
        _PATH.fullmatch(path)
        and len(path) <= _LONGEST_PATH
        and _REGISTRY.fullmatch(registry)
        and (not tag or _TAG.fullmatch(tag))
        and (not at or _DIGEST.fullmatch(digest))
        and not rest.endswith(":")
    )
    if not good:
        hint = "as registry/path:tag or registry/path@sha256:…, in lower case"
        raise ImageNameError("cannot read the image's name", repr(text[:300]), hint)
    return ImageName(registry, path, tag or ("" if digest else "latest"), digest)


def _split_tag(text: str) -> tuple[str, str]:
    """The colon after the last slash begins a tag; one before it belongs to the registry's port."""
    name, colon, tag = text.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (text, "")


def _split_registry(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry, path = ("docker.io" if first == "index.docker.io" else first), rest
    else:
        registry, path = DEFAULT_REGISTRY, name
    return registry, _LIBRARY + path if registry == DEFAULT_REGISTRY and "/" not in path else path
