"""What a layer's entries become in the form of overlayfs."""

import gzip
import os
import stat
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest

from modules.runtimes.oci.images import ImageStore
from modules.runtimes.oci.images.errors import BadRequestError
from modules.runtimes.oci.images.worker.tar_numbers import number
from tests.modules.runtimes.oci.images.tars import (
    config_of,
    device,
    directory,
    encoded,
    fifo,
    file,
    hardlink,
    symlink,
    tar,
    write_archive,
    xattrs,
)
from tests.modules.runtimes.oci.images.unpacked import unpacked

_OPAQUE = "trusted.overlay.opaque"
_CAPABILITY = struct.pack("<IIIII", 0x0200_0000, 1 << 10, 0, 0, 0)
FORMS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)


def _is_whiteout(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.extended
def test_files_keep_owner_mode_and_time(store: ImageStore, form: int) -> None:
    """Also set-user-id, sticky directories and the time of a directory that gets files later."""
    tree = unpacked(
        store,
        tar(
            directory("tmp", mode=0o1777, mtime=1000),
            directory("bin", uid=3, gid=4, mtime=2000),
            file("bin/su", b"program", mode=0o4755, uid=0, gid=7, mtime=3000),
            file("tmp/large", bytes(300_000) + b"end", uid=100_000, gid=200_000),
            symlink("bin/sh", "su", uid=5, gid=6, mtime=4000),
            fifo("tmp/pipe", mode=0o620),
            device("null", 1, 3, mode=0o666),
            device("disk", 8, 1, block=True, mode=0o660, gid=6),
            form=form,
        ),
    )
    assert stat.S_IMODE((tree / "tmp").stat().st_mode) == 0o1777
    assert (tree / "tmp").stat().st_mtime == 1000
    assert ((tree / "bin").stat().st_uid, (tree / "bin").stat().st_gid, (tree / "bin").stat().st_mtime) == (3, 4, 2000)
    program = (tree / "bin/su").stat()
    assert (stat.S_IMODE(program.st_mode), program.st_gid, program.st_mtime) == (0o4755, 7, 3000)
    assert (tree / "tmp/large").read_bytes() == bytes(300_000) + b"end"
    assert (tree / "tmp/large").stat().st_uid == 100_000
    link = (tree / "bin/sh").lstat()
    assert (str((tree / "bin/sh").readlink()), link.st_uid, link.st_gid, link.st_mtime) == ("su", 5, 6, 4000)
    assert stat.S_ISFIFO((tree / "tmp/pipe").stat().st_mode)
    assert (tree / "null").stat().st_rdev == os.makedev(1, 3)
    assert stat.S_ISBLK((tree / "disk").stat().st_mode)
    assert stat.S_IMODE(tree.stat().st_mode) == 0o755


@pytest.mark.extended
def test_fractions_of_seconds_and_long_names_come_from_extended_headers(store: ImageStore) -> None:
    """A name of several hundred bytes, not ASCII, and a time in nanoseconds."""
    name = "/".join(["ü" * 100] * 4)
    tree = unpacked(store, tar(file(name, b"x", pax_headers={"mtime": "1600000000.123456789"})))
    assert (tree / name).stat().st_mtime_ns == 1_600_000_000_123_456_789


@pytest.mark.parametrize("form", FORMS[1:])
@pytest.mark.extended
def test_extended_headers_belong_to_one_entry(store: ImageStore, form: int) -> None:
    """The next one has its own name, target, time, owner and attributes, and nothing of the entry before."""
    headers = {"mtime": "5.5", **xattrs(user__note=b"hi")} if form == tarfile.PAX_FORMAT else {}
    first, target = "f" * 150, "t" * 150
    tree = unpacked(
        store,
        tar(
            file(first, b"first", uid=3_000_000, pax_headers=headers),
            file("second", b"second", mtime=7),
            symlink("l" * 150, target),
            symlink("link", "second"),
            form=form,
        ),
    )
    assert sorted(path.name for path in tree.iterdir()) == [first, "link", "l" * 150, "second"]
    second = (tree / "second").stat()
    assert (second.st_uid, second.st_mtime, os.listxattr(tree / "second")) == (0, 7, [])
    assert (str((tree / "link").readlink()), (tree / "second").read_bytes()) == ("second", b"second")


@pytest.mark.extended
def test_a_directory_has_its_own_time_although_it_was_left_out_before(store: ImageStore) -> None:
    """Its entry comes behind one that is in it, and another layer has the directory, too."""
    below = tar(directory("d", mtime=1000), file("d/old"))
    tree = unpacked(store, below, tar(file("d/new"), directory("d", mtime=2000)))
    assert (tree / "d").stat().st_mtime == 2000


@pytest.mark.extended
def test_times_that_no_file_system_has_become_1970(store: ImageStore) -> None:
    """As containerd does it, instead of failing."""
    tree = unpacked(store, tar(file("old", pax_headers={"mtime": "-5"}), file("new", pax_headers={"mtime": "9" * 15})))
    assert (tree / "old").stat().st_mtime == (tree / "new").stat().st_mtime == 0


@pytest.mark.extended
def test_extended_attributes_that_forge_marks_are_dropped(store: ImageStore) -> None:
    """Capabilities and user's attributes stay, overlayfs's and SELinux's go."""
    made = xattrs(
        security__capability=_CAPABILITY, user__note=b"hi", trusted__overlay__opaque=b"y", security__selinux=b"label"
    )
    tree = unpacked(store, tar(file("ping", b"x", pax_headers=made), directory("d", pax_headers=made)))
    assert os.getxattr(tree / "ping", "security.capability") == _CAPABILITY
    assert os.getxattr(tree / "ping", "user.note") == b"hi"
    assert _OPAQUE not in os.listxattr(tree / "d")
    assert b"label" not in {os.getxattr(tree / "ping", name) for name in os.listxattr(tree / "ping")}


@pytest.mark.extended
def test_hard_links_share_a_file(store: ImageStore) -> None:
    """Within the layer, also to a symbolic link, which is not followed."""
    tree = unpacked(
        store,
        tar(
            file("a/one", b"x"),
            hardlink("b/two", "a/one"),
            hardlink("three", "/b/two"),
            symlink("link", "/etc/passwd"),
            hardlink("link2", "link"),
        ),
    )
    assert (tree / "a/one").stat().st_ino == (tree / "b/two").stat().st_ino == (tree / "three").stat().st_ino
    assert str((tree / "link2").readlink()) == "/etc/passwd"


@pytest.mark.extended
def test_a_hard_link_to_a_layer_below_is_a_copy(store: ImageStore) -> None:
    """The uppermost layer that has the file counts."""
    layers = (
        tar(file("bin/a", b"old")),
        tar(file("bin/a", b"new", mode=0o755)),
        tar(hardlink("b", "bin/a", mode=0o755)),
    )
    tree = unpacked(store, *layers)
    assert (tree / "b").read_bytes() == b"new"
    assert not (tree / "bin").exists()


@pytest.mark.extended
def test_a_hard_link_to_a_file_that_a_layer_removed_is_refused(store: ImageStore) -> None:
    """What overlayfs hides must not come back: by a whiteout, or an opaque directory."""
    for removal in (tar(file("bin/.wh.a")), tar(directory("bin"), file("bin/.wh..wh..opq"))):
        with pytest.raises(BadRequestError, match="does not exist"):
            unpacked(store, tar(file("bin/a", b"old")), removal, tar(hardlink("b", "bin/a")))


@pytest.mark.extended
def test_a_hard_link_to_a_file_that_its_own_layer_removes_is_refused(store: ImageStore) -> None:
    """It would remove its own name from the layers below."""
    with pytest.raises(BadRequestError, match="a file that the layer removes"):
        unpacked(store, tar(file("a"), file("b")), tar(file(".wh.a"), hardlink("b", "a")))


@pytest.mark.extended
def test_whiteouts_become_devices_and_opaque_directories(store: ImageStore) -> None:
    """The mark of an opaque directory may come before or after its files, which stay."""
    tree = unpacked(
        store,
        tar(
            file("etc/.wh.passwd"),
            directory("var"),
            file("var/new", b"x"),
            file("var/.wh..wh..opq"),
            file("opt/.wh..wh..opq"),
            file("opt/new", b"x"),
        ),
    )
    assert _is_whiteout(tree / "etc/passwd")
    assert os.getxattr(tree / "var", _OPAQUE) == os.getxattr(tree / "opt", _OPAQUE) == b"y"
    assert {path.name for path in (*(tree / "var").iterdir(), *(tree / "opt").iterdir())} == {"new"}


@pytest.mark.extended
def test_an_entry_wins_over_a_whiteout_of_its_own_layer(store: ImageStore) -> None:
    """In both orders; a directory in the place of a removed one shows nothing of it."""
    tree = unpacked(
        store,
        tar(
            file(".wh.a"),
            file("a", b"new"),
            file("b", b"new"),
            file(".wh.b"),
            file(".wh.c"),
            directory("c"),
            directory("d"),
            file(".wh.d"),
            file(".wh.e"),
            file("e/inside", b"x"),
        ),
    )
    assert (tree / "a").read_bytes() == (tree / "b").read_bytes() == b"new"
    assert [os.getxattr(tree / name, _OPAQUE) for name in "cde"] == [b"y"] * 3
    assert (tree / "e/inside").read_bytes() == b"x"


@pytest.mark.extended
def test_files_of_aufs_mean_nothing(store: ImageStore) -> None:
    """Old layers have them."""
    tree = unpacked(store, tar(directory(".wh..wh.plnk"), file(".wh..wh.plnk/1.2", b"x"), file(".wh..wh.aufs")))
    assert list(tree.iterdir()) == []


@pytest.mark.extended
def test_directories_that_a_tar_leaves_out_keep_the_lower_layers_attributes(store: ImageStore) -> None:
    """Owner, mode, time and attributes; without any below, they are root's with mode 0755."""
    below = tar(
        directory("srv", mode=0o2770, uid=7, gid=8, mtime=1000, pax_headers=xattrs(user__note=b"hi")),
        directory("usr"),
        directory("usr/lib", mode=0o700),
        symlink("lib", "usr/lib"),
    )
    tree = unpacked(store, below, tar(file("srv/new"), file("lib/new"), file("fresh/new")))
    found = (tree / "srv").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime) == (0o2770, 7, 8, 1000)
    assert os.getxattr(tree / "srv", "user.note") == b"hi"
    assert stat.S_IMODE((tree / "lib").lstat().st_mode) == 0o700
    assert stat.S_IMODE((tree / "fresh").stat().st_mode) == 0o755


