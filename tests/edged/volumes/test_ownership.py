"""A pod's fsGroup gets the pod's volumes."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from beehive.files.removal import remove_tree
from beehive.files.walking import Walk
from edged.errors import VolumeError
from edged.volumes.ownership import VolumeOwner, owner_of, set_volume_ownership
from modules.apimachinery.types import PodSecurityContext
from tests.beehive.files.trees import DEEP, make_deep, no_way_down
from tests.edged.pods.builders import a_pod

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="giving files to a group needs root")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "volume"
    (top / "sub").mkdir(parents=True, mode=0o700)
    (top / "sub" / "file").touch(mode=0o600)
    (tmp_path / "outside").touch(mode=0o600)
    (top / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(top / "pipe", 0o600)
    return top


def test_everything_in_it_becomes_the_groups(tree: Path, tmp_path: Path) -> None:
    """Files to read and write, directories also to enter, with the bit that hands the group on; links are not followed
    and pipes not opened.
    """
    set_volume_ownership(tree, VolumeOwner(4242))
    assert {path.lstat().st_gid for path in (tree, *tree.rglob("*"))} == {4242}
    assert (mode(tree / "sub"), mode(tree / "sub" / "file"), mode(tree / "pipe")) == (0o2770, 0o660, 0o600)
    assert mode(tree) & 0o2770 == 0o2770
    assert ((tmp_path / "outside").stat().st_gid, mode(tmp_path / "outside")) == (os.getgid(), 0o600)


@pytest.mark.parametrize(("on_mismatch_only", "expected"), [(True, os.getgid()), (False, 4242)])
def test_on_root_mismatch_a_volume_that_is_given_is_left_alone(
    tree: Path, on_mismatch_only: bool, expected: int
) -> None:
    set_volume_ownership(tree, VolumeOwner(4242))
    os.chown(tree / "sub" / "file", -1, os.getgid())
    set_volume_ownership(tree, VolumeOwner(4242, on_mismatch_only))
    assert (tree / "sub" / "file").stat().st_gid == expected


def test_a_run_that_was_interrupted_anywhere_does_not_pass_for_a_complete_one(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give, entries = os.chown, [tree, *tree.rglob("*")]
    for end in range(len(entries)):
        left = iter(range(end))

        def give_some(path: Any, uid: int, gid: int, left: Iterator[int] = left, **options: Any) -> None:
            if next(left, None) is None:
                raise OSError(errno.EIO, "the disk is gone")
            give(path, uid, gid, **options)

        for path in entries:
            give(path, -1, os.getgid(), follow_symlinks=False)
        with monkeypatch.context() as patch, pytest.raises(OSError, match="the disk is gone"):
            patch.setattr(os, "chown", give_some)
            set_volume_ownership(tree, VolumeOwner(4242))
        set_volume_ownership(tree, VolumeOwner(4242, on_mismatch_only=True))
        assert {path.lstat().st_gid for path in entries} == {4242}


@pytest.mark.parametrize("refusal", [errno.EPERM, errno.EACCES, errno.EROFS, errno.EOPNOTSUPP])
def test_what_a_file_system_refuses_stays_and_the_rest_is_given(
    tree: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refusal: int
) -> None:
    """A stick with FAT has no owners, a server that knows no root gives nothing away: a kubelet starts the pod."""
    give, refused = os.chown, (tree / "sub").stat()

    def give_others(path: Any, uid: int, gid: int, **options: Any) -> None:
        found = os.stat(path, dir_fd=options.get("dir_fd"))
        if (found.st_dev, found.st_ino) == (refused.st_dev, refused.st_ino):
            raise OSError(refusal, os.strerror(refusal))
        give(path, uid, gid, **options)

    monkeypatch.setattr(os, "chown", give_others)
    set_volume_ownership(tree, VolumeOwner(4242))
    given = {path.name: path.lstat().st_gid for path in (tree, *tree.rglob("*"))}
    assert given == {"volume": 4242, "file": 4242, "link": 4242, "pipe": 4242, "sub": os.getgid()}
    assert caplog.text.count("cannot be given to the group 4242 as a whole") == 1


def test_an_agent_that_is_not_root_names_the_missing_right(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "chown", Mock(side_effect=PermissionError(errno.EPERM, "not permitted")))
    with pytest.raises(VolumeError, match="fsGroup needs root"):
        set_volume_ownership(tree, VolumeOwner(4242))


@pytest.mark.parametrize("lacking", [0o2770 & ~bit for bit in (0o2000, 0o040, 0o020, 0o010)])
def test_on_root_mismatch_a_volume_that_its_group_cannot_use_is_given_again(tree: Path, lacking: int) -> None:
    """The group of its own directory is not enough: it must be able to read, write and enter it, and hand it on."""
    set_volume_ownership(tree, VolumeOwner(4242))
    os.chown(tree / "sub" / "file", -1, os.getgid())
    tree.chmod(lacking)
    set_volume_ownership(tree, VolumeOwner(4242, on_mismatch_only=True))
    assert ((tree / "sub" / "file").stat().st_gid, mode(tree)) == (4242, 0o2770)


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        (None, None),
        (PodSecurityContext(), None),
        (PodSecurityContext(fs_group=0), VolumeOwner(0)),
        (PodSecurityContext(fs_group=7, fs_group_change_policy="Always"), VolumeOwner(7)),
        (
            PodSecurityContext(fs_group=7, fs_group_change_policy="OnRootMismatch"),
            VolumeOwner(7, on_mismatch_only=True),
        ),
    ],
)
def test_whose_the_volumes_are(security: PodSecurityContext | None, expected: VolumeOwner | None) -> None:
    assert owner_of(a_pod(security_context=security)) == expected


def test_a_tree_that_a_container_has_made_is_given_whatever_its_depth(tmp_path: Path) -> None:
    """Deeper than a function can call itself, and than there are descriptors."""
    top = make_deep(tmp_path / "volume", DEEP, files=True)
    with no_way_down():
        set_volume_ownership(top, VolumeOwner(4242))
    given = {found.entry.stat(follow_symlinks=False).st_gid for found in Walk(top)}
    remove_tree(top)
    assert given == {4242}


def test_without_root_a_group_that_pods_have_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With words; the kernel's would be "Invalid argument"."""
    monkeypatch.setattr("edged.volumes.ownership.namespaces_id", lambda: "abc123")
    with pytest.raises(VolumeError, match="without root pods have those up to 65535"):
        owner_of(a_pod(security_context=PodSecurityContext(fs_group=65_536)))
