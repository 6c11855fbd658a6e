"""A layer with as many entries as one may have."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore
from modules.runtimes.oci.images.errors import TooManyError
from modules.runtimes.oci.images.worker.limits import UnpackLimits
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.images.tars import ARCHITECTURE, directory, encoded, file, write_archive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

_MANY = 1_000_000
_EACH = 1000
"""Files, and directories, in one directory."""
_DIGITS = 7
_TIME = 1_500_000_000


@pytest.fixture
def memory(scratch: Path) -> Iterator[Path]:
    """A file system in memory with hardly more inodes than the layer takes."""
    path = scratch / "memory"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=2100000", "tmpfs", str(path)], check=True)
    yield path
    subprocess.run(["umount", str(path)], check=True)


def _headers() -> Iterator[bytes]:
    """Of empty files and directories in turns, with numbers as names: `0000/f0000000`, `0000/d0000000`, …"""
    file_header = file(f"0000/f{'0' * _DIGITS}", mtime=_TIME)[0].tobuf(tarfile.USTAR_FORMAT)
    directory_header = directory(f"0000/d{'0' * _DIGITS}", mtime=_TIME)[0].tobuf(tarfile.USTAR_FORMAT)
    for header in (file_header, directory_header):
        letter = header[5:6]
        before = header[:148]
        rest = sum(header) - sum(header[:13]) - sum(header[148:156]) + 8 * 32
        for number in range(_MANY):
            name = b"%04d/%s%07d" % (number // _EACH, letter, number)
            yield name + before[13:] + b"%06o\0 " % (rest + sum(name)) + header[156:]


def _archive(path: Path) -> Path:
    packed, digest = io.BytesIO(), hashlib.sha256()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1, mtime=0) as layer:
        for header in _headers():
            digest.update(header)
            layer.write(header)
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{digest.hexdigest()}"]}
    config = encoded({"architecture": ARCHITECTURE, "os": "linux", "config": {}, "rootfs": rootfs})
    manifest = json.dumps([{"Config": "c", "RepoTags": ["example.org/many:1"], "Layers": ["l"]}]).encode()
    return write_archive(path, {"manifest.json": manifest, "c": config, "l": packed.getvalue()})


def test_two_million_entries_are_unpacked_and_removed(scratch: Path, memory: Path) -> None:
    """In the little memory that the process may have: nothing is kept there of each entry.

    The directories' times are right although files were made in them later. With a lower limit the layer is refused
    after a million entries, and nothing is left of them.
    """
    archive = _archive(scratch / "many.tar")
    limited = ImageStore(memory / "limited", RealClock(), scratch / "certs.d", UnpackLimits(entries=_MANY + 1))
    with pytest.raises(TooManyError, match="too many entries"):
        limited.import_archive(archive)
    assert [*limited.layout.layers.iterdir(), *limited.layout.trash.iterdir()] == []
    store = ImageStore(memory / "images", RealClock(), scratch / "certs.d")
    (image,) = store.import_archive(archive)
    tree = store.layout.tree(image.chain[0])
    record = json.loads(store.layout.record(image.chain[0]).read_bytes())
    implied = _MANY // _EACH
    assert record["inodes"] == 2 * _MANY + implied + 1
    assert sum(1 for _ in os.scandir(tree)) == implied
    for number in (0, _MANY // 2, _MANY - 1):
        within = tree / f"{number // _EACH:04}"
        assert len(list(within.iterdir())) == 2 * _EACH
        assert (within / f"d{number:07}").stat().st_mtime == _TIME
    store.remove(cri.RemoveImageRequest(image=cri.ImageSpec(image="example.org/many:1")))
    assert [*store.layout.layers.iterdir(), *store.layout.trash.iterdir()] == []