@pytest.mark.extended
def test_a_directory_that_a_tar_leaves_out_inherits_no_set_group_id(store: ImageStore) -> None:
    """As with containerd, which sets the mode of each directory that it makes."""
    tree = unpacked(store, tar(directory("a", mode=0o2755), file("a/b/c")))
    assert stat.S_IMODE((tree / "a").stat().st_mode) == 0o2755
    assert stat.S_IMODE((tree / "a/b").stat().st_mode) == 0o755


@pytest.mark.extended
def test_links_to_directories_lead_inside_of_the_layer(store: ImageStore) -> None:
    """Absolute, relative, with "..", and to directories that are still missing."""
    tree = unpacked(
        store,
        tar(
            directory("usr/lib"),
            symlink("lib", "usr/lib"),
            symlink("abs", "/usr/lib"),
            symlink("up", "../../../usr/./lib/../lib"),
            symlink("run", "/var/run"),
            file("lib/a"),
            file("abs/b"),
            file("up/c"),
            file("run/d"),
        ),
    )
    assert {path.name for path in (tree / "usr/lib").iterdir()} == {"a", "b", "c"}
    assert (tree / "var/run/d").exists()
    assert (tree / "lib").is_symlink()


@pytest.mark.extended
def test_the_last_entry_of_a_name_wins_whatever_its_type(store: ImageStore) -> None:
    """A directory with its files too; a directory over a directory keeps them."""
    tree = unpacked(
        store,
        tar(
            directory("a"),
            file("a/lost"),
            file("a", b"file"),
            symlink("b", "a"),
            file("b", b"no link"),
            file("c", b"file"),
            directory("c", mode=0o700),
            file("c/kept"),
            directory("c", mode=0o711),
            directory("d"),
            file("d/lost"),
            symlink("d", "c"),
            file("d/through", b"x"),
            fifo("e"),
            device("e", 1, 5),
            file("f", b"longer"),
            file("f", b"x"),
        ),
    )
    assert (tree / "a").read_bytes() == b"file"
    assert (tree / "b").read_bytes() == b"no link"
    assert stat.S_IMODE((tree / "c").stat().st_mode) == 0o711
    assert {path.name for path in (tree / "c").iterdir()} == {"kept", "through"}
    assert stat.S_ISCHR((tree / "e").stat().st_mode)
    assert (tree / "f").read_bytes() == b"x"


