"""Unpacked images equal containerd's, file by file."""

import itertools
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, reject, seed, settings

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore, RootFilesystems
from tests.modules.runtimes.oci.images.layered import Layers, layers
from tests.modules.runtimes.oci.images.tars import (
    device,
    directory,
    docker_archive,
    fifo,
    file,
    hardlink,
    symlink,
    tar,
    xattrs,
)
from tests.support.containerd import ContainerdError, PrivateContainerd, reason_missing
from tests.support.directories import short_directory
from tests.support.images import busybox_image
from tests.support.images import docker_archive as archive_of

pytestmark = pytest.mark.containerd

_LOWER = tar(
    directory("./", mode=0o700),
    directory("bin", mtime=1000),
    file("bin/su", b"program", mode=0o4755, uid=0, gid=5),
    file("bin/large", os.urandom(1 << 20)),
    hardlink("bin/twin", "bin/su", mode=0o4755, uid=0, gid=5),
    symlink("lib", "usr/lib", uid=3, mtime=2000),
    directory("usr/lib", mode=0o711, uid=4, gid=4, pax_headers=xattrs(user__note=b"hi")),
    file("lib/libc.so", b"c"),
    directory("tmp", mode=0o1777),
    fifo("tmp/pipe", mode=0o622),
    device("dev/null", 1, 3, mode=0o666),
    file("etc/shadow", b"x", mode=0o640, gid=42),
    directory("var", mode=0o2775, gid=8, mtime=1500),
    file("var/old"),
    directory("opt"),
    file("opt/old"),
    file("was-file", b"x"),
    directory("was-directory"),
    file("was-directory/inside"),
)
_UPPER = tar(
    file("etc/.wh.shadow"),
    file("var/new", b"new", mtime=3000),
    directory("opt", mode=0o750),
    file("opt/.wh..wh..opq"),
    file("opt/new"),
    directory("was-file", mode=0o700),
    file("was-file/inside"),
    file("was-directory", b"x"),
    file("usr/lib/new", pax_headers=xattrs(security__capability=b"\0\0\0\2\0\4" + bytes(14))),
)


_numbers = itertools.count()


class _Attributes(NamedTuple):
    kind: int
    mode: int
    owner: tuple[int, int]
    size: int
    device: int
    links: int
    mtime_ns: int
    target: str
    content: bytes
    xattrs: dict[str, bytes]


def _attributes(path: Path) -> _Attributes:
    status = path.lstat()
    is_file, is_link = stat.S_ISREG(status.st_mode), stat.S_ISLNK(status.st_mode)
    is_directory = stat.S_ISDIR(status.st_mode)
    names = os.listxattr(path, follow_symlinks=False)
    return _Attributes(
        stat.S_IFMT(status.st_mode),
        stat.S_IMODE(status.st_mode),
        (status.st_uid, status.st_gid),
        status.st_size if is_file else 0,
        status.st_rdev,
        0 if is_directory else status.st_nlink,
        status.st_mtime_ns,
        str(path.readlink()) if is_link else "",
        path.read_bytes() if is_file else b"",
        {name: os.getxattr(path, name, follow_symlinks=False) for name in names},
    )


def _tree(root: Path) -> dict[str, _Attributes]:
    return {str(path.relative_to(root)): _attributes(path) for path in root.rglob("*")}


@pytest.fixture(scope="module")
def containerd() -> Iterator[PrivateContainerd]:
    """A containerd of these tests."""
    reason = reason_missing()
    if reason is not None:
        pytest.skip(reason)
    with PrivateContainerd() as started:
        yield started


def _unpacked_by(containerd: PrivateContainerd, archive: Path, name: str, target: Path) -> dict[str, _Attributes]:
    """The tree of an image in containerd's snapshots, seen through a mount."""
    containerd.ctr("images", "import", str(archive))
    target.mkdir()
    containerd.ctr("images", "mount", name, str(target))
    try:
        return _tree(target)
    finally:
        containerd.ctr("images", "unmount", str(target))


