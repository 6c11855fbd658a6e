"""Looks into an image that fail half-way: no descriptor stays open."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modules.runtimes.oci.spec.mounts import _real_path
from modules.runtimes.oci.spec.rooted_files import open_by_steps, read_inside, real_path_inside
from tests.support.failing import fail_at_each_kernel_call, left_by_repeating


def _opens_by_steps(root: Path) -> None:
    top = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        os.close(open_by_steps(top, "/etc/passwd"))
    finally:
        os.close(top)


@pytest.mark.parametrize(
    ("operation", "calls"),
    [
        (lambda root: read_inside(root, "/etc/passwd", 100), 3),
        (lambda root: real_path_inside(root, "/etc/passwd"), 2),
        (_opens_by_steps, 4),
        (lambda root: _real_path(str(root)), 2),
    ],
    ids=["read", "real path", "by steps", "of the machine"],
)
def test_files_of_an_image_are_closed_after_a_failure_of_any_call(
    tmp_path: Path, operation: Callable[[Path], object], calls: int
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_bytes(b"root:x:0:0::/:/bin/sh\n")

    assert fail_at_each_kernel_call(lambda: operation(tmp_path)) >= calls


def test_a_path_that_is_missing_in_an_image_leaves_no_descriptor(tmp_path: Path) -> None:
    def look() -> None:
        with pytest.raises(FileNotFoundError):
            real_path_inside(tmp_path, "/missing")

    assert not left_by_repeating(look)