@pytest.mark.extended
def test_what_an_entry_replaces_takes_no_room(store: ImageStore) -> None:
    """It was moved aside while the layer was unpacked."""
    tree = unpacked(store, tar(directory("d"), file("d/old", bytes(10_000)), file("d")))
    assert sorted(path.name for path in tree.parent.iterdir()) == ["fs", "record.json"]


@pytest.mark.extended
def test_the_entry_of_the_root_changes_nothing(store: ImageStore) -> None:
    """As in containerd."""
    tree = unpacked(store, tar(directory("./", mode=0o700, uid=5), file("./a")))
    assert (stat.S_IMODE(tree.stat().st_mode), tree.stat().st_uid) == (0o755, 0)


@pytest.mark.parametrize(
    "form", ["gnu", "pax --sparse-version=0.0", "pax --sparse-version=0.1", "pax --sparse-version=1.0"]
)
@pytest.mark.extended
def test_sparse_files_keep_their_holes(store: ImageStore, scratch: Path, form: str) -> None:
    """In each of GNU tar's formats; the file is 64 MiB long and takes a few blocks."""
    source = scratch / "source"
    source.mkdir()
    with (source / "sparse").open("wb") as holes:
        for offset in range(0, 64 << 20, 2 << 20):
            holes.seek(offset + 12_345)
            holes.write(b"data")
        holes.truncate(64 << 20)
    made = scratch / "sparse.tar"
    command = ["tar", "--sparse", "--format", *form.split(), "-C", str(source), "-cf", str(made), "sparse"]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("GNU tar is not installed")
    tree = unpacked(store, made.read_bytes())
    assert (tree / "sparse").read_bytes() == (source / "sparse").read_bytes()
    assert (tree / "sparse").stat().st_blocks * 512 < 1 << 20


