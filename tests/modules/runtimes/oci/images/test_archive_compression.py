"""Whole archives that are compressed, and layers in zstd."""

import gzip
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore
from modules.runtimes.oci.images.errors import BadRequestError, TooManyError
from modules.runtimes.oci.images.worker.limits import MIB, UnpackLimits
from tests.modules.runtimes.oci.images.tars import (
    config_of,
    docker_archive,
    encoded,
    file,
    oci_layout,
    tar,
    write_archive,
)

_LAYER = tar(file("one", b"one" * 50_000), file("two"), file("large", bytes(range(256)) * 20_000))
needs_zstd = pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed (apt-get install zstd)")


def zstd(content: bytes) -> bytes:
    """One frame."""
    return subprocess.run(["zstd", "-c"], input=content, check=True, capture_output=True).stdout


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize("pack", [_gzip, pytest.param(zstd, marks=needs_zstd)], ids=["gzip", "zstd"])
@pytest.mark.parametrize("is_layout", [False, True], ids=["docker save", "layout"])
def test_a_compressed_archive_is_imported(
    store: ImageStore, scratch: Path, pack: Callable[[bytes], bytes], *, is_layout: bool
) -> None:
    """It becomes the image of the plain one, whatever its name; nothing of the plain content stays."""
    path = scratch / "a.tar"
    plain = (
        oci_layout(path, [_LAYER], {"io.containerd.image.name": "example.org/app:1"})
        if is_layout
        else docker_archive(path, [_LAYER])
    )
    (expected,) = store.import_archive(plain)
    plain.write_bytes(pack(plain.read_bytes()))
    (image,) = store.import_archive(plain)
    assert image.id == expected.id
    assert image.repo_tags == ("example.org/app:1",)
    assert list(store.layout.ingest.glob("[!s]*")) == []


@pytest.mark.parametrize(
    ("limits", "content", "reason"),
    [
        (UnpackLimits(size=MIB), bytes(2 * MIB), "the archive has more than 1048576 bytes"),
        (UnpackLimits(), bytes(80 * MIB), "times as large as it came"),
        (UnpackLimits(reserve=1 << 60), bytes(65 * MIB), "stay free"),
    ],
    ids=["size", "ratio", "disk"],
)
def test_an_archive_that_is_a_bomb_is_refused(scratch: Path, limits: UnpackLimits, content: bytes, reason: str) -> None:
    """Before it fills the disk; nothing of it stays."""
    store = ImageStore(scratch / "images", RealClock(), scratch / "certs.d", limits)
    (scratch / "a.tar.gz").write_bytes(_gzip(content))
    with pytest.raises(TooManyError, match=reason):
        store.import_archive(scratch / "a.tar.gz")
    assert list(store.layout.ingest.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_gzip(_LAYER)[:-20], "ends too early"),
        (b"\x1f\x8bno gzip at all", "cannot be decompressed"),
        (b"\x28\xb5\x2f\xfdno zstd at all", "cannot be decompressed"),
        (_gzip(b"no tar" * 1000), "checksum|tar"),
    ],
    ids=["cut off", "no gzip", "no zstd", "no tar"],
)
def test_a_damaged_archive_is_refused(store: ImageStore, scratch: Path, content: bytes, reason: str) -> None:
    """With the reason."""
    (scratch / "a.tar.gz").write_bytes(content)
    with pytest.raises(BadRequestError, match=reason):
        store.import_archive(scratch / "a.tar.gz")


@needs_zstd
def test_layers_in_zstd(store: ImageStore, scratch: Path) -> None:
    """Of several frames, one of them skippable, as in zstd:chunked; with padding of the last."""
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip"
    half = len(_LAYER) // 2
    packed = zstd(_LAYER[:half]) + skippable + zstd(_LAYER[half:]) + skippable
    (expected,) = store.import_archive(docker_archive(scratch / "plain.tar", [_LAYER]))
    manifest = b"[" + encoded({"Config": "c", "RepoTags": ["example.org/app:2"], "Layers": ["l"]}) + b"]"
    members = {"manifest.json": manifest, "c": config_of([_LAYER], Cmd=["x"]), "l": packed + bytes(100)}
    (image,) = store.import_archive(write_archive(scratch / "zstd.tar", members))
    assert image.chain == expected.chain


@needs_zstd
@pytest.mark.parametrize("change", [slice(0, -30), slice(0, 9)], ids=["cut off", "head alone"])
def test_zstd_that_ends_too_early_is_refused(store: ImageStore, scratch: Path, change: slice) -> None:
    """With the reason."""
    (scratch / "a.tar.zst").write_bytes(zstd(docker_archive(scratch / "a.tar", [_LAYER]).read_bytes())[change])
    with pytest.raises(BadRequestError, match="ends too early"):
        store.import_archive(scratch / "a.tar.zst")
