"""Layers that try to leave their directory, or to take the machine's memory or disk."""

import gzip
import itertools
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore
from modules.runtimes.oci.images.errors import BadRequestError, TooManyError
from modules.runtimes.oci.images.worker import layer_tree
from modules.runtimes.oci.images.worker import unpack as unpack_module
from modules.runtimes.oci.images.worker.errors import ImageWorkError, beyond_limit
from modules.runtimes.oci.images.worker.limits import MIB, UnpackLimits
from modules.runtimes.oci.images.worker.unpack import LayerSource, Unpacked
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.images.tars import (
    Made,
    config_of,
    device,
    directory,
    encoded,
    file,
    hardlink,
    symlink,
    tar,
    write_archive,
)
from tests.modules.runtimes.oci.images.unpacked import imported, unpacked

_OUTSIDE = "../../../../../../../../../.."
_SECRET = b"outside"


def _raw(header: Callable[[bytearray], None], body: bytes = b"", kind: bytes = b"0") -> bytes:
    """A tar of one header, spoilt, with its checksum put right."""
    member = tarfile.TarInfo("name")
    member.size = len(body)
    member.type = kind
    block = bytearray(member.tobuf(tarfile.USTAR_FORMAT))
    header(block)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + body + bytes(-len(body) % 512) + bytes(1024)


def _field(at: int, value: bytes) -> Callable[[bytearray], None]:
    def spoil(block: bytearray) -> None:
        block[at : at + len(value)] = value

    return spoil


@pytest.fixture
def outside(scratch: Path) -> Path:
    """A directory beside the store that no layer may touch."""
    path = scratch / "outside"
    path.mkdir()
    (path / "secret").write_bytes(_SECRET)
    return path


def _clean(store: ImageStore, outside: Path) -> None:
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == _SECRET
    assert [path.name for path in store.layout.layers.iterdir()] == []
    assert store.find("example.org/app:1") is None


@pytest.mark.parametrize(
    "name", [f"{_OUTSIDE}/escaped", "a/../../escaped", "/../escaped", "..", "a/..", "./../escaped", "b/../c"]
)
@pytest.mark.extended
def test_names_with_dots_are_refused(store: ImageStore, outside: Path, name: str) -> None:
    """Whatever they would lead to."""
    with pytest.raises(BadRequestError, match="leaves the layer"):
        unpacked(store, tar(file(name, b"x")))
    _clean(store, outside)


@pytest.mark.parametrize(
    "target", ["{outside}", _OUTSIDE + "{outside}", "/proc/self/root{outside}", "/proc/1/root{outside}"]
)
@pytest.mark.extended
def test_links_to_the_outside_lead_inside(store: ImageStore, outside: Path, target: str) -> None:
    """A file behind a link is made below the layer's root, at the link's path read from there."""
    tree = unpacked(store, tar(symlink("way", target.format(outside=outside)), file("way/secret", b"changed")))
    assert (outside / "secret").read_bytes() == _SECRET
    assert [path.read_bytes() for path in tree.rglob("secret") if not path.is_symlink()] == [b"changed"]


@pytest.mark.extended
def test_a_link_that_is_swapped_for_a_directory_is_seen(store: ImageStore, outside: Path) -> None:
    """The directory of earlier files is not remembered beyond its replacement."""
    tree = unpacked(
        store,
        tar(
            directory("d"),
            file("d/one"),
            symlink("d", str(outside)),
            file("d/secret", b"changed"),
            directory("d"),
            file("d/two"),
        ),
    )
    assert (outside / "secret").read_bytes() == _SECRET
    assert {path.name for path in (tree / "d").iterdir()} == {"two"}


@pytest.mark.parametrize("target", ["{outside}/secret", _OUTSIDE + "{outside}/secret", "/proc/self/fd/3", "../secret"])
@pytest.mark.extended
def test_hard_links_to_the_outside_find_nothing(store: ImageStore, outside: Path, target: str) -> None:
    """Their targets are paths of the layer."""
    with pytest.raises(BadRequestError, match=r"does not exist|leaves the layer"):
        unpacked(store, tar(hardlink("stolen", target.format(outside=outside))))
    _clean(store, outside)


