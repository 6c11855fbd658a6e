"""Names of a tar's entries as components, and whiteouts among them."""

from modules.runtimes.oci.images.worker.errors import invalid
from modules.runtimes.oci.images.worker.limits import LONGEST_COMPONENT, LONGEST_NAME

WHITEOUT = b".wh."
OPAQUE = b".wh..wh..opq"
_RESERVED = b".wh..wh."
"""Begins names of AUFS' own files, which mean nothing elsewhere."""


def components(name: bytes) -> tuple[bytes, ...]:
    """Return the components of an entry's name; none for the root itself.

    Raises ImageWorkError for a name with "..", NUL, or too many bytes.
    """
    parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
    if b".." in parts or b"\0" in name:
        raise invalid(f"an entry's name leaves the layer: {_shown(name)}")
    if len(name) > LONGEST_NAME or any(len(part) > LONGEST_COMPONENT for part in parts):
        raise invalid(f"an entry's name is too long: {_shown(name)}")
    return parts


def is_reserved(parts: tuple[bytes, ...]) -> bool:
    """Whether an entry is one of AUFS' own.

    Raises ImageWorkError for a whiteout that is a directory of other entries.
    """
    if any(part.startswith(_RESERVED) and part != OPAQUE for part in parts):
        return True
    if any(part.startswith(WHITEOUT) for part in parts[:-1]):
        raise invalid("an entry is inside of a whiteout")
    return False


def hidden_name(name: bytes) -> bytes:
    """Return the name that a whiteout removes. Raises ImageWorkError."""
    hidden = name[len(WHITEOUT) :]
    if hidden in (b"", b".", b".."):
        raise invalid("a whiteout names nothing")
    return hidden


def _shown(name: bytes) -> str:
    return repr(name[:80])
