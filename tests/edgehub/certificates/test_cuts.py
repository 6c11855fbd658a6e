"""A kill or a power cut at each step of what the files of certificates go through."""

from pathlib import Path
from typing import Final

import pytest

from beehive.sockets.tls import TlsFiles
from edgehub.certificates import files
from edgehub.certificates.settings import CertificateSettings
from edgehub.errors import FilesError
from tests.support.power_cuts import Cut, Promise, after_each_cut

OLD, NEW = b"PRIVATE old", b"PRIVATE new"
"""Keys; the certificate of one ends with the same word."""
PLACES: Final = ("ca.crt", "node.crt", "node.key"), ("ca/ca.crt", "certificates/node.crt", "private/node.key")


def paths_below(root: Path, places: tuple[str, str, str]) -> TlsFiles:
    """The paths of the files."""
    authority, certificate, key = (str(root / place) for place in places)
    return CertificateSettings(
        node="n1", server="https://cloud", authority=authority, certificate=certificate, key=key
    ).paths


def certificate_of(key: bytes) -> bytes:
    """The certificate of a key."""
    return key.replace(b"PRIVATE", b"CERTIFICATE")


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("is_joined", [True, False])
def test_key_and_certificate_fit_after_a_cut_at_any_step(
    tmp_path: Path, places: tuple[str, str, str], *, is_joined: bool
) -> None:
    """Of a join, and of a renewal; the key that the cloud may have given the name to is found again."""
    paths = paths_below(tmp_path, places)
    if is_joined:
        files.store(paths, b"ca", certificate_of(OLD), OLD)

    def life(promise: Promise) -> None:
        if not is_joined:
            files.keep_joining_key(paths, NEW)
            promise("sent")
        files.store(paths, None if is_joined else b"ca", certificate_of(NEW), NEW)
        promise("stored")

    def check(cut: Cut) -> None:
        files.finish_replacement(paths)
        if "stored" in cut.promised:
            assert paths.key.read_bytes() == NEW
        if "sent" in cut.promised:
            assert NEW in files.read_keys(paths, is_of_node=True)
        if is_joined or paths.certificate.exists():
            assert paths.certificate.read_bytes() == certificate_of(paths.key.read_bytes())
            assert paths.authority.read_bytes() == b"ca"

    assert after_each_cut(tmp_path, life, check, secrets=(OLD, NEW)) > 12


def test_key_and_certificate_fit_after_a_renewal_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier one has left its certificate and its key."""
    paths = paths_below(tmp_path, PLACES[0])
    files.store(paths, b"ca", certificate_of(OLD), OLD)
    for path in (paths.certificate, paths.key):
        path.with_name(path.name + files._NEW).write_bytes(b"earlier")

    def no_room(path: Path, *_: object) -> None:
        path.unlink(missing_ok=True)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_file", no_room)
    with pytest.raises(FilesError, match="No space"):
        files.store(paths, None, certificate_of(NEW), NEW)
    files.finish_replacement(paths)
    assert (paths.certificate.read_bytes(), paths.key.read_bytes()) == (certificate_of(OLD), OLD)
