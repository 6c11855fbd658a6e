"""The files of CA, certificate and key: read with a limit, replaced so that a crash leaves a matching pair.

Two files cannot be replaced together. So `store` writes both new files beside the old ones, then renames the key, then
the certificate. A new certificate without a new key beside it means that the key is in place already, and
`finish_replacement` renames the certificate; in every other state the files in place match. The key has mode 0600
(KubeEdge's 0622 is world-writable).
"""

import base64
import contextlib
from pathlib import Path
from typing import Final

from beehive.files.durable import put_in_place, sync_directory, write_file
from beehive.files.reading import read_file
from beehive.sockets.tls import TlsFiles
from edgehub.certificates.certificate import Certificate
from edgehub.errors import FilesError

LONGEST: Final = 1024 * 1024
"""Largest file in bytes."""

PUBLIC, PRIVATE = 0o644, 0o600
_DIRECTORY: Final = 0o700
_NEW: Final = ".new"
_JOINING: Final = ".joining"


def pem(certificate: bytes) -> bytes:
    """Return a certificate (DER) as PEM."""
    text = base64.b64encode(certificate)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return b"\n".join([b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""])


def read_certificate(path: Path) -> Certificate | None:
    """Return the certificate of a file; None without a file.

    Raises:
        FilesError: the file cannot be read, or holds no certificate.
    """
    try:
        return Certificate.from_pem(read_file(path, LONGEST))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FilesError("cannot read the certificate", str(path), str(error.strerror)) from error
    except ValueError as error:
        raise FilesError("the file holds no certificate", str(path), f"{error}; remove it to join again") from error


def read_keys(paths: TlsFiles, *, is_of_node: bool) -> list[bytes]:
    """Return the keys for this node's join, since a name belongs to one key: the present one if it is of this node, and
    the key of a join that has brought no certificate.
    """
    found = []
    for path in (*((paths.key,) if is_of_node else ()), _joining_path(paths.key)):
        with contextlib.suppress(OSError):
            found.append(read_file(path, LONGEST))
    return found


def keep_joining_key(paths: TlsFiles, key: bytes) -> None:
    """Keep the key (PEM) of a join durably until `store`. Raise FilesError if it is not kept."""
    path = _joining_path(paths.key)
    _write(_new_path(path), key, PRIVATE)
    _rename(_new_path(path), path)


def finish_replacement(paths: TlsFiles) -> None:
    """Finish a replacement that a crash has interrupted.

    Raises:
        FilesError: a file cannot be replaced or checked.
    """
    waiting = _new_path(paths.certificate)
    if file_exists(paths.key) and file_exists(waiting) and not file_exists(_new_path(paths.key)):
        _put_certificate_in_place(paths.certificate)


def file_exists(path: Path) -> bool:
    """Return whether a file exists.

    Raises:
        FilesError: the process may not search the directory, for instance.
    """
    try:
        return path.exists()
    except OSError as error:
        raise FilesError("cannot look for", str(path), str(error.strerror)) from error


def store(paths: TlsFiles, authority: bytes | None, certificate: bytes, key: bytes) -> None:
    """Put the CA (PEM; None leaves it as it is), the certificate (PEM) and the key (PEM) into their files.

    Raises:
        FilesError: a file or directory cannot be written; the files in place still match.
    """
    finish_replacement(paths)
    _remove(_new_path(paths.certificate))
    if authority is not None:
        _write(_new_path(paths.authority), authority, PUBLIC)
    _write(_new_path(paths.key), key, PRIVATE)
    _write(_new_path(paths.certificate), certificate, PUBLIC)
    if authority is not None:
        _rename(_new_path(paths.authority), paths.authority)
    _rename(_new_path(paths.key), paths.key)
    _remove(_joining_path(paths.key))
    _put_certificate_in_place(paths.certificate)


def _put_certificate_in_place(certificate: Path) -> None:
    """Rename the new certificate. A link that dials while a renewal waits for the disk may do it at the same time."""
    try:
        _rename(_new_path(certificate), certificate)
    except FilesError:
        if file_exists(_new_path(certificate)) or not file_exists(certificate):
            raise


def _remove(path: Path) -> None:
    """Remove a file that may be there: of a replacement that ended early, or of a join that has ended."""
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
    except OSError as error:
        raise FilesError("cannot remove", str(path), str(error.strerror)) from error


def unfinished(path: Path) -> tuple[Path, ...]:
    """Return the files that a join or a renewal may leave beside a file when it ends early."""
    joining = _joining_path(path)
    return _new_path(path), joining, _new_path(joining)


def _joining_path(path: Path) -> Path:
    return path.with_name(path.name + _JOINING)


def _new_path(path: Path) -> Path:
    return path.with_name(path.name + _NEW)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file durably, with its name: it may be in another directory than the one that is renamed first. It never
    exists with another mode.
    """
    try:
        path.parent.mkdir(mode=_DIRECTORY, parents=True, exist_ok=True)
        write_file(path, data, mode)
        sync_directory(path.parent)
    except OSError as error:
        raise FilesError("cannot write", str(path), str(error.strerror)) from error


def _rename(source: Path, target: Path) -> None:
    try:
        put_in_place(source, target)
    except OSError as error:
        raise FilesError("cannot replace", str(target), str(error.strerror)) from error
