"""Root file systems as containers see them."""

import errno
import os
import stat
from pathlib import Path

import pytest

from modules.runtimes.oci.images import (
    ImageStore,
    MappedRoot,
    RootFilesystems,
    StorageUsage,
    StoredImage,
    copied_roots,
    root_filesystems,
)
from modules.runtimes.oci.images.errors import NoSuchObjectError, RunFailedError
from modules.runtimes.shim import kernel
from tests.modules.runtimes.oci.images.tars import device, directory, fifo, file, hardlink, symlink, tar
from tests.modules.runtimes.oci.images.unpacked import imported

_BASE = tar(
    directory("etc", uid=3),
    file("etc/passwd", b"root"),
    file("etc/shadow", b"x"),
    directory("var"),
    file("var/old"),
    directory("opt"),
    file("opt/old"),
    file("bin/sh", b"sh", mode=0o755),
)
_CHANGES = tar(
    file("etc/.wh.shadow"), file("etc/passwd", b"changed"), file("var/.wh..wh..opq"), file("var/new"), file(".wh.opt"),
    directory("opt"), symlink("sh", "bin/sh"),
)  # fmt: skip


@pytest.fixture
def image(store: ImageStore) -> StoredImage:
    """An image of two layers; the upper one removes files of the lower."""
    return imported(store, _BASE, _CHANGES)


