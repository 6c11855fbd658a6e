"""What a killed edgecore has left in the kernel is found by mountinfo."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from modules.runtimes.oci.leftovers import mount_points, unmount_unknown
from modules.runtimes.shim import kernel


def test_mount_points_of_any_name() -> None:
    """Another program's name with bytes that are not UTF-8, or that Python takes for a line end, is one of them."""
    names = (rb"/a\040b", rb"/c\134d", b"/e\x85f", "/g\x85h".encode(), b"/\xff", b"/i\rj")
    table = b"broken\n" + b"".join(
        b"36 35 98:0 / %b rw,noatime shared:1 - ext3 /dev/root rw\n" % name for name in names
    )
    assert mount_points(table) == ["/a b", "/c\\d", os.fsdecode(b"/e\x85f"), "/g\x85h", os.fsdecode(b"/\xff"), "/i\rj"]


def test_mounts_of_unknown_containers_are_undone_the_last_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of containers that exist, of a directory whose name begins alike, or of the directory itself."""
    unmounted: list[str] = []
    monkeypatch.setattr(kernel, "unmount", lambda path, _flags: unmounted.append(path))
    paths = ("", "/a/root", "/a/root/dev", "/known/root", "x/a/root")
    table = "".join(f"36 35 98:0 / {tmp_path}{path} rw - overlay overlay rw\n" for path in paths)
    read: Any = Mock(return_value=table.encode())
    monkeypatch.setattr(Path, "read_bytes", read)
    unmount_unknown(tmp_path, {"known"})
    assert unmounted == [f"{tmp_path}/a/root/dev", f"{tmp_path}/a/root"]
