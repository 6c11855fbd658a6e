"""Digests of content, and the chain ids of layers."""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from modules.runtimes.oci.images.worker.errors import invalid

_FORM = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


def checked_digest(text: object) -> str:
    """Return a digest that is well formed. Raises ImageWorkError."""
    if not isinstance(text, str) or not _FORM.fullmatch(text):
        raise invalid(f"{str(text)[:80]!r} is no digest (sha256: or sha512: and lower-case hexadecimal digits)")
    return text


def is_digest(text: str) -> bool:
    """Return whether a text is a digest that the store takes."""
    return _FORM.fullmatch(text) is not None


def hash_of(digest: str) -> Any:
    """Return a new hash of a digest's algorithm."""
    return hashlib.new(digest.partition(":")[0])


def sha256_of(content: bytes) -> str:
    """Return the storage digest of content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def matches(digest: str, content: bytes) -> bool:
    """Return whether content has this digest, by its algorithm."""
    found = hash_of(digest)
    found.update(content)
    return bool(found.hexdigest() == digest.partition(":")[2])


def chain_ids(diff_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the chain id of each layer, the lowest first (image spec, "Layer ChainID")."""
    found: list[str] = []
    for diff_id in diff_ids:
        found.append(sha256_of(f"{found[-1]} {diff_id}".encode()) if found else diff_id)
    return tuple(found)