def _seen(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_layers_are_merged(store: ImageStore, image: StoredImage, container: Path) -> None:
    """Removed files are gone, replaced ones have their new content."""
    mounted = RootFilesystems(store)
    root = mounted.mount(image.id, container)
    wanted = {"etc", "etc/passwd", "var", "var/new", "opt", "bin", "bin/sh", "sh"}
    assert (_seen(root), (root / "etc/passwd").read_bytes(), (root / "etc").stat().st_uid) == (wanted, b"changed", 3)
    assert stat.S_IMODE(root.stat().st_mode) == 0o755
    mounted.unmount(container)


def test_containers_of_one_image_do_not_see_each_other(store: ImageStore, image: StoredImage, container: Path) -> None:
    """Each has a writable layer, which stays after the container's end until it is removed."""
    mounted, other = RootFilesystems(store), container.with_name("other")
    other.mkdir()
    one, two = mounted.mount(image.id, container), mounted.mount(image.id, other)
    (one / "etc/passwd").write_bytes(b"mine")
    (one / "sh").unlink()
    assert (two / "etc/passwd").read_bytes() == b"changed"
    assert (two / "sh").is_symlink()
    mounted.unmount(container)
    again = mounted.mount(image.id, container)
    assert (again / "etc/passwd").read_bytes() == b"mine"
    mounted.remove(container)
    mounted.remove(other)
    assert not container.exists()
    assert (store.layout.tree(image.chain[1]) / "etc/passwd").read_bytes() == b"changed"


def test_mounting_and_unmounting_twice_is_once(store: ImageStore, image: StoredImage, container: Path) -> None:
    """A crash may have come between the step and its record."""
    mounted = RootFilesystems(store)
    assert mounted.mount(image.id, container) == RootFilesystems(store).mount(image.id, container)
    assert str(container) in Path("/proc/self/mountinfo").read_text()
    mounted.unmount(container)
    mounted.unmount(container)
    mounted.unmount(container / "never")
    assert str(container) not in Path("/proc/self/mountinfo").read_text()


def test_all_mounts_of_a_root_are_undone(store: ImageStore, image: StoredImage, container: Path) -> None:
    """Several edgecores may have been killed between a mount and its record."""
    mounted = RootFilesystems(store)
    target = mounted.mount(image.id, container)
    for _ in range(2):
        kernel.mount(str(target), str(target), "none", kernel.MS_BIND)
    mounted.unmount(container)
    assert not target.exists()
    mounted.remove(container)


def test_the_root_directory_is_its_roots(
    store: ImageStore, image: StoredImage, container: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody may enter it, and the root of the pod's users may make files there, whatever umask edgecore has."""
    mounted = RootFilesystems(store)
    assert mounted.has_overlays
    monkeypatch.setattr(root_filesystems, "_mount_overlay", lambda *_: None)
    umask = os.umask(0o077)
    try:
        mounted.mount(image.id, container, MappedRoot(Path("/proc/self/ns/user"), 100_000, 200_000))
    finally:
        os.umask(umask)
    upper = (container / "upper").stat()
    assert (upper.st_uid, upper.st_gid, stat.S_IMODE(upper.st_mode)) == (100_000, 200_000, 0o755)


def test_the_end_of_a_root_flushes_nothing(store: ImageStore, image: StoredImage, container: Path) -> None:
    """It would flush all files of the disk. What is mounted again has the files all the same."""
    roots = RootFilesystems(store)
    for _ in range(2):
        root = roots.mount(image.id, container)
        [options] = [each for each in Path("/proc/self/mounts").read_text().splitlines() if str(root) in each]
        assert "volatile" in options
        (root / "own").touch()
        roots.unmount(container)
    assert (container / "upper/own").exists()
    roots.remove(container)


def test_a_kernel_that_always_flushes_has_overlays(
    store: ImageStore, image: StoredImage, container: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Linux 5.10."""

    def refuse(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
        if "volatile" in options:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        kernel.mount(source, target, kind, flags, options)

    monkeypatch.setattr(root_filesystems, "mount", refuse)
    roots = RootFilesystems(store)
    assert roots.mount(image.id, container).is_mount()
    roots.remove(container)


def test_a_root_in_use_is_unmounted_all_the_same(store: ImageStore, image: StoredImage, container: Path) -> None:
    """It leaves the tree immediately, and ends with its last user."""
    mounted = RootFilesystems(store)
    root = mounted.mount(image.id, container)
    descriptor = os.open(root / "bin", os.O_RDONLY)
    try:
        mounted.unmount(container)
        assert not root.exists()
        assert "sh" in os.listdir(descriptor)  # noqa: PTH208 - a descriptor
    finally:
        os.close(descriptor)


def test_usage_counts_the_writable_layer(store: ImageStore, image: StoredImage, container: Path) -> None:
    """Not the image's; hard links count once."""
    mounted = RootFilesystems(store)
    root = mounted.mount(image.id, container)
    assert mounted.usage(container) == StorageUsage(0, 0)
    (root / "data").write_bytes(bytes(8192))
    os.link(root / "data", root / "again")
    os.sync()
    found = mounted.usage(container)
    assert (found.bytes >= 8192, found.bytes < 16384, found.inodes) == (True, True, 1)
    mounted.unmount(container)
    assert mounted.usage(container.with_name("none")) == StorageUsage(0, 0)


def test_an_image_volume_is_read_only(store: ImageStore, image: StoredImage, container: Path) -> None:
    """Also one of a single layer; its programs may be executed."""
    mounted = RootFilesystems(store)
    root = mounted.mount_image(image.id, container)
    assert (root / "etc/passwd").read_bytes() == b"changed"
    with pytest.raises(OSError, match="Read-only file system"):
        (root / "new").write_bytes(b"")
    assert not os.statvfs(root).f_flag & os.ST_NOEXEC
    mounted.unmount(container)
    single = imported(store, _BASE, name="example.org/base:1")
    assert (mounted.mount_image(single.id, container) / "bin/sh").exists()
    mounted.unmount(container)


@pytest.mark.parametrize("is_spoilt", [False, True])
def test_what_is_mounted_in_every_container_is_in_no_writable_layer(
    store: ImageStore, image: StoredImage, container: Path, *, is_spoilt: bool
) -> None:
    """The mount points are below the image, whose files stay its own. Spoilt ones are made anew."""
    if is_spoilt:
        (store.layout.root / "mount-points").write_text("etc")
    umask = os.umask(0o077)
    try:
        roots = [RootFilesystems(store, ("dev/", "etc/hosts", "etc/passwd", "run/motd")) for _ in range(2)]
    finally:
        os.umask(umask)
    root = roots[1].mount(image.id, container)
    for name, content in (("etc/hosts", b""), ("etc/passwd", b"changed"), ("run/motd", b"")):
        assert (root / name).read_bytes() == content
        assert stat.S_IMODE((root / name).parent.stat().st_mode) == 0o755
        kernel.mount("/etc/hostname", str(root / name), "none", kernel.MS_BIND)
        kernel.unmount(str(root / name), kernel.MNT_DETACH)
    assert stat.S_IMODE((root / "dev").stat().st_mode) == 0o755
    assert list((container / "upper").iterdir()) == []
    roots[0].remove(container)


def test_an_image_without_layers_is_an_empty_root(store: ImageStore, container: Path) -> None:
    """`FROM scratch` and nothing else."""
    mounted = RootFilesystems(store)
    root = mounted.mount(imported(store).id, container)
    assert list(root.iterdir()) == []
    mounted.unmount(container)


def test_an_image_of_many_layers_is_mounted(store: ImageStore, container: Path) -> None:
    """More than fit into mount's options by their paths, and as many as Docker permits."""
    image = imported(store, *(tar(file(f"file-{number}")) for number in range(127)))
    mounted = RootFilesystems(store)
    root = mounted.mount(image.id, container)
    assert len(_seen(root)) == 127
    mounted.unmount(container)


def test_paths_with_colons_and_commas_are_mounted(store: ImageStore, image: StoredImage, container: Path) -> None:
    """They would end an option."""
    odd = container / "a:b,c=d\\e"
    odd.mkdir()
    mounted = RootFilesystems(store)
    assert (mounted.mount(image.id, odd) / "bin/sh").exists()
    mounted.unmount(odd)


def test_an_image_that_is_not_there_is_not_mounted(store: ImageStore, container: Path) -> None:
    """And one whose layers were lost says so."""
    mounted = RootFilesystems(store)
    with pytest.raises(NoSuchObjectError):
        mounted.mount(f"sha256:{'0' * 64}", container)
    image = imported(store, _BASE)
    store.layout.layer(image.chain[0]).rename(container / "lost")
    with pytest.raises(RunFailedError, match="No such file"):
        mounted.mount(image.id, container)


# without overlayfs


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's kernel has no overlayfs."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    monkeypatch.setattr(root_filesystems, "mount", refuse)


@pytest.mark.usefixtures("refused")
def test_without_overlayfs_each_container_has_a_copy(store: ImageStore, image: StoredImage, container: Path) -> None:
    """Merged, writable, kept until it is removed; neither the image nor another container sees what is written."""
    roots, other = RootFilesystems(store), container.with_name("other")
    other.mkdir()
    one, two = roots.mount(image.id, container), roots.mount(image.id, other)
    wanted = {"etc", "etc/passwd", "var", "var/new", "opt", "bin", "bin/sh", "sh"}
    assert (_seen(one), (one / "etc/passwd").read_bytes(), (one / "etc").stat().st_uid) == (wanted, b"changed", 3)
    with (one / "etc/passwd").open("r+b") as opened:
        opened.write(b"mine")
    (one / "sh").unlink()
    roots.unmount(container)
    again = RootFilesystems(store).mount(image.id, container)
    assert (again / "etc/passwd").read_bytes() == b"mineged"
    assert not (again / "sh").is_symlink()
    for each in (two, store.layout.tree(image.chain[1])):
        assert (each / "etc/passwd").read_bytes() == b"changed"
    assert roots.usage(container).inodes >= len(wanted) - 1
    roots.remove(container)
    roots.remove(other)
    assert not container.exists()
    assert not roots.has_overlays
    assert [each.name for each in store.layout.root.iterdir() if each.name.startswith("trial-")] == []


def test_a_machine_that_is_short_of_memory_has_overlays_all_the_same(
    store: ImageStore, image: StoredImage, container: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container does not start then; later ones would be copies of their images until the next start."""
    roots = RootFilesystems(store)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with monkeypatch.context() as short:
        short.setattr(root_filesystems, "mount", refuse)
        with pytest.raises(RunFailedError, match="Cannot allocate memory"):
            roots.mount(image.id, container)
    assert roots.mount(image.id, container).is_mount()
    roots.remove(container)


def test_a_copy_is_like_an_overlay(store: ImageStore, container: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types, owners, modes, times, links and content of all files, also where a layer changes a type."""
    base = tar(
        directory("a", uid=7, mode=0o2750), file("a/file", b"x" * 5000, mode=0o4711, gid=9),
        hardlink("a/again", "a/file"), file("a/other", b"other"),
        hardlink("a/other-again", "a/other"), directory("deep"), directory("deep/er"), file("deep/er/est"),
        directory("to-link"), file("to-link/gone"), symlink("to-directory", "a"), file("to-directory-too"),
        fifo("pipe"), device("null", 1, 3), file("zeros", bytes(1 << 20)),
    )  # fmt: skip
    changes = tar(
        symlink("to-link", "a"), directory("to-directory"), file("to-directory/new"), directory("to-directory-too"),
        file("deep/er/.wh.est"), file("deep/er/other"),
    )  # fmt: skip
    image = imported(store, base, changes)
    roots, other = RootFilesystems(store), container.with_name("other")
    other.mkdir()
    wanted = _described(roots.mount(image.id, other))
    roots.remove(other)
    copies = RootFilesystems(store)
    monkeypatch.setattr(copies, "_has_overlays", False)
    root = copies.mount(image.id, container)
    assert _described(root) == wanted
    assert stat.S_IMODE(root.stat().st_mode) == 0o755
    copies.remove(container)


@pytest.mark.usefixtures("refused")
def test_an_interrupted_copy_restarts(
    store: ImageStore, image: StoredImage, container: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edgecore that is killed leaves half a copy, which is no root file system; a failed copy leaves nothing."""
    left = container / "rootfs.new"
    left.mkdir()
    (left / "half").touch()
    roots = RootFilesystems(store)
    root = roots.mount(image.id, container)
    assert not (root / "half").exists()
    assert not left.exists()
    roots.remove(container)
    container.mkdir()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(copied_roots, "_copy_content", full)
    with pytest.raises(RunFailedError, match=r"No space left on device \(free some space"):
        roots.mount(image.id, container)
    assert [each.name for each in container.iterdir() if any(each.iterdir())] == []


@pytest.mark.usefixtures("refused")
def test_what_needs_overlayfs_is_refused(store: ImageStore, image: StoredImage, container: Path) -> None:
    """Users of the pod's own and SELinux labels: a copy would isolate less."""
    root = MappedRoot(Path("/proc/self/ns/user"), 100_000, 100_000)
    with pytest.raises(RunFailedError, match="hostUsers: false and SELinux labels need overlayfs"):
        RootFilesystems(store).mount(image.id, container, root)
    with pytest.raises(RunFailedError, match="use a kernel with overlayfs"):
        RootFilesystems(store).mount(image.id, container, None, "system_u:object_r:container_file_t:s0")


@pytest.mark.usefixtures("refused")
def test_a_copied_image_volume(store: ImageStore, image: StoredImage, container: Path) -> None:
    """It has the image's files; the container's mount of it is read-only."""
    roots = RootFilesystems(store)
    assert (roots.mount_image(image.id, container) / "etc/passwd").read_bytes() == b"changed"
    roots.remove(container)


def _described(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in root.rglob("*"):
        status = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        links = 1 if path.is_dir() else status.st_nlink
        found[str(path.relative_to(root))] = (
            status.st_mode, status.st_uid, status.st_gid, status.st_rdev, status.st_mtime_ns, links, content,
        )  # fmt: skip
    return found


def test_what_an_interrupted_mount_has_left_goes_with_the_unmount(store: ImageStore, container: Path) -> None:
    """An edgecore that was killed while it mounted layers again for a pod's users: they would be removed with it."""
    (container / "mapped-0").mkdir()
    RootFilesystems(store).unmount(container)
    assert not (container / "mapped-0").exists()
