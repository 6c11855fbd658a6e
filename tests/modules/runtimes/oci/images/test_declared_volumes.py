"""The directories of a container for the volumes that its image declares."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from modules.runtimes.oci.images import DECLARED, ImageRoot, ImageStore, MappedRoot, RootFilesystems, copied_roots
from modules.runtimes.oci.images.declared_volumes import VolumeLimits, make_declared_volumes
from modules.runtimes.oci.images.errors import BadRequestError, RunFailedError
from tests.modules.runtimes.oci.images.tars import device, directory, fifo, file, hardlink, symlink, tar
from tests.modules.runtimes.oci.images.unpacked import imported

_LAYER = tar(
    directory("data", uid=7, gid=8, mode=0o2770), file("data/file", b"x" * 5000, mode=0o4711, uid=9),
    hardlink("data/again", "data/file", mode=0o4711, uid=9), directory("data/below"), symlink("data/out", "/etc"),
    fifo("data/pipe"), device("data/null", 1, 3), directory("srv"), file("srv/page", b"page"), symlink("www", "srv"),
    symlink("absolute", "/srv"), symlink("out", "../../../../srv"), symlink("loop", "loop"), file("plain"),
)  # fmt: skip
_LABEL = "system_u:object_r:container_file_t:s0:c1,c2"


@pytest.fixture(params=["overlay", "copy"])
def root(
    request: pytest.FixtureRequest, store: ImageStore, container: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ImageRoot]:
    """The root file system of an image, mounted or copied."""
    roots = RootFilesystems(store)
    if request.param == "copy":
        monkeypatch.setattr(roots, "_has_overlays", False)
    yield ImageRoot(roots.mount(imported(store, _LAYER).id, container))
    roots.remove(container)


def test_the_images_files_are_there(container: Path, root: ImageRoot) -> None:
    """With owners, modes and links; FIFOs and devices are made, not opened; what the container writes is its own."""
    found = make_declared_volumes(container, root, ["/data"])["/data"]
    status = found.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o2770, 7, 8)
    own = (found / "file").stat()
    assert (own.st_size, stat.S_IMODE(own.st_mode), own.st_uid, own.st_nlink) == (5000, 0o4711, 9, 2)
    assert (found / "out").readlink() == Path("/etc")
    assert stat.S_ISFIFO((found / "pipe").lstat().st_mode)
    assert (found / "null").lstat().st_rdev == os.makedev(1, 3)
    assert (found / "below").is_dir()
    (found / "file").write_bytes(b"mine")
    assert (root.path / "data/file").read_bytes() == b"x" * 5000


@pytest.mark.parametrize("path", ["/www", "/absolute", "/out", "/data/../srv"])
def test_links_stay_inside_the_image(container: Path, root: ImageRoot, path: str) -> None:
    """They lead to directories of the image, never of the machine."""
    found = make_declared_volumes(container, root, [path])[path]
    assert [each.name for each in found.iterdir()] == ["page"]


def test_a_path_that_the_image_lacks(container: Path, root: ImageRoot) -> None:
    """An empty directory of the pod's root."""
    mapped = msgspec.structs.replace(root, root=MappedRoot(Path("/proc/self/ns/user"), 100_000, 200_000))
    found = make_declared_volumes(container, mapped, ["/no/such"])["/no/such"]
    status = found.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o755, 100_000, 200_000)
    assert list(found.iterdir()) == []


@pytest.mark.parametrize("path", ["/plain", "/loop", "/data/null", "/plain/below"])
def test_other_files_than_directories(container: Path, root: ImageRoot, path: str) -> None:
    """It is refused, and never opened."""
    with pytest.raises(BadRequestError, match="no directory at its volume"):
        make_declared_volumes(container, root, [path])


def test_a_start_that_was_interrupted(container: Path, root: ImageRoot) -> None:
    """The volumes are made again."""
    first = make_declared_volumes(container, root, ["/data", "/srv"])
    (first["/data"] / "left").touch()
    (container / DECLARED / "7").mkdir()
    again = make_declared_volumes(container, root, ["/data", "/srv"])
    assert again == first
    assert not (again["/data"] / "left").exists()
    assert sorted(each.name for each in (container / DECLARED).iterdir()) == ["0", "1"]


@pytest.mark.parametrize("limits", [VolumeLimits(entries=6), VolumeLimits(bytes=8192)], ids=["entries", "bytes"])
def test_bounds(container: Path, root: ImageRoot, limits: VolumeLimits) -> None:
    """They hold for all volumes of the container together."""
    os.sync()  # a file takes no blocks before
    make_declared_volumes(container, root, ["/srv"], limits)
    with pytest.raises(RunFailedError, match="too many files, or too large ones"):
        make_declared_volumes(container, root, ["/srv", "/data"], limits)


def test_the_ways_to_all_volumes_are_bounded_together(container: Path, root: ImageRoot) -> None:
    """A path may lead up and down through twenty thousand directories, and a container has a hundred volumes."""
    deep = "d/" * 80
    (root.path / deep).mkdir(parents=True)
    (root.path / "down-and-up").symlink_to(deep + "../" * 80)
    path = "/down-and-up" * 3 + "/srv"
    assert make_declared_volumes(container, root, [path])
    with pytest.raises(BadRequestError, match="through too many directories"):
        make_declared_volumes(container, root, [f"{path}/./{number * '/'}" for number in range(30)])


def test_a_full_disk(container: Path, root: ImageRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(copied_roots, "_copy_content", full)
    with pytest.raises(RunFailedError, match=r"No space left on device \(free some space"):
        make_declared_volumes(container, root, ["/srv"])


def test_labels(container: Path, root: ImageRoot) -> None:
    """With SELinux, all files have the container's label; no link is followed."""
    found = make_declared_volumes(container, msgspec.structs.replace(root, label=_LABEL), ["/data"])["/data"]
    for path in (found, found / "file", found / "below", found / "out"):
        assert os.getxattr(path, "security.selinux", follow_symlinks=False) == _LABEL.encode()
    with pytest.raises(OSError, match="No data available"):
        os.getxattr("/etc", "security.selinux")


def test_they_count_as_the_writable_layer(store: ImageStore, container: Path) -> None:
    """A container that fills a volume is seen."""
    roots = RootFilesystems(store)
    path = roots.mount(imported(store, _LAYER).id, container)
    found = make_declared_volumes(container, ImageRoot(path), ["/srv"])["/srv"]
    before = roots.usage(container)
    (found / "new").write_bytes(bytes(65536))
    os.sync()
    after = roots.usage(container)
    assert (before.inodes, after.inodes, after.bytes - before.bytes >= 65536) == (2, 3, True)
    roots.remove(container)