@pytest.mark.extended
def test_layers_of_several_gzip_members_and_padding_are_whole(store: ImageStore, scratch: Path) -> None:
    """As pigz and stargz make them."""
    plain = tar(file("a", b"x" * 100_000))
    packed = b"".join(gzip.compress(plain[at : at + 4096]) for at in range(0, len(plain), 4096)) + bytes(1000)
    archive = scratch / "a.tar"
    _archive_with(archive, plain, packed)
    (image,) = store.import_archive(archive)
    assert (store.layout.tree(image.chain[0]) / "a").read_bytes() == b"x" * 100_000


def _archive_with(path: Path, plain: bytes, packed: bytes) -> None:
    manifest = b"[" + encoded({"Config": "c.json", "RepoTags": ["example.org/a:1"], "Layers": ["l.tar"]}) + b"]"
    write_archive(path, {"manifest.json": manifest, "c.json": config_of([plain]), "l.tar": packed})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"0000644\0", 0o644),
        (b"  644 \0\0", 0o644),
        (bytes(8), 0),
        (b"\x80" + bytes(6) + b"\1", 1),
        (b"\xff" * 8, -1),
        (b"\xc0" + bytes(7), -(1 << 62)),
    ],
)
def test_numbers_are_octal_or_binary_and_may_be_negative(field: bytes, value: int) -> None:
    """As GNU tar writes times before 1970, and sizes of 8 GiB and more."""
    assert number(field) == value
