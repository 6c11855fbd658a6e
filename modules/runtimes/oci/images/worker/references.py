"""Image references: registry, repository, tag and digest, by the grammar of distribution's reference package."""

import re
from typing import Final, NamedTuple

from modules.runtimes.oci.images.worker.digests import is_digest
from modules.runtimes.oci.images.worker.errors import invalid

HUB: Final = "docker.io"
_OLD_HUB: Final = "index.docker.io"
_LONGEST: Final = 255
_LONGEST_REFERENCE: Final = 1024
_WORD: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH: Final = re.compile(rf"{_WORD}(?:/{_WORD})*")
_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class Reference(NamedTuple):
    """A full image reference; `tag` or `digest` may be empty, not both."""

    host: str
    path: str
    tag: str
    digest: str

    @property
    def repository(self) -> str:
        """The name without tag and digest."""
        return f"{self.host}/{self.path}"

    @property
    def tagged(self) -> str:
        """The name with its tag; empty without one, or beside a digest, which decides (as CRI lists names)."""
        return f"{self.repository}:{self.tag}" if self.tag and not self.digest else ""


def parse_reference(text: str) -> Reference:
    """Return the parts of an image reference as people write them; the tag is `latest` if there is no digest either.

    Raises ImageWorkError.
    """
    rest, at, digest = text[:_LONGEST_REFERENCE].partition("@")
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    host, path = _split(head + slash + last)
    right = (
        len(text) <= _LONGEST_REFERENCE
        and _HOST.fullmatch(host)
        and _PATH.fullmatch(path)
        and len(host) + 1 + len(path) <= _LONGEST
        and (_TAG.fullmatch(tag) if colon else True)
        and (is_digest(digest) if at else True)
    )
    if not right:
        raise invalid(f"{text[:200]!r} is no image name", "write registry/repository:tag, in lower case")
    return Reference(host, path, tag or ("" if digest else "latest"), digest)


def _split(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    is_host = slash and (any(c in first for c in ".:[") or first == "localhost" or first != first.lower())
    host, path = (first, rest) if is_host else (HUB, name)
    if host == _OLD_HUB:
        host = HUB
    return host, f"library/{path}" if host == HUB and "/" not in path else path
