"""A bundle: the wheels of a release and of all that it needs, as one signed file.

It is a tar, packed or not, whose first member is `manifest.json` and whose second is `manifest.sig`, the Ed25519
signature (RFC 8032) of the first; the others are the wheels and the list of them (CycloneDX), which the manifest names
with size and SHA-256. Nothing is parsed before the signature is verified, and no path in the file is used.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec

from beehive.decoding import decode_json
from beehive.files.advice import advice
from modules.processes.common.backup.archive import (
    ANY_SIZE,
    DAMAGED,
    PartEntry,
    check_room,
    extract_parts,
    is_plain_file,
    read_end,
)
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.versions import VERSION_PATTERN
from modules.runtimes.oci.images.worker.compression import PlainBytes
from modules.runtimes.oci.images.worker.tar_entries import Entry, TarEntries
from modules.runtimes.oci.images.worker.tar_stream import TarStream

FORMAT: Final = 1
"""Version of the form. A bundle of a newer one is refused."""

MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
SBOM: Final = "sbom.cdx.json"
"""The list of what the release consists of."""
CONTEXT: Final = b"edgecore bundle 1\n"
"""Prefix of the signed manifest, so that the signature is good for nothing else."""

LARGEST_MANIFEST: Final = 1024 * 1024
MOST_WHEELS: Final = 512
LARGEST_WHEELS: Final = 2 * 1024 * 1024 * 1024
"""Bytes of all wheels together."""
LARGEST_UNPACKED: Final = 8 * 1024 * 1024 * 1024
_SIGNATURE_BYTES: Final = 64
_OF_MEMBER: Final = 4096
"""Bytes that tar adds to a member at most: headers, also for a long name, and the rest of its last block."""
_OF_END: Final = 64 * 1024
"""Bytes at the end of a tar: two empty blocks, filled up to a record of 10 KiB, or of 64 KiB by other programs."""
_WHEEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,250}\.whl", re.ASCII)


class BundleManifest(msgspec.Struct, frozen=True, rename="camel"):
    """The first member."""

    format: int
    version: Annotated[str, msgspec.Meta(pattern=rf"^{VERSION_PATTERN}\Z")]
    commit: Annotated[str, msgspec.Meta(max_length=64)]
    machines: tuple[str, ...]
    """Architectures, as `uname -m` names them."""
    pythons: tuple[str, ...]
    """Versions of Python, such as `3.11`."""
    schema: int
    """Version of the schema that the node's database has with it."""
    unpacked: int
    """Bytes of all files in the wheels."""
    differences: tuple[str, ...] = ()
    """Names of the decisions that the release means to make otherwise than the one before it."""
    parts: tuple[PartEntry, ...] = ()
    """The wheels, and the list of them."""
    expires: int = 0
    """Seconds since the Unix epoch after which no node takes it: nobody in the cloud's place can offer an old
    release with known faults for ever. 0: never.
    """


def read_bundle(source: Path, keys: Sequence[str], into: Path) -> tuple[BundleManifest, bytes]:
    """Extract the parts of a bundle into an empty directory; return its manifest, and the text of that.

    Args:
        source: the file.
        keys: public keys in base64, one of which must have signed it.
        into: the directory.

    Raises:
        UpgradeError: it is not signed by one of the keys, damaged, of a newer form, too large, or cannot be read.
    """
    with _opened(source) as (tar, members):
        text = _signed(tar, members, keys)
        manifest = _decoded(text)
        check_room(into, sum(part.size for part in manifest.parts) + manifest.unpacked)
        extract_parts(tar, members, manifest.parts, into)
        read_end(tar)
    return manifest, text


def read_manifest(source: Path, keys: Sequence[str]) -> BundleManifest:
    """Return the manifest of a bundle, of which only the beginning need be there; its wheels are not looked at.

    Raises:
        UpgradeError: it is not signed by one of the keys, damaged, or of a newer form.
    """
    with _opened(source) as (tar, members):
        return _decoded(_signed(tar, members, keys))


def largest_of(manifest: BundleManifest) -> int:
    """Return how many bytes the file of a bundle may have: its parts, the manifest, and what tar adds to each member
    and to the end.
    """
    return sum(part.size + _OF_MEMBER for part in manifest.parts) + LARGEST_MANIFEST + 2 * _OF_MEMBER + _OF_END


@contextmanager
def _opened(source: Path) -> Iterator[tuple[TarStream, Iterator[Entry]]]:
    """Yield a bundle and its members. Raises UpgradeError if it turns out to be damaged, or cannot be read."""
    try:
        with source.open("rb") as file:
            tar = TarStream(PlainBytes(file.read), ANY_SIZE, lambda: None)
            yield tar, iter(TarEntries(tar, 2 * MOST_WHEELS))
    except OSError as error:
        raise UpgradeError("cannot read the bundle", str(error.filename or source), advice(error)) from error
    except DAMAGED as error:
        raise UpgradeError("cannot read the bundle", str(source), f"it is truncated or damaged: {error}") from error


def _signed(tar: TarStream, members: Iterator[Entry], keys: Sequence[str]) -> bytes:
    """Return the manifest's text, whose signature is verified."""
    text = _member(tar, members, MANIFEST, LARGEST_MANIFEST)
    _check_signature(_member(tar, members, SIGNATURE, _SIGNATURE_BYTES), text, keys)
    return text


def _member(tar: TarStream, members: Iterator[Entry], name: str, largest: int) -> bytes:
    member = next(members, None)
    if member is None or not is_plain_file(member) or member.name != name.encode() or member.stored > largest:
        raise ValueError(f"it has no {name}")
    return b"".join(tar.chunks(member.stored))


def _check_signature(signature: bytes, text: bytes, keys: Sequence[str]) -> None:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - 17 MB, only here
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    if not keys:
        raise UpgradeError("no bundle is trusted here", hint="upgrade.trustedKeys names the keys of who may sign one")
    for key in keys:
        try:
            Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(signature, CONTEXT + text)
        except (InvalidSignature, ValueError):
            continue
        return
    raise UpgradeError("the bundle is signed by none of the keys in upgrade.trustedKeys")


def _decoded(text: bytes) -> BundleManifest:
    manifest = decode_json(text, BundleManifest)
    if manifest.format != FORMAT:
        raise UpgradeError("cannot read the bundle", manifest.version, f"its form {manifest.format} is not {FORMAT}")
    names = {part.name for part in manifest.parts}
    sizes = [part.size for part in manifest.parts]
    if len(names) != len(manifest.parts) or not all(_WHEEL.fullmatch(name) for name in names - {SBOM}):
        raise ValueError("it has parts that are no wheels")
    if len(names) > MOST_WHEELS or min(sizes, default=0) < 0 or sum(sizes) > LARGEST_WHEELS:
        raise ValueError("it is larger than any release")
    if not 0 < manifest.unpacked <= LARGEST_UNPACKED:
        raise ValueError("it says no size of its files that a release can have")
    return manifest
