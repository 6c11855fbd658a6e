"""The files of CA, certificate and key: read with a limit, replaced so that a crash leaves a pair that fits.

Certificate and key are two files, and two files cannot be replaced at once. Both new ones are written beside the old
ones first; then the key takes its place, then the certificate. So when a new certificate is found without a new key
beside it, the key has its place already, and the certificate only has to follow (`settle`); in every other state the
files in place fit. KubeEdge writes the key world-writable (0622); here it is the owner's alone.
"""

import base64
import contextlib
from pathlib import Path
from typing import Final

from beehive.files.durable import put_in_place, write_file
from beehive.files.reading import read_file
from edgehub.certificates.certificate import Certificate
from edgehub.certificates.errors import FilesError
from edgehub.certificates.settings import CertificatePaths

LONGEST: Final = 1024 * 1024
"""Bytes of a file that are read."""

PUBLIC, PRIVATE = 0o644, 0o600
_DIRECTORY: Final = 0o700
_NEW: Final = ".new"


def pem(certificate: bytes) -> bytes:
    """A certificate's bytes as the text that its file has."""
    text = base64.b64encode(certificate)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return b"\n".join([b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""])


def read_certificate(path: Path) -> Certificate | None:
    """The certificate in a file; None when there is no file.

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


def settle(paths: CertificatePaths) -> None:
    """Finish a replacement that a crash has interrupted.

    Raises:
        FilesError: a file cannot be replaced, or looked for.
    """
    waiting = _beside(paths.certificate)
    if is_there(paths.key) and is_there(waiting) and not is_there(_beside(paths.key)):
        _let_follow(paths.certificate)


def is_there(path: Path) -> bool:
    """Whether there is such a file.

    Raises:
        FilesError: nobody can say; this process may not look into the directory, for instance.
    """
    try:
        return path.exists()
    except OSError as error:
        raise FilesError("cannot look for", str(path), str(error.strerror)) from error


def store(paths: CertificatePaths, authority: bytes | None, certificate: bytes, key: bytes) -> None:
    """Put the CA (PEM; None leaves it as it is), the certificate (PEM) and the key (PEM) into their files.

    Raises:
        FilesError: a file or directory cannot be made; those in place are as they were, or fit.
    """
    settle(paths)
    _remove(_beside(paths.certificate))
    if authority is not None:
        _write(_beside(paths.authority), authority, PUBLIC)
    _write(_beside(paths.key), key, PRIVATE)
    _write(_beside(paths.certificate), certificate, PUBLIC)
    if authority is not None:
        _rename(_beside(paths.authority), paths.authority)
    _rename(_beside(paths.key), paths.key)
    _let_follow(paths.certificate)


def _let_follow(certificate: Path) -> None:
    """Put the new certificate into its place, which another process may do at the same time: a link that dials while a
    renewal waits for the disk.
    """
    try:
        _rename(_beside(certificate), certificate)
    except FilesError:
        if is_there(_beside(certificate)) or not is_there(certificate):
            raise


def _remove(path: Path) -> None:
    """Of a replacement that was interrupted before the key had its place; nobody may take it for the next one's."""
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
    except OSError as error:
        raise FilesError("cannot remove", str(path), str(error.strerror)) from error


def _beside(path: Path) -> Path:
    return path.with_name(path.name + _NEW)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file anew, durably; it never exists with another mode than its own."""
    try:
        path.parent.mkdir(mode=_DIRECTORY, parents=True, exist_ok=True)
        write_file(path, data, mode)
    except OSError as error:
        raise FilesError("cannot write", str(path), str(error.strerror)) from error


def _rename(source: Path, target: Path) -> None:
    try:
        put_in_place(source, target)
    except OSError as error:
        raise FilesError("cannot replace", str(target), str(error.strerror)) from error