def test_a_tree_of_two_layers_equals_containerds(
    containerd: PrivateContainerd, store: ImageStore, scratch: Path
) -> None:
    """Owners, modes, times, links, devices, attributes, and what the upper layer removes.

    The times of directories that neither tar names are left out: they come from unpacking.
    """
    archive = docker_archive(scratch / "two.tar", [_LOWER, _UPPER], ["example.org/two:1"])
    wanted = _unpacked_by(containerd, archive, "example.org/two:1", scratch / "theirs")
    (image,) = store.import_archive(archive)
    mounted = RootFilesystems(store)
    (scratch / "ours").mkdir()
    found = _tree(mounted.mount(image.id, scratch / "ours"))
    mounted.unmount(scratch / "ours")
    implicit = {"usr", "dev", "etc", "var", "usr/lib"}
    assert found.keys() == wanted.keys()
    for name, attributes in wanted.items():
        mtime = found[name].mtime_ns if name in implicit else attributes.mtime_ns
        assert (name, found[name]) == (name, attributes._replace(mtime_ns=mtime))


@pytest.fixture(scope="module")
def above() -> Iterator[Path]:
    """A directory for all examples: each takes a store of its own in it."""
    if os.geteuid() != 0:
        pytest.skip("layers have owners and devices: only root can unpack them")
    with short_directory("oi-", Path("/var/tmp")) as path:
        yield path
        assert str(path) not in Path("/proc/self/mountinfo").read_text()


def _compare(containerd: PrivateContainerd, above: Path, made: Layers) -> None:
    """Unpack the layers with both, and compare the trees."""
    scratch = above / f"tree-{next(_numbers)}"
    scratch.mkdir()
    name = f"example.org/{scratch.name}:1"
    archive = docker_archive(scratch / "image.tar", made.tars, [name])
    try:
        wanted = _unpacked_by(containerd, archive, name, scratch / "theirs")
    except ContainerdError as error:
        assert "not a directory" in str(error)
        reject()  # containerd makes no directory where a layer below has the whiteout of a file
    store = ImageStore(scratch / "images", RealClock(), scratch / "certs.d")
    (image,) = store.import_archive(archive)
    mounted = RootFilesystems(store)
    (scratch / "ours").mkdir()
    found = _tree(mounted.mount(image.id, scratch / "ours"))
    mounted.unmount(scratch / "ours")
    for path in made.untimed & found.keys() & wanted.keys():
        found[path] = found[path]._replace(mtime_ns=wanted[path].mtime_ns)
    assert found.keys() == wanted.keys()
    differences = {path: (found[path], wanted[path]) for path in wanted if found[path] != wanted[path]}
    assert differences == {}, "ours, and containerd's"
    shutil.rmtree(scratch)


@pytest.mark.parametrize("number", range(5))
def test_fixed_trees_equal_containerds(containerd: PrivateContainerd, above: Path, number: int) -> None:
    """Some trees of `test_random_trees_equal_containerds`, the same each time."""

    @settings(max_examples=3, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @seed(number)
    @given(layers())
    def compare(made: Layers) -> None:
        _compare(containerd, above, made)

    compare()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(made=layers())
def test_random_trees_equal_containerds(containerd: PrivateContainerd, above: Path, made: Layers) -> None:
    """Whiteouts, opaque directories, directories left out, links, sparse files, owners, modes, times, attributes."""
    _compare(containerd, above, made)


def test_busybox_equals_containerds(containerd: PrivateContainerd, store: ImageStore, scratch: Path) -> None:
    """The image of the tests of containers, and its id."""
    image = busybox_image("example.org/busybox:1", Labels={"of": "this test"})
    archive = archive_of(image, scratch)
    wanted = _unpacked_by(containerd, archive, image.name, scratch / "theirs")
    (ours,) = store.import_archive(archive)
    assert _tree(store.layout.tree(ours.chain[0])) == wanted
    assert ours.id[7:] in containerd.ctr("content", "ls")