@pytest.mark.extended
def test_a_hard_link_through_a_link_of_a_layer_below_stays_inside(store: ImageStore, outside: Path) -> None:
    """Lower layers are read from their own roots too."""
    with pytest.raises(BadRequestError, match="does not exist"):
        unpacked(store, tar(symlink("way", str(outside))), tar(hardlink("stolen", "way/secret")))


@pytest.mark.parametrize("entry", [file(".wh.."), file(".wh..."), file("a/.wh."), file(".wh.a/b")])
@pytest.mark.extended
def test_whiteouts_of_nothing_are_refused(store: ImageStore, outside: Path, entry: Made) -> None:
    """They would remove the layer itself, or the directory above it."""
    with pytest.raises(BadRequestError, match="whiteout"):
        unpacked(store, tar(entry))
    _clean(store, outside)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (tar(symlink("a", "b"), symlink("b", "a"), file("a/x")), "too many links"),
        (tar(symlink("a", "a/a"), file("a/x")), "too many"),
        (tar(file("a"), file("a/b")), "in the place of a directory"),
        (tar(device("gone", 0, 0)), "forged whiteout"),
        (tar(hardlink("a", "a")), "does not exist"),
        (tar(directory("d"), hardlink("a", "d")), "to a directory"),
        (tar(symlink("a", "")), "no target"),
        (tar(file("x" * 256)), "too long"),
        (tar(file("/".join(["y" * 200] * 21))), "too long"),
        (tar(file("a", pax_headers={"path": "a\0b"})), "leaves the layer"),
        (tar(file("a", pax_headers={"size": "-1"})), "wrong number"),
        (tar(file("a", pax_headers={"uid": "4294967295"})), "impossible user"),
        (tar(device("a", 1 << 32, 0), form=tarfile.GNU_FORMAT), "impossible number"),
        (tar(device("a", 0, 1 << 20), form=tarfile.GNU_FORMAT), "impossible number"),
        (tar(file("a", pax_headers={"mtime": "soon"})), "wrong number"),
        (tar(file("a", pax_headers={"GNU.sparse.map": "0,9,5,9", "GNU.sparse.size": "20"})), "overlap|does not fit"),
        (tar(file("a", b"12", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": "20"})), "does not fit"),
        (tar(file("a", b"9\n" * 300, pax_headers={"GNU.sparse.major": "1"})), "wrong number|damaged|does not fit"),
        (_raw(_field(124, b"\xff" * 12)), "negative"),
        (_raw(_field(124, b"\x80" + b"\x7f" * 11)), "absurd"),
        (_raw(_field(124, b"12345678901 ")), "wrong number|too early"),
        (_raw(_field(156, b"V")), "unknown type"),
        (_raw(_field(156, b"D")), "unknown type"),
        (_raw(_field(329, b"\xff" * 8), kind=b"3"), "impossible number"),
        (_raw(_field(0, b"n"), b"5 a=\n", kind=b"x")[:512] + b"x" * 1024, "too early|damaged"),
        (_raw(_field(0, b"n"), b"99 path=x\n", kind=b"x"), "damaged"),
        (_raw(_field(0, b"n"), b"0 path=x\n", kind=b"x"), "damaged"),
        (_raw(_field(0, b"n"), b"-9 path=x\n", kind=b"x"), "wrong number"),
        (b"\x01" * 512, "wrong number|checksum"),
        (tar(file("a", b"x"))[:700], "too early"),
        (gzip.compress(tar(file("a", bytes(10_000))), mtime=0)[:-20], "too early|decompressed"),
        (b"\x1f\x8bgarbage", "decompressed|too early"),
        (b"\x28\xb5\x2f\xfdgarbage", "zstd|decompressed"),
    ],
)  # fmt: skip
@pytest.mark.extended
def test_wrong_layers_are_refused_with_a_reason(store: ImageStore, outside: Path, layer: bytes, reason: str) -> None:
    """And leave nothing behind."""
    with pytest.raises(BadRequestError, match=reason):
        unpacked(store, layer)
    _clean(store, outside)


@pytest.mark.extended
def test_extended_headers_are_small(store: ImageStore, outside: Path) -> None:
    """The ones that `tarfile` would read whole, of each kind; and few of them for one entry."""
    for kind in (b"x", b"g", b"L", b"K"):
        with pytest.raises(TooManyError, match="extended header"):
            unpacked(store, _raw(_field(0, b"n"), bytes(2 * MIB), kind=kind))
    with pytest.raises(BadRequestError, match="too many headers"):
        unpacked(store, _raw(_field(0, b"n"), b"", kind=b"g")[:512] * 17)
    _clean(store, outside)


@pytest.mark.extended
def test_a_digest_that_differs_from_the_config_is_refused(store: ImageStore, outside: Path) -> None:
    """The layer was changed after the image was made."""
    good = tar(file("a", b"good"))
    manifest = b"[" + encoded({"Config": "c", "RepoTags": ["example.org/app:1"], "Layers": ["l"]}) + b"]"
    members = {"manifest.json": manifest, "c": config_of([good]), "l": tar(file("a", b"evil"))}
    with pytest.raises(BadRequestError, match="has the digest"):
        store.import_archive(write_archive(outside.parent / "a.tar", members))
    _clean(store, outside)


@pytest.mark.parametrize(
    ("limits", "made", "reason"),
    [
        (UnpackLimits(size=MIB), lambda: tar(file("a", bytes(2 * MIB))), "more than 1048576 bytes"),
        (UnpackLimits(entries=10), lambda: tar(*(file(str(n)) for n in range(11))), "too many entries"),
        (UnpackLimits(), lambda: gzip.compress(tar(file("a", bytes(80 * MIB))), mtime=0), "times its compressed size"),
        (UnpackLimits(reserve=1 << 60), lambda: tar(file("a")), "stay free"),
    ],
)
@pytest.mark.extended
def test_layers_beyond_a_limit_are_refused(
    scratch: Path, outside: Path, limits: UnpackLimits, made: Callable[[], bytes], reason: str
) -> None:
    """Size, entries, ratio, and the free space of the disk. Layers of this size are made only where the test runs."""
    store = ImageStore(scratch / "images", RealClock(), scratch / "certs.d", limits)
    with pytest.raises(TooManyError, match=reason):
        unpacked(store, made())
    _clean(store, outside)


@pytest.mark.extended
def test_holes_of_sparse_files_count_as_written(scratch: Path, outside: Path) -> None:
    """A layer of a few KB may not make files of terabytes."""
    store = ImageStore(scratch / "images", RealClock(), scratch / "certs.d", UnpackLimits(size=1 << 30))
    bomb = tar(file("a", b"", pax_headers={"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40)}))
    with pytest.raises(TooManyError, match="more than"):
        unpacked(store, bomb)
    _clean(store, outside)


@pytest.mark.extended
def test_directories_that_entries_leave_out_count(scratch: Path, outside: Path) -> None:
    """One name of 4,096 bytes makes two thousand of them: a layer of 64 MiB would make 26 million, before the next look
    at the disk.
    """
    store = ImageStore(scratch / "images", RealClock(), scratch / "certs.d", UnpackLimits(size=MIB))
    few, many = (tar(*(file(f"{n}/" + "d/" * 100 + "f") for n in range(count))) for count in (2, 3))
    assert unpacked(store, few).is_dir()
    store.remove(cri.RemoveImageRequest(image=cri.ImageSpec(image="example.org/app:1")))
    with pytest.raises(TooManyError, match="more than 1048576 bytes"):
        unpacked(store, many)
    _clean(store, outside)


def _unpack_here(scratch: Path, layers: list[bytes]) -> Unpacked:
    """Unpack layers, the lowest first, in a fork of this process, which has its bounds."""
    found, lower = None, list[Path]()
    scratch.mkdir()
    for number, content in enumerate(layers):
        path, directory = scratch / f"{number}.tar", scratch / str(number)
        path.write_bytes(content)
        directory.mkdir()
        with path.open("rb") as file:
            source = LayerSource(file.fileno(), 0, len(content))
            found = unpack_module.unpack(source, directory, lower, UnpackLimits(reserve=0))
        lower.insert(0, directory / "fs")
    assert found is not None
    return found


def _through_links() -> list[bytes]:
    """Each path leads through three links, and each of these 80 levels down and up again."""
    deep = "d/" * 80
    links = [symlink(f"l{n}", deep + "../" * 80) for n in range(3)]
    way = "/".join(f"l{n}" for n in range(3))
    return [tar(directory(deep), *links, *(file(f"{way}/x{n}/f") for n in range(3)))]


def _looked_up_below() -> list[bytes]:
    """A directory that the tar leaves out is looked up in each layer below; these have all but its last component."""
    deep = "d/" * 100
    return [*[tar(directory(deep), file(f"only-{n}")) for n in range(6)], tar(file(f"{deep}x/f"), file(f"{deep}y/f"))]


@pytest.mark.parametrize("made", [_through_links, _looked_up_below])
@pytest.mark.extended
def test_paths_take_a_bounded_number_of_steps_together(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[[], list[bytes]]
) -> None:
    """Each path is bounded, and a layer has two million entries: a megabyte of tar took a processor for hours."""
    assert _unpack_here(scratch / "enough", made())
    monkeypatch.setattr(layer_tree, "STEPS_OF_LAYER", 1_000)
    with pytest.raises(ImageWorkError, match="through too many directories"):
        _unpack_here(scratch / "few", made())


@pytest.mark.extended
def test_times_of_directories_count_as_steps(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are set at the end, and a spent budget is no reason to leave them out."""
    layer = tar(*(directory("/".join("d" * depth)) for depth in range(1, 60)))
    assert _unpack_here(scratch / "enough", [layer])
    monkeypatch.setattr(layer_tree, "STEPS_OF_LAYER", 0)
    monkeypatch.setattr(layer_tree, "STEPS_OF_ENTRY", 30)
    with pytest.raises(ImageWorkError, match="through too many directories"):
        _unpack_here(scratch / "few", [layer])


@pytest.mark.extended
def test_the_disk_is_looked_at_after_some_inodes(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory is 512 bytes of the tar, and 4 KiB of the disk: 64 MiB of them took twice the reserve."""
    looks = itertools.count(1)

    def look(*_: object) -> None:
        if next(looks) == 3:
            raise beyond_limit("the disk is full")

    monkeypatch.setattr(unpack_module, "_check_disk", look)
    layer = tar(*(directory(str(n)) for n in range(30)))
    assert _unpack_here(scratch / "few", [layer])
    monkeypatch.setattr(unpack_module, "LOOK_AT_INODES_EVERY", 10)
    with pytest.raises(ImageWorkError, match="the disk is full"):
        _unpack_here(scratch / "many", [layer])


def test_a_disk_without_inodes_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system has a number of them."""
    found = SimpleNamespace(f_bavail=1000, f_frsize=1000, f_files=10_000, f_favail=4095)
    monkeypatch.setattr(os, "fstatvfs", lambda _: found)
    with pytest.raises(ImageWorkError, match="hardly any inode"):
        unpack_module._check_disk(0, 1000)
    found.f_files = 0
    unpack_module._check_disk(0, 1000)


@pytest.mark.parametrize(("number", "kind"), [(28, "machine"), (122, "machine"), (5, "machine"), (36, "invalid")])
def test_the_machine_and_the_layer_fail_in_different_ways(number: int, kind: str) -> None:
    """A full disk says nothing about the image, which may be pulled again; a name that is too long is the image's."""
    assert unpack_module._of_entry(OSError(number, "it fails"), b"a").kind == kind


@pytest.mark.extended
def test_copies_of_files_below_count(scratch: Path, outside: Path) -> None:
    """A hard link to a file of a lower layer takes 512 bytes of the tar, and may be a copy of gigabytes."""
    store = ImageStore(scratch / "images", RealClock(), scratch / "certs.d", UnpackLimits(size=4 * MIB))
    below = tar(file("large", bytes(MIB)))
    tree = unpacked(store, below, tar(*(hardlink(str(n), "large") for n in range(3))))
    assert [path.stat().st_size for path in sorted(tree.iterdir())] == [MIB] * 3
    store.remove(cri.RemoveImageRequest(image=cri.ImageSpec(image="example.org/app:1")))
    with pytest.raises(TooManyError, match="more than 4194304 bytes"):
        unpacked(store, below, tar(*(hardlink(str(n), "large") for n in range(5))))
    _clean(store, outside)


@pytest.mark.extended
def test_a_failure_takes_the_layers_below_with_it(store: ImageStore, outside: Path) -> None:
    """An image is added whole, or not at all; the good layers can be added later."""
    below = tar(file("a"))
    with pytest.raises(BadRequestError):
        unpacked(store, below, tar(file("../x")))
    _clean(store, outside)
    assert imported(store, below).chain
