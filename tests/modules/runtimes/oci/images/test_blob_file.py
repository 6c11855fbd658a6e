"""A blob's file over attempts: what is there counts, and no more."""

import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.runtimes.oci.images.worker.blob_file import BlobFile

CONTENT = bytes(range(200))
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture
def blob(tmp_path: Path) -> Iterator[BlobFile]:
    made = BlobFile(tmp_path / "blob", DIGEST, len(CONTENT))
    yield made
    made.close()


def test_a_write_for_which_the_disk_has_no_room_loses_only_what_did_not_fit(
    blob: BlobFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt goes on there, and the whole is right: nothing is fetched twice."""
    write = os.pwrite

    def until_full(descriptor: int, data: memoryview, at: int) -> int:
        if at >= 150:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:50], at)

    monkeypatch.setattr(os, "pwrite", until_full)
    with pytest.raises(OSError, match="No space"):
        blob.write(CONTENT)
    monkeypatch.undo()
    assert blob.position() == 150
    blob.write(CONTENT[150:])
    assert blob.is_right()


def test_a_later_attempt_uses_the_present_layers(tmp_path: Path, blob: BlobFile) -> None:
    """Also a third one, after wrong bytes were discarded; more than the blob has are none of it."""
    blob.write(b"wrong" + CONTENT[5:])
    again = BlobFile(tmp_path / "blob", DIGEST, len(CONTENT))
    assert (again.position(), again.is_right()) == (len(CONTENT), False)
    assert again.restart() == len(CONTENT)
    again.write(CONTENT[:100])
    again.close()
    third = BlobFile(tmp_path / "blob", DIGEST, len(CONTENT))
    assert third.position() == 100
    third.write(CONTENT[100:])
    assert third.is_right()
    third.close()
    small = BlobFile(tmp_path / "blob", DIGEST, len(CONTENT) - 1)
    assert small.position() == 0
    small.close()
