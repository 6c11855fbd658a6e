"""Extended headers of a tar (POSIX pax, with SCHILY's extended attributes and GNU's sparse files)."""

from typing import NamedTuple

from modules.runtimes.oci.images.worker.errors import invalid
from modules.runtimes.oci.images.worker.tar_numbers import decimal

_XATTR = b"SCHILY.xattr."
_LENGTH_DIGITS = 8


class PaxHeader(NamedTuple):
    """The records of one extended header."""

    records: dict[bytes, bytes]
    xattrs: dict[str, bytes]
    holes: list[bytes]
    """Offsets and lengths of GNU's sparse format 0.0, which repeats its keys."""


NOTHING = PaxHeader({}, {}, [])


def parse_extended(content: bytes) -> PaxHeader:
    """Return the records of a header. Raises ImageWorkError."""
    found = PaxHeader({}, {}, [])
    at = 0
    while at < len(content):
        key, value, at = _record(content, at)
        if key.startswith(_XATTR):
            found.xattrs[_text(key[len(_XATTR) :])] = value
        elif key in (b"GNU.sparse.offset", b"GNU.sparse.numbytes"):
            found.holes.append(value)
        elif value:
            found.records[key] = value
        else:
            found.records.pop(key, None)
    return found


def _record(content: bytes, at: int) -> tuple[bytes, bytes, int]:
    """Return key, value and end of the record "LENGTH KEY=VALUE\\n" that begins at `at`."""
    blank = content.find(b" ", at, at + _LENGTH_DIGITS + 1)
    end = at + decimal(content[at:blank]) if blank > at else -1
    key, equals, value = content[blank + 1 : end - 1].partition(b"=")
    if blank < 0 or not blank + 2 < end <= len(content) or content[end - 1 : end] != b"\n" or not key or not equals:
        raise invalid("an extended header of the tar is damaged")
    return key, value, end


def _text(key: bytes) -> str:
    if b"\0" in key:
        raise invalid("an extended attribute has a NUL character in its name")
    return key.decode(errors="surrogateescape")
